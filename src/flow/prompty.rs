//! Prompty files: YAML front matter and a template, a whole flow in one file.
//!
//! Read are `inputs`, `outputs`, `sample`, and of `model` the `api`, the name and the `parameters`, which
//! are sent unchanged. With `response_format` `json_object` the answer is read as JSON, and its members
//! are the outputs: those the file declares, else all. With `response: all` the output is the unchanged
//! reply of the server. Ignored are the connection in `configuration` (the provider comes from our
//! configuration, and a file cannot ask for environment variables) and `stream`, which does not change
//! the answer. A file of the second edition is read as the first ([`prompty_v2`]).

use serde_json::{Map, Value};

use super::dag::{BadFlow, Binding, FlowFile, InputDef, Node, OutputDef, PromptyCall, ValueType};
use super::{prompty_v2, yaml};
use crate::registry::PackFiles;

/// Name of the one node of a prompty flow.
pub(crate) const NODE: &str = "prompty";

/// The text of a file of the pack by its path from the folder of the flow file.
pub fn beside(files: &PackFiles, entry: &str, name: &str) -> Option<String> {
    let folder = entry.rsplit_once('/').map_or(String::new(), |(folder, _)| format!("{folder}/"));
    let path = crate::registry::clean_path(&format!("{folder}{name}")).ok()?;
    let bytes = files.get(&path).ok()??;
    String::from_utf8(bytes.to_vec()).ok()
}

/// A prompty file taken apart.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Prompty {
    pub template: String,
    pub config: Map<String, Value>,
}

impl Prompty {
    /// Takes a file apart.
    pub fn parse(path: &str, text: &str) -> Result<Prompty, BadFlow> {
        let text = text.replace("\r\n", "\n").replace('\r', "\n");
        let text = text.trim_start_matches('\u{feff}').trim_start();
        let parts = text.strip_prefix("---").and_then(|rest| {
            let (_, rest) = rest.split_once('\n')?;
            let (front, rest) = rest.split_once("\n---")?;
            Some((front, rest.split_once('\n').map_or("", |(_, body)| body)))
        });
        let (front, body) =
            parts.ok_or_else(|| BadFlow::new(path, "no front matter between lines of `---`"))?;
        let config = yaml::parse(front).map_err(|error| BadFlow::new(path, error.0))?;
        let Value::Object(config) = config else {
            return Err(BadFlow::new(path, "the front matter is no mapping"));
        };
        Ok(Prompty { template: body.to_owned(), config })
    }

    /// The same with the files it refers to; a sample counts only where no inputs are declared.
    fn with_files(
        &self,
        path: &str,
        read: impl Fn(&str) -> Option<String>,
    ) -> Result<Prompty, BadFlow> {
        let mut prompty = self.clone();
        let has_inputs = prompty.config.contains_key("inputs");
        for (name, value) in &mut prompty.config {
            let inserted = insert_files(value, &format!("{path}: {name}"), &read);
            // A sample beside declared inputs is only an example, and may be elsewhere.
            match has_inputs && name == "sample" {
                true => drop(inserted),
                false => inserted?,
            }
        }
        let is_second = prompty_v2::is_second_edition(&prompty.config);
        if is_second {
            prompty.config = prompty_v2::as_first_edition(path, &prompty.config)?;
        }
        prompty.check_engine(path)?;
        if is_second && !prompty.config.contains_key("inputs") {
            prompty.name_inputs();
        }
        Ok(prompty)
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
    pub fn flow(
        &self,
        path: &str,
        read: impl Fn(&str) -> Option<String>,
    ) -> Result<FlowFile, BadFlow> {
        let prompty = self.with_files(path, read)?;
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
            let kind = ValueType::from_name(kind)
                .ok_or_else(|| BadFlow::new(format!("{path}: inputs.{name}"), "unknown type"))?;
            let default =
                declared.and_then(|_| body.get("default")).filter(|v| !v.is_null()).cloned();
            let sample = sample.and_then(|sample| sample.get(name)).cloned();
            let name = name.clone();
            inputs.push(InputDef { name, kind, default, sample, is_chat_history: false });
        }
        Ok(inputs)
    }
}

/// Puts the content of a file where `${file:name.json}` stands: JSON and YAML as values, anything else as text.
fn insert_files(
    value: &mut Value,
    place: &str,
    read: &impl Fn(&str) -> Option<String>,
) -> Result<(), BadFlow> {
    match value {
        Value::String(text) => {
            let name = text.strip_prefix("${file:").and_then(|rest| rest.strip_suffix('}'));
            let Some(name) = name else { return Ok(()) };
            let bad = |what: String| BadFlow::new(place, what);
            let text =
                read(name).ok_or_else(|| bad(format!("there is no file {name} in the pack")))?;
            let is_data = [".json", ".yml", ".yaml"].iter().any(|end| name.ends_with(end));
            *value = match is_data {
                true => yaml::parse(&text).map_err(|error| bad(format!("{name}: {}", error.0)))?,
                false => text.into(),
            };
        }
        Value::Array(items) => {
            items.iter_mut().try_for_each(|item| insert_files(item, place, read))?;
        }
        Value::Object(members) => {
            members.iter_mut().try_for_each(|(_, member)| insert_files(member, place, read))?;
        }
        _ => {}
    }
    Ok(())
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
        let file = "---\nmodel: {}\nsample: ${file:s.json}\n---\nuser:\n{{a}}";
        let prompty = Prompty::parse("a", file).unwrap();
        let sample = |name: &str| (name == "s.json").then(|| r#"{"a": 1, "b": []}"#.to_owned());
        let inputs = prompty.flow("a", sample).unwrap().inputs;
        let kinds: Vec<ValueType> = inputs.iter().map(|input| input.kind).collect();
        assert_eq!(kinds, [ValueType::Int, ValueType::List]);
        assert!(prompty.flow("a", |_| None).unwrap_err().to_string().contains("s.json"));
    }

    #[test]
    fn a_prompty_file_needs_front_matter() {
        assert!(Prompty::parse("a", "system:\nhello").is_err());
        assert!(Prompty::parse("a", "---\n- 1\n---\nx").is_err());
    }
}
