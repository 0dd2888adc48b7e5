//! The original gate's verdict: its vector, and where it is looser than ours.

use std::fs;

use serde_json::{Value, json};
use summarizer::synthesis::receipt::Verdict;

use crate::home::{Home, golden};

fn original() -> Home {
    let home = Home::demo();
    for name in ["p1.md", "p2.md", "summary-pack.json"] {
        let bytes = fs::read(golden(&format!("original/{name}"))).unwrap();
        home.write(&format!("summaries/{name}"), bytes);
    }
    home
}

#[test]
fn the_vector_of_the_original_gate_is_reproduced() {
    let report = original().check_with(true, false).report.unwrap();
    assert_eq!(report.status, Verdict::Pass);
    assert_eq!(
        Value::Object(report.metrics),
        json!({"summary_count_ratio": 1, "max_summary_kb": 0.356445,
            "total_summary_pack_kb": 0.693359, "summary_count": 2, "expected_count": 2})
    );
    assert_eq!(
        report.inputs_digest,
        "sha256:39222d6957eaec672bae64da3498caf1da0a34cb86bc575e90692521abcd62ca"
    );
    assert_eq!(report.artifacts, ["summaries/summary-pack.json", "summaries"]);
}

#[test]
fn our_gate_refuses_what_the_original_built() {
    assert!(!original().check().findings.passes());
}

#[test]
fn our_packs_pass_the_original_gate() {
    let home = Home::demo();
    home.build();
    assert_eq!(home.check_with(true, false).report.unwrap().status, Verdict::Pass);
}

#[test]
fn foreign_packs_are_judged_by_the_checks_of_the_original_tool() {
    let home = original();
    let judged = |change: &dyn Fn(&mut Value)| {
        home.edit("summaries/summary-pack.json", |pack| change(pack));
        home.check_with(true, false).report.unwrap()
    };
    // Only the version, the entries and the files behind them count.
    let report = judged(&|pack| {
        pack["run_id"] = json!("dr_other");
        pack.as_object_mut().unwrap().shift_remove("limits");
        pack["summaries"][0]["perspective_id"] = json!("nobody");
        pack["summaries"].as_array_mut().unwrap().push(json!("not an object"));
    });
    assert_eq!(report.status, Verdict::Pass);
    let report = judged(&|pack| pack["summaries"][0]["summary_md"] = json!("  "));
    assert_eq!(
        (report.status, &*report.gate_warnings),
        (Verdict::Fail, &["MISSING_SUMMARIES:1".to_owned()][..])
    );
    assert_eq!(report.metrics["summary_count_ratio"], 0.5);
    let twice = judged(&|pack| {
        pack["summaries"][0] = pack["summaries"][1].clone();
        pack["summaries"][2] = pack["summaries"][1].clone();
    });
    assert_eq!((twice.status, &twice.metrics["summary_count_ratio"]), (Verdict::Pass, &json!(1.5)));
    home.edit("summaries/summary-pack.json", |pack| pack["schema_version"] = json!("x"));
    assert!(home.check_with(true, false).report.is_none());
}

#[test]
fn empty_lists_fail_and_sizes_are_those_of_decoded_text() {
    let home = original();
    home.edit("perspectives.json", |value| value["perspectives"] = json!([]));
    let report = home.check_with(true, false).report.unwrap();
    assert_eq!((report.status, &report.metrics["summary_count_ratio"]), (Verdict::Fail, &json!(0)));
    home.edit("perspectives.json", |value| value["schema_version"] = json!("x"));
    // Two bytes that are no text decode to two replacement characters of three bytes each.
    home.write("summaries/p1.md", [0xff, 0xff]);
    let report = home.check_with(true, false).report.unwrap();
    assert_eq!(report.files[0].bytes, 6);
    home.edit("manifest.json", |value| value["status"] = json!("DONE"));
    assert!(home.check_with(true, false).report.is_none());
}
