//! Conversations between people: who says what.
//!
//! Contract: at least two people speak by name. A chat with an assistant is no such conversation. A name is
//! written as the text writes it.

use std::collections::BTreeSet;

use chrono::NaiveDate;

use super::super::lexicon::lexicon;
use super::super::rank::select::Quoted;
use super::super::text::words::{fold, spaced};
use super::scene::Scene;
use super::speakers::speaker;

/// In a conversation of so few sentences none is too short to be shown.
const FEW: usize = 3;
/// Longest answer that only accepts a request, in tokens.
const ACCEPTING_TOKENS_MAX: usize = 8;

/// Everything that is said in a conversation of a few sentences; `None` for a longer one.
pub(crate) fn few_said(scene: &Scene<'_, '_>, sentences: &[usize]) -> Option<Vec<usize>> {
    let is_said = |at: &&usize| speaker(scene.text, scene.text.block_of(**at)).is_some();
    let said: Vec<usize> = sentences.iter().filter(is_said).take(FEW + 1).copied().collect();
    ((1..=FEW).contains(&said.len())).then_some(said)
}

/// A sentence behind the name of its speaker.
pub(crate) fn with_speaker(scene: &Scene<'_, '_>, sentence: usize, bytes: usize) -> Quoted {
    let mut quoted = Quoted::default();
    if let Some(name) = speaker(scene.text, scene.text.block_of(sentence)) {
        quoted.push_plain(name);
        quoted.push_plain(": ");
    }
    quoted.push(&scene.quote(sentence, bytes));
    quoted
}

impl Scene<'_, '_> {
    /// Whether somebody says a sentence right behind a question of another one that asks to do nothing: it answers it.
    pub(crate) fn answers_question(&self, sentence: usize) -> bool {
        let by = |at: usize| speaker(self.text, self.text.block_of(at)).map(fold);
        let own = by(sentence);
        let before = (0..sentence).rev().find(|&at| by(at) != own);
        own.is_some()
            && !self.text.sentence(sentence).trim_end().ends_with('?')
            && before.is_some_and(|at| by(at).is_some() && self.only_asks_back(at))
    }

    /// Whether a sentence is a question that somebody else answers right behind it. Whoever does not know answers
    /// nothing.
    pub(crate) fn is_answered(&self, sentence: usize) -> bool {
        let by = |at: usize| speaker(self.text, self.text.block_of(at)).map(fold);
        let own = by(sentence);
        let next = (sentence + 1..self.text.sentences.len()).find(|&at| by(at) != own);
        own.is_some()
            && self.only_asks_back(sentence)
            && (sentence + 1..next.unwrap_or(sentence)).all(|at| !self.is_question(at))
            && next.is_some_and(|at| by(at).is_some() && !self.is_unsure(at))
    }

    /// Whether a sentence asks for an answer and for nothing else.
    fn only_asks_back(&self, at: usize) -> bool {
        self.is_question(at) && self.asks().binary_search(&at).is_err()
    }

    fn is_question(&self, at: usize) -> bool {
        self.text.sentence(at).trim_end().ends_with('?')
    }

    /// Whether whoever says a sentence asks back, or does not know.
    fn is_unsure(&self, at: usize) -> bool {
        let said = spaced(self.text.sentence(at));
        let unsure = &lexicon().answer.unsure;
        self.is_question(at) || unsure.iter().any(|phrase| said.contains(&format!(" {phrase} ")))
    }

    /// Whether a sentence only accepts what somebody asked for right before it: `Sure, I will`. The request is
    /// the task then, unless the answer names a day of its own.
    pub(crate) fn accepts(&self, sentence: usize) -> bool {
        let asks = |at: usize| self.asks().binary_search(&at).is_ok();
        let is_short = self.text.tokens_of(sentence).len() <= ACCEPTING_TOKENS_MAX;
        // Without the day of the text nobody knows which day `tomorrow` is.
        if asks(sentence) || !is_short || self.anchor().is_none() {
            return false;
        }
        let by = |at: usize| speaker(self.text, self.text.block_of(at)).map(fold);
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

#[cfg(test)]
mod tests {
    use serde_json::Map;

    use super::super::super::text::{Part, Text};
    use super::super::hints::Hints;
    use super::*;

    #[test]
    fn an_answer_and_its_question_are_told_from_what_stays_open() {
        let source = "[09:14] Ana: who brings straps?\n[09:15] Ben: I have six, I will bring them\n\
                      [09:16] Ana: who pays the deposit?\n[09:17] Ben: no idea\n\
                      [09:18] Ana: can you send me the plan?\n[09:19] Ben: sure, I will send it\n";
        let (read, hints, inputs) =
            (Text::new(vec![Part { id: "a", text: source }]), Hints::default(), Map::new());
        let scene = Scene::new(&read, &[], &inputs, &hints, 100);
        let all = || 0..read.sentences.len();
        let said = |is_one: &dyn Fn(usize) -> bool| -> Vec<&str> {
            all().filter(|at| is_one(*at)).map(|at| read.sentence(at)).collect()
        };
        assert_eq!(said(&|at| scene.is_answered(at)), ["who brings straps?"]);
        assert_eq!(
            said(&|at| scene.answers_question(at)),
            ["I have six, I will bring them", "no idea"]
        );
    }
}
