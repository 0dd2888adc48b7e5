//! Failures as a person meets them: in acks, run records, `show`, `status`, `requests` and the last
//! lines of `drain`. Every request comes through the real queue.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "tests may fail loudly")]

mod bus_support;
#[path = "support/flow_home.rs"]
mod flow_home;
#[path = "support/running.rs"]
mod running;
#[path = "support/server.rs"]
mod server;

use std::sync::Arc;
use std::time::Duration;

use flow_home::{FLOW, FREE, Home, QUICK, config, good};
use running::until;
use serde_json::{Value, json};
use server::{Act, Server, chat, status};

/// The run record of the last session.
fn last_record(home: &Home) -> Value {
    let folder = home.path("buses/artifacts/run_records");
    let mut records: Vec<Value> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| {
            serde_json::from_slice(&std::fs::read(entry.unwrap().path()).unwrap()).unwrap()
        })
        .collect();
    records.sort_by_key(|record| record["created_at"].as_str().unwrap().to_owned());
    records.pop().unwrap()
}

/// Drains with `--fail-on-error`; gives the exit code and all that was said.
fn drain(home: &Home) -> (Option<i32>, String) {
    let ran = home.run(&["drain", "--fail-on-error"]);
    let said = [ran.stdout, ran.stderr].concat();
    (ran.status.code(), String::from_utf8(said).unwrap())
}

/// The provider `loop` at an address.
fn at(base: &str, more: &str) -> String {
    format!(
        "{more}\n[provider.loop]\nkind = \"openai\"\nbase_url = \"{base}/v1\"\nmodel = \"loop-1\"\n\
         [flow.\"{FLOW}\"]\nprovider = \"loop\"\n"
    )
}

/// An address at which nothing listens. A free port could be taken by another test meanwhile.
fn closed_port() -> String {
    "http://127.0.0.1:1".to_owned()
}

#[test]
fn a_run_whose_calls_failed_says_so_everywhere() {
    let home = Home::new(&at(&closed_port(), ""));
    (0..7).for_each(|number| home.ask(&format!("r{number}"), FLOW, "A text."));
    let (code, said) = drain(&home);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("unavailable (connection_refused)"), "{said}");
    assert!(said.contains("the next attempt: 20"), "{said}");
    for number in 0..7 {
        // Also of those that came after the provider was left alone.
        let ack = home.last_ack(&format!("r{number}"));
        let told = (&ack["status"], &ack["reason_code"], &ack["cause"]);
        assert_eq!(
            told,
            (&"failed_transient".into(), &"unavailable".into(), &"connection_refused".into())
        );
        assert!(ack["message"].as_str().unwrap().contains("connection refused"), "{ack}");
        assert!(ack["retry_at"].is_string(), "{ack}");
    }
    let record = last_record(&home);
    assert_eq!(record["status"], "error", "{record:#}");
    assert!(record["counters"]["errors_count"].as_u64() > Some(0));
    let details = &record["errors"][0]["details"];
    assert_eq!(details["cause"], "connection_refused");
    assert_eq!(details["calls"], 1, "a call that was tried counts");
    let status = home.status();
    let trouble = &status["requests"]["troubles"][0];
    assert_eq!(
        (&trouble["cause"], &trouble["requests"]),
        (&"connection_refused".into(), &7.into())
    );
    assert!(home.ok(&["requests"]).contains("unavailable (connection_refused)"));
    assert!(home.ok(&["show", "r0"]).contains("connection_refused"));
    home.ok(&["verify"]);
    // Work that is left after a failure is told without an option, also by a session that tried nothing.
    let ran = home.run(&["drain"]);
    let said = String::from_utf8_lossy(&ran.stderr).into_owned();
    assert_eq!(ran.status.code(), Some(1), "{said}");
}

#[test]
fn who_reads_is_told_how_many_requests_failed_or_wait() {
    let home = Home::new("");
    home.ask("made", FLOW, "The roof was repaired on Monday.");
    home.ok(&["drain"]);
    let read = |args: &[&str]| {
        let ran = home.run(args);
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (text(ran.stdout), text(ran.stderr))
    };
    let (_, said) = read(&["read"]);
    assert!(!said.contains("status"), "{said}");
    assert_eq!(read(&["--json", "read"]).0.lines().count(), 1);
    // On a slow machine a short delay ends before the test does.
    let later = "[retry]\nbase_delay = \"1 h\"\nmax_delay = \"1 h\"\n";
    home.configure(&at(&closed_port(), later));
    home.ask("left", FLOW, "The cellar is wet.");
    home.run(&["drain"]);
    let (out, said) = read(&["read"]);
    assert!(said.contains("1 request waits: `summarizer status` says why"), "{out}{said}");
    home.configure("");
    home.ask_with("wrong", FLOW, "The door is open.", json!({"chunks": "Another text."}));
    home.run(&["drain"]);
    let (_, said) = read(&["read", "--last", "1"]);
    assert!(said.contains("1 request failed, 1 waits: `summarizer status` says why"), "{said}");
    let (out, _) = read(&["--json", "read"]);
    let last: Value = serde_json::from_str(out.lines().last().unwrap()).unwrap();
    assert_eq!(last, json!({"requests": {"failed": 1, "waiting": 1}}));
    let (_, said) = read(&["read", "other:made.txt"]);
    assert!(!said.contains("says why"), "who names a summary asks for nothing else: {said}");
}

/// The second time the request waits for the first one, which is tried again in an hour.
#[test]
fn add_says_what_its_requests_still_wait_for() {
    let later = "[retry]\nbase_delay = \"1 h\"\nmax_delay = \"1 h\"\n";
    let home = Home::new(&at(&closed_port(), later));
    std::fs::write(home.path("note.txt"), "The roof was repaired on Monday.").unwrap();
    let note = home.path("note.txt");
    let add = || {
        let ran = home.run(&["add", "--flow", FLOW, note.to_str().unwrap()]);
        (ran.status.code(), String::from_utf8(ran.stderr).unwrap())
    };
    for _ in 0..2 {
        let (code, said) = add();
        assert_eq!(code, Some(1), "{said}");
        assert!(said.contains("note.txt") && said.contains("connection"), "{said}");
    }
    home.ok(&["pause"]);
    std::fs::write(&note, "The roof leaks again.").unwrap();
    let (code, said) = add();
    assert_eq!(code, Some(0), "a pause is no failure: {said}");
    assert!(said.contains("note.txt: the service is paused: requests wait until"), "{said}");
    assert!(said.contains("1 asked for") && said.contains("summarizer status"), "{said}");
}

/// A limit that was kept is no failure, with a service and without one, and its words say so.
#[test]
fn add_counts_a_wait_for_a_budget_as_no_failure() {
    let server = Server::start(vec![used_up()]);
    let home = Home::new(&config(&server, "", DAY));
    let add = |name: &str| {
        std::fs::write(home.path(name), format!("The roof was repaired on Monday: {name}."))
            .unwrap();
        let path = home.path(name);
        let ran = home.run(&["add", "--flow", FLOW, path.to_str().unwrap()]);
        (ran.status.code(), String::from_utf8(ran.stderr).unwrap())
    };
    let put_off = |(code, said): (Option<i32>, String), name: &str| {
        assert_eq!(code, Some(0), "{said}");
        assert!(said.contains(&format!("{name}: put off: rate limited (budget)")), "{said}");
        assert!(said.contains("1 asked for") && !said.contains("failed"), "{said}");
    };
    let (code, said) = add("first.txt");
    assert_eq!(code, Some(0), "{said}");
    put_off(add("second.txt"), "second.txt");
    let _service = home.serve();
    put_off(add("third.txt"), "third.txt");
    assert_eq!(server.seen().len(), 1);
}

#[test]
fn a_request_without_a_summary_is_explained_by_every_command_that_is_asked_for_it() {
    let home = Home::new(&at(&closed_port(), ""));
    home.ask("r0", FLOW, "A text.");
    drain(&home);
    for command in ["read", "explain"] {
        let ran = home.run(&[command, "r0"]);
        let said = String::from_utf8(ran.stderr).unwrap();
        assert_eq!(ran.status.code(), Some(5), "{command}: {said}");
        assert!(said.contains("request r0 made no summary"), "{command}: {said}");
        assert!(said.contains("(connection_refused)"), "{command}: {said}");
        assert!(!said.contains("did you mean"), "{command}: {said}");
    }
    // `add` names what failed and when it is tried again, and exits with 1.
    let note = home.path("note.txt");
    std::fs::write(&note, "The meeting of the garden club moved to Tuesday.").unwrap();
    let note = note.to_str().unwrap();
    let ran = home.run(&["add", note, "--flow", FLOW]);
    let said = String::from_utf8(ran.stderr).unwrap();
    assert_eq!(ran.status.code(), Some(1), "{said}");
    assert!(said.contains("note.txt: ") && said.contains("(connection refused)"), "{said}");
    assert!(said.contains("the next attempt: 20"), "{said}");
    std::fs::write(note, "The meeting of the garden club moved to Friday.").unwrap();
    let ran = home.run(&["--json", "add", note, "--flow", FLOW]);
    let told: Value = serde_json::from_slice(&ran.stdout).unwrap();
    assert_eq!(told["failing"][0]["cause"], "connection_refused", "{told}");
}

#[test]
fn a_request_that_completed_shows_no_old_cause() {
    let acts = vec![status(503, &[], "{}"), good()];
    let server = Server::start(acts);
    let home = Home::new(&config(&server, "", QUICK));
    home.ask("r", FLOW, "A text.");
    let until = (chrono::Utc::now() + chrono::Duration::days(4_000)).to_rfc3339();
    let ran = home.run(&["drain", "--fail-on-error", "--wait-until", &until]);
    let said = String::from_utf8_lossy(&ran.stderr).into_owned();
    assert_eq!(ran.status.code(), Some(0), "{said}");
    assert_eq!(home.last_ack("r")["status"], "completed");
    let shown: Value = serde_json::from_str(&home.ok(&["--json", "show", "r"])).unwrap();
    assert_eq!(
        (&shown["latest"]["reason_code"], &shown["latest"]["cause"]),
        (&Value::Null, &Value::Null)
    );
    let record = last_record(&home);
    assert_eq!(
        (&record["status"], &record["counters"]["errors_count"]),
        (&"success".into(), &0.into())
    );
    let kinds: Vec<&Value> =
        record["warnings"].as_array().unwrap().iter().map(|one| &one["type"]).collect();
    assert!(kinds.contains(&&json!("attempt_failed")), "{kinds:?}");
}

#[test]
fn each_cause_is_kept_next_to_the_reason() {
    let too_long = r#"{"error": {"message": "This model's maximum context length is 10 tokens"}}"#;
    let cases: [(&str, Act, &str, &str); 4] = [
        (
            "unauthorized",
            status(401, &[], r#"{"error": {"message": "no such key"}}"#),
            "model_error",
            "401",
        ),
        ("context_too_long", status(400, &[], too_long), "model_error", "maximum context length"),
        ("schema", chat("{\"nothing\": 1}"), "output_schema_violation", "schema"),
        ("server_error", status(500, &[], "{}"), "attempts_exhausted", "2 attempts failed"),
    ];
    for (cause, act, reason, words) in cases {
        let server = Server::start(vec![act]);
        let home = Home::new(&config(&server, "", QUICK));
        home.ask("r", FLOW, "A text.");
        let until = (chrono::Utc::now() + chrono::Duration::days(4_000)).to_rfc3339();
        let ran = home.run(&["drain", "--fail-on-error", "--wait-until", &until]);
        let said = String::from_utf8_lossy(&ran.stderr).into_owned();
        assert_eq!(ran.status.code(), Some(1), "{cause}: {said}");
        let ack = home.last_ack("r");
        let told = (ack["status"].as_str(), ack["reason_code"].as_str(), ack["cause"].as_str());
        assert_eq!(told, (Some("failed_permanent"), Some(reason), Some(cause)), "{ack}");
        assert!(ack["message"].as_str().unwrap().contains(words), "{ack}");
        assert!(said.contains(&format!("1 request failed: {reason} ({cause})")), "{said}");
        assert!(home.ok(&["show", "r"]).contains(cause));
        assert_eq!(last_record(&home)["errors"][0]["details"]["cause"], cause);
    }
}

#[test]
fn a_spent_budget_is_a_warning_and_names_the_next_attempt() {
    let server = Server::start(vec![good()]);
    let budget = |tokens: u64| format!("[budget]\nmax_tokens_per_day = {tokens}\n");
    let home = Home::new(&config(&server, "", &budget(10)));
    home.ask("never", FLOW, "A text.");
    let (code, said) = drain(&home);
    // No day has room for this call, so waiting for tomorrow would help nobody.
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("1 request failed: model_error (budget)"), "{said}");
    assert!(said.contains("raise it, or lower max_tokens"), "{said}");
    let needed = said.split_once("may take ").unwrap().1.split(' ').next().unwrap();
    home.configure(&config(&server, "", &budget(needed.parse::<u64>().unwrap() + 9)));
    home.ask("first", FLOW, "B text.");
    home.ok(&["drain"]);
    assert_eq!(home.last_ack("first")["status"], "completed");
    home.ask("second", FLOW, "C text.");
    let (code, said) = drain(&home);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("1 request put off: rate_limited (budget)"), "{said}");
    assert_eq!(home.last_ack("second")["cause"], "budget");
    assert_eq!(server.seen().len(), 1);
    let record = last_record(&home);
    assert_eq!(record["counters"]["errors_count"], 0);
    assert_eq!(record["warnings"][0]["type"], "budget");
}

#[test]
fn a_later_drain_names_the_failures_that_still_stand() {
    let home = Home::new(&at(&closed_port(), ""));
    (0..3).for_each(|number| home.ask(&format!("r{number}"), FLOW, "A text."));
    drain(&home);
    // No request is due, and the failures are the same as before.
    let (code, said) = drain(&home);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("3 requests failed for now: unavailable (connection_refused)"), "{said}");
    assert!(said.contains("the next attempt: 20"), "{said}");
}

#[test]
fn a_wait_says_at_once_that_no_service_runs_and_ends_at_its_timeout() {
    let home = Home::new("");
    std::fs::write(home.path("buses/other/a.txt"), "The meeting moved to Tuesday.").unwrap();
    let submit = |id: &str, more: &[&str]| {
        let args =
            [&["submit", "--flow", FREE, "--id", "a.txt", "--request-id", id][..], more].concat();
        let ran = home.run(&args);
        (ran.status.code(), String::from_utf8(ran.stderr).unwrap())
    };
    let (code, said) = submit("queued", &[]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("no service runs here") && said.contains("summarizer drain"), "{said}");
    assert!(home.ok(&["status"]).contains("bytes behind"), "a queue alone makes a home");
    let (code, said) = submit("waits", &["--wait", "--timeout", "200 ms"]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.starts_with("no service runs here"), "{said}");
    assert!(said.contains("1 request has not ended within 0.2 s: waits"), "{said}");
    home.ok(&["pause"]);
    let service = home.serve();
    let (code, said) = submit("paused", &["--wait", "--timeout", "1500 ms"]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("the service is paused") && said.contains("summarizer resume"), "{said}");
    home.ok(&["resume"]);
    let (code, said) = submit("runs", &["--wait", "--timeout", "10 min"]);
    assert_eq!(code, Some(0), "{said}");
    let said = home.ok(&["submit", "--flow", FREE, "--id", "a.txt", "--wait"]);
    assert!(said.contains("duplicate") && said.contains("a.txt\n  The meeting moved"), "{said}");
    drop(service);
}

/// A queue line with an urgency of its own.
fn line(id: &str, file: &str, more: Value) -> Value {
    let mut line = json!({
        "schema_version": "summary_request.v1", "request_id": id,
        "created_at": "2026-02-19T08:00:00Z", "urgency": "now",
        "requested_by": {"repo": "tests", "component": "failures", "version": "dev"},
        "work": {"output_bus": "summary_bus", "output_kind": "summary_item",
                 "summary_kind": "document_summary", "summary_subkind": "test",
                 "flow_ref": {"kind": "registry", "flow_id": FREE}, "params": {}},
        "input": {"mode": "ids", "bus": "other", "ids": [file]},
    });
    for (name, value) in more.as_object().unwrap() {
        line[name] = value.clone();
    }
    line
}

fn append(home: &Home, line: &Value) {
    use std::io::Write as _;
    let mut options = std::fs::OpenOptions::new();
    let queue = options.create(true).append(true).open(home.path("run/queue.jsonl"));
    writeln!(queue.unwrap(), "{line}").unwrap();
}

#[test]
fn now_goes_before_a_scheduled_twin_and_both_say_where_they_stand() {
    let home = Home::new("");
    std::fs::write(home.path("buses/other/a.txt"), "The meeting moved to Tuesday.").unwrap();
    let scheduled = json!({"urgency": "scheduled", "not_before": "2099-01-01T00:00:00Z"});
    append(&home, &line("later", "a.txt", scheduled.clone()));
    append(&home, &line("later too", "a.txt", scheduled));
    home.ok(&["drain"]);
    let parked = home.last_ack("later too");
    assert_eq!(
        (&parked["status"], &parked["reason_code"]),
        (&"accepted".into(), &"key_in_flight".into())
    );
    assert!(
        parked["message"]
            .as_str()
            .unwrap()
            .contains("waits for a request that has the same key: later at"),
        "{parked}"
    );
    let status = home.ok(&["status"]);
    assert!(status.contains("1 parked: key_in_flight"), "{status}");

    append(&home, &line("now", "a.txt", json!({})));
    home.ok(&["drain"]);
    assert_eq!(home.last_ack("now")["status"], "completed");
    let yielded = &home.acks("later")[1];
    assert_eq!(
        (&yielded["status"], &yielded["reason_code"]),
        (&"accepted".into(), &"key_in_flight".into())
    );
    for id in ["later", "later too"] {
        let ack = home.last_ack(id);
        assert_eq!(
            (&ack["status"], &ack["duplicate_of"]),
            (&"duplicate".into(), &"now".into()),
            "{ack}"
        );
    }
    home.ok(&["replay", "--verify"]);
    home.ok(&["verify"]);
}

/// A query over events.
/// A budget that one call uses up.
const DAY: &str = "[budget]\nmax_tokens_per_day = 100000\n";

/// An answer that uses up [`DAY`].
fn used_up() -> Act {
    let answer = flow_home::good_answer();
    let message = json!({"role": "assistant", "content": answer});
    let choice = json!({"index": 0, "finish_reason": "stop", "message": message});
    let usage = json!({"prompt_tokens": 99_990, "completion_tokens": 7});
    let reply = json!({"model": "loop-1", "usage": usage, "choices": [choice]});
    Act::Send(200, Vec::new(), reply.to_string())
}

/// What `show` says of a request that waits, for programs and for people.
fn waits(home: &Home, id: &str) -> (Value, String) {
    let shown: Value = serde_json::from_str(&home.ok(&["--json", "show", id])).unwrap();
    (shown["latest"]["waits"].clone(), home.ok(&["show", id]))
}

/// Whatever keeps a request, each view of it says what, and when it may continue.
#[test]
fn each_request_that_waits_says_for_what() {
    let server = Server::start(vec![used_up(), good()]);
    let home = Home::new(&config(&server, "", DAY));
    for file in ["a.txt", "b.txt", "c.txt"] {
        let text = format!("The meeting of {file} moved to Tuesday.");
        std::fs::write(home.path("buses/other").join(file), text).unwrap();
    }
    let service = home.serve();
    let flow_line = |id: &str, file: &str, flow: &str| {
        let mut line = line(id, file, json!({}));
        line["work"]["flow_ref"]["flow_id"] = flow.into();
        line
    };
    append(&home, &flow_line("spends", "c.txt", FLOW));
    until("the budget is spent", || home.acks("spends").len() == 2);
    append(&home, &flow_line("budget", "a.txt", FLOW));
    let scheduled = json!({"urgency": "scheduled", "not_before": "2099-01-01T00:00:00Z"});
    append(&home, &line("scheduled", "b.txt", scheduled.clone()));
    append(&home, &line("parked", "b.txt", scheduled));
    until("all were tried", || home.acks("parked").len() == 1 && home.acks("budget").len() == 2);
    home.ok(&["pause"]);
    append(&home, &line("unread", "c.txt", json!({})));
    let far = "2099-01-01T00:00:00.000Z";
    for (id, what, said) in [
        ("scheduled", "not_before", "its `not_before` has not come"),
        ("parked", "key_in_flight", "it waits for scheduled, which has the same key"),
        ("budget", "budget", "the budget of the day is used up"),
    ] {
        let (waits, shown) = waits(&home, id);
        assert_eq!(waits["for"], what, "{waits}");
        let (message, next) = (waits["message"].as_str().unwrap(), waits["next"].as_str());
        assert!(message.contains(said) && shown.contains(message), "{shown}");
        let next = next.unwrap();
        assert!(message.contains(next), "{message}");
        assert!(id == "budget" || next == far, "{message}");
    }
    assert_eq!(waits(&home, "parked").0["behind"], "scheduled");
    let lost = home.run(&["show", "unread"]);
    let lost = String::from_utf8(lost.stderr).unwrap();
    assert!(lost.contains("of the queue are not read yet (paused: operator)"), "{lost}");
    let listed = home.ok(&["requests"]);
    let row = listed.lines().find(|line| line.starts_with("scheduled")).unwrap();
    assert!(row.contains("not_before") && row.contains("2099-01-01 00:00"), "{listed}");
    let status = home.status();
    let kinds = status["requests"]["waits"].as_array().unwrap();
    let of = |what: &str| kinds.iter().find(|kind| kind["for"] == what);
    assert_eq!(of("not_before").unwrap()["next"], far, "{kinds:?}");
    assert!(of("budget").is_some() && of("key_in_flight").is_some(), "{kinds:?}");
    let said = home.ok(&["status"]);
    assert!(said.contains(&format!("1 waiting: not_before, next at {far}")), "{said}");
    home.ok(&["resume"]);
    until("the last one is read", || home.acks("unread").len() == 2);
    assert_eq!(waits(&home, "unread").0, Value::Null, "it has ended");
    // A person who waits for a request is told once what it waits for.
    let scheduled = json!({"urgency": "scheduled", "not_before": "2099-01-01T00:00:00Z"});
    let text = line(
        "asked",
        "c.txt",
        json!({"idempotency_key": "own", "urgency": scheduled["urgency"],
        "not_before": scheduled["not_before"]}),
    );
    std::fs::write(home.path("asked.jsonl"), format!("{text}\n")).unwrap();
    let file = home.path("asked.jsonl");
    let ran = home.run(&["submit", file.to_str().unwrap(), "--wait", "--timeout", "4s"]);
    let told = String::from_utf8(ran.stderr).unwrap();
    assert_eq!(
        told.matches("asked waits: c.txt: its `not_before` has not come").count(),
        1,
        "{told}"
    );
    // Without a service, what could run says that nobody works on it.
    drop(service);
    assert_eq!(waits(&home, "scheduled").0["for"], "not_before");
}

/// A producer reads acks only: a request that waits for another one says so in one.
#[test]
fn the_ack_of_a_request_that_waits_for_the_same_work_names_what_it_waits_for() {
    let home = Home::new(&at(&closed_port(), ""));
    home.ask("first", FLOW, "The roof costs 900 EUR.");
    home.run(&["drain"]);
    let queue = std::fs::read_to_string(home.path("run/queue.jsonl")).unwrap();
    let mut line: Value = serde_json::from_str(queue.lines().next().unwrap()).unwrap();
    line["request_id"] = "second".into();
    line["idempotency_key"] = "another key".into();
    append(&home, &line);
    home.run(&["drain"]);
    let acks = home.acks("second");
    let told: Vec<Value> =
        acks.iter().map(|ack| json!([ack["status"], ack["reason_code"]])).collect();
    assert_eq!(told, [json!(["accepted", null]), json!(["accepted", "identical_work"])]);
    assert_eq!(
        acks[1]["message"],
        "waits for a request that asks for the same work: first at this time"
    );
    assert!(home.ok(&["show", "second"]).contains("first"));
    home.configure("");
    home.ok(&["retry", "first"]);
    home.ok(&["drain"]);
    assert_eq!(home.last_ack("first")["status"], "completed");
    assert_eq!(home.last_ack("second")["status"], "duplicate");
    home.ok(&["replay", "--verify"]);
    home.ok(&["verify"]);
}

/// What a lower budget held back continues with a higher one, after a reload and after a restart, and only then.
#[test]
fn a_higher_budget_frees_what_the_lower_one_held_back() {
    let server = Server::start(vec![used_up(), good(), good()]);
    let home = Home::new(&config(&server, "", DAY));
    let tries = |id: &str| home.acks(id).iter().filter(|ack| ack["cause"] == "budget").count();
    home.ask("spends", FLOW, "The roof was repaired on Monday.");
    home.ok(&["drain"]);
    for id in ["first", "second"] {
        home.ask(id, FLOW, &format!("The meeting of {id} moved to Tuesday."));
    }
    home.ok(&["drain"]);
    assert_eq!((tries("first"), tries("second")), (1, 1));
    // The same settings end as before, so nobody asks.
    home.ok(&["drain"]);
    assert_eq!((tries("first"), tries("second")), (1, 1));
    assert_eq!(server.seen().len(), 1);
    let service = home.serve();
    let up = || home.run(&["status"]).stdout.windows(7).any(|word| word == b"(serve,");
    until("the service is up", up);
    let raised = DAY.replace("100000", "150000");
    home.configure(&config(&server, "", &raised));
    let reload = || String::from_utf8(home.run(&["reload"]).stderr).unwrap();
    let said = reload();
    assert!(said.contains("2 requests that the budget held back continue"), "{said}");
    until("both end", || {
        ["first", "second"].iter().all(|id| home.last_ack(id)["status"] == "completed")
    });
    assert_eq!(reload().trim(), "reloaded");
    service.terminate();
    // A restart with a higher budget does the same.
    let more = Server::start(vec![used_up(), good()]);
    home.configure(&config(&more, "", &DAY.replace("100000", "160000")));
    home.ask("spends again", FLOW, "The boat was painted on Sunday.");
    home.ok(&["drain"]);
    home.ask("third", FLOW, "The train leaves at nine.");
    home.ok(&["drain"]);
    assert_eq!(tries("third"), 1);
    home.configure(&config(&more, "", ""));
    home.ok(&["drain"]);
    assert_eq!(home.last_ack("third")["status"], "completed");
    home.ok(&["verify"]);
    home.ok(&["replay", "--verify"]);
}

/// A call that its provider delays is told while the attempt is under way.
#[test]
fn a_call_that_waits_for_its_rate_says_so() {
    let server = Server::start(vec![good(), good()]);
    let home = Home::new(&config(&server, "requests_per_minute = 1", ""));
    let service = home.serve();
    for id in ["first", "second"] {
        home.ask(id, FLOW, "The roof was repaired on Monday.");
    }
    until("one waits for the rate", || {
        ["first", "second"].iter().any(|id| {
            let shown = home.run(&["--json", "show", id]).stdout;
            let shown: Value = serde_json::from_slice(&shown).unwrap_or_default();
            let waits = &shown["latest"]["waits"];
            // Within its attempt, or until the next attempt where the wait is longer than an attempt.
            (waits["for"] == "provider" || waits["for"] == "next_attempt")
                && waits["next"].is_string()
        })
    });
    drop(service);
}

fn query(id: &str, query: Value) -> Value {
    let mut query = query;
    query["schema_version"] = "summary_request_query.v1".into();
    let input = json!({"mode": "query", "bus": "event_bus", "query": query});
    let mut line = line(id, "", json!({"input": input}));
    line["work"]["summary_kind"] = "event_summary".into();
    line
}

#[test]
fn a_missing_day_is_never_an_empty_one() {
    let home = Home::new("");
    let buses = home.path("buses");
    let at = bus_support::MIDNIGHT + 1_000;
    bus_support::events_day(
        &buses,
        "2026-02-11",
        &[bus_support::event("evt_1", at, "We meet on Monday.")],
    );
    bus_support::events_day(&buses, "2026-02-13", &[]);
    append(&home, &query("empty", json!({"day": "2026-02-13"})));
    append(&home, &query("missing", json!({"day": "2026-02-14"})));
    append(&home, &query("none", json!({"day_from": "2026-02-15", "day_to": "2026-02-17"})));
    append(
        &home,
        &query("one of three", json!({"day_from": "2026-02-10", "day_to": "2026-02-12"})),
    );
    append(
        &home,
        &query("empty and missing", json!({"day_from": "2026-02-13", "day_to": "2026-02-14"})),
    );
    let ran = home.run(&["drain"]);
    assert_eq!(ran.status.code(), Some(1), "requests failed for good");
    let said = String::from_utf8(ran.stderr).unwrap();
    assert!(said.contains("2 requests failed: missing_upstream_manifest"), "{said}");
    for name in ["2026-02-14.manifest.json", "2026-02-17.manifest.json"] {
        assert!(said.contains(name), "each missing input is named: {said}");
    }
    let reason = |id: &str| home.last_ack(id)["reason_code"].clone();
    assert_eq!(reason("empty"), "skipped_empty_selection");
    assert_eq!(reason("missing"), "missing_upstream_manifest");
    assert_eq!(reason("none"), "missing_upstream_manifest");
    let ack = home.last_ack("one of three");
    assert_eq!(
        (&ack["status"], &ack["warnings"]),
        (&"completed".into(), &json!(["upstream_days_missing"]))
    );
    assert!(ack["message"].as_str().unwrap().contains("2026-02-10, 2026-02-12"), "{ack}");
    let ack = home.last_ack("empty and missing");
    assert_eq!(ack["reason_code"], "skipped_empty_selection", "the empty day was read");
    assert_eq!(ack["warnings"], json!(["upstream_days_missing"]));
    assert_eq!(ack["message"], "event_bus has no manifest of 2026-02-14");
    assert!(said.contains("2 requests asked for days that are not published"), "{said}");
    let shown =
        |id: &str| -> Value { serde_json::from_str(&home.ok(&["--json", "show", id])).unwrap() };
    let told = "days of its range are not published: event_bus has no manifest of";
    for (id, days) in [
        ("one of three", &["2026-02-10", "2026-02-12"][..]),
        ("empty and missing", &["2026-02-14"]),
    ] {
        assert_eq!(shown(id)["latest"]["missing_days"]["days"], json!(days));
        let text = home.ok(&["show", id]);
        assert!(text.contains(&format!("{told} {}", days.join(", "))), "{text}");
    }
    assert_eq!(shown("empty")["latest"]["missing_days"], Value::Null);
    for command in ["explain", "read"] {
        let id =
            home.last_ack("one of three")["summary"]["summary_id"].as_str().unwrap().to_owned();
        let text = home.ok(&[command, &id]);
        assert!(text.contains("without 2026-02-10, 2026-02-12, not published"), "{text}");
    }
    let manifest = |day: &str| -> Value {
        let path = format!("buses/summaries/manifest/{day}.events.summary.manifest.json");
        serde_json::from_slice(&std::fs::read(home.path(&path)).unwrap()).unwrap()
    };
    let empty = manifest("2026-02-13");
    assert_eq!(empty["counts"]["skipped"], 2, "{empty:#}");
    let hash = empty["input"]["eventbus_manifest_sha256"].as_str().unwrap();
    assert_eq!(hash.len(), 64, "{empty:#}");
    assert_eq!(manifest("2026-02-14")["counts"]["failed"], 1, "on the day that was asked");
    assert_eq!(manifest("2026-02-17")["counts"]["failed"], 1);
    assert_eq!(manifest("2026-02-11")["counts"]["produced"], 1);
    let items = home.items();
    let missing = json!(["2026-02-10", "2026-02-12"]);
    for at in ["/selection/missing_days", "/outputs/quality/missing_days"] {
        assert_eq!(items[0].pointer(at), Some(&missing), "{at}");
    }
    let record = last_record(&home);
    let warnings = record["warnings"].as_array().unwrap();
    let names = |one: &Value| one["message"].as_str().unwrap().contains("2026-02-10, 2026-02-12");
    assert!(warnings.iter().any(names), "{warnings:#?}");
    // The same events without a missing day are other work, and so is the range when it was done before.
    append(&home, &query("one day", json!({"day": "2026-02-11"})));
    append(&home, &query("two days", json!({"day_from": "2026-02-11", "day_to": "2026-02-12"})));
    append(
        &home,
        &query("limited", json!({"day_from": "2026-02-11", "day_to": "2026-02-12", "limit": 9})),
    );
    home.ok(&["drain"]);
    let ack = home.last_ack("one day");
    assert_eq!((&ack["status"], &ack["warnings"]), (&"completed".into(), &json!([])));
    let (two, limited) = (home.last_ack("two days"), home.last_ack("limited"));
    let mut ends = [&two["reason_code"], &limited["reason_code"]];
    ends.sort_by_key(|reason| reason.is_null());
    assert_eq!(ends, [&json!("identical_work"), &Value::Null], "{two} {limited}");
    for ack in [two, limited] {
        assert_eq!(ack["warnings"], json!(["upstream_days_missing"]), "{ack}");
        let id = ack["request_id"].as_str().unwrap();
        assert_eq!(shown(id)["latest"]["missing_days"]["days"], json!(["2026-02-12"]), "{ack}");
    }
    home.ok(&["verify"]);
    home.ok(&["replay", "--verify"]);
}

#[test]
fn changed_text_is_new_work_for_our_own_requests_and_a_warning_for_others() {
    let home = Home::new("");
    let file = home.path("buses/other/a.txt");
    std::fs::write(&file, "The meeting moved to Tuesday.").unwrap();
    let submit = |more: &[&str]| {
        let args =
            [&["submit", "--flow", FREE, "--subkind", "test", "--id", "a.txt"][..], more].concat();
        let id = home.ok(&args).trim().to_owned();
        home.ok(&["drain"]);
        home.last_ack(&id)
    };
    append(&home, &line("other program", "a.txt", json!({})));
    home.ok(&["drain"]);
    let first = submit(&[]);
    // The same text, flow and model: the summary that exists, and no call.
    assert_eq!(
        (&first["status"], &first["reason_code"]),
        (&"duplicate".into(), &"identical_work".into())
    );
    let same = submit(&[]);
    assert_eq!(
        (&same["status"], &same["reason_code"]),
        (&"duplicate".into(), &"output_exists".into())
    );
    assert_eq!(same["duplicate_of"], "other program");
    assert_eq!(same["summary"], first["summary"]);

    std::fs::write(&file, "The meeting moved to Friday.").unwrap();
    let changed = submit(&[]);
    assert_eq!(changed["status"], "completed");
    assert_ne!(changed["summary"]["summary_id"], first["summary"]["summary_id"]);
    let again = submit(&["--again"]);
    assert_eq!(again["status"], "completed", "{again}");
    assert_ne!(again["summary"]["summary_id"], changed["summary"]["summary_id"]);

    append(&home, &line("other program again", "a.txt", json!({})));
    home.ok(&["drain"]);
    let stale = home.last_ack("other program again");
    assert_eq!(
        (&stale["status"], &stale["warnings"]),
        (&"duplicate".into(), &json!(["source_changed"]))
    );
    let shown = home.ok(&["show", "other program again"]);
    assert!(shown.contains("the source changed since this summary was made"), "{shown}");
    std::fs::write(&file, "The meeting moved to Tuesday.").unwrap();
    append(&home, &line("other program once more", "a.txt", json!({})));
    home.ok(&["drain"]);
    assert_eq!(home.last_ack("other program once more")["warnings"], json!([]));
    home.ok(&["verify"]);
}

#[test]
fn a_changed_message_of_a_session_is_new_work() {
    let home = Home::new("");
    let buses = home.path("buses");
    let say = |words: &str| {
        let at = bus_support::MIDNIGHT + 1_000;
        bus_support::events_day(&buses, "2026-02-11", &[bus_support::event("evt_1", at, words)]);
    };
    say("We meet on Monday to sign the lease.");
    let start = bus_support::MIDNIGHT;
    let session = bus_support::session("ses_1", "2026-02-11", start, &["evt_1"]);
    bus_support::sessions_day(&buses, "2026-02-11", false, &[session]);
    let submit = || {
        let flow = "gpt.session.summarize.parsed_message.v3";
        let args = ["submit", "--flow", flow, "--kind", "session_summary", "--bus", "session_bus"];
        let id = home.ok(&[&args[..], &["--id", "ses_1"]].concat()).trim().to_owned();
        home.ok(&["drain"]);
        home.last_ack(&id)
    };
    let first = submit();
    assert_eq!(first["status"], "completed");
    assert_eq!(submit()["status"], "duplicate");
    say("We meet on Friday to sign the lease.");
    let second = submit();
    assert_eq!(second["status"], "completed", "{second}");
    assert_ne!(second["summary"]["summary_id"], first["summary"]["summary_id"]);
}

#[test]
fn a_key_whose_text_changed_before_it_was_read_says_so() {
    let home = Home::new("");
    let file = home.path("buses/other/a.txt");
    let submit = || home.ok(&["submit", "--flow", FREE, "--id", "a.txt"]).trim().to_owned();
    std::fs::write(&file, "The meeting moved to Tuesday.").unwrap();
    submit();
    std::fs::write(&file, "The meeting moved to Friday.").unwrap();
    home.ok(&["drain"]);
    std::fs::write(&file, "The meeting moved to Tuesday.").unwrap();
    let again = submit();
    home.ok(&["drain"]);
    let ack = home.last_ack(&again);
    assert_eq!(
        (&ack["status"], &ack["warnings"]),
        (&"duplicate".into(), &json!(["source_changed"]))
    );
}

#[test]
fn a_change_is_noticed_before_the_next_checkpoint() {
    let home = Home::new("");
    std::fs::write(home.path("buses/other/a.txt"), "One.  A sentence about boats.").unwrap();
    let service = home.serve();
    append(&home, &line("first", "a.txt", json!({})));
    flow_home::wait_until("the first ends", || home.acks("first").len() == 2);
    std::fs::write(home.path("buses/other/a.txt"), "Two. A sentence about trains.").unwrap();
    append(&home, &line("second", "a.txt", json!({})));
    flow_home::wait_until("the second ends", || !home.acks("second").is_empty());
    let ack = home.last_ack("second");
    assert_eq!(
        (&ack["status"], &ack["warnings"]),
        (&"duplicate".into(), &json!(["source_changed"]))
    );
    drop(service);
}

#[test]
fn a_change_is_noticed_after_a_crash() {
    let home = Home::new("");
    std::fs::write(home.path("buses/other/a.txt"), "One.  A sentence about boats.").unwrap();
    let service = home.serve();
    append(&home, &line("first", "a.txt", json!({})));
    flow_home::wait_until("the first ends", || home.acks("first").len() == 2);
    service.kill();
    std::fs::write(home.path("buses/other/a.txt"), "Two. A sentence about trains.").unwrap();
    append(&home, &line("second", "a.txt", json!({})));
    home.ok(&["drain"]);
    let ack = home.last_ack("second");
    assert_eq!(
        (&ack["status"], &ack["warnings"]),
        (&"duplicate".into(), &json!(["source_changed"]))
    );
}

/// A key that its producer uses for other work gives the summary of the first work, whose sources count.
#[test]
fn a_change_is_noticed_under_a_key_that_stands_for_other_work() {
    const OTHER_WORK: &str = "idempotency_key_reused_with_different_work";
    let home = Home::new("");
    std::fs::write(home.path("buses/other/a.txt"), "The meeting moved to Tuesday.").unwrap();
    std::fs::write(home.path("buses/other/b.txt"), "The boat is blue.").unwrap();
    let ask = |id: &str, file: &str, key: &str, params: Value| {
        let mut line = line(id, file, json!({"idempotency_key": key}));
        line["work"]["params"] = params;
        append(&home, &line);
        home.ok(&["drain"]);
        home.last_ack(id)["warnings"].clone()
    };
    ask("first", "a.txt", "k", json!({}));
    // The same work under another key has the same summary.
    assert_eq!(ask("other key", "a.txt", "k2", json!({})), json!([]));
    assert_eq!(home.last_ack("other key")["reason_code"], "identical_work");
    for (id, file) in [("same file", "a.txt"), ("other file", "b.txt")] {
        assert_eq!(ask(id, file, "k", json!({"audience": "all"})), json!([OTHER_WORK]));
    }
    std::fs::write(home.path("buses/other/a.txt"), "The meeting moved to Friday.").unwrap();
    let both = json!([OTHER_WORK, "source_changed"]);
    assert_eq!(ask("again", "a.txt", "k", json!({"audience": "all"})), both);
    assert_eq!(ask("of the other file", "b.txt", "k", json!({"audience": "all"})), both);
    assert_eq!(ask("the other key again", "a.txt", "k2", json!({})), json!(["source_changed"]));
    std::fs::remove_file(home.path("buses/other/a.txt")).unwrap();
    let both = json!([OTHER_WORK, "source_missing"]);
    assert_eq!(ask("gone", "b.txt", "k", json!({"audience": "all"})), both);
}

/// Two numbers beyond 64 bits are two numbers, although a float would be the same of both.
#[test]
fn a_wide_number_beside_a_text_keeps_its_digits() {
    let home = Home::new("");
    let say = |order: &str| {
        let at = bus_support::MIDNIGHT + 1_000;
        let mut event = bus_support::event("evt_1", at, "The order is paid.");
        event["order"] = "NUMBER".into();
        let event = event.to_string().replace("\"NUMBER\"", order);
        let day = "2026-02-11";
        bus_support::events_day(&home.path("buses"), day, &[]);
        let data = home.path(&format!("buses/eventbus/daily/{day}.jsonl"));
        std::fs::write(&data, format!("{event}\n")).unwrap();
        let path = home.path(&format!("buses/eventbus/manifest/{day}.manifest.json"));
        let mut manifest: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        let bytes = std::fs::read(&data).unwrap();
        manifest["counts"]["events_total"] = 1.into();
        manifest["counts"]["events_by_kind"]["chat_turn"] = 1.into();
        let hash = summarizer::contract::hash::sha256(&bytes).hex();
        manifest["integrity"] = json!({"sha256": hash, "bytes": bytes.len(), "lines": 1});
        std::fs::write(path, manifest.to_string()).unwrap();
    };
    let ask = |id: &str| {
        let input = json!({"mode": "ids", "bus": "event_bus", "ids": ["evt_1"]});
        let mut line = line(id, "", json!({"input": input}));
        line["work"]["summary_kind"] = "event_summary".into();
        append(&home, &line);
        home.ok(&["drain"]);
        let ack = home.last_ack(id);
        (ack["status"].clone(), ack["warnings"].clone())
    };
    say("12345678901234567890123");
    assert_eq!(ask("first"), ("completed".into(), json!([])));
    assert_eq!(ask("same"), ("duplicate".into(), json!([])));
    say("12345678901234567890124");
    assert_eq!(ask("other"), ("duplicate".into(), json!(["source_changed"])));
}

/// A request that waits for another one gets a summary of older text when the text changed meanwhile.
#[test]
fn a_request_that_waited_for_a_summary_of_older_text_says_so() {
    let home = Arc::new(Home::new(""));
    let asked = |id: &str| {
        let mut line = line(id, "a.txt", json!({}));
        line["work"]["flow_ref"]["flow_id"] = FLOW.into();
        line
    };
    let (at_home, second) = (Arc::clone(&home), asked("second"));
    let server = Server::start(vec![Act::With(Arc::new(move |_| {
        let file = at_home.path("buses/other/a.txt");
        std::fs::write(file, "The meeting moved to Friday.").unwrap();
        append(&at_home, &second);
        until("the second waits", || !at_home.acks("second").is_empty());
        flow_home::good_answer()
    }))]);
    home.configure(&config(&server, "", QUICK));
    std::fs::write(home.path("buses/other/a.txt"), "The meeting moved to Tuesday.").unwrap();
    let service = home.serve();
    append(&home, &asked("first"));
    until("the second ends", || home.acks("second").len() == 2);
    drop(service);
    let acks = home.acks("second");
    let said = |ack: &Value| (ack["reason_code"].clone(), ack["warnings"].clone());
    assert_eq!(said(&acks[0]), ("key_in_flight".into(), json!([])), "{acks:?}");
    assert_eq!(said(&acks[1]), ("key_in_flight".into(), json!(["source_changed"])), "{acks:?}");
    assert_eq!(acks[1]["status"], "duplicate");
}

#[test]
fn a_selection_over_a_range_keeps_the_names_of_its_missing_days() {
    let home = Home::new("");
    let at = bus_support::MIDNIGHT + 1_000;
    let events = [bus_support::event("evt_1", at, "We meet on Monday.")];
    bus_support::events_day(&home.path("buses"), "2026-02-11", &events);
    bus_support::events_day(&home.path("buses"), "2026-02-12", &[]);
    let select = |from: &str| -> Value {
        let args = ["--json", "select", "--bus", "event_bus", "--from", from, "--to", "2026-02-13"];
        serde_json::from_str(&home.ok(&args)).unwrap()
    };
    let selected = select("2026-02-11");
    assert_eq!(selected["missing_days"], json!(["2026-02-13"]), "an empty day is not missing");
    let mut line = line(
        "r",
        "",
        json!({"input": {"mode": "selection_manifest", "bus": "event_bus",
        "manifest_path": selected["manifest_path"],
        "selection_hash": selected["selection_hash"]}}),
    );
    line["work"]["summary_kind"] = "event_summary".into();
    append(&home, &line);
    home.ok(&["drain"]);
    let ack = home.last_ack("r");
    assert_eq!(
        (&ack["status"], &ack["warnings"]),
        (&"completed".into(), &json!(["upstream_days_missing"])),
        "{ack}"
    );
    assert_eq!(home.items()[0]["outputs"]["quality"]["missing_days"], json!(["2026-02-13"]));
    assert!(warned(&home, "UPSTREAM_DAYS_MISSING")[0].contains("2026-02-13"));
    home.ok(&["verify"]);
}

#[test]
fn a_selection_lists_all_its_missing_days_and_an_item_counts_them() {
    let home = Home::new("");
    let at = bus_support::MIDNIGHT + 1_000;
    let events = [bus_support::event("evt_1", at, "We meet on Monday.")];
    bus_support::events_day(&home.path("buses"), "2026-02-11", &events);
    let days = ["--from", "2026-01-01", "--to", "2026-02-13"];
    let args = [&["--json", "select", "--bus", "event_bus"][..], &days].concat();
    let selected: Value = serde_json::from_str(&home.ok(&args)).unwrap();
    assert_eq!(selected["missing_days"].as_array().unwrap().len(), 43);
    let input = json!({"mode": "selection_manifest", "bus": "event_bus",
        "manifest_path": selected["manifest_path"], "selection_hash": selected["selection_hash"]});
    let mut line = line("r", "", json!({"input": input}));
    line["work"]["summary_kind"] = "event_summary".into();
    append(&home, &line);
    home.ok(&["drain"]);
    let ack = home.last_ack("r");
    assert!(ack["message"].as_str().unwrap().ends_with("2026-01-31 and 12 more"), "{ack}");
    let selection = &home.items()[0]["selection"];
    assert_eq!(selection["missing_days"].as_array().unwrap().len(), 31);
    assert_eq!(selection["missing_days_count"], 43);
    home.ok(&["verify"]);
}

/// One thread for calls, and a server that takes a second for each answer.
fn slow_server() -> (Server, Home) {
    let answer = flow_home::good_answer();
    let server = Server::start(vec![Act::With(Arc::new(move |_: &Value| {
        std::thread::sleep(Duration::from_secs(1));
        answer.clone()
    }))]);
    let one = "[workers]\ncount = 1\nmax_in_flight_per_provider = 1\n";
    let home = Home::new(&config(&server, "", one));
    (server, home)
}

#[test]
fn now_starts_next_however_much_scheduled_work_is_due() {
    let (server, home) = slow_server();
    let ask = |id: &str, file: &str, more: Value| {
        std::fs::write(home.path(&format!("buses/other/{file}.txt")), format!("Text {file}."))
            .unwrap();
        let mut line = line(id, &format!("{file}.txt"), more);
        line["work"]["flow_ref"]["flow_id"] = FLOW.into();
        append(&home, &line);
    };
    for number in 0..120 {
        let producer =
            json!({"repo": format!("p{}", number % 3), "component": "c", "version": "1"});
        let urgency = json!({"urgency": "scheduled", "not_before": "2026-01-01T00:00:00Z",
            "priority": 1, "requested_by": producer});
        ask(&format!("later {number}"), &format!("later-{number}"), urgency);
    }
    let service = home.serve();
    let calls = || server.seen().len();
    flow_home::wait_until("the first calls", || calls() >= 2);
    let asks_next = |id: &str, file: &str| {
        let before = calls();
        ask(id, file, json!({"priority": 5}));
        flow_home::wait_until("it ends", || home.acks(id).len() >= 2);
        let text = format!("Text {file}.");
        let at = server.seen().iter().position(|seen| seen.body.to_string().contains(&text));
        // At most one call of another began before the line was read.
        assert!(at.unwrap() <= before + 1, "{id}: call {at:?} after {before}");
        assert_eq!(home.last_ack(id)["status"], "completed");
    };
    asks_next("now", "now");
    // The same work as a scheduled request that is due and has not begun.
    asks_next("twin", "later-119");
    assert_eq!(home.last_ack("later 119")["duplicate_of"], "twin");
    drop(service);
}

/// The warnings of the last run record of one type.
fn warned(home: &Home, kind: &str) -> Vec<String> {
    let record = last_record(home);
    let warnings = record["warnings"].as_array().unwrap().iter();
    let of_kind = warnings.filter(|warning| warning["type"] == kind);
    of_kind.map(|warning| warning["message"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_provider_that_fails_behind_its_fallback_is_named_until_it_answers_again() {
    let server = Server::start(vec![good()]);
    let dead = closed_port();
    let chain = |base: &str| {
        let first = format!(
            "[provider.first]\nkind = \"openai\"\nbase_url = \"{base}/v1\"\nmodel = \"m-1\"\n\
             fallback = [\"loop\"]\n"
        );
        let config = config(&server, "", &first);
        config.replace("provider = \"loop\"", "provider = \"first\"")
    };
    let home = Home::new(&chain(&dead));
    (0..3).for_each(|number| home.ask(&format!("r{number}"), FLOW, &format!("Text {number}.")));
    let (code, said) = drain(&home);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("the provider first failed 3 times: connection_refused"), "{said}");
    assert!(said.contains("loop answered instead"), "{said}");
    let warnings = warned(&home, "provider_failed");
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].contains("first failed (connection_refused) and loop answered"));
    assert_eq!(last_record(&home)["status"], "success");
    let failing = &home.status()["failing_providers"][0];
    assert_eq!(
        (&failing["provider"], &failing["cause"], &failing["answered_by"], &failing["calls"]),
        (&"first".into(), &"connection_refused".into(), &"loop".into(), &3.into())
    );
    assert!(home.ok(&["status"]).contains("first: connection_refused, last at 20"));
    // A later drain without calls still names the failure.
    drain(&home);
    assert_eq!(home.status()["failing_providers"][0]["provider"], "first");
    home.ok(&["replay", "--verify"]);
    home.ok(&["verify"]);
    home.configure(&chain(&server.base));
    home.ask("again", FLOW, "It answers.");
    drain(&home);
    assert_eq!(home.status()["failing_providers"], json!([]));
    assert_eq!(warned(&home, "provider_failed"), [""; 0]);
}

#[test]
fn a_run_whose_work_was_put_off_says_that_work_waits() {
    let limited = status(429, &[("retry-after", "86400")], "{}");
    let server = Server::start(vec![limited]);
    let home = Home::new(&config(&server, "", ""));
    (0..3).for_each(|number| home.ask(&format!("r{number}"), FLOW, &format!("Text {number}.")));
    // The first run is told to wait. The second one finds that no request is due.
    for run in 0..2 {
        drain(&home);
        let record = last_record(&home);
        assert_eq!(record["status"], "partial_success", "run {run}: {record:#}");
        let warnings = warned(&home, "work_waits");
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        assert!(
            warnings[0].starts_with("3 requests wait: rate_limit; the next attempt: 20"),
            "{warnings:?}"
        );
    }
    home.ok(&["verify"]);
}

#[test]
fn a_run_of_a_paused_home_says_that_work_waits() {
    let home = Home::new("");
    home.ok(&["drain"]);
    assert_eq!(last_record(&home)["status"], "empty_success");
    home.ok(&["pause"]);
    home.ask("r", FREE, "A text.");
    let ran = home.run(&["drain"]);
    let said = String::from_utf8_lossy(&ran.stderr).into_owned();
    assert!(said.contains("paused") && said.contains("summarizer resume"), "{said}");
    let warnings = warned(&home, "work_waits");
    assert!(warnings[0].starts_with("the service is paused (operator)"), "{warnings:?}");
    assert_eq!(last_record(&home)["status"], "partial_success");
    home.ok(&["resume"]);
    home.ok(&["drain"]);
    assert_eq!(last_record(&home)["status"], "success");
}

#[test]
fn a_probe_says_what_is_wrong_with_each_answer() {
    let reply = |text: &str, finish: &str| {
        let message = json!({"role": "assistant", "content": text});
        let usage = json!({"prompt_tokens": 9, "completion_tokens": 1024});
        let choices = json!([{"finish_reason": finish, "message": message}]);
        json!({"model": "loop-1", "usage": usage, "choices": choices}).to_string()
    };
    let error = |words: &str| json!({"error": {"message": words}}).to_string();
    let rows = [
        (200, reply("{\"ok\": true}", "stop"), vec!["gave the requested JSON"]),
        (
            200,
            reply("<think>\nA {thought}.\n</think>\n{\"ok\": true}", "stop"),
            vec!["gave the requested JSON"],
        ),
        (200, reply("", "length"), vec!["answered without text", "4096 tokens", "max_tokens"]),
        (200, reply(" \n", "stop"), vec!["answered without text", "provider.loop.model"]),
        (401, error("Incorrect API key"), vec!["Incorrect API key"]),
        (
            429,
            json!({"error": {"message": "No quota", "code": "insufficient_quota"}}).to_string(),
            vec!["nothing left to spend", "add credit", "fix: summarizer doctor --probe"],
        ),
        (404, error("The model `loop-1` does not exist"), vec!["`loop-1` does not exist"]),
        (404, "<html>Not Found</html>".to_owned(), vec!["404", "base_url"]),
        (200, "<html>Welcome</html>".to_owned(), vec!["is a web page", "base_url"]),
    ];
    for (status, body, words) in rows {
        let server =
            Server::start(vec![Act::Serve(Arc::new(move |seen: &server::Seen| {
                match seen.path.ends_with("/chat/completions") {
                    true => (status, vec![], body.clone()),
                    false => (200, vec![], json!({"data": [{"id": "loop-1"}]}).to_string()),
                }
            }))]);
        let home = Home::new(&config(&server, "", ""));
        let said = home.run(&["doctor", "--probe"]);
        let said = String::from_utf8(said.stdout).unwrap();
        assert!(words.iter().all(|word| said.contains(word)), "{status} {words:?}: {said}");
        let is_fine = words[0].starts_with("gave the requested JSON");
        assert_eq!(said.contains("and gave the requested JSON"), is_fine, "{said}");
    }
}

#[test]
fn the_log_remembers_for_a_week_what_a_model_accepts() {
    let answer = flow_home::good_answer();
    let server = Server::start(vec![Act::Serve(Arc::new(move |seen: &server::Seen| {
        let refused =
            ["temperature", "max_tokens"].into_iter().find(|name| !seen.body[name].is_null());
        if !seen.path.ends_with("/chat/completions") {
            return (404, vec![], "{}".to_owned());
        }
        if let Some(name) = refused {
            let words =
                format!("Unsupported parameter: '{name}' is not supported with this model.");
            let error = json!({"error": {"message": words, "param": name, "code": "unsupported_parameter"}});
            return (400, vec![], error.to_string());
        }
        let reply = json!({"model": "loop-1", "usage": {"prompt_tokens": 9, "completion_tokens": 9},
            "choices": [{"finish_reason": "stop", "message": {"role": "assistant", "content": answer}}]});
        (200, vec![], reply.to_string())
    }))]);
    let settings =
        |more: &str| config(&server, &format!("temperature = 0.2\nmax_tokens = 900\n{more}"), "");
    let home = Home::new(&settings(""));
    let questions = || {
        let seen = server.seen();
        seen.iter().filter(|seen| seen.path.ends_with("/chat/completions")).count()
    };
    let rows = [
        ("2026-02-19T09:00:00Z", 3, "two refusals"),
        ("2026-02-19T09:10:00Z", 1, "the log knows the dialect"),
        ("2026-02-25T09:00:00Z", 1, "and does for a week"),
        ("2026-02-26T09:00:01Z", 3, "then the model is asked anew"),
        ("2026-03-01T09:00:00Z", 1, "and the dialect is kept again"),
    ];
    for (number, (now, asked, why)) in rows.into_iter().enumerate() {
        let before = questions();
        home.ask(&format!("r{number}"), FLOW, &format!("Text {number}."));
        home.ok_at(now, &["drain"]);
        assert_eq!(home.last_ack(&format!("r{number}"))["status"], "completed", "{why}");
        assert_eq!(questions() - before, asked, "{why}");
        home.ok(&["replay", "--verify"]);
    }
    let dump = home.ok(&["log", "dump"]);
    let learned: Vec<&str> = dump.lines().filter(|line| line.contains("DialectLearned")).collect();
    assert_eq!(learned.len(), 2, "{learned:?}");
    assert!(learned[0].contains("max_completion_tokens"), "{learned:?}");
    // Another address is another server.
    home.configure(&settings("").replace("127.0.0.1", "localhost"));
    let before = questions();
    home.ask("elsewhere", FLOW, "One more text.");
    home.ok_at("2026-03-01T10:00:00Z", &["drain"]);
    assert_eq!(questions() - before, 3);
    home.ok(&["verify"]);
}

#[test]
fn a_prompt_that_a_server_cuts_is_told_wherever_a_user_looks() {
    const READS: usize = 3_072;
    let answer = flow_home::good_answer();
    let server = Server::start(vec![Act::Serve(Arc::new(move |seen: &server::Seen| {
        if !seen.path.ends_with("/chat/completions") {
            return (404, vec![], "{}".to_owned());
        }
        let tokens = seen.body["messages"].to_string().split_whitespace().count() * 5 / 4;
        let message = json!({"role": "assistant", "content": answer});
        let usage = json!({"prompt_tokens": tokens.min(READS), "completion_tokens": 9});
        let choices = json!([{"finish_reason": "stop", "message": message}]);
        let reply = json!({"model": "loop-1", "usage": usage, "choices": choices});
        (200, vec![], reply.to_string())
    }))]);
    let home = Home::new(&config(&server, "price_in = 1.0", ""));
    home.ask("long", FLOW, &"Ana will plan a garden on the roof. ".repeat(400));
    home.ok(&["drain"]);
    assert_eq!(home.last_ack("long")["status"], "completed", "{}", home.last_ack("long"));
    let warnings = home.facts_of_items()[0]["provenance"]["warnings"].to_string();
    let told = "read only 3072 tokens of a longer prompt";
    assert!(warnings.contains(told) && warnings.contains("input_split"), "{warnings}");
    let id = home.items()[0]["summary_id"].as_str().unwrap().to_owned();
    let explained = home.ok(&["explain", &id]);
    assert!(explained.contains(told), "{explained}");
    let status = home.ok(&["status"]);
    assert!(status.contains("loop loop-1: it reads 3072 tokens"), "{status}");
    assert!(
        status.lines().any(|line| line.starts_with("cost ") && line.contains("loop 0.0")),
        "{status}"
    );
    let probed = home.ok(&["doctor", "--probe"]);
    assert!(probed.contains("it holds 3072 tokens"), "{probed}");
}

#[test]
fn an_answer_without_text_reaches_the_fallback_and_is_no_help_to_others() {
    let other = |server: &Server| {
        format!(
            "{}[provider.other]\nkind = \"openai\"\nbase_url = \"{}/v1\"\nmodel = \"other-1\"\n",
            flow_home::QUICK,
            server.base
        )
    };
    for (finish, calls) in [("stop", 1), ("length", 2)] {
        let empty = Server::start(vec![Act::Chat(String::new(), finish)]);
        let good = Server::start(vec![flow_home::good()]);
        let home = Home::new(&config(&empty, "fallback = [\"other\"]", &other(&good)));
        home.ask("one", FLOW, "An idea for a template that others could use.");
        home.ok(&["drain"]);
        assert_eq!(home.last_ack("one")["status"], "completed", "{finish}");
        assert_eq!((empty.seen().len(), good.seen().len()), (calls, 1), "{finish}");
        assert_eq!(home.status()["failing_providers"][0]["cause"], "invalid_answer");
    }
    let broken = Server::start(vec![status(500, &[], "{}")]);
    let empty = Server::start(vec![Act::Chat(String::new(), "stop")]);
    let home = Home::new(&config(&broken, "fallback = [\"other\"]", &other(&empty)));
    home.ask("one", FLOW, "An idea for a template that others could use.");
    home.run(&["drain"]);
    assert_eq!(home.status()["failing_providers"], json!([]));
}

/// Meanwhile its requests run and wait, which looks as if all was well.
#[test]
fn status_shows_a_provider_that_is_left_alone() {
    let server = Server::start(vec![status(502, &[], "<html>bad gateway</html>")]);
    let home = Home::new(&config(&server, "", ""));
    (0..6).for_each(|number| home.ask(&format!("r{number}"), FLOW, &format!("Text {number}.")));
    let service = home.serve();
    let resting = || home.status()["resting_providers"][0].clone();
    until("the provider rests", || resting()["cause"] == "server_error");
    let told = home.ok(&["status"]);
    assert!(told.contains("loop: server_error; it gets no calls until 20"), "{told}");
    assert!(told.contains("its last answer: status 502"), "{told}");
    service.terminate();
    for number in 0..6 {
        let ack = home.last_ack(&format!("r{number}"));
        assert!(ack["cause"].is_null() || ack["cause"] == "server_error", "{ack}");
    }
}
