//! One summary as it is published: the contract's fields, and beside them the additive ones real
//! readers rely on. Also its id, which depends on what was summarized and how, never on the output,
//! the time, the run or the request.

use std::collections::BTreeMap;

#[cfg(any(test, feature = "internals"))]
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::contract::hash::{Digest, sha256};
use crate::contract::json::jcs_hash;
#[cfg(any(test, feature = "internals"))]
use crate::contract::json::to_line;
use crate::contract::privacy::LOCAL_ONLY;
use crate::contract::stable_id::{Part, list_hash, stable_id};
use crate::contract::time::{Day, Timestamp};
use crate::contract::vocabulary::{Stream, SummaryKind};
use crate::facts::attempt::SourceCounts;

/// The engine in every summary id. It changes only with a decision record, not with a release.
pub(crate) const ENGINE: &str = "engine_v1";

impl Stream {
    /// The version of its items.
    pub(crate) fn item_version(self) -> &'static str {
        match self {
            Stream::Events => "event_summary.v1",
            Stream::Sessions => "session_summary.v1",
            Stream::Documents => "document_summary.v1",
            Stream::ChunkSets => "chunk_set_summary.v1",
        }
    }

    /// The version of its manifests.
    pub(crate) fn manifest_version(self) -> &'static str {
        match self {
            Stream::Events => "events_summary_manifest.v1",
            Stream::Sessions => "sessions_summary_manifest.v1",
            Stream::Documents => "documents_summary_manifest.v1",
            Stream::ChunkSets => "chunk_sets_summary_manifest.v1",
        }
    }

    /// The `source_type` of its items.
    pub fn source_type(self) -> &'static str {
        match self {
            Stream::Events => "event",
            Stream::Sessions => "session",
            Stream::Documents => "document",
            Stream::ChunkSets => "chunk_set",
        }
    }
}

/// Members of `meta` that the program itself writes. A flow can add others.
pub(crate) const META_NAMES: [&str; 21] = [
    "authors",
    "category",
    "conversation_id",
    "feed",
    "flow_id",
    "folder",
    "format_type",
    "label",
    "local_only",
    "mailbox",
    "project",
    "project_from",
    "publish",
    "repo",
    "source_name",
    "source_url",
    "summary_kind",
    "summary_subkind",
    "ts_precision",
    "variant",
    "written_day",
];

/// What a summary id is made of.
#[derive(Debug, Clone, Copy)]
pub struct SummaryIdentity<'a, Id = String> {
    pub stream: Stream,
    /// The kind that was asked for.
    pub kind: SummaryKind,
    /// The subkind that was asked for.
    pub subkind: &'a str,
    /// All resolved ids, in order.
    pub primary_ids: &'a [Id],
    /// Hash of the text.
    pub source_text_hash: &'a Digest,
    /// Hash of the prompt, bare hex.
    pub prompt_hash: &'a str,
    pub provider: &'a str,
    pub model: &'a str,
    /// What the sources say beside their texts.
    pub context: ContextIdentity,
}

/// What sources say beside their texts, as far as it makes work another work. An item records it in
/// `selection.context`. See docs/adr/0109-what-makes-work-identical.md.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ContextIdentity {
    /// Hash of titles, people, times and places.
    pub sha256: Option<Digest>,
    /// The publish flag of the sources.
    pub publish: Option<bool>,
    /// Hash of the days of a range that are not published, as `selection` lists them.
    pub missing_days: Option<Digest>,
    /// Whether no provider elsewhere may see the sources.
    pub local_only: bool,
}

impl ContextIdentity {
    /// Reads it from the `selection` of an item.
    pub(crate) fn of(selection: &Value) -> ContextIdentity {
        let context = &selection["context"];
        ContextIdentity {
            sha256: context["sha256"].as_str().and_then(|hash| hash.parse().ok()),
            publish: context["publish"].as_bool(),
            missing_days: context["missing_days"].as_str().and_then(|hash| hash.parse().ok()),
            local_only: context[LOCAL_ONLY] == true,
        }
    }

    /// The hash of the missing days that the `selection` of an item lists.
    pub(crate) fn missing_days_of(selection: &Value) -> Option<Digest> {
        let days = selection.get("missing_days")?;
        Some(jcs_hash(&json!([days, selection["missing_days_count"]])))
    }

    /// The value of `selection.context`; absent when the sources have no context.
    pub(crate) fn to_value(self) -> Option<Value> {
        let mut members = Map::new();
        members.extend(self.sha256.map(|hash| ("sha256".to_owned(), hash.hex().into())));
        members.extend(self.publish.map(|flag| ("publish".to_owned(), flag.into())));
        let missing = self.missing_days.map(|hash| ("missing_days".to_owned(), hash.hex().into()));
        members.extend(missing);
        members.extend(self.local_only.then(|| (LOCAL_ONLY.to_owned(), true.into())));
        (!members.is_empty()).then_some(Value::Object(members))
    }

    /// One hash of a text and of what stands beside it.
    pub(crate) fn with_text(self, source_text_hash: Digest) -> Digest {
        sha256(json!([source_text_hash.hex(), self.to_value()]).to_string())
    }
}

/// The id of a summary.
pub fn summary_id<Id: AsRef<str>>(identity: &SummaryIdentity<'_, Id>) -> String {
    let sources = list_hash(identity.primary_ids);
    let checksum = identity.source_text_hash.hex();
    let context = identity.context.sha256.map(|hash| hash.hex());
    let publish = identity.context.publish.map(|flag| flag.to_string());
    let missing = identity.context.missing_days.map(|hash| hash.hex());
    let mut parts = vec![
        Part::Text("summary"),
        Part::Labelled("type", identity.stream.as_str()),
        Part::Labelled("kind", identity.kind.as_str()),
        Part::Labelled("subkind", identity.subkind),
        Part::Labelled("sources_hash", &sources),
        Part::Labelled("selection_checksum", &checksum),
        Part::Labelled("prompt_hash", identity.prompt_hash),
        Part::Labelled("summarizer", ENGINE),
        Part::Labelled("provider", identity.provider),
        Part::Labelled("model", identity.model),
    ];
    parts.extend(context.as_deref().map(|hash| Part::Labelled("context", hash)));
    parts.extend(publish.as_deref().map(|flag| Part::Labelled("publish", flag)));
    parts.extend(missing.as_deref().map(|hash| Part::Labelled("missing_days", hash)));
    parts.extend(identity.context.local_only.then_some(Part::Labelled(LOCAL_ONLY, "true")));
    stable_id("sum", &parts)
}

/// Which model wrote a summary.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ModelIdentity {
    /// Who serves it.
    pub provider: String,
    pub name: String,
    /// Its version, empty when unknown.
    pub version: String,
    /// Sampling temperature, where there is one.
    pub temperature: Option<f64>,
    /// Output limit, where there is one.
    pub max_tokens: Option<u64>,
    /// Whether the provider was asked to be deterministic, where it can be.
    pub deterministic_mode: Option<bool>,
    /// The seed, where it takes one.
    pub seed: Option<i64>,
}

/// Which prompt was used.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PromptIdentity {
    /// Hash of everything the prompt is made of, bare hex.
    pub hash: String,
    /// The flow, with its variant.
    pub template_id: String,
    /// The version suffix of the flow.
    pub version: String,
}

/// One line of the Summary Bus.
#[derive(Debug, Clone, PartialEq)]
pub struct SummaryItem {
    pub stream: Stream,
    pub day: Day,
    pub summary_id: String,
    pub source_ids: Vec<String>,
    /// The events of a session summary.
    pub event_ids: Vec<String>,
    /// The documents of a document or chunk-set summary.
    pub document_ids: Vec<String>,
    /// The chunks of a document summary.
    pub chunk_ids: Vec<String>,
    /// The `selection` object, as resolved.
    pub selection: Value,
    pub model: ModelIdentity,
    pub prompt: PromptIdentity,
    /// Version of this program.
    pub summarizer_version: String,
    /// The run that produced it.
    pub run_id: String,
    /// `outputs`: `summary_text`, `model_generated` and what else the flow gave.
    pub outputs: Map<String, Value>,
    /// A title for people; falls back to the source ids.
    pub title: Option<String>,
    pub source_time: Timestamp,
    /// Scalars to filter by, such as `summary_kind`; never empty.
    pub meta: Map<String, Value>,
}

impl SummaryItem {
    /// The line as a JSON object.
    #[cfg(any(test, feature = "internals"))]
    pub fn to_value(&self) -> Value {
        self.clone().into_value()
    }

    /// The same, made of the item's own ids and outputs, which may be many.
    pub(crate) fn into_value(self) -> Value {
        let title = self.title.clone().or_else(|| self.source_ids.first().cloned());
        let (model, meta) = (self.model_value(), self.meta_value());
        let document_id = json!(self.document_ids.first());
        let mut line = json!({
            "schema_version": self.stream.item_version(),
            "summary_id": self.summary_id,
            "id": self.summary_id,
            "source_ref": self.summary_id,
            "day": self.day.to_string(),
            "source_type": self.stream.source_type(),
            "model": model,
            "prompt": {
                "prompt_hash": self.prompt.hash,
                "template_id": self.prompt.template_id,
                "prompt_version": self.prompt.version,
            },
            "producer": {
                "name": "summarizer",
                "summarizer_version": self.summarizer_version,
                "run_id": self.run_id,
            },
            "title": title,
            "ts_abs_ms": self.source_time.0,
            "ts_abs": self.source_time.to_string(),
            "meta": meta,
        });
        line["selection"] = self.selection;
        line["source_ids"] = self.source_ids.into();
        line["outputs"] = Value::Object(self.outputs);
        match self.stream {
            Stream::Events => {}
            Stream::Sessions => line["event_ids"] = self.event_ids.into(),
            Stream::Documents => {
                line["document_id"] = document_id;
                line["chunk_ids"] = self.chunk_ids.into();
            }
            Stream::ChunkSets => line["document_ids"] = self.document_ids.into(),
        }
        line
    }

    /// The line as it is published, without the line end.
    #[cfg(any(test, feature = "internals"))]
    pub fn to_line(&self) -> serde_json::Result<String> {
        to_line(&self.to_value())
    }

    fn model_value(&self) -> Value {
        let model = &self.model;
        let mut value = json!({
            "provider": model.provider,
            "model_name": model.name,
            "model_version": model.version,
            "temperature": model.temperature,
            "max_tokens": model.max_tokens,
        });
        if let Some(deterministic) = model.deterministic_mode {
            value["deterministic_mode"] = json!(deterministic);
        }
        if let Some(seed) = model.seed {
            value["seed"] = json!(seed);
        }
        value
    }

    fn meta_value(&self) -> Value {
        let mut meta = self.meta.clone();
        meta.insert("provenance".to_owned(), json!({"source_ref": self.summary_id}));
        Value::Object(meta)
    }
}

/// The text that a reader takes where a rendering is missing.
const TEXT: &str = "summary_text";
/// Renderings of it, which are left out where they are equal to it.
const RENDERINGS: [&str; 3] = ["rendered_short", "rendered_medium", "rendered_long"];

/// Takes the renderings out that only repeat the text, and returns their names.
pub(crate) fn take_equal_renderings(outputs: &mut Map<String, Value>) -> Vec<&'static str> {
    let text = outputs.get(TEXT).cloned();
    let is_equal = |name: &&str| text.is_some() && outputs.get(*name) == text.as_ref();
    let equal: Vec<&'static str> = RENDERINGS.into_iter().filter(is_equal).collect();
    outputs.retain(|name, _| !equal.contains(&name.as_str()));
    equal
}

/// The words that an evidence pointer quotes: its own, else the member of the answer that its first
/// place names.
pub(crate) fn quote_of<'v>(outputs: &'v Value, evidence: &'v Value) -> &'v str {
    let place = || {
        let first = evidence["pointers"][0].as_str()?;
        outputs["structured"].pointer(first).or_else(|| outputs.pointer(first))
    };
    evidence.get("quote").or_else(place).and_then(Value::as_str).unwrap_or_default()
}

/// The flow's answer without the texts that `outputs` has: under the same name, or as the text that
/// stands for a missing rendering.
pub(crate) fn without_repetition(mut structured: Value, outputs: &Map<String, Value>) -> Value {
    if let Some(members) = structured.as_object_mut() {
        members.retain(|name, value| {
            let is_rendering = RENDERINGS.contains(&name.as_str());
            let stands_for =
                outputs.get(name).or_else(|| outputs.get(TEXT).filter(|_| is_rendering));
            !(is_rendering || name == TEXT) || stands_for != Some(value)
        });
    }
    structured
}

/// What a manifest needs to know of a line.
#[derive(Debug, Clone, Copy)]
pub struct LineFacts<'a> {
    /// The id: lines are sorted by it.
    pub summary_id: &'a str,
    /// Source time in milliseconds.
    pub(crate) source_time_ms: Option<i64>,
    pub model_name: &'a str,
    pub prompt_hash: &'a str,
    /// How many sources were used.
    pub counts: SourceCounts,
    /// Why the others were not.
    pub skip_reasons: Option<&'a BTreeMap<String, u64>>,
}

/// The facts of a line that was not read before.
#[cfg(any(test, feature = "internals"))]
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct ItemFacts {
    summary_id: String,
    #[serde(rename = "ts_abs_ms")]
    source_time_ms: Option<i64>,
    model: ModelFact,
    prompt: PromptFact,
    selection: SelectionFact,
}

#[cfg(any(test, feature = "internals"))]
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct ModelFact {
    model_name: String,
}

#[cfg(any(test, feature = "internals"))]
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct PromptFact {
    prompt_hash: String,
}

#[cfg(any(test, feature = "internals"))]
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct SelectionFact {
    #[serde(default)]
    counts: SourceCounts,
    #[serde(default)]
    skip_reasons: BTreeMap<String, u64>,
}

#[cfg(any(test, feature = "internals"))]
impl ItemFacts {
    /// Reads them from a line.
    pub(crate) fn of(line: &[u8]) -> serde_json::Result<ItemFacts> {
        serde_json::from_slice(line)
    }

    /// As the manifest wants them.
    pub(crate) fn line(&self) -> LineFacts<'_> {
        LineFacts {
            summary_id: &self.summary_id,
            source_time_ms: self.source_time_ms,
            model_name: &self.model.model_name,
            prompt_hash: &self.prompt.prompt_hash,
            counts: self.selection.counts,
            skip_reasons: Some(&self.selection.skip_reasons),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::contract::schema;

    /// A complete item, for tests of everything that handles items.
    pub(crate) fn sample(stream: Stream, number: u32) -> SummaryItem {
        let ids = vec![format!("src_{number}")];
        let hash = sha256(format!("text {number}"));
        let identity = SummaryIdentity {
            stream,
            kind: SummaryKind::ALL[usize::from(stream as u8) - 1],
            subkind: "brief",
            primary_ids: &ids,
            source_text_hash: &hash,
            prompt_hash: &sha256("prompt").hex(),
            provider: "builtin",
            model: "extractive",
            context: ContextIdentity::default(),
        };
        let selection_type = match stream {
            Stream::Events => "single_event",
            Stream::Sessions => "session_full",
            Stream::Documents => "document_full",
            Stream::ChunkSets => "chunk_set",
        };
        let mut outputs = Map::new();
        outputs.insert("summary_text".to_owned(), json!(format!("Summary {number}.")));
        outputs.insert("model_generated".to_owned(), json!(false));
        let mut meta = Map::new();
        meta.insert("summary_kind".to_owned(), json!(identity.kind));
        meta.insert("summary_subkind".to_owned(), json!("brief"));
        SummaryItem {
            stream,
            day: "2026-02-11".parse().unwrap(),
            summary_id: summary_id(&identity),
            source_ids: ids.clone(),
            event_ids: vec![format!("evt_{number}")],
            document_ids: ids.clone(),
            chunk_ids: ids,
            selection: json!({
                "selection_type": selection_type,
                "source_text_hash": hash.hex(),
                "normalization": {"name": "summarizer.text", "version": "1"},
                "counts": {"sources": 1, "used": 1, "skipped": 0},
                "skip_reasons": {},
            }),
            model: ModelIdentity {
                provider: "builtin".to_owned(),
                name: "extractive".to_owned(),
                version: "1".to_owned(),
                ..ModelIdentity::default()
            },
            prompt: PromptIdentity {
                hash: sha256("prompt").hex(),
                template_id: "docs.brief.v1".to_owned(),
                version: "v1".to_owned(),
            },
            summarizer_version: "0.1.0".to_owned(),
            run_id: "run_20260211T000000Z_00000000".to_owned(),
            outputs,
            title: None,
            source_time: Timestamp(1_770_764_400_000 + i64::from(number)),
            meta,
        }
    }

    #[test]
    fn frozen_summary_id() {
        let ids = vec!["ses_001".to_owned()];
        let identity = SummaryIdentity {
            stream: Stream::Sessions,
            kind: SummaryKind::SessionSummary,
            subkind: "brief",
            primary_ids: &ids,
            source_text_hash: &sha256("hello"),
            prompt_hash: &sha256("prompt").hex(),
            provider: "builtin",
            model: "extractive",
            context: ContextIdentity::default(),
        };
        assert_eq!(summary_id(&identity), "sum_3f62f2b2ca32d2afc30d036e59d29852");
        let other = SummaryIdentity { model: "other", ..identity };
        assert_ne!(summary_id(&identity), summary_id(&other));
        let context = |sha256, publish| {
            let context = ContextIdentity { sha256, publish, ..ContextIdentity::default() };
            let selection = json!({"context": context.to_value()});
            assert_eq!(ContextIdentity::of(&selection), context);
            summary_id(&SummaryIdentity { context, ..identity })
        };
        let hash = Some(sha256("context"));
        assert_eq!(context(None, None), summary_id(&identity));
        let ids = [(hash, None), (hash, Some(true)), (hash, Some(false)), (None, Some(false))];
        let ids: std::collections::BTreeSet<String> =
            ids.map(|(hash, flag)| context(hash, flag)).into();
        assert_eq!(ids.len(), 4);
        assert!(!ids.contains(&summary_id(&identity)));
    }

    #[test]
    fn every_stream_satisfies_its_schema_and_knows_its_facts() {
        for stream in Stream::ALL {
            let item = sample(*stream, 7);
            let line = item.to_line().unwrap();
            let value: Value = serde_json::from_str(&line).unwrap();
            assert_eq!(schema::check(stream.item_version(), &value), [], "{stream}");
            let facts = ItemFacts::of(line.as_bytes()).unwrap();
            assert_eq!(facts.line().summary_id, item.summary_id);
            assert_eq!(facts.line().counts.used, 1);
        }
    }

    #[test]
    fn a_structured_answer_leaves_out_texts_that_outputs_repeat() {
        let outputs = json!({"summary_text": "Two words.", "title": "T", "rendered_short": "Two."});
        let structured =
            json!({"summary_text": "Two words.", "rendered_short": "2.", "title": "T"});
        let kept = without_repetition(structured, outputs.as_object().unwrap());
        assert_eq!(kept, json!({"rendered_short": "2.", "title": "T"}));
    }

    #[test]
    fn an_item_has_the_members_that_other_readers_need() {
        let line = sample(Stream::Events, 1).to_value();
        assert_eq!(line["id"], line["summary_id"]);
        assert_eq!(line["meta"]["provenance"]["source_ref"], line["summary_id"]);
        assert!(line["ts_abs_ms"].is_i64());
        assert_eq!(line["title"], "src_1");
    }
}
