//! Every hash on the way from a summary back to the queue and to upstream, computed again.
//!
//! Contract: one link for each thing that could have changed, in the order in which a reader would
//! follow them, each with what is wrong. A link that cannot be looked at is `unknown`, never
//! `holds`.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde_json::{Map, Value};

use super::story::Story;
use super::texts::Texts;
use super::{Around, Published, SourceLine};
use crate::compaction::evidence::{Span, SpanUnit, evidence_id};
use crate::config::Profile;
use crate::contract::hash::{Digest, Hasher, sha256};
use crate::contract::ids::Seq;
use crate::contract::privacy::Confinement;
use crate::contract::request::Request;
use crate::contract::source::InputContext;
use crate::contract::vocabulary::FailureCause;
use crate::export::item::{
    ContextIdentity, SummaryIdentity, quote_of, summary_id, without_repetition,
};
use crate::facts::attempt::{SelectionInput, UpstreamInput};
use crate::flow::context::Surroundings;
use crate::flow::{self, FILLED_BY_RULE, FlowOutcome, ReplyCache, RunOptions};
use crate::model::builtin::Builtin;
use crate::model::{
    BUILTIN, ModelCall, ModelError, ModelIdentity, ModelReply, Provider, Providers,
};
use crate::registry::Registry;
use crate::seam::position::open_queue;
use crate::upkeep::forget::last_asked;
use crate::upstream::context::context_of;
use crate::upstream::lines::read_range;
use crate::upstream::recompute;
use crate::upstream::selection::Roots;
use crate::upstream::text::source_text_hash;
use crate::upstream::{self, InputSpec, Upstream};
use crate::work::isolation::alone::FlowAlone;
use crate::work::params::with_request;

/// Bytes in one step of hashing.
const CHUNK_BYTES: usize = 1 << 20;
/// Problems of one kind that are spelled out.
const LISTED_MAX: usize = 5;

/// How a link stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LinkStatus {
    /// It was computed again and is the same.
    Holds,
    /// It is another now.
    Broken,
    /// It could not be computed.
    Unknown,
}

/// One link of the chain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Link {
    /// Its name, such as `upstream.data`.
    pub link: &'static str,
    pub standing: LinkStatus,
    /// What was compared, or what is wrong.
    pub what: String,
}

/// What the flow gives when it is run again on the same texts, or why it cannot be.
pub(crate) type RerunResult = Result<FlowOutcome, String>;

struct Chain(Vec<Link>);

impl Chain {
    fn put(&mut self, link: &'static str, standing: LinkStatus, what: impl Into<String>) {
        self.0.push(Link { link, standing, what: what.into() });
    }

    /// Holds with what was compared, or is broken with everything that is wrong.
    fn all(&mut self, link: &'static str, compared: String, wrong: &[String]) {
        match wrong {
            [] => self.put(link, LinkStatus::Holds, compared),
            wrong => {
                let mut what = wrong[..wrong.len().min(LISTED_MAX)].join("; ");
                if wrong.len() > LISTED_MAX {
                    what.push_str(&format!("; and {} more", wrong.len() - LISTED_MAX));
                }
                self.put(link, LinkStatus::Broken, what);
            }
        }
    }

    fn same(&mut self, link: &'static str, what: &str, recorded: &str, now: &str) {
        match recorded == now {
            true => self.put(link, LinkStatus::Holds, format!("{what} is {now}")),
            false => {
                let text = format!("{what} is {now} and was recorded as {recorded}");
                self.put(link, LinkStatus::Broken, text);
            }
        }
    }
}

/// Every link of a summary.
pub(crate) fn links(
    around: &Around,
    upstream: &Upstream,
    story: &Story,
    texts: &Texts,
    published: &Published,
    again: &RerunResult,
) -> Vec<Link> {
    let mut chain = Chain(Vec::new());
    publication(&mut chain, around, story, published);
    log_records(&mut chain, around, story);
    queue_line(&mut chain, around, story);
    identity(&mut chain, story);
    files(&mut chain, around, upstream, story);
    let elsewhere = sources_elsewhere(around, upstream, texts);
    source_texts(&mut chain, story, texts, &elsewhere);
    quotes(&mut chain, story, texts, &elsewhere);
    pack(&mut chain, around, story);
    outcome(&mut chain, story, again);
    chain.0
}

fn publication(chain: &mut Chain, around: &Around, story: &Story, published: &Published) {
    match (&published.bytes, &published.problem) {
        (Some(line), _) if *line == story.body => {
            let what = format!("{}:{} is the item of the log", published.path, line_of(published));
            chain.put("published.line", LinkStatus::Holds, what);
        }
        (Some(_), _) => {
            let what = format!("{}:{} is not the item", published.path, line_of(published));
            chain.put("published.line", LinkStatus::Broken, what);
        }
        (None, problem) => {
            let what = problem.clone().unwrap_or_default();
            chain.put("published.line", LinkStatus::Broken, what);
        }
    }
    let path = around.home.buses.join(&published.manifest_path);
    let manifest: Option<Value> =
        around.machine.disk.read(&path).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
    match (manifest, &published.data_sha256) {
        (Some(manifest), Some(now)) => {
            let declared = manifest["integrity"]["sha256"].as_str().unwrap_or_default();
            chain.same("published.manifest", &published.path, declared, now);
        }
        _ => {
            let what = format!("{} cannot be compared with its data", published.manifest_path);
            chain.put("published.manifest", LinkStatus::Broken, what);
        }
    }
}

fn line_of(published: &Published) -> u64 {
    published.line.unwrap_or(0)
}

fn log_records(chain: &mut Chain, around: &Around, story: &Story) {
    let last = story.produced_at.seq;
    match around.log.verify(story.request, Some(last), &mut |_| {}) {
        Ok(report) => {
            let what = format!(
                "{} records and {} bodies from {} to {last} follow from each other",
                report.records, report.bodies, story.request
            );
            chain.put("log.chain", LinkStatus::Holds, what);
        }
        Err(error) => {
            let mut what = error.to_string();
            if let Some(source) = std::error::Error::source(&error) {
                what.push_str(&format!(": {source}"));
            }
            chain.put("log.chain", LinkStatus::Broken, what);
        }
    }
    let now = sha256(&story.body).hex();
    chain.same("log.item", "the item", &story.body_sha256.hex(), &now);
    let (mut wrong, mut dropped) = (Vec::new(), 0);
    for answer in &story.answers {
        match around.log.body(crate::contract::ids::Seq(answer.seq)) {
            Ok(Some(body)) if sha256(&body).hex() == answer.body_sha256 => {}
            Ok(Some(_)) => wrong.push(format!("the answer of event {} is another", answer.seq)),
            Ok(None) => match around.log.body_is_dropped(crate::contract::ids::Seq(answer.seq)) {
                Ok(true) => dropped += 1,
                _ => wrong.push(format!("the answer of event {} is gone", answer.seq)),
            },
            Err(error) => wrong.push(format!("the answer of event {}: {error}", answer.seq)),
        }
    }
    if dropped > 0 && wrong.is_empty() {
        let what = format!("{dropped} answers went by their age, as the settings say");
        chain.put("log.answers", LinkStatus::Unknown, what);
    } else if !story.answers.is_empty() {
        chain.all(
            "log.answers",
            format!("{} answers are as recorded", story.answers.len()),
            &wrong,
        );
    }
}

fn queue_line(chain: &mut Chain, around: &Around, story: &Story) {
    let (taken, path) = (&story.taken, &around.home.queue);
    let shown = path.strip_prefix(&around.home.root).unwrap_or(path).display();
    let place = format!("{shown} line {} at byte {}", taken.head.line, taken.head.offset);
    let read = open_queue(around.machine.disk.as_ref(), path)
        .and_then(|file| read_range(file.as_ref(), taken.head.offset, taken.line.len()));
    // The log does not say in which queue a line stands.
    let is_shared = around.config.cluster.is_some();
    match read {
        Ok(bytes) if *bytes == *taken.line => {
            chain.put("queue.line", LinkStatus::Holds, format!("{place} is the request"));
        }
        _ if is_shared => {
            let what =
                format!("{place} is not the request: it may stand in the queue of another host");
            chain.put("queue.line", LinkStatus::Unknown, what);
        }
        Ok(_) => {
            chain.put("queue.line", LinkStatus::Broken, format!("{place} is not the request"));
        }
        Err(error) => chain.put("queue.line", LinkStatus::Broken, format!("{place}: {error}")),
    }
}

/// The key and the id of the summary follow from what they are made of.
fn identity(chain: &mut Chain, story: &Story) {
    let request = match Request::parse_stored(&story.taken.line) {
        Ok(request) => request,
        Err(refusal) => {
            let what = format!("the stored request cannot be read: {}", refusal.reason);
            chain.put("request.key", LinkStatus::Broken, what);
            return;
        }
    };
    let recorded = &story.taken.head.key;
    let key = match request.had_key(&story.taken.line, recorded) {
        true => recorded.clone(),
        false => request.effective_key().text,
    };
    chain.same("request.key", "the effective key", recorded, &key);
    let item = &story.item;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let Ok(hash) = text(&item["selection"]["source_text_hash"]).parse::<Digest>() else {
        chain.put("summary.id", LinkStatus::Broken, "the item names no source_text_hash");
        return;
    };
    let listed = match item["selection"]["session_ids"].as_array() {
        Some(sessions) if item["source_type"] == "session" => sessions,
        _ => item["source_ids"].as_array().unwrap_or(const { &Vec::new() }),
    };
    let primary: Vec<String> = listed.iter().map(text).collect();
    let id = summary_id(&SummaryIdentity {
        stream: story.summary.stream,
        kind: request.work.kind,
        subkind: &request.work.subkind,
        primary_ids: &primary,
        source_text_hash: &hash,
        prompt_hash: &text(&item["prompt"]["prompt_hash"]),
        provider: &text(&item["model"]["provider"]),
        model: &text(&item["model"]["model_name"]),
        context: ContextIdentity::of(&item["selection"]),
    });
    chain.same(
        "summary.id",
        "the id of what was summarized and how",
        &story.summary.summary_id,
        &id,
    );
}

/// Every upstream file and manifest that was read.
fn files(chain: &mut Chain, around: &Around, upstream: &Upstream, story: &Story) {
    let inputs = &story.input.inputs;
    let (mut manifests, mut grown, mut wrong_manifests) = (0_usize, 0_usize, Vec::new());
    let (mut wrong_data, mut left, mut lost) = (Vec::new(), 0_usize, 0_usize);
    let mut elsewhere = 0_usize;
    for input in inputs {
        if is_elsewhere(around, upstream, &input.path) {
            elsewhere += 1;
            continue;
        }
        let before = (wrong_manifests.len(), wrong_data.len(), grown);
        if let Some(path) = &input.manifest_path {
            manifests += 1;
            compare(&mut wrong_manifests, upstream, path, input.manifest_sha256, None);
            // A later import appends to the file and writes its manifest again. What was read stands at the
            // beginning of the file, and its hash is compared below.
            if wrong_manifests.len() > before.0 && has_grown(upstream, input) {
                wrong_manifests.truncate(before.0);
                grown += 1;
            }
        }
        // Of a manifested file only the manifest's bytes were read, of a plain one all.
        let bytes = input.data_bytes.filter(|_| input.manifest_path.is_some());
        compare(&mut wrong_data, upstream, &input.path, input.data_sha256, bytes);
        if (wrong_manifests.len(), wrong_data.len()) != (before.0, before.1)
            && let Some(records) = forgotten_in(around, upstream, story, input)
        {
            wrong_manifests.truncate(before.0);
            wrong_data.truncate(before.1);
            (left, lost) = (left + 1, lost + records);
            (manifests, grown) = (manifests - 1, before.2);
        }
    }
    if manifests > 0 {
        let what = match grown {
            0 => format!("{manifests} manifests are as read"),
            grown => format!(
                "{} of {manifests} manifests are as read; the others were written again when their files grew",
                manifests - grown
            ),
        };
        chain.all("upstream.manifest", what, &wrong_manifests);
    }
    let here = inputs.len() - left - elsewhere;
    if elsewhere > 0 {
        let what = format!("{elsewhere} files are not on this host: another host has them");
        chain.put("upstream.data", LinkStatus::Unknown, what);
        if here + left == 0 {
            return;
        }
    }
    let mut what = format!("{here} files are as read");
    if left > 0 {
        what.push_str(&format!(
            "; {left} more are what their manifests say, which name {lost} records that were forgotten by request"
        ));
    }
    chain.all("upstream.data", what, &wrong_data);
    if let Some(SelectionInput { path, sha256, .. }) = &story.input.selection {
        let mut wrong = Vec::new();
        compare(&mut wrong, upstream, path, Some(*sha256), None);
        chain.all("selection.manifest", format!("{path} is as read"), &wrong);
    }
}

/// Whether a file is missing here and may be on another host: hosts share the log, and not what it was made from.
fn is_elsewhere(around: &Around, upstream: &Upstream, path: &str) -> bool {
    let is_missing = || matches!(upstream.disk().stat(&upstream.root().join(path)), Ok(None));
    around.config.cluster.is_some()
        && recompute::summary_line(upstream, path).is_none()
        && is_missing()
}

/// How many records a person took out of a file after it was read; `None` when nothing went, or the file is not
/// what its manifest says. The records of the summary itself are compared elsewhere.
fn forgotten_in(
    around: &Around,
    upstream: &Upstream,
    story: &Story,
    input: &UpstreamInput,
) -> Option<usize> {
    let asked = last_asked(&around.log).ok()?;
    if asked != Seq::ZERO && asked < story.produced_at.seq {
        return None;
    }
    let manifest = upstream.root().join(input.manifest_path.as_ref()?);
    let manifest = upstream.disk().read(&manifest).ok()?;
    let manifest: Value = serde_json::from_slice(&manifest).ok()?;
    let gone = manifest["forgotten"]["ids"].as_array().filter(|gone| !gone.is_empty())?;
    let declared = manifest["integrity"]["sha256"].as_str()?.parse::<Digest>().ok()?;
    let bytes = manifest["integrity"]["bytes"].as_u64()?;
    let is_whole = bytes >= input.data_bytes.unwrap_or(0);
    let now = hash_file(upstream, &input.path, Some(bytes)).ok()?;
    (is_whole && now == declared).then_some(gone.len())
}

/// Whether a file with a manifest is longer than it was when it was read.
fn has_grown(upstream: &Upstream, input: &UpstreamInput) -> bool {
    let now = upstream.disk().stat(&upstream.root().join(&input.path)).ok().flatten();
    input.data_bytes.is_some_and(|read| now.is_some_and(|now| now.len > read))
}

fn compare(
    wrong: &mut Vec<String>,
    upstream: &Upstream,
    path: &str,
    recorded: Option<Digest>,
    bytes: Option<u64>,
) {
    let now = match recompute::summary_line(upstream, path) {
        Some(line) => line.map(sha256).map_err(|defect| defect.to_string()),
        None => hash_file(upstream, path, bytes.filter(|bytes| *bytes > 0))
            .map_err(|error| error.to_string()),
    };
    match now {
        Ok(now) if Some(now) == recorded => {}
        Ok(now) => {
            let recorded = recorded.map_or_else(|| "unknown".to_owned(), |hash| hash.hex());
            wrong.push(format!("{path} has {now} and was read as {recorded}"));
        }
        Err(error) => wrong.push(format!("{path}: {error}")),
    }
}

/// The hash of a file, or of its first bytes: what was appended later was not read.
fn hash_file(upstream: &Upstream, path: &str, bytes: Option<u64>) -> std::io::Result<Digest> {
    let file = upstream.disk().open_beneath(upstream.root(), &upstream.root().join(path))?;
    let mut hasher = Hasher::new();
    let mut buffer = vec![0; CHUNK_BYTES];
    let mut offset = 0;
    let end = bytes.unwrap_or(u64::MAX);
    while offset < end {
        let most = usize::try_from(end - offset).unwrap_or(CHUNK_BYTES).min(CHUNK_BYTES);
        let count = file.read_at(&mut buffer[..most], offset)?;
        if count == 0 {
            break;
        }
        hasher.update(&buffer[..count]);
        offset += count as u64;
    }
    Ok(hasher.finish())
}

/// The ids of sources that are missing here and may be on another host.
fn sources_elsewhere<'t>(
    around: &Around,
    upstream: &Upstream,
    texts: &'t Texts,
) -> BTreeSet<&'t str> {
    let is_it = |line: &&SourceLine| {
        line.problem.is_some()
            && !line.file.is_empty()
            && is_elsewhere(around, upstream, &line.file)
    };
    texts.lines.iter().filter(is_it).map(|line| line.id.as_str()).collect()
}

fn source_texts(chain: &mut Chain, story: &Story, texts: &Texts, elsewhere: &BTreeSet<&str>) {
    if !elsewhere.is_empty() {
        let what =
            format!("{} records are not on this host: another host has them", elsewhere.len());
        chain.put("upstream.records", LinkStatus::Unknown, what);
    }
    let here = texts.lines.iter().filter(|line| !elsewhere.contains(line.id.as_str()));
    let wrong: Vec<String> = here
        .clone()
        .filter_map(|line| Some(format!("{}: {}", line.id, line.problem.as_ref()?)))
        .collect();
    let here = here.count();
    if elsewhere.is_empty() || here > 0 {
        chain.all("upstream.records", format!("{here} records are read again"), &wrong);
    }
    let recorded = story.item["selection"]["source_text_hash"].as_str().unwrap_or_default();
    if !texts.complete {
        let what = "not every text could be read again";
        chain.put("source_text_hash", LinkStatus::Unknown, what);
        return;
    }
    let pairs = texts.sources.iter().map(|source| (source.id.as_str(), source.text.as_str()));
    let now = source_text_hash(pairs).hex();
    chain.same("source_text_hash", "the hash of the texts", recorded, &now);
}

/// Every evidence pointer of the item: its id, its quote, and the words at its place.
fn quotes(chain: &mut Chain, story: &Story, texts: &Texts, elsewhere: &BTreeSet<&str>) {
    let pointers = story.item["outputs"]["evidence_refs"].as_array();
    let Some(pointers) = pointers.filter(|pointers| !pointers.is_empty()) else { return };
    let (mut wrong, mut left) = (BTreeSet::new(), 0);
    for pointer in pointers {
        let text = |name: &str| pointer[name].as_str().unwrap_or_default();
        if elsewhere.contains(text("chunk_id")) {
            left += 1;
            continue;
        }
        let at = |name: &str| pointer["span"][name].as_u64().unwrap_or(u64::MAX);
        let (start, end) = (at("start"), at("end"));
        let said = quote_of(&story.item["outputs"], pointer);
        let quote = sha256(said);
        let span = Span { start, end, unit: SpanUnit::Utf8Byte };
        let id = evidence_id(text("namespace"), text("chunk_id"), span, Some(quote));
        // Items of earlier versions also name the hash of the quote.
        let named = pointer["quote_sha256"].as_str();
        if named.is_some_and(|named| named != quote.hex()) || id != text("evidence_id") {
            wrong.insert(format!("{} is not the pointer it says", text("evidence_id")));
        }
        let source = texts.sources.iter().find(|source| source.id == text("chunk_id"));
        let words = source.and_then(|source| {
            source.text.get(usize::try_from(start).ok()?..usize::try_from(end).ok()?)
        });
        if words.is_none_or(|words| !same_words(words, said)) {
            let place = format!("{} at {start}..{end}", text("chunk_id"));
            wrong.insert(format!("{place} does not say what {} quotes", text("evidence_id")));
        }
    }
    let wrong: Vec<String> = wrong.into_iter().collect();
    if left > 0 {
        let what = format!("{left} quotes are of texts that are not on this host");
        chain.put("evidence", LinkStatus::Unknown, what);
    }
    let here = pointers.len() - left;
    if here > 0 {
        chain.all("evidence", format!("{here} quotes stand where they say"), &wrong);
    }
}

/// Quotation marks and line breaks are no difference.
fn same_words(words: &str, quote: &str) -> bool {
    words == quote || flow::align::find(quote, words).is_some()
}

fn pack(chain: &mut Chain, around: &Around, story: &Story) {
    let recorded = story.provenance.as_ref().map(|made| made.pack_hash.hex()).unwrap_or_default();
    match load(around, story) {
        Ok(pack) => {
            let pack = pack.facts();
            let now = pack.pack_hash().hex();
            chain.same("flow.pack", "the pack in the registry", &recorded, &now);
            let request = Request::parse_stored(&story.taken.line);
            let params = request.map(|request| params_of(story, &request)).unwrap_or_default();
            let now = pack.prompt_hash(&params).hex();
            let recorded = story.item["prompt"]["prompt_hash"].as_str().unwrap_or_default();
            chain.same("flow.prompt", "the prompt hash", recorded, &now);
        }
        Err(what) => chain.put("flow.pack", LinkStatus::Broken, what),
    }
}

/// The parameters a summary was made with: the request's over those that were configured.
fn params_of(story: &Story, request: &Request) -> Map<String, Value> {
    let configured = story.provenance.as_ref().map(|made| made.configured_params.0.clone());
    with_request(configured.unwrap_or_default(), request)
}

fn load(around: &Around, story: &Story) -> Result<FlowAlone, String> {
    let disk = around.machine.disk.as_ref();
    let registry = Registry::of_home(disk, &around.home.root).map_err(|error| error.to_string())?;
    let (flow_id, variant) = (&story.taken.flow_id, story.taken.variant.as_deref());
    let name = crate::registry::label(flow_id, variant);
    let record = registry
        .find(flow_id, variant)
        .ok_or_else(|| format!("{name} is not in the registry any more"))?;
    let files = registry
        .verified_files(disk, record)
        .map_err(|error| format!("the pack of {name}: {error}"))?;
    let limit = attempt_limit(around);
    FlowAlone::load(around.processes.clone(), record, &files, limit, &|| true)
        .map_err(|error| format!("the pack of {name}: {error}"))
}

fn attempt_limit(around: &Around) -> Duration {
    Duration::from_millis(around.config.attempt_timeout_ms.max(1).unsigned_abs())
}

/// What the flow gives again is what the item says.
fn outcome(chain: &mut Chain, story: &Story, again: &RerunResult) {
    let made = match again {
        Ok(made) => made,
        Err(why) => {
            chain.put("prompt.rendered", LinkStatus::Unknown, why);
            chain.put("outputs", LinkStatus::Unknown, why);
            return;
        }
    };
    let recorded = story.provenance.as_ref().map(|made| made.rendered_prompt_sha256.hex());
    let now = made.rendered_prompt_sha256.hex();
    chain.same("prompt.rendered", "the rendered prompt", &recorded.unwrap_or_default(), &now);
    let outputs = &story.item["outputs"];
    let written = outputs.as_object().cloned().unwrap_or_default();
    let same = outputs["structured"] == without_repetition(made.structured.clone(), &written)
        && outputs["summary_text"] == made.summary.summary_text.as_str();
    match same {
        true => {
            let what = "the flow gives the same outputs from the same texts and answers";
            chain.put("outputs", LinkStatus::Holds, what);
        }
        false => {
            let what = "the flow gives other outputs from the same texts and answers";
            chain.put("outputs", LinkStatus::Broken, what);
        }
    }
}

/// Runs the flow again with the answers in the log. No model is asked.
pub(crate) fn run_again(around: &Around, story: &Story, texts: &Texts) -> RerunResult {
    if !texts.complete {
        return Err("not every text could be read again".to_owned());
    }
    let flow = load(around, story)?;
    let recorded = story.provenance.as_ref().map(|made| made.pack_hash);
    let recorded = recorded.ok_or("the log does not say which pack made it")?;
    if flow.facts().pack_hash() != recorded {
        return Err(format!("the pack changed: the registry has no pack with the hash {recorded}"));
    }
    let request = Request::parse_stored(&story.taken.line)
        .map_err(|refusal| format!("the stored request cannot be read: {}", refusal.reason))?;
    let answers = Answers::read(around, story)?;
    let provider: Arc<dyn Provider> = match story.item["model"]["provider"] == BUILTIN {
        true => Arc::new(Builtin),
        false => {
            let warnings = story.provenance.as_ref().map(|made| made.warnings.as_slice());
            let mut warnings = warnings.unwrap_or_default().iter();
            let was_short = warnings.any(|warning| warning.starts_with(FILLED_BY_RULE));
            let profile = if was_short { Profile::Small } else { Profile::Whole };
            Arc::new(Silent { provider: configured(around, story, &request)?, profile })
        }
    };
    let surroundings = surroundings(around, story, &request)?;
    let options = RunOptions {
        params: params_of(story, &request),
        surroundings: Some(&surroundings),
        replies: Some(&answers),
        keep_prompts: true,
        concurrency: 1,
        timeout: attempt_limit(around),
        ..RunOptions::default()
    };
    flow.run(Map::new(), &texts.sources, provider.as_ref(), &options, &|| true)
        .map_err(|error| format!("the flow cannot be run again from the log: {error}"))
}

/// The context that the flow got beside the texts, as upstream has it now; the item must record the same.
fn surroundings(around: &Around, story: &Story, request: &Request) -> Result<Surroundings, String> {
    let zone = around.config.timezone;
    let recorded = story.item["selection"]["context"]["sha256"].as_str();
    let mut surroundings = Surroundings {
        input: InputContext::default(),
        day: Some(request.created_at.day_in(zone).to_string()),
        zone: Some(zone),
        profile: around.config.profile.clone(),
        private: story.item["meta"]["publish"] == false,
        condensed: false,
    };
    let Some(recorded) = recorded else { return Ok(surroundings) };
    let disk = Arc::clone(&around.machine.disk);
    let upstream = Upstream::new(disk, &around.home.buses, Arc::clone(&around.index));
    let roots = Roots { service: Some(around.home.root.clone()), extra: Vec::new() };
    let options = upstream::Options { title_as_text: false, roots, zone: Some(zone) };
    let input = InputSpec::of(&request.input);
    let resolved = upstream::resolve(&upstream, &input, request.work.kind, &options)
        .map_err(|error| format!("the input cannot be read again: {error}"))?;
    let context = context_of(&resolved, &upstream, zone)
        .map_err(|defect| format!("the context of the sources cannot be read again: {defect}"))?
        .unwrap_or_default();
    let now = context.sha256().hex();
    if now != recorded {
        return Err(format!(
            "titles, people or times of the sources changed since: their hash was {recorded} and is {now}"
        ));
    }
    surroundings.input = context;
    Ok(surroundings)
}

fn configured(
    around: &Around,
    story: &Story,
    request: &Request,
) -> Result<Arc<dyn Provider>, String> {
    let mut data = Confinement::default();
    if ContextIdentity::of(&story.item["selection"]).local_only {
        data.keep_here("the item");
    }
    let (flow_id, variant) = (&request.work.flow_id, request.work.variant.as_deref());
    Providers::new(&around.config, Arc::new(Builtin), &around.machine)
        .and_then(|all| all.for_flow(flow_id, variant, None, &data))
        .map_err(|error| format!("the provider that answered is not configured: {error}"))
}

/// The answers of the log, by what was asked.
struct Answers(Vec<(String, ModelReply)>);

impl Answers {
    fn read(around: &Around, story: &Story) -> Result<Answers, String> {
        let mut all = Vec::new();
        for answer in &story.answers {
            let body = around.log.body(crate::contract::ids::Seq(answer.seq));
            let body = body.map_err(|error| error.to_string())?.unwrap_or_default();
            let reply = serde_json::from_slice(&body)
                .map_err(|error| format!("the answer of event {}: {error}", answer.seq))?;
            all.push((answer.call.clone(), reply));
        }
        Ok(Answers(all))
    }
}

impl ReplyCache for Answers {
    fn get(&self, request_hash: &str) -> Result<Option<ModelReply>, String> {
        let call = sha256(request_hash).hex();
        let known = self.0.iter().find(|(known, _)| *known == call);
        Ok(known.map(|(_, reply)| reply.clone()))
    }

    fn put(&self, _request_hash: &str, _reply: &ModelReply) {}
}

/// A provider that is known and is not asked.
struct Silent {
    provider: Arc<dyn Provider>,
    /// Whether its question was a short one.
    profile: Profile,
}

impl Provider for Silent {
    fn inner(&self) -> Option<&dyn Provider> {
        Some(&*self.provider)
    }

    fn identity(&self) -> ModelIdentity {
        self.provider.identity()
    }

    fn context_tokens(&self) -> usize {
        self.provider.context_tokens()
    }

    fn is_free(&self) -> bool {
        // Answers of the log count for every provider.
        false
    }

    fn profile_of(&self, _: Option<&str>) -> Profile {
        self.profile
    }

    fn call(&self, call: &ModelCall<'_>) -> Result<ModelReply, ModelError> {
        Err(ModelError::Permanent {
            provider: self.identity().provider,
            reason: format!("the log holds no answer to what node {} asks now", call.node).into(),
            cause: FailureCause::InvalidAnswer,
        })
    }
}
