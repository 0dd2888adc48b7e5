//! Python's view of values: how they print, compare and convert. Templates and type conversion
//! of imported flows must agree with what Python does, to the byte.

use serde_json::{Number, Value};

/// `str(value)`.
pub(super) fn to_str(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => repr(other),
    }
}

/// `repr(value)`.
pub(crate) fn repr(value: &Value) -> String {
    let mut out = String::new();
    push_repr(&mut out, value);
    out
}

fn push_repr(out: &mut String, value: &Value) {
    match value {
        Value::Null => out.push_str("None"),
        Value::Bool(true) => out.push_str("True"),
        Value::Bool(false) => out.push_str("False"),
        Value::Number(number) => out.push_str(&number_repr(number)),
        Value::String(text) => push_str_repr(out, text),
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                out.push_str(if index > 0 { ", " } else { "" });
                push_repr(out, item);
            }
            out.push(']');
        }
        Value::Object(members) => {
            out.push('{');
            for (index, (key, item)) in members.iter().enumerate() {
                out.push_str(if index > 0 { ", " } else { "" });
                push_str_repr(out, key);
                out.push_str(": ");
                push_repr(out, item);
            }
            out.push('}');
        }
    }
}

fn push_str_repr(out: &mut String, text: &str) {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    out.push(quote);
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c == quote => {
                out.push('\\');
                out.push(c);
            }
            c if is_printable(c) => out.push(c),
            c => out.push_str(&match c as u32 {
                code @ 0..=0xff => format!("\\x{code:02x}"),
                code @ 0x100..=0xffff => format!("\\u{code:04x}"),
                code => format!("\\U{code:08x}"),
            }),
        }
    }
    out.push(quote);
}

/// `str.isprintable` of one character: neither control nor format character, no space but the plain
/// one, not private. Characters that Unicode has not given out yet count as printable.
pub(crate) fn is_printable(c: char) -> bool {
    !matches!(c as u32,
        0..=0x1f | 0x7f..=0xa0 | 0xad | 0x600..=0x605 | 0x61c | 0x6dd | 0x70f | 0x890..=0x891
        | 0x8e2 | 0x1680 | 0x180e | 0x2000..=0x200f | 0x2028..=0x202f | 0x205f..=0x2064
        | 0x2066..=0x206f | 0x3000 | 0xe000..=0xf8ff | 0xfdd0..=0xfdef | 0xfeff
        | 0xfff0..=0xfffb | 0xfffe..=0xffff | 0x110bd | 0x110cd | 0x13430..=0x1343f
        | 0x1bca0..=0x1bca3 | 0x1d173..=0x1d17a | 0xe0000..=0xe007f | 0xf0000..=0x10ffff)
}

/// A number the way Python prints it.
pub(crate) fn number_repr(number: &Number) -> String {
    match number.as_f64() {
        Some(float) if number.is_f64() => float_repr(float),
        _ => number.to_string(),
    }
}

/// `repr(float)`: the shortest digits that read back, in exponent form below 1e-4 and from 1e16.
pub(crate) fn float_repr(value: f64) -> String {
    if !value.is_finite() {
        return match value {
            v if v.is_nan() => "nan".into(),
            v if v > 0.0 => "inf".into(),
            _ => "-inf".into(),
        };
    }
    let scientific = format!("{value:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if value != 0.0 && !(-4..16).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{digits}e{sign}{:02}", exponent.abs());
    }
    let plain = format!("{value}");
    if plain.contains('.') { plain } else { plain + ".0" }
}

/// `a == b`: booleans are numbers, integers equal floats, order of members does not matter.
pub(crate) fn equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| equal(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len()
                && a.iter().all(|(key, value)| b.get(key).is_some_and(|other| equal(value, other)))
        }
        _ => match (as_number(a), as_number(b)) {
            (Some(a), Some(b)) => a == b,
            (None, None) => a == b,
            _ => false,
        },
    }
}

fn as_number(value: &Value) -> Option<f64> {
    match value {
        Value::Bool(flag) => Some(f64::from(u8::from(*flag))),
        Value::Number(number) => number.as_f64(),
        _ => None,
    }
}

/// `int(value)`.
pub(crate) fn to_int(value: &Value) -> Option<Value> {
    match value {
        Value::Bool(flag) => Some(i64::from(*flag).into()),
        Value::Number(number) if !number.is_f64() => Some(value.clone()),
        Value::Number(number) => {
            let float = number.as_f64()?.trunc();
            let fits = float.abs() < 9.0e18;
            #[allow(clippy::cast_possible_truncation, reason = "checked on the line above")]
            fits.then(|| (float as i64).into())
        }
        Value::String(text) => underscores_removed(text)?.parse::<i64>().ok().map(Value::from),
        _ => None,
    }
}

/// `float(value)`.
pub(crate) fn to_float(value: &Value) -> Option<Value> {
    let float = match value {
        Value::Bool(flag) => f64::from(u8::from(*flag)),
        Value::Number(number) => number.as_f64()?,
        Value::String(text) => underscores_removed(text)?.parse::<f64>().ok()?,
        _ => return None,
    };
    Number::from_f64(float).map(Value::Number)
}

fn underscores_removed(text: &str) -> Option<String> {
    let text = text.trim();
    // Python takes 1_000 but neither _1 nor 1__0.
    if text.starts_with('_') || text.ends_with('_') || text.contains("__") {
        return None;
    }
    Some(text.replace('_', ""))
}

/// `json.dumps(value, sort_keys=True)` with ASCII output and the characters HTML cares about
/// escaped, as Jinja2's `tojson` writes it.
pub(crate) fn json_dumps(value: &Value, indent: Option<usize>) -> String {
    let mut out = String::new();
    push_json(&mut out, value, indent, 0);
    out
}

fn push_json(out: &mut String, value: &Value, indent: Option<usize>, depth: usize) {
    match value {
        Value::Array(items) if !items.is_empty() => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                separate(out, index, indent, depth + 1);
                push_json(out, item, indent, depth + 1);
            }
            close(out, indent, depth);
            out.push(']');
        }
        Value::Object(members) if !members.is_empty() => {
            let mut members: Vec<_> = members.iter().collect();
            members.sort_by_key(|(key, _)| *key);
            out.push('{');
            for (index, (key, item)) in members.into_iter().enumerate() {
                separate(out, index, indent, depth + 1);
                push_json_str(out, key);
                out.push_str(": ");
                push_json(out, item, indent, depth + 1);
            }
            close(out, indent, depth);
            out.push('}');
        }
        Value::Number(number) => out.push_str(&number_repr(number)),
        Value::String(text) => push_json_str(out, text),
        other => out.push_str(&other.to_string()),
    }
}

fn separate(out: &mut String, index: usize, indent: Option<usize>, depth: usize) {
    match indent {
        None if index > 0 => out.push_str(", "),
        None => {}
        Some(width) => {
            out.push_str(if index > 0 { ",\n" } else { "\n" });
            out.extend(std::iter::repeat_n(' ', width * depth));
        }
    }
}

fn close(out: &mut String, indent: Option<usize>, depth: usize) {
    if let Some(width) = indent {
        out.push('\n');
        out.extend(std::iter::repeat_n(' ', width * depth));
    }
}

fn push_json_str(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '<' | '>' | '&' | '\'' => out.push_str(&format!("\\u{:04x}", c as u32)),
            ' '..='~' => out.push(c),
            c => {
                let mut units = [0; 2];
                for unit in c.encode_utf16(&mut units) {
                    out.push_str(&format!("\\u{unit:04x}"));
                }
            }
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    // Expected texts were printed by CPython 3.11 and Jinja2 3.1.6.
    #[test]
    fn values_print_like_python() {
        for (value, expected) in [
            (json!({"a": [1, null, true, "é'"]}), r#"{'a': [1, None, True, "é'"]}"#),
            (
                json!([1e-7, 1e16, 1.0, 0.1, 123_456_789_012_345_680.0, -0.0]),
                "[1e-07, 1e+16, 1.0, 0.1, 1.2345678901234568e+17, -0.0]",
            ),
            (json!(["a\nb", "q'\"", "\u{7f}", "\\"]), r#"['a\nb', 'q\'"', '\x7f', '\\']"#),
            (json!(0.0001), "0.0001"),
            (
                json!([
                    "a\u{a0}b",
                    "\u{200d}\u{2028}\u{feff}",
                    "👩\u{200d}💻",
                    "\u{e0001}",
                    "ñ\u{301}"
                ]),
                "['a\\xa0b', '\\u200d\\u2028\\ufeff', '👩\\u200d💻', '\\U000e0001', 'ñ\u{301}']",
            ),
            (json!([]), "[]"),
        ] {
            assert_eq!(to_str(&value), expected);
        }
        assert_eq!(to_str(&json!("plain 'text'")), "plain 'text'");
    }

    #[test]
    fn values_compare_like_python() {
        assert!(equal(&json!(true), &json!(1)));
        assert!(equal(&json!([1, {"a": 1.0}]), &json!([1.0, {"a": true}])));
        assert!(!equal(&json!("1"), &json!(1)));
        assert!(!equal(&json!(null), &json!(false)));
    }

    #[test]
    fn numbers_convert_like_python() {
        assert_eq!(to_int(&json!(" 1_000 ")), Some(json!(1000)));
        assert_eq!(to_int(&json!(-2.9)), Some(json!(-2)));
        assert_eq!(to_int(&json!("2.0")), None);
        assert_eq!(to_int(&json!(true)), Some(json!(1)));
        assert_eq!(to_float(&json!("1e3")), Some(json!(1000.0)));
        assert_eq!(to_float(&json!([])), None);
    }

    #[test]
    fn tojson_is_jinja2s() {
        let value = json!({"b": "<é'&😀>", "a": [1.0, {}, []]});
        assert_eq!(
            json_dumps(&value, None),
            r#"{"a": [1.0, {}, []], "b": "\u003c\u00e9\u0027\u0026\ud83d\ude00\u003e"}"#
        );
        assert_eq!(json_dumps(&json!({"a": [1]}), Some(2)), "{\n  \"a\": [\n    1\n  ]\n}");
    }
}
