//! The `publish` flag: whether what is told here may be shown to others.
//!
//! Contract. A flag says nothing, yes or no. What is there and does not clearly say yes is a no, and
//! of several flags one no decides: what was marked private somewhere stays private.
//!
//! See docs/adr/0047-privacy-flag.md.

use serde_json::{Map, Value};

/// What a flag says.
pub fn said(flag: Option<&Value>) -> Option<bool> {
    match flag? {
        Value::Null => None,
        Value::Bool(flag) => Some(*flag),
        Value::String(text) => Some(is_clear_yes(text)),
        _ => Some(false),
    }
}

fn is_clear_yes(word: &str) -> bool {
    matches!(word.trim().to_ascii_lowercase().as_str(), "true" | "yes" | "on" | "1")
}

/// What the members of an object say together, in the spellings people use.
pub fn said_by_members(object: &Map<String, Value>) -> Option<bool> {
    together(object.iter().map(|(name, value)| said_by_member(name, value)))
}

/// What one member of an object says. Only `publish` and `published` can say yes.
pub fn said_by_member(name: &str, value: &Value) -> Option<bool> {
    match name.to_ascii_lowercase().as_str() {
        "publish" => said(Some(value)),
        // Also a usual name for a date.
        "published" => said(Some(value)).filter(|_| match value {
            Value::Bool(_) => true,
            Value::String(text) => text.chars().all(char::is_alphabetic),
            _ => false,
        }),
        "public" => said(Some(value)).filter(|yes| !yes),
        "private" | "draft" | "unlisted" => match value {
            Value::Null | Value::Bool(false) => None,
            Value::String(text) if matches!(text.to_ascii_lowercase().as_str(), "no" | "false") => {
                None
            }
            _ => Some(false),
        },
        "visibility" => match value {
            Value::Null => None,
            Value::String(text) if text.eq_ignore_ascii_case("public") => None,
            _ => Some(false),
        },
        _ => None,
    }
}

/// What several flags say together.
pub fn together(flags: impl IntoIterator<Item = Option<bool>>) -> Option<bool> {
    flags.into_iter().flatten().reduce(|one, other| one && other)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_a_clear_word_publishes() {
        for (flag, expected) in [
            (json!(null), None),
            (json!(true), Some(true)),
            (json!("Yes"), Some(true)),
            (json!(""), Some(false)),
            (json!(false), Some(false)),
            (json!("false"), Some(false)),
            (json!("maybe"), Some(false)),
            (json!(0), Some(false)),
            (json!([true]), Some(false)),
        ] {
            assert_eq!(said(Some(&flag)), expected, "{flag}");
        }
        assert_eq!(said(None), None);
    }

    #[test]
    fn the_flag_is_known_in_the_spellings_people_use() {
        for (object, expected) in [
            (json!({"Publish": true}), Some(true)),
            (json!({"PUBLISH": "no"}), Some(false)),
            (json!({"published": "yes"}), Some(true)),
            (json!({"published": "2026-02-11"}), None),
            (json!({"public": true}), None),
            (json!({"public": false}), Some(false)),
            (json!({"private": "yes"}), Some(false)),
            (json!({"private": false}), None),
            (json!({"visibility": "friends"}), Some(false)),
            (json!({"publish": true, "draft": true}), Some(false)),
            (json!({"title": "publish"}), None),
        ] {
            assert_eq!(said_by_members(object.as_object().unwrap()), expected, "{object}");
        }
    }

    #[test]
    fn one_no_decides() {
        assert_eq!(together([None, None]), None);
        assert_eq!(together([None, Some(true)]), Some(true));
        assert_eq!(together([Some(true), None, Some(false)]), Some(false));
    }
}
