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

/// One line; `more` has its `meta` and `ts_abs_ms`.
fn item(stream: &str, day: &str, id: &str, text: &str, more: &Value) -> Value {
    json!({
        "schema_version": format!("{}_summary.v1", stream.trim_end_matches('s')),
        "summary_id": id, "day": day, "title": format!("Title of {id}"),
        "outputs": {"summary_text": text, "tags": more["tags"]},
        "meta": more["meta"], "ts_abs_ms": more["ts_abs_ms"],
    })
}

fn publish(bus: &Path, stream: &str, day: &str, items: &[(&str, &str)]) {
    let lines = items.iter().map(|(id, text)| item(stream, day, id, text, &json!({})));
    publish_lines(bus, stream, day, &lines.collect::<Vec<_>>());
}

fn publish_lines(bus: &Path, stream: &str, day: &str, items: &[Value]) {
    let lines: String = items.iter().map(|item| format!("{item}\n")).collect();
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
    assert_eq!((ids[0], ids.len(), ids[2]), ("Cafe-notes", 3, "work"));
    let claims: Vec<&str> = pack["summaries"][2]["key_claims"]
        .as_array()
        .unwrap()
        .iter()
        .map(|claim| claim["claim"].as_str().unwrap())
        .collect();
    assert_eq!(
        claims,
        ["Tests were added.", "Ana fixed the queue.", "It had lost lines, see x.example for why."],
        "a fragment claims nothing"
    );
    let label = &pack["summaries"][1]["key_claims"][0]["citation_cids"][0];
    let table = std::fs::read_to_string(bench.dir.path().join("out/citations/citations.jsonl"));
    let rows = table.unwrap();
    let rows = rows.lines().map(|row| serde_json::from_str::<Value>(row).unwrap());
    let row = rows.filter(|row| row["cid"] == *label).collect::<Vec<_>>();
    assert_eq!(row.len(), 1);
    assert_eq!(row[0]["normalized_url"], "summary-bus:events/2026-02-11/sum_c");
    assert_eq!(row[0]["title"], "Title of sum_c");
    let output = std::fs::read_to_string(bench.dir.path().join("out/wave-1/work.md")).unwrap();
    assert!(output.contains("- They pass. [@s3] (too few words)"), "{output}");
    let (code, checked) = bench.run("check", &["--strict"]);
    assert_eq!(code, 0, "{checked}");
    assert_eq!(bench.build(), (0, answer), "again, the same");
}

#[test]
fn a_claim_of_a_pack_keeps_the_label_of_a_role_and_the_name_of_a_person() {
    let bench = Bench::new(json!([{"id": "sum_r", "day": "2026-02-11"}]));
    let text = "- Assistant: You should take the night bus.\n- Bo Li: The cat needs a sitter.\n\
                - We decided to fly instead.";
    publish(&bench.dir.path().join("buses"), "sessions", "2026-02-11", &[("sum_r", text)]);
    let (code, answer) = bench.build();
    assert_eq!(code, 0, "{answer}");
    let lines: Vec<&str> = text.lines().map(|line| &line[2..]).collect();
    assert_eq!(claims_of(&answer), lines);
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
    for wrong in [
        json!({"id": "sum_a", "text_hash": jcs_hash(&json!("another text")).prefixed()}),
        json!({"id": "sum_a", "partition": "2026-02-11"}),
    ] {
        // Without a day in each item all days are read.
        let items = json!([wrong, {"id": "sum_c"}]);
        assert_eq!(refused(selection(items)), "MANIFEST_MISMATCH");
    }
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

fn claims_of(answer: &Value) -> Vec<&str> {
    let entries = answer["pack"]["summaries"].as_array().unwrap().iter();
    let claims = entries.flat_map(|entry| entry["key_claims"].as_array().unwrap());
    claims.map(|claim| claim["claim"].as_str().unwrap()).collect()
}

#[test]
fn the_ordering_of_a_selection_is_that_of_its_claims() {
    let text = |id: &str| format!("The summary {id} states one thing.");
    let at = |id: &str, ms: i64| {
        item("events", "2026-02-11", id, &text(id), &json!({"ts_abs_ms": ms, "meta": {"x": 1}}))
    };
    let listed = json!([{"id": "sum_n"}, {"id": "sum_l"}, {"id": "sum_m"}]);
    for (ordering, expected) in [
        ("as_listed", ["sum_n", "sum_l", "sum_m"]),
        ("by_time", ["sum_m", "sum_n", "sum_l"]),
        ("by_id", ["sum_l", "sum_m", "sum_n"]),
    ] {
        let bench = Bench::new(json!([]));
        let bus = bench.dir.path().join("buses");
        publish_lines(
            &bus,
            "events",
            "2026-02-11",
            &[at("sum_l", 3), at("sum_m", 1), at("sum_n", 2)],
        );
        let mut manifest = selection(listed.clone());
        manifest["selection"]["ordering"] = json!(ordering);
        manifest["selection_hash"] = json!(jcs_hash(&manifest["selection"]).prefixed());
        bench.select(&manifest);
        let (code, answer) = bench.build();
        assert_eq!(code, 0, "{answer}");
        assert_eq!(claims_of(&answer), expected.map(text), "{ordering}");
    }
}

#[test]
fn private_summaries_stay_out_of_a_pack() {
    let bench = Bench::new(json!([{"id": "sum_p"}, {"id": "sum_q"}]));
    let bus = bench.dir.path().join("buses");
    let line = |id: &str, text: &str, publish: Value| {
        item("events", "2026-02-11", id, text, &json!({"meta": {"publish": publish}}))
    };
    let secret = line("sum_p", "The secret word of the house is heliotrope.", json!(false));
    let open = line("sum_q", "The garden of the house is open on Sunday.", json!(true));
    publish_lines(&bus, "events", "2026-02-11", &[secret.clone(), open]);
    let (code, answer) = bench.build();
    assert_eq!(code, 0, "{answer}");
    assert_eq!(claims_of(&answer), ["The garden of the house is open on Sunday."]);
    let code_is = |one: &&Value| one["code"] == "PRIVATE_ITEM";
    let counted = answer["findings"].as_array().unwrap().iter().find(code_is).unwrap();
    assert_eq!(counted["message"], "1 marked publish: false, and left out", "{answer}");
    let output = std::fs::read_to_string(bench.dir.path().join("out/wave-1/events.md")).unwrap();
    assert!(output.contains("- 1 marked publish: false"), "{output}");
    let mut folders = vec![bench.dir.path().join("out")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let text = std::fs::read_to_string(&path).unwrap();
                assert!(!text.contains("heliotrope"), "{}", path.display());
                assert!(!text.contains("sum_p"), "{}", path.display());
            }
        }
    }
    publish_lines(&bus, "events", "2026-02-11", &[secret, line("sum_q", "x", json!("no"))]);
    let (code, answer) = bench.build();
    assert_eq!((code, &answer["findings"][0]["code"]), (5, &json!("PRIVATE_ITEM")), "{answer}");
}

#[test]
fn a_pack_of_real_summaries_is_statements_and_few_ids() {
    let days = ["2026-02-10", "2026-02-11", "2026-02-12"];
    let text = |day: &str, number: usize| {
        format!(
            "# Session {number}\n\nHi Ana,\n\nThe import of {day} lost {number} lines because the disk \
             was full. Bob moved the archive to the new server on the same evening.\n\n## Next steps\n\n- \
             Tests\n- Ana writes a test that fills the disk number {number} first.\n- Who pays?\n\nThanks\n"
        )
    };
    let bench = Bench::new(json!([]));
    let bus = bench.dir.path().join("buses");
    let mut picked = Vec::new();
    for day in days {
        let name = |number: usize| format!("sum_{}{number:029}", day.replace('-', ""));
        let lines: Vec<Value> = (1..9)
            .map(|n| item("sessions", day, &name(n), &text(day, n), &json!({"meta": {"x": n}})))
            .collect();
        publish_lines(&bus, "sessions", day, &lines);
        picked.extend((1..9).map(|n| json!({"id": name(n), "day": day, "group": "work"})));
    }
    bench.select(&selection(json!(picked)));
    let (code, answer) = bench.build();
    assert_eq!(code, 0, "{answer}");
    let claims = claims_of(&answer);
    let moved = "Bob moved the archive to the new server on the same evening.";
    assert_eq!(claims.iter().filter(|claim| **claim == moved).count(), 1, "said once");
    assert!(claims.iter().all(|claim| claim.split(' ').count() >= 6), "{claims:#?}");
    assert!(claims.len() > 12, "{claims:#?}");
    let read =
        |name: &str| std::fs::read_to_string(bench.dir.path().join("out").join(name)).unwrap();
    let summary = read("summaries/work.summary.md");
    let pack = read("summaries/summary-pack.json");
    let table = read("citations/citations.jsonl");
    let labels: Vec<String> = table
        .lines()
        .map(|row| serde_json::from_str::<Value>(row).unwrap()["cid"].as_str().unwrap().to_owned())
        .collect();
    let marks: usize =
        labels.iter().map(|l| summary.matches(&format!("[@{l}]")).count() * (l.len() + 4)).sum();
    let listed: usize =
        labels.iter().map(|l| pack.matches(&format!("\"{l}\"")).count() * (l.len() + 2)).sum();
    let share = (marks + listed) as f64 / (summary.len() + pack.len()) as f64;
    assert!(share < 0.2, "{share}: {summary}");
    assert_eq!(bench.run("check", &["--strict"]).0, 0);
}

/// The share of ids in what a pack is read from: labels with their marks, the names of the run and of its
/// perspectives, and the whole addresses in the table of labels.
fn share_of_ids(run: &Path) -> f64 {
    let read = |path: std::path::PathBuf| std::fs::read_to_string(path).unwrap();
    let pack = read(run.join("summaries/summary-pack.json"));
    let table = read(run.join("citations/citations.jsonl"));
    let value: Value = serde_json::from_str(&pack).unwrap();
    let entries = value["summaries"].as_array().unwrap();
    let text: String =
        entries.iter().map(|entry| read(run.join(entry["summary_md"].as_str().unwrap()))).collect();
    let rows: Vec<Value> = table.lines().map(|row| serde_json::from_str(row).unwrap()).collect();
    let mut ids = value["run_id"].as_str().unwrap().len();
    ids += entries.iter().map(|one| one["perspective_id"].as_str().unwrap().len()).sum::<usize>();
    for row in &rows {
        let label = row["cid"].as_str().unwrap();
        ids += label.len() + row["normalized_url"].as_str().unwrap().len();
        ids += text.matches(&format!("[@{label}]")).count() * (label.len() + 4);
        ids += pack.matches(&format!("\"{label}\"")).count() * (label.len() + 2);
    }
    ids as f64 / (pack.len() + text.len() + table.len()) as f64
}

#[test]
fn ids_are_less_than_a_fifth_of_a_pack_of_any_size() {
    const FACTS: [&str; 5] = [
        "The pump in cellar # was replaced on Monday.",
        "La feria del libro # empieza en mayo.",
        "Rosa moved archive # to the new server.",
        "The rent of hall # rises to 910 euros.",
        "El techo del taller # pierde agua en el lado norte.",
    ];
    for members in [1, 3, 10, 60] {
        let bench = Bench::new(json!([]));
        let bus = bench.dir.path().join("buses");
        let id = |number: usize| format!("sum_{number:032x}");
        let lines: Vec<Value> = (0..members)
            .map(|number| {
                let text = FACTS[number % FACTS.len()].replace('#', &number.to_string());
                let mut line = item("sessions", "2026-02-10", &id(number), &text, &json!({}));
                line["title"] = "Workshop".into();
                line
            })
            .collect();
        publish_lines(&bus, "sessions", "2026-02-10", &lines);
        let picked: Vec<Value> = (0..members)
            .map(|number| json!({"id": id(number), "day": "2026-02-10", "group": "workshop"}))
            .collect();
        bench.select(&selection(json!(picked)));
        let (code, answer) = bench.build();
        assert_eq!(code, 0, "{answer}");
        assert!(claims_of(&answer).len() >= members, "{answer}");
        let share = share_of_ids(&bench.dir.path().join("out"));
        assert!(share < 0.2, "{members} members: {share}");
    }
}

#[test]
fn the_perspectives_of_a_pack_say_its_objective_or_the_run_says_that_there_is_none() {
    let picked = json!([{"id": "sum_a", "day": "2026-02-10", "group": "work"}]);
    for (notes, title, query) in [
        (json!(null), "work", "no objective was given: the summaries of a selection"),
        (json!(" "), "work", "no objective was given: the summaries of a selection"),
        (
            json!("Why does the queue lose lines?"),
            "work: Why does the queue lose lines",
            "Why does the queue lose lines?",
        ),
    ] {
        let bench = Bench::new(picked.clone());
        let mut manifest = selection(picked.clone());
        manifest["notes"] = notes;
        bench.select(&manifest);
        let (code, answer) = bench.build();
        assert_eq!(code, 0, "{answer}");
        let read = |name: &str| -> Value {
            let path = bench.dir.path().join("out").join(name);
            serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
        };
        assert_eq!(read("perspectives.json")["perspectives"][0]["title"], title);
        assert_eq!(read("manifest.json")["query"]["text"], query);
    }
}

#[test]
fn a_selection_goes_by_the_day_of_the_content_and_knows_its_fields() {
    let bench = Bench::new(json!([]));
    let bus = bench.dir.path().join("buses");
    // The request was made on 15 March, the document is of 3 March.
    let third = 1_772_539_200_000_i64;
    let line = item(
        "documents",
        "2026-03-15",
        "sum_d",
        "The pump was repaired by Ana.",
        &json!({
            "ts_abs_ms": third, "meta": {"stage": "plan", "author": "Rene\u{301}"},
            "tags": ["Cafe\u{301}"]
        }),
    );
    publish_lines(&bus, "documents", "2026-03-15", &[line]);
    let select = |days: [&str; 2], more: &[&str]| {
        let mut process = Command::cargo_bin("summarizer").unwrap();
        process.env_clear().current_dir(bench.dir.path());
        process.args(["--home", ".", "--json", "select", "--bus", "summary_bus"]);
        process.args(["--from", days[0], "--to", days[1], "--out", "chosen.json"]).args(more);
        let output = process.output().unwrap();
        (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    let (march, later) = (["2026-03-01", "2026-03-05"], ["2026-03-14", "2026-03-15"]);
    assert_eq!(select(march, &["--where", "stage=plan", "--where", "day=2026-03-03"]).0, 0);
    let chosen = std::fs::read(bench.dir.path().join("chosen.json")).unwrap();
    let chosen: Value = serde_json::from_slice(&chosen).unwrap();
    assert_eq!(chosen["selection"]["items"], json!([{"id": "sum_d", "day": "2026-03-15"}]));
    assert_eq!(
        chosen["missing_days"],
        json!(["2026-03-01", "2026-03-02", "2026-03-04", "2026-03-05"])
    );
    // The form of characters makes no other word, and the case of a letter no other tag.
    for word in ["tag=CAFÉ", "tag=cafe\u{301}", "author=René", "author=Rene\u{301}"] {
        assert_eq!(select(march, &["--where", word]).0, 0, "{word}");
    }
    assert_eq!(select(march, &["--where", "tag=cafe"]).0, 5);
    assert_eq!(select(later, &[]).0, 5);
    for wrong in [["--where", "strem=documents"], ["--group-by", "nosuch"], ["--group-by", "tag"]] {
        let (code, told) = select(march, &wrong);
        assert!(
            code == 2 && told.contains("stage") && told.contains("stream"),
            "{wrong:?}: {told}"
        );
    }
}

#[test]
fn a_mark_of_digests_and_a_job_shape_the_claims() {
    let bench = Bench::new(json!([{"id": "sum_f"}, {"id": "sum_j"}, {"id": "sum_k"}]));
    let bus = bench.dir.path().join("buses");
    let line = |id: &str, text: &str, structured: Value| {
        let mut line = item("events", "2026-02-11", id, text, &json!({}));
        line["outputs"]["structured"] = structured;
        line
    };
    let job = |company: &str| json!({"job_title": "Data engineer", "company_name": company});
    let pay = "The pay is 2,300 euros a month.";
    publish_lines(
        &bus,
        "events",
        "2026-02-11",
        &[
            line("sum_f", "Your parcel waits for a fee of two euros.", json!({"route": "scam"})),
            line("sum_j", pay, job("Nordwind")),
            line("sum_k", pay, job("Quill")),
        ],
    );
    let (code, answer) = bench.build();
    assert_eq!(code, 0, "{answer}");
    let expected = ["Nordwind", "Quill"].map(|company| format!("Data engineer, {company}: {pay}"));
    assert_eq!(claims_of(&answer), expected);
}
