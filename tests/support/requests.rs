//! Requests, and the script of the worker for them.

use serde_json::{Value, json};

pub const ACTIVE: &str = "test.notes.summarize.v1";
pub const DEPRECATED: &str = "test.notes.summarize.v0";
pub const DISABLED: &str = "test.notes.disabled.v1";

/// A valid request over a file of the `other` bus.
pub fn request(id: &str, flow: &str, params: Value) -> Value {
    json!({
        "schema_version": "summary_request.v1", "request_id": id,
        "created_at": "2026-03-01T10:00:00Z",
        "requested_by": {"repo": "tests", "component": "torture", "version": "dev"},
        "urgency": "now",
        "work": {
            "output_bus": "summary_bus", "output_kind": "summary_item",
            "summary_kind": "document_summary", "summary_subkind": "other",
            "flow_ref": {"kind": "registry", "flow_id": flow}, "params": params,
        },
        "input": {"mode": "ids", "bus": "other", "ids": [format!("{id}.txt")]},
    })
}

/// A request with scripted attempts: one word for each attempt, the last word for all later ones.
pub fn scripted(id: &str, script: &[&str]) -> Value {
    request(id, ACTIVE, json!({"script": script}))
}

pub fn with(mut request: Value, name: &str, value: impl Into<Value>) -> Value {
    request[name] = value.into();
    request
}

pub fn from_repo(mut request: Value, repo: &str) -> Value {
    request["requested_by"]["repo"] = repo.into();
    request
}

/// The item of a request, independent of its key: two requests with one name do identical work.
pub fn making(mut request: Value, item: &str) -> Value {
    request["work"]["params"]["item"] = item.into();
    request
}

pub fn lines(requests: &[Value]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for request in requests {
        bytes.extend_from_slice(request.to_string().as_bytes());
        bytes.push(b'\n');
    }
    bytes
}
