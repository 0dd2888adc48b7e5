//! Marks as private that stand in a text itself: lines and the title at its head, tags, the class of a
//! calendar entry.
//!
//! Contract: such a mark can only say no, and it stays in the text, which is hashed as it is written.
//! Front matter, headers and members of records are read elsewhere.
//!
//! See docs/adr/0047-privacy-flag.md.

use crate::contract::publish::{has_private_tag, is_private_title, said_by_line, together};

/// Lines at the head of a text that are looked at.
const HEAD_LINES_MAX: usize = 20;

/// What a text of a kind says of itself.
pub(crate) fn said_in_text(kind: &str, text: &str) -> Option<bool> {
    let has_tag = kind == "md" && has_private_tag(text);
    let is_entry = text.starts_with("BEGIN:V") && text.lines().any(is_private_class);
    together([said_in_head(kind, text), (has_tag || is_entry).then_some(false)])
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
        if let Some((name, value)) = line.split_once(':') {
            // The end of a comment, and signs around the word.
            let value = value.trim_matches(|c: char| !c.is_alphanumeric());
            said = together([said, said_by_line(name, value)]);
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
            ("md", "The diary\n---------\nprivate: yes\n", Some(false)),
        ] {
            assert_eq!(said_in_text(kind, text), expected, "{kind}: {text}");
        }
    }
}
