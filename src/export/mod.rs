//! Projections of the log into files that others read.
//!
//! Contract. A projection is a pure function of committed events: deleting any of its files and
//! exporting again gives the same bytes. Every time in it is the time of an event, every order is
//! stated, and nothing here reads a clock or asks the state.
//!
//! [`append_only`] keeps the two growing files (acks, quarantine) true across crashes; [`ack`] and
//! [`quarantine`] say which line an event becomes. [`item`], [`summary_bus`] and [`run_record`]
//! render bus files, purely; [`session_fold`] folds events into run records; [`publish`] shows a whole
//! consistent tree at every instant; [`fingerprint`] tells that a file holds what was meant.

pub mod ack;
pub mod append_only;
pub mod fingerprint;
pub mod item;
pub mod publish;
pub mod quarantine;
pub mod run_record;
pub mod session_fold;
pub mod summary_bus;

use crate::contract::hash::Digest;
use crate::contract::ids::Seq;
use crate::contract::time::Timestamp;
use crate::state::event::Event;

/// A committed event with everything its record adds.
#[derive(Debug, Clone, PartialEq)]
pub struct Committed {
    /// Its position.
    pub seq: Seq,
    /// When the service stamped it.
    pub at: Timestamp,
    /// The hash of its record: the head of the chain at that position.
    pub hash: Digest,
    /// The fact.
    pub event: Event,
}
