//! What could not be recovered, counted by kind.

use crate::facts::recovery::RecoveryReport;

/// Request ids listed for one kind of loss; the rest are counted.
const LISTED_MAX: usize = 100;

/// Counts one more loss of a kind.
pub(super) fn lose(report: &mut RecoveryReport, kind: &str, means: &str, example: &str) {
    let loss = report.unknown.entry(kind.to_owned()).or_default();
    means.clone_into(&mut loss.means);
    loss.count += 1;
    if !example.is_empty() && loss.examples.len() < LISTED_MAX {
        loss.examples.push(example.to_owned());
    }
}
