//! Statements of the text compared with an input: a posting's requirements with a profile.
//!
//! A statement is met when at least half of its content words stand in the input; without the input
//! nothing is said about it. A thing that is only welcome makes no statement. A permit is met or not only where the
//! input speaks of one. This compares words, not meaning.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::super::lexicon::{Language, lexicon};
use super::super::text::language::language_of;
use super::super::text::words::fold;
use super::super::text::{Kind, lines};
use super::compare::content_words;
use super::filled::Filled;
use super::hints::Check;
use super::rule::Step;
use super::scene::{Focus, Scene};

/// Longest piece of a list in one sentence: `3 years with React, good English`.
const PIECE_WORDS_MAX: usize = 9;

/// What the input says, by clauses that affirm and clauses that deny.
struct KnownWords {
    words: BTreeSet<String>,
    /// The most years that it states.
    years: Option<u32>,
    /// Written in another language than the statements: other words may mean the same.
    foreign: bool,
    affirmed: Vec<String>,
    denied: Vec<String>,
}

impl KnownWords {
    fn of(input: &str, check: &Check) -> KnownWords {
        let clauses =
            input.split(['.', ';', '\n', ',']).map(fold).filter(|one| !one.trim().is_empty());
        let (denied, affirmed): (Vec<String>, Vec<String>) = clauses.partition(|one| denies(one));
        let years = affirmed.iter().filter_map(|clause| years(clause, check)).max();
        let words = words(&affirmed.join(". "), check);
        KnownWords { words, years, foreign: false, affirmed, denied }
    }
}

/// The statements of a check, each with whether it is `met` and, where it is a part of a sentence, its
/// `statement`.
pub(crate) fn statements(scene: &Scene<'_, '_>, check: &Check, focus: &Focus) -> Vec<Focus> {
    let input = scene.input_text(&check.with, focus).unwrap_or_default();
    let mut known = KnownWords::of(&input, check);
    let written = language_of([input.as_str()]);
    let undetermined = [written, scene.text.language].contains(&Language::UNDETERMINED);
    known.foreign = !undetermined && written != scene.text.language;
    let mut found = Vec::new();
    for (sentence, piece) in find(scene, check, focus) {
        let said = piece.as_deref().unwrap_or_else(|| scene.text.sentence(sentence));
        let met = met(said, &known, check);
        let mut given = Map::from_iter([("met".to_string(), json!(met))]);
        given.insert("statement".to_string(), json!(piece));
        found.push(Focus { sentences: vec![sentence], given, ..Focus::default() });
    }
    found.truncate(check.most);
    found
}

/// Whether the statement of an element is met; `None` when it could not be judged.
pub(crate) fn is_met(element: &Focus) -> Option<bool> {
    element.given.get("met").and_then(Value::as_bool)
}

/// Whether a permit is asked for that the input denies (`true`) or has (`false`).
pub(crate) fn formality(scene: &Scene<'_, '_>, check: &Check, focus: &Focus) -> Option<bool> {
    let known = KnownWords::of(&scene.input_text(&check.with, focus).unwrap_or_default(), check);
    let asked = scene.saying(&check.formal, focus);
    let judged: Vec<bool> =
        asked.iter().filter_map(|&at| formal(scene.text.sentence(at), &known, check)).collect();
    (!judged.is_empty()).then(|| judged.contains(&false))
}

/// The percentage of the judged statements that are met, or the value of its step.
pub(super) fn share(
    scene: &Scene<'_, '_>,
    check: &Check,
    steps: &[Step],
    barred: &Value,
    fallback: &Value,
    focus: &Focus,
) -> Filled {
    if !barred.is_null() && formality(scene, check, focus) == Some(true) {
        return Filled::Value(barred.clone());
    }
    let statements = statements(scene, check, focus);
    let judged: Vec<bool> = statements.iter().filter_map(is_met).collect();
    let met = judged.iter().filter(|met| **met).count();
    let Some(percent) = (100 * met).checked_div(judged.len()) else {
        return Filled::Value(fallback.clone());
    };
    match Step::of(steps, percent as i64, judged.len()) {
        Some(value) => Filled::Value(value.clone()),
        None if steps.is_empty() => Filled::Value(json!(percent)),
        None => Filled::Value(fallback.clone()),
    }
}

/// The sentences that are statements, or the pieces of them.
fn find(scene: &Scene<'_, '_>, check: &Check, focus: &Focus) -> Vec<(usize, Option<String>)> {
    let heads = |at: &usize| matches!(scene.text.block_of(*at).kind, Kind::Heading(_));
    let place = |at: usize| (scene.text.block_of(at).part, scene.text.block_of(at).section);
    let sections = |cues: &[String]| -> Vec<(usize, usize)> {
        scene.saying(cues, focus).into_iter().filter(heads).map(place).collect()
    };
    let welcome = scene.saying(&check.welcome, focus);
    let (under, aside) = (sections(&check.under), sections(&check.welcome));
    let mut found: Vec<(usize, Option<String>)> = Vec::new();
    for &at in &focus.sentences {
        let block = scene.text.block_of(at);
        let said = scene.text.sentence(at);
        let inline = lines::labelled(said).filter(|label| {
            let label = fold(said[label.label.clone()].trim());
            check.under.iter().any(|cue| fits(cue, &label))
        });
        if heads(&at) || aside.contains(&place(at)) || welcome.contains(&at) {
            continue;
        }
        match inline.filter(|label| !label.value.is_empty()) {
            Some(label) => {
                found.extend(pieces(&said[label.value]).into_iter().map(|one| (at, Some(one))));
            }
            None if block.kind == Kind::Item && under.contains(&place(at)) => {
                found.push((at, None))
            }
            None => {}
        }
    }
    if found.is_empty() {
        let said = scene.saying(&check.cues, focus);
        let plain = said.into_iter().filter(|at| {
            !heads(at) && scene.text.block_of(*at).kind != Kind::Header && !welcome.contains(at)
        });
        found.extend(plain.map(|at| (at, None)));
    }
    let without = scene.saying(&check.without, focus);
    found.retain(|(at, _)| !without.contains(at));
    found
}

fn fits(cue: &str, label: &str) -> bool {
    match cue.strip_suffix('*') {
        Some(start) => label.starts_with(start),
        None => label == cue,
    }
}

/// The pieces of a list in one sentence; the whole of it where a piece is long.
fn pieces(list: &str) -> Vec<String> {
    let list = list.trim().trim_end_matches('.');
    let pieces: Vec<String> = list
        .split([',', ';'])
        .map(|piece| piece.trim().to_string())
        .filter(|one| !one.is_empty())
        .collect();
    let short = |piece: &String| piece.split_whitespace().count() <= PIECE_WORDS_MAX;
    if pieces.iter().all(short) { pieces } else { vec![list.to_string()] }
}

fn met(statement: &str, known: &KnownWords, check: &Check) -> Option<bool> {
    if is_formal(&fold(statement), check) {
        return formal(statement, known, check);
    }
    let asked = words(statement, check);
    let enough =
        years(&fold(statement), check).zip(known.years).map(|(least, stated)| stated >= least);
    if asked.is_empty() && enough.is_some() {
        return enough;
    }
    if (known.words.is_empty() && known.denied.is_empty()) || asked.is_empty() {
        return None;
    }
    let shared: Vec<&String> = asked.intersection(&known.words).collect();
    if let Some(least) = level(&fold(statement), check) {
        let own = known.affirmed.iter().filter(|clause| {
            let said = words(clause, check);
            shared.iter().any(|word| said.contains(*word))
        });
        if let Some(reached) = own.filter_map(|clause| level(clause, check)).max() {
            return Some(reached >= least);
        }
    }
    let said = fold(statement);
    let alternatives = said
        .split(|c: char| !c.is_alphanumeric())
        .any(|word| check.alternatives.iter().any(|other| other == word));
    let met = shared.len() * 2 >= asked.len() || (alternatives && !shared.is_empty());
    // The years fit, and only the words differ; or the words are those of another language.
    let may_be_met = enough == Some(true) || (known.foreign && shared.is_empty());
    (met || !may_be_met).then_some(met)
}

/// The years that a folded text states: `3+ years`, `12 anos`.
fn years(folded: &str, check: &Check) -> Option<u32> {
    let words: Vec<&str> = folded.split(|c: char| !c.is_alphanumeric()).collect();
    let words: Vec<&str> = words.into_iter().filter(|word| !word.is_empty()).collect();
    let stated = words.windows(2).filter(|pair| check.years.iter().any(|cue| fits(cue, pair[1])));
    stated.filter_map(|pair| pair[0].parse().ok()).max()
}

fn is_formal(folded: &str, check: &Check) -> bool {
    check.formal.iter().any(|cue| contains(folded, cue))
}

fn formal(statement: &str, known: &KnownWords, check: &Check) -> Option<bool> {
    let said = fold(statement);
    // `no visa required` asks for none.
    if !is_formal(&said, check) || said.contains("required") && denies(&said) {
        return None;
    }
    let speaks = |clauses: &[String]| {
        clauses.iter().any(|clause| check.permitted.iter().any(|cue| contains(clause, cue)))
    };
    match (speaks(&known.denied), speaks(&known.affirmed)) {
        (true, _) => Some(false),
        (false, true) => Some(true),
        (false, false) => None,
    }
}

/// Whether a folded text holds a cue as whole words.
fn contains(folded: &str, cue: &str) -> bool {
    let (cue, open) = cue.strip_suffix('*').map_or((cue, false), |cue| (cue, true));
    folded.match_indices(cue).any(|(at, _)| {
        let before = folded[..at].chars().next_back();
        let after = folded[at + cue.len()..].chars().next();
        !before.is_some_and(char::is_alphanumeric)
            && (open || !after.is_some_and(char::is_alphanumeric))
    })
}

fn level(folded: &str, check: &Check) -> Option<usize> {
    let of = |words: &Vec<String>| words.iter().any(|word| contains(folded, word));
    check.levels.iter().rposition(of)
}

/// Whether a clause denies something: `no Java` is no Java.
pub(crate) fn denies(clause: &str) -> bool {
    let folded = fold(clause);
    let mut words = folded.split(|c: char| !(c.is_alphanumeric() || c == '\''));
    words.any(|word| lexicon().denials.contains(word))
}

fn words(text: &str, check: &Check) -> BTreeSet<String> {
    let mut found = content_words(text, 2);
    found.retain(|_, written| {
        let written = fold(written);
        written.chars().any(char::is_alphabetic)
            && !check.common.contains(&written)
            && !check.levels.iter().flatten().any(|word| *word == written)
    });
    let meant = |word: String| {
        let group = check.same.iter().find(|group| group.iter().any(|one| fits(one, &word)));
        group
            .and_then(|group| group.first())
            .map_or(word, |first| first.trim_end_matches('*').to_string())
    };
    found.into_keys().map(meant).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check() -> Check {
        serde_json::from_value(json!({
            "with": "profile", "most": 9, "common": ["experience", "years"], "alternatives": ["or"],
            "years": ["year*"], "formal": ["visa*", "right to work"], "permitted": ["permit", "citizen"],
            "same": [["german", "deutsch*"]], "levels": [["b1"], ["b2"], ["c1", "fluent"]]
        }))
        .unwrap()
    }

    #[test]
    fn a_statement_is_met_by_its_words_and_unknown_without_an_input() {
        let known = KnownWords::of("Python developer, pipelines in SQL and Airflow", &check());
        let met = |statement| met(statement, &known, &check());
        assert_eq!(met("3+ years of experience with Python"), Some(true));
        assert_eq!(met("Kubernetes and Terraform"), Some(false));
        assert_eq!(met("Airflow or Prefect or Dagster"), Some(true));
        assert_eq!(super::met("Python", &KnownWords::of("", &check()), &check()), None);
    }

    #[test]
    fn years_that_fit_and_words_of_another_language_are_no_gap() {
        let known = KnownWords::of("Baker, 6 years, sourdough. Spanish", &check());
        let met = |statement, known: &KnownWords| super::met(statement, known, &check());
        assert_eq!(met("3 years of experience", &known), Some(true));
        assert_eq!(met("10 years of experience", &known), Some(false));
        assert_eq!(met("5 years in a large kitchen", &known), None);
        assert_eq!(met("8 years in a large kitchen", &known), Some(false));
        assert_eq!(met("Conocimiento de masa madre", &known), Some(false));
        let foreign = KnownWords { foreign: true, ..known };
        assert_eq!(met("Conocimiento de masa madre", &foreign), None);
    }

    #[test]
    fn permits_levels_and_languages_are_compared() {
        let met = |statement, profile| met(statement, &KnownWords::of(profile, &check()), &check());
        assert_eq!(
            met("You have the right to work in the EU", "Python. No work permit."),
            Some(false)
        );
        assert_eq!(met("You have the right to work in the EU", "Python. EU citizen"), Some(true));
        assert_eq!(met("You have the right to work in the EU", "Python"), None);
        assert_eq!(met("Fluent German", "Deutschkenntnisse B1"), Some(false));
        assert_eq!(met("German B1", "Deutsch C1"), Some(true));
    }
}
