//! Gate D, ours and the original one.

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::{Value, json};
use summarizer::contract::time::Timestamp;
use summarizer::synthesis::finding::{Code, Findings};
use summarizer::synthesis::gates::write_verdict;
use summarizer::synthesis::receipt::Verdict;
use summarizer::synthesis::run_dir::RelPath;

use crate::home::{DEAD_CID, FIRST_CID, Home, errors, perspectives};

const PACK: &str = "summaries/summary-pack.json";

fn built() -> Home {
    let home = Home::demo();
    assert!(home.build().pack.is_some());
    home
}

#[test]
fn the_worked_example_passes_with_its_metrics() {
    let report = built().check().report.unwrap();
    assert_eq!(report.status, Verdict::Pass);
    assert_eq!(
        Value::Object(report.metrics),
        json!({"summary_count_ratio": 1, "max_summary_kb": 0.333984,
            "total_summary_pack_kb": 0.580078, "summary_count": 2, "expected_count": 2,
            "pack_json_kb": 1.232422, "orphan_summaries": 0, "unknown_cids": 0, "raw_urls": 0})
    );
    assert_eq!(report.gate_warnings, ["GATE_C_NOT_PASS"]);
}

/// What one change to a good run makes the check find.
fn after(change: impl FnOnce(&Home)) -> Vec<String> {
    let home = built();
    change(&home);
    errors(&home.check().findings)
}

fn in_pack(change: impl FnOnce(&mut Value)) -> Vec<String> {
    let found = after(|home| home.edit(PACK, change));
    // Any change of the pack is also a pack that its sidecar does not describe.
    assert!(found.contains(&"STALE_PACK".to_owned()), "{found:?}");
    found.into_iter().filter(|code| code != "STALE_PACK").collect()
}

#[test]
fn each_fault_of_a_pack_has_its_code() {
    let entry = |key: &str, value: Value| in_pack(|pack| pack["summaries"][0][key] = value);
    for path in ["/etc/passwd", "../p1.summary.md", "summaries/../../x", "summaries\\p1"] {
        let found = entry("summary_md", json!(path));
        assert_eq!(found, ["PATH_TRAVERSAL", "SUMMARY_COUNT_TOO_LOW"], "{path}");
        assert_eq!(entry("source_artifact", json!(path)), ["PATH_TRAVERSAL"], "{path}");
    }
    assert!(entry("perspective_id", json!("p9")).contains(&"UNKNOWN_PERSPECTIVE".to_owned()));
    assert!(entry("perspective_id", json!("p2")).contains(&"DUPLICATE_PERSPECTIVE_ID".to_owned()));
    assert_eq!(in_pack(|pack| pack["run_id"] = json!("dr_other")), ["RUN_ID_MISMATCH"]);
    assert_eq!(in_pack(|pack| pack["limits"]["max_summary_kb"] = json!(6)), ["LIMITS_MISMATCH"]);
    assert_eq!(in_pack(|pack| pack["limits"]["max_summary_kb"] = json!(5.0)), [""; 0]);
    let claim = |key: &str, value: Value| {
        in_pack(|pack| pack["summaries"][0]["key_claims"][0][key] = value)
    };
    assert_eq!(claim("citation_cids", json!(["cid_nobody"])), ["UNKNOWN_CID"]);
    assert_eq!(claim("citation_cids", json!([DEAD_CID])), ["CITATION_NOT_USABLE"]);
    assert_eq!(claim("citation_cids", json!([])), ["NO_CITED_CLAIMS"]);
    assert_eq!(claim("claim", json!("see https://x.example")), ["RAW_URL_NOT_ALLOWED"]);
}

#[test]
fn every_field_of_the_pack_is_held_to_its_schema() {
    let broken: [(&str, Value); 17] = [
        ("/schema_version", json!("summary_pack.v2")),
        ("/run_id", json!("")),
        ("/generated_at", json!("yesterday")),
        ("/limits", json!({})),
        ("/limits/max_summary_kb", json!(0)),
        ("/summaries", json!({})),
        ("/summaries/0", json!("p1")),
        ("/summaries/0/perspective_id", json!("../p1")),
        ("/summaries/0/source_artifact", json!(7)),
        ("/summaries/0/summary_md", json!("")),
        ("/summaries/0/key_claims", Value::Null),
        ("/summaries/0/key_claims/0/claim", json!(" ")),
        ("/summaries/0/key_claims/0/citation_cids", json!(["a b"])),
        ("/summaries/0/key_claims/0/confidence", json!(101)),
        ("/summaries/0/key_claims/0/confidence", json!(-1)),
        ("/summaries/0/key_claims/0/confidence", json!("80")),
        ("/total_estimated_tokens", json!("149")),
    ];
    for (pointer, value) in broken {
        let found = after(|home| {
            home.edit(PACK, |pack| *pack.pointer_mut(pointer).unwrap() = value.clone());
        });
        assert!(found.contains(&"SCHEMA_VALIDATION_FAILED".to_owned()), "{pointer} {found:?}");
    }
}

#[test]
fn summaries_are_held_to_size_links_and_citations() {
    let summary = |text: &str| after(|home| home.write("summaries/p1.summary.md", text));
    let stale = "STALE_PACK".to_owned();
    assert_eq!(summary("## Findings\n- x [@cid_nobody]\n"), [&stale, "UNKNOWN_CID"]);
    for text in ["http://x", "www.x.example", "![a](b.png)", "<x.example/y>", "HTTPS://X"] {
        assert_eq!(
            summary(&format!("- {text}\n")),
            ["RAW_URL_NOT_ALLOWED", "STALE_PACK"],
            "{text}"
        );
    }
    for (bytes, fits) in [(5119, true), (5120, true), (5121, false)] {
        let text = format!("{}{}", "\u{20ac}".repeat(bytes / 3), "x".repeat(bytes % 3));
        assert_eq!(text.len(), bytes);
        assert_eq!(summary(&text).contains(&"SIZE_CAP_EXCEEDED".to_owned()), !fits, "{bytes}");
    }
    let found = after(|home| fs::remove_file(home.path("summaries/p1.summary.md")).unwrap());
    assert_eq!(found, ["MISSING_SUMMARY", "STALE_PACK", "SUMMARY_COUNT_TOO_LOW"]);
    let found = after(|home| {
        let path = home.path("summaries/p1.summary.md");
        fs::remove_file(&path).unwrap();
        symlink("/etc/hostname", path).unwrap();
    });
    assert_eq!(found, ["PATH_TRAVERSAL", "STALE_PACK", "SUMMARY_COUNT_TOO_LOW"]);
    let found = after(|home| home.write("summaries/p1.summary.md", [0xff]));
    assert_eq!(found, ["NOT_UTF8", "STALE_PACK"]);
}

#[test]
fn a_pack_is_stale_once_its_inputs_change() {
    assert_eq!(after(|home| home.limits(json!(6), json!(60))), ["LIMITS_MISMATCH", "STALE_PACK"]);
    assert_eq!(after(|home| home.write("wave-1/p1.md", "## Findings\n")), ["STALE_PACK"]);
    assert_eq!(after(|home| fs::remove_file(home.path("wave-1/p2.md")).unwrap()), ["STALE_PACK"]);
    assert_eq!(
        after(|home| fs::remove_file(home.path("summaries/summary-pack.meta.json")).unwrap()),
        ["STALE_PACK"]
    );
    let found = after(|home| {
        let rows = home.text("citations/citations.jsonl").replace("\"valid\"", "\"blocked\"");
        home.write("citations/citations.jsonl", rows);
    });
    assert_eq!(found, ["CITATION_NOT_USABLE", "STALE_PACK"]);
}

#[test]
fn missing_perspectives_fail_instead_of_counting_the_pack() {
    let home = built();
    fs::remove_file(home.path("perspectives.json")).unwrap();
    assert!(!home.check().findings.passes());
    // The original gate counts the pack's own entries then.
    let compat = home.check_with(true, false).report.unwrap();
    assert_eq!((compat.status, &compat.metrics["expected_count"]), (Verdict::Pass, &json!(2)));
}

#[test]
fn orphans_are_counted_and_do_not_decide() {
    let home = built();
    home.write("summaries/p9.summary.md", "## Findings\n");
    let checked = home.check();
    assert!(checked.findings.passes() && checked.findings.has(Code::OrphanSummary));
    assert_eq!(checked.report.unwrap().metrics["orphan_summaries"], 1);
}

fn ten(listed: usize) -> Home {
    let home = Home::demo();
    let ids: Vec<String> = (1..=10).map(|n| format!("p{n}")).collect();
    let names: Vec<&str> = ids.iter().map(String::as_str).collect();
    home.json("perspectives.json", &perspectives(&names));
    for id in &names {
        home.write(&format!("wave-1/{id}.md"), format!("## Findings\n- {id} [@{FIRST_CID}]\n"));
    }
    home.build();
    home.edit(PACK, |pack| pack["summaries"].as_array_mut().unwrap().truncate(listed));
    home
}

#[test]
fn nine_of_ten_summaries_pass_unless_a_listed_one_is_missing() {
    for compat in [true, false] {
        let verdict = |home: &Home| {
            let checked = home.check_with(compat, false);
            let low = checked.findings.has(Code::SummaryCountTooLow);
            (checked.report.unwrap().metrics["summary_count_ratio"].clone(), low)
        };
        assert_eq!(verdict(&ten(9)), (json!(0.9), false));
        assert_eq!(verdict(&ten(8)), (json!(0.8), true));
        let home = ten(10);
        fs::remove_file(home.path("summaries/p3.summary.md")).unwrap();
        assert_eq!(verdict(&home), (json!(0.9), false));
        let checked = home.check_with(compat, false);
        assert!(checked.findings.has(Code::MissingSummary));
        assert_eq!(checked.report.unwrap().status, Verdict::Fail);
    }
}

#[test]
fn the_digest_covers_limits_and_contents() {
    let digest = |change: &dyn Fn(&Home)| {
        let home = built();
        change(&home);
        home.check().report.unwrap().inputs_digest
    };
    let plain = digest(&|_| ());
    assert_eq!(plain, digest(&|_| ()));
    assert_ne!(plain, digest(&|home| home.limits(json!(6), json!(60))));
    assert_ne!(
        plain,
        digest(&|home| {
            let text = home.text("summaries/p1.summary.md").replace("40 ms", "41 ms");
            home.write("summaries/p1.summary.md", text);
        })
    );
}

#[test]
fn the_verdict_is_written_with_a_revision_check_and_touches_one_gate() {
    let home = built();
    let report = home.check().report.unwrap();
    let path = RelPath::parse("gates.json").unwrap();
    let now = Timestamp(1_771_063_200_000);
    let write = |expected: Option<u64>| {
        let mut findings = Findings::default();
        let revision =
            write_verdict(&home.run(), &path, &report, expected, now, &mut findings).unwrap();
        (revision, errors(&findings))
    };
    assert_eq!(write(Some(2)), (None, vec!["REVISION_MISMATCH".to_owned()]));
    let before = home.value("gates.json");
    assert_eq!(before["revision"], 3);
    assert_eq!(write(Some(3)), (Some(4), vec![]));
    let mut after = home.value("gates.json");
    assert_eq!(after["gates"]["D"]["status"], "pass");
    assert_eq!(after["gates"]["D"]["checked_at"], "2026-02-14T10:00:00.000Z");
    assert_eq!(after["inputs_digest"], json!(report.inputs_digest));
    after["gates"]["D"] = before["gates"]["D"].clone();
    assert_eq!(after["gates"], before["gates"]);
    assert_eq!(write(None).0, Some(5));
    home.edit("gates.json", |gates| gates["run_id"] = json!("dr_other"));
    assert_eq!(write(None), (None, vec!["RUN_ID_MISMATCH".to_owned()]));
    home.edit("gates.json", |gates| gates["gates"]["A"]["status"] = json!("warn"));
    assert!(write(None).1.contains(&"SCHEMA_VALIDATION_FAILED".to_owned()));
    fs::remove_file(home.path("gates.json")).unwrap();
    assert_eq!(write(None), (None, vec!["NOT_FOUND".to_owned()]));
}
