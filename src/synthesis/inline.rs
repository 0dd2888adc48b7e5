//! Converts the Markdown of one claim to plain text and collects its citations.
//!
//! Citation marks, in order: `[@cid]`, `[text](url)`, a bare URL (balanced parentheses belong to
//! it), `[n]` or `[^n]` for the n-th bullet of `Sources` (only if that bullet exists, and not
//! inside a code span), `(confidence: N)`. A link leaves its text, an image its description; every
//! other mark is removed together with brackets that become empty, and spaces collapse.
//!
//! The result is safe for a summary: one line without addresses, citation marks and control
//! characters. A text that keeps forming new marks while old ones are removed is refused.

use super::raw_url;

/// Longest claim or gap that is parsed. A longer one would not fit into a summary.
pub(crate) const TEXT_BYTES_MAX: usize = 64 << 10;

/// Depth to which link texts are parsed. Addresses in deeper ones are removed all the same.
const DEPTH_MAX: usize = 4;
/// Rounds in which removing marks may form new marks.
const ROUNDS_MAX: usize = 8;
/// Placeholder for a removed mark. Input control characters are removed, so input cannot contain
/// it.
const GONE: char = '\0';

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum CitationMark {
    Cid(String),
    /// An absolute web address as written.
    Url(String),
    /// The n-th bullet of `Sources`, from 1.
    Note(usize),
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plain {
    pub text: String,
    pub marks: Vec<CitationMark>,
    pub confidence: Option<u8>,
}

/// Parses one claim. `notes` is the number of bullets that `[n]` may name. `None` when the text
/// cannot be made safe.
pub fn read(markdown: &str, notes: usize) -> Option<Plain> {
    let mut plain = Plain::default();
    let raw = scan(markdown, notes, 0, &mut plain);
    plain.text = tidy(&raw);
    // Removing a mark can join its neighbours into a new mark, which the author did not write as a
    // citation.
    for _ in 0..ROUNDS_MAX {
        let addresses = raw_url::spans(&plain.text);
        if addresses.is_empty() && !plain.text.contains("[@") {
            // `](` is no link by itself, but becomes one with the citation marks that follow it.
            if plain.text.contains("](") {
                plain.text = plain.text.replace("](", "] (");
            }
            return Some(plain);
        }
        let mut text = plain.text.clone();
        for span in addresses.into_iter().rev() {
            text.replace_range(span, "\0");
        }
        let mut ignored = Plain::default();
        let before = text.clone();
        text = tidy(&scan(&text, 0, 0, &mut ignored));
        if text == before {
            // `[@` without a valid id is harmless, but a reader could take it for a mark.
            text = text.replace("[@", "[");
        }
        plain.text = text;
    }
    None
}

/// The citation marks `[@cid]` of a text, in order.
pub(crate) fn cid_mentions(text: &str) -> Vec<&str> {
    let starts = text.match_indices("[@").map(|(at, _)| at);
    starts.filter_map(|at| cid_mark(&text[at..]).map(|(cid, _)| cid)).collect()
}

/// True for a valid id in a citation mark.
pub(crate) fn is_cid(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"_:-".contains(&b))
}

fn cid_mark(text: &str) -> Option<(&str, usize)> {
    let inner = text.strip_prefix("[@")?;
    let length = inner.bytes().take_while(|b| b.is_ascii_alphanumeric() || b"_:-".contains(b));
    let length = length.count();
    (length > 0 && inner[length..].starts_with(']')).then(|| (&inner[..length], length + 3))
}

fn scan(text: &str, notes: usize, depth: usize, plain: &mut Plain) -> String {
    let brackets = Brackets::of(text);
    let mut out = String::with_capacity(text.len());
    let mut code_until = 0;
    let mut at = 0;
    while let Some(c) = text[at..].chars().next() {
        let rest = &text[at..];
        let step = match c {
            '[' => bracket(text, at, &brackets, notes, depth, at < code_until, plain, &mut out),
            '!' if rest.starts_with("![") => image(text, at, &brackets, &mut out),
            '(' => stated_confidence(rest).map(|(value, length)| {
                plain.confidence.get_or_insert(value);
                out.push(GONE);
                length
            }),
            'h' | 'H' => web_address(rest).inspect(|length| {
                plain.marks.push(CitationMark::Url(rest[..*length].to_owned()));
                out.push(GONE);
            }),
            '`' => {
                let run = rest.len() - rest.trim_start_matches('`').len();
                if at >= code_until {
                    code_until = code_end(text, at, run);
                }
                out.push_str(&rest[..run]);
                Some(run)
            }
            _ => None,
        };
        at += step.unwrap_or_else(|| {
            push_plain(c, &mut out);
            c.len_utf8()
        });
    }
    out
}

fn push_plain(c: char, out: &mut String) {
    if c == GONE {
        out.push(c);
    } else if c.is_whitespace() {
        out.push(' ');
    } else if !c.is_control() && c != '\u{feff}' {
        out.push(c);
    }
}

/// End of the code span that opens here, or `at` when it does not close.
fn code_end(text: &str, at: usize, run: usize) -> usize {
    let mut from = at + run;
    while let Some(found) = text[from..].find('`') {
        let start = from + found;
        let length = text[start..].len() - text[start..].trim_start_matches('`').len();
        if length == run {
            return start;
        }
        from = start + length;
    }
    at
}

#[allow(clippy::too_many_arguments, reason = "one step of the scanner, with all its state")]
fn bracket(
    text: &str,
    at: usize,
    brackets: &Brackets,
    notes: usize,
    depth: usize,
    in_code: bool,
    plain: &mut Plain,
    out: &mut String,
) -> Option<usize> {
    if let Some((cid, length)) = cid_mark(&text[at..]) {
        plain.marks.push(CitationMark::Cid(cid.to_owned()));
        out.push(GONE);
        return Some(length);
    }
    let (label, target, end) = brackets.link(text, at)?;
    if let Some(target) = target {
        if let Some(url) = link_address(target) {
            plain.marks.push(CitationMark::Url(url.to_owned()));
        }
        if depth < DEPTH_MAX {
            let inner = scan(label, notes, depth + 1, plain);
            out.push_str(&inner);
            if inner.trim_matches([GONE, ' ']).is_empty() {
                out.push(GONE);
            }
        } else {
            label.chars().for_each(|c| push_plain(c, out));
        }
        return Some(end - at);
    }
    let number = label.strip_prefix('^').unwrap_or(label);
    let plain_number =
        (1..=6).contains(&number.len()) && number.bytes().all(|b| b.is_ascii_digit());
    let number: usize = number.parse().ok().filter(|_| plain_number && !in_code)?;
    if !(1..=notes).contains(&number) {
        return None;
    }
    plain.marks.push(CitationMark::Note(number));
    out.push(GONE);
    Some(end - at)
}

fn image(text: &str, at: usize, brackets: &Brackets, out: &mut String) -> Option<usize> {
    let (label, target, end) = brackets.link(text, at + 1)?;
    target?;
    label.chars().for_each(|c| push_plain(c, out));
    out.push(GONE);
    Some(end - at)
}

/// The address of a link if it is a web address, without a title.
fn link_address(target: &str) -> Option<&str> {
    let target = target.trim();
    let address = match target.strip_prefix('<') {
        Some(inner) => inner.split('>').next().unwrap_or(inner),
        None => target.split_whitespace().next().unwrap_or(""),
    };
    starts_as_web(address).then_some(address)
}

fn starts_as_web(text: &str) -> bool {
    let starts = |scheme: &str| {
        text.get(..scheme.len()).is_some_and(|head| head.eq_ignore_ascii_case(scheme))
    };
    starts("http://") || starts("https://")
}

/// The length of the web address at the start of a text. It ends at a space, quote or bracket, or
/// at a parenthesis that was not opened in it. Final punctuation is not part of it.
pub(crate) fn web_address(text: &str) -> Option<usize> {
    if !starts_as_web(text) {
        return None;
    }
    let mut depth = 0_usize;
    let mut end = text.len();
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' if depth == 0 => {
                end = at;
                break;
            }
            ')' => depth -= 1,
            _ if c.is_whitespace() || c.is_control() || "<>[]\"'`".contains(c) => {
                end = at;
                break;
            }
            _ => {}
        }
    }
    Some(text[..end].trim_end_matches([',', '.', ';', ':', '!', '?']).len())
}

/// `(confidence: N)` or `(confidence: N%)` with N from 0 to 100.
fn stated_confidence(text: &str) -> Option<(u8, usize)> {
    const WORD: &str = "confidence";
    const LONGEST: usize = 40;
    let end = text.bytes().take(LONGEST).position(|b| b == b')')?;
    let inner = text.get(1..end)?.trim();
    let head = inner.get(..WORD.len())?;
    if !head.eq_ignore_ascii_case(WORD) {
        return None;
    }
    let value = inner[WORD.len()..].trim_start().strip_prefix([':', '='])?.trim();
    let value = value.strip_suffix('%').unwrap_or(value).trim_end();
    if !(1..=3).contains(&value.len()) || !value.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let value: u8 = value.parse().ok().filter(|value| *value <= 100)?;
    Some((value, end + 1))
}

/// Pairs of brackets, found in one pass.
struct Brackets {
    /// Opening and closing positions, sorted by opening position.
    pairs: Vec<(usize, usize)>,
}

impl Brackets {
    fn of(text: &str) -> Brackets {
        let (mut square, mut round, mut pairs) = (Vec::new(), Vec::new(), Vec::new());
        for (at, byte) in text.bytes().enumerate() {
            match byte {
                b'[' => square.push(at),
                b'(' => round.push(at),
                b']' => pairs.extend(square.pop().map(|open| (open, at))),
                b')' => pairs.extend(round.pop().map(|open| (open, at))),
                _ => {}
            }
        }
        pairs.sort_unstable();
        Brackets { pairs }
    }

    fn closing(&self, open: usize) -> Option<usize> {
        let index = self.pairs.binary_search_by_key(&open, |(open, _)| *open).ok()?;
        Some(self.pairs[index].1)
    }

    /// The label of a bracket, the target in parentheses right after it, and the end of both.
    fn link<'t>(&self, text: &'t str, open: usize) -> Option<(&'t str, Option<&'t str>, usize)> {
        let close = self.closing(open)?;
        let label = &text[open + 1..close];
        if text[close + 1..].starts_with('(')
            && let Some(end) = self.closing(close + 1)
        {
            return Some((label, Some(&text[close + 2..end]), end + 1));
        }
        Some((label, None, close + 1))
    }
}

/// Cleans up after removed marks: empty brackets, separators between marks, double spaces, and
/// spaces before punctuation.
fn tidy(raw: &str) -> String {
    squeeze(&without_emptied_brackets(raw))
}

fn without_emptied_brackets(raw: &str) -> Vec<char> {
    let mut out: Vec<char> = Vec::with_capacity(raw.len());
    for c in raw.chars() {
        let opener = match c {
            ')' => Some('('),
            ']' => Some('['),
            '}' => Some('{'),
            '>' => Some('<'),
            _ => None,
        };
        let filler = |c: &char| matches!(c, &GONE | ' ' | ',' | ';');
        let kept = out.iter().rposition(|c| !filler(c)).map_or(0, |last| last + 1);
        let held_a_mark = out[kept..].contains(&GONE);
        if held_a_mark && kept > 0 && opener == Some(out[kept - 1]) {
            out.truncate(kept - 1);
            out.push(GONE);
        } else if c == GONE && held_a_mark {
            // Two placeholders with only separators between them become one.
            let first = out[kept..].iter().position(|c| *c == GONE).unwrap_or(0);
            out.truncate(kept + first + 1);
        } else {
            out.push(c);
        }
    }
    out
}

fn squeeze(text: &[char]) -> String {
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    while at < text.len() {
        let length = text[at..].iter().take_while(|c| matches!(c, &&GONE | ' ')).count();
        if length == 0 {
            out.push(text[at]);
            at += 1;
            continue;
        }
        let run = &text[at..at + length];
        at += length;
        let next = text.get(at);
        let held_a_mark = run.contains(&GONE);
        let joins = held_a_mark
            && (next.is_some_and(|c| ".,;:!?)]}".contains(*c)) || out.ends_with(['(', '[', '{']));
        if run.contains(&' ') && !out.is_empty() && next.is_some() && !joins {
            out.push(' ');
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text(markdown: &str) -> String {
        read(markdown, 9).unwrap().text
    }

    fn marks(markdown: &str) -> Vec<CitationMark> {
        read(markdown, 9).unwrap().marks
    }

    #[test]
    fn removed_marks_leave_clean_sentences() {
        for (markdown, plain) in [
            ("Took 40 ms ([report](https://b.example/r?utm_source=x)).", "Took 40 ms (report)."),
            ("Snapshots bound recovery time [2].", "Snapshots bound recovery time."),
            ("Twice (https://p.example/io). (confidence: 70)", "Twice."),
            ("a [@cid_x], [@cid_y]; and b", "a; and b"),
            ("a [1], [2].", "a."),
            ("see <https://x.example/a> now", "see now"),
            ("[https://x.example](https://x.example) is up", "is up"),
            ("![chart](https://x.example/c.png) shows", "chart shows"),
            ("use  .gitignore\tand , too", "use .gitignore and , too"),
            ("keep (this) and [that]", "keep (this) and [that]"),
            ("([a](https://x.example), [b](https://y.example))", "(a, b)"),
            ("bell\u{7}\u{feff} and\u{a0}space", "bell and space"),
            ("[[@a]@cid_evil] x", "x"),
            ("[@not a mark] x", "[not a mark] x"),
            ("go to www.evil.example today", "go to today"),
            ("[x](../secret.md)", "x"),
            ("ht[@a]tp://sneaky.example end", "end"),
        ] {
            assert_eq!(text(markdown), plain, "{markdown}");
        }
    }

    #[test]
    fn citations_come_in_order() {
        assert_eq!(
            marks("x [@c1] [t](HTTP://a.example/b \"title\") https://e.example/w_(x)). [3] [^4]"),
            [
                CitationMark::Cid("c1".into()),
                CitationMark::Url("HTTP://a.example/b".into()),
                CitationMark::Url("https://e.example/w_(x)".into()),
                CitationMark::Note(3),
                CitationMark::Note(4),
            ]
        );
        assert_eq!(
            marks("[t](<https://a.example/b c>)"),
            [CitationMark::Url("https://a.example/b c".into())]
        );
        assert_eq!(marks("![alt](https://a.example/i.png) [t](mailto:x)"), []);
    }

    #[test]
    fn numbers_are_marks_only_where_a_bullet_exists() {
        assert_eq!(text("items[0] and [10] and `a[1]`"), "items[0] and [10] and `a[1]`");
        assert_eq!(marks("items[0] and [10] and `a[1]`"), []);
        assert_eq!(marks("a ` tick and [1]"), [CitationMark::Note(1)]);
    }

    #[test]
    fn only_a_stated_confidence_is_read() {
        let stated = |markdown| read(markdown, 0).unwrap().confidence;
        assert_eq!(stated("x (confidence: 70)"), Some(70));
        assert_eq!(stated("x (Confidence = 5 %)"), Some(5));
        assert_eq!(stated("x (confidence: 0) (confidence: 9)"), Some(0));
        for none in ["40% less", "(confidence: 101)", "(confidence: -1)", "(confidence)", "(é"] {
            assert_eq!(stated(none), None, "{none}");
        }
        assert_eq!(text("falls by 40%"), "falls by 40%");
    }

    #[test]
    fn an_address_ends_before_the_rest_of_the_sentence() {
        for (input, address) in [
            ("https://a.example/x).", "https://a.example/x"),
            ("https://a.example/x_(y)/z)", "https://a.example/x_(y)/z"),
            ("https://a.example/x,", "https://a.example/x"),
            ("https://a.example/x'y", "https://a.example/x"),
            ("HTTPS://A.example", "HTTPS://A.example"),
        ] {
            assert_eq!(web_address(input).map(|length| &input[..length]), Some(address));
        }
        assert_eq!(web_address("http:/x"), None);
    }

    #[test]
    fn mentions_are_found_in_summaries() {
        assert_eq!(cid_mentions("a [@x] [@] [@y z] [@cid:1-2_B]"), ["x", "cid:1-2_B"]);
        assert!(is_cid("cid_alpha") && !is_cid("") && !is_cid("a b"));
    }

    #[test]
    fn deeply_nested_brackets_are_parsed_fast() {
        let deep = format!("{}x{}", "[".repeat(30_000), "](https://a.example)".repeat(1500));
        let plain = read(&deep, 0);
        assert!(plain.is_none_or(|plain| raw_url::count(&plain.text) == 0));
    }

    proptest! {
        #![proptest_config(crate::proptests::config())]

        #[test]
        fn any_markdown_becomes_text_without_addresses_and_citations(
            markdown in r"([\[\]()<>@!`^. ,:/\\]|http://|www\.|cid_|[a-z0-9]|é|\n){0,60}"
        ) {
            if let Some(plain) = read(&markdown, 3) {
                prop_assert_eq!(raw_url::count(&plain.text), 0);
                prop_assert!(cid_mentions(&plain.text).is_empty());
                let line = format!("- {} [@cid_a] (paywalled)\n- {} [@s1]\n", plain.text, plain.text);
                prop_assert_eq!(raw_url::count(&line), 0);
                prop_assert_eq!(cid_mentions(&line), ["cid_a", "s1"]);
                prop_assert!(!plain.text.contains(['\n', '\0']));
                prop_assert_eq!(plain.text.trim(), &plain.text);
            }
        }
    }
}
