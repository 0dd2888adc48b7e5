//! The cache files beside the log: what they hold can be derived again, so they are compared with
//! their own seals and repaired by removing them.
//!
//! The index of upstream ids follows from upstream files, the other caches follow from the log. A
//! reader never believes a damaged row, so this entry exists to report damage, which may be the
//! first sign of a failing disk.

use std::path::PathBuf;

use super::exporter::Exporter;
use super::projection::{Comparison, Outcome, Projection, Site};
use crate::contract::ids::Seq;
use crate::export::Committed;
use crate::log::codec::Cursor;
use crate::log::{Cache, LogError};

pub(crate) const EXPORTER: Exporter = Exporter {
    name: "caches",
    files: FILES,
    folders: &[],
    paced: false,
    is_on: |site| site.own,
    open: |site| Box::new(Caches(site.clone())),
};

const FILES: &[&str] = &[
    "run/upstream-index.redb",
    "run/publisher-index.redb",
    "run/digest-index.redb",
    "run/feed-index.redb",
    "run/version-index.redb",
    "run/metrics-index.redb",
];

struct Caches(Site);

impl Caches {
    /// The damaged files, each with its damage.
    fn damaged(&self) -> Outcome<Vec<(&'static str, PathBuf, String)>> {
        let mut found = Vec::new();
        for file in FILES {
            let path = self.0.home.root.join(file);
            let damage = match (&self.0.index, path == self.0.home.upstream_index()) {
                // This process has the file open.
                (Some(index), true) => index.damage()?,
                _ => match Cache::damage(&self.0.disk, &path) {
                    Err(LogError::Busy) => None,
                    damage => damage?,
                },
            };
            found.extend(damage.map(|damage| (*file, path, damage)));
        }
        Ok(found)
    }
}

impl Projection for Caches {
    fn position(&self) -> Seq {
        Seq::ZERO
    }

    /// Caches are filled by the code that needs them.
    fn fold(&mut self, _: &[Committed]) -> Outcome<()> {
        Ok(())
    }

    fn advance(&mut self, _: Option<Seq>) -> Outcome<()> {
        Ok(())
    }

    fn checkpoint(&mut self) -> Outcome<Cursor> {
        Ok(Cursor::default())
    }

    fn compare(&mut self) -> Outcome<Comparison> {
        let mut found = Comparison::default();
        for (file, _, damage) in self.damaged()? {
            found.differs(file, damage);
        }
        Ok(found)
    }

    fn repair(&mut self) -> Outcome<usize> {
        let damaged = self.damaged()?;
        for (_, path, _) in &damaged {
            self.0.disk.remove_file(path)?;
        }
        Ok(damaged.len())
    }
}
