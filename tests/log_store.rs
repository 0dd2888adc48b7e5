//! The store on a real disk: commits, reads, checkpoints, marks, reopening.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test stops at the first surprise and makes its own files"
)]

mod log_support;

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use log_support::{ID, chain, commit, open_on, payloads, record, records};
use summarizer::contract::ids::{KeyIndex, Seq};
use summarizer::contract::time::Timestamp;
use summarizer::log::{
    Checkpoint, Commit, LogError, NewRecord, ReadError, Reader, Store, codec, genesis,
};
use summarizer::os::real::HostDisk;
use summarizer::state::event::Event;

fn open(path: &Path) -> Result<Store, LogError> {
    open_on(Arc::new(HostDisk), path)
}

#[test]
fn committed_records_are_readable_before_and_after_a_reopen() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store.redb");
    let mut store = open(&path).unwrap();
    let reader = store.reader();
    assert_eq!(store.head(), (Seq(0), genesis(ID)));
    let records = records(1..=3000, 100);
    let mut first = 1;
    for (batch, mark) in records.chunks(1100).zip(["a", "", "c"]) {
        let appended = store.append(commit(first, batch, mark.as_bytes())).unwrap();
        first += batch.len() as u64;
        assert_eq!(appended.head.0, Seq(first - 1));
        assert_eq!(appended.hashes.last(), Some(&appended.head.1));
        assert_eq!(reader.head(), appended.head);
    }
    let hashes = chain(&records);
    let head = (Seq(3000), hashes[2999]);
    assert_eq!(store.head(), head);

    let check = |reader: &Reader| {
        let expected: Vec<_> = (1..).zip(records.iter().map(|r| r.payload.clone())).collect();
        assert_eq!(payloads(reader, 1, None), expected);
        assert_eq!(payloads(reader, 900, Some(1200)), expected[899..1200]);
        assert_eq!(payloads(reader, 3001, None), []);
        for seq in [1u64, 2, 700, 1100, 1101, 3000] {
            let found = reader.get(Seq(seq)).unwrap().unwrap();
            let wanted = &records[seq as usize - 1];
            assert_eq!((found.seq, &found.payload), (Seq(seq), &wanted.payload));
            assert_eq!((found.at, found.tag), (wanted.at, wanted.tag));
            assert_eq!(found.hash, hashes[seq as usize - 1]);
            assert_eq!(reader.body(Seq(seq)).unwrap(), wanted.body);
        }
        assert_eq!(reader.get(Seq(0)).unwrap(), None);
        assert_eq!(reader.get(Seq(3001)).unwrap(), None);
        assert_eq!(reader.mark(), b"c");
        let mut entry_hashes = Vec::new();
        reader
            .scan(Seq(1), None, &mut |entry| {
                // Asked twice and not for every record: the answer is the same.
                if entry.seq.0 % 3 == 0 {
                    assert_eq!(entry.hash(), entry.to_record().hash);
                    entry_hashes.push((entry.seq.0, entry.hash()));
                }
                ControlFlow::Continue(())
            })
            .unwrap();
        assert!(entry_hashes.iter().all(|(seq, hash)| *hash == hashes[*seq as usize - 1]));
        let report = reader.verify(Seq(1), None, &mut |_| {}).unwrap();
        assert_eq!((report.records, report.bodies, report.last), (3000, 30, reader.head()));
        reader.verify_anchor(Seq(1100), hashes[1099]).unwrap();
        assert!(reader.verify_anchor(Seq(1100), hashes[1098]).is_err());
        assert!(reader.verify_anchor(Seq(3001), hashes[0]).is_err());
    };
    check(&reader);
    drop(store);
    assert!(matches!(reader.get(Seq(2999)), Err(LogError::Closed)));
    let store = open(&path).unwrap();
    check(&store.reader());
    assert_eq!(store.head(), head);
    store.close().unwrap();
}

#[test]
fn a_wrong_position_is_refused_without_poisoning_the_store() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store.redb");
    let mut store = open(&path).unwrap();
    let records = [record(1, false)];
    let wrong = store.append(commit(2, &records, b""));
    assert!(matches!(wrong, Err(LogError::Position { actual: Seq(1), .. })), "{wrong:?}");
    let ahead = Checkpoint { applied: Seq(2), ..Checkpoint::default() };
    let ahead = Commit { checkpoint: Some(ahead), ..commit(1, &records, b"") };
    assert!(matches!(store.append(ahead), Err(LogError::Invalid(_))));
    store.append(commit(1, &records, b"")).unwrap();
    assert_eq!(store.head().0, Seq(1));
}

#[test]
fn a_checkpoint_is_readable_and_survives() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store.redb");
    let mut store = open(&path).unwrap();
    let reader = store.reader();
    let first = records(1..=4, 9);
    let checkpoint = Checkpoint {
        rows: vec![(Seq(1), b"one".to_vec()), (Seq(3), b"three".to_vec())],
        open: vec![(Seq(2), Some(b"two".to_vec())), (Seq(4), Some(b"four".to_vec()))],
        keys: vec![(KeyIndex::Idempotency, vec![([1; 16], 10), ([2; 16], 5), ([2; 16], 20)])],
        documents: vec![("fingerprint".into(), Some(b"v1".to_vec()))],
        applied: Seq(4),
    };
    store.append(Commit { checkpoint: Some(checkpoint), ..commit(1, &first, b"here") }).unwrap();
    let second = Checkpoint {
        rows: vec![(Seq(1), b"uno".to_vec()), (Seq(4), b"four".to_vec())],
        open: vec![(Seq(2), None)],
        keys: vec![(KeyIndex::Idempotency, vec![([1; 16], 0)])],
        documents: vec![("gone".into(), None)],
        applied: Seq(5),
    };
    let fifth = records(5..=5, 9);
    store.append(Commit { checkpoint: Some(second), ..commit(5, &fifth, b"") }).unwrap();
    store.append(commit(6, &[], b"further")).unwrap();
    let check = |reader: &Reader| {
        assert_eq!(reader.row(Seq(1)).unwrap().unwrap(), b"uno");
        assert_eq!(reader.row(Seq(2)).unwrap(), None);
        let mut rows = Vec::new();
        reader
            .rows(Seq(2), &mut |seq, row| {
                rows.push((seq.0, row.to_vec()));
                ControlFlow::Continue(())
            })
            .unwrap();
        assert_eq!(rows, [(3, b"three".to_vec()), (4, b"four".to_vec())]);
        let mut open = Vec::new();
        reader
            .open_rows(&mut |seq, row| {
                open.push((seq.0, row.to_vec()));
                ControlFlow::Continue(())
            })
            .unwrap();
        assert_eq!(open, [(4, b"four".to_vec())]);
        let find = |digest: [u8; 16]| reader.find(KeyIndex::Idempotency, &digest).unwrap();
        assert_eq!((find([1; 16]), find([2; 16]), find([3; 16])), (None, Some(20), None));
        assert_eq!(reader.find(KeyIndex::RequestId, &[2; 16]).unwrap(), None);
        assert_eq!(reader.document("fingerprint").unwrap().unwrap(), b"v1");
        assert_eq!(reader.document("gone").unwrap(), None);
        assert_eq!((reader.applied(), reader.mark()), (Seq(5), b"further".to_vec()));
    };
    check(&reader);
    drop(store);
    let mut store = open(&path).unwrap();
    check(&store.reader());
    // A mark in a later frame wins over the noted one, an empty one does not.
    let more = records(6..=7, 9);
    store.append(commit(6, &more[..1], b"newer")).unwrap();
    store.append(commit(7, &more[1..], b"")).unwrap();
    drop(store);
    assert_eq!(open(&path).unwrap().reader().mark(), b"newer");
}

#[test]
fn a_second_open_reports_a_busy_store() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store.redb");
    let store = open(&path).unwrap();
    assert!(matches!(open(&path), Err(LogError::Busy)));
    drop(store);
    open(&path).unwrap();
}

#[test]
fn a_file_of_another_kind_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store.redb");
    for content in ["", "not a store, only text that somebody put here"] {
        std::fs::write(&path, content).unwrap();
        assert!(matches!(open(&path), Err(LogError::NotAStore(_))), "{:?}", open(&path).err());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), content);
    }
}

#[test]
fn the_sizes_of_the_parts_add_up_to_the_total() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store.redb");
    let mut store = open(&path).unwrap();
    store.append(commit(1, &records(1..=2000, 2000), b"m")).unwrap();
    let stats = store.reader().stats().unwrap();
    assert!(stats.frames > 3, "a large commit is several frames: {stats:?}");
    assert!(stats.raw_bytes > 2000 * 200 && stats.frame_bytes * 4 < stats.raw_bytes, "{stats:?}");
    let table = |name: &str| stats.tables.iter().find(|table| table.name == name).unwrap();
    assert_eq!((table("frames").entries, table("bodies").entries), (stats.frames, 1));
    assert!(stats.file_bytes > stats.frame_bytes);
}

#[test]
fn an_error_ends_a_scan_and_names_its_event() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(&dir.path().join("store.redb")).unwrap();
    let events = [Seq(1), Seq(2), Seq(3)].map(|request| Event::DelayEnded { request });
    let mut records = events.clone().map(|event| {
        let (tag, version, payload) = codec::encode(&event);
        NewRecord { at: Timestamp(0), tag, version, payload, body: None }
    });
    records[1].payload.push(0);
    store.append(commit(1, &records, b"")).unwrap();
    let reader = store.reader();

    let mut seen = Vec::new();
    let scanned = reader.try_scan::<ReadError>(Seq(1), None, |entry| {
        seen.push((entry.seq, entry.event()?));
        Ok(ControlFlow::Continue(()))
    });
    let error = scanned.unwrap_err();
    assert!(matches!(error, ReadError::Event { seq: Seq(2), .. }), "{error:?}");
    assert_eq!(error.to_string(), "read event 2");
    assert_eq!(seen, [(Seq(1), events[0].clone())]);

    assert_eq!(reader.event(Seq(3)).unwrap(), Some(events[2].clone()));
    assert_eq!(reader.get(Seq(3)).unwrap().unwrap().event().unwrap(), events[2]);
    assert!(matches!(reader.event(Seq(2)), Err(ReadError::Event { seq: Seq(2), .. })));
}
