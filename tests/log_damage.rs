//! A store that another program changed: the change is found and named, and never read as valid data.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test stops at the first surprise and makes its own files"
)]

#[path = "support/flow_home.rs"]
mod flow_home;
mod log_support;
#[path = "support/running.rs"]
mod running;
#[path = "support/server.rs"]
mod server;

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use flow_home::{FREE, Home, QUICK};
use log_support::{commit, open_on, payloads, records};
use redb::{Database, TableDefinition};
use summarizer::contract::hash::sha256;
use summarizer::contract::ids::{KeyIndex, Seq};
use summarizer::contract::time::Timestamp;
use summarizer::log::{ChainReport, Checkpoint, Commit, LogError, NewRecord, Options, Store};
use summarizer::os::Disk;
use summarizer::os::real::HostDisk;
use summarizer::os::sim::SimDisk;
use summarizer::upkeep::log_check::{LogCheck, LogTrouble, look};

const PATH: &str = "/store.redb";

fn open(disk: &SimDisk) -> Result<Store, LogError> {
    open_on(Arc::new(disk.clone()), Path::new(PATH))
}

fn verify(disk: &SimDisk) -> Result<ChainReport, LogError> {
    open(disk)?.reader().verify(Seq(1), None, &mut |_| {})
}

/// Bytes that do not compress, so that the test can find them in the file.
fn noise(number: u64, len: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    for round in 0u64.. {
        bytes.extend_from_slice(&sha256([number.to_le_bytes(), round.to_le_bytes()].concat()).0);
        if bytes.len() >= len {
            break;
        }
    }
    bytes
}

fn checkpoint(applied: u64) -> Checkpoint {
    let mut keys: Vec<_> =
        (1..=applied).map(|seq| (sha256(seq.to_le_bytes()).head(), seq)).collect();
    keys.sort();
    Checkpoint {
        rows: (1..=applied).map(|seq| (Seq(seq), noise(seq, 60))).collect(),
        open: vec![(Seq(2), Some(b"two".to_vec()))],
        keys: vec![(KeyIndex::Idempotency, keys)],
        documents: vec![("state".into(), Some(b"v1".to_vec()))],
        applied: Seq(applied),
    }
}

fn filled() -> SimDisk {
    let disk = SimDisk::new();
    let mut store = open(&disk).unwrap();
    let mut records = records(1..=400, 40);
    records[99].payload = noise(7, 3000);
    records[100].body = Some(noise(8, 3000));
    for (number, batch) in records.chunks(100).enumerate() {
        store.append(commit(number as u64 * 100 + 1, batch, b"m")).unwrap();
    }
    store.append(Commit { checkpoint: Some(checkpoint(400)), ..commit(401, &[], b"") }).unwrap();
    store.close().unwrap();
    disk
}

/// A body as it is stored.
fn sealed_body(disk: &SimDisk, seq: u64) -> Vec<u8> {
    use redb::ReadableDatabase as _;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("copy.redb");
    let disk: &dyn Disk = disk;
    std::fs::write(&path, disk.read(Path::new(PATH)).unwrap()).unwrap();
    let bodies: TableDefinition<u64, &[u8]> = TableDefinition::new("bodies");
    let database = Database::open(&path).unwrap();
    let table = database.begin_read().unwrap().open_table(bodies).unwrap();
    table.get(seq).unwrap().unwrap().value().to_vec()
}

fn find_in_file(disk: &SimDisk, needle: &[u8]) -> u64 {
    let disk: &dyn Disk = disk;
    let bytes = disk.read(Path::new(PATH)).unwrap();
    bytes.windows(needle.len()).position(|window| window == needle).unwrap() as u64
}

#[test]
fn a_flipped_byte_of_a_frame_names_its_first_record() {
    let disk = filled();
    let at = find_in_file(&disk, &noise(7, 3000)[1000..1200]);
    disk.corrupt(Path::new(PATH), at + 5, 1).unwrap();
    let found = verify(&disk);
    assert!(matches!(found, Err(LogError::Damaged { seq: Seq(1), .. })), "{found:?}");
    let store = open(&disk).unwrap();
    assert!(matches!(store.reader().get(Seq(50)), Err(LogError::Damaged { .. })));
    assert_eq!(store.reader().get(Seq(101)).unwrap().unwrap().seq, Seq(101));
    let mut seen = 0;
    let scanned = store.reader().scan(Seq(1), None, &mut |_| {
        seen += 1;
        ControlFlow::Continue(())
    });
    assert!(scanned.is_err() && seen == 0);
}

#[test]
fn a_flipped_byte_of_a_body_names_its_record() {
    let disk = filled();
    let sealed = sealed_body(&disk, 101);
    let at = find_in_file(&disk, &sealed[1000..1200]);
    disk.corrupt(Path::new(PATH), at, 0x80).unwrap();
    let found = verify(&disk);
    assert!(matches!(found, Err(LogError::Damaged { seq: Seq(101), .. })), "{found:?}");
    assert!(open(&disk).unwrap().reader().body(Seq(101)).is_err());
}

#[test]
fn damage_is_found_at_a_start_and_beside_a_service() {
    let disk = filled();
    let sound = open(&disk).unwrap();
    look(&sound.reader(), Timestamp(0)).unwrap();
    let watched = |store: &Store, found: Arc<dyn Fn() + Send + Sync>| {
        LogCheck::start(store.reader(), Arc::new(disk.clone()), PATH.into(), found).unwrap()
    };
    assert!(watched(&sound, Arc::new(|| panic!("a sound log"))).finish().is_none());
    let (tell, told) = crossbeam_channel::bounded(1);
    let gone = watched(&sound, Arc::new(move || tell.send(()).unwrap()));
    let whole = (&disk as &dyn Disk).read(Path::new(PATH)).unwrap();
    disk.remove_file(Path::new(PATH)).unwrap();
    told.recv_timeout(Duration::from_secs(60)).expect("the loss is told");
    assert!(matches!(gone.finish(), Some(LogTrouble::Gone { .. })));
    sound.close().unwrap();
    (&disk as &dyn Disk).replace(Path::new(PATH), &whole, 0o600).unwrap();

    let at = find_in_file(&disk, &noise(7, 3000)[1000..1200]);
    disk.corrupt(Path::new(PATH), at + 5, 1).unwrap();
    let damaged = open(&disk).unwrap();
    let found = look(&damaged.reader(), Timestamp(0));
    assert!(matches!(found, Err(LogError::Damaged { seq: Seq(1), .. })), "{found:?}");
    let (tell, told) = crossbeam_channel::bounded(1);
    let check = watched(&damaged, Arc::new(move || tell.send(()).unwrap()));
    told.recv_timeout(Duration::from_secs(60)).expect("the damage is told");
    let found = check.finish();
    assert!(matches!(found, Some(LogTrouble::Damaged(LogError::Damaged { .. }))), "{found:?}");
}

/// Calls every function of a reader.
fn content(store: &Store) -> Result<Vec<u8>, LogError> {
    let reader = store.reader();
    let mut all = format!("{:?}{:?}", reader.head(), reader.mark()).into_bytes();
    for (_, payload) in payloads(&reader, 1, None) {
        all.extend(payload);
    }
    for seq in 1..=400u64 {
        all.extend(reader.row(Seq(seq))?.unwrap_or_default());
        all.extend(reader.body(Seq(seq))?.unwrap_or_default());
        let found = reader.find(KeyIndex::Idempotency, &sha256(seq.to_le_bytes()).head())?;
        all.extend(found.unwrap_or(0).to_le_bytes());
    }
    reader.open_rows(&mut |_, row| {
        all.extend(row);
        ControlFlow::Continue(())
    })?;
    all.extend(reader.document("state")?.unwrap_or_default());
    Ok(all)
}

#[test]
fn a_flipped_bit_in_the_file_is_found_or_harmless() {
    let disk = filled();
    let whole = content(&open(&disk).unwrap()).unwrap();
    let len = disk.stat(Path::new(PATH)).unwrap().unwrap().len;
    let step = if std::env::var_os("CI_DEEP").is_some() { 61 } else { 1901 };
    let (mut found, mut harmless) = (0, 0);
    for offset in (0..len).step_by(step).chain((0..400).step_by(7)) {
        let disk = disk.reboot();
        disk.corrupt(Path::new(PATH), offset, 0x04).unwrap();
        let read = open(&disk).and_then(|mut store| {
            store.reader().verify(Seq(1), None, &mut |_| {})?;
            store.check_pages()?;
            content(&store)
        });
        match read {
            Ok(read) => {
                assert!(read == whole, "a flip at {offset} went unnoticed");
                harmless += 1;
            }
            Err(_) => found += 1,
        }
    }
    assert!(found > 20 && harmless > 0, "{found} found, {harmless} harmless");
}

#[test]
fn edited_records_do_not_verify_even_with_matching_checks() {
    // A valid frame of another store replaces a frame.
    let (ours, theirs) = (filled(), SimDisk::new());
    let mut store = open(&theirs).unwrap();
    let mut other: Vec<NewRecord> = records(1..=200, 400);
    other[150].payload[0] ^= 1;
    for (number, batch) in other.chunks(100).enumerate() {
        store.append(commit(number as u64 * 100 + 1, batch, b"m")).unwrap();
    }
    store.close().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let copy = |disk: &SimDisk, name: &str| {
        let disk: &dyn Disk = disk;
        let path = dir.path().join(name);
        std::fs::write(&path, disk.read(Path::new(PATH)).unwrap()).unwrap();
        let keys = |name: &String| name.ends_with(".keys");
        for name in disk.list(Path::new("/")).unwrap().iter().filter(|name| keys(name)) {
            let bytes = disk.read(&Path::new("/").join(name)).unwrap();
            std::fs::write(dir.path().join(name), bytes).unwrap();
        }
        path
    };
    let frames: TableDefinition<u64, &[u8]> = TableDefinition::new("frames");
    let path = copy(&ours, "ours.redb");
    {
        let ours = Database::open(&path).unwrap();
        let theirs = Database::open(copy(&theirs, "theirs.redb")).unwrap();
        use redb::ReadableDatabase as _;
        let read = theirs.begin_read().unwrap().open_table(frames).unwrap();
        let txn = ours.begin_write().unwrap();
        let frame = read.get(101).unwrap().unwrap().value().to_vec();
        txn.open_table(frames).unwrap().insert(101, &*frame).unwrap();
        txn.commit().unwrap();
    }
    let store = open_on(Arc::new(summarizer::os::real::HostDisk), &path).unwrap();
    let found = store.reader().verify(Seq(1), None, &mut |_| {});
    assert!(matches!(found, Err(LogError::Damaged { seq: Seq(101), .. })), "{found:?}");
}

#[test]
fn a_store_from_before_bodies_were_sealed_gets_keys_and_keeps_its_bodies() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store.redb");
    let disk: Arc<dyn Disk> = Arc::new(summarizer::os::real::HostDisk);
    let mut store = open_on(disk.clone(), &path).unwrap();
    let mut old = records(1..=3, 40);
    old[1].body = Some(b"words".to_vec());
    store.append(commit(1, &old, b"m")).unwrap();
    store.close().unwrap();
    for entry in std::fs::read_dir(dir.path()).unwrap() {
        let entry = entry.unwrap().path();
        if entry.extension().is_some_and(|kind| kind == "keys") {
            std::fs::remove_file(entry).unwrap();
        }
    }
    {
        let db = Database::open(&path).unwrap();
        let txn = db.begin_write().unwrap();
        let meta: TableDefinition<&str, &[u8]> = TableDefinition::new("meta");
        let bodies: TableDefinition<u64, &[u8]> = TableDefinition::new("bodies");
        let format = [1u32.to_le_bytes(), 0u32.to_le_bytes()].concat();
        txn.open_table(meta).unwrap().insert("format", &*format).unwrap();
        txn.open_table(meta).unwrap().remove("keys").unwrap();
        let head = [1, 0, 5, 0, 0, 0];
        let check = sha256([&2u64.to_le_bytes()[..], &head, b"words"].concat()).0;
        let body = [&head[..], &check[..8], b"words"].concat();
        txn.open_table(bodies).unwrap().insert(2, &*body).unwrap();
        txn.commit().unwrap();
    }
    for _ in 0..2 {
        let mut store = open_on(disk.clone(), &path).unwrap();
        let log = store.reader();
        assert_eq!(log.body(Seq(2)).unwrap().unwrap(), b"words");
        log.verify(Seq(1), None, &mut |_| {}).unwrap();
        let first = store.head().0.0 + 1;
        let mut next = records(first..=first, 40);
        next[0].body = Some(b"newer".to_vec());
        store.append(commit(first, &next, b"m")).unwrap();
        assert_eq!(store.reader().body(Seq(first)).unwrap().unwrap(), b"newer");
        store.close().unwrap();
    }
}

#[test]
fn a_newer_format_is_refused_and_unchanged() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store.redb");
    let disk: Arc<dyn Disk> = Arc::new(summarizer::os::real::HostDisk);
    open_on(disk.clone(), &path).unwrap().close().unwrap();
    {
        let db = Database::open(&path).unwrap();
        let txn = db.begin_write().unwrap();
        let meta: TableDefinition<&str, &[u8]> = TableDefinition::new("meta");
        let newer = [9u32.to_le_bytes(), 0u32.to_le_bytes()].concat();
        txn.open_table(meta).unwrap().insert("format", &*newer).unwrap();
        txn.commit().unwrap();
    }
    let error = open_on(disk.clone(), &path).err().unwrap();
    assert!(matches!(error, LogError::Newer { found: 9, supported: 2, .. }));
    let message = error.to_string();
    assert!(message.contains('9') && message.contains('2'), "{message}");
    assert!(matches!(open_on(disk, &path), Err(LogError::Newer { .. })), "still refused");
}

/// Changes a byte of the log so that every event can be read and the log is not what it was: in a body.
fn damage_a_body(home: &Home) {
    let path = home.path("run/summarizer.redb");
    let whole = std::fs::read(&path).unwrap();
    for at in (8192..whole.len()).step_by(97) {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        std::fs::write(&path, &bytes).unwrap();
        let options = Options::beside(&path);
        let disk: Arc<dyn Disk> = Arc::new(HostDisk);
        let Ok(store) = Store::open(disk, &path, options, [7; 16], &mut |_| {}) else { continue };
        let log = store.reader();
        let reads = log.scan(Seq(1), None, &mut |_| ControlFlow::Continue(())).is_ok();
        let is_damaged = reads && look(&log, Timestamp(0)).is_err();
        drop((log, store));
        if is_damaged {
            std::fs::write(&path, &bytes).unwrap();
            return;
        }
    }
    panic!("no byte of a body was found");
}

#[test]
fn no_command_builds_on_a_damaged_log() {
    let home = Home::new(QUICK);
    home.ask("note-1", FREE, "The bicycle stands in the cellar until Friday.");
    home.ok(&["drain"]);
    home.ok(&["digest", "build"]);
    damage_a_body(&home);
    let files = || {
        home.files().into_iter().filter(|(name, _)| name.starts_with("buses/")).collect::<Vec<_>>()
    };
    let before = files();
    let out = home.path("out");
    let copy = out.to_str().unwrap();
    for args in [
        &["drain"][..],
        &["digest", "build"],
        &["digest", "gc"],
        &["retain"],
        &["forget", "note-1.txt"],
        &["forget", "--dry-run", "note-1.txt"],
        &["export", "--repair"],
        &["export", "--to", copy],
        &["export", "--to", copy, "--stream", "documents"],
        &["log", "archive", "--before", "9"],
        &["queue", "adopt", "--from", "same-offset"],
        &["day", "open", "2026-02-19"],
        &["pause"],
        &["resume"],
        &["retry", "note-1"],
        &["cancel", "note-1"],
    ] {
        let ran = home.run(args);
        let said = String::from_utf8_lossy(&ran.stderr).into_owned();
        assert_eq!(ran.status.code(), Some(6), "{args:?}: {said}");
        assert!(said.contains("the log is damaged"), "{args:?}: {said}");
    }
    assert!(files() == before);
    assert!(!out.exists());
    // Looking is allowed.
    home.ok(&["read"]);
    home.ok(&["requests"]);
}
