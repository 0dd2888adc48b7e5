//! Which sources a flow read: those whose words stood in a question to the model, or reached a program
//! of the flow. A template may cut a list, a text or a whole source; what it cut was not read.
//!
//! Words are compared by their letters and digits, because a template may indent, quote or escape a
//! text.

use std::collections::{BTreeMap, HashMap};

use memchr::memmem;
use serde_json::{Map, Value};

use super::hierarchy::{Coverage, SkippedSource};
use crate::model::{Message, SourceText};

/// Bytes of letters and digits from one place that is looked for to the next.
const STEP_BYTES: usize = 64;
/// Bytes of letters and digits that are looked for at a place. Fewer stand in any prompt.
const SEED_BYTES: usize = 24;
/// Places that are looked for before a text counts as absent.
const PROBES: usize = 4;
/// A text of which this share is found, but for less than [`SEED_BYTES`], was read as a whole: the rest is the
/// template's spelling.
const WHOLE_PERCENT: usize = 90;

/// A source without text.
pub(crate) const EMPTY: &str = "empty_content";
/// A source that reached an input of the flow, and no question.
pub(crate) const CUT: &str = "unused_cut_for_size";
/// A source that no input of the flow asks for.
pub(crate) const NOT_ASKED: &str = "unused_by_flow";

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
        let mut prompt: Option<Prompt> = None;
        for source in sources {
            let all = source.text.chars().count();
            let before = self.chars.get(&source.id).copied().unwrap_or(0);
            if shows == Shows::Sources && before >= all {
                continue;
            }
            let read = match copies {
                true => all,
                false => {
                    let prompt = prompt.get_or_insert_with(|| Prompt::of(folded_of(messages)));
                    let (found, letters) = prompt.found(&source.text);
                    all * found / letters
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
        let mut offered: Option<Prompt> = None;
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
                let offered =
                    offered.get_or_insert_with(|| Prompt::of(offered_text(inputs, uncondensed)));
                if offered.found(&source.text).0 > 0 { CUT } else { NOT_ASKED }
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

/// A folded prompt. A stretch of it is of one source only: sources may say the same, and the template may
/// have cut the second.
struct Prompt {
    letters: String,
    /// Where stretches of sources begin and end.
    taken: BTreeMap<usize, usize>,
    /// The end of the stretch found last.
    cursor: usize,
}

impl Prompt {
    fn of(letters: String) -> Prompt {
        Prompt { letters, taken: BTreeMap::new(), cursor: 0 }
    }

    /// How many bytes of the letters of a text stand here, and how many it has; the latter is never 0.
    fn found(&mut self, text: &str) -> (usize, usize) {
        let mut letters = String::with_capacity(text.len());
        fold(text, &mut letters);
        let letters = letters.as_bytes();
        if letters.is_empty() {
            return (1, 1);
        }
        if letters.len() < SEED_BYTES {
            let stands = memmem::find(self.letters.as_bytes(), letters).is_some();
            return (if stands { letters.len() } else { 0 }, letters.len());
        }
        let last = letters.len() - SEED_BYTES;
        let (mut found, mut from, mut misses, mut at) = (0, 0, 0, 0);
        loop {
            match self.find(&letters[at..at + SEED_BYTES]) {
                Some(place) => {
                    let before = self.cursor;
                    let (begin, end, place) = self.take(letters, from, at, place);
                    found += end - begin;
                    // Between two stretches that follow each other stands the template's spelling of the text.
                    let (gap, between) = (begin - from, place.saturating_sub(before));
                    let is_spelled = from > 0 && gap <= between && between <= 3 * gap + SEED_BYTES;
                    found += if is_spelled { gap } else { 0 };
                    (from, at) = (end, end);
                }
                None if at == last => break,
                None => {
                    misses += 1;
                    at += STEP_BYTES;
                    // Only its end may have been kept.
                    if found == 0 && misses == PROBES {
                        at = last;
                    }
                }
            }
            if from >= letters.len() {
                break;
            }
            at = at.min(last);
            if at < from {
                // Less is left than is looked for.
                break;
            }
        }
        let rest = letters.len() - found;
        let whole = rest < SEED_BYTES && found * 100 >= letters.len() * WHOLE_PERCENT;
        (if whole { letters.len() } else { found }, letters.len())
    }

    /// Where a piece stands that is of no source yet: at best behind what was found last.
    fn find(&self, piece: &[u8]) -> Option<usize> {
        self.find_from(self.cursor, piece).or_else(|| self.find_from(0, piece))
    }

    fn find_from(&self, mut from: usize, piece: &[u8]) -> Option<usize> {
        loop {
            let at = from + memmem::find(self.letters.as_bytes().get(from..)?, piece)?;
            match self.taken.range(..at + piece.len()).next_back() {
                Some((_, end)) if *end > at => from = *end,
                _ => return Some(at),
            }
        }
    }

    /// Takes the whole stretch of a text, from `from` on, around the piece at `at` that stands at `place`. Gives
    /// its begin and its end in the text, and its begin here.
    fn take(&mut self, text: &[u8], from: usize, at: usize, place: usize) -> (usize, usize, usize) {
        let prompt = self.letters.as_bytes();
        let before = self.taken.range(..=place).next_back().map_or(0, |(_, end)| *end);
        let behind = self.taken.range(place..).next().map_or(prompt.len(), |(start, _)| *start);
        let same = |pair: &(&u8, &u8)| pair.0 == pair.1;
        let back = text[from..at].iter().rev().zip(prompt[before..place].iter().rev());
        let back = back.take_while(same).count();
        let ahead = text[at..].iter().zip(&prompt[place..behind]).take_while(same).count();
        self.taken.insert(place - back, place + ahead);
        self.cursor = place + ahead;
        (at - back, at + ahead, place - back)
    }
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
    fn what_a_template_sends_of_a_source_counts_and_nothing_else() {
        let text =
            "The owners of the mill will repair its roof in March and pay the workers weekly.";
        let read = |sources: &[SourceText], prompt: &str| {
            let mut reading = Reading::default();
            let asked = [Message::new(Role::User, prompt)];
            reading.question(sources, Shows::Sources, false, &asked);
            let coverage = reading.coverage(sources, &Map::new(), None, true);
            (coverage.sources_used, coverage.chars_covered)
        };
        // Of a text that was cut, letters are counted.
        let near = |got: usize, sent: usize| got.abs_diff(sent) * 100 <= sent * 5;
        let one = [source("s", text)];
        for sent in [&text[..40], &text[40..]] {
            let (used, chars) = read(&one, &format!("Summarize this: {sent}"));
            assert!(used == 1 && near(chars, sent.len()), "{sent}: {chars}");
        }
        assert_eq!(read(&one, "The owners of a shop."), (0, 0));
        // Three sources say the same, and the second is cut.
        let same = long("Mill");
        let three = ["a", "b", "c"].map(|id| source(id, &same));
        let (whole, half) = (same.chars().count(), same.chars().count() / 2);
        let (used, chars) = read(&three, &format!("[1]\n{same}\n[2]\n{}", &same[..half]));
        assert!(used == 2 && near(chars, whole + half), "{chars}");
        let spelled = same.replace("number 7", "number &seven;");
        assert_eq!(read(&three[..1], &spelled), (1, whole));
        let gapped = format!("{}[…]{}", &same[..half], &same[half + 1000..]);
        for (prompt, sent) in [(gapped.as_str(), whole - 1000), (&same[100..400], 300)] {
            let (used, chars) = read(&three[..1], prompt);
            assert!(used == 1 && near(chars, sent), "{chars} of {sent}");
        }
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
