//! Filters and methods of templates that Jinja2 has, and that the engine lacks or does differently.
//!
//! Contract: the output has the same bytes as Jinja2's. These fail with their name when a template uses
//! them: `wordwrap`, `xmlattr`, `random`, `pprint`, `attr`, `lipsum`, and changes in place of a value
//! that the template did not make itself (`adapt`).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use minijinja::value::{Kwargs, Object, ObjectRepr, Rest, Value as Jinja, ValueKind};
use minijinja::{Environment, Error, ErrorKind, State, UndefinedBehavior};
use serde_json::Value;

use super::pyvalue;

pub(super) fn add_to(environment: &mut Environment<'_>) {
    minijinja_contrib::add_to_environment(environment);
    environment.set_unknown_method_callback(method);
    for name in ["default", "d"] {
        environment.add_filter(name, default);
    }
    for name in ["length", "count"] {
        environment.add_filter(name, length);
    }
    for name in ["e", "escape", "forceescape"] {
        environment.add_filter(name, escape);
    }
    // The engine has other filters under these names.
    for name in ["attr", "pprint", "random"] {
        environment.remove_filter(name);
    }
    environment.add_function("cycler", Cycler::of);
    environment.add_filter("center", |text: String, width: Option<usize>| {
        centered(&text, width.unwrap_or(80))
    });
    environment.add_filter("tojson", tojson);
    environment.add_filter("wordcount", |text: String| text.split_whitespace().count());
    environment.add_filter("indent", indent);
    environment.add_filter("truncate", truncate);
    environment.add_filter("replace", replace);
    environment.add_filter("int", int);
    environment.add_filter("float", float);
    environment.add_filter("urlencode", urlencode);
}

/// `value|default(other, boolean)`: replaces an undefined value, and with `boolean` every false value.
fn default(value: &Jinja, args: Rest<Jinja>, named: Kwargs) -> Result<Jinja, Error> {
    let named_other: Option<Jinja> = named.get("default_value")?;
    let named_flag: Option<Jinja> = named.get("boolean")?;
    named.assert_all_used()?;
    let other = args.first().cloned().or(named_other).unwrap_or_else(|| Jinja::from(""));
    let boolean = args.get(1).cloned().or(named_flag).is_some_and(|flag| flag.is_true());
    if args.len() > 2 {
        return Err(Error::from(ErrorKind::TooManyArguments));
    }
    let missing = value.is_undefined() || (boolean && !value.is_true());
    Ok(if missing { other } else { value.clone() })
}

/// An undefined value has no members, although it prints as an empty text.
fn length(state: &State<'_, '_>, value: &Jinja) -> Result<usize, Error> {
    let lenient = state.undefined_behavior() == UndefinedBehavior::Lenient;
    match value.len() {
        Some(length) => Ok(length),
        None if value.is_undefined() && lenient => Ok(0),
        None => Err(Error::new(
            ErrorKind::InvalidOperation,
            format!("a value of type {} has no length", value.kind()),
        )),
    }
}

fn replace(text: &Jinja, from: String, to: String, count: Option<usize>) -> String {
    let text = text.to_string();
    match count {
        Some(count) => text.replacen(&from, &to, count),
        None => text.replace(&from, &to),
    }
}

fn as_json(value: &Jinja) -> Value {
    match value.is_undefined() {
        true => Value::Null,
        false => serde_json::to_value(value).unwrap_or_default(),
    }
}

fn from_json(value: &Value) -> Jinja {
    Jinja::from(minijinja::value::Serde(value))
}

/// `int(value)`, else `int(float(value))`, else the default.
fn int(
    value: &Jinja,
    default: Option<Jinja>,
    base: Option<u32>,
    named: Kwargs,
) -> Result<Jinja, Error> {
    let default = default.or(named.get("default")?).unwrap_or_else(|| Jinja::from(0));
    let base = base.or(named.get("base")?).unwrap_or(10);
    named.assert_all_used()?;
    if let (Some(text), true) = (value.as_str(), base != 10) {
        let text = text.trim().to_ascii_lowercase();
        let prefix = match base {
            16 => "0x",
            8 => "0o",
            2 => "0b",
            _ => "",
        };
        let digits = text.strip_prefix(prefix).unwrap_or(&text);
        let read = (2..=36).contains(&base).then(|| i64::from_str_radix(digits, base).ok());
        return Ok(read.flatten().map_or(default, Jinja::from));
    }
    let value = as_json(value);
    let whole = pyvalue::to_int(&value)
        .or_else(|| pyvalue::to_float(&value).and_then(|float| pyvalue::to_int(&float)));
    Ok(whole.map_or(default, |whole| from_json(&whole)))
}

/// `float(value)`, else the default.
fn float(value: &Jinja, default: Option<Jinja>, named: Kwargs) -> Result<Jinja, Error> {
    let default = default.or(named.get("default")?).unwrap_or_else(|| Jinja::from(0.0));
    named.assert_all_used()?;
    Ok(pyvalue::to_float(&as_json(value)).map_or(default, |float| from_json(&float)))
}

/// A text as part of an URL; the pairs of an object as a query.
fn urlencode(value: &Jinja) -> String {
    let quoted = |text: &str, kept: &[u8], space: &str| {
        let mut out = String::new();
        for byte in text.bytes() {
            match byte {
                b' ' => out.push_str(space),
                _ if byte.is_ascii_alphanumeric() || kept.contains(&byte) => {
                    out.push(char::from(byte));
                }
                _ => out.push_str(&format!("%{byte:02X}")),
            }
        }
        out
    };
    match as_json(value) {
        Value::Object(members) => {
            let pair = |text: &str| quoted(text, b"-_.~", "+");
            let pairs = members
                .iter()
                .map(|(key, value)| format!("{}={}", pair(key), pair(&pyvalue::to_str(value))));
            pairs.collect::<Vec<_>>().join("&")
        }
        value => quoted(&pyvalue::to_str(&value), b"-_.~/", "%20"),
    }
}

/// Widest text that padding makes.
const WIDTH_MAX: usize = 10_000;

fn padding(text: &str, width: usize, with: &str) -> String {
    with.repeat(width.min(WIDTH_MAX).saturating_sub(text.chars().count()))
}

/// Centres like Python: the extra space goes to the left where both numbers are odd.
fn centered(text: &str, width: usize) -> String {
    let spaces = padding(text, width, " ");
    let left = spaces.len() / 2 + (spaces.len() & width & 1);
    format!("{}{text}{}", &spaces[..left], &spaces[left..])
}

fn zero_filled(text: &str, width: usize) -> String {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let sign = &text[..text.len() - digits.len()];
    format!("{sign}{}{digits}", padding(text, width, "0"))
}

/// `cycler('odd', 'even')`: returns its values in rotation.
#[derive(Debug)]
struct Cycler {
    items: Vec<Jinja>,
    at: AtomicUsize,
}

impl Cycler {
    fn of(items: Rest<Jinja>) -> Result<Jinja, Error> {
        if items.is_empty() {
            return Err(Error::new(ErrorKind::InvalidOperation, "at least one value is needed"));
        }
        Ok(Jinja::from_object(Cycler { items: items.to_vec(), at: AtomicUsize::new(0) }))
    }

    fn current(&self) -> Jinja {
        self.items[self.at.load(Ordering::Relaxed)].clone()
    }
}

impl Object for Cycler {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn get_value(self: &Arc<Self>, key: &Jinja) -> Option<Jinja> {
        (key.as_str() == Some("current")).then(|| self.current())
    }

    fn call_method(
        self: &Arc<Self>,
        _: &mut State<'_, '_>,
        method: &str,
        args: &[Jinja],
    ) -> Result<Jinja, Error> {
        let current = self.current();
        match (method, args) {
            ("next", []) => {
                let next = (self.at.load(Ordering::Relaxed) + 1) % self.items.len();
                self.at.store(next, Ordering::Relaxed);
                Ok(current)
            }
            ("reset", []) => {
                self.at.store(0, Ordering::Relaxed);
                Ok(Jinja::from(()))
            }
            _ => Err(Error::from(ErrorKind::UnknownMethod)),
        }
    }
}

/// Splits from the end, at most so often; without a sign at runs of white space.
fn rsplit(text: &str, args: &[Jinja]) -> Result<Jinja, Error> {
    let most = match args.get(1) {
        Some(most) => usize::try_from(i64::try_from(most.clone())?).unwrap_or(usize::MAX),
        None => usize::MAX,
    };
    let sign = args.first().filter(|sign| !sign.is_none());
    let mut parts: Vec<&str> = match sign {
        Some(sign) => {
            let sign = sign.as_str().filter(|sign| !sign.is_empty());
            let no_sign = || Error::new(ErrorKind::InvalidOperation, "the separator is empty");
            text.rsplitn(most.saturating_add(1), sign.ok_or_else(no_sign)?).collect()
        }
        None => {
            let (mut parts, mut rest) = (Vec::new(), text.trim_end());
            while !rest.is_empty() {
                let cut = rest.char_indices().rfind(|(_, c)| c.is_whitespace());
                match cut.filter(|_| parts.len() < most) {
                    Some((at, c)) => {
                        parts.push(&rest[at + c.len_utf8()..]);
                        rest = rest[..at].trim_end();
                    }
                    None => {
                        parts.push(rest);
                        rest = "";
                    }
                }
            }
            parts
        }
    };
    parts.reverse();
    Ok(parts.into_iter().map(Jinja::from).collect())
}

/// Python's methods, a few more than the engine's companion knows.
fn method(
    state: &mut State<'_, '_>,
    value: &Jinja,
    name: &str,
    args: &[Jinja],
) -> Result<Jinja, Error> {
    let found = |place: Option<usize>| {
        let nowhere = || Error::new(ErrorKind::InvalidOperation, "it is not in there");
        place.map(Jinja::from).ok_or_else(nowhere)
    };
    match (value.as_str(), name, args) {
        (Some(text), "partition", [sign]) => {
            let sign = sign.as_str().unwrap_or_default();
            let parts = match text.split_once(sign).filter(|_| !sign.is_empty()) {
                Some((before, after)) => [before, sign, after],
                None => [text, "", ""],
            };
            Ok(Jinja::from(minijinja::value::Tuple::from(parts.map(Jinja::from))))
        }
        (Some(text), "rpartition", [sign]) => {
            let sign = sign.as_str().unwrap_or_default();
            let parts = match text.rsplit_once(sign).filter(|_| !sign.is_empty()) {
                Some((before, after)) => [before, sign, after],
                None => ["", "", text],
            };
            Ok(Jinja::from(minijinja::value::Tuple::from(parts.map(Jinja::from))))
        }
        (Some(text), "rsplit", [] | [_] | [_, _]) => rsplit(text, args),
        (Some(text), "removeprefix" | "removesuffix", [part]) => {
            let part = part.as_str().unwrap_or_default();
            let rest = match name {
                "removeprefix" => text.strip_prefix(part),
                _ => text.strip_suffix(part),
            };
            Ok(Jinja::from(rest.unwrap_or(text)))
        }
        (Some(text), "index" | "rindex" | "find" | "rfind", [part]) => {
            let part = part.as_str();
            let at = match name {
                "index" | "find" => part.and_then(|part| text.find(part)),
                _ => part.and_then(|part| text.rfind(part)),
            };
            let at = at.map(|at| text[..at].chars().count());
            match name {
                "find" | "rfind" => Ok(at.map_or(Jinja::from(-1), Jinja::from)),
                _ => found(at),
            }
        }
        (Some(text), "swapcase", []) => {
            let swapped = text.chars().flat_map(|c| match c.is_uppercase() {
                true => c.to_lowercase().collect::<Vec<_>>(),
                false => c.to_uppercase().collect(),
            });
            Ok(Jinja::from(swapped.collect::<String>()))
        }
        (Some(text), "zfill" | "ljust" | "rjust" | "center", [width]) => {
            let width = usize::try_from(width.clone()).unwrap_or(0);
            Ok(Jinja::from(match name {
                "ljust" => text.to_owned() + &padding(text, width, " "),
                "rjust" => padding(text, width, " ") + text,
                "center" => centered(text, width),
                _ => zero_filled(text, width),
            }))
        }
        (
            None,
            "append" | "extend" | "insert" | "remove" | "reverse" | "update" | "setdefault",
            _,
        ) if matches!(value.kind(), ValueKind::Seq | ValueKind::Map) => {
            let what = format!(
                "{name} changes a value that the template did not write as [] or {{}} itself; \
                 make a new one, such as a + [b]"
            );
            Err(Error::new(ErrorKind::InvalidOperation, what))
        }
        (None, "index", [wanted]) if value.kind() == ValueKind::Seq => {
            found(value.try_iter()?.position(|item| item == *wanted))
        }
        (None, "count", [wanted]) if value.kind() == ValueKind::Seq => {
            Ok(Jinja::from(value.try_iter()?.filter(|item| item == wanted).count()))
        }
        _ => minijinja_contrib::pycompat::unknown_method_callback(state, value, name, args),
    }
}

fn tojson(value: &Jinja, indent: Option<usize>, args: Kwargs) -> Result<Jinja, Error> {
    let indent = match indent {
        Some(indent) => Some(indent),
        None => args.get("indent")?,
    };
    args.assert_all_used()?;
    let value = serde_json::to_value(value).map_err(|error| {
        Error::new(ErrorKind::InvalidOperation, "cannot serialize to JSON").with_source(error)
    })?;
    Ok(Jinja::from(pyvalue::json_dumps(&value, indent)))
}

fn indent(
    text: String,
    width: Option<usize>,
    first: Option<bool>,
    blank: Option<bool>,
    args: Kwargs,
) -> Result<String, Error> {
    let width = width.or(args.get("width")?).unwrap_or(4);
    let first = first.or(args.get("first")?).unwrap_or(false);
    let blank = blank.or(args.get("blank")?).unwrap_or(false);
    args.assert_all_used()?;
    let margin = " ".repeat(width.min(1000));
    let mut out = String::with_capacity(text.len());
    for (index, line) in text.split('\n').enumerate() {
        if index > 0 {
            out.push('\n');
        }
        let wanted = if index == 0 { first } else { blank || !line.is_empty() };
        out.push_str(if wanted { &margin } else { "" });
        out.push_str(line);
    }
    Ok(out)
}

fn truncate(
    text: String,
    length: Option<usize>,
    killwords: Option<bool>,
    end: Option<String>,
    args: Kwargs,
) -> Result<String, Error> {
    let length = length.or(args.get("length")?).unwrap_or(255);
    let killwords = killwords.or(args.get("killwords")?).unwrap_or(false);
    let end = end.or(args.get("end")?).unwrap_or_else(|| "...".to_owned());
    let leeway = args.get::<Option<usize>>("leeway")?.unwrap_or(5);
    args.assert_all_used()?;
    if text.chars().count() <= length.saturating_add(leeway) {
        return Ok(text);
    }
    let kept: String = text.chars().take(length.saturating_sub(end.chars().count())).collect();
    let kept = if killwords {
        kept.as_str()
    } else {
        kept.rsplit_once(' ').map_or(kept.as_str(), |parts| parts.0)
    };
    Ok(format!("{kept}{end}"))
}

fn escape(text: String) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&#34;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}
