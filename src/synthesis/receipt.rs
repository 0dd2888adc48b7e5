//! The record of one build or check, for the log of a home.

use serde::Serialize;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ReceiptKind {
    /// A perspectives file was checked.
    PerspectivesChecked,
    /// A perspectives file was written.
    PerspectivesWritten,
    /// The wave outputs were checked.
    WavesChecked,
    PackBuilt,
    /// A pack was held against Gate D.
    PackChecked,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    Pass,
    Fail,
}

impl Verdict {
    /// `Pass` when the condition holds.
    pub fn of(passes: bool) -> Verdict {
        if passes { Verdict::Pass } else { Verdict::Fail }
    }
}

/// `synthesis_receipt.v1`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Receipt {
    /// `synthesis_receipt.v1`.
    pub schema_version: &'static str,
    pub kind: ReceiptKind,
    pub run_id: String,
    pub verdict: Verdict,
    /// Digest of what went in, where one is defined.
    pub inputs_digest: Option<String>,
    /// Digest of what came out, where one is defined.
    pub outputs_digest: Option<String>,
    pub errors: u64,
    pub warnings: u64,
}

impl Receipt {
    pub fn new(kind: ReceiptKind, run_id: &str, findings: &super::finding::Findings) -> Receipt {
        Receipt {
            schema_version: "synthesis_receipt.v1",
            kind,
            run_id: run_id.to_owned(),
            verdict: Verdict::of(findings.passes()),
            inputs_digest: None,
            outputs_digest: None,
            errors: findings.errors(),
            warnings: findings.warnings(),
        }
    }
}
