//! What sentences of a summary say: a question, a decision, something done. Pure, by words of four
//! languages (`said.toml`); a sentence that fits no rule is only a sentence.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use serde::Deserialize;
use unicode_normalization::UnicodeNormalization as _;
use unicode_normalization::char::is_combining_mark;

use super::markdown::one_line;
use crate::contract::hash::sha256;
use crate::model::builtin::text::lines;

/// Letters of a word that count: endings differ between tenses and numbers.
const STEM_CHARS: usize = 5;
/// Most words of a sentence that are compared.
const WORDS_MAX: usize = 16;

/// The lists of `said.toml`. That file says what each list is for.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Words {
    decided: BTreeSet<String>,
    denied: BTreeSet<String>,
    done: BTreeSet<String>,
    not_yet: BTreeSet<String>,
    dates: BTreeSet<String>,
    little: BTreeSet<String>,
    verbs: Vec<Vec<String>>,
}

static WORDS: LazyLock<Words> = LazyLock::new(|| {
    toml::from_str(include_str!("said.toml")).expect("said.toml is read by a test")
});

/// The text without accents, in lower case.
fn fold(text: &str) -> String {
    text.nfkd().filter(|c| !is_combining_mark(*c)).flat_map(char::to_lowercase).collect()
}

/// Folds case, accents, blanks and final punctuation, so that two spellings of a sentence are one.
pub(crate) fn folded(text: &str) -> String {
    let line = fold(&one_line(text));
    let outer = |c: char| !c.is_alphanumeric();
    line.trim_matches(outer).to_owned()
}

/// The sentences of a text on one line. A wrong cut does no harm: callers put the rest together again.
pub(crate) fn sentences(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut start = 0;
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        if !matches!(c, '.' | '!' | '?' | '…') {
            continue;
        }
        let Some((next, ' ')) = chars.peek().copied() else { continue };
        let rest = text[next..].trim_start();
        let begins = rest.starts_with(|c: char| c.is_uppercase() || "¿¡\"“«(".contains(c));
        let before = text[start..at].rsplit(' ').next().unwrap_or_default();
        // After so few letters a full stop mostly ends a title or an initial.
        let few = before.chars().count() <= 3 && before.chars().all(char::is_alphabetic);
        // `USB` and `GB` are words: only one capital letter, or one before small letters, is a title.
        let is_word = before.chars().count() >= 2 && before.chars().all(char::is_uppercase);
        let short = c == '.' && few && !is_word && before.starts_with(char::is_uppercase);
        if begins && !short {
            found.push(text[start..next].trim());
            start = next;
        }
    }
    found.push(text[start..].trim());
    found.retain(|sentence| !sentence.is_empty());
    found
}

/// The words of a sentence with a blank around each, for looking up phrases.
fn spaced(sentence: &str) -> String {
    let words = fold(sentence);
    let words: Vec<&str> =
        words.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
    format!(" {} ", words.join(" "))
}

fn says(spaced: &str, phrases: &BTreeSet<String>) -> bool {
    phrases.iter().any(|phrase| spaced.contains(&format!(" {phrase} ")))
}

pub(crate) fn is_question(sentence: &str) -> bool {
    sentence.ends_with('?') && sentence.split_whitespace().count() >= 3
}

pub(crate) fn is_decision(sentence: &str) -> bool {
    let words = spaced(sentence);
    !sentence.ends_with('?') && says(&words, &WORDS.decided) && !says(&words, &WORDS.denied)
}

pub(crate) fn is_done(sentence: &str) -> bool {
    let words = spaced(sentence);
    !sentence.ends_with('?') && says(&words, &WORDS.done) && !says(&words, &WORDS.not_yet)
}

/// Numbers that stand for the words that carry meaning, without endings.
pub(crate) fn content(sentence: &str) -> Vec<u32> {
    let words = fold(sentence);
    let mut numbers = BTreeSet::new();
    for word in words.split(|c: char| !c.is_alphanumeric()) {
        let verb = WORDS
            .verbs
            .iter()
            .find(|forms| forms.iter().any(|form| word.starts_with(form.as_str())));
        let long = word.chars().count() >= 4;
        let empty =
            [&WORDS.little, &WORDS.dates, &WORDS.done].iter().any(|list| list.contains(word));
        let stem: String = match verb {
            Some(forms) => forms[0].clone(),
            None if !long || empty => continue,
            None => word.chars().take(STEM_CHARS).collect(),
        };
        let hash = sha256(stem).hex();
        numbers.extend(u32::from_str_radix(&hash[..8], 16));
        if numbers.len() == WORDS_MAX {
            break;
        }
    }
    numbers.into_iter().collect()
}

/// Whether words of a later sentence speak of a task: most of its words, and at least two where the
/// task has two. `Could you pay him?` has one.
pub(crate) fn speaks_of(task: &[u32], sentence: &[u32]) -> bool {
    let shared = task.iter().filter(|word| sentence.contains(word)).count();
    shared >= task.len().clamp(1, 2) && shared * 2 > task.len()
}

/// The sentences without the greeting before them and the name of the sender behind them.
pub(crate) fn without_salutation<'t, 's>(sentences: &'s [&'t str]) -> &'s [&'t str] {
    let mut kept = sentences;
    if let [first, rest @ ..] = kept
        && !rest.is_empty()
        && lines::greets(first.trim_start_matches('¡'))
    {
        kept = rest;
    }
    if let [rest @ .., last] = kept
        && !rest.is_empty()
        && signs(last)
    {
        kept = rest;
    }
    kept
}

/// Whether the end of a text is the name of its sender: two words without a full stop, or a few with
/// capital letters.
fn signs(last: &str) -> bool {
    const NAME_WORDS_MAX: usize = 5;
    const BETWEEN: &[&str] =
        &["de", "del", "la", "el", "of", "the", "and", "y", "von", "der", "du"];
    let name = last.split(',').next().unwrap_or_default();
    let words: Vec<&str> = name.split_whitespace().collect();
    let is_name = |word: &&str| word.starts_with(char::is_uppercase) || BETWEEN.contains(word);
    let is_open = last.ends_with(char::is_alphabetic);
    let has_digit = last.contains(|c: char| c.is_ascii_digit());
    let few = words.len() <= 2 || words.len() <= NAME_WORDS_MAX && words.iter().all(is_name);
    is_open && few && !has_digit && last.starts_with(char::is_uppercase)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_end_where_another_begins() {
        let text = "We met Dr. Ruiz at 10.30. ¿Viene Ana? Sí! It works, e.g. on v2.4. Done";
        let expected =
            ["We met Dr. Ruiz at 10.30.", "¿Viene Ana?", "Sí!", "It works, e.g. on v2.4.", "Done"];
        assert_eq!(sentences(text), expected);
        assert_eq!(sentences("It freed 240 GB. Ask J. Ruiz.").len(), 2);
        assert!(sentences("").is_empty());
    }

    #[test]
    fn a_sentence_closes_only_the_task_that_it_names() {
        let task = content("Please send the signed lease to Marta by Friday.");
        for (sentence, closes) in [
            ("I sent the lease to Marta on Thursday.", true),
            ("The lease is not sent to Marta yet.", false),
            ("Once the lease is sent, Marta answers.", false),
            ("I sent the photos to Pedro.", false),
            ("Did you send the lease to Marta?", false),
        ] {
            let found = is_done(sentence) && speaks_of(&task, &content(sentence));
            assert_eq!(found, closes, "{sentence}");
        }
        let task = content("Por favor enviame el contrato firmado antes del 13 de marzo.");
        let said = "Ya te envié el contrato de alquiler firmado, va por correo certificado.";
        assert!(is_done(said) && speaks_of(&task, &content(said)));
        let task = content("Pagar la factura de energía antes del 12 de febrero");
        let said = "Pagué la factura de energía el martes.";
        assert!(is_done(said) && speaks_of(&task, &content(said)));
        let task = content("¿Podés pagarle antes del viernes 13 de marzo?");
        let said = "Ya le pagué al técnico esta mañana por transferencia.";
        assert!(is_done(said) && speaks_of(&task, &content(said)));
        let said = "Te envié las fotos.";
        assert!(is_done(said) && !speaks_of(&task, &content(said)));
        assert!(!speaks_of(&[], &content(said)), "a task without words is closed by nothing");
    }

    #[test]
    fn a_greeting_and_a_signature_say_nothing() {
        for (text, expected) in [
            ("¡Hola! Solo hoy hay tres por dos.", "Solo hoy hay tres por dos."),
            ("The names are right. Mara Keller", "The names are right."),
            ("Verify your account today. Security team", "Verify your account today."),
            ("Irene", "Irene"),
            (
                "The meeting is in room 4. Bring the plan",
                "The meeting is in room 4. Bring the plan",
            ),
            ("It costs 12 euros. Room 4", "It costs 12 euros. Room 4"),
        ] {
            assert_eq!(without_salutation(&sentences(text)).join(" "), expected);
        }
    }

    #[test]
    fn decisions_and_questions_are_told_by_their_words() {
        assert!(is_decision("Se acordó cambiar de proveedor en marzo."));
        assert!(is_decision("We decided to ship on Thursday."));
        assert!(!is_decision("Nothing was decided, no date was agreed on."));
        assert!(is_question("¿Conviene alquilar auto?") && !is_question("Really?"));
    }
}
