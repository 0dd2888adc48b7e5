//! Mail: the headers people read and the text of the body. The body alone is the text of a mail.
//!
//! Headers, encoded words and character sets are the work of `mail-parser`. Parts are found here, because
//! many mails break the rules and no text may be lost for that: a part without an end ends with the part
//! around it, and what cannot be decoded stays as it is.
//!
//! See docs/adr/0086-text-of-mail-and-latex.md.

use std::borrow::Cow;
use std::ops::Range;

use mail_parser::decoders::base64::base64_decode;
use mail_parser::decoders::charsets::map::charset_decoder;
use mail_parser::{Address, HeaderName, HeaderValue, Message, MessageParser, MimeHeaders};
use serde_json::{Map, Value};

use super::html;
use super::marks::{self, Marks};
use super::members::add_people;
use crate::contract::publish::{is_private_title, said_by_member, together};

/// A mail message: the headers people read, and the text body.
pub struct Mail {
    /// `Message-ID`, without brackets.
    pub(crate) message_id: Option<String>,
    /// The thread it belongs to: the first reference, else itself.
    pub(crate) thread_id: Option<String>,
    pub from: Option<String>,
    /// Everybody whom other headers name as one who wrote it, or sent it.
    senders: Vec<String>,
    pub to: Option<String>,
    pub(crate) cc: Option<String>,
    /// `List-Id`: the mailing list it came by.
    pub(crate) list_id: Option<String>,
    /// Subject, decoded.
    pub(crate) subject: Option<String>,
    /// `Date` as RFC 3339, without an offset where it has none; as it is written where it is no date of a mail.
    pub date: Option<String>,
    /// No where the sender marks the mail as personal, private or confidential.
    pub publish: Option<bool>,
    /// What the headers and the text say to rules about data.
    marks: Marks,
    /// Text body; HTML is read as a page.
    pub body: String,
    /// Whether the body is what the mail shows. A mail that shows nothing has the texts attached to it.
    pub(crate) shows_text: bool,
    /// What is attached to it, in its order.
    pub(crate) attachments: Vec<Attachment>,
}

/// A part that a mail does not show.
pub(crate) struct Attachment {
    /// The name of its file.
    pub name: Option<String>,
    /// Its type in lower case, such as `image/png`.
    pub media_type: String,
    /// Where its coded content lies. Pictures, sounds and films have no content that is read.
    content: Option<Range<usize>>,
    coding: Coding,
}

impl Attachment {
    /// Its content, decoded when it is asked for: text as UTF-8, anything else as it is. `mail` is the mail that it was
    /// found in.
    pub(crate) fn content(&self, mail: &[u8]) -> Option<Vec<u8>> {
        let coded = mail.get(self.content.clone()?)?;
        Some(match self.media_type.starts_with("text/") {
            true => self.coding.characters(coded).into_bytes(),
            false => self.coding.bytes(coded).into_owned(),
        })
    }

    /// Whether it is a mail. Reports of servers have types that begin so too.
    pub(crate) fn is_mail(&self) -> bool {
        is_mail(&self.media_type)
    }
}

fn is_mail(media_type: &str) -> bool {
    matches!(media_type, "message/rfc822" | "message/global")
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
        let mut members = named.map(|(name, value)| (name.to_owned(), value.into())).collect();
        self.marks.clone().keep_in(&mut members);
        add_people(&mut members, self.senders.iter().cloned());
        members
    }
}

/// Reads one message; `None` when it has no headers at all.
pub fn read(bytes: &[u8]) -> Option<Mail> {
    let readable = with_readable_head(bytes);
    let whole = parts(&readable);
    let message = whole.headers.as_ref().filter(|message| !message.headers().is_empty())?;
    let references = message.references().as_text_list().map(<[_]>::to_vec);
    let first_reference = references.and_then(|list| list.first().map(|id| id.to_string()));
    let message_id = message.message_id().map(str::to_owned);
    let shown = whole.texts(Wanted::Shown);
    let shows_text = !shown.is_empty();
    let body = if shows_text { shown } else { whole.texts(Wanted::Attached) }.join("\n\n");
    let mut found = Vec::new();
    whole.attachments(false, &mut found);
    // Parts lie behind the head, so they have the same distance to the end in the mail as it came.
    let place = |content: &[u8]| {
        let from_start = content.as_ptr() as usize - readable.as_ptr() as usize;
        let start = (from_start + bytes.len()).checked_sub(readable.len())?;
        Some(start..start + content.len())
    };
    let attachments = found.into_iter().map(|(part, name, media_type)| Attachment {
        content: is_read(&media_type).then(|| place(part.content)).flatten(),
        coding: part.coding(),
        name,
        media_type,
    });
    let attachments: Vec<Attachment> = attachments.collect();
    let mut marks = marks::in_text("eml", &body);
    whole.note_pages(&mut marks);
    note_headers(message, &mut marks);
    Some(Mail {
        thread_id: first_reference
            .or_else(|| message.in_reply_to().as_text().map(str::to_owned))
            .or_else(|| message_id.clone()),
        message_id,
        from: message.from().map(addresses),
        senders: senders(message),
        to: message.to().map(addresses),
        cc: message.cc().map(addresses),
        list_id: list_id(message),
        subject: message.subject().map(str::to_owned),
        date: date_of(message),
        publish: together([publish(message), marks.publish]),
        marks,
        body,
        shows_text,
        attachments,
    })
}

/// Names of zones that have one offset. Any other name, such as `CET`, says nothing that can be relied on.
const ZONES: [&str; 12] =
    ["UT", "UTC", "GMT", "Z", "EST", "EDT", "CST", "CDT", "MST", "MDT", "PST", "PDT"];

fn date_of(message: &Message<'_>) -> Option<String> {
    let raw = message.header_raw(HeaderName::Date)?;
    let bare = raw.split('(').next().unwrap_or(raw);
    let words: Vec<&str> = bare.split_whitespace().collect();
    let written = words.join(" ");
    let is_iso = written.get(..5).is_some_and(|year| year.ends_with('-'));
    let read = message.date().filter(|date| date.is_valid() && !is_iso);
    let Some(date) = read else { return (!written.is_empty()).then_some(written) };
    let last = words.last().copied().unwrap_or_default();
    // The name of the zone may stand behind its offset: `+0100 CET`.
    let is_offset = |word: &&str| {
        let digits = word.strip_prefix(['+', '-']);
        digits.is_some_and(|digits| digits.len() == 4 && digits.bytes().all(|b| b.is_ascii_digit()))
    };
    if last.contains(['+', '-'])
        || words.iter().any(is_offset)
        || ZONES.contains(&last.to_ascii_uppercase().as_str())
    {
        return Some(date.to_rfc3339());
    }
    let (year, month, day) = (date.year, date.month, date.day);
    let (hour, minute, second) = (date.hour, date.minute, date.second);
    Some(format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}"))
}

/// When the head of a mail is not UTF-8, no header gives its character set. It is then read as Windows-1252,
/// like text files.
fn with_readable_head(bytes: &[u8]) -> Cow<'_, [u8]> {
    let ends = [&b"\n\n"[..], b"\n\r\n"];
    let end = ends.iter().filter_map(|end| memchr::memmem::find(bytes, end)).min();
    let (head, rest) = bytes.split_at(end.unwrap_or(bytes.len()));
    if std::str::from_utf8(head).is_ok() {
        return Cow::Borrowed(bytes);
    }
    let decode = charset_decoder(b"windows-1252");
    let lines = head.split_inclusive(|byte| *byte == b'\n').map(|line| {
        match (std::str::from_utf8(line), decode) {
            (Err(_), Some(decode)) => decode(line).into_bytes(),
            _ => line.to_vec(),
        }
    });
    let mut readable: Vec<u8> = lines.flatten().collect();
    readable.extend_from_slice(rest);
    Cow::Owned(readable)
}

/// The deepest level of nested parts that is read.
const DEPTH_MAX: usize = 64;

/// A part of a mail. The mail is one too.
struct Part<'a> {
    headers: Option<Message<'a>>,
    /// The encoded content; it is decoded only when it is needed.
    content: &'a [u8],
    /// The parts in it, when it has several.
    inner: Vec<Part<'a>>,
}

/// A part whose end was not found yet.
struct OpenPart<'a> {
    begin: usize,
    headers: Option<Message<'a>>,
    /// Where its headers ended.
    content: Option<usize>,
    /// What separates the parts in it, as long as it has more.
    boundary: Option<Vec<u8>>,
    inner: Vec<Part<'a>>,
}

impl<'a> OpenPart<'a> {
    fn at(begin: usize) -> OpenPart<'a> {
        OpenPart { begin, headers: None, content: None, boundary: None, inner: Vec::new() }
    }

    fn headers_end(&mut self, bytes: &'a [u8], line: usize, next: usize, may_have_parts: bool) {
        self.content = Some(next);
        self.headers = MessageParser::default().parse_headers(&bytes[self.begin..line]);
        let of_type = self.headers.as_ref().and_then(MimeHeaders::content_type);
        let multipart = of_type.filter(|of| of.ctype().eq_ignore_ascii_case("multipart"));
        let boundary = multipart.and_then(|of| of.attribute("boundary"));
        self.boundary = boundary
            .filter(|name| !name.is_empty() && may_have_parts)
            .map(|name| name.as_bytes().to_vec());
    }

    fn end(mut self, bytes: &'a [u8], end: usize) -> Part<'a> {
        if self.content.is_none() {
            self.headers_end(bytes, end, end, false);
        }
        let content = &bytes[self.content.unwrap_or(end)..end];
        Part { headers: self.headers, content, inner: self.inner }
    }
}

/// The mail as its parts. A boundary ends every part inside the one that named it.
fn parts(bytes: &[u8]) -> Part<'_> {
    let mut open = vec![OpenPart::at(0)];
    let mut at = 0;
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        let (begin, words) = (at, line.trim_ascii_end());
        at += line.len();
        let depth = open.len();
        if let Some((place, goes_on)) = boundary_of(&open, words) {
            end_inside(&mut open, place, bytes, begin);
            match goes_on {
                true => open.push(OpenPart::at(at)),
                false => open[place].boundary = None,
            }
        } else if words.is_empty()
            && let Some(innermost) = open.last_mut()
            && innermost.content.is_none()
        {
            innermost.headers_end(bytes, begin, at, depth < DEPTH_MAX);
        }
    }
    end_inside(&mut open, 0, bytes, bytes.len());
    open.swap_remove(0).end(bytes, bytes.len())
}

/// The open part whose boundary a line is, and whether a part follows it.
fn boundary_of(open: &[OpenPart<'_>], line: &[u8]) -> Option<(usize, bool)> {
    let name = line.strip_prefix(b"--")?;
    let matches = |(place, part): (usize, &OpenPart<'_>)| match name
        .strip_prefix(part.boundary.as_deref()?)?
    {
        b"" => Some((place, true)),
        b"--" => Some((place, false)),
        _ => None,
    };
    open.iter().enumerate().rev().find_map(matches)
}

/// Ends the open parts inside one.
fn end_inside<'a>(open: &mut Vec<OpenPart<'a>>, place: usize, bytes: &'a [u8], end: usize) {
    while open.len() > place + 1
        && let Some(innermost) = open.pop()
    {
        let part = innermost.end(bytes, end);
        open.last_mut().expect("a part is open around it").inner.push(part);
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Wanted {
    Shown,
    Attached,
}

/// Whether a part that is attached may have a reader.
fn is_read(media_type: &str) -> bool {
    let major = media_type.split('/').next().unwrap_or_default();
    !matches!(major, "image" | "audio" | "video" | "font" | "model")
}

impl Part<'_> {
    /// The texts of a part and of the parts in it, those that are not empty, in their order. Of
    /// alternatives the first plain one that has text counts, else the first that has text.
    fn texts(&self, wanted: Wanted) -> Vec<String> {
        if !self.is_one_of(&["multipart"], None) {
            return self.own_text(wanted).into_iter().collect();
        }
        let each = self.inner.iter().map(|part| (part, part.texts(wanted)));
        if !self.is_one_of(&["multipart"], Some("alternative")) {
            return each.flat_map(|(_, texts)| texts).collect();
        }
        let mut with_text: Vec<_> = each.filter(|(_, texts)| !texts.is_empty()).collect();
        let plain = with_text.iter().position(|(part, _)| part.is_plain());
        match with_text.is_empty() {
            true => Vec::new(),
            false => with_text.swap_remove(plain.unwrap_or(0)).1,
        }
    }

    fn own_text(&self, wanted: Wanted) -> Option<String> {
        let disposition = self.headers.as_ref().and_then(MimeHeaders::content_disposition);
        let is_attached = disposition.is_some_and(|one| one.is_attachment());
        let is_wanted = match wanted {
            Wanted::Shown => !is_attached && (self.is_plain() || self.is_html()),
            Wanted::Attached => is_attached && (self.is_plain() || self.is_one_of(&["text"], None)),
        };
        if !is_wanted {
            return None;
        }
        let text = match self.is_html() {
            true => html::page(&self.decoded()).text,
            false => self.decoded().trim().to_owned(),
        };
        (!text.is_empty()).then_some(text)
    }

    /// Whether it shows a text: plain text is looked for first, because reading a page takes long.
    fn shows_text(&self) -> bool {
        if !self.is_one_of(&["multipart"], None) {
            return self.own_text(Wanted::Shown).is_some();
        }
        let (plain, others): (Vec<_>, Vec<_>) = self.inner.iter().partition(|part| part.is_plain());
        plain.into_iter().chain(others).any(Part::shows_text)
    }

    /// Collects what is attached, each with its name and its type. A version of a text that is shown is no
    /// attachment.
    fn attachments<'p>(
        &'p self,
        is_version: bool,
        found: &mut Vec<(&'p Self, Option<String>, String)>,
    ) {
        if self.is_one_of(&["multipart"], None) {
            let is_choice = self.is_one_of(&["multipart"], Some("alternative"));
            let is_version = is_choice && self.shows_text();
            self.inner.iter().for_each(|part| part.attachments(is_version, found));
            return;
        }
        let Some(headers) = &self.headers else { return };
        let disposition = headers.content_disposition();
        let is_attached = disposition.is_some_and(|one| one.is_attachment());
        let of_type = headers.content_type();
        let major = of_type.map_or("text", |of| of.ctype()).to_ascii_lowercase();
        let minor = of_type.and_then(|of| of.subtype()).unwrap_or("plain").to_ascii_lowercase();
        let is_text = self.is_plain() || self.is_html();
        // A picture with an id belongs to the page that shows it. A signature says nothing.
        let is_of_page = major == "image" && headers.content_id().is_some();
        let is_signature = minor.ends_with("signature");
        let media_type = format!("{major}/{minor}");
        // A server says in such parts what became of a mail.
        let is_report = major == "message" && !is_mail(&media_type);
        let is_beside = !is_report && (is_attached || !(is_version || is_text || is_of_page));
        if !is_beside || is_signature || self.content.trim_ascii().is_empty() {
            return;
        }
        let name = headers.attachment_name().map(str::trim).filter(|name| !name.is_empty());
        let name = name.map(|name| words_of(name).unwrap_or_else(|| name.to_owned()));
        found.push((self, name, media_type));
    }

    /// What the `meta` elements and the head of the parts in HTML say.
    fn note_pages(&self, marks: &mut Marks) {
        if self.is_html() {
            let page = self.decoded();
            marks.members(&html::page(&page).members);
            marks.join(marks::in_text("html", &page));
        }
        self.inner.iter().for_each(|part| part.note_pages(marks));
    }

    fn is_one_of(&self, kinds: &[&str], subtype: Option<&str>) -> bool {
        let of_type = self.headers.as_ref().and_then(MimeHeaders::content_type);
        of_type.is_some_and(|of| {
            let named = of.subtype().unwrap_or_default();
            kinds.iter().any(|kind| of.ctype().eq_ignore_ascii_case(kind))
                && subtype.is_none_or(|subtype| named.eq_ignore_ascii_case(subtype))
        })
    }

    fn is_html(&self) -> bool {
        self.is_one_of(&["text"], Some("html"))
    }

    /// A part that names no type is plain text.
    fn is_plain(&self) -> bool {
        let of_type = self.headers.as_ref().and_then(MimeHeaders::content_type);
        of_type.is_none() || self.is_one_of(&["text"], Some("plain"))
    }

    /// Its content as characters.
    fn decoded(&self) -> String {
        self.coding().characters(self.content)
    }

    fn coding(&self) -> Coding {
        let transfer = self.headers.as_ref().and_then(|part| part.content_transfer_encoding());
        let of_type = self.headers.as_ref().and_then(MimeHeaders::content_type);
        let charset = of_type.and_then(|of| of.attribute("charset"));
        Coding {
            transfer: transfer.map(str::to_ascii_lowercase),
            charset: charset.map(str::to_owned),
        }
    }
}

/// How the content of a part is coded.
struct Coding {
    /// In lower case.
    transfer: Option<String>,
    charset: Option<String>,
}

impl Coding {
    /// Content as its transfer encoding says.
    fn bytes<'c>(&self, content: &'c [u8]) -> Cow<'c, [u8]> {
        match self.transfer.as_deref() {
            Some("base64") => of_base64(content),
            Some("quoted-printable") => Cow::Owned(of_quoted_printable(content)),
            _ => Cow::Borrowed(content),
        }
    }

    /// Content as characters.
    fn characters(&self, content: &[u8]) -> String {
        let bytes = self.bytes(content);
        let charset = self.charset.as_deref().unwrap_or("us-ascii").trim();
        let is_ascii = ["us-ascii", "ascii"].iter().any(|one| charset.eq_ignore_ascii_case(one));
        if charset.eq_ignore_ascii_case("utf-8") || charset.eq_ignore_ascii_case("utf8") {
            return String::from_utf8_lossy(&bytes).into_owned();
        }
        match charset_decoder(charset.as_bytes()).filter(|_| !is_ascii) {
            Some(decode) => decode(&bytes),
            None => match (std::str::from_utf8(&bytes), charset_decoder(b"windows-1252")) {
                (Err(_), Some(decode)) => decode(&bytes),
                _ => String::from_utf8_lossy(&bytes).into_owned(),
            },
        }
    }
}

/// It ends at the first `=`. Anything that stands between the digits is left out.
fn of_base64(coded: &[u8]) -> Cow<'_, [u8]> {
    let is_digit = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
    let digits = coded.iter().copied().take_while(|byte| *byte != b'=');
    let digits: Vec<u8> = digits.filter(is_digit).collect();
    base64_decode(&digits).map_or(Cow::Borrowed(coded), Cow::Owned)
}

/// A `=` that codes nothing stays.
pub(super) fn of_quoted_printable(coded: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(coded.len());
    for line in coded.split_inclusive(|byte| *byte == b'\n') {
        let words = line.trim_ascii_end();
        let (words, end) = match words.strip_suffix(b"=") {
            Some(words) if words.len() < line.len() => (words, &b""[..]),
            _ => (words, if line.ends_with(b"\n") { &b"\n"[..] } else { b"" }),
        };
        let mut at = 0;
        while at < words.len() {
            let digit = |place: usize| Some(char::from(*words.get(place)?).to_digit(16)? as u8);
            match (words[at], digit(at + 1), digit(at + 2)) {
                (b'=', Some(high), Some(low)) => {
                    bytes.push(high << 4 | low);
                    at += 3;
                }
                (byte, ..) => {
                    bytes.push(byte);
                    at += 1;
                }
            }
        }
        bytes.extend_from_slice(end);
    }
    bytes
}

/// `Name of the list <id.of.the.list>`, or the id alone: the id.
fn list_id(message: &Message<'_>) -> Option<String> {
    let raw = message.header_raw("List-Id")?.trim();
    let id = raw.rsplit_once('<').and_then(|(_, id)| id.strip_suffix('>')).unwrap_or(raw).trim();
    (!id.is_empty()).then(|| id.to_owned())
}

/// The encoded words of a header as characters. Some programs put no blank between labels, and then nobody
/// takes them for such words.
fn words_of(raw: &str) -> Option<String> {
    let header =
        raw.contains("=?").then(|| format!("Subject: {}\r\n\r\n", raw.replace(",=?", ", =?")));
    let message = MessageParser::default().parse_headers(header.as_ref()?.as_bytes())?;
    message.subject().map(str::to_owned)
}

/// What the headers say, with or without the `X-` of names that are not registered.
fn publish(message: &Message<'_>) -> Option<bool> {
    let is_marked = message.subject().is_some_and(is_private_title);
    let headers = together(message.headers().iter().map(|header| {
        let name = header.name();
        let name = name.strip_prefix("X-").or_else(|| name.strip_prefix("x-")).unwrap_or(name);
        let text = message.header_raw(header.name())?.trim();
        if name.eq_ignore_ascii_case("Uniform-Type-Identifier") && text.ends_with(".mail-draft") {
            return Some(false);
        }
        // `msip_labels` holds members of its own: `MSIP_Label_ID_Name=Confidential;`.
        let pairs = text.split(';').filter_map(|part| part.split_once('='));
        let within = pairs.map(|(name, value)| (name.trim(), value.trim().trim_matches('"')));
        let within = within
            .filter(|_| name.eq_ignore_ascii_case("msip_labels"))
            .map(|(name, value)| said_by_member(name, &value.into()));
        let own = [Some(text.to_owned()), words_of(text)]
            .map(|text| said_by_member(name, &Value::from(text?)));
        together(own.into_iter().chain(within))
    }));
    together([is_marked.then_some(false), headers])
}

/// Headers in which programs write the tags of a mail with blanks between them.
const TAGS_BETWEEN_BLANKS: [&str; 3] = ["X-Mozilla-Keys", "X-Keywords", "X-Label"];

/// What the headers say to rules about data: `X-Local-Only`, `Keywords`, `X-Gmail-Labels`, `X-Mozilla-Keys`.
fn note_headers(message: &Message<'_>, marks: &mut Marks) {
    for header in message.headers() {
        let name = header.name();
        let Some(raw) = message.header_raw(name) else { continue };
        let text = raw.split_whitespace().collect::<Vec<_>>().join(" ");
        let text = words_of(&text).unwrap_or(text);
        let bare = name.strip_prefix("X-").or_else(|| name.strip_prefix("x-")).unwrap_or(name);
        marks.note(bare, &text);
        let has_blanks = TAGS_BETWEEN_BLANKS.iter().any(|one| name.eq_ignore_ascii_case(one));
        if has_blanks && !text.contains([',', ';']) {
            marks.file_under(text.split(' ').filter(|tag| !tag.is_empty()).map(str::to_owned));
        }
    }
}

/// What may stand before the name of a header that tells who wrote or sent a mail.
const BEFORE_SENDERS: [&str; 8] =
    ["x", "original", "google", "mailman", "resent", "envelope", "authenticated", "mail"];

/// Everybody whom a header beside `From` names as one who wrote the mail or sent it: `Sender`, `Reply-To`, `Resent-From`,
/// `X-Original-From`. A list puts its own address in the place of the first, and a form that of a machine.
fn senders(message: &Message<'_>) -> Vec<String> {
    let is_sender = |name: &str| {
        let name = name.to_ascii_lowercase();
        let mut rest = &*name;
        while let Some((first, behind)) = rest.split_once('-')
            && BEFORE_SENDERS.contains(&first)
        {
            rest = behind;
        }
        rest == "sender" || rest == "reply-to" || rest == "author" || rest == "from" && rest != name
    };
    let named = message.headers().iter().filter(|header| is_sender(header.name()));
    let named = named.flat_map(|header| match header.value() {
        HeaderValue::Address(list) => {
            list.iter().map(|one| addresses_of(one.name(), one.address())).collect()
        }
        HeaderValue::Text(text) => vec![text.trim().to_owned()],
        HeaderValue::TextList(list) => list.iter().map(|text| text.trim().to_owned()).collect(),
        _ => Vec::new(),
    });
    named.filter(|name| !name.is_empty()).collect()
}

fn addresses(list: &Address<'_>) -> String {
    let shown: Vec<String> =
        list.iter().map(|one| addresses_of(one.name(), one.address())).collect();
    shown.join(", ")
}

fn addresses_of(name: Option<&str>, address: Option<&str>) -> String {
    match (name, address) {
        // A comma inside a name separates no people.
        (Some(name), Some(address)) if name.contains(',') => format!("\"{name}\" <{address}>"),
        (Some(name), Some(address)) => format!("{name} <{address}>"),
        (name, address) => name.or(address).unwrap_or_default().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::source::Person;
    use crate::markup::members::SAID_BY;

    #[test]
    fn plain_text_wins_over_html_and_the_thread_is_known() {
        let raw = b"Message-ID: <2@x>\r\nReferences: <1@x> <9@x>\r\nFrom: A B <a@x>\r\nSubject: Re: hi\r\nDate: Wed, 11 Feb 2026 10:00:00 -0300\r\nMIME-Version: 1.0\r\nContent-Type: multipart/alternative; boundary=b\r\n\r\n--b\r\nContent-Type: text/plain; charset=iso-8859-1\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\ncaf=E9\r\n--b\r\nContent-Type: text/html\r\n\r\n<p>html</p>\r\n--b--\r\n";
        let mail = read(raw).unwrap();
        assert_eq!(mail.body.trim(), "caf\u{e9}");
        assert_eq!(mail.thread_id.as_deref(), Some("1@x"));
        assert_eq!(mail.from.as_deref(), Some("A B <a@x>"));
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
        for label in
            ["=?UTF-8?Q?Priv=C3=A9?=", "Inbox,=?UTF-8?Q?Priv=C3=A9?=", "=?UTF-8?Q?Inbox,Privat?="]
        {
            assert_eq!(publish(&format!("X-Gmail-Labels: {label}\r\n")), Some(false), "{label}");
        }
        assert_eq!(publish("Subject: Re: AW: [Private] roof\r\n"), Some(false));
        let page = "From: a@x\r\nContent-Type: text/html\r\n\r\n<meta name=publish content=no><p>x";
        assert_eq!(read(page.as_bytes()).unwrap().publish, Some(false));
        let raw = read(b"From: a@x\r\nSubject: Ma\xf1ana\r\n\r\nx").unwrap();
        assert_eq!(raw.subject.as_deref(), Some("Ma\u{f1}ana"));
        for draft in [
            "X-Mozilla-Draft-Info: internal/draft; vcard=0",
            "X-Uniform-Type-Identifier: com.apple.mail-draft",
            "X-Gmail-Labels: Drafts,Opened",
        ] {
            assert_eq!(publish(&format!("{draft}\r\n")), Some(false), "{draft}");
        }
        for body in [
            "publish: no\n\nThe key is under the mat.",
            "private:: yes\nThe key is under the mat.",
            "PRIVATE\n\nThe key is under the mat.",
            "Hello Bob,\n\npublish: no\n",
        ] {
            assert_eq!(publish(&format!("\r\n{body}")), Some(false), "{body}");
        }
        assert_eq!(publish("\r\nThe key: under the mat.\nStatus: it works"), None);
        let page = "From: a@x\r\nContent-Type: text/html\r\n\r\n<!-- draft: true --><p>x";
        assert_eq!(read(page.as_bytes()).unwrap().publish, Some(false));
        assert_eq!(publish("Sensitivity: Private\r\n"), Some(false));
        assert_eq!(publish("Sensitivity: Company-Confidential\r\n"), Some(false));
        assert_eq!(publish("Sensitivity: Normal\r\n"), None);
    }

    #[test]
    fn headers_name_who_wrote_or_sent_it_beside_the_first_one() {
        for header in [
            "Sender: Ana Ruiz <ana@x.example>",
            "sender: ana@x.example",
            "Reply-To: \"Ruiz, Ana\" <ana@x.example>, bo@x.example",
            "Resent-From: Ana Ruiz <ana@x.example>",
            "Resent-Sender: Ana Ruiz <ana@x.example>",
            "X-Original-From: Ana Ruiz <ana@x.example>",
            "X-Google-Original-From: Ana Ruiz <ana@x.example>",
            "X-Original-Sender: ana@x.example",
            "X-Mailman-Original-From: Ana Ruiz <ana@x.example>",
            "Mail-Reply-To: Ana Ruiz <ana@x.example>",
            "X-Envelope-From: <ana@x.example>",
            "X-From: Ana Ruiz <ana@x.example>",
        ] {
            let mail = format!("From: all@list.example\r\n{header}\r\n\r\nx");
            let said = read(mail.as_bytes()).unwrap().members()[SAID_BY].to_string();
            let names = |one: &str| Person::names_in(one).contains("ana@x.example");
            let said: Vec<String> = serde_json::from_str(&said).unwrap();
            assert!(said.iter().any(|one| names(one)), "{header}: {said:?}");
        }
        for header in
            ["In-Reply-To: <ana@x.example>", "Mail-Followup-To: ana@x.example", "Cc: ana@x.example"]
        {
            let mail = format!("From: all@list.example\r\n{header}\r\n\r\nx");
            assert!(!read(mail.as_bytes()).unwrap().members().contains_key(SAID_BY), "{header}");
        }
    }

    #[test]
    fn a_part_without_an_end_ends_with_the_part_around_it() {
        let raw = "From: a@x\r\nContent-Type: multipart/mixed; boundary=out\r\n\r\n--out\r\n\
                   Content-Type: multipart/related;\r\n boundary=\"in\"\r\n\r\n--in\r\n\r\nOne\r\n--out\r\n\
                   \r\nTwo\r\n--outer is no boundary\r\n--out--\r\nAfter\r\n";
        assert_eq!(read(raw.as_bytes()).unwrap().body, "One\n\nTwo\r\n--outer is no boundary");
        let whole = raw.replace("One\r\n", "One\r\n--in--\r\n");
        assert_eq!(read(whole.as_bytes()).unwrap().body, "One\n\nTwo\r\n--outer is no boundary");
    }

    #[test]
    fn what_is_coded_wrongly_is_read_as_far_as_it_can_be() {
        let body = |head: &str, body: &[u8]| {
            let head = format!("From: a@x\r\n{head}\r\n\r\n");
            read(&[head.as_bytes(), body].concat()).unwrap().body
        };
        let plain = "Content-Type: text/plain";
        assert_eq!(body(plain, "caf\u{e9}".as_bytes()), "caf\u{e9}");
        assert_eq!(body(plain, b"caf\xe9 \x80"), "caf\u{e9} \u{20ac}");
        assert_eq!(
            body(&format!("{plain}; charset=US-ASCII"), "caf\u{e9}".as_bytes()),
            "caf\u{e9}"
        );
        assert_eq!(body(&format!("{plain}; charset=x-unknown"), b"caf\xe9"), "caf\u{e9}");
        let quoted = format!("{plain}\r\nContent-Transfer-Encoding: quoted-printable");
        assert_eq!(body(&quoted, b"a=3Db c=d =\r\ne=\r\nf  \r\ng"), "a=b c=d ef\ng");
        let base64 = format!("{plain}\r\nContent-Transfer-Encoding: base64");
        assert_eq!(body(&base64, b"SGVs\r\nbG8*"), "Hello");
        assert_eq!(body(&base64, b"SGVsbG8=\r\n\r\nTo leave this list"), "Hello");
    }

    #[test]
    fn an_html_mail_keeps_its_blocks() {
        let raw = b"From: a@x\r\nContent-Type: text/html; charset=utf-8\r\n\r\n<h1>Order 55</h1><div>Total: 40 EUR</div><ul><li>Book</li><li>Pen</li></ul>\r\n";
        let mail = read(raw).unwrap();
        assert_eq!(mail.body, "# Order 55\n\nTotal: 40 EUR\n\n- Book\n- Pen");
    }

    #[test]
    fn what_is_attached_is_decoded_from_where_it_lies() {
        // The head is read as other bytes than it has.
        let raw = b"From: a@x\r\nSubject: Ma\xf1ana\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n\r\nText\r\n\
            --b\r\nContent-Type: application/x\r\nContent-Transfer-Encoding: base64\r\n\r\nSGVsbG8=\r\n\
            --b\r\nContent-Type: text/x; charset=koi8-r\r\n\r\n\xc4\xc1\r\n\
            --b\r\nContent-Type: image/png\r\n\r\nxx\r\n\
            --b\r\nContent-Type: message/delivery-status\r\n\r\nReporting-MTA: x\r\n--b--\r\n";
        let mail = read(raw).unwrap();
        let found = mail.attachments.iter().map(|one| {
            let content = one.content(raw).map(|bytes| String::from_utf8(bytes).unwrap());
            (one.media_type.as_str(), content.map(|text| text.trim().to_owned()))
        });
        let text = |text: &str| Some(text.to_owned());
        let expected =
            [("application/x", text("Hello")), ("text/x", text("да")), ("image/png", None)];
        assert_eq!(found.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn every_usual_character_set_is_read() {
        for (charset, bytes, expected) in [
            ("big5", &b"\xa4\xe9\xa5\xbb"[..], "日本"),
            ("euc-jp", b"\xc6\xfc\xcb\xdc", "日本"),
            ("euc-kr", b"\xc7\xd1\xb1\xdb", "한글"),
            ("gb2312", b"\xc8\xd5\xb1\xbe", "日本"),
            ("gb18030", b"\xc8\xd5\xb1\xbe", "日本"),
            ("shift_jis", b"\x93\xfa\x96\x7b", "日本"),
            ("iso-2022-jp", b"\x1b$BF|K\\\x1b(B", "日本"),
            ("windows-1251", b"\xc4\xe0", "Да"),
            ("shift_jis", b"a", "a"),
            ("iso-2022-jp", b"\x1b", "\u{fffd}"),
        ] {
            let head = format!("From: a@x\r\nContent-Type: text/plain; charset={charset}\r\n\r\n");
            let mail = read(&[head.as_bytes(), bytes].concat()).unwrap();
            assert_eq!(mail.body, expected, "{charset}");
        }
        let raw = b"From: a@x\r\nSubject: =?ISO-2022-JP?B?GyRCRnxLXBsoQg==?=\r\n\r\nx";
        assert_eq!(read(raw).unwrap().subject.as_deref(), Some("日本"));
    }
}
