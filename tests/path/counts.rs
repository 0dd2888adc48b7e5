//! What a command says of what it did not take: counts and reasons, as text and as JSON.

use serde_json::{Value, json};

use crate::{home, person_with, says, sources_of};

/// A node of a conversation of ChatGPT.
fn node(
    id: &str,
    parent: Value,
    children: &[&str],
    message: Option<(&str, Value)>,
) -> (String, Value) {
    let message = message.map(|(role, content)| {
        json!({"id": id, "author": {"role": role}, "create_time": 1_770_800_000, "content": content})
    });
    let node = json!({"id": id, "parent": parent, "children": children, "message": message});
    (id.to_owned(), node)
}

fn words(text: &str) -> Value {
    json!({"content_type": "text", "parts": [text]})
}

/// A question that was edited, a thought, instructions, and a message without words.
fn chatgpt() -> String {
    let instructions =
        json!({"content_type": "user_editable_context", "user_profile": "I have a house."});
    let thought =
        json!({"content_type": "thoughts", "thoughts": [{"content": "I think of seals."}]});
    let nodes = [
        node("a", Value::Null, &["b"], Some(("system", instructions))),
        node("b", json!("a"), &["c", "d"], Some(("user", words("How do I mend the pump?")))),
        node(
            "c",
            json!("b"),
            &[],
            Some(("assistant", words("An answer that was asked for again."))),
        ),
        node("d", json!("b"), &["e"], Some(("assistant", thought))),
        node("e", json!("d"), &["f"], Some(("assistant", words("Replace the seal of the pump.")))),
        node("f", json!("e"), &[], Some(("user", words("")))),
    ];
    let mapping: serde_json::Map<String, Value> = nodes.into_iter().collect();
    json!([{"title": "Pump", "conversation_id": "c1", "current_node": "f", "mapping": mapping}])
        .to_string()
}

/// An answer that was asked for again, a thought, and a message with nothing but a picture.
fn claude() -> String {
    let message = |id: &str, parent: &str, sender: &str, content: Value| {
        json!({"uuid": id, "parent_message_uuid": parent, "sender": sender, "content": content,
            "created_at": "2026-02-11T10:00:00Z"})
    };
    let text = |text: &str| json!({"type": "text", "text": text});
    let messages = json!([
        message("a", "0", "human", json!([text("Where do we go in May?")])),
        message("b", "a", "assistant", json!([text("Go to Porto.")])),
        message(
            "c",
            "a",
            "assistant",
            json!([{"type": "thinking", "thinking": "Hm."}, text("Go to Lisbon in May.")])
        ),
        message("d", "c", "human", json!([])),
        message("e", "d", "assistant", json!([text("The tower of Lisbon is old.")])),
    ]);
    json!([{"uuid": "u", "name": "Trip", "created_at": "2026-02-11T10:00:00Z", "chat_messages": messages}]).to_string()
}

/// A channel of Slack with a note that somebody came, and a file without words; and one with notes only.
fn slack() -> [(&'static str, String); 2] {
    let joined = json!({"type": "message", "subtype": "channel_join", "user": "U1", "ts": "1770800001.0001",
        "text": "<@U1> has joined the channel"});
    let said = json!({"type": "message", "user": "U1", "ts": "1770800000.0001", "text": "The server moves on Friday."});
    let file = json!({"type": "message", "user": "U1", "ts": "1770800002.0001", "text": "", "files": [{"name": "plan.pdf"}]});
    [
        ("mine/slack/general/2026-02-11.json", json!([said, joined, file]).to_string()),
        ("mine/slack/empty/2026-02-11.json", json!([joined]).to_string()),
    ]
}

#[test]
fn an_export_says_how_many_messages_no_summary_has_and_why() {
    let [general, empty] = slack();
    for (name, text, counts, told, silent) in [
        (
            "mine/conversations.json",
            chatgpt(),
            json!({"other_branch": 1, "hidden": 2, "thoughts": 0}),
            "1 message edited away or answered again, 2 messages hidden",
            true,
        ),
        (
            "mine/claude.json",
            claude(),
            json!({"other_branch": 1, "hidden": 0, "thoughts": 1}),
            "1 message edited away or answered again, 1 thought of a model",
            true,
        ),
        (
            general.0,
            general.1,
            json!({"other_branch": 0, "hidden": 1, "thoughts": 0}),
            "1 message hidden or of the program itself",
            true,
        ),
        (
            empty.0,
            empty.1,
            json!({"other_branch": 0, "hidden": 1, "thoughts": 0}),
            "1 message hidden or of the program itself",
            false,
        ),
    ] {
        let person = person_with(&[(name, &text)]);
        let add = home(&["add", "--init", "mine"]);
        for args in [&["sum", "mine"][..], &["sum", "mine", "--together"], &add] {
            let ran = person.run(0, args);
            says(&ran.err, &[told, "part of no summary"]);
            assert_eq!(
                ran.err.contains("1 message without words"),
                silent,
                "{args:?}\n{}",
                ran.err
            );
            assert_eq!(ran.err.contains("a conversation without words"), !silent, "{}", ran.err);
            let rows = person.json(0, args);
            let last = rows.last().unwrap();
            assert_eq!(last["messages_left_out"], counts, "{args:?} {name}");
        }
    }
}

/// Faults within a file are counted by their reason, each with its place.
#[test]
fn damaged_lines_are_named_with_their_place_and_counted_together() {
    let message = |at: u8| {
        let text = format!("The roof costs {at}00 EUR. We decide on Monday.");
        let role = if at.is_multiple_of(2) { "user" } else { "assistant" };
        json!({"role": role, "content": text, "timestamp": format!("2026-02-11T10:{at:02}:00Z")})
    };
    let text = format!("{}\n{{broken\n{}\n{{broken\n{}\n", message(1), message(2), message(3));
    let person = person_with(&[("mine/chat.jsonl", &text)]);
    for args in [&["sum", "mine"][..], &home(&["add", "--init", "mine"])] {
        let ran = person.run(1, args);
        says(&ran.err, &["chat.jsonl: line 2: not JSON", "chat.jsonl: line 4: not JSON"]);
        says(&ran.err, &["skipped 2: 2 .jsonl (not JSON)"]);
        let skipped = person.json(1, args).last().unwrap()["skipped"].clone();
        says(skipped[1]["why"].as_str().unwrap(), &["line 4: not JSON"]);
    }
}

/// A file that its reader refuses was not read, and is not counted as if it was.
#[test]
fn a_refused_file_is_not_counted_as_read() {
    let person = person_with(&[
        ("mine/roof.md", "The roof costs 900 EUR. We decide on Monday.\n"),
        ("mine/broken.xml", "<rss><channel><item><title>Cut"),
        ("mine/rows.json", "[{\"a\": \"words\"}, {"),
    ]);
    let added = person.json(1, &home(&["add", "--init", "mine"]));
    let last = added.last().unwrap();
    let refused = last["skipped"].as_array().unwrap().len();
    assert_eq!((&last["files"], refused), (&json!(1), 2), "{last}");
    says(&person.run(1, &home(&["add", "mine"])).err, &["1 file, 1 as before; skipped 2"]);
    let only = person.json(1, &home(&["add", "mine/rows.json"]));
    assert_eq!(only.last().unwrap()["files"], 0, "{only:?}");
    assert_eq!(sources_of(&person.json(0, &home(&["read"]))), ["mine/roof.md"]);
}

/// A folder is found by the names that it was added with, also when it is gone.
#[test]
fn a_watched_folder_is_removed_by_any_name_of_its_place() {
    for (is_gone, name) in [
        (false, "notes"),
        (true, "notes"),
        (true, "./notes/"),
        (true, "other/../notes"),
        (true, "~"),
    ] {
        let person =
            person_with(&[("notes/a.md", "The roof is old.\n"), ("other/b.md", "Words.\n")]);
        person.run(0, &home(&["init"]));
        person.run(0, &home(&["watch", "add", "notes"]));
        if is_gone {
            std::fs::remove_dir_all(person.path("notes")).unwrap();
        }
        let absolute = person.path("notes").display().to_string();
        let name = if name == "~" { absolute.as_str() } else { name };
        person.run(0, &home(&["watch", "remove", name]));
        assert!(person.json(0, &home(&["watch", "list"])).is_empty(), "{name}");
    }
    // A relative name in the settings is one in the home, and `watch list` shows it.
    let person = person_with(&[("home/texts/a.md", "The roof is old.\n")]);
    person.run(0, &home(&["init"]));
    for name in ["texts", "home/texts"] {
        let settings = std::fs::read_to_string(person.path("home/summarizer.toml")).unwrap();
        let settings = format!("{settings}\n[[watch]]\nfolder = 'texts'\n");
        std::fs::write(person.path("home/summarizer.toml"), settings).unwrap();
        person.run(0, &home(&["watch", "remove", name]));
        assert!(person.json(0, &home(&["watch", "list"])).is_empty(), "{name}");
    }
}
