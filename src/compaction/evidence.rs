//! Evidence pointers and their ids. An id is a function of the namespace (index, else corpus), the
//! chunk, the span and, if known, the digest of the quoted words. Two corpora never share an id,
//! and the same words found twice get one id.
//!
//! See docs/adr/0019-evidence-and-snapshot-ids.md.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Value, json};

use super::object::Object;
use super::text::SharedText;
use crate::contract::hash::{Digest, sha256};
use crate::contract::json::jcs_hash;

#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum SpanUnit {
    /// Bytes of the chunk's UTF-8 text.
    #[default]
    Utf8Byte,
    /// Unicode scalar values.
    Char,
}

impl SpanUnit {
    fn name(self) -> &'static str {
        match self {
            SpanUnit::Utf8Byte => "utf8_byte",
            SpanUnit::Char => "char",
        }
    }
}

/// A half-open range of a chunk's text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Span {
    /// First position.
    pub start: u64,
    /// One past the last position.
    pub end: u64,
    pub unit: SpanUnit,
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Raw {
            start: u64,
            end: u64,
            #[serde(default)]
            unit: SpanUnit,
        }
        let Object(Raw { start, end, unit }) = Object::deserialize(deserializer)?;
        if end < start {
            return Err(serde::de::Error::custom("a span must not end before it starts"));
        }
        Ok(Span { start, end, unit })
    }
}

/// Where evidence is: the part of a pointer that its id stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    pub chunk_id: SharedText,
    pub span: Span,
}

/// An evidence pointer as snapshots carry it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EvidenceRef {
    pub evidence_id: SharedText,
    /// The chunk it points into.
    pub chunk_id: SharedText,
    pub span: Span,
}

/// The id of evidence in a namespace (`idx:<index_id>` or `corp:<corpus_id>`).
pub fn evidence_id(namespace: &str, chunk_id: &str, span: Span, quote: Option<Digest>) -> String {
    let digest = match is_plain(namespace) && is_plain(chunk_id) && span.end <= PLAIN_NUMBER_MAX {
        true => sha256(plain_pre_image(namespace, chunk_id, span, quote)),
        false => jcs_hash(&pre_image(namespace, chunk_id, span, quote)),
    };
    format!("ev_{}", &digest.hex()[..32])
}

/// Largest whole number that canonical JSON writes with its own digits.
const PLAIN_NUMBER_MAX: u64 = 1 << 53;

/// True when canonical JSON writes the text unchanged. This holds for nearly every id, and a fold
/// derives many ids.
fn is_plain(text: &str) -> bool {
    text.bytes().all(|byte| byte >= b' ' && byte != b'"' && byte != b'\\')
}

fn pre_image(namespace: &str, chunk_id: &str, span: Span, quote: Option<Digest>) -> Value {
    let quote = quote.map(|digest| digest.hex());
    let unit = span.unit.name();
    json!(["evidence.v1", namespace, chunk_id, span.start, span.end, unit, quote])
}

/// The canonical form of the same value, written directly.
fn plain_pre_image(namespace: &str, chunk_id: &str, span: Span, quote: Option<Digest>) -> String {
    let quote = quote.map_or("null".to_owned(), |digest| format!("\"{}\"", digest.hex()));
    let (start, end, unit) = (span.start, span.end, span.unit.name());
    format!("[\"evidence.v1\",\"{namespace}\",\"{chunk_id}\",{start},{end},\"{unit}\",{quote}]")
}

/// True for an id in the form that this module derives. Other ids are foreign and accepted as they
/// are.
pub(crate) fn is_derived(id: &str) -> bool {
    id.strip_prefix("ev_").is_some_and(|hex| {
        hex.len() == 32 && hex.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(start: u64, end: u64) -> Span {
        Span { start, end, unit: SpanUnit::Utf8Byte }
    }

    #[test]
    fn known_inputs_give_their_frozen_ids() {
        let quote = "ffefc769850a3e10785dcd5e59f78335e360e585e39011c1724ecfb49081496d";
        let quote = quote.parse::<Digest>().unwrap();
        let rows = [
            (
                "idx:pharm-2023-v3",
                "chk_a1",
                span(120, 184),
                None,
                "ev_b76ed95ef5b285d7eaaafbecf3dcaf8e",
            ),
            (
                "idx:pharm-2023-v3",
                "chk_b4",
                span(40, 101),
                None,
                "ev_888f5224054eef8fa8a487884bc5964b",
            ),
            (
                "corp:pharm-2023-v3",
                "chk_a1",
                span(120, 184),
                None,
                "ev_1a2bf126a47313c95708698ef29ba339",
            ),
            (
                "idx:pharm-2023-v3",
                "chk_a1",
                span(120, 184),
                Some(quote),
                "ev_27e4a4c2bbe7caf92149400bd15b2643",
            ),
        ];
        for (namespace, chunk, span, quote, expected) in rows {
            let id = evidence_id(namespace, chunk, span, quote);
            assert_eq!(id, expected);
            assert!(is_derived(&id));
        }
        assert!(!is_derived("ev_1"));
    }

    #[test]
    fn the_directly_written_form_is_canonical() {
        let quote = Some(crate::contract::hash::sha256("words"));
        for namespace in ["idx:a", "corp:é", "corp:\u{7f}\u{2028}", "idx:😀/x"] {
            for span in [span(0, 0), span(7, PLAIN_NUMBER_MAX)] {
                for quote in [None, quote] {
                    assert!(is_plain(namespace));
                    let canonical =
                        crate::contract::json::jcs(&pre_image(namespace, "c", span, quote));
                    assert_eq!(plain_pre_image(namespace, "c", span, quote), canonical);
                }
            }
        }
        for odd in ["a\"b", "a\\b", "a\nb", "\u{1}"] {
            assert!(!is_plain(odd));
            let hash = jcs_hash(&pre_image("idx:a", odd, span(1, 2), None)).hex();
            assert_eq!(evidence_id("idx:a", odd, span(1, 2), None), format!("ev_{}", &hash[..32]));
        }
    }

    #[test]
    fn the_unit_defaults_to_bytes_and_backward_spans_are_refused() {
        let parsed: Span = serde_json::from_str(r#"{"start":1,"end":2}"#).unwrap();
        assert_eq!(parsed, span(1, 2));
        assert!(serde_json::from_str::<Span>(r#"{"start":2,"end":1}"#).is_err());
    }
}
