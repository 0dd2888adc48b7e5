//! The second edition of prompty files, read as the first: other names for the same things, lists where
//! the first edition has mappings, and tools beside the model.
//!
//! Contract: a feature that this program does not have is refused by its name. A file never runs with empty
//! inputs.

use serde_json::{Map, Value, json};

use super::dag::BadFlow;
use super::pictures;

/// What only files of the second edition have in `model`.
const MODEL_MEMBERS: [&str; 5] = ["id", "provider", "apiType", "options", "connection"];
/// Options of the second edition, and what the chat protocol calls them.
const OPTIONS: [(&str, &str); 8] = [
    ("maxOutputTokens", "max_tokens"),
    ("topP", "top_p"),
    ("topK", "top_k"),
    ("stopSequences", "stop"),
    ("frequencyPenalty", "frequency_penalty"),
    ("presencePenalty", "presence_penalty"),
    ("allowMultipleToolCalls", "parallel_tool_calls"),
    ("reasoningEffort", "reasoning_effort"),
];

/// Whether a file is of the second edition.
pub(super) fn is_second_edition(config: &Map<String, Value>) -> bool {
    let model = match config.get("model") {
        Some(Value::String(_)) => return true,
        Some(Value::Object(model)) => Some(model),
        _ => None,
    };
    let lists = |name: &str| matches!(config.get(name), Some(Value::Array(_)));
    let has_kinds = config
        .get("inputs")
        .and_then(Value::as_object)
        .is_some_and(|inputs| inputs.values().any(|input| input.get("kind").is_some()));
    model.is_some_and(|model| MODEL_MEMBERS.iter().any(|name| model.contains_key(*name)))
        || ["inputs", "outputs", "tools"].into_iter().any(lists)
        || ["inputSchema", "outputSchema"].iter().any(|name| config.contains_key(*name))
        || has_kinds
}

/// Refuses a file that says it is something else than a prompt: it would run with blanks.
pub(super) fn check_kind(path: &str, config: &Map<String, Value>) -> Result<(), BadFlow> {
    match config.get("kind").filter(|kind| *kind != "prompt") {
        None => Ok(()),
        Some(kind) => {
            let what =
                format!("{kind} is not a kind of prompt that can run here; only `prompt` can");
            Err(BadFlow::new(format!("{path}: kind"), what))
        }
    }
}

/// The front matter in the words of the first edition.
pub(super) fn as_first_edition(
    path: &str,
    config: &Map<String, Value>,
) -> Result<Map<String, Value>, BadFlow> {
    let at = |place: &str| format!("{path}: {place}");
    let mut first = Map::new();
    for name in ["name", "description", "sample", "template"] {
        if let Some(value) = config.get(name) {
            first.insert(name.to_owned(), value.clone());
        }
    }
    let (mut model, mut parameters) = model(&at, config.get("model"))?;
    let properties = |names: [&str; 2]| {
        let found = names.iter().find_map(|name| config.get(*name)).filter(|it| !it.is_null());
        found.map(|found| found.get("properties").unwrap_or(found))
    };
    if let Some(inputs) = properties(["inputs", "inputSchema"]) {
        let mut read = Map::new();
        for (name, property) in named(&at("inputs"), inputs)? {
            let input = input(&at(&format!("inputs.{name}")), &property)?;
            read.insert(name, input);
        }
        first.insert("inputs".to_owned(), read.into());
    }
    if let Some(outputs) = properties(["outputs", "outputSchema"]) {
        let all = named(&at("outputs"), outputs)?;
        if !all.is_empty() {
            let schema = object_schema(&at("outputs"), &all)?;
            let form = json!({"type": "json_schema", "json_schema": {"name": "outputs", "schema": schema}});
            parameters.entry("response_format").or_insert(form);
            let types = all.into_iter().map(|(name, property)| {
                let kind = property.get("kind").and_then(Value::as_str).unwrap_or("string");
                (name, json!({"type": kind}))
            });
            first.insert("outputs".to_owned(), Value::Object(types.collect()));
        }
    }
    if let Some(tools) = config.get("tools").filter(|tools| !tools.is_null()) {
        let all = named(&at("tools"), tools)?;
        let tools =
            all.iter().map(|(name, tool)| function(&at(&format!("tools.{name}")), name, tool));
        parameters.insert("tools".to_owned(), tools.collect::<Result<Value, _>>()?);
    }
    model.insert("parameters".to_owned(), parameters.into());
    first.insert("model".to_owned(), model.into());
    Ok(first)
}

type Members = Map<String, Value>;

/// The model without its parameters, and the parameters.
fn model(
    at: &impl Fn(&str) -> String,
    model: Option<&Value>,
) -> Result<(Members, Members), BadFlow> {
    let model = match model {
        None | Some(Value::Null) => Map::new(),
        Some(Value::String(id)) => Map::from_iter([("id".to_owned(), Value::from(id.as_str()))]),
        Some(Value::Object(model)) => model.clone(),
        Some(_) => return Err(BadFlow::new(at("model"), "neither a name nor a mapping")),
    };
    let api = model.get("apiType").or(model.get("api")).and_then(Value::as_str).unwrap_or("chat");
    let api = match api {
        // The same conversation in OpenAI's newer protocol.
        "chat" | "agent" | "responses" => "chat",
        "completion" => "completion",
        other => other,
    };
    let mut first = Map::from_iter([("api".to_owned(), Value::from(api))]);
    if let Some(response) = model.get("response") {
        first.insert("response".to_owned(), response.clone());
    }
    let configuration = match model.get("id") {
        Some(id) => json!({"model": id}),
        None => model.get("configuration").cloned().unwrap_or_else(|| json!({})),
    };
    first.insert("configuration".to_owned(), configuration);
    let given = model.get("options").or(model.get("parameters")).filter(|given| !given.is_null());
    let mut parameters = Map::new();
    match given {
        None => {}
        Some(Value::Object(options)) => {
            for (name, value) in options.iter().filter(|(_, value)| !value.is_null()) {
                if let ("additionalProperties", Some(more)) = (name.as_str(), value.as_object()) {
                    parameters.extend(more.clone());
                    continue;
                }
                let known = OPTIONS.iter().find(|(option, _)| option == name);
                let name = known.map_or(name.as_str(), |(_, parameter)| parameter);
                parameters.insert(name.to_owned(), value.clone());
            }
        }
        Some(_) => return Err(BadFlow::new(at("model.options"), "not a mapping")),
    }
    Ok((first, parameters))
}

/// Properties with their names: a list of mappings that hold a name, or a mapping.
fn named(place: &str, properties: &Value) -> Result<Vec<(String, Value)>, BadFlow> {
    match properties {
        Value::Array(items) => items
            .iter()
            .enumerate()
            .map(|(index, item)| {
                let name = item.get("name").and_then(Value::as_str);
                let bad = || BadFlow::new(format!("{place}[{index}]"), "no name");
                Ok((name.ok_or_else(bad)?.to_owned(), item.clone()))
            })
            .collect(),
        Value::Object(members) => {
            Ok(members.iter().map(|(name, item)| (name.clone(), item.clone())).collect())
        }
        _ => Err(BadFlow::new(place, "neither a list nor a mapping")),
    }
}

fn kind_of<'a>(place: &str, property: &'a Value) -> Result<Option<&'a str>, BadFlow> {
    match property.get("kind").or(property.get("type")) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(kind)) => Ok(Some(kind)),
        Some(_) => Err(BadFlow::new(place, "its kind is not a word")),
    }
}

/// An input with the type names of the first edition. A bare value is its default.
fn input(place: &str, property: &Value) -> Result<Value, BadFlow> {
    let bare = || match property {
        Value::Null => json!({"type": "string"}),
        value => json!({"type": of_value(value), "default": value}),
    };
    if !property.is_object() {
        return Ok(bare());
    }
    let kind = match kind_of(place, property)? {
        None => property.get("default").map_or("string", of_value),
        Some("string") => "string",
        Some("integer" | "int") => "int",
        Some("float" | "number" | "double") => "double",
        Some("boolean" | "bool") => "bool",
        Some("array" | "list") => "list",
        Some("object" | "any") => "object",
        Some("image") => return Err(BadFlow::new(place, pictures::REFUSED)),
        Some(other) => {
            let what = format!("an input of kind {other} cannot be filled in here");
            return Err(BadFlow::new(place, what));
        }
    };
    let mut input = json!({"type": kind});
    if let Some(default) = property.get("default").filter(|default| !default.is_null()) {
        input["default"] = default.clone();
    }
    Ok(input)
}

fn of_value(value: &Value) -> &'static str {
    match value {
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "double",
        Value::Number(_) => "int",
        Value::Array(_) => "list",
        Value::Object(_) => "object",
        Value::String(_) | Value::Null => "string",
    }
}

/// A function as the chat protocol offers it. Other kinds of tools would need a server of their own.
fn function(place: &str, name: &str, tool: &Value) -> Result<Value, BadFlow> {
    match kind_of(place, tool)? {
        Some("function") => {}
        Some(other) => {
            let what = format!("a tool of kind {other} cannot run here; only `function` can");
            return Err(BadFlow::new(place, what));
        }
        None => return Err(BadFlow::new(place, "no kind")),
    }
    // An object of JSON Schema is passed on as it is.
    let parameters = match tool.get("parameters") {
        None | Some(Value::Null) => json!({"type": "object", "properties": {}}),
        Some(schema) if schema.get("type").is_some_and(Value::is_string) => schema.clone(),
        Some(given) => {
            let properties = given.get("properties").unwrap_or(given);
            object_schema(place, &named(place, properties)?)?
        }
    };
    let mut function = json!({"name": name, "parameters": parameters});
    if let Some(words) = tool.get("description") {
        function["description"] = words.clone();
    }
    Ok(json!({"type": "function", "function": function}))
}

/// Properties as an object of JSON Schema.
fn object_schema(place: &str, all: &[(String, Value)]) -> Result<Value, BadFlow> {
    let mut properties = Map::new();
    for (name, property) in all {
        properties.insert(name.clone(), schema(&format!("{place}.{name}"), property)?);
    }
    let is_required = |property: &Value| property.get("required") != Some(&Value::Bool(false));
    let required = all.iter().filter(|(_, property)| is_required(property)).map(|(name, _)| name);
    let required: Vec<&String> = required.collect();
    Ok(json!({
        "type": "object", "properties": properties, "required": required,
        "additionalProperties": false,
    }))
}

fn schema(place: &str, property: &Value) -> Result<Value, BadFlow> {
    let mut schema = Map::new();
    let kind = match kind_of(place, property)?.unwrap_or("string") {
        "int" | "integer" => "integer",
        "float" | "double" | "number" => "number",
        "bool" | "boolean" => "boolean",
        "list" | "array" => "array",
        "object" => "object",
        "string" => "string",
        other => {
            let what = format!("a value of kind {other} cannot be asked for here");
            return Err(BadFlow::new(place, what));
        }
    };
    if let ("object", Some(properties)) = (kind, property.get("properties")) {
        return object_schema(place, &named(place, properties)?);
    }
    schema.insert("type".to_owned(), kind.into());
    if let ("array", Some(items)) = (kind, property.get("items")) {
        schema.insert("items".to_owned(), self::schema(&format!("{place}.items"), items)?);
    }
    for (name, keyword) in
        [("description", "description"), ("enumValues", "enum"), ("enum", "enum")]
    {
        if let Some(value) = property.get(name) {
            schema.insert(keyword.to_owned(), value.clone());
        }
    }
    Ok(Value::Object(schema))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::dag::{FlowFile, ValueType};
    use crate::flow::prompty::Prompty;

    fn flow(front: &str) -> Result<FlowFile, BadFlow> {
        Prompty::parse("a.prompty", &format!("---\n{front}\n---\nuser:\n{{{{question}}}}\n"))?
            .flow("a.prompty", |_| None)
    }

    #[test]
    fn lists_of_inputs_and_options_are_read() {
        let flow = flow(
            "model:\n  id: gpt-4\n  provider: azure\n  apiType: chat\n  connection: {kind: key, apiKey: '${env:K}'}\n  options: {temperature: 0.7, maxOutputTokens: 100, stopSequences: [END], additionalProperties: {user: me}}\ninputs:\n  - {name: question, kind: string, example: Why?}\n  - {name: n, kind: integer, default: 3}\n  - {name: bare}",
        )
        .unwrap();
        let inputs: Vec<_> =
            flow.inputs.iter().map(|i| (i.name.as_str(), i.kind, i.default.clone())).collect();
        assert_eq!(
            inputs,
            [
                ("question", ValueType::String, None),
                ("n", ValueType::Int, Some(json!(3))),
                ("bare", ValueType::String, None),
            ],
            "an example is not a default"
        );
        let call = flow.nodes[0].prompty.clone().unwrap();
        assert_eq!(
            Value::from(call.parameters),
            json!({"temperature": 0.7, "max_tokens": 100, "stop": ["END"], "user": "me", "model": "gpt-4"})
        );
    }

    #[test]
    fn outputs_become_a_schema_and_tools_become_functions() {
        let flow = flow(
            "model: gpt-4o\ninputs: {question: {kind: string, default: Why?}}\noutputs:\n  - {name: city, kind: string, description: Where}\n  - {name: degrees, kind: float, required: false}\ntools:\n  - name: look\n    kind: function\n    description: Looks\n    parameters:\n      properties:\n        - {name: place, kind: string}",
        )
        .unwrap();
        let names: Vec<_> = flow.outputs.iter().map(|output| output.name.as_str()).collect();
        assert_eq!(names, ["city", "degrees"]);
        let call = flow.nodes[0].prompty.clone().unwrap();
        assert!(call.json);
        let schema = &call.parameters["response_format"]["json_schema"]["schema"];
        assert_eq!(schema["required"], json!(["city"]));
        assert_eq!(schema["properties"]["degrees"]["type"], "number");
        let function = &call.parameters["tools"][0]["function"];
        assert_eq!(function["parameters"]["properties"]["place"], json!({"type": "string"}));
        assert_eq!(call.parameters["model"], "gpt-4o");
    }

    #[test]
    fn a_member_that_cannot_run_is_refused_by_its_name() {
        for (front, named) in [
            ("kind: hosted\nmodel: m", "hosted"),
            ("model: {id: m, apiType: embedding}", "embedding"),
            ("model: m\ninputs: [{name: a, kind: thread}]", "thread"),
            ("model: m\ninputs: [{kind: string}]", "inputs[0]"),
            ("model: m\ninputs: 3", "inputs"),
            ("model: m\ntools: [{name: t, kind: mcp}]", "mcp"),
            ("model: m\ntemplate: {format: {kind: mustache}}", "mustache"),
            ("model: {api: chat}\ntemplate: mustache", "mustache"),
        ] {
            let error = flow(front).unwrap_err().to_string();
            assert!(error.contains(named) && error.contains("a.prompty"), "{front}: {error}");
        }
    }

    #[test]
    fn names_come_from_the_template_where_no_input_is_declared() {
        let flow = flow("model: gpt-4o").unwrap();
        assert_eq!(flow.inputs.iter().map(|i| i.name.as_str()).collect::<Vec<_>>(), ["question"]);
    }
}
