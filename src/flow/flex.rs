//! Flows that are Python programs: `entry: module:function` or `entry: module:Class`, as `flow.flex.yaml`
//! has them.
//!
//! Contract: such a flow is one Python node. Its inputs are the parameters of the function, or those of
//! `__init__` and `__call__` of the class, with the types and defaults that the flow file declares for
//! them. The program is not run to find them: its text is read. Where outputs are declared, the members of
//! the result are the outputs; else the output is the whole result, under the name `output`.
//!
//! Deliberately not here: running the program (`python`, `shim.py`).

use serde_json::{Map, Value};

use super::dag::{
    BadFlow, Binding, FlowFile, InputDef, Node, OutputDef, ValueType, read_environment,
};
use super::pyvalue;

/// How the node of such a flow says where its program comes from.
pub(super) const ENTRY: &str = "entry";
/// Name of its one node.
const NODE: &str = "entry";

/// Whether a flow file is of such a flow.
pub(super) fn is_flex(root: &Value) -> bool {
    root.get("entry").is_some_and(Value::is_string) && root.get("nodes").is_none()
}

/// The flow of a flow file. `read` gives the text of a program.
pub(super) fn flow(
    root: &Value,
    read: impl Fn(&str) -> Option<String>,
) -> Result<FlowFile, BadFlow> {
    if root.get("language").and_then(Value::as_str).is_some_and(|name| name != "python") {
        return Err(BadFlow::new("language", "only python flows can run here"));
    }
    let entry = root["entry"].as_str().unwrap_or_default();
    let (module, name) = entry.split_once(':').ok_or_else(|| {
        BadFlow::new("entry", format!("{entry} does not name a program and a function in it"))
    })?;
    let path = format!("{}.py", module.trim().replace('.', "/"));
    let name = name.trim();
    let source =
        read(&path).ok_or_else(|| BadFlow::new("entry", format!("there is no file {path}")))?;
    let mut inputs: Vec<InputDef> = Vec::new();
    for (part, function) in [("init", "__init__"), ("inputs", "__call__")] {
        let parameters = match has_class(&source, name) {
            true => parameters(&source, Some(name), function),
            false if part == "inputs" => parameters(&source, None, name),
            false => Vec::new(),
        };
        let declared = root.get(part).and_then(Value::as_object);
        let sample = root.get("sample").and_then(|sample| sample.get(part));
        let unknown = declared
            .into_iter()
            .flat_map(Map::keys)
            .filter(|name| !parameters.iter().any(|parameter| parameter.name == **name));
        let unknown = unknown.map(|name| Parameter { name: name.clone(), ..Parameter::default() });
        for parameter in parameters.iter().cloned().chain(unknown.collect::<Vec<_>>()) {
            let body = declared.and_then(|declared| declared.get(&parameter.name));
            let mut input = parameter.input(body);
            input.sample = sample.and_then(|sample| sample.get(&parameter.name)).cloned();
            if !inputs.iter().any(|known| known.name == input.name) {
                inputs.push(input);
            }
        }
    }
    let bindings =
        inputs.iter().map(|input| (input.name.clone(), Binding::Input(input.name.clone())));
    let node = Node {
        name: NODE.to_owned(),
        kind: "python".to_owned(),
        source_type: ENTRY.to_owned(),
        path: Some(path),
        tool: Some(name.to_owned()),
        inputs: bindings.collect(),
        api: None,
        activate: None,
        aggregation: false,
        use_variants: false,
        prompty: None,
    };
    let output = |name: &str, kind: &str, property: String| OutputDef {
        name: name.to_owned(),
        kind: kind.to_owned(),
        reference: Binding::Node { node: NODE.to_owned(), section: "output".to_owned(), property },
    };
    let declared = root.get("outputs").and_then(Value::as_object).filter(|all| !all.is_empty());
    let outputs = match declared {
        Some(outputs) => outputs
            .iter()
            .map(|(name, body)| {
                let kind = body.get("type").and_then(Value::as_str).unwrap_or("object");
                output(name, kind, format!("['{name}']"))
            })
            .collect(),
        None => vec![output("output", "object", String::new())],
    };
    Ok(FlowFile {
        inputs,
        outputs,
        nodes: vec![node],
        variants: Default::default(),
        additional_includes: root
            .get("additional_includes")
            .and_then(Value::as_array)
            .map(|all| all.iter().map(pyvalue::to_str).collect())
            .unwrap_or_default(),
        environment: read_environment(root.get("environment_variables"))?,
    })
}

/// A parameter of a Python function.
#[derive(Debug, Clone, Default, PartialEq)]
struct Parameter {
    name: String,
    annotation: String,
    has_default: bool,
}

impl Parameter {
    /// The input, with what the flow file says of it. A default of the program stays with the program.
    fn input(&self, body: Option<&Value>) -> InputDef {
        let declared = body.and_then(|body| body.get("type")).and_then(Value::as_str);
        let kind = match declared {
            Some(name) => ValueType::from_name(name).unwrap_or(ValueType::Other),
            None => annotated(&self.annotation),
        };
        let default = body.and_then(|body| body.get("default")).cloned();
        // PromptFlow takes an empty text for no default.
        let default = default.filter(|default| default != "" || !self.has_default);
        let default = default.or_else(|| self.has_default.then_some(Value::Null));
        let is_chat_history =
            body.and_then(|body| body.get("is_chat_history")) == Some(&Value::Bool(true));
        InputDef { name: self.name.clone(), kind, default, sample: None, is_chat_history }
    }
}

fn annotated(annotation: &str) -> ValueType {
    let plain = annotation.trim().trim_start_matches("typing.");
    let outer = plain.split('[').next().unwrap_or_default();
    match outer {
        "str" => ValueType::String,
        "int" => ValueType::Int,
        "float" => ValueType::Double,
        "bool" => ValueType::Bool,
        "list" | "List" => ValueType::List,
        "dict" | "Dict" | "" => ValueType::Object,
        _ => ValueType::Other,
    }
}

fn has_class(source: &str, name: &str) -> bool {
    class_body(source, name).is_some()
}

/// The lines of a class at the top level of a program.
fn class_body<'a>(source: &'a str, name: &str) -> Option<&'a str> {
    let mut at = 0;
    let mut start = None;
    for line in source.split_inclusive('\n') {
        let end = at + line.len();
        if let Some(start) = start {
            let is_top = line.starts_with(|c: char| !c.is_whitespace() && c != '#' && c != ')');
            if is_top {
                return Some(&source[start..at]);
            }
        } else if let Some(rest) = line.strip_prefix("class ").and_then(|l| l.strip_prefix(name)) {
            let ends = rest.trim_start().starts_with(['(', ':']);
            start = ends.then_some(end);
        }
        at = end;
    }
    start.map(|start| &source[start..])
}

/// The parameters of a function at the top level, or of a method of a class; none where it is not found.
fn parameters(source: &str, class: Option<&str>, function: &str) -> Vec<Parameter> {
    let text = match class {
        Some(class) => class_body(source, class).unwrap_or_default(),
        None => source,
    };
    let head = format!("def {function}");
    let found = text.match_indices(&head).find_map(|(at, _)| {
        let line = text[..at].rsplit('\n').next().unwrap_or_default();
        let is_start = matches!(line.trim(), "" | "async");
        let is_level = class.is_some() || line.is_empty() || line == "async ";
        let rest = text[at + head.len()..].trim_start().strip_prefix('(')?;
        (is_start && is_level).then_some(rest)
    });
    let pieces = found.map(pieces).unwrap_or_default();
    pieces.iter().filter_map(|piece| parameter(piece)).filter(|one| one.name != "self").collect()
}

/// The text up to the closing bracket, cut at its commas; comments are left out.
fn pieces(text: &str) -> Vec<String> {
    let (mut pieces, mut piece) = (Vec::new(), String::new());
    let (mut depth, mut quote, mut comment) = (0_usize, None, false);
    for c in text.chars() {
        match (quote, c) {
            _ if comment => comment = c != '\n',
            (Some(open), _) => {
                if c == open {
                    quote = None;
                }
                piece.push(c);
            }
            (None, '\'' | '"') => {
                quote = Some(c);
                piece.push(c);
            }
            (None, '#') => comment = true,
            (None, ')') if depth == 0 => break,
            (None, ',') if depth == 0 => pieces.push(std::mem::take(&mut piece)),
            (None, _) => {
                match c {
                    '(' | '[' | '{' => depth += 1,
                    ')' | ']' | '}' => depth = depth.saturating_sub(1),
                    _ => {}
                }
                piece.push(c);
            }
        }
    }
    pieces.push(piece);
    pieces
}

/// One parameter; `None` for `*`, `/`, `*args` and `**kwargs`.
fn parameter(piece: &str) -> Option<Parameter> {
    let mut depth = 0_i32;
    let equals = piece.char_indices().find(|(_, c)| {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            _ => {}
        }
        depth == 0 && *c == '='
    });
    let declaration = equals.map_or(piece, |(at, _)| &piece[..at]);
    let (name, annotation) = declaration.split_once(':').unwrap_or((declaration, ""));
    let name = name.trim();
    let is_name = !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_');
    is_name.then(|| Parameter {
        name: name.to_owned(),
        annotation: annotation.trim().trim_matches(['"', '\'']).to_owned(),
        has_default: equals.is_some(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const PROGRAM: &str = "import x\n\n\ndef helper(no): ...\n\n\nclass Talk(Base):\n    \"\"\"def __call__(self, wrong)\"\"\"\n    def __init__(self, model: ModelConfig, tone: str = \"a, b (c)\",  # how: to speak\n                 limits: Dict[str, int] = {\"a\": 1}):\n        self.tone = tone\n\n    async def __call__(\n        self, *, question: str, n: \"int\" = 3, more=None, **kwargs\n    ) -> dict:\n        return {}\n\n\ndef talk(question: str, days: List[int], /, any, *args):\n    return question\n";

    fn kinds(root: Value) -> Vec<(String, ValueType, Option<Value>)> {
        let flow =
            flow(&root, |path| (path == "pack/main.py").then(|| PROGRAM.to_owned())).unwrap();
        flow.inputs.into_iter().map(|input| (input.name, input.kind, input.default)).collect()
    }

    #[test]
    fn inputs_are_the_parameters_of_the_program() {
        let null = Some(Value::Null);
        let named = |name: &str, kind, default| (name.to_owned(), kind, default);
        assert_eq!(
            kinds(json!({"entry": "pack.main:talk"})),
            [
                named("question", ValueType::String, None),
                named("days", ValueType::List, None),
                named("any", ValueType::Object, None),
            ]
        );
        let class = json!({
            "entry": "pack.main:Talk", "init": {"tone": {"type": "string", "default": "warm"}},
            "inputs": {"n": {"type": "double"}, "extra": {"type": "bool"}, "more": {"default": ""}},
        });
        assert_eq!(
            kinds(class),
            [
                named("model", ValueType::Other, None),
                named("tone", ValueType::String, Some(json!("warm"))),
                named("limits", ValueType::Object, null.clone()),
                named("question", ValueType::String, None),
                named("n", ValueType::Double, null.clone()),
                named("more", ValueType::Object, null),
                named("extra", ValueType::Bool, None),
            ]
        );
    }

    #[test]
    fn an_invalid_entry_is_refused() {
        let refused = |root: Value| flow(&root, |_| None).unwrap_err().to_string();
        assert!(refused(json!({"entry": "main"})).contains("does not name a program"));
        assert!(refused(json!({"entry": "main:talk"})).contains("there is no file main.py"));
        assert!(refused(json!({"entry": "m:f", "language": "csharp"})).contains("python"));
        assert!(!is_flex(&json!({"entry": "m:f", "nodes": []})));
    }
}
