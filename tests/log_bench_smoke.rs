//! Runs the work of the log benchmark on tiny inputs, so that it stays correct.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test stops at the first surprise and makes its own files"
)]

#[path = "../benches/append/work.rs"]
mod work;

use summarizer::contract::ids::{KeyIndex, Seq};
use summarizer::log::Commit;

#[test]
fn the_measured_work_writes_every_record() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = work::open(&dir.path().join("store.redb"), true).unwrap();
    let records = work::records(1, 40, 200);
    work::append(&mut store, &records, 16);
    assert_eq!(store.head().0, Seq(40));
    assert_eq!(work::scan(&store), 40 * 200);
    let checkpoint = Some(work::checkpoint(1, 40));
    store.append(Commit { first: Seq(41), records: &[], mark: b"", checkpoint }).unwrap();
    let found = store.reader().find(KeyIndex::SummaryId, &work::digest(33)).unwrap();
    assert_eq!(found, Some(33));
}
