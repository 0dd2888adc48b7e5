//! Imports give trees that every reader accepts. Importing again changes nothing.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "helpers of a test may panic, and it writes what it is about to break"
)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use assert_cmd::Command;

/// An import goes into a home, and this folder makes one.
fn make_home(home: &Path, args: &[&str]) {
    if args.first() == Some(&"import") {
        std::fs::create_dir_all(home.join("run")).unwrap();
    }
}

fn run(home: &Path, args: &[&str]) -> serde_json::Value {
    make_home(home, args);
    let output = Command::cargo_bin("summarizer")
        .unwrap()
        .env_clear()
        .env("SUMMARIZER_TEST_NOW", "2026-02-20T00:00:00Z")
        .args(["--json", "--home"])
        .arg(home)
        .args(args)
        .output()
        .unwrap();
    assert!(
        output.status.code().is_some_and(|code| code < 2),
        "{args:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).unwrap()
}

/// What a command prints, one object a line.
fn run_lines(home: &Path, args: &[&str]) -> Vec<serde_json::Value> {
    make_home(home, args);
    let output = Command::cargo_bin("summarizer")
        .unwrap()
        .env_clear()
        .env("SUMMARIZER_TEST_NOW", "2026-02-20T00:00:00Z")
        .args(["--json", "--home"])
        .arg(home)
        .args(args)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{args:?}: {said}");
    let lines = String::from_utf8(output.stdout).unwrap();
    lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn write(path: PathBuf, text: &[u8]) -> String {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, text).unwrap();
    path.display().to_string()
}

fn tree(root: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut open = vec![root.to_owned()];
    while let Some(dir) = open.pop() {
        for entry in std::fs::read_dir(dir).into_iter().flatten() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else {
                let bytes = std::fs::read(&path).unwrap();
                found.insert(path, bytes);
            }
        }
    }
    found
}

/// Pipes, sockets and broken links lie in folders of people. They end no import.
#[test]
fn what_is_no_file_is_named_and_the_others_are_imported() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path().join("in/a.md"), b"The roof leaks.");
    let article = "<p>The pump is new and quiet. It needs no care for a year.</p>".repeat(8);
    let page = format!("<html><body><nav>Home</nav><main>{article}</main></body></html>");
    write(dir.path().join("in/page.html"), page.as_bytes());
    let socket = std::os::unix::net::UnixListener::bind(dir.path().join("in/s.md")).unwrap();
    std::os::unix::fs::symlink("nowhere", dir.path().join("in/broken.md")).unwrap();
    let pipe = dir.path().join("in/pipe.md");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let input = dir.path().join("in").display().to_string();
    let home = dir.path().join("home");
    let report = run(&home, &["import", "text", &input]);
    drop(socket);
    assert_eq!((&report["files"], &report["added"]), (&2.into(), &2.into()), "{report}");
    let left: Vec<&str> = report["rejected"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["file"].as_str().unwrap().rsplit('/').next().unwrap())
        .collect();
    assert_eq!(left, ["pipe.md", "s.md"], "{report}");
    assert_eq!(report["passed_over"]["/"], 1, "{report}");
    // A page is read as `add` reads it.
    let chunks = tree(&home.join("buses/chunks"));
    let all: Vec<String> =
        chunks.values().map(|bytes| String::from_utf8_lossy(bytes).into_owned()).collect();
    let all = all.concat();
    assert!(all.contains("The pump is new") && !all.contains("Home"), "{all}");
}

const CHAT: &str = r#"{"id":"u-1","conversation_id":"c","title":"T","timestamp":1770800000000,"role":"user","content":"Hello"}
{"id":"u-2","conversation_id":"c","title":"T","timestamp":1770800001000,"role":"assistant","content":""}
{"id":"u-3","conversation_id":"c","timestamp":1770900000,"role":"tool","content":"next day, in seconds"}
not json
{"id":"u-4","role":"user","content":"no time"}
"#;

const MBOX: &str = "From a@x Wed Feb 11 10:00:00 2026\nMessage-ID: <1@x>\nFrom: A <a@x>\nSubject: One\nDate: Wed, 11 Feb 2026 10:00:00 +0000\n\nBody\n>From here on\n\nFrom b@x Wed Feb 11 11:00:00 2026\nMessage-ID: <2@x>\nIn-Reply-To: <1@x>\nFrom: B <b@x>\nSubject: Re: One\nDate: Wed, 11 Feb 2026 11:00:00 +0000\n\nAnswer\n";

#[test]
fn every_import_gives_a_valid_tree_and_is_idempotent() {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path().join("home");
    let source = |name: &str| dir.path().join("in").join(name);
    let chat = write(source("chat/2026-02-11.jsonl"), CHAT.as_bytes());
    let mbox = write(source("box.mbox"), MBOX.as_bytes());
    let feed = write(
        source("feed.json"),
        br#"{"items":[{"guid":"g1","title":"News","pubDate":"Wed, 11 Feb 2026 10:00:00 GMT","description":"<p>Some <b>text</b></p>"}]}"#,
    );
    let lines = write(
        source("rows.jsonl"),
        br#"{"when":"2026-02-11T09:00:00-03:00","body":{"text":"row"}}"#,
    );
    write(source("docs/a.md"), b"# A\n\none\n\n## B\n\ntwo\n");
    write(source("docs/deep/b.html"), b"<title>B</title><p>three</p>");
    let docs = source("docs").display().to_string();

    let all: Vec<Vec<&str>> = vec![
        vec!["import", "chat-export", &chat],
        vec!["import", "mail", &mbox],
        vec!["import", "rss-json", &feed],
        vec![
            "import",
            "jsonl",
            &lines,
            "--time",
            "when",
            "--text",
            "body.text",
            "--kind",
            "work_session_logged/focus_block",
        ],
        vec!["import", "text", &docs],
    ];
    let first: Vec<_> = all.iter().map(|args| run(&home, args)).collect();
    assert_eq!(
        (&first[0]["added"], first[0]["rejected"].as_array().unwrap().len()),
        (&5.into(), 2),
        "three messages, and the sessions of two conversations"
    );
    assert_eq!(
        (&first[1]["added"], &first[2]["added"], &first[3]["added"]),
        (&2.into(), &1.into(), &1.into())
    );
    assert_eq!(first[4]["added"], 3);
    let before = tree(&home);
    let data =
        String::from_utf8(before[&home.join("buses/eventbus/daily/2026-02-11.jsonl")].clone())
            .unwrap();
    assert!(data.contains("Some text") && data.contains("From here on"), "{data}");
    assert!(!data.contains("<b>") && !data.contains(">From"), "{data}");

    for args in &all {
        let again = run(&home, args);
        assert_eq!(
            (&again["added"], &again["partitions"]),
            (&0.into(), &serde_json::json!([])),
            "{args:?}"
        );
    }
    assert_eq!(tree(&home), before);

    let report = run(&home, &["verify"]);
    assert_eq!(report["violations_total"], 0, "{report}");
    assert!(report["lines"].as_u64().unwrap() >= 10);

    let chosen = run(
        &home,
        &["select", "--bus", "event_bus", "--day", "2026-02-11", "--where", "role=user"],
    );
    assert_eq!(chosen["selected"], 1);
    let path = home.join("buses").join(chosen["manifest_path"].as_str().unwrap());
    let manifest: serde_json::Value =
        serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    assert_eq!(manifest["selection"]["items"][0]["id"], "u-1");
    assert_eq!(run(&home, &["verify"])["violations_total"], 0);
}

/// A text that is marked private somewhere is so on the bus and in its summary.
#[test]
fn a_private_text_stays_private_on_every_way_in() {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path().join("home");
    let source = |name: &str| dir.path().join("in").join(name);
    let line = |id: &str, flag: &str| {
        format!(
            r#"{{"id":"{id}","timestamp":1770800000000,"role":"user","content":"The zebra moves in spring. It was decided.",{flag}}}"#
        )
    };
    let chat = [("p-1", r#""Publish": "no""#), ("p-2", r#""meta": {"private": true}"#)];
    let chat: String = chat.iter().map(|(id, flag)| line(id, flag) + "\n").collect();
    let chat = write(source("chat.jsonl"), chat.as_bytes());
    let feed = write(
        source("feed.json"),
        br#"{"items":[{"guid":"p-3","pubDate":"Wed, 11 Feb 2026 10:00:00 GMT","description":"The zebra","visibility":"friends"}]}"#,
    );
    let rows = write(source("rows.jsonl"), line("p-4", r#""publish": """#).as_bytes());
    let mail = write(
        source("box.eml"),
        b"Message-ID: <p-5@x>\nSensitivity: Private\nDate: Wed, 11 Feb 2026 10:00:00 +0000\n\nThe zebra\n",
    );
    let note = "---\ntitle: Plan\nPublish: False\ntags: [move]\n---\n\nThe zebra moves in spring. It was decided.\n";
    write(source("notes/plan.md"), note.as_bytes());
    write(home.join("buses/other/plan.md"), note.as_bytes());
    let notes = source("notes").display().to_string();
    for args in [
        vec!["import", "chat-export", &chat],
        vec!["import", "rss-json", &feed],
        vec!["import", "jsonl", &rows, "--time", "timestamp", "--text", "content", "--id", "id"],
        vec!["import", "mail", &mail],
        vec!["import", "text", &notes],
    ] {
        let report = run(&home, &args);
        assert_eq!(report["rejected"], serde_json::json!([]), "{args:?}");
    }
    let records = |folder: &str| -> Vec<serde_json::Value> {
        let files = tree(&home.join("buses").join(folder));
        let lines = files.values().flat_map(|bytes| bytes.split(|byte| *byte == b'\n'));
        lines.filter_map(|line| serde_json::from_slice(line).ok()).collect()
    };
    let events = records("eventbus/daily");
    assert_eq!(events.len(), 5);
    for event in &events {
        assert_eq!(event["publish"], false, "{event}");
    }
    let chunks = records("chunks/canonical");
    assert_eq!(chunks.len(), 1);
    let metadata = &chunks[0]["metadata"];
    assert_eq!((&metadata["publish"], &metadata["title"]), (&false.into(), &"Plan".into()));
    assert_eq!(metadata["labels"], serde_json::json!(["move"]));
    assert!(!chunks[0]["text"].as_str().unwrap().contains("Publish"), "{}", chunks[0]);

    // Through the queue to the published items, which digests read.
    let flow = "docs.chunk_set.summarize.brief.v1";
    let mut asked: Vec<(&str, &str)> =
        events.iter().map(|event| ("event_bus", event["event_id"].as_str().unwrap())).collect();
    asked.push(("chunk_bus", chunks[0]["document_id"].as_str().unwrap()));
    asked.push(("other", "plan.md"));
    let succeeds = |args: &[&str]| {
        let mut command = Command::cargo_bin("summarizer").unwrap();
        command.env_clear().env("SUMMARIZER_TEST_NOW", "2026-02-20T00:00:00Z");
        command.arg("--home").arg(&home).args(args).assert().success();
    };
    for (bus, id) in &asked {
        let kind = if *bus == "event_bus" { "event_summary" } else { "document_summary" };
        succeeds(&["submit", "--flow", flow, "--kind", kind, "--bus", bus, "--id", id]);
    }
    succeeds(&["drain"]);
    let mut items: Vec<serde_json::Value> = Vec::new();
    for stream in ["events", "documents", "chunk_sets"] {
        items.extend(
            records(&format!("summaries/{stream}"))
                .into_iter()
                .filter(|one| one["summary_id"].is_string()),
        );
    }
    assert_eq!(items.len(), asked.len());
    for item in &items {
        assert_eq!(item["meta"]["publish"], false, "{item}");
    }
}

/// A folder as in practice: links, hidden files, other charsets, binary files, line ends of other
/// systems, headings of both forms, mails with an unreadable date.
#[test]
fn real_folders_are_imported_completely() {
    let dir = tempfile::tempdir().unwrap();
    let (home, docs) = (dir.path().join("home"), dir.path().join("in"));
    let secret = write(dir.path().join("secret.txt"), b"nobody's data");
    write(docs.join("a.md"), b"\xef\xbb\xbfTitle\r\n=====\r\n\r\nOne.\r\n\r\n```\r\n# code\r\n```\r\n\r\nTwo\r\n---\r\n\r\nMore.\r\n");
    write(
        docs.join("page.html"),
        b"<title>T &amp; U</title><script>no()</script><p>caf&eacute; &#8364;</p>",
    );
    write(docs.join("latin.txt"), b"caf\xe9\n");
    write(docs.join(".hidden/x.md"), b"# no\n");
    write(docs.join(".x.md"), b"# no\n");
    write(docs.join("photo.bin"), &[0, 1, 2]);
    write(docs.join("empty.md"), b"");
    std::os::unix::fs::symlink(".", docs.join("loop")).unwrap();
    std::os::unix::fs::symlink(secret, docs.join("link.txt")).unwrap();
    std::os::unix::fs::symlink("nowhere", docs.join("dangling.txt")).unwrap();
    let docs = docs.display().to_string();
    let first = run(&home, &["import", "text", &docs]);
    assert_eq!((&first["files"], &first["added"]), (&4.into(), &4.into()), "{first}");
    assert!(first["rejected"].as_array().unwrap().is_empty(), "{first}");
    let data = std::fs::read_to_string(home.join("buses/chunks/canonical/in.jsonl")).unwrap();
    assert!(data.contains("\"header_path\":[\"Title\",\"Two\"]"), "{data}");
    assert!(data.contains("\"text\":\"caf\u{e9}\""), "{data}");
    assert!(data.contains("caf\u{e9} \u{20ac}") && data.contains("T & U"), "{data}");
    assert!(!data.contains("no()") && !data.contains("nobody"), "{data}");
    assert_eq!(run(&home, &["import", "text", &docs])["added"], 0);
    assert_eq!(run(&home, &["verify"])["violations_total"], 0);
}

#[test]
fn partitions_of_other_producers_are_never_changed() {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path().join("home");
    let chat = write(dir.path().join("chat.jsonl"), CHAT.as_bytes());
    write(home.join("buses/eventbus/daily/2026-02-11.jsonl"), b"theirs\n");
    write(
        home.join("buses/eventbus/manifest/2026-02-11.manifest.json"),
        br#"{"producer":{"name":"them"}}"#,
    );
    let before = tree(&home.join("buses"));
    Command::cargo_bin("summarizer")
        .unwrap()
        .env_clear()
        .arg("--home")
        .arg(&home)
        .args(["import", "chat-export", &chat])
        .assert()
        .code(5);
    assert_eq!(tree(&home.join("buses")), before);
}

#[test]
fn verify_tells_what_is_wrong_and_exits_1() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path().join("eventbus/daily/2026-02-11.jsonl"), b"{}\n");
    let output = Command::cargo_bin("summarizer")
        .unwrap()
        .env_clear()
        .arg("verify")
        .arg(dir.path())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        text.contains("T006.upstream_manifest_missing") && text.contains("2026-02-11.jsonl:1"),
        "{text}"
    );
    Command::cargo_bin("summarizer")
        .unwrap()
        .env_clear()
        .args(["verify", "/nowhere"])
        .assert()
        .code(5);
}

/// `add` and `import text` name files in different ways. A text that one of them took is not taken again by
/// the other, and an edited file is a new version of the same document.
#[test]
fn a_text_that_was_added_is_not_imported_beside_itself() {
    let dir = tempfile::tempdir().unwrap();
    let docs = dir.path().join("notes");
    let one = write(docs.join("one.md"), b"# A pump\n\nAna repaired the pump on Monday.\n");
    write(docs.join("deep/two.txt"), b"Bo repaired the roof in May.\n");
    let docs = docs.display().to_string();
    let deep = dir.path().join("notes/deep").display().to_string();
    let import = ["import", "text", &docs];
    let add = ["add", "--no-wait", &docs];
    let chunks = |home: &Path| {
        let files = tree(&home.join("buses/chunks/canonical"));
        let files = files.values().map(|bytes| String::from_utf8(bytes.clone()).unwrap());
        files.map(|text| text.lines().count()).sum::<usize>()
    };

    let added = dir.path().join("added");
    run(&added, &["init"]);
    run_lines(&added, &add);
    let before = tree(&added.join("buses"));
    for args in [&import, &["import", "text", &deep], &["import", "text", &one]] {
        let again = run(&added, args);
        assert_eq!(
            (&again["added"], again["known"].as_u64() > Some(0)),
            (&0.into(), true),
            "{args:?}"
        );
    }
    assert_eq!(tree(&added.join("buses")), before);
    // A partition that a person chose is theirs.
    assert_eq!(run(&added, &["import", "text", &docs, "--partition", "mine"])["added"], 2);
    std::fs::write(&one, "# A pump\n\nAna sold the pump on Friday.\n").unwrap();
    assert_eq!(run(&added, &import)["added"], 1);
    let grown = std::fs::read_to_string(added.join("buses/chunks/canonical/notes.jsonl")).unwrap();
    let names: Vec<&str> = grown.lines().filter(|line| line.contains("pump")).collect();
    assert_eq!(names.len(), 2);
    assert!(names.iter().all(|line| line.contains("\"source_uri\":\"notes/one.md\"")), "{names:?}");
    assert_eq!(run(&added, &["verify"])["violations_total"], 0);

    let imported = dir.path().join("imported");
    run(&imported, &["init"]);
    assert_eq!(run(&imported, &import)["added"], 2);
    run_lines(&imported, &add);
    assert_eq!(chunks(&imported), 2, "add takes what is there");
    run_lines(&imported, &["drain"]);
    let read = run_lines(&imported, &["read"]);
    assert_eq!(read.len(), 2, "and it is summarized: {read:?}");
    assert_eq!(run(&imported, &["verify"])["violations_total"], 0);
}

/// A folder has more than what is read: nobody should think that all of it was taken.
#[test]
fn files_with_other_endings_are_counted_by_their_ending() {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path().join("home");
    let docs = dir.path().join("docs");
    for (name, text) in [("a.md", "One."), ("b.xyz", "Two."), ("deep/c.XYZ", "Three."), ("d", "4.")]
    {
        write(docs.join(name), text.as_bytes());
    }
    let docs = docs.display().to_string();
    let report = run(&home, &["import", "text", &docs]);
    assert_eq!(report["passed_over"], serde_json::json!({"": 1, "xyz": 2}), "{report}");
    write(dir.path().join("mail/old.pst"), b"x");
    write(dir.path().join("mail/all.mbox"), MBOX.as_bytes());
    let mail = dir.path().join("mail").display().to_string();
    let report = run(&home, &["import", "mail", &mail]);
    assert_eq!(report["passed_over"], serde_json::json!({"pst": 1}), "{report}");
    std::fs::remove_file(dir.path().join("mail/all.mbox")).unwrap();
    let output = Command::cargo_bin("summarizer")
        .unwrap()
        .env_clear()
        .args(["--home", home.to_str().unwrap(), "import", "mail", &mail])
        .output()
        .unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(5), "{said}");
    assert!(said.contains("it passed over 1 .pst"), "{said}");
}

/// The content of a file decides whether it is a text, and its encoding does not matter.
#[test]
fn a_folder_of_texts_is_read_by_content() {
    let dir = tempfile::tempdir().unwrap();
    let (home, docs) = (dir.path().join("home"), dir.path().join("docs"));
    let words = "El año nuevo empieza el lunes.";
    let latin: Vec<u8> = words.chars().map(|c| c as u8).collect();
    let wide: Vec<u8> = words.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let page = b"<html><head><meta charset=\"iso-8859-1\"></head><body><p>El a\xf1o nuevo</p></body></html>";
    for (name, bytes) in [
        ("utf8.md", words.as_bytes()),
        ("latin.md", &latin),
        ("wide.txt", &[b"\xff\xfe".as_slice(), &wide].concat()),
        ("page.html", page),
        ("paper.md", b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\nbroken."),
        ("photo.txt", b"\x89PNG\r\n\x1a\n\0\0\0\0"),
        ("old.rst", b"\0\x01\x02\x03"),
    ] {
        write(docs.join(name), bytes);
    }
    let report = run(&home, &["import", "text", &docs.display().to_string()]);
    let rejected = report["rejected"].as_array().unwrap();
    let mut names: Vec<&str> = rejected.iter().map(|one| one["file"].as_str().unwrap()).collect();
    names.sort_unstable();
    assert_eq!(names, ["old.rst", "paper.md", "photo.txt"], "{report}");
    let texts = tree(&home)
        .into_iter()
        .filter(|(path, _)| path.extension().is_some_and(|end| end == "jsonl"));
    let texts: String = texts.map(|(_, bytes)| String::from_utf8(bytes).unwrap()).collect();
    assert_eq!(texts.matches("\"text\":\"El año nuevo").count(), 4, "{texts}");
}

#[test]
fn an_imported_file_is_not_gone_and_counts_on_one_day() {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path().join("home");
    let text =
        "---\ndate: 2026-02-03T23:30:00-05:00\n---\n\nThe pumps were ordered in Lima on Tuesday.\n";
    let folder = dir.path().join("notes");
    write(folder.join("call.md"), text.as_bytes());
    run(&home, &["init"]);
    run(&home, &["import", "text", &folder.display().to_string()]);
    run_lines(&home, &["submit", "--all-new"]);
    run_lines(&home, &["drain", "--digests"]);
    let read = run_lines(&home, &["read", "call.md"]);
    assert_eq!(read[0]["day"], "2026-02-04", "the day in the zone of the home");
    assert!(read[0]["file_gone"].is_null(), "{}", read[0]);
    let shown = run_lines(&home, &["digest", "show", "--day", "2026-02-04"]);
    assert!(shown[0].to_string().contains("Lima"), "{shown:?}");
}

/// An event has a day, so each item of a feed that has none is a document.
#[test]
fn items_of_a_feed_without_a_date_are_read() {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path().join("home");
    let xml = "<rss version=\"2.0\"><channel><title>Village news</title>\
        <item><title>Fair</title><guid>1</guid><description>The fair takes place in the gym.\
        </description></item>\
        <item><title>Bus</title><guid>2</guid><description>Bus 4 no longer stops at the mill.\
        </description></item></channel></rss>";
    let json = r#"{"version": "https://jsonfeed.org/version/1.1", "title": "Garden", "items": [
        {"id": "1", "title": "Beds", "content_text": "The beds get new soil."},
        {"id": "2", "title": "Pond", "date_published": "2026-03-01T10:00:00Z",
         "content_text": "The pump of the pond broke."}]}"#;
    let xml = write(dir.path().join("village.xml"), xml.as_bytes());
    let json = write(dir.path().join("garden.json"), json.as_bytes());
    let texts = |args: &[&str]| {
        let found = run_lines(&home, args);
        found.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    };
    run_lines(&home, &["add", "--init", &xml, &json]);
    for (args, wanted) in
        [(["sum", &xml], ["the gym", "the mill"]), (["sum", &json], ["new soil", "The pump"])]
    {
        let said = texts(&args);
        assert!(wanted.iter().all(|words| said.contains(words)), "{args:?}: {said}");
    }
    let said = texts(&["read"]);
    for wanted in ["the gym", "the mill", "new soil", "The pump"] {
        assert!(said.contains(wanted), "{wanted}: {said}");
    }
    let again = run_lines(&home, &["add", &xml, &json]).pop().unwrap();
    assert_eq!((&again["records_added"], &again["as_before"]), (&0.into(), &4.into()), "{again}");
}

/// A list is known by its first items; the others may be written otherwise.
#[test]
fn every_item_of_a_list_is_read_or_named() {
    let first = r#"{"url":"https://x/1","title":"A","content":"Alpha roofs leak.","published_at":"2026-02-10T10:00:00Z"}"#;
    let link = r#""url":"https://x/2","title":"B""#;
    for (number, (second, date)) in [
        format!("{{{link},\"body\":\"Beta windows break.\""),
        format!("{{{link},\"text\":\"Beta windows break.\""),
        format!("{{{link},\"note\":\"Beta windows break.\""),
        format!("{{{link},\"content\":{{\"html\":\"<p>Beta windows <b>break</b>.</p>\"}}"),
        format!("{{{link},\"content\":[{{\"value\":\"Beta windows break.\"}}]"),
        "{\"url\":\"https://x/2\",\"title\":\"Beta windows break.\"".to_owned(),
        "\"Beta windows break.\"".to_owned(),
    ]
    .into_iter()
    .flat_map(|second| match second.starts_with('{') {
        true => vec![
            (format!("{second}}}"), "undated"),
            (format!("{second},\"published_at\":\"2026-02-10T11:00:00Z\"}}"), "dated"),
        ],
        false => vec![(second, "undated")],
    })
    .enumerate()
    {
        for list in [format!("{first}\n{second}\n"), format!("[{first},\n{second}]")] {
            let dir = tempfile::tempdir().unwrap();
            let home = dir.path().join("home");
            let name = if list.starts_with('[') { "k.json" } else { "k.jsonl" };
            let file = write(dir.path().join(name), list.as_bytes());
            let said = |args: &[&str]| {
                let found = run_lines(&home, args);
                found.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
            };
            run_lines(&home, &["add", "--init", &file]);
            let read = said(&["read"]);
            let summed = said(&["sum", &file, "--length", "long"]);
            for (way, text) in [("sum", summed), ("add", read)] {
                for words in ["Alpha roofs leak", "Beta windows break"] {
                    assert!(text.contains(words), "{way} {number} {date} {list}: {text}");
                }
            }
        }
    }
}

#[test]
fn an_item_without_words_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path().join("home");
    let list = "{\"url\":\"https://x/1\",\"title\":\"A\",\"content\":\"Alpha roofs leak.\",\"published_at\":\"2026-02-10\"}\nnull\n";
    let file = write(dir.path().join("k.jsonl"), list.as_bytes());
    let made = run(&home, &["import", "rss-json", &file]);
    assert_eq!((&made["added"], &made["rejected"][0]["why"]), (&1.into(), &"no words".into()));
    // Fields that a person names are those of the text.
    let lines =
        "{\"when\":1770800000000,\"body\":\"row\"}\n{\"when\":1770800000001,\"note\":\"x\"}\n";
    let lines = write(dir.path().join("rows.jsonl"), lines.as_bytes());
    let named = run(&home, &["import", "jsonl", &lines, "--time", "when", "--text", "body"]);
    assert_eq!((&named["added"], &named["rejected"][0]["number"]), (&1.into(), &2.into()));
}

/// The records of the event bus, in the order of the files.
fn events(home: &Path) -> Vec<serde_json::Value> {
    let files = tree(&home.join("buses/eventbus/daily"));
    let lines = files.values().flat_map(|data| data.split(|byte| *byte == b'\n'));
    let lines = lines.filter(|line| !line.is_empty());
    lines.map(|line| serde_json::from_slice(line).unwrap()).collect()
}

/// A conversation is asked for as a whole, whichever command brought its messages.
#[test]
fn messages_of_a_conversation_become_sessions() {
    let line = |channel: &str, hour: u32, who: &str| {
        serde_json::json!({"room": channel, "when": format!("2026-02-11T{hour:02}:00:00Z"), "by": who,
            "said": format!("{who} paints the door of {channel} at {hour}."), "sent_at": format!("2026-02-11T{hour:02}:00:00Z"),
            "text": format!("{who} paints the door of {channel} at {hour}."), "conversation_id": channel})
        .to_string()
    };
    let lines =
        [line("a", 9, "Ana"), line("a", 10, "Ben"), line("b", 9, "Eva"), line("a", 20, "Ana")];
    let dir = tempfile::tempdir().unwrap();
    let file = write(dir.path().join("rooms.jsonl"), lines.join("\n").as_bytes());
    let fields = ["--time", "when", "--text", "said", "--conversation", "room"];
    for args in [
        [&["import", "jsonl", &file], &fields[..]].concat(),
        vec!["import", "chat-export", &file],
        vec!["import", "jsonl", &file, "--time", "when", "--text", "said"],
    ] {
        let home = dir.path().join(format!("home{}", args.len()));
        run(&home, &["init"]);
        run(&home, &args);
        run(&home, &["submit", "--all-new"]);
        let queue = std::fs::read_to_string(home.join("run/queue.jsonl")).unwrap();
        let kinds: Vec<serde_json::Value> = queue
            .lines()
            .map(|line| {
                serde_json::from_str::<serde_json::Value>(line).unwrap()["work"]["summary_kind"]
                    .clone()
            })
            .collect();
        match args.len() == 7 {
            // Nobody said which member is the conversation.
            true => assert_eq!(kinds, ["event_summary"; 4]),
            false => {
                assert_eq!(kinds, ["session_summary"; 3], "a long pause begins another session")
            }
        }
        assert_eq!(run(&home, &args)["added"], 0, "the same file again adds nothing");
    }
}

/// The program that reads PDF files may be replaced by one that finds another text in them.
#[test]
fn the_same_file_adds_nothing_when_another_reader_finds_another_text() {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path().join("home");
    run(&home, &["init"]);
    let bill = write(dir.path().join("bill.pdf"), b"%PDF-1.4\nnothing that is read here\n");
    let chunks = || {
        let files = tree(&home.join("buses/chunks"));
        let data = files
            .into_iter()
            .filter(|(path, _)| path.extension().is_some_and(|one| one == "jsonl"));
        data.map(|(_, bytes)| String::from_utf8(bytes).unwrap()).collect::<String>()
    };
    for text in ["The bill asks for 85 EUR.", "The bill of May asks for 85 EUR by Friday."] {
        let settings = format!("[extract]\npdf = [\"echo\", \"{text}\"]\n");
        write(home.join("summarizer.toml"), settings.as_bytes());
        run_lines(&home, &["add", "--no-wait", &bill]);
    }
    assert_eq!(chunks().lines().count(), 1, "{}", chunks());
    assert!(chunks().contains("The bill asks for 85 EUR."));
}

#[test]
fn exports_of_chats_are_imported_as_add_takes_them() {
    let dir = tempfile::tempdir().unwrap();
    let exports = dir.path().join("exports");
    let turn = |id: &str, who: &str, text: &str| serde_json::json!({"uuid": id, "sender": who, "text": text, "created_at": "2026-02-03T10:00:00Z"});
    let claude = serde_json::json!([{"uuid": "u1", "name": "Tax letter", "created_at": "2026-02-03T10:00:00Z",
        "chat_messages": [turn("x1", "human", "When is the tax due?"),
            turn("x2", "assistant", "It is due on 31 July 2026.")]}]);
    let message = |id: &str, who: &str, text: &str| {
        serde_json::json!({"id": id, "author": {"role": who}, "create_time": 1_770_000_000.0,
            "content": {"content_type": "text", "parts": [text]}})
    };
    let gpt = serde_json::json!([{"id": "c1", "title": "Stove", "create_time": 1_770_000_000.0, "current_node": "n2",
        "mapping": {
            "n1": {"id": "n1", "parent": null, "children": ["n2"], "message": message("m1", "user", "How do I clean it?")},
            "n2": {"id": "n2", "parent": "n1", "children": [], "message": message("m2", "assistant", "Use soap and water.")}}}]);
    let projects = serde_json::json!([{"uuid": "p1", "name": "Garden", "description": "", "prompt_template": "",
        "created_at": "2026-01-01T00:00:00Z", "docs": [{"uuid": "d1", "filename": "beds.md",
            "content": "The beds are dug in March.", "created_at": "2026-01-02T00:00:00Z"}]},
        {"uuid": "p2", "name": "Roof", "description": "", "prompt_template": "", "docs": [{"uuid": "d2",
            "filename": "offer.md", "content": "The roof costs 900 EUR.", "created_at": "2026-01-03T00:00:00Z"}]}]);
    write(exports.join("claude/conversations.json"), claude.to_string().as_bytes());
    write(exports.join("claude/projects.json"), projects.to_string().as_bytes());
    write(exports.join("gpt/conversations.json"), gpt.to_string().as_bytes());
    let home = dir.path().join("home");
    run(&home, &["init"]);
    let exports = exports.display().to_string();
    let args = ["import", "chat-export", &exports];
    assert_eq!(run(&home, &args)["added"], 8, "four messages, two sessions and two documents");
    assert_eq!(run(&home, &args)["added"], 0, "the same exports again add nothing");
    let asked = run(&home, &["add", "--no-wait", &exports]);
    assert_eq!(asked["asked"], 4, "two chats and two projects: {asked}");
    run_lines(&home, &["drain"]);
    let roof = run_lines(&home, &["read", "--project", "Roof"]);
    let text = roof[0].to_string();
    assert!(roof.len() == 1 && text.contains("900") && !text.contains("beds"), "{roof:?}");
    let sessions: Vec<String> = tree(&home)
        .into_iter()
        .filter(|(path, _)| path.to_string_lossy().ends_with(".sessions.jsonl"))
        .map(|(_, bytes)| String::from_utf8(bytes).unwrap())
        .collect();
    for title in ["Tax letter", "Stove"] {
        assert!(sessions.iter().any(|text| text.contains(title)), "{title}: {sessions:?}");
    }
}

#[test]
fn messages_that_differ_in_their_author_their_conversation_or_a_wide_id_are_kept_apart() {
    let lines = [
        r#"{"timestamp":"2026-02-11T10:00:00Z","author":"Zoe","text":"Yes."}"#,
        r#"{"timestamp":"2026-02-11T10:00:00Z","author":"Ben","text":"Yes."}"#,
        r#"{"timestamp":"2026-02-11T10:00:00Z","from":"Ana","text":"Yes."}"#,
        r#"{"id":"1","conversation_id":"a","timestamp":"2026-02-11T10:00:01Z","text":"No."}"#,
        r#"{"id":"1","conversation_id":"b","timestamp":"2026-02-11T10:00:01Z","text":"No."}"#,
        r#"{"id":123456789012345678901,"timestamp":"2026-02-11T10:00:02Z","text":"One."}"#,
        r#"{"id":123456789012345678902,"timestamp":"2026-02-11T10:00:02Z","text":"One."}"#,
    ];
    let list = format!("[{}]", lines.join(","));
    for (name, text) in [("m.jsonl", lines.join("\n")), ("m.json", list)] {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().join("home");
        run(&home, &["init"]);
        let file = write(dir.path().join(name), text.as_bytes());
        let added = &run(&home, &["import", "chat-export", &file])["added"];
        assert_eq!(
            added, 10,
            "{name}: seven messages, the sessions of two conversations and of the file"
        );
        assert_eq!(run(&home, &["import", "chat-export", &file])["added"], 0, "{name}");
        let all = events(&home);
        let said = |record: &serde_json::Value| {
            let who = ["author", "from", "conversation_id"].map(|name| record[name].as_str());
            who.into_iter().flatten().next().unwrap_or_default().to_owned()
        };
        let said: Vec<String> = all.iter().map(said).collect();
        assert_eq!(said, ["Zoe", "Ben", "Ana", "a", "b", "", ""], "{name}");
        let wide = ["123456789012345678901", "123456789012345678902"];
        assert!(all[5..].iter().zip(wide).all(|(one, id)| one["event_id"] == id), "{all:?}");
    }
}

/// A line or an item that holds a whole conversation is a session of its own: roles, authors and times stay.
#[test]
fn each_record_with_messages_is_a_session_on_every_way_in() {
    let chats = [
        serde_json::json!({"id": "c1", "title": "Lease", "messages": [
            {"id": "m1", "role": "user", "author": "Ana", "time": "2026-02-11T23:30:00-05:00", "content": "Who signs the lease?"},
            {"id": "m2", "role": "assistant", "time": "2026-02-12T00:10:00-05:00", "content": "The tenant signs it."}]}),
        serde_json::json!({"id": "c2", "messages": [
            {"id": "m1", "role": "user", "name": "Ben", "timestamp": 1_770_872_400, "content": "The boiler is broken."},
            {"id": "m2", "role": "user", "content": "I call the plumber."}]}),
        serde_json::json!({"messages": [
            {"role": "agent", "author": {"name": "Cleo"}, "created_at": "2026-02-13 09:15", "text": "The gate needs paint."}]}),
    ];
    let said = [
        ("user", "Ana", "2026-02-11T23:30:00-05:00", "Who signs the lease?"),
        ("assistant", "", "2026-02-12T00:10:00-05:00", "The tenant signs it."),
        ("user", "Ben", "", "The boiler is broken."),
        ("user", "", "", "I call the plumber."),
        ("agent", "Cleo", "2026-02-13T09:15:00", "The gate needs paint."),
    ];
    let lines = chats.iter().map(|chat| format!("{chat}\n")).collect::<String>();
    let list = serde_json::Value::Array(chats.to_vec()).to_string();
    let whole = serde_json::json!({"conversations": chats}).to_string();
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in [("chats.jsonl", lines), ("list.json", list), ("whole.json", whole)] {
        let file = write(dir.path().join(name), text.as_bytes());
        for command in [&["add"][..], &["import", "chat-export"]] {
            let home = dir.path().join(format!("{name}-{}", command.len()));
            run(&home, &["init"]);
            let args = [command, &[&file]].concat();
            if command.len() == 1 {
                drop(run_lines(&home, &args))
            } else {
                drop(run(&home, &args))
            }
            let text = |event: &serde_json::Value, member: &str| {
                event[member].as_str().unwrap_or_default().to_owned()
            };
            let mut found: Vec<_> = events(&home)
                .iter()
                .map(|event| ["role", "author", "timestamp", "content"].map(|one| text(event, one)))
                .collect();
            let mut wanted: Vec<_> =
                said.iter().map(|(a, b, c, d)| [a, b, c, d].map(|one| (*one).to_owned())).collect();
            found.sort();
            wanted.sort();
            assert_eq!(found, wanted, "{name} {command:?}");
            let sessions = tree(&home.join("buses/sessions/daily"));
            let sessions: usize = sessions
                .iter()
                .filter(|(path, _)| path.extension().is_some_and(|end| end == "jsonl"))
                .map(|(_, data)| data.iter().filter(|byte| **byte == b'\n').count())
                .sum();
            assert_eq!(sessions, 3, "{name} {command:?}");
        }
        let home = dir.path().join("sum");
        run(&home, &["init"]);
        let mut summed = run_lines(&home, &["sum", &file]);
        summed.retain(|one| one["source"].is_string());
        assert_eq!(summed.len(), 3, "{summed:?}");
        assert_eq!(summed[0]["title"], "Lease");
    }
}

/// What cannot be read of such a file is named by its place, and a message that says when it was sent is kept.
#[test]
fn a_conversation_without_times_and_a_damaged_line_are_named_beside_the_others() {
    let dir = tempfile::tempdir().unwrap();
    let text = "{\"id\": \"a\", \"messages\": [{\"role\": \"user\", \"time\": \"2026-02-11T10:00:00Z\", \"content\": \"One.\"}]}\n\
                {\"id\": \"b\", \"messages\": [{\"role\": \"user\", \"content\": \"Two.\"}]}\n{\"id\": \"c\",\n\
                {\"role\": \"user\", \"conversation_id\": \"d\", \"time\": \"2026-02-11T11:00:00Z\", \"content\": \"Three.\"}\n";
    let file = write(dir.path().join("mixed.jsonl"), text.as_bytes());
    let home = dir.path().join("home");
    run(&home, &["init"]);
    let report = run(&home, &["import", "chat-export", &file]);
    let told = report["rejected"].as_array().unwrap();
    let told: Vec<_> = told.iter().map(|one| one["why"].as_str().unwrap().to_owned()).collect();
    assert_eq!(told.len(), 2, "{report}");
    assert!(told.iter().any(|why| why.contains("no message has a time")), "{told:?}");
    assert!(told.iter().any(|why| why.contains("not JSON")), "{told:?}");
    let events = events(&home);
    let texts: Vec<_> = events.iter().map(|one| one["content"].as_str().unwrap()).collect();
    assert_eq!(texts, ["One.", "Three."]);
}

/// A clock time without an offset stays one on the way through `add`: it is no exact moment, and no bare day.
#[test]
fn a_note_keeps_a_clock_time_without_an_offset() {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path().join("home");
    run(&home, &["init"]);
    write(home.join("summarizer.toml"), b"timezone = \"America/Bogota\"\n");
    let note = "---\ndate: 2026-02-11 23:30\n---\nThe roof leaks.\n";
    let chat = "{\"id\": \"q\", \"created_at\": \"2026-02-11\", \"title\": \"Roof\", \"messages\": [\
                {\"role\": \"user\", \"content\": \"The roof leaks.\"}]}\n";
    for (name, text, precision, at) in [
        ("note.md", note, "local", "2026-02-12T04:30:00.000Z"),
        ("chat.jsonl", chat, "day", "2026-02-11T12:00:00.000Z"),
    ] {
        let file = write(dir.path().join(name), text.as_bytes());
        run_lines(&home, &["add", &file]);
        let told = run_lines(&home, &["read", "--json"]);
        let items = tree(&home.join("buses/summaries"));
        let lines = items
            .into_iter()
            .filter(|(path, _)| path.extension().is_some_and(|end| end == "jsonl"));
        let lines = lines.flat_map(|(_, data)| {
            String::from_utf8(data).unwrap().lines().map(str::to_owned).collect::<Vec<_>>()
        });
        let mut lines = lines.map(|line| serde_json::from_str::<serde_json::Value>(&line).unwrap());
        let item = lines.find(|item| item["meta"]["ts_precision"] == precision);
        let item = item.unwrap_or_else(|| panic!("{name}: {told:?}"));
        assert_eq!(item["ts_abs"], at, "{name}");
    }
}
