//! The model under faults: killed before and after every call, it ends as if nothing had
//! happened; what tests do behind its back is seen.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use cutter_core::gate::drift;
use cutter_core::port::database::Begun;
use cutter_core::port::{PortError, PortErrorKind};
use cutter_core::record::backup::{BackupRequest, BackupScope};
use cutter_core::record::effect::{
    EffectContext, EffectKey, EffectName, ExecutorEffect, ReviewVerdict, SweepWrite, Verdict,
};
use cutter_core::record::observed::{Fence, UnitQuery, UnitScope};
use cutter_core::testing::conformance::Case;
use cutter_core::testing::memory::{
    Fault, FaultKind, FaultPlan, MemoryPorts, Process, World, block_on, decipher,
};

/// A driver in miniature: registers, fences, performs every effect or adopts it, files a
/// document after each.
async fn drive(ports: &MemoryPorts) -> Result<(), PortError> {
    let case = Case::new(1);
    let run = case.run_id();
    ports.runs.create(&run, b"{}").await?;
    let source = ports.executor.register_source(&case.registration()).await?.source;
    let fence = ports.executor.take_fence(&run, &case.document_id, case.id("holder")).await?;
    for approval_type in ["cut_authorization", "lifecycle_enactment"] {
        ports.executor.open_ask(&fence, &case.ask(approval_type)).await?;
    }
    let effects = [
        EffectName::Mark,
        EffectName::Sweep,
        EffectName::Sg1Review,
        EffectName::LegA,
        EffectName::LegB,
        EffectName::WriteVerify,
        EffectName::Sg2Request,
        EffectName::Sg2Review,
        EffectName::Enact,
    ];
    for effect in effects {
        let cx = context(&case, &fence, effect);
        let review = |kind: &str| case.review(kind, ReviewVerdict::Approve, "1");
        let (executor, cx) = (&ports.executor, &cx);
        let execute = |e: ExecutorEffect| async move { executor.begin(cx, &e).await };
        let begun = match effect {
            EffectName::Mark => execute(ExecutorEffect::Mark(case.mark(&source))).await,
            EffectName::Sweep => {
                execute(ExecutorEffect::Sweep(SweepWrite {
                    entry_id: case.id("entry"),
                    sweep_id: case.id("sweep"),
                    history_id: case.id("history sweep"),
                }))
                .await
            }
            EffectName::LegA => execute(ExecutorEffect::LegA(case.leg_a(&source))).await,
            EffectName::LegB => execute(ExecutorEffect::LegB(case.leg_b())).await,
            EffectName::WriteVerify => ports.verifier.begin(cx, &case.write_verify()).await,
            EffectName::Sg2Request => execute(ExecutorEffect::Sg2Request(case.sg2_request())).await,
            EffectName::Enact => execute(ExecutorEffect::Enact(case.enact())).await,
            EffectName::Sg1Review => ports.reviewer.begin(cx, &review("cut_authorization")).await,
            _ => ports.reviewer.begin(cx, &review("lifecycle_enactment")).await,
        };
        if let Begun::Pending(pending) = begun? {
            pending.finish(Verdict::Commit).await?;
        }
        ports.kb.create(&format!("laws/{effect}.md"), effect.as_str().as_bytes()).await?;
    }
    Ok(())
}

fn context(case: &Case, fence: &Fence, effect: EffectName) -> EffectContext {
    EffectContext {
        fence: fence.clone(),
        key: EffectKey { run_id: case.run_id(), effect, occurrence: 1 },
        effect_id: case.id(effect.as_str()),
        payload_sha256: cutter_core::base::digest::Digest::of(effect.as_str().as_bytes()),
        at: "2026-01-02T03:04:05Z".parse().unwrap(),
        actor: "operator".into(),
        deadline_ms: 1_000,
        survey: case.scope(),
    }
}

fn finished() -> (World, Process) {
    let world = World::new(1);
    let process = world.process();
    block_on(drive(&process.ports())).unwrap();
    (world, process)
}

#[test]
fn killed_at_every_call_it_ends_as_if_undisturbed() {
    let (undisturbed, process) = finished();
    let calls = process.trace().len() as u64;
    assert_eq!(calls, 32, "five to start, then begin, finish and file for each of nine effects");
    for kind in [FaultKind::DieBefore, FaultKind::DieAfter, FaultKind::UnknownDone, FaultKind::UnknownNotDone]
    {
        for call in 1..=calls {
            let world = World::new(1);
            let process = world.process_with(FaultPlan::one(Fault::at(call, kind)));
            assert!(block_on(drive(&process.ports())).is_err(), "{kind:?} at {call}");
            block_on(drive(&world.process().ports())).unwrap();
            assert_eq!(world.snapshot(), undisturbed.snapshot(), "{kind:?} at {call}");
        }
    }
}

#[test]
fn the_snapshot_sees_rows_ids_documents_and_no_epochs() {
    let (world, _) = finished();
    let before = world.snapshot();
    assert!(!before.contains("fence_epoch"), "{before}");
    for table in ["information_unit", "run_effect", "iu_lifecycle_log", "approval_use", "document"] {
        assert!(before.lines().any(|line| line.starts_with(&format!("{table} "))), "{table}");
    }
    assert!(world.corrupt_document("laws/mark.md", b"other"));
    assert_ne!(world.snapshot(), before);
    let (world, _) = finished();
    assert!(world.drop_unit("CONF-DOC/art-2"));
    assert_ne!(world.snapshot(), before);
}

#[test]
fn drift_behind_the_driver_s_back_is_seen_in_its_dimension() {
    let (world, process) = finished();
    let ports = process.ports();
    let scope = Case::new(1).scope();
    let survey = || block_on(ports.reader.survey(&scope)).unwrap();
    let pins = survey();
    let moved = |change: &dyn Fn()| -> Vec<String> {
        let before = survey();
        change();
        drift::compare(&before, &survey()).into_iter().map(|d| d.dimension).collect()
    };
    assert_eq!(
        moved(&|| world.alter_function("iu_core.fn_iu_create", "begin end")),
        ["function.iu_core.fn_iu_create"]
    );
    assert_eq!(moved(&|| world.drop_function("iu_core.fn_iu_enact")), ["function.iu_core.fn_iu_enact"]);
    assert_eq!(moved(&|| world.alter_trigger("trg_iu_enacted_immut", "D")), [drift::TRIGGERS]);
    assert_eq!(moved(&|| world.set_database_identity("memory/2")), [drift::DATABASE_IDENTITY]);
    assert_eq!(moved(&|| world.set_migrations("other")), [drift::MIGRATIONS]);
    assert_eq!(moved(&|| world.alter_grants(|g| g.public_execute.push("f".into()))), [drift::GRANTS]);
    assert_eq!(moved(&|| world.alter_vocabulary(|v| v.unit_kind.clear())), [drift::VOCABULARY]);
    assert_eq!(
        moved(&|| assert!(world.intrude_unit("CONF-DOC/art-1", "CONF-DOC/art-9"))),
        [drift::UNIT_DIGEST, drift::UNIT_ROWS]
    );
    assert_eq!(moved(&|| assert!(world.drop_unit("CONF-DOC/art-9"))), [drift::UNIT_DIGEST, drift::UNIT_ROWS]);
    assert_eq!(drift::compare(&pins, &survey()).len(), 7);
}

#[test]
fn a_function_replaced_inside_the_transaction_is_seen_by_the_second_survey_only() {
    let world = World::new(1);
    world.alter_function_inside(EffectName::Mark, "iu_core.fn_iu_create", "swapped");
    let ports = world.process().ports();
    let case = Case::new(1);
    let source = block_on(ports.executor.register_source(&case.registration())).unwrap().source;
    let fence =
        block_on(ports.executor.take_fence(&case.run_id(), &case.document_id, case.id("holder"))).unwrap();
    let cx = context(&case, &fence, EffectName::Mark);
    let pins = block_on(ports.reader.survey(&case.scope())).unwrap();
    let mark = ExecutorEffect::Mark(case.mark(&source));
    let Begun::Pending(pending) = block_on(ports.executor.begin(&cx, &mark)).unwrap() else {
        panic!("a record")
    };
    let facts = pending.facts();
    assert_eq!(facts.survey_before, pins);
    let strange = drift::unexplained(EffectName::Mark, 4, &facts.survey_before, &facts.survey_after);
    assert_eq!(strange.len(), 1, "{strange:?}");
    assert_eq!(strange[0].dimension, "function.iu_core.fn_iu_create");
    block_on(pending.finish(Verdict::Rollback)).unwrap();
    // the other session's function stays
    assert_ne!(block_on(ports.reader.survey(&case.scope())).unwrap(), pins);
}

#[test]
fn another_run_s_commit_in_between_is_not_lost() {
    let world = World::new(1);
    let ports = world.process().ports();
    let (first, mut second) = (Case::new(1), Case::new(2));
    second.document_id = "OTHER-DOC".into();
    let mut open = Vec::new();
    for case in [&first, &second] {
        let source = block_on(ports.executor.register_source(&case.registration())).unwrap().source;
        let fence =
            block_on(ports.executor.take_fence(&case.run_id(), &case.document_id, case.id("h"))).unwrap();
        let cx = context(case, &fence, EffectName::Mark);
        let mark = ExecutorEffect::Mark(case.mark(&source));
        match block_on(ports.executor.begin(&cx, &mark)).unwrap() {
            Begun::Pending(pending) => open.push(pending),
            Begun::Recorded(_) => panic!("a record"),
        }
    }
    for pending in open.into_iter().rev() {
        assert!(block_on(pending.finish(Verdict::Commit)).unwrap().is_some());
    }
    for case in [first, second] {
        let evidence = block_on(ports.reader.evidence(&case.run_id())).unwrap();
        assert_eq!(evidence.entry_status.as_deref(), Some("marked"));
    }
}

#[test]
fn enacted_units_are_immutable_while_their_trigger_is_on() {
    let (world, process) = finished();
    let denied = world.edit_unit("CONF-DOC/art-1", b"other").unwrap_err();
    assert_eq!(denied.kind, PortErrorKind::Denied);
    world.alter_trigger("trg_iu_enacted_immut", "D");
    world.edit_unit("CONF-DOC/art-1", b"other").unwrap();
    let case = Case::new(1);
    let reader = process.ports().reader;
    let facts = block_on(reader.structural(case.id("change set"), &case.document_id, &[])).unwrap();
    assert_eq!((facts.hash_mismatches, facts.units), (1, 4));
    assert_ne!(facts.region_sha, Some(cutter_core::base::digest::Digest::of(case.text.as_bytes())));
    let query =
        UnitQuery { document_id: case.document_id, scope: UnitScope::Live, limit: 1, ..UnitQuery::default() };
    assert_eq!(block_on(reader.units(&query)).unwrap()[0].lifecycle_status, "enacted");
}

#[test]
fn a_lost_effect_and_a_corrupt_backup_are_seen() {
    let (world, process) = finished();
    let ports = process.ports();
    let case = Case::new(1);
    let run = case.run_id();
    let key = EffectKey { run_id: run.clone(), effect: EffectName::LegA, occurrence: 1 };
    assert!(world.drop_effect(&key));
    assert!(block_on(ports.reader.effect(&key)).unwrap().is_none());

    let request = BackupRequest {
        run_id: run.clone(),
        document_id: case.document_id,
        scope: BackupScope::Database,
        at: "2026-01-02T03:04:05Z".into(),
        deadline_ms: 1_000,
    };
    let (blob, plaintext) = block_on(async {
        let mut stream = ports.backup_source.open(&request).await?;
        let mut sink = ports.backup_target.begin(&run, 1).await?;
        let mut plaintext = Vec::new();
        while let Some(chunk) = stream.next().await? {
            plaintext.extend_from_slice(&chunk);
            sink.write(&chunk).await?;
        }
        stream.finish().await?;
        Ok::<_, PortError>((sink.finish().await?, plaintext))
    })
    .unwrap();
    assert_eq!(world.backups(&run), std::slice::from_ref(&blob.name));
    assert_eq!(decipher(&world.backup(&run, &blob.name).unwrap()), Some(plaintext));
    assert!(world.corrupt_backup(&run, &blob.name));
    let (found, length) = block_on(ports.backup_target.rehash(&run, &blob.name)).unwrap().unwrap();
    assert_eq!(length, blob.bytes);
    assert_ne!(found, blob.sha256);
    world.set_backup_reachable(false);
    assert!(!block_on(ports.backup_target.probe(&run)).unwrap().reachable);
    let error = block_on(ports.backup_target.begin(&run, 2)).err().unwrap();
    assert_eq!(error.kind, PortErrorKind::Unavailable);
}

#[test]
fn the_locks_of_a_dead_process_are_free() {
    let world = World::new(1);
    let process = world.process();
    let case = Case::new(1);
    let holder = cutter_core::port::run_store::LockHolder {
        holder: case.id("holder"),
        host: "here".into(),
        pid: 1,
        since: "2026-01-02T03:04:05Z".into(),
        command: "cut".into(),
    };
    let lock = block_on(process.ports().runs.lock(&case.run_id(), &holder)).unwrap();
    let next = world.process().ports().runs;
    assert_eq!(block_on(next.lock(&case.run_id(), &holder)).err().unwrap().kind, PortErrorKind::Busy);
    process.kill();
    let taken = block_on(next.lock(&case.run_id(), &holder)).unwrap();
    // what the dead one still holds in memory does not free the new lock
    drop(lock);
    assert!(block_on(next.lock_holder(&case.run_id())).unwrap().is_some());
    drop(taken);
    assert!(block_on(next.lock_holder(&case.run_id())).unwrap().is_none());
}
