//! The text of a new `cutter.toml`: every key, with what it does and its default.

use std::fmt::Write as _;

use super::RunsIn;

/// A new configuration for `actor`.
pub(crate) fn template(actor: &str, backup_fingerprint: &str, runs: RunsIn) -> String {
    let runs = match runs {
        RunsIn::File => "# runs = \"file\"  ",
        RunsIn::Pg => "runs = \"pg\"      ",
    };
    format!(
        r#"# cutter.toml: settings of one deployment. Flags and CUTTER_* variables win over this file.
# Relative paths start at this file's folder. Unknown keys are refused.

# Who operates: recorded with everything that this deployment does.
actor = {actor}

# Where runs and documents live (defaults: runs and kb beside this file).
{runs}                                # or "pg": in the database, shared by workers
# runs_dir = "runs"
# kb_dir = "kb"
# kb = "s3://bucket/prefix"                        # instead of kb_dir: gs://, az:// too

# Connections, one login per duty. Without them a private PostgreSQL runs under the home
# folder. Better in CUTTER_DSN_READER, _EXECUTOR, _VERIFIER, _REVIEWER, _ADMIN than here.
# [database]
# reader = "postgres://cutter_ro:…@db.example/cutter"
# executor = "postgres://cutter_exec:…@db.example/cutter"
# verifier = "postgres://cutter_verify:…@db.example/cutter"
# reviewer = "postgres://cutter_review:…@db.example/cutter"
# admin = "postgres://owner:…@db.example/cutter"   # for `cutter db migrate` alone
# A host that cuts may leave out `reviewer`, one that stores decisions all but it (`cutter worker --duty review`).
# bin = "/usr/lib/postgresql/15/bin"               # where initdb and pg_ctl are

[keys]
# executor = "keys/executor.seed"                  # Ed25519, 64 hexadecimal digits
# verifier = "keys/verifier.seed"
# operator = "keys/operator.secret.asc"            # OpenPGP, signs the creation of a run
# backup_recipient = "keys/backup.public.asc"      # OpenPGP, receives the backups
backup_fingerprint = "{backup_fingerprint}"

# [approval]                                       # founds the database's policy; then `cutter policy` decides
# signatures = "required"                          # or "optional"
# creator_may_approve = false
# lifecycle_actor = "…"                            # who is expected at SG2; else the first sovereign

# [limits]
# max_candidates = 1000
# max_document_bytes = 67108864
# run_hard_cap_minutes = 60
# forbidden_prefixes = []                          # addresses that no unit may have or be under
# [limits.phase_soft_cap_minutes]
# mark = 5

# [backup]
# scope = "document"                               # or "database" (pg_dump)
# url = "s3://bucket/backups"                      # instead of the runs' folders

# Commands that get one JSON document on stdin. What they do never changes a run.
# [hooks]
# on_gate = ["/usr/local/bin/tell", "gate"]
# on_stop = ["/usr/local/bin/tell", "stop"]

# People, by the fingerprint of their OpenPGP key. A sovereign may approve.
"#,
        actor = quoted(actor),
    )
}

/// A person's table, to append to the file.
pub(crate) fn actor_block(name: &str, fingerprint: &str, public_key: &str, is_sovereign: bool) -> String {
    let role = if is_sovereign { "sovereign" } else { "operator" };
    let mut text = String::new();
    // Writing to a String does not fail.
    let _ = write!(
        text,
        "\n[actors.{}]\nrole = \"{role}\"\nfingerprint = \"{fingerprint}\"\npublic_key = {}\n",
        quoted(name),
        quoted(public_key)
    );
    text
}

fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}
