//! `flow_pack_record.v1`: one line of the dataset, one flow in one variant.
//!
//! Contract: unknown members are kept and ignored. Only `integrity.pack_hash` decides which bytes
//! may run; the optional `integrity.files` exists so that a mismatch can name the file that differs.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::binding::Binding;
use super::pack::{FileDifference, PackError, PackFiles};
use crate::contract::hash::Digest;

/// A flow and its variant as people write them: `ID` or `ID@VARIANT`.
pub fn label(flow_id: &str, variant: Option<&str>) -> String {
    match variant {
        Some(variant) => format!("{flow_id}@{variant}"),
        None => flow_id.to_owned(),
    }
}

/// The record's schema and version.
pub(crate) const RECORD_VERSION: &str = "flow_pack_record.v1";

/// Whether a flow may run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// It may.
    Active,
    /// It may, with a warning.
    Deprecated,
    /// It may not.
    Disabled,
}

impl Status {
    /// As the record spells it.
    pub fn name(self) -> &'static str {
        match self {
            Status::Active => "active",
            Status::Deprecated => "deprecated",
            Status::Disabled => "disabled",
        }
    }
}

/// The structured output of a flow.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct DeclaredOutputs {
    /// Name of the schema.
    #[serde(default)]
    pub(crate) output_schema_id: Option<String>,
    /// Its file inside the pack.
    #[serde(default)]
    pub output_schema_path: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct IoInput {
    pub name: String,
    /// PromptFlow type.
    #[serde(rename = "type")]
    pub kind: String,
    /// Whether the caller must give it.
    #[serde(default)]
    pub required: bool,
    /// Whether it receives the texts of the sources.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub main: bool,
    /// Where its value comes from; without it from a parameter of its name, else its default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<Binding>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct IoOutput {
    pub name: String,
    /// PromptFlow type.
    #[serde(rename = "type")]
    pub kind: String,
}

/// What goes in and what comes out.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct IoContract {
    #[serde(default)]
    pub inputs: Vec<IoInput>,
    #[serde(default)]
    pub outputs: Vec<IoOutput>,
}

/// The bytes that the record describes.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Integrity {
    /// Hash over the normalized files of the pack.
    pub pack_hash: String,
    /// When the record was last updated from its pack.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updated_at: Option<String>,
    /// Hash of every file by path, so that a mismatch can name the file.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub files: BTreeMap<String, String>,
}

/// One flow pack in one variant.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FlowPackRecord {
    /// `flow_pack_record.v1`.
    pub schema_version: String,
    /// Stable id of the flow.
    pub flow_id: String,
    /// Variant; absent for the default.
    #[serde(default)]
    pub variant: Option<String>,
    /// Whether it may run.
    pub status: Status,
    /// Folder of the pack.
    pub pack_dir: String,
    /// The flow file inside the pack.
    pub(crate) entry_dag: String,
    #[serde(default)]
    pub declared_outputs: DeclaredOutputs,
    /// Its inputs and outputs.
    #[serde(default)]
    pub io_contract: IoContract,
    /// Domain, kind of prompt, notes.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
    /// The bytes that the record describes.
    pub integrity: Integrity,
    /// Members this version does not know.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

impl FlowPackRecord {
    /// The hash the pack must have; `None` when the text in the record is not a hash.
    pub fn pack_hash(&self) -> Option<Digest> {
        self.integrity.pack_hash.parse().ok()
    }

    /// `template_id` of a prompt: the flow, and its variant after an `@`.
    pub fn template_id(&self) -> String {
        label(&self.flow_id, self.variant.as_deref())
    }

    /// `prompt_version`: the version suffix of the flow id.
    pub fn prompt_version(&self) -> &str {
        let last = self.flow_id.rsplit('.').next().unwrap_or_default();
        let digits = last.strip_prefix('v').unwrap_or_default();
        let is_version = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        if is_version { last } else { "" }
    }

    /// Refuses files that differ from the record, and names them.
    pub fn verify(&self, files: &PackFiles) -> Result<(), PackError> {
        let actual = files.pack_hash();
        if self.pack_hash() == Some(actual) {
            return Ok(());
        }
        Err(PackError::Changed {
            flow: self.template_id(),
            recorded: self.integrity.pack_hash.clone(),
            actual,
            differences: self.differences(files),
        })
    }

    /// Files whose hash in `integrity.files` is not theirs although the hash of the whole pack fits: the
    /// list is stale, and a refusal would name the wrong files by it.
    pub(crate) fn stale_files(&self, files: &PackFiles) -> Vec<FileDifference> {
        match self.pack_hash() == Some(files.pack_hash()) {
            true => self.differences(files),
            false => Vec::new(),
        }
    }

    fn differences(&self, files: &PackFiles) -> Vec<FileDifference> {
        if self.integrity.files.is_empty() {
            return Vec::new();
        }
        super::pack::differences(&self.integrity.files, files)
    }

    /// Updates the record to describe these files.
    pub fn seal(&mut self, files: &PackFiles, updated_at: String) {
        self.integrity = Integrity {
            pack_hash: files.pack_hash().hex(),
            updated_at: Some(updated_at),
            files: files.hashes().map(|(path, hash)| (path.to_owned(), hash.hex())).collect(),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(pairs: &[(&str, &str)]) -> PackFiles {
        let map = pairs.iter().map(|(path, text)| ((*path).into(), (*text).into())).collect();
        PackFiles::from_map(map).unwrap()
    }

    fn record() -> FlowPackRecord {
        serde_json::from_str(
            r#"{"schema_version":"flow_pack_record.v1","flow_id":"jobs.screen.v12","variant":"fast","status":"active",
                "pack_dir":"packs/x","entry_dag":"flow.dag.yaml","integrity":{"pack_hash":""},"later":true}"#,
        )
        .unwrap()
    }

    #[test]
    fn a_changed_pack_is_refused_and_the_file_is_named() {
        let mut record = record();
        let sealed = files(&[("flow.dag.yaml", "a: 1\r\n"), ("x.jinja2", "hello"), ("old", "")]);
        record.seal(&sealed, "2026-01-01T00:00:00.000Z".into());
        record.verify(&sealed).unwrap();
        record
            .verify(&files(&[("flow.dag.yaml", "a: 1\n"), ("x.jinja2", "hello"), ("old", "")]))
            .unwrap();
        let changed = files(&[("flow.dag.yaml", "a: 1\n"), ("x.jinja2", "hellO"), ("new", "")]);
        let Err(PackError::Changed { differences, .. }) = record.verify(&changed) else { panic!() };
        assert_eq!(
            differences,
            [
                FileDifference::Missing("old".into()),
                FileDifference::Changed("x.jinja2".into()),
                FileDifference::Added("new".into())
            ]
        );
    }

    #[test]
    fn names_for_the_bus_and_unknown_members() {
        let record = record();
        assert_eq!(record.template_id(), "jobs.screen.v12@fast");
        assert_eq!(record.prompt_version(), "v12");
        assert_eq!(record.more["later"], true);
        let printed = serde_json::to_value(&record).unwrap();
        assert_eq!(printed["later"], true);
        assert!(crate::contract::schema::check(RECORD_VERSION, &printed).len() == 1, "no hash yet");
    }
}
