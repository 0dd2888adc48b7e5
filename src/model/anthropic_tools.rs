//! Functions that a flow offers, in the form of Anthropic's messages, and the calls of an answer in the
//! form of the chat protocol, which the program of a flow reads.
//!
//! Contract: a tool that is no function cannot be offered; nothing is offered in its place. A result of a
//! tool belongs to a call that stands before it, else it is a text.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::call::{Message, Role};

/// The parameters of a chat that offer functions, with the one that chooses among them.
const OFFERS: [(&str, &str); 2] = [("tools", "tool_choice"), ("functions", "function_call")];

/// What a flow offers.
pub(super) struct Offered {
    /// As this protocol has them.
    pub tools: Vec<Value>,
    pub choice: Option<Value>,
    /// The parameters that say more than can be sent.
    pub left_out: Vec<&'static str>,
    /// Whether the answer calls a function in the older form.
    is_older: bool,
}

/// Whether a parameter offers functions, or chooses among them.
pub(super) fn is_about_tools(name: &str) -> bool {
    OFFERS.iter().any(|(offer, choice)| [*offer, *choice].contains(&name))
}

impl Offered {
    /// What the parameters offer. A model that thinks may not be forced to use a tool.
    pub(super) fn of(parameters: &Map<String, Value>, thinks: bool) -> Option<Offered> {
        let (offer, choice) =
            OFFERS.into_iter().find(|(offer, _)| parameters.contains_key(*offer))?;
        let all = parameters[offer].as_array().map(Vec::as_slice).unwrap_or_default();
        let tools: Vec<Value> = all.iter().filter_map(tool).collect();
        let mut left_out = Vec::new();
        if tools.len() < all.len().max(1) {
            left_out.push(offer);
        }
        let wanted = parameters.get(choice);
        let chosen = wanted.and_then(chosen);
        let is_forced =
            chosen.as_ref().is_some_and(|it| it["type"] == "any" || it["type"] == "tool");
        let chosen = chosen.filter(|_| !(tools.is_empty() || thinks && is_forced));
        if wanted.is_some() && chosen.is_none() {
            left_out.push(choice);
        }
        Some(Offered { tools, choice: chosen, left_out, is_older: offer == "functions" })
    }

    /// The message of the chat protocol that says what the parts of an answer say.
    pub(super) fn message(&self, parts: &[Value], text: &str) -> Value {
        let calls = parts.iter().filter(|part| part["type"] == "tool_use");
        let mut calls = calls.map(|part| {
            let called = json!({"name": part["name"], "arguments": part["input"].to_string()});
            (part["id"].clone(), called)
        });
        let mut message = json!({"role": "assistant", "content": text});
        if self.is_older {
            if let Some((_, called)) = calls.next() {
                message["function_call"] = called;
            }
        } else {
            let calls: Vec<Value> = calls
                .map(|(id, called)| json!({"id": id, "type": "function", "function": called}))
                .collect();
            if !calls.is_empty() {
                message["tool_calls"] = calls.into();
            }
        }
        if text.is_empty() && message.as_object().is_some_and(|members| members.len() > 2) {
            message["content"] = Value::Null;
        }
        message
    }
}

/// A function in either form of the chat protocol.
fn tool(offered: &Value) -> Option<Value> {
    let function = offered.get("function").unwrap_or(offered);
    let name = function.get("name")?.as_str()?;
    let schema = function.get("parameters").filter(|schema| schema.is_object()).cloned();
    let schema = schema.unwrap_or_else(|| json!({"type": "object", "properties": {}}));
    let mut tool = json!({"name": name, "input_schema": schema});
    if let Some(description) = function.get("description").filter(|it| it.is_string()) {
        tool["description"] = description.clone();
    }
    Some(tool)
}

fn chosen(choice: &Value) -> Option<Value> {
    match choice.as_str() {
        Some("required") => Some(json!({"type": "any"})),
        Some(kind @ ("auto" | "none")) => Some(json!({"type": kind})),
        Some(_) => None,
        None => {
            let name = choice.get("function").unwrap_or(choice).get("name")?.as_str()?;
            Some(json!({"type": "tool", "name": name}))
        }
    }
}

/// The parts of a turn that calls tools, or that holds the result of one; `None` for any other turn.
/// `called` are the calls of the turns before.
pub(super) fn parts(message: &Message, called: &mut BTreeSet<String>) -> Option<Vec<Value>> {
    let text = |text: &str| json!({"type": "text", "text": text});
    if message.role == Role::Tool {
        let id = message.fields.get("tool_call_id")?.as_str()?;
        return called.contains(id).then(|| {
            vec![json!({"type": "tool_result", "tool_use_id": id, "content": message.text})]
        });
    }
    let calls = message.fields.get("tool_calls").filter(|_| message.role == Role::Assistant)?;
    let mut parts: Vec<Value> = Vec::new();
    parts.extend((!message.text.is_empty()).then(|| text(&message.text)));
    for call in calls.as_array()? {
        let (Some(id), Some(name)) = (call["id"].as_str(), call["function"]["name"].as_str())
        else {
            continue;
        };
        let arguments = &call["function"]["arguments"];
        let read = arguments.as_str().and_then(|text| serde_json::from_str::<Value>(text).ok());
        let input = read.unwrap_or_else(|| arguments.clone());
        let input = if input.is_object() { input } else { json!({}) };
        parts.push(json!({"type": "tool_use", "id": id, "name": name, "input": input}));
        called.insert(id.to_owned());
    }
    Some(parts)
}
