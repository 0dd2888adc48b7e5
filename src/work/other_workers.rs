//! Workers outside of this process, for attempts that need not run here.

use std::time::Duration;

use crossbeam_channel::Receiver;

use crate::contract::ids::Seq;
use crate::state::decide::Report;

use super::other_hosts::SeenHost;
use super::pool::StartedAttempt;

/// What came of an attempt that others got.
#[derive(Debug)]
#[cfg_attr(
    not(feature = "cluster"),
    allow(dead_code, reason = "without a cluster there are no other hosts")
)]
pub enum FromOthers {
    Report(Report),
    /// It has to run here.
    Returned(StartedAttempt),
    /// None of the hosts that were asked has its source.
    NotFound {
        started: StartedAttempt,
        unasked: Vec<Unasked>,
    },
}

/// A host that may have a source and could not be asked for it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(
    not(feature = "cluster"),
    allow(dead_code, reason = "without a cluster there are no other hosts")
)]
pub struct Unasked {
    pub host: String,
    /// For how long it was not heard of; `None` when it runs, and was busy or behind for too long.
    pub away: Option<Duration>,
}

/// The workers of other hosts that share the log. None of the calls waits for them.
pub trait OtherWorkers: Send {
    /// How many attempts they take at a time.
    fn places(&self) -> usize;

    /// Whether they come before the threads of this host.
    fn come_first(&self) -> bool;

    fn begin(&self, started: StartedAttempt);

    /// Each of them is asked in turn, because the source is not on this host. It comes back when nobody who could be asked
    /// has it.
    fn ask(&self, started: StartedAttempt);

    /// The attempt of a request is over, whatever they still do.
    fn end(&self, request: Seq);

    /// They begin no attempt any more. What none of them has begun comes back.
    fn finish(&self);

    fn inbox(&self) -> &Receiver<FromOthers>;

    /// How far all hosts are, if that is known.
    fn hosts(&self) -> Option<Vec<SeenHost>>;
}
