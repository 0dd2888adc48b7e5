//! Atom feeds of summaries: `feeds/<day>.atom.xml` in the bus home, one for each day.
//!
//! Contract. A feed is a function of the log and valid by RFC 4287. It lists the newest
//! [`ENTRIES_MAX`] summaries of its day over all streams, newest first; a summary that was produced
//! again moves to the front under the same id. Ids of feeds and entries are UUIDs made of the day
//! and of the summary id, so a reader that saw an entry knows it again wherever the file lies. Each
//! file is replaced as a whole. `exports.feed = true` turns feeds on; they are off by default.
//!
//! The entries of each day lie in a cache file with the stamp of the last event that they cover.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::exporter::Exporter;
use super::projection::{Comparison, Outcome, Projection, Site, follow};
use crate::contract::hash::sha256;
use crate::contract::ids::Seq;
use crate::contract::time::{Day, Timestamp};
use crate::contract::vocabulary::Stream;
use crate::export::Committed;
use crate::log::codec::Cursor;
use crate::log::{Cache, LogStamp, ReadError, Reader};
use crate::os::Disk;
use crate::state::event::Event;

/// The feeds.
pub const EXPORTER: Exporter = Exporter {
    name: "feeds",
    files: &[],
    folders: &[FEEDS_DIR],
    copied: false,
    paced: true,
    is_on: |site| site.feed,
    open: |site| Box::new(Feeds::new(site)),
};

/// The folder of the feeds, relative to the bus home. It stands beside the Summary Bus, whose
/// readers expect streams and manifests only.
const FEEDS_DIR: &str = "feeds";
const SUFFIX: &str = ".atom.xml";
/// Entries of one feed.
const ENTRIES_MAX: usize = if cfg!(test) { 5 } else { 500 };
/// Days in memory above which they are written before more is read.
const DAYS_MAX: usize = 1024;
const MODE: u32 = 0o640;
/// Layout of the cache file.
const LAYOUT: &str = "feeds.v1";
/// Version of the fold.
const REDUCER: u32 = 1;
/// The row that holds the stamp.
const STAMP: &str = "at";

/// One summary of a day.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Entry {
    seq: Seq,
    at: i64,
    stream: String,
    summary_id: String,
}

/// The newest entries of a day, oldest first.
type Entries = Vec<Entry>;

struct Feeds {
    site: Site,
    /// Opened when it is first needed; without one the log is read from its beginning.
    cache: Option<Cache>,
    is_open: bool,
    position: Seq,
    /// Days that were needed since the last checkpoint.
    days: BTreeMap<Day, Entries>,
    changed: BTreeSet<Day>,
}

impl Feeds {
    fn new(site: &Site) -> Feeds {
        Feeds {
            site: site.clone(),
            cache: None,
            is_open: false,
            position: Seq::ZERO,
            days: BTreeMap::new(),
            changed: BTreeSet::new(),
        }
    }

    fn folder(&self) -> PathBuf {
        self.site.home.buses.join(FEEDS_DIR)
    }

    fn path(&self, day: Day) -> PathBuf {
        self.folder().join(format!("{day}{SUFFIX}"))
    }

    /// Takes up what the cache holds. Feeds that are missing are written again from it.
    fn open(&mut self) -> Outcome<()> {
        if std::mem::replace(&mut self.is_open, true) || !self.site.own {
            return Ok(());
        }
        let path = self.site.home.feed_index();
        match Cache::open(&self.site.disk, &path, LAYOUT) {
            Ok(cache) => self.cache = Some(cache),
            Err(error) => tracing::info!(%error, "feeds are read from the log each time"),
        }
        if let Err(error) = self.recall() {
            tracing::warn!(%error, "feeds are read from the log again");
            self.cache = None;
            self.site.disk.remove_file(&path)?;
            self.cache = Cache::open(&self.site.disk, &path, LAYOUT).ok();
            (self.position, self.days, self.changed) = Default::default();
        }
        Ok(())
    }

    fn recall(&mut self) -> Outcome<()> {
        let Some(cache) = &self.cache else { return Ok(()) };
        let Some(stamp) = cache.get(STAMP)? else { return Ok(()) };
        let stamp: LogStamp = serde_json::from_slice(&stamp)?;
        if !stamp.holds(&self.site.log, REDUCER)? {
            return Err("they are of another log".into());
        }
        self.position = stamp.seq;
        let mut after = String::new();
        while let Some((key, _)) = cache.page(&after, "~", 1)?.pop() {
            if let Ok(day) = key.parse::<Day>()
                && self.site.disk.stat(&self.path(day))?.is_none()
            {
                self.changed.insert(day);
            }
            after = key;
        }
        Ok(())
    }

    fn entries(&mut self, day: Day) -> Outcome<&mut Entries> {
        if !self.days.contains_key(&day) {
            let row = match &self.cache {
                Some(cache) => cache.get(&day.to_string())?,
                None => None,
            };
            let entries = row.map(|row| serde_json::from_slice(&row)).transpose()?;
            self.days.insert(day, entries.unwrap_or_default());
        }
        Ok(self.days.entry(day).or_default())
    }

    fn take(&mut self, committed: &Committed) -> Outcome<()> {
        let Event::SummaryProduced { summary, .. } = &committed.event else { return Ok(()) };
        let entries = self.entries(summary.day)?;
        entries.retain(|entry| entry.summary_id != summary.summary_id);
        if entries.len() == ENTRIES_MAX {
            entries.remove(0);
        }
        entries.push(Entry {
            seq: committed.seq,
            at: committed.at.0,
            stream: summary.stream.as_str().to_owned(),
            summary_id: summary.summary_id.clone(),
        });
        self.changed.insert(summary.day);
        Ok(())
    }

    /// The feeds of all changed days, one after another.
    fn each(&mut self, show: &mut dyn FnMut(Day, Vec<u8>) -> Outcome<()>) -> Outcome<()> {
        for day in self.changed.clone() {
            let log = self.site.log.clone();
            let bytes = render(&log, day, self.entries(day)?)?;
            show(day, bytes)?;
        }
        Ok(())
    }
}

impl Projection for Feeds {
    fn position(&self) -> Seq {
        self.position
    }

    fn fold(&mut self, batch: &[Committed]) -> Outcome<()> {
        self.open()?;
        let after = self.position;
        for committed in batch.iter().filter(|one| one.seq > after) {
            self.take(committed)?;
        }
        if let Some(last) = batch.last() {
            self.position = self.position.max(last.seq);
        }
        // Without a cache nothing may be forgotten.
        if self.cache.is_some() && self.days.len() > DAYS_MAX {
            self.checkpoint()?;
        }
        Ok(())
    }

    fn advance(&mut self, until: Option<Seq>) -> Outcome<()> {
        self.open()?;
        let (log, from) = (self.site.log.clone(), self.position);
        follow(&log, from, until, &mut |batch| self.fold(batch))
    }

    fn checkpoint(&mut self) -> Outcome<Cursor> {
        self.open()?;
        let at = Cursor { applied: self.position, bytes: 0 };
        if self.changed.is_empty() {
            return Ok(at);
        }
        let (disk, folder) = (std::sync::Arc::clone(&self.site.disk), self.folder());
        disk.create_dir_all(&folder)?;
        self.each(&mut |day, bytes| {
            let path = folder.join(format!("{day}{SUFFIX}"));
            if disk.read_if_present(&path)?.as_ref() != Some(&bytes) {
                disk.replace(&path, &bytes, MODE)?;
            }
            Ok(())
        })?;
        // The rows come after the files: a crash in between writes the same files again.
        if let Some(cache) = &self.cache
            && let Some(stamp) = LogStamp::of(&self.site.log, self.position, REDUCER)?
        {
            let mut rows = vec![(STAMP.to_owned(), serde_json::to_vec(&stamp)?)];
            for (day, entries) in &self.days {
                rows.push((day.to_string(), serde_json::to_vec(entries)?));
            }
            cache.change(rows.iter().map(|(key, row)| (key.as_str(), Some(row.as_slice()))))?;
            cache.sync()?;
            self.days.clear();
        }
        self.changed.clear();
        Ok(at)
    }

    /// Compares with what the log says up to the position of the last checkpoint: summaries that
    /// came after it wait for the publisher.
    fn compare(&mut self) -> Outcome<Comparison> {
        self.open()?;
        let until = (self.position > Seq::ZERO).then_some(self.position);
        let mut again = Feeds { is_open: true, ..Feeds::new(&self.site) };
        again.advance(until)?;
        let mut found = Comparison::default();
        let disk = &self.site.disk;
        let mut known = BTreeSet::new();
        again.each(&mut |day, meant| {
            let name = format!("{day}{SUFFIX}");
            match disk.read_if_present(&self.path(day))? {
                None => found.differs(format!("{FEEDS_DIR}/{name}"), "is missing"),
                Some(bytes) if bytes != meant => {
                    found.differs(format!("{FEEDS_DIR}/{name}"), "differs from the log");
                }
                Some(_) => {}
            }
            known.insert(name);
            Ok(())
        })?;
        for name in listed(disk.as_ref(), &self.folder())? {
            if !name.starts_with('.') && !known.contains(&name) {
                found.differs(format!("{FEEDS_DIR}/{name}"), "is not in the log");
            }
        }
        Ok(found)
    }

    fn repair(&mut self) -> Outcome<usize> {
        let differences = self.compare()?.differences;
        for one in &differences {
            self.site.disk.remove_file(&self.site.home.buses.join(&one.path))?;
        }
        self.cache = None;
        self.site.disk.remove_file(&self.site.home.feed_index())?;
        *self = Feeds::new(&self.site);
        self.advance(None)?;
        self.checkpoint()?;
        Ok(differences.len())
    }
}

fn listed(disk: &dyn Disk, folder: &std::path::Path) -> std::io::Result<Vec<String>> {
    match disk.list(folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        listed => listed,
    }
}

/// The part of an item that a feed shows.
#[derive(Default, Deserialize)]
struct Item {
    #[serde(default)]
    title: Option<String>,
    #[serde(default)]
    outputs: Outputs,
}

#[derive(Default, Deserialize)]
struct Outputs {
    #[serde(default)]
    summary_text: Option<String>,
}

/// The feed of a day.
fn render(log: &Reader, day: Day, entries: &[Entry]) -> Outcome<Vec<u8>> {
    let updated = Timestamp(entries.iter().map(|entry| entry.at).max().unwrap_or_default());
    let mut out = String::from("<?xml version=\"1.0\" encoding=\"utf-8\"?>\n");
    out.push_str("<feed xmlns=\"http://www.w3.org/2005/Atom\">\n");
    element(&mut out, "  ", "id", &uuid(&format!("feed {day}")));
    element(&mut out, "  ", "title", &format!("Summaries of {day}"));
    element(&mut out, "  ", "updated", &updated.to_string());
    out.push_str("  <author><name>summarizer</name></author>\n");
    out.push_str(&format!("  <link rel=\"self\" href=\"{day}{SUFFIX}\"/>\n"));
    for entry in entries.iter().rev() {
        let body = log.body(entry.seq)?.ok_or(ReadError::no_body(entry.seq))?;
        let item: Item = serde_json::from_slice(&body)?;
        let title = item.title.filter(|title| !title.trim().is_empty());
        let stream = Stream::parse(&entry.stream).map_or("", Stream::as_str);
        out.push_str("  <entry>\n");
        element(&mut out, "    ", "id", &uuid(&format!("summary {}", entry.summary_id)));
        element(&mut out, "    ", "title", title.as_deref().unwrap_or(&entry.summary_id));
        element(&mut out, "    ", "updated", &Timestamp(entry.at).to_string());
        out.push_str(&format!("    <category term=\"{stream}\"/>\n"));
        let text = item.outputs.summary_text.unwrap_or_default();
        out.push_str(&format!("    <content type=\"text\">{}</content>\n", escaped(&text)));
        out.push_str("  </entry>\n");
    }
    out.push_str("</feed>\n");
    Ok(out.into_bytes())
}

fn element(out: &mut String, indent: &str, name: &str, text: &str) {
    out.push_str(&format!("{indent}<{name}>{}</{name}>\n", escaped(text)));
}

/// Text as XML 1.0 holds it. Characters that XML cannot hold become U+FFFD, and a carriage return
/// is written as a reference because a parser would turn it into a line feed.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '\r' => out.push_str("&#13;"),
            '\t' | '\n' => out.push(c),
            '\0'..='\u{1f}' | '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            _ => out.push(c),
        }
    }
    out
}

/// A UUID of version 8 (RFC 9562: made of a hash of our own choice), as a URN.
fn uuid(name: &str) -> String {
    let mut bytes: [u8; 16] = sha256(format!("summarizer feed\n{name}")).head();
    bytes[6] = (bytes[6] & 0x0f) | 0x80;
    bytes[8] = (bytes[8] & 0x3f) | 0x80;
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let (a, b, c, d, e) = (&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]);
    format!("urn:uuid:{a}-{b}-{c}-{d}-{e}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped_as_xml_holds_it() {
        assert_eq!(escaped("a<b>&c\u{1}\r\n"), "a&lt;b&gt;&amp;c\u{fffd}&#13;\n");
    }

    #[test]
    fn ids_are_stable_uuids_of_version_8() {
        let id = uuid("feed 2026-02-11");
        assert_eq!(id, uuid("feed 2026-02-11"));
        assert_ne!(id, uuid("feed 2026-02-12"));
        let parts: Vec<&str> = id["urn:uuid:".len()..].split('-').collect();
        assert_eq!(parts.iter().map(|part| part.len()).collect::<Vec<_>>(), [8, 4, 4, 4, 12]);
        assert!(parts[2].starts_with('8') && "89ab".contains(&parts[3][..1]), "{id}");
    }
}
