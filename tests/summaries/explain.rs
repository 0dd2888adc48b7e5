//! `explain`: from each sentence to its words, and what is said of a link that broke.

use std::ops::ControlFlow;
use std::path::PathBuf;

use serde_json::{Value, json};
use summarizer::contract::ids::Seq;
use summarizer::log::{Commit, NewRecord, Options, Store, codec};
use summarizer::os::Machine;
use summarizer::state::event::Event;

use super::support::process::{ProcessHome, Running};
use super::support::requests::lines;
use super::support::running::until;
use super::*;

fn selected(home: &ProcessHome) -> Value {
    let selection = json!({"bus": "chunk_bus", "ordering": "as_listed",
        "items": [{"id": "chk_b1"}, {"id": "chk_a1"}]});
    let hash = summarizer::contract::json::jcs_hash(&selection).prefixed();
    let manifest = json!({"schema_version": "selection_manifest.v1",
        "created_at": "2026-02-11T12:00:00Z", "selection": selection, "selection_hash": hash,
        "created_by": {"repo": "tests", "component": "summaries", "version": "dev"}});
    let path = "selection_manifests/two.json";
    bus_support::write(&home.path("buses"), path, manifest.to_string());
    let mut asked = ask("selected", "chunk_set_summary", "chunk_bus", &[]);
    asked["input"] =
        json!({"mode": "selection_manifest", "manifest_path": path, "selection_hash": hash});
    asked
}

fn explained(home: &ProcessHome, exit: i32, id: &str, more: &[&str]) -> Value {
    let args: Vec<&str> =
        ["--json", "explain", id].into_iter().chain(more.iter().copied()).collect();
    home.expect(exit, &args).json()
}

/// The links that do not hold.
fn loose(explained: &Value) -> Vec<(String, String)> {
    let links = list(&explained["links"]).iter();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let loose = links.filter(|link| link["standing"] != "holds");
    loose.map(|link| (text(&link["link"]), text(&link["standing"]))).collect()
}

/// The same from names: those with a question mark cannot be known, the others are broken.
fn of_broken(links: &[&str]) -> Vec<(String, String)> {
    let pair = |link: &&str| match link.strip_prefix('?') {
        Some(link) => (link.to_owned(), "unknown".to_owned()),
        None => ((*link).to_owned(), "broken".to_owned()),
    };
    links.iter().map(pair).collect()
}

#[test]
fn every_sentence_leads_to_its_words_and_every_link_holds() {
    let home = home();
    let mut asked = of_every_stream();
    asked.push(selected(&home));
    home.append(&lines(&asked));
    home.expect(0, &["drain"]);
    for request in &asked {
        let request_id = request["request_id"].as_str().unwrap();
        let summary = made(&home, request_id);
        let id = summary["summary_id"].as_str().unwrap();
        let found = explained(&home, 0, id, &["--verify", "--show-prompts"]);
        assert_eq!(found["summary_id"], id);
        assert_eq!(loose(&found), [], "{request_id}");
        assert!(list(&found["links"]).len() >= 13, "{found}");
        assert_eq!(found, explained(&home, 0, request_id, &["--verify", "--show-prompts"]));

        let queue = home.read("run/queue.jsonl");
        let number = |value: &Value| usize::try_from(value.as_u64().unwrap()).unwrap();
        let offset = number(&found["request"]["offset"]);
        let line = &queue[offset..offset + number(&found["request"]["length"])];
        assert_eq!(serde_json::from_slice::<Value>(line).unwrap(), *request);

        let published = std::fs::read_to_string(
            home.path("buses").join(found["published"]["path"].as_str().unwrap()),
        );
        let line = number(&found["published"]["line"]);
        let item: Value =
            serde_json::from_str(published.unwrap().lines().nth(line - 1).unwrap()).unwrap();
        assert_eq!(item["summary_id"], id);

        let text = item["outputs"]["summary_text"].as_str().unwrap();
        assert!(!list(&found["sentences"]).is_empty());
        for sentence in list(&found["sentences"]) {
            assert_eq!(sentence["basis"], "exact", "{request_id}: {sentence}");
            let range = number(&sentence["start"])..number(&sentence["end"]);
            assert_eq!(sentence["text"], text[range]);
            for span in list(&sentence["spans"]) {
                stands_there(&home, span);
            }
        }
        for source in list(&found["sources"]) {
            let bytes = home.read(&format!("buses/{}", source["file"].as_str().unwrap()));
            let (offset, len) = (number(&source["offset"]), number(&source["len"]));
            let record = &bytes[offset..offset + len];
            let hash = summarizer::contract::hash::sha256(record).hex();
            assert_eq!(source["record_sha256"], hash.as_str());
        }
        assert_eq!(found["prompts"]["as_recorded"], true);
        assert!(found["prompts"]["calls"][0]["messages"][0]["text"].is_string(), "{found}");
        assert_eq!(found["attempts"][0]["outcome"], "completed");
        let names: Vec<&str> =
            list(&found["events"]).iter().map(|event| event["event"].as_str().unwrap()).collect();
        assert_eq!(
            names,
            ["RequestAccepted", "AttemptStarted", "InputResolved", "SummaryProduced"]
        );
    }
    // People read it too.
    let id = made(&home, "session")["summary_id"].as_str().unwrap().to_owned();
    home.expect(0, &["explain", &id, "--verify", "--proof"]).says(&[
        "Before midnight.",
        "eventbus/daily/2026-02-10.jsonl:1",
        "source_text_hash",
        "holds",
    ]);
    home.expect(5, &["explain", "sum_00000000000000000000000000000000"]).says(&["no summary"]);
}

#[test]
fn a_running_service_explains_the_same() {
    let home = home();
    home.append(&lines(&of_every_stream()));
    home.expect(0, &["drain"]);
    let alone = explained(&home, 0, "session", &["--verify"]);
    let service = Running::start(&home, &["serve"]);
    until("the service answers", || home.answers());
    let beside = explained(&home, 0, "session", &["--verify"]);
    assert_eq!(service.terminate(), Some(0));
    assert_eq!(alone, beside);
}

/// The words of a span are in the line of the file that it names.
fn stands_there(home: &ProcessHome, span: &Value) {
    let file = span["file"].as_str().unwrap();
    let text = std::fs::read_to_string(home.path("buses").join(file)).unwrap();
    let line = usize::try_from(span["line"].as_u64().unwrap()).unwrap();
    let first = span["quote"].as_str().unwrap().lines().next().unwrap();
    let line = text.lines().nth(line - 1).unwrap();
    // Upstream may write é as e with an accent after it.
    let plain = |text: &str| text.chars().filter(char::is_ascii_alphanumeric).collect::<String>();
    let first: String = first.chars().take_while(char::is_ascii).collect();
    assert!(plain(line).contains(&plain(&first)), "{span}: {line}");
}

#[test]
fn a_broken_link_is_named() {
    let home = home();
    let mut asked = of_every_stream();
    asked.push(selected(&home));
    home.append(&lines(&asked));
    home.expect(0, &["drain"]);
    let path = |relative: &str| home.path("buses").join(relative);
    let day = |id: &str| home.path("buses").join(made(&home, id)["path"].as_str().unwrap());
    let cases: Vec<(&str, PathBuf, &str, &str, &[&str])> = vec![
        ("event", day("event"), "Before", "before", &["published.line", "published.manifest"]),
        ("file", home.path("run/queue.jsonl"), "notes/a.md", "notes/b.md", &["queue.line"]),
        (
            "event",
            path("eventbus/daily/2026-02-11.jsonl"),
            "After",
            "Later",
            // What the flow was told lies in a day that no longer matches its manifest.
            &["upstream.data", "source_text_hash", "evidence", "?prompt.rendered", "?outputs"],
        ),
        (
            "event",
            path("eventbus/daily/2026-02-11.jsonl"),
            "Fourth.",
            "Forth..",
            &["upstream.data", "?prompt.rendered", "?outputs"],
        ),
        (
            "session",
            path("sessions/manifest/2026-02-10.sessions.manifest.json"),
            "sessions_total\":2",
            "sessions_total\":3",
            &["upstream.manifest", "?prompt.rendered", "?outputs"],
        ),
        (
            "document",
            path("chunks/canonical/books.jsonl"),
            "chk_a1",
            "chk_a9",
            &[
                "upstream.data",
                "upstream.records",
                "?source_text_hash",
                "evidence",
                "?prompt.rendered",
                "?outputs",
            ],
        ),
        (
            "selected",
            path("selection_manifests/two.json"),
            "\"dev\"",
            "\"1.0\"",
            &["selection.manifest"],
        ),
        (
            "file",
            path("other/notes/a.md"),
            "Text",
            "Test",
            &["upstream.data", "source_text_hash", "evidence", "prompt.rendered", "outputs"],
        ),
        (
            "chunks",
            home.path("flow_registry/packs/notes/brief.jinja2"),
            "the",
            "The",
            &["flow.pack", "?prompt.rendered", "?outputs"],
        ),
        (
            "chunks",
            home.path("flow_registry/packs/notes/hints.json"),
            "{",
            "{ ",
            &["flow.pack", "?prompt.rendered", "?outputs"],
        ),
    ];
    let mut wrong = Vec::new();
    for (id, file, what, with, broken) in cases {
        let before = std::fs::read(&file).unwrap();
        flip(&file, what, with);
        let found = loose(&explained(&home, 1, id, &["--verify"]));
        if found != of_broken(broken) {
            wrong.push((file.clone(), what, found));
        }
        std::fs::write(&file, before).unwrap();
        assert_eq!(loose(&explained(&home, 0, id, &["--verify"])), []);
    }
    assert!(wrong.is_empty(), "not these links alone are broken: {wrong:#?}");
    // What upstream appends later was not read and breaks nothing.
    let events = path("eventbus/daily/2026-02-11.jsonl");
    let mut grown = std::fs::read(&events).unwrap();
    grown.extend_from_slice(b"{\"more\":1}\n");
    std::fs::write(&events, grown).unwrap();
    assert_eq!(loose(&explained(&home, 0, "event", &["--verify"])), []);
}

#[test]
fn the_text_of_a_model_is_aligned_and_labelled_and_its_answers_are_in_the_log() {
    let home = home();
    let answer = json!({
        "summary_text": "Before midnight. There were two lines, after all. Penguins swim.",
        "one_line": "Midnight.", "rendered_short": "Midnight.", "rendered_medium": "Midnight.",
        "rendered_long": "Midnight.", "key_points": [], "uncertainties": [], "warnings": [],
        "confidence": 0.3, "research_question": null, "data": null, "method": null,
        "main_contribution": null, "limitations": null, "relevance_to_thesis": null,
        "suggested_tags": {"method_tags": [], "data_tags": []},
    });
    std::fs::write(home.path("answer.json"), answer.to_string()).unwrap();
    let command = format!("cat > /dev/null; cat {}", home.path("answer.json").display());
    let config = format!(
        "[provider]\ndefault = \"local\"\n[provider.local]\nkind = \"command\"\ncommand = {}\n",
        json!(["/bin/sh", "-c", command])
    );
    std::fs::write(home.path("summarizer.toml"), config).unwrap();
    home.append(&lines(&[ask("event", "event_summary", "event_bus", &["evt_1", "evt_3"])]));
    home.expect(0, &["drain"]);
    let found = explained(&home, 0, "event", &["--verify", "--show-prompts"]);
    assert_eq!(found["model_generated"], true);
    let bases: Vec<&str> = list(&found["sentences"])
        .iter()
        .map(|sentence| sentence["basis"].as_str().unwrap())
        .collect();
    assert_eq!(bases, ["verbatim", "lexical", "none"], "{:#}", found["sentences"]);
    assert!(!list(&found["answers"]).is_empty());
    assert_eq!(loose(&found), []);
    assert_eq!(found["prompts"]["as_recorded"], true);
    // An answer that differs from the paid one.
    let (first, log) = (std::cell::Cell::new(true), home.read("run/summarizer.redb"));
    forge(&home, &|event, _| {
        if let Event::ModelResponded { body_sha256, .. } = event
            && first.replace(false)
        {
            *body_sha256 = summarizer::contract::hash::sha256("another answer");
        }
    });
    let found = explained(&home, 1, "event", &["--verify"]);
    assert_eq!(loose(&found), of_broken(&["log.answers"]));
    std::fs::write(home.path("run/summarizer.redb"), log).unwrap();
    // Without the provider the answers are still proved, and what cannot be is said.
    std::fs::remove_file(home.path("summarizer.toml")).unwrap();
    let found = explained(&home, 0, "event", &["--verify"]);
    assert_eq!(loose(&found), of_broken(&["?prompt.rendered", "?outputs"]));
}

/// Writes the log again with other facts in it, as somebody would who knows the format: every hash
/// of the chain is right, and what the records say is not.
fn forge(home: &ProcessHome, change: &dyn Fn(&mut Event, &mut Option<Vec<u8>>)) {
    let path = home.path("run/summarizer.redb");
    let disk = || Machine::real().disk;
    let options = || Options::beside(&path);
    let store = Store::open(disk(), &path, options(), [7; 16], &mut |_| {}).unwrap();
    let reader = store.reader();
    let (mark, store_id) = (reader.mark(), reader.store_id());
    let mut events = Vec::new();
    reader
        .scan(Seq(1), None, &mut |entry| {
            let event = codec::decode(entry.tag, entry.version, entry.payload).unwrap();
            events.push((entry.seq, entry.at, event));
            ControlFlow::Continue(())
        })
        .unwrap();
    let mut records = Vec::new();
    let mut changed = 0;
    for (seq, at, mut event) in events {
        let mut body = reader.body(seq).unwrap();
        let before = (event.clone(), body.clone());
        change(&mut event, &mut body);
        changed += usize::from(before != (event.clone(), body.clone()));
        let (tag, version, payload) = codec::encode(&event);
        records.push(NewRecord { at, tag, version, payload, body });
    }
    assert_eq!(changed, 1, "one fact is changed");
    store.close().unwrap();
    std::fs::remove_file(&path).unwrap();
    let mut store = Store::open(disk(), &path, options(), store_id, &mut |_| {}).unwrap();
    let commit = Commit { first: Seq(1), records: &records, mark: &mark, checkpoint: None };
    store.append(commit).unwrap();
    store.close().unwrap();
    // Acks quote the log; acks of another log would be refused before this check.
    std::fs::remove_file(home.path("run/ack.jsonl")).unwrap();
}

/// Links that no file outside the log can break: a log that was written again with other facts in
/// it passes its own proofs, and is found out by what the facts do not agree with.
#[test]
fn a_forged_fact_breaks_its_link() {
    type Forgery = Box<dyn Fn(&mut Event, &mut Option<Vec<u8>>)>;
    let cases: Vec<(&[&str], Forgery)> = vec![
        (
            &["request.key"],
            Box::new(|event, _| {
                if let Event::RequestAccepted(taken) = event {
                    taken.head.key = "derived:of something else".into();
                }
            }),
        ),
        (
            &["published.line", "summary.id"],
            Box::new(|event, _| {
                if let Event::SummaryProduced { summary, .. } = event {
                    summary.summary_id = format!("sum_{}", "0".repeat(32));
                }
            }),
        ),
        (
            &["log.item"],
            Box::new(|event, _| {
                if let Event::SummaryProduced { body_sha256, .. } = event {
                    *body_sha256 = summarizer::contract::hash::sha256("another item");
                }
            }),
        ),
        (
            &["published.line", "summary.id", "flow.prompt"],
            Box::new(|event, body| {
                if let (Event::SummaryProduced { body_sha256, .. }, Some(body)) = (event, body) {
                    let mut item: Value = serde_json::from_slice(body).unwrap();
                    item["prompt"]["prompt_hash"] = "0".repeat(64).into();
                    *body = summarizer::contract::json::jcs(&item).into_bytes();
                    *body_sha256 = summarizer::contract::hash::sha256(&body);
                }
            }),
        ),
        (
            &["published.line", "evidence"],
            Box::new(|event, body| {
                if let (Event::SummaryProduced { body_sha256, .. }, Some(body)) = (event, body) {
                    let mut item: Value = serde_json::from_slice(body).unwrap();
                    item["outputs"]["evidence_refs"][0]["span"]["start"] = 1.into();
                    *body = summarizer::contract::json::jcs(&item).into_bytes();
                    *body_sha256 = summarizer::contract::hash::sha256(&body);
                }
            }),
        ),
    ];
    let mut wrong = Vec::new();
    for (broken, forgery) in cases {
        let home = home();
        home.append(&lines(&[ask("event", "event_summary", "event_bus", &["evt_1", "evt_3"])]));
        home.expect(0, &["drain"]);
        assert_eq!(loose(&explained(&home, 0, "event", &["--verify"])), []);
        forge(&home, &forgery);
        let found = loose(&explained(&home, 1, "event", &["--verify"]));
        if found != of_broken(broken) {
            wrong.push((broken, found));
        }
    }
    assert!(wrong.is_empty(), "not these links alone are broken: {wrong:#?}");
}

/// Bytes of the store that changed behind its back are found by the chain alone, whatever else
/// still fits: here an item of another request, made while this one was under way.
#[test]
fn a_changed_byte_of_the_store_breaks_the_chain_of_the_log_and_nothing_else() {
    let home = home();
    let asked = ["evt_1", "evt_3"];
    let asked = asked.map(|event| ask(event, "event_summary", "event_bus", &[event]));
    home.append(&lines(&asked));
    home.expect(0, &["drain"]);
    let produced = |id: &str| {
        let found = explained(&home, 0, id, &["--verify"]);
        assert_eq!(loose(&found), []);
        found["record"]["seq"].as_u64().unwrap()
    };
    let mut made = ["evt_1", "evt_3"].map(|id| (produced(id), id));
    made.sort_unstable();
    let [(earlier, other), (_, id)] = made;
    use redb::ReadableTable as _;
    let path = home.path("run/summarizer.redb");
    let bodies = redb::TableDefinition::<u64, &[u8]>::new("bodies");
    let store = redb::Database::open(&path).unwrap();
    let changing = store.begin_write().unwrap();
    {
        let mut table = changing.open_table(bodies).unwrap();
        let mut body = table.get(earlier).unwrap().unwrap().value().to_vec();
        *body.last_mut().unwrap() ^= 1;
        table.insert(earlier, body.as_slice()).unwrap();
    }
    changing.commit().unwrap();
    drop(store);
    let found = explained(&home, 1, id, &["--verify"]);
    assert_eq!(loose(&found), of_broken(&["log.chain"]));
    let links = list(&found["links"]);
    let chain = links.iter().find(|link| link["link"] == "log.chain").unwrap();
    let what = chain["what"].as_str().unwrap();
    assert!(what.contains(&earlier.to_string()) && what.contains("body"), "{what}");
    // The request whose item it is cannot be explained from it at all.
    home.expect(1, &["explain", other, "--verify"]).says(&[&format!("record {earlier}")]);
}
