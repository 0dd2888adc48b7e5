//! Every record that is written validates against its schema, and the schemas refuse what they
//! are known to have to refuse.

use serde_json::{Value, json};
use summarizer::contract::schema;
use summarizer::contract::time::Timestamp;
use summarizer::synthesis::agents::AgentTypes;
use summarizer::synthesis::run_dir::RelPath;
use summarizer::synthesis::{audit, gate_report, wave};

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
        gate_report::write_report(&home.run(), &checked.report.unwrap()).unwrap();
        assert_valid("gate_d_report.v1", &home.value("reports/gate-d.json"));
    }
    let (report, receipt) = wave::check(&home.run(), &AgentTypes::usual(), &|| ()).unwrap();
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

/// A record with one member changed, or left out where the value is `None`.
fn changed(good: &Value, pointer: &str, value: Option<Value>) -> Value {
    let mut record = good.clone();
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    match (record.pointer_mut(parent).unwrap(), value) {
        (Value::Array(items), Some(value)) => items[key.parse::<usize>().unwrap()] = value,
        (object, Some(value)) => object[key] = value,
        (object, None) => {
            let left_out = object.as_object_mut().unwrap().shift_remove(key);
            assert!(left_out.is_some(), "{pointer} is not there");
        }
    }
    record
}

/// Each row: which member, values it may have, values it may not. A required member may not be
/// left out either.
type Rows<'a> = &'a [(&'a str, bool, Vec<Value>, Vec<Value>)];

fn hold(name: &str, good: &Value, rows: Rows<'_>) {
    assert_valid(name, good);
    for (pointer, required, valid, invalid) in rows {
        for value in valid {
            let record = changed(good, pointer, Some(value.clone()));
            assert_eq!(schema::check(name, &record), [], "{name} {pointer} {value}");
        }
        for value in invalid {
            let record = changed(good, pointer, Some(value.clone()));
            assert_ne!(schema::check(name, &record), [], "{name} {pointer} {value}");
        }
        if good.pointer(pointer).is_some() {
            let record = changed(good, pointer, None);
            let refused = !schema::check(name, &record).is_empty();
            assert_eq!(refused, *required, "{name} without {pointer}");
        }
    }
}

#[test]
fn the_schema_of_a_manifest_checks_each_member() {
    let text = || vec![json!("x y"), json!("\u{e9}")];
    let blank = || vec![json!(""), json!(" "), json!(7), Value::Null];
    let number = || (vec![json!(0.5), json!(1), json!(100_000)], vec![json!("5"), Value::Null]);
    let words = |all: &[&str]| all.iter().map(|word| json!(word)).collect::<Vec<_>>();
    let stages = [
        "init",
        "perspectives",
        "wave1",
        "pivot",
        "wave2",
        "citations",
        "summaries",
        "synthesis",
        "review",
        "finalize",
    ];
    let entry = json!({"from": "init", "to": "wave1", "ts": "2026-02-14T09:00:00Z", "reason": "r",
        "inputs_digest": "sha256:0", "gates_revision": 1});
    let without_reason = changed(&entry, "/reason", None);
    let mut rows = vec![
        ("/schema_version", true, vec![json!("manifest.v1")], words(&["manifest.v2", ""])),
        ("/run_id", true, vec![json!("dr_1")], blank()),
        ("/created_at", true, vec![json!("2026-02-14T10:00:00+02:00")], vec![json!(""), json!(1)]),
        ("/updated_at", true, vec![json!("2026-02-14T10:00:00.5Z")], vec![json!(""), json!(1)]),
        ("/revision", true, vec![json!(1), json!(9)], vec![json!(0), json!(1.5), json!("1")]),
        ("/mode", true, words(&["quick", "standard", "deep"]), words(&["fast", "", "Quick"])),
        (
            "/status",
            true,
            words(&["created", "running", "paused", "failed", "completed", "cancelled"]),
            words(&["DONE", ""]),
        ),
        ("/query", true, vec![json!({"text": "q", "constraints": {}})], vec![json!("q")]),
        ("/query/text", true, text(), blank()),
        ("/stage", true, vec![], vec![json!("wave1"), json!({})]),
        ("/stage/current", true, words(&stages), words(&["WAVE_ONE", ""])),
        ("/stage/history", true, vec![json!([entry])], vec![json!({}), json!([without_reason])]),
        ("/limits", true, vec![], vec![json!({}), json!([])]),
        ("/artifacts", true, vec![], vec![json!({}), json!([])]),
        ("/artifacts/root", true, vec![json!("/runs/y")], words(&["relative", ""])),
        ("/artifacts/paths", true, vec![], vec![json!({}), json!([])]),
        ("/metrics", true, vec![json!({"a": 1})], vec![json!([]), json!(1)]),
        ("/failures", true, vec![json!([])], vec![json!({}), json!(1)]),
    ];
    let limits = [
        "/limits/max_wave1_agents",
        "/limits/max_wave2_agents",
        "/limits/max_summary_kb",
        "/limits/max_total_summary_kb",
        "/limits/max_review_iterations",
    ];
    rows.extend(limits.map(|pointer| (pointer, true, number().0, number().1)));
    let paths = [
        "/artifacts/paths/wave1_dir",
        "/artifacts/paths/wave2_dir",
        "/artifacts/paths/citations_dir",
        "/artifacts/paths/summaries_dir",
        "/artifacts/paths/synthesis_dir",
        "/artifacts/paths/logs_dir",
        "/artifacts/paths/gates_file",
        "/artifacts/paths/perspectives_file",
        "/artifacts/paths/citations_file",
        "/artifacts/paths/summary_pack_file",
        "/artifacts/paths/pivot_file",
    ];
    rows.extend(paths.map(|pointer| (pointer, true, vec![json!("some/where.x")], blank())));
    hold("manifest.v1", &manifest(std::path::Path::new("/runs/x")), &rows);
}

#[test]
fn every_row_of_the_gates_holds() {
    let at = || json!("2026-02-14T10:00:00Z");
    let words = |all: &[&str]| all.iter().map(|word| json!(word)).collect::<Vec<_>>();
    let mut rows = vec![
        ("/schema_version", true, vec![json!("gates.v1")], words(&["gates.v2"])),
        ("/run_id", true, vec![json!("dr_1")], vec![json!(""), json!(1)]),
        ("/revision", true, vec![json!(1), json!(7)], vec![json!(0), json!(-1), json!(1.5)]),
        ("/updated_at", true, vec![at()], vec![json!(""), json!(1)]),
        ("/inputs_digest", true, vec![json!("sha256:1")], vec![json!(""), Value::Null]),
        ("/gates", true, vec![], vec![json!({}), json!([])]),
        ("/gates/D/id", true, vec![json!("D")], words(&["A", "d", ""])),
        ("/gates/D/name", true, vec![json!("Summaries")], vec![json!(1)]),
        ("/gates/D/class", true, vec![json!("hard")], words(&["firm", ""])),
        ("/gates/D/status", true, vec![json!("not_run")], words(&["warn", "passed", "pass"])),
        ("/gates/D/checked_at", true, vec![Value::Null, at()], vec![json!(7)]),
        ("/gates/D/metrics", true, vec![json!({"a": 1})], vec![json!([]), json!(1)]),
        ("/gates/D/artifacts", true, vec![json!(["a"])], vec![json!([1]), json!("a")]),
        ("/gates/D/warnings", true, vec![json!(["W"])], vec![json!([1]), json!("W")]),
        ("/gates/D/notes", true, vec![json!("n")], vec![json!(1), Value::Null]),
    ];
    let each = ["/gates/A", "/gates/B", "/gates/C", "/gates/D", "/gates/E", "/gates/F"];
    rows.extend(each.map(|pointer| (pointer, true, vec![], vec![json!({}), json!("pass")])));
    hold("gates.v1", &gates(), &rows);
    // A verdict needs its moment, and only a soft gate may warn.
    for (gate, status, allowed) in [
        ("D", "pass", true),
        ("D", "fail", true),
        ("D", "warn", false),
        ("F", "pass", true),
        ("F", "fail", true),
        ("F", "warn", true),
    ] {
        let with = |checked_at: Value| {
            let judged = changed(&gates(), &format!("/gates/{gate}/status"), Some(json!(status)));
            changed(&judged, &format!("/gates/{gate}/checked_at"), Some(checked_at))
        };
        let valid = |record: &Value| schema::check("gates.v1", record).is_empty();
        assert_eq!(valid(&with(at())), allowed, "{gate} {status}");
        assert!(!valid(&with(Value::Null)), "{gate} {status} at no time");
    }
}

#[test]
fn every_row_of_a_pack_and_of_its_sidecar_holds() {
    let home = Home::demo();
    home.build();
    let text = |value: &str| vec![json!(value)];
    let none = || vec![Value::Null, json!(7)];
    let pack = home.value("summaries/summary-pack.json");
    hold(
        "summary_pack.v1",
        &pack,
        &[
            ("/schema_version", true, vec![], vec![json!("summary_pack.v2"), Value::Null]),
            ("/run_id", true, text("dr"), vec![json!(""), json!(" "), json!(1)]),
            ("/generated_at", true, text("2026-02-14T10:00:00+01:00"), vec![json!("now")]),
            ("/limits", true, vec![], vec![json!({}), json!([]), Value::Null]),
            ("/limits/max_summary_kb", true, vec![json!(0.5)], vec![json!(0), json!("5")]),
            ("/limits/max_total_summary_kb", true, vec![json!(1e6)], vec![json!(-1), json!("6")]),
            ("/summaries", true, vec![], vec![json!({}), Value::Null]),
            ("/summaries/0/perspective_id", true, text("P_1-x"), vec![json!("../x"), json!("")]),
            ("/summaries/0/source_artifact", true, text("wave-2/x.md"), none()),
            ("/summaries/0/summary_md", true, text("summaries/x.md"), vec![json!(""), json!(1)]),
            ("/summaries/0/key_claims", true, vec![json!([])], none()),
            ("/summaries/0/key_claims/0/claim", true, text("x"), vec![json!(" "), json!(1)]),
            (
                "/summaries/0/key_claims/0/citation_cids",
                true,
                vec![json!(["cid_abc"]), json!(["cid_alpha", "a:b"])],
                vec![json!(["a b"]), json!([1]), json!("cid_abc")],
            ),
            (
                "/summaries/0/key_claims/0/confidence",
                true,
                vec![json!(0), json!(100), json!(62.5)],
                vec![json!(-1), json!(100.5), json!("80"), Value::Null],
            ),
            ("/total_estimated_tokens", true, vec![json!(1)], vec![json!("149"), json!(-1)]),
        ],
    );
    let meta = home.value("summaries/summary-pack.meta.json");
    hold(
        "summary_pack_meta.v1",
        &meta,
        &[
            ("/schema_version", true, vec![], text("summary_pack_meta.v2")),
            ("/mode", true, text("provider"), vec![json!(1), Value::Null]),
            ("/generated_at", true, text("2026-02-14T10:00:00Z"), vec![json!(1)]),
            ("/inputs_digest", true, vec![], vec![json!("x"), Value::Null]),
        ],
    );
}

#[test]
fn manifests_and_gates_refuse_invalid_values() {
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
