//! Rules about data: what `[privacy]` keeps on this machine reaches no provider elsewhere, by no command
//! and through no summary; what it calls private is never published. The provider elsewhere is a server
//! on loopback that the settings call a server elsewhere, and that keeps every byte it gets.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "helpers of a test may panic, and it writes files"
)]

#[path = "support/flow_home.rs"]
mod flow_home;
#[path = "support/running.rs"]
mod running;
#[path = "support/server.rs"]
mod server;

use std::io::Write as _;
use std::path::Path;
use std::process::Output;

use flow_home::{FLOW, FREE, Home, QUICK, good, wait_until};
use serde_json::{Value, json};
use server::Server;

/// A word that only texts have that must stay here.
const MARK: &str = "Quetzalfeather";
const WEEKLY: &str = "digest.weekly.summarize.weekly_digest.v1";

struct PrivacySetup {
    home: Home,
    far: Server,
}

fn settings(far: &Server, privacy: &str, more: &str) -> String {
    format!(
        "{QUICK}[provider]\ndefault = \"far\"\n[provider.far]\nkind = \"openai\"\n\
         base_url = \"{}/v1\"\nmodel = \"far-1\"\nlocal = false\n[privacy]\n{privacy}\n{more}",
        far.base
    )
}

const RULES: &str = "local_only = [\"folder:clients*\", \"label:health\"]";

impl PrivacySetup {
    fn new(privacy: &str) -> PrivacySetup {
        let far = Server::start(vec![good()]);
        let home = Home::new(&settings(&far, privacy, ""));
        let setup = PrivacySetup { home, far };
        setup.write(
            "buses/other/clients/acme/offer.md",
            &format!("The {MARK} offer is due on Friday."),
        );
        setup.write("buses/other/notes/garden.md", "The garden needs water on Friday.");
        setup
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.home.path(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn configure(&self, privacy: &str, more: &str) {
        self.home.configure(&settings(&self.far, privacy, more));
    }

    fn ask(&self, id: &str, flow: &str, ids: &[&str], params: Value) {
        self.ask_with_key(id, None, flow, ids, params);
    }

    fn ask_with_key(&self, id: &str, key: Option<&str>, flow: &str, ids: &[&str], params: Value) {
        let mut line = json!({
            "schema_version": "summary_request.v1", "request_id": id,
            "created_at": "2026-02-19T08:00:00Z", "urgency": "now",
            "requested_by": {"repo": "tests", "component": "privacy", "version": "dev"},
            "work": {"output_bus": "summary_bus", "output_kind": "summary_item",
                     "summary_kind": "document_summary", "summary_subkind": "test",
                     "flow_ref": {"kind": "registry", "flow_id": flow}, "params": params},
            "input": {"mode": "ids", "bus": "other", "ids": ids},
        });
        if let Some(key) = key {
            line["idempotency_key"] = key.into();
        }
        std::fs::create_dir_all(self.home.path("run")).unwrap();
        let mut options = std::fs::OpenOptions::new();
        let queue = options.create(true).append(true).open(self.home.path("run/queue.jsonl"));
        writeln!(queue.unwrap(), "{line}").unwrap();
    }

    fn done(&self, id: &str, flow: &str, ids: &[&str], params: Value) -> Value {
        self.ask(id, flow, ids, params);
        self.home.ok(&["drain"]);
        self.home.last_ack(id)
    }

    /// Expects that the request was refused because its data stays here, for this reason.
    #[track_caller]
    fn is_kept(&self, ack: &Value, because: &str) {
        assert_eq!(ack["status"], "failed_permanent", "{ack}");
        assert_eq!(
            (&ack["reason_code"], &ack["cause"]),
            (&json!("model_error"), &json!("not_local"))
        );
        let message = ack["message"].as_str().unwrap();
        assert!(message.contains("privacy.local_only") && message.contains(because), "{message}");
        self.far_saw_nothing();
    }

    #[track_caller]
    fn far_saw_nothing(&self) {
        for seen in self.far.seen() {
            assert!(!seen.raw.contains(MARK), "{}", seen.raw);
        }
    }

    fn item(&self, ack: &Value) -> Value {
        let id = &ack["summary"]["summary_id"];
        let items = self.home.items();
        items.into_iter().rfind(|item| item["summary_id"] == *id).unwrap_or_else(|| panic!("{ack}"))
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&[output.stdout.as_slice(), &output.stderr].concat()).into_owned()
}

/// Whether a file below a folder holds a text.
fn holds(folder: &Path, text: &str) -> bool {
    let Ok(entries) = std::fs::read_dir(folder) else { return false };
    entries.flatten().any(|entry| match entry.path() {
        path if path.is_dir() => holds(&path, text),
        path => String::from_utf8_lossy(&std::fs::read(path).unwrap_or_default()).contains(text),
    })
}

#[test]
fn a_request_about_data_that_stays_here_is_refused_and_says_by_which_rule() {
    let setup = PrivacySetup::new(RULES);
    let ack = setup.done("one", FLOW, &["clients/acme/offer.md"], json!({}));
    setup.is_kept(&ack, "folder:clients*");
    let shown = setup.home.ok(&["show", "one"]);
    assert!(shown.contains("folder:clients*"), "{shown}");
    setup.write("buses/other/x.md", &format!("---\ntags: [Health]\n---\nThe {MARK} result."));
    setup.is_kept(&setup.done("two", FLOW, &["x.md"], json!({})), "label:health");
    // One source of several decides.
    let both = ["clients/acme/offer.md", "notes/garden.md"];
    setup.is_kept(&setup.done("three", FLOW, &both, json!({})), "folder:clients*");
    assert!(setup.far.seen().is_empty());
    let ack = setup.done("four", FLOW, &["notes/garden.md"], json!({}));
    assert_eq!(ack["status"], "completed", "{ack}");
    assert_eq!(setup.far.seen().len(), 1, "other data goes where the settings say");
    assert!(setup.item(&ack)["meta"].get("local_only").is_none());
}

#[test]
fn a_provider_here_answers_and_the_summary_carries_the_mark() {
    let setup = PrivacySetup::new(&format!("{RULES}\nlocal_provider = \"builtin\""));
    let ack = setup.done("one", FLOW, &["clients/acme/offer.md"], json!({}));
    assert_eq!(ack["status"], "completed", "{ack}");
    let item = setup.item(&ack);
    assert_eq!(item["model"]["provider"], "builtin");
    assert_eq!(item["meta"]["local_only"], true);
    assert_eq!(item["selection"]["context"]["local_only"], true);
    assert_eq!(item["selection"]["privacy"], json!({"local_only": ["folder:clients*"]}));
    let id = item["summary_id"].as_str().unwrap();
    for args in [&["show", "one"][..], &["explain", id]] {
        let shown = setup.home.ok(args);
        assert!(shown.contains("folder:clients*"), "{args:?}: {shown}");
    }
    setup.home.ok(&["verify"]);
    setup.home.ok(&["explain", id, "--verify"]);
    // A fallback on this machine answers in the place of a provider elsewhere.
    setup.configure(RULES, "[provider.near]\nkind = \"builtin\"\n");
    let text = std::fs::read_to_string(setup.home.path("summarizer.toml")).unwrap();
    setup
        .home
        .configure(&text.replace("local = false\n", "local = false\nfallback = [\"near\"]\n"));
    let ack = setup.done("two", FREE, &["clients/acme/offer.md"], json!({}));
    assert_eq!(ack["status"], "completed", "{ack}");
    assert!(setup.far.seen().is_empty());
}

#[test]
fn summaries_of_data_that_stays_here_stay_here() {
    let setup = PrivacySetup::new(&format!("{RULES}\nlocal_provider = \"builtin\""));
    let ids = ["clients/acme/offer.md", "notes/garden.md"];
    let first = setup.done("one", FREE, &ids, json!({}));
    let summary = first["summary"]["summary_id"].as_str().unwrap().to_owned();
    assert!(setup.item(&first).to_string().contains(MARK));
    let weekly = setup.done("two", WEEKLY, &[&summary], json!({}));
    assert_eq!(weekly["status"], "completed", "{weekly}");
    let item = setup.item(&weekly);
    assert_eq!(item["meta"]["local_only"], true);
    // Without any rule the marks still hold, of the summary and of the one made from it.
    setup.configure("", "");
    setup.is_kept(&setup.done("three", WEEKLY, &[&summary], json!({"again": 1})), &summary);
    let made = item["summary_id"].as_str().unwrap();
    setup.is_kept(&setup.done("four", WEEKLY, &[made], json!({"again": 2})), made);
}

#[test]
fn a_rule_that_is_younger_than_a_summary_holds_for_it() {
    let setup = PrivacySetup::new("");
    setup.configure("", &format!("[flow.\"{FREE}\"]\nprovider = \"builtin\"\n"));
    // Of sources in several folders the summary names no folder.
    let ids = ["clients/acme/offer.md", "notes/garden.md"];
    let first = setup.done("one", FREE, &ids, json!({}));
    let summary = first["summary"]["summary_id"].as_str().unwrap().to_owned();
    assert!(setup.item(&first)["meta"].get("folder").is_none());
    setup.configure(RULES, "");
    setup.is_kept(&setup.done("two", WEEKLY, &[&summary], json!({})), "folder:clients*");
    assert!(setup.far.seen().is_empty());
}

#[test]
fn a_request_can_only_be_stricter_than_the_rules() {
    let setup = PrivacySetup::new(RULES);
    let own = setup.done("one", FLOW, &["notes/garden.md"], json!({"local_only": true}));
    setup.is_kept(&own, "the request");
    let looser = json!({"local_only": false, "publish": true});
    setup.is_kept(&setup.done("two", FLOW, &["clients/acme/offer.md"], looser), "folder:clients*");
    for (id, rule) in [("three", "repo:TESTS"), ("four", "bus:other"), ("five", "project:flat")] {
        setup.configure(&format!("local_only = [\"{rule}\"]"), "");
        let ack = setup.done(
            id,
            FLOW,
            &["notes/garden.md"],
            json!({"project": "Flat", "again": id.len()}),
        );
        setup.is_kept(&ack, rule);
    }
    setup.write(
        "buses/other/said.json",
        &json!({"text": MARK, "meta": {"local_only": true}}).to_string(),
    );
    setup.configure("", "");
    setup.is_kept(&setup.done("six", FLOW, &["said.json"], json!({})), "other:said.json");
    assert!(setup.far.seen().is_empty());
}

#[test]
fn no_command_outside_the_queue_sends_data_that_stays_here() {
    let setup = PrivacySetup::new(RULES);
    let home = &setup.home;
    let file = home.path("buses/other/clients/acme/offer.md");
    let (file, folder) = (file.to_str().unwrap(), home.path("buses/other/clients"));
    let folder = folder.to_str().unwrap();
    let labelled = json!({"text": MARK, "labels": ["health"]}).to_string();
    home.ok(&["init"]);
    setup.write("lines.jsonl", &format!("{}\n{labelled}\n", json!({"text": "The garden."})));
    setup.write("mail.eml", &format!("Subject: A\nFrom: a@b.example\nX-Tags: x\n\n{MARK}"));
    // A name that tells no kind.
    setup.write("letter", &format!("---\nlocal_only: true\n---\n{MARK}"));
    let letter = home.path("letter");
    let letter = letter.to_str().unwrap();
    let lines = home.path("lines.jsonl");
    let page = home.path("page.html");
    let (lines, page) = (lines.to_str().unwrap(), page.to_str().unwrap());
    for args in [
        &["sum", file][..],
        &["sum", folder],
        &["sum", file, "--model", "far"],
        &["sum", folder, home.path("buses/other/notes").to_str().unwrap(), "--together"],
        &["flow", "run", FLOW, "--input", file],
        &["flow", "run", FLOW, "--input", file, "--provider", "far"],
        &["flow", "run", FLOW, "--input", &labelled],
        &["flow", "run", FLOW, "--input", letter],
        &["flow", "batch", "export", FLOW, "--input", letter, "--into", "sent"],
        &["flow", "run", FLOW, "--input", lines, "--lines"],
        &["flow", "compare", FLOW, "--inputs", folder, "--providers", "far,builtin", "--out", page],
        &["flow", "batch", "export", FLOW, "--input", file, "--into", "sent", "--provider", "far"],
        &["flow", "batch", "export", FLOW, "--input", lines, "--lines", "--into", "sent"],
    ] {
        let output = home.command(args).current_dir(home.0.path()).output().unwrap();
        let said = said(&output);
        let compares = args.contains(&"compare");
        assert_eq!(output.status.success(), compares, "{args:?}: {said}");
        assert!(compares || said.contains("privacy.local_only"), "{args:?}: {said}");
        setup.far_saw_nothing();
    }
    let shown = std::fs::read_to_string(page).unwrap();
    assert!(shown.contains("privacy.local_only"), "the page tells why a candidate gave nothing");
    assert!(!home.path("sent").exists());
    // From inside the folder, its name is not on the command line.
    let mut command = home.command(&["sum", "offer.md"]);
    let output = command.current_dir(home.path("buses/other/clients/acme")).output().unwrap();
    assert!(said(&output).contains("folder:clients*"), "{}", said(&output));
    assert!(setup.far.seen().is_empty(), "{:?}", setup.far.seen().len());
    setup.configure(&format!("{RULES}\nlocal_provider = \"builtin\""), "");
    let output = home.ok(&["sum", file]);
    assert!(output.contains(MARK), "a provider here answers: {output}");
    let output = home.run(&["sum", file, "--model", "far"]);
    assert!(said(&output).contains("privacy.local_only"), "a named provider is that one");
    assert!(setup.far.seen().is_empty());
}

#[test]
fn files_that_are_added_keep_their_folder() {
    let setup = PrivacySetup::new(RULES);
    setup.write("office/clients/acme/letter.md", &format!("Dear Ana, the {MARK} letter is ready."));
    setup.home.run(&["add", setup.home.path("office/clients/acme").to_str().unwrap()]);
    let acks = std::fs::read_to_string(setup.home.path("run/ack.jsonl")).unwrap();
    assert!(acks.contains("folder:clients*") && acks.contains("not_local"), "{acks}");
    assert!(setup.far.seen().is_empty());
    // Other rules are other work: the same files are asked for again.
    setup.configure(&format!("{RULES}\nlocal_provider = \"builtin\""), "");
    let added = setup.home.ok(&["add", setup.home.path("office/clients/acme").to_str().unwrap()]);
    assert!(added.contains(MARK), "{added}");
    assert!(setup.far.seen().is_empty());
}

/// A link within the bus `other` leads to a text by another path. The path of the text counts too.
#[test]
fn a_link_leads_around_no_rule_about_a_folder() {
    let setup = PrivacySetup::new(RULES);
    let line = json!({"text": format!("The {MARK} offer is due on Friday.")});
    setup.write("buses/other/clients/rows.jsonl", &format!("{line}\n{line}\n"));
    setup.write("buses/other/open/here.md", "The ferry leaves at seven.");
    let other = setup.home.path("buses/other");
    for (target, link) in [
        ("../clients/acme/offer.md", "open/file.md"),
        ("../clients/rows.jsonl", "open/rows.jsonl"),
        ("clients", "whole"),
        ("../open/again.md", "open/twice.md"),
        ("file.md", "open/again.md"),
        ("../notes/garden.md", "clients/given.md"),
    ] {
        std::os::unix::fs::symlink(target, other.join(link)).unwrap();
    }
    let named = [
        "open/file.md",
        "open/rows.jsonl",
        "whole/acme/offer.md",
        "open/twice.md",
        "clients/given.md",
    ];
    for (number, name) in named.into_iter().enumerate() {
        let ack = setup.done(&format!("r{number}"), FREE, &[name], json!({}));
        setup.is_kept(&ack, "folder:clients*");
    }
    setup.done("open", FREE, &["open/here.md"], json!({}));
    assert!(setup.far.seen().iter().any(|one| one.raw.contains("ferry")), "others are sent");
}

#[test]
fn a_pack_of_summaries_that_stay_here_is_not_drafted_elsewhere() {
    let setup = PrivacySetup::new(&format!("{RULES}\nlocal_provider = \"builtin\""));
    let ack = setup.done("one", FREE, &["clients/acme/offer.md"], json!({}));
    assert_eq!(ack["status"], "completed", "{ack}");
    let home = &setup.home;
    // The marks hold without the rules.
    setup.configure("", "");
    let chosen = home.path("chosen.json");
    let chosen = chosen.to_str().unwrap();
    let day = ack["summary"]["day"].as_str().unwrap();
    home.ok(&["select", "--bus", "summary_bus", "--day", day, "--name", "all", "--out", chosen]);
    let run = home.path("run-of-clients");
    let run = run.to_str().unwrap();
    let build = ["pack", "build", run, "--from-selection", chosen];
    let far = [&build[..], &["--provider", "far"]].concat();
    let output = home.run(&far);
    assert!(said(&output).contains("privacy.local_only"), "{}", said(&output));
    home.ok(&build);
    for file in ["manifest.json", "perspectives.json", "summaries/summary-pack.json"] {
        let text = std::fs::read_to_string(Path::new(run).join(file)).unwrap();
        let value: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["local_only"], true, "{file}");
    }
    // The run is known by its mark, and the pack as a source too.
    let again = home.run(&["pack", "build", run, "--provider", "far"]);
    assert!(said(&again).contains("privacy.local_only"), "{}", said(&again));
    let pack = std::fs::read_to_string(Path::new(run).join("summaries/summary-pack.json")).unwrap();
    setup.write("buses/other/pack.json", &pack);
    setup.is_kept(&setup.done("two", FLOW, &["pack.json"], json!({})), "other:pack.json");
    assert!(setup.far.seen().is_empty());
}

#[test]
fn data_that_a_rule_calls_private_is_never_published() {
    let setup = PrivacySetup::new("private = [\"folder:clients*\"]");
    let here = format!("[flow.\"{FREE}\"]\nprovider = \"builtin\"\n[exports]\nfeed = true\n");
    setup.configure("private = [\"folder:clients*\"]", &here);
    let ack = setup.done("one", FREE, &["clients/acme/offer.md"], json!({"publish": true}));
    let item = setup.item(&ack);
    assert!(item.to_string().contains(MARK));
    assert_eq!(item["meta"]["publish"], false);
    assert_eq!(item["selection"]["privacy"], json!({"private": ["folder:clients*"]}));
    let shown = setup.home.ok(&["explain", item["summary_id"].as_str().unwrap()]);
    assert!(shown.contains("folder:clients*"), "{shown}");
    setup.done("two", FREE, &["notes/garden.md"], json!({}));
    setup.home.ok(&["digest", "build"]);
    assert!(holds(&setup.home.path("buses/digests"), "garden"), "the other one is in the digests");
    for folder in ["digests", "index", "feeds"] {
        assert!(!holds(&setup.home.path(&format!("buses/{folder}")), MARK), "{folder}");
    }
}

/// A mark may be an empty member of front matter, a line or a tag of the text: the reason names the file that has it.
#[test]
fn the_source_that_is_named_private_is_the_one_with_the_mark() {
    let setup = PrivacySetup::new("");
    let here = format!("[flow.\"{FREE}\"]\nprovider = \"builtin\"\n");
    setup.configure("", &here);
    setup.write("buses/other/a.md", "---\ntitle: Roof\n---\nThe roof is paid by the club.");
    setup.write("buses/other/z.txt", "The barn is painted in June by the club.");
    for (number, (name, text)) in [
        ("m1.md", "---\nprivate:\n---\nAna left the club in May."),
        ("m2.md", "---\npublish:\n---\nAna left the club in May."),
        ("m3.md", "---\nmeta:\n  private:\n---\nAna left the club in May."),
        ("m4.md", "Ana left the club in May. #private"),
        ("m5.txt", "private: yes\n\nAna left the club in May."),
        ("m6.md", "---\nprivate: [\n---\nAna left the club in May."),
        ("m7.eml", "From: a@example.org\r\nSensitivity: Private\r\nSubject: Club\r\n\r\nAna left the club in May."),
        ("m8.md", "+++\nprivate = \"\"\n+++\nAna left the club in May."),
        ("m9.html", "<html><body><!-- publish: no --><p>Ana left the club in May.</p></body></html>"),
    ]
    .into_iter()
    .enumerate()
    {
        setup.write(&format!("buses/other/{name}"), text);
        let ack = setup.done(&format!("r{number}"), FREE, &["a.md", name, "z.txt"], json!({}));
        let item = setup.item(&ack);
        assert_eq!(item["meta"]["publish"], false, "{name}");
        let named = item["selection"]["privacy"]["private"].as_array().expect(name);
        let is_of_it = |reason: &Value| reason.as_str().unwrap().starts_with(&format!("other:{name}"));
        assert!(named.len() == 1 && is_of_it(&named[0]), "{name}: {named:?}");
    }
}

#[test]
fn no_record_of_the_service_names_what_is_private() {
    let setup = PrivacySetup::new("private = [\"folder:clients*\"]");
    let here = format!("[flow.\"{FREE}\"]\nprovider = \"builtin\"\n");
    setup.configure("private = [\"folder:clients*\"]", &here);
    let ack = setup.done("one", FREE, &["clients/acme/offer.md"], json!({}));
    assert_eq!(setup.item(&ack)["meta"]["publish"], false);
    setup.done("two", FREE, &["notes/garden.md"], json!({}));
    // What cannot be read may be private too.
    setup.write("buses/other/clients/acme/plan.zip", "PK");
    setup.done("three", FREE, &["clients/acme/plan.zip"], json!({}));
    setup.home.ok(&["digest", "build"]);
    let summary = ack["summary"]["summary_id"].as_str().unwrap();
    for folder in
        ["buses/artifacts", "buses/run_records", "run/snapshots", "buses/digests", "buses/index"]
    {
        let folder = setup.home.path(folder);
        assert!(folder.is_dir(), "{}", folder.display());
        for name in ["clients/acme", "offer.md", "plan.zip", MARK, summary] {
            assert!(!holds(&folder, name), "{} names {name}", folder.display());
        }
    }
    // They are counted.
    let snapshots = setup.home.path("run/snapshots");
    assert!(holds(&snapshots, "- 1 of private sources, which are not named"));
    assert!(holds(&snapshots, "garden.md"), "what is not private is named");
    assert!(holds(&setup.home.path("buses/artifacts"), "other: 1 file"));
    setup.home.ok(&["verify"]);
}

#[test]
fn a_summary_becomes_private_with_a_rule_and_its_request() {
    let setup = PrivacySetup::new("");
    let here = format!("[flow.\"{FREE}\"]\nprovider = \"builtin\"\n");
    setup.configure("", &here);
    let first = setup.done("one", FREE, &["clients/acme/offer.md"], json!({}));
    setup.configure("private = [\"folder:clients\"]", &here);
    let second = setup.done("two", FREE, &["clients/acme/offer.md"], json!({}));
    assert_eq!(second["status"], "duplicate");
    assert_eq!(second["warnings"], json!(["source_changed", "source_private"]), "{second}");
    let third = setup.done("three", FREE, &["clients/acme/offer.md"], json!({"again": 1}));
    assert_eq!(third["status"], "completed", "{third}");
    assert_ne!(third["summary"]["summary_id"], first["summary"]["summary_id"]);
    setup.home.ok(&["digest", "build"]);
    assert!(!holds(&setup.home.path("buses/digests"), MARK), "the newest version decides");
}

/// Whether selections, digests and feeds for others have the word.
fn is_shown(home: &Home) -> bool {
    home.ok(&["digest", "build"]);
    let range = ["--from", "2026-01-01", "--to", "2026-12-31"];
    let selected = home.run(&[&["select", "--bus", "summary_bus"], &range[..]].concat());
    let is_selected = selected.status.success();
    assert!(is_selected || said(&selected).contains("publish: false"), "{}", said(&selected));
    for folder in ["digests", "feeds"] {
        let found = holds(&home.path(&format!("buses/{folder}")), MARK);
        assert_eq!(found, is_selected, "{folder}");
    }
    is_selected
}

#[test]
fn a_producer_that_asks_again_takes_the_summary_of_a_private_source_back() {
    for files in [&["notes/roof.md"][..], &["notes/roof.md", "notes/cellar.md"]] {
        let setup = PrivacySetup::new("");
        let home = &setup.home;
        let here = format!("[flow.\"{FREE}\"]\nprovider = \"builtin\"\n[exports]\nfeed = true\n");
        setup.configure("", &here);
        let text = format!("date: 2026-02-11\n---\nThe {MARK} roof is repaired on Friday.\n");
        for file in files {
            setup.write(&format!("buses/other/{file}"), &format!("---\n{text}"));
        }
        let ask = |id: &str, params: Value| {
            setup.ask_with_key(id, Some("key of the producer"), FREE, files, params);
            home.ok(&["drain"]);
            home.last_ack(id)
        };
        let first = ask("one", json!({}));
        assert_eq!((&first["status"], &first["warnings"]), (&json!("completed"), &json!([])));
        assert!(is_shown(home), "{files:?}");
        let file = format!("buses/other/{}", files[0]);
        setup.write(&file, &format!("---\npublish: false\n{text}"));
        for again in ["two", "three"] {
            let ack = ask(again, json!({}));
            assert_eq!(ack["status"], "duplicate");
            assert_eq!(ack["warnings"], json!(["source_changed", "source_private"]));
            assert_eq!(ack["summary"], first["summary"]);
            assert!(!is_shown(home), "{files:?}");
        }
        let shown = home.ok(&["show", "two"]);
        assert!(shown.contains("the source became private"), "{shown}");
        // The log says it, so everything that follows from the log does.
        home.ok(&["verify"]);
        home.ok(&["replay", "--verify"]);
        std::fs::remove_file(home.path("run/version-index.redb")).unwrap();
        std::fs::remove_dir_all(home.path("buses/versions")).unwrap();
        home.ok(&["drain"]);
        assert!(!is_shown(home), "{files:?}");
        // A summary that is made of the file when it is open again shows both.
        setup.write(&file, &format!("---\n{text}"));
        assert_eq!(ask("four", json!({}))["warnings"], json!([]));
        assert!(!is_shown(home), "{files:?}: a person says so by asking anew");
        setup.ask("five", FREE, files, json!({"again": 1}));
        home.ok(&["drain"]);
        assert_eq!(home.last_ack("five")["status"], "completed");
        assert!(is_shown(home), "{files:?}");
    }
}

#[test]
fn a_reload_puts_rules_in_force() {
    let setup = PrivacySetup::new("");
    let service = setup.home.serve();
    wait_until("the service answers", || setup.home.run(&["status"]).status.success());
    setup.ask("one", FLOW, &["notes/garden.md"], json!({}));
    wait_until("one ends", || {
        setup.home.acks("one").iter().any(|ack| ack["status"] == "completed")
    });
    setup.configure(RULES, "");
    setup.home.ok(&["reload"]);
    setup.ask("two", FLOW, &["clients/acme/offer.md"], json!({}));
    wait_until("two ends", || setup.home.acks("two").len() > 1);
    setup.is_kept(&setup.home.last_ack("two"), "folder:clients*");
    // Rules that cannot be read leave the present ones in force.
    setup.configure("local_only = [\"foldr:x\"]", "");
    let output = setup.home.run(&["reload"]);
    assert!(!output.status.success() && said(&output).contains("folder"), "{}", said(&output));
    setup.ask("three", FLOW, &["clients/acme/offer.md"], json!({"again": 1}));
    wait_until("three ends", || setup.home.acks("three").len() > 1);
    setup.is_kept(&setup.home.last_ack("three"), "folder:clients*");
    drop(service);
}

#[test]
fn a_rule_that_cannot_be_read_is_an_error_with_advice() {
    let setup = PrivacySetup::new("");
    for (privacy, advice) in [
        ("local_only = [\"foldr:clients\"]", "did you mean `folder`?"),
        ("private = [\"lable:health\"]", "did you mean `label`?"),
        ("local_only = [\"clients\"]", "folder:clients*"),
        ("local_only = [\"weather:red\"]", "the places are bus, folder"),
        ("local_only = \"folder:clients\"", "a list of texts"),
        ("local_onli = []", "did you mean `privacy.local_only`?"),
        ("local_provider = \"far\"", "a provider on this machine"),
        ("local_provider = \"nobody\"", "there is no [provider.nobody]"),
    ] {
        setup.configure(privacy, "");
        for args in [&["config"][..], &["drain"], &["sum", "summarizer.toml"]] {
            let output = setup.home.run(args);
            assert_eq!(output.status.code(), Some(3), "{args:?} {privacy}: {}", said(&output));
            assert!(said(&output).contains(advice), "{args:?} {privacy}: {}", said(&output));
        }
    }
}

#[test]
fn config_and_doctor_say_what_may_leave_and_where_to() {
    let setup =
        PrivacySetup::new(&format!("{RULES}\nprivate = [\"feed:diary\"]\nredact = [\"emails\"]"));
    let far =
        format!("far, {}/v1, sees the texts of every flow that names no provider", setup.far.base);
    let lines = [
        far.as_str(),
        "folder:clients* stays here: a provider here answers, and without one the request is refused",
        "label:health stays here",
        "feed:diary is never published",
        "emails are removed before a text leaves",
    ];
    setup.home.ok(&["init"]);
    for args in [&["config"][..], &["doctor"]] {
        let shown = said(&setup.home.run(args));
        let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        let shown = words(&shown);
        for line in lines {
            assert!(shown.contains(line), "{args:?}: {line}\n{shown}");
        }
    }
    setup.home.configure("");
    assert!(setup.home.ok(&["config"]).contains("no text leaves this machine"));
}

/// A text of each kind of file that can say what it is filed under. The mark of each has a number.
fn with_labels() -> Vec<(&'static str, String)> {
    let said = format!("The {MARK}## is paid on 3 May and costs 20 EUR.");
    let mail = |id: &str, header: &str| {
        let head =
            format!("From: a@x.example\nMessage-ID: <{id}@x>\nSubject: Costs {id}\n{header}");
        format!("{head}\nDate: Tue, 10 Feb 2026 09:00:00 +0100\n\n{said}\n")
    };
    let front = |lines: &str| format!("---\n{lines}\n---\n\n{said}\n");
    let page = |head: &str| format!("<html><head>{head}</head><body><p>{said}</p></body></html>");
    let entry = |line: &str| {
        format!(
            "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nBEGIN:VEVENT\r\nDTSTART:20260211T100000Z\r\n{line}\r\n\
             SUMMARY:Costs\r\nDESCRIPTION:{said}\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n"
        )
    };
    vec![
        ("list.md", front("tags: [garden, health]")),
        ("one.md", front("category: Health")),
        ("yes.md", front("tags: {garden: true, health: true}")),
        ("deep.md", front("taxonomies: {tags: [garden, health]}")),
        ("table.md", format!("+++\n[taxonomies]\ntags = [\"health\"]\n+++\n\n{said}\n")),
        ("line.md", format!("tags:: garden, health\n\n{said}\n")),
        ("line.txt", format!("Costs\nTags: garden, health/back\n\n{said}\n")),
        ("signs.txt", format!("Tags: #garden #health\n\n{said}\n")),
        ("field.rst", format!("Costs\n=====\n\n:tags: garden, health\n\n{said}\n")),
        ("directive.rst", format!("Costs\n=====\n\n{said}\n\n.. tags:: garden, health\n")),
        (
            "meta.rst",
            format!("Costs\n=====\n\n.. meta::\n   :keywords: garden, health\n\n{said}\n"),
        ),
        (
            "words.tex",
            format!(
                "\\documentclass{{article}}\\begin{{document}}\\keywords{{garden, health}}\n{said}\\end{{document}}"
            ),
        ),
        (
            "setup.tex",
            format!(
                "\\documentclass{{article}}\\hypersetup{{pdfkeywords={{garden, health}}}}\\begin{{document}}{said}\\end{{document}}"
            ),
        ),
        ("head.org", format!("* Costs :garden:health:\n{said}\n")),
        ("file.org", format!("#+FILETAGS: :garden:health:\n\n{said}\n")),
        ("blank.org", format!("#+FILETAGS: garden health\n\n{said}\n")),
        ("words.html", page("<meta name='keywords' content='garden, health'>")),
        (
            "tag.html",
            page(
                "<meta property='article:tag' content='garden'><meta property='article:tag' content='Health'>",
            ),
        ),
        ("news.html", page("<meta name='news_keywords' content='garden, health'>")),
        (
            "ld.html",
            page(&format!(
                "<script type='application/ld+json'>{}</script>",
                json!([{"@type": "Article", "keywords": ["garden", "health"]}])
            )),
        ),
        ("gmail.eml", mail("g", "X-Gmail-Labels: Inbox,Health")),
        ("coded.eml", mail("c", "X-Gmail-Labels: =?UTF-8?Q?Caf=C3=A9,Health?=")),
        ("words.eml", mail("w", "Keywords: garden,\n health")),
        ("keys.eml", mail("k", "X-Mozilla-Keys: $label1 Health")),
        ("blanks.eml", mail("x", "X-Keywords: garden health    ")),
        (
            "gmail.mbox",
            format!(
                "From a@x Tue Feb 10 09:00:00 2026\n{}",
                mail("m", "X-Gmail-Labels: Inbox,Health")
            ),
        ),
        ("entry.ics", entry("CATEGORIES:Garden,Health")),
        (
            "two.jsonl",
            format!(
                "{}\n",
                json!({"id": "t", "tags": ["garden"], "categories": "health", "text": said})
            ),
        ),
    ]
}

/// A text of each kind of file that can say that it stays on this machine.
fn with_local_only() -> Vec<(&'static str, String)> {
    let said = format!("The {MARK}## is paid on 3 May and costs 20 EUR.");
    let mail = |id: &str, rest: &str| {
        let head = format!("From: a@x.example\nMessage-ID: <{id}@x>\nSubject: Costs {id}");
        format!("{head}\nDate: Tue, 10 Feb 2026 09:00:00 +0100\n{rest}\n")
    };
    let page = |head: &str| format!("<html><head>{head}</head><body><p>{said}</p></body></html>");
    vec![
        ("front.md", format!("---\nlocal_only: true\n---\n\n{said}\n")),
        ("flag.md", format!("---\nflags: [local_only]\n---\n\n{said}\n")),
        ("comment.md", format!("<!-- local_only: true -->\n\n{said}\n")),
        ("tag.md", format!("#local_only\n\n{said}\n")),
        ("behind.md", format!("{said} #local-only/family\n")),
        ("line.txt", format!("local_only: true\n\n{said}\n")),
        ("field.txt", format!(":local_only: true\n\n{said}\n")),
        ("field.rst", format!("Costs\n=====\n\n:local_only: true\n\n{said}\n")),
        ("word.org", format!("#+LOCAL_ONLY: true\n\n{said}\n")),
        ("field.org", format!(":local_only: true\n\n{said}\n")),
        ("line.org", format!("local_only: true\n\n{said}\n")),
        ("drawer.org", format!("* Costs\n:PROPERTIES:\n:LOCAL_ONLY: t\n:END:\n{said}\n")),
        (
            "comment.tex",
            format!(
                "% local_only: true\n\\documentclass{{article}}\\begin{{document}}{said}\\end{{document}}"
            ),
        ),
        ("meta.html", page("<meta name='local_only' content='true'>")),
        ("comment.html", format!("<!-- local_only: true -->{}", page(""))),
        ("data.html", format!("<html data-local-only='true'><body><p>{said}</p></body></html>")),
        ("header.eml", mail("h", &format!("X-Local-Only: True\n\n{said}"))),
        (
            "page.eml",
            mail(
                "p",
                &format!(
                    "Content-Type: text/html\n\n{}",
                    page("<meta name='local_only' content='yes'>")
                ),
            ),
        ),
        (
            "header.mbox",
            format!(
                "From a@x Tue Feb 10 09:00:00 2026\n{}",
                mail("b", &format!("X-Local-Only: yes\n\n{said}"))
            ),
        ),
        ("flag.jsonl", format!("{}\n", json!({"id": "f", "flags": ["local_only"], "text": said}))),
        ("flag.json", json!({"flags": ["local_only"], "text": said}).to_string()),
    ]
}

/// Whatever way a text comes in, what it says of itself keeps it here.
#[track_caller]
fn every_way_keeps(files: &[(&str, String)], rule: &str) {
    let setup = PrivacySetup::new(rule);
    let home = &setup.home;
    home.ok(&["init"]);
    let marks: Vec<String> = (0..files.len()).map(|number| format!("{MARK}{number:03}")).collect();
    let put = |folder: &str, way: usize| {
        for ((name, text), mark) in files.iter().zip(&marks) {
            let text = text.replace(&format!("{MARK}##"), mark);
            // The same text again would be known.
            setup
                .write(&format!("{folder}/{name}"), &text.replace("20 EUR", &format!("{way} EUR")));
        }
        home.path(folder).to_str().unwrap().to_owned()
    };
    let seen_far = |way: &str| {
        let seen: String = setup.far.seen().iter().map(|one| one.raw.clone()).collect();
        let seen = files.iter().zip(&marks).filter(|(_, mark)| seen.contains(*mark));
        let seen: Vec<&str> = seen.map(|((name, _), _)| *name).collect();
        assert_eq!(seen, Vec::<&str>::new(), "{way} sends these");
    };
    for (name, _) in files {
        home.run(&["sum", &format!("{}/{name}", put("sum", 20))]);
    }
    seen_far("sum");
    put("buses/other", 21);
    let ends = [".md", ".txt", ".rst", ".tex", ".html", ".eml", ".json", ".jsonl"];
    let read = |name: &&str| ends.iter().any(|end| name.ends_with(end));
    for (number, (name, _)) in files.iter().enumerate().filter(|(_, (name, _))| read(name)) {
        setup.ask(&format!("r{number}"), FREE, &[name], json!({}));
    }
    home.ok(&["drain"]);
    seen_far("the bus `other`");
    for command in ["text", "mail"] {
        home.run(&["import", command, &put(command, if command == "text" { 22 } else { 23 })]);
    }
    for bus in ["event_bus", "session_bus", "chunk_bus"] {
        home.run(&["submit", "--all-new", "--bus", bus]);
    }
    home.ok(&["drain"]);
    seen_far("import");
    let added = put("add", 24);
    setup.write("add/open.md", "The garden needs water on Friday.\n");
    home.run(&["add", &added]);
    seen_far("add");
    assert!(setup.far.seen().iter().any(|one| one.raw.contains("garden needs")), "others are sent");
    // What stays here is known by its text.
    for mark in &marks {
        assert!(holds(&home.path("buses"), mark), "{mark}");
    }
}

#[test]
fn every_kind_of_file_carries_what_it_is_filed_under() {
    every_way_keeps(&with_labels(), "local_only = [\"label:health\"]");
}

#[test]
fn every_kind_of_file_may_say_that_it_stays_here() {
    every_way_keeps(&with_local_only(), "local_only = []");
}

/// A home names its files from its own folder, so no name of them has the path of the home.
#[test]
fn a_rule_about_the_folder_of_the_home_or_one_around_it_holds_for_what_lies_there() {
    let setup = PrivacySetup::new("local_only = []");
    let home = &setup.home;
    let root = home.path("").canonicalize().unwrap();
    let name = root.file_name().unwrap().to_str().unwrap().to_owned();
    let around = root.parent().unwrap().display().to_string();
    let rules = [root.display().to_string(), name, around];
    for (number, rule) in rules.iter().enumerate() {
        setup.configure(&format!("local_only = [\"folder:{rule}\"]"), "");
        for way in ["notes", "mails"] {
            let (end, head) = match way {
                "notes" => ("md", String::new()),
                _ => (
                    "eml",
                    format!(
                        "From: a@x\nMessage-ID: <{number}@x>\nDate: Tue, 10 Feb 2026 09:00:00 +0000\n\n"
                    ),
                ),
            };
            let file = format!("{way}/{number}.{end}");
            setup.write(&file, &format!("{head}The {MARK} is paid on {} May.\n", number + 1));
            home.run(&["add", home.path(&file).to_str().unwrap()]);
            home.run(&["sum", home.path(&file).to_str().unwrap()]);
        }
        let file = std::fs::File::open(home.path(&format!("notes/{number}.md"))).unwrap();
        home.command(&["sum", "-"]).stdin(file).output().unwrap();
        setup.ask(&format!("r{number}"), FLOW, &["clients/acme/offer.md"], json!({"n": number}));
        home.ok(&["drain"]);
        setup.far_saw_nothing();
    }
    setup.configure(&format!("local_only = [\"folder:{}/clients\"]", root.display()), "");
    setup.write("notes/open.md", "The garden needs water on Sunday.\n");
    home.run(&["add", home.path("notes/open.md").to_str().unwrap()]);
    assert!(setup.far.seen().iter().any(|one| one.raw.contains("garden needs")), "others are sent");
}

/// Imports of before kept no folder, and a rule about one cannot see them.
#[test]
fn doctor_names_texts_that_no_rule_about_a_folder_can_see() {
    let setup = PrivacySetup::new("local_only = [\"folder:clients\"]");
    let home = &setup.home;
    home.ok(&["init"]);
    let files = tempfile::tempdir().unwrap();
    let clients = files.path().join("clients");
    std::fs::create_dir_all(&clients).unwrap();
    let mail = format!(
        "From: a@x\nMessage-ID: <1@x>\nDate: Tue, 10 Feb 2026 09:00:00 +0000\n\nThe {MARK} is paid.\n"
    );
    std::fs::write(clients.join("old.eml"), mail).unwrap();
    home.ok(&["import", "mail", clients.to_str().unwrap()]);
    let doctor = || said(&home.run(&["doctor"]));
    assert!(!doctor().contains("no rule about a folder"), "{}", doctor());
    let day = home.path("buses/eventbus/daily/2026-02-10.jsonl");
    let text = std::fs::read_to_string(&day).unwrap();
    let start = text.find("\"folder\":\"").unwrap();
    let end = start + text[start..].find(',').unwrap() + 1;
    let text = format!("{}{}{}", &text[..start], " ".repeat(end - start), &text[end..]);
    std::fs::write(&day, text).unwrap();
    let told = doctor();
    let seen = "no rule about a folder sees 1 text imported before folders were kept: old.eml";
    assert!(told.contains(seen), "{told}");
    setup.configure("local_only = [\"label:health\"]", "");
    assert!(!doctor().contains("no rule about a folder"));
}

/// A way in: the command, what it is given, its file and the text of the file.
struct WayIn {
    command: &'static [&'static str],
    given: &'static str,
    file: &'static str,
    text: String,
}

/// Files that lie in a folder `clients`, or in a mailbox `diary`.
fn ways_in() -> Vec<WayIn> {
    let said = format!("The {MARK} is paid on 3 May and costs 20 EUR.");
    let date = "Tue, 10 Feb 2026 09:00:00 +0100";
    let row = |id: &str| {
        let at = "2026-02-11T10:00:00Z";
        let row = json!({"id": id, "timestamp": at, "role": "user", "content": said, "talk": id});
        format!("{row}\n")
    };
    let mail = |id: &str| {
        format!(
            "From: a@x.example\nMessage-ID: <{id}@x>\nDate: {date}\nSubject: Costs {id}\n\n{said}\n"
        )
    };
    let mbox = |id: &str| format!("From a@x Tue Feb 10 09:00:00 2026\n{}", mail(id));
    let feed = |id: &str| {
        let item =
            json!({"id": id, "date_published": "2026-02-10T09:00:00Z", "content_text": said});
        json!({"version": "https://jsonfeed.org/version/1.1", "title": "F", "items": [item]})
            .to_string()
    };
    const TEXT: &[&str] = &["import", "text"];
    const MAIL: &[&str] = &["import", "mail"];
    const FEED: &[&str] = &["import", "rss-json"];
    const CHAT: &[&str] = &["import", "chat-export"];
    const ROWS: &[&str] = &["import", "jsonl", "--time", "timestamp", "--text", "content"];
    const TALK: &[&str] =
        &["import", "jsonl", "--time", "timestamp", "--text", "content", "--conversation", "talk"];
    const ADD: &[&str] = &["add", "--no-wait"];
    const SUM: &[&str] = &["sum"];
    let note = |id: &str| format!("# Costs {id}\n\n{said}\n");
    let all = [
        (TEXT, "a/clients", "a/clients/plain.md", note("a")),
        (TEXT, "b/clients/plain.md", "b/clients/plain.md", note("b")),
        (TEXT, "c", "c/clients/plain.md", note("c")),
        (MAIL, "d/clients", "d/clients/x.mbox", mbox("d")),
        (MAIL, "e/clients/x.eml", "e/clients/x.eml", mail("e")),
        (FEED, "f/clients", "f/clients/feed.json", feed("f")),
        (FEED, "g/clients/feed.json", "g/clients/feed.json", feed("g")),
        (CHAT, "h/clients", "h/clients/rows.jsonl", row("h")),
        (CHAT, "i/clients/rows.jsonl", "i/clients/rows.jsonl", row("i")),
        (ROWS, "j/clients", "j/clients/rows.jsonl", row("j")),
        (TALK, "k/clients", "k/clients/rows.jsonl", row("k")),
        (ADD, "l/clients", "l/clients/plain.md", note("l")),
        (ADD, "m/clients/x.mbox", "m/clients/x.mbox", mbox("m")),
        (SUM, "n/clients/plain.md", "n/clients/plain.md", note("n")),
        (MAIL, "o/Diary", "o/Diary", mbox("o")),
        (MAIL, "p/diary/cur/1.host:2,S", "p/diary/cur/1.host:2,S", mail("p")),
        (MAIL, "q/DIARY.MBOX", "q/DIARY.MBOX", mbox("q")),
        (MAIL, "r", "r/diary.mbox/x.eml", mail("r")),
        (ADD, "s/Diary", "s/Diary", mbox("s")),
        (ADD, "t/.Diary", "t/.Diary/new/1.host", mail("t")),
        (ADD, "u/DIARY.MBOX", "u/DIARY.MBOX", mbox("u")),
        (ADD, "v/diary.sbd", "v/diary.sbd/year.mbox", mbox("v")),
        (SUM, "w/Diary", "w/Diary", mbox("w")),
        (SUM, "x/diary/cur/1.host:2,S", "x/diary/cur/1.host:2,S", mail("x")),
        (SUM, "y/DIARY.MBOX", "y/DIARY.MBOX", mbox("y")),
    ];
    let way = |(command, given, file, text)| WayIn { command, given, file, text };
    all.into_iter().map(way).collect()
}

/// However a command takes in a file, a rule about its folder or about its mailbox keeps it here and unpublished.
#[test]
fn every_command_keeps_the_places_of_its_files() {
    let all = ways_in();
    for (place, rule) in
        [("/clients/", "folder:clients"), ("/clients/", "folder:DESK"), ("iary", "mailbox:diary")]
    {
        let setup = PrivacySetup::new("");
        let home = &setup.home;
        let rule = rule.replace("DESK", home.path("desk").to_str().unwrap());
        setup.configure(
            &format!("local_only = [{rule:?}]\nprivate = [{rule:?}]\nlocal_provider = \"builtin\""),
            "",
        );
        home.ok(&["init"]);
        let is_meant = |way: &&WayIn| way.file.to_lowercase().contains(place) || rule.contains('/');
        let meant: Vec<&WayIn> = all.iter().filter(is_meant).collect();
        let mark = |way: &WayIn| format!("{MARK}-{}-", &way.file[..1]);
        for way in &meant {
            setup.write(&format!("desk/{}", way.file), &way.text.replace(MARK, &mark(way)));
            let given = home.path(&format!("desk/{}", way.given));
            home.ok(&[way.command, &[given.to_str().unwrap()]].concat());
        }
        for bus in ["event_bus", "session_bus", "chunk_bus"] {
            home.run(&["submit", "--all-new", "--bus", bus]);
        }
        home.ok(&["drain"]);
        let seen: String = setup.far.seen().iter().map(|one| one.raw.clone()).collect();
        let sent: Vec<&str> =
            meant.iter().filter(|way| seen.contains(&mark(way))).map(|way| way.file).collect();
        assert_eq!(sent, Vec::<&str>::new(), "these leave this machine in spite of {rule}");
        let items = home.items();
        assert!(items.len() > meant.len() / 2, "{rule}: {} summaries", items.len());
        for item in items {
            let reasons = &item["selection"]["privacy"]["private"];
            assert!(reasons.as_array().is_some_and(|all| !all.is_empty()), "{rule}: {item}");
        }
    }
}

/// Who wrote all texts of [`with_authors`] that have the mark.
const AUTHOR: &str = "Ottoline Hay";

/// A text of each kind of file that can name who wrote it. The mark of each has a number, so that a leak tells its file.
fn with_authors() -> Vec<(&'static str, String)> {
    let said = format!("The {MARK}## is paid on 3 May and costs 20 EUR.");
    let others = "The ferry leaves at seven on Friday.";
    let mail =
        |from: &str, rest: &str| format!("From: {from}\nTo: me@x.example\nSubject: Costs\n{rest}");
    let date = "Date: Tue, 10 Feb 2026 09:00:00 +0100\n";
    let many: Vec<String> = (0..60).map(|number| format!("Person Number {number}")).collect();
    let attached = |name: &str, text: &str| {
        let parts = format!(
            "Content-Type: multipart/mixed; boundary=b\n\n--b\n\nSee below.\n--b\nContent-Type: text/plain; name={name}\n\
             Content-Disposition: attachment\n\n{text}\n--b--\n"
        );
        mail("Bo Lind <bo@x.example>", &format!("Message-ID: <{name}@x>\n{date}{parts}"))
    };
    let item = |name: &str, rest: &str| {
        format!(
            "<item><title>Costs {name}</title><guid>{name}</guid>{rest}<description>{said}</description></item>"
        )
    };
    let rss = |items: &str| {
        format!(
            "<rss version=\"2.0\" xmlns:dc=\"http://purl.org/dc/elements/1.1/\"><channel><title>T</title>{items}</channel></rss>"
        )
    };
    let creator = format!("<dc:creator>{AUTHOR}</dc:creator>");
    let published = "<pubDate>Tue, 10 Feb 2026 09:00:00 +0000</pubDate>";
    let line = |value: Value| format!("{value}\n");
    let page = |head: &str, body: &str| {
        format!(
            "<html><head><title>Costs</title>{head}</head><body><article>{body}<p>{said}</p></article></body></html>"
        )
    };
    let mut all = vec![
        ("front.md", format!("---\nauthor: {AUTHOR}\n---\n\n{said}\n")),
        ("front-from.md", format!("---\nFrom: {AUTHOR}\n---\n\n{said}\n")),
        ("two.md", format!("---\nauthors: [Bo Lind, {AUTHOR}]\n---\n\n{said}\n")),
        ("comma.md", format!("---\nauthor: Bo Lind, {AUTHOR}\n---\n\n{said}\n")),
        ("many.md", format!("---\nauthors: {:?}\n---\n\n{said}\n", [&many[..], &[AUTHOR.to_owned()]].concat())),
        ("head.txt", format!("Minutes\nAuthor: {AUTHOR}\nDate: 2026-03-05\n\n{said}\n")),
        ("page.html", format!("<html><head><meta name=author content='{AUTHOR}'></head><body><p>{said}</p></body></html>")),
        ("paper.tex", format!("\\documentclass{{article}}\\author{{Bo Lind \\and {AUTHOR}}}\\begin{{document}}{said}\\end{{document}}")),
        ("a.org", format!("#+TITLE: Costs\n#+AUTHOR: {AUTHOR}\n\n{said}\n")),
        ("a.vtt", format!("WEBVTT\n\n00:01.000 --> 00:04.000\n<v {AUTHOR}>{said}</v>\n\n00:05.000 --> 00:06.000\n<v Bo Lind>{others}</v>\n")),
        ("dated.eml", mail(&format!("{AUTHOR} <o@x.example>"), &format!("Message-ID: <a@x>\n{date}\n{said}\n"))),
        ("draft.eml", mail(&format!("{AUTHOR} <o@x.example>"), &format!("\n{said}\n"))),
        ("box.mbox", format!("From o@x Tue Feb 10 09:00:00 2026\n{}", mail(AUTHOR, &format!("Message-ID: <b@x>\n{date}\n{said}\n")))),
        ("sender.eml", mail("All <all@list.example>", &format!("Sender: {AUTHOR} <o@x.example>\nMessage-ID: <se@x>\n{date}\n{said}\n"))),
        ("answer.eml", mail("All <all@list.example>", &format!("Reply-To: {AUTHOR} <o@x.example>\nMessage-ID: <re@x>\n{date}\n{said}\n"))),
        ("again.eml", mail("Bo Lind <bo@x.example>", &format!("Resent-From: {AUTHOR} <o@x.example>\nMessage-ID: <ra@x>\n{date}\n{said}\n"))),
        ("first.eml", mail("All <all@list.example>", &format!("X-Original-From: {AUTHOR} <o@x.example>\nMessage-ID: <xo@x>\n{date}\n{said}\n"))),
        ("via.eml", mail(&format!("{AUTHOR} via All <all@list.example>"), &format!("Message-ID: <vi@x>\n{date}\n{said}\n"))),
        ("answered.json", json!({"from": "All <all@list.example>", "reply_to": format!("{AUTHOR} <o@x.example>"), "text": said}).to_string()),
        ("table.eml", attached("t.csv", &format!("author,note\n{AUTHOR},{said}\nBo Lind,{others}\n"))),
        ("chat.eml", attached("c.txt", &format!("[08:15] {AUTHOR}: {said}\n[08:16] Bo Lind: {others}\n"))),
        ("dated.csv", format!("date,author,note\n2026-03-10,{AUTHOR},{said}\n2026-03-11,{AUTHOR},{said}\n")),
        ("undated.csv", format!("author,note\n{AUTHOR},{said}\n{AUTHOR},{said}\n")),
        ("list.json", json!([{"author": AUTHOR, "text": said}, {"author": AUTHOR, "text": said}]).to_string()),
        ("rows.jsonl", [line(json!({"by": AUTHOR, "text": said})), line(json!({"by": AUTHOR, "text": said}))].concat()),
        ("nested.json", json!({"report": {"parts": [{"author": AUTHOR, "note": said}, {"author": "Bo Lind", "note": others}]}}).to_string()),
        ("phone.txt", format!("12/03/2026, 14:05 - {AUTHOR}: {said}\n12/03/2026, 14:06 - {AUTHOR}: {said}\n")),
        ("clock.txt", format!("[08:15] {AUTHOR}: {said}\n[08:16] Bo Lind: {others}\n[08:17] {AUTHOR}: Good.\n")),
        ("angles.txt", format!("<{AUTHOR}> {said}\n<Bo Lind> {others}\n<{AUTHOR}> Good.\n")),
        ("talk.txt", format!("{AUTHOR}: {said}\nBo Lind: {others}\n{AUTHOR}: Good, then we go.\n")),
        ("talk.md", format!("**{AUTHOR}:** {said}\n\n**Bo Lind:** {others}\n\n**{AUTHOR}:** Good, then we go.\n")),
        ("turns.jsonl", [
            line(json!({"role": "user", "name": AUTHOR, "content": said})),
            line(json!({"role": "assistant", "content": "It is noted."})),
        ].concat()),
        ("turns.json", json!({"messages": [{"author": AUTHOR, "text": said}, {"author": "Bo Lind", "text": others}]}).to_string()),
        ("timed.jsonl", [
            line(json!({"role": "user", "name": AUTHOR, "content": said, "timestamp": "2026-02-11T10:00:00Z"})),
            line(json!({"role": "user", "name": AUTHOR, "content": "Good.", "timestamp": "2026-02-11T10:01:00Z"})),
        ].concat()),
        ("telegram.json", json!({"name": "Family", "type": "personal_chat", "id": 1, "messages": [
            {"id": 1, "type": "message", "date": "2026-02-11T10:00:00", "date_unixtime": "1770804000", "from": AUTHOR, "from_id": "user1", "text": said}]}).to_string()),
        ("passed-on.json", json!({"name": "Club", "type": "personal_chat", "id": 2, "messages": [
            {"id": 1, "type": "message", "date": "2026-02-12T10:00:00", "date_unixtime": "1770890400", "from": "Bo Lind", "from_id": "user2",
             "forwarded_from": AUTHOR, "text": said}]}).to_string()),
        ("slack/garden/2026-02-11.json", json!([
            {"type": "message", "user": "U1", "user_profile": {"real_name": AUTHOR}, "ts": "1770804000.000100", "text": said}]).to_string()),
        ("discord.json", json!({"guild": {"name": "G"}, "channel": {"id": "5", "name": "garden"}, "messages": [
            {"id": "9", "type": "Default", "timestamp": "2026-02-11T10:00:00+00:00", "content": said, "author": {"id": "1", "name": "oh", "nickname": AUTHOR}}]}).to_string()),
        ("messenger.json", json!({"participants": [{"name": AUTHOR}], "title": "Ottoline", "thread_path": "inbox/o", "messages": [
            {"sender_name": AUTHOR, "timestamp_ms": 1_770_804_000_000_i64, "content": said}]}).to_string()),
        ("dated.xml", rss(&item("d1", &format!("{creator}{published}")))),
        ("undated.xml", rss(&item("u1", &creator))),
        ("together.xml", rss(&item("t1", &format!("<author>Bo Lind</author>{creator}{published}")))),
        ("feed.json", json!({"version": "https://jsonfeed.org/version/1.1", "title": "F", "items": [
            {"id": "j1", "date_published": "2026-02-10T09:00:00Z", "authors": [{"name": "Bo Lind"}, {"name": AUTHOR}], "content_text": said},
            {"id": "j2", "authors": [{"name": AUTHOR}], "content_text": said}]}).to_string()),
        ("parts.json", json!({"messages": [{"author": AUTHOR, "content": [{"type": "text", "text": said}]},
            {"author": "Bo Lind", "content": [{"type": "text", "text": others}]}]}).to_string()),
        ("roles.json", json!({"messages": [{"role": "user", "name": AUTHOR, "content": [{"type": "text", "text": said}]},
            {"role": "assistant", "content": "It is noted."}]}).to_string()),
        ("below.json", json!({"conversation": [{"name": AUTHOR, "text": said}, {"name": "Bo Lind", "text": others}]}).to_string()),
        ("bare.json", json!([{"nick": AUTHOR, "text": said}, {"nick": AUTHOR, "text": said}]).to_string()),
        ("entity.vtt", format!("WEBVTT\n\n00:01.000 --> 00:04.000\n<v Ottoline&nbsp;H&#97;y>{said}</v>\n\n00:05.000 --> 00:06.000\n<v Bo Lind>{others}</v>\n")),
        ("voices.vtt", format!("WEBVTT\n\n00:01.000 --> 00:04.000\n- <v Bo Lind>Yes.</v> <v.loud {AUTHOR}>{said}</v>\n")),
        ("named.srt", format!("1\n00:00:01,000 --> 00:00:04,000\n{AUTHOR}: {said}\n\n2\n00:00:05,000 --> 00:00:06,000\nBo Lind: {others}\n")),
        ("behind.txt", format!("{AUTHOR} (10:02): {said}\nBo Lind (10:03): {others}\n")),
        ("brackets.txt", format!("{AUTHOR} [10:02 AM]: {said}\nBo Lind [10:03 AM]: {others}\n")),
        ("above.txt", format!("{AUTHOR}  10:02 AM\n{said}\nBo Lind  10:03 AM\n{others}\n")),
        ("once.txt", format!("{AUTHOR}: {said}\nBo Lind: {others}\n")),
        ("once.md", format!("**{AUTHOR}:** {said}\n\n**Bo Lind:** {others}\n")),
        ("page-ld.html", page(&format!("<script type='application/ld+json'>{}</script>", json!({"@graph": [
            {"@type": "Article", "author": [{"name": "Bo Lind"}, {"@id": "#o"}]}, {"@type": "Person", "@id": "#o", "name": AUTHOR}]})), "")),
        ("page-rel.html", page("", &format!("<p>by <a rel='author' href='/o'><b>{AUTHOR}</b></a></p>"))),
        ("page-prop.html", page("", &format!("<div itemprop=author itemscope><span itemprop=name>{AUTHOR}</span></div>"))),
        ("page-meta.html", page("", &format!("<div itemprop=author itemscope><meta itemprop=name content='{AUTHOR}'></div>"))),
        ("page-class.html", page("", &format!("<p class='entry-byline'>By {AUTHOR} · 5 min read</p>"))),
        ("page-card.html", page("", &format!("<p>Posted by <span class='fn'>{AUTHOR}</span></p>"))),
        ("headed.md", format!("### {AUTHOR} — 10:01\n\n{said}\n\n### Bo Lind — 10:02\n\n{others}\n")),
        ("tabs.txt", format!("0:01\t{AUTHOR}\t{said}\n0:09\tBo Lind\t{others}\n")),
        ("dashes.txt", format!("[00:00.00] {AUTHOR} - {said}\n[75:10.20] Bo Lind - {others}\n")),
        ("russian.md", format!("---\nАвтор: {AUTHOR}\n---\n\n{said}\n")),
        ("chinese.txt", format!("作者：{AUTHOR}\n\n{said}\n")),
        ("two-names.csv", format!("First Name,Last Name,note\nOttoline,Hay,{said}\nOttoline,Hay,{said}\n")),
        ("projects.json", json!([{"name": "Well", "description": "Plans.", "prompt_template": "", "creator": {"full_name": AUTHOR},
            "docs": [{"filename": "oven.txt", "content": said}]}]).to_string()),
    ];
    for (name, column) in COLUMNS {
        all.push((name, format!("{column},note\n{AUTHOR},{said}\n{AUTHOR},{said}\n")));
    }
    for (name, meta) in METAS {
        all.push((name, page(&format!("<meta name='{meta}' content='{AUTHOR}'>"), "")));
    }
    for (name, member) in MEMBERS {
        let messages = json!({"messages": [{member: AUTHOR, "text": said}, {member: "Bo Lind", "text": others}]});
        all.push((name, messages.to_string()));
    }
    all
}

/// Columns that name an author, with the names of their files.
const COLUMNS: [(&str, &str); 19] = [
    ("who.csv", "Who"),
    ("gemaakt.csv", "gemaakt door"),
    ("sozdal.csv", "Создал"),
    ("author-name.csv", "Author Name"),
    ("authors.csv", "author(s)"),
    ("created-by.csv", "created_by"),
    ("posted-by.csv", "Posted By"),
    ("sent-by.csv", "sentBy"),
    ("autor.csv", "Autor"),
    ("verfasser.csv", "Verfasser"),
    ("von.csv", "Von"),
    ("absender.csv", "Absender"),
    ("erstellt.csv", "erstellt_von"),
    ("auteur.csv", "Auteur"),
    ("cree.csv", "Créé par"),
    ("expediteur.csv", "Expéditeur"),
    ("autora.csv", "Autora"),
    ("creado.csv", "Creado por"),
    ("remitente.csv", "Remitente"),
];

/// `meta` elements that name an author.
const METAS: [(&str, &str); 6] = [
    ("m1.html", "parsely-author"),
    ("m2.html", "citation_author"),
    ("m3.html", "sailthru.author"),
    ("m4.html", "DC.contributor"),
    ("m5.html", "creator"),
    ("m6.html", "byl"),
];

/// Members of a message that name who says it.
const MEMBERS: [(&str, &str); 12] = [
    ("say1.json", "speaker_name"),
    ("say2.json", "nick"),
    ("say3.json", "who"),
    ("say4.json", "username"),
    ("say5.json", "display_name"),
    ("say6.json", "author_name"),
    ("say7.json", "handle"),
    ("say8.json", "participant"),
    ("say9.json", "from_name"),
    ("say10.json", "sent_by"),
    ("say11.json", "displayName"),
    ("say12.json", "name"),
];

/// However a file names who wrote it, a rule about that person keeps it here, and `forget` finds it.
#[test]
fn every_kind_of_file_carries_its_authors() {
    let rule = format!("local_only = [\"author:{AUTHOR}\"]");
    let setup = PrivacySetup::new(&rule);
    let home = &setup.home;
    let files = with_authors();
    let marks: Vec<String> = (0..files.len()).map(|number| format!("{MARK}{number:03}")).collect();
    for ((name, text), mark) in files.iter().zip(&marks) {
        setup.write(&format!("texts/{name}"), &text.replace(&format!("{MARK}##"), mark));
    }
    setup
        .write("texts/kept.md", "---\nauthor: Bo Lind\n---\n\nThe garden needs water on Friday.\n");
    let texts = home.path("texts");
    let texts = texts.to_str().unwrap();
    let seen_far = |command: &str| {
        let seen: String = setup.far.seen().iter().map(|one| one.raw.clone()).collect();
        let seen = files.iter().zip(&marks).filter(|(_, mark)| seen.contains(*mark));
        let seen: Vec<&str> = seen.map(|((name, _), _)| *name).collect();
        assert_eq!(seen, Vec::<&str>::new(), "{command} sends these");
    };
    home.run(&["add", texts]);
    seen_far("add");
    assert!(setup.far.seen().iter().any(|one| one.raw.contains("garden")), "others are sent");
    for (name, _) in &files {
        home.run(&["sum", &format!("{texts}/{name}")]);
    }
    seen_far("sum");
    setup.configure(&format!("{rule}\nlocal_provider = \"builtin\""), "");
    home.run(&["add", texts]);
    seen_far("add with a provider here");
    let in_home = || {
        let buses = home.path("buses");
        let there = files.iter().zip(&marks).filter(|(_, mark)| holds(&buses, mark));
        there.map(|((name, _), _)| *name).collect::<Vec<_>>()
    };
    assert_eq!(in_home().len(), files.len(), "{:?}", in_home());
    home.ok(&["forget", "--author", &AUTHOR.to_lowercase()]);
    assert_eq!(in_home(), Vec::<&str>::new(), "`forget --author` does not find these");
    assert!(holds(&home.path("buses"), "garden needs water"));
    assert!(
        holds(&home.path("buses"), "See below."),
        "the mail around a table is by another person"
    );
    home.ok(&["verify"]);
}

/// The same holds for what `import` takes in.
#[test]
fn imports_carry_the_authors_of_their_files() {
    let setup = PrivacySetup::new("");
    let home = &setup.home;
    home.ok(&["init"]);
    for (command, ends) in [
        ("text", &[".md", ".txt", ".html", ".tex"][..]),
        ("mail", &["dated.eml", ".mbox", "table.eml", "chat.eml"]),
        (
            "chat-export",
            &["timed.jsonl", "telegram.json", "passed-on.json", "discord.json", "messenger.json"],
        ),
        ("rss-json", &["feed.json"]),
    ] {
        let files = with_authors().into_iter();
        let files = files.filter(|(name, _)| ends.iter().any(|end| name.ends_with(end)));
        let files: Vec<_> =
            files.map(|(name, text)| (name, text, format!("{MARK}-{name}"))).collect();
        for (name, text, mark) in &files {
            setup.write(&format!("{command}/{name}"), &text.replace(&format!("{MARK}##"), mark));
        }
        // An item of a feed without a date is left out.
        home.run(&["import", command, home.path(command).to_str().unwrap()]);
        let in_home = || {
            let there = files.iter().filter(|(_, _, mark)| holds(&home.path("buses"), mark));
            there.map(|(name, ..)| *name).collect::<Vec<_>>()
        };
        assert_eq!(in_home().len(), files.len(), "{command}: {:?}", in_home());
        home.ok(&["forget", "--author", AUTHOR]);
        assert_eq!(in_home(), Vec::<&str>::new(), "{command}");
    }
}

/// A file on the bus `other` has no record of an import: its summary says who wrote it.
#[test]
fn texts_on_the_bus_other_carry_their_authors() {
    let rule = format!("local_only = [\"author:{AUTHOR}\"]\nlocal_provider = \"builtin\"");
    let setup = PrivacySetup::new(&rule);
    let home = &setup.home;
    // Kinds that the bus reads, and whose text is a source of its own.
    let lists = ["dated.csv", "undated.csv"];
    let ends = [".md", ".txt", ".html", ".eml", ".csv", ".json"];
    let elsewhere =
        ["box.mbox", "phone.txt", "projects.json", "feed.json", "table.eml", "chat.eml"];
    let is_one = |name: &str| {
        ends.iter().any(|end| name.ends_with(end))
            && !name.contains('/')
            && !lists.contains(&name)
            && !elsewhere.contains(&name)
    };
    let files: Vec<_> = with_authors().into_iter().filter(|(name, _)| is_one(name)).collect();
    for (number, (name, text)) in files.iter().enumerate() {
        setup.write(&format!("buses/other/{name}"), text);
        setup.ask(&format!("r{number}"), FREE, &[name], json!({}));
    }
    home.ok(&["drain"]);
    setup.far_saw_nothing();
    let summarized = || {
        let items = home.items();
        let of = |name: &str| {
            let id = format!("other:{name}");
            items.iter().any(|item| {
                item["source_ids"].as_array().unwrap().iter().any(|one| {
                    let one = one.as_str().unwrap();
                    one == id || one.starts_with(&format!("{id}#"))
                })
            })
        };
        let names = files.iter().map(|(name, _)| *name).filter(|name| of(name));
        names.collect::<Vec<_>>()
    };
    assert_eq!(summarized().len(), files.len(), "{:?}", summarized());
    let told: Value =
        serde_json::from_str(&home.ok(&["--json", "forget", "--author", AUTHOR])).unwrap();
    assert_eq!(summarized(), Vec::<&str>::new());
    // The files are those of a person, and each is named.
    for (name, _) in &files {
        let left = told["left_in"].as_array().unwrap();
        let is_it = |one: &&Value| one.as_str().unwrap().ends_with(&format!("/other/{name}"));
        assert!(left.iter().any(|one| is_it(&one)), "{name}: {left:?}");
    }
}
