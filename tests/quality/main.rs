//! Quality of what the packs make with the embedded provider, against labels written by reading.
//!
//! `seen/` is read while rules are written. `hidden/` is scored only: nothing of its outputs is printed
//! unless `QUALITY_SHOW=hidden` asks for it. `cargo test --test quality -- --nocapture` prints the table;
//! `QUALITY_PAGE=FILE` writes a page with texts, outputs and labels side by side; `QUALITY_SHOW=seen`
//! prints the fields that differ from their labels, `QUALITY_PACK=event` only those of one pack.
//! `QUALITY_WORST=seen` prints the ten worst outputs in full, and `QUALITY_HALF=seen` scores one half only.
//!
//! A field scores 0 to 1 (see `score`), an input the mean of its fields, a pack the mean of its inputs.
//! A wrong value costs as much as a missing one, and a value where the label is null is an invention.
//!
//! See docs/adr/0089-judging-what-packs-say.md.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail like tests")]
#![allow(clippy::print_stdout, reason = "the table is what the bench is for")]

mod baselines;
mod corpus;
mod page;
mod readable;
mod score;

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use summarizer::flow::{self, LoadedPack, RunOptions};
use summarizer::model::builtin::Builtin;
use summarizer::os::Machine;
use summarizer::registry::Registry;

use corpus::{Half, Sample};
use score::{Field, Judgement};

/// What each half must reach. Raised when the figures rise, never lowered to pass.
const FLOORS: [(Half, Floors); 2] = [
    (Half::Seen, Floors { mean: 0.91, pack: 0.80, inventions: 0.05, broken: 0.01 }),
    (Half::Hidden, Floors { mean: 0.85, pack: 0.70, inventions: 0.09, broken: 0.01 }),
];

struct Floors {
    /// Mean score of the packs, at least.
    mean: f64,
    /// Score of the lowest pack, at least.
    pack: f64,
    /// Share of values that the text does not give, at most.
    inventions: f64,
    /// Share of sentences that are cut, dangling or boilerplate, at most.
    broken: f64,
}

/// The short names that labels use, and the flows they stand for.
const PACKS: [(&str, &str); 21] = [
    ("brief", "docs.chunk_set.summarize.brief.v1"),
    ("business", "gpt.log.annotate.business_meta.v1"),
    ("card", "news.seed.expand.seed_card.v1"),
    ("clusters", "news.articles.parse_and_cluster.topic_clusters.v1"),
    ("crm", "crm.contacts.plan.next_actions.v1"),
    ("event", "email.triage.extract_event.calendar_event.v1"),
    ("gate", "email.gatekeeper.classify.gatekeeper_item.v1"),
    ("job1", "jobs.posting.screen.job_screening.v1"),
    ("job2", "jobs.posting.screen.job_screening.v2"),
    ("latex", "latex.section.convert.docusaurus_md.v1"),
    ("note", "gpt.log.annotate.obsidian_note_meta.v1"),
    ("opp", "opportunities.digest.rank_and_route.v1"),
    ("outline", "writing.outline.generate.v1"),
    ("page", "docs.page.generate.docusaurus_md.v1"),
    ("run", "ops.run.summarize.pipeline_run.v1"),
    ("seeds", "news.agenda.generate.seed_ideas.v1"),
    ("session", "gpt.session.summarize.parsed_message.v3"),
    ("task", "email.triage.extract_task.task_item.v1"),
    ("views", "research.router.plan.perspectives.v1"),
    ("web", "web.page.categorize.webpage_categorization.v1"),
    ("weekly", "digest.weekly.summarize.weekly_digest.v1"),
];

/// One pack's answer to one input, judged.
pub(crate) struct Judged<'s> {
    pub(crate) sample: &'s Sample,
    pub(crate) pack: &'static str,
    pub(crate) gold: &'s Map<String, Value>,
    pub(crate) output: Value,
    pub(crate) fields: Vec<Field>,
    /// Sentences shown, and those of them that are no sentences.
    pub(crate) sentences: usize,
    pub(crate) broken: Vec<String>,
}

impl Judged<'_> {
    pub(crate) fn score(&self) -> f64 {
        let sum: f64 = self.fields.iter().map(|field| field.score).sum();
        sum / (self.fields.len().max(1) as f64)
    }
}

struct Pack {
    name: &'static str,
    main: String,
    inputs: Vec<String>,
    properties: Map<String, Value>,
    loaded: LoadedPack,
}

fn packs() -> Vec<Pack> {
    let registry = Registry::embedded().expect("the embedded dataset reads");
    let machine = Machine::real();
    let records = registry.records();
    let load = |(name, flow): &(&'static str, &str)| {
        let record = records
            .iter()
            .find(|record| record.flow_id == *flow && record.variant.is_none())
            .unwrap_or_else(|| panic!("{flow} is registered"));
        let files = registry.files(machine.disk.as_ref(), record).expect("the pack reads");
        let schema = files.get("output.schema.json").expect("a plain path");
        let schema: Value =
            schema.map_or(Value::Null, |bytes| serde_json::from_slice(bytes).unwrap());
        let main = record.io_contract.inputs.iter().find(|input| input.main).expect("a main input");
        Pack {
            name,
            main: main.name.clone(),
            inputs: record.io_contract.inputs.iter().map(|input| input.name.clone()).collect(),
            properties: schema["properties"].as_object().cloned().unwrap_or_default(),
            loaded: LoadedPack::load(record, &files).expect("the pack loads"),
        }
    };
    PACKS.iter().map(load).collect()
}

fn inputs_of(pack: &Pack, sample: &Sample) -> Map<String, Value> {
    let mut inputs = Map::new();
    for (name, value) in &sample.inputs {
        if pack.inputs.contains(name) {
            inputs.insert(name.clone(), value.clone());
        }
    }
    let json: Option<Value> = serde_json::from_str(&sample.text).ok();
    let main = json.filter(|value| value.is_array() || value.is_object());
    let text = main.unwrap_or_else(|| Value::String(sample.text.clone()));
    inputs.insert(pack.main.clone(), text);
    inputs
}

/// The packs whose labels stand under a name: the job labels serve both versions.
fn stands_for(label: &str, pack: &str) -> bool {
    label == pack || (label == "job" && pack.starts_with("job"))
}

fn judge_all<'s>(packs: &[Pack], samples: &'s [Sample]) -> Vec<Judged<'s>> {
    let mut judged = Vec::new();
    for sample in samples {
        for (label, gold) in &sample.gold {
            let meant = packs.iter().filter(|pack| stands_for(label, pack.name));
            let mut found = 0;
            for pack in meant {
                found += 1;
                let inputs = inputs_of(pack, sample);
                let outcome =
                    flow::run(&pack.loaded, inputs, &[], &Builtin, &RunOptions::default())
                        .unwrap_or_else(|error| panic!("{}: {error:?}", sample.id));
                let output = outcome.structured;
                // Version 1 of a pack has fewer members than its labels.
                let known = |name: &&String| {
                    label != "job" || pack.properties.contains_key(name.split('/').next().unwrap())
                };
                let fields: Vec<Field> = gold
                    .iter()
                    .filter(|(name, _)| known(name))
                    .flat_map(|(name, wanted)| score::field(name, wanted, &output))
                    .collect();
                let (sentences, broken) = readable::judge(&sample.text, &output);
                judged.push(Judged {
                    sample,
                    pack: pack.name,
                    gold,
                    output,
                    fields,
                    sentences,
                    broken,
                });
            }
            assert!(found > 0, "{}: no pack is called {label}", sample.id);
        }
    }
    judged
}

struct Row {
    inputs: usize,
    score: f64,
    values: usize,
    inventions: usize,
    sentences: usize,
    broken: usize,
}

fn rows(judged: &[Judged<'_>]) -> BTreeMap<&'static str, Row> {
    let mut rows = BTreeMap::new();
    for (pack, _) in PACKS {
        let of: Vec<&Judged<'_>> = judged.iter().filter(|one| one.pack == pack).collect();
        if of.is_empty() {
            continue;
        }
        let fields = || of.iter().flat_map(|one| &one.fields);
        let row = Row {
            inputs: of.len(),
            score: of.iter().map(|one| one.score()).sum::<f64>() / of.len() as f64,
            values: fields().filter(|field| field.judgement != Judgement::Silent).count(),
            inventions: fields().filter(|field| field.judgement == Judgement::Invented).count(),
            sentences: of.iter().map(|one| one.sentences).sum(),
            broken: of.iter().map(|one| one.broken.len()).sum(),
        };
        rows.insert(pack, row);
    }
    rows
}

fn share(part: usize, whole: usize) -> f64 {
    part as f64 / whole.max(1) as f64
}

fn print_table(half: Half, rows: &BTreeMap<&'static str, Row>, coverage: &baselines::Coverage) {
    println!("\n{half:?}: pack, inputs, score, inventions, broken sentences");
    for (pack, row) in rows {
        println!(
            "| {pack} | {} | {:.2} | {:.1} % of {} | {:.1} % of {} |",
            row.inputs,
            row.score,
            100.0 * share(row.inventions, row.values),
            row.values,
            100.0 * share(row.broken, row.sentences),
            row.sentences,
        );
    }
    let total = |of: fn(&Row) -> usize| rows.values().map(of).sum::<usize>();
    println!(
        "| mean | {} | {:.3} | {:.1} % of {} | {:.2} % of {} |",
        total(|row| row.inputs),
        mean(rows),
        100.0 * share(total(|row| row.inventions), total(|row| row.values)),
        total(|row| row.values),
        100.0 * share(total(|row| row.broken), total(|row| row.sentences)),
        total(|row| row.sentences),
    );
    println!(
        "key facts of {} texts at the length of the brief: brief {:.3}, first sentences {:.3}, TextRank {:.3}, LexRank {:.3}",
        coverage.texts, coverage.brief, coverage.lead, coverage.text_rank, coverage.lex_rank
    );
}

fn mean(rows: &BTreeMap<&'static str, Row>) -> f64 {
    rows.values().map(|row| row.score).sum::<f64>() / rows.len().max(1) as f64
}

fn show(judged: &[Judged<'_>]) {
    let only = std::env::var("QUALITY_PACK").ok();
    for one in judged.iter().filter(|one| only.as_ref().is_none_or(|only| only == one.pack)) {
        let wrong = one.fields.iter().filter(|field| field.score < 0.99);
        for field in wrong {
            println!(
                "{} {} {:.2} {:?} /{}: {} wanted {}",
                one.pack,
                one.sample.id,
                field.score,
                field.judgement,
                field.name,
                field.found,
                field.wanted
            );
        }
        for sentence in &one.broken {
            println!("{} {} broken: {sentence}", one.pack, one.sample.id);
        }
    }
}

/// Outputs that are printed in full.
const WORST: usize = 10;

/// The worst outputs of a half: the text, what was made of it, and what its labels say.
fn show_worst(judged: &[Judged<'_>]) {
    for (place, one) in worst(judged).into_iter().take(WORST).enumerate() {
        println!("\n{}. {} {}, score {:.2}", place + 1, one.pack, one.sample.id, one.score());
        println!("--- text\n{}", one.sample.text);
        println!("--- output\n{}", serde_json::to_string_pretty(&one.output).unwrap());
        println!("--- labels that it misses");
        for field in one.fields.iter().filter(|field| field.score < 0.99) {
            println!("{:.2} /{}: {} wanted {}", field.score, field.name, field.found, field.wanted);
        }
    }
}

/// All outputs, the worst first.
pub(crate) fn worst<'j, 's>(judged: &'j [Judged<'s>]) -> Vec<&'j Judged<'s>> {
    let mut order: Vec<&Judged<'_>> = judged.iter().collect();
    order.sort_by(|a, b| a.score().total_cmp(&b.score()));
    order
}

#[test]
fn the_packs_reach_their_floors_on_both_halves() {
    let packs = packs();
    let mut page = String::new();
    let asks =
        |name: &str, half: Half| std::env::var(name).is_ok_and(|asked| asked == half.folder());
    let only = std::env::var_os("QUALITY_HALF").is_some();
    for (half, floors) in FLOORS.iter().filter(|(half, _)| !only || asks("QUALITY_HALF", *half)) {
        let samples = corpus::read(*half);
        let judged = judge_all(&packs, &samples);
        let rows = rows(&judged);
        let coverage = baselines::coverage(&judged);
        print_table(*half, &rows, &coverage);
        if asks("QUALITY_SHOW", *half) {
            show(&judged);
        }
        if asks("QUALITY_WORST", *half) {
            show_worst(&judged);
        }
        page::append(&mut page, *half, &judged);
        let low: Vec<&&str> =
            rows.iter().filter(|(_, row)| row.score < floors.pack).map(|(pack, _)| pack).collect();
        assert!(low.is_empty(), "{half:?}: {low:?} are below {}", floors.pack);
        assert!(mean(&rows) >= floors.mean, "{half:?}: the mean is below {}", floors.mean);
        let total = |of: fn(&Row) -> usize| rows.values().map(of).sum::<usize>();
        let inventions = share(total(|row| row.inventions), total(|row| row.values));
        assert!(inventions <= floors.inventions, "{half:?}: {inventions:.3} are invented");
        let broken = share(total(|row| row.broken), total(|row| row.sentences));
        assert!(broken <= floors.broken, "{half:?}: {broken:.4} of the sentences are broken");
    }
    if let Some(path) = std::env::var_os("QUALITY_PAGE") {
        #[allow(clippy::disallowed_methods, reason = "a page for the person who asked for it")]
        std::fs::write(path, page::whole(&page)).expect("write the page");
    }
}
