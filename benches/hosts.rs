//! Several hosts beside one: `cargo bench --bench hosts -- [INGEST LINES]`.
//!
//! Three servers of PostgreSQL run on this machine: a primary and two standbys, one of which must confirm each commit. The
//! hosts are services of this program in homes of their own. The parts:
//!
//! - ingest: lines that are appended to a queue at once until the last one has its ack, on a host that has its log alone, on
//!   a leader, and on a host that follows, whose lines go through the database;
//! - work: requests whose model takes 50 ms, on 1, 2 and 4 hosts with 32 workers each, and with 4 each, which leave
//!   processors free;
//! - lag: how much later than on the leader an ack is on a host that follows, while work is under way;
//! - takeover: from a `kill -9` of the leader until another host leads, with the settings that come with the program;
//! - memory: of the leader and of a host that follows, at the end of the work.
//!
//! Everything shares the processors of this machine, so the figures are a lower bound for hosts of their own. Without
//! PostgreSQL it says so and ends.
#![allow(
    missing_docs,
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a program that prints figures"
)]

#[allow(dead_code, reason = "tests use the rest")]
#[path = "../tests/postgres/server.rs"]
mod server;
#[allow(dead_code, unused_imports, reason = "tests use the rest")]
#[path = "../tests/postgres/serving.rs"]
mod serving;
#[path = "../tests/support/mod.rs"]
mod support;

use std::io::{BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};

use server::Servers;
use serving::{Host, wait_for};
use support::process::ProcessHome;
use support::requests::{ACTIVE, DISABLED, making, request};

/// The allocator of the program, so that the figures apply to the program.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const NAMES: [&str; 4] = ["a", "b", "c", "d"];
/// How long the model takes for a request.
const WORK: Duration = Duration::from_millis(50);
/// Workers of each host.
const WORKERS: [usize; 2] = [32, 4];

struct Size {
    lines: usize,
    /// Requests for each worker.
    each: usize,
    hosts: &'static [usize],
    takeovers: usize,
}

fn size() -> Size {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    // Without `--bench`, as the tests run it, a few lines.
    if !arguments.iter().any(|argument| argument == "--bench") {
        return Size { lines: 100, each: 1, hosts: &[2], takeovers: 1 };
    }
    let named = arguments.iter().find_map(|text| text.replace('_', "").parse().ok());
    Size { lines: named.unwrap_or(200_000), each: 60, hosts: &[1, 2, 4], takeovers: 5 }
}

fn main() {
    let size = size();
    let Some(servers) = Servers::start(2) else { return };
    let url = servers.url(&[servers.port(0)], "postgres:secret-word");
    ingest(&servers, &url, size.lines);
    let model = model();
    for workers in WORKERS {
        let mut alone = 0.0;
        for count in size.hosts {
            fresh(&servers);
            let rate = work(&url, &model, (*count, workers), size.each);
            if *count == 1 {
                alone = rate;
            }
            let share = rate / alone / *count as f64;
            let linear = if alone > 0.0 { format!("{share:.2} of linear") } else { String::new() };
            println!(
                "work of 50 ms on {count} hosts of {workers} workers: {rate:.0} requests/s, {linear}"
            );
        }
    }
    fresh(&servers);
    takeover(&url, size.takeovers);
}

/// Removes all logs.
fn fresh(servers: &Servers) {
    servers.sql(0, "DROP SCHEMA IF EXISTS summarizer CASCADE");
}

fn team(url: &str, names: &[&'static str], more: &str) -> Vec<Host> {
    let mut hosts: Vec<Host> = names.iter().map(|name| Host::with(name, url, more)).collect();
    for host in &hosts {
        let path = host.home.path("summarizer.toml");
        let settings = std::fs::read_to_string(&path).unwrap();
        let settings = settings.replace("durability = \"single\"\nlease = \"1 s\"\n", "");
        std::fs::write(&path, settings).unwrap();
        host.home.note("shared.txt", "The pump was repaired on Monday. Ana will test it.");
    }
    hosts[0].json(&["cluster", "init"]).unwrap();
    for host in &hosts[1..] {
        host.json(&["cluster", "join"]).unwrap();
    }
    hosts[0].serve();
    wait_for("the first host leads", || (hosts[0].role()? == "leader").then_some(()));
    hosts[1..].iter_mut().for_each(Host::serve);
    for host in &hosts[1..] {
        wait_for("a host follows", || (host.role()? == "follower").then_some(()));
    }
    hosts
}

fn lines(count: usize, word: &str, flow: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    for number in 0..count {
        let id = format!("{word}{number}");
        let mut line = making(request(&id, flow, json!({})), &id);
        line["input"]["ids"] = json!(["shared.txt"]);
        bytes.extend_from_slice(line.to_string().as_bytes());
        bytes.push(b'\n');
    }
    bytes
}

/// Counts the acks of a home as they come.
struct Acks<'h> {
    home: &'h ProcessHome,
    read: u64,
    count: usize,
}

impl<'h> Acks<'h> {
    fn of(home: &'h ProcessHome) -> Acks<'h> {
        let mut acks = Acks { home, read: 0, count: 0 };
        acks.new_lines();
        acks
    }

    /// The lines that came since the last look.
    fn new_lines(&mut self) -> Vec<u8> {
        use std::io::Seek as _;
        let mut bytes = Vec::new();
        if let Ok(mut file) = std::fs::File::open(self.home.path("run/ack.jsonl")) {
            file.seek(std::io::SeekFrom::Start(self.read)).unwrap();
            file.read_to_end(&mut bytes).unwrap();
        }
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        bytes.truncate(whole);
        self.read += whole as u64;
        self.count += bytes.iter().filter(|byte| **byte == b'\n').count();
        bytes
    }

    fn wait_for(&mut self, count: usize) {
        let until = Instant::now() + Duration::from_secs(600);
        while self.count < count {
            assert!(Instant::now() < until, "{} of {count} acks", self.count);
            std::thread::sleep(Duration::from_millis(1));
            self.new_lines();
        }
    }
}

/// From the first byte in the queue until the last line has its ack.
fn taken_in(home: &ProcessHome, queue: &ProcessHome, count: usize, word: &str) -> f64 {
    let bytes = lines(count, word, DISABLED);
    let mut acks = Acks::of(home);
    let goal = acks.count + count;
    let begun = Instant::now();
    queue.append(&bytes);
    acks.wait_for(goal);
    count as f64 / begun.elapsed().as_secs_f64()
}

/// The flow of the lines is disabled, so each line ends when it is taken in.
fn ingest(servers: &Servers, url: &str, count: usize) {
    let single = ProcessHome::new();
    single.note("shared.txt", "The pump was repaired on Monday. Ana will test it.");
    let log = std::fs::File::create(single.path("serve.log")).unwrap();
    let mut service = single.command(&["serve"]).stderr(log).spawn().unwrap();
    wait_for("it answers", || single.run(&["status"]).exit.filter(|exit| *exit == 0));
    let alone = taken_in(&single, &single, count, "s");
    let _ = rustix::process::kill_process(rustix::process::Pid::from_child(&service), Signal::TERM);
    service.wait().unwrap();
    println!("ingest, one host with its log alone: {alone:.0} lines/s");
    fresh(servers);
    let hosts = team(url, &NAMES[..2], "");
    for (at, what) in [(0, "on the leader"), (1, "on a host that follows")] {
        let rate = taken_in(&hosts[0].home, &hosts[at].home, count, NAMES[at]);
        println!("ingest {what}: {rate:.0} lines/s, {:.2} of the one host", rate / alone);
    }
}

/// A server whose answers come after a while. One thread for each connection.
fn model() -> String {
    let pack = "docs.chunk_set.summarize.brief.v1";
    let path = format!("{}/tests/golden/packs/{pack}/recorded.txt", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).unwrap();
    let body = json!({
        "choices": [{"message": {"content": text}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 100, "completion_tokens": 50},
    });
    let body = body.to_string();
    let answer = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let answer = answer.clone();
            std::thread::spawn(move || {
                let mut reader = BufReader::new(stream.try_clone().unwrap());
                while let Some(is_question) = read_request(&mut reader) {
                    let sent = match is_question {
                        true => {
                            std::thread::sleep(WORK);
                            stream.write_all(answer.as_bytes())
                        }
                        false => {
                            stream.write_all(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")
                        }
                    };
                    if sent.is_err() {
                        return;
                    }
                }
            });
        }
    });
    base
}

/// Reads one request; false for one that asks for facts about a model.
fn read_request(reader: &mut impl std::io::BufRead) -> Option<bool> {
    let (mut length, mut is_question, mut line) = (0, None, String::new());
    loop {
        line.clear();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        is_question = is_question.or(Some(line.starts_with("POST")));
        let lower = line.to_ascii_lowercase();
        if let Some(value) = lower.strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
        if line == "\r\n" {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    is_question
}

fn work(url: &str, model: &str, (count, workers): (usize, usize), each: usize) -> f64 {
    let more = format!(
        "[workers]\ncount = {workers}\nmax_in_flight_per_provider = {workers}\n[provider.slow]\nkind = \"openai\"\n\
         base_url = \"{model}/v1\"\nmodel = \"m\"\n[flow.\"{ACTIVE}\"]\nprovider = \"slow\"\n"
    );
    let hosts = team(url, &NAMES[..count], &more);
    // The flow and the connections are used once before.
    let warm = 2 * count * workers;
    let total = each * count * workers;
    hosts[0].home.append(&lines(warm, "warm", ACTIVE));
    let ended = |acks: &mut Acks<'_>| {
        let lines = acks.new_lines();
        let is_completed = |line: &Value| line["status"] == "completed";
        let acks = lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        acks.filter_map(|line| serde_json::from_slice(line).ok()).filter(is_completed).count()
    };
    let mut leader = Acks { home: &hosts[0].home, read: 0, count: 0 };
    let mut done = 0;
    let until = Instant::now() + Duration::from_secs(600);
    while done < warm {
        assert!(Instant::now() < until, "{done} of {warm} requests: {}", hosts[0].told());
        std::thread::sleep(Duration::from_millis(5));
        done += ended(&mut leader);
    }
    let lag = (count > 1).then(|| Lag::start(&hosts[0].home, &hosts[1].home));
    let begun = Instant::now();
    hosts[0].home.append(&lines(total, "work", ACTIVE));
    done = 0;
    while done < total {
        assert!(Instant::now() < until, "{done} of {total} requests: {}", hosts[0].told());
        std::thread::sleep(Duration::from_millis(5));
        done += ended(&mut leader);
    }
    let rate = total as f64 / begun.elapsed().as_secs_f64();
    if let Some(lag) = lag {
        lag.finish();
        let [leads, follows] = [&hosts[0], &hosts[1]].map(|host| host.memory() >> 20);
        println!("  memory: {leads} MiB of the leader, {follows} MiB of a host that follows");
    }
    rate
}

/// Watches the acks of two hosts.
struct Lag {
    stop: std::sync::mpsc::Sender<()>,
    thread: std::thread::JoinHandle<Vec<Duration>>,
}

impl Lag {
    fn start(leads: &ProcessHome, follows: &ProcessHome) -> Lag {
        let paths = [leads, follows].map(|home| home.path("run/ack.jsonl"));
        let (stop, stopped) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || watch_lag(&paths, &stopped));
        Lag { stop, thread }
    }

    fn finish(self) {
        drop(self.stop);
        let mut lags = self.thread.join().unwrap();
        lags.sort();
        let at = |share: f64| lags[((lags.len() - 1) as f64 * share) as usize];
        println!(
            "  lag of a host that follows, {} looks: median {:?}, p99 {:?}, longest {:?}",
            lags.len(),
            at(0.5),
            at(0.99),
            at(1.0)
        );
    }
}

/// Both files have the same bytes, so a length that the leader had is reached by the other host later.
fn watch_lag(
    paths: &[std::path::PathBuf; 2],
    stopped: &std::sync::mpsc::Receiver<()>,
) -> Vec<Duration> {
    let length = |at: usize| std::fs::metadata(&paths[at]).map_or(0, |found| found.len());
    let mut seen = std::collections::VecDeque::<(u64, Instant)>::new();
    let (mut lags, mut last, mut ends) = (Vec::new(), length(0), None::<Instant>);
    loop {
        let now = Instant::now();
        let (leads, follows) = (length(0), length(1));
        if leads > last && ends.is_none() {
            seen.push_back((leads, now));
            last = leads;
        }
        while seen.front().is_some_and(|(length, _)| *length <= follows) {
            lags.extend(seen.pop_front().map(|(_, at)| now - at));
        }
        if ends.is_none() && stopped.try_recv() == Err(std::sync::mpsc::TryRecvError::Disconnected)
        {
            ends = Some(now);
        }
        if ends.is_some_and(|since| seen.is_empty() || since.elapsed() > Duration::from_secs(60)) {
            assert!(seen.is_empty(), "the host that follows never had all acks");
            return lags;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn takeover(url: &str, rounds: usize) {
    let mut hosts = team(url, &NAMES[..3], "");
    let mut took = Vec::new();
    for round in 0..rounds {
        let leader = wait_for("a host leads", || {
            hosts.iter().position(|host| host.role().as_deref() == Some("leader"))
        });
        hosts[leader].end(Signal::KILL);
        let killed = Instant::now();
        wait_for("another host leads", || {
            let mut others = hosts.iter().enumerate().filter(|(at, _)| *at != leader);
            others.find(|(_, host)| host.role().as_deref() == Some("leader")).map(|_| ())
        });
        took.push(killed.elapsed());
        hosts[leader].serve();
        wait_for("it follows", || (hosts[leader].role()? == "follower").then_some(()));
        // The lease of the new leader is renewed at different moments.
        std::thread::sleep(Duration::from_millis(130 * (round as u64 % 5)));
    }
    took.sort();
    println!(
        "takeover after kill -9, {rounds} rounds: median {:?}, longest {:?}",
        took[took.len() / 2],
        took[took.len() - 1]
    );
}
