//! The Summary Bus and the run records as two entries of the list.
//!
//! The publisher of a service keeps both with one reading of the log, and the entry of the Summary
//! Bus is that publisher. The entry of the run records reads the log itself; it compares and repairs
//! the records alone.

use std::ops::ControlFlow;

use super::bus::Summaries;
use super::compare::{compare_records, compare_summaries};
use super::fold::fold;
use super::run_records::{RUNS_DIR, RunRecords};
use super::spill_cache::SpillCache;
use crate::contract::ids::Seq;
use crate::export::Committed;
use crate::export::run_record::RUN_RECORDS_DIR;
use crate::export::session_fold::SKIP_REPORTS_DIR;
use crate::export::summary_bus::SUMMARIES_DIR;
use crate::log::codec::Cursor;
use crate::projections::exporter::Exporter;
use crate::projections::projection::{Comparison, Outcome, Projection, Site};

pub(crate) const SUMMARIES_EXPORTER: Exporter = Exporter {
    name: "summaries",
    files: &[],
    folders: &[SUMMARIES_DIR],
    // The publisher of a service is this projection.
    paced: false,
    is_on: |_| true,
    open: |site| Box::new(SummaryBus { site: site.clone(), summaries: None }),
};

pub(crate) const RUN_RECORDS_EXPORTER: Exporter = Exporter {
    name: "run records",
    files: &[],
    folders: &[RUNS_DIR, RUN_RECORDS_DIR, SKIP_REPORTS_DIR],
    paced: false,
    is_on: |_| true,
    open: |site| Box::new(RecordTree { site: site.clone(), records: None, position: Seq::ZERO }),
};

struct SummaryBus {
    site: Site,
    summaries: Option<Summaries>,
}

impl SummaryBus {
    fn open(&mut self) -> Outcome<&mut Summaries> {
        let summaries = match self.summaries.take() {
            Some(summaries) => summaries,
            None => {
                let Site { disk, home, log, .. } = &self.site;
                Summaries::open(disk, &home.buses, log, Some(&home.publisher_index()))?
            }
        };
        Ok(self.summaries.insert(summaries))
    }
}

impl Projection for SummaryBus {
    fn position(&self) -> Seq {
        self.summaries.as_ref().map_or(Seq::ZERO, Summaries::read_to)
    }

    /// The publisher reads the batch from the log itself: it needs the hash of one event of a day,
    /// and would hash all of them otherwise.
    fn fold(&mut self, batch: &[Committed]) -> Outcome<()> {
        self.advance(batch.last().map(|last| last.seq))
    }

    fn advance(&mut self, until: Option<Seq>) -> Outcome<()> {
        Ok(self.open()?.read(until)?)
    }

    fn checkpoint(&mut self) -> Outcome<Cursor> {
        let applied = self.open()?.read_to();
        if let Some(mut summaries) = self.summaries.take() {
            summaries.publish(Some(applied))?;
            summaries.close()?;
        }
        Ok(Cursor { applied, bytes: 0 })
    }

    fn compare(&mut self) -> Outcome<Comparison> {
        let Site { disk, home, log, .. } = &self.site;
        Ok(compare_summaries(disk, &home.buses, log, &home.publisher_index())?)
    }

    fn repair(&mut self) -> Outcome<usize> {
        let published = self.open()?.publish_different()?;
        if let Some(summaries) = self.summaries.take() {
            summaries.close()?;
        }
        Ok(published)
    }
}

struct RecordTree {
    site: Site,
    records: Option<RunRecords>,
    position: Seq,
}

impl RecordTree {
    /// What differs from the log, and what differs and only files had.
    fn compared(&self) -> Outcome<(Comparison, Comparison)> {
        let Site { disk, home, log, .. } = &self.site;
        Ok(compare_records(disk, &home.buses, log, &home.publisher_index())?)
    }

    fn records(&mut self) -> Outcome<&mut RunRecords> {
        let records = match self.records.take() {
            Some(records) => records,
            None => {
                let Site { disk, home, .. } = &self.site;
                RunRecords::open(disk, &home.buses, SpillCache::default())?
            }
        };
        Ok(self.records.insert(records))
    }
}

impl Projection for RecordTree {
    fn position(&self) -> Seq {
        self.position
    }

    fn fold(&mut self, batch: &[Committed]) -> Outcome<()> {
        self.advance(batch.last().map(|last| last.seq))
    }

    fn advance(&mut self, until: Option<Seq>) -> Outcome<()> {
        let (log, mut position) = (self.site.log.clone(), self.position);
        let records = self.records()?;
        fold(&log, position, until, &mut |seq, stamp, event| {
            records.take(seq, stamp.at, &event)?;
            position = seq;
            Ok(ControlFlow::Continue(()))
        })?;
        self.position = position;
        Ok(())
    }

    fn checkpoint(&mut self) -> Outcome<Cursor> {
        let log = self.site.log.clone();
        self.records()?.publish(&log)?;
        Ok(Cursor { applied: self.position, bytes: 0 })
    }

    fn compare(&mut self) -> Outcome<Comparison> {
        let (mut found, kept) = self.compared()?;
        if found.differences.is_empty() && !kept.differences.is_empty() {
            found.fix = Some("summarizer verify");
        }
        found.differences.extend(kept.differences);
        Ok(found)
    }

    /// Removes what differs first: a skip report is written only where the file is missing. A record that the log cannot
    /// write again stays as it is.
    fn repair(&mut self) -> Outcome<usize> {
        let (Comparison { differences, .. }, _) = self.compared()?;
        for difference in &differences {
            self.site.disk.remove_file(&self.site.home.buses.join(&difference.path))?;
        }
        self.advance(None)?;
        self.checkpoint()?;
        Ok(differences.len())
    }
}
