//! Flows: a pack of prompts and a graph of nodes, run against a model.
//!
//! A [`LoadedPack`] is made once from verified files. [`run()`] then takes inputs and sources and returns
//! a [`FlowOutcome`] with its whole provenance, or a [`FlowError`] with its class.
//!
//! ```text
//! flow.dag.yaml ─yaml─▶ dag ─plan─▶ order      templates ─render, roles─▶ messages
//! inputs ─inputs─▶ exec: prompt | llm | python nodes ─ask─▶ Provider ─extract, schema, repair─▶ output
//! input that is too long ─tree─▶ condensed       output ─project, evidence─▶ summary
//! ```
//!
//! Contract: this room reads no file, clock or configuration. The same pack, inputs, sources and
//! replies give the same outcome, in whatever order the nodes ended.
//!
//! `inputs` decides which source text goes into which input; `project` makes a summary of the output.
//! Waits, budgets and fallbacks belong to the provider (`model`).

mod adapt;
pub mod align;
mod ask;
mod bounds;
mod cited_ids;
mod condensed;
mod connection_files;
pub mod context;
mod dag;
mod evidence;
mod exec;
mod extract;
mod filters;
mod finish;
mod flex;
pub(crate) mod folder;
mod hierarchy;
mod inputs;
mod labels;
pub mod lint;
mod outcome;
mod pack;
mod pack_facts;
pub mod page;
mod parameters;
mod pictures;
mod plan;
mod project;
mod prompty;
mod prompty_v2;
mod python;
mod python_variables;
mod pyvalue;
pub(crate) mod reading;
mod render;
mod roles;
mod run;
pub mod scaffold;
mod small;
mod source_ids;
mod tree;
mod yaml;

pub(crate) use ask::OfNode;
pub(crate) use finish::{FILLED_BY_RULE, TEXT_FROM_SOURCE};
pub(crate) use hierarchy::{Coverage, HIERARCHY_VERSION};
pub(crate) use outcome::EvidenceRef;
pub use outcome::{CallRecord, FlowError, FlowErrorClass, FlowOutcome, ReplyCache};
pub(crate) use outcome::{FlowProblem, StoppedBy};
pub use pack::LoadedPack;
pub(crate) use pack_facts::{PackFacts, is_name_of_text};
pub use python::{PythonJail, PythonSettings};
#[cfg(any(test, feature = "internals"))]
pub use render::RENDERED_BYTES_MAX;
pub use run::{RunOptions, aggregate, run};
