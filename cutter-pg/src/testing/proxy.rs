//! A connection that can be cut where it hurts: around a COMMIT.
//!
//! [`CommitProxy`] listens on a unix socket of its own and forwards to the server. When armed,
//! it cuts the next session that sends COMMIT: before the server sees it, after the server has
//! answered, or at the moment of sending, when nobody can tell. The client always sees the same:
//! a connection that is gone before the answer came.

use std::collections::VecDeque;
use std::io::{Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use postgres::config::Host;
use secrecy::SecretString;

use crate::dsn::Dsn;
use crate::login::random_hex;

/// Where a connection is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// The server never sees the COMMIT, and rolls back.
    BeforeCommit,
    /// The server has committed and answered; the answer is lost.
    AfterAnswer,
    /// COMMIT was handed to the server in the same moment: it commits, or it does not.
    AtCommit,
}

#[derive(Debug, Default)]
struct Shared {
    /// What happens to the next COMMITs: `None` lets one pass.
    plan: Mutex<VecDeque<Option<Cut>>>,
    /// The same for statements outside of a transaction block.
    statements: Mutex<VecDeque<Option<Cut>>>,
    commits: AtomicU64,
    cuts: AtomicU64,
    is_over: AtomicBool,
}

/// The proxy. Ends with its value; sessions that stand go on until either side ends them.
#[derive(Debug)]
pub struct CommitProxy {
    folder: PathBuf,
    port: u16,
    shared: Arc<Shared>,
}

impl CommitProxy {
    /// A proxy before the server of this connection string, which is on a unix socket.
    #[must_use]
    pub fn before(server: &Dsn) -> Self {
        let (target, port) = socket_of(server);
        let name = format!("cutter-proxy-{}", random_hex::<4>().unwrap());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir(&folder).expect("a folder for the proxy's socket");
        let listener = UnixListener::bind(folder.join(format!(".s.PGSQL.{port}"))).expect("a socket");
        let shared = Arc::new(Shared::default());
        let accepted = shared.clone();
        std::thread::spawn(move || {
            for client in listener.incoming() {
                if accepted.is_over.load(Ordering::Acquire) {
                    return;
                }
                let (Ok(client), Ok(server)) = (client, UnixStream::connect(&target)) else { continue };
                session(client, server, &accepted);
            }
        });
        Self { folder, port, shared }
    }

    /// The same login and database, through the proxy.
    #[must_use]
    pub fn dsn(&self, direct: &Dsn) -> Dsn {
        let config = direct.config().unwrap();
        let password = String::from_utf8(config.get_password().unwrap_or_default().to_vec()).unwrap();
        Dsn::socket(
            &self.folder,
            self.port,
            config.get_user().unwrap_or_default(),
            &SecretString::from(password),
            config.get_dbname().unwrap_or_default(),
        )
        .unwrap()
    }

    /// The same as text, for a program's configuration.
    #[must_use]
    pub fn connection_string(&self, direct: &Dsn) -> String {
        super::database::connection_string(&self.dsn(direct))
    }

    /// Cuts at the next COMMIT.
    pub fn cut_next(&self, cut: Cut) {
        self.cut_after(0, cut);
    }

    /// Lets `passing` COMMITs through, then cuts. Replaces what was planned.
    pub fn cut_after(&self, passing: usize, cut: Cut) {
        let mut plan: VecDeque<Option<Cut>> = std::iter::repeat_n(None, passing).collect();
        plan.push_back(Some(cut));
        *self.shared.plan.lock().unwrap() = plan;
    }

    /// Cuts at prepared statements that commit by themselves: `passing` go through, then `cuts`
    /// sessions are cut, each at its next one. Replaces what was planned.
    pub fn cut_statements(&self, passing: usize, cuts: &[Cut]) {
        let passed = std::iter::repeat_n(None, passing);
        *self.shared.statements.lock().unwrap() = passed.chain(cuts.iter().copied().map(Some)).collect();
    }

    /// How many COMMITs were seen, cut ones included.
    #[must_use]
    pub fn commits(&self) -> u64 {
        self.shared.commits.load(Ordering::Acquire)
    }

    /// How many sessions were cut.
    #[must_use]
    pub fn cuts(&self) -> u64 {
        self.shared.cuts.load(Ordering::Acquire)
    }
}

impl Drop for CommitProxy {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Release);
        // Wakes the listener, which then ends.
        let _ = UnixStream::connect(self.folder.join(format!(".s.PGSQL.{}", self.port)));
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn socket_of(server: &Dsn) -> (PathBuf, u16) {
    let config = server.config().unwrap();
    let port = config.get_ports().first().copied().unwrap_or(5432);
    match config.get_hosts().first() {
        Some(Host::Unix(folder)) => (folder.join(format!(".s.PGSQL.{port}")), port),
        other => panic!("the proxy wants a unix socket, not {other:?}"),
    }
}

/// One session: a thread for each direction.
fn session(client: UnixStream, server: UnixStream, shared: &Arc<Shared>) {
    let swallow = Arc::new(AtomicBool::new(false));
    let (mut from_server, mut to_client) = (server.try_clone().unwrap(), client.try_clone().unwrap());
    let swallowed = swallow.clone();
    std::thread::spawn(move || {
        let mut buffer = [0; 16 * 1024];
        while let Ok(n @ 1..) = from_server.read(&mut buffer) {
            if swallowed.load(Ordering::Acquire) {
                break; // the answer to COMMIT is there, and goes no further
            }
            if to_client.write_all(&buffer[..n]).is_err() {
                break;
            }
        }
        close(&from_server, &to_client);
    });
    let shared = shared.clone();
    std::thread::spawn(move || {
        // Whatever ends the conversation ends both sides.
        if forward(&client, &server, &shared, &swallow).is_none() {
            close(&client, &server);
        }
    });
}

fn close(a: &UnixStream, b: &UnixStream) {
    let _ = a.shutdown(Shutdown::Both);
    let _ = b.shutdown(Shutdown::Both);
}

/// The next message of the client, whose first `head` bytes end with its length.
fn read_message(mut client: &UnixStream, head: usize) -> Option<Vec<u8>> {
    let mut message = vec![0; head];
    client.read_exact(&mut message).ok()?;
    let length = u32::from_be_bytes(message[head - 4..].try_into().unwrap());
    message.resize(head + usize::try_from(length).unwrap().checked_sub(4)?, 0);
    client.read_exact(&mut message[head..]).ok()?;
    Some(message)
}

/// Forwards what the client says, message by message. `None`: the session is over; `Some`: the
/// other direction ends it, once the server has answered.
fn forward(
    client: &UnixStream,
    mut server: &UnixStream,
    shared: &Shared,
    swallow: &AtomicBool,
) -> Option<()> {
    let mut is_startup = true;
    loop {
        let head = if is_startup { 4 } else { 5 };
        let mut message = read_message(client, head)?;
        let is_statement = !is_startup && message[0] == b'E';
        let is_commit = !is_startup && message[0] == b'Q' && message[head..].starts_with(b"COMMIT");
        is_startup = false;
        let cut = if is_commit {
            shared.commits.fetch_add(1, Ordering::AcqRel);
            shared.plan.lock().unwrap().pop_front().flatten()
        } else if is_statement {
            shared.statements.lock().unwrap().pop_front().flatten()
        } else {
            None
        };
        if cut.is_some() {
            shared.cuts.fetch_add(1, Ordering::AcqRel);
            // Execute is followed by Sync, before which the server neither commits nor answers.
            while is_statement && !message.ends_with(&[b'S', 0, 0, 0, 4]) {
                message.extend(read_message(client, 5)?);
            }
        }
        match cut {
            Some(Cut::BeforeCommit) => return None,
            Some(Cut::AtCommit) => {
                server.write_all(&message).ok()?;
                return None;
            }
            Some(Cut::AfterAnswer) => {
                swallow.store(true, Ordering::Release);
                server.write_all(&message).ok()?;
                return Some(());
            }
            None => server.write_all(&message).ok()?,
        }
    }
}
