//! Rules that look at what other members of the same object have found.

use serde_json::{Value, json};

use super::super::rank::select::{Quoted, shorten};
use super::super::text::sentences;
use super::filled::Filled;
use super::rule::Rule;
use super::scene::{Focus, Scene};

/// Longest sentence quoted for another member.
const QUOTE_BYTES_MAX: usize = 400;

/// Evaluates a rule that may look at the other members.
pub(crate) fn dependent(
    scene: &Scene<'_, '_>,
    rule: &Rule,
    members: &[(String, Filled)],
    focus: &Focus,
) -> Filled {
    let member =
        |name: &str| members.iter().find(|(other, _)| other == name).map(|(_, value)| value);
    match rule {
        Rule::Confidence { of } => {
            let found = of.iter().filter(|name| member(name).is_some_and(says_something)).count();
            confidence(found, of.len())
        }
        Rule::QuoteOf { field } => {
            let piece = member(field).and_then(Filled::first_piece);
            let sentence = piece.and_then(|piece| scene.sentence_at(piece.part, piece.start));
            let quote = |at| Filled::quoted(scene.quote(at, QUOTE_BYTES_MAX));
            sentence.map_or(Filled::Nothing, quote)
        }
        Rule::Copy { field } => member(field).cloned().unwrap_or_default(),
        Rule::Found { field } => Filled::Value(json!(member(field).is_some_and(says_something))),
        Rule::Shortened { field, sentences, bytes } => match member(field) {
            Some(Filled::Text(whole)) => Filled::quoted(beginning(whole, *sentences, *bytes)),
            Some(Filled::Value(Value::String(text))) => {
                Filled::quoted(beginning(&Quoted::plain(text.clone()), *sentences, *bytes))
            }
            _ => Filled::Nothing,
        },
        Rule::Where { field, of } => match member(field).is_some_and(says_something) {
            true => dependent(scene, of, members, focus),
            false => Filled::Nothing,
        },
        Rule::Said { cues, of } => match scene.saying(cues, focus).is_empty() {
            true => Filled::Nothing,
            false => dependent(scene, of, members, focus),
        },
        Rule::First { of } => {
            let found = of.iter().map(|rule| dependent(scene, rule, members, focus));
            found.into_iter().find(|value| !value.is_empty()).unwrap_or_default()
        }
        other => scene.eval(other, focus),
    }
}

/// The first sentences of a text, as many as fit; at least a part of the first.
fn beginning(whole: &Quoted, most: usize, bytes: usize) -> Quoted {
    let text = whole.text.as_str();
    let mut ends = Vec::new();
    sentences::split(text, 0..text.len(), |range| ends.push(range.end));
    let fitting = ends.into_iter().take(most).take_while(|end| *end <= bytes).last();
    let end = fitting.unwrap_or_else(|| shorten(text, bytes).len());
    let pieces = whole.pieces.iter().filter(|piece| piece.output_end <= end).copied().collect();
    Quoted { text: text[..end].trim_end().to_owned(), pieces }
}

fn says_something(value: &Filled) -> bool {
    !value.is_empty() && *value != Filled::Value(Value::Bool(false))
}

/// Rules see words, not meaning: even everything found is not certainty.
pub(super) fn confidence(found: usize, asked: usize) -> Filled {
    let percent = (60 * found).checked_div(asked).map_or(30, |share| 10 + share);
    Filled::Value(json!(percent as f64 / 100.0))
}
