//! Verification: the chain from record to record, bodies, and what the engine can check itself.

use std::ops::ControlFlow;

use crate::contract::hash::Digest;
use crate::contract::ids::Seq;
use crate::log::chain::genesis;
use crate::log::error::LogError;

use crate::log::segment::Segment;

use super::Reader;
use super::archiving::listed;
use super::failure::{engine, guarded};
use super::tables::{CHUNKS, ChunkKey};
use super::tiers::checked;

/// What a walk over the chain found in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChainReport {
    /// Records whose hashes were recomputed.
    pub records: u64,
    /// Bodies whose bytes were read and checked.
    pub bodies: u64,
    /// The last record of the walk and its hash.
    pub last: (Seq, Digest),
}

impl Reader {
    /// Recomputes the hash chain from `from` to `until` (or the head), and checks every body, the archive
    /// segments of the range and the index chunks. An error names the first record that cannot be trusted.
    /// `progress` is called with the finished share, 0 to 1.
    pub fn verify(
        &self,
        from: Seq,
        until: Option<Seq>,
        progress: &mut dyn FnMut(f64),
    ) -> Result<ChainReport, LogError> {
        let (head, _) = self.head();
        let (from, until) = (from.max(Seq(1)), until.unwrap_or(head).min(head));
        let report = self.chain(from, until, progress)?;
        self.check_segments(from, until)?;
        self.check_indexes()?;
        Ok(report)
    }

    /// Recomputes the chain of a stretch and checks its bodies, and nothing else: what a look at a part of
    /// the log costs does not depend on the rest.
    pub(crate) fn check_chain(&self, from: Seq, until: Seq) -> Result<(), LogError> {
        self.chain(from.max(Seq(1)), until, &mut |_| {}).map(|_| ())
    }

    fn chain(
        &self,
        from: Seq,
        until: Seq,
        progress: &mut dyn FnMut(f64),
    ) -> Result<ChainReport, LogError> {
        let (head, head_hash) = self.head();
        let mut report =
            ChainReport { records: 0, bodies: 0, last: (Seq::ZERO, genesis(self.store_id())) };
        let mut failed = None;
        let mut previous = (from == Seq(1)).then_some(report.last.1);
        self.frames(from, until, &mut |frame| {
            let step = (|| {
                if previous.is_some_and(|previous| previous != frame.previous) {
                    let what = "its hash does not continue the chain".into();
                    return Err(LogError::Damaged { seq: frame.first, what });
                }
                let mut hash = frame.previous;
                for (part, seq) in frame.parts().zip(frame.first.0..) {
                    hash = part.hash(&hash, Seq(seq));
                    if Seq(seq) < from || Seq(seq) > until {
                        continue;
                    }
                    report.records += 1;
                    report.last = (Seq(seq), hash);
                    if part.has_body {
                        self.check_body(Seq(seq))?;
                        report.bodies += 1;
                    }
                }
                previous = Some(hash);
                Ok(())
            })();
            progress(report.records as f64 / (until.0 + 1 - from.0).max(1) as f64);
            match step {
                Ok(()) => ControlFlow::Continue(()),
                Err(error) => {
                    failed = Some(error);
                    ControlFlow::Break(())
                }
            }
        })?;
        match failed {
            Some(error) => Err(error),
            None if report.last.0 == head && report.last.1 != head_hash => {
                let what = "its hash differs from the committed one".into();
                Err(LogError::Damaged { seq: head, what })
            }
            None => Ok(report),
        }
    }

    /// Compares the bytes of every archive segment with the hash in the store.
    pub(crate) fn check_archive(&self) -> Result<(), LogError> {
        self.check_segments(Seq(1), self.head().0)
    }

    /// The same for the segments of a range.
    fn check_segments(&self, from: Seq, until: Seq) -> Result<(), LogError> {
        let shared = self.shared();
        let txn = shared.begin_read()?;
        for info in listed(&txn)? {
            if info.last >= from && info.first <= until {
                Segment::open(&*shared.disk, &shared.archive_dir, info)?.check_bytes()?;
            }
        }
        Ok(())
    }

    fn check_indexes(&self) -> Result<(), LogError> {
        guarded("check the indexes", || {
            let txn = self.shared().begin_read()?;
            let chunks = txn.open_table(CHUNKS).map_err(engine("check the indexes"))?;
            for row in chunks.range::<ChunkKey>(..).map_err(engine("check the indexes"))? {
                let (key, stored) = row.map_err(engine("check the indexes"))?;
                checked(key.value(), stored.value())?;
            }
            Ok(())
        })
    }

    fn check_body(&self, seq: Seq) -> Result<(), LogError> {
        match self.body(seq)? {
            Some(_) => Ok(()),
            None if self.body_is_dropped(seq)? => Ok(()),
            None => Err(LogError::Damaged { seq, what: "its body is missing".into() }),
        }
    }

    /// Checks a hash that somebody kept for a record.
    pub fn verify_anchor(&self, seq: Seq, hash: Digest) -> Result<(), LogError> {
        let what = if seq == Seq::ZERO {
            (genesis(self.store_id()) != hash).then(|| "the store is another one".to_owned())
        } else {
            match self.get(seq)? {
                None => Some(format!("the log ends at {}", self.head().0)),
                Some(record) if record.hash == hash => None,
                Some(record) => Some(format!("its hash is {} and not {hash}", record.hash)),
            }
        };
        what.map_or(Ok(()), |what| Err(LogError::Anchor { seq, what }))
    }
}
