//! The lines of a day on their way from the log into a file.
//!
//! Contract: every line is read from the log once and checked once, in pieces, wherever there is
//! time for it; what is written was checked, in the order of the ids. Many are read at once, in the
//! order of the log, because ids are spread over all of it. What cannot be read, or is not valid,
//! ends it. In memory are some megabytes of lines, as they are stored, and a few pieces.

use std::io::Write;
use std::ops::{ControlFlow, Range};
use std::sync::Arc;

use parking_lot::Mutex;

use super::SummariesError;
use super::book::Items;
use crate::contract::ids::Seq;
use crate::export::publish::PublishError;
use crate::export::summary_bus::{Block, PartitionWriter, RenderError};
use crate::log::{Gathered, HELD_BYTES, ReadError, Reader};
use crate::verify::spread::{Helpers, in_order};
use crate::verify::{Gate, Report, Violation};

/// Lines of a piece.
const LINES: usize = if cfg!(test) { 3 } else { 256 };
/// Lines that are read at once while it is not known how long they are.
const FIRST_SHEET: usize = if cfg!(test) { 8 } else { 4096 };
/// Most lines that are read at once.
const SHEET_MAX: usize = if cfg!(test) { 16 } else { 1 << 18 };

/// Some items of a day: the number of the first line, and where they are.
struct Piece {
    first: u64,
    sheet: Arc<Gathered>,
    range: Range<usize>,
}

/// Writes all lines of a day.
pub(super) fn press<'t, W: Write>(
    log: &'t Reader,
    gate: &'t Gate,
    helpers: &Helpers<'t>,
    mut items: Items<'_>,
    writer: &mut PartitionWriter<W>,
) -> Result<(), SummariesError> {
    let mut first = 1;
    let (mut sheet, mut given) = (Arc::<Gathered>::default(), 0);
    let mut next = || -> Result<Option<Piece>, SummariesError> {
        if given == sheet.len() {
            // As many as can be held when they are as long as the last ones, with room to spare.
            let each = sheet.held_bytes().checked_div(sheet.len());
            let fit = each.map(|each| (HELD_BYTES - HELD_BYTES / 8) / each.max(1));
            let asked = fit.unwrap_or(FIRST_SHEET).clamp(LINES, SHEET_MAX);
            let asked: Vec<Seq> = items.by_ref().take(asked).collect();
            let about = asked.len() * each.unwrap_or_default();
            sheet = Arc::default();
            (sheet, given) = (Arc::new(log.gather(asked, about + about / 8)?), 0);
        }
        let range = given..sheet.len().min(given + LINES);
        let piece = Piece { first, sheet: Arc::clone(&sheet), range: range.clone() };
        (first, given) = (first + range.len() as u64, range.end);
        Ok((!range.is_empty()).then_some(piece))
    };
    // A buffer that was written is used again: fresh memory costs as much as filling it.
    let buffers: Arc<Mutex<Vec<Vec<u8>>>> = Arc::default();
    let spare = Arc::clone(&buffers);
    let read = move |piece: Piece| {
        let buffer = spare.lock().pop().unwrap_or_default();
        block(log, gate, &piece, Block::in_buffer(buffer))
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
    piece: &Piece,
    mut block: Block,
) -> Result<Block, SummariesError> {
    let mut failure: Option<SummariesError> = None;
    let mut number = piece.first;
    let missing = log.gathered(&piece.sheet, piece.range.clone(), &mut |line| {
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
    PublishError::Invalid(told(violation)).into()
}

/// What is wrong, and where.
pub(super) fn told(violation: &Violation) -> String {
    let line = violation.line.map_or(String::new(), |line| format!(":{line}"));
    let (file, at, what) = (&violation.file, &violation.pointer, &violation.message);
    format!("{file}{line} {at}: {} ({what})", violation.rule)
}
