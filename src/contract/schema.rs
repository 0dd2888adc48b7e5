//! The JSON Schemas (draft 2020-12) of every record we read or write, embedded from `schemas/`
//! and compiled on first use. A schema is never edited after a release; a change is a new version.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, OnceLock};

use jsonschema::error::ValidationErrorKind;
use jsonschema::{Draft, PatternOptions, ValidationError, Validator};
use parking_lot::Mutex;
use serde_json::Value;

mod embedded {
    include!(concat!(env!("OUT_DIR"), "/embedded.rs"));
}

pub(crate) use embedded::REGISTRY;

const SUFFIX: &str = ".schema.json";

/// One violation: where in the record, and what is wrong there.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
pub struct Violation {
    /// JSON pointer into the record; empty for the record itself.
    pub pointer: String,
    /// What is wrong, without quoting long values.
    pub message: String,
}

/// The message with its place. A violation of the whole record has no place.
impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.pointer.as_str() {
            "" => f.write_str(&self.message),
            place => write!(f, "at `{place}`: {}", self.message),
        }
    }
}

/// The names of all embedded schemas, sorted.
pub fn names() -> impl Iterator<Item = &'static str> {
    embedded::SCHEMAS.iter().filter_map(|(path, _)| path.strip_suffix(SUFFIX))
}

/// The text of one schema.
pub fn text(name: &str) -> Option<&'static str> {
    let wanted = format!("{name}{SUFFIX}");
    let (_, bytes) = embedded::SCHEMAS.iter().find(|(path, _)| *path == wanted)?;
    std::str::from_utf8(bytes).ok()
}

/// The compiled validator of one embedded schema.
///
/// Panics when the name is unknown or the schema does not compile: both are mistakes in the
/// source tree that a test finds. Data can never cause them.
pub fn validator(name: &str) -> Arc<Validator> {
    static COMPILED: OnceLock<Mutex<BTreeMap<String, Arc<Validator>>>> = OnceLock::new();
    let cache = COMPILED.get_or_init(Mutex::default);
    if let Some(found) = cache.lock().get(name) {
        return Arc::clone(found);
    }
    let text = text(name).unwrap_or_else(|| panic!("no embedded schema named {name}"));
    let schema: Value =
        serde_json::from_str(text).unwrap_or_else(|error| panic!("schema {name}: {error}"));
    let compiled =
        compile(&schema).unwrap_or_else(|error| panic!("schema {name} does not compile: {error}"));
    Arc::clone(cache.lock().entry(name.to_owned()).or_insert_with(|| Arc::new(compiled)))
}

/// Compiles any schema the way ours are compiled: draft 2020-12 unless it says otherwise, formats
/// asserted, linear-time patterns, no reference ever fetched.
pub(crate) fn compile(schema: &Value) -> Result<Validator, String> {
    jsonschema::options()
        .with_draft(Draft::Draft202012)
        .should_validate_formats(true)
        .with_pattern_options(PatternOptions::regex())
        .build(schema)
        .map_err(|error| error.to_string())
}

/// Takes out of a value what a schema with `"additionalProperties": false` does not declare, through
/// `properties`, `items` and local references, and gives the pointers of what was taken out.
pub fn drop_undeclared(schema: &Value, value: &mut Value) -> Vec<String> {
    let mut dropped = Vec::new();
    drop_at(schema, schema, value, "", 0, &mut dropped);
    dropped
}

fn drop_at(
    root: &Value,
    schema: &Value,
    value: &mut Value,
    place: &str,
    depth: usize,
    dropped: &mut Vec<String>,
) {
    /// Deepest nesting followed: references may go in circles.
    const DEPTH_MAX: usize = 64;
    if depth > DEPTH_MAX {
        return;
    }
    let target = schema.get("$ref").and_then(Value::as_str).and_then(|at| at.strip_prefix('#'));
    if let Some(target) = target.and_then(|pointer| root.pointer(pointer)) {
        return drop_at(root, target, value, place, depth + 1, dropped);
    }
    let at = |key: &str| format!("{place}/{}", key.replace('~', "~0").replace('/', "~1"));
    match value {
        Value::Object(members) => {
            let properties = schema.get("properties").and_then(Value::as_object);
            let is_closed = schema.get("additionalProperties") == Some(&Value::Bool(false))
                && schema.get("patternProperties").is_none();
            let knows = |key: &str| properties.is_some_and(|known| known.contains_key(key));
            if is_closed {
                dropped.extend(members.keys().filter(|key| !knows(key)).map(|key| at(key)));
                members.retain(|key, _| knows(key));
            }
            for (key, member) in members.iter_mut() {
                if let Some(schema) = properties.and_then(|known| known.get(key)) {
                    drop_at(root, schema, member, &at(key), depth + 1, dropped);
                }
            }
        }
        Value::Array(items) => {
            let Some(schema) = schema.get("items").filter(|items| items.is_object()) else {
                return;
            };
            for (index, item) in items.iter_mut().enumerate() {
                drop_at(root, schema, item, &at(&index.to_string()), depth + 1, dropped);
            }
        }
        _ => {}
    }
}

/// The first violations of a compiled schema by an answer, sorted by place. They quote no word of it: the message of a
/// failed attempt stays in the log when the answer is forgotten.
pub(crate) fn violations_unquoted(
    validator: &Validator,
    value: &Value,
    most: usize,
) -> Vec<Violation> {
    let errors = validator.iter_errors(value).take(most);
    let mut found: Vec<Violation> = errors.map(|error| unquoted(&error)).collect();
    found.sort();
    found.dedup();
    found
}

fn unquoted(error: &ValidationError<'_>) -> Violation {
    let message = match error.kind() {
        // These name members, which an answer invents.
        ValidationErrorKind::AdditionalProperties { .. }
        | ValidationErrorKind::UnevaluatedProperties { .. }
        | ValidationErrorKind::PropertyNames { .. } => {
            "it has members that the schema does not know".to_owned()
        }
        _ => shorten(&error.masked().to_string()),
    };
    // Where a schema lets an answer name members itself, the place is told by the rule.
    let rule = error.schema_path().to_string();
    let free =
        ["additionalProperties", "patternProperties", "unevaluatedProperties", "propertyNames"];
    // The last part is the rule that is broken, and says nothing of the place.
    let above = rule.rsplit_once('/').map_or("", |(above, _)| above);
    let is_free = above.split('/').any(|part| free.contains(&part));
    let pointer = if is_free { rule } else { error.instance_path().to_string() };
    Violation { pointer, message }
}

/// Every violation of a compiled schema, sorted by place.
pub fn violations(validator: &Validator, value: &Value) -> Vec<Violation> {
    if validator.is_valid(value) {
        return Vec::new();
    }
    let mut found: Vec<Violation> = validator
        .iter_errors(value)
        .map(|error| Violation {
            pointer: error.instance_path().to_string(),
            message: shorten(&error.to_string()),
        })
        .collect();
    found.sort();
    found.dedup();
    found
}

/// Every violation of an embedded schema, sorted by place.
pub fn check(name: &str, value: &Value) -> Vec<Violation> {
    violations(&validator(name), value)
}

/// The first violations of an embedded schema, sorted by place, and how many more there are.
/// For untrusted values: omitted violations take no memory. Only words and numbers are quoted, because a message of the
/// log stays when its line is forgotten.
pub(crate) fn check_bounded(name: &str, value: &Value, most: usize) -> (Vec<Violation>, u64) {
    violations_bounded(&validator(name), value, most)
}

/// The same for a compiled schema.
pub(crate) fn violations_bounded(
    validator: &Validator,
    value: &Value,
    most: usize,
) -> (Vec<Violation>, u64) {
    let mut errors = validator.iter_errors(value);
    let mut found: Vec<Violation> = errors
        .by_ref()
        .take(most)
        .map(|error| Violation {
            pointer: error.instance_path().to_string(),
            message: kept(&error),
        })
        .collect();
    let omitted = errors.count() as u64;
    found.sort();
    found.dedup();
    (found, omitted)
}

/// A violation as a message tells it that is kept for ever.
fn kept(error: &ValidationError<'_>) -> String {
    let names = match error.kind() {
        ValidationErrorKind::AdditionalProperties { unexpected }
        | ValidationErrorKind::UnevaluatedProperties { unexpected } => unexpected.as_slice(),
        _ => &[],
    };
    if names.iter().any(|name| !is_quotable(&Value::String(name.clone()))) {
        return "it has members that the schema does not know".to_owned();
    }
    shorten(&match is_quotable(error.instance()) {
        true => error.to_string(),
        false => error.masked().to_string(),
    })
}

/// Whether a message that is kept may quote a value: one word is the name of something, several words are a text.
pub(crate) fn is_quotable(value: &Value) -> bool {
    match value {
        Value::String(text) => text.len() <= 64 && !text.contains(char::is_whitespace),
        Value::Array(_) | Value::Object(_) => false,
        Value::Null | Value::Bool(_) | Value::Number(_) => true,
    }
}

fn shorten(message: &str) -> String {
    const LIMIT: usize = 300;
    match message.char_indices().nth(LIMIT) {
        Some((end, _)) => format!("{}…", &message[..end]),
        None => message.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_schema_compiles_and_names_itself() {
        for name in names() {
            validator(name);
            let schema: Value = serde_json::from_str(text(name).unwrap()).unwrap();
            assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema", "{name}");
            assert!(schema["title"].is_string(), "{name} has no title");
            assert!(schema["description"].is_string(), "{name} has no description");
        }
    }

    #[test]
    fn only_what_a_closed_schema_does_not_know_is_dropped() {
        let schema: Value = serde_json::from_str(
            r##"{"type": "object", "additionalProperties": false, "$defs": {"one": {"additionalProperties": false,
            "properties": {"a": {}, "next": {"$ref": "#/$defs/one"}}}}, "properties": {"open": {"type": "object"},
            "list": {"items": {"$ref": "#/$defs/one"}}, "named": {"additionalProperties": {"type": "integer"}}}}"##,
        )
        .unwrap();
        let mut value: Value = serde_json::from_str(
            r#"{"x/y": 1, "open": {"z": 1}, "named": {"n": 1}, "list": [{"a": 1, "b": 2}, 3,
            {"next": {"next": {"c": 1}}}]}"#,
        )
        .unwrap();
        let dropped = drop_undeclared(&schema, &mut value);
        assert_eq!(dropped, ["/x~1y", "/list/0/b", "/list/2/next/next/c"]);
        let kept = r#"{"open":{"z":1},"named":{"n":1},"list":[{"a":1},3,{"next":{"next":{}}}]}"#;
        assert_eq!(value.to_string(), kept);
        let circle = serde_json::json!({"$ref": "#"});
        assert!(drop_undeclared(&circle, &mut value).is_empty());
    }

    #[test]
    fn messages_are_bounded() {
        assert_eq!(shorten(&"é".repeat(1000)).chars().count(), 301);
    }
}
