//! The batch lane: scheduled questions go out together at half the price, survive crashes, and are asked
//! again alone where the batch left them open. The servers keep files and batches as the real ones do.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "helpers of a test may panic")]

#[path = "support/batch_server.rs"]
mod batch_server;
#[path = "batch/files.rs"]
mod files;
#[path = "support/flow_home.rs"]
mod flow_home;
#[path = "batch/kills.rs"]
mod kills;
#[path = "support/running.rs"]
mod running;
#[path = "support/server.rs"]
mod server;

use std::io::Write as _;
use std::sync::{Arc, Mutex};

use batch_server::{Line, Shelf, serve_batches};
use flow_home::{FLOW, Home, config, good_answer};
use serde_json::{Value, json};
use server::{Act, Seen, Server};
use summarizer::state::event::Event;

struct Scene {
    shelf: Arc<Mutex<Shelf>>,
    home: Home,
}

fn scene() -> Scene {
    scene_with("")
}

fn scene_with(more: &str) -> Scene {
    let shelf = Arc::new(Mutex::new(Shelf::answering(&good_answer())));
    let server = serve_batches(&shelf);
    let batch = format!("price_in = 2.0\nprice_out = 4.0\nbatch = true\n{more}");
    let home = Home::new(&config(&server, &batch, ""));
    Scene { shelf, home }
}

impl Scene {
    fn ask(&self, id: &str, urgency: &str) {
        ask(&self.home, id, urgency);
    }

    fn with(&self, change: impl FnOnce(&mut Shelf)) {
        change(&mut self.shelf.lock().unwrap());
    }

    /// The number of lines of each batch that the server got.
    fn sizes(&self) -> Vec<usize> {
        let shelf = self.shelf.lock().unwrap();
        let input = |batch: &Value| batch["input_file_id"].as_str().unwrap().to_owned();
        shelf.batches.iter().map(|batch| shelf.files[&input(batch)].lines().count()).collect()
    }
}

fn ask(home: &Home, id: &str, urgency: &str) {
    let text = format!("An idea of {id} for a template that others could use.");
    std::fs::write(home.path(&format!("buses/other/{id}.txt")), text).unwrap();
    let mut line = json!({
        "schema_version": "summary_request.v1", "request_id": id,
        "created_at": "2026-02-19T08:00:00Z", "urgency": urgency,
        "requested_by": {"repo": "tests", "component": "batch", "version": "dev"},
        "work": {"output_bus": "summary_bus", "output_kind": "summary_item",
                 "summary_kind": "document_summary", "summary_subkind": "test",
                 "flow_ref": {"kind": "registry", "flow_id": FLOW}, "params": {}},
        "input": {"mode": "ids", "bus": "other", "ids": [format!("{id}.txt")]},
    });
    if urgency == "scheduled" {
        line["not_before"] = "2026-02-19T09:00:00Z".into();
    }
    let mut options = std::fs::OpenOptions::new();
    let queue = options.create(true).append(true).open(home.path("run/queue.jsonl"));
    writeln!(queue.unwrap(), "{line}").unwrap();
}

#[test]
fn scheduled_requests_go_out_as_one_batch_at_half_the_price() {
    let s = scene();
    s.ask("one", "scheduled");
    s.ask("two", "scheduled");
    s.ask("soon", "now");
    let drained = s.home.run(&["drain"]);
    let told = [drained.stdout, drained.stderr].concat();
    let told = String::from_utf8(told).unwrap();
    assert!(told.contains("2 requests wait for a batch") && !told.contains("fail"), "{told}");
    for seen in [s.home.ok(&["show", "one"]), s.home.ok(&["requests"]), s.home.ok(&["status"])] {
        assert!(seen.contains("waits for a batch") && !seen.contains("rate_limited"), "{seen}");
    }
    assert_eq!(s.sizes(), [2]);
    assert_eq!(s.home.last_ack("soon")["status"], "completed", "`now` never waits for a batch");
    assert_eq!(s.shelf.lock().unwrap().direct, 1);
    let waiting = s.home.last_ack("one");
    assert_eq!(
        (&waiting["status"], &waiting["cause"]),
        (&json!("failed_transient"), &json!("batch"))
    );
    let status = s.home.status();
    assert_eq!(status["batches"][0]["questions"], 2, "{status}");
    assert_eq!(status["batches"][0]["server_id"], "batch_0");
    assert!(s.home.ok(&["status"]).contains("2 questions to loop"), "people see it too");
    // Another look changes nothing while the server works.
    s.home.ok(&["drain"]);
    assert_eq!(s.sizes(), [2]);
    s.with(|shelf| shelf.is_working = true);
    s.home.ok(&["drain"]);
    for id in ["one", "two"] {
        assert_eq!(s.home.last_ack(id)["status"], "completed", "{}", s.home.last_ack(id));
    }
    assert_eq!((s.sizes(), s.shelf.lock().unwrap().direct), (vec![2], 1));
    assert_eq!(s.home.status()["batches"], json!([]));
    let costs = |(event, _): &(Event, _)| match event {
        Event::ModelCharged { charge, .. } => Some(charge.cost_nanos),
        _ => None,
    };
    let mut costs: Vec<u64> = s.home.events().iter().filter_map(costs).collect();
    costs.sort_unstable();
    assert_eq!(costs, [2_000_000, 2_000_000, 4_000_000]);
    let removed = s.shelf.lock().unwrap().removed.clone();
    assert_eq!(removed, ["file-in-0", "file-output-0"], "no text stays at the server");
    s.home.ok(&["replay", "--verify"]);
}

#[test]
fn a_batch_that_was_sent_before_a_crash_is_found_and_not_sent_again() {
    let s = scene();
    s.ask("one", "scheduled");
    s.with(|shelf| shelf.loses_answer = true);
    s.home.ok(&["drain"]);
    assert_eq!(s.home.status()["batches"][0]["server_id"], Value::Null);
    s.with(|shelf| shelf.is_working = true);
    s.home.ok(&["drain"]);
    s.home.ok(&["drain"]);
    assert_eq!(s.home.last_ack("one")["status"], "completed", "{}", s.home.last_ack("one"));
    assert_eq!((s.sizes(), s.shelf.lock().unwrap().direct), (vec![1], 0));
    assert_eq!(s.home.charges().len(), 1);
}

#[test]
fn a_batch_that_never_arrived_is_sent_again() {
    let s = scene();
    s.ask("one", "scheduled");
    s.with(|shelf| shelf.loses_answer = true);
    s.home.ok(&["drain"]);
    s.with(|shelf| {
        shelf.batches.clear();
        shelf.is_working = true;
    });
    s.home.ok(&["drain"]);
    assert_eq!(s.sizes(), [1]);
    s.home.ok(&["drain"]);
    assert_eq!(s.home.last_ack("one")["status"], "completed", "{}", s.home.last_ack("one"));
}

#[test]
fn questions_without_an_answer_are_asked_again_alone() {
    let s = scene();
    for id in ["one", "two", "three", "four"] {
        s.ask(id, "scheduled");
    }
    s.home.ok(&["drain"]);
    s.with(|shelf| {
        shelf.is_working = true;
        shelf.fate = vec![Line::Answer, Line::Fail, Line::Refuse, Line::Expire];
    });
    s.home.ok(&["drain"]);
    // The refused one was asked directly; the failed and the late one are sent again, together or apart.
    assert_eq!((s.sizes()[0], s.shelf.lock().unwrap().direct), (4, 1));
    assert_eq!(s.sizes().iter().sum::<usize>(), 6, "{:?}", s.sizes());
    s.with(|shelf| shelf.fate.clear());
    s.home.ok(&["drain"]);
    for id in ["one", "two", "three", "four"] {
        assert_eq!(s.home.last_ack(id)["status"], "completed", "{}", s.home.last_ack(id));
    }
    assert_eq!((s.sizes().iter().sum::<usize>(), s.home.charges().len()), (6, 4));
}

/// A question that spoils each batch would be sent for ever, each time by another process.
#[test]
fn a_question_that_three_batches_do_not_answer_is_asked_directly() {
    for fate in [Line::Fail, Line::Expire] {
        let s = scene();
        s.ask("one", "scheduled");
        s.with(|shelf| {
            shelf.is_working = true;
            shelf.fate = vec![fate];
        });
        for _ in 0..8 {
            s.home.ok(&["drain"]);
        }
        assert_eq!(s.home.last_ack("one")["status"], "completed", "{}", s.home.last_ack("one"));
        assert_eq!((s.sizes(), s.shelf.lock().unwrap().direct), (vec![1, 1, 1], 1));
        let told = s.home.status().to_string();
        assert!(told.contains("asked directly"), "{told}");
    }
}

#[test]
fn a_batch_that_nobody_waits_for_is_cancelled() {
    let s = scene();
    s.ask("one", "scheduled");
    s.home.ok(&["drain"]);
    let service = s.home.serve();
    flow_home::wait_until("the service answers", || s.home.run(&["status"]).status.success());
    s.home.ok(&["cancel", "one"]);
    flow_home::wait_until("the batch is cancelled", || {
        s.shelf.lock().unwrap().cancelled == ["batch_0"]
    });
    flow_home::wait_until("the batch has ended", || s.home.status()["batches"] == json!([]));
    drop(service);
}

/// A request that ended before the service looked after its batches tells it nothing.
#[test]
fn a_batch_is_cancelled_when_its_request_was_cancelled_without_a_service() {
    let s = scene();
    s.ask("one", "scheduled");
    s.home.ok(&["drain"]);
    s.home.ok(&["cancel", "one"]);
    s.home.ok(&["drain"]);
    assert_eq!(s.shelf.lock().unwrap().cancelled, ["batch_0"]);
    s.home.ok(&["drain"]);
    assert_eq!(s.home.status()["batches"], json!([]));
}

#[test]
fn an_answer_for_a_cancelled_request_is_charged_and_changes_nothing_else() {
    let s = scene();
    s.ask("one", "scheduled");
    s.ask("two", "scheduled");
    s.home.ok(&["drain"]);
    let service = s.home.serve();
    flow_home::wait_until("the service answers", || s.home.run(&["status"]).status.success());
    s.home.ok(&["cancel", "two"]);
    flow_home::wait_until("the request is cancelled", || {
        s.home.last_ack("two")["reason_code"] == "cancelled"
    });
    drop(service);
    s.with(|shelf| shelf.is_working = true);
    s.home.ok(&["drain"]);
    assert_eq!(s.home.last_ack("one")["status"], "completed", "{}", s.home.last_ack("one"));
    assert_eq!(s.home.last_ack("two")["reason_code"], "cancelled");
    assert!(s.shelf.lock().unwrap().cancelled.is_empty(), "the other request waits for the batch");
    assert_eq!(s.home.status()["batches"], json!([]));
    assert_eq!((s.sizes(), s.home.charges().len()), (vec![2], 2));
    s.home.ok(&["replay", "--verify"]);
}

#[test]
fn batches_of_a_provider_that_is_gone_end_and_their_requests_are_asked_again() {
    let s = scene();
    s.ask("one", "scheduled");
    s.home.ok(&["drain"]);
    assert_eq!(s.home.status()["batches"][0]["server_id"], "batch_0");
    s.home.configure(
        &std::fs::read_to_string(s.home.path("summarizer.toml"))
            .unwrap()
            .replace("provider.loop", "provider.other")
            .replace("provider = \"loop\"", "provider = \"other\"")
            .replace("batch = true", "batch = false"),
    );
    s.home.ok(&["drain"]);
    assert_eq!(s.home.status()["batches"], json!([]));
    assert_eq!(s.home.last_ack("one")["status"], "completed", "{}", s.home.last_ack("one"));
    assert_eq!((s.sizes(), s.shelf.lock().unwrap().direct), (vec![1], 1));
}

#[test]
fn batches_are_collected_after_batch_is_switched_off() {
    let s = scene();
    s.ask("one", "scheduled");
    s.home.ok(&["drain"]);
    s.home.configure(
        &std::fs::read_to_string(s.home.path("summarizer.toml"))
            .unwrap()
            .replace("batch = true", "batch = false"),
    );
    s.with(|shelf| shelf.is_working = true);
    s.home.ok(&["drain"]);
    s.home.ok(&["drain"]);
    assert_eq!(s.home.last_ack("one")["status"], "completed", "{}", s.home.last_ack("one"));
    assert_eq!((s.sizes(), s.home.charges().len()), (vec![1], 1));
}

#[test]
fn message_batches_are_collected_by_the_names_of_their_questions() {
    let answer: Value = serde_json::from_str(&good_answer()).unwrap();
    let orders: Arc<Mutex<Vec<Value>>> = Arc::default();
    let of_server = Arc::clone(&orders);
    let server = Server::start(vec![Act::Serve(Arc::new(move |seen: &Seen| {
        let mut orders = of_server.lock().unwrap();
        let entry = |at: usize, order: &Value, ended: bool| {
            let count = order["requests"].as_array().unwrap().len();
            json!({
                "id": format!("msgbatch_{at}"), "type": "message_batch",
                "processing_status": if ended { "ended" } else { "in_progress" },
                "created_at": running::test_now().trim_end_matches('+'),
                "request_counts": {"processing": if ended { 0 } else { count },
                    "succeeded": if ended { count } else { 0 }, "errored": 0, "canceled": 0, "expired": 0},
            })
        };
        let message = json!({
            "model": "claude-loop", "stop_reason": "tool_use",
            "usage": {"input_tokens": 20, "output_tokens": 5},
            "content": [{"type": "tool_use", "name": "answer", "input": answer}],
        });
        let path = seen.path.split('?').next().unwrap();
        let body = match (seen.head.split(' ').next().unwrap(), path) {
            ("POST", "/v1/messages/batches") => {
                orders.push(seen.body.clone());
                // The order is carried out; its answer is lost.
                return (500, Vec::new(), String::new());
            }
            ("GET", "/v1/messages/batches") => {
                let entries = orders.iter().enumerate().map(|(at, order)| entry(at, order, true));
                json!({"data": entries.collect::<Vec<_>>(), "has_more": false}).to_string()
            }
            ("GET", "/v1/messages/batches/msgbatch_0") => entry(0, &orders[0], true).to_string(),
            ("GET", "/v1/messages/batches/msgbatch_0/results") => {
                let requests = orders[0]["requests"].as_array().unwrap().iter();
                let line = |request: &Value| {
                    assert_eq!(request["params"].get("stream"), None);
                    let result = json!({"type": "succeeded", "message": message});
                    json!({"custom_id": request["custom_id"], "result": result}).to_string()
                };
                requests.map(line).collect::<Vec<_>>().join("\n")
            }
            _ => return (404, Vec::new(), String::new()),
        };
        (200, Vec::new(), body)
    }))]);
    let home = Home::new(&format!(
        "[provider.loop]\nkind = \"anthropic\"\nbase_url = \"{}\"\nmodel = \"claude-loop\"\n\
         api_key_env = \"LOOP_KEY\"\nbatch = true\nbatch_poll = \"50 ms\"\n\
         [flow.\"{FLOW}\"]\nprovider = \"loop\"\n",
        server.base
    ));
    ask(&home, "one", "scheduled");
    ask(&home, "two", "scheduled");
    home.ok(&["drain"]);
    home.ok(&["drain"]);
    home.ok(&["drain"]);
    for id in ["one", "two"] {
        assert_eq!(home.last_ack(id)["status"], "completed", "{}", home.last_ack(id));
    }
    assert_eq!(orders.lock().unwrap().len(), 1, "the lost answer does not send the batch again");
    assert_eq!(home.charges().len(), 2);
}

/// A question that expired was not asked. It stands alone in the next batch.
#[test]
fn an_expired_question_of_a_message_batch_is_asked_again_alone() {
    let answer: Value = serde_json::from_str(&good_answer()).unwrap();
    let orders: Arc<Mutex<Vec<Value>>> = Arc::default();
    let of_server = Arc::clone(&orders);
    let server = Server::start(vec![Act::Serve(Arc::new(move |seen: &Seen| {
        let mut orders = of_server.lock().unwrap();
        let count = |order: &Value| order["requests"].as_array().unwrap().len();
        let entry = |at: usize, order: &Value| {
            let expired = usize::from(at == 0);
            json!({
                "id": format!("msgbatch_{at}"), "type": "message_batch", "processing_status": "ended",
                "created_at": running::test_now().trim_end_matches('+'), "archived_at": null,
                "request_counts": {"processing": 0, "succeeded": count(order) - expired,
                    "errored": 0, "canceled": 0, "expired": expired},
            })
        };
        let message = json!({
            "model": "claude-loop", "stop_reason": "tool_use",
            "usage": {"input_tokens": 20, "output_tokens": 5},
            "content": [{"type": "tool_use", "name": "answer", "input": answer}],
        });
        let path = seen.path.split('?').next().unwrap().trim_start_matches("/v1/messages/batches");
        let method = seen.head.split(' ').next().unwrap();
        let place = |path: &str| path.trim_start_matches("/msgbatch_").parse::<usize>().unwrap();
        let body = match (method, path, path.strip_suffix("/results")) {
            ("POST", "", _) => {
                orders.push(seen.body.clone());
                entry(orders.len() - 1, &seen.body).to_string()
            }
            ("GET", _, Some(path)) => {
                let at = place(path);
                let line = |(nth, request): (usize, &Value)| {
                    let result = match (at, nth) {
                        (0, 0) => json!({"type": "expired"}),
                        _ => json!({"type": "succeeded", "message": message}),
                    };
                    json!({"custom_id": request["custom_id"], "result": result}).to_string()
                };
                let requests = orders[at]["requests"].as_array().unwrap().iter().enumerate();
                requests.map(line).collect::<Vec<_>>().join("\n")
            }
            ("GET", _, None) => entry(place(path), &orders[place(path)]).to_string(),
            _ => json!({"type": "message_batch_deleted"}).to_string(),
        };
        (200, Vec::new(), body)
    }))]);
    let home = Home::new(&format!(
        "[provider.loop]\nkind = \"anthropic\"\nbase_url = \"{}\"\nmodel = \"claude-loop\"\n\
         api_key_env = \"LOOP_KEY\"\nbatch = true\nbatch_poll = \"50 ms\"\n\
         [flow.\"{FLOW}\"]\nprovider = \"loop\"\n",
        server.base
    ));
    ask(&home, "one", "scheduled");
    ask(&home, "two", "scheduled");
    let is_done = |id: &str| home.last_ack(id)["status"] == "completed";
    flow_home::wait_until("both are answered", || {
        home.ok(&["drain"]);
        is_done("one") && is_done("two")
    });
    let sent: Vec<Vec<String>> = orders.lock().unwrap().iter().map(names_of).collect();
    assert_eq!(sent.iter().map(Vec::len).collect::<Vec<_>>(), [2, 1], "{sent:?}");
    assert_eq!(sent[0][0], sent[1][0], "the same question has the same name");
    assert_eq!(home.charges().len(), 2, "what expired costs nothing");
    let ended = home.status()["finished_batches"]["recent"].clone();
    assert_eq!(
        (&ended[1]["end"], &ended[1]["answered"]),
        (&json!("expired"), &json!(1)),
        "{ended}"
    );
}

fn names_of(order: &Value) -> Vec<String> {
    let requests = order["requests"].as_array().unwrap().iter();
    requests.map(|request| request["custom_id"].as_str().unwrap().to_owned()).collect()
}

/// What a server refuses for a reason that stays is asked directly, so that it is not sent again for ever.
#[test]
fn a_question_with_an_error_that_stays_is_asked_directly() {
    let s = scene();
    s.ask("one", "scheduled");
    s.home.ok(&["drain"]);
    s.with(|shelf| {
        shelf.is_working = true;
        shelf.fate = vec![Line::Invalid];
    });
    s.home.ok(&["drain"]);
    assert_eq!(s.home.last_ack("one")["status"], "completed", "{}", s.home.last_ack("one"));
    assert_eq!((s.sizes(), s.shelf.lock().unwrap().direct), (vec![1], 1));
}

/// A model may not know a parameter. That is found out from the refusals of the batch, and costs nothing.
#[test]
fn questions_with_a_parameter_that_the_model_does_not_take_go_into_the_next_batch_without_it() {
    let s = scene_with("max_tokens = 700\ntemperature = 0.2\nbatch_poll = \"10 ms\"\n");
    s.ask("one", "scheduled");
    s.ask("two", "scheduled");
    s.with(|shelf| {
        shelf.is_working = true;
        shelf.refuses = vec![("max_tokens", "max_completion_tokens"), ("temperature", "nothing")];
    });
    let is_done = |id: &str| s.home.last_ack(id)["status"] == "completed";
    for _ in 0..10 {
        s.home.ok(&["drain"]);
        if is_done("one") && is_done("two") {
            break;
        }
    }
    assert!(is_done("one") && is_done("two"), "{}", s.home.last_ack("one"));
    let shelf = s.shelf.lock().unwrap();
    assert_eq!(shelf.direct, 0, "nothing is asked at the full price");
    let last = shelf.batches.last().unwrap()["input_file_id"].as_str().unwrap();
    for line in shelf.files[last].lines() {
        let body: Value = serde_json::from_str::<Value>(line).unwrap()["body"].take();
        assert_eq!(body["max_completion_tokens"], 700, "{body}");
        assert_eq!((body.get("max_tokens"), body.get("temperature")), (None, None), "{body}");
    }
    let is_learned = |event: &Event| matches!(event, Event::DialectLearned(_));
    assert!(s.home.events().iter().any(|(event, _)| is_learned(event)), "the log remembers it");
}

/// A parameter that the server refuses under each of its names is no reason to ask for ever.
#[test]
fn a_question_that_is_refused_again_and_again_is_asked_directly() {
    let s = scene_with("max_tokens = 700\nbatch_poll = \"10 ms\"\n");
    s.ask("one", "scheduled");
    s.with(|shelf| {
        shelf.is_working = true;
        shelf.refuses = vec![("model", "max_tokens")];
    });
    for _ in 0..10 {
        s.home.ok(&["drain"]);
    }
    assert_eq!(s.home.last_ack("one")["status"], "completed", "{}", s.home.last_ack("one"));
    assert!(s.sizes().len() <= 6, "{:?}", s.sizes());
}

/// An account may have only so much under way. A batch over that is refused whenever it comes.
#[test]
fn a_batch_that_is_too_large_for_the_account_is_sent_in_parts() {
    let s = scene_with("batch_poll = \"10 ms\"\n");
    let ids = ["one", "two", "three", "four", "five"];
    ids.iter().for_each(|id| s.ask(id, "scheduled"));
    s.with(|shelf| {
        shelf.is_working = true;
        shelf.takes = Some(2);
    });
    let is_done = |id: &&str| s.home.last_ack(id)["status"] == "completed";
    for _ in 0..20 {
        s.home.ok(&["drain"]);
        if ids.iter().all(is_done) {
            break;
        }
    }
    assert!(ids.iter().all(is_done), "{:?}", ids.map(|id| s.home.last_ack(id)));
    let sizes = s.sizes();
    assert_eq!((sizes[0], sizes[1]), (5, 2), "half of what was refused: {sizes:?}");
    assert!(sizes.iter().filter(|size| **size > 2).count() <= 2, "{sizes:?}");
    assert_eq!(s.shelf.lock().unwrap().direct, 0, "nothing is asked at the full price");
}
