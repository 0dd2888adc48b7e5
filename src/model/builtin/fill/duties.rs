//! Duties that a writer notes for themselves, and words that only sound like a request.
//!
//! Contract. `I still have to call Ana` is a task where somebody writes for themselves: in a text without a sender,
//! a greeting and a speaker. A label such as `Note to self:` makes a task of what stands behind it. A clause that
//! says that somebody need not do a thing, or that is only polite, asks for nothing; another clause of the same
//! sentence may. The words are in `[ask]` of the language files.

use super::super::lexicon::{Words, lexicon};
use super::super::text::words::{fold, in_order, spaced};
use super::super::text::{Kind, Role, lines};
use super::scene::Scene;

/// Sentences of an own note, at most: a longer text is an article.
const NOTE_SENTENCES_MAX: usize = 60;
/// Letters of an infinitive, at least.
const INFINITIVE_LETTERS_MIN: usize = 4;
/// Bytes of a label before a colon, at most.
const LABEL_BYTES_MAX: usize = 40;

/// Whether somebody writes for themselves.
pub(crate) fn is_own_note(scene: &Scene<'_, '_>) -> bool {
    let text = scene.text;
    let is_sent = scene.input_text("from", &scene.all()).is_some();
    let is_spoken = || text.spoken_by.iter().any(Option::is_some);
    let is_framed = || {
        let mut blocks = text.blocks.iter();
        blocks.any(|block| {
            matches!(block.kind, Kind::Header | Kind::Signature) || block.role != Role::None
        })
    };
    let greets = || (0..text.sentences.len().min(2)).any(|at| lines::greets(text.sentence(at)));
    text.parts.len() == 1
        && text.sentences.len() <= NOTE_SENTENCES_MAX
        && !is_sent
        && !is_spoken()
        && !is_framed()
        && !greets()
}

/// Whether a sentence names something that its writer has to do: `I still have to call Ana`.
pub(crate) fn is_own_duty(said: &str) -> bool {
    let ask = &lexicon().ask;
    let has_label = || label_of(said).is_some_and(|label| ask.own_labels.contains(&label));
    let is_duty = |clause: &String| {
        let says = |phrase: &String| in_order(clause, phrase);
        let begins = |phrase: &String| clause.starts_with(&format!(" {phrase} "));
        ask.own_duties.iter().any(says)
            || ask.own_beginnings.iter().any(begins)
            || ask.own_remainders.iter().any(|phrase| is_before_infinitive(clause, phrase))
    };
    !said.trim_end().ends_with('?')
        && (has_label() || clauses(said).iter().any(|one| !is_taken_back(one) && is_duty(one)))
}

/// Whether a label stands before a sentence that makes a task of it: `To do: order paint`. Without its colon the
/// English label has capitals: in Spanish the word means all.
pub(crate) fn is_labelled(said: &str) -> bool {
    const LABEL: &str = "TODO";
    let in_capitals = || {
        let rest = said.strip_prefix(LABEL);
        rest.is_some_and(|rest| rest.len() > 1 && !rest.starts_with(char::is_alphanumeric))
    };
    let is_known = |label: String| lexicon().ask.task_labels.contains(&label);
    label_of(said).is_some_and(is_known) || in_capitals()
}

/// The words before a colon, folded, where something stands behind it.
fn label_of(said: &str) -> Option<String> {
    let (label, rest) = said.split_once(':')?;
    let is_label = label.len() <= LABEL_BYTES_MAX && !rest.trim().is_empty();
    is_label.then(|| spaced(label).trim().to_owned())
}

/// Whether a clause asks for something by words around what it asks for: `I still need the plan from you`.
pub(crate) fn asks_around(said: &str) -> bool {
    let around = lexicon().ask.requests.iter().filter(|phrase| phrase.contains('…'));
    let around: Vec<&String> = around.collect();
    let asks = |clause: &String| {
        !is_taken_back(clause) && around.iter().any(|phrase| in_order(clause, phrase))
    };
    clauses(said).iter().any(asks)
}

/// Whether all that a sentence seems to ask for is taken back, or is only polite: `You don't have to come`.
pub(crate) fn asks_only_in_seeming(said: &str) -> bool {
    let all = clauses(said);
    let is_real = |clause: &String| {
        !is_taken_back(clause)
            && (says_any(clause, &lexicon().ask.requests)
                || asks_around(clause)
                || begins_with_order(clause))
    };
    all.iter().any(|one| is_taken_back(one)) && !all.iter().any(is_real)
}

/// Whether a sentence asks only those who cannot do a thing: `If you cannot come, please tell us`.
pub(crate) fn asks_only_who_cannot(said: &str) -> bool {
    let Some((condition, _)) = said.split_once(',') else { return false };
    let condition = spaced(condition);
    is_condition(&condition) && says_any(&condition, &lexicon().ask.unable)
}

fn is_condition(clause: &str) -> bool {
    let first = clause.split_whitespace().next();
    first.is_some_and(|first| lexicon().ask.conditional.contains(first))
}

/// Whether a clause begins with an order and a pronoun in one word: `Ah, y devuélveme el taladro`.
pub(crate) fn orders_with_pronoun(said: &str) -> bool {
    const MARKS: [char; 8] = [',', ';', ':', '(', '!', '¡', '.', '–'];
    const ACCENTS: [char; 5] = ['á', 'é', 'í', 'ó', 'ú'];
    const LETTERS_MIN: usize = 5;
    let ask = &lexicon().ask;
    let orders = |word: &str| {
        let raw = word.to_lowercase();
        let is_order = |end: &String| {
            let Some(verb) = raw.strip_suffix(end.as_str()).filter(|verb| verb.contains(ACCENTS))
            else {
                return false;
            };
            ask.own_enclitics.contains(end) || ask.imperatives.contains(fold(verb).as_str())
        };
        raw.chars().count() > LETTERS_MIN && ask.enclitics.iter().any(is_order)
    };
    let begins = |clause: &str| {
        let words = clause.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
        let mut words = words.skip_while(|word| ask.openers.contains(fold(word).as_str()));
        words.next().is_some_and(orders)
    };
    !ask.enclitics.is_empty() && said.split(MARKS).any(begins)
}

/// Whether an order stands behind a condition: `If so, send me your papers`.
pub(crate) fn orders_on_condition(said: &str) -> bool {
    let Some((condition, rest)) = said.split_once(',') else { return false };
    is_condition(&spaced(condition)) && clauses(rest).iter().any(|clause| begins_with_order(clause))
}

/// Whether a sentence says that something is left to do: `Falta reservar la cabaña.`
pub(crate) fn names_remainder(said: &str) -> bool {
    let ask = &lexicon().ask;
    let is_left = |clause: &String| {
        ask.own_remainders.iter().any(|phrase| {
            clause.starts_with(&format!(" {phrase} ")) && is_before_infinitive(clause, phrase)
        })
    };
    clauses(said).first().is_some_and(is_left)
}

/// Whether a sentence begins by forbidding something in the form of an order: `No cierres la puerta`.
pub(crate) fn forbids(said: &str) -> bool {
    let ask = &lexicon().ask;
    let words = spaced(said);
    let begins = |phrase: &String| words.starts_with(&format!(" {phrase} "));
    let mut words = words.split_whitespace();
    let denies = words.next().is_some_and(|word| ask.forbids_before.contains(word));
    let verb = words.next().unwrap_or_default();
    let order = verb.strip_suffix('s').unwrap_or(verb);
    let ends = |end: &String| verb.ends_with(end.as_str());
    let is_order = ask.imperatives.contains(order) || ask.forbids_endings.iter().any(ends);
    ask.forbids.iter().any(begins) || denies && is_order
}

fn is_taken_back(clause: &str) -> bool {
    says_any(clause, &lexicon().ask.taken_back)
}

fn begins_with_order(clause: &str) -> bool {
    let ask = &lexicon().ask;
    let mut words = clause.split_whitespace().skip_while(|word| ask.openers.contains(*word));
    words.next().is_some_and(|word| ask.imperatives.contains(word)) && words.next().is_some()
}

/// The clauses of a sentence, as folded words between blanks: they end at marks and at words such as `but`.
fn clauses(said: &str) -> Vec<String> {
    const MARKS: [char; 9] = [',', ';', ':', '(', ')', '–', '—', '!', '→'];
    let ends = |word: &str| {
        let joins = |list: &Words| list.contains(word);
        joins(&lexicon().ask.contrasts)
            || lexicon().languages.iter().any(|habits| joins(&habits.done.joints))
    };
    let mut found = Vec::new();
    for piece in said.split(MARKS) {
        let words = spaced(piece);
        let words: Vec<&str> = words.split_whitespace().collect();
        let all = words.split(|word| ends(word)).filter(|clause| !clause.is_empty());
        found.extend(all.map(|clause| format!(" {} ", clause.join(" "))));
    }
    found
}

/// Whether an infinitive stands right behind a phrase: `falta enviar la carta`.
fn is_before_infinitive(clause: &str, phrase: &str) -> bool {
    let Some(at) = clause.find(&format!(" {phrase} ")) else { return false };
    let next = clause[at + phrase.len() + 1..].split_whitespace().next().unwrap_or_default();
    let ends = |end: &String| next.ends_with(end.as_str());
    next.len() >= INFINITIVE_LETTERS_MIN && lexicon().ask.infinitive_endings.iter().any(ends)
}

/// Whether a clause says one of some phrases, whose apostrophes are blanks.
fn says_any(clause: &str, phrases: &[String]) -> bool {
    let says = |phrase: &String| match phrase.contains('\'') {
        true => clause.contains(&spaced(phrase)),
        false => clause.contains(&format!(" {phrase} ")),
    };
    phrases.iter().any(says)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_writer_notes_what_they_have_to_do() {
        for duty in [
            "I still have to find the old policy number.",
            "Tengo que llamar al seguro.",
            "Me falta comprar la malla.",
            "Ya pagué el IBI, falta enviar el justificante.",
            "Ich muss noch die Steuer machen.",
            "Am Montag muss ich zum Amt.",
            "J'ai encore la déclaration d'impôts à faire.",
            "Il faut que je passe à la pharmacie.",
            "Reste à envoyer le constat.",
            "Note to self: cancel the trial",
            "Nicht vergessen: Oma anrufen",
        ] {
            assert!(is_own_duty(duty) || is_labelled(duty), "{duty}");
        }
        for other in [
            "I have to say the soup was good.",
            "I had to wait.",
            "I don't have to go to work.",
            "Do I have to pay?",
            "Tengo que decir que me gustó.",
            "No tengo que ir mañana.",
            "Ich muss sagen, der Film war gut.",
            "Je dois avouer que c'est beau.",
            "Falta pan.",
            "Todo llegó bien.",
        ] {
            assert!(!is_own_duty(other) && !is_labelled(other), "{other}");
        }
    }

    #[test]
    fn words_that_only_sound_like_a_request_ask_for_nothing() {
        for polite in [
            "Please find attached the statement.",
            "You don't have to do anything, please accept our apologies.",
            "Bitte entschuldigen Sie die Verspätung.",
            "Sie müssen nichts weiter tun, der Betrag wird abgebucht.",
            "Bitte haben Sie Verständnis.",
            "Veuillez trouver ci-joint le devis.",
            "Je vous prie d'agréer, Madame, mes salutations.",
            "Vous n'avez pas besoin de revenir.",
            "Le ruego disculpe las molestias.",
            "No hace falta que haga nada.",
            "No tienes que venir mañana.",
        ] {
            assert!(asks_only_in_seeming(polite), "{polite}");
        }
        for asked in [
            "Please find attached the form and sign it by Friday.",
            "You don't need to come, but please send the form.",
            "Anbei die Liste, bitte haben Sie Verständnis und prüfen Sie bitte den Preis.",
            "No hace falta venir, pero por favor envía la hoja.",
            "Please send the form.",
        ] {
            assert!(!asks_only_in_seeming(asked), "{asked}");
        }
    }

    #[test]
    fn an_order_may_end_in_its_pronoun() {
        for order in [
            "Ah, y devuélveme el taladro cuando puedas.",
            "Si alguien tiene alergias, dínoslo antes del jueves.",
            "Envíanos la factura.",
            "¡Llámala mañana!",
        ] {
            assert!(orders_with_pronoun(order), "{order}");
        }
        for other in [
            "The door, handle and lock are new.",
            "Términos y condiciones.",
            "Artículos nuevos en la tienda.",
            "Películas del sábado.",
            "El número es 12.",
        ] {
            assert!(!orders_with_pronoun(other), "{other}");
        }
    }

    #[test]
    fn what_is_asked_of_those_who_cannot_is_asked_of_nobody_else() {
        for other in [
            "If you cannot come, please tell us.",
            "Falls Sie verhindert sind, sagen Sie bitte ab.",
            "Wer nicht zu Hause ist, gibt den Schlüssel bitte ab.",
            "Si no puedes venir, avisa por favor.",
            "Si vous ne pouvez pas venir, veuillez nous prévenir.",
        ] {
            assert!(asks_only_who_cannot(other), "{other}");
        }
        for asked in [
            "If you agree, please sign the form.",
            "Wenn du Zeit hast, lies bitte den Text.",
            "Si estás de acuerdo, firma la hoja.",
            "Please come, if you can.",
        ] {
            assert!(!asks_only_who_cannot(asked), "{asked}");
        }
    }

    #[test]
    fn words_of_duties_are_folded() {
        let ask = &lexicon().ask;
        let lists = [
            &ask.own_duties,
            &ask.own_beginnings,
            &ask.own_remainders,
            &ask.own_labels,
            &ask.task_labels,
            &ask.taken_back,
            &ask.unable,
            &ask.forbids,
            &ask.enclitics,
            &ask.own_enclitics,
        ];
        for phrase in lists.into_iter().flatten() {
            let pieces: Vec<&str> = phrase.split(" … ").collect();
            assert!(pieces.iter().all(|piece| spaced(piece).trim() == *piece), "{phrase}");
        }
        assert!(ask.contrasts.iter().all(|word| fold(word) == **word));
    }
}
