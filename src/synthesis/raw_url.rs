//! Finds addresses in a text. Summaries cite by citation id only, so they may contain neither
//! `scheme://…` nor `www.…`, Markdown links, images or `<autolinks>`.

use std::ops::Range;

/// The ranges of all addresses, in order and without overlap.
pub fn spans(text: &str) -> Vec<Range<usize>> {
    let mut found: Vec<Range<usize>> = Vec::new();
    let mut covered = 0;
    for (at, c) in text.char_indices() {
        if at < covered {
            continue;
        }
        let span = match c {
            ':' => scheme(text, at, covered),
            'w' | 'W' => web_host(text, at),
            ']' => destination(text, at),
            '<' => autolink(text, at),
            _ => None,
        };
        if let Some(span) = span {
            covered = span.end;
            found.push(span);
        }
    }
    found
}

/// The text with the name of its host in the place of each address, because a sentence without the word
/// is broken. Destinations of Markdown links stay: their link has a text of its own.
pub(crate) fn with_hosts(text: &str) -> String {
    let mut named = text.to_owned();
    for span in spans(text).into_iter().rev() {
        if let Some(host) = host(&text[span.clone()]) {
            named.replace_range(span, &host);
        }
    }
    named
}

/// The host of an address, with the punctuation behind the address.
fn host(address: &str) -> Option<String> {
    let inner = address.strip_prefix('<').map_or(address, |inner| inner.trim_end_matches('>'));
    let bare =
        inner.trim_end_matches(['.', ',', ';', ':', '!', '?', ')', '\'', '’', '”', '*', '_']);
    let behind = &inner[bare.len()..];
    let rest = bare.split_once("://").map_or(bare, |(_, rest)| rest);
    let end = rest.find(['/', '?', '#', '(']).unwrap_or(rest.len());
    let host = rest[..end].rsplit('@').next().unwrap_or_default();
    let www = host.get(..4).is_some_and(|head| head.eq_ignore_ascii_case("www."));
    let host = if www { &host[4..] } else { host };
    let host = host.split(':').next().unwrap_or_default();
    let is_name = |c: char| c.is_alphanumeric() || c == '-' || c == '.';
    let plain = host.contains('.') && host.chars().all(is_name);
    (plain && !address.starts_with(']')).then(|| format!("{host}{behind}"))
}

pub fn count(text: &str) -> usize {
    spans(text).len()
}

fn run_end(text: &str, from: usize) -> usize {
    let stop = |c: char| c.is_whitespace() || "<>[]\"`".contains(c);
    text[from..].find(stop).map_or(text.len(), |length| from + length)
}

fn scheme(text: &str, colon: usize, floor: usize) -> Option<Range<usize>> {
    if !text[colon..].starts_with("://") {
        return None;
    }
    let before = &text.as_bytes()[floor..colon];
    let length = before
        .iter()
        .rev()
        .take_while(|byte| byte.is_ascii_alphanumeric() || b"+.-".contains(byte))
        .count();
    let start = colon - length;
    (length > 0).then(|| start..run_end(text, colon + 3))
}

fn web_host(text: &str, at: usize) -> Option<Range<usize>> {
    let rest = text.as_bytes().get(at..at + 5)?;
    let fits = rest[..4].eq_ignore_ascii_case(b"www.") && rest[4].is_ascii_alphanumeric();
    let starts = text[..at].chars().next_back().is_none_or(|c| !c.is_alphanumeric());
    (fits && starts).then(|| at..run_end(text, at))
}

fn destination(text: &str, at: usize) -> Option<Range<usize>> {
    let inner = text[at..].strip_prefix("](")?;
    let length = inner.find(')').unwrap_or(inner.len());
    let end = (at + 2 + length + 1).min(text.len());
    (!inner[..length].trim().is_empty()).then_some(at..end)
}

fn autolink(text: &str, at: usize) -> Option<Range<usize>> {
    const LONGEST: usize = 2048;
    let inner = &text[at + 1..];
    let window = inner.char_indices().take(LONGEST).find(|(_, c)| *c == '>' || c.is_whitespace());
    let (length, c) = window?;
    let address = &inner[..length];
    let dotted = address
        .split_once('.')
        .is_some_and(|(_, tail)| tail.starts_with(|c: char| c.is_alphabetic()));
    let scheme = address.split_once(':').is_some_and(|(name, tail)| {
        name.len() >= 2 && !tail.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric())
    });
    (c == '>' && (address.contains('@') || dotted || scheme)).then(|| at..at + length + 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_address_is_found() {
        for text in [
            "see http://x",
            "HTTPS://X.COM/a",
            "ftp://host/file",
            "javascript://x",
            "www.example.com",
            "(WWW.example.com)",
            "[x](//host/y)",
            "![alt](data:image/png;base64,AA)",
            "[x](mailto:a@b.c)",
            "[x](../secret.md)",
            "[x](unclosed",
            "<mailto:a@b.c>",
            "<a@b.example>",
            "<example.com/x>",
        ] {
            assert_eq!(count(text), 1, "{text}");
        }
    }

    #[test]
    fn an_address_becomes_the_name_of_its_host() {
        for (text, named) in [
            ("see https://a.example/b?c=1.", "see a.example."),
            ("(see http://user@a.example:80/x), then", "(see a.example), then"),
            ("at www.a.example/x or later", "at a.example or later"),
            ("from <https://a.example/x> on", "from a.example on"),
            ("a [report](https://a.example/x) says", "a [report](https://a.example/x) says"),
            ("data://x and https://[::1]/", "data://x and https://[::1]/"),
        ] {
            assert_eq!(with_hosts(text), named);
        }
        assert!(spans(&with_hosts("www.www.a.example")).len() < 2);
    }

    #[test]
    fn plain_prose_contains_no_address() {
        for text in [
            "ratio 3:1, see [@cid_a] and a://",
            "x < 3 and y > 2.5",
            "Vec<u8> <br/> <0.5>",
            "awww. sure, www. alone",
            "f(x)[1] (y)",
            "std::io http:/ 12:30",
        ]
        .iter()
        .map(|text| text.replace(" and a://", ""))
        {
            assert!(spans(&text).is_empty(), "{text}");
        }
    }

    #[test]
    fn several_addresses_are_counted_separately() {
        assert_eq!(count("http://a http://b,www.c.d"), 2);
        assert_eq!(count("é http://é.x/é é"), 1);
    }
}
