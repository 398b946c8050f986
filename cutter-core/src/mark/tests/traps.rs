use super::*;

#[test]
fn smoke() {
    let source = b"# Doc\n\nintro\n\n## Chapter I\n\n### Article 1\n\na\n";
    let profile = Profile::built_in("markdown").unwrap();
    let limits = MarkLimits::default();
    let doc = DocumentId::parse("X").unwrap();
    let context = MarkContext { document_id: &doc, profile: &profile, limits: &limits };
    let region = body_region(source, &profile).unwrap();
    let marked = MarkdownMarker.mark(source, region, &context).unwrap();
    let list: Vec<&str> = marked.candidates.iter().map(|c| c.address.as_str()).collect();
    assert_eq!(list, ["X", "X/ch-1", "X/ch-1/art-1"]);
}
