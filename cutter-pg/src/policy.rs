//! The policy's chain in the database: read by every login, appended to by the administrator.

use async_trait::async_trait;
use cutter_core::base::cas::CasOutcome;
use cutter_core::base::digest::Digest;
use cutter_core::port::policy::PolicyStore;
use cutter_core::port::{PortError, PortErrorKind, PortResult};
use cutter_core::record::policy::{NewEvent, PolicyRecord, StoredEvent};
use postgres::Client;

use crate::connection::{Connection, SessionSettings};
use crate::dsn::Dsn;
use crate::error::{PORT, PgError};
use crate::row::{bigint, get, timestamp, unsigned};
use crate::typed::params;

/// The administrator's side of the policy: a connection for each event.
pub struct PgPolicyStore {
    dsn: Dsn,
}

impl PgPolicyStore {
    /// A store over the administrator's connection string. Connects to nothing yet.
    #[must_use]
    pub const fn connect(dsn: Dsn) -> Self {
        Self { dsn }
    }
}

/// Everything that is stored, in one look: number 0 is a key.
pub(crate) fn read(client: &mut Client) -> Result<PolicyRecord, PgError> {
    let rows = client.query_typed(
        "SELECT e.seq, e.document, e.recorded_at FROM cutter_governance.policy_event e
         UNION ALL SELECT 0, k.public_key, k.recorded_at FROM cutter_governance.policy_key k
         ORDER BY 1",
        params![],
    )?;
    let mut record = PolicyRecord::default();
    for row in &rows {
        let text =
            String::from_utf8(get(row, "document")?).map_err(|e| PgError::Shape(format!("policy: {e}")))?;
        match unsigned(row, "seq")? {
            0 => {
                record.keys.insert(Digest::of(text.as_bytes()), text);
            }
            seq => record.events.push(StoredEvent {
                seq,
                document: text,
                recorded_at: timestamp(row, "recorded_at")?,
            }),
        }
    }
    Ok(record)
}

#[async_trait]
impl PolicyStore for PgPolicyStore {
    async fn append(&self, event: &NewEvent) -> PortResult<CasOutcome<u64>> {
        let op = "append_policy";
        let invalid = |message: String| PortError::new(PORT, op, PortErrorKind::Invalid, message);
        event.check().map_err(|unfit| invalid(unfit.to_string()))?;
        let seq = bigint(event.seq).map_err(|e| e.to_port(op))?;
        let previous = event.previous.map(|d| d.to_hex());
        let document = event.document.clone().into_bytes();
        let keys: Vec<Vec<u8>> = event.keys.iter().map(|key| key.clone().into_bytes()).collect();
        let connection = Connection::open(self.dsn.clone(), SessionSettings::admin()).await;
        let connection = connection.map_err(|e| e.to_port(op))?;
        let appended = connection
            .run(move |client| {
                let mut transaction = client.transaction()?;
                transaction.batch_execute("SET LOCAL ROLE cutter_owner")?;
                let row = transaction.query_one(
                    "SELECT a.outcome, a.highest FROM cutter_governance.fn_policy_append($1, $2, $3, $4) a",
                    &[&seq, &previous, &document, &keys],
                )?;
                let found = (get::<_, String>(&row, "outcome")?, unsigned(&row, "highest")?);
                transaction.commit().map_err(|e| PgError::from(e).commit_outcome())?;
                Ok(found)
            })
            .await;
        let (outcome, highest) = appended.map_err(|e| e.to_port(op))?;
        match outcome.as_str() {
            "applied" => Ok(CasOutcome::Applied),
            "already_applied" => Ok(CasOutcome::AlreadyApplied),
            "conflict" => Ok(CasOutcome::Conflict { found: highest }),
            other => Err(PortError::new(PORT, op, PortErrorKind::Corrupt, format!("outcome {other:?}"))),
        }
    }
}
