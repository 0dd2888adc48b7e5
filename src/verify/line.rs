//! The fast look at a summary line: a typed, borrowing parse that accepts only what the schema
//! accepts. What it does not accept is looked at again, slowly, by the schema itself, which then
//! says what is wrong. So its only duty is never to accept too much; a test holds it to that.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny};

use crate::contract::hash::Digest;
use crate::contract::vocabulary::{Stream, SummaryKind};
use crate::export::item::{ContextIdentity, LineFacts, SummaryIdentity, summary_id};
use crate::facts::attempt::SourceCounts;
use crate::upstream::record::{Text, object, whole_object};

/// A summary line, as far as `verify` uses it.
#[derive(Debug, Deserialize)]
pub(super) struct SummaryLine<'a> {
    #[serde(borrow)]
    schema_version: Text<'a>,
    #[serde(borrow)]
    pub summary_id: Text<'a>,
    #[serde(borrow)]
    pub day: Text<'a>,
    #[serde(borrow)]
    source_type: Text<'a>,
    #[serde(borrow)]
    pub source_ids: Vec<Text<'a>>,
    #[serde(borrow, default, deserialize_with = "present")]
    pub event_ids: Option<Vec<Text<'a>>>,
    #[serde(borrow, default, deserialize_with = "present")]
    document_id: Option<Text<'a>>,
    #[serde(borrow, default, deserialize_with = "present")]
    pub chunk_ids: Option<Vec<Text<'a>>>,
    #[serde(borrow, default, deserialize_with = "present")]
    document_ids: Option<Vec<Text<'a>>>,
    #[serde(borrow, deserialize_with = "object")]
    pub selection: Selection<'a>,
    #[serde(borrow, deserialize_with = "object")]
    model: Model<'a>,
    #[serde(borrow, deserialize_with = "object")]
    prompt: Prompt<'a>,
    #[serde(borrow, deserialize_with = "object")]
    producer: Producer<'a>,
    #[serde(borrow, deserialize_with = "object")]
    pub outputs: Outputs<'a>,
    #[serde(borrow, default, deserialize_with = "present")]
    id: Option<Text<'a>>,
    #[serde(borrow)]
    #[allow(dead_code, reason = "only its type is checked")]
    title: Option<Text<'a>>,
    #[serde(default, deserialize_with = "present")]
    ts_abs_ms: Option<i64>,
    #[serde(borrow, default, deserialize_with = "present")]
    #[allow(dead_code, reason = "only its type is checked")]
    ts_abs: Option<Text<'a>>,
    #[serde(borrow, default, deserialize_with = "present")]
    source_ref: Option<Text<'a>>,
    #[serde(borrow, default, deserialize_with = "present_object")]
    meta: Option<Meta<'a>>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Selection<'a> {
    #[serde(borrow)]
    selection_type: Text<'a>,
    #[serde(borrow)]
    pub source_text_hash: Text<'a>,
    #[serde(borrow, deserialize_with = "object")]
    pub normalization: Normalization<'a>,
    #[serde(default, deserialize_with = "present_object")]
    counts: Option<SourceCounts>,
    #[serde(default, deserialize_with = "present")]
    skip_reasons: Option<BTreeMap<String, u64>>,
    #[serde(borrow, default)]
    session_ids: Option<Vec<Text<'a>>>,
    #[serde(borrow, default)]
    anchor: Option<Text<'a>>,
    #[serde(default)]
    pub title_as_text: Option<bool>,
    #[serde(borrow, default)]
    context: Option<Context<'a>>,
}

/// What the sources said beside their texts.
#[derive(Debug, Deserialize)]
struct Context<'a> {
    #[serde(borrow, default)]
    sha256: Option<Text<'a>>,
    #[serde(default)]
    publish: Option<bool>,
    #[serde(borrow, default)]
    missing_days: Option<Text<'a>>,
    #[serde(default)]
    local_only: bool,
}

impl Selection<'_> {
    fn context(&self) -> ContextIdentity {
        let Some(context) = &self.context else { return ContextIdentity::default() };
        let hash = |text: &Option<Text<'_>>| text.as_ref().and_then(|hash| hash.0.parse().ok());
        ContextIdentity {
            sha256: hash(&context.sha256),
            publish: context.publish,
            missing_days: hash(&context.missing_days),
            local_only: context.local_only,
        }
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct Normalization<'a> {
    #[serde(borrow)]
    pub name: Text<'a>,
    #[serde(borrow)]
    pub version: Text<'a>,
}

#[derive(Debug, Deserialize)]
struct Model<'a> {
    #[serde(borrow)]
    provider: Text<'a>,
    #[serde(borrow)]
    model_name: Text<'a>,
    #[serde(borrow)]
    #[allow(dead_code, reason = "only its type is checked")]
    model_version: Text<'a>,
    // Required but nullable: the outer level says whether it is there.
    #[serde(deserialize_with = "nullable")]
    #[allow(dead_code, reason = "only its type is checked")]
    temperature: Option<f64>,
    #[serde(deserialize_with = "nullable")]
    #[allow(dead_code, reason = "only its type is checked")]
    max_tokens: Option<i64>,
}

#[derive(Debug, Deserialize)]
struct Prompt<'a> {
    #[serde(borrow)]
    prompt_hash: Text<'a>,
    #[serde(borrow)]
    template_id: Text<'a>,
    #[serde(borrow)]
    #[allow(dead_code, reason = "only its type is checked")]
    prompt_version: Text<'a>,
}

#[derive(Debug, Deserialize)]
struct Producer<'a> {
    #[serde(borrow)]
    summarizer_version: Text<'a>,
    #[serde(borrow)]
    run_id: Text<'a>,
    #[serde(borrow, default)]
    name: Option<Text<'a>>,
}

#[derive(Debug, Deserialize)]
#[allow(dead_code, reason = "only the types are checked")]
pub(super) struct Outputs<'a> {
    #[serde(borrow)]
    summary_text: Text<'a>,
    #[serde(borrow, default, deserialize_with = "present")]
    summary: Option<Text<'a>>,
    #[serde(borrow, default, deserialize_with = "present_object")]
    quality: Option<Quality<'a>>,
    #[serde(borrow, default, deserialize_with = "present")]
    tags: Option<Vec<Text<'a>>>,
    #[serde(borrow, default, deserialize_with = "present")]
    topics: Option<Vec<Text<'a>>>,
    #[serde(borrow, default)]
    category: Option<Text<'a>>,
    #[serde(default, deserialize_with = "present")]
    actions: Option<Vec<IgnoredAny>>,
    #[serde(default)]
    confidence: Option<f64>,
    #[serde(borrow, default)]
    format_type: Option<Text<'a>>,
    #[serde(borrow, default)]
    notes: Option<Text<'a>>,
    #[serde(default, deserialize_with = "present")]
    model_generated: Option<bool>,
    /// Anything hierarchical goes the slow way, which knows how to check it.
    #[serde(default)]
    hierarchy: Option<IgnoredAny>,
    #[serde(default)]
    hierarchy_version: Option<IgnoredAny>,
    #[serde(default, deserialize_with = "present")]
    node_count: Option<u64>,
    #[serde(default, deserialize_with = "present")]
    leaf_count: Option<u64>,
    #[serde(borrow, default, deserialize_with = "present")]
    evidence_refs: Option<Vec<InObject<Evidence<'a>>>>,
    #[serde(default, deserialize_with = "present")]
    uncertainties: Option<Vec<IgnoredAny>>,
    #[serde(borrow, default, deserialize_with = "present")]
    rendered_short: Option<Text<'a>>,
    #[serde(borrow, default, deserialize_with = "present")]
    rendered_medium: Option<Text<'a>>,
    #[serde(borrow, default, deserialize_with = "present")]
    rendered_long: Option<Text<'a>>,
}

#[derive(Debug, Deserialize)]
#[allow(dead_code, reason = "only the types are checked")]
struct Quality<'a> {
    #[serde(borrow)]
    checks: Vec<Text<'a>>,
    repaired: bool,
    truncated: bool,
    /// An item with removed ids, removed quotes or replaced labels is rare; it goes the slow way.
    #[serde(default)]
    removed_ids: Option<IgnoredAny>,
    #[serde(default)]
    removed_ids_count: Option<IgnoredAny>,
    #[serde(default)]
    removed_quotes: Option<IgnoredAny>,
    #[serde(default)]
    removed_quotes_count: Option<IgnoredAny>,
    #[serde(default)]
    replaced_labels: Option<IgnoredAny>,
    #[serde(default)]
    replaced_labels_count: Option<IgnoredAny>,
    #[serde(borrow, default)]
    null_means: Option<Text<'a>>,
    #[serde(default)]
    missing_days: Option<IgnoredAny>,
    #[serde(default)]
    facts_from_params: Option<IgnoredAny>,
}

#[derive(Debug, Deserialize)]
struct Meta<'a> {
    #[serde(borrow, default)]
    summary_kind: Option<Text<'a>>,
    #[serde(borrow, default)]
    summary_subkind: Option<Text<'a>>,
}

/// A passage of a source, as an item lists it.
#[derive(Debug, Deserialize)]
#[allow(dead_code, reason = "only the types are checked")]
struct Evidence<'a> {
    #[serde(borrow)]
    evidence_id: Text<'a>,
    #[serde(borrow)]
    namespace: Text<'a>,
    #[serde(borrow)]
    chunk_id: Text<'a>,
    #[serde(deserialize_with = "object")]
    span: Place,
    #[serde(borrow, default, deserialize_with = "present")]
    quote: Option<Text<'a>>,
    #[serde(borrow)]
    pointers: Vec<Text<'a>>,
}

#[derive(Debug, Deserialize)]
#[allow(dead_code, reason = "only the types are checked")]
struct Place {
    start: u64,
    end: u64,
}

/// What must stand in an object: a derived reader takes a list of its members as well.
#[derive(Debug)]
struct InObject<T>(T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for InObject<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        object(deserializer).map(InObject)
    }
}

/// A member that may be absent but not null.
fn present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

/// A member that may be absent, and is an object when it is not.
fn present_object<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    object(deserializer).map(Some)
}

/// A member that may be null but not absent.
fn nullable<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    Option::<T>::deserialize(deserializer)
}

impl<'a> SummaryLine<'a> {
    /// The line, when the schema of the stream certainly accepts it.
    pub(super) fn accept(text: &'a str, stream: Stream) -> Option<SummaryLine<'a>> {
        let line = SummaryLine::read(text)?;
        line.is_plainly_valid(stream).then_some(line)
    }

    /// The line as far as it can be read, without asking whether it is valid.
    pub(super) fn read(text: &'a str) -> Option<SummaryLine<'a>> {
        whole_object(text).ok()
    }

    fn is_plainly_valid(&self, stream: Stream) -> bool {
        let filled = |text: &Text<'_>| !text.0.is_empty();
        let all = |list: &Option<Vec<Text<'_>>>| list.iter().flatten().all(filled);
        let optional = |text: &Option<Text<'_>>| text.as_ref().is_none_or(filled);
        let shape = match stream {
            Stream::Events => true,
            Stream::Sessions => self.event_ids.is_some() && self.source_ids.len() == 1,
            Stream::Documents => {
                matches!(&*self.selection.selection_type.0, "document_full" | "document_slice")
            }
            Stream::ChunkSets => matches!(
                &*self.selection.selection_type.0,
                "chunk_set" | "document_subset" | "selection_manifest"
            ),
        };
        shape
            && self.schema_version.0 == stream.item_version()
            && self.source_type.0 == stream.source_type()
            && self.day.0.parse::<crate::contract::time::Day>().is_ok()
            && !self.source_ids.is_empty()
            && self.source_ids.iter().all(filled)
            && [&self.event_ids, &self.chunk_ids, &self.document_ids].into_iter().all(all)
            && self.selection.source_text_hash.0.parse::<Digest>().is_ok()
            && [
                &self.summary_id,
                &self.selection.selection_type,
                &self.selection.normalization.name,
                &self.selection.normalization.version,
                &self.model.provider,
                &self.model.model_name,
                &self.prompt.prompt_hash,
                &self.prompt.template_id,
                &self.producer.summarizer_version,
                &self.producer.run_id,
            ]
            .into_iter()
            .all(filled)
            && [&self.id, &self.source_ref, &self.document_id].into_iter().all(optional)
            // An empty object is refused by the schema; one without these members goes there too.
            && self.meta.as_ref().is_none_or(|meta| meta.summary_kind.is_some())
            && self.outputs.summary.as_ref().is_none_or(filled)
            && self.outputs.quality.as_ref().is_none_or(|quality| {
                let changes = [
                    &quality.removed_ids,
                    &quality.removed_ids_count,
                    &quality.removed_quotes,
                    &quality.removed_quotes_count,
                    &quality.replaced_labels,
                    &quality.replaced_labels_count,
                    &quality.missing_days,
                    &quality.facts_from_params,
                ];
                changes.iter().all(|one| one.is_none())
                    && quality.null_means.as_ref().is_none_or(|why| why.0 == "not_given")
            })
            && self.outputs.evidence_refs.iter().flatten().all(|one| !one.0.pointers.is_empty())
            && self.outputs.hierarchy.is_none()
            && self.outputs.hierarchy_version.is_none()
    }

    /// What a manifest says of it.
    pub(super) fn facts(&self) -> LineFacts<'_> {
        LineFacts {
            summary_id: &self.summary_id.0,
            source_time_ms: self.ts_abs_ms,
            model_name: &self.model.model_name.0,
            prompt_hash: &self.prompt.prompt_hash.0,
            counts: self.selection.counts.unwrap_or_default(),
            skip_reasons: self.selection.skip_reasons.as_ref(),
        }
    }

    /// The id this line ought to have, when it says that we made it.
    pub(crate) fn expected_id(&self, stream: Stream) -> Option<String> {
        if self.producer.name.as_ref()?.0 != "summarizer" {
            return None;
        }
        let meta = self.meta.as_ref()?;
        let kind = SummaryKind::parse(&meta.summary_kind.as_ref()?.0)?;
        let subkind = &meta.summary_subkind.as_ref()?.0;
        let checksum: Digest = self.selection.source_text_hash.0.parse().ok()?;
        let ids = match stream {
            Stream::Sessions => self.selection.session_ids.as_ref().unwrap_or(&self.source_ids),
            _ => &self.source_ids,
        };
        Some(summary_id(&SummaryIdentity {
            stream,
            kind,
            subkind,
            primary_ids: ids,
            source_text_hash: &checksum,
            prompt_hash: &self.prompt.prompt_hash.0,
            provider: &self.model.provider.0,
            model: &self.model.model_name.0,
            context: self.selection.context(),
        }))
    }

    /// The ids whose texts were hashed, in order, and whether they are plain files.
    pub(crate) fn text_ids(&self, stream: Stream) -> (Cow<'_, [Text<'a>]>, bool) {
        let other = self.selection.anchor.as_ref().is_some_and(|anchor| anchor.0 == "other");
        let ids = match stream {
            Stream::Sessions => self.event_ids.as_ref(),
            Stream::Documents if !other => self.chunk_ids.as_ref(),
            _ => Some(&self.source_ids),
        };
        (ids.map_or(Cow::Borrowed(&[]), |ids| Cow::Borrowed(ids.as_slice())), other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::schema;
    use crate::export::item::tests::sample;
    use serde_json::{Value, json};

    /// Every place in a JSON value, as pointers.
    fn pointers(value: &Value, here: &str, found: &mut Vec<String>) {
        found.push(here.to_owned());
        match value {
            Value::Object(map) => {
                map.iter()
                    .for_each(|(key, value)| pointers(value, &format!("{here}/{key}"), found));
            }
            Value::Array(list) => list
                .iter()
                .enumerate()
                .for_each(|(index, value)| pointers(value, &format!("{here}/{index}"), found)),
            _ => {}
        }
    }

    fn rich(stream: Stream) -> Value {
        let mut line = sample(stream, 1).to_value();
        line["outputs"] = json!({
            "summary_text": "s", "tags": ["a"], "topics": ["b"], "category": "c", "actions": [1],
            "confidence": 0.5, "format_type": "f", "notes": "n", "model_generated": true,
            "node_count": 1, "leaf_count": 1, "uncertainties": ["u"],
            "evidence_refs": [{"evidence_id": "e", "namespace": "n", "chunk_id": "c",
                "span": {"start": 0, "end": 1}, "quote": "q", "pointers": ["/summary_text"]}],
            "rendered_short": "s", "rendered_medium": "m", "rendered_long": "l",
        });
        line
    }

    #[test]
    fn lines_that_the_fast_check_accepts_fit_the_schema() {
        let replacements = [
            json!(null),
            json!(""),
            json!("x"),
            json!(-1),
            json!(1.5),
            json!([]),
            json!({}),
            json!(true),
            json!([""]),
        ];
        for stream in Stream::ALL {
            let line = rich(*stream);
            assert!(SummaryLine::accept(&line.to_string(), *stream).is_some(), "{stream}");
            let mut places = Vec::new();
            pointers(&line, "", &mut places);
            let mut accepted = 0;
            for place in places.iter().filter(|place| !place.is_empty()) {
                let (parent, key) = place.rsplit_once('/').unwrap();
                let mut variants: Vec<Value> = replacements
                    .iter()
                    .map(|replacement| {
                        let mut changed = line.clone();
                        *changed.pointer_mut(place).unwrap() = replacement.clone();
                        changed
                    })
                    .collect();
                let mut without = line.clone();
                if let Some(map) = without.pointer_mut(parent).and_then(Value::as_object_mut) {
                    map.remove(key);
                    variants.push(without);
                }
                for changed in variants {
                    if SummaryLine::accept(&changed.to_string(), *stream).is_some() {
                        accepted += 1;
                        let found = schema::check(stream.item_version(), &changed);
                        assert_eq!(
                            found,
                            [],
                            "{stream} {place}: {}",
                            changed.pointer(place).unwrap_or(&json!("gone"))
                        );
                    }
                }
            }
            assert!(accepted > 20, "the mutations must not all be refused");
        }
    }

    #[test]
    fn our_own_ids_are_recomputed() {
        for stream in Stream::ALL {
            let item = sample(*stream, 1);
            let text = item.to_line().unwrap();
            let line = SummaryLine::accept(&text, *stream).unwrap();
            assert_eq!(line.expected_id(*stream).as_deref(), Some(item.summary_id.as_str()));
        }
    }
}
