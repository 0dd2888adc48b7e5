//! Builds a request record from its parts, for callers who do not want to write JSON.
//!
//! Pure: the moment and the random bytes are given. The record is not validated here; appending
//! does that for every record alike.

use serde_json::{Map, Value, json};

use crate::contract::request::{Input, RequestedBy, SCHEMA};
use crate::contract::time::Timestamp;
use crate::contract::vocabulary::{SummaryKind, Urgency};

/// What a caller says; everything optional is left out of the record when absent.
#[derive(Debug, Clone)]
pub(crate) struct RequestParts {
    /// The caller's id; a random UUID when absent.
    pub request_id: Option<String>,
    pub requested_by: RequestedBy,
    /// Now, or scheduled with a `not_before`.
    pub urgency: Urgency,
    /// Not earlier than this.
    pub not_before: Option<Timestamp>,
    /// To be done by then.
    pub deadline: Option<Timestamp>,
    /// 1 (highest) to 5.
    pub priority: Option<u8>,
    pub idempotency_key: Option<String>,
    pub kind: SummaryKind,
    /// Any string; `other` is always allowed.
    pub subkind: String,
    pub flow_id: String,
    pub variant: Option<String>,
    pub params: Map<String, Value>,
    /// From what.
    pub input: Input,
    /// For people.
    pub notes: Option<String>,
}

/// The record of a request made at `created_at`.
pub(crate) fn build_request(
    parts: &RequestParts,
    created_at: Timestamp,
    random: [u8; 16],
) -> Value {
    let by = &parts.requested_by;
    let mut record = Map::new();
    record.insert("schema_version".into(), SCHEMA.into());
    let request_id = parts.request_id.clone().unwrap_or_else(|| uuid(random));
    record.insert("request_id".into(), request_id.into());
    record.insert("created_at".into(), created_at.to_string().into());
    let mut requested_by =
        json!({"repo": by.repo, "component": by.component, "version": by.version});
    if let Some(commit) = &by.git_commit {
        requested_by["git_commit"] = commit.as_str().into();
    }
    record.insert("requested_by".into(), requested_by);
    record.insert("urgency".into(), parts.urgency.as_str().into());
    let mut optional = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            record.insert(name.into(), value);
        }
    };
    optional("not_before", parts.not_before.map(|at| at.to_string().into()));
    optional("deadline", parts.deadline.map(|at| at.to_string().into()));
    optional("priority", parts.priority.map(Value::from));
    optional("idempotency_key", parts.idempotency_key.clone().map(Value::from));
    optional("notes", parts.notes.clone().map(Value::from));
    optional("work", Some(work(parts)));
    optional("input", Some(input(&parts.input)));
    Value::Object(record)
}

fn work(parts: &RequestParts) -> Value {
    let mut flow = json!({"kind": "registry", "flow_id": parts.flow_id});
    if let Some(variant) = &parts.variant {
        flow["variant"] = variant.as_str().into();
    }
    json!({
        "output_bus": "summary_bus",
        "output_kind": "summary_item",
        "summary_kind": parts.kind,
        "summary_subkind": parts.subkind,
        "flow_ref": flow,
        "params": parts.params,
    })
}

fn input(input: &Input) -> Value {
    match input {
        Input::Ids { bus, ids } => json!({"mode": "ids", "bus": bus, "ids": ids}),
        Input::SelectionManifest { path, hash } => {
            json!({"mode": "selection_manifest", "manifest_path": path, "selection_hash": hash})
        }
        Input::Query { bus, query } => {
            json!({"mode": "query", "bus": bus, "query": query.to_value()})
        }
    }
}

/// A version 4 UUID of 16 random bytes.
fn uuid(mut random: [u8; 16]) -> String {
    random[6] = random[6] & 0x0f | 0x40;
    random[8] = random[8] & 0x3f | 0x80;
    let mut text = String::with_capacity(36);
    for (index, byte) in random.iter().enumerate() {
        if matches!(index, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        crate::contract::hash::push_hex(&mut text, &[*byte]);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::request::Request;
    use crate::contract::time::parse_instant;
    use crate::contract::vocabulary::Bus;

    fn parts() -> RequestParts {
        RequestParts {
            request_id: None,
            requested_by: RequestedBy {
                repo: "cli".into(),
                component: "submit".into(),
                version: "0.1.0".into(),
                git_commit: None,
            },
            urgency: Urgency::Now,
            not_before: None,
            deadline: None,
            priority: None,
            idempotency_key: None,
            kind: SummaryKind::DocumentSummary,
            subkind: "other".into(),
            flow_id: "docs.chunk_set.summarize.brief.v1".into(),
            variant: None,
            params: Map::new(),
            input: Input::Ids { bus: Bus::ChunkBus, ids: vec!["doc_1".into()] },
            notes: None,
        }
    }

    fn read_back(parts: &RequestParts) -> Request {
        let created_at = parse_instant("2026-02-11T23:02:11Z").unwrap().at;
        let record = build_request(parts, created_at, [0xff; 16]);
        Request::parse(record.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn a_built_record_is_a_request() {
        let request = read_back(&parts());
        assert_eq!(request.request_id, "ffffffff-ffff-4fff-bfff-ffffffffffff");
        assert_eq!(request.created_at.to_string(), "2026-02-11T23:02:11.000Z");
        assert_eq!(request.input, parts().input);
        assert_eq!((request.priority, request.deadline), (3, None));
    }

    #[test]
    fn every_part_arrives() {
        let at = |text| parse_instant(text).unwrap().at;
        let mut full = parts();
        full.request_id = Some("r".into());
        full.requested_by.git_commit = Some("abc".into());
        full.urgency = Urgency::Scheduled;
        full.not_before = Some(at("2026-02-12T09:00:00Z"));
        full.deadline = Some(at("2026-02-13T09:00:00Z"));
        full.priority = Some(1);
        full.idempotency_key = Some("k".into());
        full.variant = Some("strict".into());
        full.params.insert("max_tokens".into(), 350.into());
        full.input = Input::SelectionManifest { path: "m.json".into(), hash: "sha256:00".into() };
        full.notes = Some("why".into());
        let request = read_back(&full);
        assert_eq!(request.request_id, "r");
        assert_eq!(request.requested_by, full.requested_by);
        assert_eq!((request.urgency, request.priority), (Urgency::Scheduled, 1));
        assert_eq!((request.not_before, request.deadline), (full.not_before, full.deadline));
        assert_eq!(request.idempotency_key.as_deref(), Some("k"));
        assert_eq!(request.work.variant.as_deref(), Some("strict"));
        assert_eq!(request.work.params, full.params);
        assert_eq!(request.input, full.input);
    }
}
