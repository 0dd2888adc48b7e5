//! Run logs and snapshots as files: resume, verify, damage, retries, and a crash at every disk
//! operation.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test may")]

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

use summarizer::compaction::build::SnapshotForm;
use summarizer::compaction::event::{Class, RunEvent};
use summarizer::compaction::files::{SnapshotStore, StoreError};
use summarizer::compaction::run_log::{self, CompactionJob, CompactionReport, RunLogError};
use summarizer::compaction::trigger::Thresholds;
use summarizer::compaction::tuning::shapes;
use summarizer::contract::schema;
use summarizer::os::real::HostDisk;
use summarizer::os::{Disk, DiskFile, Open, Stat};

const LOG: &str = include_str!("fixtures/compaction/worked_example.jsonl");
const SIX: Thresholds = Thresholds { event_threshold: 6, step_fallback: 8 };

struct Home {
    dir: tempfile::TempDir,
}

impl Home {
    fn new(log: &str) -> Home {
        let home = Home { dir: tempfile::tempdir().unwrap() };
        home.write_log(log);
        home
    }

    fn write_log(&self, log: &str) {
        let disk: &dyn Disk = &HostDisk;
        disk.replace(&self.log(), log.as_bytes(), 0o640).unwrap();
    }

    fn log(&self) -> PathBuf {
        self.dir.path().join("run.jsonl")
    }

    fn out(&self) -> PathBuf {
        self.dir.path().join("out")
    }

    fn job<'a>(&self, disk: &'a Arc<dyn Disk>) -> CompactionJob<'a> {
        CompactionJob {
            disk: &**disk,
            log: self.log(),
            store: SnapshotStore::new(Arc::clone(disk), self.out()),
            thresholds: SIX,
            form: SnapshotForm::Full,
            now: false,
            resume: false,
        }
    }

    fn compact(
        &self,
        change: impl Fn(&mut CompactionJob<'_>),
    ) -> Result<CompactionReport, RunLogError> {
        let disk: Arc<dyn Disk> = Arc::new(HostDisk);
        let mut job = self.job(&disk);
        change(&mut job);
        run_log::compact(&job, &mut |_| {})
    }

    fn differences(&self) -> Vec<String> {
        let disk: Arc<dyn Disk> = Arc::new(HostDisk);
        let (_, _, found) = run_log::verify(&self.job(&disk), &mut |_| {}).unwrap();
        found.iter().map(ToString::to_string).collect()
    }

    /// Every file below `out`, temporaries left out.
    fn tree(&self) -> BTreeMap<String, Vec<u8>> {
        let disk: &dyn Disk = &HostDisk;
        let mut tree = BTreeMap::new();
        for run in disk.list(&self.out()).unwrap_or_default() {
            for name in disk.list(&self.out().join(&run)).unwrap() {
                if !name.ends_with(".tmp") {
                    let bytes = disk.read(&self.out().join(&run).join(&name)).unwrap();
                    tree.insert(format!("{run}/{name}"), bytes);
                }
            }
        }
        tree
    }
}

fn generated(index: u64) -> String {
    shapes::generate(11, index, 300).iter().map(RunEvent::to_line).collect()
}

#[test]
fn the_worked_example_gives_exactly_the_expected_files() {
    let home = Home::new(LOG);
    home.compact(|_| {}).unwrap();
    let tree = home.tree();
    assert_eq!(
        tree.keys().collect::<Vec<_>>(),
        ["run_demo_01/1.events.sha256", "run_demo_01/1.md", "run_demo_01/1.snapshot.json"]
    );
    let snapshot = include_bytes!("fixtures/compaction/worked_example.snapshot.json");
    assert_eq!(tree["run_demo_01/1.snapshot.json"], snapshot);
    let narrative = include_bytes!("fixtures/compaction/worked_example.md");
    assert_eq!(tree["run_demo_01/1.md"], narrative);
    assert!(home.differences().is_empty());
    home.compact(|_| {}).unwrap();
    assert_eq!(home.tree(), tree, "doing it again changes nothing");
}

#[test]
fn written_snapshots_satisfy_their_schema() {
    for index in 0..5 {
        let home = Home::new(&generated(index));
        home.compact(|job| job.now = true).unwrap();
        for (name, bytes) in home.tree() {
            let Ok(value) = serde_json::from_slice(&bytes) else { continue };
            let kind = if name.ends_with("spill.json") {
                "compaction_spill.v1"
            } else {
                "compaction_snapshot.v1"
            };
            assert_eq!(schema::check(kind, &value), [], "{name}");
        }
        for line in generated(index).lines() {
            let value = serde_json::from_str(line).unwrap();
            assert_eq!(schema::check("run_event.v1", &value), [], "{line}");
        }
    }
}

#[test]
fn resuming_at_any_event_gives_the_same_files() {
    for index in 0..5 {
        let log = generated(index);
        let clean = Home::new(&log);
        clean.compact(|_| {}).unwrap();
        let lines: Vec<&str> = log.lines().collect();
        for cut in (1..lines.len()).step_by(lines.len() / 6) {
            let home =
                Home::new(&lines[..cut].iter().map(|line| format!("{line}\n")).collect::<String>());
            home.compact(|_| {}).unwrap();
            home.write_log(&log);
            home.compact(|job| job.resume = true).unwrap();
            assert_eq!(home.tree(), clean.tree(), "run {index} cut at {cut}");
        }
    }
}

#[test]
fn resume_accepts_snapshots_inside_a_step_and_of_other_thresholds() {
    let log = generated(1);
    let lines: Vec<&str> = log.lines().collect();
    let home = Home::new(&lines[..57].iter().map(|line| format!("{line}\n")).collect::<String>());
    home.compact(|job| job.now = true).unwrap();
    let before = home.tree();
    home.write_log(&log);
    home.compact(|job| {
        job.resume = true;
        job.thresholds = Thresholds { event_threshold: 30, step_fallback: 40 };
    })
    .unwrap();
    let after = home.tree();
    assert!(after.len() > before.len());
    assert!(before.iter().all(|(name, bytes)| after[name] == *bytes));
    assert!(home.differences().is_empty(), "{:?}", home.differences());
}

#[test]
fn a_log_with_another_time_on_a_known_line_is_refused() {
    let home = Home::new(LOG);
    home.compact(|_| {}).unwrap();
    let before = home.tree();
    let late = LOG.replacen("09:00:05.000Z", "09:00:05.001Z", 1);
    assert_ne!(late, LOG);
    home.write_log(&late);
    let resumed = home.compact(|job| job.resume = true);
    assert!(matches!(resumed, Err(RunLogError::Changed { .. })), "{resumed:?}");
    assert_eq!(home.tree(), before);
    assert_eq!(home.differences(), ["1.events.sha256: its bytes are not what the log gives"]);
    home.write_log(LOG);
    home.compact(|job| job.resume = true).unwrap();
    assert!(home.differences().is_empty());
}

/// Every value of an object that is text, a number or a truth value, changed one at a time; and one more
/// member in each object.
fn changed_values(value: &serde_json::Value) -> Vec<serde_json::Value> {
    use serde_json::Value;
    let put = |name: &str, with: Value| {
        let mut whole = value.clone();
        whole[name] = with;
        whole
    };
    match value {
        Value::Object(members) => {
            let within = members.iter().filter(|(name, _)| *name != "seq" && *name != "schema");
            let changed = within.flat_map(|(name, inner)| {
                changed_values(inner).into_iter().map(|inner| put(name, inner)).collect::<Vec<_>>()
            });
            changed.chain([put("x_more", "1".into())]).collect()
        }
        Value::Array(items) => {
            let changed = items.iter().enumerate().flat_map(|(at, inner)| {
                let put = |inner: Value| {
                    let mut items = items.clone();
                    items[at] = inner;
                    Value::Array(items)
                };
                changed_values(inner).into_iter().map(put).collect::<Vec<_>>()
            });
            changed.collect()
        }
        Value::String(text) => vec![Value::String(format!("{text}0"))],
        Value::Number(number) => vec![Value::from(number.as_f64().unwrap() + 1.0)],
        Value::Bool(flag) => vec![Value::Bool(!flag)],
        Value::Null => Vec::new(),
    }
}

#[test]
fn a_log_in_which_anything_covered_changed_is_refused() {
    let home = Home::new(LOG);
    home.compact(|_| {}).unwrap();
    let before = home.tree();
    let lines: Vec<&str> = LOG.lines().collect();
    let mut tried = 0;
    for (at, line) in lines.iter().enumerate() {
        // Verbose events are not covered: they may come and go.
        if RunEvent::parse(line.as_bytes()).unwrap().class() == Class::Verbose {
            continue;
        }
        let value: serde_json::Value = serde_json::from_str(line).unwrap();
        for changed in changed_values(&value) {
            let changed = changed.to_string();
            let mut log = lines.clone();
            log[at] = &changed;
            home.write_log(&format!("{}\n", log.join("\n")));
            let resumed = home.compact(|job| job.resume = true);
            assert!(resumed.is_err(), "line {}: {changed}", at + 1);
            tried += 1;
        }
    }
    assert!(tried > 150, "{tried}");
    assert_eq!(home.tree(), before);
    // Another order and other spaces say the same.
    let spaced = LOG.replace("\",\"", "\" , \"");
    assert_ne!(spaced, LOG);
    home.write_log(&spaced);
    home.compact(|job| job.resume = true).unwrap();
    assert!(home.differences().is_empty(), "{:?}", home.differences());
}

#[test]
fn a_changed_file_of_covered_events_is_found() {
    const NAME: &str = "1.events.sha256";
    let home = Home::new(LOG);
    home.compact(|_| {}).unwrap();
    let path = home.out().join("run_demo_01").join(NAME);
    let whole = std::fs::read(&path).unwrap();
    for at in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        std::fs::write(&path, &bytes).unwrap();
        let expected = format!("{NAME}: its bytes are not what the log gives");
        assert_eq!(home.differences(), [expected], "byte {at}");
    }
    std::fs::write(&path, "nothing").unwrap();
    let resumed = home.compact(|job| job.resume = true);
    assert!(matches!(resumed, Err(RunLogError::Store(_))), "{resumed:?}");
    std::fs::remove_file(&path).unwrap();
    assert_eq!(home.differences(), [format!("{NAME}: it is missing")]);
    std::fs::write(&path, &whole).unwrap();
    assert!(home.differences().is_empty());
}

#[test]
fn strict_v1_has_no_ext_and_the_same_ids() {
    let full = Home::new(LOG);
    let strict = Home::new(LOG);
    let a = full.compact(|_| {}).unwrap();
    let b = strict.compact(|job| job.form = SnapshotForm::StrictV1).unwrap();
    assert_eq!(a.taken[0].snapshot_id, b.taken[0].snapshot_id);
    let bytes = strict.tree().remove("run_demo_01/1.snapshot.json").unwrap();
    let value: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
    assert!(value.get("ext").is_none());
    let narrative = strict.tree().remove("run_demo_01/1.md").unwrap();
    assert!(String::from_utf8(narrative).unwrap().contains("- Budgets: not recorded"));
    assert!(strict.differences().is_empty());
    strict.compact(|job| (job.form, job.resume) = (SnapshotForm::StrictV1, true)).unwrap();
}

#[test]
fn verify_finds_every_kind_of_damage() {
    let home = Home::new(&generated(0));
    home.compact(|_| {}).unwrap();
    assert!(home.differences().is_empty());
    let disk: &dyn Disk = &HostDisk;
    let run = home.out().join("gen_healthy_00000");
    let path = run.join("2.snapshot.json");
    let good = disk.read(&path).unwrap();
    let text = String::from_utf8(good.clone()).unwrap();
    disk.replace(&path, text.replacen("candidate", "verified", 1).as_bytes(), 0o640).unwrap();
    assert_eq!(home.differences(), ["2.snapshot.json: its bytes are not what the log gives"]);
    let resumed = home.compact(|job| job.resume = true);
    assert!(matches!(resumed, Err(RunLogError::Store(StoreError::Damaged { .. }))));
    disk.replace(&path, &good, 0o640).unwrap();
    disk.remove_file(&run.join("1.md")).unwrap();
    assert_eq!(home.differences(), ["1.md: it is missing"]);
    home.compact(|_| {}).unwrap();
    assert!(home.differences().is_empty(), "a narrative is written again");
}

#[test]
fn a_changed_objective_stops_the_run_and_keeps_the_old_snapshot() {
    let home = Home::new(LOG);
    home.compact(|_| {}).unwrap();
    let before = home.tree();
    // A covered line with another objective is another log.
    home.write_log(&LOG.replace("compound X to liver", "compound Y to liver"));
    let resumed = home.compact(|job| job.resume = true);
    assert!(matches!(resumed, Err(RunLogError::Changed { line: 20, .. })), "{resumed:?}");
    let other = LOG.lines().next().unwrap().replace("compound X to liver", "compound Y to liver");
    let more = [other.as_str()].into_iter().chain(LOG.lines().skip(1));
    let more = more.zip(21..).map(|(line, seq)| {
        let mut value: serde_json::Value = serde_json::from_str(line).unwrap();
        value["seq"] = seq.into();
        if let Some(step) = value["step_id"].as_u64() {
            value["step_id"] = (step + 2).into();
        }
        value["ts"] = "2026-01-14T10:00:00.000Z".into();
        format!("{value}\n")
    });
    let more: String = more.collect();
    home.write_log(&format!("{LOG}{more}"));
    let report = home.compact(|job| job.resume = true).unwrap();
    let failed = report.failed.unwrap();
    let names: Vec<_> =
        failed.snapshot.failed_checks().map(|check| check.message.clone()).collect();
    assert_eq!(names, ["objective differs from snapshot 1"]);
    assert_eq!(failed.events[0].type_name(), "COMPACTION_FAILED");
    assert_eq!(failed.events[1].type_name(), "RUN_STOPPED");
    assert_eq!(home.tree(), before);
}

#[test]
fn bad_logs_are_refused_with_the_line_number() {
    let error = |log: &str| Home::new(log).compact(|_| {}).unwrap_err().to_string();
    let lines: Vec<&str> = LOG.lines().collect();
    let gap = format!("{}\n{}\n", lines[0], lines[2]);
    assert!(error(&gap).contains("expected 2"), "{}", error(&gap));
    assert!(error("").contains("no event"));
    assert!(error("{\n").contains("line 1"));
    let other = format!("{}\n{}\n", lines[0], lines[1].replace("run_demo_01", "run_demo_02"));
    assert!(error(&other).contains("run_demo_02"));
    let late = lines[1].replace(r#""seq":2"#, r#""seq":1"#) + "\n";
    assert!(error(&late).contains("RUN_STARTED must come first"));
}

#[test]
fn an_unfinished_last_line_waits_and_a_repeat_counts_for_nothing() {
    let torn = format!("{LOG}{{\"schema\":\"run_ev");
    let report = Home::new(&torn).compact(|_| {}).unwrap();
    assert_eq!((report.taken.len(), report.warnings.len()), (1, 1));
    let with_id = |line: &str, seq: u64| {
        let mut value: serde_json::Value = serde_json::from_str(line).unwrap();
        value["event_id"] = "e-3".into();
        value["seq"] = seq.into();
        format!("{value}\n")
    };
    let lines: Vec<&str> = LOG.lines().collect();
    let mut log = format!("{}\n{}\n", lines[0], lines[1]);
    log.push_str(&with_id(lines[2], 3));
    log.push_str(&with_id(lines[2], 4));
    let report = Home::new(&log).compact(|_| {}).unwrap();
    assert_eq!(report.warnings, ["1 events repeat an earlier event_id and were not counted"]);
    let reused = log.replace("SEARCH\"},\"event_id\":\"e-3\",\"seq\":4", "x");
    log = log.trim_end().to_owned();
    let last = log.rfind("SEARCH").unwrap();
    log.replace_range(last..last + 6, "FETCH!");
    assert_ne!(log, reused);
    let error = Home::new(&format!("{log}\n")).compact(|_| {}).unwrap_err();
    assert!(error.to_string().contains("e-3 was used for another event"), "{error}");
}

/// `tests/tools/check_snapshots.py` folds a log again and compares every snapshot.
fn folded_again(log: &Path, out: &Path, events: u64) -> (bool, String) {
    let tool = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tools/check_snapshots.py");
    let mut python = std::process::Command::new("python3");
    let output = python.arg(tool).arg(log).arg(out).arg(events.to_string()).output().unwrap();
    (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn an_independent_fold_makes_the_same_snapshots() {
    let mut logs: Vec<String> = (0..5).map(generated).collect();
    // Long enough that its lists are spilled.
    logs.push(shapes::generate(5, 1, 2_000).iter().map(RunEvent::to_line).collect());
    logs.push(LOG.to_owned());
    let mut spilled = 0;
    for (at, log) in logs.iter().enumerate() {
        for events in [6, 18] {
            let home = Home::new(log);
            let thresholds = Thresholds { event_threshold: events, step_fallback: 8 };
            let report = home.compact(|job| job.thresholds = thresholds).unwrap();
            if report.taken.is_empty() {
                continue;
            }
            spilled += home.tree().keys().filter(|name| name.ends_with("spill.json")).count();
            let (same, told) = folded_again(&home.log(), &home.out(), events);
            assert!(same, "log {at} at {events} events: {told}");
            let newest = home.tree().into_iter().rfind(|(name, _)| name.ends_with("snapshot.json"));
            let (name, bytes) = newest.unwrap();
            let mut snapshot: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
            snapshot["ext"]["deltas"]["claims_added"] = 1_000_000.into();
            std::fs::write(home.out().join(name), snapshot.to_string()).unwrap();
            let (same, told) = folded_again(&home.log(), &home.out(), events);
            assert!(!same && told.contains("deltas"), "{told}");
        }
    }
    assert!(spilled > 0, "no list was spilled");
}

#[test]
fn wide_coverage_is_spilled_to_a_chain_without_loss() {
    let mut lines: Vec<String> = vec![LOG.lines().next().unwrap().to_owned()];
    let mut push = |step: u64, kind: &str, phase: &str, payload: serde_json::Value| {
        let seq = lines.len() + 1;
        let line = serde_json::json!({
            "schema": "run_event.v1", "run_id": "run_demo_01", "seq": seq,
            "ts": format!("2026-01-14T10:{:02}:{:02}.000Z", seq / 60 % 60, seq % 60),
            "step_id": step, "phase": phase, "type": kind, "payload": payload,
        });
        lines.push(line.to_string());
    };
    for step in 1..=6u64 {
        let ids: Vec<String> = (0..900).map(|n| format!("chk_{step:03}_{n:05}_ünï")).collect();
        let seen = serde_json::json!({"source_id": "src_a", "chunk_ids": ids});
        push(step, "CHUNKS_SEEN", "ACT", seen);
        push(
            step,
            "PLAN_DONE",
            "PLAN",
            serde_json::json!({"plan_id": "p", "action_type": "SEARCH"}),
        );
        push(step, "ACT_DONE", "ACT", serde_json::json!({"plan_id": "p", "outcome": "ok"}));
        push(step, "OBSERVE_DONE", "OBSERVE", serde_json::json!({"progress": true}));
    }
    let home = Home::new(&(lines.join("\n") + "\n"));
    let report = home.compact(|_| {}).unwrap();
    assert_eq!(report.taken.len(), 3);
    let tree = home.tree();
    let snapshot = |n: u64| -> serde_json::Value {
        serde_json::from_slice(&tree[&format!("run_demo_01/{n}.snapshot.json")]).unwrap()
    };
    let spill = &snapshot(3)["ext"]["spill"];
    assert_eq!(spill["counts"]["chunk_ids_seen"], 5400);
    assert_eq!(snapshot(3)["state"]["source_coverage"]["chunk_ids_seen"], serde_json::json!([]));
    let link: serde_json::Value =
        serde_json::from_slice(&tree["run_demo_01/3.spill.json"]).unwrap();
    assert_eq!(schema::check("compaction_spill.v1", &link), []);
    let first = snapshot(2)["ext"]["spill"].is_null();
    let inherited = link["previous"].is_null();
    assert_eq!(first, inherited, "a link points to the spilled snapshot before it");
    // Following the links from the newest artifact gives every chunk id once.
    let (mut chunks, mut next) = (0, spill.clone());
    while let Some(artifact) = next["artifact"].as_str() {
        let file = format!("run_demo_01/{artifact}");
        let link: serde_json::Value = serde_json::from_slice(&tree[&file]).unwrap();
        chunks += link["chunk_ids"].as_array().unwrap().len();
        next = link["previous"].clone();
    }
    assert_eq!(chunks, 5400);
    assert!(home.differences().is_empty(), "{:?}", home.differences());
    let strict = Home::new(&(lines.join("\n") + "\n"));
    let strict_report = strict.compact(|job| job.form = SnapshotForm::StrictV1).unwrap();
    let ids = |report: &CompactionReport| -> Vec<String> {
        report.taken.iter().map(|taken| taken.snapshot_id.clone()).collect()
    };
    assert_eq!(ids(&report), ids(&strict_report));
    let whole: serde_json::Value =
        serde_json::from_slice(&strict.tree()["run_demo_01/3.snapshot.json"]).unwrap();
    let listed = &whole["state"]["source_coverage"]["chunk_ids_seen"];
    assert_eq!(listed.as_array().unwrap().len(), 5400);
    assert!(strict.differences().is_empty(), "{:?}", strict.differences());
}

/// A disk on which the n-th operation and all later ones fail; a write at that point is torn.
struct DyingDisk {
    host: HostDisk,
    left: Arc<AtomicI64>,
}

fn died() -> io::Error {
    io::Error::other("the machine is gone")
}

fn spend(left: &AtomicI64) -> io::Result<()> {
    if left.fetch_sub(1, Ordering::SeqCst) > 0 { Ok(()) } else { Err(died()) }
}

struct DyingFile {
    inner: Arc<dyn DiskFile>,
    left: Arc<AtomicI64>,
}

impl DiskFile for DyingFile {
    fn stat(&self) -> io::Result<Stat> {
        self.inner.stat()
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.inner.read_at(buffer, offset)
    }

    fn write_all_at(&self, data: &[u8], offset: u64) -> io::Result<()> {
        spend(&self.left).inspect_err(|_| {
            let _ = self.inner.write_all_at(&data[..data.len() / 2], offset);
        })?;
        self.inner.write_all_at(data, offset)
    }

    fn append(&self, data: &[u8]) -> io::Result<()> {
        spend(&self.left)?;
        self.inner.append(data)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        spend(&self.left)?;
        self.inner.set_len(len)
    }

    fn sync(&self) -> io::Result<()> {
        spend(&self.left)?;
        self.inner.sync()
    }

    fn try_lock(&self) -> io::Result<bool> {
        self.inner.try_lock()
    }

    fn lock(&self) -> io::Result<()> {
        self.inner.lock()
    }

    fn unlock(&self) -> io::Result<()> {
        self.inner.unlock()
    }
}

impl Disk for DyingDisk {
    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn DiskFile>> {
        if !matches!(how, Open::Read | Open::ReadInPlace) {
            spend(&self.left)?;
        }
        let inner = self.host.open(path, how)?;
        Ok(Arc::new(DyingFile { inner, left: Arc::clone(&self.left) }))
    }

    fn stat(&self, path: &Path) -> io::Result<Option<Stat>> {
        self.host.stat(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.host.list(dir)
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        spend(&self.left)?;
        self.host.create_dir_all(dir)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        spend(&self.left)?;
        self.host.rename(from, to)
    }

    fn exchange(&self, a: &Path, b: &Path) -> io::Result<()> {
        spend(&self.left)?;
        self.host.exchange(a, b)
    }

    fn hard_link(&self, existing: &Path, new: &Path) -> io::Result<()> {
        spend(&self.left)?;
        self.host.hard_link(existing, new)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        spend(&self.left)?;
        self.host.remove_file(path)
    }

    fn remove_dir_all(&self, dir: &Path) -> io::Result<()> {
        spend(&self.left)?;
        self.host.remove_dir_all(dir)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        spend(&self.left)?;
        self.host.sync_dir(dir)
    }

    fn free_bytes(&self, path: &Path) -> io::Result<u64> {
        self.host.free_bytes(path)
    }
}

#[test]
fn a_crash_at_any_operation_leaves_the_old_or_the_new_snapshot() {
    let log: String = shapes::generate(11, 0, 130).iter().map(RunEvent::to_line).collect();
    let clean = Home::new(&log);
    clean.compact(|_| {}).unwrap();
    let expected = clean.tree();
    assert!(expected.len() >= 4, "several snapshots");
    for operations in 0.. {
        let home = Home::new(&log);
        let left = Arc::new(AtomicI64::new(operations));
        let disk: Arc<dyn Disk> = Arc::new(DyingDisk { host: HostDisk, left });
        let survived = run_log::compact(&home.job(&disk), &mut |_| {}).is_ok();
        let in_force: Vec<String> =
            home.tree().into_keys().filter(|name| name.ends_with(".snapshot.json")).collect();
        for (place, name) in in_force.iter().enumerate() {
            assert!(name.ends_with(&format!("/{}.snapshot.json", place + 1)), "a hole: {name}");
            assert_eq!(home.tree()[name], expected[name], "died at {operations}");
        }
        home.compact(|job| job.resume = true).unwrap();
        home.compact(|_| {}).unwrap();
        assert_eq!(home.tree(), expected, "died at {operations}");
        if survived {
            assert!(operations > 20);
            return;
        }
    }
}

/// A disk whose first read of the log returns changed bytes.
struct LyingDisk {
    host: HostDisk,
    log: PathBuf,
    lie: PathBuf,
    opened: AtomicUsize,
}

impl Disk for LyingDisk {
    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn DiskFile>> {
        let lies = path == self.log && self.opened.fetch_add(1, Ordering::SeqCst) == 0;
        self.host.open(if lies { &self.lie } else { path }, how)
    }

    fn stat(&self, path: &Path) -> io::Result<Option<Stat>> {
        self.host.stat(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.host.list(dir)
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.host.create_dir_all(dir)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.host.rename(from, to)
    }

    fn exchange(&self, a: &Path, b: &Path) -> io::Result<()> {
        self.host.exchange(a, b)
    }

    fn hard_link(&self, existing: &Path, new: &Path) -> io::Result<()> {
        self.host.hard_link(existing, new)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.host.remove_file(path)
    }

    fn remove_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.host.remove_dir_all(dir)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.host.sync_dir(dir)
    }

    fn free_bytes(&self, path: &Path) -> io::Result<u64> {
        self.host.free_bytes(path)
    }
}

#[test]
fn a_failed_check_is_retried_from_disk() {
    let home = Home::new(LOG);
    let lie = home.dir.path().join("lie.jsonl");
    let side = r#""side_b_evidence_ids":["ev_888f5224054eef8fa8a487884bc5964b"]"#;
    let text = LOG.replace(side, r#""side_b_evidence_ids":[]"#);
    let host: &dyn Disk = &HostDisk;
    host.replace(&lie, text.as_bytes(), 0o640).unwrap();
    let disk: Arc<dyn Disk> =
        Arc::new(LyingDisk { host: HostDisk, log: home.log(), lie, opened: AtomicUsize::new(0) });
    let report = run_log::compact(&home.job(&disk), &mut |_| {}).unwrap();
    assert!(report.failed.is_none());
    assert!(report.taken[0].retried);
    let bytes = home.tree().remove("run_demo_01/1.snapshot.json").unwrap();
    let value: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
    assert_eq!(value["validation"]["failure_action_taken"], "RETRY");
    assert_eq!(value["snapshot_id"], "snap_6758f42cdd90e2365822a6dc");
    assert!(home.differences().is_empty());
    home.compact(|_| {}).unwrap();
    home.compact(|job| job.resume = true).unwrap();
}

#[test]
fn a_check_that_fails_twice_stops_the_run() {
    let side = r#""side_b_evidence_ids":["ev_888f5224054eef8fa8a487884bc5964b"]"#;
    let home = Home::new(&LOG.replace(side, r#""side_b_evidence_ids":[]"#));
    let report = home.compact(|_| {}).unwrap();
    let failed = report.failed.unwrap();
    let action = failed.snapshot.validation.failure_action_taken;
    assert_eq!(serde_json::to_value(action).unwrap(), "SYSTEM_ERROR");
    for event in &failed.events {
        let line: serde_json::Value = serde_json::from_str(&event.to_line()).unwrap();
        assert_eq!(schema::check("run_event.v1", &line), []);
    }
    assert!(home.tree().is_empty());
}
