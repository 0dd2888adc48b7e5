//! The real program: killed at random while a producer keeps appending, two processes on one home,
//! questions to a running service, and signals to stop.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test stops at the first surprise"
)]

mod support;

use std::time::{Duration, Instant};

use serde_json::json;
use support::process::{ProcessHome, Ran, Running};
use support::requests::{ACTIVE, DEPRECATED, DISABLED, from_repo, lines, request, with};
use support::running::until;
use support::{Rng, deep};

/// Lines of every kind; ids continue from `from`.
fn mixed(home: &ProcessHome, rng: &mut Rng, from: u64, count: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    for number in from..from + count {
        let id = format!("r{number}");
        let earlier = format!("r{}", rng.below(number + 1));
        let plain = request(&id, ACTIVE, json!({}));
        let line = match rng.below(14) {
            0 => lines(&[request(&id, DEPRECATED, json!({}))]),
            1 => lines(&[request(&id, DISABLED, json!({}))]),
            2 => lines(&[request(&id, "no.such.flow.v1", json!({}))]),
            3 => lines(&[with(plain, "idempotency_key", format!("k{}", number / 9))]),
            4 => lines(&[request(&earlier, ACTIVE, json!({}))]),
            5 => b"{\"schema_version\":\"summary_request.v1\"}\n".to_vec(),
            6 => b"\xff\xfe garbage\n\n".to_vec(),
            7 => {
                // The file does not exist, so the input is invalid.
                lines(&[with(
                    plain,
                    "input",
                    json!({"mode": "ids", "bus": "other", "ids": ["none.txt"]}),
                )])
            }
            8 => {
                let mut same = plain;
                same["input"]["ids"] = json!(["shared.txt"]);
                same["idempotency_key"] = id.clone().into();
                lines(&[same])
            }
            9 => {
                home.note(&format!("{id}.txt"), "   ");
                lines(&[plain])
            }
            _ => lines(&[from_repo(plain, ["mail", "docs", "ops"][number as usize % 3])]),
        };
        if !home.path(&format!("buses/other/{id}.txt")).exists() {
            home.note(&format!("{id}.txt"), &format!("Note {number} says hello. It ends here."));
        }
        bytes.extend_from_slice(&line);
    }
    bytes
}

#[test]
fn a_service_killed_at_random_loses_nothing_and_repeats_nothing() {
    let home = ProcessHome::new();
    home.note("shared.txt", "One text for many. They share it.");
    // The moment of a kill depends on the machine. The requests do not, except in deep runs.
    let seed = if deep() { std::process::id().into() } else { 7 };
    println!("seed {seed}");
    let mut rng = Rng::new(seed);
    let (mut written, mut kills, mut ended) = (0, 0, 0);
    let begin = Instant::now();
    let wanted = if deep() { 200 } else { 22 };
    while kills < wanted {
        let count = 60 + rng.below(80);
        home.append(&mixed(&home, &mut rng, written, count));
        written += count;
        let command = if rng.chance(50) { "serve" } else { "drain" };
        let mut child = Running::start(&home, &[command]);
        let longest = if rng.chance(30) { 900 } else { 250 };
        let living = Duration::from_millis(10 + rng.below(longest));
        let start = Instant::now();
        while start.elapsed() < living && child.0.try_wait().unwrap().is_none() {
            if rng.chance(30) {
                let bytes = mixed(&home, &mut rng, written, 3);
                // A torn write that the same producer completes a moment later.
                let cut = rng.below(bytes.len() as u64) as usize;
                home.append(&bytes[..cut]);
                home.append(&bytes[cut..]);
                written += 3;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        match child.0.try_wait().unwrap() {
            Some(status) => {
                // A drain that came to its end says with 1 that some of the requests failed for good,
                // as the requests of this test do on purpose. A service has no such word.
                let words = if command == "drain" { [0, 1].as_slice() } else { &[0] };
                let code = status.code();
                assert!(code.is_some_and(|code| words.contains(&code)), "{command}: {code:?}");
                ended += 1;
            }
            None => {
                child.kill();
                kills += 1;
            }
        }
        if kills % 6 == 5 {
            // Opening the home repairs files that a kill left half written.
            home.expect(0, &["status"]);
            home.audit(false).assert_clean(&format!("seed {seed}, after kill {kills}"));
        }
    }
    home.expect(0, &["drain", "--json"]);
    let verdict = home.audit(true);
    verdict.assert_clean(&format!("seed {seed}"));
    assert!(verdict.count("completed") > 100 && verdict.count("duplicate") > 0);
    assert_eq!(home.expect(0, &["log", "verify", "--json"]).json()["ok"], true);
    home.check_projections();
    let last = home.acks().pop().unwrap();
    let anchor = format!("{}:{}", last["ack_seq"], last["log_head"].as_str().unwrap());
    home.expect(0, &["log", "verify", "--anchor", &anchor]);
    println!("{kills} kills, {ended} ends in order, {written} requests, {:?}", begin.elapsed());
}

#[test]
fn a_second_process_is_refused_with_the_holders_id_and_a_signal_stops_the_holder() {
    let home = ProcessHome::new();
    home.note("a.txt", "Hello there. Fine weather.");
    let service = Running::start(&home, &["serve"]);
    until("the service answers", || home.answers());
    for command in [["serve"].as_slice(), &["drain"], &["queue", "adopt"]] {
        let refused = home.expect(4, command);
        refused.says(&["another process holds this home", &service.0.id().to_string()]);
    }
    // A single request while idle.
    home.append(&lines(&[request("a", ACTIVE, json!({}))]));
    until("the accepted ack", || home.acks().iter().any(|ack| ack["status"] == "accepted"));
    until("the ending", || home.acks().iter().any(|ack| ack["status"] == "completed"));
    assert_eq!(service.terminate(), Some(0));
    assert!(!home.path("run/summarizer.sock").exists(), "the socket is left behind");
    home.audit(true).assert_clean("after a signal");
}

#[test]
fn a_running_service_answers_questions_and_follows_orders() {
    let home = ProcessHome::new();
    home.note("a.txt", "Hello there. Fine weather.");
    home.note("later.txt", "Not now. Much later.");
    let service = Running::start(&home, &["serve"]);
    until("the service answers", || home.answers());
    let status = home.expect(0, &["status", "--json"]).json();
    assert_eq!(status["session"]["command"], "serve");
    assert_eq!(status["paused"], json!([]));
    home.expect(0, &["pause"]);
    assert_eq!(home.expect(0, &["status", "--json"]).json()["paused"], json!(["operator"]));
    home.append(&lines(&[request("a", ACTIVE, json!({}))]));
    home.expect(0, &["resume"]);
    until("the ending after a pause", || home.acks().iter().any(|a| a["status"] == "completed"));
    let shown = home.expect(0, &["show", "a", "--json"]).json();
    assert_eq!(shown["latest"]["state"], "completed");
    home.expect(5, &["show", "nobody"]).says(&["nobody"]);
    let later = with(request("later", ACTIVE, json!({})), "urgency", "scheduled");
    home.append(&lines(&[with(later, "not_before", "2999-01-01T00:00:00Z")]));
    until("the scheduled one is accepted", || {
        home.run(&["show", "later", "--json"]).exit == Some(0)
    });
    home.expect(1, &["retry", "later"]).says(&["soft delay"]);
    home.expect(0, &["cancel", "later"]);
    home.expect(1, &["cancel", "later"]).says(&["ended already"]);
    home.expect(0, &["retry", "later"]);
    home.expect(0, &["cancel", "later"]);
    let rows = home.expect(0, &["requests", "--json", "--state", "cancelled"]).json_lines();
    assert_eq!(rows.len(), 1, "a retried request is one request: {rows:?}");
    home.expect(0, &["reload"]);
    std::fs::write(home.path("summarizer.toml"), "nonsense = 1\n").unwrap();
    let kept =
        Ran::of(home.command(&["reload"]).env("SUMMARIZER_CONFIG", "/dev/null").output().unwrap());
    assert_eq!(kept.exit, Some(1), "{}", kept.err);
    kept.says(&["nonsense"]);
    std::fs::remove_file(home.path("summarizer.toml")).unwrap();
    assert_eq!(home.expect(0, &["log", "verify", "--json"]).json()["ok"], true);
    assert_eq!(service.terminate(), Some(0));
    home.audit(true).assert_clean("after orders");
    home.check_projections();
}
