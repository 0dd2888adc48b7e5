//! `flow compare`: several providers or versions of a pack over the same inputs, with a page that shows
//! their outputs side by side.

mod judge;
mod page;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use clap::Args;
use parking_lot::Mutex;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::data_rules::{GivenData, file_places, said_of};
use super::failure::{Exit, Failure};
use super::flow_processes::start_processes;
use super::flow_runner::{FlowProviders, kept_here, load_flow, run_options};
use super::home::refuse_own_folder;
use super::interrupt::{listen, stopped};
use super::settings::load_config;
use super::ui::count;
use super::{Context, names};
use crate::config::Config;
use crate::contract::privacy::Confinement;
use crate::contract::publish;
use crate::contract::source::InputContext;
use crate::facts::dialect::LearnedDialect;
use crate::flow::context::Surroundings;
use crate::flow::{FlowError, FlowOutcome, PackFacts, RunOptions};
use crate::home::Home;
use crate::import::collect::collect;
use crate::import::read::Readers;
use crate::import::units::each_unit;
use crate::import::{Clock, LeftOut};
use crate::model::{Bill, Charge, ModelError, ModelIdentity, Provider, ProviderError, SourceText};
use crate::registry::label;
use crate::work::isolation::alone::FlowAlone;
use crate::work::params::{by_person, for_data};
use judge::{GivenText, NotInText, agreement};

/// Candidates that one page can show side by side.
const CONTENDERS_MAX: usize = 6;
/// Characters of an input that the page shows.
const SHOWN_CHARS_MAX: usize = 4_000;
/// The member that stands for an output that is no object.
const WHOLE: &str = "(text)";

/// Compare providers or versions of a pack over the same inputs
///
/// Runs each candidate over each input and writes an HTML page with the outputs side by side. The page shows
/// where they agree, which values the text does not hold, the failures, time, tokens and cost. The home
/// stores nothing of it.
#[derive(Debug, Args)]
pub(super) struct CompareArgs {
    /// A registered flow, ID@VARIANT, or a folder with a pack
    flow_id: String,
    /// Providers to compare: sections [provider.NAME] of summarizer.toml, or builtin [default: as configured]
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    providers: Vec<String>,
    /// Other versions of the pack: registered flows, ID@VARIANT, or folders
    #[arg(long, value_name = "FLOW,…", value_delimiter = ',')]
    packs: Vec<String>,
    /// A folder or file to summarize; a .json file with an object of flow inputs is one input
    #[arg(long, value_name = "DIR", required = true, num_args = 1..)]
    inputs: Vec<PathBuf>,
    /// Where the page is written
    #[arg(long, value_name = "FILE", default_value = "comparison.html")]
    out: PathBuf,
    /// A parameter for all candidates; a value that is valid JSON is read as JSON, else as text
    #[arg(long = "param", value_name = "KEY=VALUE")]
    params: Vec<String>,
    /// How many inputs run at the same time; with more than one, the measured times are longer
    #[arg(long, value_name = "COUNT", default_value = "1")]
    at_once: usize,
    /// Leave out times, so that equal outputs give an equal file
    #[arg(long)]
    without_times: bool,
    /// Allow Python nodes of the packs to run
    #[arg(long)]
    allow_python: bool,
}

/// One pack with one provider.
struct RunnablePack {
    flow: Arc<FlowAlone>,
    providers: FlowProviders,
    provider: Arc<dyn Provider>,
    options: RunOptions<'static>,
    /// Whether its cost is known: it is free, or its prices are configured.
    priced: bool,
}

impl RunnablePack {
    /// The provider of the candidate, unless the data must not go there. Another one would answer in the
    /// name of the candidate.
    fn about(&self, data: &Confinement) -> Result<Arc<dyn Provider>, ProviderError> {
        let allowed = self.providers.about(data)?;
        match allowed.identity() == self.provider.identity() {
            true => Ok(allowed),
            false => Err(self.providers.elsewhere(&self.provider.identity().provider, data)),
        }
    }
}

/// What one run is about.
struct FlowInput {
    name: String,
    private: bool,
    inputs: Map<String, Value>,
    texts: Vec<SourceText>,
    context: InputContext,
    /// What the rules of the settings say of it.
    data: Confinement,
}

/// The result of a comparison.
#[derive(Debug, Clone, Serialize)]
struct FlowComparison {
    flow_id: String,
    #[serde(rename = "candidates")]
    contenders: Vec<Contender>,
    /// Agreement by member, over all inputs and pairs.
    members: Vec<MemberAgreement>,
    pairs: Vec<PairAgreement>,
    inputs: Vec<ComparedInput>,
    /// Files that were not read, each with the reason.
    skipped: Vec<String>,
}

#[derive(Debug, Clone, Serialize)]
struct Contender {
    name: String,
    flow_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    variant: Option<String>,
    pack_hash: String,
    provider: String,
    model: String,
    #[serde(flatten)]
    sums: RunSums,
}

/// Sums over the runs of one candidate.
#[derive(Debug, Clone, Default, Serialize)]
struct RunSums {
    answered: usize,
    failed: usize,
    /// Strings of its outputs that can be looked up in the text.
    values: usize,
    not_in_text: usize,
    removed_ids: usize,
    removed_quotes: usize,
    /// Outputs that the model had to correct.
    repaired: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    seconds: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    seconds_median: Option<f64>,
    input_tokens: u64,
    output_tokens: u64,
    /// Null where the prices are not configured.
    cost: Option<f64>,
}

#[derive(Debug, Clone, Serialize)]
struct MemberAgreement {
    name: String,
    agreement: f64,
}

#[derive(Debug, Clone, Serialize)]
struct PairAgreement {
    first: usize,
    second: usize,
    agreement: f64,
}

#[derive(Debug, Clone, Serialize)]
struct ComparedInput {
    name: String,
    private: bool,
    text: String,
    /// Whether the text shown is the beginning of a longer one.
    cut: bool,
    members: Vec<InputMember>,
    runs: Vec<InputRun>,
}

/// One member of the outputs about one input.
#[derive(Debug, Clone, Serialize)]
struct InputMember {
    name: String,
    /// `None` when fewer than two candidates answered.
    agreement: Option<f64>,
}

#[derive(Debug, Clone, Default, Serialize)]
struct InputRun {
    #[serde(skip_serializing_if = "Option::is_none")]
    seconds: Option<f64>,
    input_tokens: u64,
    output_tokens: u64,
    cost: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    failure: Option<FailedRun>,
    values: usize,
    not_in_text: Vec<NotInText>,
    removed_ids: usize,
    removed_quotes: usize,
    repaired: bool,
    warnings: Vec<String>,
}

#[derive(Debug, Clone, Serialize)]
struct FailedRun {
    reason_code: String,
    #[serde(rename = "error")]
    words: String,
}

/// Adds up the cost of one run.
#[derive(Default)]
struct CostMeter(Mutex<f64>);

impl Bill for CostMeter {
    fn charge(&self, charge: Charge) {
        *self.0.lock() += charge.cost;
    }

    fn passed_over(&self, _: &ModelIdentity, _: &ModelError, _: &str) {}

    fn learned(&self, _: LearnedDialect) {}

    fn waits(&self, _: &ModelError, _: Duration) {}
}

impl CompareArgs {
    pub(super) fn run(&self, context: &Context) -> Result<Exit, Failure> {
        refuse_own_folder(context, &self.out)?;
        let config = load_config(context)?;
        let (contenders, packs) = self.contenders(context, &config)?;
        let (inputs, skipped) = self.read(context, &config, &packs)?;
        if inputs.is_empty() {
            let what = format!("there is nothing to compare in {}", self.named());
            let hint = skipped.first().cloned();
            let hint = hint.unwrap_or_else(|| "it holds no file that can be read".to_owned());
            return Err(Failure::new(Exit::Input, what).hint(hint));
        }
        let stop = listen(context, "the input under way ends first", || ())?;
        let all = inputs.len();
        let compared = self.run_all(context, &config, &packs, inputs, &stop);
        let left = all - compared.len();
        if compared.is_empty() {
            return Err(stopped("no input was compared", "run the same command again"));
        }
        let flow_id = packs[0].flow.facts().record().flow_id.clone();
        let comparison = summed(flow_id, contenders, compared, skipped);
        let page = page::page(&comparison);
        context.machine.disk.replace(&self.out, page.as_bytes(), 0o640).map_err(|error| {
            Failure::of_target(format!("cannot write {}", self.out.display()), &error)
        })?;
        self.report(context, &comparison);
        if left > 0 {
            let done = format!("{} of {}", all - left, count(all, "input"));
            return Err(stopped(
                format!("{done} were compared, and are on the page"),
                "run the same command again to compare all of them",
            ));
        }
        let answered = comparison.contenders.iter().any(|one| one.sums.answered > 0);
        Ok(if answered { Exit::Done } else { Exit::Wrong })
    }

    fn named(&self) -> String {
        let names: Vec<String> =
            self.inputs.iter().map(|path| path.display().to_string()).collect();
        names.join(", ")
    }

    /// Every pack with every provider.
    fn contenders(
        &self,
        context: &Context,
        config: &Config,
    ) -> Result<(Vec<Contender>, Vec<RunnablePack>), Failure> {
        let (mut contenders, mut runnable) = (Vec::new(), Vec::new());
        let providers: Vec<Option<&str>> = match self.providers.is_empty() {
            true => vec![None],
            false => self.providers.iter().map(|name| Some(name.trim())).collect(),
        };
        let packs: Vec<&str> =
            std::iter::once(&self.flow_id).chain(&self.packs).map(|it| it.trim()).collect();
        let processes = start_processes(config)?;
        for word in &packs {
            let (word, variant) = split_variant(word);
            let flow_id = names::flow_id(context, word)?;
            let flow = Arc::new(load_flow(context, &flow_id, variant, &processes)?);
            let pack = flow.facts();
            let pack_name = match (std::path::Path::new(word).is_dir(), pack.record()) {
                (true, _) => word.to_owned(),
                (false, record) => label(&record.flow_id, record.variant.as_deref()),
            };
            for asked_for in &providers {
                let allowed = FlowProviders::new(context, pack.record(), *asked_for)?;
                let provider = allowed.usual()?;
                let identity = provider.identity();
                let name = match (packs.len() > 1, providers.len() > 1) {
                    (true, true) => format!("{pack_name} · {}", identity.provider),
                    (true, false) => pack_name.clone(),
                    (false, _) => identity.provider.clone(),
                };
                let section = config.providers.get(&identity.provider);
                let priced = provider.is_free()
                    || section.is_some_and(|it| it.price_in.is_some() || it.price_out.is_some());
                let record = pack.record();
                contenders.push(Contender {
                    name,
                    flow_id: record.flow_id.clone(),
                    variant: record.variant.clone(),
                    pack_hash: pack.pack_hash().to_string(),
                    provider: identity.provider.clone(),
                    model: identity.model_name.clone(),
                    sums: RunSums::default(),
                });
                let options = run_options(config, record, &self.params, self.allow_python)?;
                let flow = Arc::clone(&flow);
                runnable.push(RunnablePack { flow, providers: allowed, provider, options, priced });
            }
        }
        let told = "name at least two: --providers a,b, or --packs with another version";
        let mut seen = std::collections::BTreeSet::new();
        if let Some(twice) = contenders.iter().find(|one| !seen.insert(one.name.as_str())) {
            let what = format!("{} is named twice", twice.name);
            return Err(Failure::new(Exit::Usage, what).hint(told));
        }
        match contenders.len() {
            0 | 1 => Err(Failure::new(Exit::Usage, "there is only one candidate").hint(told)),
            many if many > CONTENDERS_MAX => {
                let what = format!("{many} candidates are too many for one page");
                Err(Failure::new(Exit::Usage, what)
                    .hint(format!("compare at most {CONTENDERS_MAX} at a time")))
            }
            _ => Ok((contenders, runnable)),
        }
    }

    /// The inputs in the order of their names, and the files that cannot be inputs, each with the reason.
    fn read(
        &self,
        context: &Context,
        config: &Config,
        packs: &[RunnablePack],
    ) -> Result<(Vec<FlowInput>, Vec<String>), Failure> {
        let disk = &*context.machine.disk;
        let home = Home::new(&context.home, config);
        let collected = collect(disk, &home, &self.inputs).map_err(|error| {
            Failure::new(Exit::Input, format!("cannot read {}", self.named())).because(&error)
        })?;
        let named = |name: &str, why: &str| format!("{name}: {why}");
        let mut skipped: Vec<String> =
            collected.skipped.iter().map(|one| named(&one.name, &one.told())).collect();
        let readers = Readers { pdf: config.extract_pdf.clone() };
        let clock = Clock { zone: config.timezone, now: context.machine.clock.now() };
        let mut inputs = Vec::new();
        for file in &collected.files {
            let place = file_places(context, &file.path);
            if let Some(members) = self.flow_inputs(context, packs, &file.path) {
                let private = publish::said_within(&Value::Object(members.clone())) == Some(false);
                let mut data = GivenData { places: place, local_only: false };
                data.add_inputs(&members);
                inputs.push(FlowInput {
                    name: file.name.clone(),
                    private,
                    inputs: members,
                    texts: Vec::new(),
                    context: InputContext::default(),
                    data: data.said(config),
                });
                continue;
            }
            let read = each_unit(disk, &readers, file, clock, &mut |unit| match unit {
                Ok(mut unit) => {
                    unit.note_places(&place);
                    inputs.push(FlowInput {
                        name: unit.name,
                        private: unit.publish == Some(false),
                        inputs: Map::new(),
                        texts: unit.texts,
                        context: unit.context,
                        data: said_of(config, &unit.places, unit.local_only),
                    });
                }
                Err(why @ LeftOut::OneCell(_)) => {
                    context.ui.complain(format!("{}: {why}", file.name));
                }
                Err(why) => skipped.push(named(&file.name, &why.to_string())),
            });
            if let Err(error) = read {
                skipped.push(named(&file.name, &error.to_string()));
            }
        }
        Ok((inputs, skipped))
    }

    /// The members of a `.json` object that names an input of the flow.
    fn flow_inputs(
        &self,
        context: &Context,
        packs: &[RunnablePack],
        path: &std::path::Path,
    ) -> Option<Map<String, Value>> {
        if path.extension().is_none_or(|extension| extension != "json") {
            return None;
        }
        let bytes = context.machine.disk.read(path).ok()?;
        let Ok(Value::Object(members)) = serde_json::from_slice(&bytes) else { return None };
        let declared = packs[0].flow.facts().inputs();
        let known = |name: &String| declared.iter().any(|input| input.name == *name);
        (!members.is_empty() && members.keys().all(known)).then_some(members)
    }

    fn run_all(
        &self,
        context: &Context,
        config: &Config,
        packs: &[RunnablePack],
        inputs: Vec<FlowInput>,
        stop: &crate::service::StopSignal,
    ) -> Vec<ComparedInput> {
        let bar = context.ui.progress("comparing", (inputs.len() * packs.len()) as u64);
        let next = AtomicUsize::new(0);
        let slots: Vec<Mutex<Option<ComparedInput>>> =
            inputs.iter().map(|_| Mutex::new(None)).collect();
        let day = context.machine.clock.now().day_in(config.timezone).to_string();
        std::thread::scope(|scope| {
            for _ in 0..self.at_once.clamp(1, inputs.len()) {
                scope.spawn(|| {
                    while !stop.is_raised() {
                        let index = next.fetch_add(1, Ordering::Relaxed);
                        let Some(input) = inputs.get(index) else { return };
                        let around = Surroundings {
                            input: input.context.clone(),
                            day: Some(day.clone()),
                            zone: Some(config.timezone),
                            profile: config.profile.clone(),
                            private: input.private,
                            condensed: false,
                        };
                        let run = |pack| {
                            let ran = self.run_one(pack, input, &around);
                            bar.inc(1);
                            ran
                        };
                        let runs: Vec<InputRun> = packs.iter().map(run).collect();
                        *slots[index].lock() = Some(compared(input, runs));
                    }
                });
            }
        });
        bar.finish_and_clear();
        slots.into_iter().filter_map(Mutex::into_inner).collect()
    }

    fn run_one(&self, one: &RunnablePack, input: &FlowInput, around: &Surroundings) -> InputRun {
        let meter = CostMeter::default();
        let options = RunOptions {
            bill: Some(&meter),
            python: one.options.python.clone().map(|it| for_data(by_person(it), &input.data)),
            ..one.options.around(around)
        };
        let provider = match one.about(&input.data) {
            Ok(provider) => provider,
            Err(error) => return failed(&kept_here(&error)),
        };
        let begun = Instant::now();
        let ran = one.flow.run(input.inputs.clone(), &input.texts, &*provider, &options, &|| true);
        let seconds = (!self.without_times).then(|| begun.elapsed().as_secs_f64());
        let cost = one.priced.then(|| *meter.0.lock());
        let run = match ran {
            Ok(outcome) => {
                answered(one.flow.facts(), outcome, &given(input, around, &options.params))
            }
            Err(error) => failed(&error),
        };
        InputRun { seconds, cost, ..run }
    }

    fn report(&self, context: &Context, comparison: &FlowComparison) {
        if context.ui.json {
            let mut shown = json!(comparison);
            shown["page"] = json!(self.out);
            context.ui.json(&shown);
            return;
        }
        let header =
            ["candidate", "answered", "failed", "not in the text", "time", "tokens in/out", "cost"];
        let rows: Vec<Vec<String>> = comparison
            .contenders
            .iter()
            .map(|one| {
                vec![
                    one.name.clone(),
                    one.sums.answered.to_string(),
                    one.sums.failed.to_string(),
                    one.sums.absent_words(),
                    one.sums.time_words(),
                    format!("{}/{}", one.sums.input_tokens, one.sums.output_tokens),
                    one.sums.cost_words(),
                ]
            })
            .collect();
        context.ui.table(&header, &rows);
        if !comparison.members.is_empty() {
            context.ui.out("");
            let percent = |share: f64| format!("{:.0} %", share * 100.0);
            let rows: Vec<Vec<String>> = comparison
                .members
                .iter()
                .map(|member| vec![member.name.clone(), percent(member.agreement)])
                .collect();
            context.ui.table(&["member", "agreement"], &rows);
        }
        for one in &comparison.skipped {
            context.ui.talk(format!("not read: {one}"));
        }
        context.ui.talk(format!("the page: {}", self.out.display()));
    }
}

/// `ID@VARIANT`, unless it is a folder.
fn split_variant(word: &str) -> (&str, Option<&str>) {
    match word.split_once('@') {
        Some((flow_id, variant)) if !std::path::Path::new(word).is_dir() => {
            (flow_id, Some(variant))
        }
        _ => (word, None),
    }
}

/// Everything that the flow was told about an input.
fn given(input: &FlowInput, around: &Surroundings, params: &Map<String, Value>) -> GivenText {
    let mut told = vec![json!(params), json!(around.profile), json!(input.inputs)];
    told.extend(input.context.sources.iter().map(|source| {
        let people = source.author.iter().chain(&source.to).chain(&source.cc);
        json!([
            source.id,
            source.title,
            source.ts,
            source.day,
            source.role,
            source.origin.shown(),
            people.map(|person| person.shown()).collect::<Vec<_>>(),
            source.labels.tags,
            source.labels.project,
            source.meta,
        ])
    }));
    told.push(json!(input.context.whole.as_ref().map(|whole| json!([whole.id, whole.title]))));
    let mut strings = vec![input.name.as_str()];
    strings.extend(around.day.as_deref());
    strings.extend(around.zone.map(|zone| zone.name()));
    strings.extend(input.texts.iter().map(|text| text.text.as_str()));
    for value in &told {
        gather(value, &mut strings);
    }
    GivenText::of(strings)
}

fn gather<'v>(value: &'v Value, strings: &mut Vec<&'v str>) {
    match value {
        Value::String(text) => strings.push(text),
        Value::Array(list) => list.iter().for_each(|one| gather(one, strings)),
        Value::Object(map) => map.values().for_each(|one| gather(one, strings)),
        _ => {}
    }
}

fn answered(pack: &PackFacts, outcome: FlowOutcome, given: &GivenText) -> InputRun {
    let output = match outcome.structured {
        Value::Null => Value::String(outcome.summary.summary_text),
        structured => structured,
    };
    let lookup = given.look_up(pack.output_schema(), &output);
    InputRun {
        input_tokens: outcome.usage.input_tokens,
        output_tokens: outcome.usage.output_tokens,
        output: Some(output),
        values: lookup.values,
        not_in_text: lookup.not_in_text,
        removed_ids: outcome.quality.removed_ids_count,
        removed_quotes: outcome.quality.removed_quotes_count,
        repaired: outcome.quality.repaired,
        warnings: outcome.warnings,
        ..InputRun::default()
    }
}

fn failed(error: &FlowError) -> InputRun {
    let reason_code = error.reason_code().to_owned();
    InputRun {
        input_tokens: error.usage.input_tokens,
        output_tokens: error.usage.output_tokens,
        failure: Some(FailedRun { reason_code, words: error.to_string() }),
        ..InputRun::default()
    }
}

fn compared(input: &FlowInput, runs: Vec<InputRun>) -> ComparedInput {
    let mut text = match input.texts.is_empty() {
        true => serde_json::to_string_pretty(&input.inputs).unwrap_or_default(),
        false => {
            let texts: Vec<&str> = input.texts.iter().map(|text| text.text.as_str()).collect();
            texts.join("\n\n")
        }
    };
    let end = text.char_indices().nth(SHOWN_CHARS_MAX).map(|(at, _)| at);
    text.truncate(end.unwrap_or(text.len()));
    let mut members: Vec<InputMember> = Vec::new();
    for name in runs.iter().flat_map(member_names) {
        if !members.iter().any(|member| member.name == name) {
            let pairs = pairs(runs.len());
            let shares: Vec<f64> = pairs
                .filter_map(|(a, b)| {
                    Some(agreement(member(&runs[a], &name)?, member(&runs[b], &name)?))
                })
                .collect();
            let agreement = mean(&shares);
            members.push(InputMember { name, agreement });
        }
    }
    ComparedInput {
        name: input.name.clone(),
        private: input.private,
        text,
        cut: end.is_some(),
        members,
        runs,
    }
}

fn member_names(run: &InputRun) -> Vec<String> {
    match &run.output {
        Some(Value::Object(members)) => members.keys().cloned().collect(),
        Some(_) => vec![WHOLE.to_owned()],
        None => Vec::new(),
    }
}

/// A member of a run that gave an answer; null where the answer lacks it.
fn member<'r>(run: &'r InputRun, name: &str) -> Option<&'r Value> {
    match run.output.as_ref()? {
        Value::Object(members) => Some(members.get(name).unwrap_or(&Value::Null)),
        other => Some(other),
    }
}

fn pairs(many: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..many).flat_map(move |a| (a + 1..many).map(move |b| (a, b)))
}

fn mean(shares: &[f64]) -> Option<f64> {
    (!shares.is_empty()).then(|| shares.iter().sum::<f64>() / shares.len() as f64)
}

/// Adds everything up.
fn summed(
    flow_id: String,
    mut contenders: Vec<Contender>,
    inputs: Vec<ComparedInput>,
    skipped: Vec<String>,
) -> FlowComparison {
    for (index, contender) in contenders.iter_mut().enumerate() {
        let runs: Vec<&InputRun> = inputs.iter().map(|input| &input.runs[index]).collect();
        contender.sums = RunSums::of(&runs);
    }
    let mut members: Vec<(String, Vec<f64>)> = Vec::new();
    for member in inputs.iter().flat_map(|input| &input.members) {
        let Some(share) = member.agreement else { continue };
        match members.iter_mut().find(|(name, _)| *name == member.name) {
            Some((_, shares)) => shares.push(share),
            None => members.push((member.name.clone(), vec![share])),
        }
    }
    let of_pair = |(first, second): (usize, usize)| {
        let shares: Vec<f64> = inputs
            .iter()
            .flat_map(|input| input.members.iter().map(move |member| (input, member)))
            .filter_map(|(input, one)| {
                let (a, b) = (&input.runs[first], &input.runs[second]);
                Some(agreement(member(a, &one.name)?, member(b, &one.name)?))
            })
            .collect();
        mean(&shares).map(|agreement| PairAgreement { first, second, agreement })
    };
    let members = members
        .into_iter()
        .filter_map(|(name, shares)| {
            mean(&shares).map(|agreement| MemberAgreement { name, agreement })
        })
        .collect();
    let pairs = pairs(contenders.len()).filter_map(of_pair).collect();
    FlowComparison { flow_id, contenders, members, pairs, inputs, skipped }
}

impl RunSums {
    fn of(runs: &[&InputRun]) -> RunSums {
        let mut seconds: Vec<f64> = runs.iter().filter_map(|run| run.seconds).collect();
        seconds.sort_by(f64::total_cmp);
        let costs: Option<Vec<f64>> = runs.iter().map(|run| run.cost).collect();
        RunSums {
            answered: runs.iter().filter(|run| run.output.is_some()).count(),
            failed: runs.iter().filter(|run| run.failure.is_some()).count(),
            values: runs.iter().map(|run| run.values).sum(),
            not_in_text: runs.iter().map(|run| run.not_in_text.len()).sum(),
            removed_ids: runs.iter().map(|run| run.removed_ids).sum(),
            removed_quotes: runs.iter().map(|run| run.removed_quotes).sum(),
            repaired: runs.iter().filter(|run| run.repaired).count(),
            seconds: (!seconds.is_empty()).then(|| seconds.iter().sum()),
            seconds_median: seconds.get(seconds.len() / 2).copied(),
            input_tokens: runs.iter().map(|run| run.input_tokens).sum(),
            output_tokens: runs.iter().map(|run| run.output_tokens).sum(),
            cost: costs.map(|costs| costs.iter().sum()),
        }
    }

    fn absent_words(&self) -> String {
        format!("{} of {}", self.not_in_text, count(self.values, "value"))
    }

    fn time_words(&self) -> String {
        match (self.seconds, self.seconds_median) {
            (Some(all), Some(median)) => format!("{all:.2} s, median {median:.2} s"),
            _ => "not shown".to_owned(),
        }
    }

    fn cost_words(&self) -> String {
        self.cost.map_or_else(|| "no price set".to_owned(), |cost| format!("{cost:.4}"))
    }
}

impl InputRun {
    /// Time, tokens, cost and what was corrected, in words.
    fn measures(&self) -> String {
        let mut parts = Vec::new();
        parts.extend(self.seconds.map(|seconds| format!("{seconds:.2} s")));
        parts.push(format!("{} tokens in, {} out", self.input_tokens, self.output_tokens));
        parts.extend(self.cost.filter(|cost| *cost > 0.0).map(|cost| format!("cost {cost:.4}")));
        if self.repaired {
            parts.push("the answer was corrected".to_owned());
        }
        if self.removed_ids > 0 {
            parts.push(format!("{} removed", count(self.removed_ids, "unknown id")));
        }
        if self.removed_quotes > 0 {
            parts.push(format!("{} removed", count(self.removed_quotes, "invented quote")));
        }
        parts.extend(self.warnings.iter().cloned());
        parts.join(" · ")
    }
}
