//! A server with files and batches in the manner of OpenAI.
#![allow(clippy::unwrap_used, reason = "a helper of tests may fail loudly")]
#![allow(dead_code, reason = "each test file uses its own part")]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

use super::server::{Act, Seen, Server};

/// Where a server stops: at requests of this method whose path begins so.
#[derive(Clone, Copy, PartialEq)]
pub struct Hold {
    pub method: &'static str,
    pub path: &'static str,
    /// Whether the request is carried out first.
    pub after: bool,
}

/// What the server does with one question of a batch.
#[derive(Clone, Copy, PartialEq)]
pub enum Line {
    Answer,
    /// The server fails at it.
    Fail,
    /// It is a bad request.
    Refuse,
    /// Time ran out before it was asked.
    Expire,
    /// It was not asked, because the line is wrong.
    Invalid,
}

/// The files and batches of a server.
#[derive(Default)]
pub struct Shelf {
    pub files: BTreeMap<String, String>,
    pub batches: Vec<Value>,
    /// Batches are worked through when they are looked at.
    pub is_working: bool,
    /// The next order of a batch is carried out and then answered with a failure.
    pub loses_answer: bool,
    /// What happens to the questions, by their place in the batch.
    pub fate: Vec<Line>,
    /// Parameters that the model does not take, with their other names.
    pub refuses: Vec<(&'static str, &'static str)>,
    /// Most questions of one batch.
    pub takes: Option<usize>,
    pub direct: usize,
    pub removed: Vec<String>,
    pub cancelled: Vec<String>,
    /// What the model answers.
    pub answer: String,
    /// Stops the server at a request until this is taken away.
    pub hold: Option<Hold>,
    /// A request has reached the hold.
    pub is_held: bool,
}

fn usage() -> Value {
    json!({"prompt_tokens": 1000, "completion_tokens": 500})
}

fn completion(text: &str) -> Value {
    json!({
        "model": "loop-1", "usage": usage(),
        "choices": [{"index": 0, "finish_reason": "stop",
                     "message": {"role": "assistant", "content": text}}],
    })
}

impl Shelf {
    /// An empty server whose model always gives this answer.
    pub fn answering(answer: &str) -> Shelf {
        Shelf { answer: answer.to_owned(), ..Shelf::default() }
    }

    fn work_through(&mut self, at: usize) {
        let input = self.batches[at]["input_file_id"].as_str().unwrap().to_owned();
        let (mut output, mut errors, mut expired) = (String::new(), String::new(), false);
        let lines = self.files[&input].clone();
        if self.takes.is_some_and(|most| lines.lines().count() > most) {
            self.batches[at]["status"] = "failed".into();
            self.batches[at]["errors"] = json!({"data": [{"code": "token_limit_exceeded",
                "message": "Enqueued token limit reached for loop-1 in organization o."}]});
            return;
        }
        for (place, line) in lines.lines().enumerate() {
            let line: Value = serde_json::from_str(line).unwrap();
            let fate = self.fate.get(place).copied().unwrap_or(Line::Answer);
            let refused = self.refuses.iter().find(|(name, _)| line["body"].get(name).is_some());
            let response = |status: u16, body: Value| json!({"status_code": status, "body": body});
            let mut answer = json!({"custom_id": line["custom_id"], "error": null});
            match fate {
                Line::Answer if refused.is_some() => {
                    let (name, other) = refused.unwrap();
                    let words = format!(
                        "Unsupported parameter: '{name}' is not supported with this model. \
                         Use '{other}' instead."
                    );
                    let error = json!({"message": words, "param": name,
                        "type": "invalid_request_error", "code": "unsupported_parameter"});
                    answer["response"] = response(400, json!({"error": error}));
                }
                Line::Answer => answer["response"] = response(200, completion(&self.answer)),
                Line::Fail => {
                    answer["response"] = response(500, json!({"error": {"message": "oh"}}))
                }
                Line::Refuse => {
                    let why = json!({"error": {"message": "the picture cannot be read"}});
                    answer["response"] = response(400, why);
                }
                Line::Invalid => {
                    answer["response"] = Value::Null;
                    answer["error"] = json!({"code": "invalid_line", "message": "no such model"});
                }
                Line::Expire => {
                    expired = true;
                    answer["response"] = Value::Null;
                    answer["error"] = json!({"code": "batch_expired", "message": "too late"});
                }
            }
            let file =
                if fate == Line::Answer && refused.is_none() { &mut output } else { &mut errors };
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

    pub fn serve(&mut self, seen: &Seen) -> (u16, Value) {
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
                (200, completion(&self.answer))
            }
            _ => (404, json!({"error": {"message": "no such thing"}})),
        }
    }
}

/// Starts the server.
pub fn serve_batches(shelf: &Arc<Mutex<Shelf>>) -> Server {
    let of_server = Arc::clone(shelf);
    Server::start(vec![Act::Serve(Arc::new(move |seen: &Seen| {
        let hold = of_server.lock().unwrap().hold.filter(|hold| {
            let path = seen.path.split('?').next().unwrap().trim_start_matches("/v1");
            seen.head.starts_with(&format!("{} ", hold.method)) && path.starts_with(hold.path)
        });
        let wait = || {
            of_server.lock().unwrap().is_held = true;
            while of_server.lock().unwrap().hold.is_some() {
                std::thread::sleep(Duration::from_millis(2));
            }
        };
        if hold.is_some_and(|hold| !hold.after) {
            wait();
            return (503, Vec::new(), String::new());
        }
        let (status, body) = of_server.lock().unwrap().serve(seen);
        if hold.is_some() {
            wait();
        }
        // A file is sent as it is.
        let body = body.as_str().map_or_else(|| body.to_string(), str::to_owned);
        (status, Vec::new(), body)
    }))])
}
