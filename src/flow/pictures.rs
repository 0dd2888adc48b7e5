//! Pictures: models get texts only, so a picture never goes out as if it were a text.
//!
//! Contract: a template that holds a picture, and an input of a prompt or of a question whose value is a picture,
//! are refused by name. Python nodes take pictures. A picture inside a longer text, such as a page of a
//! person, is left out of the question, and the outcome says how many were.

use std::ops::Range;

use memchr::memmem;
use serde_json::Value;

use crate::model::Message;

/// Why a picture is refused, and what to do.
pub(super) const REFUSED: &str = "pictures are not supported, models get texts only: give what the \
                                  picture shows as a text, in an input of type string";

/// What an address that carries a picture begins with.
const BEGINS: &str = "data:image/";
const CODED: &str = ";base64,";
/// Characters within which the head of such an address ends.
const HEAD_CHARS_MAX: usize = 256;
/// Shorter ones are examples of the notation and no pictures.
const CODE_BYTES_MIN: usize = 32;
/// A run of code of so many bytes is a part of a picture, where a text has pictures.
const PART_BYTES_MIN: usize = 256;
/// What stands where a picture stood.
const STAND_IN: &str = "picture left out";

fn is_code(c: char) -> bool {
    c.is_ascii_alphanumeric() || "+/=-_%".contains(c)
}

/// Where the first picture of a text stands.
fn find(text: &str) -> Option<Range<usize>> {
    memmem::find_iter(text.as_bytes(), BEGINS).find_map(|start| {
        let rest = &text[start..];
        let mut head = rest.char_indices().take(HEAD_CHARS_MAX);
        let (head, _) = head.find(|(_, c)| *c == ',' || c.is_whitespace())?;
        let code = rest[head..].strip_prefix(',').filter(|_| rest[..=head].ends_with(CODED))?;
        let length = code.find(|c: char| !is_code(c)).unwrap_or(code.len());
        (length >= CODE_BYTES_MIN).then(|| start..start + head + 1 + length)
    })
}

/// Whether a text holds a picture.
pub(super) fn is_in(text: &str) -> bool {
    find(text).is_some()
}

/// How pictures stand in a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pictures {
    Whole,
    /// The question shows a part of a text with pictures, which may begin or end inside one.
    Parts,
}

impl Pictures {
    /// Of the parts of some texts.
    pub(super) fn of_parts<'t>(mut texts: impl Iterator<Item = &'t str>) -> Pictures {
        if texts.any(is_in) { Pictures::Parts } else { Pictures::Whole }
    }

    /// Where the pictures of a text stand.
    fn find_all(self, text: &str) -> Vec<Range<usize>> {
        let (mut all, mut from) = (Vec::new(), 0);
        loop {
            let whole = find(&text[from..]).map(|found| from + found.start..from + found.end);
            let until = whole.as_ref().map_or(text.len(), |found| found.start);
            while let (Pictures::Parts, Some(part)) = (self, find_part(&text[from..until])) {
                all.push(from + part.start..from + part.end);
                from += part.end;
            }
            let Some(whole) = whole else { return all };
            from = whole.end;
            all.push(whole);
        }
    }
}

/// Where the first long run of code stands that has no beginning.
fn find_part(text: &str) -> Option<Range<usize>> {
    let mut start = 0;
    while start < text.len() {
        let length = text[start..].find(|c| !is_code(c)).unwrap_or(text.len() - start);
        if length >= PART_BYTES_MIN {
            return Some(start..start + length);
        }
        start += length;
        start += text[start..].chars().next().map_or(0, char::len_utf8);
    }
    None
}

/// Takes the pictures out of the messages of a question; gives their number.
pub(super) fn leave_out(messages: &mut [Message], pictures: Pictures) -> usize {
    messages.iter_mut().map(|message| leave_out_of(&mut message.text, pictures)).sum()
}

fn leave_out_of(text: &mut String, pictures: Pictures) -> usize {
    let found = pictures.find_all(text);
    if !found.is_empty() {
        let (mut kept, mut from) = (String::new(), 0);
        for picture in &found {
            kept.push_str(&text[from..picture.start]);
            kept.push_str(STAND_IN);
            from = picture.end;
        }
        kept.push_str(&text[from..]);
        *text = kept;
    }
    found.len()
}

/// The value of an input of type `image` in PromptFlow's form, an object with the kind of the picture as the only
/// name: as a text it is an address, the code of a picture, or the path of a file, as PromptFlow reads it.
pub(super) fn picture(value: Value) -> Option<Value> {
    let Value::String(text) = value else {
        return Some(value).filter(|value| value.is_object() && is_picture(value));
    };
    let coded = text.split_once(',').and_then(|(head, code)| {
        let kind = head.strip_prefix(BEGINS)?.strip_suffix(";base64")?;
        Some((kind.to_owned(), code))
    });
    let is_coded = |text: &str| {
        let code = text.trim_end_matches('=');
        text.len().is_multiple_of(4)
            && text.len() - code.len() <= 2
            && code.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/'))
    };
    let (kind, form, text) = match coded {
        Some((kind, code)) if is_coded(code) => (kind, "base64", code),
        _ if is_coded(&text) => ("*".to_owned(), "base64", text.as_str()),
        _ if text.contains("://") => ("*".to_owned(), "url", text.as_str()),
        _ => ("*".to_owned(), "path", text.as_str()),
    };
    let name = format!("{BEGINS}{kind};{form}");
    Some(Value::Object([(name, text.into())].into_iter().collect()))
}

/// Whether a value is a picture or a list with one: the address of a picture and nothing else, or
/// PromptFlow's object with its kind as the only name.
pub(super) fn is_picture(value: &Value) -> bool {
    match value {
        Value::String(text) => {
            let text = text.trim();
            text.starts_with(BEGINS) && find(text) == Some(0..text.len())
        }
        Value::Array(items) => items.iter().any(is_picture),
        Value::Object(members) => {
            let is_kind = |name: &String| {
                let kind = name.strip_prefix(BEGINS).and_then(|rest| rest.split_once(';'));
                kind.is_some_and(|(_, form)| matches!(form, "base64" | "url" | "path"))
            };
            let inside = |value: &Value| !value.is_string() && is_picture(value);
            members.keys().any(is_kind) || members.values().any(inside)
        }
        _ => false,
    }
}

/// The first Markdown image of a template, which other runtimes of prompty files send as a picture.
pub(super) fn image_mark(template: &str) -> Option<&str> {
    template.match_indices("![").find_map(|(start, _)| {
        let line = template[start..].lines().next()?;
        let target = line.find("](")?;
        let end = target + line[target..].find(')')?;
        Some(&line[..=end])
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Role;
    use serde_json::json;

    fn picture() -> String {
        format!("data:image/png;base64,{}", "iVBORw0K".repeat(8))
    }

    #[test]
    fn a_picture_inside_a_text_is_left_out_and_an_example_of_the_notation_stays() {
        let example = "write data:image/png;base64,AAAA or data:image/svg+xml,<svg/>";
        let text = format!("a ![b]({0}) c {0}\n{example}", picture());
        let mut messages = [Message::new(Role::User, text), Message::new(Role::User, example)];
        assert_eq!(leave_out(&mut messages, Pictures::Whole), 2);
        let left = format!("a ![b]({STAND_IN}) c {STAND_IN}\n{example}");
        assert_eq!((&*messages[0].text, &*messages[1].text), (&*left, example));
    }

    #[test]
    fn a_part_of_a_text_with_pictures_may_begin_inside_one() {
        let part = format!("{}) and then\n{}", "iVBORw0K".repeat(90), "GATTACA".repeat(9));
        for (pictures, text) in [(Pictures::Whole, None), (Pictures::Parts, Some(STAND_IN))] {
            let mut messages = [Message::new(Role::User, &*part)];
            leave_out(&mut messages, pictures);
            let begins = text.unwrap_or("iVBOR");
            assert!(messages[0].text.starts_with(begins), "{:?}", messages[0].text);
            assert!(messages[0].text.ends_with("GATTACA"));
        }
        let with = format!("a {}", picture());
        assert_eq!(Pictures::of_parts(["b", &*with].into_iter()), Pictures::Parts);
        assert_eq!(Pictures::of_parts(["b"].into_iter()), Pictures::Whole);
    }

    #[test]
    fn the_text_of_a_picture_is_an_address_its_code_or_a_path_as_promptflow_reads_it() {
        let read = |text: &str| super::picture(text.into()).unwrap();
        for (text, name, value) in [
            ("data:image/gif;base64,R0lG", "data:image/gif;base64", "R0lG"),
            ("R0lGODlhAQABAAAAACw=", "data:image/*;base64", "R0lGODlhAQABAAAAACw="),
            ("https://e.org/a.png", "data:image/*;url", "https://e.org/a.png"),
            ("plans/a.png", "data:image/*;path", "plans/a.png"),
        ] {
            assert_eq!(read(text), json!({ name: value }), "{text}");
        }
        let known = json!({"data:image/png;path": "a.png"});
        assert_eq!(super::picture(known.clone()), Some(known));
        assert_eq!(super::picture(json!({"a": 1})), None);
        assert_eq!(super::picture(json!(["data:image/gif;base64,R0lG"])), None);
    }

    #[test]
    fn values_that_are_pictures_are_known() {
        let in_list = json!(["what is this?", {"data:image/png;url": "https://e.org/x.png"}]);
        let deep = json!([{"inputs": {"question": in_list}}]);
        for value in [json!(picture()), json!([picture()]), in_list, deep] {
            assert!(is_picture(&value), "{value}");
        }
        let within = format!("see {}", picture());
        for value in [json!(within), json!({"thumbnail": picture()}), json!("data:image/png")] {
            assert!(!is_picture(&value), "{value}");
        }
    }
}
