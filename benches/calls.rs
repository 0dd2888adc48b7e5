//! Calls in flight: `cargo bench --bench calls -- [CALLS IN FLIGHT]...`.
//!
//! A server in another process answers each question after 50 ms. Three clients ask it: a plain client
//! (blocking sockets that stay open, fixed bytes, no parsing), the provider of this program, and
//! `flow run --lines` with `workers.max_in_flight_per_provider`. The three follow one another in each
//! round; a row is the median of the rounds. The table shows calls a second, their share of what the plain
//! client reached in the same round, the processor time of a call, the calls that one core can do at that
//! price, the share of the smaller of both (what is possible on one core), the connections that were
//! opened, and resident memory for each call in flight.
#![allow(
    missing_docs,
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a program that prints figures"
)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};
use summarizer::config::{ProviderConfig, ProviderKind};
use summarizer::model::{CallSettings, Message, ModelCall, OpenAi, Provider, Role};

/// The allocator of the program, so that the figures apply to the program.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const LATENCY: Duration = Duration::from_millis(50);
/// The argument that makes this program the server.
const SERVE: &str = "serve-calls";
const QUESTION: &str = "How far is the next town?";
const DAG: &str = "inputs:\n  question: {type: string}\noutputs:\n  answer: {type: string, reference: '${talk.output}'}\nnodes:\n- name: talk\n  type: llm\n  source: {type: code, path: talk.jinja2}\n  inputs: {model: m, question: '${inputs.question}'}\n  api: chat\n  connection: c\n";

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|argument| argument == SERVE) {
        return serve();
    }
    // Without `--bench`, as the tests run it, one small row.
    let measured = arguments.iter().any(|argument| argument == "--bench");
    let mut sizes: Vec<usize> = arguments.iter().filter_map(|text| text.parse().ok()).collect();
    if sizes.is_empty() {
        sizes = if measured { vec![8, 32, 128, 512] } else { vec![4] };
    }
    let seconds = if measured { 4.0 } else { 0.2 };
    println!("one question takes the server {} ms", LATENCY.as_millis());
    println!(
        "{:>9} {:>22} {:>9} {:>7} {:>9} {:>11} {:>12} {:>11} {:>11}",
        "in flight",
        "client",
        "calls/s",
        "share",
        "µs a call",
        "a core does",
        "of one core",
        "connections",
        "kB a call"
    );
    let rounds = if measured { 3 } else { 1 };
    for in_flight in sizes {
        let calls = (in_flight as f64 * seconds / LATENCY.as_secs_f64()) as usize;
        let mut found: [Vec<Compared>; 3] = Default::default();
        for _ in 0..rounds {
            let plain = measure(in_flight, calls, plain_client);
            let provider = measure(in_flight, calls, provider_client);
            let program = program(in_flight, calls);
            let rate = plain.rate;
            for (rows, reached) in found.iter_mut().zip([plain, provider, program]) {
                rows.push(Compared { share: reached.rate / rate, plain: rate, reached });
            }
        }
        for (mut rows, client) in found.into_iter().zip(["plain", "provider", "flow run --lines"]) {
            rows.sort_by(|a, b| a.share.total_cmp(&b.share));
            let middle = rows.len() / 2;
            // The plain client is compared with itself, so its median is that of the rate.
            if client == "plain" {
                rows.sort_by(|a, b| a.plain.total_cmp(&b.plain));
            }
            rows[middle].print(in_flight, client);
        }
    }
}

/// What one client reached.
struct Reached {
    rate: f64,
    cpu_micros: f64,
    connections: usize,
    kilobytes: f64,
}

/// What a client reached, beside the plain one of the same round.
struct Compared {
    reached: Reached,
    share: f64,
    plain: f64,
}

impl Compared {
    fn print(&self, in_flight: usize, client: &str) {
        let Reached { rate, cpu_micros, connections, kilobytes } = self.reached;
        let core = 1e6 / cpu_micros.max(1.0);
        let of_core = rate / self.plain.min(core);
        println!(
            "{in_flight:>9} {client:>22} {rate:>9.0} {:>7.2} {cpu_micros:>9.0} {core:>11.0} \
             {of_core:>12.2} {connections:>11} {kilobytes:>11.0}",
            self.share
        );
    }
}

/// The server in a process of its own.
struct Answering {
    child: Child,
    address: String,
}

impl Answering {
    fn start() -> Answering {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .arg(SERVE)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut address = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut address).unwrap();
        Answering { child, address: address.trim().to_owned() }
    }

    /// Connections so far, without the connection that asks.
    fn connections(&self) -> usize {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.write_all(b"GET /count HTTP/1.1\r\nconnection: close\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text.rsplit("\r\n").next().unwrap().trim().parse::<usize>().unwrap() - 1
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn serve() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    println!("{}", listener.local_addr().unwrap());
    std::io::stdout().flush().unwrap();
    // It ends with the program that started it.
    std::thread::spawn(|| {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(0);
    });
    let count = Arc::new(AtomicUsize::new(0));
    let body = json!({
        "model": "m", "usage": {"prompt_tokens": 11, "completion_tokens": 7},
        "choices": [{"finish_reason": "stop", "message": {"role": "assistant", "content": "About 400 km."}}]
    })
    .to_string();
    let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    let answer: Arc<str> = answer.into();
    for stream in listener.incoming().flatten() {
        let number = count.fetch_add(1, Ordering::Relaxed) + 1;
        let (count, answer) = (Arc::clone(&count), Arc::clone(&answer));
        let thread = std::thread::Builder::new().stack_size(64 << 10);
        thread.spawn(move || answer_all(stream, &answer, &count).unwrap_or(number)).unwrap();
    }
}

/// Answers the questions of one connection.
fn answer_all(stream: TcpStream, answer: &str, count: &AtomicUsize) -> std::io::Result<usize> {
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut stream = stream;
    while let Some((first, _)) = message(&mut reader)? {
        if first.starts_with("GET /count") {
            let body = count.load(Ordering::Relaxed).to_string();
            write!(stream, "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len())?;
            break;
        }
        if first.starts_with("GET ") {
            stream.write_all(b"HTTP/1.1 404 No\r\ncontent-length: 0\r\n\r\n")?;
            continue;
        }
        std::thread::sleep(LATENCY);
        stream.write_all(answer.as_bytes())?;
    }
    Ok(0)
}

/// The first line and the body of the next message, or nothing at the end.
fn message(reader: &mut BufReader<TcpStream>) -> std::io::Result<Option<(String, Vec<u8>)>> {
    let (mut first, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or(0);
        }
        if line == "\r\n" {
            break;
        }
        if first.is_empty() {
            first = line;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    Ok(Some((first, body)))
}

/// Asks on many threads of this process. `client` makes the function that asks once.
fn measure<'a, Ask: FnMut() + 'a>(
    in_flight: usize,
    calls: usize,
    client: impl Fn(&str) -> Box<dyn Fn() -> Ask + Sync + 'a>,
) -> Reached {
    let server = Answering::start();
    let make = client(&server.address);
    let (before, next) = (resident("self", "VmRSS:"), AtomicUsize::new(0));
    let (begun, cpu) = (Instant::now(), cpu_micros("self"));
    let most = std::thread::scope(|scope| {
        for _ in 0..in_flight {
            scope.spawn(|| {
                let mut ask = make();
                while next.fetch_add(1, Ordering::Relaxed) < calls {
                    ask();
                }
            });
        }
        let mut most = before;
        while next.load(Ordering::Relaxed) < calls {
            std::thread::sleep(LATENCY);
            most = resident("self", "VmRSS:").max(most);
        }
        most
    });
    let (seconds, cpu) = (begun.elapsed().as_secs_f64(), cpu_micros("self") - cpu);
    Reached {
        rate: calls as f64 / seconds,
        cpu_micros: cpu / calls as f64,
        connections: server.connections(),
        kilobytes: (most - before) / in_flight as f64,
    }
}

fn plain_client(address: &str) -> Box<dyn Fn() -> Box<dyn FnMut()> + Sync> {
    let address = address.to_owned();
    Box::new(move || {
        let mut stream = TcpStream::connect(&address).unwrap();
        stream.set_nodelay(true).unwrap();
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        let body = json!({"model": "m", "messages": [{"role": "user", "content": QUESTION}]});
        let (body, path) = (body.to_string(), "/v1/chat/completions");
        let question = format!(
            "POST {path} HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\n\
             content-length: {}\r\n\r\n{body}",
            body.len()
        );
        Box::new(move || {
            stream.write_all(question.as_bytes()).unwrap();
            message(&mut reader).unwrap().unwrap();
        })
    })
}

fn provider_client(address: &str) -> Box<dyn Fn() -> Box<dyn FnMut()> + Sync> {
    let config = ProviderConfig {
        kind: ProviderKind::OpenAi,
        base_url: Some(format!("http://{address}/v1")),
        model: Some("m".to_owned()),
        ..ProviderConfig::default()
    };
    let provider = Arc::new(OpenAi::new("bench", &config, None));
    Box::new(move || {
        let provider = Arc::clone(&provider);
        let messages = [Message::new(Role::User, QUESTION)];
        Box::new(move || {
            let call = ModelCall {
                flow_id: "bench.calls.v1",
                variant: None,
                node: "ask",
                messages: &messages,
                inputs: &Map::new(),
                sources: &[],
                schema: None,
                validator: None,
                hints: None,
                settings: CallSettings::default(),
                timeout: Duration::from_secs(60),
                bill: None,
                listener: None,
                model: None,
                apart: false,
                speakers: None,
                kept_as: "",
            };
            provider.call(&call).unwrap();
        })
    })
}

/// The program over a file of lines, start and end included.
fn program(in_flight: usize, calls: usize) -> Reached {
    let server = Answering::start();
    let folder = tempfile::tempdir().unwrap();
    let pack = folder.path().join("bench.calls.v1");
    std::fs::create_dir(&pack).unwrap();
    std::fs::write(pack.join("flow.dag.yaml"), DAG).unwrap();
    std::fs::write(pack.join("talk.jinja2"), "# user:\n{{question}}").unwrap();
    let config = format!(
        "[workers]\nmax_in_flight_per_provider = {in_flight}\n[provider]\ndefault = \"loop\"\n\
         [provider.loop]\nkind = \"openai\"\nbase_url = \"http://{}/v1\"\nmodel = \"m\"\n",
        server.address
    );
    std::fs::write(folder.path().join("summarizer.toml"), config).unwrap();
    let idle = one_run(folder.path(), 1).2;
    let (seconds, cpu, most) = one_run(folder.path(), calls);
    Reached {
        rate: calls as f64 / seconds,
        cpu_micros: cpu / calls as f64,
        connections: server.connections(),
        kilobytes: (most - idle) / in_flight as f64,
    }
}

/// Seconds, processor time and peak resident kilobytes of a run over so many lines.
fn one_run(home: &Path, lines: usize) -> (f64, f64, f64) {
    let texts: String = (0..lines)
        .map(|n| format!("{}\n", json!({"question": format!("How far is town {n}?")})))
        .collect();
    std::fs::write(home.join("lines.jsonl"), texts).unwrap();
    let begun = Instant::now();
    let mut child = Command::new(env!("CARGO_BIN_EXE_summarizer"))
        .env_clear()
        .arg("--home")
        .arg(home)
        .args(["flow", "run"])
        .arg(home.join("bench.calls.v1"))
        .args(["--lines", "--input"])
        .arg(home.join("lines.jsonl"))
        .stdin(Stdio::null())
        .stdout(std::fs::File::create(home.join("out.jsonl")).unwrap())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let id = child.id().to_string();
    let (mut cpu, mut most) = (0.0_f64, 0.0_f64);
    let exit = loop {
        (cpu, most) = (cpu.max(cpu_micros(&id)), most.max(resident(&id, "VmHWM:")));
        match child.try_wait().unwrap() {
            Some(exit) => break exit,
            None => std::thread::sleep(Duration::from_millis(2)),
        }
    };
    let seconds = begun.elapsed().as_secs_f64();
    assert!(exit.success(), "the program failed: {exit}");
    let output = std::fs::read_to_string(home.join("out.jsonl")).unwrap();
    let answers = output.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let right = answers.filter(|line| line["answer"] == "About 400 km.").count();
    assert_eq!(right, lines, "every line was answered");
    (seconds, cpu, most)
}

/// A figure of the memory of a process, in kilobytes.
fn resident(process: &str, name: &str) -> f64 {
    let text = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(0.0)
}

/// Processor time of a process in microseconds; the system counts it in hundredths of a second.
fn cpu_micros(process: &str) -> f64 {
    let text = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let fields = text.rsplit(") ").next().unwrap_or_default().split(' ');
    let times: Vec<f64> = fields.skip(11).take(2).filter_map(|field| field.parse().ok()).collect();
    times.iter().sum::<f64>() * 10_000.0
}
