//! What went wrong, in the shared error taxonomy.
//!
//! See docs/adr/0083-causes-of-failures.md.

use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use super::model::Usage;
use super::session::Promotion;
use crate::contract::hash::Digest;
use crate::contract::schema::Violation;
use crate::contract::vocabulary::ErrorClass;

/// An error in the shared taxonomy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ErrorFacts {
    pub class: ErrorClass,
    /// The finer code, such as `MALFORMED_JSONL`.
    pub subtype: String,
    pub details: ErrorDetails,
}

/// What must be recorded beside an error: for most classes the members that the contract of run
/// records requires. It serializes as the object that a run record holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ErrorDetails {
    /// An input that is missing.
    Input {
        input_name: String,
        expected_path: Option<String>,
        expected_manifest_path: Option<String>,
        /// The id that was looked for, when one was.
        source_id: Option<String>,
    },
    /// A record that does not have the shape its contract demands.
    Schema {
        artifact_family: String,
        schema_version_seen: Option<String>,
        schema_version_supported: Vec<String>,
        validation_error_summary: String,
        sample_evidence: String,
    },
    /// A hash or count that does not hold. Hashes are as their writers spelled them.
    Integrity {
        manifest_path: Option<String>,
        observed_hash: Option<String>,
        declared_hash: Option<String>,
        observed_counts: Option<u64>,
        declared_counts: Option<u64>,
    },
    /// A place that could not be read or written.
    Storage { storage_location: String, operation: String },
    /// A flow that gave nothing.
    Model(Box<ModelFailure>),
    /// A provider that could not be used, before any call.
    Provider { flow_id: String },
    /// A request failed in the service itself before the model was asked.
    Unasked,
    /// A pack that is not what the registry says.
    Pack { flow: String },
    /// A parameter of the request.
    Param { param: String },
    /// An item that does not fit its schema.
    Item,
    /// Files that were not published.
    Publication { publish_target: String, staging_path: String, promotion_status: Promotion },
}

/// A flow that gave nothing: what was asked, what it cost, what was wrong with the answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelFailure {
    /// Name of the provider in the configuration.
    pub provider: String,
    pub model_name: String,
    pub prompt_hash: Digest,
    pub selection_manifest_refs: Vec<String>,
    pub retryable: bool,
    pub usage: Usage,
    /// Calls that were tried, answered or not.
    pub calls: u64,
    /// What was wrong with the last answer; its text is an event of its own.
    pub violations: Vec<Violation>,
}

impl ErrorDetails {
    /// The object that a run record holds.
    pub fn to_json(&self) -> Value {
        match self {
            ErrorDetails::Input {
                input_name,
                expected_path,
                expected_manifest_path,
                source_id,
            } => {
                let mut details = json!({
                    "input_name": input_name, "expected_path": expected_path,
                    "expected_manifest_path": expected_manifest_path, "resolution": "missing",
                });
                if let Some(id) = source_id {
                    details["source_id"] = id.as_str().into();
                }
                details
            }
            ErrorDetails::Schema {
                artifact_family,
                schema_version_seen,
                schema_version_supported,
                validation_error_summary,
                sample_evidence,
            } => json!({
                "artifact_family": artifact_family, "schema_version_seen": schema_version_seen,
                "schema_version_supported": schema_version_supported,
                "validation_error_summary": validation_error_summary,
                "sample_evidence": sample_evidence,
            }),
            ErrorDetails::Integrity {
                manifest_path,
                observed_hash,
                declared_hash,
                observed_counts,
                declared_counts,
            } => json!({
                "manifest_path": manifest_path,
                "observed_hash": observed_hash, "declared_hash": declared_hash,
                "observed_counts": observed_counts, "declared_counts": declared_counts,
            }),
            ErrorDetails::Storage { storage_location, operation } => json!({
                "storage_kind": "filesystem", "storage_location": storage_location,
                "operation": operation, "retryable": true,
            }),
            ErrorDetails::Model(failure) => json!({
                "model_id": format!("{}/{}", failure.provider, failure.model_name),
                "prompt_hash": failure.prompt_hash,
                "selection_manifest_refs": failure.selection_manifest_refs,
                "retryable": failure.retryable, "usage": failure.usage, "calls": failure.calls,
                "violations": failure.violations,
            }),
            ErrorDetails::Provider { flow_id } => json!({"flow_id": flow_id, "retryable": false}),
            ErrorDetails::Unasked => json!({"selection_manifest_refs": [], "retryable": false}),
            ErrorDetails::Pack { flow } => json!({"flow": flow}),
            ErrorDetails::Param { param } => json!({"param": param}),
            ErrorDetails::Item => json!({}),
            ErrorDetails::Publication { publish_target, staging_path, promotion_status } => json!({
                "publish_target": publish_target, "staging_path": staging_path,
                "intended_promoted_path": publish_target, "promotion_status": promotion_status,
            }),
        }
    }
}

impl Serialize for ErrorDetails {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.to_json().serialize(serializer)
    }
}
