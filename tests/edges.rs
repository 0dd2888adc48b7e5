//! Requests, sources and programs at the edges of what is usual, through the real queue: each says what
//! it is, once, and to the person who waits.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "tests may fail loudly")]

#[path = "support/flow_home.rs"]
#[allow(unused_imports, reason = "this file waits for no service")]
mod flow_home;
#[path = "support/running.rs"]
mod running;
#[path = "support/server.rs"]
mod server;

use flow_home::{FLOW, FREE, Home, QUICK, config, good};
use serde_json::{Value, json};
use server::{Server, status};

/// A queue line over files of the bus `other`.
fn line(id: &str, files: &[&str], flow: &str, more: Value) -> Value {
    let mut line = json!({
        "schema_version": "summary_request.v1", "request_id": id,
        "created_at": "2026-02-19T08:00:00Z", "urgency": "now",
        "requested_by": {"repo": "tests", "component": "edges", "version": "dev"},
        "work": {"output_bus": "summary_bus", "output_kind": "summary_item",
                 "summary_kind": "document_summary", "summary_subkind": "test",
                 "flow_ref": {"kind": "registry", "flow_id": flow}, "params": {}},
        "input": {"mode": "ids", "bus": "other", "ids": files},
    });
    for (name, value) in more.as_object().unwrap() {
        line[name] = value.clone();
    }
    line
}

fn with_params(id: &str, file: &str, params: Value) -> Value {
    let mut line = line(id, &[file], FREE, json!({}));
    line["work"]["params"] = params;
    line
}

fn append(home: &Home, line: &Value) {
    use std::io::Write as _;
    let mut options = std::fs::OpenOptions::new();
    let queue = options.create(true).append(true).open(home.path("run/queue.jsonl"));
    writeln!(queue.unwrap(), "{line}").unwrap();
}

fn put(home: &Home, name: &str, text: &str) {
    std::fs::write(home.path(&format!("buses/other/{name}")), text).unwrap();
}

/// Drains; gives the exit code and all that was said.
fn drain(home: &Home) -> (Option<i32>, String) {
    let ran = home.run(&["drain"]);
    (ran.status.code(), String::from_utf8([ran.stdout, ran.stderr].concat()).unwrap())
}

#[test]
fn now_does_not_wait_for_the_next_attempt_of_a_scheduled_twin() {
    let server = Server::start(vec![status(503, &[], "{}"), good()]);
    let slow = "[retry]\nbase_delay = \"1 h\"\nmax_delay = \"1 h\"\n";
    let home = Home::new(&config(&server, "", slow));
    put(&home, "a.txt", "The meeting moved to Tuesday.");
    let scheduled = json!({"urgency": "scheduled", "not_before": "2026-01-01T00:00:00Z"});
    append(&home, &line("scheduled", &["a.txt"], FLOW, scheduled));
    drain(&home);
    assert_eq!(home.last_ack("scheduled")["status"], "failed_transient");
    append(&home, &line("now", &["a.txt"], FLOW, json!({})));
    let (code, said) = drain(&home);
    assert_eq!(code, Some(0), "{said}");
    let ends: Vec<Value> =
        ["scheduled", "now"].iter().map(|id| home.last_ack(id)["status"].clone()).collect();
    assert_eq!(ends, ["completed", "duplicate"]);
    assert_eq!((home.items().len(), server.seen().len()), (1, 2));
    home.ok(&["replay", "--verify"]);
    home.ok(&["verify"]);
}

#[test]
fn a_parameter_that_is_null_is_absent_and_a_bad_one_is_named() {
    let home = Home::new("");
    put(&home, "a.txt", "The meeting moved to Tuesday.");
    let nulls = json!({"publish": null, "day": null, "project": null, "again": null,
                       "max_tokens": null, "temperature": null, "seed": null});
    append(&home, &with_params("null", "a.txt", nulls));
    let bad = [
        ("publish", json!("no")),
        ("day", json!("yesterday")),
        ("project", json!(7)),
        ("max_tokens", json!("many")),
    ];
    for (name, value) in &bad {
        append(&home, &with_params(name, "a.txt", json!({*name: value})));
    }
    let mut priority = line("priority", &["a.txt"], FREE, json!({"priority": 9, "deadline": null}));
    priority["work"]["flow_ref"]["variant"] = Value::Null;
    append(&home, &priority);
    drain(&home);
    assert_eq!(home.last_ack("null")["status"], "completed");
    for (name, _) in bad {
        let ack = home.last_ack(name);
        assert_eq!(ack["reason_code"], "invalid_params", "{ack}");
        assert!(ack["message"].as_str().unwrap().contains(name), "{ack}");
    }
    let quarantined = std::fs::read_to_string(home.path("run/quarantine.jsonl")).unwrap();
    assert!(quarantined.contains("/priority"), "{quarantined}");
    assert!(!quarantined.contains("/deadline"), "{quarantined}");
}

#[test]
fn every_mark_as_private_in_the_parameters_of_a_request_is_obeyed() {
    let home = Home::new("");
    put(&home, "a.txt", "The meeting moved to Tuesday.");
    let marks = [
        json!({"private": true}),
        json!({"draft": "yes"}),
        json!({"visibility": "private"}),
        json!({"publish": false}),
        json!({"flags": {"private": true}}),
        json!({"privado": "sí"}),
    ];
    for (number, mark) in marks.iter().enumerate() {
        append(&home, &with_params(&format!("r{number}"), "a.txt", mark.clone()));
    }
    append(&home, &with_params("open", "a.txt", json!({"private": false})));
    drain(&home);
    let publish = |id: &str| -> Value {
        let shown: Value = serde_json::from_str(&home.ok(&["--json", "read", id])).unwrap();
        shown["meta"]["publish"].clone()
    };
    for (number, mark) in marks.iter().enumerate() {
        assert_eq!(publish(&format!("r{number}")), false, "{mark}");
        let warnings = home.last_ack(&format!("r{number}"))["warnings"].clone();
        assert_eq!(warnings, json!([]), "{mark}");
    }
    assert_eq!(publish("open"), Value::Null);
}

#[test]
fn a_path_that_can_never_be_read_is_refused_at_once() {
    let home = Home::new("");
    let other = home.path("buses/other");
    put(&home, "file.txt", "A text.");
    let made = std::process::Command::new("mkfifo").arg(other.join("pipe.txt")).status();
    assert!(made.unwrap().success());
    std::os::unix::fs::symlink("loop.txt", other.join("loop2.txt")).unwrap();
    std::os::unix::fs::symlink("loop2.txt", other.join("loop.txt")).unwrap();
    std::os::unix::fs::symlink("/etc/hostname", other.join("out.txt")).unwrap();
    let long = format!("{}.txt", "a".repeat(5_000));
    let names = ["pipe.txt", "loop.txt", "file.txt/inner.txt", "nul\u{0}.txt", &long];
    for (number, name) in names.iter().enumerate() {
        append(&home, &line(&format!("ids {number}"), &[name], FREE, json!({})));
        let input = json!({"mode": "selection_manifest", "manifest_path": format!("other/{name}"),
                           "selection_hash": format!("sha256:{}", "0".repeat(64))});
        append(&home, &line(&format!("manifest {number}"), &[], FREE, json!({"input": input})));
    }
    append(&home, &line("outside", &["out.txt"], FREE, json!({})));
    drain(&home);
    assert_eq!(home.last_ack("outside")["reason_code"], "path_outside_bus_home");
    for (number, name) in names.iter().enumerate() {
        for (kind, reason) in
            [("ids", "unknown_source_id"), ("manifest", "selection_manifest_missing")]
        {
            let ack = home.last_ack(&format!("{kind} {number}"));
            let told = (&ack["status"], &ack["reason_code"]);
            assert_eq!(told, (&"rejected_invalid_input".into(), &reason.into()), "{name}: {ack}");
            assert!(ack["message"].as_str().unwrap().len() < 600, "{ack}");
        }
    }
    // What is published names no place of this machine. Reading a pipe would wait for a writer.
    std::fs::remove_file(other.join("pipe.txt")).unwrap();
    let machine = home.0.path().to_str().unwrap();
    for (file, bytes) in home.files().iter().filter(|(file, _)| file.starts_with("buses/")) {
        assert!(!String::from_utf8_lossy(bytes).contains(machine), "{file} names {machine}");
    }
    home.ok(&["verify"]);
}

#[test]
fn the_last_words_of_a_program_that_fails_are_kept() {
    let script = "echo 'loading' >&2; cat >&2; printf '\\033[31mno GPU\\342\\200\\256 found, ask \
                  ana@example.org\\007\\n' >&2; exit 3";
    let provider = format!(
        "{QUICK}\n[provider.local]\nkind = \"command\"\ncommand = [\"sh\", \"-c\", {}]\n\
         [flow.\"{FLOW}\"]\nprovider = \"local\"\n",
        json!(script)
    );
    let home = Home::new(&provider);
    put(&home, "a.txt", "The meeting of the garden club moved to Tuesday.");
    append(&home, &line("r", &["a.txt"], FLOW, json!({})));
    let (_, said) = drain(&home);
    let ack = home.last_ack("r");
    let message = ack["message"].as_str().unwrap();
    assert!(message.contains("exit code 3; its last words: "), "{message}");
    assert!(message.contains("no GPU(U+202E) found, ask [email]"), "{message}");
    assert!(!message.contains("garden club"), "the prompt is not repeated: {message}");
    for text in [said, home.ok(&["show", "r"])] {
        assert!(text.contains("no GPU(U+202E) found"), "{text}");
    }
}

/// Characters that ring, colour, move the cursor, end a line in some readers or turn the direction.
const HOSTILE: &str = "x\u{1b}[2J\u{1b}]0;title\u{7}\u{9b}31m\u{202e}\u{2028}\u{2066}\u{85}\u{200f}\u{61c}\u{e0041}\u{e007f}y";

fn steers(c: char) -> bool {
    c.is_control() && !matches!(c, '\n' | '\t')
        || matches!(c, '\u{fdd0}'..='\u{fdef}' | '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{e0000}'..='\u{e007f}')
}

/// A home that has met hostile text in every member that a person or a program can fill.
fn hostile_home() -> Home {
    let home = Home::new("");
    let note = format!(
        "---\ntitle: {title}\nauthor: {title}\ntags: [{title}]\nproject: {title}\n---\n# {HOSTILE}\n\nWe decided \
         to buy {HOSTILE} boats. Ana must call the bank by 2026-03-01. TODO: send {HOSTILE}.\n",
        title = json!(HOSTILE)
    );
    let name = "n\u{1b}[31m\u{202e}\u{2028}.md";
    put(&home, name, &note);
    put(&home, "plain.md", &note);
    let params = json!({"project": HOSTILE});
    for (id, file) in [(format!("{HOSTILE}1"), name), ("two".to_owned(), "plain.md")] {
        let mut line = with_params(&id, file, params.clone());
        line["requested_by"] = json!({"repo": HOSTILE, "component": HOSTILE, "version": HOSTILE});
        line["work"]["subkind"] = HOSTILE.into();
        line["work"]["flow_ref"]["flow_id"] = "docs.chunk_set.summarize.brief.v1".into();
        (line["notes"], line["trace"]) = (HOSTILE.into(), json!({"user": HOSTILE}));
        append(&home, &line);
    }
    append(&home, &line(&format!("{HOSTILE}3"), &[HOSTILE], FREE, json!({})));
    append(&home, &line("four", &["plain.md"], &format!("{HOSTILE}.v1"), json!({})));
    append(&home, &with_params("five", "plain.md", json!({"publish": HOSTILE})));
    append(&home, &line("six", &["plain.md"], FREE, json!({"urgency": HOSTILE, "work": HOSTILE})));
    home
}

#[test]
fn no_text_from_elsewhere_steers_a_terminal() {
    let home = hostile_home();
    let first = format!("{HOSTILE}1");
    let folder = home.path("in");
    std::fs::create_dir_all(folder.join(HOSTILE.replace('/', ""))).unwrap();
    std::fs::write(folder.join("a\u{1b}[31m\u{7}.md"), HOSTILE).unwrap();
    std::fs::write(folder.join("b\u{1b}[31m\u{7}.xyz"), [0, 1, 2]).unwrap();
    let folder = folder.to_str().unwrap().to_owned();
    let bad = format!("--no-such={HOSTILE}");
    let commands: Vec<Vec<&str>> = vec![
        vec!["-v", "drain"],
        vec!["digest", "build"],
        vec!["status"],
        vec!["requests"],
        vec!["show", &first],
        vec!["show", "two"],
        vec!["show", "four"],
        vec!["show", "five"],
        vec!["show", HOSTILE],
        vec!["explain", "two"],
        vec!["explain", "two", "--verify"],
        vec!["explain", &first],
        vec!["read"],
        vec!["read", "--long", "--evidence"],
        vec!["read", HOSTILE],
        vec!["read", "--project", HOSTILE],
        vec!["read", "--day", "2026-02-19"],
        vec!["search", "boats"],
        vec!["search", HOSTILE],
        vec!["task", "list"],
        vec!["trace", "other:plain.md"],
        vec!["quarantine", "list"],
        vec!["digest", "list"],
        vec!["digest", "show"],
        vec!["digest", "show", HOSTILE],
        vec!["digest", "preview"],
        vec!["log", "dump"],
        vec!["log", "verify"],
        vec!["verify"],
        vec!["replay", "--verify"],
        vec!["doctor"],
        vec!["config"],
        vec!["select", "--bus", "summary_bus", "--day", "2026-02-19"],
        vec!["sum", &folder],
        vec!["add", &folder],
        vec!["add", "--dry-run", &folder],
        vec!["import", &folder],
        vec!["submit", "--flow", HOSTILE, "--id", "plain.md"],
        vec!["retry", HOSTILE],
        vec!["cancel", HOSTILE],
        vec!["registry", "list"],
        vec!["perspectives", "draft", "--objective", HOSTILE],
        vec!["flow", "run", FREE, "--input", HOSTILE],
        vec!["status", &bad],
    ];
    let mut wrong = Vec::new();
    for args in &commands {
        for json in [false, true] {
            let args: Vec<&str> = args.iter().copied().chain(json.then_some("--json")).collect();
            let ran = home.run(&args);
            let said = String::from_utf8([ran.stdout, ran.stderr].concat()).unwrap();
            if let Some(line) = said.lines().find(|line| line.chars().any(steers)) {
                wrong.push(format!("{args:?}: {line:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    // They are not obeyed, and a person sees that they are there.
    let shown = |said: &str| said.contains("(U+202E)") && said.contains("(U+E0041)");
    for args in [["read", "--long"].as_slice(), &["show", "two"], &["task", "list"]] {
        let said = home.run(args).stdout;
        assert!(shown(&String::from_utf8(said).unwrap()), "{args:?}");
    }
    // Narratives and memos are read in terminals too.
    let mut pages = 0;
    let mut folders = vec![home.path("run"), home.path("buses")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|one| one == "md")
                && !path.starts_with(home.path("buses/other"))
            {
                let text = std::fs::read_to_string(&path).unwrap();
                assert!(!text.chars().any(steers), "{}: {text:?}", path.display());
                pages += 1;
            }
        }
    }
    assert!(pages > 0, "there is a page to look at");
}

#[test]
fn an_answer_that_cannot_be_read_is_counted_as_a_cost_and_its_cause_is_kept() {
    let broken = r#"{"choices": [{"message": {"content": "{\"cut"#;
    let json_head = [("content-type", "application/json")];
    let server = Server::start(vec![status(200, &json_head, broken), good()]);
    let price = "price_in = 1000\nprice_out = 1000";
    let home = Home::new(&config(&server, price, "[retry]\nbase_delay = \"1 h\"\n"));
    put(&home, "a.txt", "The meeting moved to Tuesday.");
    append(&home, &line("r", &["a.txt"], FLOW, json!({})));
    let (_, said) = drain(&home);
    let ack = home.last_ack("r");
    let told = (&ack["status"], &ack["cause"]);
    assert_eq!(told, (&"failed_transient".into(), &"invalid_answer".into()), "{ack}");
    assert!(said.contains("invalid_answer"), "{said}");
    let spent = |home: &Home| {
        let status = home.status();
        let provider = &status["charged"]["providers"]["loop"];
        (provider["calls"].as_u64().unwrap_or(0), provider["cost"].as_f64().unwrap_or(0.0))
    };
    let (calls, cost) = spent(&home);
    assert!(calls == 1 && cost > 0.0, "{calls} {cost}");
    // A second call is made only by a second attempt, which the acks tell.
    home.ok(&["retry", "r"]);
    drain(&home);
    assert_eq!(
        (home.last_ack("r")["status"].as_str(), server.seen().len()),
        (Some("completed"), 2)
    );
    assert_eq!(home.acks("r").len(), 3);
    assert_eq!(spent(&home).0, 2);
}

fn pipe(home: &Home, path: &str) {
    let path = home.path(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(path).status().unwrap().success());
}

fn link(home: &Home, path: &str, to: &str) {
    let path = home.path(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::os::unix::fs::symlink(to, path).unwrap();
}

/// A queue that is no file is a mistake in the home, whatever it is instead and whichever command meets it.
#[test]
fn a_queue_that_is_no_file_is_a_mistake_in_the_input_and_doctor_names_it() {
    for what in ["folder", "pipe"] {
        let home = Home::new("");
        put(&home, "a.md", "A good text. It ends here.");
        match what {
            "folder" => std::fs::create_dir_all(home.path("run/queue.jsonl")).unwrap(),
            _ => pipe(&home, "run/queue.jsonl"),
        }
        for args in [&["drain"][..], &["serve"], &["submit", "--flow", FREE, "--id", "a.md"]] {
            let ran = home.run(args);
            let said = String::from_utf8_lossy(&ran.stderr).into_owned();
            assert_eq!(ran.status.code(), Some(5), "{what} {args:?}: {said}");
            assert!(said.contains("queue.path"), "{what} {args:?}: {said}");
        }
        let doctor = home.run(&["doctor"]);
        let said = String::from_utf8_lossy(&doctor.stdout).into_owned();
        assert_eq!(doctor.status.code(), Some(1), "{what}: {said}");
        assert!(said.contains("queue adopt"), "{what}: {said}");
    }
}

#[test]
fn a_folder_in_the_place_of_a_cache_gets_another_name_and_is_told_once() {
    let home = Home::new("");
    std::fs::create_dir_all(home.path("run/upstream-index.redb/kept")).unwrap();
    put(&home, "a.md", "A good text. It ends here.");
    append(&home, &line("good", &["a.md"], FREE, json!({})));
    assert!(drain(&home).1.contains("another"));
    assert_eq!(home.last_ack("good")["status"], "completed");
    assert!(home.path("run/upstream-index.redb.aside/kept").is_dir());
    assert!(!drain(&home).1.contains("another"));
}

#[test]
fn a_mistake_in_the_arguments_shows_what_steers_by_its_name() {
    let home = Home::new("");
    for args in [&["dr\u{202e}ain\u{1b}[31m"][..], &["--json", "status", "--n\u{202e}o\u{7}"]] {
        let ran = home.run(args);
        let said = String::from_utf8_lossy(&ran.stderr).into_owned();
        assert_eq!(ran.status.code(), Some(2), "{said:?}");
        assert!(!said.chars().any(steers), "{said:?}");
        assert!(said.contains("U+202E") || said.contains("\\u202e"), "{said:?}");
    }
}

#[test]
fn pipes_devices_and_links_in_every_place_hold_up_nothing() {
    let home = Home::new(QUICK);
    for day in ["2026-02-17", "2026-02-18"] {
        pipe(&home, &format!("buses/eventbus/manifest/{day}.manifest.json"));
        pipe(&home, &format!("buses/eventbus/daily/{day}.jsonl"));
        link(&home, &format!("buses/sessions/manifest/{day}.manifest.json"), "/dev/zero");
        link(&home, &format!("buses/chunks/manifest/{day}.manifest.json"), "/etc/passwd");
    }
    pipe(&home, "run/run_logs/pipe.jsonl");
    link(&home, "run/run_logs/zero.jsonl", "/dev/zero");
    pipe(&home, "buses/other/pipe.txt");
    link(&home, "buses/other/zero.txt", "/dev/zero");
    put(&home, "good.txt", "A good text. It ends here.");
    put(&home, "long.txt", &"x".repeat(2 << 20));
    for (bus, kind, id) in [
        ("event_bus", "event_summary", "evt_1"),
        ("session_bus", "session_summary", "ses_1"),
        ("chunk_bus", "document_summary", "doc_1"),
        ("other", "document_summary", "pipe.txt"),
        ("other", "document_summary", "zero.txt"),
        ("other", "document_summary", "long.txt"),
        ("other", "document_summary", "good.txt"),
    ] {
        let input = json!({"mode": "ids", "bus": bus, "ids": [id]});
        let mut line = line(id, &[], FREE, json!({"input": input}));
        line["work"]["summary_kind"] = kind.into();
        append(&home, &line);
    }
    for _ in 0..4 {
        drain(&home);
    }
    for id in ["evt_1", "ses_1", "doc_1", "pipe.txt", "zero.txt"] {
        let ack = home.last_ack(id);
        assert_ne!(ack["status"], "completed", "{ack}");
        assert_ne!(ack["status"], "accepted", "{ack}");
    }
    for id in ["good.txt", "long.txt"] {
        assert_eq!(home.last_ack(id)["status"], "completed", "{}", home.last_ack(id));
    }
    // A queue that is no file ends the command.
    let home = Home::new("");
    pipe(&home, "run/queue.jsonl");
    let (code, said) = drain(&home);
    assert_eq!(code, Some(5), "{said}");
    assert!(said.contains("queue.path") && said.contains("run/queue.jsonl"), "{said}");
    // So does one that is a link out of its folder: its lines would be told in the quarantine.
    let home = Home::new("");
    std::fs::write(home.path("secret.txt"), "The secret word is xylophone.\n").unwrap();
    link(&home, "run/queue.jsonl", "../secret.txt");
    let (code, said) = drain(&home);
    assert_eq!(code, Some(5), "{said}");
    put(&home, "a.md", "A good text. It ends here.");
    let submitted = home.run(&["submit", "--flow", FREE, "--id", "a.md"]);
    assert_eq!(submitted.status.code(), Some(5), "{submitted:?}");
    let told = home.files().into_iter().filter(|(name, _)| name != "secret.txt");
    let told = told.map(|(_, bytes)| bytes).filter(|bytes| {
        let is_own = bytes.as_slice() == b"The secret word is xylophone.\n";
        !is_own && bytes.windows(9).any(|part| part == b"xylophone")
    });
    assert_eq!(told.count(), 0);
    std::fs::remove_file(home.path("run/queue.jsonl")).unwrap();
    // A link within the folder is followed.
    link(&home, "run/queue.jsonl", "lines.jsonl");
    std::fs::write(home.path("run/lines.jsonl"), "").unwrap();
    append(&home, &line("good", &["a.md"], FREE, json!({})));
    drain(&home);
    assert_eq!(home.last_ack("good")["status"], "completed");
}

#[test]
fn no_link_in_any_place_leads_out_of_its_folder() {
    let home = Home::new(QUICK);
    let secret = "The secret word is xylophone.";
    let run_log = json!({"event_id": "e1", "run_id": "r1", "seq": 1, "ts": "2026-02-19T08:00:00Z",
                         "event_type": "note", "payload": {"text": secret}});
    std::fs::write(home.path("secret.jsonl"), format!("{run_log}\n")).unwrap();
    link(&home, "buses/eventbus/daily/2026-02-17.jsonl", "../../../secret.jsonl");
    link(&home, "run/run_logs/a.jsonl", "../../secret.jsonl");
    std::fs::create_dir_all(home.path("mail")).unwrap();
    link(&home, "mail/a.jsonl", "../secret.jsonl");
    std::fs::write(
        home.path("mail/b.jsonl"),
        "{\"time\": \"2026-02-19T08:00:00Z\", \"text\": \"A note.\"}\n",
    )
    .unwrap();
    home.ok(&[
        "import",
        "jsonl",
        "--time",
        "time,ts",
        "--text",
        "text,payload.text",
        home.path("mail").to_str().unwrap(),
    ]);
    drain(&home);
    pipe(&home, "buses/other/pipe.txt");
    link(&home, "buses/other/round.txt", "round.txt");
    link(&home, "buses/other/up", "..");
    link(&home, "buses/other/out.txt", "../../secret.jsonl");
    let copy = tempfile::tempdir().unwrap();
    let copied = home.ok(&["--json", "backup", copy.path().join("copy").to_str().unwrap()]);
    for name in ["pipe.txt", "round.txt", "up", "out.txt"] {
        assert!(copied.contains(&format!("buses/other/{name} is ")), "{copied}");
    }
    for (name, bytes) in Home(copy).files() {
        assert!(!bytes.windows(9).any(|part| part == b"xylophone"), "{name}");
    }
    let verified = home.run(&["verify"]);
    let said =
        String::from_utf8_lossy(&[&*verified.stdout, &*verified.stderr].concat()).into_owned();
    assert!(!verified.status.success() && said.contains("leads out of the folder"), "{said}");
    for name in ["pipe.txt", "round.txt", "up", "out.txt"] {
        std::fs::remove_file(home.path("buses/other").join(name)).unwrap();
    }
    let is_own = |name: &str| {
        name == "secret.jsonl" || name.ends_with("2026-02-17.jsonl") || name.ends_with("/a.jsonl")
    };
    for (name, bytes) in home.files().into_iter().filter(|(name, _)| !is_own(name)) {
        assert!(!bytes.windows(9).any(|part| part == b"xylophone"), "{name}");
    }
    for (event, body) in home.events() {
        let body = String::from_utf8_lossy(&body.unwrap_or_default()).into_owned();
        assert!(!format!("{event:?}{body}").contains("xylophone"), "{event:?}");
    }
}

#[test]
fn no_link_that_takes_the_place_of_a_file_leads_out_of_the_bus() {
    use std::sync::atomic::{AtomicBool, Ordering};
    let home = Home::new(QUICK);
    let other = home.path("buses/other");
    std::fs::write(home.path("outside.txt"), "The secret word is xylophone.").unwrap();
    put(&home, "a.txt", "A good text. It ends here.");
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                std::os::unix::fs::symlink("../../outside.txt", other.join("new")).unwrap();
                std::fs::rename(other.join("new"), other.join("a.txt")).unwrap();
                std::fs::write(other.join("new"), "A good text. It ends here.").unwrap();
                std::fs::rename(other.join("new"), other.join("a.txt")).unwrap();
            }
        });
        for round in 0..4 {
            for number in 0..50 {
                let id = format!("r{round}-{number}");
                let key = json!({"idempotency_key": id});
                append(&home, &line(&id, &["a.txt"], FREE, key));
            }
            drain(&home);
        }
        is_over.store(true, Ordering::Relaxed);
    });
    let files = home.files();
    let published = files.iter().filter(|(path, _)| path.starts_with("buses/summaries"));
    for (path, bytes) in published {
        assert!(!String::from_utf8_lossy(bytes).contains("xylophone"), "{path}");
    }
}

#[test]
fn every_command_has_the_same_day_of_a_summary() {
    let home = Home::new("");
    put(&home, "undated.txt", "The meeting moved to Tuesday.");
    let dated = "---\ndate: 2026-02-11\n---\nThe roof was repaired on Monday.\n";
    put(&home, "dated.txt", dated);
    append(&home, &with_params("undated", "undated.txt", json!({"day": "2026-02-05"})));
    append(&home, &with_params("dated", "dated.txt", json!({"day": "2026-02-03"})));
    drain(&home);
    home.ok(&["digest", "build"]);
    let days = [("2026-02-05", "meeting"), ("2026-02-11", "roof")];
    for (day, word) in days {
        let selected = home.ok(&["--json", "select", "--bus", "summary_bus", "--day", day]);
        let selected: Value = serde_json::from_str(&selected).unwrap();
        assert_eq!((&selected["items"], &selected["missing_days"]), (&json!(1), &json!([])));
        for args in [&["read", "--day", day][..], &["digest", "show", "--day", day]] {
            assert!(home.ok(args).contains(word), "{args:?}");
        }
    }
    // Something is published under this day, and nothing is of it.
    for args in [
        &["select", "--bus", "summary_bus", "--day", "2026-02-03"][..],
        &["digest", "preview", "--window", "2026-02-03"],
        &["digest", "show", "--day", "2026-02-03"],
        &["read", "--day", "2026-02-03"],
    ] {
        let ran = home.run(args);
        let said = String::from_utf8([ran.stdout, ran.stderr].concat()).unwrap();
        assert!(said.contains("of texts of other days"), "{args:?}: {said}");
        assert!(!said.contains("without a summary"), "{args:?}: {said}");
    }
    let range = ["--from", "2026-02-03", "--to", "2026-02-05"];
    let selected = home.ok(&[&["--json", "select", "--bus", "summary_bus"], &range[..]].concat());
    let selected: Value = serde_json::from_str(&selected).unwrap();
    assert_eq!(selected["days_of_other_texts"], json!(["2026-02-03"]));
    assert_eq!(selected["missing_days"], json!(["2026-02-04"]));
    let since = home.ok(&["read", "--since", "2026-02-06"]);
    assert!(since.contains("roof") && !since.contains("meeting"), "{since}");
    home.ok(&["verify"]);
}

#[test]
fn a_reader_of_a_day_opens_no_partition_without_it() {
    let home = Home::new("");
    let texts = [("roof", "2026-02-11", "2026-02-03"), ("pump", "2026-02-20", "2026-02-20")];
    for (name, day, filed) in texts {
        let text = format!("---\ndate: {day}\n---\nThe {name} was repaired on Monday.\n");
        put(&home, &format!("{name}.txt"), &text);
        append(&home, &with_params(name, &format!("{name}.txt"), json!({"day": filed})));
    }
    put(&home, "undated.txt", "The meeting moved to Tuesday.");
    append(&home, &with_params("undated", "undated.txt", json!({"day": "2026-02-20"})));
    drain(&home);
    let asked = [
        &["read", "--day", "2026-02-11"][..],
        &["read", "--day", "2026-02-12", "--all-versions"],
        &["read", "--since", "2026-02-20"],
        &["search", "repaired", "--since", "2026-02-20"],
        &["read", "--day", "2026-02-20"],
    ];
    let before = asked.map(|args| home.ok(args));
    assert!(before[0].contains("roof") && !before[0].contains("pump"), "{}", before[0]);
    assert!(before[2].contains("pump") && before[2].contains("meeting"), "{}", before[2]);
    assert_eq!(before[2], before[4]);
    let damage = |day: &str| {
        let path = home.path(&format!("buses/summaries/documents/{day}.documents.summary.jsonl"));
        let whole = std::fs::read(&path).unwrap();
        std::fs::write(&path, &whole[..10]).unwrap();
        (path, whole)
    };
    let (path, whole) = damage("2026-02-20");
    assert_eq!([home.ok(asked[0]), home.ok(asked[1])], [before[0].clone(), before[1].clone()]);
    assert!(!home.run(asked[4]).status.success());
    std::fs::write(path, whole).unwrap();
    damage("2026-02-03");
    for at in 2..5 {
        assert_eq!(home.ok(asked[at]), before[at], "{:?}", asked[at]);
    }
    assert!(!home.run(asked[0]).status.success());
}

#[test]
fn a_duplicate_whose_source_was_deleted_says_so() {
    let home = Home::new("");
    put(&home, "a.txt", "The meeting moved to Tuesday.");
    append(&home, &with_params("one", "a.txt", json!({})));
    drain(&home);
    std::fs::remove_file(home.path("buses/other/a.txt")).unwrap();
    append(&home, &with_params("two", "a.txt", json!({})));
    let (_, said) = drain(&home);
    assert!(said.contains("is gone since (two)"), "{said}");
    let ack = home.last_ack("two");
    assert_eq!(
        (&ack["status"], &ack["warnings"]),
        (&json!("duplicate"), &json!(["source_missing"]))
    );
    assert!(home.ok(&["show", "two"]).contains("not there any more"));
}

#[test]
fn a_draft_for_a_run_names_the_agents_of_that_run() {
    let home = Home::new("");
    let agents = home.path("research/run-1/agents");
    std::fs::create_dir_all(&agents).unwrap();
    for name in ["SoilResearcher", "WaterResearcher"] {
        std::fs::write(agents.join(format!("{name}.md")), "# An agent\n").unwrap();
    }
    let root = home.path("research").to_string_lossy().into_owned();
    let draft = |run: &str| {
        let args = ["perspectives", "draft", "--objective", "Which pump lasts longest?"];
        let ran = home.run(&[&args[..], &["--run-id", run, "--research-root", &root]].concat());
        let said = String::from_utf8(ran.stderr).unwrap();
        assert!(ran.status.success(), "{said}");
        (ran.stdout, said)
    };
    let (drafted, said) = draft("run-1");
    assert!(!said.contains("warning"), "{said}");
    let value: Value = serde_json::from_slice(&drafted).unwrap();
    let named: std::collections::BTreeSet<&str> = value["perspectives"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|one| one["agent_type"].as_str())
        .collect();
    assert_eq!(named, ["SoilResearcher", "WaterResearcher"].into());
    let file = home.path("draft.json");
    std::fs::write(&file, &drafted).unwrap();
    let from = file.to_string_lossy().into_owned();
    home.ok(&["perspectives", "write", "run-1", "--from", &from, "--research-root", &root]);
    assert!(draft("run-2").1.contains("there is no run"), "an id that was misspelled");
}
