//! One run of a flow: inputs bound, condensed where they are too long, and given to the nodes.
//!
//! See docs/adr/0016-condensing-long-inputs.md and docs/adr/0070-splitting-inputs-that-do-not-fit.md.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::ask::{Asker, ERRORS_KEPT, Ledger};
use super::context::{Labels, Surroundings};
use super::exec::{self, Executor};
use super::finish::GraphOutput;
use super::hierarchy::{Condensed, Coverage, Hierarchy};
use super::outcome::{FlowError, FlowOutcome, FlowProblem, ParamFacts, ReplyCache};
use super::pack::LoadedPack;
use super::parameters::{self, Parameters};
use super::pictures::Pictures;
use super::project::{self, Form};
use super::python::PythonSettings;
use super::render::RENDERED_BYTES_MAX;
use super::source_ids::{CannotRemove, IdCheck, KnownIds};
use super::tree::{LEAF_CHARS, PROMPT_BYTES, TreeJob};
use super::{extract, inputs, pyvalue};
use crate::config::Profile;
use crate::contract::schema;
use crate::contract::source::{InputContext, SourceKind};
use crate::contract::told::ToldFailure;
use crate::model::{
    Bill, CallSettings, Listener, ModelError, Provider, SourceText, Speaker, Speakers,
};
/// Bytes of a token when a prompt is measured: a cautious number for most languages.
const BYTES_PER_TOKEN: usize = 3;
/// Bytes of an input that must fit beside the prompt of a flow.
const ROOM_MIN: usize = 400;
/// Bytes that are enough for a part of a long input.
const PART_ROOM: usize = 4_000;
/// Tokens kept free for the answer when no limit is set for it.
const ANSWER_TOKENS: usize = 1_500;
/// How often a flow is repeated with a smaller input: for an answer that stays cut off, and for a
/// prompt that the server finds too long.
const SPLITS_MAX: usize = 2;
/// An input is not split into smaller parts than this.
const SPLIT_BYTES_MIN: usize = 1_500;
/// The warning of an outcome whose input was split.
const SPLIT: &str = "input_split_for_want_of_room";
/// How a flow is run.
pub struct RunOptions<'a> {
    pub params: Map<String, Value>,
    /// Context of the sources, and the surroundings of the run.
    pub surroundings: Option<&'a Surroundings>,
    /// Ids of the request beside those of its sources: documents and sessions.
    pub known_ids: &'a [String],
    /// Headings of the sources, in their order, for grouping; may be empty.
    pub headings: &'a [String],
    /// Most time for one model call.
    pub timeout: Duration,
    /// How often the model may correct an answer that does not fit its schema.
    pub repair_turns: u32,
    /// Answers that were received before.
    pub replies: Option<&'a dyn ReplyCache>,
    /// Receives the cost of each call.
    pub bill: Option<&'a dyn Bill>,
    /// Hears answers while they arrive.
    pub listener: Option<&'a dyn Listener>,
    /// How Python nodes run; `None` forbids them.
    pub python: Option<PythonSettings>,
    /// Whether call records keep the conversations.
    pub keep_prompts: bool,
    /// Nodes, and leaves of a tree, that run at the same time.
    pub concurrency: usize,
}

impl Default for RunOptions<'_> {
    fn default() -> Self {
        RunOptions {
            params: Map::new(),
            surroundings: None,
            known_ids: &[],
            headings: &[],
            timeout: Duration::from_secs(120),
            repair_turns: 2,
            replies: None,
            bill: None,
            listener: None,
            python: None,
            keep_prompts: false,
            concurrency: 4,
        }
    }
}

impl RunOptions<'_> {
    /// The same options with what is known of the sources.
    pub(crate) fn around<'b>(&'b self, surroundings: &'b Surroundings) -> RunOptions<'b> {
        RunOptions {
            params: self.params.clone(),
            surroundings: Some(surroundings),
            python: self.python.clone(),
            ..*self
        }
    }
}

fn asker<'a>(
    pack: &'a LoadedPack,
    provider: &'a dyn Provider,
    options: &'a RunOptions<'_>,
) -> Asker<'a> {
    Asker {
        flow_id: &pack.record.flow_id,
        variant: pack.record.variant.as_deref(),
        provider,
        profile: provider.profile_of(None),
        hints: pack.hints.as_ref(),
        replies: options.replies,
        bill: options.bill,
        listener: options.listener,
        apart: options.surroundings.is_some_and(|around| around.input.is_apart()),
        speakers: options.surroundings.and_then(|around| speakers(&around.input)),
        timeout: options.timeout,
        repair_turns: options.repair_turns,
        keep_prompts: options.keep_prompts,
        ledger: Default::default(),
    }
}

/// Who says what in a session, and on which day each source was written; `None` where neither is known.
fn speakers(input: &InputContext) -> Option<Speakers> {
    let is_session = input.window.is_some();
    let of_session = |value: Option<String>| value.filter(|_| is_session);
    let said = input.sources.iter().map(|source| {
        let name = source.author.as_ref().and_then(|person| person.name.clone());
        let (role, name) = (of_session(source.role.clone()), of_session(name));
        let is_mail = !is_session && source.kind == SourceKind::Event;
        let subject = source.title.clone().filter(|_| is_mail);
        (source.id.clone(), Speaker { role, name, day: source.day_as_written(), subject })
    });
    let known = said.filter(|(_, one)| is_session || one.day.is_some() || one.subject.is_some());
    let known: BTreeMap<String, Speaker> = known.collect();
    (is_session || !known.is_empty()).then_some(Speakers(known))
}

/// Runs a flow once.
pub fn run(
    pack: &LoadedPack,
    inputs: Map<String, Value>,
    sources: &[SourceText],
    provider: &dyn Provider,
    options: &RunOptions<'_>,
) -> Result<FlowOutcome, FlowError> {
    let asker = asker(pack, provider, options);
    let ran = run_with(pack, inputs, sources, &asker, options);
    let ledger = ordered(pack, asker.ledger.into_inner());
    match ran {
        Ok(ran) => Ok(ran.outcome(pack, &options.params, provider, ledger)),
        Err(problem) => {
            let Ledger { usage, calls, unanswered, .. } = ledger;
            Err(FlowError { problem: Box::new(problem), usage, calls, unanswered })
        }
    }
}

/// Runs the aggregation nodes of a flow over that part of the outcome of each line which they read; returns their metrics.
pub fn aggregate(
    pack: &LoadedPack,
    lines: Vec<Map<String, Value>>,
    provider: &dyn Provider,
    options: &RunOptions<'_>,
) -> Result<Map<String, Value>, FlowProblem> {
    if pack.plan.aggregation.is_empty() || lines.is_empty() {
        return Ok(Map::new());
    }
    let mut columns: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for (reference, value) in lines.into_iter().flatten() {
        columns.entry(reference).or_default().push(value);
    }
    let asker = Asker {
        apart: false,
        speakers: None,
        keep_prompts: false,
        ..asker(pack, provider, options)
    };
    let overrides = CallSettings::default();
    let executor = Executor {
        pack,
        asker: &asker,
        inputs: &Map::new(),
        sources: &[],
        ids: None,
        python: options.python.as_ref(),
        overrides: &overrides,
        concurrency: options.concurrency,
    };
    Ok(executor.aggregate(&columns)?.metrics)
}

fn run_with<'a>(
    pack: &LoadedPack,
    inputs: Map<String, Value>,
    sources: &'a [SourceText],
    asker: &Asker<'_>,
    options: &RunOptions<'_>,
) -> Result<GraphOutput<'a>, FlowProblem> {
    let params = common_params(&options.params);
    let overrides = overrides(&params).map_err(FlowProblem::Input)?;
    let unknown = Surroundings::default();
    let surroundings = options.surroundings.unwrap_or(&unknown);
    let mut bound = inputs::bind(pack, inputs, &options.params, sources, surroundings)?;
    let mut room = usize::MAX;
    let mut splits = 0;
    let mut tree = None;
    let ran = loop {
        let condensed = condense(pack, &mut bound, asker, &overrides, options, room, tree.take());
        let ran = condensed.and_then(|condensed| {
            tree = condensed;
            let built = tree.as_ref().map(|(_, tree)| tree);
            run_bound(pack, &bound, built, asker, &overrides, options)
        });
        let problem = match ran {
            Ok(ran) => break ran,
            Err(problem) if problem.needs_shorter_input() && splits < SPLITS_MAX => problem,
            Err(problem) => return Err(problem),
        };
        // Try half of the input, unless that is too little to be worth a question.
        // After a tree that did not fit, its prompts are halved too.
        room = room.min(main_bytes(&bound)) / 2;
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
    // The embedded summarizer reads the sources themselves.
    let is_condensed = bound.uncondensed.is_some() && !asker.provider.is_free();
    if splits > 0 || is_condensed {
        warnings.push(SPLIT.to_owned());
    }
    let coverage = {
        let ledger = asker.ledger.lock();
        let (uncondensed, asked) = (bound.uncondensed.as_ref(), !ledger.calls.is_empty());
        ledger.reading.coverage(&bound.sources, &bound.inputs, uncondensed, asked)
    };
    let hierarchy = tree.map(|(_, tree)| tree);
    let param_facts = bound.param_facts;
    Ok(GraphOutput { hierarchy, coverage, sources: bound.sources, warnings, param_facts, ..ran })
}

/// Runs the nodes over inputs that are ready.
fn run_bound<'a>(
    pack: &LoadedPack,
    bound: &inputs::Bound<'_>,
    tree: Option<&Hierarchy>,
    asker: &Asker<'_>,
    overrides: &CallSettings,
    options: &RunOptions<'_>,
) -> Result<GraphOutput<'a>, FlowProblem> {
    let ids = id_check(pack, bound, tree, options);
    let executor = Executor {
        pack,
        asker,
        inputs: &bound.inputs,
        sources: &bound.sources,
        ids: ids.as_ref(),
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
        // The output is the whole response; the summary is made of the answer's text only.
        finished.structured.as_ref().map(|(_, reply)| reply.text.clone().into()).unwrap_or_default()
    } else if prompty.is_some() {
        spread(&mut outputs)
    } else {
        outputs.values().next().cloned().unwrap_or_default()
    };
    let mut structured = structured(pack, first)?;
    if let Some(ids) = &ids {
        // A program of the flow may have added ids after the model answered.
        let node = || pack.plan.outputs.first().map(|output| output.name.clone());
        let changes = ids.clean(&mut structured).map_err(|CannotRemove(removed)| {
            let (node, raw) = (node().unwrap_or_default(), structured.to_string());
            FlowProblem::Schema { node, errors: ids.faults(&removed), raw }
        })?;
        asker.ledger.lock().changes.add(changes);
        if pack.form() == Form::Markdown {
            project::rewrite_page(&mut structured);
        }
    }
    if pack.form() == Form::Markdown && options.surroundings.is_some_and(|around| around.private) {
        project::mark_draft(&mut structured);
        if let Some(page @ Value::String(_)) = outputs.values_mut().next() {
            *page = structured["markdown"].clone();
        }
    }
    let for_aggregation = exec::for_aggregation(&executor, &finished.outputs)?;
    Ok(GraphOutput {
        finished,
        outputs,
        structured,
        for_aggregation,
        hierarchy: None,
        coverage: Coverage::default(),
        sources: Cow::default(),
        warnings: Vec::new(),
        param_facts: ParamFacts::default(),
    })
}

/// The check of the ids and quotes in an answer of JSON: in the members that claim them, and in its prose.
fn id_check<'b>(
    pack: &'b LoadedPack,
    bound: &'b inputs::Bound<'_>,
    tree: Option<&Hierarchy>,
    options: &RunOptions<'_>,
) -> Option<IdCheck<'b>> {
    let schema = pack.schema.as_ref()?;
    let of_caller = matches!(bound.sources, Cow::Owned(_));
    let mut known = KnownIds::of(&bound.sources, options.known_ids, tree);
    known.condensed = &bound.condensed;
    // A condensed text is the word of a model: the ids of an input are those of its original.
    let input = |name: &str| match &bound.uncondensed {
        Some(original) if bound.main.as_deref() == Some(name) => Some(original),
        _ => bound.inputs.get(name),
    };
    if of_caller {
        known = known.with_input_of_caller(bound.main.as_deref().and_then(input));
    }
    let mut known = known.with_inputs(&pack.id_claims, input);
    // A title is no text of a source, and a prompt shows it as the source's.
    let of_sources = |name: &str| of_caller || bound.of_sources.contains(name);
    let told = bound.inputs.keys().filter(|name| of_sources(name));
    known.told = told.filter_map(|name| input(name)).collect();
    Some(IdCheck { claims: &pack.id_claims, schema: &schema.value, known })
}

/// Parameters that limit model calls, by the names a node would use.
fn common_params(params: &Map<String, Value>) -> Map<String, Value> {
    let wanted = ["max_tokens", "temperature", "seed"];
    let given = params.iter().filter(|(name, _)| wanted.contains(&name.as_str()));
    given.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// The call settings in the parameters of the request. The program does not correct them, because the
/// producer can.
fn overrides(params: &Map<String, Value>) -> Result<CallSettings, ToldFailure> {
    let Parameters { settings, corrected } = parameters::read(|key| params.get(key))?;
    match corrected.first() {
        None => Ok(settings),
        Some(wrong) => Err(ToldFailure::from(format!("the parameter {} cannot be ", wrong.name))
            .and(ToldFailure::by_others(wrong.wanted.to_string()))
            .and(format!(": it must be {}", wrong.range))),
    }
}

/// Bytes of the value of the main input.
fn main_bytes(bound: &inputs::Bound<'_>) -> usize {
    bound.main.as_ref().and_then(|main| bound.inputs.get(main)).map_or(0, weight)
}

fn weight(value: &Value) -> usize {
    value.as_str().map_or_else(|| value.to_string().len(), str::len)
}

/// Builds a tree when the pack always wants one, or when the input is larger than the model's room or
/// `room_max`. Where the input does not fit, the condensed text becomes the main input. A tree that was
/// `built` with prompts of the same size is reused.
fn condense(
    pack: &LoadedPack,
    bound: &mut inputs::Bound<'_>,
    asker: &Asker<'_>,
    overrides: &CallSettings,
    options: &RunOptions<'_>,
    room_max: usize,
    built: Option<(usize, Hierarchy)>,
) -> Result<Option<(usize, Hierarchy)>, FlowProblem> {
    let Some(main) = bound.main.clone() else { return Ok(None) };
    bound.condensed.clear();
    if let Some(value) = bound.uncondensed.take() {
        bound.inputs.insert(main.clone(), value);
    }
    let main_bytes = main_bytes(bound);
    let other_bytes: usize = bound
        .inputs
        .iter()
        .filter(|(name, _)| **name != main)
        .map(|(_, value)| weight(value))
        .sum();
    let answer = overrides.max_tokens.map_or(ANSWER_TOKENS, |tokens| tokens as usize);
    let is_short = pack.small.is_some() && asker.profile == Profile::Small;
    let templates = if is_short { pack.small_bytes } else { pack.template_bytes };
    let context = asker.provider.context_tokens();
    let whole = context.saturating_sub(answer.min(context / 4)).saturating_mul(BYTES_PER_TOKEN);
    let beside = |prompt: usize| whole.saturating_sub(prompt + other_bytes + 512);
    let room = beside(templates);
    // PromptFlow sends an input whole. So does this for an imported flow, unless the context of the
    // model is configured.
    let guessed = pack.is_imported && !asker.provider.context_is_known();
    let room = if guessed { room_max } else { room.min(room_max) };
    let too_long = main_bytes > room;
    // A text of one window has nothing to merge: its calls would cost, and the flow reads it whole.
    let is_worth_calls = asker.provider.is_free() || main_bytes > LEAF_CHARS;
    let is_wanted = pack.projection.hierarchy().always && is_worth_calls;
    if !too_long && !is_wanted {
        return Ok(None);
    }
    if room < ROOM_MIN {
        let shorter = match is_short || pack.small.is_none() {
            true => "",
            false => ", or set profile = \"small\" for its provider, which asks shorter questions",
        };
        let source = ModelError::OverLimit {
            provider: asker.provider.identity().provider,
            reason: format!(
                "a context of {context} tokens leaves no room for the input beside the prompt; {}{shorter}",
                crate::model::MORE_CONTEXT
            )
            .into(),
        };
        return Err(FlowProblem::Model { node: main, source });
    }
    // The prompts of a part are short, so a small context has more room for it than for the whole.
    let of_part = beside(pack.part_bytes.max(PROMPT_BYTES)).min(PART_ROOM).min(room_max);
    let prompt_bytes = room.max(of_part).min(1 << 20) / 2;
    let unknown = Surroundings::default();
    let job = TreeJob {
        pack,
        asker,
        inputs: &bound.inputs,
        sources: &bound.sources,
        pictures: Pictures::of_parts(bound.sources.iter().map(|source| source.text.as_str())),
        headings: options.headings,
        surroundings: options.surroundings.unwrap_or(&unknown),
        prompt_bytes,
        concurrency: options.concurrency,
    };
    let tree = match built {
        Some((bytes, tree)) if bytes == prompt_bytes => Some(tree),
        _ => job.build()?,
    };
    if !too_long && asker.provider.is_free() {
        // The embedded summarizer made the tree by rule, no model was asked, and no prompt shows its parts.
        asker.ledger.lock().calls.iter_mut().for_each(|call| call.messages.clear());
    }
    if let (true, Some(tree)) = (too_long, &tree) {
        let kind = pack.inputs().iter().find(|input| input.name == main).map(|input| input.kind);
        let around = options.surroundings.unwrap_or(&unknown);
        let told = around.told_of(&tree.nodes, room / 2);
        let Condensed { texts, told, is_cut } = tree.condensed(room / 2, told);
        asker.ledger.lock().condensed_cut = is_cut;
        let around = around.of_condensed(told);
        let value = inputs::main_value(kind, &texts, &around, Labels::Always);
        bound.condensed = texts.into_iter().map(|text| text.id).collect();
        bound.uncondensed = bound.inputs.insert(main, value);
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

/// The structured output: the value of the first output in the form that the pack declares. For a
/// prompty file that gives JSON, an object of all outputs.
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
    let errors = schema::violations_unquoted(&schema.validator, &value, ERRORS_KEPT);
    if errors.is_empty() {
        return Ok(value);
    }
    let node = pack.plan.outputs.first().map(|output| output.name.clone()).unwrap_or_default();
    Err(FlowProblem::Schema { node, errors, raw: value.to_string() })
}

/// The ledger in an order that does not depend on which node ended first.
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
