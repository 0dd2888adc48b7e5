//! The README as a test: its shell blocks run in the order a reader would type them, its Python
//! block appends to the queue they made, its settings are accepted, and its list of commands is the
//! binary's.
//!
//! Every `sh` block runs in its own shell, in one fresh directory, with the exports of the blocks
//! before it, and must end with 0. A block of one `cargo` command is compared, not run: a test
//! that builds the project again inside its tests would say nothing new.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail like tests")]
#![allow(clippy::disallowed_methods, reason = "the test writes files as the reader would")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::mpsc;
use std::time::Duration;

/// Longest time one block may take.
const PATIENCE: Duration = Duration::from_secs(600);

/// Exactly these are documented for building and testing.
const CARGO_BLOCKS: &[&str] = &["cargo run --release -- demo", "cargo test"];

/// Commands that are documented ahead of the binary. A block that needs one the binary does not
/// have is left out, loudly; a release has none here.
const AHEAD: &[&str] = &[];

struct Block {
    line: usize,
    language: String,
    text: String,
}

fn readme() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md");
    fs::read_to_string(path).unwrap()
}

fn blocks(page: &str) -> Vec<Block> {
    let mut found = Vec::new();
    let mut open: Option<Block> = None;
    for (index, line) in page.lines().enumerate() {
        match (line.strip_prefix("```"), open.as_mut()) {
            (Some(language), None) => {
                let language = language.trim().to_owned();
                open = Some(Block { line: index + 1, language, text: String::new() });
            }
            (Some(_), Some(_)) => found.extend(open.take()),
            (None, Some(block)) => {
                block.text.push_str(line);
                block.text.push('\n');
            }
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "a block is never closed");
    found
}

fn binary() -> PathBuf {
    PathBuf::from(env!("CARGO_BIN_EXE_summarizer"))
}

fn has_command(path: &str) -> bool {
    let mut command = Command::new(binary());
    command.args(path.split(' ')).arg("--help").stdout(Stdio::null()).stderr(Stdio::null());
    command.status().unwrap().success()
}

/// The first command of a block that is documented ahead and missing.
fn missing_command(text: &str) -> Option<&'static str> {
    let uses = |name: &str| {
        let spelled = format!("summarizer {name}");
        text.lines().any(|line| {
            line.match_indices(&spelled).any(|(at, _)| {
                let after = line[at + spelled.len()..].chars().next();
                after.is_none_or(char::is_whitespace)
            })
        })
    };
    AHEAD.iter().copied().find(|name| uses(name) && !has_command(name))
}

/// A program of the README's reader: nothing of ours in the environment but the binary.
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
    let output = ended.recv_timeout(PATIENCE);
    output.unwrap_or_else(|_| panic!("{what} does not end")).unwrap()
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

fn say(text: &str) {
    // Past the capture of the test harness: what was left out must be seen.
    use std::io::Write as _;
    let _ = writeln!(std::io::stderr().lock(), "README: {text}");
}

#[test]
fn blocks_are_found() {
    let found = blocks("a\n```sh\nls\n```\nb\n```text\nx\n```\n");
    let seen: Vec<_> =
        found.iter().map(|b| (b.line, b.language.as_str(), b.text.as_str())).collect();
    assert_eq!(seen, [(2, "sh", "ls\n"), (6, "text", "x\n")]);
}

#[test]
fn every_block_says_what_it_is() {
    let known = ["sh", "python", "text", "toml"];
    let page = readme();
    for block in blocks(&page) {
        let language = block.language.as_str();
        assert!(known.contains(&language), "README.md:{}: a `{language}` block", block.line);
    }
    let cargo: Vec<String> = blocks(&page)
        .into_iter()
        .filter(|block| block.language == "sh" && block.text.starts_with("cargo"))
        .map(|block| block.text.trim().to_owned())
        .collect();
    assert_eq!(cargo, CARGO_BLOCKS);
}

#[test]
fn what_the_reader_types_works() {
    let dir = tempfile::tempdir().unwrap();
    let mut exports = String::new();
    let mut ran = 0;
    for block in blocks(&readme()) {
        let what = format!("README.md:{}", block.line);
        let output = match block.language.as_str() {
            "sh" if block.text.starts_with("cargo") => continue,
            "sh" => {
                if let Some(missing) = missing_command(&block.text) {
                    say(&format!("{what} NOT RUN: there is no `summarizer {missing}` yet"));
                    continue;
                }
                let script = format!("{exports}{}", block.text);
                for line in block.text.lines().filter(|line| line.starts_with("export ")) {
                    exports.push_str(line);
                    exports.push('\n');
                }
                let mut command = clean("sh", dir.path());
                command.args(["-eu", "-c", &script]);
                run(command, &what)
            }
            "python" => {
                let mut version = clean("python3", dir.path());
                if !version.arg("--version").status().is_ok_and(|status| status.success()) {
                    say(&format!("{what} NOT RUN: there is no python3"));
                    continue;
                }
                let client = Path::new(env!("CARGO_MANIFEST_DIR")).join("clients/python");
                let mut command = clean("python3", dir.path());
                command.env("PYTHONPATH", client).env("PYTHONDONTWRITEBYTECODE", "1");
                command.args(["-c", &block.text]);
                run(command, &what)
            }
            "toml" => {
                fs::write(dir.path().join("example.toml"), &block.text).unwrap();
                let mut command = clean("summarizer", dir.path());
                command.args(["--config", "example.toml", "config"]);
                run(command, &what)
            }
            _ => continue,
        };
        assert_success(&output, &what, &block.text);
        ran += 1;
    }
    assert!(ran >= 4, "only {ran} blocks ran");
    every_line_ended(&dir.path().join("my-home"));
}

/// What the README promises about the lines it had appended.
fn every_line_ended(home: &Path) {
    let acks = fs::read_to_string(home.join("run/ack.jsonl")).unwrap();
    let queue = fs::read_to_string(home.join("run/queue.jsonl")).unwrap();
    assert!(queue.lines().count() >= 3);
    for number in 1..=queue.lines().count() {
        let terminal = acks
            .lines()
            .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
            .filter(|ack| ack["line"] == number)
            .filter(|ack| !matches!(ack["status"].as_str(), Some("accepted" | "failed_transient")))
            .count();
        assert_eq!(terminal, 1, "line {number} of the queue\n{acks}");
    }
}

/// Commands in the table of the README, subcommands spelled out.
fn documented() -> Vec<String> {
    let page = readme();
    let (_, from) = page.split_once("\n## Commands\n").expect("there is a list of commands");
    let table = from.split("\n## ").next().unwrap();
    let mut found = Vec::new();
    for row in table.lines().filter(|line| line.starts_with('|')) {
        let row = row.replace("\\|", "/");
        for span in row.split('`').skip(1).step_by(2) {
            let mut words = span.split_whitespace();
            let Some(command) = words.next() else { continue };
            match words.next().filter(|word| word.starts_with(|c: char| c.is_ascii_lowercase())) {
                None => found.push(command.to_owned()),
                Some(subs) => found.extend(subs.split('/').map(|sub| format!("{command} {sub}"))),
            }
        }
    }
    found.sort();
    found.dedup();
    found
}

#[test]
fn the_commands_are_those_of_the_binary() {
    let documented = documented();
    let is_ahead = |command: &str| {
        AHEAD.iter().any(|ahead| command == *ahead || command.starts_with(&format!("{ahead} ")))
    };
    for command in documented.iter().filter(|command| !has_command(command)) {
        assert!(is_ahead(command), "README.md lists `{command}`, the binary does not know it");
        say(&format!("`summarizer {command}` is documented ahead of the binary"));
    }
    let help = Command::new(binary()).arg("--help").output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    let list = help.split("Commands:\n").nth(1).unwrap().split("\n\n").next().unwrap();
    for line in list.lines() {
        let Some(command) = line.split_whitespace().next().filter(|_| line.starts_with("  "))
        else {
            continue;
        };
        // A wrapped description is indented further.
        if line.starts_with("   ") || command == "help" {
            continue;
        }
        let known = documented.iter().any(|name| name.split(' ').next() == Some(command));
        assert!(known, "the binary knows `{command}`, README.md does not list it");
    }
}

#[test]
fn exit_codes_are_those_of_the_binary() {
    let help = Command::new(binary()).arg("--help").output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    let list = help.split("Exit codes:\n").nth(1).expect("--help lists the exit codes");
    let page = readme();
    let (_, table) = page.split_once("\n## Exit codes\n").unwrap();
    let table = table.split("\n## ").next().unwrap();
    for code in list.lines().filter_map(|line| line.split_whitespace().next()) {
        let row = format!("| {code} |");
        assert!(table.contains(&row), "README.md does not list exit code {code}");
    }
}
