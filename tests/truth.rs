//! One home with every kind of upstream goes through every command that makes, checks or publishes
//! something, and through an independent checker. What is private stays out of all that leaves.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "helpers of tests fail like tests"
)]

mod bus_support;
#[path = "support/private_files.rs"]
mod private_files;

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use bus_support::{MIDNIGHT, chunk, chunks, event, events_day, session, sessions_day, write};
use private_files::{OPEN_FILES, PRIVATE_FILES, is_of_other, with_text};
use serde_json::{Value, json};

const BRIEF: &str = "docs.chunk_set.summarize.brief.v1";
const WEEKLY: &str = "digest.weekly.summarize.weekly_digest.v1";

struct Home {
    dir: tempfile::TempDir,
    /// The arguments of every command that did what it was asked.
    done: RefCell<Vec<Vec<String>>>,
}

impl Home {
    fn new() -> Home {
        let home = Home { dir: tempfile::tempdir().unwrap(), done: RefCell::default() };
        std::fs::create_dir_all(home.path("run")).unwrap();
        let config = "timezone = \"Europe/Madrid\"\n[exports]\nfeed = true\n";
        std::fs::write(home.path("summarizer.toml"), config).unwrap();
        home
    }

    fn root(&self) -> &Path {
        self.dir.path()
    }

    fn path(&self, relative: &str) -> PathBuf {
        self.root().join(relative)
    }

    fn run(&self, args: &[&str]) -> Output {
        let mut command = program();
        command.env("SUMMARIZER_HOME", self.root()).env("HOME", self.path("person"));
        command.env("SUMMARIZER_TEST_NOW", "2026-02-19T08:00:00Z").args(args);
        command.output().unwrap()
    }

    /// Runs a command in another home, or in none.
    fn elsewhere(&self, command: &mut Command, args: &[&str]) {
        let ran = command.args(args).output().unwrap();
        let said = [ran.stdout, ran.stderr].concat();
        assert!(ran.status.success(), "{args:?}: {}", String::from_utf8_lossy(&said));
        self.note_done(args);
    }

    fn note_done(&self, args: &[&str]) {
        let words = args.iter().filter(|arg| !arg.starts_with('-'));
        self.done.borrow_mut().push(words.map(|arg| (*arg).to_owned()).collect());
    }

    fn ok(&self, args: &[&str]) -> Vec<Value> {
        let output = self.run(args);
        let said = String::from_utf8_lossy(&output.stderr);
        let lines = String::from_utf8_lossy(&output.stdout);
        // Requests may fail on purpose: then `drain` exits with 1.
        let is_drained = args.contains(&"drain") && output.status.code() == Some(1);
        assert!(output.status.success() || is_drained, "{args:?}: {said}{lines}");
        self.note_done(args);
        lines.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    fn ask(&self, id: &str, flow: &str, kind: &str, bus: &str, ids: &[&str]) {
        self.ask_for(id, flow, kind, json!({"mode": "ids", "bus": bus, "ids": ids}));
    }

    fn ask_for(&self, id: &str, flow: &str, kind: &str, input: Value) {
        use std::io::Write as _;
        let line = json!({
            "schema_version": "summary_request.v1", "request_id": id,
            "created_at": "2026-02-19T08:00:00Z", "urgency": "now",
            "requested_by": {"repo": "tests", "component": "truth", "version": "dev"},
            "work": {"output_bus": "summary_bus", "output_kind": "summary_item",
                     "summary_kind": kind, "summary_subkind": "test",
                     "flow_ref": {"kind": "registry", "flow_id": flow}, "params": {}},
            "input": input,
        });
        let mut options = std::fs::OpenOptions::new();
        let queue = options.create(true).append(true).open(self.path("run/queue.jsonl"));
        writeln!(queue.unwrap(), "{line}").unwrap();
    }

    /// The last ack of a request.
    fn ack(&self, id: &str) -> Value {
        let acks = std::fs::read_to_string(self.path("run/ack.jsonl")).unwrap();
        let acks = acks.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        acks.rev().find(|ack| ack["request_id"] == id).unwrap_or_else(|| panic!("{id}: no ack"))
    }

    /// The id of the summary that a request made.
    fn made(&self, id: &str) -> String {
        let ack = self.ack(id);
        let made = ack["summary"]["summary_id"].as_str();
        made.unwrap_or_else(|| panic!("{id} made nothing: {ack}")).to_owned()
    }

    fn item(&self, id: &str) -> Value {
        let made = self.made(id);
        let files = files(&self.path("buses/summaries")).into_iter();
        let lines = files.filter(|path| path.to_string_lossy().ends_with(".summary.jsonl"));
        let mut lines = lines.flat_map(|path| {
            let text = std::fs::read_to_string(path).unwrap();
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect::<Vec<Value>>()
        });
        lines.find(|item| item["summary_id"] == made.as_str()).unwrap()
    }

    fn context(&self, id: &str) -> Value {
        let prompts = self.ok(&["--json", "explain", &self.made(id), "--show-prompts"]);
        assert_eq!(prompts[0]["prompts"]["problem"], Value::Null, "{id}");
        let calls = prompts[0]["prompts"]["calls"].as_array().unwrap();
        calls.last().unwrap()["messages"].as_array().unwrap().last().unwrap()["text"].clone()
    }
}

fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_summarizer"));
    command.env_clear();
    command
}

/// Commands that ask a person or a server in between, and the test that runs them.
const ELSEWHERE: &[(&[&str], &str)] = &[
    // What it takes back would be missed by the commands after it.
    (&["forget"], "tests/forget.rs"),
    (&["flow", "batch", "export"], "tests/batch/files.rs"),
    (&["flow", "batch", "import"], "tests/batch/files.rs"),
    // These need a database.
    (&["cluster", "init"], "tests/postgres/homes.rs"),
    (&["cluster", "join"], "tests/postgres/homes.rs"),
    (&["cluster", "status"], "tests/postgres/homes.rs"),
    (&["cluster", "promote"], "tests/postgres/serving.rs"),
    (&["cluster", "verify"], "tests/postgres/homes.rs"),
    (&["cluster", "trim"], "tests/postgres/homes.rs"),
    (&["cluster", "leave"], "tests/postgres/homes.rs"),
];

/// The names that lead to each command, read from the help as a person reads it.
fn commands_of_the_help(path: &[String]) -> Vec<Vec<String>> {
    let ran = program().args(path).arg("--help").output().unwrap();
    let help = String::from_utf8(ran.stdout).unwrap();
    let before = help.split("\nOptions:").next().unwrap();
    let list = match path {
        [] => Some(before),
        _ => before.split_once("\nCommands:").map(|(_, list)| list),
    };
    let Some(list) = list else { return vec![path.to_vec()] };
    // A line of a list begins with two spaces and a name.
    let lines = list.lines().filter_map(|line| line.strip_prefix("  "));
    let lines = lines.filter(|line| line.starts_with(|c: char| c.is_ascii_lowercase()));
    let names = lines.filter_map(|line| line.split(' ').next()).filter(|name| *name != "help");
    names.flat_map(|name| commands_of_the_help(&[path, &[name.to_owned()]].concat())).collect()
}

/// Every file below a folder.
fn files(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let Ok(entries) = std::fs::read_dir(root) else { return found };
    for entry in entries {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => found.extend(files(&path)),
            false => found.push(path),
        }
    }
    found.sort();
    found
}

const MAIL: &str = "Message-ID: <lease@example.org>\r\nFrom: Ana Ruiz <ana@example.org>\r\n\
    To: Marta Gil <marta@example.org>\r\nCc: bo@example.org\r\nList-Id: <flats.example.org>\r\n\
    Subject: Lease for the flat\r\nDate: Wed, 11 Feb 2026 18:00:00 -0500\r\n\r\n\
    Can you send the signed lease by Friday? The flat costs EUR 1,250 a month.\r\n";

const FEED: &str = "{\"title\": \"News\", \"items\": [{\"id\": \"n1\", \"title\": \"Library\", \
    \"date_published\": \"2026-03-03T10:00:00Z\", \"content_text\": \"The library opens at nine on Monday.\"}]}\n";

const OPPORTUNITIES: &str = "{\"id\": \"op-1\", \"title\": \"Open data grant\", \"org\": \"City of Quito\", \
    \"deadline\": \"2026-03-01\", \"url\": \"https://example.org/op-1\", \
    \"text\": \"Grants for open data projects of non-profits. Up to EUR 20,000.\"}\n\
    {\"title\": \"Call for speakers\", \"Published At\": \"2026-02-10T09:00:00+01:00\", \
    \"text\": \"The library looks for speakers about maps. Send a proposal before April.\"}\n";

const CONTACTS: &str = "id;Name;Last contact;Note\n\
    c1;Ana Ruiz;2026-02-01;She asked for an offer and waits for an answer.\n\
    c2;Bo Li;2026-01-15;\"He likes the new map; call him in spring.\"\n";

fn upstream(root: &Path) {
    let mut second =
        event("evt_s2", MIDNIGHT + 40_065_000, "The disk is full. Delete old snapshots.");
    second["role"] = "assistant".into();
    events_day(
        root,
        "2026-02-11",
        &[
            event("evt_s1", MIDNIGHT + 40_000_000, "The backup fails on the server. Find out why."),
            second,
        ],
    );
    let mut talk = session("ses_1", "2026-02-11", 0, &["evt_s1", "evt_s2"]);
    // Its producer knows neither begin nor end nor zone.
    talk["window"] = json!({"start_ts_ms": 0, "end_ts_ms": 0});
    sessions_day(root, "2026-02-11", false, &[talk]);
    chunks(
        root,
        "manual",
        &[
            chunk("chk_1", "doc_m", 0, "Restart the pump when the red light is on for an hour."),
            chunk("chk_2", "doc_m", 1, "Change the filter each March. It costs EUR 40."),
        ],
    );
    for (name, text) in [
        ("a.txt", "The pump needs a new filter each year. The shop opens at nine."),
        (
            "b.md",
            "---\ntitle: Filter\ndate: 2026-02-10\ntags: [home]\n---\n# Filter\n\nThe filter costs EUR 40 and lasts a year.\n",
        ),
        (
            "c.html",
            "<title>Prices</title><h1>Prices</h1><ul><li>A filter costs EUR 40.<li>A pump costs EUR 400.</ul>",
        ),
        (
            "d.tex",
            "\\section{Pumps}\nA pump \\emph{needs} a filter. % not shown\n\n\\begin{itemize}\\item Change it each year.\\end{itemize}\n",
        ),
        (
            "e.json",
            "{\"title\": \"One\", \"text\": \"A single object is one source, and it is read as it is written.\"}",
        ),
        ("f.jsonl", OPPORTUNITIES),
        ("g.csv", CONTACTS),
        ("h.eml", MAIL),
    ] {
        write(root, &format!("other/{name}"), text);
    }
}

#[test]
fn every_kind_of_upstream_goes_through_every_command() {
    let home = Home::new();
    let buses = home.path("buses");
    upstream(&buses);
    home.ask("event", BRIEF, "event_summary", "event_bus", &["evt_s1"]);
    let session_flow = "gpt.session.summarize.parsed_message.v3";
    home.ask("session", session_flow, "session_summary", "session_bus", &["ses_1"]);
    home.ask("chunks", BRIEF, "chunk_set_summary", "chunk_bus", &["chk_1", "chk_2"]);
    home.ask("document", BRIEF, "document_summary", "chunk_bus", &["doc_m"]);
    let others = ["a.txt", "b.md", "c.html", "d.tex", "e.json", "f.jsonl", "g.csv", "h.eml"];
    for name in others {
        home.ask(name, BRIEF, "document_summary", "other", &[name]);
    }
    let task = "email.triage.extract_task.task_item.v1";
    home.ask("mail", task, "document_summary", "other", &["h.eml"]);
    let rank = "opportunities.digest.rank_and_route.v1";
    home.ask("rank", rank, "document_summary", "other", &["f.jsonl"]);
    let seed = "news.seed.expand.seed_card.v1";
    home.ask("seed", seed, "document_summary", "other", &["f.jsonl#op-1"]);
    home.ask("rows", WEEKLY, "document_summary", "other", &["g.csv", "a.txt"]);
    home.ok(&["--json", "drain"]);

    // A list is one source for each item, with the name it gives itself.
    let rank = home.item("rank");
    let ids = rank["source_ids"].as_array().unwrap();
    assert_eq!((ids.len(), &ids[0]), (2, &json!("other:f.jsonl#op-1")), "{ids:?}");
    assert_eq!(home.item("seed")["source_ids"], json!(["other:f.jsonl#op-1"]));
    let rows = json!(["other:a.txt", "other:g.csv#c1", "other:g.csv#c2"]);
    assert_eq!(home.item("rows")["source_ids"], rows);
    // What upstream knows reaches the prompt.
    let mail = home.context("mail");
    for known in ["Ana Ruiz <ana@example.org>", "2026-02-11T18:00:00-05:00", "Lease for the flat"] {
        assert!(mail.as_str().unwrap().contains(known), "{known}: {mail}");
    }
    let session = home.context("session");
    for known in ["Europe/Madrid", "Start: 12:06", "End: 12:07", "[m2 assistant 12:07]"] {
        assert!(session.as_str().unwrap().contains(known), "{known}: {session}");
    }

    // Our own summaries of all streams are sources.
    let of = ["event", "session", "document", "chunks", "rank"].map(|id| home.made(id));
    let of: Vec<&str> = of.iter().map(String::as_str).collect();
    home.ask("digest", WEEKLY, "document_summary", "other", &of);
    let picked: Vec<Value> = of.iter().map(|id| json!({"id": id})).collect();
    let manifest = selection_of(&picked);
    write(&buses, "selection_manifests/week.json", manifest.to_string());
    let input = json!({"mode": "selection_manifest", "manifest_path": "selection_manifests/week.json",
        "selection_hash": manifest["selection_hash"]});
    home.ask_for("selected", "research.router.plan.perspectives.v1", "document_summary", input);
    home.ask(
        "unknown",
        WEEKLY,
        "document_summary",
        "other",
        &["sum_00000000000000000000000000000000"],
    );
    home.ok(&["--json", "drain"]);
    let mut sources: Vec<String> =
        serde_json::from_value(home.item("digest")["source_ids"].clone()).unwrap();
    let mut expected: Vec<String> = of.iter().map(|id| (*id).to_owned()).collect();
    sources.sort();
    expected.sort();
    assert_eq!(sources, expected, "provenance names summaries");
    let mut selected: Vec<String> =
        serde_json::from_value(home.item("selected")["source_ids"].clone()).unwrap();
    selected.sort();
    assert_eq!(selected, expected, "a selection over the Summary Bus names the same");
    assert_eq!(home.ack("unknown")["reason_code"], "unknown_source_id");
    // The day of a digest grows after it was made, and it still holds.
    home.ask("later", BRIEF, "document_summary", "other", &["b.md", "c.html"]);
    home.ok(&["--json", "drain"]);

    home.ok(&["--json", "verify"]);
    home.ok(&["--json", "replay", "--verify"]);
    let all = ["event", "session", "chunks", "document", "mail", "rank", "seed", "rows", "digest"];
    for id in all.into_iter().chain(others) {
        home.ok(&["--json", "explain", &home.made(id), "--verify"]);
    }
    home.ok(&["--json", "digest", "build"]);
    home.ok(&["--json", "verify"]);
    for id in ["other:f.jsonl#op-1", "other:a.txt", "f.jsonl", "other:g.csv", of[0]] {
        let traced = home.ok(&["--json", "trace", id]);
        assert!(!traced.is_empty(), "{id} leads to no summary");
    }
    // Readers that walk a bus see finished files only.
    let unfinished = files(&buses).into_iter().filter(|path| {
        let inner = path.strip_prefix(&buses).unwrap();
        inner.components().any(|part| part.as_os_str().to_string_lossy().starts_with('.'))
    });
    assert_eq!(unfinished.collect::<Vec<_>>(), Vec::<PathBuf>::new());
    checked(home.root());
    every_other_command(&home, of[0]);
    checked(home.root());
    requests_that_do_not_run_through(&home);
    packs_and_research(&home);
    checked(home.root());
    // The copy of a home that lost its log, and the commands that need a service.
    recovered(&home);
    while_served(&home);
    checked(home.root());

    let known = commands_of_the_help(&[]);
    for name in [&["sum"][..], &["wave", "check"], &["log", "archive"], &["import", "jsonl"]] {
        assert!(known.iter().any(|one| one == name), "the help does not list {name:?}: {known:?}");
    }
    for (name, test) in ELSEWHERE {
        let test = Path::new(env!("CARGO_MANIFEST_DIR")).join(test);
        let text = std::fs::read_to_string(&test).unwrap_or_default();
        let is_run = name.iter().all(|word| text.contains(&format!("\"{word}\"")));
        assert!(is_run, "{} does not run {name:?}", test.display());
    }
    let done = home.done.borrow();
    let is_run = |path: &[String]| {
        let elsewhere = ELSEWHERE.iter().any(|(name, _)| path == *name);
        elsewhere || done.iter().any(|args| args.starts_with(path))
    };
    let left = known.iter().filter(|path| !is_run(path));
    let left: Vec<String> = left.map(|path| path.join(" ")).collect();
    assert_eq!(left, Vec::<String>::new(), "commands of the help that this test does not run");
}

/// The commands that look, choose, copy and keep: each succeeds over every kind of upstream, and
/// afterwards a checker still agrees with what is published.
fn every_other_command(home: &Home, summary: &str) {
    let path = |name: &str| home.path(name).to_string_lossy().into_owned();
    let away = tempfile::tempdir().unwrap();
    let outside = |name: &str| away.path().join(name).to_string_lossy().into_owned();
    let (pack, copy, backup) = (path("pack"), outside("copy"), outside("backup"));
    let (letter, tuned) = (path("buses/other/a.txt"), outside("tuned"));
    let run_log = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures/compaction/worked_example.jsonl");
    let run_log = run_log.to_string_lossy().into_owned();
    let (selection, notes) = (path("buses/selection_manifests/day.json"), path("notes"));
    let letters = path("letters");
    write(&home.path("letters"), "old.md", "# A roof\n\nThe roof was repaired in May by Bo.\n");
    write(&home.path("notes"), "new.md", "# A pump\n\nThe pump was repaired on Monday by Ana.\n");
    write(
        &home.path("grown/notes"),
        "roof.md",
        "# A roof\n\nThe roof was repaired in May by Bo.\n",
    );
    let (chats, mails) = (path("chats.jsonl"), path("own.eml"));
    let turn =
        json!({"timestamp": MIDNIGHT + 1_728_000_000, "role": "user", "content": "Is it open?"});
    write(home.root(), "chats.jsonl", format!("{turn}\n"));
    write(home.root(), "own.eml", MAIL.replace("Wed, 11 Feb", "Mon, 02 Mar"));
    write(home.root(), "feed.json", FEED);
    let (feed, notes_again) = (path("feed.json"), path("grown/notes"));
    let day = "2026-02-19";
    let commands: &[&[&str]] = &[
        &["status"],
        &["requests"],
        &["show", "event"],
        &["read"],
        &["read", summary, "--evidence"],
        &["search", "filter"],
        &["task", "list"],
        &["watch", "add", &notes],
        &["watch", "list"],
        &["watch", "remove", &notes],
        &["quarantine", "list"],
        &["config"],
        &["registry", "list"],
        &["registry", "check"],
        &["select", "--bus", "event_bus", "--day", "2026-02-11", "--name", "events"],
        &["select", "--bus", "summary_bus", "--day", day, "--name", "day"],
        &["pack", "build", "--from-selection", &selection, &pack],
        &["pack", "check", &pack, "--strict"],
        &["digest", "list"],
        &["digest", "show"],
        &["digest", "preview"],
        &["digest", "gc"],
        &["day", "open", day],
        &["sum", &notes],
        &["add", &notes],
        &["submit", "--all-new"],
        &["drain", "--digests"],
        &["explain", summary],
        &["trace", "other:a.txt"],
        &["flow", "run", BRIEF, "--input", &letter],
        &["import", "text", &letters],
        &["import", "text", &notes],
        // The partition that summaries of `notes` were made from grows.
        &["import", "text", &notes_again],
        &["import", "chat-export", &chats],
        &["import", "mail", &mails],
        &["import", "rss-json", &feed],
        &["import", "jsonl", &chats, "--time", "timestamp", "--text", "content"],
        &["compact", &run_log],
        &["perspectives", "draft", "--objective", "Which pump lasts longest?"],
        &["tune", "--runs", "2", "--events", "40", "--log-events", "0", "--out", &tuned],
        &["service", "install", "--user", "--print"],
        &["completions", "bash"],
        &["man"],
        &["schema"],
        &["pause"],
        &["resume"],
        &["retain"],
        &["log", "verify"],
        &["log", "dump"],
        &["export", "--repair"],
        &["export", "--to", &copy],
        &["backup", &backup],
        &["doctor", "--deep"],
        &["replay", "--verify"],
        &["verify"],
    ];
    for args in commands {
        home.ok(&[&["--json"], *args].concat());
    }
    home.elsewhere(program().args(["--home", &backup]), &["verify"]);
    checked(Path::new(&backup));
}

/// Requests that fail, are cancelled, are tried again, or begin as a line that is no request; a queue file
/// that was replaced; a log whose beginning was moved away.
fn requests_that_do_not_run_through(home: &Home) {
    let ask = |id: &str, name: &str| home.ask(id, BRIEF, "document_summary", "other", &[name]);
    ask("absent", "late.txt");
    ask("not-wanted", "never.txt");
    let queue = home.path("run/queue.jsonl");
    let lines = std::fs::read_to_string(&queue).unwrap();
    let waits = lines.lines().last().unwrap().replace(
        "\"urgency\":\"now\"",
        "\"urgency\":\"scheduled\",\"not_before\":\"2030-01-01T00:00:00Z\"",
    );
    let waits = waits.replace("not-wanted", "waits");
    std::fs::write(&queue, format!("{lines}{waits}\n{{\"request_id\": \"broken\"\n")).unwrap();
    home.ok(&["--json", "drain"]);
    assert_eq!(home.ack("absent")["reason_code"], "unknown_source_id");
    assert_eq!(home.ack("waits")["status"], "accepted");

    // The file comes late, and the request that failed for want of it succeeds.
    let late = "The ferry leaves at ten. Bring the keys of the boat.";
    write(&home.path("buses"), "other/late.txt", late);
    home.ok(&["--json", "retry", "absent"]);
    home.ok(&["--json", "cancel", "waits"]);
    let broken = home.ok(&["--json", "quarantine", "list"]);
    let broken = broken.last().unwrap()["seq"].to_string();
    home.ok(&["--json", "quarantine", "show", &broken]);
    let line = lines.lines().find(|line| line.contains("\"absent\"")).unwrap();
    write(
        home.root(),
        "mended.json",
        line.replace("absent", "mended").replace("late.txt", "a.txt"),
    );
    let mended = home.path("mended.json").to_string_lossy().into_owned();
    home.ok(&["--json", "quarantine", "release", &broken, &mended]);
    home.ok(&["--json", "drain"]);
    assert_eq!(home.ack("absent")["status"], "completed");
    assert_eq!(home.item("absent")["source_ids"], json!(["other:late.txt"]));
    assert_eq!(home.ack("waits")["reason_code"], "cancelled");
    // `a.txt` has a summary of this flow already.
    assert_eq!(home.ack("mended")["status"], "duplicate");
    assert_eq!(home.made("mended"), home.made("a.txt"));

    // Another file with the same bytes takes the place of the queue.
    let bytes = std::fs::read(&queue).unwrap();
    std::fs::write(home.path("run/other-queue"), bytes).unwrap();
    std::fs::rename(home.path("run/other-queue"), &queue).unwrap();
    assert!(
        !home.run(&["drain"]).status.success(),
        "a replaced queue is not read as if it were known"
    );
    home.ok(&["--json", "queue", "adopt", "--from", "same-offset"]);
    home.ok(&["--json", "drain"]);
    home.ok(&["--json", "log", "stats"]);
    home.ok(&["--json", "log", "archive", "--before", "40"]);
    home.ok(&["--json", "log", "verify"]);
    home.ok(&["--json", "replay", "--verify"]);

    // A task that a person ends and opens again, and two digests beside each other.
    home.ok(&["--json", "digest", "build"]);
    let tasks = home.ok(&["--json", "task", "list", "--all"]);
    let task = tasks[0]["task_id"].as_str().unwrap_or_else(|| panic!("{tasks:?}")).to_owned();
    // The answer tells the task as it is then.
    let ended = home.ok(&["--json", "task", "done", &task]);
    assert_eq!((&ended[0]["task"]["open"], &ended[0]["changed"]), (&json!(false), &json!(true)));
    let open = home.ok(&["--json", "task", "reopen", &task]);
    assert_eq!(
        (&open[0]["task"]["open"], &open[0]["task"]["closed"]),
        (&json!(true), &Value::Null)
    );
    home.ok(&["--json", "digest", "build"]);
    let bags = home.ok(&["--json", "digest", "list"]);
    let id = |at: usize| bags[0]["bags"][at]["bag_id"].as_str().unwrap().to_owned();
    home.ok(&["--json", "digest", "diff", &id(0), &id(1)]);
    home.ok(&["--json", "verify"]);
}

/// Packs of one's own, and the run of an agent that does research.
fn packs_and_research(home: &Home) {
    let away = tempfile::tempdir().unwrap();
    let path = |name: &str| away.path().join(name).to_string_lossy().into_owned();
    let (own, new) = (path("own"), "my.note.summarize.brief.v1");
    let at = |args: &[&str]| {
        let mut command = program();
        command.current_dir(away.path()).args(["--json", "--home", &own]);
        home.elsewhere(&mut command, args);
    };
    at(&["init", "--with-registry"]);
    at(&["flow", "new", new]);
    at(&["registry", "add", new]);
    at(&["registry", "seal"]);
    at(&["registry", "show", new]);
    at(&["registry", "hash", new]);
    at(&["registry", "check"]);
    let (letters, page) = (path("letters"), path("page.html"));
    write(Path::new(&letters), "a.txt", "The pump needs a new filter each year. It costs EUR 40.");
    let fast = format!("{BRIEF}@fast");
    at(&["flow", "compare", BRIEF, "--packs", &fast, "--inputs", &letters, "--out", &page]);
    // The clock of a test does not move, and the demo waits for it.
    home.elsewhere(program().arg("--json"), &["demo", &path("demo")]);

    let (run, golden) = (home.path("research"), "tests/golden/synthesis/demo");
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join(golden);
    for (from, to) in [
        ("citations.jsonl", "citations/citations.jsonl"),
        ("wave-1/p1.md", "wave-1/p1.md"),
        ("wave-1/p2.md", "wave-1/p2.md"),
    ] {
        write(&run, to, std::fs::read_to_string(golden.join(from)).unwrap());
    }
    write(&run, "manifest.json", research_manifest(&run).to_string());
    write(&run, "gates.json", research_gates().to_string());
    let perspectives = golden.join("perspectives.json").to_string_lossy().into_owned();
    let run = run.to_string_lossy().into_owned();
    home.ok(&["--json", "perspectives", "write", &run, "--from", &perspectives]);
    home.ok(&["--json", "perspectives", "check", &run]);
    home.ok(&["--json", "wave", "check", &run]);
    home.ok(&["--json", "pack", "build", &run]);
    home.ok(&["--json", "pack", "check", &run]);
    home.ok(&["--json", "service", "install", "--user"]);
    home.ok(&["--json", "service", "uninstall", "--user"]);
}

fn research_manifest(root: &Path) -> Value {
    json!({
        "schema_version": "manifest.v1", "run_id": "dr_demo_001",
        "created_at": "2026-02-14T08:00:00Z", "updated_at": "2026-02-14T10:00:00Z",
        "revision": 7, "mode": "standard", "status": "running",
        "query": {"text": "How should logs be compacted?"},
        "stage": {"current": "summaries", "started_at": "2026-02-14T10:00:00Z", "history": []},
        "limits": {"max_wave1_agents": 6, "max_wave2_agents": 6, "max_summary_kb": 5,
            "max_total_summary_kb": 60, "max_review_iterations": 4},
        "agents": {},
        "artifacts": {"root": root, "paths": {"wave1_dir": "wave-1", "wave2_dir": "wave-2",
            "citations_dir": "citations", "summaries_dir": "summaries",
            "synthesis_dir": "synthesis", "logs_dir": "logs", "gates_file": "gates.json",
            "perspectives_file": "perspectives.json",
            "citations_file": "citations/citations.jsonl",
            "summary_pack_file": "summaries/summary-pack.json", "pivot_file": "pivot.json"}},
        "metrics": {}, "failures": []
    })
}

fn research_gates() -> Value {
    let gate = |id: &str| {
        let class = if id == "F" { "soft" } else { "hard" };
        json!({"id": id, "name": format!("Gate {id}"), "class": class, "status": "not_run",
            "checked_at": null, "metrics": {}, "artifacts": [], "warnings": [], "notes": ""})
    };
    let gates = ["A", "B", "C", "D", "E", "F"].map(|id| (id.to_owned(), gate(id)));
    json!({
        "schema_version": "gates.v1", "run_id": "dr_demo_001", "revision": 3,
        "updated_at": "2026-02-14T09:00:00Z", "inputs_digest": "sha256:0",
        "gates": serde_json::Map::from_iter(gates),
    })
}

/// A copy that lost its log gets one from its files, and a program that knows only the contracts finds
/// everything in it, before and after new work.
fn recovered(home: &Home) {
    let away = tempfile::tempdir().unwrap();
    let copy = away.path().join("copy").to_string_lossy().into_owned();
    home.ok(&["--json", "backup", &copy]);
    std::fs::remove_file(Path::new(&copy).join("run/summarizer.redb")).unwrap();
    let at = |args: &[&str]| {
        let mut command = program();
        command
            .env("SUMMARIZER_TEST_NOW", "2026-02-20T08:00:00Z")
            .args(["--json", "--home", &copy]);
        home.elsewhere(&mut command, args);
    };
    at(&["recover"]);
    at(&["verify"]);
    at(&["replay", "--verify"]);
    checked(Path::new(&copy));
    at(&["submit", "--flow", BRIEF, "--id", "c.html", "--again"]);
    at(&["drain"]);
    at(&["digest", "build"]);
    // The lost log knew bags that the new one does not know.
    at(&["digest", "gc", "--orphans", "--yes"]);
    at(&["export", "--repair"]);
    at(&["verify"]);
    checked(Path::new(&copy));
}

/// The commands that ask a running service, and its end in order.
fn while_served(home: &Home) {
    let mut service = program()
        .env("SUMMARIZER_HOME", home.root())
        .env("SUMMARIZER_TEST_NOW", "2026-02-19T08:00:00Z")
        .args(["serve", "--quiet"])
        .spawn()
        .unwrap();
    home.note_done(&["serve"]);
    let ended = std::time::Instant::now() + std::time::Duration::from_secs(120);
    while home.run(&["--json", "status"]).status.code() != Some(0)
        || !home.path("run/summarizer.sock").exists()
    {
        assert!(std::time::Instant::now() < ended, "the service does not answer");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    home.ok(&["--json", "reload"]);
    home.ok(&["--json", "open", "--print"]);
    home.ok(&["--json", "submit", "--flow", BRIEF, "--id", "b.md", "--again", "--wait"]);
    home.ok(&["--json", "status"]);
    let pid = rustix::process::Pid::from_child(&service);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert!(service.wait().unwrap().success());
    home.ok(&["--json", "verify"]);
}

/// A program that knows the contracts and nothing of this one agrees, where there is Python.
fn checked(home: &Path) {
    let tools = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tools");
    let Ok(ran) = Command::new("python3").arg(tools.join("check_bus.py")).arg(home).output() else {
        return;
    };
    let said = [ran.stdout, ran.stderr].concat();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&said));
}

/// A selection manifest over the Summary Bus.
fn selection_of(picked: &[Value]) -> Value {
    let selection = json!({"bus": "summary_bus", "items": picked, "ordering": "as_listed"});
    json!({
        "schema_version": "selection_manifest.v1", "created_at": "2026-02-19T08:00:00Z",
        "created_by": {"repo": "tests", "component": "truth", "version": "dev"},
        "selection_hash": summarizer::contract::json::jcs_hash(&selection).prefixed(),
        "selection": selection, "upstream": [],
        "counts": {"candidates": picked.len(), "selected": picked.len(), "dropped": 0},
    })
}

/// Spellings of a no, as members of a record.
const PRIVATE: &[(&str, &str)] = &[
    ("publish", "false"),
    ("Publish", "\"False\""),
    ("PUBLISH", "\"no\""),
    ("publish", "\"\""),
    ("publish", "0"),
    ("published", "false"),
    ("private", "true"),
    ("isPrivate", "\"yes\""),
    ("draft", "true"),
    ("visibility", "\"private\""),
    ("public", "false"),
    ("publicar", "\"no\""),
    ("Is published?", "\"no\""),
    ("classification", "\"Confidential\""),
    ("Do not share", "true"),
    ("sichtbarkeit", "\"privat\""),
    ("audience", "\"only me\""),
    ("shared_with", "\"nobody\""),
    ("kind", "\"private note\""),
    ("noteHidden", "true"),
];

/// A sentence with a word that stands nowhere else, and which nobody may see.
fn secret(number: usize) -> String {
    format!("The clinic of doctor Zorblat{number} moved the visit to Monday at nine.")
}

#[test]
fn a_private_text_leaves_in_no_file() {
    let home = Home::new();
    let (buses, own) = (home.path("buses"), home.path("own"));
    let mut secrets = 0;
    let mut next = || {
        secrets += 1;
        secret(secrets)
    };
    // By every importer.
    let (mut chat, mut feed, mut lines) = (String::new(), Vec::new(), String::new());
    for (name, value) in PRIVATE {
        let at = MIDNIGHT + 50_000_000;
        let record = |text: String, field: &str| {
            format!(
                "{{\"timestamp\": {at}, \"role\": \"user\", \"title\": \"t\", \"{field}\": \"{text}\", \"{name}\": {value}}}"
            )
        };
        chat.push_str(&format!("{}\n", record(next(), "content")));
        lines.push_str(&format!("{}\n", record(next(), "text")));
        feed.push(format!(
            "{{\"date_published\": \"2026-02-11T10:00:00Z\", \"content_text\": \"{}\", \"{name}\": {value}}}",
            next()
        ));
        let note = format!("---\n{name}: {value}\n---\n{}\n", next());
        write(&own, &format!("notes/{name}-{}.md", note.len()), note);
    }
    write(&own, "chat.jsonl", chat);
    write(&own, "lines.jsonl", lines);
    write(&own, "feed.json", format!("{{\"items\": [{}]}}", feed.join(",")));
    let mail = format!(
        "From: a@x.org\r\nSensitivity: Private\r\nSubject: s\r\nDate: Wed, 11 Feb 2026 10:00:00 +0000\r\n\r\n{}\r\n",
        next()
    );
    write(&own, "m.eml", mail);
    let path = |name: &str| own.join(name).to_string_lossy().into_owned();
    home.ok(&["import", "chat-export", &path("chat.jsonl")]);
    home.ok(&["import", "jsonl", &path("lines.jsonl"), "--time", "timestamp", "--text", "text"]);
    home.ok(&["import", "rss-json", &path("feed.json")]);
    home.ok(&["import", "mail", &path("m.eml")]);
    // By every reader of upstream.
    let mut count = 0;
    let mut other = |name: &str, text: String| {
        count += 1;
        let name = format!("{count}-{name}");
        write(&buses, &format!("other/{name}"), text);
        home.ask(&name, BRIEF, "document_summary", "other", &[&name]);
    };
    let mut events = Vec::new();
    for (at, (name, value)) in PRIVATE.iter().enumerate() {
        let value: Value = serde_json::from_str(value).unwrap();
        let object = |text: String| {
            let mut object = json!({"text": text});
            object[*name] = value.clone();
            object
        };
        other("a.json", object(next()).to_string());
        other("a.jsonl", object(next()).to_string());
        other("list.json", json!([object(next())]).to_string());
        other(
            "a.csv",
            format!(
                "text,{name}\n{},{}\n",
                next(),
                value.as_str().map_or(value.to_string(), str::to_owned)
            ),
        );
        other("a.md", format!("---\n{name}: {value}\n---\n{}\n", next()));
        let mut one = event(&format!("evt_p{at}"), MIDNIGHT - 50_000_000 + at as i64, &next());
        one[*name] = value;
        events.push(one);
    }
    for (name, text) in PRIVATE_FILES {
        if is_of_other(name) {
            other(name, with_text(text, &next()));
        }
        // Importers read them too, and kinds that the bus does not know.
        write(&own, &format!("more/{name}"), with_text(text, &next()));
    }
    home.ok(&["import", "text", &path("notes"), "--partition", "notes"]);
    other("p.eml", format!("From: a@x.org\r\nSensitivity: Personal\r\n\r\n{}\r\n", next()));
    events_day(&buses, "2026-02-10", &events);
    for path in files(&buses.join("eventbus/daily")) {
        for line in std::fs::read_to_string(path).unwrap().lines() {
            let record: Value = serde_json::from_str(line).unwrap();
            let id = record["event_id"].as_str().unwrap();
            home.ask(id, BRIEF, "event_summary", "event_bus", &[id]);
        }
    }
    for line in std::fs::read_to_string(buses.join("chunks/canonical/notes.jsonl")).unwrap().lines()
    {
        let record: Value = serde_json::from_str(line).unwrap();
        let id = record["chunk_id"].as_str().unwrap();
        home.ask(id, BRIEF, "chunk_set_summary", "chunk_bus", &[id]);
    }
    // Later than the events above, because some of these files are events too.
    home.ok(&["add", "--no-wait", &path("more")]);
    // One that everybody may see, so that files are made at all.
    write(
        &buses,
        "other/open.txt",
        "The library opens at nine. Bring the map of Quito back by Friday.",
    );
    home.ask("open", BRIEF, "document_summary", "other", &["open.txt"]);
    home.ok(&["--json", "drain"]);

    let items: Vec<Value> = files(&buses.join("summaries"))
        .into_iter()
        .filter(|path| path.to_string_lossy().ends_with(".summary.jsonl"))
        .flat_map(|path| {
            let text = std::fs::read_to_string(path).unwrap();
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect::<Vec<Value>>()
        })
        .collect();
    assert_eq!(items.len(), secrets + 1, "each text has its summary");
    let shown: Vec<&Value> = items
        .iter()
        .filter(|item| item["meta"]["publish"] != false)
        .map(|item| &item["source_ids"])
        .collect();
    assert_eq!(shown, [&json!(["other:open.txt"])], "all others are private");

    // A digest over private summaries is private too.
    let few: Vec<&str> =
        items.iter().take(3).map(|item| item["summary_id"].as_str().unwrap()).collect();
    home.ask("digest", WEEKLY, "document_summary", "other", &few);
    home.ok(&["--json", "drain"]);
    assert_eq!(home.item("digest")["meta"]["publish"], false);

    home.ok(&["--json", "digest", "build"]);
    home.ok(&["--json", "export", "--repair"]);
    let picked: Vec<Value> = items.iter().map(|item| json!({"id": item["summary_id"]})).collect();
    let manifest = selection_of(&picked);
    write(&own, "selection.json", manifest.to_string());
    let (run, chosen) = (path("run"), path("selection.json"));
    home.run(&["--json", "pack", "build", &run, "--from-selection", &chosen]);

    let leaves = ["digests", "feeds", "index"].map(|name| buses.join(name));
    let mut looked_at = 0;
    let made = [own.join("run"), home.path("run/snapshots")];
    for file in leaves.iter().chain(&made).flat_map(|folder| files(folder)) {
        let text = String::from_utf8_lossy(&std::fs::read(&file).unwrap()).into_owned();
        assert!(!text.contains("Zorblat"), "{}: {text}", file.display());
        looked_at += usize::from(text.contains("map of Quito"));
    }
    assert!(looked_at >= 2, "the open summary stands in {looked_at} files");
}

/// The summaries of a folder with these files: by `add` each with its item, by `sum` each as it is shown.
fn summaries_of(home: &Home, files_of: &[(&str, &str)]) -> (Vec<Value>, Vec<Value>) {
    let own = home.path("own");
    for (number, (name, text)) in files_of.iter().enumerate() {
        write(&own, name, with_text(text, &secret(number)));
    }
    let folder = own.to_string_lossy().into_owned();
    let shown = home.ok(&["--json", "sum", &folder]);
    home.ok(&["add", "--no-wait", &folder]);
    home.ok(&["--json", "drain"]);
    let streams = files(&home.path("buses/summaries")).into_iter();
    let streams = streams.filter(|path| path.to_string_lossy().ends_with(".summary.jsonl"));
    let lines = streams.flat_map(|path| {
        let text = std::fs::read_to_string(path).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect::<Vec<Value>>()
    });
    (lines.collect(), shown)
}

/// Those of some values with a secret, by the file that it stands in.
fn by_file(found: &[Value], files_of: &[(&'static str, &str)]) -> Vec<(&'static str, Vec<Value>)> {
    let with = |number: usize| {
        let word = format!("Zorblat{number} ");
        found.iter().filter(|one| one.to_string().contains(&word)).cloned().collect()
    };
    files_of.iter().enumerate().map(|(number, (name, _))| (*name, with(number))).collect()
}

/// The files that have not exactly one of something, or one of which this does not hold.
fn without(
    found: Vec<(&'static str, Vec<Value>)>,
    holds: impl Fn(&Value) -> bool,
) -> Vec<&'static str> {
    let wrong = found.into_iter().filter(|(_, all)| all.len() != 1 || !holds(&all[0]));
    wrong.map(|(name, _)| name).collect()
}

#[test]
fn every_format_and_spelling_of_a_private_mark_is_seen_and_told() {
    let home = Home::new();
    let (items, shown) = summaries_of(&home, PRIVATE_FILES);
    let is_private = |item: &Value| item["meta"]["publish"] == false;
    assert_eq!(without(by_file(&items, PRIVATE_FILES), is_private), [""; 0]);
    assert_eq!(without(by_file(&shown, PRIVATE_FILES), |one| one["private"] == true), [""; 0]);
    // The member that says it is told.
    for (name, mark) in [
        ("nested.md", "site.page.private: true"),
        ("site.jsonl", "site.status: draft"),
        ("cell.csv", "extra.site.private: true"),
        ("item.json", "_x.private: true"),
    ] {
        let found = by_file(&items, PRIVATE_FILES);
        let (_, items) = found.iter().find(|(known, _)| *known == name).unwrap();
        let reasons = items[0]["selection"]["privacy"]["private"].to_string();
        assert!(reasons.contains(mark), "{name}: {reasons}");
        let told = home.run(&["explain", items[0]["summary_id"].as_str().unwrap()]);
        assert!(String::from_utf8_lossy(&told.stdout).contains(mark), "{name}");
    }
}

#[test]
fn a_text_that_only_speaks_of_privacy_stays_publishable() {
    let home = Home::new();
    let (items, shown) = summaries_of(&home, OPEN_FILES);
    let is_open = |item: &Value| item["meta"]["publish"] != false;
    assert_eq!(without(by_file(&items, OPEN_FILES), is_open), [""; 0]);
    assert_eq!(without(by_file(&shown, OPEN_FILES), |one| one["private"] == false), [""; 0]);
}

/// The text of the newest summary that `read` shows is the text of now, also when an old text comes back.
#[test]
fn a_file_with_an_earlier_text_again_has_a_summary_of_that_text() {
    let home = Home::new();
    let read = || {
        let shown = home.ok(&["--json", "read"]);
        assert_eq!(shown.len(), 1, "one version is shown");
        shown[0]["outputs"]["summary_text"].as_str().unwrap().to_owned()
    };
    let mut made = std::collections::BTreeSet::new();
    let steps = [
        ("The pump needs a filter each year.", true),
        ("The pump is sold. Bo bought it.", true),
        ("The pump needs a filter each year.", true),
        ("The pump needs a filter each year.", false),
        ("The pump is sold. Bo bought it.", true),
    ];
    for (second, (text, is_new)) in steps.into_iter().enumerate() {
        write(&home.path("buses"), "other/pump.txt", text);
        for args in
            [&["submit", "--flow", BRIEF, "--bus", "other", "--id", "pump.txt"][..], &["drain"]]
        {
            let mut command = program();
            command.env("SUMMARIZER_HOME", home.root());
            command.env("SUMMARIZER_TEST_NOW", format!("2026-02-19T08:00:0{second}Z"));
            home.elsewhere(&mut command, args);
        }
        assert_eq!(read(), text);
        let shown = home.ok(&["--json", "read"])[0]["summary_id"].to_string();
        assert_eq!(made.insert(shown), is_new, "{text}");
    }
}

/// A selection may keep private what its sources do not, for a request and for a pack.
#[test]
fn a_mark_of_a_selection_or_of_an_item_of_it_holds_and_is_named() {
    let home = Home::new();
    let buses = home.path("buses");
    let texts = ["The library opens at nine.", "The bridge is closed on Friday."];
    let events: Vec<Value> =
        (0..2).map(|at| event(&format!("evt_{at}"), MIDNIGHT + at, texts[at as usize])).collect();
    events_day(&buses, "2026-02-11", &events);
    let ids = ["evt_0", "evt_1"];
    let of_events = |item: Value, selection: Value, manifest: Value| -> Value {
        let mut first = json!({"id": "evt_0"});
        first.as_object_mut().unwrap().extend(item.as_object().unwrap().clone());
        let mut made = selection_of(&[first, json!({"id": "evt_1"})]);
        made["selection"]["bus"] = "event_bus".into();
        made["selection"].as_object_mut().unwrap().extend(selection.as_object().unwrap().clone());
        let hash = summarizer::contract::json::jcs_hash(&made["selection"]).prefixed();
        made["selection_hash"] = hash.into();
        made.as_object_mut().unwrap().extend(manifest.as_object().unwrap().clone());
        made
    };
    let own =
        json!({"selection_hash": "sha256:00", "bus": "event_bus", "ids": ids, "publish": false});
    let none = || json!({});
    let cases = [
        ("open", of_events(none(), none(), none()), None),
        ("counted", of_events(none(), none(), json!({"drop_reasons": {"private": 0}})), None),
        ("item", of_events(json!({"publish": false}), none(), none()), Some(false)),
        ("inner", of_events(none(), json!({"publish": false}), none()), Some(false)),
        ("whole", of_events(none(), none(), json!({"publish": false})), Some(false)),
        ("rules", of_events(none(), none(), json!({"rules": {"publish": false}})), Some(false)),
        ("other", own, Some(false)),
    ];
    for (name, manifest, _) in &cases {
        write(&buses, &format!("selection_manifests/{name}.json"), manifest.to_string());
        let input = json!({"mode": "selection_manifest", "bus": "event_bus",
            "manifest_path": format!("selection_manifests/{name}.json"),
            "selection_hash": manifest["selection_hash"]});
        home.ask_for(name, BRIEF, "event_summary", input);
    }
    home.ok(&["--json", "drain"]);
    for (name, _, expected) in cases {
        let item = home.item(name);
        assert_eq!(item["meta"]["publish"].as_bool(), expected, "{name}");
        // Requests for the same work have one summary, which names the first selection.
        let why = item["selection"]["privacy"]["private"].to_string();
        assert_eq!(why.contains("selection_manifests/"), expected.is_some(), "{name}: {why}");
    }
    let open = home.item("open")["summary_id"].clone();
    let picked = selection_of(&[json!({"id": open, "publish": "no"})]);
    write(&home.path("own"), "picked.json", picked.to_string());
    let path = |name: &str| home.path("own").join(name).to_string_lossy().into_owned();
    let built = home.run(&[
        "--json",
        "pack",
        "build",
        &path("run"),
        "--from-selection",
        &path("picked.json"),
    ]);
    assert!(String::from_utf8_lossy(&built.stdout).contains("publish: false"));
    for file in files(&home.path("own/run")) {
        let text = String::from_utf8_lossy(&std::fs::read(&file).unwrap()).into_owned();
        assert!(!text.contains("library opens"), "{}: {text}", file.display());
    }
}
