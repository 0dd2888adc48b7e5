//! The `publish` flag: whether what is told here may be shown to others.
//!
//! Contract. A flag says nothing, yes or no. What is there and does not clearly say yes is a no, and
//! of several flags one no decides: what was marked private somewhere stays private.

use serde_json::Value;

/// What a flag says.
pub fn said(flag: Option<&Value>) -> Option<bool> {
    match flag? {
        Value::Null => None,
        Value::Bool(flag) => Some(*flag),
        Value::String(text) => said_by_word(text),
        _ => Some(false),
    }
}

/// What a flag says that is written as a word, as in front matter.
pub fn said_by_word(text: &str) -> Option<bool> {
    match text.trim().to_ascii_lowercase().as_str() {
        "" | "null" | "~" => None,
        "true" | "yes" | "1" => Some(true),
        _ => Some(false),
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
            (json!(""), None),
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
    fn one_no_decides() {
        assert_eq!(together([None, None]), None);
        assert_eq!(together([None, Some(true)]), Some(true));
        assert_eq!(together([Some(true), None, Some(false)]), Some(false));
    }
}
