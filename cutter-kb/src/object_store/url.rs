//! The URL of a knowledge base or of the place of backups, and how it is opened.
//!
//! | form | what |
//! | --- | --- |
//! | `s3://bucket/prefix` | S3 or a compatible server (feature `s3`; `AWS_…` variables) |
//! | `gs://bucket/prefix` | Google Cloud Storage (feature `gcs`; `GOOGLE_…`) |
//! | `az://container/prefix`, `abfs[s]://container@account.dfs.core.windows.net/prefix` | Azure (feature `azure`; `AZURE_…`) |
//! | `file:///folder` | a folder |
//! | `memory:` | this process, for tests |
//!
//! Credentials never stand in a URL: it is shown in messages and reports.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use ::object_store::ObjectStore;
use ::object_store::local::LocalFileSystem;
use ::object_store::memory::InMemory;

use super::place::Place;
use crate::atomic_file::check_name;

/// A URL that cannot be used, or a store that cannot be opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KbUrlError {
    /// For whoever wrote it: the form is wrong.
    #[error("{shown:?} is no place for documents: expected {expected}")]
    Form {
        /// The URL without what may be secret.
        shown: String,
        /// What would have been right.
        expected: &'static str,
    },
    /// For whoever wrote it: no store of this kind can keep the rules.
    #[error("{scheme} cannot hold a knowledge base: {why}")]
    Unfit {
        /// The scheme.
        scheme: String,
        /// Which rule it cannot keep.
        why: &'static str,
    },
    /// For whoever built the program.
    #[error("{shown} needs the feature `{feature}`, and this program was built without it")]
    NotBuilt {
        /// The URL.
        shown: String,
        /// The feature of `cutter-kb` and `cutter-cli`.
        feature: &'static str,
    },
    /// For whoever set the store's variables.
    #[error("{shown} cannot be opened: {why}")]
    Open {
        /// The URL.
        shown: String,
        /// What the store's client or the system says.
        why: String,
    },
}

/// A parsed URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KbUrl {
    kind: Kind,
    prefix: String,
    shown: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Kind {
    S3 { bucket: String },
    Gcs { bucket: String },
    Azure { container: String, account: Option<String> },
    Folder(PathBuf),
    Memory,
}

const NO_CONDITION: &str = "it has no conditional create (If-None-Match: * on PUT), so two creators of one \
document would both succeed; use s3://, gs://, az://, or a folder";

impl FromStr for KbUrl {
    type Err = KbUrlError;

    fn from_str(text: &str) -> Result<Self, KbUrlError> {
        let text = text.trim();
        let (scheme, rest) = text.split_once(':').ok_or_else(|| form(text, FORMS))?;
        let scheme = scheme.to_ascii_lowercase();
        match scheme.as_str() {
            "http" | "https" | "webdav" | "webdavs" | "dav" | "davs" => {
                return Err(KbUrlError::Unfit { scheme: format!("{scheme}://"), why: NO_CONDITION });
            }
            "memory" => return Self::memory(text, rest),
            "file" => return Self::folder_of(text, rest),
            _ => {}
        }
        let rest = rest.strip_prefix("//").ok_or_else(|| form(text, FORMS))?;
        let (authority, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let prefix = checked_prefix(text, prefix)?;
        let kind = match scheme.as_str() {
            "s3" | "s3a" => Kind::S3 { bucket: bucket(text, authority)? },
            "gs" | "gcs" => Kind::Gcs { bucket: bucket(text, authority)? },
            "az" | "azure" => Kind::Azure { container: bucket(text, authority)?, account: None },
            "abfs" | "abfss" => azure(text, authority)?,
            _ => return Err(form(text, FORMS)),
        };
        let shown = format!("{scheme}://{authority}/{prefix}").trim_end_matches('/').to_owned();
        Ok(Self { kind, prefix, shown })
    }
}

impl fmt::Display for KbUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.shown)
    }
}

impl KbUrl {
    /// The folder of a `file:` URL. A knowledge base on a folder is [`crate::folder::FolderKb`]:
    /// one layout per medium.
    #[must_use]
    pub fn folder(&self) -> Option<&Path> {
        match &self.kind {
            Kind::Folder(path) => Some(path),
            _ => None,
        }
    }

    /// Opens the place; asks the store nothing yet. `variables` are the environment's: of
    /// them the store's own are read (`AWS_ENDPOINT_URL`, `AWS_REGION`, …).
    ///
    /// # Errors
    /// [`KbUrlError::NotBuilt`], or [`KbUrlError::Open`] with what is missing.
    pub fn open(&self, variables: impl IntoIterator<Item = (String, String)>) -> Result<Place, KbUrlError> {
        let store = self.store(variables.into_iter().collect())?;
        Place::new(store, &self.prefix, self.shown.clone()).map_err(|why| self.failed(why))
    }

    fn store(&self, variables: Vec<(String, String)>) -> Result<Arc<dyn ObjectStore>, KbUrlError> {
        match &self.kind {
            Kind::Memory => Ok(Arc::new(InMemory::new())),
            Kind::Folder(path) => {
                use std::os::unix::fs::DirBuilderExt as _;
                let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
                made.map_err(|e| self.failed(e.to_string()))?;
                let opened = LocalFileSystem::new_with_prefix(path);
                // without fsync nothing here would be durable
                Ok(Arc::new(opened.map_err(|e| self.failed(super::error::text(&e)))?.with_fsync(true)))
            }
            Kind::S3 { bucket } => cloud::s3(self, bucket, variables),
            Kind::Gcs { bucket } => cloud::gcs(self, bucket, variables),
            Kind::Azure { container, account } => {
                cloud::azure(self, container, account.as_deref(), variables)
            }
        }
    }

    fn failed(&self, why: impl Into<String>) -> KbUrlError {
        KbUrlError::Open { shown: self.shown.clone(), why: why.into() }
    }

    #[allow(dead_code, reason = "every cloud may be built in")]
    fn not_built(&self, feature: &'static str) -> KbUrlError {
        KbUrlError::NotBuilt { shown: self.shown.clone(), feature }
    }

    fn memory(text: &str, rest: &str) -> Result<Self, KbUrlError> {
        let prefix = checked_prefix(text, rest.trim_start_matches('/'))?;
        let shown = format!("memory:{prefix}");
        Ok(Self { kind: Kind::Memory, prefix, shown })
    }

    fn folder_of(text: &str, rest: &str) -> Result<Self, KbUrlError> {
        const EXPECTED: &str = "file:///folder, absolute, without % ? # and .. in it";
        let path = rest.strip_prefix("//").filter(|path| path.starts_with('/'));
        let path = path.ok_or_else(|| form(text, EXPECTED))?.trim_end_matches('/');
        let is_plain = !path.is_empty() && !path.contains(['%', '?', '#', '\0']);
        if !is_plain || path.split('/').any(|part| part == "..") {
            return Err(form(text, EXPECTED));
        }
        let kind = Kind::Folder(PathBuf::from(path));
        Ok(Self { kind, prefix: String::new(), shown: format!("file://{path}") })
    }
}

const FORMS: &str = "s3://bucket/prefix, gs://bucket/prefix, az://container/prefix, \
abfss://container@account.dfs.core.windows.net/prefix or file:///folder";

fn form(text: &str, expected: &'static str) -> KbUrlError {
    KbUrlError::Form { shown: masked(text), expected }
}

/// What stands before an `@`, and a query, may be secret.
fn masked(text: &str) -> String {
    let text: String = text.chars().take(200).collect();
    let text = text.split(['?', '#']).next().unwrap_or_default();
    match text.rsplit_once('@') {
        Some((_, after)) => format!("…@{after}"),
        None => text.to_owned(),
    }
}

fn bucket(text: &str, name: &str) -> Result<String, KbUrlError> {
    let good = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'.' | b'-' | b'_');
    if (3..=222).contains(&name.len()) && name.bytes().all(good) {
        return Ok(name.to_owned());
    }
    Err(form(text, "a bucket of 3 to 222 lower-case letters, digits and . - _, and no credentials"))
}

fn azure(text: &str, authority: &str) -> Result<Kind, KbUrlError> {
    const EXPECTED: &str =
        "abfss://container@account.dfs.core.windows.net/prefix or abfss://container/prefix";
    let Some((container, host)) = authority.split_once('@') else {
        return Ok(Kind::Azure { container: bucket(text, authority)?, account: None });
    };
    let account = host
        .strip_suffix(".dfs.core.windows.net")
        .or_else(|| host.strip_suffix(".blob.core.windows.net"))
        .filter(|account| !account.is_empty() && account.bytes().all(|b| b.is_ascii_alphanumeric()))
        .ok_or_else(|| form(text, EXPECTED))?;
    Ok(Kind::Azure { container: bucket(text, container)?, account: Some(account.to_owned()) })
}

fn checked_prefix(text: &str, prefix: &str) -> Result<String, KbUrlError> {
    let prefix = prefix.trim_end_matches('/');
    let good = |part: &str| check_name(part).is_ok() && !part.contains(['%', '?', '#', '@']);
    if prefix.is_empty() || (prefix.len() <= 256 && prefix.split('/').all(good)) {
        return Ok(prefix.to_owned());
    }
    Err(form(
        text,
        "a prefix of at most 256 bytes whose parts are plain names (no .., no leading dot, no % ? # @)",
    ))
}

mod cloud;
