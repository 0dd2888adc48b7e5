//! How JSON is written: canonical (RFC 8785, "JCS") wherever it is hashed and on every published
//! JSONL line; two-space indentation in field order with a final newline for single-object files.

use std::cmp::Ordering;

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

/// Canonical JSON of a parsed value. It is written as it is walked: a serializer that sorts what it
/// is given has to keep every object once for each object around it.
pub fn jcs(value: &Value) -> String {
    let mut out = Vec::new();
    write(value, &mut out).expect("a parsed JSON value has finite numbers and string keys");
    String::from_utf8(out).expect("JSON is written as UTF-8")
}

/// The order of the names of an object: that of their UTF-16 units.
pub fn name_order(a: &str, b: &str) -> Ordering {
    a.encode_utf16().cmp(b.encode_utf16())
}

fn write(value: &Value, out: &mut Vec<u8>) -> serde_json::Result<()> {
    let mut sign: &[u8] = b"";
    match value {
        Value::Null | Value::Bool(_) | Value::String(_) => serde_json::to_writer(out, value)?,
        Value::Number(_) => out.extend(to_jcs(value)?.into_bytes()),
        Value::Array(items) => {
            out.push(b'[');
            for item in items {
                out.extend(sign);
                sign = b",";
                write(item, out)?;
            }
            out.push(b']');
        }
        Value::Object(members) => {
            let mut members: Vec<(&String, &Value)> = members.iter().collect();
            members.sort_unstable_by(|(a, _), (b, _)| name_order(a, b));
            out.push(b'{');
            for (name, member) in members {
                out.extend(sign);
                sign = b",";
                serde_json::to_writer(&mut *out, name)?;
                out.push(b':');
                write(member, out)?;
            }
            out.push(b'}');
        }
    }
    Ok(())
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
    fn a_value_is_written_as_its_serializer_writes_it() {
        let mut text: String = (0..0x300).filter_map(char::from_u32).collect();
        text.push_str("\u{2028}\u{fdd0}\u{ffff}\u{1f600}\"\\/");
        let numbers =
            json!([0, -1, i64::MIN, u64::MAX, 0.1, 1e21, -0.0, 5e-324, 1.5e300, 1u64 << 53]);
        let keys = ["", "a", "A", "aa", "\u{e000}", "\u{1f600}", "\u{ff}", "\n", "\"", "10", "9"];
        let mut value = json!({"text": text, "numbers": numbers, "no": [[], {}, [null, true, {"b": [], "a": {}}]]});
        for key in keys {
            value[key] = json!({key: key, "z": [key]});
        }
        assert_eq!(jcs(&value), to_jcs(&value).unwrap());
        for value in [json!(null), json!([]), json!({}), json!("é"), json!(2.0)] {
            assert_eq!(jcs(&value), to_jcs(&value).unwrap());
        }
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
