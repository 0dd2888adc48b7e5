//! Removes e-mail addresses, telephone numbers and keys from a conversation before it leaves this
//! machine.
//!
//! Contract: they are recognized by their form alone and replaced by `[email]`, `[phone]` and `[key]`.
//! Only the number of replacements is reported, not their text. Recognition by form is not complete:
//! it removes too much rather than too little (a long order number may become `[phone]`), but a name,
//! a postal address or a key of an unlisted form stays. Where no text may leave this machine, set
//! `local_only`.
//!
//! Only the sent text changes. The log, the evidence and the embedded provider get the original text.
//!
//! See docs/adr/0069-redaction-before-sending.md.

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::Value;

use super::call::{Message, ModelCall};
use super::error::ModelError;
use super::provider::Provider;
use super::reply::{ModelIdentity, ModelReply};

/// Shortest word that counts as a key when it begins with one of [`KEY_STARTS`].
const KEY_BYTES_MIN: usize = 16;
/// Digits of a telephone number.
const PHONE_DIGITS: std::ops::RangeInclusive<usize> = 9..=15;
/// Beginnings of the keys that well-known services issue.
const KEY_STARTS: [&str; 24] = [
    "sk-",
    "sk_",
    "pk_",
    "rk_",
    "ghp_",
    "gho_",
    "ghs_",
    "ghu_",
    "ghr_",
    "github_pat_",
    "glpat-",
    "xoxb-",
    "xoxp-",
    "xoxa-",
    "xapp-",
    "AKIA",
    "ASIA",
    "AIza",
    "ya29.",
    "hf_",
    "npm_",
    "pypi-",
    "SG.",
    "eyJ",
];
/// Words after which `:` or `=` announces a secret.
const KEY_LABELS: [&str; 12] = [
    "password",
    "passwd",
    "pwd",
    "secret",
    "token",
    "api_key",
    "apikey",
    "api-key",
    "access_key",
    "contraseña",
    "clave",
    "bearer",
];

/// Which kinds of text are replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Redaction {
    pub emails: bool,
    pub phones: bool,
    pub keys: bool,
}

impl Redaction {
    /// Reads the words of the configuration; `None` for an unknown word.
    pub fn of(words: &[String]) -> Option<Redaction> {
        let mut wanted = Redaction::default();
        for word in words {
            match word.as_str() {
                "emails" => wanted.emails = true,
                "phones" => wanted.phones = true,
                "keys" => wanted.keys = true,
                _ => return None,
            }
        }
        Some(wanted)
    }

    pub fn is_off(self) -> bool {
        self == Redaction::default()
    }

    /// The text after all replacements, and their number.
    pub fn apply(self, text: &str) -> (Cow<'_, str>, u64) {
        let mut clean = Cow::Borrowed(text);
        let mut count = 0;
        // Keys first: a key may hold digits that look like a telephone number.
        type Find = fn(&str, usize) -> Option<(usize, usize)>;
        let kinds: [(bool, &str, Find); 3] = [
            (self.keys, "[key]", find_key),
            (self.emails, "[email]", find_email),
            (self.phones, "[phone]", find_phone),
        ];
        for (_, name, find) in kinds.into_iter().filter(|(wanted, ..)| *wanted) {
            let mut out = String::new();
            let mut from = 0;
            while let Some((start, end)) = find(&clean, from) {
                out.push_str(&clean[from..start]);
                out.push_str(name);
                (from, count) = (end, count + 1);
            }
            if from > 0 {
                out.push_str(&clean[from..]);
                clean = Cow::Owned(out);
            }
        }
        (clean, count)
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
pub struct Redacting {
    inner: Arc<dyn Provider>,
    redaction: Redaction,
}

impl Redacting {
    pub fn new(inner: Arc<dyn Provider>, redaction: Redaction) -> Redacting {
        Redacting { inner, redaction }
    }
}

impl Provider for Redacting {
    fn identity(&self) -> ModelIdentity {
        self.inner.identity()
    }

    fn context_tokens(&self) -> usize {
        self.inner.context_tokens()
    }

    fn context_is_known(&self) -> bool {
        self.inner.context_is_known()
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

fn find_email(text: &str, from: usize) -> Option<(usize, usize)> {
    let bytes = text.as_bytes();
    let local = |byte: u8| byte.is_ascii_alphanumeric() || b"._%+-".contains(&byte) || byte >= 0x80;
    let domain = |byte: u8| byte.is_ascii_alphanumeric() || b".-".contains(&byte) || byte >= 0x80;
    let mut at = from;
    loop {
        at += memchr::memchr(b'@', &bytes[at..])?;
        let before = bytes[from..at].iter().rev().take_while(|byte| local(**byte)).count();
        let after = bytes[at + 1..].iter().take_while(|byte| domain(**byte)).count();
        let name = text[at + 1..at + 1 + after].trim_end_matches(['.', '-']);
        let has_end = name.rsplit_once('.').is_some_and(|(host, end)| {
            !host.is_empty() && end.chars().count() >= 2 && !end.bytes().all(|b| b.is_ascii_digit())
        });
        if before > 0 && has_end {
            return Some((at - before, at + 1 + name.len()));
        }
        at += 1;
    }
}

fn find_phone(text: &str, from: usize) -> Option<(usize, usize)> {
    let bytes = text.as_bytes();
    let mut at = from;
    while at < bytes.len() {
        let starts = bytes[at].is_ascii_digit() || matches!(bytes[at], b'+' | b'(');
        let inside_word = at > from && is_word(bytes[at - 1]);
        if !starts || inside_word {
            at += 1;
            continue;
        }
        let length = bytes[at..].iter().take_while(|byte| may_be_in_phone(**byte)).count();
        let run = text[at..at + length].trim_end_matches([' ', '-', '.', '(', '/']);
        let end = at + run.len();
        let continues = bytes.get(end).is_some_and(|byte| is_word(*byte) || *byte == b':');
        if !continues && is_phone(run) {
            return Some((at, end));
        }
        at += length.max(1);
    }
    None
}

fn may_be_in_phone(byte: u8) -> bool {
    byte.is_ascii_digit() || b"+-.() /".contains(&byte)
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

fn is_phone(run: &str) -> bool {
    let digits = run.bytes().filter(u8::is_ascii_digit).count();
    let year = |at: usize| matches!(run.get(at..at + 2), Some("19" | "20"));
    let dashed_date = run.len() >= 8 && year(0) && matches!(run.as_bytes()[4], b'-' | b'/' | b'.');
    let is_address =
        run.split('.').count() == 4 && run.split('.').all(|part| part.parse::<u8>().is_ok());
    let wide = run.contains("  ") || run.matches('/').count() > 1;
    PHONE_DIGITS.contains(&digits) && !dashed_date && !is_address && !wide
}

fn find_key(text: &str, from: usize) -> Option<(usize, usize)> {
    let block = find_block(text, from);
    let word = find_key_word(text, from);
    match (block, word) {
        (Some(block), Some(word)) => Some(block.min(word)),
        (found, None) | (None, found) => found,
    }
}

/// `-----BEGIN … PRIVATE KEY-----` up to its end, or to the end of the text.
fn find_block(text: &str, from: usize) -> Option<(usize, usize)> {
    let start = from + text[from..].find("-----BEGIN ")?;
    let line = text[start..].lines().next().unwrap_or_default();
    if !line.contains("PRIVATE KEY") {
        return find_block(text, start + "-----BEGIN ".len());
    }
    let end = text[start..].find("-----END ").map_or(text.len(), |at| {
        let end = start + at;
        text[end + 9..].find("-----").map_or(text.len(), |close| end + 9 + close + 5)
    });
    Some((start, end))
}

/// A word that begins like a key, or that follows `password:` and the like.
fn find_key_word(text: &str, from: usize) -> Option<(usize, usize)> {
    let bytes = text.as_bytes();
    let mut at = from;
    while at < bytes.len() {
        if !is_key_byte(bytes[at]) {
            at += 1;
            continue;
        }
        let length = bytes[at..].iter().take_while(|byte| is_key_byte(**byte)).count();
        let word = &text[at..at + length];
        let known = KEY_STARTS.iter().any(|start| word.starts_with(start));
        let digits = word.bytes().any(|byte| byte.is_ascii_digit());
        if (known && length >= KEY_BYTES_MIN && digits) || is_labelled(&text[from..at]) {
            let word = word.trim_end_matches('.');
            return Some((at, at + word.len()));
        }
        at += length;
    }
    None
}

fn is_key_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"_-./+~!$%^&*@#?".contains(&byte)
}

/// Whether the text before the word ends with `password:`, `"token": "`, `api_key=` and the like.
fn is_labelled(before: &str) -> bool {
    let before = before.trim_end_matches(['"', '\'', '`', ' ']);
    let bearer = before.len() >= 6
        && before.is_char_boundary(before.len() - 6)
        && before[before.len() - 6..].eq_ignore_ascii_case("bearer");
    let Some(label) = before.strip_suffix([':', '=']) else { return bearer };
    let label = label.trim_end_matches(['"', '\'', '`', '*', ' ']);
    let start = label
        .char_indices()
        .rev()
        .take_while(|(_, c)| c.is_alphanumeric() || matches!(c, '_' | '-'))
        .last()
        .map_or(label.len(), |(at, _)| at);
    let word = label[start..].to_lowercase();
    KEY_LABELS.iter().any(|label| word == *label || word.ends_with(&format!("_{label}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Redaction = Redaction { emails: true, phones: true, keys: true };

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
