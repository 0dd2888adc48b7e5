//! The item of one summary: the output of the flow, and where every byte of it came from.
//!
//! Contract: pure; a line that does not fit its schema is an error. Values are copied from upstream,
//! the request or the validated output, never invented.

use std::collections::{BTreeMap, HashMap};

use chrono_tz::Tz;
use serde_json::{Map, Value, json};

use crate::compaction::evidence::{Span, SpanUnit, evidence_id};
use crate::contract::hash::sha256;
use crate::contract::json::jcs_hash;
use crate::contract::privacy::LOCAL_ONLY;
use crate::contract::publish;
use crate::contract::request::Request;
use crate::contract::schema;
use crate::contract::source::{Person, SEVERAL_DAYS, TimePrecision, WRITTEN_DAY};
use crate::contract::time::Timestamp;
use crate::contract::versions::question_hash;
use crate::contract::vocabulary::Bus;
use crate::export::item::{
    META_NAMES, ModelIdentity, PromptIdentity, SummaryItem, take_equal_renderings,
    without_repetition,
};
use crate::facts::attempt::SourceCounts;
use crate::flow::{Coverage, EvidenceRef, FlowOutcome, HIERARCHY_VERSION};
use crate::markup::document::extension_of;
use crate::markup::records::LIST_KINDS;
use crate::model;
use crate::upstream::Source;
use crate::upstream::moment::Moment;

use super::isolation::pack::ReadyPack;
use super::prepared::Prepared;

/// The name of a model that its provider does not name.
const UNKNOWN_MODEL: &str = "unknown";

/// The name a model is recorded by.
pub(crate) fn model_name(identity: &model::ModelIdentity) -> &str {
    match identity.model_name.as_str() {
        "" => UNKNOWN_MODEL,
        name => name,
    }
}

/// The line of the item, or what is wrong with it. It consumes the flow's output, so that memory holds
/// ids and nodes of a large selection once.
pub(crate) fn line(
    prepared: &Prepared,
    summary_id: String,
    mut made: FlowOutcome,
) -> Result<Vec<u8>, String> {
    let resolved = &prepared.resolved;
    let record = prepared.pack.record();
    let common = &resolved.common;
    let meta = meta(prepared, &made);
    let is_document = resolved.document_ids.len() == 1;
    let name = || prepared.surroundings.input.name().filter(|_| is_document);
    let list = name().filter(|name| LIST_KINDS.contains(&extension_of(name).as_str()));
    // Rows with titles of their own have none together. The name of their list says more than words of one of them.
    let of_source = common.title.as_ref().or(list.as_ref());
    made.summary.title = title(&made, of_source.map(String::as_str), list.is_some());
    // A table has no title. Its name says more than its id.
    let title = made.summary.title.clone().or_else(name);
    let item = SummaryItem {
        stream: resolved.stream,
        day: prepared.pointer.day,
        summary_id,
        source_ids: owned(resolved.source_ids()),
        event_ids: owned(resolved.event_ids()),
        document_ids: resolved.document_ids.clone(),
        chunk_ids: owned(resolved.chunk_ids()),
        selection: selection(prepared, &made.coverage),
        model: ModelIdentity {
            provider: made.model.provider.clone(),
            name: model_name(&made.model).to_owned(),
            version: made.model.model_version.clone(),
            temperature: made.model.temperature,
            max_tokens: made.model.max_tokens.map(u64::from),
            deterministic_mode: made.model.deterministic_mode,
            seed: made.model.seed,
        },
        prompt: PromptIdentity {
            hash: prepared.prompt_hash.hex(),
            template_id: record.template_id(),
            version: record.prompt_version().to_owned(),
        },
        summarizer_version: env!("CARGO_PKG_VERSION").to_owned(),
        run_id: prepared.run_id.clone(),
        outputs: outputs(prepared, made),
        title,
        source_time: source_time(prepared),
        meta,
    };
    let version = item.stream.item_version();
    let value = item.into_value();
    if let Some(first) = schema::violations_unquoted(&schema::validator(version), &value, 1).first()
    {
        return Err(first.to_string());
    }
    Ok(crate::contract::json::line(&value).into_bytes())
}

/// When the sources were made. Sources without a date have a moment of the day that the summary is filed
/// under, and those of a day without a time a moment of that day, so that every reader finds the summary on
/// that day.
fn source_time(prepared: &Prepared) -> Timestamp {
    let (common, created) = (&prepared.resolved.common, prepared.request.created_at);
    let at = common.start_ms.map_or(created, Timestamp);
    let precision = prepared.surroundings.input.time_precision(common.start_ms);
    let (day, zone) = (prepared.pointer.day, prepared.surroundings.zone.unwrap_or(Tz::UTC));
    match precision {
        TimePrecision::Unknown if at.day_in(zone) != day => day.start_in(zone),
        // A day without a time counts as its noon in UTC, which is of the next day in zones far to the east.
        TimePrecision::Day if at == at.day_in(Tz::UTC).noon() => {
            Timestamp(Moment::Day(at.day_in(Tz::UTC)).event_millis(zone))
        }
        _ => at,
    }
}

/// The day on which the sources were written, by the clocks of their writers, where it is not that of the time of the
/// item; a word where they have several days.
fn written_day(prepared: &Prepared) -> Option<String> {
    let input = &prepared.surroundings.input;
    if input.time_precision(prepared.resolved.common.start_ms) == TimePrecision::Unknown {
        return None;
    }
    let day = input.day_as_written();
    let shown = source_time(prepared).day_in(Tz::UTC).to_string();
    (day.as_ref() != Some(&shown)).then(|| day.unwrap_or_else(|| SEVERAL_DAYS.to_owned()))
}

/// How many of the sources the flow read. A flow that made a source of its own input has no say.
pub(crate) fn counts(prepared: &Prepared, coverage: &Coverage) -> SourceCounts {
    let known = prepared.input.counts;
    let used = coverage.sources_used as u64;
    match coverage.sources_total as u64 == known.sources && used <= known.sources {
        true => SourceCounts { sources: known.sources, used, skipped: known.sources - used },
        false => known,
    }
}

/// The selection, with the counts of what the flow read, and the hash of what it was told beside the
/// texts.
fn selection(prepared: &Prepared, coverage: &Coverage) -> Value {
    let mut selection = prepared.resolved.selection.clone();
    let counts = counts(prepared, coverage);
    if counts != prepared.input.counts {
        let mut reasons: BTreeMap<&str, u64> = BTreeMap::new();
        for source in &coverage.skipped {
            *reasons.entry(&source.reason).or_default() += 1;
        }
        selection["counts"] = json!(counts);
        selection["skip_reasons"] = json!(reasons);
    }
    if let Some(context) = prepared.context.to_value() {
        selection["context"] = context;
    }
    let origins = prepared.surroundings.input.origins();
    if !origins.is_empty() {
        selection["origins"] = json!(origins);
    }
    if let Some(reasons) = prepared.data.to_value() {
        selection["privacy"] = reasons;
    }
    if prepared.resolved.bus == Bus::Other {
        let people = prepared.surroundings.input.people();
        // `forget` finds texts on the other buses by their records.
        let named = prepared.surroundings.input.authors();
        let named = named.as_deref().map(Person::names_in).unwrap_or_default();
        if !people.is_subset(&named) {
            selection["authors"] = json!(people);
        }
    }
    if let Some(hash) = question_hash(&prepared.request.work.params) {
        selection["question_hash"] = hash.into();
    }
    // What the request said beside its sources may be in the answer too.
    let params = &prepared.request.work.params;
    if !params.is_empty() {
        selection["params_hash"] = jcs_hash(&json!(params)).prefixed().into();
    }
    selection
}

/// The flow's title. One that only repeats the first words of the text says nothing, so that the title
/// of the source comes before it. Of a list, no sentence is a title.
fn title(made: &FlowOutcome, of_source: Option<&str>, is_list: bool) -> Option<String> {
    let text = made.summary.summary_text.trim_start();
    let repeats = |title: &str| match is_list {
        true => text.contains(title.trim()),
        false => text.starts_with(title.trim()),
    };
    let own = made.summary.title.as_deref().filter(|own| of_source.is_none() || !repeats(own));
    own.or(of_source).map(str::to_owned)
}

fn owned(ids: Vec<&str>) -> Vec<String> {
    ids.into_iter().map(str::to_owned).collect()
}

fn outputs(prepared: &Prepared, made: FlowOutcome) -> Map<String, Value> {
    let mut outputs = object(json!(made.summary));
    outputs.remove("meta");
    // The item has the title.
    outputs.remove("title");
    let left_out = take_equal_renderings(&mut outputs);
    let mut put = |name: &str, value: Value| {
        outputs.insert(name.to_owned(), value);
    };
    put("model_generated", made.model_generated.into());
    put("schema_id", json!(made.schema_id));
    let mut quality = json!(made.quality);
    // A summary of a range in which days are missing is not a summary of the range.
    for member in ["missing_days", "missing_days_count"] {
        if let Some(value) = prepared.resolved.selection.get(member) {
            quality[member] = value.clone();
        }
    }
    put("quality", quality);
    put("coverage", json!(made.coverage));
    let (located, unlocated) = evidence_refs(prepared, &made.evidence, &made.structured, &left_out);
    put("evidence_refs", located);
    if unlocated > 0 {
        put("evidence_unlocated", unlocated.into());
    }
    // A tree of one node says what the text says.
    if let Some(tree) = made.hierarchy.filter(|tree| tree.nodes.len() > 1) {
        put("hierarchy_version", HIERARCHY_VERSION.into());
        put("node_count", tree.nodes.len().into());
        put("leaf_count", tree.leaf_count().into());
        put("hierarchy", tree.into_value());
    }
    let structured = without_repetition(made.structured, &outputs);
    outputs.insert("structured".to_owned(), structured);
    outputs
}

/// An evidence pointer for each passage of a source that the answer quotes, with the places in the answer
/// that quote it, and the number of quotes that no source holds. A rendering that was `left_out` is no place.
fn evidence_refs(
    prepared: &Prepared,
    evidence: &[EvidenceRef],
    answer: &Value,
    left_out: &[&str],
) -> (Value, usize) {
    let mut refs: Vec<Value> = Vec::new();
    let mut known: HashMap<String, usize> = HashMap::new();
    let mut unlocated = 0;
    let is_left_out = |one: &&EvidenceRef| {
        one.pointer.strip_prefix('/').is_some_and(|name| left_out.contains(&name))
    };
    let mut passages: Vec<(&str, Option<Passage<'_>>)> = Vec::new();
    let kept: Vec<&EvidenceRef> = evidence.iter().filter(|one| !is_left_out(one)).collect();
    for of_member in kept.chunk_by(|a, b| a.pointer == b.pointer) {
        let pointer = of_member[0].pointer.as_str();
        let found = of_member.iter().map(|one| Passage::of(prepared, one));
        let found: Vec<Option<Passage<'_>>> = found.collect();
        let said = answer.pointer(pointer).and_then(Value::as_str);
        match Passage::whole(&found).filter(|whole| Some(whole.words()) == said) {
            Some(whole) => passages.push((pointer, Some(whole))),
            None => passages.extend(found.into_iter().map(|one| (pointer, one))),
        }
    }
    for (pointer, passage) in passages {
        let Some(passage) = passage else {
            unlocated += 1;
            continue;
        };
        let (id, value) = passage.to_value();
        let at = *known.entry(id).or_insert(refs.len());
        if at == refs.len() {
            refs.push(value);
        }
        let is_the_quote = answer.pointer(pointer).and_then(Value::as_str) == Some(passage.words());
        let Some(members) = refs[at].as_object_mut() else { continue };
        let first = is_the_quote && members.remove("quote").is_some();
        if let Some(pointers) = members.get_mut("pointers").and_then(Value::as_array_mut) {
            let place = if first { 0 } else { pointers.len() };
            pointers.insert(place, pointer.into());
        }
    }
    (refs.into(), unlocated)
}

/// A passage of a source.
#[derive(Clone, Copy)]
struct Passage<'a> {
    source: Source<'a>,
    text: &'a str,
    start: usize,
    end: usize,
}

impl<'a> Passage<'a> {
    /// The passage of a quote that occurs in a source.
    fn of(prepared: &'a Prepared, evidence: &EvidenceRef) -> Option<Passage<'a>> {
        let (id, start, end) = (evidence.source_id.as_ref()?, evidence.start?, evidence.end?);
        let place = prepared.texts.iter().position(|source| source.id == *id)?;
        let text = prepared.texts[place].text.as_str();
        text.get(start..end)?;
        Some(Passage { source: prepared.resolved.sources.get(place)?, text, start, end })
    }

    /// The passage that several make together, if only white space is between them.
    fn whole(all: &[Option<Passage<'a>>]) -> Option<Passage<'a>> {
        let mut whole = (*all.first()?)?;
        for next in &all[1..] {
            let next = (*next)?;
            let between = next.text.get(whole.end..next.start)?;
            if next.source.id != whole.source.id || !between.trim().is_empty() {
                return None;
            }
            whole.end = next.end;
        }
        Some(whole)
    }

    /// The words as the source has them: a reader of the pointer compares bytes.
    fn words(&self) -> &'a str {
        self.text.get(self.start..self.end).unwrap_or_default()
    }

    /// An evidence pointer with its id. It names no place yet.
    fn to_value(self) -> (String, Value) {
        let span =
            Span { start: self.start as u64, end: self.end as u64, unit: SpanUnit::Utf8Byte };
        let namespace = namespace(&self.source);
        let words = self.words();
        let id = evidence_id(&namespace, self.source.id, span, Some(sha256(words)));
        let value = json!({
            "evidence_id": id,
            "namespace": namespace,
            "chunk_id": self.source.id,
            "span": {"start": span.start, "end": span.end},
            "quote": words,
            "pointers": [],
        });
        (id, value)
    }
}

fn namespace(source: &Source<'_>) -> String {
    match source.index_id {
        Some(index) => format!("idx:{index}"),
        None => format!("corp:{}", source.bus),
    }
}

fn meta(prepared: &Prepared, made: &FlowOutcome) -> Map<String, Value> {
    let (work, common) = (&prepared.request.work, &prepared.resolved.common);
    let context = &prepared.surroundings.input;
    // The flow's own values come first, so that known values replace them.
    let mut meta = made.summary.meta.clone();
    let param = work.params.get("project").and_then(Value::as_str).map(str::to_owned);
    let source = common.project.clone().or_else(|| context.project().map(str::to_owned));
    let from = match (&param, &source, meta.contains_key("project")) {
        (Some(_), ..) => Some("request"),
        (None, Some(_), _) => Some("source"),
        (None, None, true) => Some("flow"),
        (None, None, false) => None,
    };
    let place = context.place();
    let known = [
        ("authors", context.authors()),
        ("category", made.summary.category.clone()),
        ("format_type", made.summary.format_type.clone()),
        ("conversation_id", common.conversation_id.clone()),
        ("project", param.or(source)),
        ("project_from", from.map(str::to_owned)),
        ("repo", Some(prepared.request.requested_by.repo.clone()).filter(|repo| !repo.is_empty())),
        ("folder", place.folder),
        ("feed", place.feed),
        ("mailbox", place.mailbox),
        ("label", place.label),
        ("source_url", place.url),
        ("source_name", context.name()),
        ("variant", work.variant.clone()),
        ("flow_id", Some(work.flow_id.clone())),
        ("summary_kind", Some(work.kind.to_string())),
        ("summary_subkind", Some(work.subkind.clone())),
    ];
    for (name, value) in known {
        debug_assert!(META_NAMES.contains(&name), "{name} is missing in META_NAMES");
        if let Some(value) = value {
            meta.insert(name.to_owned(), value.into());
        }
    }
    let precision = context.time_precision(common.start_ms);
    meta.extend(precision.member().map(|(name, word)| (name.to_owned(), word.into())));
    meta.extend(written_day(prepared).map(|day| (WRITTEN_DAY.to_owned(), day.into())));
    // A mark as private from upstream, the request or the flow keeps the item private.
    let flags = [publish::said(meta.get("publish")), common.publish];
    let flags = flags.into_iter().chain([asked_to_publish(&prepared.request, &prepared.pack)]);
    meta.remove("publish");
    meta.extend(publish::together(flags).map(|flag| ("publish".to_owned(), flag.into())));
    // What a flow wrote under this name says nothing of its sources.
    meta.remove(LOCAL_ONLY);
    meta.extend(prepared.data.is_local_only().then(|| (LOCAL_ONLY.to_owned(), true.into())));
    meta
}

/// What the parameters of the request say, in the spellings that people use. An input of the flow says
/// nothing by its name.
pub(super) fn asked_to_publish(request: &Request, pack: &ReadyPack) -> Option<bool> {
    let is_input = |name: &str| pack.inputs().iter().any(|input| input.name == name);
    let mut marks = request.work.params.clone();
    marks.retain(|name, _| name == "publish" || !is_input(name));
    publish::said_by_record(&marks)
}

/// The members of a JSON object.
fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(members) => members,
        _ => Map::new(),
    }
}
