//! Tests README.md and docs/integrating.md: their blocks run in order as a reader would type them,
//! their settings are accepted, and the list of commands is that of the binary.
//!
//! Every `sh` block runs in its own shell, in one new directory, with the exports of the earlier
//! blocks, and must end with 0. A block of one `cargo` command is compared and does not run: the
//! project is built already.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail like tests")]
#![allow(clippy::disallowed_methods, reason = "the test writes files as the reader would")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::mpsc;
use std::time::Duration;

/// A block that takes longer fails.
const BLOCK_TIMEOUT: Duration = Duration::from_secs(600);

/// The README has exactly these `cargo` blocks.
const CARGO_BLOCKS: &[&str] = &["cargo run --release -- demo", "cargo test"];

struct Block {
    page: &'static str,
    line: usize,
    language: String,
    text: String,
}

const README: &str = "README.md";

/// The pages with blocks, in the order in which a reader types them.
const PAGES: &[&str] = &[README, "docs/integrating.md"];

fn read(page: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(page)).unwrap()
}

fn all_blocks() -> Vec<Block> {
    PAGES.iter().flat_map(|page| blocks(page, &read(page))).collect()
}

fn blocks(page: &'static str, text: &str) -> Vec<Block> {
    let mut found = Vec::new();
    let mut open: Option<Block> = None;
    for (index, line) in text.lines().enumerate() {
        match (line.strip_prefix("```"), open.as_mut()) {
            (Some(language), None) => {
                let language = language.trim().to_owned();
                open = Some(Block { page, line: index + 1, language, text: String::new() });
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

fn has_command(path: &str) -> bool {
    let mut command = Command::new(binary());
    command.args(path.split(' ')).arg("--help").stdout(Stdio::null()).stderr(Stdio::null());
    command.status().unwrap().success()
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
    // Written past the capture of the test harness, so that a skipped block is visible.
    use std::io::Write as _;
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

#[test]
fn blocks_are_found() {
    let found = blocks(README, "a\n```sh\nls\n```\nb\n```text\nx\n```\n");
    let seen: Vec<_> =
        found.iter().map(|b| (b.line, b.language.as_str(), b.text.as_str())).collect();
    assert_eq!(seen, [(2, "sh", "ls\n"), (6, "text", "x\n")]);
}

#[test]
fn every_block_has_a_known_language() {
    let known = ["sh", "python", "text", "toml"];
    let all = all_blocks();
    for Block { page, line, language, .. } in &all {
        assert!(known.contains(&language.as_str()), "{page}:{line}: a `{language}` block");
    }
    let cargo: Vec<&str> = all
        .iter()
        .filter(|block| block.language == "sh" && block.text.starts_with("cargo"))
        .map(|block| block.text.trim())
        .collect();
    assert_eq!(cargo, CARGO_BLOCKS);
}

#[test]
fn every_block_works_as_a_reader_types_it() {
    let dir = tempfile::tempdir().unwrap();
    let mut exports = String::new();
    let mut ran = 0;
    for block in all_blocks() {
        let what = format!("{}:{}", block.page, block.line);
        let output = match block.language.as_str() {
            "sh" if block.text.starts_with("cargo") => continue,
            "sh" => {
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
                    report_skipped(&format!("{what} NOT RUN: there is no python3"));
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

/// Each line that the blocks appended has exactly one terminal ack.
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

/// The commands in the table of the README, each with its subcommand.
fn documented() -> Vec<String> {
    let page = read(README);
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
fn the_readme_lists_the_commands_of_the_binary() {
    let documented = documented();
    for command in &documented {
        assert!(has_command(command), "README.md lists `{command}`, the binary does not know it");
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
fn the_readme_lists_the_exit_codes_of_the_binary() {
    let help = Command::new(binary()).arg("--help").output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    let list = help.split("Exit codes:\n").nth(1).expect("--help lists the exit codes");
    let page = read(README);
    let (_, table) = page.split_once("\n## Exit codes\n").unwrap();
    let table = table.split("\n## ").next().unwrap();
    for code in list.lines().filter_map(|line| line.split_whitespace().next()) {
        let row = format!("| {code} |");
        assert!(table.contains(&row), "README.md does not list exit code {code}");
    }
}
