//! Packing: the work before the transaction of a commit. Records become links of the chain and frames.
//!
//! Contract. It needs only the end of the log from the store, so it may run ahead of the
//! transactions on its own thread, one record at a time. Frames are cut by the lengths of the
//! records alone. So the same records give the same bytes, in any thread and in any number of calls.
//!
//! See docs/adr/0077-packing-frames-early.md.

use std::sync::Arc;

use crate::contract::hash::Digest;
use crate::contract::ids::Seq;
use crate::limits;
use crate::log::error::LogError;
use crate::log::frame::{BODY_MAX, Block, Packer, Part, RECORD};
use crate::log::keys::Keys;

use super::Options;

/// Everything of a commit that can be computed before its transaction.
pub struct Packed {
    /// The end of the log it continues.
    pub(super) from: (Seq, Digest),
    pub(super) frames: Vec<(Seq, Vec<u8>)>,
    pub(super) bodies: Vec<(Seq, Vec<u8>)>,
    pub(super) hashes: Vec<Digest>,
    /// The end of the log after it.
    pub(super) head: (Seq, Digest),
}

/// Packs one commit after another.
pub(crate) struct Packing {
    packer: Packer,
    keys: Arc<Keys>,
    frame_bytes: usize,
    /// The frame that is being filled, and what it continues.
    block: Block,
    before: (Seq, Digest),
    packed: Packed,
}

impl Packing {
    /// Continues a log that ends there.
    pub(super) fn new(
        options: &Options,
        keys: &Arc<Keys>,
        head: (Seq, Digest),
    ) -> Result<Packing, LogError> {
        let packer = Packer::new(options.compression_level)?;
        #[cfg(any(test, feature = "internals"))]
        let packer = packer.that_seals(options.seals_bodies);
        Ok(Packing {
            packer,
            keys: Arc::clone(keys),
            frame_bytes: options.frame_bytes,
            block: Block::default(),
            before: head,
            packed: Packed::after(head),
        })
    }

    /// Forgets what was added and continues a log that ends there.
    pub(super) fn restart(&mut self, head: (Seq, Digest)) {
        self.block = Block::default();
        self.before = head;
        self.packed = Packed::after(head);
    }

    /// Where the log ends after what was added.
    pub(super) fn head(&self) -> (Seq, Digest) {
        self.packed.head
    }

    /// Adds the next record.
    pub(crate) fn add(&mut self, part: &Part<'_>, body: Option<&[u8]>) -> Result<(), LogError> {
        if part.payload.len() > limits::EVENT_BYTES_MAX {
            return Err(LogError::Invalid("a payload is too long"));
        }
        if body.is_some_and(|body| body.len() > BODY_MAX) {
            return Err(LogError::Invalid("a body is too long"));
        }
        let bytes = self.block.len() + RECORD + part.payload.len();
        if self.block.count() > 0 && bytes > self.frame_bytes {
            self.end_frame(None)?;
        }
        let (last, hash) = self.packed.head;
        let seq = last.next();
        let hash = part.hash(&hash, seq);
        self.block.push(part);
        self.packed.hashes.push(hash);
        self.packed.head = (seq, hash);
        if let Some(body) = body {
            self.packed.bodies.push((seq, self.packer.body(seq, body, &self.keys)?));
        }
        Ok(())
    }

    /// Ends the frame that is being filled; with a mark where a commit ended.
    pub(super) fn end_frame(&mut self, mark: Option<&[u8]>) -> Result<(), LogError> {
        if self.block.count() == 0 {
            return Ok(());
        }
        let (last, previous) = self.before;
        let first = last.next();
        let frame = self.packer.frame(first, &previous, &mut self.block, mark)?;
        self.packed.frames.push((first, frame));
        self.before = self.packed.head;
        Ok(())
    }

    /// Ends the commit.
    pub(crate) fn end(&mut self, mark: &[u8]) -> Result<Packed, LogError> {
        self.end_frame(Some(mark))?;
        let next = Packed::after(self.packed.head);
        Ok(std::mem::replace(&mut self.packed, next))
    }
}

impl Packed {
    fn after(head: (Seq, Digest)) -> Packed {
        Packed { from: head, frames: Vec::new(), bodies: Vec::new(), hashes: Vec::new(), head }
    }
}
