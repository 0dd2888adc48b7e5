//! The durable log, and the specification of its format.
//!
//! # What it is
//!
//! An append-only sequence of records in one file, with a hash chain, and beside it the tables that
//! stand for the log up to a position. `store` is the only room that knows the engine (redb);
//! no type of it is visible outside, so that another engine can replace it. The log never interprets a
//! payload, a row, a document or a mark.
//!
//! # Promises
//!
//! - `append` returns when the whole commit is durable: its records, their bodies, its mark and its
//!   checkpoint, in one transaction. So after a crash the log ends with a whole commit.
//! - After a failed commit it is unknown whether the commit is durable. The store is poisoned and
//!   refuses everything; opening it again shows what is there. It may hold one commit more than was
//!   acknowledged, never one less, and the caller continues from the head and the mark it finds.
//! - Every stored byte of a frame, a body, an index chunk and a segment is covered by a check, and
//!   every record by the chain. A changed byte is an error that names a record and never a panic.
//! - Rows, open records, documents and `meta` are covered by the engine's page checksums only
//!   (`Store::check_pages`); all of them but `meta` can be rebuilt from the records.
//!
//! # Tables
//!
//! Integers in values are little-endian. Names are the engine's table names.
//!
//! | table | key | value |
//! |---|---|---|
//! | `meta` | `format` | major u32, minor u32 |
//! | | `store_id` | 16 bytes, chosen when the store is made |
//! | | `keys` | 16 bytes: the name of the keys that bodies are sealed with |
//! | | `release` | the release that first wrote the format; absent in older stores |
//! | | `applied` | u64: the position rows, open, documents and indexes stand for |
//! | | `mark` | u64 position, then the mark: as of the last checkpoint or commit without records |
//! | `frames` | u64 first sequence | frame |
//! | `bodies` | u64 sequence | body |
//! | `rows`, `open` | u64 sequence | opaque |
//! | `documents` | name | opaque |
//! | `segments` | u64 first sequence | last u64, bytes u64, index offset u64, sha256 (32) |
//! | `index_segments` | index u8, segment u64 | age u64, entries u64, chunks u32, drop u8, sources u64… |
//! | `chunks` | index u8, segment u64, chunk u32 | check (8), then entries: digest (16), value u64 |
//! | `fences` | as `chunks` | first digest (16), Bloom filter (856 bytes) |
//!
//! # Frame
//!
//! Consecutive records of one commit, about 32 KiB of payload; a commit is one or more frames.
//!
//! ```text
//! 0  u8  envelope = 1          4  u32 records        16 [32] hash before the first record
//! 1  u8  0 raw, 1 zstd         8  u32 block length   48 [8]  check
//! 2  u8  bit 0: commit ends    12 u32 mark length    56 mark, then the block as stored
//! 3  u8  0
//! block: for each record  i64 time · u16 tag · u32 version · u32 length · u8 bit 0: has a body
//!        then the payloads in order
//! ```
//!
//! The check is the first eight bytes of sha256(u64 first sequence ‖ bytes 0..48 ‖ bytes 56..). A
//! block is compressed when that saves an eighth.
//!
//! # Body
//!
//! `u8 envelope = 3 · u8 compression · u32 length · [8] check · [12] nonce · sealed bytes · [16] tag`; its
//! check is formed in the same way over everything else. A body is compressed, and then sealed
//! (ChaCha20-Poly1305, with the first six bytes as associated data) with a key that only its record has:
//! see `key_tree`. The keys lie in a file beside the store: see `keys`. A body that was dropped is the
//! first fourteen bytes with envelope 2 and length 0. Envelope 1 has neither nonce nor tag and is not
//! sealed: format 1 wrote it.
//!
//! The mark of the last non-empty commit counts; an empty one means unchanged.
//!
//! # Chain
//!
//! `hash = sha256(previous ‖ u64 sequence ‖ i64 time ‖ u16 tag ‖ u32 version ‖ u32 length ‖
//! payload)`, and before the first record `sha256("summarizer.log.v1" ‖ store id)`. A holder of
//! a sequence and its hash can later prove that nothing up to there was edited, reordered or cut
//! (`Reader::verify_anchor`). It does not show who wrote, nor a cut after the last kept hash.
//! Archives and newer programs keep the payload bytes as they were first encoded.
//!
//! # Indexes
//!
//! A checkpoint adds its sorted keys as one index segment and merges a bounded number of older
//! entries (four for each one added, and 16,384). Newer segments win; the value 0 releases a key and
//! vanishes when a merge reaches the oldest segment. A segment with sources is an unfinished merge
//! and continues after its last chunk. Fences and filters are in memory (11 bits a key), so a key that is absent is
//! answered without reading; a full chunk of 680 entries is one page of 16 KiB.
//!
//! # Archive
//!
//! Frames of records that a checkpoint stands for can move into segment files (see `segment`),
//! regrouped into frames of 1 MiB and compressed harder. A segment counts when `segments` lists it;
//! unlisted ones are deleted at open. Bodies stay in the store.
//!
//! # Versions
//!
//! A newer major format is refused with the release that reads it and left untouched; minor versions only add. Envelope
//! numbers, tags and table names are never used for anything else.
//!
//! # Opening
//!
//! A new store is made as `.NAME.new` and renamed after its first commit, so a file under the final
//! name is whole. The file is locked exclusively (advisory) for as long as the store is open. The
//! engine recovers: every commit saves its allocator state and is written in two phases ("quick
//! repair"), so recovery does not depend on the size of the file. Then the fences are read, the
//! last frame gives the head, and frames are walked back to the newest mark, never further than
//! the last checkpoint.
//!
//! # What is assumed of the disk
//!
//! That bytes are there after `fdatasync` returned, and names after `fsync` of their directory.
//! Writes that were not synced may be missing, reordered, or cut at any byte.
//! After a failed sync nothing that was written before it is trusted.
//!
//! See docs/adr/0001-log-as-frames-and-checkpoints.md.

pub(crate) mod bloom;
mod bytes;
mod chain;
pub mod checkpoint;
pub mod codec;
mod error;
mod frame;
mod index_segment;
mod key_tree;
mod keys;
mod segment;
mod stamp;
mod store;

pub use chain::{genesis, record_hash};
pub use error::{KeysError, LogError, ReadError};
pub(crate) use frame::Part;
pub(crate) use frame::Record;
pub use frame::{Entry, NewRecord};
pub use keys::{Fresh, FreshKeys, HomeKey};
pub(crate) use stamp::LogStamp;
pub(crate) use store::Appended;
pub(crate) use store::Gathered;
pub(crate) use store::HELD_BYTES;
pub(crate) use store::Lookup;
pub(crate) use store::Packing;
#[cfg(feature = "cluster")]
pub(crate) use store::Shipment;
pub use store::{Cache, ChainReport, Checkpoint, Commit, Options, Packed, Reader, Store};
