//! Finds e-mail addresses.

use std::ops::Range;

/// Words in brackets that people write for `@` and `.` in an address.
const AT_WORDS: [&str; 6] = ["(at)", "[at]", "{at}", "(arroba)", "[arroba]", " at "];
const DOT_WORDS: [&str; 6] = ["(dot)", "[dot]", "{dot}", "(punto)", "[punto]", " dot "];

/// Ends of addresses. Words between spaces are an address only with one of these at the end.
const ENDS: [&str; 24] = [
    "com", "org", "net", "edu", "gov", "info", "io", "dev", "app", "eu", "de", "es", "fr", "it",
    "nl", "uk", "ar", "mx", "cl", "co", "br", "pt", "ch", "example",
];

/// Adds each address in `gap` to `found`.
pub(super) fn find(text: &str, gap: Range<usize>, found: &mut Vec<Range<usize>>) {
    find_plain(text, gap.clone(), found);
    find_spelled(text, gap, found);
}

fn find_plain(text: &str, gap: Range<usize>, found: &mut Vec<Range<usize>>) {
    let bytes = text.as_bytes();
    let mut from = gap.start;
    // Each byte is read at most twice: neither side of an address contains another `@`.
    for at in memchr::memchr_iter(b'@', &bytes[gap.clone()]).map(|at| gap.start + at) {
        if at < from {
            continue;
        }
        let before = bytes[from..at].iter().rev().take_while(|byte| is_local(**byte)).count();
        let after = bytes[at + 1..gap.end].iter().take_while(|byte| is_domain(**byte)).count();
        let name = text[at + 1..at + 1 + after].trim_end_matches(['.', '-']);
        if before > 0 && is_host(name) {
            from = at + 1 + name.len();
            found.push(at - before..from);
        }
    }
}

/// Finds `ana (at) example (dot) org`. Words between spaces count only when both `at` and `dot` occur.
fn find_spelled(text: &str, gap: Range<usize>, found: &mut Vec<Range<usize>>) {
    let part = &text[gap.clone()];
    let bytes = part.as_bytes();
    let mut from = 0;
    for (at, _) in part.char_indices().filter(|(_, c)| matches!(c, '(' | '[' | '{' | ' ')) {
        let Some(word) = AT_WORDS.iter().find(|word| starts_with(&part[at..], word)) else {
            continue;
        };
        if at < from {
            continue;
        }
        let spaces = usize::from(at > from && bytes[at - 1] == b' ');
        let local = bytes[from..at - spaces].iter().rev().take_while(|b| is_local(**b)).count();
        let mut end = at + word.len();
        let mut dots = 0;
        loop {
            end += usize::from(bytes.get(end) == Some(&b' '));
            end += bytes[end..].iter().take_while(|byte| is_domain(**byte)).count();
            let space = usize::from(bytes.get(end) == Some(&b' '));
            let next = DOT_WORDS.iter().find_map(|word| {
                let here = starts_with(&part[end..], word).then_some(end + word.len());
                here.or_else(|| {
                    let behind = part.get(end + space..)?;
                    starts_with(behind, word).then_some(end + space + word.len())
                })
            });
            let Some(next) = next else { break };
            (end, dots) = (next, dots + 1);
        }
        let name = part[at + word.len()..end].trim_end_matches(['.', '-', ' ']);
        let brackets = !word.starts_with(' ');
        let known = || {
            let end = name.rsplit([' ', '.']).next().unwrap_or_default();
            ENDS.iter().any(|known| end.eq_ignore_ascii_case(known))
        };
        let host =
            if brackets { dots > 0 || is_host(name.trim_start()) } else { dots > 0 && known() };
        if local > 0 && host {
            from = at + word.len() + name.len();
            found.push(gap.start + at - spaces - local..gap.start + from);
        }
    }
}

fn starts_with(text: &str, word: &str) -> bool {
    text.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word))
}

fn is_local(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"._%+-".contains(&byte) || byte >= 0x80
}

fn is_domain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b".-".contains(&byte) || byte >= 0x80
}

fn is_host(name: &str) -> bool {
    name.rsplit_once('.').is_some_and(|(host, end)| {
        !host.is_empty() && end.chars().count() >= 2 && !end.bytes().all(|b| b.is_ascii_digit())
    })
}
