//! Refusals, wrong approvals, stops and voids, with their exit codes.

use super::bench::{Bench, text};

#[test]
fn a_deferral_asks_again_and_a_refusal_ends_in_a_void() {
    let bench = Bench::shared();
    let run = bench.parked("REFUSED", &text(10));
    bench.run(&["sovereign", "refuse", "--yes", "--run-id", &run, "--defer"]).expect(0);
    let stopped = bench.resume(&run).expect(5).json();
    assert_eq!(stopped["state"], "stopped_refused");
    assert_eq!(stopped["stop"]["code"], "STOP_REFUSED");
    let why = bench.run(&["why", "--run-id", &run, "--json"]).expect(0).json();
    assert!(why["next"][0].as_str().unwrap().ends_with("--for resume"), "{why}");
    bench.approve(&run, "resume");
    let asked = bench.resume(&run).expect(0).json();
    assert!(asked["paused_at"]["request_kb_id"].as_str().unwrap().contains("request-2-"), "{asked}");

    bench
        .run(&["sovereign", "refuse", "--yes", "--run-id", &run, "--for", "cut", "--reason", "no"])
        .expect(0);
    bench.resume(&run).expect(5);
    bench.approve(&run, "void");
    let voided = bench.run(&["orchestrate", "void", "--run-id", &run, "--json"]).expect(0).json();
    assert!(voided["state"].as_str().unwrap().starts_with("voided_"), "{voided}");
    bench.run(&["verify", "--run-id", &run]).expect(0);
}

#[test]
fn a_stopped_cut_is_voided_and_the_document_cut_anew() {
    let bench = Bench::shared();
    let run = bench.parked("VOIDED", &text(11));
    bench.approve(&run, "cut");
    bench.resume(&run).expect(0);
    let stop = ["orchestrate", "stop", "--run-id", &run, "--reason", "text under review", "--json"];
    let stopped = bench.run(&stop).expect(0).json();
    assert_eq!(stopped["state"], "stopped_text_under_review");
    bench.run(&["orchestrate", "wait", "--run-id", &run]).expect(3);
    bench.run(&["orchestrate", "void", "--run-id", &run]).expect(5);
    bench.approve(&run, "void");
    bench.run(&["orchestrate", "void", "--run-id", &run]).expect(0);
    bench.run(&["verify", "--run-id", &run]).expect(0);
    let again = bench.run(&["orchestrate", "cut", "--document-id", "VOIDED", "--json"]).expect(0).json();
    assert_ne!(again["run_id"], run);
}

#[test]
fn a_wrong_approval_is_refused_by_name_and_blocks_nothing() {
    let bench = Bench::shared();
    let run = bench.parked("WRONG", &text(12));
    let operator = bench.home.join("keys/operator.secret.asc");
    let operator = operator.to_str().unwrap();
    let sign = ["sovereign", "approve", "--yes", "--run-id", &run, "--key", operator, "--json"];
    let early = bench.run(&sign).expect(5).json();
    assert_eq!(early["error"]["invariants"][0]["invariant"], "approval.signer_pinned", "{early}");

    // someone who does not ask the configuration first files it all the same
    let elsewhere = tempfile::tempdir().unwrap();
    let kb = bench.home.join("kb");
    let mut outside = bench.command();
    outside.env("CUTTER_HOME", elsewhere.path()).env("CUTTER_ACTOR", "sue");
    outside.args(sign).args(["--kb-dir", kb.to_str().unwrap()]);
    let forged = super::bench::ran(outside.output().unwrap()).expect(0).json();
    let refused = bench.resume(&run).expect(5).json();
    let considered = &refused["approvals_not_accepted"][0];
    assert_eq!(considered["approval_kb_id"], forged["approval_kb_id"]);
    assert!(considered["invariant"].as_str().unwrap().starts_with("approval."), "{refused}");
    let named = forged["approval_kb_id"].as_str().unwrap();
    let named = ["orchestrate", "resume", "--run-id", &run, "--approval-kb-id", named, "--json"];
    bench.run(&named).expect(5);
    assert_eq!(bench.status(&run)["state"], "awaiting_cut_authorization");
    bench.approve(&run, "cut");
    assert_eq!(bench.resume(&run).expect(0).json()["state"], "awaiting_lifecycle_authorization");
}

#[test]
fn the_sovereign_needs_the_knowledge_base_and_a_key_alone() {
    let bench = Bench::shared();
    let run = bench.parked("ALONE", &text(13));
    let elsewhere = tempfile::tempdir().unwrap();
    let kb = bench.home.join("kb");
    let key = bench.home.join("keys/sue.secret.asc");
    let sovereign = |arguments: &[&str]| {
        let mut command = bench.command();
        command.env("CUTTER_HOME", elsewhere.path()).env("CUTTER_ACTOR", "sue");
        super::bench::ran(command.args(arguments).output().unwrap())
    };
    let kb = kb.to_str().unwrap();
    let shown = sovereign(&["sovereign", "show", "--run-id", &run, "--kb-dir", kb]).expect(0);
    let shown = String::from_utf8(shown.stdout).unwrap();
    for part in ["Cut Authorization Request", "voice code", "writer_digest", "Units"] {
        assert!(shown.contains(part), "{part}");
    }
    // Whoever knows the folder, or a document in it, has it searched for nowhere else.
    let request = bench.status(&run)["paused_at"]["request_kb_id"].as_str().unwrap().to_owned();
    let (folder, _) = request.rsplit_once('/').unwrap();
    for place in [request.as_str(), folder, &format!("{folder}/")] {
        let show = ["sovereign", "show", "--run-id", &run, "--kb-dir", kb, "--folder", place, "--json"];
        assert_eq!(sovereign(&show).expect(0).json()["request_path"], request.as_str(), "{place}");
    }
    for wrong in ["knowledge/dev/laws/elsewhere", "index.md"] {
        let show = ["sovereign", "show", "--run-id", &run, "--kb-dir", kb, "--folder", wrong, "--json"];
        let refused = sovereign(&show).expect(66).json();
        assert!(refused["error"]["message"].as_str().unwrap().contains("holds no documents of"), "{refused}");
    }
    let approve =
        ["sovereign", "approve", "--yes", "--run-id", &run, "--kb-dir", kb, "--key", key.to_str().unwrap()];
    sovereign(&approve).expect(0);
    assert_eq!(bench.resume(&run).expect(0).json()["state"], "awaiting_lifecycle_authorization");
}

#[test]
fn an_unknown_document_or_run_has_its_exit_code() {
    let bench = Bench::shared();
    let run = "ictr-20260520T101112Z-019e44f1-2a00-7123-8abc-0123456789ab";
    bench.resume(run).expect(66);
    bench.run(&["verify", "--run-id", run]).expect(66);
    let cut = bench.run(&["orchestrate", "cut", "--document-id", "NOBODY", "--json"]).expect(4).json();
    assert_eq!(cut["state"], "failed_source_pin");
    bench.run(&["unit", "list", "--document-id", "NOBODY"]).expect(2);
}

#[test]
fn a_run_that_is_held_is_busy() {
    let bench = Bench::shared();
    let run = bench.parked("BUSY", &text(14));
    let lock = bench.run_folder(&run).join("state.lock");
    // a process that holds the lock as a driver would, and says who it is
    let mut holder =
        std::process::Command::new("flock").args([lock.to_str().unwrap(), "sleep", "60"]).spawn().unwrap();
    std::thread::sleep(std::time::Duration::from_millis(300));
    bench.resume(&run).expect(75);
    holder.kill().unwrap();
    holder.wait().unwrap();
}

#[test]
fn hooks_are_told_and_cannot_change_the_run() {
    let bench = Bench::shared();
    let folder = tempfile::tempdir().unwrap();
    let told = folder.path().join("told.json");
    let text_of = std::fs::read_to_string(bench.home.join("cutter.toml")).unwrap();
    let config = format!(
        "{}\n[hooks]\non_gate = [\"sh\", \"-c\", \"cat > {}; exit 9\"]\n",
        text_of.replace("= \"keys/", &format!("= \"{}/keys/", bench.home.display())),
        told.display()
    );
    let path = folder.path().join("cutter.toml");
    std::fs::write(&path, config).unwrap();
    bench.register("HOOKED", &text(15));
    let cut = bench.run(&[
        "--config",
        path.to_str().unwrap(),
        "orchestrate",
        "cut",
        "--document-id",
        "HOOKED",
        "--json",
    ]);
    let cut = cut.expect(0);
    assert!(cut.stderr.contains("hook on_gate"), "{}", cut.stderr);
    let told: serde_json::Value = serde_json::from_slice(&std::fs::read(told).unwrap()).unwrap();
    assert_eq!(told["run_id"], cut.json()["run_id"]);
    assert_eq!(told["paused_at"]["gate"], "SG_cut_authz");
}

#[test]
fn a_driver_that_hangs_is_taken_over_and_nothing_is_done_twice() {
    let bench = Bench::shared();
    let run = bench.parked("HUNG", &text(16));
    bench.approve(&run, "cut");
    let signal = |name: &str, pid: u32| {
        std::process::Command::new("kill").args([name, &pid.to_string()]).status().unwrap();
    };
    let mut hung = None;
    for delay in [60, 90, 120, 40, 160, 200] {
        let mut child = bench
            .command()
            .args(["orchestrate", "resume", "--run-id", &run, "-q"])
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(std::time::Duration::from_millis(delay));
        signal("-STOP", child.id());
        let why = bench.run(&["why", "--run-id", &run, "--json"]).expect(0).json();
        if why["holder"]["pid"] == child.id() {
            assert!(why["next"][1].as_str().unwrap().ends_with("--take-over"), "{why}");
            hung = Some(child);
            break;
        }
        signal("-CONT", child.id());
        child.wait().unwrap();
    }
    let Some(mut child) = hung else {
        // every attempt was too fast to be caught: then the run must have gone on by itself
        assert_eq!(bench.status(&run)["state"], "awaiting_lifecycle_authorization");
        return;
    };
    bench.resume(&run).expect(75);
    let taken = bench.run(&["orchestrate", "resume", "--run-id", &run, "--take-over", "--json"]);
    let taken = taken.expect(0).json();
    assert_eq!(taken["state"], "awaiting_lifecycle_authorization");
    assert!(!child.wait().unwrap().success());
    bench.run(&["verify", "--run-id", &run]).expect(0);
}
