//! Tests the README and every page of the book: its blocks run as a reader would type them, its tables of
//! commands, settings and exit codes are those of the binary.
//!
//! The pages are those of `docs/SUMMARY.md` without the decisions. Each page begins in a new directory, or in
//! that of the page it continues. Each `sh` and `python` block runs in its own process, with the exports of
//! the earlier blocks of its page, and must end with 0. A word behind the language of a block marks it:
//!
//! - `with-model`: it asks a model server. A server of this test answers in its place.
//! - `by-hand`: it needs what a machine may lack, such as Ollama or systemd. It does not run; every
//!   `summarizer` line in it must be one that the binary can parse.
//!
//! A block of one `cargo` command is compared and does not run: the project is built already.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail like tests")]
#![allow(clippy::disallowed_methods, reason = "the test writes files as the reader would")]

#[path = "support/server.rs"]
mod server;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use serde_json::{Value, json};
use server::{Act, Seen, Server};

/// A block that takes longer fails.
const BLOCK_TIMEOUT: Duration = Duration::from_secs(600);
/// Pages that run at the same time.
const PAGES_AT_ONCE: usize = 3;

/// The README has exactly these `cargo` blocks.
const CARGO_BLOCKS: &[&str] =
    &["cargo install --path .", "cargo run --release -- demo", "cargo test"];

const README: &str = "README.md";
const LANGUAGES: &[&str] = &["sh", "python", "text", "toml", "json"];
/// `output` is what the commands right above print.
const MARKS: &[&str] = &["with-model", "by-hand", "output"];

/// A page and the page whose directory it continues in.
const CONTINUES: &[(&str, &str)] = &[
    ("docs/integrating.md", "docs/how-to/producer.md"),
    ("docs/determinism.md", "docs/integrating.md"),
];

/// The servers of the pages: what the test replaces by the address of its own server.
const ADDRESSES: &[&str] =
    &["http://127.0.0.1:11434", "http://127.0.0.1:8080", "https://api.anthropic.com"];

#[derive(Clone)]
struct Block {
    page: String,
    line: usize,
    language: String,
    mark: Option<String>,
    text: String,
}

impl Block {
    fn place(&self) -> String {
        format!("{}:{}", self.page, self.line)
    }

    fn is_marked(&self, mark: &str) -> bool {
        self.mark.as_deref() == Some(mark)
    }

    fn is_cargo(&self) -> bool {
        self.language == "sh" && self.mark.is_none() && self.text.starts_with("cargo")
    }
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(page: &str) -> String {
    fs::read_to_string(root().join(page)).unwrap_or_else(|error| panic!("{page}: {error}"))
}

/// The README and the pages of the book without the decisions, in the order of the book.
fn pages() -> Vec<String> {
    let summary = read("docs/SUMMARY.md");
    let listed = summary.lines().filter_map(|line| line.rsplit_once("](")?.1.strip_suffix(')'));
    let pages = listed.filter(|page| !page.starts_with("adr/")).map(|page| format!("docs/{page}"));
    std::iter::once(README.to_owned()).chain(pages).collect()
}

fn all_blocks() -> Vec<Block> {
    pages().iter().flat_map(|page| blocks(page, &read(page))).collect()
}

fn blocks(page: &str, text: &str) -> Vec<Block> {
    let mut found = Vec::new();
    let mut open: Option<Block> = None;
    for (index, line) in text.lines().enumerate() {
        match (line.strip_prefix("```"), open.as_mut()) {
            (Some(info), None) => {
                let (language, mark) = info.split_once(' ').unwrap_or((info, ""));
                open = Some(Block {
                    page: page.to_owned(),
                    line: index + 1,
                    language: language.trim().to_owned(),
                    mark: Some(mark.trim().to_owned()).filter(|mark| !mark.is_empty()),
                    text: String::new(),
                });
            }
            (Some(_), Some(_)) => found.extend(open.take()),
            (None, Some(block)) => {
                block.text.push_str(line);
                block.text.push('\n');
            }
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "{page}: a block is not closed");
    found
}

fn binary() -> PathBuf {
    PathBuf::from(env!("CARGO_BIN_EXE_summarizer"))
}

/// A program in the environment of a reader: the binary is on the path, and no variable of the test is set.
fn clean(program: &str, dir: &Path) -> Command {
    let mut paths = vec![binary().parent().unwrap().to_owned()];
    paths.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()));
    let mut command = Command::new(program);
    command
        .env_clear()
        .env("PATH", std::env::join_paths(paths).unwrap())
        .env("HOME", std::env::var_os("HOME").unwrap_or_else(|| dir.into()))
        .env("LC_ALL", "C.UTF-8")
        .current_dir(dir)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

fn run(mut command: Command, what: &str) -> Output {
    let child = command.spawn().unwrap_or_else(|error| panic!("{what}: {error}"));
    let (done, ended) = mpsc::channel();
    std::thread::spawn(move || drop(done.send(child.wait_with_output())));
    let output = ended.recv_timeout(BLOCK_TIMEOUT);
    output.unwrap_or_else(|_| panic!("{what} did not end in time")).unwrap()
}

fn assert_success(output: &Output, what: &str, text: &str) {
    assert!(
        output.status.success(),
        "{what} ended with {}\n--- block\n{text}--- stdout\n{}\n--- stderr\n{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
}

fn report_skipped(text: &str) {
    // `eprintln!` would be captured by the test harness. A direct write makes skipped blocks visible.
    use std::io::Write as _;
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

/// The help of a command, at a width at which no option is wrapped.
fn help(path: &[&str]) -> Option<String> {
    let output = clean("summarizer", root()).args(path).arg("--help").output().unwrap();
    output.status.success().then(|| String::from_utf8(output.stdout).unwrap())
}

/// What is wrong with one `summarizer` line: its command and options must be known to the binary.
fn misuse(line: &str) -> Option<String> {
    let words: Vec<&str> = line.split_whitespace().skip(1).collect();
    let names = words.iter().filter(|word| word.starts_with(|c: char| c.is_ascii_lowercase()));
    let mut path: Vec<&str> = Vec::new();
    for word in names {
        // A word that is no command is the value of an option, or an argument.
        path.push(word);
        if path.len() > 2 || help(&path).is_none() {
            path.pop();
        }
    }
    if path.is_empty() {
        return Some(format!("no command in `{line}`"));
    }
    let help = help(&path).unwrap();
    let options = words.iter().filter(|word| word.starts_with("--"));
    let unknown = options.map(|word| word.split('=').next().unwrap()).find(|option| {
        !help.split(|c: char| c.is_whitespace() || c == ',').any(|word| word == *option)
    });
    unknown.map(|option| format!("`{}` has no option {option}", path.join(" ")))
}

/// A server in the place of Ollama, llama.cpp and Anthropic: it has every model and answers each question
/// with an answer that fits the schema of the brief.
fn model_server() -> Server {
    let flow = "docs.chunk_set.summarize.brief.v1";
    let answer = read(&format!("tests/golden/packs/{flow}/recorded.txt"));
    let serve = move |seen: &Seen| {
        let body = match seen.path.as_str() {
            "/v1/chat/completions" => json!({
                "id": "1", "object": "chat.completion", "created": 1, "model": "model",
                "choices": [{"index": 0, "message": {"role": "assistant", "content": answer}, "finish_reason": "stop"}],
                "usage": {"prompt_tokens": 100, "completion_tokens": 50, "total_tokens": 150},
            }),
            "/v1/messages" => json!({
                "id": "1", "type": "message", "role": "assistant", "model": "model", "stop_reason": "end_turn",
                "content": [{"type": "text", "text": answer}],
                "usage": {"input_tokens": 100, "output_tokens": 50},
            }),
            "/v1/models" => {
                let models = ["llama3.2", "llama3.2:latest", "any", "claude-sonnet-4-5"];
                json!({"object": "list", "data": models.map(|id| json!({"id": id, "object": "model"}))})
            }
            path => match path.strip_prefix("/v1/models/") {
                Some(id) => json!({"id": id, "type": "model"}),
                None => return (404, Vec::new(), Value::Null.to_string()),
            },
        };
        (200, Vec::new(), body.to_string())
    };
    Server::start(vec![Act::Serve(Arc::new(serve))])
}

/// The directory of a page, and the exports of its blocks.
struct Folder {
    dir: tempfile::TempDir,
    exports: String,
    server: Option<Server>,
    /// What the last block printed.
    printed: String,
    ran: usize,
}

impl Folder {
    fn new() -> Folder {
        Folder {
            dir: tempfile::tempdir().unwrap(),
            exports: String::new(),
            server: None,
            printed: String::new(),
            ran: 0,
        }
    }

    fn play(&mut self, block: &Block) {
        let what = block.place();
        let mut text = block.text.clone();
        if block.is_marked("with-model") {
            let server = self.server.get_or_insert_with(model_server);
            for address in ADDRESSES {
                text = text.replace(address, &server.base);
            }
        }
        let output = match block.language.as_str() {
            "sh" if block.is_cargo() || block.is_marked("by-hand") => return,
            "sh" => {
                let script = format!("{}{text}", self.exports);
                for line in text.lines().filter(|line| line.starts_with("export ")) {
                    self.exports.push_str(line);
                    self.exports.push('\n');
                }
                let mut command = clean("sh", self.dir.path());
                command.args(["-eu", "-c", &script]);
                run(command, &what)
            }
            "python" => {
                let mut version = clean("python3", self.dir.path());
                if !version.arg("--version").status().is_ok_and(|status| status.success()) {
                    report_skipped(&format!("{what} NOT RUN: there is no python3"));
                    return;
                }
                let mut command = clean("python3", self.dir.path());
                command.env("PYTHONPATH", root().join("clients/python"));
                command.env("PYTHONDONTWRITEBYTECODE", "1").args(["-c", &text]);
                run(command, &what)
            }
            "toml" => {
                fs::write(self.dir.path().join("example.toml"), &text).unwrap();
                let mut command = clean("summarizer", self.dir.path());
                command.args(["--config", "example.toml", "config"]);
                run(command, &what)
            }
            "text" if block.is_marked("output") => {
                for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
                    let printed = &self.printed;
                    let is_there = printed.lines().any(|one| one.trim() == line);
                    assert!(is_there, "{what}: nothing prints {line:?}\n{printed}");
                }
                return;
            }
            _ => return,
        };
        assert_success(&output, &what, &text);
        self.printed = format!(
            "{}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
        self.ran += 1;
    }
}

/// Every line of each queue below a folder has exactly one terminal ack.
fn every_line_ended(folder: &Path) {
    for entry in fs::read_dir(folder).unwrap() {
        let home = entry.unwrap().path();
        let Ok(queue) = fs::read_to_string(home.join("run/queue.jsonl")) else { continue };
        let acks = fs::read_to_string(home.join("run/ack.jsonl")).unwrap_or_default();
        for number in 1..=queue.lines().count() {
            let terminal = acks
                .lines()
                .map(|line| serde_json::from_str::<Value>(line).unwrap())
                .filter(|ack| ack["line"] == number)
                .filter(|ack| {
                    !matches!(ack["status"].as_str(), Some("accepted" | "failed_transient"))
                })
                .count();
            assert_eq!(terminal, 1, "{}: line {number} of the queue\n{acks}", home.display());
        }
    }
}

#[test]
fn fenced_blocks_of_a_page_are_found() {
    let found = blocks(README, "a\n```sh\nls\n```\nb\n```sh by-hand\nx\n```\n");
    let seen: Vec<_> = found
        .iter()
        .map(|b| (b.line, b.language.as_str(), b.mark.as_deref(), b.text.as_str()))
        .collect();
    assert_eq!(seen, [(2, "sh", None, "ls\n"), (6, "sh", Some("by-hand"), "x\n")]);
}

#[test]
fn every_block_has_a_known_language_and_mark() {
    let all = all_blocks();
    for block in &all {
        let place = block.place();
        assert!(
            LANGUAGES.contains(&block.language.as_str()),
            "{place}: a `{}` block",
            block.language
        );
        let known = block.mark.as_deref().is_none_or(|mark| MARKS.contains(&mark));
        assert!(known, "{place}: the mark {:?} is not one of {MARKS:?}", block.mark);
        let hidden = block.language == "text" && block.text.starts_with("summarizer ");
        assert!(!hidden, "{place}: a block of commands is `sh`, so that it runs");
    }
    let cargo: Vec<&str> =
        all.iter().filter(|block| block.is_cargo()).map(|block| block.text.trim()).collect();
    assert_eq!(cargo, CARGO_BLOCKS);
}

#[test]
fn commands_to_run_by_hand_are_known_to_the_binary() {
    let by_hand = all_blocks().into_iter().filter(|block| block.is_marked("by-hand"));
    for block in by_hand {
        for line in block.text.lines().filter(|line| line.starts_with("summarizer ")) {
            assert_eq!(misuse(line), None, "{}", block.place());
        }
    }
    assert_eq!(misuse("summarizer --home x digest build --all"), None);
    assert!(misuse("summarizer digest build --every").is_some());
    assert!(misuse("summarizer diggest").is_some());
}

#[test]
fn json_blocks_are_json() {
    for block in all_blocks().iter().filter(|block| block.language == "json") {
        let parsed: Result<Value, _> = serde_json::from_str(&block.text);
        assert!(parsed.is_ok(), "{}: {}", block.place(), parsed.unwrap_err());
    }
}

#[test]
fn every_block_works_as_a_reader_types_it() {
    // A page that continues another one joins its list.
    let mut lists: Vec<Vec<String>> = Vec::new();
    for page in pages() {
        let before = CONTINUES.iter().find(|(name, _)| *name == page).map(|(_, before)| *before);
        match lists.iter_mut().find(|list| list.last().map(String::as_str) == before) {
            Some(list) if before.is_some() => list.push(page),
            _ => {
                assert!(before.is_none(), "{page} comes before the page that it continues");
                lists.push(vec![page]);
            }
        }
    }
    let left = Mutex::new(lists.into_iter());
    let ran: BTreeMap<String, usize> = std::thread::scope(|scope| {
        let play = || {
            let mut ran = Vec::new();
            loop {
                let next = left.lock().unwrap().next();
                let Some(list) = next else { return ran };
                let mut folder = Folder::new();
                for page in &list {
                    blocks(page, &read(page)).iter().for_each(|block| folder.play(block));
                }
                every_line_ended(folder.dir.path());
                ran.push((list[0].clone(), folder.ran));
            }
        };
        let threads: Vec<_> = (0..PAGES_AT_ONCE).map(|_| scope.spawn(play)).collect();
        let ended = threads.into_iter().map(|thread| thread.join());
        let failed = |cause| std::panic::resume_unwind(cause);
        ended.flat_map(|ran| ran.unwrap_or_else(failed)).collect()
    });
    for page in [README, "docs/tutorial.md", "docs/how-to/ollama.md", "docs/how-to/producer.md"] {
        assert!(ran.get(page).is_some_and(|&ran| ran >= 3), "{page} ran too few blocks: {ran:?}");
    }
}

const COMMANDS: &str = "docs/commands.md";

/// The commands in the tables of the page of commands, each with its subcommand.
fn documented() -> Vec<String> {
    let page = read(COMMANDS);
    let mut found = Vec::new();
    for row in page.lines().filter(|line| line.starts_with("| `")) {
        let row = row.replace("\\|", "/");
        let mut words = row.split('`').nth(1).unwrap().split_whitespace();
        let command = words.next().unwrap();
        match words.next().filter(|word| word.starts_with(|c: char| c.is_ascii_lowercase())) {
            None => found.push(command.to_owned()),
            Some(subs) => found.extend(subs.split('/').map(|sub| format!("{command} {sub}"))),
        }
    }
    found.sort();
    found.dedup();
    found
}

#[test]
fn the_page_of_commands_lists_those_of_the_binary() {
    let documented: BTreeSet<String> = documented().into_iter().collect();
    for command in &documented {
        let path: Vec<&str> = command.split(' ').collect();
        assert!(help(&path).is_some(), "{COMMANDS} lists `{command}`, the binary does not know it");
    }
    // The commands stand in groups before the options.
    let all = help(&[]).unwrap();
    let groups = all.split("\nOptions:\n").next().unwrap();
    let commands = names(groups);
    assert!(commands.len() > 40, "{all}");
    for command in commands {
        let below = help(&[command]).unwrap();
        let below = below.split_once("\nCommands:\n").map(|(_, list)| list);
        let below = below.and_then(|list| list.split("\n\n").next()).map(names);
        for sub in below.unwrap_or_default().into_iter().filter(|sub| *sub != "help") {
            let name = format!("{command} {sub}");
            assert!(documented.contains(&name), "{COMMANDS} does not list `{name}`");
        }
        let known = documented.iter().any(|name| name.split(' ').next() == Some(command));
        assert!(known, "{COMMANDS} does not list `{command}`");
    }
}

/// The names in a list of commands: the first word of each line that is indented by two.
fn names(list: &str) -> Vec<&str> {
    let lines = list.lines().filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    lines.filter_map(|line| line.split_whitespace().next()).collect()
}

#[test]
fn the_page_of_exit_codes_lists_those_of_the_binary() {
    let help = help(&[]).unwrap();
    let list = help.split("Exit codes:\n").nth(1).expect("--help lists the exit codes");
    let page = read("docs/exit-codes.md");
    let listed = list.lines().filter_map(|line| line.trim().split_once(' '));
    let listed: Vec<(&str, &str)> = listed.map(|(code, means)| (code, means.trim())).collect();
    let rows = page.lines().filter_map(|line| line.strip_prefix("| ")?.split_once(" | "));
    let rows = rows.filter(|(code, _)| code.parse::<u8>().is_ok());
    let rows: Vec<(&str, &str)> =
        rows.map(|(code, rest)| (code, rest.split(" | ").next().unwrap())).collect();
    assert_eq!(rows, listed, "the page and --help say the same, word for word");
    // The last column is what the unit says.
    let dir = tempfile::tempdir().unwrap();
    let mut print = clean("summarizer", dir.path());
    print.args(["--home", "home", "service", "install", "--user", "--print"]);
    let mut init = clean("summarizer", dir.path());
    init.args(["--home", "home", "init"]);
    assert_success(&run(init, "init"), "init", "");
    let unit = String::from_utf8(run(print, "the unit").stdout).unwrap();
    let of = |key: &str| unit.lines().find_map(|line| line.strip_prefix(key)).unwrap().to_owned();
    assert_eq!(of("Restart="), "on-failure");
    let ends = of("RestartPreventExitStatus=");
    let ends: Vec<&str> = ends.split(' ').collect();
    let again = page.lines().filter_map(|line| {
        let cells: Vec<&str> = line.strip_prefix("| ")?.split(" | ").collect();
        let (code, again) = (*cells.first()?, cells.last()?.trim_end_matches(" |"));
        code.parse::<u8>().ok().map(|number| (code, number, again))
    });
    for (code, number, again) in again {
        let restarts = number != 0 && !ends.contains(&code);
        assert_eq!(again, if restarts { "yes" } else { "no" }, "exit code {code}");
    }
}

/// The table of keys is made of the file that `init` writes: a row for each key, its default and its line of help.
#[test]
fn the_page_of_settings_has_a_row_for_each_key() {
    let dir = tempfile::tempdir().unwrap();
    let mut init = clean("summarizer", dir.path());
    init.args(["--home", "home", "init"]);
    assert_success(&run(init, "init"), "init", "");
    let file = fs::read_to_string(dir.path().join("home/summarizer.toml")).unwrap();
    let keys = file.split("\n# A local model").next().unwrap();
    let mut section = String::new();
    let mut wanted = Vec::new();
    for line in keys.lines().filter_map(|line| line.strip_prefix("# ")) {
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            section = format!("{name}.");
        } else if let Some((key, rest)) = line.split_once(" = ")
            && let Some((default, help)) = rest.split_once("  # ")
        {
            wanted.push(format!("| `{section}{key}` | `{default}` | {help} |"));
        }
    }
    assert!(wanted.len() > 40, "{keys}");
    let page = read("docs/configuration.md");
    let (_, table) = page.split_once("\n## Keys\n").unwrap();
    let rows: Vec<&str> = table
        .split("\n## ")
        .next()
        .unwrap()
        .lines()
        .filter(|line| line.starts_with("| `"))
        .collect();
    assert_eq!(
        rows,
        wanted,
        "docs/configuration.md, Keys: write these rows\n{}\n",
        wanted.join("\n")
    );
}
