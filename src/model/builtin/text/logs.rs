//! Logs of changes that programs write: of Debian packages, of GNU (`ChangeLog`), of git. Their entries stand newest first.
//!
//! Contract. A text is such a log when one of its first lines heads an entry. The head is a heading of [`ENTRY_LEVEL`], what
//! says who wrote an entry and when is no text, and so are lists of changed files.

use std::ops::Range;

use super::super::lexicon::lexicon;
use super::lines;
use super::words::fold;

/// The level of the heading of an entry.
pub(crate) const ENTRY_LEVEL: u8 = 7;
/// Lines of a text in which the head of its first entry is looked for.
const FIRST_LINES: usize = 6;
/// Longest line that heads an entry.
const HEAD_BYTES_MAX: usize = 200;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Log {
    /// `tool (1.2-3) unstable; urgency=medium`
    Debian,
    /// `2026-03-04  Ana Ruiz  <ana@a.example>`
    Gnu,
    /// `commit 1a2b3c4d`
    Git,
}

/// What a line of a log is, beside running text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LogLine {
    /// The head of an entry, and the words that name it.
    Head(Range<usize>),
    /// A line that is no text, such as the author and the day.
    Frame,
}

/// The log that a text is.
pub(crate) fn log_of(source: &str) -> Option<Log> {
    let mut first = source.lines().filter(|line| !line.trim().is_empty()).take(FIRST_LINES);
    first.find_map(|line| head(line).map(|(log, _)| log))
}

/// What a line of a log is; `None` for running text.
pub(crate) fn line_of(log: Log, line: &str) -> Option<LogLine> {
    if let Some((_, name)) = head(line).filter(|(other, _)| *other == log) {
        return Some(LogLine::Head(name));
    }
    let is_frame = match log {
        Log::Debian => line.starts_with(" -- ") || is_in_brackets(line),
        Log::Gnu => false,
        Log::Git => is_git_header(line) || is_trailer(line) || is_of_files(line),
    };
    is_frame.then_some(LogLine::Frame)
}

fn head(line: &str) -> Option<(Log, Range<usize>)> {
    if line.len() > HEAD_BYTES_MAX || line.starts_with(char::is_whitespace) {
        return None;
    }
    let debian = || Some((Log::Debian, debian_head(line)?));
    let git = || git_head(line).then_some((Log::Git, 0..line.trim_end().len()));
    let gnu = || Some((Log::Gnu, gnu_head(line)?));
    debian().or_else(git).or_else(gnu)
}

/// `tool (1.2-3)` of `tool (1.2-3) unstable; urgency=medium`.
fn debian_head(line: &str) -> Option<Range<usize>> {
    let (name, rest) = line.split_once(" (")?;
    let (version, rest) = rest.split_once(") ")?;
    let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "+.-".contains(c);
    let is_version = version.starts_with(|c: char| c.is_ascii_alphanumeric())
        && version.contains(|c: char| c.is_ascii_digit())
        && !version.contains(char::is_whitespace);
    let is_head = !name.is_empty() && name.chars().all(is_name) && is_version;
    (is_head && rest.contains("; urgency=")).then_some(0..name.len() + version.len() + 3)
}

fn git_head(line: &str) -> bool {
    let Some(rest) = line.strip_prefix("commit ") else { return false };
    let hash = rest.split_whitespace().next().unwrap_or_default();
    let is_hash =
        (7..=64).contains(&hash.len()) && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_hash && (rest.trim_end().len() == hash.len() || rest[hash.len()..].starts_with(" ("))
}

/// The day of `2026-03-04  Ana  <ana@a.example>` and of `Tue Mar  3 10:12:00 1998  Ana  <ana@a.example>`.
fn gnu_head(line: &str) -> Option<Range<usize>> {
    let (before, _) = line.split_once('<').filter(|(_, mail)| mail.contains('@'))?;
    let day = before.get(..10)?;
    let is_day = day.bytes().enumerate().all(|(at, byte)| match at {
        4 | 7 => byte == b'-',
        _ => byte.is_ascii_digit(),
    });
    if is_day {
        return before[10..].starts_with(' ').then_some(0..10);
    }
    let first = before.split_whitespace().next()?;
    let is_year = |word: &&str| word.len() == 4 && word.bytes().all(|byte| byte.is_ascii_digit());
    let year = before.split_whitespace().take(7).find(is_year)?;
    lexicon().dates.weekdays.number(&fold(first))?;
    Some(0..before.find(year)? + year.len())
}

/// `  [ Ana Ruiz ]` above the changes of one person.
fn is_in_brackets(line: &str) -> bool {
    let line = line.trim();
    line.starts_with("[ ") && line.ends_with(" ]")
}

fn is_git_header(line: &str) -> bool {
    let labels = ["Author: ", "AuthorDate: ", "Date: ", "Commit: ", "CommitDate: ", "Merge: "];
    labels.iter().any(|label| line.starts_with(label))
}

/// `    Signed-off-by: Ana Ruiz <ana@a.example>`
fn is_trailer(line: &str) -> bool {
    let Some(found) = lines::labelled(line) else { return false };
    let label = &line[found.label];
    let is_by = label.ends_with("-by") || label.ends_with("-By");
    !label.contains(' ')
        && (is_by || matches!(label, "Cc" | "Change-Id" | "Change-id" | "Fixes" | "Closes"))
}

/// ` src/a.rs | 12 ++--`, ` 2 files changed, 14 insertions(+)`
fn is_of_files(line: &str) -> bool {
    let said = line.trim();
    let is_count = |piece: &str| {
        let rest = piece.trim_start().trim_start_matches(|c: char| c.is_ascii_digit());
        rest.len() < piece.trim_start().len() && rest.trim_matches(['+', '-', ' ']).is_empty()
            || piece.trim_start().starts_with("Bin ")
    };
    said.rsplit_once('|').is_some_and(|(_, count)| is_count(count))
        || said.starts_with(|c: char| c.is_ascii_digit())
            && (said.contains(" file changed") || said.contains(" files changed"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_of_entries_name_a_version_or_a_day() {
        for (line, log, name) in [
            ("tool (1:1.2-3) unstable; urgency=medium", Log::Debian, "tool (1:1.2-3)"),
            ("2026-03-04  Ana Ruiz  <ana@a.example>", Log::Gnu, "2026-03-04"),
            (
                "Tue Mar  3 10:12:00 1998  Ana Ruiz  <ana@a.example>",
                Log::Gnu,
                "Tue Mar  3 10:12:00 1998",
            ),
            ("commit 1a2b3c4d5e", Log::Git, "commit 1a2b3c4d5e"),
        ] {
            assert_eq!(log_of(line), Some(log), "{line}");
            let Some(LogLine::Head(range)) = line_of(log, line) else { panic!("{line}") };
            assert_eq!(&line[range], name);
        }
        for line in [
            "commit to the plan",
            "tool (old) is slow; urgency=high",
            "2026-03-04 we met Ana",
            "Tuesday we met <ana@a.example>",
            "  commit 1a2b3c4d5e",
        ] {
            assert_eq!(log_of(line), None, "{line}");
        }
        for line in ["Author: Ana", "    Signed-off-by: Ana", " a.rs | 12 ++--", " 1 file changed"]
        {
            assert_eq!(line_of(Log::Git, line), Some(LogLine::Frame), "{line}");
        }
        assert_eq!(line_of(Log::Debian, " -- Ana <a@b.example>  Tue"), Some(LogLine::Frame));
        assert_eq!(line_of(Log::Git, "    The roof leaks: mend it"), None);
    }
}
