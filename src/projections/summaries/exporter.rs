//! The Summary Bus and the run records as an entry of the list. They share one fold, so they are
//! one entry.

use super::bus::Summaries;
use super::compare::compare;
use crate::contract::ids::Seq;
use crate::export::Committed;
use crate::log::codec::Cursor;
use crate::projections::exporter::Exporter;
use crate::projections::projection::{Comparison, Outcome, Projection, Site};

/// The Summary Bus.
pub const EXPORTER: Exporter = Exporter {
    name: "summaries",
    files: &[],
    folders: &["summaries", "run_records", "artifacts/run_records", "artifacts/skip_reports"],
    copied: false,
    // The publisher of a service is this projection.
    paced: false,
    is_on: |_| true,
    open: |site| Box::new(SummaryBus { site: site.clone(), summaries: None }),
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
        let mut found = Comparison::default();
        for (path, what) in compare(disk, &home.buses, log, &home.publisher_index())? {
            found.differs(path, what);
        }
        Ok(found)
    }

    fn repair(&mut self) -> Outcome<usize> {
        let published = self.open()?.publish_all()?;
        if let Some(summaries) = self.summaries.take() {
            summaries.close()?;
        }
        Ok(published)
    }
}
