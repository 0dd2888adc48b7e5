//! Conversations between people: who says what.
//!
//! Contract: at least two people speak by name. A chat with an assistant is no such conversation. A name is
//! written as the text writes it.

use std::collections::BTreeSet;

use chrono::NaiveDate;

use super::super::rank::select::Quoted;
use super::super::text::words::fold;
use super::super::text::{Block, Role};
use super::scene::Scene;

/// Longest name of a speaker, in bytes.
const NAME_BYTES_MAX: usize = 40;
/// In a conversation of so few sentences none is too short to be shown.
const FEW: usize = 3;
/// Longest answer that only accepts a request, in tokens.
const ACCEPTING_TOKENS_MAX: usize = 8;

/// Whether two or more people speak, and no assistant.
pub(crate) fn is_between_people(scene: &Scene<'_, '_>) -> bool {
    let blocks = &scene.text.blocks;
    if blocks.iter().any(|block| matches!(block.role, Role::Assistant | Role::System | Role::Tool))
    {
        return false;
    }
    let speakers = blocks.iter().filter_map(|block| speaker(scene, block)).map(fold);
    match speakers.collect::<BTreeSet<String>>().len() {
        0 => false,
        // One who speaks on a day of a chat is a person with a name, and not the user of a program.
        1 => scene.text.spoken_by.iter().flatten().any(|by| by.name.is_some()),
        _ => true,
    }
}

/// Everything that is said in a conversation of a few sentences; `None` for a longer one.
pub(crate) fn few_said(scene: &Scene<'_, '_>, sentences: &[usize]) -> Option<Vec<usize>> {
    let is_said = |at: &&usize| speaker(scene, scene.text.block_of(**at)).is_some();
    let said: Vec<usize> = sentences.iter().filter(is_said).take(FEW + 1).copied().collect();
    ((1..=FEW).contains(&said.len())).then_some(said)
}

/// A sentence behind the name of its speaker.
pub(crate) fn with_speaker(scene: &Scene<'_, '_>, sentence: usize, bytes: usize) -> Quoted {
    let mut quoted = Quoted::default();
    if let Some(name) = speaker(scene, scene.text.block_of(sentence)) {
        quoted.push_plain(name);
        quoted.push_plain(": ");
    }
    quoted.push(&scene.quote(sentence, bytes));
    quoted
}

impl Scene<'_, '_> {
    /// Whether a sentence only accepts what somebody asked for right before it: `Sure, I will`. The request is
    /// the task then, unless the answer names a day of its own.
    pub(crate) fn accepts(&self, sentence: usize) -> bool {
        let asks = |at: usize| self.asks().binary_search(&at).is_ok();
        let is_short = self.text.tokens_of(sentence).len() <= ACCEPTING_TOKENS_MAX;
        // Without the day of the text nobody knows which day `tomorrow` is.
        if asks(sentence) || !is_short || self.anchor().is_none() {
            return false;
        }
        let by = |at: usize| speaker(self, self.text.block_of(at)).map(fold);
        let own = by(sentence);
        let mut before = (0..sentence).rev().skip_while(|&at| by(at) == own).peekable();
        let other = before.peek().and_then(|&at| by(at));
        let days = |at: usize| -> BTreeSet<NaiveDate> {
            let named = self.whens().iter().filter(|when| when.mention.sentence == at);
            named.filter_map(|when| when.date).collect()
        };
        let mut asked = before.take_while(|&at| by(at) == other).filter(|&at| asks(at));
        let own_days = days(sentence);
        own.is_some() && other.is_some() && asked.any(|at| own_days.is_subset(&days(at)))
    }
}

fn speaker<'t>(scene: &'t Scene<'_, '_>, block: &Block) -> Option<&'t str> {
    let said = matches!(block.role, Role::Person | Role::User);
    let known = scene.text.spoken_by.get(block.part).and_then(Option::as_ref);
    let name = match &block.speaker {
        Some(range) => scene.text.parts[block.part].text.get(range.clone()),
        None => known.and_then(|by| by.name.as_deref()),
    };
    let name = name.filter(|_| said)?.trim();
    (!name.is_empty() && name.len() <= NAME_BYTES_MAX).then_some(name)
}
