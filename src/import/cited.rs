//! Marks that a chat program leaves in an answer for its own page, which shows a source there.
//!
//! Contract: pure. A mark for a reader of the export is a few odd signs, so it is left out. Words that a mark shows stay.

/// The first and the last sign of a mark, and the sign between its parts.
const BEGIN: char = '\u{e200}';
const END: char = '\u{e201}';
const BETWEEN: char = '\u{e202}';
/// All signs that these marks are made of.
const SIGNS: std::ops::RangeInclusive<char> = '\u{e200}'..='\u{e20f}';
/// The older form: `【12†source】`.
const OLD_BEGIN: char = '\u{3010}';
const OLD_END: char = '\u{3011}';
const OLD_SIGN: char = '\u{2020}';
/// Characters of the longest mark that is looked for.
const MARK_CHARS_MAX: usize = 2_000;

/// A text without such marks.
pub(super) fn without_marks(text: &str) -> String {
    if !text.contains(|c: char| SIGNS.contains(&c) || c == OLD_BEGIN) {
        return text.to_owned();
    }
    let (mut out, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(c) = rest.chars().next() {
        if let Some((mark, behind)) = mark_at(rest) {
            let words = shown(mark);
            if words.is_empty() && behind.chars().next().is_none_or(|c| !c.is_alphanumeric()) {
                out.truncate(out.trim_end_matches(' ').len());
            }
            out.push_str(&words);
            rest = behind;
            continue;
        }
        if !SIGNS.contains(&c) {
            out.push(c);
        }
        rest = &rest[c.len_utf8()..];
    }
    out
}

/// The mark that a text begins with, without its first and last sign, and the text behind it.
fn mark_at(text: &str) -> Option<(&str, &str)> {
    let begin = text.chars().next()?;
    let end = match begin {
        BEGIN => END,
        OLD_BEGIN => OLD_END,
        _ => return None,
    };
    let inner = &text[begin.len_utf8()..];
    let length = inner.char_indices().take(MARK_CHARS_MAX).find(|(_, c)| *c == end)?.0;
    let (mark, behind) = (&inner[..length], &inner[length + end.len_utf8()..]);
    (begin == BEGIN || mark.contains(OLD_SIGN)).then_some((mark, behind))
}

/// The words that a mark shows: the title of a link, or the name of a thing.
fn shown(mark: &str) -> String {
    let mut parts = mark.split(BETWEEN);
    let kind = parts.next().unwrap_or_default();
    if kind.contains("cite") {
        return String::new();
    }
    let first = parts.next().unwrap_or_default().trim();
    // The kind of a thing, its name, and more about it.
    if let Ok(of_thing) = serde_json::from_str::<Vec<serde_json::Value>>(first) {
        let name = of_thing.get(1).and_then(serde_json::Value::as_str);
        return name.unwrap_or_default().to_owned();
    }
    let is_words = !first.starts_with(['{', '[']) && !is_reference(first);
    if is_words { first.to_owned() } else { String::new() }
}

/// Whether a part names something of the chat program, such as `turn0search1`.
fn is_reference(part: &str) -> bool {
    part.strip_prefix("turn").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::without_marks;

    #[test]
    fn marks_of_citations_are_left_out_and_their_words_stay() {
        for (text, expected) in [
            ("It rains \u{e200}cite\u{e202}turn0search1\u{e202}turn0news2\u{e201}.", "It rains."),
            ("It rains\u{e200}cite\u{e202}turn0search1\u{e201} today", "It rains today"),
            ("It rains 【12†source】 today.", "It rains today."),
            ("See 【4:0†plan.pdf†L1-L9】", "See"),
            (
                "\u{e200}entity\u{e202}[\"city\",\"Porto\",\"in Portugal\"]\u{e201} is wet.",
                "Porto is wet.",
            ),
            ("\u{e200}url\u{e202}The plan\u{e202}https://x.org\u{e201}", "The plan"),
            ("\u{e203}Wet\u{e204} \u{e200}filecite\u{e202}turn0file1\u{e202}L1-L3\u{e201}", "Wet"),
            ("\u{e200}i\u{e202}turn0image1\u{e202}turn0image2\u{e201}Wet", "Wet"),
            (
                "A sign 【of a book】 stays, and so does 【.",
                "A sign 【of a book】 stays, and so does 【.",
            ),
            ("Cut off \u{e200}cite", "Cut off cite"),
        ] {
            assert_eq!(without_marks(text), expected, "{text}");
        }
    }
}
