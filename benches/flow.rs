//! The cost of a flow without the model: `cargo bench --bench flow -- [REQUESTS] [LINES]`. With the word `isolation`
//! it measures only what it costs that flows run in processes (`benches/flow/isolation.rs`).
//!
//! First the executor alone, in this process and on one thread: rendering, asking, validating and
//! projecting, with a model that answers immediately. Then the program, started again for each round,
//! with a local server that answers immediately: `flow run --lines` over a file of chat lines, four at
//! a time, with start and end, and its peak resident memory. Beside it are the figures of PromptFlow
//! 1.18.5 for the same work (one `llm` node, `api: chat`, 200 and 1,000 lines, `pf run create`, default
//! workers, telemetry off) on a shared two-core machine: compare ratios. No file is synced.
#![allow(
    missing_docs,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a program that prints figures"
)]

#[path = "../tests/support/flow_home.rs"]
mod flow_home;
#[path = "flow/isolation.rs"]
mod isolation;
#[path = "../tests/support/running.rs"]
mod running;
#[path = "../tests/support/server.rs"]
mod server;

use std::hint::black_box;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};
use server::{Server, chat};
use summarizer::flow::{self, LoadedPack, RunOptions, scaffold};
use summarizer::model::{
    ModelCall, ModelError, ModelIdentity, ModelReply, Provider, SourceText, StopReason, Usage,
};
use summarizer::os::real::HostDisk;
use summarizer::registry::{PackFiles, Registry};

/// Lines a second and MB of the whole tree of processes: PromptFlow at 200 and at 1,000 lines.
const PROMPTFLOW: [(usize, f64, f64); 2] = [(200, 21.0, 389.0), (1000, 66.9, 587.0)];

const DAG: &str = "inputs:\n  question: {type: string}\noutputs:\n  answer: {type: string, reference: '${talk.output}'}\nnodes:\n- name: compose\n  type: prompt\n  source: {type: code, path: compose.jinja2}\n  inputs: {question: '${inputs.question}'}\n- name: talk\n  type: llm\n  source: {type: code, path: talk.jinja2}\n  inputs: {model: m, max_tokens: '64', temperature: '0.7', question: '${compose.output}'}\n  api: chat\n  connection: c\n";
const COMPOSE: &str = "Answer in one sentence: {{question}}";
const TALK: &str = "# system:\nYou know distances.\n\n# user:\n{{question}}";

struct AtOnce(String);

impl Provider for AtOnce {
    fn identity(&self) -> ModelIdentity {
        ModelIdentity { provider: "at-once".to_owned(), ..ModelIdentity::default() }
    }

    fn context_tokens(&self) -> usize {
        8_192
    }

    fn call(&self, _: &ModelCall<'_>) -> Result<ModelReply, ModelError> {
        Ok(ModelReply {
            text: self.0.clone(),
            stop: StopReason::End,
            usage: Usage { input_tokens: 10, output_tokens: 10 },
            evidence: Vec::new(),
            identity: self.identity(),
            message: None,
            raw: None,
            redacted: 0,
            left_out: Vec::new(),
            cached: Default::default(),
        })
    }
}

fn main() {
    let numbers: Vec<usize> =
        std::env::args().skip(1).filter_map(|text| text.replace('_', "").parse().ok()).collect();
    // Without `--bench`, as the tests run it, a little of everything.
    let measured = std::env::args().any(|argument| argument == "--bench");
    if std::env::args().any(|argument| argument == "isolation") {
        return isolation::measure(&numbers, measured);
    }
    let requests = numbers.first().copied().unwrap_or(if measured { 20_000 } else { 20 });
    let lines = numbers.get(1).copied().unwrap_or(if measured { 20_000 } else { 20 });
    println!("executor with a model that answers immediately, one thread, {requests} requests");
    executor("prompt and chat nodes, free text", &chat_pack(), "About 400 km.", requests);
    for flow_id in ["gpt.log.annotate.business_meta.v1", "jobs.posting.screen.job_screening.v2"] {
        let answer = recorded(flow_id);
        executor(&format!("{flow_id}, schema"), &embedded(flow_id), &answer, requests);
    }
    println!("\n`flow run --lines` against a loopback server, process start and end included");
    for (count, theirs, megabytes) in PROMPTFLOW {
        program(count, Some((theirs, megabytes)));
    }
    program(lines, None);
    if !measured {
        isolation::measure(&[], measured);
    }
}

fn chat_pack() -> LoadedPack {
    let files = [("flow.dag.yaml", DAG), ("compose.jinja2", COMPOSE), ("talk.jinja2", TALK)];
    let files = files.map(|(path, text)| (path.to_owned(), text.as_bytes().to_vec()));
    let files = PackFiles::from_map(files.into()).expect("a sound pack");
    let mut record =
        scaffold::record_for("bench.chat.v1", None, "packs/x", &files).expect("a record");
    record.seal(&files, "2026-01-01T00:00:00.000Z".to_owned());
    LoadedPack::load(&record, &files).expect("it loads")
}

fn embedded(flow_id: &str) -> LoadedPack {
    let registry = Registry::embedded().expect("the embedded registry");
    let record = registry.find(flow_id, None).expect("an embedded flow");
    let files = registry.verified_files(&HostDisk, record).expect("its pack");
    LoadedPack::load(record, &files).expect("it loads")
}

fn recorded(flow_id: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join(format!("tests/golden/packs/{flow_id}/recorded.txt"));
    std::fs::read_to_string(path).expect("the recorded answer")
}

fn executor(name: &str, pack: &LoadedPack, answer: &str, requests: usize) {
    let model = AtOnce(answer.to_owned());
    let text = "The meeting moved to Friday at ten. Ana pays 1,250 EUR for the hall by 3 March. \
                Who brings the projector? Bob asked twice, and nobody has answered him yet. "
        .repeat(6);
    let sources = [SourceText { id: "a".to_owned(), text }];
    let options = RunOptions::default();
    let mut rounds = Vec::new();
    for _ in 0..5 {
        let begun = Instant::now();
        for _ in 0..requests {
            let ran = flow::run(pack, Map::new(), black_box(&sources), &model, &options);
            black_box(ran.expect("it runs"));
        }
        rounds.push(begun.elapsed().as_secs_f64() * 1e6 / requests as f64);
    }
    rounds.sort_by(f64::total_cmp);
    println!(
        "  {:>8.1} µs a request, median of five ({:.1} to {:.1}): {name}",
        rounds[2], rounds[0], rounds[4]
    );
}

fn program(count: usize, theirs: Option<(f64, f64)>) {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let pack = folder.path().join("bench.chat.v1");
    std::fs::create_dir(&pack).expect("a folder");
    let files = [("flow.dag.yaml", DAG), ("compose.jinja2", COMPOSE), ("talk.jinja2", TALK)];
    for (path, text) in files {
        std::fs::write(pack.join(path), text).expect("a file");
    }
    let server = Server::start(vec![chat("About 400 km.")]);
    let config = format!(
        "[provider]\ndefault = \"loop\"\n[provider.loop]\nkind = \"openai\"\nbase_url = \"{}/v1\"\nmodel = \"m\"\n",
        server.base
    );
    std::fs::write(folder.path().join("summarizer.toml"), config).expect("a configuration");
    let lines: String = (0..count)
        .map(|n| format!("{}\n", json!({"question": format!("How far is town {n}?")})))
        .collect();
    std::fs::write(folder.path().join("lines.jsonl"), lines).expect("the lines");
    let mut rounds: Vec<(f64, f64)> = (0..3).map(|_| one_round(folder.path(), count)).collect();
    rounds.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (seconds, megabytes) = rounds[1];
    let rate = count as f64 / seconds;
    print!(
        "  {count:>6} lines: {seconds:>7.3} s, {rate:>8.0} lines/s, {megabytes:>5.1} MB resident at most"
    );
    match theirs {
        Some((their_rate, their_memory)) => println!(
            "; {:.0} times PromptFlow's {their_rate} lines/s, {:.3} of its {their_memory} MB",
            rate / their_rate,
            megabytes / their_memory
        ),
        None => println!(),
    }
}

/// Seconds and peak resident megabytes of one run of the program.
fn one_round(home: &Path, count: usize) -> (f64, f64) {
    let output = std::fs::File::create(home.join("out.jsonl")).expect("a file for the output");
    let begun = Instant::now();
    let mut child = Command::new(env!("CARGO_BIN_EXE_summarizer"))
        .env_clear()
        .arg("--home")
        .arg(home)
        .args(["flow", "run"])
        .arg(home.join("bench.chat.v1"))
        .arg("--lines")
        .arg("--input")
        .arg(home.join("lines.jsonl"))
        .stdin(Stdio::null())
        .stdout(output)
        .stderr(Stdio::null())
        .spawn()
        .expect("the program starts");
    let status = format!("/proc/{}/status", child.id());
    let mut most = 0.0_f64;
    let exit = loop {
        most = most.max(resident(&status));
        match child.try_wait().expect("the program can be waited for") {
            Some(exit) => break exit,
            None => std::thread::sleep(Duration::from_millis(1)),
        }
    };
    let seconds = begun.elapsed().as_secs_f64();
    assert!(exit.success(), "the program failed: {exit}");
    let output = std::fs::read_to_string(home.join("out.jsonl")).expect("the output");
    let answers = output.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let right = answers.filter(|line| line["answer"] == "About 400 km.").count();
    assert_eq!(right, count, "every line was answered");
    (seconds, most)
}

/// Peak resident memory of a process in megabytes, while it can be read.
fn resident(status: &str) -> f64 {
    let text = std::fs::read_to_string(status).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<f64>().ok());
    kilobytes.unwrap_or(0.0) / 1000.0
}
