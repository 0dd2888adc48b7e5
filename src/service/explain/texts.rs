//! The texts a summary was made from, read again from the places the log recorded.

use serde_json::Value;

use super::SourceLine;
use super::story::Story;
use crate::contract::hash::sha256;
use crate::model::SourceText;
use crate::upstream::recompute::{self, Place};
use crate::upstream::{Family, Upstream};

/// Bytes of source texts that go along with an explanation.
const TEXT_BYTES_MAX: usize = 1 << 20;

/// Sources with their texts, as upstream has them now.
pub(super) struct Texts {
    /// Every source, in order; one that cannot be read has an empty text.
    pub sources: Vec<SourceText>,
    /// The place of each, as far as places were recorded.
    pub lines: Vec<SourceLine>,
    /// Files of the bus `other`, by source: their text before normalization.
    plain: Vec<Option<String>>,
    /// Whether every text could be read.
    pub complete: bool,
}

impl Texts {
    pub fn read(upstream: &Upstream, story: &Story) -> Texts {
        let title = story.item["selection"]["title_as_text"] == true;
        let places = story.resolved["sources"].as_array();
        let mut texts =
            Texts { sources: Vec::new(), lines: Vec::new(), plain: Vec::new(), complete: true };
        for place in places.into_iter().flatten() {
            texts.push(upstream, place, title);
        }
        if story.resolved["sources_omitted"].as_u64().unwrap_or(0) > 0 {
            texts.complete = false;
        }
        texts
    }

    fn push(&mut self, upstream: &Upstream, place: &Value, title: bool) {
        let text = |name: &str| place[name].as_str().unwrap_or_default().to_owned();
        let number = |name: &str| place[name].as_u64().unwrap_or(0);
        let mut line = SourceLine {
            id: text("id"),
            file: text("file"),
            line: number("line"),
            offset: number("offset"),
            len: number("len"),
            text_bytes: number("text_bytes"),
            record_sha256: None,
            problem: None,
            text: None,
        };
        let family = Family::ALL.into_iter().find(|one| line.file.starts_with(one.data_dir()));
        let at = Place {
            family,
            id: &line.id,
            file: &line.file,
            offset: line.offset,
            len: line.len,
            title_as_text: title,
        };
        let (mut read, mut plain) = (String::new(), None);
        match recompute::text_at(upstream, &at) {
            Ok(found) => {
                line.record_sha256 = Some(sha256(&found.record).hex());
                if family.is_none() {
                    plain = String::from_utf8(found.record).ok();
                }
                read = found.text;
            }
            Err(defect) => {
                line.problem = Some(defect.to_string());
                self.complete = false;
            }
        }
        self.sources.push(SourceText { id: line.id.clone(), text: read });
        self.lines.push(line);
        self.plain.push(plain);
    }

    /// The places with their texts, as long as they fit into a page.
    pub fn lines_with_text(&self) -> Vec<SourceLine> {
        let mut room = TEXT_BYTES_MAX;
        let pairs = self.lines.iter().zip(&self.sources);
        pairs
            .map(|(line, source)| {
                let fits = line.problem.is_none() && source.text.len() <= room;
                room -= if fits { source.text.len() } else { 0 };
                SourceLine { text: fits.then(|| source.text.clone()), ..line.clone() }
            })
            .collect()
    }

    /// The file and the line in which words of a source stand.
    pub fn line_of(&self, source: usize, quote: &str) -> (String, Option<u64>) {
        let line = &self.lines[source];
        let Some(plain) = &self.plain[source] else {
            let known = !line.file.is_empty() && line.line > 0 && line.file.ends_with(".jsonl");
            return (line.file.clone(), known.then_some(line.line));
        };
        let at = crate::flow::align::find(plain, quote);
        let number = at.map(|at| 1 + plain[..at].bytes().filter(|byte| *byte == b'\n').count());
        (line.file.clone(), number.map(|number| number as u64))
    }
}
