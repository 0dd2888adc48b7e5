//! Removes addresses, telephone numbers, account numbers and keys from a conversation before it leaves
//! this machine.
//!
//! Contract: they are recognized by their form and by the words beside them, and replaced by `[email]`,
//! `[phone]`, `[account]` and `[key]`. Only the number of replacements is reported, not their text.
//! Recognition by form is not complete: it removes too much rather than too little (a long order number
//! may become `[phone]`), but a name, a postal address or a key of an unlisted form stays. Where no text
//! may leave this machine, set `local_only`.
//!
//! The work is linear in the text: each search looks a bounded number of bytes back.
//!
//! Only the sent text changes. The log, the evidence and the embedded provider get the original text.
//!
//! See docs/adr/0069-redaction-before-sending.md.

mod accounts;
mod commands;
#[cfg(test)]
mod corpus;
mod emails;
mod keys;
mod phones;

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use serde_json::Value;

use super::batch_api::BatchLine;
use super::call::{Message, ModelCall};
use super::error::ModelError;
use super::provider::Provider;
use super::reply::{ModelIdentity, ModelReply};
use crate::markup::prefix;

/// What stands for a key, an account number, an address and a telephone number.
pub(crate) const REDACTED: [&str; 4] = ["[key]", "[account]", "[email]", "[phone]"];

/// Whether a word announces a telephone number, such as `tel`.
pub(crate) fn announces_phone(word: &str) -> bool {
    phones::announces(&word.to_lowercase())
}

/// Which kinds of text are replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Redaction {
    pub emails: bool,
    pub phones: bool,
    pub keys: bool,
    pub accounts: bool,
}

impl Redaction {
    /// Reads the words of the configuration; `None` for an unknown word.
    pub(super) fn of(words: &[String]) -> Option<Redaction> {
        let mut wanted = Redaction::default();
        for word in words {
            match word.as_str() {
                "emails" => wanted.emails = true,
                "phones" => wanted.phones = true,
                "keys" => wanted.keys = true,
                "accounts" => wanted.accounts = true,
                _ => return None,
            }
        }
        Some(wanted)
    }

    pub(crate) fn is_off(self) -> bool {
        self == Redaction::default()
    }

    /// The text after all replacements, and their number.
    pub(super) fn apply(self, text: &str) -> (Cow<'_, str>, u64) {
        let passages = self.passages(text);
        if passages.is_empty() {
            return (Cow::Borrowed(text), 0);
        }
        let mut clean = String::with_capacity(text.len());
        let mut from = 0;
        for (passage, name) in &passages {
            clean.push_str(&text[from..passage.start]);
            clean.push_str(name);
            from = passage.end;
        }
        clean.push_str(&text[from..]);
        (Cow::Owned(clean), passages.len() as u64)
    }

    /// The passages to replace and their names, in the order of the text, none within another. Signs that nobody sees do
    /// not hide a passage, and another way to write a sign does not.
    fn passages(self, text: &str) -> Vec<(Range<usize>, &'static str)> {
        if !has_other_signs(text) {
            return self.passages_of_seen(text);
        }
        let (mut seen, mut places) = (String::with_capacity(text.len()), Vec::new());
        let mut at = 0;
        while at < text.len() {
            let (sign, bytes) = sign_at(&text[at..]);
            if let Some(sign) = sign {
                places.extend(std::iter::repeat_n(at, sign.len_utf8()));
                seen.push(sign);
            }
            at += bytes;
        }
        places.push(text.len());
        let found = self.passages_of_seen(&seen).into_iter();
        found.map(|(passage, name)| (places[passage.start]..places[passage.end], name)).collect()
    }

    fn passages_of_seen(self, text: &str) -> Vec<(Range<usize>, &'static str)> {
        let mut passages: Vec<(Range<usize>, &'static str)> = Vec::new();
        if self.keys {
            let mut found = Vec::new();
            keys::find(text, &mut found);
            passages.extend(found.into_iter().map(|passage| (passage, REDACTED[0])));
        }
        // Each kind is searched in what the kinds before it left: a key or a card may hold digits that
        // look like a telephone number.
        type Find = fn(&str, Range<usize>, &mut Vec<Range<usize>>);
        let kinds: [(bool, &str, Find); 3] = [
            (self.accounts, REDACTED[1], accounts::find),
            (self.emails, REDACTED[2], emails::find),
            (self.phones, REDACTED[3], phones::find),
        ];
        for (_, name, find) in kinds.into_iter().filter(|(wanted, ..)| *wanted) {
            let mut found = Vec::new();
            let mut from = 0;
            for (taken, _) in &passages {
                find(text, from..taken.start, &mut found);
                from = taken.end;
            }
            find(text, from..text.len(), &mut found);
            passages.extend(found.into_iter().map(|passage| (passage, name)));
            passages.sort_by_key(|(passage, _)| passage.start);
            passages.dedup_by(|next, kept| next.0.start < kept.0.end);
        }
        passages
    }

    fn apply_to_value(self, value: &mut Value) -> u64 {
        match value {
            Value::String(text) => {
                let (clean, count) = self.apply(text);
                if count > 0 {
                    *text = clean.into_owned();
                }
                count
            }
            Value::Array(items) => items.iter_mut().map(|item| self.apply_to_value(item)).sum(),
            Value::Object(members) => {
                members.iter_mut().map(|(_, member)| self.apply_to_value(member)).sum()
            }
            _ => 0,
        }
    }

    fn apply_to_message(self, message: &Message) -> (Message, u64) {
        let (text, mut count) = self.apply(&message.text);
        let mut clean = Message { text: text.into_owned(), ..message.clone() };
        count += clean.fields.iter_mut().map(|(_, field)| self.apply_to_value(field)).sum::<u64>();
        (clean, count)
    }
}

/// Redacts the conversation of each call before another provider sends it.
pub(crate) struct Redacting {
    inner: Arc<dyn Provider>,
    redaction: Redaction,
}

impl Redacting {
    pub(super) fn new(inner: Arc<dyn Provider>, redaction: Redaction) -> Redacting {
        Redacting { inner, redaction }
    }
}

impl Provider for Redacting {
    fn inner(&self) -> Option<&dyn Provider> {
        Some(&*self.inner)
    }

    fn identity(&self) -> ModelIdentity {
        self.inner.identity()
    }

    fn context_tokens(&self) -> usize {
        self.inner.context_tokens()
    }

    fn batch_line(&self, call: &ModelCall<'_>) -> Option<BatchLine> {
        let cleaned = call.messages.iter().map(|message| self.redaction.apply_to_message(message));
        let (messages, counts): (Vec<Message>, Vec<u64>) = cleaned.unzip();
        let call = ModelCall { messages: &messages, sources: &[], ..call.clone() };
        let line = self.inner.batch_line(&call)?;
        Some(BatchLine { redacted: counts.iter().sum(), ..line })
    }

    fn call(&self, call: &ModelCall<'_>) -> Result<ModelReply, ModelError> {
        let cleaned = call.messages.iter().map(|message| self.redaction.apply_to_message(message));
        let (messages, counts): (Vec<Message>, Vec<u64>) = cleaned.unzip();
        // Drop the sources: the conversation is the only part of a call that is redacted.
        let call = ModelCall { messages: &messages, sources: &[], ..call.clone() };
        let reply = self.inner.call(&call)?;
        Ok(ModelReply { redacted: counts.iter().sum(), ..reply })
    }
}

/// A sign without a width: nobody sees it, and a copied number may hold it.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2064}'
        | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

/// A space that does not end a line, also one that does not break or is thin.
fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\u{a0}' | '\u{2000}'..='\u{200a}' | '\u{202f}' | '\u{205f}' | '\u{3000}')
}

/// Digits of other scripts, by their zero.
const ZEROS: [char; 4] = ['\u{660}', '\u{6f0}', '\u{966}', '\u{9e6}'];
/// Longest name of a sign between `&` and `;`.
const REFERENCE_BYTES: usize = 16;
/// Names that HTML has for signs in addresses, in numbers and around secrets.
const NAMED_SIGNS: [(&str, char); 26] = [
    ("commat", '@'),
    ("period", '.'),
    ("plus", '+'),
    ("hyphen", '-'),
    ("dash", '-'),
    ("lowbar", '_'),
    ("sol", '/'),
    ("colon", ':'),
    ("equals", '='),
    ("lpar", '('),
    ("rpar", ')'),
    ("quot", '"'),
    ("apos", '\''),
    ("amp", '&'),
    ("lt", '<'),
    ("gt", '>'),
    ("nbsp", '\u{a0}'),
    ("ensp", '\u{2002}'),
    ("emsp", '\u{2003}'),
    ("numsp", '\u{2007}'),
    ("thinsp", '\u{2009}'),
    ("shy", '\u{ad}'),
    ("zwnj", '\u{200c}'),
    ("zwj", '\u{200d}'),
    ("NoBreak", '\u{2060}'),
    ("ZeroWidthSpace", '\u{200b}'),
];

/// Whether a sign of the text may be written in another way, or not be seen.
fn has_other_signs(text: &str) -> bool {
    let is_other = |c: char| !c.is_ascii() && (is_invisible(c) || of_other_form(c).is_some());
    let is_named = |(at, _): (usize, &str)| reference(&text[at + 1..]).is_some();
    text.contains(is_other)
        || text.contains("%40")
        || text.match_indices('&').any(is_named)
        || text.match_indices("\\u").any(|(at, _)| escaped(&text[at..]).is_some())
}

/// The ordinary sign for a wide one, or for a digit of another script.
fn of_other_form(c: char) -> Option<char> {
    if c.is_ascii() {
        return None;
    }
    if let '\u{ff01}'..='\u{ff5e}' = c {
        return char::from_u32(u32::from(c) - 0xfee0);
    }
    ZEROS.iter().find_map(|zero| char::from_digit(u32::from(c).checked_sub(u32::from(*zero))?, 10))
}

/// The sign at the beginning of a text as a person reads it, where one is seen, and its bytes in the text.
fn sign_at(text: &str) -> (Option<char>, usize) {
    if text.starts_with("%40") {
        return (Some('@'), 3);
    }
    if let Some(found) = text.strip_prefix('&').and_then(reference) {
        return (Some(found.0).filter(|c| !is_invisible(*c)), 1 + found.1);
    }
    if let Some(c) = escaped(text) {
        return (Some(c).filter(|c| !is_invisible(*c)), ESCAPE_BYTES);
    }
    let Some(c) = text.chars().next() else { return (None, 0) };
    let sign = (!is_invisible(c)).then(|| of_other_form(c).unwrap_or(c));
    (sign, c.len_utf8())
}

/// The sign that HTML names behind `&`, and the bytes of its name.
fn reference(name: &str) -> Option<(char, usize)> {
    let end = name.bytes().take(REFERENCE_BYTES).position(|byte| byte == b';')?;
    let code = match name[..end].strip_prefix('#') {
        Some(hex) if hex.starts_with(['x', 'X']) => u32::from_str_radix(&hex[1..], 16).ok()?,
        Some(number) => number.parse().ok()?,
        None => {
            let named = NAMED_SIGNS.iter().find(|(known, _)| *known == &name[..end]);
            named.map(|(_, sign)| u32::from(*sign))?
        }
    };
    let sign = char::from_u32(code).filter(|c| !c.is_control())?;
    Some((sign, end + 1))
}

/// Bytes of a sign as JSON escapes it.
const ESCAPE_BYTES: usize = 6;

/// The sign that a text of JSON writes as `\u00a0`.
fn escaped(text: &str) -> Option<char> {
    let hex = text.strip_prefix("\\u")?.get(..ESCAPE_BYTES - 2)?;
    let is_hex = hex.bytes().all(|byte| byte.is_ascii_hexdigit());
    let code = u32::from_str_radix(hex, 16).ok().filter(|_| is_hex)?;
    char::from_u32(code).filter(|c| !c.is_control())
}

/// The words in at most `bytes` bytes before a place on the same line, in lower case and without the signs
/// around them.
fn words_before(text: &str, at: usize, bytes: usize) -> Vec<String> {
    let floor = prefix(text, at.saturating_sub(bytes)).len();
    let line = text[floor..at].rfind('\n').map_or(floor, |end| floor + end + 1);
    text[line..at]
        .split(|c: char| c.is_whitespace() || is_space(c))
        .map(|word| {
            word.trim_matches(|c: char| !c.is_alphanumeric() && c != '.' && c != '-').to_lowercase()
        })
        .filter(|word| !word.is_empty())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Redaction = Redaction { emails: true, phones: true, keys: true, accounts: true };

    fn cleaned(text: &str) -> String {
        ALL.apply(text).0.into_owned()
    }

    #[test]
    fn addresses_numbers_and_keys_are_replaced() {
        for (text, expected) in [
            ("Write to ana.lopez+x@correo.example.org.", "Write to [email]."),
            ("<bob@x.io>,\"eve@y.co.uk\"", "<[email]>,\"[email]\""),
            ("Llámame al +34 600 123 456 o al (01) 555-1234-99", "Llámame al [phone] o al [phone]"),
            ("tel. 600123456", "tel. [phone]"),
            ("key sk-abcdef0123456789abcdef now", "key [key] now"),
            ("password: hunter2, ok", "password: [key], ok"),
            ("{\"api_key\": \"abc\"}", "{\"api_key\": \"[key]\"}"),
            ("Authorization: Bearer abc.def-1", "Authorization: Bearer [key]"),
            ("AKIAIOSFODNN7EXAMPLE.", "[key]."),
            (
                "a\n-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----\nb",
                "a\n[key]\nb",
            ),
            ("DB_PASSWORD=x9", "DB_PASSWORD=[key]"),
        ] {
            assert_eq!(cleaned(text), expected, "{text}");
        }
    }

    #[test]
    fn dates_versions_and_ordinary_words_stay() {
        for text in [
            "On 2026-02-11 at 10:30 we pay 1,250.00 EUR for 12 seats.",
            "From 2026/02/11 to 2026/03/12.",
            "Server 192.168.100.200, version 1.2.3.",
            "a @ b, @ana, me@localhost, x@1.2",
            "The token ring was sold. Its password policy changed.",
            "sk-learn is a library; eyJ is not a key.",
            "https://example.org/a/b?c=d",
            "áé ñ — “quoted” 日本語 🙂",
            "",
        ] {
            assert_eq!(cleaned(text), text);
        }
    }

    #[test]
    fn only_the_chosen_kinds_are_replaced_and_counted() {
        let text = "a@b.org +34 600 123 456 a@b.org";
        let emails = Redaction { emails: true, ..Redaction::default() };
        assert_eq!(emails.apply(text), ("[email] +34 600 123 456 [email]".into(), 2));
        assert_eq!(Redaction::default().apply(text), (text.into(), 0));
        assert_eq!(Redaction::of(&["emails".into()]), Some(emails));
        assert_eq!(Redaction::of(&["mails".into()]), None);
    }

    #[test]
    fn no_text_makes_redaction_fail() {
        let pieces =
            ["@", "é", "+", "(", "5", "sk-", "-----BEGIN ", "password:", "\"", "日", " ", "=", "."];
        let mut state = 7_u64;
        for _ in 0..3_000 {
            let mut text = String::new();
            for _ in 0..(state >> 60) + 3 {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                text.push_str(pieces[(state >> 33) as usize % pieces.len()]);
            }
            drop(cleaned(&text));
        }
    }
}
