//! Constructs of PromptFlow flows and prompty files, a folder of `tests/corpus/promptflow` for each: what
//! runs, with its output, and what is refused, with the words that name it. To add a construct, add a
//! folder. `tests/tools/compare_promptflow.py` runs the same folders in PromptFlow.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a helper of tests may fail loudly"
)]

#[path = "support/running.rs"]
mod running;
#[path = "support/server.rs"]
mod server;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};
use server::{Act, Server, status};
use summarizer::config::{ProviderConfig, ProviderKind};
use summarizer::flow::{self, LoadedPack, PythonSettings, RunOptions, scaffold};
use summarizer::model::OpenAi;
use summarizer::os::Machine;
use summarizer::registry::PackFiles;

/// What a row must give: `expect.json` of its folder.
enum Gives {
    Outputs(Value),
    /// The run fails with these words.
    Fails(Vec<String>),
    /// The pack does not load, with these words.
    Refused(Vec<String>),
}
use Gives::{Fails, Outputs, Refused};

/// A construct: a folder of the corpus.
struct Row {
    name: String,
    files: PackFiles,
    gives: Gives,
}

fn rows() -> Vec<Row> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/promptflow");
    let mut folders: Vec<PathBuf> =
        std::fs::read_dir(corpus).unwrap().map(|entry| entry.unwrap().path()).collect();
    folders.sort();
    folders.iter().map(|folder| row(folder)).collect()
}

fn row(folder: &Path) -> Row {
    let files = PackFiles::read(&*Machine::real().disk, folder).unwrap();
    let expect =
        files.get("expect.json").unwrap().expect("a folder of the corpus expects something");
    let expect: Value = serde_json::from_slice(expect).unwrap();
    let words = |name: &str| serde_json::from_value(expect[name].clone()).unwrap();
    let gives = match expect.as_object().unwrap().keys().next().unwrap().as_str() {
        "outputs" => Outputs(expect["outputs"].clone()),
        "fails" => Fails(words("fails")),
        "refused" => Refused(words("refused")),
        other => panic!("{other} is nothing that a row gives"),
    };
    let name = folder.file_name().unwrap().to_string_lossy().into_owned();
    Row { name, files, gives }
}

fn load(files: PackFiles) -> Result<LoadedPack, String> {
    let mut record = scaffold::record_for("test.flow.v1", None, "packs/x", &files)
        .map_err(|error| error.to_string())?;
    record.seal(&files, "2026-01-01T00:00:00.000Z".into());
    LoadedPack::load(&record, &files).map_err(|error| error.to_string())
}

#[test]
fn every_construct_runs_or_is_refused_by_its_name() {
    // It repeats what it is asked, and nothing where it is asked for nothing.
    let server = Server::start(vec![Act::Serve(Arc::new(|seen: &server::Seen| {
        let said = seen.body["messages"][0]["content"].as_str().unwrap_or("continued").trim();
        let said = if said == "nothing" { "" } else { said };
        let mut choice = json!({"finish_reason": "stop", "index": 0});
        match seen.path.ends_with("/chat/completions") {
            true => choice["message"] = json!({"role": "assistant", "content": said}),
            false => choice["text"] = said.into(),
        }
        let usage = json!({"prompt_tokens": 11, "completion_tokens": 7});
        let status = if seen.body.is_null() { 404 } else { 200 };
        (status, vec![], json!({"model": "m", "usage": usage, "choices": [choice]}).to_string())
    }))]);
    let config = ProviderConfig {
        kind: ProviderKind::OpenAi,
        base_url: Some(server.base.clone()),
        ..ProviderConfig::default()
    };
    let model = OpenAi::new("loop", &config, None);
    let options = RunOptions { python: Some(PythonSettings::default()), ..RunOptions::default() };
    let mut wrong = Vec::new();
    for Row { name, files, gives } in rows() {
        if files.iter().any(|(name, _)| name.ends_with(".py")) && !running::has_python() {
            continue;
        }
        let ran =
            load(files).map(|pack| flow::run(&pack, Default::default(), &[], &model, &options));
        let holds = |said: &str, words: &[String]| words.iter().all(|word| said.contains(word));
        match (ran, gives) {
            (Ok(Ok(outcome)), Outputs(outputs))
                if Value::Object(outcome.outputs.clone()) == outputs => {}
            (Ok(Err(error)), Fails(words)) if holds(&error.to_string(), &words) => {}
            (Err(said), Refused(words)) if holds(&said, &words) => {}
            (ran, _) => {
                wrong.push(format!("{name}: {:?}", ran.map(|ran| ran.map(|it| it.outputs))))
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn an_installed_promptflow_is_told_to_start_no_service() {
    if !running::has_python() {
        return;
    }
    let flow = "inputs: {}\noutputs:\n  o: {type: string, reference: '${n.output}'}\nnodes:\n- {name: n, type: python, source: {type: code, path: n.py}, inputs: {}}\n";
    let program = "import os\nfrom promptflow.core import tool\n@tool\ndef n():\n    return os.environ['PF_TRACING_SKIP_LOCAL_SETUP']\n";
    let files = [("flow.dag.yaml", flow), ("n.py", program)];
    let files = files.map(|(name, text)| (name.to_owned(), text.as_bytes().to_vec()));
    let options = RunOptions { python: Some(PythonSettings::default()), ..RunOptions::default() };
    let model = OpenAi::new("none", &ProviderConfig::default(), None);
    let pack = load(PackFiles::from_map(files.into()).unwrap()).unwrap();
    let outcome = flow::run(&pack, Default::default(), &[], &model, &options).unwrap();
    assert_eq!(outcome.outputs["o"], "true");
}

/// The marks that `promptflow` leaves on a function, without the rest of the package.
const MARKS_OF_PROMPTFLOW: &str = "import functools, inspect
def trace(func=None):
    if func is None:
        return trace
    if inspect.iscoroutinefunction(func):
        @functools.wraps(func)
        async def wrapped(*args, **kwargs):
            return await func(*args, **kwargs)
    else:
        @functools.wraps(func)
        def wrapped(*args, **kwargs):
            return func(*args, **kwargs)
    wrapped.__original_function = func
    return wrapped
def tool(func=None, **_):
    if func is None:
        return tool
    wrapped = trace(func)
    wrapped.__tool = None
    return wrapped
class ToolProvider:
    pass
";

/// An interpreter with the package `promptflow` that leaves these marks.
fn with_installed_promptflow(folder: &Path) -> PathBuf {
    let made = std::process::Command::new("python3")
        .args(["-m", "venv", "--without-pip"])
        .arg(folder)
        .status();
    assert!(made.unwrap().success());
    let interpreter = folder.join("bin/python");
    let asked = std::process::Command::new(&interpreter)
        .args(["-c", "import sysconfig; print(sysconfig.get_path('purelib'))"])
        .output();
    let packages = String::from_utf8(asked.unwrap().stdout).unwrap();
    let package = Path::new(packages.trim()).join("promptflow");
    for (file, text) in [
        ("__init__.py", "from .marks import tool, ToolProvider\n"),
        ("core.py", "from .marks import tool, ToolProvider\n"),
        ("tracing.py", "from .marks import trace\n"),
        ("marks.py", MARKS_OF_PROMPTFLOW),
    ] {
        std::fs::create_dir_all(&package).unwrap();
        std::fs::write(package.join(file), text).unwrap();
    }
    interpreter
}

#[test]
fn traced_helpers_beside_a_tool_are_no_tools() {
    if !running::has_python() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let installed = with_installed_promptflow(&folder.path().join("python"));
    let flow = "inputs: {}\noutputs:\n  o: {type: string, reference: '${n.output}'}\nnodes:\n- {name: n, type: python, source: {type: code, path: n.py}, inputs: {}}\n";
    let helper = "from promptflow.tracing import trace\n@trace\ndef helper():\n    return 'x'\n@trace\nasync def later():\n    return 'x'\n";
    let model = OpenAi::new("none", &ProviderConfig::default(), None);
    for tool in [
        "from promptflow import tool\n@tool\ndef n():\n    return helper()\n",
        "from promptflow.core import tool\n@tool\nasync def n():\n    return await later()\n",
        "from promptflow.core import tool\n@tool(name='N')\n@trace\ndef n():\n    return helper()\n",
        "from promptflow.core import tool\n@trace\n@tool\ndef n():\n    return helper()\n",
        "from promptflow.core import tool, ToolProvider\nclass N(ToolProvider):\n    @trace\n    def help(self):\n        return helper()\n    @tool\n    def n(self):\n        return self.help()\n",
    ] {
        let program = format!("{helper}{tool}");
        let files = [("flow.dag.yaml", flow), ("n.py", &program)];
        let files = files.map(|(name, text)| (name.to_owned(), text.as_bytes().to_vec()));
        let pack = load(PackFiles::from_map(files.into()).unwrap()).unwrap();
        for interpreter in [Path::new("python3"), &installed] {
            let python =
                PythonSettings { interpreter: interpreter.into(), ..PythonSettings::default() };
            let options = RunOptions { python: Some(python), ..RunOptions::default() };
            let ran = flow::run(&pack, Default::default(), &[], &model, &options);
            let said =
                ran.map(|outcome| outcome.outputs["o"].clone()).map_err(|error| error.to_string());
            assert_eq!(said, Ok("x".into()), "{interpreter:?} {tool}");
        }
    }
}

#[test]
fn a_prompty_file_reaches_what_its_repository_shares_and_nothing_hidden() {
    let shared = "---\nbase: ../common/base.prompty\nmodel: {parameters: {tools: '${file:../common/tools.json}'}}\ninputs: {who: {type: string, default: Ana}}\n---\nuser:\nHello {{who}}\n";
    let repository = Repository::new(&[
        ("repo/.git/HEAD", "ref"),
        ("repo/.secrets/key.json", "[]"),
        ("elsewhere/key.json", "[]"),
        (
            "repo/common/base.prompty",
            "---\nmodel: {api: chat, parameters: {max_tokens: 9}}\n---\nuser:\nx\n",
        ),
        ("repo/common/tools.json", "[]"),
        ("repo/one/a.prompty", shared),
        (
            "repo/two/a.prompty",
            "---\nmodel: {parameters: {tools: '${file:../.secrets/key.json}'}}\n---\nuser:\nx\n",
        ),
        (
            "repo/three/a.prompty",
            "---\nmodel: {parameters: {tools: '${file:../../elsewhere/key.json}'}}\n---\nuser:\nx\n",
        ),
        (
            "repo/four/a.prompty",
            "---\nmodel: {parameters: {tools: '${file:../common/gone.json}'}}\n---\nuser:\nx\n",
        ),
    ]);
    for path in ["repo/one", "repo/one/a.prompty"] {
        assert_eq!(repository.run(&[path], ""), Ok("Hello Ana".into()), "{path}");
    }
    for (path, words) in [
        ("repo/two", ["../.secrets/key.json", "outside"]),
        ("repo/three", ["../../elsewhere/key.json", "outside"]),
        ("repo/four", ["../common/gone.json", "no file"]),
    ] {
        let said = repository.run(&[path], "").unwrap_err();
        assert!(words.iter().all(|word| said.contains(word)), "{path}: {said}");
    }
}

/// A folder with a repository of flows, and a home whose provider repeats what it is asked.
struct Repository {
    folder: tempfile::TempDir,
    server: Server,
}

impl Repository {
    fn new(files: &[(&str, &str)]) -> Repository {
        Repository::with(files, Vec::new())
    }

    /// The same with a provider that does something else first.
    fn with(files: &[(&str, &str)], mut acts: Vec<Act>) -> Repository {
        acts.push(Act::With(Arc::new(|body| {
            body["messages"][0]["content"].as_str().unwrap().trim().to_owned()
        })));
        let server = Server::start(acts);
        let folder = tempfile::tempdir().unwrap();
        let config = format!(
            "[provider]\ndefault = \"loop\"\n[provider.loop]\nkind = \"openai\"\nbase_url = \"{}\"\nmodel = \"m\"\n",
            server.base
        );
        let repository = Repository { folder, server };
        repository.write("home/summarizer.toml", &config);
        for (path, text) in files {
            repository.write(path, text);
        }
        repository
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.folder.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn command(&self, arguments: &[&str], is_quiet: bool, stdin: &str) -> std::process::Output {
        assert_cmd::Command::new(env!("CARGO_BIN_EXE_summarizer"))
            .env_clear()
            .env("CALLERS_KEY", "k3")
            .current_dir(self.folder.path())
            .args(["--home", "home"])
            .args(is_quiet.then_some("--quiet"))
            .args(["flow", "run"])
            .args(arguments)
            .write_stdin(stdin)
            .output()
            .unwrap()
    }

    /// What `flow run` prints, or what it says when it fails.
    fn run(&self, arguments: &[&str], stdin: &str) -> Result<String, String> {
        let ran = self.command(arguments, true, stdin);
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap().trim().to_owned();
        if ran.status.success() { Ok(text(ran.stdout)) } else { Err(text(ran.stderr)) }
    }
}

const GREETING: &str = "inputs:\n  who: {type: string, default: Ana}\n  times: {type: int, default: 2}\noutputs:\n  o: {type: string, reference: '${n.output}'}\nnodes:\n- {name: n, type: llm, source: {type: code, path: tone.jinja2}, inputs: {who: '${inputs.who}', times: '${inputs.times}'}, api: chat}\nadditional_includes: [../../common/tone.jinja2]\n";

#[test]
fn a_flow_runs_from_its_own_folder_with_every_form_of_input() {
    let repository = Repository::new(&[
        ("repo/.git/HEAD", "ref"),
        ("repo/common/tone.jinja2", "# user:\nHello {{who}} {{times}}"),
        ("repo/flows/hello/flow.dag.yaml", GREETING),
        (
            "repo/a.prompty",
            "---\nmodel: {api: chat}\ninputs:\n  who: {type: string}\nsample: {who: Eva}\n---\nuser:\nHi {{who}}\n",
        ),
        ("repo/b.prompty", "---\nmodel: {api: chat}\n---\nuser:\nanother\n"),
        ("repo/who.json", "{\"who\": \"Luz\"}"),
        ("repo/who.txt", "Sol"),
        ("repo/lines.jsonl", "{\"who\": \"Luz\"}\n{}\n"),
    ]);
    let (folder, file) = ("repo/flows/hello", "repo/flows/hello/flow.dag.yaml");
    let lines = |one: &str, other: &str| {
        format!("{{\"line_number\":0,\"o\":\"{one}\"}}\n{{\"line_number\":1,\"o\":\"{other}\"}}")
    };
    let rows: &[(&[&str], &str, String)] = &[
        (&[folder], "", "Hello Ana 2".into()),
        (&[file], "", "Hello Ana 2".into()),
        (&[file, "who=Luz", "times=3"], "", "Hello Luz 3".into()),
        (&[folder, "--input", "{\"who\": \"Luz\", \"times\": \"4\"}"], "", "Hello Luz 4".into()),
        (&[folder, "--input", "repo/who.json"], "", "Hello Luz 2".into()),
        (&[folder, "--input", "repo/who.json", "who=Mar"], "", "Hello Mar 2".into()),
        (&[folder, "--input", "repo/who.txt"], "", "Hello Sol 2".into()),
        (&[folder, "--input", "-"], "Paz", "Hello Paz 2".into()),
        (&[folder, "--input", "-"], "{\"who\": \"Paz\"}", "Hello Paz 2".into()),
        (
            &[folder, "--lines", "--input", "repo/lines.jsonl"],
            "",
            lines("Hello Luz 2", "Hello Ana 2"),
        ),
        (
            &[folder, "--lines", "--input", "-", "times=5"],
            "{\"times\": 1}\n{}",
            lines("Hello Ana 1", "Hello Ana 5"),
        ),
        (&["repo/a.prompty", "who=Ana"], "", "Hi Ana".into()),
        (&["repo/a.prompty"], "", "Hi Eva".into()),
        (&["repo/b.prompty"], "", "another".into()),
    ];
    for (arguments, stdin, prints) in rows {
        assert_eq!(repository.run(arguments, stdin).as_ref(), Ok(prints), "{arguments:?}");
    }
}

#[test]
fn a_flow_file_is_registered_by_its_path() {
    let prompt =
        "---\nmodel: {api: chat}\ninputs: {who: {type: string}}\n---\nuser:\nHello {{who}}\n";
    let flow = "inputs: {}\noutputs:\n  o: {type: string, reference: '${n.output}'}\n  all: {type: string, reference: '${m.output}'}\nnodes:\n- {name: n, type: prompt, source: {type: code, path: n.jinja2}}\n- {name: m, type: python, aggregation: true, source: {type: code, path: m.py}, inputs: {x: '${n.output}'}}\n";
    let repository = Repository::new(&[
        ("prompts/one.v1.prompty", prompt),
        ("prompts/two.v1.prompty", prompt),
        ("grades.v1/flow.dag.yaml", flow),
        ("grades.v1/n.jinja2", "x"),
        ("grades.v1/m.py", "def m(x): return x"),
        ("registry/registry.flow_packs.v1.jsonl", ""),
    ]);
    let add = |path: &str| {
        assert_cmd::Command::new(env!("CARGO_BIN_EXE_summarizer"))
            .current_dir(repository.folder.path())
            .args(["--home", "home", "registry", "add", path, "--dataset", "registry"])
            .output()
            .unwrap()
    };
    for path in ["prompts/one.v1.prompty", "prompts/two.v1.prompty", "grades.v1"] {
        let ran = add(path);
        assert!(ran.status.success(), "{path}: {}", String::from_utf8_lossy(&ran.stderr));
    }
    let registry = repository.folder.path().join("registry/registry.flow_packs.v1.jsonl");
    let records = std::fs::read_to_string(registry).unwrap();
    let ids: Vec<Value> = records.lines().map(|it| serde_json::from_str(it).unwrap()).collect();
    let named = |it: &Value| (it["flow_id"].clone(), it["entry_dag"].clone());
    assert!(
        ids.iter().map(named).any(|it| it == (json!("two.v1"), json!("two.v1.prompty"))),
        "{ids:?}"
    );
}

#[test]
fn a_flow_at_a_path_that_is_refused_says_why() {
    let outside = GREETING.replace("../../common", "../../../elsewhere");
    let repository = Repository::new(&[
        ("repo/.git/HEAD", "ref"),
        ("elsewhere/tone.jinja2", "# user:\nsecret"),
        ("repo/flows/hello/flow.dag.yaml", &outside),
        ("repo/flows/gone/flow.dag.yaml", GREETING),
        ("repo/two/a.prompty", "---\nmodel: m\n---\nuser:\none\n"),
        ("repo/two/b.prompty", "---\nmodel: m\n---\nuser:\ntwo\n"),
        (
            "repo/one/a.prompty",
            "---\nmodel: m\ninputs:\n  who: {type: string}\n---\nuser:\none {{who}}\n",
        ),
        ("repo/flex/flow.flex.yaml", "entry: main:chat\n"),
        ("repo/sharp/flow.flex.yaml", "entry: (Main)Main.Chat\nlanguage: csharp\n"),
        ("repo/plain/flow.dag.yaml", &GREETING.replace("additional_includes", "x")),
        ("repo/plain/tone.jinja2", "# user:\nHello"),
    ]);
    let rows: &[(&[&str], &[&str])] = &[
        (&["repo/flows/hello"], &["../../../elsewhere/tone.jinja2", "outside"]),
        (&["repo/flows/gone"], &["../../common/tone.jinja2", "additional_includes"]),
        (&["repo/two"], &["a.prompty, b.prompty", "name one of these"]),
        (&["repo/one"], &["the flow needs the input who"]),
        (&["repo/one", "whom=Ana"], &["has no input whom", "did you mean who?"]),
        (&["repo/one", "Ana"], &["`Ana` does not name an input", "INPUT=VALUE"]),
        (&["repo/one", "--lines"], &["--input"]),
        (&["repo/flex"], &["entry", "there is no file main.py"]),
        (&["repo/sharp"], &["language", "only python"]),
        (&["repo/plain", "--variant", "${n.fast}"], &["no node", "has the variant ${n.fast}"]),
    ];
    for (arguments, words) in rows {
        let said = repository.run(arguments, "").unwrap_err();
        assert!(words.iter().all(|word| said.contains(word)), "{arguments:?}: {said}");
    }
}

/// A flow of one Python node.
const PROGRAM: &str = "outputs:\n  o: {type: object, reference: '${n.output}'}\nnodes:\n- {name: n, type: python, source: {type: code, path: n.py}, inputs: {c: my_azure, d: my_own}}\n";

#[test]
fn a_python_node_reads_the_folder_of_its_flow_wherever_the_flow_is_named_from() {
    if !running::has_python() {
        return;
    }
    let program = r#"
import os, pathlib
from dotenv import dotenv_values
from promptflow.core import tool
from promptflow.connections import AzureOpenAIConnection, CustomConnection

@tool
def n(c: AzureOpenAIConnection, d: CustomConnection):
    names = ("PLAIN", "TOLD", "RAW", "LINES", "BUILT", "ELSE", "HASH")
    return {
        "file": open("data.txt").read(),
        "beside": (pathlib.Path(__file__).parent / "data.txt").read_text(),
        "env": [os.environ[name] for name in names],
        "again": dotenv_values()["PLAIN"],
        "azure": [c.api_version, c.api_type, c.configs["api_base"], c.secrets, sorted(c)],
        "own": [d.configs, d.secrets, d.place, d["key"]],
    }
"#;
    let env = "# names\nexport PLAIN=one two # a comment\nTOLD=\"a\\n\\\"b\\\" # c\"\nRAW='x\\ny'\n\
               LINES=\"first\nsecond\"\nBUILT=${PLAIN}!\nELSE=${NOBODY:-else}\nHASH=a#b\n";
    let repository = Repository::new(&[
        ("repo/program/flow.dag.yaml", PROGRAM),
        ("repo/program/n.py", program),
        ("repo/program/data.txt", "DATA"),
        ("repo/program/.env", env),
        ("repo/program/my_azure.yaml", "type: azure_open_ai\napi_base: http://a\napi_key: k1\n"),
        ("repo/program/my_own.yaml", "configs:\n  place: here\nsecrets:\n  key: k2\n"),
    ]);
    let expected = json!({
        "file": "DATA",
        "beside": "DATA",
        "env": ["one two", "a\n\"b\" # c", "x\\ny", "first\nsecond", "one two!", "else", "a#b"],
        "again": "one two",
        "azure": ["2024-02-01", "azure", "http://a", {"api_key": "k1"},
            ["api_base", "api_type", "api_version", "auth_mode"]],
        "own": [{"place": "here"}, {"key": "k2"}, "here", "k2"],
    });
    let whole = repository.folder.path().join("repo/program");
    for named in ["repo/program", "./repo/../repo/program", whole.to_str().unwrap()] {
        let lines = repository.run(&[named, "--allow-python", "--lines", "--input", "-"], "{}");
        let row: Value = serde_json::from_str(&lines.unwrap()).unwrap();
        assert_eq!(row["o"], expected, "{named}");
    }
}

/// A program that gives the key of a connection.
const TELLS_KEY: &str = "from promptflow.core import tool\nfrom promptflow.connections import CustomConnection\n@tool\ndef n(c: CustomConnection):\n    return c.key\n";
const ONE_CONNECTION: &str = "outputs:\n  o: {type: string, reference: '${n.output}'}\nnodes:\n- {name: n, type: python, source: {type: code, path: n.py}, inputs: {c: my_own}}\n";

#[test]
fn a_connection_file_names_variables_of_the_person_who_runs_the_flow() {
    if !running::has_python() {
        return;
    }
    let file = "type: custom\nsecrets: {key: '${env:CALLERS_KEY}'}\n";
    let gone = file.replace("CALLERS_KEY", "NOBODYS_KEY");
    let repository = Repository::new(&[
        ("one/flow.dag.yaml", ONE_CONNECTION),
        ("one/n.py", TELLS_KEY),
        ("one/my_own.yaml", file),
        ("two/flow.dag.yaml", ONE_CONNECTION),
        ("two/n.py", TELLS_KEY),
        ("two/my_own.yaml", &gone),
    ]);
    assert_eq!(repository.run(&["one", "--allow-python"], ""), Ok("k3".to_owned()));
    let said = repository.run(&["two", "--allow-python"], "").unwrap_err();
    assert!(said.contains("node n") && said.contains("NOBODYS_KEY is not set"), "{said}");
}

#[test]
fn in_a_service_a_connection_file_gets_only_variables_of_its_own_name() {
    if !running::has_python() {
        return;
    }
    let file = "type: custom\nsecrets: {key: '${env:CARGO_MANIFEST_DIR}'}\n";
    let files = [("flow.dag.yaml", ONE_CONNECTION), ("n.py", TELLS_KEY), ("my_own.yaml", file)];
    let files = files.map(|(name, text)| (name.to_owned(), text.as_bytes().to_vec()));
    let pack = load(PackFiles::from_map(files.into()).unwrap()).unwrap();
    let model = OpenAi::new("none", &ProviderConfig::default(), None);
    let run = |variables| {
        let python = Some(PythonSettings { variables, ..PythonSettings::default() });
        let options = RunOptions { python, ..RunOptions::default() };
        flow::run(&pack, Default::default(), &[], &model, &options)
    };
    let said = run(Some(Vec::new())).unwrap_err().to_string();
    assert!(
        ["node n", "my_own", "CARGO_MANIFEST_DIR", "MY_OWN_KEY"].iter().all(|it| said.contains(it)),
        "{said}"
    );
    let own = run(Some(vec![("MY_OWN_KEY".into(), "mine".into())])).unwrap();
    assert_eq!(own.outputs["o"], "mine");
    assert_eq!(run(None).unwrap().outputs["o"], env!("CARGO_MANIFEST_DIR"));
}

#[test]
fn a_parameter_that_is_corrected_or_refused_is_told() {
    let refusal = json!({"error": {"message": "Unsupported parameter: 'temperature'.", "param": "temperature"}});
    let file = "---\nmodel:\n  api: chat\n  parameters: {temperature: 5, max_tokens: 0}\n---\nuser:\nhello\n";
    let acts = vec![status(400, &[], &refusal.to_string())];
    let repository = Repository::with(&[("a.prompty", file)], acts);
    let said = repository.run(&["a.prompty", "--json"], "").unwrap();
    let said: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(
        said["warnings"],
        json!([
            "node prompty: max_tokens 0 was left out: it allows no token",
            "node prompty: temperature 5 became 2, the end of its range",
            "not sent, because the server of the model does not take it: temperature",
        ])
    );
    assert_eq!(said["model"]["temperature"], Value::Null);
    let sent: Vec<Value> = repository.server.seen().into_iter().map(|seen| seen.body).collect();
    assert_eq!((&sent[0]["temperature"], &sent[1]["temperature"]), (&json!(2.0), &Value::Null));
    assert!(sent.iter().all(|body| body["max_tokens"].is_null()));
    // What a person asks for by hand is theirs to correct.
    let refused = repository.run(&["a.prompty", "--param", "temperature=5"], "").unwrap_err();
    assert!(
        refused.contains("temperature cannot be 5: it must be a number from 0 to 2"),
        "{refused}"
    );
}

#[test]
fn a_text_that_the_token_limit_cut_off_is_told() {
    let file = "---\nmodel: {api: chat}\ninputs: {who: {type: string, default: Ana}}\n---\nuser:\nhello {{who}}\n";
    let cut = Act::Chat("half a".to_owned(), "length");
    let repository = Repository::with(&[("a.prompty", file)], vec![cut.clone(), cut]);
    let warning = "node prompty: the answer was cut off at the token limit; raise max_tokens";
    let said = repository.run(&["a.prompty", "--json"], "").unwrap();
    let said: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(
        (&said["flow_outputs"]["output"], &said["warnings"]),
        (&json!("half a"), &json!([warning]))
    );
    let ran = repository.command(&["a.prompty", "--lines", "--input", "-"], false, "{}\n{}\n");
    let told = String::from_utf8(ran.stderr).unwrap();
    assert!(told.contains(&format!("warning: {warning} (1 line)")), "{told}");
}

#[test]
fn an_image_of_a_prompty_file_that_is_sent_as_its_text_is_told() {
    let file = "---\nmodel: {api: chat}\n---\nuser:\nLook ![photo](camping.jpg) here\n";
    let repository = Repository::new(&[("a.prompty", file)]);
    let said = repository.run(&["a.prompty", "--json"], "").unwrap();
    assert!(said.contains("![photo](camping.jpg) is sent as this text"), "{said}");
}

#[test]
fn a_command_asks_again_after_a_failure_that_passes() {
    let soon: &[(&str, &str)] = &[("retry-after-ms", "20")];
    let failures = vec![status(500, soon, "{}"), status(503, soon, "{}"), status(429, soon, "{}")];
    let file = [("a.prompty", "---\nmodel: {api: chat}\n---\nuser:\nhello\n")];
    let repository = Repository::with(&file, failures);
    assert_eq!(repository.run(&["a.prompty"], "").as_deref(), Ok("hello"));
    assert_eq!(repository.server.seen().len(), 4);
    // A failure that is not temporary is an error without another call.
    let repository = Repository::with(&file, vec![status(400, soon, "{}")]);
    assert!(repository.run(&["a.prompty"], "").is_err());
    assert_eq!(repository.server.seen().len(), 1);
}

/// A flow of a Python node that runs only for the text `go`, with two outputs of it.
const LEFT_OUT: &str = "inputs:\n  text: {type: string}\noutputs:\n  a: {type: string, reference: '${n.output.a}'}\n  b: {type: string, reference: '${n.output.b}'}\nnodes:\n- {name: n, type: python, source: {type: code, path: n.py}, inputs: {text: '${inputs.text}'}, activate: {when: '${inputs.text}', is: go}}\n";
const TWO_MEMBERS: &str = "from promptflow.core import tool\n@tool\ndef n(text: str):\n    return {'a': 'one\\ntwo', 'b': 3}\n";

#[test]
fn a_person_sees_every_output_and_null_where_there_is_none() {
    if !running::has_python() {
        return;
    }
    let one = LEFT_OUT.replace("  b: {type: string, reference: '${n.output.b}'}\n", "");
    let repository = Repository::new(&[
        ("two/flow.dag.yaml", LEFT_OUT),
        ("two/n.py", TWO_MEMBERS),
        ("one/flow.dag.yaml", &one),
        ("one/n.py", TWO_MEMBERS),
        (
            "json.prompty",
            "---\nmodel:\n  api: chat\n  parameters: {response_format: {type: json_object}}\n---\nuser:\n{\"x\": \"\", \"y\": [1]}\n",
        ),
    ]);
    let run = |flow: &str, text: &str| {
        repository.run(&[flow, &format!("text={text}"), "--allow-python"], "").unwrap()
    };
    assert_eq!(run("two", "go"), "a:\none\ntwo\nb: 3");
    assert_eq!(run("one", "go"), "one\ntwo");
    assert_eq!(run("two", "stop"), "a: null\nb: null");
    assert_eq!(run("one", "stop"), "null", "and not the input");
    assert_eq!(repository.run(&["json.prompty"], "").unwrap(), "x: \"\"\ny: [1]");
    let ran = repository.command(&["one", "text=stop", "--allow-python"], false, "");
    assert_eq!(String::from_utf8(ran.stderr).unwrap(), "", "no text of the source is shown");
    let lines = ["two", "--lines", "--input", "-", "--allow-python"];
    let rows = repository.run(&lines, "{\"text\": \"stop\"}\n{\"text\": \"go\"}\n").unwrap();
    assert_eq!(
        rows,
        "{\"line_number\":0,\"a\":null,\"b\":null}\n{\"line_number\":1,\"a\":\"one\\ntwo\",\"b\":3}"
    );
    let json = repository.run(&["two", "text=stop", "--allow-python", "--json"], "").unwrap();
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["flow_outputs"], json!({"a": null, "b": null}));
}

/// A flow of one Python node that gives what its input holds as JSON, and of an aggregation node that fails.
const AGGREGATED: &str = "inputs:\n  text: {type: string}\noutputs:\n  o: {type: object, reference: '${n.output}'}\nnodes:\n- {name: n, type: python, source: {type: code, path: n.py}, inputs: {text: '${inputs.text}'}}\n";
const GIVES_JSON: &str = "import json\nfrom promptflow.core import tool\n@tool\ndef n(text: str):\n    return json.loads(text)\n";

#[test]
fn a_person_sees_the_names_of_the_members_of_an_output() {
    if !running::has_python() {
        return;
    }
    let repository = Repository::new(&[("f/flow.dag.yaml", AGGREGATED), ("f/n.py", GIVES_JSON)]);
    for (json, shown) in [
        (r#"{"a": 1, "b": "x", "c": null, "d": "1\n2"}"#, "a: 1\nb: x\nc: null\nd:\n1\n2"),
        (r#"{"summary": "short", "score": {"of": 3}}"#, "summary: short\nscore: {\"of\":3}"),
        ("{}", "{}"),
        ("[]", "[]"),
        (r#"["one", null, {"a": 2}]"#, "one\nnull\n{\"a\":2}"),
        (r#""text""#, "text"),
        ("2.5", "2.5"),
    ] {
        let given = format!("text={json}");
        assert_eq!(
            repository.run(&["f", &given, "--allow-python"], ""),
            Ok(shown.into()),
            "{json}"
        );
    }
}

#[test]
fn the_output_of_a_line_is_printed_also_when_its_aggregation_fails() {
    if !running::has_python() {
        return;
    }
    let fails = "- {name: all, type: python, aggregation: true, source: {type: code, path: all.py}, inputs: {texts: '${n.output}'}}\n";
    let program = "from promptflow.core import tool\n@tool\ndef all(texts: list):\n    raise ValueError('no metric')\n";
    let repository = Repository::new(&[
        ("f/flow.dag.yaml", &format!("{AGGREGATED}{fails}")),
        ("f/n.py", GIVES_JSON),
        ("f/all.py", program),
    ]);
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let one = ["f", "text=[7]", "--allow-python"];
    let lines = ["f", "--lines", "--input", "-", "--allow-python"];
    for (arguments, shown) in [(&one[..], "7\n"), (&lines, "{\"line_number\":0,\"o\":[7]}\n")] {
        let ran = repository.command(arguments, false, "{\"text\": \"[7]\"}\n");
        assert_eq!((ran.status.code(), text(&ran.stdout).as_str()), (Some(1), shown));
        assert!(text(&ran.stderr).contains("no metric"), "{}", text(&ran.stderr));
    }
    let ran = repository.command(&[&one[..], &["--json"]].concat(), false, "");
    let report: Value = serde_json::from_slice(&ran.stdout).unwrap();
    assert_eq!((ran.status.code(), &report["flow_outputs"]["o"]), (Some(1), &json!([7])));
}

#[test]
fn a_file_of_a_flow_that_is_no_text_is_named() {
    if !running::has_python() {
        return;
    }
    let prompty = "---\nmodel: {api: chat}\nbase: base.prompty\n---\nuser:\nhello\n";
    let node = |name: &str| {
        format!(
            "{{name: {name}, type: python, source: {{type: code, path: n.py}}, inputs: {{c: my_own}}}}"
        )
    };
    let dag = ONE_CONNECTION.replace("- {name: n,", &format!("- {}\n- {{name: n,", node("m")));
    for (flow, file, before) in [
        ("one", ".env", "A="),
        ("one", "my_own.yaml", "key: "),
        ("one", "connections/my_own.yml", "key: "),
        ("one", "n.py", "# "),
        ("one", "flow.dag.yaml", "# "),
        ("ask", "a.jinja2", "x "),
        ("a.prompty", "base.prompty", "---\n---\n"),
    ] {
        let repository = Repository::new(&[
            ("one/flow.dag.yaml", &dag),
            ("one/n.py", TELLS_KEY),
            ("one/my_own.yaml", "type: custom\nkey: k\n"),
            (
                "ask/flow.dag.yaml",
                "outputs:\n  o: {type: string, reference: '${n.output}'}\nnodes:\n- {name: n, type: prompt, source: {type: code, path: a.jinja2}}\n",
            ),
            ("a.prompty", prompty),
        ]);
        let folder = if flow == "a.prompty" { "." } else { flow };
        repository.write(&format!("{folder}/{file}"), "");
        let path = repository.folder.path().join(folder).join(file);
        std::fs::write(path, [before.as_bytes(), b"caf\xe9\n"].concat()).unwrap();
        let said = repository.run(&[flow, "--allow-python"], "").unwrap_err();
        assert!(said.contains(&format!("{file}: ")) && said.contains("UTF-8"), "{file}: {said}");
        // Both nodes fail at the same time; one is told, always the same.
        let is_of_node = said.contains("node ");
        assert_eq!(said.contains("node m:"), is_of_node, "{file}: {said}");
    }
    let repository = Repository::new(&[("one/flow.dag.yaml", LEFT_OUT), ("one/n.py", TWO_MEMBERS)]);
    repository.write("lines.jsonl", "{\"text\": \"go\"}\n[]\n");
    let said = repository.run(&["one", "--lines", "--input", "lines.jsonl"], "").unwrap_err();
    assert!(said.contains("line 2 of lines.jsonl"), "{said}");
    repository.write("one.json", "[]");
    let said = repository.run(&["one", "--input", "one.json"], "").unwrap_err();
    assert!(said.contains("one.json is not a JSON object"), "{said}");
}

#[test]
fn a_placeholder_of_a_secret_is_no_secret() {
    if !running::has_python() {
        return;
    }
    for (placeholder, member) in [
        ("secrets: {key: <user-input>}", "key"),
        ("key: <no-change>", "key"),
        ("secrets: {key: '******'}", "key"),
        ("api_key: '******'", "api_key"),
    ] {
        let own = format!("type: custom\n{placeholder}\n");
        let files = [("flow.dag.yaml", ONE_CONNECTION), ("n.py", TELLS_KEY), ("my_own.yaml", &own)];
        let files = files.map(|(name, text)| (name.to_owned(), text.as_bytes().to_vec()));
        let pack = load(PackFiles::from_map(files.into()).unwrap()).unwrap();
        let model = OpenAi::new("none", &ProviderConfig::default(), None);
        let run = |variables: &[(&str, &str)]| {
            let variables = variables.iter().map(|(name, value)| (name.into(), value.into()));
            let variables = Some(variables.collect());
            let python = Some(PythonSettings { variables, ..PythonSettings::default() });
            let options = RunOptions { python, ..RunOptions::default() };
            flow::run(&pack, Default::default(), &[], &model, &options)
        };
        let said = run(&[]).unwrap_err().to_string();
        let variable = format!("MY_OWN_{}", member.to_uppercase());
        let words = ["the connection my_own", "placeholder", &format!("its {member} "), &variable];
        assert!(words.iter().all(|word| said.contains(word)), "{placeholder}: {said}");
        if member == "key" {
            assert_eq!(run(&[(&variable, "mine")]).unwrap().outputs["o"], "mine");
        }
    }
}

#[test]
fn a_prompty_file_without_inputs_runs_on_its_sample_and_may_say_nothing_of_itself() {
    let sample =
        "---\ninputs: {who: {type: string}}\nsample: {who: Eva}\n---\nuser:\nHello {{who}}\n";
    let repository =
        Repository::new(&[("s.prompty", sample), ("e.prompty", "---\n---\nuser:\nHi\n")]);
    for (arguments, stdin) in [
        (&["s.prompty"][..], ""),
        (&["s.prompty", "--input", "{}"], ""),
        (&["s.prompty", "--input", "-"], "{}"),
    ] {
        assert_eq!(repository.run(arguments, stdin), Ok("Hello Eva".into()), "{arguments:?}");
    }
    assert_eq!(repository.run(&["e.prompty"], ""), Ok("Hi".into()));
}

#[test]
fn a_request_for_text_is_sent_and_left_out_where_it_is_refused() {
    let file =
        "---\nmodel:\n  api: chat\n  parameters: {response_format: {type: text}}\n---\nuser:\nHi\n";
    let refusal = r#"{"error": {"message": "response_format is not supported"}}"#;
    let repository = Repository::with(&[("a.prompty", file)], vec![status(400, &[], refusal)]);
    assert_eq!(repository.run(&["a.prompty"], ""), Ok("Hi".into()));
    let formats: Vec<Value> = repository
        .server
        .seen()
        .iter()
        .filter(|seen| !seen.body.is_null())
        .map(|seen| seen.body["response_format"].clone())
        .collect();
    assert_eq!(formats, [json!({"type": "text"}), Value::Null]);
}

#[test]
fn a_misspelt_member_of_a_prompty_file_is_told() {
    let file = "---\nmodle: {api: chat}\nmodel: {api: chat, paramters: {temperature: 1}}\nversion: 1\n---\nuser:\nhello\n";
    let repository = Repository::new(&[("a.prompty", file)]);
    let said: Value =
        serde_json::from_str(&repository.run(&["a.prompty", "--json"], "").unwrap()).unwrap();
    let told =
        |name: &str| format!("a.prompty: {name} is no member of a prompty file and is ignored");
    assert_eq!(said["warnings"], json!([told("modle"), told("model.paramters")]));
}

#[test]
fn thoughts_before_an_answer_are_no_part_of_it() {
    let file = "---\nmodel: {api: chat}\n---\nuser:\n<think>\nHm.\n</think>\n\nIt is so.\n";
    let repository = Repository::new(&[("a.prompty", file)]);
    assert_eq!(repository.run(&["a.prompty"], ""), Ok("It is so.".to_owned()));
    let shown = repository.command(&["a.prompty", "--show-prompts"], false, "");
    assert!(String::from_utf8(shown.stderr).unwrap().matches("Hm.").count() > 1);
}

#[test]
fn an_answer_without_a_choice_is_an_answer_without_text() {
    let empty = json!({"model": "m", "choices": [], "usage": {"prompt_tokens": 3}}).to_string();
    let file = "---\nmodel: {api: chat}\n---\nuser:\nhello\n";
    let repository = Repository::with(&[("a.prompty", file)], vec![status(200, &[], &empty)]);
    let said = repository.run(&["a.prompty"], "").unwrap_err();
    assert!(said.contains("node prompty") && said.contains("no text"), "{said}");
    assert_eq!(repository.server.seen().len(), 1);
}

/// A server that has no request for JSON, and answers with JSON once its form was shown and asked for again.
fn plain_server(refusal: &'static str) -> Act {
    Act::Serve(Arc::new(move |seen: &server::Seen| {
        let error = |words: &str| (400, vec![], json!({"error": {"message": words}}).to_string());
        if !seen.body["response_format"].is_null() {
            return error(refusal);
        }
        let asked = seen.body["messages"].to_string();
        let shown = asked.contains("one JSON object") && asked.contains("cannot be used");
        let said = if shown { "Here: {\"answer\": \"42\"}" } else { "The answer is 42." };
        let message = json!({"role": "assistant", "content": said});
        let body =
            json!({"model": "m", "choices": [{"finish_reason": "stop", "message": message}]});
        (200, vec![], body.to_string())
    }))
}

const V1: &str = "---\nmodel:\n  api: chat\n  parameters: {response_format: {type: json_object}}\noutputs: {answer: {type: string}}\n---\nsystem:\nBe brief.\n\nuser:\nwhy\n";
const V2: &str = "---\nname: a\nmodel: {id: m, api: chat}\noutputs:\n- {name: answer, kind: string, required: true}\n---\nsystem:\nBe brief.\n\nuser:\nwhy\n";
const ASKS: &str = "inputs: {q: {type: string, default: why}}\noutputs: {o: {type: string, reference: '${n.output}'}}\nnodes:\n- {name: n, type: llm, source: {type: code, path: q.jinja2}, inputs: {q: '${inputs.q}', response_format: {type: json_object}}, api: chat}\n";

#[test]
fn a_server_without_a_request_for_json_is_told_its_form_and_corrects_its_answer() {
    for refusal in ["response_format is not supported", "json_schema and json_object are unknown"] {
        let files = [
            ("one.prompty", V1),
            ("two.prompty", V2),
            ("dag/flow.dag.yaml", ASKS),
            ("dag/q.jinja2", "user:\n{{q}}\n"),
        ];
        let repository = Repository::with(&files, vec![plain_server(refusal); 16]);
        for (path, output) in [
            ("one.prompty", json!({"answer": "42"})),
            ("two.prompty", json!({"answer": "42"})),
            ("dag", json!({"o": "{\"answer\":\"42\"}"})),
        ] {
            let said = repository.run(&[path, "--json"], "").unwrap();
            let said: Value = serde_json::from_str(&said).unwrap();
            assert_eq!(said["flow_outputs"], output, "{path}");
            let warning =
                "not sent, because the server of the model does not take it: response_format";
            assert_eq!(said["warnings"], json!([warning]), "{path}");
            let last = repository.server.seen().pop().unwrap().body.to_string();
            assert!(
                path == "dag" || last.contains("JSON Schema") && last.contains("answer"),
                "{last}"
            );
        }
    }
}

#[test]
fn a_server_that_knows_json_only_by_a_schema_gets_a_schema() {
    let act = Act::Serve(Arc::new(|seen: &server::Seen| {
        if seen.body["response_format"]["type"] == "json_object" {
            let words = "'response_format.type' must be 'json_schema' or 'text'";
            return (400, vec![], json!({"error": words}).to_string());
        }
        let schema = &seen.body["response_format"]["json_schema"]["schema"];
        let said =
            if schema["required"] == json!(["answer"]) { "{\"answer\": \"42\"}" } else { "no" };
        let message = json!({"role": "assistant", "content": said});
        let body =
            json!({"model": "m", "choices": [{"finish_reason": "stop", "message": message}]});
        (200, vec![], body.to_string())
    }));
    let repository = Repository::with(&[("one.prompty", V1)], vec![act; 4]);
    let said = repository.run(&["one.prompty", "--json"], "").unwrap();
    let said: Value = serde_json::from_str(&said).unwrap();
    assert_eq!((&said["flow_outputs"], &said["warnings"]), (&json!({"answer": "42"}), &json!([])));
    // A server that takes the request gets the messages as PromptFlow sends them.
    let sent = repository.server.seen().pop().unwrap().body;
    assert_eq!(sent["messages"][0]["content"], "Be brief.");
}

#[test]
fn claude_gives_the_json_of_an_imported_flow_through_a_tool() {
    let act = Act::Serve(Arc::new(|seen: &server::Seen| {
        let content = match seen.body["tools"][0]["input_schema"]["properties"].is_object() {
            true => json!({"type": "tool_use", "name": "answer", "input": {"answer": "42"}}),
            false => json!({"type": "text", "text": "It is 42."}),
        };
        let usage = json!({"input_tokens": 9, "output_tokens": 2});
        let body =
            json!({"model": "c", "stop_reason": "end_turn", "usage": usage, "content": [content]});
        (200, vec![], body.to_string())
    }));
    let repository = Repository::with(&[("one.prompty", V1), ("two.prompty", V2)], vec![act; 4]);
    let config = format!(
        "[provider]\ndefault = \"c\"\n[provider.c]\nkind = \"anthropic\"\nbase_url = \"{}\"\nmodel = \"c\"\n",
        repository.server.base
    );
    repository.write("home/summarizer.toml", &config);
    for path in ["one.prompty", "two.prompty"] {
        let said = repository.run(&[path, "--json"], "").unwrap();
        let said: Value = serde_json::from_str(&said).unwrap();
        let (output, warnings) = (&said["flow_outputs"], &said["warnings"]);
        assert_eq!((output, warnings), (&json!({"answer": "42"}), &json!([])), "{path}");
    }
    assert_eq!(repository.server.seen().len(), 2);
}

#[test]
fn a_prompt_that_is_condensed_for_a_small_context_is_told() {
    let file = "---\nmodel: {api: chat, parameters: {max_tokens: 200}}\ninputs: {text: {type: string}}\n---\nuser:\n{{text}}\n";
    let repository =
        Repository::with(&[("a.prompty", file)], vec![Act::Chat("ok".to_owned(), "stop")]);
    let config = std::fs::read_to_string(repository.folder.path().join("home/summarizer.toml"));
    repository.write("home/summarizer.toml", &(config.unwrap() + "context_tokens = 4096\n"));
    let input = json!({"text": "Some words of a long text. ".repeat(500)}).to_string();
    let said = repository.run(&["a.prompty", "--input", "-", "--json"], &input).unwrap();
    let said: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(said["warnings"], json!(["input_split_for_want_of_room"]));
}
