//! The cache of builds: used when it matches the log, read again when it does not.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::json;
use summarizer::digest::build::BuildOrder;
use summarizer::digest::cache::DigestCache;
use summarizer::digest::library::Library;
use summarizer::log::Cache;

use crate::world::{Made, World, a_month, made};

fn fields() -> BTreeSet<String> {
    BTreeSet::from(["project".to_owned()])
}

fn kept(world: &World, root: &Path) -> DigestCache {
    DigestCache::open(&world.disk, &root.join("run/kept.redb"), &world.reader())
}

/// A library as the next process would have it, and how many summaries it had to read.
fn next_process(world: &World, root: &Path) -> (Library, usize) {
    let mut kept = kept(world, root);
    let known = kept.library(&fields(), &Default::default(), 2);
    let mut library = known.unwrap_or_else(|| Library::with_fields(fields()));
    let more = library.read(&world.reader(), None, 2, &mut |_| {}).unwrap();
    kept.keep_library(&library);
    (library, more)
}

/// Everything a selector can see of a library.
fn seen(library: &Library) -> Vec<String> {
    let row = |unit: &summarizer::digest::library::Unit| {
        let words = |numbers: &[u32], words: &summarizer::digest::library::Words| -> Vec<String> {
            numbers.iter().map(|number| words.word(*number).to_owned()).collect()
        };
        format!(
            "{} {} {} {} {} {:?} {:?} {:?} {:?} {:?} {}",
            unit.seq,
            unit.summary_id(),
            unit.at,
            unit.day,
            unit.tasks,
            unit.publish,
            unit.stream,
            unit.project.map(|project| library.projects.word(project)),
            words(library.tags_of(unit), &library.tags),
            words(library.metas_of(unit), &library.metas),
            unit.confidence.is_nan(),
        )
    };
    library.units().iter().map(row).collect()
}

fn from_the_log(world: &World) -> Vec<String> {
    let mut library = Library::with_fields(fields());
    library.read(&world.reader(), None, 1, &mut |_| {}).unwrap();
    seen(&library)
}

#[test]
fn the_next_process_reads_only_new_events() {
    let home = tempfile::tempdir().unwrap();
    let mut world = World::new(home.path());
    let items = a_month();
    let (_, more) = next_process(&world, home.path());
    assert_eq!(more, 0, "there is nothing yet");
    // Sizes of all kinds, so that segments are appended and merged.
    let mut from = 0;
    for size in [1, 1, 3, 9, 1, 2, 1, 14, 1] {
        let part = &items[from..from + size];
        from += size;
        world.produce(part);
        let (library, more) = next_process(&world, home.path());
        assert_eq!(more, size, "only what is new");
        assert_eq!(seen(&library), from_the_log(&world));
    }
    let (library, more) = next_process(&world, home.path());
    assert_eq!((more, library.units().len()), (0, from));
    // A field nobody asked for before is read from the log.
    let wider = BTreeSet::from(["project".to_owned(), "stage".to_owned()]);
    assert!(kept(&world, home.path()).library(&wider, &Default::default(), 1).is_none());
}

#[test]
fn a_cache_of_another_log_is_ignored() {
    let home = tempfile::tempdir().unwrap();
    let root = home.path();
    let log = root.join("run/log.redb");
    let mut world = World::new(root);
    world.produce(&a_month()[..3]);
    drop(world);
    std::fs::copy(&log, root.join("earlier.redb")).unwrap();
    let mut world = World::new(root);
    world.produce(&a_month()[3..9]);
    assert_eq!(next_process(&world, root).1, 9);
    drop(world);
    // The log as it was some time ago: what is kept is ahead of it.
    std::fs::copy(root.join("earlier.redb"), &log).unwrap();
    let mut world = World::new(root);
    assert!(kept(&world, root).library(&fields(), &Default::default(), 1).is_none());
    // The new log continues differently.
    let other: Vec<Made> =
        (0..20).map(|n| made(&format!("o{n}"), "2026-02-03T01:00:00Z", &["o"], "")).collect();
    world.produce(&other);
    assert!(kept(&world, root).library(&fields(), &Default::default(), 1).is_none());
    let (library, more) = next_process(&world, root);
    assert_eq!((more, seen(&library)), (23, from_the_log(&world)));
    drop(world);
    // A log that was lost altogether.
    std::fs::remove_file(&log).unwrap();
    let world = World::new(root);
    let (library, more) = next_process(&world, root);
    assert_eq!((more, library.units().len()), (0, 0));
}

#[test]
fn a_damaged_cache_is_rebuilt_from_the_log() {
    let home = tempfile::tempdir().unwrap();
    let root = home.path();
    let mut world = World::new(root);
    world.produce(&a_month()[..9]);
    for key in ["digest.library", "digest.library.0"] {
        next_process(&world, root);
        let path = root.join("run/kept.redb");
        let cache = Cache::open(&world.disk, &path, "digest.v8").unwrap();
        let mut bytes = cache.get(key).unwrap().unwrap();
        bytes.truncate(bytes.len() / 2);
        cache.change([(key, Some(bytes.as_slice()))]).unwrap();
        drop(cache);
        let (library, more) = next_process(&world, root);
        assert_eq!((more, seen(&library)), (9, from_the_log(&world)), "{key}");
    }
    std::fs::write(root.join("run/kept.redb"), [1; 9000]).unwrap();
    assert_eq!(next_process(&world, root).1, 9, "a file that is no cache is made anew");
}

#[test]
fn a_build_from_the_cache_equals_a_build_from_the_log() {
    let home = tempfile::tempdir().unwrap();
    let root = home.path();
    let mut world = World::new(root);
    world.select(&[
        json!({"selector_id": "weekly", "group": {"by": "project"}}),
        json!({"selector_id": "tags", "bag_type": "tagbag", "group": {"by": "tag", "top": 3}}),
    ]);
    world.produce(&a_month()[..12]);
    let mut looked = Vec::new();
    for round in 0..4 {
        let mut kept = kept(&world, root);
        let mut digests = world.digests();
        if let Some((catalog, in_place)) = kept.catalog() {
            digests.go_on_from(catalog, in_place);
        }
        let before = digests.catalog().read_to();
        assert_eq!(before.0 > 0, round > 0, "the catalog was kept");
        let order = BuildOrder { record: false, ..world.order() };
        let report = world.build_with(&mut digests, &order).unwrap();
        kept.keep_catalog(digests.catalog(), digests.in_place(), true);
        assert_eq!(digests.in_place().len(), digests.catalog().entries().len());
        looked.push((report.published > 0, report.unchanged));
        if round == 1 {
            world.produce(&[made("late", "2026-02-04T10:00:00Z", &["automation"], "site")]);
        }
    }
    assert_eq!(looked, [(true, false), (false, true), (true, false), (false, true)]);
    let live = world.tree();
    let again = root.join("again");
    world.export(&again).unwrap();
    assert_eq!(crate::world::tree(world.disk.as_ref(), &again), live);
    assert_eq!(world.verify().violations, []);
    // A folder that went away is noticed although the catalog says that it was in place.
    let (_, _, path) = &world.bags("weekly")[0];
    std::fs::remove_dir_all(world.buses.join(path)).unwrap();
    let mut kept = kept(&world, root);
    let mut digests = world.digests();
    let (catalog, in_place) = kept.catalog().unwrap();
    digests.go_on_from(catalog, in_place);
    digests.publish(None, None).unwrap();
    assert_eq!(world.tree(), live);
}
