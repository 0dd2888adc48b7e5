//! The batch lane: scheduled questions go out together at half the price, survive crashes, and are asked
//! again alone where the batch left them open. The servers keep files and batches as the real ones do.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "helpers of a test may panic")]

#[path = "support/flow_home.rs"]
mod flow_home;
#[path = "support/running.rs"]
mod running;
#[path = "support/server.rs"]
mod server;

use std::collections::BTreeMap;
use std::io::Write as _;
use std::sync::{Arc, Mutex};

use flow_home::{FLOW, Home, config, good_answer};
use serde_json::{Value, json};
use server::{Act, Seen, Server};
use summarizer::state::event::Event;

/// What the server does with one question of a batch.
#[derive(Clone, Copy, PartialEq)]
enum Line {
    Answer,
    /// The server fails at it.
    Fail,
    /// It is a bad request.
    Refuse,
    /// Time ran out before it was asked.
    Expire,
}

/// The files and batches of a server.
#[derive(Default)]
struct Shelf {
    files: BTreeMap<String, String>,
    batches: Vec<Value>,
    /// Batches are worked through when they are looked at.
    is_working: bool,
    /// The next order of a batch is carried out and then answered with a failure.
    loses_answer: bool,
    /// What happens to the questions, by their place in the batch.
    fate: Vec<Line>,
    direct: usize,
    removed: Vec<String>,
    cancelled: Vec<String>,
}

fn usage() -> Value {
    json!({"prompt_tokens": 1000, "completion_tokens": 500})
}

fn completion() -> Value {
    json!({
        "model": "loop-1", "usage": usage(),
        "choices": [{"index": 0, "finish_reason": "stop",
                     "message": {"role": "assistant", "content": good_answer()}}],
    })
}

impl Shelf {
    fn work_through(&mut self, at: usize) {
        let input = self.batches[at]["input_file_id"].as_str().unwrap().to_owned();
        let (mut output, mut errors, mut expired) = (String::new(), String::new(), false);
        for (place, line) in self.files[&input].clone().lines().enumerate() {
            let line: Value = serde_json::from_str(line).unwrap();
            let fate = self.fate.get(place).copied().unwrap_or(Line::Answer);
            let response = |status: u16, body: Value| json!({"status_code": status, "body": body});
            let mut answer = json!({"custom_id": line["custom_id"], "error": null});
            match fate {
                Line::Answer => answer["response"] = response(200, completion()),
                Line::Fail => {
                    answer["response"] = response(500, json!({"error": {"message": "oh"}}))
                }
                Line::Refuse => {
                    let why = json!({"error": {"message": "Unsupported parameter: 'seed'"}});
                    answer["response"] = response(400, why);
                }
                Line::Expire => {
                    expired = true;
                    answer["response"] = Value::Null;
                    answer["error"] = json!({"code": "batch_expired", "message": "too late"});
                }
            }
            let file = if fate == Line::Answer { &mut output } else { &mut errors };
            file.push_str(&format!("{answer}\n"));
        }
        for (name, content) in [("output", output), ("error", errors)] {
            if !content.is_empty() {
                let id = format!("file-{name}-{at}");
                self.files.insert(id.clone(), content);
                self.batches[at][format!("{name}_file_id")] = id.into();
            }
        }
        self.batches[at]["status"] = if expired { "expired" } else { "completed" }.into();
    }

    fn serve(&mut self, seen: &Seen) -> (u16, Value) {
        let path = seen.path.split('?').next().unwrap().trim_start_matches("/v1");
        let method = seen.head.split(' ').next().unwrap();
        let batch_at = |shelf: &Shelf, id: &str| shelf.batches.iter().position(|b| b["id"] == id);
        match (method, path.trim_matches('/').split('/').collect::<Vec<_>>().as_slice()) {
            ("POST", ["files"]) => {
                assert!(seen.raw.contains("name=\"purpose\"\r\n\r\nbatch\r\n"), "{}", seen.raw);
                let lines = seen.raw.lines().filter(|line| line.starts_with('{'));
                let id = format!("file-in-{}", self.files.len());
                self.files.insert(id.clone(), lines.collect::<Vec<_>>().join("\n"));
                (200, json!({"id": id, "object": "file"}))
            }
            ("POST", ["batches"]) => {
                let mut batch = seen.body.clone();
                batch["id"] = format!("batch_{}", self.batches.len()).into();
                batch["status"] = "validating".into();
                batch["created_at"] = 1_771_500_000.into();
                self.batches.push(batch.clone());
                match std::mem::take(&mut self.loses_answer) {
                    true => (500, json!({"error": {"message": "the gateway failed"}})),
                    false => (200, batch),
                }
            }
            ("GET", ["batches"]) => (200, json!({"data": self.batches, "has_more": false})),
            ("GET", ["batches", id]) => {
                let at = batch_at(self, id).unwrap();
                if self.is_working && self.batches[at]["status"] == "validating" {
                    self.work_through(at);
                }
                (200, self.batches[at].clone())
            }
            ("POST", ["batches", id, "cancel"]) => {
                let at = batch_at(self, id).unwrap();
                self.cancelled.push((*id).to_owned());
                self.batches[at]["status"] = "cancelled".into();
                (200, self.batches[at].clone())
            }
            ("GET", ["files", id, "content"]) => (200, Value::String(self.files[*id].clone())),
            ("DELETE", ["files", id]) => {
                self.removed.push((*id).to_owned());
                (200, json!({"deleted": true}))
            }
            ("POST", ["chat", "completions"]) => {
                self.direct += 1;
                (200, completion())
            }
            _ => (404, json!({"error": {"message": "no such thing"}})),
        }
    }
}

struct Scene {
    shelf: Arc<Mutex<Shelf>>,
    home: Home,
}

fn scene() -> Scene {
    let shelf = Arc::new(Mutex::new(Shelf::default()));
    let of_server = Arc::clone(&shelf);
    let server = Server::start(vec![Act::Serve(Arc::new(move |seen: &Seen| {
        let (status, body) = of_server.lock().unwrap().serve(seen);
        // A file is sent as it is.
        let body = body.as_str().map_or_else(|| body.to_string(), str::to_owned);
        (status, Vec::new(), body)
    }))]);
    let batch = "price_in = 2.0\nprice_out = 4.0\nbatch = true";
    let home = Home::new(&config(&server, batch, ""));
    Scene { shelf, home }
}

impl Scene {
    fn ask(&self, id: &str, urgency: &str) {
        ask(&self.home, id, urgency);
    }

    fn with(&self, change: impl FnOnce(&mut Shelf)) {
        change(&mut self.shelf.lock().unwrap());
    }

    /// The lines of each batch that the server got.
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
    s.home.ok(&["drain"]);
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
