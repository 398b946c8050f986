//! The places of a Rust file where a rule can be turned or taken out, and the same file with all of
//! them built in, so that a number chooses one while the tests run. Knows no compiler: whether a
//! change has the right types is seen when it is built.

use std::ops::Range;

use syn::spanned::Spanned as _;
use syn::visit::{self, Visit};

use super::conditions::Class;

/// A place, and what it becomes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The function that it stands in.
    pub within: String,
    /// Its bytes.
    pub bytes: Range<usize>,
    /// How it changes.
    pub change: How,
    /// Of which kind that is.
    pub class: Class,
    /// What it reads today, on one line, and what it becomes.
    pub words: String,
}

/// How a place changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum How {
    /// The expression becomes this one.
    Becomes(String),
    /// The statement is left out.
    LeftOut,
    /// The function ends at once with this.
    Returns(String),
    /// The arm of a match is passed over; it has a guard already, or none.
    PassedOver {
        /// Whether it has a guard.
        guarded: bool,
    },
}

/// All places of a file, in their order.
///
/// # Errors
/// If it is no Rust.
pub fn of_file(text: &str) -> Result<Vec<Place>, String> {
    let file = syn::parse_file(text).map_err(|error| error.to_string())?;
    let mut finder = Finder { text, names: Vec::new(), places: Vec::new() };
    finder.visit_file(&file);
    finder.places.sort_by_key(|place| (place.bytes.start, std::cmp::Reverse(place.bytes.end)));
    Ok(finder.places)
}

/// The file with these places built in, each under its number.
#[must_use]
pub fn built_in(text: &str, places: &[(usize, Place)]) -> String {
    let mut sorted: Vec<&(usize, Place)> = places.iter().collect();
    sorted.sort_by_key(|(_, place)| (place.bytes.start, std::cmp::Reverse(place.bytes.end)));
    render(text, 0..text.len(), &sorted)
}

/// A part of the text with the places inside it.
fn render(text: &str, range: Range<usize>, places: &[&(usize, Place)]) -> String {
    let mut made = String::new();
    let mut at = range.start;
    let mut n = 0;
    while let Some((number, place)) = places.get(n).copied() {
        let inside =
            places[n + 1..].iter().take_while(|(_, other)| other.bytes.end <= place.bytes.end).count();
        let inner = &places[n + 1..=n + inside];
        made.push_str(&text[at..place.bytes.start]);
        let kept = render(text, place.bytes.clone(), inner);
        let is_on = format!("crate::mutant::is_on({number})");
        made.push_str(&match &place.change {
            How::Becomes(other) => format!("(if {is_on} {{ {other} }} else {{ {kept} }})"),
            How::LeftOut => format!("if !{is_on} {{ {kept} }}"),
            How::Returns(value) => format!("if {is_on} {{ return {value}; }} {kept}"),
            How::PassedOver { guarded: true } => format!("!{is_on} && ({kept})"),
            How::PassedOver { guarded: false } => format!("{kept} if !{is_on}"),
        });
        at = place.bytes.end;
        n += 1 + inside;
    }
    made.push_str(&text[at..range.end]);
    made
}

struct Finder<'t> {
    text: &'t str,
    names: Vec<String>,
    places: Vec<Place>,
}

fn is_test(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let path = attribute.path();
        let of_cfg = || match &attribute.meta {
            syn::Meta::List(list) => list.tokens.to_string().contains("test"),
            _ => false,
        };
        path.is_ident("test") || path.is_ident("cfg") && of_cfg()
    })
}

fn has_let(expression: &syn::Expr) -> bool {
    struct Seen(bool);
    impl Visit<'_> for Seen {
        fn visit_expr_let(&mut self, _: &syn::ExprLet) {
            self.0 = true;
        }
        fn visit_expr_closure(&mut self, _: &syn::ExprClosure) {}
        fn visit_expr_block(&mut self, _: &syn::ExprBlock) {}
    }
    let mut seen = Seen(false);
    seen.visit_expr(expression);
    seen.0
}

impl Finder<'_> {
    fn line(&self, bytes: &Range<usize>) -> String {
        let words: Vec<&str> = self.text[bytes.clone()].split_whitespace().collect();
        let line = words.join(" ");
        if line.chars().count() <= 110 { line } else { line.chars().take(109).chain(['…']).collect() }
    }

    fn push(&mut self, class: Class, bytes: Range<usize>, change: How, what: &str) {
        if self.names.is_empty() {
            return;
        }
        let place = Place {
            within: self.names.join("::"),
            words: format!("{} => {what}", self.line(&bytes)),
            bytes,
            change,
            class,
        };
        self.places.push(place);
    }

    fn becomes(&mut self, class: Class, expression: &syn::Expr, other: String) {
        let what = other.split_whitespace().collect::<Vec<_>>().join(" ");
        let what: String =
            if what.chars().count() > 110 { what.chars().take(109).chain(['…']).collect() } else { what };
        self.push(class, expression.span().byte_range(), How::Becomes(other), &what);
    }

    fn source(&self, node: &impl syn::spanned::Spanned) -> &str {
        &self.text[node.span().byte_range()]
    }

    /// A condition as a whole: never, and always.
    fn condition(&mut self, condition: &syn::Expr) {
        if !has_let(condition) && !matches!(condition, syn::Expr::Lit(_)) {
            self.becomes(Class::Condition, condition, "false".to_owned());
            if !matches!(condition, syn::Expr::Binary(_) | syn::Expr::Unary(_)) {
                self.becomes(Class::Condition, condition, "true".to_owned());
            }
        }
    }

    fn function(&mut self, signature: &syn::Signature, block: &syn::Block) {
        // a const function chooses nothing while it runs
        let is_const = signature.constness.is_some();
        self.names.push(signature.ident.to_string());
        if !is_const {
            self.early(&signature.output, block);
            visit::visit_block(self, block);
        }
        self.names.pop();
    }

    /// A function that ends at once, content.
    fn early(&mut self, output: &syn::ReturnType, block: &syn::Block) {
        let syn::ReturnType::Type(_, returned) = output else { return };
        let Some(first) = block.stmts.first() else { return };
        let shape: String = self.source(returned).split_whitespace().collect();
        let values: &[&str] = match shape.as_str() {
            "bool" => &["true", "false"],
            "Result<(),String>" => &["Ok(())"],
            s if s.starts_with("Result<(),") || s == "PortResult<()>" || s == "Flow<()>" => &["Ok(())"],
            s if s.starts_with("Option<") => &["None"],
            s if s.starts_with("Vec<") => &["Vec::new()"],
            _ => &[],
        };
        let at = first.span().byte_range().start;
        for value in values {
            self.push(Class::Refusal, at..at, How::Returns((*value).to_owned()), &format!("return {value}"));
        }
    }
}

impl<'ast> Visit<'ast> for Finder<'_> {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !is_test(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        if !is_test(&item.attrs) {
            self.function(&item.sig, &item.block);
        }
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if !is_test(&item.attrs) {
            self.function(&item.sig, &item.block);
        }
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if let Some(block) = &item.default {
            self.function(&item.sig, block);
        }
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        if is_test(&item.attrs) {
            return;
        }
        let name: String = self.source(&item.self_ty).split_whitespace().collect();
        self.names.push(name);
        visit::visit_item_impl(self, item);
        self.names.pop();
    }

    // what the compiler computes: no number chooses there
    fn visit_item_const(&mut self, _: &'ast syn::ItemConst) {}
    fn visit_impl_item_const(&mut self, _: &'ast syn::ImplItemConst) {}
    fn visit_item_static(&mut self, _: &'ast syn::ItemStatic) {}
    fn visit_type(&mut self, _: &'ast syn::Type) {}
    fn visit_expr_const(&mut self, _: &'ast syn::ExprConst) {}
    fn visit_pat(&mut self, _: &'ast syn::Pat) {}
    fn visit_attribute(&mut self, _: &'ast syn::Attribute) {}
    fn visit_expr_repeat(&mut self, item: &'ast syn::ExprRepeat) {
        self.visit_expr(&item.expr);
    }

    fn visit_expr_if(&mut self, item: &'ast syn::ExprIf) {
        self.condition(&item.cond);
        visit::visit_expr_if(self, item);
    }

    fn visit_arm(&mut self, arm: &'ast syn::Arm) {
        if let Some((_, guard)) = &arm.guard
            && !has_let(guard)
        {
            let bytes = guard.span().byte_range();
            self.push(
                Class::Condition,
                bytes.clone(),
                How::PassedOver { guarded: true },
                "the arm passed over",
            );
            self.becomes(Class::Condition, guard, "true".to_owned());
        }
        visit::visit_arm(self, arm);
    }

    fn visit_expr_match(&mut self, item: &'ast syn::ExprMatch) {
        // a match with an arm for the rest: each other arm without a guard may be passed over
        let ends_with_the_rest = item.arms.last().is_some_and(|arm| matches!(arm.pat, syn::Pat::Wild(_)));
        if ends_with_the_rest {
            for arm in &item.arms[..item.arms.len() - 1] {
                if arm.guard.is_none() {
                    let bytes = arm.pat.span().byte_range();
                    self.push(
                        Class::Condition,
                        bytes,
                        How::PassedOver { guarded: false },
                        "the arm passed over",
                    );
                }
            }
        }
        visit::visit_expr_match(self, item);
    }

    fn visit_expr_binary(&mut self, item: &'ast syn::ExprBinary) {
        use syn::BinOp as B;
        let other = match item.op {
            B::Eq(_) => "!=",
            B::Ne(_) => "==",
            B::Lt(_) => "<=",
            B::Le(_) => "<",
            B::Gt(_) => ">=",
            B::Ge(_) => ">",
            B::And(_) => "||",
            B::Or(_) => "&&",
            _ => "",
        };
        let whole = syn::Expr::Binary(item.clone());
        if !other.is_empty() && !has_let(&whole) {
            let (left, right) = (self.source(&item.left), self.source(&item.right));
            let made = format!("({left}) {other} ({right})");
            // brackets only where they are needed for what it means, not in the words
            let bytes = item.span().byte_range();
            let words = format!("{left} {other} {right}").split_whitespace().collect::<Vec<_>>().join(" ");
            let words: String = words.chars().take(110).collect();
            let class = if matches!(other, "&&" | "||") { Class::Condition } else { Class::Comparison };
            self.push(class, bytes, How::Becomes(made), &words);
        }
        visit::visit_expr_binary(self, item);
    }

    fn visit_expr_unary(&mut self, item: &'ast syn::ExprUnary) {
        if matches!(item.op, syn::UnOp::Not(_)) {
            let inner = self.source(&item.expr).to_owned();
            self.becomes(Class::Condition, &syn::Expr::Unary(item.clone()), inner);
        }
        visit::visit_expr_unary(self, item);
    }

    fn visit_expr_lit(&mut self, item: &'ast syn::ExprLit) {
        if let syn::Lit::Int(number) = &item.lit
            && let Ok(value) = number.base10_parse::<u128>()
        {
            let made = format!("{}{}", value + 1, number.suffix());
            self.becomes(Class::Number, &syn::Expr::Lit(item.clone()), made);
        }
    }

    fn visit_expr_macro(&mut self, item: &'ast syn::ExprMacro) {
        if item.mac.path.is_ident("matches") {
            let other = format!("!{}", self.source(item));
            self.becomes(Class::Condition, &syn::Expr::Macro(item.clone()), other);
        }
    }

    fn visit_stmt(&mut self, statement: &'ast syn::Stmt) {
        if let syn::Stmt::Expr(expression, Some(_)) = statement {
            let mut inner = expression;
            while let syn::Expr::Try(tried) = inner {
                inner = &tried.expr;
            }
            if matches!(inner, syn::Expr::MethodCall(_) | syn::Expr::Call(_) | syn::Expr::Await(_)) {
                self.push(Class::Call, statement.span().byte_range(), How::LeftOut, "left out");
            }
        }
        visit::visit_stmt(self, statement);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "
const N: usize = 3;
impl Rule {
    fn holds(&self, a: u32, b: bool) -> bool {
        if !b || a < 3 {
            self.note(a)?;
            return false;
        }
        match a { 1 => true, 2 if b => false, _ => matches!(self, Rule::A) }
    }
}
#[cfg(test)]
mod tests { fn t() { assert!(1 == 1); } }
#[cfg(any(test, feature = \"memory\"))]
impl Rule { fn example() -> bool { 1 == 1 } }
";

    #[test]
    fn each_kind_of_place_is_found_and_what_tests_compile_is_not() {
        let found: Vec<String> =
            of_file(FILE).unwrap().into_iter().map(|p| format!("{} {}", p.within, p.words)).collect();
        for expected in [
            "Rule::holds  => return true",
            "Rule::holds  => return false",
            "Rule::holds !b || a < 3 => false",
            "Rule::holds !b || a < 3 => !b && a < 3",
            "Rule::holds !b => b",
            "Rule::holds a < 3 => a <= 3",
            "Rule::holds 3 => 4",
            "Rule::holds self.note(a)?; => left out",
            "Rule::holds 1 => the arm passed over",
            "Rule::holds b => the arm passed over",
            "Rule::holds b => true",
            "Rule::holds matches!(self, Rule::A) => !matches!(self, Rule::A)",
        ] {
            assert!(found.contains(&expected.to_owned()), "{expected}: {found:#?}");
        }
        assert_eq!(found.len(), 12, "{found:#?}");
    }

    #[test]
    fn what_is_built_in_is_rust_again_with_every_number_in_it() {
        let places: Vec<(usize, Place)> = of_file(FILE).unwrap().into_iter().enumerate().collect();
        let built = built_in(FILE, &places);
        assert!(syn::parse_file(&built).is_ok(), "{built}");
        for (number, _) in &places {
            assert!(built.contains(&format!("is_on({number})")), "{number}: {built}");
        }
    }
}
