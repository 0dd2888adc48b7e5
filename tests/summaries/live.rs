//! What holds while the service runs, is killed, or is given its work in another order.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use super::support::process::{ProcessHome, Running};
use super::support::requests::lines;
use super::support::running::until;
use super::*;

#[test]
fn two_homes_with_the_same_work_in_another_order_publish_the_same() {
    let mut published = Vec::new();
    for (seed, workers) in [(1, 1), (2, 4), (3, 2)] {
        let (home, asked) = many(120, seed, workers);
        // In pieces, with a run each.
        for piece in asked.chunks(80) {
            home.append(&lines(piece));
            home.expect(0, &["drain"]);
        }
        check_published(&home);
        independent::agrees(home.root(), &independent::STREAMS);
        published.push((lines_of(&home), manifests_of(&home)));
    }
    assert!(published[0].0.values().any(|lines| lines.len() > 5));
    for other in &published[1..] {
        assert_eq!(published[0].0, other.0);
        assert_eq!(published[0].1, other.1);
    }
}

/// Follows the documented reader rule, knowing nothing of the program: open `summaries` once,
/// resolve manifest and data relative to that, and on a mismatch open it again. Counts the
/// partitions it read.
fn watch(summaries: &Path, stop: &AtomicBool, read: &AtomicU64) {
    use std::os::fd::AsRawFd as _;
    while !stop.load(Ordering::Relaxed) {
        let Ok(dir) = std::fs::File::open(summaries) else { continue };
        let held = PathBuf::from(format!("/proc/self/fd/{}", dir.as_raw_fd()));
        let Ok(names) = std::fs::read_dir(held.join("manifest")) else { continue };
        let names: Vec<String> = names
            .flatten()
            .map(|name| name.file_name().to_string_lossy().into_owned())
            .filter(|name| !name.starts_with('.'))
            .collect();
        for name in names {
            let mut at = held.clone();
            let mut again = None;
            let mut tries = 0;
            while let Err(why) = whole(&at, &name) {
                tries += 1;
                assert!(tries < 20, "{name}: {why}");
                let dir = std::fs::File::open(summaries).unwrap();
                at = PathBuf::from(format!("/proc/self/fd/{}", dir.as_raw_fd()));
                again = Some(dir);
            }
            drop(again);
            read.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn whole(at: &Path, name: &str) -> Result<(), String> {
    let bytes = std::fs::read(at.join("manifest").join(name)).map_err(|e| e.to_string())?;
    let manifest: Value = serde_json::from_slice(&bytes).map_err(|e| e.to_string())?;
    let path = manifest["paths"]["summaries_path"].as_str().unwrap();
    let path = path.strip_prefix("summaries/").unwrap();
    let data = std::fs::read(at.join(path)).map_err(|e| e.to_string())?;
    let hash = summarizer::contract::hash::sha256(&data).hex();
    let lines = data.iter().filter(|byte| **byte == b'\n').count();
    let fits =
        manifest["integrity"]["sha256"] == hash.as_str() && manifest["counts"]["produced"] == lines;
    if fits { Ok(()) } else { Err("data and manifest do not match".to_owned()) }
}

#[test]
fn a_watcher_never_sees_a_mismatch_while_the_service_is_killed() {
    let rounds = if support::deep() { 40 } else { 6 };
    let (home, asked) = many(200, 3, 2);
    let summaries = home.path("buses/summaries");
    let (stop, read) = (AtomicBool::new(false), AtomicU64::new(0));
    let mut random = Rng::new(11);
    std::thread::scope(|scope| {
        let watcher = scope.spawn(|| watch(&summaries, &stop, &read));
        for piece in asked.chunks(asked.len().div_ceil(rounds)) {
            let service = Running::start(&home, &["serve"]);
            until("the service answers", || home.answers());
            home.append(&lines(piece));
            std::thread::sleep(Duration::from_millis(20 + random.below(250)));
            assert!(!watcher.is_finished(), "the watcher stopped");
            service.kill();
        }
        home.expect(0, &["drain"]);
        until("the watcher has seen what is there", || {
            watcher.is_finished() || read.load(Ordering::Relaxed) > 20
        });
        stop.store(true, Ordering::Relaxed);
        watcher.join().unwrap();
    });
    check_published(&home);
    independent::agrees(home.root(), &independent::STREAMS);
    let (clean, mut asked) = many(200, 3, 1);
    asked.sort_by_key(|request| request["request_id"].as_str().unwrap().to_owned());
    clean.append(&lines(&asked));
    clean.expect(0, &["drain"]);
    assert_eq!(lines_of(&home), lines_of(&clean));
    let (records, _) = run_records(&home);
    // A process that was killed before its session began has none.
    let killed = records.iter().filter(|record| record["completed_at"].is_null()).count();
    assert!((1..=rounds).contains(&killed), "{killed} runs were killed");
}

/// A child whose clock a file tells, and the file.
fn serve_told(home: &ProcessHome, now: &str) -> Running {
    tell(home, now);
    let mut command = home.command(&["serve"]);
    command.env("SUMMARIZER_TEST_NOW", home.path("now"));
    command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
    Running(command.spawn().unwrap())
}

/// Sets the clock of [`serve_told`], in one step.
fn tell(home: &ProcessHome, now: &str) {
    std::fs::write(home.path("now.next"), now).unwrap();
    std::fs::rename(home.path("now.next"), home.path("now")).unwrap();
}

/// A service that runs over midnight ends its session and begins another. Each has a run record.
/// Upstream of the new day is read as it appears, and a session finds its events on both sides.
#[test]
fn midnight_ends_a_session_and_begins_another() {
    let home = home();
    let quick = "timezone = \"America/New_York\"\n[export]\nmin_interval = \"20 ms\"\n";
    std::fs::write(home.path("summarizer.toml"), quick).unwrap();
    // A moment before midnight in the zone of the home, for as long as it takes.
    let service = serve_told(&home, "2026-02-12T04:59:59.990Z");
    until("the service answers", || home.answers());
    home.append(&lines(&[ask("before", "event_summary", "event_bus", &["evt_1"])]));
    let done = |id: &str| {
        home.acks().iter().any(|ack| ack["request_id"] == id && ack["status"] == "completed")
    };
    until("the request before midnight", || done("before"));
    tell(&home, "2026-02-12T05:00:00Z");
    // A build of digests has a record too, and reads no queue.
    let folder = home.path("buses/artifacts/run_records");
    let of_a_session = |record: Vec<u8>| String::from_utf8_lossy(&record).contains("queue_read");
    until("the first run has its record", || tree(&folder).into_values().any(of_a_session));
    // What belongs to the new day comes after it began.
    let buses = home.path("buses");
    let late = bus_support::MIDNIGHT + 86_400_000;
    let event = |id: &str, at: i64| bus_support::event(id, at, &format!("Said by {id}."));
    bus_support::events_day(&buses, "2026-02-12", &[event("evt_5", late)]);
    let across = bus_support::session("ses_2", "2026-02-11", late - 9_000, &["evt_5", "evt_4"]);
    bus_support::sessions_day(&buses, "2026-02-11", false, &[across]);
    home.append(&lines(&[
        ask("after", "event_summary", "event_bus", &["evt_5"]),
        ask("across", "session_summary", "session_bus", &["ses_2"]),
    ]));
    until("the requests after midnight", || done("after") && done("across"));
    assert_eq!(service.terminate(), Some(0));
    let (mut records, mut rows) = run_records(&home);
    // Its builds of digests are runs of their own, and read no queue.
    records.retain(|record| record["stages"][0]["stage"] == "queue_read");
    rows.retain(|row| records.iter().any(|record| record["run_id"] == row["run_id"]));
    assert_eq!(records.len(), 2, "{records:#?}");
    let seen = |record: &Value| record["counters"]["records_processed"].clone();
    assert_eq!(records.iter().map(seen).collect::<Vec<_>>(), [json!(1), json!(2)]);
    assert!(records.iter().all(|record| record["status"] == "success"), "{records:#?}");
    assert_eq!(rows.len(), 2);
    // Each row lies on the local day on which its session began.
    for (record, day) in records.iter().zip(["2026-02-11", "2026-02-12"]) {
        let rows = home.read(&format!("buses/run_records/daily/{day}.jsonl"));
        let run_id = record["run_id"].as_str().unwrap();
        assert!(String::from_utf8(rows).unwrap().contains(run_id), "{day}");
    }
    let session = made(&home, "across");
    assert_eq!(session["day"], "2026-02-11", "the day of a session is that of its partition");
    let published = home.read(&format!("buses/{}", session["path"].as_str().unwrap()));
    let item: Value = serde_json::from_slice(published.trim_ascii_end()).unwrap();
    assert_eq!(item["event_ids"], json!(["evt_4", "evt_5"]));
    // A build of digests that the end of the service cut off is finished by the next.
    home.expect(0, &["digest", "build", "--all"]);
    check_published(&home);
}

/// What cannot be published is said, is in the record of the run, and is made up for later.
#[test]
fn a_publication_that_fails_is_recorded_and_made_up_for() {
    let home = home();
    home.append(&lines(&of_every_stream()));
    // A file stands where a folder should be.
    std::fs::create_dir(home.path("buses/summaries")).unwrap();
    std::fs::write(home.path("buses/summaries/events"), "in the way").unwrap();
    home.expect(6, &["drain"]).says(&["publish", "summaries"]);
    for asked in of_every_stream() {
        made(&home, asked["request_id"].as_str().unwrap());
    }
    std::fs::remove_file(home.path("buses/summaries/events")).unwrap();
    home.expect(0, &["drain"]);
    let (records, _) = run_records(&home);
    assert_eq!(records[0]["status"], "error", "{:#}", records[0]);
    let errors = list(&records[0]["errors"]);
    let error = errors.iter().find(|error| error["type"] == "PUBLISH_FAILURE");
    let error = error.unwrap_or_else(|| panic!("{errors:#?}"));
    for name in ["publish_target", "staging_path", "intended_promoted_path", "promotion_status"] {
        assert!(error["details"][name].is_string(), "{name}: {error}");
    }
    let outputs = list(&records[0]["outputs"]);
    assert!(!outputs.is_empty());
    assert!(outputs.iter().all(|output| output["promotion_status"] == "not_written"));
    // The next session publishes the rest and reports it.
    let outputs = list(&records[1]["outputs"]);
    assert!(!outputs.is_empty());
    assert!(outputs.iter().all(|output| output["promotion_status"] == "promoted"));
    check_published(&home);
}

/// Publishing keeps to the interval it was given, however often something ends: with a long one the
/// tree is not touched again after the first time, with a short one it is while the service runs.
/// In the end both have published the same.
#[test]
fn publishing_keeps_to_the_interval_it_was_given() {
    let mut published = Vec::new();
    for (interval, often) in [("1 h", false), ("1 ms", true)] {
        let (home, asked) = many(120, 5, 1);
        let config = format!(
            "[export]\nmin_interval = \"{interval}\"\nmax_share_of_time = 1.0\n\
             [digest]\nauto = \"off\"\n"
        );
        std::fs::write(home.path("summarizer.toml"), config).unwrap();
        let service = Running::start(&home, &["serve"]);
        until("the service answers", || home.answers());
        // Every publication gives the tree another inode, one of two that take turns.
        let inode = || {
            use std::os::unix::fs::MetadataExt as _;
            std::fs::metadata(home.path("buses/summaries")).map_or(0, |meta| meta.ino())
        };
        // What was promoted meanwhile is not there to be read, and is counted the next time.
        let shown = || -> usize {
            let files = std::fs::read_dir(home.path("buses/summaries/events"));
            let files = files.into_iter().flatten().flatten();
            let texts = files.map(|file| std::fs::read(file.path()).unwrap_or_default());
            texts.map(|text| text.iter().filter(|byte| **byte == b'\n').count()).sum()
        };
        let ended = |request: &Value| {
            let ended = |ack: &Value| ack["status"] != "accepted";
            home.acks().iter().any(|ack| ack["request_id"] == request["request_id"] && ended(ack))
        };
        let mut trees = vec![inode()];
        for asked in asked.chunks(30) {
            let before = shown();
            home.append(&lines(asked));
            until("all of them ended", || asked.iter().all(ended));
            if often {
                until("more is shown", || shown() > before);
            }
            trees.push(inode());
        }
        trees.dedup();
        // The first time may come at any moment after the start.
        assert!(often || trees.len() <= 2, "published within an interval: {trees:?}");
        assert_eq!(service.terminate(), Some(0));
        home.expect(0, &["drain"]);
        check_published(&home);
        published.push(lines_of(&home));
    }
    assert_eq!(published[0], published[1]);
}

/// A published file that was edited to the same length is found by the checks and is repaired
/// on demand; nothing in the log changes.
#[test]
fn an_edited_file_of_the_same_length_is_found_and_made_good() {
    let home = home();
    home.append(&lines(&of_every_stream()));
    home.expect(0, &["drain"]);
    let before = tree(&home.path("buses/summaries"));
    let data = home.path("buses").join(made(&home, "document")["path"].as_str().unwrap());
    let bytes = std::fs::read(&data).unwrap();
    flip(&data, "A one", "A two");
    assert_eq!(std::fs::metadata(&data).unwrap().len(), bytes.len() as u64);
    home.expect(0, &["drain"]);
    assert_ne!(std::fs::read(&data).unwrap(), bytes, "a start looks at lengths, not at bytes");
    home.expect(1, &["verify"]).says(&["integrity/sha256"]);
    home.expect(1, &["doctor", "--deep"]).says(&["export --repair"]);
    home.expect(0, &["export", "--repair"]);
    assert!(tree(&home.path("buses/summaries")) == before, "the repair is not what was there");
    home.expect(0, &["verify"]);
    check_exported(&home);
}
