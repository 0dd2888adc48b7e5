//! Marks that stand in a text itself: lines and the title at its head, tags, the class of a calendar entry.
//! They say that it is private, that it stays on this machine, or what it is filed under.
//!
//! Contract: such a mark can only say no, and it stays in the text, which is hashed as it is written.
//! Front matter, headers and members of records are read elsewhere.
//!
//! See docs/adr/0047-privacy-flag.md.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::latex_marks as commands;
use super::members::{file_under, filed_under};
use crate::contract::privacy::{LOCAL_ONLY, local_only_by_line, names_local_only, says_local_only};
use crate::contract::publish::{
    has_private_tag, has_tag, is_private_title, labels_said, names_labels, said_by_line,
    said_by_members, together,
};

/// Lines at the head of a text that are looked at.
const HEAD_LINES_MAX: usize = 20;

/// What a text says of itself beside its words.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Marks {
    /// Whether it may be shown to others.
    pub publish: Option<bool>,
    /// Whether it stays on this machine.
    pub local_only: bool,
    pub filed_under: BTreeSet<String>,
}

impl Marks {
    pub(crate) fn said(&mut self, publish: Option<bool>) {
        self.publish = together([self.publish, publish]);
    }

    /// A line that can only say no.
    pub(crate) fn line(&mut self, name: &str, value: &str) {
        self.said(said_by_line(name, value));
        self.note(name, value);
    }

    /// What a line says to rules about data.
    pub(crate) fn note(&mut self, name: &str, value: &str) {
        self.local_only |= local_only_by_line(name, value);
        if names_labels(name) {
            self.file_under(labels_said(&value.into()));
        }
    }

    /// What members say.
    pub(crate) fn members(&mut self, members: &Map<String, Value>) {
        self.said(said_by_members(members));
        self.local_only |= says_local_only(members);
        self.filed_under.extend(filed_under(members));
    }

    pub(crate) fn file_under(&mut self, labels: impl IntoIterator<Item = String>) {
        for label in labels {
            self.local_only |= names_local_only(&label);
            self.filed_under.insert(label);
        }
    }

    pub(crate) fn join(&mut self, other: Marks) {
        self.said(other.publish);
        self.local_only |= other.local_only;
        self.filed_under.extend(other.filed_under);
    }

    /// Keeps what rules about data read among the members of the text.
    pub(crate) fn keep_in(self, members: &mut Map<String, Value>) {
        if self.local_only {
            members.insert(LOCAL_ONLY.to_owned(), true.into());
        }
        file_under(members, self.filed_under);
    }
}

/// What a text of a kind says of itself.
pub(crate) fn in_text(kind: &str, text: &str) -> Marks {
    let mut marks = Marks::default();
    in_head(kind, text, &mut marks);
    if text.starts_with("BEGIN:V") {
        text.lines().for_each(|line| in_entry(line, &mut marks));
    }
    let is_private = match kind {
        "md" => has_private_tag(text),
        "tex" => {
            marks.file_under(commands::key_words(text));
            commands::is_private(text)
        }
        _ => false,
    };
    if matches!(kind, "rst" | "txt") {
        in_directives(text, &mut marks);
    }
    marks.said(is_private.then_some(false));
    marks.local_only |= kind == "md" && has_tag(text, &names_local_only);
    marks
}

/// The lines `name: value` that a text begins with. Comments, headings and one title may stand among
/// them; the first other line ends them.
fn in_head(kind: &str, text: &str, marks: &mut Marks) {
    let (mut has_title, mut title_width) = (false, 0);
    for line in text.lines().take(HEAD_LINES_MAX) {
        let line = line.trim();
        // A comment that ends on its line may have text behind it.
        let comment = line.strip_prefix("<!--").and_then(|rest| rest.split_once("-->"));
        let line = comment.map_or(line, |(comment, _)| comment.trim());
        let is_table = matches!(kind, "csv" | "tsv");
        if is_table && !line.starts_with('#') {
            break;
        }
        let is_sign = !line.chars().any(char::is_alphanumeric);
        // The line under a title that makes a heading of it.
        let underlines = |mark: char| line.chars().all(|c| c == mark) && line.len() >= title_width;
        if has_title && title_width > 0 && (underlines('=') || underlines('-')) {
            title_width = 0;
            continue;
        }
        let is_command = kind == "tex" && line.starts_with('\\');
        let is_element = kind == "html" && line.starts_with('<') && !line.starts_with("<!--");
        if line.is_empty() || is_sign && !has_title || is_command || is_element {
            continue;
        }
        // A field as reStructuredText and AsciiDoc have them: `:private: true`.
        let field = line.strip_prefix(':').filter(|rest| rest.contains(':'));
        if let Some((name, value)) = field.unwrap_or(line).split_once(':') {
            let is_list = value.trim_start().starts_with('[') && names_labels(name.trim());
            // The end of a comment, and signs around the word.
            let value = value.trim_matches(|c: char| !c.is_alphanumeric());
            // A field without a value is set, and a list of one has no comma: its blanks separate nothing.
            let value = match field.is_some() && value.is_empty() {
                true => "true".to_owned(),
                false if is_list => format!("{value},"),
                false => value.to_owned(),
            };
            marks.line(name, &value);
        } else if has_title || is_sign {
            break;
        } else {
            (has_title, title_width) = (true, line.chars().count());
            let is_mark = is_private_title(line.trim_start_matches(['#', ' ']));
            marks.said(is_mark.then_some(false));
        }
    }
}

/// What directives of reStructuredText say: `.. tags:: private`, and the fields below `.. meta::`.
fn in_directives(text: &str, marks: &mut Marks) {
    let mut in_meta = false;
    for line in text.lines() {
        let is_indented = line.starts_with([' ', '\t']);
        in_meta = line.trim() == ".. meta::" || in_meta && (is_indented || line.trim().is_empty());
        let field = line.trim().strip_prefix(':').filter(|_| in_meta);
        let directive = line.strip_prefix(".. ").and_then(|rest| rest.split_once("::"));
        match (field.and_then(|field| field.split_once(':')), directive) {
            (Some((name, value)), _) => marks.line(name, value),
            (_, Some((name, value))) if names_labels(name) => marks.line(name, value),
            _ => {}
        }
    }
}

/// `CLASS:PRIVATE` and `CATEGORIES:Health` of iCalendar and vCard.
fn in_entry(line: &str, marks: &mut Marks) {
    // Parameters stand behind the name, and one in quotes may hold a colon.
    let Some((name, value)) = line.trim_end().rsplit_once(':') else { return };
    let name = name.split(';').next().unwrap_or_default();
    if name.eq_ignore_ascii_case("class") {
        marks.said(said_by_line(name, value));
    } else if names_labels(name) {
        marks.note(name, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_at_the_head_of_a_text_says_no_and_prose_says_nothing() {
        for (kind, text, expected) in [
            ("md", "publish:: false\n\nText.", Some(false)),
            ("md", "Title: A\nPublish: no\n\nText.", Some(false)),
            ("md", "<!-- publish: false -->\nText.", Some(false)),
            ("md", "# Diary\n\nprivate: yes\nText.", Some(false)),
            ("md", "Diary\nprivate: yes\nText.", Some(false)),
            ("md", "Text with a #private tag.", Some(false)),
            ("md", "- tags:: garden, private\n- Text.", Some(false)),
            ("txt", "Publish: false\n\nText.", Some(false)),
            ("txt", "PRIVATE\n\nText.", Some(false)),
            ("md", "# [Draft] The roof\n\nText.", Some(false)),
            ("txt", "Private life of bees\nText.", None),
            ("txt", "publish: yes\nText.", None),
            ("txt", "Text with a #private tag.", None),
            ("txt", "Dear Ana,\nwe met today.\nprivate: yes", None),
            ("txt", "Private: the garden of Ana.\nVisibility: 10 km", None),
            ("md", "Text\n---\npublish: false\n---\n", None),
            ("tex", "% publish: false\n\\section{A}\nText", Some(false)),
            ("tex", "\\title{A}\n\\date{today}\n%! publish: no\nText", Some(false)),
            ("html", "<!--\n---\npublish: false\n---\n-->\n<p>Text", Some(false)),
            ("html", "<p>publish: false</p>", None),
            ("html", "<!-- draft: true --><p>Text", Some(false)),
            ("html", "<!-- garden --><p>draft: true", None),
            ("csv", "# publish: false\nid,text\n1,Text", Some(false)),
            ("csv", "publish: no,text\n1,Text", None),
            ("txt", "BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\nCLASS:PRIVATE\r\n", Some(false)),
            ("txt", "BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\nCLASS:PUBLIC\r\n", None),
            ("txt", "BEGIN:VCALENDAR\r\nCLASS;X-A=\"b:c\":PRIVATE\r\n", Some(false)),
            ("txt", "BEGIN:VCALENDAR\r\nSUMMARY:CLASS:PRIVATE\r\n", None),
            ("md", "Diary\n=====\n\npublish: no\n", Some(false)),
            ("md", "tags: [private sector]\n\nText", None),
            ("md", "tags: [private]\n\nText", Some(false)),
            ("md", "publish: [false]\n\nText", Some(false)),
            ("txt", ":private: true\n\nText", Some(false)),
            ("txt", "Diary\n=====\n\n:status: draft\n:date: 2026\n\nText", Some(false)),
            ("txt", "= Diary\n:private:\n\nText", Some(false)),
            ("txt", "Diary\n=====\n\nWords.\n\n.. meta::\n   :robots: noindex\n", Some(false)),
            ("txt", "Diary\n=====\n\nWords.\n\n.. tags:: garden, private\n", Some(false)),
            ("txt", "Words.\n\n.. meta::\n   :robots: index\n\nA list.\n:private: yes", None),
            ("txt", ":private: the garden of Ana\n\nText", None),
            ("tex", "\\section{A}\n\\keywords{garden, private}", Some(false)),
            ("md", "The diary\n---------\nprivate: yes\n", Some(false)),
        ] {
            assert_eq!(in_text(kind, text).publish, expected, "{kind}: {text}");
        }
    }

    #[test]
    fn a_text_says_what_it_is_filed_under_and_that_it_stays_here() {
        for (kind, text, local_only, label) in [
            ("txt", "local_only: true\n\nText.", true, ""),
            ("txt", ":local_only: true\n\nText.", true, ""),
            ("rst", "Costs\n=====\n\n:local-only:\n\nText.", true, ""),
            ("md", "<!-- local_only: true -->\nText.", true, ""),
            ("html", "<!-- local_only: true --><p>Text", true, ""),
            ("tex", "% local_only: true\n\\section{A}", true, ""),
            ("csv", "# local_only: yes\nid,text\n", true, ""),
            ("md", "#local_only\n\nText.", true, ""),
            ("md", "# Costs\n\nText. #local-only/family, and more", true, ""),
            ("md", "# local_only\n\nhttps://x.example/#local_only", false, ""),
            ("txt", "Text. #local_only", false, ""),
            ("txt", "local_only: no\n\nText.", false, ""),
            ("txt", "Local only: the shop of Ana.\n\nText.", false, ""),
            ("txt", "Dear Ana,\nwe met today.\nlocal_only: true", false, ""),
            ("txt", "Flags: local_only\n\nText.", true, "local_only"),
            ("txt", "Tags: garden, health\n\nText.", false, "health"),
            ("rst", "Costs\n=====\n\n:tags: garden, health\n", false, "health"),
            ("rst", "Words.\n\n.. tags:: garden, health\n", false, "health"),
            ("rst", "Words.\n\n.. meta::\n   :keywords: garden, health\n", false, "health"),
            ("tex", "\\keywords{garden \\sep health}", false, "health"),
            ("tex", "\\hypersetup{pdfkeywords={garden, health}}", false, "health"),
            ("tex", "% \\keywords{health}", false, ""),
            ("txt", "BEGIN:VCALENDAR\r\nCATEGORIES:Garden,health\r\n", false, "health"),
        ] {
            let marks = in_text(kind, text);
            assert_eq!(marks.local_only, local_only, "{kind}: {text}");
            let has_label = marks.filed_under.contains(label);
            assert_eq!(has_label, !label.is_empty(), "{kind}: {text}: {marks:?}");
        }
    }
}
