//! Profiles at the command line: detection, depth, and files of one's own.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::Path;

use serde_json::Value;
use snapbox::cmd::{Command, OutputAssert};

const DECREE: &str = "# Nghị định về văn thư\n\n## Chương I\n\n## QUY ĐỊNH CHUNG\n\n### Điều 1. Phạm vi\n\n1. Nghị định này quy định về công tác văn thư của các cơ quan.\n\n2. Yêu cầu được quy định như sau:\n- a) một\n- b) hai\n- c) ba\n- d) bốn\n- đ) năm\n\n### Điều 3. Hiệu lực\n\nNghị định này có hiệu lực theo quy định.\n";

fn cutter(folder: &Path, arguments: &[&str]) -> OutputAssert {
    Command::new(snapbox::cmd::cargo_bin!("cutter"))
        .args(arguments)
        .current_dir(folder)
        .env_remove("CUTTER_HOME")
        .env_remove("CUTTER_CONFIG")
        .env("HOME", "/nonexistent")
        .env("COLUMNS", "100")
        .env("NO_COLOR", "1")
        .assert()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn json(assert: &OutputAssert) -> Value {
    serde_json::from_slice(&assert.get_output().stdout).unwrap()
}

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("decree.md"), DECREE).unwrap();
    folder
}

fn addresses(plan: &Value) -> Vec<&str> {
    plan["units"].as_array().unwrap().iter().map(|u| u["address"].as_str().unwrap()).collect()
}

#[test]
fn a_plan_says_which_profile_why_and_what_the_runner_up_would_cost() {
    let folder = folder();
    let plan = json(&cutter(folder.path(), &["plan", "decree.md", "--json"]).success());
    assert_eq!(plan["profile"]["name"], "vn");
    assert!(plan["profile"]["version"].is_u64() && plan["profile"]["why"].is_array());
    let detection = &plan["detection"];
    assert_eq!(detection["confidence"], "high");
    assert!(detection["evidence"][0].as_str().unwrap().starts_with("vn: 2 lines begin with an article"));
    assert_eq!(detection["ranking"][0]["profile"], "vn");
    assert_eq!(detection["cost"]["units"], plan["units"].as_array().unwrap().len());
    assert_eq!(detection["cost"]["gaps"], 1);
    assert_eq!(detection["runner_up"]["name"], "vn-phapdien");
    assert!(detection["runner_up"]["cost"]["units"].is_u64());
    let people = cutter(folder.path(), &["plan", "decree.md"]).success();
    let shown = text(&people.get_output().stdout);
    for part in
        ["profile   vn 1, detected, confidence high", "evidence  vn: 2 lines", "vn-phapdien, the runner-up"]
    {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let warned = text(&people.get_output().stderr);
    assert!(warned.contains("decree.md:18: art 3: 2 is missing (number_gap)"), "{warned}");
}

#[test]
fn a_name_or_a_path_overrides_detection() {
    let folder = folder();
    let named = cutter(folder.path(), &["plan", "decree.md", "--profile", "markdown", "--json"]).success();
    assert_eq!(json(&named)["profile"]["name"], "markdown");
    assert_eq!(json(&named)["detection"], Value::Null);
    let people = cutter(folder.path(), &["plan", "decree.md", "--profile", "markdown"]).success();
    assert!(text(&people.get_output().stdout).contains("markdown 2, chosen by you"));
    let shown = cutter(folder.path(), &["profile", "show", "vn"]).success();
    let mine = text(&shown.get_output().stdout).replacen("\"vn\"", "\"mine\"", 1);
    std::fs::create_dir(folder.path().join("sub")).unwrap();
    for path in ["mine.json", "mine", "./mine.json", "sub/mine"] {
        std::fs::write(folder.path().join(path), &mine).unwrap();
        let plan =
            json(&cutter(folder.path(), &["plan", "decree.md", "--profile", path, "--json"]).success());
        assert_eq!(plan["profile"]["name"], "mine", "{path}");
        cutter(folder.path(), &["profile", "test", "decree.md", "--profile", path]).success();
        cutter(folder.path(), &["diff", "decree.md", "decree.md", "--profile", path]).success();
    }
}

#[test]
fn low_confidence_is_a_warning_and_never_in_the_json() {
    let folder = folder();
    std::fs::write(folder.path().join("note.md"), "Xyzzy plugh.\n").unwrap();
    let plan = cutter(folder.path(), &["plan", "note.md", "--json"]).success();
    assert_eq!(json(&plan)["detection"]["confidence"], "low");
    let warned = text(&plan.get_output().stderr);
    assert!(
        warned.contains("warning: note.md: profile markdown was detected with low confidence"),
        "{warned}"
    );
    assert!(warned.contains("cutter profile explain note.md"), "{warned}");
}

#[test]
fn depth_is_a_number_or_a_kind_in_any_language() {
    let folder = folder();
    let plan = |depth: &str| {
        json(
            &cutter(folder.path(), &["plan", "decree.md", "--document-id", "D", "--depth", depth, "--json"])
                .success(),
        )
    };
    for depth in ["point", "pt", "Điểm"] {
        assert!(addresses(&plan(depth)).contains(&"D/ch-1/art-1/cl-2/pt-dd"), "{depth}");
    }
    for depth in ["clause", "cl", "khoản"] {
        let plan = plan(depth);
        assert_eq!(
            addresses(&plan),
            ["D", "D/ch-1", "D/ch-1/art-1", "D/ch-1/art-1/cl-1", "D/ch-1/art-1/cl-2", "D/ch-1/art-3"]
        );
    }
    assert_eq!(addresses(&plan("1")), ["D", "D/ch-1"]);
    for (depth, part) in
        [("0", "expected a number of levels"), ("recital", "no \"recital\": expected one of")]
    {
        let refused = cutter(folder.path(), &["plan", "decree.md", "--depth", depth]).code(2);
        let error = text(&refused.get_output().stderr);
        assert!(error.contains(part), "{depth}: {error}");
    }
}

#[test]
fn both_versions_are_cut_with_the_profile_of_the_newer() {
    let folder = folder();
    std::fs::write(folder.path().join("old.md"), "### Điều 1. Phạm vi\n\nCũ.\n").unwrap();
    let diff = json(&cutter(folder.path(), &["diff", "old.md", "decree.md", "--json"]).success());
    assert_eq!(
        (&diff["old"]["profile"]["name"], &diff["new"]["profile"]["name"]),
        (&"vn".into(), &"vn".into())
    );
}

#[test]
fn profiles_are_listed_shown_and_documented() {
    let folder = folder();
    let list = json(&cutter(folder.path(), &["profile", "list", "--json"]).success());
    let profiles = list["profiles"].as_array().unwrap();
    assert!(profiles.len() > 20, "{list}");
    for profile in profiles {
        let name = profile["name"].as_str().unwrap();
        for field in ["version", "languages", "format", "description"] {
            assert!(!profile[field].is_null(), "{name} {field}");
        }
        let shown = cutter(folder.path(), &["profile", "show", name]).success();
        let shown: Value = serde_json::from_slice(&shown.get_output().stdout).unwrap();
        assert_eq!(shown["name"], name);
    }
    assert!(
        text(&cutter(folder.path(), &["profile", "list"]).success().get_output().stdout)
            .contains("vn-phapdien")
    );
    let schema = text(&cutter(folder.path(), &["profile", "show", "--schema"]).success().get_output().stdout);
    assert!(schema.contains("| `designators` |") && schema.contains("| `leads` |"), "{schema}");
    cutter(folder.path(), &["profile", "show", "--schema", "--json"]).success();
    cutter(folder.path(), &["profile", "show"]).code(2);
}

#[test]
fn a_test_counts_and_an_invalid_profile_is_refused_with_file_and_field() {
    let folder = folder();
    let test = ["profile", "test", "decree.md", "--depth", "point"];
    let counted = json(&cutter(folder.path(), &[&test[..], &["--json"]].concat()).success());
    assert_eq!(counted["articles"], 2);
    assert_eq!(counted["kinds"]["point"], 5);
    assert_eq!(counted["gaps"], 1);
    assert!(counted["biggest"]["address"].is_string(), "{counted}");
    let people = cutter(folder.path(), &test).success();
    let shown = text(&people.get_output().stdout);
    for part in ["articles    2", "duplicates  0", "gaps        1", "point     5"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    assert!(text(&people.get_output().stderr).contains("number_gap"));
    let vn = text(&cutter(folder.path(), &["profile", "show", "vn"]).success().get_output().stdout);
    for (from, to, field, expected) in [
        ("\"version\": 1", "\"version\": \"one\"", "profile.version", "u32"),
        ("\"nesting\": \"rank\"", "\"nesting\": \"size\"", "profile.nesting", "`level` or `rank`"),
        ("\"rank\": 60", "\"rank\": \"low\"", "profile.designators[5].rank", "u32"),
        ("\"kind\": \"annex\"", "\"kind\": \"verse\"", "profile.designators.kind", "an address kind"),
        ("\"schema\": 1,", "\"schema\": 1", "profile", "strict JSON"),
    ] {
        assert!(vn.contains(from), "{from}");
        std::fs::write(folder.path().join("bad.json"), vn.replacen(from, to, 1)).unwrap();
        let refused =
            cutter(folder.path(), &["profile", "test", "decree.md", "--profile", "bad.json", "--json"])
                .code(2);
        let error = &json(&refused)["error"];
        assert!(error["message"].as_str().unwrap().starts_with("bad.json: "), "{error}");
        assert_eq!(error["invariants"][0]["invariant"], field, "{error}");
        assert!(error["invariants"][0]["expected"].as_str().unwrap().contains(expected), "{error}");
        assert_eq!(error["next"][0], "cutter profile show --schema");
    }
    for missing in ["nobody", "absent.json"] {
        let refused = cutter(folder.path(), &["profile", "test", "decree.md", "--profile", missing]).code(2);
        let error = text(&refused.get_output().stderr);
        assert!(error.contains(missing) && error.contains("next: cutter profile list"), "{error}");
    }
}

#[test]
fn an_explanation_ranks_profiles_and_reads_lines() {
    let folder = folder();
    let value = json(&cutter(folder.path(), &["profile", "explain", "decree.md", "--json"]).success());
    assert_eq!(value["ranking"][0]["profile"], "vn");
    assert_eq!(value["profile"]["detection"]["runner_up"]["name"], "vn-phapdien");
    let line = |n: u64| value["lines"].as_array().unwrap().iter().find(|l| l["line"] == n).unwrap().clone();
    assert_eq!(line(3)["address"], "DECREE/ch-1");
    assert_eq!(line(5)["reason"], "the title of the number heading before it");
    let shown =
        text(&cutter(folder.path(), &["profile", "explain", "decree.md"]).success().get_output().stdout);
    for part in [
        "SCORE",
        "the runner-up",
        "starts DECREE/ch-1/art-1: a heading that designates art",
        "starts nothing",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let named =
        cutter(folder.path(), &["profile", "explain", "decree.md", "--profile", "markdown"]).success();
    let named = text(&named.get_output().stdout);
    assert!(named.contains("chosen by you") && named.contains("vn-phapdien"), "{named}");
}
