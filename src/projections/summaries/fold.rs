//! Reads the log and hands each event over with what its record knows of itself.

use std::ops::ControlFlow;

use super::error::SummariesError;
use crate::contract::ids::Seq;
use crate::export::summary_bus::Stamp;
use crate::log::Reader;
use crate::state::event::Event;

/// Whether to continue.
type FoldStep = Result<ControlFlow<()>, SummariesError>;

/// Hands over every event after `from` with what its record knows of itself.
pub(super) fn fold(
    log: &Reader,
    from: Seq,
    until: Option<Seq>,
    take: &mut dyn FnMut(Seq, Stamp, Event) -> FoldStep,
) -> Result<(), SummariesError> {
    log.try_scan(from.next(), until, |entry| {
        let event = entry.event()?;
        let stamp = Stamp {
            run_id: String::new(),
            at: entry.at,
            sequence: entry.seq.0,
            // Only the last event of the day gives the day its hash: see `day_index`.
            log_head: String::new(),
            summarizer_version: String::new(),
        };
        take(entry.seq, stamp, event)
    })
}
