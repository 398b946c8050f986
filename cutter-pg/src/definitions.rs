//! Whether the schema is what the migrations made: every function, table, column, index, constraint,
//! trigger, view, policy and grant of ours, compared with the list that this program carries.
//!
//! The list (`definitions/shipped.tsv`) is made from a freshly migrated database, by `scripts/fix`,
//! and a test holds the two together. What is observed comes from the server's catalogue by one
//! statement of this program: no function of the database under check is asked.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use cutter_core::port::PortResult;
use postgres::GenericClient;

use crate::database::PgDatabase;
use crate::error::PgError;
use crate::row::get;

/// Every deferred check but that the effect is recorded, which it is with COMMIT.
pub const DEFERRED_CHECKS: &str = "SET CONSTRAINTS cutter_governance.trg_backlog_agreement,
    cutter_governance.trg_backlog_records, cutter_governance.trg_backlog_decided,
    cutter_governance.trg_verdict_records, cutter_governance.trg_change_set_records,
    cutter_governance.trg_backlog_promotions_hold, cutter_governance.trg_rows_approved,
    cutter_governance.trg_ask_heard, public.trg_cut_request_agreement IMMEDIATE;
    SET CONSTRAINTS ALL DEFERRED";

const OBSERVE: &str = include_str!("definitions/observed.sql");
const SHIPPED: &str = include_str!("definitions/shipped.tsv");

/// What is defined: of each object, by kind and name, its aspects.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Definitions(BTreeMap<(String, String), BTreeMap<String, String>>);

impl Definitions {
    /// What the migrations of this program make.
    #[must_use]
    pub fn shipped() -> Self {
        let mut all = Self::default();
        for line in SHIPPED.lines() {
            let mut cells = line.splitn(4, '\t');
            if let (Some(kind), Some(object), Some(aspect), Some(value)) =
                (cells.next(), cells.next(), cells.next(), cells.next())
            {
                all.add(kind.to_owned(), object.to_owned(), aspect.to_owned(), value.to_owned());
            }
        }
        all
    }

    /// What stands in the database of this connection; any login may look.
    ///
    /// # Errors
    /// The database's.
    pub fn observed(client: &mut impl GenericClient) -> Result<Self, PgError> {
        let mut all = Self::default();
        // Names are printed in full whatever the session's path is.
        client.batch_execute("SET search_path = pg_catalog, pg_temp")?;
        for row in &client.query(OBSERVE, &[])? {
            all.add(get(row, 0)?, get(row, 1)?, get(row, 2)?, get(row, 3)?);
        }
        Ok(all)
    }

    fn add(&mut self, kind: String, object: String, aspect: String, value: String) {
        self.0.entry((kind, object)).or_default().insert(aspect, value);
    }

    /// As the list is kept: a line per aspect.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        for ((kind, object), aspects) in &self.0 {
            for (aspect, value) in aspects {
                // Writing to a String does not fail.
                let _ = writeln!(text, "{kind}\t{object}\t{aspect}\t{value}");
            }
        }
        text
    }

    /// How many objects there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What differs in `observed`, a line for each object and aspect; empty if nothing does.
    #[must_use]
    pub fn faults(&self, observed: &Self) -> Vec<String> {
        let mut faults = Vec::new();
        let nothing = BTreeMap::new();
        let mut keys: Vec<_> = self.0.keys().chain(observed.0.keys()).collect();
        keys.sort_unstable();
        keys.dedup();
        for key in keys {
            let (kind, object) = key;
            match (self.0.get(key), observed.0.get(key)) {
                // A column that carries only grants of its own is told by them.
                (Some(_), None) => faults.push(format!("{kind} {object} is missing")),
                (None, Some(_)) => faults.push(format!("{kind} {object} is none that cutter made")),
                (expected, observed) => {
                    let (expected, observed) = (expected.unwrap_or(&nothing), observed.unwrap_or(&nothing));
                    let mut aspects: Vec<_> = expected.keys().chain(observed.keys()).collect();
                    aspects.sort_unstable();
                    aspects.dedup();
                    for aspect in aspects {
                        let (wanted, found) = (expected.get(aspect), observed.get(aspect));
                        if wanted != found {
                            let say =
                                |value: Option<&String>| value.map_or("none", String::as_str).to_owned();
                            faults.push(format!(
                                "{kind} {object}: {aspect}: expected {}, observed {}",
                                say(wanted),
                                say(found)
                            ));
                        }
                    }
                }
            }
        }
        faults
    }
}

impl PgDatabase {
    /// How many objects are compared with the shipped definitions, and what differs.
    ///
    /// # Errors
    /// The database's.
    pub async fn definition_faults(&self) -> PortResult<(usize, Vec<String>)> {
        self.read("definitions", |client| {
            let shipped = Definitions::shipped();
            let observed = Definitions::observed(client)?;
            let mut faults = shipped.faults(&observed);
            // Functions that are as shipped can be asked.
            if faults.is_empty() && !reading_holds(client)? {
                faults.push(READING_FAULT.to_owned());
            }
            Ok((shipped.len(), faults))
        })
        .await
    }
}

/// What is kept of the catalogue as it is now says what the catalogue says.
fn reading_holds(client: &mut impl GenericClient) -> Result<bool, PgError> {
    let row = client.query_one(
        "SELECT NOT EXISTS (
             SELECT FROM cutter_governance.catalogue_reading k
             WHERE k.stamp = cutter_governance.fn_catalogue_stamp() AND k.readings IS DISTINCT FROM (
                 SELECT jsonb_object_agg(r.dimension, r.value) FROM cutter_governance.fn_catalogue_readings() r))",
        &[],
    )?;
    get(&row, 0)
}

const READING_FAULT: &str = "relation cutter_governance.catalogue_reading: expected the readings of functions, \
    triggers and grants as they are now, observed others, so that runs do not see what was changed; as the \
    administrator: DELETE FROM cutter_governance.catalogue_reading";
