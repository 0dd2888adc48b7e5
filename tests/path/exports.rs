//! The exports of ChatGPT, Claude and Telegram as a person gets them: an archive, and what stands in it beside the chats.

use std::io::Write as _;
use std::process::Stdio;

use serde_json::{Value, json};

use super::folder::zip;
use crate::{Person, home, person_with, says};

/// A conversation of ChatGPT with one message.
fn conversation(id: &str, title: &str, text: &str, attached: &Value) -> Value {
    let message = json!({
        "id": format!("m-{id}"), "author": {"role": "user"}, "create_time": 1_770_800_000,
        "content": {"content_type": "text", "parts": [text]}, "metadata": {"attachments": attached},
    });
    let node = json!({"id": "a", "parent": null, "children": [], "message": message});
    json!({"title": title, "conversation_id": id, "current_node": "a", "create_time": 1_770_800_000, "mapping": {"a": node}})
}

fn shed() -> String {
    let text = "The shed needs a new door before winter, and the door costs 300 EUR.";
    json!([conversation("c1", "Shed", text, &json!([]))]).to_string()
}

fn lamp() -> String {
    let text = "The lamp in the hall flickers since Monday, and Ana will change the switch.";
    json!([conversation("c2", "Lamp", text, &json!([]))]).to_string()
}

/// What ChatGPT keeps beside the conversations.
const BESIDE: [(&str, &str); 5] = [
    ("chat.html", "<html><body><p>All chats of Ana are shown here.</p></body></html>"),
    ("message_feedback.json", r#"[{"id": "f1", "note": "The answer was good and helpful."}]"#),
    ("model_comparisons.json", r#"[{"id": "m1", "text": "Which of the two answers is better?"}]"#),
    ("shared_conversations.json", r#"[{"id": "s1", "title": "The shed that I shared"}]"#),
    ("user.json", r#"{"id": "user-1", "email": "a@b.c"}"#),
];

/// A person with the export of ChatGPT as an archive, and unpacked.
fn person() -> Person {
    let (shed, lamp) = (shed(), lamp());
    let plan = "The plan of the garden: we plant two trees at the fence in April.";
    let mut files = vec![
        ("conversations-000.json", shed.as_str()),
        ("conversations-001.json", &lamp),
        ("plan.txt", plan),
    ];
    files.extend(BESIDE);
    let folder: Vec<(String, &str)> =
        files.iter().map(|(name, text)| (format!("export/{name}"), *text)).collect();
    let folder: Vec<(&str, &str)> = folder.iter().map(|(name, text)| (&name[..], *text)).collect();
    let person = person_with(&folder);
    std::fs::write(person.path("export.zip"), zip(&files)).unwrap();
    person
}

#[test]
fn an_archive_of_an_export_is_read_as_its_unpacked_folder() {
    let person = person();
    for (path, prefix, texts) in [
        ("export.zip", "export.zip", "export.zip"),
        ("export", "export/conversations-000.json", "export"),
    ] {
        let ran = person.run(0, &["sum", path]);
        says(
            &ran.out,
            &[
                &format!("{prefix}: Shed"),
                "a new door",
                "Lamp",
                "flickers",
                &format!("{texts}/plan.txt"),
            ],
        );
        assert!(!ran.out.contains("user-1") && !ran.out.contains("All chats"), "{}", ran.out);
        says(&ran.err, &["skipped 5: 4 .json (part of the export), 1 .html (part of the export)"]);
        for (name, _) in BESIDE {
            says(&ran.err, &[&format!("{texts}/{name}: part of the export")]);
        }
    }
    let mut sum = person.command(&["sum", "-"]);
    let mut child = sum.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let bytes = std::fs::read(person.path("export.zip")).unwrap();
    child.stdin.take().unwrap().write_all(&bytes).unwrap();
    let out = child.wait_with_output().unwrap();
    says(&String::from_utf8(out.stdout).unwrap(), &["standard input: Shed"]);
}

#[test]
fn an_archive_adds_nothing_to_its_unpacked_folder_and_the_other_way_round() {
    for (first, second) in [("export", "export.zip"), ("export.zip", "export")] {
        let person = person();
        let added = person.run(0, &home(&["add", "--init", first]));
        says(&added.err, &["3 new summaries", "part of the export"]);
        for path in [second, first] {
            let again = person.run(0, &home(&["add", path]));
            says(&again.err, &["3 as before"]);
            assert!(!again.err.contains("new summar"), "{}", again.err);
        }
        for path in [second, first] {
            let again = person.json(0, &home(&["import", "chat-export", path]));
            assert_eq!(again[0]["added"], 0, "{again:?}");
        }
    }
}

#[test]
fn the_archive_is_the_name_of_what_it_holds() {
    let person = person();
    person.run(0, &home(&["add", "--init", "export.zip"]));
    says(
        &person.run(0, &home(&["read", "--last", "9"])).out,
        &["Shed", "Lamp", "export.zip/plan.txt"],
    );
    says(&person.run(0, &home(&["read", "export.zip"])).out, &["a new door", "flickers"]);
    person.run(0, &home(&["forget", "export.zip"]));
    person.run(0, &home(&["forget", "export.zip/plan.txt"]));
    let left = person.run(0, &home(&["read", "--last", "9"]));
    for gone in ["a new door", "flickers", "two trees"] {
        assert!(!left.out.contains(gone), "{}", left.out);
    }
}

#[test]
fn the_archives_of_claude_and_telegram_are_read_too() {
    let claude = json!([{"uuid": "u", "name": "Trip", "created_at": "2026-02-11T10:00:00Z", "chat_messages": [
        {"uuid": "m", "sender": "human", "created_at": "2026-02-11T10:00:00Z", "text": "The train to Lisbon leaves at nine on Friday."}]}]);
    let projects = json!([{"uuid": "p", "name": "Bakery", "description": "The bakery opens in June.", "prompt_template": "",
        "docs": [{"filename": "oven.txt", "content": "The oven must be cleaned each Sunday."}]}]);
    let telegram = json!({"name": "Flat", "type": "private_group", "id": 1, "messages": [
        {"id": 1, "type": "message", "date": "2026-03-05T10:00:00", "date_unixtime": "1772704800", "from": "Ana", "from_id": "user1", "text": "The rent rises by 40 EUR in May."}]});
    let person = person_with(&[]);
    let (claude, projects, telegram) =
        (claude.to_string(), projects.to_string(), telegram.to_string());
    let users = r#"[{"uuid": "acc", "full_name": "A."}]"#;
    let claude = zip(&[
        ("data/conversations.json", &claude),
        ("data/projects.json", &projects),
        ("data/users.json", users),
    ]);
    std::fs::write(person.path("claude.zip"), claude).unwrap();
    let telegram =
        zip(&[("ChatExport/result.json", &telegram), ("ChatExport/photos/a.jpg", "\u{0}\u{1}")]);
    std::fs::write(person.path("telegram.zip"), telegram).unwrap();
    let ran = person.run(0, &["sum", "claude.zip", "telegram.zip"]);
    says(
        &ran.out,
        &[
            "claude.zip: Trip",
            "claude.zip: Bakery",
            "The oven must be cleaned",
            "telegram.zip: Flat",
            "40 EUR",
        ],
    );
    says(&ran.err, &["claude.zip/data/users.json: part of the export"]);
    let added = person.run(0, &home(&["add", "--init", "claude.zip", "telegram.zip"]));
    says(&added.err, &["3 new summaries"]);
}

#[test]
fn other_archives_and_archives_that_cannot_be_read_are_refused_with_a_reason() {
    let export = zip(&[("conversations.json", &shed())]);
    let mut locked = export.clone();
    let directory = locked.windows(4).position(|four| four == b"PK\x01\x02").unwrap();
    (locked[6], locked[directory + 8]) = (1, 1);
    let mut damaged = export.clone();
    damaged[120] ^= 1;
    for (bytes, why) in [
        (zip(&[("a.txt", "The pump works.")]), "archive: unpack it first"),
        (
            zip(&[("conversations.json", r#"{"say": "nothing of chats"}"#)]),
            "archive: unpack it first",
        ),
        (zip(&[("a/b/conversations.json", &shed())]), "archive: unpack it first"),
        (zip(&[("result.json", r#"{"passed": "all the tests"}"#)]), "archive: unpack it first"),
        (locked, "archive with a password: unpack it first"),
        (damaged, "damaged archive"),
        (export[..export.len() / 2].to_vec(), "damaged archive"),
    ] {
        let person = person_with(&[]);
        std::fs::write(person.path("a.zip"), bytes).unwrap();
        let out = person.command(&["sum", "a.zip"]).output().unwrap();
        let err = String::from_utf8(out.stderr).unwrap();
        assert!(!out.status.success(), "{err}");
        says(&err, &[&format!("a.zip: {why}")]);
    }
}

/// An archive may come from anybody.
#[test]
fn an_entry_is_no_file_outside_its_archive() {
    let secret = "The key of the safe lies under the third stone of the wall.";
    let person = person_with(&[("secret.txt", secret)]);
    let outside = person.path("secret.txt").display().to_string();
    let inner = "The well in the garden is dry since August, and we ask Bo.";
    let shed = shed();
    let files = [("conversations.json", &shed[..]), (&outside, inner), ("../secret.txt", inner)];
    std::fs::write(person.path("export.zip"), zip(&files)).unwrap();
    let out = person.command(&["sum", "export.zip"]).output().unwrap();
    let out = String::from_utf8(out.stdout).unwrap();
    says(&out, &["a new door"]);
    assert!(!out.contains("third stone"), "{out}");
}

/// ChatGPT puts the id of a file before its name.
#[test]
fn an_attached_file_that_lies_in_the_export_is_no_file_that_it_does_not_hold() {
    let attached =
        json!([{"id": "file-abc", "name": "starter.jpg"}, {"id": "file-gone", "name": "gone.pdf"}]);
    let text = "The starter of the car clicks and does not turn since Friday.";
    let chat = json!([conversation("c1", "Car", text, &attached)]).to_string();
    let person = person_with(&[("export/conversations.json", &chat)]);
    let picture = b"\xff\xd8\xff\xe0 a picture";
    std::fs::write(person.path("export/file-abc-starter.jpg"), picture).unwrap();
    let ran = person.run(0, &["sum", "export"]);
    says(&ran.err, &["not read: gone.pdf (attached to messages, and not in the export)"]);
    says(&ran.err, &["file-abc-starter.jpg: picture"]);
    let ran = person.run(0, &["sum", "export/conversations.json"]);
    says(&ran.err, &["starter.jpg (attached to messages, and a file of their own beside them)"]);
}
