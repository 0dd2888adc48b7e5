//! The commands as people meet them: in process, beside a running service, and killed.

use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::readers::read_all;
use crate::world::tree;

fn command(home: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_summarizer"));
    command.env_clear().env("PATH", "/usr/bin:/bin").env("NO_COLOR", "1");
    command.arg("--home").arg(home).args(args).stdin(Stdio::null());
    command
}

fn run(home: &Path, exit: i32, args: &[&str]) -> String {
    let Output { status, stdout, stderr } = command(home, args).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert_eq!(status.code(), Some(exit), "{args:?}\n{out}\n{err}");
    assert!(!err.contains("panicked"), "{args:?}\n{err}");
    out.into_owned()
}

fn json(home: &Path, args: &[&str]) -> Value {
    let args: Vec<&str> = args.iter().copied().chain(["--json"]).collect();
    serde_json::from_str(&run(home, 0, &args)).unwrap()
}

/// A home that has done some work: the demo's.
fn home(root: &Path) -> std::path::PathBuf {
    let home = root.join("home");
    let mut demo = command(root, &["demo"]);
    assert!(demo.arg(&home).stdout(Stdio::null()).status().unwrap().success());
    home
}

/// One more note to summarize, appended as any producer would.
fn more(home: &Path, number: usize) {
    let name = format!("note-{number}.txt");
    let text = format!("Note {number} tells of a release. It went well and was shipped.");
    std::fs::write(home.join("buses/other").join(&name), text).unwrap();
    let flow = "docs.chunk_set.summarize.brief.v1";
    run(
        home,
        0,
        &["submit", "--flow", flow, "--kind", "document_summary", "--bus", "other", "--id", &name],
    );
}

#[test]
fn commands_tell_what_there_is() {
    let root = tempfile::tempdir().unwrap();
    let home = home(root.path());
    let built = run(&home, 0, &["digest", "build"]);
    assert!(built.starts_with("unchanged"), "the demo built them: {built}");
    run(&home, 0, &["verify"]);
    more(&home, 1);
    run(&home, 0, &["drain"]);
    let report = json(&home, &["digest", "build"]);
    assert!(report["published"].as_u64().unwrap() > 0 && report["unchanged"] == false);
    let newest = json(&home, &["digest", "preview", "--selector", "overview.daily"]);
    assert_eq!(newest["bags"][0]["standing"], "unchanged");
    let first = newest["bags"][0]["bag_id"].as_str().unwrap().to_owned();
    more(&home, 2);
    run(&home, 0, &["drain"]);
    let preview = json(&home, &["digest", "preview", "--selector", "overview.daily"]);
    assert_eq!(preview["bags"][0]["standing"], "new");
    assert_eq!(preview["summaries"].as_array().unwrap().len() as u64, preview["candidates"]);
    let tags = run(&home, 0, &["digest", "preview", "--selector", "ops.runs.daily"]);
    assert!(tags.contains("tag_not_matched"), "{tags}");
    run(&home, 0, &["digest", "build"]);
    let second = preview["bags"][0]["bag_id"].as_str().unwrap().to_owned();
    let label = preview["window"]["label"].as_str().unwrap();
    let list = ["digest", "list", "--selector", "overview.daily", "--window", label];
    let bags = json(&home, &list);
    assert_eq!(bags["bags"].as_array().unwrap().len(), 1);
    assert_eq!(bags["bags"][0]["bag_id"], second.as_str());
    let diff = json(&home, &["digest", "diff", &first, &second]);
    assert_eq!(diff["because"], serde_json::json!(["summaries"]));
    assert_eq!(diff["summaries"]["added"].as_array().unwrap().len(), 1);
    let told = run(&home, 0, &["digest", "diff", &first, &second]);
    assert!(told.contains("they differ in: summaries") && told.contains("  + sum_"), "{told}");
    let to = root.path().join("export");
    run(&home, 0, &["export", "--to", to.to_str().unwrap()]);
    let disk = summarizer::os::real::HostDisk;
    let (live, again) = (tree(&disk, &home.join("buses")), tree(&disk, &to.join("buses")));
    assert_eq!(again.keys().collect::<Vec<_>>(), live.keys().collect::<Vec<_>>());
    assert!(again == live, "the export is the tree, byte for byte");
    let gone = run(&home, 0, &["digest", "gc"]);
    assert!(gone.contains(" retired bags,") && gone.contains(" removed"), "{gone}");
    run(&home, 0, &["verify"]);
    run(&home, 5, &["digest", "diff", &first, &second]);
    run(&home, 5, &["digest", "build", "--selector", "nobody"]);
    run(&home, 5, &["digest", "preview", "--selector", "overview.daily", "--window", "1999-01-01"]);
    run(&home, 2, &["digest", "preview"]);
    let rows = std::fs::read_dir(home.join("buses/run_records/daily")).unwrap();
    let rows: String =
        rows.map(|entry| std::fs::read_to_string(entry.unwrap().path()).unwrap()).collect();
    assert!(rows.contains("summarizer digest build"), "builds have rows beside other runs");
}

#[test]
fn registry_check_knows_selectors() {
    let root = tempfile::tempdir().unwrap();
    let checked = run(root.path(), 0, &["registry", "check", "overview.daily"]);
    assert!(checked.contains("ok selector overview.daily"), "{checked}");
    let folder = root.path().join("flow_registry");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("registry.selectors.v1.jsonl"), "{\"selector_id\":\"x\"}\n")
        .unwrap();
    run(root.path(), 3, &["registry", "check", "x"]);
}

struct Serving(Child);

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(90);
    while !done() {
        assert!(Instant::now() < deadline, "waited too long until {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_service_builds_by_itself_and_when_asked() {
    let root = tempfile::tempdir().unwrap();
    let home = home(root.path());
    let before = std::fs::read(home.join("buses/index/index.sha256")).unwrap();
    let mut serve = command(&home, &["serve"]);
    serve.env("SUMMARIZER_DIGEST_DEBOUNCE", "200 ms").stderr(Stdio::null());
    let serving = Serving(serve.spawn().unwrap());
    wait_until("the service answers", || home.join("run/summarizer.sock").exists());
    more(&home, 2);
    let index = home.join("buses/index/index.sha256");
    wait_until("it builds by itself", || std::fs::read(&index).unwrap() != before);
    let report = json(&home, &["digest", "build", "--all"]);
    assert!(report["windows"].as_u64().unwrap() > 0, "{report}");
    let bags = json(&home, &["digest", "list"]);
    assert!(!bags["bags"].as_array().unwrap().is_empty());
    run(&home, 5, &["digest", "build", "--selector", "nobody"]);
    run(&home, 0, &["digest", "gc"]);
    read_all(&home.join("buses"));
    drop(serving);
    run(&home, 0, &["digest", "build"]);
    run(&home, 0, &["verify"]);
}

#[test]
fn builds_that_are_killed_leave_whole_indexes() {
    let root = tempfile::tempdir().unwrap();
    let home = home(root.path());
    for round in 0..4_u64 {
        more(&home, 10 + round as usize);
        run(&home, 0, &["drain"]);
        let mut build = command(&home, &["digest", "build"]);
        let mut build = build.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(15 * (round + 1)));
        let _ = build.kill();
        build.wait().unwrap();
        read_all(&home.join("buses"));
    }
    run(&home, 0, &["digest", "build"]);
    run(&home, 0, &["verify"]);
    assert!(read_all(&home.join("buses")).0 > 0);
}
