//! Everything at once: texts, packs, files, servers and readers that mean harm, beside requests that do their
//! work. All healthy requests complete, the service stays, and it does not grow.
//!
//! The short form runs for some seconds. The deep form runs for half an hour.
#![cfg(target_os = "linux")]
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "helpers of a test may panic, and it writes the files of a home"
)]

#[path = "support/flow_home.rs"]
mod flow_home;
#[path = "support/running.rs"]
mod running;
#[path = "support/server.rs"]
mod server;

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use flow_home::{
    ENDLESS, FLOW, FREE, Home, MEMORY, QUICK, Running, STACK, config, good, wait_until,
};
use serde_json::Value;
use server::{Act, Server, chat, status};

/// What the service uses at one moment.
#[derive(Debug, Clone, Copy)]
struct Use {
    resident_bytes: u64,
    descriptors: usize,
    threads: usize,
}

impl Use {
    fn of(process: u32) -> Use {
        let proc = format!("/proc/{process}");
        let status = std::fs::read_to_string(format!("{proc}/status")).unwrap();
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        let kib: u64 = resident.trim().trim_end_matches(" kB").parse().unwrap();
        let count = |folder: &str| std::fs::read_dir(format!("{proc}/{folder}")).unwrap().count();
        Use { resident_bytes: kib << 10, descriptors: count("fd"), threads: count("task") }
    }
}

/// The middle value of some moments.
fn median<T: Ord + Copy>(moments: &[Use], of: impl Fn(&Use) -> T) -> T {
    let mut all: Vec<T> = moments.iter().map(of).collect();
    all.sort();
    all[all.len() / 2]
}

/// A server whose answers are right, wrong, cut, endless or of another kind, in turn.
fn moody_server() -> Server {
    let turns = AtomicUsize::new(0);
    let act = move |_: &Value| -> (String, &'static str) {
        match turns.fetch_add(1, Ordering::Relaxed) % 6 {
            0 => ("{\"cut".to_owned(), "length"),
            1 => ("\u{1b}[2J\u{202e}".repeat(2_000), "stop"),
            _ => (flow_home::good_answer(), "stop"),
        }
    };
    let refused = || status(503, &[("retry-after", "0")], "busy");
    let mut acts = vec![good(), Act::Cut, refused(), Act::Raw(b"HTTP/1.1 999 \r\n\r\n".to_vec())];
    acts.extend([Act::Huge(80 << 20), chat("[".repeat(100_000).as_str()), Act::Endless]);
    acts.push(Act::Reply(Arc::new(act)));
    Server::start(acts)
}

/// Files of an upstream bus that hold up or mislead whoever opens them.
fn lay_traps(home: &Home) {
    let other = home.path("buses/other");
    let pipe = std::process::Command::new("mkfifo").arg(other.join("pipe.txt")).status();
    assert!(pipe.unwrap().success());
    symlink("/dev/zero", other.join("zero.txt")).unwrap();
    symlink("/etc/hostname", other.join("out.txt")).unwrap();
    symlink("round.txt", other.join("round.txt")).unwrap();
    std::fs::create_dir(other.join("folder.txt")).unwrap();
    std::fs::write(other.join("bytes.txt"), [0xff, 0xfe, 0x00, 0x80].repeat(5_000)).unwrap();
    std::fs::write(other.join("one-line.txt"), "word ".repeat(400_000)).unwrap();
    std::fs::write(other.join("deep.html"), "<div>".repeat(200_000)).unwrap();
    std::fs::write(other.join("deep.json"), "[".repeat(200_000)).unwrap();
    std::fs::write(other.join("brace.tex"), "{\\bf ".repeat(100_000)).unwrap();
}

const TRAPS: [&str; 10] = [
    "pipe.txt",
    "zero.txt",
    "out.txt",
    "round.txt",
    "folder.txt",
    "bytes.txt",
    "one-line.txt",
    "deep.html",
    "deep.json",
    "brace.tex",
];

/// A request like another one over another source of the bus.
fn over(home: &Home, id: &str, source: &str) {
    home.ask(id, "docs.chunk_set.summarize.brief.v1", "unused");
    let queue = home.path("run/queue.jsonl");
    let bytes = std::fs::read(&queue).unwrap();
    let last = bytes.trim_ascii_end().rsplit(|byte| *byte == b'\n').next().unwrap();
    let line = std::str::from_utf8(last).unwrap();
    let line = line
        .replace(&format!("{id}.txt"), source)
        .replace(&format!("\"{id}\""), &format!("\"{id}-trap\""));
    append(&queue, line.as_bytes());
}

fn append(queue: &Path, line: &[u8]) {
    let mut file = std::fs::OpenOptions::new().append(true).open(queue).unwrap();
    file.write_all(&[line, b"\n"].concat()).unwrap();
}

/// Asks the page for something, and reads only some bytes of the answer.
fn knock(page: &str, text: &str) {
    let Ok(mut stream) = TcpStream::connect(page) else { return };
    let _ = stream.set_read_timeout(Some(Duration::from_millis(200)));
    let _ = stream.write_all(text.as_bytes());
    let _ = stream.read(&mut [0; 512]);
}

/// Says that the work is over when it is dropped.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A service and the address of its page.
fn serve(home: &Home) -> (Running, String, Arc<Mutex<Vec<String>>>) {
    let mut command = home.command(&["serve"]);
    let mut service = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(service.stderr.take().unwrap()).lines();
    let page = said.find_map(|line| {
        Some(line.unwrap().strip_prefix("status page: http://")?.trim_end_matches('/').to_owned())
    });
    // It goes on to write, and must not wait for a reader.
    let told: Arc<Mutex<Vec<String>>> = Arc::default();
    let kept = Arc::clone(&told);
    std::thread::spawn(move || {
        said.map_while(Result::ok).for_each(|line| kept.lock().unwrap().push(line))
    });
    (Running(service), page.unwrap(), told)
}

/// Healthy requests that may wait at the same time.
const BACKLOG: usize = 60;

/// The last ack of each request that has ended, and the healthy requests that have not.
fn left<'i>(home: &Home, healthy: &'i [String]) -> (BTreeMap<String, Value>, Vec<&'i String>) {
    let acks = std::fs::read_to_string(home.path("run/ack.jsonl")).unwrap();
    let acks = acks.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let is_end =
        |ack: &Value| !["accepted", "failed_transient"].contains(&ack["status"].as_str().unwrap());
    let id = |ack: Value| Some((ack["request_id"].as_str()?.to_owned(), ack));
    let ends: BTreeMap<String, Value> = acks.filter(is_end).filter_map(id).collect();
    let waiting = healthy.iter().filter(|id| !ends.contains_key(*id)).collect();
    (ends, waiting)
}

#[test]
fn everything_at_once_leaves_healthy_requests_alone_and_the_service_as_small_as_it_was() {
    let deep = std::env::var_os("SUMMARIZER_TEST_DEEP").is_some();
    let lasts = Duration::from_secs(if deep { 1_800 } else { 15 });
    let server = moody_server();
    let settings = format!(
        "{QUICK}[workers]\ncount = 2\nmemory = \"192 MiB\"\nattempt_timeout = \"8 s\"\n[status]\nhttp = \
         \"127.0.0.1:0\"\nlogin = false\n[[watch]]\nfolder = \"watched\"\n"
    );
    let bad = [("bad.stack.v1", STACK), ("bad.join.v1", MEMORY[0]), ("bad.endless.v1", ENDLESS)];
    let packs: Vec<_> =
        bad.iter().map(|(id, text)| (*id, "outline.jinja2", (*text).to_owned())).collect();
    let home = Home::with_packs(&config(&server, "", &settings), &packs);
    std::fs::create_dir_all(home.path("watched")).unwrap();
    lay_traps(&home);
    let (mut service, page, said) = serve(&home);
    let process = service.0.id();
    let (begun, over_yet) = (Instant::now(), AtomicBool::new(false));
    let mut healthy = Vec::new();
    let mut uses = Vec::new();
    std::thread::scope(|scope| {
        // Also when this thread panics, so that the other one ends.
        let _over = Over(&over_yet);
        // Readers that ask, and readers that only hold a connection.
        scope.spawn(|| {
            for round in 0.. {
                if over_yet.load(Ordering::Relaxed) {
                    break;
                }
                for text in [
                    "GET /api/newest HTTP/1.1\r\nhost: a\r\n\r\n",
                    "GET /api/status HTTP/1.1\r\nhost: a\r\n\r\n",
                    "GET / HTT",
                    "POST /api/act/pause HTTP/1.1\r\nhost: a\r\ncontent-length: 99999999\r\n\r\n",
                    "\u{0}\u{1}\u{2}\r\n\r\n",
                ] {
                    knock(&page, text);
                }
                let commands = ["status", "read", "search volume", "digest build", "task list"];
                let args: Vec<&str> = commands[round % commands.len()].split(' ').collect();
                home.run(&args);
            }
        });
        for round in 0_usize.. {
            if begun.elapsed() >= lasts {
                break;
            }
            // A slow machine gets as much as it can do, and no heap of work that grows.
            while begun.elapsed() < lasts && left(&home, &healthy).1.len() > BACKLOG {
                std::thread::sleep(Duration::from_millis(500));
                uses.push(Use::of(process));
            }
            for number in 0..5 {
                let id = format!("good-{round}-{number}");
                let text = format!(
                    "Import {id} failed because the disk was full. Ana moved volume {round}."
                );
                home.ask(&id, FREE, &text);
                healthy.push(id);
            }
            let queue = home.path("run/queue.jsonl");
            match round % 10 {
                0 => over(&home, &format!("trap-{round}"), TRAPS[round / 10 % TRAPS.len()]),
                1 => home.ask(
                    &format!("bad-{round}"),
                    bad[round / 10 % bad.len()].0,
                    "A short note.",
                ),
                2 => append(&queue, &[0xff, 0x00, 0x7b].repeat(1 + round % 50)),
                3 => append(&queue, &vec![b'x'; if round % 30 == 3 { 3 << 20 } else { 10 }]),
                4 => {
                    append(&queue, format!("{}{}", "[".repeat(5_000), "]".repeat(5_000)).as_bytes())
                }
                5 | 6 => home.ask(&format!("model-{round}"), FLOW, "A log with a line."),
                7 => {
                    let note =
                        format!("# Note {round}\n\nWe decided to keep volume {round} until May.\n");
                    std::fs::write(home.path("watched").join(format!("n{}.md", round % 40)), note)
                        .unwrap();
                }
                _ => {}
            }
            uses.push(Use::of(process));
            std::thread::sleep(Duration::from_millis(if deep { 1_000 } else { 300 }));
        }
    });
    let mut ends = BTreeMap::new();
    wait_until("the end of all healthy requests", || {
        let ended = service.0.try_wait().unwrap();
        assert_eq!(ended, None, "the service ended: {:#?}", said.lock().unwrap());
        let (found, waiting) = left(&home, &healthy);
        ends = found;
        waiting.is_empty()
    });
    for id in &healthy {
        let ack = &ends[id];
        assert_eq!(ack["status"], "completed", "{ack}");
    }
    let rested = Use::of(process);
    assert_eq!(service.terminate(), Some(0), "it stops in order");
    let quarter = uses.len() / 4;
    let (early, late) = (&uses[quarter..quarter * 2], &uses[quarter * 3..]);
    let told = format!("early {:?}, late {:?}, at rest {rested:?}", early[0], late[late.len() - 1]);
    println!("{} healthy requests; {told}", healthy.len());
    // A short run still fills its caches.
    let slack = if deep { 32 << 20 } else { 128 << 20 };
    let bytes = |moments| median(moments, |one: &Use| one.resident_bytes);
    assert!(bytes(late) <= bytes(early) + bytes(early) / 5 + slack, "memory: {told}");
    let descriptors = |moments| median(moments, |one: &Use| one.descriptors);
    assert!(descriptors(late) <= descriptors(early) + 8, "descriptors: {told}");
    let threads = |moments| median(moments, |one: &Use| one.threads);
    assert!(threads(late) <= threads(early) + 4, "threads: {told}");
    home.ok(&["replay", "--verify"]);
    // `verify` tells of links that lead out, as it should.
    for name in ["zero.txt", "out.txt", "round.txt"] {
        std::fs::remove_file(home.path("buses/other").join(name)).unwrap();
        std::fs::write(home.path("buses/other").join(name), "a text").unwrap();
    }
    home.ok(&["verify"]);
}
