//! A small S3 server for tests, in this process: objects, listings, uploads in parts. It answers
//! well, or it cuts, stalls and drips the bodies that it sends.
#![allow(dead_code, unreachable_pub)]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, BufRead, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bytes::Bytes;
use cutter_kb::object_store::{KbUrl, Place};

/// How the bodies of objects and listings are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sends {
    Whole,
    /// Announces the length, sends so many bytes, closes.
    Length(usize),
    /// In chunks beside an announced length; so many bytes, then it closes.
    Chunked(usize),
    /// Announces nothing: the end of the connection is the end of the body.
    Nothing(usize),
    /// So many bytes, then no more, and the connection stays.
    Stalls(usize),
    /// A byte at a time, with this pause after each.
    Drips(Duration),
    /// So many bytes a second.
    Slow(usize),
}

pub struct State {
    pub objects: BTreeMap<String, Bytes>,
    pub sends: Sends,
    /// Backups of one part are stored without their last byte.
    pub loses_bytes: bool,
    /// The number of a part that is refused.
    pub refuses_part: Option<usize>,
    /// The answer to what makes a backup visible breaks off.
    pub cuts_end: bool,
    /// Uploads in parts that are neither ended nor aborted.
    pub uploads: BTreeMap<String, BTreeMap<usize, Bytes>>,
    /// First lines and headers of all requests.
    pub heads: Vec<String>,
    pub connections: usize,
}

#[derive(Clone)]
pub struct Server {
    pub endpoint: String,
    state: Arc<Mutex<State>>,
}

impl Server {
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let state = State {
            objects: BTreeMap::new(),
            sends: Sends::Whole,
            loses_bytes: false,
            refuses_part: None,
            cuts_end: false,
            uploads: BTreeMap::new(),
            heads: Vec::new(),
            connections: 0,
        };
        let server = Self { endpoint, state: Arc::new(Mutex::new(state)) };
        let accepting = server.clone();
        // ends with the process
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let server = accepting.clone();
                std::thread::spawn(move || {
                    server.state().connections += 1;
                    // a client that went away is what many tests are about
                    let _ = server.serve(stream);
                    server.state().connections -= 1;
                });
            }
        });
        server
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    pub fn sends(&self, sends: Sends) {
        self.state().sends = sends;
    }

    /// The prefix `kb` of its bucket.
    pub fn place(&self) -> Place {
        let url: KbUrl = "s3://bucket/kb".parse().unwrap();
        let variables = [
            ("AWS_ENDPOINT_URL", self.endpoint.as_str()),
            ("AWS_ACCESS_KEY_ID", "cutter"),
            ("AWS_SECRET_ACCESS_KEY", "secret"),
            ("AWS_REGION", "us-east-1"),
        ];
        url.open(variables.map(|(name, value)| (name.to_owned(), value.to_owned()))).unwrap()
    }

    pub fn put(&self, path: &str, bytes: impl Into<Bytes>) {
        self.state().objects.insert(format!("kb/{path}"), bytes.into());
    }

    fn serve(&self, stream: TcpStream) -> io::Result<()> {
        stream.set_nodelay(true)?;
        let mut from = BufReader::new(stream.try_clone()?);
        let mut to = stream;
        loop {
            let mut head = String::new();
            while !head.ends_with("\r\n\r\n") {
                if from.read_line(&mut head)? == 0 {
                    return Ok(());
                }
            }
            let lower = head.to_ascii_lowercase();
            let length = lower.lines().find_map(|l| l.strip_prefix("content-length: ")?.parse().ok());
            let mut body = vec![0; length.unwrap_or(0)];
            from.read_exact(&mut body)?;
            let first = head.lines().next().unwrap_or_default().to_owned();
            self.state().heads.push(lower.clone());
            let mut words = first.split(' ');
            let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
            let (path, query) = target.split_once('?').unwrap_or((target, ""));
            let key = path.trim_start_matches("/bucket").trim_start_matches('/').to_owned();
            let value = |name: &str| {
                query.split('&').find_map(|p| p.strip_prefix(name)?.strip_prefix('=')).map(str::to_owned)
            };
            match method {
                "GET" if key.is_empty() => {
                    let prefix = value("prefix").unwrap_or_default().replace("%2F", "/");
                    self.send(&mut to, &self.listing(&prefix).into())?;
                }
                "GET" | "HEAD" => {
                    let found = self.state().objects.get(&key).cloned();
                    match (found, method) {
                        (None, "HEAD") => answer(&mut to, "404 Not Found", "")?,
                        (None, _) => {
                            answer(&mut to, "404 Not Found", "<Error><Code>NoSuchKey</Code></Error>")?
                        }
                        (Some(object), "HEAD") => to.write_all(announced(object.len()).as_bytes())?,
                        (Some(object), _) => self.send(&mut to, &object)?,
                    }
                }
                "PUT" => match value("partNumber").and_then(|n| n.parse::<usize>().ok()) {
                    Some(number) => {
                        self.part(&mut to, &value("uploadId").unwrap_or_default(), number, body)?
                    }
                    None => {
                        let mut state = self.state();
                        let taken = lower.contains("if-none-match: *") && state.objects.contains_key(&key);
                        let is_backup = key.ends_with(".gpg") && !key.contains(".claims");
                        if is_backup && state.loses_bytes {
                            body.pop();
                        }
                        if !taken {
                            state.objects.insert(key, body.into());
                        }
                        let cuts = is_backup && state.cuts_end;
                        drop(state);
                        if cuts {
                            return Ok(());
                        }
                        let status = if taken { "412 Precondition Failed" } else { "200 OK" };
                        answer(&mut to, status, "")?;
                    }
                },
                "POST" => match value("uploadId") {
                    None => {
                        let mut state = self.state();
                        let id = format!("u{}", state.heads.len());
                        state.uploads.insert(id.clone(), BTreeMap::new());
                        drop(state);
                        let tag = "InitiateMultipartUploadResult";
                        answer(&mut to, "200 OK", &format!("<{tag}><UploadId>{id}</UploadId></{tag}>"))?;
                    }
                    Some(id) => {
                        let mut state = self.state();
                        let parts = state.uploads.remove(&id).unwrap_or_default();
                        let whole: Vec<u8> = parts.into_values().flatten().collect();
                        state.objects.insert(key, whole.into());
                        let cuts = state.cuts_end;
                        drop(state);
                        let tag = "CompleteMultipartUploadResult";
                        let body = format!("<{tag}><ETag>\"e\"</ETag></{tag}>");
                        if cuts {
                            to.write_all(announced(body.len()).as_bytes())?;
                            return to.write_all(&body.as_bytes()[..body.len() / 2]);
                        }
                        answer(&mut to, "200 OK", &body)?;
                    }
                },
                "DELETE" => {
                    match value("uploadId") {
                        Some(id) => drop(self.state().uploads.remove(&id)),
                        None => drop(self.state().objects.remove(&key)),
                    }
                    to.write_all(b"HTTP/1.1 204 No Content\r\n\r\n")?;
                }
                _ => answer(&mut to, "405 Method Not Allowed", "")?,
            }
        }
    }

    fn part(&self, to: &mut TcpStream, id: &str, number: usize, body: Vec<u8>) -> io::Result<()> {
        let mut state = self.state();
        if state.refuses_part == Some(number) {
            drop(state);
            return answer(to, "500 Internal Server Error", "<Error><Code>InternalError</Code></Error>");
        }
        if let Some(parts) = state.uploads.get_mut(id) {
            parts.insert(number, body.into());
        }
        drop(state);
        answer(to, "200 OK", "")
    }

    pub fn listing(&self, prefix: &str) -> String {
        let state = self.state();
        let mut text = "<ListBucketResult><IsTruncated>false</IsTruncated>".to_owned();
        for (key, object) in state.objects.iter().filter(|(key, _)| key.starts_with(prefix)) {
            let size = object.len();
            write!(
                text,
                "<Contents><Key>{key}</Key><LastModified>2026-05-20T10:11:12.000Z</LastModified>\
                 <ETag>\"e\"</ETag><Size>{size}</Size></Contents>"
            )
            .unwrap();
        }
        text + "</ListBucketResult>"
    }

    fn send(&self, to: &mut TcpStream, body: &Bytes) -> io::Result<()> {
        let sends = self.state().sends;
        let closed = || Err(io::Error::other("closed on purpose"));
        match sends {
            Sends::Whole => {
                to.write_all(announced(body.len()).as_bytes())?;
                to.write_all(body)
            }
            Sends::Length(n) => {
                to.write_all(announced(body.len()).as_bytes())?;
                to.write_all(&body[..n])?;
                closed()
            }
            Sends::Chunked(n) => {
                let head = announced(body.len());
                to.write_all(head.replace("\r\n\r\n", "\r\nTransfer-Encoding: chunked\r\n\r\n").as_bytes())?;
                for piece in body[..n].chunks(4096) {
                    write!(to, "{:x}\r\n", piece.len())?;
                    to.write_all(piece)?;
                    to.write_all(b"\r\n")?;
                }
                closed()
            }
            Sends::Nothing(n) => {
                let head = announced(body.len());
                let without = head.replace(&format!("Content-Length: {}\r\n", body.len()), "");
                to.write_all(without.replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n").as_bytes())?;
                to.write_all(&body[..n])?;
                closed()
            }
            Sends::Stalls(n) => {
                to.write_all(announced(body.len()).as_bytes())?;
                to.write_all(&body[..n])?;
                // until the client goes away
                while to.read(&mut [0; 64])? > 0 {}
                closed()
            }
            Sends::Drips(pause) => {
                to.write_all(announced(body.len()).as_bytes())?;
                for byte in body.iter() {
                    to.write_all(&[*byte])?;
                    std::thread::sleep(pause);
                }
                Ok(())
            }
            Sends::Slow(rate) => {
                to.write_all(announced(body.len()).as_bytes())?;
                for piece in body.chunks(rate / 10) {
                    to.write_all(piece)?;
                    std::thread::sleep(Duration::from_millis(100));
                }
                Ok(())
            }
        }
    }
}

fn announced(length: usize) -> String {
    format!(
        "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nETag: \"e\"\r\n\
         Last-Modified: Wed, 20 May 2026 10:11:12 GMT\r\n\r\n"
    )
}

fn answer(to: &mut TcpStream, status: &str, body: &str) -> io::Result<()> {
    let length = body.len();
    write!(to, "HTTP/1.1 {status}\r\nContent-Length: {length}\r\nETag: \"e\"\r\n\r\n{body}")
}
