//! A flow pack ready to run: planned, its templates compiled, its schema compiled.
//!
//! Contract: made once from verified bytes and used by many threads. No file is read afterwards.
//! `prompt_hash` covers the flow file and every template, prompty file and schema the planned nodes
//! reach by path, with the request's parameters, as the service's contract says.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;
use std::path::Path;

use jsonschema::Validator;
use serde_json::{Map, Value};

use crate::model::builtin::fill::hints::Hints;

use super::connection_files::ConnectionFiles;
use super::dag::{BadFlow, Binding, FlowFile, InputDef, Node, ValueType};
use super::pack_facts::{PackFacts, is_name_of_text};
use super::pictures;
use super::plan::{self, Plan};
use super::project::{BadProjection, Form, Projection};
use super::prompty::Prompty;
use super::render::{TemplateError, Templates};
use super::small::SmallForm;
use super::source_ids::IdClaims;
use super::yaml;
use super::{dag, flex, parameters, python_variables as python};
use crate::contract::{json as canonical, schema};
use crate::registry::{FlowPackRecord, IoInput, PackError, PackFiles};

/// Why a pack cannot run.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// A path leaves the pack, or the pack differs from its record.
    #[error(transparent)]
    Pack(#[from] PackError),
    /// The flow file is invalid.
    #[error(transparent)]
    Flow(#[from] BadFlow),
    /// A template does not compile.
    #[error(transparent)]
    Template(#[from] TemplateError),
    /// The projection is invalid.
    #[error(transparent)]
    Projection(#[from] BadProjection),
    /// A file the flow names is not in the pack.
    #[error("find {path}, which {by} names: the pack has no such file")]
    Missing { path: String, by: String },
    /// A folder has several flows and no main one.
    #[error("choose a flow: the folder has {paths}; name one of these files")]
    Several { paths: String },
    /// A JSON file or a schema cannot be used.
    #[error("read {path}: {reason}")]
    Json { path: String, reason: String },
}

/// A compiled output schema.
#[derive(Debug)]
pub(crate) struct OutputSchema {
    pub value: Value,
    pub validator: Validator,
    /// Its canonical form, part of the hash of every call.
    pub canonical: String,
}

impl OutputSchema {
    fn compile(path: &str, bytes: &[u8]) -> Result<OutputSchema, LoadError> {
        let bad = |reason: String| LoadError::Json { path: path.to_owned(), reason };
        let value: Value = serde_json::from_slice(bytes).map_err(|error| bad(error.to_string()))?;
        // The function-call form wraps the schema of the arguments.
        let value = match value.get("parameters") {
            Some(parameters) if value.get("name").is_some() => parameters.clone(),
            _ => value,
        };
        OutputSchema::of(path, value)
    }

    /// The schema that a file holds.
    pub(crate) fn of(path: &str, value: Value) -> Result<OutputSchema, LoadError> {
        let bad = |reason: String| LoadError::Json { path: path.to_owned(), reason };
        let validator = schema::compile(&value).map_err(bad)?;
        let canonical = canonical::jcs(&value);
        Ok(OutputSchema { value, validator, canonical })
    }
}

/// What a node does.
#[derive(Debug)]
pub(crate) enum Step {
    /// Renders a template.
    Prompt { template: String },
    /// Asks the model.
    Llm {
        template: String,
        /// Whether it is a conversation.
        chat: bool,
    },
    /// A Python program that only forwards a prompt to a model. The model is asked directly.
    Wrapper {
        /// The schema of its answer.
        schema: Option<OutputSchema>,
    },
    /// Any other Python program.
    Python { path: String },
    /// Something that cannot run here.
    Unsupported { reason: String },
}

impl Step {
    /// Whether it puts its inputs into a text, which holds no pictures.
    pub(crate) fn makes_text(&self) -> bool {
        matches!(self, Step::Prompt { .. } | Step::Llm { .. } | Step::Wrapper { .. })
    }
}

/// Whether a prompt or a question has an input of the flow.
fn shows(plan: &Plan, steps: &BTreeMap<String, Step>, input: &str) -> bool {
    let takes = |binding: &Binding| matches!(binding, Binding::Input(name) if name == input);
    let mut nodes = plan.nodes.iter().chain(&plan.aggregation);
    nodes.any(|node| {
        steps.get(&node.name).is_some_and(Step::makes_text)
            && node.inputs.iter().any(|(_, binding)| takes(binding))
    })
}

/// A pack that can run.
#[derive(Debug)]
pub struct LoadedPack {
    facts: PackFacts,
    pub(crate) plan: Plan,
    pub(crate) steps: BTreeMap<String, Step>,
    pub(crate) templates: Templates,
    pub(crate) schema: Option<OutputSchema>,
    /// What a small model is asked for.
    pub(crate) small: Option<SmallForm>,
    /// The schema of its answer.
    pub(crate) small_schema: Option<OutputSchema>,
    pub(crate) id_claims: IdClaims,
    pub(crate) projection: Projection,
    pub(crate) hints: Option<Hints>,
    pub(crate) structured_node: Option<String>,
    pub(crate) python_files: Map<String, Value>,
    pub(crate) environment: Map<String, Value>,
    pub(super) connections: ConnectionFiles,
    pub(crate) folder: Option<std::path::PathBuf>,
    pub(crate) template_bytes: usize,
    /// Bytes of the longest prompt that a small model gets.
    pub(crate) small_bytes: usize,
    /// Bytes of the longest prompt of its own about a part of a long input.
    pub(crate) part_bytes: usize,
    variant_files: BTreeSet<String>,
}

impl Deref for LoadedPack {
    type Target = PackFacts;

    fn deref(&self) -> &PackFacts {
        &self.facts
    }
}

impl LoadedPack {
    /// What is known of it without running it.
    pub(crate) fn facts(&self) -> &PackFacts {
        &self.facts
    }

    /// Makes a pack ready. The files must be verified already.
    pub fn load(record: &FlowPackRecord, files: &PackFiles) -> Result<LoadedPack, LoadError> {
        Loader { record, files, aliases: BTreeMap::new(), used: BTreeSet::new() }.load()
    }

    /// Whether its answers name ids of the sources.
    pub(crate) fn asks_ids(&self) -> bool {
        let of_sources = |(_, given): (String, Option<&str>)| given.is_none();
        !self.is_imported && self.id_claims.pointers().any(of_sources)
    }

    /// The members of answers whose ids are checked, each with the input whose ids it may repeat.
    #[cfg(any(test, feature = "internals"))]
    pub fn checked_ids(&self) -> Vec<(String, Option<&str>)> {
        self.id_claims.pointers().collect()
    }

    /// The members of answers whose words must stand in a source.
    #[cfg(any(test, feature = "internals"))]
    pub fn checked_quotes(&self) -> Vec<String> {
        self.id_claims.quote_pointers().collect()
    }

    /// The schemas that its questions may have, in a fixed order.
    pub(crate) fn schemas(&self) -> impl Iterator<Item = &Value> {
        let wrappers = self.steps.values().filter_map(|step| match step {
            Step::Wrapper { schema } => schema.as_ref(),
            _ => None,
        });
        let all = self.schema.iter().chain(&self.small_schema).chain(wrappers);
        all.map(|schema| &schema.value)
    }

    /// The pack's `hints.json`.
    pub(crate) fn hints(&self) -> Option<&Hints> {
        self.hints.as_ref()
    }

    /// Warnings about the flow.
    pub fn warnings(&self) -> &[String] {
        &self.plan.warnings
    }

    /// Whether a prompt or a question has an input of the flow.
    pub(crate) fn shows_to_model(&self, input: &str) -> bool {
        shows(&self.plan, &self.steps, input)
    }

    /// True when a node reaches the file in some variant.
    pub(crate) fn in_other_variant(&self, path: &str) -> bool {
        self.variant_files.contains(path)
    }

    pub(crate) fn form(&self) -> Form {
        self.projection.form(self.schema.is_some())
    }
}

struct Loader<'a> {
    record: &'a FlowPackRecord,
    files: &'a PackFiles,
    /// Files that `additional_includes` puts next to the flow.
    aliases: BTreeMap<String, String>,
    /// Files that belong to the prompt.
    used: BTreeSet<String>,
}

impl Loader<'_> {
    fn load(mut self) -> Result<LoadedPack, LoadError> {
        let record = self.record;
        let flow = self.flow()?;
        self.aliases = self.includes(&flow)?;
        let mut plan = plan::plan(&flow, record.variant.as_deref())?;
        plan.warnings.extend(self.warnings_of_prompty()?);
        let projection = Projection::compile(self.files.get("projection.json")?)?;
        let mut templates = Templates::new(projection.undefined());
        let mut steps = BTreeMap::new();
        let mut template_bytes = 0;
        for node in plan.nodes.iter().chain(&plan.aggregation) {
            let step = self.step(&plan, node, &mut templates, &mut template_bytes)?;
            steps.insert(node.name.clone(), step);
        }
        let is_shown = |name: &str| shows(&plan, &steps, name);
        let is_picture = |input: &&InputDef| input.kind == ValueType::Image;
        let mut pictures = flow.inputs.iter().filter(is_picture);
        if let Some(input) = pictures.find(|input| is_shown(&input.name)) {
            return Err(BadFlow::new(format!("inputs.{}", input.name), pictures::REFUSED).into());
        }
        let hierarchy = projection.hierarchy();
        let mut part_bytes = 0;
        for path in hierarchy.leaf.iter().chain(&hierarchy.merge) {
            self.template(path, "projection.json", &mut templates, &mut template_bytes)?;
            part_bytes = part_bytes.max(self.template_text(path, "projection.json")?.len());
        }
        let schema = self.schema()?;
        let hints = self.json("hints.json")?.map(serde_json::from_value::<Hints>).transpose();
        let hints = hints.map_err(|error| LoadError::Json {
            path: "hints.json".to_owned(),
            reason: error.to_string(),
        })?;
        let structured_node = structured_node(&plan, &steps);
        let of_hints = |reason: String| LoadError::Json { path: "hints.json".to_owned(), reason };
        let whole = schema.as_ref().map(|schema| &schema.value);
        let small = SmallForm::of(hints.as_ref(), whole).map_err(of_hints)?;
        let short = small.as_ref().map(|small| small.schema.clone());
        let small_schema = short.map(|short| OutputSchema::of("hints.json", short)).transpose()?;
        let asks = structured_node.as_ref().and_then(|node| steps.get(node));
        let mut small_bytes = part_bytes;
        if let (Some(small), Some(Step::Llm { template, .. })) = (&small, asks) {
            let text = small.shorten(&self.template_text(template, "hints.json")?);
            small_bytes = small_bytes.max(text.len());
            // Only the node that writes the answer gets a shorter prompt.
            for (_, step) in
                steps.iter().filter(|(name, _)| Some(*name) != structured_node.as_ref())
            {
                if let Step::Llm { template, .. } | Step::Prompt { template } = step {
                    small_bytes =
                        small_bytes.max(self.template_text(template, "hints.json")?.len());
                }
            }
            templates.add(&SmallForm::template(template), &text)?;
        }
        let prompt_files = self
            .files
            .hashes()
            .filter(|(path, _)| self.used.contains(*path))
            .map(|(path, hash)| (path.to_owned(), hash))
            .collect();
        let connections = ConnectionFiles::of(self.files, &self.aliases);
        let runs_python = steps.values().any(|step| matches!(step, Step::Python { .. }));
        let facts = PackFacts {
            record: record.clone(),
            pack_hash: self.files.pack_hash(),
            main_input: main_input(record, &flow),
            inputs: flow.inputs.clone(),
            prompt_files,
            read_as_text: hints.iter().flat_map(|hints| hints.text.iter().cloned()).collect(),
            schemas: Vec::new(),
            variable_prefixes: variable_prefixes(&plan, &flow.environment),
            named_variables: if runs_python { connections.variables() } else { Vec::new() },
            has_output_schema: schema.is_some(),
            is_imported: !projection.is_declared(),
            has_node_variant: record
                .variant
                .as_deref()
                .is_some_and(|variant| plan::has_variant(&flow, variant)),
            aggregates: !plan.aggregation.is_empty(),
        };
        let mut pack = LoadedPack {
            facts,
            structured_node,
            python_files: python_files(self.files, &self.aliases),
            connections,
            folder: self.files.folder().map(Path::to_owned),
            variant_files: flow
                .variants
                .values()
                .flat_map(|variants| variants.bodies.values())
                .filter_map(|node| node.path.clone())
                .collect(),
            environment: flow.environment,
            plan,
            steps,
            templates,
            id_claims: schema
                .as_ref()
                .map(|schema| IdClaims::of(&schema.value, &projection))
                .unwrap_or_default(),
            schema,
            small,
            small_schema,
            projection,
            hints,
            template_bytes,
            small_bytes,
            part_bytes,
        };
        pack.facts.schemas = pack.schemas().cloned().collect();
        Ok(pack)
    }

    fn flow(&mut self) -> Result<FlowFile, LoadError> {
        let entry = &self.record.entry_dag;
        let text = self.prompt_text(entry, "the registry record")?;
        flow_of(entry, &text, self.files)
    }

    /// Warnings of a prompty file: members that nothing reads, and an image that other runtimes send as a
    /// picture.
    fn warnings_of_prompty(&mut self) -> Result<Vec<String>, LoadError> {
        let entry = &self.record.entry_dag;
        if !entry.ends_with(".prompty") {
            return Ok(Vec::new());
        }
        let template = self.template_text(entry, "the registry record")?;
        let text = self.prompt_text(entry, "the registry record")?;
        let mut warnings = Prompty::parse(entry, &text)?.unknown_members(entry);
        warnings.extend(pictures::image_mark(&template).map(|mark| {
            format!("{entry}: {mark} is sent as this text, because pictures are not supported")
        }));
        Ok(warnings)
    }

    fn includes(&self, flow: &FlowFile) -> Result<BTreeMap<String, String>, LoadError> {
        let mut aliases = BTreeMap::new();
        for include in &flow.additional_includes {
            if dag::is_outside(include) {
                // It came along under its own name when the folder was read.
                let name = dag::last_part(include);
                let inside = format!("{name}/");
                if !self.files.iter().any(|(file, _)| file == name || file.starts_with(&inside)) {
                    let by = "additional_includes".to_owned();
                    return Err(LoadError::Missing { path: include.clone(), by });
                }
                continue;
            }
            let path = crate::registry::clean_path(include)?;
            let name = path.rsplit('/').next().unwrap_or(&path).to_owned();
            let folder = format!("{path}/");
            let found: Vec<(String, String)> = self
                .files
                .iter()
                .filter_map(|(file, _)| match file.strip_prefix(&folder) {
                    Some(rest) => Some((format!("{name}/{rest}"), file.to_owned())),
                    None => (file == path).then(|| (name.clone(), file.to_owned())),
                })
                .collect();
            if found.is_empty() {
                let by = "additional_includes".to_owned();
                return Err(LoadError::Missing { path: include.clone(), by });
            }
            for (alias, file) in found {
                if alias != file && aliases.insert(alias.clone(), file).is_some() {
                    let what = format!("{alias} is included twice");
                    return Err(BadFlow::new("additional_includes", what).into());
                }
            }
        }
        Ok(aliases)
    }

    fn find(&self, path: &str, by: &str) -> Result<(String, &[u8]), LoadError> {
        let clean = crate::registry::clean_path(path)?;
        let real = self.aliases.get(&clean).cloned().unwrap_or(clean);
        match self.files.get(&real)? {
            Some(bytes) => Ok((real, bytes)),
            None => Err(LoadError::Missing { path: path.to_owned(), by: by.to_owned() }),
        }
    }

    /// The text of a file that belongs to the prompt.
    fn prompt_text(&mut self, path: &str, by: &str) -> Result<String, LoadError> {
        let (real, bytes) = self.find(path, by)?;
        let text = String::from_utf8(bytes.to_vec())
            .map_err(|_| LoadError::Json { path: real.clone(), reason: "not UTF-8".to_owned() })?;
        self.used.insert(real);
        Ok(text)
    }

    fn template(
        &mut self,
        path: &str,
        by: &str,
        templates: &mut Templates,
        bytes: &mut usize,
    ) -> Result<(), LoadError> {
        if templates.has(path) {
            return Ok(());
        }
        let text = self.template_text(path, by)?;
        *bytes += text.len();
        Ok(templates.add(path, &text)?)
    }

    /// The template in a file.
    fn template_text(&mut self, path: &str, by: &str) -> Result<String, LoadError> {
        let text = self.prompt_text(path, by)?;
        let template = match path.ends_with(".prompty") {
            true => Prompty::parse(path, &text)?.template,
            false => text,
        };
        if pictures::is_in(&template) {
            let what = format!("the template holds a picture; {}", pictures::REFUSED);
            return Err(BadFlow::new(path, what).into());
        }
        Ok(template)
    }

    fn step(
        &mut self,
        plan: &Plan,
        node: &Node,
        templates: &mut Templates,
        bytes: &mut usize,
    ) -> Result<Step, LoadError> {
        let unsupported = |reason: String| Ok(Step::Unsupported { reason });
        let by = format!("node {}", node.name);
        let path = node.path.clone();
        if let Some(tool) = node.tool.as_ref().filter(|_| node.source_type.starts_with("package")) {
            return unsupported(package_tool(tool));
        }
        match (node.kind.as_str(), path) {
            ("prompt", Some(template)) => {
                self.template(&template, &by, templates, bytes)?;
                // The function of PromptFlow that renders the template takes it under this name.
                if let Some(what) = reserved(&template, templates, |name| name == "template") {
                    return unsupported(what);
                }
                Ok(Step::Prompt { template })
            }
            ("llm", Some(template)) => {
                if let Some(what) = dag::unknown_api(node.api.as_deref().unwrap_or_default()) {
                    return unsupported(what);
                }
                self.template(&template, &by, templates, bytes)?;
                let chat = node.api.as_deref() != Some("completion");
                let is_reserved =
                    |name: &str| node.prompty.is_none() && parameters::is_reserved(name, chat);
                if let Some(what) = reserved(&template, templates, is_reserved) {
                    return unsupported(what);
                }
                Ok(Step::Llm { template, chat })
            }
            ("python", Some(path)) if node.source_type == "code" => {
                if is_wrapper(plan, node) {
                    return Ok(Step::Wrapper { schema: self.wrapper_schema(node)? });
                }
                self.find(&path, &by)?;
                Ok(Step::Python { path })
            }
            ("python", Some(path)) if node.source_type == flex::ENTRY => {
                self.find(&path, &by)?;
                Ok(Step::Python { path })
            }
            ("prompt" | "llm" | "python", None) => {
                Err(BadFlow::new(format!("nodes.{}", node.name), "no source path").into())
            }
            ("python", _) => unsupported(format!("a Python package tool ({})", node.source_type)),
            ("", _) => Err(BadFlow::new(format!("nodes.{}", node.name), "no type").into()),
            (kind, _) => unsupported(format!("a node of type {kind}")),
        }
    }

    fn wrapper_schema(&mut self, node: &Node) -> Result<Option<OutputSchema>, LoadError> {
        let Some(Binding::Literal(Value::String(path))) = node.input("schema_path") else {
            return Ok(None);
        };
        if path.is_empty() {
            return Ok(None);
        }
        let text = self.prompt_text(path, &format!("node {}", node.name))?;
        OutputSchema::compile(path, text.as_bytes()).map(Some)
    }

    fn schema(&mut self) -> Result<Option<OutputSchema>, LoadError> {
        let Some(path) = self.record.declared_outputs.output_schema_path.clone() else {
            return Ok(None);
        };
        let text = self.prompt_text(&path, "the registry record")?;
        OutputSchema::compile(&path, text.as_bytes()).map(Some)
    }

    fn json(&self, path: &str) -> Result<Option<Value>, LoadError> {
        let Some(bytes) = self.files.get(path)? else { return Ok(None) };
        serde_json::from_slice(bytes)
            .map(Some)
            .map_err(|error| LoadError::Json { path: path.to_owned(), reason: error.to_string() })
    }
}

/// Why a template cannot be filled: it uses names that stand for something else, as PromptFlow says too.
fn reserved(
    template: &str,
    templates: &Templates,
    is_reserved: impl Fn(&str) -> bool,
) -> Option<String> {
    let used = templates.names_used(template);
    let wrong: Vec<String> = used.into_iter().filter(|name| is_reserved(name)).collect();
    (!wrong.is_empty()).then(|| {
        let names = wrong.join(", ");
        format!(
            "{template} uses {names}, which a node has for its own parameters; give the value to the \
             template under another name"
        )
    })
}

/// Why a tool of a package cannot run, and what to write instead.
fn package_tool(tool: &str) -> String {
    let name = tool.to_ascii_lowercase();
    let asks = ["llm", "openai", "aoai"].iter().any(|sign| name.contains(sign));
    let instead = match asks && !name.contains("embed") {
        true => "use a node of type llm: the provider comes from the configuration",
        false => {
            "use a Python node with a program of the pack (source: {type: code, path: FILE.py}) that \
             does the same"
        }
    };
    format!(
        "the tool {tool} belongs to a Python package, and package tools do not run here; {instead}"
    )
}

/// Whether a Python node only forwards a prompt to a model: it reads a prompt node and names a model,
/// or its program is called `llm_wrapper.py`.
fn is_wrapper(plan: &Plan, node: &Node) -> bool {
    let from_prompt = node.input("prompt").and_then(Binding::node).is_some_and(|name| {
        plan.nodes.iter().any(|other| other.name == name && other.kind == "prompt")
    });
    let names_model = ["deployment_name", "model"].iter().any(|key| node.input(key).is_some());
    let file = node.path.as_deref().unwrap_or_default().rsplit('/').next().unwrap_or_default();
    from_prompt && (names_model || file == "llm_wrapper.py")
}

/// The model node whose unchanged answer is the first output of the flow.
fn structured_node(plan: &Plan, steps: &BTreeMap<String, Step>) -> Option<String> {
    let Binding::Node { node, property, .. } = &plan.outputs.first()?.reference else {
        return None;
    };
    let asks = matches!(steps.get(node), Some(Step::Llm { .. } | Step::Wrapper { .. }));
    (asks && property.is_empty()).then(|| node.clone())
}

/// What the environment variables of connections begin with: the names that the flow gives to Python nodes
/// and to its variables.
fn variable_prefixes(plan: &Plan, environment: &Map<String, Value>) -> Vec<String> {
    let nodes = plan.nodes.iter().chain(&plan.aggregation).filter(|node| node.kind == "python");
    let named = nodes.flat_map(|node| &node.inputs).filter_map(|(_, binding)| match binding {
        Binding::Literal(Value::String(name)) => python::variable_prefix(name),
        _ => None,
    });
    let of_variables = python::connections_of(environment).filter_map(python::variable_prefix);
    let prefixes: BTreeSet<String> = named.chain(of_variables).collect();
    prefixes.into_iter().collect()
}

/// The input that the record names; else the one that is the likeliest for a text. An input that is bound to something
/// else gets no text.
fn main_input(record: &FlowPackRecord, flow: &FlowFile) -> Option<String> {
    let declared = &record.io_contract.inputs;
    if let Some(input) = named_main_input(record) {
        return Some(input.name.clone());
    }
    let is_bound = |name: &str| declared.iter().any(|one| one.name == name && one.from.is_some());
    let is_required = |input: &&InputDef| {
        declared
            .iter()
            .find(|other| other.name == input.name)
            .map_or(input.default.is_none(), |d| d.required)
    };
    let usable =
        flow.inputs.iter().filter(|input| !input.is_chat_history && !is_bound(&input.name));
    let ranked = usable.filter_map(|input| {
        let kind = MAIN_KINDS.iter().position(|kind| *kind == input.kind)?;
        Some(((!is_name_of_text(&input.name), !is_required(&input), kind), input))
    });
    ranked.min_by_key(|(rank, _)| *rank).map(|(_, input)| input.name.clone())
}

/// Kinds of inputs that can get the texts of the sources.
pub(super) const MAIN_KINDS: [ValueType; 3] =
    [ValueType::String, ValueType::List, ValueType::Object];

/// The input that a record says gets the texts of the sources: by its mark, or by where it comes from.
pub(super) fn named_main_input(record: &FlowPackRecord) -> Option<&IoInput> {
    use crate::registry::binding::Binding as From;
    let declared = &record.io_contract.inputs;
    let gets_texts = |input: &&IoInput| matches!(input.from, Some(From::Text | From::Sources));
    declared.iter().find(|input| input.main).or_else(|| declared.iter().find(gets_texts))
}

/// The flow that a flow file holds. Where it is invalid because a file beside it is no text, that file is named.
pub(super) fn flow_of(entry: &str, text: &str, files: &PackFiles) -> Result<FlowFile, LoadError> {
    let unread = RefCell::new(None);
    let beside = |name: &str| {
        let path = super::prompty::path_in_pack(entry, name)?;
        let text = String::from_utf8(files.get(&path).ok()??.to_vec());
        text.map_err(|_| unread.replace(Some(path))).ok()
    };
    let flow = if entry.ends_with(".prompty") {
        Prompty::parse(entry, text).and_then(|prompty| prompty.flow(entry, beside))
    } else {
        let value = yaml::parse(text).map_err(|error| BadFlow::new(entry, error.0))?;
        match flex::is_flex(&value) {
            true => flex::flow(&value, beside),
            false => FlowFile::from_value(&value),
        }
    };
    flow.map_err(|error| match unread.into_inner() {
        Some(path) => LoadError::Json { path, reason: "not UTF-8".to_owned() },
        None => error.into(),
    })
}

/// The programs; null for a file that is no UTF-8, which a node can name when it needs it.
fn python_files(files: &PackFiles, aliases: &BTreeMap<String, String>) -> Map<String, Value> {
    let real = files.iter().map(|(path, bytes)| (path.to_owned(), bytes));
    let copied = aliases
        .iter()
        .filter_map(|(alias, path)| Some((alias.clone(), files.get(path).ok().flatten()?)));
    real.chain(copied)
        .filter(|(path, _)| path.ends_with(".py"))
        .map(|(path, bytes)| (path, std::str::from_utf8(bytes).ok().into()))
        .collect()
}
