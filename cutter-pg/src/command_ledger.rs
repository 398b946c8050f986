//! The command ledger over PostgreSQL: claim and settlement are one definer function each, in one
//! short transaction of `cutter_exec`; reads are `cutter_ro`'s.
//!
//! The functions judge as the core does ([`cutter_core::gate::command::judge`]); a test compares them.
//! Leases and delays run by the server's clock. A ledger has connections of its own, so that it
//! never gets in the way of a run's fence.

use async_trait::async_trait;
use cutter_core::gate::command::{Judgement, PayloadConflict};
use cutter_core::port::command_ledger::{Attempt, Claim, Claimed, CommandLedger, Lease};
use cutter_core::port::{PortError, PortErrorKind, PortResult};
use cutter_core::record::command::{Command, CommandKey, Settlement};
use cutter_core::record::command_entry::CommandEntry;
use jiff::Timestamp;
use postgres::{GenericClient, Row};

use crate::database::PgDatabase;
use crate::dsn::Dsn;
use crate::error::{PORT, PgError};
use crate::login::Login;
use crate::row::{get, parsed, system_time, timestamp, unsigned};

/// The columns of `v_command` that [`entry`] reads.
const COLUMNS: &str = "v.command_key, v.kind, v.body, v.payload_sha256, v.actor, v.at, v.epoch, v.holder, \
     v.settlement, v.failures";

/// The command ledger in PostgreSQL.
#[derive(Debug)]
pub struct PgLedger(PgDatabase);

impl PgLedger {
    /// A ledger over these logins' connection strings: `cutter_exec` writes, `cutter_ro` reads.
    /// Connects to nothing yet.
    #[must_use]
    pub fn connect(exec: Dsn, ro: Dsn) -> Self {
        Self(PgDatabase::connect([(Login::Exec, exec), (Login::Ro, ro)]))
    }
}

fn small(row: &Row, column: &str) -> Result<u32, PgError> {
    let number: i32 = get(row, column)?;
    u32::try_from(number).map_err(|_| PgError::Shape(format!("column {column}: {number} is negative")))
}

fn settlement(row: &Row) -> Result<Option<Settlement>, PgError> {
    let text: Option<&str> = get(row, "settlement")?;
    let parse = |text| Settlement::parse(text).map_err(|e| PgError::Shape(format!("column settlement: {e}")));
    text.map(parse).transpose()
}

fn entry(row: &Row) -> Result<CommandEntry, PgError> {
    Ok(CommandEntry {
        key: parsed(row, "command_key")?,
        kind: parsed(row, "kind")?,
        body: get(row, "body")?,
        payload_sha256: parsed(row, "payload_sha256")?,
        actor: get(row, "actor")?,
        at: timestamp(row, "at")?,
        epoch: small(row, "epoch")?,
        holder: get(row, "holder")?,
        settlement: settlement(row)?,
        failures: u32::try_from(unsigned(row, "failures")?).unwrap_or(u32::MAX),
    })
}

fn find(client: &mut impl GenericClient, key: &CommandKey) -> Result<Option<CommandEntry>, PgError> {
    let query = format!("SELECT {COLUMNS} FROM cutter_governance.v_command v WHERE v.command_key = $1");
    client.query_opt(&query, &[&key.as_str()])?.as_ref().map(entry).transpose()
}

fn standing(client: &mut impl GenericClient, key: &CommandKey) -> Result<CommandEntry, PgError> {
    find(client, key)?.ok_or_else(|| PgError::Shape(format!("command {key} does not read back")))
}

/// The core's judgement for the function's word.
fn judgement(
    word: &str,
    left_ms: u64,
    entry: &CommandEntry,
    command: &Command,
) -> Result<Judgement, PgError> {
    Ok(match word {
        "fresh" => Judgement::Fresh,
        "retry" => Judgement::Retry,
        "unresolved" => Judgement::Unresolved,
        "busy" => Judgement::Busy { left_ms },
        "waiting" => Judgement::Waiting { left_ms },
        "replay" => Judgement::Replay(
            entry.outcome().ok_or_else(|| PgError::Shape(format!("command {} has no outcome", entry.key)))?,
        ),
        "conflict" => Judgement::Conflict(PayloadConflict {
            key: entry.key.clone(),
            recorded_kind: entry.kind.clone(),
            recorded_sha256: entry.payload_sha256,
            offered_kind: command.kind().clone(),
            offered_sha256: command.payload_sha256(),
        }),
        other => return Err(PgError::Shape(format!("column judgement: {other:?}"))),
    })
}

#[async_trait]
impl CommandLedger for PgLedger {
    async fn claim(&self, claim: &Claim) -> PortResult<Claimed> {
        let claim = claim.clone();
        self.0
            .on_requests(Login::Exec, "command claim", move |tx| {
                let (command, key) = (&claim.command, claim.command.key());
                let row = tx.query_one(
                    "SELECT c.judgement, c.attempt, c.left_ms
                     FROM cutter_governance.fn_command_claim($1, $2, $3, $4, $5, $6, $7) c",
                    &[
                        &key.as_str(),
                        &command.body(),
                        &command.payload_sha256().to_hex(),
                        &claim.actor,
                        &claim.holder,
                        &i64::try_from(claim.lease_ms).unwrap_or(i64::MAX),
                        &system_time(claim.at),
                    ],
                )?;
                let entry = standing(tx, key)?;
                let attempt: Option<i32> = get(&row, "attempt")?;
                let epoch = attempt.map(|n| {
                    u32::try_from(n).map_err(|_| PgError::Shape(format!("column attempt: {n} is negative")))
                });
                let lease =
                    epoch.transpose()?.map(|epoch| Lease { key: key.clone(), epoch, holder: claim.holder });
                let judgement =
                    judgement(get(&row, "judgement")?, unsigned(&row, "left_ms")?, &entry, command)?;
                Ok(Claimed { judgement, lease, failures: entry.failures })
            })
            .await
    }

    async fn settle(
        &self,
        lease: &Lease,
        settlement: &Settlement,
        at: Timestamp,
    ) -> PortResult<CommandEntry> {
        let op = "command settle";
        let invalid = |message: String| PortError::new(PORT, op, PortErrorKind::Invalid, message);
        let text = settlement.text().map_err(|error| invalid(error.to_string()))?;
        let epoch = i32::try_from(lease.epoch).map_err(|error| invalid(error.to_string()))?;
        let lease = lease.clone();
        self.0
            .on_requests(Login::Exec, op, move |tx| {
                tx.execute(
                    "SELECT cutter_governance.fn_command_settle($1, $2, $3, $4, $5)",
                    &[&lease.key.as_str(), &epoch, &lease.holder, &text, &system_time(at)],
                )?;
                standing(tx, &lease.key)
            })
            .await
    }

    async fn get(&self, key: &CommandKey) -> PortResult<Option<CommandEntry>> {
        let key = key.clone();
        self.0.read("command get", move |client| find(client, &key)).await
    }

    async fn attempts(&self, key: &CommandKey) -> PortResult<Vec<Attempt>> {
        let key = key.clone();
        self.0
            .read("command attempts", move |client| {
                let rows = client.query(
                    "SELECT a.epoch, a.cause, a.holder, a.actor, a.at, s.settlement
                     FROM cutter_governance.command_attempt a
                     LEFT JOIN cutter_governance.command_settlement s USING (command_key, epoch)
                     WHERE a.command_key = $1 ORDER BY a.epoch",
                    &[&key.as_str()],
                )?;
                let attempt = |row: &Row| {
                    Ok(Attempt {
                        epoch: small(row, "epoch")?,
                        cause: get(row, "cause")?,
                        holder: get(row, "holder")?,
                        actor: get(row, "actor")?,
                        at: timestamp(row, "at")?,
                        settlement: settlement(row)?,
                    })
                };
                rows.iter().map(attempt).collect()
            })
            .await
    }

    async fn unsettled(&self, after: Option<&CommandKey>, limit: u32) -> PortResult<Vec<CommandEntry>> {
        // Every key is greater than the empty text.
        let after = after.map_or_else(String::new, ToString::to_string);
        self.0
            .read("command unsettled", move |client| {
                let query = format!(
                    "SELECT {COLUMNS}
                     FROM (SELECT o.command_key FROM cutter_governance.command_open o WHERE o.command_key > $1
                           ORDER BY o.command_key LIMIT $2) p
                     JOIN cutter_governance.v_command v USING (command_key) ORDER BY v.command_key"
                );
                let rows = client.query(&query, &[&after, &i64::from(limit)])?;
                rows.iter().map(entry).collect()
            })
            .await
    }
}
