//! Connection strings that cannot be printed.
//!
//! A [`Dsn`] has neither a readable `Debug` nor a `Display`; [`Dsn::redacted`] names host,
//! port, database and user, and nothing else. Errors of parsing never echo the text, because
//! a mistyped string is where a password lands in the wrong place.
//!
//! **TLS.** This build speaks no TLS. What stays on the machine (unix socket, loopback) is
//! fine; a remote server is refused unless the string says `sslmode=disable`, which accepts a
//! conversation in clear. `require`, `verify-ca` and `verify-full` over TCP are refused
//! always: they demand what cannot be given. As in libpq, sslmode means nothing on a socket.

use std::fmt;
use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use postgres::config::{Host, SslMode as ClientSslMode};
use secrecy::{ExposeSecret, SecretString};

use crate::error::PgError;

/// How long a connection attempt may take when the string sets no `connect_timeout`.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

const FORMS: &str = "expected postgres://user:password@host:port/database?option=value \
                     or host=… port=… dbname=… user=… password=… (the text is not shown: it may hold a password)";

/// What the connection string asks of TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SslMode {
    Disable,
    Allow,
    Prefer,
    Require,
    VerifyCa,
    VerifyFull,
}

impl SslMode {
    fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "disable" => Self::Disable,
            "allow" => Self::Allow,
            "prefer" => Self::Prefer,
            "require" => Self::Require,
            "verify-ca" => Self::VerifyCa,
            "verify-full" => Self::VerifyFull,
            _ => return None,
        })
    }

    const fn as_str(self) -> &'static str {
        match self {
            Self::Disable => "disable",
            Self::Allow => "allow",
            Self::Prefer => "prefer",
            Self::Require => "require",
            Self::VerifyCa => "verify-ca",
            Self::VerifyFull => "verify-full",
        }
    }
}

/// A checked connection string, kept secret.
#[derive(Clone)]
pub struct Dsn {
    /// The text without its sslmode.
    text: SecretString,
    sslmode: SslMode,
    database: Option<String>,
}

impl Dsn {
    /// Reads the URL form or the keyword form.
    ///
    /// # Errors
    /// [`PgError::Configuration`] if the text is no connection string, names no host or no
    /// user, or asks for TLS that this build does not have. The text is never quoted.
    pub fn parse(text: &str) -> Result<Self, PgError> {
        let (rest, sslmode) = take_sslmode(text)?;
        let dsn = Self {
            text: SecretString::from(rest),
            sslmode: sslmode.unwrap_or(SslMode::Prefer),
            database: None,
        };
        let config = dsn.config()?;
        if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
            return Err(configuration(format!("the connection string names no host; {FORMS}")));
        }
        if config.get_user().is_none() {
            return Err(configuration(format!("the connection string names no user; {FORMS}")));
        }
        dsn.check_tls(&config)?;
        Ok(dsn)
    }

    /// A login over a unix socket in `socket_dir`.
    pub(crate) fn socket(
        socket_dir: &Path,
        port: u16,
        user: &str,
        password: &SecretString,
        database: &str,
    ) -> Result<Self, PgError> {
        let Some(directory) = socket_dir.to_str() else {
            return Err(configuration("the socket directory's name is not UTF-8".to_owned()));
        };
        Self::parse(&format!(
            "host={} port={port} user={} password={} dbname={}",
            quoted(directory),
            quoted(user),
            quoted(password.expose_secret()),
            quoted(database)
        ))
    }

    /// The same login on another database of the same server.
    #[must_use]
    pub fn with_database(&self, name: &str) -> Self {
        Self { database: Some(name.to_owned()), ..self.clone() }
    }

    /// The client's configuration: for connecting, not for keeping or printing.
    ///
    /// # Errors
    /// [`PgError::Configuration`], without the text.
    pub fn config(&self) -> Result<postgres::Config, PgError> {
        self.client_config().map(postgres::Config::from)
    }

    /// As [`Self::config`], for a client that does not wait by itself.
    pub(crate) fn client_config(&self) -> Result<tokio_postgres::Config, PgError> {
        let mut config: tokio_postgres::Config = self
            .text
            .expose_secret()
            .parse()
            .map_err(|_| configuration(format!("not a PostgreSQL connection string; {FORMS}")))?;
        config.ssl_mode(ClientSslMode::Disable);
        if let Some(name) = &self.database {
            config.dbname(name);
        }
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT_TIMEOUT);
        }
        Ok(config)
    }

    /// Host, port, database and user, for messages: `host=/run/pg port=5432 dbname=cutter user=cutter_ro`.
    #[must_use]
    pub fn redacted(&self) -> String {
        let Ok(config) = self.config() else {
            return "(unreadable connection string)".to_owned();
        };
        let hosts: Vec<String> = if config.get_hosts().is_empty() {
            config.get_hostaddrs().iter().map(ToString::to_string).collect()
        } else {
            config.get_hosts().iter().map(host_text).collect()
        };
        let ports: Vec<String> = config.get_ports().iter().map(ToString::to_string).collect();
        format!(
            "host={} port={} dbname={} user={}",
            hosts.join(","),
            if ports.is_empty() { "5432".to_owned() } else { ports.join(",") },
            config.get_dbname().or(config.get_user()).unwrap_or(""),
            config.get_user().unwrap_or(""),
        )
    }

    /// The environment that libpq tools (`pg_dump`, `psql`) read, so that no password is ever
    /// an argument. Values are secret as a whole. One host only.
    ///
    /// # Errors
    /// [`PgError::Configuration`] if the string names several hosts.
    pub fn libpq_environment(&self) -> Result<Vec<(&'static str, SecretString)>, PgError> {
        let config = self.config()?;
        if config.get_hosts().len().max(config.get_hostaddrs().len()) > 1 {
            return Err(configuration("several hosts in one connection string; name one".to_owned()));
        }
        let mut variables = vec![("PGSSLMODE", SecretString::from("disable"))];
        if let Some(host) = config.get_hosts().first() {
            variables.push(("PGHOST", SecretString::from(host_text(host))));
        }
        if let Some(address) = config.get_hostaddrs().first() {
            variables.push(("PGHOSTADDR", SecretString::from(address.to_string())));
        }
        let port = config.get_ports().first().copied().unwrap_or(5432);
        variables.push(("PGPORT", SecretString::from(port.to_string())));
        for (name, value) in [("PGUSER", config.get_user()), ("PGDATABASE", config.get_dbname())] {
            if let Some(value) = value {
                variables.push((name, SecretString::from(value)));
            }
        }
        if let Some(password) = config.get_password() {
            let password = std::str::from_utf8(password)
                .map_err(|_| configuration("the password is not UTF-8".to_owned()))?;
            variables.push(("PGPASSWORD", SecretString::from(password)));
        }
        Ok(variables)
    }

    fn check_tls(&self, config: &postgres::Config) -> Result<(), PgError> {
        let reach = reach(config);
        let mode = self.sslmode.as_str();
        match (reach, self.sslmode) {
            (Reach::Socket, _) | (_, SslMode::Disable) => Ok(()),
            (Reach::Loopback, SslMode::Allow | SslMode::Prefer) => Ok(()),
            (Reach::Remote, SslMode::Allow | SslMode::Prefer) => Err(configuration(format!(
                "the server ({}) is remote and this build speaks no TLS: everything, the password's proof \
                 included, would cross the network in clear. Use a unix socket or a local tunnel \
                 (host=localhost), or accept it with sslmode=disable",
                self.redacted()
            ))),
            (_, SslMode::Require | SslMode::VerifyCa | SslMode::VerifyFull) => Err(configuration(format!(
                "sslmode={mode} demands TLS, which this build does not speak (server: {}). Use a unix socket, \
                 or a local TLS tunnel with host=localhost and sslmode=disable",
                self.redacted()
            ))),
        }
    }
}

impl fmt::Debug for Dsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Dsn([redacted])")
    }
}

/// Where the farthest host of a connection string is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Reach {
    Socket,
    Loopback,
    Remote,
}

fn reach(config: &postgres::Config) -> Reach {
    let names = config.get_hosts().iter().enumerate().map(|(i, host)| match host {
        Host::Unix(_) => Reach::Socket,
        // An address given beside the name is where the connection goes.
        Host::Tcp(name) => match config.get_hostaddrs().get(i) {
            Some(address) => reach_of(*address),
            None if name == "localhost" => Reach::Loopback,
            None => name.parse::<IpAddr>().map_or(Reach::Remote, reach_of),
        },
    });
    let addresses = config.get_hostaddrs().iter().map(|address| reach_of(*address));
    names.chain(addresses).max().unwrap_or(Reach::Remote)
}

fn reach_of(address: IpAddr) -> Reach {
    if address.to_canonical().is_loopback() { Reach::Loopback } else { Reach::Remote }
}

fn host_text(host: &Host) -> String {
    match host {
        Host::Tcp(name) => name.clone(),
        Host::Unix(path) => path.display().to_string(),
    }
}

fn configuration(message: String) -> PgError {
    PgError::Configuration(message)
}

/// A value of the keyword form.
fn quoted(value: &str) -> String {
    let mut text = String::with_capacity(value.len() + 2);
    text.push('\'');
    for c in value.chars() {
        if matches!(c, '\'' | '\\') {
            text.push('\\');
        }
        text.push(c);
    }
    text.push('\'');
    text
}

/// Takes sslmode out of the text: the client's parser does not know `verify-full`.
fn take_sslmode(text: &str) -> Result<(String, Option<SslMode>), PgError> {
    let (rest, value) = match ["postgres://", "postgresql://"].iter().find(|p| text.starts_with(**p)) {
        Some(prefix) => sslmode_of_url(text, prefix.len()),
        None => sslmode_of_keywords(text),
    };
    match value {
        None => Ok((rest, None)),
        Some(value) => match SslMode::parse(&value) {
            Some(mode) => Ok((rest, Some(mode))),
            None => Err(configuration(
                "unknown sslmode; expected disable, allow, prefer, require, verify-ca or verify-full"
                    .to_owned(),
            )),
        },
    }
}

fn sslmode_of_url(text: &str, prefix: usize) -> (String, Option<String>) {
    // The query begins at the first '?' after the credentials, which end at the first '@'.
    let host = text[prefix..].find('@').map_or(prefix, |at| prefix + at + 1);
    let Some(mark) = text[host..].find('?').map(|at| host + at) else {
        return (text.to_owned(), None);
    };
    let mut value = None;
    let kept: Vec<&str> = text[mark + 1..]
        .split('&')
        .filter(|pair| match pair.strip_prefix("sslmode=") {
            Some(mode) => {
                value = Some(mode.to_owned());
                false
            }
            None => true,
        })
        .collect();
    let query = kept.join("&");
    let rest = if query.is_empty() { text[..mark].to_owned() } else { format!("{}?{query}", &text[..mark]) };
    (rest, value)
}

fn sslmode_of_keywords(text: &str) -> (String, Option<String>) {
    let mut rest = String::with_capacity(text.len());
    let mut found = None;
    let mut chars = text.char_indices().peekable();
    while let Some((start, _)) = chars.peek().copied() {
        // One `key = value` span, quotes and backslashes as the keyword form has them.
        while chars.next_if(|(_, c)| c.is_whitespace()).is_some() {}
        let mut key = String::new();
        while let Some((_, c)) = chars.next_if(|(_, c)| !c.is_whitespace() && *c != '=') {
            key.push(c);
        }
        while chars.next_if(|(_, c)| c.is_whitespace()).is_some() {}
        if chars.next_if(|(_, c)| *c == '=').is_none() && key.is_empty() {
            break;
        }
        while chars.next_if(|(_, c)| c.is_whitespace()).is_some() {}
        let mut value = String::new();
        let is_quoted = chars.next_if(|(_, c)| *c == '\'').is_some();
        while let Some((_, c)) = chars.next_if(|(_, c)| is_quoted || !c.is_whitespace()) {
            match c {
                '\'' if is_quoted => break,
                '\\' => value.extend(chars.next().map(|(_, c)| c)),
                _ => value.push(c),
            }
        }
        let end = chars.peek().map_or(text.len(), |(at, _)| *at);
        if key == "sslmode" {
            found = Some(value);
        } else {
            rest.push_str(&text[start..end]);
        }
    }
    (rest, found)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "hunter2-swordfish";

    fn refusal(text: &str) -> String {
        match Dsn::parse(text) {
            Ok(_) => panic!("accepted"),
            Err(error) => {
                let shown = format!("{error} {error:?}");
                assert!(!shown.contains(SECRET), "{shown}");
                shown
            }
        }
    }

    #[test]
    fn both_forms_are_read_and_neither_is_shown() {
        for text in [
            format!("postgres://cutter_ro:{SECRET}@localhost:5433/cutter"),
            format!("host=localhost port=5433 user=cutter_ro password='{SECRET}' dbname=cutter"),
        ] {
            let dsn = Dsn::parse(&text).unwrap();
            assert_eq!(dsn.redacted(), "host=localhost port=5433 dbname=cutter user=cutter_ro");
            assert_eq!(dsn.config().unwrap().get_password(), Some(SECRET.as_bytes()));
            assert!(!format!("{dsn:?}").contains(SECRET));
            assert!(!dsn.redacted().contains(SECRET));
            assert!(dsn.with_database("other").redacted().contains("dbname=other"));
        }
    }

    #[test]
    fn a_refusal_never_quotes_the_text() {
        for text in [
            format!("postgres://u:{SECRET}@localhost:notaport/d"),
            format!("postgres://u:{SECRET}@localhost/d?{SECRET}=1"),
            format!("{SECRET}=1 host=localhost user=u"),
            format!("host=localhost user=u password='{SECRET}"),
            format!("host=localhost user=u sslmode={SECRET}"),
            format!("user=u password={SECRET}"),
            format!("host=localhost password={SECRET}"),
            SECRET.to_owned(),
            String::new(),
        ] {
            refusal(&text);
        }
    }

    #[test]
    fn tls_is_refused_where_it_would_be_needed() {
        for (text, fine) in [
            ("host=/run/pg user=u", true),
            ("host=/run/pg user=u sslmode=verify-full", true),
            ("host=localhost user=u", true),
            ("host=127.0.0.1 user=u sslmode=prefer", true),
            ("host=::1 user=u", true),
            ("host=localhost user=u sslmode=require", false),
            ("host=localhost user=u sslmode=verify-full", false),
            ("host=db.example.org user=u", false),
            ("host=db.example.org user=u sslmode=prefer", false),
            ("host=db.example.org user=u sslmode=require", false),
            ("host=db.example.org user=u sslmode = 'disable'", true),
            ("postgres://u@db.example.org/d?sslmode=disable&application_name=x", true),
            ("postgres://u@db.example.org/d?sslmode=verify-full", false),
            ("postgres://u@10.0.0.1/d", false),
            ("host=localhost hostaddr=10.0.0.1 user=u", false),
            ("host=localhost,db.example.org user=u", false),
        ] {
            match (fine, Dsn::parse(text)) {
                (true, Ok(_)) => {}
                (false, Err(error)) => assert!(error.to_string().contains("TLS"), "{text}: {error}"),
                (_, outcome) => panic!("{text}: {outcome:?}"),
            }
        }
    }

    #[test]
    fn a_password_that_looks_like_an_option_stays_a_password() {
        let dsn = Dsn::parse("host=/run/pg user=u password='a sslmode=disable b' sslmode=prefer").unwrap();
        assert_eq!(dsn.config().unwrap().get_password(), Some(&b"a sslmode=disable b"[..]));
        let dsn = Dsn::parse("postgres://u:p?sslmode=disable@localhost/d").unwrap();
        assert_eq!(dsn.config().unwrap().get_password(), Some(&b"p?sslmode=disable"[..]));
    }

    #[test]
    fn socket_logins_survive_any_password_and_folder() {
        let password = SecretString::from(r"q'u\o te");
        let dsn = Dsn::socket(Path::new("/tmp/a b'c"), 5432, "cutter_ro", &password, "cutter").unwrap();
        let config = dsn.config().unwrap();
        assert_eq!(config.get_password(), Some(&br"q'u\o te"[..]));
        assert_eq!(config.get_hosts(), [Host::Unix("/tmp/a b'c".into())]);
    }

    #[test]
    fn libpq_gets_everything_through_the_environment() {
        let dsn = Dsn::parse(&format!("host=/run/pg user=u password={SECRET} dbname=d")).unwrap();
        let variables = dsn.libpq_environment().unwrap();
        let get = |name| variables.iter().find(|(n, _)| *n == name).map(|(_, v)| v.expose_secret());
        assert_eq!(get("PGHOST"), Some("/run/pg"));
        assert_eq!(get("PGPASSWORD"), Some(SECRET));
        assert_eq!(get("PGPORT"), Some("5432"));
        assert!(!format!("{variables:?}").contains(SECRET));
    }
}
