//! What an item says of its sources, through the real service: ids that the request does not have, and quotes
//! that its sources do not have, are asked about once and then removed, labels that become ids are counted,
//! sources that no question shows count as not used, every item has a short summary, and no published line breaks readers that split at every Unicode line end.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "helpers of a test may panic")]

#[path = "support/flow_home.rs"]
#[allow(unused_imports, reason = "it serves other tests too")]
mod flow_home;
#[path = "support/running.rs"]
mod running;
#[path = "support/server.rs"]
mod server;

use flow_home::Home;
use serde_json::{Value, json};
use server::{Act, Server, chat};
use summarizer::registry::Registry;

const WEEKLY: &str = "digest.weekly.summarize.weekly_digest.v1";

fn weekly(ids: &[&str]) -> String {
    json!({
        "title": "Week 7", "summary_text": "The roof was repaired. Ana paid the bill.",
        "highlights": [{"text": "The roof was repaired.", "summary_ids": ids}],
        "by_project": [], "decisions": [],
        "open_tasks": [{"text": "Call Bob.", "first_seen_day": null, "summary_ids": ids}],
        "risks": [], "tags": ["Roof", "roof", "bill"],
    })
    .to_string()
}

fn config(server: &Server, flow: &str) -> String {
    format!(
        "[provider.loop]\nkind = \"openai\"\nbase_url = \"{}/v1\"\nmodel = \"loop-1\"\n\
         [flow.\"{flow}\"]\nprovider = \"loop\"\n",
        server.base
    )
}

fn only_item(home: &Home) -> Value {
    let mut items = home.items();
    assert_eq!(items.len(), 1);
    items.remove(0)
}

#[test]
fn ids_that_the_request_does_not_have_are_asked_about_once_and_then_removed() {
    let made_up = weekly(&["other:week.txt", "sum_fake", "1"]);
    let server = Server::start(vec![chat(&made_up), chat(&made_up)]);
    let home = Home::new(&config(&server, WEEKLY));
    home.ask("week", WEEKLY, "The roof was repaired on Monday. Ana paid the bill. Call Bob.");
    home.ok(&["drain"]);
    assert_eq!(home.last_ack("week")["status"], "completed");
    let seen = server.seen();
    assert_eq!(seen.len(), 2, "one repair turn, not more");
    let complaint = seen[1].body["messages"].as_array().unwrap().last().unwrap()["content"].clone();
    let complaint = complaint.as_str().unwrap();
    assert!(complaint.contains("sum_fake") && complaint.contains("other:week.txt"), "{complaint}");
    let item = only_item(&home);
    let outputs = &item["outputs"];
    let known = json!(["other:week.txt"]);
    assert_eq!(outputs["structured"]["highlights"][0]["summary_ids"], known, "{outputs:#}");
    assert_eq!(outputs["structured"]["open_tasks"][0]["summary_ids"], known);
    let quality = &outputs["quality"];
    assert_eq!(quality["removed_ids_count"], 2);
    let removed = json!({"pointer": "/highlights/0/summary_ids/1", "id": "sum_fake"});
    assert_eq!(quality["removed_ids"][0], removed);
    let label =
        json!({"pointer": "/highlights/0/summary_ids/2", "label": "1", "ids": ["other:week.txt"]});
    assert_eq!(
        (&quality["replaced_labels_count"], &quality["replaced_labels"][0]),
        (&json!(2), &label)
    );
    assert!(!quality["checks"].as_array().unwrap().contains(&json!("source_ids_known")));
    assert_eq!(outputs["tags"], json!(["Roof", "bill"]), "tags are folded by letter case");
    home.ok(&["verify"]);
}

#[test]
fn an_answer_that_is_corrected_keeps_its_ids() {
    let server =
        Server::start(vec![chat(&weekly(&["sum_fake"])), chat(&weekly(&["other:week.txt"]))]);
    let home = Home::new(&config(&server, WEEKLY));
    home.ask("week", WEEKLY, "The roof was repaired on Monday. Ana paid the bill. Call Bob.");
    home.ok(&["drain"]);
    let quality = only_item(&home)["outputs"]["quality"].clone();
    assert_eq!((&quality["repaired"], &quality["removed_ids"]), (&json!(true), &Value::Null));
    assert!(quality["checks"].as_array().unwrap().contains(&json!("source_ids_known")));
}

#[test]
fn a_source_that_no_question_shows_counts_as_not_used() {
    let server = Server::start(vec![chat("The first text is about a roof.")]);
    let home = Home::new(&config(&server, "tests.first.v1"));
    let folder = home.path("tests.first.v1");
    std::fs::create_dir_all(&folder).unwrap();
    let dag = "inputs:\n  text:\n    type: string\noutputs:\n  answer:\n    type: string\n    \
               reference: ${say.output}\nnodes:\n- name: say\n  type: llm\n  source:\n    type: \
               code\n    path: say.jinja2\n  inputs:\n    text: ${inputs.text}\n  connection: c\n  \
               api: chat\n";
    std::fs::write(folder.join("flow.dag.yaml"), dag).unwrap();
    std::fs::write(folder.join("say.jinja2"), "# user:\nSum up: {{ text[:90] }}\n").unwrap();
    home.ok(&["init", "--with-registry"]);
    home.ok(&["registry", "add", folder.to_str().unwrap()]);
    home.ask("b", "tests.first.v1", "Nobody reads that the cellar is wet and that the lamp broke.");
    std::fs::remove_file(home.path("run/queue.jsonl")).unwrap();
    home.ask("a", "tests.first.v1", "The roof leaks over the door since the storm of last Monday.");
    let queue = std::fs::read_to_string(home.path("run/queue.jsonl")).unwrap();
    let both = queue.replace("[\"a.txt\"]", "[\"a.txt\",\"b.txt\"]");
    std::fs::write(home.path("run/queue.jsonl"), both).unwrap();
    home.ok(&["drain"]);
    let ack = home.last_ack("a");
    assert_eq!(ack["status"], "completed", "{ack}");
    let facts = home.facts_of_items();
    assert_eq!(facts[0]["counts"], json!({"sources": 2, "used": 1, "skipped": 1}));
    let item = only_item(&home);
    let selection = &item["selection"];
    assert_eq!(selection["counts"], json!({"sources": 2, "used": 1, "skipped": 1}));
    assert_eq!(selection["skip_reasons"], json!({"unused_cut_for_size": 1}));
    let coverage = &item["outputs"]["coverage"];
    assert_eq!(coverage["skipped"][0]["id"], "other:b.txt", "{coverage}");
    assert!(coverage["chars_covered"].as_u64() < coverage["chars_total"].as_u64());
    let day = item["day"].as_str().unwrap();
    let manifest =
        home.path(&format!("buses/summaries/manifest/{day}.documents.summary.manifest.json"));
    let manifest: Value = serde_json::from_slice(&std::fs::read(manifest).unwrap()).unwrap();
    assert_eq!(manifest["source_skip_reasons"], json!({"unused_cut_for_size": 1}));
    home.ok(&["verify"]);
    home.ok(&["explain", item["summary_id"].as_str().unwrap(), "--verify"]);
}

#[test]
fn a_text_is_read_on_its_own_day_wherever_it_is_filed() {
    let home = Home::new("");
    let text =
        "---\ndate: 2026-01-10\n---\nThe roof was repaired on Saturday by Ana for 240 euros.\n";
    home.ask("one", "docs.chunk_set.summarize.brief.v1", text);
    home.ok(&["drain", "--digests"]);
    assert_ne!(
        only_item(&home)["day"],
        "2026-01-10",
        "a text of this bus is filed under its request"
    );
    for args in [&["read"][..], &["read", "--day", "2026-01-10"], &["search", "roof"]] {
        let shown = home.ok(args);
        assert!(shown.contains("2026-01-10") && shown.contains("240 euros"), "{args:?}: {shown}");
    }
    assert!(home.ok(&["digest", "show", "--day", "2026-01-10"]).contains("240 euros"));
}

#[test]
fn no_published_line_has_a_raw_line_separator() {
    let home = Home::new("");
    let odd = "The roof\u{2028}was repaired on Monday by Ana.\u{2029}The bill of the roof was paid \
               by Bob on Tuesday.\u{85}Nothing is open in the house.\n";
    home.ask("one", "docs.chunk_set.summarize.brief.v1", odd);
    home.ask("tw\u{2028}o", WEEKLY, odd);
    home.ask_with("skip\u{2029}ped", WEEKLY, "", json!({"x\u{2028}": "y\u{2029}"}));
    let mut queue = std::fs::read_to_string(home.path("run/queue.jsonl")).unwrap();
    queue.push_str(
        "{\"request_id\": \"bad\u{2028}\", \"x\": \"\u{2029}\"}\nno json \u{85}\u{2028}\n",
    );
    std::fs::write(home.path("run/queue.jsonl"), queue).unwrap();
    home.ok(&["drain"]);
    home.ok(&["digest", "build"]);
    assert!(home.items().len() >= 2);
    let mut lines = 0;
    for (path, bytes) in home.files() {
        let is_json = [".json", ".jsonl"].iter().any(|ending| path.ends_with(ending));
        if !is_json || path == "run/queue.jsonl" || path.starts_with("buses/other/") {
            continue;
        }
        let text = String::from_utf8(bytes).unwrap();
        assert!(!text.contains(['\u{85}', '\u{2028}', '\u{2029}']), "{path}: {text}");
        for line in text.lines().filter(|_| path.ends_with(".jsonl")) {
            serde_json::from_str::<Value>(line).unwrap();
            lines += 1;
        }
    }
    assert!(lines > 5, "{lines}");
    assert_eq!(home.last_ack("tw\u{2028}o")["status"], "completed");
    home.ok(&["verify"]);
}

#[test]
fn a_pack_is_made_from_published_summaries_in_three_commands() {
    let home = Home::new("");
    home.ask(
        "roof",
        "docs.chunk_set.summarize.brief.v1",
        "The roof was repaired on Monday by Ana. It had leaked since the storm of last week.",
    );
    let private = json!({"publish": false});
    home.ask_with(
        "diary",
        "docs.chunk_set.summarize.brief.v1",
        "The diary says that the heliotrope blooms in the garden of Ana.",
        private,
    );
    home.ok(&["drain"]);
    let item = home.items().into_iter().find(|item| item["source_ids"][0] == "other:roof.txt");
    let day = item.unwrap()["day"].as_str().unwrap().to_owned();
    let shown = home.ok(&[
        "select",
        "--bus",
        "summary_bus",
        "--day",
        &day,
        "--group-by",
        "flow_id",
        "--name",
        "week",
    ]);
    let manifest = home.path("buses/selection_manifests/week.json");
    assert!(shown.contains(manifest.to_str().unwrap()), "{shown}");
    let manifest: Value = serde_json::from_slice(&std::fs::read(manifest).unwrap()).unwrap();
    assert_eq!(manifest["counts"], json!({"candidates": 2, "selected": 1, "dropped": 1}));
    assert_eq!(manifest["drop_reasons"], json!({"private": 1}));
    assert_eq!(summarizer::contract::schema::check("selection_manifest.v1", &manifest), []);
    let manifest = home.path("buses/selection_manifests/week.json");
    let out = home.path("out");
    let (manifest, out) = (manifest.to_str().unwrap(), out.to_str().unwrap());
    home.ok(&["pack", "build", "--from-selection", manifest, out]);
    home.ok(&["pack", "check", out, "--strict"]);
    let pack = std::fs::read_to_string(home.path("out/summaries/summary-pack.json")).unwrap();
    assert!(
        pack.contains("The roof was repaired on Monday by Ana.") && !pack.contains("heliotrope")
    );
    let none = home.run(&["select", "--bus", "summary_bus", "--day", "1999-01-01"]);
    assert_eq!(none.status.code(), Some(5));
    let range = |first: &str, last: &str| {
        let args = ["--json", "select", "--bus", "summary_bus", "--from", first, "--to", last];
        home.run(&args)
    };
    for [first, last] in [["2026-02-20", "2026-02-01"], ["1926-01-01", "2026-01-01"]] {
        assert_eq!(range(first, last).status.code(), Some(2), "{first} to {last}");
    }
    let before: chrono::NaiveDate = day.parse().unwrap();
    let before = (before - chrono::Days::new(2)).to_string();
    let selected: Value = serde_json::from_slice(&range(&before, "2035-01-01").stdout).unwrap();
    let missing = selected["missing_days"].as_array().unwrap();
    assert_eq!(missing[0], json!(before));
    let today = missing.last().unwrap();
    assert_eq!(*today, json!("2026-03-02"), "days that are still to come are not missing");
    // A day that is published without a summary is no missing one.
    home.ok(&["day", "open", &before]);
    let selected: Value = serde_json::from_slice(&range(&before, "2035-01-01").stdout).unwrap();
    assert_eq!(selected["empty_days"], json!([before]));
    assert!(!selected["missing_days"].as_array().unwrap().contains(&json!(before)));
}

/// A note in a file of its own; the text stays the same.
fn write_note(home: &Home, front: &str) {
    let text = format!("---\n{front}---\nThe roof was repaired on Monday. Ana paid the bill.\n");
    std::fs::write(home.path("buses/other/note.md"), text).unwrap();
}

#[test]
fn the_context_of_a_text_is_part_of_the_work() {
    let home = Home::new("");
    let fronts = [
        "title: Roof\n",
        "title: House\n",
        "title: House\ndate: 2026-02-11\n",
        "title: House\ndate: 2026-02-11\nauthor: Ana\n",
        "title: House\ndate: 2026-02-11\nauthor: Ana\npublish: false\n",
        "title: House\ndate: 2026-02-11\nauthor: Ana\npublish: true\n",
    ];
    let mut made = std::collections::BTreeSet::new();
    for front in fronts {
        write_note(&home, front);
        for _ in 0..2 {
            home.ok(&["submit", "--flow", "docs.chunk_set.summarize.brief.v1", "--id", "note.md"]);
            home.ok(&["drain"]);
        }
        let ids: Vec<String> = home
            .items()
            .iter()
            .map(|item| item["summary_id"].as_str().unwrap().to_owned())
            .collect();
        made.extend(ids.iter().cloned());
        assert_eq!(ids.len(), made.len());
    }
    assert_eq!(made.len(), fronts.len(), "each change is new work, and a repeat is not");
    home.ok(&["verify"]);
}

#[test]
fn a_derived_key_whose_source_became_private_says_so() {
    let home = Home::new("");
    let flow = "docs.chunk_set.summarize.brief.v1";
    home.ask("first", flow, "The roof was repaired on Monday. Ana paid the bill.");
    home.ok(&["drain"]);
    assert_eq!(home.last_ack("first")["warnings"], json!([]));
    let text = "---\npublish: false\n---\nThe roof was repaired on Monday. Ana paid the bill.";
    std::fs::write(home.path("buses/other/first.txt"), text).unwrap();
    let queue = std::fs::read_to_string(home.path("run/queue.jsonl")).unwrap();
    let again = queue.lines().next().unwrap().replace("\"first\"", "\"second\"");
    std::fs::write(home.path("run/queue.jsonl"), format!("{queue}{again}\n")).unwrap();
    home.ok(&["drain"]);
    let ack = home.last_ack("second");
    assert_eq!(
        (&ack["status"], &ack["warnings"]),
        (&json!("duplicate"), &json!(["source_changed", "source_private"]))
    );
}

#[test]
fn a_source_without_a_time_shows_none() {
    let home = Home::new("");
    for (front, precision) in [
        ("title: Roof\n", json!("none")),
        ("title: Roof\ndate: 2026-02-11\n", json!("day")),
        ("title: Roof\ndate: 2026-02-11T10:00:00+01:00\n", Value::Null),
        ("title: Roof\ndate: 2026-02-11 00:30:00 +0900\n", Value::Null),
    ] {
        write_note(&home, front);
        home.ok(&["submit", "--flow", "docs.chunk_set.summarize.brief.v1", "--id", "note.md"]);
        home.ok(&["drain"]);
        let items = home.items();
        let item = items.last().unwrap();
        assert_eq!(item["meta"].get("ts_precision").cloned().unwrap_or_default(), precision);
        if front.contains("+0900") {
            assert_eq!(item["ts_abs"], "2026-02-10T15:30:00.000Z");
        }
    }
}

#[test]
fn an_item_of_several_sources_shows_no_hour_that_none_of_them_has() {
    let home = Home::new("");
    for (name, date) in [("day.md", "2026-02-10"), ("hour.md", "2026-02-11T10:00:00Z")] {
        let note = format!("---\ndate: {date}\n---\n\nThe roof costs 900 EUR in March.\n");
        std::fs::write(home.path("buses/other").join(name), note).unwrap();
    }
    for ids in [["day.md", "hour.md"], ["hour.md", "day.md"]] {
        let flow = "docs.chunk_set.summarize.brief.v1";
        home.ok(&["submit", "--flow", flow, "--id", ids[0], "--id", ids[1]]);
        home.ok(&["drain"]);
        let items = home.items();
        let item = items.last().unwrap();
        assert_eq!(item["ts_abs"], "2026-02-10T12:00:00.000Z");
        assert_eq!(item["meta"]["ts_precision"], "day", "{ids:?}");
    }
}

#[test]
fn a_parameter_that_replaces_the_sources_or_is_misspelled_is_refused() {
    let home = Home::new("");
    let flow = "docs.chunk_set.summarize.brief.v1";
    let text = "The roof was repaired on Monday. Ana paid the bill.";
    for (id, param, told) in [
        ("one", "text", "would replace the text"),
        ("two", "Messages", "would replace the text"),
        ("three", "sources", "would replace the text"),
        ("four", "chunks", "would replace the text"),
        ("five", "renderprofile", "did you mean render_profile?"),
        ("six", "max_token", "did you mean max_tokens?"),
    ] {
        home.ask_with(id, flow, text, json!({param: "Another text."}));
        home.ok(&["drain"]);
        let ack = home.last_ack(id);
        assert_eq!(ack["reason_code"], "invalid_params", "{ack}");
        assert!(ack["message"].as_str().unwrap().contains(told), "{ack}");
    }
    // Another form of the main input is text too.
    let said = json!([{"role": "user", "text": "Mars is ours."}]);
    home.ask_with(
        "seven",
        "gpt.session.summarize.parsed_message.v3",
        text,
        json!({"messages": said}),
    );
    home.ok(&["drain"]);
    assert_eq!(home.last_ack("seven")["reason_code"], "invalid_params");
    // Null is absence.
    home.ask_with("null", flow, text, json!({"chunks": null, "text": null, "project": "null"}));
    home.ok(&["drain"]);
    assert_eq!(home.last_ack("null")["status"], "completed");
    home.ask_with("own", flow, text, json!({"note_of_my_producer": 1, "project": "roof"}));
    home.ok(&["drain"]);
    let ack = home.last_ack("own");
    assert_eq!(
        (&ack["status"], &ack["warnings"]),
        (&json!("completed"), &json!(["unknown_param"]))
    );
}

/// What a source says of itself stands in every flow, whatever a parameter says instead.
#[test]
fn no_parameter_replaces_a_fact_that_a_source_says() {
    let home = Home::new("");
    let text = "---\ntitle: Roof repair\nauthor: Ana Ruiz\ndate: 2026-02-12\ntags: [house]\nproject: flat\n\
                url: https://example.org/roof\n---\nThe roof was repaired on Monday. Ana paid 90 EUR. \
                Please confirm the bill until Friday.\n";
    let said =
        ["title", "author", "date", "day", "ts", "id", "origin", "origin.url", "origin.path"];
    let mut asked = Vec::new();
    for record in Registry::embedded().unwrap().records() {
        if record.variant.is_some() {
            continue;
        }
        let bound = record.io_contract.inputs.iter().filter_map(|input| {
            let from = input.from.as_ref()?.to_string();
            let field = from.strip_prefix("source.")?;
            // The parameter `day` says where the summary is filed.
            let is_said = said.contains(&field) && input.name != "day";
            is_said.then(|| (input.name.clone(), json!("Zzparam 1999-09-09")))
        });
        let params: serde_json::Map<String, Value> = bound.collect();
        if !params.is_empty() {
            let id = format!("ask-{}", record.flow_id);
            home.ask_with(&id, &record.flow_id, text, params.into());
            asked.push(id);
        }
    }
    assert!(asked.len() > 10, "{asked:?}");
    home.ok(&["drain"]);
    for id in &asked {
        let ack = home.last_ack(id);
        assert_eq!(
            (&ack["status"], &ack["warnings"]),
            (&json!("completed"), &json!(["param_ignored"])),
            "{ack}"
        );
    }
    assert_eq!(home.items().len(), asked.len());
    for item in home.items() {
        let line = item.to_string();
        let named = line.to_lowercase();
        assert!(!named.contains("zzparam") && !named.contains("1999"), "{line}");
        assert_eq!(item["meta"]["authors"], "Ana Ruiz");
        assert_eq!(item["outputs"]["quality"]["facts_from_params"], Value::Null, "{line}");
    }
    let shown = home.ok(&["show", &asked[0]]);
    let first = home.last_ack(&asked[0]);
    let named = first["message"].as_str().unwrap();
    assert!(named.starts_with("parameters not used, because the sources say it: "), "{named}");
    assert!(shown.contains(&format!("a parameter was not used: {named}")), "{shown}");
    home.ok(&["verify"]);
}

/// Today and the profile are no facts of the sources: a parameter may stand in their place, and the item says so.
#[test]
fn a_parameter_in_place_of_today_or_of_the_profile_is_marked() {
    let home = Home::new("[profile]\nprofile = \"A writer of plays\"\n");
    let text = "Call for plays. Apply by 20 March 2026.";
    let asked = json!({"as_of": "2026-03-01", "profile": "A composer"});
    home.ask_with("given", OPPORTUNITIES, text, asked);
    home.ask_with("bound", OPPORTUNITIES, text, json!({}));
    home.ok(&["drain"]);
    let of = |id: &str| {
        let made = home.last_ack(id)["summary"]["summary_id"].clone();
        home.items().into_iter().find(|item| item["summary_id"] == made).unwrap()
    };
    let names = |id: &str| of(id)["outputs"]["quality"]["facts_from_params"].clone();
    assert_eq!(names("given"), json!(["as_of", "profile"]));
    assert_eq!(names("bound"), Value::Null);
}

/// The zone of the home is no fact of the sources: the ack says which zone was used.
#[test]
fn a_time_zone_in_the_parameters_is_told_as_not_used() {
    const EVENT: &str = "email.triage.extract_event.calendar_event.v1";
    let home = Home::new("");
    let text = "From: Ana Ruiz <ana@example.org>\nSubject: The choir\nDate: Tue, 10 Feb 2026 09:00:00 +0100\n\n\
                We meet on Friday at eight in the hall.\n";
    home.ask_with("choir", EVENT, text, json!({"timezone": "Asia/Tokyo"}));
    home.ok(&["drain"]);
    let ack = home.last_ack("choir");
    assert_eq!(ack["warnings"], json!(["param_ignored"]), "{ack}");
    let told = "parameters not used, because the times of the sources are written in UTC, the time zone of the home: timezone";
    assert_eq!(ack["message"], told);
}

const OPPORTUNITIES: &str = "opportunities.digest.rank_and_route.v1";
const CONTACTS: &str = "crm.contacts.plan.next_actions.v1";

/// `By Friday` names a day only in a text that has a day itself.
#[test]
fn a_relative_day_of_an_undated_text_stays_open_in_every_pack() {
    let undated = "Ana asks for the offer. Please send the report by Friday. Apply by Friday, tomorrow at the latest.";
    let dated = format!("---\ndate: 2026-02-11\n---\n{undated}");
    let home = Home::new("");
    let flows = Registry::embedded().unwrap();
    let flows = flows.records().iter().filter(|record| record.variant.is_none());
    let flows: Vec<&str> = flows.map(|record| record.flow_id.as_str()).collect();
    for flow in &flows {
        home.ask_with(&format!("un-{flow}"), flow, undated, json!({}));
        home.ask_with(&format!("dated-{flow}"), flow, &dated, json!({}));
    }
    home.ok(&["drain"]);
    let items = home.items();
    let structured = |id: String| {
        let made = home.last_ack(&id)["summary"]["summary_id"].clone();
        let item = items.iter().find(|item| item["summary_id"] == made);
        item.map_or(String::new(), |item| item["outputs"]["structured"].to_string())
    };
    let mut resolved = 0;
    for flow in &flows {
        let (said, known) = (structured(format!("un-{flow}")), structured(format!("dated-{flow}")));
        assert!(!said.contains("\"20"), "{flow}: {said}");
        resolved += usize::from(known.contains("2026-02-13") || known.contains("2026-02-12"));
    }
    assert!(resolved > 3, "no pack counts from the day of the text");
    for flow in [CONTACTS, OPPORTUNITIES] {
        assert!(structured(format!("dated-{flow}")).contains("2026-02-1"), "{flow}");
    }
}

/// `Tomorrow` of each source is the day after that source, and of a source without a day no day.
#[test]
fn each_source_counts_from_its_own_day() {
    const TASKS: &str = "email.triage.extract_task.task_item.v1";
    let home = Home::new("");
    let files = [
        ("a.txt", "---\ndate: 2026-03-02\n---\nPlease call Ana by tomorrow."),
        (
            "b.txt",
            "---\ndate: 2026-05-20T23:30:00-08:00\n---\nPlease send the report to Bob by Friday.",
        ),
        ("c.txt", "Please water the plants by tomorrow."),
    ];
    let folder = home.path("buses/other");
    std::fs::create_dir_all(&folder).unwrap();
    for (name, text) in files {
        std::fs::write(folder.join(name), text).unwrap();
    }
    let ids = ["--id", "a.txt", "--id", "b.txt", "--id", "c.txt"];
    for flow in [TASKS, CONTACTS] {
        let request = ["submit", "--flow", flow, "--request-id", flow];
        home.ok(&[request.as_slice(), ids.as_slice()].concat());
    }
    home.ok(&["drain"]);
    for (flow, list, text) in [(TASKS, "tasks", "name"), (CONTACTS, "next_actions", "action")] {
        let made = home.last_ack(flow)["summary"]["summary_id"].clone();
        let item = home.items().into_iter().find(|item| item["summary_id"] == made).unwrap();
        assert_eq!(item["meta"]["written_day"], "several");
        let found = item["outputs"]["structured"][list].as_array().unwrap().clone();
        let due = |word: &str| {
            let is_meant = |one: &&Value| one[text].as_str().unwrap().contains(word);
            found.iter().find(is_meant).map(|one| one["due_date"].clone())
        };
        assert_eq!(due("Ana"), Some(json!("2026-03-03")), "{flow} {found:?}");
        assert_eq!(due("Bob"), Some(json!("2026-05-22")), "{flow} {found:?}");
        assert_eq!(due("plants"), Some(Value::Null), "{flow} {found:?}");
    }
}

/// A gatekeeper says that a person waits for an answer where one asks for something.
#[test]
fn a_mail_requires_a_reply_where_it_asks() {
    const GATEKEEPER: &str = "email.gatekeeper.classify.gatekeeper_item.v1";
    let home = Home::new("");
    let mail = |from: &str, body: &str| {
        format!("From: {from}\nTo: b@example.org\nSubject: Garden\n\n{body}\n")
    };
    for (id, text) in [
        ("question", mail("Ana Ruiz <ana@example.org>", "Can we meet in the garden on Monday?")),
        ("request", mail("Ana Ruiz <ana@example.org>", "Please send the report by Friday.")),
        ("letter", mail("Ana Ruiz <ana@example.org>", "The garden is green. The roses are red.")),
        (
            "news",
            mail("News <newsletter@shop.example>", "This week in the garden. Unsubscribe here."),
        ),
    ] {
        home.ask_file(id, GATEKEEPER, &format!("{id}.eml"), &text, json!({}));
    }
    home.ok(&["drain"]);
    let items = home.items();
    let needs = |id: &str| {
        let made = home.last_ack(id)["summary"]["summary_id"].clone();
        let item = items.iter().find(|item| item["summary_id"] == made).unwrap();
        item["outputs"]["structured"]["requires_reply"].clone()
    };
    let all = ["question", "request", "letter", "news"].map(needs);
    assert_eq!(all, [json!(true), json!(true), json!(false), json!(false)]);
}

/// A fact that no source says may come from a parameter or from the settings, and the item names it.
#[test]
fn a_fact_that_only_a_parameter_says_is_marked() {
    const NOTES: &str = "gpt.log.annotate.obsidian_note_meta.v1";
    let home = Home::new(&format!("[flow.\"{NOTES}\"]\nparams = {{ role = \"owner\" }}\n"));
    let text = "The roof was repaired on Monday. Ana paid 90 EUR.";
    home.ask_with("given", NOTES, text, json!({"author": "Ben Diaz", "title": null}));
    home.ok(&["drain"]);
    let item = only_item(&home);
    let quality = &item["outputs"]["quality"];
    assert_eq!(quality["facts_from_params"], json!(["role", "author"]), "{quality}");
    assert_eq!(item["meta"]["authors"], Value::Null, "a parameter makes nobody the author");
    let explained = home.ok(&["explain", "given"]);
    assert!(explained.contains("role, author from parameters"), "{explained}");
    assert_eq!(home.last_ack("given")["warnings"], json!([]));
    // A setting is for sources that say nothing, so it is no fault of the request when one does.
    home.ask_with("said", NOTES, &format!("---\nrole: tenant\n---\n{text}"), json!({}));
    home.ok(&["drain"]);
    assert_eq!(home.last_ack("said")["warnings"], json!([]));
    home.ok(&["verify"]);
}

const BRIEF: &str = "docs.chunk_set.summarize.brief.v1";

/// A small model gets a short question with the id of the only source; rules fill the rest, and the item
/// says so and can be checked, also when the configuration changed.
#[test]
fn a_small_model_is_asked_for_eight_members_and_the_item_has_all() {
    let answer = json!({
        "summary_text": "The roof was repaired on Monday. Ana paid 90 EUR. Bob is not sure why it leaked.",
        "one_line": "The roof was repaired.",
        "key_points": [{"text": "Ana paid 90 EUR.", "chunk_ids": ["[1]"]}],
        "uncertainties": ["Why it leaked."], "research_question": null, "method": null,
        "main_contribution": null, "limitations": null,
    });
    let server = Server::start(vec![chat(&answer.to_string())]);
    let whole = config(&server, BRIEF);
    let home = Home::new(&whole.replace("model =", "profile = \"small\"\nmodel ="));
    let text = "The roof was repaired on Monday. Ana paid 90 EUR. Bob may know why it leaked.";
    home.ask("roof", BRIEF, text);
    home.ok(&["drain"]);
    assert_eq!(home.last_ack("roof")["status"], "completed");
    let seen = server.seen();
    assert_eq!(seen.len(), 1, "no repair turn");
    let schema = &seen[0].body["response_format"]["json_schema"]["schema"];
    let names: Vec<&String> = schema["properties"].as_object().unwrap().keys().collect();
    assert_eq!(names.len(), 8, "{names:?}");
    let said = |turn: usize| seen[0].body["messages"][turn]["content"].as_str().unwrap().to_owned();
    let (rules, data) = (said(0), said(1));
    assert!(rules.contains("- `summary_text`") && rules.contains("- `key_points`"), "{rules}");
    for derived in
        ["rendered_short", "rendered_long", "suggested_tags", "`confidence`", "data_tags"]
    {
        assert!(!rules.contains(derived), "{derived} is not asked for: {rules}");
    }
    assert!(data.contains("[1] other:roof.txt"), "{data}");

    let item = only_item(&home);
    let outputs = &item["outputs"];
    let structured = &outputs["structured"];
    assert_eq!(structured["key_points"][0]["chunk_ids"], json!(["other:roof.txt"]));
    assert_eq!(outputs["rendered_short"], "The roof was repaired on Monday. Ana paid 90 EUR.");
    assert!(outputs.get("rendered_long").is_none(), "it is equal to the text: {outputs}");
    assert!(structured["confidence"].is_number() && structured["suggested_tags"].is_object());
    let id = item["summary_id"].as_str().unwrap();
    home.configure(&whole);
    let told = home.ok(&["--json", "explain", id, "--verify"]);
    assert!(told.contains("filled by rule, not by the model: rendered_short"), "{told}");
}

/// What a note of 208 bytes costs on the bus: each thing once.
#[test]
fn the_item_of_a_short_note_says_each_thing_once() {
    let text = "The import failed on Monday because the disk was full. Ana moved the archive to the new \
                server on Tuesday. We decided to check the free space every night. Please send Ana the \
                list of old projects by Friday.";
    let home = Home::new("");
    home.ask("note", BRIEF, text);
    home.ok(&["drain"]);
    let item = only_item(&home);
    let outputs = &item["outputs"];
    for name in ["rendered_short", "rendered_medium", "rendered_long"] {
        assert_ne!(outputs[name], outputs["summary_text"], "{name}");
    }
    for evidence in outputs["evidence_refs"].as_array().unwrap() {
        let words = evidence["quote"].as_str().unwrap_or_default();
        assert_ne!(words, outputs["summary_text"], "{evidence}");
    }
    let bytes = item.to_string().len();
    println!("{bytes} bytes for a note of {} bytes", text.len());
    // What an item says, and why some of it is null. Its decision stands once more, as a decision with its place.
    assert!(bytes < 3_300, "{bytes} bytes: {item}");
}

const PAGE: &str = "docs.page.generate.docusaurus_md.v1";

fn page(body: &str) -> String {
    format!("---\ntitle: \"The roof\"\nkeywords: [\"heat_pump\"]\n---\n\n# The roof\n\n{body}\n")
}

#[test]
fn a_page_cites_only_sources_of_the_request() {
    let made_up =
        page("Ana pays [1]. Bob agreed [chk_fake]. As in [7], see [a](https://example.org).");
    let server = Server::start(vec![chat(&made_up), chat(&made_up)]);
    let home = Home::new(&config(&server, PAGE));
    home.ask("roof", PAGE, "Ana pays the roof on Monday, as in [7].");
    home.ok(&["drain"]);
    let seen = server.seen();
    assert_eq!(seen.len(), 2, "one repair turn, not more");
    let asked = seen[0].body["messages"][1]["content"].as_str().unwrap();
    assert!(asked.contains("[1] other:roof.txt"), "the id can be copied: {asked}");
    let complaint = seen[1].body["messages"].as_array().unwrap().last().unwrap()["content"].clone();
    assert!(complaint.as_str().unwrap().contains("chk_fake"), "{complaint}");
    let item = only_item(&home);
    let (made, quality) = (&item["outputs"]["structured"], &item["outputs"]["quality"]);
    for member in ["body", "markdown"] {
        let text = made[member].as_str().unwrap();
        assert!(text.contains("other:roof.txt") && !text.contains("chk"), "{text}");
        assert!(text.contains("7\\]") && text.contains("https://example.org"), "{text}");
    }
    assert_eq!(made["front_matter"]["keywords"], json!(["heat_pump"]));
    // Both members that had it are named.
    let removed = |pointer: &str| json!({"pointer": pointer, "id": "chk_fake"});
    assert_eq!(quality["removed_ids"], json!([removed("/body"), removed("/markdown")]));
    let label =
        |pointer: &str| json!({"pointer": pointer, "label": "1", "ids": ["other:roof.txt"]});
    assert_eq!(quality["replaced_labels"], json!([label("/body"), label("/markdown")]));

    let server = Server::start(vec![chat(&made_up), chat(&page("Ana pays [other:roof.txt]."))]);
    let home = Home::new(&config(&server, PAGE));
    home.ask("roof", PAGE, "Ana pays the roof on Monday, as in [7].");
    home.ok(&["drain"]);
    let outputs = only_item(&home)["outputs"].clone();
    assert!(
        outputs["structured"]["body"].as_str().unwrap().contains("other:roof.txt"),
        "{outputs}"
    );
    assert!(outputs["quality"].get("removed_ids").is_none(), "{outputs}");
}

fn appointment(uid: Option<&str>, quote: Option<&str>) -> Act {
    let said = json!({
        "has_event": true, "title": "Roof", "start": "2026-03-06", "end": null, "all_day": true,
        "timezone": null, "location": null, "url": null, "attendees": [],
        "recurrence_rule": null, "description": "The roof is repaired.", "ical_uid_seed": uid,
        "confidence": 0.9, "evidence_quote": quote,
    });
    chat(&said.to_string())
}

const EVENT: &str = "email.triage.extract_event.calendar_event.v1";

#[test]
fn a_quote_that_no_source_has_is_asked_about_once_and_then_removed() {
    let text = "Hello Ana.\n\nThe roof is  repaired\non March 6. Write to ana@example.org then.";
    let invented = "The roof is repaired on March 7.";
    for said in ["The roof is repaired on March 6.", "“on March 6. Write to [email] then”"] {
        let server =
            Server::start(vec![appointment(None, Some(invented)), appointment(None, Some(said))]);
        let home = Home::new(&config(&server, EVENT));
        home.ask("mail", EVENT, text);
        home.ok(&["drain"]);
        let seen = server.seen();
        assert_eq!(seen.len(), 2, "one repair turn");
        let complaint =
            seen[1].body["messages"].as_array().unwrap().last().unwrap()["content"].clone();
        let complaint = complaint.as_str().unwrap();
        assert!(complaint.contains(invented) && complaint.contains("or use null"), "{complaint}");
        let outputs = only_item(&home)["outputs"].clone();
        assert_eq!(outputs["structured"]["evidence_quote"], said);
        assert_eq!(
            (&outputs["quality"]["repaired"], outputs["quality"].get("removed_quotes")),
            (&json!(true), None)
        );
    }
    let server =
        Server::start(vec![appointment(None, Some(invented)), appointment(None, Some(invented))]);
    let home = Home::new(&config(&server, EVENT));
    home.ask("mail", EVENT, text);
    home.ok(&["drain"]);
    let item = only_item(&home);
    let (outputs, quality) = (&item["outputs"], &item["outputs"]["quality"]);
    assert_eq!(outputs["structured"]["evidence_quote"], Value::Null);
    assert!(!outputs["structured"].to_string().contains("March 7"), "{item}");
    assert_eq!(
        quality["removed_quotes"],
        json!([{"pointer": "/evidence_quote", "quote": invented}])
    );
    assert_eq!(quality["removed_quotes_count"], 1);
    assert!(!quality["checks"].as_array().unwrap().contains(&json!("quotes_located")));
    home.ok(&["verify"]);
}

/// Every pack that asks for words of its text loses the invented ones, wherever they stand.
#[test]
fn invented_quotes_leave_each_pack_that_asks_for_quotes() {
    const SCREENING: &str = "jobs.posting.screen.job_screening.v2";
    const IDEAS: &str = "news.agenda.generate.seed_ideas.v1";
    const CARD: &str = "news.seed.expand.seed_card.v1";
    let (true_words, invented) = ("five years of Java", "ten years of Cobol");
    let screening = json!({
        "posting_quality": "ok", "job_title": "Engineer", "company_name": null, "potential_match": null,
        "significant_experience_gaps": [], "country": null, "visa_sponsorship_required": null,
        "recommend_apply": null, "company_culture": "Unclear", "recommendation_reasons": [],
        "match_score": null, "must_have": [{"skill": "Java", "met": null, "evidence": true_words},
            {"skill": "Cobol", "met": null, "evidence": invented}], "salary": null,
        "remote_policy": "not_stated", "seniority": "not_stated", "deadline": null, "red_flags": [],
        "next_step": null, "confidence": 0.5,
    });
    let ideas = json!({"seed_ideas": [{"idea_id": "idea_01", "topic": "Java", "idea_title": "Java",
        "article_ids": [], "draft_editorial_angle": "Java grows.", "key_facts": [],
        "potential_controversies": [], "relevant_quotes": [invented, true_words]}]});
    let card = json!({"idea_id": null, "idea_title": "Java", "time_frame": null, "topic": null,
        "news_angle": "Java grows.", "key_articles": [], "data_points": [true_words, invented],
        "potential_quotes": [invented], "editorial_tone": null, "suggested_structure": [],
        "potential_conflicts_or_biases": null});
    for (flow, answer, removed) in [
        (SCREENING, screening, &["/must_have/1/evidence"][..]),
        (IDEAS, ideas, &["/seed_ideas/0/relevant_quotes/0"]),
        (CARD, card, &["/data_points/1", "/potential_quotes/0"]),
    ] {
        let server = Server::start(vec![chat(&answer.to_string()), chat(&answer.to_string())]);
        let home = Home::new(&config(&server, flow));
        home.ask("text", flow, "We look for an engineer. We need five years of Java. Apply soon.");
        home.ok(&["drain"]);
        let outputs = only_item(&home)["outputs"].clone();
        let made = outputs["structured"].to_string();
        assert!(made.contains(true_words) && !made.contains(invented), "{flow}: {made}");
        let quotes = outputs["quality"]["removed_quotes"].as_array().unwrap();
        let places: Vec<&str> = quotes.iter().filter_map(|one| one["pointer"].as_str()).collect();
        assert_eq!(places, removed, "{flow}");
        home.ok(&["verify"]);
    }
}

#[test]
fn the_uid_of_an_appointment_is_one_that_the_mail_has() {
    let answer = |uid: &str| appointment(Some(uid), None);
    for (uid, expected) in
        [("made-up@x", Value::Null), ("abc@cal.example", json!("abc@cal.example"))]
    {
        let server = Server::start(vec![answer(uid), answer(uid)]);
        let home = Home::new(&config(&server, EVENT));
        home.ask("mail", EVENT, "The roof is repaired on March 6. UID: abc@cal.example");
        home.ok(&["drain"]);
        let outputs = only_item(&home)["outputs"].clone();
        assert_eq!(outputs["structured"]["ical_uid_seed"], expected);
        assert_eq!(outputs["quality"].get("removed_ids").is_some(), expected.is_null());
        // No id of a source may stand there, so the repair turn offers none.
        for asked in server.seen().iter().skip(1) {
            let complaint = asked.body["messages"].as_array().unwrap().last().unwrap();
            let complaint = complaint["content"].as_str().unwrap();
            assert!(complaint.contains("is not in the input; use null"), "{complaint}");
            assert!(!complaint.contains("other:mail.txt"), "{complaint}");
        }
    }
}

#[test]
fn verify_says_that_texts_of_the_bus_other_are_not_compared_and_what_compares_them() {
    let home = Home::new("");
    home.ask("week", WEEKLY, "The roof was repaired on Monday. Ana paid the bill.");
    home.ok(&["drain"]);
    let ran = home.run(&["verify"]);
    let said = String::from_utf8([ran.stdout, ran.stderr].concat()).unwrap();
    assert_eq!(ran.status.code(), Some(0), "{said}");
    assert!(said.contains("the bus `other` is the only one here"), "{said}");
    assert!(said.contains("`summarizer explain ID --verify`"), "{said}");
    std::fs::write(home.path("buses/other/week.txt"), "The roof is new.").unwrap();
    let id = only_item(&home)["summary_id"].as_str().unwrap().to_owned();
    assert_eq!(home.run(&["explain", &id, "--verify"]).status.code(), Some(1));
}

/// Notes with a day alone, events, a feed and a chat: none of their times has an offset.
#[test]
fn a_text_is_of_the_day_that_it_writes_in_every_zone() {
    let files = [
        ("day.md", "---\ndate: 2026-02-11\n---\nThe roof was repaired on Monday for 300 EUR.\n"),
        ("late.md", "---\ndate: 2026-02-11 23:50\n---\nThe pump was repaired by Ana for 90 EUR.\n"),
        (
            "chat.txt",
            "[11.02.26, 23:50:00] Ana: The boat is sold.\n[11.02.26, 23:51:00] Ben: For 900 EUR?\n\
             [11.02.26, 23:52:00] Ana: Yes, Ben pays on Friday.\n",
        ),
        (
            "feed.xml",
            "<rss><channel><title>Town</title><item><title>Bridge</title>\
             <description>The bridge is closed for repairs in May.</description>\
             <pubDate>Wed, 11 Feb 2026 00:10:00</pubDate></item></channel></rss>",
        ),
    ];
    let lines = "{\"id\":\"a\",\"at\":\"2026-02-11 23:50\",\"text\":\"The mill is open.\"}\n\
                 {\"id\":\"b\",\"at\":\"2026-02-11T00:10:00\",\"text\":\"The mill closes.\"}\n";
    for zone in ["Pacific/Auckland", "Europe/Madrid", "America/Bogota"] {
        let home = Home::new(&format!("timezone = \"{zone}\"\n"));
        for (name, text) in files {
            std::fs::write(home.path(name), text).unwrap();
            home.ok(&["add", home.path(name).to_str().unwrap()]);
        }
        std::fs::write(home.path("a.jsonl"), lines).unwrap();
        let file = home.path("a.jsonl");
        let import = ["import", "jsonl", "--id", "id", "--time", "at", "--text", "text"];
        home.ok(&[&import[..], &[file.to_str().unwrap()]].concat());
        home.ok(&["submit", "--all-new"]);
        home.ok(&["drain"]);
        let items = home.items();
        assert_eq!(items.len(), 6, "{zone}");
        let on_day = home.ok(&["read", "--day", "2026-02-11", "--json"]);
        for item in &items {
            let id = item["summary_id"].as_str().unwrap();
            assert!(on_day.contains(id), "{zone}: {item}");
            assert_eq!(item["day"], "2026-02-11", "{zone}: {item}");
        }
        // Only the note with a day alone has no clock time.
        assert_eq!(items.iter().filter(|item| item["meta"]["ts_precision"] == "local").count(), 5);
    }
}
