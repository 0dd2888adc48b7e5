//! What is counted while the service runs: throughput and providers, from committed events alone,
//! and the points of the charts.

use std::collections::{BTreeSet, VecDeque};

use parking_lot::Mutex;
use serde_json::{Value, json};

use super::spend::Spend;
use crate::config::Config;
use crate::contract::ids::Seq;
use crate::contract::time::Timestamp;
use crate::control::question::{Answer, Question};
use crate::control::socket::Asker;
use crate::export::Committed;
use crate::log::Reader;
use crate::projections::counts::{Counts, Provider};
use crate::state::event::Event;

/// Points kept for the charts: half an hour.
const POINTS_MAX: usize = 1800;

/// The counts. The sequencer updates them and the page reads them.
#[derive(Default)]
pub struct Tally {
    counts: Mutex<Counts>,
    points: Mutex<VecDeque<Value>>,
    spend: Spend,
    /// Names of the configured providers.
    configured: BTreeSet<String>,
}

impl Tally {
    /// Nothing counted yet; providers and their prices as configured.
    pub fn new(config: &Config) -> Tally {
        let mut tally = Tally::default();
        let counts = tally.counts.get_mut();
        for (name, section) in &config.providers {
            let model = section.model.clone().unwrap_or_default();
            let provider = Provider { model, ..Provider::default() };
            counts.providers.insert(name.clone(), provider);
        }
        counts.providers.entry(config.provider_default.clone()).or_default();
        tally.configured = counts.providers.keys().cloned().collect();
        tally
    }

    /// Counts what was committed.
    pub(crate) fn observe(&self, events: &[Committed]) {
        let mut counts = self.counts.lock();
        for committed in events {
            counts.take(committed);
            if let Event::ModelCharged { charge, .. } = &committed.event {
                self.spend.take(charge);
            }
        }
    }

    /// Reads what was spent up to a record, which is before everything that is observed.
    pub(crate) fn read_spend(&self, log: &Reader, until: Seq, now: Timestamp) {
        self.spend.read(log, until, now);
    }

    pub(super) fn spend(&self) -> &Spend {
        &self.spend
    }

    pub(super) fn is_configured(&self, provider: &str) -> bool {
        self.configured.contains(provider)
    }

    pub(super) fn counts(&self) -> Counts {
        self.counts.lock().clone()
    }

    /// One more point for the charts.
    pub(super) fn sample(&self, asker: &Asker) {
        let Answer::Ok(status) = asker.ask(Question::Status) else { return };
        let counts = self.counts.lock();
        let of = |name: &str| counts.outcome(name);
        let requests = &status["requests"];
        let point = json!({
            "at": status["at"], "open": requests["open"], "ready": requests["ready"],
            "running": requests["running"], "delayed": requests["delayed"],
            "lag_bytes": status["queue"]["lag_bytes"],
            "completed": of("completed"), "failed": of("failed"),
            "other": of("duplicate") + of("skipped") + of("rejected") + of("quarantined"),
        });
        drop(counts);
        let mut points = self.points.lock();
        if points.len() == POINTS_MAX {
            points.pop_front();
        }
        points.push_back(point);
    }

    /// The points; those after a moment, when one is named as a point names it.
    pub(super) fn points(&self, since: Option<&str>) -> Vec<Value> {
        let is_new = |point: &&Value| {
            since.is_none_or(|since| point["at"].as_str().is_some_and(|at| at > since))
        };
        let points = self.points.lock();
        // From the newest back, so that a clock that was set costs no more than the points there are.
        let mut found: Vec<Value> = points.iter().rev().take_while(is_new).cloned().collect();
        found.reverse();
        found
    }
}
