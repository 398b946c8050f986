//! Which profile cuts: a built-in one, a file of one's own, or the one that is detected.

use std::fmt::Display;
use std::path::Path;
use std::str::FromStr;

use cutter_core::text::detect::{Confidence, Cost, Detected, Detection, Profiles};
use cutter_core::text::mark::MarkLimits;
use cutter_core::text::profile::{Profile, ProfileError};
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::files::read_small;
use crate::render;

/// The word that asks for detection.
pub(crate) const AUTO: &str = "auto";

/// How deep to cut.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Depth {
    /// So many levels.
    Levels(u32),
    /// Down to a kind: `article`, `khoản`.
    Kind(String),
}

impl FromStr for Depth {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = "expected a number of levels from 1, or a kind such as article, clause, point";
        match text.trim() {
            "" => Err(expected.to_owned()),
            word if word.starts_with(|c: char| c.is_ascii_digit() || c == '-' || c == '+') => {
                word.parse().ok().filter(|n| *n > 0).map(Self::Levels).ok_or_else(|| expected.to_owned())
            }
            word => Ok(Self::Kind(word.to_owned())),
        }
    }
}

/// A profile to cut with.
#[derive(Debug, Clone)]
pub(crate) struct Chosen {
    pub(crate) profile: Profile,
    /// What was detected; nothing where the operator named the profile.
    pub(crate) detected: Option<(Detected, Detection)>,
}

impl Chosen {
    /// How it was detected, as a run keeps it.
    pub(crate) fn detection(&self) -> Option<&Detection> {
        self.detected.as_ref().map(|(_, detection)| detection)
    }

    /// The warning that low confidence is.
    pub(crate) fn warning(&self) -> Option<String> {
        self.detection()?.warning(&self.profile.name)
    }

    /// For `--json`: null where the operator named the profile.
    pub(crate) fn machine(&self) -> Value {
        self.detected.as_ref().map_or(Value::Null, |(detected, detection)| {
            json!({
                "confidence": detection.confidence,
                "evidence": detection.evidence,
                "ranking": detected.ranking,
                "cost": detection.cost,
                "runner_up": detection.runner_up.as_ref().map(|o| json!({ "name": o.name, "cost": o.cost })),
            })
        })
    }

    /// For people: what was chosen, why, and what the runner-up would cost.
    pub(crate) fn people(&self) -> String {
        let profile = format!("{} {}", self.profile.name, self.profile.version);
        let Some(detection) = self.detection() else {
            return render::fields(&[("profile", format!("{profile}, chosen by you"))]);
        };
        let sure = match detection.confidence {
            Confidence::High => "high",
            Confidence::Low => "LOW",
        };
        let mut rows = vec![("profile", format!("{profile}, detected, confidence {sure}"))];
        rows.extend(
            detection
                .evidence
                .iter()
                .enumerate()
                .map(|(i, e)| (if i == 0 { "evidence" } else { "" }, e.clone())),
        );
        let mut text = render::fields(&rows);
        if let Some(other) = &detection.runner_up {
            text.push('\n');
            text.push_str(&costs(&[
                (&self.profile.name, detection.cost.as_ref()),
                (&format!("{}, the runner-up", other.name), other.cost.as_ref()),
            ]));
        }
        text
    }
}

/// Costs side by side.
pub(crate) fn costs(rows: &[(&str, Option<&Cost>)]) -> String {
    let row = |(name, cost): &(&str, Option<&Cost>)| {
        let numbers = cost.map(|c| {
            [c.units, c.duplicates, c.empty, c.largest, usize::try_from(c.gaps).unwrap_or(usize::MAX)]
        });
        let mut cells = vec![(*name).to_owned()];
        match numbers {
            Some(numbers) => cells.extend(numbers.map(|n| n.to_string())),
            None => cells.push("cannot cut this text".to_owned()),
        }
        cells
    };
    render::table(
        &["profile", "units", "duplicates", "empty", "largest", "gaps"],
        rows.iter().map(row).collect(),
    )
}

/// The profile for a text: the one named, or the one detected. What a cut would cost is counted
/// within `limits`.
pub(crate) fn choose(
    named: &str,
    depth: Option<&Depth>,
    text: &[u8],
    limits: &MarkLimits,
) -> Result<Chosen, Failure> {
    if named != AUTO {
        let mut profile = load(named)?;
        if let Some(depth) = depth {
            deepen(&mut profile, depth)?;
        }
        return Ok(Chosen { profile, detected: None });
    }
    let profiles = built_in()?;
    let detected = profiles.detect(text);
    let get = |name: &str| profiles.get(name).cloned();
    let mut profile = get(&detected.profile)
        .ok_or_else(|| Failure::internal(format!("no profile {}", detected.profile)))?;
    let mut runner_up = detected.runner_up().and_then(get);
    if let Some(depth) = depth {
        deepen(&mut profile, depth)?;
        // The runner-up may have no such kind: then it is weighed as it cuts by itself.
        if let Some(other) = &mut runner_up {
            let _ = deepen(other, depth);
        }
    }
    let detection = Detection::weigh(&detected, &profile, runner_up.as_ref(), text, limits);
    Ok(Chosen { profile, detected: Some((detected, detection)) })
}

/// The built-in profiles.
pub(crate) fn built_in() -> Result<Profiles, Failure> {
    Profiles::built_in().map_err(|e| Failure::internal(e.to_string()))
}

fn deepen(profile: &mut Profile, depth: &Depth) -> Result<(), Failure> {
    match depth {
        Depth::Levels(levels) => profile.depth = Some(*levels),
        Depth::Kind(word) => profile.cut_down_to(word).map_err(|e| {
            Failure::usage(format!("--depth: {e}"))
                .broken("profile.kinds", e.kinds.join(", "), &e.word)
                .next(format!("cutter profile show {}", e.profile))
        })?,
    }
    Ok(())
}

/// A built-in profile by its name, or one of one's own by its path.
pub(crate) fn load(named: &str) -> Result<Profile, Failure> {
    Ok(source(named)?.1)
}

/// A profile's JSON as its author wrote it, and what it says.
pub(crate) fn source(named: &str) -> Result<(String, Profile), Failure> {
    if let Some(json) = Profile::built_in_json(named) {
        let profile = Profile::built_in(named).map_err(|e| Failure::internal(e.to_string()))?;
        return Ok((json.to_owned(), profile));
    }
    let path = Path::new(named);
    if path.extension().is_none() && !named.contains('/') && !path.exists() {
        let names = Profile::names().collect::<Vec<_>>().join(", ");
        return Err(Failure::usage(format!("no profile has the name {named}"))
            .broken("profile.name", format!("the path of a profile, or one of {names}"), named)
            .next("cutter profile list"));
    }
    let bytes = read_small(path).map_err(|e| e.next("cutter profile list"))?;
    let profile = Profile::from_json(&bytes).map_err(|e| invalid(path.display(), &e))?;
    Ok((String::from_utf8_lossy(&bytes).into_owned(), profile))
}

/// A profile file that cannot be used: file, field, expected, observed.
fn invalid(path: impl Display, error: &ProfileError) -> Failure {
    let failure = Failure::usage(format!("{path}: {error}"));
    let failure = match error {
        ProfileError::Value { field, expected, observed } => {
            failure.broken(format!("profile.{field}"), *expected, observed)
        }
        ProfileError::Shape { field, reason } => {
            // serde says "invalid type: string \"x\", expected u32"
            let (observed, expected) = reason.split_once(", expected ").unwrap_or((reason, "another shape"));
            let place = if field.is_empty() { "profile".to_owned() } else { format!("profile.{field}") };
            failure.broken(place, expected, observed)
        }
        ProfileError::Json(e) => failure.broken("profile", "strict JSON", e.to_string()),
    };
    failure.next("cutter profile show --schema")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_depth_is_levels_or_a_kind() {
        assert_eq!("2".parse(), Ok(Depth::Levels(2)));
        assert_eq!("Điểm".parse(), Ok(Depth::Kind("Điểm".to_owned())));
        for wrong in ["0", "-1", "", "2x", "99999999999"] {
            assert!(wrong.parse::<Depth>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_runner_up_without_the_kind_is_weighed_as_it_is() {
        let text =
            "# Luật\n\n## Chương I\n\n### Điều 1. Phạm vi\n\n1. Luật này quy định về quyền của công dân.\n";
        let limits = MarkLimits::default();
        let chosen = choose(AUTO, Some(&Depth::Kind("khoản".to_owned())), text.as_bytes(), &limits).unwrap();
        assert_eq!(chosen.profile.deepest.as_deref(), Some("cl"));
        let detection = chosen.detection().unwrap();
        assert_eq!(detection.cost.unwrap().units, 4);
        assert!(detection.runner_up.as_ref().unwrap().cost.is_some());
    }
}
