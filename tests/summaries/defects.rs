//! Upstream that is not what it should be: each defect ends what needs it, and nothing else.

use std::path::Path;

use serde_json::{Value, json};
use summarizer::contract::hash::sha256;

use super::support::process::ProcessHome;
use super::support::requests::lines;
use super::*;

/// How the request ends, and the class and finer code of what it met.
struct Meets {
    reason: &'static str,
    class: &'static str,
    subtype: &'static str,
}

const fn meets(reason: &'static str, class: &'static str, subtype: &'static str) -> Meets {
    Meets { reason, class, subtype }
}

const REJECTED: &str = "rejected_invalid_input";
const MISMATCH: &str = "manifest_mismatch";
const MISSING: &str = "INPUT_MISSING";
const SCHEMA: &str = "SCHEMA_MISMATCH";
const INTEGRITY: &str = "INTEGRITY_MISMATCH";

/// Every code that the contracts of the upstream buses give to a defect of an input, its class, and
/// the code that we report: one code for each defect. Clusters are not read.
const CODES: &[(&str, &str, &str)] = &[
    ("MISSING_DAILY_FILE", MISSING, "MISSING_DAILY_FILE"),
    ("MISSING_EVENTBUS_DAILY_FILE", MISSING, "MISSING_DAILY_FILE"),
    ("MISSING_EVENTBUS_MANIFEST", MISSING, "MISSING_EVENTBUS_MANIFEST"),
    ("MISSING_EVENTBUS_RANGE", MISSING, "MISSING_EVENTBUS_RANGE"),
    ("missing sessions file", MISSING, "MISSING_SESSIONS_FILE"),
    ("missing sessions manifest", MISSING, "MISSING_SESSIONS_MANIFEST"),
    ("missing chunk file", MISSING, "MISSING_CHUNKS_FILE"),
    ("missing chunk manifest", MISSING, "MISSING_CHUNK_MANIFEST"),
    ("MALFORMED_JSONL", SCHEMA, "MALFORMED_JSONL"),
    ("EVENTBUS_MALFORMED_JSONL", SCHEMA, "MALFORMED_JSONL"),
    ("EVENTBUS_SCHEMA_MISMATCH", SCHEMA, "EVENTBUS_SCHEMA_MISMATCH"),
    ("UPSTREAM_INCOMPLETE_REQUIRED_FIELDS", SCHEMA, "EVENTBUS_SCHEMA_MISMATCH"),
    ("TIMESTAMP_OUT_OF_RANGE", SCHEMA, "TIMESTAMP_OUT_OF_RANGE"),
    ("SCHEMA_VERSION_UNSUPPORTED", SCHEMA, "SCHEMA_VERSION_UNSUPPORTED"),
    ("SESSIONS_MALFORMED_JSONL", SCHEMA, "SESSIONS_MALFORMED_JSONL"),
    ("SESSIONS_SCHEMA_MISMATCH", SCHEMA, "SESSIONS_SCHEMA_MISMATCH"),
    ("SCHEMA_INVALID:json_parse", SCHEMA, "SCHEMA_INVALID:json_parse"),
    ("SCHEMA_INVALID:required_field_missing", SCHEMA, "SCHEMA_INVALID:required_field_missing"),
    (
        "PROVENANCE_INVALID:missing_source_checksum",
        SCHEMA,
        "PROVENANCE_INVALID:missing_source_checksum",
    ),
    ("parquet only", SCHEMA, "UNSUPPORTED_FORMAT"),
    ("DUPLICATE_EVENT_ID", INTEGRITY, "DUPLICATE_EVENT_ID"),
    ("MANIFEST_MISMATCH", INTEGRITY, "MANIFEST_MISMATCH"),
    ("EVENTBUS_MANIFEST_MISMATCH", INTEGRITY, "MANIFEST_MISMATCH"),
    ("SESSIONS_DUPLICATE_SESSION_ID", INTEGRITY, "SESSIONS_DUPLICATE_SESSION_ID"),
    ("SESSIONS_REFERENCE_UNKNOWN_EVENT_ID", INTEGRITY, "SESSIONS_REFERENCE_UNKNOWN_EVENT_ID"),
    ("SESSIONS_MANIFEST_MISMATCH", INTEGRITY, "SESSIONS_MANIFEST_MISMATCH"),
    ("INTEGRITY_VIOLATION:duplicate_ids", INTEGRITY, "INTEGRITY_VIOLATION:duplicate_ids"),
    ("INTEGRITY_VIOLATION:manifest_mismatch", INTEGRITY, "INTEGRITY_VIOLATION:manifest_mismatch"),
];

/// What the details of a class must say.
fn required(class: &str) -> &'static [&'static str] {
    match class {
        "INPUT_MISSING" => &["input_name", "expected_path", "expected_manifest_path", "resolution"],
        "SCHEMA_MISMATCH" => &[
            "artifact_family",
            "schema_version_seen",
            "schema_version_supported",
            "validation_error_summary",
            "sample_evidence",
        ],
        "INTEGRITY_MISMATCH" => &[
            "manifest_path",
            "observed_hash",
            "declared_hash",
            "observed_counts",
            "declared_counts",
        ],
        "STORAGE_UNAVAILABLE" => &["storage_kind", "storage_location", "operation", "retryable"],
        _ => panic!("{class} has no details of its own"),
    }
}

fn check_details(error: &Value) {
    let class = error["class"].as_str().unwrap();
    for name in required(class) {
        assert!(error["details"].get(name).is_some(), "{name} is missing: {error}");
    }
}

/// Whether the details name the partition, in the member that says where it is.
fn names(error: &Value, partition: &str) -> bool {
    let member = match error["class"].as_str().unwrap() {
        MISSING => "expected_path",
        SCHEMA => "sample_evidence",
        INTEGRITY => "manifest_path",
        class => panic!("{class} is no class of an input"),
    };
    error["details"][member].as_str().unwrap().contains(partition)
}

/// What the last event of a request says went wrong.
fn error_of(home: &ProcessHome, id: &str) -> Value {
    let shown = home.expect(0, &["--json", "show", id]).json();
    list(&shown["latest"]["events"]).last().unwrap()["facts"]["error"].clone()
}

fn last_ack(home: &ProcessHome, id: &str) -> Value {
    home.acks().into_iter().rev().find(|ack| ack["request_id"] == id).unwrap()
}

/// Writes data that is not what its builder would write, under a manifest that fits it.
fn seal(buses: &Path, data: &str, manifest: &str, text: &str) {
    bus_support::write(buses, data, text);
    let path = buses.join(manifest);
    let mut value: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    let (hash, count) = (sha256(text).hex(), text.lines().count());
    if value["checksums"].is_object() {
        value["checksums"][data] = hash.into();
        value["counts"]["chunks_emitted"] = count.into();
    } else {
        value["integrity"]["sha256"] = hash.into();
        value["integrity"]["bytes"] = text.len().into();
        if value["integrity"]["lines"].is_u64() {
            value["integrity"]["lines"] = count.into();
        }
    }
    std::fs::write(&path, value.to_string()).unwrap();
}

/// A broken partition: the id that needs it, what it meets, and the partition that is to blame.
type Case = (String, Meets, String);

/// Event days that break in one way each.
fn broken_events(buses: &Path) -> Vec<Case> {
    type Damage = Box<dyn Fn(&Path, &str, &str, Vec<Value>)>;
    let edit = |what: &'static str, with: &'static str| -> Damage {
        Box::new(move |buses, _, manifest, _| flip(&buses.join(manifest), what, with))
    };
    let set = |member: &'static str, value: Value| -> Damage {
        Box::new(move |buses, data, manifest, mut events| {
            match &value {
                Value::Null => drop(events[0].as_object_mut().unwrap().remove(member)),
                value => events[0][member] = value.clone(),
            }
            seal(buses, data, manifest, &bus_support::jsonl(&events));
        })
    };
    let cases: Vec<(Damage, Meets)> = vec![
        (
            Box::new(|buses, _, manifest, _| std::fs::remove_file(buses.join(manifest)).unwrap()),
            meets("missing_upstream_manifest", MISSING, "MISSING_EVENTBUS_MANIFEST"),
        ),
        (
            Box::new(|buses, data, _, _| flip(&buses.join(data), "Something", "Somewhere")),
            meets(MISMATCH, INTEGRITY, "MANIFEST_MISMATCH"),
        ),
        (
            edit("event_manifest.v2", "event_manifest.v9"),
            meets(MISMATCH, SCHEMA, "SCHEMA_VERSION_UNSUPPORTED"),
        ),
        (
            edit("\"bus_schema_version\":\"event.v1\"", "\"bus_schema_version\":\"event.v9\""),
            meets(MISMATCH, SCHEMA, "SCHEMA_VERSION_UNSUPPORTED"),
        ),
        (
            edit("\"day\":\"2026-03-", "\"day\":\"2025-03-"),
            meets(MISMATCH, INTEGRITY, "MANIFEST_MISMATCH"),
        ),
        (
            edit("events_total\":2", "events_total\":3"),
            meets(MISMATCH, INTEGRITY, "MANIFEST_MISMATCH"),
        ),
        (
            edit("\"chat_turn\":2", "\"chat_turn\":1"),
            meets(MISMATCH, INTEGRITY, "MANIFEST_MISMATCH"),
        ),
        (edit("\"lines\":2", "\"lines\":4"), meets(MISMATCH, INTEGRITY, "MANIFEST_MISMATCH")),
        (
            edit("\"integrity\"", "\"integrality\""),
            meets(MISMATCH, SCHEMA, "EVENTBUS_SCHEMA_MISMATCH"),
        ),
        (edit("{", "["), meets(MISMATCH, SCHEMA, "EVENTBUS_SCHEMA_MISMATCH")),
        (
            set("schema_version", "event.v9".into()),
            meets(MISMATCH, SCHEMA, "SCHEMA_VERSION_UNSUPPORTED"),
        ),
        (set("schema_version", Value::Null), meets(MISMATCH, SCHEMA, "EVENTBUS_SCHEMA_MISMATCH")),
        (set("timestamp_ms", Value::Null), meets(MISMATCH, SCHEMA, "EVENTBUS_SCHEMA_MISMATCH")),
        (set("timestamp_ms", (-5).into()), meets(MISMATCH, SCHEMA, "TIMESTAMP_OUT_OF_RANGE")),
        (
            set("event_subkind", "invented".into()),
            meets(MISMATCH, SCHEMA, "EVENTBUS_SCHEMA_MISMATCH"),
        ),
        (
            Box::new(|buses, data, manifest, events| {
                let twice = [events[0].clone(), events[0].clone()];
                seal(buses, data, manifest, &bus_support::jsonl(&twice));
            }),
            meets(MISMATCH, INTEGRITY, "DUPLICATE_EVENT_ID"),
        ),
        (
            Box::new(|buses, data, manifest, events| {
                let text = bus_support::jsonl(&events);
                seal(buses, data, manifest, &format!("{text}{{\"event_id\": \n"));
            }),
            meets(MISMATCH, SCHEMA, "MALFORMED_JSONL"),
        ),
        (
            Box::new(|buses, data, _, _| {
                let path = buses.join(data);
                let bytes = std::fs::read(&path).unwrap();
                std::fs::write(&path, &bytes[..bytes.len() - 30]).unwrap();
            }),
            meets(MISMATCH, INTEGRITY, "MANIFEST_MISMATCH"),
        ),
    ];
    let ends = cases.into_iter().enumerate().map(|(number, (damage, meets))| {
        let (day, id) = (format!("2026-03-{:02}", number + 1), format!("evt_day{number}"));
        let events = vec![
            bus_support::event(&id, bus_support::MIDNIGHT, "Something."),
            bus_support::event(&format!("{id}_b"), bus_support::MIDNIGHT, "More."),
        ];
        bus_support::events_day(buses, &day, &events);
        let data = format!("eventbus/daily/{day}.jsonl");
        damage(buses, &data, &format!("eventbus/manifest/{day}.manifest.json"), events);
        (id, meets, day)
    });
    ends.collect()
}

fn broken_sessions(buses: &Path) -> Vec<Case> {
    let (mut cases, mut day) = (Vec::new(), 0);
    let mut case = |damage: &dyn Fn(&str, &str, Value), meets: Meets| {
        day += 1;
        let (id, name) = (format!("ses_day{day}"), format!("2026-04-{day:02}"));
        let session = bus_support::session(&id, &name, bus_support::MIDNIGHT, &["evt_1"]);
        bus_support::sessions_day(buses, &name, false, std::slice::from_ref(&session));
        let data = format!("sessions/daily/{name}.sessions.jsonl");
        damage(&data, &format!("sessions/manifest/{name}.sessions.manifest.json"), session);
        // The session is whole where the day that holds its events is not.
        let blamed = if meets.subtype == "MANIFEST_MISMATCH" { EDITED.to_owned() } else { name };
        cases.push((id, meets, blamed));
    };
    let text = |sessions: &[Value]| bus_support::jsonl(sessions);
    let with = |mut session: Value, member: &str, value: Value| {
        session[member] = value;
        session
    };
    case(
        &|_, manifest, _| std::fs::remove_file(buses.join(manifest)).unwrap(),
        meets("missing_upstream_manifest", MISSING, "MISSING_SESSIONS_MANIFEST"),
    );
    case(
        &|data, _, _| flip(&buses.join(data), "Session title", "Section title"),
        meets(MISMATCH, INTEGRITY, "SESSIONS_MANIFEST_MISMATCH"),
    );
    case(
        &|_, manifest, _| flip(&buses.join(manifest), "sessions_total\":1", "sessions_total\":2"),
        meets(MISMATCH, INTEGRITY, "SESSIONS_MANIFEST_MISMATCH"),
    );
    case(
        &|data, manifest, session| {
            seal(buses, data, manifest, &format!("{}no json\n", text(&[session])));
        },
        meets(MISMATCH, SCHEMA, "SESSIONS_MALFORMED_JSONL"),
    );
    case(
        &|data, manifest, session| {
            seal(buses, data, manifest, &text(&[with(session, "window", Value::Null)]));
        },
        meets(MISMATCH, SCHEMA, "SESSIONS_SCHEMA_MISMATCH"),
    );
    case(
        &|data, manifest, session| {
            seal(buses, data, manifest, &text(&[with(session, "event_count", 7.into())]));
        },
        meets(MISMATCH, SCHEMA, "SESSIONS_SCHEMA_MISMATCH"),
    );
    case(
        &|data, manifest, session| {
            let other = with(session, "schema_version", "session.v9".into());
            seal(buses, data, manifest, &text(&[other]));
        },
        meets(MISMATCH, SCHEMA, "SCHEMA_VERSION_UNSUPPORTED"),
    );
    case(
        &|data, manifest, session| {
            let count = |twice: &str| flip(&buses.join(manifest), "sessions_total\":1", twice);
            count("sessions_total\":2");
            seal(buses, data, manifest, &text(&[session.clone(), session]));
        },
        meets(MISMATCH, INTEGRITY, "SESSIONS_DUPLICATE_SESSION_ID"),
    );
    case(
        &|data, manifest, session| {
            let mut lost = with(session, "event_ids", json!(["evt_none"]));
            lost["source"]["input_manifest_day"] = "2026-02-11".into();
            seal(buses, data, manifest, &text(&[lost]));
        },
        meets("unknown_source_id", INTEGRITY, "SESSIONS_REFERENCE_UNKNOWN_EVENT_ID"),
    );
    // Nothing was ever published of the day that it was cut from.
    case(
        &|data, manifest, session| {
            let lost = with(session, "event_ids", json!(["evt_none"]));
            seal(buses, data, manifest, &text(&[lost]));
        },
        meets("missing_upstream_manifest", MISSING, "MISSING_EVENTBUS_RANGE"),
    );
    case(
        &|data, manifest, session| {
            let broken = with(session, "event_ids", json!(["evt_day1"]));
            seal(buses, data, manifest, &text(&[broken]));
        },
        meets(MISMATCH, INTEGRITY, "MANIFEST_MISMATCH"),
    );
    // Only JSON lines are read, and that is said.
    case(
        &|data, manifest, session| {
            let data = buses.join(data);
            std::fs::rename(&data, data.with_extension("parquet")).unwrap();
            flip(&buses.join(manifest), ".sessions.jsonl", ".sessions.parquet");
            let text = format!("{{\"session_id\":{}}}\n", session["session_id"]);
            std::fs::write(data, text).unwrap();
        },
        meets(MISMATCH, SCHEMA, "UNSUPPORTED_FORMAT"),
    );
    cases
}

fn broken_chunks(buses: &Path) -> Vec<Case> {
    let mut cases = Vec::new();
    let mut case = |name: &str, damage: &dyn Fn(&str, &str, Value), meets: Meets| {
        let chunk = bus_support::chunk(&format!("chk_{name}"), &format!("doc_{name}"), 0, "Words.");
        bus_support::chunks(buses, name, std::slice::from_ref(&chunk));
        let data = format!("chunks/canonical/{name}.jsonl");
        damage(&data, &format!("chunks/manifest/{name}.manifest.json"), chunk);
        cases.push((format!("chk_{name}"), meets, name.to_owned()));
    };
    let without = |mut chunk: Value, pointer: &str, member: &str| {
        chunk.pointer_mut(pointer).unwrap().as_object_mut().unwrap().remove(member);
        bus_support::jsonl(&[chunk])
    };
    case(
        "alone",
        &|_, manifest, _| std::fs::remove_file(buses.join(manifest)).unwrap(),
        meets("missing_upstream_manifest", MISSING, "MISSING_CHUNK_MANIFEST"),
    );
    case(
        "edited",
        &|data, _, _| flip(&buses.join(data), "Words", "Wards"),
        meets(MISMATCH, INTEGRITY, "INTEGRITY_VIOLATION:manifest_mismatch"),
    );
    case(
        "counted",
        &|_, manifest, _| flip(&buses.join(manifest), "emitted\":1", "emitted\":5"),
        meets(MISMATCH, INTEGRITY, "INTEGRITY_VIOLATION:manifest_mismatch"),
    );
    case(
        "malformed",
        &|data, manifest, chunk| {
            seal(buses, data, manifest, &format!("{chunk}\n{{\n"));
        },
        meets(MISMATCH, SCHEMA, "SCHEMA_INVALID:json_parse"),
    );
    case(
        "textless",
        &|data, manifest, chunk| seal(buses, data, manifest, &without(chunk, "", "text")),
        meets(MISMATCH, SCHEMA, "SCHEMA_INVALID:required_field_missing"),
    );
    case(
        "doubled",
        &|data, manifest, chunk| seal(buses, data, manifest, &format!("{chunk}\n{chunk}\n")),
        meets(MISMATCH, INTEGRITY, "INTEGRITY_VIOLATION:duplicate_ids"),
    );
    case(
        "unchecked",
        &|data, manifest, chunk| {
            seal(buses, data, manifest, &without(chunk, "/provenance", "source_checksum"));
        },
        meets(MISMATCH, SCHEMA, "PROVENANCE_INVALID:missing_source_checksum"),
    );
    case(
        "rootless",
        &|data, manifest, chunk| seal(buses, data, manifest, &without(chunk, "", "provenance")),
        meets(MISMATCH, SCHEMA, "SCHEMA_INVALID:required_field_missing"),
    );
    case(
        "sourceless",
        &|data, manifest, chunk| {
            seal(buses, data, manifest, &without(chunk, "/provenance", "source_uri"));
        },
        meets(MISMATCH, SCHEMA, "PROVENANCE_INVALID:missing_source"),
    );
    case(
        "unhashed",
        &|_, manifest, _| flip(&buses.join(manifest), "\"checksums\"", "\"checksome\""),
        meets(MISMATCH, SCHEMA, "SCHEMA_INVALID:required_field_missing"),
    );
    case(
        "later",
        &|_, manifest, _| flip(&buses.join(manifest), "chunks_manifest.v1", "chunks_manifest.v2"),
        meets(MISMATCH, SCHEMA, "SCHEMA_VERSION_UNSUPPORTED"),
    );
    cases
}

/// The day whose data was edited.
const EDITED: &str = "2026-03-02";

/// Takes the data of a partition away and asks for what only it held, beside something else. Gives
/// what that met. Nobody can say which ids a file held that is gone: hence a home of its own.
fn gone(kind: &str, bus: &str, file: &str, id: &str) -> Value {
    let home = home();
    let buses = home.path("buses");
    bus_support::events_day(&buses, "2026-05-01", &[bus_support::event("evt_fine", 1, "Fine.")]);
    std::fs::remove_file(buses.join(file)).unwrap();
    let fine = ask("fine", "event_summary", "event_bus", &["evt_fine"]);
    home.append(&lines(&[ask("gone", kind, bus, &[id]), fine]));
    home.expect(0, &["drain"]);
    made(&home, "fine");
    let ack = last_ack(&home, "gone");
    assert_eq!((&ack["status"], &ack["reason_code"]), (&json!(REJECTED), &json!(MISMATCH)));
    let (records, _) = run_records(&home);
    let error = error_of(&home, "gone");
    check_details(&error);
    assert!(names(&error, file), "{error}");
    let mut listed = records[0]["errors"][0].clone();
    assert_eq!(listed["details"].as_object_mut().unwrap().remove("occurrences"), Some(1.into()));
    assert_eq!(listed["details"], error["details"]);
    json!([listed["type"], listed["subtype"]])
}

#[test]
fn every_upstream_defect_ends_only_the_requests_that_need_it() {
    let home = home();
    let buses = home.path("buses");
    let of = |kind: &'static str, bus: &'static str| {
        move |(id, meets, place): Case| (ask(&id, kind, bus, &[&id]), meets, place)
    };
    let mut cases: Vec<(Value, Meets, String)> = Vec::new();
    cases.extend(broken_events(&buses).into_iter().map(of("event_summary", "event_bus")));
    cases.extend(broken_sessions(&buses).into_iter().map(of("session_summary", "session_bus")));
    cases.extend(broken_chunks(&buses).into_iter().map(of("chunk_set_summary", "chunk_bus")));
    let mut asked: Vec<Value> = cases.iter().map(|(asked, ..)| asked.clone()).collect();
    asked.extend(of_every_stream());
    home.append(&lines(&asked));
    home.expect(0, &["drain"]);
    let mut met = Vec::new();
    for (asked, meets, place) in &cases {
        let id = asked["request_id"].as_str().unwrap();
        let ack = last_ack(&home, id);
        assert_eq!(ack["status"], REJECTED, "{ack}");
        assert_eq!(ack["reason_code"], meets.reason, "{ack}");
        let error = error_of(&home, id);
        let told = (error["class"].as_str(), error["subtype"].as_str());
        assert_eq!(told, (Some(meets.class), Some(meets.subtype)), "{id}: {ack}");
        check_details(&error);
        assert!(names(&error, place), "{id}: {place} is not named: {error}");
        met.push(json!([meets.class, meets.subtype]));
    }
    for asked in of_every_stream() {
        assert_eq!(last_ack(&home, asked["request_id"].as_str().unwrap())["status"], "completed");
    }
    // The record of the run lists each kind of error, with what its class requires.
    let (records, _) = run_records(&home);
    let known = list(&records[0]["errors"]);
    for (_, meets, _) in &cases {
        let of_kind =
            |error: &&Value| error["type"] == meets.class && error["subtype"] == meets.subtype;
        let error = known.iter().find(of_kind);
        let error = error.unwrap_or_else(|| panic!("{} is not listed", meets.subtype));
        check_details(&json!({"class": error["type"], "details": error["details"]}));
    }
    check_exported(&home);
    // `verify` finds the same trees wrong, file by file.
    let report = home.expect(1, &["verify", "--json"]).json();
    let violations = list(&report["violations"]);
    let others = ["UNSUPPORTED_FORMAT", "MISSING_EVENTBUS_RANGE"];
    for (asked, meets, _) in cases.iter().filter(|(_, meets, _)| !others.contains(&meets.subtype)) {
        let wrong = violations.iter().any(|one| one["class"] == meets.class);
        assert!(wrong, "{asked}");
    }
    for (kind, bus, file, id) in [
        ("event_summary", "event_bus", "eventbus/daily/2026-02-11.jsonl", "evt_4"),
        ("session_summary", "session_bus", "sessions/daily/2026-02-10.sessions.jsonl", "ses_0"),
        ("document_summary", "chunk_bus", "chunks/canonical/books.jsonl", "doc_b"),
    ] {
        met.push(gone(kind, bus, file, id));
    }
    for (code, class, subtype) in CODES {
        assert!(met.contains(&json!([class, subtype])), "nothing met {code}");
    }
    let known = |one: &Value| CODES.iter().any(|(_, class, code)| *one == json!([class, code]));
    let others: Vec<&Value> = met.iter().filter(|one| !known(one)).collect();
    assert_eq!(others, [&json!([SCHEMA, "PROVENANCE_INVALID:missing_source"])]);
}

/// A missing data file does not say which ids it held, so an id without another place may have been
/// in it. A disk that cannot be read may work again later.
#[test]
fn missing_or_unreadable_data_ends_only_requests_without_another_place() {
    let home = home();
    let buses = home.path("buses");
    bus_support::events_day(&buses, "2026-05-01", &[bus_support::event("evt_fine", 1, "Fine.")]);
    struct Gone {
        kind: &'static str,
        bus: &'static str,
        file: &'static str,
        id: &'static str,
        subtype: &'static str,
    }
    let gone = |kind, bus, file, id, subtype| Gone { kind, bus, file, id, subtype };
    let (events, sessions, chunks) = (
        "eventbus/daily/2026-02-11.jsonl",
        "sessions/daily/2026-02-10.sessions.jsonl",
        "chunks/canonical/books.jsonl",
    );
    let cases = [
        gone("event_summary", "event_bus", events, "evt_4", "MISSING_DAILY_FILE"),
        gone("session_summary", "session_bus", sessions, "ses_0", "MISSING_SESSIONS_FILE"),
        gone("document_summary", "chunk_bus", chunks, "doc_b", "MISSING_CHUNKS_FILE"),
    ];
    let kept: Vec<Vec<u8>> =
        cases.iter().map(|one| std::fs::read(buses.join(one.file)).unwrap()).collect();
    // Asks for what is there no more and for something else. Gives how the former ended.
    let try_it = |turn: &str| -> Vec<(Value, Value)> {
        let name = |one: &Gone| format!("{}_{turn}", one.id);
        let mut asked: Vec<Value> =
            cases.iter().map(|one| ask(&name(one), one.kind, one.bus, &[one.id])).collect();
        let mut fine = ask(turn, "event_summary", "event_bus", &["evt_fine"]);
        fine["work"]["summary_subkind"] = turn.into();
        asked.push(fine);
        home.append(&lines(&asked));
        home.expect(0, &["drain"]);
        made(&home, turn);
        let ended = cases.iter().map(name);
        ended.map(|name| (last_ack(&home, &name), error_of(&home, &name))).collect()
    };

    for one in &cases {
        std::fs::remove_file(buses.join(one.file)).unwrap();
    }
    for ((ack, error), one) in try_it("gone").iter().zip(&cases) {
        assert_eq!(ack["reason_code"], MISMATCH, "{ack}");
        assert_eq!((&error["class"], &error["subtype"]), (&json!(MISSING), &json!(one.subtype)));
        check_details(error);
        assert_eq!(error["details"]["expected_path"], one.file);
    }

    // As another format only, which is not read.
    for one in &cases {
        std::fs::write(buses.join(one.file).with_extension("parquet"), b"PAR1").unwrap();
    }
    for (ack, error) in &try_it("parquet") {
        assert_eq!(ack["status"], "rejected_invalid_input");
        let told = (&error["class"], &error["subtype"]);
        assert_eq!(told, (&json!(SCHEMA), &json!("UNSUPPORTED_FORMAT")), "{ack}");
        check_details(error);
    }

    // Something that opens and cannot be read.
    for one in &cases {
        let path = buses.join(one.file);
        std::fs::remove_file(path.with_extension("parquet")).unwrap();
        std::fs::create_dir(path).unwrap();
    }
    for (ack, error) in &try_it("unreadable") {
        assert_eq!(ack["status"], "failed_transient", "{ack}");
        assert_eq!(ack["reason_code"], "unavailable");
        assert_eq!(error["class"], "STORAGE_UNAVAILABLE", "{error}");
        check_details(error);
        assert_eq!(error["details"]["retryable"], true);
    }
    for (one, bytes) in cases.iter().zip(kept) {
        std::fs::remove_dir(buses.join(one.file)).unwrap();
        std::fs::write(buses.join(one.file), bytes).unwrap();
    }
    let names: Vec<String> = cases.iter().map(|one| format!("{}_unreadable", one.id)).collect();
    let mut retry = vec!["retry"];
    retry.extend(names.iter().map(String::as_str));
    home.expect(0, &retry);
    home.expect(0, &["drain"]);
    names.iter().for_each(|name| drop(made(&home, name)));
    check_published(&home);
}

/// No request has clusters as its input, so a defect of them has no effect.
#[test]
fn clusters_are_never_read() {
    let home = home();
    let buses = home.path("buses");
    bus_support::write(&buses, "clusters/daily/2026-02-10.clusters.jsonl", "no json\n");
    bus_support::write(&buses, "clusters/daily/2026-02-11.clusters.parquet", "PAR1");
    bus_support::write(&buses, "clusters/manifest/2026-02-10.clusters.manifest.json", "{");
    home.append(&lines(&of_every_stream()));
    home.expect(0, &["drain"]);
    for asked in of_every_stream() {
        assert_eq!(last_ack(&home, asked["request_id"].as_str().unwrap())["status"], "completed");
    }
    check_published(&home);
    home.expect(0, &["verify"]).says(&["clusters"]);
}

/// Both spellings, both names and both meanings that producers may choose are read, and what they
/// should know is noted in the record of the run.
#[test]
fn both_spellings_of_upstream_files_are_read() {
    let home = home();
    let buses = home.path("buses");
    // The other name of a session manifest, the registry's markers, hashes with their prefix.
    let mut session = bus_support::session("ses_2", "2026-02-11", 5, &["evt_3"]);
    session["schema_version"] = "sessions.v1".into();
    session["source"]["input_manifest_sha256"] = sha256("other events").hex().into();
    bus_support::sessions_day(&buses, "2026-02-11", true, &[session]);
    let short = buses.join("sessions/manifest/2026-02-11.manifest.json");
    flip(&short, "\"sha256\":\"", "\"sha256\":\"sha256:");
    flip(&short, "\"session.v1\"", "\"sessions.v1\"");
    // The first version of event manifests.
    let event = bus_support::event("evt_v1", bus_support::MIDNIGHT + 5, "Of the first version.");
    bus_support::events_day(&buses, "2026-02-12", &[event]);
    let manifest = "eventbus/manifest/2026-02-12.manifest.json";
    let mut old: Value =
        serde_json::from_slice(&std::fs::read(buses.join(manifest)).unwrap()).unwrap();
    old["schema_version"] = "event_manifest.v1".into();
    old["counts"] = json!({"events_total": 1, "events_by_role": {"user": 1}});
    old.as_object_mut().unwrap().remove("kind_registry");
    old["integrity"].as_object_mut().unwrap().remove("lines");
    old["daily_path"] = "/somewhere/else/2026-02-12.jsonl".into();
    bus_support::write(&buses, manifest, old.to_string());
    // A session may name its events by the hash of their data or of their manifest.
    let events = std::fs::read(buses.join("eventbus/daily/2026-02-12.jsonl")).unwrap();
    let named = std::fs::read(buses.join(manifest)).unwrap();
    for (id, day, anchor) in [
        ("ses_data", "2026-02-12", sha256(&events).hex()),
        ("ses_manifest", "2026-02-13", sha256(&named).prefixed()),
    ] {
        let mut session = bus_support::session(id, day, 5, &["evt_v1"]);
        session["source"]["input_manifest_day"] = "2026-02-12".into();
        session["source"]["input_manifest_sha256"] = anchor.into();
        bus_support::sessions_day(&buses, day, false, &[session]);
    }
    // The registry's marker of a chunk.
    let mut chunk = bus_support::chunk("chk_v", "doc_v", 0, "Of another marker.");
    chunk["schema_version"] = "chunk.v1".into();
    bus_support::chunks(&buses, "2026-02-12", &[chunk]);
    let session = |id: &str| ask(id, "session_summary", "session_bus", &[id]);
    let asked = [
        session("ses_2"),
        session("ses_data"),
        session("ses_manifest"),
        ask("evt_v1", "event_summary", "event_bus", &["evt_v1"]),
        // One id, and two readings of it.
        ask("as_document", "document_summary", "chunk_bus", &["doc_v"]),
        ask("as_chunks", "chunk_set_summary", "chunk_bus", &["doc_v"]),
    ];
    home.append(&lines(&asked));
    home.expect(0, &["drain"]);
    for asked in &asked {
        let ack = last_ack(&home, asked["request_id"].as_str().unwrap());
        assert!(ack["summary"].is_object(), "{ack}");
    }
    let (records, _) = run_records(&home);
    let warnings: Vec<(&str, &str)> = list(&records[0]["warnings"])
        .iter()
        .map(|one| (one["type"].as_str().unwrap(), one["message"].as_str().unwrap()))
        .collect();
    let of = |kind: &str| warnings.iter().filter(|(one, _)| *one == kind).collect::<Vec<_>>();
    assert_eq!(of("UPSTREAM_MANIFEST_NAME").len(), 1, "{warnings:?}");
    let anchors = of("SESSION_CUT_FROM_OTHER_EVENTS");
    assert_eq!(anchors.len(), 1, "{warnings:?}");
    assert!(anchors[0].1.contains("ses_2"), "{warnings:?}");
    check_published(&home);
}

/// The rows of the mapping that are about our side: a model that cannot be asked, and one whose answer
/// is nothing or does not fit, end a request as `MODEL_FAILURE` with the details of that class, also in
/// the run record. (A publication that fails is in `live`; of our own missing manifests `verify` tells;
/// clusters are never read, so nothing of theirs can fail.)
#[test]
fn a_model_that_gives_nothing_is_a_model_failure() {
    const VIOLATION: (&str, &str) = ("output_schema_violation", "OUTPUT_SCHEMA_VIOLATION");
    for (answer, (reason, subtype), words) in [
        ("exit 3", ("attempts_exhausted", "UNAVAILABLE"), "ended with exit code 3"),
        ("echo no object at all", VIOLATION, "is not JSON"),
        (r#"printf '%s' '{"text":"{\"title\": 7}"}'"#, VIOLATION, "is a required property"),
    ] {
        let home = home();
        let script = home.path("model.sh");
        std::fs::write(&script, format!("#!/bin/sh\ncat > /dev/null\n{answer}\n")).unwrap();
        let settings = format!(
            "[retry]\nmax_attempts = 1\n[provider]\ndefault = \"script\"\n\
             [provider.script]\nkind = \"command\"\ncommand = [\"/bin/sh\", \"{}\"]\n",
            script.display()
        );
        std::fs::write(home.path("summarizer.toml"), settings).unwrap();
        home.append(&lines(&[ask(
            "asked",
            "chunk_set_summary",
            "chunk_bus",
            &["chk_a2", "chk_b1"],
        )]));
        home.run(&["drain"]);
        let ack = last_ack(&home, "asked");
        assert_eq!(
            (&ack["status"], &ack["reason_code"]),
            (&json!("failed_permanent"), &json!(reason)),
            "{ack}"
        );
        assert!(ack["message"].as_str().unwrap().contains(words), "{ack}");
        let error = error_of(&home, "asked");
        assert_eq!(
            (&error["class"], &error["subtype"]),
            (&json!("MODEL_FAILURE"), &json!(subtype)),
            "{error}"
        );
        for name in ["model_id", "prompt_hash", "selection_manifest_refs", "retryable"] {
            assert!(error["details"].get(name).is_some(), "{name} is missing: {error}");
        }
        let (records, _) = run_records(&home);
        let told = list(&records[0]["errors"]).iter().find(|one| one["type"] == "MODEL_FAILURE");
        assert!(told.is_some(), "{:#}", records[0]);
        home.expect(0, &["verify", "--json"]);
    }
}
