//! The commands as people meet them: in process, beside a running service, and killed.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use serde_json::Value;

use crate::readers::read_all;
use crate::running::{Running, test_now, until as wait_until};
use crate::world::tree;

fn command(home: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_summarizer"));
    command.env_clear().env("PATH", "/usr/bin:/bin").env("NO_COLOR", "1");
    command.env("SUMMARIZER_TEST_NOW", test_now());
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
fn commands_list_bags_and_builds() {
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
    run(&home, 2, &["digest", "build", "--selector", "nobody"]);
    run(&home, 5, &["digest", "list", "--selector", "nobody"]);
    run(&home, 5, &["digest", "preview", "--selector", "overview.daily", "--window", "1999-01-01"]);
    run(&home, 0, &["digest", "preview"]);
    run(&home, 2, &["digest", "build", "--window", "2026-W7"]);
    run(&home, 0, &["digest", "build", "--window", "1999-W07"]);
    let rows = std::fs::read_dir(home.join("buses/run_records/daily")).unwrap();
    let rows: String =
        rows.map(|entry| std::fs::read_to_string(entry.unwrap().path()).unwrap()).collect();
    assert!(rows.contains("summarizer digest build"), "builds have rows beside other runs");
}

#[test]
fn registry_check_reports_faults_of_selectors() {
    let root = tempfile::tempdir().unwrap();
    let checked = run(root.path(), 0, &["registry", "check", "overview.daily"]);
    assert!(checked.contains("ok selector overview.daily"), "{checked}");
    let folder = root.path().join("flow_registry");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("registry.selectors.v1.jsonl"), "{\"selector_id\":\"x\"}\n")
        .unwrap();
    let checked = run(root.path(), 1, &["registry", "check", "x"]);
    assert!(checked.contains("\"bag_type\"") && checked.contains("\"caps\""), "{checked}");
}

#[test]
fn a_service_builds_digests_on_schedule_and_on_request() {
    let root = tempfile::tempdir().unwrap();
    let home = home(root.path());
    let before = std::fs::read(home.join("buses/index/index.sha256")).unwrap();
    let mut serve = command(&home, &["serve"]);
    serve.env("SUMMARIZER_DIGEST_DEBOUNCE", "200 ms").stderr(Stdio::null());
    let serving = Running(serve.spawn().unwrap());
    wait_until("the service answers", || home.join("run/summarizer.sock").exists());
    more(&home, 2);
    let index = home.join("buses/index/index.sha256");
    wait_until("it builds by itself", || std::fs::read(&index).unwrap() != before);
    let report = json(&home, &["digest", "build", "--all"]);
    assert!(report["windows"].as_u64().unwrap() > 0, "{report}");
    let bags = json(&home, &["digest", "list"]);
    assert!(!bags["bags"].as_array().unwrap().is_empty());
    run(&home, 2, &["digest", "build", "--selector", "nobody"]);
    run(&home, 5, &["digest", "list", "--selector", "nobody"]);
    run(&home, 0, &["digest", "gc"]);
    read_all(&home.join("buses"));
    drop(serving);
    run(&home, 0, &["digest", "build"]);
    run(&home, 0, &["verify"]);
}

#[test]
fn reload_checks_selectors_and_builds_changed_ones_at_once() {
    let root = tempfile::tempdir().unwrap();
    let home = home(root.path());
    let mut serve = command(&home, &["serve"]);
    serve.env("SUMMARIZER_DIGEST_DEBOUNCE", "1 h").stderr(Stdio::null());
    let serving = Running(serve.spawn().unwrap());
    wait_until("the service answers", || home.join("run/summarizer.sock").exists());
    let folder = home.join("flow_registry");
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("registry.selectors.v1.jsonl");
    let line = |more: &str| {
        format!(
            "{{\"schema_version\":\"selector.v1\",\"selector_id\":\"mine\",\"selector_version\":\"1\",\
             \"bag_type\":\"cohort\",\"window\":{{\"type\":\"all\"}},\"caps\":{{\"total\":9}}{more}}}\n"
        )
    };
    let selectors = |home: &Path| {
        let bags = json(home, &["digest", "list"]);
        let bags = bags["bags"].as_array().unwrap().iter();
        bags.map(|bag| bag["selector_id"].as_str().unwrap().to_owned()).collect::<BTreeSet<_>>()
    };
    std::fs::write(&file, line(",\"match\":{\"tag_any\":[\"x\"]}")).unwrap();
    let refused = command(&home, &["reload"]).output().unwrap();
    let told = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(3), "{told}");
    assert!(told.contains("the old settings stay in force") && !told.contains('{'), "{told}");
    run(&home, 3, &["digest", "build"]);
    run(&home, 3, &["digest", "list"]);
    // A name that no summary has is a mistyped one. It retires nothing.
    for typo in [
        ",\"match\":{\"meta\":{\"folderr\":[\"x\"]}}",
        ",\"group\":{\"by\":\"meta\",\"field\":\"folderr\"}",
    ] {
        std::fs::write(&file, line(typo)).unwrap();
        for args in [
            &["reload"][..],
            &["digest", "build"],
            &["digest", "list"],
            &["digest", "preview", "--selector", "mine"],
        ] {
            let refused = command(&home, args).output().unwrap();
            let told = String::from_utf8(refused.stderr).unwrap();
            assert_eq!(refused.status.code(), Some(3), "{args:?} {told}");
            assert!(told.contains("folderr"), "{args:?} {told}");
        }
    }
    std::fs::write(&file, line(",\"match\":{\"meta\":{\"folder\":[\"x\"]}}")).unwrap();
    run(&home, 0, &["digest", "preview", "--selector", "mine"]);
    std::fs::write(&file, line("")).unwrap();
    run(&home, 0, &["reload"]);
    wait_until("the changed selector is built", || {
        selectors(&home) == BTreeSet::from(["mine".to_owned()])
    });
    drop(serving);
    run(&home, 0, &["verify"]);
}

/// The milliseconds of an instant as the log shows it.
fn ms(at: &Value) -> i64 {
    summarizer::contract::time::parse_instant(at.as_str().unwrap()).unwrap().at.0
}

#[test]
fn a_service_builds_within_the_longest_delay_while_summaries_keep_coming() {
    const DELAY_MS: i64 = 15_000;
    // Builds begin early by as much as the last ones took. On a busy machine one may take longer.
    const BUSY_MS: i64 = 5_000;
    let root = tempfile::tempdir().unwrap();
    let home = home(root.path());
    let mut serve = command(&home, &["serve"]);
    // Without a longest delay nothing would be built: no pause is as long as this.
    serve.env("SUMMARIZER_DIGEST_DEBOUNCE", "1 h").env("SUMMARIZER_DIGEST_MAX_DELAY", "15 s");
    serve.stderr(Stdio::null());
    let serving = Running(serve.spawn().unwrap());
    wait_until("the service answers", || home.join("run/summarizer.sock").exists());
    let (began, mut number) = (Instant::now(), 100);
    while began.elapsed().as_secs() < 45 {
        more(&home, number);
        number += 1;
    }
    drop(serving);
    let dump = run(&home, 0, &["log", "dump"]);
    let (mut made, mut built) = (Vec::new(), Vec::new());
    for line in dump.lines() {
        let event: Value = serde_json::from_str(line).unwrap();
        match event["event"].as_str().unwrap() {
            "SummaryProduced" => made.push((event["seq"].as_u64().unwrap(), ms(&event["at"]))),
            "Digest" if event["kind"] == "finished" && event["facts"]["ok"] == true => {
                built.push((event["facts"]["considered"].as_u64().unwrap_or(0), ms(&event["at"])));
            }
            _ => {}
        }
    }
    let last = built.last().unwrap().0;
    let waited: Vec<i64> = made
        .iter()
        .filter(|(seq, _)| *seq <= last)
        .map(|(seq, at)| built.iter().find(|(to, _)| to >= seq).unwrap().1 - at)
        .collect();
    assert!(waited.len() > 20 && built.len() > 2, "{waited:?} {built:?}");
    let longest = waited.iter().max().unwrap();
    assert!(*longest <= DELAY_MS + BUSY_MS, "{waited:?} {built:?}");
}

/// Reads everything again and again, by the rule that readers are given, while a closure works.
fn read_while(buses: &Path, work: impl FnOnce()) -> (u64, usize) {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let (mut bags, mut publications) = (0, BTreeSet::new());
            loop {
                let last = stop.load(Ordering::Acquire);
                let (read, sums) = read_all(buses);
                bags += read;
                publications.insert(sums);
                if last {
                    return (bags, publications.len());
                }
            }
        });
        // A panic of the work must not leave the reader behind.
        let worked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
        stop.store(true, Ordering::Release);
        let read = reader.join().unwrap();
        worked.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        read
    })
}

#[test]
fn readers_see_no_mismatch_while_builds_are_killed() {
    let root = tempfile::tempdir().unwrap();
    let home = home(root.path());
    more(&home, 9);
    run(&home, 0, &["drain"]);
    let started = Instant::now();
    run(&home, 0, &["digest", "build"]);
    let whole = started.elapsed();
    let deep = std::env::var_os("SUMMARIZER_TEST_DEEP").is_some();
    let rounds = if deep { 40 } else { 5 };
    let (bags, publications) = read_while(&home.join("buses"), || {
        for round in 0..rounds {
            more(&home, 10 + round as usize);
            run(&home, 0, &["drain"]);
            let mut build = command(&home, &["digest", "build"]);
            let mut build = build.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
            // Spread over the time that a build takes when it is left alone.
            std::thread::sleep(whole * (round * 2 + 1) / (rounds * 2));
            let _ = build.kill();
            build.wait().unwrap();
            // A drain ends what the kill cut short.
            run(&home, 0, &["drain"]);
            run(&home, 0, &["verify"]);
            if round % 2 == 1 {
                run(&home, 0, &["digest", "gc"]);
            }
        }
        run(&home, 0, &["digest", "build"]);
    });
    assert!(bags > 0 && publications > 0, "{bags} {publications}");
    run(&home, 0, &["verify"]);
    run(&home, 0, &["replay", "--verify"]);
    assert!(read_all(&home.join("buses")).0 > 0);
}

#[test]
fn a_drain_ends_a_build_that_was_killed_before_its_record_was_written() {
    let root = tempfile::tempdir().unwrap();
    let home = home(root.path());
    more(&home, 9);
    run(&home, 0, &["drain"]);
    let built = json(&home, &["digest", "build"]);
    let run_id = built["run_id"].as_str().unwrap();
    // The log has the end of the build. Its record and the removal of its staging folder are left to do.
    let record = home.join(format!("buses/artifacts/run_records/{run_id}.run_record.json"));
    let written = std::fs::read(&record).unwrap();
    std::fs::remove_file(&record).unwrap();
    let staged = home.join(format!(".buses.publishing/.staging/{run_id}"));
    assert!(staged.parent().unwrap().is_dir(), "{}", staged.display());
    std::fs::create_dir(&staged).unwrap();
    run(&home, 0, &["drain"]);
    assert_eq!(std::fs::read(&record).unwrap(), written);
    assert!(!staged.exists());
    run(&home, 0, &["verify"]);
}

/// The published summary of a note.
fn summary_of(home: &Path, note: &str) -> Value {
    let folder = home.join("buses/summaries/documents");
    let files = std::fs::read_dir(folder).unwrap();
    let lines: String =
        files.map(|entry| std::fs::read_to_string(entry.unwrap().path()).unwrap()).collect();
    let mut lines = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.find(|line| line["source_ids"][0] == format!("other:{note}").as_str()).unwrap()
}

/// Whether any file of a digest speaks of something.
fn digests_tell(home: &Path, what: &str) -> bool {
    let files = tree(&summarizer::os::real::HostDisk, &home.join("buses"));
    let mut told = files.iter().filter(|(path, _)| path.starts_with("digests/"));
    told.any(|(_, bytes)| String::from_utf8_lossy(bytes).contains(what))
}

#[test]
fn a_source_that_becomes_private_leaves_the_digests_and_every_older_summary_with_it() {
    let root = tempfile::tempdir().unwrap();
    let home = home(root.path());
    let note = home.join("buses/other/note.md");
    let write = |flag: &str| {
        let body =
            "We spoke of the move. It was decided to leave in spring. The lease is to be ended.";
        std::fs::write(&note, format!("---\ntitle: T\n{flag}---\n{body}\n")).unwrap();
    };
    let ask = |flow: &str| {
        run(&home, 0, &["submit", "--flow", flow, "--bus", "other", "--id", "note.md"]);
        run(&home, 0, &["drain"]);
        run(&home, 0, &["digest", "build"]);
    };
    let made = || {
        let told = json(&home, &["read", "note.md"]);
        told["summary_id"].as_str().unwrap_or_else(|| panic!("{told}")).to_owned()
    };
    let (brief, outline) = ("docs.chunk_set.summarize.brief.v1", "writing.outline.generate.v1");
    write("");
    ask(brief);
    let open = made();
    assert!(digests_tell(&home, &open));
    ask(outline);
    // The text is the same, and the mark is new.
    write("publish: false\n");
    ask(brief);
    let lines = run(&home, 0, &["--json", "read", "note.md", "--all-versions"]);
    let all: Vec<serde_json::Value> =
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(all.len(), 3, "{lines}");
    assert!(all.iter().all(|one| one["private"] == true), "{lines}");
    let marked = all.iter().filter(|one| one["selection"]["context"]["publish"] == false);
    assert_eq!(marked.count(), 1, "{lines}");
    run(&home, 0, &["digest", "gc"]);
    for one in &all {
        let id = one["summary_id"].as_str().unwrap();
        assert!(!digests_tell(&home, id), "no public digest tells of {id}");
    }
    let shown = run(&home, 0, &["search", "lease"]);
    assert!(shown.contains("private"), "{shown}");
    for one in &all {
        assert!(run(&home, 0, &["read", one["summary_id"].as_str().unwrap()]).contains("private"));
    }
    run(&home, 0, &["verify"]);
    // Public again: the newest word counts, and the newest summary of each kind of work is shown.
    write("publish: true\n");
    ask(brief);
    let newest = run(&home, 0, &["--json", "read", "note.md"]);
    let newest = newest.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let newest = newest.filter(|one| one["selection"]["context"]["publish"] == true);
    let newest: Vec<String> =
        newest.map(|one| one["summary_id"].as_str().unwrap().to_owned()).collect();
    assert!(digests_tell(&home, &newest[0]));
    assert!(!digests_tell(&home, &open), "the newer summary took its place");
    run(&home, 0, &["verify"]);
}

#[test]
fn private_summaries_enter_a_bag_only_when_the_selector_asks() {
    let root = tempfile::tempdir().unwrap();
    let home = home(root.path());
    let other = home.join("buses/other");
    let body = "We spoke of the move. It was decided to leave in spring. The lease is to be ended.";
    let note = |name: &str, flag: &str| {
        std::fs::write(other.join(name), format!("---\ntitle: T\n{flag}---\n# {name}\n\n{body}\n"))
            .unwrap();
    };
    note("private.md", "publish: false\n");
    note("open.md", "publish: true\n");
    note("asked.md", "publish: true\n");
    let flow = "docs.chunk_set.summarize.brief.v1";
    for (id, params) in
        [("private.md", "publish=true"), ("open.md", "seed=1"), ("asked.md", "publish=false")]
    {
        let kind = ["submit", "--flow", flow, "--bus", "other", "--id", id, "--param", params];
        run(&home, 0, &kind);
    }
    run(&home, 0, &["drain"]);
    run(&home, 0, &["digest", "build"]);
    for (id, flag) in [("private.md", false), ("open.md", true), ("asked.md", false)] {
        let summary = summary_of(&home, id);
        assert_eq!(summary["meta"]["publish"], flag, "{id}");
        assert_eq!(digests_tell(&home, summary["summary_id"].as_str().unwrap()), flag, "{id}");
    }
    let refused =
        ["submit", "--flow", flow, "--bus", "other", "--id", "open.md", "--param", "publish=7"];
    run(&home, 0, &refused);
    run(&home, 1, &["drain"]);
    let acks = std::fs::read_to_string(home.join("run/ack.jsonl")).unwrap();
    assert!(acks.contains("params.publish must be true or false, not 7"), "{acks}");
    // A selector that asks for private items gets them, and its memo says what it is.
    run(&home, 0, &["init", "--with-registry"]);
    let selectors = home.join("flow_registry/registry.selectors.v1.jsonl");
    let mine = serde_json::json!({
        "schema_version": "selector.v1", "selector_id": "mine", "selector_version": "1",
        "bag_type": "cohort", "window": {"type": "all"}, "match": {"publish": "private"},
        "caps": {"total": 10}, "memo": {"max_items": 10},
    });
    let known = std::fs::read_to_string(&selectors).unwrap();
    std::fs::write(&selectors, format!("{known}{mine}\n")).unwrap();
    run(&home, 0, &["digest", "build"]);
    for id in ["private.md", "asked.md"] {
        let summary_id = summary_of(&home, id)["summary_id"].as_str().unwrap().to_owned();
        assert!(digests_tell(&home, &summary_id), "{id}");
    }
    let bags = json(&home, &["digest", "list", "--selector", "mine"]);
    let path = bags["bags"][0]["path"].as_str().unwrap();
    let memo = std::fs::read_to_string(home.join("buses").join(path).join("memo/cohort__mine.md"));
    assert!(memo.unwrap().contains("\npublish: false\n"));
    run(&home, 0, &["verify"]);
}

#[test]
fn status_doctor_and_replay_report_digests() {
    let root = tempfile::tempdir().unwrap();
    let home = home(root.path());
    let status = json(&home, &["status"]);
    let digests = &status["digests"];
    assert!(digests["bags"].as_u64().unwrap() > 0 && digests["last_build"]["ok"] == true);
    assert_eq!((&digests["failed"], &digests["building"]), (&serde_json::json!([]), &Value::Null));
    assert!(run(&home, 0, &["status"]).contains(" bags with "));
    run(&home, 0, &["replay", "--verify"]);
    let sound = run(&home, 0, &["doctor", "--deep"]);
    let is_told = |line: &str| line.contains(" digests ") && line.contains("what the log leads to");
    assert!(sound.lines().any(is_told), "{sound}");
    // A memo that somebody edited, one that went, and a folder that nobody made.
    let bags = json(&home, &["digest", "list"]);
    let path = |n: usize| home.join("buses").join(bags["bags"][n]["path"].as_str().unwrap());
    let memo = |n: usize| {
        let mut names: Vec<_> =
            std::fs::read_dir(path(n).join("memo")).unwrap().map(|e| e.unwrap().path()).collect();
        names.sort();
        names.into_iter().find(|name| name.extension().is_some_and(|e| e == "md")).unwrap()
    };
    let (edited, gone) = (memo(0), memo(1));
    let original = std::fs::read(&edited).unwrap();
    std::fs::write(&edited, "mine now\n").unwrap();
    std::fs::remove_file(&gone).unwrap();
    let stray = home.join("buses/digests/L2/cohort/bag_of_another_log/meta");
    std::fs::create_dir_all(&stray).unwrap();
    std::fs::write(stray.join("bag.json"), "{}\n").unwrap();
    let differs = run(&home, 1, &["replay", "--verify"]);
    for what in [
        "differs from the log",
        "is missing",
        "bag_of_another_log: is the folder of no bag in the log",
    ] {
        assert!(differs.contains(what), "{what}\n{differs}");
    }
    let sick = run(&home, 1, &["doctor", "--deep"]);
    assert!(sick.contains("export --repair"), "{sick}");
    // Orphans are shown before they go, and go only when that is said.
    let plan = json(&home, &["digest", "gc", "--orphans"]);
    assert_eq!(plan["orphans"], serde_json::json!(["digests/L2/cohort/bag_of_another_log"]));
    assert_eq!(plan["dry_run"], true);
    assert!(stray.exists());
    run(&home, 2, &["digest", "gc", "--yes"]);
    let told = run(&home, 0, &["digest", "gc", "--orphans", "--yes"]);
    assert!(told.contains("1 orphans removed") && !stray.exists(), "{told}");
    run(&home, 0, &["export", "--repair"]);
    assert_eq!(std::fs::read(&edited).unwrap(), original);
    assert!(gone.exists());
    run(&home, 0, &["replay", "--verify"]);
    run(&home, 0, &["doctor", "--deep"]);
    run(&home, 0, &["verify"]);
}

#[test]
fn a_backup_names_the_hash_of_every_file() {
    let root = tempfile::tempdir().unwrap();
    let home = home(root.path());
    more(&home, 1);
    run(&home, 0, &["drain"]);
    run(&home, 0, &["digest", "build"]);
    let copy = root.path().join("copy");
    run(&home, 0, &["backup", copy.to_str().unwrap()]);
    let manifest = std::fs::read(copy.join("backup.json")).unwrap();
    let manifest: Value = serde_json::from_slice(&manifest).unwrap();
    let named = manifest["files"].as_object().unwrap();
    let found = tree(&summarizer::os::real::HostDisk, &copy.join("buses"));
    assert!(found.keys().any(|path| path.starts_with("artifacts/run_records/")));
    let is_named = |path: &&String| named.contains_key(&format!("buses/{path}"));
    let unnamed: Vec<&String> = found.keys().filter(|path| !is_named(path)).collect();
    assert!(unnamed.is_empty(), "files without a hash: {unnamed:?}");
}
