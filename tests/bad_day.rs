//! Damaged homes: a home is damaged in more than ten ways. `doctor`, `recover`, `verify` and
//! `log verify` must report each damage correctly, recovery must keep everything that some file still
//! holds, and nothing may be summarized twice.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test stops at the first surprise"
)]

mod support;

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use summarizer::log::{Commit, Options, Store};
use summarizer::os::Machine;
use support::process::{ProcessHome, Running};
use support::requests::{ACTIVE, DISABLED, lines, request, with};
use support::running::until;

const STORE: &str = "run/summarizer.redb";
const QUEUE: &str = "run/queue.jsonl";
const ACKS: &str = "run/ack.jsonl";

/// A home with every kind of ending, made over two sessions.
fn lived_in() -> ProcessHome {
    let home = ProcessHome::new();
    std::fs::write(home.path("summarizer.toml"), "[queue]\npartial_line_grace = \"1 ms\"\n")
        .unwrap();
    for id in ["a", "b", "c", "d", "e"] {
        let text = format!("The first note is {id}. It says little. It says it twice over.");
        home.note(&format!("{id}.txt"), &text);
    }
    home.note("empty.txt", "\n");
    let key = |id: &str, key: &str| with(request(id, ACTIVE, json!({})), "idempotency_key", key);
    home.append(&lines(&[
        request("a", ACTIVE, json!({})),
        key("b", "key of b"),
        request("a", ACTIVE, json!({})),
        request("missing", ACTIVE, json!({})),
        request("off", DISABLED, json!({})),
        request("empty", ACTIVE, json!({})),
    ]));
    home.append(b"{\"schema_version\":\"summary_request.v1\",\"request_id\":\"bad\"}\n");
    home.append(b"{\"cut off");
    home.expect(0, &["drain"]);
    let mut more = lines(&[request("c", ACTIVE, json!({})), key("d", "key of d")]);
    more.extend_from_slice(&lines(&[with(
        with(request("later", ACTIVE, json!({})), "urgency", "scheduled"),
        "not_before",
        "2999-01-01T00:00:00Z",
    )]));
    home.append(&more);
    home.expect(0, &["drain"]);
    home
}

/// Published summaries without their manifests, which quote sequences of the log.
fn published(home: &ProcessHome) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    collect(&home.path("buses/summaries"), &mut found);
    found.retain(|path, bytes| path.to_string_lossy().ends_with(".jsonl") && !bytes.is_empty());
    found
}

fn collect(dir: &Path, found: &mut BTreeMap<PathBuf, Vec<u8>>) {
    for entry in std::fs::read_dir(dir).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, found);
        } else {
            found.insert(path.clone(), std::fs::read(&path).unwrap());
        }
    }
}

fn outcomes(home: &ProcessHome) -> BTreeMap<String, (String, Value)> {
    let mut last = BTreeMap::new();
    for ack in home.acks() {
        let Some(id) = ack["request_id"].as_str() else { continue };
        // The ack of a repeated id does not tell how the first request ended.
        if ack["status"] == "duplicate" && ack["duplicate_of"] == id {
            continue;
        }
        let status = ack["status"].as_str().unwrap().to_owned();
        last.insert(id.to_owned(), (status, ack["reason_code"].clone()));
    }
    last
}

fn fixes(home: &ProcessHome) -> Vec<(String, String)> {
    let report = home.run(&["doctor", "--deep", "--json"]).json();
    let findings = report["findings"].as_array().unwrap().iter();
    findings
        .inspect(|finding| names_a_command(finding))
        .filter(|finding| finding["verdict"] == "wrong")
        .map(|finding| {
            let text = |name: &str| finding[name].as_str().unwrap_or_default().to_owned();
            (text("check"), text("fix"))
        })
        .collect()
}

/// Each finding that is not `ok` has a fix that a shell can run, beginning with a program.
fn names_a_command(finding: &Value) {
    const PROGRAMS: [&str; 16] = [
        "summarizer",
        "systemctl",
        "timedatectl",
        "curl",
        "ollama",
        "ls",
        "du",
        "mv",
        "sed",
        "echo",
        "read",
        "unset",
        "kill",
        "sudo",
        "chmod",
        "${EDITOR:-vi}",
    ];
    // One finding may say that a check was skipped because of another finding.
    if finding["verdict"] == "fine" || finding["what"] == "not looked at: the registry first" {
        return;
    }
    let fix = finding["fix"].as_str().unwrap_or_else(|| panic!("no command: {finding}"));
    for part in fix.split(" && ") {
        let first = part.split(' ').next().unwrap();
        assert!(PROGRAMS.contains(&first), "{first:?} is no command: {finding}");
    }
    let read = std::process::Command::new("sh").args(["-n", "-c", fix]).status().unwrap();
    assert!(read.success(), "a shell does not read {fix}");
}

fn names_fix(home: &ProcessHome, fix: &str) {
    let found = fixes(home);
    assert!(found.iter().any(|(_, said)| said.contains(fix)), "{fix}: {found:?}");
}

/// Checks everything that must hold in a recovered home.
fn is_sound(home: &ProcessHome) {
    home.expect(0, &["log", "verify"]);
    home.expect(0, &["replay", "--verify"]);
    home.expect(0, &["verify", "--no-sources"]);
    home.expect(0, &["recover"]).says(&["nothing to recover"]);
    assert_eq!(fixes(home), []);
}

/// Recovers, and compares the published files with those from before the damage.
fn recovers(home: &ProcessHome, before: &BTreeMap<PathBuf, Vec<u8>>) -> Value {
    let report = home.expect(0, &["recover", "--json"]).json();
    assert_eq!(report["recovered"], true);
    assert_eq!(report["differences"], json!([]));
    assert!(Path::new(report["set_aside"].as_str().unwrap()).join("report.json").exists());
    is_sound(home);
    assert_eq!(&published(home), before, "summaries changed");
    report
}

/// Draining again makes no summary again, even when all requests are appended again.
fn makes_nothing_again(home: &ProcessHome, before: &BTreeMap<PathBuf, Vec<u8>>, ids: &[&str]) {
    let drained = home.expect(0, &["drain", "--json"]).json();
    assert!(drained["outcomes"]["completed"].is_null(), "{drained}");
    let again: Vec<Value> = ids.iter().map(|id| request(id, ACTIVE, json!({}))).collect();
    home.append(&lines(&again));
    let drained = home.expect(0, &["drain", "--json"]).json();
    assert_eq!(drained["outcomes"]["duplicate"], ids.len(), "{drained}");
    assert!(drained["outcomes"]["completed"].is_null(), "{drained}");
    assert_eq!(&published(home), before, "summaries changed");
}

#[test]
fn a_lost_log_is_recovered() {
    let home = lived_in();
    let (before, told) = (published(&home), outcomes(&home));
    assert_eq!(before.len(), 1, "{:?}", before.keys());
    std::fs::remove_file(home.path(STORE)).unwrap();
    names_fix(&home, "summarizer recover");
    // No command starts a new log beside the old acks.
    for command in [["drain"].as_slice(), &["status"], &["serve"]] {
        home.expect(6, command).says(&["the log is gone", "summarizer recover"]);
    }
    home.expect(1, &["recover", "--dry-run"]).says(&["the log is lost"]);
    assert!(!home.path(STORE).exists(), "a dry run made a log");
    let report = recovers(&home, &before);
    assert_eq!(report["report"]["outputs_recognized"], 4);
    assert_eq!(report["report"]["outputs_adopted"], 0);
    assert_eq!(report["report"]["records_kept"], 0);
    assert_eq!(report["report"]["open"], 1);
    assert_eq!(outcomes(&home), told);
    home.expect(0, &["show", "later"]).says(&["waiting"]);
    let quarantined = home.expect(0, &["quarantine", "list", "--json"]).json_lines();
    let reasons: Vec<&str> = quarantined.iter().filter_map(|q| q["reason"].as_str()).collect();
    assert_eq!(reasons, ["schema_violation", "partial_line"]);
    makes_nothing_again(&home, &before, &["a", "c"]);
}

#[test]
fn digests_of_a_lost_log_are_built_again() {
    let home = lived_in();
    home.expect(0, &["digest", "build"]);
    home.note("more.txt", "Ana painted the roof on Friday. Bo paid for the colour.");
    home.append(&lines(&[request("more", ACTIVE, json!({}))]));
    home.expect(0, &["drain"]);
    home.expect(0, &["digest", "build"]);
    let before = published(&home);
    let memos = |home: &ProcessHome| -> Vec<Vec<u8>> {
        let shown = home.expect(0, &["digest", "list", "--json"]).json();
        let bags = shown["bags"].as_array().unwrap_or_else(|| panic!("{shown}")).iter();
        let memo = |bag: &Value| {
            let path = home.path("buses").join(bag["path"].as_str().unwrap());
            let mut files = BTreeMap::new();
            collect(&path.join("memo"), &mut files);
            files.into_values().collect::<Vec<_>>().concat()
        };
        bags.map(memo).collect()
    };
    let told = memos(&home);
    let retired = home.expect(0, &["digest", "list", "--retired", "--json"]).json();
    let retired = retired["bags"].as_array().map_or(0, Vec::len);
    assert!(!told.is_empty() && retired > 0, "{retired} bags were replaced");
    std::fs::remove_file(home.path(STORE)).unwrap();
    let report = recovers(&home, &before);
    assert_eq!(report["report"]["bags"].as_u64().unwrap() as usize, told.len());
    assert_eq!(memos(&home).len(), told.len());
    let moved = &report["report"]["unknown"]["bags"];
    assert!(moved["count"].as_u64().unwrap() >= retired as u64, "{report}");
    let aside = PathBuf::from(report["set_aside"].as_str().unwrap());
    for path in moved["examples"].as_array().unwrap() {
        let path = path.as_str().unwrap();
        assert!(aside.join(path).join("meta/bag.json").exists(), "{path} is kept");
        assert!(!home.path("buses").join(path).exists(), "{path} is no part of the tree");
    }
    home.expect(0, &["digest", "build"]);
    is_sound(&home);
}

#[test]
fn digests_that_cannot_be_built_again_stay_and_the_last_line_says_what_to_do() {
    let home = lived_in();
    home.expect(0, &["digest", "build"]);
    std::fs::remove_file(home.path(STORE)).unwrap();
    std::fs::create_dir_all(home.path("flow_registry")).unwrap();
    let selectors = home.path("flow_registry/registry.selectors.v1.jsonl");
    std::fs::write(&selectors, "no selector\n").unwrap();
    let ran = home.expect(0, &["recover"]);
    ran.says(&["summarizer digest build && summarizer digest gc --orphans --yes"]);
    home.expect(0, &["verify", "--no-sources"]);
    std::fs::remove_file(&selectors).unwrap();
    let report = home.run(&["doctor", "--json"]).json();
    let fix = "summarizer digest build && summarizer digest gc --orphans --yes";
    assert!(report["findings"].as_array().unwrap().iter().any(|one| one["fix"] == fix), "{report}");
    home.expect(0, &["digest", "build"]);
    home.expect(0, &["digest", "gc", "--orphans", "--yes"]);
    is_sound(&home);
}

#[test]
fn a_log_that_is_cut_empty_or_another_file_is_recovered() {
    for damage in ["half", "empty", "other"] {
        let home = lived_in();
        let (before, told) = (published(&home), outcomes(&home));
        let mut bytes = home.read(STORE);
        match damage {
            "half" => bytes.truncate(bytes.len() / 2),
            "empty" => bytes.clear(),
            _ => bytes = b"this is no log at all, and never was one ".repeat(400),
        }
        std::fs::write(home.path(STORE), &bytes).unwrap();
        names_fix(&home, "summarizer recover");
        home.expect(6, &["log", "verify"]).says(&["summarizer recover"]);
        let report = recovers(&home, &before);
        let aside = report["set_aside"].as_str().unwrap();
        let kept = std::fs::read(Path::new(aside).join("summarizer.redb")).unwrap();
        assert_eq!(kept, bytes, "{damage}: the damaged log was not kept as it was");
        assert_eq!(outcomes(&home), told, "{damage}");
        makes_nothing_again(&home, &before, &["a"]);
    }
}

#[test]
fn a_log_with_changed_bytes_keeps_the_records_before_them() {
    let home = lived_in();
    let (before, told) = (published(&home), outcomes(&home));
    // A mark is stored uncompressed in its frame. All copies of one mark, not the newest, are changed.
    let mut marks: Vec<Vec<u8>> = Vec::new();
    let store = store_of(&home);
    let read = store.reader().marks(&mut |_, mark| {
        marks.push(mark.to_vec());
        ControlFlow::Continue(())
    });
    read.unwrap();
    store.close().unwrap();
    let chosen = &marks[marks.len() - 2];
    let mut bytes = home.read(STORE);
    let copies: Vec<usize> = bytes
        .windows(chosen.len())
        .enumerate()
        .filter(|(_, window)| window == chosen)
        .map(|(at, _)| at)
        .collect();
    assert!(!copies.is_empty());
    for at in copies {
        bytes[at + 2] ^= 0x20;
    }
    std::fs::write(home.path(STORE), &bytes).unwrap();
    let verified = home.run(&["log", "verify", "--json"]);
    assert_ne!(verified.exit, Some(0), "{}", verified.out);
    names_fix(&home, "summarizer recover");
    let report = recovers(&home, &before);
    let kept = report["report"]["records_kept"].as_u64().unwrap();
    assert!(report["report"]["damage"].is_string(), "{report}");
    assert_eq!(outcomes(&home), told);
    // Records that were intact are unchanged: an early ack still proves them.
    if kept > 0 {
        let first = home.acks()[0].clone();
        let anchor = format!("{}:{}", first["ack_seq"], first["log_head"].as_str().unwrap());
        home.expect(0, &["log", "verify", "--anchor", &anchor]);
    }
    makes_nothing_again(&home, &before, &["a", "c"]);
}

/// The log of a home that no process has open.
fn store_of(home: &ProcessHome) -> Store {
    let path = home.path(STORE);
    let options = Options::beside(&path);
    Store::open(Machine::real().disk, &path, options, [7; 16], &mut |_| {}).unwrap()
}

#[test]
fn a_damaged_queue_position_is_an_error_in_every_command_and_is_recovered() {
    let home = lived_in();
    let (before, told) = (published(&home), outcomes(&home));
    let mut store = store_of(&home);
    let mut mark = store.reader().mark();
    *mark.last_mut().unwrap() ^= 1;
    let first = store.head().0.next();
    // Without records the mark goes to a table that no frame covers.
    store.append(Commit { first, records: &[], mark: &mark, checkpoint: None }).unwrap();
    store.close().unwrap();

    for command in [&["status"][..], &["queue", "adopt"], &["drain"]] {
        let ran = home.run(command);
        assert_ne!(ran.exit, Some(0), "{command:?}: {}", ran.out);
        ran.says(&["queue position in the log is damaged", "summarizer recover"]);
    }
    names_fix(&home, "summarizer recover");
    recovers(&home, &before);
    assert_eq!(outcomes(&home), told);
    makes_nothing_again(&home, &before, &["a", "c"]);
}

#[test]
fn a_lost_log_is_recovered_without_acks() {
    let home = lived_in();
    let before = published(&home);
    std::fs::remove_file(home.path(STORE)).unwrap();
    std::fs::remove_file(home.path(ACKS)).unwrap();
    names_fix(&home, "summarizer recover");
    let report = recovers(&home, &before);
    assert_eq!(report["report"]["outputs_adopted"], 4);
    // Every line is read again. Work that is published already is recognized by its summary id.
    let drained = home.expect(0, &["drain", "--json"]).json();
    assert!(drained["outcomes"]["completed"].is_null(), "{drained}");
    assert_eq!(published(&home), before);
    let ended = outcomes(&home);
    assert_eq!(ended["c"], ("duplicate".to_owned(), json!("identical_work")));
    assert_eq!(ended["a"].0, "duplicate");
    is_sound(&home);
}

#[test]
fn a_lost_log_is_recovered_without_the_queue() {
    let home = lived_in();
    let before = published(&home);
    std::fs::remove_file(home.path(STORE)).unwrap();
    std::fs::remove_file(home.path(QUEUE)).unwrap();
    names_fix(&home, "summarizer recover");
    let report = recovers(&home, &before);
    assert_eq!(report["report"]["outputs_recognized"], 4);
    assert_eq!(report["report"]["unknown"]["request_texts"]["count"], 4);
    let lost = &report["report"]["unknown"]["requests"]["examples"];
    assert!(lost.as_array().unwrap().contains(&json!("later")), "{lost}");
    // Ids and keys are known: the same request again gives the pointer and no second summary.
    let mut keyed = request("b", ACTIVE, json!({}));
    keyed["idempotency_key"] = "key of b".into();
    home.append(&lines(&[keyed]));
    let drained = home.expect(0, &["drain", "--json"]).json();
    assert_eq!(drained["outcomes"]["duplicate"], 1, "{drained}");
    makes_nothing_again(&home, &before, &["a", "c"]);
}

#[test]
fn recovery_does_not_trust_an_edited_day() {
    let home = lived_in();
    let before = published(&home);
    let path = before.keys().next().unwrap().clone();
    let text = String::from_utf8(before[&path].clone()).unwrap();
    std::fs::write(&path, text.replacen("note", "nope", 1)).unwrap();
    std::fs::remove_file(home.path(STORE)).unwrap();
    home.expect(1, &["verify", "--no-sources"]);
    names_fix(&home, "summarizer recover");
    let report = home.expect(0, &["recover", "--json"]).json();
    assert_eq!(report["report"]["outputs_recognized"], 0);
    assert_eq!(report["report"]["unknown"]["damaged_partitions"]["count"], 1);
    assert_eq!(report["report"]["unknown"]["outputs"]["count"], 4);
    // The edited day is not trusted: its summaries are made again, with the same bytes.
    let drained = home.expect(0, &["drain", "--json"]).json();
    assert_eq!(drained["outcomes"]["completed"], 4, "{drained}");
    is_sound(&home);
    let texts = |bytes: &[u8]| {
        let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        let read = |line: &[u8]| serde_json::from_slice::<Value>(line).unwrap();
        lines.map(|line| read(line)["outputs"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(texts(&published(&home)[&path]), texts(&before[&path]));
}

#[test]
fn an_edited_or_missing_day_is_published_again() {
    let home = lived_in();
    let before = published(&home);
    let path = before.keys().next().unwrap().clone();
    let text = String::from_utf8(before[&path].clone()).unwrap();
    std::fs::write(&path, text.replacen("note", "nope", 1)).unwrap();
    home.expect(1, &["verify", "--no-sources"]).says(&["sha256"]);
    names_fix(&home, "summarizer export --repair");
    home.expect(0, &["log", "verify"]);
    home.expect(0, &["recover"]).says(&["nothing to recover"]);
    home.expect(0, &["export", "--repair"]);
    assert_eq!(published(&home), before);
    is_sound(&home);
    std::fs::remove_dir_all(home.path("buses/summaries")).unwrap();
    names_fix(&home, "summarizer export --repair");
    home.expect(0, &["export", "--repair"]);
    assert_eq!(published(&home), before);
    is_sound(&home);
}

#[test]
fn missing_or_edited_acks_are_written_again() {
    let home = lived_in();
    let (before, acks) = (published(&home), home.read(ACKS));
    std::fs::remove_file(home.path(ACKS)).unwrap();
    home.expect(0, &["status"]);
    assert_eq!(home.read(ACKS), acks, "the log writes them again");
    let mut edited = acks.clone();
    let at = edited.windows(9).position(|window| window == b"completed").unwrap();
    edited[at..at + 9].copy_from_slice(b"COMPLETED");
    std::fs::write(home.path(ACKS), &edited).unwrap();
    home.expect(1, &["replay", "--verify"]).says(&["ack.jsonl"]);
    names_fix(&home, "summarizer export --repair");
    std::fs::remove_file(home.path(ACKS)).unwrap();
    is_sound(&home);
    assert_eq!(home.read(ACKS), acks);
    assert_eq!(published(&home), before);
}

#[test]
fn a_rewritten_shortened_or_replaced_queue_is_reported_and_adopted() {
    for damage in ["rewritten", "shortened", "copied"] {
        let home = lived_in();
        let before = published(&home);
        let queue = home.read(QUEUE);
        match damage {
            "rewritten" => {
                let text = String::from_utf8(queue).unwrap().replacen("tests", "taste", 1);
                std::fs::write(home.path(QUEUE), text).unwrap();
            }
            "shortened" => std::fs::write(home.path(QUEUE), &queue[..queue.len() / 2]).unwrap(),
            _ => {
                std::fs::write(home.path("run/copy"), &queue).unwrap();
                std::fs::rename(home.path("run/copy"), home.path(QUEUE)).unwrap();
            }
        }
        names_fix(&home, "summarizer queue adopt");
        home.expect(5, &["drain"]).says(&["queue adopt"]);
        home.expect(0, &["log", "verify"]);
        home.expect(0, &["recover"]).says(&["nothing to recover"]);
        let from = if damage == "copied" { "same-offset" } else { "end" };
        home.expect(0, &["queue", "adopt", "--from", from]);
        is_sound(&home);
        makes_nothing_again(&home, &before, &["a"]);
    }
}

#[test]
fn a_missing_archive_segment_is_reported() {
    let home = lived_in();
    let (before, told) = (published(&home), outcomes(&home));
    home.expect(0, &["log", "archive", "--before", "12"]);
    let segment = std::fs::read_dir(home.path("run/archive")).unwrap().next().unwrap().unwrap();
    std::fs::remove_file(segment.path()).unwrap();
    home.expect(6, &["status"]).says(&["summarizer recover"]);
    names_fix(&home, "summarizer recover");
    recovers(&home, &before);
    assert_eq!(outcomes(&home), told);
    makes_nothing_again(&home, &before, &["a", "c"]);
}

#[test]
fn agent_runs_of_a_lost_log_are_recovered_from_their_run_logs_and_snapshots() {
    const LOG: &str = include_str!("fixtures/compaction/worked_example.jsonl");
    let home = lived_in();
    let before = published(&home);
    let watched = LOG.replace("run_demo_01", "watched_run");
    let elsewhere = LOG.replace("run_demo_01", "elsewhere");
    let other = LOG.replace("run_demo_01", "sparse_run");
    std::fs::create_dir_all(home.path("run/run_logs")).unwrap();
    let settings = "[compaction]\nevent_threshold = 6\n";
    std::fs::write(home.path("summarizer.toml"), settings).unwrap();
    std::fs::write(home.path("run/run_logs/watched.jsonl"), &watched).unwrap();
    let (elsewhere_log, other_log) =
        (home.path("elsewhere.jsonl"), home.path("run/run_logs/other.jsonl"));
    std::fs::write(&elsewhere_log, &elsewhere).unwrap();
    std::fs::write(home.path("run/run_logs/bad.jsonl"), "{}\n").unwrap();
    std::fs::write(&other_log, &other).unwrap();
    let elsewhere_log = elsewhere_log.display().to_string();
    home.expect(0, &["compact", &other_log.display().to_string(), "--event-threshold", "3"]);
    home.expect(0, &["compact", &elsewhere_log]);
    let drained = home.expect(0, &["--json", "drain"]).json();
    assert!(drained["run_logs_set_aside"]["bad.jsonl"].as_str().unwrap().contains("line 1"));
    home.expect(1, &["drain", "--fail-on-error"]).says(&["bad.jsonl is skipped"]);
    let mut snapshots = BTreeMap::new();
    collect(&home.path("run/snapshots"), &mut snapshots);
    let of = |run: &str| -> BTreeMap<PathBuf, Vec<u8>> {
        let dir = home.path("run/snapshots").join(run);
        let all = snapshots.iter().filter(|(path, _)| path.starts_with(&dir));
        all.map(|(path, bytes)| (path.clone(), bytes.clone())).collect()
    };
    assert_eq!(of("watched_run").len(), 2, "drain takes in what is in the folder");
    assert_eq!(of("sparse_run").len(), 4);
    std::fs::remove_file(home.path(STORE)).unwrap();

    let report = home.expect(0, &["recover", "--json"]).json();
    let (report, aside) = (&report["report"], PathBuf::from(report["set_aside"].as_str().unwrap()));
    assert_eq!((&report["run_logs"], &report["snapshots"]), (&json!(2), &json!(1)), "{report}");
    let lost = |kind: &str| report["unknown"][kind]["examples"].to_string();
    assert!(lost("run_logs").contains("bad.jsonl: line 1"), "{report}");
    assert_eq!(lost("runs"), "[\"elsewhere/1.snapshot.json\"]");
    let sparse = "[\"sparse_run/1.snapshot.json\",\"sparse_run/2.snapshot.json\"]";
    assert_eq!(lost("snapshots"), sparse);
    let unread = &report["unknown"]["runs"]["means"];
    assert!(unread.as_str().unwrap().contains("compact RUN_LOG"), "{unread}");
    let own = lost("service_runs");
    assert!(own.contains(".1/1.snapshot.json"), "{report}");
    is_sound(&home);
    // All old files are kept aside. Those that the new log does not confirm are only there.
    for (path, bytes) in &snapshots {
        let name = path.strip_prefix(home.path("run/snapshots")).unwrap();
        assert_eq!(std::fs::read(aside.join("snapshots").join(name)).unwrap(), *bytes);
    }
    assert!(!home.path("run/snapshots/elsewhere").exists());
    let mut now = BTreeMap::new();
    collect(&home.path("run/snapshots/watched_run"), &mut now);
    assert_eq!(now, of("watched_run"));
    home.expect(0, &["compact", &elsewhere_log]);
    now.clear();
    collect(&home.path("run/snapshots/elsewhere"), &mut now);
    assert_eq!(now, of("elsewhere"), "taken again, byte for byte");
    is_sound(&home);
    assert_eq!(published(&home), before);
    home.expect(0, &["recover"]).says(&["nothing to recover"]);

    // A snapshot file that differs from the log is found, and so is one that the log does not know.
    // Files of records after the last checkpoint are repaired when the home is opened.
    home.expect(0, &["drain"]);
    let narrative = home.path("run/snapshots/watched_run/1.md");
    let good = std::fs::read(&narrative).unwrap();
    std::fs::write(&narrative, "# changed\n").unwrap();
    home.expect(1, &["replay", "--verify"]).says(&["1.md: its bytes are not what the log holds"]);
    std::fs::write(&narrative, good).unwrap();
    let stray = home.path("run/snapshots/watched_run/2.snapshot.json");
    std::fs::copy(home.path("run/snapshots/watched_run/1.snapshot.json"), &stray).unwrap();
    home.expect(1, &["replay", "--verify"]).says(&["2.snapshot.json: the log knows no such"]);
    std::fs::remove_file(stray).unwrap();
    std::fs::remove_file(narrative).unwrap();
    home.expect(1, &["replay", "--verify"]).says(&["1.md: it is missing"]);
    home.expect(0, &["export", "--repair"]);
    is_sound(&home);
}

#[test]
fn snapshots_alone_show_that_a_log_was_lost() {
    const LOG: &str = include_str!("fixtures/compaction/worked_example.jsonl");
    let home = ProcessHome::new();
    std::fs::write(home.path("run.jsonl"), LOG).unwrap();
    let log = home.path("run.jsonl").display().to_string();
    home.expect(0, &["compact", &log, "--event-threshold", "6"]);
    std::fs::remove_file(home.path(STORE)).unwrap();
    home.expect(6, &["status"]).says(&["run/snapshots holds snapshots", "summarizer recover"]);
    home.expect(0, &["recover"]).says(&["compact RUN_LOG"]);
    is_sound(&home);
}

#[test]
fn a_killed_session_is_reported_and_closed() {
    let home = lived_in();
    let before = published(&home);
    let service = Running::start(&home, &["serve"]);
    until("the service answers", || home.answers());
    service.kill();
    let report = home.expect(0, &["doctor", "--json"]).json();
    let findings = report["findings"].as_array().unwrap();
    let last = findings.iter().find(|finding| finding["check"] == "last session").unwrap();
    assert_eq!(last["verdict"], "notice");
    assert_eq!(last["fix"], "summarizer drain");
    home.expect(0, &["recover"]).says(&["nothing to recover"]);
    home.expect(0, &["drain"]);
    is_sound(&home);
    assert_eq!(published(&home), before);
}

/// A rule that came after a request was accepted refuses nothing of it, also when the log is made again.
#[test]
fn recover_takes_a_request_that_a_rule_of_today_would_refuse() {
    let home = ProcessHome::new();
    home.note("a.txt", "The lamp is broken. Ana repairs it on Monday.");
    let asked = request("a", ACTIVE, json!({"reference": u64::MAX}));
    home.append(&lines(&[with(asked, "idempotency_key", "a")]));
    home.expect(0, &["drain"]);
    let before = published(&home);
    // The same number of digits, and one more than 64 bits hold.
    let queue = String::from_utf8(home.read(QUEUE)).unwrap();
    let wide = queue.replace(&u64::MAX.to_string(), "18446744073709551616");
    assert_ne!(queue, wide);
    std::fs::write(home.path(QUEUE), wide).unwrap();
    std::fs::remove_file(home.path(STORE)).unwrap();
    home.expect(0, &["recover"]);
    let listed = home.expect(0, &["requests", "--json"]).json_lines();
    assert_eq!((listed.len(), &listed[0]["state"]), (1, &json!("completed")), "{listed:?}");
    home.expect(0, &["drain"]);
    assert_eq!(published(&home), before);
    assert!(home.expect(0, &["quarantine", "list", "--json"]).json_lines().is_empty());
}

#[test]
fn a_backup_taken_beside_a_running_service_is_a_home() {
    let home = lived_in();
    let service = Running::start(&home, &["serve"]);
    until("the service answers", || home.answers());
    home.append(&lines(&[request("e", ACTIVE, json!({}))]));
    let copy = ProcessHome { dir: tempfile::tempdir().unwrap() };
    let to = copy.root().to_str().unwrap().to_owned();
    let told = home.expect(0, &["backup", &to, "--json"]).json();
    let (head, hash) = (told["head"].as_u64().unwrap(), told["hash"].as_str().unwrap().to_owned());
    home.expect(2, &["backup", &to]).says(&["is not empty"]);
    home.expect(2, &["backup", home.path("run/copy").to_str().unwrap()]).says(&["inside"]);
    assert_eq!(service.terminate(), Some(0));
    // The copy is the same log up to the sequence at which it was taken.
    let anchor = format!("{head}:{hash}");
    home.expect(0, &["log", "verify", "--anchor", &anchor]);
    copy.expect(0, &["log", "verify", "--anchor", &anchor]);
    is_sound(&copy);
    let manifest: Value = serde_json::from_slice(&copy.read("backup.json")).unwrap();
    assert_eq!(manifest["log"]["head"], head);
    assert_eq!((&manifest["verified"], &told["verified"]), (&json!(true), &json!(true)));
    assert!(manifest["files"]["buses/other/a.txt"]["sha256"].is_string(), "{manifest}");
    // Lines that were not accepted yet are in the copied queue and are processed there.
    copy.expect(0, &["drain"]);
    home.expect(0, &["drain"]);
    assert_eq!(outcomes(&copy), outcomes(&home));
    is_sound(&copy);
    assert!(copy.acks().iter().any(|ack| ack["request_id"] == "e" && ack["status"] == "completed"));
}

/// A home with a past: its old acks were moved to files of their own, or its log is younger than its run records.
#[test]
fn a_backup_of_a_home_with_a_past_is_a_home() {
    let is_copied = |home: &ProcessHome| {
        let copy = ProcessHome { dir: tempfile::tempdir().unwrap() };
        home.expect(0, &["backup", copy.root().to_str().unwrap()]);
        for check in
            [&["verify", "--no-sources"][..], &["replay", "--verify"], &["doctor", "--deep"]]
        {
            copy.expect(0, check);
        }
        is_sound(&copy);
        assert_eq!(outcomes(&copy), outcomes(home));
        copy
    };
    let home = lived_in();
    std::fs::write(home.path("summarizer.toml"), "[retention]\nacks_after = \"1 s\"\n").unwrap();
    std::thread::sleep(std::time::Duration::from_millis(1100));
    home.expect(0, &["retain"]);
    home.append(&lines(&[request("e", ACTIVE, json!({}))]));
    home.expect(0, &["drain"]);
    let copy = is_copied(&home);
    let archived = std::fs::read_dir(copy.path("run/archive")).unwrap().count();
    assert_eq!((archived, copy.read(ACKS)), (1, home.read(ACKS)));

    let home = lived_in();
    home.expect(0, &["digest", "build"]);
    std::fs::remove_file(home.path("run/summarizer.redb")).unwrap();
    home.expect(0, &["recover"]);
    let copy = is_copied(&home);
    let records = |home: &ProcessHome| {
        let folder = std::fs::read_dir(home.path("buses/artifacts/run_records")).unwrap();
        folder.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect::<Vec<_>>()
    };
    assert!(records(&home).len() > 1);
    assert_eq!(records(&copy).len(), records(&home).len());
    for name in records(&home) {
        is_found_and_left(&home, &format!("buses/artifacts/run_records/{name}"));
    }
}

/// A changed byte of a record that may be the only one of its run: each check finds it, and a repair removes no record
/// that nothing can write again.
fn is_found_and_left(home: &ProcessHome, record: &str) {
    let whole = home.read(record);
    let mut damaged = whole.clone();
    damaged[whole.len() / 2] ^= 1;
    std::fs::write(home.path(record), &damaged).unwrap();
    for check in [&["replay", "--verify"][..], &["verify"], &["doctor", "--deep"]] {
        home.expect(1, check).says(&["artifacts/run_records"]);
    }
    home.expect(0, &["export", "--repair"]);
    let repaired = home.read(record);
    assert!(repaired == whole || repaired == damaged, "{record} was lost");
    std::fs::write(home.path(record), &whole).unwrap();
    home.expect(0, &["replay", "--verify"]);
}

/// Each file of a copy that nothing else proves has its hash in `backup.json`, which has its own.
#[test]
fn a_changed_byte_of_a_backup_is_found_until_the_copy_is_used() {
    let home = lived_in();
    let copy = ProcessHome { dir: tempfile::tempdir().unwrap() };
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(copy.root(), open).unwrap();
    home.expect(0, &["backup", copy.root().to_str().unwrap()]);
    let mode = std::fs::metadata(copy.root()).unwrap();
    assert_eq!(std::os::unix::fs::MetadataExt::mode(&mode) & 0o777, 0o700);
    copy.expect(0, &["verify"]);
    let manifest: Value = serde_json::from_slice(&copy.read("backup.json")).unwrap();
    let files = manifest["files"].as_object().unwrap().keys();
    let of_log = |name: &&String| name.ends_with(".redb") || name.ends_with(".keys");
    let mut files: Vec<String> = files.filter(|name| !of_log(name)).cloned().collect();
    files.push("backup.json".to_owned());
    assert!(files.contains(&"summarizer.toml".to_owned()), "{files:?}");
    let mut rng = support::Rng::new(5);
    let all = support::deep();
    let few = ["backup.json", "summarizer.toml", QUEUE, ACKS, "buses/other/a.txt"];
    files.retain(|name| all || few.contains(&name.as_str()) || name.ends_with("flow.dag.yaml"));
    assert!(files.len() > few.len(), "{files:?}");
    for name in &files {
        let whole = copy.read(name);
        if whole.is_empty() {
            continue;
        }
        let mut damaged = whole.clone();
        damaged[rng.below(whole.len() as u64) as usize] ^= 1 << rng.below(8);
        for check in [&["verify"][..], &["doctor", "--deep"]] {
            // Opening a home mends what follows from its log.
            std::fs::write(copy.path(name), &damaged).unwrap();
            let ran = copy.run(check);
            assert!(!matches!(ran.exit, Some(0)), "{name}: {check:?}\n{}\n{}", ran.out, ran.err);
        }
        std::fs::write(copy.path(name), whole).unwrap();
    }
    copy.expect(0, &["verify"]);
    copy.append(&lines(&[request("e", ACTIVE, json!({}))]));
    copy.expect(0, &["drain"]);
    copy.expect(0, &["verify"]).says(&["used as a home"]);
    is_sound(&copy);
}

/// A log is lost, and an ack with it: whatever may be done a second time is said.
#[test]
fn a_request_whose_ack_is_damaged_is_not_done_again_unsaid() {
    let home = lived_in();
    std::fs::write(home.path("summarizer.toml"), "[retention]\nacks_after = \"1 s\"\n").unwrap();
    std::thread::sleep(std::time::Duration::from_millis(1100));
    home.expect(0, &["retain"]);
    let folder = std::fs::read_dir(home.path("run/archive")).unwrap();
    let archived = folder.map(|entry| entry.unwrap().path()).next().unwrap();
    let archived = archived.strip_prefix(home.root()).unwrap().to_str().unwrap().to_owned();
    let whole = home.read(&archived);
    std::fs::remove_file(home.path("run/summarizer.redb")).unwrap();
    let open_after = |acks: &[u8]| {
        let other = ProcessHome { dir: tempfile::tempdir().unwrap() };
        copy_tree(home.root(), other.root());
        std::fs::write(other.path(&archived), acks).unwrap();
        let told = other.run(&["recover", "--json"]).json();
        let unknown = told["report"]["unknown"].clone();
        (told["report"]["open"].as_u64().unwrap(), unknown)
    };
    let (open, unknown) = open_after(&whole);
    assert!(unknown["acks"].is_null() && unknown["request_acks"].is_null(), "{unknown}");
    // Each thing of an ack that says which request it ended, and how.
    let text = String::from_utf8(whole.clone()).unwrap();
    let ended = text.lines().rfind(|line| line.contains("\"status\":\"completed\"")).unwrap();
    let start = text.find(ended).unwrap();
    let at = |word: &str, after: usize| start + ended.find(word).unwrap() + word.len() + after;
    let mut places = vec![
        at("{", 0),
        at("\"status\":\"", 1),
        at("\"offset\":", 0),
        at("\"request_id\":\"", 0),
        at("\"summary_id\":\"", 5),
        at("\"stream\":\"", 1),
    ];
    let more = if support::deep() { 1 } else { ended.len() };
    places.extend((start..start + ended.len()).step_by(more));
    for place in places {
        let mut damaged = whole.clone();
        damaged[place] ^= 1;
        let (now_open, unknown) = open_after(&damaged);
        let is_told =
            ["acks", "request_acks", "outputs"].iter().any(|kind| !unknown[kind].is_null());
        assert!(now_open == open || is_told, "byte {place}: {now_open} open, {unknown}");
    }
    // The whole file is gone.
    let (now_open, unknown) = open_after(b"");
    assert!(now_open == open || !unknown["request_acks"].is_null(), "{now_open}, {unknown}");
}

fn copy_tree(from: &Path, to: &Path) {
    let mut files = BTreeMap::new();
    collect(from, &mut files);
    for (path, bytes) in files {
        let target = to.join(path.strip_prefix(from).unwrap());
        std::fs::create_dir_all(target.parent().unwrap()).unwrap();
        std::fs::write(target, bytes).unwrap();
    }
}

/// A repair says how many files it wrote again: none in a sound home.
#[test]
fn a_repair_counts_only_what_was_wrong() {
    let home = with_all_caches();
    let repaired = || home.expect(0, &["export", "--repair", "--json"]).json()["repaired"].clone();
    let sound = repaired();
    let counts = sound.as_object().unwrap().values();
    assert!(counts.clone().all(|count| *count == 0) && counts.count() > 8, "{sound}");
    let (path, bytes) = published(&home).pop_first().unwrap();
    let mut damaged = bytes.clone();
    damaged[bytes.len() / 2] ^= 1;
    std::fs::write(&path, damaged).unwrap();
    let mut expected = sound.clone();
    expected["summaries"] = json!(1);
    assert_eq!(repaired(), expected);
    assert_eq!(std::fs::read(&path).unwrap(), bytes);
    assert_eq!(repaired(), sound);
}

/// Without the key of the home, no check says that all is well.
#[test]
fn a_sealed_home_without_its_key_is_not_called_sound() {
    let home = lived_in();
    let settings = "[queue]\npartial_line_grace = \"1 ms\"\n";
    let sealed = format!("{settings}[encrypt]\nat_rest = true\nkey_file = \"secret.key\"\n");
    std::fs::write(home.path("secret.key"), "a secret of many letters and more").unwrap();
    std::fs::write(home.path("summarizer.toml"), &sealed).unwrap();
    home.append(&lines(&[request("e", ACTIVE, json!({}))]));
    home.expect(0, &["drain"]);
    home.expect(0, &["verify"]);
    let copy = tempfile::tempdir().unwrap();
    let to = copy.path().to_str().unwrap();
    let checks: [(i32, &[&str]); 7] = [
        (3, &["verify"]),
        (1, &["doctor", "--deep"]),
        (3, &["replay", "--verify"]),
        (3, &["log", "verify"]),
        (3, &["recover"]),
        (3, &["export", "--repair"]),
        (3, &["backup", to]),
    ];
    let without = [settings.to_owned(), sealed.replace("secret.key", "no-such.key")];
    for settings in without {
        std::fs::write(home.path("summarizer.toml"), settings).unwrap();
        for (exit, check) in checks {
            let ran = home.expect(exit, check);
            let told = format!("{}{}", ran.out, ran.err);
            assert!(told.contains("key of the home"), "{check:?}: {told}");
            assert_eq!(told.contains("not checked:"), check == ["verify"], "{check:?}: {told}");
        }
    }
    std::fs::write(home.path("summarizer.toml"), &sealed).unwrap();
    is_sound(&home);
}

/// A home in a folder that was there before: an empty one is closed, and of any other it is said who may look into it.
#[test]
fn a_folder_that_becomes_a_home_is_closed_or_called_open() {
    let made = tempfile::tempdir().unwrap();
    let folder = made.path().join("home");
    std::fs::create_dir(&folder).unwrap();
    let set = |mode: u32| {
        let rights = std::os::unix::fs::PermissionsExt::from_mode(mode);
        std::fs::set_permissions(&folder, rights).unwrap();
    };
    let program = |args: &[&str]| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_summarizer"));
        command.env_clear().env("SUMMARIZER_HOME", &folder).args(args);
        let ran = support::process::Ran::of(command.output().unwrap());
        (ran.exit, ran.out)
    };
    let mode =
        || std::os::unix::fs::MetadataExt::mode(&std::fs::metadata(&folder).unwrap()) & 0o777;
    set(0o755);
    assert_eq!(program(&["init"]).0, Some(0));
    assert_eq!(mode(), 0o700);
    assert!(program(&["doctor"]).1.contains("only the owner can read the home"));
    set(0o755);
    let (_, told) = program(&["doctor"]);
    assert!(told.contains("other users can see the names in"), "{told}");
    assert!(!told.contains("only the owner"), "{told}");
    std::fs::remove_dir_all(folder.join("run")).unwrap();
    set(0o755);
    assert_eq!(program(&["init"]).0, Some(0));
    assert_eq!(mode(), 0o755, "the folder of a person keeps its rights");
}

/// An input or a target that is no file or no folder is wrong input, whatever command is given it: a unit does not
/// start it again.
#[test]
fn a_path_that_can_never_be_used_is_wrong_input_in_every_command() {
    let home = lived_in();
    home.expect(0, &["init", "--with-registry"]);
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    assert!(std::process::Command::new("mkfifo").arg(path("pipe")).status().unwrap().success());
    std::fs::create_dir(path("folder.jsonl")).unwrap();
    std::fs::write(path("file"), "x").unwrap();
    let (pipe, folder, below) = (path("pipe"), path("folder.jsonl"), path("file/x"));
    let out = path("out");
    let inputs: [&[&str]; 7] = [
        &["compact"],
        &["compact", "--out", &out],
        &["compact", "--verify"],
        &["import", "mail"],
        &["import", "rss-json"],
        &["import", "chat-export"],
        &["tune", "--log-events", "0"],
    ];
    for words in inputs {
        for place in [&pipe, &below] {
            let mut args = words.to_vec();
            args.push(place);
            home.expect(5, &args);
        }
    }
    home.expect(5, &["compact", &folder]);
    let targets: [&[&str]; 5] = [
        &["export", "--to"],
        &["backup"],
        &["man", "--out"],
        &["flow", "new", "a.b.c.v1", "--into"],
        &["tune", "--runs", "1", "--events", "100", "--log-events", "0", "--out"],
    ];
    for words in targets {
        for place in [&pipe, &below] {
            let mut args = words.to_vec();
            args.push(place);
            home.expect(5, &args);
        }
    }
}

/// What a command writes for a person lies where a check and a `forget` find it, and acks go into no file elsewhere.
#[test]
fn nothing_is_written_into_the_folders_of_a_home_and_through_no_link() {
    let home = lived_in();
    for folder in
        ["buses/out", "buses/other/out", "run/archive/out", "flow_registry/out", "x/../run/out"]
    {
        let to = home.path(folder);
        home.expect(2, &["export", "--to", to.to_str().unwrap()]).says(&["keeps for itself"]);
        assert!(!to.exists(), "{folder}");
    }
    let elsewhere = tempfile::tempdir().unwrap();
    let mine = elsewhere.path().join("mine.txt");
    std::fs::write(&mine, "words of a person").unwrap();
    std::fs::remove_file(home.path(ACKS)).unwrap();
    std::os::unix::fs::symlink(&mine, home.path(ACKS)).unwrap();
    home.append(&lines(&[request("e", ACTIVE, json!({}))]));
    home.expect(6, &["drain"]).says(&["it is a link"]);
    assert_eq!(std::fs::read_to_string(&mine).unwrap(), "words of a person");
}

#[test]
fn doctor_finds_what_is_wrong_around_a_home() {
    let home = lived_in();
    let findings = |environment: &[(&str, String)]| -> Vec<Value> {
        let mut command = home.command(&["doctor", "--deep", "--json"]);
        command.envs(environment.iter().map(|(name, value)| (*name, value.as_str())));
        let ran = support::process::Ran::of(command.output().unwrap());
        ran.json()["findings"].as_array().unwrap().clone()
    };
    let found = |findings: &[Value], check: &str, words: &str, fix: &str| {
        let text = |finding: &Value, name: &str| finding[name].as_str().unwrap_or("").to_owned();
        let hit = findings.iter().any(|finding| {
            finding["check"] == check
                && finding["verdict"] != "fine"
                && text(finding, "what").contains(words)
                && format!("{} {}", text(finding, "fix"), text(finding, "hint")).contains(fix)
        });
        assert!(hit, "{check}, {words}, {fix}: {findings:#?}");
    };
    let settings = home.path("summarizer.toml");
    let model = "kind = \"openai\"\nmodel = \"m\"\nbase_url = \"http://127.0.0.1:1/v1\"\n";
    let text = format!(
        "[provider.local]\n{model}api_key_env = \"NO_SUCH_KEY\"\n\
         [provider.script]\nkind = \"command\"\ncommand = [\"no-such-program\"]\n"
    );
    std::fs::write(&settings, text).unwrap();
    let bare = home.path("buses/eventbus/daily/2026-01-01.jsonl");
    std::fs::create_dir_all(bare.parent().unwrap()).unwrap();
    std::fs::write(&bare, "{}\n").unwrap();
    let manifest = home.path("buses/sessions/manifest/2026-01-02.sessions.manifest.json");
    std::fs::create_dir_all(manifest.parent().unwrap()).unwrap();
    std::fs::write(&manifest, "{}").unwrap();
    let units = home.path("config/systemd/user");
    std::fs::create_dir_all(&units).unwrap();
    let unit = format!(
        "[Service]\nExecStart=\"/gone/summarizer\" --home {} serve\n",
        home.root().display()
    );
    std::fs::write(units.join("old.service"), unit).unwrap();
    let prompt = std::fs::read_dir(home.path("flow_registry/packs/notes")).unwrap();
    let prompt =
        prompt.map(|file| file.unwrap().path()).find(|path| path.ends_with("flow.dag.yaml"));
    let mut edited = std::fs::read_to_string(prompt.as_ref().unwrap()).unwrap();
    edited.push_str("\n# edited\n");
    std::fs::write(prompt.unwrap(), edited).unwrap();
    let config = home.path("config").display().to_string();
    let all = findings(&[
        ("XDG_CONFIG_HOME", config),
        ("SUMMARIZER_TEST_NOW", "2020-01-01T00:00:00Z".into()),
    ]);
    found(&all, "provider", "cannot reach 127.0.0.1:1", "start the server of");
    found(&all, "provider", "NO_SUCH_KEY is not set", "export NO_SUCH_KEY");
    found(&all, "provider", "no program no-such-program", "provider.script.command");
    found(&all, "upstream", "event_bus: no manifest for 2026-01-01", "summarizer import");
    found(
        &all,
        "upstream",
        "session_bus: a manifest without data for 2026-01-02",
        "publish the data again",
    );
    found(&all, "unit", "/gone/summarizer, which is gone", "summarizer service install --user");
    found(&all, "clock", "later than now", "timedatectl");
    found(&all, "registry", "", "flow_registry/packs/notes --flow-id test.notes.summarize.v1.mine");
    let later = findings(&[("SUMMARIZER_TEST_NOW", "2027-01-01T00:00:00Z".into())]);
    found(
        &later,
        "upstream",
        "session_bus: the newest day is 2026-01-02, 364 days ago",
        "producer still runs",
    );
    std::fs::write(&settings, "[retry]\nmax_attemps = 3\n").unwrap();
    found(&findings(&[]), "configuration", "did you mean", "summarizer config");
}

#[test]
fn retention_previews_and_removes_old_data_and_leaves_a_sound_log() {
    let home = ProcessHome::new();
    // A model responds. Its response is kept in the log because it was paid for.
    let script = home.path("model.sh");
    let answer = "printf '{\"text\":\"It failed twice. It works again.\"}'";
    std::fs::write(&script, format!("#!/bin/sh\ncat > /dev/null\n{answer}\n")).unwrap();
    let script = script.display();
    let settings = |retention: &str| {
        let text = format!(
            "[provider]\ndefault = \"script\"\n[provider.script]\nkind = \"command\"\n\
             command = [\"/bin/sh\", \"{script}\"]\n{retention}"
        );
        std::fs::write(home.path("summarizer.toml"), text).unwrap();
    };
    settings("");
    let at = |now: &str, exit: i32, args: &[&str]| {
        let mut command = home.command(args);
        let ran = command.env("SUMMARIZER_TEST_NOW", now).output().unwrap();
        let ran = support::process::Ran::of(ran);
        // Requests may fail on purpose: then `drain` exits with 1.
        let is_drained = exit == 0 && ran.exit == Some(1) && support::process::is_drain(args);
        assert!(is_drained || ran.exit == Some(exit), "{args:?}\n{}\n{}", ran.out, ran.err);
        ran
    };
    let (winter, spring) = ("2026-01-10T00:00:00Z", "2026-04-10T00:00:00Z");
    for (id, now) in [("a", winter), ("b", spring)] {
        home.note(&format!("{id}.txt"), "It failed twice on Monday. It works again since.");
        home.append(&lines(&[with(request(id, ACTIVE, json!({})), "idempotency_key", id)]));
        at(now, 0, &["drain"]);
    }
    let answers = |now: &str| {
        let dump = at(now, 0, &["log", "dump"]).json_lines();
        dump.iter().filter(|event| event["event"] == "ModelResponded").count()
    };
    assert!(answers(spring) >= 2, "the model was not asked");
    at(spring, 0, &["retain"]).says(&["nothing is removed or moved"]);
    settings(
        "[retention]\nanswers_after = \"30 d\"\nacks_after = \"30 d\"\n\
         [compaction]\narchive_after = \"30 d\"\n",
    );
    let (acks, before) = (home.read(ACKS), published(&home));
    let would = at(spring, 0, &["retain", "--dry-run", "--json"]).json();
    assert_eq!(would["acks"]["moved"], 2, "{would}");
    assert!(would["answers"]["dropped"].as_u64().unwrap() >= 1, "{would}");
    assert_eq!(home.read(ACKS), acks, "a dry run changed something");
    let done = at(spring, 0, &["retain", "--json"]).json();
    assert_eq!((&done["answers"], &done["acks"]), (&would["answers"], &would["acks"]));
    assert!(done["frames"]["records"].as_u64().unwrap() >= 1, "{done}");
    let again = at(spring, 0, &["retain", "--dry-run", "--json"]).json();
    assert_eq!((&again["answers"]["dropped"], &again["acks"]["moved"]), (&json!(0), &json!(0)));
    // The moved and the remaining acks together are the acks from before.
    let archive = std::fs::read_dir(home.path("run/archive")).unwrap();
    let moved = archive
        .map(|entry| entry.unwrap().path())
        .find(|path| path.ends_with("jsonl") || path.to_string_lossy().ends_with(".jsonl"));
    let together = [std::fs::read(moved.unwrap()).unwrap(), home.read(ACKS)].concat();
    assert_eq!(together, acks);
    for command in
        [["log", "verify"].as_slice(), &["replay", "--verify"], &["verify"], &["doctor", "--deep"]]
    {
        at(spring, 0, command);
    }
    std::fs::remove_file(home.path(ACKS)).unwrap();
    at(spring, 0, &["replay", "--verify"]);
    assert!(acks.ends_with(&home.read(ACKS)), "only what is kept is written again");
    assert_eq!(published(&home), before);
    // A backup has all remaining data, and all acks again.
    let copy = home.path("copy");
    at(spring, 0, &["backup", copy.to_str().unwrap()]);
    at(spring, 0, &["--home", copy.to_str().unwrap(), "log", "verify"]);
}

/// A home in which every cache is filled.
fn with_all_caches() -> ProcessHome {
    let home = lived_in();
    let settings =
        "[queue]\npartial_line_grace = \"1 ms\"\n[exports]\nfeed = true\nmetrics = true\n";
    std::fs::write(home.path("summarizer.toml"), settings).unwrap();
    home.expect(0, &["digest", "build"]);
    home.expect(0, &["export", "--repair"]);
    home
}

/// Flipped bits and lost pages of every cache, with work going on. The deep form loses every page of each cache,
/// and flips 1,000 bits of each.
#[test]
fn a_damaged_cache_costs_time_and_changes_no_published_byte() {
    let home = with_all_caches();
    let caches: Vec<_> = ["publisher", "version", "digest", "upstream", "feed", "metrics"]
        .map(|name| home.path(&format!("run/{name}-index.redb")))
        .into_iter()
        .filter(|path| path.exists())
        .collect();
    assert_eq!(caches.len(), 6, "{caches:?}");
    // A file that can be rebuilt and is not damaged here would prove nothing.
    let rebuilt = std::fs::read_dir(home.path("run")).unwrap().map(|one| one.unwrap().path());
    let rebuilt: Vec<_> = rebuilt.filter(|path| !is_kept(path) && !caches.contains(path)).collect();
    assert_eq!(rebuilt, Vec::<PathBuf>::new(), "files that are no cache and not known");
    const PAGE: usize = 4096;
    let mut rng = support::Rng::new(11);
    let pages = caches.iter().map(|cache| std::fs::metadata(cache).unwrap().len());
    let pages = pages.max().unwrap() as usize / PAGE + 1;
    let (pages, bits) = if support::deep() { (pages, 1000) } else { (3, 5) };
    for round in 0..pages + bits {
        let mut places = Vec::new();
        for cache in &caches {
            let mut bytes = std::fs::read(cache).unwrap();
            let at = if round < pages && support::deep() {
                round * PAGE % bytes.len()
            } else {
                rng.below(bytes.len() as u64) as usize
            };
            if round < pages {
                let page = at / PAGE * PAGE;
                let end = (page + PAGE).min(bytes.len());
                bytes[page..end].fill(0);
            } else {
                bytes[at] ^= 1 << rng.below(8);
            }
            std::fs::write(cache, bytes).unwrap();
            places.push((cache.file_name().unwrap(), at));
        }
        let id = format!("round-{round}");
        home.note(&format!("{id}.txt"), &format!("Pump {round} failed on Monday. It works again."));
        home.append(&lines(&[request(&id, ACTIVE, json!({}))]));
        home.expect(0, &["drain"]);
        home.expect(0, &["digest", "build"]);
        let what = format!("round {round}, {places:?}");
        assert_eq!(outcomes(&home)[&id].0, "completed", "{what}");
        let published_so_far = published(&home);
        home.expect(0, &["export", "--repair"]);
        assert!(published(&home) == published_so_far, "a repair changed what is published: {what}");
    }
    is_sound(&home);
}

/// Two pages of a cache whose places are changed: each is whole, and so is each row. The deep form does it to more.
#[test]
fn pages_of_a_cache_that_changed_places_cost_time_and_change_no_published_byte() {
    let home = with_all_caches();
    let caches = ["publisher", "version", "digest", "upstream", "feed", "metrics"]
        .map(|name| home.path(&format!("run/{name}-index.redb")));
    const PAGE: usize = 4096;
    let mut rng = support::Rng::new(5);
    let small = (1..6).flat_map(|b| (1..b).map(move |a| (a, b)));
    let others = if support::deep() { 300 } else { 4 };
    let pairs: Vec<Option<(usize, usize)>> =
        small.map(Some).chain(std::iter::repeat_n(None, others)).collect();
    let expected = published(&home);
    let commands = ["status", "drain"];
    let healthy = commands.map(|command| home.run(&[command]).exit);
    for (round, pair) in pairs.iter().enumerate() {
        let mut places = Vec::new();
        for cache in &caches {
            // One that failed in the middle of the work is made anew at the next start.
            let Ok(whole) = std::fs::read(cache) else { continue };
            let used = |page: &usize| whole[page * PAGE..][..PAGE].iter().any(|byte| *byte != 0);
            let used: Vec<usize> = (1..whole.len() / PAGE).filter(used).collect();
            let mut any = || used[rng.below(used.len() as u64) as usize];
            let (a, b) = pair.unwrap_or_else(|| (any(), any()));
            let mut bytes = whole.clone();
            bytes[a * PAGE..][..PAGE].copy_from_slice(&whole[b * PAGE..][..PAGE]);
            bytes[b * PAGE..][..PAGE].copy_from_slice(&whole[a * PAGE..][..PAGE]);
            std::fs::write(cache, bytes).unwrap();
            places.push((cache.file_name().unwrap(), a, b));
        }
        let what = format!("round {round}, {places:?}");
        let is_last = round + 1 == pairs.len();
        if is_last {
            home.note("last.txt", "Pump 9 failed on Monday. It works again.");
            home.append(&lines(&[request("last", ACTIVE, json!({}))]));
        }
        for (command, exit) in commands.iter().zip(healthy) {
            let ran = home.run(&[command]);
            let is_calm = !ran.err.contains("panicked");
            assert_eq!((ran.exit, is_calm), (exit, true), "{what}, {command}: {}", ran.err);
        }
        home.expect(0, &["digest", "build"]);
        let found = published(&home);
        match is_last {
            true => assert_eq!(outcomes(&home)["last"].0, "completed"),
            false => assert!(found == expected, "{what}"),
        }
        // What was not read yet is reported as damaged until it is made anew.
        home.expect(0, &["export", "--repair"]);
        assert!(published(&home) == found, "a repair changed what is published: {what}");
        home.expect(0, &["verify", "--no-sources"]);
    }
    is_sound(&home);
}

/// Whether a file beside the log is no cache: what it holds is in no other file, or another test damages it.
fn is_kept(path: &Path) -> bool {
    let name = path.file_name().unwrap().to_str().unwrap();
    let kept = ["summarizer.redb", "summarizer.lock", "import.lock", "queue.jsonl", "archive"];
    // What follows from the log and is compared with it.
    let compared = ["ack.jsonl", "quarantine.jsonl", "snapshots", "metrics.prom"];
    kept.contains(&name) || compared.contains(&name) || name.ends_with(".keys")
}

#[test]
fn archived_acks_are_checked_repaired_and_used_by_recover() {
    let home = lived_in();
    std::fs::write(home.path("summarizer.toml"), "[retention]\nacks_after = \"30 d\"\n").unwrap();
    let later = |exit: i32, args: &[&str]| {
        let ran = home.command(args).env("SUMMARIZER_TEST_NOW", "2099-01-01T00:00:00Z").output();
        let ran = support::process::Ran::of(ran.unwrap());
        assert_eq!(ran.exit, Some(exit), "{args:?}\n{}\n{}", ran.out, ran.err);
        ran
    };
    let known = outcomes(&home);
    later(0, &["retain"]);
    assert!(home.read(ACKS).is_empty(), "every ack is old");
    let folder = home.path("run/archive");
    let mut files = std::fs::read_dir(&folder).unwrap();
    let archived = files.next().unwrap().unwrap().path();
    let whole = std::fs::read(&archived).unwrap();
    let name = archived.file_name().unwrap().to_str().unwrap();
    let is_repaired = || {
        later(1, &["replay", "--verify"]).says(&["run/archive"]);
        later(1, &["verify"]).says(&["run/archive"]);
        later(0, &["export", "--repair"]);
        later(0, &["replay", "--verify"]);
        assert_eq!(std::fs::read(&archived).unwrap(), whole);
    };
    let checks: [&[&str]; 3] = [&["replay", "--verify"], &["verify"], &["doctor", "--deep"]];
    let mut rng = support::Rng::new(3);
    let more = if support::deep() { 100 } else { 1 };
    let between: Vec<usize> = (0..more).map(|_| rng.below(whole.len() as u64) as usize).collect();
    for at in [0, whole.len() - 1].into_iter().chain(between) {
        let mut damaged = whole.clone();
        damaged[at] ^= 1 << rng.below(8);
        std::fs::write(&archived, damaged).unwrap();
        for check in checks {
            later(1, check).says(&["archive"]);
        }
    }
    is_repaired();
    std::fs::remove_file(&archived).unwrap();
    is_repaired();
    // What a move leaves that was cut short before the log recorded it.
    let unfinished = folder.join("acks-to-00000000000000099999.jsonl");
    std::fs::write(&unfinished, &whole).unwrap();
    is_repaired();
    assert!(!unfinished.exists());
    std::fs::write(&unfinished, &whole).unwrap();
    home.note("late.txt", "The pump failed on Monday. It works again.");
    home.append(&lines(&[request("late", ACTIVE, json!({}))]));
    let ran = home.command(&["drain"]).env("SUMMARIZER_TEST_NOW", "2098-01-01T00:00:00Z").output();
    assert!(matches!(ran.unwrap().status.code(), Some(0 | 1)));
    later(0, &["retain"]);
    assert!(!unfinished.exists(), "a later move removes it");
    later(0, &["replay", "--verify"]);
    assert!(later(0, &["log", "dump"]).out.contains(name), "the log names the file");

    std::fs::remove_file(home.path("run/summarizer.redb")).unwrap();
    later(0, &["recover"]);
    let found = outcomes(&home);
    assert!(known.iter().all(|(id, how)| found.get(id) == Some(how)), "{known:#?}\n{found:#?}");
}

/// The findings of `doctor` that are not `ok`: check, text, fix.
fn troubles(home: &ProcessHome, environment: &[(&str, &str)]) -> Vec<[String; 3]> {
    let mut command = home.command(&["doctor", "--deep", "--json"]);
    command.envs(environment.iter().copied());
    let report = support::process::Ran::of(command.output().unwrap()).json();
    let findings = report["findings"].as_array().unwrap().iter();
    let text = |finding: &Value, name: &str| finding[name].as_str().unwrap_or("").to_owned();
    findings
        .inspect(|finding| names_a_command(finding))
        .filter(|finding| finding["verdict"] != "fine")
        .map(|finding| ["check", "what", "fix"].map(|name| text(finding, name)))
        .collect()
}

/// The fix that `doctor` names for a finding, which must exist.
fn fix_of(home: &ProcessHome, environment: &[(&str, &str)], check: &str, words: &str) -> String {
    let found = troubles(home, environment);
    let hit = found.iter().find(|[of, what, _]| of == check && what.contains(words));
    hit.unwrap_or_else(|| panic!("{check}: {words}: {found:?}"))[2].clone()
}

fn is_gone(home: &ProcessHome, environment: &[(&str, &str)], check: &str, words: &str) {
    let found = troubles(home, environment);
    let there = found.iter().any(|[of, what, _]| of == check && what.contains(words));
    assert!(!there, "{check}: {words}: {found:?}");
}

/// Runs a fix that is a `summarizer` command.
fn follow(home: &ProcessHome, environment: &[(&str, &str)], fix: &str) {
    let words: Vec<&str> = fix.split(' ').collect();
    assert_eq!(words[0], "summarizer", "{fix} is no command");
    let mut command = home.command(&words[1..]);
    command.envs(environment.iter().copied());
    let ran = support::process::Ran::of(command.output().unwrap());
    assert_eq!(ran.exit, Some(0), "{fix}\n{}\n{}", ran.out, ran.err);
}

/// Runs a fix in a shell.
fn in_a_shell(fix: &str) {
    let did = std::process::Command::new("sh").args(["-c", fix]).status().unwrap();
    assert!(did.success(), "{fix}");
}

/// Each trouble is made, found, repaired by the command that `doctor` names, and gone.
#[test]
fn each_fix_that_doctor_names_removes_its_finding() {
    let home = lived_in();
    let none: &[(&str, &str)] = &[];
    let queue = home.read(QUEUE);
    std::fs::write(home.path("run/copy"), &queue).unwrap();
    let broken: [(&str, &str, &str, &dyn Fn()); 9] = [
        ("queue", "shrank", "summarizer queue adopt", &|| {
            std::fs::write(home.path(QUEUE), &queue[..queue.len() / 2]).unwrap();
        }),
        ("queue", "with the same consumed bytes", "same-offset", &|| {
            std::fs::copy(home.path(QUEUE), home.path("run/copy")).unwrap();
            std::fs::rename(home.path("run/copy"), home.path(QUEUE)).unwrap();
        }),
        ("acks", "differs from the log", "summarizer export --repair", &|| {
            let acks = String::from_utf8(home.read(ACKS)).unwrap();
            std::fs::write(home.path(ACKS), acks.replacen("completed", "COMPLETED", 1)).unwrap();
        }),
        ("quarantine", "quarantine.jsonl", "summarizer export --repair", &|| {
            let path = home.path("run/quarantine.jsonl");
            let lines = std::fs::read_to_string(&path).unwrap();
            std::fs::write(path, lines.replacen("schema_violation", "schema-violation", 1))
                .unwrap();
        }),
        ("summaries", "is gone", "summarizer export --repair", &|| {
            std::fs::remove_dir_all(home.path("buses/summaries")).unwrap();
        }),
        ("buses", "run_records", "summarizer export --repair", &|| {
            let records = home.path("buses/run_records/daily");
            let rows = std::fs::read_dir(records).unwrap().map(|entry| entry.unwrap().path());
            let rows = rows.filter(|path| path.extension().is_some_and(|end| end == "jsonl"));
            rows.for_each(|path| std::fs::write(path, "{}\n").unwrap());
        }),
        ("digests", "is missing or not what the log says", "summarizer export --repair", &|| {
            home.expect(0, &["digest", "build"]);
            std::fs::remove_file(home.path("buses/index/l2_by_window.json")).unwrap();
        }),
        ("log", "is missing", "summarizer recover", &|| {
            std::fs::remove_file(home.path(STORE)).unwrap();
        }),
        ("log", "is empty", "summarizer recover", &|| {
            std::fs::write(home.path(STORE), b"").unwrap();
        }),
    ];
    for (check, words, named, damage) in broken {
        damage();
        let fix = fix_of(&home, none, check, words);
        assert!(fix.contains(named), "{check}: {words}: {fix}");
        follow(&home, none, &fix);
        is_gone(&home, none, check, words);
        home.expect(0, &["drain"]);
    }
    is_sound(&home);

    // A session that was killed, and requests that no process works on.
    let service = Running::start(&home, &["serve"]);
    until("the service answers", || home.answers());
    service.kill();
    let fix = fix_of(&home, none, "last session", "has no end");
    follow(&home, none, &fix);
    is_gone(&home, none, "last session", "has no end");
    home.expect(0, &["pause"]);
    let fix = fix_of(&home, none, "intake", "by order");
    follow(&home, none, &fix);
    is_gone(&home, none, "intake", "");

    // Too little free space: intake pauses, and resumes by itself once there is enough.
    let settings = home.path("summarizer.toml");
    std::fs::write(&settings, "[commit]\ndisk_headroom = \"1000000 GiB\"\n").unwrap();
    assert!(fix_of(&home, none, "disk", "MiB are free").starts_with("du -xah "));
    home.append(&lines(&[request("e", ACTIVE, json!({}))]));
    home.expect(0, &["drain"]);
    let fix = fix_of(&home, none, "intake", "the disk is full");
    std::fs::write(&settings, "").unwrap();
    follow(&home, none, &fix);
    is_gone(&home, none, "intake", "");
    is_gone(&home, none, "disk", "");

    // A configured time zone that differs from the user's.
    let elsewhere = [("TZ", "America/Argentina/Buenos_Aires")];
    let fix = fix_of(&home, &elsewhere, "time zone", "America/Argentina/Buenos_Aires");
    in_a_shell(&fix);
    is_gone(&home, &elsewhere, "time zone", "");
    std::fs::write(&settings, "[commit]\nmax_batch = 100\n").unwrap();
    in_a_shell(&fix_of(&home, &elsewhere, "time zone", "time zone of this machine is"));
    is_gone(&home, &elsewhere, "time zone", "");
    home.expect(0, &["config"]).says(&["100"]);

    // A provider that cannot be reached at first.
    let port = {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        free.local_addr().unwrap().port()
    };
    let model =
        format!("kind = \"openai\"\nmodel = \"m\"\nbase_url = \"http://127.0.0.1:{port}\"\n");
    std::fs::write(&settings, format!("[provider.near]\n{model}")).unwrap();
    let fix = fix_of(&home, none, "provider", "cannot reach");
    assert_eq!(fix, format!("curl -sS -m 5 http://127.0.0.1:{port}"));
    let started = std::net::TcpListener::bind(("127.0.0.1", port)).unwrap();
    let answering = std::thread::spawn(move || {
        // One connection checks that the server listens, the other asks for its models.
        for stream in started.incoming().take(2).flatten() {
            let _ = std::io::Read::read(&mut &stream, &mut [0; 4096]);
            let _ = std::io::Write::write_all(
                &mut &stream,
                b"HTTP/1.1 404 X\r\ncontent-length: 0\r\n\r\n",
            );
        }
    });
    is_gone(&home, none, "provider", "");
    answering.join().unwrap();
    std::fs::write(&settings, "").unwrap();

    // A clock that went back during the session, and one that is behind the log.
    let at = |now: &'static str| [("SUMMARIZER_TEST_NOW", now)];
    home.append(&lines(&[request("c", ACTIVE, json!({}))]));
    let mut drain = home.command(&["drain"]);
    assert!(drain.envs(at("2031-01-01T00:00:00Z")).status().unwrap().success());
    let fix = fix_of(&home, none, "clock", "later than now");
    assert_eq!(fix, "timedatectl set-ntp true");
    home.expect(0, &["drain"]);
    let told = fix_of(&home, &at("2031-01-02T00:00:00Z"), "clock", "went back 1 time,");
    assert_eq!(told, "timedatectl status");

    // Another process holds the home and does not answer.
    let lock = std::fs::File::options().write(true).open(home.path("run/summarizer.lock")).unwrap();
    lock.lock().unwrap();
    let fix = fix_of(&home, none, "service", "does not answer");
    assert!(fix.starts_with("kill ") && fix.contains("run/summarizer.lock"), "{fix}");
    lock.unlock().unwrap();
    is_gone(&home, none, "service", "");
}

/// Units and timers of the user, with a scripted service manager.
#[test]
fn units_and_timers_that_never_ran_are_found_and_repaired() {
    let home = lived_in();
    let bin = home.path("bin");
    std::fs::create_dir_all(&bin).unwrap();
    let systemctl = bin.join("systemctl");
    // Once it is enabled, the finding is gone.
    let script = "#!/bin/sh\ncd \"$(dirname \"$0\")\"\ncase \"$*\" in\n\
        *enable*) touch enabled;;\n\
        *is-active*) [ -e enabled ] && echo active || echo inactive;;\n\
        *LastTriggerUSec*) [ -e enabled ] && echo 'Sun 2026-01-11' || echo n/a;;\nesac\n";
    std::fs::write(&systemctl, script).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&systemctl, mode).unwrap();
    let (config, path) = (home.path("config"), format!("{}:/usr/bin:/bin", bin.display()));
    let config = config.to_str().unwrap();
    let around = [("XDG_CONFIG_HOME", config), ("PATH", path.as_str())];
    follow(&home, &around, "summarizer service install --user");
    let enable = |fix: &str| {
        let words: Vec<&str> = fix.split(' ').collect();
        let mut command = std::process::Command::new(bin.join(words[0]));
        assert!(command.args(&words[1..]).env("PATH", &path).status().unwrap().success());
    };
    let fix = fix_of(&home, &around, "unit", "installed but inactive");
    assert_eq!(fix, "systemctl --user enable --now summarizer.service");
    enable(&fix);
    is_gone(&home, &around, "unit", "");
    std::fs::remove_file(bin.join("enabled")).unwrap();
    let units = home.path("config/systemd/user");
    let unit = format!(
        "[Service]\nType=oneshot\nExecStart=/bin/summarizer --home {} drain\n",
        home.root().display()
    );
    std::fs::write(units.join("nightly.service"), unit).unwrap();
    std::fs::write(units.join("nightly.timer"), "[Timer]\nOnCalendar=daily\n").unwrap();
    let fix = fix_of(&home, &around, "timer", "nightly.timer never ran");
    enable(&fix);
    is_gone(&home, &around, "timer", "");
    // A unit whose program is missing is written again under its own name.
    let written = std::fs::read_to_string(units.join("summarizer.service")).unwrap();
    let moved = written.replace(env!("CARGO_BIN_EXE_summarizer"), "/gone/summarizer");
    std::fs::write(units.join("mine.service"), moved).unwrap();
    let fix = fix_of(&home, &around, "unit", "which is gone");
    follow(&home, &around, &fix);
    is_gone(&home, &around, "unit", "which is gone");
}

/// A changed byte anywhere in the log's file either has no effect or is found, and `recover` makes a
/// sound home each time.
#[test]
fn a_changed_byte_anywhere_in_the_log_is_harmless_or_found_and_repaired() {
    let home = lived_in();
    let (before, told) = (published(&home), outcomes(&home));
    let pages = home.read(STORE).len() / 4096;
    let mut found = 0;
    for page in 1..pages {
        let mut bytes = home.read(STORE);
        let Some(byte) = bytes.get_mut(page * 4096 + 60) else { break };
        *byte ^= 0x40;
        std::fs::write(home.path(STORE), &bytes).unwrap();
        let wrong = troubles(&home, &[]);
        let wrong: Vec<_> = wrong.iter().filter(|[check, ..]| check != "digests").collect();
        if wrong.is_empty() {
            continue;
        }
        found += 1;
        let named = wrong.iter().all(|[.., fix]| fix == "summarizer recover");
        assert!(named, "page {page}: {wrong:?}");
        let report = home.expect(0, &["recover", "--json"]).json();
        assert_eq!(report["recovered"], true, "page {page}: {report}");
        assert_eq!(fixes(&home), [], "page {page}");
        assert_eq!(published(&home), before, "page {page}");
        assert_eq!(outcomes(&home), told, "page {page}");
    }
    assert!(found > 0, "no page mattered");
}

#[test]
fn missing_permissions_and_missing_space_are_reported_with_a_fix() {
    let home = lived_in();
    // A directory below a file cannot be made by any user.
    let nowhere = home.path("summarizer.toml/home");
    let nowhere = nowhere.to_str().unwrap();
    home.expect(3, &["--home", nowhere, "drain"]).says(&["summarizer.toml"]);
    std::fs::write(home.path("summarizer.toml"), "[retry]\nmax_attemps = 3\n").unwrap();
    home.expect(3, &["status"])
        .says(&["did you mean `retry.max_attempts`", "`summarizer config --defaults`"]);
    home.expect(0, &["config", "--defaults"]).says(&["retry.max_attempts"]);
    std::fs::write(home.path("summarizer.toml"), "").unwrap();
    // A typing error in a flow or in the path of the home is reported immediately.
    let slip = ACTIVE.replace("summarize", "sumarize");
    home.expect(2, &["submit", "--flow", &slip, "--id", "a.txt"])
        .says(&[&format!("did you mean {ACTIVE}?")]);
    home.expect(0, &["drain"]).says(&["0 lines taken in"]);
    let elsewhere = home.path("elsewhere").display().to_string();
    home.expect(5, &["--home", &elsewhere, "drain"]).says(&[
        "is not a summarizer home",
        "elsewhere",
        "summarizer init",
    ]);
    assert!(!home.path("elsewhere").exists());
}

#[test]
fn a_service_applies_the_retention_period_at_midnight_and_goes_on() {
    let home = ProcessHome::new();
    let settings = "[export]\nmin_interval = \"50 ms\"\n[retention]\nacks_after = \"30 d\"\n\
                    daily = true\n[compaction]\narchive_after = \"30 d\"\n[digest]\nauto = \"off\"\n";
    std::fs::write(home.path("summarizer.toml"), settings).unwrap();
    let at = |now: &'static str, args: &[&str]| {
        let mut command = home.command(args);
        command.env("SUMMARIZER_TEST_NOW", now);
        command
    };
    for (id, now) in [("a", "2026-01-10T00:00:00Z"), ("b", "2026-04-10T00:00:00Z")] {
        home.note(&format!("{id}.txt"), "It failed twice on Monday. It works again since.");
        home.append(&lines(&[with(request(id, ACTIVE, json!({})), "idempotency_key", id)]));
        let ended = at(now, &["drain"]).status().unwrap();
        assert!(matches!(ended.code(), Some(0 | 1)), "{ended}");
    }
    let acks = home.read(ACKS);
    // The test moves the clock past midnight.
    let clock = home.path("now");
    let is = |now: &str| {
        std::fs::write(home.path("next"), now).unwrap();
        std::fs::rename(home.path("next"), &clock).unwrap();
    };
    is("2026-04-10T23:59:00Z");
    let mut command = home.command(&["serve"]);
    let mut service = Running(command.env("SUMMARIZER_TEST_NOW", &clock).spawn().unwrap());
    let last = || home.expect(0, &["status", "--json"]).json()["retention"].clone();
    until("the service answers", || home.answers());
    is("2026-04-11T00:00:01Z");
    until("the ages are applied", || {
        assert!(service.0.try_wait().unwrap().is_none(), "the service ended");
        !last()["last"].is_null()
    });
    let told = last();
    assert_eq!((&told["daily"], &told["last"]["by"]), (&json!(true), &json!("service")), "{told}");
    assert_eq!(told["last"]["acks"]["moved"], 2, "{told}");
    assert!(told["last"]["frames"]["records"].as_u64().unwrap() >= 1, "{told}");
    // It continues: new acks follow the remaining ones.
    home.note("c.txt", "It failed twice on Monday. It works again since.");
    home.append(&lines(&[with(request("c", ACTIVE, json!({})), "idempotency_key", "c")]));
    let ended = |id: &str| {
        home.acks().iter().any(|ack| ack["request_id"] == id && ack["status"] != "accepted")
    };
    until("it goes on", || ended("c"));
    assert_eq!(service.terminate(), Some(0));
    assert!(!ended("a") && ended("b"));
    let moved = std::fs::read_dir(home.path("run/archive")).unwrap();
    let moved = moved.map(|entry| entry.unwrap().path());
    let mut moved = moved.filter(|path| path.to_string_lossy().ends_with(".jsonl"));
    let moved = moved.next().unwrap();
    let together = [std::fs::read(moved).unwrap(), home.read(ACKS)].concat();
    assert!(together.starts_with(&acks), "what was moved and what stays are what there was");
    for args in [["log", "verify"].as_slice(), &["replay", "--verify"], &["doctor", "--deep"]] {
        let morning = "2026-04-11T00:10:00Z";
        let ran = support::process::Ran::of(at(morning, args).output().unwrap());
        assert_eq!(ran.exit, Some(0), "{args:?}\n{}\n{}", ran.out, ran.err);
    }
    // Data that was looked at is not looked at again, and a dry run names the last time.
    let mut again = at("2026-04-11T00:10:00Z", &["retain", "--dry-run", "--json"]);
    let again = support::process::Ran::of(again.output().unwrap()).json();
    assert_eq!((&again["acks"]["moved"], &again["frames"]["records"]), (&json!(0), &json!(0)));
    assert!(again["last"].as_str().unwrap().starts_with("2026-04-11T00:00"), "{again}");
}

/// For each damage to a home: how `log verify`, `replay --verify`, `verify` and `recover --dry-run`
/// end, what `doctor` finds, and which command it names. After that command the home is sound, and
/// nothing was summarized again.
#[test]
fn each_damage_is_reported_by_the_right_commands_and_repaired_by_the_named_fix() {
    struct Damage<'a> {
        name: &'a str,
        does: &'a dyn Fn(),
        exits: [i32; 4],
        found: (&'a str, &'a str),
        fix: &'a str,
    }
    let other = ProcessHome::new();
    other.note("a.txt", "Another home. It has a note of its own.");
    other.append(&lines(&[request("a", ACTIVE, json!({}))]));
    other.expect(0, &["drain"]);

    let home = lived_in();
    let older = home.read(STORE);
    home.append(&lines(&[request("e", ACTIVE, json!({}))]));
    home.expect(0, &["drain"]);
    let before = published(&home);
    let only = |folder: &str, ending: &str| -> PathBuf {
        let mut files = BTreeMap::new();
        collect(&home.path(folder), &mut files);
        let named = |path: &PathBuf| path.to_string_lossy().ends_with(ending);
        files.into_keys().find(named).unwrap()
    };
    let edit = |path: &Path, from: &str, to: &str| {
        let text = std::fs::read_to_string(path).unwrap();
        assert!(text.contains(from), "{from} is not in {}", path.display());
        std::fs::write(path, text.replacen(from, to, 1)).unwrap();
    };
    let day = || before.keys().next().unwrap().clone();
    let manifest = || only("buses/summaries/manifest", ".documents.summary.manifest.json");
    let record = || only("buses/artifacts/run_records", ".json");
    let snapshot = || only("run/snapshots", ".snapshot.json");
    let dataset = home.path("flow_registry/registry.flow_packs.v1.jsonl");
    let flows = std::fs::read(&dataset).unwrap();
    let settings = home.path("summarizer.toml");
    let damages = [
        Damage {
            name: "the queue is gone",
            does: &|| std::fs::remove_file(home.path(QUEUE)).unwrap(),
            exits: [0, 0, 0, 0],
            found: ("queue", "is gone"),
            fix: "summarizer queue adopt",
        },
        Damage {
            name: "an ack is cut in its middle and those after it are gone",
            does: &|| {
                let acks = home.read(ACKS);
                std::fs::write(home.path(ACKS), &acks[..acks.len() / 2]).unwrap();
            },
            exits: [0, 0, 0, 0],
            // Opening the home writes the missing acks and reports it.
            found: ("acks", ""),
            fix: "",
        },
        Damage {
            name: "a manifest is gone",
            does: &|| std::fs::remove_file(manifest()).unwrap(),
            exits: [0, 1, 1, 0],
            found: ("summaries", "missing"),
            fix: "summarizer export --repair",
        },
        Damage {
            name: "the data of a day is gone",
            does: &|| std::fs::remove_file(day()).unwrap(),
            exits: [0, 1, 1, 0],
            found: ("buses", ""),
            fix: "summarizer export --repair",
        },
        Damage {
            name: "a letter of a summary is another",
            does: &|| edit(&day(), "note", "nope"),
            exits: [0, 1, 1, 0],
            found: ("buses", ""),
            fix: "summarizer export --repair",
        },
        Damage {
            name: "a manifest says something else",
            does: &|| edit(&manifest(), "\"produced\":", "\"produced\": 1"),
            exits: [0, 1, 1, 0],
            found: ("buses", ""),
            fix: "summarizer export --repair",
        },
        Damage {
            name: "a run record was edited",
            does: &|| edit(&record(), "\"run_id\"", "\"run_iD\""),
            exits: [0, 1, 1, 0],
            found: ("buses", "run_records"),
            fix: "summarizer export --repair",
        },
        Damage {
            name: "a run record is gone",
            does: &|| std::fs::remove_file(record()).unwrap(),
            exits: [0, 1, 1, 0],
            found: ("buses", "run_records"),
            fix: "summarizer export --repair",
        },
        Damage {
            name: "a snapshot was edited",
            does: &|| edit(&snapshot(), "objective", "objectivE"),
            exits: [0, 1, 1, 0],
            found: ("snapshots", "not what the log holds"),
            fix: "summarizer export --repair",
        },
        Damage {
            name: "no flow is registered",
            does: &|| std::fs::write(&dataset, "").unwrap(),
            exits: [0, 0, 0, 0],
            found: ("registry", "no flow is registered"),
            fix: "mv ",
        },
        Damage {
            name: "the registry does not read",
            does: &|| std::fs::write(&dataset, "{no json\n").unwrap(),
            exits: [3, 3, 3, 0],
            found: ("registry", "line 1"),
            fix: "${EDITOR:-vi} ",
        },
        Damage {
            name: "the settings do not read",
            does: &|| std::fs::write(&settings, "[provider\n").unwrap(),
            exits: [3, 3, 3, 3],
            found: ("configuration", "TOML"),
            fix: "${EDITOR:-vi} ",
        },
        Damage {
            name: "the settings are gone",
            does: &|| std::fs::remove_file(&settings).unwrap(),
            exits: [0, 0, 0, 0],
            // Every setting has a default.
            found: ("", ""),
            fix: "",
        },
        // No other file holds what a lost log knew of earlier sessions, so this comes last.
        Damage {
            name: "the log is another home's",
            does: &|| {
                std::fs::write(home.path(STORE), other.read(STORE)).unwrap();
                let names = std::fs::read_dir(other.path("run")).unwrap();
                let mut names = names.map(|name| name.unwrap().file_name().into_string().unwrap());
                let keys = format!("run/{}", names.find(|name| name.ends_with(".keys")).unwrap());
                // With its rights: `doctor` names keys that others can read.
                std::fs::copy(other.path(&keys), home.path(&keys)).unwrap();
            },
            exits: [6, 6, 6, 1],
            found: ("log", "belongs to another log"),
            fix: "summarizer recover",
        },
        Damage {
            name: "the log is an older copy",
            does: &|| std::fs::write(home.path(STORE), &older).unwrap(),
            exits: [6, 6, 6, 1],
            found: ("log", "is not the log of this home"),
            fix: "summarizer recover",
        },
        Damage {
            name: "all of the log but its first page is zero",
            does: &|| {
                let mut bytes = home.read(STORE);
                bytes[4096..].fill(0);
                std::fs::write(home.path(STORE), bytes).unwrap();
            },
            exits: [6, 6, 6, 1],
            found: ("log", "damaged"),
            fix: "summarizer recover",
        },
        Damage {
            name: "the folder run is gone but for the queue",
            does: &|| {
                let queue = home.read(QUEUE);
                std::fs::remove_dir_all(home.path("run")).unwrap();
                std::fs::create_dir(home.path("run")).unwrap();
                std::fs::write(home.path(QUEUE), queue).unwrap();
            },
            exits: [6, 6, 0, 1],
            found: ("log", "summaries are published"),
            fix: "summarizer recover",
        },
        // The older copy above has the same keys, so this comes after it.
        Damage {
            name: "the keys of the log are gone",
            does: &|| {
                let files = std::fs::read_dir(home.path("run")).unwrap();
                let files = files.map(|one| one.unwrap().path());
                let keys: Vec<_> = files
                    .filter(|path| path.extension().is_some_and(|end| end == "keys"))
                    .collect();
                assert_eq!(keys.len(), 1);
                std::fs::remove_file(&keys[0]).unwrap();
            },
            exits: [6, 6, 6, 1],
            found: ("log", "holds the keys that texts and answers in the log are sealed with"),
            fix: "summarizer recover",
        },
    ];
    let deep = std::env::var_os("SUMMARIZER_TEST_DEEP").is_some();
    for Damage { name, does, exits, found: (check, words), fix } in damages {
        does();
        let told = if fix.is_empty() { None } else { Some(fix_of(&home, &[], check, words)) };
        if fix.is_empty() && !check.is_empty() {
            let all = home.run(&["doctor", "--json"]).json();
            let all = all["findings"].as_array().unwrap();
            let said = all.iter().any(|one| {
                let what = one["what"].as_str().unwrap_or_default();
                one["check"] == check && what.contains("it was written on")
            });
            assert!(said, "{name}: {all:#?}");
        }
        let commands: [&[&str]; 4] = [
            &["log", "verify"],
            &["replay", "--verify"],
            &["verify", "--no-sources"],
            &["recover", "--dry-run"],
        ];
        // Other tests check often enough that a sound log passes.
        let tried = if deep || exits[3] != 0 { 4 } else { 3 };
        for (command, exit) in commands.iter().zip(exits).take(tried) {
            let ran = home.run(command);
            assert_eq!(ran.exit, Some(exit), "{name}: {command:?}\n{}\n{}", ran.out, ran.err);
            assert!(!ran.err.contains("panicked"), "{name}: {command:?}\n{}", ran.err);
        }
        let Some(told) = told else { continue };
        assert!(told.starts_with(fix), "{name}: {told}");
        match fix {
            "mv " => {
                in_a_shell(told.split(" && ").next().unwrap());
                assert!(!dataset.exists());
                std::fs::write(&dataset, &flows).unwrap();
            }
            "${EDITOR:-vi} " if check == "registry" => std::fs::write(&dataset, &flows).unwrap(),
            "${EDITOR:-vi} " => std::fs::write(&settings, "").unwrap(),
            _ => follow(&home, &[], &told),
        }
        assert_eq!(fixes(&home), [], "{name}");
        if check == "log" {
            let drained = home.expect(0, &["drain", "--json"]).json();
            assert!(drained["outcomes"]["completed"].is_null(), "{name}: {drained}");
        }
        assert_eq!(published(&home), before, "{name}: summaries changed");
    }
    is_sound(&home);
    makes_nothing_again(&home, &before, &["c", "e"]);
}

/// Retention in steps removes the same data as retention in one run, and no step exceeds its bound.
#[test]
fn retention_in_steps_removes_the_same_data_as_retention_at_once() {
    use summarizer::upkeep::retention::{Policy, StepBounds, apply, look};

    let home = lived_in();
    let settings = "[retention]\nacks_after = \"1 d\"\nanswers_after = \"1 d\"\n[compaction]\n\
                    archive_after = \"1 d\"\n";
    std::fs::write(home.path("summarizer.toml"), settings).unwrap();
    let acks = home.read(ACKS);
    let config = summarizer::config::Config::load(Some(settings), &BTreeMap::new(), 1).unwrap();
    let places = summarizer::home::Home::new(home.root(), &config);
    let machine = summarizer::os::Machine::real();
    let path = places.store();
    let options = summarizer::log::Options::beside(&path);
    let disk = std::sync::Arc::clone(&machine.disk);
    let store = summarizer::log::Store::open(disk, &path, options, [0; 16], &mut |_| {}).unwrap();
    let options = summarizer::sequencer::engine::EngineOptions::of(&config);
    let now = summarizer::contract::time::parse_instant("2031-01-01T00:00:00Z").unwrap().at;
    let mut engine =
        summarizer::sequencer::engine::Engine::open(store, options, now, &mut |_| {}).unwrap();
    let head = engine.log().head().0.0;
    // Frames are archived as a whole, so a step must be larger than the largest frame.
    let small = StepBounds { records: head * 2 / 3, answers: 1, ack_bytes: 10 };
    let policy = Policy::of(&config).in_steps(small);
    let due = look(machine.disk.as_ref(), &places, &engine, policy, now).unwrap();
    assert!(due.is_cut() && due.leaves_acks(), "{due:?}");
    let policy = policy.in_steps(StepBounds { ack_bytes: u64::MAX, ..small });
    // The last ack names another event than its own. Cutting there would lose other acks.
    let whole = String::from_utf8(acks.clone()).unwrap();
    let mut lines: Vec<&str> = whole.lines().collect();
    let mut last: Value = serde_json::from_str(lines.pop().unwrap()).unwrap();
    last["ack_seq"] = json!(head);
    std::fs::write(home.path(ACKS), format!("{}\n{last}\n", lines.join("\n"))).unwrap();
    let due = look(machine.disk.as_ref(), &places, &engine, policy, now).unwrap();
    assert_eq!(due.described("test").acks.unwrap().moved, 0, "{due:?}");
    std::fs::write(home.path(ACKS), &acks).unwrap();
    let (mut records, mut moved) = (0, 0);
    for round in 0.. {
        let due = look(machine.disk.as_ref(), &places, &engine, policy, now).unwrap();
        let told = apply(&machine, &places, &mut engine, &due, "test", now).unwrap();
        let went = told.frames.as_ref().unwrap().records;
        records += went;
        moved += told.acks.as_ref().unwrap().moved;
        if !due.is_cut() {
            break;
        }
        assert!(round < 100 && went > 0 && went <= small.records, "{told:?}");
    }
    assert!(records > 0 && records <= head, "{records} of {head}");
    assert_eq!(moved as usize, acks.split(|byte| *byte == b'\n').count() - 1);
    engine.close().unwrap();
    home.expect(0, &["log", "verify"]);
    home.expect(0, &["replay", "--verify"]);
    home.expect(0, &["drain"]);
}

/// The segments of the log are files beside it. No byte of one is free.
#[test]
fn a_changed_byte_of_an_archived_segment_is_found_by_every_check() {
    let home = lived_in();
    std::fs::write(home.path("summarizer.toml"), "[compaction]\narchive_after = \"1 d\"\n")
        .unwrap();
    let later = |args: &[&str]| {
        let ran = home.command(args).env("SUMMARIZER_TEST_NOW", "2099-01-01T00:00:00Z").output();
        support::process::Ran::of(ran.unwrap())
    };
    assert_eq!(later(&["retain"]).exit, Some(0));
    let files = std::fs::read_dir(home.path("run/archive")).unwrap();
    let segments: Vec<PathBuf> = files.map(|file| file.unwrap().path()).collect();
    assert_eq!(segments.len(), 1, "{segments:?}");
    let whole = std::fs::read(&segments[0]).unwrap();
    let checks: [&[&str]; 3] = [&["log", "verify"], &["verify"], &["doctor", "--deep"]];
    for check in checks {
        assert_eq!(later(check).exit, Some(0), "{check:?}");
    }
    let mut rng = support::Rng::new(7);
    let more = if support::deep() { 200 } else { 4 };
    let between = (0..more).map(|_| rng.below(whole.len() as u64) as usize);
    let places: Vec<usize> = [0, whole.len() - 1].into_iter().chain(between).collect();
    for at in places {
        let mut damaged = whole.clone();
        damaged[at] ^= 1 << rng.below(8);
        std::fs::write(&segments[0], damaged).unwrap();
        for check in checks {
            let ran = later(check);
            assert!(matches!(ran.exit, Some(1..=6)), "{check:?}, byte {at}: {}", ran.out);
        }
    }
    std::fs::write(&segments[0], whole).unwrap();
    for check in checks {
        assert_eq!(later(check).exit, Some(0), "{check:?}");
    }
}

/// Loses power at each sync and in each write of a retention, and applies it again: nothing is lost, and nothing is
/// moved twice.
#[test]
fn a_retention_that_is_cut_short_at_any_step_is_finished_by_the_next_one() {
    use summarizer::os::Clock as _;
    use summarizer::os::sim::{Faults, SimClock, SimDisk};
    use summarizer::projections::projector::Projections;
    use summarizer::sequencer::engine::{Engine, EngineOptions};
    use summarizer::upkeep::retention::{Policy, apply, last, look};
    use support::requests::scripted;
    use support::rig::{Rig, World};

    let world = World::new();
    let requests: Vec<Value> = (0..60).map(|at| scripted(&format!("r{at}"), &["ok"])).collect();
    world.produce(&lines(&requests), true).unwrap();
    let mut rig = Rig::open(&world).unwrap();
    rig.run_to_end().unwrap();
    rig.finish().unwrap();
    let filled = world.disk.reboot();
    let acks = world.read(&world.home.acks());
    assert!(acks.len() > 10_000, "{} bytes of acks", acks.len());

    let settings = "[retention]\nacks_after = \"1 d\"\nanswers_after = \"1 d\"\n[compaction]\n\
                    archive_after = \"1 d\"\n";
    let config = summarizer::config::Config::load(Some(settings), &BTreeMap::new(), 1).unwrap();
    let now = world.clock.now().plus_ms(10 * 24 * 60 * 60 * 1000);
    let policy = Policy::of(&config);
    // As the command does it: the acks are repaired first, then the ages are applied.
    let retain = |disk: &SimDisk| -> Result<Machine, support::rig::Stop> {
        let machine = Machine {
            clock: std::sync::Arc::new(SimClock::at(now)),
            disk: std::sync::Arc::new(disk.clone()),
        };
        let store = support::rig::open_store(&world.on(disk.clone()))?;
        drop(Projections::open(&machine.disk, &world.home, &store.reader())?);
        let mut engine = Engine::open(store, EngineOptions::of(&config), now, &mut |_| {})?;
        let due = look(&*machine.disk, &world.home, &engine, policy, now)?;
        apply(&machine, &world.home, &mut engine, &due, "test", now)?;
        engine.close()?;
        Ok(machine)
    };
    let all_acks = |disk: &SimDisk| -> Vec<u8> {
        let shown: &dyn summarizer::os::Disk = disk;
        let folder = world.home.root.join("run/archive");
        let mut names = shown.list(&folder).unwrap_or_default();
        names.retain(|name| name.starts_with("acks-"));
        names.sort();
        let moved = names.iter().map(|name| shown.read(&folder.join(name)).unwrap());
        let left = shown.read_if_present(&world.home.acks()).unwrap().unwrap_or_default();
        moved.chain([left]).collect::<Vec<_>>().concat()
    };
    let whole = |disk: &SimDisk, said: &str| {
        assert!(all_acks(disk) == acks, "{said}: acks are lost or stand twice");
        let store = support::rig::open_store(&world.on(disk.clone())).unwrap();
        let reader = store.reader();
        reader.verify(summarizer::contract::ids::Seq(1), None, &mut |_| {}).unwrap();
        let (_, told) = last(&reader).unwrap().unwrap_or_else(|| panic!("{said}: it is not noted"));
        assert!(told.frames.is_some() && told.acks.is_some() && told.answers.is_some(), "{said}");
        let stats = reader.stats().unwrap();
        assert!(stats.segments > 0, "{said}: no frame was moved");
        drop(store);
        // Nothing is left to do.
        let again = retain(&disk.reboot()).map(drop);
        again.unwrap_or_else(|error| panic!("{said}: {error}"));
    };

    let clean = filled.reboot();
    clean.reset_counts();
    retain(&clean).unwrap();
    let counts = clean.counts();
    whole(&clean, "without a fault");
    assert!(counts.syncs > 10 && counts.writes > 30, "{counts:?}");
    let step = if support::deep() { 1 } else { 5 };
    let syncs =
        (1..=counts.syncs).map(|at| Faults { crash_at_sync: Some(at), ..Faults::default() });
    let writes = (1..=counts.writes).step_by(step);
    let writes = writes.map(|at| Faults { crash_at_write: Some(at), ..Faults::default() });
    for faults in syncs.chain(writes) {
        let disk = filled.reboot();
        disk.reset_counts();
        disk.set_faults(faults);
        let cut = retain(&disk);
        assert!(cut.is_err() && disk.has_crashed(), "{faults:?}");
        for seed in 0..if support::deep() { 8 } else { 2 } {
            let said = format!("{faults:?}, seed {seed}");
            let left = disk.crash(seed);
            retain(&left).map(drop).unwrap_or_else(|error| panic!("{said}: {error}"));
            whole(&left, &said);
        }
    }
}

/// A commit of many lines has several frames. Damage in one that is not its first leaves records of half of it: they
/// are kept, and the lines of the other half are taken again, each once.
#[test]
fn a_commit_that_is_damaged_in_a_later_frame_is_recovered_whole() {
    let home = ProcessHome::new();
    let ids: Vec<String> = (0..400).map(|at| format!("r{at}")).collect();
    for id in &ids {
        home.note(id, &format!("The pump {id} failed on Monday. It works again."));
    }
    let requests = ids.iter().map(|id| {
        // Words that do not pack well: many frames.
        let noise = |part| summarizer::contract::hash::sha256(format!("{id}{part}")).hex();
        request(id, ACTIVE, json!({"note": [noise(0), noise(1), noise(2)]}))
    });
    home.append(&lines(&requests.collect::<Vec<_>>()));
    home.expect(0, &["drain"]);
    let (before, told) = (published(&home), outcomes(&home));
    assert_eq!(told.len(), ids.len());
    let sound = home.read(STORE);
    let damaged_at = || {
        let path = home.path(STORE);
        let options = Options::beside(&path);
        let store = Store::open(Machine::real().disk, &path, options, [7; 16], &mut |_| {}).ok()?;
        let found = store.reader().verify(summarizer::contract::ids::Seq(1), None, &mut |_| {});
        match found {
            Err(summarizer::log::LogError::Damaged { seq, .. }) => Some(seq.0),
            _ => None,
        }
    };
    let store = store_of(&home);
    let mut ends = vec![0];
    let read = store.reader().marks(&mut |seq, _| {
        ends.push(seq.0);
        ControlFlow::Continue(())
    });
    read.unwrap();
    store.close().unwrap();
    let mut rng = support::Rng::new(4);
    let mut tried = 0;
    // Damage that lies within a commit, after its first record.
    let at = loop {
        tried += 1;
        assert!(tried < 5_000, "no byte lies in a later frame of a commit");
        let mut bytes = sound.clone();
        bytes[rng.below(sound.len() as u64) as usize] ^= 1 << rng.below(8);
        std::fs::write(home.path(STORE), &bytes).unwrap();
        if let Some(seq) = damaged_at()
            && seq > 1
            && !ends.contains(&(seq - 1))
        {
            break seq;
        }
    };
    let report = recovers(&home, &before);
    assert_eq!(report["report"]["records_kept"].as_u64().unwrap(), at - 1, "{report}");
    assert_eq!(outcomes(&home), told);
    let drained = home.expect(0, &["drain", "--json"]).json();
    assert!(drained["outcomes"]["completed"].is_null(), "{drained}");
    assert_eq!(published(&home), before, "summaries changed");
}
