//! `cutter doctor`: what is installed, reachable, granted, pinned; each finding with its fix.

mod policy;
mod trust;

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use clap::Args;
use cutter_core::driver::founded_policy;
use cutter_core::port::database::Reader as _;
use cutter_core::report::naming::LAWS_ROOT;
use cutter_kb::object_store::{KbUrl, create_race};
use cutter_kb::run_store::FileRunStore;
use cutter_pg::cluster::ClusterStatus;
use cutter_pg::login::Login;
use futures_executor::block_on;
use serde::Serialize;
use serde_json::json;

use crate::commands::db;
use crate::config::{Config, RunsIn, VARIABLES};
use crate::context::Context;
use crate::exit_code::Exit;
use crate::failure::{Failure, Outcome};
use crate::files::word;
use crate::render::{BAD, GOOD, HEAD, WARN, paint};
use crate::wire;

/// Less free space than this is worth a warning.
const FREE_BYTES: u64 = 256 * 1024 * 1024;

/// Say what is installed, reachable, granted and pinned; each finding with its fix.
///
/// Changes nothing and starts nothing. Exit code 0 if a run could begin, else 3.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cutter doctor
  cutter doctor --json | jq '.findings[] | select(.status != \"ok\")'")]
pub(crate) struct DoctorArgs {}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Status {
    Ok,
    Warn,
    Bad,
}

#[derive(Debug, Serialize)]
struct Finding {
    name: String,
    status: Status,
    detail: String,
    /// What to type.
    fix: Option<String>,
}

#[derive(Default)]
struct Findings(Vec<Finding>);

impl Findings {
    fn ok(&mut self, name: impl Into<String>, detail: impl Into<String>) {
        self.0.push(Finding { name: name.into(), status: Status::Ok, detail: detail.into(), fix: None });
    }

    fn add(
        &mut self,
        status: Status,
        name: impl Into<String>,
        detail: impl Into<String>,
        fix: impl Into<String>,
    ) {
        self.0.push(Finding { name: name.into(), status, detail: detail.into(), fix: Some(fix.into()) });
    }

    fn failure(&mut self, name: &str, failure: &Failure) {
        let mut detail = failure.what.clone();
        for broken in &failure.broken {
            detail.push_str(&format!("; expected {}, observed {}", broken.expected, broken.observed));
        }
        let fix = failure.next.iter().find(|next| *next != "cutter doctor");
        self.add(Status::Bad, name, detail, fix.cloned().unwrap_or_else(|| "cutter init".to_owned()));
    }
}

pub(crate) fn run(cx: &Context, _: &DoctorArgs) -> Outcome {
    let mut findings = Findings::default();
    match cx.config() {
        Err(failure) => findings.failure("configuration", &failure),
        Ok(config) => look(&config, &mut findings),
    }
    variables(&mut findings);
    let Findings(findings) = findings;
    let is_bad = findings.iter().any(|f| f.status == Status::Bad);
    let exit = if is_bad { Exit::STOPPED } else { Exit::DONE };
    cx.out.result_as(exit, || people(&findings), &json!({ "ok": !is_bad, "findings": findings }))
}

fn people(findings: &[Finding]) -> String {
    let width = findings.iter().map(|f| f.name.chars().count()).max().unwrap_or(0);
    let mut text = String::new();
    for finding in findings {
        let mark = match finding.status {
            Status::Ok => paint(GOOD, "ok  "),
            Status::Warn => paint(WARN, "warn"),
            Status::Bad => paint(BAD, "bad "),
        };
        text.push_str(&format!("{mark} {:width$}  {}\n", finding.name, finding.detail));
        if let Some(fix) = &finding.fix {
            text.push_str(&format!("     {:width$}  {} {fix}\n", "", paint(HEAD, "fix:")));
        }
    }
    text
}

fn look(config: &Config, findings: &mut Findings) {
    match &config.file {
        Some(path) => findings.ok("configuration", path.display().to_string()),
        None => findings.add(
            Status::Bad,
            "configuration",
            format!("{} is not there", config.file_path.display()),
            "cutter init",
        ),
    }
    folder("home", &config.home, wire::home_mode(config), findings);
    if config.is_review_host() {
        return review_host(config, findings);
    }
    if config.runs == RunsIn::File || config.backup_url.is_none() {
        folder(
            if config.runs == RunsIn::File { "runs" } else { "backups" },
            &config.runs_dir,
            0o700,
            findings,
        );
    }
    if config.runs == RunsIn::Pg {
        shared_places(config, findings);
    }
    match &config.kb_url {
        Some(url) => store("knowledge base", url, findings),
        None => folder("knowledge base", &config.kb_dir, 0o700, findings),
    }
    if let Some(url) = &config.backup_url {
        store("backups", url, findings);
    }
    trust::files(config, findings);
    keys(config, findings);
    people_keys(config, findings);
    postgres(config, findings);
}

/// A host that stores decisions has no key, no run and no backup; of the knowledge base it reads.
fn review_host(config: &Config, findings: &mut Findings) {
    findings.ok("duty", "stores decisions: cutter worker --duty review");
    match wire::knowledge_base(config).and_then(|kb| Ok(block_on(kb.list(LAWS_ROOT))?)) {
        Ok(found) => findings.ok("knowledge base", format!("readable, {} documents", found.len())),
        Err(failure) => findings.failure("knowledge base", &failure),
    }
    trust::files(config, findings);
    trust::logins(config, findings);
    match wire::review(config).and_then(|ports| {
        block_on(ports.reader.check_schema())?;
        Ok(block_on(founded_policy(ports.reader.as_ref(), ports.signatures.as_ref()))?)
    }) {
        Ok(chain) => {
            let people = chain.now().approvers().join(", ");
            findings.ok("policy", format!("who may approve: {people}"));
        }
        Err(failure) => findings.failure("policy", &failure),
    }
}

/// A store is asked with a race: of four that create one key, one may win.
fn store(name: &str, url: &KbUrl, findings: &mut Findings) {
    let raced = wire::place(url).and_then(|place| Ok(block_on(create_race(&place, 4))?));
    match raced {
        Ok(report) if report.is_fit() => findings.ok(name, format!("{url}, one winner in a race of four")),
        Ok(report) => {
            let detail = format!(
                "{url} does not create conditionally: expected 1 winner of {}, observed {}",
                report.creators, report.winners
            );
            findings.add(Status::Bad, name, detail, "use a store that knows If-None-Match on PUT");
        }
        Err(failure) => {
            findings.add(
                Status::Bad,
                name,
                format!("{url}: {}", failure.what),
                variables_of(&url.to_string()),
            );
        }
    }
}

/// What says where a store is and who asks: no URL holds it.
fn variables_of(url: &str) -> &'static str {
    match url.split(':').next() {
        Some("s3") => {
            "look at AWS_ENDPOINT_URL, AWS_REGION, AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, and at the bucket"
        }
        Some("gs") => "look at GOOGLE_APPLICATION_CREDENTIALS, and at the bucket",
        Some("az" | "azure" | "abfs" | "abfss") => {
            "look at AZURE_STORAGE_ACCOUNT_NAME, AZURE_STORAGE_ACCOUNT_KEY, and at the container"
        }
        _ => "look at the folder",
    }
}

/// A folder that others have no business in, beyond what `closed` leaves them.
fn folder(name: &str, path: &Path, closed: u32, findings: &mut Findings) {
    let meta = match std::fs::metadata(path) {
        Ok(meta) if meta.is_dir() => meta,
        Ok(_) => {
            let detail = format!("{} is no folder", path.display());
            return findings.add(Status::Bad, name, detail, format!("move {} away", path.display()));
        }
        Err(error) => {
            let detail = format!("{}: {error}", path.display());
            return findings.add(Status::Bad, name, detail, "cutter init");
        }
    };
    let mode = meta.permissions().mode() & 0o777;
    if mode & !closed != 0 {
        let detail = format!("{} is open to others (mode {mode:04o})", path.display());
        findings.add(Status::Warn, name, detail, format!("chmod {closed:o} {}", word(path)));
    }
    if rustix::fs::access(path, rustix::fs::Access::WRITE_OK).is_err() {
        let detail = format!("{} cannot be written", path.display());
        return findings.add(Status::Bad, name, detail, format!("chown {} {}", user(), path.display()));
    }
    match rustix::fs::statvfs(path) {
        Ok(stat) => {
            let free = stat.f_bavail.saturating_mul(stat.f_frsize);
            let detail = format!("{}, {} free", path.display(), crate::render::size(free));
            if free < FREE_BYTES {
                findings.add(Status::Warn, name, detail, "make room on this file system");
            } else {
                findings.ok(name, detail);
            }
        }
        Err(error) => findings.add(Status::Warn, name, format!("{}: {error}", path.display()), "df -h"),
    }
}

fn user() -> String {
    wire::variable("USER").unwrap_or_else(|| "$USER".to_owned())
}

fn keys(config: &Config, findings: &mut Findings) {
    for (name, path) in [("executor key", &config.keys.executor), ("verifier key", &config.keys.verifier)] {
        match (wire::read_seed(path), wire::public_half_differs(path)) {
            (Err(failure), _) => findings.failure(name, &failure),
            (Ok(_), Some((what, fix))) => findings.add(Status::Bad, name, what, fix),
            (Ok(_), None) => findings.ok(name, path.display().to_string()),
        }
    }
    let seeds = (wire::read_seed(&config.keys.executor), wire::read_seed(&config.keys.verifier));
    if let (Ok(executor), Ok(verifier)) = seeds
        && executor.verifying_key() == verifier.verifying_key()
    {
        let detail = "executor and verifier have the same key: one could vouch for itself";
        findings.add(
            Status::Bad,
            "separation of duties",
            detail,
            format!("rm {} && cutter init", config.keys.verifier.display()),
        );
    }
    match wire::load_pair(&config.keys.operator) {
        Ok(pair) => match pair.public().check_usable(false, wire::now()) {
            Ok(()) => findings.ok("operator key", pair.fingerprint().to_string()),
            Err(error) => findings.add(Status::Bad, "operator key", error.to_string(), "cutter init"),
        },
        Err(failure) => findings.failure("operator key", &failure),
    }
    match wire::load_public(&config.keys.backup_public) {
        Err(failure) => findings.failure("backup key", &failure),
        Ok(key) => {
            let print = key.fingerprint();
            match (&config.keys.backup_fingerprint, key.check_usable(true, wire::now())) {
                (_, Err(error)) => findings.add(Status::Bad, "backup key", error.to_string(), "cutter init"),
                (Some(pinned), Ok(())) if *pinned == print => {
                    findings.ok("backup key", format!("{print}, pinned"));
                }
                (pinned, Ok(())) => {
                    let pinned = pinned.as_ref().map_or("nothing", |p| p.as_str());
                    let detail = format!("expected the pinned key {pinned}, observed {print}");
                    let fix = format!("set keys.backup_fingerprint in {}", config.file_path.display());
                    findings.add(Status::Bad, "backup key", detail, fix);
                }
            }
        }
    }
}

fn people_keys(config: &Config, findings: &mut Findings) {
    if config.sovereigns().next().is_none() {
        findings.add(
            Status::Bad,
            "sovereign",
            "nobody may approve",
            "cutter init --sovereign NAME [--public-key FILE]",
        );
    }
    let operator = wire::load_pair(&config.keys.operator).ok().map(|pair| pair.fingerprint());
    for (name, actor) in &config.actors {
        let role = if actor.is_sovereign { "sovereign" } else { "actor" };
        let title = format!("{role} {name}");
        match wire::load_public(&actor.public_key) {
            Err(failure) => findings.failure(&title, &failure),
            Ok(key) if key.fingerprint() != actor.fingerprint => {
                let detail = format!("expected {}, observed {}", actor.fingerprint, key.fingerprint());
                let fix = format!("put the right key into {}", actor.public_key.display());
                findings.add(Status::Bad, title, detail, fix);
            }
            Ok(key) => match key.check_usable(false, wire::now()) {
                Err(error) => {
                    findings.add(Status::Bad, title, error.to_string(), "ask for a key that may sign");
                }
                Ok(()) if actor.is_sovereign && operator.as_ref() == Some(&actor.fingerprint) => {
                    let detail = "has the operator's key: nobody approves their own run";
                    findings.add(
                        Status::Bad,
                        title,
                        detail,
                        "cutter init --sovereign NAME --public-key FILE",
                    );
                }
                Ok(()) => findings.ok(title, actor.fingerprint.to_string()),
            },
        }
    }
}

/// Where PostgreSQL's programs usually are.
fn binaries(config: &Config) -> Option<PathBuf> {
    let mut folders: Vec<PathBuf> = Vec::new();
    match &config.pg_bin {
        Some(folder) => folders.push(folder.clone()),
        None => {
            let path = std::env::var_os("PATH").unwrap_or_default();
            folders.extend(std::env::split_paths(&path));
            for root in ["/usr/lib/postgresql", "/usr/local/pgsql", "/opt/homebrew/opt"] {
                if let Ok(entries) = std::fs::read_dir(root) {
                    folders.extend(entries.flatten().map(|e| e.path().join("bin")));
                }
            }
        }
    }
    folders
        .into_iter()
        .find(|folder| ["initdb", "pg_ctl", "postgres"].iter().all(|p| folder.join(p).exists()))
}

fn postgres(config: &Config, findings: &mut Findings) {
    if config.is_private_database() {
        match binaries(config) {
            Some(folder) => findings.ok("postgresql", folder.display().to_string()),
            None => findings.add(
                Status::Bad,
                "postgresql",
                "initdb, pg_ctl and postgres were found nowhere",
                "install the package postgresql, or set CUTTER_PG_BIN, or configure connections",
            ),
        }
        let status = wire::private_cluster(config).and_then(|cluster| Ok(cluster.status()?));
        match status {
            Err(failure) => return findings.failure("database", &failure),
            Ok(ClusterStatus::Running(running)) => {
                findings.ok("database", format!("private, process {}", running.pid));
            }
            Ok(ClusterStatus::Absent) => {
                return findings.add(Status::Bad, "database", "there is none yet", "cutter init");
            }
            Ok(ClusterStatus::Stopped | ClusterStatus::Changing) => {
                let detail = "private, not running; the next command that needs it starts it";
                return findings.add(Status::Warn, "database", detail, "cutter db start");
            }
        }
    }
    match db::migration_status(config) {
        Err(failure) => return findings.failure("schema", &failure),
        Ok(status) if status.is_current() => {
            findings.ok("schema", format!("{} migrations, current", status.applied.len()));
        }
        Ok(status) => {
            let detail = format!("{} migrations are pending", status.pending.len());
            return findings.add(Status::Bad, "schema", detail, "cutter db migrate");
        }
    }
    policy::look(config, findings);
    if config.runs == RunsIn::Pg {
        shared_runs(config, findings);
    }
    trust::logins(config, findings);
    if !config.is_private_database() && !config.dsns.contains_key(&Login::Review) {
        findings.ok("decisions", "another host stores them (cutter worker --duty review); runs wait for it");
    }
    trust::definitions(config, findings);
    trust::surroundings(config, findings);
    let grants = wire::reader(config).and_then(|database| Ok(block_on(database.grants())?));
    match grants {
        Err(failure) => findings.failure("grants", &failure),
        Ok(snapshot) => {
            let faults = db::grant_faults(&snapshot);
            if faults.is_empty() {
                findings.ok("grants", format!("{} as they must be", snapshot.facts.len()));
            } else {
                findings.add(Status::Bad, "grants", faults.join("; "), "cutter db check -v");
            }
        }
    }
}

/// Whoever shares runs shares what belongs to them: a folder of this home is no such place.
fn shared_places(config: &Config, findings: &mut Findings) {
    let own = |path: &Path| path.starts_with(&config.home);
    for (name, is_own, fix) in [
        ("shared backups", config.backup_url.is_none() && own(&config.runs_dir), "set backup.url"),
        ("shared knowledge base", config.kb_url.is_none() && own(&config.kb_dir), "set kb or kb_dir"),
    ] {
        if is_own {
            let detail =
                "runs are shared, but this is in this home: a worker with another home finds nothing";
            let fix = format!("{fix} in {} to a place that every worker reaches", config.file_path.display());
            findings.add(Status::Warn, name, detail, fix);
        }
    }
    let left = FileRunStore::new(&config.runs_dir).list().map_or(0, |runs| runs.len());
    if left > 0 {
        let detail = format!("{left} runs of before are in {}", config.runs_dir.display());
        findings.add(
            Status::Warn,
            "runs in files",
            detail,
            "CUTTER_RUNS=file cutter orchestrate list --open",
        );
    }
}

/// The run store in the database: there, and to be written by this deployment.
fn shared_runs(config: &Config, findings: &mut Findings) {
    match wire::shared_runs(config).and_then(|store| Ok(block_on(store.probe())?)) {
        Err(failure) => findings.failure("runs", &failure),
        Ok(probe) if probe.may_save => {
            let detail = format!("in the database: {} runs, {} held now", probe.runs, probe.leases);
            findings.ok("runs", detail);
        }
        Ok(_) => findings.add(
            Status::Bad,
            "runs",
            "in the database, and the login that is configured may not save there",
            "set database.executor or CUTTER_DSN_EXECUTOR",
        ),
    }
}

/// A misspelt variable is silent otherwise.
fn variables(findings: &mut Findings) {
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy().into_owned();
        let is_ours = VARIABLES.iter().any(|(known, _)| *known == name);
        if name.starts_with("CUTTER_") && !is_ours && !name.starts_with("CUTTER_TEST_") {
            findings.add(
                Status::Warn,
                "environment",
                format!("{name} is not a variable that cutter reads"),
                format!("unset {name}"),
            );
        }
    }
}
