//! A file read as one document: its text, and what it says about itself.

use serde_json::{Map, Value};

use super::{html, latex, mail, markdown};
use crate::contract::publish;

/// Files of these kinds are read, by the end of their names.
pub const EXTENSIONS: &[&str] =
    &["txt", "md", "markdown", "html", "htm", "tex", "eml", "json", "jsonl"];

/// A file as text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Document {
    /// The format, as the usual end of a file name.
    pub kind: &'static str,
    /// Before normalization. Front matter is no part of it.
    pub text: String,
    pub title: Option<String>,
    /// As it is written.
    pub date: Option<String>,
    pub labels: Vec<String>,
    /// Sender, receivers and id of a mail, as its headers write them.
    pub from: Option<String>,
    pub to: Option<String>,
    pub message_id: Option<String>,
    /// Whether it may be shown to others; `None` where it does not say.
    pub publish: Option<bool>,
}

/// Whether the name of a file says that it is read.
pub fn has_known_name(name: &str) -> bool {
    EXTENSIONS.contains(&extension_of(name).as_str())
}

fn extension_of(name: &str) -> String {
    name.rsplit_once('.').map_or("", |(_, extension)| extension).to_ascii_lowercase()
}

/// Reads a file; its name says how.
pub fn read(name: &str, bytes: &[u8]) -> Result<Document, String> {
    let extension = extension_of(name);
    if extension == "eml" {
        let mail = mail::read(bytes).ok_or("it is no mail message: it has no headers")?;
        return Ok(Document {
            kind: "eml",
            text: mail.text(),
            title: mail.subject,
            date: mail.date,
            from: mail.from,
            to: mail.to,
            message_id: mail.message_id,
            publish: mail.publish,
            ..none()
        });
    }
    if !has_known_name(name) {
        let list = EXTENSIONS.join(", ");
        return Err(format!("files named .{extension} are not read; these are: {list}"));
    }
    let text = std::str::from_utf8(bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes))
        .map_err(|error| format!("it is not UTF-8 (`iconv` converts it): {error}"))?;
    Ok(match extension.as_str() {
        "md" | "markdown" => markdown_document(text),
        "html" | "htm" => {
            let page = html::page(text);
            Document { kind: "html", text: page.text, title: page.title, ..none() }
        }
        "tex" => {
            let paper = latex::paper(text);
            Document { kind: "tex", text: paper.text, title: paper.title, ..none() }
        }
        "json" => {
            let object = serde_json::from_str::<Map<String, Value>>(text);
            let publish = object.ok().and_then(|object| publish::said_by_members(&object));
            Document { kind: "json", text: text.to_owned(), publish, ..none() }
        }
        "jsonl" => {
            let objects = text.lines().filter_map(|line| serde_json::from_str(line).ok());
            let publish = publish::together(objects.map(|one| publish::said_by_members(&one)));
            Document { kind: "jsonl", text: text.to_owned(), publish, ..none() }
        }
        _ => Document { kind: "txt", text: text.to_owned(), ..none() },
    })
}

fn none() -> Document {
    Document::default()
}

fn markdown_document(text: &str) -> Document {
    let body = markdown::body(text);
    let front = markdown::front_matter(text).map(FrontMatter::read).unwrap_or_default();
    Document {
        kind: "md",
        text: body.to_owned(),
        title: front.title.or_else(|| markdown::title(body)),
        date: front.date,
        labels: front.labels,
        publish: front.publish,
        ..none()
    }
}

/// What the front matter of a Markdown document says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct FrontMatter {
    title: Option<String>,
    date: Option<String>,
    labels: Vec<String>,
    publish: Option<bool>,
}

impl FrontMatter {
    fn read(yaml: &str) -> FrontMatter {
        let Ok(members) = serde_saphyr::from_str::<Map<String, Value>>(yaml) else {
            return FrontMatter { publish: publish_of_lines(yaml), ..FrontMatter::default() };
        };
        let member = |wanted: &[&str]| {
            let named = |name: &&str| {
                members
                    .iter()
                    .find(|(key, value)| key.eq_ignore_ascii_case(name) && !value.is_null())
            };
            wanted.iter().find_map(named).map(|(_, value)| value)
        };
        let word = |wanted: &[&str]| member(wanted).and_then(word_of);
        let labels = ["tags", "labels", "categories", "keywords"].iter();
        // An empty value is written on purpose: `publish:` is no yes.
        let empty = members.iter().filter(|(_, value)| value.is_null());
        let empty = empty.map(|(name, _)| publish::said_by_member(name, &Value::Bool(false)));
        let said = publish::said_by_members(&members);
        FrontMatter {
            title: word(&["title"]),
            date: word(&["date", "created", "published"]),
            labels: labels.filter_map(|name| member(&[name])).flat_map(words_of).collect(),
            publish: publish::together(empty.chain([said])),
        }
    }
}

/// Front matter that is no YAML says a clear yes to nothing.
fn publish_of_lines(yaml: &str) -> Option<bool> {
    let names = yaml.lines().filter_map(|line| Some(line.split_once(':')?.0.trim()));
    let said = |name, flag| publish::said_by_member(name, &Value::Bool(flag));
    publish::together(names.flat_map(|name| [said(name, true), said(name, false)]))
}

fn word_of(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.trim().to_owned()).filter(|text| !text.is_empty()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// The words of a list, or of a text with commas.
fn words_of(value: &Value) -> Vec<String> {
    match value {
        Value::Array(list) => list.iter().filter_map(word_of).collect(),
        Value::String(text) => {
            let words = text.split(',').map(str::trim).filter(|word| !word.is_empty());
            words.map(str::to_owned).collect()
        }
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn front_matter_leaves_the_text_and_says_what_the_document_is() {
        let note = "---\ntitle: \"A: b\"\ndate: 2026-02-11\ntags: [x, z]\nPublish: False # mine\n---\n\n# H\n";
        let document = read("note.md", note.as_bytes()).unwrap();
        assert_eq!(document.text, "\n# H\n");
        assert_eq!(document.title.as_deref(), Some("A: b"));
        assert_eq!(document.date.as_deref(), Some("2026-02-11"));
        assert_eq!(
            (document.labels.as_slice(), document.publish),
            (["x".into(), "z".into()].as_slice(), Some(false))
        );
        let plain = read("a.MD", b"# Title\n\ntext").unwrap();
        assert_eq!((plain.title.as_deref(), plain.publish), (Some("Title"), None));
    }

    #[test]
    fn a_flag_that_is_there_and_is_no_clear_yes_is_a_no() {
        for (line, expected) in [
            ("publish: true", Some(true)),
            ("publish: Yes", Some(true)),
            ("published: true", Some(true)),
            ("published: 2026-02-11", None),
            ("publish: false", Some(false)),
            ("Publish: False", Some(false)),
            ("PUBLISH: 'no'", Some(false)),
            ("publish: off", Some(false)),
            ("publish:", Some(false)),
            ("publish: ~", Some(false)),
            ("publish: perhaps", Some(false)),
            ("publish: [true]", Some(false)),
            ("private: true", Some(false)),
            ("private: false", None),
            ("draft: true", Some(false)),
            ("visibility: private", Some(false)),
            ("visibility: public", None),
            ("publish: true\nprivate: yes", Some(false)),
            ("publish: true\n: broken [", Some(false)),
            ("private: true\n: broken [", Some(false)),
            ("title: x", None),
        ] {
            let note = format!("---\n{line}\n---\ntext\n");
            assert_eq!(read("n.md", note.as_bytes()).unwrap().publish, expected, "{line}");
        }
        let json = |text: &str| read("a.json", text.as_bytes()).unwrap().publish;
        assert_eq!(json(r#"{"Publish": "no"}"#), Some(false));
        assert_eq!(json(r#"{"publish": null}"#), None);
        let lines = b"{\"publish\": true}\n{\"publish\": \"no\"}\n";
        assert_eq!(read("a.jsonl", lines).unwrap().publish, Some(false));
    }

    #[test]
    fn a_file_of_another_kind_is_refused_with_a_reason() {
        assert!(read("a.pdf", b"").unwrap_err().contains(".pdf"));
        assert!(read("a.txt", b"\xff").unwrap_err().contains("UTF-8"));
        assert!(read("a.eml", b"").is_err());
    }
}
