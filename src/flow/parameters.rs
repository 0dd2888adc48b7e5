//! The parameters of a model call, as a flow file writes them.
//!
//! Contract: a number beyond its range becomes the end of the range, and a limit of an answer that allows
//! no token is left out; each such correction is told. A value that is no number is refused. Inputs that
//! are no parameters belong to the template.

use serde_json::{Map, Value};

use super::dag::{Binding, Node};
use super::pyvalue;
use crate::contract::told::ToldFailure;
use crate::model::{CallSettings, ResponseFormat};

/// The ranges that the chat protocol allows.
const RANGES: [(&str, f64, f64); 4] = [
    ("temperature", 0.0, 2.0),
    ("top_p", 0.0, 1.0),
    ("presence_penalty", -2.0, 2.0),
    ("frequency_penalty", -2.0, 2.0),
];
/// The newer name of the limit of an answer in tokens, which prompty files use.
const NEW_LIMIT: &str = "max_completion_tokens";
/// Parameters with a member of their own in the settings of a call.
const NAMED: [&str; 6] = ["temperature", "max_tokens", "seed", "stop", "model", "response_format"];
/// Parameters that are passed on as the file writes them.
const STRUCTURED: [&str; 10] = [
    "logit_bias",
    "user",
    "functions",
    "function_call",
    "tools",
    "tool_choice",
    "reasoning_effort",
    "reasoning",
    "thinking",
    "verbosity",
];

/// Whether an input of a model node is a parameter of its call, and no name for the template.
pub(super) fn is_parameter(name: &str) -> bool {
    let ranged = RANGES.iter().any(|(parameter, ..)| *parameter == name);
    ranged || NAMED.contains(&name) || STRUCTURED.contains(&name) || name == NEW_LIMIT
}

/// Names that the functions behind both APIs of PromptFlow take, for OpenAI and for Azure.
const RESERVED: [&str; 10] = [
    "connection",
    "frequency_penalty",
    "logit_bias",
    "max_tokens",
    "presence_penalty",
    "prompt",
    "stop",
    "stream",
    "temperature",
    "top_p",
];
/// Names that the function of one API takes as well.
const RESERVED_IN_CHATS: [&str; 7] =
    ["function_call", "functions", "response_format", "seed", "tool_choice", "tools", "user"];
const RESERVED_IN_COMPLETIONS: [&str; 6] = ["best_of", "echo", "logprobs", "n", "suffix", "user"];

/// Whether a template of a model node cannot use the name, because the value is a parameter of its call.
pub(super) fn is_reserved(name: &str, is_chat: bool) -> bool {
    let of_api: &[&str] = if is_chat { &RESERVED_IN_CHATS } else { &RESERVED_IN_COMPLETIONS };
    RESERVED.contains(&name) || of_api.contains(&name)
}

/// The settings of a call, and what had to be corrected.
#[derive(Debug, Default)]
pub(super) struct Parameters {
    pub settings: CallSettings,
    pub corrected: Vec<Correction>,
}

/// A parameter that is not sent as the file writes it.
#[derive(Debug, PartialEq, thiserror::Error)]
#[error("{name} {wanted} {instead}")]
pub(super) struct Correction {
    pub name: String,
    pub wanted: f64,
    instead: String,
    /// The numbers that the parameter may have.
    pub range: String,
}

/// The parameters of a model node from its inputs.
pub(super) fn read<'v>(
    inputs: impl Fn(&str) -> Option<&'v Value>,
) -> Result<Parameters, ToldFailure> {
    let mut corrected = Vec::new();
    let mut settings = CallSettings::default();
    let given = |key: &str| inputs(key).filter(|v| !v.is_null() && v.as_str() != Some(""));
    let mut number = |key: &str| match given(key) {
        None => Ok(None),
        Some(value) => in_range(key, value, &mut corrected),
    };
    settings.temperature = number("temperature")?;
    for (key, ..) in RANGES.into_iter().skip(1) {
        if let Some(value) = number(key)? {
            settings.extra.insert(key.to_owned(), value.into());
        }
    }
    #[allow(clippy::cast_possible_truncation, reason = "a seed is a small whole number")]
    let seed = number("seed")?.map(|seed| seed as i64);
    settings.seed = seed;
    settings.max_tokens = match given("max_tokens") {
        Some(value) if value.as_str() != Some("inf") => limit("max_tokens", value, &mut corrected)?,
        _ => None,
    };
    settings.stop = match given("stop").map(structured) {
        Some(Value::Array(items)) => items.iter().map(pyvalue::to_str).collect(),
        Some(other) => vec![pyvalue::to_str(&other)],
        None => Vec::new(),
    };
    // OpenAI-compatible endpoints name the model; Azure names a deployment instead.
    let model = given("model").or_else(|| given("deployment_name"));
    settings.model = model.map(pyvalue::to_str);
    if let Some(format) = given("response_format").map(structured) {
        settings.response_format = match format.get("type").and_then(Value::as_str) {
            Some("json_object") => ResponseFormat::JsonObject,
            Some("json_schema") => {
                settings.extra.insert("response_format".into(), format);
                ResponseFormat::JsonSchema
            }
            // `text`, and what only some servers know.
            Some(_) => {
                settings.extra.insert("response_format".into(), format);
                ResponseFormat::Text
            }
            None => ResponseFormat::Text,
        };
    }
    for key in STRUCTURED {
        if let Some(value) = given(key).map(structured) {
            settings.extra.insert(key.to_owned(), value);
        }
    }
    Ok(Parameters { settings, corrected })
}

/// The parameters of a prompty file. Unknown ones are passed on unchanged.
pub(super) fn of_prompty(parameters: &Map<String, Value>) -> Result<Parameters, ToldFailure> {
    let Parameters { mut settings, mut corrected } = read(|key| parameters.get(key))?;
    for (key, value) in parameters.iter().filter(|(key, _)| !NAMED.contains(&key.as_str())) {
        if key == NEW_LIMIT && !value.is_null() {
            match limit(key, value, &mut corrected)? {
                Some(tokens) => settings.extra.insert(key.clone(), tokens.into()),
                None => settings.extra.shift_remove(key),
            };
            continue;
        }
        let is_corrected = corrected.iter().any(|told| told.name == *key);
        if !is_corrected {
            settings.extra.insert(key.clone(), value.clone());
        }
    }
    Ok(Parameters { settings, corrected })
}

/// The parameters that a node is sure to have: those that the flow file writes.
pub(super) fn written(node: &Node) -> Result<Parameters, ToldFailure> {
    match &node.prompty {
        Some(call) => of_prompty(&call.parameters),
        None => read(|key| match node.input(key) {
            Some(Binding::Literal(value)) => Some(value),
            _ => None,
        }),
    }
}

fn float(key: &str, value: &Value) -> Result<f64, ToldFailure> {
    let number = pyvalue::to_float(value).and_then(|value| value.as_f64());
    number.ok_or_else(|| {
        ToldFailure::from(format!("the parameter {key} cannot be "))
            .and(ToldFailure::by_others(value.to_string()))
            .and(": it must be a number")
    })
}

/// A number, moved into the range of its parameter.
fn in_range(
    key: &str,
    value: &Value,
    corrected: &mut Vec<Correction>,
) -> Result<Option<f64>, ToldFailure> {
    let number = float(key, value)?;
    let range = RANGES.iter().find(|(name, ..)| *name == key);
    let Some((_, least, most)) = range else { return Ok(Some(number)) };
    let end = number.clamp(*least, *most);
    if end != number {
        let (name, wanted) = (key.to_owned(), number);
        let instead = format!("became {end}, the end of its range");
        corrected.push(Correction { name, wanted, instead, range: between(*least, *most) });
    }
    Ok(Some(end))
}

/// A limit of an answer. One that allows no token, or more than any model has, is no limit.
fn limit(
    key: &str,
    value: &Value,
    corrected: &mut Vec<Correction>,
) -> Result<Option<u32>, ToldFailure> {
    let tokens = float(key, value)?;
    if (1.0..=f64::from(u32::MAX)).contains(&tokens) {
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "in range")]
        return Ok(Some(tokens as u32));
    }
    let why = if tokens < 1.0 { "it allows no token" } else { "no model has so many" };
    let instead = format!("was left out: {why}");
    let range = between(1.0, f64::from(u32::MAX));
    corrected.push(Correction { name: key.to_owned(), wanted: tokens, instead, range });
    Ok(None)
}

fn between(least: f64, most: f64) -> String {
    format!("a number from {least} to {most}")
}

/// A value, parsed where the file wrote it as JSON in a string.
fn structured(value: &Value) -> Value {
    match value.as_str() {
        Some(text) if text.trim_start().starts_with(['[', '{']) => {
            serde_json::from_str(text).unwrap_or_else(|_| value.clone())
        }
        _ => value.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn object(value: Value) -> Map<String, Value> {
        value.as_object().cloned().unwrap_or_default()
    }

    #[test]
    fn numbers_beyond_their_range_become_its_end_and_are_told() {
        let inputs = object(json!({
            "temperature": "5", "top_p": 2, "presence_penalty": -3, "frequency_penalty": 1.5,
            "max_tokens": 0, "seed": 99,
        }));
        let read = read(|key| inputs.get(key)).unwrap();
        assert_eq!(read.settings.temperature, Some(2.0));
        assert_eq!((read.settings.max_tokens, read.settings.seed), (None, Some(99)));
        assert_eq!(
            Value::from(read.settings.extra),
            json!({"top_p": 1.0, "presence_penalty": -2.0, "frequency_penalty": 1.5})
        );
        let told: Vec<String> = read.corrected.iter().map(Correction::to_string).collect();
        assert_eq!(
            told,
            [
                "temperature 5 became 2, the end of its range",
                "top_p 2 became 1, the end of its range",
                "presence_penalty -3 became -2, the end of its range",
                "max_tokens 0 was left out: it allows no token",
            ]
        );
    }

    #[test]
    fn a_prompty_file_keeps_what_is_in_range_as_it_is_written() {
        let read = of_prompty(&object(json!({
            "top_p": 1, "top_k": 900, "frequency_penalty": 7, "max_completion_tokens": -1,
        })));
        let read = read.unwrap();
        assert_eq!(
            Value::from(read.settings.extra),
            json!({"frequency_penalty": 2.0, "top_p": 1, "top_k": 900})
        );
        assert_eq!(read.corrected.len(), 2, "{:?}", read.corrected);
        assert!(of_prompty(&object(json!({"max_tokens": "many"}))).is_err());
    }
}
