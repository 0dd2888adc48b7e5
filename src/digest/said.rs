//! The sentences of a summary, and which of them ask. Pure. A sentence that fits no rule is only a sentence.
//! What is decided is in `text::decisions`, what is done in `model::builtin::done`.

use std::collections::BTreeSet;

use serde_json::Value;

use super::markdown::{names_speaker, one_line};
use crate::contract::time::parse_instant;
use crate::model::builtin::lexicon::lexicon;
use crate::model::builtin::text::decisions::states_decision;
use crate::model::builtin::text::lines;
use crate::model::builtin::text::sentences::is_day;
use crate::model::builtin::text::words::fold;

/// Folds case, accents, blanks and final punctuation, so that two spellings of a sentence are one.
pub(crate) fn folded(text: &str) -> String {
    let line = fold(&one_line(text));
    let outer = |c: char| !c.is_alphanumeric();
    line.trim_matches(outer).to_owned()
}

/// The sentences of a text on one line. What somebody says in a chat begins one too. A wrong cut does no harm:
/// callers put the rest together again.
pub(crate) fn sentences(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut start = 0;
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        if !matches!(c, '.' | '!' | '?' | '…' | ';') {
            continue;
        }
        let Some((next, ' ')) = chars.peek().copied() else { continue };
        let ends = match c {
            ';' => names_speaker(text[next..].trim_start()),
            _ => ends(&text[start..at], c, text[next..].trim_start()),
        };
        if ends {
            found.push(text[start..next].trim());
            start = next;
        }
    }
    found.push(text[start..].trim());
    found.retain(|sentence| !sentence.is_empty());
    found
}

/// Whether a sentence ends at a mark: another begins behind it, and the mark belongs to no title and no
/// abbreviation.
fn ends(before: &str, mark: char, rest: &str) -> bool {
    let begins = rest.starts_with(|c: char| c.is_uppercase() || "¿¡\"“«([".contains(c));
    let word = before.rsplit(' ').next().unwrap_or_default();
    let is_plain = word.chars().all(char::is_alphabetic);
    // After so few letters a full stop mostly ends a title or an initial. `Ben` and `May` have three.
    let is_title = || lexicon().abbreviations.contains(fold(word).as_str());
    let letters = word.chars().count();
    let few = is_plain && (letters <= 2 || letters == 3 && is_title());
    // `USB` and `GB` are words: only one capital letter, or one before small letters, is a title.
    let is_word = word.chars().count() >= 2 && word.chars().all(char::is_uppercase);
    let short = mark == '.' && few && !is_word && word.starts_with(char::is_uppercase);
    // An item of a list may begin in lower case: `Call Ana. measure the pane.`
    let is_long = word.chars().count() >= WORD_LETTERS_MIN && is_plain;
    let is_item = mark == '.' && is_long && !ABBREVIATIONS.contains(&fold(word).as_str());
    let is_short = short || mark == '.' && is_day(before, rest);
    (begins || is_item && rest.starts_with(char::is_alphabetic)) && !is_short
}

/// The sentences that are wanted, without those that begin with a pronoun right behind one that is not: nobody would
/// know who `she` is. All that are wanted where nothing else is left.
pub(crate) fn with_antecedents<'s>(
    sentences: &[&'s str],
    is_wanted: impl Fn(&str) -> bool,
) -> Vec<&'s str> {
    let mut kept = Vec::new();
    let mut is_dangling = false;
    for sentence in sentences {
        is_dangling = !is_wanted(sentence) || is_dangling && leans(sentence);
        if !is_dangling {
            kept.push(*sentence);
        }
    }
    if kept.is_empty() {
        kept.extend(sentences.iter().filter(|one| is_wanted(one)));
    }
    kept
}

/// Whether a sentence begins with a word that stands for what was named before.
fn leans(sentence: &str) -> bool {
    let words = sentence.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    let words: Vec<String> = words.take(4).map(str::to_lowercase).collect();
    let word = |at: usize| words.get(at).map_or("", String::as_str);
    let weight = &lexicon().weight;
    weight.pronouns.contains(word(0)) && weight.impersonal.starts(word).is_none()
}

/// Letters of a word before a full stop that is hardly an abbreviation, and those that are.
const WORD_LETTERS_MIN: usize = 4;
const ABBREVIATIONS: &[&str] = &[
    "abgek", "approx", "aprox", "bspw", "dept", "evtl", "fig", "incl", "inkl", "prof", "resp",
    "sogen", "vers", "vgl",
];

/// A text without the lines that only underline or divide, which stand as words in a text on one line:
/// `========== The piano needs a string.`
pub(crate) fn without_rules(text: &str) -> String {
    const LEAST: usize = 4;
    let is_rule = |word: &str| {
        let first = word.chars().next().filter(|c| "=-_*~#".contains(*c));
        word.len() >= LEAST && first.is_some_and(|first| word.chars().all(|c| c == first))
    };
    match text.split_whitespace().any(is_rule) {
        true => text.split_whitespace().filter(|word| !is_rule(word)).collect::<Vec<_>>().join(" "),
        false => text.to_owned(),
    }
}

/// A pipeline run in words: what ran, how it ended, and the headline where it says more than a time. `None` for
/// what is no run.
pub(crate) fn run_told(what_ran: &Value, status: &Value, headline: &str) -> Option<String> {
    let (what, status) = (what_ran.as_str()?, status.as_str()?);
    let behind = headline.rsplit_once(": ").map_or(headline, |(_, value)| value);
    let is_time = parse_instant(behind.trim_end_matches('.')).is_ok();
    let headline = if is_time || headline.contains(what) { "" } else { headline };
    let (what, status) = (one_line(what), one_line(status));
    let told = match headline.starts_with(&format!("{status}: ")) {
        true => format!("{what}: {headline}"),
        false => format!("{what}: {status}. {headline}"),
    };
    (!what.is_empty() && !status.is_empty()).then(|| told.trim_end().to_owned())
}

/// The name that a text has before its sentences, whose words come back in them: `Piano note. The piano needs a
/// string.`
pub(crate) fn name_before(text: &str) -> Option<&str> {
    const WORDS_MAX: usize = 4;
    const LETTERS_MIN: usize = 4;
    let all = sentences(text);
    let (first, rest) = all.split_first().filter(|(_, rest)| !rest.is_empty())?;
    let name = first.strip_suffix('.').unwrap_or(first);
    let is_name = name.starts_with(char::is_uppercase)
        && name.split_whitespace().count() <= WORDS_MAX
        && name.chars().all(|c| c.is_alphabetic() || " -'’".contains(c))
        && !lines::says_something(name);
    let said = fold(&rest.join(" "));
    let said: BTreeSet<&str> = said.split(|c: char| !c.is_alphanumeric()).collect();
    let comes_back = |word: &str| word.chars().count() >= LETTERS_MIN && said.contains(word);
    (is_name && fold(name).split(' ').any(comes_back)).then_some(name)
}

/// A question about something: `How are you?` asks for no answer that anybody waits for.
pub(crate) fn is_question(sentence: &str) -> bool {
    const SMALL_TALK: &[&str] = &[
        "how are you",
        "how are you doing",
        "how are things",
        "how is it going",
        "how's it going",
        "how do you do",
        "que tal estas",
        "que tal todo",
        "que tal va todo",
        "como estas",
        "como esta usted",
        "como va todo",
        "wie geht es dir",
        "wie geht es ihnen",
        "wie geht's dir",
        "comment allez-vous",
        "comment vas-tu",
        "comment ca va",
    ];
    sentence.ends_with('?')
        && sentence.split_whitespace().count() >= 3
        && !SMALL_TALK.contains(&folded(sentence).as_str())
}

/// How early a statement is told when not all fit: decisions first, then what has a day or an amount.
pub(crate) fn rank(statement: &str) -> u8 {
    match statement {
        statement if states_decision(statement) => 0,
        statement if statement.contains(|c: char| c.is_ascii_digit()) => 1,
        _ => 2,
    }
}

/// The sentences without the greeting before them and the name of the sender behind them.
pub(crate) fn without_salutation<'t, 's>(sentences: &'s [&'t str]) -> &'s [&'t str] {
    let mut kept = sentences;
    if let [first, rest @ ..] = kept
        && !rest.is_empty()
        && lines::greets(first)
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
    // A summary ends each sentence with a full stop, also a name.
    let whole = last.strip_suffix('.').unwrap_or(last);
    let is_open = last.ends_with(char::is_alphabetic)
        || whole.ends_with(char::is_alphabetic) && words.iter().all(is_name);
    let has_digit = last.contains(|c: char| c.is_ascii_digit());
    let few = words.len() <= 2 || words.len() <= NAME_WORDS_MAX && words.iter().all(is_name);
    is_open && few && !has_digit && last.starts_with(char::is_uppercase)
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_sentence_with_a_pronoun_goes_with_the_one_before_it() {
        let text = "Marta brings the cake. She comes at eight. The hall is open from seven.";
        let all = sentences(text);
        let kept = with_antecedents(&all, |one| !one.starts_with("Marta"));
        assert_eq!(kept, ["The hall is open from seven."]);
        assert_eq!(with_antecedents(&all, |_| true), all);
        let kept = with_antecedents(&all[..2], |one| !one.starts_with("Marta"));
        assert_eq!(kept, ["She comes at eight."]);
    }

    #[test]
    fn a_name_before_the_sentences_is_told_from_a_sentence() {
        for (text, name) in [
            ("Piano note. The piano needs a string.", Some("Piano note")),
            ("Nota sobre el piano. El piano necesita una cuerda.", Some("Nota sobre el piano")),
            ("Notiz zum Klavier. Das Klavier braucht eine Saite.", Some("Notiz zum Klavier")),
            ("Le piano. Le piano a besoin d’une corde.", Some("Le piano")),
            ("The piano is old. The piano needs a string.", None),
            ("No news. The piano needs a string.", None),
            ("Piano note.", None),
            ("Piano, 3 March. The piano needs a string.", None),
        ] {
            assert_eq!(super::name_before(text), name, "{text}");
        }
    }

    #[test]
    fn a_line_that_only_underlines_is_no_word() {
        let text = "PIANO ========== The piano -- and its string. ----";
        assert_eq!(super::without_rules(text), "PIANO The piano -- and its string.");
        assert_eq!(super::without_rules("a\nb --- c"), "a\nb --- c");
    }

    use super::*;

    #[test]
    fn decisions_come_before_amounts_and_amounts_before_the_rest() {
        let ranks =
            ["We decided to ship on Thursday.", "The rent is 900 euros.", "It was a good day."];
        assert_eq!(ranks.map(rank), [0, 1, 2]);
        assert!(states_decision("Decision: we take the blue paint."));
        assert!(!states_decision("Decision: which paint do we take?"));
    }

    #[test]
    fn sentences_end_where_another_begins() {
        let text = "We met Dr. Ruiz at 10.30. ¿Viene Ana? Sí! It works, e.g. on v2.4. Done";
        let expected =
            ["We met Dr. Ruiz at 10.30.", "¿Viene Ana?", "Sí!", "It works, e.g. on v2.4.", "Done"];
        assert_eq!(sentences(text), expected);
        assert_eq!(sentences("It freed 240 GB. Ask J. Ruiz.").len(), 2);
        let chat = "Ana: dad is fine; Ben: who drives? Ana: Ivan; he has time";
        let said = ["Ana: dad is fine;", "Ben: who drives?", "Ana: Ivan; he has time"];
        assert_eq!(sentences(chat), said);
        assert_eq!(
            sentences("Replace the pane. measure it today. [x] clean. Takes approx. five days.")
                .len(),
            4
        );
        assert_eq!(sentences("Present: Ana, Ben. It rains in May. Ask Mrs. Ruiz.").len(), 3);
        let days =
            "Ruf bis zum 5. Mai an. Miete bis zum 28. April zahlen. Wir sind 12. Mayer kommt.";
        assert_eq!(sentences(days).len(), 4);
        assert!(sentences("").is_empty());
    }

    #[test]
    fn a_greeting_and_a_signature_say_nothing() {
        for (text, expected) in [
            ("¡Hola! Solo hoy hay tres por dos.", "Solo hoy hay tres por dos."),
            ("The names are right. Mara Keller", "The names are right."),
            ("Verify your account today. Security team", "Verify your account today."),
            ("Irene", "Irene"),
            ("Answer by Friday. Mark Benson.", "Answer by Friday."),
            ("He came late. It rained.", "He came late. It rained."),
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
        assert!(states_decision("Se acordó cambiar de proveedor en marzo."));
        assert!(states_decision("We decided to ship on Thursday."));
        assert!(!states_decision("Nothing was decided, no date was agreed on."));
        assert!(is_question("¿Conviene alquilar auto?") && !is_question("Really?"));
        assert!(!is_question("How's it going?") && !is_question("¿Qué tal estás?"));
        assert!(is_question("How are you going to pay?"));
    }
}
