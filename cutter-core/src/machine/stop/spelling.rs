//! Stops as text: their codes, with what belongs to them behind a colon, read and written.

use alloc::borrow::Cow;
use alloc::string::ToString;
use core::fmt;
use core::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{Code, StopReason};
use crate::machine::UnknownName;

impl fmt::Display for StopReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.code())?;
        match self {
            Self::Sovereign(reason) => write!(f, ":{reason}"),
            Self::AndEscalate(cap) => write!(f, ":{cap}"),
            Self::GateFailed(gate) => write!(f, ":{gate}"),
            _ => Ok(()),
        }
    }
}

impl FromStr for StopReason {
    type Err = UnknownName;
    fn from_str(text: &str) -> Result<Self, UnknownName> {
        if let Some(dimension) = text.strip_prefix("STOP_DRIFT_") {
            return dimension.parse().map(Self::Drift);
        }
        if let Some((code, data)) = text.split_once(':') {
            return match code.parse()? {
                Code::Sovereign => Self::sovereign(data.parse()?),
                Code::AndEscalate => data.parse().map(Self::AndEscalate),
                Code::GateFailed => data.parse().map(Self::GateFailed),
                _ => Err(UnknownName::new("stop", text, "nothing after this code")),
            };
        }
        let known = Self::examples().into_iter().find(|reason| reason.to_string() == text);
        known.ok_or_else(|| UnknownName::new("stop", text, "a STOP_ code, with its detail after a colon"))
    }
}

impl Serialize for StopReason {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for StopReason {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <Cow<'de, str>>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}
