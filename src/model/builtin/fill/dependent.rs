//! Rules that look at what other members of the same object have found.

use serde_json::{Value, json};

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

fn says_something(value: &Filled) -> bool {
    !value.is_empty() && *value != Filled::Value(Value::Bool(false))
}

/// Rules see words, not meaning: even everything found is not certainty.
pub fn confidence(found: usize, asked: usize) -> Filled {
    let percent = (60 * found).checked_div(asked).map_or(30, |share| 10 + share);
    Filled::Value(json!(percent as f64 / 100.0))
}
