//! One pass over the tokens: which elements are units, and the text of their numbers and
//! headings. Checks what the tokenizer does not: tags that pair, attributes that stand
//! once, prefixes that are declared, depth.

use alloc::borrow::Cow;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use xmlparser::{ElementEnd, StrSpan, Token, Tokenizer};

use crate::text::mark::{Lines, MarkContext, MarkError, Region, Warning, head, warning};
use crate::text::profile::{Profile, XmlRules, XmlSource, XmlUnit};

use super::MAX_XML_DEPTH;
use super::attribute::{Attribute, has, qualified, repeated};
use super::text::{attribute_value, decode, push_text};

/// The most text of one number or heading that is read.
const MAX_TITLE_BYTES: usize = 4096;

/// What the document says.
pub(super) struct Read<'p> {
    pub(super) units: Vec<Unit<'p>>,
    pub(super) publication_type: Option<&'p str>,
    pub(super) warnings: Vec<Warning>,
}

/// An element that is a unit.
pub(super) struct Unit<'p> {
    pub(super) rule: &'p XmlUnit,
    pub(super) parent: Option<usize>,
    /// Where its `<` stands, in the file.
    pub(super) start: usize,
    /// The text of its number and heading, by place.
    pub(super) texts: Vec<Found<'p>>,
    pub(super) aliases: Vec<String>,
    pub(super) section_type: Option<&'p str>,
}

/// Text that stands in one of the places of a rule.
pub(super) struct Found<'p> {
    pub(super) source: &'p XmlSource,
    pub(super) text: String,
    /// From the `<` of the element to the end of its end tag, in the file.
    pub(super) span: Region,
}

/// An open element.
struct Frame<'a> {
    prefix: &'a str,
    local: &'a str,
    /// It is in the namespace of the root element.
    ours: bool,
    raised: bool,
    breaks: bool,
    /// How many prefixes it declares.
    declared: usize,
}

/// A number or heading that is being read.
struct Capture<'p> {
    /// Depth of its element.
    depth: usize,
    found: Found<'p>,
}

struct Reader<'a, 'p> {
    base: usize,
    rules: &'p XmlRules,
    profile: &'p Profile,
    cut: &'p [XmlUnit],
    lines: Lines<'a>,
    stack: Vec<Frame<'a>>,
    /// Namespaces by prefix, the innermost last.
    namespaces: BTreeMap<&'a str, Vec<Cow<'a, str>>>,
    declared: Vec<&'a str>,
    root_namespace: String,
    attributes: Vec<Attribute<'a>>,
    /// The open units: the unit and the depth of its element.
    open: Vec<(usize, usize)>,
    /// Depth of the outermost element that is skipped.
    skipped: Option<usize>,
    captures: Vec<Capture<'p>>,
    raised: usize,
    read: Read<'p>,
}

/// Reads the document.
pub(super) fn read<'a, 'p>(
    source: &'a [u8],
    text: &'a str,
    region: Region,
    rules: &'p XmlRules,
    context: &MarkContext<'p>,
) -> Result<Read<'p>, MarkError> {
    let profile = context.profile;
    let mut reader = Reader {
        base: region.start,
        rules,
        profile,
        cut: rules.cut_units(),
        lines: Lines::new(source),
        stack: Vec::new(),
        namespaces: BTreeMap::new(),
        declared: Vec::new(),
        root_namespace: String::new(),
        attributes: Vec::new(),
        open: Vec::new(),
        skipped: None,
        captures: Vec::new(),
        raised: 0,
        read: Read { units: Vec::new(), publication_type: None, warnings: Vec::new() },
    };
    let mut element: Option<(StrSpan<'a>, StrSpan<'a>, usize)> = None;
    let mut seen_root = false;
    for token in Tokenizer::from(text) {
        let token = token.map_err(|error| reader.not_well_formed(&error, text))?;
        match token {
            Token::ElementStart { prefix, local, span } => {
                seen_root = true;
                element = Some((prefix, local, span.start()));
                reader.attributes.clear();
            }
            Token::Attribute { prefix, local, value, .. } => {
                let (prefix, local, raw) = (prefix.as_str(), local.as_str(), value.as_str());
                reader.attributes.push(Attribute { prefix, local, raw });
                context.limits.check_marks(text.len(), reader.attributes.len())?;
            }
            Token::ElementEnd { end: ElementEnd::Close(prefix, local), span } => {
                reader.close(prefix.as_str(), local.as_str(), span)?;
            }
            Token::ElementEnd { end: kind, span } => {
                if let Some((prefix, local, start)) = element.take() {
                    reader.open(prefix.as_str(), local.as_str(), reader.base + start)?;
                    context.limits.check_marks(text.len(), reader.read.units.len())?;
                    if kind == ElementEnd::Empty {
                        reader.close(prefix.as_str(), local.as_str(), span)?;
                    }
                }
            }
            Token::Text { text } => reader.text(text.as_str(), true),
            Token::Cdata { text, .. } => reader.text(text.as_str(), false),
            Token::Declaration { encoding: Some(encoding), .. } => reader.encoding(encoding.as_str()),
            Token::EntityDeclaration { span, .. } => reader.entity(reader.base + span.start()),
            _ => {}
        }
    }
    if let Some(frame) = reader.stack.last() {
        let expected = format!("the end tag </{}>", qualified(frame.prefix, frame.local));
        return Err(reader.wrong(region.end, expected, "the end of the document"));
    }
    if !seen_root || element.is_some() {
        return Err(reader.wrong(region.end, "a root element", "the end of the document"));
    }
    Ok(reader.read)
}

impl<'a, 'p> Reader<'a, 'p> {
    fn wrong(&mut self, at: usize, expected: impl Into<String>, observed: impl Into<String>) -> MarkError {
        MarkError::Xml { line: self.lines.line_of(at), expected: expected.into(), observed: observed.into() }
    }

    fn not_well_formed(&mut self, error: &xmlparser::Error, text: &str) -> MarkError {
        // The tokenizer counts lines of LF in its own text, and columns in characters.
        let place = error.pos();
        let row = usize::try_from(place.row).unwrap_or(1).saturating_sub(1);
        let before: usize = text.split_inclusive('\n').take(row).map(str::len).sum();
        self.wrong(self.base + before, "well-formed XML", error.to_string())
    }

    fn encoding(&mut self, declared: &str) {
        if !["utf-8", "us-ascii", "ascii"].iter().any(|name| declared.eq_ignore_ascii_case(name)) {
            let message = format!("the document declares {declared} and is UTF-8: it is read as UTF-8");
            self.read.warnings.push(warning("declared_encoding", Some(1), message));
        }
    }

    fn entity(&mut self, at: usize) {
        if self.read.warnings.iter().all(|w| w.code != "entities_not_expanded") {
            let line = self.lines.line_of(at);
            let message = "the document declares entities: they are cut as they are written, not expanded";
            self.read.warnings.push(warning("entities_not_expanded", Some(line), message));
        }
    }

    fn text(&mut self, raw: &str, references: bool) {
        if self.captures.is_empty() || self.skipped.is_some() {
            return;
        }
        let text = if references { decode(raw) } else { Cow::Borrowed(raw) };
        let shown = head(&text, MAX_TITLE_BYTES);
        let raised = self.raised > 0;
        for capture in &mut self.captures {
            if capture.found.text.len() < MAX_TITLE_BYTES {
                push_text(&mut capture.found.text, shown, raised);
            }
        }
    }

    fn blank(&mut self) {
        for capture in &mut self.captures {
            if capture.found.text.len() < MAX_TITLE_BYTES {
                capture.found.text.push(' ');
            }
        }
    }

    fn open(&mut self, prefix: &'a str, local: &'a str, start: usize) -> Result<(), MarkError> {
        if self.stack.len() >= MAX_XML_DEPTH {
            let expected = format!("at most {MAX_XML_DEPTH} elements inside each other");
            return Err(self.wrong(start, expected, format!("<{}> one deeper", qualified(prefix, local))));
        }
        if let Some(name) = repeated(&self.attributes) {
            return Err(self.wrong(start, "every attribute of an element once", format!("{name} twice")));
        }
        let declared = self.declare();
        let namespace = self.namespaces.get(prefix).and_then(|bound| bound.last());
        if namespace.is_none() && !prefix.is_empty() && prefix != "xml" {
            let observed = format!("<{prefix}:{local}>, and nothing declares {prefix}");
            return Err(self.wrong(start, "a declared namespace prefix", observed));
        }
        let namespace = namespace.map_or("", Cow::as_ref);
        if self.stack.is_empty() {
            if !self.rules.fits(namespace, local) {
                let expected = format!("a root element of the profile {}", self.profile.name);
                let observed = format!("<{local}> in the namespace {namespace:?}");
                return Err(self.wrong(start, expected, observed));
            }
            self.root_namespace = namespace.into();
        }
        let ours = namespace == self.root_namespace;
        let fits = |element: &str, attribute: Option<&str>, value: Option<&str>| {
            ours && element == local && has(&self.attributes, attribute, value)
        };
        let raised = self
            .rules
            .superscript
            .iter()
            .any(|m| fits(&m.element, m.attribute.as_deref(), m.value.as_deref()));
        let breaks = ours && self.rules.breaks.iter().any(|name| name == local);
        if self.read.publication_type.is_none() {
            let mut words = self.rules.publication_types.iter();
            self.read.publication_type = words
                .find(|word| fits(&word.is.element, word.is.attribute.as_deref(), word.is.value.as_deref()))
                .map(|word| word.publication_type.as_str());
        }
        let root = self.stack.is_empty();
        self.stack.push(Frame { prefix, local, ours, raised, breaks, declared });
        self.raised += usize::from(raised);
        if breaks {
            self.blank();
        }
        if self.skipped.is_none() && ours && !root {
            if self.rules.skip.iter().any(|name| name == local) {
                self.skipped = Some(self.stack.len());
            } else if self.captures.is_empty() {
                self.unit(start, local);
            }
            if self.skipped.is_none() {
                self.capture(start);
            }
        }
        Ok(())
    }

    /// Binds the prefixes that the element declares, and says how many.
    fn declare(&mut self) -> usize {
        let before = self.declared.len();
        for attribute in &self.attributes {
            let prefix = match (attribute.prefix, attribute.local) {
                ("", "xmlns") => "",
                ("xmlns", local) => local,
                _ => continue,
            };
            self.namespaces.entry(prefix).or_default().push(attribute_value(attribute.raw));
            self.declared.push(prefix);
        }
        self.declared.len() - before
    }

    /// Makes the element a unit where a rule says so.
    fn unit(&mut self, start: usize, local: &str) {
        let rule = self.cut.iter().find(|rule| {
            rule.element == local && has(&self.attributes, rule.attribute.as_deref(), rule.value.as_deref())
        });
        let most = self.profile.depth.map_or(usize::MAX, |n| usize::try_from(n).unwrap_or(usize::MAX));
        let Some(rule) = rule.filter(|_| self.open.len() < most) else { return };
        let value = |name: &str| self.attributes.iter().find(|a| a.is(name)).map(|a| attribute_value(a.raw));
        let mut aliases: Vec<String> = Vec::new();
        for alias in self.rules.aliases.iter().filter_map(|name| value(name)) {
            if !alias.is_empty() && !aliases.iter().any(|known| *known == alias) {
                aliases.push(alias.into_owned());
            }
        }
        let mut types = self.rules.section_types.iter();
        let section_type = types
            .find(|rule| value(&rule.attribute).is_some_and(|v| v == rule.value))
            .map(|rule| rule.section_type.as_str());
        let parent = self.open.last().map(|&(unit, _)| unit);
        self.open.push((self.read.units.len(), self.stack.len()));
        self.read.units.push(Unit { rule, parent, start, texts: Vec::new(), aliases, section_type });
    }

    /// Begins to read the element as a number or heading of the unit around it, as long as
    /// no other unit has begun since.
    fn capture(&mut self, start: usize) {
        let Some(&(unit, depth)) = self.open.last() else { return };
        if unit + 1 != self.read.units.len() {
            return;
        }
        let Some(unit) = self.read.units.get_mut(unit) else { return };
        let path = self.stack.get(depth..).unwrap_or_default();
        let is_here = |source: &XmlSource| {
            let mut names = source.path.split('/').filter(|name| !name.is_empty());
            path.iter().all(|f| f.ours && names.next() == Some(f.local)) && names.next().is_none()
        };
        let sources =
            unit.rule.number.as_ref().unwrap_or(&self.rules.number).iter().chain(&self.rules.heading);
        for source in sources.filter(|source| is_here(source)) {
            let known = unit.texts.iter().any(|found| found.source == source)
                || self.captures.iter().any(|capture| capture.found.source == source);
            if known {
                continue;
            }
            let span = Region { start, end: start };
            match &source.attribute {
                Some(name) => {
                    if let Some(a) = self.attributes.iter().find(|a| a.is(name)) {
                        let text = attribute_value(a.raw).into_owned();
                        unit.texts.push(Found { source, text, span });
                    }
                }
                None => self.captures.push(Capture {
                    depth: self.stack.len(),
                    found: Found { source, text: String::new(), span },
                }),
            }
        }
    }

    fn close(&mut self, prefix: &str, local: &str, span: StrSpan<'_>) -> Result<(), MarkError> {
        let at = self.base + span.start();
        let depth = self.stack.len();
        let Some(frame) = self.stack.pop() else {
            return Err(self.wrong(at, "no end tag here", format!("</{}>", qualified(prefix, local))));
        };
        if (frame.prefix, frame.local) != (prefix, local) {
            let expected = format!("the end tag </{}>", qualified(frame.prefix, frame.local));
            return Err(self.wrong(at, expected, format!("</{}>", qualified(prefix, local))));
        }
        while let Some(mut capture) = self.captures.pop_if(|capture| capture.depth == depth) {
            capture.found.span.end = self.base + span.end();
            if let Some(unit) = self.open.last().and_then(|&(unit, _)| self.read.units.get_mut(unit)) {
                unit.texts.push(capture.found);
            }
        }
        self.open.pop_if(|&mut (_, opened)| opened == depth);
        if self.skipped == Some(depth) {
            self.skipped = None;
        }
        self.raised -= usize::from(frame.raised);
        if frame.breaks {
            self.blank();
        }
        for _ in 0..frame.declared {
            if let Some(bound) = self.declared.pop().and_then(|prefix| self.namespaces.get_mut(prefix)) {
                bound.pop();
            }
        }
        Ok(())
    }
}
