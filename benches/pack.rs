//! Builds and checks the summary pack of a large run: by default 1,000 wave outputs of 100 KB.
//!
//! `cargo bench --bench pack -- [FILES [KILOBYTES]]` prints the time and the peak memory of each step.
//! With `--memory` it does so for a quarter of the files, all files, and twice as many. The research
//! run is made in a temporary folder and is always the same; a separate process measures each.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a benchmark stops at the first surprise, makes its own files and prints"
)]

use std::fmt::Write as _;
use std::path::Path;
use std::time::Instant;

use serde_json::json;
use summarizer::contract::hash::sha256;
use summarizer::os::real::HostDisk;
use summarizer::synthesis::agents::AgentTypes;
use summarizer::synthesis::build::{BuildOptions, WrittenPack, build};
use summarizer::synthesis::gate::{CheckOptions, check};
use summarizer::synthesis::run_dir::RunDir;
use summarizer::synthesis::url::cid;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const SOURCES: usize = 12;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    // A run that is there already: what `--memory` starts for each of its runs.
    if let [flag, dir] = args.as_slice()
        && flag == "--only"
    {
        return measure(Path::new(dir));
    }
    let mut numbers = args.iter().filter_map(|arg| arg.parse::<usize>().ok());
    // `cargo test` runs this once, without a word: there a small run is enough.
    let small = !args.iter().any(|arg| arg == "--bench");
    let files = numbers.next().unwrap_or(if small { 3 } else { 1000 });
    let kilobytes = numbers.next().unwrap_or(if small { 10 } else { 100 });
    let counts = if args.iter().any(|arg| arg == "--memory") {
        vec![files.div_ceil(4), files, files * 2]
    } else {
        vec![files]
    };
    for files in counts {
        let dir = tempfile::tempdir().expect("a temporary folder");
        make(dir.path(), files, kilobytes * 1024);
        println!("{files} files of {kilobytes} KB");
        // Making the run takes memory too, so who measures is another process.
        let program = std::env::current_exe().expect("the name of this program");
        let mut command = std::process::Command::new(program);
        let ended = command.arg("--only").arg(dir.path()).status().expect("start the measurement");
        assert!(ended.success(), "{ended}");
    }
}

fn measure(dir: &Path) {
    let run = RunDir::open(&HostDisk, dir).expect("open the run");
    let agent_types = AgentTypes::usual();
    let options = BuildOptions {
        agent_types: &agent_types,
        generated_at: None,
        strict: false,
        summarize: None,
        progress: &|| (),
    };
    let begun = Instant::now();
    let built = build(&run, &options).expect("build the pack");
    let took = begun.elapsed();
    let WrittenPack { claims, bytes, .. } = built.pack.expect("a pack");
    println!("  build   {took:.2?}, {claims} claims, {bytes} bytes");
    println!("  memory  {} after the build", most_memory());
    let begun = Instant::now();
    build(&run, &options).expect("build the pack again");
    println!("  again   {:.2?}", begun.elapsed());
    let begun = Instant::now();
    let options = CheckOptions { agent_types: &agent_types, compat: false, strict: false };
    let checked = check(&run, &options).expect("check the pack");
    let verdict = checked.report.map(|report| report.status);
    println!("  check   {:.2?}, {verdict:?}", begun.elapsed());
    println!("  memory  {} after the check", most_memory());
}

/// Peak resident memory of this process.
fn most_memory() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.map_or("not known here".to_owned(), |kb| kb.trim().to_owned())
}

fn make(root: &Path, files: usize, bytes: usize) {
    let put = |name: String, text: &str| {
        let path = root.join(name);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("make a folder");
        std::fs::write(path, text).expect("write a file");
    };
    let at = "2026-02-14T10:00:00.000Z";
    let perspective = |number: usize| {
        json!({
            "id": format!("p{number:04}"), "title": format!("View {number}"), "track": "standard",
            "agent_type": "ClaudeResearcher",
            "prompt_contract": {"max_words": 100_000, "max_sources": 1000, "tool_budget": {},
                "must_include_sections": ["Findings", "Sources", "Gaps"]},
        })
    };
    let perspectives: Vec<_> = (0..files).map(perspective).collect();
    put(
        "perspectives.json".to_owned(),
        &json!({"schema_version": "perspectives.v1", "run_id": "bench", "created_at": at,
            "perspectives": perspectives})
        .to_string(),
    );
    put(
        "manifest.json".to_owned(),
        &json!({
            "schema_version": "manifest.v1", "run_id": "bench", "created_at": at,
            "updated_at": at, "revision": 1, "mode": "standard", "status": "running",
            "query": {"text": "bench"},
            "stage": {"current": "summaries", "started_at": at, "history": []},
            "limits": {"max_wave1_agents": files, "max_wave2_agents": 0, "max_summary_kb": 5,
                "max_total_summary_kb": files * 4, "max_review_iterations": 1},
            "agents": {},
            "artifacts": {"root": root, "paths": {
                "wave1_dir": "wave-1", "wave2_dir": "wave-2", "citations_dir": "citations",
                "summaries_dir": "summaries", "synthesis_dir": "synthesis", "logs_dir": "logs",
                "gates_file": "gates.json", "perspectives_file": "perspectives.json",
                "citations_file": "citations/citations.jsonl",
                "summary_pack_file": "summaries/summary-pack.json", "pivot_file": "pivot.json"}},
            "metrics": {}, "failures": [],
        })
        .to_string(),
    );
    let mut pool = String::new();
    for file in 0..files {
        let mut text = String::with_capacity(bytes + 4096);
        text.push_str("## Findings\n\n");
        let urls: Vec<String> =
            (0..SOURCES).map(|source| format!("https://s{source}.example.org/{file}")).collect();
        for url in &urls {
            let row = json!({"schema_version": "citation.v1", "cid": cid(url),
                "normalized_url": url, "url": url, "url_original": url, "status": "valid",
                "checked_at": at, "found_by": [], "notes": ""});
            let _ = writeln!(pool, "{row}");
        }
        let mut number = 0_usize;
        while text.len() < bytes {
            let noise = sha256([file.to_le_bytes(), number.to_le_bytes()].concat()).hex();
            let url = &urls[number % SOURCES];
            let _ = match number % 4 {
                0 => writeln!(
                    text,
                    "- Measured **{}** in [the report]({url}), `{}`.",
                    &noise[..12],
                    &noise[12..20]
                ),
                1 => writeln!(
                    text,
                    "- Observers agree on {} and _{}_ [{}].",
                    &noise[..16],
                    &noise[16..30],
                    number % SOURCES + 1
                ),
                2 => writeln!(
                    text,
                    "- Nobody cites this line about {noise},\n  which goes on in a second one."
                ),
                _ => writeln!(
                    text,
                    "- See {url} for {} (confidence: {}).",
                    &noise[..20],
                    number % 100
                ),
            };
            number += 1;
        }
        text.push_str("\n## Sources\n\n");
        urls.iter().for_each(|url| text.push_str(&format!("- {url}\n")));
        text.push_str("\n## Gaps\n\n- (P1) Nothing on cost #cost\n");
        put(format!("wave-1/p{file:04}.md"), &text);
    }
    put("citations/citations.jsonl".to_owned(), &pool);
}
