//! Org files as Markdown: headlines, tasks with their days, lists, what the file says of itself.
//!
//! Contract: every line of text stays. Planning lines and drawers are no text: the days of a task stand
//! behind its words, other times of the program are left out.

use serde_json::{Map, Value};

use super::document::Document;
use super::marks::Marks;
use crate::contract::publish::said_by_member;

/// Keywords at the beginning of a headline: an open task, or a finished one.
const OPEN: [&str; 6] = ["TODO", "NEXT", "WAITING", "STARTED", "HOLD", "IN-PROGRESS"];
const DONE: [&str; 3] = ["DONE", "CANCELLED", "CANCELED"];
/// Planning that a task shows behind its words.
const PLANNED: [&str; 2] = ["DEADLINE:", "SCHEDULED:"];
const LEVEL_MAX: usize = 6;

/// Reads an Org file.
pub(crate) fn document(text: &str) -> Document {
    let mut reader = Reader::default();
    text.lines().for_each(|line| reader.line(line));
    let Reader { out, title, date, labels, members, marks, .. } = reader;
    let document = Document { kind: "org", text: out, title, date, labels, members, publish: None };
    document.with(marks)
}

#[derive(Default)]
struct Reader {
    out: String,
    title: Option<String>,
    date: Option<String>,
    labels: Vec<String>,
    members: Map<String, Value>,
    marks: Marks,
    in_drawer: bool,
    in_code: bool,
    /// Where the words of the last headline end.
    headline: Option<usize>,
    /// How far the text below the last headline may be indented without being part of an item.
    inset: usize,
}

impl Reader {
    fn line(&mut self, line: &str) {
        let trimmed = line.trim();
        let folded = trimmed.to_ascii_lowercase();
        if self.in_drawer {
            self.in_drawer = folded != ":end:";
            if let Some((name, value)) = trimmed.trim_start_matches(':').split_once(':') {
                self.marks.line(name, value);
            }
            return;
        }
        if let Some(block) = folded.strip_prefix("#+begin_").or(folded.strip_prefix("#+end_")) {
            let is_code = block.starts_with("src") || block.starts_with("example");
            self.in_code = is_code && folded.starts_with("#+begin");
            if is_code {
                self.push("```");
            }
            return;
        }
        if self.in_code {
            return self.push(line);
        }
        if let Some(said) = trimmed.strip_prefix("#+") {
            return self.keyword(said);
        }
        let stars = line.len() - line.trim_start_matches('*').len();
        if stars > 0 && line[stars..].starts_with(' ') {
            return self.headline(stars, line[stars..].trim());
        }
        let is_drawer = trimmed.len() > 2 && trimmed.starts_with(':') && trimmed.ends_with(':');
        if is_drawer && !trimmed.contains(' ') {
            self.in_drawer = true;
            return;
        }
        if self.planning(trimmed) {
            return;
        }
        match trimmed.strip_prefix("# ") {
            Some(comment) => {
                let said = comment.split_once(':');
                said.into_iter().for_each(|(name, value)| self.marks.line(name, value));
            }
            None => {
                let indent = line.len() - line.trim_start_matches(' ').len();
                let line = &line[indent.min(self.inset)..];
                // What stands below a task is a paragraph of its own, and no part of its words.
                let is_item = ["- ", "+ "].iter().any(|mark| line.trim_start().starts_with(mark));
                if self.headline.take().is_some() && !is_item && !trimmed.is_empty() {
                    self.out.push('\n');
                }
                self.push(&plain(line));
            }
        }
    }

    fn push(&mut self, line: &str) {
        if self.out.is_empty() && line.trim().is_empty() {
            return;
        }
        self.out.push_str(line.trim_end());
        self.out.push('\n');
    }

    /// `#+TITLE: …`
    fn keyword(&mut self, said: &str) {
        let Some((name, value)) = said.split_once(':') else { return };
        let value = value.trim();
        self.marks.said(said_by_member(name, &value.into()));
        self.marks.note(name, value);
        if let Some((inner, value)) = value.split_once(char::is_whitespace)
            && name.eq_ignore_ascii_case("property")
        {
            self.marks.line(inner, value);
        }
        if value.is_empty() {
            return;
        }
        match name.to_ascii_lowercase().as_str() {
            "title" => self.title = Some(value.to_owned()),
            "date" => self.date = Some(value.trim_matches(['<', '>', '[', ']']).to_owned()),
            "filetags" => {
                let tags = value.split([':', ' ']).filter(|tag| !tag.is_empty());
                self.labels.extend(tags.map(str::to_owned));
            }
            name @ ("author" | "language") => {
                self.members.insert(name.to_owned(), value.into());
            }
            _ => {}
        }
    }

    fn headline(&mut self, level: usize, said: &str) {
        if let Some(tags) = tags_of(said) {
            let is_kept_back = tags.split(':').any(|tag| tag.eq_ignore_ascii_case("noexport"));
            self.marks.said(is_kept_back.then_some(false));
            self.marks.said(said_by_member("tags", &tags.into()));
            self.marks.note("tags", tags);
        }
        let (word, rest) = said.split_once(' ').unwrap_or((said, ""));
        let state = match word {
            word if OPEN.contains(&word) => Some("- [ ] "),
            word if DONE.contains(&word) => Some("- [x] "),
            _ => None,
        };
        let words = plain(without_marks(if state.is_some() { rest } else { said }));
        let mark = match state {
            Some(mark) => mark.to_owned(),
            None => format!("{} ", "#".repeat(level.min(LEVEL_MAX))),
        };
        if state.is_none() && !self.out.is_empty() {
            self.out.push('\n');
        }
        self.push(&format!("{mark}{words}"));
        self.headline = state.map(|_| self.out.len() - 1);
        self.inset = level + 1;
        if state.is_none() {
            self.out.push('\n');
        }
    }

    /// Days below a headline; true when the line is nothing else.
    fn planning(&mut self, line: &str) -> bool {
        let begins = PLANNED.iter().chain(&["CLOSED:"]).any(|word| line.starts_with(word));
        if !begins {
            return false;
        }
        for word in PLANNED {
            let stamp = line.split_once(word).map(|(_, rest)| rest.trim_start());
            let day = stamp.and_then(|stamp| stamp.trim_start_matches(['<', '[']).get(..10));
            if let (Some(day), Some(end)) = (day, self.headline) {
                let shown = format!(" ({} {day})", word.to_ascii_lowercase());
                self.out.insert_str(end, &shown);
                self.headline = Some(end + shown.len());
            }
        }
        true
    }
}

/// A headline without its priority and its tags.
fn without_marks(said: &str) -> &str {
    let said = said.trim();
    let said = match said.strip_prefix("[#") {
        Some(rest) => rest.split_once(']').map_or(said, |(_, rest)| rest.trim_start()),
        None => said,
    };
    match tags_of(said) {
        Some(tags) => said[..said.len() - tags.len()].trim_end(),
        None => said,
    }
}

/// The tags at the end of a headline: `:work:private:`.
fn tags_of(said: &str) -> Option<&str> {
    let (_, tags) = said.trim_end().rsplit_once(' ')?;
    (tags.len() > 2 && tags.starts_with(':') && tags.ends_with(':')).then_some(tags)
}

/// `[[target][words]]` as its words.
fn plain(line: &str) -> String {
    let mut out = String::new();
    let mut rest = line;
    while let Some((before, after)) = rest.split_once("[[") {
        let Some((link, tail)) = after.split_once("]]") else { break };
        out.push_str(before);
        out.push_str(link.split_once("][").map_or(link, |(_, words)| words));
        rest = tail;
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_says_in_each_of_its_ways_that_it_is_private() {
        for (text, expected) in [
            ("#+TITLE: A\n#+PUBLISH: no\n\nText", Some(false)),
            ("#+PUBLISH:\nText", Some(false)),
            ("#+PROPERTY: publish no\nText", Some(false)),
            ("#+PROPERTY: header-args :exports both\nText", None),
            ("# publish: no\nText", Some(false)),
            ("# Remember: ask Ana\nText", None),
            ("#+DRAFT: t\nText", Some(false)),
            ("#+FILETAGS: :home:private:\nText", Some(false)),
            ("* Head :home:private:\nText", Some(false)),
            ("* Head :noexport:\nText", Some(false)),
            ("* Head\n:PROPERTIES:\n:PUBLISH: no\n:END:\nText", Some(false)),
            ("* Head\n:PROPERTIES:\n:VISIBILITY: folded\n:END:\nText", None),
            ("* Head :home:\nText\n#+begin_src\n#+PUBLISH: no\n#+end_src\n", None),
        ] {
            assert_eq!(document(text).publish, expected, "{text}");
        }
    }

    #[test]
    fn what_is_indented_below_a_task_is_a_paragraph_of_its_own() {
        let read = document(
            "* Trip\n** TODO Book the flat\n   The flat is free in May.\n   - with a stove\n     and a bed\n** DONE Ask Rui\n\n   He is ill.\n",
        );
        assert_eq!(
            read.text,
            "# Trip\n\n- [ ] Book the flat\n\nThe flat is free in May.\n- with a stove\n  and a bed\n- [x] Ask Rui\n\nHe is ill.\n"
        );
    }

    #[test]
    fn headlines_tasks_and_days_are_read() {
        let read = document(
            "#+TITLE: Plan\n#+DATE: <2026-03-05 Thu>\n#+FILETAGS: :home:work:\n\n* Budget\nThe hall costs 350 EUR.\n\
             * Tasks\n** TODO [#A] Book the hall   :mail:\n   DEADLINE: <2026-03-20 Fri> SCHEDULED: <2026-03-10 Tue>\n\
             :PROPERTIES:\n:ID: 1\n:END:\n** DONE Ask [[https://x.org][the speaker]]\n   CLOSED: [2026-03-02 Mon]\n\
             - [ ] a box\n# a comment\n#+begin_src sh\n* no headline\n#+end_src\n",
        );
        assert_eq!(
            read.text,
            "# Budget\n\nThe hall costs 350 EUR.\n\n# Tasks\n\n- [ ] Book the hall (deadline: 2026-03-20) (scheduled: 2026-03-10)\n\
             - [x] Ask the speaker\n- [ ] a box\n```\n* no headline\n```\n"
        );
        assert_eq!(
            (read.title.as_deref(), read.date.as_deref()),
            (Some("Plan"), Some("2026-03-05 Thu"))
        );
        assert_eq!(read.labels, ["home", "work"]);
    }
}
