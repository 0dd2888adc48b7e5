//! Prompty files (first edition): YAML front matter and a template, a whole flow in one file.
//!
//! Read: `inputs`, `outputs`, `sample`, and of `model` the `api`, the name and the `parameters`. Not read:
//! the connection in `configuration` (the provider comes from our configuration, and a file cannot
//! ask for environment variables).

use serde_json::{Map, Value};

use super::dag::{BadFlow, Binding, FlowFile, InputDef, Node, OutputDef, ValueType};
use super::yaml;

/// Name of the one node of a prompty flow.
pub const NODE: &str = "prompty";

/// A prompty file taken apart.
#[derive(Debug, Clone, PartialEq)]
pub struct Prompty {
    /// The template.
    pub template: String,
    /// The front matter.
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

    /// Parameters of the model as inputs of a node.
    pub fn parameters(&self) -> Vec<(String, Binding)> {
        let model = self.config.get("model");
        let parameters = model.and_then(|model| model.get("parameters")).and_then(Value::as_object);
        let mut inputs: Vec<(String, Binding)> = parameters
            .into_iter()
            .flatten()
            .map(|(key, value)| (key.clone(), Binding::Literal(value.clone())))
            .collect();
        let configuration = model.and_then(|model| model.get("configuration"));
        let name = ["azure_deployment", "model"]
            .into_iter()
            .find_map(|key| configuration.and_then(|configuration| configuration.get(key)));
        if let Some(name) = name.and_then(Value::as_str).filter(|name| !name.starts_with("${")) {
            inputs.push(("model".to_owned(), Binding::Literal(name.into())));
        }
        inputs
    }

    /// The file as a flow of one model node.
    pub fn flow(&self, path: &str) -> Result<FlowFile, BadFlow> {
        let inputs = self.inputs(path)?;
        let mut bindings = self.parameters();
        bindings.extend(
            inputs.iter().map(|input| (input.name.clone(), Binding::Input(input.name.clone()))),
        );
        let api = self.config.get("model").and_then(|model| model.get("api"));
        let node = Node {
            name: NODE.to_owned(),
            kind: "llm".to_owned(),
            source_type: "code".to_owned(),
            path: Some(path.to_owned()),
            inputs: bindings,
            api: api.and_then(Value::as_str).map(str::to_owned),
            activate: None,
            aggregation: false,
            use_variants: false,
        };
        let reference = Binding::Node {
            node: NODE.to_owned(),
            section: "output".to_owned(),
            property: String::new(),
        };
        let output = OutputDef { name: "output".to_owned(), kind: "string".to_owned(), reference };
        Ok(FlowFile {
            inputs,
            outputs: vec![output],
            nodes: vec![node],
            variants: Default::default(),
            additional_includes: Vec::new(),
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
            inputs.push(InputDef { name: name.clone(), kind, default, is_chat_history: false });
        }
        Ok(inputs)
    }
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
        let flow = prompty.flow("a.prompty").unwrap();
        assert_eq!(flow.inputs[1].default, Some(json!(3)));
        let node = &flow.nodes[0];
        assert_eq!(node.input("max_tokens"), Some(&Binding::Literal(json!(128))));
        assert_eq!(node.input("model"), Some(&Binding::Literal(json!("small-one"))));
        assert_eq!(node.input("first"), Some(&Binding::Input("first".into())));
    }

    #[test]
    fn no_front_matter_is_no_prompty() {
        assert!(Prompty::parse("a", "system:\nhello").is_err());
        assert!(Prompty::parse("a", "---\n- 1\n---\nx").is_err());
    }
}
