//! Traces over OTLP/HTTP: a collector of this test reads what arrives, and misbehaves in every way.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "helpers of a test may panic")]

#[path = "support/batch_server.rs"]
mod batch_server;
#[path = "support/flow_home.rs"]
mod flow_home;
#[path = "support/running.rs"]
mod running;
#[path = "support/server.rs"]
mod server;

use std::collections::{BTreeMap, BTreeSet};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

use batch_server::{Shelf, serve_batches};
use flow_home::{FLOW, FREE, Home, KEY, QUICK, config, good, good_answer, wait_until};
use running::Running;
use serde_json::{Value, json};
use server::{Act, Server, status};
use summarizer::state::event::Event;

const SECRET_TEXT: &str = "The herring is buried under the third willow.";

/// A collector that takes everything.
fn collector() -> Server {
    Server::start(vec![Act::Send(200, Vec::new(), "{\"partialSuccess\":{}}".to_owned())])
}

fn telemetry(server: &Server) -> String {
    format!("[telemetry]\nendpoint = \"{}\"\n", server.base)
}

/// One span as it arrived, with its attributes by name.
#[derive(Debug, Clone)]
struct Span {
    whole: Value,
    attributes: BTreeMap<String, Value>,
}

impl Span {
    fn text(&self, name: &str) -> String {
        self.whole[name].as_str().unwrap_or_default().to_owned()
    }

    fn nanos(&self, name: &str) -> u64 {
        // 64-bit numbers are texts in the JSON form of OTLP.
        self.whole[name].as_str().unwrap().parse().unwrap()
    }

    fn attribute(&self, name: &str) -> Value {
        self.attributes.get(name).cloned().unwrap_or_default()
    }
}

/// Decodes every message of a collector and checks its form.
fn spans_of(server: &Server) -> Vec<Span> {
    let mut spans = Vec::new();
    for seen in server.seen() {
        assert!(seen.head.starts_with("POST /v1/traces "), "{}", seen.head);
        let head = seen.head.to_ascii_lowercase();
        assert!(head.contains("content-type: application/json"), "{}", seen.head);
        for of_resource in seen.body["resourceSpans"].as_array().unwrap() {
            let resource = attributes(&of_resource["resource"]);
            assert_eq!(resource["service.name"], "summarizer");
            for of_scope in of_resource["scopeSpans"].as_array().unwrap() {
                assert_eq!(of_scope["scope"]["name"], "summarizer");
                let of_scope = of_scope["spans"].as_array().unwrap().iter();
                spans.extend(
                    of_scope.map(|span| Span { whole: span.clone(), attributes: attributes(span) }),
                );
            }
        }
    }
    for span in &spans {
        for (name, digits) in [("traceId", 32), ("spanId", 16)] {
            let id = span.text(name);
            let is_hex = id.chars().all(|c| matches!(c, '0'..='9' | 'a'..='f'));
            assert!(id.len() == digits && is_hex && id.chars().any(|c| c != '0'), "{name} {id}");
        }
        assert!(span.nanos("startTimeUnixNano") <= span.nanos("endTimeUnixNano"));
    }
    spans
}

fn attributes(of: &Value) -> BTreeMap<String, Value> {
    let value = |value: &Value| {
        let (kind, inner) = value.as_object().unwrap().iter().next().unwrap();
        match kind.as_str() {
            "intValue" => json!(inner.as_str().unwrap().parse::<i64>().unwrap()),
            "arrayValue" => {
                let values = inner["values"].as_array().unwrap().iter();
                values.map(|value| value["stringValue"].clone()).collect()
            }
            "stringValue" | "doubleValue" | "boolValue" => inner.clone(),
            other => panic!("{other} is no kind of an attribute"),
        }
    };
    let listed = of["attributes"].as_array().unwrap().iter();
    let named = listed.map(|one| (one["key"].as_str().unwrap().to_owned(), value(&one["value"])));
    named.collect()
}

/// The spans of one request: its root, and the others by parent.
fn tree(spans: &[Span], seq: u64) -> (Span, BTreeMap<String, Vec<Span>>) {
    let of_request = |span: &&Span| span.attribute("summarizer.request.seq") == json!(seq);
    let of_request: Vec<Span> = spans.iter().filter(of_request).cloned().collect();
    let ids: BTreeSet<String> = of_request.iter().map(|span| span.text("spanId")).collect();
    assert_eq!(ids.len(), of_request.len(), "an id stands for one span");
    let traces: BTreeSet<String> = of_request.iter().map(|span| span.text("traceId")).collect();
    assert_eq!(traces.len(), 1, "a request is one trace");
    let (mut roots, mut below) = (Vec::new(), BTreeMap::<String, Vec<Span>>::new());
    for span in of_request {
        match span.whole["parentSpanId"].as_str() {
            None => roots.push(span),
            Some(parent) => {
                assert!(ids.contains(parent), "the parent of {span:?} is there");
                below.entry(parent.to_owned()).or_default().push(span);
            }
        }
    }
    assert_eq!(roots.len(), 1, "{roots:?}");
    (roots.remove(0), below)
}

fn seq_of(home: &Home, id: &str) -> u64 {
    let events = home.events();
    let place = events.iter().position(|(event, _)| match event {
        Event::RequestAccepted(taken) => taken.head.request_id == id,
        _ => false,
    });
    place.unwrap() as u64 + 1
}

#[test]
fn a_request_is_a_trace_of_attempts_and_calls_with_the_ids_of_the_log() {
    let traces = collector();
    let model = Server::start(vec![
        status(500, &[], "{\"error\": {\"message\": \"the herring says no\"}}"),
        good(),
    ]);
    let home = Home::new(&config(
        &model,
        "price_in = 2.0\nprice_out = 4.0",
        &(telemetry(&traces) + QUICK),
    ));
    home.ask("one", FLOW, SECRET_TEXT);
    home.ok(&["drain"]);
    wait_until("the request is summarized", || {
        home.ok(&["drain"]);
        home.last_ack("one")["status"] == "completed"
    });
    let spans = spans_of(&traces);
    let seq = seq_of(&home, "one");
    let (root, below) = tree(&spans, seq);
    assert_eq!(
        (root.text("name"), &root.whole["kind"], &root.whole["status"]["code"]),
        (format!("summarize {FLOW}"), &json!(5), &json!(0))
    );
    for (name, value) in [
        ("summarizer.request.id", json!("one")),
        ("summarizer.request.urgency", json!("now")),
        ("summarizer.request.attempts", json!(2)),
        ("summarizer.status", json!("completed")),
        ("summarizer.flow.id", json!(FLOW)),
    ] {
        assert_eq!(root.attribute(name), value, "{name}");
    }
    let attempts = &below[&root.text("spanId")];
    let names: Vec<String> = attempts.iter().map(|span| span.text("name")).collect();
    assert_eq!(names, ["attempt 1", "attempt 2"]);
    assert_eq!(attempts[0].whole["status"]["code"], 2);
    assert_eq!(attempts[0].attribute("error.type"), "server_error");
    assert_eq!(attempts[1].whole["status"]["code"], 0);
    let calls: Vec<&Span> = attempts.iter().map(|span| &below[&span.text("spanId")][0]).collect();
    for call in &calls {
        assert_eq!((call.text("name"), &call.whole["kind"]), ("chat loop-1".to_owned(), &json!(3)));
        for (name, value) in [
            ("gen_ai.operation.name", json!("chat")),
            ("gen_ai.provider.name", json!("openai")),
            ("gen_ai.request.model", json!("loop-1")),
            ("gen_ai.output.type", json!("json")),
            ("server.address", json!("127.0.0.1")),
            ("summarizer.provider", json!("loop")),
        ] {
            assert_eq!(call.attribute(name), value, "{name}");
        }
        let port = model.base.rsplit(':').next().unwrap().parse::<i64>().unwrap();
        assert_eq!(call.attribute("server.port"), json!(port));
    }
    assert_eq!(
        (&calls[0].whole["status"]["code"], calls[0].attribute("error.type")),
        (&json!(2), json!("server_error"))
    );
    assert_eq!(calls[1].attribute("gen_ai.response.finish_reasons"), json!(["stop"]));
    // The answer of the log has the same name and the same tokens.
    let in_log = home.events().into_iter().find_map(|(event, _)| match event {
        Event::ModelResponded { call, answer, .. } => Some((call.hex(), answer.usage)),
        _ => None,
    });
    let (call, usage) = in_log.unwrap();
    assert_eq!(calls[1].attribute("summarizer.call"), json!(call));
    assert_eq!(calls[1].attribute("gen_ai.usage.input_tokens"), json!(usage.input_tokens));
    assert_eq!(calls[1].attribute("gen_ai.usage.output_tokens"), json!(usage.output_tokens));
    assert!(calls[1].attribute("summarizer.cost").as_f64().unwrap() > 0.0);
    for (parent, children) in &below {
        let parent = spans.iter().find(|span| span.text("spanId") == *parent).unwrap();
        for child in children {
            assert!(child.nanos("startTimeUnixNano") >= parent.nanos("startTimeUnixNano"));
            assert!(child.nanos("endTimeUnixNano") <= parent.nanos("endTimeUnixNano"));
        }
    }
    // No words of the source, of the question, of the answer or of an error.
    let answer: Value = serde_json::from_str(&good_answer()).unwrap();
    let answer =
        answer.as_object().unwrap().values().filter_map(Value::as_str).find(|text| text.len() > 20);
    for seen in traces.seen() {
        for word in ["herring", "willow", "one.txt", KEY, answer.unwrap_or("herring")] {
            assert!(!seen.raw.contains(word), "{word} in {}", seen.raw);
        }
    }
    // What `explain` tells is the trace that the collector got.
    let explained: Value = serde_json::from_str(&home.ok(&["--json", "show", "one"])).unwrap();
    assert_eq!(explained["latest"]["trace_id"], root.text("traceId"));
}

#[test]
fn the_span_of_a_call_names_a_provider_that_failed_before_its_fallback() {
    let traces = collector();
    let model = Server::start(vec![status(500, &[], "{\"error\": {\"message\": \"herring\"}}")]);
    let home = Home::new(&config(&model, "fallback = [\"builtin\"]", &telemetry(&traces)));
    home.ask("one", FLOW, SECRET_TEXT);
    home.ok(&["drain"]);
    assert_eq!(home.last_ack("one")["status"], "completed", "{}", home.last_ack("one"));
    let (root, below) = tree(&spans_of(&traces), seq_of(&home, "one"));
    let attempt = &below[&root.text("spanId")][0];
    let call = &below[&attempt.text("spanId")][0];
    // The embedded model answers inside this process.
    assert_eq!(
        (&call.whole["kind"], call.attribute("summarizer.provider")),
        (&json!(1), json!("builtin"))
    );
    let event = &call.whole["events"][0];
    assert_eq!(event["name"], "summarizer.provider.passed_over");
    let told = attributes(event);
    assert_eq!(
        (&told["summarizer.provider"], &told["error.type"]),
        (&json!("loop"), &json!("server_error"))
    );
    assert!(!call.whole.to_string().contains("herring"));
}

#[test]
fn the_answer_of_a_batch_is_a_call_of_its_request() {
    let traces = collector();
    let shelf = Arc::new(Mutex::new(Shelf::answering(&good_answer())));
    shelf.lock().unwrap().is_working = true;
    let model = serve_batches(&shelf);
    let home = Home::new(&config(&model, "batch = true", &telemetry(&traces)));
    home.ask("one", FLOW, SECRET_TEXT);
    let queue = std::fs::read_to_string(home.path("run/queue.jsonl")).unwrap();
    let mut line: Value = serde_json::from_str(queue.trim()).unwrap();
    (line["urgency"], line["not_before"]) = ("scheduled".into(), "2026-02-19T09:00:00Z".into());
    std::fs::write(home.path("run/queue.jsonl"), format!("{line}\n")).unwrap();
    wait_until("the batch is collected", || {
        home.ok(&["drain"]);
        home.last_ack("one")["status"] == "completed"
    });
    let spans = spans_of(&traces);
    let (root, below) = tree(&spans, seq_of(&home, "one"));
    let children = &below[&root.text("spanId")];
    let batched = children.iter().filter(|span| span.attribute("summarizer.batch") == json!(true));
    let batched: Vec<&Span> = batched.collect();
    assert_eq!(batched.len(), 1, "{children:?}");
    assert_eq!(batched[0].text("name"), "chat loop-1");
    // A question that waits for its batch was not asked, so its attempt has no call.
    let first = children.iter().find(|span| span.text("name") == "attempt 1").unwrap();
    assert!(!below.contains_key(&first.text("spanId")), "{below:?}");
}

fn serve(home: &Home) -> Running {
    let mut command = home.command(&["serve"]);
    Running(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
}

fn threads(service: &Running) -> Vec<String> {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", service.0.id())).unwrap();
    let name = |task: std::io::Result<std::fs::DirEntry>| {
        std::fs::read_to_string(task.unwrap().path().join("comm")).unwrap_or_default()
    };
    tasks.map(|task| name(task).trim().to_owned()).collect()
}

fn is_up(home: &Home) -> bool {
    home.run(&["status"]).status.success() && !home.status()["session"].is_null()
}

#[test]
fn without_a_collector_there_is_no_thread_and_no_word_of_it() {
    let home = Home::new("");
    let service = serve(&home);
    wait_until("the service is up", || is_up(&home));
    assert!(!threads(&service).iter().any(|name| name == "telemetry"), "{:?}", threads(&service));
    assert_eq!(home.status()["telemetry"], Value::Null);
    drop(service);
    // The other case, so that the name of the thread is right.
    home.configure(&telemetry(&collector()));
    let service = serve(&home);
    let has_thread = || threads(&service).iter().any(|name| name == "telemetry");
    wait_until("the thread of a collector runs", has_thread);
}

#[test]
fn variables_of_other_programs_turn_nothing_on() {
    let traces = collector();
    let home = Home::new("");
    let drain = |home: &Home, id: &str| {
        home.ask(id, FREE, "A short text. It says little.");
        let mut command: Command = home.command(&["drain"]);
        command.env("OTEL_EXPORTER_OTLP_ENDPOINT", format!("{}/", traces.base));
        command.env(
            "OTEL_EXPORTER_OTLP_HEADERS",
            "x-team=night%20watch, authorization=Bearer%20abc123456",
        );
        let ran = command.output().unwrap();
        assert!(ran.status.code().is_some_and(|code| code < 2), "{ran:?}");
    };
    drain(&home, "one");
    assert!(traces.seen().is_empty(), "only the settings of this program decide");
    home.configure("[telemetry]\nendpoint = \"env\"\n");
    drain(&home, "two");
    assert!(!spans_of(&traces).is_empty());
    let head = traces.seen()[0].head.to_ascii_lowercase();
    assert!(
        head.contains("x-team: night watch") && head.contains("authorization: bearer abc123456"),
        "{head}"
    );
    let ran = home.run(&["drain"]);
    assert_eq!(ran.status.code(), Some(3), "a variable that is not set is told");
}

/// A flow that stays on this machine has no span elsewhere, and ids of producers stay as well.
#[test]
fn a_collector_elsewhere_gets_no_ids_of_producers_and_nothing_of_local_flows() {
    let traces = collector();
    // The same listener by an address that is not known as this machine.
    let port = traces.base.rsplit(':').next().unwrap();
    let far = format!("[telemetry]\nendpoint = \"http://[::ffff:127.0.0.1]:{port}\"\n");
    let home = Home::new(&format!("{far}[flow.\"{FREE}\"]\nlocal_only = true\n"));
    home.ask("letter-to-ana", "writing.outline.generate.v1", SECRET_TEXT);
    home.ask("letter-to-bo", "docs.chunk_set.summarize.brief.v1", SECRET_TEXT);
    home.ok(&["drain"]);
    let spans = spans_of(&traces);
    assert!(!spans.is_empty());
    for seen in traces.seen() {
        assert!(!seen.raw.contains("letter-to") && !seen.raw.contains(FREE), "{}", seen.raw);
    }
}

#[test]
fn a_collector_that_fails_in_any_way_delays_nothing_and_is_counted() {
    let cases: [(&str, Vec<Act>, &str); 5] = [
        ("it never answers", vec![Act::Silence], "waiting"),
        ("it refuses", vec![status(400, &[], "no")], "refused"),
        ("it wants a key", vec![status(401, &[], "{}")], "refused"),
        ("it is too busy", vec![status(503, &[("retry-after", "3600")], "")], "waiting"),
        (
            "it takes a part",
            vec![Act::Send(
                200,
                Vec::new(),
                "{\"partialSuccess\":{\"rejectedSpans\":\"1\",\"errorMessage\":\"herring\"}}"
                    .to_owned(),
            )],
            "refused",
        ),
    ];
    for (case, acts, what) in cases {
        let traces = Server::start(acts);
        let home = Home::new(&telemetry(&traces));
        let service = serve(&home);
        wait_until("the service is up", || is_up(&home));
        home.ask("one", FREE, SECRET_TEXT);
        wait_until("the request ends whatever the collector does", || {
            home.acks("one").iter().any(|ack| ack["status"] == "completed")
        });
        match what {
            "refused" => wait_until("refused spans are counted", || {
                home.status()["telemetry"]["refused"].as_u64().unwrap() > 0
            }),
            _ => {
                wait_until("the collector was asked", || !traces.seen().is_empty());
                home.ask("two", FREE, "Another text. It is longer than the first one.");
                wait_until("later requests end as well", || {
                    home.acks("two").iter().any(|ack| ack["status"] == "completed")
                });
                assert_eq!(home.status()["telemetry"]["sent"], 0, "{case}");
            }
        }
        let told = home.status()["telemetry"].to_string();
        assert!(!told.contains("herring"), "{case}: {told}");
        assert!(home.ok(&["status"]).contains("spans sent"), "{case}");
        assert_eq!(service.terminate(), Some(0), "{case}");
    }
}

#[test]
fn a_command_that_ends_says_how_many_spans_nobody_took() {
    let model = Server::start(vec![good()]);
    let down = "[telemetry]\nendpoint = \"http://127.0.0.1:9\"\n";
    let home = Home::new(&config(&model, "", down));
    home.ask("one", FLOW, SECRET_TEXT);
    let ran = home.run(&["drain"]);
    let said = String::from_utf8(ran.stderr).unwrap();
    let lines: Vec<&str> = said.lines().filter(|line| line.contains("not delivered to")).collect();
    assert_eq!(lines.len(), 1, "{said}");
    // The request, its attempt and its call.
    assert!(
        lines[0].contains("3 spans were not delivered to http://127.0.0.1:9/v1/traces: "),
        "{said}"
    );
    assert!(lines[0].contains("connection_refused"), "{said}");
}

#[test]
fn doctor_says_where_traces_go_and_whether_they_are_taken() {
    let traces = collector();
    let home = Home::new(&telemetry(&traces));
    home.ok(&["init"]);
    let told = |args: &[&str]| {
        let ran = home.run(args);
        format!("{}{}", String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr))
    };
    assert!(told(&["doctor"]).contains("traces go to"), "{}", told(&["doctor"]));
    assert!(traces.seen().is_empty(), "only --probe sends");
    assert!(told(&["doctor", "--probe"]).contains("takes traces"));
    assert_eq!(traces.seen()[0].body, json!({"resourceSpans": []}));
    home.configure("[telemetry]\nendpoint = \"http://127.0.0.1:9\"\n");
    assert!(told(&["doctor", "--probe"]).contains("traces are lost"));
    home.configure("[telemetry]\nendpoint = \"somewhere\"\n");
    assert!(told(&["doctor"]).contains("telemetry.endpoint"));
}
