//! The logins that `cutter` uses, and their passwords.
//!
//! One login per duty (separation of duties lives in the database, not in a promise of the
//! program), one for the administrator who owns the server, one for the web front end.
//! Passwords are 32 random bytes in hexadecimal; nothing here prints one.

use std::collections::BTreeMap;
use std::fmt;

use secrecy::{ExposeSecret, SecretString};

/// A database login, one per duty.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Login {
    /// Owns the private server, runs migrations. Never used by a run.
    Admin,
    /// Cuts and enacts.
    Exec,
    /// Verifies what was cut; another principal than the executor.
    Verify,
    /// Inserts approvals and nothing else.
    Review,
    /// Reads.
    Ro,
    /// The front end that files cut requests.
    Directus,
}

impl Login {
    /// Every login, the administrator first.
    pub const ALL: [Self; 6] =
        [Self::Admin, Self::Exec, Self::Verify, Self::Review, Self::Ro, Self::Directus];

    /// The logins without the administrator: the ones that a deployment creates on a
    /// server it was given.
    pub const RUN_ROLES: [Self; 5] = [Self::Exec, Self::Verify, Self::Review, Self::Ro, Self::Directus];

    /// The role's name in PostgreSQL.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Admin => "cutter_admin",
            Self::Exec => "cutter_exec",
            Self::Verify => "cutter_verify",
            Self::Review => "cutter_review",
            Self::Ro => "cutter_ro",
            Self::Directus => "directus",
        }
    }

    /// The login with this role name.
    #[must_use]
    pub fn from_role(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|login| login.as_str() == name)
    }
}

impl fmt::Display for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Passwords by login. `Debug` shows the logins only.
#[derive(Clone, Default)]
pub struct LoginPasswords(BTreeMap<Login, SecretString>);

impl LoginPasswords {
    /// No passwords yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A random password of 32 bytes for every login.
    ///
    /// # Errors
    /// The operating system has no randomness to give.
    pub fn generate() -> Result<Self, getrandom::Error> {
        let mut passwords = Self::new();
        for login in Login::ALL {
            passwords.set(login, random_password()?);
        }
        Ok(passwords)
    }

    /// Sets one password.
    pub fn set(&mut self, login: Login, password: SecretString) {
        self.0.insert(login, password);
    }

    /// One password, if there is one.
    #[must_use]
    pub fn get(&self, login: Login) -> Option<&SecretString> {
        self.0.get(&login)
    }

    /// Adds a random password for each login that has none; says whether it added any.
    ///
    /// # Errors
    /// The operating system has no randomness to give.
    pub fn complete(&mut self) -> Result<bool, getrandom::Error> {
        let mut added = false;
        for login in Login::ALL {
            if !self.0.contains_key(&login) {
                self.set(login, random_password()?);
                added = true;
            }
        }
        Ok(added)
    }

    /// The file form: `{"format": 1, "logins": {role: password}}`.
    pub(crate) fn to_json(&self) -> Vec<u8> {
        let logins: serde_json::Map<String, serde_json::Value> = self
            .0
            .iter()
            .map(|(login, secret)| (login.as_str().to_owned(), secret.expose_secret().into()))
            .collect();
        let mut bytes = serde_json::json!({ "format": 1, "logins": logins }).to_string().into_bytes();
        bytes.push(b'\n');
        bytes
    }

    /// Reads the file form; `None` if it is not one. Unknown logins are left out.
    pub(crate) fn from_json(bytes: &[u8]) -> Option<Self> {
        let value: serde_json::Value = serde_json::from_slice(bytes).ok()?;
        if value.get("format")?.as_u64()? != 1 {
            return None;
        }
        let mut passwords = Self::new();
        for (role, password) in value.get("logins")?.as_object()? {
            if let Some(login) = Login::from_role(role) {
                let password = password.as_str()?;
                if password.is_empty() {
                    return None;
                }
                passwords.set(login, SecretString::from(password));
            }
        }
        Some(passwords)
    }
}

impl fmt::Debug for LoginPasswords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// 32 random bytes in lowercase hexadecimal.
fn random_password() -> Result<SecretString, getrandom::Error> {
    random_hex::<32>().map(SecretString::from)
}

/// `N` random bytes in lowercase hexadecimal.
pub(crate) fn random_hex<const N: usize>() -> Result<String, getrandom::Error> {
    use fmt::Write as _;
    let mut bytes = [0_u8; N];
    getrandom::fill(&mut bytes)?;
    let mut text = String::with_capacity(2 * N);
    for byte in bytes {
        // Writing to a String does not fail.
        let _ = write!(text, "{byte:02x}");
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_long_distinct_and_never_shown() {
        let passwords = LoginPasswords::generate().unwrap();
        let texts: std::collections::BTreeSet<&str> =
            Login::ALL.iter().map(|login| passwords.get(*login).unwrap().expose_secret()).collect();
        assert_eq!(texts.len(), Login::ALL.len());
        assert!(texts.iter().all(|text| text.len() == 64));
        let shown = format!("{passwords:?}");
        assert!(texts.iter().all(|text| !shown.contains(text)), "{shown}");
    }

    #[test]
    fn the_file_form_reads_back_and_refuses_others() {
        let passwords = LoginPasswords::generate().unwrap();
        let back = LoginPasswords::from_json(&passwords.to_json()).unwrap();
        for login in Login::ALL {
            assert_eq!(
                back.get(login).unwrap().expose_secret(),
                passwords.get(login).unwrap().expose_secret()
            );
        }
        for wrong in ["", "{}", r#"{"format":2,"logins":{}}"#, r#"{"format":1,"logins":{"cutter_ro":""}}"#] {
            assert!(LoginPasswords::from_json(wrong.as_bytes()).is_none(), "{wrong}");
        }
    }

    #[test]
    fn completing_adds_only_what_is_missing() {
        let mut passwords = LoginPasswords::new();
        passwords.set(Login::Ro, SecretString::from("kept"));
        assert!(passwords.complete().unwrap());
        assert_eq!(passwords.get(Login::Ro).unwrap().expose_secret(), "kept");
        assert!(!passwords.complete().unwrap());
    }
}
