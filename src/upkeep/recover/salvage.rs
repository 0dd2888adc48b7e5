//! The intact records of a damaged log.

use std::path::Path;
use std::sync::Arc;

use crate::log::{Fresh, FreshKeys, Options, ReadError, Reader, Store};
use crate::os::Disk;
use crate::upkeep::copy::{CopyError, LogCopy, Page};

/// Copies every record that can still be read into a new store with keys of its own. Returns why it ended
/// early, if it did. The old keys would not do: those of records beyond the end may be destroyed, and new
/// records get these numbers.
pub(crate) fn salvage(
    disk: &Arc<dyn Disk>,
    log: &Reader,
    store: &Path,
    options: Options,
    keys: FreshKeys,
    progress: &mut dyn FnMut(f64),
) -> Result<(Store, Option<String>), CopyError> {
    let fresh = Fresh { store_id: log.store_id(), keys };
    let mut copy = LogCopy::create(disk, store, options, fresh)?;
    let head = log.head().0;
    let mut damage = None;
    while damage.is_none() && copy.last().0 < head {
        let mut page = Page::read(log, copy.last().0.next(), head);
        damage = page.damage.take();
        if page.records.is_empty() {
            let at = copy.last().0.next();
            damage.get_or_insert_with(|| format!("record {at} is missing"));
            break;
        }
        if let Err(error) = copy.take(page) {
            match error {
                CopyError::Hash { .. }
                | CopyError::Read(ReadError::Event { .. })
                | CopyError::Impossible(_) => {
                    damage = Some(error.to_string());
                }
                error => return Err(error),
            }
        }
        progress(copy.last().0.0 as f64 / head.0.max(1) as f64);
    }
    let mut store = copy.into_store()?;
    // What was taken back stays so.
    let gone = log.destroyed_keys(store.head().0);
    store.forget(&gone)?;
    Ok((store, damage))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::contract::hash::sha256;
    use crate::contract::ids::Seq;
    use crate::contract::time::Timestamp;
    use crate::log::{Commit, NewRecord, codec};
    use crate::os::sim::SimDisk;
    use crate::state::event::Event;

    fn open(disk: &Arc<dyn Disk>, path: &Path) -> Store {
        let options = Options::beside(path);
        Store::open(Arc::clone(disk), path, options, [7; 16], &mut |_| {}).unwrap()
    }

    fn receipt(words: &str) -> NewRecord {
        let event = Event::ReceiptKept { body_sha256: sha256(words) };
        let (tag, version, payload) = codec::encode(&event);
        let body = Some(words.as_bytes().to_vec());
        NewRecord { at: Timestamp(5), tag, version, payload, body }
    }

    fn append(store: &mut Store, records: &[NewRecord]) {
        let first = store.head().0.next();
        store.append(Commit { first, records, mark: b"", checkpoint: None }).unwrap();
    }

    fn salvaged(disk: &Arc<dyn Disk>, old: &Store) -> (Store, Option<String>) {
        let path = PathBuf::from("/new.redb");
        let (options, keys) = (Options::beside(&path), FreshKeys::Of([9; 32]));
        salvage(disk, &old.reader(), &path, options, keys, &mut |_| {}).unwrap()
    }

    #[test]
    fn every_record_before_the_damage_is_kept_and_what_was_taken_back_stays_so() {
        let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
        let mut old = open(&disk, Path::new("/old.redb"));
        append(&mut old, &["one", "two", "three", "four"].map(receipt));
        let unknown = NewRecord { tag: 999, ..receipt("five") };
        append(&mut old, &[unknown, receipt("six")]);
        // Beyond the damage, so new records will get the numbers of these.
        old.forget(&[Seq(2), Seq(5), Seq(6)]).unwrap();
        let (mut new, damage) = salvaged(&disk, &old);
        assert!(damage.is_some());
        assert_eq!(new.head().0, Seq(4));
        assert_eq!(new.store_id(), old.store_id());
        append(&mut new, &["fifth", "sixth"].map(receipt));
        let log = new.reader();
        let bodies = (1..=6).map(|seq| log.kept_body(Seq(seq)).unwrap());
        let bodies = bodies.map(|body| body.map(|body| String::from_utf8(body).unwrap()));
        let expected =
            [Some("one"), None, Some("three"), Some("four"), Some("fifth"), Some("sixth")];
        assert_eq!(bodies.collect::<Vec<_>>(), expected.map(|body| body.map(str::to_owned)));
        assert!(log.verify(Seq(1), None, &mut |_| {}).is_ok());
        // The old log can still be read with its own keys.
        assert_ne!(new.keys_file(), old.keys_file());
        assert_eq!(old.reader().body(Seq(1)).unwrap().unwrap(), b"one");
    }
}
