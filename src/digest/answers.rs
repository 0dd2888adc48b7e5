//! Whether a later sentence answers a question. Pure, by the words of `[answer]` in the language files.
//!
//! Contract. Only what another person says later answers, in the same talk or thread. An answer says yes or no, or
//! carries out what was asked, or names the things of the question; to `when`, `how many` and `why` it gives a
//! number, a day or a reason. In doubt a question stays open: an open one that is answered costs a look.

use super::markdown::one_line;
use super::said::{is_question, sentences};
use crate::model::builtin::done::{
    SaidDone, all_told, asked, closes, content, has_day, speaks_of_self, spoken_by,
    stands_for_a_thing,
};
use crate::model::builtin::lexicon::lexicon;
use crate::model::builtin::text::words::{fold, spaced};

/// Fewest words that a question and its answer share, where the question has as many.
const SHARED_MIN: usize = 2;

/// The questions that nobody answers behind them in their own text, a talk of which each line is one message.
/// Only lines under the same heading are in the order of the talk.
pub(crate) fn open_in_talk(questions: Vec<String>, talk: &str) -> Vec<String> {
    let is_mark = |c: char| "-*+> ".contains(c);
    let lines = talk.lines().map(|line| line.trim().trim_start_matches(is_mark));
    let lines: Vec<String> = lines
        .filter(|line| !line.is_empty())
        .map(|line| one_line(&line.replace("**", "")))
        .collect();
    let is_open = |question: &String| {
        let place = lines.iter().position(|line| line.contains(question.trim_end_matches('…')));
        place.is_none_or(|place| !is_answered_behind(question, &lines[place + 1..]))
    };
    questions.into_iter().filter(is_open).collect()
}

fn is_answered_behind(question: &str, lines: &[String]) -> bool {
    let (asker, asked) = spoken_by(question);
    let others = || {
        let said = lines.iter().filter(|line| !line.starts_with('#'));
        said.filter(|line| spoken_by(line).0 != asker)
    };
    let Some(first) = others().next() else { return false };
    // What a person asks a program is answered by what it says next.
    let is_program = |name: &str| lexicon().roles.assistant.contains(fold(name).as_str());
    let (speaker, said) = spoken_by(first);
    if asker.is_none_or(|name| !is_program(name)) && speaker.is_some_and(is_program) {
        return !is_question(said);
    }
    let is_next = std::ptr::eq(first, &lines[0]);
    is_next && (answers_next(asked, said) || does_it(asked, said) || answers(asked, said, 1))
        || others().any(|line| answers(asked, spoken_by(line).1, SHARED_MIN))
}

/// Whether a reply as a whole answers a question of the text before it.
pub(crate) fn answered_by_reply(question: &str, reply: &[String]) -> bool {
    let (asker, asked) = spoken_by(question);
    let by_other = |speaker: Option<&str>| asker.is_none() || speaker != asker;
    reply.iter().map(|sentence| spoken_by(sentence)).any(|(speaker, said)| {
        by_other(speaker) && (does_it(asked, said) || answers(asked, said, SHARED_MIN))
    })
}

/// Whether a sentence says that what a question asks for was done, and names nothing: `I booked it.`
fn does_it(question: &str, said: &str) -> bool {
    let parts = asked(question);
    let says_so = |told: &SaidDone| parts.iter().all(|part| part.is_meant_by(told));
    !parts.is_empty() && all_told(&[said]).any(|told| says_so(&told))
}

/// Whether what is said right behind a question answers it, whatever it names.
fn answers_next(question: &str, said: &str) -> bool {
    let first = sentences(said).first().copied().unwrap_or_default();
    if is_question(first) || is_unsure(said) {
        return false;
    }
    match kind(question) {
        Kind::YesNo => agrees(first),
        Kind::Thing | Kind::Amount => {
            has_number(first) && content(first).len() <= NEXT_WORDS_MAX
                || asks_person(question) && speaks_of_self(first) && stands_for_a_thing(first)
        }
        Kind::Reason => gives_reason(first),
    }
}

/// Whether a question asks who: `Who has the key?`
fn asks_person(question: &str) -> bool {
    let words = spaced(question);
    words.split_whitespace().next().is_some_and(|word| lexicon().answer.asks_person.contains(word))
}

/// Words of a short answer: `8:14 from the main station`.
const NEXT_WORDS_MAX: usize = 4;

/// Whether a sentence answers a question by what it names: so many words of it at least.
fn answers(question: &str, said: &str, least: usize) -> bool {
    if said.trim_end().ends_with('?') || is_unsure(said) {
        return false;
    }
    let parts = asked(question);
    let says_so = |told: &SaidDone| parts.iter().all(|part| closes(part, told));
    if !parts.is_empty() && all_told(&[said]).any(|told| says_so(&told)) {
        return true;
    }
    let (asked, named) = (content(question), content(said));
    let is_named = |word: &&String| named.iter().any(|other| is_alike(word, other));
    // `Who brings the coffee?` is answered by `I'll bring it`.
    let offers =
        matches!(kind(question), Kind::Thing) && speaks_of_self(said) && stands_for_a_thing(said);
    let least = if offers { 1 } else { least };
    let shared = asked.iter().filter(is_named).count();
    let names_it = shared >= least.min(asked.len()).max(1) && shared * 2 >= asked.len();
    let says_what = match kind(question) {
        Kind::YesNo => agrees(said) || !denies(said),
        Kind::Thing => {
            !denies(said) && (named.len() > shared || speaks_of_self(said) || has_number(said))
        }
        Kind::Amount => has_number(said),
        Kind::Reason => gives_reason(said),
    };
    names_it && says_what
}

/// Words that matter beside a day, although they are too frequent to matter elsewhere.
const ORDERS_IN_TIME: [&str; 18] = [
    "before", "after", "until", "since", "from", "antes", "después", "despues", "desde", "hasta",
    "vor", "nach", "bis", "ab", "seit", "avant", "après", "depuis",
];

/// Whether each word of a statement stands in another, so that a mail and the notes about it say the same. A
/// number must be equal, and what one denies the other must not say. Of few words this is not known.
pub(crate) fn says_no_more(one: &str, other: &str) -> bool {
    const WORDS_MIN: usize = 3;
    let words = |text: &str| -> Vec<String> {
        let all = spaced(spoken_by(text).1);
        let known = lexicon();
        let is_stop = |word: &str| known.languages.iter().any(|l| l.stop_words.contains(word));
        // `We decided that …` says no more than what was decided.
        let is_lead =
            |word: &str| known.settled.leads.contains(word) || known.decisions.contains(word);
        let says = |word: &&str| ORDERS_IN_TIME.contains(word) || !is_stop(word) && !is_lead(word);
        all.split_whitespace().filter(says).map(str::to_owned).collect()
    };
    let (few, more) = (words(one), words(other));
    let is_number = |word: &str| word.contains(|c: char| c.is_ascii_digit());
    let is_in = |word: &String| {
        more.iter().any(|other| word == other || !is_number(word) && is_alike(word, other))
    };
    few.len() >= WORDS_MIN && denies(one) == denies(other) && few.iter().all(is_in)
}

/// Whether two words differ only at their ends: `buscar`, `busco`.
fn is_alike(one: &str, other: &str) -> bool {
    let alike = one.chars().zip(other.chars()).take_while(|(a, b)| a == b).count();
    let longer = one.chars().count().max(other.chars().count());
    one == other || alike >= STEM_MIN && alike * 3 >= longer * 2
}

/// Letters that two forms of a word share at least.
const STEM_MIN: usize = 4;

/// What a question wants to know.
enum Kind {
    YesNo,
    /// A person, a thing or a place.
    Thing,
    /// A number or a day.
    Amount,
    Reason,
}

fn kind(question: &str) -> Kind {
    let answer = &lexicon().answer;
    if says(question, &answer.asks_reason) {
        Kind::Reason
    } else if says(question, &answer.asks_amount) {
        Kind::Amount
    } else if first_words(question).iter().any(|word| answer.asks_thing.contains(word.as_str())) {
        Kind::Thing
    } else {
        Kind::YesNo
    }
}

/// Words at the beginning of a question, with their accents: `qué` asks, `que` joins.
fn first_words(question: &str) -> Vec<String> {
    const WORDS: usize = 3;
    let words = question.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    words.take(WORDS).map(str::to_lowercase).collect()
}

/// Whether a sentence begins with yes or no. `Sí` says yes, `si` says if.
fn agrees(said: &str) -> bool {
    let first = said.split(|c: char| !c.is_alphanumeric()).find(|word| !word.is_empty());
    first.is_some_and(|first| lexicon().answer.yes_no.contains(first.to_lowercase().as_str()))
}

/// Whether one of these phrases is in a sentence.
fn says(sentence: &str, phrases: &[String]) -> bool {
    let words = spaced(sentence);
    phrases.iter().any(|one| words.contains(&format!(" {one} ")))
}

fn is_unsure(said: &str) -> bool {
    says(said, &lexicon().answer.unsure)
}

fn denies(said: &str) -> bool {
    spaced(said).split_whitespace().any(|word| lexicon().denials.contains(word))
}

fn gives_reason(said: &str) -> bool {
    says(said, &lexicon().answer.reasons)
}

fn has_number(said: &str) -> bool {
    said.contains(|c: char| c.is_ascii_digit()) || has_day(said)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_decision_in_a_mail_says_no_more_than_the_notes_about_it() {
        for (notes, mail) in [
            ("Decision: the fair moves to 12 June.", "We decided to move the fair to 12 June."),
            (
                "Cambiamos de proveedor en marzo.",
                "Luis: cambiamos de proveedor en marzo por el precio.",
            ),
            (
                "Wir verschieben das Fest auf den 12. Juni.",
                "Wegen des Regens verschieben wir das Fest auf den 12. Juni.",
            ),
        ] {
            assert!(says_no_more(notes, mail), "{notes}");
        }
        for (decided, bare) in [
            (
                "We decided that the fence is built by Cole.",
                "The fence is built by Cole for 1,850 pounds.",
            ),
            ("It was agreed that the fair moves to 12 June.", "The fair moves to 12 June."),
            ("Se acordó que la cuota sube a 30 euros.", "La cuota sube a 30 euros desde abril."),
            (
                "Es wurde beschlossen, dass die Kasse 20 Euro zahlt.",
                "Die Kasse zahlt 20 Euro pro Kind.",
            ),
            (
                "Nous avons décidé que la fête commence à 15 h.",
                "La fête commence à 15 h sur la place.",
            ),
        ] {
            assert!(says_no_more(decided, bare), "{decided}");
        }
        for (one, other) in [
            ("The fair moves to 12 June.", "We decided to move the fair to 13 June."),
            ("We cancel the trip to Rome.", "We confirm the trip to Rome."),
            ("We decided to paint the hall blue.", "We decided not to paint the hall blue."),
            ("We take room A.", "We take room B."),
            ("The fair is held before 12 June.", "The fair is held after 12 June."),
            ("Pintamos la sala antes del martes.", "Pintamos la sala después del martes."),
        ] {
            assert!(!says_no_more(one, other), "{one}");
        }
    }

    /// Whether the first line, a question, is answered by the others.
    fn is_answered(talk: &str) -> bool {
        let question = talk.split(" / ").next().unwrap().to_owned();
        open_in_talk(vec![question], &talk.replace(" / ", "\n- ")).is_empty()
    }

    #[test]
    fn what_another_person_says_later_answers_a_question() {
        for talk in [
            "Mia: Which train do we take? / Jonas: 8:14 from the main station",
            "Mia: Do we still go? / Jonas: Yes, we take the short route over the lake",
            "Ana: When do you arrive? / Ben: On Friday",
            "Sabine: Wer kümmert sich um die Tische? / Olaf: Ich hole die Tische am Freitag aus der Schule",
            "Olaf: Brauchen wir eine Genehmigung? / Sabine: Nein, das ist nur ein Hoffest",
            "Lucía: ¿Alguien puede llevar sillas al club? / Tomás: Yo llevo diez sillas el sábado a las 16",
            "Clara: ¿Vas a la fiesta? / Tomás: Sí, claro",
            "Léa: Tu viens samedi ? / Marc: Oui, avec plaisir",
            "Ana: Who has the key for the bike cellar? / Ben: I have it, ring at my door",
            "Ana: Wer hat den Schlüssel? / Ben: Ich habe ihn, klingel bei mir",
            "Ana: ¿Quién tiene la llave? / Ben: Yo la tengo",
            "Ana: Qui a la clé ? / Ben: Je l'ai, sonne chez moi",
            "Ana: Why is the hall closed? / Tea is ready / Ben: The hall is closed because it is being painted",
            "How can I sort a list of numbers? / Assistant: Use the sort method.",
        ] {
            assert!(is_answered(talk), "{talk}");
        }
    }

    #[test]
    fn a_question_stays_open_where_nobody_answers_it() {
        for talk in [
            "Jonas: Who is in for the hike on Sunday? / Mia: Rain is forecast",
            "Olaf: Brauchen wir eine Genehmigung? / Sabine: Die Gebühr beträgt 8 Euro",
            "Olaf: Brauchen wir eine Genehmigung? / Sabine: Keine Ahnung, ob wir eine Genehmigung brauchen",
            "Ana: When does the train leave? / Ben: The train is red",
            "Ana: What is the code of the door? / Ben: I have it at home",
            "Ana: When does the train leave? / Ana: The train leaves at 9 perhaps",
            "Ana: Do you have the keys? / Ben: Did you get the tickets?",
            "Ana: Who pays the cleaning? / Ben: I do not know who pays the cleaning",
            "Clara: ¿Vas a la fiesta? / Tomás: Si llueve hay otra",
            "Warum ist der Verbrauch so hoch? / Ben: Der Verbrauch ist hoch",
            "Assistant: Do you have any injuries? / Remind me to test it tomorrow.",
        ] {
            assert!(!is_answered(talk), "{talk}");
        }
    }

    #[test]
    fn a_reply_answers_what_the_mail_before_it_asks() {
        for (question, reply, is_answer) in [
            ("Did you measure the area?", "Yes, I measured the damaged area yesterday.", true),
            (
                "Should the scaffolding also cover the entrance?",
                "The scaffolding should also cover the entrance.",
                true,
            ),
            (
                "Can you review the migration script by Wednesday noon?",
                "I reviewed the migration script.",
                true,
            ),
            (
                "Could you get two quotes from roofers by Friday 6 March?",
                "I got the two quotes from the roofers.",
                true,
            ),
            (
                "¿Podés encargar la torta antes del martes 10?",
                "Ya encargué la torta, es de chocolate para 40 personas.",
                true,
            ),
            ("¿Quién va a buscar a la abuela?", "Yo voy a buscar a la abuela a las 17.", true),
            (
                "Warum ist der Wasserverbrauch doppelt so hoch wie 2024?",
                "Danke für die Überweisung.",
                false,
            ),
            ("Why did staging grow?", "I have not found out why staging grew.", false),
            ("Can you review the migration script?", "The script is long.", false),
        ] {
            assert_eq!(
                answered_by_reply(question, &[reply.to_owned()]),
                is_answer,
                "{question} {reply}"
            );
        }
    }
}
