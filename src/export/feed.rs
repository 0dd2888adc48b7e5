//! The form of an Atom feed: the newest summaries of one day over all streams.
//!
//! Contract. A feed is valid by RFC 4287. It lists at most [`ENTRIES_MAX`] summaries, newest first.
//! Ids of feeds and entries are UUIDs made of the day and of the summary id, so a reader that saw
//! an entry knows it again wherever the file lies.

use serde::Deserialize;

use crate::contract::hash::sha256;
use crate::contract::time::{Day, Timestamp};
use crate::contract::vocabulary::Stream;

/// The folder of the feeds, relative to the bus home. It stands beside the Summary Bus, whose
/// readers expect streams and manifests only.
pub(crate) const FEEDS_DIR: &str = "feeds";
const SUFFIX: &str = ".atom.xml";
/// Entries of one feed.
pub(crate) const ENTRIES_MAX: usize = if cfg!(test) { 5 } else { 500 };
/// Indents of the members of a feed and of its entries.
pub(crate) const OF_FEED: &str = "  ";
pub(crate) const OF_ENTRY: &str = "    ";

/// The file name of the feed for one day.
pub(crate) fn file_name(day: Day) -> String {
    format!("{day}{SUFFIX}")
}

/// The day whose feed has this name.
pub(crate) fn day_of(name: &str) -> Option<Day> {
    name.strip_suffix(SUFFIX)?.parse().ok()
}

/// The part of an item that a feed shows.
#[derive(Default, Deserialize)]
struct Item {
    #[serde(default)]
    title: Option<String>,
    #[serde(default)]
    outputs: Outputs,
    #[serde(default)]
    meta: Meta,
}

#[derive(Default, Deserialize)]
struct Meta {
    #[serde(default)]
    publish: Option<bool>,
}

#[derive(Default, Deserialize)]
struct Outputs {
    #[serde(default)]
    summary_text: Option<String>,
}

/// A feed that is being written, from the newest entry to the oldest.
pub(crate) struct Feed(String);

impl Feed {
    /// The feed for one day whose newest entry has this time.
    pub(crate) fn new(day: Day, updated: Timestamp) -> Feed {
        let mut out = String::from("<?xml version=\"1.0\" encoding=\"utf-8\"?>\n");
        out.push_str("<feed xmlns=\"http://www.w3.org/2005/Atom\">\n");
        element(&mut out, OF_FEED, "id", &uuid(&format!("feed {day}")));
        element(&mut out, OF_FEED, "title", &format!("Summaries of {day}"));
        element(&mut out, OF_FEED, "updated", &updated.to_string());
        out.push_str("  <author><name>summarizer</name></author>\n");
        out.push_str(&format!("  <link rel=\"self\" href=\"{}\"/>\n", file_name(day)));
        Feed(out)
    }

    /// Adds a summary, given its published line. A feed is for others: a private summary has no
    /// entry.
    pub(crate) fn entry(
        &mut self,
        summary_id: &str,
        at: Timestamp,
        stream: Stream,
        line: &[u8],
    ) -> Result<(), serde_json::Error> {
        let item: Item = serde_json::from_slice(line)?;
        if item.meta.publish == Some(false) {
            return Ok(());
        }
        let title = item.title.filter(|title| !title.trim().is_empty());
        let out = &mut self.0;
        out.push_str("  <entry>\n");
        element(out, OF_ENTRY, "id", &entry_id(summary_id));
        element(out, OF_ENTRY, "title", title.as_deref().unwrap_or(summary_id));
        element(out, OF_ENTRY, "updated", &at.to_string());
        out.push_str(&format!("    <category term=\"{stream}\"/>\n"));
        let text = item.outputs.summary_text.unwrap_or_default();
        out.push_str(&format!("    <content type=\"text\">{}</content>\n", escaped(&text)));
        out.push_str("  </entry>\n");
        Ok(())
    }

    pub(crate) fn finish(mut self) -> Vec<u8> {
        self.0.push_str("</feed>\n");
        self.0.into_bytes()
    }
}

/// The id of the entry of a summary.
pub(crate) fn entry_id(summary_id: &str) -> String {
    uuid(&format!("summary {summary_id}"))
}

fn element(out: &mut String, indent: &str, name: &str, text: &str) {
    out.push_str(&format!("{indent}<{name}>{}</{name}>\n", escaped(text)));
}

/// Text as XML 1.0 holds it. Characters that XML cannot hold become U+FFFD, and a carriage return
/// is written as a reference because a parser would turn it into a line feed.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '\r' => out.push_str("&#13;"),
            '\t' | '\n' => out.push(c),
            '\0'..='\u{1f}' | '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            _ => out.push(c),
        }
    }
    out
}

/// A UUID of version 8 (RFC 9562: made of a hash of our own choice), as a URN.
fn uuid(name: &str) -> String {
    let mut bytes: [u8; 16] = sha256(format!("summarizer feed\n{name}")).head();
    bytes[6] = (bytes[6] & 0x0f) | 0x80;
    bytes[8] = (bytes[8] & 0x3f) | 0x80;
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let (a, b, c, d, e) = (&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]);
    format!("urn:uuid:{a}-{b}-{c}-{d}-{e}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped_as_xml_holds_it() {
        assert_eq!(escaped("a<b>&c\u{1}\r\n"), "a&lt;b&gt;&amp;c\u{fffd}&#13;\n");
    }

    #[test]
    fn ids_are_stable_uuids_of_version_8() {
        let id = uuid("feed 2026-02-11");
        assert_eq!(id, uuid("feed 2026-02-11"));
        assert_ne!(id, uuid("feed 2026-02-12"));
        let parts: Vec<&str> = id["urn:uuid:".len()..].split('-').collect();
        assert_eq!(parts.iter().map(|part| part.len()).collect::<Vec<_>>(), [8, 4, 4, 4, 12]);
        assert!(parts[2].starts_with('8') && "89ab".contains(&parts[3][..1]), "{id}");
    }
}
