//! Stable ids (`stable_id:v1`): a family prefix and the first 32 hex digits of a SHA-256 over one
//! canonical string that counts its parts and the bytes of each, so that no two lists of parts
//! share a string. The vectors at the bottom are frozen: ids already published must never move.

use unicode_normalization::UnicodeNormalization as _;

use super::hash::{Digest, push_hex, sha256};

/// One ingredient of an id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part<'a> {
    /// Our own text: trimmed, inner whitespace runs become one space, NFC.
    Text(&'a str),
    /// A label and our own text, `label:text`, normalized together.
    Labelled(&'a str, &'a str),
    /// Somebody else's id: taken byte for byte.
    Opaque(&'a str),
    /// Base 10.
    Integer(i64),
}

impl Part<'_> {
    /// Appends `<len>:<part>`.
    fn append(&self, text: &mut String) {
        let number;
        let (label, part) = match *self {
            Part::Text(part) => (None, part),
            Part::Labelled(label, part) => (Some(label), part),
            Part::Opaque(part) => return put(text, None, part),
            Part::Integer(value) => {
                number = value.to_string();
                (None, number.as_str())
            }
        };
        if label.is_none_or(is_plain) && is_plain(part) {
            return put(text, label, part);
        }
        let whole = label.map_or_else(|| part.to_owned(), |label| format!("{label}:{part}"));
        put(text, None, &normalize(&whole));
    }
}

fn put(text: &mut String, label: Option<&str>, part: &str) {
    let label_len = label.map_or(0, |label| label.len() + 1);
    push_number(text, label_len + part.len());
    text.push(':');
    if let Some(label) = label {
        text.push_str(label);
        text.push(':');
    }
    text.push_str(part);
}

fn push_number(text: &mut String, number: usize) {
    if number >= 10 {
        push_number(text, number / 10);
    }
    text.push(char::from(b'0' + (number % 10) as u8));
}

/// Whether normalizing changes nothing, for sure.
fn is_plain(text: &str) -> bool {
    // No early exit: scanning every byte vectorizes and beats short-circuiting.
    text.bytes().fold(true, |plain, byte| plain & byte.is_ascii_graphic())
}

fn normalize(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").nfc().collect()
}

/// The string that is hashed: `stable_id:v1|<n>|<len>:<part>|…`.
pub(crate) fn canonical_string(parts: &[Part<'_>]) -> String {
    let mut text = String::with_capacity(parts.len() * 64);
    text.push_str("stable_id:v1|");
    push_number(&mut text, parts.len());
    for part in parts {
        text.push('|');
        part.append(&mut text);
    }
    text
}

/// The full digest of the canonical string.
pub fn digest(parts: &[Part<'_>]) -> Digest {
    sha256(canonical_string(parts))
}

/// `<prefix>_` and the first 32 hex digits.
pub(crate) fn stable_id(prefix: &str, parts: &[Part<'_>]) -> String {
    let mut id = String::with_capacity(prefix.len() + 33);
    id.push_str(prefix);
    id.push('_');
    push_hex(&mut id, &digest(parts).head());
    id
}

/// The hash of an ordered list of ids, each taken byte for byte.
pub(crate) fn list_digest<S: AsRef<str>>(ids: &[S]) -> Digest {
    let mut parts = vec![Part::Text("list")];
    parts.extend(ids.iter().map(|id| Part::Opaque(id.as_ref())));
    digest(&parts)
}

/// The same as bare hex.
pub(crate) fn list_hash<S: AsRef<str>>(ids: &[S]) -> String {
    list_digest(ids).hex()
}

/// The id of an imported document: its name and the hash of its bytes. Content that comes back after
/// another one makes a document of its own; `returned` counts how many there were before it.
pub(crate) fn document_id(uri: &str, checksum: &str, returned: u64) -> String {
    let mut parts = vec![
        Part::Text("document"),
        Part::Labelled("uri", uri),
        Part::Labelled("checksum", checksum),
    ];
    if returned > 0 {
        parts.push(Part::Integer(i64::try_from(returned).unwrap_or(i64::MAX)));
    }
    stable_id("doc", &parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_inputs_give_their_frozen_ids() {
        let event =
            [Part::Text("event"), Part::Text("conversation:abc123"), Part::Text("message:def456")];
        assert_eq!(
            canonical_string(&event),
            "stable_id:v1|3|5:event|19:conversation:abc123|14:message:def456"
        );
        assert_eq!(
            digest(&event).hex(),
            "c5e8ff65b649b9a3e386d1c9dbbffd35d1be8d6bd80206ee10fd8d9a200fc9b1"
        );
        assert_eq!(stable_id("id", &event), "id_c5e8ff65b649b9a3e386d1c9dbbffd35");

        let events_hash = list_hash(&["evt_001", "evt_002"]);
        let session = [
            Part::Text("session"),
            Part::Labelled("window", "policy_v1"),
            Part::Labelled("start", "2026-02-08T00:00:00Z"),
            Part::Labelled("end", "2026-02-08T01:00:00Z"),
            Part::Labelled("events_hash", &events_hash),
        ];
        assert_eq!(stable_id("id", &session), "id_4a26fc52c6f86f09ce3b9b98b16ab343");

        let sources = list_hash(&["ses_001"]);
        let (hello, prompt) = (sha256("hello").hex(), sha256("prompt").hex());
        let summary = [
            Part::Text("summary"),
            Part::Labelled("type", "sessions"),
            Part::Labelled("sources_hash", &sources),
            Part::Labelled("selection_checksum", &hello),
            Part::Labelled("prompt_hash", &prompt),
            Part::Labelled("summarizer", "engine_v1"),
        ];
        assert_eq!(stable_id("id", &summary), "id_ae273d948289409440c9b6883e9eb001");

        let mixed = [
            Part::Text("  a \t b "),
            Part::Integer(7),
            Part::Text("true"),
            Part::Text("Cafe\u{301}"),
        ];
        assert_eq!(canonical_string(&mixed), "stable_id:v1|4|3:a b|1:7|4:true|5:Caf\u{e9}");
        assert_eq!(stable_id("id", &mixed), "id_51278feb914e6cbd43e9da0ef6f70541");
        assert_eq!(stable_id("id", &[]), "id_a1dca197efa68af0e0bfe0d2f8373113");
    }

    #[test]
    fn frozen_list_hashes() {
        assert_eq!(
            list_hash(&["evt_001", "evt_002"]),
            "3e5ef860f5aca599cca5c8d03d80cdefe82a896516a00aa9aad4cdf8ad0cf74c"
        );
        assert_eq!(
            list_hash(&["ses_001"]),
            "8a75beb86ee24aa99e4db1a6738ad3ae84fad99b672b4d2195a549aa09c43e45"
        );
        assert_eq!(
            list_hash::<&str>(&[]),
            "7098b1862e20c3683e0c7bfc79eca1da4b65566776a0e72e83e2c49160d9b8cc"
        );
    }

    #[test]
    fn upstream_ids_are_never_folded() {
        assert_ne!(list_hash(&["a b"]), list_hash(&["a  b"]));
        assert_ne!(list_hash(&["Caf\u{e9}"]), list_hash(&["Cafe\u{301}"]));
    }
}
