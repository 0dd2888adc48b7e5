//! What can be wrong with upstream data, in the shared error taxonomy: a class, a subtype, and
//! the details each class must carry. A defect stops the requests that need the partition it was
//! found in and nothing else.

use std::fmt;
use std::io;

use crate::contract::vocabulary::{AckStatus, ErrorClass, ReasonCode};
use crate::facts::failure::ErrorDetails;
use crate::os::can_never_be_read;

/// Characters of a path that a message repeats.
const PATH_CHARS: usize = 200;

/// One thing wrong with upstream data.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Defect {
    /// One of the six classes.
    pub class: ErrorClass,
    /// The finer code, such as `MALFORMED_JSONL`.
    pub subtype: String,
    /// What is wrong, for people.
    pub message: String,
    /// What the class requires to be recorded.
    pub details: ErrorDetails,
    /// How a request that needs this ends.
    #[serde(skip)]
    pub reason: ReasonCode,
}

impl fmt::Display for Defect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.subtype, self.message)
    }
}

impl std::error::Error for Defect {}

impl Defect {
    /// A file that should be there and is not.
    pub fn missing(
        subtype: &str,
        name: &str,
        path: &str,
        manifest_path: &str,
        reason: ReasonCode,
    ) -> Defect {
        Defect {
            class: ErrorClass::InputMissing,
            subtype: subtype.to_owned(),
            message: format!("{name} is missing: expected {}", shortened(path)),
            details: ErrorDetails::Input {
                input_name: name.to_owned(),
                expected_path: Some(path.to_owned()),
                expected_manifest_path: Some(manifest_path.to_owned()),
                source_id: None,
            },
            reason,
        }
    }

    /// A record or manifest that does not have the shape its contract demands.
    pub fn schema(
        subtype: &str,
        family: &str,
        seen: Option<&str>,
        supported: &[&str],
        summary: String,
        evidence: String,
    ) -> Defect {
        Defect {
            class: ErrorClass::SchemaMismatch,
            subtype: subtype.to_owned(),
            message: format!("{evidence}: {summary}"),
            details: ErrorDetails::Schema {
                artifact_family: family.to_owned(),
                schema_version_seen: seen.map(str::to_owned),
                schema_version_supported: supported.iter().map(|one| (*one).to_owned()).collect(),
                validation_error_summary: summary,
                sample_evidence: evidence,
            },
            reason: ReasonCode::ManifestMismatch,
        }
    }

    /// A hash, count or reference that does not hold.
    pub fn integrity(
        subtype: &str,
        manifest_path: &str,
        hashes: (Option<String>, Option<String>),
        counts: (Option<u64>, Option<u64>),
        message: String,
    ) -> Defect {
        Defect {
            class: ErrorClass::IntegrityMismatch,
            subtype: subtype.to_owned(),
            message,
            details: ErrorDetails::Integrity {
                manifest_path: Some(manifest_path.to_owned()),
                observed_hash: hashes.0,
                declared_hash: hashes.1,
                observed_counts: counts.0,
                declared_counts: counts.1,
            },
            reason: ReasonCode::ManifestMismatch,
        }
    }

    /// Like [`Defect::storage`], for a path that a request names. A path that can never be read, such as a
    /// pipe or a loop of links, is an input that is missing: another attempt finds the same.
    pub(super) fn of_named_path(operation: &str, location: &str, error: &io::Error) -> Defect {
        if !can_never_be_read(error) {
            return Defect::storage(operation, location, error);
        }
        let shown = shortened(location);
        let reason = ReasonCode::UnknownSourceId;
        Defect {
            message: format!("{operation} {shown}: {error}"),
            ..Defect::missing("UNREADABLE_PATH", "file", &shown, "", reason)
        }
    }

    /// The disk would not give us what is there.
    pub fn storage(operation: &str, location: &str, error: &io::Error) -> Defect {
        Defect {
            class: ErrorClass::StorageUnavailable,
            subtype: "STORAGE_UNAVAILABLE".to_owned(),
            message: format!("{operation} {location}: {error}"),
            details: ErrorDetails::Storage {
                storage_location: location.to_owned(),
                operation: operation.to_owned(),
            },
            reason: ReasonCode::Unavailable,
        }
    }

    /// The same defect, ending requests with another reason.
    #[must_use]
    pub(crate) fn with_reason(mut self, reason: ReasonCode) -> Defect {
        self.reason = reason;
        self
    }
}

/// Why a request could not be resolved: how it ends, and what is recorded.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct ResolveError {
    /// The outcome of the request.
    pub status: AckStatus,
    pub reason_code: ReasonCode,
    /// The class in the shared taxonomy.
    pub class: ErrorClass,
    pub subtype: String,
    /// What is wrong, for people.
    pub message: String,
    /// What the class requires to be recorded.
    pub details: ErrorDetails,
}

impl From<Defect> for ResolveError {
    fn from(defect: Defect) -> ResolveError {
        let status = match defect.reason {
            ReasonCode::Unavailable => AckStatus::FailedTransient,
            _ => AckStatus::RejectedInvalidInput,
        };
        ResolveError {
            status,
            reason_code: defect.reason,
            class: defect.class,
            subtype: defect.subtype,
            message: defect.message,
            details: defect.details,
        }
    }
}

/// A path that is short enough for a message.
fn shortened(path: &str) -> String {
    match path.char_indices().nth(PATH_CHARS) {
        Some((end, _)) => format!("{}… ({} bytes)", &path[..end], path.len()),
        None => path.to_owned(),
    }
}

/// A request that would bring together more than one request may.
pub(super) fn too_much(what: String) -> Defect {
    Defect::integrity(
        "INPUT_TOO_LARGE",
        "",
        (None, None),
        (None, None),
        format!("{what} are more than one request may bring together"),
    )
    .with_reason(ReasonCode::QueryTooWide)
}
