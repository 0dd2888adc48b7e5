//! Many questions to the tables of one checkpoint.
//!
//! A question at a time opens a transaction and a table, and finds the filters of every segment cold.
//! Asked together and in the order of the keys, a segment's filters are walked through once.

use std::sync::Arc;

use redb::{AccessGuard, ReadTransaction};

use crate::contract::ids::{KeyIndex, Seq};
use crate::log::error::LogError;
use crate::log::frame::read_u64;
use crate::log::index_segment::{IndexSegment, Key, key_of};

use super::Published;
use super::failure::{engine, guarded};
use super::reader::Reader;
use super::tables::{APPLIED, Bytes, CHUNKS, ChunkKey, META, ROWS};
use super::tiers::value_in;

/// The tables as one checkpoint left them.
pub struct Lookup {
    published: Arc<Published>,
    txn: ReadTransaction,
}

impl Reader {
    /// The tables as the last checkpoint left them.
    pub fn lookup(&self) -> Result<Lookup, LogError> {
        loop {
            let published = self.shared().published();
            let txn = guarded("begin to read", || self.shared().begin_read())?;
            // A checkpoint is in the file a moment before its segments are published.
            if guarded("begin to read", || applied(&txn))? == published.applied {
                return Ok(Lookup { published, txn });
            }
            std::thread::yield_now();
        }
    }
}

fn applied(txn: &ReadTransaction) -> Result<Seq, LogError> {
    let doing = "read the position of the tables";
    let meta = txn.open_table(META).map_err(engine(doing))?;
    let stored = meta.get(APPLIED).map_err(engine(doing))?;
    let stored = stored.filter(|stored| stored.value().len() == 8);
    Ok(stored.map_or(Seq::ZERO, |stored| Seq(read_u64(stored.value(), 0))))
}

impl Lookup {
    /// The position these tables stand for.
    pub fn applied(&self) -> Seq {
        self.published.applied
    }

    /// The value of each digest; `None` when it was never added or was released.
    pub fn find_all(
        &self,
        index: KeyIndex,
        digests: impl Iterator<Item = [u8; 16]>,
    ) -> Result<Vec<Option<u64>>, LogError> {
        let doing = "look up keys";
        let mut left: Vec<(Key, usize)> =
            digests.enumerate().map(|(at, digest)| (key_of(&digest), at)).collect();
        let mut found = vec![None; left.len()];
        left.sort_unstable();
        guarded(doing, || {
            let chunks = self.txn.open_table(CHUNKS).map_err(engine(doing))?;
            for segment in &self.published.tiers[index.slot()] {
                let mut cursor = Cursor { segment, index: index.number(), chunk: None };
                let mut failure = None;
                left.retain(|(key, at)| {
                    if failure.is_none() {
                        match cursor.find(&chunks, *key) {
                            Ok(value) => found[*at] = value,
                            Err(error) => failure = Some(error),
                        }
                    }
                    found[*at].is_none()
                });
                failure.map_or(Ok(()), Err)?;
            }
            Ok(())
        })?;
        Ok(found.into_iter().map(|value| value.filter(|value| *value != 0)).collect())
    }

    /// Calls `f` with each of these rows that is there.
    pub fn rows<E: From<LogError>>(
        &self,
        seqs: &[Seq],
        f: &mut impl FnMut(Seq, &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let doing = "read rows";
        let table = guarded(doing, || self.txn.open_table(ROWS).map_err(engine(doing)))?;
        for seq in seqs {
            let row = guarded(doing, || table.get(seq.0).map_err(engine(doing)))?;
            if let Some(row) = row {
                f(*seq, row.value())?;
            }
        }
        Ok(())
    }
}

/// A walk through the chunks of a segment, in the order of keys.
struct Cursor<'r> {
    segment: &'r IndexSegment,
    index: u8,
    chunk: Option<(u32, AccessGuard<'static, Bytes>)>,
}

impl Cursor<'_> {
    fn find(
        &mut self,
        chunks: &redb::ReadOnlyTable<ChunkKey, Bytes>,
        key: Key,
    ) -> Result<Option<u64>, LogError> {
        let Some(wanted) = self.segment.chunk_for(key) else { return Ok(None) };
        if self.chunk.as_ref().is_none_or(|(held, _)| *held != wanted) {
            let place = (self.index, self.segment.info.id, wanted);
            let stored = chunks.get(place).map_err(engine("look up keys"))?;
            let lost = || LogError::Corrupt(format!("chunk {place:?} is missing"));
            self.chunk = Some((wanted, stored.ok_or_else(lost)?));
        }
        Ok(self.chunk.as_ref().and_then(|(_, stored)| value_in(stored.value(), key)))
    }
}
