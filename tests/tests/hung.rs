//! Statements that hang are ended by what is left of the cap, and the run says so.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use cutter_core::base::id::RunId;
use cutter_core::driver::{self, Driven, NewRun, Outcome, Ports, ResumeOptions};
use cutter_core::port::PortResult;
use cutter_core::port::database::{Begun, Executor};
use cutter_core::record::ask::AskWrite;
use cutter_core::record::effect::{EffectContext, EffectName, ExecutorEffect, ReviewVerdict};
use cutter_core::record::observed::{Fence, Registered, SourceRegistration};
use cutter_core::record::sidecar::Mode;
use cutter_core::record::stored_statement::StatementSignature;
use cutter_pg::login::Login;
use cutter_pg::testing::TestServer;
use cutter_tests::pg::{PgWorld, caller, document_of};
use futures_executor::block_on;
use uuid::Uuid;

/// What is left of the cap when leg A begins.
const LEFT_MS: u64 = 1_500;

/// The executor, late: most of the cap is used up when leg A begins.
struct Late(Arc<dyn Executor>);

#[async_trait]
impl Executor for Late {
    async fn register_source(&self, registration: &SourceRegistration) -> PortResult<Registered> {
        self.0.register_source(registration).await
    }
    async fn take_fence(&self, run_id: &RunId, document_id: &str, holder: Uuid) -> PortResult<Fence> {
        self.0.take_fence(run_id, document_id, holder).await
    }
    async fn open_ask(&self, fence: &Fence, ask: &AskWrite) -> PortResult<()> {
        self.0.open_ask(fence, ask).await
    }

    async fn store_statement(
        &self,
        fence: &Fence,
        body: &str,
        signature: &StatementSignature,
    ) -> PortResult<()> {
        self.0.store_statement(fence, body, signature).await
    }

    async fn begin(&self, cx: &EffectContext, effect: &ExecutorEffect) -> PortResult<Begun> {
        let mut cx = cx.clone();
        if cx.key.effect == EffectName::LegA {
            cx.deadline_ms = LEFT_MS;
        }
        self.0.begin(&cx, effect).await
    }
}

fn resume(ports: &Ports, run_id: &RunId) -> Driven {
    block_on(driver::resume(ports, &caller(), run_id, &ResumeOptions::default())).unwrap()
}

#[test]
fn a_statement_that_hangs_is_ended_with_the_cap_and_the_run_goes_on_when_time_is_granted() {
    let world = PgWorld::new(TestServer::shared());
    let ports = world.ports();
    world.register(&ports, "LAW-HUNG", &document_of(5, "the cap"));
    let request = NewRun {
        document_id: "LAW-HUNG".into(),
        mode: Mode::Live,
        settings: world.settings.clone(),
        run_id: None,
    };
    let driven = block_on(driver::cut(&ports, &caller(), request)).unwrap();
    let Outcome::Paused { ask, .. } = &driven.outcome else { panic!("{:?}", driven.outcome) };
    world.sign(ask, ReviewVerdict::Approve);
    let run_id = driven.sidecar.run_id.clone();

    // another session holds a table that leg A writes to
    let mut blocker = world.database.client(Login::Admin);
    let mut lock = blocker.transaction().unwrap();
    lock.batch_execute("LOCK TABLE iu_core.unit_anchor IN SHARE MODE").unwrap();
    let mut late = world.ports();
    late.executor = Arc::new(Late(late.executor.clone()));
    let started = Instant::now();
    let driven = resume(&late, &run_id);
    let took = started.elapsed();
    let Outcome::Stopped(stop) = &driven.outcome else { panic!("{:?}", driven.outcome) };
    assert_eq!(stop.code, "STOP_AND_ESCALATE");
    assert_eq!(driven.sidecar.state, "stopped_and_escalate");
    assert!(took >= Duration::from_millis(LEFT_MS), "{took:?}");
    assert!(took < Duration::from_secs(60), "{took:?}");
    lock.rollback().unwrap();

    let mut client = world.database.client(Login::Admin);
    let mut count = |sql: &str| client.query_one(sql, &[]).unwrap().get::<_, i64>(0);
    assert_eq!(count("SELECT count(*) FROM iu_core.information_unit"), 0);
    let left = "SELECT count(*) FROM pg_stat_activity
                WHERE datname = current_database() AND state LIKE 'idle in transaction%'";
    assert_eq!(count(left), 0, "nothing is left open");

    // passed caps are the sovereign's: a plain resume changes nothing
    let again = resume(&ports, &run_id);
    assert!(matches!(again.outcome, Outcome::Stopped(_)), "{:?}", again.outcome);
    let kind = cutter_core::report::naming::EscalationKind::Resume;
    let mut ask = driver::ask_for_stop(&driven.sidecar, stop, kind);
    ask.required.insert("granted_minutes".into(), "10".into());
    world.sign(&ask, ReviewVerdict::Approve);
    let on = resume(&ports, &run_id);
    assert!(matches!(on.outcome, Outcome::Paused { .. }), "{:?} {:?}", on.outcome, on.sidecar.last_error);
    assert_eq!(count("SELECT count(*) FROM iu_core.information_unit"), 5);
}
