//! Texts that a person takes back: no word of them is left in the home, whatever was made of them, and
//! no command brings one back.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "helpers of a test may panic, and it writes files"
)]

#[path = "support/flow_home.rs"]
mod flow_home;
#[path = "support/running.rs"]
mod running;
#[path = "support/server.rs"]
mod server;

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;

use flow_home::{FLOW, FREE, Home, QUICK, config, good};
use redb::{ReadableDatabase as _, ReadableTable as _};
use serde_json::{Value, json};
use server::{Server, status};
use summarizer::contract::ids::Seq;
use summarizer::contract::time::Timestamp;
use summarizer::facts::digest::DigestFact;
use summarizer::log::{Checkpoint, Commit, Options, Store, codec};
use summarizer::os::real::HostDisk;
use summarizer::sequencer::engine::{CheckpointWhen, Engine, EngineOptions};
use summarizer::state::decide::RetryPolicy;
use summarizer::state::event::Event;
use summarizer::upkeep::forget;

/// Words that only the texts have that are taken back.
const WORDS: &[&str] = &["zucchini", "Theobald", "Quillfeather", "harpsichord", "Brasenose"];

const NOTE: &str = "# Garden notes\n\nThe zucchini was planted on 3 May and Uncle Theobald brings the ladder on Saturday. \
                    Please paint the fence before 1 June.\n";
const MAIL: &str = "From: Quillfeather <q@example.org>\nTo: me@example.org\nSubject: The harpsichord\n\
                    Date: Tue, 10 Feb 2026 09:00:00 +0100\nMessage-ID: <a1@example.org>\n\n\
                    Hello,\n\nthe harpsichord of Quillfeather costs 720 EUR a month. Please send the signed copy before 1 \
                    March.\n\nQuillfeather\n";
const CHAT: &str = "[2026-02-11, 08:15:00] Brasenose: Can you bring the zucchini on Friday?\n\
                    [2026-02-11, 08:16:00] Bob: Yes. We decided that she buys the blue paint.\n";
const KEPT: &str = "# Bicycle\n\nThe bicycle stands in the cellar until Friday. It costs 300 EUR and needs a new \
                    chain before the winter.\n";

/// A home that holds a note, a mail, a chat and a text that stays, with digests, feeds and narratives of them.
struct World {
    home: Home,
    files: tempfile::TempDir,
}

impl World {
    fn new() -> World {
        World::with(&format!("{QUICK}[exports]\nfeed = true\n"))
    }

    fn with(settings: &str) -> World {
        let world = World { home: Home::new(settings), files: tempfile::tempdir().unwrap() };
        for (name, text) in [
            ("notes/garden.md", NOTE),
            ("a.eml", MAIL),
            ("chat.txt", CHAT),
            ("notes/bicycle.md", KEPT),
        ] {
            let path = world.files.path().join("texts").join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        world.add();
        world.home.ok(&["digest", "build"]);
        world.home.ok(&["export", "--repair"]);
        world
    }

    fn add(&self) -> String {
        self.home.ok(&["add", self.files.path().join("texts").to_str().unwrap()])
    }

    /// The files of the home that hold one of the words, and the events, bodies and rows that do.
    fn found(&self) -> Vec<String> {
        found_in(&self.home)
    }

    fn is_sound(&self) {
        for args in
            [&["verify"][..], &["log", "verify"], &["replay", "--verify"], &["doctor", "--deep"]]
        {
            self.home.ok(args);
        }
    }
}

fn has_words(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes).to_lowercase();
    WORDS.iter().any(|word| text.contains(&word.to_lowercase()))
}

/// The log, what is made of it, and the published files agree.
fn all_verify(home: &Home) {
    for args in [&["replay", "--verify"][..], &["log", "verify"], &["verify"]] {
        home.ok(args);
    }
}

/// The files of a home that hold one of the words, and the events, bodies and rows of its log and its caches that
/// do. Files of the log are compressed, so what is in them is looked through unpacked.
fn found_in(home: &Home) -> Vec<String> {
    let mut found: Vec<String> = every_file(home.0.path())
        .into_iter()
        .filter(|(_, bytes)| has_words(bytes))
        .map(|(name, _)| name)
        .collect();
    found.extend(
        unpacked(home).into_iter().filter(|(_, bytes)| has_words(bytes)).map(|(name, _)| name),
    );
    found
}

/// Everything in the log and the caches of a home, unpacked.
fn unpacked(home: &Home) -> Vec<(String, Vec<u8>)> {
    let path = home.path("run/summarizer.redb");
    let disk = Arc::new(HostDisk);
    let store = Store::open(disk, &path, Options::beside(&path), [7; 16], &mut |_| {}).unwrap();
    let log = store.reader();
    let mut all = Vec::new();
    let mut seqs = Vec::new();
    let kept = log.scan(Seq(1), None, &mut |entry| {
        let event = codec::decode(entry.tag, entry.version, entry.payload).unwrap();
        all.push((event.name().to_owned(), entry.payload.to_vec()));
        // Bytes may stand in a payload in another form.
        all.push((event.name().to_owned(), format!("{event:?}").into_bytes()));
        seqs.push((entry.seq, event.name()));
        ControlFlow::Continue(())
    });
    kept.unwrap();
    for (seq, name) in seqs {
        all.extend(log.body(seq).unwrap().map(|body| (name.to_owned(), body)));
    }
    let mut row = |_: Seq, row: &[u8]| {
        all.push(("a row".to_owned(), row.to_vec()));
        ControlFlow::Continue(())
    };
    log.rows(Seq(0), &mut row).unwrap();
    log.open_rows(&mut row).unwrap();
    store.close().unwrap();
    for entry in std::fs::read_dir(home.path("run")).unwrap() {
        let path = entry.unwrap().path();
        let is_cache = path.extension().is_some_and(|end| end == "redb")
            && path.file_name().is_some_and(|name| name != "summarizer.redb");
        if is_cache {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            all.extend(rows_of_cache(&path).into_iter().map(|row| (name.clone(), row)));
        }
    }
    all
}

fn rows_of_cache(path: &Path) -> Vec<Vec<u8>> {
    let table = redb::TableDefinition::<&str, &[u8]>::new("rows.v1");
    let cache = redb::Database::open(path).unwrap();
    let read = cache.begin_read().unwrap();
    let table = read.open_table(table).unwrap();
    let rows = table.iter().unwrap().map(Result::unwrap);
    rows.flat_map(|(key, value)| [key.value().as_bytes().to_vec(), value.value().to_vec()])
        .collect()
}

/// Every file below a folder, hidden ones too.
fn every_file(root: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => folders.push(path),
                false => {
                    let name = path.strip_prefix(root).unwrap().to_string_lossy().into_owned();
                    found.insert(name, std::fs::read(&path).unwrap_or_default());
                }
            }
        }
    }
    found
}

#[test]
fn no_word_of_a_forgotten_text_is_left_in_the_home() {
    let world = World::new();
    let places = world.found();
    for part in [
        "chunks/",
        "summaries/",
        "digests/",
        "feeds/",
        "snapshots/",
        "SummaryProduced",
        "Digest",
        "AgentRun",
    ] {
        assert!(places.iter().any(|place| place.contains(part)), "{part}: {places:?}");
    }
    let told = world.home.ok(&["forget", "texts/notes/garden.md", "The harpsichord", "chat"]);
    assert!(told.contains("forgot 3 summaries"), "{told}");
    assert_eq!(world.found(), Vec::<String>::new());
    world.is_sound();
    let read = world.home.ok(&["read"]);
    assert!(read.contains("bicycle") && !read.contains("garden"), "{read}");
    let counted = every_file(&world.home.path("buses/summaries/manifest"));
    let counted = counted.values().filter_map(|bytes| serde_json::from_slice::<Value>(bytes).ok());
    assert_eq!(counted.filter_map(|one| one["counts"]["forgotten"].as_u64()).sum::<u64>(), 3);
    let registry = std::fs::read(world.home.path("buses/index/digest_registry.json")).unwrap();
    let registry: Value = serde_json::from_slice(&registry).unwrap();
    assert!(registry["forgotten"].as_u64().unwrap() > 0, "{registry}");
    // What was archived before is as unreadable as the rest.
    let verified = world.home.ok(&["verify"]);
    let told =
        verified.lines().filter(|line| line.ends_with("was forgotten on 2026-03-02, by request"));
    assert_eq!(told.count(), 3, "{verified}");
}

/// A text is forgotten although its records lie in the archive.
#[test]
fn no_word_is_left_in_a_log_that_was_archived_before() {
    let world = World::new();
    world.home.ok(&["log", "archive", "--before", "9999", "--compact"]);
    world.home.ok(&["forget", "texts/notes/garden.md", "The harpsichord", "chat"]);
    assert_eq!(world.found(), Vec::<String>::new());
    world.is_sound();
    world.home.ok(&["log", "archive", "--before", "9999", "--compact"]);
    assert_eq!(world.found(), Vec::<String>::new());
    world.is_sound();
}

/// The program does not change a file of somebody else, which is the queue.
const QUEUE: &[&str] = &["run/queue.jsonl"];

/// A text may come in the parameters of a request. Its line goes with the source that it names.
#[test]
fn the_words_in_the_parameters_of_a_request_are_forgotten_with_its_source() {
    let home = Home::new(QUICK);
    home.ok(&["drain"]);
    let said = json!({"tone": "as Theobald wrote of the zucchini"});
    home.ask_with("note-1", FREE, "The bicycle stands in the cellar until Friday.", said.clone());
    home.ok(&["drain"]);
    // The same request again has the same words.
    home.ask_with("note-1", FREE, "The bicycle stands in the cellar until Friday.", said);
    home.ask("note-2", FREE, "The kite flies on Sunday and needs a new tail.");
    home.ok(&["drain"]);
    assert!(found_in(&home).iter().any(|place| place == "RequestAccepted"));
    assert!(home.ok(&["show", "note-1"]).contains("note-1"));
    let told: Value = serde_json::from_str(&home.ok(&["--json", "forget", "note-1.txt"])).unwrap();
    assert_eq!(told["queue_lines"], json!([1, 2]), "{told}");
    assert_eq!(found_in(&home), QUEUE);
    home.ok(&["show", "note-1"]);
    home.ok(&["requests"]);
    for args in
        [&["replay", "--verify"][..], &["log", "verify"], &["verify"], &["doctor", "--deep"]]
    {
        home.ok(args);
    }
    // A lost log is made again from the queue, which still has the words.
    std::fs::remove_file(home.path("run/summarizer.redb")).unwrap();
    home.ok(&["recover"]);
    home.ok(&["drain"]);
    assert_eq!(found_in(&home), QUEUE);
}

/// A request that waits has no source in the log yet. Its own id names it, and then it ends.
#[test]
fn a_request_that_waits_is_forgotten_by_its_id_and_ends() {
    let server = Server::start(vec![status(500, &[], "{}")]);
    let slow = "[retry]\nbase_delay = \"1 h\"\nmax_attempts = 5\n";
    let home = Home::new(&config(&server, "", slow));
    home.ask_with(
        "wait-1",
        FLOW,
        "The bicycle stands in the cellar.",
        json!({"tone": "as Theobald says"}),
    );
    home.ok(&["drain"]);
    assert!(!found_in(&home).is_empty());
    home.ok(&["forget", "wait-1"]);
    assert_eq!(found_in(&home), QUEUE);
    home.run(&["retry", "wait-1"]);
    home.ok(&["drain"]);
    let ack = home.last_ack("wait-1");
    assert_eq!(ack["message"], "its parameters were forgotten by request", "{ack}");
    home.ok(&["replay", "--verify"]);
}

/// A request for a later day ends when it is forgotten, and not on that day; and so does the one that waits behind it.
#[test]
fn a_scheduled_request_that_is_forgotten_ends_at_once() {
    let home = Home::new(QUICK);
    home.ask_with("later-1", FREE, "The bicycle.", json!({"tone": "as Theobald says"}));
    let queue = home.path("run/queue.jsonl");
    let line: Value = serde_json::from_str(&std::fs::read_to_string(&queue).unwrap()).unwrap();
    let scheduled = |id: &str| {
        let mut line = line.clone();
        line["request_id"] = id.into();
        line["urgency"] = "scheduled".into();
        line["not_before"] = "2031-01-01T08:00:00Z".into();
        format!("{line}\n")
    };
    std::fs::write(&queue, ["later-1", "later-2"].map(scheduled).concat()).unwrap();
    home.ok(&["drain"]);
    let has_ended = |id: &str| home.last_ack(id)["status"] == "failed_permanent";
    assert!(!has_ended("later-1"), "{}", home.last_ack("later-1"));
    // Both have one key, so both go.
    home.ok(&["forget", "later-1"]);
    for id in ["later-1", "later-2"] {
        let ack = home.last_ack(id);
        assert!(has_ended(id), "{ack}");
    }
    let message = home.last_ack("later-1")["message"].clone();
    assert_eq!(message, "its parameters were forgotten by request");
    assert_eq!(found_in(&home), QUEUE);
    home.ok(&["drain"]);
    all_verify(&home);
    home.ok(&["doctor", "--deep"]);
}

/// The log is lost as a whole, and the quarantine with it. The queue still has the lines.
#[test]
fn a_line_that_was_forgotten_stays_so_when_the_whole_log_is_lost() {
    let home = Home::new(QUICK);
    home.ask_with("gone-1", FREE, "The bicycle.", json!({"tone": "as Theobald says"}));
    home.ask_with("kept-1", FREE, "The kite.", json!({"tone": "as a friend says it"}));
    for name in ["gone-1", "kept-1"] {
        std::fs::remove_file(home.path(&format!("buses/other/{name}.txt"))).unwrap();
    }
    home.ask("note-1", FREE, "The harpsichord of Brasenose stands in the hall until Friday.");
    let queue = home.path("run/queue.jsonl");
    let mut lines = std::fs::read_to_string(&queue).unwrap();
    lines.push_str("{\"text\": \"Quillfeather said yes\"}\n{\"text\": \"a kite\"}\n");
    std::fs::write(&queue, lines).unwrap();
    home.ok(&["drain"]);
    let rows = || {
        let text = std::fs::read_to_string(home.path("run/quarantine.jsonl")).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect::<Vec<Value>>()
    };
    let bad = format!("quarantine:{}", rows()[0]["seq"]);
    std::fs::remove_file(home.path("buses/other/note-1.txt")).unwrap();
    home.ok(&["forget", "gone-1", &bad, "note-1.txt"]);
    assert_eq!(found_in(&home), QUEUE);
    // Each name is answered by the day, also a second time.
    let day = "was forgotten on 2026-03-02, by request";
    for name in ["gone-1", &bad, "note-1.txt"] {
        let again = home.run(&["forget", name]);
        let told = String::from_utf8_lossy(&again.stderr).into_owned();
        assert!(!again.status.success() && told.contains(day), "{name}: {told}");
    }
    for (name, _) in every_file(&home.path("run")) {
        if name.ends_with(".keys") || name == "summarizer.redb" || name == "quarantine.jsonl" {
            std::fs::remove_file(home.path("run").join(name)).unwrap();
        }
    }
    home.ok_at("2026-04-01T10:00:00Z", &["recover"]);
    home.ok_at("2026-04-01T11:00:00Z", &["drain"]);
    assert_eq!(found_in(&home), QUEUE);
    let bad = format!("quarantine:{}", rows()[0]["seq"]);
    assert!(rows()[1].to_string().contains("a kite"));
    for args in
        [["forget", "gone-1"], ["forget", &bad], ["forget", "note-1.txt"], ["read", "note-1.txt"]]
    {
        let again = home.run(&args);
        let told = String::from_utf8_lossy(&again.stderr).into_owned();
        assert!(!again.status.success() && told.contains(day), "{args:?}: {told}");
    }
    assert!(home.ok(&["verify"]).contains(day));
    // What was not forgotten can be tried again.
    assert!(!home.run(&["retry", "gone-1"]).status.success());
    home.ok(&["retry", "kept-1"]);
    all_verify(&home);
}

/// The log is lost before the file of what was forgotten is written: the mark of the forgetting names the line.
#[test]
fn a_line_of_an_unfinished_forget_stays_gone_when_the_whole_log_is_lost() {
    let home = Home::new(QUICK);
    home.ask_with("gone-1", FREE, "The bicycle.", json!({"tone": "as Theobald says"}));
    std::fs::remove_file(home.path("buses/other/gone-1.txt")).unwrap();
    home.ok(&["drain"]);
    let obstacle = home.path("run/pasted.json");
    std::fs::create_dir(&obstacle).unwrap();
    assert!(!home.run(&["forget", "gone-1"]).status.success());
    assert!(!home.path("run/forgotten.jsonl").exists());
    std::fs::remove_dir(&obstacle).unwrap();
    std::fs::remove_file(home.path("run/summarizer.redb")).unwrap();
    home.ok(&["recover"]);
    assert_eq!(found_in(&home), QUEUE);
    assert!(home.path("run/forgotten.jsonl").exists());
    assert!(!home.path("run/forgetting.json").exists());
}

/// Forgetting is no ban: who asks again with the same line has it in the log, also after the log is lost.
#[test]
fn a_line_that_is_asked_again_after_a_forget_is_not_lost_with_the_log() {
    let home = Home::new(QUICK);
    home.ask_with("again-1", FREE, "The bicycle.", json!({"tone": "as Theobald says"}));
    std::fs::remove_file(home.path("buses/other/again-1.txt")).unwrap();
    home.ok(&["drain"]);
    home.ok(&["forget", "again-1"]);
    let queue = home.path("run/queue.jsonl");
    let line = std::fs::read_to_string(&queue).unwrap();
    std::fs::write(&queue, format!("{line}{line}")).unwrap();
    home.ok(&["drain"]);
    let kept = || unpacked(&home).into_iter().filter(|(_, bytes)| has_words(bytes)).count();
    assert_eq!(kept(), 1);
    std::fs::remove_file(home.path("run/summarizer.redb")).unwrap();
    home.ok(&["recover"]);
    assert_eq!(kept(), 1, "the line of before is gone, and the new one is there");
}

/// A run log is the file of another program. Its events in the log and its snapshots go with the id of the run.
#[test]
fn a_run_of_another_program_is_forgotten_by_its_id() {
    const LOG: &str = include_str!("fixtures/compaction/worked_example.jsonl");
    let home = Home::new(QUICK);
    let folder = home.path("run/run_logs");
    std::fs::create_dir_all(&folder).unwrap();
    let log = home.path("run.jsonl");
    std::fs::write(&log, LOG).unwrap();
    let log = log.to_str().unwrap();
    home.ok(&["compact", log, "--event-threshold", "6"]);
    assert!(home.path("run/snapshots/run_demo_01/1.snapshot.json").exists());
    let is_run = |body: &[u8]| String::from_utf8_lossy(body).contains("run_demo_01");
    let bodies = || {
        let bodies = home.events().into_iter().filter_map(|(_, body)| body);
        bodies.filter(|body| is_run(body)).count()
    };
    assert!(bodies() > 1);
    let told: Value = serde_json::from_str(&home.ok(&["--json", "forget", "run_demo_01"])).unwrap();
    assert_eq!(told["runs"], json!(["run_demo_01"]), "{told}");
    assert_eq!(bodies(), 0);
    assert!(!home.path("run/snapshots/run_demo_01/1.snapshot.json").exists());
    for args in [
        &["compact", log][..],
        &["compact", "--run", "run_demo_01", "--verify"],
        &["forget", "run_demo_01"],
    ] {
        let again = home.run(args);
        let told =
            String::from_utf8_lossy(&[&again.stdout[..], &again.stderr].concat()).into_owned();
        assert!(
            !again.status.success() && told.contains("was forgotten on 2026-03-02"),
            "{args:?}: {told}"
        );
    }
    assert_eq!(bodies(), 0);
    home.ok(&["drain"]);
    all_verify(&home);
    home.ok(&["doctor", "--deep"]);
}

/// Its line is gone, so there is nothing to try again. The home stays whole.
#[test]
fn a_failed_request_that_was_forgotten_is_not_tried_again() {
    let home = Home::new(QUICK);
    home.ask_with("gone-1", FREE, "The bicycle.", json!({"tone": "as Theobald says"}));
    std::fs::remove_file(home.path("buses/other/gone-1.txt")).unwrap();
    home.ok(&["drain"]);
    home.ok(&["forget", "gone-1"]);
    let refused = home.run(&["retry", "gone-1"]);
    let told = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && told.contains("was forgotten; ask for it anew"), "{told}");
    for args in [&["drain"][..], &["log", "dump"], &["log", "verify"], &["replay", "--verify"]] {
        home.ok(args);
    }
    assert_eq!(found_in(&home), QUEUE);
}

/// No import has a record of a text on the bus `other`.
#[test]
fn an_author_of_a_text_on_the_bus_other_is_forgotten() {
    let home = Home::new(QUICK);
    let by = |author: &str, text: &str| format!("---\nauthor: {author}\n---\n\n{text}\n");
    home.ask("one", FREE, &by("Frieda Halm", "The zucchini grows. Theobald waters it."));
    home.ask("two", FREE, &by("Ines", "The kite flies on Sunday and needs a new tail."));
    home.ok(&["drain"]);
    std::fs::remove_file(home.path("buses/other/one.txt")).unwrap();
    home.ok(&["forget", "--author", "frieda halm"]);
    assert_eq!(found_in(&home), Vec::<String>::new());
    assert!(home.ok(&["read"]).contains("kite"));
}

/// A line in the quarantine goes when it names a source that goes, has the id of its request, or is named itself. All other
/// lines keep their places in the file.
#[test]
fn lines_in_the_quarantine_are_forgotten_and_keep_their_places() {
    let home = Home::new(QUICK);
    home.ask("note-1", FREE, "The bicycle stands in the cellar until Friday.");
    let queue = home.path("run/queue.jsonl");
    let mut lines = std::fs::read_to_string(&queue).unwrap();
    lines.push_str(
        "{\"request_id\": \"note-1\", \"text\": \"The zucchini\\n\u{2028}of Theobald\"}\n",
    );
    lines.push_str("{\"ids\": [\"note-1.txt\"], \"text\": \"the harpsichord\"\n");
    lines.push_str("{\"text\": \"Quillfeather said 'yes'\"}\n");
    lines.push_str("{\"text\": \"a kite\"}\n");
    std::fs::write(&queue, lines).unwrap();
    home.ok(&["drain"]);
    let shown = || std::fs::read_to_string(home.path("run/quarantine.jsonl")).unwrap();
    let before = shown();
    assert!(before.contains("Theobald") && before.contains("harpsichord"), "{before}");
    home.ok(&["forget", "note-1.txt"]);
    let after = shown();
    assert!(!after.contains("Theobald") && !after.contains("harpsichord"), "{after}");
    assert!(after.contains("Quillfeather") && after.contains("a kite"), "{after}");
    let lengths = |text: &str| text.lines().map(str::len).collect::<Vec<_>>();
    assert_eq!(lengths(&before), lengths(&after));
    let rows: Vec<Value> = after.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    home.ok(&["forget", &format!("quarantine:{}", rows[2]["seq"])]);
    assert_eq!(found_in(&home), QUEUE);
    assert!(shown().contains("a kite"));
    let told = home.ok(&["quarantine", "show", &rows[0]["seq"].to_string()]);
    assert!(told.contains("was forgotten on 20") && told.contains(", by request"), "{told}");
    home.ok(&["quarantine", "list"]);
    std::fs::remove_file(home.path("run/quarantine.jsonl")).unwrap();
    home.ok(&["drain"]);
    assert!(!has_words(shown().as_bytes()) && shown().contains("a kite"));
    std::fs::remove_file(home.path("run/summarizer.redb")).unwrap();
    home.ok(&["recover"]);
    home.ok(&["drain"]);
    assert_eq!(found_in(&home), QUEUE);
    assert!(shown().contains("a kite"));
    all_verify(&home);
}

/// A message of a failure is kept for ever, so it quotes no word of the text, whoever wrote it.
#[test]
fn what_a_server_or_a_program_says_of_a_text_is_not_kept() {
    let refusal =
        r#"{"error": {"message": "cannot work on: \"The zucchini of Theobald\" (code 77)"}}"#;
    let server = Server::start(vec![status(400, &[], refusal)]);
    let home = Home::new(&config(&server, "", QUICK));
    home.ask("note-1", FLOW, "The zucchini of Theobald was planted.");
    home.ok(&["drain"]);
    let ack = home.last_ack("note-1");
    let message = ack["message"].as_str().unwrap();
    assert!(message.contains("cannot work on") && message.contains("(code 77)"), "{ack}");
    // The text itself is a file of another program.
    assert_eq!(found_in(&home), ["buses/other/note-1.txt"]);
}

/// What this program advises is no quote of a text, whatever words the text has.
#[test]
fn advice_on_a_failure_stays_whole_when_the_text_has_its_words() {
    let text = "Check the provider and its model, and which base address was asked; the zucchini asked too.";
    let refusal = r#"{"error": {"message": "no zucchini of this model"}}"#;
    let server = Server::start(vec![status(404, &[], refusal)]);
    let home = Home::new(&config(&server, "", QUICK));
    home.ask("note-1", FLOW, text);
    home.ok(&["drain"]);
    let message = home.last_ack("note-1")["message"].to_string();
    for advice in ["check provider.", ".model (now", ".base_url (asked was"] {
        assert!(message.contains(advice), "{advice}: {message}");
    }
    assert!(message.contains("status 404: no … of this …;"), "{message}");
}

/// A template that takes a text for the name of something lets its engine quote the text.
#[test]
fn what_a_template_or_a_parameter_quotes_of_a_text_is_not_kept() {
    let include = "{% include brief %}".to_owned();
    let home = Home::with_packs(QUICK, &[("bad.include.v1", "outline.jinja2", include)]);
    home.ask("note-1", "bad.include.v1", "Zucchini of Theobald");
    let params = json!({"temperature": "Zucchini of Theobald"});
    home.ask_with("note-2", FREE, "A note. It ends here.", params);
    home.ok(&["drain"]);
    for id in ["note-1", "note-2"] {
        let ack = home.last_ack(id);
        let message = ack["message"].as_str().unwrap_or_else(|| panic!("{ack}"));
        assert!(
            WORDS.iter().all(|word| !message.to_lowercase().contains(&word.to_lowercase())),
            "{message}"
        );
        assert!(message.contains('…'), "{message}");
    }
}

/// A running service forgets as a command does that holds the home, and serves on.
#[test]
fn a_running_service_forgets_and_serves_on() {
    let (alone, served) = (World::new(), World::new());
    let service = served.home.serve();
    flow_home::wait_until("the service has its socket", || {
        served.home.path("run/summarizer.sock").exists()
    });
    let forget = ["--json", "forget", "texts/notes/garden.md", "The harpsichord", "chat"];
    let told = |world: &World, args: &[&str]| {
        let told: Value = serde_json::from_str(&world.home.ok(args)).unwrap();
        let count = |name: &str| told[name].as_array().unwrap().len();
        let counts = ["summaries", "sources", "bags", "left_in"].map(count);
        (counts, told["answers"].clone(), told["records"].clone(), told["dry_run"].clone())
    };
    let dry = [&forget[..], &["--dry-run"]].concat();
    assert_eq!(told(&served, &dry), told(&alone, &dry));
    assert_eq!(told(&served, &forget), told(&alone, &forget));
    let again = served.home.run(&forget);
    assert_eq!(again.status.code(), alone.home.run(&forget).status.code());
    let why = String::from_utf8_lossy(&again.stderr).into_owned();
    assert!(why.contains("garden"), "{why}");
    served.home.ask("later", FREE, "The bicycle has a new chain.");
    flow_home::wait_until("a request is done after the forgetting", || {
        !served.home.acks("later").is_empty()
    });
    assert_eq!(service.terminate(), Some(0));
    assert_eq!(served.found(), Vec::<String>::new());
    served.is_sound();
}

#[test]
fn no_command_brings_a_forgotten_text_back() {
    let world = World::new();
    world.home.ok(&["forget", "texts/notes/garden.md"]);
    world.home.ok(&["forget", "--author", "q@example.org", "--author", "brasenose"]);
    let gone = |after: &str| assert_eq!(world.found(), Vec::<String>::new(), "{after}");
    gone("forget");
    let again = world.home.run(&["add", world.files.path().join("texts").to_str().unwrap()]);
    let told = String::from_utf8_lossy(&again.stderr).into_owned();
    assert!(again.status.success() && told.contains("forgotten by request and"), "{told}");
    gone("add");
    world.home.ok(&["drain"]);
    world.home.ok(&["digest", "build", "--all"]);
    gone("digest build");
    for name in ["summaries", "digests", "index", "versions", "feeds", "artifacts"] {
        let _ = std::fs::remove_dir_all(world.home.path("buses").join(name));
    }
    let _ = std::fs::remove_dir_all(world.home.path("run/snapshots"));
    world.home.ok(&["export", "--repair"]);
    gone("export --repair");
    let kept = tempfile::tempdir().unwrap();
    let backup = kept.path().join("copy");
    world.home.ok(&["backup", backup.to_str().unwrap()]);
    let words = every_file(&backup);
    let words = words.values().map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    assert!(!words.collect::<String>().contains("zucchini"));
    world.is_sound();
    std::fs::remove_file(world.home.path("run/summarizer.redb")).unwrap();
    world.home.ok(&["recover"]);
    gone("recover");
    world.home.ok(&["drain"]);
    gone("drain after recover");
}

#[test]
fn a_summary_of_a_forgotten_summary_goes_too_and_the_answers_of_models() {
    let server = Server::start(vec![good()]);
    let home = Home::new(&config(&server, "", QUICK));
    home.ask("note-1", FLOW, "The zucchini was planted.");
    home.ask("note-2", FLOW, "The bicycle stands in the cellar.");
    home.ok(&["drain"]);
    let summary = home.last_ack("note-1")["summary"]["summary_id"].clone();
    let line = json!({
        "schema_version": "summary_request.v1", "request_id": "week",
        "created_at": "2026-02-19T08:00:00Z", "urgency": "now",
        "requested_by": {"repo": "tests", "component": "forget", "version": "dev"},
        "work": {"output_bus": "summary_bus", "output_kind": "summary_item",
                 "summary_kind": "document_summary", "summary_subkind": "test",
                 "flow_ref": {"kind": "registry", "flow_id": FLOW}, "params": {}},
        "input": {"mode": "ids", "bus": "other", "ids": [summary]},
    });
    let queue = home.path("run/queue.jsonl");
    let before = std::fs::read_to_string(&queue).unwrap();
    std::fs::write(&queue, format!("{before}{line}\n")).unwrap();
    home.ok(&["drain"]);
    let told = home.ok(&["--json", "forget", "note-1.txt"]);
    let told: Value = serde_json::from_str(&told).unwrap();
    assert_eq!(told["summaries"].as_array().unwrap().len(), 2, "{told}");
    assert_eq!(told["answers"], 2, "{told}");
    // The text itself is not ours.
    assert_eq!(told["left_in"].as_array().unwrap().len(), 1, "{told}");
    let left = home.events().into_iter().filter(|(event, body)| {
        matches!(event, Event::ModelResponded { .. } | Event::SummaryProduced { .. })
            && body.is_some()
    });
    assert_eq!(left.count(), 2);
    let explained = home.run(&["explain", "note-1"]);
    let explained = String::from_utf8_lossy(&explained.stderr).into_owned();
    assert!(
        explained.contains("was forgotten on 20") && explained.contains("by request"),
        "{explained}"
    );
    assert!(home.ok(&["show", "note-1"]).contains("forgotten on 20"));
    // The answer of the model holds a word that no other place has.
    let word = "plantillas".as_bytes();
    let answers = unpacked(&home)
        .into_iter()
        .filter(|(_, bytes)| bytes.windows(word.len()).any(|part| part == word));
    let places: Vec<String> = answers.map(|(name, _)| name).collect();
    assert_eq!(places, ["ModelResponded", "SummaryProduced"], "those of the other note");
    home.ok(&["replay", "--verify"]);
    home.ok(&["verify"]);
}

#[test]
fn a_crash_in_the_middle_is_finished_by_the_next_command() {
    let world = World::new();
    let path = world.home.path("run/summarizer.redb");
    let is_garden = |item: &&Value| item.to_string().contains("zucchini was planted");
    let item = world.home.items().iter().find(is_garden).cloned().unwrap();
    let sources = item["source_ids"].as_array().unwrap().iter();
    let sources = sources.map(|id| id.as_str().unwrap().to_owned()).collect();
    let wanted = forget::Wanted { sources, ..forget::Wanted::default() };
    let store =
        Store::open(Arc::new(HostDisk), &path, Options::beside(&path), [7; 16], &mut |_| {})
            .unwrap();
    let options = EngineOptions { retry: RetryPolicy::default(), checkpoint_every: 1000 };
    let now = Timestamp(1_790_000_000_000);
    let mut engine = Engine::open(store, options, now, &mut |_| {}).unwrap();
    let found = forget::look(engine.log(), &wanted, &mut |_| {}).unwrap();
    assert_eq!(found.summaries.len(), 1);
    forget::forget(&mut engine, &wanted, &found, now).unwrap();
    engine.close().unwrap();
    let has = |places: &[String], part: &str| places.iter().any(|place| place.contains(part));
    let places = world.found();
    assert!(has(&places, "summaries/") && has(&places, "digests/"), "{places:?}");
    world.home.ok(&["drain"]);
    world.is_sound();
    assert!(
        !every_file(&world.home.path("buses/chunks"))
            .values()
            .any(|bytes| { String::from_utf8_lossy(bytes).contains("planted") })
    );
    let note = world.home.run(&["search", "zucchini"]);
    assert!(!String::from_utf8_lossy(&note.stdout).contains("planted"));
    let digests = every_file(&world.home.path("buses/digests"));
    assert!(digests.values().all(|bytes| !String::from_utf8_lossy(bytes).contains("planted")));
}

/// Whatever a person asks about a forgotten text, the answer is the day and nothing more.
#[test]
fn every_command_says_of_a_forgotten_name_that_it_was_forgotten() {
    let world = World::new();
    let is_garden = |item: &&Value| item.to_string().contains("zucchini was planted");
    let garden = world.home.items().iter().find(is_garden).cloned().unwrap();
    let id = garden["summary_id"].as_str().unwrap();
    world.home.ok(&["forget", "texts/notes/garden.md", "texts/a.eml"]);
    for args in [
        &["read", "texts/notes/garden.md"][..],
        &["read", "garden.md"],
        &["read", id],
        &["read", &id[..12]],
        &["read", "texts/a.eml"],
        &["search", "garden.md"],
        &["show", "texts/notes/garden.md"],
        &["explain", "garden.md"],
        &["explain", "texts/a.eml"],
        &["forget", "texts/notes/garden.md"],
        &["forget", id],
        &["forget", "a.eml"],
    ] {
        let output = world.home.run(args);
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success(), "{args:?}");
        assert!(told.contains("was forgotten on 2026-03-02, by request"), "{args:?}: {told}");
    }
    let other = world.home.run(&["read", "nobody.txt"]);
    assert!(String::from_utf8_lossy(&other.stderr).contains("no summary is named nobody.txt"));
}

/// What the log said before a forgetting can still be exported, without what went.
#[test]
fn an_export_of_an_earlier_state_leaves_out_what_was_forgotten_later_and_counts_it() {
    let world = World::new();
    let until = world.home.events().len().to_string();
    world.home.ok(&["forget", "texts/notes/garden.md", "The harpsichord", "chat"]);
    let kept = tempfile::tempdir().unwrap();
    for (name, more) in [("all", &[][..]), ("some", &["--stream", "documents"][..])] {
        let to = kept.path().join(name);
        let args = [&["export", "--to", to.to_str().unwrap(), "--until", &until], more].concat();
        world.home.ok(&args);
        let files = every_file(&to);
        let text = |bytes: &Vec<u8>| String::from_utf8_lossy(bytes).to_lowercase();
        assert!(files.values().any(|bytes| text(bytes).contains("bicycle")), "{name}");
        let words =
            |bytes: &Vec<u8>| WORDS.iter().any(|word| text(bytes).contains(&word.to_lowercase()));
        let with_words: Vec<&String> =
            files.iter().filter(|(_, bytes)| words(bytes)).map(|(name, _)| name).collect();
        assert_eq!(with_words, Vec::<&String>::new());
        let manifests =
            files.values().filter_map(|bytes| serde_json::from_slice::<Value>(bytes).ok());
        let counted = manifests.filter_map(|one| one["counts"]["forgotten"].as_u64()).sum::<u64>();
        assert!(counted > 0, "{name}");
    }
}

/// The texts that stay in a file of the home are as true as before another text left it.
#[test]
fn a_text_beside_a_forgotten_one_is_still_verified_and_a_changed_file_is_not() {
    let world = World::new();
    let item = |word: &str| {
        let items = world.home.items();
        items.iter().find(|item| item.to_string().contains(word)).cloned().unwrap()
    };
    let neighbour = item("The bicycle stands");
    let id = neighbour["summary_id"].as_str().unwrap().to_owned();
    let links = || {
        let told = world.home.run(&["--json", "explain", "--verify", &id]);
        let told: Value = serde_json::from_slice(&told.stdout).unwrap();
        told.to_string()
    };
    assert!(!links().contains("\"broken\""), "{}", links());
    world.home.ok(&["forget", "texts/notes/garden.md"]);
    assert!(!links().contains("\"broken\""), "{}", links());
    let folder = world.home.path("buses/chunks/canonical");
    let blanks = " ".repeat(100);
    let beside = |bytes: &Vec<u8>| {
        let text = String::from_utf8_lossy(bytes);
        text.contains("cellar") && text.contains(&blanks)
    };
    assert!(every_file(&folder).values().any(beside), "both texts were in one file");
    for name in every_file(&folder).into_keys() {
        let path = folder.join(name);
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, text.replacen("cellar", "garret", 1)).unwrap();
    }
    assert!(links().contains("\"broken\""));
}

/// Of the log and its keys the newer one decides what is forgotten, and nothing that is made later is lost.
#[test]
fn a_log_and_keys_of_different_times_bring_nothing_back_and_lose_nothing() {
    let world = World::new();
    let log = world.home.path("run/summarizer.redb");
    let names = every_file(&world.home.path("run"));
    let keys = names.keys().find(|name| name.ends_with(".keys")).unwrap();
    let keys = world.home.path("run").join(keys);
    let (older_log, older_keys) = (std::fs::read(&log).unwrap(), std::fs::read(&keys).unwrap());
    let late = world.files.path().join("late");
    std::fs::create_dir_all(&late).unwrap();
    std::fs::write(late.join("late.md"), "# Late\n\nThe harpsichord waits in the attic.\n")
        .unwrap();
    world.home.ok(&["add", late.to_str().unwrap()]);
    world.home.ok(&["forget", "texts/notes/garden.md", "late.md", "The harpsichord", "chat"]);
    let newer_keys = std::fs::read(&keys).unwrap();

    std::fs::write(&keys, &older_keys).unwrap();
    let drained = world.home.run(&["drain"]);
    let told = String::from_utf8_lossy(&drained.stderr).into_owned();
    assert!(told.contains("the keys are older than the log"), "{told}");
    let root = &older_keys[49..81];
    let holds = |bytes: Vec<u8>| bytes.windows(root.len()).any(|part| part == root);
    assert!(holds(older_keys.clone()) && !holds(std::fs::read(&keys).unwrap()));
    assert_eq!(world.found(), Vec::<String>::new());
    world.is_sound();

    std::fs::write(&log, &older_log).unwrap();
    std::fs::write(&keys, &newer_keys).unwrap();
    let recovered = world.home.run(&["recover"]);
    let told = String::from_utf8_lossy(&recovered.stderr).into_owned();
    assert!(recovered.status.success(), "{told}");
    assert!(told.contains("the log is older than its keys"), "{told}");
    assert_eq!(world.found(), Vec::<String>::new());
    for number in 0..20 {
        world.home.ask(&format!("new-{number}"), FREE, &format!("The bicycle has chain {number}."));
    }
    world.home.ok(&["drain"]);
    // Each summary that was made since can be read.
    assert_eq!(world.home.items().len(), 21);
    world.is_sound();
}

/// What a command wrote into the home is a copy like any other. What a person put beside it stays.
#[test]
fn exports_in_the_home_that_hold_what_went_go_and_files_of_a_person_stay() {
    let world = World::new();
    let (out, kept) = (world.home.path("out/may"), world.home.path("list.json"));
    world.home.ok(&["export", "--to", out.to_str().unwrap()]);
    let is_garden = |item: &&Value| item.to_string().contains("zucchini was planted");
    let garden = world.home.items().iter().find(is_garden).cloned().unwrap();
    std::fs::write(&kept, garden["summary_id"].to_string()).unwrap();
    let own = out.join("photos/roof.txt");
    std::fs::create_dir_all(own.parent().unwrap()).unwrap();
    std::fs::write(&own, "mine").unwrap();
    let forget = ["--json", "forget", "texts/notes/garden.md"];
    for args in [&[&forget[..], &["--dry-run"]].concat(), &forget.to_vec()] {
        let told: Value = serde_json::from_str(&world.home.ok(args)).unwrap();
        let ends = |list: &Value, end: &str| {
            list.as_array().unwrap().iter().any(|one| one.as_str().unwrap().ends_with(end))
        };
        assert!(
            ends(&told["copies"], "/out/may") && ends(&told["left_in"], "/list.json"),
            "{told}"
        );
        assert!(own.exists() && kept.exists());
        assert_eq!(out.join("buses").exists(), args.contains(&"--dry-run"));
    }
    assert!(!out.join("run").exists());
}

/// Files that a command wrote where a person named a place may hold words of a text, and no id of a summary.
#[test]
fn files_with_words_of_a_text_are_named_and_nothing_is_written_where_nobody_looks() {
    let world = plain_world();
    let text = world.files.path().join("texts/notes/garden.md");
    let text = text.to_str().unwrap();
    for folder in ["recordings", "own"] {
        std::fs::create_dir_all(world.home.path(folder)).unwrap();
    }
    let recording = world.home.path("recordings/garden.jsonl");
    world.home.ok(&["flow", "run", FREE, "--input", text, "--record", recording.to_str().unwrap()]);
    assert!(has_words(&std::fs::read(&recording).unwrap()));
    std::fs::write(
        world.home.path("own/diary.md"),
        "The fence of my neighbour is blue, and mine is not.\n",
    )
    .unwrap();
    let told: Value =
        serde_json::from_str(&world.home.ok(&["--json", "forget", "texts/notes/garden.md"]))
            .unwrap();
    let [left] = told["left_in"].as_array().unwrap().as_slice() else { panic!("{told}") };
    assert!(left.as_str().unwrap().ends_with("recordings/garden.jsonl"), "{told}");
    assert_eq!(world.found(), ["recordings/garden.jsonl"]);
    let within = |name: &str| world.home.path(name).display().to_string();
    for args in [
        &["flow", "run", FREE, "--input", text, "--record", &within("run/garden.jsonl")][..],
        &["flow", "batch", "export", FREE, "--input", text, "--into", &within("buses/batch")],
        &["flow", "compare", FREE, "--inputs", text, "--out", &within("run/page.html")],
    ] {
        let refused = world.home.run(args);
        assert_eq!(refused.status.code(), Some(2), "{args:?}");
        let why = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(why.contains("the home keeps for itself"), "{why}");
    }
    assert_eq!(world.found(), ["recordings/garden.jsonl"]);
}

/// Who forgets a file does not want its text back when the file changes in a folder that is watched.
#[test]
fn a_forgotten_file_of_a_watched_folder_stays_out_until_a_person_adds_it() {
    let files = tempfile::tempdir().unwrap();
    let notes = files.path().join("notes");
    std::fs::create_dir_all(&notes).unwrap();
    let home =
        Home::new(&format!("{QUICK}[[watch]]\nfolder = {:?}\n", notes.display().to_string()));
    let write = |name: &str, text: &str| std::fs::write(notes.join(name), text).unwrap();
    let look = || String::from_utf8_lossy(&home.run(&["drain", "--folders"]).stderr).into_owned();
    write("garden.md", NOTE);
    write("bicycle.md", KEPT);
    look();
    assert_eq!(home.items().len(), 2);
    home.ok(&["forget", "notes/garden.md"]);
    write(
        "garden.md",
        "# Garden\n\nThe zucchini was moved on 9 June, and Theobald waters it until Friday.\n",
    );
    write(
        "bicycle.md",
        "# Bicycle\n\nThe bicycle was sold on 9 June for 200 EUR, and Ana has the key.\n",
    );
    let told = look();
    assert!(
        told.contains("garden.md was forgotten on") && told.contains("`summarizer add`"),
        "{told}"
    );
    assert_eq!(found_in(&home), Vec::<String>::new());
    assert!(home.ok(&["read", "notes/bicycle.md"]).contains("sold"), "others are taken in");
    for command in ["status", "doctor"] {
        let told = String::from_utf8_lossy(&home.run(&[command]).stdout).into_owned();
        assert!(told.contains("notes/garden.md") && told.contains("left out"), "{told}");
    }
    write(
        "garden.md",
        "# Garden\n\nThe zucchini was moved again on 10 June, and Theobald waters it until Friday.\n",
    );
    assert!(!look().contains("was forgotten on"), "it is told once");
    assert_eq!(found_in(&home), Vec::<String>::new());
    let added = home.run(&["add", notes.join("garden.md").to_str().unwrap()]);
    let told = String::from_utf8_lossy(&added.stderr).into_owned();
    assert!(
        told.contains("it was forgotten on") && told.contains("its new text was taken in"),
        "{told}"
    );
    assert!(!home.ok(&["status"]).contains("left out"));
    write(
        "garden.md",
        "# Garden\n\nThe zucchini is eaten since 11 June, and Theobald has the recipe until Friday.\n",
    );
    look();
    assert!(home.ok(&["read", "notes/garden.md"]).contains("eaten"));
    let same = home.run(&["add", notes.join("garden.md").to_str().unwrap()]);
    assert!(!String::from_utf8_lossy(&same.stderr).contains("forgotten"));
    home.ok(&["forget", "notes/garden.md"]);
    let again = home.run(&["add", notes.join("garden.md").to_str().unwrap()]);
    let told = String::from_utf8_lossy(&again.stderr).into_owned();
    assert!(told.contains("the same text is not taken in again"), "{told}");
    assert_eq!(found_in(&home), Vec::<String>::new());
}

/// A mail has several headers that name who wrote it, or sent it.
#[test]
fn a_mail_is_forgotten_by_everybody_who_wrote_or_sent_it() {
    let files = tempfile::tempdir().unwrap();
    let mut mails = String::new();
    for (number, header) in
        ["Sender", "Reply-To", "Resent-From", "X-Original-From"].iter().enumerate()
    {
        mails.push_str(&format!(
            "From x@x Tue Feb 10 09:00:00 2026\nFrom: All <all@list.example>\n{header}: Theobald <t@x.example>\n\
             Message-ID: <{number}@x>\nDate: Tue, 10 Feb 2026 09:00:00 +0100\nSubject: The harpsichord {number}\n\n\
             The harpsichord of Theobald costs {number}00 EUR on Friday.\n\n"
        ));
    }
    mails.push_str(
        "From x@x Tue Feb 10 09:00:00 2026\nFrom: All <all@list.example>\nTo: t@x.example\nMessage-ID: <9@x>\n\
         Date: Tue, 10 Feb 2026 09:00:00 +0100\nSubject: The kite\n\nThe kite flies on Sunday and needs a new tail.\n",
    );
    std::fs::write(files.path().join("list.mbox"), mails).unwrap();
    let home = Home::new(QUICK);
    home.ok(&["add", files.path().join("list.mbox").to_str().unwrap()]);
    assert_eq!(home.items().len(), 5);
    home.ok(&["forget", "--author", "t@x.example"]);
    assert_eq!(found_in(&home), Vec::<String>::new());
    assert_eq!(home.items().len(), 1);
}

/// A text that lies in the home under two names is not forgotten by one of them, and the command says so.
#[test]
fn the_same_text_under_another_name_is_named() {
    let world = World::new();
    std::fs::write(world.files.path().join("texts/notes/copy.md"), NOTE).unwrap();
    world.add();
    let told: Value =
        serde_json::from_str(&world.home.ok(&["--json", "forget", "texts/notes/garden.md"]))
            .unwrap();
    let other = told["same_text_in"].as_array().unwrap();
    let [other] = other.as_slice() else { panic!("{told}") };
    assert!(other.as_str().unwrap().ends_with("texts/notes/copy.md"), "{told}");
    world.home.ok(&["forget", other.as_str().unwrap()]);
    assert!(
        !every_file(&world.home.path("buses/chunks"))
            .values()
            .any(|bytes| String::from_utf8_lossy(bytes).contains("planted"))
    );
}

#[test]
fn the_items_of_a_list_are_forgotten_by_the_name_of_the_item_or_of_the_list() {
    let home = Home::new(QUICK);
    let lines: String = ["zucchini", "ladder", "fence"]
        .iter()
        .enumerate()
        .map(|(at, word)| format!("{{\"id\":\"a{at}\",\"text\":\"The {word} is paid on 3 May and comes on Saturday.\"}}\n"))
        .collect();
    std::fs::write(home.path("buses/other/list.jsonl"), lines).unwrap();
    for id in ["a0", "a1", "a2"] {
        let id = format!("list.jsonl#{id}");
        home.ok(&["submit", "--flow", FREE, "--bus", "other", "--id", &id]);
    }
    home.ok(&["drain"]);
    assert_eq!(home.items().len(), 3);
    home.ok(&["forget", "list.jsonl#a0"]);
    assert_eq!(home.items().len(), 2);
    let read = home.run(&["read", "list.jsonl#a0"]);
    assert!(String::from_utf8_lossy(&read.stderr).contains("was forgotten on"));
    home.ok(&["forget", "list.jsonl"]);
    assert_eq!(home.items().len(), 0);
}

/// The message of a failed attempt stays in the log, so it quotes nothing of an answer.
#[test]
fn the_message_of_a_failed_attempt_quotes_no_word_of_the_answer() {
    let mut wrong: Value = serde_json::from_str(&flow_home::good_answer()).unwrap();
    for member in wrong.as_object_mut().unwrap().values_mut() {
        *member = json!({"zucchini": ["Theobald brings the harpsichord", 7]});
    }
    let server = Server::start(vec![server::chat(&wrong.to_string())]);
    let home = Home::new(&config(&server, "", QUICK));
    home.ask("note-1", FLOW, "The zucchini was planted.");
    home.ok(&["drain"]);
    let is_failure = |event: &Event| matches!(event, Event::AttemptFailed { .. });
    let failures = || home.events().into_iter().filter(|(event, _)| is_failure(event));
    assert!(failures().count() > 0);
    for (event, _) in failures() {
        let told = format!("{event:?}");
        assert!(told.contains("SCHEMA"), "{told}");
        assert!(WORDS.iter().all(|word| !told.contains(word)), "{told}");
    }
    // A text without a summary has answers all the same.
    let told: Value = serde_json::from_str(&home.ok(&["--json", "forget", "note-1.txt"])).unwrap();
    assert!(told["answers"].as_u64() > Some(0), "{told}");
    let with_words = home.events().into_iter().filter_map(|(_, body)| body);
    assert_eq!(
        with_words.filter(|body| String::from_utf8_lossy(body).contains("zucchini")).count(),
        0
    );
}

#[test]
fn doctor_says_when_others_can_read_the_keys() {
    let world = World::new();
    let run = world.home.path("run");
    let keys = every_file(&run).into_keys().find(|name| name.ends_with(".keys")).unwrap();
    let said = |mode: u32| {
        std::fs::set_permissions(run.join(&keys), std::fs::Permissions::from_mode(mode)).unwrap();
        let output = world.home.run(&["doctor"]);
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    assert!(!said(0o600).contains("holds the keys of the log"));
    assert!(said(0o640).contains("holds the keys of the log"));
}

#[test]
fn a_feed_is_as_new_as_its_newest_entry() {
    let world = World::new();
    let feeds = || {
        let files = every_file(&world.home.path("buses/feeds")).into_iter();
        files.map(|(name, bytes)| (name, String::from_utf8(bytes).unwrap()))
    };
    // The first time is that of the feed, the others are those of its entries, newest first.
    let times = |feed: &str| -> Vec<String> {
        let parts = feed.split("<updated>").skip(1);
        parts.map(|rest| rest.split('<').next().unwrap().to_owned()).collect()
    };
    let (name, before) = feeds().find(|(_, feed)| times(feed).len() > 2).unwrap();
    let newest = before.split("<entry>").nth(1).unwrap();
    let is_newest =
        |item: &&Value| newest.contains(&format!("<title>{}<", item["title"].as_str().unwrap()));
    let items = world.home.items();
    let id = items.iter().find(is_newest).unwrap()["summary_id"].as_str().unwrap();
    world.home.ok(&["forget", id]);
    let (_, after) = feeds().find(|(other, _)| *other == name).unwrap();
    let (before, after) = (times(&before), times(&after));
    assert_eq!(after[1..], before[2..], "the newest entry is gone");
    assert_eq!(after[0], after[1]);
}

#[test]
fn a_dry_run_changes_nothing_and_an_unknown_name_is_an_error() {
    let world = World::new();
    let before = every_file(&world.home.path("buses"));
    let told = world.home.ok(&["forget", "--dry-run", "--before", "2026-12-31"]);
    assert!(told.contains("would forget 4 summaries"), "{told}");
    assert!(told.contains("would take") && told.contains("records of their texts"), "{told}");
    assert_eq!(every_file(&world.home.path("buses")), before);
    for (code, args) in [
        (5, &["forget", "nobody.txt"][..]),
        // A part of a name is none.
        (5, &["forget", "arde"]),
        (5, &["forget", "--author", "nobody"]),
        (2, &["forget", "--author", ""]),
        (2, &["forget", " "]),
        (2, &["forget"]),
    ] {
        let output = world.home.run(args);
        assert_eq!(output.status.code(), Some(code), "{args:?}");
    }
    assert_eq!(every_file(&world.home.path("buses")), before);
}

#[test]
fn a_text_that_was_never_summarized_can_be_forgotten_and_of_a_chat_only_what_one_person_said() {
    let world = World::new();
    let waits = world.files.path().join("waits");
    std::fs::create_dir_all(&waits).unwrap();
    std::fs::write(waits.join("late.md"), "# Late\n\nThe harpsichord waits in the cellar.\n")
        .unwrap();
    let added = world.home.ok(&["add", "--no-wait", waits.to_str().unwrap()]);
    let there = every_file(&world.home.path("buses/chunks/canonical"));
    let names = there.values().map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    assert!(names.collect::<String>().contains("waits/late.md"), "{added} {:?}", there.keys());
    let told = world.home.ok(&["forget", "waits/late.md"]);
    assert!(told.contains("1 record"), "{told}");
    // A copy knows it too, although no key was destroyed.
    let kept = tempfile::tempdir().unwrap();
    let copy = kept.path().join("copy");
    world.home.ok(&["backup", copy.to_str().unwrap()]);
    let read = world.home.run(&["--home", copy.to_str().unwrap(), "read", "waits/late.md"]);
    assert!(String::from_utf8_lossy(&read.stderr).contains("was forgotten"), "{read:?}");
    world.home.ok(&["--home", copy.to_str().unwrap(), "replay", "--verify"]);
    world.home.run(&["drain"]);
    let chunks = every_file(&world.home.path("buses/chunks"));
    assert!(
        !chunks.values().any(|bytes| String::from_utf8_lossy(bytes).contains("in the cellar.\""))
    );
    world.home.ok(&["forget", "--author", "Brasenose"]);
    let events = every_file(&world.home.path("buses/eventbus"));
    let events: String =
        events.values().map(|bytes| String::from_utf8_lossy(bytes).into_owned()).collect();
    assert!(events.contains("blue paint") && !events.contains("bring the zucchini"), "{events}");
    assert!(!world.home.ok(&["read"]).contains("blue paint"));
    world.home.ok(&["verify"]);
    world.home.ok(&["replay", "--verify"]);
}

/// A crash between the manifest of a partition and its data is made good by the next command.
#[test]
fn a_partition_that_a_crash_left_between_its_files_becomes_whole() {
    let world = World::new();
    let data = every_file(&world.home.path("buses/chunks/canonical"));
    world.home.ok(&["forget", "texts/notes/garden.md"]);
    for (name, bytes) in &data {
        std::fs::write(world.home.path("buses/chunks/canonical").join(name), bytes).unwrap();
    }
    assert!(!world.home.run(&["verify"]).status.success());
    world.home.ok(&["forget", "The harpsichord"]);
    world.home.ok(&["verify"]);
    assert!(!world.found().iter().any(|place| place.contains("chunks/")));
}

/// A home without digests: nothing but the texts and their summaries.
fn plain_world() -> World {
    let world = World { home: Home::new(QUICK), files: tempfile::tempdir().unwrap() };
    for (name, text) in [("notes/garden.md", NOTE), ("notes/bicycle.md", KEPT)] {
        let path = world.files.path().join("texts").join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
        // Each is published by itself, so that the first one stands in a tree of its own.
        world.add();
    }
    world
}

#[test]
fn a_forgetting_ends_and_a_new_text_of_the_same_name_is_taken_in() {
    let world = plain_world();
    world.home.ok(&["forget", "texts/notes/garden.md"]);
    assert_eq!(world.found(), Vec::<String>::new(), "in a home without digests, too");
    // A forgetting that goes on removes keys that no log of the home has.
    let foreign = world.home.path("run/log-00ff.keys");
    std::fs::write(&foreign, "of another log").unwrap();
    std::fs::set_permissions(&foreign, std::fs::Permissions::from_mode(0o600)).unwrap();
    let path = world.files.path().join("texts/notes/garden.md");
    std::fs::write(&path, "# Garden\n\nThe tomatoes were planted on 7 June and need much water.\n")
        .unwrap();
    let told = world.add();
    assert!(told.contains("tomatoes"), "{told}");
    world.home.ok(&["drain"]);
    assert!(foreign.exists(), "the next commands have nothing left to forget");
    assert!(world.home.ok(&["read"]).contains("garden"));
    world.is_sound();
}

#[test]
fn a_file_of_a_person_is_never_removed() {
    let world = plain_world();
    let own = world.home.path("texts/own.md");
    std::fs::create_dir_all(own.parent().unwrap()).unwrap();
    std::fs::write(&own, NOTE).unwrap();
    world.home.ok(&["add", own.to_str().unwrap()]);
    world.home.ok(&["forget", "--before", "2099-01-01"]);
    assert_eq!(std::fs::read_to_string(&own).unwrap(), NOTE);
}

/// The word that a text is private stands in a summary. It must not become public when that summary goes.
#[test]
fn what_a_private_word_hides_stays_hidden_when_the_summary_with_the_word_is_forgotten() {
    let world = plain_world();
    let path = world.files.path().join("texts/notes/garden.md");
    std::fs::write(&path, format!("---\npublish: false\n---\n{NOTE}The plum tree is new.\n"))
        .unwrap();
    world.add();
    let is_private =
        |item: &&Value| item["meta"]["publish"] == false && item.to_string().contains("garden.md");
    let items = world.home.items();
    let private = items.iter().find(is_private).expect("the newer summary is private");
    let id = private["summary_id"].as_str().unwrap().to_owned();
    let told: Value = serde_json::from_str(&world.home.ok(&["--json", "forget", &id])).unwrap();
    assert_eq!(told["summaries"].as_array().unwrap().len(), 2, "{told}");
    assert!(!world.home.items().iter().any(|item| item.to_string().contains("garden.md")));
    assert!(world.home.ok(&["read"]).contains("bicycle"));
}

/// An older version that names no author must not stand in the place of the newer one.
#[test]
fn all_versions_of_a_text_go_with_its_author() {
    let world = plain_world();
    let path = world.files.path().join("texts/notes/garden.md");
    std::fs::write(&path, format!("---\nauthor: Ottoline Hay\n---\n{NOTE}")).unwrap();
    world.add();
    assert_eq!(world.home.items().len(), 3);
    let told = world.home.ok(&["--json", "forget", "--author", "ottoline hay"]);
    let told: Value = serde_json::from_str(&told).unwrap();
    assert_eq!(told["summaries"].as_array().unwrap().len(), 2, "{told}");
    assert_eq!(world.found(), Vec::<String>::new());
    assert!(world.home.ok(&["read"]).contains("bicycle"));
    world.is_sound();
}

/// A table has rows of several people.
#[test]
fn of_a_table_only_the_rows_of_an_author_are_forgotten() {
    let world = plain_world();
    let rows = "date,author,note\n\
        2026-03-10,Ottoline Hay,The xylophone is paid on 3 May and comes on Saturday.\n\
        2026-03-10,Bo Lind,The ferry leaves at seven and costs 20 EUR.\n\
        2026-03-11,Bo Lind,The tunnel opens in June after ten years.\n";
    std::fs::write(world.files.path().join("texts/costs.csv"), rows).unwrap();
    world.add();
    let before = world.home.items().len();
    world.home.ok(&["forget", "--author", "ottoline hay"]);
    assert_eq!(world.home.items().len(), before - 1, "the summary of the day goes");
    let holds = |word: &str| {
        let buses = every_file(&world.home.path("buses"));
        buses.into_values().any(|bytes| String::from_utf8_lossy(&bytes).contains(word))
    };
    assert_eq!((holds("xylophone"), holds("The ferry leaves")), (false, true));
    world.add();
    assert_eq!(world.home.items().len(), before, "the other rows of the day have a summary");
    assert!(!holds("xylophone"), "what was forgotten does not come back");
    world.is_sound();
}

/// The words of groups and titles are those of texts, so no event holds them open.
#[test]
fn no_event_of_a_digest_holds_words_outside_its_sealed_files() {
    let world = World::new();
    let mut bags = 0;
    for (event, body) in world.home.events() {
        let Event::Digest(DigestFact::Bag(bag)) = event else { continue };
        let open = (bag.title, bag.tags, bag.group.map(|group| group.key));
        assert!(open.0.is_empty() && open.1.is_empty(), "{open:?}");
        assert!(open.2.is_none_or(|key| key.is_empty()));
        assert!(bag.memos.iter().all(|memo| memo.memo_slug.is_empty()));
        assert!(String::from_utf8_lossy(&body.unwrap()).contains("title"));
        bags += 1;
    }
    assert!(bags > 0);
    // The catalog that is read from the log again has them all the same.
    let index = || every_file(&world.home.path("buses/index"));
    let before = index();
    assert!(!before.is_empty());
    std::fs::remove_file(world.home.path("run/digest-index.redb")).unwrap();
    std::fs::remove_dir_all(world.home.path("buses/index")).unwrap();
    world.home.ok(&["export", "--repair"]);
    assert!(index() == before);
    world.is_sound();
}

/// A `forget` that cannot be finished: it is told, and neither a lost log nor a backup brings the text back.
#[test]
fn an_unfinished_forget_is_told_and_finished_whatever_happens_to_the_log() {
    let world = World::new();
    let mark = world.home.path("run/forgetting.json");
    let obstacle = world.home.path("run/pasted.json");
    std::fs::create_dir(&obstacle).unwrap();
    let ran = world.home.run(&["forget", "texts/notes/garden.md"]);
    assert_eq!(ran.status.code(), Some(6), "{}", String::from_utf8_lossy(&ran.stderr));
    assert!(mark.exists());
    for args in [&["read"][..], &["search", "bicycle"], &["status"]] {
        let ran = world.home.run(args);
        let said = String::from_utf8_lossy(&ran.stderr);
        assert!(said.contains("a `forget` is not finished"), "{args:?}: {said}");
    }
    let doctor = world.home.run(&["doctor"]);
    assert_eq!(doctor.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&doctor.stdout).contains("a `forget` is not finished"));
    // The copy has no obstacle.
    let kept = tempfile::tempdir().unwrap();
    let copy = kept.path().join("copy");
    world.home.ok(&["backup", copy.to_str().unwrap()]);
    assert!(copy.join("run/forgetting.json").exists());
    world.home.ok(&["--home", copy.to_str().unwrap(), "drain"]);
    assert!(!copy.join("run/forgetting.json").exists());
    assert!(!every_file(&copy).values().any(|bytes| has(bytes, "Theobald")));
    // The log is lost, and with it the fact and the keys.
    for (name, _) in every_file(&world.home.path("run")) {
        if name.ends_with(".keys") || name == "summarizer.redb" {
            std::fs::remove_file(world.home.path("run").join(name)).unwrap();
        }
    }
    std::fs::remove_dir(&obstacle).unwrap();
    world.home.ok(&["recover"]);
    assert!(!mark.exists());
    assert_eq!(world.holding(&["Theobald"]), Vec::<String>::new());
    world.is_sound();
    assert!(world.home.ok(&["read"]).contains("bicycle"));
    assert!(world.home.run(&["read"]).stderr.is_empty());
}

/// The mark may name more than the facts of the log: both are carried out.
#[test]
fn an_unfinished_forget_carries_out_the_mark_beside_the_log_too() {
    let world = plain_world();
    let items = world.home.items();
    let is_bicycle = |item: &&Value| item.to_string().contains("bicycle");
    let sources = items.iter().find(is_bicycle).unwrap()["source_ids"].clone();
    let (mark, obstacle) =
        (world.home.path("run/forgetting.json"), world.home.path("run/pasted.json"));
    std::fs::create_dir(&obstacle).unwrap();
    assert!(!world.home.run(&["forget", "texts/notes/garden.md"]).status.success());
    let mut marked: Value = serde_json::from_slice(&std::fs::read(&mark).unwrap()).unwrap();
    marked["sources"].as_array_mut().unwrap().extend(sources.as_array().unwrap().iter().cloned());
    std::fs::write(&mark, marked.to_string()).unwrap();
    std::fs::remove_dir(&obstacle).unwrap();
    world.home.ok(&["drain"]);
    assert!(!mark.exists());
    assert_eq!(world.found(), Vec::<String>::new());
    assert_eq!(world.holding(&["chain before the winter"]), Vec::<String>::new());
    let facts = world.home.events().into_iter();
    assert_eq!(facts.filter(|(event, _)| matches!(event, Event::Forgotten(_))).count(), 2);
    world.is_sound();
}

/// A file that cannot be looked at is no `forget` that is not finished.
#[test]
fn a_mark_that_cannot_be_looked_at_is_told_as_that() {
    let world = plain_world();
    let mark = world.home.path("run/forgetting.json");
    std::os::unix::fs::symlink("forgetting.json", &mark).unwrap();
    let ran = world.home.run(&["read"]);
    let said = String::from_utf8_lossy(&ran.stderr);
    assert!(said.contains("run/forgetting.json cannot be looked at"), "{said}");
    assert!(!said.contains("a `forget` is not finished"), "{said}");
    std::fs::remove_file(&mark).unwrap();
    assert!(world.home.run(&["read"]).stderr.is_empty());
}

/// `forget` names the backups from before, and those that have expired can be removed.
#[test]
fn backups_from_before_are_named_and_expire() {
    let world = plain_world();
    let kept = tempfile::tempdir().unwrap();
    let place = |name: &str| kept.path().join(name).to_string_lossy().into_owned();
    let (old, long, used, own) = (place("old"), place("long"), place("used"), place("own"));
    std::fs::write(
        world.home.path("summarizer.toml"),
        format!("{QUICK}[backup]\nexpire_after = \"0 s\"\n"),
    )
    .unwrap();
    world.home.ok(&["backup", &old]);
    world.home.ok(&["backup", &used]);
    world.home.ok(&["backup", &long, "--expire-after", "90d"]);
    world.home.ok(&["backup", &own, "--expire-after", "never"]);
    let manifest = |folder: &str| -> Value {
        let bytes = std::fs::read(Path::new(folder).join("backup.json")).unwrap();
        serde_json::from_slice(&bytes).unwrap()
    };
    assert!(manifest(&long)["expires_at"].is_string());
    assert_eq!(manifest(&own)["expires_at"], Value::Null);
    let told: Value =
        serde_json::from_str(&world.home.ok(&["--json", "forget", "texts/notes/garden.md"]))
            .unwrap();
    assert_eq!(told["backups"].as_array().unwrap().len(), 4, "{told}");
    let more = world.files.path().join("more.md");
    std::fs::write(
        &more,
        "# Kite\n\nThe kite flies on Sunday. It needs a new tail of red paper.\n",
    )
    .unwrap();
    world.home.ok(&["--home", &used, "add", more.to_str().unwrap()]);
    let doctor = String::from_utf8_lossy(&world.home.run(&["doctor"]).stdout).into_owned();
    assert!(doctor.contains(&old) && !doctor.contains(&long), "{doctor}");
    assert!(doctor.contains("summarizer backup --remove-expired"), "{doctor}");
    let would: Value = serde_json::from_str(&world.home.ok(&[
        "--json",
        "backup",
        "--remove-expired",
        "--dry-run",
    ]))
    .unwrap();
    assert_eq!(
        (&would["removed"], &would["left"][0]["folder"]),
        (&json!([old]), &json!(used)),
        "{would}"
    );
    assert!(Path::new(&old).exists());
    // A folder of a person that stands there now stays.
    std::fs::rename(Path::new(&old).join("backup.json"), Path::new(&old).join("other.json"))
        .unwrap();
    world.home.ok(&["backup", "--remove-expired"]);
    assert!(Path::new(&old).exists());
    std::fs::rename(Path::new(&old).join("other.json"), Path::new(&old).join("backup.json"))
        .unwrap();
    let told = world.home.ok(&["backup", "--remove-expired"]);
    assert!(told.contains(&format!("removed {old}")), "{told}");
    let there = [&old, &used, &long, &own].map(|folder| Path::new(folder).exists());
    assert_eq!(there, [false, true, true, true]);
    assert_eq!(world.home.run(&["backup"]).status.code(), Some(2));
}

/// A log of before the `forget` takes the place of one that was lost in the middle of it.
#[test]
fn an_older_log_carries_out_what_the_mark_names() {
    let world = plain_world();
    let log = world.home.path("run/summarizer.redb");
    let old = std::fs::read(&log).unwrap();
    std::fs::create_dir(world.home.path("run/pasted.json")).unwrap();
    assert!(!world.home.run(&["forget", "texts/notes/garden.md"]).status.success());
    std::fs::remove_dir(world.home.path("run/pasted.json")).unwrap();
    std::fs::write(&log, old).unwrap();
    world.home.ok(&["drain"]);
    assert!(!world.home.path("run/forgetting.json").exists());
    assert_eq!(world.found(), Vec::<String>::new());
    let facts = world.home.events().into_iter();
    assert_eq!(facts.filter(|(event, _)| matches!(event, Event::Forgotten(_))).count(), 1);
    world.is_sound();
}

fn has(bytes: &[u8], word: &str) -> bool {
    bytes.windows(word.len()).any(|part| part == word.as_bytes())
}

/// Retention drops bodies, and a copy of the log does not have them.
#[test]
fn a_text_is_forgotten_in_a_restored_backup_after_retention() {
    let world = plain_world();
    let kept = tempfile::tempdir().unwrap();
    let copy = kept.path().join("copy");
    world.home.ok(&["backup", copy.to_str().unwrap()]);
    let home = copy.to_str().unwrap();
    world.home.ok(&["--home", home, "forget", "texts/notes/garden.md"]);
    let words = every_file(&copy);
    let holds =
        words.iter().filter(|(_, bytes)| String::from_utf8_lossy(bytes).contains("zucchini"));
    assert_eq!(holds.map(|(name, _)| name.clone()).collect::<Vec<_>>(), Vec::<String>::new());
}

const NOW: Timestamp = Timestamp(1_790_000_000_000);

impl World {
    /// The files of the home that hold one of these words, and the bodies of the log that do.
    fn holding(&self, words: &[&str]) -> Vec<String> {
        let bodies = self.home.events().into_iter();
        let bodies = bodies.filter_map(|(event, body)| Some((event.name().to_owned(), body?)));
        let all = every_file(self.home.0.path()).into_iter().chain(bodies);
        let holds = |bytes: &[u8]| {
            let text = String::from_utf8_lossy(bytes);
            words.iter().any(|word| text.contains(word))
        };
        all.filter(|(_, bytes)| holds(bytes)).map(|(name, _)| name).collect()
    }

    /// The engine of the home, which no process holds.
    fn engine(&self) -> Engine {
        let options = EngineOptions { retry: RetryPolicy::default(), checkpoint_every: 1000 };
        Engine::open(self.store(), options, NOW, &mut |_| {}).unwrap()
    }

    fn store(&self) -> Store {
        let path = self.home.path("run/summarizer.redb");
        Store::open(Arc::new(HostDisk), &path, Options::beside(&path), [7; 16], &mut |_| {})
            .unwrap()
    }

    /// The sources of the note.
    fn garden(&self) -> forget::Wanted {
        let is_garden = |item: &&Value| item.to_string().contains("zucchini was planted");
        let item = self.home.items().iter().find(is_garden).cloned().unwrap();
        let sources = item["source_ids"].as_array().unwrap().iter();
        let sources = sources.map(|id| id.as_str().unwrap().to_owned()).collect();
        forget::Wanted { sources, ..forget::Wanted::default() }
    }
}

/// The fact is durable, its keys are whole, and then the log is damaged.
#[test]
fn recover_carries_out_what_a_crash_left_of_a_forgetting() {
    let world = World::new();
    let wanted = world.garden();
    let mut engine = world.engine();
    let found = forget::look(engine.log(), &wanted, &mut |_| {}).unwrap();
    let first = forget::record(&mut engine, &wanted, &found, NOW).unwrap();
    engine.commit(None, CheckpointWhen::Changed, &[forget::begun(first)], NOW).unwrap();
    engine.close().unwrap();
    let mut store = world.store();
    let (first, applied) = (store.head().0.next(), store.applied());
    let documents = vec![("cursor.acks".to_owned(), Some(vec![0xff; 3]))];
    let checkpoint = Some(Checkpoint { documents, applied, ..Checkpoint::default() });
    store.append(Commit { first, records: &[], mark: b"", checkpoint }).unwrap();
    store.close().unwrap();
    assert!(!world.holding(&["Theobald"]).is_empty());
    let told: Value = serde_json::from_str(&world.home.ok(&["--json", "recover"])).unwrap();
    assert_eq!((&told["log"], &told["set_aside"]), (&json!("damaged"), &Value::Null), "{told}");
    assert!(told["report"]["records_kept"].as_u64().unwrap() >= applied.0, "{told}");
    assert_eq!(world.holding(&["Theobald"]), Vec::<String>::new());
    world.is_sound();
    assert!(world.home.ok(&["read"]).contains("bicycle"));
}

/// An old copy of the log comes back, in which the summary is and the fact is not.
#[test]
fn recover_forgets_again_what_was_forgotten_after_the_last_kept_record() {
    let world = World::new();
    let log = world.home.path("run/summarizer.redb");
    let old = std::fs::read(&log).unwrap();
    let later = world.files.path().join("later");
    std::fs::create_dir_all(&later).unwrap();
    for number in 1..=3 {
        let text = format!("# Visit {number}\n\nOttoline comes on {number} June.\n");
        std::fs::write(later.join(format!("{number}.md")), text).unwrap();
    }
    world.home.ok(&["add", later.to_str().unwrap()]);
    let mut names = vec!["forget".to_owned(), "texts/notes/garden.md".to_owned()];
    names.extend((1..=3).map(|number| format!("later/{number}.md")));
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    world.home.ok(&names);
    std::fs::write(&log, old).unwrap();
    let told: Value = serde_json::from_str(&world.home.ok(&["--json", "recover"])).unwrap();
    assert_eq!(told["log"], "damaged", "{told}");
    assert_eq!(world.holding(&["Theobald", "Ottoline comes"]), Vec::<String>::new());
    let facts = world.home.events().into_iter().filter_map(|(event, _)| match event {
        Event::Forgotten(fact) => Some(fact.summaries.len()),
        _ => None,
    });
    assert_eq!(facts.sum::<usize>(), 4);
    world.home.ok(&["drain"]);
    world.is_sound();
}

/// Everything that a command told.
fn all_told(home: &Home, args: &[&str]) -> String {
    let output = home.run(args);
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned()
}

/// The file beside the log counts only when the log is lost, so damage must show before.
#[test]
fn damage_of_the_file_of_what_was_forgotten_is_told_and_mended_from_the_log() {
    let home = Home::new(QUICK);
    for (number, word) in ["zucchini", "harpsichord"].iter().enumerate() {
        home.ask(
            &format!("note-{number}"),
            FREE,
            &format!("The {word} stands in the hall until Friday."),
        );
    }
    home.ok(&["drain"]);
    home.ok(&["forget", "note-0.txt"]);
    std::thread::sleep(std::time::Duration::from_millis(5));
    let later = home
        .command(&["forget", "note-1.txt"])
        .env("SUMMARIZER_TEST_NOW", "2026-03-05T10:00:00Z")
        .output();
    assert!(later.unwrap().status.success());
    let path = home.path("run/forgotten.jsonl");
    let whole = std::fs::read(&path).unwrap();
    let first = whole.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    assert!(first < whole.len(), "two lines");
    let mut flipped = whole.clone();
    flipped[20] ^= 1;
    let flipped_at = "line 1: ";
    for (damaged, why) in [
        (flipped.clone(), flipped_at),
        (whole[..first].to_vec(), "it lacks what was forgotten on 2026-03-05"),
        (whole[first..].to_vec(), "line 1: it was line 2"),
        (Vec::new(), "it is empty"),
        (whole[..whole.len() - 1].to_vec(), "its last line has no end"),
    ] {
        for command in [&["drain"][..], &["verify"], &["doctor"]] {
            std::fs::write(&path, &damaged).unwrap();
            let told = all_told(&home, command);
            let is_told = told.contains("run/forgotten.jsonl was damaged") && told.contains(why);
            assert!(is_told, "{command:?} {why}: {told}");
            assert_eq!(std::fs::read(&path).unwrap(), whole, "{command:?} {why}");
        }
    }
    for command in [&["drain"][..], &["verify"], &["doctor"]] {
        std::fs::remove_file(&path).unwrap();
        let told = all_told(&home, command);
        assert!(told.contains("run/forgotten.jsonl was missing"), "{command:?}: {told}");
        assert_eq!(std::fs::read(&path).unwrap(), whole, "{command:?}");
    }
    let told = all_told(&home, &["drain"]);
    assert!(!told.contains("damaged") && !told.contains("missing"), "{told}");
    // With the log lost, only the file knows. The line is named, and what to do.
    std::fs::write(&path, &flipped).unwrap();
    std::fs::remove_file(home.path("run/summarizer.redb")).unwrap();
    let told = all_told(&home, &["recover"]);
    assert!(told.contains(flipped_at) && told.contains("the file of a backup"), "{told}");
    std::fs::write(&path, &whole).unwrap();
    home.ok(&["recover"]);
}

/// A request that waits and has no words of its own names a source that goes: it ends with it.
#[test]
fn a_request_that_waits_for_a_forgotten_source_ends_at_once() {
    let home = Home::new(QUICK);
    home.ask("now-1", FREE, "The zucchini stands in the hall until Friday.");
    home.ok(&["drain"]);
    let queue = home.path("run/queue.jsonl");
    let lines = std::fs::read_to_string(&queue).unwrap();
    let mut line: Value = serde_json::from_str(lines.trim()).unwrap();
    line["request_id"] = "later-1".into();
    line["urgency"] = "scheduled".into();
    line["not_before"] = "2031-01-01T08:00:00Z".into();
    line["work"]["params"] = json!({"lang": "es"});
    let mut other = line.clone();
    other["request_id"] = "other-1".into();
    other["input"]["ids"] = json!(["kite.txt"]);
    std::fs::write(home.path("buses/other/kite.txt"), "The kite flies on Sunday.").unwrap();
    std::fs::write(&queue, format!("{lines}{line}\n{other}\n")).unwrap();
    home.ok(&["drain"]);
    assert!(home.ok(&["forget", "--dry-run", "now-1.txt"]).contains("request line"));
    assert_ne!(home.last_ack("later-1")["status"], "failed_permanent");
    home.ok(&["forget", "now-1.txt"]);
    let ack = home.last_ack("later-1");
    assert_eq!(ack["status"], "failed_permanent", "{ack}");
    assert_eq!(ack["message"], "its source was forgotten by request", "{ack}");
    assert_ne!(home.last_ack("other-1")["status"], "failed_permanent");
    home.ok(&["drain"]);
    all_verify(&home);
}

/// The folder in which `recover` kept the old files can be named.
#[test]
fn old_files_that_a_recovery_kept_are_forgotten_by_the_name_of_their_folder() {
    let home = Home::new(QUICK);
    home.ask("now-1", FREE, "The zucchini stands in the hall until Friday.");
    home.ok(&["drain"]);
    std::fs::write(home.path("run/summarizer.redb"), b"").unwrap();
    home.ok(&["recover"]);
    let folder = || {
        let mut names = std::fs::read_dir(home.path("run"))
            .unwrap()
            .map(|one| one.unwrap().file_name().into_string().unwrap());
        names.find(|name| name.starts_with("before-recovery-"))
    };
    let name = folder().unwrap();
    assert!(home.ok(&["forget", "--dry-run", &name]).contains("would be removed"));
    assert_eq!(folder().as_deref(), Some(name.as_str()));
    assert!(home.ok(&["forget", &name]).contains("was removed"));
    assert_eq!(folder(), None);
    assert_eq!(home.items().len(), 1, "nothing else goes");
    assert_eq!(home.run(&["forget", "before-recovery-nothing"]).status.code(), Some(5));
}

/// A list, a conversation and a text of several people on the bus `other`: afterwards every command says the day.
#[test]
fn names_on_the_bus_other_tell_the_day_on_which_they_were_forgotten() {
    let home = Home::new(QUICK);
    let talk = json!({"messages": [
        {"author": "Ana", "text": "The zucchini is paid on 3 May and comes on Saturday."},
        {"author": "Bo", "text": "We decided that Theobald brings the ladder."}]});
    let rows = "{\"id\":\"a\",\"text\":\"The harpsichord is paid on 3 May.\"}\n";
    let both = "Frieda Halm: The Brasenose key hangs by the door.\nIda Moor: We bring the ladder on Saturday.\n";
    for (name, text) in [
        ("talk.json", talk.to_string()),
        ("deep/list.jsonl", rows.to_owned()),
        ("both.txt", both.to_owned()),
    ] {
        let path = home.path(&format!("buses/other/{name}"));
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
        home.ok(&["submit", "--flow", FREE, "--bus", "other", "--id", name]);
    }
    home.ok(&["drain"]);
    assert_eq!(home.items().len(), 3);
    home.ok(&["forget", "talk.json", "deep/list.jsonl"]);
    let told: Value =
        serde_json::from_str(&home.ok(&["--json", "forget", "--author", "frieda halm"])).unwrap();
    assert!(told["left_in"].to_string().contains("other/both.txt"), "{told}");
    assert_eq!(home.items().len(), 0);
    for name in ["talk.json", "deep/list.jsonl", "both.txt"] {
        for command in ["read", "show", "explain", "forget"] {
            let told = all_told(&home, &[command, name]);
            assert!(
                told.contains("was forgotten on 2026-03-02, by request"),
                "{command} {name}: {told}"
            );
        }
    }
}

/// Lines and runs are counted, a backup knows their names, and a number that no line has is told as that.
#[test]
fn forgotten_lines_are_counted_and_known_in_a_backup_too() {
    let home = Home::new(QUICK);
    home.ask_with("gone-1", FREE, "The bicycle.", json!({"tone": "as Theobald says"}));
    std::fs::remove_file(home.path("buses/other/gone-1.txt")).unwrap();
    std::fs::write(
        home.path("run/queue.jsonl"),
        std::fs::read_to_string(home.path("run/queue.jsonl")).unwrap()
            + "{\"text\": \"Quillfeather said yes\"}\n",
    )
    .unwrap();
    home.ok(&["drain"]);
    let row = std::fs::read_to_string(home.path("run/quarantine.jsonl")).unwrap();
    let row: Value = serde_json::from_str(row.lines().next().unwrap()).unwrap();
    let bad = format!("quarantine:{}", row["seq"]);
    home.ok(&["forget", "gone-1", &bad]);
    assert!(home.ok(&["verify"]).contains("also forgotten by request: 2 request lines"));
    let counted: Value = serde_json::from_str(&home.ok(&["--json", "verify"])).unwrap();
    assert_eq!(counted["forgotten_lines"], 2, "{counted}");
    let shown = home.ok(&["quarantine", "show", &row["seq"].to_string()]);
    assert!(shown.contains("forgotten on 2026-03-02, by request"), "{shown}");
    let kept = tempfile::tempdir().unwrap();
    let copy = kept.path().join("copy");
    let copy = copy.to_str().unwrap();
    home.ok(&["backup", copy]);
    for name in ["gone-1", &bad] {
        let told = all_told(&home, &["--home", copy, "forget", name]);
        assert!(told.contains("was forgotten on 2026-03-02, by request"), "{name}: {told}");
    }
    for (name, what) in
        [("quarantine:9999", "no line in the quarantine"), ("quarantine:x", "has a number")]
    {
        let told = all_told(&home, &["forget", name]);
        assert!(told.contains(what) && told.contains("quarantine list"), "{name}: {told}");
    }
}
