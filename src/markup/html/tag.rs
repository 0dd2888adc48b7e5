//! The spelling of a tag and of its attributes.

/// Longest tag looked for, in bytes.
pub(super) const TAG_BYTES_MAX: usize = 16 << 10;

/// Something between angle brackets that is spelled like a tag.
pub(super) struct Tag<'a> {
    /// In lower case.
    pub(super) name: String,
    pub(super) closes: bool,
    /// All of it.
    pub(super) bytes: usize,
    /// From `<` to before `>`.
    pub(super) text: &'a str,
    attributes: usize,
}

impl<'a> Tag<'a> {
    /// A tag that certainly is one: it has a name that tags have, and it ends soon.
    pub(super) fn read(rest: &'a str) -> Option<Tag<'a>> {
        let closes = rest[1..].starts_with('/');
        let start = 1 + usize::from(closes);
        let named = rest[start..]
            .bytes()
            .take_while(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b':'))
            .count();
        let first = rest[start..].bytes().next()?;
        if named == 0 || named > 40 || !first.is_ascii_alphabetic() {
            return None;
        }
        let after = start + named;
        let next = rest.as_bytes().get(after)?;
        if !(next.is_ascii_whitespace() || matches!(next, b'>' | b'/')) {
            return None;
        }
        let end = tag_end(rest, after)?;
        let name = rest[start..after].to_ascii_lowercase();
        Some(Tag { name, closes, bytes: end + 1, text: &rest[..end], attributes: after })
    }

    pub(super) fn has_attributes(&self) -> bool {
        self.text[self.attributes..].contains('=')
    }

    /// What the start tag that `rest` begins with says of whether its element is seen.
    pub(super) fn sight(&self, rest: &str) -> Sight {
        let mut sight = Sight::default();
        if self.attributes < self.text.len() {
            scan(rest, self.attributes, |attribute, value| sight.take(attribute, value));
        }
        sight
    }

    /// The range of an attribute's value in the tag.
    pub(super) fn attribute(&self, wanted: &str) -> Option<(usize, usize)> {
        let mut at = self.attributes;
        loop {
            let rest = &self.text[at..];
            let skipped = rest.len()
                - rest.trim_start_matches(|c: char| c.is_ascii_whitespace() || c == '/').len();
            let rest = &rest[skipped..];
            at += skipped;
            if rest.is_empty() {
                return None;
            }
            let named =
                rest.find(|c: char| c.is_ascii_whitespace() || c == '=').unwrap_or(rest.len());
            let name = &rest[..named];
            let tail = rest[named..].trim_start();
            let Some(value) = tail.strip_prefix('=') else {
                at += named.max(1);
                continue;
            };
            let value = value.trim_start();
            let start = self.text.len() - value.len();
            let (from, to) = match value.bytes().next() {
                Some(mark @ (b'"' | b'\'')) => {
                    let mark = char::from(mark);
                    let close = value[1..].find(mark).map_or(value.len(), |end| end + 1);
                    (start + 1, start + close)
                }
                _ => {
                    let end = value.find(|c: char| c.is_ascii_whitespace()).unwrap_or(value.len());
                    (start, start + end)
                }
            };
            if name.eq_ignore_ascii_case(wanted) {
                return (from < to).then_some((from, to));
            }
            at = (to + 1).min(self.text.len());
        }
    }
}

/// What a start tag says of whether a browser shows its element.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Sight {
    /// Nothing in the element is shown.
    pub(super) is_gone: bool,
    /// Whether its text is seen, where the tag says so. An element in it may say otherwise.
    pub(super) visible: Option<bool>,
}

impl Sight {
    pub(super) fn take(&mut self, attribute: &str, value: &str) {
        match attribute {
            "hidden" => self.is_gone = true,
            "style" => value.split(';').for_each(|rule| self.take_rule(rule)),
            _ => {}
        }
    }

    /// No display, hidden, or clear as glass. Letters without size hide nothing: mails give it to the cells around
    /// their text, and the text has a size of its own.
    fn take_rule(&mut self, rule: &str) {
        let Some((property, value)) = rule.split_once(':') else { return };
        let value = value.split('!').next().unwrap_or_default().trim().to_ascii_lowercase();
        match (property.trim().to_ascii_lowercase().as_str(), value.as_str()) {
            ("display", "none") => self.is_gone = true,
            ("opacity", value) => self.is_gone |= is_zero(value),
            ("visibility", "hidden" | "collapse") => self.visible = Some(false),
            ("visibility", "visible") => self.visible = Some(true),
            _ => {}
        }
    }

    pub(super) fn hides(self) -> bool {
        self.is_gone || self.visible == Some(false)
    }
}

/// Whether a value is zero, with a unit or without: `0`, `0.0`, `0px`, `0%`.
fn is_zero(value: &str) -> bool {
    let value = value.strip_prefix(['+', '-']).unwrap_or(value);
    let unit = value.trim_start_matches(['0', '.']);
    let number = &value[..value.len() - unit.len()];
    let is_number = number.contains('0') && number.matches('.').count() <= 1;
    is_number && (unit == "%" || unit.bytes().all(|byte| byte.is_ascii_lowercase()))
}

/// The `>` that ends a tag, outside quotes where they are closed.
fn tag_end(rest: &str, from: usize) -> Option<usize> {
    let mut quote = None;
    for (at, byte) in rest.bytes().enumerate().skip(from).take(TAG_BYTES_MAX) {
        match (quote, byte) {
            (None, b'>') => return Some(at),
            (None, b'<') => return None,
            (None, b'"' | b'\'') => quote = Some(byte),
            (Some(open), byte) if byte == open => quote = None,
            _ => {}
        }
    }
    None
}

/// Past the `>` of a tag as a browser reads it, from the end of its name; each attribute is given to
/// `take` in lower case with its value. `None` for a tag that never ends.
pub(super) fn scan(rest: &str, from: usize, mut take: impl FnMut(&str, &str)) -> Option<usize> {
    let bytes = rest.as_bytes();
    let is_space = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_whitespace);
    let mut at = from;
    loop {
        while is_space(at) || bytes.get(at) == Some(&b'/') {
            at += 1;
        }
        if *bytes.get(at)? == b'>' {
            return Some(at + 1);
        }
        let name = at;
        at += 1;
        while !is_space(at) && !matches!(bytes.get(at)?, b'/' | b'>' | b'=') {
            at += 1;
        }
        let name = rest.get(name..at)?.to_ascii_lowercase();
        while is_space(at) {
            at += 1;
        }
        if bytes.get(at) != Some(&b'=') {
            take(&name, "");
            continue;
        }
        at += 1;
        while is_space(at) {
            at += 1;
        }
        let (value, after) = match bytes.get(at)? {
            mark @ (b'"' | b'\'') => {
                let length = rest[at + 1..].find(char::from(*mark))?;
                (&rest[at + 1..at + 1 + length], at + length + 2)
            }
            _ => {
                let length = rest[at..].find(|c: char| c.is_ascii_whitespace() || c == '>')?;
                (&rest[at..at + length], at + length)
            }
        };
        take(&name, value);
        at = after;
    }
}
