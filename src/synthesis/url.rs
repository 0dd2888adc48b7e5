//! URLs as the pool knows them, and the citation ids made from them.
//!
//! The id of a citation is `cid_` and the SHA-256 of its normalized URL, so everybody who computes
//! ids must normalize alike, byte for byte: WHATWG parsing; scheme and host in lower case; no user,
//! fragment, default port, or tracking parameters; query pairs decoded as form data, sorted by key
//! and value in the root collation, encoded again; one trailing slash dropped.
//!
//! The collation is exact for ASCII and for accented Latin letters. Other letters sort by code point
//! after those; a pool made by a full collation may order such pairs otherwise.
//!
//! See docs/adr/0029-citation-urls-and-perspective-ids.md.

use std::cmp::Ordering;

use unicode_normalization::UnicodeNormalization as _;
use unicode_normalization::char::is_combining_mark;
use url::Url;

use crate::contract::hash::sha256;

/// Longest URL we try to normalize.
pub(crate) const URL_BYTES_MAX: usize = 8 << 10;

/// The normalized form. `None` for a text that is not an absolute `http` or `https` URL.
pub(crate) fn normalize(text: &str) -> Option<String> {
    if text.len() > URL_BYTES_MAX {
        return None;
    }
    let url = Url::parse(text).ok()?;
    if !matches!(url.scheme(), "http" | "https") {
        return None;
    }
    let mut normal = format!("{}://{}", url.scheme(), url.host_str()?);
    if let Some(port) = url.port() {
        normal.push_str(&format!(":{port}"));
    }
    let path = url.path();
    normal.push_str(if path == "/" { path } else { path.strip_suffix('/').unwrap_or(path) });
    let mut pairs: Vec<_> = url.query_pairs().filter(|(key, _)| !is_tracking(key)).collect();
    pairs.sort_by(|a, b| collate(&a.0, &b.0).then_with(|| collate(&a.1, &b.1)));
    for (index, (key, value)) in pairs.iter().enumerate() {
        normal.push(if index == 0 { '?' } else { '&' });
        encode(key, &mut normal);
        normal.push('=');
        encode(value, &mut normal);
    }
    Some(normal)
}

/// The citation id of a normalized URL.
pub fn cid(normalized_url: &str) -> String {
    format!("cid_{}", sha256(normalized_url))
}

fn is_tracking(key: &str) -> bool {
    let key = key.to_lowercase();
    key.starts_with("utm_") || key == "gclid" || key == "fbclid"
}

fn encode(text: &str, out: &mut String) {
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.!~*'()".contains(&byte) {
            out.push(byte as char);
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
}

/// The root collation: letters by alphabet, then accents, then lower case before upper case.
/// Control characters are ignored.
fn collate(a: &str, b: &str) -> Ordering {
    collation_key(a).cmp(&collation_key(b))
}

fn collation_key(text: &str) -> (Vec<u32>, Vec<(usize, char)>, Vec<bool>) {
    let (mut letters, mut accents, mut capitals) = (Vec::new(), Vec::new(), Vec::new());
    for c in text.nfd() {
        if is_combining_mark(c) {
            accents.push((letters.len(), c));
        } else if let Some(weight) = weight(c) {
            letters.push(weight);
            capitals.push(c.is_uppercase());
        }
    }
    (letters, accents, capitals)
}

fn weight(c: char) -> Option<u32> {
    const PUNCTUATION: &str = "\t\n\u{b}\u{c}\r _-,;:!?.'\"()[]{}@*/\\&#%`^+<=>|~$0123456789";
    if !c.is_ascii() {
        let lower = c.to_lowercase().next().unwrap_or(c);
        return Some(u32::from(lower) + 256);
    }
    if c.is_ascii_alphabetic() {
        return Some(128 + u32::from(c.to_ascii_lowercase()));
    }
    PUNCTUATION.find(c).and_then(|index| u32::try_from(index).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_urls_take_their_known_normal_form() {
        for (input, normal) in [
            (
                "https://Example.com:443/path/?b=2&a=1&utm_source=abc#frag",
                "https://example.com/path?a=1&b=2",
            ),
            ("https://user:pw@ex.com/a b/?q=a+b&z=~*'()", "https://ex.com/a%20b?q=a%20b&z=~*'()"),
            ("http://EX.com:8080//x//?UTM_Source=1&GCLID=2", "http://ex.com:8080//x/"),
            ("https://ex.com/%7Euser/?a=%E9", "https://ex.com/%7Euser?a=%EF%BF%BD"),
            ("https://ex.com/?", "https://ex.com/"),
            ("HTTPS://ex.com", "https://ex.com/"),
            ("https://ex.com/a/../b/./c", "https://ex.com/b/c"),
            ("http://b\u{fc}cher.example/", "http://xn--bcher-kva.example/"),
            ("https://ex.com/?fbclid=1&FbClId=2&x", "https://ex.com/?x="),
            ("https://[2001:DB8::1]:443/", "https://[2001:db8::1]/"),
            ("http://0x7f.1/", "http://127.0.0.1/"),
            (
                "https://ex.com/?Z=1&a=2&_x=3&B=4&a=1&%C3%A9=1&-q",
                "https://ex.com/?_x=3&-q=&a=1&a=2&B=4&%C3%A9=1&Z=1",
            ),
            ("https://ex.com/?a=%00b&a=%01", "https://ex.com/?a=%01&a=%00b"),
            ("https://ex.com/a%2fb/?q=%26%3D+%20%2B", "https://ex.com/a%2fb?q=%26%3D%20%20%2B"),
            ("https://ex.com/it's/[x]?k=[1]|2", "https://ex.com/it's/[x]?k=%5B1%5D%7C2"),
            ("https://EXAMPLE.com./x/?a&b=", "https://example.com./x?a=&b="),
            ("https://ex.com/?utm_x=1&UTM=2&xgclid=3", "https://ex.com/?UTM=2&xgclid=3"),
        ] {
            assert_eq!(normalize(input).as_deref(), Some(normal), "{input}");
        }
    }

    #[test]
    fn normalizing_twice_changes_one_slash_at_most() {
        let once = normalize("https://ex.com/a?z=%20&B=1&b=2&a_b=3&a1=4").unwrap();
        assert_eq!(normalize(&once).as_deref(), Some(once.as_str()));
    }

    #[test]
    fn only_web_addresses_are_normalized() {
        let long = format!("https://ex.com/{}", "x".repeat(URL_BYTES_MAX));
        for bad in ["", "ftp://ex.com/", "example.com/x", "javascript:alert(1)", "https://", &long]
        {
            assert_eq!(normalize(bad), None, "{bad}");
        }
    }

    #[test]
    fn known_urls_give_their_known_citation_ids() {
        for (url, id) in [
            (
                "https://example.com/open",
                "cid_c670cd0eb843b54f7bf606819590ba27f769b0fbbaa2a5b44ca776f536daea44",
            ),
            (
                "https://source.example.com/u1",
                "cid_ce4ea224d51a78ebe4f3abfbc5ed32d2ae7e5c613712ccc80671992d86c6fe4e",
            ),
            (
                "https://example.com/a",
                "cid_2dce0a4c50441bfccfa9caf4b58c3cba6e06c420505dd829f0436de1aa44baac",
            ),
        ] {
            assert_eq!(cid(url), id);
        }
    }

    #[test]
    fn the_collation_is_the_root_one() {
        let mut ids = ["P1", "p-1", "p1", "p10", "p2", "p_1", "a1", "a_b", "ab", "Aa", "aB", "Ab"];
        ids.sort_by(|a, b| collate(a, b));
        assert_eq!(
            ids,
            ["a_b", "a1", "Aa", "ab", "aB", "Ab", "p_1", "p-1", "p1", "P1", "p10", "p2"]
        );
        assert_eq!(collate("ab", "a\u{1}b"), Ordering::Equal);
    }
}
