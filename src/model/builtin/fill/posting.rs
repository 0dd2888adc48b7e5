//! Advertisements of jobs: what their sections say asks nothing of the reader.
//!
//! Contract. A text is an advertisement when it has at least three of four signs, one of them a heading: what the
//! holder of the job will do, what they must bring, what they get, and words that look for somebody. The words stand in
//! `[posting]` of the language files. `Send your CV` outside these sections stays a request.

use std::collections::BTreeSet;

use super::super::lexicon::lexicon;
use super::super::text::{Block, Kind};
use super::scene::Scene;

/// Signs of an advertisement, at least.
const SIGNS_MIN: usize = 3;

/// The parts that advertise a job, and their sections on the job and on who is sought.
#[derive(Debug, Default)]
pub(crate) struct Postings {
    parts: BTreeSet<usize>,
    sections: BTreeSet<(usize, usize)>,
    lines: BTreeSet<usize>,
}

impl Postings {
    pub(crate) fn of(scene: &Scene<'_, '_>) -> Postings {
        let known = &lexicon().posting;
        let text = scene.text;
        let says = |cues: &[String]| scene.index().sentences(cues.iter().map(String::as_str));
        let is_heading = |at: usize| matches!(text.block_of(at).kind, Kind::Heading(_));
        // `Your tasks: lead a team` is a heading with its section on one line.
        let begins = |at: usize, cues: &[String]| {
            let label = text.sentence(at).split_once(':').map(|(label, _)| label);
            let folded = label.map(|label| super::super::text::words::fold(label.trim()));
            folded.is_some_and(|label| cues.contains(&label))
        };
        let heads = |cues: &[String]| -> Vec<usize> {
            let found = says(cues).into_iter();
            found.filter(|&at| is_heading(at) || begins(at, cues)).collect()
        };
        let (duties, profile) = (heads(&known.duties), heads(&known.profile));
        let parts = |found: &[usize]| -> BTreeSet<usize> {
            found.iter().map(|at| text.block_of(*at).part).collect()
        };
        let headed: BTreeSet<usize> = parts(&duties).union(&parts(&profile)).copied().collect();
        if headed.is_empty() {
            return Postings::default();
        }
        let (offers, hires) = (says(&known.offers), says(&known.hires));
        let signs = [parts(&duties), parts(&profile), parts(&offers), parts(&hires)];
        let is_posting =
            |part: &usize| signs.iter().filter(|sign| sign.contains(part)).count() >= SIGNS_MIN;
        let parts: BTreeSet<usize> = headed.into_iter().filter(is_posting).collect();
        let of_posting = |at: &&usize| parts.contains(&text.block_of(**at).part);
        let all = || duties.iter().chain(&profile).filter(of_posting);
        let sections = all().filter(|at| is_heading(**at));
        let sections =
            sections.map(|at| (text.block_of(*at).part, text.block_of(*at).section)).collect();
        let lines = all().copied().collect();
        Postings { parts, sections, lines }
    }

    /// Whether a sentence describes the job, or who is sought for it.
    pub(crate) fn describes(&self, scene: &Scene<'_, '_>, sentence: usize) -> bool {
        let block = scene.text.block_of(sentence);
        let place = (block.part, block.section);
        if self.lines.contains(&sentence) {
            return true;
        }
        if !self.sections.contains(&place) {
            return false;
        }
        // What stands below the list of a section belongs to it no more: `Send your CV to …`
        let is_listed =
            |other: &Block| other.kind == Kind::Item && (other.part, other.section) == place;
        let at = scene.text.sentences[sentence].block;
        block.kind == Kind::Item || !scene.text.blocks[..at].iter().any(is_listed)
    }

    /// Whether a sentence stands in an advertisement.
    pub(crate) fn holds(&self, scene: &Scene<'_, '_>, sentence: usize) -> bool {
        self.parts.contains(&scene.text.block_of(sentence).part)
    }
}
