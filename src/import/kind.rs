//! What a file is: by its content first, by its name second.
//!
//! Contract: a function of the name and the first bytes. A file that no reader takes gets a refusal
//! that says in a few words why.
//!
//! See docs/adr/0087-reading-a-persons-files.md.

use std::path::Path;

use serde_json::{Map, Value};

use super::archive::Archive;
use super::data_words::{json_has_words, table_has_words};
use super::head::is_table;
use super::{chat_json, chat_text};
use crate::markup::{prefix, roff, subtitles};
use crate::model::builtin::extract::written::announces_event;
use crate::upstream::chat_lines::is_chat;
use crate::upstream::moment::Moment;

/// Bytes of a file that decide its kind.
pub(crate) const HEAD_BYTES: usize = 64 << 10;
/// Lists of messages, and messages of each, that are looked at to know what they are.
const LISTS_READ: usize = 8;
const MESSAGES_READ: usize = 3;
/// Bytes of a character, at most: a text that is cut off may lack them.
const UTF8_BYTES_MAX: usize = 4;
/// Control characters that a short text may hold.
const CONTROLS_FREE: usize = 1;
/// Bytes of a text from which on it is one, whatever it says.
const SHORT_BYTES: usize = 64;
/// A text with more than one further control character in this many is binary.
const TEXT_CHARS_PER_CONTROL: usize = 200;

/// A kind of file that has a reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum FileKind {
    Text,
    Markdown,
    Org,
    /// A manual page.
    Roff,
    Html,
    Latex,
    Csv,
    /// Events and tasks of a calendar.
    Calendar,
    Contacts,
    Subtitles,
    /// A JSON value, a list of records, or JSON lines.
    Json,
    Pdf,
    Docx,
    Epub,
    /// One mail.
    Mail,
    /// Many mails in one file.
    Mailbox,
    /// `conversations.json` of ChatGPT.
    ChatGpt,
    /// `conversations.json` of Claude.
    Claude,
    /// Chat messages as JSON lines.
    ChatLines,
    /// The archive in which ChatGPT, Claude or Telegram delivers an export.
    ChatArchive,
    /// An export of WhatsApp, or a log of a chat, as lines of text.
    ChatText,
    /// An export of Telegram, Slack, Discord or Messenger, or messages with roles and without times.
    ChatJson,
    /// RSS or Atom.
    XmlFeed,
    /// Feed items as JSON.
    JsonFeed,
}

impl FileKind {
    /// The kind in words, for people and for `--json`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            FileKind::Text => "text",
            FileKind::Markdown => "markdown",
            FileKind::Org => "org",
            FileKind::Roff => "manual page",
            FileKind::Html => "html",
            FileKind::Latex => "latex",
            FileKind::Csv => "csv",
            FileKind::Calendar => "calendar",
            FileKind::Contacts => "contacts",
            FileKind::Subtitles => "subtitles",
            FileKind::Json => "json",
            FileKind::Pdf => "pdf",
            FileKind::Docx => "docx",
            FileKind::Epub => "epub",
            FileKind::Mail => "mail",
            FileKind::Mailbox => "mailbox",
            FileKind::ChatGpt => "chatgpt export",
            FileKind::Claude => "claude export",
            FileKind::ChatLines => "chat messages",
            FileKind::ChatArchive => "chat export archive",
            FileKind::ChatText => "chat log",
            FileKind::ChatJson => "chat export",
            FileKind::XmlFeed | FileKind::JsonFeed => "feed",
        }
    }

    /// What a part of such a file is called, where it holds many.
    pub(crate) fn part(self) -> Option<&'static str> {
        match self {
            FileKind::Mailbox => Some("message"),
            FileKind::ChatLines => Some("line"),
            FileKind::ChatGpt | FileKind::Claude | FileKind::ChatJson | FileKind::ChatArchive => {
                Some("conversation")
            }
            FileKind::XmlFeed | FileKind::JsonFeed => Some("item"),
            _ => None,
        }
    }

    /// The group that has a default flow of its own.
    pub(crate) fn group(self) -> Group {
        match self {
            FileKind::Mail | FileKind::Mailbox => Group::Mail,
            FileKind::ChatGpt
            | FileKind::Claude
            | FileKind::ChatLines
            | FileKind::ChatArchive
            | FileKind::ChatText
            | FileKind::ChatJson => Group::Chat,
            FileKind::XmlFeed | FileKind::JsonFeed => Group::Feed,
            _ => Group::Document,
        }
    }

    /// The kind of a file, from its name and its first bytes. `whole` reads all of it, for an archive, and for data whose
    /// first bytes have no word.
    pub(crate) fn of(
        name: &Path,
        head: &[u8],
        whole: &mut dyn FnMut() -> std::io::Result<Vec<u8>>,
    ) -> std::io::Result<Result<FileKind, Refusal>> {
        let extension = extension(name);
        if head.is_empty() {
            return Ok(Err(Refusal::new("empty")));
        }
        if is_lock(name) {
            return Ok(Err(Refusal::new("temporary file")));
        }
        if head.starts_with(b"PK\x03\x04") {
            return Ok(of_archive(&extension, &whole()?));
        }
        if let Some(found) = by_magic(head) {
            return Ok(found);
        }
        Ok(match text_of(head) {
            Some(text) => match of_text(&extension, &text) {
                // Without a day it has no messages with a time: a text with speakers.
                Ok(FileKind::ChatText) if !chat_text::has_day(&text, name) => Ok(FileKind::Text),
                Ok(FileKind::Json | FileKind::JsonFeed) if is_of_slack(name, &text) => {
                    Err(Refusal::new(ACCOUNT_DATA))
                }
                Ok(kind @ (FileKind::Json | FileKind::Csv)) => {
                    let has_words: fn(&str) -> bool = match kind {
                        FileKind::Csv => table_has_words,
                        _ => json_has_words,
                    };
                    let is_cut = head.len() >= HEAD_BYTES;
                    let says = has_words(&text)
                        || is_cut && text_of(&whole()?).is_some_and(|text| has_words(&text));
                    // Its reader says what is wrong with a file that is cut off.
                    let is_damaged = !says
                        && kind == FileKind::Json
                        && !text_of(&whole()?).is_some_and(|text| is_json(&text));
                    if says || is_damaged { Ok(kind) } else { Err(Refusal::new(DATA_ONLY)) }
                }
                kind => kind,
            },
            None => Err(Refusal::new(BINARY)),
        })
    }
}

/// Whether a text is JSON, or lines of JSON.
fn is_json(text: &str) -> bool {
    let values = serde_json::Deserializer::from_str(text).into_iter::<serde::de::IgnoredAny>();
    values.into_iter().all(|value| value.is_ok())
}

/// Kinds of files that are summarized alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Group {
    Document,
    Mail,
    Chat,
    Feed,
}

impl Group {
    pub(crate) const ALL: [Group; 4] = [Group::Document, Group::Mail, Group::Chat, Group::Feed];

    /// The name in the configuration.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Group::Document => "document",
            Group::Mail => "mail",
            Group::Chat => "chat",
            Group::Feed => "feed",
        }
    }
}

/// Why a file is not read, in a few words that can be counted.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Refusal(pub String);

/// A document of a kind that has no reader.
const NO_READER: &str = "no reader";
const DAMAGED: &str = "damaged archive";
const ARCHIVE: &str = "archive: unpack it first";
const FEW_WORDS: &str = "hardly any words";
const BINARY: &str = "binary";
/// Ends of names whose bearers a person takes for texts.
const TEXT_ENDS: [&str; 26] = [
    "txt", "text", "md", "markdown", "mdx", "html", "htm", "xhtml", "tex", "rst", "org", "csv",
    "tsv", "json", "jsonl", "ndjson", "xml", "eml", "mbox", "pdf", "docx", "epub", "ics", "vcf",
    "srt", "vtt",
];
/// Words that make a text of a few signs.
const SOME_WORDS: usize = 3;
/// Numbers, times and ids.
const DATA_ONLY: &str = "nothing to summarize, only data without words";
const OLD_OFFICE: &str = "old Office format, or locked by a password";

impl Refusal {
    pub(crate) fn new(why: impl Into<String>) -> Refusal {
        Refusal(why.into())
    }

    pub(super) fn damaged() -> Refusal {
        Refusal::new(DAMAGED)
    }

    /// An archive of files that nothing is known of.
    pub(super) fn archive() -> Refusal {
        Refusal::new(ARCHIVE)
    }

    /// Whether a file of this name should have been read.
    pub(crate) fn is_fault_of(&self, name: &Path) -> bool {
        self.0 == DAMAGED && matches!(extension(name).as_str(), "docx" | "epub")
    }
}

/// Whether a file that was refused so may hold text that a person would miss, unlike a picture or a program.
pub(crate) fn may_lose_text(name: &str, why: &str) -> bool {
    let has_name_of_text = || TEXT_ENDS.contains(&extension(Path::new(name)).as_str());
    [NO_READER, DAMAGED, OLD_OFFICE].contains(&why) || why == BINARY && has_name_of_text()
}

/// Whether a file of this name holds the conversations of an export of ChatGPT or Claude, which may be in parts:
/// `conversations.json`, `conversations-000.json`.
pub(crate) fn is_conversations(name: &str) -> bool {
    let rest = name.strip_prefix("conversations").and_then(|rest| rest.strip_suffix(".json"));
    rest.is_some_and(|part| {
        let number = part.strip_prefix(['-', '_']).unwrap_or_default();
        part.is_empty() || !number.is_empty() && number.bytes().all(|c| c.is_ascii_digit())
    })
}

/// The end of a name in lower case, without its dot.
pub(crate) fn extension(name: &Path) -> String {
    name.extension().unwrap_or_default().to_string_lossy().to_ascii_lowercase()
}

fn of_archive(extension: &str, bytes: &[u8]) -> Result<FileKind, Refusal> {
    let archive = match Archive::open(bytes) {
        Ok(archive) => archive,
        Err(_) => return Err(Refusal::new(DAMAGED)),
    };
    let has = |name: &str| archive.names().any(|known| known == name);
    if has("word/document.xml") {
        return Ok(FileKind::Docx);
    }
    if has("META-INF/container.xml") && archive.names().any(|name| name.ends_with(".opf")) {
        return Ok(FileKind::Epub);
    }
    Err(match extension {
        "zip" | "" => Refusal::archive(),
        _ => Refusal::new(NO_READER),
    })
}

fn by_magic(head: &[u8]) -> Option<Result<FileKind, Refusal>> {
    if head.starts_with(b"%PDF-") {
        return Some(Ok(FileKind::Pdf));
    }
    let known: [(&[u8], &str); 10] = [
        (b"{\\rtf", NO_READER),
        (b"\x89PNG", "picture"),
        (b"\xff\xd8\xff", "picture"),
        (b"GIF8", "picture"),
        (b"RIFF", "media"),
        (b"ID3", "media"),
        (b"\xd0\xcf\x11\xe0", OLD_OFFICE),
        (b"\x1f\x8b", ARCHIVE),
        (b"7z\xbc\xaf", ARCHIVE),
        (b"\x7fELF", "program"),
    ];
    let found = known.iter().find(|(magic, _)| head.starts_with(magic));
    if let Some((_, why)) = found {
        return Some(Err(Refusal::new(*why)));
    }
    (head.get(4..8) == Some(b"ftyp")).then(|| Err(Refusal::new("media")))
}

/// The head as text, in any of the encodings that are read; `None` when it is binary.
fn text_of(head: &[u8]) -> Option<String> {
    let text = super::decode::marked_up(head)?;
    let is_odd = |c: &char| {
        c.is_control() && !"\n\r\t\u{c}\u{85}".contains(*c) || *c == char::REPLACEMENT_CHARACTER
    };
    let controls = text.chars().filter(is_odd).count();
    (controls <= CONTROLS_FREE + text.len() / TEXT_CHARS_PER_CONTROL).then_some(text)
}

fn of_text(extension: &str, text: &str) -> Result<FileKind, Refusal> {
    let start = text.trim_start();
    if start.is_empty() {
        return Err(Refusal::new("empty"));
    }
    if let Some(kind) = of_entries(start) {
        return Ok(kind);
    }
    if let Some(kind) = of_mail(text, extension) {
        return Ok(kind);
    }
    if start.starts_with(['{', '['])
        && extension != "md"
        && extension != "tex"
        && let Some(kind) = of_json(extension, start)
    {
        return match kind {
            FileKind::Json if is_about_account(start) => Err(Refusal::new(ACCOUNT_DATA)),
            kind => Ok(kind),
        };
    }
    if start.starts_with('<')
        && !matches!(extension, "md" | "markdown")
        && let Some(found) = of_tags(extension, start)
    {
        return found;
    }
    if extension == "tex" || begins_latex(start) {
        return Ok(FileKind::Latex);
    }
    match extension {
        "md" | "markdown" | "mdx" => Ok(FileKind::Markdown),
        "org" => Ok(FileKind::Org),
        "html" | "htm" | "xhtml" => Ok(FileKind::Html),
        "csv" | "tsv" => Ok(FileKind::Csv),
        "tmp" | "bak" | "swp" | "part" | "crdownload" => Err(Refusal::new("temporary file")),
        _ if is_program(extension) => Err(Refusal::new("program text or settings")),
        "" if text.starts_with("---\n") && text[4..].contains("\n---\n") => Ok(FileKind::Markdown),
        _ if is_chat(text) => Ok(FileKind::ChatText),
        _ if is_table(text) && table_has_words(text) => Ok(FileKind::Csv),
        _ if !TEXT_ENDS.contains(&extension) && !says_something(text) => {
            Err(Refusal::new(FEW_WORDS))
        }
        _ => Ok(FileKind::Text),
    }
}

/// Whether a text is long enough to be one, or has words: letters beside each other, or numbers. The settings of a program
/// may be a few signs.
fn says_something(text: &str) -> bool {
    let text = text.trim();
    let words = text.split(|c: char| !c.is_alphanumeric());
    let is_word = |word: &&str| word.chars().nth(1).is_some() || !word.is_ascii();
    let words: Vec<&str> = words.filter(is_word).collect();
    let in_words: usize = words.iter().map(|word| word.len()).sum();
    text.len() >= SHORT_BYTES || words.len() >= SOME_WORDS || 2 * in_words >= text.len()
}

/// A calendar, contacts, a manual page or subtitles: by their first lines.
fn of_entries(start: &str) -> Option<FileKind> {
    let first = start.lines().next().unwrap_or_default().trim_end().to_ascii_uppercase();
    match first.strip_prefix("BEGIN:") {
        Some("VCALENDAR" | "VEVENT" | "VTODO" | "VJOURNAL") => Some(FileKind::Calendar),
        Some("VCARD") => Some(FileKind::Contacts),
        _ if roff::is_page(start) => Some(FileKind::Roff),
        _ => subtitles::is_subtitles(start).then_some(FileKind::Subtitles),
    }
}

/// Whether a text is LaTeX: its first line that is no comment sets its class, or two lines do what only LaTeX does. A note
/// may name one of these commands.
fn begins_latex(start: &str) -> bool {
    let lines = || start.lines().map(str::trim_start);
    let begins = |line: &str, command: &str| {
        line.strip_prefix(command).is_some_and(|rest| rest.starts_with(['{', '[']))
    };
    let sets_class =
        |line: &str| begins(line, "\\documentclass") || begins(line, "\\documentstyle");
    let is_document = |line: &str| line.starts_with("\\begin{document}");
    let mut said = lines().filter(|line| !line.is_empty() && !line.starts_with('%'));
    let first = said.next().unwrap_or_default();
    // Where Markdown shows LaTeX, the lines stand between fences.
    let is_shown = || lines().any(|line| line.starts_with("```") || line.starts_with("~~~"));
    sets_class(first)
        || is_document(first)
        || lines().any(sets_class) && lines().any(is_document) && !is_shown()
}

/// Whether a file only marks that an Office program has a document open: `~$letter.docx`.
fn is_lock(name: &Path) -> bool {
    name.file_name().is_some_and(|name| name.to_string_lossy().starts_with("~$"))
}

/// Ends of names whose texts are for machines.
fn is_program(extension: &str) -> bool {
    const PROGRAMS: &[&str] = &[
        "bat", "c", "cc", "cfg", "conf", "cpp", "cs", "css", "diff", "el", "go", "h", "hpp", "hs",
        "ini", "java", "jl", "js", "jsx", "kt", "lock", "lua", "m", "map", "mjs", "patch", "php",
        "pl", "ps1", "py", "r", "rb", "rs", "scala", "scss", "sh", "sql", "swift", "toml", "ts",
        "tsx", "vim", "vue", "yaml", "yml", "zig",
    ];
    PROGRAMS.contains(&extension)
}

/// A mail, or a mailbox of them: by its headers.
fn of_mail(text: &str, extension: &str) -> Option<FileKind> {
    let first = text.lines().next().unwrap_or_default();
    // `From here on` begins a letter; a mailbox tells the hour.
    let is_mailbox = first.starts_with("From ") && has_clock(first);
    let names: Vec<String> = text
        .lines()
        .skip(usize::from(is_mailbox))
        .take_while(|line| !line.trim().is_empty())
        .filter(|line| !line.starts_with([' ', '\t']))
        .map_while(header_name)
        .collect();
    let has = |wanted: &[&str]| names.iter().any(|name| wanted.contains(&name.as_str()));
    let sent = has(&["from", "received", "return-path", "delivered-to"]);
    let addressed = has(&["to", "subject", "date", "message-id", "mime-version"]);
    if is_mailbox && (sent || addressed) {
        return Some(FileKind::Mailbox);
    }
    // `From: Lisbon`, `To: Porto`, `Time: 10:30` announce a journey.
    let is_event = || {
        !has(&["subject", "message-id", "received"]) && announces_event(prefix(text, HEAD_BYTES))
    };
    let is_mail = sent && addressed && !is_event() || extension == "eml" && !names.is_empty();
    is_mail.then_some(FileKind::Mail)
}

/// Whether a line has a time such as `10:00`.
fn has_clock(line: &str) -> bool {
    let is_digit = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_digit);
    let bytes = line.as_bytes();
    line.match_indices(':').any(|(at, _)| {
        is_digit(at.checked_sub(1).and_then(|at| bytes.get(at))) && is_digit(bytes.get(at + 1))
    })
}

/// The name of a header line, in lower case.
fn header_name(line: &str) -> Option<String> {
    let (name, _) = line.split_once(':')?;
    let is_name = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
    is_name.then(|| name.to_ascii_lowercase())
}

fn of_json(extension: &str, start: &str) -> Option<FileKind> {
    let has = |key: &str| start.contains(&format!("\"{key}\""));
    let named = matches!(extension, "json" | "jsonl" | "ndjson");
    if !named && !are_json_lines(start) && !begins_as_json(start) {
        return None;
    }
    let is_of_chatgpt = has("current_node") || has("conversation_id") || has("parent");
    if is_of_chatgpt && holds_nodes(start) {
        return Some(FileKind::ChatGpt);
    }
    if holds_chat_messages(start) {
        return Some(FileKind::Claude);
    }
    if is_chat_export(&has) {
        return Some(FileKind::ChatJson);
    }
    if is_json_feed(start) {
        return Some(FileKind::JsonFeed);
    }
    let turns = has("role") && (has("content") || has("text"));
    let timed = ["timestamp", "timestamp_ms", "ts_abs", "create_time"].iter().any(|key| has(key));
    // These are members of other records too, such as the stations of a career.
    let dated = ["ts", "created_at", "sent_at", "date", "datetime", "time"];
    let timed = timed || has_speaker(start) && dated.iter().any(|key| has(key));
    // A record that holds a list of messages is a conversation.
    if holds_timed_messages(start) {
        return Some(FileKind::ChatJson);
    }
    if turns && timed && lists_of_messages(start).next().is_none() {
        return Some(FileKind::ChatLines);
    }
    if turns && has_speaker(start) {
        return Some(FileKind::ChatJson);
    }
    let linked = has("url") || has("link") || has("guid");
    let dated = ["date_published", "published", "pubDate", "isoDate", "published_at"];
    if has("title") && linked && dated.iter().any(|key| has(key)) {
        return Some(FileKind::JsonFeed);
    }
    Some(FileKind::Json)
}

/// Whether a text is one value of JSON. A text that is cut off has no end.
fn begins_as_json(start: &str) -> bool {
    match serde_json::from_str::<serde::de::IgnoredAny>(start) {
        Ok(_) => true,
        Err(error) => error.is_eof() && start.len() + UTF8_BYTES_MAX > HEAD_BYTES,
    }
}

/// Whether each line is a value of JSON, and the first one a record. A note whose first line is `[1]` is none.
fn are_json_lines(start: &str) -> bool {
    let is_value = |line: &str| serde_json::from_str::<serde::de::IgnoredAny>(line).is_ok();
    let mut lines = start.lines().map(str::trim).filter(|line| !line.is_empty()).peekable();
    if !lines.peek().is_some_and(|first| first.starts_with('{') && is_value(first)) {
        return false;
    }
    while let Some(line) = lines.next() {
        let may_be_cut = lines.peek().is_none() && start.len() + UTF8_BYTES_MAX > HEAD_BYTES;
        if !is_value(line) && !may_be_cut {
            return false;
        }
    }
    true
}

/// What stands behind a member wherever it has a value.
fn values_of<'t>(start: &'t str, key: &str) -> impl Iterator<Item = &'t str> {
    let key = format!("\"{key}\"");
    let length = key.len();
    let found: Vec<usize> = start.match_indices(&key).take(LISTS_READ).map(|(at, _)| at).collect();
    found.into_iter().filter_map(move |at| {
        start[at + length..].trim_start().strip_prefix(':').map(str::trim_start)
    })
}

/// Whether a member `mapping` holds records that are joined to a tree, as in an export of ChatGPT.
fn holds_nodes(start: &str) -> bool {
    values_of(start, "mapping").any(|value| {
        let Some(rest) = value.strip_prefix('{').map(str::trim_start) else { return false };
        let mut names = serde_json::Deserializer::from_str(rest).into_iter::<String>();
        let Some(Ok(_)) = names.next() else { return rest.starts_with('}') };
        let Some(node) = rest[names.byte_offset()..].trim_start().strip_prefix(':') else {
            return false;
        };
        let node = prefix(node.trim_start(), HEAD_BYTES);
        let is_joined = ["\"parent\"", "\"children\""].iter().any(|key| node.contains(key));
        node.starts_with('{') && is_joined
    })
}

/// Whether a member `chat_messages` is a list of what people said, as in an export of Claude.
fn holds_chat_messages(start: &str) -> bool {
    values_of(start, "chat_messages").any(|value| {
        let Some(rest) = value.strip_prefix('[').map(str::trim_start) else { return false };
        let says = ["\"sender\"", "\"text\"", "\"content\""];
        match rest.starts_with(']') {
            true => start.contains("\"uuid\""),
            false => rest.starts_with('{') && says.iter().any(|key| rest.contains(key)),
        }
    })
}

/// Whether its version says that it is a JSON Feed. A list of links may name the same page.
fn is_json_feed(start: &str) -> bool {
    let is_version = |value: &str| {
        let value = value.trim_start_matches(['"', ' ']);
        let value = value.strip_prefix("https://").or(value.strip_prefix("http://"));
        value
            .is_some_and(|rest| rest.trim_start_matches("www.").starts_with("jsonfeed.org/version"))
    };
    start.contains("\"items\"") && values_of(start, "version").any(is_version)
}

/// What follows the brackets that begin lists of messages.
fn lists_of_messages(start: &str) -> impl Iterator<Item = &str> {
    let key = "\"messages\"";
    start.match_indices(key).take(LISTS_READ).filter_map(move |(at, _)| {
        let list = start[at + key.len()..].trim_start().strip_prefix(':')?.trim_start();
        list.strip_prefix('[')
    })
}

/// The members of the first record of a text that may be cut off, as far as they are whole.
fn first_record(start: &str) -> Map<String, Value> {
    let mut members = Map::new();
    let list = start.strip_prefix('[').unwrap_or(start).trim_start();
    let Some(mut rest) = list.strip_prefix('{') else { return members };
    loop {
        let mut names = serde_json::Deserializer::from_str(rest).into_iter::<String>();
        let Some(Ok(name)) = names.next() else { return members };
        let Some(behind) = rest[names.byte_offset()..].trim_start().strip_prefix(':') else {
            return members;
        };
        let mut values = serde_json::Deserializer::from_str(behind).into_iter::<Value>();
        let Some(Ok(value)) = values.next() else { return members };
        members.insert(name, value);
        let Some(behind) = behind[values.byte_offset()..].trim_start().strip_prefix(',') else {
            return members;
        };
        rest = behind;
    }
}

/// Whether a record has a list of messages with authors or roles and with times. The first lists and the first messages
/// of each are looked at.
fn holds_timed_messages(start: &str) -> bool {
    // The time of a conversation stands beside its list, and is that of its messages.
    let is_dated = Moment::of(&first_record(start), chrono_tz::UTC).is_some();
    lists_of_messages(start).any(|mut rest| {
        (0..MESSAGES_READ).any(|_| {
            let mut messages = serde_json::Deserializer::from_str(rest).into_iter::<Value>();
            let Some(Ok(message)) = messages.next() else { return false };
            rest = rest[messages.byte_offset()..].trim_start();
            rest = rest.strip_prefix(',').unwrap_or("");
            chat_json::is_timed(&message, is_dated)
        })
    })
}

/// Whether a member `role` says that the user or the assistant of a chat speaks.
fn has_speaker(start: &str) -> bool {
    let speaks = |(at, key): (usize, &str)| {
        let value = start[at + key.len()..].trim_start().strip_prefix(':').map(str::trim_start);
        let speakers = ["\"user\"", "\"assistant\"", "\"human\""];
        value.is_some_and(|value| speakers.iter().any(|speaker| value.starts_with(speaker)))
    };
    start.match_indices("\"role\"").any(speaks)
}

/// Why the lists beside the conversations of an export are passed over.
const ACCOUNT_DATA: &str = "account data of an export";

/// Why the page beside the conversations of an export of ChatGPT is passed over: a script shows what they hold.
const EXPORT_PAGE: &str = "page of an export: conversations.json beside it holds the text";

fn is_page_of_export(start: &str) -> bool {
    ["ChatGPT Data Export", "jsonData"].iter().all(|words| start.contains(words))
}

/// Whether JSON is about the account of an export of ChatGPT or Claude: who the user is, which answers
/// were liked, what was shared. It lies beside the conversations, and holds no text of its own.
fn is_about_account(start: &str) -> bool {
    let has = |key: &str| start.contains(&format!("\"{key}\""));
    let all = |keys: &[&str]| keys.iter().all(|key| has(key));
    all(&["email", "chatgpt_plus_user"])
        || all(&OF_ACCOUNT) && has_no_other_members(start)
        || all(&["conversation_id", "is_anonymous"])
        || all(&["conversation_id", "user_id", "rating"])
}

/// Members of a user in an export of Claude, without those of other programs.
const OF_ACCOUNT: [&str; 3] = ["uuid", "full_name", "email_address"];

/// Whether the first record says no more than whose account it is: a list of people may have the same members, and words.
fn has_no_other_members(start: &str) -> bool {
    let more = ["verified_phone_number", "phone_number", "created_at", "updated_at"];
    let is_known =
        |name: &String| OF_ACCOUNT.contains(&name.as_str()) || more.contains(&name.as_str());
    first_record(start).keys().all(is_known)
}

/// Whether JSON is a list that lies beside the channels of a Slack export: its people and its channels.
fn is_of_slack(path: &Path, start: &str) -> bool {
    let has = |key: &&str| start.contains(&format!("\"{key}\""));
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let (own, more): (&str, &[&str]) = match name {
        "users.json" | "org_users.json" => ("profile", &["team_id", "real_name", "is_bot"]),
        "channels.json" | "groups.json" | "dms.json" | "mpims.json" => {
            ("members", &["creator", "created", "is_archived", "is_private"])
        }
        "integration_logs.json" => ("change_type", &["user_id", "service_type"]),
        _ => return false,
    };
    has(&own) && more.iter().any(has)
}

/// Whether members are those of an export of Telegram, Messenger, Discord or Slack.
fn is_chat_export(has: &dyn Fn(&str) -> bool) -> bool {
    let all = |names: &[&str]| names.iter().all(|name| has(name));
    all(&["messages", "from_id", "date"])
        || all(&["messages", "from", "date_unixtime"])
        || all(&["messages", "sender_name", "timestamp_ms"])
        || all(&["messages", "channel", "guild", "timestamp", "author"])
        || all(&["type", "user", "ts", "text"]) && has("message")
}

/// Elements with which a web page begins, and those with which a part of one does.
const PAGES: [&str; 4] = ["html", "head", "body", "article"];
const ELEMENTS: [&str; 33] = [
    "a",
    "b",
    "blockquote",
    "center",
    "div",
    "em",
    "figure",
    "font",
    "footer",
    "form",
    "h1",
    "h2",
    "h3",
    "header",
    "i",
    "img",
    "link",
    "main",
    "meta",
    "nav",
    "ol",
    "p",
    "pre",
    "script",
    "section",
    "span",
    "strong",
    "style",
    "table",
    "tbody",
    "title",
    "tr",
    "ul",
];

/// Ends of elements: two of them, or one in XML, show a page whose first element has a name of its own.
const CLOSING: [&str; 7] = ["</a>", "</div>", "</h1>", "</li>", "</p>", "</span>", "</table>"];

/// The name of the first element of a text in lower case; nothing where it begins with none.
fn root_of(lower: &str) -> &str {
    let mut rest = lower.trim_start();
    loop {
        let end = match rest {
            _ if rest.starts_with("<!--") => "-->",
            _ if rest.starts_with("<?") || rest.starts_with("<!") => ">",
            _ => break,
        };
        let Some(at) = rest.find(end) else { return "" };
        rest = rest[at + end.len()..].trim_start();
    }
    let Some(name) = rest.strip_prefix('<') else { return "" };
    let end = name.find(|c: char| !(c.is_ascii_alphanumeric() || c == ':')).unwrap_or(name.len());
    let is_tag = name[end..].starts_with(['>', ' ', '/', '\n', '\r', '\t']);
    if is_tag { &name[..end] } else { "" }
}

fn of_tags(extension: &str, start: &str) -> Option<Result<FileKind, Refusal>> {
    let lower = prefix(start, 4096).to_ascii_lowercase();
    let root = root_of(&lower);
    if ["rss", "feed", "rdf:rdf"].contains(&root) {
        return Some(Ok(FileKind::XmlFeed));
    }
    if is_page_of_export(start) {
        return Some(Err(Refusal::new(EXPORT_PAGE)));
    }
    // A chat has names between such signs, and a note may show one tag.
    let ends = CLOSING.iter().filter(|tag| lower.contains(*tag)).count();
    let is_marked_up = || ends > usize::from(!lower.starts_with("<?xml"));
    let is_page = lower.contains("<!doctype html") || PAGES.contains(&root) || is_marked_up();
    let has_more = || lower.contains(&format!("</{root}")) || lower.matches('<').count() > 1;
    if is_page || ELEMENTS.contains(&root) && has_more() {
        return Some(Ok(FileKind::Html));
    }
    (lower.starts_with("<?xml") || lower.starts_with("<svg") || extension == "xml")
        .then(|| Err(Refusal::new("XML of an unknown kind")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(name: &str, content: &str) -> Result<FileKind, String> {
        let mut whole = || Ok(content.as_bytes().to_vec());
        let found = FileKind::of(Path::new(name), content.as_bytes(), &mut whole).unwrap();
        found.map_err(|refusal| refusal.0)
    }

    #[test]
    fn the_lists_of_a_slack_export_are_no_texts() {
        let users = "[{\"id\": \"U1\", \"team_id\": \"T\", \"profile\": {\"email\": \"a@x.org\"}}]";
        let groups =
            "[{\"id\": \"G1\", \"name\": \"board\", \"created\": 1, \"members\": [\"U1\"]}]";
        for (name, list) in [("users.json", users), ("groups.json", groups), ("dms.json", groups)] {
            assert_eq!(kind(name, list), Err("account data of an export".to_owned()), "{name}");
        }
        assert_eq!(kind("people.json", users), Ok(FileKind::Json));
        assert_eq!(kind("users.json", "[{\"id\": 1, \"text\": \"words\"}]"), Ok(FileKind::Json));
    }

    #[test]
    fn content_wins_over_the_name() {
        let cases = [
            ("a.txt", "%PDF-1.4 …", FileKind::Pdf),
            ("a.txt", "<!DOCTYPE html><html><p>x", FileKind::Html),
            ("a", "<?xml version=\"1.0\"?>\n<rss version=\"2.0\">", FileKind::XmlFeed),
            ("note", "From: a@x\nSubject: hi\n\nbody", FileKind::Mail),
            ("inbox", "From a@x Mon Feb  9 10:00:00 2026\nSubject: hi\n\nbody", FileKind::Mailbox),
            ("x.txt", "\\documentclass{article}\n", FileKind::Latex),
            (
                "c.json",
                "[{\"title\":\"t\",\"mapping\":{\"a\":{\"parent\":null}}}]",
                FileKind::ChatGpt,
            ),
            ("c.json", "[{\"uuid\":\"u\",\"chat_messages\":[]}]", FileKind::Claude),
            (
                "f",
                "{\"version\":\"https://jsonfeed.org/version/1.1\",\"items\":[]}",
                FileKind::JsonFeed,
            ),
            ("r.json", "[{\"a\": \"words\"}]", FileKind::Json),
            ("a.txt", "BEGIN:VCALENDAR\nBEGIN:VEVENT\n", FileKind::Calendar),
            ("a.md", "BEGIN:VCARD\nFN:Ana\n", FileKind::Contacts),
            ("a", "1\n00:00:01,000 --> 00:00:04,000\nHello.\n", FileKind::Subtitles),
            ("roof.1", ".\\\" It\n.TH ROOF 1\n.SH NAME\nroof\n", FileKind::Roff),
            (
                "t.jsonl",
                "{\"role\":\"user\",\"content\":\"x\",\"timestamp_ms\":1}",
                FileKind::ChatLines,
            ),
            ("t.jsonl", "{\"role\": \"user\", \"content\": \"x\"}", FileKind::ChatJson),
            ("t.json", "[{\"role\": \"cook\", \"text\": \"x\"}]", FileKind::Json),
        ];
        for (name, content, expected) in cases {
            assert_eq!(kind(name, content), Ok(expected), "{name} {content}");
        }
    }

    #[test]
    fn one_conversation_is_an_export_however_long_it_is() {
        let turn = "{\"role\": \"user\", \"content\": \"The roof leaks, and the pump is broken.\"}";
        let messages = format!("[{}]", vec![turn; 2_000].join(", "));
        for (start, end) in [
            ("{\"title\": \"Roof\", \"created_at\": \"2026-03-05T10:00:00Z\", \"messages\": ", "}"),
            (
                "[{\"title\": \"Roof\", \"created_at\": \"2026-03-05T10:00:00Z\", \"messages\": ",
                "}]",
            ),
            ("{\"title\": \"Roof\", \"messages\": ", ", \"created_at\": \"2026-03-05T10:00:00Z\"}"),
            ("{\"conversations\": [{\"created_at\": \"2026-03-05\", \"messages\": ", "}]}"),
        ] {
            let content = format!("{start}{messages}{end}");
            let mut whole = || Ok(content.as_bytes().to_vec());
            let head = &content.as_bytes()[..HEAD_BYTES];
            let found = FileKind::of(Path::new("c.json"), head, &mut whole).unwrap();
            assert_eq!(found, Ok(FileKind::ChatJson), "{start}");
        }
    }

    #[test]
    fn the_name_decides_where_the_content_does_not() {
        assert_eq!(kind("a.md", "# T\n"), Ok(FileKind::Markdown));
        assert_eq!(kind("a", "---\ntitle: x\n---\ntext"), Ok(FileKind::Markdown));
        assert_eq!(kind("a.org", "* TODO x\n"), Ok(FileKind::Org));
        assert_eq!(kind("README", "plain words"), Ok(FileKind::Text));
        assert_eq!(kind("a.log", "10:00 started"), Ok(FileKind::Text));
        assert_eq!(kind("a.csv", "a,b\n1,words\n"), Ok(FileKind::Csv));
        assert_eq!(kind("a.csv", "a,b\n1,2\n"), Err(DATA_ONLY.to_owned()));
        assert_eq!(kind("a.json", "[1, 2]"), Err(DATA_ONLY.to_owned()));
        assert_eq!(kind("a.json", "[1, 2"), Ok(FileKind::Json), "its reader names the error");
        assert_eq!(kind("a.md", "From: the garden\n\ntext"), Ok(FileKind::Markdown));
        let trip = "From: Lisbon\nTo: Porto\nDate: 5 March 2026\nTime: 10:30\n\nPlatform 3.";
        assert_eq!(kind("a.txt", trip), Ok(FileKind::Text));
        assert_eq!(kind("a.txt", &format!("Subject: Trip\n{trip}")), Ok(FileKind::Mail));
        assert_eq!(kind("a.md", "[link](x) and more"), Ok(FileKind::Markdown));
        assert_eq!(kind("a.txt", "[x] a task"), Ok(FileKind::Text));
        assert_eq!(kind("a.txt", "a\u{85}b\u{8}."), Ok(FileKind::Text));
        for short in ["Call Bo.", "12", "ok", "屋根が漏れる。", "Größe: 3 m"] {
            assert_eq!(kind("note", short), Ok(FileKind::Text), "{short}");
        }
        for signs in ["$F~", "\u{1}$F~", "a=1;b=2;#!%&", "-- --"] {
            assert_eq!(kind("journal.baj", signs), Err(FEW_WORDS.to_owned()), "{signs}");
        }
        assert_eq!(kind("a.txt", ":-)"), Ok(FileKind::Text));
    }

    #[test]
    fn a_table_is_known_without_its_name() {
        for table in [
            "id,title,price\n1,Pump,40\n2,Hose,3\n",
            "Name;Betrag\nAna;40\n\"Gil; Bo\";3\n",
            "sep=;\r\nName;Amount\r\nAna;40\r\nBo;3\r\n",
            "name\tnote\tday\nAna\tIt leaks, again.\tMonday\nBo\tIt is new.\tFriday",
        ] {
            for name in ["a.txt", "-", "a", "a.dat", "a.tab"] {
                assert_eq!(kind(name, table), Ok(FileKind::Csv), "{name}: {table}");
            }
        }
        for prose in [
            "The pump leaks, and it is old\nWe ask Ana, who knows it\nShe comes, I hope\n",
            "Red, green, blue\nOne, two, three\nFour, five, six\n",
            "2026-01-01 10:00:00,123 Begin\n2026-01-01 10:00:01,456 Read\n2026-01-01 10:00:02,000 End\n",
            "Dear Ana,\nit leaks,\nand I wait,\nBo\n",
            "one;two\nthree\nfour;five;six\n",
            "Milk\nBread\nSalt\n",
            "Anna,Berlin\nBea,Hamburg\nCleo,Bremen\n",
        ] {
            assert_eq!(kind("a.txt", prose), Ok(FileKind::Text), "{prose}");
        }
        assert_eq!(kind("a.txt", "a,b\n1,2\n3,4\n"), Ok(FileKind::Text));
    }

    #[test]
    fn a_note_with_one_odd_line_is_a_note() {
        for note in [
            "[1]\nSee the paper by Ana.\n",
            "{}\nis an empty record in JSON.\n",
            "{\"a\": \"words\"}\nThis is how a record looks.\n",
            "[\"a\", \"b\"]\nare two letters.\n",
            "Begin a paper with \\documentclass{article} and write.\n",
            "How to write a paper:\n\n\\begin{document}\n\nThen your words.\n",
            "<3 to all of you. A page begins with <div> or <p>.\n",
            "<Ana> A feed has <rss> and <feed>.\n",
            "From here on: we meet on Friday.\nNote: bring the keys.\n",
            "From 10:00 on we meet.\nWho: everybody.\n",
            "WEBVTT is a form of subtitles.\nIt has times.\n",
            "Name, price\nThe pump costs 40 EUR.\nWe buy it on Friday.\n",
            "Keys, pump\n\nBEGIN:VCARD\nis how a card begins.\n",
        ] {
            assert_eq!(kind("a.txt", note), Ok(FileKind::Text), "{note}");
            assert_eq!(kind("note", note), Ok(FileKind::Text), "{note}");
        }
        let shown = "# LaTeX\n\n```\n\\documentclass{article}\n\\begin{document}\nx\n\\end{document}\n```\n";
        assert_eq!(kind("a.md", shown), Ok(FileKind::Markdown));
        assert_eq!(kind("a.txt", shown), Ok(FileKind::Text));
        for (data, expected) in [
            ("{\"chat_messages\": 12, \"note\": \"words\"}", FileKind::Json),
            ("[{\"mapping\": \"north\", \"parent\": \"the old map\"}]", FileKind::Json),
            (
                "[{\"title\": \"Feeds\", \"see\": \"https://jsonfeed.org/version/1.1\"}]",
                FileKind::Json,
            ),
            (
                "[{\"uuid\": \"u\", \"full_name\": \"Ana\", \"email_address\": \"a@x\", \"note\": \"It leaks.\"}]",
                FileKind::Json,
            ),
        ] {
            assert_eq!(kind("a.json", data), Ok(expected), "{data}");
        }
    }

    #[test]
    fn what_two_cues_say_is_known_without_a_name() {
        for (content, expected) in [
            ("% my paper\n\\documentclass[a4paper]{article}\n", FileKind::Latex),
            ("\\input{x}\n\\documentclass{book}\n\\begin{document}\nx", FileKind::Latex),
            ("<!-- saved -->\n<html lang=\"es\"><p>x", FileKind::Html),
            ("<table><tr><td>One</td></tr></table>", FileKind::Html),
            ("<p>One</p>", FileKind::Html),
            ("<?xml version=\"1.0\"?>\n<!-- x -->\n<feed xmlns=\"y\">", FileKind::XmlFeed),
            ("{\"a\": \"one\"}\n\n{\"a\": \"two\"}\n", FileKind::Json),
            ("[\"a word\",\n \"two\"]", FileKind::Json),
        ] {
            assert_eq!(kind("note", content), Ok(expected), "{content}");
        }
        let many = "{\"a\": \"It leaks, and we wait.\"}\n".repeat(HEAD_BYTES / 20);
        let mut whole = || Ok(many.as_bytes().to_vec());
        let found = FileKind::of(Path::new("data"), &many.as_bytes()[..HEAD_BYTES], &mut whole);
        assert_eq!(found.unwrap(), Ok(FileKind::Json), "a text that is cut off");
    }

    #[test]
    fn a_file_without_a_reader_is_refused_with_a_reason() {
        for (name, content, why) in [
            ("a.txt", "", "empty"),
            ("a.txt", " \n", "empty"),
            ("a.dat", "a\0b\0c\u{1}\u{2}", "binary"),
            ("a.png", "\u{89}PNG\u{0}\u{1}", "binary"),
            ("a.py", "import os\n", "program text or settings"),
            ("a.svg", "<svg xmlns='x'/>", "XML of an unknown kind"),
            ("letter.txt", "{\\rtf1\\ansi The deed.\\par}", "no reader"),
            ("~$letter.docx", "Nora", "temporary file"),
            (
                "chat.html",
                "<html><head><title>ChatGPT Data Export</title><script>var jsonData = [{}];</script></head>",
                "page of an export: conversations.json beside it holds the text",
            ),
            (
                "user.json",
                "{\"id\":\"user-1\",\"email\":\"a@x\",\"chatgpt_plus_user\":false}",
                "account data of an export",
            ),
            (
                "users.json",
                "[{\"uuid\":\"u\",\"full_name\":\"A\",\"email_address\":\"a@x\"}]",
                "account data of an export",
            ),
            (
                "shared_conversations.json",
                "[{\"id\":\"s\",\"conversation_id\":\"c\",\"title\":\"T\",\"is_anonymous\":true}]",
                "account data of an export",
            ),
            (
                "message_feedback.json",
                "[{\"conversation_id\":\"c\",\"user_id\":\"u\",\"rating\":\"thumbs_up\"}]",
                "account data of an export",
            ),
        ] {
            let found = kind(name, content);
            assert!(found.is_err(), "{name}: {found:?}");
            if name != "a.png" {
                assert_eq!(found, Err(why.to_owned()), "{name}");
            }
        }
        let mut whole = || Ok(b"PK\x03\x04".to_vec());
        let found = FileKind::of(Path::new("a.docx"), b"PK\x03\x04", &mut whole).unwrap();
        let refusal = Refusal::new("damaged archive");
        assert!(
            refusal.is_fault_of(Path::new("a.docx")) && !refusal.is_fault_of(Path::new("a.key"))
        );
        assert_eq!(found, Err(refusal));
    }
}
