//! Packs from summaries that exist.

use std::collections::BTreeSet;
use std::path::Path;

use assert_cmd::Command;
use serde_json::{Value, json};
use summarizer::bus::BusError;
use summarizer::contract::hash::sha256;
use summarizer::contract::json::jcs_hash;
use summarizer::contract::schema;
use summarizer::synthesis::summary_items::find;

use crate::home::put;

fn publish(bus: &Path, stream: &str, day: &str, items: &[(&str, &str)]) {
    let lines: String = items
        .iter()
        .map(|(id, text)| {
            format!(
                "{}\n",
                json!({
                    "schema_version": format!("{}_summary.v1", stream.trim_end_matches('s')),
                    "summary_id": id, "day": day, "outputs": {"summary_text": text},
                })
            )
        })
        .collect();
    let place = |name: String| {
        let path = bus.join("summaries").join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        path
    };
    put(&place(format!("{stream}/{day}.{stream}.summary.jsonl")), lines.as_bytes());
    let manifest = json!({"schema_version": format!("{stream}_summary_manifest.v1"), "day": day,
        "integrity": {"sha256": sha256(&lines).hex(), "bytes": lines.len()}});
    let path = place(format!("manifest/{day}.{stream}.summary.manifest.json"));
    put(&path, manifest.to_string().as_bytes());
}

fn selection(items: Value) -> Value {
    let selection = json!({"bus": "summary_bus", "items": items, "ordering": "as_listed"});
    let hash = jcs_hash(&selection).prefixed();
    json!({"schema_version": "selection_manifest.v1", "created_at": "2026-02-12T08:00:00Z",
        "created_by": {"repo": "r", "component": "c", "version": "1"},
        "selection": selection, "selection_hash": hash})
}

struct Bench {
    dir: tempfile::TempDir,
}

impl Bench {
    fn new(items: Value) -> Bench {
        let bench = Bench { dir: tempfile::tempdir().unwrap() };
        let bus = bench.dir.path().join("buses");
        publish(
            &bus,
            "sessions",
            "2026-02-10",
            &[
                (
                    "sum_a",
                    "Ana fixed the queue. It had lost lines, see https://x.example/1 for why.",
                ),
                ("sum_b", "- Tests were added [@cid_forged].\n- They pass."),
            ],
        );
        publish(&bus, "events", "2026-02-11", &[("sum_c", "A release was cut.")]);
        bench.select(&selection(items));
        bench
    }

    fn select(&self, manifest: &Value) {
        put(&self.dir.path().join("selection.json"), manifest.to_string().as_bytes());
    }

    fn run(&self, command: &str, extra: &[&str]) -> (i32, Value) {
        let mut process = Command::cargo_bin("summarizer").unwrap();
        process.env_clear().current_dir(self.dir.path()).args(["--json", "pack", command, "out"]);
        let output = process.args(extra).output().unwrap();
        let text = if output.stdout.is_empty() { output.stderr } else { output.stdout };
        (output.status.code().unwrap(), serde_json::from_slice(&text).unwrap())
    }

    fn build(&self) -> (i32, Value) {
        self.run("build", &["--from-selection", "selection.json"])
    }
}

#[test]
fn groups_become_perspectives_and_items_become_citations() {
    let bench = Bench::new(json!([
        {"id": "sum_b", "day": "2026-02-10", "group": "work"},
        {"id": "sum_a", "day": "2026-02-10", "group": "work"},
        {"id": "sum_c", "day": "2026-02-11"},
        {"id": "sum_a", "day": "2026-02-10", "group": "Caf\u{e9} / notes"},
    ]));
    let (code, answer) = bench.build();
    assert_eq!(code, 0, "{answer}");
    let pack = &answer["pack"];
    assert_eq!(schema::check("summary_pack.v1", pack), []);
    assert_eq!(pack["generated_at"], "2026-02-12T08:00:00.000Z");
    let ids: Vec<&str> = pack["summaries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|s| s["perspective_id"].as_str().unwrap())
        .collect();
    assert_eq!((ids[0], ids.len(), ids[2]), ("events", 3, "work"));
    let claims: Vec<&str> = pack["summaries"][2]["key_claims"]
        .as_array()
        .unwrap()
        .iter()
        .map(|claim| claim["claim"].as_str().unwrap())
        .collect();
    assert_eq!(
        claims,
        [
            "Tests were added.",
            "They pass.",
            "Ana fixed the queue.",
            "It had lost lines, see for why."
        ]
    );
    let cid = format!("cid_{}", sha256("summary-bus:events/2026-02-11/sum_c").hex());
    assert_eq!(pack["summaries"][0]["key_claims"][0]["citation_cids"], json!([cid]));
    let (code, checked) = bench.run("check", &["--strict"]);
    assert_eq!(code, 0, "{checked}");
    assert_eq!(bench.build(), (0, answer), "again, the same");
}

#[test]
fn a_selection_with_a_wrong_hash_is_refused() {
    let items = json!([{"id": "sum_a", "day": "2026-02-10"}]);
    let refused = |manifest: Value| {
        let bench = Bench::new(items.clone());
        bench.select(&manifest);
        let (code, answer) = bench.build();
        assert_eq!(code, 5);
        answer["findings"][0]["code"].as_str().unwrap().to_owned()
    };
    let mut edited = selection(items.clone());
    edited["selection"]["items"][0]["id"] = json!("sum_b");
    assert_eq!(refused(edited), "MANIFEST_MISMATCH");
    assert_eq!(refused(selection(json!([{"id": "sum_nobody"}]))), "NOT_FOUND");
    assert_eq!(refused(selection(json!([]))), "SCHEMA_VALIDATION_FAILED");
    assert_eq!(refused(selection(json!([{"id": "../x"}]))), "SCHEMA_VALIDATION_FAILED");
    let bench = Bench::new(items.clone());
    assert_eq!(bench.build().0, 0);
    bench.select(&selection(json!([{"id": "sum_b"}])));
    let (code, answer) = bench.build();
    assert_eq!((code, &answer["findings"][0]["code"]), (5, &json!("RUN_ID_MISMATCH")));
}

#[test]
fn a_day_that_differs_from_its_manifest_is_not_read() {
    let bench = Bench::new(json!([{"id": "sum_a"}]));
    let bus = bench.dir.path().join("buses");
    let data = bus.join("summaries/sessions/2026-02-10.sessions.summary.jsonl");
    put(&data, b"{}\n");
    let ids = BTreeSet::from(["sum_a".to_owned()]);
    assert!(matches!(find(&bus, &ids, None), Err(BusError::Mismatch { .. })));
    let other_day = BTreeSet::from(["2026-02-11".to_owned()]);
    assert!(find(&bus, &ids, Some(&other_day)).unwrap().is_empty());
    assert_eq!(bench.build().0, 5);
}
