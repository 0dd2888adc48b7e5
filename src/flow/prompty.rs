//! Prompty files: YAML front matter and a template, a whole flow in one file.
//!
//! Read are `inputs`, `outputs`, `sample`, and of `model` the `api`, the name and the `parameters`, which
//! are sent unchanged. With `response_format` `json_object` the answer is read as JSON, and its members
//! are the outputs: those the file declares, else all. With `response: all` the output is the unchanged
//! reply of the server. Ignored are the connection in `configuration` (the provider comes from our
//! configuration, and a file cannot ask for environment variables) and `stream`, which does not change
//! the answer. What the file does not say itself comes from the file that it names as `base`. A file of
//! the second edition is read as the first ([`prompty_v2`]).

use serde_json::{Map, Value};

use super::dag::{
    BadFlow, Binding, FlowFile, InputDef, Node, OutputDef, PromptyCall, ValueType, unknown_api,
};
use super::{pictures, prompty_v2, pyvalue, yaml};

/// Name of the one node of a prompty flow.
pub(crate) const NODE: &str = "prompty";

/// Where a pack keeps what lies above its folder: this stands for each `..`.
pub(super) const ABOVE: &str = "_above";
/// Most prompty files that build on one another.
const BASES_MAX: usize = 8;

/// The path in the pack of what a file of the pack names by its path from its own folder.
pub(super) fn path_in_pack(from: &str, name: &str) -> Option<String> {
    if name.starts_with('/') {
        return None;
    }
    let folder = from.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut path: Vec<&str> = Vec::new();
    for part in folder.split('/').chain(name.split('/')) {
        match part {
            "" | "." => {}
            ".." if path.last().is_some_and(|last| *last != ABOVE) => drop(path.pop()),
            ".." => path.push(ABOVE),
            part => path.push(part),
        }
    }
    (!path.is_empty()).then(|| path.join("/"))
}

/// A file that a prompty file names.
pub(super) struct Reference {
    pub name: String,
    /// Whether the flow can run without it: it is only an example.
    pub is_example: bool,
}

/// The files that a prompty file names; none where it cannot be read, because loading it tells why.
pub(super) fn references(text: &str) -> Vec<Reference> {
    let Ok(Prompty { config, .. }) = Prompty::parse("", text) else { return Vec::new() };
    let has_inputs = config.contains_key("inputs");
    let mut found = Vec::new();
    for (member, value) in &config {
        let is_example = has_inputs && member == "sample";
        let mut names = Vec::new();
        if let ("base", Some(base)) = (member.as_str(), value.as_str()) {
            names.push(base.to_owned());
        }
        files_in(value, &mut names);
        found.extend(names.into_iter().map(|name| Reference { name, is_example }));
    }
    found
}

fn files_in(value: &Value, names: &mut Vec<String>) {
    match value {
        Value::String(text) => {
            names.extend(file_of(text).map(str::to_owned));
        }
        Value::Array(items) => items.iter().for_each(|item| files_in(item, names)),
        Value::Object(members) => members.values().for_each(|member| files_in(member, names)),
        _ => {}
    }
}

/// The kind of a text `${KIND:NAME}`, and the name.
fn reference(text: &str) -> Option<(String, &str)> {
    let (kind, name) = text.strip_prefix("${")?.strip_suffix('}')?.split_once(':')?;
    let is_word = !kind.is_empty() && kind.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    is_word.then(|| (kind.to_ascii_lowercase(), name))
}

/// The file of `${file:NAME}`, also in the form `file:NAME` of older prompty files.
fn file_of(text: &str) -> Option<&str> {
    let old = || text.strip_prefix("file:").filter(|name| !name.contains(char::is_whitespace));
    match reference(text) {
        Some((kind, name)) => (kind == "file").then_some(name),
        None => old(),
    }
}

fn is_data(name: &str) -> bool {
    [".json", ".yml", ".yaml"].iter().any(|end| name.ends_with(end))
}

/// A prompty file taken apart.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Prompty {
    pub template: String,
    pub config: Map<String, Value>,
}

impl Prompty {
    /// Takes a file apart.
    pub(super) fn parse(path: &str, text: &str) -> Result<Prompty, BadFlow> {
        let text = text.replace("\r\n", "\n").replace('\r', "\n");
        let text = text.trim_start_matches('\u{feff}').trim_start();
        let parts = text.strip_prefix("---").and_then(|rest| {
            // The end of the first line may begin the last one: a front matter may be empty.
            let rest = &rest[rest.find('\n')?..];
            let (front, rest) = rest.split_once("\n---")?;
            Some((front, rest.split_once('\n').map_or("", |(_, body)| body)))
        });
        let (front, body) =
            parts.ok_or_else(|| BadFlow::new(path, "no front matter between lines of `---`"))?;
        let config = yaml::parse(front).map_err(|error| BadFlow::new(path, error.0))?;
        let mut config = match config {
            Value::Object(config) => config,
            Value::Null => Map::new(),
            _ => return Err(BadFlow::new(path, "the front matter is not a mapping")),
        };
        // `sample: people.json` names a file too.
        if let Some(Value::String(sample)) = config.get_mut("sample")
            && is_data(sample)
            && file_of(sample).is_none()
        {
            sample.insert_str(0, "file:");
        }
        Ok(Prompty { template: body.to_owned(), config })
    }

    /// Warnings of members that no edition has: they are probably misspelt.
    pub(super) fn unknown_members(&self, path: &str) -> Vec<String> {
        let model = self.config.get("model").and_then(Value::as_object);
        let of_model = model.into_iter().flat_map(Map::keys);
        let of_model = of_model.filter(|name| !MODEL.contains(&name.as_str()));
        let unknown = self.config.keys().filter(|name| !MEMBERS.contains(&name.as_str()));
        let unknown = unknown.cloned().chain(of_model.map(|name| format!("model.{name}")));
        unknown
            .map(|name| format!("{path}: {name} is no member of a prompty file and is ignored"))
            .collect()
    }

    /// The same with the files it refers to and what it takes from its base; a sample counts only where
    /// no inputs are declared.
    fn with_files(
        &self,
        path: &str,
        read: &impl Fn(&str) -> Option<String>,
    ) -> Result<Prompty, BadFlow> {
        let mut prompty = self.resolved(path, "", read, 0)?;
        prompty_v2::check_kind(path, &prompty.config)?;
        let is_second = prompty_v2::is_second_edition(&prompty.config);
        if is_second {
            prompty.config = prompty_v2::as_first_edition(path, &prompty.config)?;
        }
        prompty.check_engine(path)?;
        let api = prompty.config.get("model").and_then(|model| model.get("api"));
        let api = api.filter(|api| !api.is_null()).map(pyvalue::to_str).unwrap_or_default();
        if let Some(what) = unknown_api(&api) {
            return Err(BadFlow::new(format!("{path}: model.api"), what));
        }
        if is_second && !prompty.config.contains_key("inputs") {
            prompty.name_inputs();
        }
        Ok(prompty)
    }

    /// `folder` leads from the flow file to the folder of this file, and ends with a slash.
    fn resolved(
        &self,
        path: &str,
        folder: &str,
        read: &impl Fn(&str) -> Option<String>,
        depth: usize,
    ) -> Result<Prompty, BadFlow> {
        let mut prompty = self.clone();
        let has_inputs = prompty.config.contains_key("inputs");
        let read_here = |name: &str| read(&format!("{folder}{name}"));
        for (name, value) in &mut prompty.config {
            if NOT_USED.contains(&name.as_str()) {
                continue;
            }
            let resolved = resolve(value, &format!("{path}: {name}"), &read_here);
            // A sample beside declared inputs is only an example, and may be elsewhere.
            match has_inputs && name == "sample" {
                true => drop(resolved),
                false => resolved?,
            }
        }
        let Some(base) = prompty.config.shift_remove("base") else { return Ok(prompty) };
        let place = format!("{path}: base");
        let Some(name) = base.as_str() else {
            return Err(BadFlow::new(place, "not the path of a prompty file"));
        };
        if depth == BASES_MAX {
            let what = format!("more than {BASES_MAX} prompty files build on one another");
            return Err(BadFlow::new(place, what));
        }
        let missing = || BadFlow::new(place, format!("there is no file {name} in the pack"));
        let text = read_here(name).ok_or_else(missing)?;
        let folder = match name.rsplit_once('/') {
            Some((below, _)) => format!("{folder}{below}/"),
            None => folder.to_owned(),
        };
        let base = Prompty::parse(name, &text)?.resolved(name, &folder, read, depth + 1)?;
        prompty.take_missing(&base.config);
        Ok(prompty)
    }

    /// Takes what this file does not say itself from the file that it builds on.
    fn take_missing(&mut self, base: &Map<String, Value>) {
        const OF_BASE: [&str; 7] =
            ["configuration", "parameters", "connection", "options", "api", "apiType", "response"];
        if let Some(of_base) = base.get("model").and_then(Value::as_object) {
            let model = self.config.entry("model").or_insert_with(|| Map::new().into());
            for name in OF_BASE {
                let (Some(model), Some(value)) = (model.as_object_mut(), of_base.get(name)) else {
                    continue;
                };
                add_missing(model.entry(name).or_insert_with(|| value.clone()), value);
            }
        }
        if let Some(sample) = base.get("sample").filter(|sample| sample.is_object()) {
            add_missing(self.config.entry("sample").or_insert_with(|| sample.clone()), sample);
        }
    }

    /// Refuses a file for another template engine: its marks would stay blanks.
    fn check_engine(&self, path: &str) -> Result<(), BadFlow> {
        let template = self.config.get("template");
        let format = template.map(|template| template.get("format").unwrap_or(template));
        let kind = format.and_then(|format| format.get("kind").unwrap_or(format).as_str());
        match kind.filter(|kind| !kind.starts_with("jinja")) {
            Some(kind) => {
                let what = format!("{kind} templates cannot run here; only jinja2 can");
                Err(BadFlow::new(format!("{path}: template"), what))
            }
            None => Ok(()),
        }
    }

    /// Takes the inputs from the template, where the file declares none.
    fn name_inputs(&mut self) {
        let engine = minijinja::Environment::new();
        let Ok(template) = engine.template_from_str(&self.template) else { return };
        let names: std::collections::BTreeSet<String> =
            template.undeclared_variables(false).into_iter().collect();
        let inputs = names.into_iter().map(|name| (name, serde_json::json!({"type": "string"})));
        self.config.insert("inputs".to_owned(), Value::Object(inputs.collect()));
    }

    /// Parameters of the call, the model's name among them.
    fn parameters(&self) -> Map<String, Value> {
        let model = self.config.get("model");
        let parameters = model.and_then(|model| model.get("parameters")).and_then(Value::as_object);
        let mut parameters = parameters.cloned().unwrap_or_default();
        parameters.shift_remove("stream");
        for (offer, choice) in [("tools", "tool_choice"), ("functions", "function_call")] {
            if parameters.contains_key(offer) {
                parameters.entry(choice).or_insert_with(|| "auto".into());
                break;
            }
        }
        let configuration = model.and_then(|model| model.get("configuration"));
        let name = ["azure_deployment", "model"]
            .into_iter()
            .find_map(|key| configuration.and_then(|configuration| configuration.get(key)));
        if let Some(name) = name.and_then(Value::as_str).filter(|name| !name.starts_with("${")) {
            parameters.insert("model".to_owned(), name.into());
        }
        parameters
    }

    /// The file as a flow of one model node.
    ///
    /// `read` gives a file that lies beside it.
    pub(super) fn flow(
        &self,
        path: &str,
        read: impl Fn(&str) -> Option<String>,
    ) -> Result<FlowFile, BadFlow> {
        let prompty = self.with_files(path, &read)?;
        let inputs = prompty.inputs(path)?;
        let bindings = inputs
            .iter()
            .map(|input| (input.name.clone(), Binding::Input(input.name.clone())))
            .collect();
        let model = prompty.config.get("model");
        let api = model.and_then(|model| model.get("api"));
        let all = model.and_then(|model| model.get("response")).is_some_and(|which| which == "all");
        let parameters = prompty.parameters();
        let format = parameters.get("response_format").and_then(|format| format.get("type"));
        let json = !all
            && format.is_some_and(|it| {
                it == "json_object"
                    || (it == "json_schema" && prompty_v2::is_second_edition(&self.config))
            });
        let node = Node {
            name: NODE.to_owned(),
            kind: "llm".to_owned(),
            source_type: "code".to_owned(),
            path: Some(path.to_owned()),
            tool: None,
            inputs: bindings,
            api: api.and_then(Value::as_str).map(str::to_owned),
            activate: None,
            aggregation: false,
            use_variants: false,
            prompty: Some(PromptyCall { parameters, json, all }),
        };
        let declared = prompty.config.get("outputs").and_then(Value::as_object);
        let outputs = match declared.filter(|outputs| json && !outputs.is_empty()) {
            Some(outputs) => outputs
                .iter()
                .map(|(name, body)| {
                    let kind = body.get("type").and_then(Value::as_str).unwrap_or("string");
                    output(name, kind, &format!("['{name}']"))
                })
                .collect(),
            None => vec![output("output", if json || all { "object" } else { "string" }, "")],
        };
        Ok(FlowFile {
            inputs,
            outputs,
            nodes: vec![node],
            variants: Default::default(),
            additional_includes: Vec::new(),
            environment: Map::new(),
        })
    }

    fn inputs(&self, path: &str) -> Result<Vec<InputDef>, BadFlow> {
        let sample = self.config.get("sample").and_then(Value::as_object);
        let declared = self.config.get("inputs").and_then(Value::as_object);
        let mut inputs = Vec::new();
        for (name, body) in declared.or(sample).into_iter().flatten() {
            let kind = body.get("type").and_then(Value::as_str).unwrap_or(kind_of(body));
            let place = format!("{path}: inputs.{name}");
            let kind = ValueType::of_input(kind, &place)?;
            if kind == ValueType::Image {
                return Err(BadFlow::new(&place, pictures::REFUSED));
            }
            let default =
                declared.and_then(|_| body.get("default")).filter(|v| !v.is_null()).cloned();
            let sample = sample.and_then(|sample| sample.get(name)).cloned();
            let name = name.clone();
            inputs.push(InputDef { name, kind, default, sample, is_chat_history: false });
        }
        Ok(inputs)
    }
}

/// The members that prompty files have, in one edition or the other.
const MEMBERS: [&str; 23] = [
    "$schema",
    "additionalInstructions",
    "authors",
    "base",
    "description",
    "displayName",
    "environment",
    "id",
    "inputSchema",
    "inputs",
    "instructions",
    "kind",
    "metadata",
    "model",
    "name",
    "outputSchema",
    "outputs",
    "sample",
    "tags",
    "template",
    "tools",
    "type",
    "version",
];
/// The members of their `model`.
const MODEL: [&str; 9] = [
    "api",
    "apiType",
    "configuration",
    "connection",
    "id",
    "options",
    "parameters",
    "provider",
    "response",
];
/// Members that say nothing about the run.
const NOT_USED: [&str; 7] =
    ["name", "displayName", "description", "authors", "tags", "version", "metadata"];
/// Members of the model that are not read: the provider comes from our configuration.
const CONNECTION: [&str; 2] = ["configuration", "connection"];

/// Adds the members of `from` that `to` does not have.
fn add_missing(to: &mut Value, from: &Value) {
    let (Some(to), Some(from)) = (to.as_object_mut(), from.as_object()) else { return };
    for (name, value) in from {
        to.entry(name).or_insert_with(|| value.clone());
    }
}

/// Puts the content of a file where `${file:name.json}` stands (JSON and YAML as values, anything else
/// as text), and the default where `${env:NAME:DEFAULT}` stands. Other references are refused by name.
fn resolve(
    value: &mut Value,
    place: &str,
    read: &impl Fn(&str) -> Option<String>,
) -> Result<(), BadFlow> {
    match value {
        Value::String(text) => {
            if let Some(resolved) = resolved_text(text, place, read)? {
                *value = resolved;
            }
        }
        Value::Array(items) => {
            items.iter_mut().try_for_each(|item| resolve(item, place, read))?;
        }
        Value::Object(members) => {
            let is_model = place.ends_with(": model");
            for (name, member) in members {
                let is_name = is_model && name == "id";
                let is_used = !(is_model && CONNECTION.contains(&name.as_str()));
                let place = format!("{place}.{name}");
                match resolve(member, &place, read) {
                    // Without a name of its own the flow is asked of the configured model.
                    Err(_) if is_name => *member = Value::Null,
                    Err(error) if is_used => return Err(error),
                    _ => {}
                }
            }
        }
        _ => {}
    }
    Ok(())
}

/// What a text refers to; `None` for a text that refers to nothing.
fn resolved_text(
    text: &str,
    place: &str,
    read: &impl Fn(&str) -> Option<String>,
) -> Result<Option<Value>, BadFlow> {
    let bad = |what: String| Err(BadFlow::new(place, what));
    if let Some(name) = file_of(text) {
        let is_old = !text.starts_with("${");
        let Some(text) = read(name) else {
            // The older form looks like a text, and is one where there is no such file.
            return if is_old {
                Ok(None)
            } else {
                bad(format!("there is no file {name} in the pack"))
            };
        };
        return match is_data(name) {
            true => match yaml::parse(&text) {
                Ok(value) => Ok(Some(value)),
                Err(error) => bad(format!("{name}: {}", error.0)),
            },
            false => Ok(Some(text.into())),
        };
    }
    let Some((kind, name)) = reference(text) else { return Ok(None) };
    if kind != "env" {
        return bad(format!("{text} is a reference of kind {kind}; only file and env are known"));
    }
    match name.split_once(':') {
        Some((_, default)) if !default.is_empty() => Ok(Some(default.into())),
        _ => bad(format!(
            "{text} asks for the environment, which a flow file cannot read; write the value, or a \
             default in the form ${{env:NAME:DEFAULT}}"
        )),
    }
}

fn output(name: &str, kind: &str, property: &str) -> OutputDef {
    let reference = Binding::Node {
        node: NODE.to_owned(),
        section: "output".to_owned(),
        property: property.to_owned(),
    };
    OutputDef { name: name.to_owned(), kind: kind.to_owned(), reference }
}

fn kind_of(sample: &Value) -> &'static str {
    match sample {
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "double",
        Value::Number(_) => "int",
        Value::Array(_) => "list",
        Value::String(_) => "string",
        _ => "object",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const FILE: &str = "---\nname: Greeter\nmodel:\n  api: chat\n  configuration:\n    type: openai\n    model: small-one\n    api_key: ${env:KEY}\n  parameters:\n    max_tokens: 128\ninputs:\n  first:\n    type: string\n  n:\n    type: int\n    default: 3\n---\nsystem:\nHello {{first}}\n---\nmore\n";

    #[test]
    fn a_file_becomes_a_flow_of_one_node() {
        let prompty = Prompty::parse("a.prompty", FILE).unwrap();
        assert_eq!(prompty.template, "system:\nHello {{first}}\n---\nmore\n");
        let flow = prompty.flow("a.prompty", |_| None).unwrap();
        assert_eq!(flow.inputs[1].default, Some(json!(3)));
        let node = &flow.nodes[0];
        let call = node.prompty.as_ref().unwrap();
        assert_eq!(
            Value::from(call.parameters.clone()),
            json!({"max_tokens": 128, "model": "small-one"})
        );
        assert!(!call.json && flow.outputs[0].name == "output");
        assert_eq!(node.input("first"), Some(&Binding::Input("first".into())));
    }

    #[test]
    fn members_of_a_json_answer_are_the_outputs() {
        let file =
            FILE.replace("    max_tokens: 128\n", "    response_format: {type: json_object}\n");
        let of = |file: &str| Prompty::parse("a", file).unwrap().flow("a", |_| None);
        let names = |file: &str| {
            let outputs = of(file).unwrap().outputs;
            outputs.iter().map(|output| output.name.clone()).collect::<Vec<_>>()
        };
        assert_eq!(names(&file), ["output"]);
        let declared =
            file.replace("inputs:", "outputs:\n  score: {type: int}\n  why: {}\ninputs:");
        assert_eq!(names(&declared), ["score", "why"]);
        assert_eq!(names(&FILE.replace("inputs:", "outputs: {score: {}}\ninputs:")), ["output"]);
        let all = declared.replace("  parameters:", "  response: all\n  parameters:");
        assert_eq!(names(&all), ["output"], "the reply as it is, whatever is in it");
        let call = of(&all).unwrap().nodes[0].prompty.clone().unwrap();
        assert!(call.all && !call.json);
    }

    #[test]
    fn names_come_from_a_sample_file_where_none_are_declared() {
        let plain = "---\nmodel: {}\nsample: s.json\n---\nuser:\n{{a}}";
        assert_eq!(references(plain).iter().map(|it| &*it.name).collect::<Vec<_>>(), ["s.json"]);
        let file = "---\nmodel: {}\nsample: ${file:s.json}\n---\nuser:\n{{a}}";
        let prompty = Prompty::parse("a", file).unwrap();
        let sample = |name: &str| (name == "s.json").then(|| r#"{"a": 1, "b": []}"#.to_owned());
        let inputs = prompty.flow("a", sample).unwrap().inputs;
        let kinds: Vec<ValueType> = inputs.iter().map(|input| input.kind).collect();
        assert_eq!(kinds, [ValueType::Int, ValueType::List]);
        assert!(prompty.flow("a", |_| None).unwrap_err().to_string().contains("s.json"));
    }

    #[test]
    fn references_are_followed_from_the_folder_of_the_file_that_names_them() {
        let top = "---\nbase: ../common/base.prompty\nmodel: {parameters: {temperature: 0.1, stop: '${env:STOP:END}'}}\nsample: {who: Ana}\n---\nuser:\n{{who}} {{city}}\n";
        let base = "---\nbase: deep/more.prompty\nmodel: {api: completion, parameters: {temperature: 1, max_tokens: 9}}\nsample: ${FILE:city.json}\n---\nuser:\nnot this\n";
        let more =
            "---\nmodel: {configuration: {model: m-1}, parameters: '${file:../all.yaml}'}\n---\nx";
        let read = |name: &str| {
            let text = match name {
                "../common/base.prompty" => base,
                "../common/city.json" => r#"{"city": "Rio", "who": "Eva"}"#,
                "../common/deep/more.prompty" => more,
                "../common/deep/../all.yaml" => "seed: 3",
                _ => return None,
            };
            Some(text.to_owned())
        };
        let flow = Prompty::parse("a.prompty", top).unwrap().flow("a.prompty", read).unwrap();
        let samples: Vec<Value> = flow.inputs.iter().filter_map(|it| it.sample.clone()).collect();
        assert_eq!(samples, [json!("Ana"), json!("Rio")]);
        let node = &flow.nodes[0];
        assert_eq!(node.api.as_deref(), Some("completion"));
        let parameters = Value::from(node.prompty.clone().unwrap().parameters);
        assert_eq!(
            parameters,
            json!({"temperature": 0.1, "stop": "END", "max_tokens": 9, "seed": 3, "model": "m-1"})
        );
        let round = "---\nbase: a.prompty\n---\nx";
        let error = Prompty::parse("a", round).unwrap().flow("a", |_| Some(round.to_owned()));
        assert!(error.unwrap_err().to_string().contains("more than 8"));
        let names = references(top).into_iter().chain(references(base)).map(|one| one.name);
        let named = ["../common/base.prompty", "deep/more.prompty", "city.json"];
        assert_eq!(names.collect::<Vec<_>>(), named);
    }

    #[test]
    fn a_reference_that_cannot_be_followed_is_refused_by_its_name() {
        let with = |front: &str| {
            let text = format!("---\n{front}\n---\nuser:\nhello\n");
            Prompty::parse("a", &text).unwrap().flow("a", |_| None)
        };
        for (front, named) in [
            ("model: {parameters: {temperature: '${env:T}'}}", "${env:T}"),
            ("model: m\ninputs: [{name: a, default: '${env:T}'}]", "${env:T}"),
            ("model: {parameters: {user: '${vault:me}'}}", "vault"),
            ("model: {api: embedding}", "embedding cannot run here"),
            ("model: {api: image}", "image cannot run here"),
            // The parameters of this edition are those of the protocol, and this is another one.
            ("model: {api: responses}", "responses cannot run here"),
            ("model: {api: [chat]}", "model.api"),
            ("model: m\ntools: ${file:tools.json}", "tools.json"),
            ("base: [1]", "base"),
            ("base: b.prompty", "b.prompty"),
        ] {
            let error = with(front).unwrap_err().to_string();
            assert!(error.contains(named), "{front}: {error}");
        }
        for front in [
            "description: ${env:T}\nmodel: {configuration: {api_key: '${env:K}', x: '${vault:y}'}}",
            "model: {id: '${env:MODEL}', connection: {apiKey: '${env:K}'}}",
            "model: {api: chat}\ninputs: {a: {type: string}}\nsample: ${file:gone.json}",
            "model: {api: chat}\nsample: {a: '${not a reference}', b: 'file:not one'}",
        ] {
            with(front).unwrap();
        }
    }

    #[test]
    fn paths_above_the_pack_have_a_place_in_it() {
        for (from, name, path) in [
            ("a.prompty", "x.json", Some("x.json")),
            ("a.prompty", "./b/../x.json", Some("x.json")),
            ("a.prompty", "../x.json", Some("_above/x.json")),
            ("in/a.prompty", "../x.json", Some("x.json")),
            ("in/a.prompty", "../../c/x.json", Some("_above/c/x.json")),
            ("_above/c/a.prompty", "../../x.json", Some("_above/_above/x.json")),
            ("a.prompty", "/etc/passwd", None),
            ("a.prompty", ".", None),
        ] {
            assert_eq!(path_in_pack(from, name).as_deref(), path, "{from} {name}");
        }
    }

    #[test]
    fn a_prompty_file_needs_front_matter() {
        assert!(Prompty::parse("a", "system:\nhello").is_err());
        assert!(Prompty::parse("a", "---\n- 1\n---\nx").is_err());
    }
}
