//! How JSON is written: canonical (RFC 8785, "JCS") wherever it is hashed and on every published
//! JSONL line; two-space indentation in field order with a final newline for single-object files.

use serde::Serialize;
use serde_json::Value;

use super::hash::{Digest, sha256};

/// Canonical JSON of a serializable value, without a final newline.
///
/// Fails only where JSON itself cannot hold the value (a non-finite number, a map with
/// non-string keys), which no record of ours contains.
pub fn to_jcs<T: Serialize>(value: &T) -> serde_json::Result<String> {
    serde_json_canonicalizer::to_string(value)
}

/// Canonical JSON of a parsed value.
pub fn jcs(value: &Value) -> String {
    to_jcs(value).expect("a parsed JSON value has finite numbers and string keys")
}

/// SHA-256 of the canonical form.
pub fn jcs_hash(value: &Value) -> Digest {
    sha256(jcs(value))
}

/// The file form of a single object: two-space indentation, fields in the order given, one `\n`.
pub fn to_file<T: Serialize + ?Sized>(value: &T) -> serde_json::Result<String> {
    let mut text = serde_json::to_string_pretty(value)?;
    text.push('\n');
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn keys_are_sorted_by_utf16_and_numbers_follow_ecmascript() {
        let value = json!({"b": 1.0, "a": [1e30, 0.000001, -0.0], "\u{20ac}": "\u{7f}\n", "\u{1f600}": null});
        assert_eq!(
            jcs(&value),
            "{\"a\":[1e+30,0.000001,0],\"b\":1,\"\u{20ac}\":\"\u{7f}\\n\",\"\u{1f600}\":null}"
        );
    }

    #[test]
    fn selection_vector() {
        let value: Value = serde_json::from_str(
            r#"{"bus":"session_bus","items":[{"day":"2026-02-10","id":"ses_001"},{"day":"2026-02-11","id":"ses_002"}],"ordering":"as_listed"}"#,
        )
        .unwrap();
        assert_eq!(
            jcs_hash(&value).prefixed(),
            "sha256:e937b9ddeeb4d06d4f93b7f5231c86f4517c6c74a0e94ed9cb1c6be01daa5c0e"
        );
    }
}
