//! The perspectives document, row by row of its contract.

use serde_json::{Value, json};
use summarizer::synthesis::agents::AgentTypes;
use summarizer::synthesis::finding::{Code, Findings};
use summarizer::synthesis::perspectives::{PerspectiveRules, check};

use crate::home::{errors, perspectives};

fn found(value: &Value) -> Findings {
    let agent_types = AgentTypes::named(AgentTypes::usual().names);
    let rules = PerspectiveRules { agent_types: &agent_types, run_id: Some("dr_demo_001") };
    let mut findings = Findings::default();
    let checked = check(value, "perspectives.json", rules, &mut findings);
    assert_eq!(checked.is_some(), findings.passes());
    findings
}

fn with(pointer: &str, value: Value) -> Value {
    let mut document = perspectives(&["p1", "p2"]);
    if let Some(present) = document.pointer_mut(pointer) {
        *present = value;
        return document;
    }
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    document.pointer_mut(parent).unwrap()[key] = value;
    document
}

fn without(pointer: &str) -> Value {
    let mut document = perspectives(&["p1", "p2"]);
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    document.pointer_mut(parent).unwrap().as_object_mut().unwrap().shift_remove(key).unwrap();
    document
}

const P: &str = "/perspectives/0";
const C: &str = "/perspectives/0/prompt_contract";

#[test]
fn the_minimal_example_is_valid() {
    let value = json!({
        "schema_version": "perspectives.v1", "run_id": "dr_demo_001",
        "created_at": "2026-02-13T12:05:00Z",
        "perspectives": [{"id": "p1", "title": "Technical overview", "track": "standard",
            "agent_type": "ClaudeResearcher",
            "prompt_contract": {"max_words": 900, "max_sources": 12,
                "tool_budget": {"search_calls": 4, "fetch_calls": 6},
                "must_include_sections": ["Findings", "Sources", "Gaps"]},
            "expected_platforms": ["docs", "github", "blog"]}]
    });
    assert_eq!(found(&value), Findings::default());
}

#[test]
fn every_field_has_valid_values() {
    for (pointer, value) in [
        (format!("{P}/id"), json!("P_1-x")),
        (format!("{P}/track"), json!("independent")),
        (format!("{P}/track"), json!("contrarian")),
        (format!("{P}/agent_type"), json!("GrokResearcher")),
        (format!("{C}/max_words"), json!(0.5)),
        (format!("{C}/max_sources"), json!(0)),
        (format!("{C}/tool_budget"), json!({})),
        (format!("{C}/must_include_sections"), json!([])),
        (format!("{P}/expected_platforms"), json!([])),
        (format!("{P}/platform_requirements"), json!([{"name": "x", "reason": "y"}])),
        (format!("{P}/tool_policy"), json!({"primary": ["a"], "secondary": [], "forbidden": []})),
        (format!("{P}/source_artifact"), json!("wave-1/other.md")),
        ("/created_at".to_owned(), json!("2026-02-13T12:05:00.123+02:00")),
    ] {
        assert_eq!(found(&with(&pointer, value.clone())), Findings::default(), "{pointer} {value}");
    }
}

#[test]
fn every_required_field_is_missed_by_name() {
    for pointer in [
        "/schema_version".to_owned(),
        "/run_id".to_owned(),
        "/created_at".to_owned(),
        "/perspectives".to_owned(),
        format!("{P}/id"),
        format!("{P}/title"),
        format!("{P}/track"),
        format!("{P}/agent_type"),
        format!("{P}/prompt_contract"),
        format!("{C}/max_words"),
        format!("{C}/max_sources"),
        format!("{C}/tool_budget"),
        format!("{C}/must_include_sections"),
    ] {
        let findings = found(&without(&pointer));
        let place = format!("${}", pointer.replace("/0", "[0]").replace('/', "."));
        let place = place.replace(".[", "[");
        assert!(findings.sorted().iter().any(|f| f.path == place), "{place} {findings:?}");
    }
}

#[test]
fn every_field_has_values_it_refuses() {
    for (pointer, value, code) in [
        ("/schema_version".to_owned(), json!("perspectives.v2"), "SCHEMA_VALIDATION_FAILED"),
        ("/run_id".to_owned(), json!(" "), "SCHEMA_VALIDATION_FAILED"),
        ("/run_id".to_owned(), json!("dr_other"), "RUN_ID_MISMATCH"),
        ("/created_at".to_owned(), json!("today"), "INVALID_TIMESTAMP"),
        ("/created_at".to_owned(), json!("2026-02-30T00:00:00Z"), "INVALID_TIMESTAMP"),
        ("/perspectives".to_owned(), json!([]), "SCHEMA_VALIDATION_FAILED"),
        ("/perspectives".to_owned(), json!({}), "SCHEMA_VALIDATION_FAILED"),
        (P.to_owned(), json!("p1"), "SCHEMA_VALIDATION_FAILED"),
        (format!("{P}/id"), json!("../x"), "INVALID_ID"),
        (format!("{P}/id"), json!(""), "INVALID_ID"),
        (format!("{P}/id"), json!("p2"), "DUPLICATE_PERSPECTIVE_ID"),
        (format!("{P}/id"), json!("P2"), "DUPLICATE_PERSPECTIVE_ID"),
        (format!("{P}/id"), json!("x".repeat(65)), "INVALID_ID"),
        (format!("{P}/title"), json!(" "), "SCHEMA_VALIDATION_FAILED"),
        (format!("{P}/track"), json!("Standard"), "SCHEMA_VALIDATION_FAILED"),
        (format!("{P}/agent_type"), json!("Nobody"), "UNKNOWN_AGENT_TYPE"),
        (format!("{C}/max_words"), json!(0), "SCHEMA_VALIDATION_FAILED"),
        (format!("{C}/max_words"), json!(-1), "SCHEMA_VALIDATION_FAILED"),
        (format!("{C}/max_words"), json!("900"), "SCHEMA_VALIDATION_FAILED"),
        (format!("{C}/max_sources"), json!(-1), "SCHEMA_VALIDATION_FAILED"),
        (format!("{C}/tool_budget"), json!([]), "SCHEMA_VALIDATION_FAILED"),
        (format!("{C}/tool_budget"), json!({"search_calls": -1}), "SCHEMA_VALIDATION_FAILED"),
        (format!("{C}/tool_budget"), json!({"search_calls": "4"}), "SCHEMA_VALIDATION_FAILED"),
        (format!("{C}/must_include_sections"), json!(["Findings", ""]), "SCHEMA_VALIDATION_FAILED"),
        (format!("{P}/expected_platforms"), json!("docs"), "SCHEMA_VALIDATION_FAILED"),
        (format!("{P}/platform_requirements"), json!([{"name": "x"}]), "SCHEMA_VALIDATION_FAILED"),
        (format!("{P}/tool_policy"), json!({"primary": "a"}), "SCHEMA_VALIDATION_FAILED"),
        (format!("{P}/source_artifact"), json!("/etc/passwd"), "PATH_TRAVERSAL"),
        (format!("{P}/source_artifact"), json!("a/../../b"), "PATH_TRAVERSAL"),
    ] {
        let codes = errors(&found(&with(&pointer, value.clone())));
        assert!(codes.contains(&code.to_owned()), "{pointer} {value} {codes:?}");
    }
}

#[test]
fn all_findings_come_at_once_and_unknown_fields_do_not_decide() {
    let mut document = with(&format!("{P}/track"), json!("other"));
    document["perspectives"][1]["agent_type"] = json!("Nobody");
    document["perspectives"][1]["prompt_contract"]["max_words"] = json!(0);
    assert_eq!(found(&document).errors(), 3);
    let extra = with(&format!("{C}/tone"), json!("dry"));
    let findings = found(&extra);
    assert!(findings.passes() && findings.has(Code::UnknownField));
    assert_eq!(findings.sorted()[0].path, "$.perspectives[0].prompt_contract.tone");
    for garbage in [json!(null), json!([]), json!("x"), json!(1)] {
        assert!(!found(&garbage).passes());
    }
}
