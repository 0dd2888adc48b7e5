//! The shorter question for a small model: few members are asked for, and rules fill the others.
//!
//! Contract: a pack names these members in `hints.json` (`small.ask`). The schema of the question has only
//! them, and the prompt is the pack's template without the list items about other members. The whole
//! answer fits the pack's own schema, so nothing behind the flow sees which profile was used.
//!
//! See docs/adr/0117-short-questions-for-small-models.md.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use crate::model::builtin::fill::hints::Hints;

/// Most members that a small model is asked for.
const ASKED_MAX: usize = 8;

/// What a small model is asked for.
#[derive(Debug)]
pub(crate) struct SmallForm {
    /// The schema of the short answer.
    pub schema: Value,
    /// Members that a rule fills, in the order of the schema.
    pub derived: Vec<String>,
}

impl SmallForm {
    /// The short form of a schema, where the pack names one.
    pub(crate) fn of(
        hints: Option<&Hints>,
        schema: Option<&Value>,
    ) -> Result<Option<SmallForm>, String> {
        let Some(small) = hints.and_then(|hints| hints.small.as_ref()) else { return Ok(None) };
        let properties = schema.and_then(|schema| schema["properties"].as_object());
        let Some((schema, properties)) = schema.zip(properties) else {
            return Err("small: the pack has no output schema with members".to_owned());
        };
        if small.ask.is_empty() || small.ask.len() > ASKED_MAX {
            let found = small.ask.len();
            return Err(format!("small.ask: name 1 to {ASKED_MAX} members, not {found}"));
        }
        let mut named = small.ask.iter().chain(small.fields.keys());
        if let Some(unknown) = named.find(|name| !properties.contains_key(*name)) {
            return Err(format!("small: {unknown} is not a member of the output schema"));
        }
        let is_asked = |name: &str| small.ask.iter().any(|asked| asked == name);
        if let Some(twice) = small.fields.keys().find(|name| is_asked(name)) {
            return Err(format!("small: {twice} is asked for and has a rule"));
        }
        let mut short = schema.clone();
        let members = properties.iter().filter(|(name, _)| is_asked(name));
        let members: Map<String, Value> =
            members.map(|(name, member)| (name.clone(), member.clone())).collect();
        short["properties"] = members.into();
        let required = schema["required"].as_array().into_iter().flatten();
        let required: Vec<&Value> =
            required.filter(|name| name.as_str().is_some_and(is_asked)).collect();
        short["required"] = json!(required);
        let derived = properties.keys().filter(|name| !is_asked(name)).cloned().collect();
        Ok(Some(SmallForm { schema: short, derived }))
    }

    /// The name of the short form of a template.
    pub(crate) fn template(path: &str) -> String {
        format!("{path}#small")
    }

    /// A template without the list items that are about members no small model is asked for.
    pub(crate) fn shorten(&self, template: &str) -> String {
        let derived: BTreeSet<&str> = self.derived.iter().map(String::as_str).collect();
        let asked = self.schema["properties"].as_object();
        let is_asked = |name: &str| asked.is_some_and(|asked| asked.contains_key(name));
        let mut kept = String::with_capacity(template.len());
        let mut leaves_out = false;
        for line in template.split_inclusive('\n') {
            let goes_on = line.starts_with(' ') && !line.trim().is_empty();
            if !goes_on {
                leaves_out = match head_of(line) {
                    Some(head) => {
                        let names: Vec<&str> = quoted(head).collect();
                        names.iter().any(|name| derived.contains(name))
                            && !names.iter().any(|name| is_asked(name))
                    }
                    None => false,
                };
            }
            if !leaves_out {
                kept.push_str(line);
            }
        }
        kept
    }
}

/// What a list item is about: its text up to the first colon.
fn head_of(line: &str) -> Option<&str> {
    let item = line.strip_prefix("- `")?;
    let end = item.find(": ").unwrap_or(item.len());
    Some(&line[2..item[..end].len() + 3])
}

/// The names in backticks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(hints: &Value) -> Result<Option<SmallForm>, String> {
        let schema = json!({"type": "object", "additionalProperties": false,
            "properties": {"title": {"type": "string"}, "start": {"type": "string"},
                "end": {"type": "string"}, "zone": {"type": "string"}},
            "required": ["title", "start", "end", "zone"]});
        let hints: Hints = serde_json::from_value(hints.clone()).unwrap();
        SmallForm::of(Some(&hints), Some(&schema))
    }

    #[test]
    fn a_short_form_asks_for_the_named_members_only() {
        let form = form(&json!({"small": {"ask": ["start", "title"]}})).unwrap().unwrap();
        assert_eq!(form.schema["required"], json!(["title", "start"]));
        assert_eq!(form.derived, ["end", "zone"]);
        let validator = crate::contract::schema::compile(&form.schema).unwrap();
        assert!(validator.is_valid(&json!({"title": "a", "start": "b"})));
        assert!(!validator.is_valid(&json!({"title": "a", "start": "b", "end": "c"})));
        let template = "Answer `zone` in words.\n- `title`: a name. `end`: no.\n- `end` and `zone`: as said,\n  \
                        in the text.\n  - `start` of it\n- `start` (string): when.\n- `end` (string): until.\n\n- a `mode`\n";
        assert_eq!(
            form.shorten(template),
            "Answer `zone` in words.\n- `title`: a name. `end`: no.\n- `start` (string): when.\n\n- a `mode`\n"
        );
    }

    #[test]
    fn a_short_form_that_cannot_be_asked_is_refused() {
        for (small, reason) in [
            (json!({"ask": []}), "name 1 to 8 members, not 0"),
            (json!({"ask": vec!["a"; 9]}), "not 9"),
            (json!({"ask": ["titel"]}), "titel is not a member"),
            (
                json!({"ask": ["title"], "fields": {"title": {"use": "title"}}}),
                "asked for and has a rule",
            ),
        ] {
            let error = form(&json!({"small": small})).unwrap_err();
            assert!(error.contains(reason), "{error}");
        }
    }
}
