//! The context of sources that a flow gets: requests go through the queue over real upstream files, and the
//! prompts are read back from the log. Each embedded flow has its prompt pinned as a golden file, with
//! everything upstream knows: who wrote, to whom, when, in which zone, where.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "helpers of tests fail like tests"
)]

mod bus_support;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use bus_support::{MIDNIGHT, chunk, chunks, event, events_day, session, write};
use serde_json::{Value, json};

const CONFIG: &str = r#"timezone = "America/Bogota"

[profile]
job_seeker = "Rust engineer in Madrid; remote or hybrid; no relocation."
applicant = "A non-profit for open data in Colombia."
goals = "Renew the contract before April."
mail_categories = ["clients", "family", "invoices"]
"#;

struct Home(tempfile::TempDir);

impl Home {
    fn new() -> Home {
        let home = Home::without_data();
        upstream(&home.path("buses"), mail());
        home
    }

    fn without_data() -> Home {
        let home = Home(tempfile::tempdir().unwrap());
        std::fs::create_dir_all(home.path("run")).unwrap();
        std::fs::write(home.path("summarizer.toml"), CONFIG).unwrap();
        home
    }

    fn path(&self, relative: &str) -> PathBuf {
        self.0.path().join(relative)
    }

    fn run(&self, args: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_summarizer"));
        command.env_clear().env("SUMMARIZER_HOME", self.0.path());
        command.env("SUMMARIZER_TEST_NOW", "2026-02-19T08:00:00Z").args(args);
        command.output().unwrap()
    }

    fn ok(&self, args: &[&str]) -> Vec<Value> {
        let output = self.run(args);
        let said = String::from_utf8_lossy(&output.stderr);
        // Requests may fail on purpose: then `drain` exits with 1.
        let is_drained = args.contains(&"drain") && output.status.code() == Some(1);
        assert!(output.status.success() || is_drained, "{args:?}: {said}");
        let lines = String::from_utf8(output.stdout).unwrap();
        lines.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    fn ask(&self, id: &str, flow: &str, kind: &str, bus: &str, ids: &[&str], params: Value) {
        use std::io::Write as _;
        let line = json!({
            "schema_version": "summary_request.v1", "request_id": id,
            "created_at": "2026-02-19T08:00:00Z", "urgency": "now",
            "requested_by": {"repo": "tests", "component": "contexts", "version": "dev"},
            "work": {"output_bus": "summary_bus", "output_kind": "summary_item",
                     "summary_kind": kind, "summary_subkind": "test",
                     "flow_ref": {"kind": "registry", "flow_id": flow}, "params": params},
            "input": {"mode": "ids", "bus": bus, "ids": ids},
        });
        let mut options = std::fs::OpenOptions::new();
        let queue = options.create(true).append(true).open(self.path("run/queue.jsonl"));
        writeln!(queue.unwrap(), "{line}").unwrap();
    }

    /// The last terminal ack of a request.
    fn ack(&self, id: &str) -> Value {
        let acks = std::fs::read_to_string(self.path("run/ack.jsonl")).unwrap();
        let acks = acks.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let mut mine = acks.filter(|ack| ack["request_id"] == id && ack["status"] != "accepted");
        mine.next_back().unwrap_or_else(|| panic!("{id} has no terminal ack"))
    }

    /// The question of a request as it was sent, after a look at what it asks for.
    fn prompts(&self, id: &str) -> String {
        let ack = self.ack(id);
        let summary = ack["summary"]["summary_id"].as_str().unwrap_or_else(|| panic!("{ack}"));
        let explained = self.ok(&["--json", "explain", summary, "--show-prompts"]);
        let prompts = &explained[0]["prompts"];
        assert_eq!(prompts["problem"], Value::Null, "{id}");
        assert_eq!(prompts["as_recorded"], true, "{id}");
        let calls = prompts["calls"].as_array().unwrap();
        let messages = calls.last().unwrap()["messages"].as_array().unwrap();
        let flow =
            explained[0]["flow"]["flow_id"].as_str().unwrap_or_else(|| panic!("{explained:?}"));
        asks_for_every_member(flow, &messages[0]);
        let last = messages.last().unwrap();
        last["text"].as_str().unwrap_or_else(|| panic!("{last}")).to_owned()
    }
}

/// A model that knows nothing but the question is told each member of the answer, that the rest is data,
/// and that what the data do not say is not to be made up.
fn asks_for_every_member(flow: &str, first: &Value) {
    assert_eq!(first["role"], "system", "{flow}");
    let asked = first["text"].as_str().unwrap();
    for part in ["## Task", "## Untrusted input", "## Output", "Do not add facts"] {
        assert!(asked.contains(part), "{flow} says nothing of {part}");
    }
    let pack = Path::new(env!("CARGO_MANIFEST_DIR")).join("registry/packs").join(flow);
    let read = |name: &str| -> Value {
        serde_json::from_slice(&std::fs::read(pack.join(name)).unwrap()).unwrap()
    };
    // A page is asked for as text with front matter, and its members are made of it.
    if read("projection.json")["form"] != "json" {
        return assert!(asked.contains("front matter"), "{flow} does not ask for a page");
    }
    let schema = read("output.schema.json");
    for name in schema["properties"].as_object().into_iter().flatten().map(|(name, _)| name) {
        assert!(asked.contains(&format!("`{name}`")), "{flow} does not ask for {name}");
    }
}

fn mail() -> Value {
    let mut mail = event(
        "evt_mail",
        MIDNIGHT + 61_200_000,
        "Hi Marta, can you send the signed lease by Friday? The flat is EUR 1,250 a month.\n\nAna",
    );
    for (name, value) in [
        ("title", json!("Lease for the flat")),
        ("from", json!("Ana Ruiz <ana@example.org>")),
        ("to", json!("Marta Gil <marta@example.org>, bo@example.org")),
        ("timestamp", json!("2026-02-11T18:00:00+01:00")),
        ("role", Value::Null),
        (
            "source",
            json!({"source_system": "mail", "source_record_id": "lease-1@example.org",
            "source_uri": "inbox.mbox"}),
        ),
    ] {
        mail[name] = value;
    }
    mail
}

fn spoken(id: &str, seconds: i64, role: &str, text: &str) -> Value {
    let mut one = event(id, MIDNIGHT + 50_400_000 + seconds * 1000, text);
    one["role"] = role.into();
    one
}

fn upstream(root: &Path, mail: Value) {
    let call = |id: &str, kind: &str, text: &str, seconds: i64| {
        let mut one = spoken(id, seconds, "user", text);
        (one["kind"], one["org"], one["url"]) =
            (kind.into(), "ACME".into(), format!("https://example.org/{id}").into());
        one
    };
    events_day(
        root,
        "2026-02-11",
        &[
            spoken(
                "evt_s1",
                0,
                "user",
                "The backup script fails on the NAS. Can you find out why?",
            ),
            spoken(
                "evt_s2",
                65,
                "assistant",
                "The disk is full: delete snapshots older than 90 days.",
            ),
            spoken("evt_s3", 180, "user", "Done, it works. I still have to add a monthly check."),
            call("evt_c1", "call", "Marta asked for an offer by March 3.", 300),
            call("evt_c2", "mail", "The offer was sent, EUR 4,000 for two months.", 400),
            mail,
        ],
    );
    bus_support::sessions_day(
        root,
        "2026-02-11",
        false,
        &[{
            let mut talk = session(
                "ses_backup",
                "2026-02-11",
                MIDNIGHT + 50_400_000,
                &["evt_s1", "evt_s2", "evt_s3"],
            );
            talk["window"]["end_ts_ms"] = json!(MIDNIGHT + 50_580_000);
            talk["project"] = json!("Home network");
            talk
        }],
    );
    chunks(
        root,
        "manual",
        &[
            chunk(
                "chk_1",
                "doc_manual",
                0,
                "Restart the pump when the red light is on for an hour.",
            ),
            chunk("chk_2", "doc_manual", 1, "Change the filter each March. It costs EUR 40."),
        ],
    );
    write(
        root,
        "other/post.txt",
        "We look for a Rust engineer in Madrid, hybrid, EUR 60,000. EU permit needed.",
    );
    write(root, "other/page.html", "<title>Filter prices</title><p>A filter costs EUR 40.</p>");
    write(
        root,
        "other/brief.txt",
        "Explain to a neighbour why the pump needs a new filter each year.",
    );
}

/// Each embedded flow, over the kind of source it is made for.
const CASES: &[(&str, &str, &str, &[&str])] = &[
    ("email.triage.extract_event.calendar_event.v1", "event_summary", "event_bus", &["evt_mail"]),
    ("email.triage.extract_task.task_item.v1", "event_summary", "event_bus", &["evt_mail"]),
    ("email.gatekeeper.classify.gatekeeper_item.v1", "event_summary", "event_bus", &["evt_mail"]),
    ("web.page.categorize.webpage_categorization.v1", "document_summary", "other", &["page.html"]),
    ("jobs.posting.screen.job_screening.v1", "document_summary", "other", &["post.txt"]),
    ("jobs.posting.screen.job_screening.v2", "document_summary", "other", &["post.txt"]),
    ("gpt.session.summarize.parsed_message.v3", "session_summary", "session_bus", &["ses_backup"]),
    (
        "digest.weekly.summarize.weekly_digest.v1",
        "event_summary",
        "event_bus",
        &["evt_c1", "evt_c2"],
    ),
    ("latex.section.convert.docusaurus_md.v1", "document_summary", "other", &["brief.txt"]),
    ("gpt.log.annotate.obsidian_note_meta.v1", "event_summary", "event_bus", &["evt_s1"]),
    ("gpt.log.annotate.business_meta.v1", "event_summary", "event_bus", &["evt_s1"]),
    ("ops.run.summarize.pipeline_run.v1", "document_summary", "other", &["brief.txt"]),
    ("docs.chunk_set.summarize.brief.v1", "chunk_set_summary", "chunk_bus", &["chk_1", "chk_2"]),
    ("docs.page.generate.docusaurus_md.v1", "document_summary", "chunk_bus", &["doc_manual"]),
    ("crm.contacts.plan.next_actions.v1", "event_summary", "event_bus", &["evt_c1", "evt_c2"]),
    ("opportunities.digest.rank_and_route.v1", "event_summary", "event_bus", &["evt_c1", "evt_c2"]),
    ("writing.outline.generate.v1", "document_summary", "other", &["brief.txt"]),
    (
        "news.articles.parse_and_cluster.topic_clusters.v1",
        "event_summary",
        "event_bus",
        &["evt_c1", "evt_c2"],
    ),
    ("news.agenda.generate.seed_ideas.v1", "document_summary", "other", &["brief.txt"]),
    ("news.seed.expand.seed_card.v1", "document_summary", "other", &["brief.txt"]),
    ("research.router.plan.perspectives.v1", "document_summary", "other", &["brief.txt"]),
];

/// Flows over lists, mails and papers of the bus `other`. The name tells the cases apart.
const OTHERS: &[(&str, &str, &[&str])] = &[
    ("mail", "email.triage.extract_task.task_item.v1", &["lease.eml"]),
    ("list", "opportunities.digest.rank_and_route.v1", &["calls.jsonl"]),
    ("rows", "crm.contacts.plan.next_actions.v1", &["contacts.csv"]),
    ("feed", "news.articles.parse_and_cluster.topic_clusters.v1", &["feed.json"]),
    ("item", "news.seed.expand.seed_card.v1", &["feed.json#n1"]),
    ("paper", "latex.section.convert.docusaurus_md.v1", &["pumps.tex"]),
    ("note", "writing.outline.generate.v1", &["note.md"]),
    // The day alone is known.
    ("note", "email.gatekeeper.classify.gatekeeper_item.v1", &["note.md"]),
    ("note", "gpt.log.annotate.obsidian_note_meta.v1", &["note.md"]),
    ("note", "research.router.plan.perspectives.v1", &["note.md"]),
    ("note", "docs.page.generate.docusaurus_md.v1", &["note.md"]),
    ("mail", "docs.chunk_set.summarize.brief.v1", &["lease.eml"]),
    ("mail", "digest.weekly.summarize.weekly_digest.v1", &["lease.eml", "note.md"]),
    ("posting", "jobs.posting.screen.job_screening.v1", &["posting.html"]),
    ("posting", "jobs.posting.screen.job_screening.v2", &["posting.html"]),
    ("posting", "web.page.categorize.webpage_categorization.v1", &["posting.html"]),
    ("feed", "news.agenda.generate.seed_ideas.v1", &["feed.json"]),
    ("list", "ops.run.summarize.pipeline_run.v1", &["calls.jsonl"]),
];

fn others(root: &Path) {
    for (name, text) in [
        (
            "lease.eml",
            "Message-ID: <lease-2@example.org>\r\nFrom: Ana Ruiz <ana@example.org>\r\n\
             To: Marta Gil <marta@example.org>\r\nCc: bo@example.org\r\nSubject: Lease\r\n\
             Date: Wed, 11 Feb 2026 18:00:00 +0100\r\n\r\nPlease send the lease by Friday.\r\n",
        ),
        (
            "calls.jsonl",
            "{\"id\": \"c-1\", \"title\": \"Grant\", \"kind\": \"grant\", \"org\": \"City of Quito\", \
             \"deadline\": \"2026-03-01\", \"link\": \"https://example.org/c-1\", \
             \"text\": \"Open data projects of non-profits.\"}\n\
             {\"title\": \"Talk\", \"org\": \"Library\", \"Created At\": \"2026-02-10\", \
             \"body\": \"The library looks for speakers.\"}\n",
        ),
        (
            "contacts.csv",
            "id;Name;Date;Channel;Note\nann;Ana Ruiz;2026-02-01;call;\"Asked for an offer; waits\"\n\
             bo;Bo Li;2026-01-15T10:00:00+01:00;mail;Likes the map\n",
        ),
        (
            "feed.json",
            "{\"version\": \"https://jsonfeed.org/version/1.1\", \"title\": \"News\", \"items\": [\
             {\"id\": \"n1\", \"title\": \"Pumps\", \"url\": \"https://example.org/n1\", \
             \"date_published\": \"2026-02-10T08:00:00Z\", \"authors\": [{\"name\": \"Eva Rua\"}], \
             \"content_html\": \"<p>The city buys <b>pumps</b>.<p>They cost EUR 4,000.\"},\
             {\"id\": \"n2\", \"title\": \"Filters\", \"content_text\": \"Filters < 1 EUR are gone.\"}]}",
        ),
        (
            "pumps.tex",
            "\\section{Pumps}\nA pump \\emph{needs} a \\textbf{filter}. % no\n\
             \\begin{itemize}\\item Change it.\\end{itemize}\n",
        ),
        (
            "posting.html",
            "<title>Rust engineer</title><meta name=author content='Eva Rua'>\
             <meta property='article:published_time' content='2026-02-10T08:00:00+01:00'>\
             <link rel=canonical href='https://example.org/jobs/7'>\
             <p>We look for a Rust engineer in Madrid, hybrid, EUR 60,000.",
        ),
        (
            "note.md",
            "---\ntitle: Filters\ndate: 2026-02-10\nauthor: Marta Gil\n---\nWhy filters matter.\n",
        ),
    ] {
        write(root, &format!("other/{name}"), text);
    }
}

#[test]
fn a_flow_sees_each_item_of_a_list_with_its_own_context() {
    let home = Home::new();
    others(&home.path("buses"));
    let id_of = |name: &str, flow: &str| format!("{flow} {name}");
    for (name, flow, ids) in OTHERS {
        home.ask(&id_of(name, flow), flow, "document_summary", "other", ids, json!({}));
    }
    home.ok(&["--json", "drain"]);
    let made = [&OTHERS[0], &OTHERS[1]]
        .map(|(name, flow, _)| home.ack(&id_of(name, flow))["summary"]["summary_id"].clone());
    let made: Vec<&str> = made.iter().filter_map(Value::as_str).collect();
    let weekly = "digest.weekly.summarize.weekly_digest.v1";
    home.ask("summaries", weekly, "document_summary", "other", &made, json!({}));
    home.ok(&["--json", "drain"]);
    // What an embedded summary says may change; that a digest is told which and when may not.
    let digest = home.prompts("summaries");
    // A text is of its own day, whatever day its summary is filed under.
    let line = |id: &str| digest.lines().find(|line| line.contains(id)).unwrap_or_default();
    let days = made.iter().map(|id| line(id).split(" | ").nth(1).unwrap_or_default());
    assert_eq!(days.collect::<Vec<_>>(), ["day: 2026-02-11", "day: 2026-02-10"], "{digest}");
    assert!(digest.starts_with("Period: 2026-02-10 to 2026-02-11\nBEGIN ITEMS"), "{digest}");
    let mut wrong = Vec::new();
    for (name, flow, _) in OTHERS {
        compare(&home.prompts(&id_of(name, flow)), &format!("{flow}.{name}.txt"), &mut wrong);
    }
    assert_golden(&wrong);
}

const SESSION: &str = "gpt.session.summarize.parsed_message.v3";

/// One message or several: who wrote it, and when on the clocks of the home.
#[test]
fn a_chat_message_tells_its_author_and_its_time_also_when_it_is_the_only_one() {
    let home = Home::without_data();
    let line = |id: &str, role: &str, author: &str, at: &str| {
        json!({"id": id, "role": role, "author": author, "timestamp": at, "conversation_id": id,
            "content": format!("The boiler of {id} leaks.")})
        .to_string()
            + "\n"
    };
    let lines = line("u1", "user", "Ana", "2026-02-12T02:50:00Z")
        + &line("u2", "assistant", "Robin", "2026-02-12T04:00:00+01:00");
    std::fs::write(home.path("chat.jsonl"), lines).unwrap();
    let file = home.path("chat.jsonl");
    let names = ["--time", "timestamp", "--text", "content", "--id", "id", "--role", "role"];
    home.ok(&[&["import", "jsonl", file.to_str().unwrap()], &names[..]].concat());
    home.ok(&["submit", "--all-new"]);
    home.ok(&["drain"]);
    let queue = std::fs::read_to_string(home.path("run/queue.jsonl")).unwrap();
    let asked: Vec<Value> = queue.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let prompt_of = |event: &str| {
        let one = asked.iter().find(|one| one["input"]["ids"] == json!([event])).unwrap();
        assert_eq!(one["work"]["flow_ref"]["flow_id"], SESSION);
        home.prompts(one["request_id"].as_str().unwrap())
    };
    let prompt = prompt_of("u1");
    assert!(prompt.contains("\n[1] u1 | Ana (user) | 2026-02-11T21:50:00-05:00\nThe"), "{prompt}");
    let prompt = prompt_of("u2");
    let told = "[1] u2 | Robin (assistant) | 2026-02-11T22:00:00-05:00\n";
    assert!(prompt.contains(told), "{prompt}");
    home.ask("both", SESSION, "event_summary", "event_bus", &["u1", "u2"], json!({}));
    home.ok(&["drain"]);
    let prompt = home.prompts("both");
    assert!(prompt.contains("[1] u1 | Ana (user) | 2026-02-11T21:50:00-05:00\n"), "{prompt}");
    assert!(prompt.contains(&told.replace("[1]", "[2]")), "{prompt}");
}

/// Feeds in JSON and in XML have the same name in a prompt, and the id of an item is none of a message.
#[test]
fn an_item_knows_its_feed_and_has_no_message_id() {
    const JOBS: &str = "jobs.posting.screen.job_screening.v2";
    const TASK: &str = "email.triage.extract_task.task_item.v1";
    let feed = "{\"version\": \"https://jsonfeed.org/version/1.1\", \"title\": \"Town news\", \"items\": [\
        {\"id\": \"guid-77\", \"title\": \"Bridge\", \"date_published\": \"2026-02-11T10:00:00Z\", \
        \"content_text\": \"Please open the bridge by Friday.\"}]}";
    let xml = "<rss version=\"2.0\"><channel><title>Town news</title><item><title>Bridge</title>\
        <guid>guid-77</guid><pubDate>Wed, 11 Feb 2026 10:00:00 +0000</pubDate>\
        <description>Please open the bridge by Friday.</description></item></channel></rss>";
    for (name, text) in [("town.json", feed), ("town.xml", xml)] {
        let home = Home::without_data();
        std::fs::write(home.path(name), text).unwrap();
        let file = home.path(name);
        let file = file.to_str().unwrap();
        assert_eq!(home.ok(&["--json", "sum", file])[0]["title"], "Town news", "{name}");
        home.ok(&["add", file]);
        let events = home.path("buses/eventbus/daily/2026-02-11.jsonl");
        let events = std::fs::read_to_string(events).unwrap();
        let item: Value = serde_json::from_str(events.lines().next().unwrap()).unwrap();
        let id = item["event_id"].as_str().unwrap();
        home.ask("job", JOBS, "event_summary", "event_bus", &[id], json!({}));
        home.ask("task", TASK, "event_summary", "event_bus", &[id], json!({}));
        home.ok(&["drain"]);
        assert!(home.prompts("job").contains("Town news"), "{name}: {}", home.prompts("job"));
        let prompt = home.prompts("task");
        assert!(!prompt.contains("Message id:"), "{name}: {prompt}");
    }
    let home = Home::without_data();
    write(&home.path("buses"), "other/town.json", feed);
    home.ask("job", JOBS, "document_summary", "other", &["town.json#guid-77"], json!({}));
    home.ok(&["drain"]);
    assert!(home.prompts("job").contains("Town news"), "{}", home.prompts("job"));
    // An item without a date is a document of the same feed.
    std::fs::write(home.path("undated.json"), feed.replace("date_published", "when")).unwrap();
    home.ok(&["add", home.path("undated.json").to_str().unwrap()]);
    let items = home.ok(&["--json", "read"]);
    let undated = items.iter().find(|one| one["meta"]["ts_precision"] == "none");
    assert_eq!(undated.unwrap_or_else(|| panic!("{items:?}"))["meta"]["feed"], "Town news");
}

/// A conversation in a file is a session also where a request names the file: roles, authors and times are told.
#[test]
fn a_conversation_of_a_named_file_is_a_session() {
    let home = Home::without_data();
    let chats = "{\"id\": \"c1\", \"title\": \"Lease\", \"messages\": [\
        {\"role\": \"user\", \"author\": \"Ana\", \"time\": \"2026-02-11T23:30:00-05:00\", \"content\": \"Who signs?\"},\
        {\"role\": \"assistant\", \"time\": \"2026-02-12 00:10\", \"content\": \"The tenant.\"}]}\n\
        {\"id\": \"c2\", \"title\": \"Boiler\", \"messages\": [\
        {\"role\": \"user\", \"from\": \"Ben\", \"ts\": \"2026-02-12T01:00:00-05:00\", \"text\": \"It is broken.\"}]}\n";
    write(&home.path("buses"), "other/chats.jsonl", chats);
    home.ask("one", SESSION, "document_summary", "other", &["chats.jsonl#c1"], json!({}));
    home.ask("all", SESSION, "document_summary", "other", &["chats.jsonl"], json!({}));
    home.ok(&["drain"]);
    let prompt = home.prompts("one");
    for told in [
        "Title: Lease",
        "\n[m1 Ana (user) 2026-02-11 23:30]\nWho signs?\n\n[m2 assistant 2026-02-12 00:10]\nThe tenant.",
    ] {
        assert!(prompt.contains(told), "{told}: {prompt}");
    }
    let prompt = home.prompts("all");
    assert!(prompt.contains(", begins session: Lease]\nWho signs?"), "{prompt}");
    assert!(
        prompt.contains("[m3 Ben (user) 01:00, begins session: Boiler]\nIt is broken."),
        "{prompt}"
    );
    home.ok(&["verify"]);
}

/// A message of which only the day is known is told with its day, and its session has no hour: not in the prompt, not in
/// what a person is shown.
#[test]
fn a_day_without_a_clock_time_stays_a_day_in_a_session() {
    let home = Home::without_data();
    let chat = json!({"id": "c1", "title": "Lease", "messages": [
        {"role": "user", "author": "Ana", "date": "2026-02-11", "content": "Who signs the lease of the flat?"},
        {"role": "assistant", "author": "Ben", "date": "2026-02-12", "content": "The tenant signs the lease."},
        {"role": "user", "author": "Ana", "date": "2026-02-12", "content": "Then I will sign it tomorrow."}]});
    write(&home.path("buses"), "other/chats.jsonl", format!("{chat}\n"));
    home.ask("named", SESSION, "document_summary", "other", &["chats.jsonl#c1"], json!({}));
    home.ok(&["drain"]);
    let prompt = home.prompts("named");
    for label in
        ["[m1 Ana (user) 2026-02-11]", "[m2 Ben (assistant) 2026-02-12]", "[m3 Ana (user)]"]
    {
        assert!(prompt.contains(label), "{label}: {prompt}");
    }
    let mut told = prompt;
    let of_file = home.ack("named")["summary"]["summary_id"].as_str().unwrap().to_owned();
    let shown = home.run(&["explain", &of_file]);
    told.push_str(&String::from_utf8(shown.stdout).unwrap());
    assert!(
        told.contains("[1] 2026-02-11 Ana, ") && told.contains("[2] 2026-02-12 Ben, "),
        "{told}"
    );
    let file = home.path("chat.json");
    std::fs::write(&file, chat.to_string()).unwrap();
    home.ok(&["add", file.to_str().unwrap()]);
    let listed = home.ok(&["--json", "read"]);
    let sessions = listed.iter().filter(|one| one["source_type"] == "session");
    let ids: Vec<&str> = sessions.map(|one| one["summary_id"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), 2, "{listed:?}");
    for id in ids {
        let explained = home.ok(&["--json", "explain", id, "--show-prompts"]);
        told.push_str(&explained[0]["prompts"].to_string());
        let shown = home.run(&["explain", id]);
        told.push_str(&String::from_utf8(shown.stdout).unwrap());
    }
    assert!(told.contains("] 2026-02-12 Ben,"), "{told}");
    // Noon in UTC, and on the clock of the home.
    for hour in ["12:00", "07:00"] {
        assert!(!told.contains(hour), "{hour}: {told}");
    }
}

/// A clock time without an offset is told as written, whatever kind of file writes it.
#[test]
fn clock_times_without_an_offset_are_kept_in_every_kind_of_file() {
    const NOTES: &str = "gpt.log.annotate.obsidian_note_meta.v1";
    let home = Home::without_data();
    let files = [
        ("a.md", "---\ndate: 2026-02-11 23:30\n---\nThe roof leaks.\n"),
        ("b.csv", "id,date,text\nx,2026-02-11 23:30,The roof leaks.\n"),
        (
            "c.eml",
            "From: ana@example.org\nDate: Wed, 11 Feb 2026 23:30\nSubject: Roof\n\nThe roof leaks.\n",
        ),
        (
            "d.json",
            "[{\"id\": \"x\", \"created_at\": \"2026-02-11T23:30:00\", \"text\": \"The roof leaks.\"}]",
        ),
        (
            "e.html",
            "<meta property='article:published_time' content='2026-02-11T23:30:00'><p>The roof leaks.",
        ),
    ];
    for (name, text) in files {
        write(&home.path("buses"), &format!("other/{name}"), text);
        home.ask(name, NOTES, "document_summary", "other", &[name], json!({}));
    }
    home.ok(&["drain"]);
    for (name, _) in files {
        let prompt = home.prompts(name);
        assert!(prompt.contains("2026-02-11T23:30:00\n"), "{name}: {prompt}");
        let summary = home.ack(name)["summary"].clone();
        let file = home.path("buses").join(summary["path"].as_str().unwrap());
        let lines = std::fs::read_to_string(file).unwrap();
        let items = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let item = items.into_iter().find(|item| item["summary_id"] == summary["summary_id"]);
        let item = item.unwrap();
        assert_eq!(item["meta"]["ts_precision"], "local", "{name}");
        // The clock of the home is five hours behind UTC.
        assert_eq!(item["ts_abs"], "2026-02-12T04:30:00.000Z", "{name}");
    }
}

/// Labels of a prompt with nothing behind them. Only a label before a block of data may end its line.
fn empty_labels(prompt: &str) -> Vec<&str> {
    let mut lines = prompt.lines().peekable();
    let mut empty = Vec::new();
    while let Some(line) = lines.next() {
        let opens_a_block = lines.peek().is_some_and(|next| next.starts_with("BEGIN"));
        let is_header = line.starts_with("--- id:");
        let has_a_gap = is_header && line.split(" | ").any(|part| part.trim_end().ends_with(':'));
        if has_a_gap || (line.ends_with(": ") && !opens_a_block) {
            empty.push(line);
        }
    }
    empty
}

/// Blocks of data with nothing in them.
fn empty_blocks(prompt: &str) -> Vec<&str> {
    let lines: Vec<&str> = prompt.lines().filter(|line| !line.trim().is_empty()).collect();
    let opens = |line: &str| line.strip_prefix("BEGIN ").map(str::to_owned);
    let is_empty = |pair: &&[&str]| match (opens(pair[0]), pair[1]) {
        (Some(_), "{}" | "[]" | "null" | "None") => true,
        (Some(name), next) => next == format!("END {name}"),
        (None, _) => false,
    };
    lines.windows(2).filter(is_empty).map(|pair| pair[0]).collect()
}

/// Compares a prompt with its golden file, or writes the file.
fn compare(prompt: &str, name: &str, wrong: &mut Vec<String>) {
    assert_eq!(empty_labels(prompt), [""; 0], "{name} has labels with nothing behind them");
    assert_eq!(empty_blocks(prompt), [""; 0], "{name} has blocks with nothing in them");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/prompts");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        write(&folder, name, prompt);
    }
    let path = folder.join(name);
    if std::fs::read_to_string(&path).unwrap_or_default() != prompt {
        wrong.push(format!("{}:\n{prompt}", path.display()));
    }
}

fn assert_golden(wrong: &[String]) {
    let told = "run with UPDATE_GOLDEN=1 and read the change";
    assert!(wrong.is_empty(), "{told}:\n{}", wrong.join("\n\n"));
}

#[test]
fn each_flow_is_told_who_wrote_what_when_and_where() {
    let home = Home::new();
    for (flow, kind, bus, ids) in CASES {
        home.ask(flow, flow, kind, bus, ids, json!({}));
    }
    home.ok(&["--json", "drain"]);
    let mut wrong = Vec::new();
    for (flow, ..) in CASES {
        compare(&home.prompts(flow), &format!("{flow}.txt"), &mut wrong);
    }
    assert_golden(&wrong);
}

#[test]
fn without_settings_a_prompt_has_no_empty_part() {
    let home = Home::new();
    std::fs::write(home.path("summarizer.toml"), "timezone = \"America/Bogota\"\n").unwrap();
    for (flow, kind, bus, ids) in CASES {
        home.ask(flow, flow, kind, bus, ids, json!({}));
    }
    home.ok(&["--json", "drain"]);
    for (flow, ..) in CASES {
        let prompt = home.prompts(flow);
        assert_eq!(empty_labels(&prompt), [""; 0], "{flow}: {prompt}");
        assert_eq!(empty_blocks(&prompt), [""; 0], "{flow}: {prompt}");
    }
    let screened = home.prompts("jobs.posting.screen.job_screening.v1");
    assert!(screened.starts_with("Profile of the candidate: not given\n"), "{screened}");
}

/// A query over the files of the bus `other` reads what it can and counts the rest.
#[cfg(unix)]
#[test]
fn a_query_passes_over_links_and_what_is_no_file() {
    let home = Home::new();
    others(&home.path("buses"));
    let other = home.path("buses/other");
    std::os::unix::fs::symlink("/etc/hostname", other.join("outside.txt")).unwrap();
    std::os::unix::fs::symlink(".", other.join("circle")).unwrap();
    std::os::unix::fs::symlink("/nowhere", other.join("gone.txt")).unwrap();
    let pipe = std::process::Command::new("mkfifo").arg(other.join("pipe.txt")).status().unwrap();
    assert!(pipe.success());
    let mut line = json!({
        "schema_version": "summary_request.v1", "request_id": "day",
        "created_at": "2026-02-19T08:00:00Z", "urgency": "now",
        "requested_by": {"repo": "tests", "component": "contexts", "version": "dev"},
        "work": {"output_bus": "summary_bus", "output_kind": "summary_item",
                 "summary_kind": "document_summary", "summary_subkind": "test",
                 "flow_ref": {"kind": "registry", "flow_id": "docs.chunk_set.summarize.brief.v1"},
                 "params": {}},
        "input": {"mode": "query", "bus": "other",
                  "query": {"schema_version": "summary_request_query.v1", "day": "2026-02-11"}},
    })
    .to_string();
    line.push('\n');
    std::fs::write(home.path("run/queue.jsonl"), line).unwrap();
    home.ok(&["--json", "drain"]);
    let ack = home.ack("day");
    assert_eq!(ack["status"], "completed", "{ack}");
    let prompt = home.prompts("day");
    assert!(prompt.contains("Please send the lease by Friday."), "{prompt}");
}

/// `flow run` tells a flow of a file what the queue tells it.
#[test]
fn a_file_outside_the_queue_has_the_same_context() {
    let home = Home::new();
    others(&home.path("buses"));
    let flow = "email.triage.extract_task.task_item.v1";
    home.ask("mail", flow, "document_summary", "other", &["lease.eml"], json!({}));
    home.ok(&["--json", "drain"]);
    let file = home.path("buses/other/lease.eml").to_string_lossy().into_owned();
    let ran = home.ok(&["--json", "flow", "run", flow, "--input", &file, "--show-prompts"]);
    let messages = ran[0]["calls"][0]["messages"].as_array().unwrap();
    let prompt = messages.last().unwrap()["text"].as_str().unwrap();
    assert_eq!(prompt, home.prompts("mail"));
}

/// Files of conversations: lines of a chat, messages as JSON lines, and exports of several programs.
fn conversations() -> [(&'static str, String); 5] {
    let lines = [
        json!({"id": "1", "role": "user", "timestamp": "2026-02-11T14:30:00Z", "conversation_id": "c",
               "title": "Lease", "content": "Who signs the lease?"}),
        json!({"id": "2", "role": "assistant", "timestamp": "2026-02-11T14:31:00Z",
               "conversation_id": "c", "title": "Lease", "content": "The tenant signs it on Friday."}),
    ];
    let telegram = json!({"name": "Lease", "type": "private_group", "id": 7, "messages": [
        {"id": 1, "type": "message", "date": "2026-02-11T09:30:00", "date_unixtime": "1770820200",
         "from": "Ana", "from_id": "user1", "text": "Who signs the lease?"},
        {"id": 2, "type": "message", "date": "2026-02-11T09:31:00", "date_unixtime": "1770820260",
         "from": "Bo", "from_id": "user2", "text": "I sign it on Friday.", "reply_to_message_id": 1}]});
    let node = |id: &str, parent: Value, children: Value, role: &str, at: u64, text: &str| {
        json!({"id": id, "parent": parent, "children": children, "message": {
            "id": id, "author": {"role": role}, "create_time": at,
            "content": {"content_type": "text", "parts": [text]}}})
    };
    let chatgpt = json!([{"title": "Lease", "id": "k", "conversation_id": "k",
        "create_time": 1_770_820_200, "current_node": "b", "mapping": {
            "a": node("a", Value::Null, json!(["b"]), "user", 1_770_820_200, "Who signs the lease?"),
            "b": node("b", json!("a"), json!([]), "assistant", 1_770_820_260, "The tenant, on Friday.")}}]);
    let claude = json!([{"uuid": "u", "name": "Lease", "created_at": "2026-02-11T14:30:00Z",
        "chat_messages": [
            {"uuid": "m1", "sender": "human", "created_at": "2026-02-11T14:30:00Z", "text": "Who signs the lease?"},
            {"uuid": "m2", "sender": "assistant", "created_at": "2026-02-11T14:31:00Z", "text": "The tenant."}]}]);
    let chat = "[11/02/2026, 09:30:12] Ana Ruiz: Who signs the lease?\n\
                [11/02/2026, 09:31:40] Bo Lind: I sign it on Friday.\n\
                [11/02/2026, 09:33:02] Ana Ruiz: Good.\n";
    [
        ("chat.txt", chat.to_owned()),
        ("talk.jsonl", lines.map(|line| format!("{line}\n")).concat()),
        ("result.json", telegram.to_string()),
        ("conversations.json", chatgpt.to_string()),
        ("claude.json", claude.to_string()),
    ]
}

const SESSIONS: &str = "gpt.session.summarize.parsed_message.v3";

/// The labels of the messages in a prompt: who spoke, and when.
fn labels_in(prompt: &str) -> Vec<String> {
    let labels = prompt.lines().filter(|line| line.starts_with("[m") && line.ends_with(']'));
    labels.map(str::to_owned).collect()
}

/// `flow run` tells a flow of a conversation what the queue tells it of the same file after `add`.
#[test]
fn a_conversation_outside_the_queue_has_its_speakers_and_times() {
    for (name, text) in conversations() {
        let home = Home::without_data();
        std::fs::write(home.path(name), &text).unwrap();
        let file = home.path(name).to_string_lossy().into_owned();
        home.ok(&["--json", "add", &file, "--flow", SESSIONS]);
        let sessions = std::fs::read_dir(home.path("buses/sessions/daily")).unwrap();
        let mut days = sessions.map(|day| day.unwrap().path());
        let day = days.find(|day| day.extension().is_some_and(|end| end == "jsonl")).unwrap();
        let session: Value =
            serde_json::from_str(std::fs::read_to_string(day).unwrap().lines().next().unwrap())
                .unwrap();
        let id = session["session_id"].as_str().unwrap();
        home.ask("queue", SESSIONS, "session_summary", "session_bus", &[id], json!({}));
        home.ok(&["--json", "drain"]);
        let asked = labels_in(&home.prompts("queue"));
        assert!(asked.len() > 1 && asked[0].contains("09:30"), "{name}: {asked:?}");
        for more in [&[][..], &["--lines"][..]] {
            let args = [&["--json", "flow", "run", SESSIONS, "--input", &file][..], more].concat();
            if more.is_empty() {
                let ran = home.ok(&[&args[..], &["--show-prompts"]].concat());
                let messages = ran[0]["calls"][0]["messages"].as_array().unwrap();
                let prompt = messages.last().unwrap()["text"].as_str().unwrap();
                assert_eq!(labels_in(prompt), asked, "{name}: {prompt}");
            } else {
                let rows = home.ok(&args);
                let told = rows[0].to_string();
                assert!(
                    rows.len() == 1 && told.contains("09:30") && told.contains("09:3"),
                    "{name}: {told}"
                );
            }
        }
    }
}

/// A flow runs on one conversation, and `--lines` on each of several; each item of a list has its own context.
#[test]
fn each_conversation_and_each_item_of_a_file_is_a_line() {
    let home = Home::without_data();
    let [.., (_, claude)] = conversations();
    let mut two: Vec<Value> = serde_json::from_str(&claude).unwrap();
    let mut second = two[0].clone();
    (second["uuid"], second["name"]) = (json!("v"), json!("Pump"));
    two.push(second);
    std::fs::write(home.path("two.json"), json!(two).to_string()).unwrap();
    let file = home.path("two.json").to_string_lossy().into_owned();
    let refused = home.run(&["flow", "run", SESSIONS, "--input", &file]);
    let told = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        !refused.status.success() && told.contains("2 conversations") && told.contains("--lines"),
        "{told}"
    );
    assert_eq!(home.ok(&["--json", "flow", "run", SESSIONS, "--input", &file, "--lines"]).len(), 2);
    let items = "{\"id\": \"r1\", \"who\": \"Ana\", \"words\": \"The roof leaks.\"}\n\
                 {\"id\": \"r2\", \"who\": \"Bo\", \"words\": \"The pump is new.\"}\n";
    std::fs::write(home.path("items.jsonl"), items).unwrap();
    let file = home.path("items.jsonl").to_string_lossy().into_owned();
    let flow = "docs.chunk_set.summarize.brief.v1";
    let rows = home.ok(&["--json", "flow", "run", flow, "--input", &file, "--lines"]);
    assert_eq!(rows.len(), 2);
    assert!(
        rows[0].to_string().contains("roof") && rows[1].to_string().contains("pump"),
        "{rows:?}"
    );
    let table = "who,words\nAna,The roof leaks.\nBo,The pump is new.\n";
    std::fs::write(home.path("rows.csv"), table).unwrap();
    let file = home.path("rows.csv").to_string_lossy().into_owned();
    let rows = home.ok(&["--json", "flow", "run", flow, "--input", &file, "--lines"]);
    assert!(rows.len() == 2 && rows[1].to_string().contains("pump"), "{rows:?}");
}

/// The day of one mail is no day of several: no line says that their day is not given, and each shows its own.
#[test]
fn several_mails_in_one_prompt_each_have_their_day() {
    let home = Home::new();
    others(&home.path("buses"));
    let second = "From: Bo <bo@example.org>\r\nTo: Marta Gil <marta@example.org>\r\nSubject: Keys\r\n\
                  Date: Thu, 12 Feb 2026 09:00:00 +0100\r\n\r\nPlease bring the keys tomorrow.\r\n";
    std::fs::write(home.path("buses/other/keys.eml"), second).unwrap();
    let flows = [
        "email.triage.extract_task.task_item.v1",
        "email.triage.extract_event.calendar_event.v1",
        "email.gatekeeper.classify.gatekeeper_item.v1",
    ];
    for flow in flows {
        home.ask(flow, flow, "document_summary", "other", &["lease.eml", "keys.eml"], json!({}));
    }
    home.ok(&["--json", "drain"]);
    for flow in flows {
        let prompt = home.prompts(flow);
        assert!(!prompt.contains("Sent:"), "{flow}: {prompt}");
        let label =
            |name: &str| prompt.lines().find(|line| line.contains(name)).unwrap_or_default();
        assert!(label("other:lease.eml").contains("2026-02-11"), "{flow}: {prompt}");
        assert!(label("other:keys.eml").contains("2026-02-12"), "{flow}: {prompt}");
    }
}

#[test]
fn a_parameter_cannot_replace_the_text_of_a_named_source() {
    let home = Home::new();
    let params = json!({"body_text": "Transfer EUR 9,000 to this account."});
    let flow = "email.triage.extract_task.task_item.v1";
    home.ask("launder", flow, "event_summary", "event_bus", &["evt_mail"], params);
    home.ok(&["--json", "drain"]);
    let ack = home.ack("launder");
    assert_eq!(
        (&ack["status"], &ack["reason_code"]),
        (&json!("rejected_invalid_input"), &json!("invalid_params"))
    );
    assert!(ack["message"].as_str().unwrap().contains("body_text"), "{ack}");
}

/// A pack of PromptFlow says of no input that it is the text. Whichever input is likely to be it, no parameter
/// replaces it, and the commands say that nothing was bound.
#[test]
fn a_parameter_cannot_replace_the_text_of_a_pack_that_is_not_bound() {
    let home = Home::new();
    home.ok(&["init", "--with-registry"]);
    let input = |name: &str, more: &str| format!("  {name}:\n    type: {more}\n");
    let question = input("question", "string");
    let cases = [
        ("first", input("text", "string") + &question, &[][..], true),
        ("second", question.clone() + &input("text", "string"), &[], true),
        ("sample", question.clone() + &input("text", "string\n    default: Hello"), &[], true),
        (
            "listed",
            input("language", "string\n    default: en") + &input("text", "list"),
            &[],
            true,
        ),
        (
            "beside",
            question.clone() + &input("text", "string"),
            &["--bind", "question=source.title"],
            true,
        ),
        ("alone", input("text", "string"), &[], false),
        ("bound", question + &input("text", "string"), &["--bind", "text=text"], false),
    ];
    for (name, inputs, bind, warns) in cases {
        let folder = home.path(name);
        std::fs::create_dir_all(&folder).unwrap();
        let names: Vec<&str> = ["question", "language", "text"]
            .into_iter()
            .filter(|one| inputs.contains(one))
            .collect();
        let given: String =
            names.iter().map(|one| format!("      {one}: ${{inputs.{one}}}\n")).collect();
        let flow = format!(
            "inputs:\n{inputs}outputs:\n  answer:\n    type: string\n    reference: ${{ask.output}}\n\
             nodes:\n- name: ask\n  type: llm\n  source:\n    type: code\n    path: ask.jinja2\n  inputs:\n\
             {given}  connection: c\n  api: chat\n"
        );
        let shown: String = names.iter().map(|one| format!("{{{{{one}}}}}\n")).collect();
        std::fs::write(folder.join("flow.dag.yaml"), flow).unwrap();
        std::fs::write(folder.join("ask.jinja2"), format!("# system:\nAnswer.\n# user:\n{shown}"))
            .unwrap();
        let mut add = vec!["registry", "add", folder.to_str().unwrap(), "--flow-id", name];
        add.extend(bind);
        let added = home.run(&add);
        let said = String::from_utf8_lossy(&added.stderr);
        assert!(added.status.success(), "{name}: {said}");
        assert_eq!(said.contains("--bind text=text"), warns, "{name}: {said}");
        let checked = home.run(&["registry", "check", name]);
        let checked = String::from_utf8_lossy(&checked.stdout).into_owned();
        assert_eq!(checked.contains("--bind text=text"), warns, "{name}: {checked}");
        let params = json!({"text": "Transfer EUR 9,000 to this account."});
        home.ask(name, name, "event_summary", "event_bus", &["evt_mail"], params);
        let whole = format!("{name}-asked");
        let question = json!({"question": "What is due?"});
        home.ask(&whole, name, "event_summary", "event_bus", &["evt_mail"], question);
    }
    home.ok(&["--json", "drain"]);
    for name in ["first", "second", "sample", "listed", "beside", "alone", "bound"] {
        let ack = home.ack(name);
        assert_eq!(ack["reason_code"], "invalid_params", "{name}: {ack}");
        let ack = home.ack(&format!("{name}-asked"));
        assert_eq!(ack["status"], "completed", "{name}: {ack}");
        let summary = ack["summary"]["summary_id"].as_str().unwrap();
        let explained = home.ok(&["--json", "explain", summary]);
        assert_eq!(explained[0]["selection"]["counts"]["used"], 1, "{name}: {}", explained[0]);
    }
}

#[test]
fn an_item_records_the_hash_of_its_context_and_explain_notices_a_change() {
    let home = Home::new();
    let flow = "email.triage.extract_task.task_item.v1";
    home.ask("task", flow, "event_summary", "event_bus", &["evt_mail"], json!({}));
    home.ok(&["--json", "drain"]);
    let summary = home.ack("task")["summary"]["summary_id"].as_str().unwrap().to_owned();
    let explained = home.ok(&["--json", "explain", &summary, "--show-prompts"]);
    assert_eq!(explained[0]["prompts"]["problem"], Value::Null);
    // The sender of the same text is another now.
    let mut changed = mail();
    changed["from"] = "Eva Rua <eva@example.org>".into();
    upstream(&home.path("buses"), changed);
    let explained = home.ok(&["--json", "explain", &summary, "--show-prompts"]);
    let problem = explained[0]["prompts"]["problem"].as_str().unwrap().to_owned();
    assert!(problem.contains("changed since"), "{problem}");
}

/// Gives a home a model that reads 6,000 tokens and always answers the same; each question becomes a file of the
/// folder that is returned.
fn with_small_model(home: &Home, answer: &str) -> std::path::PathBuf {
    let asked = home.path("asked");
    std::fs::create_dir_all(&asked).unwrap();
    let script = format!(
        "file=$(mktemp '{}/asked-XXXXXX'); cat > \"$file\"; echo '{answer}'",
        asked.display()
    );
    let config = format!(
        "{CONFIG}\n[provider]\ndefault = \"script\"\n[provider.script]\nkind = \"command\"\n\
         command = [\"/bin/sh\", \"-c\", {}]\ncontext_tokens = 6000\n",
        json!(script)
    );
    std::fs::write(home.path("summarizer.toml"), config).unwrap();
    asked
}

/// A digest over texts that do not fit into one prompt: each text is condensed under its title, alone or
/// with others, and the question for the digest still says which titles and days a part is of.
#[test]
fn the_titles_of_long_sources_reach_the_prompt_of_a_digest() {
    for (sources, sentences) in [(4, 300), (16, 44)] {
        let home = Home::new();
        let asked = with_small_model(&home, "The text was condensed.");
        for number in 1..=sources {
            let sentence = format!("Marker{number}x is one of many words about it. ");
            let text = format!(
                "---\ntitle: The papers of house {number}x\ndate: 2026-02-{number:02}\n---\n{}\n",
                sentence.repeat(sentences)
            );
            write(&home.path("buses"), &format!("other/{number}.md"), text);
        }
        let ids: Vec<String> = (1..=sources).map(|number| format!("{number}.md")).collect();
        let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
        let flow = "digest.weekly.summarize.weekly_digest.v1";
        home.ask("weekly", flow, "document_summary", "other", &ids, json!({}));
        // The script answers no digest.
        let drained = home.run(&["drain"]);
        let said = String::from_utf8_lossy(&drained.stderr);
        assert_eq!(drained.status.code(), Some(1), "{said}");

        let mut prompts: Vec<String> = Vec::new();
        for entry in std::fs::read_dir(&asked).unwrap() {
            prompts.push(std::fs::read_to_string(entry.unwrap().path()).unwrap());
        }
        let (digests, parts): (Vec<String>, Vec<String>) =
            prompts.into_iter().partition(|prompt| prompt.contains("BEGIN ITEMS"));
        let digest = digests.first().expect("the digest is asked for");
        assert!(!digest.contains("Marker"), "the whole text did not fit: {digest}");
        for number in 1..=sources {
            let (marker, title) =
                (format!("Marker{number}x"), format!("The papers of house {number}x"));
            let mut of_it = parts.iter().filter(|part| part.contains(&marker)).peekable();
            assert!(of_it.peek().is_some(), "{title} was not condensed");
            for part in of_it {
                assert!(part.contains(&title), "{title}: {part}");
            }
            assert!(digest.contains(&title), "{title}: {digest}");
        }
        let period = format!("Period: 2026-02-01 to 2026-02-{sources:02}\n");
        assert!(digest.contains(&period), "{period}: {digest}");
    }
}

/// The places of texts in a prompt, which all have to be there.
fn places(prompt: &str, texts: &[&str]) -> Vec<usize> {
    texts
        .iter()
        .map(|text| prompt.find(text).unwrap_or_else(|| panic!("{text}: {prompt}")))
        .collect()
}

#[test]
fn messages_of_one_moment_stand_in_the_order_of_their_file() {
    let home = Home::new();
    let texts = ["Who votes for it?", "I do.", "I do not.", "Who paints the door?", "Ben does."];
    // The ids are in another order than what was said.
    let ids = ["evt_e", "evt_b", "evt_d", "evt_a", "evt_c"];
    let said = ids.iter().zip(texts).map(|(id, text)| spoken(id, 0, "user", text));
    let day = "2026-02-11";
    events_day(&home.path("buses"), day, &said.collect::<Vec<_>>());
    let talk = session("ses_vote", day, MIDNIGHT + 50_400_000, &ids);
    bus_support::sessions_day(&home.path("buses"), day, false, &[talk]);
    let flow = "gpt.session.summarize.parsed_message.v3";
    home.ask("whole", flow, "session_summary", "session_bus", &["ses_vote"], json!({}));
    home.ask("slice", flow, "event_summary", "event_bus", &ids, json!({}));
    home.ok(&["drain"]);
    for id in ["whole", "slice"] {
        assert!(places(&home.prompts(id), &texts).is_sorted(), "{id}");
    }
}

#[test]
fn the_newest_version_of_an_event_decides_whichever_id_a_request_names() {
    let home = Home::new();
    let version = |id: &str, seconds: i64, text: &str| {
        let mut one = spoken(id, seconds, "user", text);
        one["source"]["version_of"] = "evt_a".into();
        one
    };
    let day = "2026-02-11";
    let (old, other) =
        (spoken("evt_a", 0, "user", "Old words."), spoken("evt_o", 9, "user", "More."));
    events_day(&home.path("buses"), day, &[old.clone(), other.clone()]);
    let talk = session("ses_a", day, MIDNIGHT + 50_400_000, &["evt_a", "evt_o"]);
    bus_support::sessions_day(&home.path("buses"), day, false, &[talk]);
    let flow = "gpt.log.annotate.obsidian_note_meta.v1";
    home.ask("first", flow, "event_summary", "event_bus", &["evt_a"], json!({}));
    home.ok(&["drain"]);
    assert!(home.prompts("first").contains("Old words."));

    let mut newest = version("evt_c", 0, "New words.");
    newest["publish"] = false.into();
    let between = version("evt_b", 0, "Other words.");
    events_day(&home.path("buses"), day, &[old, other, between, newest]);
    let talks = "gpt.session.summarize.parsed_message.v3";
    for (id, flow, kind, bus, ids) in [
        ("old", flow, "event_summary", "event_bus", &["evt_a"][..]),
        ("between", flow, "event_summary", "event_bus", &["evt_b"]),
        ("all", talks, "event_summary", "event_bus", &["evt_a", "evt_b", "evt_c", "evt_o"]),
        ("talk", talks, "session_summary", "session_bus", &["ses_a"]),
    ] {
        home.ask(id, flow, kind, bus, ids, json!({"again": id}));
    }
    home.ok(&["drain"]);
    for id in ["old", "between", "all", "talk"] {
        let prompt = home.prompts(id);
        assert_eq!(prompt.matches("New words.").count(), 1, "{id}: {prompt}");
        assert!(
            !prompt.contains("Old words.") && !prompt.contains("Other words."),
            "{id}: {prompt}"
        );
        let ack = home.ack(id);
        let file = home.path("buses").join(ack["summary"]["path"].as_str().unwrap());
        let items = std::fs::read_to_string(file).unwrap();
        let items = items.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let made = |item: &Value| item["summary_id"] == ack["summary"]["summary_id"];
        let item = items.into_iter().find(made).unwrap();
        assert_eq!(item["selection"]["context"]["publish"], json!(false), "{id}: {item}");
        if id != "talk" {
            let sources = item["source_ids"].to_string();
            assert!(sources.contains("evt_c") && !sources.contains("evt_a"), "{id}: {sources}");
        }
    }
    // What was summarized before can still be recomputed.
    home.ok(&["verify"]);
    home.ask("again", flow, "event_summary", "event_bus", &["evt_a"], json!({}));
    home.ok(&["drain"]);
    assert!(home.ack("again")["warnings"].to_string().contains("source_changed"));
}

/// `params.day` files a summary. It is neither today nor the day of the text.
#[test]
fn today_is_the_day_of_the_request_whatever_day_a_summary_is_filed_on() {
    let home = Home::new();
    let filed = json!({"day": "2025-01-05"});
    let contacts = "crm.contacts.plan.next_actions.v1";
    home.ask("plan", contacts, "event_summary", "event_bus", &["evt_mail"], filed.clone());
    home.ask("talk", SESSION, "event_summary", "event_bus", &["evt_mail"], filed);
    home.ok(&["--json", "drain"]);
    let prompt = home.prompts("plan");
    assert!(prompt.starts_with("Today: 2026-02-19\n"), "{prompt}");
    let prompt = home.prompts("talk");
    assert!(prompt.contains("Day: 2026-02-11\n"), "{prompt}");
    assert!(!prompt.contains("2025-01-05"), "{prompt}");
    assert_eq!(home.ack("plan")["summary"]["day"], "2025-01-05");
}

/// The questions about a long input, by what they are about.
struct Asked {
    parts: Vec<String>,
    /// The questions that merge condensed texts, from the lowest level up.
    merges: Vec<String>,
    /// The question of the flow.
    last: String,
}

impl Asked {
    /// Asks a flow about a long input. The model answers every question with the same few words.
    fn about(home: &Home, flow: &str, kind: &str, bus: &str, ids: &[&str]) -> Asked {
        let asked = with_small_model(home, "The roof is to be paid.");
        home.ask(flow, flow, kind, bus, ids, json!({}));
        // The words are no answer that the flow can use.
        home.run(&["drain"]);
        let prompts = std::fs::read_dir(&asked).unwrap();
        let prompts = prompts.map(|entry| std::fs::read_to_string(entry.unwrap().path()).unwrap());
        let (of_flow, others): (Vec<String>, Vec<String>) =
            prompts.partition(|prompt| prompt.contains("## Untrusted input"));
        let (mut merges, parts): (Vec<String>, Vec<String>) =
            others.into_iter().partition(|prompt| prompt.contains("You merge condensed parts"));
        assert!(parts.len() > 1, "the input was not split");
        let place = |prompt: &String| -> Vec<usize> {
            let (_, first) = prompt.split_once("\n[1] n").expect("a merge has labels");
            let node = first.split(' ').next().unwrap_or_default();
            node.split('_').map(|number| number.parse().unwrap()).collect()
        };
        merges.sort_by_key(place);
        for merge in &merges {
            assert!(merge.contains("[2] n"), "there is nothing to merge: {merge}");
        }
        let last = of_flow.into_iter().min_by_key(String::len).expect("the flow is asked");
        std::fs::remove_dir_all(asked).unwrap();
        Asked { parts, merges, last }
    }

    /// The labels of condensed texts in a question.
    fn labels(prompt: &str) -> Vec<&str> {
        let is_label = |line: &&str| line.starts_with('[') && line.contains("] n");
        prompt.lines().filter(is_label).collect()
    }

    /// The labels of condensed texts in all questions, which all have some.
    fn all_labels(&self) -> Vec<&str> {
        let mut labels = Vec::new();
        for prompt in self.merges.iter().chain([&self.last]) {
            let of_it = Asked::labels(prompt);
            assert!(!of_it.is_empty(), "{prompt}");
            labels.extend(of_it);
        }
        labels
    }
}

const BRIEF: &str = "docs.chunk_set.summarize.brief.v1";

/// A source is condensed in parts, and each question on the way up says whose words they are, as the question
/// about a short source does.
#[test]
fn each_question_about_a_long_mail_says_who_wrote_it_and_when() {
    let home = Home::without_data();
    let mut long = mail();
    long["content"] = "I pay the roof of the barn. ".repeat(1_800).into();
    upstream(&home.path("buses"), long);
    let told = "Lease for the flat | Ana Ruiz <ana@example.org> | 2026-02-11T12:00:00-05:00";
    let asked = Asked::about(&home, BRIEF, "event_summary", "event_bus", &["evt_mail"]);
    for part in &asked.parts {
        assert!(part.contains(&format!("[1] evt_mail | {told}\n")), "{part}");
    }
    assert!(asked.merges.iter().any(|merge| merge.contains("[1] n0_0 | ")));
    assert!(asked.merges.last().unwrap().contains("[1] n1_0 | "), "one level of merges only");
    for label in asked.all_labels() {
        assert!(label.ends_with(&format!(" | {told}")), "{label}");
    }
    // A list tells it in its own way, as it does for a short mail.
    let flow = "crm.contacts.plan.next_actions.v1";
    let asked = Asked::about(&home, flow, "event_summary", "event_bus", &["evt_mail"]);
    let told = "[2026-02-11T18:00:00+01:00] from Ana Ruiz <ana@example.org> to Marta Gil <marta@example.org>";
    assert!(asked.last.contains(told), "{}", asked.last);
    let short = Home::new();
    short.ask("short", flow, "event_summary", "event_bus", &["evt_mail"], json!({}));
    short.ok(&["drain"]);
    let prompt = short.prompts("short");
    assert!(prompt.replace("] mail from", "] from").contains(told), "{prompt}");
}

/// Many mails of a thread by many people: each question names those whose words it has, up to a bound.
#[test]
fn the_questions_about_a_long_thread_name_its_authors_its_times_and_how_many_others() {
    let home = Home::without_data();
    let mails: Vec<Value> = (0..60)
        .map(|at| {
            let moment = MIDNIGHT + 43_200_000 + at * 60_000;
            let mut one = event(&format!("evt_{at:02}"), moment, &"I pay the roof. ".repeat(60));
            one["title"] = (if at == 0 { "The roof" } else { "Re: The roof" }).into();
            one["from"] = format!("Person{:02} <p{:02}@example.org>", at / 3, at / 3).into();
            one["role"] = Value::Null;
            one
        })
        .collect();
    events_day(&home.path("buses"), "2026-02-11", &mails);
    let ids: Vec<String> = (0..60).map(|at| format!("evt_{at:02}")).collect();
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    let asked = Asked::about(&home, BRIEF, "event_summary", "event_bus", &ids);
    let first = asked.merges.iter().find(|merge| merge.contains("[1] n0_0 | ")).unwrap();
    let first = Asked::labels(first)[0];
    assert!(first.contains(" | The roof; Re: The roof | Person00 <p00@example.org>"), "{first}");
    assert!(first.contains(" | 2026-02-11T07:00:00-05:00 to 2026-02-11T07:0"), "{first}");
    // The highest merge is of many people, and still says how many.
    let top = Asked::labels(asked.merges.last().unwrap());
    let named = |label: &str| label.matches(" <p").count();
    assert!(top.iter().any(|label| label.contains(" others | ")), "{top:?}");
    assert!(top[0].contains("] n1_0 | ") && top.iter().all(|label| named(label) <= 8), "{top:?}");
    let all = asked.last.clone();
    for label in asked.all_labels() {
        assert!(label.contains("Re: The roof | Person") && label.contains("-05:00"), "{label}");
        assert!(label.len() < 1_200, "{label}");
    }
    for at in [0, 9, 19] {
        assert!(all.contains(&format!("Person{at:02}")), "{at}: {all}");
    }
}

/// The messages of a long session: who spoke and as what, and from when to when.
#[test]
fn the_questions_about_a_long_session_say_who_spoke_as_what_and_from_when_to_when() {
    let home = Home::without_data();
    let ids: Vec<String> = (0..60).map(|at| format!("evt_{at:02}")).collect();
    let said = ids.iter().enumerate().map(|(at, id)| {
        let (role, name) = if at % 2 == 0 { ("user", "Ana") } else { ("assistant", "Robin") };
        let seconds = i64::try_from(at).unwrap() * 60;
        let mut one = spoken(id, seconds, role, &"The boiler leaks again. ".repeat(40));
        one["author"] = name.into();
        one
    });
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    let root = home.path("buses");
    events_day(&root, "2026-02-11", &said.collect::<Vec<_>>());
    let talk = session("ses_boiler", "2026-02-11", MIDNIGHT + 50_400_000, &ids);
    bus_support::sessions_day(&root, "2026-02-11", false, &[talk]);
    let asked = Asked::about(&home, SESSION, "session_summary", "session_bus", &["ses_boiler"]);
    for part in &asked.parts {
        // The first message of a part has the day, and the others the time alone.
        assert!(
            part.contains("(user) 2026-02-11 09:") || part.contains("(assistant) 2026-02-11 09:")
        );
        assert_eq!(part.matches("2026-02-11").count(), 1, "{part}");
        assert!(part.contains(" Ana (user) ") && part.contains(" Robin (assistant) 09:"), "{part}");
    }
    for label in asked.all_labels() {
        assert!(label.contains(" | Ana (user); Robin (assistant) | 2026-02-11T09:"), "{label}");
        assert!(label.contains(":00-05:00 to 2026-02-11T09:"), "{label}");
    }
    assert!(asked.all_labels()[0].contains("2026-02-11T09:00:00-05:00 to "));
}

/// The items of a list that say little: their labels are longer than their texts, and count.
#[test]
fn the_questions_about_many_short_items_stay_within_the_context_of_the_model() {
    let home = Home::without_data();
    let lines: String = (0..800)
        .map(|at| {
            let (who, title) = (format!("Person {}", at % 40), format!("Vote on item {at}"));
            json!({"id": format!("vote-{at}"), "title": title, "author": who,
                "date": "2026-02-11T10:00:00Z", "text": "I vote yes."})
            .to_string()
                + "\n"
        })
        .collect();
    write(&home.path("buses"), "other/votes.jsonl", lines);
    let ids: Vec<String> = (0..800).map(|at| format!("votes.jsonl#vote-{at}")).collect();
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    for flow in [BRIEF, "digest.weekly.summarize.weekly_digest.v1"] {
        let asked = Asked::about(&home, flow, "document_summary", "other", &ids);
        for prompt in asked.parts.iter().chain(&asked.merges).chain([&asked.last]) {
            // Three bytes count as a token, and a quarter of the context stays for the answer.
            assert!(prompt.len() <= 4_500 * 3, "{} bytes: {prompt}", prompt.len());
        }
        assert!(asked.last.contains("Person 0; Person 1; ") && asked.last.contains(" others"));
    }
}
