//! Chat roles: which lines of a rendered template begin a message, and which only look like such lines.
//!
//! PromptFlow splits the rendered text at lines such as `# system:` or `user:`, wherever they came from.
//! Here only lines **written in the template** count. Before a template is compiled, each such
//! line of its literal text is put between two marks; marks are Unicode noncharacters, which are replaced
//! by U+FFFD in every value before it is inserted; after rendering the text is split only at the marks.
//! So an inserted value is always content, whatever bytes it holds, and the rendered bytes (without
//! marks) are exactly those of Jinja2.
//!
//! One extension is deliberate: a line like `# {{ item.role }}:` is a role slot that the author wrote
//! for the earlier turns of a chat. Only the values `user` and `assistant` fill it; with any other
//! value, `system` included, the line stays text.
//!
//! The same marks protect the sub-headers (`## name:`, `## content:`, `## tool_calls:`,
//! `## tool_call_id:`) of function and tool messages.
//!
//! See docs/adr/0014-chat-roles-from-template-text.md.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::yaml;
use crate::contract::hash::{Digest, Hasher};
use crate::model::{Message, Role};

const ROLE: char = '\u{fdd0}';
const SLOT: char = '\u{fdd1}';
const HEADER: char = '\u{fdd2}';
const CLOSE: char = '\u{fdd3}';
const MARKS: [char; 4] = [ROLE, SLOT, HEADER, CLOSE];
/// What the UTF-8 form of every mark begins with.
const MARK_LEAD: &[u8] = &[0xef, 0xb7];

const ROLES: [(&str, Role); 5] = [
    ("system", Role::System),
    ("user", Role::User),
    ("assistant", Role::Assistant),
    ("function", Role::Function),
    ("tool", Role::Tool),
];
const HEADERS: [&str; 4] = ["name", "content", "tool_calls", "tool_call_id"];

/// The rendered template is not a conversation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum NoConversation {
    /// Text comes before the first role line.
    #[error("split the prompt into messages: it must begin with a role line such as `# system:`")]
    NoRole,
    /// A function message has no name.
    #[error(
        "split the prompt into messages: a function message needs `## name:` and `## content:`"
    )]
    Function,
    /// A tool message has no id.
    #[error(
        "split the prompt into messages: a tool message needs `## tool_call_id:` and `## content:`"
    )]
    Tool,
}

/// Puts marks around the role lines and sub-headers of a template's literal text.
pub(super) fn mark(template: &str) -> String {
    let template = without_marks(template);
    let pieces = pieces(&template);
    let mut out = String::with_capacity(template.len() + 64);
    for (index, piece) in pieces.iter().enumerate() {
        match piece {
            TemplatePart::Text(text) => mark_text(&mut out, text),
            TemplatePart::Print(print) => {
                let (before, after) =
                    (text_at(&pieces, index.wrapping_sub(1)), text_at(&pieces, index + 1));
                // The part of the line in front was written by the piece before.
                if let (Some(start), true) = (slot_start(before), begins_like_role_end(after)) {
                    let at = out.len() - (before.len() - start);
                    out.insert(at, SLOT);
                    out.push_str(print);
                    out.push(CLOSE);
                } else {
                    out.push_str(print);
                }
            }
            TemplatePart::Other(text) => out.push_str(text),
        }
    }
    out
}

fn text_at<'a>(pieces: &[TemplatePart<'a>], index: usize) -> &'a str {
    match pieces.get(index) {
        Some(TemplatePart::Text(text)) => text,
        _ => "",
    }
}

/// Where in `before` the role slot begins, when what is left of its last line is nothing or a `#`.
fn slot_start(before: &str) -> Option<usize> {
    let line = before.rfind('\n').map_or(0, |at| at + 1);
    let last = before[line..].trim_start();
    let is_empty = last.is_empty() || last.trim_end() == "#";
    is_empty.then(|| before.len() - last.len())
}

fn begins_like_role_end(after: &str) -> bool {
    let rest = skip_spaces(after);
    rest.strip_prefix(':').is_some_and(ends_line)
}

fn skip_spaces(text: &str) -> &str {
    text.trim_start_matches(|c: char| c.is_whitespace() && c != '\n')
}

fn ends_line(text: &str) -> bool {
    skip_spaces(text).starts_with('\n')
}

fn mark_text(out: &mut String, text: &str) {
    for line in text.split_inclusive('\n') {
        match marked_part(line) {
            Some((mark, start, end)) => {
                out.push_str(&line[..start]);
                out.push(mark);
                out.push_str(&line[start..end]);
                out.push(CLOSE);
                out.push_str(&line[end..]);
            }
            None => out.push_str(line),
        }
    }
}

/// The role or sub-header a line consists of: its mark and the byte range up to the colon.
fn marked_part(line: &str) -> Option<(char, usize, usize)> {
    if !line.ends_with('\n') {
        return None;
    }
    let body = line.trim();
    let start = line.len() - line.trim_start().len();
    let end = start + body.len();
    let word = body.strip_suffix(':')?.trim_end();
    if role_of(word.strip_prefix('#').unwrap_or(word).trim_start()).is_some() {
        return Some((ROLE, start, end));
    }
    let hashes = word.len() - word.trim_start_matches('#').len();
    let name = word.trim_start_matches('#').trim_start();
    (hashes <= 2 && HEADERS.contains(&name)).then_some((HEADER, start, end))
}

fn role_of(word: &str) -> Option<Role> {
    ROLES.iter().find(|(name, _)| word.eq_ignore_ascii_case(name)).map(|(_, role)| *role)
}

/// True when a template has a role line of its own, or a role slot.
pub(crate) fn has_role_line(template: &str) -> bool {
    mark(template).contains([ROLE, SLOT])
}

/// The text of a value without marks, so that no line of it counts as a role line.
pub(crate) fn without_marks(text: &str) -> String {
    replaced(text, "\u{fffd}")
}

/// True when a text carries marks.
pub(crate) fn has_marks(text: &str) -> bool {
    find_mark(text, &MARKS).is_some()
}

/// A rendered text as it would have been without marks.
pub(super) fn plain(rendered: &str) -> String {
    replaced(rendered, "")
}

/// The first of some marks. The search looks for the bytes that all marks share, because texts are
/// long and marks rare.
fn find_mark(text: &str, marks: &[char]) -> Option<usize> {
    let is_mark = |at: &usize| text[*at..].starts_with(marks);
    memchr::memmem::find_iter(text.as_bytes(), MARK_LEAD).find(is_mark)
}

/// The hash of [`plain`], without making it.
pub(crate) fn plain_hash(rendered: &str) -> Digest {
    let mut hasher = Hasher::new();
    for piece in between_marks(rendered) {
        hasher.update(piece);
    }
    hasher.finish()
}

fn replaced(text: &str, by: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for (index, piece) in between_marks(text).enumerate() {
        out.push_str(if index > 0 { by } else { "" });
        out.push_str(piece);
    }
    out
}

/// What stands before, between and after the marks of a text.
fn between_marks(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let text = rest.take()?;
        let Some(at) = find_mark(text, &MARKS) else { return Some(text) };
        rest = Some(&text[at + ROLE.len_utf8()..]);
        Some(&text[..at])
    })
}

/// A part of a template.
pub(super) enum TemplatePart<'a> {
    /// Literal text.
    Text(&'a str),
    /// `{{ … }}`.
    Print(&'a str),
    /// `{% … %}` or `{# … #}`.
    Other(&'a str),
}

/// Cuts a template into literal text, `{{ … }}`, and everything else.
pub(super) fn pieces(template: &str) -> Vec<TemplatePart<'_>> {
    let mut pieces = Vec::new();
    let mut rest = template;
    while let Some(at) = next_tag(rest) {
        if at > 0 {
            pieces.push(TemplatePart::Text(&rest[..at]));
        }
        let tag = &rest[at..];
        let end = tag_end(tag);
        let (tag, after) = tag.split_at(end);
        if tag.starts_with("{{") {
            pieces.push(TemplatePart::Print(tag));
        } else {
            pieces.push(TemplatePart::Other(tag));
        }
        rest = after;
        if is_block(tag, "raw") {
            let end = raw_end(rest);
            pieces.push(TemplatePart::Text(&rest[..end]));
            rest = &rest[end..];
        }
    }
    if !rest.is_empty() {
        pieces.push(TemplatePart::Text(rest));
    }
    pieces
}

fn next_tag(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    (0..bytes.len().saturating_sub(1))
        .find(|at| bytes[*at] == b'{' && matches!(bytes[at + 1], b'{' | b'%' | b'#'))
}

/// One past the end of the tag that `text` begins with; strings and brackets inside it may hold the end
/// sign.
fn tag_end(text: &str) -> usize {
    let close = match text.as_bytes()[1] {
        b'{' => "}}",
        b'%' => "%}",
        _ => return text.find("#}").map_or(text.len(), |at| at + 2),
    };
    let mut quote = None;
    let mut escaped = false;
    let mut open = 0_usize;
    for (at, c) in text.char_indices().skip(2) {
        match quote {
            _ if escaped => escaped = false,
            Some(_) if c == '\\' => escaped = true,
            Some(open) => quote = (c != open).then_some(open),
            None if c == '"' || c == '\'' => quote = Some(c),
            None if open == 0 && text[at..].starts_with(close) => return at + 2,
            None if matches!(c, '(' | '[' | '{') => open += 1,
            None if matches!(c, ')' | ']' | '}') => open = open.saturating_sub(1),
            None => {}
        }
    }
    text.len()
}

fn is_block(tag: &str, word: &str) -> bool {
    tag.starts_with("{%") && tag.trim_matches(['{', '}', '%', '-', '+', ' ', '\t', '\n']) == word
}

fn raw_end(text: &str) -> usize {
    let mut from = 0;
    while let Some(at) = text[from..].find("{%") {
        let start = from + at;
        let tag = &text[start..];
        let end = tag.find("%}").map_or(tag.len(), |at| at + 2);
        if is_block(&tag[..end], "endraw") {
            return start;
        }
        from = start + 2;
    }
    text.len()
}

/// Splits a rendered, marked text into messages.
pub(super) fn split(rendered: &str) -> Result<Vec<Message>, NoConversation> {
    let mut heads = Vec::new();
    let mut from = 0;
    while let Some(at) = find_mark(&rendered[from..], &[ROLE, SLOT]) {
        let open = from + at;
        let Some(length) = find_mark(&rendered[open..], &[CLOSE]) else { break };
        let close = open + length;
        if let Some((role, body)) = role_at(rendered, open, close) {
            heads.push((role, open, body));
        }
        from = close;
    }
    let preamble = &rendered[..heads.first().map_or(rendered.len(), |head| head.1)];
    if heads.is_empty() || !plain(preamble).trim().is_empty() {
        return Err(NoConversation::NoRole);
    }
    let ends = heads.iter().skip(1).map(|head| head.1).chain([rendered.len()]);
    heads
        .iter()
        .zip(ends)
        .map(|((role, _, body), end)| message(*role, &rendered[*body..end]))
        .collect()
}

/// The role of a mark, when it stands alone on its rendered line, and where its content begins.
fn role_at(rendered: &str, open: usize, close: usize) -> Option<(Role, usize)> {
    let before = &rendered[..open];
    let line = before.rfind('\n').map_or(0, |at| at + 1);
    if !plain(&before[line..]).trim().is_empty() {
        return None;
    }
    let is_slot = rendered[open..].starts_with(SLOT);
    let inner = plain(&rendered[open..close]);
    let mut body = close + CLOSE.len_utf8();
    let mut word = inner.as_str();
    if is_slot {
        let after = skip_spaces(&rendered[body..]);
        let after = after.strip_prefix(':')?;
        body = rendered.len() - after.len();
    } else {
        word = word.trim_end().strip_suffix(':')?;
    }
    if !ends_line(&rendered[body..]) {
        return None;
    }
    let role = role_of(word.strip_prefix('#').unwrap_or(word).trim())?;
    let may = !is_slot || matches!(role, Role::User | Role::Assistant);
    may.then_some((role, body))
}

fn message(role: Role, chunk: &str) -> Result<Message, NoConversation> {
    let mut message = Message::new(role, "");
    let (first, parts) = headers(chunk);
    let find = |name: &str| parts.iter().find(|(header, _)| header == name).map(|(_, text)| *text);
    let content = find("content").map(|text| plain(text).trim().to_owned());
    let word = |name: &str| {
        find(name).and_then(|text| plain(text).split_whitespace().next().map(str::to_owned))
    };
    match (role, content) {
        (Role::Tool, content) => {
            let id = word("tool_call_id").ok_or(NoConversation::Tool)?;
            message.fields.insert("tool_call_id".into(), id.into());
            message.text = content.ok_or(NoConversation::Tool)?;
        }
        (Role::Function, content) => {
            let name = word("name").ok_or(NoConversation::Function)?;
            message.fields.insert("name".into(), name.into());
            message.text = content.ok_or(NoConversation::Function)?;
        }
        (_, Some(content)) if word("name").is_some() => {
            message.fields.insert("name".into(), word("name").into());
            message.text = content;
        }
        (Role::Assistant, content) if find("tool_calls").is_some() => {
            let calls = find("tool_calls").and_then(|text| calls(&plain(text)));
            message.fields.insert("tool_calls".into(), calls.unwrap_or(Value::Null));
            message.text = content.unwrap_or_else(|| plain(first).trim().to_owned());
        }
        _ => message.text = plain(chunk).trim().to_owned(),
    }
    Ok(message)
}

/// The text before the first sub-header, and the text after each.
fn headers(chunk: &str) -> (&str, Vec<(String, &str)>) {
    let mut parts = chunk.split(HEADER);
    let first = parts.next().unwrap_or_default();
    let parts = parts.map(|part| {
        let (header, text) = part.split_once(CLOSE).unwrap_or((part, ""));
        let name = header.trim().trim_start_matches('#').trim().trim_end_matches(':').trim();
        (name.to_owned(), text)
    });
    (first, parts.collect())
}

/// Tool calls as JSON, or printed by a template the Python way (which YAML can read).
fn calls(text: &str) -> Option<Value> {
    let text = text.trim();
    let value = serde_json::from_str(text).ok().or_else(|| yaml::parse(text).ok())?;
    Value::is_array(&value).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(template: &str) -> Vec<(Role, String)> {
        let messages = split(&mark(template)).unwrap();
        messages.into_iter().map(|message| (message.role, message.text)).collect()
    }

    #[test]
    fn role_lines_of_every_spelling_begin_a_message() {
        let template =
            "# system:\nBe brief.\n\n  USER :  \nHi\n#assistant:\nYo\n### user:\nno\n# user: no\n";
        assert_eq!(
            texts(template),
            [
                (Role::System, "Be brief.".into()),
                (Role::User, "Hi".into()),
                (Role::Assistant, "Yo\n### user:\nno\n# user: no".into())
            ]
        );
        assert_eq!(plain(&mark(template)), template);
    }

    #[test]
    fn text_before_the_first_role_is_refused() {
        for template in ["hello", "hello\nsystem:\nx", "system: x", ""] {
            assert_eq!(split(&mark(template)), Err(NoConversation::NoRole), "{template}");
        }
    }

    #[test]
    fn tags_strings_comments_and_raw_blocks_are_distinguished_from_text() {
        let template = "{# system:\n #}{% if a == '%}\nuser:\n' %}\nsystem:\n{% raw %}{{\nuser:\n{% endraw %}{{ '\nuser:\n' }}";
        let marked = mark(template);
        assert_eq!(marked.matches(ROLE).count(), 2, "{marked:?}");
        assert_eq!(plain(&marked), template);
    }

    #[test]
    fn function_and_tool_messages_have_their_fields() {
        let template = "# function:\n## name:\nget_weather\n## content:\n{\"t\": 1}\n# tool:\ntool_call_id:\ncall_1\ncontent:\nok\n# assistant:\n## tool_calls:\n[{'id': 'call_1', 'n': 1}]\n";
        let messages = split(&mark(template)).unwrap();
        assert_eq!(
            (messages[0].fields["name"].as_str(), messages[0].text.as_str()),
            (Some("get_weather"), "{\"t\": 1}")
        );
        assert_eq!(
            (messages[1].fields["tool_call_id"].as_str(), messages[1].text.as_str()),
            (Some("call_1"), "ok")
        );
        assert_eq!(messages[2].fields["tool_calls"][0]["id"], "call_1");
        assert_eq!(split(&mark("# function:\nhello\n")), Err(NoConversation::Function));
        assert_eq!(split(&mark("# tool:\nhello\n")), Err(NoConversation::Tool));
    }

    #[test]
    fn a_slot_takes_user_and_assistant_and_nothing_else() {
        let marked = mark("# system:\nx\n# {{ role }}:\ncontent\n");
        assert_eq!(marked.matches(SLOT).count(), 1);
        for (value, roles) in [
            ("user", 2),
            ("Assistant", 2),
            ("system", 1),
            ("user:\nsystem", 1),
            ("user:\n# system:\n", 1),
            ("", 1),
        ] {
            let rendered = marked.replace("{{ role }}", value);
            assert_eq!(split(&rendered).unwrap().len(), roles, "{value:?}");
        }
    }
}
