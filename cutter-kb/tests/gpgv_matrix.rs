//! Our verdict on clear-signed documents beside that of `gpgv`, case by case.
//!
//! The law: what we accept, gpgv accepts. Where gpgv accepts and we refuse, the case says
//! so (`Stricter`) with our code; nothing is stricter by accident.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use cutter_kb::openpgp::{KeyKind, KeyPair, PublicKey, SignatureFacts, Verdict, signers, verify_clearsigned};
use support::Gpg;

const TEXT: &[u8] = b"# Approval\n\nrun: 42\n- a list item\n-- a rule\nFrom here on\n\nlast line\n";
const OLD: &str = "20200101T120000!";

enum Expect {
    /// Both accept.
    Good,
    /// Both refuse; our code.
    Bad(&'static str),
    /// gpgv accepts, we refuse; our code.
    Stricter(&'static str),
}
use Expect::{Bad, Good, Stricter};

struct Matrix<'a> {
    gpg: &'a Gpg,
    failures: Vec<String>,
    cases: usize,
}

impl Matrix<'_> {
    fn case(&mut self, name: &str, document: &[u8], keys: &[&[u8]], expect: Expect) -> SignatureFacts {
        self.cases += 1;
        let parsed: Vec<PublicKey> = keys.iter().map(|key| PublicKey::parse(key).unwrap()).collect();
        let facts = verify_clearsigned(document, &parsed, jiff::Timestamp::now());
        let (accepted, said) = self.gpg.gpgv(keys, document);
        let code = match &facts.verdict {
            Verdict::Good { .. } => None,
            Verdict::Bad { code, .. } => Some(*code),
        };
        let (wanted, gpgv_wanted) = match expect {
            Good => (None, true),
            Bad(code) => (Some(code), false),
            Stricter(code) => (Some(code), true),
        };
        if code != wanted || accepted != gpgv_wanted {
            self.failures.push(format!(
                "{name}: expected {wanted:?} and gpgv {gpgv_wanted}, observed {:?} and gpgv {accepted}\n{said}",
                facts.verdict
            ));
        }
        assert_eq!(facts.covered_text.is_some(), code.is_none(), "{name}: text exactly when good");
        facts
    }

    fn finish(self) {
        assert!(self.failures.is_empty(), "{}", self.failures.join("\n"));
        assert!(self.cases > 0, "no case was compared");
    }
}

fn generate(gpg: &Gpg, user: &str, algorithm: &str, usage: &str, expire: &str, extra: &[&str]) {
    let mut arguments = extra.to_vec();
    arguments.extend(["--quick-generate-key", user, algorithm, usage, expire]);
    gpg.run(&arguments, b"");
}

fn clearsign(gpg: &Gpg, user: &str, text: &[u8], extra: &[&str]) -> Vec<u8> {
    let mut arguments = vec!["--local-user", user];
    arguments.extend(extra);
    arguments.push("--clearsign");
    gpg.run(&arguments, text)
}

fn replaced(document: &[u8], from: &str, to: &str) -> Vec<u8> {
    let text = String::from_utf8(document.to_vec()).unwrap();
    assert!(text.contains(from), "{from:?} is not in the document");
    text.replacen(from, to, 1).into_bytes()
}

#[test]
fn documents_made_and_spoiled() {
    let Some(gpg) = Gpg::new("gpgv_matrix documents") else { return };
    generate(&gpg, "good@x", "ed25519", "sign", "0", &[]);
    generate(&gpg, "other@x", "ed25519", "sign", "0", &[]);
    generate(&gpg, "rsa@x", "rsa2048", "sign", "0", &[]);
    let (good, other, rsa) =
        (&gpg.export("good@x")[..], &gpg.export("other@x")[..], &gpg.export("rsa@x")[..]);
    let document = clearsign(&gpg, "good@x", TEXT, &[]);
    let mut m = Matrix { gpg: &gpg, failures: Vec::new(), cases: 0 };

    let facts = m.case("plain", &document, &[good], Good);
    let expected = std::str::from_utf8(TEXT).unwrap().trim_end_matches('\n');
    assert_eq!(facts.covered_text.as_deref(), Some(expected));
    let Verdict::Good { primary_fingerprint, signing_fingerprint, .. } = facts.verdict else { panic!() };
    assert_eq!(primary_fingerprint.as_str(), gpg.fingerprint("good@x"));
    assert_eq!(primary_fingerprint, signing_fingerprint);

    m.case("second key of the ring", &document, &[other, good], Good);
    m.case("unknown key", &document, &[other], Bad("unknown_key"));
    m.case("rsa 2048", &clearsign(&gpg, "rsa@x", TEXT, &[]), &[rsa], Good);
    m.case("sha512", &clearsign(&gpg, "rsa@x", TEXT, &["--digest-algo", "SHA512"]), &[rsa], Good);
    for (weak, code) in [("SHA1", "sha1"), ("RIPEMD160", "weak_hash"), ("SHA224", "weak_hash")] {
        let weakly = clearsign(&gpg, "rsa@x", TEXT, &["--digest-algo", weak]);
        m.case(weak, &weakly, &[rsa], Stricter(code));
    }

    let crlf = String::from_utf8(document.clone()).unwrap().replace('\n', "\r\n").into_bytes();
    m.case("whole document in CRLF", &crlf, &[good], Good);
    let crlf_text = clearsign(&gpg, "good@x", b"one\r\ntwo\r\n", &[]);
    let facts = m.case("CRLF text", &crlf_text, &[good], Good);
    assert_eq!(facts.covered_text.as_deref(), Some("one\ntwo"));
    let trailing = clearsign(&gpg, "good@x", b"one  \t\ntwo \n", &[]);
    let facts = m.case("trailing blanks", &trailing, &[good], Good);
    assert_eq!(facts.covered_text.as_deref(), Some("one\ntwo"));
    m.case("blanks added at a line's end", &replaced(&document, "run: 42\n", "run: 42 \t \n"), &[good], Good);
    m.case("no final line ending", &clearsign(&gpg, "good@x", b"one", &[]), &[good], Good);
    m.case("empty text", &clearsign(&gpg, "good@x", b"", &[]), &[good], Good);
    m.case("blank lines at the end", &clearsign(&gpg, "good@x", b"one\n\n\n", &[]), &[good], Good);
    m.case("UTF-8", &clearsign(&gpg, "good@x", "Điều 44.\n".as_bytes(), &[]), &[good], Good);
    m.case("comment header", &clearsign(&gpg, "good@x", TEXT, &["--comment", "by hand"]), &[good], Good);
    m.case("version header", &clearsign(&gpg, "good@x", TEXT, &["--emit-version"]), &[good], Good);
    m.case("empty lines around", &[b"\n\n", &document[..], b"\n\r\n"].concat(), &[good], Good);

    m.case("text changed", &replaced(&document, "run: 42", "run: 43"), &[good], Bad("bad_signature"));
    m.case("line added", &replaced(&document, "run: 42\n", "run: 42\nx\n"), &[good], Bad("bad_signature"));
    m.case(
        "line ending added",
        &replaced(&document, "last line\n", "last line\n\n"),
        &[good],
        Bad("bad_signature"),
    );
    m.case(
        "blanks before a line",
        &replaced(&document, "run: 42", " run: 42"),
        &[good],
        Bad("bad_signature"),
    );
    let elsewhere = clearsign(&gpg, "good@x", b"another text\n", &[]);
    let swapped = swap_signature(&document, &elsewhere);
    m.case("signature of another text", &swapped, &[good], Bad("bad_signature"));
    // every character of the armored signature, changed one at a time
    let key = [PublicKey::parse(good).unwrap()];
    let body = String::from_utf8(document.clone()).unwrap().find("SIGNATURE-----\n\n").unwrap() + 16;
    let mut flips = 0;
    for at in body..document.len() - "\n-----END PGP SIGNATURE-----\n".len() {
        let mut flipped = document.clone();
        flipped[at] = if flipped[at] == b'A' { b'B' } else { b'A' };
        let facts = verify_clearsigned(&flipped, &key, jiff::Timestamp::now());
        assert!(matches!(facts.verdict, Verdict::Bad { .. }), "changed at {at}: {:?}", facts.verdict);
        flips += 1;
    }
    assert!(flips > 100, "{flips}");
    let mut flipped = document.clone();
    flipped[body + 100] = if flipped[body + 100] == b'A' { b'B' } else { b'A' };
    m.case("signature changed", &flipped, &[good], Bad("malformed"));

    m.case(
        "text before",
        &[b"please read:\n", &document[..]].concat(),
        &[good],
        Stricter("text_outside_block"),
    );
    m.case(
        "text behind",
        &[&document[..], b"and also this\n"].concat(),
        &[good],
        Stricter("text_outside_block"),
    );
    m.case("blanks behind", &[&document[..], b"  \n"].concat(), &[good], Stricter("text_outside_block"));
    m.case("two blocks", &document.repeat(2), &[good], Bad("more_than_one_block"));
    let latin = clearsign(&gpg, "good@x", b"caf\xe9\n", &[]);
    m.case("Latin-1", &latin, &[good], Stricter("not_utf8"));
    let bare = clearsign(&gpg, "good@x", b"one\rtwo\n", &[]);
    m.case("CR inside a line", &bare, &[good], Stricter("bare_carriage_return"));
    m.case("foreign header", &replaced(&document, "Hash: ", "Comment: x\nHash: "), &[good], Bad("header"));
    m.case("blank header line", &replaced(&document, "\n\n# App", "\n \n# App"), &[good], Stricter("header"));
    let two = gpg.run(&["-u", "good@x", "-u", "other@x", "--clearsign"], TEXT);
    m.case("two signatures", &two, &[good, other], Stricter("signature_count"));
    m.case("unescaped dash", &replaced(&document, "- - a list", "- a list"), &[good], Bad("bad_signature"));
    let raw_dashes = clearsign(&gpg, "good@x", TEXT, &["--not-dash-escaped"]);
    m.case("NotDashEscaped", &raw_dashes, &[good], Stricter("header"));
    m.case("no hash header", &without_hash(&document), &[good], Bad("hash_header"));
    m.case("cut off", &document[..document.len() - 60], &[good], Bad("malformed"));
    m.case("not signed", TEXT, &[good], Bad("not_clearsigned"));
    m.case("empty", b"", &[good], Bad("not_clearsigned"));
    let binary = gpg.run(&["-u", "good@x", "--sign", "--armor"], TEXT);
    m.case("an armored signed message", &binary, &[good], Stricter("not_clearsigned"));

    m.case(
        "future",
        &clearsign(&gpg, "good@x", TEXT, &["--faked-system-time", "20990101T000000!"]),
        &[good],
        Stricter("signature_in_future"),
    );
    m.finish();
}

fn swap_signature(text_of: &[u8], signature_of: &[u8]) -> Vec<u8> {
    let marker = "-----BEGIN PGP SIGNATURE-----";
    let (text, signature) =
        (std::str::from_utf8(text_of).unwrap(), std::str::from_utf8(signature_of).unwrap());
    let at = |t: &str| t.find(marker).unwrap();
    format!("{}{}", &text[..at(text)], &signature[at(signature)..]).into_bytes()
}

fn without_hash(document: &[u8]) -> Vec<u8> {
    let text = String::from_utf8(document.to_vec()).unwrap();
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with("Hash:")).collect();
    (lines.join("\n") + "\n").into_bytes()
}

#[test]
fn keys_good_and_bad() {
    let Some(gpg) = Gpg::new("gpgv_matrix keys") else { return };
    let mut m = Matrix { gpg: &gpg, failures: Vec::new(), cases: 0 };

    generate(&gpg, "sub@x", "ed25519", "cert", "0", &[]);
    let sub = gpg.fingerprint("sub@x");
    gpg.run(&["--quick-add-key", &sub, "ed25519", "sign", "0"], b"");
    let by_subkey = clearsign(&gpg, "sub@x", TEXT, &[]);
    let facts = m.case("signing subkey", &by_subkey, &[&gpg.export("sub@x")], Good);
    let Verdict::Good { primary_fingerprint, signing_fingerprint, .. } = facts.verdict else { panic!() };
    assert_eq!(primary_fingerprint.as_str(), sub);
    assert_ne!(primary_fingerprint, signing_fingerprint);
    edit(&gpg, "sub@x", "key 1\nrevkey\ny\n0\n\ny\nsave\n");
    m.case("revoked subkey", &by_subkey, &[&gpg.export("sub@x")], Stricter("revoked_key"));

    let past = ["--faked-system-time", OLD];
    generate(&gpg, "expired@x", "ed25519", "sign", "2d", &past);
    let signed = clearsign(&gpg, "expired@x", TEXT, &past);
    m.case("key expired since", &signed, &[&gpg.export("expired@x")], Stricter("expired_key"));
    let expired = gpg.fingerprint("expired@x");
    gpg.run(&["--quick-set-expire", &expired, "0"], b"");
    m.case("key's life extended", &signed, &[&gpg.export("expired@x")], Good);

    generate(&gpg, "oldsub@x", "ed25519", "cert", "0", &past);
    let oldsub = gpg.fingerprint("oldsub@x");
    gpg.run(&["--faked-system-time", OLD, "--quick-add-key", &oldsub, "ed25519", "sign", "2d"], b"");
    let signed = clearsign(&gpg, "oldsub@x", TEXT, &past);
    m.case("subkey expired since", &signed, &[&gpg.export("oldsub@x")], Stricter("expired_key"));

    generate(&gpg, "revoked@x", "ed25519", "sign", "0", &[]);
    let signed = clearsign(&gpg, "revoked@x", TEXT, &[]);
    let before = gpg.export("revoked@x");
    m.case("not revoked yet", &signed, &[&before], Good);
    revoke(&gpg, "revoked@x");
    let after = gpg.export("revoked@x");
    m.case("revoked", &signed, &[&after], Stricter("revoked_key"));
    let both = [before, after].map(|key| PublicKey::parse(&key).unwrap());
    for order in [[0, 1], [1, 0]] {
        let keys = order.map(|i: usize| both[i].clone());
        let facts = verify_clearsigned(&signed, &keys, jiff::Timestamp::now());
        assert!(matches!(facts.verdict, Verdict::Bad { code: "revoked_key", .. }), "{:?}", facts.verdict);
    }

    generate(&gpg, "sigexp@x", "ed25519", "sign", "0", &past);
    let signed = clearsign(&gpg, "sigexp@x", TEXT, &[past[0], past[1], "--default-sig-expire", "1d"]);
    m.case("signature expired", &signed, &[&gpg.export("sigexp@x")], Bad("signature_expired"));
    let lasting = clearsign(&gpg, "sigexp@x", TEXT, &["--default-sig-expire", "1d"]);
    m.case("signature not expired yet", &lasting, &[&gpg.export("sigexp@x")], Good);

    generate(&gpg, "young@x", "ed25519", "sign", "0", &[]);
    let mut backdated = vec!["--faked-system-time", OLD, "--ignore-time-conflict", "--ignore-valid-from"];
    backdated.extend(["--local-user", "young@x", "--clearsign"]);
    let output = gpg.try_run(&backdated, TEXT);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    m.case(
        "signed before the key was made",
        &output.stdout,
        &[&gpg.export("young@x")],
        Bad("signature_before_key"),
    );

    generate(&gpg, "weak@x", "rsa2048", "sign", "0", &["--cert-digest-algo", "SHA1"]);
    let signed = clearsign(&gpg, "weak@x", TEXT, &[]);
    m.case("self-signature with SHA-1", &signed, &[&gpg.export("weak@x")], Stricter("self_signature_weak"));
    generate(&gpg, "short@x", "rsa1024", "sign", "0", &[]);
    let signed = clearsign(&gpg, "short@x", TEXT, &[]);
    m.case("rsa 1024", &signed, &[&gpg.export("short@x")], Stricter("key_algorithm"));
    generate(&gpg, "nist@x", "nistp256", "sign", "0", &[]);
    m.case("nist p-256", &clearsign(&gpg, "nist@x", TEXT, &[]), &[&gpg.export("nist@x")], Good);
    m.finish();
}

fn edit(gpg: &Gpg, user: &str, commands: &str) {
    gpg.run(&["--no-tty", "--command-fd", "0", "--status-fd", "2", "--edit-key", user], commands.as_bytes());
}

fn revoke(gpg: &Gpg, user: &str) {
    let file = gpg.path().join("openpgp-revocs.d").join(format!("{}.rev", gpg.fingerprint(user)));
    let text = std::fs::read_to_string(file).unwrap().replace("\n:-----BEGIN", "\n-----BEGIN");
    gpg.run(&["--import"], text.as_bytes());
}

#[test]
fn gpg_accepts_what_we_sign() {
    let Some(gpg) = Gpg::new("gpgv_matrix our signatures") else { return };
    let pair = KeyPair::generate("Sovereign <sovereign@example.org>", KeyKind::Both).unwrap();
    let public = pair.public().armored().unwrap();
    gpg.run(&["--import"], public.as_bytes());
    let fingerprint = gpg.fingerprint("sovereign@example.org");
    assert_eq!(fingerprint, pair.fingerprint().to_string());
    let key = gpg.export("sovereign@example.org");
    let mut m = Matrix { gpg: &gpg, failures: Vec::new(), cases: 0 };
    for (name, text) in [
        ("plain", "run: 42\n"),
        ("dashes", "- a\n-----BEGIN PGP SIGNATURE-----\n- - b\n-\n"),
        ("trailing blanks", "a \t\nb  \n   \n"),
        ("CRLF", "a\r\nb\r\n"),
        ("empty", ""),
        ("one line ending", "\n"),
        ("no final line ending", "a\n\nb"),
        ("UTF-8", "Điều 44.\n§ 5a\u{a0}\n"),
    ] {
        let document = pair.clearsign(text, jiff::Timestamp::now()).unwrap();
        let facts = m.case(name, document.as_bytes(), &[&key], Good);
        let Verdict::Good { primary_fingerprint, hash, .. } = &facts.verdict else {
            panic!("{name}: {:?}", facts.verdict)
        };
        assert_eq!((primary_fingerprint, *hash), (&pair.fingerprint(), "SHA512"));
        let expected: Vec<&str> = text.lines().map(|l| l.trim_end_matches([' ', '\t'])).collect();
        assert_eq!(facts.covered_text.unwrap(), expected.join("\n"), "{name}");
    }
    assert!(pair.clearsign("a\rb", jiff::Timestamp::now()).is_err(), "a CR alone is refused");
    m.finish();

    // gpg signs with our secret key, and we verify it
    gpg.run(&["--import"], pair.secret_armored().unwrap().as_bytes());
    let document = clearsign(&gpg, "sovereign@example.org", TEXT, &[]);
    let facts = verify_clearsigned(&document, &[pair.public()], jiff::Timestamp::now());
    assert!(matches!(facts.verdict, Verdict::Good { .. }), "{:?}", facts.verdict);
    // and a key that may only receive does not sign
    let receiver = KeyPair::generate("Backup", KeyKind::Encrypt).unwrap();
    assert!(receiver.clearsign("x", jiff::Timestamp::now()).is_err());
    let reread = KeyPair::parse(pair.secret_armored().unwrap().as_bytes()).unwrap();
    assert_eq!(reread.fingerprint(), pair.fingerprint());
    assert!(!format!("{pair:?}").contains("PRIVATE"));
}

/// Whatever gpg calls a good signature has a signer, also where we accept none of it; a changed text has none.
#[test]
fn whatever_gpg_calls_good_has_a_signer() {
    let Some(gpg) = Gpg::new("signers") else { return };
    generate(&gpg, "Ada <ada@example.org>", "ed25519", "sign", "never", &[]);
    generate(&gpg, "Bob <bob@example.org>", "ed25519", "sign", "never", &[]);
    let keys: Vec<PublicKey> =
        ["ada", "bob"].map(|user| PublicKey::parse(&gpg.export(user)).unwrap()).into_iter().collect();
    let ada = gpg.fingerprint("ada");
    let long = [TEXT, &b"a line of some length\n".repeat(140_000)[..]].concat();
    let texts: [(&str, &[u8], &[&str]); 10] = [
        ("plain", TEXT, &[]),
        ("Latin-1", b"nonce: 42\nreason: d\xe9j\xe0 vu\n", &[]),
        ("a zero byte", b"nonce: 42\nreason: a\0b\n", &[]),
        ("a bare CR", b"nonce: 42\nreason: a\rb\n", &[]),
        ("old line ends", b"nonce: 42\rreason: no\r", &[]),
        ("blanks at ends", b"nonce: 42 \t\nreason: no  \n", &[]),
        ("dashes", b"nonce: 42\n- no\n-- no\nFrom me\n", &[]),
        ("a critical notation", b"nonce: 42\n", &["--set-notation", "!x@example.org=1"]),
        ("an end of its own", b"nonce: 42\n", &["--default-sig-expire", "1"]),
        ("long", &long, &[]),
    ];
    let mut unsigned = Vec::new();
    for (what, text, options) in texts {
        let document = clearsign(&gpg, "ada", text, options);
        for (how, stored) in [
            ("as it is", document.clone()),
            ("with CRLF", document.split(|b| *b == b'\n').collect::<Vec<_>>().join(&b"\r\n"[..])),
            ("a blank at every end", document.split(|b| *b == b'\n').collect::<Vec<_>>().join(&b" \n"[..])),
        ] {
            let found = signers(&stored, &keys);
            let is_hers = found.len() == 1 && found[0].primary_fingerprint.to_string() == ada;
            if !is_hers || !found[0].text.contains("42") {
                unsigned.push(format!("{what}, {how}: {} signers", found.len()));
            }
        }
        let at = document.windows(2).position(|pair| pair == b"42").unwrap();
        let mut changed = document;
        changed[at] = b'5';
        assert!(signers(&changed, &keys).is_empty(), "{what}: changed");
    }
    assert!(unsigned.is_empty(), "{unsigned:#?}");
    let whole = String::from_utf8(clearsign(&gpg, "ada", b"nonce: 42\nreason: no\n", &[])).unwrap();
    let (text, armor) = whole.split_once("-----BEGIN PGP SIGNATURE-----").unwrap();
    let end = "-----END PGP SIGNATURE-----\n";
    let body = armor.strip_suffix(end).unwrap();
    let without_checksum: String =
        body.lines().filter(|line| !line.starts_with('=')).map(|line| format!("{line}\n")).collect();
    for (what, armor) in [
        ("no end", body.to_owned()),
        ("its last bytes gone", armor[..armor.len() - 4].to_owned()),
        ("a dash gone", armor.replace("-----END", "----END")),
        ("joined to the line before", body.trim_end().to_owned() + end),
        ("quoted for mail", armor.replace('=', "=3D")),
        ("in lower case", body.to_owned() + &end.to_lowercase()),
        ("another label", body.to_owned() + "-----END OF IT-----\n"),
        ("a line before the end", format!("{body}sent from my phone\n{end}")),
        ("no checksum", without_checksum.clone() + end),
        ("no checksum and no end", without_checksum),
        ("a wrong checksum", body.replace("\n=", "\n=A") + end),
    ] {
        let stored = format!("{text}-----BEGIN PGP SIGNATURE-----{armor}");
        let found = signers(stored.as_bytes(), &keys);
        assert!(found.len() == 1 && found[0].text.contains("reason: no"), "{what}: {found:?}\n{stored}");
        let changed = stored.replace("42", "52");
        assert!(signers(changed.as_bytes(), &keys).is_empty(), "{what}: changed");
    }
    let both = gpg.run(&["--local-user", "ada", "--local-user", "bob", "--clearsign"], TEXT);
    assert_eq!(signers(&both, &keys).len(), 2, "signed by two");
    assert!(signers(&both, &keys[..1]).len() == 1 && signers(TEXT, &keys).is_empty());
}
