//! The report of Gate D and its numbers.
//!
//! A size is the bytes of a file divided by 1024. Comparisons use exact values. Reported values
//! have six decimals.

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::finding::Finding;
use super::pack::PackLimits;
use super::receipt::Verdict;
use super::run_dir::{RelPath, RunDir, RunDirError};

pub(crate) const REPORT: &str = "reports/gate-d.json";

/// One summary as the report lists it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CheckedFile {
    pub perspective_id: String,
    pub summary_md: String,
    pub bytes: u64,
    pub sha256: String,
}

/// `gate_d_report.v1`.
#[derive(Debug, Clone, Serialize)]
pub struct GateReport {
    /// `gate_d_report.v1`.
    pub schema_version: &'static str,
    pub run_id: String,
    /// `D`.
    pub(crate) gate_id: &'static str,
    /// `strict` or `compat`.
    pub profile: &'static str,
    pub status: Verdict,
    pub metrics: Map<String, Value>,
    /// The limits that the metrics are compared with.
    pub limits: PackLimits,
    /// The summaries, as the pack lists them.
    pub files: Vec<CheckedFile>,
    /// What the verdict follows from.
    pub inputs_digest: String,
    pub errors: u64,
    pub warnings: u64,
    pub findings: Vec<Finding>,
    /// The words for the gates file.
    #[serde(skip)]
    pub gate_warnings: Vec<String>,
    /// The files the gate looked at.
    #[serde(skip)]
    pub artifacts: Vec<String>,
}

/// Writes `reports/gate-d.json`.
pub fn write_report(dir: &RunDir<'_>, report: &GateReport) -> Result<(), RunDirError> {
    let failed = |source: serde_json::Error| RunDirError::Write {
        path: REPORT.to_owned(),
        source: source.into(),
    };
    let text = crate::contract::json::to_file(report).map_err(failed)?;
    let path =
        RelPath::parse(REPORT).ok_or_else(|| RunDirError::Escapes { path: REPORT.into() })?;
    dir.write(&path, text.as_bytes())
}

/// A number rounded to six decimals, halves up, written without a fraction when it has none.
pub(crate) fn six_decimals(value: f64) -> Value {
    // The exact decimal expansion decides, not another floating-point product.
    let exact = format!("{:.80}", value.abs());
    let (whole, fraction) = exact.split_once('.').unwrap_or((&exact, ""));
    let millionths: u128 = format!("{whole}{:0<6}", &fraction[..fraction.len().min(6)])
        .parse::<u128>()
        .unwrap_or(u128::MAX - 1)
        + u128::from(fraction.as_bytes().get(6).is_some_and(|digit| *digit >= b'5'));
    let rounded = format!("{}.{:06}", millionths / 1_000_000, millionths % 1_000_000);
    match millionths % 1_000_000 {
        0 => json!(u64::try_from(millionths / 1_000_000).unwrap_or(u64::MAX)),
        _ => json!(rounded.parse::<f64>().unwrap_or(value)),
    }
}

/// Bytes as KB.
pub fn kb(bytes: u64) -> f64 {
    bytes as f64 / 1024.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_takes_halves_up_and_whole_numbers_stay_whole() {
        assert_eq!(six_decimals(1.0).to_string(), "1");
        assert_eq!(six_decimals(0.0).to_string(), "0");
        assert_eq!(six_decimals(2.0 / 3.0).to_string(), "0.666667");
        assert_eq!(six_decimals(kb(365)).to_string(), "0.356445");
        assert_eq!(six_decimals(kb(710)).to_string(), "0.693359");
        // 8 / 1024 = 0.0078125 and 24 / 1024 = 0.0234375: exact ties.
        assert_eq!(six_decimals(kb(8)).to_string(), "0.007813");
        assert_eq!(six_decimals(kb(24)).to_string(), "0.023438");
        assert_eq!(six_decimals(0.9999999).to_string(), "1");
    }
}
