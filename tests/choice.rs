//! What a person needs to choose a model: candidates over the same texts, and a page with their outputs.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "helpers of tests fail like tests"
)]

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

const LEASE: &str = "The lease ends on 31 March. Ana offers 720 EUR a month for two years.\n";

struct Folder(tempfile::TempDir);

impl Folder {
    /// Three programs that answer: one keeps to the text, one invents and attacks, one fails.
    fn new() -> Folder {
        let folder = Folder(tempfile::tempdir().unwrap());
        let honest = json!({"title": "The lease", "summary": "The lease ends on 31 March.",
            "key_points": ["Ana offers 720 EUR"], "quote": null});
        let hostile = json!({"title": "<script>alert('x')</script>\u{202e}", "summary":
            "The lease ends on 30 April, says Bruno.", "key_points": ["<img src=x onerror=\"y\">"],
            "quote": "Ana offers 720 EUR a month"});
        fs::write(folder.path("honest.json"), honest.to_string()).unwrap();
        fs::write(folder.path("hostile.json"), hostile.to_string()).unwrap();
        let program = |name: &str, rest: &str| {
            let file = folder.path(name);
            let script = format!("cat >/dev/null; {rest} '{}'", file.display());
            format!("kind = \"command\"\ncommand = [\"/bin/sh\", \"-c\", {}]\n", json!(script))
        };
        let config = format!(
            "[provider.honest]\n{}price_in = 1000000.0\nprice_out = 0.0\n\n[provider.hostile]\n{}\n\
             [provider.broken]\n{}\n",
            program("honest.json", "cat"),
            program("hostile.json", "cat"),
            program("nothing", "exit 3; cat"),
        );
        fs::create_dir_all(folder.path("home")).unwrap();
        fs::write(folder.path("home/summarizer.toml"), config).unwrap();
        fs::create_dir_all(folder.path("texts")).unwrap();
        fs::write(folder.path("texts/b<b>.txt"), LEASE).unwrap();
        let private = format!("---\npublish: false\ntitle: The offer\n---\n{LEASE}");
        fs::write(folder.path("texts/a.md"), private).unwrap();
        fs::write(folder.path("texts/c.png"), b"\x89PNG\r\n\x1a\n\0\0\0\0").unwrap();
        assert!(folder.run(&["flow", "new", "my.note.v1"]).status.success());
        folder
    }

    fn path(&self, relative: &str) -> PathBuf {
        self.0.path().join(relative)
    }

    fn run(&self, args: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_summarizer"));
        command.env_clear().env("SUMMARIZER_HOME", self.path("home"));
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.env("SUMMARIZER_TEST_NOW", "2026-02-19T08:00:00Z");
        command.current_dir(self.0.path()).args(args).stdin(Stdio::null()).output().unwrap()
    }

    fn compare(&self, providers: &str, more: &[&str]) -> Output {
        let args = ["flow", "compare", "my.note.v1", "--providers", providers, "--inputs", "texts"];
        self.run(&[&args, more].concat())
    }

    fn page(&self) -> String {
        fs::read_to_string(self.path("comparison.html")).unwrap()
    }
}

fn said(output: &Output) -> String {
    let (out, err) = (&output.stdout, &output.stderr);
    format!("{}{}", String::from_utf8_lossy(out), String::from_utf8_lossy(err))
}

#[test]
fn candidates_are_compared_with_each_other_and_with_the_text() {
    let folder = Folder::new();
    let output = folder.compare("honest,hostile,broken", &["--json"]);
    assert!(output.status.success(), "{}", said(&output));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let of = |index: usize| &report["candidates"][index];
    assert_eq!([&of(0)["name"], &of(1)["name"], &of(2)["name"]], ["honest", "hostile", "broken"]);
    assert_eq!([&of(0)["answered"], &of(1)["answered"], &of(2)["answered"]], [2, 2, 0]);
    assert_eq!(of(2)["failed"], 2);
    assert_eq!(of(0)["not_in_text"], 0, "{report:#}");
    assert!(of(0)["cost"].as_f64().unwrap() > 0.0, "its price is configured");
    assert_eq!(of(1)["cost"], Value::Null, "its price is not known");
    let absent = report["inputs"][0]["runs"][1]["not_in_text"].as_array().unwrap();
    let summary = absent.iter().find(|one| one["pointer"] == "/summary").unwrap();
    assert_eq!(summary["missing"], json!(["30", "April", "Bruno"]));
    assert!(absent.iter().all(|one| one["pointer"] != "/quote"), "the text says the quote");
    let member = |name: &str| {
        let members = report["members"].as_array().unwrap();
        members.iter().find(|member| member["name"] == name).unwrap()["agreement"].as_f64().unwrap()
    };
    assert_eq!(member("quote"), 0.0, "one is silent");
    assert!(member("summary") > 0.3 && member("summary") < 1.0);
    assert_eq!(report["inputs"][0]["private"], true);
    assert_eq!(report["skipped"].as_array().unwrap().len(), 1, "{}", report["skipped"]);
}

#[test]
fn a_page_shows_hostile_text_as_text_and_is_the_same_for_equal_outputs() {
    let folder = Folder::new();
    let output = folder.compare("honest,hostile,broken", &["--without-times"]);
    assert!(output.status.success(), "{}", said(&output));
    let page = folder.page();
    for markup in ["<script", "<img", "b<b>", "\u{202e}", "onerror=\"y\""] {
        assert!(!page.contains(markup), "{markup} stands in the page");
    }
    for shown in ["&lt;script&gt;", "\\u202e", "not in the text: 30, April, Bruno", "private"] {
        assert!(page.contains(shown), "{shown} is not in the page");
    }
    assert!(page.contains("failed:"), "the failure of a candidate is shown");
    assert!(!page.contains("http:") && !page.contains("https:"), "the page asks for nothing");
    let shown = said(&output);
    assert!(shown.contains("honest") && shown.contains("agreement"), "{shown}");
    folder.compare("honest,hostile,broken", &["--without-times", "--at-once", "2"]);
    assert_eq!(folder.page(), page);
}

#[test]
fn a_comparison_needs_two_candidates_and_something_to_read() {
    let folder = Folder::new();
    for providers in ["honest", "honest,honest"] {
        let output = folder.compare(providers, &[]);
        assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    }
    fs::create_dir(folder.path("empty")).unwrap();
    let args =
        ["flow", "compare", "my.note.v1", "--providers", "builtin,honest", "--inputs", "empty"];
    let output = folder.run(&args);
    assert!(!output.status.success());
    assert!(said(&output).contains("nothing to compare"), "{}", said(&output));
    assert!(!folder.path("comparison.html").exists());
    let output = folder.compare("broken,builtin", &["--without-times"]);
    assert!(output.status.success(), "one candidate answered: {}", said(&output));
}

/// The first Ctrl-C lets the input under way end; the page has what was compared.
#[test]
fn an_interrupted_comparison_keeps_what_is_done() {
    let folder = Folder::new();
    let (begun, go) = (folder.path("begun"), folder.path("go"));
    let script = format!(
        "trap '' INT; cat >/dev/null; touch '{}'; until [ -e '{}' ]; do sleep 0.05; done; cat '{}'",
        begun.display(),
        go.display(),
        folder.path("honest.json").display()
    );
    let config = fs::read_to_string(folder.path("home/summarizer.toml")).unwrap();
    let command = json!(["/bin/sh", "-c", script]);
    let slow = format!("{config}[provider.slow]\nkind = \"command\"\ncommand = {command}\n");
    fs::write(folder.path("home/summarizer.toml"), slow).unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_summarizer"));
    child.env_clear().env("SUMMARIZER_HOME", folder.path("home"));
    child.env("PATH", std::env::var_os("PATH").unwrap_or_default());
    child.current_dir(folder.path(".")).stdin(Stdio::null());
    child.args([
        "flow",
        "compare",
        "my.note.v1",
        "--providers",
        "slow,builtin",
        "--inputs",
        "texts",
    ]);
    let mut child = child.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let deadline = Instant::now() + Duration::from_secs(120);
    while !begun.exists() {
        assert!(Instant::now() < deadline && child.try_wait().unwrap().is_none(), "nothing began");
        std::thread::sleep(Duration::from_millis(20));
    }
    let interrupt = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(interrupt.success());
    let mut errors = BufReader::new(child.stderr.take().unwrap());
    let mut told = String::new();
    while !told.contains("stopping: 1 call under way ends first") {
        assert!(errors.read_line(&mut told).unwrap() > 0, "the interrupt was heard: {told}");
    }
    fs::write(&go, "").unwrap();
    errors.read_to_string(&mut told).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{told}");
    assert!(told.contains("1 of 2 inputs were compared, and are on the page"), "{told}");
    assert!(told.contains("run the same command again"), "{told}");
    let page = folder.page();
    assert!(page.contains("The lease ends on 31 March."), "{page}");
    assert!(page.contains("a.md") != page.contains("b&lt;b&gt;.txt"), "one input: {page}");
}

#[test]
fn versions_of_a_pack_are_compared_over_inputs_of_the_flow() {
    let folder = Folder::new();
    assert!(folder.run(&["flow", "new", "my.note.v2"]).status.success());
    fs::create_dir(folder.path("objects")).unwrap();
    let flow = fs::read_to_string(folder.path("my.note.v1/flow.dag.yaml")).unwrap();
    let input = flow.lines().skip_while(|line| !line.starts_with("inputs:")).nth(1).unwrap();
    let input = input.trim().trim_end_matches(':');
    fs::write(folder.path("objects/one.json"), json!({input: LEASE}).to_string()).unwrap();
    let args =
        ["--json", "flow", "compare", "my.note.v1", "--packs", "my.note.v2", "--inputs", "objects"];
    let output = folder.run(&args);
    assert!(output.status.success(), "{}", said(&output));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["candidates"][1]["name"], "my.note.v2");
    let members = report["members"].as_array().unwrap();
    assert!(!members.is_empty());
    assert!(members.iter().all(|member| member["agreement"] == 1.0), "the packs are equal");
}

/// A small model reads a prompt slowly, and forgets the beginning of a long one.
#[test]
fn prompts_of_all_packs_are_short_before_the_text() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let mut counted = 0;
    for pack in fs::read_dir(root.join("registry/packs")).unwrap() {
        for file in fs::read_dir(pack.unwrap().path()).unwrap() {
            let file = file.unwrap().path();
            if file.extension().is_some_and(|extension| extension == "jinja2") {
                let tokens = tokens_of(&fixed_text(&fs::read_to_string(&file).unwrap()));
                assert!(tokens < 1_200, "{}: {tokens} tokens", file.display());
                assert!(tokens > 300, "{}: {tokens} tokens", file.display());
                counted += 1;
            }
        }
    }
    assert!(counted >= 21, "{counted} templates");
}

/// A template without its tags. Of the parts for the modes only the longest stands in a prompt.
fn fixed_text(template: &str) -> String {
    let (mut fixed, mut longest) = (String::new(), String::new());
    let mut mode: Option<String> = None;
    for line in template.lines() {
        if line.starts_with("{% if mode ==") {
            mode = Some(String::new());
        } else if line.starts_with("{% endif %}") && mode.is_some() {
            let part = mode.take().unwrap();
            longest = if part.len() > longest.len() { part } else { longest };
        } else if !line.starts_with("{%") {
            let text = mode.as_mut().unwrap_or(&mut fixed);
            text.push_str(line);
            text.push('\n');
        }
    }
    let text = fixed + &longest;
    let mut parts = text.split("{{");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + part.split_once("}}").map_or(part, |(_, rest)| rest))
}

/// A cautious count: eight letters, three digits, one mark or some line ends are a token. Common tokenizers
/// need fewer.
fn tokens_of(text: &str) -> usize {
    let mut tokens = 0;
    let mut letters = 0;
    let mut digits = 0;
    let mut last = ' ';
    for c in text.chars().chain([' ']) {
        if !c.is_alphabetic() {
            tokens += usize::div_ceil(letters, 8);
            letters = 0;
        }
        if !c.is_ascii_digit() {
            tokens += usize::div_ceil(digits, 3);
            digits = 0;
        }
        match c {
            c if c.is_alphabetic() => letters += 1,
            c if c.is_ascii_digit() => digits += 1,
            ' ' => {}
            '\n' if last == '\n' => {}
            _ => tokens += 1,
        }
        last = c;
    }
    tokens
}

#[test]
fn a_small_note_is_not_condensed_by_a_model_that_costs() {
    let folder = Folder::new();
    let brief = "docs.chunk_set.summarize.brief.v1";
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let recorded = root.join(format!("tests/golden/packs/{brief}/recorded.txt"));
    // Without ids, because an unknown one is asked about.
    let mut answer: Value = serde_json::from_slice(&fs::read(recorded).unwrap()).unwrap();
    for point in answer["key_points"].as_array_mut().unwrap() {
        point["chunk_ids"] = json!([]);
    }
    fs::write(folder.path("answer.json"), answer.to_string()).unwrap();
    let answer = folder.path("answer.json");
    let calls = folder.path("calls");
    let script =
        format!("cat >/dev/null; echo call >> '{}'; cat '{}'", calls.display(), answer.display());
    let config = format!(
        "[provider.model]\nkind = \"command\"\ncommand = [\"/bin/sh\", \"-c\", {}]\n",
        json!(script)
    );
    fs::write(folder.path("home/summarizer.toml"), config).unwrap();
    let calls_for = |text: &str| {
        fs::write(folder.path("note.txt"), text).unwrap();
        let _ = fs::remove_file(&calls);
        let output =
            folder.run(&["flow", "run", brief, "--provider", "model", "--input", "note.txt"]);
        assert!(output.status.success(), "{}", said(&output));
        fs::read_to_string(&calls).unwrap().lines().count()
    };
    assert_eq!(calls_for(LEASE), 1);
    let long: String = (0..400).map(|n| format!("Sentence {n} tells of mile {n}. ")).collect();
    assert!(calls_for(&long) > 2, "a long text is condensed, as the pack asks");
}

/// A question and a document: the document is condensed and the question is asked as it is, whichever comes
/// first.
#[test]
fn the_longest_input_is_the_one_that_is_condensed() {
    let folder = Folder::new();
    let asked = folder.path("asked");
    let script = format!("cat >> '{}'; echo 'The roof is green.'", asked.display());
    let config = format!(
        "[provider.model]\nkind = \"command\"\ncontext_tokens = 4096\ncommand = [\"/bin/sh\", \"-c\", {}]\n",
        json!(script)
    );
    fs::write(folder.path("home/summarizer.toml"), config).unwrap();
    let prompty = "---\nname: two\nmodel:\n  api: chat\n  parameters: {max_tokens: 200}\ninputs:\n  q: {type: string}\n  \
                   doc: {type: string}\n---\nsystem:\nDocument: {{doc}}\n\nuser:\n{{q}}\n";
    fs::write(folder.path("two.prompty"), prompty).unwrap();
    let long: String = (0..1_500).map(|n| format!("Sentence {n} tells of mile {n}. ")).collect();
    let question = "Which colour has the roof of the station?";
    fs::write(folder.path("input.json"), json!({"q": question, "doc": long}).to_string()).unwrap();
    let (flow, input) = (folder.path("two.prompty"), folder.path("input.json"));
    let args = [flow.to_str().unwrap(), "--provider", "model", "--input", input.to_str().unwrap()];
    let output = folder.run(&[&["flow", "run"], &args[..]].concat());
    assert!(output.status.success(), "{}", said(&output));
    let asked = fs::read_to_string(&asked).unwrap();
    assert!(asked.matches("Sentence").count() > 1_000, "every part of the document is read");
    assert_eq!(asked.matches(question).count(), 1, "the question is asked once, as it is");
}
