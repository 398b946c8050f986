//! What a user does, from start to end, and what is left behind.

use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use super::bench::{Bench, files, ran, text};

#[test]
fn a_run_goes_through_both_gates_and_gives_back_every_byte() {
    let bench = Bench::shared();
    let content = text(1);
    let path = bench.register("STORY", &content);
    let again = ["source", "add", path.to_str().unwrap(), "--document-id", "STORY", "--json"];
    assert_eq!(bench.run(&again).expect(0).json()["already"], true);

    let dry = ["orchestrate", "cut", "--document-id", "STORY", "--dry-run", "--json"];
    let dry = bench.run(&dry).expect(0).json();
    assert_eq!((&dry["state"], &dry["mode"]), (&"grants_probed".into(), &"dryrun".into()));
    assert_eq!(dry["kb_folder"], serde_json::Value::Null);

    let cut = bench.run(&["orchestrate", "cut", "--document-id", "STORY", "--json"]).expect(0).json();
    let run = cut["run_id"].as_str().unwrap();
    for key in [
        "run_id",
        "document_id",
        "state",
        "phase",
        "paused_at",
        "stop",
        "replayed_from",
        "units",
        "kb_folder",
        "sidecar_path",
        "digests",
    ] {
        assert!(cut.get(key).is_some(), "{key} is missing: {cut}");
    }
    assert_eq!(cut["paused_at"]["gate"], "SG_cut_authz");
    assert!(cut["paused_at"]["request_kb_id"].as_str().unwrap().contains("SG1-cut-authz-request-"));
    assert!(cut["paused_at"]["approval_path"].as_str().unwrap().contains("SG1-cut-authz-approval-"));

    // the plan without a database is the plan of the run
    let plan = ["plan", path.to_str().unwrap(), "--document-id", "STORY", "--json"];
    let plan = bench.run(&plan).expect(0).json();
    assert_eq!(plan["manifest_digest"], cut["digests"]["manifest_digest"]);
    assert_eq!(plan["writer_digest"], cut["digests"]["writer_digest"]);
    assert_eq!(plan["region"]["sha256"], cut["digests"]["region_sha"]);
    assert_eq!(cut["units"], plan["units"].as_array().unwrap().len());

    // a second run of the same document is refused, and a parked one goes nowhere by itself
    bench.run(&["orchestrate", "cut", "--document-id", "STORY"]).expect(4);
    let waits = bench.resume(run).expect(5);
    assert!(waits.stderr.contains("no approval"), "{}", waits.stderr);
    bench.run(&["orchestrate", "wait", "--run-id", run, "--timeout", "20"]).expect(0);

    let shown = bench.run(&["sovereign", "show", "--run-id", run, "--json"]).expect(0).json();
    let approved = bench.approve(run, "cut");
    assert_eq!(shown["voice_code"], approved["voice_code"]);
    assert_eq!(shown["approval_path"], approved["approval_kb_id"]);
    let named = approved["approval_kb_id"].as_str().unwrap();
    let resumed = bench.run(&["orchestrate", "resume", "--run-id", run, "--approval-kb-id", named, "--json"]);
    let resumed = resumed.expect(0).json();
    assert_eq!(resumed["paused_at"]["gate"], "SG_lifecycle_authz", "{resumed}");
    bench.approve(run, "lifecycle");
    assert_eq!(bench.resume(run).expect(0).json()["state"], "closeout_reported");
    assert_eq!(bench.resume(run).expect(0).json()["state"], "closeout_reported");
    let replay = bench.run(&["orchestrate", "cut", "--document-id", "STORY", "--json"]).expect(0).json();
    assert_eq!(replay["replayed_from"], run);

    let region = &content.as_bytes()[plan["region"]["start"].as_u64().unwrap() as usize..];
    let export = bench.run(&["unit", "export", "--document-id", "STORY"]).expect(0);
    assert_eq!(export.stdout, region);
    let listed = bench.run(&["unit", "list", "--document-id", "STORY", "--json"]).expect(0).json();
    let units = listed["units"].as_array().unwrap();
    assert!(units.iter().all(|u| u["lifecycle_status"] == "enacted"), "{listed}");
    let first = units[1]["address"].as_str().unwrap();
    let unit = bench.run(&["unit", "show", first, "--format", "text"]).expect(0);
    let (start, end) = (units[1]["start"].as_u64().unwrap(), units[1]["end"].as_u64().unwrap());
    assert_eq!(unit.stdout, &content.as_bytes()[start as usize..end as usize]);
    let verified = bench.run(&["verify", "--run-id", run, "--json"]).expect(0).json();
    assert!(verified["checks"].as_array().unwrap().len() > 60, "{verified}");
}

#[test]
fn the_sovereign_reads_how_the_profile_was_chosen() {
    let bench = Bench::shared();
    let shown = |document: &str, content: &str, flags: &[&str]| {
        bench.register(document, content);
        let cut = [&["orchestrate", "cut", "--document-id", document, "--json"], flags].concat();
        let run = bench.run(&cut).expect(0).json()["run_id"].as_str().unwrap().to_owned();
        String::from_utf8(bench.run(&["sovereign", "show", "--run-id", &run]).expect(0).stdout).unwrap()
    };
    let law = "# Luật\n\n## Chương I\n\n### Điều 1. Phạm vi\n\n1. Luật này quy định về quyền của công dân.\n\n\
               ### Điều 3. Hiệu lực\n\nLuật này có hiệu lực theo quy định.\n";
    let detected = shown("DETECTED", law, &["--depth", "khoản"]);
    for part in [
        "profile              : vn version 1, down to clause\n",
        "profile_chosen       : detected, confidence high\n",
        "profile_evidence_1   : \"vn: 2 lines begin with an article",
        "profile_cost         : units 5, duplicates 0, empty 2, number gaps 1, largest",
        "profile_runner_up    : \"vn-phapdien: units 5",
        "art 3: 2 is missing",
    ] {
        assert!(detected.contains(part), "{part}: {detected}");
    }
    let named = shown("NAMED", law, &["--profile", "markdown"]);
    assert!(named.contains("profile_chosen       : chosen by the operator\n"), "{named}");
    assert!(!named.contains("profile_evidence"), "{named}");
    let unsure = shown("UNSURE", "Xyzzy plugh.\n", &[]);
    assert!(unsure.contains("- profile markdown was detected with low confidence: "), "{unsure}");
    for request in [detected, named, unsure] {
        assert!(request.lines().count() <= 260, "{request}");
    }
}

#[test]
fn the_demo_tells_the_whole_story_and_cleans_up() {
    let folder = std::env::temp_dir().join(format!("cutter-demo-test-{}", std::process::id()));
    let demo = |arguments: &[&str]| {
        ran(Bench::shared().command().env("CUTTER_HOME", &folder).args(arguments).output().unwrap())
    };
    let told = demo(&["demo", "--json"]).expect(0);
    let result = told.json();
    for part in ["sovereign show", "sovereign approve", "Verify everything", "Two throw-away keys"] {
        assert!(told.stderr.contains(part), "{part}: {}", told.stderr);
    }
    assert_eq!(result["summary"]["state"], "closeout_reported");
    // once more does nothing
    assert_eq!(demo(&["demo", "--json"]).expect(0).json()["run_id"], result["run_id"]);
    demo(&["demo", "--clean"]).expect(0);
    assert!(!folder.join("demo").exists());
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_killed_process_is_resumed_to_the_same_digests() {
    let bench = Bench::shared();
    let run = bench.parked("KILLED", &text(2));
    let planned = bench.status(&run)["digests"].clone();
    bench.approve(&run, "cut");
    let mut lifecycle = false;
    for kill in 0..40_u64 {
        let mut child = bench
            .command()
            .args(["orchestrate", "resume", "--run-id", &run, "-q"])
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_millis(30 + 37 * kill % 400));
        child.kill().unwrap();
        child.wait().unwrap();
        let status = bench.status(&run);
        if status["state"] == "awaiting_lifecycle_authorization" && !lifecycle {
            bench.approve(&run, "lifecycle");
            lifecycle = true;
        }
        if status["state"] == "closeout_reported" {
            break;
        }
    }
    let mut last = bench.resume(&run).expect(0).json();
    if last["state"] == "awaiting_lifecycle_authorization" {
        bench.approve(&run, "lifecycle");
        last = bench.resume(&run).expect(0).json();
    }
    assert_eq!(last["state"], "closeout_reported");
    for name in ["manifest_digest", "writer_digest", "region_sha", "unit_set_digest", "backup_sha"] {
        assert_eq!(last["digests"][name], planned[name], "{name}");
    }
    bench.run(&["verify", "--run-id", &run]).expect(0);
}

#[test]
fn nothing_that_is_written_holds_a_secret_and_nobody_else_may_read_it() {
    let bench = Bench::shared();
    let run = bench.finished("SECRETS", &text(3));
    let secrets: serde_json::Value =
        serde_json::from_slice(&std::fs::read(bench.home.join("pg-secrets.json")).unwrap()).unwrap();
    let mut needles: Vec<String> = secrets["logins"]
        .as_object()
        .unwrap()
        .values()
        .map(|password| password.as_str().unwrap().to_owned())
        .collect();
    assert!(needles.len() >= 5);
    for seed in ["executor.seed", "verifier.seed"] {
        needles.push(std::fs::read_to_string(bench.home.join("keys").join(seed)).unwrap().trim().to_owned());
    }
    needles.push("PRIVATE KEY BLOCK".to_owned());
    needles.push("postgres://".to_owned());
    let mut written = vec![];
    for folder in ["runs", "kb"] {
        for path in files(&bench.home.join(folder)) {
            let mode = std::fs::metadata(&path).unwrap().permissions().mode() & 0o777;
            assert_eq!(mode & 0o077, 0, "{} has mode {mode:o}", path.display());
            written.push((path.display().to_string(), std::fs::read(&path).unwrap()));
        }
    }
    for arguments in [
        vec!["doctor", "-v"],
        vec!["db", "status"],
        vec!["db", "check", "-v"],
        vec!["verify", "-v", "--run-id", &run],
        vec!["orchestrate", "list", "--json"],
    ] {
        let shown = bench.run(&arguments).expect(0);
        written.push((arguments.join(" "), [shown.stdout, shown.stderr.into_bytes()].concat()));
    }
    for (place, bytes) in written {
        let text = String::from_utf8_lossy(&bytes);
        for needle in &needles {
            assert!(!text.contains(needle.as_str()), "{place} holds a secret");
        }
    }
}

#[test]
fn a_file_size_limit_is_an_error_and_not_a_death() {
    let bench = Bench::shared();
    bench.register("FULL", &text(4));
    // blocks of 512 bytes: too little for a record, for a backup, for a report
    let mut stops = 0;
    for blocks in [4, 24, 60] {
        let mut limited = std::process::Command::new("sh");
        let script = format!("ulimit -f {blocks}; exec \"$0\" orchestrate cut --document-id FULL --json");
        limited.args(["-c", &script]).arg(env!("CARGO_BIN_EXE_cutter"));
        let ended =
            ran(limited.env("CUTTER_HOME", &bench.home).env("CUTTER_ACTOR", "oscar").output().unwrap());
        let shown = format!("{} {}", String::from_utf8_lossy(&ended.stdout), ended.stderr);
        assert!([0, 3, 4].contains(&ended.code), "{blocks}: {} {shown}", ended.code);
        if ended.code == 3 {
            stops += 1;
            assert!(shown.contains("STOP_DISK_FULL"), "{blocks}: {shown}");
        }
    }
    assert!(stops > 0);
    // with room again the document is cut: by the run that stopped, or by a new one
    let listed = bench.run(&["orchestrate", "list", "--document-id", "FULL", "--json"]).expect(0).json();
    let state = match listed["runs"][0]["run_id"].as_str() {
        Some(run) => match bench.resume(run).json()["state"].as_str().unwrap() {
            state if state.starts_with("voided") => None,
            state => Some(state.to_owned()),
        },
        None => None,
    };
    let cut = || bench.run(&["orchestrate", "cut", "--document-id", "FULL", "--json"]).expect(0).json();
    let state = state.unwrap_or_else(|| cut()["state"].as_str().unwrap().to_owned());
    assert_eq!(state, "awaiting_cut_authorization");
}
