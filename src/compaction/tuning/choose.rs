//! Recommends a setting: the cheapest by the cost model, or the default when nothing says that
//! another is better. How sure that is comes from drawing the runs again at random. Times are
//! reported but do not influence the choice, so equal logs give the same choice on every machine.
//!
//! See docs/adr/0100-cost-model-of-tune.md.

use super::super::trigger::Thresholds;
use super::cost::{CostParts, CostSums, CostWeights};
use super::sweep::{SweepRow, keeps_order, strangeness};

/// How often the runs are drawn again.
const DRAWS: usize = 1_000;
/// A setting is as good when its cost is at most this much above the lowest.
const AS_GOOD: f64 = 1.02;
/// In at least this share of the draws.
const AS_GOOD_SHARE: f64 = 0.05;
/// A setting that costs more than this above the lowest in these runs is not as good, whatever the draws say.
const COST_MAX: f64 = 1.1;
/// Fewer runs than this say little of others.
const RUNS_FEW: usize = 5;

#[derive(Debug, Clone, PartialEq)]
pub struct ThresholdChoice {
    /// Index of the chosen row.
    pub chosen: usize,
    /// Index of the row of the defaults.
    pub default: Option<usize>,
    /// The cost of every row.
    pub costs: Vec<CostParts>,
    /// Rows that are as good as the cheapest.
    pub as_good: Vec<usize>,
    /// The event thresholds between which every one tried with the fallback of the chosen row is as
    /// good.
    pub between: (u64, u64),
    /// The share of the draws in which the chosen row was as good as the cheapest. `None` when there
    /// are too few runs to draw from.
    pub confidence: Option<f64>,
    /// A reason for people.
    pub reason: String,
}

/// Chooses among the first `considered` rows; `None` without rows. The other rows are costed
/// only.
pub fn choose(
    rows: &[SweepRow],
    considered: usize,
    weights: &CostWeights,
) -> Option<ThresholdChoice> {
    let candidates = candidates(rows, considered);
    let costs: Vec<CostParts> = rows.iter().map(|row| row.sums().cost(weights)).collect();
    let cheapest = candidates.iter().copied().min_by(|a, b| {
        let strange = |index: &usize| strangeness(rows[*index].thresholds);
        costs[*a].total().total_cmp(&costs[*b].total()).then(strange(a).cmp(&strange(b)))
    })?;
    let shares = shares(rows, &candidates, weights);
    let costs_at_most = |place: usize, factor: f64| {
        costs[candidates[place]].total() <= factor * costs[cheapest].total()
    };
    let is_as_good = |place: usize| match &shares {
        Some(shares) => shares[place] >= AS_GOOD_SHARE && costs_at_most(place, COST_MAX),
        None => costs_at_most(place, AS_GOOD),
    };
    let mut as_good: Vec<usize> = (0..candidates.len())
        .filter(|place| is_as_good(*place))
        .map(|place| candidates[place])
        .collect();
    let default = rows.iter().position(|row| row.thresholds == Thresholds::default());
    let chosen = default.filter(|default| as_good.contains(default)).unwrap_or(cheapest);
    // A setting that is no candidate may cost as little: its fallback always comes before its threshold.
    let costs_no_more = |index: &usize| {
        rows[*index].failed_runs == rows[chosen].failed_runs
            && costs[*index].total() <= costs[chosen].total()
    };
    let others = (0..rows.len()).filter(|index| !candidates.contains(index));
    as_good.extend(others.filter(costs_no_more));
    let searched = &rows[..considered.min(rows.len())];
    let between = between(searched, &as_good, rows[chosen].thresholds);
    let confidence = shares.as_ref().and_then(|shares| {
        candidates.iter().position(|index| *index == chosen).map(|place| shares[place])
    });
    let found = ChoiceFacts { rows, costs: &costs, chosen, cheapest, default, between, confidence };
    let reason = found.reason();
    Some(ThresholdChoice { chosen, default, costs, as_good, between, confidence, reason })
}

/// Rows that may be chosen: fewest failed runs, and a fallback that stays one where there is such.
fn candidates(rows: &[SweepRow], considered: usize) -> Vec<usize> {
    let rows = &rows[..considered.min(rows.len())];
    let Some(fewest) = rows.iter().map(|row| row.failed_runs).min() else { return Vec::new() };
    let of = |ordered: bool| -> Vec<usize> {
        let fits =
            |row: &SweepRow| row.failed_runs == fewest && (!ordered || keeps_order(row.thresholds));
        (0..rows.len()).filter(|index| fits(&rows[*index])).collect()
    };
    let ordinary = of(true);
    if ordinary.is_empty() { of(false) } else { ordinary }
}

/// For each candidate, the share of the draws in which it was as good as the cheapest one. `None`
/// without at least two blocks of runs.
fn shares(rows: &[SweepRow], candidates: &[usize], weights: &CostWeights) -> Option<Vec<f64>> {
    let first = &rows[*candidates.first()?];
    let blocks: Vec<usize> =
        (0..first.blocks.len()).filter(|block| first.blocks[*block].events > 0).collect();
    if blocks.len() < 2 {
        return None;
    }
    let mut random = Random(0x5EED);
    let mut good = vec![0_u32; candidates.len()];
    for _ in 0..DRAWS {
        let drawn: Vec<usize> = blocks.iter().map(|_| blocks[random.below(blocks.len())]).collect();
        let cost = |index: &usize| {
            let mut sums = CostSums::default();
            drawn.iter().for_each(|block| sums.add(&rows[*index].blocks[*block]));
            sums.cost(weights).total()
        };
        let costs: Vec<f64> = candidates.iter().map(cost).collect();
        let lowest = costs.iter().copied().fold(f64::INFINITY, f64::min);
        for (good, cost) in good.iter_mut().zip(&costs) {
            *good += u32::from(*cost <= AS_GOOD * lowest);
        }
    }
    Some(good.into_iter().map(|good| f64::from(good) / DRAWS as f64).collect())
}

/// A generator of numbers that are the same every time (SplitMix64).
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((mixed ^ (mixed >> 31)) % end as u64) as usize
    }
}

/// The widest range of event thresholds around a setting in which every threshold tried with the same
/// fallback is as good.
fn between(rows: &[SweepRow], as_good: &[usize], around: Thresholds) -> (u64, u64) {
    let with_fallback = |row: &SweepRow| row.thresholds.step_fallback == around.step_fallback;
    let around = around.event_threshold;
    let mut tried: Vec<(u64, bool)> = (0..rows.len())
        .filter(|index| with_fallback(&rows[*index]))
        .map(|index| (rows[index].thresholds.event_threshold, as_good.contains(&index)))
        .collect();
    tried.sort_unstable();
    let good = |(_, good): &&(u64, bool)| *good;
    let below = tried.iter().rev().filter(|(tried, _)| *tried <= around);
    let above = tried.iter().filter(|(tried, _)| *tried >= around);
    let low = below.take_while(good).last().map(|(tried, _)| *tried);
    let high = above.take_while(good).last().map(|(tried, _)| *tried);
    (low.unwrap_or(around), high.unwrap_or(around))
}

struct ChoiceFacts<'a> {
    rows: &'a [SweepRow],
    costs: &'a [CostParts],
    chosen: usize,
    cheapest: usize,
    default: Option<usize>,
    between: (u64, u64),
    confidence: Option<f64>,
}

impl ChoiceFacts<'_> {
    fn name(&self, index: usize) -> String {
        let Thresholds { event_threshold, step_fallback } = self.rows[index].thresholds;
        format!("{event_threshold}/{step_fallback}")
    }

    /// How much more one row costs than the cheapest, with so many decimals.
    fn above(&self, index: usize, decimals: usize) -> String {
        let (cost, lowest) = (self.costs[index].total(), self.costs[self.cheapest].total());
        match (lowest > 0.0, cost > 0.0) {
            (true, _) => format!("{:.decimals$} % more", (cost / lowest - 1.0) * 100.0),
            (false, true) => format!("{cost:.1} where the cheapest costs nothing"),
            (false, false) => "nothing either".to_owned(),
        }
    }

    fn reason(&self) -> String {
        let mut text = match self.chosen == self.cheapest {
            true => format!("{} is the cheapest setting", self.name(self.chosen)),
            false => format!(
                "the default {} stays: the cheapest is {}, and the default costs {}, which is no \
                 difference that these runs can show",
                self.name(self.chosen),
                self.name(self.cheapest),
                self.above(self.chosen, 1)
            ),
        };
        let (low, high) = self.between;
        let fallback = self.rows[self.chosen].thresholds.step_fallback;
        match low < high {
            true => text.push_str(&format!(
                "; with the fallback {fallback}, every event threshold tried between {low} and \
                 {high} is as good for these runs"
            )),
            false => text.push_str(&format!(
                "; with the fallback {fallback}, no neighbouring event threshold tried is as good"
            )),
        }
        if let Some(default) = self.default.filter(|default| *default != self.chosen) {
            let more = self.above(default, 0);
            text.push_str(&format!("; the default {} costs {more}", self.name(default)));
        }
        match self.confidence {
            Some(share) => text.push_str(&format!(
                "; in {:.0} of 100 draws of the runs it is within {:.0} % of the cheapest",
                share * 100.0,
                (AS_GOOD - 1.0) * 100.0
            )),
            None => text.push_str("; one run cannot say whether other runs agree"),
        }
        let row = &self.rows[self.chosen];
        let runs = row.blocks.iter().filter(|block| block.events > 0).count();
        if (2..RUNS_FEW).contains(&runs) {
            text.push_str(&format!(
                "; {runs} runs are few: record more before you change a setting"
            ));
        }
        let threshold = row.thresholds.event_threshold;
        if row.tails.max() < threshold {
            text.push_str(&format!(
                "; none of these runs reaches {threshold} events without a snapshot, so this threshold has no effect \
                 on them"
            ));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::super::search::search;
    use super::super::sweep::{Generated, ThresholdSweep};
    use super::*;

    fn searched(seed: u64, weights: &CostWeights) -> ThresholdSweep {
        search(&Generated { seed, runs: 20, events: 200 }, weights, &|| {})
    }

    #[test]
    fn the_choice_is_as_good_as_the_cheapest_and_inside_its_range() {
        let weights = CostWeights::default();
        let rows = searched(5, &weights).rows;
        let choice = choose(&rows, rows.len(), &weights).unwrap();
        let lowest = choice.costs.iter().map(CostParts::total).fold(f64::INFINITY, f64::min);
        assert!(choice.as_good.contains(&choice.chosen));
        assert!(choice.costs[choice.chosen].total() <= 1.1 * lowest, "{}", choice.reason);
        let (low, high) = choice.between;
        let threshold = rows[choice.chosen].thresholds.event_threshold;
        assert!((low..=high).contains(&threshold), "{low} {threshold} {high}");
        assert!(choice.confidence.is_some_and(|share| share >= AS_GOOD_SHARE));
        assert_eq!(choose(&[], 0, &weights), None);
    }

    #[test]
    fn rows_beyond_those_considered_change_nothing() {
        let weights = CostWeights::default();
        let mut rows = searched(6, &weights).rows;
        let alone = choose(&rows, rows.len(), &weights).unwrap();
        let considered = rows.len();
        let cheaper = SweepRow { blocks: vec![CostSums::default(); 4], ..rows[0].clone() };
        rows.push(cheaper);
        let with = choose(&rows, considered, &weights).unwrap();
        assert_eq!(
            (with.chosen, with.between, with.reason),
            (alone.chosen, alone.between, alone.reason)
        );
    }

    #[test]
    fn what_the_range_says_is_true_of_every_pair_in_it() {
        let weights = CostWeights::default();
        for seed in 1..8 {
            let rows = searched(seed, &weights).rows;
            let choice = choose(&rows, rows.len(), &weights).unwrap();
            let (low, high) = choice.between;
            let chosen = rows[choice.chosen].thresholds;
            for (index, row) in rows.iter().enumerate() {
                let Thresholds { event_threshold, step_fallback } = row.thresholds;
                let is_named = step_fallback == chosen.step_fallback
                    && (low..=high).contains(&event_threshold);
                assert!(!is_named || choice.as_good.contains(&index), "{}", choice.reason);
            }
        }
    }

    /// Thresholds beside the chosen one were tried, so a range without neighbours is a known fact.
    #[test]
    fn the_range_ends_where_a_setting_beside_it_costs_more() {
        let weights = CostWeights::default();
        for seed in 1..8 {
            let rows = searched(seed, &weights).rows;
            let choice = choose(&rows, rows.len(), &weights).unwrap();
            let chosen = rows[choice.chosen].thresholds;
            let (low, high) = choice.between;
            let tried = |threshold: u64| {
                let beside = Thresholds { event_threshold: threshold, ..chosen };
                rows.iter().position(|row| row.thresholds == beside)
            };
            for threshold in [low - 1, high + 1] {
                let is_good = tried(threshold).is_some_and(|at| choice.as_good.contains(&at));
                assert!(!is_good, "{threshold}: {}", choice.reason);
            }
            let at = chosen.event_threshold;
            assert!(at < 2 || tried(at - 1).is_some(), "{}", choice.reason);
            assert!(tried(at + 1).is_some(), "{}", choice.reason);
        }
    }

    #[test]
    fn a_default_is_not_called_equal_to_a_setting_that_costs_nothing() {
        let weights = CostWeights::default();
        let mut rows = searched(6, &weights).rows;
        rows[0].blocks.iter_mut().for_each(|block| {
            let events = block.events;
            *block = CostSums { events, ..CostSums::default() };
        });
        rows[0].failed_runs = 0;
        let choice = choose(&rows, rows.len(), &weights).unwrap();
        let default = choice.default.unwrap();
        if default != choice.chosen && choice.costs[choice.chosen].total() == 0.0 {
            assert!(
                choice.reason.contains("where the cheapest costs nothing"),
                "{}",
                choice.reason
            );
        }
        assert!(!choice.reason.contains(" 0 % more"), "{}", choice.reason);
    }

    #[test]
    fn one_run_gives_no_confidence() {
        let weights = CostWeights::default();
        let rows = search(&Generated { seed: 1, runs: 1, events: 200 }, &weights, &|| {}).rows;
        let choice = choose(&rows, rows.len(), &weights).unwrap();
        assert_eq!(choice.confidence, None);
        assert!(choice.reason.contains("one run cannot say"), "{}", choice.reason);
    }
}
