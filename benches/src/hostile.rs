//! Texts that a careless cut takes square time for, for every built-in profile: sizes that no
//! real document has, and shapes that keep something open for long. Shared with the tests.

/// A text and what it is called.
pub type Hostile = (String, String);

/// The shape of an article, and of a heading that only names one, by profile.
#[must_use]
pub fn article(profile: &str, number: usize) -> String {
    match profile {
        "de" => format!("## § {number} Titel\n\nText.\n\n"),
        "fr" => format!("**Article {number}**\n\nTexte.\n\n"),
        "cz" => format!("#### § {number}\n\nText.\n\n"),
        "ee" => format!("##### § {number}. Pealkiri\n\nTekst.\n\n"),
        "fi" => format!("##### {number} § Otsikko\n\nTeksti.\n\n"),
        "no" => format!("### § {number}. Tittel\n\nTekst.\n\n"),
        "nl" => format!("##Artikel {number}\n\nTekst.\n\n"),
        "vn" => format!("Điều {number}. Tên\n\nNội dung.\n\n"),
        "vn-phapdien" => {
            format!("##### {:018}\n\nĐiều 44.4.NĐ.{number}. Tên\n\nNội dung.\n\n", number)
        }
        "cn" => format!("第{number}条　内容。\n\n"),
        "kr" => format!("##### 제{number}조 (제목)\n\n내용\n\n"),
        "jp" => format!("第{number}条　内容。\n\n"),
        "uy" => format!("### Artículo {number}\n\nTexto.\n\n"),
        "pe" => format!("Artículo {number}.- Texto.\n\n"),
        "us" => format!("### Article {number}\n\nText.\n\n"),
        "en" => format!("Section {number}.\n\nText.\n\n"),
        "rfc-text" => format!("{number}.  Title\n\n   Text.\n\n"),
        "rst" => format!("Section {number}\n===============\n\nText.\n\n"),
        _ => format!("## Section {number}\n\nText.\n\n"),
    }
}

/// The hostile texts of a Markdown or plain-text profile, `scale` being 1 for the whole size
/// (megabytes and 100,000 headings).
#[must_use]
pub fn texts(profile: &str, scale: usize) -> Vec<Hostile> {
    let scale = scale.max(1);
    let (megabyte, many) = ((1 << 20) / scale, 100_000 / scale);
    let fill = |what: &str| what.repeat(megabyte / what.len().max(1));
    let lines = |one: &dyn Fn(usize) -> String| (0..many).map(one).collect::<String>();
    let article = |number| article(profile, number);
    let first = article(1);
    let mut found: Vec<Hostile> = Vec::new();
    let mut add = |name: &str, text: String| found.push((name.to_owned(), text));

    add(
        "4 MB in one section",
        format!("{first}{}", "A line of text as long as lines are.\n".repeat(megabyte / 8)),
    );
    add("4 MB in one line", format!("{first}{}", "a word. ".repeat(megabyte / 2)));
    add("articles", lines(&|i| article(i + 1)));
    add("equal articles", article(1).repeat(many));
    add("articles backwards", lines(&|i| article(many - i)));
    add("every other article", lines(&|i| article(2 * i + 1)));
    add("references in one article", format!("{first}{}", lines(&|_| article(7))));
    let clauses = "1. a\n\n(1) b\n\n(a) c\n\na) d\n\n（一）项\n\n一　号\n\n";
    add("articles with clauses", (0..many / 4).map(|i| article(i + 1) + clauses).collect());
    add(
        "clauses of one article",
        format!("{first}{}", lines(&|i| format!("{}. a\n（{i}）b\n({}) c\n", i + 1, i + 1))),
    );
    add("headings", lines(&|i| format!("## Heading {i}\n\ntext\n")));
    add("equal headings", "## Same\n\ntext\n".repeat(many));
    add("headings without text", lines(&|i| format!("# H{i}\n")));
    add("empty headings", "#\n".repeat(2 * many));
    add("deeper and deeper", lines(&|i| format!("{} H{i}\n", "#".repeat(i % 6 + 1))));
    add(
        "plain headings before an article",
        format!("{}{}", lines(&|i| format!("# H{i}\n\n")), article(1).repeat(9)),
    );
    add("underlined headings", lines(&|i| format!("Heading {i}\n-----\n\n")));
    add("id headings", lines(&|i| format!("##### {i:018}\n\n")));
    add("names", lines(&|i| format!("r[a.b{i}]\n")));
    add("names without end", "r[".repeat(megabyte / 2));
    for what in [
        "#",
        "[",
        "7",
        "7 ",
        "第",
        "第一",
        "제",
        "§",
        "§ ",
        "§ 1 ",
        "Điều ",
        "Điều 1.1.",
        "Article ",
        "a.A",
        ".Đ",
        "1. ",
        "1. \n",
        "1.\n\n",
        "a) \n",
        "（一）\n",
        "一\n",
        ">",
        "> ",
        "`",
        "~",
        "-",
        "- ",
        "=\n",
        "a\n-\n",
        "<",
        "<!--",
        "<!-- -->",
        "<sup>",
        "\\",
        "*",
        "**a",
        "_",
        "&",
        "![",
        "](",
        "\n",
        "\r",
        "\r\n",
        "\x0c",
        "\u{200b}",
        "{#",
        "|",
        "1.1.",
        "I.",
        "10bis ",
        "II",
        "十",
    ] {
        let shown = what.escape_debug();
        add(&format!("nothing but {shown}"), fill(what));
        add(&format!("an article of {shown}"), format!("{first}{}", fill(what)));
        if !what.contains(['\n', '\r']) {
            add(&format!("a title of {shown}"), format!("## {}\n", fill(what)));
            add(&format!("{shown} and a bare CR"), format!("{}\r# x\r", fill(what)));
        }
    }
    // Fences that never close: of one length, of two, of rising and of falling length.
    for mark in ["`", "~"] {
        add(&format!("unclosed fences of {mark}"), lines(&|i| format!("{} a{i}\n", mark.repeat(3))));
        add(&format!("longer unclosed fences of {mark}"), lines(&|i| format!("{} a{i}\n", mark.repeat(4))));
        add(
            &format!("unclosed fences of {mark} of many lengths"),
            lines(&|i| format!("{} a{i}\n", mark.repeat(3 + i % 60))),
        );
        add(
            &format!("fences of {mark} closed by shorter ones"),
            lines(&|i| {
                if i % 2 == 0 { format!("{} a\n", mark.repeat(5)) } else { format!("{}\n", mark.repeat(4)) }
            }),
        );
        add(&format!("falling fences of {mark}"), {
            let side = (2 * megabyte).isqrt();
            (3..side).rev().map(|i| format!("{} a\n", mark.repeat(i))).collect()
        });
        add(&format!("rising fences of {mark}"), {
            let side = (2 * megabyte).isqrt();
            (3..side).map(|i| format!("{} a\n", mark.repeat(i))).collect()
        });
    }
    add("unclosed comments", "<!-- a\n".repeat(many));
    add("unclosed comments in paragraphs", "a\n\n<!--\n\n".repeat(many));
    add("underlines", "a\n===\n".repeat(many));
    add("table borders", "=== ===\n".repeat(many));
    add("open tables", "\n=== ===\na b\n".repeat(many));
    add("quotes of depth", (0..(2 * megabyte).isqrt()).map(|i| format!("{}\n", ">".repeat(i))).collect());
    add("lists of depth", (0..(megabyte).isqrt()).map(|i| format!("{}- a\n", "  ".repeat(i))).collect());
    add("front matter without end", format!("---\n{}", "key: value\n".repeat(many)));
    add("one long underlined paragraph", format!("{}---\n", "a line of it\n".repeat(many)));
    add("glued designators", format!("\n\nX{}", ".Điều 44.4.NĐ.1. x".repeat(many)));
    let blanks = " ".repeat(megabyte / 2);
    add("glued designators and blanks", format!("\n\nX{}{blanks}", ".Điều 44.4.NĐ.1. x".repeat(many / 8)));
    add("glued words and blanks", format!("\n\nX{}{blanks}", ".Điều".repeat(many)));
    for (name, text) in tiny(profile, scale) {
        add(&name, text);
    }
    found
}

/// Texts that are little else than the beginnings of units: what a unit takes beside its own bytes counts.
#[must_use]
pub fn tiny(profile: &str, scale: usize) -> Vec<Hostile> {
    let (megabyte, many) = ((1 << 20) / scale.max(1), 100_000 / scale.max(1));
    let fill = |what: &str| what.repeat(megabyte / what.len().max(1));
    let lines = |one: &dyn Fn(usize) -> String| (0..many).map(one).collect::<String>();
    let first = article(profile, 1);
    let mut found: Vec<Hostile> = Vec::new();
    let mut add = |name: &str, text: String| found.push((name.to_owned(), text));
    for what in [
        "# h\n",
        "##### h\n",
        "h\n=\n",
        "h\n---\n",
        "a\n",
        "a\n\n",
        "§ 1\n",
        "§ 1\n\n",
        "Article 1\n",
        "Article 1\n\n",
        "1. a\n",
        "1.\n\n",
        "1.  A\n\n   b\n",
        "- a\n",
        "- - - - a\n",
        "> > > > a\n",
        "* * *\n",
        "[a]: b\n",
        "r[a]\n",
        "***",
    ] {
        let shown = what.escape_debug();
        add(&format!("tiny: {shown}"), fill(what));
        add(&format!("tiny: an article of {shown}"), format!("{first}{}", fill(what)));
        // Without its bare CR the fast scanner reads it, with it the parser does.
        add(&format!("tiny: {shown} behind a bare CR"), format!("a\r{}", fill(what)));
    }
    add("tiny: headings of every level", lines(&|i| format!("{} h\n", "#".repeat(i % 6 + 1))));
    add("tiny: other headings", lines(&|i| format!("# {i:x}\n")));
    add("tiny: other headings below one", format!("# a\n{}", lines(&|i| format!("## {i:x}\n"))));
    add("tiny: a list that goes on", format!("{first}{}", lines(&|i| format!("{}. a\n", i + 1))));
    add("tiny: a title", format!("## {}\n", fill("*a")));
    add("tiny: front matter", format!("---\n{}---\n# a\n", fill("k: v\n")));
    found
}

/// Two versions of one Markdown document, and what they are called.
#[must_use]
pub fn pairs(scale: usize) -> Vec<(String, String, String)> {
    let many = 20_000 / scale.max(1);
    let lines = |one: &dyn Fn(usize) -> String| (0..many).map(one).collect::<String>();
    // A unit of 120 words of one letter; no two runs of three are alike for long.
    let words = |from: usize| (from..from + 120).map(word).collect::<String>();
    let unit = |name: usize, from: usize| format!("# {name:x}\n{}\n\n", words(from));
    let same = format!(
        "# h\n\n{}\n\n",
        "the same words in every unit, which are many more than eight of them ".repeat(2)
    )
    .repeat(many);
    let told = |what: &str, name: usize, i: usize| {
        format!(
            "# {name:x}\n\n{what} {i} of a unit which has no other that is like it, whatever else its number may be or become in the course of time: {i}\n\n"
        )
    };
    let few = many / 4;
    let mut found = Vec::new();
    let mut add = |name: &str, old: String, new: String| found.push((name.to_owned(), old, new));
    let old = lines(&|i| told("the wording", i, i));
    add("equal units", same.clone(), same.clone());
    add("equal units, and twice as many", same.clone(), same.repeat(2));
    add("equal units under other names", same.clone(), same.replace("# h", "# g"));
    add("other units", old.clone(), old.replace("wording", "text").replace("which has no", "without any"));
    add("units counted anew", old.clone(), lines(&|i| told("the wording", i + 1, i)));
    add("units backwards", old, lines(&|i| told("the wording", many - i, i)));
    add(
        "other words of one letter",
        (0..few).map(|i| unit(i, i * 128)).collect(),
        (0..few).map(|i| unit(i + few, (i + few) * 128)).collect(),
    );
    add(
        "words that some units share",
        (0..few).map(|i| unit(i, i / 8 * 128)).collect(),
        (0..few).map(|i| unit(i + few, i / 8 * 128 + i % 8)).collect(),
    );
    found
}

/// A word of one letter, another for each of 20,000 numbers.
fn word(number: usize) -> char {
    u32::try_from(number % 20_000).ok().and_then(|n| char::from_u32(0x4e00 + n)).unwrap_or('a')
}

/// The hostile texts of an XML profile; some of them are refused.
#[must_use]
pub fn xml_texts(profile: &str, scale: usize) -> Vec<Hostile> {
    let scale = scale.max(1);
    let (megabyte, many) = ((1 << 20) / scale, 100_000 / scale);
    let lines = |one: &dyn Fn(usize) -> String| (0..many).map(one).collect::<String>();
    let (root, unit, number) = match profile {
        "akn" => ("akomaNtoso xmlns=\"http://docs.oasis-open.org/legaldocml/ns/akn/3.0\"", "article", "num"),
        "uslm" => ("lawDoc xmlns=\"http://schemas.gpo.gov/xml/uslm\"", "section", "num"),
        _ => ("ACT", "ARTICLE", "TI.ART"),
    };
    let end = root.split(' ').next().unwrap_or_default();
    let numbered = |text: &str| format!("<{unit}><{number}>{text}</{number}>x</{unit}>\n");
    let mut found: Vec<Hostile> = Vec::new();
    let mut add = |name: &str, inner: &str| {
        found.push((name.to_owned(), format!("<{root}>{inner}</{end}>")));
    };
    add("4 MB in one article", &numbered(&"word ".repeat(4 * megabyte / 5)));
    add("articles", &lines(&|i| numbered(&format!("Article {i}"))));
    add("equal articles", &numbered("Article 1").repeat(many));
    add("articles without numbers", &numbered("").repeat(many));
    add("tiny: empty articles", &format!("<{unit}/>").repeat(many));
    add("tiny: empty elements", &"<a/>".repeat(megabyte / 4));
    add("tiny: attributes", &format!("<{unit} {}/>", lines(&|i| format!("a{i:x}='' "))));
    add("tiny: prefixes", &lines(&|i| format!("<a xmlns:a{i:x}='c'/>")));
    add("tiny: numbered articles", &lines(&|i| format!("<{unit}><{number}>{i:x}</{number}></{unit}>")));
    add(
        "numbers in one article",
        &format!("<{unit}>{}</{unit}>", format!("<{number}>1</{number}>").repeat(many)),
    );
    add("elements in a number", &numbered(&"<p/>".repeat(many)));
    add("raised digits in a number", &numbered(&"<sup>1</sup>".repeat(many)));
    add("references in a number", &numbered(&"&amp;".repeat(many)));
    add("references without end", &numbered(&"&".repeat(megabyte)));
    add("attributes", &format!("<{unit} {}/>", lines(&|i| format!("a{i}=\"\" "))));
    add("prefixes", &lines(&|i| format!("<a{i}:b xmlns:a{i}=\"c\"/>")));
    add("depth", &format!("{}{}", format!("<{unit}>").repeat(many), format!("</{unit}>").repeat(many)));
    add("comments", &"<!-- a -->".repeat(many));
    add("open comments", &"<!--".repeat(many));
    add("sections of characters", &numbered(&"<![CDATA[a]]>".repeat(many)));
    add("open sections", &"<![CDATA[".repeat(many));
    add("instructions", &"<?a b?>".repeat(many));
    add("less-than signs", &"<".repeat(megabyte));
    let entities = lines(&|i| format!("<!ENTITY a{i} \"&a{};\">\n", i.saturating_sub(1)));
    found.push(("entities".to_owned(), format!("<!DOCTYPE a [{entities}]><{root}>&a9;</{end}>")));
    found
}
