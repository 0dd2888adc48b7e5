//! Answers that arrive as streams, as a person meets them: shown on a terminal while they arrive, counted
//! in `status`, not cut off while they grow, and ended at the server when nobody waits any more.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "tests may fail loudly")]

#[path = "support/flow_home.rs"]
mod flow_home;
#[path = "support/running.rs"]
mod running;
#[path = "support/server.rs"]
mod server;

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;

use flow_home::{FLOW, Home, config, good_answer, wait_until};
use serde_json::json;
use server::{Act, STREAM_HEAD, Server, event, part};

/// A server that sends a text in pieces of some characters, with a pause between.
fn slowly(text: &str, piece: usize, ms: u64) -> Server {
    let letters: Vec<char> = text.chars().collect();
    let pieces = letters.chunks(piece).map(|piece| part(&piece.iter().collect::<String>()));
    let end = [
        event(&json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})),
        event(&json!({"choices": [], "usage": {"prompt_tokens": 90, "completion_tokens": 60}})),
        "data: [DONE]\n\n".to_owned(),
    ];
    let parts = std::iter::once(STREAM_HEAD.to_owned()).chain(pieces).chain(end);
    Server::start(vec![Act::Parts(parts.collect(), ms)])
}

/// What a command writes on a terminal, which `script` of util-linux gives. `None` where there is none.
fn on_terminal(home: &Home, args: &str) -> Option<String> {
    let line = format!("stty cols 80 rows 50; exec {} {args}", env!("CARGO_BIN_EXE_summarizer"));
    let mut command = Command::new("script");
    command.args(["-qec", &line, "/dev/null"]).current_dir(home.path("."));
    for (name, value) in home.command(&[]).get_envs() {
        command.env(name, value.unwrap_or_default());
    }
    command.env("TERM", "xterm").env("PAGER", "cat").stdin(Stdio::null());
    let output = command.output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}");
    Some(text)
}

/// The states of the line of progress, one after the other.
fn states(written: &str) -> Vec<&str> {
    written.split(['\r', '\n']).collect()
}

#[test]
fn a_terminal_shows_the_answer_while_it_arrives_and_a_pipe_only_at_the_end() {
    let said = "one two three four five six seven eight nine ten eleven twelve";
    let server = slowly(said, 4, 60);
    let home = Home::new(&config(&server, "", "[provider]\ndefault = \"loop\"\n"));
    std::fs::write(home.path("a.prompty"), "---\nmodel: m\n---\nuser:\nCount.\n").unwrap();
    let piped = home.run(&["flow", "run", home.path("a.prompty").to_str().unwrap()]);
    assert_eq!(String::from_utf8(piped.stdout).unwrap().trim(), said);
    assert!(!String::from_utf8_lossy(&piped.stderr).contains("three"), "no line of progress");
    let Some(written) = on_terminal(&home, "flow run a.prompty") else { return };
    let is_part = |state: &&str| state.contains("three") && !state.contains("twelve");
    assert!(states(&written).iter().any(is_part), "{written:?}");
    assert!(written.contains("twelve"), "{written:?}");

    // `sum` asks for JSON and prints a summary: how much of the JSON there is, is seen while it arrives.
    let server = slowly(&good_answer(), 12, 20);
    home.configure(&config(&server, "", ""));
    std::fs::write(home.path("note.txt"), "An idea for a template that others could use.").unwrap();
    let sum = format!("sum note.txt --flow {FLOW} --model loop");
    let written = on_terminal(&home, &sum).unwrap();
    let counts = states(&written).into_iter().filter(|state| state.contains(": about "));
    let counts: BTreeSet<&str> = counts.filter_map(|state| state.split(": ").nth(1)).collect();
    assert!(counts.len() > 2 && counts.iter().all(|it| it.contains("token")), "{written:?}");
    assert!(!written.contains("\": "), "no JSON is seen: {written:?}");
    let note = home.path("note.txt");
    let piped = home.ok(&["sum", note.to_str().unwrap(), "--flow", FLOW, "--model", "loop"]);
    assert!(!piped.contains("\": "), "{piped}");
}

#[test]
fn an_answer_may_grow_for_longer_than_an_attempt_may_be_silent_and_its_speed_is_shown() {
    // More than a hundred parts: far longer than the limit, in far shorter steps than it.
    let answer = good_answer();
    let piece = (answer.chars().count() / 110).max(1);
    let server = slowly(&answer, piece, 40);
    let home = Home::new(&config(&server, "", "[workers]\nattempt_timeout = \"3 s\"\n"));
    let service = home.serve();
    home.ask("one", FLOW, "An idea for a template that others could use.");
    wait_until("the answer", || home.acks("one").iter().any(|ack| ack["status"] == "completed"));
    assert_eq!(home.last_ack("one")["attempt"], 1);
    assert_eq!(server.seen().len(), 1, "one question, and nothing was cut off");
    let speed = home.status()["tokens_per_second"]["loop"].as_f64();
    assert!(speed > Some(0.0), "{speed:?}");
    assert!(home.ok(&["status"]).contains("loop writes"), "it is shown to people");
    drop(service);
}

#[test]
fn cancelling_a_request_closes_its_connection_at_the_server() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let base = format!("http://{}/v1", listener.local_addr().unwrap());
    let (tell, told) = channel();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let tell = tell.clone();
            std::thread::spawn(move || {
                let mut bytes = [0; 65_536];
                let mut read = Vec::new();
                while !read.windows(12).any(|part| part == b"\"messages\":[") {
                    match stream.read(&mut bytes) {
                        Ok(count) if count > 0 => read.extend_from_slice(&bytes[..count]),
                        _ => return,
                    }
                    if read.starts_with(b"GET ") {
                        let _ = stream.write_all(b"HTTP/1.1 404 No\r\ncontent-length: 0\r\n\r\n");
                        read.clear();
                    }
                }
                let _ = tell.send("asked");
                let _ = stream.write_all(STREAM_HEAD.as_bytes());
                // It would write for ever.
                while stream.write_all(part("word ").as_bytes()).is_ok() {
                    std::thread::sleep(std::time::Duration::from_millis(20));
                }
                let _ = tell.send("closed");
            });
        }
    });
    let home = Home::new(&format!(
        "[provider.loop]\nkind = \"openai\"\nbase_url = \"{base}\"\nmodel = \"m\"\n\
         [flow.\"{FLOW}\"]\nprovider = \"loop\"\n"
    ));
    let service = home.serve();
    home.ask("one", FLOW, "An idea for a template that others could use.");
    assert_eq!(told.recv().unwrap(), "asked");
    home.ok(&["cancel", "one"]);
    assert_eq!(told.recv().unwrap(), "closed", "the server can stop writing");
    assert_eq!(home.last_ack("one")["reason_code"], "cancelled");
    drop(service);
}
