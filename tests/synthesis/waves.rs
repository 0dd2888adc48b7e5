//! Wave outputs of whole runs.

use serde_json::json;
use summarizer::synthesis::agents::AgentTypes;
use summarizer::synthesis::receipt::Verdict;
use summarizer::synthesis::wave::{WaveReport, check};

use crate::home::{Home, perspectives};

fn report(home: &Home) -> WaveReport {
    check(&home.run(), &AgentTypes::usual(), &|| ()).unwrap().0
}

fn codes(report: &WaveReport) -> Vec<String> {
    report.findings.iter().map(|f| json!(f.code).as_str().unwrap().to_owned()).collect()
}

fn sidecar(usage: serde_json::Value) -> serde_json::Value {
    json!({"schema_version": "wave-output-meta.v1", "prompt_digest": "sha256:0",
        "agent_run_id": "a", "ingested_at": "2026-02-14T09:30:00Z", "source_input_path": "x",
        "tool_usage": usage})
}

#[test]
fn the_worked_example_keeps_its_contracts() {
    let home = Home::demo();
    let report = report(&home);
    assert_eq!(report.status, Verdict::Pass);
    assert_eq!(codes(&report), ["TOOL_USAGE_UNKNOWN"; 2]);
    let sizes: Vec<_> = report.outputs.iter().map(|o| (o.bytes, o.sources, o.gaps)).collect();
    assert_eq!(sizes, [(Some(345), Some(2), Some(1)), (Some(330), Some(2), Some(1))]);
}

#[test]
fn tool_usage_is_held_to_the_budget() {
    let home = Home::demo();
    for (usage, expected) in [
        (json!({"search_calls": 4, "fetch_calls": 6, "other": 99}), vec![]),
        (json!({"search_calls": 5}), vec!["TOOL_BUDGET_EXCEEDED"]),
        (json!({"search_calls": -1}), vec!["INVALID_TOOL_USAGE"]),
        (json!({"search_calls": "4"}), vec!["INVALID_TOOL_USAGE"]),
        (json!([]), vec!["INVALID_TOOL_USAGE"]),
        (json!(null), vec!["TOOL_USAGE_UNKNOWN"]),
    ] {
        home.json("wave-1/p1.meta.json", &sidecar(usage.clone()));
        home.json("wave-1/p2.meta.json", &sidecar(json!({})));
        assert_eq!(codes(&report(&home)), expected, "{usage}");
    }
    home.write("wave-1/p1.meta.json", "{");
    assert_eq!(codes(&report(&home)), ["INVALID_JSON"]);
}

#[test]
fn missing_outputs_strays_and_both_waves_are_seen() {
    let home = Home::demo();
    home.json("wave-2/wave2-perspectives.json", &perspectives(&["g1"]));
    home.write("wave-1/p7.md", "## Findings\n");
    let report = report(&home);
    let found = codes(&report);
    assert!(found.contains(&"OUTPUT_NOT_FOUND".to_owned()), "{found:?}");
    assert!(found.contains(&"STRAY_FILE".to_owned()), "{found:?}");
    let ids: Vec<_> =
        report.outputs.iter().map(|o| (&*o.perspective_id, o.wave, o.status)).collect();
    assert_eq!(ids, [("g1", 2, Verdict::Fail), ("p1", 1, Verdict::Pass), ("p2", 1, Verdict::Pass)]);
}
