//! What a try records beside its outcome: stream, day and inputs for the manifest of the day, the
//! place of every source, and for a failure its class in the shared taxonomy.
//!
//! Contract: bounded. The places of sources beyond the bound are counted, not listed.

use serde_json::{Map, Value, json};

use crate::contract::request::Request;
use crate::contract::time::Day;
use crate::contract::vocabulary::{AckStatus, Bus, ErrorClass, ReasonCode, Stream, SummaryKind};
use crate::flow::{FlowError, FlowErrorClass, FlowOutcome, FlowProblem};
use crate::model::ModelIdentity;
use crate::state::decide::{Again, Failed, Outcome};
use crate::upstream::{ResolveError, Resolved};
use crate::work::flow_worker::{Prepared, object};

/// Bytes of source places recorded for one request.
const PLACES_BYTES_MAX: usize = 4 << 20;
/// Inputs recorded for one request.
const INPUTS_MAX: usize = 4_096;
/// Longest message of a failure, in bytes.
const MESSAGE_BYTES_MAX: usize = 4_096;

/// What is known of the input so far.
#[derive(Debug, Clone)]
pub(crate) struct Found {
    /// The stream the request counts on.
    pub stream: Stream,
    /// The day it counts on.
    pub day: Day,
    known: Map<String, Value>,
}

/// The stream a request counts on when its input is not known.
pub(crate) fn stream_of(kind: SummaryKind, bus: Option<Bus>) -> Stream {
    let bus = bus.unwrap_or(match kind {
        SummaryKind::EventSummary => Bus::EventBus,
        SummaryKind::SessionSummary => Bus::SessionBus,
        SummaryKind::DocumentSummary | SummaryKind::ChunkSetSummary => Bus::ChunkBus,
        SummaryKind::Other => Bus::Other,
    });
    kind.stream(bus)
}

impl Found {
    /// Nothing was resolved yet: the request counts on the day it was made.
    pub fn nothing(request: &Request, created: Day) -> Found {
        let stream = stream_of(request.work.kind, request.input.bus());
        Found { stream, day: created, known: Map::new() }
    }

    /// The input was resolved.
    pub fn resolved(&mut self, resolved: &Resolved, day: Day) {
        (self.stream, self.day) = (resolved.stream, day);
        let inputs: Vec<Value> = resolved
            .upstream
            .iter()
            .take(INPUTS_MAX)
            .map(|one| {
                json!({
                    "path": one.data_path, "bus": one.bus, "partition": one.partition,
                    "data_sha256": one.data_sha256.hex(), "data_bytes": one.data_bytes,
                    "manifest_path": one.manifest_path,
                    "manifest_sha256": one.manifest_sha256.map(|hash| hash.hex()),
                    "schema_version": one.schema_version,
                })
            })
            .collect();
        self.known = object(json!({
            "inputs": inputs,
            "source_text_hash": resolved.source_text_hash.hex(),
            "counts": resolved.selection["counts"],
            "notes": resolved.notes,
        }));
        if resolved.upstream.len() > INPUTS_MAX {
            let omitted = resolved.upstream.len() - INPUTS_MAX;
            self.known.insert("inputs_omitted".to_owned(), omitted.into());
        }
        if let Some(selection) = &resolved.selection_manifest {
            let selection = json!({
                "path": selection.path, "sha256": selection.sha256.hex(),
                "selection_hash": selection.hash,
            });
            self.known.insert("selection".to_owned(), selection);
        }
    }

    /// As recorded.
    pub fn to_json(&self) -> Value {
        let mut facts = self.known.clone();
        facts.insert("stream".to_owned(), json!(self.stream));
        facts.insert("day".to_owned(), self.day.to_string().into());
        Value::Object(facts)
    }

    /// As text, with the place of every source, so that a span leads back to a file and a line.
    pub fn with_sources(&self, resolved: &Resolved) -> String {
        // Written as they come: a tree of very many places takes ten times their text.
        let (mut places, mut listed) = (String::new(), 0);
        for source in resolved.sources.iter() {
            let place = json!({
                "id": source.id, "file": source.file, "line": source.line,
                "offset": source.offset, "len": source.len, "text_bytes": source.text_bytes,
            });
            let place = place.to_string();
            if places.len() + place.len() > PLACES_BYTES_MAX {
                break;
            }
            if listed > 0 {
                places.push(',');
            }
            places.push_str(&place);
            listed += 1;
        }
        let mut facts = self.to_json();
        if listed < resolved.sources.len() {
            facts["sources_omitted"] = json!(resolved.sources.len() - listed);
        }
        // There are members before it: the stream and the day.
        let mut head = facts.to_string();
        head.truncate(head.len() - 1);
        head.push_str(",\"sources\":[");
        places.reserve_exact(head.len() + 2);
        places.insert_str(0, &head);
        places.push_str("]}");
        places
    }

    /// With an error of the shared taxonomy.
    pub fn with_error(&self, class: ErrorClass, subtype: &str, details: Value) -> Value {
        let mut facts = self.to_json();
        facts["error"] = json!({"class": class, "subtype": subtype, "details": details});
        facts
    }

    /// With what made an item and is not in it.
    pub fn with_provenance(&self, prepared: &Prepared, made: &FlowOutcome) -> Value {
        let mut facts = self.to_json();
        let calls: Vec<Value> = made
            .calls
            .iter()
            .take(INPUTS_MAX)
            .map(|call| {
                json!({
                    "node": call.node, "turn": call.turn, "request_hash": call.request_hash,
                    "rendered_sha256": call.rendered_sha256, "reused": call.reused,
                    "stop": call.stop,
                })
            })
            .collect();
        facts["provenance"] = json!({
            "flow": prepared.pack.record().template_id(),
            "pack_hash": prepared.pack.pack_hash().hex(),
            "prompt_hash": made.prompt_hash,
            "rendered_prompt_sha256": made.rendered_prompt_sha256,
            "engine": made.engine, "engine_version": made.engine_version,
            "model": made.model, "usage": made.usage, "calls": calls,
            "warnings": made.warnings,
        });
        if !prepared.configured.is_empty() {
            facts["provenance"]["configured_params"] = json!(prepared.configured);
        }
        facts
    }
}

/// A failed try.
pub(crate) fn failed(
    again: Again,
    reason: Option<ReasonCode>,
    mut message: String,
    facts: Value,
) -> Outcome {
    let mut end = message.len().min(MESSAGE_BYTES_MAX);
    while !message.is_char_boundary(end) {
        end -= 1;
    }
    message.truncate(end);
    Outcome::Failed(Failed { again, reason, message, facts: facts.to_string() })
}

/// The input could not be resolved.
pub(crate) fn unresolved(error: ResolveError, found: &Found) -> Outcome {
    let again = match error.status {
        AckStatus::FailedTransient => Again::Later,
        AckStatus::RejectedInvalidInput => Again::InvalidInput,
        _ => Again::Never,
    };
    let facts = found.with_error(error.class, &error.subtype, error.details);
    failed(again, Some(error.reason_code), error.message, facts)
}

const TIMEOUT: &str = "timeout";
/// Violations of the output schema that are recorded.
const VIOLATIONS_MAX: usize = 20;

/// What was wrong with the last answer; its text is an event of its own.
fn violations(error: &FlowError) -> Value {
    match &*error.problem {
        FlowProblem::Schema { errors, .. } => {
            json!(errors.iter().take(VIOLATIONS_MAX).collect::<Vec<_>>())
        }
        _ => json!([]),
    }
}

/// The flow gave nothing. A try that `got_on`, because answers came in that are kept, and ran out
/// of time is not a failed one: the next goes on where it stopped.
pub(crate) fn flow_failed(
    prepared: &Prepared,
    identity: &ModelIdentity,
    error: &FlowError,
    got_on: bool,
) -> Outcome {
    let wait = error.retry_after().map(|wait| i64::try_from(wait.as_millis()).unwrap_or(i64::MAX));
    let again = match (error.class(), wait) {
        (FlowErrorClass::Transient, None) if got_on && error.reason_code() == TIMEOUT => {
            Again::After(0)
        }
        (FlowErrorClass::Pause | FlowErrorClass::Transient, Some(ms)) => Again::After(ms),
        (FlowErrorClass::Pause | FlowErrorClass::Transient, None) => Again::Later,
        (FlowErrorClass::InvalidParams, _) => Again::InvalidInput,
        _ => Again::Never,
    };
    let retryable = matches!(again, Again::Later | Again::After(_));
    let class = match error.class() {
        FlowErrorClass::InvalidParams => ErrorClass::SchemaMismatch,
        _ => ErrorClass::ModelFailure,
    };
    let selections = prepared.resolved.selection_manifest.iter();
    let details = json!({
        "model_id": format!("{}/{}", identity.provider, identity.model_name),
        "prompt_hash": prepared.prompt_hash,
        "selection_manifest_refs": selections.map(|one| &one.path).collect::<Vec<_>>(),
        "retryable": retryable,
        "usage": error.usage,
        "calls": error.calls.len(),
        "violations": violations(error),
    });
    let facts = prepared.found.with_error(class, &error.reason_code().to_uppercase(), details);
    failed(again, ReasonCode::parse(error.reason_code()), error.to_string(), facts)
}
