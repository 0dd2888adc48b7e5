//! A frame: consecutive records as one value, and the envelope of a body.
//!
//! A frame can be decoded alone: it carries its count, the hash before its first record and a
//! checksum of all its bytes. So a changed byte gives an error that names a record, and never a
//! panic. Only `event` decodes a payload.
//!
//! See docs/adr/0076-frames-of-32-kib.md.

use std::cell::Cell;

use crate::contract::hash::{Digest, Hasher};
use crate::contract::ids::Seq;
use crate::contract::time::Timestamp;
use crate::limits;
use crate::state::event::Event;

pub(crate) use super::bytes::{array, read_u32, read_u64};
use super::chain::record_hash;
use super::codec;
use super::error::{LogError, ReadError};
use super::key_tree::KeyPath;
use super::keys::{self, Keys};

/// Version of the frame and body envelopes that is written.
pub(crate) const ENVELOPE: u8 = 1;

const RAW: u8 = 0;
const ZSTD: u8 = 1;
const COMMIT_END: u8 = 1;
const HAS_BODY: u8 = 1;

const HEADER: usize = 56;
const CHECK: usize = 48;
/// Bytes of a record in a block beside its payload.
pub(crate) const RECORD: usize = 19;
/// Blocks shorter than this are not compressed.
const COMPRESS_FROM: usize = 200;
/// Largest block: one largest payload and its head after a nearly full frame.
const BLOCK_MAX: usize = limits::EVENT_BYTES_MAX + ARCHIVE_BYTES + (1 << 20);
/// Payload bytes after which a frame of the archive is closed.
pub(crate) const ARCHIVE_BYTES: usize = 1 << 20;
/// Largest body.
pub(crate) const BODY_MAX: usize = 64 << 20;

/// What a packer keeps of a buffer that an unusual record made large.
const SCRATCH_MAX: usize = 1 << 20;

const BODY_HEADER: usize = 14;
/// Envelope of a body that was dropped.
const DROPPED: u8 = 2;
/// Envelope of a sealed body; `ENVELOPE` is that of a body from before bodies were sealed.
const SEALED: u8 = 3;
/// The part of a body's head that its seal covers too.
const BODY_CHECK: usize = 6;

/// A record before it has a position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewRecord {
    /// When the shell stamped it.
    pub at: Timestamp,
    /// Kind of event; never reused.
    pub tag: u16,
    /// Version of the payload's encoding.
    pub version: u32,
    /// The event, opaque here.
    pub payload: Vec<u8>,
    /// Bytes stored beside the event; the event names their hash.
    pub body: Option<Vec<u8>>,
}

impl NewRecord {
    /// The event it holds, for a record that is going to be `seq`.
    pub(crate) fn event(&self, seq: Seq) -> Result<Event, ReadError> {
        event_of(seq, self.tag, self.version, &self.payload)
    }
}

/// A record as stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    pub seq: Seq,
    /// When the shell stamped it.
    pub at: Timestamp,
    /// Kind of event.
    pub tag: u16,
    /// Version of the payload's encoding.
    pub version: u32,
    /// The event, opaque here.
    pub payload: Vec<u8>,
    /// Its link in the chain.
    pub hash: Digest,
}

impl Record {
    /// The event it holds. An event that does not decode is damage.
    pub fn event(&self) -> Result<Event, ReadError> {
        event_of(self.seq, self.tag, self.version, &self.payload)
    }
}

pub(crate) fn event_of(
    seq: Seq,
    tag: u16,
    version: u32,
    payload: &[u8],
) -> Result<Event, ReadError> {
    codec::decode(tag, version, payload).map_err(|source| ReadError::Event { seq, source })
}

/// A record seen during a scan: borrowed, and hashed only when asked.
pub struct Entry<'f> {
    pub seq: Seq,
    /// When the shell stamped it.
    pub at: Timestamp,
    /// Kind of event.
    pub tag: u16,
    /// Version of the payload's encoding.
    pub version: u32,
    /// The event, opaque here.
    pub payload: &'f [u8],
    /// True when bytes are stored beside it.
    pub(crate) has_body: bool,
    index: u32,
    chain: &'f ChainCursor<'f>,
}

impl Entry<'_> {
    /// Its link in the chain. Hashes what lies between the last asked record of the frame and
    /// this one.
    pub fn hash(&self) -> Digest {
        self.chain.at(self.index)
    }

    /// The event it holds. An event that does not decode is damage.
    pub fn event(&self) -> Result<Event, ReadError> {
        event_of(self.seq, self.tag, self.version, self.payload)
    }

    pub fn to_record(&self) -> Record {
        Record {
            seq: self.seq,
            at: self.at,
            tag: self.tag,
            version: self.version,
            payload: self.payload.to_vec(),
            hash: self.hash(),
        }
    }
}

/// The part of a record that can be hashed and stored.
#[derive(Clone, Copy)]
pub(crate) struct Part<'a> {
    pub at: Timestamp,
    pub tag: u16,
    pub version: u32,
    pub payload: &'a [u8],
    pub(crate) has_body: bool,
}

impl<'a> Part<'a> {
    pub(crate) fn of(record: &'a NewRecord) -> Part<'a> {
        Part {
            at: record.at,
            tag: record.tag,
            version: record.version,
            payload: &record.payload,
            has_body: record.body.is_some(),
        }
    }

    pub(crate) fn hash(&self, previous: &Digest, seq: Seq) -> Digest {
        record_hash(previous, seq, self.at, self.tag, self.version, self.payload)
    }
}

/// Consecutive records that will become a frame. Its buffers are reused: getting new memory from the
/// system costs as much as filling it.
#[derive(Default)]
pub(crate) struct Block {
    heads: Vec<u8>,
    payloads: Vec<u8>,
    count: u32,
}

impl Block {
    /// How many records are in it.
    pub(super) fn count(&self) -> u32 {
        self.count
    }

    /// Bytes it takes before compression.
    pub(super) fn len(&self) -> usize {
        self.heads.len() + self.payloads.len()
    }

    /// Adds the next record.
    pub(super) fn push(&mut self, part: &Part<'_>) {
        let heads = &mut self.heads;
        heads.extend_from_slice(&part.at.0.to_le_bytes());
        heads.extend_from_slice(&part.tag.to_le_bytes());
        heads.extend_from_slice(&part.version.to_le_bytes());
        heads.extend_from_slice(&(part.payload.len() as u32).to_le_bytes());
        heads.push(if part.has_body { HAS_BODY } else { 0 });
        self.payloads.extend_from_slice(part.payload);
        self.count += 1;
    }

    /// Heads first, then payloads, as they are stored.
    fn bytes(&mut self) -> &[u8] {
        self.heads.append(&mut self.payloads);
        &self.heads
    }

    fn clear(&mut self) {
        for buffer in [&mut self.heads, &mut self.payloads] {
            buffer.clear();
            buffer.shrink_to(SCRATCH_MAX);
        }
        self.count = 0;
    }
}

/// Compresses when it pays.
pub(crate) struct Packer {
    zstd: zstd::bulk::Compressor<'static>,
    packed: Vec<u8>,
    path: KeyPath,
    #[cfg(any(test, feature = "internals"))]
    leaves_open: bool,
}

impl Packer {
    pub(super) fn new(level: i32) -> Result<Packer, LogError> {
        let zstd =
            zstd::bulk::Compressor::new(level).map_err(LogError::io("set up compression"))?;
        Ok(Packer {
            zstd,
            packed: Vec::new(),
            path: KeyPath::default(),
            #[cfg(any(test, feature = "internals"))]
            leaves_open: false,
        })
    }

    /// For a measurement: bodies as they were before they were sealed.
    #[cfg(any(test, feature = "internals"))]
    pub(super) fn that_seals(self, seals: bool) -> Packer {
        Packer { leaves_open: !seals, ..self }
    }

    /// Encodes a body as format 1 did.
    #[cfg(any(test, feature = "internals"))]
    fn open_body(&mut self, seq: Seq, body: &[u8]) -> Result<Vec<u8>, LogError> {
        let mut out = Vec::with_capacity(BODY_HEADER + body.len());
        out.extend_from_slice(&[0; BODY_HEADER]);
        let codec = self.pack(body, &mut out)?;
        let mut head = [ENVELOPE, codec, 0, 0, 0, 0];
        head[2..].copy_from_slice(&(body.len() as u32).to_le_bytes());
        out[..BODY_CHECK].copy_from_slice(&head);
        let check = check(seq, &[&head, &out[BODY_HEADER..]]);
        out[BODY_CHECK..BODY_HEADER].copy_from_slice(&check);
        Ok(out)
    }

    /// Appends the bytes to `out`, compressed when that saves an eighth.
    fn pack(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<u8, LogError> {
        if bytes.len() >= COMPRESS_FROM {
            let packed = &mut self.packed;
            packed.clear();
            packed.reserve(zstd::zstd_safe::compress_bound(bytes.len()));
            self.zstd.compress_to_buffer(bytes, packed).map_err(LogError::io("compress"))?;
            let pays = packed.len() < bytes.len() - bytes.len() / 8;
            if pays {
                out.extend_from_slice(packed);
            }
            packed.clear();
            packed.shrink_to(SCRATCH_MAX);
            if pays {
                return Ok(ZSTD);
            }
        }
        out.extend_from_slice(bytes);
        Ok(RAW)
    }

    /// Encodes the records of a block as one frame value, and empties it.
    pub(super) fn frame(
        &mut self,
        first: Seq,
        previous: &Digest,
        block: &mut Block,
        mark: Option<&[u8]>,
    ) -> Result<Vec<u8>, LogError> {
        let (count, len) = (block.count(), block.len());
        let note = mark.unwrap_or_default();
        let mut out = Vec::with_capacity(HEADER + note.len() + len / 2);
        out.extend_from_slice(&[0; HEADER]);
        out.extend_from_slice(note);
        let codec = self.pack(block.bytes(), &mut out)?;
        block.clear();
        out[0] = ENVELOPE;
        out[1] = codec;
        out[2] = if mark.is_some() { COMMIT_END } else { 0 };
        out[4..8].copy_from_slice(&count.to_le_bytes());
        out[8..12].copy_from_slice(&(len as u32).to_le_bytes());
        out[12..16].copy_from_slice(&(note.len() as u32).to_le_bytes());
        out[16..48].copy_from_slice(&previous.0);
        let check = check(first, &[&out[..CHECK], &out[HEADER..]]);
        out[CHECK..HEADER].copy_from_slice(&check);
        Ok(out)
    }

    /// Encodes and seals a body.
    pub(super) fn body(&mut self, seq: Seq, body: &[u8], keys: &Keys) -> Result<Vec<u8>, LogError> {
        const TEXT: usize = BODY_HEADER + keys::NONCE;
        #[cfg(any(test, feature = "internals"))]
        if self.leaves_open {
            return self.open_body(seq, body);
        }
        let mut out = Vec::with_capacity(TEXT + body.len() + keys::NONCE);
        out.extend_from_slice(&[0; TEXT]);
        let codec = self.pack(body, &mut out)?;
        let mut head = [SEALED, codec, 0, 0, 0, 0];
        head[2..].copy_from_slice(&(body.len() as u32).to_le_bytes());
        if !keys.seal(&mut self.path, seq, &head, TEXT, &mut out) {
            return Err(LogError::Invalid("the key of a new record was destroyed"));
        }
        out[..BODY_CHECK].copy_from_slice(&head);
        let check = check(seq, &[&head, &out[BODY_HEADER..]]);
        out[BODY_CHECK..BODY_HEADER].copy_from_slice(&check);
        Ok(out)
    }
}

/// What stands in the place of a body that was dropped.
pub(crate) fn dropped_body(seq: Seq) -> Vec<u8> {
    let mut out = vec![0; BODY_HEADER];
    out[0] = DROPPED;
    let check = check(seq, &[&out[..6], &[]]);
    out[6..].copy_from_slice(&check);
    out
}

/// Undoes `Packer`; reusable, because setting one up costs more than a small frame.
pub(crate) struct Unpacker {
    zstd: zstd::bulk::Decompressor<'static>,
    path: KeyPath,
    sealed: Vec<u8>,
}

impl Unpacker {
    pub(super) fn new() -> Result<Unpacker, LogError> {
        let zstd = zstd::bulk::Decompressor::new().map_err(LogError::io("set up decompression"))?;
        Ok(Unpacker { zstd, path: KeyPath::default(), sealed: Vec::new() })
    }

    fn unpack(
        &mut self,
        codec: u8,
        packed: &[u8],
        len: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), String> {
        out.clear();
        match codec {
            RAW if packed.len() == len => out.extend_from_slice(packed),
            RAW => return Err("the stored length is wrong".into()),
            ZSTD => {
                out.reserve(len);
                let count = self
                    .zstd
                    .decompress_to_buffer(packed, out)
                    .map_err(|error| format!("cannot decompress: {error}"))?;
                if count != len {
                    return Err("the decompressed length is wrong".into());
                }
            }
            other => return Err(format!("unknown compression {other}")),
        }
        Ok(())
    }

    /// Decodes a frame value into `frame`, whose buffers are reused.
    pub(super) fn frame(
        &mut self,
        first: Seq,
        stored: &[u8],
        frame: &mut Frame,
    ) -> Result<(), LogError> {
        self.try_frame(first, stored, frame)
            .map_err(|what| LogError::Damaged { seq: first, what: format!("frame: {what}") })
    }

    fn try_frame(&mut self, first: Seq, stored: &[u8], frame: &mut Frame) -> Result<(), String> {
        let header = Header::read(first, stored)?;
        let block = header.mark_end;
        frame.mark.clear();
        frame.mark.extend_from_slice(&stored[HEADER..block]);
        self.unpack(header.codec, &stored[block..], header.block_len, &mut frame.block)?;
        frame.first = first;
        frame.count = header.count;
        frame.previous = header.previous;
        frame.commit_end = header.commit_end;
        frame.check_lengths()
    }

    /// Decodes a body; `None` for one that was dropped or whose key was destroyed.
    pub(super) fn body(
        &mut self,
        seq: Seq,
        stored: &[u8],
        keys: &Keys,
    ) -> Result<Option<Vec<u8>>, LogError> {
        let mut body = Vec::new();
        Ok(self.body_into(seq, stored, keys, &mut body)?.then_some(body))
    }

    /// The same into a buffer that may be used again; false instead of `None`.
    pub(crate) fn body_into(
        &mut self,
        seq: Seq,
        stored: &[u8],
        keys: &Keys,
        body: &mut Vec<u8>,
    ) -> Result<bool, LogError> {
        self.try_body(seq, stored, keys, body)
            .map_err(|what| LogError::Damaged { seq, what: format!("body: {what}") })
    }

    fn try_body(
        &mut self,
        seq: Seq,
        stored: &[u8],
        keys: &Keys,
        body: &mut Vec<u8>,
    ) -> Result<bool, String> {
        check_body(seq, stored)?;
        let (head, rest) = (&stored[..BODY_CHECK], &stored[BODY_HEADER..]);
        let len = read_u32(stored, 2) as usize;
        match head[0] {
            DROPPED => return Ok(false),
            SEALED => {}
            _ => return self.unpack(head[1], rest, len, body).map(|()| true),
        }
        let mut sealed = std::mem::take(&mut self.sealed);
        sealed.clear();
        sealed.extend_from_slice(rest);
        let opened = match keys.open(&mut self.path, seq, head, &mut sealed) {
            Ok(Some(packed)) => self.unpack(head[1], packed, len, body).map(|()| true),
            Ok(None) => Ok(false),
            Err(what) => Err(what),
        };
        sealed.shrink_to(SCRATCH_MAX);
        self.sealed = sealed;
        opened
    }
}

/// Checks that a body is stored as it was written, without opening it.
pub(super) fn check_body(seq: Seq, stored: &[u8]) -> Result<(), String> {
    if stored.len() < BODY_HEADER {
        return Err("too short".into());
    }
    let (head, rest) = (&stored[..BODY_CHECK], &stored[BODY_HEADER..]);
    if stored[BODY_CHECK..BODY_HEADER] != check(seq, &[head, rest]) {
        return Err("the check does not match".into());
    }
    match head[0] {
        ENVELOPE | SEALED if read_u32(stored, 2) as usize > BODY_MAX => Err("too long".into()),
        ENVELOPE | SEALED => Ok(()),
        DROPPED if stored == dropped_body(seq) => Ok(()),
        other => Err(format!("unknown envelope {other}")),
    }
}

/// The readable head of a frame value.
pub(crate) struct Header {
    pub count: u32,
    pub(crate) block_len: usize,
    pub previous: Digest,
    pub(crate) commit_end: bool,
    codec: u8,
    mark_end: usize,
}

impl Header {
    /// Reads and checks a frame value without unpacking it.
    pub(super) fn read(first: Seq, stored: &[u8]) -> Result<Header, String> {
        if stored.len() < HEADER {
            return Err("too short".into());
        }
        if stored[CHECK..HEADER] != check(first, &[&stored[..CHECK], &stored[HEADER..]]) {
            return Err("the check does not match".into());
        }
        if stored[0] != ENVELOPE {
            return Err(format!("unknown envelope {}", stored[0]));
        }
        let mut previous = Digest::ZERO;
        previous.0.copy_from_slice(&stored[16..48]);
        let header = Header {
            count: read_u32(stored, 4),
            block_len: read_u32(stored, 8) as usize,
            previous,
            commit_end: stored[2] & COMMIT_END != 0,
            codec: stored[1],
            mark_end: HEADER.saturating_add(read_u32(stored, 12) as usize),
        };
        if header.mark_end > stored.len() || header.block_len > BLOCK_MAX || header.count == 0 {
            return Err("the lengths are impossible".into());
        }
        Ok(header)
    }

    /// The mark of a frame value whose header was read.
    pub(super) fn mark<'a>(&self, stored: &'a [u8]) -> &'a [u8] {
        &stored[HEADER..self.mark_end]
    }
}

pub(crate) struct Frame {
    pub first: Seq,
    pub count: u32,
    pub previous: Digest,
    pub mark: Vec<u8>,
    pub(crate) commit_end: bool,
    block: Vec<u8>,
}

impl Default for Frame {
    fn default() -> Frame {
        Frame {
            first: Seq::ZERO,
            count: 0,
            previous: Digest::ZERO,
            mark: Vec::new(),
            commit_end: false,
            block: Vec::new(),
        }
    }
}

impl Frame {
    /// The last position in the frame.
    pub(super) fn last(&self) -> Seq {
        Seq(self.first.0 + u64::from(self.count) - 1)
    }

    /// Bytes held in memory.
    pub(crate) fn weight(&self) -> usize {
        self.block.len() + self.mark.len()
    }

    fn check_lengths(&self) -> Result<(), String> {
        let heads = self.count as usize * RECORD;
        if heads > self.block.len() {
            return Err("the count is impossible".into());
        }
        let payloads: u64 = (0..self.count as usize).map(|index| self.len_at(index) as u64).sum();
        if payloads != (self.block.len() - heads) as u64 {
            return Err("the payload lengths do not add up".into());
        }
        Ok(())
    }

    fn len_at(&self, index: usize) -> usize {
        read_u32(&self.block, index * RECORD + 14) as usize
    }

    fn part(&self, index: usize, payload_at: usize) -> Part<'_> {
        let head = &self.block[index * RECORD..(index + 1) * RECORD];
        Part {
            at: Timestamp(i64::from_le_bytes(array(&head[..8]))),
            tag: u16::from_le_bytes(array(&head[8..10])),
            version: read_u32(head, 10),
            payload: &self.block[payload_at..payload_at + self.len_at(index)],
            has_body: head[18] & HAS_BODY != 0,
        }
    }

    /// The records in order.
    pub(super) fn parts(&self) -> impl Iterator<Item = Part<'_>> {
        let mut payload_at = self.count as usize * RECORD;
        (0..self.count as usize).map(move |index| {
            let part = self.part(index, payload_at);
            payload_at += part.payload.len();
            part
        })
    }

    /// Hashes of all records.
    pub(super) fn hashes(&self) -> Vec<Digest> {
        let mut previous = self.previous;
        let mut seq = self.first;
        self.parts()
            .map(|part| {
                previous = part.hash(&previous, seq);
                seq = seq.next();
                previous
            })
            .collect()
    }

    /// A cursor that hashes on demand.
    pub(super) fn chain(&self) -> ChainCursor<'_> {
        let payload_at = self.count as usize * RECORD;
        ChainCursor { frame: self, state: Cell::new((0, payload_at, self.previous)) }
    }

    /// The records from position `from` on, hashed on demand.
    pub(super) fn entries<'f>(
        &'f self,
        chain: &'f ChainCursor<'f>,
        from: Seq,
    ) -> impl Iterator<Item = Entry<'f>> {
        let skip = from.0.saturating_sub(self.first.0) as usize;
        self.parts().enumerate().skip(skip).map(move |(index, part)| Entry {
            seq: self.first.plus(index as u64),
            at: part.at,
            tag: part.tag,
            version: part.version,
            payload: part.payload,
            has_body: part.has_body,
            index: index as u32,
            chain,
        })
    }
}

/// Hashes the records of a frame in order, no further than asked.
pub(crate) struct ChainCursor<'f> {
    frame: &'f Frame,
    /// How many records are hashed, where the next payload lies, and the last hash.
    state: Cell<(u32, usize, Digest)>,
}

impl ChainCursor<'_> {
    fn at(&self, index: u32) -> Digest {
        let (mut done, mut payload_at, mut digest) = self.state.get();
        if done > index + 1 {
            (done, payload_at, digest) =
                (0, self.frame.count as usize * RECORD, self.frame.previous);
        }
        while done <= index {
            let part = self.frame.part(done as usize, payload_at);
            digest = part.hash(&digest, self.frame.first.plus(u64::from(done)));
            payload_at += part.payload.len();
            done += 1;
        }
        self.state.set((done, payload_at, digest));
        digest
    }
}

/// Eight bytes that change when any stored byte, or the position it is stored under, changes.
pub(crate) fn check(seq: Seq, parts: &[&[u8]]) -> [u8; 8] {
    let mut hasher = Hasher::new();
    hasher.update(seq.0.to_le_bytes());
    for part in parts {
        hasher.update(part);
    }
    array(&hasher.finish().0[..8])
}
