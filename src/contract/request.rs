//! `summary_request.v1`: one line of the queue as a typed record.
//!
//! [`Request::parse`] takes the bytes of one line, without its terminator, and gives the request
//! or every reason why not. It works in three steps: a typed reader that accepts exactly the
//! objects the embedded JSON Schema accepts (`typed`), the rules no schema can say (`settle`), and
//! only for a line that was refused, the full explanation with JSON pointers (`refusal`).
//!
//! Strict where two writers could splice a line: one object, no member twice at any depth, bounded
//! nesting, nothing behind it. Lenient where a newer caller could add something: unknown members
//! are ignored, except in the closed query.
//!
//! It does not check whether the flow exists, whether kind and bus fit (see
//! [`Request::kind_fits`]), or whether the input exists: such a fault ends a request and does not
//! quarantine its line.
//!
//! See docs/adr/0005-effective-idempotency-key.md.

mod refusal;
mod settle;
mod strict;
mod typed;

use serde_json::{Map, Value};

use super::hash::{Digest, Hasher, sha256};
use super::json;
use super::query::Query;
use super::schema::Violation;
use super::time::Timestamp;
use super::vocabulary::{Bus, InputMode, QuarantineReason, SummaryKind, Urgency, Warnings};

/// The exact `schema_version` of a request.
pub const SCHEMA: &str = "summary_request.v1";

/// The priority of a request that names none.
pub(crate) const PRIORITY_DEFAULT: u8 = 3;

#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// The caller's id, byte for byte.
    pub request_id: String,
    /// When the caller made it.
    pub created_at: Timestamp,
    pub requested_by: RequestedBy,
    /// Now or scheduled.
    pub urgency: Urgency,
    /// Present when scheduled; a soft delay otherwise.
    pub not_before: Option<Timestamp>,
    /// When it should be done.
    pub deadline: Option<Timestamp>,
    /// 1 (highest) to 5.
    pub priority: u8,
    /// The caller's key; [`Request::effective_key`] decides.
    pub idempotency_key: Option<String>,
    pub work: Work,
    /// From what.
    pub input: Input,
    /// What was tolerated while reading.
    pub warnings: Warnings,
}

/// A longer parameter is more than a setting.
const SETTING_BYTES_MAX: usize = 40;

/// The producer of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestedBy {
    /// Repository or system.
    pub repo: String,
    /// Module or service within it.
    pub component: String,
    /// Its version, or `dev`.
    pub version: String,
    /// Its commit, when known.
    pub git_commit: Option<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Work {
    /// `summary_kind`.
    pub kind: SummaryKind,
    /// `summary_subkind`, any string.
    pub subkind: String,
    /// `flow_ref.flow_id`.
    pub flow_id: String,
    /// `flow_ref.variant`.
    pub variant: Option<String>,
    /// Flow parameters as given, without those that are null; empty when absent.
    pub params: Map<String, Value>,
}

/// From what to produce it.
#[derive(Debug, Clone, PartialEq)]
pub enum Input {
    /// Explicit ids, in the order given, repeats removed, otherwise byte for byte.
    Ids {
        bus: Bus,
        /// At least one.
        ids: Vec<String>,
    },
    /// A file that lists them.
    SelectionManifest {
        /// As given: relative to the bus home, or absolute.
        path: String,
        /// As given; it may be no hash at all.
        hash: String,
    },
    Query {
        bus: Bus,
        query: Query,
    },
}

/// Why a line is no request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The class of the fault.
    pub reason: QuarantineReason,
    /// The id, where the line is an object with exactly one string under that name.
    pub request_id: Option<String>,
    /// What is wrong, by place; at most `limits::VIOLATIONS_MAX`.
    pub errors: Vec<Violation>,
    /// How many more violations there are.
    pub errors_omitted: u64,
}

impl Refusal {
    /// A refusal with one reason for the line as a whole, without the id of a request.
    pub(crate) fn whole_line(reason: QuarantineReason, message: String) -> Refusal {
        let errors = vec![Violation { pointer: String::new(), message }];
        Refusal { reason, request_id: None, errors, errors_omitted: 0 }
    }
}

/// The idempotency key that counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EffectiveKey {
    /// The given key as it is, or `derived:` and 64 hex digits.
    pub text: String,
    /// What keys are compared by. A given key never equals a derived one, whatever its text.
    pub digest: Digest,
    /// True when the caller gave none.
    pub derived: bool,
}

/// What a key that a caller gives is compared by.
pub(crate) fn given_key(text: &str) -> Digest {
    Hasher::new().update("given:").update(text).finish()
}

impl Request {
    /// Reads one line, without its terminator.
    pub fn parse(line: &[u8]) -> Result<Request, Refusal> {
        let text = std::str::from_utf8(line).map_err(refusal::not_utf8)?;
        match typed::read(text) {
            Some(raw) => settle::settle(raw, false),
            None => Err(refusal::explain(text)),
        }
    }

    /// Reads the line of a request that was accepted. What came into force later refuses nothing of it.
    pub(crate) fn parse_stored(line: &[u8]) -> Result<Request, Refusal> {
        let text = std::str::from_utf8(line).map_err(refusal::not_utf8)?;
        match typed::read(text) {
            Some(raw) => settle::settle(raw, true),
            None => Err(refusal::explain(text)),
        }
    }

    /// Whether a request that is stored as this line, and is this one, has this key: by the rule of today, or by the
    /// earlier one, for which a null parameter or condition was a value.
    pub(crate) fn had_key(&self, line: &[u8], key: &str) -> bool {
        if self.effective_key().text == key {
            return true;
        }
        let Ok(written) = serde_json::from_slice::<Value>(line) else { return false };
        let member = |place: &str| written.pointer(place)?.as_object().cloned();
        let mut earlier = self.clone();
        if let Some(params) = member("/work/params") {
            earlier.work.params = params;
        }
        if earlier.effective_key().text == key {
            return true;
        }
        if let (Input::Query { query, .. }, Some(conditions)) =
            (&mut earlier.input, member("/input/query/where"))
        {
            query.conditions = conditions;
        }
        earlier.effective_key().text == key
    }

    /// Whether a parameter may hold words of a text. One word that begins with a small letter or a digit is a setting,
    /// such as `es` or a day.
    pub(crate) fn may_hold_words(&self) -> bool {
        let is_setting = |text: &str| {
            let is_one_word = text.len() <= SETTING_BYTES_MAX
                && text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'@');
            is_one_word && !text.starts_with(|first: char| first.is_ascii_uppercase())
        };
        self.work.params.values().any(|value| match value {
            Value::String(text) => !is_setting(text),
            Value::Array(_) | Value::Object(_) => true,
            Value::Null | Value::Bool(_) | Value::Number(_) => false,
        })
    }

    /// Whether the kind may take its input from the bus. A selection manifest names its own bus,
    /// so there it is decided when the manifest is read.
    pub fn kind_fits(&self) -> bool {
        self.input.bus().is_none_or(|bus| self.work.kind.fits(bus))
    }

    /// The key two requests share exactly when they ask for the same thing.
    pub fn effective_key(&self) -> EffectiveKey {
        match &self.idempotency_key {
            Some(key) => EffectiveKey { text: key.clone(), digest: given_key(key), derived: false },
            None => {
                // The canonical form starts with a brace, never with `given:`.
                let digest = sha256(self.canonical_work());
                EffectiveKey { text: format!("derived:{digest}"), digest, derived: true }
            }
        }
    }

    /// What the work itself is compared by, whatever key it was given.
    pub(crate) fn work_digest(&self) -> Digest {
        sha256(self.canonical_work())
    }

    /// What request ids are compared by.
    pub fn id_digest(&self) -> Digest {
        sha256(&self.request_id)
    }

    /// RFC 8785 form of the work: what the derived key hashes.
    ///
    /// `{flow_id, input, params, summary_kind, summary_subkind, variant}`; input is `{bus, ids,
    /// mode}` with the ids sorted by their bytes, `{manifest_path, mode, selection_hash}` with a
    /// digest in its `sha256:` spelling, or `{bus, mode, query}`; an absent variant is null.
    fn canonical_work(&self) -> String {
        let work = &self.work;
        let mut text = String::with_capacity(512);
        text.push_str("{\"flow_id\":");
        push_string(&mut text, &work.flow_id);
        text.push_str(",\"input\":");
        self.input.push_canonical(&mut text);
        text.push_str(",\"params\":");
        if work.params.is_empty() {
            text.push_str("{}");
        } else {
            text.push_str(&json::jcs(&work.params.clone().into()));
        }
        text.push_str(",\"summary_kind\":");
        push_string(&mut text, work.kind.as_str());
        text.push_str(",\"summary_subkind\":");
        push_string(&mut text, &work.subkind);
        text.push_str(",\"variant\":");
        match &work.variant {
            Some(variant) => push_string(&mut text, variant),
            None => text.push_str("null"),
        }
        text.push('}');
        text
    }
}

impl Input {
    /// `input.mode`.
    pub fn mode(&self) -> InputMode {
        match self {
            Input::Ids { .. } => InputMode::Ids,
            Input::SelectionManifest { .. } => InputMode::SelectionManifest,
            Input::Query { .. } => InputMode::Query,
        }
    }

    /// `input.bus`, which a selection manifest does not have.
    pub fn bus(&self) -> Option<Bus> {
        match self {
            Input::Ids { bus, .. } | Input::Query { bus, .. } => Some(*bus),
            Input::SelectionManifest { .. } => None,
        }
    }

    fn push_canonical(&self, text: &mut String) {
        match self {
            Input::Ids { bus, ids } => {
                let mut sorted: Vec<&str> = ids.iter().map(String::as_str).collect();
                sorted.sort_unstable();
                text.push_str("{\"bus\":");
                push_string(text, bus.as_str());
                text.push_str(",\"ids\":[");
                for (index, id) in sorted.into_iter().enumerate() {
                    if index > 0 {
                        text.push(',');
                    }
                    push_string(text, id);
                }
                text.push_str("],\"mode\":\"ids\"}");
            }
            Input::SelectionManifest { path, hash } => {
                let hash = hash.parse::<Digest>().map_or_else(|_| hash.clone(), |d| d.prefixed());
                text.push_str("{\"manifest_path\":");
                push_string(text, path);
                text.push_str(",\"mode\":\"selection_manifest\",\"selection_hash\":");
                push_string(text, &hash);
                text.push('}');
            }
            Input::Query { bus, query } => {
                text.push_str("{\"bus\":");
                push_string(text, bus.as_str());
                text.push_str(",\"mode\":\"query\",\"query\":");
                text.push_str(&json::jcs(&query.to_value()));
                text.push('}');
            }
        }
    }
}

/// A JSON string; serde_json and RFC 8785 escape alike.
fn push_string(text: &mut String, value: &str) {
    let plain = value.bytes().all(|byte| byte >= 0x20 && byte != b'"' && byte != b'\\');
    if plain {
        text.push('"');
        text.push_str(value);
        text.push('"');
    } else {
        text.push_str(&Value::from(value).to_string());
    }
}

#[cfg(test)]
mod tests;
