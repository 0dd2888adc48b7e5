//! What a text asks somebody to do: requests, orders, duties with a day, and items of a list of tasks.
//!
//! Contract: a sentence counts where the words of `[ask]` in the language files say so; code, quoted mail
//! and what frames a text never do. A text that is sent to everybody, or that is a fraud, asks nothing of
//! its reader.

use std::collections::BTreeSet;

use super::super::lexicon::lexicon;
use super::super::text::words::Token;
use super::super::text::{Kind, Role, lines};
use super::scene::{Focus, Scene};
use super::signals::signals;

impl Scene<'_, '_> {
    /// Whether the item a sentence stands in has a box, and whether that is ticked.
    pub(crate) fn box_of(&self, at: usize) -> Option<bool> {
        let block = self.text.block_of(at);
        let source = self.text.parts[block.part].text;
        (block.kind == Kind::Item).then(|| lines::box_before(&source[..block.text.start])).flatten()
    }

    /// The sentences that ask for something, found on first use.
    pub(crate) fn asks(&self) -> &[usize] {
        self.asked(|| find(self))
    }
}

/// The sentences that ask for something, in reading order.
fn find(scene: &Scene<'_, '_>) -> Vec<usize> {
    let ask = &lexicon().ask;
    let said = |cues: &[String]| -> BTreeSet<usize> {
        scene.index().sentences(cues.iter().map(String::as_str)).into_iter().collect()
    };
    let (requested, obliged) = (said(&ask.requests), said(&ask.obligations));
    let (not_asked, headed) = (said(&ask.not_asked), said(&ask.headings));
    let place = |at: usize| (scene.text.block_of(at).part, scene.text.block_of(at).section);
    let heads = |at: &usize| matches!(scene.text.block_of(*at).kind, Kind::Heading(_));
    let under: BTreeSet<(usize, usize)> = headed.iter().copied().filter(heads).map(place).collect();
    let dated: BTreeSet<usize> = scene
        .whens()
        .iter()
        .filter(|when| when.date.is_some())
        .map(|when| when.mention.sentence)
        .collect();
    let notice = signals(scene).notice;
    let asks = |&at: &usize| {
        let block = scene.text.block_of(at);
        let prose = matches!(block.kind, Kind::Paragraph | Kind::Item | Kind::Table);
        if !prose || not_asked.contains(&at) || matches!(block.role, Role::System | Role::Tool) {
            return false;
        }
        let tokens = scene.text.tokens_of(at);
        if tokens.len() < 2 {
            return false;
        }
        let item = block.kind == Kind::Item;
        // An open box is something to do, a ticked one is done.
        if let Some(ticked) = scene.box_of(at) {
            return !ticked;
        }
        let first = opening(scene, at, tokens);
        // A machine's report orders nothing by the way: `Change your settings.`
        let by_the_way = notice && !dated.contains(&at);
        requested.contains(&at)
            || (!by_the_way && orders(scene, at, tokens, first, item))
            || (obliged.contains(&at) && (dated.contains(&at) || speaks_to_reader(scene, tokens)))
            || (item && (under.contains(&place(at)) || first.assigned))
    };
    (0..scene.text.sentences.len()).filter(asks).collect()
}

/// As [`find`], as elements of a list; nothing where the text is for everybody or a fraud.
pub(crate) fn elements(scene: &Scene<'_, '_>, focus: &Focus) -> Vec<Focus> {
    let signals = signals(scene);
    if signals.scam || signals.bulk {
        return Vec::new();
    }
    let item_of =
        |at: usize| scene.items.iter().position(|item| item.sentences.binary_search(&at).is_ok());
    let inside = |at: &usize| focus.whole || focus.sentences.binary_search(at).is_ok();
    let asked = scene.asks().iter().copied().filter(inside);
    asked
        .map(|at| Focus {
            sentences: vec![at],
            items: item_of(at).into_iter().collect(),
            ..Focus::default()
        })
        .collect()
}

#[derive(Debug, Clone, Copy, Default)]
struct Opening {
    /// The first token behind a name and linking words.
    at: usize,
    /// A name stands before it: `Marta: fix …`, `Joost to call …`.
    assigned: bool,
}

fn opening(scene: &Scene<'_, '_>, sentence: usize, tokens: &[Token]) -> Opening {
    let mut opening = Opening::default();
    let source = scene.text.parts[scene.text.sentences[sentence].part].text;
    let high =
        |token: &Token| scene.text.token_text(sentence, token).starts_with(char::is_uppercase);
    for last in 0..tokens.len().min(3).saturating_sub(1) {
        if !high(&tokens[last]) {
            break;
        }
        let gap = &source[tokens[last].end as usize..tokens[last + 1].start as usize];
        let linked = matches!(gap.trim(), ":" | "-" | "–" | "—") && gap != "-";
        let to = lexicon().assigns.contains(scene.text.folded(&tokens[last + 1]));
        let verb = tokens.get(last + 2).map_or("", |token| scene.text.folded(token));
        // `Bread: A Global History` is a title.
        let title = scene.text.term(&tokens[last + 1]).is_none()
            && high(&tokens[last + 1])
            && !lexicon().ask.openers.contains(scene.text.folded(&tokens[last + 1]));
        if linked && title {
            break;
        }
        if linked {
            opening = Opening { at: last + 1, assigned: true };
            break;
        }
        let word = scene.text.folded(&tokens[last]);
        let named =
            scene.text.term(&tokens[last]).is_some() && !lexicon().phrases.verbs.contains(word);
        if to && named && lexicon().ask.imperatives.contains(verb) {
            opening = Opening { at: last + 2, assigned: true };
            break;
        }
    }
    while tokens
        .get(opening.at)
        .is_some_and(|token| lexicon().ask.openers.contains(scene.text.folded(token)))
    {
        opening.at += 1;
    }
    opening
}

/// Tokens of a label and its number, at most.
const LABEL_TOKENS: usize = 5;

/// Whether a verb that orders stands first.
fn orders(
    scene: &Scene<'_, '_>,
    sentence: usize,
    tokens: &[Token],
    first: Opening,
    item: bool,
) -> bool {
    let Some(word) = tokens.get(first.at).map(|token| scene.text.folded(token)) else {
        return false;
    };
    let source = scene.text.parts[scene.text.sentences[sentence].part].text;
    let ask = &lexicon().ask;
    if ask.imperatives.contains(word) {
        // `test_rounding` is a name, and an address is nothing to do.
        let rest = &source[tokens[first.at].end as usize..];
        let address = rest.split_whitespace().take(2).any(|word| word.starts_with("http"));
        // `Call of 20 minutes` orders nothing.
        let noun = tokens
            .get(first.at + 1)
            .is_some_and(|next| ask.noun_links.contains(scene.text.folded(next)));
        // `Order 40-11872` and `Pick up code: 7731` are names of numbers.
        let number = |token: &Token| {
            scene.text.token_text(sentence, token).starts_with(|c: char| c.is_ascii_digit())
        };
        let label = tokens.len() <= first.at + LABEL_TOKENS
            && tokens.last().is_some_and(number)
            && (rest.contains(':') || tokens[first.at + 1..].iter().all(number));
        return !noun
            && !label
            && tokens.len() > first.at + 1
            && !rest.starts_with(['_', '.', '-'])
            && !address;
    }
    // `entregar mañana los afiches`: in a list an infinitive is an order.
    let infinitive = ask.infinitive_endings.iter().any(|ending| word.ends_with(ending.as_str()));
    item && scene.text.language.does(|habits| habits.lists_order_in_infinitives) && infinitive
}

fn speaks_to_reader(scene: &Scene<'_, '_>, tokens: &[Token]) -> bool {
    tokens.iter().any(|token| lexicon().ask.reader.contains(scene.text.folded(token)))
}
