//! Where in a profile the field stands that has a wrong shape.
//!
//! The parser says what it expected, not where. What it complained of is found by taking
//! parts away: without the part at fault the complaint is another one, or none.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use serde_json::Value;

use super::Profile;

/// The path of the deepest part of `profile` without which `complaint` changes; empty where
/// it is about the whole.
pub(super) fn of(profile: &Value, complaint: &str) -> String {
    let mut path: Vec<Step> = Vec::new();
    while let Some(here) = at(profile, &path) {
        if lacks(profile, &path, complaint) {
            break;
        }
        let steps: Vec<Step> = match here {
            Value::Object(map) => map.keys().map(|key| Step::Key(key.clone())).collect(),
            Value::Array(items) => (0..items.len()).map(Step::Item).collect(),
            _ => break,
        };
        let Some(step) = steps.into_iter().find(|step| is_at_fault(profile, &path, step, complaint)) else {
            break;
        };
        path.push(step);
    }
    path.iter().enumerate().fold(String::new(), |text, (i, step)| match step {
        Step::Key(key) if i == 0 => key.clone(),
        Step::Key(key) => text + "." + key,
        Step::Item(n) => text + &format!("[{n}]"),
    })
}

enum Step {
    Key(String),
    Item(usize),
}

fn at<'v>(value: &'v Value, path: &[Step]) -> Option<&'v Value> {
    path.iter().try_fold(value, |value, step| match step {
        Step::Key(key) => value.get(key),
        Step::Item(n) => value.get(n),
    })
}

/// Whether the complaint is that this very part has no such field.
fn lacks(profile: &Value, path: &[Step], complaint: &str) -> bool {
    let Some(field) = complaint.strip_prefix("missing field `").and_then(|rest| rest.split('`').next())
    else {
        return false;
    };
    let mut changed = profile.clone();
    match inside(&mut changed, path) {
        Some(Value::Object(map)) if !map.contains_key(field) => {
            map.insert(field.to_string(), Value::Null);
            read(changed).as_deref() != Some(complaint)
        }
        _ => false,
    }
}

fn inside<'v>(value: &'v mut Value, path: &[Step]) -> Option<&'v mut Value> {
    path.iter().try_fold(value, |value, step| match step {
        Step::Key(key) => value.get_mut(key),
        Step::Item(n) => value.get_mut(n),
    })
}

/// Whether the complaint is about this part: it changes without a key, and it is made of an
/// array that has this item alone.
fn is_at_fault(profile: &Value, path: &[Step], step: &Step, complaint: &str) -> bool {
    let mut changed = profile.clone();
    match (inside(&mut changed, path), step) {
        (Some(Value::Object(map)), Step::Key(key)) => {
            map.remove(key);
            read(changed).as_deref() != Some(complaint)
        }
        (Some(Value::Array(items)), Step::Item(n)) if *n < items.len() => {
            *items = vec![items.swap_remove(*n)];
            read(changed).as_deref() == Some(complaint)
        }
        _ => false,
    }
}

fn read(value: Value) -> Option<String> {
    serde_json::from_value::<Profile>(value).err().map(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(edit: impl FnOnce(&mut Value)) -> String {
        let json = Profile::built_in_json("vn").unwrap();
        let mut value: Value = serde_json::from_str(json).unwrap();
        edit(&mut value);
        let complaint = read(value.clone()).unwrap();
        of(&value, &complaint)
    }

    #[test]
    fn the_field_at_fault_is_found_at_every_depth() {
        assert_eq!(place(|v| v["version"] = "two".into()), "version");
        assert_eq!(place(|v| v["designators"][3]["rank"] = "high".into()), "designators[3].rank");
        assert_eq!(
            place(|v| v["designators"][1]["numerals"][0] = "runes".into()),
            "designators[1].numerals[0]"
        );
        assert_eq!(place(|v| v["region"]["front_matter"] = 1.into()), "region.front_matter");
        assert_eq!(place(|v| v["enumerators"][1]["colour"] = 1.into()), "enumerators[1].colour");
        assert_eq!(place(|v| v["nesting"] = "size".into()), "nesting");
    }

    #[test]
    fn a_missing_field_is_missed_in_what_should_hold_it() {
        let remove = |v: &mut Value| v["designators"][2].as_object_mut().unwrap().remove("rank").is_some();
        assert_eq!(place(|v| assert!(remove(v))), "designators[2]");
        assert_eq!(place(|v| assert!(v.as_object_mut().unwrap().remove("region").is_some())), "");
    }
}
