//! Which profile fits.

use super::*;

fn detect(text: &str) -> Detected {
    Profiles::built_in().unwrap().detect(text.as_bytes())
}

#[test]
fn nothing_is_plain_and_said_to_be_unsure() {
    let found = detect("");
    assert_eq!((found.profile.as_str(), found.confidence), ("markdown", Confidence::Low));
}

#[test]
fn a_law_of_each_language() {
    for (want, text) in [
        (
            "de",
            "# Gesetz\n\n## § 1 Zweck\n\nDas Gesetz regelt die Rechte der Bürger und den Schutz.\n\n## § 2 Ziel\n\nDer Zweck ist nicht das Ziel.\n",
        ),
        (
            "fr",
            "# Loi\n\n## Titre Ier : Des droits\n\n### Article 1er\n\nLa loi est la même pour tous les citoyens dans le pays.\n\n### Article 2\n\nLe droit est à tous.\n",
        ),
        (
            "cn",
            "# 法\n\n<!-- INFO END -->\n\n## 第一章 总则\n\n第一条 为了保护人民的权利，制定本法。\n\n第二条 国家机关应当遵守本法的规定。\n",
        ),
        (
            "vn",
            "# Luật\n\n## Chương I\n\n### Điều 1. Phạm vi\n\nLuật này quy định về quyền và nghĩa vụ của công dân.\n\n### Điều 2. Đối tượng\n\nCông dân có quyền theo quy định tại Luật này.\n",
        ),
        (
            "ee",
            "# Seadus\n\n### 1. peatükk ÜLDSÄTTED\n\n##### § 1. Eesmärk\n\nKäesolev seadus sätestab, mis on õigus ja kohustus või vastutus.\n",
        ),
        (
            "fi",
            "# Laki\n\n### 1 luku. Yleistä\n\n##### 1 § Tarkoitus\n\nTämä laki on säädetty ja se ei ole muuta kuin että oikeus on.\n",
        ),
        ("markdown", "# Notes\n\n## How to build\n\nRun the tests.\n\n## Ideas\n\nNone yet.\n"),
    ] {
        let found = detect(text);
        assert_eq!(found.profile, want, "{:#?}", found.ranking);
    }
}

#[test]
fn xml_says_by_its_root_what_it_is() {
    for (root, want) in [
        ("<akomaNtoso xmlns=\"http://docs.oasis-open.org/legaldocml/ns/akn/3.0\"><act/></akomaNtoso>", "akn"),
        ("<!-- a --><p:bill xmlns:p=\"http://schemas.gpo.gov/xml/uslm\"/>", "uslm"),
        ("<?xml version=\"1.0\"?>\n<ACT><ENACTING.TERMS/></ACT>", "formex"),
    ] {
        let detected = detect(root);
        assert_eq!((detected.profile.as_str(), detected.confidence), (want, Confidence::High), "{root}");
        assert!(detected.evidence[0].starts_with("the root element is"), "{:?}", detected.evidence);
    }
    // A text that begins with other markup is no XML document of a profile.
    for text in ["<div>\n\n# Title\n\n## Article 1\n", "<html><body/></html>", "<!-- x -->\n# Title\n"] {
        assert_eq!(detect(text).profile, "markdown", "{text}");
    }
}
