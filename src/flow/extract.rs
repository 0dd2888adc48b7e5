//! Extracts JSON from a model's answer: the whole answer, a code fence, or an object in prose.
//!
//! Contract: text around the JSON (byte-order mark, thoughts, fences, prose) and trailing commas are
//! tolerated. An incomplete object is not completed; callers check first whether the model was cut off.

use serde_json::Value;

/// Longest answer that is searched.
const ANSWER_BYTES_MAX: usize = 4 << 20;
/// Most places in an answer that are tried as the begin of an object.
const STARTS_MAX: usize = 64;

/// The answer holds no JSON.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct NoJson(pub String);

/// The JSON value of an answer.
pub(super) fn json(answer: &str) -> Result<Value, NoJson> {
    if answer.len() > ANSWER_BYTES_MAX {
        return Err(NoJson(format!("the answer is longer than {ANSWER_BYTES_MAX} bytes")));
    }
    let text = without_thoughts(answer.trim_start_matches('\u{feff}').trim());
    if text.is_empty() {
        return Err(NoJson("the answer is empty".to_owned()));
    }
    let whole = match parse(text) {
        Ok(value) => return Ok(value),
        Err(error) => error,
    };
    if let Some(value) = fenced(text).and_then(|inner| parse(inner).ok()) {
        return Ok(value);
    }
    for (start, _) in text.match_indices('{').take(STARTS_MAX) {
        if let Some(end) = balanced_end(&text[start..])
            && let Ok(value @ Value::Object(_)) = parse(&text[start..start + end])
        {
            return Ok(value);
        }
    }
    Err(NoJson(format!("the answer is not JSON: {whole}")))
}

/// An answer without the thoughts that some local models write first.
pub(crate) fn without_thoughts(answer: &str) -> &str {
    let thoughts = answer.trim_start().strip_prefix("<think>");
    let said = thoughts.and_then(|thoughts| thoughts.split_once("</think>"));
    said.map_or(answer, |(_, said)| said.trim_start())
}

fn parse(text: &str) -> Result<Value, serde_json::Error> {
    serde_json::from_str(text).or_else(|error| match without_trailing_commas(text) {
        Some(text) => serde_json::from_str(&text).map_err(|_| error),
        None => Err(error),
    })
}

fn fenced(text: &str) -> Option<&str> {
    let (_, after) = text.split_once("```")?;
    // The rest of the opening line names a language.
    let (_, body) = after.split_once('\n')?;
    Some(body.rsplit_once("```").map_or(body, |(body, _)| body).trim())
}

/// One past the brace that closes the one `text` begins with.
fn balanced_end(text: &str) -> Option<usize> {
    let mut depth = 0usize;
    let mut scan = Scan::default();
    for (at, byte) in text.bytes().enumerate() {
        if scan.in_string(byte) {
            continue;
        }
        match byte {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(at + 1);
                }
            }
            _ => {}
        }
    }
    None
}

/// The text without trailing commas; `None` when it has no trailing comma.
fn without_trailing_commas(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    let mut scan = Scan::default();
    let mut drop = Vec::new();
    for (at, byte) in bytes.iter().enumerate() {
        if !scan.in_string(*byte) && *byte == b',' {
            let next = bytes[at + 1..].iter().find(|byte| !byte.is_ascii_whitespace());
            if matches!(next, Some(b'}' | b']')) {
                drop.push(at);
            }
        }
    }
    if drop.is_empty() {
        return None;
    }
    let mut out = String::with_capacity(text.len());
    let mut from = 0;
    for at in drop {
        out.push_str(&text[from..at]);
        from = at + 1;
    }
    out.push_str(&text[from..]);
    Some(out)
}

#[derive(Default)]
struct Scan {
    quoted: bool,
    escaped: bool,
}

impl Scan {
    /// True for every byte of a string, its quotes included.
    fn in_string(&mut self, byte: u8) -> bool {
        if self.escaped {
            self.escaped = false;
            return true;
        }
        if self.quoted {
            self.escaped = byte == b'\\';
            self.quoted = byte != b'"';
            return true;
        }
        self.quoted = byte == b'"';
        self.quoted
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn json_is_found_in_every_place_where_models_write_it() {
        let expected = json!({"a": [1, "x } ,]"]});
        for answer in [
            r#"{"a": [1, "x } ,]"]}"#,
            "\u{feff} {\"a\": [1, \"x } ,]\",],}\n",
            "```json\n{\"a\": [1, \"x } ,]\"]}\n```",
            "Sure! {not this}\n```\n{\"a\": [1, \"x } ,]\"]}\n```\nAnything else?",
            "Here you are: {\"a\": [1, \"x } ,]\"]} — done {",
        ] {
            assert_eq!(json(answer).unwrap(), expected, "{answer}");
        }
    }

    #[test]
    fn an_answer_that_was_cut_off_is_never_completed() {
        for answer in [
            "{\"a\": [1, \"x\"",
            "{\"a\": \"x",
            "```json\n{\"a\": 1",
            "no json",
            "",
            "[{\"a\": 1}, {\"b\": ",
        ] {
            if let Ok(value) = json(answer) {
                assert_eq!(value, json!({"a": 1}), "only a complete inner object: {answer}");
                assert!(answer.starts_with('['));
            }
        }
        json(&"{".repeat(100_000)).unwrap_err();
    }
}
