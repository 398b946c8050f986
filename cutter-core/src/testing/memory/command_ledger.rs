//! The command ledger in memory: judged by the core, leases and delays by the world's clock.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};

use super::cut_request::micros;
use super::world::Process;
use crate::base::limits::ACTOR_MAX_BYTES;
use crate::gate::command::{Standing, judge};
use crate::port::command_ledger::{Attempt, Claim, Claimed, CommandLedger, Lease};
use crate::port::{Port, PortError, PortErrorKind, PortResult};
use crate::record::command::{Command, CommandKey, Settlement};
use crate::record::command_entry::CommandEntry;

const PORT: Port = Port::CommandLedger;

/// A command with its attempts, never empty.
#[derive(Clone)]
pub(super) struct Row {
    command: Command,
    attempts: Vec<AttemptRow>,
}

#[derive(Clone)]
struct AttemptRow {
    attempt: Attempt,
    /// When the lease ends, or, once it ended in `waiting`, when another attempt is due.
    until: Timestamp,
}

/// Rows by key.
pub(super) type Commands = BTreeMap<CommandKey, Row>;

/// The command ledger of one process.
pub struct MemoryLedger(pub(super) Process);

fn error(op: &str, kind: PortErrorKind, message: impl Into<String>) -> PortError {
    PortError::new(PORT, op, kind, message)
}

fn after(now: Timestamp, millis: u64) -> Timestamp {
    let millis = i64::try_from(millis).unwrap_or(i64::MAX);
    now.checked_add(SignedDuration::from_millis(millis)).unwrap_or(Timestamp::MAX)
}

fn left(now: Timestamp, until: Timestamp) -> u64 {
    let nanos = until.as_nanosecond().saturating_sub(now.as_nanosecond()).max(0);
    u64::try_from((nanos + 999_999) / 1_000_000).unwrap_or(u64::MAX)
}

fn entry(row: &Row) -> PortResult<CommandEntry> {
    let (Some(first), Some(newest)) = (row.attempts.first(), row.attempts.last()) else {
        return Err(error("read", PortErrorKind::Corrupt, format!("{}: no attempt", row.command.key())));
    };
    let is_wait = |a: &&AttemptRow| matches!(a.attempt.settlement, Some(Settlement::Waiting { .. }));
    Ok(CommandEntry {
        key: row.command.key().clone(),
        kind: row.command.kind().clone(),
        body: row.command.body().to_string(),
        payload_sha256: row.command.payload_sha256(),
        actor: first.attempt.actor.clone(),
        at: first.attempt.at,
        epoch: newest.attempt.epoch,
        holder: newest.attempt.holder,
        settlement: newest.attempt.settlement.clone(),
        failures: u32::try_from(row.attempts.iter().filter(is_wait).count()).unwrap_or(u32::MAX),
    })
}

#[async_trait]
impl CommandLedger for MemoryLedger {
    async fn claim(&self, claim: &Claim) -> PortResult<Claimed> {
        let op = "claim";
        if claim.actor.is_empty() || claim.actor.len() > ACTOR_MAX_BYTES {
            let message = format!("actor: expected 1 to {ACTOR_MAX_BYTES} bytes, observed {:?}", claim.actor);
            return Err(error(op, PortErrorKind::Invalid, message));
        }
        self.0.call(PORT, op, |data| {
            let (now, key) = (data.now, claim.command.key());
            let standing = match data.commands.get(key) {
                None => None,
                Some(row) => {
                    let until = row.attempts.last().map_or(now, |a| a.until);
                    let left = left(now, until);
                    Some(Standing { entry: entry(row)?, lease_left_ms: left, delay_left_ms: left })
                }
            };
            let judgement = judge(standing.as_ref(), &claim.command, claim.holder);
            let (epoch, failures) = standing.map_or((0, 0), |s| (s.entry.epoch, s.entry.failures));
            if !judgement.claims() {
                return Ok(Claimed { judgement, lease: None, failures });
            }
            let lease = Lease { key: key.clone(), epoch: epoch + 1, holder: claim.holder };
            let row = data
                .commands
                .entry(key.clone())
                .or_insert_with(|| Row { command: claim.command.clone(), attempts: Vec::new() });
            let attempt = Attempt {
                epoch: lease.epoch,
                cause: judgement.as_str().to_string(),
                holder: claim.holder,
                actor: claim.actor.clone(),
                at: micros(claim.at),
                settlement: None,
            };
            row.attempts.push(AttemptRow { attempt, until: after(now, claim.lease_ms) });
            Ok(Claimed { judgement, lease: Some(lease), failures })
        })
    }

    async fn settle(&self, lease: &Lease, settlement: &Settlement, _: Timestamp) -> PortResult<CommandEntry> {
        let op = "settle";
        let text = settlement.text().map_err(|e| error(op, PortErrorKind::Invalid, e.to_string()))?;
        self.0.call(PORT, op, |data| {
            let now = data.now;
            let Some(row) = data.commands.get_mut(&lease.key) else {
                return Err(error(op, PortErrorKind::NotFound, format!("no command {}", lease.key)));
            };
            let newest = row.attempts.last().map_or(0, |a| a.attempt.epoch);
            let fenced = || {
                let message =
                    format!("command {}: attempt {} is not the newest, or another's", lease.key, lease.epoch);
                error(op, PortErrorKind::Fenced, message)
            };
            let mine = row.attempts.iter_mut().find(|a| a.attempt.epoch == lease.epoch);
            let mine = mine.filter(|a| a.attempt.holder == lease.holder).ok_or_else(fenced)?;
            match &mine.attempt.settlement {
                Some(stands) if stands.text().ok().as_ref() == Some(&text) => {}
                Some(stands) => {
                    let message = format!(
                        "command {}: attempt {} ended as {}, observed {}",
                        lease.key,
                        lease.epoch,
                        stands.state(),
                        settlement.state()
                    );
                    return Err(error(op, PortErrorKind::Conflict, message));
                }
                None if lease.epoch < newest => return Err(fenced()),
                None => {
                    if let Settlement::Waiting { delay_ms, .. } = settlement {
                        mine.until = after(now, *delay_ms);
                    }
                    mine.attempt.settlement = Some(settlement.clone());
                }
            }
            entry(row)
        })
    }

    async fn get(&self, key: &CommandKey) -> PortResult<Option<CommandEntry>> {
        self.0.call(PORT, "get", |data| data.commands.get(key).map(entry).transpose())
    }

    async fn attempts(&self, key: &CommandKey) -> PortResult<Vec<Attempt>> {
        self.0.call(PORT, "attempts", |data| {
            let rows = data.commands.get(key).map(|row| row.attempts.as_slice()).unwrap_or_default();
            Ok(rows.iter().map(|row| row.attempt.clone()).collect())
        })
    }

    async fn unsettled(&self, after: Option<&CommandKey>, limit: u32) -> PortResult<Vec<CommandEntry>> {
        self.0.call(PORT, "unsettled", |data| {
            let mut found = Vec::new();
            for row in
                data.commands.iter().filter(|(key, _)| after.is_none_or(|a| *key > a)).map(|(_, row)| row)
            {
                if found.len() as u64 >= u64::from(limit) {
                    break;
                }
                let entry = entry(row)?;
                if entry.outcome().is_none() {
                    found.push(entry);
                }
            }
            Ok(found)
        })
    }
}
