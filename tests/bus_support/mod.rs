//! A bus home for tests: small, complete, and easy to break in one place.
#![allow(dead_code, reason = "every test binary uses its own part")]

use std::path::Path;

use serde_json::{Value, json};
use summarizer::contract::hash::sha256;

pub fn write(root: &Path, relative: &str, bytes: impl AsRef<[u8]>) {
    let path = root.join(relative);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, bytes).unwrap();
}

pub fn jsonl(records: &[Value]) -> String {
    records.iter().map(|record| format!("{record}\n")).collect()
}

pub fn event(id: &str, ms: i64, content: &str) -> Value {
    json!({"schema_version": "event.v1", "event_id": id, "timestamp_ms": ms, "role": "user",
        "content": content, "event_kind": "chat_turn", "event_subkind": "user_message",
        "conversation_id": "conv_1", "title": "A talk",
        "source": {"source_system": "test", "source_record_id": id, "source_uri": "t"}})
}

pub fn events_day(root: &Path, day: &str, events: &[Value]) {
    let data = jsonl(events);
    write(root, &format!("eventbus/daily/{day}.jsonl"), &data);
    let manifest = json!({
        "schema_version": "event_manifest.v2", "bus_schema_version": "event.v1", "day": day,
        "daily_path": format!("eventbus/daily/{day}.jsonl"),
        "counts": {"events_total": events.len(), "events_by_kind": {"chat_turn": events.len()},
            "events_by_domain": {}},
        "kind_registry": {"allowed_kinds": ["chat_turn", "other"], "allowed_subkinds": ["user_message", "other"]},
        "integrity": {"sha256": sha256(&data).hex(), "bytes": data.len(), "lines": events.len()},
    });
    write(root, &format!("eventbus/manifest/{day}.manifest.json"), manifest.to_string());
}

pub fn session(id: &str, day: &str, start: i64, event_ids: &[&str]) -> Value {
    json!({"schema_version": "session.v1", "session_id": id, "day": day,
        "window": {"window_type": "gap_based", "start_ts_ms": start, "end_ts_ms": start + 1000, "timezone": "UTC"},
        "event_ids": event_ids, "event_count": event_ids.len(), "title_candidates": ["Session title"],
        "source": {"input_manifest_day": day, "input_manifest_sha256": "", "sessionizer_version": "1"}})
}

pub fn sessions_day(root: &Path, day: &str, short_name: bool, sessions: &[Value]) {
    let data = jsonl(sessions);
    write(root, &format!("sessions/daily/{day}.sessions.jsonl"), &data);
    let manifest = json!({
        "schema_version": "sessions_manifest.v1", "bus_schema_version": "session.v1", "day": day,
        "sessions_path": format!("sessions/daily/{day}.sessions.jsonl"),
        "counts": {"sessions_total": sessions.len(), "events_total_referenced": 0},
        "integrity": {"sha256": sha256(&data).hex(), "bytes": data.len()},
    });
    let infix = if short_name { "" } else { ".sessions" };
    write(root, &format!("sessions/manifest/{day}{infix}.manifest.json"), manifest.to_string());
}

pub fn chunk(id: &str, document: &str, index: i64, text: &str) -> Value {
    json!({"schema_version": "chunks.v1", "chunk_id": id, "document_id": document, "text": text,
        "metadata": {"chunk_index": index, "title": format!("Title of {document}")},
        "provenance": {"source_uri": "u", "source_checksum": "c", "inputs": [],
            "parser": {"parser_name": "p", "parser_version": "1"},
            "canonicalizer": {"canonicalizer_name": "c", "canonicalizer_version": "1"}}})
}

pub fn chunks(root: &Path, partition: &str, chunks: &[Value]) {
    let data = jsonl(chunks);
    let path = format!("chunks/canonical/{partition}.jsonl");
    write(root, &path, &data);
    let manifest = json!({
        "schema_version": "chunks_manifest.v1", "partition_key": partition,
        "created_at": "2026-02-11T00:00:00Z", "producer": {"name": "t", "version": "1"},
        "counts": {"documents_processed": 1, "chunks_emitted": chunks.len(), "failures": 0},
        "checksums": {path: format!("sha256:{}", sha256(&data).hex())}, "idempotency": {}, "errors": {},
    });
    write(root, &format!("chunks/manifest/{partition}.manifest.json"), manifest.to_string());
}

/// Milliseconds of 2026-02-11T00:00:00Z.
pub const MIDNIGHT: i64 = 1_770_768_000_000;

/// Events on two days, a session across midnight, two documents, a plain file.
pub fn home(root: &Path) {
    events_day(
        root,
        "2026-02-10",
        &[
            event("evt_1", MIDNIGHT - 2000, "Before midnight.\r\nTwo lines."),
            event("evt_2", MIDNIGHT - 1000, ""),
        ],
    );
    events_day(
        root,
        "2026-02-11",
        &[
            event("evt_4", MIDNIGHT + 2000, "Fourth."),
            event("evt_3", MIDNIGHT + 1000, "After midnight: caf\u{65}\u{301}."),
        ],
    );
    sessions_day(
        root,
        "2026-02-10",
        false,
        &[
            session("ses_1", "2026-02-10", MIDNIGHT - 2000, &["evt_3", "evt_1", "evt_2"]),
            session("ses_0", "2026-02-10", MIDNIGHT + 2000, &["evt_4", "evt_3"]),
        ],
    );
    chunks(
        root,
        "books",
        &[
            chunk("chk_b1", "doc_b", 0, "B one."),
            chunk("chk_a2", "doc_a", 1, "A two."),
            chunk("chk_a1", "doc_a", 0, "A one."),
        ],
    );
    write(root, "other/notes/a.md", "# Note\n\nText of the note.\n");
}
