//! What the database holds of a run, with all that it is judged by.

use std::collections::BTreeMap;

use cutter_core::base::digest::Digest;
use cutter_core::operate::inspect::Claims;
use cutter_core::operate::inspect::verify::{self, ApprovalFact, DatabaseFacts, StatementFacts};
use cutter_core::port::database::Reader as _;
use cutter_core::record::effect::EffectName;
use cutter_core::record::evidence::{RunEvidence, RunRows};
use cutter_core::record::observed::{UnitQuery, UnitScope};
use cutter_core::record::pin;
use cutter_core::record::policy::Chain;
use cutter_core::record::signature::Duty;
use cutter_core::record::statement::{Before, Material, version_before};
use cutter_core::record::stored_statement::StoredStatement;
use cutter_pg::PgDatabase;
use futures_executor::block_on;

use super::gather::{Gathered, Stored};
use crate::commands::unit::read_all;
use crate::config::Config;
use crate::failure::Failure;
use crate::wire;

/// The database's rows, against what the run claims and what was signed.
pub(super) fn judge_database(
    config: &Config,
    stored: Stored,
    chain: &Chain,
    claims: &Claims,
    approvals: &[ApprovalFact],
    out: &mut Gathered,
) -> Result<(), Failure> {
    let Stored { database, evidence, rows, statement, .. } = stored;
    // by the pin, else by what the database itself says of the run
    let of_rows = || {
        let sets = rows.as_ref()?.0.get("cut_change_set")?;
        let cut = sets.iter().find(|row| row.get("kind").is_some_and(|kind| kind == "cut"))?;
        cut.get("change_set_id")?.as_str()?.parse().ok()
    };
    let set = claims.pins.get("change_set_id").and_then(|id| id.parse().ok()).or_else(of_rows);
    let (mut units, mut rows_digest) = (Vec::new(), None);
    if let Some(set) = set {
        units = read_all(
            &database,
            UnitQuery {
                document_id: claims.document_id.clone(),
                scope: UnitScope::ChangeSet(set),
                with_content: true,
                ..UnitQuery::default()
            },
        )?;
        rows_digest = block_on(database.rows_digest(set))?;
    }
    let source = match source_version(&database, claims)? {
        Some(id) => block_on(database.source_text(id)).ok(),
        None => None,
    };
    let mut public_keys = BTreeMap::new();
    for (duty, path) in [("executor", &config.keys.executor), ("verifier", &config.keys.verifier)] {
        match wire::duty_public_key(path) {
            Ok(key) => {
                public_keys.insert(duty.to_owned(), key);
            }
            // the policy has it
            Err(_) if chain.now().duty_keys.iter().any(|key| key.duty.as_str() == duty) => {}
            Err(_) => {
                let file = wire::public_half(path).display().to_string();
                out.open(
                    &format!("whether the {duty}'s key is the registered one"),
                    "the policy has none, and the configured one is not here",
                    file,
                );
            }
        }
    }
    registered_keys(chain, &evidence, &mut public_keys);
    let (checks, note) = verify::rows_signed(approvals, rows_digest.as_ref());
    if set.is_some() {
        out.checks.extend(checks);
        out.not_checked.extend(note);
    }
    judge_statement(
        config,
        &database,
        chain,
        claims,
        Said { statement, evidence: &evidence, rows: &rows, rows_digest },
        out,
    )?;
    let facts = DatabaseFacts { evidence, units, source, public_keys, rows, rows_digest };
    out.checks.extend(verify::database(claims, &facts));
    Ok(())
}

/// A statement, and what it is compared with.
struct Said<'a> {
    statement: Option<StoredStatement>,
    evidence: &'a RunEvidence,
    rows: &'a Option<RunRows>,
    rows_digest: Option<Digest>,
}

/// The statement that the run made when it was closed, against everything that it was made of.
fn judge_statement(
    config: &Config,
    database: &PgDatabase,
    chain: &Chain,
    claims: &Claims,
    said: Said<'_>,
    out: &mut Gathered,
) -> Result<(), Failure> {
    let version = claims.pin(pin::SOURCE_VERSION_NO);
    let versions = block_on(database.versions(&claims.document_id))?;
    let enacted = block_on(database.enacted_runs(&claims.document_id))?;
    out.checks.push(verify::versions_agree(&versions, &enacted));
    let before = match version_before(&versions, &version) {
        Some((version, set)) => block_on(database.rows_digest(set))?.map(|rows| Before { version, rows }),
        None => None,
    };
    let no_rows = RunRows::default();
    let expected = match (claims.pin(pin::SOURCE_SHA256).parse(), said.rows_digest) {
        (Ok(source_sha256), Some(rows_digest)) => Material {
            run_id: claims.run_id.as_str(),
            document_id: &claims.document_id,
            version: &version,
            source_sha256,
            rows_digest,
            units: claims.pin(pin::CANDIDATE_COUNT).parse().unwrap_or_default(),
            enacted: said.evidence.effects.iter().find(|e| e.key.effect == EffectName::Enact),
            rows: said.rows.as_ref().unwrap_or(&no_rows),
            approvals: &claims.approvals,
            before,
            recorded: None,
        }
        .body()
        .map_err(|e| e.to_string()),
        _ => Err("the rows of its units, or its text, are not there".to_owned()),
    };
    let own = |duty: Duty| {
        let path = if duty == Duty::Executor { &config.keys.executor } else { &config.keys.verifier };
        wire::duty_public_key(path).ok()
    };
    let key = |duty: Duty, at: Option<jiff::Timestamp>| {
        let registered = at.and_then(|at| chain.duty_key_at(duty, at)).map(ToOwned::to_owned);
        // A checker's own key that the policy never knew stays the one to compare with.
        let own = own(duty).filter(|own| !chain.now().is_duty_key(duty, own));
        own.or(registered)
    };
    let facts = StatementFacts { stored: said.statement.as_ref(), expected, key: &key };
    let (checks, note) = verify::statement(claims, &facts);
    out.checks.extend(checks);
    out.not_checked.extend(note);
    out.statement = said.statement;
    Ok(())
}

/// A signature is judged by the key that was registered for its duty when it was stored; where
/// that time was not kept, by any that ever was.
fn registered_keys(chain: &Chain, evidence: &RunEvidence, public_keys: &mut BTreeMap<String, String>) {
    let now = chain.now();
    for duty in [Duty::Executor, Duty::Verifier] {
        let Some(latest) = now.duty_key(duty) else { continue };
        // A checker's own key that the policy never knew stays the one to compare with.
        if public_keys.get(duty.as_str()).is_some_and(|own| !now.is_duty_key(duty, own)) {
            continue;
        }
        let signature = evidence.signatures.iter().find(|s| s.duty == duty.as_str());
        let of_then = signature.and_then(|s| chain.duty_key_at(duty, s.recorded_at?));
        let expected = match (of_then, signature) {
            (Some(key), _) => key.to_owned(),
            (None, Some(s)) if now.is_duty_key(duty, &s.public_key) => s.public_key.clone(),
            _ => latest.to_owned(),
        };
        public_keys.insert(duty.as_str().to_owned(), expected);
    }
}

/// The run's own version, which need not be the newest any more.
fn source_version(database: &PgDatabase, claims: &Claims) -> Result<Option<uuid::Uuid>, Failure> {
    let Some(number) = claims.pins.get("source_version_no") else { return Ok(None) };
    if let Some(id) = claims.pins.get("source_version_id").and_then(|id| id.parse().ok()) {
        return Ok(Some(id));
    }
    let versions = block_on(database.versions(&claims.document_id))?;
    Ok(versions.iter().find(|v| v.version_no.to_string() == *number).map(|v| v.source_version_id))
}
