//! The Digest Bus as an entry of the list. The digest room owns its tree and its comparison.

use super::exporter::Exporter;
use super::projection::{Comparison, Outcome, Projection, Site};
use crate::contract::ids::Seq;
use crate::digest::compare;
use crate::digest::publish::Digests;
use crate::export::Committed;
use crate::log::codec::Cursor;

pub(crate) const EXPORTER: Exporter = Exporter {
    name: "digests",
    files: &[],
    folders: &["digests", "index"],
    // The thread of the digests publishes them.
    paced: false,
    is_on: |_| true,
    open: |site| {
        let digests = Digests::open(&site.disk, &site.home.buses, &site.log);
        Box::new(DigestTree { site: site.clone(), digests })
    },
};

struct DigestTree {
    site: Site,
    digests: Digests,
}

impl Projection for DigestTree {
    fn position(&self) -> Seq {
        self.digests.catalog().read_to()
    }

    fn fold(&mut self, batch: &[Committed]) -> Outcome<()> {
        self.advance(batch.last().map(|last| last.seq))
    }

    fn advance(&mut self, until: Option<Seq>) -> Outcome<()> {
        Ok(self.digests.read(until)?)
    }

    fn checkpoint(&mut self) -> Outcome<Cursor> {
        let applied = self.position();
        self.digests.publish(Some(applied), None)?;
        Ok(Cursor { applied, bytes: 0 })
    }

    fn compare(&mut self) -> Outcome<Comparison> {
        Ok(compare::with_log(&self.site.disk, &self.site.home.buses, &self.site.log)?)
    }

    fn repair(&mut self) -> Outcome<usize> {
        let differences = self.compare()?.differences;
        Ok(self.digests.repair(&differences)?)
    }
}
