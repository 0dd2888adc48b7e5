//! A run directory for tests: the worked example, changed as a test needs.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use summarizer::os::real::HostDisk;
use summarizer::synthesis::agents::AgentTypes;
use summarizer::synthesis::build::{BuildOptions, PackBuild, build};
use summarizer::synthesis::finding::Findings;
use summarizer::synthesis::gate::{CheckOptions, GateCheck, check};
use summarizer::synthesis::pack::Pack;
use summarizer::synthesis::run_dir::RunDir;
use summarizer::synthesis::url;
use tempfile::TempDir;

pub const FIRST_CID: &str = "cid_027d85a7a2db4469d5d42139d513dc40523bd3d3c2fd742bebd0f5195f897091";
pub const DEAD_CID: &str = "cid_975608c0ac39997261d7914405026860a5f301e50af6fec4f1d346bf9e55c1d3";

pub fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/synthesis/demo").join(name)
}

pub struct Home {
    dir: TempDir,
}

impl Home {
    pub fn demo() -> Home {
        let home = Home { dir: tempfile::tempdir().unwrap() };
        home.json("manifest.json", &manifest(home.root()));
        home.json("gates.json", &gates());
        for (from, to) in [
            ("perspectives.json", "perspectives.json"),
            ("citations.jsonl", "citations/citations.jsonl"),
            ("wave-1/p1.md", "wave-1/p1.md"),
            ("wave-1/p2.md", "wave-1/p2.md"),
        ] {
            home.write(to, fs::read(golden(from)).unwrap());
        }
        home
    }

    pub fn root(&self) -> &Path {
        self.dir.path()
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.root().join(name)
    }

    pub fn write(&self, name: &str, bytes: impl AsRef<[u8]>) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        put(&path, bytes.as_ref());
    }

    pub fn json(&self, name: &str, value: &Value) {
        self.write(name, serde_json::to_vec_pretty(value).unwrap());
    }

    pub fn text(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    pub fn value(&self, name: &str) -> Value {
        serde_json::from_str(&self.text(name)).unwrap()
    }

    /// Changes one JSON file in place.
    pub fn edit(&self, name: &str, change: impl FnOnce(&mut Value)) {
        let mut value = self.value(name);
        change(&mut value);
        self.json(name, &value);
    }

    pub fn limits(&self, each: Value, total: Value) {
        self.edit("manifest.json", |manifest| {
            manifest["limits"]["max_summary_kb"] = each;
            manifest["limits"]["max_total_summary_kb"] = total;
        });
    }

    pub fn run(&self) -> RunDir<'static> {
        RunDir::open(&HostDisk, self.root()).unwrap()
    }

    pub fn build(&self) -> PackBuild {
        self.build_with(false)
    }

    pub fn build_with(&self, strict: bool) -> PackBuild {
        let agent_types = AgentTypes::usual();
        let options = BuildOptions {
            agent_types: &agent_types,
            generated_at: None,
            strict,
            summarize: None,
            progress: &|| (),
        };
        build(&self.run(), &options).unwrap()
    }

    pub fn check(&self) -> GateCheck {
        self.check_with(false, false)
    }

    pub fn check_with(&self, compat: bool, strict: bool) -> GateCheck {
        let agent_types = AgentTypes::usual();
        check(&self.run(), &CheckOptions { agent_types: &agent_types, compat, strict }).unwrap()
    }

    /// The pack as it was written.
    pub fn pack(&self) -> Pack {
        serde_json::from_value(self.value("summaries/summary-pack.json")).unwrap()
    }

    pub fn meta(&self) -> Value {
        self.value("summaries/summary-pack.meta.json")
    }

    pub fn has_pack(&self) -> bool {
        self.path("summaries/summary-pack.json").exists()
    }

    /// Every file below the run with its bytes.
    pub fn snapshot(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let mut files = Vec::new();
        let mut open = vec![self.root().to_path_buf()];
        while let Some(dir) = open.pop() {
            for entry in fs::read_dir(dir).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    open.push(path);
                } else {
                    let bytes = fs::read(&path).unwrap();
                    files.push((path.strip_prefix(self.root()).unwrap().to_path_buf(), bytes));
                }
            }
        }
        files.sort();
        files
    }
}

#[allow(clippy::disallowed_methods, reason = "a fixture need not be durable")]
pub fn put(path: &Path, bytes: &[u8]) {
    fs::write(path, bytes).unwrap();
}

pub fn manifest(root: &Path) -> Value {
    json!({
        "schema_version": "manifest.v1", "run_id": "dr_demo_001",
        "created_at": "2026-02-14T08:00:00Z", "updated_at": "2026-02-14T10:00:00Z",
        "revision": 7, "mode": "standard", "status": "running",
        "query": {"text": "How should logs be compacted?"},
        "stage": {"current": "summaries", "started_at": "2026-02-14T10:00:00Z", "history": []},
        "limits": {"max_wave1_agents": 6, "max_wave2_agents": 6, "max_summary_kb": 5,
            "max_total_summary_kb": 60, "max_review_iterations": 4},
        "agents": {},
        "artifacts": {"root": root, "paths": {"wave1_dir": "wave-1", "wave2_dir": "wave-2",
            "citations_dir": "citations", "summaries_dir": "summaries",
            "synthesis_dir": "synthesis", "logs_dir": "logs", "gates_file": "gates.json",
            "perspectives_file": "perspectives.json",
            "citations_file": "citations/citations.jsonl",
            "summary_pack_file": "summaries/summary-pack.json", "pivot_file": "pivot.json"}},
        "metrics": {}, "failures": []
    })
}

pub fn gates() -> Value {
    let gate = |id: &str, class: &str| {
        json!({"id": id, "name": format!("Gate {id}"), "class": class, "status": "not_run",
            "checked_at": null, "metrics": {}, "artifacts": [], "warnings": [], "notes": ""})
    };
    json!({
        "schema_version": "gates.v1", "run_id": "dr_demo_001", "revision": 3,
        "updated_at": "2026-02-14T09:00:00Z", "inputs_digest": "sha256:0",
        "gates": {"A": gate("A", "hard"), "B": gate("B", "hard"), "C": gate("C", "hard"),
            "D": gate("D", "hard"), "E": gate("E", "hard"), "F": gate("F", "soft")}
    })
}

pub fn perspective(id: &str) -> Value {
    json!({"id": id, "title": format!("Title of {id}"), "track": "standard",
        "agent_type": "ClaudeResearcher",
        "prompt_contract": {"max_words": 900, "max_sources": 12,
            "tool_budget": {"search_calls": 4, "fetch_calls": 6},
            "must_include_sections": ["Findings", "Sources", "Gaps"]}})
}

pub fn perspectives(ids: &[&str]) -> Value {
    json!({"schema_version": "perspectives.v1", "run_id": "dr_demo_001",
        "created_at": "2026-02-14T09:00:00Z",
        "perspectives": ids.iter().map(|id| perspective(id)).collect::<Vec<_>>()})
}

pub fn citation(normalized_url: &str, status: &str) -> Value {
    json!({"cid": url::cid(normalized_url), "status": status, "normalized_url": normalized_url})
}

/// The error codes among findings, as words, sorted and without repeats.
pub fn errors(findings: &Findings) -> Vec<String> {
    let mut codes: Vec<String> = findings
        .sorted()
        .iter()
        .filter(|finding| json!(finding.severity) == "error")
        .map(|finding| json!(finding.code).as_str().unwrap().to_owned())
        .collect();
    codes.sort();
    codes.dedup();
    codes
}
