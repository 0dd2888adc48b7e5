//! Searches the settings for the cheapest one, beyond any list that a person gives.
//!
//! The search begins with a ladder of settings. While the cheapest is near the upper end, the ladder
//! grows; a threshold of one step is its lower end. Then every threshold between the neighbours of
//! the cheapest is tried, and the nearest ones with its own fallback, so that nobody calls a setting
//! the only good one without having looked beside it. So the result depends on the runs and the
//! weights alone.

use super::super::trigger::Thresholds;
use super::cost::CostWeights;
use super::sweep::{
    RunSource, STEP_FALLBACKS, SweepRow, ThresholdSweep, keeps_order, strangeness, sweep,
};

/// Events of a whole step. A threshold in between acts like the next multiple.
const STEP_EVENTS: u64 = 3;
/// Event thresholds of the first ladder.
const FIRST_RUNGS: [u64; 10] = [3, 6, 9, 12, 18, 24, 36, 48, 72, 96];
/// Fallbacks that are tried with a threshold.
const FALLBACKS_EACH: usize = 4;
/// Most thresholds between two rungs that are tried.
const BETWEEN_MAX: usize = 12;
/// How far the thresholds are that are tried beside a setting with its fallback.
const BESIDE: [u64; 5] = [1, 2, 3, 6, 12];
/// Where the ladder ends: no run counts that many events between snapshots.
const RUNG_MAX: u64 = 1 << 24;

/// The settings that a recommendation is made from.
pub fn search(
    runs: &dyn RunSource,
    weights: &CostWeights,
    progress: &(dyn Fn() + Sync),
) -> ThresholdSweep {
    let mut rungs = FIRST_RUNGS.to_vec();
    let mut found = sweep(runs, &settings(&rungs), progress);
    while let Some(best) = cheapest(&found.rows, weights) {
        let top = rungs.last().copied().unwrap_or(RUNG_MAX);
        let is_near_top = best.thresholds.event_threshold * 2 > top;
        // Without snapshots a higher threshold changes nothing.
        if !is_near_top || best.snapshots == 0 || top >= RUNG_MAX {
            break;
        }
        let more = [top / 2 * 3, top * 2, top * 3, top * 4];
        rungs.extend(more);
        extend(&mut found, runs, &settings(&more), progress);
    }
    if let Some(best) = cheapest(&found.rows, weights) {
        let between = between(&rungs, best.thresholds.event_threshold);
        extend(&mut found, runs, &settings(&between), progress);
    }
    let best = cheapest(&found.rows, weights).map(|best| best.thresholds);
    let around = best.into_iter().chain([Thresholds::default()]);
    let beside: Vec<Thresholds> = around.flat_map(beside).collect();
    extend(&mut found, runs, &beside, progress);
    found
}

/// The settings with the same fallback whose thresholds are near, and two that are far above.
fn beside(setting: Thresholds) -> impl Iterator<Item = Thresholds> {
    let Thresholds { event_threshold: at, step_fallback } = setting;
    let below = BESIDE.into_iter().map(move |far| at.saturating_sub(far));
    let above = BESIDE.into_iter().map(move |far| at + far).chain([at * 2, at * 4]);
    let all = below.chain(above).filter(|threshold| *threshold > 0);
    all.map(move |event_threshold| Thresholds { event_threshold, step_fallback })
}

/// Adds the rows of settings that are not there yet.
pub(crate) fn extend(
    found: &mut ThresholdSweep,
    runs: &dyn RunSource,
    settings: &[Thresholds],
    progress: &(dyn Fn() + Sync),
) {
    let is_new = |one: &&Thresholds| !found.rows.iter().any(|row| row.thresholds == **one);
    let mut new: Vec<Thresholds> = Vec::new();
    for one in settings.iter().filter(is_new) {
        if !new.contains(one) {
            new.push(*one);
        }
    }
    if !new.is_empty() {
        found.rows.extend(sweep(runs, &new, progress).rows);
    }
}

/// The row with the lowest cost. Among equals, the one nearest the defaults.
pub(crate) fn cheapest<'a>(rows: &'a [SweepRow], weights: &CostWeights) -> Option<&'a SweepRow> {
    let fewest_failures = rows.iter().map(|row| row.failed_runs).min()?;
    rows.iter().filter(|row| row.failed_runs == fewest_failures).min_by(|a, b| {
        let cost = |row: &SweepRow| row.sums().cost(weights).total();
        let strange = |row: &SweepRow| strangeness(row.thresholds);
        cost(a).total_cmp(&cost(b)).then(strange(a).cmp(&strange(b)))
    })
}

/// Each threshold with the fallbacks that stay fallbacks.
fn settings(thresholds: &[u64]) -> Vec<Thresholds> {
    let with = |event_threshold: u64| {
        let steps = event_threshold.div_ceil(STEP_EVENTS);
        // Beyond the usual fallbacks: the steps of the threshold, a third more, twice, four times.
        let wide = [steps, steps + steps / 3, steps * 2, steps * 4];
        let usual = STEP_FALLBACKS.into_iter().filter(move |fallback| *fallback >= steps);
        let setting = move |step_fallback| Thresholds { event_threshold, step_fallback };
        let mut fallbacks: Vec<u64> = usual.chain(wide).collect();
        fallbacks.sort_unstable();
        fallbacks.dedup();
        fallbacks.into_iter().map(setting).filter(|one| keeps_order(*one)).take(FALLBACKS_EACH)
    };
    thresholds.iter().copied().flat_map(with).collect()
}

/// Thresholds between the rungs beside one, evenly.
fn between(rungs: &[u64], best: u64) -> Vec<u64> {
    let below = rungs.iter().copied().filter(|rung| *rung < best).max().unwrap_or(0);
    let above = rungs.iter().copied().filter(|rung| *rung > best).min().unwrap_or(best);
    let all: Vec<u64> = (below / STEP_EVENTS + 1..=above / STEP_EVENTS)
        .map(|steps| steps * STEP_EVENTS)
        .filter(|threshold| *threshold < above && !rungs.contains(threshold))
        .collect();
    let stride = all.len().div_ceil(BETWEEN_MAX).max(1);
    all.into_iter().step_by(stride).collect()
}

#[cfg(test)]
mod tests {
    use super::super::sweep::Generated;
    use super::*;

    #[test]
    fn the_search_goes_beyond_its_first_ladder_when_the_cheapest_is_there() {
        let runs = Generated { seed: 2, runs: 4, events: 1_500 };
        // Bytes only: the fewer snapshots, the better.
        let weights = CostWeights { bytes: 1.0, reread: 0.0, memory: 0.0, age: 0.0 };
        let found = search(&runs, &weights, &|| {});
        let best = cheapest(&found.rows, &weights).unwrap();
        assert!(best.thresholds.event_threshold > 96, "{:?}", best.thresholds);
        // Reading again only: a snapshot after every step.
        let weights = CostWeights { bytes: 0.0, reread: 1.0, memory: 0.0, age: 0.0 };
        let found = search(&runs, &weights, &|| {});
        assert_eq!(cheapest(&found.rows, &weights).unwrap().thresholds.event_threshold, 3);
    }

    #[test]
    fn every_threshold_beside_the_cheapest_is_tried() {
        assert_eq!(between(&FIRST_RUNGS, 18), [15, 21]);
        assert_eq!(between(&FIRST_RUNGS, 3), Vec::<u64>::new());
        assert!(between(&[96, 960, 9_600], 960).len() <= BETWEEN_MAX);
        assert!(settings(&FIRST_RUNGS).contains(&Thresholds::default()));
    }
}
