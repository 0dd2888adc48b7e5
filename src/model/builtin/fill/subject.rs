//! What a question or an objective is about, and what else it names.
//!
//! The subject is the first thing that the question names: `Are hail nets worth their cost?` is about hail
//! nets. A word names a thing when an article, a preposition or the word that asks stands before it. Words
//! such as `effect` only lead to the thing. The aspects are the other things named, the question's first.

use super::super::extract::cues::with_purpose;
use super::super::lexicon::{Purpose, lexicon};
use super::super::phrases::{addresses, for_each_run};
use super::super::text::words::Token;
use super::filled::Filled;
use super::scene::{Focus, Scene};
use super::texts::capitalize;

/// Words of a thing: alone, and with what `of` adds.
const WORDS_MAX: usize = 3;
const LINKED_WORDS_MAX: usize = 6;
/// Bytes between a thing and what `of` adds to it.
const LINK_BYTES_MAX: usize = 8;

/// A thing that a sentence names.
struct Thing {
    sentence: usize,
    start: usize,
    end: usize,
    words: usize,
    terms: Vec<u32>,
}

/// The subject of the text.
pub(crate) fn subject(scene: &Scene<'_, '_>, focus: &Focus) -> Filled {
    let found = things(scene, focus).into_iter().next();
    found.map_or(Filled::Nothing, |thing| Filled::text(capitalize(&said(scene, &thing))))
}

/// The aspect for the element at hand: the first element has none.
pub(crate) fn aspect(scene: &Scene<'_, '_>, focus: &Focus) -> Filled {
    let found = things(scene, focus).into_iter().nth(focus.ordinal);
    let thing = found.filter(|_| focus.ordinal > 0);
    thing.map_or(Filled::Nothing, |thing| Filled::text(said(scene, &thing)))
}

fn said(scene: &Scene<'_, '_>, thing: &Thing) -> String {
    let part = scene.text.sentences[thing.sentence].part;
    let source = &scene.text.parts[part].text[thing.start..thing.end];
    source.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The things named: those of the question, then those of the other sentences; each once.
fn things(scene: &Scene<'_, '_>, focus: &Focus) -> Vec<Thing> {
    let all = &focus.sentences;
    let asks = |at: &&usize| scene.text.sentence(**at).trim_end().ends_with('?');
    let goals = with_purpose(scene.index(), Purpose::Goal, &[]);
    let wants = |at: &&usize| goals.contains(at);
    let question = all.iter().find(asks).or_else(|| all.iter().find(wants)).or(all.first());
    let Some(&question) = question else { return Vec::new() };
    let cue = topic_cue(scene, question);
    let named = named_in(scene, question);
    let (behind, before): (Vec<Thing>, Vec<Thing>) =
        named.into_iter().partition(|thing| thing.start >= cue);
    let others = all.iter().filter(|at| **at != question);
    let others = others.flat_map(|&at| named_in(scene, at));
    let mut found: Vec<Thing> = Vec::new();
    for thing in behind.into_iter().chain(before).chain(others) {
        let is_known = |other: &Thing| other.terms.iter().any(|term| thing.terms.contains(term));
        if !found.iter().any(is_known) {
            found.push(thing);
        }
    }
    found
}

/// Where the words begin behind `whether` or `about`; the start of the sentence without such a word.
fn topic_cue(scene: &Scene<'_, '_>, sentence: usize) -> usize {
    let mut tokens = scene.text.tokens_of(sentence).iter();
    let cues = &lexicon().phrases.topic_before;
    let cue = tokens.find(|token| cues.contains(scene.text.folded(token)));
    cue.map_or(scene.text.sentences[sentence].start, |token| token.end as usize)
}

fn named_in(scene: &Scene<'_, '_>, sentence: usize) -> Vec<Thing> {
    let mut found: Vec<Thing> = Vec::new();
    let addresses = addresses(scene.text, sentence);
    for_each_run(scene.text, sentence, &addresses, |run, leads| {
        let linked = found.last_mut().is_some_and(|last| link(scene, last, sentence, run));
        if linked {
            return;
        }
        if let Some(run) = thing_of(scene, sentence, run, leads) {
            found.push(Thing {
                sentence,
                start: run[0].start as usize,
                end: run[run.len() - 1].end as usize,
                words: run.len(),
                terms: run.iter().filter_map(|token| scene.text.term(token)).collect(),
            });
        }
    });
    found
}

/// The words of a run that name a thing.
fn thing_of<'r>(
    scene: &Scene<'_, '_>,
    sentence: usize,
    run: &'r [Token],
    leads: Option<&str>,
) -> Option<&'r [Token]> {
    let words = &lexicon().phrases;
    let text = scene.text;
    let opens = text.tokens_of(sentence)[0].start;
    let capital = |token: &Token| {
        let nouns = text.language.does(|habits| habits.nouns_have_capitals);
        let high = text.token_text(sentence, token).starts_with(char::is_uppercase);
        high && token.start != opens && !nouns
    };
    let starts = |word: &str| words.before.contains(word) || words.asking.contains(word);
    let asks = text.sentence(sentence).trim_end().ends_with('?');
    let named = match leads {
        Some(word) => starts(word) || words.topic_before.contains(word),
        None => run[0].start == opens && !asks && !orders(scene, &run[0]),
    };
    // `we offer passkeys`: the subject, the verb, and then the thing that is named.
    let first = match named {
        true => 0,
        false => run
            .iter()
            .position(capital)
            .or((leads.is_some_and(|word| words.actors.contains(word)) && run.len() > 1)
                .then_some(1))?,
    };
    let run = &run[first..];
    let shells = run.iter().take_while(|token| words.shells.contains(text.folded(token))).count();
    let run = &run[shells..];
    let end = run.len().min(WORDS_MAX);
    let end = if end == run.len() && end > 1 && acts(scene, sentence, &run[end - 1]) {
        end - 1
    } else {
        end
    };
    (end > 0).then(|| &run[..end])
}

/// A word that opens a sentence and tells what to do.
fn orders(scene: &Scene<'_, '_>, token: &Token) -> bool {
    let (folded, ask) = (scene.text.folded(token), &lexicon().ask);
    let infinitive = scene.text.language.does(|habits| habits.lists_order_in_infinitives)
        && ask.infinitive_endings.iter().any(|ending| folded.ends_with(ending));
    infinitive || ask.imperatives.contains(folded)
}

/// The word before an article is what is done with the next thing: `flights hurt the …`.
fn acts(scene: &Scene<'_, '_>, sentence: usize, last: &Token) -> bool {
    let tokens = scene.text.tokens_of(sentence);
    let next = tokens.partition_point(|token| token.start < last.end);
    let articles = &lexicon().names.place_articles;
    tokens.get(next).is_some_and(|token| articles.contains(scene.text.folded(token)))
}

/// Adds `of glass bottles` to a thing; false when nothing links them.
fn link(scene: &Scene<'_, '_>, thing: &mut Thing, sentence: usize, run: &[Token]) -> bool {
    let start = run[0].start as usize;
    let part = scene.text.sentences[sentence].part;
    let gap = &scene.text.parts[part].text[thing.end..start];
    let links = &lexicon().names.place_links;
    let mut words = gap.split([' ', '\'', '’']).filter(|word| !word.is_empty());
    let linked = words.next().is_some_and(|word| links.contains(word))
        && gap.len() <= LINK_BYTES_MAX
        && !gap.contains(['.', ',', ';', ':'])
        && thing.words + run.len() <= LINKED_WORDS_MAX;
    if linked {
        thing.end = run[run.len() - 1].end as usize;
        thing.words += run.len();
        thing.terms.extend(run.iter().filter_map(|token| scene.text.term(token)));
    }
    linked
}
