//! The store on a machine that loses power, fails, and runs out of space.
//!
//! A workload runs once to count disk operations, then once for each operation with the fault there.
//! After each run the disk is drawn several times from the possible results of a power loss. Each time
//! the store must open, verify, and hold whole commits: all acknowledged ones and at most one more.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test stops at the first surprise and makes its own files"
)]

mod log_support;

use std::path::Path;
use std::sync::Arc;

use log_support::{chain, commit, open_on, payloads, records};
use summarizer::contract::ids::{KeyIndex, Seq};
use summarizer::log::{Checkpoint, LogError, NewRecord, Reader, Store};
use summarizer::os::Disk as _;
use summarizer::os::sim::{Faults, SimDisk};

const PATH: &str = "/home/store.redb";
/// Records of each commit; every third carries a checkpoint of all before it.
const SIZES: [u64; 8] = [1, 40, 3, 700, 1, 200, 90, 2];

struct Workload {
    records: Vec<NewRecord>,
}

fn digest(number: u64) -> [u8; 16] {
    summarizer::contract::hash::sha256(number.to_le_bytes()).head()
}

fn checkpoint(applied: u64, since: u64) -> Checkpoint {
    let mut keys: Vec<_> = (since + 1..=applied).map(|seq| (digest(seq), seq)).collect();
    keys.sort();
    Checkpoint {
        rows: (since + 1..=applied).map(|seq| (Seq(seq), vec![b'r'; 40])).collect(),
        open: vec![(Seq(applied), Some(b"open".to_vec()))],
        keys: vec![(KeyIndex::Idempotency, keys)],
        documents: vec![("stands".into(), Some(applied.to_string().into_bytes()))],
        applied: Seq(applied),
    }
}

impl Workload {
    fn new() -> Workload {
        Workload { records: records(1..=SIZES.iter().sum(), 25) }
    }

    /// Appends commits until one fails and returns the number of acknowledged ones.
    fn run(&self, store: &mut Store) -> (usize, Option<LogError>) {
        let mut at = 0;
        let mut applied = 0;
        for (number, size) in SIZES.iter().enumerate() {
            let batch = &self.records[at..at + *size as usize];
            let mark = (number + 1).to_string();
            let mut commit = commit(at as u64 + 1, batch, mark.as_bytes());
            if number % 3 == 2 {
                commit.checkpoint = Some(checkpoint(at as u64, applied));
                applied = at as u64;
            }
            if let Err(error) = store.append(commit) {
                return (number, Some(error));
            }
            at += *size as usize;
        }
        (SIZES.len(), None)
    }

    /// Opens the remaining disk and compares it with the acknowledged commits.
    fn check(&self, disk: &SimDisk, acknowledged: usize, told: &str) -> usize {
        let store = open_on(Arc::new(disk.clone()), Path::new(PATH));
        let store = store.unwrap_or_else(|error| panic!("{told}: {error:?}"));
        let reader = store.reader();
        let head = reader.head().0.0;
        let ends: Vec<u64> = std::iter::once(0)
            .chain(SIZES.iter().scan(0, |sum, size| {
                *sum += size;
                Some(*sum)
            }))
            .collect();
        let commits = ends.iter().position(|end| *end == head);
        let commits = commits.unwrap_or_else(|| panic!("{told}: ends inside a commit at {head}"));
        assert!(commits >= acknowledged, "{told}: {acknowledged} acknowledged, {commits} left");
        assert!(commits <= acknowledged + 1, "{told}: {commits} of {acknowledged}");
        self.check_content(&reader, head, commits, told);
        commits
    }

    fn check_content(&self, reader: &Reader, head: u64, commits: usize, told: &str) {
        let report = reader.verify(Seq(1), None, &mut |_| {});
        assert_eq!(report.unwrap_or_else(|error| panic!("{told}: {error}")).records, head);
        if head > 0 {
            assert_eq!(reader.head().1, chain(&self.records[..head as usize])[head as usize - 1]);
            assert_eq!(reader.mark(), commits.to_string().as_bytes(), "{told}");
        }
        let stored = payloads(reader, 1, None);
        assert!(stored.iter().zip(&self.records).all(|((_, left), right)| *left == right.payload));
        let applied = reader.applied().0;
        if applied > 0 {
            assert_eq!(reader.document("stands").unwrap().unwrap(), applied.to_string().as_bytes());
            assert_eq!(reader.row(Seq(applied)).unwrap().unwrap(), vec![b'r'; 40]);
            let found = reader.find(KeyIndex::Idempotency, &digest(applied)).unwrap();
            assert_eq!(found, Some(applied), "{told}");
        }
        assert_eq!(reader.find(KeyIndex::Idempotency, &digest(applied + 1)).unwrap(), None);
    }

    /// Continues at the end of the log, as a restarted service does.
    fn resume(&self, disk: &SimDisk, commits: usize, told: &str) {
        let mut store = open_on(Arc::new(disk.clone()), Path::new(PATH)).unwrap();
        let head = store.head().0.0;
        let rest = &self.records[head as usize..];
        store
            .append(commit(head + 1, rest, SIZES.len().to_string().as_bytes()))
            .unwrap_or_else(|error| panic!("{told}, after {commits}: {error}"));
        self.check_content(&store.reader(), self.records.len() as u64, SIZES.len(), told);
    }
}

fn fresh() -> SimDisk {
    let disk = SimDisk::new();
    disk.create_dir_all(Path::new("/home")).unwrap();
    disk.reset_counts();
    disk
}

/// Runs the workload with a fault and returns the disk, the acknowledged commits and the error.
fn run(workload: &Workload, faults: Faults) -> (SimDisk, usize, Option<LogError>) {
    let disk = fresh();
    disk.set_faults(faults);
    let (acknowledged, error) = match open_on(Arc::new(disk.clone()), Path::new(PATH)) {
        Ok(mut store) => {
            let (acknowledged, error) = workload.run(&mut store);
            if error.is_some() {
                assert!(matches!(store.append(commit(1, &[], b"x")), Err(LogError::Poisoned)));
                assert!(matches!(store.reader().get(Seq(1)), Err(LogError::Poisoned)));
            }
            (acknowledged, error)
        }
        Err(error) => (0, Some(error)),
    };
    (disk, acknowledged, error)
}

/// Number of disks drawn for each crash.
fn draws() -> u64 {
    if std::env::var_os("CI_DEEP").is_some() { 40 } else { 5 }
}

#[test]
fn power_loss_at_every_sync_and_write_loses_nothing_acknowledged() {
    let workload = Workload::new();
    let (clean, acknowledged, error) = run(&workload, Faults::default());
    assert!(error.is_none() && acknowledged == SIZES.len(), "{error:?}");
    let counts = clean.counts();
    assert!(counts.syncs > 16 && counts.writes > 100, "{counts:?}");
    let mut extra = 0;
    let deep = std::env::var_os("CI_DEEP").is_some();
    let syncs =
        (1..=counts.syncs).map(|at| Faults { crash_at_sync: Some(at), ..Faults::default() });
    let writes = (1..=counts.writes)
        .step_by(if deep { 1 } else { 5 })
        .map(|at| Faults { crash_at_write: Some(at), ..Faults::default() });
    for faults in syncs.chain(writes) {
        let (disk, acknowledged, _) = run(&workload, faults);
        for seed in 0..draws() {
            let left = disk.crash(seed + 1000 * u64::from(seed > 1));
            let told = format!("{faults:?}, seed {seed}");
            let commits = workload.check(&left, acknowledged, &told);
            extra += usize::from(commits > acknowledged);
            if seed == 2 {
                workload.resume(&left.reboot(), commits, &told);
            }
        }
    }
    assert!(extra > 0, "no draw kept a commit that was never acknowledged");
}

#[test]
fn power_loss_during_recovery_is_recovered_from() {
    let workload = Workload::new();
    let (_, _, _) = run(&workload, Faults::default());
    for at in [6, 9, 14] {
        let (disk, acknowledged, _) =
            run(&workload, Faults { crash_at_sync: Some(at), ..Faults::default() });
        let left = disk.crash(7);
        let counted = left.reboot();
        counted.reset_counts();
        workload.check(&counted, acknowledged, "counting");
        for again in 1..=counted.counts().syncs {
            let left = left.reboot();
            left.set_faults(Faults { crash_at_sync: Some(again), ..Faults::default() });
            drop(open_on(Arc::new(left.clone()), Path::new(PATH)));
            for seed in 0..draws() {
                let told = format!("sync {at}, then sync {again}, seed {seed}");
                workload.check(&left.crash(seed), acknowledged, &told);
            }
        }
    }
}

#[test]
fn a_failed_write_or_sync_poisons_the_store_until_a_reopen() {
    let workload = Workload::new();
    let counts = run(&workload, Faults::default()).0.counts();
    let deep = std::env::var_os("CI_DEEP").is_some();
    let writes = (1..=counts.writes)
        .step_by(if deep { 1 } else { 5 })
        .map(|at| Faults { fail_write: Some(at), ..Faults::default() });
    let syncs = (1..=counts.syncs).map(|at| Faults { fail_sync: Some(at), ..Faults::default() });
    for faults in writes.chain(syncs) {
        let (disk, acknowledged, error) = run(&workload, faults);
        if let Some(error) = error {
            assert!(matches!(error, LogError::Io { .. }), "{faults:?}: {error:?}");
        }
        // The process continues or dies, and later the machine may lose power.
        disk.set_faults(Faults::default());
        for seed in 0..draws() {
            workload.check(&disk.crash(seed), acknowledged, &format!("{faults:?}, seed {seed}"));
        }
        let commits = workload.check(&disk, acknowledged, &format!("{faults:?}, no power loss"));
        workload.resume(&disk, commits, &format!("{faults:?}"));
    }
}

#[test]
fn a_full_disk_stops_cleanly_and_recovers() {
    let workload = Workload::new();
    let counts = run(&workload, Faults::default()).0.counts();
    assert!(counts.growths > 0);
    let mut refused = 0;
    for at in 1..=counts.growths {
        let faults = Faults { full_at_growth: Some(at), ..Faults::default() };
        let (disk, acknowledged, error) = run(&workload, faults);
        if let Some(error) = error {
            assert!(error.is_full(), "{faults:?}: {error:?}");
            refused += 1;
        }
        disk.set_faults(Faults::default());
        let commits = workload.check(&disk, acknowledged, &format!("{faults:?}"));
        workload.resume(&disk, commits, &format!("{faults:?}"));
    }
    assert!(refused > 0);
}

#[test]
fn two_openers_on_one_disk_do_not_share_it() {
    let disk = fresh();
    let store = open_on(Arc::new(disk.clone()), Path::new(PATH)).unwrap();
    let second = open_on(Arc::new(disk.clone()), Path::new(PATH));
    assert!(matches!(second, Err(LogError::Busy)));
    store.close().unwrap();
    open_on(Arc::new(disk), Path::new(PATH)).unwrap();
}
