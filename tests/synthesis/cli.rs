//! The commands, as a user runs them.

use assert_cmd::Command;
use serde_json::{Value, json};

use crate::home::{Home, perspectives};

fn summarizer(args: &[&str]) -> (i32, String, String) {
    let mut command = Command::cargo_bin("summarizer").unwrap();
    command.env_clear().args(args);
    let output = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

#[test]
fn build_check_and_gates_in_one_go() {
    let home = Home::demo();
    let run = home.root().to_str().unwrap();
    let (code, out, err) = summarizer(&["pack", "build", run, "--json"]);
    assert_eq!((code, err.as_str()), (0, ""));
    let answer: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(answer["receipt"]["kind"], "pack_built");
    assert_eq!(answer["pack"], home.value("summaries/summary-pack.json"));

    let (code, out, _) =
        summarizer(&["pack", "check", run, "--write-gates", "--expected-revision", "3"]);
    assert_eq!(code, 0, "{out}");
    assert!(out.contains("gates file is at revision 4"), "{out}");
    assert_eq!(home.value("reports/gate-d.json")["status"], "pass");
    assert_eq!(home.value("gates.json")["gates"]["D"]["status"], "pass");
    let (code, out, _) =
        summarizer(&["pack", "check", run, "--write-gates", "--expected-revision", "3"]);
    assert_eq!(code, 5, "{out}");
    assert!(out.contains("REVISION_MISMATCH"));

    home.write("summaries/p1.summary.md", "x".repeat(6000));
    let (code, out, _) = summarizer(&["pack", "check", run, "--json"]);
    assert_eq!(code, 1);
    let answer: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(answer["report"]["status"], "fail");
    assert_eq!(home.value("reports/gate-d.json"), answer["report"]);
    let (code, _, _) = summarizer(&["pack", "check", run, "--compat"]);
    assert_eq!(code, 1);
    let kinds: Vec<String> = home
        .text("logs/audit.jsonl")
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["kind"].as_str().unwrap().into())
        .collect();
    assert_eq!(kinds[..3], ["summary_pack_build", "gate_d_evaluate", "gates_write"]);
}

#[test]
fn a_run_is_found_by_its_id() {
    let home = Home::demo();
    let root = home.root().parent().unwrap().to_str().unwrap();
    let id = home.root().file_name().unwrap().to_str().unwrap();
    assert!(id.starts_with(".tmp"));
    let (code, out, err) = summarizer(&["wave", "check", id, "--research-root", root]);
    assert_eq!(code, 0, "{out}{err}");
    let (code, _, err) = summarizer(&["wave", "check", "dr_nowhere", "--research-root", root]);
    assert_eq!(code, 5);
    assert!(err.contains("dr_nowhere"), "{err}");
    let (code, _, _) = summarizer(&["pack", "build", "/nowhere/at/all"]);
    assert_eq!(code, 5);
}

#[test]
fn perspectives_are_drafted_checked_and_written() {
    let home = Home::demo();
    let run = home.root().to_str().unwrap();
    let draft = |extra: &[&str]| {
        let mut args = vec!["perspectives", "draft", "--objective", "How are logs compacted?"];
        args.extend(["--created-at", "2026-02-14T09:00:00Z", "--run-id", "dr_demo_001"]);
        args.extend(extra);
        summarizer(&args)
    };
    let (code, drafted, _) = draft(&["--count", "5"]);
    assert_eq!((code, &drafted), (0, &draft(&["--count", "5"]).1));
    home.write("draft.json", &drafted);
    let file = home.path("draft.json");
    let file = file.to_str().unwrap();
    assert_eq!(summarizer(&["perspectives", "check", file]).0, 0);
    assert_eq!(summarizer(&["perspectives", "write", run, "--from", file]).0, 0);
    assert_eq!(home.text("perspectives.json"), drafted);
    assert_eq!(summarizer(&["perspectives", "check", run]).0, 0);

    home.json("draft.json", &perspectives(&["../x", "p1", "P1"]));
    let (code, out, _) = summarizer(&["perspectives", "write", run, "--from", file, "--json"]);
    assert_eq!(code, 1);
    let answer: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(answer["receipt"]["verdict"], "fail");
    assert!(
        answer["findings"]
            .as_array()
            .unwrap()
            .iter()
            .any(|f| f["code"] == json!("DUPLICATE_PERSPECTIVE_ID"))
    );
    assert_eq!(home.text("perspectives.json"), drafted, "a bad document changes nothing");
    let (code, _, _) = summarizer(&["perspectives", "check", run, "--agent-type", "Somebody"]);
    assert_eq!(code, 1);
    assert_eq!(draft(&["--count", "0"]).0, 2);
}
