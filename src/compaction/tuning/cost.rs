//! What a setting costs, as one figure for each 1,000 events: bytes written, events read again at a
//! restart, events held in memory, age of the newest snapshot. Each has a weight.
//!
//! Contract: a pure function of sums over runs, so that any selection of runs can be judged.

use serde::{Deserialize, Serialize};

/// What each part of the cost counts.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct CostWeights {
    /// Of a KiB of snapshots, narratives and spilled records.
    pub bytes: f64,
    /// Of an event that is read again. One restart for each 1,000 events is assumed, at any of them.
    pub reread: f64,
    /// Of an event that is held because no snapshot covers it yet, at the worst moment of a run.
    pub memory: f64,
    /// Of a minute that the newest snapshot is old, at a moment chosen at random.
    pub age: f64,
}

impl Default for CostWeights {
    fn default() -> CostWeights {
        // An event that is read again becomes part of a prompt, which costs more than its bytes.
        CostWeights { bytes: 1.0, reread: 8.0, memory: 1.0, age: 1.0 }
    }
}

/// What a setting leads to, summed over some runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CostSums {
    /// Events: the places where a run could stop.
    pub events: u64,
    pub bytes: u64,
    /// Events since the newest snapshot, over every place.
    pub tail_events: u64,
    /// The longest tail of each run, once for each of its events.
    pub longest_tails: u64,
    /// Milliseconds since the newest snapshot, over every place.
    pub age_ms: u64,
}

impl CostSums {
    pub(crate) fn add(&mut self, other: &CostSums) {
        self.events += other.events;
        self.bytes += other.bytes;
        self.tail_events += other.tail_events;
        self.longest_tails += other.longest_tails;
        self.age_ms += other.age_ms;
    }

    /// The cost for each 1,000 events, by part.
    pub(crate) fn cost(&self, weights: &CostWeights) -> CostParts {
        let each = |sum: u64| sum as f64 / self.events.max(1) as f64;
        CostParts {
            bytes: weights.bytes * each(self.bytes) * 1000.0 / 1024.0,
            reread: weights.reread * each(self.tail_events),
            memory: weights.memory * each(self.longest_tails),
            age: weights.age * each(self.age_ms) / 60_000.0,
        }
    }
}

/// A cost for each 1,000 events.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct CostParts {
    pub bytes: f64,
    pub reread: f64,
    pub memory: f64,
    pub age: f64,
}

impl CostParts {
    pub fn total(&self) -> f64 {
        self.bytes + self.reread + self.memory + self.age
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cost_is_the_weighted_sum_for_a_thousand_events() {
        let sums = CostSums {
            events: 2_000,
            bytes: 4 * 1024 * 1000,
            tail_events: 6_000,
            longest_tails: 14_000,
            age_ms: 120_000 * 2_000,
        };
        let weights = CostWeights { bytes: 1.0, reread: 2.0, memory: 0.5, age: 10.0 };
        let cost = sums.cost(&weights);
        assert_eq!((cost.bytes, cost.reread, cost.memory, cost.age), (2000.0, 6.0, 3.5, 20.0));
        assert_eq!(cost.total(), 2029.5);
        assert_eq!(CostSums::default().cost(&weights).total(), 0.0);
    }
}
