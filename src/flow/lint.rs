//! Finds mistakes in a pack before it runs.
//!
//! An *error* makes the pack fail or give another result than its record promises. A *warning* is
//! probably a mistake.

use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::Value;

use super::dag::{Binding, Node};
use super::pack::{LoadedPack, Step, named_main_input};
use super::render::Undefined;
use super::{parameters, roles};
use crate::contract::schema;
use crate::registry::{FlowPackRecord, PackFiles};

/// Inputs of a model node that neither go to its model nor into its template.
const PLUMBING: [&str; 6] = ["deployment_name", "n", "stream", "prompt", "connection", "best_of"];

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The pack will fail, or give another result than its record promises.
    Error,
    /// Probably a mistake.
    Warning,
}

/// One mistake in a pack.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    pub place: String,
    pub message: String,
}

#[derive(Default)]
struct Findings(Vec<Finding>);

impl Findings {
    fn error(&mut self, place: impl Into<String>, message: impl Into<String>) {
        self.add(Severity::Error, place.into(), message.into());
    }

    fn warn(&mut self, place: impl Into<String>, message: impl Into<String>) {
        self.add(Severity::Warning, place.into(), message.into());
    }

    fn add(&mut self, severity: Severity, place: String, message: String) {
        self.0.push(Finding { severity, place, message });
    }
}

/// All mistakes in a pack, errors first.
pub(crate) fn lint(record: &FlowPackRecord, files: &PackFiles) -> Vec<Finding> {
    let mut findings = Findings::default();
    if let Err(error) = record.verify(files) {
        findings.error("integrity.pack_hash", error.to_string());
    }
    for difference in record.stale_files(files) {
        let advice = "`summarizer registry seal` writes the list again";
        findings.error("integrity.files", format!("{difference}; {advice}"));
    }
    check_bindings(record, &mut findings);
    match LoadedPack::load(record, files) {
        Err(error) => findings.error(&record.entry_dag, error.to_string()),
        Ok(pack) => {
            check_nodes(&pack, files, &mut findings);
            check_inputs(&pack, &mut findings);
            check_contract(&pack, &mut findings);
            check_schema(&pack, &mut findings);
            check_hints(&pack, files, &mut findings);
            check_files(&pack, files, &mut findings);
            for warning in pack.warnings() {
                findings.warn("outputs", warning);
            }
        }
    }
    findings.0.sort();
    findings.0
}

/// Where the inputs of a record stand.
pub(crate) const INPUTS: &str = "io_contract.inputs";

/// Bindings that no run can follow: the texts of the sources go to the main input, a list of
/// sources goes into a list, and no text goes into a number.
fn check_bindings(record: &FlowPackRecord, findings: &mut Findings) {
    use crate::registry::binding::Binding as From;
    for input in &record.io_contract.inputs {
        let Some(from) = &input.from else { continue };
        let place = format!("io_contract.inputs.{}.from", input.name);
        if input.main && !matches!(from, From::Text | From::Sources) {
            findings.error(&place, "the main input comes from `text` or `sources`");
        }
        if matches!(from, From::Sources) && input.kind != "list" {
            let kind = &input.kind;
            findings.error(&place, format!("`sources` is a list, and the input is a {kind}"));
        }
        if let From::Source(field) = from
            && !field.fits(&input.kind)
        {
            findings.error(&place, format!("`{from}` gives no {}", input.kind));
        }
        if matches!(from, From::RequestDay | From::HomeTimezone)
            && is_scalar_of_its_own(&input.kind)
        {
            findings
                .error(&place, format!("`{from}` gives a text, and the input is a {}", input.kind));
        }
    }
}

/// A kind that no text can be.
fn is_scalar_of_its_own(kind: &str) -> bool {
    matches!(kind, "int" | "double" | "bool")
}

fn nodes(pack: &LoadedPack) -> impl Iterator<Item = &Node> {
    pack.plan.nodes.iter().chain(&pack.plan.aggregation)
}

fn check_nodes(pack: &LoadedPack, files: &PackFiles, findings: &mut Findings) {
    let strict = pack.projection.undefined() == Undefined::Strict;
    for node in nodes(pack) {
        let place = format!("nodes.{}", node.name);
        check_parameters(pack, node, &place, findings);
        match pack.steps.get(&node.name) {
            Some(Step::Unsupported { reason }) => {
                findings.error(&place, format!("cannot run here: {reason}"));
            }
            Some(Step::Python { path }) => {
                findings.warn(&place, format!("{path} runs only where Python is allowed"));
            }
            Some(Step::Prompt { template }) => {
                check_template(pack, node, template, strict, findings)
            }
            Some(Step::Llm { template, chat }) => {
                if node.input("prompt").is_some() {
                    continue;
                }
                check_template(pack, node, template, strict, findings);
                let text = files.get(template).ok().flatten().map(String::from_utf8_lossy);
                if *chat && text.is_some_and(|text| !roles::has_role_line(&text)) {
                    findings
                        .error(&place, format!("{template} has no role line such as `# system:`"));
                }
            }
            Some(Step::Wrapper { .. }) | None => {}
        }
    }
}

/// Parameters of a model node that cannot be sent as the file writes them.
fn check_parameters(pack: &LoadedPack, node: &Node, place: &str, findings: &mut Findings) {
    if !matches!(pack.steps.get(&node.name), Some(Step::Llm { .. } | Step::Wrapper { .. })) {
        return;
    }
    match parameters::written(node) {
        Err(error) => findings.error(place, error.to_string()),
        Ok(read) => {
            read.corrected.into_iter().for_each(|what| findings.warn(place, what.to_string()))
        }
    }
}

fn check_template(
    pack: &LoadedPack,
    node: &Node,
    template: &str,
    strict: bool,
    findings: &mut Findings,
) {
    let place = format!("nodes.{}", node.name);
    let used = pack.templates.names_used(template);
    let given: BTreeSet<&str> = node.inputs.iter().map(|(name, _)| name.as_str()).collect();
    for name in used.iter().filter(|name| !given.contains(name.as_str())) {
        let message = format!("{template} uses {name}, which the node does not give it");
        if strict { findings.error(&place, message) } else { findings.warn(&place, message) }
    }
    for name in given.iter().filter(|name| !used.contains(**name)) {
        let is_for_call = PLUMBING.contains(name) || parameters::is_parameter(name);
        if node.kind != "llm" || !is_for_call {
            findings.warn(&place, format!("{template} does not use the input {name}"));
        }
    }
}

fn check_inputs(pack: &LoadedPack, findings: &mut Findings) {
    let mut read = BTreeSet::new();
    for node in nodes(pack) {
        let when = node.activate.iter().map(|activate| &activate.when);
        for binding in node.inputs.iter().map(|(_, binding)| binding).chain(when) {
            if let Binding::Input(name) = binding {
                read.insert(name.clone());
            }
        }
    }
    for output in &pack.plan.outputs {
        if let Binding::Input(name) = &output.reference {
            read.insert(name.clone());
        }
    }
    for input in pack.inputs().iter().filter(|input| !read.contains(&input.name)) {
        findings.warn(format!("inputs.{}", input.name), "no node reads it");
    }
    if pack.plan.outputs.is_empty() {
        findings.error("outputs", "the flow has no output");
    }
}

fn check_contract(pack: &LoadedPack, findings: &mut Findings) {
    let contract = &pack.record.io_contract;
    for declared in &contract.inputs {
        let place = format!("io_contract.inputs.{}", declared.name);
        match pack.inputs().iter().find(|input| input.name == declared.name) {
            None => findings.error(place, "the flow has no such input"),
            Some(input) if input.kind.name() != declared.kind && input.kind.name() != "any" => {
                findings.error(
                    place,
                    format!("is {} here and {} in the flow", declared.kind, input.kind.name()),
                );
            }
            Some(_) => {}
        }
    }
    for input in pack.inputs() {
        if !contract.inputs.iter().any(|declared| declared.name == input.name) {
            findings.error(format!("inputs.{}", input.name), "io_contract does not declare it");
        }
    }
    for declared in &contract.outputs {
        if !pack.plan.outputs.iter().any(|output| output.name == declared.name) {
            findings.error(
                format!("io_contract.outputs.{}", declared.name),
                "the flow has no such output",
            );
        }
    }
    for output in &pack.plan.outputs {
        if !contract.outputs.iter().any(|declared| declared.name == output.name) {
            findings.error(format!("outputs.{}", output.name), "io_contract does not declare it");
        }
    }
    if contract.inputs.iter().filter(|input| input.main).count() > 1 {
        findings.error("io_contract.inputs", "more than one input is marked main");
    }
    match pack.main_input() {
        None => findings.warn("io_contract.inputs", "no input can receive the texts of the sources"),
        Some(name) if named_main_input(&pack.record).is_none() => findings.warn(
            format!("io_contract.inputs.{name}"),
            format!(
                "is bound to nothing, and gets the texts of the sources because of its name and type; \
                 `registry add --bind {name}=text` says so, and another input can be named instead"
            ),
        ),
        Some(_) => {}
    }
}

fn check_schema(pack: &LoadedPack, findings: &mut Findings) {
    let Some(schema) = pack.output_schema() else { return };
    let place = pack.record.declared_outputs.output_schema_path.clone().unwrap_or_default();
    let mut missing = Vec::new();
    undeclared(schema, "", &mut missing);
    for name in missing {
        findings.warn(&place, format!("{name} is required and not declared"));
    }
    if pack.structured_node.is_none() {
        findings.warn(
            &place,
            "the first output is not the unchanged answer of a model, so a violation cannot be repaired",
        );
    }
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else { return };
    for pointer in pack.projection.pointers() {
        let first = pointer.split('/').nth(1).unwrap_or_default();
        if !first.is_empty() && first != "*" && !properties.contains_key(first) {
            findings.warn("projection.json", format!("{pointer} is nothing the schema declares"));
        }
    }
}

/// Properties an object schema requires and does not declare, at any depth.
fn undeclared(schema: &Value, place: &str, missing: &mut Vec<String>) {
    let properties = schema.get("properties").and_then(Value::as_object);
    for name in schema.get("required").and_then(Value::as_array).into_iter().flatten() {
        let Some(name) = name.as_str() else { continue };
        if !properties.is_some_and(|properties| properties.contains_key(name)) {
            missing.push(format!("{place}/{name}"));
        }
    }
    for (name, inner) in properties.into_iter().flatten() {
        undeclared(inner, &format!("{place}/{name}"), missing);
    }
    if let Some(items) = schema.get("items") {
        undeclared(items, &format!("{place}/*"), missing);
    }
}

/// Hints that do not fit their schema, or that nothing asks for.
fn check_hints(pack: &LoadedPack, files: &PackFiles, findings: &mut Findings) {
    const FILE: &str = "hints.json";
    let Ok(Some(bytes)) = files.get(FILE) else { return };
    let value: Value = serde_json::from_slice(bytes).unwrap_or_default();
    for error in schema::validator("flow_pack_hints.v1").iter_errors(&value) {
        findings.error(FILE, format!("{}: {error}", error.instance_path()));
    }
    let Some(properties) = pack.output_schema().and_then(|schema| schema.get("properties")) else {
        return;
    };
    let hinted = value.get("fields").and_then(Value::as_object);
    for name in hinted.into_iter().flatten().map(|(name, _)| name) {
        if properties.get(name).is_none() {
            findings.warn(FILE, format!("the output schema declares no member {name}"));
        }
    }
}

fn check_files(pack: &LoadedPack, files: &PackFiles, findings: &mut Findings) {
    for (path, _) in files.iter() {
        let is_prompt = path.ends_with(".jinja2") || path.ends_with(".prompty");
        if is_prompt && !pack.is_prompt_file(path) && !pack.in_other_variant(path) {
            findings.warn(path, "no node names it");
        }
    }
    if let Some(variant) = &pack.record.variant
        && !pack.has_node_variant
        && pack.record.entry_dag == "flow.dag.yaml"
    {
        findings.warn("variant", format!("no node has a variant named {variant}"));
    }
}
