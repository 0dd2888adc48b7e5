//! A checker that knows the contracts and nothing of the program, and reads every line as real
//! readers of this bus do: `tests/tools/check_bus.py`.

use std::process::Command;

use super::support::requests::lines;
use super::*;

/// What the checker says of a home: its exit code, what it found wrong, and how much it looked at.
/// `None` on a machine without Python.
fn ask_it(root: &Path) -> Option<(i32, String, Value)> {
    let mut version = Command::new("python3");
    version.args(["-c", "import sys; print(sys.version_info >= (3, 9))"]);
    if !version.output().is_ok_and(|told| told.stdout.starts_with(b"True")) {
        use std::io::Write as _;
        let told = "LEFT OUT: there is no python3 (3.9 or newer): nothing else checks the tree";
        let _ = writeln!(std::io::stderr().lock(), "!! {told}");
        return None;
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tools/check_bus.py");
    let ran = Command::new("python3").arg(script).arg(root).output().unwrap();
    let told = String::from_utf8_lossy(&ran.stdout).into_owned();
    let counts = told.lines().last().and_then(|line| serde_json::from_str(line).ok());
    let told = format!("{told}{}", String::from_utf8_lossy(&ran.stderr));
    Some((ran.status.code().unwrap_or(-1), told, counts.unwrap_or_default()))
}

/// The checker finds nothing wrong, and looked at lines of all these streams.
pub fn agrees(root: &Path, streams: &[&str]) {
    let Some((exit, told, counts)) = ask_it(root) else { return };
    assert_eq!(exit, 0, "{told}");
    for stream in streams {
        assert!(counts[format!("lines of {stream}")].as_u64() > Some(0), "{stream}: {counts}");
    }
}

/// The streams of the Summary Bus.
pub const STREAMS: [&str; 4] = ["events", "sessions", "documents", "chunk_sets"];

#[test]
fn an_independent_checker_agrees_with_the_demo() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("demo");
    let mut demo = Command::new(env!("CARGO_BIN_EXE_summarizer"));
    let ran = demo.env_clear().args(["demo", "--quiet"]).arg(&root).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    add_a_long_text(dir.path(), &root);
    agrees(&root, &STREAMS);
    let Some((_, _, counts)) = ask_it(&root) else { return };
    assert!(counts["hierarchies"].as_u64() > Some(0), "{counts}");
    assert!(counts["evidence"].as_u64() > Some(50), "{counts}");
}

/// A text of many parts, so that its summary has a tree.
fn add_a_long_text(folder: &Path, home: &Path) {
    let part = |number: u32| {
        let words = format!("Room {number} was measured in March and has {number} windows. ");
        format!("## Room {number}\n\n{}\n\n", words.repeat(20))
    };
    let file = folder.join("rooms.md");
    std::fs::write(&file, (1..60).map(part).collect::<String>()).unwrap();
    let mut add = Command::new(env!("CARGO_BIN_EXE_summarizer"));
    let ran = add.env_clear().arg("--home").arg(home).arg("add").arg(&file).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
}

/// It is no checker that cannot fail: one change in each kind of file, and it says so.
#[test]
fn an_independent_checker_finds_each_change() {
    let home = home();
    let mut asked = of_every_stream();
    asked.push(ask("gone", "event_summary", "event_bus", &["evt_none"]));
    home.append(&lines(&asked));
    home.expect(0, &["drain"]);
    agrees(home.root(), &STREAMS);
    let day = |id: &str| home.path("buses").join(made(&home, id)["path"].as_str().unwrap());
    let manifest = home.path("buses/summaries/manifest/2026-02-11.events.summary.manifest.json");
    let record = tree(&home.path("buses/artifacts/run_records")).into_keys().next().unwrap();
    let record = home.path("buses/artifacts/run_records").join(record);
    for (file, what, with, found) in [
        (day("event"), "Before", "before", "integrity"),
        (day("session"), "\"start\":", "\"start\":9", "evidence"),
        (day("chunks"), "\"temperature\":", "\"heat\":", "temperature"),
        (day("document"), "\"meta\":{", "\"meta\":{},\"old\":{", "summary_kind"),
        (home.path("buses/eventbus/daily/2026-02-11.jsonl"), "After", "Later", "source_text_hash"),
        (manifest.clone(), "\"failed\": 1", "\"failed\": 2", "eligible"),
        (manifest, "\"eventbus_manifest_day\": \"", "\"eventbus_manifest_day\": \"x", "input day"),
        (record, "\"produced\": 5", "\"produced\": 4", "produced, 5 on the bus"),
        (home.path("run/ack.jsonl"), "\"status\":\"completed\"", "\"status\":\"failed\"", "acks"),
    ] {
        let before = std::fs::read(&file).unwrap();
        flip(&file, what, with);
        if let Some((exit, told, _)) = ask_it(home.root()) {
            assert_eq!(exit, 1, "{} {with}", file.display());
            assert!(told.contains(found), "{} {with}: {told}", file.display());
        }
        std::fs::write(&file, before).unwrap();
    }
    agrees(home.root(), &STREAMS);
}
