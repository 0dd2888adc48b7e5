//! Whether a later sentence says that a task is done. Pure, by the words of `[done]` in the language files.
//!
//! Contract. A task has one part for each thing that it asks for. A sentence closes a part when it says
//! in the past that the verb of the part was carried out on its object, or that everything the part names
//! is done. A form such as `signed` inside the task is no verb that it asks for. Other names or numbers
//! than those of the task are another task. In doubt nothing is closed: an open task that is done costs
//! a look, a closed one that is not done is lost.
//!
//! See docs/adr/0123-what-a-reply-must-say-to-close-a-task.md.

use std::collections::BTreeSet;

use unicode_normalization::UnicodeNormalization as _;
use unicode_normalization::char::is_combining_mark;

use crate::contract::hash::sha256;
use crate::model::builtin::lexicon::{Done, Habits, lexicon};

/// Letters of a noun that count: endings differ between numbers and cases.
const STEM_CHARS: usize = 6;
/// Most words of a sentence that are compared.
const WORDS_MAX: usize = 24;
/// Fewest letters of a word that carries meaning.
const LETTERS_MIN: usize = 3;
/// Digits of a number from which on it names something: `4411` and not `10:30`.
const DIGITS_MIN: usize = 3;
/// Words between an auxiliary verb and its participle, and between a person and a verb.
const NEAR: usize = 2;
/// Stands for any verb: `done`.
const ANY_VERB: u32 = 0;

/// One thing that a task asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Asked {
    /// Its verb, as each language would read it.
    pub verbs: Vec<u32>,
    /// What the verb is done to.
    pub object: Vec<u32>,
    /// All words that carry meaning, without the verb.
    pub words: Vec<u32>,
    /// Names and numbers.
    pub names: Vec<u32>,
}

/// A sentence that says that something is done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SaidDone {
    pub verbs: Vec<u32>,
    pub words: Vec<u32>,
    pub names: Vec<u32>,
}

impl SaidDone {
    /// `Done!`: it names nothing, so it speaks of what was asked before.
    pub fn is_bare(&self) -> bool {
        self.verbs.contains(&ANY_VERB) && self.words.is_empty()
    }
}

struct Word<'s> {
    raw: String,
    folded: String,
    written: &'s str,
    /// It has a capital letter although no sentence begins with it.
    is_name: bool,
    /// A comma or another mark stands before it.
    behind_mark: bool,
}

/// The text without accents, in lower case.
pub(crate) fn fold(text: &str) -> String {
    text.nfkd().filter(|c| !is_combining_mark(*c)).flat_map(char::to_lowercase).collect()
}

fn number(word: &str) -> u32 {
    let hash = sha256(word).hex();
    u32::from_str_radix(&hash[..8], 16).unwrap_or(1).max(1)
}

/// The sentence without the name of who says it: `Rosa: I sent it.`
fn unspoken(sentence: &str) -> &str {
    const NAME_WORDS_MAX: usize = 3;
    let Some((name, rest)) = sentence.split_once(": ") else { return sentence };
    let is_name =
        |word: &str| word.starts_with(char::is_uppercase) && word.chars().all(char::is_alphabetic);
    let words: Vec<&str> = name.split_whitespace().collect();
    let is_speaker = words.len() <= NAME_WORDS_MAX && words.iter().all(|word| is_name(word));
    if is_speaker && !rest.trim().is_empty() { rest } else { sentence }
}

fn words_of(sentence: &str) -> Vec<Word<'_>> {
    let mut words = Vec::new();
    let mut end = 0;
    let is_sign = |c: char| !c.is_alphanumeric();
    for piece in sentence.split(is_sign).filter(|piece| !piece.is_empty()) {
        let start = piece.as_ptr() as usize - sentence.as_ptr() as usize;
        let gap = &sentence[end..start];
        let begins = words.is_empty() || gap.contains(['.', '!', '?', ':', '"']);
        words.push(Word {
            raw: piece.to_lowercase(),
            folded: fold(piece),
            written: piece,
            is_name: !begins && piece.starts_with(char::is_uppercase),
            behind_mark: gap.contains([',', ';', '.', ':', '(']),
        });
        end = start + piece.len();
    }
    words
}

fn languages() -> impl Iterator<Item = &'static Habits> {
    lexicon().languages.iter().filter(|habits| !habits.done.endings.is_empty())
}

fn is_date(word: &str) -> bool {
    let dates = &lexicon().dates;
    dates.months.number(word).is_some() || dates.weekdays.number(word).is_some()
}

/// Whether a word carries no meaning of its own.
fn is_little(word: &Word<'_>) -> bool {
    word.folded.chars().count() < LETTERS_MIN
        || is_date(&word.folded)
        || word.folded.starts_with(|c: char| c.is_ascii_digit())
        || languages().any(|habits| {
            habits.stop_words.contains(word.folded.as_str())
                || habits.stop_words.contains(word.raw.as_str())
                || habits.done.little.contains(word.folded.as_str())
        })
}

/// A noun without its ending.
fn noun(word: &str) -> u32 {
    let plain = word.strip_suffix("ies").map(|rest| format!("{rest}y"));
    let plain = plain.as_deref().unwrap_or(word);
    let plain = plain.trim_end_matches(['s', 'e', 'n', 'a', 'o']);
    let plain = if plain.chars().count() < LETTERS_MIN { word } else { plain };
    number(&plain.chars().take(STEM_CHARS).collect::<String>())
}

/// A verb of a language without its ending, as a number that no other language gives.
fn verb(habits: &Habits, word: &str) -> u32 {
    let (code, done) = (&habits.code, &habits.done);
    if let Some(first) = done.family(word) {
        return number(&format!("{code}={first}"));
    }
    let mut endings: Vec<&str> = done.endings.iter().map(|ending| &**ending).collect();
    endings.sort_by_key(|ending| std::cmp::Reverse(ending.len()));
    let stem = endings
        .iter()
        .find_map(|end| word.strip_suffix(end).filter(|rest| rest.chars().count() >= LETTERS_MIN));
    number(&format!("{code}:{}", spelled_alike(stem.unwrap_or(word))))
}

/// `pagu` and `pag`, `plann` and `plan` are one stem.
fn spelled_alike(stem: &str) -> String {
    let stem = stem.strip_suffix("gu").map_or(stem.to_owned(), |rest| format!("{rest}g"));
    let stem = stem.strip_suffix("qu").map_or(stem.clone(), |rest| format!("{rest}c"));
    let mut stem = stem.strip_suffix('z').map_or(stem.clone(), |rest| format!("{rest}c"));
    let last = stem.chars().next_back();
    let before = stem.chars().rev().nth(1);
    if last == before && stem.chars().count() > LETTERS_MIN {
        stem.pop();
    }
    stem
}

/// The stem of a participle in a language: `gekauft` gives `kauf`.
fn participle(habits: &Habits, word: &Word<'_>) -> Option<u32> {
    let done = &habits.done;
    if done.not_participles.contains(word.folded.as_str()) {
        return None;
    }
    let is_listed = done.participles.contains(word.folded.as_str());
    let whole = done.family(&word.folded).is_some();
    if is_listed && whole {
        return Some(verb(habits, &word.folded));
    }
    let core = done.forms.iter().find_map(|form| {
        let (begin, end) = form.split_once('…')?;
        // An accent tells a participle: `envoyé` and not `envoye`.
        let shown = if fold(end) == end { &word.folded } else { &word.raw };
        let core = shown.strip_prefix(begin)?.strip_suffix(end)?;
        let kept = begin.strip_suffix("ge").unwrap_or(begin);
        (core.chars().count() >= 2).then(|| fold(&format!("{kept}{core}")))
    });
    match core {
        Some(core) if !whole => Some(verb(habits, &core)),
        Some(_) => Some(verb(habits, &word.folded)),
        None => is_listed.then(|| verb(habits, &word.folded)),
    }
}

/// Whether a word of a task is a form such as `signed`, which asks for nothing.
fn is_participle(word: &Word<'_>) -> bool {
    languages().any(|habits| participle(habits, word).is_some())
}

fn is_verb(word: &Word<'_>) -> bool {
    lexicon().ask.imperatives.contains(word.folded.as_str())
        || languages().any(|habits| habits.done.family(&word.folded).is_some())
}

/// Whether a label is a name and what follows asks its bearer for something: `Jorge: order a disk`.
pub(crate) fn orders_somebody(label: &str, rest: &str) -> bool {
    let is_name = label.split_whitespace().count() == 1
        && label.starts_with(char::is_uppercase)
        && label.chars().all(char::is_alphabetic);
    let words = words_of(rest);
    is_name
        && words.len() > 1
        && words.first().is_some_and(|word| is_verb(word) && !is_participle(word))
}

/// The names and numbers of a sentence.
fn names(words: &[Word<'_>]) -> BTreeSet<u32> {
    let is_number = |word: &str| {
        let digits = word.chars().filter(char::is_ascii_digit).count();
        digits >= DIGITS_MIN
            && !(word.len() == 4 && (word.starts_with("19") || word.starts_with("20")))
    };
    let months = &lexicon().dates.months;
    let mut found = BTreeSet::new();
    for (at, word) in words.iter().enumerate() {
        let before = at.checked_sub(1).map(|at| words[at].folded.as_str()).unwrap_or_default();
        // `the invoice for March`, and not `by March`.
        let names_month = months.number(&word.folded).is_some()
            && languages().any(|habits| habits.done.belongs.contains(before))
            && at.checked_sub(2).is_none_or(|at| words[at].folded.parse::<u8>().is_err());
        let is_name = word.is_name && !is_little(word);
        if is_name || names_month || is_number(&word.folded) {
            found.insert(noun(&word.folded));
        }
    }
    found
}

/// What a task asks for, one part for each verb of a list.
pub(crate) fn asked(task: &str) -> Vec<Asked> {
    let words = words_of(unspoken(task));
    let mut parts: Vec<&[Word<'_>]> = Vec::new();
    let mut start = 0;
    for at in 1..words.len() {
        let joint = languages()
            .any(|habits| habits.done.joints.contains(words[at - 1].folded.as_str()))
            || words[at].behind_mark;
        if joint && at > start + 1 && is_verb(&words[at]) && !is_participle(&words[at]) {
            parts.push(&words[start..at]);
            start = at;
        }
    }
    parts.push(&words[start..]);
    parts.into_iter().filter_map(part).collect()
}

fn part(words: &[Word<'_>]) -> Option<Asked> {
    let content: Vec<usize> = (0..words.len())
        .filter(|at| !is_little(&words[*at]) && !is_participle(&words[*at]))
        .take(WORDS_MAX)
        .collect();
    let infinitive = |at: &usize| {
        let word = &words[*at];
        !word.is_name && word.folded.ends_with('n') && words[..*at].iter().any(|one| one.is_name)
    };
    // `deja` is a verb in Spanish and a little word in French.
    let says_what = |at: &usize| {
        let word = &words[*at];
        let polite = languages().any(|habits| habits.done.polite.contains(word.folded.as_str()));
        let long = word.folded.chars().count() >= LETTERS_MIN;
        long && !polite && !word.is_name && is_verb(word) && !is_participle(word)
    };
    let known = (0..words.len()).find(says_what);
    // In German an infinitive stands last and nouns have capitals.
    let last = content.last().copied().filter(infinitive);
    let place = known.or(last).or(content.first().copied())?;
    let is_link = |word: &Word<'_>| {
        languages().any(|habits| habits.done.links.contains(word.folded.as_str()))
    };
    let behind = words[place + 1..].iter().position(|word| is_link(word) || word.behind_mark);
    let end = behind.map_or(words.len(), |behind| place + 1 + behind);
    let nouns = |range: std::ops::Range<usize>| -> BTreeSet<u32> {
        content
            .iter()
            .filter(|at| range.contains(at) && **at != place)
            .map(|at| noun(&words[*at].folded))
            .collect()
    };
    let mut object = nouns(place + 1..end);
    if object.is_empty() {
        object = nouns(0..place);
    }
    let verbs: BTreeSet<u32> =
        languages().map(|habits| verb(habits, &words[place].folded)).collect();
    Some(Asked {
        verbs: verbs.into_iter().collect(),
        object: object.into_iter().collect(),
        words: nouns(0..words.len()).into_iter().collect(),
        names: names(words).into_iter().collect(),
    })
}

/// What a sentence says to be done, if it says so of anything.
pub(crate) fn told(sentence: &str) -> Option<SaidDone> {
    if sentence.trim_end().ends_with('?') {
        return None;
    }
    let words = words_of(unspoken(sentence));
    // `Sí` says yes, `si` says if.
    let words: Vec<Word<'_>> = words.into_iter().filter(|word| word.raw != "sí").collect();
    let spaced: Vec<&str> = words.iter().map(|word| word.folded.as_str()).collect();
    let spaced = format!(" {} ", spaced.join(" "));
    let says = |phrase: &str| spaced.contains(&format!(" {phrase} "));
    let mut verbs = BTreeSet::new();
    // `va` says in French that something will be, and in Spanish nothing of that.
    let is_open = |habits: &&Habits| habits.done.not_yet.iter().any(|phrase| says(phrase));
    let mut begin = None;
    for habits in spoken(&words).into_iter().filter(|habits| !is_open(habits)) {
        let done = &habits.done;
        if done.done.iter().any(|phrase| says(phrase)) {
            verbs.insert(ANY_VERB);
        }
        if done.replies.iter().any(|phrase| spaced.trim() == *phrase) {
            return Some(SaidDone { verbs: vec![ANY_VERB], words: Vec::new(), names: Vec::new() });
        }
        for at in 0..words.len() {
            if done.finished.contains(words[at].folded.as_str()) && is_over(done, &words, at) {
                verbs.extend(done.making.iter().map(|word| verb(habits, word)));
            }
            let found = carried_out(habits, &words, at);
            verbs.extend(found);
            // `Le plombier a appelé le voisin`: what stands before is who did it.
            let near = &words[at.saturating_sub(NEAR)..at];
            let helps = |one: &&Word<'_>| done.auxiliaries.contains(one.raw.as_str());
            let helper = near.iter().rev().find(helps);
            let active = helper.is_some_and(|one| done.active.contains(one.raw.as_str()));
            if found.is_some() && active {
                begin = begin.or(Some(at));
            }
        }
    }
    if verbs.is_empty() {
        return None;
    }
    let content = words[begin.unwrap_or(0)..].iter().filter(|word| !is_little(word));
    let content: BTreeSet<u32> = content.take(WORDS_MAX).map(|word| noun(&word.folded)).collect();
    Some(SaidDone {
        verbs: verbs.into_iter().collect(),
        words: content.into_iter().collect(),
        names: names(&words).into_iter().collect(),
    })
}

/// The languages that most little words of a sentence belong to: all of them where it has none.
fn spoken(words: &[Word<'_>]) -> Vec<&'static Habits> {
    let count = |habits: &Habits| {
        let is_own = |word: &&Word<'_>| {
            habits.stop_words.contains(word.raw.as_str())
                || habits.stop_words.contains(word.folded.as_str())
        };
        words.iter().filter(is_own).count()
    };
    let most = languages().map(count).max().unwrap_or(0);
    languages().filter(|habits| count(habits) == most).collect()
}

/// Whether a form at a place says that something is over: behind an auxiliary verb, or first.
fn is_over(done: &Done, words: &[Word<'_>], at: usize) -> bool {
    let reach = done.reach.max(NEAR) + 1;
    let before = &words[at.saturating_sub(reach)..at];
    let behind = if done.reach > WORDS_MAX { &words[at + 1..] } else { &[] };
    let helped = |word: &Word<'_>| {
        done.auxiliaries.contains(word.raw.as_str()) || done.already.contains(word.folded.as_str())
    };
    at == 0 && done.stands_alone || before.iter().chain(behind).any(helped)
}

/// The verb that a word says to be carried out.
fn carried_out(habits: &Habits, words: &[Word<'_>], at: usize) -> Option<u32> {
    let (done, word) = (&habits.done, &words[at]);
    let near = &words[at.saturating_sub(NEAR)..at];
    if let Some(stem) = participle(habits, word)
        && is_over(done, words, at)
    {
        return Some(stem);
    }
    let already = near.iter().any(|one| done.already.contains(one.folded.as_str()));
    let ends = |endings: &[String]| {
        endings.iter().any(|end| {
            let rest = word.raw.strip_suffix(end.as_str());
            rest.is_some_and(|rest| rest.chars().count() >= 2)
        })
    };
    let is_past = done.pasts.contains(word.raw.as_str())
        || ends(&done.past_endings)
        || already && ends(&done.bare_past_endings);
    let by_somebody = done.persons.is_empty()
        || at == 0
        || near.iter().any(|one| done.persons.contains(one.folded.as_str()))
        || near
            .last()
            .is_some_and(|one| one.is_name || one.written.starts_with(char::is_uppercase));
    if !is_past || !by_somebody {
        return None;
    }
    // `compraré` is the infinitive with an ending, and no past.
    let future = done.futures.iter().any(|end| word.raw.ends_with(end.as_str()));
    match future {
        true => {
            let stem: String = word.folded.chars().take(word.folded.chars().count() - 1).collect();
            Some(number(&format!("{}:{}", habits.code, spelled_alike(&stem))))
        }
        false => Some(verb(habits, &word.folded)),
    }
}

/// Whether a sentence says that a part of a task is done.
pub(crate) fn closes(part: &Asked, told: &SaidDone) -> bool {
    let has = |word: &u32| told.words.contains(word);
    // `Send it to Marta` and `I sent it to Pedro` speak of two things.
    let other_name = |name: &u32| !part.words.contains(name) && !part.names.contains(name);
    let lacks_name = |name: &u32| !has(name) && !told.names.contains(name);
    if part.names.iter().any(lacks_name) && told.names.iter().any(other_name) {
        return false;
    }
    let shared = part.words.iter().filter(|word| has(word)).count();
    let whole = part.object.iter().all(has);
    // `The cake is ordered` names less than the chocolate cake, and nothing else.
    let less = part.object.iter().any(has) && told.words.len() <= shared + 1;
    let half = shared * 2 >= part.words.len();
    if part.verbs.iter().any(|verb| told.verbs.contains(verb)) {
        return half && (whole || less);
    }
    told.verbs.contains(&ANY_VERB) && shared > 0 && half && whole
}

#[cfg(test)]
mod tests {
    use super::*;

    fn says_done(task: &str, reply: &str) -> bool {
        let parts = asked(task);
        let told = told(reply);
        !parts.is_empty()
            && told
                .is_some_and(|told| told.is_bare() || parts.iter().all(|part| closes(part, &told)))
    }

    /// `task -> reply` a line, with what the pair is.
    fn pairs(text: &'static str) -> impl Iterator<Item = (bool, &'static str, &'static str)> {
        text.lines().filter(|line| line.contains(" -> ")).map(|line| {
            let (is_done, rest) = line.split_once(' ').unwrap();
            let (task, reply) = rest.split_once(" -> ").unwrap();
            (is_done == "+", task.trim(), reply.trim())
        })
    }

    #[test]
    fn replies_close_the_tasks_that_they_name_and_no_others() {
        let text = include_str!("../../tests/fixtures/done_pairs.txt");
        assert!(pairs(text).count() >= 100);
        let wrong: Vec<String> = pairs(text)
            .filter(|(is_done, task, reply)| says_done(task, reply) != *is_done)
            .map(|(is_done, task, reply)| {
                format!("{} {task} -> {reply}", if is_done { "+" } else { "-" })
            })
            .collect();
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }

    /// The rules were written without these pairs, so they are counted and not shown.
    #[test]
    fn rules_hold_for_pairs_that_they_were_not_written_by() {
        let text = include_str!("../../tests/fixtures/held/done_pairs.txt");
        let (mut right, mut all) = ([0, 0], [0, 0]);
        for (is_done, task, reply) in pairs(text) {
            let kind = usize::from(is_done);
            all[kind] += 1;
            right[kind] += usize::from(says_done(task, reply) == is_done);
        }
        println!("open {}/{}, closed {}/{}", right[0], all[0], right[1], all[1]);
        assert!(right[0] >= 14 && right[1] >= 26, "{right:?} of {all:?}");
    }

    #[test]
    fn a_task_of_two_things_has_two_parts() {
        assert_eq!(
            asked("Por favor riega las flores del balcón y deja las llaves en la portería.").len(),
            2
        );
        assert_eq!(asked("Please call Ana and send her the plan.").len(), 2);
        assert_eq!(asked("Send the plan and the budget to Ana.").len(), 1);
    }

    #[test]
    fn only_a_reply_without_words_of_its_own_is_bare() {
        for bare in [
            "Done!",
            "Hecho, gracias.",
            "Ist erledigt.",
            "C'est fait !",
            "Ya está.",
            "All done, thanks.",
        ] {
            assert!(told(bare).is_some_and(|told| told.is_bare()), "{bare}");
        }
        for other in
            ["Not done yet.", "The lamp is done.", "Is it done?", "Well done!", "De hecho, no."]
        {
            assert!(!told(other).is_some_and(|told| told.is_bare()), "{other}");
        }
    }
}
