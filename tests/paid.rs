//! Model calls that cost money, through the real service: a response that was received is never paid
//! for twice, budgets survive restarts and reloads, and a provider that misbehaves affects only its
//! own requests.
#![allow(clippy::unwrap_used, reason = "helpers of a test may panic")]

#[path = "support/flow_home.rs"]
mod flow_home;
#[path = "support/running.rs"]
mod running;
#[path = "support/server.rs"]
mod server;

use std::time::Duration;

use flow_home::{FLOW, FREE, Home, QUICK, config, good, good_answer, wait_until};
use serde_json::{Value, json};
use server::{Act, Server, chat, status};
use summarizer::state::event::Event;

#[test]
fn a_summary_names_its_model_and_its_cost() {
    let server = Server::start(vec![good()]);
    let home = Home::new(&config(&server, "price_in = 2.0\nprice_out = 4.0", ""));
    home.ask("one", FLOW, "An idea for a template that others could use.");
    home.ask("free", FREE, "A brief about walking in the mountains.");
    home.ok(&["drain"]);
    assert_eq!(home.last_ack("one")["status"], "completed");
    assert_eq!(home.last_ack("free")["status"], "completed");
    assert_eq!(server.seen().len(), 1);
    let status = home.status();
    let charged = &status["charged"]["providers"]["loop"];
    assert_eq!((&charged["calls"], &charged["input_tokens"]), (&json!(1), &json!(11)));
    assert_eq!(charged["cost"], json!(0.00005), "{status}");
    let items = home.items();
    let by_model = items.iter().find(|item| item["outputs"]["model_generated"] == true).unwrap();
    assert_eq!(by_model["model"]["provider"], "loop", "{by_model}");
    assert_eq!(by_model["model"]["model_name"], "loop-1");
    assert_eq!(home.charges(), [("loop".to_owned(), 18, false)]);
    let facts = home.facts_of_items();
    let facts = facts.iter().find(|facts| facts["provenance"]["flow"] == FLOW).unwrap();
    let provenance = &facts["provenance"];
    assert_eq!(provenance["usage"], json!({"input_tokens": 11, "output_tokens": 7}));
    for name in ["pack_hash", "prompt_hash", "rendered_prompt_sha256"] {
        assert_eq!(provenance[name].as_str().unwrap().len(), 64, "{name} in {provenance}");
    }
    assert!(provenance["engine"].is_string() && provenance["engine_version"].is_string());
    let used: Vec<String> = home
        .events()
        .into_iter()
        .filter_map(|(event, _)| match event {
            Event::FlowUsed { flow_id, replaces: None, .. } => Some(flow_id),
            _ => None,
        })
        .collect();
    assert_eq!(used.len(), 2, "{used:?}");
}

#[test]
fn a_request_can_be_answered_over_the_messages_api() {
    let answer: Value = serde_json::from_str(&good_answer()).unwrap();
    let body = json!({
        "model": "claude-loop", "stop_reason": "tool_use",
        "usage": {"input_tokens": 20, "output_tokens": 5},
        "content": [{"type": "tool_use", "name": "answer", "input": answer}],
    });
    let server = Server::start(vec![Act::Send(200, Vec::new(), body.to_string())]);
    let text = format!(
        "[provider.loop]\nkind = \"anthropic\"\nbase_url = \"{}\"\nmodel = \"claude-loop\"\n\
         api_key_env = \"LOOP_KEY\"\n[flow.\"{FLOW}\"]\nprovider = \"loop\"\n",
        server.base
    );
    let home = Home::new(&text);
    home.ask("one", FLOW, "An idea for a template that others could use.");
    home.ok(&["drain"]);
    assert_eq!(home.last_ack("one")["status"], "completed");
    assert_eq!(home.items()[0]["model"]["model_name"], "claude-loop");
    assert_eq!(home.charges(), [("loop".to_owned(), 25, false)]);
    let seen = server.seen();
    assert_eq!((seen.len(), seen[0].path.as_str()), (1, "/v1/messages"));
}

#[test]
fn the_readme_example_for_ollama_works() {
    // The configuration of the README with the address of this test's server.
    let page = include_str!("../README.md");
    let block = page
        .split("```toml\n")
        .skip(1)
        .map(|rest| rest.split("```").next().unwrap())
        .find(|block| block.contains("11434"))
        .and_then(|block| block.split("[provider.hosted]").next())
        .unwrap();
    let task = "email.triage.extract_task.task_item.v1";
    let path = format!("{}/tests/golden/packs/{task}/recorded.txt", env!("CARGO_MANIFEST_DIR"));
    // Some local models think aloud first, here with an object in the thoughts.
    let thinking = "<think>\nMaybe {\"tasks\": []}? No, there is one.\n</think>\n\n";
    let said = format!("{thinking}{}", std::fs::read_to_string(path).unwrap());
    let body = json!({
        "id": "chatcmpl-431", "object": "chat.completion", "created": 1_771_500_000,
        "model": "llama3.2", "system_fingerprint": "fp_ollama",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": said},
                     "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 412, "completion_tokens": 96, "total_tokens": 508},
    });
    let missing = json!({"error": {"message": "model \"llama3.2\" not found, try pulling it first",
                                   "type": "api_error", "param": null, "code": null}});
    let server = Server::start(vec![
        Act::Send(404, Vec::new(), missing.to_string()),
        Act::Send(200, Vec::new(), body.to_string()),
    ]);
    let home = Home::new(&block.replace("http://127.0.0.1:11434", &server.base));
    home.ask("early", task, "Please send Ana the invoice by Friday.");
    home.ok(&["drain"]);
    let ack = home.last_ack("early");
    assert_eq!(ack["reason_code"], "model_error", "{ack}");
    assert!(ack["message"].as_str().unwrap().contains("try pulling it first"), "{ack}");
    home.ask("late", task, "Please send Ana the invoice by Friday, says Tom.");
    home.ok(&["drain"]);
    assert_eq!(home.last_ack("late")["status"], "completed", "{}", home.last_ack("late"));
    let item = &home.items()[0];
    assert_eq!(item["model"]["provider"], "ollama");
    assert_eq!(item["model"]["model_name"], "llama3.2");
    assert_ne!(item["outputs"]["structured"]["tasks"], json!([]));
    let seen = &server.seen()[1];
    assert_eq!(seen.path, "/v1/chat/completions");
    assert!(!seen.head.to_ascii_lowercase().contains("authorization"), "{}", seen.head);
    let asked = &seen.body;
    assert_eq!((&asked["model"], &asked["stream"]), (&json!("llama3.2"), &json!(true)));
    assert_eq!(asked["response_format"]["type"], "json_schema");
    assert_eq!(home.charges(), [("ollama".to_owned(), 508, false)]);
}

#[test]
fn a_request_overrides_what_the_configuration_sets_for_its_flow() {
    let server = Server::start(vec![good()]);
    let params = "params = { max_tokens = 77, temperature = 0.25, nobody = 1 }";
    let home = Home::new(&format!("{}{params}\n", config(&server, "", "")));
    home.ask("plain", FLOW, "An idea for a template that others could use.");
    home.ask_with("own", FLOW, "Another idea for a template.", json!({"max_tokens": 99}));
    home.ok(&["drain"]);
    let limits: std::collections::BTreeSet<String> = server
        .seen()
        .iter()
        .map(|seen| format!("{} {}", seen.body["max_tokens"], seen.body["temperature"]))
        .collect();
    assert_eq!(limits.into_iter().collect::<Vec<_>>(), ["77 0.25", "99 0.25"]);
    let configured = json!({"max_tokens": 77, "temperature": 0.25});
    for facts in home.facts_of_items() {
        assert_eq!(facts["provenance"]["configured_params"], configured);
    }
    for id in ["plain", "own"] {
        assert_eq!(home.last_ack(id)["warnings"], json!([]), "the mistake is not the request's");
        let summary = home.last_ack(id)["summary"]["summary_id"].as_str().unwrap().to_owned();
        home.ok(&["explain", &summary, "--verify"]);
    }
    // Other settings of a flow give other prompts.
    home.configure(&config(&server, "", ""));
    home.ask("later", FLOW, "An idea for a template that others could use.");
    home.ok(&["drain"]);
    assert_eq!(home.last_ack("later")["status"], "completed");
    let hashes: std::collections::BTreeSet<String> =
        home.items().iter().map(|item| item["prompt"]["prompt_hash"].to_string()).collect();
    assert_eq!(hashes.len(), 3);
}

#[test]
fn a_received_response_is_not_paid_for_again_after_a_kill() {
    // The first response does not fit the schema. The call that shows its errors hangs.
    let server = Server::start(vec![chat("{\"leverage_potential\": 7}"), Act::Silence]);
    let home = Home::new(&config(&server, "", ""));
    home.ask("one", FLOW, "An idea for a template that others could use.");
    let running = home.serve();
    wait_until("the second question", || server.seen().len() == 2);
    running.kill();
    assert_eq!(home.responses(), 1, "it was durable before anything was made of it");

    let after = Server::start(vec![good()]);
    home.configure(&config(&after, "", ""));
    home.ok(&["drain"]);
    let seen = after.seen();
    assert_eq!(seen.len(), 1, "only what was never answered is asked");
    let turns = seen[0].body["messages"].as_array().unwrap();
    assert!(turns.iter().any(|turn| turn["role"] == "assistant"), "it is the repair turn");
    let ack = home.last_ack("one");
    // The attempt that was under way at the kill counts.
    assert_eq!((&ack["status"], &ack["attempt"]), (&json!("completed"), &json!(2)), "{ack}");
    let facts = home.facts_of_items();
    let calls = facts[0]["provenance"]["calls"].as_array().unwrap();
    let reused: Vec<bool> = calls.iter().map(|call| call["reused"].as_bool().unwrap()).collect();
    assert_eq!(reused, [true, false]);
    assert_eq!(home.charges().len(), 2, "{:?}", home.charges());
}

/// The reserved cost of calls under way does not count as spent: requests wait until these calls end, and not
/// until tomorrow.
#[test]
fn calls_under_way_put_no_request_off_to_another_day() {
    let slow = Act::With(std::sync::Arc::new(|_: &Value| {
        std::thread::sleep(Duration::from_millis(200));
        good_answer()
    }));
    let server = Server::start(vec![slow]);
    let budget = |tokens: u64| format!("[budget]\nmax_tokens_per_day = {tokens}\n");
    let home = Home::new(&config(&server, "", &budget(1)));
    // The refusal of a call that fits into no day names what a call may take.
    home.ask_with("never", FLOW, "An idea for a course.", json!({"max_tokens": 2_000}));
    home.ok(&["drain"]);
    let words = home.last_ack("never")["message"].as_str().unwrap().to_owned();
    let needed = words.split_once("may take ").unwrap().1.split(' ').next().unwrap();
    let needed: u64 = needed.parse().unwrap();
    home.configure(&config(&server, "", &budget(2 * needed)));
    home.ask_with("first", FLOW, "The first idea for a course.", json!({"max_tokens": 2_000}));
    home.ok(&["drain"]);
    let spent = home.charges()[0].1;
    assert!(spent * 4 < needed, "a call reserves {needed} and takes {spent}");

    // There is room for one reservation at a time, and for what all calls take in the end.
    home.configure(&config(&server, "", &budget(needed + 8 * spent)));
    let names = ["second", "third", "fourth", "fifth"];
    for name in names {
        let text = format!("The {name} idea for a course.");
        home.ask_with(name, FLOW, &text, json!({"max_tokens": 2_000}));
    }
    home.ok(&["drain"]);
    for name in names {
        let statuses: Vec<String> =
            home.acks(name).iter().map(|ack| ack["status"].as_str().unwrap().to_owned()).collect();
        assert_eq!(statuses.last().map(String::as_str), Some("completed"), "{name}: {statuses:?}");
        assert!(!statuses.contains(&"failed_transient".to_owned()), "{name}: {statuses:?}");
    }
}

#[test]
fn a_budget_survives_a_restart_and_a_reload() {
    let server = Server::start(vec![good()]);
    let budget = |tokens: u64| format!("[budget]\nmax_tokens_per_day = {tokens}\n");
    let home = Home::new(&config(&server, "", &budget(4_000)));
    home.ask_with("one", FLOW, "An idea for a template.", json!({"max_tokens": 50}));
    home.ok(&["drain"]);
    assert_eq!(home.last_ack("one")["status"], "completed");
    let spent = home.charges()[0].1;

    // A call that is larger than the budget of a whole day is refused in words, and never put off.
    home.configure(&config(&server, "", &budget(1)));
    home.ask_with("never", FLOW, "A new idea for a template.", json!({"max_tokens": 50}));
    home.ok(&["drain"]);
    let ack = home.last_ack("never");
    assert_eq!(
        (&ack["status"], &ack["cause"]),
        (&"failed_permanent".into(), &"budget".into()),
        "{ack}"
    );
    let words = ack["message"].as_str().unwrap();
    assert!(words.contains("budget.max_tokens_per_day = 1 allows on any day"), "{words}");
    let needed = words.split_once("may take ").unwrap().1.split(' ').next().unwrap();
    let needed: u64 = needed.parse().unwrap();
    assert_eq!(server.seen().len(), 1);

    // The rest is less than a call needs: no call is sent, and no attempt is used up.
    let rest = needed + spent / 2;
    home.configure(&config(&server, "", &budget(rest)));
    home.ask_with("two", FLOW, "Another idea for a template.", json!({"max_tokens": 50}));
    let running = home.serve();
    wait_until("the refusal", || {
        home.acks("two").iter().any(|ack| ack["status"] == "failed_transient")
    });
    let ack = home.last_ack("two");
    assert_eq!(ack["reason_code"], "rate_limited", "{ack}");
    assert!(ack["message"].as_str().unwrap().contains("used today"), "{ack}");
    assert!(ack["retry_at"].is_string());
    assert_eq!(server.seen().len(), 1);

    // A reload changes the limit; the spent amount stays.
    home.configure(&config(&server, "", &budget(rest + 1)));
    home.ok(&["reload"]);
    home.ask_with("three", FLOW, "A third idea for a template.", json!({"max_tokens": 50}));
    wait_until("the second refusal", || {
        home.acks("three").iter().any(|ack| ack["status"] == "failed_transient")
    });
    assert_eq!(server.seen().len(), 1, "the reload did not forget what was spent");
    // With enough left of the day, both continue without an order.
    home.configure(&config(&server, "", &budget(100_000)));
    home.ok(&["reload"]);
    wait_until("both", || {
        ["two", "three"].iter().all(|id| home.last_ack(id)["status"] == "completed")
    });
    running.kill();
    assert_eq!(server.seen().len(), 3);
    for id in ["two", "three"] {
        assert_eq!(home.last_ack(id)["attempt"], 1, "a refused call is no try");
    }
}

#[test]
fn a_model_is_shown_its_errors_as_often_as_configured() {
    for (turns, answers, status) in
        [(0, 1, "failed_permanent"), (1, 2, "completed"), (5, 2, "completed")]
    {
        let server = Server::start(vec![chat("{\"leverage_potential\": 7}"), good()]);
        let home = Home::new(&config(&server, "", &format!("[retry]\nrepair_turns = {turns}\n")));
        home.ask("one", FLOW, "An idea for a template that others could use.");
        home.ok(&["drain"]);
        let ack = home.last_ack("one");
        assert_eq!((ack["status"].as_str(), server.seen().len()), (Some(status), answers), "{ack}");
    }
}

#[test]
fn a_fallback_provider_is_named_and_charged_itself() {
    let broken = Server::start(vec![status(500, &[], "{}")]);
    let server = Server::start(vec![good()]);
    let other = format!(
        "[provider.other]\nkind = \"openai\"\nbase_url = \"{}/v1\"\nmodel = \"other-1\"\n",
        server.base
    );
    let home = Home::new(&config(&broken, "fallback = [\"other\"]", &other));
    home.ask("one", FLOW, "An idea for a template that others could use.");
    home.ok(&["drain"]);
    assert_eq!(home.last_ack("one")["status"], "completed");
    assert_eq!((broken.seen().len(), server.seen().len()), (1, 1));
    let item = &home.items()[0];
    assert_eq!(item["model"]["provider"], "other");
    let facts = &home.facts_of_items()[0];
    assert_eq!(facts["provenance"]["model"]["provider"], "other");
    let warnings = facts["provenance"]["warnings"].to_string();
    assert!(warnings.contains("answered by the fallback other"), "{warnings}");
    assert_eq!(home.charges(), [("other".to_owned(), 18, false)]);
    assert_eq!(home.last_ack("one")["summary"]["summary_id"], item["summary_id"]);
}

#[test]
fn retry_after_delays_a_request_and_uses_up_no_attempt() {
    let storm = status(429, &[("retry-after", "0.3")], "{\"error\": {\"message\": \"slow\"}}");
    let server = Server::start(vec![storm.clone(), storm.clone(), storm, good()]);
    let home = Home::new(&config(&server, "", QUICK));
    home.ask("one", FLOW, "An idea for a template that others could use.");
    home.ok(&["drain"]);
    let ack = home.last_ack("one");
    assert_eq!((&ack["status"], &ack["attempt"]), (&json!("completed"), &json!(1)), "{ack}");
    assert_eq!(server.seen().len(), 4);

    // The pause is longer than an attempt may wait: the request is delayed, and no attempt counts.
    let server = Server::start(vec![status(429, &[("retry-after", "3600")], "{}")]);
    let home = Home::new(&config(&server, "", QUICK));
    home.ask("one", FLOW, "An idea for a template that others could use.");
    home.ask("two", FLOW, "Another idea for a template.");
    home.ok_at(STILL, &["drain"]);
    for id in ["one", "two"] {
        let ack = home.last_ack(id);
        let expected = (json!("failed_transient"), json!("rate_limited"));
        assert_eq!((ack["status"].clone(), ack["reason_code"].clone()), expected, "{ack}");
    }
    let asked = server.seen().len();
    assert!(asked <= 2, "{asked} questions to somebody who asked for a pause");
    home.ok_at(STILL, &["drain"]);
    assert_eq!(server.seen().len(), asked, "the pause is over in an hour, not before");
}

/// Requests that the provider delayed without using up an attempt, and when they may run again.
fn put_off(home: &Home, ids: &[String]) -> Vec<(String, String)> {
    let acks = ids.iter().map(|id| home.last_ack(id));
    let off = acks.filter(|ack| ack["status"] == "failed_transient").map(|ack| {
        let reason = ack["reason_code"].as_str().unwrap_or_default();
        assert!(matches!(reason, "rate_limited" | "unavailable"), "{ack}");
        assert_eq!(ack["attempt"], 1, "{ack}");
        let text = |name: &str| ack[name].as_str().unwrap_or_default().to_owned();
        assert!(text("retry_at") > text("at"), "{ack}");
        (text("request_id"), text("message"))
    });
    off.collect()
}

fn ask_several(home: &Home, count: usize) -> Vec<String> {
    let ids: Vec<String> = (0..count).map(|number| format!("r{number}")).collect();
    for id in &ids {
        home.ask(id, FLOW, &format!("An idea for template {id} that others could use."));
    }
    ids
}

/// An attempt waits at most half its timeout for its turn. That is longer than any machine needs for
/// the calls of this file, and shorter than the pauses below.
const HASTY: &str = "[workers]\nattempt_timeout = \"20 s\"\nmax_in_flight_per_provider = 1\n";
/// Pauses are measured by a clock that stands still, however slow the machine is.
const STILL: &str = "2026-03-02T10:00:00Z";

#[test]
fn a_rate_per_minute_holds_across_requests_and_uses_up_no_attempts() {
    for (limit, word, sent) in [
        ("requests_per_minute = 2", "requests of this minute", 2),
        // A call reserves its prompt and its longest possible response and gives back what it did not
        // use, so short calls one after another all fit.
        ("tokens_per_minute = 2500", "tokens of this minute", 5),
    ] {
        let server = Server::start(vec![good()]);
        let home = Home::new(&config(&server, limit, HASTY));
        let ids = ask_several(&home, 5);
        home.ok_at(STILL, &["drain"]);
        let off = put_off(&home, &ids);
        assert_eq!((server.seen().len(), off.len()), (sent, 5 - sent), "{limit}: {off:?}");
        assert!(off.iter().all(|(_, message)| message.contains(word)), "{off:?}");
        // A second drain right after it changes nothing: its process has a minute of its own, but the
        // requests wait for the time that was set for them.
        home.ok_at(STILL, &["drain"]);
        assert_eq!(server.seen().len(), sent, "{limit}");
    }
}

#[test]
fn a_provider_that_keeps_failing_is_not_called_for_a_while() {
    let server = Server::start(vec![status(500, &[], "{}")]);
    let limits = format!("{HASTY}[retry]\nmax_attempts = 1\n");
    let home = Home::new(&config(&server, "", &limits));
    let mut ids = ask_several(&home, 12);
    home.ask("free", FREE, "A brief about walking in the mountains.");
    home.ok_at(STILL, &["drain"]);
    assert_eq!(home.last_ack("free")["status"], "completed");
    ids.retain(|id| home.last_ack(id)["status"] == "failed_permanent");
    let asked = server.seen().len();
    assert_eq!((ids.len(), asked), (5, 5), "five failures in a row, then nobody is sent there");
    let all: Vec<String> = (0..12).map(|number| format!("r{number}")).collect();
    let off = put_off(&home, &all);
    assert_eq!(off.len(), 7);
    assert!(off.iter().all(|(_, message)| message.contains("left alone")), "{off:?}");
}

/// A response without content.
fn chat_null() -> Act {
    let body = json!({"choices": [{"finish_reason": "stop", "message": {"content": null}}]});
    status(200, &[], &body.to_string())
}

/// A drained home in which each server answers for a flow of its own, so that all of them run at the
/// same time.
fn beside(acts: &[(&str, Act, &str)], attempt_timeout: &str) -> Home {
    let mut text = format!("{QUICK}\n[workers]\nattempt_timeout = \"{attempt_timeout}\"\n");
    let flows: Vec<String> = summarizer::registry::Registry::embedded()
        .unwrap()
        .records()
        .iter()
        .filter(|record| record.variant.is_none() && record.flow_id != FREE)
        .filter(|record| record.declared_outputs.output_schema_path.is_some())
        .map(|record| record.flow_id.clone())
        // These flows read their input in parts, or accept free text.
        .filter(|id| !id.contains("docs.") && !id.contains("latex") && !id.contains("router"))
        .collect();
    assert!(flows.len() >= acts.len());
    let mut servers = Vec::new();
    for ((name, act, _), flow) in acts.iter().zip(&flows) {
        let server = Server::start(vec![act.clone()]);
        text.push_str(&format!(
            "[provider.{name}]\nkind = \"openai\"\nbase_url = \"{}/v1\"\nmodel = \"m\"\n\
             [flow.\"{flow}\"]\nprovider = \"{name}\"\n",
            server.base
        ));
        servers.push(server);
    }
    let home = Home::new(&text);
    for ((name, ..), flow) in acts.iter().zip(&flows) {
        home.ask(name, flow, "Some text that a model is asked about, on Monday at ten.");
    }
    home.ask("free", FREE, "A brief about walking in the mountains.");
    home.ok(&["drain", "--wait-until", "2099-01-01T00:00:00Z"]);
    assert_eq!(home.last_ack("free")["status"], "completed");
    for (name, _, reason) in acts {
        let ack = home.last_ack(name);
        let expected = (json!("failed_permanent"), json!(reason));
        assert_eq!((ack["status"].clone(), ack["reason_code"].clone()), expected, "{name}: {ack}");
        assert!(!ack["message"].as_str().unwrap().is_empty());
    }
    for server in servers {
        let asked = server.seen().len();
        assert!((1..=8).contains(&asked), "{asked} questions to one server");
    }
    home
}

#[test]
fn a_hostile_server_affects_only_its_own_requests() {
    // These never end by themselves. The others have all the time that a busy machine needs.
    let endless = [
        ("silent", Act::Silence, "attempts_exhausted"),
        ("dripping", Act::Drip, "attempts_exhausted"),
    ];
    beside(&endless, "5 s");
    let others = [
        ("cut", Act::Cut, "attempts_exhausted"),
        ("endless", Act::Endless, "model_error"),
        ("huge", Act::Huge(64 << 20), "model_error"),
        ("html", Act::Send(200, Vec::new(), "<html>hello</html>".into()), "attempts_exhausted"),
        ("shape", Act::Send(200, Vec::new(), "{\"choices\": 7}".into()), "attempts_exhausted"),
        ("never-fits", chat("[1, 2, 3]"), "output_schema_violation"),
        ("down", status(503, &[], "busy"), "attempts_exhausted"),
        ("denied", status(401, &[], "{\"error\": {\"message\": \"no\"}}"), "model_error"),
        ("forbidden", status(403, &[], "{}"), "model_error"),
        ("unknown", status(404, &[], "{\"error\": {\"message\": \"no m\"}}"), "model_error"),
        ("nothing", Act::Raw(Vec::new()), "attempts_exhausted"),
        ("null", chat_null(), "model_error"),
        ("filtered", Act::Chat("x".into(), "content_filter"), "model_error"),
        ("cut-off", Act::Chat("{\"a\": ".into(), "length"), "model_error"),
        ("moved", status(302, &[("location", "http://127.0.0.1:9/")], ""), "model_error"),
    ];
    let home = beside(&others, "300 s");
    // Each failure says what can be done about it.
    for (name, advice) in [
        ("cut", "closed the connection"),
        ("html", "provider.html.base_url"),
        ("denied", "provider.denied.api_key_env"),
        ("forbidden", "provider.forbidden.model"),
        ("unknown", "provider.unknown.model (now \"m\") and provider.unknown.base_url"),
        ("moved", "redirects are not followed"),
        ("cut-off", "max_tokens"),
        ("null", "try another model"),
    ] {
        let ack = home.last_ack(name);
        assert!(ack["message"].as_str().unwrap().contains(advice), "{ack}");
        let shown = home.ok(&["show", name]);
        assert!(shown.contains(advice), "{shown}");
    }
    // The responses that never fitted are kept, with what was wrong with them.
    let events = home.events();
    let failed = events.iter().find_map(|(event, _)| match event {
        Event::AttemptFailed { head, error, .. } if head.request_id == "never-fits" => Some(error),
        _ => None,
    });
    let error = serde_json::to_value(failed.unwrap()).unwrap();
    assert_ne!(error["details"]["violations"], json!([]), "{error}");
    let said = |body: &Option<Vec<u8>>| {
        body.as_ref().is_some_and(|body| String::from_utf8_lossy(body).contains("[1, 2, 3]"))
    };
    assert!(
        events
            .iter()
            .any(|(event, body)| { matches!(event, Event::ModelResponded { .. }) && said(body) })
    );
}

#[test]
fn a_slow_model_delays_no_other_request() {
    // The first response is withheld until the work that costs nothing is done.
    let path = std::sync::Arc::new(std::sync::OnceLock::<std::path::PathBuf>::new());
    let acks = path.clone();
    let slow = Act::With(std::sync::Arc::new(move |_: &Value| {
        wait_until("what costs nothing is done", || {
            let text = std::fs::read_to_string(acks.get().unwrap()).unwrap_or_default();
            text.lines().any(|line| line.contains("\"free\"") && line.contains("\"completed\""))
        });
        good_answer()
    }));
    let server = Server::start(vec![slow]);
    let limits = "[workers]\ncount = 1\nmax_in_flight_per_provider = 1\n";
    let home = Home::new(&config(&server, "", limits));
    path.set(home.path("run/ack.jsonl")).unwrap();
    for number in 0..12 {
        home.ask(&format!("slow-{number}"), FLOW, &format!("Idea number {number} for a course."));
    }
    home.ask("free", FREE, "A brief about walking in the mountains.");
    home.ok(&["drain"]);
    for number in 0..12 {
        let ack = home.last_ack(&format!("slow-{number}"));
        assert_eq!((&ack["status"], &ack["attempt"]), (&json!("completed"), &json!(1)), "{ack}");
    }
}

#[test]
fn waiting_for_a_thread_does_not_count_as_timeout() {
    let slow = Act::With(std::sync::Arc::new(|_: &Value| {
        std::thread::sleep(Duration::from_millis(900));
        good_answer()
    }));
    let server = Server::start(vec![slow]);
    // All responses together take longer than an attempt may; each one takes much less.
    let limits =
        "[workers]\ncount = 1\nattempt_timeout = \"10 s\"\nmax_in_flight_per_provider = 1\n";
    let home = Home::new(&config(&server, "", limits));
    for number in 0..12 {
        home.ask(&format!("slow-{number}"), FLOW, &format!("Idea number {number} for a course."));
    }
    home.ok(&["drain"]);
    for number in 0..12 {
        let ack = home.last_ack(&format!("slow-{number}"));
        assert_eq!((&ack["status"], &ack["attempt"]), (&json!("completed"), &json!(1)), "{ack}");
    }
}

#[test]
fn a_flow_that_runs_out_of_time_continues_where_it_stopped() {
    // The fourth and the eighth call get no response within the timeout.
    let asked = std::sync::atomic::AtomicUsize::new(0);
    let slow = Act::With(std::sync::Arc::new(move |_: &Value| {
        if [3, 7].contains(&asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed)) {
            std::thread::sleep(Duration::from_secs(20));
        }
        "The section says that the bridge was measured again.".to_owned()
    }));
    let server = Server::start(vec![slow]);
    let brief = "docs.chunk_set.summarize.brief.v1";
    let text = format!(
        "[retry]\nmax_attempts = 1\n[workers]\nattempt_timeout = \"5 s\"\n[provider.loop]\n\
         kind = \"openai\"\nbase_url = \"{}/v1\"\nmodel = \"m\"\ncontext_tokens = 6000\n\
         [flow.\"{brief}\"]\nprovider = \"loop\"\n",
        server.base
    );
    let home = Home::new(&text);
    let long: String =
        (0..2400).map(|n| format!("Sentence {n} tells about the bridge at mile {n}. ")).collect();
    home.ask("long", brief, &long);
    home.ok(&["drain", "--wait-until", "2099-01-01T00:00:00Z"]);
    let acks = home.acks("long");
    let waits = acks.iter().filter(|ack| ack["reason_code"] == "timeout").count();
    assert!(waits >= 1, "the text is read in one go: {acks:?}");
    let asked = server.seen().len();
    let different: std::collections::BTreeSet<String> =
        server.seen().iter().map(|one| one.body.to_string()).collect();
    assert!(
        asked - different.len() <= 5 * waits,
        "{asked} questions, {} different",
        different.len()
    );
    // The scripted model gives no JSON in the end; the test needs only that the end was reached.
    let last = acks.last().unwrap();
    assert_eq!(last["reason_code"], "output_schema_violation", "{last}");
}
