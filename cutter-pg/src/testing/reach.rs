//! Which functions and tables a test touched, read from the server's own counts before its
//! database goes.

use std::io::Write as _;
use std::time::Duration;

use postgres::NoTls;

use crate::dsn::Dsn;
use crate::error::PgError;

/// The variable that names the file to which each database of a test adds what it saw.
pub const REACH_VARIABLE: &str = "CUTTER_TEST_REACH";

/// The statement that makes a new database count, if anybody asked.
pub(super) fn counting(database: &str) -> Option<String> {
    std::env::var_os(REACH_VARIABLE)?;
    Some(format!("ALTER DATABASE {database} SET track_functions = 'all'"))
}

/// Adds a database's counts to the file, if anybody asked: a line `database`, one `function <name>` for each that
/// was called, `table <name>` for each that was read, `written <name>` for each that was written.
pub(super) fn note(database: &Dsn) -> Result<(), PgError> {
    let Some(path) = std::env::var_os(REACH_VARIABLE) else { return Ok(()) };
    let mut client = database.config()?.connect(NoTls)?;
    // a session's counts are there when it has gone; CASE, because WHERE asks in whatever order
    let others = "SELECT count(CASE WHEN datname = pg_catalog.current_database()
            AND pid <> pg_catalog.pg_backend_pid() THEN pg_catalog.pg_terminate_backend(pid) END)
        FROM pg_catalog.pg_stat_activity";
    for _ in 0..100 {
        if client.query_one(others, &[])?.try_get::<_, i64>(0)? == 0 {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let rows = client.query(
        "SELECT 'function ' || schemaname || '.' || funcname FROM pg_catalog.pg_stat_user_functions WHERE calls > 0
         UNION SELECT 'table ' || schemaname || '.' || relname FROM pg_catalog.pg_stat_user_tables
             WHERE seq_scan + coalesce(idx_scan, 0) > 0
         UNION SELECT 'written ' || schemaname || '.' || relname FROM pg_catalog.pg_stat_user_tables
             WHERE n_tup_ins + n_tup_upd + n_tup_del > 0
         ORDER BY 1",
        &[],
    )?;
    let mut lines = String::from("database\n");
    for row in rows {
        lines.push_str(row.try_get(0)?);
        lines.push('\n');
    }
    let file = std::fs::OpenOptions::new().create(true).append(true).open(&path);
    file.and_then(|mut file| file.write_all(lines.as_bytes()))
        .unwrap_or_else(|error| panic!("{REACH_VARIABLE}: {}: {error}", path.display()));
    Ok(())
}
