//! Flows: a pack of prompts and a graph of nodes, run against a model.
//!
//! A [`LoadedPack`] is made once from verified files; [`run`] then takes inputs and sources and gives
//! a [`FlowOutcome`] with its whole provenance, or a [`FlowError`] with its class.
//!
//! ```text
//! flow.dag.yaml ─yaml─▶ dag ─plan─▶ order      templates ─render, roles─▶ messages
//! inputs ─inputs─▶ exec: prompt | llm | python nodes ─ask─▶ Provider ─extract, schema, repair─▶ output
//! too long an input ─tree─▶ condensed            output ─project, evidence─▶ summary
//! ```
//!
//! Contract: nothing here reads a file, a clock or a configuration. Given the same pack, inputs, sources and
//! replies, the outcome is the same, whatever ran at the same time.
//!
//! Which source text goes into which input is told in `inputs`; how the output becomes a summary in
//! `project`. Waiting, budgets and fallbacks are the provider's side (`model`).

mod adapt;
pub mod align;
mod ask;
mod dag;
mod evidence;
mod exec;
mod extract;
mod filters;
mod inputs;
pub mod lint;
mod outcome;
mod pack;
mod plan;
mod project;
mod prompty;
mod python;
mod pyvalue;
mod render;
mod roles;
pub mod scaffold;
mod tree;
mod yaml;

pub use inputs::COMMON_PARAMS;
pub use outcome::{
    CallRecord, EvidenceRef, FlowError, FlowErrorClass, FlowOutcome, FlowProblem, Quality,
    ReplyCache,
};
pub use pack::LoadedPack;
pub use project::SummaryOutputs;
pub use python::PythonSettings;
pub use render::{ENGINE, ENGINE_VERSION, RENDERED_BYTES_MAX};
pub use tree::{Coverage, HIERARCHY_VERSION, Hierarchy};

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::contract::hash::sha256;
use crate::contract::schema;
use crate::model::{Bill, CallSettings, Provider, SourceText};
use ask::{Asker, Ledger};
use exec::{Executor, Finished};
use project::Form;
use tree::TreeJob;

/// Bytes a token stands for when a prompt is measured: on the safe side for most languages.
const BYTES_PER_TOKEN: usize = 3;
/// Tokens kept free for the answer when nobody says how long it may be.
const ANSWER_TOKENS: usize = 1_500;
/// How often a flow is tried again with its input split: for an answer that stays cut off, and for a
/// prompt that the server says is too long.
const SPLITS_MAX: usize = 2;
/// An input is not split into less than this.
const SPLIT_BYTES_MIN: usize = 1_500;
/// The warning of an outcome whose input was split.
const SPLIT: &str = "input_split_for_want_of_room";
/// Members of an answer that a warning names when the schema does not know them.
const UNDECLARED_SHOWN: usize = 10;
/// Characters of the input that stand in for an empty summary.
const STAND_IN_CHARS: usize = 400;

/// How a flow is run.
pub struct RunOptions<'a> {
    /// The request's parameters.
    pub params: Map<String, Value>,
    /// Headings of the sources, in their order, for grouping; may be empty.
    pub headings: &'a [String],
    /// Most time for one model call.
    pub timeout: Duration,
    /// How often a model is shown the errors of its answer.
    pub repair_turns: u32,
    /// Answers that were received before.
    pub replies: Option<&'a dyn ReplyCache>,
    /// Who hears what calls cost.
    pub bill: Option<&'a dyn Bill>,
    /// How Python nodes run; `None` forbids them.
    pub python: Option<PythonSettings>,
    /// Keep the conversations in the call records.
    pub keep_prompts: bool,
    /// Nodes, and leaves of a tree, that run at the same time.
    pub concurrency: usize,
}

impl Default for RunOptions<'_> {
    fn default() -> Self {
        RunOptions {
            params: Map::new(),
            headings: &[],
            timeout: Duration::from_secs(120),
            repair_turns: 2,
            replies: None,
            bill: None,
            python: None,
            keep_prompts: false,
            concurrency: 4,
        }
    }
}

/// Runs a flow once.
pub fn run(
    pack: &LoadedPack,
    inputs: Map<String, Value>,
    sources: &[SourceText],
    provider: &dyn Provider,
    options: &RunOptions<'_>,
) -> Result<FlowOutcome, FlowError> {
    let asker = Asker {
        flow_id: &pack.record.flow_id,
        variant: pack.record.variant.as_deref(),
        provider,
        hints: pack.hints.as_ref(),
        replies: options.replies,
        bill: options.bill,
        timeout: options.timeout,
        repair_turns: options.repair_turns,
        keep_prompts: options.keep_prompts,
        ledger: Default::default(),
    };
    let ran = run_with(pack, inputs, sources, &asker, options);
    let ledger = ordered(pack, asker.ledger.into_inner());
    match ran {
        Ok(ran) => Ok(ran.outcome(pack, options, provider, ledger)),
        Err(problem) => {
            Err(FlowError { problem: Box::new(problem), usage: ledger.usage, calls: ledger.calls })
        }
    }
}

/// Runs the aggregation nodes of a flow over the outcomes of all lines and gives the metrics they logged.
pub fn aggregate(
    pack: &LoadedPack,
    lines: &[FlowOutcome],
    provider: &dyn Provider,
    options: &RunOptions<'_>,
) -> Result<Map<String, Value>, FlowProblem> {
    if pack.plan.aggregation.is_empty() || lines.is_empty() {
        return Ok(Map::new());
    }
    let mut columns: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for line in lines {
        for (reference, value) in &line.for_aggregation {
            columns.entry(reference.clone()).or_default().push(value.clone());
        }
    }
    let asker = Asker {
        flow_id: &pack.record.flow_id,
        variant: pack.record.variant.as_deref(),
        provider,
        hints: pack.hints.as_ref(),
        replies: options.replies,
        bill: options.bill,
        timeout: options.timeout,
        repair_turns: options.repair_turns,
        keep_prompts: false,
        ledger: Default::default(),
    };
    let overrides = CallSettings::default();
    let executor = Executor {
        pack,
        asker: &asker,
        inputs: &Map::new(),
        sources: &[],
        python: options.python.as_ref(),
        overrides: &overrides,
        concurrency: options.concurrency,
    };
    Ok(executor.aggregate(&columns)?.metrics)
}

struct Ran<'a> {
    finished: Finished,
    outputs: Map<String, Value>,
    structured: Value,
    hierarchy: Option<Hierarchy>,
    sources: Cow<'a, [SourceText]>,
    warnings: Vec<String>,
    for_aggregation: Map<String, Value>,
}

fn run_with<'a>(
    pack: &LoadedPack,
    inputs: Map<String, Value>,
    sources: &'a [SourceText],
    asker: &Asker<'_>,
    options: &RunOptions<'_>,
) -> Result<Ran<'a>, FlowProblem> {
    let params = common_params(&options.params);
    let overrides = ask::settings(|key| params.get(key)).map_err(FlowProblem::Input)?;
    let mut bound = inputs::bind(pack, inputs, &options.params, sources)?;
    let mut room = usize::MAX;
    let mut splits = 0;
    let mut tree = None;
    let ran = loop {
        tree = condense(pack, &mut bound, asker, &overrides, options, room, tree)?;
        let problem = match run_bound(pack, &bound, asker, &overrides, options) {
            Ok(ran) => break ran,
            Err(problem) if problem.is_for_want_of_room() && splits < SPLITS_MAX => problem,
            Err(problem) => return Err(problem),
        };
        // Half of what was too much; too little to divide is no reason to ask about nothing.
        room = main_bytes(pack, &bound) / 2;
        if let FlowProblem::Template(_) = problem {
            room = room.min(RENDERED_BYTES_MAX / 2);
        }
        if room < SPLIT_BYTES_MIN {
            return Err(problem);
        }
        splits += 1;
    };
    let mut warnings = bound.warnings;
    warnings.extend(pack.warnings().iter().cloned());
    if splits > 0 {
        warnings.push(SPLIT.to_owned());
    }
    let hierarchy = tree.map(|(_, tree)| tree);
    Ok(Ran { hierarchy, sources: bound.sources, warnings, ..ran })
}

/// Runs the nodes over inputs that are ready.
fn run_bound<'a>(
    pack: &LoadedPack,
    bound: &inputs::Bound<'_>,
    asker: &Asker<'_>,
    overrides: &CallSettings,
    options: &RunOptions<'_>,
) -> Result<Ran<'a>, FlowProblem> {
    let executor = Executor {
        pack,
        asker,
        inputs: &bound.inputs,
        sources: &bound.sources,
        python: options.python.as_ref(),
        overrides,
        concurrency: options.concurrency,
    };
    let finished = executor.run()?;
    let mut outputs = Map::new();
    for output in &pack.plan.outputs {
        let value = executor.value(&output.reference, &finished.outputs)?;
        outputs.insert(output.name.clone(), value);
    }
    let prompty = pack.plan.nodes.iter().find_map(|node| node.prompty.as_ref());
    let first = if prompty.is_some_and(|call| call.all) {
        // A summary is made of what was said, not of how it was sent.
        finished.structured.as_ref().map(|(_, reply)| reply.text.clone().into()).unwrap_or_default()
    } else if prompty.is_some() {
        spread(&mut outputs)
    } else {
        outputs.values().next().cloned().unwrap_or_default()
    };
    let structured = structured(pack, first)?;
    let for_aggregation = exec::for_aggregation(&executor, &finished.outputs)?;
    Ok(Ran {
        finished,
        outputs,
        structured,
        for_aggregation,
        hierarchy: None,
        sources: Cow::default(),
        warnings: Vec::new(),
    })
}

/// Parameters that limit model calls, by the names a node would use.
fn common_params(params: &Map<String, Value>) -> Map<String, Value> {
    let wanted = ["max_tokens", "temperature", "seed"];
    let given = params.iter().filter(|(name, _)| wanted.contains(&name.as_str()));
    given.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// Bytes of the value of the main input.
fn main_bytes(pack: &LoadedPack, bound: &inputs::Bound<'_>) -> usize {
    pack.main_input().and_then(|main| bound.inputs.get(main)).map_or(0, weight)
}

fn weight(value: &Value) -> usize {
    value.as_str().map_or_else(|| value.to_string().len(), str::len)
}

/// Builds a tree when the pack always wants one or the input fits neither the model nor `room_max`,
/// and puts the condensed text into the main input when it does not fit. A tree that was `built` with
/// prompts of the same size is not built again.
fn condense(
    pack: &LoadedPack,
    bound: &mut inputs::Bound<'_>,
    asker: &Asker<'_>,
    overrides: &CallSettings,
    options: &RunOptions<'_>,
    room_max: usize,
    built: Option<(usize, Hierarchy)>,
) -> Result<Option<(usize, Hierarchy)>, FlowProblem> {
    let Some(main) = pack.main_input() else { return Ok(None) };
    if let Some(value) = bound.uncondensed.take() {
        bound.inputs.insert(main.to_owned(), value);
    }
    let main_bytes = main_bytes(pack, bound);
    let other_bytes: usize =
        bound.inputs.iter().filter(|(name, _)| *name != main).map(|(_, value)| weight(value)).sum();
    let answer = overrides.max_tokens.map_or(ANSWER_TOKENS, |tokens| tokens as usize);
    let room =
        asker.provider.context_tokens().saturating_sub(answer).saturating_mul(BYTES_PER_TOKEN);
    let room = room.saturating_sub(pack.template_bytes + other_bytes + 512);
    // A flow made for PromptFlow is asked as PromptFlow asks it, unless somebody knows better than
    // to send it whole.
    let guessed = pack.is_imported() && !asker.provider.context_is_known();
    let room = if guessed { room_max } else { room.min(room_max) };
    let too_long = main_bytes > room;
    if !too_long && !pack.projection.hierarchy().always {
        return Ok(None);
    }
    if room < 1_000 {
        let source = crate::model::ModelError::OverLimit {
            provider: asker.provider.identity().provider,
            reason: "its context leaves no room for the input".to_owned(),
        };
        return Err(FlowProblem::Model { node: main.to_owned(), source });
    }
    let prompt_bytes = room.min(1 << 20) / 2;
    let job = TreeJob {
        pack,
        asker,
        inputs: &bound.inputs,
        sources: &bound.sources,
        headings: options.headings,
        prompt_bytes,
        concurrency: options.concurrency,
    };
    let tree = match built {
        Some((bytes, tree)) if bytes == prompt_bytes => Some(tree),
        _ => job.build()?,
    };
    if let (true, Some(tree)) = (too_long, &tree) {
        let kind = pack.inputs().iter().find(|input| input.name == main).map(|input| input.kind);
        let value = inputs::main_value(kind, &tree.condensed(room / 2));
        bound.uncondensed = bound.inputs.insert(main.to_owned(), value);
    }
    Ok(tree.map(|tree| (prompt_bytes, tree)))
}

/// A prompty file that gives an object, as JSON or as the message that calls a tool, has its members as outputs.
fn spread(outputs: &mut Map<String, Value>) -> Value {
    match (outputs.len(), outputs.get("output")) {
        (1, Some(Value::Object(members))) => *outputs = members.clone(),
        (1, Some(value)) => return value.clone(),
        _ => {}
    }
    Value::Object(outputs.clone())
}

/// The structured output: the value of the first output in the form the pack declares; of a prompty file that
/// gives JSON, all of them.
fn structured(pack: &LoadedPack, first: Value) -> Result<Value, FlowProblem> {
    let value = match (pack.form(), first) {
        (Form::Markdown, value) => project::markdown(&pyvalue::to_str(&value)),
        (Form::Text, Value::String(text)) => json!({"text": text.trim()}),
        (Form::Json, Value::String(text)) => {
            extract::json(&text).unwrap_or_else(|_| json!({"text": text.trim()}))
        }
        (_, value @ Value::Object(_)) => value,
        (_, value) => json!({"value": value}),
    };
    let Some(schema) = &pack.schema else { return Ok(value) };
    let errors = schema::violations(&schema.validator, &value);
    if errors.is_empty() {
        return Ok(value);
    }
    let node = pack.plan.outputs.first().map(|output| output.name.clone()).unwrap_or_default();
    Err(FlowProblem::Schema { node, errors, raw: value.to_string() })
}

/// The books in an order that does not depend on which node was faster.
fn ordered(pack: &LoadedPack, mut ledger: Ledger) -> Ledger {
    let position = |node: &str| {
        let planned = pack.plan.nodes.iter().position(|other| other.name == node);
        let tree = node.strip_prefix("#n").and_then(|rest| {
            let (level, at) = rest.split_once('_')?;
            Some((level.parse::<usize>().ok()?, at.parse::<usize>().ok()?))
        });
        (planned.map_or(0, |at| at + 1), tree)
    };
    ledger.calls.sort_by_key(|call| (position(&call.node), call.turn));
    ledger.rendered.sort_by_key(|(node, _)| position(node));
    ledger
}

impl Ran<'_> {
    fn outcome(
        self,
        pack: &LoadedPack,
        options: &RunOptions<'_>,
        provider: &dyn Provider,
        ledger: Ledger,
    ) -> FlowOutcome {
        let sources: &[SourceText] = &self.sources;
        let mut warnings = self.warnings;
        let mut summary = pack.projection.apply(&self.structured);
        if summary.summary_text.is_empty() {
            let stand_in = stand_in(sources);
            if !stand_in.is_empty() {
                summary.summary_text = stand_in;
                warnings.push("summary_text_from_source".to_owned());
            }
        }
        if self.hierarchy.is_some() {
            render_profiles(&mut summary, self.hierarchy.as_ref());
        }
        let structured_reply = self.finished.structured.as_ref().map(|(_, reply)| reply);
        let mut evidence = evidence::locate(pack.projection.quotes(&self.structured), sources);
        if let Some(reply) = structured_reply {
            evidence.extend(evidence::exact(&reply.evidence, sources));
        }
        let mut checks = Vec::new();
        if pack.schema.is_some() {
            checks.push("output_schema".to_owned());
        }
        if !evidence.is_empty() && evidence.iter().all(|item| item.located) {
            checks.push("quotes_located".to_owned());
        }
        let model = ledger.calls.last().map(|call| call.identity.clone());
        let rendered_prompt_sha256 = rendered_hash(&ledger);
        let model = model.unwrap_or_else(|| provider.identity());
        let made_by_builtin = provider.is_free() || model.provider == crate::model::BUILTIN;
        if model.provider != provider.identity().provider {
            warnings.push(format!("answered by the fallback {}", model.provider));
        }
        if !ledger.undeclared.is_empty() {
            let left_out = ledger.undeclared.iter().take(UNDECLARED_SHOWN);
            let left_out: Vec<String> = left_out.map(|at| at.chars().take(80).collect()).collect();
            warnings.push(format!("left out, unknown to the schema: {}", left_out.join(", ")));
        }
        if ledger.redacted > 0 {
            warnings.push(format!("{} passages were redacted before sending", ledger.redacted));
        }
        FlowOutcome {
            outputs: self.outputs,
            summary,
            schema_id: pack.record.declared_outputs.output_schema_id.clone(),
            structured: self.structured,
            hierarchy: self.hierarchy,
            coverage: Coverage::of(sources),
            evidence,
            quality: Quality { checks, repaired: ledger.repaired, truncated: ledger.truncated },
            model,
            model_generated: !made_by_builtin,
            prompt_hash: pack.prompt_hash(&options.params).hex(),
            rendered_prompt_sha256,
            engine: ENGINE,
            engine_version: ENGINE_VERSION,
            usage: ledger.usage,
            warnings,
            calls: ledger.calls,
            metrics: self.finished.metrics,
            for_aggregation: self.for_aggregation,
        }
    }
}

/// The hash of the one rendered prompt, or of the lines `<sha256>  <node>` when there are several.
fn rendered_hash(ledger: &Ledger) -> String {
    match ledger.rendered.as_slice() {
        [(_, only)] => only.hex(),
        several => {
            let lines: String =
                several.iter().map(|(node, hash)| format!("{hash}  {node}\n")).collect();
            sha256(lines).hex()
        }
    }
}

/// The beginning of the sources, up to a sentence end.
fn stand_in(sources: &[SourceText]) -> String {
    let Some(source) = sources.iter().find(|source| !source.text.trim().is_empty()) else {
        return String::new();
    };
    let text = below_headers(source.text.trim());
    let end = text.char_indices().nth(STAND_IN_CHARS).map_or(text.len(), |(at, _)| at);
    let cut = &text[..end];
    let last = [". ", ".\n", "! ", "? "].iter().filter_map(|sign| cut.rfind(sign)).max();
    match last {
        Some(at) if end < text.len() => cut[..=at].to_owned(),
        _ => cut.trim_end().to_owned(),
    }
}

/// The text of a mail without the lines above it, if it has both.
fn below_headers(text: &str) -> &str {
    const HEADERS: [&str; 10] =
        ["from", "to", "cc", "date", "subject", "de", "para", "fecha", "asunto", "enviado"];
    let is_header = |line: &str| {
        let label = line.split_once(':').map(|(label, _)| label.trim().to_lowercase());
        label.is_some_and(|label| HEADERS.contains(&label.as_str()))
    };
    let mut rest = text;
    let mut headers = 0;
    while let Some((_, below)) = rest.split_once('\n').filter(|(line, _)| is_header(line)) {
        (rest, headers) = (below, headers + 1);
    }
    let body = rest.trim_start();
    if headers >= 2 && !body.is_empty() { body } else { text }
}

/// Short, medium and long renderings from the tree, where the pack gives none.
fn render_profiles(summary: &mut SummaryOutputs, tree: Option<&Hierarchy>) {
    let Some(tree) = tree else { return };
    let Some(root) = tree.nodes.iter().find(|node| node.node_id == tree.root) else { return };
    let text = summary.summary_text.clone();
    summary.rendered_short.get_or_insert_with(|| tree::first_sentence(&text).to_owned());
    summary.rendered_medium.get_or_insert_with(|| root.text.clone());
    let below = root.level.saturating_sub(1);
    let sections: Vec<String> = tree.level(below).map(|node| node.text.clone()).collect();
    summary.rendered_long.get_or_insert_with(|| sections.join("\n\n"));
}
