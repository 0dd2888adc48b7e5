//! Seeded mutation of kept queue lines: the typed reader and the JSON Schema agree on every line, and a
//! refusal has a reason. A line that breaks this belongs in `corpus/queue_line`.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value, json};
use summarizer::contract::request::{Refusal, Request, SCHEMA};
use summarizer::contract::schema;
use summarizer::contract::vocabulary::QuarantineReason;
use summarizer::limits::{JSON_DEPTH_MAX, VIOLATIONS_MAX};

/// The fuzz target: the rules for any bytes.
fn check_line(line: &[u8]) {
    let result = Request::parse(line);
    if let Err(refusal) = &result {
        assert!(!refusal.errors.is_empty() && refusal.errors.len() <= VIOLATIONS_MAX);
        assert!(refusal.errors.iter().all(|error| error.message.chars().count() <= 400));
    }
    let reason = result.as_ref().err().map(|refusal| refusal.reason);
    let Ok(text) = std::str::from_utf8(line) else {
        assert_eq!(reason, Some(QuarantineReason::NotUtf8));
        return;
    };
    let Ok(value) = serde_json::from_str::<Value>(text) else {
        // serde_json stops at 128 levels; such a line is not malformed for this reason alone.
        let expected = [Some(QuarantineReason::MalformedJson), Some(QuarantineReason::TooDeep)];
        assert!(expected.contains(&reason), "{reason:?}");
        return;
    };
    if !value.is_object() {
        assert_eq!(reason, Some(QuarantineReason::NotAnObject));
    } else if depth(&value) > JSON_DEPTH_MAX {
        // A repeated member may hide a deep value.
        assert_eq!(reason, Some(QuarantineReason::TooDeep));
    } else if members_of_text(text) > members(&value) {
        let expected = [Some(QuarantineReason::DuplicateMember), Some(QuarantineReason::TooDeep)];
        assert!(expected.contains(&reason), "{reason:?}");
    } else {
        agree(&value, result);
    }
}

fn agree(value: &Value, result: Result<Request, Refusal>) {
    let violations = schema::check(SCHEMA, value);
    match result {
        Ok(request) => {
            assert_eq!(violations, [], "{value}");
            let digest = request.effective_key().digest;
            let again = Request::parse(value.to_string().as_bytes()).unwrap();
            assert_eq!(again, request);
            assert_eq!(again.effective_key().digest, digest);
        }
        Err(refusal) if violations.is_empty() => {
            assert_eq!(refusal.reason, QuarantineReason::SchemaViolation);
            let beyond = ["/created_at", "/not_before", "/deadline", "/input/query", "/input/bus"];
            for error in refusal.errors {
                assert!(beyond.iter().any(|p| error.pointer.starts_with(p)), "{error:?} {value}");
            }
        }
        Err(refusal) => {
            assert_eq!(refusal.reason, QuarantineReason::SchemaViolation);
            assert!(refusal.errors_omitted > 0 || places(&refusal.errors) == places(&violations));
            assert_eq!(refusal.request_id.as_deref(), value["request_id"].as_str());
        }
    }
}

fn places(violations: &[schema::Violation]) -> Vec<&str> {
    violations.iter().map(|violation| violation.pointer.as_str()).collect()
}

fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(members) => 1 + members.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

fn members(value: &Value) -> usize {
    match value {
        Value::Array(items) => items.iter().map(members).sum(),
        Value::Object(found) => found.len() + found.values().map(members).sum::<usize>(),
        _ => 0,
    }
}

/// Counts the members in the text; a repeated member counts each time.
fn members_of_text(text: &str) -> usize {
    Count.deserialize(&mut serde_json::Deserializer::from_str(text)).unwrap()
}

struct Count;

impl<'de> DeserializeSeed<'de> for Count {
    type Value = usize;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<usize, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Count {
    type Value = usize;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("anything")
    }

    fn visit_unit<E>(self) -> Result<usize, E> {
        Ok(0)
    }

    fn visit_bool<E>(self, _: bool) -> Result<usize, E> {
        Ok(0)
    }

    fn visit_u64<E>(self, _: u64) -> Result<usize, E> {
        Ok(0)
    }

    fn visit_i64<E>(self, _: i64) -> Result<usize, E> {
        Ok(0)
    }

    fn visit_f64<E>(self, _: f64) -> Result<usize, E> {
        Ok(0)
    }

    fn visit_str<E>(self, _: &str) -> Result<usize, E> {
        Ok(0)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<usize, A::Error> {
        let mut sum = 0;
        while let Some(count) = seq.next_element_seed(Count)? {
            sum += count;
        }
        Ok(sum)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<usize, A::Error> {
        let mut sum = 0;
        while map.next_key::<String>()?.is_some() {
            sum += 1 + map.next_value_seed(Count)?;
        }
        Ok(sum)
    }
}

/// SplitMix64: the same lines from the same seed on every machine.
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.roll() % bound.max(1) as u64) as usize
    }

    fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }
}

fn corpus() -> Vec<(String, Vec<u8>)> {
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/corpus/queue_line");
    let mut kept: Vec<_> = std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| (path.display().to_string(), std::fs::read(&path).unwrap()))
        .collect();
    kept.sort();
    assert!(kept.len() >= 18, "the corpus is there");
    kept
}

/// Values near the borders of the schema.
fn palette() -> Vec<Value> {
    let mut values = vec![
        json!(null),
        json!(true),
        json!(0),
        json!(1),
        json!(5),
        json!(6),
        json!(-1),
        json!(3.0),
        json!(2.5),
        json!(1e300),
        json!(u64::MAX),
        json!(""),
        json!([]),
        json!({}),
        json!(["a", "a", "b"]),
        json!(["a", ""]),
        json!([1]),
        json!({"mode": "ids"}),
        json!({"day": "2026-02-11"}),
        json!({"role": "user", "document_id": 7}),
        json!({"role": null}),
    ];
    let words = [
        "now",
        "scheduled",
        "ids",
        "selection_manifest",
        "query",
        "event_bus",
        "session_bus",
        "chunk_bus",
        "other",
        "summary_bus",
        "summary_item",
        "registry",
        "event_summary",
        "document_summary",
        "summary_request.v1",
        "summary_request_query.v1",
        "2026-02-11",
        "2026-02-31",
        "2026-2-1",
        "2026-02-11T23:02:11Z",
        "2026-02-11T23:02:11",
        "2026-02-11T23:02:11.123456789+05:30",
        "2026-02-30T23:02:11Z",
        "2026-02-11T24:00:00Z",
        "2026-02-11T23:02:60Z",
        "2026-02-11T23:02:11.Z",
        "2026-02-11T23:02:11+24:00",
        "2026-02-11t23:02:11z",
        "2026-02-11 23:02:11Z",
        "٢026-02-11T23:02:11Z",
        "2026-02-11T23:02:11Z\n",
        "0000-00-00T00:00:00-00:00",
        "9999-12-31T23:59:59.9Z",
    ];
    values.extend(words.map(Value::from));
    values
}

const NAMES: &[&str] = &[
    "schema_version",
    "request_id",
    "created_at",
    "requested_by",
    "repo",
    "component",
    "version",
    "git_commit",
    "urgency",
    "not_before",
    "deadline",
    "priority",
    "idempotency_key",
    "trace",
    "run_id",
    "host",
    "user",
    "notes",
    "work",
    "output_bus",
    "output_kind",
    "summary_kind",
    "summary_subkind",
    "flow_ref",
    "kind",
    "flow_id",
    "variant",
    "params",
    "input",
    "mode",
    "bus",
    "ids",
    "manifest_path",
    "selection_hash",
    "query",
    "day",
    "day_from",
    "day_to",
    "where",
    "limit",
    "role",
    "session_id",
    "x",
    "",
];

/// Changes one place of a record: another value, a member more, less, renamed or moved.
fn mutate_tree(value: &mut Value, dice: &mut Dice, palette: &[Value]) {
    let descend = dice.below(3) > 0;
    match value {
        Value::Object(members) if descend && !members.is_empty() => {
            let index = dice.below(members.len());
            let child = members.values_mut().nth(index).unwrap();
            mutate_tree(child, dice, palette);
        }
        Value::Array(items) if descend && !items.is_empty() => {
            let index = dice.below(items.len());
            mutate_tree(&mut items[index], dice, palette);
        }
        Value::Object(members) => mutate_members(members, dice, palette),
        Value::Array(items) => items.push(dice.pick(palette).clone()),
        other => *other = dice.pick(palette).clone(),
    }
}

fn mutate_members(members: &mut Map<String, Value>, dice: &mut Dice, palette: &[Value]) {
    let names: Vec<String> = members.keys().cloned().collect();
    match dice.below(4) {
        0 => {
            members.insert((*dice.pick(NAMES)).to_owned(), dice.pick(palette).clone());
        }
        1 if !names.is_empty() => {
            members.shift_remove(dice.pick(&names));
        }
        2 if !names.is_empty() => {
            let value = members.shift_remove(dice.pick(&names)).unwrap();
            members.insert((*dice.pick(NAMES)).to_owned(), value);
        }
        _ if !names.is_empty() => {
            let name = dice.pick(&names);
            let value = members.shift_remove(name).unwrap();
            members.insert(name.clone(), value);
        }
        _ => {}
    }
}

/// Changes bytes, or splices two lines.
fn mutate_bytes(line: &mut Vec<u8>, other: &[u8], dice: &mut Dice) {
    const BYTES: &[u8] = b"\0\"\\{}[],:019.eE+-truefalsenull \n\r\x7f\x80\xc3\xff";
    let at = dice.below(line.len() + 1);
    match dice.below(6) {
        0 => line.truncate(at),
        1 => line.insert(at, *dice.pick(BYTES)),
        2 if at < line.len() => line[at] = *dice.pick(BYTES),
        3 if at < line.len() => {
            line.remove(at);
        }
        4 => {
            let from = dice.below(other.len() + 1);
            line.truncate(at);
            line.extend_from_slice(&other[from..]);
        }
        _ => {
            // A part is repeated, which can repeat a member.
            let end = at + dice.below(line.len() + 1 - at);
            let piece = line[at..end].to_vec();
            line.splice(at..at, piece);
        }
    }
}

fn rounds() -> u64 {
    if std::env::var_os("CI_DEEP").is_some() { 500_000 } else { 20_000 }
}

#[test]
fn the_kept_lines_keep_the_rules() {
    for (name, line) in corpus() {
        println!("{name}");
        check_line(&line);
    }
}

#[test]
fn changed_records_keep_the_rules() {
    let palette = palette();
    let records: Vec<Value> =
        corpus().iter().filter_map(|(_, line)| serde_json::from_slice(line).ok()).collect();
    let mut accepted = 0;
    for seed in 0..rounds() {
        let mut dice = Dice(seed);
        let mut record = dice.pick(&records).clone();
        for _ in 0..=dice.below(3) {
            mutate_tree(&mut record, &mut dice, &palette);
        }
        println!("seed {seed}");
        let line = record.to_string();
        check_line(line.as_bytes());
        accepted += u64::from(Request::parse(line.as_bytes()).is_ok());
    }
    // Both accepted and refused lines occurred.
    assert!(accepted * 20 > rounds() && accepted * 20 < rounds() * 19, "{accepted} accepted");
}

#[test]
fn changed_bytes_keep_the_rules() {
    let kept = corpus();
    for seed in 0..rounds() {
        let mut dice = Dice(seed ^ 0xb17e5);
        let mut line = dice.pick(&kept).1.clone();
        let other = dice.pick(&kept).1.clone();
        for _ in 0..=dice.below(4) {
            mutate_bytes(&mut line, &other, &mut dice);
        }
        println!("seed {seed}");
        check_line(&line);
    }
}
