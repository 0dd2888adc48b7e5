//! Asks a model: one question, its repair turns, and a record of every call.
//!
//! Contract:
//! - The stop reason is checked before the text. An answer that was cut off at the token limit is never
//!   patched: the limit is raised once. If the answer is cut off again, the flow repeats with a smaller
//!   input. Free text that is still cut off is kept and marked.
//! - The model may correct an answer that violates the schema a bounded number of times. Each repair
//!   turn is the original conversation, the last answer (shortened) and its errors, without the
//!   repair turns before it. A model that gives no text is asked once more where a schema is to be met.
//! - The thoughts before an answer are no part of it; the record of the call keeps them.
//! - Every received reply is stored in the reply cache before it is checked, and is counted once.
//!
//! See docs/adr/0072-undeclared-output-members.md.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Map, Value, json};

use super::outcome::{CallRecord, FlowProblem, ReplyCache};
use super::pack::OutputSchema;
use super::pictures::{self, Pictures};
use super::reading::{Reading, Shows};
use super::source_ids::{CannotRemove, Changes, IdCheck};
use super::{bounds, extract};
use crate::config::Profile;
use crate::contract::hash::{Digest, sha256};
use crate::contract::ids::Seq;
use crate::contract::json as canonical;
use crate::contract::schema::{self, Violation};
use crate::markup::prefix;
use crate::model::builtin::{self, fill::hints::Hints};
use crate::model::{
    Bill, CallEnd, CallSettings, ErrorClass, Listener, Message, ModelCall, ModelError,
    ModelIdentity, ModelReply, Provider, ResponseFormat, RightOfWay, Role, SourceText, StopReason,
    Usage, thoughts, was_cut,
};

/// Errors shown in one repair turn.
const ERRORS_SHOWN: usize = 20;
/// Errors of an answer that are kept at all.
pub(super) const ERRORS_KEPT: usize = 100;
/// Most bytes of an invalid answer that a repair turn repeats.
const ANSWER_SHOWN_BYTES: usize = 20_000;
/// What a limit is raised to when none was set.
const RAISED_TOKENS_MIN: u32 = 4_096;

/// The record of all calls of one run of a flow.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    pub usage: Usage,
    pub calls: Vec<CallRecord>,
    /// Calls that were tried and got no answer.
    pub unanswered: u64,
    pub rendered: Vec<(String, Digest)>,
    pub repaired: bool,
    /// Nodes whose text the token limit cut off.
    pub truncated: BTreeSet<String>,
    /// The condensed text that stands for the input was cut.
    pub condensed_cut: bool,
    pub redacted: u64,
    /// Members of answers that their schema does not know, by pointer.
    pub undeclared: Vec<String>,
    /// Ids and quotes that were removed from answers because the request has no such source, and labels of
    /// sources that ids replaced.
    pub changes: Changes,
    /// What was read of the sources.
    pub reading: Reading,
    /// Numbers of answers that were outside their scale, by pointer.
    pub clamped: Vec<String>,
    /// Parameters of nodes that were corrected before they were sent.
    pub corrected: BTreeSet<String>,
    /// What a server did not say when it cut a prompt.
    pub cuts: BTreeSet<String>,
    /// Parameters that the server of the model refuses, and that were not sent therefore.
    pub refused: BTreeSet<String>,
    /// Pictures inside texts that were not sent.
    pub pictures: usize,
    /// Members that rules filled, because a small model was not asked for them.
    pub derived: Vec<String>,
}

/// What all questions of one run of a flow share.
pub(super) struct Asker<'a> {
    pub flow_id: &'a str,
    pub variant: Option<&'a str>,
    pub provider: &'a dyn Provider,
    /// How much is asked, for the whole run: a context that becomes known meanwhile does not change it.
    pub profile: Profile,
    pub hints: Option<&'a Hints>,
    pub replies: Option<&'a dyn ReplyCache>,
    pub bill: Option<&'a dyn Bill>,
    pub listener: Option<&'a dyn Listener>,
    /// Whether the sources are texts of their own.
    pub apart: bool,
    /// Who says the sources, and on which days.
    pub speakers: Option<crate::model::Speakers>,
    pub timeout: Duration,
    pub(crate) repair_turns: u32,
    pub keep_prompts: bool,
    pub ledger: Mutex<Ledger>,
}

pub(super) struct Question<'a> {
    pub node: &'a str,
    pub messages: Vec<Message>,
    pub rendered: Digest,
    pub inputs: &'a Map<String, Value>,
    pub sources: &'a [SourceText],
    pub schema: Option<&'a OutputSchema>,
    /// The ids that the answer may name.
    pub ids: Option<&'a IdCheck<'a>>,
    /// What the messages show of the sources.
    pub shows: Shows,
    /// Whether the limit is raised for an answer without schema that is cut off.
    pub whole: bool,
    pub settings: CallSettings,
}

/// A valid answer, and what was taken out of it.
struct Cleaned {
    value: Value,
    reply: ModelReply,
    changes: Changes,
    undeclared: Vec<String>,
    clamped: Vec<String>,
}

fn held_text(held: &Option<Cleaned>) -> String {
    held.as_ref().map(|held| held.reply.text.clone()).unwrap_or_default()
}

pub(super) struct Answer {
    /// The parsed object, when a schema was asked for; else the text.
    pub value: Value,
    pub reply: ModelReply,
}

impl Asker<'_> {
    /// Asks until an answer is valid or the repair turns are used.
    pub(super) fn ask(&self, question: &Question<'_>) -> Result<Answer, FlowProblem> {
        {
            let mut ledger = self.ledger.lock();
            ledger.rendered.push((question.node.to_owned(), question.rendered));
            let copies = self.provider.is_free();
            let (sources, messages) = (question.sources, &question.messages);
            ledger.reading.question(sources, question.shows, copies, messages);
        }
        let mut settings = question.settings.clone();
        let mut messages = Cow::Borrowed(question.messages.as_slice());
        let mut repairs = 0;
        let mut raised = false;
        // A valid answer without its unknown ids and quotes, while the model is asked about them.
        let mut held: Option<Cleaned> = None;
        let mut held_page: Option<ModelReply> = None;
        for turn in 0.. {
            let reply = self.call(question, &messages, &settings, turn)?;
            if reply.stop == StopReason::Filtered {
                return Err(self.refused(question, &reply));
            }
            if !self.provider.is_free() && was_cut(&messages, reply.usage) {
                return Err(self.cut(question, &reply));
            }
            let is_cut = reply.stop == StopReason::Length;
            // A model that thinks may use the whole limit before its first word.
            // The embedded summarizer gives an empty answer for a text without content.
            let is_empty = reply.says_nothing() && !self.provider.is_free();
            let matters = question.whole || question.schema.is_some() || is_empty;
            if is_cut && matters && !raised && self.raise_limit(&mut settings) {
                raised = true;
                continue;
            }
            if let (Some(first), true) = (&held_page, is_cut || is_empty) {
                return Ok(Answer { value: first.text.clone().into(), reply: first.clone() });
            }
            // An empty answer shows nothing that a model could correct: one more question is enough.
            let may_ask =
                question.schema.is_some() && !is_cut && repairs < self.repair_turns.min(1);
            if is_empty && held.is_none() && !may_ask {
                let (node, tokens) = (question.node.to_owned(), reply.usage.output_tokens);
                return Err(FlowProblem::Empty { node, tokens, cut_off: is_cut });
            }
            let Some(schema) = question.schema else {
                let may_ask = held_page.is_none() && self.repair_turns > 0 && !is_cut;
                let ids = question.ids.filter(|_| may_ask && !self.provider.is_free());
                let unknown = ids.map(|ids| ids.cited_by(&reply.text)).unwrap_or_default();
                if let Some(ids) = ids.filter(|_| !unknown.is_empty()) {
                    self.ledger.lock().repaired = true;
                    let complaints = ids.complaints(&unknown);
                    messages = with_errors(question, &reply.text, &complaints).into();
                    held_page = Some(reply);
                    continue;
                }
                if is_cut {
                    self.ledger.lock().truncated.insert(question.node.to_owned());
                }
                return Ok(Answer { value: reply.text.clone().into(), reply });
            };
            if is_cut {
                if let Some(held) = held {
                    return Ok(self.settled(held));
                }
                let node = question.node.to_owned();
                return Err(FlowProblem::CutOff { node, raw: reply.text });
            }
            // What a repair turn says of the answer, and what a failure says.
            let mut faults = None;
            let errors = match extract::json(&reply.text) {
                Err(error) => vec![Violation { pointer: String::new(), message: error.0 }],
                Ok(mut value) => {
                    let undeclared = schema::drop_undeclared(&schema.value, &mut value);
                    let clamped = bounds::clamp(&schema.value, &mut value);
                    let errors =
                        schema::violations_unquoted(&schema.validator, &value, ERRORS_KEPT);
                    if errors.is_empty() {
                        let cleaned = question.ids.map(|ids| ids.clean(&mut value));
                        let may_ask = held.is_none()
                            && repairs < self.repair_turns
                            && !self.provider.is_free();
                        match (cleaned.unwrap_or(Ok(Changes::default())), question.ids) {
                            (Ok(changes), Some(ids)) if may_ask && !changes.removed.is_empty() => {
                                let complaints = ids.complaints(&changes.removed);
                                let reply = reply.clone();
                                held = Some(Cleaned { value, reply, changes, undeclared, clamped });
                                repairs += 1;
                                self.ledger.lock().repaired = true;
                                messages =
                                    with_errors(question, &held_text(&held), &complaints).into();
                                continue;
                            }
                            (Ok(changes), _) => {
                                let cleaned =
                                    Cleaned { value, reply, changes, undeclared, clamped };
                                return Ok(self.settled(cleaned));
                            }
                            (Err(CannotRemove(removed)), ids) => {
                                faults = ids.map(|ids| ids.faults(&removed));
                                ids.map(|ids| ids.complaints(&removed)).unwrap_or_default()
                            }
                        }
                    } else {
                        errors
                    }
                }
            };
            if let Some(held) = held {
                return Ok(self.settled(held));
            }
            if repairs >= self.repair_turns {
                let (node, raw) = (question.node.to_owned(), reply.text);
                let errors = faults.unwrap_or(errors);
                return Err(FlowProblem::Schema { node, errors, raw });
            }
            repairs += 1;
            self.ledger.lock().repaired = true;
            messages = with_errors(question, &reply.text, &errors).into();
        }
        unreachable!("the loop ends by returning")
    }

    /// Takes pictures out of a question. The embedded summarizer reads the sources themselves.
    pub(super) fn leave_out_pictures(&self, messages: &mut [Message], pictures: Pictures) {
        if !self.provider.is_free() {
            self.ledger.lock().pictures += pictures::leave_out(messages, pictures);
        }
    }

    /// Returns the answer that is used, and records the parts that were removed from it.
    fn settled(&self, cleaned: Cleaned) -> Answer {
        let mut ledger = self.ledger.lock();
        ledger.undeclared.extend(cleaned.undeclared);
        ledger.clamped.extend(cleaned.clamped);
        ledger.changes.add(cleaned.changes);
        Answer { value: cleaned.value, reply: cleaned.reply }
    }

    fn refused(&self, question: &Question<'_>, reply: &ModelReply) -> FlowProblem {
        let source = ModelError::Refused {
            provider: reply.identity.provider.clone(),
            reason: "the answer was withheld".into(),
        };
        FlowProblem::Model { node: question.node.to_owned(), source }
    }

    /// The server read less than it was sent, and said nothing of it.
    fn cut(&self, question: &Question<'_>, reply: &ModelReply) -> FlowProblem {
        let reason = format!(
            "the server read only {} tokens of a longer prompt, and did not say so; {}",
            reply.usage.input_tokens,
            crate::model::MORE_CONTEXT
        );
        let provider = reply.identity.provider.clone();
        self.ledger.lock().cuts.insert(format!("{provider}: {reason}"));
        let source = ModelError::OverLimit { provider, reason: reason.into() };
        FlowProblem::Model { node: question.node.to_owned(), source }
    }

    /// Doubles the limit, up to half of the model's context; false when it cannot grow.
    fn raise_limit(&self, settings: &mut CallSettings) -> bool {
        let before = settings.max_tokens.or(self.provider.identity().max_tokens).unwrap_or(0);
        let most = u32::try_from(self.provider.context_tokens() / 2).unwrap_or(u32::MAX);
        let after = before.saturating_mul(2).max(RAISED_TOKENS_MIN).min(most);
        settings.max_tokens = Some(after);
        settings.raised = true;
        after > before
    }

    fn model_call<'c>(
        &'c self,
        question: &Question<'c>,
        schema: Option<&'c OutputSchema>,
        messages: &'c [Message],
        settings: &CallSettings,
    ) -> ModelCall<'c> {
        ModelCall {
            flow_id: self.flow_id,
            variant: self.variant,
            node: question.node,
            messages,
            inputs: question.inputs,
            sources: question.sources,
            schema: schema.map(|schema| &schema.value),
            validator: schema.map(|schema| &schema.validator),
            hints: self.hints,
            settings: settings.clone(),
            timeout: self.timeout,
            bill: self.bill,
            listener: self.listener,
            model: None,
            apart: self.apart,
            speakers: self.speakers.as_ref(),
            kept_as: "",
        }
    }

    /// The answer to a short question, completed: rules fill the `derived` members of the whole schema.
    pub(super) fn complete(
        &self,
        question: &Question<'_>,
        whole: &OutputSchema,
        derived: &[String],
        answer: Answer,
    ) -> Result<Answer, FlowProblem> {
        let Answer { value: Value::Object(given), mut reply } = answer else { return Ok(answer) };
        let call = self.model_call(question, Some(whole), &[], &question.settings);
        let (value, evidence) = builtin::complete(&call, &given);
        let errors = schema::violations_unquoted(&whole.validator, &value, ERRORS_KEPT);
        if !errors.is_empty() {
            let (node, raw) = (question.node.to_owned(), value.to_string());
            return Err(FlowProblem::Schema { node, errors, raw });
        }
        reply.evidence.extend(evidence);
        self.ledger.lock().derived = derived.to_vec();
        Ok(Answer { value, reply })
    }

    fn call(
        &self,
        question: &Question<'_>,
        messages: &[Message],
        settings: &CallSettings,
        turn: u32,
    ) -> Result<ModelReply, FlowProblem> {
        let call = self.model_call(question, question.schema, messages, settings);
        let cache = self.replies.filter(|_| !self.provider.is_free());
        let request_hash = match self.provider.is_free() {
            true => String::new(),
            false => {
                let schema = question.schema.map(|schema| schema.canonical.as_str());
                format!("{}", call_hash(call.request_hash_with(schema), &self.provider.identity()))
            }
        };
        let kept = cache.map_or(Ok(None), |cache| cache.get(&request_hash)).map_err(|reason| {
            let node = question.node.to_owned();
            FlowProblem::Kept { node, reason }
        })?;
        let reused = kept.is_some();
        let reply = match kept {
            Some(reply) => reply,
            None => {
                let node = question.node.to_owned();
                let is_data =
                    question.schema.is_some() || settings.response_format != ResponseFormat::Text;
                let of_node = self.listener.map(|to| OfNode { to, node: question.node, is_data });
                let listener = of_node.as_ref().map(|it| it as &dyn Listener);
                let reply = self
                    .provider
                    .call(&ModelCall { kept_as: &request_hash, listener, ..call.clone() })
                    .map_err(|source| {
                        self.ledger.lock().unanswered += u64::from(was_tried(&source));
                        FlowProblem::Model { node, source }
                    })?;
                if let Some(cache) = cache {
                    cache.put(&request_hash, &reply);
                }
                reply
            }
        };
        let mut ledger = self.ledger.lock();
        let usage = if reused { Usage::default() } else { reply.usage };
        ledger.usage.add(usage);
        ledger.redacted += reply.redacted;
        ledger.refused.extend(reply.left_out.iter().cloned());
        ledger.calls.push(CallRecord {
            node: question.node.to_owned(),
            turn,
            request_hash,
            rendered_sha256: question.rendered,
            reused,
            usage: reply.usage,
            stop: reply.stop,
            identity: reply.identity.clone(),
            text: reply.text.clone(),
            messages: if self.keep_prompts { messages.to_vec() } else { Vec::new() },
        });
        drop(ledger);
        match thoughts::after(&reply.text) {
            Some(said) if !self.provider.is_free() => {
                Ok(ModelReply { text: said.to_owned(), ..reply })
            }
            _ => Ok(reply),
        }
    }
}

/// Whether a call without an answer was tried. A pause keeps it back.
fn was_tried(error: &ModelError) -> bool {
    error.class() != ErrorClass::Pause
}

/// Tells the listener of a flow whose answer it hears.
pub(crate) struct OfNode<'a> {
    pub to: &'a dyn Listener,
    pub node: &'a str,
    /// Whether its answer must be JSON.
    pub is_data: bool,
}

impl Listener for OfNode<'_> {
    fn heard(&self, text: &str) -> bool {
        self.to.heard_of(self.node, self.is_data, text)
    }

    fn right_of_way(&self) -> RightOfWay {
        self.to.right_of_way()
    }

    fn end(&self) -> Option<&Arc<CallEnd>> {
        self.to.end()
    }

    fn read_elsewhere(&self, call: &ModelCall<'_>) -> Option<Result<ModelReply, ModelError>> {
        self.to.read_elsewhere(call)
    }

    fn batch_for(&self) -> Option<Seq> {
        self.to.batch_for()
    }
}

fn call_hash(request: Digest, identity: &ModelIdentity) -> Digest {
    sha256(format!("{request}\n{}", canonical::jcs_hash(&json!(identity))))
}

fn with_errors(question: &Question<'_>, answer: &str, errors: &[Violation]) -> Vec<Message> {
    let mut messages = question.messages.clone();
    // Servers refuse a message without text.
    let shown = if answer.trim().is_empty() { "(no text)" } else { answer };
    messages.push(Message::new(Role::Assistant, prefix(shown, ANSWER_SHOWN_BYTES)));
    let mut text = String::from("That answer cannot be used. What is wrong with it:\n");
    for error in errors.iter().take(ERRORS_SHOWN) {
        let place = if error.pointer.is_empty() { "the whole answer" } else { &error.pointer };
        text.push_str(&format!("- {place}: {}\n", error.message));
    }
    if errors.len() > ERRORS_SHOWN {
        text.push_str(&format!("- and {} more\n", errors.len() - ERRORS_SHOWN));
    }
    let wanted = if question.schema.is_some() { "JSON object" } else { "page" };
    text.push_str(&format!(
        "Answer again with the corrected {wanted} only, complete, without any other text."
    ));
    messages.push(Message::new(Role::User, text));
    messages
}
