//! From what the nodes of a flow gave to its outcome: summary, evidence, quality and warnings.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::ask::Ledger;
use super::evidence;
use super::exec::Finished;
use super::hierarchy::{Coverage, Hierarchy, first_sentence};
use super::outcome::{FlowOutcome, Quality};
use super::pack::LoadedPack;
use super::project::SummaryOutputs;
use super::render::{ENGINE, ENGINE_VERSION};
use crate::contract::hash::{Digest, sha256};
use crate::model::{BUILTIN, Provider, SourceText};

/// How many members of an answer that the schema does not know are named in the warning.
const UNDECLARED_SHOWN: usize = 10;
/// Characters of the input that replace an empty summary.
const STAND_IN_CHARS: usize = 400;

/// What the nodes gave, before it is turned into an outcome.
pub(super) struct Ran<'a> {
    pub finished: Finished,
    pub outputs: Map<String, Value>,
    pub structured: Value,
    pub hierarchy: Option<Hierarchy>,
    pub sources: Cow<'a, [SourceText]>,
    pub warnings: Vec<String>,
    pub for_aggregation: Map<String, Value>,
}

impl Ran<'_> {
    pub fn outcome(
        self,
        pack: &LoadedPack,
        params: &Map<String, Value>,
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
        let made_by_builtin = provider.is_free() || model.provider == BUILTIN;
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
            prompt_hash: pack.prompt_hash(params),
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
fn rendered_hash(ledger: &Ledger) -> Digest {
    match ledger.rendered.as_slice() {
        [(_, only)] => *only,
        several => {
            let lines: String =
                several.iter().map(|(node, hash)| format!("{hash}  {node}\n")).collect();
            sha256(lines)
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
    summary.rendered_short.get_or_insert_with(|| first_sentence(&text).to_owned());
    summary.rendered_medium.get_or_insert_with(|| root.text.clone());
    let below = root.level.saturating_sub(1);
    let sections: Vec<String> = tree.level(below).map(|node| node.text.clone()).collect();
    summary.rendered_long.get_or_insert_with(|| sections.join("\n\n"));
}
