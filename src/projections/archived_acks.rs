//! Acks that retention moved to files of their own, in `run/archive`.
//!
//! Contract: a file holds the acks of the events between the move before it and its own, in the bytes of
//! the log. A file that no move names is left from a move that a crash cut short; its acks are in another
//! file too, so a repair removes it. In another place than its home a log has no such files: there all
//! acks are in one file.

use std::collections::BTreeSet;
use std::path::PathBuf;

use super::exporter::Exporter;
use super::projection::{Comparison, Outcome, Projection, Site, follow};
use crate::contract::ids::Seq;
use crate::export::append_only::{self, AppendOnly, Range};
use crate::export::{Committed, ack};
use crate::facts::retention::{AcksMoved, RetentionFact, is_archive_of_acks};
use crate::log::codec::Cursor;
use crate::state::event::Event;

pub(crate) const EXPORTER: Exporter = Exporter {
    name: "archived acks",
    files: &[],
    folders: &[],
    paced: false,
    is_on: |site| site.own,
    open: |site| Box::new(ArchivedAcks { site: site.clone(), moves: Vec::new(), at: Seq::ZERO }),
};

struct ArchivedAcks {
    site: Site,
    moves: Vec<AcksMoved>,
    at: Seq,
}

/// One file and the events whose acks it holds.
struct ArchiveFile {
    path: PathBuf,
    range: Range,
}

impl ArchivedAcks {
    fn folder(&self) -> PathBuf {
        self.site.home.archive()
    }

    fn files(&self) -> Vec<ArchiveFile> {
        let before = std::iter::once(Seq::ZERO).chain(self.moves.iter().map(|one| one.through));
        let files = before.zip(&self.moves);
        let files = files.map(|(after, one)| ArchiveFile {
            path: self.folder().join(&one.file),
            range: Range { after, until: Some(one.through) },
        });
        files.collect()
    }

    /// Files in the folder that no move names.
    fn unnamed(&self) -> Outcome<Vec<PathBuf>> {
        let folder = self.folder();
        if self.site.disk.stat(&folder)?.is_none() {
            return Ok(Vec::new());
        }
        let named: BTreeSet<&str> = self.moves.iter().map(|one| one.file.as_str()).collect();
        let mut found = self.site.disk.list(&folder)?;
        found.retain(|name| is_archive_of_acks(name) && !named.contains(name.as_str()));
        Ok(found.iter().map(|name| folder.join(name)).collect())
    }
}

impl Projection for ArchivedAcks {
    fn position(&self) -> Seq {
        self.at
    }

    fn fold(&mut self, batch: &[Committed]) -> Outcome<()> {
        for committed in batch.iter().filter(|one| one.seq > self.at) {
            if let Event::Retention(RetentionFact::AcksMoved(fact)) = &committed.event {
                self.moves.push(fact.clone());
            }
        }
        self.at = self.at.max(batch.last().map_or(Seq::ZERO, |one| one.seq));
        Ok(())
    }

    fn advance(&mut self, until: Option<Seq>) -> Outcome<()> {
        let (log, from) = (self.site.log.clone(), self.at);
        follow(&log, from, until, &mut |batch| self.fold(batch))
    }

    fn checkpoint(&mut self) -> Outcome<Cursor> {
        self.repair()?;
        Ok(Cursor { applied: self.at, bytes: 0 })
    }

    fn compare(&mut self) -> Outcome<Comparison> {
        self.advance(None)?;
        let mut found = Comparison::default();
        let Site { disk, log, .. } = &self.site;
        for ArchiveFile { path, range } in self.files() {
            if let Some(what) = append_only::compare(disk, &path, ack::line, log, range)? {
                found.differs(self.site.relative(&path), what);
            }
        }
        for path in self.unnamed()? {
            found.differs(self.site.relative(&path), "is not in the log");
        }
        Ok(found)
    }

    fn repair(&mut self) -> Outcome<usize> {
        self.advance(None)?;
        let mut written = 0;
        for ArchiveFile { path, range } in self.files() {
            let Site { disk, log, .. } = &self.site;
            if append_only::compare(disk, &path, ack::line, log, range)?.is_none() {
                continue;
            }
            // A new file: the old one may have a second name, in what a recovery kept.
            disk.create_dir_all(&self.folder())?;
            disk.remove_file(&path)?;
            let (disk, start) = (disk.clone(), Cursor::default());
            AppendOnly::open(disk, &path, ack::line, start, log, range)?.0.sync()?;
            written += 1;
        }
        let unnamed = self.unnamed()?;
        for path in &unnamed {
            self.site.disk.remove_file(path)?;
        }
        Ok(written + unnamed.len())
    }
}
