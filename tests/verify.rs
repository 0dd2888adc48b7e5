//! For every rule of `verify` there is a tree that breaks only this rule.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "helpers of a test may panic, and it writes what it is about to break"
)]

mod bus_support;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use bus_support::*;
use serde_json::{Map, Value, json};
use summarizer::contract::hash::sha256;
use summarizer::contract::json::{jcs, jcs_hash};
use summarizer::contract::time::{Day, Timestamp};
use summarizer::contract::vocabulary::{Bus, Stream, SummaryKind};
use summarizer::export::item::{
    ContextIdentity, ModelIdentity, PromptIdentity, SummaryIdentity, SummaryItem, summary_id,
};
use summarizer::export::publish::{Fallback, Publisher};
use summarizer::export::summary_bus::{Counts, PartitionFacts, PartitionKey, Stamp, render};
use summarizer::facts::attempt::UpstreamInput;
use summarizer::os::Disk;
use summarizer::os::real::HostDisk;
use summarizer::upstream::{
    InputSpec, MemoryIndex, Options as Reading, Resolved, Upstream, resolve,
};
use summarizer::verify::{Options, Report, rules, verify_tree};

const DAY: &str = "2026-02-11";
const EXTRA: &str = "2026-02-12";
const RUN: &str = "run_20260211T100000Z_00000000";

fn day() -> Day {
    DAY.parse().unwrap()
}

fn owned(ids: Vec<&str>) -> Vec<String> {
    ids.into_iter().map(str::to_owned).collect()
}

fn item(resolved: &Resolved) -> SummaryItem {
    let prompt_hash = sha256("prompt").hex();
    let id = summary_id(&SummaryIdentity {
        stream: resolved.stream,
        kind: resolved.kind,
        subkind: "brief",
        primary_ids: &resolved.primary_ids(),
        source_text_hash: &resolved.source_text_hash,
        prompt_hash: &prompt_hash,
        provider: "builtin",
        model: "extractive",
        context: ContextIdentity::default(),
    });
    let outputs = json!({"summary_text": "S.", "model_generated": false});
    let meta = json!({"summary_kind": resolved.kind, "summary_subkind": "brief"});
    let map = |value: Value| -> Map<String, Value> { value.as_object().unwrap().clone() };
    SummaryItem {
        stream: resolved.stream,
        day: day(),
        summary_id: id,
        source_ids: owned(resolved.source_ids()),
        event_ids: owned(resolved.event_ids()),
        document_ids: resolved.document_ids.clone(),
        chunk_ids: owned(resolved.chunk_ids()),
        selection: resolved.selection.clone(),
        model: ModelIdentity {
            provider: "builtin".into(),
            name: "extractive".into(),
            ..ModelIdentity::default()
        },
        prompt: PromptIdentity {
            hash: prompt_hash,
            template_id: "t.v1".into(),
            version: "v1".into(),
        },
        summarizer_version: "0.1.0".into(),
        run_id: RUN.into(),
        outputs: map(outputs),
        title: resolved.common.title.clone(),
        source_time: Timestamp(resolved.common.end_ms.unwrap_or(MIDNIGHT)),
        meta: map(meta),
    }
}

/// A valid home with everything that `verify` checks.
fn sound(root: &Path) {
    home(root);
    events_day(root, EXTRA, &[event("evt_8", MIDNIGHT, "x"), event("evt_9", MIDNIGHT, "y")]);
    sessions_day(
        root,
        EXTRA,
        false,
        &[
            session("ses_8", EXTRA, MIDNIGHT, &["evt_8"]),
            session("ses_9", EXTRA, MIDNIGHT, &["evt_8"]),
        ],
    );
    chunks(root, "extra", &[chunk("chk_8", "doc_8", 0, "x"), chunk("chk_9", "doc_8", 1, "y")]);
    let upstream = Upstream::new(Arc::new(HostDisk), root, Arc::new(MemoryIndex::default()));
    let make = |bus, ids: &[&str], kind| {
        let ids = ids.iter().map(|id| (*id).to_owned()).collect();
        resolve(&upstream, &InputSpec::Ids { bus, ids }, kind, &Reading::default()).unwrap()
    };
    let resolved = [
        make(Bus::EventBus, &["evt_1"], SummaryKind::EventSummary),
        make(Bus::EventBus, &["evt_3", "evt_4"], SummaryKind::EventSummary),
        make(Bus::SessionBus, &["ses_0", "ses_1"], SummaryKind::SessionSummary),
        make(Bus::ChunkBus, &["doc_a"], SummaryKind::DocumentSummary),
        make(Bus::Other, &["notes/a.md"], SummaryKind::DocumentSummary),
        make(Bus::ChunkBus, &["chk_a1", "chk_b1"], SummaryKind::ChunkSetSummary),
    ];
    let mut publisher =
        Publisher::open(Arc::new(HostDisk), root, "summaries", Fallback::DataThenManifest).unwrap();
    let mut publication = publisher.begin().unwrap();
    for stream in Stream::ALL {
        let key = PartitionKey { stream: *stream, day: day() };
        let mine: Vec<&Resolved> = resolved.iter().filter(|one| one.stream == *stream).collect();
        let lines: BTreeMap<String, String> = mine
            .iter()
            .map(|one| item(one))
            .map(|item| (item.summary_id.clone(), item.to_line().unwrap()))
            .collect();
        let produced = lines.len() as u64;
        let inputs = mine.iter().flat_map(|one| &one.upstream).map(|one| UpstreamInput {
            path: one.data_path.clone(),
            bus: one.bus,
            partition: one.partition.clone(),
            data_sha256: Some(one.data_sha256),
            manifest_path: one.manifest_path.clone(),
            manifest_sha256: one.manifest_sha256,
            schema_version: one.schema_version.clone(),
            data_bytes: None,
        });
        let facts = PartitionFacts {
            forgotten: Vec::new(),
            counts: Counts { eligible: produced + 3, produced, skipped: 2, failed: 1 },
            skip_reasons: BTreeMap::from([("empty_content".into(), 2)]),
            fail_reasons: BTreeMap::from([("model_error".into(), 1)]),
            inputs: inputs.collect(),
            selections: Vec::new(),
            stamp: Stamp {
                run_id: RUN.into(),
                at: Timestamp(MIDNIGHT),
                sequence: 7,
                log_head: sha256("head").hex(),
                summarizer_version: "0.1.0".into(),
            },
        };
        let (data, manifest) =
            render(key, lines.values().map(|line| line.as_bytes()), &facts).unwrap();
        publication.put(&key.data_file(), &data).unwrap();
        publication.put(&key.manifest_file(), &manifest).unwrap();
    }
    publication.commit(|_| Ok::<(), String>(())).unwrap();
    runs(root);
    let chosen = json!({"bus": "event_bus", "items": [{"id": "evt_1"}], "ordering": "as_listed"});
    let manifest = json!({
        "schema_version": "selection_manifest.v1", "created_at": "2026-02-11T00:00:00Z",
        "created_by": {"repo": "r", "component": "c", "version": "1"},
        "selection_hash": jcs_hash(&chosen).prefixed(), "selection": chosen,
    });
    write(root, "selection_manifests/s.json", manifest.to_string());
}

fn run_record(run_id: &str) -> Value {
    let counters: Map<String, Value> = [
        "files_seen",
        "files_processed",
        "files_skipped",
        "records_seen",
        "records_processed",
        "records_skipped",
        "artifacts_written",
        "errors_count",
        "warnings_count",
    ]
    .iter()
    .map(|name| ((*name).to_owned(), json!(0)))
    .collect();
    json!({
        "run_record_version": "run_record.v1", "run_id": run_id, "created_at": "2026-02-11T10:00:00.000Z",
        "completed_at": null, "status": "success",
        "project": {"project_id": "p", "project_name": "P"}, "entrypoint": "e", "stages": [],
        "inputs": [{"name": "n", "artifact_family": "event_bus", "path": "eventbus/daily/x.jsonl",
            "required": true, "resolution": "present"}],
        "outputs": [], "schema_versions": {"read": {}, "written": {}}, "counters": counters,
        "warnings": [], "errors": [], "environment": {"os": "linux", "arch": "x86_64"},
    })
}

fn runs(root: &Path) {
    for run_id in [RUN, "run_lonely"] {
        let path = format!("artifacts/run_records/{run_id}.run_record.json");
        write(root, &path, run_record(run_id).to_string());
    }
    rows(root, |_| {});
}

fn rows(root: &Path, change: impl Fn(&mut Value)) {
    let mut row = json!({
        "schema_version": "run_record_row.v1", "run_id": RUN, "project_id": "p", "operator": "e",
        "started_at": "2026-02-11T10:00:00.000Z", "ended_at": null, "status": "OK",
        "run_status": "success", "error_code": null, "inputs_count": 0, "outputs_count": 0,
        "manifest_path": null, "log_path": null, "ts_start": "t", "ts_end": null, "manifest_pointer": null,
    });
    change(&mut row);
    let data = format!("{row}\n");
    write(root, &format!("run_records/daily/{DAY}.jsonl"), &data);
    let manifest = json!({
        "schema_version": "run_records_manifest.v1", "bus_schema_version": "run_record_row.v1",
        "day": DAY, "data_path": format!("run_records/daily/{DAY}.jsonl"), "counts": {"records_total": 1},
        "integrity": {"sha256": sha256(&data).hex(), "bytes": data.len(), "lines": 1},
    });
    write(root, &format!("run_records/daily/{DAY}.manifest.json"), manifest.to_string());
}

fn read(root: &Path, path: &str) -> String {
    std::fs::read_to_string(root.join(path)).unwrap()
}

fn change(root: &Path, path: &str, change: impl FnOnce(&mut Value)) {
    let mut value: Value = serde_json::from_str(&read(root, path)).unwrap();
    change(&mut value);
    write(root, path, value.to_string());
}

fn summary(stream: Stream) -> (String, String) {
    let key = PartitionKey { stream, day: day() };
    (format!("summaries/{}", key.data_file()), format!("summaries/{}", key.manifest_file()))
}

/// Puts other lines into a summary day and makes the manifest agree on hash and length.
fn summary_lines(root: &Path, stream: Stream, edit: impl FnOnce(&mut Vec<String>)) {
    let (data, manifest) = summary(stream);
    let mut lines: Vec<String> = read(root, &data).lines().map(str::to_owned).collect();
    edit(&mut lines);
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    write(root, &data, &text);
    change(root, &manifest, |value| {
        for pointer in ["/integrity/sha256", "/hashes/data_hash"] {
            *value.pointer_mut(pointer).unwrap() = json!(sha256(&text).hex());
        }
        for pointer in ["/integrity/bytes", "/byte_size"] {
            *value.pointer_mut(pointer).unwrap() = json!(text.len());
        }
    });
}

/// Edits the first line of a summary day, as if another program had written it.
fn foreign_line(root: &Path, stream: Stream, edit: impl FnOnce(&mut Value)) {
    summary_lines(root, stream, |lines| {
        let mut value: Value = serde_json::from_str(&lines[0]).unwrap();
        value["producer"]["name"] = json!("somebody-else");
        edit(&mut value);
        lines[0] = jcs(&value);
    });
}

/// Replaces the data of an extra upstream partition and makes the manifest agree.
fn reseal(root: &Path, data: &str, manifest: &str, text: &str) {
    write(root, data, text);
    change(root, manifest, |value| {
        let lines = text.lines().count();
        if value.get("checksums").is_some() {
            value["checksums"] = json!(sha256(text).hex());
            value["counts"]["chunks_emitted"] = json!(lines);
            return;
        }
        value["integrity"] = json!({"sha256": sha256(text).hex(), "bytes": text.len()});
        for key in ["events_total", "sessions_total"] {
            if value["counts"].get(key).is_some() {
                value["counts"][key] = json!(lines);
            }
        }
        let parsed = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let kinds = parsed.filter(|event| event["timestamp_ms"].is_i64()).count();
        if value["counts"].get("events_by_kind").is_some() {
            value["counts"]["events_by_kind"] = json!({"chat_turn": kinds});
        }
    });
}

const EVENTS: (&str, &str) =
    ("eventbus/daily/2026-02-12.jsonl", "eventbus/manifest/2026-02-12.manifest.json");
const SESSIONS: (&str, &str) = (
    "sessions/daily/2026-02-12.sessions.jsonl",
    "sessions/manifest/2026-02-12.sessions.manifest.json",
);
const CHUNKS: (&str, &str) =
    ("chunks/canonical/extra.jsonl", "chunks/manifest/extra.manifest.json");

fn second_line(root: &Path, files: (&str, &str), edit: impl FnOnce(&str, &str) -> String) {
    let text = read(root, files.0);
    let lines: Vec<&str> = text.lines().collect();
    let second = edit(lines[0], lines[1]);
    reseal(root, files.0, files.1, &format!("{}\n{second}\n", lines[0]));
}

fn with(line: &str, edit: impl FnOnce(&mut Value)) -> String {
    let mut value: Value = serde_json::from_str(line).unwrap();
    edit(&mut value);
    value.to_string()
}

type Break = fn(&Path);

fn breaks() -> Vec<(&'static rules::Rule, Break)> {
    vec![
        (&rules::EVENT_LINE_JSON, |r| second_line(r, EVENTS, |_, _| "{".into())),
        (&rules::EVENT_LINE_SCHEMA, |r| {
            second_line(r, EVENTS, |_, l| with(l, |v| v["timestamp_ms"] = json!("x")))
        }),
        (&rules::EVENT_DUPLICATE, |r| {
            second_line(r, EVENTS, |first, l| {
                let id = serde_json::from_str::<Value>(first).unwrap()["event_id"].clone();
                with(l, |v| v["event_id"] = id)
            })
        }),
        (&rules::EVENT_KIND, |r| {
            second_line(r, EVENTS, |_, l| with(l, |v| v["event_subkind"] = json!("new")))
        }),
        (&rules::EVENT_BREAKDOWN, |r| {
            change(r, EVENTS.1, |v| {
                v["counts"]["events_by_kind"] = json!({"chat_turn": 1, "other": 1})
            })
        }),
        (&rules::SESSION_LINE_JSON, |r| second_line(r, SESSIONS, |_, _| "[1".into())),
        (&rules::SESSION_LINE_SCHEMA, |r| {
            second_line(r, SESSIONS, |_, l| with(l, |v| v["window"] = json!([1, 2])))
        }),
        (&rules::SESSION_DUPLICATE, |r| second_line(r, SESSIONS, |first, _| first.into())),
        (&rules::SESSION_EVENTS, |r| {
            second_line(r, SESSIONS, |_, l| with(l, |v| v["event_ids"] = json!(["evt_none"])))
        }),
        (&rules::SESSION_COUNT, |r| {
            second_line(r, SESSIONS, |_, l| with(l, |v| v["event_count"] = json!(9)))
        }),
        (&rules::SESSION_DAY, |r| {
            second_line(r, SESSIONS, |_, l| with(l, |v| v["day"] = json!(DAY)))
        }),
        (&rules::CHUNK_LINE_JSON, |r| second_line(r, CHUNKS, |_, _| "nope".into())),
        (&rules::CHUNK_LINE_SCHEMA, |r| {
            second_line(r, CHUNKS, |_, l| with(l, |v| v["text"] = json!(null)))
        }),
        (&rules::CHUNK_DUPLICATE, |r| second_line(r, CHUNKS, |first, _| first.into())),
        (&rules::SUMMARY_LINE_JSON, |r| {
            summary_lines(r, Stream::Events, |lines| lines[0] = "{".into())
        }),
        (&rules::SUMMARY_LINE_SCHEMA, |r| {
            foreign_line(r, Stream::Sessions, |v| v["model"]["temperature"] = json!("hot"))
        }),
        (&rules::SUMMARY_DUPLICATE, |r| {
            summary_lines(r, Stream::Events, |lines| lines[1] = lines[0].clone())
        }),
        (&rules::SUMMARY_DAY, |r| foreign_line(r, Stream::Events, |v| v["day"] = json!(EXTRA))),
        (&rules::SUMMARY_SOURCES, |r| {
            foreign_line(r, Stream::Events, |v| v["source_ids"] = json!(["evt_none"]))
        }),
        (&rules::SUMMARY_HASH, |r| {
            foreign_line(r, Stream::ChunkSets, |v| {
                v["selection"]["source_text_hash"] = json!("0".repeat(64))
            })
        }),
        (&rules::SUMMARY_HIERARCHY, |r| {
            foreign_line(r, Stream::Documents, |v| {
                v["outputs"]["hierarchy_version"] = json!("tree.v1");
                v["outputs"]["hierarchy"] = json!({"root": "n0", "nodes": [
                {"node_id": "n0", "level": 1, "title": "", "text": "", "children": ["n9"], "source_ids": []}]});
            })
        }),
        (&rules::SUMMARY_RECONCILE, |r| {
            change(r, &summary(Stream::Events).1, |v| v["counts"]["eligible"] = json!(99))
        }),
        (&rules::SUMMARY_SKIPS, |r| {
            change(r, &summary(Stream::Events).1, |v| v["skip_reasons"] = json!({}))
        }),
        (&rules::SUMMARY_FAILS, |r| {
            change(r, &summary(Stream::Events).1, |v| v["fail_reasons"] = json!({"model_error": 7}))
        }),
        (&rules::UPSTREAM_NO_MANIFEST, |r| std::fs::remove_file(r.join(CHUNKS.1)).unwrap()),
        (&rules::UPSTREAM_NO_DATA, |r| std::fs::remove_file(r.join(CHUNKS.0)).unwrap()),
        (&rules::NO_MANIFEST, |r| std::fs::remove_file(r.join(summary(Stream::Events).1)).unwrap()),
        (&rules::NO_DATA, |r| std::fs::remove_file(r.join(summary(Stream::Events).0)).unwrap()),
        (&rules::MANIFEST_SCHEMA, |r| {
            change(r, &summary(Stream::Events).1, |v| v["producer"] = json!("me"))
        }),
        (&rules::MANIFEST_NAME, |r| {
            change(r, &summary(Stream::Events).1, |v| v["day"] = json!(EXTRA))
        }),
        (&rules::MANIFEST_HASH, |r| {
            change(r, &summary(Stream::Events).1, |v| {
                v["integrity"]["sha256"] = json!("0".repeat(64));
                v["hashes"]["data_hash"] = json!("0".repeat(64));
            })
        }),
        (&rules::MANIFEST_BYTES, |r| {
            change(r, &summary(Stream::Events).1, |v| {
                v["integrity"]["bytes"] = json!(1);
                v["byte_size"] = json!(1);
            })
        }),
        (&rules::MANIFEST_COUNTS, |r| {
            change(r, &summary(Stream::Events).1, |v| v["counts"]["records_total"] = json!(9))
        }),
        (&rules::MANIFEST_TWINS, |r| {
            change(r, &summary(Stream::Events).1, |v| v["byte_size"] = json!(1))
        }),
        (&rules::SUMMARY_ID, |r| {
            summary_lines(r, Stream::Events, |lines| {
                lines[0] = with(&lines[0], |v| v["summary_id"] = json!("sum_0"));
            })
        }),
        (&rules::RUN_SCHEMA, |r| change(r, &run_path(RUN), |v| v["status"] = json!("fine"))),
        (&rules::RUN_NAME, |r| {
            change(r, &run_path("run_lonely"), |v| v["run_id"] = json!("run_other"))
        }),
        (&rules::RUN_COUNTERS, |r| {
            change(r, &run_path(RUN), |v| v["counters"]["errors_count"] = json!(3))
        }),
        (&rules::RUN_STATUS, |r| change(r, &run_path(RUN), |v| v["status"] = json!("error"))),
        (&rules::RUN_PATHS, |r| {
            change(r, &run_path(RUN), |v| v["inputs"][0]["path"] = json!("/etc/passwd"))
        }),
        (&rules::ROW_SCHEMA, |r| rows(r, |row| row["status"] = json!("fine"))),
        (&rules::ROW_RECORD, |r| rows(r, |row| row["run_id"] = json!("run_nobody"))),
        (&rules::ROW_HASH, |r| rows(r, |row| row["record_sha256"] = json!("0".repeat(64)))),
        (&rules::READABLE, |r| {
            std::fs::remove_file(r.join("selection_manifests/s.json")).unwrap();
            std::fs::create_dir(r.join("selection_manifests/s.json")).unwrap();
        }),
        (&rules::SELECTION_SCHEMA, |r| {
            change(r, "selection_manifests/s.json", |v| v["created_by"] = json!("me"))
        }),
        (&rules::SELECTION_HASH, |r| {
            change(r, "selection_manifests/s.json", |v| {
                v["selection"]["items"] = json!([{"id": "evt_3"}])
            })
        }),
    ]
}

fn run_path(run_id: &str) -> String {
    format!("artifacts/run_records/{run_id}.run_record.json")
}

fn check(root: &Path, threads: usize) -> Report {
    let disk: Arc<dyn Disk> = Arc::new(HostDisk);
    verify_tree(&disk, root, Options { threads, sources: true }, &|_| {}).unwrap()
}

#[test]
fn a_valid_tree_has_no_violation_with_any_number_of_threads() {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path().join("buses");
    sound(&home);
    let report = check(&home, 1);
    assert_eq!(report.violations, []);
    assert!(report.files >= 20 && report.lines >= 15, "{report:?}");
    assert_eq!(check(&home, 4), report);
}

#[test]
fn each_rule_has_a_tree_that_breaks_it_and_nothing_else() {
    let mut covered = BTreeSet::new();
    for (rule, damage) in breaks() {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().join("buses");
        sound(&home);
        damage(&home);
        let report = check(&home, 2);
        let broken: BTreeSet<&str> = report.violations.iter().map(|one| one.rule).collect();
        assert_eq!(broken, BTreeSet::from([rule.id]), "{:#?}", report.violations);
        assert!(
            report.violations.iter().all(|one| one.class == rule.class && !one.file.is_empty())
        );
        covered.insert(rule.id);
    }
    // Those of digests have their trees in `digest.rs`, where bags are made. Feeds and files that follow
    // from the log are damaged in `summaries/exporters.rs`, copies in `bad_day.rs`.
    let elsewhere = ["T004", "AF.feed", "LOG.files", "BACKUP.files"];
    let all = rules::ALL
        .iter()
        .map(|rule| rule.id)
        .filter(|id| !elsewhere.iter().any(|start| id.starts_with(start)));
    assert_eq!(covered, all.collect());
}

/// The files of a bus home, relative to it.
fn files_of(root: &Path, folder: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(root.join(folder)).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        let path = if folder.is_empty() { name } else { format!("{folder}/{name}") };
        match entry.path().is_dir() {
            true => found.extend(files_of(root, &path)),
            false => found.push(path),
        }
    }
    found.sort();
    found
}

/// A plain file of which a summary of `sound` was made.
const PLAIN: &str = "other/notes/a.md";

#[test]
fn what_takes_the_place_of_a_file_is_told_and_is_no_failure_of_the_disk() {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path().join("buses");
    sound(&home);
    // Of the bus `other`, only what a summary was made of matters.
    let is_checked = |path: &String| !path.starts_with("other/") || path == PLAIN;
    let files: Vec<String> = files_of(&home, "").into_iter().filter(is_checked).collect();
    assert!(files.len() >= 20, "{files:?}");
    for file in files {
        let place = home.join(&file);
        let whole = std::fs::read(&place).unwrap();
        for is_pipe in [true, false] {
            std::fs::remove_file(&place).unwrap();
            match is_pipe {
                true => {
                    let made = std::process::Command::new("mkfifo").arg(&place).status();
                    assert!(made.unwrap().success());
                }
                false => std::fs::create_dir(&place).unwrap(),
            }
            let report = check(&home, 2);
            assert!(report.violations_total > 0, "{file}, a pipe: {is_pipe}");
            match is_pipe {
                true => std::fs::remove_file(&place).unwrap(),
                false => std::fs::remove_dir(&place).unwrap(),
            }
            std::fs::write(&place, &whole).unwrap();
        }
    }
    assert_eq!(check(&home, 2).violations, []);
}

#[test]
fn a_plain_file_that_cannot_be_read_any_more_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path().join("buses");
    sound(&home);
    let place = home.join(PLAIN);
    let whole = std::fs::read(&place).unwrap();
    std::fs::write(dir.path().join("elsewhere.md"), &whole).unwrap();
    let with_byte = |at: usize, byte: u8| {
        let mut changed = whole.clone();
        changed[at] = byte;
        std::fs::write(&place, changed).unwrap();
    };
    let too_large = || {
        let file = std::fs::File::options().write(true).open(&place).unwrap();
        file.set_len((64 << 20) + 1).unwrap();
    };
    let link_out = || {
        std::fs::remove_file(&place).unwrap();
        std::os::unix::fs::symlink(dir.path().join("elsewhere.md"), &place).unwrap();
    };
    let ways: [(&str, &dyn Fn()); 5] = [
        ("a byte that is no UTF-8 at its beginning", &|| with_byte(0, 0xff)),
        ("one at its end", &|| with_byte(whole.len() - 1, 0xc3)),
        ("a zero", &|| with_byte(whole.len() / 2, 0)),
        ("too large", &too_large),
        ("a link out", &link_out),
    ];
    for (way, damage) in ways {
        damage();
        let report = check(&home, 2);
        let rules: BTreeSet<&str> = report.violations.iter().map(|one| one.rule).collect();
        let told = [rules::SUMMARY_SOURCES.id, rules::SUMMARY_HASH.id];
        assert!(rules.iter().any(|rule| told.contains(rule)), "{way}: {:?}", report.violations);
        std::fs::remove_file(&place).unwrap();
        std::fs::write(&place, &whole).unwrap();
    }
    // A broken partition is told once, and not again for each summary of it.
    change(&home, CHUNKS.1, |v| v["integrity"]["sha256"] = json!("0".repeat(64)));
    let report = check(&home, 2);
    assert!(report.violations.iter().all(|one| one.rule == rules::MANIFEST_HASH.id), "{report:?}");
}

#[test]
fn every_change_of_a_run_record_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path().join("buses");
    sound(&home);
    let good = read(&home, &run_path(RUN));
    rows(&home, |row| row["record_sha256"] = json!(sha256(&good).hex()));
    assert_eq!(check(&home, 2).violations, []);
    let edits: [fn(&mut Value); 6] = [
        |v| v["completed_at"] = json!("2026-02-11T10:00:01.000Z"),
        |v| v["environment"]["os"] = json!("plan9"),
        |v| v["inputs"][0]["path"] = json!("eventbus/daily/y.jsonl"),
        |v| v["inputs"][0]["data_hash"] = json!("0".repeat(64)),
        |v| v["counters"]["records_seen"] = json!(1),
        |v| v["more"] = json!(1),
    ];
    for edit in edits {
        write(&home, &run_path(RUN), &good);
        change(&home, &run_path(RUN), edit);
        let rules: Vec<&str> = check(&home, 2).violations.iter().map(|one| one.rule).collect();
        assert_eq!(rules, [rules::ROW_HASH.id]);
    }
}

#[test]
fn violations_name_their_place_and_an_empty_home_is_valid() {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path().join("buses");
    std::fs::create_dir(&home).unwrap();
    assert_eq!(check(&home, 2).violations_total, 0);
    // Digests without their Summary Bus are not valid: `verify` says what it could not check.
    let digests = tempfile::tempdir().unwrap();
    std::fs::create_dir(digests.path().join("digests")).unwrap();
    let unchecked = check(digests.path(), 1).unchecked.join("; ");
    assert!(unchecked.contains("there is no Summary Bus here"), "{unchecked}");
    sound(&home);
    foreign_line(&home, Stream::Events, |line| {
        line["prompt"].as_object_mut().unwrap().remove("prompt_hash");
        line["model"]["max_tokens"] = json!("many");
    });
    let report = check(&home, 2);
    let places: Vec<_> = report
        .violations
        .iter()
        .map(|one| (one.file.as_str(), one.line, one.pointer.as_str()))
        .collect();
    let file = summary(Stream::Events).0;
    assert_eq!(
        places,
        [(file.as_str(), Some(1), "/model/max_tokens"), (file.as_str(), Some(1), "/prompt")]
    );
}
