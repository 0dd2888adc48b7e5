//! The commands, as a user runs them.

use assert_cmd::Command;
use serde_json::{Value, json};

use summarizer::contract::schema;
use summarizer::contract::time::Timestamp;
use summarizer::synthesis::draft::{DraftInput, adopt, draft};
use summarizer::synthesis::perspectives::Perspectives;

use crate::home::{Home, perspectives, put};
use crate::running::{Running, until};

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
fn the_audit_log_of_a_run_remembers_a_summary_that_is_no_draft() {
    let home = Home::demo();
    let run = home.root().to_str().unwrap();
    home.write("summaries/p1.md", "## Findings\n\n- Stock text of a template.\n");
    let listed = json!({"summaries": [{"perspective_id": "p1", "summary_md": "summaries/p1.md"}]});
    home.write("summaries/summary-pack.json", listed.to_string());
    for _ in 0..3 {
        let (code, out, err) = summarizer(&["pack", "build", run, "--json"]);
        assert_eq!(code, 0, "{err}");
        let answer: Value = serde_json::from_str(&out).unwrap();
        assert_eq!(answer["pack"]["summaries"][0]["source_artifact"], "wave-1/p1.md");
        for name in ["summary-pack.json", "summary-pack.meta.json"] {
            std::fs::remove_file(home.path("summaries").join(name)).unwrap();
        }
    }
    let audit = home.text("logs/audit.jsonl");
    let last: Value = serde_json::from_str(audit.lines().last().unwrap()).unwrap();
    assert_eq!(schema::check("research_audit.v1", &last), []);
    assert_eq!(last["not_drafts"][0]["path"], "summaries/p1.md");
    home.write("summaries/p1.md", "## Findings\n\n- An agent wrote this.\n");
    let (_, out, _) = summarizer(&["pack", "build", run, "--json"]);
    assert!(out.contains("DRAFT_PREFERRED") && out.contains("summaries/p1.md"), "{out}");
}

/// A home with a configuration.
fn service_home(config: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    put(&dir.path().join("summarizer.toml"), config.as_bytes());
    dir
}

/// The receipts in the log of a home.
fn receipts(home: &str) -> Vec<Value> {
    let (code, out, err) = summarizer(&["--home", home, "--json", "log", "dump"]);
    assert_eq!(code, 0, "{err}");
    let events = out.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let kept = events.filter(|event| event["event"] == "ReceiptKept");
    kept.map(|event| event["receipt"].clone()).collect()
}

#[test]
fn builds_and_checks_are_events_in_the_log_of_a_home() {
    let run = Home::demo();
    let dir = service_home("");
    let (home, run_dir) = (dir.path().to_str().unwrap(), run.root().to_str().unwrap());
    for (expected, args) in [
        (0, vec!["wave", "check", run_dir]),
        (0, vec!["perspectives", "check", run_dir]),
        (0, vec!["pack", "build", run_dir]),
        (0, vec!["pack", "check", run_dir]),
    ] {
        let (code, out, err) = summarizer(&[&["--home", home], &args[..]].concat());
        assert_eq!(code, expected, "{out}{err}");
    }
    run.write("summaries/p1.summary.md", "x".repeat(6000));
    assert_eq!(summarizer(&["--home", home, "pack", "check", run_dir]).0, 1);
    let found = receipts(home);
    let kinds: Vec<&str> = found.iter().map(|one| one["kind"].as_str().unwrap()).collect();
    let built = ["waves_checked", "perspectives_checked", "pack_built", "pack_checked"];
    assert_eq!((&kinds[..4], kinds[4]), (&built[..], "pack_checked"));
    let verdicts: Vec<&str> = found.iter().map(|one| one["verdict"].as_str().unwrap()).collect();
    assert_eq!(verdicts, ["pass", "pass", "pass", "pass", "fail"]);
    // The digests are those of the run's own sidecar.
    let meta = run.value("summaries/summary-pack.meta.json");
    assert_eq!(found[2]["inputs_digest"], meta["inputs_digest"]);
    assert_eq!(found[2]["outputs_digest"], meta["outputs_digest"]);
    for receipt in &found {
        assert_eq!(schema::check("synthesis_receipt.v1", receipt), []);
    }
    // Without a home nothing is made anywhere.
    assert_eq!(summarizer(&["wave", "check", run_dir]).0, 0);
    assert_eq!(receipts(home).len(), 5);
}

#[test]
fn receipts_reach_the_log_of_a_running_service() {
    let run = Home::demo();
    let dir = service_home("");
    let (home, run_dir) = (dir.path().to_str().unwrap(), run.root().to_str().unwrap());
    let program = assert_cmd::cargo::cargo_bin("summarizer");
    let mut serve = std::process::Command::new(program);
    serve.env_clear().args(["--home", home, "-q", "serve"]);
    let serving = Running(serve.spawn().unwrap());
    let socket = dir.path().join("run/summarizer.sock");
    let status = || summarizer(&["--home", home, "--json", "status"]);
    // Only a service answers that it runs. Before there is a socket no process holds the home, and
    // this question would hold it.
    until("the service answers", || {
        let (code, out, _) = if socket.exists() { status() } else { return false };
        let answer: Value = serde_json::from_str(&out).unwrap_or_default();
        code == 0 && answer["session"].is_object()
    });
    for args in [["pack", "build", run_dir], ["pack", "check", run_dir], ["wave", "check", run_dir]]
    {
        let (code, out, err) = summarizer(&[&["--home", home], &args[..]].concat());
        assert_eq!(code, 0, "{out}{err}");
    }
    let beside = receipts(home);
    drop(serving);
    // Killed, not stopped: what the commands said is in the log all the same.
    let found = receipts(home);
    assert_eq!(found, beside);
    let kinds: Vec<&str> = found.iter().map(|one| one["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["pack_built", "pack_checked", "waves_checked"]);
    let meta = run.value("summaries/summary-pack.meta.json");
    assert_eq!(found[0]["inputs_digest"], meta["inputs_digest"]);
    assert_eq!(found[0]["outputs_digest"], meta["outputs_digest"]);
    assert_eq!(found[1]["verdict"], "pass");
}

#[test]
fn runs_and_agents_are_configured() {
    let run = Home::demo();
    let root = run.root().parent().unwrap().to_str().unwrap();
    let id = run.root().file_name().unwrap().to_str().unwrap();
    let config = format!("[synthesis]\nresearch_root = {root:?}\nagent_types = [\"Marvin\"]\n");
    let dir = service_home(&config);
    let home = dir.path().to_str().unwrap();
    run.edit("perspectives.json", |value| {
        value["perspectives"][0]["agent_type"] = "Marvin".into();
    });
    let check = |args: &[&str]| summarizer(&[&["perspectives", "check", id], args].concat());
    let (code, out, err) = check(&["--home", home]);
    assert_eq!(code, 0, "a configured agent beside the known ones: {out}{err}");
    assert_eq!(check(&[]).0, 5, "without the configuration the id leads nowhere");
    let (code, out, _) = check(&["--research-root", root]);
    assert_eq!(code, 0, "without a list of agents an unknown one is a warning: {out}");
    assert!(out.contains("UNKNOWN_AGENT_TYPE"), "{out}");
    let (code, out, _) = check(&["--research-root", root, "--agent-type", "ClaudeResearcher"]);
    assert_eq!(code, 1, "the flag lists all agents: {out}");
    std::fs::create_dir(run.root().join("agents")).unwrap();
    put(&run.root().join("agents/ClaudeResearcher.md"), b"# One agent\n");
    let (code, out, _) = check(&["--research-root", root]);
    assert_eq!(code, 1, "the run lists its agents: {out}");
    assert!(out.contains("the agents are ClaudeResearcher"), "{out}");
    let other = run.value("perspectives.json")["perspectives"][1]["agent_type"].clone();
    put(&run.root().join(format!("agents/{}.md", other.as_str().unwrap())), b"");
    assert_eq!(check(&["--home", home]).0, 0, "a configured agent beside those of the run");
    let elsewhere = tempfile::tempdir().unwrap();
    let elsewhere = elsewhere.path().to_str().unwrap();
    assert_eq!(check(&["--home", home, "--research-root", elsewhere]).0, 5, "a flag wins");
}

#[test]
fn the_rules_of_the_router_flow_hold_for_every_provider() {
    let draft = |home: Option<&str>, objective: &str, count: &str, extra: &[&str]| {
        let mut args = vec!["perspectives", "draft", "--objective", objective, "--count", count];
        args.extend(["--created-at", "2026-02-14T09:00:00Z"]);
        args.extend(extra);
        args.extend(home.iter().flat_map(|home| ["--home", home]));
        let (code, out, err) = summarizer(&args);
        assert_eq!(code, 0, "{err}");
        serde_json::from_str::<Value>(&out).unwrap()
    };
    for objective in ["How are logs compacted?", "x", "¿Qué hacer? <script>", "{{ inputs }}"] {
        for count in ["1", "3", "4", "6", "9"] {
            let drafted = draft(None, objective, count, &[]);
            assert_eq!(schema::check("perspectives.v1", &drafted), [], "{objective}");
            let all = drafted["perspectives"].as_array().unwrap();
            assert_eq!(all.len(), count.parse::<usize>().unwrap(), "{objective}");
            assert_eq!(drafted, draft(None, objective, count, &[]), "deterministic");
            if all.len() >= 4 {
                for track in ["standard", "independent", "contrarian"] {
                    assert!(all.iter().any(|one| one["track"] == track), "{track} of {count}");
                }
            }
        }
    }
    // Somebody else answers, partly against the rules.
    let answer = json!({"perspectives": [
        {"id": "../x", "title": "Mine", "track": "contrarian", "agent_type": "Nobody",
         "prompt_contract": {"max_words": 300, "max_sources": 5,
            "tool_budget": {"search_calls": 1, "fetch_calls": 1},
            "must_include_sections": ["Findings", "Sources", "Gaps"]},
         "expected_platforms": ["docs"]},
        {"id": "p2", "title": "Worthless", "track": "standard", "agent_type": "ClaudeResearcher",
         "prompt_contract": {"max_words": 0, "max_sources": 5,
            "tool_budget": {"search_calls": 1, "fetch_calls": 1},
            "must_include_sections": ["Findings"]},
         "expected_platforms": []},
    ]});
    let dir = service_home("");
    let file = dir.path().join("answer.json");
    put(&file, answer.to_string().as_bytes());
    let config = format!(
        "[provider.other]\nkind = \"command\"\ncommand = [\"cat\", {:?}]\n",
        file.to_str().unwrap()
    );
    put(&dir.path().join("summarizer.toml"), config.as_bytes());
    let home = dir.path().to_str();
    let (drafted, left_out) = adopt(
        &answer,
        DraftInput {
            objective: "Logs",
            count: 3,
            agent_types: &["Ada".to_owned(), "Bob".to_owned()],
            run_id: Some("r"),
            created_at: Timestamp(0),
        },
        plain("Logs", 3),
    );
    assert_eq!(left_out, 1);
    let titles: Vec<&str> = drafted.perspectives.iter().map(|one| &*one.title).collect();
    assert_eq!((titles[0], titles.len()), ("Mine: Logs", 3), "it keeps the objective");
    assert_ne!(titles[1], "Worthless");
    let ids: Vec<&str> = drafted.perspectives.iter().map(|one| &*one.id).collect();
    let agents: Vec<&str> = drafted.perspectives.iter().map(|one| &*one.agent_type).collect();
    assert_eq!((ids, &agents[..2]), (vec!["p1", "p2", "p3"], &["Ada", "Bob"][..]));
    // The same through the command, where the flow's own schema stands before.
    let valid = json!({"perspectives": [answer["perspectives"][0]]});
    let valid = valid.to_string().replace("../x", "p7");
    put(&file, valid.as_bytes());
    let drafted = draft(home, "How are logs compacted?", "3", &["--provider", "other"]);
    assert_eq!(schema::check("perspectives.v1", &drafted), []);
    assert_eq!(drafted["perspectives"][0]["title"], "Mine: How are logs compacted");
    assert_eq!(drafted["perspectives"][0]["id"], "p1");
    assert_eq!(drafted["perspectives"].as_array().unwrap().len(), 3);
    let (code, _, err) =
        summarizer(&["perspectives", "draft", "--objective", "x", "--provider", "nobody"]);
    assert_eq!(code, 2, "{err}");
}

fn plain(objective: &str, count: usize) -> Perspectives {
    let agent_types = &["Ada".to_owned(), "Bob".to_owned()];
    let (run_id, created_at) = (Some("r"), Timestamp(0));
    draft(DraftInput { objective, count, agent_types, run_id, created_at }).unwrap()
}

#[test]
fn a_provider_writes_summaries_and_is_held_to_the_rules() {
    let run = Home::demo();
    let run_dir = run.root().to_str().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let answer = dir.path().join("answer.md");
    let config = format!(
        "[provider.other]\nkind = \"command\"\ncommand = [\"cat\", {:?}]\n\
         [provider.broken]\nkind = \"command\"\ncommand = [\"false\"]\n",
        answer.to_str().unwrap()
    );
    put(&dir.path().join("summarizer.toml"), config.as_bytes());
    let home = dir.path().to_str().unwrap();
    let cid = "cid_027d85a7a2db4469d5d42139d513dc40523bd3d3c2fd742bebd0f5195f897091";
    put(
        &answer,
        format!(
            "## Findings\n- Replays are quick, says the report. [@{cid}]\n\
             - Everybody knows this.\n- Invented. [@cid_{}]\n- See https://evil.example/x\n",
            "0".repeat(64)
        )
        .as_bytes(),
    );
    let build = |provider: &str| {
        let args = ["--home", home, "--json", "pack", "build", run_dir, "--provider", provider];
        let (code, out, err) = summarizer(&args);
        assert_eq!(code, 0, "{out}{err}");
        serde_json::from_str::<Value>(&out).unwrap()
    };
    let built = build("other");
    assert_eq!(built["meta"]["mode"], "provider");
    let claims = &built["pack"]["summaries"][0]["key_claims"];
    assert_eq!(claims.as_array().unwrap().len(), 1, "{claims}");
    assert_eq!(claims[0]["claim"], "Replays are quick, says the report.");
    let summary = run.text("summaries/p1.summary.md");
    assert!(!summary.contains("evil") && !summary.contains("Invented"), "{summary}");
    assert_eq!(summarizer(&["pack", "check", run_dir]).0, 0);
    // Nobody answers: what stands there is what the source itself says.
    let built = build("broken");
    let codes = built["findings"].as_array().unwrap();
    assert!(codes.iter().any(|one| one["code"] == "MODEL_SUMMARY_REJECTED"), "{built}");
    assert!(run.text("summaries/p1.summary.md").contains("took 40 ms"));
    assert_eq!(
        summarizer(&["--home", home, "pack", "build", run_dir, "--provider", "nobody"]).0,
        3
    );
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
