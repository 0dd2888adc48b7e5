//! A file read as one document: its text, and what it says about itself.

use serde_json::{Map, Value};

use super::markdown::FrontMatter;
use super::members::{add_people, people_within};
use super::{html, latex, mail, markdown, marks, members, rst};
use crate::contract::json::{exact, has_large_float};
use crate::contract::privacy::{LOCAL_ONLY, names_local_only, says_local_only};
use crate::contract::publish;

/// Files of these kinds are read, by the end of their names.
pub(crate) const EXTENSIONS: &[&str] = &[
    "txt", "text", "rst", "md", "markdown", "html", "htm", "xhtml", "tex", "latex", "ltx", "eml",
    "json", "jsonl", "ndjson", "csv", "tsv",
];
/// Those of files that are one text.
pub(crate) const TEXT_EXTENSIONS: &[&str] = EXTENSIONS.split_at(11).0;

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
    /// What it says about itself, under its own names: front matter, headers, members.
    pub members: Map<String, Value>,
    /// Whether it may be shown to others; `None` where it does not say.
    pub publish: Option<bool>,
}

impl Document {
    /// Whether it says that it stays on this machine.
    pub(crate) fn is_local_only(&self) -> bool {
        says_local_only(&self.members)
    }

    /// The document with what its text says of it.
    pub(crate) fn with(mut self, said: marks::Marks) -> Document {
        self.publish = publish::together([self.publish, said.publish]);
        said.keep_in(&mut self.members);
        self
    }

    /// What it is filed under beside its labels.
    pub(crate) fn filed_under(&self) -> Vec<String> {
        let mut all = members::filed_under(&self.members);
        all.retain(|label| !self.labels.contains(label));
        all.into_iter().collect()
    }

    /// Keeps it on this machine where `is` so.
    pub(crate) fn local_only_if(mut self, is: bool) -> Document {
        if is {
            self.members.insert(LOCAL_ONLY.to_owned(), true.into());
        }
        self
    }
}

/// Whether the name of a file says that it is read.
pub(crate) fn has_known_name(name: &str) -> bool {
    EXTENSIONS.contains(&extension_of(name).as_str())
}

/// The kind of a mail.
pub(crate) const MAIL: &str = "eml";
/// The kind of an item of a feed.
pub(crate) const FEED_ITEM: &str = "feed_item";

/// The kind of what a project of an export of Claude holds: it has the title of its project.
pub(crate) const PROJECT: &str = "project";

/// The member with the name of a file within another one.
pub(crate) const FILE_NAME: &str = "file_name";

/// Whether people know a document of this kind by its title, and not by the name of its file.
pub(crate) fn is_known_by_title(kind: &str) -> bool {
    // A browser makes the name of a saved page from its address, or makes up one.
    matches!(kind, MAIL | FEED_ITEM | PROJECT | "html" | "htm" | "xhtml")
}

pub(crate) fn extension_of(name: &str) -> String {
    name.rsplit_once('.').map_or("", |(_, extension)| extension).to_ascii_lowercase()
}

/// Reads a file; its name says how.
pub fn read(name: &str, bytes: &[u8]) -> Result<Document, String> {
    let extension = extension_of(name);
    if extension == MAIL {
        let mail = mail::read(bytes).ok_or("it is not a mail message: it has no headers")?;
        return Ok(Document {
            kind: MAIL,
            members: mail.members(),
            text: mail.body,
            title: mail.subject,
            date: mail.date,
            publish: mail.publish,
            ..none()
        });
    }
    if !has_known_name(name) {
        let list = EXTENSIONS.join(", ");
        return Err(format!("files named .{extension} are not read; these are: {list}"));
    }
    let text = text_of(bytes)?;
    let document = match extension.as_str() {
        "md" | "markdown" => markdown_document(text),
        "html" | "htm" | "xhtml" => below_front_matter(text, |text| of_page(html::page(text))),
        "tex" | "latex" | "ltx" => below_front_matter(text, |text| {
            let paper = latex::paper(text);
            let mut members = Map::new();
            if !paper.authors.is_empty() {
                members.insert("authors".to_owned(), paper.authors.into());
            }
            let (text, title, date) = (paper.text, paper.title, paper.date);
            Document { kind: "tex", text, title, date, members, ..none() }
        }),
        "json" => json_document(text),
        end => below_front_matter(text, |text| match end == "rst" || rst::is_plainly(text) {
            true => {
                let text = rst::text(text);
                let title = markdown::title(&text);
                Document { kind: "rst", text, title, ..none() }
            }
            false => Document { kind: "txt", text: text.to_owned(), ..none() },
        }),
    };
    Ok(with_marks(document, text))
}

/// A document with the marks that stand in its text too.
pub(crate) fn with_marks(document: Document, text: &str) -> Document {
    if document.kind == "json" {
        return document;
    }
    // Below front matter, or where the file begins: a mark there decides even where front matter does not parse.
    let mut said = marks::in_text(document.kind, markdown::plain_body(text));
    said.join(marks::in_text(document.kind, text));
    let title = document.title.as_deref().is_some_and(publish::is_private_title);
    said.said(title.then_some(false));
    document.with(said)
}

/// A page without what surrounds its article: menus, banners, buttons, footers.
pub(crate) fn article(text: &str) -> Document {
    with_marks(below_front_matter(text, |text| of_page(html::article(text))), text)
}

fn of_page(page: html::Page) -> Document {
    let publish = publish::said_by_members(&page.members);
    // A page without a title has its first great heading.
    let title = page.title.or_else(|| markdown::title(&page.text));
    let (text, members) = (page.text, page.members);
    Document { kind: "html", text, title, members, publish, ..none() }
}

/// The characters of a file, without a byte-order mark.
pub(crate) fn text_of(bytes: &[u8]) -> Result<&str, String> {
    std::str::from_utf8(bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes))
        .map_err(|error| format!("it is not UTF-8 (`iconv` converts it): {error}"))
}

/// One JSON value. The items of a list are the work of [`super::records`].
fn json_document(text: &str) -> Document {
    let value = super::records::value_of(text).unwrap_or_default();
    let publish = publish::said_within(&value);
    let people = people_within(&value);
    let mut members = if let Value::Object(members) = value { members } else { Map::new() };
    add_people(&mut members, people);
    Document { kind: "json", text: text.to_owned(), members, publish, ..none() }
}

fn none() -> Document {
    Document::default()
}

/// A document whose first lines may be front matter. They leave the text where they can only be that.
fn below_front_matter(text: &str, read: impl Fn(&str) -> Document) -> Document {
    let front = markdown::front_matter(text).map(FrontMatterFacts::read).unwrap_or_default();
    let body = markdown::plain_body(text);
    let document = read(body);
    let publish = publish::together([front.publish, document.publish]);
    if body.len() == text.len() {
        let is_local_only = says_local_only(&front.members);
        return Document { publish, ..document }.local_only_if(is_local_only);
    }
    let FrontMatterFacts { title, date, mut labels, mut members, .. } = front;
    labels.extend(document.labels);
    members.extend(document.members);
    let (title, date) = (title.or(document.title), date.or(document.date));
    Document { title, date, labels, members, publish, ..document }
}

fn markdown_document(text: &str) -> Document {
    let body = markdown::without_alerts(markdown::body(text));
    let body = markdown::without_comments(&body);
    let front = markdown::front_matter(text).map(FrontMatterFacts::read).unwrap_or_default();
    Document {
        kind: "md",
        title: front.title.or_else(|| markdown::title(&body)),
        text: body.into_owned(),
        date: front.date,
        labels: front.labels,
        members: front.members,
        publish: front.publish,
    }
}

/// The members of a table; dates are texts there.
fn members_of_toml(table: toml::Table) -> Map<String, Value> {
    table.into_iter().map(|(name, value)| (name, value_of_toml(value))).collect()
}

fn value_of_toml(value: toml::Value) -> Value {
    match value {
        toml::Value::String(text) => text.into(),
        toml::Value::Integer(number) => number.into(),
        toml::Value::Float(number) => number.into(),
        toml::Value::Boolean(is) => is.into(),
        toml::Value::Datetime(moment) => moment.to_string().into(),
        toml::Value::Array(items) => items.into_iter().map(value_of_toml).collect(),
        toml::Value::Table(table) => members_of_toml(table).into(),
    }
}

/// What front matter says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct FrontMatterFacts {
    title: Option<String>,
    date: Option<String>,
    labels: Vec<String>,
    members: Map<String, Value>,
    publish: Option<bool>,
}

/// The members of a JSON object.
fn members_in_braces(text: &str) -> Option<Map<String, Value>> {
    match exact(text).ok()? {
        Value::Object(members) => Some(members),
        _ => None,
    }
}

/// Members whose integers beyond 64 bits are texts of their digits, as their lines have them.
fn with_digits(mut members: Map<String, Value>, yaml: &str) -> Map<String, Value> {
    for (name, value) in members.iter_mut().filter(|(_, value)| has_large_float(value)) {
        let written = yaml.lines().find_map(|line| {
            let (key, rest) = line.split_once(':')?;
            let rest = rest.split(" #").next().unwrap_or_default().trim();
            (key.trim_end().trim_matches(['"', '\'']) == name).then_some(rest)
        });
        let is_integer = |digits: &&str| {
            let digits = digits.strip_prefix('-').unwrap_or(digits);
            !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
        };
        if let Some(digits) = written.filter(is_integer) {
            *value = digits.into();
        }
    }
    members
}

/// The members of a front matter in which people wrote `title: Rope: the end`. YAML refuses a colon in a plain value.
fn of_plain_values(yaml: &str) -> Option<Map<String, Value>> {
    let quoted = |line: &str| {
        let plain = line.split_once(": ").map(|(name, value)| (name, value.trim()));
        let plain = plain.filter(|(name, value)| {
            let is_name = !name.starts_with([' ', '\t', '-', '#', '"', '\'']);
            is_name
                && value.contains(": ")
                && !value.starts_with(['"', '\'', '[', '{', '|', '>', '&', '*', '!'])
        });
        plain.map_or(line.to_owned(), |(name, value)| {
            format!("{name}: '{}'", value.replace('\'', "''"))
        })
    };
    let lines: Vec<String> = yaml.lines().map(quoted).collect();
    serde_saphyr::from_str(&lines.join("\n")).ok()
}

impl FrontMatterFacts {
    fn read(front: FrontMatter<'_>) -> FrontMatterFacts {
        let (lines, members) = match front {
            FrontMatter::Yaml(yaml) => {
                let members = || serde_saphyr::from_str(yaml).ok();
                let members =
                    members_in_braces(yaml).or_else(members).or_else(|| of_plain_values(yaml));
                (yaml, members.map(|members| with_digits(members, yaml)))
            }
            FrontMatter::Toml(toml) => (toml, toml.parse().ok().map(members_of_toml)),
            // One line in braces may be YAML.
            FrontMatter::Json(json) => {
                let members = members_in_braces(json);
                (json, members.or_else(|| serde_saphyr::from_str(json).ok()))
            }
            FrontMatter::Open(lines) => (lines, None),
        };
        let Some(members) = members else {
            return FrontMatterFacts {
                publish: publish_of_lines(lines),
                members: local_only_of_lines(lines),
                ..FrontMatterFacts::default()
            };
        };
        let mut members: Map<String, Value> = members;
        // An empty value is written on purpose.
        if members.iter().any(|(name, value)| value.is_null() && names_local_only(name)) {
            members.insert(LOCAL_ONLY.to_owned(), true.into());
        }
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
        let mut written = members.clone();
        written.values_mut().for_each(fill_empty);
        FrontMatterFacts {
            title: word(&["title"]),
            date: word(&["date", "created", "published"]),
            labels: labels.filter_map(|name| member(&[name])).flat_map(words_of).collect(),
            publish: publish::said_by_record(&written),
            members,
        }
    }
}

/// Empty values as empty texts, however deep they lie.
fn fill_empty(value: &mut Value) {
    match value {
        Value::Null => *value = "".into(),
        Value::Array(items) => items.iter_mut().for_each(fill_empty),
        Value::Object(members) => members.values_mut().for_each(fill_empty),
        _ => {}
    }
}

/// The names of members in front matter that does not parse, also those in braces.
fn names_of_lines(front: &str) -> impl Iterator<Item = &str> {
    let parts = front.split(['\n', '{', ',']);
    let names = parts.filter_map(|part| Some(part.split_once([':', '='])?.0));
    names.map(|name| name.trim_matches([' ', '\t', '"', '\'', '-']))
}

/// Front matter that does not parse says a clear no to nothing.
fn local_only_of_lines(front: &str) -> Map<String, Value> {
    let is_named = names_of_lines(front).any(names_local_only);
    is_named.then(|| (LOCAL_ONLY.to_owned(), true.into())).into_iter().collect()
}

/// Front matter that does not parse says a clear yes to nothing.
fn publish_of_lines(front: &str) -> Option<bool> {
    let names = names_of_lines(front);
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
    fn a_colon_in_a_plain_value_takes_nothing_from_the_front_matter() {
        let front = "title: PRIVATE: it's the rope\ndate: 2026-02-11\ntags: [rope]\n";
        let facts = FrontMatterFacts::read(FrontMatter::Yaml(front));
        assert_eq!(facts.title.as_deref(), Some("PRIVATE: it's the rope"));
        assert_eq!(
            (facts.date.as_deref(), facts.labels),
            (Some("2026-02-11"), vec!["rope".to_owned()])
        );
    }

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
    fn an_integer_beyond_64_bits_keeps_its_digits() {
        let wide = "12345678901234567890123";
        for front in [
            format!("order: {wide} # mine\nbig: -{wide}\nnumber: 1e30"),
            format!("{{\"order\": {wide}}}"),
        ] {
            let note = format!("---\n{front}\n---\nText.\n");
            let members = read("note.md", note.as_bytes()).unwrap().members;
            assert_eq!(members["order"], wide, "{front}");
            if let Some(big) = members.get("big") {
                assert_eq!(
                    (big, members["number"].as_f64()),
                    (&format!("-{wide}").into(), Some(1e30))
                );
            }
        }
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
            ("private:", Some(false)),
            ("draft: ''", Some(false)),
            ("flags: {private: yes}", Some(false)),
            ("meta: {publish: false}", Some(false)),
            ("site: {private: true}", Some(false)),
            ("site:\n  page:\n    private: true", Some(false)),
            ("meta:\n  publish:", Some(false)),
            ("site: {private: true}\n: broken [", Some(false)),
            ("tags:\n  - garden\n  - '#private'", Some(false)),
            ("site: {private: false}", None),
            ("cover: {hidden: true}", None),
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
        assert_eq!(
            json(r#"{"notes": [{"text": "a"}, {"text": "b", "private": true}]}"#),
            Some(false)
        );
        assert_eq!(json(r#"{"notes": [{"text": "a", "publish": true}]}"#), None);
    }

    #[test]
    fn every_form_of_front_matter_keeps_a_document_on_this_machine() {
        for (text, expected) in [
            ("---\nlocal_only: true\n---\nText", true),
            ("---\nlocal-only:\n---\nText", true),
            ("---\nlocal_only: true\n: broken [\n---\nText", true),
            ("+++\nlocal_only = true\n+++\nText", true),
            ("---\nlocal_only: no\n---\nText", false),
            ("---\ntitle:\n---\nText", false),
        ] {
            for name in ["a.md", "a.txt", "a.html"] {
                let read = read(name, text.as_bytes()).unwrap();
                assert_eq!(read.is_local_only(), expected, "{name}: {text}");
            }
        }
    }

    #[test]
    fn every_form_of_front_matter_says_whether_a_document_is_private() {
        for (name, text, expected) in [
            ("a.md", "+++\ntitle = \"T\"\npublish = false\n+++\nText", Some("Text")),
            ("a.html", "---\ntitle: T\nprivate: true\n---\n<p>Text</p>", Some("Text")),
            ("a.htm", "+++\ntitle = \"T\"\ndraft = true\n+++\n<p>Text</p>", Some("Text")),
            ("a.tex", "---\ntitle: T\nprivate:\n---\nText", Some("Text")),
            ("a.md", "+++\npublish = false\nbroken\n+++\nText", Some("Text")),
            ("a.md", "{\n  \"title\": \"T\",\n  \"draft\": true\n}\nText", Some("Text")),
            ("a.md", "\n\n---\nprivate: true\n---\nText", Some("Text")),
            ("a.md", "---\nprivate: true\n\nText", None),
            ("a.txt", "---\npublish: false\n---\nText", Some("Text")),
            ("a.txt", "---\nstatus: draft\n---\nText", Some("Text")),
            ("a.txt", "---\npublish: false\n\nText", None),
            ("a.html", "<meta name=\"publish\" content=\"false\"><p>Text</p>", Some("Text")),
            ("a.html", "<head><META content=private name='Visibility'></head>Text", Some("Text")),
        ] {
            let read = read(name, text.as_bytes()).unwrap();
            assert_eq!(read.publish, Some(false), "{name}: {text}");
            assert_eq!(read.text.trim(), expected.unwrap_or(text), "{name}");
        }
        for (name, text) in [
            ("a.txt", "---\nA rule may begin a text: so it is.\n---\nText"),
            ("a.html", "<p>publish: false</p>"),
            ("a.md", "Text\n---\npublish: false\n---\n"),
        ] {
            assert_eq!(read(name, text.as_bytes()).unwrap().publish, None, "{name}: {text}");
        }
    }

    #[test]
    fn a_page_says_who_wrote_it_and_when() {
        let page = "<head><meta name=author content='Ana &amp; Bo'><meta property=\"article:published_time\" \
                    content=2026-02-11><meta name=viewport content=wide><link rel='canonical' \
                    href='https://x.org/a?b=1&amp;c=2'><link rel=icon href=i.png></head>Text";
        let read = read("a.html", page.as_bytes()).unwrap();
        assert_eq!(
            Value::Object(read.members),
            serde_json::json!({
                "author": "Ana & Bo", "date": "2026-02-11", "url": "https://x.org/a?b=1&c=2"
            })
        );
    }

    #[test]
    fn a_file_of_another_kind_is_refused_with_a_reason() {
        assert!(read("a.pdf", b"").unwrap_err().contains(".pdf"));
        assert!(read("a.txt", b"\xff").unwrap_err().contains("UTF-8"));
        assert!(read("a.eml", b"").is_err());
    }
}
