//! Whether a sentence states a decision, by `[settled]` of the language files and by its label.
//!
//! Contract. A decision is said to be made, or is made in the sentence by those who speak: `We postpone the
//! release`. What a clause denies, supposes or proposes before these words is none, and no question is. What
//! stands behind them may deny: `We decided not to paint it`.

use super::super::lexicon::lexicon;
use super::blocks::declares_decision;
use super::words::spaced;

pub(crate) fn states_decision(sentence: &str) -> bool {
    let is_question = sentence.trim_end_matches(['"', ')', '*', '_', ' ']).ends_with('?');
    !is_question && (declares_decision(sentence) || sentence.split(CLAUSE_ENDS).any(settles))
}

const CLAUSE_ENDS: [char; 3] = [',', ';', ':'];

fn settles(clause: &str) -> bool {
    let settled = &lexicon().settled;
    let words = spaced(clause);
    let before = |phrase: &String| words.find(&format!(" {phrase} "));
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
        ] {
            assert!(!states_decision(other), "{other}");
        }
    }
}
