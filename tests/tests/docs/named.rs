//! What a reader must be able to look up stands on its page: tables, functions, logins,
//! variables, settings, exit codes, migrations, sidecar fields.

use std::collections::BTreeSet;

use cutter_core::record::approval;
use cutter_core::record::sidecar::{RECORD_VERSION, SCHEMA_VERSION};

use super::{files, none, read};

/// The words after `lead` in the migrations.
fn created(lead: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for path in files("sql").iter().filter(|p| p.starts_with("cutter-pg/migrations/")) {
        for line in read(path).lines() {
            if let Some(rest) = line.trim_start().strip_prefix(lead) {
                let end =
                    rest.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == '.')).unwrap_or(rest.len());
                found.insert(rest[..end].to_owned());
            }
        }
    }
    assert!(!found.is_empty(), "no {lead} in the migrations");
    found
}

fn missing(page: &str, names: impl IntoIterator<Item = String>) -> Vec<String> {
    let text = read(page);
    names
        .into_iter()
        .filter(|name| !text.contains(&format!("`{name}`")))
        .map(|n| format!("{page}: {n}"))
        .collect()
}

#[test]
fn every_table_and_function_is_on_the_database_page() {
    let short = |name: String| name.rsplit('.').next().unwrap().to_owned();
    none("tables", &missing("docs/database.md", created("CREATE TABLE ").into_iter().map(short)));
    none("functions", &missing("docs/database.md", created("CREATE FUNCTION ").into_iter().map(short)));
    none("logins", &missing("docs/database.md", cutter_pg::login::Login::ALL.map(|l| l.as_str().to_owned())));
}

#[test]
fn every_migration_is_in_the_changelog() {
    let names = files("sql").into_iter().filter_map(|p| {
        let name = p.strip_prefix("cutter-pg/migrations/")?.strip_suffix(".sql")?;
        Some(name.to_owned())
    });
    none("migrations", &missing("CHANGELOG.md", names));
}

#[test]
fn every_variable_and_setting_is_on_the_configuration_page() {
    let source = read("cutter-cli/src/config.rs");
    let variables: Vec<String> = source
        .lines()
        .filter_map(|line| line.trim().strip_prefix("(\"CUTTER_"))
        .filter_map(|line| line.split('"').next())
        .map(|name| format!("CUTTER_{name}"))
        .collect();
    assert!(variables.len() > 8, "{variables:?}");
    none("variables", &missing("docs/configuration.md", variables));
    let template = read("cutter-cli/src/config/template.rs");
    let keys: Vec<String> = template
        .lines()
        .map(|line| line.trim_start_matches("# "))
        .filter_map(|line| line.split_once(" = "))
        .map(|(key, _)| key.to_owned())
        .filter(|key| !key.is_empty() && key.chars().all(|c| c.is_ascii_lowercase() || c == '_'))
        .collect();
    assert!(keys.len() > 15, "{keys:?}");
    none("settings", &missing("docs/configuration.md", keys));
}

#[test]
fn the_exit_codes_are_those_of_the_program() {
    let source = read("cutter-cli/src/exit_code.rs");
    let readme = read("README.md");
    let rows: Vec<&str> = source.lines().filter_map(|l| l.strip_prefix("//! | ")).skip(2).collect();
    assert!(rows.len() >= 9, "{rows:?}");
    let absent = |row: &&str| !readme.contains(&format!("| {row}"));
    none("exit codes", &rows.into_iter().filter(absent).map(str::to_owned).collect::<Vec<_>>());
}

#[test]
fn the_sidecar_page_lists_every_field_and_both_versions() {
    let source =
        read("cutter-core/src/record/sidecar.rs") + &read("cutter-core/src/record/sidecar/approvals.rs");
    let fields: Vec<String> = source
        .lines()
        .filter_map(|line| line.trim().strip_prefix("pub ")?.split_once(": "))
        .map(|(name, _)| name.to_owned())
        .filter(|name| name.chars().all(|c| c.is_ascii_lowercase() || c == '_'))
        .collect();
    assert!(fields.len() > 60, "{fields:?}");
    none("fields", &missing("docs/sidecar-format.md", fields));
    let page = read("docs/sidecar-format.md");
    assert!(page.contains(&format!("`schema_version` is {SCHEMA_VERSION}")));
    assert!(page.contains(&format!("`record_version` is {RECORD_VERSION}")));
}

#[test]
fn the_approvals_page_lists_every_field_and_every_verdict_code() {
    let fields = approval::field::ALL.iter().map(|f| (*f).to_owned());
    none("fields", &missing("docs/approvals.md", fields));
    let source = read("cutter-kb/src/openpgp/verify.rs");
    let listed = source.split_once("Stable code: ").unwrap().1.split_once('.').unwrap().0;
    let codes: Vec<String> = listed.split('`').skip(1).step_by(2).map(str::to_owned).collect();
    assert!(codes.len() > 25, "{codes:?}");
    none("codes", &missing("docs/approvals.md", codes));
}
