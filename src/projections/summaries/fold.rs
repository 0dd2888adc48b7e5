//! Reads the log and hands each event over with what its record knows of itself.

use std::ops::ControlFlow;

use super::error::SummariesError;
use crate::contract::ids::Seq;
use crate::export::summary_bus::Stamp;
use crate::log::{ReadError, Reader, codec};
use crate::state::event::Event;

/// Whether to go on.
type Taken = Result<ControlFlow<()>, SummariesError>;

/// Hands over every event after `from` with what its record knows of itself.
pub(super) fn fold(
    log: &Reader,
    from: Seq,
    until: Option<Seq>,
    take: &mut dyn FnMut(Seq, Stamp, Event) -> Taken,
) -> Result<(), SummariesError> {
    let mut failure = None;
    log.scan(from.next(), until, &mut |entry| {
        let taken = codec::decode(entry.tag, entry.version, entry.payload)
            .map_err(|source| ReadError::Event { seq: entry.seq, source }.into())
            .and_then(|event| {
                let stamp = Stamp {
                    run_id: String::new(),
                    at: entry.at,
                    sequence: entry.seq.0,
                    // Only the last of a day lends it its hash: see the book.
                    log_head: String::new(),
                    summarizer_version: String::new(),
                };
                take(entry.seq, stamp, event)
            });
        taken.unwrap_or_else(|error| {
            failure = Some(error);
            ControlFlow::Break(())
        })
    })?;
    failure.map_or(Ok(()), Err)
}
