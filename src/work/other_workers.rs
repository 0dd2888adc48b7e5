//! Workers outside of this process, for attempts that need not run here.

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
}

/// The workers of other hosts that share the log. None of the calls waits for them.
pub trait OtherWorkers: Send {
    /// How many attempts they take at a time.
    fn places(&self) -> usize;

    /// Whether they come before the threads of this host.
    fn come_first(&self) -> bool;

    fn begin(&self, started: StartedAttempt);

    /// Each of them is asked in turn, because the source is not on this host. It comes back when nobody has it.
    fn ask(&self, started: StartedAttempt);

    /// The attempt of a request is over, whatever they still do.
    fn end(&self, request: Seq);

    /// They begin no attempt any more. What none of them has begun comes back.
    fn finish(&self);

    fn inbox(&self) -> &Receiver<FromOthers>;

    /// How far all hosts are, if that is known.
    fn hosts(&self) -> Option<Vec<SeenHost>>;
}
