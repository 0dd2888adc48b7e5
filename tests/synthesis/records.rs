//! Every record that is written validates against its schema, and the schemas refuse what they
//! are known to have to refuse.

use serde_json::{Value, json};
use summarizer::contract::schema;
use summarizer::contract::time::Timestamp;
use summarizer::synthesis::perspectives::known_agent_types;
use summarizer::synthesis::run_dir::RelPath;
use summarizer::synthesis::{audit, gate, wave};

use crate::home::{Home, gates, golden, manifest};

fn assert_valid(name: &str, value: &Value) {
    assert_eq!(schema::check(name, value), [], "{name}");
}

#[test]
fn real_output_validates() {
    let home = Home::demo();
    let built = home.build();
    assert_valid("synthesis_receipt.v1", &json!(built.receipt));
    assert_valid("summary_pack.v1", &home.value("summaries/summary-pack.json"));
    assert_valid("summary_pack_meta.v1", &home.value("summaries/summary-pack.meta.json"));
    for compat in [false, true] {
        let checked = home.check_with(compat, false);
        assert_valid("synthesis_receipt.v1", &json!(checked.receipt));
        gate::write_report(&home.run(), &checked.report.unwrap()).unwrap();
        assert_valid("gate_d_report.v1", &home.value("reports/gate-d.json"));
    }
    let (report, receipt) = wave::check(&home.run(), &known_agent_types(), &|| ()).unwrap();
    assert_valid("wave_report.v1", &json!(report));
    assert_valid("synthesis_receipt.v1", &json!(receipt));
    let logs = RelPath::parse("logs").unwrap();
    let now = Timestamp(1_771_063_200_000);
    audit::append(&home.run(), &logs, now, "test", "dr_demo_001", Default::default()).unwrap();
    let line = home.text("logs/audit.jsonl");
    assert_valid("research_audit.v1", &serde_json::from_str(&line).unwrap());
    for line in std::fs::read_to_string(golden("citations.jsonl")).unwrap().lines() {
        assert_valid("citation.v1", &serde_json::from_str(line).unwrap());
    }
}

#[test]
fn the_published_minimal_pack_is_valid() {
    assert_valid(
        "summary_pack.v1",
        &json!({
            "schema_version": "summary_pack.v1", "run_id": "dr_20260213_001",
            "generated_at": "2026-02-13T12:40:00Z",
            "limits": {"max_summary_kb": 5, "max_total_summary_kb": 60},
            "summaries": [{"perspective_id": "p1", "source_artifact": "wave-1/p1.md",
                "summary_md": "summaries/p1.summary.md",
                "key_claims": [{"claim": "X uses Y for Z.", "citation_cids": ["cid_abc"],
                    "confidence": 85}]}],
            "total_estimated_tokens": 4200
        }),
    );
}

#[test]
fn manifests_and_gates_refuse_what_they_must() {
    let good = manifest(std::path::Path::new("/runs/x"));
    assert_valid("manifest.v1", &good);
    for (pointer, value) in [
        ("/status", json!("DONE")),
        ("/stage/current", json!("WAVE_ONE")),
        ("/mode", json!("fast")),
        ("/revision", json!(0)),
        ("/revision", json!(1.5)),
        ("/query/text", json!(" ")),
        ("/limits/max_summary_kb", json!("5")),
        ("/artifacts/root", json!("relative")),
        ("/artifacts/paths/pivot_file", json!("")),
        ("/updated_at", json!("")),
        ("/failures", json!({})),
        ("/stage/history", json!([{"from": "init"}])),
    ] {
        let mut bad = good.clone();
        *bad.pointer_mut(pointer).unwrap() = value;
        assert!(!schema::check("manifest.v1", &bad).is_empty(), "{pointer}");
    }
    let good = gates();
    assert_valid("gates.v1", &good);
    for (pointer, value) in [
        ("/gates/D/status", json!("warn")),
        ("/gates/D/status", json!("pass")),
        ("/gates/D/id", json!("A")),
        ("/gates/D/class", json!("firm")),
        ("/gates/D/artifacts", json!([1])),
        ("/gates/F/status", json!("odd")),
        ("/inputs_digest", json!("")),
        ("/revision", json!(0)),
    ] {
        let mut bad = good.clone();
        *bad.pointer_mut(pointer).unwrap() = value;
        assert!(!schema::check("gates.v1", &bad).is_empty(), "{pointer}");
    }
    let mut soft = good.clone();
    soft["gates"]["F"]["status"] = json!("warn");
    soft["gates"]["F"]["checked_at"] = json!("2026-02-14T10:00:00Z");
    assert_valid("gates.v1", &soft);
    for key in ["inputs_digest", "gates"] {
        let mut bad = good.clone();
        bad.as_object_mut().unwrap().shift_remove(key);
        assert!(!schema::check("gates.v1", &bad).is_empty(), "{key}");
    }
    let mut bad = good;
    bad["gates"].as_object_mut().unwrap().shift_remove("E");
    assert!(!schema::check("gates.v1", &bad).is_empty());
}
