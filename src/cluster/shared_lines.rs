//! The lines of the queues of all hosts, on their way to the host that leads.
//!
//! Contract. Each call either answers, or its outcome is unclear, as in [`super::shared_log`]. Lines are
//! here so that the leader can get at them; which of them it takes in is said by the marks in the log alone.
//! So whatever is lost, doubled or late here delays lines and does no other harm.

use std::time::Duration;

use super::shared_log::{Member, SharedError};

/// Consecutive lines of one queue, as one value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShippedLines {
    /// The first byte in the queue file.
    pub start: u64,
    /// The byte after the last.
    pub end: u64,
    /// The lines as `cluster::lines` writes them, compressed.
    pub bytes: Vec<u8>,
}

/// What a host may ship after what it shipped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shipped {
    Landed,
    /// Another start of this host ships now, or what this start shipped ends elsewhere. Nothing was added.
    Elsewhere,
}

/// The last sign of the service that runs under a name.
#[derive(Debug, Clone, PartialEq)]
pub struct Sign {
    /// Which start of the program it is.
    pub start: String,
    /// Another one with each sign.
    pub stamp: i64,
    pub age: Duration,
}

/// The lines of one log, by host and place.
pub trait SharedLines: Send {
    /// The last sign of the service that runs under the name of a host; `None` when the last one ended in order.
    fn sign(&mut self, host: &str) -> Result<Option<Sign>, SharedError>;

    /// This start ends in order.
    fn sign_off(&mut self, me: &Member) -> Result<(), SharedError>;

    /// Begins to ship from a byte of the queue of this host. Lines that it shipped before are forgotten, and
    /// what another start of it still has under way adds nothing any more.
    fn begin(&mut self, me: &Member, from: u64) -> Result<(), SharedError>;

    /// Adds lines where those of this start end.
    fn ship(&mut self, me: &Member, lines: &ShippedLines) -> Result<Shipped, SharedError>;

    /// Where the lines of this start end; `None` when another start of this host began later.
    fn shipped(&mut self, me: &Member) -> Result<Option<u64>, SharedError>;

    /// Each host that shipped, and where its lines end.
    fn ends(&mut self) -> Result<Vec<(String, u64)>, SharedError>;

    /// The lines of a host that end after a byte of its queue, in order, about so many bytes.
    fn lines_after(
        &mut self,
        host: &str,
        offset: u64,
        bytes: usize,
    ) -> Result<Vec<ShippedLines>, SharedError>;

    /// Forgets the lines of a host that end at a byte of its queue or before. They were taken in.
    fn drop_lines(&mut self, host: &str, offset: u64) -> Result<(), SharedError>;
}
