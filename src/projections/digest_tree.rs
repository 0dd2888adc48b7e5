//! The Digest Bus as an entry of the list. The digest room owns its tree and its comparison.

use super::exporter::Exporter;
use super::projection::{Comparison, Outcome, Projection, Site};
use crate::contract::ids::Seq;
use crate::digest::compare;
use crate::digest::publish::Digests;
use crate::export::Committed;
use crate::log::codec::Cursor;

/// The digests.
pub const EXPORTER: Exporter = Exporter {
    name: "digests",
    files: &[],
    folders: &["digests", "index"],
    // A bag that no index names yet is harmless, so a copy beside a running service is sound.
    copied: true,
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
        let compared = compare::with_log(&self.site.disk, &self.site.home.buses, &self.site.log)?;
        let mut found = Comparison::default();
        // A folder that no event speaks of cannot be written again from the log.
        let mut all = compared.differences.iter();
        let strange = all.all(|one| one.bag_id.is_none() && one.path.starts_with("digests/"));
        if strange && !compared.differences.is_empty() {
            found.fix = Some("summarizer digest gc --orphans");
        }
        for one in compared.differences {
            found.differs(one.path, one.what);
        }
        if compared.of_another_log {
            let note = "the published digests are of an earlier log: run `summarizer digest build`";
            found.notes.push(note.to_owned());
        }
        if let Some(run_id) = compared.cut_short {
            found.notes.push(format!(
                "the digest build {run_id} was cut short: the next start finishes it, and until \
                 then digests are not compared"
            ));
        }
        Ok(found)
    }

    fn repair(&mut self) -> Outcome<usize> {
        let compared = compare::with_log(&self.site.disk, &self.site.home.buses, &self.site.log)?;
        Ok(self.digests.repair(&compared.differences)?)
    }
}
