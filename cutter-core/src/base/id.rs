//! Identifiers: the run id, and how a UUIDv7 is put together from a clock and randomness that
//! the caller hands in (the core has neither).

use alloc::borrow::{Cow, ToOwned};
use alloc::format;
use alloc::string::String;
use core::fmt;
use core::str::FromStr;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::Offset;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use uuid::Uuid;

const PREFIX: &str = "ictr-";
const TIME_LEN: usize = "20260520T101112Z".len();
const UUID_LEN: usize = 36;

/// A UUIDv7 of a time in milliseconds since 1970 (of which 48 bits count) and ten random
/// bytes (of which 74 bits count).
#[must_use]
pub const fn mint_v7(unix_millis: u64, random: [u8; 10]) -> Uuid {
    uuid::Builder::from_unix_timestamp_millis(unix_millis, &random).into_uuid()
}

/// `ictr-<YYYYMMDDTHHMMSSZ>-<uuid7>` (spec 1 §5): sorts by time, and is safe as a path
/// component and in a shell. `cut_run_id` stores its UUID alone (D33).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunId(String);

impl RunId {
    /// Builds the id of a run created at `created`.
    ///
    /// # Errors
    /// [`ParseRunIdError`] if `uuid` is not version 7 or the year does not have four digits.
    pub fn new(created: Timestamp, uuid: Uuid) -> Result<Self, ParseRunIdError> {
        let t = Offset::UTC.to_datetime(created);
        let (year, month, day) = (t.year(), t.month(), t.day());
        let (hour, minute, second) = (t.hour(), t.minute(), t.second());
        format!("{PREFIX}{year:04}{month:02}{day:02}T{hour:02}{minute:02}{second:02}Z-{}", uuid.hyphenated())
            .parse()
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The UUID part.
    #[must_use]
    pub fn uuid(&self) -> Uuid {
        // parsed once already; nil is unreachable
        self.0.get(PREFIX.len() + TIME_LEN + 1..).and_then(|u| u.parse().ok()).unwrap_or(Uuid::nil())
    }

    /// The time of creation, to the second, in UTC.
    #[must_use]
    pub fn created(&self) -> Timestamp {
        // parsed once already; the default is unreachable
        self.0.get(PREFIX.len()..).and_then(time).unwrap_or_default()
    }
}

/// Reads `YYYYMMDDTHHMMSSZ…`, strictly digits.
fn time(text: &str) -> Option<Timestamp> {
    let text = text.get(..TIME_LEN)?;
    let field = |from: usize, to: usize| {
        let digits = text.get(from..to)?;
        digits.bytes().all(|b| b.is_ascii_digit()).then(|| digits.parse::<i16>().ok())?
    };
    let small = |from, to| field(from, to).and_then(|n| i8::try_from(n).ok());
    if text.get(8..9)? != "T" || text.get(15..)? != "Z" {
        return None;
    }
    let (year, month, day) = (field(0, 4)?, small(4, 6)?, small(6, 8)?);
    let civil = DateTime::new(year, month, day, small(9, 11)?, small(11, 13)?, small(13, 15)?, 0).ok()?;
    Offset::UTC.to_timestamp(civil).ok()
}

/// The text is no run id. Shown to whoever typed or stored it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a run id: observed {observed:?}, expected ictr-<YYYYMMDDTHHMMSSZ>-<uuid version 7, lowercase>")]
pub struct ParseRunIdError {
    /// The text as given, cut to 80 characters.
    pub observed: String,
}

impl FromStr for RunId {
    type Err = ParseRunIdError;
    fn from_str(text: &str) -> Result<Self, ParseRunIdError> {
        let valid = || {
            let rest = text.strip_prefix(PREFIX)?;
            time(rest)?;
            let id = rest.get(TIME_LEN..)?.strip_prefix('-')?;
            let uuid: Uuid = (id.len() == UUID_LEN).then(|| id.parse().ok())??;
            let canonical = !id.bytes().any(|b| b.is_ascii_uppercase());
            let version_7 = uuid.get_version_num() == 7 && uuid.get_variant() == uuid::Variant::RFC4122;
            (canonical && version_7).then_some(())
        };
        match valid() {
            Some(()) => Ok(Self(text.to_owned())),
            None => Err(ParseRunIdError { observed: text.chars().take(80).collect() }),
        }
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RunId({})", self.0)
    }
}

impl Serialize for RunId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for RunId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <Cow<'de, str>>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::string::ToString;

    const GOOD: &str = "ictr-20260520T101112Z-019e44f1-2a00-7123-8abc-0123456789ab";

    #[test]
    fn a_run_id_shows_its_time_and_uuid() {
        let created: Timestamp = "2026-05-20T10:11:12.9Z".parse().unwrap();
        let uuid = mint_v7(u64::try_from(created.as_millisecond()).unwrap(), [0xff; 10]);
        let id = RunId::new(created, uuid).unwrap();
        assert!(id.as_str().starts_with("ictr-20260520T101112Z-"), "{id}");
        assert_eq!(id.uuid(), uuid);
        assert_eq!(id.created(), "2026-05-20T10:11:12Z".parse().unwrap());
        assert_eq!(id.as_str().parse(), Ok(id.clone()));
        let json = serde_json::to_string(&id).unwrap();
        assert_eq!(serde_json::from_str::<RunId>(&json).unwrap(), id);
    }

    #[test]
    fn only_the_exact_form_is_a_run_id() {
        assert!(GOOD.parse::<RunId>().is_ok());
        let mut bad = std::vec::Vec::from([
            std::string::String::new(),
            GOOD.to_uppercase(),
            GOOD.replace("-7123-", "-4123-"),
            GOOD.replace("-8abc-", "-1abc-"),
            GOOD.replace("019e", "019E"),
            GOOD.replace("0520T", "0230T"),
            GOOD.replace("T10", "T24"),
            GOOD.replace("2026", "+026"),
            GOOD.replace("Z-", "z-"),
            GOOD.replace("ictr", "../r"),
            std::format!("{GOOD}\n"),
            std::format!(" {GOOD}"),
            std::format!("{GOOD}/x"),
            GOOD.replace("019e44f1-2a00-7123-8abc-0123456789ab", "019e44f12a0071238abc0123456789ab"),
        ]);
        bad.push(GOOD.replace("20260520", "2026052é"));
        for text in bad {
            assert!(text.parse::<RunId>().is_err(), "{text:?}");
        }
        assert!(RunId::new(Timestamp::UNIX_EPOCH, Uuid::nil()).is_err());
        assert!(RunId::new(Timestamp::MIN, mint_v7(0, [0; 10])).is_err());
    }

    proptest! {
        #[test]
        fn ids_sort_by_second(a in 0..253_402_300_799_i64, b in 0..253_402_300_799_i64, random: [u8; 10]) {
            let id = |second: i64| {
                let uuid = mint_v7(u64::try_from(second * 1000).unwrap(), random);
                RunId::new(Timestamp::from_second(second).unwrap(), uuid).unwrap()
            };
            prop_assert_eq!(id(a).cmp(&id(b)), a.cmp(&b));
            prop_assert_eq!(id(a).created().as_second(), a);
        }

        #[test]
        fn minted_uuids_are_version_7(millis in 0..1_u64 << 48, random: [u8; 10]) {
            let uuid = mint_v7(millis, random);
            prop_assert_eq!(uuid.get_version_num(), 7);
            prop_assert_eq!(uuid.as_u128() >> 80, u128::from(millis));
        }

        #[test]
        fn parsing_never_panics(text in "\\PC{0,70}") {
            if let Ok(id) = text.parse::<RunId>() {
                prop_assert_eq!(id.to_string(), text);
            }
        }
    }
}
