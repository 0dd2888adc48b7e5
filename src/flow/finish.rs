//! From what the nodes of a flow gave to its outcome: summary, evidence, quality and warnings.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::ask::Ledger;
use super::evidence;
use super::exec::Finished;
use super::hierarchy::{Coverage, Hierarchy, first_sentence};
use super::outcome::{FlowOutcome, ParamFacts, Quality};
use super::pack::LoadedPack;
use super::project::SummaryOutputs;
use super::render::{ENGINE, ENGINE_VERSION};
use super::source_ids::REMOVED_MAX;
use crate::contract::hash::{Digest, sha256};
use crate::contract::time::Day;
use crate::facts::model::PARAMS_IGNORED;
use crate::markup::{html, prefix};
use crate::model::builtin::rank::select::{Budget, compose};
use crate::model::builtin::text::tables::is_record;
use crate::model::builtin::text::{Block, Kind, Part, Text, sentences};
use crate::model::{BUILTIN, Provider, SourceText};

/// How many places of members that the schema does not know, and how many corrected numbers, a warning names.
const UNDECLARED_SHOWN: usize = 10;
/// The warning of an outcome whose question was a short one for a small model, before the members.
pub(crate) const FILLED_BY_RULE: &str = "filled by rule, not by the model: ";
/// The warning of an outcome whose summary is the beginning of its sources, because the flow gave no text.
pub(crate) const TEXT_FROM_SOURCE: &str = "summary_text_from_source";
/// The reason why a member of an output is null: the text gives no value for it.
const NOT_GIVEN: &str = "not_given";
/// The summary of a flow that gave no text.
const NO_TEXT: &str = "There is no text.";
/// Most characters of the summary in a few sentences.
const BRIEF_CHARS: usize = 320;
/// Shortest line that may be wrapped, in characters.
const WRAPPED_CHARS: usize = 60;
/// How much shorter than the longest line a line of a wrapped text may be.
const WRAPPED_NEAR: usize = 15;
/// Bytes of a text in which its greeting and its signature are looked for.
const FRAMED_BYTES_MAX: usize = 8 << 10;
/// Rows of a table that replace an empty summary.
const ROWS_STAND_IN: usize = 3;
/// Characters of the input that replace an empty summary.
const STAND_IN_CHARS: usize = 400;
/// Bytes that are read for it.
const STAND_IN_READ: usize = 64 << 10;

/// What the nodes gave, before it is turned into an outcome.
pub(super) struct GraphOutput<'a> {
    pub finished: Finished,
    pub outputs: Map<String, Value>,
    pub structured: Value,
    pub hierarchy: Option<Hierarchy>,
    pub coverage: Coverage,
    pub sources: Cow<'a, [SourceText]>,
    pub warnings: Vec<String>,
    pub param_facts: ParamFacts,
    pub(crate) for_aggregation: Map<String, Value>,
}

impl GraphOutput<'_> {
    pub(super) fn outcome(
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
                warnings.push(TEXT_FROM_SOURCE.to_owned());
            }
        } else if lists_only_actions(&summary) {
            let told = without_actions(&stand_in(sources), &summary.actions);
            if !told.is_empty() {
                summary.summary_text = format!("{}\n\n{told}", summary.summary_text);
            }
        }
        summary.summary = brief(&summary);
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
        let (removed_ids, removed_quotes) = (ledger.changes.ids(), ledger.changes.quotes());
        let (removed_ids_count, removed_quotes_count) = (removed_ids.len(), removed_quotes.len());
        let replaced_labels_count = ledger.changes.labels.len();
        if pack.id_claims.has_ids() && removed_ids_count == 0 {
            checks.push("source_ids_known".to_owned());
        }
        let is_located = evidence.iter().all(|item| item.located) && removed_quotes_count == 0;
        if !evidence.is_empty() && is_located {
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
            warnings.push(format!(
                "left out, unknown to the schema: {}",
                places_of(&ledger.undeclared)
            ));
        }
        if !ledger.clamped.is_empty() {
            let numbers: Vec<&str> =
                ledger.clamped.iter().take(UNDECLARED_SHOWN).map(String::as_str).collect();
            warnings
                .push(format!("numbers beyond their scale became its end: {}", numbers.join(", ")));
        }
        if !self.param_facts.ignored.is_empty() {
            warnings.push(format!("{PARAMS_IGNORED}{}", self.param_facts.why_ignored()));
        }
        warnings.extend(ledger.corrected.iter().cloned());
        if !ledger.refused.is_empty() {
            let names: Vec<&str> = ledger.refused.iter().map(String::as_str).collect();
            warnings.push(format!(
                "not sent, because the server of the model does not take it: {}",
                names.join(", ")
            ));
        }
        warnings.extend(ledger.cuts.iter().cloned());
        warnings.extend(ledger.truncated.iter().map(|node| {
            format!("node {node}: the answer was cut off at the token limit; raise max_tokens")
        }));
        if ledger.pictures > 0 {
            warnings.push(format!(
                "left out, because models get texts only: pictures ({})",
                ledger.pictures
            ));
        }
        if !ledger.derived.is_empty() {
            warnings.push(format!("{FILLED_BY_RULE}{}", ledger.derived.join(", ")));
        }
        if ledger.redacted > 0 {
            warnings.push(format!("{} passages were redacted before sending", ledger.redacted));
        }
        let has_null = has_null(&self.structured);
        FlowOutcome {
            outputs: self.outputs,
            summary,
            schema_id: pack.record.declared_outputs.output_schema_id.clone(),
            structured: self.structured,
            hierarchy: self.hierarchy,
            coverage: self.coverage,
            evidence,
            quality: Quality {
                checks,
                repaired: ledger.repaired,
                truncated: !ledger.truncated.is_empty(),
                condensed_cut: ledger.condensed_cut,
                removed_ids: removed_ids.into_iter().take(REMOVED_MAX).collect(),
                removed_ids_count,
                removed_quotes: removed_quotes.into_iter().take(REMOVED_MAX).collect(),
                removed_quotes_count,
                replaced_labels: ledger.changes.labels.into_iter().take(REMOVED_MAX).collect(),
                replaced_labels_count,
                null_means: has_null.then(|| NOT_GIVEN.to_owned()),
                facts_from_params: self.param_facts.used.clone(),
            },
            model,
            model_generated: !made_by_builtin,
            prompt_hash: pack.prompt_hash(params),
            rendered_prompt_sha256,
            engine: ENGINE,
            engine_version: ENGINE_VERSION,
            usage: ledger.usage,
            warnings,
            param_facts: self.param_facts,
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
    if let Some(rows) = first_rows(sources) {
        return rows;
    }
    // Enough for the beginning of what a reader sees.
    let read = html::plain(prefix(source.text.trim(), STAND_IN_READ).to_owned());
    let text = without_frame(below_headers(read.trim()));
    let end = text.char_indices().nth(STAND_IN_CHARS).map_or(text.len(), |(at, _)| at);
    let cut = &text[..end];
    let last = [". ", ".\n", "! ", "? "].iter().filter_map(|sign| cut.rfind(sign)).max();
    match last {
        Some(at) if end < text.len() => cut[..=at].to_owned(),
        _ => cut.trim_end().to_owned(),
    }
}

/// Whether a summary says only what there is to do, and not what the source is about.
fn lists_only_actions(summary: &SummaryOutputs) -> bool {
    let is_action =
        |line: &str| summary.actions.iter().any(|action| line.starts_with(action.trim()));
    let mut lines = summary.summary_text.lines().map(str::trim).filter(|line| !line.is_empty());
    !summary.actions.is_empty() && lines.all(is_action)
}

/// The sentences of a text, on one line, without those that say what there is to do.
fn without_actions(text: &str, actions: &[String]) -> String {
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let said: Vec<String> = actions.iter().map(|action| words(action)).collect();
    let mut kept = Vec::new();
    sentences::split(text, 0..text.len(), |range| kept.push(words(&text[range])));
    kept.retain(|sentence| {
        let is_said = |action: &String| {
            action.contains(sentence.as_str()) || sentence.contains(action.as_str())
        };
        !sentence.is_empty() && !said.iter().any(is_said)
    });
    let told = kept.join(" ");
    // Behind a greeting a sentence begins with a small letter.
    let mut letters = told.chars();
    match letters.next().filter(|first| first.is_lowercase()) {
        Some(first) => first.to_uppercase().chain(letters).collect(),
        None => told,
    }
}

/// The first rows of a table, as sentences; `None` where the sources are no rows.
fn first_rows(sources: &[SourceText]) -> Option<String> {
    let parts = sources.iter().take(ROWS_STAND_IN);
    let parts: Vec<Part<'_>> = parts.map(|one| Part { id: &one.id, text: &one.text }).collect();
    if !is_record(&parts, 0) {
        return None;
    }
    let rows = Text::new(parts);
    let all: Vec<usize> = (0..rows.sentences.len()).collect();
    let budget = Budget { sentences: all.len(), bytes: STAND_IN_CHARS };
    Some(compose(&rows, &all, budget).text)
}

/// A text without the greeting it begins with and the signature it ends with.
fn without_frame(text: &str) -> &str {
    let head = prefix(text, FRAMED_BYTES_MAX);
    let read = Text::new(vec![Part { id: "", text: head }]);
    let is_frame = |block: &&Block| block.kind == Kind::Signature;
    // A greeting stands above the words of a mail, and a signature below them.
    let is_above = |block: &&Block| {
        matches!(block.kind, Kind::Signature | Kind::Header | Kind::Heading(_) | Kind::Link)
    };
    let words = read.blocks.iter().take_while(is_above).count();
    let (above, below) = read.blocks.split_at(words);
    let below = below.iter().take_while(|block| !is_frame(block));
    let mut said = above.iter().filter(|block| !is_frame(block)).chain(below);
    let Some(first) = said.next() else { return text };
    // Behind words no code follows: calls of tools and texts of attachments are not what somebody said. Nor is the mail
    // that an answer quotes.
    let is_said = |block: &&Block| {
        [Kind::Code, Kind::Quote].iter().all(|kind| first.kind == *kind || block.kind != *kind)
    };
    let last = said.take_while(is_said).last().unwrap_or(first);
    // A heading and a list keep their marks: a line is kept whole.
    let start = head[..first.text.start].rfind('\n').map_or(0, |at| at + 1);
    let end = head[last.text.end..].find('\n').map_or(head.len(), |at| last.text.end + at);
    if head.len() < text.len() { &text[start..] } else { head[start..end].trim_end() }
}

/// The summary in a few sentences on one line: the pack's short rendering, unless that is only the
/// title, else the beginning of its text.
fn brief(summary: &SummaryOutputs) -> String {
    let title = summary.title.as_deref().unwrap_or_default().trim();
    let short = summary.rendered_short.as_deref().map(str::trim);
    let short = short.filter(|short| !short.is_empty() && *short != title);
    let text = short.unwrap_or(&summary.summary_text);
    let told = told_in(text, BRIEF_CHARS);
    let signs = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match (told.is_empty(), title.is_empty(), signs.is_empty()) {
        (false, ..) => told,
        (true, false, _) => title.to_owned(),
        // A text of signs without words.
        (true, true, false) => signs.chars().take(BRIEF_CHARS).collect(),
        (true, true, true) => NO_TEXT.to_owned(),
    }
}

/// The first sentences of a text, as many as fit; at least a part of the first.
fn told_in(text: &str, most: usize) -> String {
    let mut told = String::new();
    // Only a width that several lines come near to is that of a wrapped text.
    let widths: Vec<usize> = text.lines().map(|line| line.chars().count()).collect();
    let longest = widths.iter().copied().max().unwrap_or(0);
    let is_wrapped = widths.iter().filter(|width| **width + WRAPPED_NEAR >= longest).count() > 1;
    let mut before = 0;
    for line in text.lines().filter(|line| !line.trim_start().starts_with('#')) {
        let bare = line.trim().trim_start_matches(['#', '>', '-', '*', '•', '+', ' ']).trim();
        if !bare.contains(char::is_alphanumeric) {
            continue;
        }
        // The first word of the line had no room in the line before.
        let word = bare.split(char::is_whitespace).next().unwrap_or_default().chars().count();
        let is_full = is_wrapped && before + 1 + word > longest;
        let goes_on = before >= WRAPPED_CHARS && (bare.starts_with(char::is_lowercase) || is_full);
        let starts_anew = bare.len() < line.trim().len() || !goes_on;
        before = line.chars().count();
        let mut sentences = Vec::new();
        sentences::split(bare, 0..bare.len(), |range| sentences.push(range));
        for (number, range) in sentences.into_iter().enumerate() {
            let ended = without_last_day(&told).ends_with(['.', '!', '?', ':', ';', ',', '…']);
            let joint = match told.is_empty() {
                true => "",
                false if ended || number > 0 || !starts_anew => " ",
                false => "; ",
            };
            let sentence = bare[range].trim();
            if told.chars().count() + joint.len() + sentence.chars().count() > most {
                return if told.is_empty() { clipped(sentence, most) } else { told };
            }
            told.push_str(joint);
            told.push_str(sentence);
        }
    }
    told
}

/// A text without the day in brackets that stands behind its last sentence: `Send it. (2026-03-10)`.
fn without_last_day(text: &str) -> &str {
    let day = |behind: &str| behind.strip_suffix(')').is_some_and(|day| day.parse::<Day>().is_ok());
    text.rsplit_once(" (").filter(|(_, behind)| day(behind)).map_or(text, |(said, _)| said)
}

/// The beginning of a sentence, up to a word end.
fn clipped(sentence: &str, most: usize) -> String {
    let cut: String = sentence.chars().take(most.saturating_sub(1)).collect();
    let whole = cut.rsplit_once(' ').map_or(cut.as_str(), |(head, _)| head);
    format!("{}…", whole.trim_end_matches([',', ';', ':', ' ']))
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

/// Whether a member of an output is null.
fn has_null(structured: &Value) -> bool {
    structured.as_object().is_some_and(|members| members.values().any(Value::is_null))
}

/// Where members were left out, and how many. Their names are words of a model, and the log keeps a warning when the
/// answer is forgotten.
fn places_of(left_out: &[String]) -> String {
    let mut places: BTreeMap<&str, usize> = BTreeMap::new();
    for pointer in left_out {
        let place = pointer.rsplit_once('/').map_or("", |(place, _)| place);
        *places.entry(place).or_default() += 1;
    }
    let told = places.iter().take(UNDECLARED_SHOWN).map(|(place, count)| {
        let members = if *count == 1 { "1 member".to_owned() } else { format!("{count} members") };
        match *place {
            "" => format!("{members} of the answer"),
            place => format!("{members} of {place}"),
        }
    });
    told.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(title: &str, short: Option<&str>, text: &str) -> String {
        brief(&SummaryOutputs {
            title: Some(title.to_owned()),
            rendered_short: short.map(str::to_owned),
            summary_text: text.to_owned(),
            ..SummaryOutputs::default()
        })
    }

    #[test]
    fn a_title_is_no_summary_and_a_list_reads_as_a_sentence() {
        let text = "Ana moved the archive. The import works again.";
        assert_eq!(told("Archive", Some("Archive"), text), text);
        assert_eq!(told("Archive", Some("The archive moved."), text), "The archive moved.");
        let list = "## Goals\n\n- Call Ana (2026-02-03)\n- Send it.\n- Wait";
        assert_eq!(told("", None, list), "Call Ana (2026-02-03); Send it. Wait");
        let wrapped =
            "We meet at nine in the morning on Monday, on the east side of\nthe roof.\nBring Ana";
        assert_eq!(told("", None, wrapped), wrapped.replace('\n', " "));
        let title = "The long title of a text that goes on for more than sixty letters\nAna pays";
        assert!(told("", None, title).ends_with("letters; Ana pays"));
        let wrapped = "Los 60 platos cuestan 18 EUR cada uno, y son 1.080 EUR en total con\n\
            IVA incluido. El esmalte aguanta el lavavajillas, y lo probé con 200\nciclos.";
        assert_eq!(told("", None, wrapped), wrapped.replace('\n', " "));
        assert_eq!(told("Only a title", None, " \n"), "Only a title");
        assert_eq!(told("", None, " ?!\n… "), "?! …");
        assert_eq!(told("", None, ""), NO_TEXT);
    }

    #[test]
    fn a_stand_in_for_a_summary_has_no_greeting_and_no_signature() {
        let mail = "Hola a todas:\n\nLa reunión es el viernes a las 19 en la biblioteca.\nLeemos la novela.\n\nSaludos,\nSofía\n";
        let source = |text: &str| vec![SourceText { id: "m".to_owned(), text: text.to_owned() }];
        let expected = "La reunión es el viernes a las 19 en la biblioteca.\nLeemos la novela.";
        assert_eq!(stand_in(&source(mail)), expected);
        assert_eq!(stand_in(&source("Hi Paul,\n")), "Hi Paul,");
        let below = format!("{mail}--\nEste mensaje salió de un teléfono azul.\n");
        assert_eq!(stand_in(&source(&below)), expected, "what stands below a signature");
        for answer in [
            "Yes, ten is fine.\n\nOn Mon, 2 Mar 2026, Ana <a@b.example> wrote:\n> Is ten fine?\n> Ana\n",
            "Yes, ten is fine.\n\nLe lun. 2 mars 2026 à 10:12, Ana Ruiz <a@b.example>\na écrit :\n\nIs ten fine?\n",
            "Yes, ten is fine.\n> Is ten fine?\n",
        ] {
            assert_eq!(stand_in(&source(answer)), "Yes, ten is fine.", "{answer}");
        }
        assert_eq!(stand_in(&source("> A quote.\n> It goes on.\n")), "> A quote.\n> It goes on.");
        let asked = "How many boards?\n\n[attachment: a.txt]\n\n```attachment\nThe walls.\n```";
        assert_eq!(stand_in(&source(asked)), "How many boards?");
        assert_eq!(stand_in(&source("# Plan\n\n- one\n- two\n")), "# Plan\n\n- one\n- two");
    }

    #[test]
    fn a_brief_ends_at_a_sentence_or_at_a_word() {
        let text = "One sentence of words. ".repeat(40);
        let brief = told("", None, &text);
        assert!(brief.chars().count() <= BRIEF_CHARS && brief.ends_with("words."), "{brief}");
        let brief = told("", None, &"word ".repeat(200));
        assert!(brief.chars().count() <= BRIEF_CHARS && brief.ends_with("word…"), "{brief}");
    }
}
