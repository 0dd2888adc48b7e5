//! Text out of HTML, Markdown and mail. Mail and character sets are read by `mail-parser`; nothing
//! here renders, fetches or executes anything.

use mail_parser::decoders::html::html_to_text as strip_tags;
use mail_parser::{Address, MessageParser};

/// The readable text of an HTML page: tags gone, entities decoded, scripts and styles dropped.
pub fn html_to_text(html: &str) -> String {
    let mut html = html.to_owned();
    for name in ["script", "style", "template", "noscript"] {
        html = without_element(&html, name);
    }
    strip_tags(&html).trim().to_owned()
}

/// The `<title>` of an HTML page.
pub fn html_title(html: &str) -> Option<String> {
    let (start, end) = element(html, "title", 0)?;
    let inner = &html[start..end];
    let open = inner.find('>')? + 1;
    let close = inner.rfind("</")?;
    let title = strip_tags(inner.get(open..close)?);
    let title = title.split_whitespace().collect::<Vec<_>>().join(" ");
    (!title.is_empty()).then_some(title)
}

/// The first heading of a Markdown document.
pub fn markdown_title(text: &str) -> Option<String> {
    let (_, _, heading) = markdown_headings(text).into_iter().next()?;
    (!heading.is_empty()).then(|| heading.to_owned())
}

/// The headings of a Markdown document, also underlined ones, outside code and front matter: where
/// each begins, its level and its title.
pub fn markdown_headings(text: &str) -> Vec<(usize, usize, &str)> {
    let mut found = Vec::new();
    let mut fence = None;
    // A paragraph of one line, which an underline makes a heading.
    let (mut alone, mut after_blank) = (None, true);
    let mut offset = front_matter_bytes(text);
    for line in text[offset..].split_inclusive('\n') {
        let (start, plain) = (offset, line.trim_end());
        offset += line.len();
        let marker = ["```", "~~~"].into_iter().find(|mark| plain.trim_start().starts_with(mark));
        if let Some(open) = fence {
            fence = (marker != Some(open)).then_some(open);
            after_blank = true;
            continue;
        }
        let before = alone.take();
        if marker.is_some() {
            fence = marker;
        } else if let Some((level, title)) = markdown_heading(plain) {
            found.push((start, level, title));
        } else if let (Some(level), Some((start, title))) = (underline(plain), before) {
            found.push((start, level, title));
        } else {
            if after_blank && is_words(line) {
                alone = Some((start, plain.trim_start()));
            }
            after_blank = plain.is_empty();
            continue;
        }
        // What follows a heading begins anew, as after a blank line.
        after_blank = true;
    }
    found
}

/// The level an underline gives to the line above it.
fn underline(line: &str) -> Option<usize> {
    let all = |mark: char| line.len() > 1 && line.chars().all(|char| char == mark);
    if all('=') { Some(1) } else { all('-').then_some(2) }
}

/// Whether a line begins a paragraph, and no list, quote, table, markup or code.
fn is_words(line: &str) -> bool {
    let indented = line.starts_with(['\t']) || line.starts_with("    ");
    let text = line.trim();
    let numbered = text.split_once(['.', ')']).is_some_and(|(number, _)| {
        !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
    });
    !indented && !text.is_empty() && !numbered && !text.starts_with(['-', '*', '+', '>', '|', '<'])
}

/// Bytes of the front matter of a Markdown document; none where it never ends.
fn front_matter_bytes(text: &str) -> usize {
    let mut lines = text.split_inclusive('\n');
    let Some(first) = lines.next().filter(|line| line.trim_end() == "---") else { return 0 };
    let mut bytes = first.len();
    for line in lines {
        bytes += line.len();
        if matches!(line.trim_end(), "---" | "...") {
            return bytes;
        }
    }
    0
}

/// A plain value of the front matter of a Markdown document: what stands after its name on one line.
pub fn front_matter<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    let mut lines = text.strip_prefix('\u{feff}').unwrap_or(text).lines();
    if lines.next()?.trim_end() != "---" {
        return None;
    }
    let mut found = None;
    for line in lines {
        if matches!(line.trim_end(), "---" | "...") {
            return found;
        }
        let value = line.strip_prefix(name).and_then(|rest| rest.trim_start().strip_prefix(':'));
        if let Some(value) = value {
            // What follows a sign of comment is none of the value.
            let value = value.split(" #").next().unwrap_or_default();
            found = Some(value.trim().trim_matches(['"', '\'']));
        }
    }
    // Front matter that never ends is none.
    None
}

/// Level and title of an ATX heading line.
fn markdown_heading(line: &str) -> Option<(usize, &str)> {
    let level = line.bytes().take_while(|byte| *byte == b'#').count();
    let rest = &line[level..];
    if !(1..=6).contains(&level) || !(rest.is_empty() || rest.starts_with([' ', '\t'])) {
        return None;
    }
    Some((level, rest.trim().trim_end_matches('#').trim_end()))
}

fn without_element(html: &str, name: &str) -> String {
    let mut out = String::with_capacity(html.len());
    let mut from = 0;
    while let Some((start, end)) = element(html, name, from) {
        out.push_str(&html[from..start]);
        from = end;
    }
    out.push_str(&html[from..]);
    out
}

/// The byte range of the next element of a name, tags included; to the end when it never closes.
fn element(html: &str, name: &str, from: usize) -> Option<(usize, usize)> {
    let lower = html[from..].to_ascii_lowercase();
    let open = format!("<{name}");
    let mut search = 0;
    loop {
        let start = search + lower[search..].find(&open)?;
        let after = lower.as_bytes().get(start + open.len());
        if after.is_none_or(|byte| byte.is_ascii_whitespace() || matches!(byte, b'>' | b'/')) {
            let close = format!("</{name}");
            let end = lower[start..].find(&close).and_then(|close_at| {
                let tail = start + close_at;
                lower[tail..].find('>').map(|end| tail + end + 1)
            });
            return Some((from + start, from + end.unwrap_or(lower.len())));
        }
        search = start + open.len();
    }
}

/// A mail message: the headers people read, and the text body.
pub struct Mail {
    /// `Message-ID`, without brackets.
    pub message_id: Option<String>,
    /// The thread it belongs to: the first reference, else itself.
    pub thread_id: Option<String>,
    /// Sender.
    pub from: Option<String>,
    /// Receivers.
    pub to: Option<String>,
    /// Subject, decoded.
    pub subject: Option<String>,
    /// Milliseconds since the epoch of `Date`.
    pub date_ms: Option<i64>,
    /// `Date` as written, RFC 3339.
    pub date: Option<String>,
    /// Text body; an HTML body is stripped.
    pub body: String,
}

impl Mail {
    /// Headers and body as one text.
    pub fn text(&self) -> String {
        let mut out = String::new();
        for (name, value) in [
            ("From", &self.from),
            ("To", &self.to),
            ("Date", &self.date),
            ("Subject", &self.subject),
        ] {
            if let Some(value) = value {
                out.push_str(&format!("{name}: {value}\n"));
            }
        }
        out.push('\n');
        out.push_str(&self.body);
        out
    }
}

/// Reads one message; `None` when it has no headers at all.
pub fn mail_to_text(bytes: &[u8]) -> Option<Mail> {
    let message = MessageParser::default().parse(bytes)?;
    if message.headers().is_empty() {
        return None;
    }
    let body = match message.body_text(0) {
        Some(text) => text.into_owned(),
        None => message.body_html(0).map(|html| html_to_text(&html)).unwrap_or_default(),
    };
    let references = message.references().as_text_list().map(<[_]>::to_vec);
    let first_reference = references.and_then(|list| list.first().map(|id| id.to_string()));
    let message_id = message.message_id().map(str::to_owned);
    Some(Mail {
        thread_id: first_reference
            .or_else(|| message.in_reply_to().as_text().map(str::to_owned))
            .or_else(|| message_id.clone()),
        message_id,
        from: message.from().map(addresses),
        to: message.to().map(addresses),
        subject: message.subject().map(str::to_owned),
        date_ms: message.date().map(|date| date.to_timestamp().saturating_mul(1000)),
        date: message.date().map(mail_parser::DateTime::to_rfc3339),
        body,
    })
}

fn addresses(list: &Address<'_>) -> String {
    let shown: Vec<String> = list
        .iter()
        .map(|one| match (one.name(), one.address()) {
            (Some(name), Some(address)) => format!("{name} <{address}>"),
            (name, address) => name.or(address).unwrap_or_default().to_owned(),
        })
        .collect();
    shown.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headings_are_found_in_both_spellings_and_not_in_code() {
        let text = "---\ntitle: x\n---\nOne\n===\n\ntext\n---\n\n```\n# code\n~~~\n# code\n```\n\
                    Two words\r\n---\r\n## Three ##\n- item\n---\n| a |\n---\n\ntwo\nlines\n---\n";
        let found = markdown_headings(text);
        let told: Vec<_> = found.iter().map(|(_, level, title)| (*level, *title)).collect();
        assert_eq!(told, [(1, "One"), (2, "text"), (2, "Two words"), (2, "Three")]);
        for (at, _, title) in &found {
            assert!(text[*at..].trim_start_matches('#').trim_start().starts_with(title), "{title}");
        }
        assert_eq!(
            markdown_title("```\n# code\n```\n\nTitle\r\n=====\r\n").as_deref(),
            Some("Title")
        );
        assert_eq!(markdown_title("---\nno end\n"), None);
    }

    #[test]
    fn front_matter_is_what_stands_between_the_rules() {
        let note = "---\ntitle: \"A\"\npublish: false # private\ntags: [a]\n---\npublish: true\n";
        assert_eq!(front_matter(note, "publish"), Some("false"));
        assert_eq!(front_matter(note, "title"), Some("A"));
        assert_eq!(front_matter(note, "pub"), None);
        for none in ["publish: false\n", "---\npublish: false\n", "# T\n---\npublish: false\n---\n"]
        {
            assert_eq!(front_matter(none, "publish"), None, "{none}");
        }
    }

    #[test]
    fn markup_that_never_closes_is_dropped_to_the_end() {
        assert_eq!(html_to_text("<p>a</p><script>var x = '</p>'"), "a");
        assert_eq!(html_to_text("a &lt;b&gt; <scripted>c</scripted>"), "a <b> c");
        assert_eq!(html_title("<TITLE lang=en>\n A\n b </TITLE>").as_deref(), Some("A b"));
        assert_eq!(html_title("<title>"), None);
    }

    #[test]
    fn headings_are_atx_only() {
        assert_eq!(markdown_heading("## Two ##"), Some((2, "Two")));
        assert_eq!(markdown_heading("#hashtag"), None);
        assert_eq!(markdown_heading("####### seven"), None);
        assert_eq!(markdown_title("text\n\n# First\n"), Some("First".to_owned()));
    }

    #[test]
    fn multipart_mail_prefers_plain_text_and_knows_its_thread() {
        let raw = b"Message-ID: <2@x>\r\nReferences: <1@x> <9@x>\r\nFrom: A B <a@x>\r\nSubject: Re: hi\r\nDate: Wed, 11 Feb 2026 10:00:00 -0300\r\nMIME-Version: 1.0\r\nContent-Type: multipart/alternative; boundary=b\r\n\r\n--b\r\nContent-Type: text/plain; charset=iso-8859-1\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\ncaf=E9\r\n--b\r\nContent-Type: text/html\r\n\r\n<p>html</p>\r\n--b--\r\n";
        let mail = mail_to_text(raw).unwrap();
        assert_eq!(mail.body.trim(), "caf\u{e9}");
        assert_eq!(mail.thread_id.as_deref(), Some("1@x"));
        assert_eq!(mail.from.as_deref(), Some("A B <a@x>"));
        assert_eq!(mail.date_ms, Some(1_770_814_800_000));
    }
}
