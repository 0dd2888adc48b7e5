//! Shipping: a packed commit as bytes for another host, and back.
//!
//! Contract. Frames and bodies travel as they are stored, so every host that takes a shipment has the
//! same log, byte for byte. The receiver trusts nothing: it checks all bytes, unpacks every frame, follows the chain from the end of its own log, and compares where it leads.
//!
//! ```text
//! u8 version = 1
//! u64 last sequence before · [32] its hash       where the commit continues
//! u64 last sequence        · [32] its hash       where it ends
//! u32 length · mark                              where the input stands after it; empty means unchanged
//! u32 frames · u32 bodies, then for each         u64 sequence · u32 length · bytes as stored
//! [32] sha256 of everything before
//! ```

use crate::contract::hash::{Digest, sha256};
use crate::contract::ids::Seq;
use crate::log::error::LogError;
use crate::log::frame::{Entry, Frame, Unpacker, array, check_body, read_u32, read_u64};

use super::packing::Packed;

const VERSION: u8 = 1;
const HASH: usize = 32;

/// Rows of a table: frames by their first sequence, or bodies by theirs.
type Rows = Vec<(Seq, Vec<u8>)>;

impl Packed {
    /// The end of the log it continues.
    pub fn from(&self) -> (Seq, Digest) {
        self.from
    }

    /// The end of the log after it.
    pub fn head(&self) -> (Seq, Digest) {
        self.head
    }

    /// The commit for another host.
    pub fn shipped(&self, mark: &[u8]) -> Vec<u8> {
        let stored = self.frames.iter().chain(&self.bodies).map(|(_, bytes)| bytes.len() + 12);
        let mut out = Vec::with_capacity(stored.sum::<usize>() + mark.len() + 160);
        out.push(VERSION);
        for (seq, hash) in [self.from, self.head] {
            out.extend_from_slice(&seq.0.to_le_bytes());
            out.extend_from_slice(&hash.0);
        }
        put_bytes(&mut out, mark);
        for rows in [&self.frames, &self.bodies] {
            out.extend_from_slice(&(rows.len() as u32).to_le_bytes());
        }
        for (seq, bytes) in self.frames.iter().chain(&self.bodies) {
            out.extend_from_slice(&seq.0.to_le_bytes());
            put_bytes(&mut out, bytes);
        }
        let check = sha256(&out);
        out.extend_from_slice(&check.0);
        out
    }
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    out.extend_from_slice(bytes);
}

/// A commit that came from another host, checked and unpacked.
pub(crate) struct Shipment {
    pub packed: Packed,
    /// Where the input stands after it; empty when unchanged.
    pub mark: Vec<u8>,
    frames: Vec<Frame>,
}

impl Shipment {
    /// Reads a shipment. Whether it continues a log is for [`super::Store::append_packed`] to say.
    pub(crate) fn read(bytes: &[u8]) -> Result<Shipment, LogError> {
        let (packed, mark) = Fields::read(bytes).ok_or_else(|| malformed(bytes))?;
        let mut shipment = Shipment { packed, mark, frames: Vec::new() };
        let mut unpacker = Unpacker::new()?;
        let with_body = shipment.unpack_frames(&mut unpacker)?;
        shipment.check_bodies(&with_body)?;
        Ok(shipment)
    }

    /// Unpacks the frames, follows the chain through them, and returns which records have a body.
    fn unpack_frames(&mut self, unpacker: &mut Unpacker) -> Result<Vec<Seq>, LogError> {
        let packed = &mut self.packed;
        let (mut end, mut with_body) = (packed.from, Vec::new());
        for (first, stored) in &packed.frames {
            let mut frame = Frame::default();
            unpacker.frame(*first, stored, &mut frame)?;
            if *first != end.0.next() || frame.previous != end.1 {
                return Err(damaged(*first, "a shipped frame does not continue the one before"));
            }
            let hashes = frame.hashes();
            let bodies = frame.parts().enumerate().filter(|(_, part)| part.has_body);
            with_body.extend(bodies.map(|(index, _)| first.plus(index as u64)));
            end = (frame.last(), hashes.last().copied().unwrap_or(end.1));
            packed.hashes.extend(hashes);
            self.frames.push(frame);
        }
        match end == packed.head {
            true => Ok(with_body),
            false => Err(damaged(end.0, "a shipped commit does not end where it says")),
        }
    }

    fn check_bodies(&self, with_body: &[Seq]) -> Result<(), LogError> {
        let bodies = &self.packed.bodies;
        if !bodies.iter().map(|(seq, _)| seq).eq(with_body) {
            return Err(damaged(
                self.packed.head.0,
                "the shipped bodies are not those of its records",
            ));
        }
        bodies.iter().try_for_each(|(seq, stored)| {
            check_body(*seq, stored).map_err(|what| damaged(*seq, &format!("body: {what}")))
        })
    }

    /// Calls `f` with each record, in order.
    pub(crate) fn each<E>(&self, mut f: impl FnMut(&Entry<'_>) -> Result<(), E>) -> Result<(), E> {
        for frame in &self.frames {
            let chain = frame.chain();
            for entry in frame.entries(&chain, frame.first) {
                f(&entry)?;
            }
        }
        Ok(())
    }
}

fn damaged(seq: Seq, what: &str) -> LogError {
    LogError::Damaged { seq, what: what.to_owned() }
}

fn malformed(bytes: &[u8]) -> LogError {
    match bytes.first() {
        Some(&VERSION) | None => LogError::Corrupt("a shipped commit was changed or cut".into()),
        Some(other) => LogError::NewerCommit { found: *other, supported: VERSION },
    }
}

/// The rest of a shipment that is being read.
struct Fields<'b>(&'b [u8]);

impl<'b> Fields<'b> {
    /// `None` when the bytes are no shipment of this form, or not what was written.
    fn read(bytes: &'b [u8]) -> Option<(Packed, Vec<u8>)> {
        let (content, check) = bytes.split_at_checked(bytes.len().checked_sub(HASH)?)?;
        if sha256(content).0 != *check {
            return None;
        }
        let mut fields = Fields(content);
        (fields.take(1)? == [VERSION]).then_some(())?;
        let (from, head) = (fields.end()?, fields.end()?);
        let mark = fields.bytes()?;
        let (frames, bodies) = (fields.number()?, fields.number()?);
        let (frames, bodies) = (fields.rows(frames)?, fields.rows(bodies)?);
        let packed = Packed { from, frames, bodies, hashes: Vec::new(), head };
        fields.0.is_empty().then_some((packed, mark))
    }

    fn take(&mut self, count: usize) -> Option<&'b [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn number(&mut self) -> Option<u32> {
        Some(read_u32(self.take(4)?, 0))
    }

    fn seq(&mut self) -> Option<Seq> {
        Some(Seq(read_u64(self.take(8)?, 0)))
    }

    fn end(&mut self) -> Option<(Seq, Digest)> {
        Some((self.seq()?, Digest(array(self.take(HASH)?))))
    }

    fn bytes(&mut self) -> Option<Vec<u8>> {
        let len = self.number()? as usize;
        Some(self.take(len)?.to_vec())
    }

    fn rows(&mut self, count: u32) -> Option<Rows> {
        (0..count).map(|_| Some((self.seq()?, self.bytes()?))).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use super::*;
    use crate::contract::time::Timestamp;
    use crate::log::frame::Part;
    use crate::log::{Options, Store};
    use crate::os::Disk;
    use crate::os::sim::SimDisk;

    fn store() -> Store {
        let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
        let path = Path::new("/log.redb");
        Store::open(disk, path, Options::beside(path), [7; 16], &mut |_| {}).unwrap()
    }

    fn packed(store: &Store, records: u32) -> Packed {
        let mut packing = store.packing().unwrap();
        for number in 0..records {
            let payload = vec![number as u8; 9000];
            let body = (number % 2 == 0).then(|| vec![1; 400]);
            let has_body = body.is_some();
            let part = Part { at: Timestamp(5), tag: 1, version: 1, payload: &payload, has_body };
            packing.add(&part, body.as_deref()).unwrap();
        }
        packing.end(b"mark").unwrap()
    }

    #[test]
    fn a_shipped_commit_makes_the_same_log_on_another_host() {
        let (mut here, mut there) = (store(), store());
        let ours = packed(&here, 9);
        let bytes = ours.shipped(b"mark");
        let theirs = Shipment::read(&bytes).unwrap();
        let mut seen = Vec::new();
        let read = theirs.each(|entry| {
            seen.push((entry.seq.0, entry.payload.len(), entry.hash()));
            Ok::<_, LogError>(())
        });
        read.unwrap();
        assert!(theirs.packed.frames.len() > 1 && seen.len() == 9);
        assert!(seen.iter().map(|(.., hash)| hash).eq(&theirs.packed.hashes));
        let after = here.append_packed(ours, b"mark", None).unwrap();
        assert_eq!(there.append_packed(theirs.packed, &theirs.mark, None).unwrap(), after);
        let marks = [&here, &there].map(|store| store.reader().mark());
        assert_eq!(marks[0], marks[1]);
        let bodies = [&here, &there].map(|store| store.reader().body(Seq(1)).unwrap());
        assert!(bodies[0].is_some() && bodies[0] == bodies[1]);
    }

    #[test]
    fn a_commit_without_records_ships_its_mark() {
        let here = store();
        let shipment = Shipment::read(&packed(&here, 0).shipped(b"mark")).unwrap();
        assert_eq!((shipment.packed.from, shipment.mark), (here.head(), b"mark".to_vec()));
        assert_eq!(shipment.packed.head, here.head());
    }

    #[test]
    fn a_changed_or_missing_byte_is_an_error() {
        let bytes = packed(&store(), 3).shipped(b"mark");
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            assert!(Shipment::read(&changed).is_err(), "byte {at} changed");
            assert!(Shipment::read(&bytes[..at]).is_err(), "{at} bytes");
        }
    }

    #[test]
    fn a_shipment_that_contradicts_itself_is_refused() {
        let refused = |change: &dyn Fn(&mut Packed)| {
            let mut packed = packed(&store(), 9);
            change(&mut packed);
            Shipment::read(&packed.shipped(b"")).is_err()
        };
        assert!(!refused(&|_| {}));
        assert!(refused(&|packed| packed.from.1 = Digest::ZERO));
        assert!(refused(&|packed| packed.from.0 = Seq(3)));
        assert!(refused(&|packed| packed.head.1 = Digest::ZERO));
        assert!(refused(&|packed| drop(packed.frames.pop())));
        assert!(refused(&|packed| packed.frames.swap(0, 1)));
        assert!(refused(&|packed| drop(packed.bodies.pop())));
        assert!(refused(&|packed| packed.bodies.swap(0, 1)));
        assert!(refused(&|packed| packed.bodies[0].1[20] ^= 1));
    }
}
