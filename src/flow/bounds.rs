//! Numbers on a scale: a value beyond the ends of its scale becomes the end.
//!
//! A model that answers a confidence of 1.2 means "very sure". A number without two ends is no scale,
//! and stays as it is: the schema then decides.

use serde_json::{Number, Value};

/// Deepest nesting followed: references may go in circles.
const DEPTH_MAX: usize = 64;

/// Clamps every number whose schema has a `minimum` and a `maximum`; gives the pointers of those that
/// changed.
pub(super) fn clamp(schema: &Value, value: &mut Value) -> Vec<String> {
    let mut clamped = Vec::new();
    clamp_at(schema, schema, value, "", 0, &mut clamped);
    clamped
}

fn clamp_at(
    root: &Value,
    schema: &Value,
    value: &mut Value,
    place: &str,
    depth: usize,
    clamped: &mut Vec<String>,
) {
    if depth > DEPTH_MAX {
        return;
    }
    let target = schema.get("$ref").and_then(Value::as_str).and_then(|at| at.strip_prefix('#'));
    if let Some(target) = target.and_then(|pointer| root.pointer(pointer)) {
        return clamp_at(root, target, value, place, depth + 1, clamped);
    }
    match value {
        Value::Object(members) => {
            for (name, member) in members.iter_mut() {
                if let Some(schema) = schema.get("properties").and_then(|known| known.get(name)) {
                    let place = format!("{place}/{}", name.replace('~', "~0").replace('/', "~1"));
                    clamp_at(root, schema, member, &place, depth + 1, clamped);
                }
            }
        }
        Value::Array(items) => {
            let Some(schema) = schema.get("items") else { return };
            for (index, item) in items.iter_mut().enumerate() {
                clamp_at(root, schema, item, &format!("{place}/{index}"), depth + 1, clamped);
            }
        }
        Value::Number(number) => {
            if let Some(end) = beyond(schema, number) {
                *value = Value::Number(end);
                clamped.push(place.to_owned());
            }
        }
        _ => {}
    }
}

/// The end of the scale that a number is beyond.
fn beyond(schema: &Value, number: &Number) -> Option<Number> {
    let end = |name: &str| schema.get(name).and_then(Value::as_number);
    let (least, most, here) = (end("minimum")?, end("maximum")?, number.as_f64()?);
    if here < least.as_f64()? {
        return Some(least.clone());
    }
    (here > most.as_f64()?).then(|| most.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn numbers_beyond_their_scale_become_its_end() {
        let schema = json!({
            "$defs": {"sure": {"type": "number", "minimum": 0, "maximum": 1}},
            "properties": {
                "confidence": {"$ref": "#/$defs/sure"},
                "marks": {"items": {"minimum": 1, "maximum": 5}},
                "count": {"minimum": 0},
            },
        });
        let mut value = json!({"confidence": 1.2, "marks": [0, 3, 9], "count": -4, "other": 99});
        assert_eq!(clamp(&schema, &mut value), ["/confidence", "/marks/0", "/marks/2"]);
        assert_eq!(value, json!({"confidence": 1, "marks": [1, 3, 5], "count": -4, "other": 99}));
        assert_eq!(clamp(&schema, &mut value), Vec::<String>::new());
    }
}
