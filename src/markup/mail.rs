//! Mail: the headers people read and the text of the body. The body alone is the text of a mail. MIME, encoded words and character sets are
//! the work of `mail-parser`.
//!
//! See docs/adr/0086-text-of-mail-and-latex.md.

use mail_parser::{Address, Message, MessageParser, MessagePart, MimeHeaders, PartType};
use serde_json::{Map, Value};

use super::html;
use crate::contract::publish::{is_private_title, said_by_member, said_by_members, together};

/// A mail message: the headers people read, and the text body.
pub struct Mail {
    /// `Message-ID`, without brackets.
    pub(crate) message_id: Option<String>,
    /// The thread it belongs to: the first reference, else itself.
    pub(crate) thread_id: Option<String>,
    pub from: Option<String>,
    pub to: Option<String>,
    pub(crate) cc: Option<String>,
    /// `List-Id`: the mailing list it came by.
    pub(crate) list_id: Option<String>,
    /// Subject, decoded.
    pub(crate) subject: Option<String>,
    /// Milliseconds since the epoch of `Date`.
    pub(crate) date_ms: Option<i64>,
    /// `Date` as written, RFC 3339.
    pub date: Option<String>,
    /// No where the sender marks the mail as personal, private or confidential.
    pub publish: Option<bool>,
    /// Text body; HTML is read as a page.
    pub body: String,
}

impl Mail {
    /// What the headers say, under the names of an event's members.
    pub(crate) fn members(&self) -> Map<String, Value> {
        let named = [
            ("title", &self.subject),
            ("from", &self.from),
            ("to", &self.to),
            ("cc", &self.cc),
            ("timestamp", &self.date),
            ("message_id", &self.message_id),
            ("list_id", &self.list_id),
            ("conversation_id", &self.thread_id),
        ];
        let named = named.into_iter().filter_map(|(name, value)| Some((name, value.clone()?)));
        named.map(|(name, value)| (name.to_owned(), value.into())).collect()
    }
}

/// Reads one message; `None` when it has no headers at all.
pub fn read(bytes: &[u8]) -> Option<Mail> {
    let message = MessageParser::default().parse(bytes)?;
    if message.headers().is_empty() {
        return None;
    }
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
        cc: message.cc().map(addresses),
        list_id: list_id(&message),
        subject: message.subject().map(str::to_owned),
        date_ms: message.date().map(|date| date.to_timestamp().saturating_mul(1000)),
        date: message.date().map(mail_parser::DateTime::to_rfc3339),
        publish: together([publish(&message), publish_of_pages(&message)]),
        body: body(&message),
    })
}

/// The texts that the mail shows. A mail that shows no text has the texts that are attached to it.
fn body(message: &Message<'_>) -> String {
    let mut texts = texts_of(message, 0, Wanted::Shown, 0);
    if texts.is_empty() {
        texts = texts_of(message, 0, Wanted::Attached, 0);
    }
    texts.join("\n\n")
}

/// Parts in parts that are read.
const DEPTH_MAX: usize = 64;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Wanted {
    Shown,
    Attached,
}

/// The texts of a part and of the parts in it, those that are not empty, in their order. Of
/// alternatives the first plain one that has text counts, else the first that has text.
fn texts_of(message: &Message<'_>, id: u32, wanted: Wanted, depth: usize) -> Vec<String> {
    let Some(part) = message.parts.get(id as usize).filter(|_| depth < DEPTH_MAX) else {
        return Vec::new();
    };
    if let PartType::Multipart(inner) = &part.body {
        let each = inner.iter().map(|id| (*id, texts_of(message, *id, wanted, depth + 1)));
        if !part.is_content_type("multipart", "alternative") {
            return each.flat_map(|(_, texts)| texts).collect();
        }
        let mut with_text: Vec<_> = each.filter(|(_, texts)| !texts.is_empty()).collect();
        let plain = with_text.iter().position(|(id, _)| is_plain(message, *id));
        return match with_text.is_empty() {
            true => Vec::new(),
            false => with_text.swap_remove(plain.unwrap_or(0)).1,
        };
    }
    let is_attached = part.content_disposition().is_some_and(|one| one.is_attachment());
    let is_wanted = match wanted {
        Wanted::Shown => !is_attached && (is_plain(message, id) || is_html(part)),
        Wanted::Attached => is_attached,
    };
    let text = match &part.body {
        PartType::Text(text) if is_wanted => text.trim().to_owned(),
        PartType::Html(text) if is_wanted => html::page(text).text,
        _ => String::new(),
    };
    if text.is_empty() { Vec::new() } else { vec![text] }
}

fn is_html(part: &MessagePart<'_>) -> bool {
    matches!(part.body, PartType::Html(_))
}

/// A part that names no type is plain text.
fn is_plain(message: &Message<'_>, id: u32) -> bool {
    message.parts.get(id as usize).is_some_and(|part| {
        let named = part.content_type().map(|of| (of.ctype(), of.subtype().unwrap_or_default()));
        let plain = named.is_none_or(|(kind, subtype)| {
            kind.eq_ignore_ascii_case("text") && subtype.eq_ignore_ascii_case("plain")
        });
        plain && matches!(part.body, PartType::Text(_))
    })
}

/// `Name of the list <id.of.the.list>`, or the id alone: the id.
fn list_id(message: &Message<'_>) -> Option<String> {
    let raw = message.header_raw("List-Id")?.trim();
    let id = raw.rsplit_once('<').and_then(|(_, id)| id.strip_suffix('>')).unwrap_or(raw).trim();
    (!id.is_empty()).then(|| id.to_owned())
}

/// What the headers say, with or without the `X-` of names that are not registered.
fn publish(message: &Message<'_>) -> Option<bool> {
    let is_marked = message.subject().is_some_and(is_private_title);
    let headers = together(message.headers().iter().map(|header| {
        let name = header.name();
        let name = name.strip_prefix("X-").or_else(|| name.strip_prefix("x-")).unwrap_or(name);
        let text = message.header_raw(header.name())?.trim();
        said_by_member(name, &Value::from(text))
    }));
    together([is_marked.then_some(false), headers])
}

/// What the `meta` elements of the parts in HTML say.
fn publish_of_pages(message: &Message<'_>) -> Option<bool> {
    let pages = message.parts.iter().filter_map(|part| match &part.body {
        PartType::Html(text) => Some(text),
        _ => None,
    });
    together(pages.map(|text| said_by_members(&html::page(text).members)))
}

fn addresses(list: &Address<'_>) -> String {
    let shown: Vec<String> = list
        .iter()
        .map(|one| match (one.name(), one.address()) {
            // A comma inside a name separates no people.
            (Some(name), Some(address)) if name.contains(',') => {
                format!("\"{name}\" <{address}>")
            }
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
    fn plain_text_wins_over_html_and_the_thread_is_known() {
        let raw = b"Message-ID: <2@x>\r\nReferences: <1@x> <9@x>\r\nFrom: A B <a@x>\r\nSubject: Re: hi\r\nDate: Wed, 11 Feb 2026 10:00:00 -0300\r\nMIME-Version: 1.0\r\nContent-Type: multipart/alternative; boundary=b\r\n\r\n--b\r\nContent-Type: text/plain; charset=iso-8859-1\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\ncaf=E9\r\n--b\r\nContent-Type: text/html\r\n\r\n<p>html</p>\r\n--b--\r\n";
        let mail = read(raw).unwrap();
        assert_eq!(mail.body.trim(), "caf\u{e9}");
        assert_eq!(mail.thread_id.as_deref(), Some("1@x"));
        assert_eq!(mail.from.as_deref(), Some("A B <a@x>"));
        assert_eq!(mail.date_ms, Some(1_770_814_800_000));
        assert_eq!(mail.date.as_deref(), Some("2026-02-11T10:00:00-03:00"));
    }

    #[test]
    fn headers_say_who_gets_a_copy_and_by_which_list() {
        let raw = b"From: a@x\r\nCc: \"Gil, M\" <m@x>, b@x\r\nList-Id: Neighbours <all.street.example>\r\n\r\nx";
        let members = read(raw).unwrap().members();
        assert_eq!(members["cc"], "\"Gil, M\" <m@x>, b@x");
        assert_eq!(members["list_id"], "all.street.example");
    }

    #[test]
    fn a_mail_that_is_marked_private_may_not_be_shown() {
        let publish =
            |line: &str| read(format!("From: a@x\r\n{line}\r\nx").as_bytes()).unwrap().publish;
        assert_eq!(publish(""), None);
        assert_eq!(publish("X-Gmail-Labels: Inbox,Private\r\n"), Some(false));
        let page = "From: a@x\r\nContent-Type: text/html\r\n\r\n<meta name=publish content=no><p>x";
        assert_eq!(read(page.as_bytes()).unwrap().publish, Some(false));
        assert_eq!(publish("Sensitivity: Private\r\n"), Some(false));
        assert_eq!(publish("Sensitivity: Company-Confidential\r\n"), Some(false));
        assert_eq!(publish("Sensitivity: Normal\r\n"), None);
    }

    #[test]
    fn an_html_mail_keeps_its_blocks() {
        let raw = b"From: a@x\r\nContent-Type: text/html; charset=utf-8\r\n\r\n<h1>Order 55</h1><div>Total: 40 EUR</div><ul><li>Book</li><li>Pen</li></ul>\r\n";
        let mail = read(raw).unwrap();
        assert_eq!(mail.body, "# Order 55\n\nTotal: 40 EUR\n\n- Book\n- Pen");
    }
}
