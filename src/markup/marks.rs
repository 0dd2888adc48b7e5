//! Marks as private that stand in a text itself: lines and the title at its head, tags, the class of a
//! calendar entry.
//!
//! Contract: such a mark can only say no, and it stays in the text, which is hashed as it is written.
//! Front matter, headers and members of records are read elsewhere.
//!
//! See docs/adr/0047-privacy-flag.md.

use super::latex_marks as commands;
use crate::contract::publish::{
    has_private_tag, is_private_title, names_labels, said_by_line, together,
};

/// Lines at the head of a text that are looked at.
const HEAD_LINES_MAX: usize = 20;

/// What a text of a kind says of itself.
pub(crate) fn said_in_text(kind: &str, text: &str) -> Option<bool> {
    let has_tag = kind == "md" && has_private_tag(text);
    let is_entry = text.starts_with("BEGIN:V") && text.lines().any(is_private_class);
    let is_marked = match kind {
        "rst" | "txt" => has_private_directive(text),
        "tex" => commands::is_private(text),
        _ => false,
    };
    together([said_in_head(kind, text), (has_tag || is_entry || is_marked).then_some(false)])
}

/// The lines `name: value` that a text begins with. Comments, headings and one title may stand among
/// them; the first other line ends them.
fn said_in_head(kind: &str, text: &str) -> Option<bool> {
    let (mut said, mut has_title, mut title_width) = (None, false, 0);
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
            said = together([said, said_by_line(name, &value)]);
        } else if has_title || is_sign {
            break;
        } else {
            (has_title, title_width) = (true, line.chars().count());
            let is_mark = is_private_title(line.trim_start_matches(['#', ' ']));
            said = together([said, is_mark.then_some(false)]);
        }
    }
    said
}

/// Whether a directive of reStructuredText says so: `.. tags:: private`, or a field below `.. meta::`.
fn has_private_directive(text: &str) -> bool {
    let mut in_meta = false;
    text.lines().any(|line| {
        let is_indented = line.starts_with([' ', '\t']);
        in_meta = line.trim() == ".. meta::" || in_meta && (is_indented || line.trim().is_empty());
        let field = line.trim().strip_prefix(':').filter(|_| in_meta);
        let directive = line.strip_prefix(".. ").and_then(|rest| rest.split_once("::"));
        let said = match (field.and_then(|field| field.split_once(':')), directive) {
            (Some((name, value)), _) => said_by_line(name, value),
            (_, Some((name, value))) if names_labels(name) => said_by_line(name, value),
            _ => None,
        };
        said == Some(false)
    })
}

/// `CLASS:PRIVATE` of iCalendar and vCard.
fn is_private_class(line: &str) -> bool {
    // Parameters stand behind the name, and one in quotes may hold a colon.
    line.trim_end().rsplit_once(':').is_some_and(|(name, value)| {
        let name = name.split(';').next().unwrap_or_default();
        name.eq_ignore_ascii_case("class") && said_by_line(name, value) == Some(false)
    })
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
            assert_eq!(said_in_text(kind, text), expected, "{kind}: {text}");
        }
    }
}
