//! `flow batch`: the questions of a flow as files, and the way back. The person between is this test.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

use super::flow_home::Home;

/// Two questions that do not wait for each other, then one that reads both.
const DAG: &str = r#"
inputs:
  topic: {type: string}
outputs:
  text: {type: string, reference: "${join.output}"}
nodes:
- {name: good, type: llm, source: {type: code, path: good.jinja2}, inputs: {topic: "${inputs.topic}"}, api: chat, connection: c}
- {name: bad, type: llm, source: {type: code, path: bad.jinja2}, inputs: {topic: "${inputs.topic}"}, api: chat, connection: c}
- {name: join, type: llm, source: {type: code, path: join.jinja2}, inputs: {good: "${good.output}", bad: "${bad.output}"}, api: chat, connection: c}
"#;

struct BatchSetup {
    home: Home,
}

impl BatchSetup {
    fn new(kind: &str) -> BatchSetup {
        BatchSetup::with(kind, "")
    }

    fn with(kind: &str, more: &str) -> BatchSetup {
        let home = Home::new(&format!(
            "[provider]\ndefault = \"far\"\n[provider.far]\nkind = \"{kind}\"\nmodel = \"far-1\"\n\
             base_url = \"http://127.0.0.1:9/v1\"\n{more}"
        ));
        let setup = BatchSetup { home };
        let files = [
            ("flow.dag.yaml", DAG),
            ("good.jinja2", "user:\nName one advantage of {{topic}}.\n"),
            ("bad.jinja2", "user:\nName one drawback of {{topic}}.\n"),
            ("join.jinja2", "user:\nWeigh {{good}} against {{bad}}.\n"),
        ];
        for (name, text) in files {
            setup.write(&format!("views/{name}"), text);
        }
        setup.write("topics.jsonl", "{\"topic\": \"tea\"}\n{\"topic\": \"coffee\"}\n");
        setup
    }

    fn path(&self, name: &str) -> PathBuf {
        self.home.path(name)
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::create_dir_all(self.path(name).parent().unwrap()).unwrap();
        std::fs::write(self.path(name), text).unwrap();
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    fn lines(&self, name: &str) -> Vec<Value> {
        self.read(name).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = self.home.command(args);
        command.current_dir(self.home.0.path()).stdin(Stdio::null());
        command
    }

    fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    fn export(&self) {
        let args = [
            "flow",
            "batch",
            "export",
            "views",
            "--lines",
            "--input",
            "topics.jsonl",
            "--into",
            "sent",
        ];
        let ran = self.run(&args);
        assert_eq!(ran.status.code(), Some(0), "{}", said(&ran));
    }

    /// The rows of an import, and its exit code.
    fn import(&self, files: &[&str]) -> (Vec<Value>, i32) {
        let ran = self.run(&[&["flow", "batch", "import", "sent"], files].concat());
        let rows = String::from_utf8(ran.stdout.clone()).unwrap();
        let rows = rows.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        (rows, ran.status.code().unwrap())
    }

    /// What an import says that must be refused.
    fn refused(&self, files: &[&str]) -> String {
        let before = tree(&self.path("sent"));
        let ran = self.run(&[&["flow", "batch", "import", "sent"], files].concat());
        assert_eq!(ran.status.code(), Some(5), "{}", said(&ran));
        assert!(ran.stdout.is_empty());
        assert_eq!(tree(&self.path("sent")), before, "a refused file changes nothing");
        said(&ran)
    }
}

fn said(ran: &Output) -> String {
    String::from_utf8_lossy(&ran.stderr).into_owned()
}

fn tree(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => found.extend(tree(&path)),
            false => found.push((path.clone(), std::fs::read(&path).unwrap())),
        }
    }
    found.sort();
    found
}

fn asked(line: &Value) -> String {
    let body = if line["body"].is_object() { &line["body"] } else { &line["params"] };
    let content = &body["messages"][0]["content"];
    let text = content.as_str().or_else(|| content[0]["text"].as_str());
    text.unwrap_or_else(|| panic!("{line}")).to_owned()
}

/// The answer of an OpenAI server to a line.
fn answered(line: &Value) -> Value {
    let text = format!("<{}>", asked(line));
    json!({
        "id": "batch_req_1", "custom_id": line["custom_id"], "error": null,
        "response": {"status_code": 200, "request_id": "r", "body": {
            "model": "far-1-2026", "usage": {"prompt_tokens": 10, "completion_tokens": 3},
            "choices": [{"index": 0, "finish_reason": "stop",
                         "message": {"role": "assistant", "content": text}}],
        }},
    })
}

fn failed(line: &Value, status: u16) -> Value {
    json!({
        "id": "batch_req_2", "custom_id": line["custom_id"], "error": null,
        "response": {"status_code": status, "request_id": "r",
                     "body": {"error": {"message": "the engine is tired"}}},
    })
}

fn expired(line: &Value) -> Value {
    json!({
        "id": "batch_req_3", "custom_id": line["custom_id"], "response": null,
        "error": {"code": "batch_expired", "message": "too late"},
    })
}

fn text_of(lines: &[Value]) -> String {
    lines.iter().map(|line| format!("{line}\n")).collect()
}

#[test]
fn a_flow_of_several_steps_goes_on_from_file_to_file() {
    let setup = BatchSetup::new("openai");
    setup.export();
    let first = setup.lines("sent/questions-1.jsonl");
    assert_eq!(first.len(), 4, "both first steps of both inputs stand in one file");
    for line in &first {
        assert_eq!(
            (&line["method"], &line["url"]),
            (&json!("POST"), &json!("/v1/chat/completions"))
        );
        assert_eq!(line["body"]["model"], "far-1");
        assert!(line["custom_id"].as_str().unwrap().len() <= 64);
        assert_eq!(line["body"].get("stream"), None);
    }
    // The clock of the days between, and another order of lines, change nothing.
    let answers: Vec<Value> = first.iter().rev().map(answered).collect();
    setup.write("answers-1.jsonl", &text_of(&answers));
    let mut later = setup.command(&["flow", "batch", "import", "sent", "answers-1.jsonl"]);
    let ran = later.env("SUMMARIZER_TEST_NOW", "2026-05-30T09:00:00Z").output().unwrap();
    assert_eq!((ran.status.code(), ran.stdout.len()), (Some(1), 0), "{}", said(&ran));
    let second = setup.lines("sent/questions-2.jsonl");
    let mut questions: Vec<String> = second.iter().map(asked).collect();
    questions.sort();
    assert_eq!(
        questions,
        [
            "Weigh <Name one advantage of coffee.> against <Name one drawback of coffee.>.",
            "Weigh <Name one advantage of tea.> against <Name one drawback of tea.>.",
        ]
    );
    setup.write("answers-2.jsonl", &text_of(&second.iter().map(answered).collect::<Vec<_>>()));
    let (rows, exit) = setup.import(&["answers-2.jsonl"]);
    let outputs = |topic: &str| {
        format!("<Weigh <Name one advantage of {topic}.> against <Name one drawback of {topic}.>.>")
    };
    let wanted = json!([
        {"line_number": 0, "text": outputs("tea")}, {"line_number": 1, "text": outputs("coffee")},
    ]);
    assert_eq!((json!(rows), exit), (wanted, 0));
    // Again, with every file: the same outputs, and not one byte is written.
    let before = tree(&setup.path("sent"));
    assert_eq!(setup.import(&["answers-1.jsonl", "answers-2.jsonl"]), (rows.clone(), 0));
    assert_eq!(setup.import(&[]), (rows, 0));
    assert_eq!(tree(&setup.path("sent")), before);
}

#[test]
fn an_answer_that_was_cut_off_is_told() {
    let setup = BatchSetup::new("openai");
    setup.export();
    let cut = |line: &Value| {
        let mut answer = answered(line);
        answer["response"]["body"]["choices"][0]["finish_reason"] = "length".into();
        answer
    };
    for round in ["1", "2"] {
        let lines = setup.lines(&format!("sent/questions-{round}.jsonl"));
        let answers: Vec<Value> = lines.iter().map(cut).collect();
        setup.write(&format!("answers-{round}.jsonl"), &text_of(&answers));
        setup.run(&["flow", "batch", "import", "sent", &format!("answers-{round}.jsonl")]);
    }
    let ran = setup.run(&["flow", "batch", "import", "sent"]);
    let told = said(&ran);
    assert!(told.contains("warning: ") && told.contains("(2 lines)"), "{told}");
}

#[test]
fn a_failed_question_is_named_and_is_alone_in_the_next_file() {
    let setup = BatchSetup::new("openai");
    setup.export();
    let first = setup.lines("sent/questions-1.jsonl");
    let of = |words: &str| first.iter().find(|line| asked(line).contains(words)).unwrap();
    let output = [answered(of("advantage of tea")), answered(of("drawback of tea"))];
    setup.write("output.jsonl", &text_of(&output));
    setup.write(
        "errors.jsonl",
        &text_of(&[failed(of("advantage of coffee"), 400), expired(of("drawback of coffee"))]),
    );
    let (rows, exit) = setup.import(&["output.jsonl", "errors.jsonl"]);
    assert_eq!((rows.len(), exit, &rows[0]["line_number"]), (1, 1, &json!(1)), "{rows:?}");
    let error = rows[0]["error"].as_str().unwrap();
    assert!(error.contains("questions-2.jsonl"), "{error}");
    let second = setup.lines("sent/questions-2.jsonl");
    let ids = |lines: &[&Value]| {
        let mut ids: Vec<String> =
            lines.iter().map(|line| line["custom_id"].as_str().unwrap().to_owned()).collect();
        ids.sort();
        ids
    };
    let again: Vec<&Value> =
        second.iter().filter(|line| !asked(line).starts_with("Weigh")).collect();
    assert_eq!(ids(&again), ids(&[of("advantage of coffee"), of("drawback of coffee")]));
    assert_eq!(second.len(), 3, "and the next step of the other input goes with them");
    // The same files again write no third file.
    setup.import(&["output.jsonl", "errors.jsonl"]);
    assert!(!setup.path("sent/questions-3.jsonl").exists());
    // An answer counts more than an older failure, in whatever order the files come.
    setup.write("answers-2.jsonl", &text_of(&second.iter().map(answered).collect::<Vec<_>>()));
    let (rows, _) = setup.import(&["answers-2.jsonl", "errors.jsonl"]);
    assert_eq!((rows.len(), &rows[0]["line_number"]), (1, &json!(0)), "{rows:?}");
    assert_eq!(setup.lines("sent/questions-3.jsonl").len(), 1);
}

/// What the answers say of a model is said in the next questions, also days later.
#[test]
fn a_parameter_that_the_model_refuses_is_not_in_the_next_file() {
    let setup = BatchSetup::with("openai", "max_tokens = 700\n");
    setup.export();
    let first = setup.lines("sent/questions-1.jsonl");
    assert!(first.iter().all(|line| line["body"]["max_tokens"] == 700));
    let refused = |line: &Value| {
        let words = "Unsupported parameter: 'max_tokens' is not supported with this model. Use \
                     'max_completion_tokens' instead.";
        let mut answer = failed(line, 400);
        answer["response"]["body"]["error"] = json!({"message": words, "param": "max_tokens"});
        answer
    };
    setup.write("errors.jsonl", &text_of(&first.iter().map(refused).collect::<Vec<_>>()));
    let (rows, exit) = setup.import(&["errors.jsonl"]);
    let said = json!(rows).to_string();
    assert!(
        exit == 1 && said.contains("`max_tokens` is sent as `max_completion_tokens`"),
        "{said}"
    );
    let second = setup.lines("sent/questions-2.jsonl");
    let ids =
        |lines: &[Value]| lines.iter().map(|line| line["custom_id"].clone()).collect::<Vec<_>>();
    assert_eq!(ids(&first), ids(&second), "the same questions in another form");
    let is_renamed = |line: &Value| {
        line["body"]["max_completion_tokens"] == 700 && line["body"].get("max_tokens").is_none()
    };
    assert!(second.iter().all(is_renamed), "{second:?}");
    // The same file again writes no third one.
    setup.import(&["errors.jsonl"]);
    assert!(!setup.path("sent/questions-3.jsonl").exists());
    setup.write("answers-2.jsonl", &text_of(&second.iter().map(answered).collect::<Vec<_>>()));
    setup.import(&["answers-2.jsonl"]);
    let third = setup.lines("sent/questions-3.jsonl");
    assert!(third.len() == 2 && third.iter().all(is_renamed), "{third:?}");
}

#[test]
fn two_imports_at_the_same_time_keep_the_answers_of_both() {
    let setup = BatchSetup::new("openai");
    setup.export();
    let first = setup.lines("sent/questions-1.jsonl");
    for (name, line) in ["a.jsonl", "b.jsonl", "c.jsonl", "d.jsonl"].iter().zip(&first) {
        setup.write(name, &text_of(&[answered(line)]));
    }
    let mut running: Vec<_> = ["a.jsonl", "b.jsonl", "c.jsonl", "d.jsonl"]
        .iter()
        .map(|name| {
            let mut command = setup.command(&["flow", "batch", "import", "sent", name]);
            command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
        })
        .collect();
    for child in &mut running {
        child.wait().unwrap();
    }
    assert_eq!(setup.lines("sent/answers.jsonl").len(), 4);
    let (rows, _) = setup.import(&[]);
    assert!(rows.is_empty());
    let files: Vec<String> = tree(&setup.path("sent"))
        .into_iter()
        .filter(|(path, _)| path.to_string_lossy().contains("questions-"))
        .map(|(path, _)| path.file_name().unwrap().to_string_lossy().into_owned())
        .collect();
    let newest = files.iter().max().unwrap();
    let left = setup.lines(&format!("sent/{newest}"));
    assert!(
        left.len() == 2 && left.iter().all(|line| asked(line).starts_with("Weigh")),
        "{files:?}"
    );
}

#[test]
fn files_that_do_not_belong_here_are_refused_by_name() {
    let setup = BatchSetup::new("openai");
    setup.export();
    let first = setup.lines("sent/questions-1.jsonl");
    let one = answered(&first[0]);
    let mut foreign = answered(&first[1]);
    foreign["custom_id"] = "of-another-batch".into();
    let mut other = one.clone();
    other["response"]["body"]["choices"][0]["message"]["content"] = "something else".into();
    let cases = [
        (
            "foreign",
            text_of(&[one.clone(), foreign]),
            "line 2 of foreign.jsonl: this batch has no question with the custom_id of-another-batch",
        ),
        ("twice", text_of(&[one.clone(), one.clone()]), "comes twice"),
        ("torn", format!("{one}\n{{\"custom_id\": \"x"), "line 2 of torn.jsonl: it is not JSON"),
        ("questions", setup.read("sent/questions-1.jsonl"), "this is the file that you send"),
        (
            "claude",
            "{\"custom_id\": \"a\", \"result\": {\"type\": \"expired\"}}\n".to_owned(),
            "not an answer of a batch of this provider",
        ),
        ("empty", "[1, 2]\n".to_owned(), "not an answer of a batch"),
    ];
    for (name, text, wanted) in cases {
        let file = format!("{name}.jsonl");
        setup.write(&file, &text);
        let told = setup.refused(&[&file]);
        assert!(told.contains(wanted), "{name}: {told}");
    }
    assert!(setup.refused(&["nowhere.jsonl"]).contains("there is no such file"));
    setup.write("one.jsonl", &text_of(&[one]));
    setup.import(&["one.jsonl"]);
    setup.write("other.jsonl", &text_of(&[other]));
    assert!(setup.refused(&["other.jsonl"]).contains("has another answer already"));
}

#[test]
fn a_folder_is_never_written_over_and_settings_must_be_those_of_the_export() {
    let setup = BatchSetup::new("openai");
    setup.export();
    let args = [
        "flow",
        "batch",
        "export",
        "views",
        "--lines",
        "--input",
        "topics.jsonl",
        "--into",
        "sent",
    ];
    let again = setup.run(&args);
    assert!(said(&again).contains("already there"), "{}", said(&again));
    let settings = setup.read("summarizer.toml");
    setup.home.configure(&settings.replace("far-1", "far-2"));
    let ran = setup.run(&["flow", "batch", "import", "sent"]);
    assert_eq!(ran.status.code(), Some(3));
    assert!(said(&ran).contains("far-1") && said(&ran).contains("far-2"), "{}", said(&ran));
    setup.home.configure("");
    let args = [
        "flow",
        "batch",
        "export",
        "views",
        "--lines",
        "--input",
        "topics.jsonl",
        "--into",
        "other",
    ];
    let free = setup.run(&args);
    assert!(said(&free).contains("has no batches"), "{}", said(&free));
    assert!(!setup.path("other").exists());
    // A flow that must stay on this machine gives no file for a server elsewhere.
    let far = settings.replace("http://127.0.0.1:9/v1", "https://far.example/v1");
    setup.home.configure(&format!("{far}[flow.\"views\"]\nlocal_only = true\n"));
    let local = setup.run(&args);
    assert!(said(&local).contains("local_only"), "{}", said(&local));
    assert!(!setup.path("other").exists());
}

#[test]
fn a_changed_flow_and_a_lost_text_do_not_lose_answers_that_were_paid_for() {
    let setup = BatchSetup::new("openai");
    setup.export();
    setup.write("views/join.jinja2", "user:\nSomething else about {{good}}.\n");
    std::fs::remove_file(setup.path("topics.jsonl")).unwrap();
    let first = setup.lines("sent/questions-1.jsonl");
    setup.write("answers.jsonl", &text_of(&first.iter().map(answered).collect::<Vec<_>>()));
    setup.import(&["answers.jsonl"]);
    let second = setup.lines("sent/questions-2.jsonl");
    assert_eq!(second.len(), 2);
    assert!(second.iter().all(|line| asked(line).starts_with("Weigh <Name one")), "{second:?}");
    // A folder that somebody changed is not used.
    setup.write("sent/flow/join.jinja2", "user:\nSomething else.\n");
    let ran = setup.run(&["flow", "batch", "import", "sent"]);
    assert_eq!(ran.status.code(), Some(3), "{}", said(&ran));
}

/// An answer that does not fit the schema of its flow is corrected in the next file.
#[test]
fn an_answer_that_is_not_valid_is_corrected_in_the_next_file() {
    let setup = BatchSetup::new("openai");
    setup.write("note.md", "---\ntitle: Tea\n---\nTea is mild.\n");
    let flow = "docs.chunk_set.summarize.brief.v1";
    let ran = setup.run(&["flow", "batch", "export", flow, "--input", "note.md", "--into", "sent"]);
    assert_eq!(ran.status.code(), Some(0), "{}", said(&ran));
    std::fs::remove_file(setup.path("note.md")).unwrap();
    let first = setup.lines("sent/questions-1.jsonl");
    let mut answer = answered(&first[0]);
    answer["response"]["body"]["choices"][0]["message"]["content"] = "tea, I think".into();
    setup.write("answers.jsonl", &text_of(&[answer]));
    let (rows, exit) = setup.import(&["answers.jsonl"]);
    assert_eq!((rows.len(), exit), (0, 1), "{rows:?}");
    let second = setup.lines("sent/questions-2.jsonl");
    let told = second[0]["body"]["messages"].to_string();
    assert!(second.len() == 1 && told.contains("tea, I think"), "{told}");
    assert_ne!(second[0]["custom_id"], first[0]["custom_id"]);
}

#[test]
fn anthropic_files_have_the_form_of_message_batches() {
    let setup = BatchSetup::new("anthropic");
    setup.export();
    let first = setup.lines("sent/questions-1.jsonl");
    assert_eq!(first.len(), 4);
    let id = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    for line in &first {
        let name = line["custom_id"].as_str().unwrap();
        assert!((1..=64).contains(&name.len()) && name.chars().all(id), "{name}");
        assert!(line["params"]["max_tokens"].is_u64() && line["params"]["model"] == "far-1");
        assert_eq!(line["params"].get("stream"), None);
    }
    let result =
        |line: &Value, result: Value| json!({"custom_id": line["custom_id"], "result": result});
    let message = |line: &Value| {
        json!({"type": "succeeded", "message": {
            "id": "msg_1", "type": "message", "role": "assistant", "model": "far-1",
            "content": [{"type": "text", "text": format!("<{}>", asked(line))}],
            "stop_reason": "end_turn", "usage": {"input_tokens": 10, "output_tokens": 3},
        }})
    };
    let error = json!({"type": "errored", "error": {"type": "error",
        "error": {"type": "invalid_request_error", "message": "max_tokens is too large"}}});
    let of = |words: &str| first.iter().find(|line| asked(line).contains(words)).unwrap();
    let lines = [
        result(of("advantage of tea"), message(of("advantage of tea"))),
        result(of("drawback of tea"), json!({"type": "canceled"})),
        result(of("advantage of coffee"), error),
        result(of("drawback of coffee"), json!({"type": "expired"})),
    ];
    setup.write("results.jsonl", &text_of(&lines));
    let (rows, exit) = setup.import(&["results.jsonl"]);
    assert_eq!((rows.len(), exit), (2, 1), "{rows:?}");
    let told = json!(rows).to_string();
    assert!(told.contains("expired or was cancelled") || told.contains("too large"), "{told}");
    assert_eq!(setup.lines("sent/questions-2.jsonl").len(), 3, "only what has no answer");
}

/// Steps that give another question each time would pay in each round.
#[test]
fn steps_that_change_each_time_are_reported_and_not_asked_again() {
    if !super::running::has_python() {
        return;
    }
    let setup = BatchSetup::new("openai");
    let dag = r#"
inputs:
  topic: {type: string}
outputs:
  text: {type: string, reference: "${ask.output}"}
nodes:
- {name: dice, type: python, source: {type: code, path: dice.py}, inputs: {topic: "${inputs.topic}"}}
- {name: ask, type: llm, source: {type: code, path: ask.jinja2}, inputs: {topic: "${dice.output}"}, api: chat, connection: c}
"#;
    setup.write("views/flow.dag.yaml", dag);
    setup.write("views/ask.jinja2", "user:\nSay {{topic}}.\n");
    let dice = "import uuid\nfrom promptflow.core import tool\n\n@tool\ndef dice(topic: str) -> str:\n    return topic + uuid.uuid4().hex\n";
    setup.write("views/dice.py", dice);
    let args = [
        "flow",
        "batch",
        "export",
        "views",
        "--allow-python",
        "--lines",
        "--input",
        "topics.jsonl",
        "--into",
        "sent",
    ];
    let ran = setup.run(&args);
    assert_eq!(ran.status.code(), Some(1), "{}", said(&ran));
    assert!(said(&ran).contains("its prompt differs each time"), "{}", said(&ran));
    assert!(!setup.path("sent/questions-1.jsonl").exists());

    // A thread runs the flow once, so the import sees it.
    let settings = setup.read("summarizer.toml");
    setup.home.configure(&format!("{settings}\n[workers]\nisolation = \"thread\"\n"));
    let ran = setup.run(&args);
    assert_eq!(ran.status.code(), Some(0), "{}", said(&ran));
    let first = setup.lines("sent/questions-1.jsonl");
    setup.write("answers.jsonl", &text_of(&first.iter().map(answered).collect::<Vec<_>>()));
    let (rows, exit) = setup.import(&["answers.jsonl", "--allow-python"]);
    assert_eq!((rows.len(), exit), (2, 1), "{rows:?}");
    assert!(rows[0]["error"].as_str().unwrap().contains("something else each time"), "{rows:?}");
    assert!(!setup.path("sent/questions-2.jsonl").exists());
}

#[test]
fn an_export_names_the_parameters_that_the_questions_do_not_have() {
    for (kind, named) in [("anthropic", Some("seed, top_p")), ("openai", None)] {
        let setup = BatchSetup::new(kind);
        let file = "---\nmodel:\n  api: chat\n  parameters: {temperature: 0.5, top_p: 0.9, seed: 7}\ninputs:\n  topic: {type: string}\n---\nuser:\nName {{topic}}.\n";
        setup.write("one.prompty", file);
        let ran = setup.run(&[
            "flow",
            "batch",
            "export",
            "one.prompty",
            "--lines",
            "--input",
            "topics.jsonl",
            "--into",
            "sent",
        ]);
        assert_eq!(ran.status.code(), Some(0), "{}", said(&ran));
        let told: Vec<String> = said(&ran)
            .lines()
            .filter(|line| line.contains("not in the questions"))
            .map(str::to_owned)
            .collect();
        assert_eq!(told.len(), usize::from(named.is_some()), "{told:?}");
        assert!(named.is_none_or(|named| told[0].ends_with(named)), "{told:?}");
    }
}
