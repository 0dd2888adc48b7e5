//! Conversations between people: who says what.
//!
//! Contract: at least two people speak by name. A chat with an assistant is no such conversation. A name is
//! written as the text writes it.

use std::collections::BTreeSet;

use chrono::NaiveDate;

use super::super::done::{self, Asked, SaidDone};
use super::super::lexicon::lexicon;
use super::super::rank::select::Quoted;
use super::super::text::Role;
use super::super::text::words::{fold, spaced};
use super::duties::is_own_duty;
use super::scene::Scene;
use super::speakers::speaker;

/// In a conversation of so few sentences none is too short to be shown.
const FEW: usize = 3;
/// Longest answer that only accepts a request, in tokens.
const ACCEPTING_TOKENS_MAX: usize = 8;
/// Sentences behind a request in which somebody may report that it is done.
const REPORT_SENTENCES_MAX: usize = 400;

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

    /// Whether somebody reports later in the same talk that what a sentence asks for is done. `I called him` speaks of
    /// the only call that was asked for, and a bare `done` of the only request right before it, or of the only thing
    /// that its speaker had to do.
    pub(crate) fn is_reported_done(&self, at: usize) -> bool {
        let by = |at: usize| speaker(self.text, self.text.block_of(at)).map(fold);
        let own = by(at);
        if self.is_own_done(at) {
            return true;
        }
        if own.is_none() {
            return false;
        }
        let parts = done::asked(self.text.sentence(at));
        let later = (at + 1..self.text.sentences.len()).take(REPORT_SENTENCES_MAX);
        let later: Vec<usize> = later.filter(|at| by(*at).is_some()).collect();
        let said: Vec<&str> = later.iter().map(|at| self.text.sentence(*at)).collect();
        let told: Vec<SaidDone> = done::all_told(&said).collect();
        let is_told = |part: &Asked| {
            told.iter().any(|one| {
                done::closes(part, one) || part.is_meant_by(one) && self.means_only(at, one)
            })
        };
        if !parts.is_empty() && parts.iter().all(is_told) {
            return true;
        }
        // The next turn of somebody else, behind all that the first one says.
        let turn = later.iter().copied().skip_while(|at| by(*at) == own);
        let answerer = turn.clone().next().and_then(by);
        let answer: Vec<&str> =
            turn.take_while(|at| by(*at) == answerer).map(|at| self.text.sentence(at)).collect();
        let before = (0..at).rev().take_while(|at| by(*at) == own);
        let behind = (at + 1..self.text.sentences.len()).take_while(|at| by(*at) == own);
        let is_only = !before.chain(behind).any(|other| self.asks().binary_search(&other).is_ok());
        // `Denk an die Miete!` is answered by `Schon überwiesen`.
        let any_verb = done::only_names(self.text.sentence(at));
        let is_meant = |one: &SaidDone| one.is_bare() || any_verb && one.names_nothing();
        is_only && done::all_told(&answer).any(|one| is_meant(&one))
    }

    /// Whether somebody says of the only thing that they had to do that it is done: `I need to rename the photos.` …
    /// `Done, they have their names.`
    fn is_own_done(&self, at: usize) -> bool {
        let said = |at: usize| self.text.sentence(at);
        if !done::speaks_of_self(said(at)) {
            return false;
        }
        // A user of a program has a role, and often no name.
        let voice = |at: usize| {
            let block = self.text.block_of(at);
            let name = speaker(self.text, block).map(fold);
            (name.is_some() || block.role == Role::User).then_some((name, block.role))
        };
        let own = voice(at);
        let is_own = |other: &usize| own.is_some() && voice(*other) == own;
        let is_duty =
            |other: &usize| self.asks().binary_search(other).is_ok() || is_own_duty(said(*other));
        let end = self.text.sentences.len();
        let is_only = !(0..end).filter(is_own).any(|other| other != at && is_duty(&other));
        let later = (at + 1..end).take(REPORT_SENTENCES_MAX).filter(is_own);
        let later: Vec<&str> = later.map(said).collect();
        own.is_some() && is_only && done::all_told(&later).any(|one| one.is_bare())
    }

    /// Whether no other request of the talk asks for the verb of a report that names nothing.
    fn means_only(&self, asked: usize, told: &SaidDone) -> bool {
        let is_meant = |at: usize| {
            done::asked(self.text.sentence(at)).iter().any(|part| part.is_meant_by(told))
        };
        !self.asks().iter().any(|at| *at != asked && is_meant(*at))
    }

    /// Whether a sentence only accepts what somebody asked for right before it: `Sure, I will`. The request is
    /// the task then, unless the answer names a day of its own.
    pub(crate) fn accepts(&self, sentence: usize) -> bool {
        let asks = |at: usize| self.asks().binary_search(&at).is_ok();
        let is_short = self.text.tokens_of(sentence).len() <= ACCEPTING_TOKENS_MAX;
        // Without the day of the text nobody knows which day `tomorrow` is.
        if asks(sentence) || !is_short || self.written_on(sentence).is_none() {
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
    fn what_somebody_reports_in_a_talk_closes_what_was_asked_in_it() {
        for (source, open) in [
            (
                "[09:14] Ana: compra leche de camino\n[09:15] Ana: y acordate de llamar al técnico\n\
                 [09:16] Ben: ya lo llamé, viene el jueves\n",
                &["compra leche de camino"][..],
            ),
            (
                "[09:14] Ana: kannst du den Müll rausbringen?\n[09:15] Ben: mach ich\n[09:16] Ana: danke\n\
                 [20:10] Cem: Müll ist rausgebracht\n",
                &[],
            ),
            (
                "[09:12] Ben: moin zusammen\n[09:14] Ana: denk an die Miete!\n[09:15] Ben: schon überwiesen\n\
                 [09:16] Ana: super, danke dir\n",
                &[],
            ),
            (
                "[09:12] Ben: good morning all\n[09:14] Ana: please book the hall\n[09:15] Ben: done!\n\
                 [09:16] Ana: great\n",
                &[],
            ),
            (
                "[09:14] Ana: please book the hall\n[09:15] Ben: which one?\n[09:16] Ana: the big one\n",
                &["please book the hall"],
            ),
            (
                "[09:14] Ana: please send the report\n[09:15] Ben: I sent the first part\n\
                 [09:16] Ana: ok, good\n",
                &["please send the report"],
            ),
            (
                "[09:14] Ana: please book the hall\n[09:15] Ana: please call the cook\n[09:16] Ben: done!\n",
                &["please book the hall", "please call the cook"],
            ),
        ] {
            let (read, hints, inputs) =
                (Text::new(vec![Part { id: "a", text: source }]), Hints::default(), Map::new());
            let scene = Scene::new(&read, &[], &inputs, &hints, 100);
            let found: Vec<&str> =
                scene.open_asks().into_iter().map(|at| read.sentence(at)).collect();
            assert_eq!(found, open, "{source}");
        }
    }

    #[test]
    fn a_bare_report_closes_the_only_thing_that_its_speaker_had_to_do() {
        for (told, is_done) in [
            ("Done, all 300 have their day. Four had no date.", true),
            ("Not done yet.", false),
            ("Done with the letter.", false),
            ("I also need to send the letter. Done!", false),
        ] {
            let source = format!(
                "user: I need to rename 300 photos.\nassistant: Use a script. Try it on a copy first.\n\
                 user: {told}\n"
            );
            let (read, hints, inputs) =
                (Text::new(vec![Part { id: "a", text: &source }]), Hints::default(), Map::new());
            let scene = Scene::new(&read, &[], &inputs, &hints, 100);
            assert_eq!(scene.is_reported_done(0), is_done, "{source}");
        }
    }

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
