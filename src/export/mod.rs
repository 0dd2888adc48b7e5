//! Projections of the log into files that others read.
//!
//! Contract. A projection is a pure function of committed events: deleting any of its files and
//! exporting again gives the same bytes. Every time in it is the time of an event, every order is
//! stated, and nothing here reads a clock or asks the state.
//!
//! [`append_only`] keeps the two growing files (acks, quarantine) true across crashes; [`ack`] and
//! [`quarantine`] say which line an event becomes. [`item`], [`summary_bus`] [`run_record`], [`feed`] and [`exposition`]
//! render bus files, purely; [`session_fold`] folds events into run records; [`publish`] shows a whole
//! consistent tree at every instant; [`fingerprint`] tells that a file holds what was meant;
//! [`difference`] says where files are not what the log says.

pub mod ack;
pub(crate) mod append_only;
pub mod difference;
pub(crate) mod exposition;
pub(crate) mod feed;
pub mod fingerprint;
pub mod item;
pub mod publish;
pub mod quarantine;
pub mod run_record;
pub(crate) mod session_fold;
pub mod summary_bus;
pub(crate) mod versions;

use crate::contract::hash::Digest;
use crate::contract::ids::Seq;
use crate::contract::time::Timestamp;
use crate::log::codec::LINE_QUARANTINED;
use crate::log::{Entry, ReadError, Reader, Record};
use crate::state::event::Event;

/// A committed event with everything its record adds.
#[derive(Debug, Clone, PartialEq)]
pub struct Committed {
    pub seq: Seq,
    /// When the service stamped it.
    pub at: Timestamp,
    /// The hash of its record: the head of the chain at that position.
    pub hash: Digest,
    pub event: Event,
}

impl Committed {
    /// The event of a scanned record. The line of a request that lies sealed beside it is not read.
    pub(crate) fn of(entry: &Entry<'_>, log: &Reader) -> Result<Committed, ReadError> {
        let mut event = entry.event()?;
        if entry.tag == LINE_QUARANTINED {
            event = log.with_line(entry.seq, event)?;
        }
        Ok(Committed { seq: entry.seq, at: entry.at, hash: entry.hash(), event })
    }

    /// The event of a record, with its line.
    pub(crate) fn of_record(record: &Record, log: &Reader) -> Result<Committed, ReadError> {
        let event = log.with_line(record.seq, record.event()?)?;
        Ok(Committed { seq: record.seq, at: record.at, hash: record.hash, event })
    }
}
