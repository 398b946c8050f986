//! Clauses and points in the lists of each convention.

use super::*;

/// The addresses below the document, cut with a built-in profile down to a kind.
#[track_caller]
pub(super) fn cut(name: &str, deepest: &str, text: &str) -> Vec<std::string::String> {
    let mut profile = Profile::built_in(name).unwrap();
    profile.cut_down_to(deepest).unwrap();
    let limits = MarkLimits::default();
    let document_id = DocumentId::parse("X").unwrap();
    let region = body_region(text.as_bytes(), &profile).unwrap();
    let context = MarkContext { document_id: &document_id, profile: &profile, limits: &limits };
    let marked = marker_for(&profile).mark(text.as_bytes(), region, &context).unwrap();
    check_partition(region, marked.candidates.iter().map(|c| (c.start, c.end))).unwrap();
    assert!(marked.duplicates.is_empty(), "{:?}", marked.duplicates);
    marked
        .candidates
        .iter()
        .filter(|c| c.address.as_str() != "X")
        .map(|c| c.address.as_str()[2..].into())
        .collect()
}

#[track_caller]
pub(super) fn cuts_to(name: &str, deepest: &str, text: &str, want: &str) {
    assert_eq!(cut(name, deepest, text).join(" "), want, "{text}");
}

#[test]
fn vietnamese_khoan_and_diem_with_dd_and_bullets() {
    let text = "## Chương I\n### Điều 4. Yêu cầu\n1. Nguyên tắc\nThống nhất.\n2. Yêu cầu\n- a) Một\n- b) Hai\n\
                - c) Ba\n- d) Bốn\n- đ) Năm\n- e) Sáu\n- g) Bảy\n3. Hết\na) Lại\n### Điều 5. Khác\na) Một\n";
    cuts_to(
        "vn",
        "điểm",
        text,
        "ch-1 ch-1/art-4 ch-1/art-4/cl-1 ch-1/art-4/cl-2 ch-1/art-4/cl-2/pt-a ch-1/art-4/cl-2/pt-b \
         ch-1/art-4/cl-2/pt-c ch-1/art-4/cl-2/pt-d ch-1/art-4/cl-2/pt-dd ch-1/art-4/cl-2/pt-e \
         ch-1/art-4/cl-2/pt-g ch-1/art-4/cl-3 ch-1/art-4/cl-3/pt-a ch-1/art-5 ch-1/art-5/pt-a",
    );
    cuts_to(
        "vn",
        "khoản",
        text,
        "ch-1 ch-1/art-4 ch-1/art-4/cl-1 ch-1/art-4/cl-2 ch-1/art-4/cl-3 ch-1/art-5",
    );
    cuts_to("vn", "article", text, "ch-1 ch-1/art-4 ch-1/art-5");
}

#[test]
fn a_number_out_of_sequence_is_text() {
    let text =
        "### Điều 1. Một\n2. Không\n1. Một\n3. Không\n2.5 triệu\n2. Hai\n2a. Chen\n- c) không\n3. Ba\n";
    cuts_to("vn", "pt", text, "art-1 art-1/cl-1 art-1/cl-2 art-1/cl-2a art-1/cl-3");
}

#[test]
fn german_absatz_nummer_buchstabe() {
    let text = "## § 1 Zweck\n\n(1) Es gilt für\n\n1.  die stoffliche Verwertung am\n    1. Januar und\n\n\n2.  Holz:\n\n\
                \u{20}   a)  altes,\n\n\n    b)  neues.\n\n\n3.  Rest.\n\n(2) Die §§ bleiben\n(3) unberührt.\n\n\
                ## § 2 Begriffe\n\nEs sind\n\n1.  Altholz;\n\n2\\. Neuholz.\n";
    cuts_to(
        "de",
        "subpt",
        text,
        "art-1 art-1/cl-1 art-1/cl-1/pt-1 art-1/cl-1/pt-2 art-1/cl-1/pt-2/subpt-a art-1/cl-1/pt-2/subpt-b \
         art-1/cl-1/pt-3 art-1/cl-2 art-2 art-2/pt-1 art-2/pt-2",
    );
    cuts_to("de", "Absatz", text, "art-1 art-1/cl-1 art-1/cl-2 art-2");
}

#[test]
fn korean_lists_are_told_apart_by_indentation() {
    let text = "### 제18조 조건부면세\n\n1. 다음 각 호\n\n    1. 하나\n\n    2. 둘\n\n        1. 가\n\n        2. 나\n\n\
                \u{20}       3. 다\n\n    3. 셋\n\n2. 둘째\n\n### 제2조 정의\n\n뜻은 다음과 같다.\n\n1. \"저작물\"\n\n\
                2. \"저작자\"\n\n2-2. \"신호\"\n\n    1. 가\n\n3. \"공연\"\n";
    cuts_to(
        "kr",
        "목",
        text,
        "art-18 art-18/cl-1 art-18/cl-1/pt-1 art-18/cl-1/pt-2 art-18/cl-1/pt-2/subpt-1 art-18/cl-1/pt-2/subpt-2 \
         art-18/cl-1/pt-2/subpt-3 art-18/cl-1/pt-3 art-18/cl-2 art-2 art-2/pt-1 art-2/pt-2 art-2/pt-2-2 \
         art-2/pt-2-2/subpt-1 art-2/pt-3",
    );
    cuts_to("kr", "항", text, "art-18 art-18/cl-1 art-18/cl-2 art-2");
}

#[test]
fn japanese_items_are_headings_and_the_first_paragraph_bears_no_number() {
    let text = "# 憲法\n\n## 第一章\n\n### 第七条\n\n天皇は、左の行為を行ふ。\n\n#### 一\n\n憲法改正を公布すること。\n\n\
                #### 二\n\n国会を召集すること。\n\n### 第九条\n\n一般に希求し、放棄する。\n\n#### ○２\n\n保持しない。\n\n\
                ### 第十条\n\n要件は、法律で定める。\n\n２　前項の場合\n\n一　甲\n\n二　乙\n\n３　終り\n";
    cuts_to(
        "jp",
        "号",
        text,
        "ch-1 ch-1/art-7 ch-1/art-7/pt-1 ch-1/art-7/pt-2 ch-1/art-9 ch-1/art-9/cl-2 ch-1/art-10 \
         ch-1/art-10/cl-2 ch-1/art-10/cl-2/pt-1 ch-1/art-10/cl-2/pt-2 ch-1/art-10/cl-3",
    );
    cuts_to(
        "jp",
        "項",
        text,
        "ch-1 ch-1/art-7 ch-1/art-9 ch-1/art-9/cl-2 ch-1/art-10 ch-1/art-10/cl-2 ch-1/art-10/cl-3",
    );
}

#[test]
fn chinese_items_in_either_brackets() {
    let text = "## 第一章 总则\n\n第一条 有下列情形之一：\n\n（一）甲；\n\n（二）乙：\n\n1．子\n\n2．丑\n\n（三）丙。\n\n\
                第二条 主刑：\n\n(一)管制\n\n(二)拘役\n";
    cuts_to(
        "cn",
        "目",
        text,
        "ch-1 ch-1/art-1 ch-1/art-1/pt-1 ch-1/art-1/pt-2 ch-1/art-1/pt-2/subpt-1 ch-1/art-1/pt-2/subpt-2 \
         ch-1/art-1/pt-3 ch-1/art-2 ch-1/art-2/pt-1 ch-1/art-2/pt-2",
    );
}

#[test]
fn english_and_american_brackets() {
    let text = "## Section 1. Duty\n\n(1) A person must\n\n(a) pay;\n\n(b) tell,\n\n(i) at once, or\n\n(ii) soon; and\n\n\
                (c) wait.\n\n(2) (a) Nobody\n\n(b) else.\n";
    cuts_to(
        "en",
        "subpoint",
        text,
        "art-1 art-1/cl-1 art-1/cl-1/pt-a art-1/cl-1/pt-b art-1/cl-1/pt-b/subpt-1 art-1/cl-1/pt-b/subpt-2 \
         art-1/cl-1/pt-c art-1/cl-2 art-1/cl-2/pt-a art-1/cl-2/pt-b",
    );
    let text = "## Article I\n\n### Section 8\n\n(a) First\n\n(1) one\n\n(A) big\n\n(B) bigger\n\n(2) two\n\n(b) Second\n\n\
                ### Section 9\n\n(a) Again\n\n## Amendment XIV\n\n1. All\n\n(a) x\n\n2. None\n";
    cuts_to(
        "us",
        "subpt",
        text,
        "art-1 art-1/sec-8 art-1/sec-8/cl-a art-1/sec-8/cl-a/pt-1 art-1/sec-8/cl-a/pt-1/subpt-a \
         art-1/sec-8/cl-a/pt-1/subpt-b art-1/sec-8/cl-a/pt-2 art-1/sec-8/cl-b art-1/sec-9 art-1/sec-9/cl-a \
         amend-14 amend-14/sec-1 amend-14/sec-1/cl-a amend-14/sec-2",
    );
}

#[test]
fn czech_letters_have_a_ch() {
    let mut text = std::string::String::from("##### § 6\n\n(1) Obsahuje\n\n");
    for letter in ["a", "b", "c", "d", "e", "f", "g", "h", "ch", "i"] {
        text += &std::format!("- {letter}) text,\n\n");
    }
    text += "(2) Konec.\n";
    let cut = cut("cz", "písmeno", &text);
    assert_eq!(cut.len(), 13, "{cut:?}");
    assert_eq!(cut[10..].join(" "), "art-6/cl-1/pt-ch art-6/cl-1/pt-i art-6/cl-2");
}

#[test]
fn lists_begin_anew_in_every_article_and_end_with_the_division() {
    let text =
        "## Chương I\n### Điều 1. Một\n1. Một\n## Chương II\n1. Không phải khoản\n### Điều 2. Hai\n1. Một\n";
    cuts_to("vn", "cl", text, "ch-1 ch-1/art-1 ch-1/art-1/cl-1 ch-2 ch-2/art-2 ch-2/art-2/cl-1");
}
