//! Key files, and the two ports over them. A secret is read when it is needed, is wiped
//! after use, and never shows in a message.

use std::io::Write as _;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use cutter_core::port::signer::Signer;
use cutter_core::port::{Port, PortError, PortErrorKind, PortResult};
use cutter_core::record::signature::{Duty, SignedText};
use cutter_kb::openpgp::{KeyPair, PublicKey};
use cutter_kb::ports::KeyRing;
use ed25519_dalek::{Signer as _, SigningKey};
use zeroize::Zeroizing;

use super::now;
use crate::config::Config;
use crate::failure::Failure;
use crate::files::{read_small, word};

/// Reads a secret file. One that others can read is refused: it is no secret any more.
fn read_secret(path: &Path) -> Result<Zeroizing<Vec<u8>>, Failure> {
    let missing = |e: Failure| e.next("cutter init").next("cutter doctor");
    let meta = std::fs::metadata(path).map_err(|e| missing(Failure::io("read", path, &e)))?;
    let mode = meta.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(Failure::usage(format!("secret key file {} is open to others", path.display()))
            .broken("keys.private", "mode 0600", format!("mode {mode:04o}"))
            .next(format!("chmod 600 {}", path.display())));
    }
    read_small(path).map(Zeroizing::new).map_err(missing)
}

/// Writes a new secret file, 0600, never over another one.
pub(crate) fn write_new_secret(path: &Path, text: &[u8]) -> Result<(), Failure> {
    write_new(path, text, 0o600)
}

/// Writes a new public file, never over another one.
pub(crate) fn write_public(path: &Path, text: &[u8]) -> Result<(), Failure> {
    write_new(path, text, 0o600)
}

/// Puts another text in the place of a file, 0600: the old one stands until the new one is
/// durable.
pub(crate) fn replace_secret(path: &Path, text: &[u8]) -> Result<(), Failure> {
    let temporary = path.with_extension(format!("new-{}", std::process::id()));
    write_new(&temporary, text, 0o600)?;
    std::fs::rename(&temporary, path).map_err(|e| Failure::io("replace", path, &e))?;
    sync_folder(path)
}

fn sync_folder(path: &Path) -> Result<(), Failure> {
    match path.parent() {
        Some(folder) => std::fs::File::open(folder)
            .and_then(|f| f.sync_all())
            .map_err(|e| Failure::io("sync the folder of", path, &e)),
        None => Ok(()),
    }
}

/// A new Ed25519 seed in the form of its file.
pub(crate) fn new_seed() -> Zeroizing<Vec<u8>> {
    let mut seed = Zeroizing::new([0_u8; 32]);
    super::environment::fill(seed.as_mut());
    let mut text = super::environment::hex(seed.as_ref()).into_bytes();
    text.push(b'\n');
    Zeroizing::new(text)
}

/// Whole and durable, or not there: a temporary file, fsync, and a link under the name.
fn write_new(path: &Path, text: &[u8], mode: u32) -> Result<(), Failure> {
    let temporary = path.with_extension(format!("tmp-{}", std::process::id()));
    let io = |op: &'static str| move |e: std::io::Error| Failure::io(op, path, &e);
    let mut file = std::fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(mode)
        .open(&temporary)
        .map_err(io("create"))?;
    let written = file.write_all(text).and_then(|()| file.sync_all());
    let published = written.and_then(|()| std::fs::hard_link(&temporary, path));
    // The leftover is harmless and named after this process.
    let _ = std::fs::remove_file(&temporary);
    published.map_err(io("write"))?;
    sync_folder(path)
}

/// An Ed25519 seed: 64 hexadecimal digits.
pub(crate) fn read_seed(path: &Path) -> Result<SigningKey, Failure> {
    let bytes = read_secret(path)?;
    let digits: Vec<u8> = bytes.iter().copied().filter(|b| !b.is_ascii_whitespace()).collect();
    let digits = Zeroizing::new(digits);
    let mut seed = Zeroizing::new([0_u8; 32]);
    let digit = |b: u8| char::from(b).to_digit(16).and_then(|d| u8::try_from(d).ok());
    let mut is_good = digits.len() == 64;
    for (place, pair) in seed.iter_mut().zip(digits.chunks(2)) {
        match (pair.first().copied().and_then(digit), pair.get(1).copied().and_then(digit)) {
            (Some(high), Some(low)) => *place = high << 4 | low,
            _ => is_good = false,
        }
    }
    if !is_good {
        return Err(Failure::usage(format!("{} is not an Ed25519 seed", path.display())).broken(
            "keys.seed",
            "64 hexadecimal digits",
            "another text (not shown)",
        ));
    }
    Ok(SigningKey::from_bytes(&seed))
}

/// Where the public key of a seed stands: beside it, `.public`.
pub(crate) fn public_half(seed: &Path) -> PathBuf {
    seed.with_extension("public")
}

/// The public key that a duty signs with, as 64 hexadecimal digits: the seed's. What the file beside it
/// says counts only where there is no seed, for whoever verifies without secrets.
pub(crate) fn duty_public_key(seed: &Path) -> Result<String, Failure> {
    let path = public_half(seed);
    if seed.exists() || !path.exists() {
        return Ok(super::hex(read_seed(seed)?.verifying_key().as_bytes()));
    }
    let key = public_text(&path)?;
    if key.len() == 64 && key.bytes().all(|b| b.is_ascii_hexdigit()) {
        return Ok(key);
    }
    Err(Failure::usage(format!("{} is not a public key", path.display())).broken(
        "keys.public",
        "64 hexadecimal digits",
        format!("{} characters", key.len()),
    ))
}

fn public_text(path: &Path) -> Result<String, Failure> {
    Ok(String::from_utf8_lossy(&read_small(path)?).trim().to_ascii_lowercase())
}

/// Where the file beside a seed says another key than the seed's: what is wrong, and the command that
/// writes it anew.
pub(crate) fn public_half_differs(seed: &Path) -> Option<(String, String)> {
    let path = public_half(seed);
    let (expected, observed) = (duty_public_key(seed).ok()?, public_text(&path).ok()?);
    (expected != observed).then(|| {
        (
            format!("{}: expected {expected}, which is the seed's, observed {observed}", path.display()),
            format!("rm {} && cutter init --no-database", word(&path)),
        )
    })
}

/// A secret OpenPGP key.
pub(crate) fn load_pair(path: &Path) -> Result<KeyPair, Failure> {
    let bytes = read_secret(path)?;
    KeyPair::parse(&bytes).map_err(|e| Failure::usage(format!("{}: {e}", path.display())))
}

/// A public OpenPGP key.
pub(crate) fn load_public(path: &Path) -> Result<PublicKey, Failure> {
    let bytes = read_small(path).map_err(|e| e.next("cutter doctor"))?;
    PublicKey::parse(&bytes).map_err(|e| Failure::usage(format!("{}: {e}", path.display())))
}

/// The run's own signatures, over the key files. Files are read at the first use, so a
/// command that signs nothing needs no secret.
pub(crate) struct KeySigner {
    executor: PathBuf,
    verifier: PathBuf,
    operator: PathBuf,
}

impl KeySigner {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            executor: config.keys.executor.clone(),
            verifier: config.keys.verifier.clone(),
            operator: config.keys.operator.clone(),
        }
    }

    fn key(&self, duty: Duty) -> PortResult<SigningKey> {
        let path = match duty {
            Duty::Executor => &self.executor,
            Duty::Verifier => &self.verifier,
        };
        read_seed(path).map_err(|failure| signer_error(duty.as_str(), failure.what))
    }
}

fn signer_error(op: &str, message: impl Into<String>) -> PortError {
    PortError::new(Port::Signer, op, PortErrorKind::Denied, message)
}

#[async_trait]
impl Signer for KeySigner {
    async fn public_key(&self, duty: Duty) -> PortResult<[u8; 32]> {
        Ok(self.key(duty)?.verifying_key().to_bytes())
    }

    async fn sign(&self, duty: Duty, payload: &[u8]) -> PortResult<[u8; 64]> {
        Ok(self.key(duty)?.sign(payload).to_bytes())
    }

    async fn sign_creation(&self, text: &str) -> PortResult<SignedText> {
        let pair =
            load_pair(&self.operator).map_err(|failure| signer_error("sign_creation", failure.what))?;
        let document =
            pair.clearsign(text, now()).map_err(|e| signer_error("sign_creation", e.to_string()))?;
        Ok(SignedText { document, fingerprint: pair.fingerprint().to_string() })
    }
}

/// Every configured person's public key; each must be the pinned one.
pub(crate) fn key_ring(config: &Config) -> Result<KeyRing, Failure> {
    let mut keys = Vec::new();
    for (name, actor) in &config.actors {
        let key = load_public(&actor.public_key)?;
        if key.fingerprint() != actor.fingerprint {
            return Err(Failure::usage(format!("the key of {name} is not the pinned one"))
                .broken(
                    format!("config.actors.{name}.fingerprint"),
                    actor.fingerprint.to_string(),
                    format!("{} in {}", key.fingerprint(), actor.public_key.display()),
                )
                .next("cutter doctor"));
        }
        keys.push(key);
    }
    Ok(KeyRing::new(keys))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_read_back_and_wrong_ones_are_refused_without_being_shown() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.seed");
        write_new_secret(&path, format!("{}\n", "0f".repeat(32)).as_bytes()).unwrap();
        assert_eq!(read_seed(&path).unwrap().to_bytes(), [0x0f; 32]);
        assert!(write_new_secret(&path, b"other").is_err(), "a key is never written over");
        for wrong in ["", "0f", &"zz".repeat(32), &"0f".repeat(33)] {
            let path = folder.path().join(format!("{}.seed", wrong.len()));
            write_new_secret(&path, wrong.as_bytes()).unwrap();
            let failure = read_seed(&path).unwrap_err();
            assert!(wrong.is_empty() || !format!("{failure:?}").contains(wrong), "{failure:?}");
        }
    }

    #[test]
    fn the_seed_counts_and_a_file_that_says_otherwise_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let seed = folder.path().join("a.seed");
        write_new_secret(&seed, "0f".repeat(32).as_bytes()).unwrap();
        let key = duty_public_key(&seed).unwrap();
        assert_eq!(public_half_differs(&seed), None, "there is no file");
        write_public(&public_half(&seed), format!("{key}\n").as_bytes()).unwrap();
        assert_eq!(public_half_differs(&seed), None);
        std::fs::write(public_half(&seed), "ab".repeat(32)).unwrap();
        assert_eq!(duty_public_key(&seed).unwrap(), key);
        let (what, _) = public_half_differs(&seed).unwrap();
        assert!(what.contains(&key) && what.contains(&"ab".repeat(32)), "{what}");
        // A seed that cannot be used is none to fall back from.
        std::fs::write(&seed, "0f").unwrap();
        assert!(duty_public_key(&seed).is_err());
        std::fs::remove_file(&seed).unwrap();
        assert_eq!(duty_public_key(&seed).unwrap(), "ab".repeat(32));
    }

    #[test]
    fn an_open_secret_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.seed");
        write_new_secret(&path, "0f".repeat(32).as_bytes()).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
        assert_eq!(read_seed(&path).unwrap_err().broken[0].observed, "mode 0640");
    }
}
