//! What a message is by its signs: sent to everybody, automatic, a fraud, with something at stake, with a
//! question to its reader. The words stand in `[mail]` of the language files.

use super::super::extract::Mention;
use super::super::lexicon::lexicon;
use super::super::text::{Kind, Role};
use super::filled::Filled;
use super::rule::{Sign, SignStep};
use super::scene::Scene;
use super::signals::{Named, Signals, is_backed, is_company, named_after, says, sender, signals};
use super::{due, event};

/// Days within which a deadline is urgent.
const SOON_DAYS: i64 = 2;

/// The value of the first step whose signs hold.
pub(crate) fn step(scene: &Scene<'_, '_>, steps: &[SignStep]) -> Filled {
    let known = signals(scene);
    let has = |sign: &Sign| holds(scene, known, *sign);
    let step = steps.iter().find(|step| step.all.iter().all(has) && !step.none.iter().any(has));
    step.map_or(Filled::Nothing, |step| Filled::Value(step.value.clone()))
}

fn holds(scene: &Scene<'_, '_>, known: Signals, sign: Sign) -> bool {
    let mail = &lexicon().mail;
    match sign {
        Sign::Scam => known.scam,
        Sign::Bulk => known.bulk,
        Sign::Automated => known.automated,
        Sign::Stake => known.stake,
        Sign::Legal => is_backed(scene, &mail.legal, |_| true),
        // `Not urgent` is not urgent.
        Sign::Urgent => {
            let is_affirmed = |one: Mention| scene.is_said(one.sentence) && !scene.is_denied(one);
            is_backed(scene, &mail.urgent, is_affirmed) || soon(scene)
        }
        Sign::Calm => says(scene, &mail.calm),
        Sign::Question => asks_reader(scene) || says(scene, &mail.replies),
        Sign::Event => event::best(scene).is_some(),
        Sign::Task => !scene.asks().is_empty(),
        Sign::Deadline => due::deadline(scene, &scene.all(), true).is_some(),
        Sign::Person => !known.automated && is_person(scene),
        Sign::Company => is_company(scene),
    }
}

fn soon(scene: &Scene<'_, '_>) -> bool {
    let Some(when) = due::deadline(scene, &scene.all(), true) else { return false };
    when.date
        .zip(scene.written_on(when.mention.sentence))
        .is_some_and(|(day, today)| (0..=SOON_DAYS).contains(&(day - today).num_days()))
}

/// Whether a sentence of the writer's own ends in a question mark, and waits for an answer: nobody answers `Who would
/// have thought it?`.
fn asks_reader(scene: &Scene<'_, '_>) -> bool {
    let rhetorical = scene.index().sentences(lexicon().mail.rhetorical.iter().map(String::as_str));
    (0..scene.text.sentences.len()).any(|at| {
        let block = scene.text.block_of(at);
        matches!(block.kind, Kind::Paragraph | Kind::Item)
            && block.role == Role::None
            && scene.text.sentence(at).trim_end_matches(['"', ')', '*', ' ']).ends_with('?')
            && rhetorical.binary_search(&at).is_err()
    })
}

/// A shown name of two words, a name in the address, or a signed letter.
fn is_person(scene: &Scene<'_, '_>) -> bool {
    let from = scene.input_text("from", &scene.all()).unwrap_or_default();
    let (local, name) = sender(&from);
    if is_company(scene) {
        return false;
    }
    if named_after(&from) == Some(Named::Person) {
        return true;
    }
    let high = |word: &str| word.starts_with(char::is_uppercase);
    let words: Vec<&str> = name.split([' ', ',']).filter(|word| !word.is_empty()).collect();
    let named = !words.is_empty() && words.len() <= 4 && words.iter().all(|word| high(word));
    let signed = scene.text.blocks.iter().any(|block| block.kind == Kind::Signature);
    let plain = !local.is_empty()
        && local.chars().all(|c| c.is_alphabetic() || matches!(c, '.' | '_' | '-'));
    named || (plain && (local.contains('.') || signed || name.is_empty()))
}
