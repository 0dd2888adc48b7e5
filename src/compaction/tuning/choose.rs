//! Chooses a setting: on the Pareto front of bytes written against tail to re-read, the point
//! nearest to the best of both, each on a logarithmic scale. Only settings whose step fallback
//! remains a fallback are chosen: whole steps must reach the event threshold first. Times are
//! reported but do not influence the choice, so equal logs give the same choice on every machine.
//!
//! See docs/adr/0025-choosing-compaction-thresholds.md.

use super::super::trigger::Thresholds;
use super::sweep::SweepRow;

#[derive(Debug, Clone, PartialEq)]
pub struct ThresholdChoice {
    /// Index of the chosen row.
    pub chosen: usize,
    /// Index of the row of the defaults, when it was swept.
    pub default: Option<usize>,
    /// Indexes of the rows no other row beats, by growing bytes.
    pub front: Vec<usize>,
    /// Distance of every row from the best of both; 0 is best.
    pub distances: Vec<f64>,
    /// A reason for people.
    pub reason: String,
}

/// Chooses among rows; `None` when there is none.
pub fn choose(rows: &[SweepRow]) -> Option<ThresholdChoice> {
    let fewest_failures = rows.iter().map(|row| row.failed_runs).min()?;
    let distances = distances(rows);
    let candidate = |index: &usize| rows[*index].failed_runs == fewest_failures;
    let mut front: Vec<usize> =
        (0..rows.len()).filter(candidate).filter(|index| !is_beaten(rows, *index)).collect();
    front.sort_by_key(|index| (rows[*index].bytes_written, *index));
    let ordinary = front.iter().copied().filter(|index| keeps_order(rows[*index].thresholds));
    let chosen = nearest(rows, &distances, ordinary)
        .or_else(|| nearest(rows, &distances, front.iter().copied()))?;
    let default = rows.iter().position(|row| row.thresholds == Thresholds::default());
    let reason = reason(rows, chosen, default, front.len());
    Some(ThresholdChoice { chosen, default, front, distances, reason })
}

/// True when runs of whole steps, three events each, trigger by events and not by the fallback.
fn keeps_order(thresholds: Thresholds) -> bool {
    thresholds.step_fallback.saturating_mul(3) >= thresholds.event_threshold
}

fn nearest(
    rows: &[SweepRow],
    distances: &[f64],
    candidates: impl Iterator<Item = usize>,
) -> Option<usize> {
    candidates.min_by(|a, b| {
        let (left, right) = (&rows[*a], &rows[*b]);
        distances[*a]
            .total_cmp(&distances[*b])
            .then(left.tails.max().cmp(&right.tails.max()))
            .then(strangeness(left.thresholds).cmp(&strangeness(right.thresholds)))
    })
}

fn is_beaten(rows: &[SweepRow], index: usize) -> bool {
    let point = |row: &SweepRow| (row.bytes_written, row.tails.mean());
    let (bytes, tail) = point(&rows[index]);
    rows.iter().any(|other| {
        let (other_bytes, other_tail) = point(other);
        other_bytes <= bytes && other_tail <= tail && (other_bytes < bytes || other_tail < tail)
    })
}

fn distances(rows: &[SweepRow]) -> Vec<f64> {
    let bytes = normalized(rows.iter().map(|row| row.bytes_written as f64));
    let tails = normalized(rows.iter().map(|row| row.tails.mean()));
    bytes.iter().zip(&tails).map(|(bytes, tail)| bytes.hypot(*tail)).collect()
}

/// Logarithms scaled so that the smallest is 0 and the largest 1.
fn normalized(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let logs: Vec<f64> = values.map(|value| (value + 1.0).ln()).collect();
    let low = logs.iter().copied().fold(f64::INFINITY, f64::min);
    let high = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let width = if high > low { high - low } else { 1.0 };
    logs.into_iter().map(|log| (log - low) / width).collect()
}

/// How far a setting is from the defaults: the tie-breaker, since a change needs a reason.
fn strangeness(thresholds: Thresholds) -> u64 {
    let usual = Thresholds::default();
    thresholds.event_threshold.abs_diff(usual.event_threshold)
        + 3 * thresholds.step_fallback.abs_diff(usual.step_fallback)
}

fn reason(rows: &[SweepRow], chosen: usize, default: Option<usize>, front: usize) -> String {
    let row = &rows[chosen];
    let mut text = format!(
        "nearest to fewest bytes and shortest tail among the {front} of {} settings that no other \
         beats on both and whose fallback stays a fallback: {:.1} events to re-read on average, {} at worst",
        rows.len(),
        row.tails.mean(),
        row.tails.max()
    );
    match default.map(|default| &rows[default]) {
        Some(usual) if default != Some(chosen) => {
            let percent = |new: f64, old: f64| {
                if old > 0.0 { (new / old - 1.0) * 100.0 } else { 0.0 }
            };
            let bytes = percent(row.bytes_written as f64, usual.bytes_written as f64);
            let tail = percent(row.tails.mean(), usual.tails.mean());
            let Thresholds { event_threshold, step_fallback } = usual.thresholds;
            text.push_str(&format!(
                "; against the default {event_threshold}/{step_fallback} that is {bytes:+.0} % \
                 bytes written and {tail:+.0} % tail"
            ));
        }
        Some(_) => text.push_str("; it is the default"),
        None => {}
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::sweep::{EVENT_THRESHOLDS, Generated, STEP_FALLBACKS, grid, sweep};
    use super::*;

    #[test]
    fn nothing_on_the_front_is_beaten_and_the_choice_is_on_it() {
        let runs = Generated { seed: 5, runs: 10, events: 200 };
        let rows = sweep(&runs, &grid(&EVENT_THRESHOLDS, &STEP_FALLBACKS), &|| {}).rows;
        let choice = choose(&rows).unwrap();
        assert!(choice.front.contains(&choice.chosen));
        assert!(keeps_order(rows[choice.chosen].thresholds));
        for pair in choice.front.windows(2) {
            let (cheap, dear) = (&rows[pair[0]], &rows[pair[1]]);
            assert!(cheap.bytes_written <= dear.bytes_written);
            assert!(cheap.tails.mean() >= dear.tails.mean());
        }
        assert!(choice.default.is_some());
        assert!(choice.reason.contains("events to re-read"));
        assert_eq!(choose(&[]), None);
    }
}
