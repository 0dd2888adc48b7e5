//! The overview that `demo` prints, read from the published files.

use super::super::failure::{Exit, Failure};
use super::super::{Context, ui};
use crate::bus::SummaryBus;
use crate::contract::time::Day;
use crate::contract::vocabulary::Stream;
use crate::home::Home;
use crate::verify::{Options, verify_tree};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;

/// Characters of a line of the overview.
const LINE_CHARS: usize = 84;

/// The content of the overview.
pub(super) struct Shown {
    pub acks: Vec<Value>,
    /// Summaries by stream: request, text.
    pub streams: Vec<(Stream, Vec<(String, String)>)>,
    /// The report of the digest build.
    pub digests: Value,
    pub snapshots: usize,
    pub files: u64,
    pub violations: u64,
}

impl Shown {
    pub(super) fn read(
        context: &Context,
        home: &Home,
        digests: Value,
        snapshots: usize,
    ) -> Result<Shown, Failure> {
        let disk = &context.machine.disk;
        let acks = disk
            .read(&home.acks())
            .map_err(|error| Failure::new(Exit::Storage, "cannot read the acks").because(&error))?;
        let mut acks: Vec<Value> = String::from_utf8_lossy(&acks)
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok())
            .filter(|ack: &Value| ack["status"] != "accepted")
            .collect();
        acks.sort_by_key(|ack| ack["line"].as_u64());
        let unreadable = |error: &(dyn std::error::Error + 'static)| {
            Failure::new(Exit::Storage, "cannot read the summaries").because(error)
        };
        let mut texts: BTreeMap<String, String> = BTreeMap::new();
        let bus = SummaryBus::open(&home.buses).map_err(|error| unreadable(&error))?;
        let mut places: Vec<(Stream, Day)> = Vec::new();
        for stream in Stream::ALL {
            let days = bus.days(*stream).map_err(|error| unreadable(&error))?;
            places.extend(days.into_iter().map(|day| (*stream, day)));
        }
        for (stream, day) in places {
            let partition = bus.partition(stream, day).map_err(|error| unreadable(&error))?;
            for item in partition.items() {
                let item = item.map_err(|error| unreadable(&error))?;
                texts.insert(item.summary_id().to_owned(), item.summary_text().to_owned());
            }
        }
        let streams = Stream::ALL
            .iter()
            .map(|stream| {
                let made = acks.iter().filter(|ack| {
                    ack["status"] == "completed" && ack["summary"]["stream"] == stream.as_str()
                });
                let rows = made.filter_map(|ack| {
                    let text = texts.get(ack["summary"]["summary_id"].as_str()?)?;
                    Some((ack["request_id"].as_str()?.to_owned(), text.clone()))
                });
                (*stream, rows.collect())
            })
            .collect();
        let options = Options { threads: 1, sources: true };
        let report = verify_tree(disk, &home.buses, options, &|_| {});
        let report = report.map_err(|error| unreadable(&error))?;
        let (files, violations) = (report.files, report.violations_total);
        Ok(Shown { acks, streams, digests, snapshots, files, violations })
    }

    pub(super) fn to_json(&self, home: &Home) -> Value {
        let streams: serde_json::Map<String, Value> = self
            .streams
            .iter()
            .map(|(stream, rows)| (stream.as_str().to_owned(), rows.len().into()))
            .collect();
        json!({
            "home": home.root, "acks": self.acks, "summaries": streams,
            "digests": self.digests, "snapshots": self.snapshots,
            "verified": {"files": self.files, "violations": self.violations},
        })
    }

    pub(super) fn print(&self, context: &Context, home: &Home) {
        let out = |line: String| context.ui.out(line);
        for (stream, rows) in self.streams.iter().filter(|(_, rows)| !rows.is_empty()) {
            out(format!("{} {}", ui::bold(stream.as_str()), ui::dim(&rows.len().to_string())));
            for (request, text) in rows {
                out(format!("  {request:<18} {}", one_line(text, LINE_CHARS)));
            }
        }
        out(String::new());
        out(ui::bold("the rest"));
        for ack in &self.acks {
            let summary = !ack["summary"].is_null() && ack["status"] == "completed";
            if !summary {
                out(format!("  {}", outcome(ack)));
            }
        }
        let bags = self.digests["bags"].as_array().map(Vec::as_slice).unwrap_or_default();
        if let Some(title) = bags.first().and_then(|bag| bag[1].as_str()) {
            let what =
                format!("{} with a memo each, such as {title}", ui::count(bags.len(), "bag"));
            out(format!("  {:<18} {what}", "digests"));
        }
        if self.snapshots > 0 {
            let what = "a run of an agent, folded into a checked snapshot and a narrative";
            out(format!("  {:<18} {what}", "snapshot"));
        }
        out(String::new());
        let made: usize = self.streams.iter().map(|(_, rows)| rows.len()).sum();
        let verdict = match self.violations {
            0 => ui::green("every hash and reference verified"),
            count => ui::red(&ui::count(count, "violation")),
        };
        out(format!(
            "{} in four streams, {}, {verdict}",
            ui::count(made, "summary"),
            ui::count(self.files, "file")
        ));
        out(String::new());
        out(ui::bold("Try next"));
        let at = path_for_shell(&home.root);
        for (command, what) in [
            ("explain mail-kitchen", "where each sentence comes from"),
            ("show noticias-later", "a request with its whole history"),
            ("digest preview --selector overview.daily", "what a digest takes and drops, and why"),
        ] {
            out(format!(
                "  summarizer --home {at} {command:<40} {}",
                ui::dim(&format!("# {what}"))
            ));
        }
    }
}

/// The first words of a text, on one line. A colon ends what was a heading.
pub(super) fn one_line(text: &str, chars: usize) -> String {
    let flat = |line: &str| match line.trim_start_matches('#').trim() {
        heading if line.starts_with('#') && !heading.is_empty() => format!("{heading}:"),
        words => words.to_owned(),
    };
    let text = text.lines().map(flat).collect::<Vec<_>>().join(" ");
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() <= chars {
        return line;
    }
    let cut: String = line.chars().take(chars - 1).collect();
    let end = cut.rfind(' ').unwrap_or(cut.len());
    format!("{}…", &cut[..end])
}

pub(super) fn outcome(ack: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    let id = match ack["request_id"].as_str() {
        Some(id) => id.to_owned(),
        None => format!("line {}", ack["line"]),
    };
    let status = text(&ack["status"]);
    let status = match status.as_str() {
        "completed" => ui::green("skipped"),
        "duplicate" => status,
        _ => ui::yellow(&status),
    };
    let why = match (ack["duplicate_of"].as_str(), ack["reason_code"].as_str()) {
        (Some(of), _) => format!("its summary is that of {of}"),
        (None, Some(reason)) => reason.trim_start_matches("skipped_").replace('_', " "),
        (None, None) => text(&ack["message"]),
    };
    format!("{id:<18} {status}: {why}")
}

pub(super) fn path_for_shell(path: &Path) -> String {
    let text = path.display().to_string();
    let plain = text.chars().all(|c| c.is_ascii_alphanumeric() || "/._-".contains(c));
    if plain { text } else { format!("'{}'", text.replace('\'', "'\\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_can_be_pasted() {
        assert_eq!(path_for_shell(Path::new("/tmp/a-b_c.d")), "/tmp/a-b_c.d");
        assert_eq!(path_for_shell(Path::new("/tmp/it's")), "'/tmp/it'\\''s'");
    }

    #[test]
    fn long_texts_end_at_a_word() {
        assert_eq!(one_line("### two  words\nhere", 20), "two words: here");
        assert_eq!(one_line("a sentence that is too long", 12), "a sentence…");
    }
}
