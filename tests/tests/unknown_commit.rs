//! The unknown commit: a real connection, cut between COMMIT and its answer, at every COMMIT of a
//! run. Resume adopts what was committed, and redoes under the same ids what was not.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use cutter_pg::login::Login;
use cutter_pg::testing::{CommitProxy, Cut};
use cutter_tests::cli::{Counts, Deployment, Ran, UNITS, finish, is_full, law};

struct Cutting<'a> {
    d: &'a Deployment,
    proxy: CommitProxy,
}

impl Cutting<'_> {
    fn run(&self, arguments: &[&str]) -> Ran {
        let mut command = self.d.command(arguments);
        command.envs(self.d.through(&self.proxy));
        finish(command)
    }

    fn resume(&self, run_id: &str) -> Ran {
        self.run(&["orchestrate", "resume", "--run-id", run_id])
    }

    /// Drives a document to its end through the proxy, over whatever stops on the way.
    fn drive(&self, document_id: &str) -> String {
        let mut ran = self.run(&["orchestrate", "cut", "--document-id", document_id]);
        let list = self.d.run(&["orchestrate", "list"]).exits(0).json;
        let runs = list.pointer("/runs").and_then(serde_json::Value::as_array).unwrap();
        let run = runs.iter().find(|run| run["document_id"] == document_id).unwrap();
        let run_id = run["run_id"].as_str().unwrap().to_owned();
        for _ in 0..8 {
            match ran.state() {
                "closeout_reported" => return run_id,
                "awaiting_cut_authorization" => self.d.approve(&run_id, "cut"),
                "awaiting_lifecycle_authorization" => self.d.approve(&run_id, "lifecycle"),
                // trouble of the surroundings: a plain resume goes on
                state => {
                    assert_eq!(ran.code, Some(3), "{state}: {}\n{}", ran.stdout, ran.stderr);
                    assert_eq!(ran.stop_code(), "STOP_DATABASE_UNAVAILABLE", "{}", ran.stdout);
                }
            }
            ran = self.resume(&run_id);
        }
        panic!("{run_id} does not come to its end: {}\n{}", ran.stdout, ran.stderr);
    }
}

/// Effects with their ids as the sidecars chose them, to be compared with the revisions.
fn effect_ids(d: &Deployment, run_id: &str) -> Vec<String> {
    let sql = "SELECT effect || ' ' || effect_id::text FROM cutter_governance.run_effect
               WHERE run_id = $1 ORDER BY 1";
    d.texts(sql, &[&run_id])
}

/// Every id that the database holds was chosen in a revision before, and in only one intent.
fn assert_ids_were_chosen_before(d: &Deployment, run_id: &str) {
    let revisions = d.files(&format!("runs/{run_id}/rev"));
    let text: Vec<String> =
        revisions.into_iter().map(|(_, bytes)| String::from_utf8(bytes).unwrap()).collect();
    let ids = effect_ids(d, run_id);
    assert!(ids.len() >= 9, "{ids:?}");
    for line in ids {
        let id = line.split(' ').next_back().unwrap();
        assert!(text.iter().any(|revision| revision.contains(id)), "{line} was not in an intent");
    }
}

#[test]
fn cut_at_every_commit_a_run_comes_to_the_same_result_under_the_same_ids() {
    let d = Deployment::new();
    let text = law(4, "the cut");
    let cutting = Cutting { d: &d, proxy: CommitProxy::before(&d.database.dsn(Login::Exec)) };
    let start = |n: usize| -> (String, Counts) {
        let document_id = format!("LAW-{n:04}");
        d.register(&document_id, &text);
        (document_id, d.counts())
    };
    let (reference, before) = start(0);
    let seen = cutting.proxy.commits();
    let run_id = cutting.drive(&reference);
    let commits = usize::try_from(cutting.proxy.commits() - seen).unwrap();
    assert!(commits >= 9, "a run has nine effects, observed {commits} commits");
    let (added, units) = (d.added_since(&before), d.texts(UNITS, &[&reference]));
    let effects = effect_ids(&d, &run_id).len();

    let kinds: &[Cut] = if is_full() {
        &[Cut::BeforeCommit, Cut::AfterAnswer, Cut::AtCommit, Cut::AtCommit, Cut::AtCommit]
    } else {
        &[Cut::AfterAnswer, Cut::BeforeCommit]
    };
    let mut n = 0;
    for (k, kind) in kinds.iter().enumerate() {
        for at in 0..commits {
            // by default every other COMMIT is lost in one way and the rest in the other
            if !is_full() && at % kinds.len() != k {
                continue;
            }
            n += 1;
            let (document_id, before) = start(n);
            cutting.proxy.cut_after(at, *kind);
            let cuts = cutting.proxy.cuts();
            let run_id = cutting.drive(&document_id);
            assert_eq!(cutting.proxy.cuts(), cuts + 1, "{kind:?} at {at}: the connection was cut");
            assert_eq!(d.added_since(&before), added, "{kind:?} at COMMIT {at}");
            assert_eq!(d.texts(UNITS, &[&document_id]), units, "{kind:?} at COMMIT {at}");
            assert_eq!(effect_ids(&d, &run_id).len(), effects, "{kind:?} at COMMIT {at}");
            assert_ids_were_chosen_before(&d, &run_id);
            d.verify(&run_id);
        }
    }
}
