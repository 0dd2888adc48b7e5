//! `perspectives.json` (`perspectives.v1`): the router's output, read and checked as a whole.
//!
//! Beyond its schema: ids are unique ignoring letter case, agent types are known, the run id is
//! that of the run, and unknown members are kept and reported.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::{Number, Value};

use super::agents::AgentTypes;
use super::finding::{Code, Findings};
use super::run_dir::{RelPath, is_perspective_id};
use crate::contract::time::parse_instant;

/// The point of view of a perspective.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Track {
    Standard,
    /// Independent of the established view.
    Independent,
    /// Against it.
    Contrarian,
}

/// The limits of a wave output.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PromptContract {
    /// Longest output in words.
    pub max_words: Number,
    /// Most sources.
    pub max_sources: Number,
    /// Most calls of each tool.
    pub tool_budget: BTreeMap<String, Number>,
    /// Headings that must be there.
    pub must_include_sections: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Perspective {
    /// Its id: names files, so letters, digits, `_` and `-` only.
    pub id: String,
    pub title: String,
    pub track: Track,
    pub agent_type: String,
    /// What its output must keep to.
    pub prompt_contract: PromptContract,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub expected_platforms: Vec<String>,
    /// The file to summarize, when it is not the usual wave output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_artifact: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Perspectives {
    /// `perspectives.v1`.
    pub schema_version: String,
    /// The run it belongs to.
    pub run_id: String,
    pub created_at: String,
    pub perspectives: Vec<Perspective>,
}

/// What a document is checked against beyond its own content.
#[derive(Debug, Clone, Copy)]
pub struct PerspectiveRules<'a> {
    pub agent_types: &'a AgentTypes,
    /// The run that it must belong to, if known.
    pub run_id: Option<&'a str>,
}

/// Checks a document and reports everything wrong with it. `None` when it is unusable.
pub fn check(
    value: &Value,
    file: &str,
    rules: PerspectiveRules<'_>,
    findings: &mut Findings,
) -> Option<Perspectives> {
    let mut found = Findings::default();
    found.schema("perspectives.v1", value, file);
    unknown_fields(value, file, &mut found);
    let created = value["created_at"].as_str();
    if created.is_some_and(|text| parse_instant(text).is_err()) {
        let message = "not an instant: expected ISO 8601 like 2026-02-13T12:05:00Z";
        found.error(Code::InvalidTimestamp, file, "$.created_at", message);
    }
    if let (Some(wanted), Some(got)) = (rules.run_id, value["run_id"].as_str())
        && wanted != got
    {
        let message = format!("the run_id is {got:?}, the manifest has {wanted:?}");
        found.error(Code::RunIdMismatch, file, "$.run_id", message);
    }
    each_perspective(value, file, rules, &mut found);
    let passes = found.passes();
    findings.extend(found);
    if !passes {
        return None;
    }
    match Perspectives::deserialize(value) {
        Ok(perspectives) => Some(perspectives),
        Err(error) => {
            findings.error(Code::SchemaValidationFailed, file, "$", error.to_string());
            None
        }
    }
}

fn each_perspective(value: &Value, file: &str, rules: PerspectiveRules<'_>, found: &mut Findings) {
    let mut seen: BTreeSet<String> = BTreeSet::new();
    for (index, perspective) in value["perspectives"].as_array().into_iter().flatten().enumerate() {
        let place = |key: &str| format!("$.perspectives[{index}].{key}");
        if let Some(id) = perspective["id"].as_str() {
            if !is_perspective_id(id) {
                let message = "an id has 1 to 64 letters, digits, `_` or `-`";
                found.error(Code::InvalidId, file, place("id"), message);
            }
            if !seen.insert(id.to_ascii_lowercase()) {
                let message = "this id appears twice, ignoring letter case";
                found.error(Code::DuplicatePerspectiveId, file, place("id"), message);
            }
        }
        if let Some(agent) = perspective["agent_type"].as_str()
            && !rules.agent_types.knows(agent)
        {
            let known = rules.agent_types.names.join(", ");
            let (report, message): (fn(&mut Findings, _, &str, String, String), _) = match rules
                .agent_types
                .complete
            {
                true => (Findings::error, format!("no such agent; the agents are {known}")),
                false => {
                    let message = "no agents/*.md of the run or its repository says whether this \
                                       agent exists; name the agents with --agent-type";
                    (Findings::warn, message.to_owned())
                }
            };
            report(found, Code::UnknownAgentType, file, place("agent_type"), message);
        }
        if let Some(path) = perspective["source_artifact"].as_str()
            && RelPath::parse(path).is_none()
        {
            let message = "must be a plain path inside the run directory";
            found.error(Code::PathTraversal, file, place("source_artifact"), message);
        }
    }
}

fn unknown_fields(value: &Value, file: &str, found: &mut Findings) {
    const TOP: &[&str] = &["schema_version", "run_id", "created_at", "perspectives"];
    const PERSPECTIVE: &[&str] = &[
        "id",
        "title",
        "track",
        "agent_type",
        "prompt_contract",
        "expected_platforms",
        "platform_requirements",
        "tool_policy",
        "source_artifact",
    ];
    const CONTRACT: &[&str] = &["max_words", "max_sources", "tool_budget", "must_include_sections"];
    let mut look = |object: &Value, known: &[&str], place: &str| {
        for key in object.as_object().into_iter().flat_map(|object| object.keys()) {
            if !known.contains(&key.as_str()) {
                let message = "unknown field; kept and ignored";
                found.warn(Code::UnknownField, file, format!("{place}.{key}"), message);
            }
        }
    };
    look(value, TOP, "$");
    for (index, perspective) in value["perspectives"].as_array().into_iter().flatten().enumerate() {
        let place = format!("$.perspectives[{index}]");
        look(perspective, PERSPECTIVE, &place);
        look(&perspective["prompt_contract"], CONTRACT, &format!("{place}.prompt_contract"));
    }
}
