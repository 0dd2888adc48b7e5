//! How JSON is written. Canonical (RFC 8785, "JCS") wherever it is hashed. [`line()`] for every line of a
//! file of JSON lines: canonical, and without the characters that some readers take for a line end.
//! Two-space indentation in field order with a final newline for single-object files.
//!
//! RFC 8785 writes every number as a double. An integer beyond 2^53 would become another one, so integers
//! are written with all their digits; up to 2^53 these are the digits of the double too.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::hash::{Digest, sha256};

/// 2^63, the smallest size of an integer that may not fit into 64 bits.
const LARGE: f64 = 9_223_372_036_854_775_808.0;
/// 2^53: from it on a float does not hold every integer.
const ROUNDING: f64 = 9_007_199_254_740_992.0;

/// Canonical JSON of a serializable value, without a final newline.
///
/// Fails only where JSON itself cannot hold the value (a non-finite number, a map with
/// non-string keys), which no record of ours contains.
pub(crate) fn to_jcs<T: Serialize>(value: &T) -> serde_json::Result<String> {
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
pub(crate) fn name_order(a: &str, b: &str) -> Ordering {
    a.encode_utf16().cmp(b.encode_utf16())
}

fn write(value: &Value, out: &mut Vec<u8>) -> serde_json::Result<()> {
    let mut sign: &[u8] = b"";
    match value {
        Value::Null | Value::Bool(_) | Value::String(_) => serde_json::to_writer(out, value)?,
        Value::Number(number) if number.is_f64() => out.extend(to_jcs(value)?.into_bytes()),
        Value::Number(_) => serde_json::to_writer(out, value)?,
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

/// One line of a file of JSON lines, without the line end.
pub fn line(value: &Value) -> String {
    one_line(jcs(value))
}

/// The same of a serializable value.
pub(crate) fn to_line<T: Serialize>(value: &T) -> serde_json::Result<String> {
    to_jcs(value).map(one_line)
}

/// JSON in which U+0085, U+2028 and U+2029 are escaped. They are legal in JSON strings, and readers
/// that split at every Unicode line end (`splitlines` of Python) break on them. Outside strings JSON
/// has no such character, so the value stays the same.
pub(crate) fn one_line(json: String) -> String {
    const SEPARATORS: [(char, &str); 3] =
        [('\u{85}', "\\u0085"), ('\u{2028}', "\\u2028"), ('\u{2029}', "\\u2029")];
    // The three begin with one of these two bytes, and most lines have neither.
    if memchr::memchr2(0xc2, 0xe2, json.as_bytes()).is_none() {
        return json;
    }
    SEPARATORS.into_iter().fold(json, |json, (raw, escaped)| {
        // Searched as bytes: nearly no text has one, and the search for a char is slower.
        let mut bytes = [0; 4];
        let raw = raw.encode_utf8(&mut bytes);
        match memchr::memmem::find(json.as_bytes(), raw.as_bytes()) {
            Some(_) => json.replace(&*raw, escaped),
            None => json,
        }
    })
}

/// SHA-256 of the canonical form.
pub fn jcs_hash(value: &Value) -> Digest {
    sha256(jcs(value))
}

/// The file form of a single object: two-space indentation, fields in the order given, one `\n`.
pub(crate) fn to_file<T: Serialize + ?Sized>(value: &T) -> serde_json::Result<String> {
    let mut text = one_line(serde_json::to_string_pretty(value)?);
    text.push('\n');
    Ok(text)
}

/// Whether a value holds a number as large as an integer that 64 bits cannot hold: the reader gives
/// such an integer as a float.
pub(crate) fn has_large_float(value: &Value) -> bool {
    has_float(value, LARGE)
}

/// Whether a value holds a float so large that not every integer of its size is one.
pub(crate) fn has_rounding_float(value: &Value) -> bool {
    has_float(value, ROUNDING)
}

fn has_float(value: &Value, least: f64) -> bool {
    match value {
        Value::Number(number) => {
            number.is_f64() && number.as_f64().is_some_and(|value| value.abs() >= least)
        }
        Value::Array(items) => items.iter().any(|item| has_float(item, least)),
        Value::Object(members) => members.values().any(|member| has_float(member, least)),
        _ => false,
    }
}

/// A JSON value whose integers beyond 64 bits are texts of their digits: rounded, two of them could become one.
pub(crate) fn exact(text: &str) -> serde_json::Result<Value> {
    let mut value = serde_json::from_str(text)?;
    keep_digits(&mut value, text)?;
    Ok(value)
}

/// Puts the digits of wide integers in the place of rounded numbers. `raw` is the text of the value.
fn keep_digits(value: &mut Value, raw: &str) -> serde_json::Result<()> {
    if !has_large_float(value) {
        return Ok(());
    }
    match value {
        Value::Object(members) => {
            let raw: BTreeMap<String, &RawValue> = serde_json::from_str(raw)?;
            let both = members.iter_mut().filter_map(|(name, one)| Some((one, raw.get(name)?)));
            both.into_iter().try_for_each(|(one, raw)| keep_digits(one, raw.get()))
        }
        Value::Array(items) => {
            let raw: Vec<&RawValue> = serde_json::from_str(raw)?;
            items.iter_mut().zip(raw).try_for_each(|(one, raw)| keep_digits(one, raw.get()))
        }
        _ => {
            let digits = raw.strip_prefix('-').unwrap_or(raw);
            if digits.bytes().all(|byte| byte.is_ascii_digit()) {
                *value = raw.into();
            }
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_integer_that_64_bits_cannot_hold_keeps_its_digits() {
        let text = r#"{"id":123456789012345678901,"a":[-99999999999999999999,{"b":1e30}],"c":18446744073709551615}"#;
        let kept = exact(text).unwrap();
        assert_eq!(kept["id"], "123456789012345678901");
        assert_eq!(
            (&kept["a"][0], &kept["a"][1]["b"]),
            (&"-99999999999999999999".into(), &1e30.into())
        );
        assert_eq!(kept["c"], u64::MAX);
        assert!(exact("{").is_err());
    }

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
        let numbers = json!([0, -1, -(1i64 << 53), 0.1, 1e21, -0.0, 5e-324, 1.5e300, 1u64 << 53]);
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
    fn large_integers_keep_their_digits() {
        let value = json!([u64::MAX, i64::MIN, (1u64 << 53) + 1, -(1i64 << 53) - 1, 1u64 << 53]);
        let text = "[18446744073709551615,-9223372036854775808,9007199254740993,\
                    -9007199254740993,9007199254740992]";
        assert_eq!(jcs(&value), text);
    }

    #[test]
    fn a_line_has_no_line_separator_and_the_same_value() {
        let value = json!({"a\u{2028}": "x\u{85}y\u{2029}\n\u{b}z \\u2028", "b": ["\u{2028}"]});
        let text = line(&value);
        assert!(!text.contains(['\u{85}', '\u{2028}', '\u{2029}', '\n', '\u{b}']), "{text}");
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value);
        assert_eq!(to_line(&value).unwrap(), text);
        let file = to_file(&value).unwrap();
        assert!(!file.contains(['\u{85}', '\u{2028}', '\u{2029}']));
        assert_eq!(serde_json::from_str::<Value>(&file).unwrap(), value);
        assert_eq!(line(&json!({"é": "ü\u{84}"})), "{\"é\":\"ü\u{84}\"}");
    }

    #[test]
    fn each_line_separator_is_escaped_where_it_is_the_only_one() {
        for separator in ['\u{85}', '\u{2028}', '\u{2029}'] {
            let escaped = format!("[\"\\u{:04x}\"]", u32::from(separator));
            assert_eq!(one_line(json!([separator]).to_string()), escaped);
        }
        assert_eq!(one_line("[\"â »\"]".to_owned()), "[\"â »\"]");
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
