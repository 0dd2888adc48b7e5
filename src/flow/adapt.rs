//! Rewrites templates where the engine's language is smaller than Jinja2's: `%` on strings, and lists
//! and dicts that change in place.
//!
//! Contract: only the text inside `{{ }}` and `{% %}` changes, and every line keeps its number. `a % b`
//! becomes a call of [`PERCENT`]; on numbers that gives the same result as the engine's operator. In a
//! template that calls one of [`CHANGES`], `[…]` and `{…}` become values that can change in place.
//! Inputs of the template never change, because other nodes read them too. A malformed tag is left
//! unchanged: the engine refuses it.
//!
//! See docs/adr/0073-adapting-templates.md.

use std::sync::Arc;

use minijinja::value::{Enumerator, Object, ObjectRepr, Tuple, Value as Jinja, ValueKind};
use minijinja::{Environment, Error, ErrorKind, State};
use parking_lot::Mutex;

use super::pyvalue;
use super::roles::{self, TemplatePart};

const PERCENT: &str = "__percent";
const LIST: &str = "__list";
const DICT: &str = "__dict";
/// Methods that change their object in place.
const CHANGES: [&str; 10] = [
    ".append(",
    ".extend(",
    ".insert(",
    ".pop(",
    ".remove(",
    ".clear(",
    ".reverse(",
    ".update(",
    ".setdefault(",
    ".popitem(",
];
/// Most values that are searched to keep a list or dict from being put into itself.
const NESTED_MAX: usize = 100_000;

pub(super) fn add_to(environment: &mut Environment<'_>) {
    environment.add_function(PERCENT, percent);
    environment.add_function(LIST, |items: Vec<Jinja>| Jinja::from_object(List(Mutex::new(items))));
    environment.add_function(DICT, |items: Jinja| -> Result<Jinja, Error> {
        Ok(Jinja::from_object(Dict(Mutex::new(pairs(&items)?))))
    });
}

/// The template in the language of the engine.
pub(super) fn adapt(template: &str) -> String {
    let changes = CHANGES.iter().any(|method| template.contains(method));
    let mut out = String::with_capacity(template.len() + 64);
    for piece in roles::pieces(template) {
        match piece {
            TemplatePart::Text(text) => out.push_str(text),
            TemplatePart::Print(tag) => adapt_tag(&mut out, tag, changes),
            TemplatePart::Other(tag) if tag.starts_with("{#") => out.push_str(tag),
            TemplatePart::Other(tag) => adapt_tag(&mut out, tag, changes),
        }
    }
    out
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A name, or a word of the language.
    Name,
    /// A string or a number.
    Literal,
    Open,
    Close,
    Sign,
}

#[derive(Debug, Clone, Copy)]
struct Token<'a> {
    kind: Kind,
    text: &'a str,
    start: usize,
    /// For a bracket, the index of the token that closes or opens it.
    partner: usize,
}

/// One insertion: the place, the order among insertions at the same place, and the text.
type Edits = Vec<(usize, u8, &'static str)>;

fn adapt_tag(out: &mut String, tag: &str, changes: bool) {
    let is_trim = |at: usize| matches!(tag.as_bytes().get(at), Some(b'-' | b'+'));
    let body_start = if is_trim(2) { 3 } else { 2 };
    let body_end = tag.len().saturating_sub(2);
    let body_end = if is_trim(body_end.saturating_sub(1)) { body_end - 1 } else { body_end };
    let tokens = tag.get(body_start..body_end).and_then(tokens);
    let Some(tokens) = tokens.filter(|_| tag.ends_with(['}'])) else {
        out.push_str(tag);
        return;
    };
    let is_block = tag.starts_with("{%");
    let mut edits = Edits::new();
    for (at, token) in tokens.iter().enumerate() {
        if token.text == "%" && at > 0 && at + 1 < tokens.len() {
            let (first, last) = (left(&tokens, at, is_block), right(&tokens, at));
            if first < at && last > at {
                edits.push((tokens[first].start, 1, "__percent("));
                edits.push((token.start, 3, "%"));
                edits.push((tokens[last].start + tokens[last].text.len(), 0, ")"));
            }
        }
        let literal = changes && token.kind == Kind::Open && token.text != "(";
        if literal && !is_operand(&tokens[..at], is_block) {
            let call = if token.text == "[" { "__list(" } else { "__dict(" };
            edits.push((token.start, 2, call));
            edits.push((tokens[token.partner].start + 1, 0, ")"));
        }
    }
    edits.sort();
    let body = &tag[body_start..body_end];
    let mut from = 0;
    out.push_str(&tag[..body_start]);
    for (at, _, what) in edits {
        out.push_str(&body[from..at]);
        from = at;
        if what == "%" {
            out.push(',');
            from += 1;
        } else {
            out.push_str(what);
        }
    }
    out.push_str(&body[from..]);
    out.push_str(&tag[body_end..]);
}

/// The tokens of a tag; `None` where its brackets do not match.
fn tokens(body: &str) -> Option<Vec<Token<'_>>> {
    let bytes = body.as_bytes();
    let mut tokens: Vec<Token<'_>> = Vec::new();
    let mut open = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let rest = &body[at..];
        let first = rest.chars().next()?;
        let word = |c: char| c.is_alphanumeric() || c == '_';
        let (kind, length) = match first {
            c if c.is_whitespace() => {
                at += c.len_utf8();
                continue;
            }
            '"' | '\'' => (Kind::Literal, string_end(rest, first)?),
            c if c.is_ascii_digit() => {
                let end = rest.find(|c: char| !word(c) && c != '.').unwrap_or(rest.len());
                (Kind::Literal, end)
            }
            c if word(c) => (Kind::Name, rest.find(|c: char| !word(c)).unwrap_or(rest.len())),
            '(' | '[' | '{' => (Kind::Open, 1),
            ')' | ']' | '}' => (Kind::Close, 1),
            c => {
                let two = ["**", "//", "==", "!=", "<=", ">="];
                let is_two = two.iter().any(|sign| rest.starts_with(sign));
                (Kind::Sign, if is_two { 2 } else { c.len_utf8() })
            }
        };
        let mut token = Token { kind, text: &rest[..length], start: at, partner: 0 };
        match kind {
            Kind::Open => open.push(tokens.len()),
            Kind::Close => {
                let partner = open.pop()?;
                token.partner = partner;
                let place = tokens.len();
                tokens[partner].partner = place;
            }
            _ => {}
        }
        tokens.push(token);
        at += length;
    }
    open.is_empty().then_some(tokens)
}

/// One past the end of the string that `text` begins with.
fn string_end(text: &str, quote: char) -> Option<usize> {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == quote => return Some(at + 1),
            _ => {}
        }
    }
    None
}

/// Whether a value ends with the last of these tokens, so that a bracket after it is part of it.
fn is_operand(before: &[Token<'_>], is_block: bool) -> bool {
    match before.last() {
        None => false,
        Some(token) => match token.kind {
            Kind::Literal | Kind::Close => true,
            Kind::Name => !is_word(before, before.len() - 1, is_block),
            Kind::Open | Kind::Sign => false,
        },
    }
}

/// Whether the token is a word of the language and not a name.
fn is_word(tokens: &[Token<'_>], at: usize, is_block: bool) -> bool {
    let member = at > 0 && matches!(tokens[at - 1].text, "." | "|");
    let word = ["and", "or", "not", "in", "is", "if", "else", "elif", "for", "set"]
        .contains(&tokens[at].text);
    tokens[at].kind == Kind::Name && !member && (word || (is_block && at == 0))
}

/// Whether an expression of products ends before or after this token.
fn bounds(tokens: &[Token<'_>], at: usize, is_block: bool) -> bool {
    let token = &tokens[at];
    match token.kind {
        Kind::Sign => match token.text {
            "+" | "-" => is_operand(&tokens[..at], is_block),
            sign => ["~", "==", "!=", "<", ">", "<=", ">=", "=", ",", ":"].contains(&sign),
        },
        Kind::Name if token.text == "is" => false,
        Kind::Name => is_word(tokens, at, is_block) && !follows_is(tokens, at),
        _ => false,
    }
}

fn follows_is(tokens: &[Token<'_>], at: usize) -> bool {
    tokens[at].text == "not" && at > 0 && tokens[at - 1].text == "is"
}

/// The first token of the left operand of the operator at `at`.
fn left(tokens: &[Token<'_>], at: usize, is_block: bool) -> usize {
    let mut first = at;
    while first > 0 {
        let before = first - 1;
        match tokens[before].kind {
            Kind::Close => first = tokens[before].partner,
            Kind::Open => break,
            _ if bounds(tokens, before, is_block) => break,
            _ => first = before,
        }
    }
    first
}

/// The last token of the right operand of the operator at `at`, which is one factor.
fn right(tokens: &[Token<'_>], at: usize) -> usize {
    let mut last = at;
    let mut next = at + 1;
    while next < tokens.len() {
        let token = &tokens[next];
        let factor_ends = ["*", "/", "//", "%"].contains(&token.text) && token.kind == Kind::Sign;
        match token.kind {
            Kind::Open => last = token.partner,
            Kind::Close => break,
            _ if factor_ends || bounds(tokens, next, false) => break,
            _ => last = next,
        }
        next = last + 1;
    }
    last
}

/// `left % right`: text with its values, or the rest of a division.
fn percent(state: &mut State<'_, '_>, left: &Jinja, right: &Jinja) -> Result<Jinja, Error> {
    let wrong = |what: String| Error::new(ErrorKind::InvalidOperation, what);
    if left.as_str().is_some() {
        let mut given = vec![left.clone()];
        match right.downcast_object_ref::<Tuple>() {
            Some(_) => given.extend(right.try_iter()?),
            None => given.push(right.clone()),
        }
        let wanted = with_reprs(&mut given);
        let is_container = matches!(right.kind(), ValueKind::Map | ValueKind::Seq);
        let is_tuple = right.downcast_object_ref::<Tuple>().is_some();
        if given.len() > wanted + 1 && (is_tuple || !is_container) {
            return Err(wrong("the format has no place for all of its values".to_owned()));
        }
        return state.apply_filter("format", &given);
    }
    let whole = |value: &Jinja| match value.kind() {
        ValueKind::Bool => Some(i128::from(value.is_true())),
        ValueKind::Number if value.is_integer() => i128::try_from(value.clone()).ok(),
        _ => None,
    };
    let number = |value: &Jinja| match whole(value) {
        #[allow(clippy::cast_precision_loss, reason = "as Python does")]
        Some(whole) => Some(whole as f64),
        None if value.kind() == ValueKind::Number => f64::try_from(value.clone()).ok(),
        None => None,
    };
    match (whole(left), whole(right), number(left), number(right)) {
        (_, _, Some(_), Some(0.0)) => Err(wrong("division by zero".to_owned())),
        (Some(a), Some(b), ..) => {
            let rest = a.checked_rem(b).unwrap_or(0);
            Ok(Jinja::from(if rest != 0 && (rest < 0) != (b < 0) { rest + b } else { rest }))
        }
        (_, _, Some(a), Some(b)) => {
            let rest = a % b;
            Ok(Jinja::from(if rest != 0.0 && (rest < 0.0) != (b < 0.0) { rest + b } else { rest }))
        }
        _ => {
            let (a, b) = (left.kind(), right.kind());
            Err(wrong(format!("% is not defined for values of type {a} and {b}")))
        }
    }
}

/// Replaces `%r`, which the engine lacks, by `%s` of Python's representation. `given` is the format
/// and then its values. Returns how many values the format has places for.
fn with_reprs(given: &mut [Jinja]) -> usize {
    let Some((format, values)) = given.split_first_mut() else { return 0 };
    let mut text = format.as_str().unwrap_or_default().to_owned().into_bytes();
    let (mut at, mut next, mut found) = (0, 0, false);
    while let Some(sign) = memchr::memchr(b'%', &text[at..]) {
        at += sign + 1;
        let flags = |byte: &&u8| b"#0- +*.123456789".contains(byte);
        let length = text[at..].iter().take_while(flags).count();
        next += text[at..at + length].iter().filter(|byte| **byte == b'*').count();
        at += length;
        match text.get(at) {
            Some(b'%') => {}
            Some(b'r') => {
                if let Some(value) = values.get_mut(next) {
                    let plain = serde_json::to_value(&*value).unwrap_or_default();
                    *value = Jinja::from(pyvalue::repr(&plain));
                }
                (text[at], found, next) = (b's', true, next + 1);
            }
            _ => next += 1,
        }
        at = (at + 1).min(text.len());
    }
    if found {
        *format = Jinja::from(String::from_utf8_lossy(&text).into_owned());
    }
    next
}

/// A list that can be changed.
#[derive(Debug)]
struct List(Mutex<Vec<Jinja>>);

/// A dict that can be changed; it keeps the order in which keys were added.
#[derive(Debug)]
struct Dict(Mutex<Vec<(Jinja, Jinja)>>);

fn pairs(value: &Jinja) -> Result<Vec<(Jinja, Jinja)>, Error> {
    if value.kind() != ValueKind::Map {
        return Err(Error::new(ErrorKind::InvalidOperation, "it is not a dict"));
    }
    value.try_iter()?.map(|key| Ok((key.clone(), value.get_item(&key)?))).collect()
}

/// Refuses to put a value into a list or dict that the value holds: printing it would never end.
fn check(value: &Jinja, is_target: &dyn Fn(&Jinja) -> bool) -> Result<(), Error> {
    let mut left = vec![value.clone()];
    let mut seen = 0;
    while let Some(value) = left.pop() {
        seen += 1;
        if seen > NESTED_MAX || is_target(&value) {
            let what = "a list or dict cannot be put into itself, and one with too many values cannot be put into another";
            return Err(Error::new(ErrorKind::InvalidOperation, what));
        }
        match value.kind() {
            ValueKind::Map => left.extend(pairs(&value)?.into_iter().map(|(_, member)| member)),
            ValueKind::Seq => left.extend(value.try_iter()?),
            _ => {}
        }
    }
    Ok(())
}

fn nothing() -> Jinja {
    Jinja::from(())
}

/// A place in a list the way Python counts, from either end.
fn place(value: &Jinja, length: usize) -> Result<i64, Error> {
    let at = i64::try_from(value.clone())?;
    let length = i64::try_from(length).unwrap_or(i64::MAX);
    Ok(if at < 0 { at.saturating_add(length) } else { at })
}

/// Whether a value is this very object.
fn is_same<T: Object + 'static>(object: &Arc<T>, value: &Jinja) -> bool {
    value.downcast_object::<T>().is_some_and(|other| Arc::ptr_eq(&other, object))
}

impl Object for List {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Seq
    }

    fn get_value(self: &Arc<Self>, key: &Jinja) -> Option<Jinja> {
        self.0.lock().get(key.as_usize()?).cloned()
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Seq(self.0.lock().len())
    }

    fn call_method(
        self: &Arc<Self>,
        _: &mut State<'_, '_>,
        method: &str,
        args: &[Jinja],
    ) -> Result<Jinja, Error> {
        let own = |other: &Jinja| is_same(self, other);
        let missing = || Error::new(ErrorKind::InvalidOperation, "it is not in the list");
        match (method, args) {
            ("append", [item]) => {
                check(item, &own)?;
                self.0.lock().push(item.clone());
            }
            ("extend", [items]) => {
                let items: Vec<Jinja> = items.try_iter()?.collect();
                items.iter().try_for_each(|item| check(item, &own))?;
                self.0.lock().extend(items);
            }
            ("insert", [at, item]) => {
                check(item, &own)?;
                let mut list = self.0.lock();
                let at = place(at, list.len())?.max(0);
                let at = usize::try_from(at).unwrap_or(usize::MAX).min(list.len());
                list.insert(at, item.clone());
            }
            ("pop", [] | [_]) => {
                let mut list = self.0.lock();
                let last = Jinja::from(-1);
                let at = place(args.first().unwrap_or(&last), list.len())?;
                let at = usize::try_from(at).ok().filter(|at| *at < list.len());
                return Ok(list.remove(at.ok_or_else(missing)?));
            }
            ("remove", [item]) => {
                let mut list = self.0.lock();
                let at = list.iter().position(|other| other == item).ok_or_else(missing)?;
                list.remove(at);
            }
            ("clear", []) => self.0.lock().clear(),
            ("reverse", []) => self.0.lock().reverse(),
            ("copy", []) => {
                return Ok(Jinja::from_object(List(Mutex::new(self.0.lock().clone()))));
            }
            _ => return Err(Error::from(ErrorKind::UnknownMethod)),
        }
        Ok(nothing())
    }
}

impl Object for Dict {
    fn get_value(self: &Arc<Self>, key: &Jinja) -> Option<Jinja> {
        let members = self.0.lock();
        members.iter().find(|(name, _)| name == key).map(|(_, value)| value.clone())
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Values(self.0.lock().iter().map(|(key, _)| key.clone()).collect())
    }

    fn call_method(
        self: &Arc<Self>,
        _: &mut State<'_, '_>,
        method: &str,
        args: &[Jinja],
    ) -> Result<Jinja, Error> {
        let own = |other: &Jinja| is_same(self, other);
        let missing = || Error::new(ErrorKind::InvalidOperation, "it is not in the dict");
        let put = |key: &Jinja, value: &Jinja| {
            let mut members = self.0.lock();
            match members.iter_mut().find(|(name, _)| name == key) {
                Some(member) => member.1 = value.clone(),
                None => members.push((key.clone(), value.clone())),
            }
        };
        match (method, args) {
            // Named arguments come as a dict of their own.
            ("update", [others]) => {
                let others = pairs(others)?;
                others.iter().try_for_each(|(_, value)| check(value, &own))?;
                others.iter().for_each(|(key, value)| put(key, value));
            }
            ("setdefault", [key] | [key, _]) => {
                if let Some(value) = self.get_value(key) {
                    return Ok(value);
                }
                let value = args.get(1).cloned().unwrap_or_else(nothing);
                check(&value, &own)?;
                put(key, &value);
                return Ok(value);
            }
            ("pop", [key] | [key, _]) => {
                let mut members = self.0.lock();
                let at = members.iter().position(|(name, _)| name == key);
                return match (at, args.get(1)) {
                    (Some(at), _) => Ok(members.remove(at).1),
                    (None, Some(other)) => Ok(other.clone()),
                    (None, None) => Err(missing()),
                };
            }
            ("popitem", []) => {
                let (key, value) = self.0.lock().pop().ok_or_else(missing)?;
                return Ok(Jinja::from(Tuple::from([key, value])));
            }
            ("clear", []) => self.0.lock().clear(),
            ("copy", []) => {
                return Ok(Jinja::from_object(Dict(Mutex::new(self.0.lock().clone()))));
            }
            _ => return Err(Error::from(ErrorKind::UnknownMethod)),
        }
        Ok(nothing())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_operands_of_a_percent_sign_are_found() {
        for (template, expected) in [
            ("{{ a % b }}", "{{ __percent(a , b) }}"),
            ("{{- a%b%c -}}", "{{- __percent(__percent(a,b),c) -}}"),
            ("{{ 1 + a * b % -c * 2 ~ d }}", "{{ 1 + __percent(a * b , -c) * 2 ~ d }}"),
            (
                "{% if not x.y(1)[0] % 2 == 0 and z -%}",
                "{% if not __percent(x.y(1)[0] , 2) == 0 and z -%}",
            ),
            (
                "{{ f('%s' % (a, b), k='%d' % n|int) }}",
                "{{ f(__percent('%s' , (a, b)), k=__percent('%d' , n|int)) }}",
            ),
            ("{{ -a ** 2 % b is odd }}", "{{ __percent(-a ** 2 , b is odd) }}"),
            (
                "{% set x = '%s' % y if z else '%}' %}",
                "{% set x = __percent('%s' , y) if z else '%}' %}",
            ),
            (
                "100 % {# a % b #}{% raw %}{{ a % b }}{% endraw %}",
                "100 % {# a % b #}{% raw %}{{ a % b }}{% endraw %}",
            ),
            ("{{ a %\n b }}", "{{ __percent(a ,\n b) }}"),
            ("{{ ) % ( }}{{ a %", "{{ ) % ( }}{{ a %"),
        ] {
            assert_eq!(adapt(template), expected);
        }
    }

    #[test]
    fn a_template_changes_its_own_lists_and_not_its_inputs() {
        let change = "{% set _ = l.append(1) %}";
        for (template, expected) in [
            ("{% set l = [] %}", "{% set l = __list([]) %}"),
            ("{% for x in [[1], y[0]] %}", "{% for x in __list([__list([1]), y[0]]) %}"),
            (
                "{{ {'a': {}} }}{{ f({})['x'] }}",
                "{{ __dict({'a': __dict({})}) }}{{ f(__dict({}))['x'] }}",
            ),
            ("{{ [1] % [2] }}", "{{ __percent(__list([1]) , __list([2])) }}"),
        ] {
            assert_eq!(adapt(template), template.replace("[1] % [2]", "__percent([1] , [2])"));
            assert_eq!(adapt(&format!("{template}{change}")), format!("{expected}{change}"));
        }
    }
}
