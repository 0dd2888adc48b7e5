//! What the events of an attempt say about it: the sources it read, why it failed, and the words
//! its summary rests on.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::Value;

use crate::compaction::evidence::Span;
use crate::compaction::payload::EvidencePointer;
use crate::compaction::service_run::{CitedSpan, SourceRead};
use crate::compaction::text::SharedText;
use crate::contract::ids::Seq;
use crate::contract::privacy::without_file_names;
use crate::contract::publish::said;
use crate::contract::vocabulary::ErrorClass;
use crate::digest::said::run_told;
use crate::facts::attempt::SourcePlaces;
use crate::log::{ReadError, Reader};
use crate::markup::prefix;

/// Longest text of a failure that goes into a snapshot, in bytes.
const WHY_BYTES_MAX: usize = 300;
/// Longest name of a source, in bytes.
const NAME_BYTES_MAX: usize = 120;

/// Longest beginning of a summary, in bytes.
const TOLD_BYTES_MAX: usize = 200;

pub(super) fn signal_of(class: Option<ErrorClass>) -> &'static str {
    match class {
        Some(ErrorClass::InputMissing | ErrorClass::StorageUnavailable) => "RETRIEVAL_FAILURE",
        Some(ErrorClass::SchemaMismatch | ErrorClass::IntegrityMismatch) => "SCHEMA_VIOLATION",
        Some(ErrorClass::ModelFailure | ErrorClass::PublishFailure) | None => "TOOL_RUNTIME_ERROR",
    }
}

/// Why something failed, without the name of a file that may be private.
pub(super) fn shortened(text: &str) -> String {
    shortened_to(&without_file_names(text), WHY_BYTES_MAX)
}

/// The beginning of a text; an ellipsis says that there is more.
fn shortened_to(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let shown = prefix(text, most.saturating_sub('…'.len_utf8()));
    format!("{}…", shown.trim_end())
}

/// The sources that an attempt read, by file.
pub(super) fn sources_of(places: &SourcePlaces) -> Vec<SourceRead> {
    let mut by_file: BTreeMap<&str, Vec<SharedText>> = BTreeMap::new();
    for (file, place) in places.iter() {
        by_file.entry(file).or_default().push(SharedText::from(place.id.as_str()));
    }
    let source = |(file, chunk_ids): (&str, Vec<SharedText>)| {
        let source_id = SharedText::from(if file.is_empty() { "unknown" } else { file });
        SourceRead { source_id, chunk_ids }
    };
    by_file.into_iter().map(source).collect()
}

/// The part of an item that says what it rests on.
#[derive(Default, Deserialize)]
pub(super) struct Item {
    #[serde(default)]
    meta: Meta,
    #[serde(default)]
    outputs: Outputs,
}

#[derive(Default, Deserialize)]
struct Meta {
    source_name: Option<String>,
    summary_kind: Option<String>,
    flow_id: Option<String>,
    publish: Option<Value>,
}

#[derive(Default, Deserialize)]
struct Outputs {
    summary: Option<String>,
    summary_text: Option<String>,
    #[serde(default)]
    structured: Structured,
    #[serde(default)]
    evidence_refs: Vec<Ref>,
}

/// What a pipeline run was, and how it ended.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Structured {
    what_ran: Value,
    status: Value,
}

#[derive(Deserialize)]
struct Ref {
    evidence_id: String,
    namespace: Option<String>,
    chunk_id: String,
    span: Span,
    quote: Option<String>,
    quote_sha256: Option<String>,
}

impl Item {
    /// The item that a record of the log has; none when its text is forgotten.
    pub(super) fn at(log: &Reader, seq: Seq) -> Result<Option<Item>, ReadError> {
        let Some(body) = log.kept_body(seq)? else { return Ok(None) };
        let item = serde_json::from_slice(&body);
        item.map(Some).map_err(|error| ReadError::unexpected(seq, error))
    }

    /// Whether a snapshot may name it, because it is not private. A snapshot has no mark of its own.
    pub(super) fn is_for_all(&self) -> bool {
        said(self.meta.publish.as_ref()) != Some(false)
    }

    /// What was summarized by which flow, and the first words of the summary.
    pub(super) fn what(&self) -> String {
        let name = match &self.meta.source_name {
            Some(name) => format!("`{}`", shortened_to(name, NAME_BYTES_MAX)),
            None => self.meta.summary_kind.clone().unwrap_or_else(|| "a summary".to_owned()),
        };
        let who = match &self.meta.flow_id {
            Some(flow) => format!("{name} by {}", shortened_to(flow, NAME_BYTES_MAX)),
            None => name,
        };
        let forms = [&self.outputs.summary, &self.outputs.summary_text].into_iter().flatten();
        let words = |text: &String| text.split_whitespace().collect::<Vec<_>>().join(" ");
        let told = forms.map(words).find(|text| !text.is_empty());
        let Structured { what_ran, status } = &self.outputs.structured;
        let run = run_told(what_ran, status, told.as_deref().unwrap_or_default());
        match run.or(told) {
            Some(text) => {
                format!("{who}: {}", shortened_to(text.trim_end_matches('.'), TOLD_BYTES_MAX))
            }
            None => who,
        }
    }

    pub(super) fn pointers(self, source_of: impl Fn(&str) -> Option<SharedText>) -> Vec<CitedSpan> {
        let mut seen = BTreeSet::new();
        let pointer = |one: Ref| {
            // Quotes are found with white space folded; the span holds exactly the words when it
            // is exactly as long as they are. A pointer without a quote names the member that is it.
            let length = one.span.end.saturating_sub(one.span.start);
            let exact = one.quote.is_none_or(|quote| length == quote.len() as u64);
            let source_id = source_of(&one.chunk_id).unwrap_or_else(|| SharedText::from("unknown"));
            let evidence = EvidencePointer {
                evidence_id: one.evidence_id.into(),
                chunk_id: one.chunk_id.into(),
                span: one.span,
                source_id,
                quote_sha256: one.quote_sha256.map(SharedText::from),
                evidence_namespace: one.namespace.map(SharedText::from),
            };
            CitedSpan { evidence, exact }
        };
        let refs = self.outputs.evidence_refs.into_iter();
        refs.filter(|one| seen.insert(one.evidence_id.clone())).map(pointer).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_a_summary_that_is_not_private_is_named() {
        let item = |publish: Value| -> Item {
            let item = json!({"meta": {"source_name": "diary.md", "flow_id": "f", "publish": publish},
                "outputs": {"summary": "The key opens the vault."}});
            serde_json::from_value(item).unwrap()
        };
        assert_eq!(item(json!(null)).what(), "`diary.md` by f: The key opens the vault");
        let run = json!({"meta": {"source_name": "night.json", "flow_id": "f"}, "outputs": {
            "summary": "finished at: 2026-03-08T01:48:12Z",
            "structured": {"what_ran": "backup", "status": "success"}}});
        let run: Item = serde_json::from_value(run).unwrap();
        assert_eq!(run.what(), "`night.json` by f: backup: success");
        let shown =
            [json!(null), json!(true), json!(false), json!("no")].map(|one| item(one).is_for_all());
        assert_eq!(shown, [true, true, false, false]);
    }
}
