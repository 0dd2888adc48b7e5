//! Runs the nodes of a plan: a node runs when its inputs are ready, and independent nodes run at the
//! same time. A node that is switched off is bypassed.
//!
//! Contract, as in PromptFlow: a node with `activate` runs when the value of `when` equals `is`. It is
//! bypassed when the values differ or when the node that it tests was bypassed. A node without
//! `activate` is bypassed only if all nodes it reads were bypassed. An input or output that reads a
//! bypassed node has the default of the Python parameter, else None.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use crossbeam_channel::unbounded;
use serde_json::{Map, Value, json};

use super::ask::{Asker, Question};
use super::dag::{self, Binding, Node, OutputDef};
use super::flex::ENTRY;
use super::outcome::FlowProblem;
use super::pack::{LoadedPack, OutputSchema, Step};
use super::parameters::{self, Parameters};
use super::pictures::{self, Pictures};
use super::python::{self, PythonCall, PythonSettings};
use super::reading::Shows;
use super::small::SmallForm;
use super::source_ids::IdCheck;
use super::{extract, pyvalue, roles};
use crate::config::Profile;
use crate::contract::hash::{Digest, sha256};
use crate::contract::schema::Violation;
use crate::contract::told::ToldFailure;
use crate::model::{
    Api, CallSettings, Message, ModelReply, ResponseFormat, Role, SourceText, StopReason,
};

/// The error of a Python node where Python is not allowed.
const PYTHON_FORBIDDEN: &str = "it is a Python program; Python runs only with python.allow = true \
                                (`flow run` has --allow-python)";

/// The inputs of one node, by name.
type Values<'a> = BTreeMap<String, Cow<'a, Value>>;

fn members<'v>(values: &'v Values<'_>) -> impl Iterator<Item = (&'v str, &'v Value)> {
    values.iter().map(|(name, value)| (name.as_str(), value.as_ref()))
}

/// What a node gave.
#[derive(Debug, Clone)]
pub(super) enum Output {
    Value(Value),
    /// A rendered prompt whose role lines are still marked.
    Prompt(String),
    /// The node was switched off.
    Bypassed,
}

impl Output {
    fn value(&self) -> Value {
        match self {
            Output::Value(value) => value.clone(),
            Output::Prompt(marked) => roles::plain(marked).into(),
            Output::Bypassed => Value::Null,
        }
    }
}

/// Everything nodes run with.
pub(super) struct Executor<'a> {
    pub pack: &'a LoadedPack,
    pub(crate) asker: &'a Asker<'a>,
    pub inputs: &'a Map<String, Value>,
    pub sources: &'a [SourceText],
    /// The ids that the structured answer may name.
    pub ids: Option<&'a IdCheck<'a>>,
    pub python: Option<&'a PythonSettings>,
    pub overrides: &'a CallSettings,
    pub concurrency: usize,
}

/// What all nodes gave.
#[derive(Default)]
pub(super) struct Finished {
    pub outputs: BTreeMap<String, Output>,
    /// The reply behind the structured output.
    pub structured: Option<(Value, ModelReply)>,
    pub metrics: Map<String, Value>,
}

struct Done {
    output: Output,
    reply: Option<ModelReply>,
    metrics: Map<String, Value>,
}

impl Executor<'_> {
    /// Runs the nodes of each line.
    pub(super) fn run(&self) -> Result<Finished, FlowProblem> {
        let mut finished = Finished::default();
        let mut pending: Vec<&Node> = self.pack.plan.nodes.iter().collect();
        std::thread::scope(|scope| {
            let (sender, results) = unbounded();
            let mut running = 0;
            // The answer of a node comes with a batch. The questions of all others go into the same one.
            let mut waits = None;
            // After a failure no node begins. Those under way may fail too: the first in the plan is told,
            // whichever ended first.
            let mut failed = Vec::new();
            while !pending.is_empty() || running > 0 {
                if failed.is_empty() {
                    self.bypass(&mut pending, &mut finished)?;
                } else {
                    pending.clear();
                }
                let (mut ready, rest): (Vec<&Node>, Vec<&Node>) =
                    pending.into_iter().partition(|node| is_ready(node, &finished));
                pending = rest;
                if running == 0 && ready.is_empty() {
                    // Only nodes that read one that waits are left.
                    break;
                }
                if running == 0 && ready.len() == 1 {
                    // A single ready node needs no thread: no other node can end meanwhile.
                    let node = ready.remove(0);
                    match self.node(node, &finished.outputs) {
                        Err(problem) if problem.waits_for_batch() => waits = Some(problem),
                        Err(problem) => failed.push((node, problem)),
                        Ok(done) => self.record(node, done, &mut finished),
                    }
                    continue;
                }
                let room = self.concurrency.max(1).saturating_sub(running);
                let waiting = ready.split_off(room.min(ready.len()));
                for node in ready {
                    let (sender, outputs) = (sender.clone(), finished.outputs.clone());
                    running += 1;
                    scope.spawn(move || {
                        // A thread that ends without a word would be waited for without end.
                        let done = catch_unwind(AssertUnwindSafe(|| self.node(node, &outputs)));
                        // The receiver is gone only when another node failed first.
                        let _ = sender.send((node, done));
                    });
                }
                pending.splice(0..0, waiting);
                if running > 0 {
                    let (node, done) = results.recv().map_err(|_| FlowProblem::Cancelled)?;
                    running -= 1;
                    match done.unwrap_or_else(|panic| resume_unwind(panic)) {
                        Err(problem) if problem.waits_for_batch() => waits = Some(problem),
                        Err(problem) => failed.push((node, problem)),
                        Ok(done) => self.record(node, done, &mut finished),
                    }
                }
            }
            let place =
                |node: &Node| self.pack.plan.nodes.iter().position(|it| it.name == node.name);
            failed.sort_by_key(|(node, _)| place(node));
            let first = failed.into_iter().next().map(|(_, problem)| problem);
            first.or(waits).map_or(Ok(finished), Err)
        })
    }

    fn record(&self, node: &Node, done: Done, finished: &mut Finished) {
        if let (Some(wanted), Some(reply)) = (&self.pack.structured_node, done.reply)
            && *wanted == node.name
        {
            finished.structured = Some((done.output.value(), reply));
        }
        finished.metrics.extend(done.metrics);
        finished.outputs.insert(node.name.clone(), done.output);
    }

    fn bypass(&self, pending: &mut Vec<&Node>, finished: &mut Finished) -> Result<(), FlowProblem> {
        loop {
            let mut off = BTreeSet::new();
            for node in pending.iter().filter(|node| is_ready(node, finished)) {
                if self.is_off(node, &finished.outputs)? {
                    off.insert(node.name.clone());
                }
            }
            if off.is_empty() {
                return Ok(());
            }
            pending.retain(|node| !off.contains(&node.name));
            finished.outputs.extend(off.into_iter().map(|name| (name, Output::Bypassed)));
        }
    }

    fn is_off(&self, node: &Node, outputs: &BTreeMap<String, Output>) -> Result<bool, FlowProblem> {
        if let Some(activate) = &node.activate {
            if is_bypassed(&activate.when, outputs) {
                return Ok(true);
            }
            return Ok(!pyvalue::equal(&self.value(&activate.when, outputs)?, &activate.is));
        }
        let mut reads = node
            .inputs
            .iter()
            .map(|(_, binding)| binding)
            .filter(|b| b.node().is_some())
            .peekable();
        Ok(reads.peek().is_some() && reads.all(|binding| is_bypassed(binding, outputs)))
    }

    /// The value of a binding, from the outputs so far.
    pub(super) fn value(
        &self,
        binding: &Binding,
        outputs: &BTreeMap<String, Output>,
    ) -> Result<Value, FlowProblem> {
        match binding {
            Binding::Literal(value) => Ok(value.clone()),
            Binding::Input(name) => Ok(self.inputs.get(name).cloned().unwrap_or_default()),
            Binding::Node { node, property, .. } => {
                let output = outputs.get(node).map(Output::value).unwrap_or_default();
                if matches!(outputs.get(node), Some(Output::Bypassed)) {
                    return Ok(Value::Null);
                }
                dag::follow(node, &output, property)
                    .map_err(|error| FlowProblem::Reference(error.to_string()))
            }
        }
    }

    /// The same without a copy of literals and inputs: an input may hold all the text of a request.
    fn look<'v>(
        &'v self,
        binding: &'v Binding,
        outputs: &'v BTreeMap<String, Output>,
    ) -> Result<Cow<'v, Value>, FlowProblem> {
        match binding {
            Binding::Literal(value) => Ok(Cow::Borrowed(value)),
            Binding::Input(name) => Ok(match self.inputs.get(name) {
                Some(value) => Cow::Borrowed(value),
                None => Cow::Owned(Value::Null),
            }),
            Binding::Node { .. } => self.value(binding, outputs).map(Cow::Owned),
        }
    }

    fn node(&self, node: &Node, outputs: &BTreeMap<String, Output>) -> Result<Done, FlowProblem> {
        let mut values = Values::new();
        let mut marked = BTreeSet::new();
        for (name, binding) in &node.inputs {
            match binding {
                Binding::Node { node: from, property, .. } if property.is_empty() => {
                    if let Some(Output::Prompt(text)) = outputs.get(from) {
                        values.insert(name.clone(), Cow::Owned(text.clone().into()));
                        marked.insert(name.clone());
                        continue;
                    }
                    values.insert(name.clone(), self.look(binding, outputs)?);
                }
                binding => {
                    values.insert(name.clone(), self.look(binding, outputs)?);
                }
            }
        }
        self.step(node, values, &marked, outputs)
    }

    fn step(
        &self,
        node: &Node,
        values: Values<'_>,
        marked: &BTreeSet<String>,
        outputs: &BTreeMap<String, Output>,
    ) -> Result<Done, FlowProblem> {
        let unsupported = |reason: &str| FlowProblem::Unsupported {
            node: node.name.clone(),
            reason: reason.to_owned(),
        };
        let step = self.pack.steps.get(&node.name);
        if let Some(name) = values.iter().find(|(_, value)| pictures::is_picture(value))
            && step.is_some_and(Step::makes_text)
        {
            let said = format!("node {}: its input {} is a picture", node.name, name.0);
            return Err(FlowProblem::Input(format!("{said}; {}", pictures::REFUSED).into()));
        }
        match step {
            Some(Step::Prompt { template }) => {
                let text = self.pack.templates.render(template, members(&values), marked)?;
                Ok(Done { output: Output::Prompt(text), reply: None, metrics: Map::new() })
            }
            Some(Step::Llm { template, chat }) => {
                // An input named `prompt` replaces the template, except in a prompty file, where the
                // name has no special meaning.
                let given = values.get("prompt").filter(|_| node.prompty.is_none());
                let rendered = match given.and_then(|given| given.as_str()) {
                    Some(prompt) if marked.contains("prompt") => prompt.to_owned(),
                    Some(prompt) => roles::without_marks(prompt),
                    None => {
                        let short = self.small(node).map(|_| SmallForm::template(template));
                        let template = short.as_deref().unwrap_or(template);
                        self.pack.templates.render(template, members(&values), marked)?
                    }
                };
                let messages = if *chat {
                    roles::split(&rendered)
                        .map_err(|source| FlowProblem::Roles { node: node.name.clone(), source })?
                } else {
                    vec![Message::new(Role::User, roles::plain(&rendered))]
                };
                let hash = roles::plain_hash(&rendered);
                drop(rendered);
                self.ask(node, messages, hash, &values, None)
            }
            Some(Step::Wrapper { schema }) => {
                let prompt = values.get("prompt").map(|prompt| pyvalue::to_str(prompt));
                let plain = roles::plain(&prompt.unwrap_or_default());
                let hash = sha256(&plain);
                let messages = vec![Message::new(Role::User, plain)];
                self.ask(node, messages, hash, &values, schema.as_ref())
            }
            Some(Step::Python { path }) => {
                let settings = self.python.ok_or_else(|| unsupported(PYTHON_FORBIDDEN))?;
                let values: Map<String, Value> = values
                    .into_iter()
                    .map(|(key, value)| match value.into_owned() {
                        Value::String(text) if marked.contains(&key) => {
                            (key, roles::plain(&text).into())
                        }
                        value => (key, value),
                    })
                    .collect();
                self.python(node, path, settings, &values, outputs)
            }
            Some(Step::Unsupported { reason }) => Err(unsupported(reason)),
            None => Err(unsupported("it was not planned")),
        }
    }

    fn python(
        &self,
        node: &Node,
        path: &str,
        settings: &PythonSettings,
        values: &Map<String, Value>,
        outputs: &BTreeMap<String, Output>,
    ) -> Result<Done, FlowProblem> {
        let names = |wanted: &dyn Fn(&Binding) -> bool| -> Vec<String> {
            let inputs = node.inputs.iter().filter(|(_, binding)| wanted(binding));
            inputs.map(|(name, _)| name.clone()).collect()
        };
        let call = PythonCall {
            node: &node.name,
            path,
            inputs: values,
            bypassed: &names(&|binding| is_bypassed(binding, outputs)),
            literals: &names(&|binding| matches!(binding, Binding::Literal(_))),
            entry: node.tool.as_deref().filter(|_| node.source_type == ENTRY),
            has_members: self.pack.plan.outputs.iter().any(|output| {
                matches!(&output.reference, Binding::Node { property, .. } if !property.is_empty())
            }),
        };
        self.asker.ledger.lock().reading.program();
        let (output, metrics) = python::run(self.pack, settings, &call)?;
        Ok(Done { output: Output::Value(output), reply: None, metrics })
    }

    /// The schema of the pack, for the node whose answer must fit it.
    fn whole_schema(&self, node: &Node) -> Option<&OutputSchema> {
        let is_structured = self.pack.structured_node.as_deref() == Some(&node.name);
        let wants_json = self.pack.form() == super::project::Form::Json;
        self.pack.schema.as_ref().filter(|_| is_structured && wants_json)
    }

    /// What a small model is asked for, where one answers this node.
    fn small(&self, node: &Node) -> Option<&SmallForm> {
        let is_prompt = matches!(self.pack.steps.get(&node.name), Some(Step::Llm { .. }));
        let form = self.pack.small.as_ref().filter(|_| is_prompt && node.input("prompt").is_none());
        form.filter(|_| self.asker.profile == Profile::Small && self.whole_schema(node).is_some())
    }

    fn ask(
        &self,
        node: &Node,
        mut messages: Vec<Message>,
        rendered: Digest,
        values: &Values<'_>,
        own_schema: Option<&OutputSchema>,
    ) -> Result<Done, FlowProblem> {
        let is_structured = self.pack.structured_node.as_deref() == Some(&node.name);
        let whole_schema = self.whole_schema(node);
        let small = self.small(node);
        let short = self.pack.small_schema.as_ref().filter(|_| small.is_some());
        let asked = short.or(whole_schema);
        let prompty = node.prompty.as_ref();
        let Parameters { mut settings, corrected } = match prompty {
            Some(call) => parameters::of_prompty(&call.parameters),
            None => parameters::read(|key| values.get(key).map(Cow::as_ref)),
        }
        .map_err(|reason| {
            FlowProblem::Input(ToldFailure::from(format!("node {}: ", node.name)).and(reason))
        })?;
        let corrected = corrected.into_iter().map(|what| format!("node {}: {what}", node.name));
        self.asker.ledger.lock().corrected.extend(corrected);
        let wants_message =
            ["tools", "functions"].iter().any(|key| settings.extra.contains_key(*key));
        let wants_all = prompty.is_some_and(|call| call.all);
        settings.whole_reply = wants_all;
        override_settings(&mut settings, self.overrides);
        if let Some(Step::Llm { chat: false, .. }) = self.pack.steps.get(&node.name) {
            settings.api = Api::Completion;
        }
        if self.pack.is_imported
            && prompty.is_none()
            && matches!(self.pack.steps.get(&node.name), Some(Step::Llm { .. }))
        {
            // PromptFlow sends these values by default; servers have other defaults.
            if self.asker.provider.identity().temperature.is_none() {
                settings.temperature.get_or_insert(1.0);
            }
            settings.extra.entry("top_p").or_insert_with(|| 1.0.into());
        }
        let form = match self.asker.provider.is_free() || wants_message || wants_all {
            true => None,
            false => self.requested_form(node, &settings),
        };
        let schema = asked.or(own_schema).or(form.as_ref());
        // Our own packs request JSON in the strongest form; an imported flow in the form it names.
        let asks_weaker = match settings.response_format {
            ResponseFormat::Text => true,
            ResponseFormat::JsonObject => !self.pack.is_imported,
            ResponseFormat::JsonSchema => false,
        };
        if schema.is_some() && asks_weaker {
            settings.response_format = ResponseFormat::JsonSchema;
        }
        settings.silent_form =
            self.pack.is_imported && settings.response_format != ResponseFormat::Text;
        self.asker.leave_out_pictures(&mut messages, Pictures::Whole);
        let question = Question {
            node: &node.name,
            messages,
            rendered,
            inputs: self.inputs,
            sources: self.sources,
            schema,
            ids: self.ids.filter(|_| is_structured),
            shows: Shows::Sources,
            whole: is_structured && !self.pack.is_imported,
            settings,
        };
        let mut answer = self.asker.ask(&question)?;
        if let (Some(small), Some(whole)) = (small, whole_schema) {
            answer = self.asker.complete(&question, whole, &small.derived, answer)?;
        }
        let output = match &answer.reply.message {
            _ if wants_all => whole_reply(&answer.reply),
            Some(message) if wants_message && (prompty.is_none() || calls_tools(message)) => {
                message.clone()
            }
            _ if prompty.is_some_and(|call| call.json) && schema.is_none() => {
                json_answer(node, &answer.reply.text, &self.pack.plan.outputs)?
            }
            // A program that wraps a model trims the text of the answer.
            _ if schema.is_none()
                && matches!(self.pack.steps.get(&node.name), Some(Step::Wrapper { .. })) =>
            {
                answer.reply.text.trim().into()
            }
            _ if question.whole && schema.is_none() => {
                extract::without_thoughts(&answer.reply.text).into()
            }
            // PromptFlow gives the text of an answer, also of one that is JSON.
            _ if form.is_some() && !prompty.is_some_and(|call| call.json) => {
                as_text(answer.value, &answer.reply.text)
            }
            _ => answer.value,
        };
        Ok(Done { output: Output::Value(output), reply: Some(answer.reply), metrics: Map::new() })
    }

    /// The form of the JSON that an imported flow requests: its schema, or an object with the outputs of a
    /// prompty file. The types of the outputs are not enforced, as in PromptFlow.
    fn requested_form(&self, node: &Node, settings: &CallSettings) -> Option<OutputSchema> {
        if !self.pack.is_imported {
            return None;
        }
        let schema = match settings.response_format {
            ResponseFormat::Text => return None,
            ResponseFormat::JsonSchema => {
                settings.extra.get("response_format")?.get("json_schema")?.get("schema")?.clone()
            }
            ResponseFormat::JsonObject => {
                let outputs =
                    node.prompty.iter().flat_map(|_| answer_members(&self.pack.plan.outputs));
                let outputs: Map<String, Value> = outputs
                    .map(|output| {
                        let kind = format!("of type {}", output.kind);
                        (output.name.clone(), json!({"description": kind}))
                    })
                    .collect();
                match outputs.is_empty() {
                    true => json!({"type": "object"}),
                    false => {
                        let names: Vec<&String> = outputs.keys().collect();
                        json!({"type": "object", "required": names, "properties": outputs})
                    }
                }
            }
        };
        OutputSchema::of(&node.name, schema).ok()
    }

    /// Runs the aggregation nodes. `lines` holds for each reference one value for each line.
    pub(super) fn aggregate(
        &self,
        lines: &BTreeMap<String, Vec<Value>>,
    ) -> Result<Finished, FlowProblem> {
        let settings = self.python;
        let mut finished = Finished::default();
        for node in &self.pack.plan.aggregation {
            if self.is_off(node, &finished.outputs)? {
                finished.outputs.insert(node.name.clone(), Output::Bypassed);
                continue;
            }
            let mut values = Map::new();
            for (name, binding) in &node.inputs {
                let value = match lines.get(&reference(binding)) {
                    Some(values) => Value::Array(values.clone()),
                    None => self.value(binding, &finished.outputs)?,
                };
                values.insert(name.clone(), value);
            }
            let Some(Step::Python { path }) = self.pack.steps.get(&node.name) else {
                let values = values.into_iter().map(|(name, value)| (name, Cow::Owned(value)));
                let (values, none) = (values.collect(), BTreeSet::new());
                let done = self.step(node, values, &none, &finished.outputs)?;
                self.record(node, done, &mut finished);
                continue;
            };
            let settings = settings.ok_or_else(|| FlowProblem::Unsupported {
                node: node.name.clone(),
                reason: PYTHON_FORBIDDEN.into(),
            })?;
            let done = self.python(node, path, settings, &values, &finished.outputs)?;
            self.record(node, done, &mut finished);
        }
        Ok(finished)
    }
}

/// The values of one line that aggregation nodes read, by reference.
pub(super) fn for_aggregation(
    executor: &Executor<'_>,
    outputs: &BTreeMap<String, Output>,
) -> Result<Map<String, Value>, FlowProblem> {
    let mut wanted = Map::new();
    for (_, binding) in executor.pack.plan.aggregation.iter().flat_map(|node| &node.inputs) {
        let of_line = match binding {
            Binding::Literal(_) => false,
            Binding::Input(_) => true,
            Binding::Node { node, .. } => outputs.contains_key(node),
        };
        if of_line {
            wanted.insert(reference(binding), executor.value(binding, outputs)?);
        }
    }
    Ok(wanted)
}

fn reference(binding: &Binding) -> String {
    match binding {
        Binding::Literal(_) => String::new(),
        Binding::Input(name) => format!("${{inputs.{name}}}"),
        Binding::Node { node, section, property } => format!("${{{node}.{section}.{property}}}"),
    }
}

fn is_ready(node: &Node, finished: &Finished) -> bool {
    let when = node.activate.iter().map(|activate| &activate.when);
    let mut reads = node.inputs.iter().map(|(_, binding)| binding).chain(when);
    reads.all(|binding| binding.node().is_none_or(|name| finished.outputs.contains_key(name)))
}

fn is_bypassed(binding: &Binding, outputs: &BTreeMap<String, Output>) -> bool {
    let of = |name: &str| matches!(outputs.get(name), Some(Output::Bypassed));
    binding.node().is_some_and(of)
}

/// The reply as the server sent it, or in the same form where the provider uses another protocol.
fn whole_reply(reply: &ModelReply) -> Value {
    let raw = reply.raw.as_deref().and_then(|raw| serde_json::from_str(raw).ok());
    raw.unwrap_or_else(|| {
        let finish = match reply.stop {
            StopReason::End => "stop",
            StopReason::Length => "length",
            StopReason::Filtered => "content_filter",
        };
        let message = reply.message.clone();
        let message =
            message.unwrap_or_else(|| json!({"role": "assistant", "content": reply.text}));
        let finish = match calls_tools(&message) {
            true => "tool_calls",
            false => finish,
        };
        json!({
            "object": "chat.completion",
            "model": reply.identity.model_name,
            "choices": [{"index": 0, "finish_reason": finish, "message": message}],
            "usage": {
                "prompt_tokens": reply.usage.input_tokens,
                "completion_tokens": reply.usage.output_tokens,
                "total_tokens": reply.usage.total(),
            },
        })
    })
}

/// PromptFlow passes on the message of a prompty file's answer only when the message calls a tool.
fn calls_tools(message: &Value) -> bool {
    let is_call = |key: &str| message.get(key).is_some_and(|call| !call.is_null());
    is_call("tool_calls")
}

/// The answer as JSON, with the members that the outputs name.
fn json_answer(node: &Node, text: &str, outputs: &[OutputDef]) -> Result<Value, FlowProblem> {
    let wrong = |pointer: String, message: String| FlowProblem::Schema {
        node: node.name.clone(),
        errors: vec![Violation { pointer, message }],
        raw: text.to_owned(),
    };
    let value: Value = serde_json::from_str(text)
        .map_err(|error| wrong(String::new(), format!("the answer is not JSON: {error}")))?;
    for output in answer_members(outputs) {
        if value.get(&output.name).is_none() {
            return Err(wrong(format!("/{}", output.name), "it is missing".to_owned()));
        }
    }
    Ok(value)
}

/// The outputs that are members of an answer.
fn answer_members(outputs: &[OutputDef]) -> impl Iterator<Item = &OutputDef> {
    outputs.iter().filter(|output| match &output.reference {
        Binding::Node { property, .. } => !property.is_empty(),
        _ => false,
    })
}

/// JSON as the model wrote it, or without what stood around it.
fn as_text(value: Value, written: &str) -> Value {
    match serde_json::from_str::<Value>(written).is_ok_and(|whole| whole == value) {
        true => written.into(),
        false => value.to_string().into(),
    }
}

/// Parameters of the request override settings of the flow.
fn override_settings(settings: &mut CallSettings, overrides: &CallSettings) {
    settings.temperature = overrides.temperature.or(settings.temperature);
    settings.max_tokens = overrides.max_tokens.or(settings.max_tokens);
    settings.seed = overrides.seed.or(settings.seed);
}
