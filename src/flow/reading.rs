//! Which sources a flow read: those whose words stood in a question to the model, or reached a program
//! of the flow. A template may cut a list, a text or a whole source; what it cut was not read.
//!
//! Words are compared by their letters and digits, because a template may indent, quote or escape a
//! text.

use std::collections::HashMap;

use memchr::memmem;
use serde_json::{Map, Value};

use super::hierarchy::{Coverage, SkippedSource};
use crate::model::{Message, SourceText};

/// Letters and digits of a text that are looked for at a time.
const PIECE_BYTES: usize = 64;
/// Pieces that are looked for before a text counts as absent.
const PROBES: usize = 4;
/// A text of which this share is found was read as a whole: the rest is the template's spelling.
const WHOLE_PERCENT: usize = 90;

/// A source without text.
const EMPTY: &str = "empty_content";
/// A source that reached an input of the flow, and no question.
const CUT: &str = "unused_cut_for_size";
/// A source that no input of the flow asks for.
const NOT_ASKED: &str = "unused_by_flow";

/// What a question shows of its sources.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shows {
    /// Whole sources, if anything.
    Sources,
    /// One part of each.
    Parts,
    /// Texts that were made of sources.
    Condensed,
}

/// How many characters of each source were read.
#[derive(Debug, Default)]
pub(super) struct Reading {
    chars: HashMap<String, usize>,
    /// A program of the flow read its inputs.
    by_program: bool,
}

impl Reading {
    /// A question was asked. A provider that copies reads the sources and not the prompt.
    pub(super) fn question(
        &mut self,
        sources: &[SourceText],
        shows: Shows,
        copies: bool,
        messages: &[Message],
    ) {
        if shows == Shows::Condensed {
            return;
        }
        let mut prompt = None;
        for source in sources {
            let all = source.text.chars().count();
            let before = self.chars.get(&source.id).copied().unwrap_or(0);
            if shows == Shows::Sources && before >= all {
                continue;
            }
            let read = match copies {
                true => all,
                false => {
                    let prompt = prompt.get_or_insert_with(|| folded_of(messages));
                    all * found_percent(prompt, &source.text) / 100
                }
            };
            let now = match shows {
                Shows::Parts => before + read,
                _ => before.max(read),
            };
            if now > 0 {
                self.chars.insert(source.id.clone(), now);
            }
        }
    }

    /// A program of the flow got the inputs. What it reads of them is not known.
    pub(super) fn program(&mut self) {
        self.by_program = true;
    }

    /// The account of all sources. `inputs` are the values that the flow got.
    pub(super) fn coverage(
        &self,
        sources: &[SourceText],
        inputs: &Map<String, Value>,
        uncondensed: Option<&Value>,
        asked: bool,
    ) -> Coverage {
        let trusts = self.by_program || !asked;
        let mut coverage = Coverage { sources_total: sources.len(), ..Coverage::default() };
        let mut offered = None;
        for source in sources {
            let all = source.text.chars().count();
            coverage.chars_total += all;
            let read = self.chars.get(&source.id).copied().unwrap_or(0).min(all);
            let reason = if source.text.trim().is_empty() {
                coverage.chars_covered += all;
                EMPTY
            } else if trusts || read > 0 {
                coverage.sources_used += 1;
                coverage.chars_covered += if trusts { all } else { read };
                continue;
            } else {
                let offered = offered.get_or_insert_with(|| offered_text(inputs, uncondensed));
                if found_percent(offered, &source.text) > 0 { CUT } else { NOT_ASKED }
            };
            let reason = reason.to_owned();
            coverage.skipped.push(SkippedSource { id: source.id.clone(), reason });
        }
        coverage
    }
}

fn offered_text(inputs: &Map<String, Value>, uncondensed: Option<&Value>) -> String {
    let mut out = String::new();
    for value in inputs.values().chain(uncondensed) {
        fold_value(value, &mut out);
    }
    out
}

fn fold_value(value: &Value, out: &mut String) {
    match value {
        Value::String(text) => fold(text, out),
        Value::Array(items) => items.iter().for_each(|item| fold_value(item, out)),
        Value::Object(members) => members.values().for_each(|member| fold_value(member, out)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn folded_of(messages: &[Message]) -> String {
    let mut out = String::with_capacity(messages.iter().map(|message| message.text.len()).sum());
    messages.iter().for_each(|message| fold(&message.text, &mut out));
    out
}

/// The letters and digits of a text; `\u00e9` counts as its letter, `\n` does not count.
fn fold(text: &str, out: &mut String) {
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        if c == '\\' {
            match chars.peek() {
                Some('n' | 'r' | 't' | 'b' | 'f') => drop(chars.next()),
                Some('u') => {
                    let ahead: String = chars.clone().skip(1).take(4).collect();
                    if let (4, Ok(code)) = (ahead.len(), u32::from_str_radix(&ahead, 16)) {
                        chars.by_ref().take(5).for_each(drop);
                        out.extend(char::from_u32(code).filter(|c| c.is_alphanumeric()));
                    }
                }
                _ => {}
            }
        } else if c.is_alphanumeric() {
            out.push(c);
        }
    }
}

/// How much of a text stands in a folded prompt, in percent.
fn found_percent(prompt: &str, text: &str) -> usize {
    let mut letters = String::with_capacity(text.len());
    fold(text, &mut letters);
    if letters.is_empty() {
        return 100;
    }
    let pieces = pieces(&letters);
    let (mut found, mut cursor) = (0, 0);
    for (number, piece) in pieces.iter().enumerate() {
        // The pieces of a text follow each other, so the next one is usually just ahead.
        let ahead = memmem::find(&prompt.as_bytes()[cursor..], piece).map(|at| cursor + at);
        match ahead.or_else(|| memmem::find(prompt.as_bytes(), piece)) {
            Some(at) => {
                found += 1;
                cursor = at + piece.len();
            }
            None if found == 0 && number + 1 >= PROBES => {
                let last = pieces.last().copied().unwrap_or_default();
                if memmem::find(prompt.as_bytes(), last).is_none() {
                    return 0;
                }
            }
            None => {}
        }
    }
    match found * 100 / pieces.len() {
        percent if percent >= WHOLE_PERCENT => 100,
        0 if found > 0 => 1,
        percent => percent,
    }
}

fn pieces(letters: &str) -> Vec<&[u8]> {
    let mut pieces = Vec::new();
    let mut start = 0;
    while start < letters.len() {
        // A short rest goes with the last piece: a few letters stand in any prompt.
        let rest = letters.len() - start;
        let mut end = if rest < 2 * PIECE_BYTES { letters.len() } else { start + PIECE_BYTES };
        while !letters.is_char_boundary(end) {
            end += 1;
        }
        pieces.push(&letters.as_bytes()[start..end]);
        start = end;
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Role;
    use serde_json::json;

    fn source(id: &str, text: &str) -> SourceText {
        SourceText { id: id.into(), text: text.into() }
    }

    fn long(word: &str) -> String {
        (0..200).map(|n| format!("{word} number {n}.\n")).collect()
    }

    #[test]
    fn a_source_that_a_template_cut_off_was_not_read() {
        let texts = [long("Árbol"), long("Brook"), long("Cliff"), String::new()];
        let sources: Vec<SourceText> =
            texts.iter().enumerate().map(|(n, text)| source(&format!("s{n}"), text)).collect();
        let half: String = texts[1].chars().take(texts[1].chars().count() / 2).collect();
        let prompt = format!("Read this: {} and {half}", json!({"t": texts[0]}));
        let mut reading = Reading::default();
        let messages = [Message::new(Role::User, prompt)];
        reading.question(&sources, Shows::Sources, false, &messages);
        let inputs = json!({"text": texts[..2].join(" "), "list": [{"text": texts[2]}]});
        let coverage = reading.coverage(&sources, inputs.as_object().unwrap(), None, true);
        assert_eq!((coverage.sources_total, coverage.sources_used), (4, 2));
        let skipped: Vec<(&str, &str)> =
            coverage.skipped.iter().map(|one| (one.id.as_str(), one.reason.as_str())).collect();
        assert_eq!(skipped, [("s2", CUT), ("s3", EMPTY)]);
        let (whole, half) = (texts[0].chars().count(), texts[1].chars().count() / 2);
        let read = coverage.chars_covered;
        assert!(read > whole + half * 9 / 10 && read < whole + half * 11 / 10, "{read}");
        let coverage = reading.coverage(&sources, &Map::new(), None, true);
        assert_eq!(coverage.skipped[0].reason, NOT_ASKED);
    }

    #[test]
    fn parts_of_a_source_add_up_and_condensed_texts_count_for_nothing() {
        let text = long("Part");
        let (first, second) = text.split_at(text.len() / 2);
        let mut reading = Reading::default();
        for part in [first, second] {
            let asked = [Message::new(Role::User, part)];
            reading.question(&[source("s", part)], Shows::Parts, false, &asked);
        }
        reading.question(&[source("n0_0", "made")], Shows::Condensed, true, &[]);
        let coverage = reading.coverage(&[source("s", &text)], &Map::new(), None, true);
        assert_eq!((coverage.sources_used, coverage.chars_covered), (1, text.chars().count()));
        assert_eq!(reading.chars.len(), 1);
    }

    #[test]
    fn a_flow_without_questions_or_with_a_program_gets_the_benefit() {
        let sources = [source("s", "Some words.")];
        let mut reading = Reading::default();
        assert_eq!(reading.coverage(&sources, &Map::new(), None, false).sources_used, 1);
        assert_eq!(reading.coverage(&sources, &Map::new(), None, true).sources_used, 0);
        reading.program();
        assert_eq!(reading.coverage(&sources, &Map::new(), None, true).sources_used, 1);
    }
}
