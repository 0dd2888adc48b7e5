//! Constructs of PromptFlow flows and prompty files, one row each: what runs, with its output, and what
//! is refused, with the words that name it. To add a construct, add a row.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a helper of tests may fail loudly"
)]

#[path = "support/running.rs"]
mod running;
#[path = "support/server.rs"]
mod server;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use server::{Act, Server};
use summarizer::config::{ProviderConfig, ProviderKind};
use summarizer::flow::{self, LoadedPack, PythonSettings, RunOptions, scaffold};
use summarizer::model::OpenAi;
use summarizer::registry::PackFiles;

/// What a row must give.
enum Gives {
    Outputs(Value),
    /// The run fails with these words.
    Fails(&'static [&'static str]),
    /// The pack does not load, with these words.
    Refused(&'static [&'static str]),
}
use Gives::{Fails, Outputs, Refused};

/// A flow of one Python node `n` with the inputs `a` and `k`.
const ONE_NODE: &str = "inputs:\n  a: {type: string, default: x}\noutputs:\n  o: {type: string, reference: '${n.output}'}\nenvironment_variables: {MODE: fast}\nnodes:\n- {name: n, type: python, source: {type: code, path: n.py}, inputs: {a: '${inputs.a}', k: '3'}}\n";

fn python(program: &'static str) -> Vec<(&'static str, &'static str)> {
    vec![("flow.dag.yaml", ONE_NODE), ("n.py", program)]
}

fn flex(flow: &'static str, program: &'static str) -> Vec<(&'static str, &'static str)> {
    vec![("flow.flex.yaml", flow), ("main.py", program)]
}

fn prompty(file: &'static str) -> Vec<(&'static str, &'static str)> {
    vec![("a.prompty", file)]
}

fn package(node: &'static str) -> Vec<(&'static str, &'static str)> {
    vec![("flow.dag.yaml", node)]
}

/// A name, the files of a package, and what it gives.
type Row = (&'static str, Vec<(&'static str, &'static str)>, Gives);

fn rows() -> Vec<Row> {
    vec![
        (
            "a function",
            python(
                "from promptflow.core import tool\n@tool\ndef n(a: str, k: int):\n    return a * k\n",
            ),
            Outputs(json!({"o": "xxx"})),
        ),
        (
            "an asynchronous function",
            python(
                "from promptflow import tool\n@tool\nasync def n(a: str, k: int):\n    return a\n",
            ),
            Outputs(json!({"o": "x"})),
        ),
        (
            "a generator",
            python(
                "from promptflow import tool\n@tool\ndef n(a: str, k: int):\n    for _ in range(k):\n        yield a\n",
            ),
            Outputs(json!({"o": "xxx"})),
        ),
        (
            "an asynchronous generator",
            python(
                "from promptflow import tool\n@tool\nasync def n(a: str, k: int):\n    yield a\n    yield 'y'\n",
            ),
            Outputs(json!({"o": "xy"})),
        ),
        (
            "a class with its own inputs",
            python(
                "from promptflow import tool, ToolProvider\nclass N(ToolProvider):\n    def __init__(self, k: int):\n        super().__init__()\n        self.k = k\n    @tool\n    def n(self, a: str):\n        return a * self.k\n",
            ),
            Outputs(json!({"o": "xxx"})),
        ),
        (
            "tracing, contracts and entities",
            python(
                "from promptflow.tracing import trace, start_trace\nfrom promptflow.contracts.types import PromptTemplate\nfrom promptflow.entities import CustomConnection\nfrom promptflow.exceptions import UserErrorException\nfrom promptflow.core import tool\nstart_trace()\n@trace\ndef inner(a):\n    return a\n@tool\ndef n(a: PromptTemplate, k: int):\n    return inner(a)\n",
            ),
            Outputs(json!({"o": "x"})),
        ),
        (
            "environment variables",
            python(
                "import os\nfrom promptflow.core import tool\n@tool\ndef n(a: str, k: int):\n    return os.environ['MODE']\n",
            ),
            Outputs(json!({"o": "fast"})),
        ),
        (
            "a flow that is a function",
            flex(
                "entry: main:talk\n",
                "def talk(name: str = 'Eva', n: int = 2, **more):\n    return {'said': name * n}\n",
            ),
            Outputs(json!({"output": {"said": "EvaEva"}})),
        ),
        (
            "a flow that is a class, with declared types, samples and outputs",
            flex(
                "entry: main:Talk\ninit:\n  tone: {type: string, default: warm}\ninputs:\n  n: {type: int, default: 2}\noutputs:\n  output: {type: string}\n",
                "from promptflow.tracing import trace\nclass Talk:\n    def __init__(self, tone: str):\n        self.tone = tone\n    @trace\n    async def __call__(self, n: int) -> str:\n        return self.tone * n\n",
            ),
            Outputs(json!({"output": "warmwarm"})),
        ),
        (
            "a flow whose program lacks its entry",
            flex("entry: main:talk\n", "def walk(): pass\n"),
            Fails(&["node entry", "find talk in main.py"]),
        ),
        (
            "a connection nobody knows",
            python(
                "from promptflow.core import tool\nfrom promptflow.connections import CustomConnection\n@tool\ndef n(a: CustomConnection, k: int):\n    return a.key\n",
            ),
            Fails(&["node n", "find the connection x"]),
        ),
        (
            "an object as output",
            python(
                "from promptflow.core import tool\n@tool\ndef n(a: str, k: int):\n    return {'deep': [object()]}\n",
            ),
            Fails(&["node n", "the output['deep'][0]", "type object"]),
        ),
        (
            "an infinite number",
            python(
                "from promptflow.core import tool\n@tool\ndef n(a: str, k: int):\n    return float('inf')\n",
            ),
            Fails(&["node n", "inf, which JSON cannot hold"]),
        ),
        (
            "a package that is not installed",
            python(
                "import no_such_package\nfrom promptflow.core import tool\n@tool\ndef n(a: str, k: int):\n    return a\n",
            ),
            Fails(&["node n", "no_such_package", "python.interpreter"]),
        ),
        (
            "a package tool",
            package(
                "inputs: {}\noutputs:\n  o: {type: string, reference: '${s.output}'}\nnodes:\n- {name: s, type: python, source: {type: package, tool: promptflow.tools.serpapi.SerpAPI.search}, inputs: {query: hi}}\n",
            ),
            Fails(&["node s", "promptflow.tools.serpapi.SerpAPI.search", "use a Python node"]),
        ),
        (
            "a package tool that asks a model",
            package(
                "inputs: {}\noutputs:\n  o: {type: string, reference: '${s.output}'}\nnodes:\n- {name: s, type: custom_llm, source: {type: package, tool: promptflow.tools.open_model_llm.OpenModelLLM.call}, inputs: {}}\n",
            ),
            Fails(&["node s", "use a node of type llm"]),
        ),
        (
            "a prompty file of the first edition",
            prompty(
                "---\nmodel:\n  api: chat\n  parameters: {max_tokens: 9}\ninputs:\n  who: {type: string, default: Ana}\n---\nuser:\nHello {{who}}\n",
            ),
            Outputs(json!({"output": "Hello Ana"})),
        ),
        (
            "a prompty file of the second edition",
            prompty(
                "---\nmodel:\n  id: m\n  apiType: chat\n  options: {maxOutputTokens: 9}\ninputs:\n  - {name: who, kind: string, default: Ana}\n---\nuser:\nHello {{who}}\n",
            ),
            Outputs(json!({"output": "Hello Ana"})),
        ),
        (
            "an input of an unknown kind",
            prompty(
                "---\nmodel: m\ninputs:\n  - {name: talk, kind: thread}\n---\nuser:\nHello {{talk}}\n",
            ),
            Refused(&["a.prompty", "inputs.talk", "thread"]),
        ),
        (
            "a mustache template",
            prompty(
                "---\nmodel: m\ntemplate: {format: {kind: mustache}}\n---\nuser:\nHello {{#people}}{{name}}{{/people}}\n",
            ),
            Refused(&["a.prompty", "mustache", "jinja2"]),
        ),
        (
            "an empty answer",
            prompty("---\nmodel: m\n---\nuser:\nnothing\n"),
            Fails(&["node prompty", "no text"]),
        ),
    ]
}

fn load(files: &[(&str, &str)]) -> Result<LoadedPack, String> {
    let map: BTreeMap<String, Vec<u8>> =
        files.iter().map(|(path, text)| ((*path).to_owned(), text.as_bytes().to_vec())).collect();
    let files = PackFiles::from_map(map).unwrap();
    let mut record = scaffold::record_for("test.flow.v1", None, "packs/x", &files)
        .map_err(|error| error.to_string())?;
    record.seal(&files, "2026-01-01T00:00:00.000Z".into());
    LoadedPack::load(&record, &files).map_err(|error| error.to_string())
}

#[test]
fn every_construct_runs_or_is_refused_by_its_name() {
    let server = Server::start(vec![Act::With(Arc::new(|body| {
        let said = body["messages"][0]["content"].as_str().unwrap().trim();
        if said == "nothing" { String::new() } else { said.to_owned() }
    }))]);
    let config = ProviderConfig {
        kind: ProviderKind::OpenAi,
        base_url: Some(server.base.clone()),
        ..ProviderConfig::default()
    };
    let model = OpenAi::new("loop", &config, None);
    let options = RunOptions { python: Some(PythonSettings::default()), ..RunOptions::default() };
    for (what, files, gives) in rows() {
        if files.iter().any(|(name, _)| name.ends_with(".py")) && !running::has_python() {
            continue;
        }
        let ran =
            load(&files).map(|pack| flow::run(&pack, Default::default(), &[], &model, &options));
        match (ran, gives) {
            (Ok(Ok(outcome)), Outputs(outputs)) => {
                assert_eq!(Value::Object(outcome.outputs), outputs, "{what}");
            }
            (Ok(Err(error)), Fails(words)) => {
                let said = error.to_string();
                assert!(words.iter().all(|word| said.contains(word)), "{what}: {said}");
            }
            (Err(said), Refused(words)) => {
                assert!(words.iter().all(|word| said.contains(word)), "{what}: {said}");
            }
            (ran, _) => panic!("{what}: {ran:?}"),
        }
    }
}

/// A folder with a repository of flows, and a home whose provider repeats what it is asked.
struct Repository {
    folder: tempfile::TempDir,
    _server: Server,
}

impl Repository {
    fn new(files: &[(&str, &str)]) -> Repository {
        let server = Server::start(vec![Act::With(Arc::new(|body| {
            body["messages"][0]["content"].as_str().unwrap().trim().to_owned()
        }))]);
        let folder = tempfile::tempdir().unwrap();
        let config = format!(
            "[provider]\ndefault = \"loop\"\n[provider.loop]\nkind = \"openai\"\nbase_url = \"{}\"\nmodel = \"m\"\n",
            server.base
        );
        let repository = Repository { folder, _server: server };
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

    /// What `flow run` prints, or what it says when it fails.
    fn run(&self, arguments: &[&str], stdin: &str) -> Result<String, String> {
        let ran = assert_cmd::Command::new(env!("CARGO_BIN_EXE_summarizer"))
            .env_clear()
            .current_dir(self.folder.path())
            .args(["--home", "home", "--quiet", "flow", "run"])
            .args(arguments)
            .write_stdin(stdin)
            .output()
            .unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap().trim().to_owned();
        if ran.status.success() { Ok(text(ran.stdout)) } else { Err(text(ran.stderr)) }
    }
}

const GREETING: &str = "inputs:\n  who: {type: string, default: Ana}\n  times: {type: int, default: 2}\noutputs:\n  o: {type: string, reference: '${n.output}'}\nnodes:\n- {name: n, type: llm, source: {type: code, path: tone.jinja2}, inputs: {who: '${inputs.who}', times: '${inputs.times}'}, api: chat}\nadditional_includes: [../../shared/tone.jinja2]\n";

#[test]
fn a_flow_runs_where_it_lies_with_inputs_in_every_form() {
    let repository = Repository::new(&[
        ("repo/.git/HEAD", "ref"),
        ("repo/shared/tone.jinja2", "# user:\nHello {{who}} {{times}}"),
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
fn what_a_flow_at_a_path_may_not_do_is_told() {
    let outside = GREETING.replace("../../shared", "../../../elsewhere");
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
    ]);
    let rows: &[(&[&str], &[&str])] = &[
        (&["repo/flows/hello"], &["../../../elsewhere/tone.jinja2", "outside"]),
        (&["repo/flows/gone"], &["../../shared/tone.jinja2", "additional_includes"]),
        (&["repo/two"], &["a.prompty, b.prompty", "name one of these"]),
        (&["repo/one"], &["the flow needs the input who"]),
        (&["repo/one", "whom=Ana"], &["has no input whom", "the inputs of the flow are who"]),
        (&["repo/one", "Ana"], &["`Ana` is no input", "`=`"]),
        (&["repo/one", "--lines"], &["--input"]),
        (&["repo/flex"], &["entry", "there is no file main.py"]),
        (&["repo/sharp"], &["language", "only python"]),
    ];
    for (arguments, words) in rows {
        let said = repository.run(arguments, "").unwrap_err();
        assert!(words.iter().all(|word| said.contains(word)), "{arguments:?}: {said}");
    }
}
