//! Requests that pass, requests that do not, and what is said about each.

use serde_json::json;

use super::*;
use crate::contract::query::{Days, SCHEMA as QUERY_SCHEMA};
use crate::contract::schema;
use crate::contract::vocabulary::Warning;

fn minimal() -> Value {
    json!({
        "schema_version": "summary_request.v1",
        "request_id": "r1",
        "created_at": "2026-02-11T23:02:11Z",
        "requested_by": {"repo": "crm_layer", "component": "digest", "version": "dev"},
        "urgency": "now",
        "work": {
            "output_bus": "summary_bus",
            "output_kind": "summary_item",
            "summary_kind": "event_summary",
            "summary_subkind": "ops_brief",
            "flow_ref": {"kind": "registry", "flow_id": "ops.run.summarize.pipeline_run.v1"},
        },
        "input": {"mode": "ids", "bus": "event_bus", "ids": ["evt_1", "evt_2"]},
    })
}

fn with(pointer: &str, value: Value) -> Value {
    let mut record = minimal();
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    record.pointer_mut(parent).unwrap()[name] = value;
    record
}

fn without(pointer: &str) -> Value {
    let mut record = minimal();
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    record.pointer_mut(parent).unwrap().as_object_mut().unwrap().shift_remove(name).unwrap();
    record
}

fn parse(record: &Value) -> Result<Request, Refusal> {
    Request::parse(record.to_string().as_bytes())
}

fn places(record: &Value) -> Vec<String> {
    let refusal = parse(record).unwrap_err();
    assert_eq!(refusal.reason, QuarantineReason::SchemaViolation);
    refusal.errors.into_iter().map(|error| error.pointer).collect()
}

fn reason(line: &[u8]) -> &'static str {
    Request::parse(line).unwrap_err().reason.as_str()
}

#[test]
fn the_smallest_request_is_read_with_its_defaults() {
    let request = parse(&minimal()).unwrap();
    assert_eq!(request.request_id, "r1");
    assert_eq!(request.created_at.to_string(), "2026-02-11T23:02:11.000Z");
    assert_eq!(request.priority, 3);
    assert_eq!(request.requested_by.git_commit, None);
    assert_eq!(request.work.kind, SummaryKind::EventSummary);
    assert!(request.work.params.is_empty());
    let ids = vec!["evt_1".to_owned(), "evt_2".to_owned()];
    assert_eq!(request.input, Input::Ids { bus: Bus::EventBus, ids });
    assert_eq!(request.warnings, Warnings::default());
    assert!(request.kind_fits());
}

#[test]
fn every_required_member_is_required_and_named() {
    for pointer in [
        "/schema_version",
        "/request_id",
        "/created_at",
        "/requested_by",
        "/requested_by/repo",
        "/requested_by/component",
        "/requested_by/version",
        "/urgency",
        "/work",
        "/work/output_bus",
        "/work/output_kind",
        "/work/summary_kind",
        "/work/summary_subkind",
        "/work/flow_ref",
        "/work/flow_ref/kind",
        "/work/flow_ref/flow_id",
        "/input",
        "/input/mode",
        "/input/bus",
        "/input/ids",
    ] {
        let (parent, name) = pointer.rsplit_once('/').unwrap();
        let refusal = parse(&without(pointer)).unwrap_err();
        assert_eq!(refusal.errors.len(), 1, "{pointer}: {refusal:?}");
        assert_eq!(refusal.errors[0].pointer, parent);
        assert!(refusal.errors[0].message.contains(name), "{refusal:?}");
        let id = (pointer != "/request_id").then(|| "r1".to_owned());
        assert_eq!(refusal.request_id, id);
    }
}

#[test]
fn wrong_values_are_named_by_place() {
    for (pointer, value) in [
        ("/schema_version", json!("summary_request.v2")),
        ("/request_id", json!("")),
        ("/request_id", json!(7)),
        ("/created_at", json!("2026-02-11 23:02:11Z")),
        ("/created_at", json!("2026-02-30T00:00:00Z")),
        ("/urgency", json!("soon")),
        ("/deadline", json!("2026-02-11T24:00:01Z")),
        ("/not_before", json!(7)),
        ("/priority", json!(0)),
        ("/priority", json!(6)),
        ("/priority", json!(2.5)),
        ("/priority", json!("3")),
        ("/idempotency_key", json!("")),
        ("/trace", json!({"host": 1}).get("host").unwrap().clone()),
        ("/notes", json!([])),
        ("/work/output_bus", json!("digest_bus")),
        ("/work/summary_kind", json!("email_summary")),
        ("/work/flow_ref/kind", json!("path")),
        ("/work/flow_ref/flow_id", json!("")),
        ("/work/flow_ref/variant", json!(1)),
        ("/work/flow_ref/flow_id", json!(null)),
        ("/work/params", json!([])),
        ("/input/mode", json!("all")),
        ("/input/bus", json!("summary_bus")),
        ("/input/ids", json!([])),
        ("/input/ids", json!("evt_1")),
    ] {
        assert_eq!(places(&with(pointer, value.clone())), [pointer], "{value}");
    }
    assert_eq!(places(&with("/input/ids", json!(["a", 1, ""]))), ["/input/ids/1", "/input/ids/2"]);
    assert_eq!(places(&with("/trace", json!({"user": 1}))), ["/trace/user"]);
}

#[test]
fn all_violations_are_listed_and_many_are_counted() {
    let mut record = with("/priority", json!(9));
    record["urgency"] = json!("scheduled");
    record["work"]["output_kind"] = json!(1);
    assert_eq!(places(&record), ["", "/priority", "/work/output_kind"]);
    let numbers: Vec<u32> = (0..250).collect();
    let refusal = parse(&with("/input/ids", json!(numbers))).unwrap_err();
    assert_eq!((refusal.errors.len(), refusal.errors_omitted), (100, 150));
}

#[test]
fn scheduled_needs_a_time() {
    assert_eq!(places(&with("/urgency", json!("scheduled"))), [""]);
    let mut record = with("/urgency", json!("scheduled"));
    record["not_before"] = json!("2026-02-12T09:00:00+01:00");
    let request = parse(&record).unwrap();
    assert_eq!(request.not_before.unwrap().to_string(), "2026-02-12T08:00:00.000Z");
}

#[test]
fn unknown_members_are_read_over_everywhere_but_in_the_query() {
    let mut record = minimal();
    for place in ["", "/requested_by", "/work", "/work/flow_ref", "/input"] {
        record.pointer_mut(place).unwrap()["x_new"] = json!({"a": [null, 1e3, {"b": true}]});
    }
    record["trace"] = json!({"span": 7});
    record["input"]["query"] = json!("of another mode");
    parse(&record).unwrap();

    let query = json!({"schema_version": QUERY_SCHEMA, "day": "2026-02-11", "sort": "asc"});
    let input = json!({"mode": "query", "bus": "event_bus", "query": query});
    assert_eq!(places(&with("/input", input)), ["/input/query"]);
}

#[test]
fn an_untidy_request_is_accepted_with_warnings() {
    let mut record = with("/input/ids", json!(["b", " a", "b", "a "]));
    record["created_at"] = json!("2026-02-11T23:02:11");
    let request = parse(&record).unwrap();
    let Input::Ids { ids, .. } = &request.input else { panic!("{request:?}") };
    assert_eq!(ids, &["b", " a", "a "]);
    let warnings: Vec<_> = request.warnings.iter().collect();
    assert_eq!(warnings, [Warning::TimestampWithoutOffset, Warning::RepeatedIds]);
    let many: Vec<String> = (0..100).map(|index| format!("id{}", index % 60)).collect();
    let request = parse(&with("/input/ids", json!(many))).unwrap();
    assert_eq!(request.input, Input::Ids { bus: Bus::EventBus, ids: many[..60].to_vec() });
}

#[test]
fn an_integer_is_one_however_it_is_written() {
    for text in ["2", "2.0", "2e0", "20e-1"] {
        let line = minimal().to_string().replacen('{', &format!("{{\"priority\":{text},"), 1);
        assert_eq!(Request::parse(line.as_bytes()).unwrap().priority, 2, "{text}");
    }
}

#[test]
fn modes_may_come_in_any_order_of_members() {
    let line = minimal().to_string();
    let tail = r#""input":{"ids":["evt_1","evt_2"],"query":[],"bus":"event_bus","mode":"ids"}}"#;
    let (head, _) = line.split_once("\"input\"").unwrap();
    let turned = format!("{head}{tail}");
    assert_eq!(Request::parse(turned.as_bytes()), parse(&minimal()));
    let twice = turned.replace("\"query\":[]", "\"bus\":\"event_bus\"");
    assert_eq!(reason(twice.as_bytes()), "duplicate_member");
}

#[test]
fn queries_are_settled_against_their_bus() {
    let ask = |bus: &str, query: Value| {
        with("/input", json!({"query": query, "mode": "query", "bus": bus}))
    };
    let query = json!({"schema_version": QUERY_SCHEMA, "day_from": "2026-02-10",
        "day_to": "2026-02-11", "where": {"role": "user"}, "limit": 10.0});
    let request = parse(&ask("event_bus", query.clone())).unwrap();
    let Input::Query { query: parsed, .. } = &request.input else { panic!("{request:?}") };
    assert_eq!(parsed.limit, Some(10));
    assert!(matches!(parsed.days, Days::Range(..)));
    assert!(schema::check(QUERY_SCHEMA, &parsed.to_value()).is_empty());

    assert_eq!(places(&ask("session_bus", query.clone())), ["/input/query/where/role"]);
    assert_eq!(places(&ask("other", query.clone())), ["/input/query/where/role"]);
    let mut bad = query.clone();
    bad["day_to"] = json!("2026-02-09");
    assert_eq!(places(&ask("event_bus", bad.clone())), ["/input/query/day_to"]);
    bad["day_to"] = json!("2026-02-31");
    assert_eq!(places(&ask("event_bus", bad.clone())), ["/input/query/day_to"]);
    bad["day"] = json!("2026-02-10");
    assert_eq!(
        places(&ask("event_bus", bad.clone())),
        ["/input/query/day_from", "/input/query/day_to"]
    );
    for limit in [json!(0), json!(1001), json!("1")] {
        let mut bad = query.clone();
        bad["limit"] = limit;
        assert_eq!(places(&ask("event_bus", bad)), ["/input/query/limit"]);
    }
}

#[test]
fn the_classes_of_bad_lines() {
    let good = minimal().to_string();
    assert_eq!(reason(b"\xff{}"), "not_utf8");
    assert_eq!(reason(b""), "malformed_json");
    assert_eq!(reason(b"{"), "malformed_json");
    assert_eq!(reason(b"[1,2"), "malformed_json");
    assert_eq!(reason(format!("{good}{good}").as_bytes()), "malformed_json");
    assert_eq!(reason(format!("{good} x").as_bytes()), "malformed_json");
    assert_eq!(reason(b"\0\0\0\0"), "malformed_json");
    assert_eq!(reason(br#"{"a":"\ud800"}"#), "malformed_json");
    assert_eq!(reason(br#"{"a":1e999}"#), "malformed_json");
    assert_eq!(reason(b"[]"), "not_an_object");
    assert_eq!(reason(b"\"{}\""), "not_an_object");
    assert_eq!(reason(b"{}"), "schema_violation");
    assert_eq!(reason(br#"{"a":1,"a":2}"#), "duplicate_member");
    assert_eq!(reason(br#"{"a":1,"a":1e999}"#), "malformed_json");
    assert_eq!(reason(br#"{"x":[{"y":{"b":1,"\u0062":2}}]}"#), "duplicate_member");
    let holes = format!("\0\0{good}");
    let refusal = Request::parse(holes.as_bytes()).unwrap_err();
    assert!(refusal.errors[0].message.contains("NUL"), "{refusal:?}");
}

#[test]
fn a_member_twice_is_refused_at_every_depth_of_a_good_request() {
    let good = minimal().to_string();
    for (once, twice) in [
        ("\"request_id\":\"r1\"", "\"request_id\":\"r1\",\"request_id\":\"r1\""),
        ("\"repo\":", "\"repo\":\"a\",\"repo\":"),
        ("\"flow_id\":", "\"flow_id\":\"a\",\"flow_id\":"),
        ("\"mode\":", "\"mode\":\"ids\",\"mode\":"),
        ("\"urgency\":", "\"x\":{\"y\":[{\"z\":1,\"z\":1}]},\"urgency\":"),
        ("\"output_bus\":", "\"params\":{\"p\":{\"q\":1,\"q\":1}},\"output_bus\":"),
    ] {
        let line = good.replacen(once, twice, 1);
        assert_ne!(line, good);
        let refusal = Request::parse(line.as_bytes()).unwrap_err();
        assert_eq!(refusal.reason, QuarantineReason::DuplicateMember, "{line}");
        let known = !twice.starts_with("\"request_id\"");
        assert_eq!(refusal.request_id.is_some(), known, "{line}");
    }
}

#[test]
fn nesting_is_bounded_exactly() {
    // The line itself is level 1, so the value of a member of it may have one level less.
    let nested = |levels: usize| {
        let value = format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        minimal().to_string().replacen('{', &format!("{{\"x\":{value},"), 1)
    };
    let most = crate::limits::JSON_DEPTH_MAX - 1;
    Request::parse(nested(most).as_bytes()).unwrap();
    let refusal = Request::parse(nested(most + 1).as_bytes()).unwrap_err();
    assert_eq!(refusal.reason, QuarantineReason::TooDeep);
    assert_eq!(refusal.request_id.as_deref(), Some("r1"));
    assert_eq!(reason(nested(200_000).as_bytes()), "too_deep");
    assert_eq!(reason("[".repeat(200_000).as_bytes()), "malformed_json");
}

#[test]
fn many_unknown_members_take_no_quadratic_time_and_are_still_checked() {
    let mut record = minimal();
    for index in 0..20_000 {
        record[format!("x{index}")] = json!(index);
    }
    parse(&record).unwrap();
    let line = record.to_string().replacen('{', "{\"x19999\":0,", 1);
    assert_eq!(reason(line.as_bytes()), "duplicate_member");
}

#[test]
fn kind_and_bus_are_judged_apart() {
    let request = parse(&with("/input/bus", json!("chunk_bus"))).unwrap();
    assert!(!request.kind_fits());
    let manifest = json!({"mode": "selection_manifest", "manifest_path": "m.json",
        "selection_hash": "sha256:9d1c..."});
    assert!(parse(&with("/input", manifest)).unwrap().kind_fits());
}

#[test]
fn a_given_key_has_its_own_namespace() {
    let derived = parse(&minimal()).unwrap().effective_key();
    assert!(derived.derived);
    let given = parse(&with("/idempotency_key", json!(derived.text))).unwrap().effective_key();
    assert_eq!(given.text, derived.text);
    assert_ne!(given.digest, derived.digest);
}

#[test]
fn the_derived_key_hashes_the_canonical_work() {
    let mut record = with("/input/ids", json!(["b", "é\n", "a", "b"]));
    record["work"]["params"] = json!({"z": 1.0, "a": [true, "\u{7f}\u{1}"]});
    record["work"]["flow_ref"]["variant"] = json!("str\"ict");
    let expected = json!({
        "flow_id": "ops.run.summarize.pipeline_run.v1",
        "input": {"mode": "ids", "bus": "event_bus", "ids": ["a", "b", "é\n"]},
        "params": {"a": [true, "\u{7f}\u{1}"], "z": 1},
        "summary_kind": "event_summary",
        "summary_subkind": "ops_brief",
        "variant": "str\"ict",
    });
    let key = parse(&record).unwrap().effective_key();
    assert_eq!(key.digest, json::jcs_hash(&expected));
    assert_eq!(key.text, format!("derived:{}", key.digest));
    assert_eq!(
        parse(&minimal()).unwrap().effective_key().text,
        "derived:edefcef9d0342148a78d13f1b277898d83b903e34185b82ef0e06dd345d9c946"
    );
}

#[test]
fn the_derived_key_sees_the_work_and_nothing_else() {
    let key = |record: &Value| parse(record).unwrap().effective_key().digest;
    let base = key(&minimal());
    for (pointer, value) in [
        ("/request_id", json!("r2")),
        ("/priority", json!(1)),
        ("/notes", json!("again")),
        ("/created_at", json!("2026-02-12T00:00:00Z")),
        ("/work/params", json!({})),
        ("/work/params", json!({"a": null})),
        ("/input/ids", json!(["evt_2", "evt_1", "evt_2"])),
    ] {
        assert_eq!(key(&with(pointer, value)), base, "{pointer}");
    }
    for (pointer, value) in [
        ("/work/summary_kind", json!("other")),
        ("/work/summary_subkind", json!("x")),
        ("/work/flow_ref/flow_id", json!("x")),
        ("/work/flow_ref/variant", json!("")),
        ("/work/params", json!({"a": 1})),
        ("/input/ids", json!(["evt_1"])),
        ("/input/bus", json!("other")),
    ] {
        assert_ne!(key(&with(pointer, value)), base, "{pointer}");
    }
    let manifest = |hash: String| {
        let input = json!({"mode": "selection_manifest", "manifest_path": "m.json",
            "selection_hash": hash});
        key(&with("/input", input))
    };
    let digest = sha256("x");
    assert_eq!(manifest(digest.hex()), manifest(digest.prefixed()));
    assert_ne!(manifest(digest.hex()), manifest("sha256:9d1c...".into()));
}

#[test]
fn the_query_schema_is_bundled_unchanged() {
    let read = |name| serde_json::from_str::<Value>(schema::text(name).unwrap()).unwrap();
    let mut alone = read(QUERY_SCHEMA);
    for name in ["$schema", "$id"] {
        alone.as_object_mut().unwrap().shift_remove(name).unwrap();
    }
    assert_eq!(read(SCHEMA)["$defs"][QUERY_SCHEMA], alone);
}

#[test]
fn optional_members_that_are_null_are_absent() {
    let mut record: Value =
        serde_json::from_str(include_str!("../../../tests/fixtures/seam/request_a.json")).unwrap();
    record["work"]["flow_ref"].as_object_mut().unwrap().remove("variant");
    for (place, name) in [
        ("", "not_before"),
        ("", "deadline"),
        ("", "priority"),
        ("", "idempotency_key"),
        ("", "trace"),
        ("", "notes"),
        ("/requested_by", "git_commit"),
        ("/work/flow_ref", "variant"),
        ("/work", "params"),
    ] {
        record.pointer_mut(place).unwrap()[name] = Value::Null;
        assert_eq!(crate::contract::schema::check(SCHEMA, &record), [], "{name}");
        let with_null = Request::parse(record.to_string().as_bytes()).unwrap();
        record.pointer_mut(place).unwrap().as_object_mut().unwrap().remove(name);
        let without = Request::parse(record.to_string().as_bytes()).unwrap();
        assert_eq!(with_null, without, "{name}");
        assert_eq!(with_null.effective_key(), without.effective_key(), "{name}");
    }
    record["urgency"] = "scheduled".into();
    record["not_before"] = Value::Null;
    assert!(Request::parse(record.to_string().as_bytes()).is_err(), "this one is required");
    assert_ne!(crate::contract::schema::check(SCHEMA, &record), []);
}

#[test]
fn null_members_of_a_query_are_absent() {
    let mut record: Value =
        serde_json::from_str(include_str!("../../../tests/fixtures/seam/request_a.json")).unwrap();
    let query = |query: Value| json!({"mode": "query", "bus": "event_bus", "query": query});
    let version = crate::contract::query::SCHEMA;
    record["input"] = query(json!({
        "schema_version": version, "day": "2026-02-11", "day_from": null, "day_to": null,
        "where": {"role": null}, "limit": null,
    }));
    let with_null = Request::parse(record.to_string().as_bytes()).unwrap();
    assert_eq!(crate::contract::schema::check(SCHEMA, &record), []);
    record["input"] = query(json!({"schema_version": version, "day": "2026-02-11"}));
    let without = Request::parse(record.to_string().as_bytes()).unwrap();
    assert_eq!(with_null.input, without.input);
    record["input"] = query(json!({
        "schema_version": version, "day": null, "day_from": "2026-02-11", "day_to": "2026-02-12",
    }));
    assert!(Request::parse(record.to_string().as_bytes()).is_ok());
    assert_eq!(crate::contract::schema::check(SCHEMA, &record), []);
    record["input"]["query"]["day_to"] = Value::Null;
    assert!(Request::parse(record.to_string().as_bytes()).is_err());
    assert_ne!(crate::contract::schema::check(SCHEMA, &record), []);
}

#[test]
fn large_integers_in_params_keep_their_identity() {
    let line = |number: &str| {
        let record = include_str!("../../../tests/fixtures/seam/request_a.json");
        let mut record: Value = serde_json::from_str(record).unwrap();
        record.as_object_mut().unwrap().remove("idempotency_key");
        record["work"]["params"] = json!({"a": ["NUMBER"]});
        record.to_string().replace("\"NUMBER\"", number)
    };
    let parse = |number: &str| Request::parse(line(number).as_bytes());
    let key = |number: &str| parse(number).unwrap().effective_key();
    assert_ne!(key("9007199254740992"), key("9007199254740993"));
    assert_ne!(key("18446744073709551614"), key("18446744073709551615"));
    assert_ne!(key("-9223372036854775807"), key("-9223372036854775808"));
    assert_eq!(key("1e30"), key("1000000000000000000000000000000.0"));
    // A float that is exactly the integer is the same work. One that is not has no identity, and is refused.
    assert_eq!(key("9007199254740992"), key("9007199254740992.0"));
    for rounded in ["9007199254740993.0", "-9007199254740993.0", "9007199254740992.5"] {
        let refusal = parse(rounded).unwrap_err();
        assert_eq!(refusal.errors[0].pointer, "/work/params");
        assert!(refusal.errors[0].message.contains(rounded), "{:?}", refusal.errors);
    }
    for wide in ["18446744073709551616", "-9223372036854775809", "1000000000000000000000000000000"]
    {
        let refusal = parse(wide).unwrap_err();
        assert_eq!(refusal.errors[0].pointer, "/work/params");
        assert!(refusal.errors[0].message.contains(wide), "{:?}", refusal.errors);
        let record = include_str!("../../../tests/fixtures/seam/request_a.json");
        let mut record: Value = serde_json::from_str(record).unwrap();
        record["input"] = json!({"mode": "query", "bus": "event_bus", "query": {
            "schema_version": crate::contract::query::SCHEMA, "day": "2026-02-11",
            "where": {"conversation_id": "NUMBER"}}});
        let line = record.to_string().replace("\"NUMBER\"", wide);
        let refusal = Request::parse(line.as_bytes()).unwrap_err();
        assert_eq!(refusal.errors[0].pointer, "/input/query/where");
        assert!(refusal.errors[0].message.contains(wide), "{:?}", refusal.errors);
    }
}

#[test]
fn a_parameter_that_is_null_is_absent() {
    let parse = |params: Value| {
        let record = include_str!("../../../tests/fixtures/seam/request_a.json");
        let mut record: Value = serde_json::from_str(record).unwrap();
        record.as_object_mut().unwrap().remove("idempotency_key");
        record["work"]["params"] = params;
        assert_eq!(crate::contract::schema::check(SCHEMA, &record), []);
        Request::parse(record.to_string().as_bytes()).unwrap()
    };
    let (none, null) = (parse(json!({})), parse(json!({"day": null, "topic": null})));
    assert_eq!(parse(Value::Null).effective_key(), none.effective_key());
    assert_eq!((null.effective_key(), &null.work), (none.effective_key(), &none.work));
    // A null inside a value is part of the value.
    let within = parse(json!({"contact": {"name": null}}));
    assert_eq!(within.work.params["contact"], json!({"name": null}));
}

/// A stored request keeps the meaning that it had, whatever rule came later.
#[test]
fn a_stored_request_is_judged_by_the_rules_of_its_time() {
    let record = include_str!("../../../tests/fixtures/seam/request_a.json");
    let mut record: Value = serde_json::from_str(record).unwrap();
    record.as_object_mut().unwrap().remove("idempotency_key");
    record["work"]["params"] = json!({"topic": null, "n": "NUMBER"});
    let line = record.to_string().replace("\"NUMBER\"", "18446744073709551616");
    assert!(Request::parse(line.as_bytes()).is_err(), "a new one is refused");
    let stored = Request::parse_stored(line.as_bytes()).unwrap();
    // The key of before had the null in it.
    let mut before = stored.clone();
    before.work.params =
        serde_json::from_str("{\"topic\": null, \"n\": 18446744073709551616}").unwrap();
    let keys = [stored.effective_key().text, before.effective_key().text];
    assert_ne!(keys[0], keys[1]);
    for key in &keys {
        assert!(stored.had_key(line.as_bytes(), key), "{key}");
    }
    assert!(!stored.had_key(line.as_bytes(), "derived:0"));
}

/// A large number with a fraction or an exponent is none of an integer that does not fit.
#[test]
fn a_wide_integer_is_named_where_it_stands() {
    let record = include_str!("../../../tests/fixtures/seam/request_a.json");
    let mut record: Value = serde_json::from_str(record).unwrap();
    record["work"]["params"] = json!({"x": 1e30});
    record["input"] = json!({"mode": "query", "bus": "event_bus", "query": {
        "schema_version": crate::contract::query::SCHEMA, "day": "2026-02-11",
        "where": {"conversation_id": "NUMBER"}}});
    let line = record.to_string().replace("\"NUMBER\"", "99999999999999999999999");
    let refusal = Request::parse(line.as_bytes()).unwrap_err();
    assert_eq!(refusal.errors[0].pointer, "/input/query/where", "{refusal:?}");
}

#[test]
fn a_line_is_sealed_when_a_parameter_may_hold_words_of_a_text() {
    let may = |params: Value| {
        let mut line = minimal();
        line["work"]["params"] = params;
        Request::parse(line.to_string().as_bytes()).unwrap().may_hold_words()
    };
    for params in [
        json!({"about": "two words"}),
        json!({"about": "Theobald"}),
        json!({"about": "anna@example.org"}),
        json!({"about": "straße"}),
        json!({"about": "a".repeat(41)}),
        json!({"about": {"inner": 1}}),
        json!({"about": ["one"]}),
    ] {
        assert!(may(params.clone()), "{params}");
    }
    let settings =
        json!({"day": "2026-02-11", "language": "es", "n": 3, "publish": false, "x": null});
    assert!(!may(settings) && !may(json!({})));
}
