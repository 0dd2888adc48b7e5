//! A batch of queue lines as bytes for the host that leads, and back.
//!
//! Contract. The batch travels with the position behind it, so the leader takes in exactly what the host
//! of the queue read, and that host can go on from there when it leads itself. The receiver checks all bytes.
//!
//! ```text
//! u8 version = 1 · u32 length of the rest when it is not compressed · zstd of the rest:
//!   u32 length · mark                               the position behind the batch, and what it consumed
//!   u32 lines, then for each   u64 number · u64 offset · u64 length · u32 start · u32 end · u8 form · [32] hash
//!   the bytes of the lines
//! [32] sha256 of everything before
//! ```

use crate::contract::hash::{Digest, sha256};
use crate::seam::tail::{Batch, LineForm, LineSpan};
use crate::sequencer::mark::QueueMark;

use super::shared_lines::ShippedLines;

const VERSION: u8 = 1;
const HASH: usize = 32;
const LEVEL: i32 = 1;
/// Most bytes of one batch; a queue batch is far smaller.
const BYTES_MAX: usize = 1 << 30;

#[derive(Debug, thiserror::Error)]
pub enum LinesError {
    #[error("compress lines for the host that leads")]
    Compress(#[source] std::io::Error),
    #[error("shipped lines were changed or cut")]
    Damaged,
    #[error("shipped lines have form {0}, and this program reads form {VERSION}")]
    Form(u8),
}

/// The batch for another host.
pub fn pack(batch: &Batch) -> Result<ShippedLines, LinesError> {
    let mark = QueueMark { position: batch.end.clone(), consumed: Some(batch.consumed) }.encode();
    let mut raw = Vec::with_capacity(batch.bytes.len() + 66 * batch.lines.len() + mark.len() + 8);
    put_u32(&mut raw, mark.len());
    raw.extend_from_slice(&mark);
    put_u32(&mut raw, batch.lines.len());
    for LineSpan { number, offset, length, range, form } in &batch.lines {
        for value in [number, offset, length] {
            raw.extend_from_slice(&value.to_le_bytes());
        }
        put_u32(&mut raw, range.start);
        put_u32(&mut raw, range.end);
        let (form, hash) = match form {
            LineForm::Whole => (0, Digest::ZERO),
            LineForm::Partial => (1, Digest::ZERO),
            LineForm::TooLong(hash) => (2, *hash),
        };
        raw.push(form);
        raw.extend_from_slice(&hash.0);
    }
    raw.extend_from_slice(&batch.bytes);
    let mut bytes = vec![VERSION];
    put_u32(&mut bytes, raw.len());
    bytes.extend(zstd::bulk::compress(&raw, LEVEL).map_err(LinesError::Compress)?);
    let check = sha256(&bytes);
    bytes.extend_from_slice(&check.0);
    Ok(ShippedLines { start: batch.consumed.start, end: batch.consumed.end, bytes })
}

fn put_u32(out: &mut Vec<u8>, value: usize) {
    out.extend_from_slice(&(value as u32).to_le_bytes());
}

/// The batch that another host read.
pub fn unpack(lines: &ShippedLines) -> Result<Batch, LinesError> {
    match lines.bytes.first() {
        Some(&VERSION) | None => {}
        Some(other) => return Err(LinesError::Form(*other)),
    }
    let batch = read(&lines.bytes).ok_or(LinesError::Damaged)?;
    let stands_there = (batch.consumed.start, batch.consumed.end) == (lines.start, lines.end);
    if stands_there { Ok(batch) } else { Err(LinesError::Damaged) }
}

fn read(bytes: &[u8]) -> Option<Batch> {
    let (content, check) = bytes.split_at_checked(bytes.len().checked_sub(HASH)?)?;
    if sha256(content).0 != *check {
        return None;
    }
    let mut head = Fields(content);
    head.take(1)?;
    let length = head.u32()?;
    if length > BYTES_MAX {
        return None;
    }
    let raw = zstd::bulk::decompress(head.0, length).ok().filter(|raw| raw.len() == length)?;
    let mut fields = Fields(&raw);
    let mark = fields.u32()?;
    let QueueMark { position: end, consumed } = QueueMark::decode(fields.take(mark)?).ok()?;
    let lines = (0..fields.u32()?).map(|_| fields.span()).collect::<Option<Vec<_>>>()?;
    let in_bytes =
        |span: &LineSpan| span.range.start <= span.range.end && span.range.end <= fields.0.len();
    if !lines.iter().all(in_bytes) {
        return None;
    }
    Some(Batch { bytes: fields.0.to_vec().into(), lines, consumed: consumed?, end })
}

/// The rest of what is being read.
struct Fields<'b>(&'b [u8]);

impl<'b> Fields<'b> {
    fn take(&mut self, count: usize) -> Option<&'b [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    fn u32(&mut self) -> Option<usize> {
        self.array().map(|bytes| u32::from_le_bytes(bytes) as usize)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    fn span(&mut self) -> Option<LineSpan> {
        let (number, offset, length) = (self.u64()?, self.u64()?, self.u64()?);
        let range = self.u32()?..self.u32()?;
        let (form, hash) = (self.array::<1>()?, Digest(self.array()?));
        let form = match form {
            [0] => LineForm::Whole,
            [1] => LineForm::Partial,
            [2] => LineForm::TooLong(hash),
            _ => return None,
        };
        Some(LineSpan { number, offset, length, range, form })
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use super::*;
    use crate::contract::time::Timestamp;
    use crate::os::sim::SimDisk;
    use crate::os::{Disk, Open};
    use crate::seam::position::Position;
    use crate::seam::tail::{TailOptions, Tailer};

    fn batches(queue: &[u8]) -> Vec<Batch> {
        let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
        let path = Path::new("/queue.jsonl");
        disk.open(path, Open::ReadWrite).unwrap().append(queue).unwrap();
        let options = TailOptions { max_line_bytes: 20, partial_line_grace_ms: 0 };
        let mut tailer = Tailer::open(disk, path, Position::START, options).unwrap();
        let mut next = || tailer.next_batch(Timestamp(5), 3, 1000).unwrap();
        std::iter::from_fn(&mut next).collect()
    }

    #[test]
    fn every_form_of_line_arrives_as_it_was_read() {
        let queue = format!("one\n\n  two\r\n{}\nthree\ncut", "x".repeat(50));
        let batches = batches(queue.as_bytes());
        let spans = batches.iter().flat_map(|batch| &batch.lines);
        let forms: Vec<LineForm> = spans.map(|span| span.form).collect();
        assert!(forms.contains(&LineForm::Partial) && forms.contains(&LineForm::Whole));
        assert!(forms.iter().any(|form| matches!(form, LineForm::TooLong(_))));
        for batch in &batches {
            assert_eq!(unpack(&pack(batch).unwrap()).unwrap(), *batch);
        }
    }

    #[test]
    fn a_changed_or_missing_byte_is_an_error() {
        let batches = batches(b"one\ntwo\nthree\n");
        let shipped = pack(&batches[0]).unwrap();
        for at in 0..shipped.bytes.len() {
            let mut changed = shipped.clone();
            changed.bytes[at] ^= 1;
            assert!(unpack(&changed).is_err(), "byte {at} changed");
            changed.bytes = shipped.bytes[..at].to_vec();
            assert!(unpack(&changed).is_err(), "{at} bytes");
        }
        let elsewhere = ShippedLines { start: 1, ..shipped };
        assert!(unpack(&elsewhere).is_err(), "it stands at another place");
    }
}
