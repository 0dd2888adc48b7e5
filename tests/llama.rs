//! A real llama.cpp server with a tiny random model: its protocol, answers by schema, prompts beyond its
//! context, and its death in the middle of an answer.
//!
//! The tests need the program `llama-server`, on the `PATH` or named by `LLAMA_SERVER`. Without it they say
//! so and end. Its source is in the package `llama-cpp-python` of PyPI; on one core the build takes half an hour:
//!
//! ```text
//! pip download --no-deps --no-binary :all: --no-build-isolation llama-cpp-python   # wants scikit-build-core
//! cmake -S vendor/llama.cpp -B build -DLLAMA_BUILD_SERVER=ON -DLLAMA_CURL=OFF -DLLAMA_OPENSSL=OFF
//! cmake --build build --target llama-server
//! ```
//!
//! The model has random weights: an answer that fits a schema fits because the server constrained it.
#![allow(clippy::unwrap_used, clippy::print_stderr, clippy::disallowed_methods, reason = "a test")]

#[path = "support/gguf.rs"]
mod gguf;

use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

use serde_json::{Map, Value, json};
use summarizer::config::{Profile, ProviderConfig, ProviderKind};
use summarizer::flow::{self, LoadedPack, RunOptions};
use summarizer::model::{
    CallSettings, ErrorClass, Listener, Message, ModelCall, ModelError, ModelReply, OpenAi,
    Provider, ResponseFormat, Role, SourceText, StopReason,
};
use summarizer::os::Machine;
use summarizer::registry::Registry;

/// The environment variable that names the program.
const PROGRAM: &str = "LLAMA_SERVER";
/// Longest wait for a server to begin, and for an answer.
const WAIT: Duration = Duration::from_secs(120);

/// The program, or none and a line that says so.
fn program() -> Option<PathBuf> {
    let named = std::env::var_os(PROGRAM).map(PathBuf::from);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found =
        || std::env::split_paths(&path).map(|at| at.join("llama-server")).find(|at| at.is_file());
    let program = named.or_else(found);
    match &program {
        None => {
            eprintln!("skipped: no llama-server (set {PROGRAM}, or put it on the PATH)");
        }
        Some(at) => assert!(at.is_file(), "{PROGRAM} names {}, which is no file", at.display()),
    }
    program
}

/// The file of the model, written once.
fn model() -> &'static PathBuf {
    static MODEL: OnceLock<(tempfile::TempDir, PathBuf)> = OnceLock::new();
    let (_, path) = MODEL.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("random.gguf");
        std::fs::write(&path, gguf::random_model(7)).unwrap();
        (folder, path)
    });
    path
}

/// A running `llama-server`, ended when it is dropped.
struct Llama {
    child: Mutex<Child>,
    port: u16,
}

impl Llama {
    fn start(program: &PathBuf, context: u32) -> Llama {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        Llama::start_at(program, context, port)
    }

    fn start_at(program: &PathBuf, context: u32, port: u16) -> Llama {
        let mut child = Command::new(program)
            .arg("--model")
            .arg(model())
            .args(["--host", "127.0.0.1", "--port", &port.to_string()])
            .args(["--ctx-size", &context.to_string(), "--parallel", "1", "--threads", "1"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let begun = std::time::Instant::now();
        while !answers(port) {
            assert!(child.try_wait().unwrap().is_none(), "the server ended while it began");
            assert!(begun.elapsed() < WAIT, "the server did not begin");
            std::thread::sleep(Duration::from_millis(50));
        }
        Llama { child: Mutex::new(child), port }
    }

    fn config(&self) -> ProviderConfig {
        ProviderConfig {
            kind: ProviderKind::OpenAi,
            base_url: Some(format!("http://127.0.0.1:{}/v1", self.port)),
            model: Some("random".into()),
            seed: Some(11),
            ..ProviderConfig::default()
        }
    }

    fn provider(&self) -> OpenAi {
        OpenAi::new("llama", &self.config(), None)
    }

    fn kill(&self) {
        let mut child = self.child.lock().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

impl Drop for Llama {
    fn drop(&mut self) {
        let child = self.child.get_mut().unwrap();
        let _ = child.kill();
        let _ = child.wait();
    }
}

/// Whether a server is there and has read its model.
fn answers(port: u16) -> bool {
    let probe = ProviderConfig {
        kind: ProviderKind::OpenAi,
        base_url: Some(format!("http://127.0.0.1:{port}/v1")),
        ..ProviderConfig::default()
    };
    let list = OpenAi::new("probe", &probe, None).models(Duration::from_secs(2));
    list.is_ok_and(|models| models.is_some_and(|models| !models.is_empty()))
}

fn ask(
    provider: &dyn Provider,
    text: &str,
    settings: CallSettings,
    schema: Option<&Value>,
    listener: Option<&dyn Listener>,
) -> Result<ModelReply, ModelError> {
    let messages = [Message::new(Role::System, "Be brief."), Message::new(Role::User, text)];
    provider.call(&ModelCall {
        flow_id: "f.v1",
        variant: None,
        node: "n",
        messages: &messages,
        inputs: &Map::new(),
        sources: &[],
        schema,
        validator: None,
        hints: None,
        settings,
        timeout: WAIT,
        bill: None,
        listener,
        model: None,
        apart: false,
        speakers: None,
        kept_as: "",
    })
}

fn limited(max_tokens: u32) -> CallSettings {
    CallSettings { max_tokens: Some(max_tokens), ..CallSettings::default() }
}

#[test]
fn the_server_speaks_the_protocol_and_keeps_to_a_schema() {
    let Some(program) = program() else { return };
    let server = Llama::start(&program, 8_192);
    let provider = server.provider();
    assert_eq!(
        provider.context_of("random"),
        (8_192, true),
        "the server tells the context of a slot"
    );

    let reply = ask(&provider, "Hello", limited(40), None, None).unwrap();
    assert_eq!((reply.stop, reply.usage.output_tokens), (StopReason::Length, 40));
    assert!(reply.usage.input_tokens > 20 && !reply.text.is_empty(), "{reply:?}");
    assert!(serde_json::from_str::<Value>(&reply.text).is_err(), "random: {}", reply.text);

    let schema = json!({"type": "object", "additionalProperties": false,
        "required": ["kind", "count", "words", "day"], "properties": {
            "kind": {"enum": ["red", "blue"]}, "count": {"type": "integer", "minimum": 0, "maximum": 99},
            "words": {"type": "array", "items": {"type": "string", "maxLength": 8}, "maxItems": 3},
            "day": {"type": ["string", "null"], "maxLength": 10}}});
    let validator = jsonschema::validator_for(&schema).unwrap();
    for seed in 0..8 {
        let settings = CallSettings {
            response_format: ResponseFormat::JsonSchema,
            seed: Some(seed),
            ..limited(2_000)
        };
        let reply = ask(&provider, "Which colour?", settings, Some(&schema), None).unwrap();
        let value: Value = serde_json::from_str(&reply.text).unwrap();
        assert!(validator.is_valid(&value), "{value}");
    }
    assert_eq!(provider.learned(), Vec::<String>::new(), "nothing was refused");
}

/// The pack of a flow.
fn pack(flow_id: &str) -> LoadedPack {
    let registry = Registry::embedded().unwrap();
    let records = registry.records();
    let record =
        records.iter().find(|one| one.flow_id == flow_id && one.variant.is_none()).unwrap();
    let files = registry.files(Machine::real().disk.as_ref(), record).unwrap();
    LoadedPack::load(record, &files).unwrap()
}

#[test]
fn every_pack_gets_a_valid_answer_from_the_first_question() {
    let Some(program) = program() else { return };
    let server = Llama::start(&program, 65_536);
    let config = ProviderConfig { profile: Some(Profile::Small), ..server.config() };
    let provider = OpenAi::new("llama", &config, None);
    let text = "Hola Ana: la reunión es el viernes 6 de marzo a las 10. ¿Puedes traer el contrato?";
    let sources = [SourceText { id: "m1".into(), text: text.into() }];
    for flow_id in [
        "email.gatekeeper.classify.gatekeeper_item.v1",
        "email.triage.extract_event.calendar_event.v1",
        "jobs.posting.screen.job_screening.v1",
        "web.page.categorize.webpage_categorization.v1",
    ] {
        let pack = pack(flow_id);
        let options = RunOptions {
            params: json!({"max_tokens": 20_000}).as_object().unwrap().clone(),
            timeout: WAIT,
            repair_turns: 0,
            ..RunOptions::default()
        };
        let outcome = flow::run(&pack, Map::new(), &sources, &provider, &options);
        let outcome = outcome.unwrap_or_else(|error| panic!("{flow_id}: {:?}", error.problem));
        assert!(!outcome.quality.repaired, "{flow_id}: a random model needs no second question");
        assert!(outcome.warnings.iter().any(|one| one.starts_with("filled by rule")), "{flow_id}");
    }
}

#[test]
fn a_prompt_beyond_the_context_is_refused_learned_and_split() {
    let Some(program) = program() else { return };
    let server = Llama::start(&program, 8_192);
    // The configuration promises more than the server has.
    let config = ProviderConfig { context_tokens: Some(60_000), ..server.config() };
    let provider = OpenAi::new("llama", &config, None);
    let long = "The roof leaks near the chimney. ".repeat(600);
    let error = ask(&provider, &long, limited(100), None, None).unwrap_err();
    assert!(matches!(error, ModelError::OverLimit { .. }), "{error}");
    assert_eq!(provider.context_of("random"), (8_192, true), "the refusal taught it");

    let reply = ask(&provider, "Hello", limited(60_000), None, None).unwrap();
    assert!(reply.usage.total() <= 8_192, "the answer has what the prompt leaves: {reply:?}");
}

/// Kills the server when the first words arrive.
struct Killer<'a> {
    server: &'a Llama,
    heard: Mutex<usize>,
}

impl Listener for Killer<'_> {
    fn heard(&self, text: &str) -> bool {
        let mut heard = self.heard.lock().unwrap();
        *heard += text.len();
        if *heard > 20 {
            self.server.kill();
            *heard = 0;
        }
        true
    }
}

#[test]
fn a_server_killed_in_the_middle_of_an_answer_gives_none_and_is_asked_again() {
    let Some(program) = program() else { return };
    let server = Llama::start(&program, 32_768);
    let provider = server.provider();
    let killer = Killer { server: &server, heard: Mutex::default() };
    let error = ask(&provider, "Tell me all", limited(30_000), None, Some(&killer)).unwrap_err();
    assert_eq!(error.class(), ErrorClass::Transient, "{error}");
    let gone = ask(&provider, "Hello", limited(10), None, None).unwrap_err();
    assert_eq!(gone.class(), ErrorClass::Transient, "{gone}");

    let again = Llama::start_at(&program, 32_768, server.port);
    let reply = ask(&provider, "Hello", limited(10), None, None).unwrap();
    assert_eq!(reply.usage.output_tokens, 10);
    drop(again);
}
