//! Makes a found value fit a JSON Schema, whatever was found: drops, shortens, clamps, and falls back to
//! null, the schema's default or its most modest value. It never invents content.
//!
//! Handles what packs use (`type`, `enum`, `const`, `properties`, `required`, `items`, bounds, local
//! `$ref`, `anyOf`/`oneOf`/`allOf` by their first fitting member); the caller validates the result with
//! the real validator and falls back to [`modest`] where a rarer keyword still objects.

use serde_json::{Map, Value};

use super::super::rank::select::{Quoted, shorten};
use super::filled::Filled;
use super::members::members;

/// Deepest nesting followed.
const DEPTH_MAX: usize = 32;
/// A schema inside its document, for local references.
#[derive(Clone, Copy)]
pub(crate) struct Node<'s> {
    root: &'s Value,
    schema: &'s Value,
    depth: usize,
}

impl<'s> Node<'s> {
    pub(super) fn root(schema: &'s Value) -> Self {
        Node { root: schema, schema, depth: 0 }.resolved()
    }

    fn at(&self, schema: &'s Value) -> Self {
        Node { root: self.root, schema, depth: self.depth + 1 }.resolved()
    }

    fn resolved(mut self) -> Self {
        for _ in 0..DEPTH_MAX {
            let reference = self
                .schema
                .get("$ref")
                .and_then(Value::as_str)
                .and_then(|name| name.strip_prefix('#'));
            match reference.and_then(|pointer| self.root.pointer(pointer)) {
                Some(target) => self.schema = target,
                None => break,
            }
        }
        let choices =
            ["anyOf", "oneOf", "allOf"].iter().find_map(|key| self.schema.get(*key)?.as_array());
        if self.schema.get("type").is_none() && self.schema.get("properties").is_none() {
            let real = |choice: &&Value| choice.get("type").and_then(Value::as_str) != Some("null");
            if let Some(choice) =
                choices.and_then(|list| list.iter().find(real)).filter(|_| self.depth < DEPTH_MAX)
            {
                return Node { root: self.root, schema: choice, depth: self.depth + 1 }.resolved();
            }
        }
        self
    }

    /// Whether the schema names this type, or names none.
    pub(super) fn allows(&self, kind: &str) -> bool {
        match self.schema.get("type") {
            Some(Value::String(name)) => name == kind || (kind == "integer" && name == "number"),
            Some(Value::Array(names)) => {
                names.iter().any(|name| name == kind || (kind == "integer" && name == "number"))
            }
            _ => match self.choices() {
                Some(values) => values.iter().any(|value| kind_of(value) == kind),
                None => kind != "null",
            },
        }
    }

    fn choices(&self) -> Option<&'s [Value]> {
        self.schema.get("enum").and_then(Value::as_array).map(Vec::as_slice)
    }

    fn is_typed(&self) -> bool {
        self.schema.get("type").is_some()
    }

    pub(super) fn properties(&self) -> Option<&'s Map<String, Value>> {
        self.schema.get("properties").and_then(Value::as_object)
    }

    pub(super) fn property(&self, name: &str) -> Option<Node<'s>> {
        self.properties().and_then(|properties| properties.get(name)).map(|schema| self.at(schema))
    }

    /// The schema of the elements.
    pub(super) fn items(&self) -> Option<Node<'s>> {
        self.schema.get("items").filter(|items| items.is_object()).map(|schema| self.at(schema))
    }

    /// The string values of the enum.
    pub(crate) fn enum_strings(&self) -> Vec<&'s str> {
        self.choices().unwrap_or_default().iter().filter_map(Value::as_str).collect()
    }

    fn requires(&self, name: &str) -> bool {
        let required = self.schema.get("required").and_then(Value::as_array);
        required.is_some_and(|names| names.iter().any(|required| required == name))
    }

    fn closed(&self) -> bool {
        self.schema.get("additionalProperties") == Some(&Value::Bool(false))
    }

    fn size(&self, key: &str) -> Option<usize> {
        self.schema.get(key).and_then(Value::as_u64).map(|size| size as usize)
    }
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

pub(crate) fn conform(filled: Filled, node: Node<'_>) -> Filled {
    if node.depth > DEPTH_MAX {
        return Filled::Nothing;
    }
    if let Some(fixed) = node.schema.get("const") {
        return Filled::Value(fixed.clone());
    }
    let fitted = match filled {
        Filled::Nothing | Filled::Value(Value::Null) => None,
        Filled::Text(quoted) => text(quoted, &node),
        Filled::List(list) => list_of(list, &node),
        Filled::Object(members) => node.allows("object").then(|| object(members, &node)),
        Filled::Value(Value::String(text_of)) => text(Quoted::plain(text_of), &node),
        Filled::Value(Value::Array(list)) => {
            list_of(list.into_iter().map(Filled::Value).collect(), &node)
        }
        Filled::Value(Value::Object(map)) => {
            let members =
                map.into_iter().map(|(name, value)| (name, Filled::Value(value))).collect();
            node.allows("object").then(|| object(members, &node))
        }
        Filled::Value(Value::Bool(flag)) => {
            node.allows("boolean").then_some(Filled::Value(Value::Bool(flag)))
        }
        Filled::Value(Value::Number(number)) => numeric(&number, &node),
    };
    fitted.filter(|value| allowed(value, &node)).unwrap_or_else(|| modest(node))
}

fn allowed(value: &Filled, node: &Node<'_>) -> bool {
    let Some(choices) = node.choices() else { return true };
    match value {
        Filled::Text(quoted) => choices.iter().any(|choice| choice.as_str() == Some(&quoted.text)),
        Filled::Value(value) => choices.contains(value),
        _ => false,
    }
}

fn text(quoted: Quoted, node: &Node<'_>) -> Option<Filled> {
    if node.allows("string") {
        let least = node.size("minLength").unwrap_or(0);
        let quoted = limit(quoted, node.size("maxLength"));
        return (quoted.text.chars().count() >= least).then_some(Filled::Text(quoted));
    }
    if node.allows("array") {
        return list_of(vec![Filled::Text(quoted)], node);
    }
    if node.allows("number") || node.allows("integer") {
        return quoted
            .text
            .trim()
            .parse::<serde_json::Number>()
            .ok()
            .and_then(|number| numeric(&number, node));
    }
    None
}

fn limit(mut quoted: Quoted, most: Option<usize>) -> Quoted {
    let Some(most) = most else { return quoted };
    let Some((cut, _)) = quoted.text.char_indices().nth(most) else { return quoted };
    let kept = shorten(&quoted.text, cut).len();
    quoted.text.truncate(kept);
    quoted.pieces.retain(|piece| piece.output_end <= kept);
    quoted
}

fn numeric(number: &serde_json::Number, node: &Node<'_>) -> Option<Filled> {
    let whole = node.allows("integer") && !node.allows("number");
    if !node.allows("integer") && !node.allows("number") {
        return node.allows("string").then(|| Filled::Value(Value::String(number.to_string())));
    }
    let mut value = number.as_f64()?;
    if let Some(least) = node.schema.get("minimum").and_then(Value::as_f64) {
        value = value.max(least);
    }
    if let Some(most) = node.schema.get("maximum").and_then(Value::as_f64) {
        value = value.min(most);
    }
    if whole || (value == value.trunc() && !number.is_f64()) {
        return Some(Filled::Value(Value::from(value as i64)));
    }
    serde_json::Number::from_f64(value).map(|number| Filled::Value(Value::Number(number)))
}

fn list_of(list: Vec<Filled>, node: &Node<'_>) -> Option<Filled> {
    if !node.allows("array") {
        let first = list.into_iter().find(|element| !element.is_empty())?;
        let fitted = conform(first, *node);
        return (!matches!(fitted, Filled::Nothing)).then_some(fitted);
    }
    let mut kept: Vec<Filled> = list.into_iter().filter(|element| !element.is_empty()).collect();
    if let Some(items) = node.items() {
        kept = kept
            .into_iter()
            .map(|element| conform(element, items))
            .filter(|element| !element.is_empty() || items.allows("null"))
            .collect();
    }
    if node.schema.get("uniqueItems") == Some(&Value::Bool(true)) {
        let mut seen: Vec<Filled> = Vec::new();
        kept.retain(|element| {
            let new = !seen.iter().any(|other| same(other, element));
            if new {
                seen.push(element.clone());
            }
            new
        });
    }
    kept.truncate(node.size("maxItems").unwrap_or(usize::MAX));
    pad(&mut kept, node);
    Some(Filled::List(kept))
}

fn same(one: &Filled, other: &Filled) -> bool {
    match (one, other) {
        (Filled::Text(a), Filled::Text(b)) => a.text == b.text,
        _ => one == other,
    }
}

fn pad(list: &mut Vec<Filled>, node: &Node<'_>) {
    while list.len() < node.size("minItems").unwrap_or(0).min(64) {
        list.push(node.items().map_or(Filled::Value(Value::String(String::new())), modest));
    }
}

fn object(members: Vec<(String, Filled)>, node: &Node<'_>) -> Filled {
    let Some(properties) = node.properties() else { return Filled::Object(members) };
    let (mut known, mut other): (Vec<_>, Vec<_>) =
        members.into_iter().partition(|(name, _)| properties.contains_key(name));
    let mut fitted = Vec::new();
    for name in properties.keys() {
        let Some(property) = node.property(name) else { continue };
        let found =
            known.iter().position(|(other, _)| other == name).map(|at| known.swap_remove(at).1);
        let empty = found.as_ref().is_none_or(Filled::is_empty);
        let bare = property.allows("null") || property.allows("array") || !property.is_typed();
        if empty && !node.requires(name) && !bare {
            continue;
        }
        fitted.push((name.clone(), conform(found.unwrap_or_default(), property)));
    }
    if !node.closed() {
        fitted.append(&mut other);
    }
    Filled::Object(fitted)
}

/// What a schema accepts that claims least.
pub(crate) fn modest(node: Node<'_>) -> Filled {
    if let Some(fixed) = node.schema.get("const").or_else(|| node.schema.get("default")) {
        return Filled::Value(fixed.clone());
    }
    if node.allows("null") {
        return Filled::Nothing;
    }
    if let Some(choices) = node.choices() {
        let preferred = members()
            .modest
            .iter()
            .find_map(|word| choices.iter().find(|choice| choice.as_str() == Some(word.as_str())));
        return preferred.or(choices.first()).cloned().map_or(Filled::Nothing, Filled::Value);
    }
    if node.allows("array") && node.is_typed() {
        let mut list = Vec::new();
        pad(&mut list, &node);
        return Filled::List(list);
    }
    if (node.allows("object") && node.is_typed()) || node.properties().is_some() {
        return if node.depth > DEPTH_MAX { Filled::Nothing } else { object(Vec::new(), &node) };
    }
    if node.allows("string") {
        let least = node.size("minLength").unwrap_or(0).min(256);
        return Filled::Value(Value::String("-".repeat(least)));
    }
    if node.allows("boolean") {
        return Filled::Value(Value::Bool(false));
    }
    numeric(&serde_json::Number::from(0), &node).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn fit(value: Value, schema: &Value) -> Value {
        conform(Filled::Value(value), Node::root(schema)).into_value("", &mut Vec::new())
    }

    #[test]
    fn any_value_is_made_to_fit_the_schema() {
        let schema = json!({
            "type": "object", "additionalProperties": false, "required": ["name", "kind", "score", "tags", "when"],
            "properties": {
                "name": {"type": "string", "maxLength": 5},
                "kind": {"enum": ["a", "other"]},
                "score": {"type": "integer", "minimum": 1, "maximum": 5},
                "tags": {"type": "array", "items": {"$ref": "#/$defs/tag"}, "maxItems": 2, "uniqueItems": true},
                "when": {"type": ["string", "null"]},
                "extra": {"type": "string"}
            },
            "$defs": {"tag": {"type": "string", "minLength": 1}}
        });
        let validator = jsonschema::validator_for(&schema).expect("a schema");
        let cases = [
            json!(null),
            json!([]),
            json!("text"),
            json!({"name": "much too long", "kind": "b", "score": 9.5, "tags": ["x", "x", "", "y", "z"], "when": 3, "odd": 1}),
            json!({"name": null, "kind": null, "score": null, "tags": "one", "when": null}),
        ];
        for case in cases {
            let fitted = fit(case.clone(), &schema);
            assert!(validator.is_valid(&fitted), "{case} became {fitted}");
        }
        assert_eq!(fit(json!({"tags": "one"}), &schema)["tags"], json!(["one"]));
    }

    #[test]
    fn endless_references_end() {
        let schema = json!({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}});
        assert!(fit(json!(1), &schema).is_number());
        let nested =
            json!({"type": "object", "required": ["a"], "properties": {"a": {"$ref": "#"}}});
        assert!(fit(json!(null), &nested).is_object());
    }
}
