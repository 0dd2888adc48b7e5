//! The page in a browser, and the server below it for any client: what it shows, what it refuses,
//! that only a person with the token acts, and that no shown text can run as code.
//!
//! `SUMMARIZER_SCREENSHOTS=DIR` writes pictures of every view, light and dark, wide and narrow.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test stops at a surprise")]

#[path = "support/batch_server.rs"]
mod batch_server;
#[path = "support/server.rs"]
mod server;

mod page {
    pub mod devtools;
}
mod support;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use batch_server::{Shelf, serve_batches};
use page::devtools::Tab;
use serde_json::{Value, json};
use summarizer::os::process;
use support::process::ProcessHome;
use support::requests::{ACTIVE, DISABLED, from_repo, lines, request, with};
use support::running::until;

/// An agent run, which is folded into a snapshot.
const RUN_LOG: &str = include_str!("fixtures/compaction/worked_example.jsonl");

/// A request id that is harmful as markup.
const EVIL: &str = "<img src=x onerror=document.title='owned'>";

struct Served {
    home: ProcessHome,
    service: Child,
    address: String,
}

impl Served {
    fn start() -> Served {
        let home = ProcessHome::new();
        let settings = format!(
            "[status]\nhttp = \"127.0.0.1:0\"\nlogin = false\n[export]\nmin_interval = \"50 ms\"\n\
             [compaction]\nevent_threshold = 6\n[default_flow]\ndocument = \"{ACTIVE}\"\n"
        );
        std::fs::write(home.path("summarizer.toml"), settings).unwrap();
        let text = "The import failed twice on Monday because the disk was full. Ana moved the \
                    archive to the new volume, and <b>every import</b> of a Vec<Mail> has finished \
                    since. Next week we delete the old volume. The café orders new cups on Friday.";
        let mut requests = vec![request(EVIL, DISABLED, json!({}))];
        for (index, id) in ["import-report", "kitchen-mail", "release-notes"].iter().enumerate() {
            home.note(&format!("{id}.txt"), &format!("{text} This is note number {index}."));
            requests.push(from_repo(request(id, ACTIVE, json!({})), "office"));
        }
        requests.push(request("import-report", ACTIVE, json!({})));
        requests.push(request("missing-file", ACTIVE, json!({})));
        requests.push(with(
            with(request("next-year", ACTIVE, json!({})), "urgency", "scheduled"),
            "not_before",
            "2999-01-01T00:00:00Z",
        ));
        home.append(&lines(&requests));
        home.append(b"{\"request_id\":\"<script>document.title='owned'</script>\"}\n");
        let selectors = "registry.selectors.v1.jsonl";
        let known = Path::new(env!("CARGO_MANIFEST_DIR")).join("registry").join(selectors);
        std::fs::copy(known, home.path("flow_registry").join(selectors)).unwrap();
        std::fs::create_dir_all(home.path("run/run_logs")).unwrap();
        std::fs::write(home.path("run/run_logs/agent.jsonl"), RUN_LOG).unwrap();
        std::fs::write(home.path("secret.md"), "a secret").unwrap();
        let served = Served::of(home, "");
        until("everything is done and shown", || {
            let days = served.json("/api/days")["days"].clone();
            served.json("/api/status")["requests"]["open"] == 1
                && produced(&days) == 3
                && served.json("/api/runs")["total"] == 1
        });
        // A build is refused until the newest summaries are published.
        until("the digests are built", || served.home.run(&["digest", "build"]).exit == Some(0));
        served
    }

    /// A service on a home, with a clock that begins at `now` unless that is empty.
    fn of(home: ProcessHome, now: &str) -> Served {
        let mut service = home.command(&["serve"]);
        if !now.is_empty() {
            service.env("SUMMARIZER_TEST_NOW", now);
        }
        let mut service = service.stderr(Stdio::piped()).spawn().unwrap();
        let mut said = BufReader::new(service.stderr.take().unwrap()).lines();
        let address = said
            .find_map(|line| {
                let line = line.unwrap();
                Some(line.strip_prefix("status page: http://")?.trim_end_matches('/').to_owned())
            })
            .unwrap();
        std::thread::spawn(move || said.for_each(drop));
        Served { home, service, address }
    }

    fn send(&self, bytes: &[u8]) -> String {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(300))).unwrap();
        // The server may answer and close before it has read the whole request.
        let _ = stream.write_all(bytes);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    }

    fn get(&self, path: &str) -> String {
        self.send(format!("GET {path} HTTP/1.1\r\nHost: {}\r\n\r\n", self.address).as_bytes())
    }

    fn body(&self, path: &str) -> String {
        let answer = self.get(path);
        assert!(answer.starts_with("HTTP/1.1 200 "), "{path}: {answer}");
        answer.split_once("\r\n\r\n").unwrap().1.to_owned()
    }

    fn json(&self, path: &str) -> Value {
        let body = self.body(path);
        serde_json::from_str(&body).unwrap_or_else(|error| panic!("{path}: {error}: {body}"))
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.service.kill();
        let _ = self.service.wait();
    }
}

/// Summaries of documents that a list of days counts.
fn produced(days: &Value) -> u64 {
    let days = days.as_array().unwrap().iter().filter(|day| day["stream"] == "documents");
    days.map(|day| day["counts"]["produced"].as_u64().unwrap_or(0)).sum()
}

fn status_of(answer: &str) -> u16 {
    answer.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0)
}

#[test]
fn the_server_answers_its_paths_and_refuses_all_others() {
    let served = Served::start();
    let page = served.get("/");
    for header in [
        "Content-Security-Policy: default-src 'none'; script-src 'sha256-",
        "X-Content-Type-Options: nosniff",
        "X-Frame-Options: DENY",
        "Cache-Control: no-store",
        "Cross-Origin-Resource-Policy: same-origin",
    ] {
        assert!(page.contains(header), "{header} is missing");
    }
    assert!(!page.contains("Access-Control-Allow"), "nobody else may read it");
    let host = served.address.clone();
    let refused = [
        (format!("GET / HTTP/1.1\r\nHost: evil.example:{}\r\n\r\n", 80), 421),
        ("GET /api/status HTTP/1.1\r\nHost: 127.0.0.1.evil.example\r\n\r\n".to_owned(), 421),
        ("GET / HTTP/1.1\r\n\r\n".to_owned(), 400),
        (format!("POST /api/status HTTP/1.1\r\nHost: {host}\r\n\r\n"), 405),
        (format!("GET / HTTP/1.1\r\nHost: {host}\r\nContent-Length: 9\r\n\r\n"), 413),
        (format!("GET /{} HTTP/1.1\r\nHost: {host}\r\n\r\n", "a".repeat(20_000)), 431),
        (format!("GET /nothing HTTP/1.1\r\nHost: {host}\r\n\r\n"), 404),
        (format!("GET /api/nothing HTTP/1.1\r\nHost: {host}\r\n\r\n"), 404),
        (format!("GET /api/request HTTP/1.1\r\nHost: {host}\r\n\r\n"), 400),
        (format!("GET /api/requests?state=odd HTTP/1.1\r\nHost: {host}\r\n\r\n"), 400),
        ("\u{0}\r\n\r\n".to_owned(), 400),
    ];
    for (bytes, status) in &refused {
        let answer = served.send(bytes.as_bytes());
        assert_eq!(status_of(&answer), *status, "{}\n{answer}", &bytes[..bytes.len().min(80)]);
    }
    let head = served.send(format!("HEAD / HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes());
    assert!(head.starts_with("HTTP/1.1 200 ") && head.ends_with("\r\n\r\n"), "{head}");
    for path in [
        "/api/bag?id=bag_1",
        "/api/bag?id=../../secret.md",
        "/api/snapshot?run=..%2f..%2fsecret.md",
        "/api/snapshot?run=nobody",
        "/api/document?kind=digests&path=secret.md",
    ] {
        assert_eq!(status_of(&served.get(path)), 404, "{path}");
    }
    // A path that leaves its folder is refused.
    let index = served.home.path("buses/index/digest_registry.json");
    let known = std::fs::read_to_string(&index).unwrap();
    let bag = served.json("/api/bags")["bags"][0]["bag_id"].as_str().unwrap().to_owned();
    let of_bag = format!("/api/bag?id={bag}");
    assert_eq!(served.json(&of_bag)["bag_id"], bag.as_str());
    std::fs::write(&index, known.replace("digests/L2/", "../digests/L2/")).unwrap();
    assert_eq!(status_of(&served.get(&of_bag)), 404);
    std::fs::write(&index, "{").unwrap();
    assert_eq!(status_of(&served.get("/api/bags")), 503);
    std::fs::write(&index, known).unwrap();
    // Silent callers keep no reader out, however many they are.
    let idle: Vec<TcpStream> =
        (0..200).map(|_| TcpStream::connect(&served.address).unwrap()).collect();
    assert_eq!(status_of(&served.get("/api/status")), 200);
    drop(idle);
    served.home.expect(0, &["status"]);
}

#[test]
fn the_page_shows_the_same_numbers_as_the_commands() {
    let served = Served::start();
    let told = served.home.expect(0, &["status", "--json"]).json();
    let shown = served.json("/api/status");
    assert_eq!(shown["requests"]["by_status"], told["requests"]["by_status"]);
    let builtin = shown["providers"].as_array().unwrap();
    let builtin = builtin.iter().find(|provider| provider["name"] == "builtin").unwrap();
    assert_eq!((&builtin["items"], &builtin["well"]), (&json!(3), &json!(true)));
    let found = served.json("/api/requests?q=OFFICE&state=completed")["requests"].clone();
    let ids: Vec<&str> =
        found.as_array().unwrap().iter().filter_map(|row| row["request_id"].as_str()).collect();
    assert_eq!(ids, ["release-notes", "kitchen-mail", "import-report"]);
    let named = served.json("/api/requests?q=kitchen-mail.TXT&state=completed")["requests"].clone();
    assert_eq!((named[0]["source"].as_str(), named[1].as_str()), (Some("kitchen-mail.txt"), None));
    let first = served.json("/api/requests?limit=2");
    let next = first["next"].as_u64().unwrap();
    let second = served.json(&format!("/api/requests?limit=2&before={next}"));
    assert_ne!(first["requests"][1]["seq"], second["requests"][0]["seq"]);
    let mut show = served.home.expect(0, &["show", "kitchen-mail", "--json"]).json();
    // The command adds what the published summary says, and which one took its place.
    for (name, said) in [("private", json!(false)), ("replaced_by", json!(null))] {
        assert_eq!(show.as_object_mut().unwrap().remove(name), Some(said));
    }
    assert_eq!(served.json("/api/request?id=kitchen-mail"), show);
    let explained = served.json("/api/explain?id=kitchen-mail");
    let text = explained["sources"][0]["text"].as_str().unwrap();
    for sentence in explained["sentences"].as_array().unwrap() {
        for span in sentence["spans"].as_array().unwrap() {
            let at = |name: &str| usize::try_from(span[name].as_u64().unwrap()).unwrap();
            assert_eq!(&text[at("start")..at("end")], span["quote"].as_str().unwrap());
        }
    }
    lists_go_on_to_their_end(&served);
    // Digests and snapshots: the same as the commands list, a page at a time.
    let told = served.home.expect(0, &["digest", "list", "--json"]).json();
    let all = served.json("/api/bags?limit=100");
    assert_eq!(all["total"].as_u64().unwrap() as usize, told["bags"].as_array().unwrap().len());
    let (mut paged, mut offset) = (Vec::new(), 0);
    loop {
        let page = served.json(&format!("/api/bags?limit=2&offset={offset}"));
        let rows = page["bags"].as_array().unwrap().clone();
        if rows.is_empty() {
            break;
        }
        offset += rows.len();
        paged.extend(rows);
    }
    assert_eq!(&json!(paged), &all["bags"]);
    let bag = served.json(&format!("/api/bag?id={}", all["bags"][0]["bag_id"].as_str().unwrap()));
    assert_eq!(bag["summaries_total"], bag["counts"]["selected"]);
    assert!(bag["memo"]["text"].as_str().unwrap().contains("every import"), "{bag}");
    assert_eq!(served.json("/api/bags?q=no-such-selector")["total"], 0);
    let snapshot = served.json("/api/snapshot?run=run_demo_01");
    assert!(snapshot["narrative"].as_str().unwrap().starts_with("# Run run_demo_01"), "{snapshot}");
    assert_eq!(snapshot["validation"]["status"], "PASS");
    let limits = &served.json("/api/status")["limits"];
    assert_eq!((&limits["event_threshold"], &limits["step_fallback"]), (&json!(6), &json!(8)));
    let spend = served.json("/api/spend");
    assert_eq!((&spend["days"], &spend["today"]), (&json!([]), &told_today(&served)));
    let metrics = served.body("/metrics");
    for line in metrics.lines().filter(|line| !line.starts_with('#')) {
        let (name, value) = line.rsplit_once(' ').unwrap();
        assert!(name.starts_with("summarizer_") && value.parse::<f64>().is_ok(), "{line}");
    }
    for line in [
        "summarizer_up 1",
        "summarizer_requests{state=\"completed\"} 3",
        "summarizer_outcomes_total{outcome=\"completed\"} 3",
        "summarizer_provider_items_total{provider=\"builtin\"} 3",
        "summarizer_quarantined_lines 3",
        "summarizer_attempt_seconds_count 4",
    ] {
        assert!(metrics.lines().any(|found| found == line), "{line} is missing in\n{metrics}");
    }
}

/// Lists are complete page by page, without repeats, with any filter or search.
fn lists_go_on_to_their_end(served: &Served) {
    let walk = |path: &str, rows: &str, cursor: &dyn Fn(&Value) -> Option<String>| {
        let (mut found, mut place) = (Vec::new(), String::new());
        for _ in 0..100 {
            let page = served.json(&format!("{path}{place}"));
            let more = page[rows].as_array().unwrap();
            assert!(more.len() <= 2, "{path}: {page}");
            found.extend(more.iter().cloned());
            match cursor(&page) {
                Some(next) => place = next,
                None => return found,
            }
        }
        panic!("{path} does not end");
    };
    let before = |page: &Value| page["next"].as_u64().map(|next| format!("&before={next}"));
    let ids = |rows: &[Value]| -> Vec<String> {
        rows.iter().map(|row| row["request_id"].as_str().unwrap_or_default().to_owned()).collect()
    };
    let all = walk("/api/requests?limit=2", "requests", &before);
    let seqs: Vec<u64> = all.iter().map(|row| row["seq"].as_u64().unwrap()).collect();
    assert!(seqs.is_sorted_by(|a, b| a > b), "{seqs:?}");
    let status = served.json("/api/status");
    assert_eq!(all.len() as u64, status["requests"]["taken"].as_u64().unwrap());
    for (state, count) in status["requests"]["by_status"].as_object().unwrap() {
        let some = walk(&format!("/api/requests?limit=2&state={state}"), "requests", &before);
        assert_eq!(some.len() as u64, count.as_u64().unwrap(), "{state}: {some:?}");
    }
    let flow = walk(&format!("/api/requests?limit=2&flow={ACTIVE}"), "requests", &before);
    assert_eq!(flow.len(), all.iter().filter(|row| row["flow_id"] == ACTIVE).count());
    let office = walk("/api/requests?limit=2&q=OFFICE", "requests", &before);
    assert_eq!(ids(&office), ["release-notes", "kitchen-mail", "import-report"]);
    assert!(walk("/api/requests?limit=2&q=nobody", "requests", &before).is_empty());
    // Quarantine: newest first.
    served.home.append(b"no request either\nand no third one\n");
    until("they are set aside", || served.json("/api/status")["quarantined"] == 3);
    let lines = walk("/api/quarantine?limit=2", "lines", &before);
    let seqs: Vec<u64> = lines.iter().map(|line| line["seq"].as_u64().unwrap()).collect();
    assert_eq!((lines.len(), seqs.is_sorted_by(|a, b| a > b)), (3, true), "{lines:?}");
    // Summaries: newest first, to the end, all of them and those of a day.
    let days = served.json("/api/days");
    let day = days["days"].as_array().unwrap().iter().find(|day| day["counts"]["produced"] == 3);
    let day = day.unwrap()["day"].as_str().unwrap();
    let after = |page: &Value| page["next"].as_str().map(|place| format!("&after={place}"));
    for path in ["/api/newest?limit=2".to_owned(), format!("/api/newest?limit=2&day={day}")] {
        let items = walk(&path, "summaries", &after);
        let known: std::collections::BTreeSet<&str> =
            items.iter().map(|item| item["summary_id"].as_str().unwrap()).collect();
        assert_eq!((items.len(), known.len()), (3, 3), "{path}");
        let times: Vec<i64> = items.iter().map(|item| item["at_ms"].as_i64().unwrap()).collect();
        assert!(times.is_sorted_by(|a, b| a >= b), "{times:?}");
    }
    let hits = walk("/api/newest?limit=2&q=EVERY+import", "summaries", &after);
    assert!(hits.iter().all(|hit| hit["hit"].as_str().unwrap().contains("every import")));
    assert_eq!(hits.len(), 3);
    assert!(walk("/api/newest?limit=2&q=nobody+import", "summaries", &after).is_empty());
    assert_eq!(status_of(&served.get("/api/newest?after=nowhere")), 400);
    assert_eq!(served.json("/api/projects")["projects"][0]["summaries"], 3);
    let oldest = days["days"].as_array().unwrap().last().unwrap()["day"].as_str().unwrap();
    assert_eq!(served.json(&format!("/api/days?before={oldest}"))["days"], json!([]));
    // Charts: only what is new.
    let points = served.json("/api/history")["points"].as_array().unwrap().clone();
    if let Some(last) = points.last() {
        let at = last["at"].as_str().unwrap();
        let new = served.json(&format!("/api/history?since={at}"))["points"].clone();
        assert!(!new.as_array().unwrap().contains(last), "{new}");
    }
}

fn told_today(served: &Served) -> Value {
    served.home.expect(0, &["status", "--json"]).json()["today"].clone()
}

/// The cost of models is shown by day and beside the limit, including cost from before the start.
#[test]
fn the_page_shows_what_was_spent_on_which_day() {
    let home = ProcessHome::new();
    let script = home.path("model.sh");
    let answer =
        "{\"text\":\"It failed twice.\",\"usage\":{\"input_tokens\":1000,\"output_tokens\":500}}";
    std::fs::write(&script, format!("#!/bin/sh\ncat > /dev/null\nprintf '%s' '{answer}'\n"))
        .unwrap();
    let settings = format!(
        "[status]\nhttp = \"127.0.0.1:0\"\nlogin = false\n[budget]\nmax_cost_per_day = 40\n[provider]\n\
         default = \"script\"\n[provider.script]\nkind = \"command\"\nprice_in = 1000\n\
         price_out = 2000\ncommand = [\"/bin/sh\", \"{}\"]\n",
        script.display()
    );
    std::fs::write(home.path("summarizer.toml"), settings).unwrap();
    for (id, now) in [("a", "2026-03-01T10:00:00Z"), ("b", "2026-03-02T10:00:00Z")] {
        home.note(&format!("{id}.txt"), "It failed twice on Monday. It works again since.");
        home.append(&lines(&[with(request(id, ACTIVE, json!({})), "idempotency_key", id)]));
        let mut drain = home.command(&["drain"]);
        // Requests may fail on purpose: then `drain` exits with 1.
        let ended = drain.env("SUMMARIZER_TEST_NOW", now).status().unwrap();
        assert!(matches!(ended.code(), Some(0 | 1)), "{ended}");
    }
    home.note("c.txt", "It failed twice on Monday. It works again since.");
    home.append(&lines(&[request("c", ACTIVE, json!({}))]));
    let served = Served::of(home, "2026-03-02T11:00:00Z+");
    until("what was spent is told", || {
        let spend = served.json("/api/spend");
        let calls = |day: usize| spend["days"][day]["calls"].as_u64().unwrap_or(0);
        spend["whole"] == true && calls(1) > 0 && calls(0) == 2 * calls(1)
    });
    let spend = served.json("/api/spend");
    assert_eq!(
        (&spend["today"], &spend["limits"]["cost_per_day"]),
        (&json!("2026-03-02"), &json!(40.0))
    );
    let days = spend["days"].as_array().unwrap();
    let named: Vec<&str> = days.iter().map(|day| day["day"].as_str().unwrap()).collect();
    assert_eq!(named, ["2026-03-02", "2026-03-01"]);
    // The page shows the same cost for today as the log.
    let today = &served.json("/api/status")["charged"]["providers"]["script"];
    for name in ["cost", "calls", "input_tokens", "output_tokens"] {
        assert_eq!(&days[0][name], &today[name], "{name}");
        assert_eq!(&days[0]["providers"]["script"][name], &today[name], "{name}");
    }
    let cost = format!("{:.2} of 40.00", days[0]["cost"].as_f64().unwrap());
    let Some(browser) = Browser::found() else { return };
    let url = format!("http://{}/#/providers", served.address);
    let wanted = ["Spend today", cost.as_str(), "2026-03-01", "Recent days"];
    let document =
        browser.shows(&url, |document| wanted.iter().all(|words| document.contains(words)));
    for words in wanted {
        assert!(document.contains(words), "{words} is missing in\n{document}");
    }
    browser.pictures("spend", &url);
}

/// Batches under way and ended stand on the page, with their wait and what was saved.
#[test]
fn the_page_shows_batches_and_what_they_saved() {
    let shelf = Arc::new(Mutex::new(Shelf::answering("It failed twice.")));
    shelf.lock().unwrap().is_working = true;
    let server = serve_batches(&shelf);
    let home = ProcessHome::new();
    let settings = format!(
        "[status]\nhttp = \"127.0.0.1:0\"\nlogin = false\n[provider]\ndefault = \"far\"\n[provider.far]\n\
         kind = \"openai\"\nmodel = \"far-1\"\nbase_url = \"{}/v1\"\nprice_in = 1000\n\
         price_out = 2000\nbatch = true\nbatch_wait = \"10 ms\"\nbatch_poll = \"20 ms\"\n",
        server.base
    );
    std::fs::write(home.path("summarizer.toml"), settings).unwrap();
    let served = Served::of(home, "2026-03-02T11:00:00Z+");
    let ask = |id: &str| {
        served.home.note(&format!("{id}.txt"), &format!("Note {id}: it failed twice on Monday."));
        let line = with(request(id, ACTIVE, json!({})), "urgency", "scheduled");
        served.home.append(&lines(&[with(line, "not_before", "2026-03-01T00:00:00Z")]));
    };
    let status = || served.json("/api/status");
    assert_eq!((&status()["batches"], &status()["finished_batches"]), (&json!([]), &Value::Null));
    ask("first");
    until("the answers are collected", || status()["finished_batches"]["answered"] == 1);
    shelf.lock().unwrap().is_working = false;
    ask("second");
    until("the other batch is at the server", || status()["batches"][0]["server_id"] == "batch_1");
    let ended = status()["finished_batches"].clone();
    let newest = &ended["recent"][0];
    assert_eq!((&newest["server_id"], &newest["end"]), (&json!("batch_0"), &json!("completed")));
    // 1,000 and 500 tokens at half of the prices.
    assert_eq!((&newest["cost"], &ended["saved"]), (&json!(1.0), &json!(1.0)));
    assert!(newest["waited_ms"].is_u64() && status()["batches"][0]["waited_ms"].is_u64());
    let Some(browser) = Browser::found() else { return };
    let url = format!("http://{}/#/providers", served.address);
    let wanted =
        ["1 batch ended", "1.00 saved", "batch_0", "completed", "batch_1", "at the server"];
    let document =
        browser.shows(&url, |document| wanted.iter().all(|words| document.contains(words)));
    for words in wanted {
        assert!(document.contains(words), "{words} is missing in\n{document}");
    }
    browser.pictures("batches", &url);
}

/// All paths are asked for repeatedly while requests arrive: each answer is complete and in order.
#[test]
fn the_page_answers_while_the_service_is_busy() {
    const ROUNDS: usize = 6;
    const MORE: u64 = 600;
    let served = Served::start();
    let before = served.json("/api/status")["requests"]["by_status"]["completed"].as_u64().unwrap();
    let browser = Browser::found().map(|browser| {
        let url = format!("http://{}/#/requests", served.address);
        std::thread::spawn(move || browser.shows(&url, |document| document.contains("busy-")))
    });
    let (mut completed, mut rounds) = (before, 0);
    until("all of them are completed", || {
        // Each round finds more work under way than the one before.
        if rounds < ROUNDS {
            let requests: Vec<Value> = (0..MORE as usize / ROUNDS)
                .map(|index| {
                    let id = format!("busy-{rounds}-{index}");
                    served
                        .home
                        .note(&format!("{id}.txt"), &format!("Mail {id} came. It was read."));
                    request(&id, ACTIVE, json!({}))
                })
                .collect();
            served.home.append(&lines(&requests));
            rounds += 1;
        }
        let status = served.json("/api/status");
        let now = status["requests"]["by_status"]["completed"].as_u64().unwrap();
        assert!(now >= completed, "it counts backwards: {completed}, then {now}");
        completed = now;
        let found = served.json("/api/requests?q=busy&limit=50");
        assert!(found["requests"].as_array().unwrap().len() <= 50);
        for path in ["/api/history", "/api/days", "/api/quarantine", "/metrics"] {
            served.body(path);
        }
        completed == before + MORE
    });
    if let Some(browser) = browser {
        let document = browser.join().unwrap();
        assert!(!document.contains("class=\"error\""), "{document}");
    }
}

/// A browser that works on this machine.
#[derive(Clone)]
struct Browser(PathBuf);

impl Browser {
    /// An installed browser that shows a minimal page. Without one it prints that it skips.
    fn found() -> Option<Browser> {
        static FOUND: OnceLock<Option<Browser>> = OnceLock::new();
        let look = || {
            let paths = std::env::var_os("PATH").unwrap_or_default();
            let names = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];
            let program = std::env::split_paths(&paths)
                .flat_map(|dir| names.map(|name| dir.join(name)))
                .find(|path| path.exists());
            let plain = "data:text/html,<p id=here>here</p><script>here.append(6*7)</script>";
            let works = |browser: &Browser| {
                let shown = browser.run(&["--dump-dom", plain]);
                shown.is_some_and(|document| document.contains("here42"))
            };
            let found = program.map(Browser).filter(|one| works(one) || works(one));
            if found.is_none() {
                let told = "LEFT OUT: there is no chromium that works (`.ci/run` installs one where \
                            it may): the page is not opened";
                let _ = writeln!(std::io::stderr().lock(), "!! {told}");
            }
            found
        };
        FOUND.get_or_init(look).clone()
    }

    /// The output of a run with these arguments and a fresh profile; `None` when it fails or does not
    /// end.
    fn run(&self, arguments: &[&str]) -> Option<String> {
        let profile = tempfile::tempdir().unwrap();
        let own = format!("--user-data-dir={}", profile.path().display());
        let arguments = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--hide-scrollbars",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--disable-background-networking",
            "--no-proxy-server",
            "--virtual-time-budget=4000",
            "--timeout=60000",
            &own,
        ]
        .into_iter()
        .chain(arguments.iter().copied());
        // In a process group of its own, so that its child processes end with it.
        let program = process::Program {
            program: self.0.clone().into(),
            args: arguments.map(Into::into).collect(),
            folder: Some(profile.path().to_owned()),
            environment: Vec::new(),
            variables: Vec::new(),
            dies_with_us: true,
            stdout_bytes_max: 64 << 20,
            timeout: Duration::from_secs(120),
            jail: None,
        };
        let ended = process::run(&program, b"").ok().filter(|ended| ended.code == Some(0))?;
        Some(String::from_utf8_lossy(&ended.stdout).into_owned())
    }

    /// Writes pictures of a view if the variable is set.
    fn pictures(&self, name: &str, url: &str) {
        let Some(folder) = std::env::var_os("SUMMARIZER_SCREENSHOTS") else { return };
        for (scheme, setting) in [("light", "1"), ("dark", "0")] {
            for (width, size) in [("wide", "1280,900"), ("narrow", "500,1000")] {
                let file = Path::new(&folder).join(format!("{name}-{scheme}-{width}.png"));
                let arguments = [
                    format!("--blink-settings=preferredColorScheme={setting}"),
                    format!("--window-size={size}"),
                    format!("--screenshot={}", file.display()),
                    url.to_owned(),
                ];
                let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
                self.run(&arguments);
                assert!(file.exists(), "{}", file.display());
            }
        }
    }

    /// The document of a page once it shows something. On a slow machine the browser may finish before
    /// the page has its answers, so it is asked again for a while.
    fn shows(&self, url: &str, shows: impl Fn(&str) -> bool) -> String {
        let deadline = Instant::now() + Duration::from_secs(240);
        loop {
            let document = self.run(&["--dump-dom", url]).unwrap_or_default();
            if shows(&document) || Instant::now() > deadline {
                assert!(!document.is_empty(), "{url}: the browser, which works, shows nothing");
                return document;
            }
        }
    }
}

#[test]
fn a_real_browser_shows_every_view_and_runs_no_injected_code() {
    let Some(browser) = Browser::found() else { return };
    let served = Served::start();
    until("the charts have points", || {
        served.json("/api/history")["points"].as_array().unwrap().len() >= 3
    });
    let explained = served.json("/api/explain?id=import-report");
    let summary = format!("#/summary/{}", explained["summary_id"].as_str().unwrap());
    let first = served.json("/api/bags?q=overview.daily")["bags"][0]["bag_id"].clone();
    let digest = format!("#/digest/{}", first.as_str().unwrap());
    let views: [(&str, &str, &[&str]); 15] = [
        (
            "overview",
            "#/overview",
            &["Open requests", "Completed", "1 open", "class=\"stroke\"", "rejected unknown flow"],
        ),
        ("requests", "#/requests", &["&lt;img src=x onerror=", "kitchen-mail", "waiting"]),
        ("search", "#/requests?q=kitchen", &["kitchen-mail", "1 shown"]),
        (
            "request",
            "#/request/kitchen-mail",
            &["summary produced", "What happened", "Read the summary"],
        ),
        ("read", "#/", &["Newest", "of a Vec&lt;Mail&gt; has", "3 summaries, that is all"]),
        ("found", "#/read?q=EVERY%20import", &["class=\"hit\">every", "<blockquote"]),
        ("days", "#/days", &["3 summaries"]),
        // By the rules of the selectors, the repository that asked is the project.
        ("projects", "#/projects", &["#/read?project=office", "3 summaries, newest"]),
        (
            "summary",
            &summary,
            &["class=\"sentence s0\"", "import-report.txt", "&lt;b&gt;every import&lt;/b&gt;"],
        ),
        ("digests", "#/digests", &["overview.daily", "cohort", "3 summaries"]),
        (
            "digest",
            &digest,
            &["Timeline", "<strong>", "every import of a Vec&lt;Mail&gt;", "href=\"#/summary/sum_"],
        ),
        ("compaction", "#/compaction", &["6 counted events", "run_demo_01", "checks passed"]),
        (
            "run",
            "#/run/run_demo_01",
            &["Verified claims", "verified of", "objective unchanged", "<h2>"],
        ),
        (
            "quarantine",
            "#/quarantine",
            &["schema violation", "&lt;script&gt;document.title", "quarantine release"],
        ),
        ("providers", "#/providers", &["builtin", "well"]),
    ];
    for (name, hash, wanted) in views {
        let url = format!("http://{}/{hash}", served.address);
        // The shown text, without the page's own style and script.
        let body = |document: &str| -> String {
            let body = document.split_once("<body").map_or("", |(_, body)| body);
            body.split("<script>").next().unwrap_or_default().to_owned()
        };
        let titled = browser.shows(&url, |document| {
            let document = body(document);
            wanted.iter().all(|words| document.contains(words))
        });
        let document = body(&titled);
        for words in wanted {
            assert!(document.contains(words), "{name}: {words} is missing in\n{document}");
        }
        assert!(titled.contains("<title>summarizer</title>"), "{name}: something ran");
        assert!(!document.contains("javascript:alert(1)\" href"), "{name}");
        assert!(!document.contains("class=\"error\""), "{name}: an error is shown\n{document}");
        browser.pictures(name, &url);
    }
}

/// The link that `open` gives to a person: the address with the token.
fn link(served: &Served) -> (String, String) {
    let told = served.home.expect(0, &["open", "--print", "--json"]).json();
    let url = told["url"].as_str().unwrap().to_owned();
    let token = url.split("token=").nth(1).unwrap().split('&').next().unwrap().to_owned();
    (url, token)
}

#[test]
fn only_a_caller_with_the_token_and_of_the_same_origin_acts() {
    let served = Served::start();
    let (url, token) = link(&served);
    assert!(url.starts_with(&format!("http://{}/#token=", served.address)), "{url}");
    let host = served.address.clone();
    let post = |path: &str, headers: &str, body: &str| {
        let head = format!("POST {path} HTTP/1.1\r\nHost: {host}\r\n{headers}");
        let length = body.len();
        served.send(format!("{head}Content-Length: {length}\r\n\r\n{body}").as_bytes())
    };
    let origin = format!("Origin: http://{host}\r\n");
    let bearer = format!("Authorization: Bearer {token}\r\n");
    let other = "Origin: http://evil.example\r\n";
    let wrong = "Authorization: Bearer 0123456789abcdef0123456789abcdef\r\n";
    let refused = [
        ("no token", origin.clone(), 401),
        ("another token", format!("{origin}{wrong}"), 401),
        ("a token as a query", origin.clone(), 401),
        ("no origin", bearer.clone(), 403),
        ("another origin", format!("{other}{bearer}"), 403),
        ("two tokens", format!("{origin}{bearer}{bearer}"), 401),
    ];
    for (what, headers, status) in &refused {
        let path = format!("/api/do/pause?token={token}");
        let answer = post(&path, headers, "some text");
        assert_eq!(status_of(&answer), *status, "{what}: {answer}");
    }
    for method in ["GET", "HEAD", "PUT", "OPTIONS"] {
        let head =
            format!("{method} /api/do/pause HTTP/1.1\r\nHost: {host}\r\n{origin}{bearer}\r\n");
        let status = status_of(&served.send(head.as_bytes()));
        assert!([404, 405].contains(&status), "{method}: {status}");
    }
    assert_eq!(served.json("/api/status")["paused"], json!([]), "nothing was paused");
    let may = format!("{origin}{bearer}");
    let huge = format!(
        "POST /api/do/ask HTTP/1.1\r\nHost: {host}\r\n{may}Content-Length: 99999999\r\n\r\n"
    );
    assert_eq!(status_of(&served.send(huge.as_bytes())), 413);
    for (path, status) in [
        ("/api/do/pause", 200),
        ("/api/do/nothing", 404),
        ("/api/do/retry", 400),
        ("/api/do/cancel?id=nobody", 404),
        ("/api/do/release?seq=1", 400),
        ("/api/do/ask?name=empty.txt", 400),
        ("/api/do/ask?name=a.txt&flow=no.such.flow", 400),
    ] {
        let body = if path.contains("a.txt") { "A text." } else { "" };
        let answer = post(path, &may, body);
        assert_eq!(status_of(&answer), status, "{path}: {answer}");
    }
    assert_eq!(served.json("/api/status")["paused"], json!(["operator"]));
    assert_eq!(status_of(&post("/api/do/resume", &may, "")), 200);
    assert_eq!(status_of(&post("/api/do/cancel?id=next-year", &may, "")), 200);
    let shown = served.json("/api/request?id=next-year");
    assert_eq!(shown["latest"]["state"], "cancelled");
    // A corrected line takes the place of a quarantined one.
    let line = served.json("/api/quarantine")["lines"][0]["seq"].clone();
    let corrected = lines(&[with(request("corrected", ACTIVE, json!({})), "notes", "by hand")]);
    served.home.note("corrected.txt", "The import failed twice. It works again since Monday.");
    let corrected = String::from_utf8(corrected).unwrap();
    let answer = post(&format!("/api/do/release?seq={line}"), &may, corrected.trim());
    assert_eq!(status_of(&answer), 200, "{answer}");
    until("the corrected request is completed", || {
        let answer = served.get("/api/request?id=corrected");
        answer.contains("\"state\":\"completed\"")
    });
}

/// The first element that fits a selector, as an expression of the page.
fn first(selector: &str) -> String {
    format!("document.querySelector({})", json!(selector))
}

#[test]
fn a_person_searches_and_follows_a_sentence_by_tap_and_by_key() {
    let Some(browser) = Browser::found() else { return };
    let served = Served::start();
    let mut tab = Tab::start(&browser.0);
    let page = format!("http://{}/", served.address);
    let stories = |count: usize| format!("document.querySelectorAll('.story').length === {count}");
    tab.screen(1280, 900, false, "light");
    tab.open(&page);
    tab.until(&stories(3));
    let light = tab.value("getComputedStyle(document.body).backgroundColor");
    assert_eq!(tab.value(&format!("{}.offsetParent === null", first("#pause"))), true);
    // Search by keyboard alone.
    tab.write("document.querySelector('[role=search] input')", "EVERY import");
    tab.press("Enter");
    tab.until("document.querySelectorAll('.story b.hit').length >= 6");
    tab.write("document.querySelector('[role=search] input')", " zebra");
    tab.press("Enter");
    tab.until("document.body.innerText.includes('No summary fits')");
    // On a phone in the dark: a tap on a sentence brings up its place.
    tab.screen(390, 844, true, "dark");
    tab.open(&page);
    tab.until(&stories(3));
    assert_ne!(tab.value("getComputedStyle(document.body).backgroundColor"), light);
    tab.tap(&first(".story h3 a"));
    tab.tap(&first(".sentence"));
    tab.until("!!document.querySelector('.sources mark.on')");
    let is_seen = "(() => { const at = document.querySelector('.sources mark.on').getBoundingClientRect(); \
                   return at.top > innerHeight / 2 && at.bottom <= innerHeight && at.width > 0; })()";
    tab.until(is_seen);
    let text = |selector: &str| format!("{}.textContent", first(selector));
    assert_eq!(tab.value(&text(".sources mark.on")), tab.value(&text(".sentence.on")));
    let dimmed = "[...document.querySelectorAll('mark')].filter((mark) => getComputedStyle(mark).opacity !== '1').length";
    assert_eq!(tab.value(dimmed), 0, "the other sentences can be read too");
    tab.tap(&first(".sources .close"));
    tab.until("!document.querySelector('.focused') && document.activeElement.matches('.sentence')");
    for view in ["read", "days", "projects", "digests", "requests", "overview", "quarantine"] {
        tab.open(&format!("{page}#/{view}"));
        tab.until(&format!("document.body.dataset.ready === '{view}'"));
        let wide = tab.value("document.documentElement.scrollWidth");
        assert!(wide.as_u64().unwrap() <= 390, "{view} is {wide} wide");
    }
    // With keys alone: Enter leads to the place, Escape back to the sentence.
    tab.screen(1280, 900, false, "light");
    tab.open(&page);
    tab.until(&stories(3));
    tab.click(&first(".story h3 a"));
    tab.until("!!document.querySelector('.sentence')");
    tab.value(&format!("{}.focus()", first(".sentence")));
    tab.press("Enter");
    tab.until("document.activeElement.matches('.sources mark.on')");
    tab.press("Escape");
    tab.until("document.activeElement.matches('.sentence') && !document.querySelector('.on')");
    tab.click(&first(".sentence"));
    tab.until("!!document.querySelector('.sources mark.on')");
}

/// Whoever searches sees at once how many there are, also of those behind the first page.
#[test]
fn a_search_says_how_many_there_are() {
    let Some(browser) = Browser::found() else { return };
    let home = ProcessHome::new();
    let settings = format!(
        "[status]\nhttp = \"127.0.0.1:0\"\nlogin = false\n[export]\nmin_interval = \"50 ms\"\n\
         [default_flow]\ndocument = \"{ACTIVE}\"\n"
    );
    std::fs::write(home.path("summarizer.toml"), settings).unwrap();
    let mut requests = Vec::new();
    for index in 0..45 {
        let id = format!("roof-{index}");
        home.note(&format!("{id}.txt"), &format!("The roof of house {index} costs 900 EUR."));
        requests.push(from_repo(request(&id, ACTIVE, json!({})), "office"));
    }
    home.append(&lines(&requests));
    let served = Served::of(home, "");
    until("everything is shown", || produced(&served.json("/api/days")["days"]) == 45);
    let mut tab = Tab::start(&browser.0);
    tab.screen(1280, 900, false, "light");
    tab.open(&format!("http://{}/#/read?q=roof", served.address));
    let foot = first(".foot");
    tab.until(&format!("{foot}?.textContent.startsWith('20 of 45')"));
    for told in ["40 of 45", "45 summaries, that is all"] {
        tab.click(&first(".foot button"));
        tab.until(&format!("{foot}?.textContent.startsWith({})", json!(told)));
    }
    assert_eq!(tab.value("document.querySelectorAll('.story').length"), 45);
}

#[test]
fn a_person_acts_with_the_link_of_open_and_cannot_without_it() {
    let Some(browser) = Browser::found() else { return };
    let served = Served::start();
    let mut tab = Tab::start(&browser.0);
    tab.screen(1280, 900, false, "light");
    tab.open(&format!("http://{}/#/request/next-year", served.address));
    tab.until("document.body.dataset.ready === 'request'");
    let buttons =
        "[...document.querySelectorAll('button')].filter((one) => one.offsetParent).length";
    assert_eq!(tab.value(buttons), 0, "no action is offered without a token");
    let alone = "fetch('/api/do/pause', { method: 'POST' }).then((answer) => answer.status)";
    assert_eq!(tab.value(alone), 401);
    let (url, token) = link(&served);
    tab.open(&url);
    tab.until(
        "document.body.classList.contains('may-act') && document.body.dataset.ready === 'read'",
    );
    let address = tab.value("location.href");
    assert!(!address.as_str().unwrap().contains(&token), "{address}");
    assert_eq!(
        tab.value("document.documentElement.outerHTML").as_str().unwrap().find(&token),
        None
    );
    tab.click(&first("#pause"));
    until("it is paused", || served.json("/api/status")["paused"] == json!(["operator"]));
    tab.until("document.querySelector('#pause').textContent === 'Resume'");
    tab.click(&first("#pause"));
    until("it goes on", || served.json("/api/status")["paused"] == json!([]));
    tab.value("void (location.hash = '#/request/next-year')");
    tab.click(&first("button.danger"));
    until("it is cancelled", || {
        served.json("/api/request?id=next-year")["latest"]["state"] == "cancelled"
    });
    // A text that is pasted, until its summary is read.
    tab.value("void (location.hash = '#/ask')");
    tab.until("!!document.querySelector('textarea')");
    let pasted = "The glazier measured four windows on Friday. <img src=x onerror=alert(1)> The \
                  offer for them is 2400 EUR. We decide on Monday.";
    tab.write(&first("textarea"), pasted);
    tab.click(&first("button.main"));
    tab.click(
        "[...document.querySelectorAll('.asked a')].find((one) => /read it/.test(one.textContent))",
    );
    tab.until("!!document.querySelector('.sentence')");
    let shown = tab.value("document.body.innerText");
    assert!(shown.as_str().unwrap().contains("The glazier measured four windows"), "{shown}");
    assert_eq!(tab.value("document.images.length"), 0);
}
