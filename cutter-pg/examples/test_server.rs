//! Starts or stops the server that all test processes of one run share.
//!
//! ```text
//! export CUTTER_TEST_PG_HOME=$(mktemp -d); chmod 755 "$CUTTER_TEST_PG_HOME"
//! cargo run -q -p cutter-pg --features testing --example test_server start
//! cargo test
//! cargo run -q -p cutter-pg --features testing --example test_server stop
//! ```

use std::process::ExitCode;

use cutter_pg::cluster::{ClusterOptions, PrivateCluster};
use cutter_pg::testing::HOME_VARIABLE;

fn main() -> ExitCode {
    let Some(home) = std::env::var_os(HOME_VARIABLE) else {
        eprintln!("{HOME_VARIABLE} is not set; it names the home folder of the tests' server");
        return ExitCode::from(2);
    };
    let cluster = PrivateCluster::open(home, ClusterOptions::new().without_durability_for_tests());
    let outcome = match std::env::args().nth(1).as_deref() {
        Some("start") => cluster.and_then(|cluster| cluster.start().map(|_| ())),
        Some("stop") => cluster.and_then(|cluster| {
            cluster.stop()?;
            // Only a folder outside the home would stay behind when the home is removed.
            match std::fs::remove_dir_all(cluster.folder()?) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    eprintln!("{error}");
                    Ok(())
                }
                _ => Ok(()),
            }
        }),
        _ => {
            eprintln!("usage: test_server start|stop");
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
