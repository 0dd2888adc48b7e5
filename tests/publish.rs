//! Publishing as a reader sees it: every visible data file has its manifest, after any fault.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "helpers of a test may panic, and it writes what it is about to break"
)]

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use summarizer::bus::{BusError, SummaryBus};
use summarizer::contract::hash::sha256;
use summarizer::contract::vocabulary::Stream;
use summarizer::export::publish::{Fallback, Mode, PublishError, Publisher};
use summarizer::os::real::HostDisk;
use summarizer::os::sim::{Faults, SimDisk};
use summarizer::os::{Disk, DiskFile, Open, Stat};

/// The host's disk that stops working at a chosen operation, or cannot swap two names.
struct Rigged {
    inner: HostDisk,
    can_swap: bool,
    left: AtomicU64,
}

impl Rigged {
    fn new(can_swap: bool, operations: u64) -> Arc<Rigged> {
        Arc::new(Rigged { inner: HostDisk, can_swap, left: AtomicU64::new(operations) })
    }

    fn step(&self) -> io::Result<()> {
        let left = self.left.load(Ordering::SeqCst);
        if left == 0 {
            return Err(io::Error::other("the power is gone"));
        }
        self.left.store(left - 1, Ordering::SeqCst);
        Ok(())
    }
}

impl Disk for Rigged {
    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn DiskFile>> {
        if !matches!(how, Open::Read | Open::ReadInPlace) {
            self.step()?;
        }
        self.inner.open(path, how)
    }
    fn stat(&self, path: &Path) -> io::Result<Option<Stat>> {
        self.inner.stat(path)
    }
    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.inner.list(dir)
    }
    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.step()?;
        self.inner.create_dir_all(dir)
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.step()?;
        self.inner.rename(from, to)
    }
    fn exchange(&self, a: &Path, b: &Path) -> io::Result<()> {
        self.step()?;
        match self.can_swap {
            true => self.inner.exchange(a, b),
            false => Err(io::ErrorKind::Unsupported.into()),
        }
    }
    fn hard_link(&self, existing: &Path, new: &Path) -> io::Result<()> {
        self.step()?;
        self.inner.hard_link(existing, new)
    }
    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.step()?;
        self.inner.remove_file(path)
    }
    fn remove_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.step()?;
        self.inner.remove_dir_all(dir)
    }
    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.step()?;
        self.inner.sync_dir(dir)
    }
    fn free_bytes(&self, path: &Path) -> io::Result<u64> {
        self.inner.free_bytes(path)
    }
}

fn manifest_of(data: &[u8]) -> Vec<u8> {
    let manifest = serde_json::json!({
        "schema_version": "events_summary_manifest.v1",
        "integrity": {"sha256": sha256(data).hex(), "bytes": data.len()},
    });
    manifest.to_string().into_bytes()
}

const DAYS: [&str; 3] = ["2026-02-09", "2026-02-10", "2026-02-11"];

fn files(day: &str) -> (String, String) {
    (
        format!("events/{day}.events.summary.jsonl"),
        format!("manifest/{day}.events.summary.manifest.json"),
    )
}

fn line(day: &str, version: u64) -> Vec<u8> {
    format!(
        "{{\"schema_version\":\"event_summary.v1\",\"summary_id\":\"{day}\",\"n\":{version}}}\n"
    )
    .into_bytes()
}

fn publish(publisher: &mut Publisher, version: u64, days: &[&str]) -> Result<(), PublishError> {
    let mut publication = publisher.begin()?;
    for day in days {
        let (data, manifest) = files(day);
        let bytes = line(day, version);
        publication.put(&data, &bytes)?;
        publication.put(&manifest, &manifest_of(&bytes))?;
    }
    publication.commit(|_| Ok::<(), io::Error>(()))
}

fn tree(root: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    fn walk(root: &Path, dir: &Path, found: &mut BTreeMap<PathBuf, Vec<u8>>) {
        for name in HostDisk.list(dir).unwrap_or_default() {
            let path = dir.join(name);
            if path.is_dir() {
                walk(root, &path, found);
            } else {
                found.insert(
                    path.strip_prefix(root).unwrap().to_owned(),
                    std::fs::read(&path).unwrap(),
                );
            }
        }
    }
    let mut found = BTreeMap::new();
    walk(root, root, &mut found);
    found
}

/// Every visible partition is complete, and all belong to the same publication.
fn consistent_version(home: &Path) -> Option<u64> {
    let bus = SummaryBus::open(home).ok()?;
    let mut versions = Vec::new();
    for day in bus.days(Stream::Events).unwrap() {
        let partition = bus.partition(Stream::Events, day).unwrap();
        let item = partition.items().next().unwrap().unwrap();
        versions.push(item.value["n"].as_u64().unwrap());
    }
    let visible = versions.len();
    versions.dedup();
    assert!(visible == 0 || (visible == DAYS.len() && versions.len() == 1), "{versions:?}");
    versions.first().copied()
}

#[test]
fn a_watcher_never_sees_a_mismatch() {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path().join("buses");
    let disk: Arc<dyn Disk> = Arc::new(HostDisk);
    let mut publisher =
        Publisher::open(disk, &home, "summaries", Fallback::DataThenManifest).unwrap();
    if publisher.mode() != Mode::Exchange {
        // Without an exchange of folders this does not hold, and the publisher reports that.
        return;
    }
    publish(&mut publisher, 0, &DAYS).unwrap();
    let stop = AtomicBool::new(false);
    let seen = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            let bus = SummaryBus::open(&home).unwrap();
            while !stop.load(Ordering::Relaxed) {
                for day in DAYS {
                    let partition = bus.partition(Stream::Events, day.parse().unwrap()).unwrap();
                    let item = partition.items().next().unwrap().unwrap();
                    assert_eq!(item.summary_id(), day);
                    seen.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
        let mut version = 0;
        while version < 2000 || seen.load(Ordering::Relaxed) < 1000 {
            version += 1;
            let day = DAYS[(version % 3) as usize];
            publish(&mut publisher, version, &[day]).unwrap();
            if watcher.is_finished() {
                break;
            }
        }
        stop.store(true, Ordering::Relaxed);
        watcher.join().unwrap();
    });
}

#[test]
fn a_crash_at_any_step_leaves_the_old_tree_or_the_new_one() {
    for can_swap in [true, false] {
        let mut survived = false;
        for operations in 0..400 {
            let dir = tempfile::tempdir().unwrap();
            let home = dir.path().join("buses");
            let open = |disk: Arc<Rigged>| {
                Publisher::open(disk, &home, "summaries", Fallback::DataThenManifest)
            };
            let mut publisher = open(Rigged::new(can_swap, u64::MAX)).unwrap();
            publish(&mut publisher, 1, &DAYS).unwrap();
            drop(publisher);

            let rigged = Rigged::new(can_swap, operations);
            let outcome = open(Arc::clone(&rigged))
                .and_then(|mut publisher| publish(&mut publisher, 2, &DAYS));
            if can_swap {
                let version = consistent_version(&home);
                assert!(matches!(version, Some(1 | 2)), "step {operations}: {version:?}");
            }
            survived = outcome.is_ok();

            // The next start brings everything into a consistent state, with or without a swap.
            let mut publisher = open(Rigged::new(can_swap, u64::MAX)).unwrap();
            let version = consistent_version(&home);
            assert!(matches!(version, Some(1 | 2)), "step {operations}: {version:?}");
            publish(&mut publisher, 3, &DAYS).unwrap();
            assert_eq!(consistent_version(&home), Some(3));
            assert_eq!(tree(&home.join("summaries")).len(), 2 * DAYS.len());
            if survived {
                break;
            }
        }
        assert!(survived, "the run never got through: raise the bound");
    }
}

/// Days of three streams. Each publication changes some of them.
const PLACES: [&str; 3] = ["events/a", "sessions/b", "chunk_sets/c"];
const PUBLICATIONS: [&[usize]; 5] = [&[0, 1, 2], &[0], &[1], &[0, 2], &[1]];

type Tree = BTreeMap<String, Vec<u8>>;

fn publish_places(publisher: &mut Publisher, number: usize) -> Result<(), PublishError> {
    let mut publication = publisher.begin()?;
    for place in PUBLICATIONS[number] {
        let bytes = line(PLACES[*place], number as u64);
        publication.put(&format!("{}.jsonl", PLACES[*place]), &bytes)?;
        let manifest = format!("manifest/{}.manifest.json", PLACES[*place].replace('/', "-"));
        publication.put(&manifest, &manifest_of(&bytes))?;
    }
    publication.commit(|_| Ok::<(), io::Error>(()))
}

fn simulated_tree(disk: &SimDisk) -> Tree {
    fn walk(disk: &SimDisk, dir: &Path, found: &mut Tree) {
        let shown: &dyn Disk = disk;
        for name in disk.list(dir).unwrap_or_default() {
            let path = dir.join(name);
            match disk.stat(&path).unwrap() {
                Some(stat) if stat.is_dir => walk(disk, &path, found),
                _ => drop(found.insert(path.display().to_string(), shown.read(&path).unwrap())),
            }
        }
    }
    let mut found = Tree::new();
    walk(disk, Path::new("/home/summaries"), &mut found);
    found
}

fn simulated(disk: &SimDisk) -> Result<Publisher, PublishError> {
    Publisher::open(Arc::new(disk.clone()), "/home", "summaries", Fallback::Refuse)
}

/// The publications from one on, each by a process that may be a new one; until the first error.
fn publish_from(disk: &SimDisk, first: usize, one_process: bool) -> Result<(), PublishError> {
    let mut publisher = simulated(disk)?;
    for number in first..PUBLICATIONS.len() {
        if !one_process {
            publisher = simulated(disk)?;
        }
        publish_places(&mut publisher, number)?;
    }
    Ok(())
}

/// The tree after each publication.
fn trees() -> Vec<Tree> {
    let disk = SimDisk::new();
    let mut publisher = simulated(&disk).unwrap();
    let publish = |number| {
        publish_places(&mut publisher, number).unwrap();
        simulated_tree(&disk)
    };
    (0..PUBLICATIONS.len()).map(publish).collect()
}

/// The disk may lose any part of what was not synced, also names in folders that a publication did not change.
#[test]
fn after_a_power_loss_at_any_sync_every_name_of_one_tree_is_there() {
    let trees = trees();
    for one_process in [true, false] {
        let start = SimDisk::new();
        publish_places(&mut simulated(&start).unwrap(), 0).unwrap();
        let clean = start.reboot();
        publish_from(&clean, 1, one_process).unwrap();
        let syncs = clean.counts().syncs;
        assert!(syncs > 20, "{syncs}");
        for seed in 0..40 {
            let left = simulated_tree(&clean.crash(seed));
            assert_eq!(Some(&left), trees.last(), "seed {seed}: it was published");
        }
        for at in 1..=syncs {
            let disk = start.reboot();
            disk.set_faults(Faults { crash_at_sync: Some(at), ..Faults::default() });
            assert!(publish_from(&disk, 1, one_process).is_err() && disk.has_crashed());
            for seed in 0..40 {
                let left = disk.crash(seed);
                let found = trees.iter().position(|tree| *tree == simulated_tree(&left));
                let found = found.unwrap_or_else(|| panic!("sync {at}, seed {seed}: no tree"));
                // The next start goes on from there.
                publish_from(&left, (found + 1).max(1), true).unwrap();
                let last = publish_places(&mut simulated(&left).unwrap(), PUBLICATIONS.len() - 1);
                assert_eq!((last.is_ok(), Some(&simulated_tree(&left))), (true, trees.last()));
            }
        }
    }
}

/// A publisher that goes on after a failed sync may not remove the tree that a power loss would bring back.
#[test]
fn a_power_loss_after_a_failed_sync_leaves_one_whole_tree() {
    let trees = trees();
    let start = SimDisk::new();
    publish_places(&mut simulated(&start).unwrap(), 0).unwrap();
    let clean = start.reboot();
    publish_from(&clean, 1, true).unwrap();
    for fails in 1..=clean.counts().syncs {
        for more in 1..12 {
            let disk = start.reboot();
            let faults = Faults { fail_sync: Some(fails), ..Faults::default() };
            disk.set_faults(Faults { crash_at_sync: Some(fails + more), ..faults });
            let Ok(mut publisher) = simulated(&disk) else { continue };
            let mut number = 1;
            for _ in 0..2 * PUBLICATIONS.len() {
                // What failed is tried again.
                number += usize::from(publish_places(&mut publisher, number).is_ok());
                if disk.has_crashed() || number == PUBLICATIONS.len() {
                    break;
                }
            }
            for seed in 0..20 {
                let left = simulated_tree(&disk.crash(seed));
                assert!(trees.contains(&left), "failed {fails}, lost {more} later, seed {seed}");
            }
        }
    }
}

/// A publication syncs its files, the folders that got names, and the two folders of the exchange.
#[test]
fn a_publication_syncs_only_the_folders_with_new_names() {
    let disk = SimDisk::new();
    let mut publisher = simulated(&disk).unwrap();
    publish_places(&mut publisher, 0).unwrap();
    let mut syncs_of = |number| {
        disk.reset_counts();
        publish_places(&mut publisher, number).unwrap();
        disk.counts().syncs
    };
    // All names of the first shadow are new: three folders of streams, of the manifests, and the root.
    let first = syncs_of(1);
    assert!(first > 6, "{first}");
    assert_eq!(syncs_of(1), 6, "two files, their folders, and the exchange");
    assert_eq!(syncs_of(2), 7, "and the folder that the publication before had changed");
}

/// A large file is synced while it is written. A failed early sync must be reported: the system counts
/// its pages as written although they are not.
#[test]
fn a_failed_early_sync_of_a_large_file_is_reported() {
    use std::io::Write as _;
    let piece = vec![7; 3 << 20];
    let written = |pieces: usize, fail_sync: Option<u64>| {
        let disk = SimDisk::new();
        let shared: Arc<dyn Disk> = Arc::new(disk.clone());
        let mut publisher =
            Publisher::open(shared, "/home", "summaries", Fallback::DataThenManifest).unwrap();
        let mut publication = publisher.begin().unwrap();
        let mut file = publication.create("events/large.jsonl").unwrap();
        disk.reset_counts();
        disk.set_faults(Faults { fail_sync, ..Faults::default() });
        for _ in 0..pieces {
            file.write_all(&piece).unwrap();
            file.write_all(b"\n").unwrap();
        }
        publication.finish(file)?;
        let syncs = disk.counts().syncs;
        publication.commit(|_| Ok::<(), String>(())).unwrap();
        // Only what was synced is left.
        let after: &dyn Disk = &disk.crash(0);
        let found = after.read(Path::new("/home/summaries/events/large.jsonl")).unwrap();
        assert!(found == [&piece[..], b"\n"].concat().repeat(pieces), "not what was written");
        Ok::<u64, PublishError>(syncs)
    };
    assert_eq!(written(2, None).unwrap(), 1);
    assert!(written(12, None).unwrap() >= 2);
    let error = written(12, Some(1)).unwrap_err();
    assert!(matches!(error, PublishError::Disk { operation: "sync", .. }), "{error}");
}

#[test]
fn readers_of_an_old_tree_keep_it_until_the_next_publication() {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path().join("buses");
    let disk: Arc<dyn Disk> = Arc::new(HostDisk);
    let mut publisher =
        Publisher::open(disk, &home, "summaries", Fallback::DataThenManifest).unwrap();
    publish(&mut publisher, 1, &DAYS).unwrap();
    if publisher.mode() != Mode::Exchange {
        return;
    }
    let handle = summarizer::os::dir::DirHandle::open(&home.join("summaries")).unwrap();
    publish(&mut publisher, 2, &DAYS[..1]).unwrap();
    let (data, manifest) = files(DAYS[0]);
    assert_eq!(handle.read(&data).unwrap(), line(DAYS[0], 1));
    assert_eq!(handle.read(&manifest).unwrap(), manifest_of(&line(DAYS[0], 1)));
}

#[test]
fn unchanged_files_keep_their_inode_and_removed_files_disappear() {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path().join("buses");
    let disk: Arc<dyn Disk> = Arc::new(HostDisk);
    let mut publisher =
        Publisher::open(disk, &home, "summaries", Fallback::DataThenManifest).unwrap();
    publish(&mut publisher, 1, &DAYS).unwrap();
    let inode = |day| {
        let path = home.join("summaries").join(files(day).0);
        HostDisk.stat(&path).unwrap().map(|stat| stat.inode)
    };
    let before = DAYS.map(inode);
    publish(&mut publisher, 2, &DAYS[..1]).unwrap();
    publish(&mut publisher, 3, &DAYS[..1]).unwrap();
    assert_eq!([inode(DAYS[1]), inode(DAYS[2])], [before[1], before[2]]);

    let mut publication = publisher.begin().unwrap();
    publication.remove(&files(DAYS[2]).0).unwrap();
    publication.remove(&files(DAYS[2]).1).unwrap();
    publication.commit(|_| Ok::<(), io::Error>(())).unwrap();
    assert_eq!(inode(DAYS[2]), None);
    publish(&mut publisher, 4, &DAYS[..1]).unwrap();
    assert_eq!(inode(DAYS[2]), None, "what was removed must not come back from the shadow");
}

#[test]
fn a_refused_publication_publishes_no_file() {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path().join("buses");
    let disk: Arc<dyn Disk> = Arc::new(HostDisk);
    let mut publisher =
        Publisher::open(disk, &home, "summaries", Fallback::DataThenManifest).unwrap();
    publish(&mut publisher, 1, &DAYS).unwrap();
    let before = tree(&home.join("summaries"));
    let mut publication = publisher.begin().unwrap();
    publication.put(&files(DAYS[0]).0, b"junk\n").unwrap();
    let error = publication.commit(|_| Err("no")).unwrap_err();
    assert!(matches!(error, PublishError::Invalid(_)), "{error}");
    assert_eq!(tree(&home.join("summaries")), before);
    publish(&mut publisher, 2, &DAYS).unwrap();
    assert_eq!(consistent_version(&home), Some(2));
}

#[test]
fn paths_stay_inside_and_weak_file_systems_can_be_refused() {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path().join("buses");
    let disk: Arc<dyn Disk> = Rigged::new(false, u64::MAX);
    let refused = Publisher::open(Arc::clone(&disk), &home, "index", Fallback::Refuse);
    assert!(matches!(refused, Err(PublishError::NotAtomic { .. })));
    let mut publisher = Publisher::open(disk, &home, "index", Fallback::DataThenManifest).unwrap();
    assert_eq!(publisher.mode(), Mode::DataThenManifest);
    let mut publication = publisher.begin().unwrap();
    for path in ["../x", "/x", "", "a/../../x"] {
        let error = publication.put(path, b"").unwrap_err();
        assert!(matches!(error, PublishError::BadPath { .. }), "{path}");
    }
}

#[test]
fn a_real_mismatch_is_an_error_not_an_endless_retry() {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path().join("buses");
    let disk: Arc<dyn Disk> = Arc::new(HostDisk);
    let mut publisher =
        Publisher::open(disk, &home, "summaries", Fallback::DataThenManifest).unwrap();
    publish(&mut publisher, 1, &DAYS).unwrap();
    let path = home.join("summaries").join(files(DAYS[0]).0);
    let disk: &dyn Disk = &HostDisk;
    disk.replace(&path, b"edited\n", 0o640).unwrap();
    let bus = SummaryBus::open(&home).unwrap();
    let error = bus.partition(Stream::Events, DAYS[0].parse().unwrap()).unwrap_err();
    assert!(matches!(error, BusError::Mismatch { .. }), "{error}");
    let error = bus.partition(Stream::Events, "2020-01-01".parse().unwrap()).unwrap_err();
    assert!(matches!(error, BusError::Missing { .. }), "{error}");
}
