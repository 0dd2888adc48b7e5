//! Two weeks of mails, chats, job posts and notes in English and Spanish, from files to memos. The
//! memos are goldens that a person has read; `UPDATE_GOLDEN=1` writes them again.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

/// The day after the fortnight.
const NOW: &str = "2026-03-16T06:00:00Z";

fn run(home: &Path, args: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_summarizer"));
    command.env_clear().env("PATH", "/usr/bin:/bin").env("NO_COLOR", "1");
    command.env("SUMMARIZER_TEST_NOW", NOW);
    command.arg("--home").arg(home).args(args).stdin(Stdio::null());
    let output = command.output().unwrap();
    let (out, err) = (output.stdout, String::from_utf8_lossy(&output.stderr).into_owned());
    assert!(output.status.success(), "{args:?}\n{}\n{err}", String::from_utf8_lossy(&out));
    String::from_utf8(out).unwrap()
}

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/digest").join(name)
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for file in std::fs::read_dir(from).unwrap() {
        let file = file.unwrap().path();
        let to = to.join(file.file_name().unwrap());
        if file.is_dir() {
            copy(&file, &to);
        } else {
            std::fs::copy(&file, &to).unwrap();
        }
    }
}

/// The memos of all live bags, by selector, window, group and channel.
fn memos(home: &Path) -> BTreeMap<String, String> {
    let buses = home.join("buses");
    let registry = std::fs::read(buses.join("index/digest_registry.json")).unwrap();
    let registry: Value = serde_json::from_slice(&registry).unwrap();
    let mut found = BTreeMap::new();
    for entry in registry["entries"].as_array().unwrap() {
        let text = |name: &str| entry[name].as_str().unwrap_or("all").replace('/', "-");
        let folder = buses.join(entry["path"].as_str().unwrap()).join("memo");
        for file in std::fs::read_dir(folder).unwrap() {
            let file = file.unwrap().path();
            if file.extension().is_some_and(|end| end == "md") {
                let name = format!(
                    "{}.{}.{}.md",
                    text("selector_id"),
                    text("window_label"),
                    text("group")
                );
                found.insert(name, std::fs::read_to_string(file).unwrap());
            }
        }
    }
    found
}

#[test]
fn two_weeks_make_memos_worth_reading() {
    let root = tempfile::tempdir().unwrap();
    let home = root.path().join("home");
    run(&home, &["init"]);
    // Beside the home, where the names of files do not depend on the place of this repository.
    let folder = root.path().join("fortnight");
    copy(&fixture("fortnight"), &folder);
    let tasks = ["--flow", "email.triage.extract_task.task_item.v1"];
    for (part, flow) in [("mail", &tasks[..]), ("chats", &[]), ("jobs", &[]), ("notes", &[])] {
        let part = folder.join(part);
        run(&home, &[&["add", part.to_str().unwrap()], flow].concat());
    }
    run(&home, &["digest", "build"]);
    run(&home, &["verify"]);
    let memos = memos(&home);
    assert!(memos.len() < 25, "{:?}", memos.keys());
    let golden = fixture("fortnight_memos");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        let _ = std::fs::remove_dir_all(&golden);
        std::fs::create_dir_all(&golden).unwrap();
        for (name, memo) in &memos {
            std::fs::write(golden.join(name), memo).unwrap();
        }
    }
    let mut names: Vec<String> = std::fs::read_dir(&golden)
        .unwrap()
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, memos.keys().cloned().collect::<Vec<_>>());
    for (name, memo) in &memos {
        let expected = std::fs::read_to_string(golden.join(name)).unwrap();
        // Line by line, because a difference in a long text is hard to find.
        for (line, expected) in memo.lines().zip(expected.lines()) {
            assert_eq!(line, expected, "{name}");
        }
        assert_eq!(memo.lines().count(), expected.lines().count(), "{name}");
    }
    a_person_closes_a_task(&home);
}

/// A task that a person closes leaves the open tasks, and comes back when it is reopened.
fn a_person_closes_a_task(home: &Path) {
    let open = |home: &Path| {
        let list = run(home, &["--json", "task", "list"]);
        list.lines()
            .map(|line| {
                serde_json::from_str::<Value>(line).unwrap()["task_id"].as_str().unwrap().to_owned()
            })
            .collect::<Vec<String>>()
    };
    let before = open(home);
    let task = before.first().expect("a task is open");
    run(home, &["task", "done", task]);
    assert!(!open(home).contains(task));
    let of_tasks = |home: &Path| memos(home).remove("tasks.open.all.all.md").unwrap_or_default();
    assert!(of_tasks(home).contains(&format!("; {task})")), "the published memo is as it was");
    run(home, &["digest", "build"]);
    assert!(!of_tasks(home).contains(&format!("; {task})")), "{}", of_tasks(home));
    run(home, &["verify"]);
    run(home, &["task", "reopen", task]);
    run(home, &["digest", "build"]);
    assert_eq!(open(home), before);
    assert!(of_tasks(home).contains(&format!("; {task})")));
    run(home, &["verify"]);
}
