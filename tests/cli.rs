//! The command line as a user runs it: the built program with an empty environment, a fixed clock and
//! a fixed run id. Tests output and exit codes, and that no file on disk makes it panic.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::print_stderr,
    reason = "a test stops at the first surprise and says aloud what it could not try"
)]

mod support;

use std::io::{Read as _, Write as _};
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use support::process::{ProcessHome, Ran, Running, is_drain, test_now};
use support::requests::{ACTIVE, DISABLED, lines, request, with};
use support::running::until;

const NOW: &str = "2026-03-01T12:00:00Z";

fn fixed(home: &ProcessHome, args: &[&str]) -> Command {
    let mut command = home.command(args);
    command.env("SUMMARIZER_TEST_NOW", NOW).env("SUMMARIZER_TEST_RUN_ID", "run_fixed");
    command
}

fn run(home: &ProcessHome, exit: i32, args: &[&str]) -> Ran {
    let ran = Ran::of(fixed(home, args).output().unwrap());
    // Requests may fail on purpose: then `drain` exits with 1.
    let fits = ran.exit == Some(exit) || (exit == 0 && ran.exit == Some(1) && is_drain(args));
    assert!(fits, "{:?} {args:?}\n{}\n{}", ran.exit, ran.out, ran.err);
    assert!(!ran.err.contains("panicked"), "{args:?}\n{}", ran.err);
    ran
}

/// A home with every kind of outcome.
fn lived_in() -> ProcessHome {
    let home = ProcessHome::new();
    for id in ["a", "b", "c"] {
        home.note(&format!("{id}.txt"), "One sentence. Another one.");
    }
    let mut bytes = lines(&[
        request("a", ACTIVE, json!({})),
        request("b", ACTIVE, json!({})),
        request("a", ACTIVE, json!({})),
        request("missing", ACTIVE, json!({})),
        request("off", DISABLED, json!({})),
    ]);
    bytes
        .extend_from_slice(b"{\"schema_version\":\"summary_request.v1\",\"request_id\":\"bad\"}\n");
    home.append(&bytes);
    run(&home, 0, &["drain"]);
    home
}

#[test]
fn help_and_usage() {
    let home = ProcessHome::new();
    let help = run(&home, 0, &["--help"]);
    help.says(&["Exit codes:", "another process holds the home", "is damaged", "70"]);
    for command in ["submit", "serve", "drain", "status", "requests", "show", "log", "queue"] {
        help.says(&[command]);
    }
    run(&home, 0, &["--version"]).says(&[env!("CARGO_PKG_VERSION")]);
    run(&home, 2, &["no-such-command"]);
    run(&home, 2, &["show"]);
    run(&home, 2, &["drain", "--wait-until", "tomorrow"]).says(&["tomorrow"]);
    run(&home, 2, &["log", "verify", "--anchor", "nonsense"]).says(&["SEQ:HASH"]);
}

#[test]
fn an_unknown_home_and_a_bad_configuration() {
    let home = ProcessHome::new();
    let nowhere = home.path("nowhere");
    let nowhere = nowhere.to_str().unwrap();
    for command in [["status"].as_slice(), &["requests"], &["show", "a"], &["log", "stats"]] {
        let args = [&["--home", nowhere], command].concat();
        run(&home, 5, &args).says(&["is not a summarizer home", "hint:"]);
    }
    assert!(!home.path("nowhere").exists(), "a question made a home");
    let told = run(&home, 5, &["--home", nowhere, "--json", "status"]);
    let told: Value = serde_json::from_str(&told.err).unwrap();
    assert_eq!(told["exit"], 5);
    std::fs::write(home.path("summarizer.toml"), "[comit]\nmax_batch = 3\n").unwrap();
    run(&home, 3, &["drain"]).says(&["unknown key", "did you mean"]);
    std::fs::write(home.path("summarizer.toml"), "[commit]\nmax_batch = \"many\"\n").unwrap();
    run(&home, 3, &["status"]).says(&["summarizer.toml", "commit.max_batch", "caused by:"]);
    let mut command = home.command(&["status"]);
    let told = Ran::of(command.env("SUMMARIZER_COMMIT_MAX_BATCH", "few").output().unwrap());
    told.says(&["environment SUMMARIZER_COMMIT_MAX_BATCH"]);
    assert!(!told.err.contains("summarizer.toml"), "the file is not to blame: {}", told.err);
    std::fs::remove_file(home.path("summarizer.toml")).unwrap();
    std::fs::write(home.path("flow_registry/registry.flow_packs.v1.jsonl"), "{}\n").unwrap();
    run(&home, 3, &["drain"]).says(&["flow registry", "line 1"]);
}

#[test]
fn submit_refuses_invalid_requests_and_appends_valid_ones() {
    let home = ProcessHome::new();
    let mut bad = request("x", ACTIVE, json!({}));
    bad["urgency"] = "soon".into();
    bad["priority"] = 9.into();
    let good = request("y", ACTIVE, json!({}));
    std::fs::write(home.path("both.jsonl"), lines(&[good, bad])).unwrap();
    let file = home.path("both.jsonl");
    let refused = run(&home, 5, &["submit", file.to_str().unwrap()]);
    refused.says(&["request 2", "nothing was appended", "/urgency", "/priority"]);
    assert!(home.read("run/queue.jsonl").is_empty());
    home.note("y.txt", "A note.");
    let built = run(
        &home,
        0,
        &["submit", "--flow", ACTIVE, "--id", "y.txt", "--request-id", "y", "--json"],
    );
    assert_eq!(built.json()["submitted"], 1);
    run(&home, 0, &["drain", "--json"]);
    assert_eq!(home.acks().last().unwrap()["status"], "completed");
    run(&home, 2, &["submit", "--flow", ACTIVE]).says(&["--id"]);
    let queue = home.read("run/queue.jsonl");
    let absolute = home.path("y.txt").display().to_string();
    for outside in [&*absolute, "../y.txt", "other:../../y.txt", "a/./y.txt/..", "../list.csv#1"] {
        let refused = run(&home, 2, &["submit", "--flow", ACTIVE, "--id", outside]);
        refused.says(&["is no id of the bus `other`", "below", "summarizer add"]);
    }
    assert_eq!(home.read("run/queue.jsonl"), queue, "nothing was appended");
    run(&home, 5, &["submit", "no-such-file.jsonl"]);
}

#[test]
fn json_output_is_valid_json() {
    let home = lived_in();
    let drained = run(&home, 0, &["drain", "--json"]).json();
    assert_eq!(drained["lines"], 0);
    let status = run(&home, 0, &["status", "--json"]).json();
    assert_eq!(status["at"], "2026-03-01T12:00:00.000Z");
    assert_eq!(status["requests"]["taken"], 5);
    assert_eq!(status["quarantined"], 1);
    assert_eq!(run(&home, 0, &["show", "a", "--json"]).json()["latest"]["state"], "duplicate");
    assert!(run(&home, 0, &["config", "--json"]).json()["settings"].as_array().unwrap().len() > 10);
    assert!(run(&home, 0, &["log", "stats", "--json"]).json()["head"].as_u64().unwrap() > 8);
    let events = run(&home, 0, &["log", "dump", "--json"]).json_lines();
    let seqs: Vec<u64> = events.iter().map(|event| event["seq"].as_u64().unwrap()).collect();
    assert_eq!(seqs, (1..=seqs.len() as u64).collect::<Vec<_>>());
    assert_eq!(events[0]["event"], "SessionStarted");
    let part = run(&home, 0, &["log", "dump", "--from", "2", "--until", "4"]).json_lines();
    assert_eq!(part.len(), 3);
    for name in ["summary_request.v1", "summary_ack.v1", "summary_request_quarantine.v1"] {
        assert_eq!(run(&home, 0, &["schema", name]).json()["type"], "object");
    }
    for shell in ["bash", "zsh", "fish"] {
        assert!(!run(&home, 0, &["completions", shell]).out.is_empty());
    }
    run(&home, 0, &["man"]).says(&["summarizer"]);
}

#[test]
fn requests_are_listed_in_pages() {
    let home = ProcessHome::new();
    let many: Vec<Value> = (0..2300)
        .map(|n| {
            request(&format!("r{n}"), if n % 2 == 0 { DISABLED } else { "none.v1" }, json!({}))
        })
        .collect();
    home.append(&lines(&many));
    run(&home, 0, &["drain"]);
    let ids = |args: &[&str]| -> Vec<String> {
        let args = [&["requests", "--json"], args].concat();
        let rows = run(&home, 0, &args).json_lines();
        rows.iter().map(|row| row["request_id"].as_str().unwrap().to_owned()).collect()
    };
    let newest_first: Vec<String> = (0..2300).rev().map(|n| format!("r{n}")).collect();
    assert_eq!(ids(&["--limit", "0"]), newest_first);
    assert_eq!(ids(&[]), newest_first[..50]);
    assert_eq!(ids(&["--limit", "1500"]), newest_first[..1500]);
    assert_eq!(ids(&["--limit", "0", "--flow", DISABLED]).len(), 1150);
    assert_eq!(ids(&["--limit", "0", "--state", "completed"]).len(), 0);
    assert_eq!(ids(&["--limit", "0", "--since", "2026-03-01T12:00:01Z"]).len(), 0);
    run(&home, 2, &["requests", "--state", "nonsense"]).says(&["there is no state nonsense"]);
}

#[test]
fn a_closed_pipe_is_not_an_error() {
    let home = ProcessHome::new();
    let many: Vec<Value> =
        (0..3000).map(|n| request(&format!("r{n}"), DISABLED, json!({}))).collect();
    home.append(&lines(&many));
    run(&home, 0, &["drain"]);
    for args in [["requests", "--limit", "0", "--json"].as_slice(), &["log", "dump"]] {
        let mut child =
            fixed(&home, args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut first = [0; 10];
        child.stdout.take().unwrap().read_exact(&mut first).unwrap();
        let ran = Ran::of(child.wait_with_output().unwrap());
        assert_eq!((ran.exit, ran.err.as_str()), (Some(0), ""), "{args:?}");
    }
}

#[test]
fn a_bad_line_is_listed_shown_and_released() {
    let home = lived_in();
    let listed = run(&home, 0, &["quarantine", "list", "--json"]).json_lines();
    assert_eq!(listed.len(), 1);
    let seq = listed[0]["seq"].to_string();
    let shown = run(&home, 0, &["quarantine", "show", &seq, "--json"]).json();
    assert_eq!(shown["reason"], "schema_violation");
    assert!(shown["errors"].as_array().unwrap().len() > 2);
    // `show` tells of it too, by the number of its line and by the id that it has.
    let line = listed[0]["line"].to_string();
    let ids = [Some(line.as_str()), listed[0]["request_id"].as_str()];
    for id in ids.into_iter().flatten() {
        let told = run(&home, 5, &["show", id]).err;
        let what = format!("line {line} of the queue is quarantined (schema_violation): ");
        assert!(told.contains(&what) && told.contains(&seq), "{told}");
    }
    run(&home, 5, &["quarantine", "show", "1"]);
    run(&home, 5, &["quarantine", "show", "99999"]);
    let release = |text: &str| -> Ran {
        let mut child = fixed(&home, &["quarantine", "release", &seq, "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        Ran::of(child.wait_with_output().unwrap())
    };
    let still_bad = release("{\"schema_version\":\"summary_request.v1\"}");
    assert_eq!(still_bad.exit, Some(5));
    let queue = home.read("run/queue.jsonl");
    home.note("bad.txt", "Good now.");
    assert_eq!(release(&request("bad", ACTIVE, json!({})).to_string()).exit, Some(0));
    assert!(home.read("run/queue.jsonl").len() > queue.len());
    run(&home, 0, &["drain"]);
    assert_eq!(run(&home, 0, &["show", "bad", "--json"]).json()["latest"]["state"], "completed");
    home.audit(true).assert_clean("after a release");
}

#[test]
fn a_rewritten_queue_stops_intake_until_it_is_adopted() {
    let home = lived_in();
    run(&home, 0, &["queue", "adopt"]).says(&["nothing to adopt"]);
    let old = home.read("run/queue.jsonl");
    let mut bytes = lines(&[request("c", ACTIVE, json!({}))]);
    bytes.extend_from_slice(&old);
    std::fs::write(home.path("run/queue.jsonl"), &bytes).unwrap();
    run(&home, 5, &["drain"]).says(&["queue adopt"]);
    let dry = run(&home, 0, &["queue", "adopt", "--dry-run", "--json"]).json();
    assert_eq!(dry["recorded"], false);
    run(&home, 5, &["drain"]);
    run(&home, 0, &["queue", "adopt"]).says(&["continues at byte 0"]);
    run(&home, 0, &["drain"]);
    assert_eq!(run(&home, 0, &["show", "c", "--json"]).json()["latest"]["state"], "completed");
    let made = home.acks().iter().filter(|a| a["status"] == "completed").count();
    assert_eq!(made, 3, "what was taken in before became duplicates");
    std::fs::remove_file(home.path("run/queue.jsonl")).unwrap();
    run(&home, 5, &["drain"]).says(&["is gone"]);
}

#[test]
fn operators_retry_and_cancel_without_a_service() {
    let home = lived_in();
    run(&home, 5, &["retry", "nobody"]).says(&["nobody"]);
    run(&home, 1, &["retry", "b"]).says(&["output exists"]);
    home.note("missing.txt", "Here it is. At last.");
    run(&home, 0, &["retry", "missing"]);
    // It is listed once, as it is now.
    let listed = |args: &[&str]| -> Vec<Value> {
        let rows = run(&home, 0, &[&["requests", "--json"], args].concat()).json_lines();
        rows.into_iter().filter(|row| row["request_id"] == "missing").collect()
    };
    let states: Vec<Value> = listed(&[]).into_iter().map(|row| row["state"].clone()).collect();
    assert_eq!(states, ["ready"]);
    assert!(listed(&["--state", "rejected_invalid_input"]).is_empty());
    let later = with(request("later", ACTIVE, json!({})), "urgency", "scheduled");
    home.append(&lines(&[with(later, "not_before", "2999-01-01T00:00:00Z")]));
    run(&home, 0, &["drain"]);
    assert_eq!(
        run(&home, 0, &["show", "missing", "--json"]).json()["latest"]["state"],
        "completed"
    );
    run(&home, 0, &["cancel", "later"]);
    run(&home, 0, &["pause"]);
    home.append(&lines(&[request("c", ACTIVE, json!({}))]));
    run(&home, 0, &["drain"]);
    run(&home, 5, &["show", "c"]);
    run(&home, 0, &["resume"]);
    run(&home, 0, &["drain"]);
    run(&home, 0, &["show", "c"]);
    home.audit(true).assert_clean("after orders");
    home.check_projections();
    let failing = run(&home, 0, &["drain", "--fail-on-error"]);
    assert!(
        failing.err.starts_with("next: ") && failing.err.lines().count() == 1,
        "{}",
        failing.err
    );
    home.append(b"not json\n");
    run(&home, 1, &["drain", "--fail-on-error"]);
}

#[test]
fn a_damaged_log_gives_an_error_and_no_panic() {
    let home = lived_in();
    // Notes that do not compress, so that the log is most of the file.
    let mut rng = support::Rng::new(5);
    let noise = |rng: &mut support::Rng| -> String {
        (0..12).map(|_| format!("{:016x}", rng.next())).collect()
    };
    let many: Vec<Value> = (0..2000)
        .map(|n| with(request(&format!("r{n}"), DISABLED, json!({})), "notes", noise(&mut rng)))
        .collect();
    home.append(&lines(&many));
    run(&home, 0, &["drain"]);
    let last = home.acks().pop().unwrap();
    let store = home.path("run/summarizer.redb");
    let whole = std::fs::read(&store).unwrap();
    let kept = ["run/ack.jsonl", "run/quarantine.jsonl"].map(|name| home.read(name));
    let dump = run(&home, 0, &["log", "dump"]).out;
    let flips = if support::deep() { 1000 } else { 40 };
    let (mut noticed, mut silent) = (0, 0);
    let anchor = format!("{}:{}", last["ack_seq"], last["log_head"].as_str().unwrap());
    for _ in 0..flips {
        let mut at = rng.below(whole.len() as u64) as usize;
        while whole[at] == 0 {
            at = rng.below(whole.len() as u64) as usize;
        }
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << rng.below(8);
        std::fs::write(&store, &bytes).unwrap();
        let ran = Ran::of(fixed(&home, &["log", "verify", "--anchor", &anchor]).output().unwrap());
        assert!(!ran.err.contains("panicked"), "byte {at}: {}", ran.err);
        match ran.exit {
            Some(1 | 6) => {
                ran.says(&["damaged"]);
                noticed += 1;
                // Nothing is built on what `log verify` calls damaged.
                std::fs::write(&store, &bytes).unwrap();
                run(&home, 6, &["drain"]);
            }
            // Free pages and older roots are not in use: the log must read as before.
            Some(0) => {
                assert_eq!(run(&home, 0, &["log", "dump"]).out, dump, "byte {at}");
                silent += 1;
            }
            other => panic!("byte {at}: {other:?}\n{}\n{}", ran.out, ran.err),
        }
    }
    println!("{noticed} flips noticed, {silent} in bytes that stand for nothing");
    assert!(noticed > flips / 4, "{noticed} noticed, {silent} silent");
    std::fs::write(&store, &whole).unwrap();
    run(&home, 0, &["log", "verify", "--anchor", &anchor]).says(&["intact"]);
    assert_eq!(kept, ["run/ack.jsonl", "run/quarantine.jsonl"].map(|name| home.read(name)));
    let wrong = format!("{}:{}", last["ack_seq"], "0".repeat(64));
    run(&home, 1, &["log", "verify", "--anchor", &wrong]);
    std::fs::write(&store, b"this is no store").unwrap();
    run(&home, 6, &["status"]).says(&["not a summarizer store"]);
    std::fs::write(&store, &whole[..whole.len() / 2]).unwrap();
    let cut = Ran::of(fixed(&home, &["status"]).output().unwrap());
    assert_eq!(cut.exit, Some(6), "{}", cut.err);
    assert!(!cut.err.contains("panicked"), "{}", cut.err);
}

#[test]
fn every_command_has_a_man_page_and_every_shell_has_completions() {
    let home = ProcessHome::new();
    let folder = home.path("man1");
    home.expect(0, &["man", "--out", folder.to_str().unwrap()]).says(&["pages to"]);
    for name in ["summarizer", "summarizer-submit", "summarizer-digest-build"] {
        let page = std::fs::read_to_string(folder.join(format!("{name}.1"))).unwrap();
        assert!(page.contains(&format!(".TH {name} 1")) && page.contains(".SH OPTIONS"), "{page}");
    }
    home.expect(0, &["man"]).says(&[".TH summarizer 1", "Exit codes"]);
    for shell in ["bash", "zsh", "fish"] {
        let script = home.expect(0, &["completions", shell]);
        script.says(&["summarizer", "quarantine"]);
        for hidden in ["worker", "names"] {
            let offers = [
                format!("summarizer,{hidden})"),
                format!("'{hidden}:"),
                format!("-a \"{hidden}\""),
            ];
            assert!(!offers.iter().any(|one| script.out.contains(one)), "{shell}: {hidden}");
        }
    }
}

/// Commands that run on, that only hold others, or that need other hosts.
const WITHOUT_REPORT: [&str; 11] = [
    "serve",
    "open",
    "worker",
    "names",
    "cluster-init",
    "cluster-join",
    "cluster-status",
    "cluster-verify",
    "cluster-trim",
    "cluster-leave",
    "flow-batch",
];
/// Commands that print a line for each row, and none where there is no row.
const LISTS: [&str; 3] = ["search", "quarantine-list", "trace"];

/// What each command prints with `--json`: JSON values on standard output, or one that tells the error on standard error.
#[test]
fn every_command_prints_json_when_it_is_asked_for() {
    let home = ProcessHome::new();
    let own = home.path("own").display().to_string();
    let in_own = |args: &[&str]| {
        let args = [&["--home", own.as_str()], args].concat();
        Ran::of(home.command(&args).arg("--json").stdin(Stdio::null()).output().unwrap())
    };
    assert_eq!(in_own(&["init"]).exit, Some(0));
    let place = |name: &str| home.path(name).display().to_string();
    std::fs::write(
        home.path("own/buses/other/roof.txt"),
        "Please call the roofer until Friday. The roof costs 900 EUR.",
    )
    .unwrap();
    let (note, copy) = (place("own/buses/other/roof.txt"), place("copy"));
    std::fs::write(
        home.path("day.jsonl"),
        "{\"at\":\"2026-02-11T10:00:00Z\",\"m\":\"The roof leaks.\"}\n",
    )
    .unwrap();
    std::fs::write(
        home.path("a.eml"),
        "From: a@x.org\nDate: Wed, 11 Feb 2026 10:00:00 +0000\n\nThe roof leaks.\n",
    )
    .unwrap();
    std::fs::write(
        home.path("feed.json"),
        "{\"items\":[{\"id\":\"1\",\"content_text\":\"The roof leaks.\",\
        \"date_published\":\"2026-02-11T10:00:00Z\"}]}",
    )
    .unwrap();
    let [lines, mail, feed] = ["day.jsonl", "a.eml", "feed.json"].map(place);
    assert_eq!(in_own(&["add", &note, "--flow", "task"]).exit, Some(0));
    let task = in_own(&["task", "list"]).json()["task_id"].as_str().unwrap().to_owned();
    let brief = "docs.chunk_set.summarize.brief.v1";
    let runs: &[&[&str]] = &[
        &["init"],
        &["doctor"],
        &["config"],
        &["schema"],
        &["schema", "summary_request.v1"],
        &["completions", "bash"],
        &["man"],
        &["man", "--out", &place("man1")],
        &["demo", &place("demo")],
        &["sum", &note],
        &["add", &note],
        &["add", &note, "--dry-run"],
        &["read"],
        &["search", "roof"],
        &["search", "nowhere"],
        &["pause"],
        &["resume"],
        &["reload"],
        &["drain"],
        &["retry", "missing"],
        &["cancel", "missing"],
        &["queue", "adopt", "--from", "start"],
        &["queue", "adopt", "--from", "start", "--dry-run"],
        &["submit", "--all-new"],
        &["quarantine", "list"],
        &["quarantine", "show", "1"],
        &["quarantine", "release", "1", &lines],
        &["status"],
        &["requests"],
        &["show", "a"],
        &["explain", "a"],
        &["trace", "other:a.txt"],
        &["log", "dump"],
        &["log", "stats"],
        &["log", "verify"],
        &["log", "archive", "--before", "1"],
        &["verify"],
        &["replay"],
        &["export", "--to", &place("exported")],
        &["backup", &copy],
        &["recover"],
        &["retain", "--dry-run"],
        &["forget", "--dry-run", "nobody.txt"],
        &["service", "install", "--user", "--print"],
        &["service", "install", "--user", "--print", "--timer", "daily"],
        &["service", "uninstall", "--user"],
        &["import", "chat-export", &lines],
        &["import", "text", &note],
        &["import", "mail", &mail],
        &["import", "rss-json", &feed],
        &["import", "jsonl", &lines, "--time", "at", "--text", "m"],
        &["select", "--bus", "event_bus", "--day", "2026-02-11"],
        &["day", "open", "2026-02-11"],
        &["digest", "build"],
        &["digest", "list"],
        &["digest", "preview"],
        &["digest", "show"],
        &["digest", "diff", "bag_1", "bag_2"],
        &["digest", "gc", "--dry-run"],
        &["watch", "add", &place("own/buses/other")],
        &["watch", "list"],
        &["watch", "remove", &place("own/buses/other")],
        &["task", "list"],
        &["task", "done", &task],
        &["task", "reopen", &task],
        &["registry", "list"],
        &["registry", "show", brief],
        &["registry", "check"],
        &["registry", "hash", brief],
        &["registry", "add", "nowhere"],
        &["registry", "seal", brief],
        &["flow", "run", brief, "--input", &note],
        &["flow", "run", brief, "--input", &note, "--show-prompts"],
        &["flow", "compare", brief, "--providers", "builtin", "--inputs", &copy],
        &["flow", "new", &place("my.note.summarize.brief.v1")],
        &["flow", "batch", "export", brief, "--input", &note, "--into", &place("batch")],
        &["flow", "batch", "import", &place("batch"), &lines],
        &["compact", &lines, "--out", &place("snapshots")],
        &["tune", &lines, "--out", &place("tune")],
        &["perspectives", "check", &copy],
        &["perspectives", "write", &copy, "--from", &lines],
        &["perspectives", "draft", "--objective", "batteries"],
        &["wave", "check", &copy],
        &["pack", "build", &copy],
        &["pack", "check", &copy],
    ];
    let mut silent = Vec::new();
    let mut asked = std::collections::BTreeSet::new();
    for args in runs {
        let words: Vec<&str> =
            args.iter().take_while(|word| !word.contains(['/', '.'])).copied().collect();
        asked.extend((1..=words.len()).map(|count| words[..count].join("-")));
        let ran = in_own(args);
        let values = serde_json::Deserializer::from_str(&ran.out).into_iter::<Value>();
        let values: Result<Vec<Value>, _> = values.collect();
        let told: Result<Value, _> =
            serde_json::from_str(ran.err.lines().last().unwrap_or_default());
        let is_error = ran.exit != Some(0) && told.is_ok_and(|told| told["error"].is_string());
        let is_list = LISTS.iter().any(|list| words.join("-").starts_with(list));
        if !values.as_ref().is_ok_and(|values| !values.is_empty() || is_error || is_list) {
            silent.push(format!("{args:?}: {:?} {values:?}\n{}\n{}", ran.exit, ran.out, ran.err));
        }
    }
    assert!(silent.is_empty(), "{}", silent.join("\n"));
    for page in std::fs::read_dir(home.path("man1")).unwrap() {
        let name = page.unwrap().file_name().into_string().unwrap();
        let name =
            name.trim_end_matches(".1").trim_start_matches("summarizer").trim_start_matches('-');
        let known = name.is_empty() || asked.contains(name) || WITHOUT_REPORT.contains(&name);
        assert!(known || name.starts_with("cluster"), "{name} is not asked for JSON");
    }
}

#[test]
fn a_log_of_a_newer_format_is_refused_and_not_changed() {
    let home = lived_in();
    let store = home.path("run/summarizer.redb");
    {
        let db = redb::Database::open(&store).unwrap();
        let txn = db.begin_write().unwrap();
        let meta: redb::TableDefinition<&str, &[u8]> = redb::TableDefinition::new("meta");
        let newer = [9u32.to_le_bytes(), 0u32.to_le_bytes()].concat();
        txn.open_table(meta).unwrap().insert("format", &*newer).unwrap();
        txn.open_table(meta).unwrap().insert("release", &b"9.1.0"[..]).unwrap();
        txn.commit().unwrap();
    }
    for command in ["drain", "status"] {
        run(&home, 6, &[command]).says(&["format version 9", "summarizer 9.1.0 or newer", "hint:"]);
    }
}

/// Runs the program with a limit for the size of files, like a quota.
fn limited(home: &ProcessHome, blocks: u64, args: &str) -> Ran {
    // Without the signal a write beyond the limit fails, like one on a full disk.
    let script = format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$0\" {args}");
    let mut command = Command::new("/bin/sh");
    command.env_clear().env("SUMMARIZER_HOME", home.root()).env("SUMMARIZER_TEST_NOW", test_now());
    command.args(["-c", &script, env!("CARGO_BIN_EXE_summarizer")]);
    Ran::of(command.stdin(Stdio::null()).output().unwrap())
}

#[test]
fn a_file_size_limit_stops_the_service_cleanly_and_loses_no_request() {
    let home = lived_in();
    let many: Vec<Value> =
        (0..4000).map(|n| request(&format!("r{n}"), DISABLED, json!({}))).collect();
    home.append(&lines(&many));
    let size = std::fs::metadata(home.path("run/summarizer.redb")).unwrap().len();
    let stopped = limited(&home, size / 512 + 64, "drain");
    assert!(!stopped.err.contains("panicked"), "{}", stopped.err);
    assert_eq!(stopped.exit, Some(6), "{}\n{}", stopped.out, stopped.err);
    run(&home, 0, &["drain"]);
    home.audit(true).assert_clean("after a quota");
    assert_eq!(run(&home, 0, &["log", "verify", "--json"]).json()["ok"], true);
    home.check_projections();
}

/// A small file system in memory, unmounted at the end.
struct SmallDisk(std::path::PathBuf);

impl SmallDisk {
    fn mount(at: &std::path::Path, bytes: &str) -> Option<SmallDisk> {
        let size = format!("size={bytes}");
        let mount =
            Command::new("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(at).output();
        mount.ok().filter(|done| done.status.success()).map(|_| SmallDisk(at.to_owned()))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).output();
    }
}

/// Fills the file system and frees a little space.
fn fill(ballast: &std::path::Path, leave: u64) {
    let mut file = std::fs::File::create(ballast).unwrap();
    let block = vec![1; 1 << 16];
    while file.write_all(&block).is_ok() {}
    let len = file.metadata().unwrap().len();
    file.set_len(len.saturating_sub(leave)).unwrap();
}

#[test]
fn a_full_disk_stops_the_service_cleanly_and_it_continues_when_space_is_free() {
    let mut disk = None;
    let home = ProcessHome::prepared(|root| disk = SmallDisk::mount(root, "16m"));
    if disk.is_none() {
        eprintln!("SKIPPED: a small tmpfs cannot be mounted here, so no full disk was tried");
        return;
    }
    run(&home, 0, &["drain"]);
    let many: Vec<Value> =
        (0..4000).map(|n| request(&format!("r{n}"), DISABLED, json!({}))).collect();
    home.append(&lines(&many));
    fill(&home.path("ballast"), 300_000);
    // With the usual headroom the backup does not start; without headroom it stops in the middle.
    run(&home, 0, &["drain"]);
    assert_eq!(run(&home, 0, &["status", "--json"]).json()["paused"], json!(["disk_space"]));
    std::fs::remove_file(home.path("ballast")).unwrap();
    std::fs::write(home.path("summarizer.toml"), "[commit]\ndisk_headroom = \"0 B\"\n").unwrap();
    fill(&home.path("ballast"), 300_000);
    run(&home, 6, &["drain"]).says(&["No space left", "hint:"]);
    std::fs::remove_file(home.path("ballast")).unwrap();
    run(&home, 0, &["drain"]);
    let verdict = home.audit(true);
    verdict.assert_clean("after a full disk");
    assert_eq!(verdict.count("rejected_unknown_flow"), 4000);
    assert_eq!(run(&home, 0, &["log", "verify", "--json"]).json()["ok"], true);
    home.check_projections();
    // Unmounted before the folder goes away.
    drop(disk);
}

#[test]
fn on_a_nearly_full_disk_publications_wait_and_digest_gc_makes_room() {
    let mut disk = None;
    let home = ProcessHome::prepared(|root| disk = SmallDisk::mount(root, "128m"));
    if disk.is_none() {
        eprintln!("SKIPPED: a small tmpfs cannot be mounted here, so no full disk was tried");
        return;
    }
    home.note("a.txt", "The boat leaves on Monday. Ana pays for the ropes before noon.");
    home.append(&lines(&[request("a", ACTIVE, json!({}))]));
    run(&home, 0, &["drain"]);
    let published = || {
        let folder = std::fs::read_dir(home.path("buses/summaries/documents")).unwrap();
        folder.map(|entry| entry.unwrap().path()).collect::<Vec<_>>()
    };
    let (files, acks) = (published(), home.acks());
    assert_eq!(files.len(), 1);
    // The summary is made and not published, and the disk has less than half of the headroom.
    std::fs::remove_file(&files[0]).unwrap();
    std::fs::write(home.path("summarizer.toml"), "[commit]\ndisk_headroom = \"400 MiB\"\n")
        .unwrap();
    let words =
        ["too little room on the disk", "half of commit.disk_headroom", "no accepted request"];
    run(&home, 6, &["drain"]).says(&words);
    assert_eq!((published().len(), home.acks()), (0, acks), "it waits, and no attempt is lost");
    std::fs::remove_file(home.path("summarizer.toml")).unwrap();
    run(&home, 0, &["drain"]);
    assert_eq!(published(), files);
    // The files of a failed build fill the disk. Nothing can be written before they are gone.
    let staged = home.path("buses").with_file_name(".buses.publishing").join(".staging/run_failed");
    std::fs::create_dir_all(&staged).unwrap();
    std::fs::write(staged.join("large"), vec![1; 4 << 20]).unwrap();
    fill(&home.path("ballast"), 0);
    let gone = run(&home, 0, &["digest", "gc", "--json"]).json();
    assert_eq!((&gone["staged"], staged.exists()), (&json!(["run_failed"]), false));
    run(&home, 0, &["drain"]);
    std::fs::remove_file(home.path("ballast")).unwrap();
    home.audit(true).assert_clean("after a full disk");
    drop(disk);
}

/// The log remembers each consumed part of the queue, also one of blank lines only.
#[test]
fn blank_lines_alone_leave_a_mark() {
    let home = ProcessHome::new();
    for id in ["a", "b", "c"] {
        home.note(&format!("{id}.txt"), "One sentence. Another one.");
    }
    let is_whole = |when: &str| {
        let told = run(&home, 0, &["queue", "adopt", "--dry-run"]);
        assert!(told.err.contains("nothing to adopt"), "{when}: {}\n{}", told.out, told.err);
        let found = Ran::of(fixed(&home, &["doctor", "--deep", "--json"]).output().unwrap());
        assert!(!found.out.contains("were rewritten"), "{when}: {}", found.out);
    };
    for blank in ["\n", " \t\r\n\n", "\n"] {
        home.append(blank.as_bytes());
        run(&home, 0, &["drain"]);
    }
    home.append(&lines(&[request("a", ACTIVE, json!({}))]));
    run(&home, 0, &["drain"]);
    is_whole("blank lines before all others");
    home.append(b"\n");
    run(&home, 0, &["drain"]);
    is_whole("a blank line at the end");
    home.append(&lines(&[request("b", ACTIVE, json!({}))]));
    run(&home, 0, &["drain"]);
    is_whole("a line behind it");
    let service = Running::start(&home, &["serve"]);
    until("the service answers", || home.answers());
    let passed = || {
        let dump = home.expect(0, &["log", "dump"]).out;
        dump.matches("LinesPassed").count()
    };
    let before = passed();
    home.append(b"\n \n");
    until("the blank lines are read", || passed() > before);
    home.append(&lines(&[request("c", ACTIVE, json!({}))]));
    until("the request has ended", || {
        home.acks().iter().any(|ack| ack["request_id"] == "c" && ack["status"] == "completed")
    });
    assert_eq!(service.terminate(), Some(0));
    is_whole("a service");
    // A log that is made again from the files remembers them too.
    std::fs::remove_file(home.path("run/summarizer.redb")).unwrap();
    home.expect(0, &["recover"]);
    is_whole("a recovered log");
}

#[test]
fn the_demo_shows_every_feature_and_verifies() {
    let home = ProcessHome { dir: tempfile::tempdir().unwrap() };
    let dir = home.path("demo");
    let dir = dir.to_str().unwrap();
    let told = home.expect(0, &["demo", dir]);
    told.says(&[
        "events 4",
        "sessions 2",
        "documents 4",
        "chunk_sets 1",
        "every hash and reference verified",
    ]);
    told.says(&[
        "its summary is that of mail-kitchen",
        "skipped: empty content",
        "malformed_json",
        "snapshot",
        "Try next",
    ]);
    assert!(told.out.lines().all(|line| line.chars().count() <= 160), "{}", told.out);
    home.expect(2, &["demo", dir]).says(&["is not empty"]);
    for line in told.out.lines().skip_while(|line| *line != "Try next").skip(1) {
        let command = line.split('#').next().unwrap();
        let words: Vec<&str> = command.split_whitespace().skip(1).collect();
        home.expect(0, &words);
    }
    home.expect(0, &["--home", dir, "verify"]);
    home.expect(0, &["--home", dir, "doctor", "--deep"]);
}
