//! The texts a summary was made from, read again from the places the log recorded; where there were
//! more sources than it records, the others are looked up by their ids, which are in the item.

use chrono_tz::Tz;
use serde_json::{Map, Value};

use super::SourceLine;
use super::story::Story;
use crate::contract::hash::sha256;
use crate::contract::vocabulary::Stream;
use crate::model::SourceText;
use crate::upstream::context::of_members;
use crate::upstream::other::OtherFiles;
use crate::upstream::recompute::{self, Place};
use crate::upstream::{Family, Upstream};

/// Bytes of source texts that go along with an explanation.
const TEXT_BYTES_MAX: usize = 1 << 20;

/// Sources with their texts, as upstream has them now.
pub(crate) struct Texts {
    /// Every source, in order; one that cannot be read has an empty text.
    pub sources: Vec<SourceText>,
    /// The place of each.
    pub lines: Vec<SourceLine>,
    /// How many of them were recorded, and are listed.
    pub recorded: usize,
    /// Files of the bus `other`, by source: their text before normalization.
    plain: Vec<Option<String>>,
    /// Whether every text could be read.
    pub complete: bool,
    /// The zone of the home.
    zone: Tz,
}

impl Texts {
    pub(super) fn read(upstream: &Upstream, story: &Story, zone: Tz) -> Texts {
        let title = story.item["selection"]["title_as_text"] == true;
        let mut texts = Texts {
            sources: Vec::new(),
            lines: Vec::new(),
            recorded: 0,
            plain: Vec::new(),
            complete: true,
            zone,
        };
        let mut files = OtherFiles::default();
        for (file, place) in story.places.iter() {
            let line = SourceLine {
                id: place.id.clone(),
                file: file.to_owned(),
                line: place.line,
                offset: place.offset,
                len: place.len,
                text_bytes: place.text_bytes,
                ..SourceLine::default()
            };
            texts.push(upstream, &mut files, line, title);
        }
        texts.recorded = texts.lines.len();
        let omitted = story.places.omitted;
        if omitted > 0 {
            texts.look_up(upstream, story, omitted, title);
        }
        texts
    }

    /// Sources whose places were not recorded: where they lie now. That it is where they lay is
    /// what the hashes of the files say.
    fn look_up(&mut self, upstream: &Upstream, story: &Story, omitted: u64, title: bool) {
        let (stream, plain) = (story.summary.stream, story.item["selection"]["anchor"] == "other");
        let ids = match stream {
            Stream::Sessions => &story.item["event_ids"],
            Stream::Documents if !plain => &story.item["chunk_ids"],
            _ => &story.item["source_ids"],
        };
        let ids = ids.as_array().into_iter().flatten().skip(self.recorded);
        let ids: Vec<&str> = ids.filter_map(Value::as_str).collect();
        let found = match ids.len() as u64 == omitted {
            true => recompute::sources_of(upstream, recompute::bus_of(stream, plain), &ids, title),
            false => return self.complete = false,
        };
        let Ok(found) = found else { return self.complete = false };
        let mut files = OtherFiles::default();
        for source in found.iter() {
            let line = SourceLine {
                id: source.id.to_owned(),
                file: source.file.to_owned(),
                line: source.line,
                offset: source.offset,
                len: source.len,
                text_bytes: source.text_bytes,
                ..SourceLine::default()
            };
            self.push(upstream, &mut files, line, title);
        }
    }

    fn push(
        &mut self,
        upstream: &Upstream,
        files: &mut OtherFiles,
        mut line: SourceLine,
        title: bool,
    ) {
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
        match recompute::text_at(upstream, files, &at) {
            Ok(found) => {
                line.record_sha256 = Some(sha256(&found.record).hex());
                line.who = found.message.as_ref().and_then(|message| self.said_by(message));
                if found.is_file {
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

    /// When a message of a file was written, and who wrote it: `2026-02-11 10:00 Ana`.
    fn said_by(&self, message: &Map<String, Value>) -> Option<String> {
        let told = of_members(message, self.zone).when_and_who(self.zone);
        (!told.is_empty()).then_some(told)
    }

    /// The places that were recorded.
    pub(crate) fn lines_listed(&self) -> Vec<SourceLine> {
        self.lines[..self.recorded].to_vec()
    }

    /// The same with their texts, as long as they fit into a page.
    pub(crate) fn lines_with_text(&self) -> Vec<SourceLine> {
        let mut room = TEXT_BYTES_MAX;
        let pairs = self.lines[..self.recorded].iter().zip(&self.sources);
        pairs
            .map(|(line, source)| {
                let fits = line.problem.is_none() && source.text.len() <= room;
                room -= if fits { source.text.len() } else { 0 };
                SourceLine { text: fits.then(|| source.text.clone()), ..line.clone() }
            })
            .collect()
    }

    /// The file and the line in which words of a source stand.
    pub(crate) fn line_of(&self, source: usize, quote: &str) -> (String, Option<u64>) {
        let line = &self.lines[source];
        let Some(plain) = &self.plain[source] else {
            let known = !line.file.is_empty() && line.line > 0;
            return (line.file.clone(), known.then_some(line.line));
        };
        let at = crate::flow::align::find(plain, quote);
        let number = at.map(|at| 1 + plain[..at].bytes().filter(|byte| *byte == b'\n').count());
        (line.file.clone(), number.map(|number| number as u64))
    }
}
