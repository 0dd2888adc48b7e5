//! What an attempt records beside its outcome: stream, day and inputs for the manifest of the day,
//! the place of every source, and for a failure its class in the shared taxonomy.
//!
//! Contract: bounded. The places of sources beyond the bound are counted, not listed.

use crate::contract::request::Request;
use crate::contract::schema::Violation;
use crate::contract::time::Day;
use crate::contract::vocabulary::{AckStatus, ErrorClass, FailureCause, ReasonCode};
use crate::facts::JsonObject;
use crate::facts::attempt::{
    InputFacts, PLACE_BYTES, SelectionInput, SourceCounts, SourcePlace, SourcePlaces, UpstreamInput,
};
use crate::facts::failure::{ErrorDetails, ErrorFacts, ModelFailure};
use crate::facts::model::{CallFacts, Provenance};
use crate::flow::{FlowError, FlowErrorClass, FlowOutcome, FlowProblem};
use crate::markup::prefix;
use crate::model::ModelIdentity;
use crate::state::decide::{Failed, Outcome, RetryHint};
use crate::upstream::{ResolveError, Resolved};

use super::prepared::Prepared;

/// Bytes of source places recorded for one request.
const PLACES_BYTES_MAX: usize = 4 << 20;
/// Inputs recorded for one request.
const INPUTS_MAX: usize = 4_096;
/// Longest message of a failure, in bytes.
const MESSAGE_BYTES_MAX: usize = 4_096;

/// Until its input is resolved, a request counts on the day it asks for, or on the day it was made.
pub(crate) fn unresolved_input(request: &Request, created: Day) -> InputFacts {
    let stream = request.work.kind.stream_of_request(request.input.bus());
    InputFacts { stream: Some(stream), day: Some(created), ..InputFacts::default() }
}

/// The facts of a resolved input.
pub(crate) fn resolved_input(resolved: &Resolved, day: Day) -> InputFacts {
    let inputs = resolved.upstream.iter().take(INPUTS_MAX).map(|one| UpstreamInput {
        path: one.data_path.clone(),
        bus: one.bus,
        partition: one.partition.clone(),
        data_sha256: Some(one.data_sha256),
        data_bytes: Some(one.data_bytes),
        manifest_path: one.manifest_path.clone(),
        manifest_sha256: one.manifest_sha256,
        schema_version: one.schema_version.clone(),
    });
    InputFacts {
        stream: Some(resolved.stream),
        day: Some(day),
        inputs: inputs.collect(),
        inputs_omitted: resolved.upstream.len().saturating_sub(INPUTS_MAX) as u64,
        source_text_hash: Some(resolved.source_text_hash),
        counts: SourceCounts {
            sources: resolved.sources.len() as u64,
            used: resolved.used,
            skipped: resolved.sources.len() as u64 - resolved.used,
        },
        notes: resolved.notes.clone(),
        selection: resolved.selection_manifest.as_ref().map(|selection| SelectionInput {
            path: selection.path.clone(),
            sha256: selection.sha256,
            selection_hash: selection.hash.clone(),
        }),
        recovered: None,
    }
}

/// The place of every source, so that a span leads back to a file and a line.
pub(crate) fn places_of(resolved: &Resolved) -> SourcePlaces {
    let (mut places, mut bytes) = (SourcePlaces::default(), 0);
    for (listed, source) in resolved.sources.iter().enumerate() {
        bytes += source.id.len() + PLACE_BYTES;
        if bytes > PLACES_BYTES_MAX {
            places.omitted = (resolved.sources.len() - listed) as u64;
            break;
        }
        let place = SourcePlace {
            id: source.id.to_owned(),
            line: source.line,
            offset: source.offset,
            len: source.len,
            text_bytes: source.text_bytes,
        };
        places.push(source.file, place);
    }
    places
}

/// What made an item, beyond what the item itself says.
pub(crate) fn provenance_of(prepared: &Prepared, made: &FlowOutcome) -> Provenance {
    let calls = made.calls.iter().take(INPUTS_MAX).map(|call| CallFacts {
        node: call.node.clone(),
        turn: call.turn,
        // It is empty for a provider that costs nothing, whose responses are not recorded.
        request_hash: call.request_hash.parse().ok(),
        rendered_sha256: call.rendered_sha256,
        reused: call.reused,
        stop: call.stop,
    });
    Provenance {
        flow: prepared.pack.record().template_id(),
        pack_hash: prepared.pack.pack_hash(),
        prompt_hash: made.prompt_hash,
        rendered_prompt_sha256: made.rendered_prompt_sha256,
        engine: made.engine.to_owned(),
        engine_version: made.engine_version.to_owned(),
        model: made.model.clone(),
        usage: made.usage,
        calls: calls.collect(),
        warnings: made.warnings.clone(),
        configured_params: JsonObject(prepared.configured.clone()),
    }
}

/// An attempt that failed.
pub(crate) fn failed(
    again: RetryHint,
    reason: Option<ReasonCode>,
    message: String,
    input: &InputFacts,
    error: Option<ErrorFacts>,
) -> Outcome {
    failed_by(again, (reason, None), message, input, error)
}

/// An attempt that failed, with what it met.
pub(super) fn failed_by(
    again: RetryHint,
    (reason, cause): (Option<ReasonCode>, Option<FailureCause>),
    mut message: String,
    input: &InputFacts,
    error: Option<ErrorFacts>,
) -> Outcome {
    message.truncate(prefix(&message, MESSAGE_BYTES_MAX).len());
    let (input, error) = (Box::new(input.clone()), error.map(Box::new));
    Outcome::Failed(Failed { again, reason, cause, message, input, error })
}

/// An error in the shared taxonomy.
pub(crate) fn error_of(class: ErrorClass, subtype: &str, details: ErrorDetails) -> ErrorFacts {
    ErrorFacts { class, subtype: subtype.to_owned(), details }
}

/// The input could not be resolved.
pub(crate) fn unresolved(error: ResolveError, input: &InputFacts) -> Outcome {
    let again = match error.status {
        AckStatus::FailedTransient => RetryHint::Later,
        AckStatus::RejectedInvalidInput => RetryHint::InvalidInput,
        _ => RetryHint::Never,
    };
    let facts = error_of(error.class, &error.subtype, error.details);
    failed(again, Some(error.reason_code), error.message, input, Some(facts))
}

const TIMEOUT: &str = "timeout";
/// Violations of the output schema that are recorded.
const VIOLATIONS_MAX: usize = 20;

/// What was wrong with the last response. Its text is in an event of its own.
fn violations(error: &FlowError) -> Vec<Violation> {
    match &*error.problem {
        FlowProblem::Schema { errors, .. } => errors.iter().take(VIOLATIONS_MAX).cloned().collect(),
        _ => Vec::new(),
    }
}

/// The finer code of an error: its reason, or what ended the process of the flow.
pub(crate) fn subtype(error: &FlowError) -> String {
    match (&*error.problem, error.cause()) {
        (FlowProblem::Stopped { .. }, Some(cause)) => cause.as_str().to_uppercase(),
        _ => error.reason_code().to_uppercase(),
    }
}

/// The flow made no summary. An attempt that `got_on` recorded responses of its own. If it ran out of
/// time, it does not count as failed: the next attempt continues where it stopped.
pub(crate) fn flow_failed(
    prepared: &Prepared,
    identity: &ModelIdentity,
    error: &FlowError,
    got_on: bool,
) -> Outcome {
    let wait = error.retry_after().map(|wait| i64::try_from(wait.as_millis()).unwrap_or(i64::MAX));
    let again = match (error.class(), wait) {
        (FlowErrorClass::Transient, None) if got_on && error.reason_code() == TIMEOUT => {
            RetryHint::After(0)
        }
        (FlowErrorClass::Pause | FlowErrorClass::Transient, Some(ms)) => RetryHint::After(ms),
        (FlowErrorClass::Pause | FlowErrorClass::Transient, None) => RetryHint::Later,
        (FlowErrorClass::InvalidParams, _) => RetryHint::InvalidInput,
        _ => RetryHint::Never,
    };
    let retryable = matches!(again, RetryHint::Later | RetryHint::After(_));
    let class = match error.class() {
        _ if matches!(*error.problem, FlowProblem::Kept { .. }) => ErrorClass::IntegrityMismatch,
        FlowErrorClass::InvalidParams => ErrorClass::SchemaMismatch,
        _ => ErrorClass::ModelFailure,
    };
    let selections = prepared.resolved.selection_manifest.iter();
    let details = ErrorDetails::Model(Box::new(ModelFailure {
        provider: identity.provider.clone(),
        model_name: identity.model_name.clone(),
        prompt_hash: prepared.prompt_hash,
        selection_manifest_refs: selections.map(|one| one.path.clone()).collect(),
        retryable,
        usage: error.usage,
        calls: error.calls.len() as u64 + error.unanswered,
        violations: violations(error),
    }));
    let facts = error_of(class, &subtype(error), details);
    let reason = ReasonCode::parse(error.reason_code());
    let kept = (*error.problem).clone().rewritten(&|said| prepared.unquoted(said));
    let message = kept.to_string();
    failed_by(again, (reason, error.cause()), message, &prepared.input, Some(facts))
}
