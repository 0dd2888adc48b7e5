//! A person with a folder of forty files, who has never read a manual: `sum`, `add`, `read`,
//! `search`, `digest show`, in a pipe and on a terminal.
#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]
#![allow(clippy::disallowed_methods, reason = "the test writes files as the person would")]

mod path {
    pub mod counts;
    pub mod exports;
    pub mod folder;
    pub mod rows;
}

use std::io::{BufRead as _, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use path::folder;
use serde_json::{Value, json};

struct Person {
    dir: tempfile::TempDir,
    /// The program that reads PDF, in their settings.
    pdf: &'static str,
}

struct Ran {
    exit: i32,
    out: String,
    err: String,
}

impl Person {
    /// A person with the folder `mine`.
    fn new() -> Person {
        let pdf = r#"["sh", "-c", "echo The repair of the washing machine costs 85 EUR."]"#;
        let person = Person { dir: tempfile::tempdir().unwrap(), pdf };
        folder::write(&person.path("mine"));
        person
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_summarizer"));
        command
            .args(args)
            .current_dir(self.dir.path())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("HOME", self.dir.path())
            .env("SUMMARIZER_EXTRACT_PDF", self.pdf)
            .env("SUMMARIZER_TEST_NOW", "2026-03-01T12:00:00Z+")
            .stdin(Stdio::null());
        command
    }

    fn run(&self, exit: i32, args: &[&str]) -> Ran {
        let output = self.command(args).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let ran = Ran {
            exit: output.status.code().unwrap(),
            out: text(&output.stdout),
            err: text(&output.stderr),
        };
        assert_eq!(ran.exit, exit, "{args:?}\n{}\n{}", ran.out, ran.err);
        ran
    }

    fn json(&self, exit: i32, args: &[&str]) -> Vec<Value> {
        let ran = self.run(exit, &[args, &["--json"]].concat());
        ran.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

fn says(text: &str, words: &[&str]) {
    words.iter().for_each(|word| assert!(text.contains(word), "no {word:?} in\n{text}"));
}

/// The arguments for the home that the tests make.
fn home<'a>(args: &[&'a str]) -> Vec<&'a str> {
    [&["--home", "home"], args].concat()
}

/// All names of one member.
fn sources(rows: &[Value]) -> Vec<&str> {
    rows.iter().filter_map(|row| row["source"].as_str()).collect()
}

/// The names of the sources of summaries that `read --json` printed.
fn sources_of(rows: &[Value]) -> Vec<String> {
    let names = rows.iter().filter_map(|row| row["meta"]["source_name"].as_str());
    names.map(str::to_owned).collect()
}

#[test]
fn one_file_gives_its_summary_and_nothing_else() {
    let person = Person::new();
    let ran = person.run(0, &["sum", "mine/office/roof-offer.docx"]);
    says(&ran.out, &["The repair of the roof costs 900 EUR without tax."]);
    assert!(!ran.out.contains('\u{1b}') && !ran.out.contains("roof-offer"), "{}", ran.out);
    assert!(std::fs::read_dir(person.dir.path()).unwrap().count() == 1, "nothing was written");
}

/// An empty folder is no mistake, and both commands say that nothing was found. A named file without words is one.
#[test]
fn a_folder_without_texts_is_said_to_have_none() {
    let person = Person::new();
    std::fs::create_dir_all(person.path("void/inner")).unwrap();
    for args in [
        &["sum", "void"][..],
        &["sum", "void", "--together"],
        &["--home", "home", "add", "--init", "void"],
    ] {
        let ran = person.run(0, args);
        says(&ran.err, &["nothing to summarize was found"]);
    }
    let last = person.json(0, &["sum", "void"]).pop().unwrap();
    assert_eq!((&last["made"], &last["failed"]), (&json!(0), &json!(0)));
    std::fs::write(person.path("photo.png"), b"\x89PNG\r\n\x1a\n\0\0\0\0").unwrap();
    says(&person.run(5, &["sum", "photo.png"]).err, &["photo.png"]);
    says(&person.run(1, &home(&["add", "photo.png"])).err, &["photo.png"]);
}

#[test]
fn each_says_what_sum_does_anyway_and_a_mistyped_home_is_refused() {
    let person = Person::new();
    let plain = person.run(0, &["sum", "mine/notes"]).out;
    assert_eq!(person.run(0, &["sum", "mine/notes", "--each"]).out, plain);
    person.run(2, &["sum", "mine/notes", "--each", "--together"]);
    person.run(0, &["--home", "garden", "init"]);
    let ran = person.run(5, &["--home", "gardem", "sum", "mine/notes"]);
    says(&ran.err, &["gardem is not a summarizer home", "did you mean --home garden?"]);
    assert_eq!(ran.out, "");
    // A shell may name the home before it is made.
    let mut early = person.command(&["sum", "mine/notes"]);
    assert!(early.env("SUMMARIZER_HOME", "later").output().unwrap().status.success());
    assert!(!person.path("later").exists());
}

/// The summaries of mails, chats and feed items have subjects and titles; a person may know only the file.
#[test]
fn the_file_of_a_mail_or_a_chat_names_its_summaries() {
    let person = Person::new();
    person.run(
        0,
        &home(&["add", "--init", "mine/mail", "mine/chats/claude.json", "mine/feeds/town.xml"]),
    );
    for word in ["lease.eml", "mine/mail/lease.eml", "./mine/mail/lease.eml"] {
        says(
            &person.run(0, &home(&["read", word])).out,
            &["Lease renewal", "The lease ends on 31 March."],
        );
    }
    // A message of a chat is known by its time and its speaker.
    let shown = person.json(0, &home(&["read", "claude.json"]));
    let id = shown[0]["summary_id"].as_str().unwrap();
    let explained = person.run(0, &home(&["explain", id])).out;
    let spoken =
        |who: &str| explained.lines().any(|line| line.contains("] 20") && line.contains(who));
    assert!(spoken(" user, evt_") && spoken(" assistant, evt_"), "{explained}");
    says(&person.run(0, &home(&["explain", "lease.eml"])).out, &["Lease renewal", "word for word"]);
    says(&person.run(0, &home(&["show", "claude.json"])).out, &["SQL index", "completed"]);
    assert_eq!(person.json(0, &home(&["trace", "inbox.mbox"])).len(), 2);
    assert_eq!(person.json(0, &home(&["read", "town.xml"])).len(), 2);
    let ran = person.run(5, &home(&["explain", "inbox.mbox"]));
    says(&ran.err, &["inbox.mbox names several sources", "Kitchen quote", "Trip to the lake"]);
    says(&person.run(5, &home(&["read", "ease.eml"])).err, &["no summary is named ease.eml"]);
}

#[test]
fn add_asks_anew_on_request_and_two_names_of_a_source_show_it_once() {
    let person = Person::new();
    person.run(0, &home(&["add", "--init", "mine/notes/garden.md"]));
    let told = person.run(0, &home(&["add", "mine/notes/garden.md", "--again"]));
    says(&told.err, &["1 file, 1 new summary"]);
    says(&told.out, &["The tomatoes need a trellis"]);
    let shown = person.json(0, &home(&["read", "garden.md", "mine/notes/garden.md"]));
    assert_eq!(shown.len(), 1, "{shown:?}");
    let all = person.json(0, &home(&["read", "garden.md", "--all-versions"]));
    assert_eq!(all.len(), 2, "both stay");
}

/// Without the program every PDF is skipped, so the message must say how to get it.
#[test]
fn a_missing_pdf_reader_says_what_to_install() {
    let mut person = Person::new();
    person.pdf = r#"["pdftotext", "-layout", "{}", "-"]"#;
    let nowhere = person.path("mine");
    let command = |args: &[&str]| {
        let output = person.command(args).env("PATH", &nowhere).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let (exit, said) = command(&["sum", "mine/office/invoice.pdf"]);
    assert_eq!(exit, Some(5), "{said}");
    says(
        &said,
        &["invoice.pdf: needs pdftotext: install poppler-utils", "1 .pdf (needs pdftotext)"],
    );
}

#[test]
fn documents_without_a_reader_are_named_and_long_lists_are_cut() {
    let person = Person::new();
    let said = person.run(0, &["sum", "mine"]).err;
    says(
        &said,
        &["skipped: mine/office/deed.rtf: no reader", "mine/office/slides.key: damaged archive"],
    );
    assert!(!said.contains("lake.png"), "pictures are only counted: {said}");
    std::fs::create_dir(person.path("scans")).unwrap();
    for number in 0..30 {
        std::fs::write(person.path(&format!("scans/{number:02}.rtf")), br"{\rtf1 words}").unwrap();
    }
    std::fs::write(person.path("scans/offer.docx"), b"PK\x03\x04 cut").unwrap();
    let said = person.run(5, &["sum", "scans"]).err;
    says(
        &said,
        &[
            "skipped: scans/19.rtf: no reader",
            "and 11 more: see `-v` or `--json`",
            "skipped 31: 30 .rtf",
        ],
    );
    assert!(!said.contains("scans/20.rtf"), "{said}");
    std::fs::write(person.path("scans/a.txt"), "The deed is at the lawyer.").unwrap();
    person.run(1, &["sum", "scans"]);
}

#[test]
fn a_folder_gives_a_summary_of_every_kind_and_names_what_it_skips() {
    let person = Person::new();
    let ran = person.run(0, &["sum", "mine"]);
    says(
        &ran.out,
        &[
            "mine/notes/bike-repair.md",
            "mine/mail/inbox.mbox: Kitchen quote",
            "mine/chats/conversations.json: Mendoza with kids",
            "mine/chats/claude.json: SQL index",
            "mine/feeds/town.xml",
            "mine/books/island.epub",
            "washing machine costs 85 EUR",
        ],
    );
    says(
        &ran.err,
        &[
            "skipped",
            "1 .key (damaged archive)",
            "1 .txt (empty)",
            "1 .png (picture)",
            "1 .rtf (no reader)",
            "1 .docx (temporary file)",
        ],
    );
    let rows = person.json(0, &["sum", "mine"]);
    let (last, rows) = rows.split_last().unwrap();
    assert_eq!(last["made"], rows.len());
    assert_eq!(last["failed"], 0);
    assert_eq!(rows.len() + last["skipped"].as_array().unwrap().len(), 41, "two mails in one file");
    for row in rows {
        let text = row["summary"].as_str().unwrap();
        assert!(text.len() > 20, "{row}");
    }
    let mendoza = rows.iter().find(|row| row["title"] == "Mendoza with kids").unwrap();
    assert!(!mendoza["summary"].to_string().contains("bus everywhere"), "an edited answer");
}

#[test]
fn lengths_evidence_and_standard_input_work() {
    let person = Person::new();
    let length =
        |name: &str| person.run(0, &["sum", "--length", name, "mine/mail/lease.eml"]).out.len();
    assert!(length("short") <= length("medium") && length("medium") <= length("long"));
    let ran = person.run(0, &["sum", "--evidence", "mine/notes/garden.md"]);
    says(&ran.out, &["line ", "“"]);
    let mut child = person.command(&["sum", "-"]);
    let mut child = child.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let bytes = std::fs::read(person.path("mine/office/roof-offer.docx")).unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), &bytes).unwrap();
    let output = child.wait_with_output().unwrap();
    says(&String::from_utf8_lossy(&output.stdout), &["roof costs 900 EUR"]);
    let together = person.run(0, &["sum", "--together", "--evidence", "mine/journal"]).out;
    says(&together, &["mine/journal/", ": “"]);
    assert!(!together.contains("part 1"), "{together}");
    let mail = |day: u32| {
        format!(
            "From: Ana <ana@a.example>\nSubject: The roof\nDate: Mon, 0{day} Feb 2026 10:00:00 +0000\n\n\
             The roof of house {day} costs {day}00 EUR. We decide on Monday.\n"
        )
    };
    std::fs::create_dir(person.path("alike")).unwrap();
    for day in [2, 9] {
        std::fs::write(person.path("alike").join(format!("{day}.eml")), mail(day)).unwrap();
    }
    let together = person.run(0, &["sum", "--together", "--evidence", "alike"]).out;
    says(&together, &["alike/2.eml, line 1: “", "alike/9.eml, line 1: “"]);
    let refused = person.run(5, &["sum", "mine/pictures/lake.png"]);
    says(&refused.err, &["mine/pictures/lake.png", "picture"]);
    person.run(5, &["sum", "mine/nowhere.txt"]);
    says(
        &person.run(2, &["sum", "--flow", "breif", "mine/notes"]).err,
        &["there is no flow breif"],
    );
}

#[test]
fn a_home_is_made_only_when_asked_for() {
    let person = Person::new();
    for args in
        [&["add", "mine"][..], &["drain"], &["submit", "--flow", "x", "--id", "y"], &["read"]]
    {
        let ran = person.run(5, &[&["--home", "typo"], args].concat());
        says(&ran.err, &["typo is not a summarizer home"]);
    }
    person.run(0, &["--home", "garden", "init"]);
    let near = |exit: i32, args: &[&str]| {
        let ran = person.run(exit, &[&["--home", "gardem"], args].concat());
        says(&format!("{}{}", ran.out, ran.err), &["did you mean --home garden?"]);
    };
    for args in [
        &["digest", "show"][..],
        &["trace", "roof.md"],
        &["verify"],
        &["config"],
        &["registry", "list"],
        &["flow", "run", "brief", "--input", "mine/notes/garden.md"],
    ] {
        near(5, args);
    }
    near(0, &["doctor"]);
    assert!(!person.path("gardem").exists());
    assert!(!person.path("typo").exists());
}

#[test]
fn a_folder_added_to_a_home_can_be_read_searched_and_digested() {
    let person = Person::new();
    let dry = person.run(5, &home(&["add", "mine"]));
    says(&dry.err, &["--init"]);
    std::fs::create_dir(person.path("damaged")).unwrap();
    std::fs::write(person.path("damaged/bill.docx"), b"PK\x03\x04 and no archive").unwrap();
    std::fs::write(person.path("damaged/list.json"), "[{\"text\": \"The roof\"").unwrap();
    std::fs::write(person.path("damaged/good.md"), "The roof costs 900 EUR.\n").unwrap();
    let dry = person.run(1, &home(&["add", "damaged", "--dry-run"]));
    says(&dry.out, &["damaged/good.md"]);
    assert!(!dry.out.contains("bill.docx") && !dry.out.contains("list.json"), "{}", dry.out);
    says(&dry.err, &["skipped: damaged/bill.docx", "damaged/list.json", "nothing was changed"]);
    let dry = person.run(0, &home(&["add", "mine", "--dry-run"]));
    says(&dry.out, &["mine/chats/claude.json", "claude export"]);
    assert!(!person.path("home").exists());
    let ran = person.run(0, &home(&["add", "--init", "mine", "--project", "life"]));
    says(&ran.out, &["mine/notes/bike-repair.md", "Kitchen quote", "Mendoza with kids"]);
    says(&ran.err, &["new summaries", "skipped", "next: `summarizer read`"]);
    says(&ran.err, &["1 message edited away"]);

    // The same again: nothing new, and the answers that exist.
    let last = person.json(0, &home(&["add", "mine", "--project", "life"])).pop().unwrap();
    assert_eq!((&last["records_added"], &last["made"]), (&Value::from(0), &Value::from(0)));
    assert_eq!(last["as_before"], last["asked"]);

    let verified = person.run(0, &home(&["explain", "bike-repair.md", "--verify"])).out;
    says(&verified, &["all hold"]);

    // A changed file is summarized again.
    let note = person.path("mine/notes/garden.md");
    std::fs::write(note, "# Garden\n\nThe trellis is built. The tomatoes grow well.\n").unwrap();
    let again = person.json(0, &home(&["add", "mine", "--project", "life"]));
    assert_eq!(sources(&again), ["mine/notes/garden.md"]);

    let read = person.run(0, &home(&["read", "bike-repair.md"]));
    says(&read.out, &["mine/notes/bike-repair.md", "chain", "2026", "life"]);
    let read = person.run(0, &home(&["read", "Mendoza with kids", "--evidence"]));
    says(&read.out, &["“"]);
    says(&person.run(5, &home(&["read", "bike-repare.md"])).err, &["did you mean"]);
    for (exit, args, near) in [
        (2, &["read", "--project", "lief"][..], "life"),
        (2, &["search", "heating", "--project", "lief"], "life"),
        (2, &["read", "--flow", "breif"], "brief"),
        (5, &["explain", "bike-repare.md"], "bike-repair.md"),
        (5, &["show", "bike-repare.md"], "bike-repair.md"),
        (1, &["trace", "bike-repare.md"], "bike-repair.md"),
        (2, &["digest", "preview", "--selector", "overview.dayly"], "overview.daily"),
        (2, &["digest", "build", "--selector", "projekt"], "project.weekly"),
        (2, &["serch", "heating"], "search"),
        (2, &["search", "--sinse", "7d", "heating"], "--since"),
    ] {
        says(&person.run(exit, &home(args)).err, &[near]);
    }
    let beside = person.run(0, &home(&["read", "--day", "2026-02-14"]));
    says(&beside.err, &["2026-02-12, 2026-03-01"]);
    assert_eq!(person.json(0, &home(&["read", "--last", "3"])).len(), 3);

    let hits = person.json(0, &home(&["search", "HEATING"]));
    assert!(sources(&hits).contains(&"mine/notes/heating.org"), "{hits:?}");
    let days: Vec<&str> = hits.iter().map(|hit| hit["day"].as_str().unwrap()).collect();
    assert!(days.is_sorted_by(|a, b| a >= b), "newest first: {days:?}");
    person.run(1, &home(&["search", "xylophone"]));
    // Other files of its folder were added since: what was read still stands at the beginning.
    let explained = person.run(0, &home(&["explain", "bike-repair.md", "--verify"])).out;
    says(
        &explained,
        &["mine/notes/bike-repair.md\n", "2026-02-11 · life", "word for word", "all hold"],
    );
    let is_hash = |word: &str| word.len() >= 64 && word.chars().all(|c| c.is_ascii_hexdigit());
    assert!(!explained.split_whitespace().any(is_hash), "{explained}");
    let proof = person.run(0, &home(&["explain", "bike-repair.md", "--proof"])).out;
    says(&proof, &["sentences", "chunks/"]);
    let at = proof.split_whitespace().position(is_hash).unwrap();
    let before = proof.split_whitespace().position(|word| word == "proof:").unwrap();
    assert!(before < at, "hashes come last: {proof}");
    says(&person.run(0, &home(&["trace", "bike-repair.md"])).out, &["mine/notes/bike-repair.md"]);
    says(&person.run(0, &home(&["show", "bike-repair.md"])).out, &["chain", "RequestAccepted"]);
    says(&person.run(5, &home(&["digest", "show"])).err, &["digest build"]);
    person.run(0, &home(&["digest", "build"]));
    says(&person.run(0, &home(&["digest", "show", "--day", "2026-02-11"])).out, &["2026-02-11"]);
    says(&person.run(0, &home(&["digest", "show", "2026-02-11"])).out, &["2026-02-11"]);
    says(&person.run(0, &home(&["digest", "show", "2026-W07"])).out, &["week 7 of 2026"]);
    says(&person.run(5, &home(&["digest", "show", "2026-W30"])).err, &["2026-W30", "2026-W07"]);
    person.run(2, &home(&["digest", "show", "2026-W07", "--window", "2026-W08"]));
    let typo = person.run(2, &home(&["digest", "show", "overview.dayly"]));
    says(&typo.err, &["did you mean overview.daily?"]);
    let no_window = person.run(5, &home(&["digest", "show", "--day", "2026-02-13"]));
    says(&no_window.err, &["2026-02-11, 2026-02-12, 2026-03-01"]);
    let week =
        person.run(0, &home(&["digest", "show", "overview.weekly", "--day", "2026-02-12"])).out;
    says(&week, &["- I will book the car on Monday", "(2026-02-10, Mendoza with kids;"]);
    let task = person.json(0, &home(&["task", "list"])).remove(0);
    let id = task["task_id"].as_str().unwrap();
    let typo = format!("{}{}", &id[..id.len() - 1], if id.ends_with('0') { '1' } else { '0' });
    let typo = person.run(5, &home(&["task", "done", &typo]));
    says(&typo.err, &[&format!("did you mean {id}?")]);
    person.run(0, &home(&["verify"]));
}

#[test]
fn an_export_tells_of_its_empty_conversations_and_of_its_account() {
    let person = Person::new();
    std::fs::create_dir_all(person.path("export")).unwrap();
    let said = |id: &str, text: &str| {
        let message = serde_json::json!({
            "id": id, "author": {"role": "user"}, "create_time": 1_770_800_000,
            "content": {"content_type": "text", "parts": [text]},
        });
        serde_json::json!({"id": id, "parent": null, "children": [], "message": message})
    };
    let talk = |id: &str, title: &str, node: serde_json::Value| serde_json::json!({"title": title, "conversation_id": id, "current_node": "a", "mapping": {"a": node}});
    let nothing = serde_json::json!({"id": "a", "parent": null, "children": [], "message": null});
    let talks = serde_json::json!([
        talk("c0", "New chat", nothing),
        talk("c1", "Prices", said("a", "The lamp costs 40 EUR, and the desk costs 90 EUR.")),
    ]);
    std::fs::write(person.path("export/conversations.json"), talks.to_string()).unwrap();
    let user = r#"{"id": "user-1", "email": "me@example.org", "chatgpt_plus_user": false}"#;
    std::fs::write(person.path("export/user.json"), user).unwrap();
    let added = person.run(0, &home(&["add", "--init", "export"]));
    says(&added.err, &["a conversation without words", "user.json: part of the export"]);
    says(&added.out, &["The lamp costs 40 EUR"]);
    let summed = person.run(0, &["sum", "export"]);
    says(&summed.err, &["a conversation without words", "user.json: part of the export"]);
}

/// `--project` is for what names no project itself: notes, items of lists, and chats keep their own.
#[test]
fn a_source_keeps_the_project_that_it_names() {
    let person = Person::new();
    std::fs::create_dir(person.path("own")).unwrap();
    let write =
        |name: &str, text: &str| std::fs::write(person.path("own").join(name), text).unwrap();
    write("own.md", "---\nproject: home\n---\nThe bell of the house is broken since Monday.\n");
    write("blank.md", "---\nproject:\n---\nThe gate of the garden needs oil before winter.\n");
    write("none.md", "The ferry to the island leaves at nine on Friday.\n");
    let list = json!([{"title": "Cellar", "project": "home", "text": "The cellar is dry again since March."}]);
    write("list.json", &list.to_string());
    person.run(0, &home(&["add", "--init", "own", "--project", "life"]));
    let of = |project: &str| {
        let read = person.json(0, &home(&["read", "--project", project, "--last", "9"]));
        let mut names: Vec<String> = sources_of(&read);
        names.sort();
        names
    };
    assert_eq!(of("home"), ["own/list.json", "own/own.md"]);
    assert_eq!(of("life"), ["own/blank.md", "own/none.md"]);
}

#[test]
fn reading_knows_the_projects_that_digests_know() {
    let person = Person::new();
    std::fs::create_dir_all(person.path("garden")).unwrap();
    let note = "The tomatoes grow well on the new trellis. Water them on Monday.\n";
    std::fs::write(person.path("garden/beds.md"), note).unwrap();
    person.run(0, &home(&["add", "--init", "garden"]));
    // No flag named a project: it is the folder, by the rules of the selectors.
    let read = person.run(0, &home(&["read", "--project", "Garden"])).out;
    says(&read, &["tomatoes", "· garden ·"]);
    let hits = person.json(0, &home(&["search", "tomatoes", "--project", "garden"]));
    assert_eq!(hits[0]["project"], "garden");
    says(&person.run(0, &home(&["explain", "beds.md"])).out, &["· garden"]);
    // Another rule gives another name, without another summary.
    let rules = r#"{"schema_version": "project_rules.v1", "rules": [{"from": "folder", "project": "outdoors"}]}"#;
    let file = person.path("home/flow_registry/registry.selectors.v1.jsonl");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(&file, format!("{rules}\n")).unwrap();
    says(&person.run(0, &home(&["read", "--project", "outdoors"])).out, &["tomatoes"]);
    says(&person.run(2, &home(&["read", "--project", "garden"])).err, &["outdoors"]);
}

/// Who names a source and a filter means both.
#[test]
fn a_named_source_is_filtered_like_all_others() {
    let person = Person::new();
    person.run(0, &home(&["add", "--init", "mine/mail/lease.eml", "--project", "flat"]));
    person.run(0, &home(&["add", "mine/notes/garden.md", "--project", "garden"]));
    let read =
        |more: &[&str]| person.json(0, &home(&[&["read", "lease.eml"][..], more].concat())).len();
    assert_eq!(read(&[]), 1);
    for (option, fits, other) in [
        ("--project", "flat", "garden"),
        ("--flow", "brief", "task"),
        ("--day", "2026-02-12", "2020-01-01"),
        ("--since", "2020-01-01", "2030-01-01"),
    ] {
        let fitting = read(&[option, fits]);
        assert_eq!((fitting, read(&[option, other])), (1, 0), "{option}");
    }
    let ran = person.run(0, &home(&["read", "lease.eml", "--day", "2020-01-01"]));
    says(&ran.err, &["no summary of lease.eml fits the other options"]);
    let ran = person.run(2, &home(&["read", "lease.eml", "--project", "gardne"]));
    says(&ran.err, &["there is no project gardne"]);
}

/// The same files give the same exit code, however they are told.
#[test]
fn a_damaged_file_fails_in_every_form() {
    let person = person_with(&[
        ("mine/a.md", "The roof costs 900 EUR. We decide on Monday.\n"),
        ("mine/b.docx", "PK\u{3}\u{4} cut off"),
    ]);
    for args in [
        &["sum", "mine"][..],
        &["sum", "mine", "--json"],
        &["--home", "home", "add", "--init", "mine", "--dry-run"],
        &["--home", "home", "add", "--init", "mine", "--dry-run", "--json"],
        &["--home", "home", "add", "--init", "mine"],
        &["--home", "home", "add", "mine", "--json"],
    ] {
        person.run(1, args);
    }
}

/// Deleted files of mails, chats and feeds are named like those of documents.
#[test]
fn deleted_mails_and_chats_of_a_folder_are_named() {
    let person = Person::new();
    person.run(0, &home(&["add", "--init", "mine/mail", "mine/chats"]));
    for gone in ["mine/mail/lease.eml", "mine/chats/claude.json"] {
        std::fs::remove_file(person.path(gone)).unwrap();
    }
    let ran = person.run(0, &home(&["add", "mine/mail", "mine/chats"]));
    says(&ran.err, &["2 files are gone", "mine/mail/lease.eml", "mine/chats/claude.json"]);
    let told = person.json(0, &home(&["add", "mine/mail"]));
    assert_eq!(told.last().unwrap()["gone"], json!(["mine/mail/lease.eml"]));
}

/// The page finds what the terminal finds, by the name of a file too.
#[test]
fn the_search_of_the_page_knows_the_names_of_files() {
    let person = Person::new();
    person.run(0, &home(&["add", "--init", "mine/mail", "mine/chats/claude.json"]));
    let mut command = person.command(&home(&["open", "--print"]));
    command.stderr(Stdio::null());
    opened(
        command,
        |link| {
            let token = link.split_once("#token=").unwrap().1.split('&').next().unwrap();
            let address = link.split_once("http://").unwrap().1.split('/').next().unwrap();
            for (words, name) in [("lease.eml", "Lease renewal"), ("claude", "SQL index")] {
                let mut stream = std::net::TcpStream::connect(address).unwrap();
                let head = format!("Host: {address}\r\nAuthorization: Bearer {token}\r\n");
                let ask = format!(
                    "GET /api/newest?q={words} HTTP/1.1\r\n{head}Connection: close\r\n\r\n"
                );
                stream.write_all(ask.as_bytes()).unwrap();
                let mut answer = String::new();
                stream.read_to_string(&mut answer).unwrap();
                assert!(answer.contains(name), "{words}: {answer}");
            }
        },
        |child| {
            let id = child.id().to_string();
            assert!(Command::new("kill").args(["-INT", &id]).status().unwrap().success());
        },
    );
}

/// The folders that a service takes in are chosen without an editor, and the settings keep their comments.
#[test]
fn a_folder_is_watched_by_a_command() {
    let person = person_with(&[("notes/a.md", "The roof costs 900 EUR. We decide on Monday.\n")]);
    person.run(0, &home(&["init"]));
    let settings = || std::fs::read_to_string(person.path("home/summarizer.toml")).unwrap();
    let before = settings();
    says(&person.run(0, &home(&["watch", "list"])).err, &["no folder is watched"]);
    person.run(0, &home(&["watch", "add", "notes", "--project", "roof", "--flow", "brief"]));
    assert!(settings().starts_with(&before), "{}", settings());
    says(&person.run(0, &home(&["watch", "add", "notes", "--kind", "document"])).err, &["now"]);
    let again = person.run(0, &home(&["watch", "add", "notes", "--kind", "document"]));
    says(&again.err, &["watched already"]);
    let listed = person.json(0, &home(&["watch", "list"]));
    assert_eq!((listed.len(), &listed[0]["project"]), (2, &json!("roof")), "{listed:?}");
    person.run(0, &home(&["drain", "--folders"]));
    assert_eq!(sources_of(&person.json(0, &home(&["read", "--project", "roof"]))).len(), 1);
    for (exit, args, said) in [
        (5, &["watch", "add", "nowhere"][..], "cannot watch nowhere"),
        (5, &["watch", "add", "notes/a.md"], "is no folder"),
        (2, &["watch", "add", "notes", "--kind", "documents"], "did you mean document?"),
        (2, &["watch", "add", "notes", "--flow", "breif"], "did you mean brief?"),
        (2, &["watch", "remove", "other"], "there is no watched folder other"),
    ] {
        says(&person.run(exit, &home(args)).err, &[said]);
    }
    person.run(0, &home(&["watch", "remove", "notes"]));
    assert_eq!(settings().trim_end(), before.trim_end());
}

#[test]
fn typos_get_the_nearest_name() {
    let person = Person::new();
    person.run(0, &["--home", "home", "init"]);
    let brief = "docs.chunk_set.sumarize.brief.v1";
    let ran = person.run(2, &home(&["submit", "--flow", brief, "--id", "a.txt"]));
    says(&ran.err, &["did you mean docs.chunk_set.summarize.brief.v1?"]);
    std::fs::write(person.path("home/buses/other/note.txt"), "words").unwrap();
    let good = "docs.chunk_set.summarize.brief.v1";
    let ran = person.run(2, &home(&["submit", "--flow", good, "--id", "notes.txt"]));
    says(&ran.err, &["did you mean note.txt?"]);
    person.run(0, &home(&["drain"]));
    says(
        &person.run(2, &home(&["requests", "--state", "complete"])).err,
        &["did you mean completed?"],
    );
}

/// A command on a terminal of some columns.
fn terminal(person: &Person, columns: usize, args: &str) -> Command {
    let program = Path::new(env!("CARGO_BIN_EXE_summarizer")).display().to_string();
    let line = format!("stty cols {columns} rows 50; exec {program} {args}");
    let mut command = Command::new("script");
    command.args(["-qec", &line, "/dev/null"]).current_dir(person.dir.path());
    for (name, value) in person.command(&[]).get_envs() {
        command.env(name, value.unwrap_or_default());
    }
    command.env("TERM", "xterm").env("PAGER", "cat");
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    command
}

/// Runs a command on a terminal of some columns, which `script` of util-linux gives, and types Ctrl-C
/// at some times. `None` where there is no `script`.
fn on_terminal(
    person: &Person,
    columns: usize,
    args: &str,
    interrupts: &[Duration],
) -> Option<(i32, String)> {
    interrupted(terminal(person, columns, args), interrupts)
}

/// Types Ctrl-C at some times into a command that runs on a terminal.
fn interrupted(mut command: Command, interrupts: &[Duration]) -> Option<(i32, String)> {
    let mut child = command.spawn().ok()?;
    let mut keys = child.stdin.take().unwrap();
    for pause in interrupts {
        std::thread::sleep(*pause);
        std::io::Write::write_all(&mut keys, b"\x03").unwrap();
    }
    let output = child.wait_with_output().unwrap();
    drop(keys);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    Some((output.status.code().unwrap(), text))
}

/// Runs `open` until its link is there, hands the link over, and ends it as a person does. The text that
/// was printed.
fn opened(
    mut command: Command,
    with: impl Fn(&str),
    end: impl Fn(&mut std::process::Child),
) -> String {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut out = std::io::BufReader::new(child.stdout.take().unwrap());
    let mut text = String::new();
    while !text.contains("#token=") {
        assert!(out.read_line(&mut text).unwrap() > 0, "no link in {text}");
    }
    with(text.lines().find(|line| line.contains("#token=")).unwrap().trim());
    end(&mut child);
    out.read_to_string(&mut text).unwrap();
    assert!(child.wait().unwrap().success(), "{text}");
    text
}

/// The page behind a link answers.
fn page_answers(link: &str) {
    let address = link.split_once("http://").unwrap().1.split('/').next().unwrap();
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    write!(stream, "GET / HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    says(&answer, &["200 OK", "<title>summarizer"]);
}

/// What the tutorial shows of the folder of forty files.
const PLAYED: &[&str] = &[
    "sum mine",
    "--home home add --init mine --project life",
    "--home home search heating",
    "--home home digest build",
    "--home home digest show project.weekly --day 2026-02-12",
];
const OPEN: &str = "--home home open bike-repair.md --print";

/// The person of the transcript. Where `pdftotext` is installed, it reads the PDF.
fn transcript_person() -> Person {
    let mut person = Person::new();
    if Command::new("pdftotext").arg("-v").output().is_ok() {
        person.pdf = r#"["pdftotext", "-layout", "{}", "-"]"#;
    }
    person
}

/// A transcript without what differs in each run.
fn told_alike(person: &Person, text: &str) -> String {
    let text = text.replace(&person.dir.path().display().to_string(), "~");
    let mut out = String::new();
    for line in text.lines() {
        let line = match (line.split_once("http://127.0.0.1:"), line.split_once("&view=")) {
            (Some((before, _)), Some((_, view))) => {
                let view = view.split_once("sum_").map_or(view, |(view, _)| view);
                format!("{before}http://127.0.0.1:PORT/#token=TOKEN&view={view}…")
            }
            _ => line.to_owned(),
        };
        let is_id = |word: &str| word.starts_with("digests/") && word.contains("/bag_");
        let shorter = |word: &str| match word.split_once("/bag_") {
            Some((before, _)) if is_id(word) => format!("{before}/bag_…"),
            _ => word.to_owned(),
        };
        let words: Vec<String> = line.split(' ').map(shorter).collect();
        out.push_str(words.join(" ").trim_end());
        out.push('\n');
    }
    out
}

/// Forty mixed files, played in a pipe and on a terminal. The tutorial shows what the pipe printed.
#[test]
fn the_tutorial_shows_what_forty_files_give() {
    let person = transcript_person();
    let mut transcript = String::new();
    let mut printed = Vec::new();
    for line in PLAYED {
        let args: Vec<&str> = line.split(' ').collect();
        let ran = person.run(0, &args);
        transcript.push_str(&format!("$ summarizer {line}\n{}{}\n", ran.out, ran.err));
        printed.push(ran.out);
    }
    let args: Vec<&str> = OPEN.split(' ').collect();
    let out = opened(person.command(&args), page_answers, |child| {
        let id = child.id().to_string();
        assert!(Command::new("kill").args(["-INT", &id]).status().unwrap().success());
    });
    transcript.push_str(&format!("$ summarizer {OPEN}\n{out}"));
    let transcript = told_alike(&person, &transcript);

    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/tutorial.md");
    let text = std::fs::read_to_string(&page).unwrap();
    let (before, rest) = text.split_once("```text\n$ summarizer").unwrap();
    let (on_page, after) = rest.split_once("```").unwrap();
    let on_page = format!("$ summarizer{on_page}");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&page, format!("{before}```text\n{transcript}```{after}")).unwrap();
    } else {
        assert_eq!(on_page, transcript, "UPDATE_GOLDEN=1 writes it again");
    }

    // On a terminal the same words stand in the same order, wrapped to its width.
    let person = transcript_person();
    for (line, printed) in PLAYED.iter().zip(&printed) {
        let Some((exit, text)) = on_terminal(&person, 80, line, &[]) else { return };
        assert_eq!(exit, 0, "{line}: {text}");
        let seen = told_alike(&person, &shown(&text).join("\n"));
        let mut left = seen.split_whitespace();
        for word in told_alike(&person, printed).split_whitespace() {
            assert!(left.any(|one| one == word), "{line}: no {word} in its place in\n{text}");
        }
    }
    let mut command = terminal(&person, 80, OPEN);
    command.stderr(Stdio::null());
    let text = opened(command, page_answers, |child| {
        child.stdin.as_mut().unwrap().write_all(b"\x03").unwrap();
    });
    says(&text, &["view=/summary/"]);
}

/// What a terminal shows in the end: no codes of colours, and no line that was drawn over.
fn shown(text: &str) -> Vec<String> {
    let (mut plain, mut escaped) = (String::new(), false);
    for c in text.replace("\r\n", "\n").chars() {
        match c {
            '\u{1b}' => escaped = true,
            _ if escaped => escaped = !c.is_ascii_alphabetic(),
            c => plain.push(c),
        }
    }
    plain.lines().map(|line| line.rsplit('\r').next().unwrap().to_owned()).collect()
}

#[test]
fn on_a_terminal_no_line_is_wider_than_it() {
    let person = Person::new();
    let Some((exit, text)) = on_terminal(&person, 60, "sum -q mine/notes mine/mail", &[]) else {
        return;
    };
    says(&text, &["\u{1b}[1mmine/notes/bike-repair.md"]);
    assert!(exit == 0 && shown(&text).iter().any(|line| line.chars().count() > 50), "{text}");
    let mut wide = Vec::new();
    for args in [
        "sum mine",
        "--home home add --init mine --project life",
        "--home home add mine --project life",
        "--home home read --last 4",
        "--home home read 'Mendoza with kids' --evidence",
        "--home home search heating",
        "--home home explain bike-repair.md",
        "--home home digest build",
        "--home home digest show",
        "--home home digest show overview.weekly --day 2026-02-12",
        "--home home digest show --day 2026-02-13",
        "--home home digest preview",
        "--home home task list",
        "--home home status",
        "--home home requests",
        "--home home doctor",
        "--home home read --day 2026-13-44",
        "serch heating",
        "--help",
        "flow batch export --help",
        "digest show --help",
        "requests --help",
    ] {
        for columns in [80, 40] {
            let (_, text) = on_terminal(&person, columns, args, &[]).unwrap();
            // An id is longer than a narrow terminal, and a person copies it whole.
            let ids = |line: &str| columns == 40 && line.split(' ').any(|word| word.len() > 30);
            let tables = columns == 40 && text.contains('\u{2026}');
            let mut lines = shown(&text);
            lines.retain(|line| line.chars().count() > columns && !ids(line) && !tables);
            wide.extend(lines.into_iter().map(|line| format!("{columns}: {args}: {line}")));
        }
    }
    assert!(wide.is_empty(), "{}", wide.join("\n"));
}

/// A narrow terminal leaves out what says least, and says so; a task is never cut.
#[test]
fn a_narrow_table_keeps_the_source_and_the_whole_task() {
    let task =
        "Send the signed copy of the lease to the office of the housing society before noon.";
    let text = format!("Minutes of Monday.\n\nTODO:\n- [ ] {task}\n");
    let person = person_with(&[("mine/minutes.md", &text)]);
    person.run(0, &home(&["add", "--init", "mine", "--flow", "task"]));
    person.run(0, &home(&["digest", "build"]));
    let source = "minutes.md";
    let Some((exit, text)) =
        on_terminal(&person, 50, &format!("--home home trace '{source}'"), &[])
    else {
        return;
    };
    let seen = shown(&text);
    says(&seen.join("\n"), &["SUMMARY", "SOURCE", "mine/minutes.md", "no room for", "sum_"]);
    assert!(exit == 0 && seen.iter().all(|line| line.chars().count() <= 50), "{text}");
    let (exit, text) = on_terminal(&person, 50, "--home home task list", &[]).unwrap();
    let seen = shown(&text);
    assert!(exit == 0 && seen.iter().all(|line| line.chars().count() <= 50), "{text}");
    let mut words = seen.iter().flat_map(|line| line.split_whitespace());
    for word in task.split_whitespace() {
        assert!(words.any(|one| one == word), "no {word} in its place in\n{text}");
    }
    let (exit, text) = on_terminal(&person, 50, "--home home digest list", &[]).unwrap();
    let seen = shown(&text).join("\n");
    says(&seen, &["tasks.open", "bag_"]);
    let bag = seen.split_whitespace().find(|word| word.starts_with("bag_")).unwrap();
    assert!(exit == 0 && bag.len() == "bag_12345678".len(), "{seen}");
    says(&person.run(0, &home(&["digest", "diff", bag, bag])).out, &["the same bag"]);
}

/// Ctrl-C is a key of the pager: the command stays behind it, and ends as it ends.
#[test]
fn an_interrupt_in_the_pager_is_for_the_pager() {
    use std::os::unix::fs::PermissionsExt as _;
    let person = person_with(&[("mine/roof.md", "The roof costs 900 EUR. We decide on Monday.\n")]);
    person.run(0, &home(&["add", "--init", "mine"]));
    let pager = person.path("pager");
    let script = "#!/bin/sh\ntrap 'echo it goes on' INT\ncat\nsleep 3\necho the pager ends\n";
    std::fs::write(&pager, script).unwrap();
    std::fs::set_permissions(&pager, std::fs::Permissions::from_mode(0o755)).unwrap();
    let paged = |pager: &str| {
        let program = env!("CARGO_BIN_EXE_summarizer");
        let line = format!("stty cols 60 rows 3; exec {program} --home home read");
        let mut command = Command::new("script");
        command.args(["-qec", &line, "/dev/null"]).current_dir(person.dir.path());
        for (name, value) in person.command(&[]).get_envs() {
            command.env(name, value.unwrap_or_default());
        }
        command.env("TERM", "xterm").env("PAGER", pager);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        interrupted(command, &[Duration::from_millis(1_500)])
    };
    let Some((exit, text)) = paged(pager.to_str().unwrap()) else { return };
    assert_eq!(exit, 0, "{text}");
    says(&text, &["900 EUR", "it goes on", "the pager ends"]);
    let (exit, text) = paged("sleep 20").unwrap();
    assert_eq!(exit, 130, "a pager that an interrupt ends was interrupted: {text}");
}

/// The first Ctrl-C lets what is under way end, and says what is done and what comes next.
#[test]
fn an_interrupt_says_what_is_done_and_what_to_run_next() {
    let mut person = Person::new();
    person.pdf = r#"["sh", "-c", "trap '' INT; sleep 1; echo The repair costs 85 EUR."]"#;
    for name in 1..=8 {
        let bytes = format!("%PDF-1.4\n{name}\n");
        std::fs::create_dir_all(person.path("bills")).unwrap();
        std::fs::write(person.path("bills").join(format!("{name}.pdf")), bytes).unwrap();
    }
    let (soon, again) = (Duration::from_millis(2_500), Duration::from_millis(200));
    let Some((exit, text)) = on_terminal(&person, 80, "sum bills", &[soon]) else { return };
    let text = shown(&text).join("\n");
    assert_eq!(exit, 130, "{text}");
    says(
        &text,
        &["stopping: what is under way ends first", "stopped: ", " left", "summarizer add"],
    );
    let (exit, text) = on_terminal(&person, 80, "sum bills", &[soon, again]).unwrap();
    assert!(exit == 130 && !text.contains("stopped: "), "{text}");

    let add = "--home home add --init bills";
    let (exit, text) = on_terminal(&person, 80, add, &[soon]).unwrap();
    assert_eq!(exit, 130, "{text}");
    says(&text, &["stopped:", "not all files were read", "run the same command again"]);
    person.run(0, &home(&["add", "bills"]));
    assert_eq!(
        person.json(0, &home(&["read", "--last", "20"])).len(),
        8,
        "every item is there once"
    );

    std::fs::write(person.path("home/buses/other/note.txt"), "The roof costs 9 EUR.").unwrap();
    let wait = "--home home submit --flow brief --id note.txt --wait";
    let (exit, text) = on_terminal(&person, 80, wait, &[soon]).unwrap();
    assert_eq!(exit, 130, "{text}");
    says(&text, &["stopped:", "1 request not ended yet", "summarizer drain"]);
}

/// The first Ctrl-C begins no further call to a model, also with many requests ready, and the command ends with the calls
/// under way.
#[test]
fn after_an_interrupt_no_call_begins() {
    let person = Person::new();
    person.run(0, &home(&["init"]));
    let calls = person.path("calls");
    let said = "The roof costs 900 EUR. We decide on Monday.";
    let answer = json!({
        "summary_text": said, "one_line": said, "rendered_short": said, "rendered_medium": said,
        "rendered_long": said, "key_points": [], "uncertainties": [], "decisions": [], "marked_tasks": [],
        "research_question": null, "data": null, "method": null, "main_contribution": null,
        "limitations": null, "relevance_to_thesis": null,
        "suggested_tags": {"method_tags": [], "data_tags": []}, "confidence": 0.5, "warnings": [],
    });
    let script = format!("cat >/dev/null; echo >> {}; sleep 1; echo '{answer}'", calls.display());
    let settings = std::fs::read_to_string(person.path("home/summarizer.toml")).unwrap();
    let settings = format!(
        "{settings}\n[provider]\ndefault = \"script\"\n[provider.script]\nkind = \"command\"\n\
         command = [\"sh\", \"-c\", {}]\n",
        json!(script)
    );
    std::fs::write(person.path("home/summarizer.toml"), settings).unwrap();
    std::fs::create_dir(person.path("many")).unwrap();
    for name in 0..40 {
        let text = format!("The roof of house {name} costs 900 EUR. We decide on Monday.\n");
        std::fs::write(person.path("many").join(format!("{name}.md")), text).unwrap();
    }
    let begun = || std::fs::read(&calls).map_or(0, |lines| lines.len());
    for args in [&["add", "many"][..], &["drain"]] {
        let before = begun();
        let mut child = person
            .command(&home(args))
            // Both commands need one clock: what the first left waits for its time.
            .env_remove("SUMMARIZER_TEST_NOW")
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        while begun() == before {
            assert!(child.try_wait().unwrap().is_none(), "{args:?}: it ended without a call");
            std::thread::sleep(Duration::from_millis(20));
        }
        std::thread::sleep(Duration::from_millis(400));
        let at_interrupt = begun();
        assert!(at_interrupt < 32, "enough is left to do");
        let id = child.id().to_string();
        assert!(Command::new("kill").args(["-INT", &id]).status().unwrap().success());
        let since = std::time::Instant::now();
        let output = child.wait_with_output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(130), "{args:?}: {told}");
        assert_eq!(begun(), at_interrupt, "{args:?}: calls began after the interrupt");
        assert!(since.elapsed() < Duration::from_secs(15), "{args:?}: {:?}", since.elapsed());
        says(&told, &["call", "under way", "made; ", "requests stay open", "summarizer drain"]);
    }
    let status = person.json(0, &home(&["status"])).pop().unwrap();
    let left = 40 - begun();
    assert_eq!(
        (&status["requests"]["running"], &status["requests"]["ready"]),
        (&json!(0), &json!(left))
    );
    // On a terminal the bar of progress does not hold up the end.
    let since = std::time::Instant::now();
    let mut drain = terminal(&person, 80, "--home home drain");
    drain.env_remove("SUMMARIZER_TEST_NOW");
    if let Some((exit, text)) = interrupted(drain, &[Duration::from_millis(1_500)]) {
        assert!(since.elapsed() < Duration::from_secs(20), "{:?}", since.elapsed());
        assert!(exit == 130 || begun() == 40, "{text}");
    }
    // Nothing was lost, and what was answered is not asked again.
    let drained = person.command(&home(&["drain"])).env_remove("SUMMARIZER_TEST_NOW").output();
    assert!(drained.unwrap().status.success());
    assert_eq!(begun(), 40);
    assert_eq!(person.json(0, &home(&["read", "--last", "50"])).len(), 40);
}

/// After an interrupt a command says that summaries were made only where some were.
#[test]
fn an_interrupt_claims_no_summary_where_all_requests_failed() {
    let person = Person::new();
    person.run(0, &home(&["init"]));
    let calls = person.path("calls");
    let script = format!("cat >/dev/null; echo >> {}; sleep 1; echo nonsense", calls.display());
    let settings = std::fs::read_to_string(person.path("home/summarizer.toml")).unwrap();
    let settings = format!(
        "{settings}\n[provider]\ndefault = \"script\"\n[provider.script]\nkind = \"command\"\n\
         command = [\"sh\", \"-c\", {}]\n[retry]\nmax_attempts = 1\n",
        json!(script)
    );
    std::fs::write(person.path("home/summarizer.toml"), settings).unwrap();
    std::fs::create_dir(person.path("many")).unwrap();
    for name in 0..40 {
        let text = format!("The roof of house {name} costs 900 EUR. We decide on Monday.\n");
        std::fs::write(person.path("many").join(format!("{name}.md")), text).unwrap();
    }
    let begun = || std::fs::read(&calls).map_or(0, |lines| lines.len());
    let mut command = person.command(&home(&["add", "many"]));
    command.env_remove("SUMMARIZER_TEST_NOW").stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    while begun() == 0 {
        assert!(
            child.try_wait().unwrap().is_none(),
            "it ended without a call: {:?}",
            child.wait_with_output()
        );
        std::thread::sleep(Duration::from_millis(20));
    }
    let id = child.id().to_string();
    assert!(Command::new("kill").args(["-INT", &id]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(130), "{told}");
    says(&told, &["no summary was made", "stay open", "summarizer drain"]);
    assert!(!told.contains("published"), "{told}");
}

/// Where no service runs, a request whose answer is there ends at once, and every reply names the answer.
#[test]
fn an_answer_that_exists_is_named_at_once() {
    let person = Person::new();
    person.run(0, &home(&["init"]));
    std::fs::create_dir_all(person.path("home/buses/other")).unwrap();
    std::fs::write(person.path("home/buses/other/roof.txt"), "The roof costs 900 EUR.\n").unwrap();
    let submit = home(&["submit", "--flow", "brief", "--id", "roof.txt"]);
    person.run(0, &submit);
    person.run(0, &home(&["drain"]));
    let id = person.json(0, &home(&["read"]))[0]["summary_id"].as_str().unwrap().to_owned();
    // It waits for ever when it does not find the answer.
    let waited = person.run(0, &[&submit[..], &["--wait", "--timeout", "20 s"]].concat());
    says(&waited.out, &["duplicate", "The roof costs 900 EUR."]);
    let acks = person.json(0, &[&submit[..], &["--wait", "--timeout", "20 s"]].concat());
    assert_eq!(
        (&acks[0]["status"], &acks[0]["summary"]["summary_id"]),
        (&json!("duplicate"), &json!(id))
    );
    says(&person.run(0, &submit).err, &["as before: ", "roof.txt", &id]);
    says(&person.run(0, &home(&["drain"])).err, &["as before: ", "roof.txt", &id]);
    // Another text has no answer yet.
    std::fs::write(person.path("home/buses/other/roof.txt"), "The roof costs 950 EUR.\n").unwrap();
    let left = person.run(1, &[&submit[..], &["--wait", "--timeout", "1 s"]].concat());
    says(&left.err, &["has not ended", "no service runs here"]);
}

/// After a change of the model and back, the reply names the answer it means and says what readers show.
#[test]
fn going_back_to_a_model_says_which_answer_is_meant() {
    let person = Person::new();
    std::fs::write(person.path("roof.md"), "The roof costs 900 EUR. We decide on Monday.\n")
        .unwrap();
    let add = home(&["add", "--init", "roof.md"]);
    person.run(0, &add);
    let newest = || {
        let read = person.json(0, &home(&["read", "roof.md"]));
        read[0]["summary_id"].as_str().unwrap().to_owned()
    };
    let first = newest();
    says(&person.run(0, &add).err, &["as before: roof.md", &first]);
    let settings = std::fs::read_to_string(person.path("home/summarizer.toml")).unwrap();
    let said = "The roof is dear.";
    let answer = json!({
        "summary_text": said, "one_line": said, "rendered_short": said, "rendered_medium": said,
        "rendered_long": said, "key_points": [], "uncertainties": [], "decisions": [], "marked_tasks": [],
        "research_question": null, "data": null, "method": null, "main_contribution": null,
        "limitations": null, "relevance_to_thesis": null,
        "suggested_tags": {"method_tags": [], "data_tags": []}, "confidence": 0.5, "warnings": [],
    });
    let script = json!(format!("cat >/dev/null; echo '{answer}'"));
    let other = format!(
        "{settings}\n[provider]\ndefault = \"script\"\n[provider.script]\nkind = \"command\"\n\
         command = [\"sh\", \"-c\", {script}]\n"
    );
    std::fs::write(person.path("home/summarizer.toml"), other).unwrap();
    person.run(0, &add);
    let second = newest();
    assert_ne!(first, second, "another model is new work");
    std::fs::write(person.path("home/summarizer.toml"), settings).unwrap();
    let back = person.run(0, &add).err;
    says(&back, &["as before: roof.md", &first, "a newer one", &second, "--again"]);
    person.run(0, &[&add[..], &["--again"]].concat());
    let third = newest();
    assert!(third != first && third != second, "it was asked anew");
    says(&person.run(0, &home(&["read", "roof.md"])).out, &["The roof costs 900 EUR."]);
}

/// A person may know the file of mails and feed items, also where one of them has no title and so the name of the file.
/// What has no date is found by its subject too.
#[test]
fn a_file_with_items_names_all_of_them() {
    let person = Person::new();
    let mail = |number: u32, subject: &str, text: &str| {
        format!(
            "From ana@example.org Mon Feb  2 10:00:00 2026\nFrom: Ana <ana@example.org>\n{subject}\
             Date: Mon, {number} Feb 2026 10:00:00 +0000\nMessage-ID: <{number}@example.org>\n\n{text}\n\n"
        )
    };
    let mails = [
        mail(2, "Subject: Roof\n", "The roofer comes on Friday at nine."),
        mail(3, "", "The gate of the garden needs oil before winter."),
        mail(4, "Subject: Ferry\n", "The ferry to the island leaves at noon."),
    ];
    std::fs::create_dir(person.path("in")).unwrap();
    std::fs::write(person.path("in/all.mbox"), mails.concat()).unwrap();
    let undated = "From: Ana <ana@example.org>\nSubject: Boiler check\nMessage-ID: <9@example.org>\n\n\
                   The boiler is checked on Friday at nine.\n";
    std::fs::write(person.path("in/later.eml"), undated).unwrap();
    let feed = "<rss version=\"2.0\"><channel><title>Town</title>\
        <item><title>Pool closes</title><guid>1</guid><description>The pool closes on Monday.</description></item>\
        <item><title>Bus</title><guid>2</guid><pubDate>Mon, 02 Feb 2026 10:00:00 GMT</pubDate>\
        <description>Bus 4 stops at the mill.</description></item></channel></rss>";
    std::fs::write(person.path("in/town.xml"), feed).unwrap();
    std::fs::write(
        person.path("in/bike.md"),
        "---\ntitle: The bike\n---\nThe shop has a chain for 32 EUR.\n",
    )
    .unwrap();
    person.run(0, &home(&["add", "--init", "in"]));
    for (word, wanted) in [
        ("all.mbox", &["roofer", "gate", "ferry"][..]),
        ("town.xml", &["pool", "mill"]),
        ("Boiler check", &["boiler"]),
        ("Pool closes", &["pool"]),
        ("the bike", &["32 EUR"]),
    ] {
        let read = person.run(0, &home(&["read", word])).out;
        says(&read, wanted);
        let traced = person.json(0, &home(&["trace", word]));
        assert_eq!(traced.len(), if wanted.len() > 1 { wanted.len() } else { 1 }, "{word}");
        match wanted.len() {
            1 => says(&person.run(0, &home(&["explain", word])).out, wanted),
            _ => says(&person.run(5, &home(&["explain", word])).err, &["several sources"]),
        }
    }
}

/// What a folder has beside texts is named while it is little, and counted when it is much.
/// The longest name that a file may have leaves no room for an ending.
#[test]
fn files_and_folders_with_long_names_are_taken_in() {
    let (file, folder) = (format!("mine/{}.md", "x".repeat(252)), "y".repeat(255));
    let deep = format!("{folder}/roof.md");
    let person = person_with(&[
        (&file, "The fence is painted green on Friday.\n"),
        (&deep, "The roof costs 900 EUR.\n"),
    ]);
    let added = person.json(0, &home(&["add", "--init", "mine", &folder])).pop().unwrap();
    assert_eq!((&added["made"], &added["files"]), (&json!(2), &json!(2)), "{added}");
    let again = person.json(0, &home(&["add", "mine", &folder])).pop().unwrap();
    assert_eq!((&again["as_before"], &again["records_added"]), (&json!(2), &json!(0)), "{again}");
    says(&person.run(0, &home(&["read", &file])).out, &["The fence is painted green"]);
}

#[test]
fn skipped_files_are_named_while_they_are_few() {
    let person = Person::new();
    std::fs::create_dir(person.path("mixed")).unwrap();
    let at = |name: &str| person.path("mixed").join(name);
    std::fs::write(at("bike.md"), "The shop has a chain for 32 EUR.\n").unwrap();
    std::fs::write(at("photo.png"), b"\x89PNG\r\n\x1a\n\0\0\0\0").unwrap();
    std::fs::write(at("tool.txt"), b"\0\x01\x02\x03").unwrap();
    std::fs::write(at("empty.md"), "").unwrap();
    std::os::unix::fs::symlink("bike.md", at("link.md")).unwrap();
    let words = ["photo.png", "tool.txt", "empty.md", "link.md: a link", "skipped 4: "];
    for args in [&["sum", "mixed"][..], &["--home", "home", "add", "--init", "mixed"]] {
        says(&person.run(0, args).err, &words);
    }
    for name in 0..9 {
        std::fs::write(at(&format!("{name}.png")), b"\x89PNG\r\n\x1a\n\0\0\0\0").unwrap();
    }
    let many = person.run(0, &["sum", "mixed"]).err;
    says(&many, &["skipped 13: 10 .png"]);
    assert!(!many.contains("photo.png"), "{many}");
}

#[test]
fn a_task_that_is_done_stays_done_when_other_words_of_its_note_change() {
    let person = Person::new();
    let write = |last: &str| {
        let note = format!(
            "# Roof\n\nThe roof leaks since Monday.\n\n- [ ] Call the plumber before 20 March.\n\n{last}\n"
        );
        std::fs::write(person.path("roof.md"), note).unwrap();
    };
    write("The attic is dry.");
    person.run(0, &home(&["add", "--init", "roof.md"]));
    let tasks = person.json(0, &home(&["task", "list"]));
    let id = tasks[0]["task_id"].as_str().unwrap();
    person.run(0, &home(&["task", "done", id]));
    write("The attic is damp now, too.");
    person.run(0, &home(&["add", "roof.md"]));
    let open = person.json(0, &home(&["task", "list"]));
    assert!(open.is_empty(), "{open:?}");
}

/// A program that asks for JSON gets it also for a wrong command line, and a person gets the nearest name.
#[test]
fn a_mistake_on_the_command_line_is_told_as_it_was_asked() {
    let person = Person::new();
    for args in [
        &["--json", "read", "--bogus"][..],
        &["serch", "--json"],
        &["submit", "--json", "--wait=x"],
    ] {
        let told = person.run(2, args).err;
        let told: Value = serde_json::from_str(&told).unwrap();
        assert_eq!(told["exit"], 2, "{told}");
        assert!(!told["error"].as_str().unwrap().contains("error:"), "{told}");
    }
    let told = person.run(2, &["serch", "--json"]).err;
    says(&told, &["serch", "search"]);
    let text = "From: Ana <ana@example.org>\nSubject: Gate\nDate: Mon, 2 Feb 2026 10:00:00 +0000\n\
                Message-ID: <1@example.org>\n\nPlease oil the gate before Friday.\n";
    std::fs::write(person.path("gate.eml"), text).unwrap();
    person.run(0, &home(&["add", "--init", "gate.eml", "--flow", "task"]));
    person.run(0, &home(&["digest", "build"]));
    let tasks = person.json(0, &home(&["task", "list"]));
    let id = tasks[0]["task_id"].as_str().unwrap();
    let typed = format!("taks_{}", &id[5..8]);
    says(&person.run(5, &home(&["task", "done", &typed])).err, &["did you mean", id]);
    says(&person.run(2, &home(&["digest", "show", "overviw"])).err, &["did you mean overview."]);
    let none = person.run(1, &home(&["search", "gate", "--since", "2026-02-20"])).err;
    says(&none, &["since 2026-02-20 holds gate"]);
}

/// Everything that was imported is asked for once, whatever kind it is, and nothing twice.
#[test]
fn imported_texts_are_asked_for_once() {
    let person = Person::new();
    let at = |args: &[&'static str]| home(args);
    person.run(0, &at(&["init"]));
    let mail = "From: Ana <ana@example.org>\r\nTo: me@example.org\r\nSubject: Roof\r\n\
                Date: Mon, 2 Feb 2026 10:00:00 +0000\r\nMessage-ID: <1@example.org>\r\n\r\n\
                The roofer comes on Friday at nine. Please leave the gate open.\r\n";
    std::fs::write(person.path("one.eml"), mail).unwrap();
    std::fs::create_dir(person.path("notes")).unwrap();
    for name in ["roof.md", "bike.md"] {
        let text = format!("# {name}\n\nThe offer costs 900 EUR. We decide on Monday.\n");
        std::fs::write(person.path("notes").join(name), text).unwrap();
    }
    person.run(0, &at(&["import", "text", "notes"]));
    let imported = person.run(0, &at(&["import", "mail", "one.eml"]));
    says(&imported.err, &["submit --all-new"]);
    let counted = |ran: &Ran| ran.out.lines().filter(|line| !line.is_empty()).count();
    let mails = person.run(0, &at(&["submit", "--all-new", "--bus", "event_bus"]));
    assert_eq!(counted(&mails), 1, "{}", mails.out);
    let rest = person.run(0, &at(&["submit", "--all-new"]));
    assert_eq!(counted(&rest), 2, "{}", rest.out);
    let none = person.run(0, &at(&["submit", "--all-new"]));
    assert_eq!(counted(&none), 0, "{}", none.out);
    says(&none.err, &["nothing is new"]);
    let drained = person.run(0, &at(&["drain", "--fail-on-error"]));
    says(&drained.out, &["3 completed"]);
    let typo = person.run(2, &at(&["submit", "--all-new", "--bus", "evnt_bus"]));
    says(&typo.err, &["did you mean event_bus?"]);
    // A document that comes later is new.
    std::fs::write(person.path("notes/late.md"), "The keys are with Paul since Friday.\n").unwrap();
    person.run(0, &at(&["import", "text", "notes"]));
    assert_eq!(counted(&person.run(0, &at(&["submit", "--all-new"]))), 1);
}

#[test]
fn a_mistyped_home_or_request_gets_the_nearest_one() {
    let person = Person::new();
    std::fs::write(person.path("roof.md"), "The offer costs 900 EUR. We decide on Monday.\n")
        .unwrap();
    person.run(0, &["--home", "my-texts", "add", "--init", "roof.md"]);
    for command in
        [&["status"][..], &["read"], &["drain"], &["open", "--print"], &["add", "roof.md"]]
    {
        let args = [&["--home", "my-text"][..], command].concat();
        says(&person.run(5, &args).err, &["my-text is not a summarizer home", "--home my-texts?"]);
    }
    let at = |args: &[&'static str]| [&["--home", "my-texts"][..], args].concat();
    let short = ["submit", "--flow", "brief", "--id", "roof.txt", "--request-id", "the-roof"];
    std::fs::create_dir_all(person.path("my-texts/buses/other")).unwrap();
    std::fs::write(person.path("my-texts/buses/other/roof.txt"), "The offer is 900 EUR.").unwrap();
    says(&person.run(0, &at(&short)).out, &["the-roof"]);
    person.run(0, &at(&["drain"]));
    for command in ["show", "retry", "cancel"] {
        says(&person.run(5, &at(&[command, "the-rof"])).err, &["did you mean the-roof?"]);
    }
}

/// The script of bash offers names of the home that is typed on the line.
#[test]
fn the_shell_completes_flows_and_ids() {
    let person = Person::new();
    std::fs::write(person.path("roof offer.md"), "The offer costs 900 EUR.\n").unwrap();
    person.run(0, &["--home", "my-texts", "add", "--init", "roof offer.md"]);
    let script = person.run(0, &["completions", "bash"]).out;
    std::fs::write(person.path("script"), script).unwrap();
    let offered = |line: &str| {
        let program = Path::new(env!("CARGO_BIN_EXE_summarizer")).parent().unwrap();
        let ask = "PATH=\"$1:$PATH\"; shift; source ./script; COMP_WORDS=(\"$@\"); \
                   COMP_CWORD=$(($# - 1)); _summarizer_names summarizer \"${COMP_WORDS[COMP_CWORD]}\" \
                   \"${COMP_WORDS[COMP_CWORD-1]}\"; printf '%s\\n' \"${COMPREPLY[@]}\"";
        let mut command = Command::new("bash");
        command.args(["-c", ask, "bash"]).arg(program).args(line.split(' '));
        let output = command.current_dir(person.dir.path()).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let home = "summarizer --home my-texts";
    says(
        &offered(&format!("{home} submit --flow docs.ch")),
        &["docs.chunk_set.summarize.brief.v1"],
    );
    says(&offered(&format!("{home} read roof")), &["roof\\ offer.md"]);
    let id = person.run(0, &["--home", "my-texts", "requests", "--json"]).out;
    let id: Value = serde_json::from_str(id.lines().next().unwrap()).unwrap();
    let id = id["request_id"].as_str().unwrap();
    says(&offered(&format!("{home} show {}", &id[..6])), &[id]);
    says(&offered(&format!("{home} requests --state comp")), &["completed"]);
    for line in ["flow run bri", "registry show bri", "registry hash bri", "registry check bri"] {
        says(&offered(&format!("{home} {line}")), &["brief"]);
    }
    let summary = &person.json(0, &["--home", "my-texts", "read"])[0]["summary_id"];
    for command in ["explain", "show", "read", "trace", "open"] {
        let offers = offered(&format!("{home} {command} sum_"));
        says(&offers, &[summary.as_str().unwrap()]);
    }
    for command in ["sum --model bu", "flow run brief --provider bu"] {
        says(&offered(&format!("{home} {command}")), &["builtin"]);
    }
    assert_eq!(offered(&format!("{home} quarantine show {}", &id[..6])).trim(), "");
    says(&offered(&format!("{home} add --flow bri")), &["brief"]);
    person.run(0, &["--home", "my-texts", "digest", "build"]);
    says(&offered(&format!("{home} digest show over")), &["overview.daily", "overview.weekly"]);
    says(&offered(&format!("{home} digest show 20")), &["20"]);
    says(&offered(&format!("{home} digest show overview.daily --window 20")), &["20"]);
    says(&offered("summarizer --home nowhere show x"), &[]);
    says(&offered("summarizer dra"), &["drain"]);
    for shell in ["zsh", "fish"] {
        says(&person.run(0, &["completions", shell]).out, &["names", "requests", "summaries"]);
    }
}

/// Texts with their days, speakers and steps, as a person writes them.
const WRITTEN: [(&str, &str); 6] = [
    (
        "letter.txt",
        "Porto, 5 March 2026\n\nDear Ana,\n\nI hope you are well. The rent rises to 910 EUR on 1 May. Please sign the \
         form by 20 March.\n\nKind regards,\nRui\n",
    ),
    (
        "carta.txt",
        "Fecha: 05/03/2026\n\nHola Luis:\n\nEspero que estés bien. La póliza vence el 31 de marzo y la prima es de 300 euros.\n",
    ),
    (
        "soup.md",
        "# Soup\n\nA soup for four people.\n\n1. Cut two onions into rings.\n2. Boil one litre of water.\n3. Add the onions.\n\
         4. Cook all for 20 minutes.\n",
    ),
    (
        "20260305_plan.org",
        "* Tasks\n** TODO Book the hall\n   DEADLINE: <2026-03-20 Fri>\n** DONE Ask the speaker\n",
    ),
    (
        "WhatsApp Chat with Flat.txt",
        "12/03/2026, 14:05 - Messages are encrypted.\n12/03/2026, 14:05 - Ana: who pays the electricity this month?\n\
         12/03/2026, 14:07 - Ben: I pay it, 64 euros\nand Ana owes me half\n13/03/2026, 09:30 - Ana: the plumber comes on Monday\n",
    ),
    ("lab.txt", "03/04/2026\n\nThe samples came from the lab. Two of six must be repeated.\n"),
];

/// A person with these texts only.
fn writer() -> Person {
    let person = Person::new();
    for (name, text) in WRITTEN {
        let path = person.path("own").join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    person
}

#[test]
fn written_days_and_speakers_are_kept_and_an_unclear_day_is_not_guessed() {
    let person = writer();
    person.json(0, &home(&["add", "--init", "own"]));
    let rows = person.json(0, &home(&["read", "--last", "20"]));
    let day = |name: &str| -> Vec<&str> {
        let of = |row: &&Value| {
            row["meta"]["source_name"].as_str().is_some_and(|one| one.contains(name))
        };
        rows.iter().filter(of).map(|row| row["day"].as_str().unwrap()).collect()
    };
    for name in ["letter.txt", "carta.txt", "20260305_plan.org"] {
        assert_eq!(day(name), ["2026-03-05"], "{name}");
    }
    assert_eq!(day("WhatsApp Chat with Flat"), ["2026-03-13", "2026-03-12"]);
    let shown = person.run(0, &home(&["read", "lab.txt"])).out;
    says(&shown, &["no date, filed under 2026-03-01"]);
    let chat = person.run(0, &["sum", "own/WhatsApp Chat with Flat.txt"]).out;
    says(&chat, &["I pay it, 64 euros", "and Ana owes me half", "the plumber comes on Monday"]);
    assert!(!chat.contains("encrypted") && !chat.contains("14:05 -"), "{chat}");
    says(&chat, &["Ben: I pay it, 64 euros"]);
}

#[test]
fn every_command_says_who_said_what_in_a_small_chat_and_who_wrote_a_mail() {
    let person = Person::new();
    std::fs::create_dir(person.path("own")).unwrap();
    let chat = "[2026-02-11, 08:15:00] Ana: The heating of the hall is broken.\n\
        [2026-02-11, 23:50:00] Ben: The plumber comes tomorrow at nine.\n\
        [2026-02-12, 00:20:00] Cleo: I open the door for him.\n";
    std::fs::write(person.path("own/hall.txt"), chat).unwrap();
    let short = "[2026-02-11, 08:15:00] Ana: ok\n[2026-02-11, 23:50:00] Ben: yes\n\
        [2026-02-12, 12:20:00] Ana: fine, I take the bus\n";
    std::fs::write(person.path("own/bus.txt"), short).unwrap();
    let mail = "From: Ana Ruiz <ana@x.example>\nSubject: The bridge\n\
        Date: Mon, 9 Feb 2026 10:00:00 +0000\n\nThe council repairs the bridge in March.\n";
    std::fs::write(person.path("own/bridge.eml"), mail).unwrap();
    let said = [
        "Ana: The heating of the hall is broken.",
        "Ben: The plumber comes tomorrow at nine.",
        "Cleo: I open the door for him.",
    ];
    for args in [
        &["sum", "own/hall.txt"][..],
        &["sum", "own/hall.txt", "own/bridge.eml"],
        &["sum", "own/hall.txt", "--length", "short"],
        &home(&["add", "--init", "own"]),
        &home(&["read", "--last", "20"]),
    ] {
        says(&person.run(0, args).out, &said);
    }
    for args in [&["sum", "own/bus.txt"][..], &["sum", "own"], &home(&["read", "--last", "20"])] {
        let out = person.run(0, args).out;
        says(&out, &["Ana: ok", "Ben: yes", "Ana: fine, I take the bus"]);
    }
    let rows = person.json(0, &home(&["read", "--last", "20"]));
    let meta = |name: &str| {
        let one = rows.iter().find(|row| row["meta"]["source_name"] == name).unwrap();
        one["meta"]["authors"].clone()
    };
    assert_eq!(meta("hall, 2026-02-11 08:15"), "Ana");
    assert_eq!(meta("hall, 2026-02-11 23:50"), "Ben, Cleo");
    assert_eq!(meta("The bridge"), "Ana Ruiz");
    for command in ["read", "explain"] {
        says(&person.run(0, &home(&[command, "The bridge"])).out, &["by Ana Ruiz"]);
    }
}

#[test]
fn a_chat_whose_dates_have_two_readings_keeps_its_speakers_and_the_choice_is_named() {
    let person = Person::new();
    std::fs::create_dir(person.path("own")).unwrap();
    let chat = "11/02/26, 14:05 - Ana: who pays the electricity?\n11/02/26, 14:07 - Ben: I pay it, 64 euros\n\
        12/02/26, 09:30 - Ana: the plumber comes on Monday\n";
    std::fs::write(person.path("own/chat.txt"), chat).unwrap();
    let listed = person.json(0, &home(&["add", "--init", "own", "--dry-run"]));
    assert_eq!(listed[0]["kind"], "chat log");
    let added = person.run(0, &home(&["add", "--init", "own"]));
    says(&added.err, &["chat.txt: dates read as day/month/year"]);
    let rows = person.json(0, &home(&["read", "--last", "5"]));
    let days: Vec<&str> = rows.iter().map(|row| row["day"].as_str().unwrap()).collect();
    assert_eq!(days, ["2026-02-12", "2026-02-11"]);
    assert!(rows.iter().all(|row| row["source_type"] == "session"), "{rows:?}");
    let shown = person.run(0, &["sum", "own/chat.txt"]);
    says(&shown.out, &["Ben: I pay it, 64 euros"]);
    // A log without any day is a text, and the list says so.
    let log = "[14:03] ana: it is down\n[14:04] ben: I look\n[14:09] ana: it is up\n";
    std::fs::write(person.path("own/log.txt"), log).unwrap();
    let listed = person.json(0, &home(&["add", "own/log.txt", "--dry-run"]));
    assert_eq!(listed[0]["kind"], "text");
}

#[test]
fn a_chat_keeps_the_reading_of_its_dates_from_its_first_import() {
    let person = Person::new();
    std::fs::create_dir(person.path("own")).unwrap();
    let add = |now: &str, messages: &[&str]| {
        let who = ["Ana", "Ben"].into_iter().cycle();
        let lines = messages.iter().zip(who).map(|(day, name)| {
            format!("{day}, 2:05 PM - {name}: message of {day}, about the plumber\n")
        });
        std::fs::write(person.path("own/chat.txt"), lines.collect::<String>()).unwrap();
        let args = home(&["--json", "add", "--init", "own"]);
        let output = person.command(&args).env("SUMMARIZER_TEST_NOW", now).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let told = String::from_utf8(output.stdout).unwrap();
        let told = told.lines().rfind(|line| line.contains("dates_read")).unwrap();
        serde_json::from_str::<Value>(told).unwrap()
    };
    let events = || {
        let mut found = std::collections::BTreeSet::new();
        for day in std::fs::read_dir(person.path("home/buses/eventbus/daily")).unwrap() {
            let text = std::fs::read_to_string(day.unwrap().path()).unwrap_or_default();
            let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
            found.extend(lines.filter_map(|event| event["timestamp_ms"].as_i64()));
        }
        found.len()
    };
    let first = ["11/02/26", "11/02/26", "12/02/26"];
    let told = add("2026-03-01T12:00:00Z+", &first);
    assert_eq!(told["dates_read"][0]["order"], "day/month/year", "the other is in the future");
    let before = events();
    // Now the other reading is possible too.
    let told = add("2027-03-01T12:00:00Z+", &first);
    assert_eq!((&told["dates_read"][0]["order"], events()), (&"day/month/year".into(), before));
    let more = [&first[..], &["01/03/26"]].concat();
    let told = add("2027-03-01T12:00:00Z+", &more);
    assert_eq!((&told["dates_read"][0]["order"], events()), (&"day/month/year".into(), before + 1));
    assert_eq!(told["dates_read"][0]["earlier"], Value::Null);
    // A message that has no day in the earlier reading.
    let wrong = [&first[..], &["12/25/26"]].concat();
    let told = add("2027-03-01T12:00:00Z+", &wrong);
    assert_eq!(told["dates_read"][0]["order"], "month/day/year");
    assert_eq!(told["dates_read"][0]["earlier"], "day/month/year");
    let output = person.command(&home(&["add", "own"])).output().unwrap();
    assert!(output.status.success());
}

/// Every event that was imported.
fn events(person: &Person) -> Vec<Value> {
    let mut found = Vec::new();
    for day in std::fs::read_dir(person.path("home/buses/eventbus/daily")).unwrap() {
        let text = std::fs::read_to_string(day.unwrap().path()).unwrap();
        let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        found.extend(lines.filter(|one| one["event_id"].is_string()));
    }
    found
}

#[test]
fn items_of_a_json_feed_without_an_author_have_that_of_the_feed() {
    let person = Person::new();
    std::fs::create_dir(person.path("own")).unwrap();
    let feed = json!({
        "version": "https://jsonfeed.org/version/1.1", "title": "Town",
        "authors": [{"name": "Ana Ruiz", "url": "https://ana.example"}],
        "items": [
            {"id": "1", "content_text": "The bridge opens on Friday.", "date_published": "2026-02-11T10:00:00Z"},
            {"id": "2", "content_text": "The pool closes on Monday.", "date_published": "2026-02-11T11:00:00Z",
             "authors": [{"name": "Bo Lind"}]},
        ],
    });
    std::fs::write(person.path("own/feed.json"), feed.to_string()).unwrap();
    person.run(0, &home(&["add", "--init", "own"]));
    let events = events(&person);
    let author = |words: &str| {
        let one = events.iter().find(|one| one["content"].as_str().unwrap().contains(words));
        one.unwrap()["author"]["name"].clone()
    };
    assert_eq!((author("bridge"), author("pool")), ("Ana Ruiz".into(), "Bo Lind".into()));
}

#[test]
fn texts_of_two_imports_with_one_id_are_all_kept_and_named() {
    let person = Person::new();
    let own = |name: &str, text: &str| {
        let path = person.path("own").join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    let feed = |title: &str, items: &[(&str, &str, &str)]| {
        let items: Vec<Value> = items
            .iter()
            .map(|(id, day, text)| json!({"id": id, "content_text": text, "date_published": day}))
            .collect();
        json!({"version": "https://jsonfeed.org/version/1.1", "title": title, "items": items})
            .to_string()
    };
    let rss = |title: &str, day: &str, text: &str| {
        format!(
            "<rss><channel><title>{title}</title><item><guid>7</guid><pubDate>{day}</pubDate>\
             <description>{text}</description></item></channel></rss>"
        )
    };
    let mail = |from: &str, day: u32, text: &str| {
        format!(
            "From: {from}\nMessage-ID: <1@x.example>\nSubject: Rent\n\
             Date: Mon, {day} Feb 2026 10:00:00 +0000\n\n{text}\n"
        )
    };
    own("a/feed.json", &feed("Town", &[("1", "2026-02-11", "The bridge opens on Friday.")]));
    own("a/news.xml", &rss("Town", "2026-02-11", "The pool closes on Monday."));
    own("a/rent.eml", &mail("ana@x.example", 9, "The rent is 400 euros."));
    person.run(0, &home(&["add", "--init", "own"]));
    own(
        "b/feed.json",
        &feed(
            "City",
            &[
                ("1", "2026-02-12", "The library buys three hundred books."),
                ("2", "2026-02-12", "The market moves to the north square."),
            ],
        ),
    );
    own("b/news.xml", &rss("City", "2026-02-13", "The museum is free on Sunday."));
    own("b/rent.eml", &mail("bo@x.example", 16, "Send the rent to another account."));
    let added = person.run(0, &home(&["add", "own"]));
    says(
        &added.err,
        &["4 new summaries", "3 records with an id that another record has", "has the id `"],
    );
    let all = ["bridge", "pool", "400 euros", "library", "market", "museum", "another account"];
    says(&person.run(0, &home(&["read", "--last", "20"])).out, &all);
    let known: Vec<Value> = events(&person).iter().map(|one| one["event_id"].clone()).collect();
    let apart: std::collections::BTreeSet<String> = known.iter().map(Value::to_string).collect();
    assert_eq!((known.len(), apart.len()), (7, 7));
    // The same files again add nothing and have nothing to say.
    let again = person.run(0, &home(&["add", "own"]));
    assert!(!again.err.contains("with an id"), "{}", again.err);
    assert_eq!(events(&person).len(), 7);
    // An item that got another date is the same item, and one with other words its newer version.
    own("a/feed.json", &feed("Town", &[("1", "2026-02-14", "The bridge opens on Friday.")]));
    own("a/news.xml", &rss("Town", "2026-02-14", "The pool closes on Tuesday."));
    let newer = person.run(0, &home(&["add", "own"]));
    assert!(!newer.err.contains("with an id"), "{}", newer.err);
    says(&newer.err, &["1 new summary"]);
    let shown = person.run(0, &home(&["read", "--last", "20"])).out;
    says(&shown, &["closes on Tuesday"]);
    assert!(!shown.contains("closes on Monday"), "{shown}");
}

#[test]
fn a_mail_without_a_date_in_another_mail_has_no_date() {
    let person = Person::new();
    std::fs::create_dir(person.path("own")).unwrap();
    let mail = "Message-ID: <1@x.org>\r\nFrom: ana@x.org\r\nSubject: Fwd\r\n\
        Date: Wed, 11 Feb 2026 10:00:00 +0000\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n\
        --b\r\n\r\nPlease read the offer below.\r\n--b\r\nContent-Type: message/rfc822\r\n\r\n\
        Message-ID: <2@x.org>\r\nFrom: bo@x.org\r\nSubject: Offer\r\n\r\n\
        The pump costs 240 euros with two years of warranty.\r\n--b--\r\n";
    std::fs::write(person.path("own/a.eml"), mail).unwrap();
    person.run(0, &home(&["add", "--init", "own"]));
    let rows = person.json(0, &home(&["read", "--last", "5"]));
    let precision = |words: &str| {
        let one = rows.iter().find(|row| row["outputs"].to_string().contains(words)).unwrap();
        assert_eq!(one["day"], "2026-02-11", "it lies beside the mail around it");
        one["meta"]["ts_precision"].clone()
    };
    assert_eq!((precision("read the offer"), precision("240 euros")), (Value::Null, "none".into()));
    says(&person.run(0, &home(&["read", "Offer"])).out, &["no date, filed under 2026-02-11"]);
}

#[test]
fn an_empty_day_and_a_day_that_is_not_published_are_told_apart() {
    let person = Person::new();
    std::fs::create_dir(person.path("own")).unwrap();
    std::fs::write(person.path("own/a.txt"), "Date: 2026-02-11\n\nThe roof costs 900 EUR.\n")
        .unwrap();
    person.run(0, &home(&["add", "--init", "own"]));
    person.run(0, &home(&["digest", "build"]));
    person.run(0, &home(&["day", "open", "2026-02-10"]));
    let (empty, missing) = ("published without a summary", "not published");
    for (day, told, gap) in
        [("2026-02-10", empty, "empty"), ("2026-02-09", missing, "not_published")]
    {
        let built = person.run(0, &home(&["digest", "build", "--window", day]));
        says(&built.out, &[told]);
        let built = person.json(0, &home(&["digest", "build", "--window", day]));
        assert_eq!(built[0]["gap"], gap);
        let previewed = person.run(5, &home(&["digest", "preview", "--window", day]));
        says(&previewed.err, &[told, "2026-02-11"]);
        let shown = person.run(5, &home(&["digest", "show", "--window", day]));
        says(&shown.err, &[told]);
    }
    let built = person.json(0, &home(&["digest", "build", "--window", "2026-02-11"]));
    assert_eq!(built[0]["gap"], Value::Null);
    let empty = person.run(0, &home(&["read", "--day", "2026-02-10"]));
    says(&empty.err, &["no request about it has ended", "the nearest days with some: 2026-02-11"]);
    let missing = person.run(0, &home(&["read", "--day", "2026-02-09"]));
    says(&missing.err, &["not published", "the nearest days with some: 2026-02-11"]);
}

#[test]
fn words_of_an_assistant_are_no_achievement_of_its_user() {
    let person = Person::new();
    std::fs::create_dir(person.path("export")).unwrap();
    let message = |id: &str, role: &str, at: i64, parent: Value, child: Value, text: &str| {
        json!({"id": id, "parent": parent, "children": child, "message": {
            "id": id, "author": {"role": role}, "create_time": at,
            "content": {"content_type": "text", "parts": [text]}}})
    };
    let talk = json!([{"title": "Sorting notes", "create_time": 1_770_800_300, "current_node": "c", "mapping": {
        "a": message("a", "user", 1_770_800_300, Value::Null, json!(["b"]),
            "I want to sort my notes by day. There are 300 files."),
        "b": message("b", "assistant", 1_770_800_360, json!("a"), json!(["c"]),
            "Rename each file. I fixed everything and merged it. You still need to buy a new disk."),
        "c": message("c", "user", 1_770_800_420, json!("b"), json!([]),
            "I renamed ten of them and it works. I still need to check the photos."),
    }}]);
    std::fs::write(person.path("export/conversations.json"), talk.to_string()).unwrap();
    person.json(0, &home(&["add", "--init", "export"]));
    let read = person.json(0, &home(&["read"]));
    let outputs = &read[0]["outputs"];
    let done = outputs["structured"]["achievements"].to_string();
    let open = outputs["actions"].to_string();
    assert!(done.contains("I renamed ten of them"), "{outputs:#}");
    assert!(!done.contains("merged"), "{done}");
    assert!(open.contains("check the photos") && !open.contains("new disk"), "{open}");
    let text = outputs["summary_text"].as_str().unwrap();
    let (_, text) = text.split_once("### Achievements").unwrap();
    let (own, text) = text.split_once("### The assistant says").unwrap();
    assert!(own.contains("ten of them") && !own.contains("merged"), "{own}");
    assert!(text.contains("merged") && !text.contains("disk"), "{text}");
    let summed = person.json(0, &["sum", "export"]);
    let done = summed[0]["structured"]["achievements"].to_string();
    assert!(done.contains("I renamed ten of them") && !done.contains("merged"), "{done}");
}

#[test]
fn what_an_assistant_says_names_it_everywhere() {
    let person = Person::new();
    let said = [
        (
            "user: The export fails since Monday, can you look?\n\nassistant: I found a timeout in the mailer. I fixed everything \
          and deployed the new version. We decided to keep five retries.\n\nuser: I tested it with old data.\n",
            "Assistant: ",
            ["I found", "I fixed", "We decided"],
        ),
        (
            "Usuario: La exportación falla desde el lunes, ¿puedes mirar?\n\nAsistente: He encontrado un error en el servidor. \
          He arreglado todo y he publicado la versión nueva. Se acordó mantener cinco intentos.\n\nUsuario: La he probado con datos viejos.\n",
            "Asistente: ",
            ["He encontrado", "He arreglado", "Se acordó"],
        ),
        (
            "Nutzer: Der Export scheitert seit Montag, kannst du nachsehen?\n\nAssistent: Ich habe einen Fehler im Server gefunden. \
          Ich habe alles repariert und die neue Version veröffentlicht. Wir haben beschlossen, fünf Versuche zu behalten.\n\nNutzer: Ich habe ihn mit alten Daten getestet.\n",
            "Assistent: ",
            ["Ich habe einen Fehler", "Ich habe alles", "Wir haben"],
        ),
        (
            "Utilisateur : L'export échoue depuis lundi, peux-tu regarder ?\n\nAssistant : J'ai trouvé une erreur dans le serveur. \
          J'ai tout corrigé et publié la nouvelle version. Nous avons décidé de garder cinq essais.\n\nUtilisateur : Je l'ai testé avec de vieilles données.\n",
            "Assistant: ",
            ["J'ai trouvé", "J'ai tout", "Nous avons"],
        ),
    ];
    std::fs::create_dir(person.path("talks")).unwrap();
    let named = |text: &str, name: &str, claims: &[&str]| {
        for claim in claims {
            for (at, _) in text.match_indices(claim) {
                assert!(text[..at].ends_with(name), "{claim:?} without {name:?} in {text}");
            }
        }
    };
    for (at, (talk, name, claims)) in said.iter().enumerate() {
        let file = format!("talks/{at}.md");
        std::fs::write(person.path(&file), talk).unwrap();
        for length in ["short", "medium", "long"] {
            named(&person.run(0, &["sum", &file, "--length", length]).out, name, claims);
        }
        let long = person.run(0, &["sum", &file, "--length", "long"]).out;
        says(&long, &[&format!("{name}{}", claims[0])]);
        let flow = "gpt.session.summarize.parsed_message.v3";
        named(&person.run(0, &["sum", &file, "--flow", flow]).out, name, claims);
    }
    person.json(0, &home(&["add", "--init", "talks"]));
    person.json(0, &home(&["digest", "build"]));
    let memos = person.run(0, &home(&["digest", "show"])).out;
    for (_, name, claims) in said {
        named(&memos, name, &claims);
    }
}

#[test]
fn the_summary_of_a_job_post_names_its_employer() {
    let person = Person::new();
    let posts = [
        (
            "Office manager\nCompany: Lumen Analytics\n\nThe office manager runs the front desk and the calendars. Requirements: two years in \
          a similar role. Salary: 28,000 euros. Apply before 3 January 2027.\n",
            "Lumen Analytics",
        ),
        (
            "Technical writer\n\nAbout Quillworks\n\nWe write manuals that people trust.\n\nYou have two years of experience. \
          The salary is 48,000 euros. Apply with your CV.\n",
            "Quillworks",
        ),
        (
            "Archivist\n\nYou keep the letters of three centuries. You have a degree. We at Nordwind GmbH offer 30 days off and a salary of \
          52,000 euros. Apply by 15 December.\n",
            "Nordwind",
        ),
        (
            "Gestor de proyectos\nEmpresa: Velamar\n\nBuscamos una persona para coordinar regatas. Requisitos: inglés alto. \
          Salario: 29.000 euros.\n",
            "Velamar",
        ),
        (
            "Bootsbauer\nUnternehmen: Werft Jansen\n\nIhre Aufgaben: Rümpfe laminieren. Wir bieten 19 Euro pro Stunde und \
          Vollzeit. Bewerbung bis 31. März.\n",
            "Werft Jansen",
        ),
        (
            "Lamp keeper (f/m/d)\n\nHarbour Lights Ltd, Whitby\n\nYour tasks: you keep six lamps burning. Requirements: no \
          fear of heights.\nSalary: 31,000 pounds. Apply by 2 May.\n",
            "Harbour Lights Ltd",
        ),
        (
            "Weaver\n\nThe looms of Reed & Loom stand in an old mill. Requirements: two years of experience. We offer 2,400 euros \
          a month.\nSend your CV to people@reedandloom.example.\n",
            "Reed & Loom",
        ),
    ];
    for (post, employer) in posts {
        std::fs::write(person.path("post.txt"), post).unwrap();
        for length in ["short", "medium", "long"] {
            let told = person.run(0, &["sum", "post.txt", "--length", length]).out;
            assert!(told.contains(employer), "{employer} in {told}");
        }
    }
    // What is no job post gets no name before it.
    std::fs::write(
        person.path("note.txt"),
        "About Ana\n\nShe came at noon and told us of the garden. The beans are ripe.\n",
    )
    .unwrap();
    let note = person.run(0, &["sum", "note.txt"]).out;
    assert!(!note.contains("Ana:"), "{note}");
}

#[test]
fn requests_and_promises_of_a_chat_are_tasks_with_days_and_small_talk_is_none() {
    let person = Person::new();
    std::fs::create_dir(person.path("chats")).unwrap();
    let chats: [(&str, &[&str]); 14] = [
        (
            "Maya: can you send me the bill tomorrow?|Tom: sure, I will",
            &["Maya: can you 2026-03-11"],
        ),
        (
            "Lola: ¿me puedes mandar la factura mañana?|Paco: vale, te la mando mañana",
            &["Lola: ¿me puedes 2026-03-11"],
        ),
        ("Hugo: vale, te lo mando el viernes|Mar: perfecto", &["Hugo: vale, te 2026-03-13"]),
        ("Timo: ich schicke es dir heute Abend|Ela: super", &["Timo: ich schicke 2026-03-10"]),
        ("Anne: je t'apporte les clés vendredi|Yves: merci", &["Anne: je t'apporte 2026-03-13"]),
        (
            "Lise: tu peux m'envoyer la facture demain ?|Marc: oui, je te l'envoie demain",
            &["Lise: tu peux 2026-03-11"],
        ),
        (
            "Eva: can you call the bank?|Max: ok, I will call them on Friday",
            &["Eva: can you -", "Max: ok, I 2026-03-13"],
        ),
        ("Ruth: do you like the new cafe?|Leo: it is nice, a bit loud", &[]),
        ("Al: shall I order it?|Bo: up to you", &[]),
        ("Ian: we could go to the lake on Sunday|Sue: sounds fun", &[]),
        ("Inés: podríamos repetir en verano|Raúl: genial, te mando un abrazo", &[]),
        ("Lea: wie findest du das Bild?|Ole: schön, sollen wir es kaufen?", &[]),
        ("Luc: on pourrait aller au marché samedi|Zoé: bonne idée", &[]),
        ("Nico: ¿quieres que lleve postre?|Rosa: si quieres", &[]),
    ];
    for (at, (lines, _)) in chats.iter().enumerate() {
        let lines = lines.split('|').enumerate();
        let chat: String =
            lines.map(|(at, line)| format!("10/03/2026, 14:{at:02} - {line}\n")).collect();
        std::fs::write(person.path(&format!("chats/WhatsApp Chat with {at:02}.txt")), chat)
            .unwrap();
    }
    person.json(0, &home(&["add", "--init", "chats"]));
    let tasks = person.json(0, &home(&["task", "list"]));
    for (at, (lines, expected)) in chats.iter().enumerate() {
        let source = format!("WhatsApp Chat with {at:02}");
        let own = tasks.iter().filter(|task| task["source"] == source.as_str());
        let mut found: Vec<String> = own
            .map(|task| {
                let words: Vec<&str> = task["text"].as_str().unwrap().split(' ').take(3).collect();
                format!("{} {}", words.join(" "), task["due"].as_str().unwrap_or("-"))
            })
            .collect();
        found.sort();
        assert_eq!(found, *expected, "{lines}: {tasks:?}");
    }
}

#[test]
fn a_digest_says_what_it_leaves_out_because_it_is_private() {
    let person = Person::new();
    std::fs::create_dir(person.path("diary")).unwrap();
    for (name, text) in [
        ("2026-02-10 walk.md", "We walked to the harbour and saw the new crane."),
        (
            "2026-02-10 pain.md",
            "---\npublish: false\n---\nThe doctor looked at my back for an hour.",
        ),
        (
            "2026-02-11 loan.md",
            "---\npublish: false\n---\nThe loan is due in May and the bank called.",
        ),
    ] {
        std::fs::write(person.path(&format!("diary/{name}")), text).unwrap();
    }
    person.json(0, &home(&["add", "--init", "diary"]));
    person.json(0, &home(&["digest", "build"]));
    let day = person.run(0, &home(&["digest", "show", "--day", "2026-02-10"])).out;
    says(&day, &["1 summary, of 2 in the window", "Left out: 1 private (`publish: no`)"]);
    assert!(!day.contains("doctor"), "{day}");
    let preview = person.run(0, &home(&["digest", "preview", "--selector", "overview.weekly"])).out;
    says(&preview, &["1 of 3 summaries match", "left out: 2 private (`publish: no`)"]);
    let none = person.run(5, &home(&["digest", "show", "--day", "2026-02-11"])).err;
    says(&none, &["2026-02-11 has only 1 private summary", "`summarizer read` shows it"]);
}

#[test]
fn messages_with_roles_are_a_chat_with_times_and_without() {
    let person = Person::new();
    let message = |role: &str, text: &str| json!({"role": role, "content": text});
    let talk = [
        message("user", "the page fails since noon, can you look"),
        message("assistant", "I have fixed the bug in the session handler"),
        message("user", "ok it works now, thanks"),
    ];
    let timed = talk.clone().map(|mut one| {
        one["timestamp"] = json!("2026-03-01T10:00:00Z");
        one
    });
    for (name, talk) in [("bare.jsonl", &talk), ("timed.jsonl", &timed)] {
        let lines: Vec<String> = talk.iter().map(Value::to_string).collect();
        std::fs::write(person.path(name), lines.join("\n")).unwrap();
        let shown = person.run(0, &["sum", name]).out;
        let (own, claimed) = shown.split_once("The assistant says").expect(&shown);
        says(own, &["Achievements", "- ok it works now, thanks"]);
        says(claimed, &["- Assistant: I have fixed the bug in the session handler"]);
        assert!(!own.contains("fixed") && !shown.contains("look I have"), "{shown}");
    }
    // The only conversation of an export is shown whole.
    let export = json!({"messages": talk});
    std::fs::write(person.path("one.json"), export.to_string()).unwrap();
    says(&person.run(0, &["sum", "one.json"]).out, &["Session Goal", "The assistant says"]);
}

#[test]
fn steps_stay_together_and_politeness_is_left_out() {
    let person = writer();
    let soup = person.run(0, &["sum", "own/soup.md", "--length", "short"]).out;
    says(&soup, &["1. Cut two onions into rings.\n", "4. Cook all for 20 minutes."]);
    for length in ["short", "medium", "long"] {
        let letters =
            person.run(0, &["sum", "own/letter.txt", "own/carta.txt", "--length", length]).out;
        says(&letters, &["910 EUR", "31 de marzo"]);
        for polite in ["Dear", "hope", "Espero", "Hola", "regards", "Porto", "Fecha"] {
            assert!(!letters.contains(polite), "{polite} in {letters}");
        }
    }
    let tasks = person.json(0, &["sum", "own/20260305_plan.org", "--flow", "task"]);
    assert_eq!(
        tasks[0]["outputs"]["actions"].as_array().unwrap().len(),
        1,
        "{}",
        tasks[0]["outputs"]
    );
    let together = person.run(0, &["sum", "own", "--together"]);
    says(&together.out, &["20 March", "31 de marzo", "The samples came from the lab"]);
    says(&together.err, &["6 of 6 sources used"]);
}

#[test]
fn a_search_shows_the_sentences_with_its_words_and_an_empty_list_of_tasks_says_why() {
    let person = writer();
    person.json(0, &home(&["add", "--init", "own/letter.txt", "own/lab.txt"]));
    let found = person.json(0, &home(&["search", "rent", "sign"]));
    let shown = "The rent rises to 910 EUR on 1 May. Please sign the form by 20 March.";
    assert_eq!(found[0]["sentence"], shown);
    says(&person.run(0, &home(&["task", "list"])).err, &["no task is open", "--flow task"]);
}

/// A person keeps the home in the folder of the notes, and adds the folder again and again.
#[test]
fn a_home_in_the_folder_of_its_texts_never_reads_itself() {
    let person = Person::new();
    for (name, text) in [
        (
            "notes/boiler.txt",
            "The boiler is broken again\n\nAna called the plumber\n\nHe comes on Tuesday\n",
        ),
        (
            "notes/list.csv",
            "id,date,text\n1,2026-02-03,The bridge is closed.\n2,2026-02-05,It opens again.\n",
        ),
    ] {
        std::fs::create_dir_all(person.path("notes")).unwrap();
        std::fs::write(person.path(name), text).unwrap();
    }
    let at = |args: &[&'static str]| [&["--home", "notes/.summaries"], args].concat();
    person.run(0, &at(&["add", "--init", "notes"]));
    let at = |args: &[&'static str]| [&["--home", "notes/home"], args].concat();
    let first = person.run(0, &at(&["add", "--init", "notes"]));
    says(&first.err, &["2 files, 3 new summaries"]);
    says(&first.out, &["The boiler is broken again. Ana called the plumber. He comes on Tuesday."]);
    person.run(0, &at(&["digest", "build"]));
    let again = person.run(0, &at(&["add", "notes"]));
    says(&again.err, &["2 files, 3 as before", "1 (the own files of a home)"]);
    let listed = person.json(0, &["sum", "notes"]);
    assert_eq!(listed.len(), 3, "two summaries and the counts: {listed:?}");
    // Each row of the list is of its own day, for `read` and for `trace` by the path of the file.
    let read = person.json(0, &at(&["read", "--day", "2026-02-03"]));
    assert_eq!(read[0]["meta"]["source_name"], "list.csv");
    let path = person.path("notes/list.csv");
    let path = path.to_str().unwrap();
    for command in ["trace", "read"] {
        let args = [&at(&[command])[..], &[path]].concat();
        says(&person.run(0, &args).out, &["list.csv", "2026-02-03", "2026-02-05"]);
    }
    for command in ["explain", "show"] {
        let args = [&at(&[command])[..], &[path]].concat();
        says(&person.run(5, &args).err, &["names several sources", "2026-02-03", "2026-02-05"]);
    }
    let title = read[0]["title"].as_str().unwrap();
    person.run(0, &[&at(&["trace"])[..], &[title]].concat());
    person.run(1, &at(&["trace", "nothing-like-it"]));
    let requests = person.json(0, &at(&["requests"]));
    let sources: Vec<_> = requests.iter().map(|one| one["source"].as_str().unwrap()).collect();
    assert!(sources.contains(&"list.csv") && sources.contains(&"boiler.txt"), "{sources:?}");
    says(&person.run(0, &at(&["digest", "show", "tasks"])).err, &["no task is open"]);
}

/// A file system may write `é` as two characters, and a person as one.
#[test]
fn a_name_is_found_in_either_form_of_its_letters() {
    for (written, typed) in [("Caf\u{e9}", "cafe\u{301}"), ("Cafe\u{301}", "caf\u{e9}")] {
        let person = Person::new();
        std::fs::create_dir_all(person.path("texts")).unwrap();
        let text = format!(
            "---\nproject: {written}\n---\nThe {written} opens on Monday. Ana has the keys.\n"
        );
        std::fs::write(person.path(&format!("texts/{written}.md")), text).unwrap();
        person.run(0, &["--home", "h", "add", "--init", "texts"]);
        let (file, path) = (format!("{typed}.md"), format!("texts/{typed}.md"));
        for args in [
            &["read", &file][..],
            &["read", &path],
            &["read", "--project", typed],
            &["trace", &file],
            &["explain", &file],
            &["search", typed],
            &["search", "opens", "--project", typed],
        ] {
            let out = person.run(0, &[&["--home", "h"][..], args].concat()).out;
            assert!(out.contains("opens") || args[0] == "trace", "{args:?}: {out}");
        }
    }
}

/// A reader that walks the buses finds published files only, also where the bus home is the home, or above it.
#[test]
fn files_under_way_lie_outside_the_bus_home_however_it_is_written() {
    for (number, (home, buses, beside)) in [
        ("h", ".", ".h.publishing"),
        ("h/home", "..", ".h.publishing"),
        ("h", "x/../buses", "h/.buses.publishing"),
        ("h", "x/../../b/y/..", ".b.publishing"),
    ]
    .into_iter()
    .enumerate()
    {
        let person = Person::new();
        for folder in [home, "h/x", "b/y"] {
            std::fs::create_dir_all(person.path(folder)).unwrap();
        }
        let settings = format!("bus_home = {buses:?}\n");
        std::fs::write(person.path(&format!("{home}/summarizer.toml")), settings).unwrap();
        std::fs::write(person.path("key.txt"), "The key hangs by the door.\n").unwrap();
        let at = |args: &[&'static str]| [&["--home", home], args].concat();
        // An earlier version left its folder inside.
        let left = person.path(home).join(buses).join(".publishing/.staging");
        if number % 2 == 0 && left.parent().unwrap().parent().unwrap().exists() {
            std::fs::create_dir_all(&left).unwrap();
        }
        person.run(0, &at(&["add", "--init", "key.txt"]));
        person.run(0, &at(&["digest", "build"]));
        let root = person.path(home).join(buses).canonicalize().unwrap();
        assert!(root.join("summaries").is_dir() && person.path(beside).is_dir(), "{buses}");
        let mut folders = vec![root];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let entry = entry.unwrap();
                let name = entry.file_name().into_string().unwrap();
                // The home itself may be below its buses.
                assert!(!name.starts_with('.') || name.starts_with(".buses"), "{buses}: {name}");
                if entry.file_type().unwrap().is_dir() {
                    folders.push(entry.path());
                }
            }
        }
        person.run(0, &at(&["verify"]));
    }
}

/// The buses lie beside the texts, in the same folder.
#[test]
fn buses_in_the_folder_of_the_texts_are_no_texts() {
    let person = Person::new();
    std::fs::create_dir_all(person.path("flat/run")).unwrap();
    std::fs::write(person.path("flat/summarizer.toml"), "bus_home = \".\"\n").unwrap();
    std::fs::write(person.path("flat/key.txt"), "The key hangs by the door. Ana has one.\n")
        .unwrap();
    let at = |args: &[&'static str]| [&["--home", "flat"], args].concat();
    says(&person.run(0, &at(&["add", "--init", "flat"])).err, &["1 file, 1 new summary"]);
    person.run(0, &at(&["digest", "build"]));
    says(&person.run(0, &at(&["add", "flat"])).err, &["1 file, 1 as before"]);
    assert_eq!(person.json(0, &["sum", "flat"]).len(), 2, "one summary and the counts");
}

/// The sections `[[watch]]` of a home, with and without a service.
#[test]
fn watched_folders_are_taken_in_before_a_drain_and_their_flows_have_short_names() {
    let person = Person::new();
    let write = |name: &str, text: &str| {
        std::fs::create_dir_all(person.path(name).parent().unwrap()).unwrap();
        std::fs::write(person.path(name), text).unwrap();
    };
    let settings = |flow: &str| {
        let text = format!(
            "[[watch]]\nfolder = '../notes'\nflow = 'brief'\n[[watch]]\nfolder = '../notes'\nflow = '{flow}'\n"
        );
        write("home/summarizer.toml", &text);
    };
    write(
        "notes/ana.txt",
        "Please send the report to Ana by 12 March 2027. The copy is on the shelf.\n",
    );
    settings("zzz");
    let refused = person.run(3, &home(&["drain", "--folders"])).err;
    says(&refused, &["../notes", "there is no flow zzz"]);
    says(&person.run(1, &home(&["doctor"])).out, &["there is no flow zzz"]);
    settings("task");
    says(&person.run(0, &home(&["drain", "--folders"])).out, &["2 completed"]);
    let flows = person.json(0, &home(&["read"]));
    let mut flows: Vec<&str> =
        flows.iter().map(|one| one["meta"]["flow_id"].as_str().unwrap()).collect();
    flows.sort_unstable();
    assert_eq!(
        flows,
        ["docs.chunk_set.summarize.brief.v1", "email.triage.extract_task.task_item.v1"]
    );
    says(&person.run(0, &home(&["drain", "--folders"])).out, &["0 lines taken in"]);
    write("home/summarizer.toml", "timezone = 'UTC'\n");
    says(&person.run(0, &home(&["drain", "--folders"])).err, &["no folder is watched"]);
}

/// A person with a few files of their own, by name and text.
fn person_with(files: &[(&str, &str)]) -> Person {
    let person = Person { dir: tempfile::tempdir().unwrap(), pdf: "[]" };
    for (name, text) in files {
        let path = person.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    person
}

/// Two sessions of one chat, a mail without a date, and a file deep in folders.
const NAMED: [(&str, &str); 4] = [
    (
        "mine/Family.txt",
        "11/02/2026, 09:00 - Ana: The hotel in Vienna is paid, 240 EUR for two nights.\n\
         11/02/2026, 09:02 - Ben: Please book the train to Vienna.\n\
         11/02/2026, 20:00 - Ana: The hotel wrote that breakfast is not included.\n\
         11/02/2026, 20:03 - Ben: Please print the tickets for Vienna.\n",
    ),
    (
        "mine/draft.eml",
        "From: Ana <ana@example.org>\nTo: Ben <ben@example.org>\nSubject: Offer for the roof\n\n\
         Hi Ben,\n\nthe offer for the roof arrived, it costs 4200 EUR. Please send the signed offer back.\n",
    ),
    (
        "mine/house/cellar/pump.md",
        "# Pump\n\nThe pump in the cellar is loud. Please call the plumber about the pump.\n",
    ),
    (
        "mine/town.xml",
        "<rss version=\"2.0\"><channel><title>Town</title>\
         <item><title>Bridge closed</title><guid>1</guid><description>The old bridge is closed for \
         repairs until April.</description></item>\
         <item><title>Market moves</title><guid>2</guid><description>The weekly market moves to the \
         school yard in spring.</description></item></channel></rss>",
    ),
];

/// The name of a saved page is that of its `<title>`, because a browser makes up the name of the file.
#[test]
fn a_page_is_called_by_its_title() {
    let page = "<html><head><title>Pumps for cellars | Ardo</title></head><body><article>\
                <h1>Pumps</h1><p>A pump for a cellar moves 200 litres a minute. Please check the \
                valve every year.</p></article></body></html>";
    let bare =
        "<html><body><p>The gate is painted green. Please lock it at night.</p></body></html>";
    let person = person_with(&[("mine/web/4711_print.html", page), ("mine/web/gate.htm", bare)]);
    person.run(0, &home(&["add", "--init", "mine", "--flow", "task"]));
    person.run(0, &home(&["add", "mine"]));
    person.run(0, &home(&["digest", "build"]));
    let title = "Pumps for cellars | Ardo";
    for args in [
        &["read"][..],
        &["search", "litres"],
        &["task", "list"],
        &["digest", "show"],
        &["digest", "show", "tasks.open"],
        &["requests"],
        &["trace", "4711_print.html"],
    ] {
        let told = person.run(0, &home(args)).out;
        assert!(told.contains(title) && !told.contains("4711"), "{args:?}\n{told}");
    }
    // Title and file find it, and a page without a title has the name of its file.
    for word in [title, "4711_print.html", "web/4711_print.html", "4711_print"] {
        let found = person.json(0, &home(&["read", word]));
        assert!(sources_of(&found).iter().all(|name| name == title) && !found.is_empty(), "{word}");
        says(&person.run(0, &home(&["explain", word])).out, &[title]);
        says(&person.run(0, &home(&["trace", word])).out, &[title]);
    }
    says(&person.run(0, &home(&["read"])).out, &["mine/web/gate.htm"]);
    says(&person.run(0, &home(&["forget", "--dry-run", "4711_print.html"])).out, &[title]);
}

/// `read`, memos and the list of tasks call a source by the same name, and a time tells sessions of one chat apart.
#[test]
fn a_source_has_one_name_everywhere() {
    let person = person_with(&NAMED);
    person.run(0, &home(&["add", "--init", "mine", "--flow", "task"]));
    person.run(0, &home(&["digest", "build"]));
    let read = person.run(0, &home(&["read", "--last", "20"])).out;
    let mail = "Offer for the roof";
    let sessions = ["Family, 2026-02-11 09:00", "Family, 2026-02-11 20:00"];
    says(&read, &sessions);
    says(&read, &["mine/house/cellar/pump.md"]);
    assert!(read.lines().any(|line| line == mail), "{read}");
    let tasks = person.run(0, &home(&["task", "list"])).out;
    let names = [mail, "Family, 2026-02-11 09:00", "Family, 2026-02-11 20:00"];
    says(&tasks, &names);
    says(&tasks, &["mine/house/cellar/pump.md"]);
    let memo = person.run(0, &home(&["digest", "show", "tasks.open"])).out;
    says(&memo, &["(Family, 2026-02-11 09:00, ", "(Family, 2026-02-11 20:00, "]);
    says(&memo, &[", mine/house/cellar/pump.md, ", ", Offer for the roof, "]);
    assert!(!format!("{read}{tasks}{memo}").contains("draft.eml"), "{read}{tasks}{memo}");
    // Both the name and the file find it.
    for word in [mail, "draft.eml", "mine/draft.eml"] {
        let found = person.json(0, &home(&["read", word]));
        assert_eq!(sources_of(&found), [mail], "{word}");
    }
    let which = person.run(5, &home(&["explain", "Family"]));
    says(&which.err, &["2026-02-11 09:00", "2026-02-11 20:00"]);
}

/// Calls of tools, their answers and attached texts are in the source, and no summary of a chat says that a person or the
/// assistant said them.
#[test]
fn a_chat_with_tools_and_attachments_is_summarized_by_what_was_said() {
    let said = |id: &str, sender: &str, content: Value, attachments: Value| {
        json!({"uuid": id, "sender": sender, "created_at": "2026-02-10T08:00:00Z", "text": "",
               "content": content, "attachments": attachments, "files": []})
    };
    let text = |text: &str| json!({"type": "text", "text": text});
    let plan = "The walls are made of boards. ```not the end``` The roof is flat.";
    let claude = json!([{"uuid": "c1", "name": "Shed", "created_at": "2026-02-10T08:00:00Z", "chat_messages": [
        said("m1", "human", json!([text("How many boards does the shed need?")]),
             json!([{"file_name": "plan.txt", "extracted_content": plan}])),
        said("m2", "assistant", json!([
            {"type": "tool_use", "name": "calculator", "input": {"note": "Walls need boards."}},
            {"type": "tool_result", "content": [text("```\nThe calculation gives fifty boards.\n```")]},
            text("The shed needs 50 boards and 5 as a reserve.")]), json!([])),
        said("m3", "human", json!([text("I will order 55 boards on Thursday.")]), json!([])),
    ]}]);
    let message = |id: &str, role: &str, to: &str, kind: &str, text: &str| {
        let mut content = json!({"content_type": kind, "text": text});
        if kind == "text" {
            content = json!({"content_type": kind, "parts": [text]});
        }
        json!({"id": id, "author": {"role": role}, "create_time": 1_770_800_000, "recipient": to,
               "content": content, "metadata": {}})
    };
    let messages = [
        message("n1", "user", "all", "text", "How many boards does the shed need?"),
        message("n2", "assistant", "python", "code", "print('Walls need boards.')"),
        message("n3", "tool", "all", "execution_output", "The calculation gives fifty boards."),
        message("n4", "assistant", "bio", "text", "The walls are made of boards."),
        message("n5", "assistant", "all", "text", "The shed needs 50 boards and 5 as a reserve."),
        message("n6", "user", "all", "text", "I will order 55 boards on Thursday."),
    ];
    let mut mapping = json!({});
    for (at, message) in messages.iter().enumerate() {
        let parent = at.checked_sub(1).map(|before| format!("p{before}"));
        let children =
            if at + 1 < messages.len() { json!([format!("p{}", at + 1)]) } else { json!([]) };
        mapping[format!("p{at}")] = json!({"id": format!("p{at}"), "parent": parent, "children": children, "message": message});
    }
    let chatgpt = json!([{"title": "Shed", "create_time": 1_770_800_000, "conversation_id": "x",
                          "current_node": "p5", "mapping": mapping}]);
    for (name, chat) in [("claude.json", claude), ("chatgpt.json", chatgpt)] {
        let person = person_with(&[(name, &chat.to_string())]);
        person.run(0, &home(&["add", "--init", name]));
        person.run(0, &home(&["add", name, "--flow", "task"]));
        let read = person.run(0, &home(&["read", "--long"])).out;
        says(&read, &["50 boards", "55 boards on Thursday"]);
        for other in ["Walls need", "calculation gives", "walls are made", "tool_", "calculator"] {
            assert!(!read.contains(other), "{name}: {other} in\n{read}");
        }
        // The source keeps them.
        let kept = std::fs::read_dir(person.path("home/buses/eventbus/daily")).unwrap();
        let kept: String =
            kept.map(|day| std::fs::read_to_string(day.unwrap().path()).unwrap()).collect();
        says(&kept, &["Walls need", "calculation gives", "walls are made"]);
    }
    // Words that were pasted and are all that somebody sent are said by them.
    let pasted = json!([{"file_name": "paste.txt", "extracted_content": "The bridge is closed until April."}]);
    let pasted = json!([{"uuid": "c", "name": "", "created_at": "2026-02-10T08:00:00Z",
                         "chat_messages": [said("m1", "human", json!([]), pasted)]}]);
    let person = person_with(&[("claude.json", &pasted.to_string())]);
    says(&person.run(0, &["sum", "claude.json"]).out, &["The bridge is closed until April."]);
}

/// The summary of a table tells a few rows, each from its title on, and a search shows no more than what is around its words.
#[test]
fn a_table_reads_as_sentences_and_a_search_shows_an_excerpt() {
    let mut table = "id,title,author,year,pages,rating,shelf\n".to_owned();
    let books = ["The Old Harbour", "Winter Bees", "A Map of Rain", "Small Engines", "Night Ferry"];
    for (number, title) in (1..).zip(books) {
        table.push_str(&format!(
            "{number},{title},Lena Holm,{},{},4.5,A{number}\n",
            1990 + number,
            300 + number
        ));
    }
    let person = person_with(&[("mine/books.csv", &table)]);
    let told = person.run(0, &["sum", "mine/books.csv"]).out;
    says(&told, &["Winter Bees (author: Lena Holm; year: 1992; pages: 302)."]);
    assert!(!told.contains("id: ") && !told.contains("shelf: "), "{told}");
    person.run(0, &home(&["add", "--init", "mine"]));
    person.run(0, &home(&["add", "mine", "--flow", "task"]));
    let found = person.run(0, &home(&["search", "ferry"])).out;
    says(&found, &["Night Ferry (author: Lena Holm"]);
    assert!(!found.contains("Old Harbour"), "{found}");
    person.run(0, &home(&["digest", "build"]));
    let memo = person.run(0, &home(&["digest", "show"])).out;
    assert!(!memo.contains("doc_") && !memo.contains("id: 1"), "{memo}");
    // What a model wrote without a full stop is cut around the words.
    let long: String = (1..200).map(|n| format!("remark{n} ")).collect();
    let person = person_with(&[("long.md", &format!("{long} heating {long}\n"))]);
    person.run(0, &home(&["add", "--init", "long.md"]));
    for line in person.run(0, &home(&["search", "remark3"])).out.lines() {
        assert!(line.len() < 400, "{line}");
    }
}

/// Data without words has nothing to summarize, and the commands say so.
#[test]
fn data_without_words_gets_no_summary() {
    let person = person_with(&[
        ("mine/a.json", "{\"a\":1}"),
        ("mine/b.json", "[1, 2, 3]"),
        ("mine/c.jsonl", "{\"at\": \"2026-02-11T10:00:00Z\", \"v\": 3}\n{\"v\": 4}\n"),
        ("mine/d.csv", "day,amount\n2026-01-03,240\n2026-01-04,35\n"),
        ("mine/e.md", "The roof costs 900 EUR. We decide on Monday.\n"),
    ]);
    let what = "nothing to summarize, only data without words";
    for args in [&["sum", "mine"][..], &["--home", "home", "add", "--init", "mine"]] {
        let ran = person.run(0, args);
        says(&ran.err, &[what, "2 .json", "1 .jsonl", "1 .csv"]);
        assert!(!format!("{}{}", ran.out, ran.err).contains("a: 1"), "{}", ran.out);
    }
    assert_eq!(sources_of(&person.json(0, &home(&["read"]))), ["mine/e.md"]);
    // Who names such a file is told, and the command fails.
    let named = person.run(5, &["sum", "mine/a.json"]);
    says(&named.err, &["mine/a.json", what]);
}

/// Hidden files and folders are not read, and the commands count them.
#[test]
fn hidden_files_are_counted() {
    let text = "The roof costs 900 EUR. We decide on Monday.\n";
    let person = person_with(&[
        ("mine/a.md", text),
        ("mine/.b.md", text),
        ("mine/.git/c.md", text),
        ("mine/sub/.d.md", text),
    ]);
    for args in [&["sum", "mine"][..], &["--home", "home", "add", "--init", "mine"]] {
        let ran = person.run(0, args);
        says(&ran.err, &["skipped 3: 3 (hidden)"]);
        assert!(!ran.err.contains(".b.md"), "{}", ran.err);
    }
    let imported = person.run(0, &home(&["import", "text", "mine", "--partition", "n"]));
    says(&imported.err, &["passed over: 3 hidden"]);
    let found = person.json(0, &home(&["add", "mine", "--dry-run"]));
    assert_eq!(found.iter().filter(|one| one["skipped"] == "hidden").count(), 3, "{found:?}");
}

/// Each item of a list stands on its own day, and an item without a day is filed under no invented one.
#[test]
fn each_item_of_a_list_stands_on_its_own_day() {
    let rows = [("2026-02-03", "Rent", "700"), ("", "Taxi", "9"), ("2026-02-05", "Pump", "240")];
    let cells: String =
        rows.iter().map(|row| format!("{},{},{} EUR\n", row.0, row.1, row.2)).collect();
    let record = |row: &(&str, &str, &str)| match row.0 {
        "" => json!({"item": row.1, "amount": row.2}),
        day => json!({"date": day, "item": row.1, "amount": row.2}),
    };
    let records: Vec<Value> = rows.iter().map(record).collect();
    let lines: String = records.iter().map(|one| format!("{one}\n")).collect();
    for (name, text) in [
        ("mine/list.csv", format!("date,item,amount\n{cells}")),
        ("mine/list.jsonl", lines),
        ("mine/list.json", Value::from(records).to_string()),
    ] {
        let person = person_with(&[(name, &text)]);
        let added = person.run(0, &home(&["add", "--init", name]));
        says(&added.err, &["1 file, 3 new summaries"]);
        for (day, item) in [("2026-02-03", "Rent"), ("2026-02-05", "Pump")] {
            let read = person.json(0, &home(&["read", "--day", day]));
            assert_eq!(
                (sources_of(&read), read[0]["day"].as_str()),
                (vec![name.to_owned()], Some(day))
            );
            let said = read[0]["outputs"]["summary_text"].as_str().unwrap();
            assert!(rows.iter().all(|row| said.contains(row.1) == (row.1 == item)), "{said}");
            let id = read[0]["summary_id"].as_str().unwrap();
            says(&person.run(0, &home(&["explain", id, "--verify"])).out, &["all hold"]);
        }
        let all = person.json(0, &home(&["read", name]));
        let undated = |one: &&Value| one["meta"]["ts_precision"] == "none";
        assert_eq!(all.iter().filter(undated).count(), 1, "{name}");
        // A changed day is a newer version of that day, and a day that left the list is named.
        std::fs::write(
            person.path(name),
            text.replace("700", "720").replace("2026-02-05", "2026-02-06"),
        )
        .unwrap();
        let again = person.run(0, &home(&["add", name]));
        says(
            &again.err,
            &["2 new summaries, 1 as before", "1 day of a list is gone", "list", "2026-02-05"],
        );
        let read = person.json(0, &home(&["read", "--day", "2026-02-03"]));
        assert_eq!(read.len(), 1, "{name}");
        says(read[0]["outputs"]["summary_text"].as_str().unwrap(), &["720"]);
        // All days of the file are forgotten with it.
        person.run(0, &home(&["forget", name]));
        assert!(sources_of(&person.json(0, &home(&["read"]))).is_empty(), "{name}");
    }
}

/// Items of a feed without a date are sources of their own, as those with a date are.
#[test]
fn items_of_a_feed_without_a_date_are_apart() {
    let person = person_with(&NAMED);
    person.run(0, &home(&["add", "--init", "mine/town.xml"]));
    let found = person.json(0, &home(&["read", "town.xml"]));
    let mut names = sources_of(&found);
    names.sort_unstable();
    assert_eq!(names, ["Bridge closed", "Market moves"]);
    let again = person.run(0, &home(&["add", "mine/town.xml"]));
    says(&again.err, &["2 as before"]);
    // A changed item is a newer version of the same source, and the other one stays.
    let text = NAMED[3].1.replace("until April", "until May");
    std::fs::write(person.path("mine/town.xml"), text).unwrap();
    person.run(0, &home(&["add", "mine/town.xml"]));
    let found = person.json(0, &home(&["read", "--last", "9"]));
    assert_eq!(sources_of(&found).len(), 2, "{found:?}");
    let newest = person.run(0, &home(&["read", "Bridge closed"])).out;
    assert!(newest.contains("until May") && !newest.contains("its file is gone"), "{newest}");
    std::fs::remove_file(person.path("mine/town.xml")).unwrap();
    says(&person.run(0, &home(&["read", "Bridge closed"])).out, &["its file is gone"]);
}

/// A service that was told to stop ends the calls under way. Whoever asks it meanwhile is told so at once.
#[test]
fn a_question_to_a_service_that_ends_does_not_wait() {
    let person = person_with(&[("note.md", "The roof costs 900 EUR. We decide on Monday.\n")]);
    person.run(0, &home(&["init"]));
    let calls = person.path("calls");
    let script = format!("cat >/dev/null; echo >> {}; sleep 8; echo nonsense", calls.display());
    let settings = std::fs::read_to_string(person.path("home/summarizer.toml")).unwrap();
    let settings = format!(
        "{settings}\n[provider]\ndefault = \"script\"\n[provider.script]\nkind = \"command\"\n\
         command = [\"sh\", \"-c\", {}]\n",
        json!(script)
    );
    std::fs::write(person.path("home/summarizer.toml"), settings).unwrap();
    person.run(0, &home(&["add", "note.md", "--no-wait"]));
    let mut serve = person.command(&home(&["serve"]));
    serve.env_remove("SUMMARIZER_TEST_NOW").stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = serve.spawn().unwrap();
    while !calls.exists() {
        assert!(child.try_wait().unwrap().is_none(), "it ended without a call");
        std::thread::sleep(Duration::from_millis(20));
    }
    let id = child.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
    std::thread::sleep(Duration::from_millis(500));
    let since = std::time::Instant::now();
    let asked = person.command(&home(&["status"])).output().unwrap();
    let told = String::from_utf8_lossy(&asked.stderr).into_owned();
    let is_ending = child.try_wait().unwrap().is_none();
    assert!(since.elapsed() < Duration::from_secs(5), "{:?} {told}", since.elapsed());
    assert!(!is_ending || told.contains("the service is ending"), "{told}");
    child.wait().unwrap();
}

/// The prompts that are shown are those that lead to the answer: a short text is read whole.
#[test]
fn no_question_is_shown_whose_answer_no_prompt_uses() {
    let person = person_with(&[("note.md", "The roof costs 900 EUR. We decide on Monday.\n")]);
    let run = ["flow", "run", "brief", "--input", "note.md", "--show-prompts"];
    let shown = person.run(0, &run).err;
    assert_eq!(shown.matches("(turn 0)").count(), 1, "{shown}");
    assert!(!shown.contains("You condense one part"), "{shown}");
    let report = person.json(0, &run).pop().unwrap();
    let nodes: Vec<&str> = report["calls"]
        .as_array()
        .unwrap()
        .iter()
        .map(|call| call["node"].as_str().unwrap())
        .collect();
    assert_eq!(nodes, ["brief"]);
    person.run(0, &home(&["add", "--init", "note.md"]));
    let explained = person.json(0, &home(&["explain", "note.md", "--show-prompts"])).pop().unwrap();
    assert!(!explained.to_string().contains("You condense one part"), "{explained}");
}

/// The first line of a job post is the title of the job, in its screening and in digests.
#[test]
fn a_job_post_is_called_by_its_job() {
    let post = "Senior Rust Engineer (m/f/d) at Riverbank Software\n\nRiverbank Software builds control systems \
                for water plants. We look for an engineer who writes Rust every day.\nRequirements: five years of \
                experience, Rust, Linux.\nRemote within the EU, 75000 to 88000 EUR a year.\n";
    let person = person_with(&[("mine/post.txt", post)]);
    person.run(0, &home(&["add", "--init", "mine"]));
    let screening = "jobs.posting.screen.job_screening.v2";
    let screened = person.run(0, &home(&["add", "mine", "--flow", screening])).out;
    says(&screened, &["Senior Rust Engineer (Riverbank Software)."]);
    person.run(0, &home(&["digest", "build"]));
    let memo = person.run(0, &home(&["digest", "show"])).out;
    says(&memo, &["- Senior Rust Engineer: Riverbank Software builds", "(mine/post.txt)"]);
}

/// What somebody will do by a day is a task with that day, in running text too.
#[test]
fn what_somebody_will_do_until_a_day_is_a_task() {
    let note = "---\ndate: 2026-02-27\n---\nWe looked at the pump, and the test went well. Clara will write the report \
                about the test until Friday. The budget stays at 12000 EUR.\n";
    let person = person_with(&[("mine/note.md", note)]);
    person.run(0, &home(&["add", "--init", "mine", "--flow", "task"]));
    let tasks = person.json(0, &home(&["task", "list"]));
    assert_eq!(tasks.len(), 1, "{tasks:?}");
    assert_eq!(tasks[0]["text"], "Clara will write the report about the test until Friday.");
    assert_eq!(tasks[0]["due"], "2026-03-06");
}

/// A person knows the file or the subject, and no id: also of what has no summary.
#[test]
fn what_failed_or_waits_is_named_by_its_source() {
    let person = person_with(&[
        ("mine/roof.md", "# Roof\n\nThe roof costs 900 EUR. We decide on Monday.\n"),
        (
            "mine/a.eml",
            "From: Ana <ana@x.example>\nSubject: Gate\nDate: Mon, 2 Feb 2026 10:00:00 +0000\n\
             Message-ID: <1@x.example>\n\nPlease oil the gate before Friday.\n",
        ),
        (
            "home/summarizer.toml",
            "[provider]\ndefault = \"gone\"\n[provider.gone]\nkind = \"openai\"\n\
             base_url = \"http://127.0.0.1:9/v1\"\nmodel = \"m\"\n",
        ),
    ]);
    // `--init` is for a new home; this one has its settings already.
    person.run(0, &home(&["init"]));
    person.run(0, &home(&["add", "mine", "--no-wait"]));
    let drained = person.run(1, &home(&["drain"]));
    assert!(
        ["mine/roof.md", "Gate"].iter().any(|name| drained.err.contains(name)),
        "{}",
        drained.err
    );
    let rows = person.json(0, &home(&["requests"]));
    let mut named = sources(&rows);
    named.sort_unstable();
    assert_eq!(named, ["Gate", "mine/roof.md"]);
    for row in &rows {
        let id = row["request_id"].as_str().unwrap();
        says(&person.run(0, &home(&["show", id])).out, &[row["source"].as_str().unwrap()]);
        // A person has the name of the source, from the last lines of `add`, and no id.
        says(&person.run(0, &home(&["show", row["source"].as_str().unwrap()])).out, &[id]);
    }
    for args in [&["read", "roof.md"][..], &["explain", "roof.md"], &["open", "roof.md"]] {
        says(&person.run(5, &home(args)).err, &["error: request ", "made no summary"]);
    }
    says(&person.run(5, &home(&["read"])).err, &["2 requests wait", "has no summaries yet"]);
    says(&person.run(0, &home(&["retry", "roof.md"])).err, &["retry"]);
    says(&person.run(0, &home(&["cancel", "./mine/roof.md", "Gate"])).err, &["cancelled"]);
    let states = person.json(0, &home(&["requests", "--state", "cancelled"]));
    assert_eq!(states.len(), 2);
    says(&person.run(5, &home(&["retry", "rooof.md"])).err, &["no request rooof.md"]);
}

/// Whatever an import keeps as it was, or leaves out of a text, is said.
#[test]
fn nothing_is_kept_or_left_out_without_a_word() {
    let mail = |word: &str| {
        format!(
            "From: Ana <ana@x.example>\nSubject: Boat\nDate: Wed, 11 Feb 2026 09:00:00 +0100\n\
             Message-ID: <m1@x.example>\n\nThe boat leaves at {word} on Sunday. Bring the bag.\n"
        )
    };
    let item = |guid: &str, text: &str| {
        format!(
            "<item><title>Status</title>{guid}<pubDate>Wed, 04 Feb 2026 09:00:00 GMT</pubDate>\
             <description>{text}</description></item>"
        )
    };
    let guid = "<guid>g1</guid>";
    let link = "<link>https://s.example/</link>";
    let items = [
        item(guid, "Nobody can log in since nine."),
        item(guid, "The mail server gets new disks."),
        item(link, "The calendar can be read only."),
        item(link, "The phones work again."),
    ];
    let feed =
        format!("<rss version=\"2.0\"><channel><title>S</title>{}</channel></rss>", items.concat());
    let person = person_with(&[
        ("mine/a.eml", &mail("nine")),
        ("mine/status.xml", &feed),
        (
            "mine/front.md",
            "---\nRemember: the boat leaves at nine.\nTickets: 12 euros each.\n---\n\nThe crew meets at the pier.\n",
        ),
        (
            "mine/titled.md",
            "---\ntitle: A day at the sea.\ndate: 2026-02-11\n---\n\nWe swam to the buoy.\n",
        ),
        (
            "mine/chat.txt",
            "12/02/2026, 14:06 - Ana: <Media omitted>\n12/02/2026, 14:07 - Ben: The hotel costs 240 EUR.\n\
             12/02/2026, 14:09 - Ana: <Media omitted>\n13/02/2026, 09:30 - Ana: I book it today.\n",
        ),
    ]);
    let front = "not read: Remember, Tickets (front matter is not summarized), in mine/front.md";
    let silent = "2 messages without words, such as pictures, in mine/chat.txt";
    let summed = person.run(0, &["sum", "mine"]);
    says(&summed.err, &[front, silent]);
    assert!(!summed.err.contains("titled.md"), "{}", summed.err);
    let first = person.run(0, &home(&["add", "--init", "mine", "--project", "sea"]));
    says(&first.err, &[front, silent, "2 records with an id that another record has"]);
    let texts = person.run(0, &home(&["read", "--last", "20"])).out;
    says(&texts, &["Nobody can log in", "new disks", "read only", "phones work again"]);
    let again = person.run(0, &home(&["add", "mine", "--project", "sea"]));
    for word in ["under the project", "Message-ID", "new summar"] {
        assert!(!again.err.contains(word), "{}", again.err);
    }
    let other = person.run(0, &home(&["add", "mine", "--project", "work"]));
    says(&other.err, &["5 files stay under the project of before"]);
    std::fs::write(person.path("mine/a.eml"), mail("ten")).unwrap();
    let changed = person.run(0, &home(&["add", "mine/a.eml"]));
    says(
        &changed.err,
        &["1 mail has another text under a known Message-ID; the first text is kept", "Boat"],
    );
    let last = person.json(0, &home(&["add", "mine/a.eml", "--project", "work"])).pop().unwrap();
    assert_eq!(
        (&last["other_texts"], &last["other_projects"]),
        (&json!(1), &json!(["mine/a.eml"]))
    );
}

#[test]
fn a_search_takes_the_names_of_files_and_numbers_in_any_spelling() {
    let person = person_with(&[
        (
            "mine/ana.eml",
            "From: Ana <ana@x.example>\nSubject: Boat\nDate: Wed, 11 Feb 2026 09:00:00 +0100\n\
             Message-ID: <m1@x.example>\n\nThe boat costs 1,234.50 EUR.\n",
        ),
        ("mine/roof.md", "# Roof\n\nThe roof costs 900 EUR. We decide on Monday.\n"),
    ]);
    person.run(0, &home(&["add", "--init", "mine"]));
    for (word, found) in
        [("ana.eml", "Boat"), ("roof.md", "mine/roof.md"), ("1234.50", "Boat"), ("ANA", "Boat")]
    {
        assert_eq!(sources(&person.json(0, &home(&["search", word]))), [found], "{word}");
    }
    for command in ["read", "explain", "trace"] {
        says(&person.run(0, &home(&[command, "ana.eml"])).out, &["Boat"]);
    }
}

/// What each project of an export holds is known by the name of the project.
#[test]
fn projects_of_an_export_have_names_and_one_that_is_gone_is_named() {
    let project = |id: u8, name: &str, text: &str| {
        json!({"uuid": id.to_string(), "name": name, "description": "", "prompt_template": "Answer in centimetres.",
            "created_at": "2026-02-01T10:00:00Z",
            "docs": [{"uuid": format!("d{id}"), "filename": "plan.md", "content": text}]})
    };
    let roof = project(1, "Roof", "The new roof costs 9,400 euros.");
    let garden = project(2, "Garden", "We plant three apple trees in March.");
    let person = person_with(&[("mine/projects.json", &json!([roof, garden]).to_string())]);
    let summed = person.run(0, &["sum", "mine/projects.json"]).out;
    says(&summed, &["projects.json: Roof", "projects.json: Garden", "apple trees"]);
    person.run(0, &home(&["add", "--init", "mine/projects.json"]));
    let mut names = sources_of(&person.json(0, &home(&["read", "--last", "9"])));
    names.sort_unstable();
    assert_eq!(names, ["Garden", "Roof"]);
    let all = person.run(0, &home(&["read", "--last", "9"])).out;
    assert!(!all.contains("centimetres"), "a template says nothing of the project: {all}");
    says(&person.run(0, &home(&["read", "Garden"])).out, &["apple trees"]);
    assert_eq!(sources(&person.json(0, &home(&["search", "plan.md", "trees"]))), ["Garden"]);
    std::fs::write(person.path("mine/projects.json"), json!([roof]).to_string()).unwrap();
    says(
        &person.run(0, &home(&["add", "mine/projects.json"])).err,
        &["1 project of an export is gone"],
    );
}

#[test]
fn several_tasks_are_settled_at_once_and_a_short_id_says_what_it_may_mean() {
    let note =
        (1..40).map(|n| format!("- [ ] Paint door {n} before 20 March.\n")).collect::<String>();
    let person = person_with(&[("mine/doors.md", &format!("# Doors\n\n{note}"))]);
    person.run(0, &home(&["add", "--init", "mine", "--flow", "task"]));
    let tasks = person.json(0, &home(&["task", "list"]));
    let ids: Vec<&str> = tasks.iter().filter_map(|task| task["task_id"].as_str()).collect();
    let digits = |id: &str| id["task_".len()..].to_owned();
    let starts: Vec<String> = ids.iter().map(|id| digits(id)[..1].to_owned()).collect();
    let shared =
        starts.iter().find(|one| starts.iter().filter(|other| other == one).count() > 1).unwrap();
    let told = person.run(5, &home(&["task", "done", shared])).err;
    says(&told, &[&format!("tasks begin with {shared}: give more of the id")]);
    assert!(!told.contains("did you mean"), "{told}");
    let (one, two) = (digits(ids[0]), digits(ids[1]));
    let done = person.run(5, &home(&["task", "done", &one[..10], "none", &two[..10]]));
    assert_eq!(done.out.lines().filter(|line| line.starts_with("done")).count(), 2, "{}", done.out);
    let left = person.json(0, &home(&["task", "list"]));
    assert_eq!(left.len(), ids.len() - 2);
    person.run(0, &home(&["task", "reopen", ids[0], ids[1]]));
    let requests = person.json(0, &home(&["requests"]));
    let [only] = requests.as_slice() else { panic!("{requests:?}") };
    let id = only["request_id"].as_str().unwrap();
    says(&person.run(5, &home(&["show", &id[..1]])).err, &[&format!("did you mean {id}?")]);
}

#[test]
fn the_digest_of_a_day_to_come_is_not_the_newest() {
    let person = person_with(&[
        ("mine/roof.md", "---\ndate: 2026-02-11\n---\nThe roof was repaired on Monday.\n"),
        ("mine/dance.md", "---\ndate: 2999-03-04\n---\nThe dance begins at eight in the hall.\n"),
    ]);
    person.run(0, &home(&["add", "--init", "mine"]));
    person.run(0, &home(&["digest", "build"]));
    says(&person.run(0, &home(&["digest", "show"])).out, &["2026-02-11", "roof"]);
    says(&person.run(0, &home(&["digest", "show", "--day", "2999-03-04"])).out, &["dance"]);
}

/// A mistyped home must not become one when a unit starts.
#[test]
fn a_unit_is_written_for_a_home_that_exists() {
    let person = person_with(&[]);
    person.run(0, &["--home", "garden", "init"]);
    let refused = person.run(5, &["--home", "gardem", "service", "install", "--user"]);
    says(&refused.err, &["gardem is not a summarizer home", "did you mean --home garden?"]);
    assert!(!person.path(".config").exists());
    person.run(0, &["--home", "garden", "service", "install", "--user", "--timer", "hourly"]);
    let unit = person.path(".config/systemd/user/summarizer.service");
    says(&std::fs::read_to_string(unit).unwrap(), &["TimeoutStartSec=infinity"]);
}

/// Most of a week is in the overview; the word alone is enough to see it.
#[test]
fn a_word_of_several_digests_shows_the_overview() {
    let note = |n: usize| {
        format!(
            "---\ndate: 2026-02-1{n}\nproject: house\n---\n\nThe plumber repaired tap {n} for 40 EUR.\n"
        )
    };
    let notes: Vec<(String, String)> = (1..7).map(|n| (format!("mine/n{n}.md"), note(n))).collect();
    let files: Vec<(&str, &str)> =
        notes.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    let person = person_with(&files);
    person.run(0, &home(&["add", "--init", "mine"]));
    person.run(0, &home(&["digest", "build"]));
    let shown = person.json(0, &home(&["digest", "show", "weekly"]));
    assert!(shown.iter().all(|one| one["selector_id"] == "overview.weekly"), "{shown:?}");
}

/// Nobody looks at a folder that a program watches, so each drain names what it could not read.
#[test]
fn damaged_files_of_a_watched_folder_are_named_each_time() {
    let person = person_with(&[
        ("notes/cut.json", "[{\"a\": 1, \"b\": [1,"),
        ("notes/bad.pdf", "\0\u{1}\u{2}\0"),
        ("notes/numbers.json", "[1, 2, 3]"),
        ("notes/boat.json", "{\"text\": \"The boat leaves at nine from pier four.\"}"),
        ("home/summarizer.toml", "[[watch]]\nfolder = '../notes'\n"),
    ]);
    for _ in 0..2 {
        let drained = person.run(1, &home(&["drain", "--folders"])).err;
        says(
            &drained,
            &["notes/cut.json of a watched folder: line 1 is not JSON", "notes/bad.pdf"],
        );
        assert!(!drained.contains("notes/numbers.json"), "{drained}");
    }
    let texts = person.run(0, &home(&["read"])).out;
    says(&texts, &["  The boat leaves at nine from pier four."]);
}

/// Many skipped files are only counted, and `-v` names them.
#[test]
fn every_skipped_file_is_named_on_request() {
    let person =
        person_with(&[("mine/note.md", "The ferry to the island leaves at nine on Friday.")]);
    for number in 0..9 {
        std::fs::write(person.path(&format!("mine/photo-{number}.jpg")), b"\xff\xd8\xff").unwrap();
    }
    for (name, bytes) in [("empty.md", &b""[..]), (".hidden", b"x"), ("journal.baj", b"\x01$F~")] {
        std::fs::write(person.path(&format!("mine/{name}")), bytes).unwrap();
    }
    let all = [
        "empty.md: empty",
        "photo-0.jpg: picture",
        "photo-8.jpg: picture",
        ".hidden: hidden",
        "journal.baj: hardly any words",
    ];
    for args in [&["sum", "mine"][..], &home(&["add", "--init", "mine"])] {
        let short = person.run(0, args).err;
        says(&short, &["skipped 12: 9 .jpg (picture)"]);
        assert!(!short.contains("photo-0.jpg"), "{short}");
        says(&person.run(0, &[args, &["-v"]].concat()).err, &all);
    }
}

#[test]
fn no_summary_at_all_cannot_be_asked_for() {
    let person = person_with(&[]);
    says(&person.run(2, &["read", "--last", "0"]).err, &["--last", "0"]);
}

#[test]
fn the_unit_of_a_home_that_does_not_exist_is_printed_with_a_warning() {
    let person = person_with(&[]);
    person.run(0, &["--home", "garden", "init"]);
    let print = ["service", "install", "--user", "--timer", "hourly", "--print"];
    let ran = person.run(0, &[&["--home", "gardem"][..], &print].concat());
    says(&ran.err, &["warning:", "gardem is not a summarizer home", "did you mean --home garden?"]);
    assert!(!person.run(0, &[&["--home", "garden"][..], &print].concat()).err.contains("warning"));
}
