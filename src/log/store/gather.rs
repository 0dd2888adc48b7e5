//! Reads many bodies in the order of the log and hands them over in the order of the request.
//!
//! Contract. Bodies that lie together in the file are read together and once. Their stored bytes are
//! held up to a bound; a body beyond the bound is read when it is handed over. Bodies are unpacked and
//! checked then, on the thread of the caller.
//!
//! See docs/adr/0057-gathering-bodies-in-log-order.md.

use std::ops::{ControlFlow, Range};

use redb::{AccessGuard, ReadOnlyTable};

use crate::contract::ids::Seq;
use crate::log::error::LogError;

use super::failure::{engine, guarded};
use super::reader::Reader;
use super::tables::{BODIES, Bytes};

/// Most bytes that are held at the same time.
pub(crate) const HELD_BYTES: usize = if cfg!(test) { 900 } else { 64 << 20 };
/// Bodies that are passed over to come to the next one, before it is looked up.
const NEAR: usize = 8;
const DOING: &str = "read a body";

/// Bodies that were asked for and not yet handed over.
#[derive(Default)]
pub struct Gathered {
    asked: Vec<Seq>,
    places: Vec<Place>,
    held: Vec<u8>,
}

#[derive(Clone)]
enum Place {
    /// Held here.
    Held(Range<usize>),
    /// The log has no such body.
    Nowhere,
    /// Not read yet.
    Later,
}

impl Gathered {
    /// How many were asked for.
    pub fn len(&self) -> usize {
        self.asked.len()
    }

    /// Whether no record was asked for.
    #[cfg(any(test, feature = "internals"))]
    pub fn is_empty(&self) -> bool {
        self.asked.is_empty()
    }

    /// Bytes of what is held.
    pub(crate) fn held_bytes(&self) -> usize {
        self.held.len()
    }
}

impl Reader {
    /// Reads the bodies of these records. `about` is an estimate of their bytes.
    pub fn gather(&self, asked: Vec<Seq>, about: usize) -> Result<Gathered, LogError> {
        let mut slots: Vec<usize> = (0..asked.len()).collect();
        slots.sort_unstable_by_key(|slot| asked[*slot]);
        let mut places = vec![Place::Later; asked.len()];
        let mut held = Vec::with_capacity(about.min(HELD_BYTES));
        let mut before: Option<(Seq, usize)> = None;
        guarded(DOING, || {
            let table = self.open_bodies()?;
            let mut sweep = Sweep { rows: None, ahead: None };
            for slot in slots {
                let seq = asked[slot];
                places[slot] = match before.replace((seq, slot)) {
                    Some((same, first)) if same == seq => places[first].clone(),
                    _ => sweep.find(&table, seq)?.map_or(Place::Nowhere, |stored| {
                        let start = held.len();
                        held.extend_from_slice(stored.value());
                        Place::Held(start..held.len())
                    }),
                };
                if held.len() >= HELD_BYTES {
                    break;
                }
            }
            Ok(())
        })?;
        Ok(Gathered { asked, places, held })
    }

    /// Calls `f` with some of the gathered bodies, in the order in which they were asked for. Stops at
    /// the first record without a body, and returns it.
    pub(crate) fn gathered(
        &self,
        gathered: &Gathered,
        range: Range<usize>,
        f: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<Option<Seq>, LogError> {
        let (mut body, keys) = (Vec::new(), &self.shared().keys);
        self.shared().unpacking(|unpacker| {
            let mut table = None;
            for slot in range {
                let seq = gathered.asked[slot];
                let found = match &gathered.places[slot] {
                    Place::Nowhere => false,
                    Place::Held(at) => {
                        unpacker.body_into(seq, &gathered.held[at.clone()], keys, &mut body)?
                    }
                    Place::Later => guarded(DOING, || {
                        let table = match &table {
                            Some(table) => table,
                            None => table.insert(self.open_bodies()?),
                        };
                        match table.get(seq.0).map_err(engine(DOING))? {
                            Some(stored) => {
                                unpacker.body_into(seq, stored.value(), keys, &mut body)
                            }
                            None => Ok(false),
                        }
                    })?,
                };
                if !found {
                    return Ok(Some(seq));
                }
                if f(&body).is_break() {
                    break;
                }
            }
            Ok(None)
        })
    }

    fn open_bodies(&self) -> Result<ReadOnlyTable<u64, Bytes>, LogError> {
        self.shared().begin_read()?.open_table(BODIES).map_err(engine(DOING))
    }
}

type Row = (AccessGuard<'static, u64>, AccessGuard<'static, Bytes>);

/// A way through the bodies, forward only.
struct Sweep {
    rows: Option<redb::Range<'static, u64, Bytes>>,
    /// The row after the last body that was looked for.
    ahead: Option<Row>,
}

impl Sweep {
    fn find(
        &mut self,
        table: &ReadOnlyTable<u64, Bytes>,
        seq: Seq,
    ) -> Result<Option<AccessGuard<'static, Bytes>>, LogError> {
        let mut passed = 0;
        loop {
            if self.rows.is_none() || passed == NEAR {
                self.rows = Some(table.range(seq.0..).map_err(engine(DOING))?);
            }
            let next = match self.ahead.take() {
                Some(row) => Some(row),
                None => {
                    let rows = self.rows.as_mut().and_then(Iterator::next);
                    rows.transpose().map_err(engine(DOING))?
                }
            };
            let Some((at, stored)) = next else { return Ok(None) };
            if at.value() >= seq.0 {
                if at.value() == seq.0 {
                    return Ok(Some(stored));
                }
                self.ahead = Some((at, stored));
                return Ok(None);
            }
            passed += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use super::*;
    use crate::contract::time::Timestamp;
    use crate::log::frame::NewRecord;
    use crate::log::store::{Commit, Options, Store};
    use crate::os::Disk;
    use crate::os::sim::SimDisk;

    /// Every third record has a body, all of them different and too irregular to be packed.
    fn store(records: u64) -> Store {
        let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
        let path = Path::new("/log.redb");
        let options = Options::beside(path);
        let mut store = Store::open(disk, path, options, [7; 16], &mut |_| {}).unwrap();
        let record = |seq| NewRecord {
            at: Timestamp(0),
            tag: 1,
            version: 1,
            payload: vec![1; 9],
            body: body(seq),
        };
        let records: Vec<NewRecord> = (1..=records).map(record).collect();
        let first = store.head().0.next();
        store.append(Commit { first, records: &records, mark: b"m", checkpoint: None }).unwrap();
        store
    }

    fn body(seq: u64) -> Option<Vec<u8>> {
        let hash = crate::contract::hash::sha256(seq.to_le_bytes());
        seq.is_multiple_of(3).then(|| hash.0.to_vec())
    }

    /// What comes of asking for these, and which of them had nothing.
    fn ask(store: &Store, asked: &[u64], range: Range<usize>) -> (Vec<Vec<u8>>, Option<Seq>) {
        let reader = store.reader();
        let asked = asked.iter().copied().map(Seq).collect();
        let gathered = reader.gather(asked, 100).unwrap();
        let mut found = Vec::new();
        let missing = reader.gathered(&gathered, range, &mut |body| {
            found.push(body.to_vec());
            ControlFlow::Continue(())
        });
        (found, missing.unwrap())
    }

    #[test]
    fn bodies_come_in_the_requested_order_whatever_the_memory_limit() {
        let store = store(300);
        // More than fit into the bound, near each other and far apart, one of them twice.
        let mut asked: Vec<u64> = (1..=100).map(|n| 3 * (n * 37 % 101)).collect();
        asked.extend([9, 300, 3, 300]);
        let expected: Vec<_> = asked.iter().map(|seq| body(*seq).unwrap()).collect();
        assert_eq!(ask(&store, &asked, 0..asked.len()), (expected.clone(), None));
        assert_eq!(ask(&store, &asked, 40..60), (expected[40..60].to_vec(), None));
        assert_eq!(ask(&store, &[], 0..0), (Vec::new(), None));
    }

    #[test]
    fn an_event_without_a_body_ends_the_gathering() {
        let store = store(300);
        for missing in [1, 4, 299, 301, 5000] {
            let asked = [30, 3, missing, 6];
            let expected = vec![body(30).unwrap(), body(3).unwrap()];
            assert_eq!(ask(&store, &asked, 0..4), (expected, Some(Seq(missing))));
        }
        // The same for more bodies than memory holds at a time.
        let mut asked: Vec<u64> = (1..=60).map(|n| 3 * n).collect();
        asked.push(200);
        assert_eq!(ask(&store, &asked, 59..61), (vec![body(180).unwrap()], Some(Seq(200))));
    }
}
