//! The items of one day in order of their ids, merged from memory and the rows of the spill cache.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::error::SummariesError;
use super::spill_cache::{END, SpillCache};
use crate::contract::ids::Seq;
use crate::export::summary_bus::PartitionKey;

/// Items in one row of the cache.
pub(super) const ROW_ITEMS: usize = if cfg!(test) { 7 } else { 256 };
/// Bytes of one of them: its id and the event that holds it.
const ITEM: usize = 24;

/// Stands in the place of the event of an item that is gone.
pub(super) const FORGOTTEN: Seq = Seq::ZERO;

pub(super) fn item_bytes(id: u128, seq: Seq) -> [u8; ITEM] {
    let mut bytes = [0; ITEM];
    bytes[..16].copy_from_slice(&id.to_be_bytes());
    bytes[16..].copy_from_slice(&seq.0.to_le_bytes());
    bytes
}

fn item_of(bytes: [u8; ITEM]) -> (u128, Seq) {
    let (mut id, mut seq) = ([0; 16], [0; 8]);
    id.copy_from_slice(&bytes[..16]);
    seq.copy_from_slice(&bytes[16..]);
    (u128::from_be_bytes(id), Seq(u64::from_le_bytes(seq)))
}

/// The events of a day's items, merged from memory and the sorted lists in the cache, one for each
/// visit. A
/// cache that cannot be read ends it early, and says so when asked.
pub(super) struct Items<'a> {
    cache: &'a SpillCache,
    /// Newest last.
    sources: Vec<Source<'a>>,
    /// The next item of each: the smallest id first, and of equal ones the newest.
    heads: BinaryHeap<(Reverse<u128>, usize, Seq)>,
    last: Option<u128>,
    failure: Option<SummariesError>,
}

/// Items in order of their ids.
enum Source<'a> {
    Memory(Box<dyn Iterator<Item = (u128, Seq)> + 'a>),
    Run { prefix: String, after: String, row: std::vec::IntoIter<(u128, Seq)> },
}

impl<'a> Items<'a> {
    pub(super) fn open(
        cache: &'a SpillCache,
        day: &str,
        newer: impl Iterator<Item = (u128, Seq)> + 'a,
    ) -> Items<'a> {
        let (heads, sources) = (BinaryHeap::new(), Vec::new());
        let mut items = Items { cache, sources, heads, last: None, failure: None };
        items.failure = items.find_runs(day).err();
        items.sources.push(Source::Memory(Box::new(newer)));
        for at in 0..items.sources.len() {
            items.advance(at);
        }
        items
    }

    fn find_runs(&mut self, day: &str) -> Result<(), SummariesError> {
        let (mut after, below) = (day.to_owned(), format!("{day}{END}"));
        while let Some((key, _)) = self.cache.next(&after, &below)? {
            let run = key[day.len()..].split('/').next().unwrap_or_default();
            let prefix = format!("{day}{run}/");
            after = format!("{prefix}{END}");
            let row = Vec::new().into_iter();
            self.sources.push(Source::Run { after: prefix.clone(), prefix, row });
        }
        Ok(())
    }

    /// Whether all were given.
    pub(super) fn whole(self) -> Result<(), SummariesError> {
        self.failure.map_or(Ok(()), Err)
    }

    /// Brings the next item of a source among the heads.
    fn advance(&mut self, at: usize) {
        let next = match &mut self.sources[at] {
            Source::Memory(items) => items.next(),
            Source::Run { prefix, after, row } => loop {
                if let Some(item) = row.next() {
                    break Some(item);
                }
                match self.cache.next(after, &format!("{prefix}{END}")) {
                    Ok(Some((key, stored))) => {
                        let (stored, _) = stored.as_chunks::<ITEM>();
                        let items: Vec<_> = stored.iter().map(|item| item_of(*item)).collect();
                        (*after, *row) = (key, items.into_iter());
                    }
                    Ok(None) => break None,
                    Err(error) => {
                        self.failure = Some(error);
                        break None;
                    }
                }
            },
        };
        self.heads.extend(next.map(|(id, seq)| (Reverse(id), at, seq)));
    }
}

impl Iterator for Items<'_> {
    type Item = Seq;

    fn next(&mut self) -> Option<Seq> {
        while self.failure.is_none() {
            let (Reverse(id), at, seq) = self.heads.pop()?;
            self.advance(at);
            if self.last.replace(id) != Some(id) && seq != FORGOTTEN {
                return Some(seq);
            }
        }
        None
    }
}

pub(super) fn items_of(key: &PartitionKey) -> String {
    format!("item/{}/{}/", key.stream, key.day)
}
