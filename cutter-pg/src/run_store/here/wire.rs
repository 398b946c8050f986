//! The socket under a session, and the loop that drives both: what the client asks is written, and the
//! thread sleeps in one call until the socket has something for it.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::config::{Host, TargetSessionAttrs};
use tokio_postgres::tls::NoTlsStream;
use tokio_postgres::{Client, Config, Connection, NoTls};

use super::Until;
use crate::error::PgError;

/// Port of a connection string that names none.
const PORT: u16 = 5432;

/// A connection, and what its thread sleeps on.
pub(super) struct Wire {
    connection: Pin<Box<Connection<Socket, NoTlsStream>>>,
    /// The connection ended; the client knows why.
    is_over: bool,
    bed: Bed,
}

impl Wire {
    /// Whether this way to connect will do: to one server, whatever it is, on a socket as it comes. To find
    /// the right one of several, and to watch a connection otherwise than by the limit of each wait, is left
    /// to the client's own.
    pub(super) fn suits(config: &Config) -> bool {
        config.get_hosts().len().max(config.get_hostaddrs().len()) == 1
            && config.get_target_session_attrs() == TargetSessionAttrs::Any
            && config.get_tcp_user_timeout().is_none()
    }

    /// Connects and logs in.
    ///
    /// # Errors
    /// [`PgError::Connection`], the server's refusal, [`PgError::Deadline`].
    pub(super) fn open(config: &Config, until: &Until) -> Result<(Self, Client), PgError> {
        let stream = Stream::connect(config, until)?;
        let bed = Bed {
            stream: stream.try_clone().map_err(lost)?,
            is_full: Arc::default(),
            is_called: Arc::default(),
        };
        let socket = Socket { stream, is_full: bed.is_full.clone() };
        let (client, connection) = bed.drive(until, config.connect_raw(socket, NoTls), |_| Ok(()))??;
        Ok((Self { connection: Box::pin(connection), is_over: false, bed }, client))
    }

    /// Drives the connection until the work is done.
    ///
    /// # Errors
    /// The work's; [`PgError::Connection`] if the connection ended and left it, [`PgError::Deadline`].
    pub(super) fn wait<T>(
        &mut self,
        until: &Until,
        work: impl Future<Output = Result<T, PgError>>,
    ) -> Result<T, PgError> {
        let Self { connection, is_over, bed } = self;
        bed.drive(until, work, |context| {
            if *is_over {
                return Err(PgError::Connection("the server closed the connection".to_owned()));
            }
            // Whoever asked hears of the end at once.
            *is_over = connection.as_mut().poll(context).is_ready();
            if *is_over {
                context.waker().wake_by_ref();
            }
            Ok(())
        })?
    }
}

/// What a thread sleeps on, and what keeps it from sleeping.
struct Bed {
    stream: Stream,
    /// A write waits for room.
    is_full: Arc<AtomicBool>,
    is_called: Arc<Called>,
}

#[derive(Default)]
struct Called(AtomicBool);

impl Wake for Called {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Release);
    }
}

impl Bed {
    /// Polls the work, then `beside`, and sleeps when neither got on.
    fn drive<T>(
        &self,
        until: &Until,
        work: impl Future<Output = T>,
        mut beside: impl FnMut(&mut Context<'_>) -> Result<(), PgError>,
    ) -> Result<T, PgError> {
        let waker = Waker::from(self.is_called.clone());
        let mut context = Context::from_waker(&waker);
        let mut work = pin!(work);
        loop {
            if let Poll::Ready(done) = work.as_mut().poll(&mut context) {
                return Ok(done);
            }
            // What the work called for comes now.
            self.is_called.0.store(false, Ordering::Release);
            beside(&mut context)?;
            if !self.is_called.0.swap(false, Ordering::AcqRel) {
                self.sleep(until)?;
            }
        }
    }

    fn sleep(&self, until: &Until) -> Result<(), PgError> {
        let mut flags = PollFlags::IN;
        if self.is_full.swap(false, Ordering::AcqRel) {
            flags |= PollFlags::OUT;
        }
        let left = Timespec::try_from(until.left()?).ok();
        match poll(&mut [PollFd::from_borrowed_fd(self.stream.as_fd(), flags)], left.as_ref()) {
            // Too early is looked at again, and too late is seen above.
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(e) => Err(lost(e.into())),
        }
    }
}

/// A connection's socket, which never makes its caller wait.
struct Socket {
    stream: Stream,
    is_full: Arc<AtomicBool>,
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = self.stream.read(into.initialize_unfilled());
        ready(read).map_ok(|bytes| into.advance(bytes))
    }
}

impl AsyncWrite for Socket {
    fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = ready(self.stream.write(bytes));
        if written.is_pending() {
            self.is_full.store(true, Ordering::Release);
        }
        written
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.stream.end())
    }
}

fn ready<T>(outcome: io::Result<T>) -> Poll<io::Result<T>> {
    match outcome {
        Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Poll::Pending,
        outcome => Poll::Ready(outcome),
    }
}

enum Stream {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Stream {
    fn connect(config: &Config, until: &Until) -> Result<Self, PgError> {
        let port = config.get_ports().first().copied().unwrap_or(PORT);
        let addresses: Vec<SocketAddr> = match (config.get_hostaddrs().first(), config.get_hosts().first()) {
            (Some(address), _) => vec![(*address, port).into()],
            (None, Some(Host::Tcp(name))) => (name.as_str(), port).to_socket_addrs().map_err(lost)?.collect(),
            (None, Some(Host::Unix(folder))) => {
                let stream = UnixStream::connect(folder.join(format!(".s.PGSQL.{port}"))).map_err(lost)?;
                stream.set_nonblocking(true).map_err(lost)?;
                return Ok(Self::Unix(stream));
            }
            (None, None) => Vec::new(),
        };
        let mut refused = PgError::Connection("the host has no address".to_owned());
        for address in addresses {
            let left = until.left()?;
            let limit = config.get_connect_timeout().map_or(left, |limit| left.min(*limit));
            match TcpStream::connect_timeout(&address, limit) {
                Ok(stream) => {
                    stream.set_nodelay(true).and_then(|()| stream.set_nonblocking(true)).map_err(lost)?;
                    return Ok(Self::Tcp(stream));
                }
                Err(e) => refused = lost(e),
            }
        }
        Err(refused)
    }

    fn try_clone(&self) -> io::Result<Self> {
        match self {
            Self::Unix(stream) => stream.try_clone().map(Self::Unix),
            Self::Tcp(stream) => stream.try_clone().map(Self::Tcp),
        }
    }

    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Unix(stream) => stream.read(into),
            Self::Tcp(stream) => stream.read(into),
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Unix(stream) => stream.write(bytes),
            Self::Tcp(stream) => stream.write(bytes),
        }
    }

    fn end(&self) -> io::Result<()> {
        match self {
            Self::Unix(stream) => stream.shutdown(Shutdown::Write),
            Self::Tcp(stream) => stream.shutdown(Shutdown::Write),
        }
    }

    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Unix(stream) => stream.as_fd(),
            Self::Tcp(stream) => stream.as_fd(),
        }
    }
}

fn lost(e: io::Error) -> PgError {
    PgError::Connection(e.to_string())
}
