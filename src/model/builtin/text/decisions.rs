//! Whether a sentence states a decision, by `[settled]` of the language files and by its label.
//!
//! Contract. A decision is said to be made, or is made in the sentence by those who speak: `We postpone the
//! release`. What a clause denies, supposes or proposes before these words is none, and no question is. What
//! stands behind them may deny: `We decided not to paint it`.

use super::super::done;
use super::super::lexicon::lexicon;
use super::blocks::declares_decision;
use super::words::{in_order, spaced};

pub(crate) fn states_decision(sentence: &str) -> bool {
    let is_question = sentence.trim_end_matches(['"', ')', '*', '_', ' ']).ends_with('?');
    let concludes = || {
        sentence.split(CLAUSE_ENDS).any(concludes)
            && done::has_day(sentence)
            && !done::reports(sentence)
    };
    !is_question
        && (declares_decision(sentence) || sentence.split(CLAUSE_ENDS).any(settles) || concludes())
}

/// Whether those who speak draw a conclusion: `Then we ship on 7 December`.
fn concludes(clause: &str) -> bool {
    let settled = &lexicon().settled;
    let words = spaced(clause);
    let is_open = words.split(' ').any(|word| settled.denied.contains(word));
    let begins = |phrase: &String| {
        let first = phrase.split(" … ").next().unwrap_or_default();
        words.starts_with(&format!(" {first} ")) && in_order(&words, phrase)
    };
    !is_open && settled.concludes.iter().any(begins)
}

const CLAUSE_ENDS: [char; 3] = [',', ';', ':'];

fn settles(clause: &str) -> bool {
    let settled = &lexicon().settled;
    let words = spaced(clause);
    // `wird … verschoben`: the words before the first piece tell whether it is denied, and those between the two.
    let before = |phrase: &String| match phrase.split_once(" … ") {
        Some((_, last)) if in_order(&words, phrase) => words.find(&format!(" {last} ")),
        Some(_) => None,
        None => words.find(&format!(" {phrase} ")),
    };
    let is_denied = |at: usize| words[..at].split(' ').any(|word| settled.denied.contains(word));
    settled.says.iter().filter_map(before).any(|at| !is_denied(at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_settled_in_the_present_is_a_decision_in_every_language() {
        for decision in [
            "We postpone the release to Monday 16 March and run the migration at 23:00.",
            "We decided not to use glossy paper.",
            "Jonas proposed to drop it; we agreed to drop it in 4.3.",
            "Aplazamos la reunión al lunes.",
            "Se acordó cambiar de proveedor en marzo.",
            "Wir verschieben das Fest auf den 12. Juni.",
            "Wegen des Regens verlegen wir das Fest in die Halle.",
            "Es wurde beschlossen, dass die Gebühr 8 Euro beträgt.",
            "Nous reportons la réunion au lundi.",
            "Decision: we take the blue paint.",
            "OK, then we go with BRIN for the timestamp and partition by month.",
            "Then we ship on 7 December.",
            "We will go with the blue tiles.",
            "Der Umzug wird auf Januar verschoben.",
            "Dann fahren wir am Samstag.",
            "Perfecto, me quedo con Parque das Nações.",
            "Entonces salimos el lunes.",
            "La fiesta se aplaza al sábado.",
            "Alors on part le 3 mai.",
            "La réunion est reportée au lundi.",
        ] {
            assert!(states_decision(decision), "{decision}");
        }
    }

    #[test]
    fn what_is_denied_supposed_proposed_or_asked_is_no_decision() {
        for other in [
            "Nothing was decided, no date was agreed on.",
            "If we postpone the release, the fair is over.",
            "Jonas proposes that we cancel the trip.",
            "Do we postpone the release?",
            "Si aplazamos la reunión, Ana no puede venir.",
            "Es wurde noch nicht entschieden.",
            "Wenn wir das Fest verschieben, kommt Ana.",
            "Rien n'a été décidé.",
            "Decision: which paint do we take?",
            "We met at noon.",
            "Then we went home on Friday.",
            "Then we should ship on Monday.",
            "Der Umzug wird nicht auf Januar verschoben.",
            "Wenn der Umzug auf Januar verschoben wird, kommt Ana.",
            "Entonces no salimos el lunes.",
        ] {
            assert!(!states_decision(other), "{other}");
        }
    }
}
