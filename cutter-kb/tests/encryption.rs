//! Streaming encryption: what gpg reads, what is refused, how much memory it takes.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::io::Write;

use cutter_core::base::digest::Digest;
use cutter_kb::openpgp::{
    EncryptFacts, EncryptWriter, Fingerprint, KeyKind, KeyPair, OpenPgpError, PublicKey, Recipient,
    decrypt_stream,
};
use support::Gpg;

fn recipient(pair: &KeyPair) -> Recipient {
    Recipient::new(&pair.public(), &pair.fingerprint(), jiff::Timestamp::now()).unwrap()
}

fn encrypt(pair: &KeyPair, plain: &[u8]) -> (Vec<u8>, EncryptFacts) {
    let mut writer = EncryptWriter::new(&recipient(pair), Vec::new()).unwrap();
    writer.write_all(plain).unwrap();
    writer.finish().unwrap()
}

fn decrypt(pair: &KeyPair, ciphertext: &[u8]) -> Result<Vec<u8>, OpenPgpError> {
    let mut plain = Vec::new();
    let facts = decrypt_stream(pair, ciphertext, &mut plain)?;
    assert_eq!(facts.plaintext_sha256, Digest::of(&plain));
    assert_eq!(facts.plaintext_bytes, plain.len() as u64);
    assert_eq!(facts.ciphertext_sha256, Digest::of(ciphertext));
    assert_eq!(facts.ciphertext_bytes, ciphertext.len() as u64);
    Ok(plain)
}

#[test]
fn round_trip_with_facts_at_every_size() {
    let pair = KeyPair::generate("Backup", KeyKind::Encrypt).unwrap();
    for size in [0, 1, 511, 512, 513, 65_535, 65_536, 65_537, 300_000] {
        let plain: Vec<u8> = (0..size).map(|i: usize| (i * 7 % 251) as u8).collect();
        let (ciphertext, facts) = encrypt(&pair, &plain);
        assert_eq!(facts.plaintext_sha256, Digest::of(&plain));
        assert_eq!(facts.ciphertext_sha256, Digest::of(&ciphertext));
        assert_eq!((facts.plaintext_bytes, facts.ciphertext_bytes), (size as u64, ciphertext.len() as u64));
        assert_eq!(facts.recipient, pair.fingerprint());
        assert_eq!(decrypt(&pair, &ciphertext).unwrap(), plain, "{size} bytes");
    }
}

#[test]
fn gpg_decrypts_ours_and_we_decrypt_gpgs() {
    let Some(gpg) = Gpg::new("encryption with gpg") else { return };
    let pair = KeyPair::generate("Backup <backup@example.org>", KeyKind::Both).unwrap();
    gpg.run(&["--import"], pair.secret_armored().unwrap().as_bytes());
    let plain: Vec<u8> = (0..200_000u32).flat_map(u32::to_le_bytes).collect();
    let (ciphertext, _) = encrypt(&pair, &plain);
    let output = gpg.try_run(&["--status-fd", "2", "--decrypt"], &ciphertext);
    let status = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{status}");
    assert!(output.stdout == plain, "gpg read other bytes");
    assert!(status.contains("GOODMDC"), "{status}");
    let theirs =
        gpg.run(&["--recipient", "backup@example.org", "--compress-algo", "none", "--encrypt"], &plain);
    assert!(decrypt(&pair, &theirs).unwrap() == plain);
    let packets = gpg.run(&["--list-packets"], &ciphertext);
    let packets = String::from_utf8(packets).unwrap();
    assert!(packets.contains("mdc_method: 2") && !packets.contains("compressed"), "{packets}");

    // a gpg key as recipient
    let arguments = ["--quick-generate-key", "owner@x", "rsa2048", "cert", "0"];
    gpg.run(&arguments, b"");
    let owner = gpg.fingerprint("owner@x");
    gpg.run(&["--quick-add-key", &owner, "rsa2048", "encr", "0"], b"");
    let key = PublicKey::parse(&gpg.export("owner@x")).unwrap();
    let pinned: Fingerprint = owner.to_lowercase().parse().unwrap();
    let to = Recipient::new(&key, &pinned, jiff::Timestamp::now()).unwrap();
    let mut writer = EncryptWriter::new(&to, Vec::new()).unwrap();
    writer.write_all(b"secret").unwrap();
    let (ciphertext, _) = writer.finish().unwrap();
    assert_eq!(gpg.run(&["--decrypt"], &ciphertext), b"secret");

    // and one that has expired
    let expired = [
        "--faked-system-time",
        "20200101T120000!",
        "--quick-generate-key",
        "late@x",
        "rsa2048",
        "encr",
        "2d",
    ];
    gpg.run(&expired, b"");
    let late = PublicKey::parse(&gpg.export("late@x")).unwrap();
    let refused = Recipient::new(&late, &late.fingerprint(), jiff::Timestamp::now()).unwrap_err();
    assert!(matches!(refused, OpenPgpError::Policy { code: "expired_key", .. }), "{refused}");
}

#[test]
fn another_key_than_the_pinned_one_is_refused() {
    let (pair, other) = (
        KeyPair::generate("Backup", KeyKind::Encrypt).unwrap(),
        KeyPair::generate("Other", KeyKind::Encrypt).unwrap(),
    );
    let now = jiff::Timestamp::now();
    let refused = Recipient::new(&other.public(), &pair.fingerprint(), now).unwrap_err();
    assert!(matches!(refused, OpenPgpError::NotPinned { .. }), "{refused}");
    let signer = KeyPair::generate("Signer", KeyKind::Sign).unwrap();
    let refused = Recipient::new(&signer.public(), &signer.fingerprint(), now).unwrap_err();
    assert!(matches!(refused, OpenPgpError::Policy { code: "key_flags", .. }), "{refused}");
    let (ciphertext, _) = encrypt(&pair, b"secret");
    assert!(matches!(decrypt(&other, &ciphertext), Err(OpenPgpError::Data(_))));
}

#[test]
fn every_cut_and_every_flip_is_an_error() {
    let pair = KeyPair::generate("Backup", KeyKind::Encrypt).unwrap();
    let plain: Vec<u8> = (0..1500u32).map(|i| (i % 251) as u8).collect();
    let (ciphertext, _) = encrypt(&pair, &plain);
    for end in 0..ciphertext.len() {
        assert!(decrypt(&pair, &ciphertext[..end]).is_err(), "cut to {end} bytes was accepted");
    }
    // the session key packet: a tag, a one-byte length, the body
    let envelope = 2 + usize::from(ciphertext[1]);
    assert!(envelope < 192 && envelope < ciphertext.len() / 2);
    for at in 0..ciphertext.len() {
        for bit in [0x01, 0x80] {
            let mut flipped = ciphertext.clone();
            flipped[at] ^= bit;
            // only the first packet is outside the integrity check, and there a flip either
            // spoils the session key or means nothing; the recorded sha256 sees it anyway
            match decrypt(&pair, &flipped) {
                Err(_) => {}
                Ok(same) => assert!(at < envelope && same == plain, "flip of {bit:#x} at {at} was accepted"),
            }
        }
    }
    for behind in [&b"x"[..], b"\0", b"\n", &ciphertext] {
        assert!(decrypt(&pair, &[&ciphertext, behind].concat()).is_err(), "bytes behind were accepted");
    }
}

#[test]
fn a_dropped_writer_leaves_nothing_that_decrypts() {
    let pair = KeyPair::generate("Backup", KeyKind::Encrypt).unwrap();
    for written in [0usize, 10, 1 << 20] {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut writer = EncryptWriter::new(&recipient(&pair), file.reopen().unwrap()).unwrap();
        writer.write_all(&vec![7; written]).unwrap();
        drop(writer);
        let left = std::fs::read(file.path()).unwrap();
        assert!(decrypt(&pair, &left).is_err(), "{written} bytes written, then abandoned");
    }
}

/// A sink that fails after `room` bytes with the system's "no space left".
#[derive(Debug)]
struct Small {
    room: usize,
}

impl Write for Small {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.room == 0 {
            return Err(std::io::Error::from_raw_os_error(28));
        }
        let taken = bytes.len().min(self.room);
        self.room -= taken;
        Ok(taken)
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_full_disk_is_reported_as_such() {
    let pair = KeyPair::generate("Backup", KeyKind::Encrypt).unwrap();
    let mut writer = EncryptWriter::new(&recipient(&pair), Small { room: 100_000 }).unwrap();
    let mut outcome = Ok(());
    for _ in 0..64 {
        outcome = outcome.and_then(|()| writer.write_all(&[1; 65_536]));
    }
    match writer.finish() {
        Err(OpenPgpError::Io { source, .. }) => assert_eq!(source.raw_os_error(), Some(28)),
        other => panic!("expected no space left, observed {other:?}"),
    }
    let told = outcome.expect_err("writing went on into a full disk");
    assert_eq!(told.raw_os_error(), Some(28), "{told}");
}

fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn memory_stays_small_for_64_mb() {
    let pair = KeyPair::generate("Backup", KeyKind::Encrypt).unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    let before = resident_kib();
    let mut writer = EncryptWriter::new(&recipient(&pair), file.reopen().unwrap()).unwrap();
    let chunk = vec![42u8; 1 << 20];
    for _ in 0..64 {
        writer.write_all(&chunk).unwrap();
    }
    let (_, facts) = writer.finish().unwrap();
    assert_eq!(facts.plaintext_bytes, 64 << 20);
    assert_eq!(facts.ciphertext_bytes, std::fs::metadata(file.path()).unwrap().len());
    let restored = decrypt_stream(&pair, file.reopen().unwrap(), &mut std::io::sink()).unwrap();
    assert_eq!(restored.plaintext_sha256, facts.plaintext_sha256);
    let grown = resident_kib() - before;
    assert!(grown < 24 * 1024, "peak memory grew by {grown} KiB for 64 MiB");
}
