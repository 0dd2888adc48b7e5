//! Agent runs in a home's log: bytes, idempotent appends, the gate, restarts at every event, power loss
//! at every point, and the real process with its socket and its watched folder.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test stops at the first surprise and makes its own files"
)]

mod support;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use summarizer::compaction::agent_runs::facts::{head_of, snapshot_at};
use summarizer::compaction::agent_runs::{
    AgentRunWriter, AppendEventsError, AppendReport, EventLines, MakeNotes, NoteCommitter,
};
use summarizer::compaction::files::SnapshotStore;
use summarizer::compaction::trigger::Thresholds;
use summarizer::compaction::tuning::shapes;
use summarizer::contract::ids::Seq;
use summarizer::contract::schema;
use summarizer::contract::time::Timestamp;
use summarizer::log::codec::Cursor;
use summarizer::log::{Options, Store};
use summarizer::os::sim::{Faults, SimDisk};
use summarizer::os::{Disk, real::HostDisk};
use summarizer::projections::snapshot_files::{SNAPSHOTS, SnapshotFiles};
use summarizer::sequencer::engine::{self, CheckpointWhen, Engine, EngineOptions};
use summarizer::state::decide::RetryPolicy;
use support::deep;
use support::process::{ProcessHome, Running};
use support::requests::{ACTIVE, lines, request};
use support::running::until as wait_until;

const LOG: &str = include_str!("fixtures/compaction/worked_example.jsonl");
const SNAPSHOT: &[u8] = include_bytes!("fixtures/compaction/worked_example.snapshot.json");
const NARRATIVE: &[u8] = include_bytes!("fixtures/compaction/worked_example.md");
const SIX: Thresholds = Thresholds { event_threshold: 6, step_fallback: 8 };
const NOW: Timestamp = Timestamp(1_772_359_200_000);

/// A home without a service: an engine, its runs, and the files behind them.
struct Host {
    disk: SimDisk,
    engine: Engine,
    files: SnapshotFiles,
    cursors: Vec<(&'static str, Cursor)>,
}

impl Host {
    fn open(disk: &SimDisk) -> Result<Host, String> {
        let shared: Arc<dyn Disk> = Arc::new(disk.clone());
        shared.create_dir_all(Path::new("/home/run")).map_err(|error| error.to_string())?;
        let path = Path::new("/home/run/summarizer.redb");
        let options = Options::beside(path);
        let store = Store::open(Arc::clone(&shared), path, options, [7; 16], &mut |_| {});
        let store = store.map_err(|error| error.to_string())?;
        let options = EngineOptions { retry: RetryPolicy::default(), checkpoint_every: 3 };
        let engine = Engine::open(store, options, NOW, &mut |_| {});
        let engine = engine.map_err(|error| error.to_string())?;
        let cursor = engine::cursor(engine.log(), SNAPSHOTS).map_err(|error| error.to_string())?;
        let dir = PathBuf::from("/home/run/snapshots");
        let files = SnapshotFiles::open(&shared, dir, engine.log(), cursor, None);
        let files = files.map_err(|error| error.to_string())?;
        let cursors = vec![(SNAPSHOTS, files.cursor())];
        Ok(Host { disk: disk.clone(), engine, files, cursors })
    }

    fn book(&self) -> AgentRunWriter {
        AgentRunWriter::new(self.engine.log(), SIX)
    }

    fn store(&self) -> SnapshotStore {
        SnapshotStore::new(Arc::new(self.disk.clone()), PathBuf::from("/home/run/snapshots"))
    }

    /// Every file of every run.
    fn tree(&self) -> BTreeMap<String, Vec<u8>> {
        let disk: &dyn Disk = &self.disk;
        let root = Path::new("/home/run/snapshots");
        let mut tree = BTreeMap::new();
        for run in disk.list(root).unwrap_or_default() {
            for name in disk.list(&root.join(&run)).unwrap() {
                if !name.ends_with(".tmp") {
                    let bytes = disk.read(&root.join(&run).join(&name)).unwrap();
                    tree.insert(format!("{run}/{name}"), bytes);
                }
            }
        }
        tree
    }

    /// The valid snapshots of the log, oldest first.
    fn in_force(&self, run_id: &str) -> Vec<String> {
        let log = self.engine.log();
        let mut at = head_of(log, run_id).unwrap().snapshot;
        let mut found = Vec::new();
        while at != Seq(0) {
            let (fact, body) = snapshot_at(log, at).unwrap();
            found.push(body.snapshot);
            at = fact.previous;
        }
        found.reverse();
        found
    }
}

impl NoteCommitter for Host {
    fn note(&mut self, make: MakeNotes) -> Result<Seq, String> {
        let first = self.engine.note_all(make, NOW).map_err(|error| error.to_string())?;
        let committed = self.engine.commit(None, CheckpointWhen::Due, &self.cursors, NOW);
        for one in committed.map_err(|error| error.to_string())?.iter() {
            if SnapshotFiles::concerns(&one.event) {
                self.files.write(one.seq).map_err(|error| error.to_string())?;
            }
            self.files.reached(one.seq);
        }
        self.cursors = vec![(SNAPSHOTS, self.files.cursor())];
        Ok(first)
    }
}

fn append(
    host: &mut Host,
    book: &mut AgentRunWriter,
    text: &str,
) -> Result<AppendReport, AppendEventsError> {
    let (done, result) = book.append(host, EventLines { text, first_line: 1, source: None }, None);
    result.map(|()| done)
}

/// A generated run as text.
fn generated(index: u64, events: usize) -> String {
    shapes::generate(7, index, events).iter().map(|event| event.to_line()).collect()
}

/// Lines with dense numbers.
fn renumbered(lines: &[String]) -> String {
    let number = |(line, seq): (&String, u64)| {
        let mut value: Value = serde_json::from_str(line).unwrap();
        value["seq"] = seq.into();
        format!("{value}\n")
    };
    lines.iter().zip(1..).map(number).collect()
}

fn run_id(text: &str) -> String {
    let first: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    first["run_id"].as_str().unwrap().to_owned()
}

#[test]
fn the_worked_example_is_the_same_bytes_in_a_home() {
    let mut host = Host::open(&SimDisk::new()).unwrap();
    let mut book = host.book();
    let done = append(&mut host, &mut book, LOG).unwrap();
    assert_eq!((done.appended, done.repeated, done.last_seq), (20, 0, 20));
    assert_eq!(done.snapshots.len(), 1);
    let tree = host.tree();
    assert_eq!(tree["run_demo_01/1.snapshot.json"], SNAPSHOT);
    assert_eq!(tree["run_demo_01/1.md"], NARRATIVE);
    assert_eq!(tree.len(), 2);
    // Again, with the same memory and after a restart: no new and no changed file.
    let head = host.engine.log().head();
    for mut book in [book, host.book()] {
        let done = append(&mut host, &mut book, LOG).unwrap();
        assert_eq!((done.appended, done.repeated, done.snapshots.len()), (0, 20, 0));
    }
    assert_eq!(host.engine.log().head(), head);
    assert_eq!(host.book().verify("run_demo_01", &host.store()).unwrap(), (1, vec![]));
}

#[test]
fn verbose_events_at_any_place_change_no_byte() {
    let verbose = |step: Value| {
        json!({
            "schema": "run_event.v1", "run_id": "run_demo_01", "seq": 0,
            "ts": "2026-01-14T09:00:01.000Z", "step_id": step, "phase": "ACT",
            "type": "SOMETHING_NEW", "payload": {"any": "thing"},
        })
        .to_string()
    };
    let lines: Vec<String> = LOG.lines().map(str::to_owned).collect();
    for place in 0..=lines.len() {
        let mut more = lines.clone();
        let several = if place % 7 == 0 { 500 } else { 1 };
        for count in 0..several {
            let step = if count % 2 == 0 { Value::Null } else { json!(90 + count) };
            more.insert(place, verbose(step));
        }
        let mut host = Host::open(&SimDisk::new()).unwrap();
        let mut book = host.book();
        let done = append(&mut host, &mut book, &renumbered(&more)).unwrap();
        assert_eq!(done.snapshots.len(), 1, "at {place}");
        assert_eq!(host.tree()["run_demo_01/1.snapshot.json"], SNAPSHOT, "at {place}");
        assert_eq!(host.tree()["run_demo_01/1.md"], NARRATIVE, "at {place}");
    }
}

#[test]
fn a_restart_after_any_event_gives_the_same_snapshots() {
    for index in 0..4 {
        let text = generated(index, 150);
        let run = run_id(&text);
        let mut one_go = Host::open(&SimDisk::new()).unwrap();
        let mut book = one_go.book();
        append(&mut one_go, &mut book, &text).unwrap();
        let expected = one_go.in_force(&run);
        assert!(index > 0 || expected.len() > 2, "{} snapshots", expected.len());
        let mut host = Host::open(&SimDisk::new()).unwrap();
        for line in text.lines() {
            // A new writer for each line knows only the log.
            let mut book = host.book();
            append(&mut host, &mut book, line).unwrap();
        }
        assert!(host.in_force(&run) == expected, "run {index}");
        assert_eq!(host.tree(), one_go.tree(), "run {index}");
        let (count, differences) = host.book().verify(&run, &host.store()).unwrap();
        assert_eq!((count, differences), (expected.len() as u64, vec![]));
    }
}

#[test]
fn spilled_coverage_survives_restarts() {
    let mut lines: Vec<String> = vec![LOG.lines().next().unwrap().to_owned()];
    let event = |step: u64, kind: &str, phase: &str, payload: Value| {
        json!({
            "schema": "run_event.v1", "run_id": "run_demo_01", "seq": 0,
            "ts": "2026-01-14T09:00:01.000Z", "step_id": step, "phase": phase, "type": kind,
            "payload": payload,
        })
        .to_string()
    };
    for step in 1..=8 {
        let chunks: Vec<String> = (0..900)
            .map(|chunk| format!("chunk_{step:03}_{chunk:04}_{}", "x".repeat(20)))
            .collect();
        lines.push(event(step, "PLAN_DONE", "PLAN", json!({"plan_id": "p", "action_type": "A"})));
        lines.push(event(
            step,
            "CHUNKS_SEEN",
            "ACT",
            json!({"source_id": "s", "chunk_ids": chunks}),
        ));
        lines.push(event(step, "ACT_DONE", "ACT", json!({"plan_id": "p", "outcome": "ok"})));
        lines.push(event(step, "OBSERVE_DONE", "OBSERVE", json!({"progress": true})));
    }
    let text = renumbered(&lines);
    let mut one_go = Host::open(&SimDisk::new()).unwrap();
    let mut book = one_go.book();
    append(&mut one_go, &mut book, &text).unwrap();
    assert!(one_go.tree().keys().filter(|name| name.ends_with("spill.json")).count() >= 3);
    let mut host = Host::open(&SimDisk::new()).unwrap();
    for line in text.lines() {
        let mut book = host.book();
        append(&mut host, &mut book, line).unwrap();
    }
    assert!(host.tree() == one_go.tree());
    assert_eq!(host.book().verify("run_demo_01", &host.store()).unwrap(), (4, vec![]));
}

#[test]
fn lines_before_a_bad_line_are_kept_and_changed_events_refused() {
    let mut host = Host::open(&SimDisk::new()).unwrap();
    let mut book = host.book();
    let broken = LOG.replace("\"type\":\"CONFLICT_RECORDED\"", "\"type\":\"CLAIM_VERIFIED\"");
    let lines = EventLines { text: &broken, first_line: 1, source: None };
    let (done, result) = book.append(&mut host, lines, None);
    assert_eq!((done.appended, done.last_seq), (17, 17));
    let error = result.unwrap_err();
    assert!(error.is_input());
    assert!(error.to_string().starts_with("line 18: "), "{error}");
    // The run log is repaired, so its remaining events are taken in.
    assert_eq!(append(&mut host, &mut book, LOG).unwrap().appended, 3);
    assert_eq!(host.tree()["run_demo_01/1.snapshot.json"], SNAPSHOT);
    let changed = LOG.replace("raised liver enzymes.", "lowered liver enzymes.");
    let error = append(&mut host, &mut book, &changed).unwrap_err();
    assert!(matches!(error, AppendEventsError::Differs { line: 7, seq: 7, .. }), "{error}");
    let hole = LOG.lines().last().unwrap().replace("\"seq\":20", "\"seq\":22");
    for (member, from, to) in [
        ("ts", "09:00:17.000Z", "09:00:17.500Z"),
        ("step_id", r#"000Z","step_id":1,"phase":"PLAN""#, r#"000Z","step_id":9,"phase":"PLAN""#),
        ("phase", r#""phase":"PLAN""#, r#""phase":"ACT""#),
        ("payload", r#""top_n":40"#, r#""top_n":41"#),
        ("event_id", r#""seq":3,"#, r#""seq":3,"event_id":"mine","#),
    ] {
        let error = append(&mut host, &mut book, &LOG.replacen(from, to, 1)).unwrap_err();
        assert!(matches!(error, AppendEventsError::Differs { .. }), "{member}: {error}");
        assert!(error.to_string().ends_with(&format!("its `{member}` differs")), "{error}");
    }
    // Only the spelling differs: other spaces, other order of the members.
    let spelled: String = LOG
        .lines()
        .map(|line| {
            format!("{}\n", serde_json::from_str::<Value>(line).unwrap()).replace("\":", "\": ")
        })
        .collect();
    assert_eq!(append(&mut host, &mut book, &spelled).unwrap().repeated, 20);
    assert!(matches!(append(&mut host, &mut book, &hole), Err(AppendEventsError::Input { .. })));
    let other = LOG.lines().next().unwrap().replace("run_demo_01", "run_demo_02");
    let mixed = format!("{}\n{other}\n", LOG.lines().next().unwrap());
    assert!(matches!(append(&mut host, &mut book, &mixed), Err(AppendEventsError::Input { .. })));
    assert!(append(&mut host, &mut book, "\n \n").unwrap().run_id.is_empty());
}

#[test]
fn an_event_id_names_one_event_across_restarts() {
    let with_id = |line: &str, id: &str, seq: u64| {
        let mut value: Value = serde_json::from_str(line).unwrap();
        (value["event_id"], value["seq"]) = (id.into(), seq.into());
        format!("{value}\n")
    };
    let lines: Vec<&str> = LOG.lines().collect();
    let mut host = Host::open(&SimDisk::new()).unwrap();
    let head: String = lines[..2].iter().map(|line| format!("{line}\n")).collect();
    let mut book = host.book();
    append(&mut host, &mut book, &head).unwrap();
    append(&mut host, &mut book, &with_id(lines[2], "plan", 3)).unwrap();
    // The same event under the next number keeps its place and counts for nothing.
    for mut book in [book, host.book()] {
        let next = head_of(host.engine.log(), "run_demo_01").unwrap().last_seq + 1;
        let done = append(&mut host, &mut book, &with_id(lines[2], "plan", next)).unwrap();
        assert_eq!(done.appended, 1);
        assert!(done.warnings.iter().any(|one| one.contains("repeat an earlier event_id")));
    }
    let mut book = host.book();
    let error = append(&mut host, &mut book, &with_id(lines[5], "plan", 6)).unwrap_err();
    assert!(matches!(error, AppendEventsError::IdReused { .. }), "{error}");
}

#[test]
fn a_failed_gate_ends_the_run_and_keeps_the_old_snapshot() {
    let again = LOG.lines().next().unwrap().replace("Find evidence", "Forget evidence");
    let mut lines: Vec<String> = LOG.lines().map(str::to_owned).collect();
    lines.push(again);
    lines.extend(LOG.lines().skip(10).map(|line| {
        line.replace("clm_002", "clm_003")
            .replace("cnf_001", "cnf_002")
            .replace("q_001", "q_002")
            .replace("fail_001", "fail_002")
            .replace("\"step_id\":2", "\"step_id\":3")
    }));
    // Six terminal events again, so that the trigger fires.
    lines.extend(
        LOG.lines()
            .skip(10)
            .filter(|line| line.contains("_DONE"))
            .map(|line| line.replace("\"step_id\":2", "\"step_id\":4")),
    );
    let text = renumbered(&lines);
    let disk = SimDisk::new();
    let mut host = Host::open(&disk).unwrap();
    let mut book = host.book();
    let done = append(&mut host, &mut book, &text).unwrap();
    let failed = done.failed.unwrap();
    assert_eq!(failed["snapshot"]["validation"]["failure_action_taken"], "SYSTEM_ERROR");
    assert_eq!(failed["events"][0]["type"], "COMPACTION_FAILED");
    assert_eq!(failed["events"][1]["payload"]["stop_reason"], "SYSTEM_ERROR");
    assert_eq!(host.in_force("run_demo_01").len(), 1);
    assert_eq!(host.tree()["run_demo_01/1.snapshot.json"], SNAPSHOT);
    assert_eq!(host.tree().len(), 2);
    let overview = host.engine.runs().overview().clone();
    assert_eq!((overview.snapshots, overview.failed), (1, 1));
    assert!(overview.last_failure.unwrap().message.contains("objective_unchanged"));
    drop(host);
    // The run stays stopped after a restart. Known events are recognized, and are no way past it.
    let mut host = Host::open(&disk.reboot()).unwrap();
    let mut book = host.book();
    for known in [text.as_str(), text.lines().next().unwrap()] {
        let given = EventLines { text: known, first_line: 1, source: None };
        let (done, result) = book.append(&mut host, given, None);
        assert_eq!(done.repeated, known.lines().count() as u64);
        let error = result.unwrap_err();
        assert!(matches!(error, AppendEventsError::Stopped { .. }), "{error}");
        assert!(error.to_string().contains("objective_unchanged"), "{error}");
    }
    let mut more = lines.clone();
    more.push(lines.last().unwrap().replace("\"step_id\":4", "\"step_id\":5"));
    let error = append(&mut host, &mut book, &renumbered(&more)).unwrap_err();
    assert!(matches!(error, AppendEventsError::Stopped { .. }), "{error}");
    assert!(book.snapshot_now(&mut host, "run_demo_01").is_err());
    assert_eq!(host.in_force("run_demo_01").len(), 1);
}

#[test]
fn power_loss_leaves_the_old_snapshot_or_the_new_one() {
    let text = generated(1, 120);
    let run = run_id(&text);
    let lines: Vec<&str> = text.lines().collect();
    let pages: Vec<String> = lines.chunks(17).map(|page| page.join("\n")).collect();
    let live = |disk: &SimDisk| -> Result<(), String> {
        let mut host = Host::open(disk)?;
        let mut book = host.book();
        for page in &pages {
            append(&mut host, &mut book, page).map_err(|error| error.to_string())?;
        }
        host.engine.close().map_err(|error| error.to_string())
    };
    let clean = SimDisk::new();
    live(&clean).unwrap();
    let counts = clean.counts();
    let host = Host::open(&clean.reboot()).unwrap();
    let (expected, tree) = (host.in_force(&run), host.tree());
    assert!(expected.len() > 3, "{} snapshots", expected.len());
    let (writes, syncs) = (counts.writes, counts.syncs);
    let points = if deep() { writes + syncs } else { 70 };
    let mut seen = [0; 2];
    for point in 0..points {
        let at = 1 + point * (writes + syncs) / points;
        let faults = match at.checked_sub(writes) {
            Some(sync) if sync > 0 => Faults { crash_at_sync: Some(sync), ..Faults::default() },
            _ => Faults { crash_at_write: Some(at), ..Faults::default() },
        };
        let disk = SimDisk::new();
        disk.set_faults(faults);
        let told = live(&disk);
        assert!(disk.has_crashed() || told.is_ok(), "{at}: {told:?}");
        let disk = disk.crash(at);
        let mut host = Host::open(&disk).unwrap_or_else(|error| panic!("{at}: {error}"));
        let left = host.in_force(&run);
        assert!(expected.starts_with(&left), "{at}: another snapshot is in force");
        seen[usize::from(left.len() == expected.len())] += 1;
        // After any crash the files are exactly those of the log.
        assert_eq!(host.tree().keys().filter(|name| name.ends_with(".json")).count(), left.len());
        let mut book = host.book();
        append(&mut host, &mut book, &text).unwrap_or_else(|error| panic!("{at}: {error}"));
        assert!(host.in_force(&run) == expected, "{at}: the rest gives other snapshots");
        assert!(host.tree() == tree, "{at}: other files");
    }
    assert!(seen[0] > 10, "{seen:?}");
}

fn serve(home: &ProcessHome) -> Running {
    let serving = Running::start(home, &["--quiet", "serve"]);
    wait_until("the service answers", || home.answers());
    serving
}

fn json_of(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn compact_works_with_and_without_a_running_service() {
    let home = ProcessHome::new();
    std::fs::write(home.path("run.jsonl"), LOG).unwrap();
    let log = home.path("run.jsonl").display().to_string();
    let report = home.expect(0, &["--json", "compact", &log, "--event-threshold", "6"]);
    let report = json_of(&report.out);
    assert_eq!(schema::check("compaction_report.v1", &report), []);
    assert_eq!((&report["events"], &report["resumed_after"]), (&json!(20), &json!(0)));
    assert_eq!(home.read("run/snapshots/run_demo_01/1.snapshot.json"), SNAPSHOT);
    home.expect(0, &["compact", &log, "--verify"]);
    // A service holds the home: the same commands ask it.
    let serving = serve(&home);
    let watched = home.path("run/run_logs");
    std::fs::create_dir_all(&watched).unwrap();
    std::fs::write(watched.join("bad.jsonl"), "not an event\n").unwrap();
    let text = generated(2, 150);
    let run = run_id(&text);
    let half = text.lines().count() / 2;
    let cut: usize = text.lines().take(half).map(|line| line.len() + 1).sum();
    // The file grows in pieces that do not end at a line's end.
    std::fs::write(watched.join("other.jsonl"), &text[..cut + 10]).unwrap();
    let status = || json_of(&home.expect(0, &["--json", "status"]).out);
    wait_until("half of the run", || status()["compaction"]["latest"]["run_id"] == run.as_str());
    assert!(status()["compaction"]["set_aside"]["bad.jsonl"].is_string());
    // A file that is written again as a whole would be empty for a moment and count as another file.
    append_to(&watched.join("other.jsonl"), &text[cut + 10..]);
    let report = home.expect(0, &["--json", "compact", &log]);
    let report = json_of(&report.out);
    assert_eq!((&report["resumed_after"], &report["snapshots"]), (&json!(1), &json!([])));
    let files = home.path("run/snapshots").join(&run);
    let compacted = tempfile::tempdir().unwrap();
    let (source, out) = (watched.join("other.jsonl"), compacted.path().display().to_string());
    home.expect(0, &["compact", &source.display().to_string(), "--out", &out]);
    let mut expected = tree_of(&compacted.path().join(&run));
    // A home has the events themselves.
    expected.retain(|name, _| !name.ends_with(".events.sha256"));
    assert!(expected.len() >= 2, "{expected:?}");
    wait_until("all of the run", || tree_of(&files) == expected);
    home.expect(0, &["compact", "--run", &run, "--verify"]);
    let now = home.expect(0, &["--json", "compact", "--run", &run, "--now"]);
    let taken = json_of(&now.out)["snapshots"].as_array().unwrap().len();
    assert_eq!(tree_of(&files).len(), expected.len() + 2 * taken);
    std::fs::write(files.join("1.md"), "edited").unwrap();
    let verdict = home.expect(1, &["--json", "compact", "--run", &run, "--verify"]);
    let verdict = json_of(&verdict.out);
    assert_eq!(schema::check("compaction_verdict.v1", &verdict), []);
    assert_eq!(verdict["differences"][0]["path"], "1.md");
    // After a kill the service continues, reads no event twice, and writes the missing files from
    // the log.
    let head = status()["log"]["head"].as_u64().unwrap();
    drop(serving);
    let serving = serve(&home);
    std::thread::sleep(Duration::from_millis(1200));
    let dump = home.expect(0, &["log", "dump", "--from", &(head + 1).to_string()]);
    assert!(!dump.out.contains("run_events_appended"), "{}", dump.out);
    home.expect(0, &["compact", "--run", &run, "--verify"]);
    drop(serving);
    // Older missing files are written again on demand, from the log alone.
    std::fs::remove_dir_all(&files).unwrap();
    home.expect(0, &["export", "--repair"]);
    home.expect(0, &["compact", "--run", &run, "--verify"]);
    let exported = home.path("exported");
    home.expect(0, &["export", "--to", &exported.display().to_string()]);
    assert_eq!(tree_of(&exported.join("run/snapshots").join(&run)), tree_of(&files));
}

#[test]
fn a_known_line_that_changed_in_a_watched_file_is_refused() {
    let home = ProcessHome::new();
    home.expect(0, &["init"]);
    let watched = home.path("run/run_logs");
    std::fs::create_dir_all(&watched).unwrap();
    let file = watched.join("run.jsonl");
    let lines: Vec<&str> = LOG.lines().collect();
    let of = |lines: &[&str]| format!("{}\n", lines.join("\n"));
    std::fs::write(&file, of(&lines[..10])).unwrap();
    home.expect(0, &["drain"]);
    let status = || json_of(&home.expect(0, &["--json", "status"]).out);
    assert_eq!(status()["compaction"]["set_aside"], json!({}));
    // Every known line but the last, with another time or another text; and more lines after it.
    for (at, change) in [(0, "ts"), (4, "ts"), (4, "payload"), (8, "x_more")] {
        let mut value: Value = serde_json::from_str(lines[at]).unwrap();
        match change {
            "ts" => value["ts"] = "2026-01-14T09:59:59.000Z".into(),
            "payload" => value["payload"]["note"] = "another".into(),
            _ => value[change] = json!({"other": true}),
        }
        let changed = value.to_string();
        let mut log = lines[..12].to_vec();
        log[at] = &changed;
        std::fs::write(&file, of(&log)).unwrap();
        let drained = home.expect(0, &["--json", "drain"]);
        let why = json_of(drained.out.lines().last().unwrap())["run_logs_set_aside"].clone();
        let line = format!("line {}: the log has another event", at + 1);
        assert!(why["run.jsonl"].as_str().unwrap().contains(&line), "{why}");
        let told = status()["compaction"]["set_aside"]["run.jsonl"].clone();
        assert!(told.as_str().unwrap().contains(&format!("its `{change}` differs")), "{told}");
    }
    // A running service sees a change in place too, before it takes in the lines after it.
    std::fs::write(&file, of(&lines[..10])).unwrap();
    let serving = serve(&home);
    let head = || status()["log"]["head"].as_u64().unwrap();
    wait_until("the file is the same again", || status()["compaction"]["set_aside"] == json!({}));
    let before = head();
    let late = lines[4].replacen("2026-01-14", "2026-01-13", 1);
    let mut log = lines[..12].to_vec();
    log[4] = &late;
    std::fs::write(&file, of(&log)).unwrap();
    wait_until("the change is seen", || {
        status()["compaction"]["set_aside"]["run.jsonl"].is_string()
    });
    let dump = home.expect(0, &["log", "dump", "--from", &before.to_string()]).out;
    assert!(!dump.contains("events_appended"), "{dump}");
    std::fs::write(&file, of(&lines)).unwrap();
    wait_until("the rest is taken in", || {
        let dump = home.expect(0, &["log", "dump", "--from", &before.to_string()]).out;
        dump.contains("events_appended") && status()["compaction"]["set_aside"] == json!({})
    });
    drop(serving);
}

fn append_to(path: &Path, text: &str) {
    use std::io::Write as _;
    let mut file = std::fs::OpenOptions::new().append(true).open(path).unwrap();
    file.write_all(text.as_bytes()).unwrap();
}

fn tree_of(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let disk: &dyn Disk = &HostDisk;
    let names = disk.list(dir).unwrap_or_default();
    let names = names.into_iter().filter(|name| !name.ends_with(".tmp"));
    names.map(|name| (name.clone(), disk.read(&dir.join(&name)).unwrap_or_default())).collect()
}

#[test]
fn the_command_reports_errors() {
    let home = ProcessHome::new();
    home.expect(0, &["init"]);
    for args in [&["compact", "--run", "nope", "--now"][..], &["compact", "--run", "nope"]] {
        let unknown = home.expect(5, args);
        assert!(unknown.err.contains("there is no run nope"), "{}", unknown.err);
    }
    let missing = home.expect(5, &["compact", "nowhere.jsonl"]);
    assert!(missing.err.contains("name an existing run_event.v1 file"), "{}", missing.err);
    std::fs::write(home.path("empty.jsonl"), "\n").unwrap();
    let empty = home.path("empty.jsonl").display().to_string();
    home.expect(5, &["compact", &empty]);
    home.expect(5, &["compact", "--run", "nobody", "--verify"]);
    home.expect(2, &["compact"]);
    home.expect(2, &["compact", &empty, "--strict-v1"]);
    let hole = LOG.replace("\"seq\":5", "\"seq\":6");
    std::fs::write(home.path("hole.jsonl"), hole).unwrap();
    let hole = home.path("hole.jsonl").display().to_string();
    let refused = home.expect(5, &["compact", &hole]);
    assert!(refused.err.contains("line 5"), "{}", refused.err);
    // A failed gate stays failed, whatever is asked of the run next.
    let first = LOG.lines().next().unwrap();
    let other = first.replace("Find evidence", "Forget evidence").replace(":1,", ":21,");
    let changed = format!("{LOG}{other}\n").replace("run_demo_01", "run_gate");
    std::fs::write(home.path("gate.jsonl"), &changed).unwrap();
    let gate = home.path("gate.jsonl").display().to_string();
    let failed = home.expect(1, &["compact", &gate, "--now"]);
    assert!(failed.err.contains("objective_unchanged"), "{}", failed.err);
    for again in [
        vec!["compact", &gate, "--now"],
        vec!["compact", &gate],
        vec!["compact", "--run", "run_gate", "--now"],
    ] {
        let again = home.expect(1, &again);
        assert!(again.err.contains("objective_unchanged"), "{}", again.err);
        assert!(again.err.contains("run_id"), "{}", again.err);
    }
    let torn = format!("{}{{\"schema\":", LOG.replace("run_demo_01", "run_torn"));
    std::fs::write(home.path("torn.jsonl"), torn).unwrap();
    let torn = home.path("torn.jsonl").display().to_string();
    let left = home.expect(0, &["compact", &torn, "--now"]);
    assert!(left.err.contains("unfinished last line"), "{}", left.err);
    assert!(left.out.contains("run_torn/1.snapshot.json"), "{}", left.out);
}

/// Requests over texts of their own; every tenth names a file that is not there.
fn ask(home: &ProcessHome, from: u64, count: u64) {
    let mut bytes = Vec::new();
    for number in from..from + count {
        let id = format!("r{number}");
        if number % 10 != 9 {
            let text = format!("Note {number} says that the pump was replaced. It runs again.");
            home.note(&format!("{id}.txt"), &text);
        }
        bytes.extend_from_slice(&lines(&[request(&id, ACTIVE, json!({}))]));
    }
    home.append(&bytes);
}

/// The snapshots of the service's session: run, sequence, claims, verified claims.
fn own_snapshots(home: &ProcessHome) -> Vec<(String, u64, usize, usize)> {
    let dump = home.expect(0, &["--json", "log", "dump"]).out;
    let mut found = Vec::new();
    for event in dump.lines().map(json_of).filter(|event| event["kind"] == "snapshot_taken") {
        let facts = &event["facts"];
        assert!(facts["covers"].is_u64(), "{facts}");
        let (run, sequence) = (facts["run_id"].as_str().unwrap(), facts["sequence"].as_u64());
        let sequence = sequence.unwrap();
        let file = home.read(&format!("run/snapshots/{run}/{sequence}.snapshot.json"));
        let snapshot: Value = serde_json::from_slice(&file).unwrap();
        assert_eq!(schema::check("compaction_snapshot.v1", &snapshot), []);
        let claims = snapshot["state"]["claims"].as_array().unwrap();
        let verified = claims.iter().filter(|claim| claim["status"] == "verified").count();
        found.push((run.to_owned(), sequence, claims.len(), verified));
        home.expect(0, &["compact", "--run", run, "--verify"]);
    }
    found
}

#[test]
fn the_session_of_the_service_is_compacted_in_segments() {
    let home = ProcessHome::new();
    ask(&home, 0, 70);
    home.expect(0, &["drain"]);
    let taken = own_snapshots(&home);
    let claims: usize = taken.iter().map(|(_, _, claims, _)| claims).sum();
    let verified: usize = taken.iter().map(|(_, _, _, verified)| verified).sum();
    assert_eq!(claims, 63, "{taken:?}");
    assert_eq!(verified, 63, "{taken:?}");
    assert!(taken.len() >= 2, "{taken:?}");
    assert!(taken[0].0.ends_with(".1") && taken[1].0.ends_with(".2"), "{taken:?}");
    let run = taken[0].0.rsplit_once('.').unwrap().0.to_owned();
    let file = home.read(&format!("run/snapshots/{}/1.snapshot.json", taken[0].0));
    let snapshot: Value = serde_json::from_slice(&file).unwrap();
    assert_eq!(snapshot["state"]["failures"][0]["category"], "RETRIEVAL_FAILURE");
    assert!(!snapshot["state"]["source_coverage"]["chunk_ids_cited"][0].is_null());
    let statement = snapshot["state"]["claims"][0]["statement"].as_str().unwrap();
    assert!(statement.ends_with(", from 1 source"), "{statement}");
    // The run record and the status name the last one; nothing of the run itself is stored twice.
    let last = taken.last().unwrap();
    let status = json_of(&home.expect(0, &["--json", "status"]).out);
    assert_eq!(status["compaction"]["service"]["run_id"], last.0.as_str());
    let dump = home.expect(0, &["--json", "log", "dump"]).out;
    let finished = dump.lines().map(json_of).find(|event| event["event"] == "SessionFinished");
    let finished = finished.unwrap();
    assert_eq!(finished["run_id"], run.as_str());
    assert_eq!(finished["report"]["snapshot"]["run_id"], last.0.as_str());
    assert!(!dump.contains("run_events_appended"));
    let record = home.read(&format!("buses/artifacts/run_records/{run}.run_record.json"));
    let record = String::from_utf8(record).unwrap();
    assert!(record.contains(&format!("snapshot {} of {}", last.1, last.0)), "{record}");
    // A drain without work takes no snapshot.
    home.expect(0, &["drain"]);
    assert_eq!(own_snapshots(&home), taken);
}

#[test]
fn the_next_session_ends_the_segment_of_a_killed_one() {
    let home = ProcessHome::new();
    ask(&home, 0, 30);
    let serving = serve(&home);
    let completed = || {
        let status = json_of(&home.expect(0, &["--json", "status"]).out);
        // A service that is still starting says so, and counts nothing.
        let by_status = &status["requests"]["by_status"];
        let count = |name: &str| by_status[name].as_u64().unwrap_or(0);
        count("completed") + count("failed_input")
    };
    wait_until("the first requests", || completed() == 30);
    // On demand, while it runs: the open segment gets a first snapshot.
    let now = home.expect(0, &["--json", "compact", "--run", "service", "--now"]);
    let report = json_of(&now.out);
    let segment = report["run_id"].as_str().unwrap().to_owned();
    assert!(report["snapshots"][0]["sequence"] == 1, "{report}");
    home.expect(1, &["compact", "--run", "service", "--now"]);
    ask(&home, 30, 10);
    wait_until("the next requests", || completed() == 40);
    drop(serving);
    assert_eq!(own_snapshots(&home).len(), report_count(&home));
    ask(&home, 40, 10);
    home.expect(0, &["drain"]);
    let taken = own_snapshots(&home);
    let of_killed: Vec<_> = taken.iter().filter(|(run, ..)| *run == segment).collect();
    // The snapshot on demand, and the one at the end that the next service derived.
    assert!(of_killed.len() >= 2, "{taken:?}");
    assert_eq!(of_killed.last().unwrap().1, of_killed.len() as u64, "{taken:?}");
    let last_of_segments: BTreeMap<_, _> = taken.iter().map(|one| (one.0.clone(), one.2)).collect();
    assert_eq!(last_of_segments.values().sum::<usize>(), 45, "{taken:?}");
    home.expect(0, &["replay", "--verify"]);
}

/// How many snapshots `status` counts.
fn report_count(home: &ProcessHome) -> usize {
    let status = json_of(&home.expect(0, &["--json", "status"]).out);
    status["compaction"]["snapshots"].as_u64().unwrap() as usize
}

#[test]
fn tuning_recommends_valid_settings_for_runs_and_log() {
    let home = ProcessHome::new();
    let out = home.path("tune").display().to_string();
    let small = ["--event-thresholds", "6,18", "--step-fallbacks", "4,8"];
    let mut args = vec!["--json", "tune", "--runs", "8", "--events", "80", "--seed", "3"];
    args.extend(small);
    args.extend(["--out", &out, "--log-events", "1500"]);
    args.extend(["--checkpoint-intervals", "150,600", "--commit-batches", "32,256"]);
    let report = json_of(&home.expect(0, &args).out);
    assert_eq!(schema::check("tune_report.v1", &report), []);
    let shown = |report: &Value, events: u64, steps: u64| {
        let rows = report["rows"].as_array().unwrap();
        rows.iter().any(|row| row["event_threshold"] == events && row["step_fallback"] == steps)
    };
    assert!(shown(&report, 6, 4) && shown(&report, 18, 8));
    let rows = report["log_rows"].as_array().unwrap();
    assert_eq!(rows.len(), 4);
    for row in rows {
        let figure = |name: &str| row[name].as_f64().unwrap();
        let every = row["setting"]["checkpoint_every_events"].as_f64().unwrap();
        let batch = row["setting"]["commit_batch"].as_f64().unwrap();
        assert!(figure("events_per_second") > 0.0 && figure("open_ms") > 0.0, "{row}");
        assert!(figure("bytes_per_event") > 100.0, "{row}");
        assert!(figure("checkpoint_ms_max") > 0.0, "a checkpoint was taken: {row}");
        // A crash leaves at most an interval and the commit that reached it.
        let tail = figure("tail_events_on_open");
        assert!(tail <= every + 2.0 * batch && (tail > 0.0 || batch > every), "{row}");
    }
    let mean_tail = |every: u64| -> f64 {
        let of = rows.iter().filter(|row| row["setting"]["checkpoint_every_events"] == every);
        of.map(|row| row["tail_events_on_open"].as_f64().unwrap()).sum()
    };
    assert!(mean_tail(150) < mean_tail(600), "longer intervals leave longer tails");
    // Everything is there, and the settings are a configuration this program accepts.
    let names: Vec<String> = tree_of(&home.path("tune")).into_keys().collect();
    for name in [
        "tune.csv",
        "tune.html",
        "tune.toml",
        "tune_log.csv",
        "cost.svg",
        "log_rate.svg",
        "log_open.svg",
    ] {
        assert!(names.iter().any(|found| found == name), "{names:?}");
    }
    assert!(!names.iter().any(|name| name.starts_with(".tune-")), "{names:?}");
    let page = String::from_utf8(home.read("tune/tune.html")).unwrap();
    assert!(page.contains("The log's own thresholds") && page.contains("cannot measure"));
    assert_eq!(page.matches("<svg").count(), 7);
    let csv = String::from_utf8(home.read("tune/tune_log.csv")).unwrap();
    assert_eq!(csv.lines().count(), 5);
    assert!(csv.starts_with("checkpoint_every_events,commit_batch,events_per_second"));
    let toml = home.path("tune/tune.toml").display().to_string();
    let config = home.expect(0, &["--json", "--config", &toml, "config"]).json();
    let setting = |key: &str| {
        let settings = config["settings"].as_array().unwrap();
        let found = settings.iter().find(|one| one["key"] == key).unwrap().clone();
        assert_eq!(found["origin"], "file", "{key}");
        found["value"].clone()
    };
    let recommended = &report["log_recommended"];
    assert_eq!(
        setting("compaction.checkpoint_every_events"),
        recommended["checkpoint_every_events"]
    );
    assert_eq!(setting("commit.max_batch"), recommended["commit_batch"]);
    assert_eq!(setting("compaction.event_threshold"), report["recommended"]["event_threshold"]);
    // With recorded run logs and without the home's log all figures except times are always the same.
    std::fs::write(home.path("a.jsonl"), generated(0, 120)).unwrap();
    std::fs::write(home.path("b.jsonl"), LOG).unwrap();
    let (a, b) =
        (home.path("a.jsonl").display().to_string(), home.path("b.jsonl").display().to_string());
    let mut args = vec!["--json", "tune", &a, &b, "--log-events", "0"];
    args.extend(small);
    let figures = || {
        let mut report = json_of(&home.expect(0, &args).out);
        assert_eq!((&report["log_rows"], &report["log_recommended"]), (&json!([]), &Value::Null));
        for row in report["rows"].as_array_mut().unwrap() {
            (row["fold_ns"], row["build_ns"]) = (Value::Null, Value::Null);
        }
        report
    };
    assert_eq!(figures(), figures());
    // The recommendation is the same whatever lists are given.
    let recommended = |lists: &[&str]| {
        let mut args = vec!["--json", "tune", &a, &b, "--log-events", "0"];
        args.extend(lists);
        let report = json_of(&home.expect(0, &args).out);
        (report["recommended"].clone(), shown(&report, 7, 5))
    };
    let (alone, _) = recommended(&[]);
    for lists in [
        &["--event-thresholds", "6,900"][..],
        &["--event-thresholds", "7", "--step-fallbacks", "5"],
    ] {
        let (with, listed) = recommended(lists);
        assert_eq!(with, alone, "{lists:?}");
        assert_eq!(listed, lists.contains(&"7"));
    }
    // The weights are configured. When only bytes count, fewer snapshots are better.
    let bytes_only = "[compaction]\ncost_of_reread = 0\ncost_of_memory = 0\ncost_of_age = 0\n";
    std::fs::write(home.path("bytes.toml"), bytes_only).unwrap();
    let config = home.path("bytes.toml").display().to_string();
    let args = ["--json", "--config", &config, "tune", "--runs", "6", "--log-events", "0"];
    let seldom = json_of(&home.expect(0, &args).out);
    assert!(seldom["recommended"]["event_threshold"].as_u64().unwrap() > 48, "{seldom}");
    let human = home.expect(0, &["tune", &b, "--log-events", "0", "--event-thresholds", "6"]);
    assert!(human.out.contains("event threshold") && human.out.contains("[compaction]"));
    assert!(human.out.contains("cannot measure loop rate"), "{}", human.out);
    home.expect(2, &["tune", &b, "--runs", "3"]);
    home.expect(2, &["tune", "--event-thresholds", "0"]);
    std::fs::write(home.path("bad.jsonl"), "{}\n").unwrap();
    home.expect(5, &["tune", &home.path("bad.jsonl").display().to_string()]);
}
