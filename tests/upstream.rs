//! Resolving requests over whole bus homes, valid and damaged.

#![allow(clippy::result_large_err, reason = "a test looks at the whole error")]
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "helpers of a test may panic, and it writes what it is about to break"
)]

mod bus_support;
#[path = "support/running.rs"]
mod running;

use std::path::Path;
use std::sync::Arc;

use bus_support::*;
use serde_json::{Value, json};
use summarizer::contract::json::jcs_hash;
use summarizer::contract::vocabulary::{
    AckStatus, Bus, ErrorClass, ReasonCode, Stream, SummaryKind, Warning,
};
use summarizer::os::real::HostDisk;
use summarizer::upstream::selection::Roots;
use summarizer::upstream::{
    InputSpec, MemoryIndex, Options, ResolveError, Resolved, Upstream, recompute, resolve,
};

fn open(root: &Path) -> Upstream {
    Upstream::new(Arc::new(HostDisk), root, Arc::new(MemoryIndex::default()))
}

fn ids(bus: Bus, ids: &[&str]) -> InputSpec {
    InputSpec::Ids { bus, ids: ids.iter().map(|id| (*id).to_owned()).collect() }
}

fn get(
    upstream: &Upstream,
    input: &InputSpec,
    kind: SummaryKind,
) -> Result<Resolved, ResolveError> {
    resolve(upstream, input, kind, &Options::default())
}

/// The texts of an input, in order.
fn texts(upstream: &Upstream, resolved: &Resolved) -> Vec<String> {
    let mut texts = Vec::new();
    resolved.each_text(upstream, &mut |_, text| texts.push(text.to_owned())).unwrap();
    texts
}

/// The text of an event.
fn text_of(upstream: &Upstream, input: &InputSpec) -> String {
    texts(upstream, &get(upstream, input, SummaryKind::EventSummary).unwrap()).remove(0)
}

fn temp_home() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    home(dir.path());
    dir
}

#[test]
fn events_come_in_time_order_for_any_order_of_ids() {
    let home = temp_home();
    let upstream = open(home.path());
    let input = ids(Bus::EventBus, &["evt_4", "evt_1", "evt_3", "evt_2"]);
    let resolved = get(&upstream, &input, SummaryKind::EventSummary).unwrap();
    assert_eq!(resolved.source_ids(), ["evt_1", "evt_2", "evt_3", "evt_4"]);
    let texts = texts(&upstream, &resolved);
    assert_eq!(texts[0], "Before midnight.\nTwo lines.");
    assert_eq!(texts[2], "After midnight: caf\u{e9}.");
    assert_eq!((resolved.used, resolved.skip_reasons["empty_content"]), (3, 1));
    assert_eq!(resolved.selection["counts"], json!({"sources": 4, "used": 3, "skipped": 1}));
    assert_eq!(resolved.selection["selection_type"], "event_slice");
    assert_eq!(resolved.day().unwrap().to_string(), "2026-02-11");
    assert_eq!(resolved.common.conversation_id.as_deref(), Some("conv_1"));
    let array: Vec<Value> = resolved
        .sources
        .iter()
        .zip(&texts)
        .map(|(source, text)| json!({"id": source.id, "text": text}))
        .collect();
    assert_eq!(resolved.source_text_hash, jcs_hash(&json!(array)));
    assert_eq!(resolved.upstream.len(), 2);
    let third = resolved.sources.get(2).unwrap();
    assert_eq!((third.file, third.line), ("eventbus/daily/2026-02-11.jsonl", 2));

    let other = ids(Bus::EventBus, &["evt_2", "evt_3", "evt_1", "evt_4", "evt_4"]);
    let again = get(&upstream, &other, SummaryKind::EventSummary).unwrap();
    assert_eq!(again.source_text_hash, resolved.source_text_hash);
    assert!(again.warnings.contains(Warning::RepeatedIds));
}

#[test]
fn a_single_event_without_text_is_a_skip_and_says_so() {
    let home = temp_home();
    let resolved =
        get(&open(home.path()), &ids(Bus::EventBus, &["evt_2"]), SummaryKind::EventSummary)
            .unwrap();
    assert_eq!(resolved.skip, Some(ReasonCode::SkippedEmptyContent));
    assert_eq!(resolved.selection["selection_type"], "single_event");
    let options = Options { title_as_text: true, ..Options::default() };
    let input = ids(Bus::EventBus, &["evt_2"]);
    let upstream = open(home.path());
    let titled = resolve(&upstream, &input, SummaryKind::EventSummary, &options).unwrap();
    assert_eq!((titled.skip, texts(&upstream, &titled)), (None, vec!["A talk".to_owned()]));
    assert_eq!(titled.selection["title_as_text"], true);
}

#[test]
fn sessions_find_their_events_across_midnight() {
    let home = temp_home();
    let upstream = open(home.path());
    let one =
        get(&upstream, &ids(Bus::SessionBus, &["ses_1"]), SummaryKind::SessionSummary).unwrap();
    assert_eq!(one.event_ids(), ["evt_1", "evt_2", "evt_3"]);
    assert_eq!(one.selection["selection_type"], "session_full");
    assert_eq!(one.common.title.as_deref(), Some("Session title"));
    assert_eq!(one.day().unwrap().to_string(), "2026-02-10");

    let both = ids(Bus::SessionBus, &["ses_0", "ses_1"]);
    let both = get(&upstream, &both, SummaryKind::SessionSummary).unwrap();
    assert_eq!(both.source_ids(), ["ses_1"]);
    assert_eq!(both.primary_ids(), ["ses_1", "ses_0"]);
    assert_eq!(both.event_ids(), ["evt_1", "evt_2", "evt_3", "evt_4"]);
    assert_eq!(both.selection["selection_type"], "session_slice");
    assert_eq!(both.selection["session_ids"], json!(["ses_1", "ses_0"]));
}

#[test]
fn a_session_has_the_title_it_says_and_not_that_of_one_message() {
    let title_of = |members: Value, all_titled: bool| {
        let home = tempfile::tempdir().unwrap();
        let start = 1_770_760_800_000; // 2026-02-10T22:00Z
        let mut events = [event("e1", start, "Where is it?"), event("e2", start + 1, "Here.")];
        if !all_titled {
            events[0]["title"] = Value::Null;
        }
        events_day(home.path(), "2026-02-10", &events);
        let mut session = session("ses", "2026-02-10", start, &["e1", "e2"]);
        session.as_object_mut().unwrap().remove("title_candidates");
        session.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        sessions_day(home.path(), "2026-02-10", false, &[session]);
        let input = ids(Bus::SessionBus, &["ses"]);
        get(&open(home.path()), &input, SummaryKind::SessionSummary).unwrap().common.title
    };
    for own in [
        json!({"title": "Trip to Salta", "title_candidates": ["Another"]}),
        json!({"metadata": {"title": "Trip to Salta"}}),
        json!({"title": "", "title_candidates": ["Trip to Salta"]}),
        json!({"title": null, "summary": {"name": "Trip to Salta"}}),
    ] {
        assert_eq!(title_of(own.clone(), true).as_deref(), Some("Trip to Salta"), "{own}");
    }
    assert_eq!(title_of(json!({}), true).as_deref(), Some("A talk"), "all messages say it");
    assert_eq!(title_of(json!({}), false), None, "one message says it");
}

#[test]
fn the_short_session_manifest_name_is_read_too() {
    let home = temp_home();
    std::fs::remove_file(home.path().join("sessions/manifest/2026-02-10.sessions.manifest.json"))
        .unwrap();
    sessions_day(
        home.path(),
        "2026-02-10",
        true,
        &[session("ses_1", "2026-02-10", MIDNIGHT, &["evt_1"])],
    );
    let resolved =
        get(&open(home.path()), &ids(Bus::SessionBus, &["ses_1"]), SummaryKind::SessionSummary)
            .unwrap();
    assert_eq!(resolved.event_ids(), ["evt_1"]);
}

#[test]
fn documents_and_chunks_are_found_by_either_id() {
    let home = temp_home();
    let upstream = open(home.path());
    let document = |list: &[&str]| {
        get(&upstream, &ids(Bus::ChunkBus, list), SummaryKind::DocumentSummary).unwrap()
    };
    let whole = document(&["doc_a"]);
    assert_eq!((whole.stream, &whole.source_ids()[..]), (Stream::Documents, &["doc_a"][..]));
    assert_eq!(whole.chunk_ids(), ["chk_a1", "chk_a2"]);
    assert_eq!(whole.selection["selection_type"], "document_full");
    assert_eq!(whole.selection["chunk_order"], json!(["chunk_index"]));
    assert_eq!(whole.days, []);
    let by_chunks = document(&["chk_a2", "chk_a1"]);
    assert_eq!(by_chunks.source_text_hash, whole.source_text_hash);
    assert_eq!(by_chunks.selection["selection_type"], "document_full");
    assert_eq!(document(&["chk_a2"]).selection["selection_type"], "document_slice");

    let set = |list: &[&str]| {
        get(&upstream, &ids(Bus::ChunkBus, list), SummaryKind::ChunkSetSummary).unwrap()
    };
    let subset = set(&["doc_a"]);
    assert_eq!(subset.source_ids(), ["chk_a1", "chk_a2"]);
    assert_eq!(subset.selection["selection_type"], "document_subset");
    let across = set(&["chk_b1", "chk_a2"]);
    assert_eq!(
        (&across.source_ids()[..], &across.document_ids[..]),
        (&["chk_a2", "chk_b1"][..], &["doc_a".to_owned(), "doc_b".to_owned()][..])
    );
    assert_eq!(across.selection["selection_type"], "chunk_set");
}

#[test]
fn a_document_published_again_is_read_from_its_last_partition() {
    let home = temp_home();
    chunks(home.path(), "books2", &[chunk("chk_new", "doc_a", 0, "A anew.")]);
    let resolved =
        get(&open(home.path()), &ids(Bus::ChunkBus, &["doc_a"]), SummaryKind::DocumentSummary)
            .unwrap();
    assert_eq!(resolved.chunk_ids(), ["chk_new"]);
}

#[test]
fn plain_files_are_their_own_documents() {
    let home = temp_home();
    let resolved =
        get(&open(home.path()), &ids(Bus::Other, &["notes/a.md"]), SummaryKind::DocumentSummary)
            .unwrap();
    assert_eq!(resolved.source_ids(), ["other:notes/a.md"]);
    assert_eq!(resolved.selection["anchor"], "other");
    assert_eq!(resolved.common.title.as_deref(), Some("Note"));
    assert_eq!(resolved.upstream[0].manifest_sha256, None);
}

#[test]
fn events_without_text_use_the_text_of_their_chunks() {
    let home = temp_home();
    let mut thin = event("evt_thin", MIDNIGHT, "");
    thin["refs"] = json!([{"chunk_id": "chk_a1"}, {"chunk_id": "chk_b1"}]);
    events_day(home.path(), "2026-02-12", &[thin]);
    let resolved =
        get(&open(home.path()), &ids(Bus::EventBus, &["evt_thin"]), SummaryKind::EventSummary)
            .unwrap();
    assert_eq!(texts(&open(home.path()), &resolved), ["A one.\n\nB one."]);
    assert_eq!(resolved.upstream.len(), 2);
}

#[test]
fn wrong_kinds_and_unknown_ids_are_rejected() {
    let home = temp_home();
    let upstream = open(home.path());
    let error =
        get(&upstream, &ids(Bus::SessionBus, &["x"]), SummaryKind::EventSummary).unwrap_err();
    assert_eq!(error.reason_code, ReasonCode::KindBusMismatch);
    let error = get(&upstream, &ids(Bus::EventBus, &["evt_1", "nope"]), SummaryKind::EventSummary)
        .unwrap_err();
    assert_eq!(
        (error.status, error.reason_code),
        (AckStatus::RejectedInvalidInput, ReasonCode::UnknownSourceId)
    );
    let empty = tempfile::tempdir().unwrap();
    let error = get(&open(empty.path()), &ids(Bus::EventBus, &["x"]), SummaryKind::EventSummary)
        .unwrap_err();
    assert_eq!(
        (error.reason_code, error.class),
        (ReasonCode::MissingUpstreamManifest, ErrorClass::InputMissing)
    );
}

/// A defect stops only the requests that need the broken day.
#[test]
fn each_defect_of_an_event_day_has_its_class_and_code() {
    let day = "eventbus/daily/2026-02-11.jsonl";
    let manifest = "eventbus/manifest/2026-02-11.manifest.json";
    let reseal = |root: &Path, events: &[Value]| events_day(root, "2026-02-11", events);
    let good = || vec![event("evt_3", MIDNIGHT, "Third."), event("evt_4", MIDNIGHT, "Fourth.")];
    type Break = Box<dyn Fn(&Path)>;
    let cases: Vec<(&str, Break, ReasonCode, ErrorClass, &str)> = vec![
        (
            "manifest gone",
            Box::new(move |root| std::fs::remove_file(root.join(manifest)).unwrap()),
            ReasonCode::MissingUpstreamManifest,
            ErrorClass::InputMissing,
            "MISSING_EVENTBUS_MANIFEST",
        ),
        (
            "data gone",
            Box::new(move |root| std::fs::remove_file(root.join(day)).unwrap()),
            ReasonCode::ManifestMismatch,
            ErrorClass::InputMissing,
            "MISSING_DAILY_FILE",
        ),
        (
            "edited",
            Box::new(move |root| {
                let text =
                    std::fs::read_to_string(root.join(day)).unwrap().replace("Fourth", "Forged");
                std::fs::write(root.join(day), text).unwrap();
            }),
            ReasonCode::ManifestMismatch,
            ErrorClass::IntegrityMismatch,
            "MANIFEST_MISMATCH",
        ),
        (
            "cut short",
            Box::new(move |root| {
                let text = std::fs::read(root.join(day)).unwrap();
                std::fs::write(root.join(day), &text[..text.len() - 9]).unwrap();
            }),
            ReasonCode::ManifestMismatch,
            ErrorClass::IntegrityMismatch,
            "MANIFEST_MISMATCH",
        ),
        (
            "unknown manifest version",
            Box::new(move |root| {
                let text = std::fs::read_to_string(root.join(manifest)).unwrap();
                std::fs::write(
                    root.join(manifest),
                    text.replace("event_manifest.v2", "event_manifest.v3"),
                )
                .unwrap();
            }),
            ReasonCode::ManifestMismatch,
            ErrorClass::SchemaMismatch,
            "SCHEMA_VERSION_UNSUPPORTED",
        ),
        (
            "bad line",
            Box::new(move |root| {
                let mut data = jsonl(&good());
                data.push_str("{\"event_id\": \n");
                reseal(root, &good());
                write(root, day, &data);
                let text = std::fs::read(root.join(manifest)).unwrap();
                let mut value: Value = serde_json::from_slice(&text).unwrap();
                value["integrity"] = json!({"sha256": summarizer::contract::hash::sha256(&data).hex(), "bytes": data.len()});
                write(root, manifest, value.to_string());
            }),
            ReasonCode::ManifestMismatch,
            ErrorClass::SchemaMismatch,
            "MALFORMED_JSONL",
        ),
        (
            "no version",
            Box::new(move |root| {
                let mut events = good();
                events[0].as_object_mut().unwrap().remove("schema_version");
                reseal(root, &events);
            }),
            ReasonCode::ManifestMismatch,
            ErrorClass::SchemaMismatch,
            "EVENTBUS_SCHEMA_MISMATCH",
        ),
        (
            "other version",
            Box::new(move |root| {
                let mut events = good();
                events[0]["schema_version"] = json!("event.v7");
                reseal(root, &events);
            }),
            ReasonCode::ManifestMismatch,
            ErrorClass::SchemaMismatch,
            "SCHEMA_VERSION_UNSUPPORTED",
        ),
        (
            "time",
            Box::new(move |root| {
                let mut events = good();
                events[0]["timestamp_ms"] = json!(-5);
                reseal(root, &events);
            }),
            ReasonCode::ManifestMismatch,
            ErrorClass::SchemaMismatch,
            "TIMESTAMP_OUT_OF_RANGE",
        ),
        (
            "duplicate",
            Box::new(move |root| {
                reseal(root, &[event("evt_4", MIDNIGHT, "x"), event("evt_4", MIDNIGHT, "y")]);
            }),
            ReasonCode::ManifestMismatch,
            ErrorClass::IntegrityMismatch,
            "DUPLICATE_EVENT_ID",
        ),
        (
            "counts",
            Box::new(move |root| {
                let text = std::fs::read_to_string(root.join(manifest)).unwrap();
                std::fs::write(
                    root.join(manifest),
                    text.replace("\"events_total\":2", "\"events_total\":3"),
                )
                .unwrap();
            }),
            ReasonCode::ManifestMismatch,
            ErrorClass::IntegrityMismatch,
            "MANIFEST_MISMATCH",
        ),
        (
            "kind",
            Box::new(move |root| {
                let mut events = good();
                events[0]["event_subkind"] = json!("invented");
                reseal(root, &events);
            }),
            ReasonCode::ManifestMismatch,
            ErrorClass::SchemaMismatch,
            "EVENTBUS_SCHEMA_MISMATCH",
        ),
    ];
    for (name, damage, reason, class, subtype) in cases {
        let home = temp_home();
        damage(home.path());
        let upstream = open(home.path());
        let error =
            get(&upstream, &ids(Bus::EventBus, &["evt_4"]), SummaryKind::EventSummary).unwrap_err();
        assert_eq!(
            (error.reason_code, error.class, error.subtype.as_str()),
            (reason, class, subtype),
            "{name}: {error}"
        );
        assert!(error.details.to_json().is_object(), "{name}");
        let fine = get(&upstream, &ids(Bus::EventBus, &["evt_1"]), SummaryKind::EventSummary);
        assert!(fine.is_ok(), "{name}: the other day must not suffer");
    }
}

#[test]
fn bytes_after_those_of_the_manifest_are_ignored_with_a_warning() {
    let home = temp_home();
    let path = home.path().join("eventbus/daily/2026-02-11.jsonl");
    let mut text = std::fs::read_to_string(&path).unwrap();
    text.push_str(&format!("{}\n", event("evt_5", MIDNIGHT, "Late.")));
    text.push_str("{\"half");
    std::fs::write(&path, text).unwrap();
    let upstream = open(home.path());
    let resolved =
        get(&upstream, &ids(Bus::EventBus, &["evt_4"]), SummaryKind::EventSummary).unwrap();
    assert!(
        resolved.notes[0].to_string().starts_with("UPSTREAM_APPENDED_AFTER_MANIFEST"),
        "{:?}",
        resolved.notes
    );
    let error =
        get(&upstream, &ids(Bus::EventBus, &["evt_5"]), SummaryKind::EventSummary).unwrap_err();
    assert_eq!(error.reason_code, ReasonCode::UnknownSourceId);
}

#[test]
fn a_day_that_is_repaired_or_grows_is_seen_without_a_restart() {
    let home = temp_home();
    let cache = home.path().join("cache");
    let disk: Arc<dyn summarizer::os::Disk> = Arc::new(HostDisk);
    let open = || {
        Upstream::new(
            Arc::new(HostDisk),
            home.path(),
            summarizer::upstream::index_of_home(&disk, &cache),
        )
    };
    let upstream = open();
    let evt_5 = ids(Bus::EventBus, &["evt_5"]);
    assert!(get(&upstream, &evt_5, SummaryKind::EventSummary).is_err());
    events_day(home.path(), "2026-02-11", &[event("evt_5", MIDNIGHT, "New.")]);
    assert_eq!(text_of(&upstream, &evt_5), "New.");
    write(home.path(), "eventbus/daily/2026-02-11.jsonl", "junk");
    assert!(get(&upstream, &evt_5, SummaryKind::EventSummary).is_err());
    events_day(home.path(), "2026-02-11", &[event("evt_5", MIDNIGHT, "Newer.")]);
    assert_eq!(text_of(&upstream, &evt_5), "Newer.");

    // A damaged cache is rebuilt.
    drop(upstream);
    assert_eq!(text_of(&open(), &evt_5), "Newer.");
    std::fs::write(&cache, "damaged").unwrap();
    assert_eq!(text_of(&open(), &evt_5), "Newer.");
}

#[test]
fn sessions_with_unknown_events_and_chunks_without_checksums_stop() {
    let home = temp_home();
    // Cut from a day that lacks the event, and from a day that nobody published.
    let mut broken =
        ["ses_x", "ses_y"].map(|id| session(id, "2026-02-12", MIDNIGHT, &["evt_none"]));
    broken[0]["source"]["input_manifest_day"] = "2026-02-11".into();
    sessions_day(home.path(), "2026-02-12", false, &broken);
    for (id, told) in [
        ("ses_x", ("SESSIONS_REFERENCE_UNKNOWN_EVENT_ID", ErrorClass::IntegrityMismatch)),
        ("ses_y", ("MISSING_EVENTBUS_RANGE", ErrorClass::InputMissing)),
    ] {
        let input = ids(Bus::SessionBus, &[id]);
        let error = get(&open(home.path()), &input, SummaryKind::SessionSummary).unwrap_err();
        assert_eq!((error.subtype.as_str(), error.class), told);
    }
    let mut bare = chunk("chk_x", "doc_x", 0, "x");
    bare["provenance"].as_object_mut().unwrap().remove("source_checksum");
    chunks(home.path(), "bare", &[bare]);
    let error =
        get(&open(home.path()), &ids(Bus::ChunkBus, &["chk_x"]), SummaryKind::ChunkSetSummary)
            .unwrap_err();
    assert_eq!(
        (error.subtype.as_str(), error.class),
        ("PROVENANCE_INVALID:missing_source_checksum", ErrorClass::SchemaMismatch)
    );
}

fn selection(items: Value, ordering: &str) -> Value {
    let selection = json!({"bus": "event_bus", "items": items, "ordering": ordering});
    json!({
        "schema_version": "selection_manifest.v1", "created_at": "2026-02-11T00:00:00Z",
        "created_by": {"repo": "r", "component": "c", "version": "1"},
        "selection_hash": jcs_hash(&selection).prefixed(), "selection": selection,
    })
}

fn by_manifest(path: &str, hash: &str) -> InputSpec {
    InputSpec::SelectionManifest { path: path.to_owned(), hash: hash.to_owned() }
}

#[test]
fn selection_manifests_are_checked_step_by_step() {
    let home = temp_home();
    let root = home.path();
    let upstream = open(root);
    let run = |path: &str, hash: &str| {
        get(&upstream, &by_manifest(path, hash), SummaryKind::EventSummary)
    };
    let reason = |path: &str, hash: &str| run(path, hash).unwrap_err().reason_code;
    let good = selection(json!([{"id": "evt_4"}, {"id": "evt_1"}]), "as_listed");
    let hash = good["selection_hash"].as_str().unwrap().to_owned();
    write(root, "selection_manifests/good.json", good.to_string());

    let resolved = run("selection_manifests/good.json", &hash).unwrap();
    assert_eq!(resolved.source_ids(), ["evt_4", "evt_1"], "the listed order is kept");
    assert_eq!(resolved.selection["selection_hash"], hash.as_str());
    let bare = hash.trim_start_matches("sha256:").to_uppercase();
    assert!(run("selection_manifests/good.json", &bare).is_ok());
    let absolute = root.join("selection_manifests/good.json");
    assert_eq!(
        run(absolute.to_str().unwrap(), &hash).unwrap().selection["selection_manifest_path"],
        "selection_manifests/good.json"
    );
    let by_time = selection(json!([{"id": "evt_4"}, {"id": "evt_1"}]), "by_time");
    write(root, "selection_manifests/time.json", by_time.to_string());
    let hash_by_time = by_time["selection_hash"].as_str().unwrap();
    assert_eq!(
        run("selection_manifests/time.json", hash_by_time).unwrap().source_ids(),
        ["evt_1", "evt_4"]
    );

    assert_eq!(
        reason("selection_manifests/none.json", &hash),
        ReasonCode::SelectionManifestMissing
    );
    assert_eq!(reason("../x.json", &hash), ReasonCode::PathOutsideBusHome);
    assert_eq!(reason("/etc/hostname", &hash), ReasonCode::PathOutsideBusHome);
    std::os::unix::fs::symlink("/etc/hostname", root.join("selection_manifests/link.json"))
        .unwrap();
    assert_eq!(reason("selection_manifests/link.json", &hash), ReasonCode::PathOutsideBusHome);
    assert_eq!(
        reason("selection_manifests/good.json", "sha256:12"),
        ReasonCode::SelectionHashMismatch
    );
    let mut forged = good.clone();
    forged["selection"]["items"][0]["id"] = json!("evt_3");
    write(root, "selection_manifests/forged.json", forged.to_string());
    assert_eq!(reason("selection_manifests/forged.json", &hash), ReasonCode::SelectionHashInvalid);
    let mut stale = good.clone();
    stale["upstream"] =
        json!([{"bus": "event_bus", "day": "2026-02-11", "manifest_sha256": "0".repeat(64)}]);
    write(root, "selection_manifests/stale.json", stale.to_string());
    assert_eq!(reason("selection_manifests/stale.json", &hash), ReasonCode::ManifestMismatch);

    for (counts, drop_reasons, sound) in [
        (json!({"selected": 2}), Value::Null, true),
        (json!({"candidates": 3, "selected": 2, "dropped": 1}), json!({"private": 1}), true),
        (json!({"candidates": null, "selected": null}), json!({"private": 1}), true),
        (json!({"selected": 3}), Value::Null, false),
        (json!({"candidates": 2, "dropped": 1}), Value::Null, false),
        (json!({"candidates": u64::MAX, "dropped": u64::MAX}), Value::Null, false),
        (json!({"candidates": 3, "selected": 2, "dropped": 1}), json!({"private": 2}), false),
        (json!({"dropped": 1}), json!({}), false),
    ] {
        let mut counted = good.clone();
        counted["counts"] = counts;
        counted["drop_reasons"] = drop_reasons;
        write(root, "selection_manifests/counted.json", counted.to_string());
        let found = run("selection_manifests/counted.json", &hash);
        let wrong = found.err().map(|defect| (defect.reason_code, defect.message));
        match (&wrong, sound) {
            (None, true) => {}
            (Some((ReasonCode::ManifestMismatch, words)), false) => {
                assert!(words.contains("its counts declare"), "{words}");
            }
            _ => panic!("{counted}: {wrong:?}"),
        }
    }

    let empty = selection(json!([]), "as_listed");
    write(root, "selection_manifests/empty.json", empty.to_string());
    let empty =
        run("selection_manifests/empty.json", empty["selection_hash"].as_str().unwrap()).unwrap();
    assert_eq!(empty.skip, Some(ReasonCode::SkippedEmptySelection));

    let foreign = json!({"selection_hash": "sha256:2d90c8", "event_ids": ["evt_1"]});
    write(root, "selection_manifests/foreign.json", foreign.to_string());
    let foreign = run("selection_manifests/foreign.json", "2d90c8").unwrap();
    assert!(foreign.warnings.contains(Warning::ForeignSelectionManifest));

    let service = tempfile::tempdir().unwrap();
    write(service.path(), "mine.json", good.to_string());
    let options = Options {
        roots: Roots { service: Some(service.path().to_owned()), extra: Vec::new() },
        ..Options::default()
    };
    let input = by_manifest("mine.json", &hash);
    assert!(resolve(&upstream, &input, SummaryKind::EventSummary, &options).is_ok());
}

#[test]
fn queries_are_bounded_and_exact() {
    let home = temp_home();
    let upstream = open(home.path());
    let query = |query: Value| {
        let mut full = json!({"schema_version": "summary_request_query.v1"});
        full.as_object_mut().unwrap().extend(query.as_object().unwrap().clone());
        get(
            &upstream,
            &InputSpec::Query { bus: Bus::EventBus, query: full },
            SummaryKind::EventSummary,
        )
    };
    let range =
        json!({"day_from": "2026-02-01", "day_to": "2026-02-28", "where": {"role": "user"}});
    assert_eq!(query(range).unwrap().source_ids(), ["evt_1", "evt_2", "evt_3", "evt_4"]);
    assert_eq!(query(json!({"day": "2026-02-11"})).unwrap().source_ids(), ["evt_3", "evt_4"]);
    let none = query(json!({"day": "2026-02-11", "where": {"role": "tool"}})).unwrap();
    assert_eq!(none.skip, Some(ReasonCode::SkippedEmptySelection));
    assert_eq!(
        none.day(),
        Some("2026-02-11".parse().unwrap()),
        "it counts on the day it asked for"
    );
    assert_eq!(none.upstream.len(), 1, "what was read is named");
    let some = query(json!({"day_from": "2026-02-09", "day_to": "2026-02-12"})).unwrap();
    assert!(some.warnings.contains(Warning::UpstreamDaysMissing));
    assert_eq!(some.selection["missing_days"], json!(["2026-02-09", "2026-02-12"]));
    assert!(
        some.notes.iter().any(|note| note.to_string().contains("2026-02-09, 2026-02-12")),
        "{:?}",
        some.notes
    );
    let whole = query(json!({"day_from": "2026-02-10", "day_to": "2026-02-11"})).unwrap();
    assert!(!whole.warnings.contains(Warning::UpstreamDaysMissing));
    let error = query(json!({"day_from": "2026-03-01", "day_to": "2026-03-03"})).unwrap_err();
    assert_eq!(error.reason_code, ReasonCode::MissingUpstreamManifest);
    assert!(error.message.contains("none of the 3 days"), "{}", error.message);
    let reason = |value| query(value).unwrap_err().reason_code;
    assert_eq!(reason(json!({"day": "2026-02-11", "limit": 1})), ReasonCode::QueryTooWide);
    assert_eq!(reason(json!({"day": "2026-02-12"})), ReasonCode::MissingUpstreamManifest);
    assert_eq!(
        reason(json!({"day": "2026-02-11", "where": {"content": "x"}})),
        ReasonCode::InvalidParams
    );
}

#[test]
fn files_are_asked_for_by_the_date_they_state() {
    let home = temp_home();
    let root = home.path();
    write(
        root,
        "other/mail.eml",
        "From: a@b.c\r\nSubject: s\r\nDate: Wed, 11 Feb 2026 23:30:00 +0000\r\n\r\nHello.\r\n",
    );
    write(root, "other/notes/b.md", "---\ndate: 2026-02-12\n---\nText.\n");
    write(root, "other/image.png", [0x89, b'P', 0xff, 0x00]);
    let upstream = open(root);
    let query = |day: &str, zone: &str| {
        let query = json!({"schema_version": "summary_request_query.v1", "day": day});
        let input = InputSpec::Query { bus: Bus::Other, query };
        let options = Options { zone: Some(zone.parse().unwrap()), ..Options::default() };
        resolve(&upstream, &input, SummaryKind::DocumentSummary, &options)
    };
    let found = query("2026-02-11", "UTC").unwrap();
    assert_eq!(found.source_ids(), ["other:mail.eml"]);
    assert!(
        found.notes.iter().any(|note| note.to_string().starts_with("UNDATED_FILES: 1 ")),
        "{:?}",
        found.notes
    );
    assert!(
        found.notes.iter().any(|note| note.to_string().starts_with("UNREADABLE_FILES: 1 ")),
        "{:?}",
        found.notes
    );
    let found = query("2026-02-12", "Europe/Madrid").unwrap();
    assert_eq!(found.source_ids(), ["other:mail.eml", "other:notes/b.md"], "the zone of the home");
    let none = query("2026-02-13", "UTC").unwrap();
    assert_eq!(none.skip, Some(ReasonCode::SkippedEmptySelection));
    assert_eq!(none.day(), Some("2026-02-13".parse().unwrap()));
    std::fs::remove_dir_all(root.join("other")).unwrap();
    assert_eq!(query("2026-02-13", "UTC").unwrap_err().reason_code, ReasonCode::UnknownSourceId);
}

#[test]
fn claims_of_a_selection_about_its_items_are_compared() {
    let home = temp_home();
    let root = home.path();
    let upstream = open(root);
    let run = |item: Value, kind: SummaryKind, bus: &str| {
        let selection = json!({"bus": bus, "items": [item], "ordering": "as_listed"});
        let manifest = json!({
            "schema_version": "selection_manifest.v1", "created_at": "2026-02-11T00:00:00Z",
            "created_by": {"repo": "r", "component": "c", "version": "1", "git_commit": null},
            "selection_hash": jcs_hash(&selection).prefixed(), "selection": selection,
            "selection_id": null, "upstream": null,
        });
        write(root, "selection_manifests/claims.json", manifest.to_string());
        let hash = manifest["selection_hash"].as_str().unwrap();
        get(&upstream, &by_manifest("selection_manifests/claims.json", hash), kind)
    };
    let event = |more: Value| {
        let mut item = json!({"id": "evt_4"});
        item.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        run(item, SummaryKind::EventSummary, "event_bus")
    };
    let hash = |text: &str| summarizer::contract::hash::sha256(text).prefixed();
    assert!(event(json!({"text_hash": hash("Fourth."), "day": "2026-02-11"})).is_ok());
    assert!(event(json!({"text_hash": null, "day": null, "partition": null})).is_ok());
    for wrong in [
        json!({"text_hash": hash("Fifth.")}),
        json!({"day": "2026-02-10"}),
        json!({"partition": "2026-02-10"}),
        json!({"partition": "notes", "day": "2026-02-11"}),
        json!({"document_id": "doc_1"}),
    ] {
        let error = event(wrong.clone()).unwrap_err();
        assert_eq!(error.reason_code, ReasonCode::SelectionHashMismatch, "{wrong}");
        assert!(error.message.contains("evt_4"), "{}", error.message);
    }
    // A record may have a text that normalization changes.
    let raw = json!({"id": "evt_1", "text_hash": hash("Before midnight.\r\nTwo lines.")});
    assert!(run(raw, SummaryKind::EventSummary, "event_bus").is_ok());
    let session = |day: &str| {
        run(json!({"id": "ses_1", "day": day}), SummaryKind::SessionSummary, "session_bus")
    };
    assert!(session("2026-02-10").is_ok());
    assert_eq!(session("2026-02-11").unwrap_err().reason_code, ReasonCode::SelectionHashMismatch);
    write(root, "other/a.md", "---\ndate: 2026-02-11\n---\nText");
    write(root, "other/b.txt", "Text");
    let file = |item: Value| run(item, SummaryKind::DocumentSummary, "other");
    assert!(file(json!({"id": "a.md", "day": "2026-02-11", "document_id": "a.md"})).is_ok());
    for wrong in [
        json!({"id": "a.md", "day": "2026-02-12"}),
        json!({"id": "a.md", "document_id": "b.txt"}),
        json!({"id": "b.txt", "day": "2026-02-11"}),
    ] {
        let error = file(wrong.clone()).unwrap_err();
        assert_eq!(error.reason_code, ReasonCode::SelectionHashMismatch, "{wrong}");
    }
    let session = json!({"id": "ses_1", "text_hash": hash("x")});
    let error = run(session, SummaryKind::SessionSummary, "session_bus").unwrap_err();
    assert!(error.message.contains("stands for several texts"), "{}", error.message);
}

#[test]
fn the_hash_recomputes_from_ids_alone() {
    let home = temp_home();
    let upstream = open(home.path());
    for (bus, list, kind) in [
        (Bus::EventBus, vec!["evt_4", "evt_1"], SummaryKind::EventSummary),
        (Bus::SessionBus, vec!["ses_0", "ses_1"], SummaryKind::SessionSummary),
        (Bus::ChunkBus, vec!["doc_a", "doc_b"], SummaryKind::DocumentSummary),
        (Bus::ChunkBus, vec!["doc_a", "chk_b1"], SummaryKind::ChunkSetSummary),
        (Bus::Other, vec!["notes/a.md"], SummaryKind::DocumentSummary),
    ] {
        let resolved = get(&upstream, &ids(bus, &list), kind).unwrap();
        let texts = resolved.sources.ids();
        let bus = recompute::bus_of(resolved.stream, bus == Bus::Other);
        let hash = recompute::source_text_hash(&upstream, bus, &texts, false).unwrap();
        assert_eq!(hash, resolved.source_text_hash, "{kind}");
    }
}

/// Another program, in another language, from the documented algorithm alone.
#[test]
fn an_independent_program_computes_the_same_hash() {
    if !running::has_python() {
        return;
    }
    let script =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/upstream/source_text_hash.py");
    let home = temp_home();
    let odd = "\u{feff}Tab\t and trail \t\r\n\r\n\r\n\u{1}e\u{301} \u{1f600} \"q\" \\ \u{2028}\u{7f}\rend\n\n";
    events_day(
        home.path(),
        "2026-02-12",
        &[event("evt_odd", MIDNIGHT, odd), event("evt \"q\"", MIDNIGHT, "x")],
    );
    let resolved = get(
        &open(home.path()),
        &ids(Bus::EventBus, &["evt_odd", "evt \"q\"", "evt_1", "evt_2"]),
        SummaryKind::EventSummary,
    )
    .unwrap();
    let output = std::process::Command::new("python3")
        .arg(script)
        .arg(home.path())
        .args(resolved.source_ids())
        .output()
        .expect("python3 is needed for this test");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), resolved.source_text_hash.hex());
}

/// HTML, LaTeX, Markdown, JSON and sessions, from `docs/source-text-hash.md` alone.
#[test]
fn an_independent_program_reads_the_same_text() {
    if !running::has_python() {
        return;
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let output = std::process::Command::new("python3")
        .arg(root.join("tests/tools/source_text.py"))
        .arg("--vectors")
        .args(
            ["vectors", "lists", "sessions"]
                .map(|name| root.join(format!("tests/golden/markup/{name}.json"))),
        )
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    assert!(output.stdout.ends_with(b"vectors agree\n"));
}

/// Text beyond the memory limit is read again when it is needed, and a change in between is noticed.
#[test]
fn texts_outside_memory_are_read_again_unchanged() {
    let home = temp_home();
    let text = |number: u32| format!("{number}: {}", "word ".repeat(1_000).trim_end());
    let count = 1_200;
    for (day, first) in [("2026-02-12", 0), ("2026-02-13", count / 2)] {
        // Their order in the file is not that of their times.
        let events: Vec<Value> = (first..first + count / 2)
            .map(|number| {
                let at = MIDNIGHT + i64::from(number ^ 5);
                event(&format!("evt_big{}", number ^ 5), at, &text(number ^ 5))
            })
            .collect();
        events_day(home.path(), day, &events);
    }
    let upstream = open(home.path());
    let names: Vec<String> = (0..count).rev().map(|number| format!("evt_big{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let resolved = get(&upstream, &ids(Bus::EventBus, &names), SummaryKind::EventSummary).unwrap();
    let expected: Vec<String> = (0..count).map(text).collect();
    assert!(expected.iter().map(String::len).sum::<usize>() > 5 << 20);
    assert!(texts(&upstream, &resolved) == expected);
    let array: Vec<Value> = (0..count)
        .map(|number| json!({"id": format!("evt_big{number}"), "text": text(number)}))
        .collect();
    assert_eq!(resolved.source_text_hash, jcs_hash(&json!(array)));
    assert_eq!(resolved.chars, expected.iter().map(|text| text.len() as u64).sum::<u64>());
    assert_eq!(resolved.common.start_ms, Some(MIDNIGHT));
    let again =
        recompute::source_text_hash(&upstream, Bus::EventBus, &resolved.source_ids(), false);
    assert_eq!(again.unwrap(), resolved.source_text_hash);

    events_day(home.path(), "2026-02-13", &[event("evt_big1199", MIDNIGHT, "Another.")]);
    let error = resolved.each_text(&upstream, &mut |_, _| {}).unwrap_err();
    assert_eq!(error.subtype, "UPSTREAM_CHANGED_WHILE_READ");
    assert_eq!(error.reason, ReasonCode::Unavailable);
}
