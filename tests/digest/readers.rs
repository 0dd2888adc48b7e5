//! Readers that follow the indexes only, while builds publish and remove under them.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use serde_json::json;
use summarizer::bus::BusError;
use summarizer::bus::digests::DigestBus;
use summarizer::contract::hash::sha256;

use crate::running::until;
use crate::world::{World, a_month, made};

/// Reads everything the indexes name; a bag may only be gone when newer indexes do not name it.
pub fn read_all(buses: &Path) -> (u64, Vec<u8>) {
    let bus = DigestBus::open(buses).unwrap();
    let indexes = bus.indexes().unwrap();
    let mut read = 0;
    for entry in indexes.entries() {
        match bus.bag(&entry) {
            Ok(bag) => {
                assert_eq!(bag.meta["bag_id"], entry.bag_id.as_str());
                assert_eq!(bag.memos().unwrap().len() as u64, entry.published_memos);
                for memo in bag.memos().unwrap() {
                    let hash = memo.meta["integrity"]["md_sha256"].as_str().unwrap();
                    assert_eq!(sha256(&memo.markdown).hex(), hash);
                }
                read += 1;
            }
            Err(BusError::Missing { path }) => {
                let now = bus.indexes().unwrap().entries();
                assert!(!now.contains(&entry), "{path} is named and gone");
            }
            Err(error) => panic!("{error}"),
        }
    }
    (read, indexes.sums().to_vec())
}

#[test]
fn readers_never_see_half_a_publication() {
    let home = tempfile::tempdir().unwrap();
    let mut world = World::new(home.path());
    world.select(&[
        json!({"selector_id": "weekly", "group": {"by": "project"}}),
        json!({"selector_id": "tags", "bag_type": "tagbag", "group": {"by": "tag", "top": 3}}),
    ]);
    world.produce(&a_month()[..8]);
    world.build().unwrap();
    let (stop, reads) = (AtomicBool::new(false), AtomicU64::new(0));
    let passes = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let buses = world.buses.clone();
        let reader = scope.spawn(|| {
            let mut seen = BTreeSet::new();
            let buses = buses;
            while !stop.load(Ordering::Acquire) {
                let (read, sums) = read_all(&buses);
                reads.fetch_add(read, Ordering::Relaxed);
                seen.insert(sums);
                passes.fetch_add(1, Ordering::Relaxed);
            }
            seen.len()
        });
        for round in 0..12 {
            let name = format!("new-{round}");
            world.produce(&[made(&name, "2026-02-10T10:00:00Z", &["automation"], "site")]);
            world.build().unwrap();
            if round % 3 == 2 {
                world.gc();
            }
            // The reader sees each publication: one pass may have begun before it, but not the next one.
            let before = passes.load(Ordering::Relaxed);
            until("the reader went through twice", || {
                reader.is_finished() || passes.load(Ordering::Relaxed) >= before + 2
            });
        }
        stop.store(true, Ordering::Release);
        let publications = reader.join().unwrap();
        assert!(publications >= 12, "the reader met {publications} publications");
    });
    assert!(reads.load(Ordering::Relaxed) > 10);
}

#[test]
fn the_reader_follows_the_indexes() {
    let home = tempfile::tempdir().unwrap();
    let mut world = World::new(home.path());
    world.select(&[json!({"selector_id": "weekly", "group": {"by": "project"},
                          "exports": ["items.jsonl"]})]);
    world.produce(&a_month());
    world.build().unwrap();
    let bus = DigestBus::open(&world.buses).unwrap();
    let indexes = bus.indexes().unwrap();
    assert_eq!(indexes.windows(), ["2026-W06", "2026-W07", "2026-W08"]);
    let week = indexes.window("2026-W07");
    assert_eq!(week.len(), 2);
    let bag = bus.bag(&week[0]).unwrap();
    let items = String::from_utf8(bag.bytes("data/items.jsonl").unwrap().to_vec()).unwrap();
    assert_eq!(items.lines().count() as u64, bag.meta["counts"]["selected"].as_u64().unwrap());
    assert!(indexes.file("l2_latest.json").is_some() && indexes.window("nowhen").is_empty());
    // One changed byte anywhere in a bag is found.
    let memo = world.buses.join(&week[0].path).join("memo/cohort__shop.md");
    let text = std::fs::read_to_string(&memo).unwrap();
    std::fs::write(&memo, text.replacen("shop", "shoP", 1)).unwrap();
    assert!(matches!(bus.bag(&week[0]), Err(BusError::Mismatch { .. })));
    // And one in an index too.
    let index = world.buses.join("index/l2_by_window.json");
    let text = std::fs::read_to_string(&index).unwrap();
    std::fs::write(&index, text.replacen("2026-W07", "2026-W09", 1)).unwrap();
    assert!(matches!(bus.indexes(), Err(BusError::Mismatch { .. })));
    let nowhere = tempfile::tempdir().unwrap();
    assert!(matches!(DigestBus::open(nowhere.path()), Err(BusError::Missing { .. })));
}
