//! Caches on a failing disk and caches that are damaged while a service works: what is published stays the same, and no
//! attempt fails.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use serde_json::Value;
use summarizer::config::{Config, Exports};
use summarizer::home::Home;
use summarizer::log::{Options, Store};
use summarizer::os::{Disk, DiskFile, Machine, Open, Stat};
use summarizer::projections::exporters;
use summarizer::projections::projection::Site;
use summarizer::upstream::family::Family;
use summarizer::upstream::index::Section;
use summarizer::upstream::{Upstream, index_of_home};

use super::exporters::with_everything;
use super::support::Rng;
use super::support::process::Running;
use super::support::requests::lines;
use super::support::running::until;
use super::*;

/// What fails of the files of caches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    Read,
    /// A read that gives a wrong bit.
    Flip,
    Write,
    Sync,
    /// Opening, naming and removing.
    Name,
}

/// When it fails: at an operation of its kind, and whether also at those after it.
struct Plan {
    fault: Fault,
    left: AtomicI64,
    stays: bool,
}

impl Plan {
    fn meets(&self, fault: Fault) -> io::Result<()> {
        if fault != self.fault {
            return Ok(());
        }
        let left = self.left.fetch_sub(1, Ordering::Relaxed);
        match left == 0 || left < 0 && self.stays {
            true => Err(io::Error::from_raw_os_error(5)),
            false => Ok(()),
        }
    }
}

/// The disk of the machine, on which the files of caches fail.
#[derive(Clone)]
struct Ailing {
    whole: Arc<dyn Disk>,
    plan: Arc<Plan>,
}

impl Ailing {
    fn meets(&self, path: &Path, fault: Fault) -> io::Result<()> {
        match path.to_string_lossy().contains("-index.redb") {
            true => self.plan.meets(fault),
            false => Ok(()),
        }
    }
}

impl Disk for Ailing {
    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn DiskFile>> {
        self.meets(path, Fault::Name)?;
        let file = self.whole.open(path, how)?;
        match path.to_string_lossy().contains("-index.redb") {
            true => Ok(Arc::new(AilingFile { file, plan: Arc::clone(&self.plan) })),
            false => Ok(file),
        }
    }

    fn stat(&self, path: &Path) -> io::Result<Option<Stat>> {
        self.meets(path, Fault::Name)?;
        self.whole.stat(path)
    }

    fn real_path(&self, path: &Path) -> io::Result<PathBuf> {
        self.whole.real_path(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.whole.list(dir)
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.whole.create_dir_all(dir)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.meets(to, Fault::Name)?;
        self.whole.rename(from, to)
    }

    fn exchange(&self, a: &Path, b: &Path) -> io::Result<()> {
        self.whole.exchange(a, b)
    }

    fn hard_link(&self, existing: &Path, new: &Path) -> io::Result<()> {
        self.whole.hard_link(existing, new)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.meets(path, Fault::Name)?;
        self.whole.remove_file(path)
    }

    fn remove_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.whole.remove_dir_all(dir)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.whole.sync_dir(dir)
    }

    fn free_bytes(&self, path: &Path) -> io::Result<u64> {
        self.whole.free_bytes(path)
    }
}

struct AilingFile {
    file: Arc<dyn DiskFile>,
    plan: Arc<Plan>,
}

impl DiskFile for AilingFile {
    fn stat(&self) -> io::Result<Stat> {
        self.file.stat()
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.plan.meets(Fault::Read)?;
        let count = self.file.read_at(buffer, offset)?;
        if count > 0 && self.plan.meets(Fault::Flip).is_err() {
            // Somewhere else each time.
            let at = (offset as usize * 31 + count * 7) % count;
            buffer[at] ^= 1 << (count % 8);
        }
        Ok(count)
    }

    fn write_all_at(&self, data: &[u8], offset: u64) -> io::Result<()> {
        self.plan.meets(Fault::Write)?;
        self.file.write_all_at(data, offset)
    }

    fn append(&self, data: &[u8]) -> io::Result<()> {
        self.plan.meets(Fault::Write)?;
        self.file.append(data)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.plan.meets(Fault::Write)?;
        self.file.set_len(len)
    }

    fn sync(&self) -> io::Result<()> {
        self.plan.meets(Fault::Sync)?;
        self.file.sync()
    }

    fn try_lock(&self) -> io::Result<bool> {
        self.file.try_lock()
    }

    fn lock(&self) -> io::Result<()> {
        self.file.lock()
    }

    fn unlock(&self) -> io::Result<()> {
        self.file.unlock()
    }
}

/// Everything that is published, and the metrics.
fn published(home: &ProcessHome) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = tree(&home.path("buses"));
    // A build of digests names itself; its files are compared by the tests of digests.
    found.retain(|path, _| !path.starts_with(".staging"));
    found.insert("metrics".into(), home.read("run/metrics.prom"));
    found
}

/// The files that the publisher writes from the log.
fn is_of_publisher(path: &Path) -> bool {
    let [of_items, of_manifests] = ["summaries/documents", "summaries/manifest"];
    let of_days = path.starts_with("feeds") || path.starts_with("versions");
    of_days || path.starts_with(of_items) || path.starts_with(of_manifests)
}

fn caches(home: &ProcessHome) -> Vec<PathBuf> {
    let names = ["publisher", "version", "digest", "upstream", "feed", "metrics"];
    names.map(|name| home.path(&format!("run/{name}-index.redb"))).to_vec()
}

#[test]
fn a_cache_that_fails_at_any_operation_costs_time_and_no_published_byte() {
    let home = with_everything();
    home.expect(0, &["export", "--repair"]);
    let expected = published(&home);
    let settings = std::fs::read_to_string(home.path("summarizer.toml")).unwrap();
    let config = Config::load(Some(&settings), &BTreeMap::new(), 1).unwrap();
    let places = Home::new(home.root(), &config);
    let machine = Machine::real();
    let path = places.store();
    let options = Options::beside(&path);
    let disk = Arc::clone(&machine.disk);
    let store = Store::open(disk, &path, options, [7; 16], &mut |_| {}).unwrap();
    let log = store.reader();
    // What is written again from the log, and what is looked up, on a disk with a fault; how many operations of its
    // kind there were.
    let works = |fault: Fault, left: i64, stays: bool, warm: bool| -> i64 {
        let said = format!("{fault:?} fails at {left}, stays: {stays}, caches from before: {warm}");
        if !warm {
            caches(&home).iter().for_each(|cache| drop(std::fs::remove_file(cache)));
        }
        for path in expected.keys().filter(|path| is_of_publisher(path)) {
            std::fs::remove_file(home.path("buses").join(path)).unwrap();
        }
        let plan = Arc::new(Plan { fault, left: AtomicI64::new(left), stays });
        let whole = Arc::clone(&machine.disk);
        let disk: Arc<dyn Disk> = Arc::new(Ailing { whole, plan: Arc::clone(&plan) });
        let site = Site {
            disk: Arc::clone(&disk),
            home: places.clone(),
            log: log.clone(),
            own: true,
            exports: Exports { feed: true, metrics: true },
            index: None,
        };
        exporters::write(&site, None).unwrap_or_else(|error| panic!("{said}: {error:?}"));
        let now = published(&home);
        for (path, bytes) in &expected {
            assert!(now.get(path) == Some(bytes), "{said}: {} differs", path.display());
        }
        assert_eq!(now.len(), expected.len(), "{said}");
        let index = index_of_home(&disk, &places.root.join("run/upstream-index.redb"));
        let upstream = Upstream::new(Arc::clone(&machine.disk), &places.buses, index);
        for (family, id) in [(Family::Events, "evt_1"), (Family::Chunks, "chk_a2")] {
            let found = upstream.find(family, Section::Records, &[id], &[]);
            let found = found.unwrap_or_else(|error| panic!("{said}: {error:?}"));
            assert!(found[0].is_some(), "{said}: {id}");
        }
        left - plan.left.load(Ordering::Relaxed)
    };
    for fault in [Fault::Read, Fault::Flip, Fault::Write, Fault::Sync, Fault::Name] {
        for warm in [false, true] {
            let all = works(fault, i64::MAX, false, warm);
            assert!(all > 3, "{fault:?}: {all} operations");
            let steps = all.min(if support::deep() { 1000 } else { 12 });
            for step in 0..steps {
                works(fault, all * step / steps, step % 2 == 0, warm);
                // What the caches hold then serves the next one too.
            }
        }
    }
    drop(log);
    store.close().unwrap();
    home.expect(0, &["export", "--repair"]);
    home.expect(0, &["replay", "--verify"]);
    assert!(published(&home) == expected);
}

/// Damages the caches of a home until it is told to stop: a page, or a bit. Returns how often it did.
fn damage_caches(caches: &[PathBuf], stop: &AtomicBool, seed: u64) -> u64 {
    const PAGE: u64 = 4096;
    let (mut rng, mut times) = (Rng::new(seed), 0);
    while !stop.load(Ordering::Relaxed) {
        let cache = &caches[rng.below(caches.len() as u64) as usize];
        let opened = std::fs::File::options().read(true).write(true).open(cache);
        if let Ok(file) = opened
            && let len = file.metadata().unwrap().len()
            && len > 0
        {
            let at = rng.below(len);
            if rng.chance(30) {
                let page = at / PAGE * PAGE;
                let zeros = vec![0; usize::try_from(PAGE.min(len - page)).unwrap()];
                file.write_all_at(&zeros, page).unwrap();
            } else {
                let mut byte = [0];
                if file.read_at(&mut byte, at).unwrap() == 1 {
                    byte[0] ^= 1 << rng.below(8);
                    file.write_all_at(&byte, at).unwrap();
                }
            }
            times += 1;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    times
}

#[test]
fn caches_that_are_damaged_under_load_cost_time_and_no_attempt_and_no_published_byte() {
    let home = with_everything();
    let caches = caches(&home);
    let (sessions, rounds) = if support::deep() { (10, 12) } else { (3, 5) };
    let mut asked = 0;
    for session in 0..sessions {
        let service = Running::start(&home, &["serve"]);
        until("the service answers", || home.answers());
        let stop = AtomicBool::new(false);
        let times = std::thread::scope(|scope| {
            let damaging = scope.spawn(|| damage_caches(&caches, &stop, session));
            for _ in 0..rounds {
                let mut round = of_every_stream();
                for one in &mut round {
                    asked += 1;
                    one["request_id"] = format!("load-{asked}").into();
                    one["work"]["params"] = json!({"again": asked});
                }
                home.append(&lines(&round));
                let last = format!("load-{asked}");
                until("the round ends", || {
                    let acks = home.acks();
                    let mut of_last = acks.iter().filter(|ack| ack["request_id"] == last.as_str());
                    of_last.next_back().is_some_and(|ack| ack["status"] != "accepted")
                });
            }
            home.expect(0, &["digest", "build"]);
            stop.store(true, Ordering::Relaxed);
            damaging.join().unwrap()
        });
        assert!(times > 10, "the caches were damaged {times} times");
        assert_eq!(service.terminate(), Some(0), "session {session}");
    }
    let statuses = home.acks().into_iter().filter(|ack| {
        ack["request_id"].as_str().is_some_and(|id| id.starts_with("load-"))
            && ack["status"] != "accepted"
    });
    let statuses: Vec<Value> = statuses.map(|ack| ack["status"].clone()).collect();
    assert_eq!(statuses.len(), asked as usize, "each request ended once");
    assert!(statuses.iter().all(|status| status == "completed"), "{statuses:?}");
    let before = published(&home);
    home.expect(0, &["export", "--repair"]);
    let after = published(&home);
    for (path, bytes) in &before {
        assert!(after.get(path) == Some(bytes), "a repair changed {}", path.display());
    }
    home.expect(0, &["replay", "--verify"]);
    home.expect(0, &["verify"]);
}
