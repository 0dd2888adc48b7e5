//! Compares one member of an output with its label.
//!
//! A label is a value (equal), `null` (nothing must be said), or an object: `{"any": […]}` one of
//! these, `{"has": "words"}` says all these words (`max` bounds its bytes), `{"cover": […]}` says as many of these facts
//! as possible (`a b|c d`: alternatives), `{"lacks": […]}` holds none of these, `{"list": […]}` has
//! these elements and no others (F1; an element is its words, or `[words, {member: label}]`; `ok` lists
//! elements that may stand there too), `{"tags": "words"}` each tag holds one of these words and is a
//! phrase, `{"order": […]}` elements in this order, `{"count": [least, most]}` so many elements.

use std::collections::BTreeSet;

use serde_json::{Value, json};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Judgement {
    /// A value that its label confirms, or part of it.
    Said,
    /// A value where nothing was to be said, or another one.
    Invented,
    Silent,
}

pub struct Field {
    pub name: String,
    pub score: f64,
    pub judgement: Judgement,
    pub found: String,
    pub wanted: String,
}

/// Values that say that nothing was found.
const ABSTAINS: [&str; 9] =
    ["", "other", "unknown", "unclear", "maybe", "not_stated", "medium", "normal", "und"];

pub fn field(name: &str, wanted: &Value, output: &Value) -> Vec<Field> {
    let found = output.pointer(&format!("/{name}")).unwrap_or(&Value::Null);
    let written = |value: &Value| value.to_string();
    let mut fields = Vec::new();
    if let Some(list) = wanted.get("list").and_then(Value::as_array) {
        return list_fields(name, list, wanted, found);
    }
    let score = score(wanted, found);
    let scalar =
        !["cover", "lacks", "tags", "order", "count"].iter().any(|kind| wanted.get(kind).is_some());
    let judgement = match () {
        () if is_silent(found) => Judgement::Silent,
        () if scalar && score == 0.0 => Judgement::Invented,
        () => Judgement::Said,
    };
    fields.push(Field {
        name: name.to_string(),
        score,
        judgement,
        found: written(found),
        wanted: written(wanted),
    });
    fields
}

fn is_silent(found: &Value) -> bool {
    match found {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => ABSTAINS.contains(&fold(text).as_str()),
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        _ => false,
    }
}

/// Whether a label is the value that a scale has for a text that gives nothing.
fn is_least(wanted: &Value) -> bool {
    wanted == "low" || wanted == "info"
}

fn score(wanted: &Value, found: &Value) -> f64 {
    let text = text_of(found);
    if let Some(any) = wanted.get("any").and_then(Value::as_array) {
        return f64::from(any.iter().any(|one| score(one, found) == 1.0));
    }
    if let Some(words) = wanted.get("has").and_then(Value::as_str) {
        let most = wanted.get("max").and_then(Value::as_u64).unwrap_or(u64::MAX);
        return f64::from(says(&text, words) && text.len() as u64 <= most);
    }
    if let Some(facts) = wanted.get("cover").and_then(Value::as_array) {
        return covered(&text, facts);
    }
    if let Some(marks) = wanted.get("lacks").and_then(Value::as_array) {
        let mut marks = marks.iter().filter_map(Value::as_str);
        return f64::from(!text.is_empty() && marks.all(|mark| !text.contains(mark)));
    }
    if let Some(words) = wanted.get("tags").and_then(Value::as_str) {
        return tags(found, words);
    }
    if let Some(order) = wanted.get("order").and_then(Value::as_array) {
        return in_order(found, order);
    }
    if let Some(count) = wanted.get("count").and_then(Value::as_array) {
        let bound = |at: usize| count[at].as_u64().unwrap_or(0) as usize;
        let many = found.as_array().map_or(0, Vec::len);
        return f64::from((bound(0)..=bound(1)).contains(&many));
    }
    match (wanted, found) {
        (Value::Null, _) => {
            f64::from(is_silent(found) || found.as_object().is_some_and(|map| map.is_empty()))
        }
        // Nothing is said where the label says as little: `false`, `other`, the least of a scale.
        (wanted, Value::Null) => f64::from(is_silent(wanted) || is_least(wanted)),
        (Value::String(a), Value::String(b)) => f64::from(fold(a) == fold(b)),
        (Value::Number(a), Value::Number(b)) => f64::from(a.as_f64() == b.as_f64()),
        (a, b) => f64::from(a == b),
    }
}

/// The share of facts a text says.
pub fn covered(text: &str, facts: &[Value]) -> f64 {
    let said = facts.iter().filter_map(Value::as_str).filter(|fact| says(text, fact)).count();
    said as f64 / facts.len().max(1) as f64
}

/// Whether a text holds all words of one of the alternatives.
pub fn says(text: &str, words: &str) -> bool {
    let text = format!(" {} ", fold(text));
    words
        .split('|')
        .any(|words| fold(words).split(' ').all(|word| text.contains(&format!(" {word}"))))
}

/// Lower case, without accents, everything that is no letter or digit as one space.
pub fn fold(text: &str) -> String {
    use unicode_normalization::UnicodeNormalization as _;
    let plain: String = text
        .nfd()
        .filter(|c| !unicode_normalization::char::is_combining_mark(*c))
        .flat_map(char::to_lowercase)
        .map(|c| if c.is_alphanumeric() || c == '_' { c } else { ' ' })
        .collect();
    plain.split_whitespace().collect::<Vec<_>>().join(" ")
}

pub fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(list) => list.iter().map(text_of).collect::<Vec<_>>().join(" \n "),
        Value::Object(map) => map.values().map(text_of).collect::<Vec<_>>().join(" \n "),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

fn list_fields(name: &str, list: &[Value], wanted: &Value, found: &Value) -> Vec<Field> {
    let found = found.as_array().cloned().unwrap_or_default();
    let words = |one: &Value| match one {
        Value::Array(pair) => text_of(&pair[0]),
        other => text_of(other),
    };
    let may: Vec<String> =
        wanted.get("ok").and_then(Value::as_array).into_iter().flatten().map(text_of).collect();
    let mut used = BTreeSet::new();
    let mut pairs = Vec::new();
    for one in list {
        let words = words(one);
        let place =
            (0..found.len()).find(|at| !used.contains(at) && says(&text_of(&found[*at]), &words));
        used.extend(place);
        pairs.push((one, place));
    }
    let hits = pairs.iter().filter(|(_, place)| place.is_some()).count();
    let extra = (0..found.len())
        .filter(|at| !used.contains(at))
        .filter(|at| !may.iter().any(|words| says(&text_of(&found[*at]), words)))
        .count();
    let all = list.len() + hits + extra;
    let f1 = if all == 0 { 1.0 } else { 2.0 * hits as f64 / all as f64 };
    let judgement = match () {
        () if found.is_empty() => Judgement::Silent,
        () if hits == 0 && extra > 0 => Judgement::Invented,
        () => Judgement::Said,
    };
    let mut fields = vec![Field {
        name: name.to_string(),
        score: f1,
        judgement,
        found: json!(found).to_string(),
        wanted: json!(list).to_string(),
    }];
    for (one, place) in pairs {
        let Some((place, members)) = place.zip(one.get(1).and_then(Value::as_object)) else {
            continue;
        };
        for (member, wanted) in members {
            fields.extend(
                field(member, wanted, &found[place])
                    .into_iter()
                    .map(|field| Field { name: format!("{name}/{place}/{}", field.name), ..field }),
            );
        }
    }
    fields
}

/// The share of tags that are about the subject and have the shape of a tag.
fn tags(found: &Value, words: &str) -> f64 {
    let list: Vec<String> = found.as_array().into_iter().flatten().map(text_of).collect();
    let words: Vec<String> = fold(words).split(' ').map(str::to_owned).collect();
    let good = |tag: &&String| {
        let tag = fold(&tag.replace('_', " "));
        let parts: Vec<&str> = tag.split(' ').collect();
        let edges = [parts.first(), parts.last()];
        let whole = edges.iter().flatten().all(|edge| !super::readable::is_little(edge));
        whole && parts.iter().any(|part| words.iter().any(|word| part.starts_with(word.as_str())))
    };
    let right = list.iter().filter(good).count();
    right as f64 / list.len().max(1) as f64
}

/// The share of neighbours that stand in the wanted order.
fn in_order(found: &Value, order: &[Value]) -> f64 {
    let list: Vec<String> = found.as_array().into_iter().flatten().map(text_of).collect();
    let place = |words: &Value| list.iter().position(|one| says(one, &text_of(words)));
    let places: Vec<Option<usize>> = order.iter().map(place).collect();
    let pairs = places.windows(2);
    let right =
        pairs.clone().filter(|pair| matches!((pair[0], pair[1]), (Some(a), Some(b)) if a < b));
    right.count() as f64 / pairs.count().max(1) as f64
}
