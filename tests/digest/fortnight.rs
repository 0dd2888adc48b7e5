//! Two weeks of mails, chats, job posts, runs and notes in English and Spanish, 66 texts, from files to
//! memos, narratives and a pack. These are goldens that a person has read; `UPDATE_GOLDEN=1` writes them
//! again.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

/// The day after the fortnight.
const NOW: &str = "2026-03-16T06:00:00Z";

fn run(home: &Path, args: &[&str]) -> String {
    let (succeeded, out, err) = ran(home, args);
    assert!(succeeded, "{args:?}\n{out}\n{err}");
    out
}

fn ran(home: &Path, args: &[&str]) -> (bool, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_summarizer"));
    command.env_clear().env("PATH", "/usr/bin:/bin").env("NO_COLOR", "1");
    command.env("SUMMARIZER_TEST_NOW", NOW);
    command.arg("--home").arg(home).args(args).stdin(Stdio::null());
    let output = command.output().unwrap();
    let out = String::from_utf8(output.stdout).unwrap();
    (output.status.success(), out, String::from_utf8_lossy(&output.stderr).into_owned())
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

/// What sessions of the service told since the ones in `known`, without the ids and hashes at the end.
fn narrative(home: &Path, known: &mut BTreeSet<PathBuf>) -> String {
    let mut told = String::new();
    for session in std::fs::read_dir(home.join("run/snapshots")).unwrap() {
        let session = session.unwrap().path();
        if known.insert(session.clone()) {
            told += &std::fs::read_to_string(session.join("1.md")).unwrap();
        }
    }
    told.split("## 7. References").next().unwrap().to_owned()
}

/// The texts of a folder, by name.
fn texts(folder: &Path) -> BTreeMap<String, String> {
    let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    files
        .filter(|file| file.extension().is_some_and(|end| end == "md"))
        .map(|file| {
            let name = file.file_name().unwrap().to_str().unwrap().to_owned();
            (name, std::fs::read_to_string(&file).unwrap())
        })
        .collect()
}

/// Compares texts with a folder of goldens, line by line, because a difference in a long text is hard to
/// find.
fn are_as_read(texts: &BTreeMap<String, String>, golden: &Path) {
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        let _ = std::fs::remove_dir_all(golden);
        std::fs::create_dir_all(golden).unwrap();
        for (name, text) in texts {
            std::fs::write(golden.join(name), text).unwrap();
        }
    }
    let expected = self::texts(golden);
    assert_eq!(expected.keys().collect::<Vec<_>>(), texts.keys().collect::<Vec<_>>());
    for (name, text) in texts {
        let expected = &expected[name];
        for (line, expected) in text.lines().zip(expected.lines()) {
            assert_eq!(line, expected, "{name}");
        }
        assert_eq!(text.lines().count(), expected.lines().count(), "{name}");
    }
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
    let runs = ["--flow", "ops.run.summarize.pipeline_run.v1"];
    let parts: [(&str, &[&str]); 5] =
        [("mail", &tasks), ("chats", &[]), ("jobs", &[]), ("runs", &runs), ("notes", &[])];
    let (mut known, mut narratives) = (BTreeSet::new(), BTreeMap::new());
    for (part, flow) in parts {
        let path = folder.join(part);
        run(&home, &[&["add", path.to_str().unwrap()], flow].concat());
        narratives.insert(format!("{part}.md"), narrative(&home, &mut known));
    }
    // A session in which things go wrong.
    let missing = ["--id", "doc_ffffffffffffffffffffffffffffffff", "--bus", "chunk_bus"];
    let submit = ["submit", "--flow", "docs.chunk_set.summarize.brief.v1", "--request-id", "r-1"];
    run(&home, &[&submit[..], &missing].concat());
    let queue = std::fs::OpenOptions::new().append(true).open(home.join("run/queue.jsonl"));
    queue.unwrap().write_all(b"this is no request\n").unwrap();
    ran(&home, &["drain"]);
    narratives.insert("failures.md".to_owned(), narrative(&home, &mut known));
    run(&home, &["digest", "build"]);
    run(&home, &["verify"]);
    let memos = memos(&home);
    are_as_read(&memos, &fixture("fortnight_memos"));
    are_as_read(&narratives, &fixture("fortnight_narratives"));
    each_bag_says_why_it_exists(&home);
    an_independent_model_makes_the_same_groups(&home);
    let manifest = root.path().join("week.json");
    let manifest = manifest.to_str().unwrap();
    let weeks = ["--from", "2026-03-02", "--to", "2026-03-13", "--group-by", "project"];
    let select = ["select", "--bus", "summary_bus", "--out", manifest];
    run(&home, &[&select[..], &weeks].concat());
    let pack = root.path().join("pack");
    run(&home, &["pack", "build", pack.to_str().unwrap(), "--from-selection", manifest]);
    run(&home, &["pack", "check", pack.to_str().unwrap()]);
    are_as_read(&texts(&pack.join("summaries")), &fixture("fortnight_pack"));
    an_independent_model_checks_the_pack(root.path());
    a_person_closes_a_task(&home);
}

/// 66 mails, chats, job posts, runs and notes make fewer than 25 bags, and the preview of their selector
/// names each with its reason.
fn each_bag_says_why_it_exists(home: &Path) {
    let json = |args: &[&str]| -> Value {
        serde_json::from_str(&run(home, &[&["--json"], args].concat())).unwrap()
    };
    let list = json(&["digest", "list"]);
    let mut weeks = BTreeMap::new();
    let mut explained = BTreeSet::new();
    let mut published = BTreeSet::new();
    for bag in list["bags"].as_array().unwrap() {
        let word = |name: &str| bag[name].as_str().unwrap().to_owned();
        let (selector, window) = (word("selector_id"), word("window_label"));
        published.insert(word("bag_id"));
        let preview = json(&["digest", "preview", "--selector", &selector, "--window", &window]);
        if selector == "overview.weekly" {
            weeks.insert(window, preview["candidates"].as_u64().unwrap());
        }
        for group in preview["bags"].as_array().unwrap() {
            let why = group["why"].as_str().unwrap();
            assert!(why.contains("summar"), "{why}");
            explained.insert(group["bag_id"].as_str().unwrap().to_owned());
        }
    }
    assert_eq!(weeks.values().sum::<u64>(), 66);
    assert!(published.len() < 25, "{published:?}");
    assert_eq!(published, explained);
}

/// `tests/tools/check_digests.py` groups the published summaries again, for the selectors in force, for all
/// others, and for a wrong one, which it must notice.
fn an_independent_model_makes_the_same_groups(home: &Path) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let registry = "registry/registry.selectors.v1.jsonl";
    let selectors = std::fs::read_to_string(root.join(registry)).unwrap();
    let check = |home: &Path, selectors: &str| {
        let file = home.join("selectors.jsonl");
        std::fs::write(&file, selectors).unwrap();
        let tool = root.join("tests/tools/check_digests.py");
        let mut python = Command::new("python3");
        let output = python.arg(tool).arg(home.join("buses")).arg(&file).output().unwrap();
        std::fs::remove_file(&file).unwrap();
        (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let (same, told) = check(home, &selectors);
    assert!(same, "{told}");
    let (same, told) = check(home, &selectors.replace("\"min_items\":5", "\"min_items\":4"));
    assert!(!same && told.contains("missing"), "{told}");
    // Every selector, in another home.
    let other = tempfile::tempdir().unwrap();
    let other = other.path().join("home");
    copy(home, &other);
    let all: String =
        selectors.lines().map(|line| line.replace("\"disabled\"", "\"active\"") + "\n").collect();
    std::fs::create_dir_all(other.join("flow_registry")).unwrap();
    std::fs::write(other.join("flow_registry/registry.selectors.v1.jsonl"), &all).unwrap();
    run(&other, &["digest", "build"]);
    let (same, told) = check(&other, &all);
    assert!(same, "{told}");
}

/// Replaces some words of a file.
fn replaced(file: &Path, words: &str, by: &str) {
    let text = std::fs::read_to_string(file).unwrap();
    assert!(text.contains(words), "{}: {words}", file.display());
    std::fs::write(file, text.replace(words, by)).unwrap();
}

/// `tests/tools/check_packs.py` finds nothing wrong with the pack, and finds each of these changes.
fn an_independent_model_checks_the_pack(root: &Path) {
    let check = |root: &Path| {
        let tool = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tools/check_packs.py");
        let parts = ["pack", "week.json", "home/buses"].map(|part| root.join(part));
        let output = Command::new("python3").arg(tool).args(parts).output().unwrap();
        (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let (passes, told) = check(root);
    assert!(passes, "{told}");
    let pack = "pack/summaries/summary-pack.json";
    let note = "pack/summaries/taller.summary.md";
    let bus = "home/buses/summaries/documents/2026-03-05.documents.summary.jsonl";
    let in_files: [(&[&str], &str, &str, &str); 11] = [
        (&[pack, note], "tornillo", "martillo", "does not say"),
        (&[bus], "tornillo", "martillo", "does not say"),
        (&[bus], "\"meta\":{", "\"meta\":{\"publish\":false,", "is not of the selection"),
        (&[note], "tornillo", "martillo", "has other claims than the pack"),
        (
            &[note],
            "## Findings\n",
            "## Findings\n- Nobody says this.\n",
            "has other claims than the pack",
        ),
        (&["pack/wave-1/taller.md"], " (a question)", "", "no reason"),
        (
            &["pack/wave-1/taller.md"],
            "- La prensa",
            "- Nobody says this. [@s1]\n- La prensa",
            "dropped without",
        ),
        (&["pack/citations/citations.jsonl"], "\"cid\":\"s2\"", "\"cid\":\"s99\"", "do not count"),
        (
            &["pack/summaries/summary-pack.meta.json"],
            "\"summary_sha256\": \"",
            "\"summary_sha256\": \"0",
            "another text",
        ),
        (&["week.json"], "\"group\": \"work\"", "\"group\": \"home\"", "has another hash"),
        (&["pack/manifest.json"], "\"max_summary_kb\": 5", "\"max_summary_kb\": 6", "other limits"),
    ];
    let changed = |change: &dyn Fn(&Path), why: &str| {
        let other = tempfile::tempdir().unwrap();
        copy(&root.join("pack"), &other.path().join("pack"));
        copy(&root.join("home/buses"), &other.path().join("home/buses"));
        std::fs::copy(root.join("week.json"), other.path().join("week.json")).unwrap();
        change(other.path());
        let (passes, told) = check(other.path());
        assert!(!passes && told.contains(why), "{why}: {told}");
    };
    for (files, words, by, why) in in_files {
        changed(&|other| files.iter().for_each(|file| replaced(&other.join(file), words, by)), why);
    }
    let orphan =
        |other: &Path| std::fs::write(other.join("pack/summaries/more.summary.md"), "x").unwrap();
    changed(&orphan, "no entry names");
    let swap = |other: &Path| {
        let file = other.join(pack);
        let mut value: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        value["summaries"][1]["key_claims"].as_array_mut().unwrap().reverse();
        std::fs::write(&file, value.to_string()).unwrap();
    };
    changed(&swap, "not in the order of the summaries");
    let long_ids = |other: &Path| {
        for entry in std::fs::read_dir(other.join("pack/summaries")).unwrap() {
            let file = entry.unwrap().path();
            if file.extension().is_some_and(|end| end == "md") {
                let text = std::fs::read_to_string(&file).unwrap();
                let long = text.replace("[@s", &format!("[@{}", "s".repeat(60)));
                std::fs::write(&file, long).unwrap();
            }
        }
    };
    changed(&long_ids, "of the bytes");
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
