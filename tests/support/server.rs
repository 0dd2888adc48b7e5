//! A local server that answers by script, correctly or not.
#![allow(clippy::unwrap_used, reason = "a helper of tests may fail loudly")]
#![allow(dead_code, reason = "each test file uses its own part")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::{Value, json};

/// The text and the finish reason for a request.
pub type Replying = dyn Fn(&Value) -> (String, &'static str) + Send + Sync;

/// The response to a request.
pub type Serving = dyn Fn(&Seen) -> (u16, Vec<(String, String)>, String) + Send + Sync;

/// What the server does with one request.
#[derive(Clone)]
pub enum Act {
    /// A status, headers and a body.
    Send(u16, Vec<(String, String)>, String),
    /// A chat completion with this text, finish reason and token counts.
    Chat(String, &'static str),
    /// A chat completion made from the request.
    With(Arc<dyn Fn(&Value) -> String + Send + Sync>),
    /// A chat completion and its finish reason made from the request.
    Reply(Arc<Replying>),
    /// A status, headers and a body made from the whole request.
    Serve(Arc<Serving>),
    /// The head and a part of the body, then nothing more and a closed connection.
    Cut,
    /// No answer while the client stays connected.
    Silence,
    /// A body that comes byte by byte and never ends.
    Drip,
    /// A body that never ends.
    Endless,
    /// A body of this many bytes.
    Huge(usize),
    /// These bytes, and a closed connection.
    Raw(Vec<u8>),
    /// These parts with this many milliseconds between them, and a closed connection.
    Parts(Vec<String>, u64),
    /// The first bytes, then the others repeatedly with this many milliseconds between.
    Over(Vec<u8>, Vec<u8>, u64),
}

pub fn chat(text: &str) -> Act {
    Act::Chat(text.to_owned(), "stop")
}

/// A refusal with headers.
pub fn status(code: u16, headers: &[(&str, &str)], body: &str) -> Act {
    let headers = headers.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    Act::Send(code, headers, body.to_owned())
}

/// One request as it arrived.
#[derive(Clone, Debug)]
pub struct Seen {
    pub path: String,
    /// Header lines.
    pub head: String,
    pub body: Value,
    /// The body as it arrived.
    pub raw: String,
}

pub struct Server {
    pub base: String,
    seen: Arc<Mutex<Vec<Seen>>>,
    connections: Arc<Mutex<usize>>,
}

impl Server {
    /// Plays the acts in order and repeats the last one.
    pub fn start(acts: Vec<Act>) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let base = format!("http://{}", listener.local_addr().expect("bound"));
        let seen = Arc::new(Mutex::new(Vec::new()));
        let connections = Arc::new(Mutex::new(0));
        let acts = Arc::new(acts);
        let (log, count) = (seen.clone(), connections.clone());
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                *count.lock().unwrap() += 1;
                let (log, acts) = (log.clone(), acts.clone());
                thread::spawn(move || serve(stream, &log, &acts));
            }
        });
        Server { base, seen, connections }
    }

    /// The requests so far.
    pub fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    /// How many connections were opened.
    pub fn connections(&self) -> usize {
        *self.connections.lock().unwrap()
    }
}

fn serve(stream: TcpStream, log: &Mutex<Vec<Seen>>, acts: &[Act]) {
    let mut reader = BufReader::new(stream.try_clone().expect("a second handle"));
    let mut stream = stream;
    while let Some(request) = read(&mut reader) {
        // A question for facts about a model is no act of the script.
        if request.head.starts_with("GET ") && !matches!(acts[0], Act::Serve(_)) {
            if !send(&mut stream, 404, &[], "") {
                return;
            }
            continue;
        }
        let act = {
            let mut log = log.lock().unwrap();
            let act = acts[log.len().min(acts.len() - 1)].clone();
            log.push(request.clone());
            act
        };
        if !play(&mut stream, &request, act) {
            return;
        }
    }
}

fn read(reader: &mut BufReader<TcpStream>) -> Option<Seen> {
    let mut head = String::new();
    let mut length = 0;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
        if line == "\r\n" {
            break;
        }
        head.push_str(&line);
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let path = head.split(' ').nth(1)?.to_owned();
    let raw = String::from_utf8_lossy(&body).into_owned();
    Some(Seen { path, head, body: serde_json::from_slice(&body).unwrap_or_default(), raw })
}

/// False when the connection is to be closed.
fn play(stream: &mut TcpStream, request: &Seen, act: Act) -> bool {
    match act {
        Act::Send(code, headers, body) => send(stream, code, &headers, &body),
        Act::Chat(text, finish) => send(stream, 200, &[], &completion(&text, finish)),
        Act::With(make) => send(stream, 200, &[], &completion(&make(&request.body), "stop")),
        Act::Reply(make) => {
            let (text, finish) = make(&request.body);
            send(stream, 200, &[], &completion(&text, finish))
        }
        Act::Serve(make) => {
            let (code, headers, body) = make(request);
            send(stream, code, &headers, &body)
        }
        Act::Cut => {
            let _ =
                stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n{\"choices\": [");
            false
        }
        Act::Silence => {
            let mut byte = [0];
            let _ = stream.read(&mut byte);
            false
        }
        Act::Drip => {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n");
            while stream.write_all(b"1\r\n \r\n").is_ok() {
                thread::sleep(std::time::Duration::from_millis(50));
            }
            false
        }
        Act::Endless => {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n");
            while stream.write_all(b"10\r\n{\"choices\": [   \r\n").is_ok() {}
            false
        }
        Act::Raw(bytes) => {
            let _ = stream.write_all(&bytes);
            false
        }
        Act::Parts(parts, ms) => {
            for part in parts {
                if stream.write_all(part.as_bytes()).is_err() {
                    break;
                }
                thread::sleep(std::time::Duration::from_millis(ms));
            }
            false
        }
        Act::Over(bytes, again, ms) => {
            let _ = stream.write_all(&bytes);
            while stream.write_all(&again).is_ok() {
                thread::sleep(std::time::Duration::from_millis(ms));
            }
            false
        }
        Act::Huge(size) => {
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {size}\r\n\r\n");
            let _ = stream.write_all(head.as_bytes());
            let block = [b' '; 1 << 16];
            let mut left = size;
            while left > 0 && stream.write_all(&block[..left.min(block.len())]).is_ok() {
                left -= left.min(block.len());
            }
            false
        }
    }
}

fn send(stream: &mut TcpStream, code: u16, headers: &[(String, String)], body: &str) -> bool {
    let mut head = format!("HTTP/1.1 {code} X\r\ncontent-length: {}\r\n", body.len());
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    stream.write_all(format!("{head}\r\n{body}").as_bytes()).is_ok()
}

/// The head of a stream that ends with its connection.
pub const STREAM_HEAD: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";

/// One event of a stream.
pub fn event(data: &Value) -> String {
    format!("data: {data}\n\n")
}

/// The event of a chat that brings a part of its text.
pub fn part(text: &str) -> String {
    event(&json!({"model": "loop-1", "choices": [{"index": 0, "delta": {"content": text}}]}))
}

/// A whole response of a server as its stream.
pub fn as_stream(response: &Value) -> String {
    let Some(choice) = response.pointer("/choices/0") else {
        return message_as_stream(response);
    };
    let text = choice["message"]["content"].as_str().unwrap_or_default();
    let half = text.len() / 2;
    let half = (half..=text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    let end =
        json!({"choices": [{"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}]});
    let counts = json!({"choices": [], "usage": response["usage"]});
    let parts = [part(&text[..half]), part(&text[half..]), event(&end), event(&counts)];
    format!(": hello\n\n{}data: [DONE]\n\n", parts.concat())
}

fn message_as_stream(response: &Value) -> String {
    let mut start = response.clone();
    start["content"] = json!([]);
    let mut events =
        vec![json!({"type": "message_start", "message": start}), json!({"type": "ping"})];
    for (index, block) in response["content"].as_array().into_iter().flatten().enumerate() {
        let delta = match block["type"].as_str() {
            Some("tool_use") => {
                json!({"type": "input_json_delta", "partial_json": block["input"].to_string()})
            }
            _ => json!({"type": "text_delta", "text": block["text"]}),
        };
        let mut empty = block.clone();
        match block["type"].as_str() {
            Some("tool_use") => empty["input"] = json!({}),
            _ => empty["text"] = "".into(),
        }
        events.push(json!({"type": "content_block_start", "index": index, "content_block": empty}));
        events.push(json!({"type": "content_block_delta", "index": index, "delta": delta}));
    }
    let (stop, usage) = (&response["stop_reason"], &response["usage"]);
    events.push(json!({"type": "message_delta", "delta": {"stop_reason": stop}, "usage": usage}));
    events.push(json!({"type": "message_stop"}));
    events.iter().map(event).collect()
}

fn completion(text: &str, finish: &str) -> String {
    json!({
        "model": "loop-1", "usage": {"prompt_tokens": 11, "completion_tokens": 7},
        "choices": [{"index": 0, "finish_reason": finish, "message": {"role": "assistant", "content": text}}]
    })
    .to_string()
}
