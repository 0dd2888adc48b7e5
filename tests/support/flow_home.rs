//! A home with its own configuration, requests for its queue, and readers for its acks, log and files.
//! The environment of the program is a test clock, one key, and a path.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "a helper of tests")]
#![allow(dead_code, reason = "each test file uses its own part")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};
use summarizer::contract::ids::Seq;
use summarizer::state::event::Event;

#[allow(unused_imports, reason = "not every test waits")]
pub use super::running::{Running, test_now, until as wait_until};
use super::server::{Act, Server, chat};

/// A flow of one model node whose answer must fit a schema.
pub const FLOW: &str = "gpt.log.annotate.business_meta.v1";
/// A flow that asks no server.
pub const FREE: &str = "writing.outline.generate.v1";
pub const KEY: &str = "sk-this-is-the-secret-0123456789";

/// A list in a list in a list: dropping it recurses.
pub const STACK: &str = "{% set ns = namespace(x=[]) %}{% for i in range(1000) %}{% for j in range(200) %}{% set ns.x = [ns.x] %}{% endfor %}{% endfor %}{{ ns.x }}";
/// Texts that double, each in its own way.
pub const MEMORY: [&str; 4] = [
    "{% set ns = namespace(x='aaaaaaaa') %}{% for i in range(60) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}{{ ns.x }}",
    "{% set ns = namespace(x='aaaaaaaa') %}{% for i in range(60) %}{% set ns.x = ns.x|replace('aaaaaaaa', 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa') %}{% endfor %}{{ ns.x }}",
    "{% set ns = namespace(x='aaaaaaaa') %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x]|join %}{% endfor %}{{ ns.x }}",
    "{% set ns = namespace(x='aaaaaaaa') %}{% for i in range(60) %}{% set ns.x = '%s%s'|format(ns.x, ns.x) %}{% endfor %}{{ ns.x }}",
];
/// Few steps, each of them long.
pub const ENDLESS: &str = "{% set l = range(10000)|list %}{% for i in range(1000) %}{% for j in range(400) %}{% set s = l|sort(reverse=true) %}{% endfor %}{% endfor %}";

pub struct Home(pub tempfile::TempDir);

impl Home {
    pub fn new(config: &str) -> Home {
        let home = Home(tempfile::tempdir().unwrap());
        for folder in ["run", "buses/other"] {
            std::fs::create_dir_all(home.path(folder)).unwrap();
        }
        home.configure(config);
        home
    }

    /// A home whose registry has further packs: the pack of [`FREE`] with other text in its template or flow file.
    pub fn with_packs(settings: &str, packs: &[(&str, &str, String)]) -> Home {
        let home = Home::new(settings);
        home.ok(&["init", "--with-registry"]);
        let dataset = home.path("flow_registry/registry.flow_packs.v1.jsonl");
        let mut lines = std::fs::read_to_string(&dataset).unwrap();
        let record = lines.lines().find(|line| line.contains(&format!("\"{FREE}\""))).unwrap();
        let record: Value = serde_json::from_str(record).unwrap();
        for (id, file, text) in packs {
            let folder = home.path("flow_registry/packs").join(id);
            copy(&home.path("flow_registry/packs").join(FREE), &folder);
            let own = std::fs::read_to_string(folder.join(file)).unwrap();
            std::fs::write(folder.join(file), format!("{own}{text}")).unwrap();
            let hash = home.ok(&["registry", "hash", folder.to_str().unwrap()]);
            let mut record = record.clone();
            record["flow_id"] = (*id).into();
            record["pack_dir"] = format!("packs/{id}").into();
            record["integrity"] = json!({"pack_hash": hash.trim()});
            lines.push_str(&format!("{record}\n"));
        }
        std::fs::write(dataset, lines).unwrap();
        home
    }

    pub fn path(&self, relative: &str) -> PathBuf {
        self.0.path().join(relative)
    }

    pub fn configure(&self, config: &str) {
        std::fs::write(self.path("summarizer.toml"), config).unwrap();
    }

    /// A request for a flow over a text of its own.
    pub fn ask(&self, id: &str, flow: &str, text: &str) {
        self.ask_with(id, flow, text, json!({}));
    }

    pub fn ask_with(&self, id: &str, flow: &str, text: &str, params: Value) {
        self.ask_file(id, flow, &format!("{id}.txt"), text, params);
    }

    /// A request for a flow over a file of this name.
    pub fn ask_file(&self, id: &str, flow: &str, name: &str, text: &str, params: Value) {
        use std::io::Write as _;
        std::fs::write(self.path(&format!("buses/other/{name}")), text).unwrap();
        let line = json!({
            "schema_version": "summary_request.v1", "request_id": id,
            "created_at": "2026-02-19T08:00:00Z", "urgency": "now",
            "requested_by": {"repo": "tests", "component": "paid", "version": "dev"},
            "work": {"output_bus": "summary_bus", "output_kind": "summary_item",
                     "summary_kind": "document_summary", "summary_subkind": "test",
                     "flow_ref": {"kind": "registry", "flow_id": flow}, "params": params},
            "input": {"mode": "ids", "bus": "other", "ids": [name]},
        });
        let mut options = std::fs::OpenOptions::new();
        let queue = options.create(true).append(true).open(self.path("run/queue.jsonl"));
        // One write, because others append too.
        queue.unwrap().write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_summarizer"));
        command.env_clear().env("SUMMARIZER_HOME", self.0.path()).env("LOOP_KEY", KEY);
        command.env("SUMMARIZER_TEST_NOW", test_now());
        // Where the programs are that packs may ask for.
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.args(args).stdin(Stdio::null());
        command
    }

    /// Runs the program with a fixed clock and expects success.
    pub fn ok_at(&self, now: &str, args: &[&str]) {
        let output = self.command(args).env("SUMMARIZER_TEST_NOW", now).output().unwrap();
        // Requests may fail on purpose: then `drain` exits with 1.
        let is_drained = args.contains(&"drain") && output.status.code() == Some(1);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() || is_drained, "{args:?}: {said}");
    }

    pub fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    pub fn ok(&self, args: &[&str]) -> String {
        let output = self.run(args);
        let wrong = String::from_utf8_lossy(&output.stderr).into_owned();
        // Requests may fail on purpose: then `drain` exits with 1.
        let is_drained = args.contains(&"drain") && output.status.code() == Some(1);
        let out = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success() || is_drained, "{args:?}: {wrong}\n{out}");
        out
    }

    pub fn serve(&self) -> Running {
        let mut command = self.command(&["serve"]);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        Running(command.spawn().unwrap())
    }

    pub fn status(&self) -> Value {
        serde_json::from_str(&self.ok(&["--json", "status"])).unwrap()
    }

    /// The acks of one request, in order.
    pub fn acks(&self, id: &str) -> Vec<Value> {
        let text = std::fs::read_to_string(self.path("run/ack.jsonl")).unwrap_or_default();
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        let acks = text[..whole].lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        acks.filter(|ack| ack["request_id"] == id).collect()
    }

    pub fn last_ack(&self, id: &str) -> Value {
        self.acks(id).pop().unwrap_or_else(|| panic!("no ack of {id}"))
    }

    /// Every event with its body; no process may hold the home.
    pub fn events(&self) -> Vec<(Event, Option<Vec<u8>>)> {
        let path = self.path("run/summarizer.redb");
        let disk = summarizer::os::Machine::real().disk;
        let options = summarizer::log::Options::beside(&path);
        let store = summarizer::log::Store::open(disk, &path, options, [7; 16], &mut |_| {});
        let store = store.unwrap();
        let reader = store.reader();
        let mut events = Vec::new();
        reader
            .scan(Seq(1), None, &mut |entry| {
                let event = summarizer::log::codec::decode(entry.tag, entry.version, entry.payload);
                events.push((entry.seq, event.unwrap()));
                std::ops::ControlFlow::Continue(())
            })
            .unwrap();
        let events =
            events.into_iter().map(|(seq, event)| (event, reader.body(seq).unwrap())).collect();
        store.close().unwrap();
        events
    }

    pub fn items(&self) -> Vec<Value> {
        let produced = self.events().into_iter().filter_map(|(event, body)| match event {
            Event::SummaryProduced { .. } => body,
            _ => None,
        });
        produced.map(|body| serde_json::from_slice(&body).unwrap()).collect()
    }

    pub fn facts_of_items(&self) -> Vec<Value> {
        let facts = self.events().into_iter().filter_map(|(event, _)| match event {
            Event::SummaryProduced { input, provenance, .. } => {
                let mut facts = serde_json::to_value(input).unwrap();
                facts["provenance"] = serde_json::to_value(provenance).unwrap();
                Some(facts)
            }
            _ => None,
        });
        facts.collect()
    }

    pub fn charges(&self) -> Vec<(String, u64, bool)> {
        let charges = self.events().into_iter().filter_map(|(event, _)| match event {
            Event::ModelCharged { charge, .. } => {
                let tokens = charge.input_tokens + charge.output_tokens;
                Some((charge.provider, tokens, charge.estimated))
            }
            _ => None,
        });
        charges.collect()
    }

    pub fn responses(&self) -> usize {
        let events = self.events();
        events.iter().filter(|(event, _)| matches!(event, Event::ModelResponded { .. })).count()
    }

    /// Files of the home by relative path, without those that are the store's own.
    pub fn files(&self) -> BTreeMap<String, Vec<u8>> {
        let mut found = BTreeMap::new();
        collect(self.0.path(), self.0.path(), &mut found);
        found
    }
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, to.join(path.file_name().unwrap())).unwrap();
    }
}

fn collect(root: &Path, folder: &Path, found: &mut BTreeMap<String, Vec<u8>>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(root, &path, found);
        } else {
            let name = path.strip_prefix(root).unwrap().to_string_lossy().into_owned();
            found.insert(name, std::fs::read(&path).unwrap_or_default());
        }
    }
}

/// The answer the pack's own test uses.
pub fn good_answer() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden/packs")
        .join(FLOW)
        .join("recorded.txt");
    std::fs::read_to_string(path).unwrap()
}

pub fn good() -> Act {
    chat(&good_answer())
}

/// An OpenAI-compatible provider `loop` that answers for [`FLOW`].
pub fn config(server: &Server, provider: &str, more: &str) -> String {
    format!(
        "{more}\n[provider.loop]\nkind = \"openai\"\nbase_url = \"{}/v1\"\nmodel = \"loop-1\"\n\
         api_key_env = \"LOOP_KEY\"\n{provider}\n[flow.\"{FLOW}\"]\nprovider = \"loop\"\n",
        server.base
    )
}

pub const QUICK: &str =
    "[retry]\nbase_delay = \"10 ms\"\nmax_delay = \"20 ms\"\nmax_attempts = 2\n";
