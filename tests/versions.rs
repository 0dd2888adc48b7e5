//! A person edits, hides, removes and renames files: which summary is the current one, and what every
//! command shows of the others.
#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]
#![allow(clippy::disallowed_methods, reason = "the test writes files as the person would")]
#![allow(dead_code, reason = "helpers")]

mod support;

use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::Value;
use support::running::{Running, test_now, until};

struct Person(tempfile::TempDir);

struct Ran {
    out: String,
    err: String,
}

impl Person {
    /// A person with a home and no file.
    fn new() -> Person {
        let person = Person(tempfile::tempdir().unwrap());
        person.run(0, &["init", "home"]);
        person
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_summarizer"));
        command
            .args(args)
            .current_dir(self.0.path())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("HOME", self.path("nobody"))
            .env("SUMMARIZER_TEST_NOW", test_now())
            .stdin(Stdio::null());
        command
    }

    fn run(&self, exit: i32, args: &[&str]) -> Ran {
        let args = match args[0] {
            "init" => vec!["--home", args[1], "init"],
            _ => [&["--home", "home"], args].concat(),
        };
        let output = self.command(&args).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let ran = Ran { out: text(&output.stdout), err: text(&output.stderr) };
        assert_eq!(output.status.code(), Some(exit), "{args:?}\n{}\n{}", ran.out, ran.err);
        ran
    }

    fn json(&self, args: &[&str]) -> Vec<Value> {
        let ran = self.run(0, &[&["--json"], args].concat());
        ran.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// A service that runs until the end of the test.
    fn service(&self) -> Running {
        let mut command = self.command(&["--home", "home", "serve"]);
        let service = Running(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
        until("the service answers", || {
            let mut status = self.command(&["--home", "home", "--json", "status"]);
            let told = status.output().unwrap().stdout;
            serde_json::from_slice::<Value>(&told).is_ok_and(|told| told["session"].is_object())
        });
        service
    }
}

fn says(text: &str, words: &[&str]) {
    words.iter().for_each(|word| assert!(text.contains(word), "no {word:?} in\n{text}"));
}

const PLAN: &str = "# Garden plan\n\nWe plant tomatoes in April. The budget is 40 EUR.\n";

#[test]
fn summaries_of_add_beside_a_service_can_be_read_and_digested_immediately() {
    let person = Person::new();
    let service = person.service();
    for round in 0..3 {
        let budget = format!("The budget is {} EUR.", 40 + round);
        person.write("notes/plan.md", &PLAN.replace("The budget is 40 EUR.", &budget));
        let added = person.run(0, &["add", "notes"]);
        says(&added.out, &["notes/plan.md", &budget]);
        says(&person.run(0, &["read", "plan.md"]).out, &[&budget]);
        says(&person.run(0, &["digest", "build"]).out, &["published"]);
    }
    assert_eq!(service.terminate(), Some(0));
}

fn mail(id: &str, subject: &str, text: &str) -> String {
    format!(
        "Message-ID: <{id}@example.org>\nFrom: Ana <ana@example.org>\nSubject: {subject}\n\
         Date: Wed, 11 Feb 2026 10:00:00 +0000\n\n{text}\n"
    )
}

#[test]
fn a_name_that_fits_several_sources_lists_them_and_an_exact_name_wins() {
    let person = Person::new();
    person.write("mail/1.eml", &mail("1", "Offer", "The roof costs 900 EUR without tax."));
    person.write("mail/2.eml", &mail("2", "Offer for the kitchen", "It costs 300 EUR."));
    person.run(0, &["add", "mail"]);
    says(&person.run(0, &["show", "Offer"]).out, &["The roof costs 900 EUR"]);
    says(&person.run(0, &["explain", "offer"]).out, &["The roof costs 900 EUR"]);
    let several = person.run(5, &["explain", "ffer"]).err;
    says(&several, &["ffer names several sources", "Offer for the kitchen", "sum_"]);
    person.write("mail/3.eml", &mail("3", "Offer", "The cellar costs 500 EUR without tax."));
    person.run(0, &["add", "mail"]);
    let several = person.run(5, &["show", "Offer"]).err;
    says(&several, &["Offer names several sources", "give the id of one"]);
    assert_eq!(several.matches("sum_").count(), 2, "{several}");
}

/// The text of a plan with a budget, in a state of its file.
fn plan(budget: u32, head: &str) -> String {
    format!("{head}# Garden plan\n\nWe plant tomatoes in April. The budget is {budget} EUR.\n")
}

fn ids(rows: &[Value]) -> Vec<&str> {
    rows.iter().filter_map(|row| row["summary_id"].as_str()).collect()
}

impl Person {
    /// Writes the plan and takes it in.
    fn add_plan(&self, budget: u32, head: &str) {
        self.write("notes/plan.md", &plan(budget, head));
        self.run(0, &["add", "notes"]);
    }

    /// The memo of the newest overview.
    fn digest(&self) -> String {
        self.run(0, &["digest", "build"]);
        self.run(0, &["digest", "show"]).out
    }

    /// Everything that the Summary Bus and the lists of versions hold.
    fn files(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let mut found = Vec::new();
        let mut open = vec![self.path("home/buses/summaries"), self.path("home/buses/versions")];
        while let Some(folder) = open.pop() {
            for entry in std::fs::read_dir(folder).into_iter().flatten() {
                let path = entry.unwrap().path();
                match path.is_dir() {
                    true => open.push(path),
                    false => found.push((path.clone(), std::fs::read(&path).unwrap())),
                }
            }
        }
        found.sort();
        found
    }
}

#[test]
fn an_edited_file_is_shown_by_its_newest_summary_everywhere() {
    let person = Person::new();
    person.add_plan(40, "");
    says(&person.digest(), &["40 EUR"]);
    person.add_plan(90, "");
    for shown in [
        person.run(0, &["read"]).out,
        person.run(0, &["read", "plan.md"]).out,
        person.run(0, &["search", "budget"]).out,
        person.run(0, &["show", "plan.md"]).out,
        person.digest(),
    ] {
        assert!(shown.contains("90 EUR") && !shown.contains("40 EUR"), "{shown}");
    }
    let all = person.run(0, &["read", "--all-versions"]).out;
    says(&all, &["90 EUR", "40 EUR", "older version, replaced on 2026-03-02"]);
    says(&person.run(0, &["search", "budget", "--all-versions"]).out, &["older version"]);
    let rows = person.json(&["read", "--all-versions"]);
    let (old, new): (Vec<&Value>, Vec<&Value>) =
        rows.iter().partition(|row| row["replaced_by"].is_string());
    assert_eq!((old.len(), new.len()), (1, 1));
    let (old, new) = (old[0], new[0]["summary_id"].as_str().unwrap());
    assert_eq!(old["replaced_by"], new);
    let old = old["summary_id"].as_str().unwrap();
    for command in ["show", "explain", "read"] {
        let told = person.run(0, &[command, old]).out;
        says(&told, &["older version, replaced on 2026-03-02"]);
        assert_eq!(told.contains(new), command != "read", "{told}");
    }
    let selected = person.json(&[
        "select",
        "--bus",
        "summary_bus",
        "--from",
        "2026-01-01",
        "--to",
        "2026-12-31",
    ]);
    assert_eq!(selected[0]["items"], 1);
    let manifest = selected[0]["path"].as_str().unwrap();
    let manifest: Value =
        serde_json::from_slice(&std::fs::read(person.path(manifest)).unwrap()).unwrap();
    assert_eq!(manifest["selection"]["items"][0]["id"], new);
    assert_eq!(manifest["drop_reasons"]["replaced"], 1);
    // The same files again change nothing.
    let before = person.files();
    says(&person.run(0, &["add", "notes"]).err, &["1 as before"]);
    assert!(person.files() == before);
}

#[test]
fn lists_of_versions_follow_from_the_log() {
    let person = Person::new();
    for budget in [40, 50, 60] {
        person.add_plan(budget, "");
    }
    let before = person.files();
    assert!(before.iter().any(|(path, _)| path.ends_with("2026-03-02.versions.jsonl")));
    person.run(0, &["replay", "--verify"]);
    person.run(0, &["verify"]);
    std::fs::remove_dir_all(person.path("home/buses/versions")).unwrap();
    std::fs::remove_file(person.path("home/run/version-index.redb")).unwrap();
    person.run(0, &["export", "--repair"]);
    assert!(person.files() == before);
}

#[test]
fn a_source_that_became_private_is_private_in_all_versions() {
    let person = Person::new();
    person.write("home/summarizer.toml", "[exports]\nfeed = true\n");
    person.add_plan(40, "");
    person.write("notes/bike.md", "# Bike\n\nThe chain of the blue bike costs 25 EUR.\n");
    person.run(0, &["add", "notes"]);
    says(&person.digest(), &["40 EUR", "25 EUR"]);
    person.add_plan(90, "---\npublish: false\n---\n");
    let rows = person.json(&["read", "--all-versions"]);
    let private = |row: &&Value| row["private"] == true;
    assert_eq!(rows.iter().filter(private).count(), 2, "{rows:?}");
    let digest = person.digest();
    assert!(!digest.contains("tomatoes") && digest.contains("25 EUR"), "{digest}");
    let selected = person.json(&[
        "select",
        "--bus",
        "summary_bus",
        "--all-versions",
        "--from",
        "2026-01-01",
        "--to",
        "2026-12-31",
    ]);
    assert_eq!(selected[0]["items"], 1);
    // Nothing that is made for others holds its text.
    for folder in ["digests", "feeds"] {
        let mut open = vec![person.path("home/buses").join(folder)];
        let mut looked = 0;
        while let Some(folder) = open.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                match path.is_dir() {
                    true => open.push(path),
                    false => {
                        let text = std::fs::read_to_string(&path).unwrap_or_default();
                        assert!(!text.contains("tomatoes"), "{}", path.display());
                        looked += 1;
                    }
                }
            }
        }
        assert!(looked > 0, "{folder}");
    }
    person.run(0, &["verify"]);
    person.run(0, &["replay", "--verify"]);
    // The newest version decides: the text may be shown again.
    person.add_plan(70, "");
    says(&person.digest(), &["70 EUR"]);
    let shown = person.json(&["read"]);
    assert!(shown.iter().all(|row| row["private"] == false), "{shown:?}");
}

/// The first record of a file of JSON lines.
fn first_record(path: PathBuf) -> Value {
    let text = std::fs::read_to_string(path).unwrap();
    serde_json::from_str(text.lines().next().unwrap()).unwrap()
}

#[test]
fn what_is_made_later_of_an_earlier_text_of_a_private_file_is_private() {
    let person = Person::new();
    person.add_plan(40, "");
    let chunk = first_record(person.path("home/buses/chunks/canonical/notes.jsonl"));
    let made = person.json(&["read"])[0]["summary_id"].as_str().unwrap().to_owned();
    person.add_plan(40, "---\npublish: false\n---\n");
    let brief = ["submit", "--flow", "docs.chunk_set.summarize.brief.v1"];
    let (piece, whole) = (&chunk["chunk_id"], &chunk["document_id"]);
    for (name, bus, kind, id) in [
        ("piece", "chunk_bus", "chunk_set_summary", piece.as_str().unwrap()),
        ("whole", "chunk_bus", "document_summary", whole.as_str().unwrap()),
        ("summary", "other", "document_summary", made.as_str()),
    ] {
        let of = ["--bus", bus, "--kind", kind, "--id", id, "--request-id", name, "--again"];
        person.run(0, &[&brief[..], &of[..]].concat());
    }
    person.run(0, &["drain"]);
    let rows = person.json(&["read", "--all-versions"]);
    assert!(rows.len() >= 5, "{rows:?}");
    assert!(rows.iter().all(|row| row["private"] == true), "{rows:?}");
    person.write("open/bike.md", "# Bike\n\nThe chain of the blue bike costs 25 EUR.\n");
    person.run(0, &["add", "open"]);
    let digest = person.digest();
    assert!(digest.contains("25 EUR") && !digest.contains("tomatoes"), "{digest}");
}

#[test]
fn a_file_that_was_changed_back_is_current_again() {
    let person = Person::new();
    for budget in [40, 90, 40, 90, 40] {
        person.add_plan(budget, "");
        let shown = person.run(0, &["read"]).out;
        assert_eq!(shown.matches("EUR").count(), 1, "{shown}");
        says(&shown, &[&format!("{budget} EUR")]);
        says(&person.run(0, &["add", "notes"]).err, &["1 as before"]);
    }
    assert_eq!(person.json(&["read", "--all-versions"]).len(), 5);
    person.run(0, &["replay", "--verify"]);
}

#[test]
fn a_deleted_file_keeps_its_summaries_and_is_named() {
    let person = Person::new();
    person.add_plan(40, "");
    person.write("notes/bike.md", "# Bike\n\nThe chain of the blue bike costs 25 EUR.\n");
    person.run(0, &["add", "notes"]);
    std::fs::remove_file(person.path("notes/bike.md")).unwrap();
    let added = person.run(0, &["add", "notes"]).err;
    says(&added, &["1 file is gone; its summaries stay", "notes/bike.md"]);
    says(&person.run(0, &["read", "bike.md"]).out, &["25 EUR", "its file is gone"]);
    says(&person.run(0, &["show", "bike.md"]).out, &["its file is gone"]);
    assert!(!person.run(0, &["read", "plan.md"]).out.contains("gone"));
    assert_eq!(person.json(&["add", "notes"]).last().unwrap()["gone"][0], "notes/bike.md");
}

#[test]
fn a_renamed_file_is_another_source() {
    let person = Person::new();
    person.add_plan(40, "");
    std::fs::rename(person.path("notes/plan.md"), person.path("notes/garden.md")).unwrap();
    let added = person.run(0, &["add", "notes"]);
    says(&added.out, &["notes/garden.md"]);
    says(&added.err, &["1 file is gone", "notes/plan.md: the same text is in notes/garden.md"]);
    let shown = person.run(0, &["read"]).out;
    says(&shown, &["notes/plan.md", "its file is gone", "notes/garden.md"]);
}

#[test]
fn the_same_text_in_two_files_and_two_flows_over_one_are_no_versions() {
    let person = Person::new();
    for name in ["notes/a.md", "notes/b.md"] {
        person.write(name, PLAN);
    }
    person.run(0, &["add", "notes"]);
    person.run(0, &["add", "notes/a.md", "--flow", "writing.outline.generate.v1"]);
    let names = |rows: &[Value]| -> Vec<String> {
        rows.iter().map(|row| row["meta"]["source_name"].as_str().unwrap().to_owned()).collect()
    };
    let mut shown = names(&person.json(&["read"]));
    shown.sort();
    assert_eq!(shown, ["notes/a.md", "notes/a.md", "notes/b.md"]);
    // An edit replaces the summary of its flow and its file only.
    person.write("notes/a.md", &PLAN.replace("40", "90"));
    person.run(0, &["add", "notes"]);
    let rows = person.json(&["read"]);
    assert_eq!(rows.len(), 3);
    let brief = rows.iter().find(|row| {
        row["meta"]["source_name"] == "notes/a.md"
            && row["meta"]["flow_id"] != "writing.outline.generate.v1"
    });
    assert!(brief.unwrap()["outputs"]["summary_text"].as_str().unwrap().contains("90 EUR"));
}

#[test]
fn a_record_with_its_own_id_that_became_private_hides_what_was_public() {
    let person = Person::new();
    let feed = |mark: &str| {
        format!(
            r#"{{"version":"https://jsonfeed.org/version/1.1","title":"Town","items":[{{"id":"g1",
            "title":"Bridge","date_published":"2026-02-11T10:00:00Z"{mark},
            "content_text":"The bridge opens on Friday."}}]}}"#
        )
    };
    let mail = |mark: &str| {
        mail("1", "Offer", "The roof costs 900 EUR.").replacen("From:", &format!("{mark}From:"), 1)
    };
    person.write("in/feed.json", &feed(""));
    person.write("in/1.eml", &mail(""));
    person.run(0, &["add", "in"]);
    assert!(person.json(&["read"]).iter().all(|row| row["private"] == false));
    person.write("in/feed.json", &feed(r#","private":true"#));
    person.write("in/1.eml", &mail("Sensitivity: private\n"));
    for _ in 0..2 {
        person.run(0, &["add", "in"]);
        let rows = person.json(&["read", "--all-versions"]);
        assert_eq!(rows.len(), 4, "{rows:?}");
        assert!(rows.iter().all(|row| row["private"] == true), "{rows:?}");
        assert_eq!(person.json(&["read"]).len(), 2);
    }
}

#[test]
fn several_files_together_are_replaced_by_the_same_set_only() {
    let person = Person::new();
    let submit = |ids: &[&str]| {
        let mut args = vec!["submit", "--flow", "brief", "--kind", "document_summary"];
        ids.iter().for_each(|id| args.extend(["--id", id]));
        person.run(0, &args);
        person.run(0, &["drain"]);
    };
    let write = |name: &str, budget: u32| {
        person.write(&format!("home/buses/other/{name}"), &plan(budget, ""));
    };
    write("a.md", 40);
    write("b.md", 50);
    submit(&["a.md", "b.md"]);
    submit(&["a.md"]);
    assert_eq!(person.json(&["read"]).len(), 2);
    write("a.md", 60);
    submit(&["a.md"]);
    assert_eq!(person.json(&["read"]).len(), 2, "the one over both files stays");
    submit(&["a.md", "b.md"]);
    assert_eq!(person.json(&["read"]).len(), 2);
    assert_eq!(person.json(&["read", "--all-versions"]).len(), 4);
    // One of both is private: what was made of it before is private, too.
    person.write("home/buses/other/a.md", &plan(70, "---\npublish: false\n---\n"));
    submit(&["a.md"]);
    let rows = person.json(&["read", "--all-versions"]);
    assert!(rows.iter().all(|row| row["private"] == true), "{rows:?}");
}

/// The caches store up to which event the files are written. When a process is killed, the files may be newer
/// than that, and the file of a new day may be missing.
#[test]
fn files_that_are_newer_than_the_caches_are_no_difference() {
    let person = Person::new();
    person.add_plan(40, "");
    let caches = ["run/version-index.redb", "run/publisher-index.redb"];
    let caches = caches.map(|name| person.path("home").join(name));
    let old = caches.each_ref().map(|path| std::fs::read(path).unwrap());
    person.add_plan(90, "");
    assert!(person.path("home/buses/versions").read_dir().unwrap().next().is_some());
    for (path, bytes) in caches.iter().zip(&old) {
        std::fs::write(path, bytes).unwrap();
    }
    person.run(0, &["replay", "--verify"]);
    // An older state of the file is one before the checkpoint, or another text: that is a difference.
    let list =
        person.path("home/buses/versions").read_dir().unwrap().next().unwrap().unwrap().path();
    let text = std::fs::read_to_string(&list).unwrap();
    std::fs::write(&list, text.replace("sum_", "sum-")).unwrap();
    says(&person.run(1, &["replay", "--verify"]).out, &["differs: versions"]);
    std::fs::write(&list, text).unwrap();

    // The first process was killed before it noted anything, or before it published anything.
    for path in &caches {
        std::fs::remove_file(path).unwrap();
    }
    let made = person.path("home/buses/versions");
    std::fs::remove_dir_all(&made).unwrap();
    std::fs::remove_dir_all(person.path("home/buses/summaries")).unwrap();
    person.run(0, &["replay", "--verify"]);
    // A cache file that was begun but not finished is ignored and removed.
    drop(std::fs::remove_file(&caches[0]));
    std::fs::write(person.path("home/run/version-index.redb.begun"), "half").unwrap();
    person.run(0, &["drain"]);
    person.run(0, &["replay", "--verify"]);
    assert!(made.exists() && !person.path("home/run/version-index.redb.begun").exists());
}

#[test]
fn a_digest_build_that_was_killed_before_its_last_file_is_no_difference() {
    let person = Person::new();
    person.add_plan(40, "");
    let run_id = person.json(&["digest", "build"])[0]["run_id"].as_str().unwrap().to_owned();
    let record = format!("home/buses/artifacts/run_records/{run_id}.run_record.json");
    let record = person.path(&record);
    std::fs::remove_file(&record).unwrap();
    std::fs::remove_dir_all(person.path("home/buses/index")).unwrap();
    let bags = person.path("home/buses/digests/L2/cohort");
    let bag = bags.read_dir().unwrap().next().unwrap().unwrap().path();
    std::fs::remove_dir_all(&bag).unwrap();
    std::fs::create_dir_all(person.path("home/buses/index")).unwrap();
    let told = person.run(0, &["replay", "--verify"]);
    says(&told.err, &["not published whole"]);
    // A build begins with what is missing.
    person.run(0, &["digest", "build"]);
    assert!(record.exists() && bag.exists());
    person.run(0, &["replay", "--verify"]);
    std::fs::remove_dir_all(&bag).unwrap();
    says(&person.run(1, &["replay", "--verify"]).out, &["is missing"]);
}

#[test]
fn a_service_that_is_killed_while_it_publishes_leaves_what_replay_accepts() {
    for round in 0..8_u32 {
        let person = Person::new();
        let config = person.path("home/summarizer.toml");
        let text = std::fs::read_to_string(&config).unwrap_or_default();
        std::fs::write(&config, format!("{text}\n[export]\nmin_interval = \"10 ms\"\n")).unwrap();
        person.write("home/buses/other/plan.md", &plan(round, ""));
        let submit = ["submit", "--silent", "--flow", "brief", "--id", "plan.md"];
        person.run(0, &submit);
        let service = person.service();
        for budget in 0..round {
            person.write("home/buses/other/plan.md", &plan(100 + budget, ""));
            person.run(0, &submit);
        }
        service.kill();
        person.run(0, &["replay", "--verify"]);
        person.run(0, &["drain"]);
        person.run(0, &["replay", "--verify"]);
    }
}
