//! What is known of a pack without running it: its record, its inputs, and the identity of its prompt.
//!
//! Contract: data. A process that does not load packs itself gets these facts from one that does.

use std::collections::BTreeMap;
use std::ffi::OsString;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::dag::InputDef;
use super::python_variables::variables_of_this_process;
use crate::contract::hash::Digest;
use crate::contract::json as canonical;
use crate::registry::FlowPackRecord;
use crate::registry::binding;

/// Usual names of the input of a flow that is a text.
const NAMES_OF_TEXTS: [&str; 12] = [
    "body",
    "chunks",
    "content",
    "document",
    "documents",
    "events",
    "input",
    "items",
    "messages",
    "session",
    "sources",
    "text",
];

/// Whether an input of this name usually is the text that a flow is about.
pub(crate) fn is_name_of_text(name: &str) -> bool {
    NAMES_OF_TEXTS.contains(&name.to_lowercase().as_str())
}

/// The facts of one pack in one variant.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PackFacts {
    pub(crate) record: FlowPackRecord,
    pub(crate) pack_hash: Digest,
    pub(crate) inputs: Vec<InputDef>,
    pub(crate) main_input: Option<String>,
    /// The inputs that the embedded summarizer reads as texts.
    pub(super) read_as_text: Vec<String>,
    /// The files that belong to the prompt.
    pub(super) prompt_files: BTreeMap<String, Digest>,
    /// The schemas that its questions may have. A question names one by its place.
    pub(crate) schemas: Vec<Value>,
    /// What the environment variables begin with that its Python nodes may read.
    pub(crate) variable_prefixes: Vec<String>,
    /// The environment variables that the connection files beside its Python nodes name.
    pub(super) named_variables: Vec<String>,
    /// Whether the first of the schemas is that of the structured output.
    pub(super) has_output_schema: bool,
    /// True for a flow that was written for PromptFlow: the pack has no file of this program's format.
    pub(crate) is_imported: bool,
    /// Whether a node has the variant of the record.
    pub(crate) has_node_variant: bool,
    /// Whether nodes read the results of all lines.
    pub(crate) aggregates: bool,
}

impl PackFacts {
    pub fn record(&self) -> &FlowPackRecord {
        &self.record
    }

    /// The hash of the pack's files.
    pub fn pack_hash(&self) -> Digest {
        self.pack_hash
    }

    /// The declared inputs of the flow, in order.
    pub fn inputs(&self) -> &[InputDef] {
        &self.inputs
    }

    /// The input that receives the texts of the sources.
    pub fn main_input(&self) -> Option<&str> {
        self.main_input.as_deref()
    }

    /// The values that the flow file gives as examples of its inputs.
    pub(crate) fn samples(&self) -> Map<String, Value> {
        let inputs = self.inputs.iter().filter(|input| input.default.is_none());
        inputs.filter_map(|input| Some((input.name.clone(), input.sample.clone()?))).collect()
    }

    /// The schema of the structured output.
    pub(crate) fn output_schema(&self) -> Option<&Value> {
        self.schemas.first().filter(|_| self.has_output_schema)
    }

    /// The environment variables of this process that its Python nodes may read. A person who runs the flow also gives it
    /// those that its connection files name.
    pub(crate) fn variables(&self, by_person: bool) -> Vec<(OsString, OsString)> {
        let mut variables = variables_of_this_process(&self.variable_prefixes);
        if by_person {
            let named = self.named_variables.iter();
            variables.extend(named.filter_map(|name| Some((name.into(), std::env::var_os(name)?))));
        }
        variables
    }

    /// Whether an input gets the texts of the sources: the main input, each one that is bound to them, and
    /// another form of the main input, which is read as text and bound to nothing.
    pub(crate) fn is_text_input(&self, name: &str) -> bool {
        let mut inputs = self.record.io_contract.inputs.iter();
        let named = inputs.find(|input| input.name == name);
        let from = named.and_then(|input| input.from.as_ref());
        let is_read = || self.read_as_text.iter().any(|read| read == name);
        self.main_input() == Some(name)
            || (named.is_some() && from.is_none() && is_read())
            || matches!(
                from,
                Some(
                    binding::Binding::Sources
                        | binding::Binding::Text
                        | binding::Binding::Source(binding::SourceField::Messages)
                )
            )
    }

    /// `prompt_hash` for a request with these parameters.
    pub fn prompt_hash(&self, params: &Map<String, Value>) -> Digest {
        let files: BTreeMap<&str, String> =
            self.prompt_files.iter().map(|(path, hash)| (path.as_str(), hash.hex())).collect();
        let mut identity = json!({
            "flow_id": self.record.flow_id,
            "variant": self.record.variant,
            "files": files,
            "params": params,
        });
        let inputs = self.record.io_contract.inputs.iter();
        let bound = inputs.filter_map(|input| Some((input.name.as_str(), input.from.as_ref()?)));
        let bound: BTreeMap<&str, &binding::Binding> = bound.collect();
        if !bound.is_empty() {
            // The same prompt with another binding says something else.
            identity["from"] = json!(bound);
        }
        canonical::jcs_hash(&identity)
    }

    /// True when a planned node reaches the file.
    pub(crate) fn is_prompt_file(&self, path: &str) -> bool {
        self.prompt_files.contains_key(path)
    }
}
