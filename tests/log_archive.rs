//! Archiving: archived records read as before, and a crash while archiving loses none.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test stops at the first surprise and makes its own files"
)]

mod log_support;

use std::path::Path;
use std::sync::Arc;

use log_support::{chain, commit, open_on, payloads, records};
use summarizer::contract::ids::Seq;
use summarizer::log::{Checkpoint, Commit, LogError, NewRecord, Store};
use summarizer::os::Disk as _;
use summarizer::os::sim::{Faults, SimDisk};

const PATH: &str = "/home/store.redb";
const ARCHIVE: &str = "/home/archive";

fn open(disk: &SimDisk) -> Result<Store, LogError> {
    open_on(Arc::new(disk.clone()), Path::new(PATH))
}

/// A closed store with checkpointed records in several commits.
fn filled(records: &[NewRecord]) -> SimDisk {
    let disk = SimDisk::new();
    disk.create_dir_all(Path::new("/home")).unwrap();
    let mut store = open(&disk).unwrap();
    for (number, batch) in records.chunks(300).enumerate() {
        store.append(commit(number as u64 * 300 + 1, batch, b"m")).unwrap();
    }
    let head = store.head().0;
    let checkpoint = Some(Checkpoint { applied: head, ..Checkpoint::default() });
    store.append(Commit { checkpoint, ..commit(head.0 + 1, &[], b"") }).unwrap();
    store.close().unwrap();
    disk
}

fn check(store: &Store, records: &[NewRecord], told: &str) {
    let reader = store.reader();
    let hashes = chain(records);
    let expected: Vec<_> = (1..).zip(records.iter().map(|r| r.payload.clone())).collect();
    assert_eq!(payloads(&reader, 1, None), expected, "{told}");
    assert_eq!(payloads(&reader, 250, Some(700)), expected[249..700], "{told}");
    for seq in [1, 299, 600, records.len()] {
        let found = reader.get(Seq(seq as u64)).unwrap().unwrap();
        assert_eq!(found.hash, hashes[seq - 1], "{told}");
        assert_eq!(reader.body(Seq(seq as u64)).unwrap(), records[seq - 1].body, "{told}");
    }
    let report = reader.verify(Seq(1), None, &mut |_| {}).unwrap();
    assert_eq!(report.records, records.len() as u64, "{told}");
    assert_eq!(reader.mark(), b"m");
}

#[test]
fn archived_records_read_as_before() {
    let records = records(1..=1500, 30);
    let disk = filled(&records);
    let mut store = open(&disk).unwrap();
    assert!(matches!(store.archive(Seq(1502), &mut |_| {}), Err(LogError::Invalid(_))));
    let before = store.reader().stats().unwrap();
    let mut heard = Vec::new();
    let done = store.archive(Seq(901), &mut |part| heard.push(part)).unwrap();
    assert_eq!((done.segments, done.records), (1, 900));
    assert!(done.segment_bytes < done.frame_bytes, "{done:?}");
    assert_eq!(heard, [1.0]);
    check(&store, &records, "archived");
    assert_eq!(store.archive(Seq(901), &mut |_| {}).unwrap().segments, 0);
    // The frame with the last record always stays.
    assert_eq!(store.archive(Seq(1501), &mut |_| {}).unwrap().records, 300);
    check(&store, &records, "archived twice");
    let after = store.reader().stats().unwrap();
    assert_eq!((after.segments, after.head), (2, before.head));
    assert!(after.frame_bytes < before.frame_bytes);
    assert_eq!(disk.list(Path::new(ARCHIVE)).unwrap().len(), 2);

    store.compact_file().unwrap();
    check(&store, &records, "compacted");
    drop(store);
    let mut store = open(&disk).unwrap();
    check(&store, &records, "reopened");
    let more = log_support::records(1501..=1510, 30);
    store.append(commit(1501, &more, b"m")).unwrap();
    check(&store, &[records, more].concat(), "continued");
}

#[test]
fn compaction_asks_for_space_and_leaves_readers_alone() {
    let records = records(1..=900, 30);
    let disk = filled(&records);
    let mut store = open(&disk).unwrap();
    let used = disk.stat(Path::new(PATH)).unwrap().unwrap().len;
    disk.set_faults(Faults { capacity: Some(used + 1000), ..Faults::default() });
    let refused = store.compact_file();
    assert!(matches!(&refused, Err(error) if error.is_full()), "{refused:?}");
    disk.set_faults(Faults::default());
    store.compact_file().unwrap();
    store.check_pages().unwrap();
    check(&store, &records, "compacted");
}

#[test]
fn power_loss_while_archiving_loses_nothing() {
    let records = records(1..=1500, 30);
    let filled = filled(&records);
    let clean = filled.reboot();
    let mut store = open(&clean).unwrap();
    clean.reset_counts();
    store.archive(Seq(1201), &mut |_| {}).unwrap();
    let counts = clean.counts();
    drop(store);
    assert!(counts.syncs >= 4, "{counts:?}");
    let syncs =
        (1..=counts.syncs).map(|at| Faults { crash_at_sync: Some(at), ..Faults::default() });
    let writes =
        (1..=counts.writes).map(|at| Faults { crash_at_write: Some(at), ..Faults::default() });
    let (mut done, mut undone) = (0, 0);
    for faults in syncs.chain(writes) {
        let disk = filled.reboot();
        let mut store = open(&disk).unwrap();
        disk.reset_counts();
        disk.set_faults(faults);
        assert!(store.archive(Seq(1201), &mut |_| {}).is_err(), "{faults:?}");
        for seed in 0..4 {
            let left = disk.crash(seed);
            let mut store = open(&left).unwrap();
            let told = format!("{faults:?}, seed {seed}");
            check(&store, &records, &told);
            let listed = store.reader().stats().unwrap().segments;
            let files = left.stat(Path::new(ARCHIVE)).unwrap();
            let files = files.map_or(0, |_| left.list(Path::new(ARCHIVE)).unwrap().len());
            assert_eq!(files as u64, listed, "{told}: a segment nobody lists");
            *(if listed > 0 { &mut done } else { &mut undone }) += 1;
            store.archive(Seq(1201), &mut |_| {}).unwrap();
            check(&store, &records, &told);
        }
    }
    assert!(done > 0 && undone > 0, "{done} archived, {undone} not");
}

#[test]
fn a_full_or_failing_disk_stops_the_archive_and_not_the_log() {
    let records = records(1..=1500, 30);
    let filled = filled(&records);
    for faults in [
        Faults { full_at_growth: Some(1), ..Faults::default() },
        Faults { fail_write: Some(2), ..Faults::default() },
        Faults { fail_sync: Some(2), ..Faults::default() },
    ] {
        let disk = filled.reboot();
        let mut store = open(&disk).unwrap();
        disk.reset_counts();
        disk.set_faults(faults);
        let error = store.archive(Seq(1201), &mut |_| {}).unwrap_err();
        assert!(matches!(error, LogError::Io { .. }), "{faults:?}: {error:?}");
        disk.set_faults(Faults::default());
        store.archive(Seq(1201), &mut |_| {}).unwrap();
        check(&store, &records, &format!("{faults:?}"));
    }
}

#[test]
fn a_missing_segment_stops_the_open_and_names_its_records() {
    let disk = filled(&records(1..=1500, 30));
    let mut store = open(&disk).unwrap();
    store.archive(Seq(901), &mut |_| {}).unwrap();
    drop(store);
    let name = disk.list(Path::new(ARCHIVE)).unwrap().remove(0);
    disk.remove_file(&Path::new(ARCHIVE).join(name)).unwrap();
    assert!(matches!(open(&disk), Err(LogError::Damaged { seq: Seq(1), .. })));
}

#[test]
fn every_flipped_byte_of_a_segment_is_found() {
    let records = records(1..=900, 30);
    let disk = filled(&records);
    let mut store = open(&disk).unwrap();
    store.archive(Seq(601), &mut |_| {}).unwrap();
    store.close().unwrap();
    let name = disk.list(Path::new(ARCHIVE)).unwrap().remove(0);
    let path = Path::new(ARCHIVE).join(name);
    let len = disk.stat(&path).unwrap().unwrap().len;
    for offset in (0..len).step_by(37).chain(0..30).chain(len - 20..len) {
        let disk = disk.reboot();
        disk.corrupt(&path, offset, 0x10).unwrap();
        let found = open(&disk).and_then(|store| store.reader().verify(Seq(1), None, &mut |_| {}));
        assert!(matches!(found, Err(LogError::Damaged { seq: Seq(1), .. })), "{offset}: {found:?}");
    }
}
