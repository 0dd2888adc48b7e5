//! The random-key indexes against an ordered map, through checkpoints, merges and reopenings.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test stops at the first surprise and makes its own files"
)]

mod log_support;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use log_support::{commit, open_on, record};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use summarizer::contract::hash::sha256;
use summarizer::contract::ids::{KeyIndex, Seq};
use summarizer::log::{Checkpoint, Commit, Store};
use summarizer::os::sim::SimDisk;

const PATH: &str = "/store.redb";

fn digest(key: u32) -> [u8; 16] {
    match key {
        // The ends of the key space are keys like any other.
        0 => [0; 16],
        1 => [0xff; 16],
        other => sha256(other.to_le_bytes()).head(),
    }
}

fn add(store: &mut Store, index: KeyIndex, keys: &[(u32, u64)]) {
    let mut keys: Vec<_> = keys.iter().map(|(key, value)| (digest(*key), *value)).collect();
    keys.sort_by_key(|(digest, _)| *digest);
    let applied = store.head().0.next();
    let checkpoint =
        Some(Checkpoint { keys: vec![(index, keys)], applied, ..Checkpoint::default() });
    let records = [record(applied.0, false)];
    store.append(Commit { checkpoint, ..commit(applied.0, &records, b"") }).unwrap();
}

fn agrees(store: &Store, index: KeyIndex, model: &BTreeMap<u32, u64>, keys: u32) {
    let reader = store.reader();
    for key in 0..keys {
        let expected = model.get(&key).copied().filter(|value| *value != 0);
        assert_eq!(reader.find(index, &digest(key)).unwrap(), expected, "key {key}");
    }
    // Looking up many keys together, unsorted and repeated, gives the same as one by one.
    let mut asked: Vec<u32> = (0..keys).chain((0..keys).step_by(3)).collect();
    asked.sort_by_key(|key| sha256(format!("order of {key}")).0);
    let tables = reader.lookup().unwrap();
    assert_eq!(tables.applied(), reader.applied());
    let found = tables.find_all(index, asked.iter().map(|key| digest(*key))).unwrap();
    for (key, found) in asked.iter().zip(found) {
        let expected = model.get(key).copied().filter(|value| *value != 0);
        assert_eq!(found, expected, "key {key} among others");
    }
}

proptest! {
    // The same cases everywhere.
    #![proptest_config(ProptestConfig {
        cases: 12,
        rng_seed: RngSeed::Fixed(7),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn an_index_is_a_map(
        batches in prop::collection::vec(
            (prop::collection::vec((0u32..4000, 0u64..4), 1..2500), any::<bool>()),
            1..30,
        ),
    ) {
        let disk = Arc::new(SimDisk::new());
        let mut store = open_on(disk.clone(), Path::new(PATH)).unwrap();
        let mut model = BTreeMap::new();
        for (keys, reopen) in &batches {
            add(&mut store, KeyIndex::RequestId, keys);
            model.extend(keys.iter().copied());
            if *reopen {
                drop(store);
                store = open_on(disk.clone(), Path::new(PATH)).unwrap();
            }
        }
        agrees(&store, KeyIndex::RequestId, &model, 4000);
        store.reader().verify(Seq(1), None, &mut |_| {}).unwrap();
    }
}

#[test]
fn many_checkpoints_leave_few_segments_and_every_key() {
    let disk = Arc::new(SimDisk::new());
    let mut store = open_on(disk.clone(), Path::new(PATH)).unwrap();
    let reader = store.reader();
    let mut model = BTreeMap::new();
    let mut most = 0;
    // Large ones exceed what one checkpoint may merge, so merges stay unfinished over reopenings.
    for round in 0..120u32 {
        let size = if round % 40 == 7 { 30_000 } else { 300 };
        let from = round * 30_000;
        let keys: Vec<_> = (from..from + size).map(|key| (key, u64::from(key) + 1)).collect();
        add(&mut store, KeyIndex::Idempotency, &keys);
        model.extend(keys);
        most = most.max(reader.stats().map_or(0, |stats| stats.index_segments));
        if round % 10 == 9 {
            drop(store);
            store = open_on(disk.clone(), Path::new(PATH)).unwrap();
        }
        let reader = store.reader();
        for key in [0, 1, from, from + size - 1, 7 * 30_000 + 29_999] {
            let expected = model.get(&key).copied();
            let found = reader.find(KeyIndex::Idempotency, &digest(key)).unwrap();
            assert_eq!(found, expected, "key {key} after round {round}");
        }
    }
    let stats = store.reader().stats().unwrap();
    assert!(
        most.max(stats.index_segments) <= 20,
        "{most} index segments at most, {} at the end",
        stats.index_segments
    );
    let reader = store.reader();
    for (key, value) in model.iter().step_by(7) {
        assert_eq!(reader.find(KeyIndex::Idempotency, &digest(*key)).unwrap(), Some(*value));
    }
    let absent = (4_000_000u32..4_020_000)
        .filter(|key| reader.find(KeyIndex::Idempotency, &digest(*key)).unwrap().is_some());
    assert_eq!(absent.count(), 0);
}

#[test]
fn released_keys_leave_the_file_after_merges() {
    let disk = Arc::new(SimDisk::new());
    let mut store = open_on(disk, Path::new(PATH)).unwrap();
    let keys: Vec<_> = (0..3000).map(|key| (key, 1)).collect();
    let released: Vec<_> = (0..3000).map(|key| (key, 0)).collect();
    for _ in 0..4 {
        add(&mut store, KeyIndex::SummaryId, &keys);
        add(&mut store, KeyIndex::SummaryId, &released);
    }
    agrees(&store, KeyIndex::SummaryId, &BTreeMap::new(), 3000);
    let stats = store.reader().stats().unwrap();
    let chunks = stats.tables.iter().find(|table| table.name == "chunks").unwrap();
    assert!(chunks.entries <= 15, "{} chunks for no key at all", chunks.entries);
}

#[test]
fn readers_find_keys_while_the_writer_merges() {
    let disk = Arc::new(SimDisk::new());
    let mut store = open_on(disk, Path::new(PATH)).unwrap();
    add(&mut store, KeyIndex::Idempotency, &[(5, 55)]);
    let reader = store.reader();
    let (done, looks) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let looking = scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                assert_eq!(reader.find(KeyIndex::Idempotency, &digest(5)).unwrap(), Some(55));
                let tables = reader.lookup().unwrap();
                let keys = [5, 7, 100, 6].map(digest);
                let found = tables.find_all(KeyIndex::Idempotency, keys.into_iter()).unwrap();
                let first_round = (tables.applied() > Seq(1)).then_some(1);
                assert_eq!(found, [Some(55), None, first_round, None]);
                looks.fetch_add(1, Ordering::Relaxed);
            }
        });
        for round in 1..60u32 {
            let keys: Vec<_> = (round * 100..round * 100 + 90).map(|key| (key, 1)).collect();
            // The other thread reads between some of the rounds, however slow it is.
            let before = looks.load(Ordering::Relaxed);
            add(&mut store, KeyIndex::Idempotency, &keys);
            let looked = || looks.load(Ordering::Relaxed) > before || looking.is_finished();
            while round % 8 == 0 && !looked() {
                std::thread::yield_now();
            }
        }
        done.store(true, Ordering::Relaxed);
    });
}
