//! Settings: what wins over what, what is refused, and that no connection string is ever shown.

use std::collections::BTreeMap;

use super::*;

fn load(text: &str, vars: &[(&str, &str)]) -> Result<Config, Failure> {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("cutter.toml"), text).unwrap();
    let vars: BTreeMap<&str, &str> = vars.iter().copied().collect();
    let flags = Overrides { home: Some(folder.path().to_owned()), ..Overrides::default() };
    Config::load(&flags, &|name| vars.get(name).map(|v| (*v).to_owned()))
}

const PRINT: &str = "0123456789ABCDEF0123456789ABCDEF01234567";

#[test]
fn the_template_with_people_reads_back() {
    let text = template("ann", PRINT, RunsIn::File)
        + &actor_block("sue \"x", PRINT, "keys/s.asc", true).replace(" \\\"x", "");
    let text = text.replace("'sue \"x'", "\"sue\"");
    let config = load(&text, &[]).unwrap();
    assert_eq!(config.actor, "ann");
    assert_eq!(config.keys.backup_fingerprint.as_ref().unwrap().as_str(), PRINT);
    assert!(config.is_private_database());
    assert_eq!(config.sovereigns().count(), 1);
    assert!(config.actors["sue"].public_key.ends_with("keys/s.asc"));
}

#[test]
fn every_documented_key_is_known() {
    let text = template("ann", PRINT, RunsIn::File);
    let mut uncommented = String::new();
    for line in text.lines() {
        let stripped = line.strip_prefix("# ").unwrap_or(line);
        let is_setting =
            stripped.starts_with('[') || stripped.split_once(" = ").is_some_and(|(k, _)| !k.contains(' '));
        // kb and kb_dir exclude each other
        if is_setting && !stripped.contains("postgres://") && !stripped.starts_with("kb_dir") {
            uncommented.push_str(stripped);
            uncommented.push('\n');
        }
    }
    let config = load(&uncommented, &[]).unwrap();
    assert_eq!(config.bounds.max_candidates, Some(1000));
    assert_eq!(config.bounds.phase_soft_cap_minutes["mark"], 5);
    assert_eq!(config.hooks.on_gate.len(), 2);
    assert_eq!(config.kb_url.unwrap().to_string(), "s3://bucket/prefix");
    assert_eq!(config.backup_url.unwrap().to_string(), "s3://bucket/backups");
    assert_eq!(config.runs, RunsIn::File);
}

#[test]
fn the_state_of_runs_is_in_files_or_in_the_database() {
    assert_eq!(load("", &[]).unwrap().runs, RunsIn::File);
    assert_eq!(load("runs = \"pg\"", &[]).unwrap().runs, RunsIn::Pg);
    assert_eq!(load("runs = \"pg\"", &[("CUTTER_RUNS", "file")]).unwrap().runs, RunsIn::File);
    assert_eq!(load("", &[("CUTTER_RUNS", "pg")]).unwrap().runs, RunsIn::Pg);
    assert_eq!(load(&template("ann", PRINT, RunsIn::Pg), &[]).unwrap().runs, RunsIn::Pg);
    for (text, vars) in [("runs = \"disk\"", &[][..]), ("", &[("CUTTER_RUNS", "disk")][..])] {
        let failure = load(text, vars).unwrap_err();
        assert_eq!((failure.exit.code(), failure.broken[0].expected.as_str()), (2, "file or pg"));
    }
}

#[test]
fn flags_win_over_environment_over_file_over_defaults() {
    let vars = [("CUTTER_ACTOR", "env"), ("CUTTER_RUNS_DIR", "/r"), ("USER", "login")];
    assert_eq!(load("", &[("USER", "login")]).unwrap().actor, "login");
    assert_eq!(load("actor = \"file\"", &[("USER", "login")]).unwrap().actor, "file");
    let config = load("actor = \"file\"\nruns_dir = \"x\"", &vars).unwrap();
    assert_eq!((config.actor.as_str(), config.runs_dir.as_path()), ("env", Path::new("/r")));
    let folder = tempfile::tempdir().unwrap();
    let flags =
        Overrides { home: Some(folder.path().into()), actor: Some("flag".into()), ..Overrides::default() };
    let config = Config::load(&flags, &|name| (name == "CUTTER_ACTOR").then(|| "env".into())).unwrap();
    assert_eq!(config.actor, "flag");
    assert_eq!(config.file, None);
}

#[test]
fn an_unknown_key_is_refused_by_file_and_name() {
    for (text, key) in [
        ("acter = \"x\"", "acter"),
        ("[limits]\nmax = 3", "limits.max"),
        ("[actors.a]\nfingerprint=\"0123456789ABCDEF0123456789ABCDEF01234567\"\nkind=1", "actors.a.kind"),
    ] {
        let failure = load(text, &[]).unwrap_err();
        assert_eq!(failure.exit.code(), 2);
        assert!(failure.what.contains("cutter.toml") && failure.what.contains(key), "{failure:?}");
    }
}

#[test]
fn no_message_shows_a_value() {
    let secret = "hunter2";
    for text in [
        "database = \"postgres://a:hunter2@h/d\"",
        "[database]\nreader = \"postgres://a:hunter2@[h/d\"",
        "[database]\nreader = \"hunter2\"",
        "[database]\nreader = [\"hunter2\"]",
        "[database]\nreader = \"postgres://a:hunter2@h/d",
        "[approval]\nsignatures = \"hunter2\"",
        "[keys]\nbackup_fingerprint = \"hunter2\"",
    ] {
        let failure = load(text, &[]).unwrap_err();
        assert!(!format!("{failure:?}").contains(secret), "{failure:?}");
        assert!(failure.what.contains("cutter.toml"), "{failure:?}");
    }
    let failure = load("", &[("CUTTER_DSN_READER", "postgres://a:hunter2@[h/d")]).unwrap_err();
    assert!(!format!("{failure:?}").contains(secret), "{failure:?}");
    assert!(failure.what.contains("CUTTER_DSN_READER"));
}

#[test]
fn a_named_file_must_be_there_and_gives_the_home() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mine.toml");
    let flags = Overrides { config: Some(path.clone()), ..Overrides::default() };
    assert_eq!(Config::load(&flags, &|_| None).unwrap_err().exit.code(), 2);
    std::fs::write(&path, "").unwrap();
    let config = Config::load(&flags, &|_| None).unwrap();
    assert_eq!(config.home, folder.path());
    assert_eq!(config.runs_dir, folder.path().join("runs"));
}

#[test]
fn without_any_home_it_says_so() {
    let failure = Config::load(&Overrides::default(), &|_| None).unwrap_err();
    assert!(failure.what.contains("CUTTER_HOME"), "{failure:?}");
}

#[test]
fn a_lone_admin_connection_is_not_enough() {
    let failure = load("", &[("CUTTER_DSN_ADMIN", "postgres://a:b@127.0.0.1/d")]).unwrap_err();
    assert_eq!(failure.broken[0].invariant, "config.database.reader");
}

#[test]
fn a_knowledge_base_is_in_one_place() {
    let config = load("kb = \"s3://bucket/x\"", &[]).unwrap();
    assert_eq!(config.kb_url.unwrap().to_string(), "s3://bucket/x");
    let config = load("kb = \"s3://bucket/x\"", &[("CUTTER_KB_DIR", "/kb")]).unwrap();
    assert_eq!((config.kb_url, config.kb_dir.as_path()), (None, Path::new("/kb")));
    let config = load("kb_dir = \"y\"", &[("CUTTER_KB", "gs://bucket/y")]).unwrap();
    assert_eq!(config.kb_url.unwrap().to_string(), "gs://bucket/y");
    let config = load("kb = \"file:///srv/kb\"", &[]).unwrap();
    assert_eq!((config.kb_url, config.kb_dir.as_path()), (None, Path::new("/srv/kb")));
    for (text, vars) in [
        ("kb = \"s3://bucket/x\"\nkb_dir = \"y\"", &[][..]),
        ("", &[("CUTTER_KB", "s3://bucket/x"), ("CUTTER_KB_DIR", "/kb")][..]),
    ] {
        assert!(load(text, vars).unwrap_err().what.contains("both set"));
    }
    let refused = load("kb = \"https://dav.example/kb\"", &[]).unwrap_err();
    assert!(
        refused.what.contains("no conditional create") && refused.what.contains("cutter.toml"),
        "{refused:?}"
    );
    let refused = load("[backup]\nurl = \"s3://key:hunter2@bucket\"", &[]).unwrap_err();
    assert!(
        refused.what.contains("backup.url") && !format!("{refused:?}").contains("hunter2"),
        "{refused:?}"
    );
}
