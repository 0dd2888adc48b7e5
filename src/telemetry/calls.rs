//! Spans of calls: a provider that watches another one.
//!
//! Names follow the semantic conventions for generative AI: `{operation} {model}`, `gen_ai.*`. A call to a
//! server is of kind CLIENT; what answers inside this process is INTERNAL.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};

use super::exporter::Telemetry;
use super::server::ServerFacts;
use super::span::{TraceId, TraceSpan, count, flag, nanos, number, text, texts};
use crate::contract::hash::{Digest, sha256};
use crate::contract::ids::Seq;
use crate::contract::time::Timestamp;
use crate::facts::dialect::LearnedDialect;
use crate::model::{
    Api, Bill, Charge, ModelCall, ModelError, ModelIdentity, ModelReply, Provider, ResponseFormat,
    StopReason, Usage,
};
use crate::os::Clock;
use crate::state::event::TakenRequest;

/// The attempt that calls belong to.
#[derive(Debug, Clone)]
pub(super) struct CallParent {
    pub trace: TraceId,
    pub request: Seq,
    /// The attempt, and the event that started it; zero for an answer of a batch.
    pub attempt: u32,
    pub started: Seq,
    pub flow_id: String,
    pub variant: Option<String>,
}

/// A provider whose calls become spans.
pub(super) struct TracedProvider {
    pub inner: Arc<dyn Provider>,
    pub telemetry: Arc<Telemetry>,
    pub clock: Arc<dyn Clock>,
    pub parent: CallParent,
    /// How often each question was asked: each time is another call.
    pub calls: Mutex<HashMap<Digest, u64>>,
}

/// Hears what a call costs, and who failed on the way.
struct HeardBill<'a> {
    to: Option<&'a dyn Bill>,
    clock: &'a dyn Clock,
    cost: Mutex<Option<f64>>,
    passed_over: Mutex<Vec<Value>>,
}

impl Bill for HeardBill<'_> {
    fn charge(&self, charge: Charge) {
        *self.cost.lock().get_or_insert(0.0) += charge.cost;
        if let Some(to) = self.to {
            to.charge(charge);
        }
    }

    fn passed_over(&self, failed: &ModelIdentity, error: &ModelError, answered_by: &str) {
        self.passed_over.lock().push(json!({
            "name": "summarizer.provider.passed_over", "timeUnixNano": nanos(self.clock.now()),
            "attributes": [
                text("summarizer.provider", &failed.provider),
                text("error.type", error.cause().as_str()),
                text("summarizer.answered_by", answered_by),
            ],
        }));
        if let Some(to) = self.to {
            to.passed_over(failed, error, answered_by);
        }
    }

    fn learned(&self, learned: LearnedDialect) {
        if let Some(to) = self.to {
            to.learned(learned);
        }
    }

    fn waits(&self, why: &ModelError, time: Duration) {
        if let Some(to) = self.to {
            to.waits(why, time);
        }
    }
}

impl TracedProvider {
    fn span(
        &self,
        call: &ModelCall<'_>,
        answer: &Result<ModelReply, ModelError>,
        (start, end): (Timestamp, Timestamp),
        heard: HeardBill<'_>,
    ) -> TraceSpan {
        let asked = self.inner.identity();
        let identity = answer.as_ref().map_or(&asked, |reply| &reply.identity);
        let server = self.telemetry.server(&identity.provider);
        let settings = &call.settings;
        let operation = match settings.api {
            Api::Chat => "chat",
            Api::Completion => "text_completion",
        };
        let named = call.model.or(settings.model.as_deref()).unwrap_or_default();
        let model = if asked.model_name.is_empty() { named } else { &asked.model_name };
        let hash = call_hash(call);
        let mut of = CallAttributes::new(&self.parent, operation, &server, identity, &hash);
        of.put(text("summarizer.flow.node", call.node));
        of.put(text("gen_ai.request.model", model));
        let json = settings.response_format != ResponseFormat::Text;
        of.put(text("gen_ai.output.type", if json { "json" } else { "text" }));
        let temperature = settings.temperature.or(asked.temperature);
        of.some(temperature.map(|one| number("gen_ai.request.temperature", one)));
        let most = settings.max_tokens.or(asked.max_tokens);
        of.some(most.map(|most| count("gen_ai.request.max_tokens", most)));
        of.some(settings.seed.or(asked.seed).map(|seed| count("gen_ai.request.seed", seed)));
        match answer {
            Ok(reply) => of.answered(identity, reply.usage, reply.stop),
            Err(error) => of.put(text("error.type", error.cause().as_str())),
        }
        of.some(heard.cost.into_inner().map(|cost| number("summarizer.cost", cost)));
        let time = {
            let mut calls = self.calls.lock();
            let times = calls.entry(hash).or_default();
            *times += 1;
            *times
        };
        TraceSpan {
            trace: self.parent.trace,
            id: self.parent.trace.call(self.parent.started, &hash, time),
            parent: Some(self.parent.trace.attempt(self.parent.started)),
            name: format!("{operation} {model}"),
            kind: server.kind(),
            start,
            end,
            attributes: of.0,
            events: heard.passed_over.into_inner(),
            failed: answer.is_err(),
        }
    }
}

/// The name under which the log keeps the answer; where it keeps none, the hash of the question.
fn call_hash(call: &ModelCall<'_>) -> Digest {
    match call.kept_as {
        "" => call.request_hash(),
        kept => sha256(kept),
    }
}

struct CallAttributes(Vec<Value>);

impl CallAttributes {
    fn new(
        parent: &CallParent,
        operation: &str,
        server: &ServerFacts,
        identity: &ModelIdentity,
        hash: &Digest,
    ) -> CallAttributes {
        let mut of = CallAttributes(vec![
            text("gen_ai.operation.name", operation),
            text("gen_ai.provider.name", server.provider_name),
            text("summarizer.provider", &identity.provider),
            count("summarizer.request.seq", parent.request.0),
            count("summarizer.attempt", parent.attempt),
            text("summarizer.call", &hash.hex()),
            text("summarizer.flow.id", &parent.flow_id),
        ]);
        let variant = parent.variant.as_deref();
        of.some(variant.map(|variant| text("summarizer.flow.variant", variant)));
        if let Some((host, port)) = &server.address {
            of.put(text("server.address", host));
            of.put(count("server.port", *port));
        }
        of
    }

    fn put(&mut self, attribute: Value) {
        self.0.push(attribute);
    }

    fn some(&mut self, attribute: Option<Value>) {
        self.0.extend(attribute);
    }

    fn answered(&mut self, identity: &ModelIdentity, usage: Usage, stop: StopReason) {
        let version = identity.model_version.as_str();
        let model = if version.is_empty() { identity.model_name.as_str() } else { version };
        self.put(text("gen_ai.response.model", model));
        let reason = match stop {
            StopReason::End => "stop",
            StopReason::Length => "length",
            StopReason::Filtered => "content_filter",
        };
        self.put(texts("gen_ai.response.finish_reasons", &[reason]));
        self.put(count("gen_ai.usage.input_tokens", usage.input_tokens));
        self.put(count("gen_ai.usage.output_tokens", usage.output_tokens));
    }
}

/// The span of an answer that came with a batch: its call had no time of its own.
pub(super) fn batched_call(
    telemetry: &Telemetry,
    parent: &CallParent,
    call: &Digest,
    (identity, usage, stop): (&ModelIdentity, Usage, StopReason),
    at: Timestamp,
) -> TraceSpan {
    let server = telemetry.server(&identity.provider);
    let mut of = CallAttributes::new(parent, "chat", &server, identity, call);
    of.put(text("gen_ai.request.model", &identity.model_name));
    of.put(flag("summarizer.batch", true));
    of.answered(identity, usage, stop);
    TraceSpan {
        trace: parent.trace,
        id: parent.trace.call(parent.started, call, 0),
        parent: Some(parent.trace.request()),
        name: format!("chat {}", identity.model_name),
        kind: server.kind(),
        start: at,
        end: at,
        attributes: of.0,
        events: Vec::new(),
        failed: false,
    }
}

impl Telemetry {
    /// The provider with its calls watched, for one attempt. Unchanged where the flow is not traced.
    pub(crate) fn traced(
        self: &Arc<Self>,
        provider: Arc<dyn Provider>,
        clock: &Arc<dyn Clock>,
        (request, attempt, started): (Seq, u32, Seq),
        taken: &TakenRequest,
    ) -> Arc<dyn Provider> {
        if !self.traces(&taken.flow_id, taken.variant.as_deref()) {
            return provider;
        }
        Arc::new(TracedProvider {
            inner: provider,
            telemetry: Arc::clone(self),
            clock: Arc::clone(clock),
            parent: CallParent {
                trace: TraceId::of(request, taken),
                request,
                attempt,
                started,
                flow_id: taken.flow_id.clone(),
                variant: taken.variant.clone(),
            },
            calls: Mutex::default(),
        })
    }
}

impl Provider for TracedProvider {
    fn inner(&self) -> Option<&dyn Provider> {
        Some(&*self.inner)
    }

    fn identity(&self) -> ModelIdentity {
        self.inner.identity()
    }

    fn context_tokens(&self) -> usize {
        self.inner.context_tokens()
    }

    fn call(&self, call: &ModelCall<'_>) -> Result<ModelReply, ModelError> {
        let clock = self.clock.as_ref();
        let (cost, passed_over) = Default::default();
        let heard = HeardBill { to: call.bill, clock, cost, passed_over };
        let start = clock.now();
        let answer = self.inner.call(&ModelCall { bill: Some(&heard), ..call.clone() });
        // A question that waits for a batch was not asked yet.
        if !answer.as_ref().is_err_and(ModelError::waits_for_batch) {
            let span = self.span(call, &answer, (start, clock.now()), heard);
            self.telemetry.offer(&span);
        }
        answer
    }
}
