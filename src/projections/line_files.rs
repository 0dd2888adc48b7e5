//! Acks and quarantine records: files that grow by one line for each event that they show.

use std::path::PathBuf;

use super::exporter::Exporter;
use super::projection::{Comparison, Outcome, Projection, Site};
use crate::contract::ids::Seq;
use crate::export::append_only::{self, AppendOnly, Project, Range, Repair};
use crate::export::{Committed, ack, quarantine};
use crate::log::codec::Cursor;
use crate::sequencer::engine;

/// The name of the acks' cursor.
pub(crate) const ACKS: &str = "acks";
/// The name of the quarantine's cursor.
pub(crate) const QUARANTINE: &str = "quarantine";
/// The name of the cursor that says up to which event retention has moved acks away.
pub(crate) const ACKS_FLOOR: &str = "acks_floor";

pub(crate) const ACKS_EXPORTER: Exporter = Exporter {
    name: "acks",
    files: &["run/ack.jsonl"],
    folders: &[],
    paced: false,
    is_on: |_| true,
    open: |site| Box::new(LineFile::acks(site)),
};

pub(crate) const QUARANTINE_EXPORTER: Exporter = Exporter {
    name: "quarantine",
    files: &["run/quarantine.jsonl"],
    folders: &[],
    paced: false,
    is_on: |_| true,
    open: |site| Box::new(LineFile::quarantine(site)),
};

/// One such file. It is opened, and brought up to the log, when it is first needed.
pub(crate) struct LineFile {
    site: Site,
    path: PathBuf,
    project: Project,
    pub cursor: &'static str,
    /// The cursor of events whose lines were moved away.
    floor: Option<&'static str>,
    file: Option<AppendOnly>,
    /// What had to be corrected when the file was opened.
    pub repaired: Repair,
}

impl LineFile {
    pub(crate) fn acks(site: &Site) -> LineFile {
        LineFile::new(site, site.home.acks(), ack::line, ACKS, Some(ACKS_FLOOR))
    }

    pub(crate) fn quarantine(site: &Site) -> LineFile {
        LineFile::new(site, site.home.quarantine(), quarantine::line, QUARANTINE, None)
    }

    fn new(
        site: &Site,
        path: PathBuf,
        project: Project,
        cursor: &'static str,
        floor: Option<&'static str>,
    ) -> LineFile {
        let (site, repaired) = (site.clone(), Repair::default());
        LineFile { site, path, project, cursor, floor, file: None, repaired }
    }

    /// Bytes written so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.file.as_ref().map_or(0, AppendOnly::bytes)
    }

    /// The events that the file shows. A copy in another place shows all events.
    fn range(&self, until: Option<Seq>) -> Outcome<Range> {
        let floor = self.floor.filter(|_| self.site.own);
        let after = floor.map(|name| engine::cursor(&self.site.log, name)).transpose()?;
        Ok(Range { after: after.unwrap_or_default().applied, until })
    }

    fn open_at(&mut self, cursor: Cursor, until: Option<Seq>) -> Outcome<()> {
        let range = self.range(until)?;
        let disk = std::sync::Arc::clone(&self.site.disk);
        let (path, log) = (&self.path, &self.site.log);
        let (file, repaired) = AppendOnly::open(disk, path, self.project, cursor, log, range)?;
        (self.file, self.repaired) = (Some(file), repaired);
        Ok(())
    }

    fn file(&mut self, until: Option<Seq>) -> Outcome<&mut AppendOnly> {
        if self.file.is_none() {
            let cursor = match self.site.own {
                true => engine::cursor(&self.site.log, self.cursor)?,
                false => Cursor::default(),
            };
            self.open_at(cursor, until)?;
        }
        self.file.as_mut().ok_or_else(|| "the file is not open".into())
    }
}

impl Projection for LineFile {
    fn position(&self) -> Seq {
        self.file.as_ref().map_or(Seq::ZERO, AppendOnly::applied)
    }

    fn fold(&mut self, batch: &[Committed]) -> Outcome<()> {
        Ok(self.file(None)?.take(batch)?)
    }

    fn advance(&mut self, until: Option<Seq>) -> Outcome<()> {
        if self.file.is_none() {
            // Opening reads everything that the log has more.
            return self.file(until).map(drop);
        }
        let (log, from) = (self.site.log.clone(), self.position());
        super::projection::follow(&log, from, until, &mut |batch| self.fold(batch))
    }

    fn checkpoint(&mut self) -> Outcome<Cursor> {
        Ok(self.file(None)?.sync()?)
    }

    fn compare(&mut self) -> Outcome<Comparison> {
        let mut found = Comparison::default();
        let range = self.range(None)?;
        let Site { disk, log, .. } = &self.site;
        if let Some(what) = append_only::compare(disk, &self.path, self.project, log, range)? {
            found.differs(self.site.relative(&self.path), what);
        }
        Ok(found)
    }

    /// Compares the whole file, not only what came after its cursor, and corrects it in place: a
    /// process that appends to it keeps its place in the same file.
    fn repair(&mut self) -> Outcome<usize> {
        self.open_at(Cursor::default(), None)?;
        Ok(usize::from(self.repaired != Repair::default()))
    }
}
