//! Writes the lines of one day from the log into the file for that day.
//!
//! Contract: each line is read from the log once and checked once. Threads check ranges of lines;
//! the writer appends them in order of their ids. Many lines are read together, in the order of the
//! log, because the ids of a day are spread over all of it. A line that cannot be read or is not
//! valid ends the publication. Memory holds some megabytes of lines, as stored, and a few ranges.
//!
//! See docs/adr/0054-checking-lines-before-writing.md.

use std::io::Write;
use std::ops::{ControlFlow, Range};
use std::sync::Arc;

use parking_lot::Mutex;

use super::error::SummariesError;
use super::items::Items;
use crate::contract::ids::Seq;
use crate::export::publish::PublishError;
use crate::export::summary_bus::{Block, PartitionWriter, RenderError};
use crate::log::{Gathered, HELD_BYTES, ReadError, Reader};
use crate::verify::spread::{Helpers, in_order};
use crate::verify::{Gate, Report, Violation};

/// Lines of a range.
const LINES: usize = if cfg!(test) { 3 } else { 256 };
/// Lines in one read while their length is not known.
const FIRST_READ: usize = if cfg!(test) { 8 } else { 4096 };
/// Most lines in one read.
const READ_MAX: usize = if cfg!(test) { 16 } else { 1 << 18 };

/// A stretch of the items of one day: the number of the first line, and where they are.
struct LineRange {
    first: u64,
    gathered: Arc<Gathered>,
    range: Range<usize>,
}

/// Writes all lines of the day.
pub(super) fn write_lines<'t, W: Write>(
    log: &'t Reader,
    gate: &'t Gate,
    helpers: &Helpers<'t>,
    mut items: Items<'_>,
    writer: &mut PartitionWriter<W>,
) -> Result<(), SummariesError> {
    let mut first = 1;
    let (mut gathered, mut given) = (Arc::<Gathered>::default(), 0);
    let mut next = || -> Result<Option<LineRange>, SummariesError> {
        if given == gathered.len() {
            // As many as can be held when they are as long as the last ones, with room to spare.
            let each = gathered.held_bytes().checked_div(gathered.len());
            let fit = each.map(|each| (HELD_BYTES - HELD_BYTES / 8) / each.max(1));
            let asked = fit.unwrap_or(FIRST_READ).clamp(LINES, READ_MAX);
            let asked: Vec<Seq> = items.by_ref().take(asked).collect();
            let about = asked.len() * each.unwrap_or_default();
            gathered = Arc::default();
            (gathered, given) = (Arc::new(log.gather(asked, about + about / 8)?), 0);
        }
        let range = given..gathered.len().min(given + LINES);
        let lines = LineRange { first, gathered: Arc::clone(&gathered), range: range.clone() };
        (first, given) = (first + range.len() as u64, range.end);
        Ok((!range.is_empty()).then_some(lines))
    };
    // A buffer that was written is used again: fresh memory costs as much as filling it.
    let buffers: Arc<Mutex<Vec<Vec<u8>>>> = Arc::default();
    let spare = Arc::clone(&buffers);
    let read = move |lines: LineRange| {
        let buffer = spare.lock().pop().unwrap_or_default();
        block(log, gate, &lines, Block::in_buffer(buffer))
    };
    in_order(&mut next, helpers, read, &mut |block| {
        let buffer = writer.push_block(block?)?;
        buffers.lock().push(buffer);
        Ok(())
    })?;
    items.whole()
}

fn block(
    log: &Reader,
    gate: &Gate,
    lines: &LineRange,
    mut block: Block,
) -> Result<Block, SummariesError> {
    let mut failure: Option<SummariesError> = None;
    let mut number = lines.first;
    let missing = log.gathered(&lines.gathered, lines.range.clone(), &mut |line| {
        let mut report = Report::default();
        let mut pushed: Result<(), RenderError> = Ok(());
        gate.line(number, line, &mut report, &mut |facts| pushed = block.push(line, facts));
        number += 1;
        failure = match (report.violations.first(), pushed) {
            (Some(violation), _) => Some(refused(violation)),
            (None, Err(error)) => Some(error.into()),
            (None, Ok(())) => return ControlFlow::Continue(()),
        };
        ControlFlow::Break(())
    })?;
    match (failure, missing) {
        (Some(failure), _) => Err(failure),
        (None, Some(seq)) => Err(ReadError::no_body(seq).into()),
        (None, None) => Ok(block),
    }
}

/// Something that must not be shown.
fn refused(violation: &Violation) -> SummariesError {
    PublishError::Invalid(described(violation)).into()
}

/// What is wrong, and where.
pub(super) fn described(violation: &Violation) -> String {
    let line = violation.line.map_or(String::new(), |line| format!(":{line}"));
    let (file, at, what) = (&violation.file, &violation.pointer, &violation.message);
    format!("{file}{line} {at}: {} ({what})", violation.rule)
}
