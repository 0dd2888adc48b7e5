//! Where a summary comes from: one value that leads from each of its sentences to the words, files,
//! request, flow, model and events behind it.
//!
//! Contract. Everything is read from the log and the files, beside a running service or without
//! one; it changes no file and asks no model. What cannot be read is said, never left out. With
//! `verify` every hash on the way is computed again, and each link is `holds`, `broken` or
//! `unknown` with the reason.
//!
//! Spans of an extractive summary are exact. Those of a model's summary are likenesses, labelled.
//!
//! See docs/adr/0049-explaining-from-log-and-files.md.

mod check;
pub(crate) mod event_json;
mod story;
mod texts;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;
use serde_json::{Value, json};

use crate::bus::SummaryBus;
use crate::config::Config;
use crate::contract::ids::Seq;
use crate::facts::model::{AnswerFacts, Provenance};
use crate::flow::align::{Aligned, Basis, align};
use crate::home::Home;
use crate::log::{LogError, ReadError, Reader};
use crate::model::{SourceSpan, SourceText};
use crate::os::Machine;
use crate::state::event::SummaryPointer;
use crate::upstream::{IndexStore, Upstream};
use crate::work::isolation::processes::Isolation;

pub(crate) use check::Link;
use event_json::{event_json, line_json};
use story::Story;
pub(crate) use story::forgotten_on;
use texts::Texts;

/// Bytes of one rendered prompt that are shown.
const PROMPT_BYTES_MAX: usize = 256 << 10;

/// A summary cannot be explained.
#[derive(Debug, thiserror::Error)]
pub enum ExplainError {
    /// The log, or a record of it.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The request made no summary.
    #[error("request {0} made no summary: {1}; `summarizer show {0}` says more")]
    NoSummary(String, String),
    /// A person took the summary back.
    #[error("{0} was forgotten on {1}, by request")]
    Forgotten(String, String),
    /// The record in the log is not an item.
    #[error("read the item")]
    Item(#[source] serde_json::Error),
}

impl From<LogError> for ExplainError {
    fn from(error: LogError) -> ExplainError {
        ExplainError::Read(error.into())
    }
}

/// What is looked at.
pub struct Around {
    pub log: Reader,
    pub machine: Machine,
    pub home: Home,
    pub config: Config,
    /// Where upstream ids are looked up.
    pub index: Arc<dyn IndexStore>,
    /// Where the flow runs again.
    pub(crate) processes: Isolation,
}

/// What is wanted beside the provenance itself.
#[derive(Debug, Clone, Copy, Default)]
pub struct Wanted {
    /// Compute every hash again.
    pub verify: bool,
    /// Render the prompts again and show them.
    pub prompts: bool,
    /// Give the normalized texts of the sources along, as far as they fit.
    pub texts: bool,
}

/// Where a summary comes from.
#[derive(Debug, Serialize)]
pub struct Explanation {
    pub summary_id: String,
    pub title: Option<String>,
    /// Whether a model wrote it.
    pub model_generated: bool,
    /// Where it is published.
    pub published: Published,
    /// Each sentence and what stands behind it.
    pub sentences: Vec<Sentence>,
    /// The pieces of text it was made from, in order.
    pub sources: Vec<SourceLine>,
    /// Sources whose place was not recorded for want of room.
    pub sources_omitted: u64,
    /// Upstream files that were read: path, hashes, manifest.
    pub upstream: Value,
    /// The selection, with its hash and normalization.
    pub selection: Value,
    /// The selection manifest, when there was one.
    pub selection_manifest: Value,
    /// The request and its line in the queue.
    pub request: Asked,
    /// The flow pack and the prompt.
    pub flow: Value,
    /// Conversations as they were rendered, when they were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompts: Option<Prompts>,
    /// Who answered.
    pub model: Value,
    pub usage: Value,
    /// Every call of the flow.
    pub calls: Value,
    /// Answers kept in the log.
    pub answers: Vec<Answered>,
    /// Every attempt and how it ended.
    pub attempts: Vec<Attempt>,
    /// Everything that happened to the request.
    pub events: Vec<Value>,
    /// The record that holds the item.
    pub record: Value,
    /// What was computed again, when it was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub links: Option<Vec<Link>>,
}

/// Where the item is visible.
#[derive(Debug, Clone, Serialize)]
pub struct Published {
    /// The day file, relative to the bus home.
    pub path: String,
    pub manifest_path: String,
    /// Its 1-based line, when it is there.
    pub line: Option<u64>,
    /// Hash of the day file as it is now.
    pub data_sha256: Option<String>,
    /// Why it is not there.
    pub problem: Option<String>,
    #[serde(skip)]
    bytes: Option<Vec<u8>>,
}

#[derive(Debug, Serialize)]
pub struct Sentence {
    pub text: String,
    /// Its place in `summary_text`, in bytes.
    pub start: usize,
    /// One past its last byte.
    pub end: usize,
    /// `exact`, `verbatim`, `lexical` or `none`.
    pub basis: Basis,
    /// How much of it the spans account for.
    pub score: f64,
    /// Where the words are.
    pub spans: Vec<Span>,
}

/// A stretch of a source.
#[derive(Debug, Serialize)]
pub struct Span {
    pub id: String,
    /// Half-open UTF-8 byte offsets into its normalized text.
    pub start: usize,
    /// One past the last byte.
    pub end: usize,
    pub quote: String,
    pub file: String,
    /// The line in it; none when it is not known.
    pub line: Option<u64>,
}

#[derive(Debug, Clone, Default, Serialize)]
pub struct SourceLine {
    pub id: String,
    pub file: String,
    /// The 1-based line of its record.
    pub line: u64,
    /// First byte of the record.
    pub offset: u64,
    /// Bytes of the record.
    pub len: u64,
    /// Bytes of its normalized text when it was summarized.
    pub text_bytes: u64,
    /// Hash of the record as it is now.
    pub record_sha256: Option<String>,
    /// Why its text cannot be read now.
    pub problem: Option<String>,
    /// When a message of a file was written, and who wrote it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub who: Option<String>,
    /// Its normalized text, when that was asked for and fits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

#[derive(Debug, Serialize)]
pub struct Asked {
    /// The event that took it in.
    pub seq: u64,
    pub request_id: String,
    pub idempotency_key: String,
    /// The 1-based line in the queue.
    pub line: u64,
    /// The byte offset of the line in the queue.
    pub offset: u64,
    /// The length of the line in bytes, without the line end.
    pub length: u64,
    /// Hash of those bytes.
    pub sha256: String,
    pub record: Value,
}

/// An answer that was paid for.
#[derive(Debug, Clone, Serialize)]
pub struct Answered {
    pub seq: u64,
    pub attempt: u32,
    /// Hash of what was asked.
    pub call: String,
    /// Hash of the answer.
    pub body_sha256: String,
    /// Identity, usage and stop reason.
    pub facts: AnswerFacts,
}

#[derive(Debug, Clone, Serialize)]
pub struct Attempt {
    /// From 1.
    pub attempt: u32,
    pub started_at: String,
    pub ended_at: Option<String>,
    pub outcome: String,
    /// Why, when it failed.
    pub message: Option<String>,
}

/// Conversations, rendered again.
#[derive(Debug, Serialize)]
pub struct Prompts {
    /// Whether their hash is the recorded one.
    pub as_recorded: bool,
    /// Why they could not be rendered.
    pub problem: Option<String>,
    /// Each call's conversation.
    pub calls: Vec<Value>,
}

/// Explains what a request made. `last` is the last event about it.
pub fn explain(
    around: &Around,
    request: Seq,
    last: Seq,
    wanted: Wanted,
) -> Result<Explanation, ExplainError> {
    let story = Story::read(&around.log, request, last)?;
    let upstream = Upstream::new(
        Arc::clone(&around.machine.disk),
        &around.home.buses,
        Arc::clone(&around.index),
    );
    let texts = Texts::read(&upstream, &story, around.config.timezone);
    let item = &story.item;
    let generated = item["outputs"]["model_generated"].as_bool().unwrap_or(true);
    let published = published(around, &story.summary);
    let provenance = story.provenance.as_ref();
    let again = match wanted.verify || wanted.prompts {
        true => Some(check::run_again(around, &story, &texts)),
        false => None,
    };
    let prompts = match (&again, wanted.prompts) {
        (Some(again), true) => Some(prompts(again, provenance)),
        _ => None,
    };
    let links = match (&again, wanted.verify) {
        (Some(again), true) => {
            Some(check::links(around, &upstream, &story, &texts, &published, again))
        }
        _ => None,
    };
    Ok(Explanation {
        summary_id: story.summary.summary_id.clone(),
        title: item["title"].as_str().map(str::to_owned),
        model_generated: generated,
        sentences: sentences(item, &texts, !generated),
        sources: match wanted.texts {
            true => texts.lines_with_text(),
            false => texts.lines_listed(),
        },
        sources_omitted: story.places.omitted,
        upstream: json!(story.input.inputs),
        selection: item["selection"].clone(),
        selection_manifest: json!(story.input.selection),
        request: asked(&story),
        flow: json!({
            "flow_id": story.taken.flow_id, "variant": story.taken.variant,
            "template_id": item["prompt"]["template_id"],
            "prompt_version": item["prompt"]["prompt_version"],
            "prompt_hash": item["prompt"]["prompt_hash"],
            "pack_hash": provenance.map(|made| made.pack_hash),
            "engine": provenance.map(|made| &made.engine),
            "engine_version": provenance.map(|made| &made.engine_version),
            "rendered_prompt_sha256": provenance.map(|made| made.rendered_prompt_sha256),
            "warnings": provenance.map(|made| &made.warnings),
        }),
        prompts,
        model: item["model"].clone(),
        usage: json!(provenance.map(|made| made.usage)),
        calls: json!(provenance.map(|made| &made.calls)),
        answers: story.answers.clone(),
        attempts: story.attempts.clone(),
        events: story.events.iter().map(event_json).collect(),
        record: json!({
            "seq": story.produced_at.seq.0, "at": story.produced_at.at.to_string(),
            "hash": story.produced_at.hash.hex(), "item_sha256": story.body_sha256.hex(),
            "run_id": item["producer"]["run_id"],
            "summarizer_version": item["producer"]["summarizer_version"],
        }),
        published,
        links,
    })
}

fn asked(story: &Story) -> Asked {
    let taken = &story.taken;
    Asked {
        seq: story.request.0,
        request_id: taken.head.request_id.clone(),
        idempotency_key: taken.head.key.clone(),
        line: taken.head.line,
        offset: taken.head.offset,
        length: taken.line.length(),
        sha256: taken.line.sha256().hex(),
        record: line_json(&taken.line),
    }
}

/// The line as a reader of the bus finds it.
fn published(around: &Around, summary: &SummaryPointer) -> Published {
    let path = summary.path();
    let key = crate::export::summary_bus::PartitionKey { stream: summary.stream, day: summary.day };
    let mut found = Published {
        path,
        manifest_path: format!(
            "{}/{}",
            crate::export::summary_bus::SUMMARIES_DIR,
            key.manifest_file()
        ),
        line: None,
        data_sha256: None,
        problem: None,
        bytes: None,
    };
    let partition = SummaryBus::open(&around.home.buses)
        .and_then(|bus| bus.partition(summary.stream, summary.day));
    let partition = match partition {
        Ok(partition) => partition,
        Err(error) => {
            found.problem = Some(format!("the day cannot be read: {error}"));
            return found;
        }
    };
    found.data_sha256 = Some(partition.sha256.hex());
    let needle = format!("\"summary_id\":\"{}\"", summary.summary_id);
    let finder = memchr::memmem::Finder::new(&needle);
    let lines = partition.data().split(|byte| *byte == b'\n').enumerate();
    for (index, line) in lines {
        if finder.find(line).is_some() {
            found.line = Some(index as u64 + 1);
            found.bytes = Some(line.to_vec());
            return found;
        }
    }
    found.problem =
        Some("the day does not hold it: not published yet, or published without".into());
    found
}

fn sentences(item: &Value, texts: &Texts, copied: bool) -> Vec<Sentence> {
    let text = item["outputs"]["summary_text"].as_str().unwrap_or_default();
    let places: BTreeMap<&str, usize> = texts
        .sources
        .iter()
        .enumerate()
        .rev()
        .map(|(index, source)| (source.id.as_str(), index))
        .collect();
    let quotes: Vec<SourceSpan> = item["outputs"]["evidence_refs"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|pointer| {
            let source = *places.get(pointer["chunk_id"].as_str()?)?;
            let at =
                |name: &str| pointer["span"][name].as_u64().and_then(|at| usize::try_from(at).ok());
            Some(SourceSpan { source, start: at("start")?, end: at("end")? })
        })
        .collect();
    let aligned = align(text, &texts.sources, copied, &quotes);
    aligned.into_iter().map(|one| sentence(text, one, texts)).collect()
}

fn sentence(text: &str, aligned: Aligned, texts: &Texts) -> Sentence {
    let Aligned { start, end, basis, score, spans } = aligned;
    let spans = spans
        .into_iter()
        .map(|span| {
            let SourceText { id, text } = &texts.sources[span.source];
            let quote = text.get(span.start..span.end).unwrap_or_default().to_owned();
            let (file, line) = texts.line_of(span.source, &quote);
            Span { id: id.clone(), start: span.start, end: span.end, quote, file, line }
        })
        .collect();
    Sentence { text: text[start..end].to_owned(), start, end, basis, score, spans }
}

fn prompts(again: &check::RerunResult, provenance: Option<&Provenance>) -> Prompts {
    let made = match again {
        Ok(made) => made,
        Err(problem) => {
            return Prompts {
                as_recorded: false,
                problem: Some(problem.clone()),
                calls: Vec::new(),
            };
        }
    };
    let asked = made.calls.iter().filter(|call| !call.messages.is_empty());
    let calls = asked.map(|call| {
        let mut left = PROMPT_BYTES_MAX;
        let messages: Vec<Value> = call
            .messages
            .iter()
            .filter_map(|message| {
                let value = json!(message);
                left = left.checked_sub(value.to_string().len())?;
                Some(value)
            })
            .collect();
        json!({
            "node": call.node, "turn": call.turn, "rendered_sha256": call.rendered_sha256,
            "messages_omitted": call.messages.len() - messages.len(), "messages": messages,
        })
    });
    Prompts {
        as_recorded: provenance
            .is_some_and(|recorded| recorded.rendered_prompt_sha256 == made.rendered_prompt_sha256),
        problem: None,
        calls: calls.collect(),
    }
}
