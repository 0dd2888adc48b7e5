//! Locates quotes in the sources: verbatim, where any white space equals one space. A quote that is
//! not found is searched in the visible text of sources with markup.
//!
//! "Located" means that a source holds the words, not that the words prove a statement.

use std::collections::{BTreeSet, HashSet};

use serde_json::Value;
use unicode_normalization::UnicodeNormalization as _;

use super::outcome::EvidenceRef;
use crate::markup::html::View;
use crate::markup::prefix;
use crate::model::{Evidence, REDACTED, SourceText};

/// Shortest quote worth looking up, in bytes.
const QUOTE_BYTES_MIN: usize = 3;
/// Most bytes that one mark of redaction stands for.
const REDACTED_BYTES_MAX: usize = 400;

/// Where each quote stands.
pub(super) fn locate(quotes: Vec<(String, String)>, sources: &[SourceText]) -> Vec<EvidenceRef> {
    let wanted: Vec<String> = quotes.iter().map(|(_, quote)| wanted(quote)).collect();
    let mut places = vec![None; quotes.len()];
    let long = |at: &usize| wanted[*at].len() >= QUOTE_BYTES_MIN;
    let mut left: Vec<usize> = (0..quotes.len()).filter(long).collect();
    // One source at a time: a folded text takes ten times its length, and there may be many sources.
    for (index, source) in sources.iter().enumerate() {
        if left.is_empty() {
            break;
        }
        let folded = Folded::of(&source.text);
        left.retain(|at| {
            places[*at] = folded.find(&wanted[*at]).map(|(start, end)| (index, start, end));
            places[*at].is_none()
        });
    }
    for (index, source) in sources.iter().enumerate() {
        let view = if left.is_empty() { None } else { View::of(&source.text) };
        let Some(view) = view else { continue };
        let folded = Folded::of(&view.text);
        left.retain(|at| {
            let seen = folded.find(&wanted[*at]);
            let place = seen.and_then(|(start, end)| view.locate(start, end));
            places[*at] = place.map(|(start, end)| (index, start, end));
            places[*at].is_none()
        });
    }
    let located = quotes.into_iter().zip(places);
    located
        .map(|((pointer, quote), place)| EvidenceRef {
            pointer,
            quote,
            located: place.is_some(),
            source_id: place.map(|(index, _, _)| sources[index].id.clone()),
            start: place.map(|(_, start, _)| start),
            end: place.map(|(_, _, end)| end),
        })
        .collect()
}

/// The evidence that the provider itself reported.
pub(super) fn exact(evidence: &[Evidence], sources: &[SourceText]) -> Vec<EvidenceRef> {
    let place = |item: &Evidence| {
        let source = sources.get(item.span.source)?;
        let quote = source.text.get(item.span.start..item.span.end)?;
        Some(EvidenceRef {
            pointer: item.pointer.clone(),
            quote: quote.to_owned(),
            located: true,
            source_id: Some(source.id.clone()),
            start: Some(item.span.start),
            end: Some(item.span.end),
        })
    };
    evidence.iter().filter_map(place).collect()
}

/// Those of the quotes that stand in the sources, or in what else is `told` of them. Where a text was redacted
/// before it was sent, any words may stand.
pub(super) fn held(
    quotes: &BTreeSet<&str>,
    sources: &[SourceText],
    told: &[&Value],
) -> HashSet<String> {
    let all = quotes.iter().map(|quote| (String::new(), (*quote).to_owned())).collect();
    let (found, left): (Vec<EvidenceRef>, Vec<EvidenceRef>) =
        locate(all, sources).into_iter().partition(|one| one.located);
    let mut held: HashSet<String> = found.into_iter().map(|one| one.quote).collect();
    let with_parts = |one: EvidenceRef| (parts(&one.quote), one.quote);
    let mut left: Vec<(Vec<String>, String)> = left.into_iter().map(with_parts).collect();
    // `locate` searches neither a quote with a mark of redaction nor one of two letters.
    let mut texts: Vec<&str> = sources.iter().map(|source| source.text.as_str()).collect();
    told.iter().for_each(|value| strings(value, &mut texts));
    for text in texts {
        if left.is_empty() {
            break;
        }
        // What is told of a source may have another form of its characters than a text.
        let text: String = text.split_whitespace().collect::<Vec<_>>().join(" ").nfc().collect();
        left.retain(|(parts, quote)| {
            let stands = stands_in(parts, &text);
            if stands {
                held.insert(quote.clone());
            }
            !stands
        });
    }
    held
}

/// Those of the quotes that a source has as words, and not only as a part of longer ones: `2` does not stand in `2026`.
pub(super) fn said(quotes: &BTreeSet<&str>, sources: &[SourceText]) -> HashSet<String> {
    let mut left: Vec<(&str, String)> =
        quotes.iter().map(|quote| (*quote, wanted(quote))).collect();
    let mut said = HashSet::new();
    for source in sources {
        if left.is_empty() {
            break;
        }
        let text = source.text.split_whitespace().collect::<Vec<_>>().join(" ");
        left.retain(|(quote, words)| {
            let stands = has_words(words, &text);
            if stands {
                said.insert((*quote).to_owned());
            }
            !stands
        });
    }
    said
}

fn has_words(words: &str, text: &str) -> bool {
    !words.is_empty()
        && text.match_indices(words).any(|(at, _)| {
            let ends = |c: Option<char>| !c.is_some_and(char::is_alphanumeric);
            ends(text[..at].chars().next_back()) && ends(text[at + words.len()..].chars().next())
        })
}

/// The texts in a value.
fn strings<'v>(value: &'v Value, texts: &mut Vec<&'v str>) {
    match value {
        Value::String(text) => texts.push(text),
        Value::Array(items) => items.iter().for_each(|item| strings(item, texts)),
        Value::Object(members) => members.values().for_each(|item| strings(item, texts)),
        _ => {}
    }
}

/// The words of a quote between the marks of redaction.
fn parts(quote: &str) -> Vec<String> {
    let mut parts = vec![wanted(quote)];
    for mark in REDACTED {
        let split = |part: &String| part.split(mark).map(str::to_owned).collect::<Vec<_>>();
        parts = parts.iter().flat_map(split).collect();
    }
    parts
}

/// Whether a text has all parts in their order, with at most so many bytes between them as may be redacted.
fn stands_in(parts: &[String], text: &str) -> bool {
    if let [short] = parts
        && short.len() < QUOTE_BYTES_MIN
    {
        return has_words(short, text);
    }
    let Some(first) = parts.iter().position(|part| !part.trim().is_empty()) else { return false };
    let (first, more) = (&parts[first], &parts[first + 1..]);
    text.match_indices(first.as_str()).any(|(at, _)| {
        let mut rest = &text[at + first.len()..];
        more.iter().all(|part| {
            let near = prefix(rest, REDACTED_BYTES_MAX + part.len());
            let Some(found) = near.find(part.as_str()) else { return false };
            rest = &rest[found + part.len()..];
            true
        })
    })
}

/// The words of a quote to be searched: composed as sources are, without the quotation marks and the final
/// ellipsis that models add.
fn wanted(quote: &str) -> String {
    let bare = quote.trim().trim_matches(['"', '“', '”', '«', '»', '…']);
    let bare: String = bare.strip_suffix("...").unwrap_or(bare).nfc().collect();
    Folded::of(&bare).text
}

/// A text with runs of white space folded, and where each byte came from.
pub(super) struct Folded {
    pub text: String,
    offsets: Vec<usize>,
}

impl Folded {
    pub(super) fn of(text: &str) -> Folded {
        let mut folded = Folded { text: String::with_capacity(text.len()), offsets: Vec::new() };
        let mut space = false;
        for (at, c) in text.char_indices() {
            if c.is_whitespace() {
                space = !folded.text.is_empty();
                continue;
            }
            if space {
                folded.text.push(' ');
                folded.offsets.push(at - 1);
                space = false;
            }
            folded.text.push(c);
            folded.offsets.extend(std::iter::repeat_n(at, c.len_utf8()));
        }
        folded
    }

    pub(super) fn find(&self, wanted: &str) -> Option<(usize, usize)> {
        let at = self.text.find(wanted)?;
        let last = self.text[..at + wanted.len()].chars().next_back()?;
        let end = self.offsets[at + wanted.len() - 1] + last.len_utf8();
        Some((self.offsets[at], end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_are_found_across_line_breaks_and_inventions_are_not() {
        let text = "Intro.\nWe meet  on\nMonday — at café Sol.";
        let sources = [
            SourceText { id: "a".into(), text: "nothing".into() },
            SourceText { id: "b".into(), text: text.into() },
        ];
        let quotes = ["“We meet on Monday — at café”", "We meet on Tuesday", "x", ""]
            .map(|q| ("/q".to_owned(), q.to_owned()));
        let found = locate(quotes.to_vec(), &sources);
        assert_eq!(
            found.iter().map(|e| e.located).collect::<Vec<_>>(),
            [true, false, false, false]
        );
        let (start, end) = (found[0].start.unwrap(), found[0].end.unwrap());
        assert_eq!(&text[start..end], "We meet  on\nMonday — at café");
        assert_eq!(found[0].source_id.as_deref(), Some("b"));
    }

    #[test]
    fn a_quote_without_the_markup_is_found_with_it() {
        let text = "<p>We need <b>five years</b> of Java&nbsp;&amp; SQL.</p>";
        let sources = [SourceText { id: "a".into(), text: text.into() }];
        let quotes = ["five years of Java & SQL", "six years"];
        let found = locate(quotes.map(|q| ("/q".to_owned(), q.to_owned())).to_vec(), &sources);
        assert_eq!(found.iter().map(|e| e.located).collect::<Vec<_>>(), [true, false]);
        let (start, end) = (found[0].start.unwrap(), found[0].end.unwrap());
        assert_eq!(&text[start..end], "five years</b> of Java&nbsp;&amp; SQL");
    }
}
