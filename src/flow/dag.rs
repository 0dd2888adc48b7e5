//! The flow file as data: inputs, outputs, nodes, variants, and what their references mean.
//!
//! Contract: the file means what it means in PromptFlow. A reference is a whole string (`${inputs.x}`, its old form
//! `${flow.x}`, `${node}`, `${node.output}`, `${node.output.prop['k'][0]}`); anything else is a
//! literal, and nothing is interpolated inside longer strings. Unknown keys, of nodes too, are
//! tolerated. Structure that cannot be read is refused, with its place in the file.
//!
//! Deliberately not here: the order of nodes, and whether the target of a reference exists (`plan`).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{pictures, pyvalue};

/// Most nodes in a flow.
pub(crate) const NODES_MAX: usize = 500;

/// A part of the flow file cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("read the flow: {place}: {what}")]
pub struct BadFlow {
    /// Where, such as `nodes.chat.activate`.
    pub place: String,
    pub what: String,
}

impl BadFlow {
    pub(crate) fn new(place: impl Into<String>, what: impl Into<String>) -> BadFlow {
        BadFlow { place: place.into(), what: what.into() }
    }
}

/// PromptFlow's value types.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ValueType {
    Int,
    Double,
    Bool,
    /// Text.
    String,
    List,
    /// Object, or a string that is not JSON.
    Object,
    /// A picture, which only programs can take.
    Image,
    /// `secret`, `prompt_template`, `file_path`, `assistant_definition`: not converted.
    Other,
}

/// A value is not of the declared type.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the value is not of type {wanted}")]
pub(crate) struct WrongType {
    pub wanted: &'static str,
}

impl ValueType {
    /// The type with this name.
    pub(crate) fn from_name(name: &str) -> Option<ValueType> {
        Some(match name {
            "int" => ValueType::Int,
            "double" => ValueType::Double,
            "bool" => ValueType::Bool,
            "string" => ValueType::String,
            "list" => ValueType::List,
            "object" => ValueType::Object,
            "image" => ValueType::Image,
            "secret" | "prompt_template" | "file_path" | "assistant_definition" => ValueType::Other,
            _ => return None,
        })
    }

    /// The type that a file names for an input.
    pub(crate) fn of_input(name: &str, place: &str) -> Result<ValueType, BadFlow> {
        let unknown = || BadFlow::new(place, format!("unknown type {name}"));
        ValueType::from_name(name).ok_or_else(unknown)
    }

    /// The name of the type.
    pub fn name(self) -> &'static str {
        match self {
            ValueType::Int => "int",
            ValueType::Double => "double",
            ValueType::Bool => "bool",
            ValueType::String => "string",
            ValueType::List => "list",
            ValueType::Object => "object",
            ValueType::Image => "image",
            ValueType::Other => "any",
        }
    }

    /// Converts a value the way PromptFlow does.
    pub(crate) fn coerce(self, value: Value) -> Result<Value, WrongType> {
        let wrong = WrongType { wanted: self.name() };
        match self {
            ValueType::Int => pyvalue::to_int(&value).ok_or(wrong),
            ValueType::Double => pyvalue::to_float(&value).ok_or(wrong),
            ValueType::Bool => match &value {
                Value::Bool(_) => Ok(value),
                Value::String(text) if text.eq_ignore_ascii_case("true") => Ok(true.into()),
                Value::String(text) if text.eq_ignore_ascii_case("false") => Ok(false.into()),
                _ => Err(wrong),
            },
            ValueType::String => Ok(match value {
                Value::String(_) => value,
                other => pyvalue::to_str(&other).into(),
            }),
            ValueType::List => match value {
                Value::Array(_) => Ok(value),
                Value::String(text) => {
                    serde_json::from_str(&text).ok().filter(Value::is_array).ok_or(wrong)
                }
                _ => Err(wrong),
            },
            ValueType::Object => Ok(match value {
                Value::String(text) => serde_json::from_str(&text).unwrap_or(Value::String(text)),
                other => other,
            }),
            ValueType::Image => pictures::picture(value).ok_or(wrong),
            ValueType::Other => Ok(value),
        }
    }
}

/// Where the value of an input comes from.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Binding {
    /// It is written in the flow.
    Literal(Value),
    /// An input of the flow.
    Input(String),
    /// The output of a node, or something inside it.
    Node {
        node: String,
        /// The section of the node; only `output` exists.
        section: String,
        /// The property path inside the output; empty for the whole output.
        property: String,
    },
}

impl Binding {
    pub(crate) fn parse(value: &Value) -> Binding {
        let inside = value
            .as_str()
            .and_then(|text| text.strip_prefix("${")?.strip_suffix('}'))
            .filter(|inside| !inside.is_empty());
        let Some(inside) = inside else { return Binding::Literal(value.clone()) };
        for prefix in ["flow.", "inputs."] {
            if let Some(name) = inside.strip_prefix(prefix) {
                return Binding::Input(name.to_owned());
            }
        }
        let (node, port) = inside.split_once('.').unwrap_or((inside, "output"));
        let (section, property) = port.split_once('.').unwrap_or((port, ""));
        let (node, section) = (node.to_owned(), section.to_owned());
        Binding::Node { node, section, property: property.to_owned() }
    }

    /// The node it reads, if any.
    pub(crate) fn node(&self) -> Option<&str> {
        match self {
            Binding::Node { node, .. } => Some(node),
            _ => None,
        }
    }

    /// True for a literal that PromptFlow treats as not given.
    pub(crate) fn is_blank_literal(&self) -> bool {
        matches!(self, Binding::Literal(Value::Null))
            || matches!(self, Binding::Literal(Value::String(text)) if text.is_empty())
    }
}

/// A property path names no value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("read `{property}` of the output of {node}: it does not exist")]
pub(crate) struct NoSuchProperty {
    pub node: String,
    pub property: String,
}

/// Whether an include leads out of the folder of its flow.
pub(super) fn is_outside(include: &str) -> bool {
    crate::registry::clean_path(include).is_err()
}

/// The name of an include beside the flow.
pub(super) fn last_part(include: &str) -> String {
    include.trim_end_matches('/').rsplit('/').next().unwrap_or_default().to_owned()
}

/// Follows a property path into the output of a node.
pub(super) fn follow(node: &str, value: &Value, property: &str) -> Result<Value, NoSuchProperty> {
    let mut here = value;
    for step in property_steps(property) {
        let next = match (&step, here) {
            (Step::Index(index), Value::Array(items)) => items.get(*index),
            (Step::Name(name), Value::Object(members)) => members.get(name),
            _ => None,
        };
        here = next.ok_or_else(|| NoSuchProperty {
            node: node.to_owned(),
            property: property.to_owned(),
        })?;
    }
    Ok(here.clone())
}

#[derive(Debug, PartialEq)]
enum Step {
    Name(String),
    Index(usize),
}

/// The parts `\w+`, `['…']` and `[0]`; whatever else stands between them is skipped, as a search
/// for a pattern would.
fn property_steps(property: &str) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut rest = property;
    while let Some(first) = rest.chars().next() {
        if let Some((step, after)) = bracket_step(rest) {
            steps.push(step);
            rest = after;
        } else if is_word(first) {
            let end = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
            steps.push(Step::Name(rest[..end].to_owned()));
            rest = &rest[end..];
        } else {
            rest = &rest[first.len_utf8()..];
        }
    }
    steps
}

fn bracket_step(text: &str) -> Option<(Step, &str)> {
    let inside = text.strip_prefix('[')?;
    if let Some(quoted) = inside.strip_prefix('\'') {
        let (name, after) = quoted.split_once("']")?;
        return Some((Step::Name(name.to_owned()), after));
    }
    let (digits, after) = inside.split_once(']')?;
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    Some((Step::Index(digits.parse().ok()?), after))
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct InputDef {
    pub name: String,
    pub kind: ValueType,
    /// Value when the caller gives no value.
    pub default: Option<Value>,
    /// An example of its value, for a run that is given no inputs at all.
    pub(crate) sample: Option<Value>,
    /// Whether it carries the earlier turns of a chat.
    pub is_chat_history: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct OutputDef {
    pub name: String,
    /// Type; not enforced, as in PromptFlow.
    pub kind: String,
    /// Where it comes from.
    pub reference: Binding,
}

/// When a node runs.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Activate {
    /// The value looked at.
    pub when: Binding,
    /// What it must equal.
    pub is: Value,
}

/// A node as the file has it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Node {
    /// Name, unique in the flow.
    pub name: String,
    /// `llm`, `prompt`, `python` and others.
    pub kind: String,
    /// `code`, `package`, `package_with_prompt`, or whatever the file says.
    pub source_type: String,
    /// File of the template or program.
    pub path: Option<String>,
    /// Name of the tool of a package.
    pub tool: Option<String>,
    pub inputs: Vec<(String, Binding)>,
    /// `chat` or `completion`.
    pub api: Option<String>,
    pub activate: Option<Activate>,
    /// Whether it runs once over all lines.
    pub aggregation: bool,
    /// Whether its body is chosen among variants.
    pub use_variants: bool,
    /// How a prompty file asks; `None` for a node of a flow file.
    pub prompty: Option<PromptyCall>,
}

/// The settings of a prompty file besides its template.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PromptyCall {
    /// Parameters of the call. An input of the same name is only a value of the template.
    pub parameters: Map<String, Value>,
    /// Whether the answer is read as JSON, whose members are the outputs.
    pub json: bool,
    /// Whether the unchanged reply of the server is the output.
    pub all: bool,
}

impl Node {
    /// The binding of an input.
    pub(crate) fn input(&self, name: &str) -> Option<&Binding> {
        self.inputs.iter().find(|(key, _)| key == name).map(|(_, binding)| binding)
    }
}

/// The variants of one node.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Variants {
    /// The variant that runs by default.
    pub(crate) default_id: String,
    /// Node bodies by id.
    pub bodies: BTreeMap<String, Node>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct FlowFile {
    pub inputs: Vec<InputDef>,
    pub outputs: Vec<OutputDef>,
    pub nodes: Vec<Node>,
    /// Variants by node.
    pub variants: BTreeMap<String, Variants>,
    /// Paths of files to be copied next to the flow.
    pub(crate) additional_includes: Vec<String>,
    /// Environment variables of its programs.
    pub(crate) environment: Map<String, Value>,
}

impl FlowFile {
    /// Reads a flow from its YAML value.
    pub(super) fn from_value(value: &Value) -> Result<FlowFile, BadFlow> {
        let root = value.as_object().ok_or_else(|| BadFlow::new("file", "not a mapping"))?;
        if root.contains_key("entry") && !root.contains_key("nodes") {
            return Err(BadFlow::new("entry", "a flow that is a Python program cannot run here"));
        }
        if root.get("language").and_then(Value::as_str).is_some_and(|name| name != "python") {
            return Err(BadFlow::new("language", "only python flows can run here"));
        }
        let nodes = list(root.get("nodes"), "nodes")?;
        if nodes.len() > NODES_MAX {
            return Err(BadFlow::new("nodes", format!("more than {NODES_MAX}")));
        }
        let nodes = nodes.iter().enumerate().map(|(index, node)| read_node(node, None, index));
        Ok(FlowFile {
            inputs: read_inputs(root)?,
            outputs: read_outputs(root)?,
            nodes: nodes.collect::<Result<_, _>>()?,
            variants: read_variants(root)?,
            additional_includes: list(root.get("additional_includes"), "additional_includes")?
                .iter()
                .map(pyvalue::to_str)
                .collect(),
            environment: read_environment(root.get("environment_variables"))?,
        })
    }

    /// The declared input with this name.
    pub(super) fn input(&self, name: &str) -> Option<&InputDef> {
        self.inputs.iter().find(|input| input.name == name)
    }
}

fn list<'a>(value: Option<&'a Value>, place: &str) -> Result<&'a [Value], BadFlow> {
    match value {
        None | Some(Value::Null) => Ok(&[]),
        Some(Value::Array(items)) => Ok(items),
        Some(_) => Err(BadFlow::new(place, "not a list")),
    }
}

fn mapping<'a>(
    value: Option<&'a Value>,
    place: &str,
) -> Result<Vec<(&'a String, &'a Value)>, BadFlow> {
    match value {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::Object(members)) => Ok(members.iter().collect()),
        Some(_) => Err(BadFlow::new(place, "not a mapping")),
    }
}

fn text(members: &Map<String, Value>, key: &str) -> Option<String> {
    members.get(key).filter(|value| !value.is_null()).map(pyvalue::to_str)
}

fn flag(members: &Map<String, Value>, key: &str) -> bool {
    matches!(members.get(key), Some(Value::Bool(true)))
}

fn read_inputs(root: &Map<String, Value>) -> Result<Vec<InputDef>, BadFlow> {
    let mut inputs = Vec::new();
    for (name, body) in mapping(root.get("inputs"), "inputs")? {
        let place = format!("inputs.{name}");
        let body = body.as_object().ok_or_else(|| BadFlow::new(&place, "not a mapping"))?;
        let kind = text(body, "type").ok_or_else(|| BadFlow::new(&place, "no type"))?;
        let kind = ValueType::of_input(&kind, &place)?;
        inputs.push(InputDef {
            name: name.clone(),
            kind,
            default: body.get("default").filter(|value| !value.is_null()).cloned(),
            sample: None,
            is_chat_history: flag(body, "is_chat_history"),
        });
    }
    Ok(inputs)
}

fn read_outputs(root: &Map<String, Value>) -> Result<Vec<OutputDef>, BadFlow> {
    let mut outputs = Vec::new();
    for (name, body) in mapping(root.get("outputs"), "outputs")? {
        let place = format!("outputs.{name}");
        let body = body.as_object().ok_or_else(|| BadFlow::new(&place, "not a mapping"))?;
        let reference = body.get("reference").map_or(Binding::Literal(Value::Null), Binding::parse);
        if reference.is_blank_literal() {
            return Err(BadFlow::new(place, "the reference is empty"));
        }
        let kind = text(body, "type").unwrap_or_else(|| "string".to_owned());
        outputs.push(OutputDef { name: name.clone(), kind, reference });
    }
    Ok(outputs)
}

fn read_node(value: &Value, name: Option<&str>, index: usize) -> Result<Node, BadFlow> {
    let place = match name {
        Some(name) => format!("node_variants.{name}"),
        None => format!("nodes[{index}]"),
    };
    let body = value.as_object().ok_or_else(|| BadFlow::new(&place, "not a mapping"))?;
    let name = match name {
        Some(name) => name.to_owned(),
        None => text(body, "name").ok_or_else(|| BadFlow::new(&place, "no name"))?,
    };
    let place = format!("nodes.{name}");
    let source = body.get("source").and_then(Value::as_object);
    let source_text = |key| source.and_then(|source| text(source, key));
    let inputs = mapping(body.get("inputs"), &format!("{place}.inputs"))?;
    Ok(Node {
        kind: text(body, "type").unwrap_or_default(),
        source_type: source_text("type").unwrap_or_else(|| "code".to_owned()),
        path: source_text("path"),
        tool: source_text("tool"),
        inputs: inputs.into_iter().map(|(key, v)| (key.clone(), Binding::parse(v))).collect(),
        api: text(body, "api"),
        activate: read_activate(body, &place)?,
        aggregation: flag(body, "aggregation") || flag(body, "reduce"),
        use_variants: flag(body, "use_variants"),
        prompty: None,
        name,
    })
}

fn read_activate(body: &Map<String, Value>, place: &str) -> Result<Option<Activate>, BadFlow> {
    let Some(activate) = body.get("activate").filter(|value| !value.is_null()) else {
        return Ok(None);
    };
    let (when, is) = (activate.get("when"), activate.get("is"));
    let (Some(when), Some(is)) = (when, is) else {
        return Err(BadFlow::new(format!("{place}.activate"), "needs both `when` and `is`"));
    };
    Ok(Some(Activate { when: Binding::parse(when), is: is.clone() }))
}

fn read_variants(root: &Map<String, Value>) -> Result<BTreeMap<String, Variants>, BadFlow> {
    let mut all = BTreeMap::new();
    for (name, body) in mapping(root.get("node_variants"), "node_variants")? {
        let place = format!("node_variants.{name}");
        let mut bodies = BTreeMap::new();
        for (id, variant) in mapping(body.get("variants"), &format!("{place}.variants"))? {
            let node = variant
                .get("node")
                .ok_or_else(|| BadFlow::new(format!("{place}.variants.{id}"), "no node"))?;
            bodies.insert(id.clone(), read_node(node, Some(name), 0)?);
        }
        let default_id = body.get("default_variant_id").map(pyvalue::to_str).unwrap_or_default();
        all.insert(name.clone(), Variants { default_id, bodies });
    }
    Ok(all)
}

/// The variables that a flow sets for its programs. The environment of the caller is no source of them.
pub(super) fn read_environment(given: Option<&Value>) -> Result<Map<String, Value>, BadFlow> {
    let mut variables = Map::new();
    for (name, value) in mapping(given, "environment_variables")? {
        let value = pyvalue::to_str(value);
        if value.contains("${env:") {
            let what = format!(
                "{value} asks for the environment, which a flow file cannot read; write the value, set \
                 {name} in `.env` beside the flow, or take it from a connection as ${{NAME.MEMBER}}"
            );
            return Err(BadFlow::new(format!("environment_variables.{name}"), what));
        }
        variables.insert(name.clone(), value.into());
    }
    Ok(variables)
}

/// Why a model cannot be asked in this way; `None` for a chat and a completion.
pub(super) fn unknown_api(api: &str) -> Option<String> {
    let is_known = matches!(api, "" | "chat" | "completion");
    (!is_known).then(|| format!("{api} cannot run here; only chat and completion can"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn node(node: &str, section: &str, property: &str) -> Binding {
        let [node, section, property] = [node, section, property].map(str::to_owned);
        Binding::Node { node, section, property }
    }

    #[test]
    fn a_reference_is_the_whole_string_or_nothing() {
        let parse = |text: &str| Binding::parse(&json!(text));
        assert_eq!(parse("${inputs.x}"), Binding::Input("x".into()));
        assert_eq!(parse("${flow.x}"), Binding::Input("x".into()));
        assert_eq!(parse("${n}"), node("n", "output", ""));
        assert_eq!(parse("${n.output}"), node("n", "output", ""));
        assert_eq!(parse("${n.output.a['b'][0]}"), node("n", "output", "a['b'][0]"));
        for literal in ["a ${inputs.x}", "${inputs.x} b", "${", "${}", "$x", "plain"] {
            assert_eq!(parse(literal), Binding::Literal(json!(literal)));
        }
        assert_eq!(Binding::parse(&json!(7)), Binding::Literal(json!(7)));
    }

    #[test]
    fn properties_are_followed_like_promptflow_does() {
        let value = json!({"a": {"b c": [10, {"d": true}]}});
        assert_eq!(follow("n", &value, "a['b c'][0]"), Ok(json!(10)));
        assert_eq!(follow("n", &value, "a['b c'][1].d"), Ok(json!(true)));
        assert_eq!(follow("n", &value, ""), Ok(value.clone()));
        for lost in ["x", "a.b", "a['b c'][9]", "a['b c'].d"] {
            assert!(follow("n", &value, lost).is_err(), "{lost}");
        }
    }

    #[test]
    fn types_convert_like_promptflow() {
        let ok = |kind: ValueType, value: Value| kind.coerce(value).unwrap();
        assert_eq!(ok(ValueType::Int, json!("256")), json!(256));
        assert_eq!(ok(ValueType::Double, json!("0.7")), json!(0.7));
        assert_eq!(ok(ValueType::Bool, json!("False")), json!(false));
        assert_eq!(ok(ValueType::String, json!([1, "a"])), json!("[1, 'a']"));
        assert_eq!(ok(ValueType::String, json!(null)), json!("None"));
        assert_eq!(ok(ValueType::List, json!("[1]")), json!([1]));
        assert_eq!(ok(ValueType::Object, json!("{\"a\": 1}")), json!({"a": 1}));
        assert_eq!(ok(ValueType::Object, json!("not json")), json!("not json"));
        assert!(ValueType::Bool.coerce(json!(1)).is_err());
        assert!(ValueType::List.coerce(json!("{}")).is_err());
        assert!(ValueType::Int.coerce(json!("x")).is_err());
    }

    #[test]
    fn unknown_keys_are_tolerated_and_bad_structure_is_named() {
        let flow = FlowFile::from_value(&json!({
            "new_thing": 1, "environment": {}, "node_variants": {},
            "nodes": [{"name": "a", "type": "llm", "surprise": {}, "source": {"type": "mystery", "path": "a.jinja2"}}]
        }))
        .unwrap();
        assert_eq!(flow.nodes[0].source_type, "mystery");
        for (value, place) in [
            (json!({"nodes": [{"type": "llm"}]}), "nodes[0]"),
            (json!({"inputs": {"x": {"type": "text"}}}), "inputs.x"),
            (json!({"outputs": {"x": {"type": "string", "reference": ""}}}), "outputs.x"),
            (json!({"nodes": [{"name": "a", "activate": {"when": "${b}"}}]}), "nodes.a.activate"),
            (json!({"entry": "m:f"}), "entry"),
            (json!([]), "file"),
        ] {
            assert_eq!(FlowFile::from_value(&value).unwrap_err().place, place);
        }
    }
}
