//! What was forgotten, in a file beside the log.
//!
//! Contract. The file has what the facts of the log say, each with its moment, and the lines that went with it by number and
//! hash. It is written before the mark of a forgetting goes, so one of the two names what went at every moment, whatever
//! becomes of the log. It never loses what it had. `recover` makes the facts again from it. A backup has it too.
//!
//! It holds what the log holds open too: ids, names of files, and hashes.
//!
//! See docs/adr/0142-what-was-forgotten-is-known-beside-the-log.md.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::ControlFlow;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::forget::line_of;
use crate::contract::hash::{Digest, sha256};
use crate::contract::ids::Seq;
use crate::contract::time::Timestamp;
use crate::contract::vocabulary::Stream;
use crate::log::{ReadError, Reader, codec};
use crate::os::Disk;
use crate::state::event::{Event, Forgotten, SummaryPointer};

/// Readable by its owner only, as the log is.
const MODE: u32 = 0o600;

/// What a person took back at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Tombstone {
    pub sources: BTreeSet<String>,
    pub files: BTreeSet<String>,
    /// By id.
    pub summaries: BTreeMap<String, SummaryPointer>,
    /// Lines of requests and of the quarantine, by their numbers in the queue and their hashes.
    pub lines: BTreeSet<(u64, Digest)>,
}

/// All that was ever taken back, by the moment of it.
pub(crate) type Tombstones = BTreeMap<Timestamp, Tombstone>;

/// One line of the file.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Row {
    /// The number of the line, from 1: a line that is missing shows.
    number: u64,
    at_ms: i64,
    sources: BTreeSet<String>,
    files: BTreeSet<String>,
    /// Id, stream and day.
    summaries: Vec<(String, String, String)>,
    /// Number and hash.
    lines: Vec<(u64, String)>,
    /// The hash of the line without this member. Files of earlier releases have none, and no numbers.
    #[serde(skip_serializing_if = "String::is_empty")]
    sha256: String,
}

impl Row {
    /// The row with its hash.
    fn sealed(mut self) -> Result<Row, serde_json::Error> {
        self.sha256 = String::new();
        self.sha256 = sha256(serde_json::to_vec(&self)?).hex();
        Ok(self)
    }

    /// Reads line `number`, and says what is wrong with it. A whole line in a wrong place is read.
    fn read(line: &[u8], number: u64) -> (Option<Row>, Option<String>) {
        let unread = || (None, Some("it cannot be read".to_owned()));
        let Ok(row) = serde_json::from_slice::<Row>(line) else { return unread() };
        if row.sha256.is_empty() && row.number == 0 {
            return (Some(row), None);
        }
        let hash = row.sha256.clone();
        match row.sealed() {
            Ok(row) if row.sha256 != hash => (None, Some("its hash is wrong".to_owned())),
            Ok(row) => {
                let was = (row.number != number).then(|| format!("it was line {}", row.number));
                (Some(row), was)
            }
            Err(_) => unread(),
        }
    }
}

/// What the file holds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct FileOfTombstones {
    /// All lines that are whole.
    pub all: Tombstones,
    /// The first thing that is wrong.
    pub damage: Option<String>,
}

impl Tombstone {
    fn take(&mut self, other: Tombstone) {
        self.sources.extend(other.sources);
        self.files.extend(other.files);
        self.summaries.extend(other.summaries);
        self.lines.extend(other.lines);
    }

    /// Whether it names everything that another one names.
    pub(crate) fn has_all_of(&self, other: &Tombstone) -> bool {
        other.sources.is_subset(&self.sources)
            && other.files.is_subset(&self.files)
            && other.summaries.keys().all(|id| self.summaries.contains_key(id))
            && other.lines.is_subset(&self.lines)
    }

    fn row(&self, number: u64, at: Timestamp) -> Row {
        let summaries = self.summaries.values().map(|one| {
            (one.summary_id.clone(), one.stream.as_str().to_owned(), one.day.to_string())
        });
        Row {
            number,
            at_ms: at.0,
            sources: self.sources.clone(),
            files: self.files.clone(),
            summaries: summaries.collect(),
            lines: self.lines.iter().map(|(number, hash)| (*number, hash.hex())).collect(),
            sha256: String::new(),
        }
    }

    /// `None` where a word has another form.
    fn of_row(row: Row) -> Option<Tombstone> {
        let summary = |(summary_id, stream, day): (String, String, String)| {
            let (stream, day) = (Stream::parse(&stream)?, day.parse().ok()?);
            Some((summary_id.clone(), SummaryPointer { summary_id, stream, day }))
        };
        let line = |(number, hash): (u64, String)| Some((number, hash.parse().ok()?));
        Some(Tombstone {
            sources: row.sources,
            files: row.files,
            summaries: row.summaries.into_iter().map(summary).collect::<Option<_>>()?,
            lines: row.lines.into_iter().map(line).collect::<Option<_>>()?,
        })
    }
}

/// Reads the file; `None` where there is none.
pub(crate) fn look(disk: &dyn Disk, path: &Path) -> io::Result<Option<FileOfTombstones>> {
    let Some(bytes) = disk.read_if_present(path)? else { return Ok(None) };
    let mut found = FileOfTombstones::default();
    for (line, number) in
        bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).zip(1..)
    {
        let (row, mut wrong) = Row::read(line, number);
        if let Some(row) = row {
            let at = Timestamp(row.at_ms);
            match Tombstone::of_row(row) {
                Some(one) => found.all.entry(at).or_default().take(one),
                None => wrong = Some("it cannot be read".to_owned()),
            }
        }
        if let Some(why) = wrong {
            found.damage.get_or_insert_with(|| format!("line {number}: {why}"));
        }
    }
    if !bytes.is_empty() && !bytes.ends_with(b"\n") {
        found.damage.get_or_insert_with(|| "its last line has no end".to_owned());
    }
    if found.all.is_empty() && found.damage.is_none() {
        // It is written only when something was forgotten.
        found.damage = Some("it is empty".to_owned());
    }
    Ok(Some(found))
}

/// Reads the file; nothing where there is none. A file in which a line is damaged is an error.
pub(crate) fn read(disk: &dyn Disk, path: &Path) -> io::Result<Tombstones> {
    let FileOfTombstones { all, damage } = look(disk, path)?.unwrap_or_default();
    match damage {
        None => Ok(all),
        Some(why) => Err(io::Error::new(io::ErrorKind::InvalidData, why)),
    }
}

/// What the facts of a log say.
pub(crate) fn of_log(log: &Reader) -> Result<Tombstones, ReadError> {
    let mut facts: Vec<(Timestamp, Forgotten)> = Vec::new();
    log.try_scan::<ReadError>(Seq(1), None, |entry| {
        if entry.tag == codec::FORGOTTEN
            && let Event::Forgotten(fact) = entry.event()?
        {
            facts.push((entry.at, *fact));
        }
        Ok(ControlFlow::Continue(()))
    })?;
    let mut all = Tombstones::new();
    for (at, fact) in facts {
        let mut lines = BTreeSet::new();
        for seq in &fact.bodies {
            let record = log.get(*seq)?.filter(|one| codec::holds_line(one.tag));
            lines.extend(record.map(|one| one.event()).transpose()?.as_ref().and_then(line_of));
        }
        let summaries = fact.summaries.into_iter();
        all.entry(at).or_default().take(Tombstone {
            sources: fact.sources.into_iter().collect(),
            files: fact.files.into_iter().collect(),
            summaries: summaries.map(|one| (one.summary_id.clone(), one)).collect(),
            lines,
        });
    }
    Ok(all)
}

/// Adds to the file what it lacks, durably. Lines that are damaged go: the log says again what they said.
pub(crate) fn add(disk: &dyn Disk, path: &Path, said: Tombstones) -> io::Result<()> {
    let FileOfTombstones { all: known, damage } = look(disk, path)?.unwrap_or_default();
    let mut all = known.clone();
    for (at, one) in said {
        all.entry(at).or_default().take(one);
    }
    if all == known && damage.is_none() {
        return Ok(());
    }
    let mut text = Vec::new();
    for ((at, one), number) in all.iter().zip(1..) {
        serde_json::to_writer(&mut text, &one.row(number, *at).sealed()?)?;
        text.push(b'\n');
    }
    disk.replace(path, &text, MODE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::os::sim::SimDisk;

    fn one(source: &str, line: u64) -> Tombstone {
        let summary_id = format!("sum_{source}");
        let day = "2026-03-02".parse().unwrap();
        let summary =
            SummaryPointer { summary_id: summary_id.clone(), stream: Stream::Events, day };
        Tombstone {
            sources: BTreeSet::from([source.to_owned()]),
            summaries: BTreeMap::from([(summary_id, summary)]),
            lines: BTreeSet::from([(line, Digest([line as u8; 32]))]),
            ..Tombstone::default()
        }
    }

    #[test]
    fn the_file_keeps_all_that_it_had_and_its_moments() {
        let (disk, path) = (SimDisk::new(), Path::new("/forgotten.jsonl"));
        let disk: &dyn Disk = &disk;
        assert!(read(disk, path).unwrap().is_empty());
        add(disk, path, Tombstones::new()).unwrap();
        assert!(disk.stat(path).unwrap().is_none(), "nothing was forgotten");
        let (first, second) = (Timestamp(5), Timestamp(9));
        add(disk, path, Tombstones::from([(first, one("a", 1))])).unwrap();
        // A log that does not know of the first.
        add(disk, path, Tombstones::from([(second, one("b", 2))])).unwrap();
        add(disk, path, Tombstones::from([(second, one("c", 3))])).unwrap();
        let mut both = one("b", 2);
        both.take(one("c", 3));
        let all = Tombstones::from([(first, one("a", 1)), (second, both)]);
        assert_eq!(read(disk, path).unwrap(), all);
        disk.replace(path, b"{", MODE).unwrap();
        assert!(read(disk, path).is_err(), "what does not read is not nothing");
    }

    #[test]
    fn every_flipped_byte_and_every_lost_line_shows_and_whole_lines_stay() {
        let (disk, path) = (SimDisk::new(), Path::new("/forgotten.jsonl"));
        let disk: &dyn Disk = &disk;
        let said: Tombstones = [1, 2, 3].map(|at| (Timestamp(at), one("a", at as u64))).into();
        add(disk, path, said.clone()).unwrap();
        let bytes = disk.read(path).unwrap();
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            disk.replace(path, &damaged, MODE).unwrap();
            let found = look(disk, path).unwrap().unwrap();
            assert!(found.damage.is_some() || found.all == said, "byte {at}");
            assert!(!found.all.is_empty(), "byte {at}: whole lines stay");
        }
        // At the end of a line, only the log knows that something is missing.
        for end in (0..bytes.len()).filter(|end| *end == 0 || bytes[end - 1] != b'\n') {
            disk.replace(path, &bytes[..end], MODE).unwrap();
            let found = look(disk, path).unwrap().unwrap();
            assert!(found.damage.is_some(), "the file ends at byte {end}");
        }
        let lines: Vec<&[u8]> = bytes.split_inclusive(|byte| *byte == b'\n').collect();
        disk.replace(path, &[lines[0], lines[2]].concat(), MODE).unwrap();
        let why = read(disk, path).unwrap_err().to_string();
        assert_eq!(why, "line 2: it was line 3");
        add(disk, path, said.clone()).unwrap();
        assert_eq!(read(disk, path).unwrap(), said, "the log says it again");
        disk.replace(path, b"", MODE).unwrap();
        assert_eq!(read(disk, path).unwrap_err().to_string(), "it is empty");
        // A file of an earlier release.
        let old = b"{\"at_ms\":5,\"sources\":[\"a\"],\"files\":[],\"summaries\":[],\"lines\":[]}\n";
        disk.replace(path, old, MODE).unwrap();
        assert_eq!(read(disk, path).unwrap().len(), 1);
    }
}
