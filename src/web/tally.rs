//! What is counted while the service runs: throughput and providers, from committed events alone,
//! and the points of the charts.

use std::collections::{BTreeMap, VecDeque};

use parking_lot::Mutex;
use serde_json::{Value, json};

use super::spend::Spend;
use crate::config::Config;
use crate::contract::ids::Seq;
use crate::contract::time::Timestamp;
use crate::control::question::{Answer, Question};
use crate::control::socket::Asker;
use crate::export::Committed;
use crate::facts::failure::{ErrorDetails, ErrorFacts};
use crate::facts::model::Provenance;
use crate::log::Reader;
use crate::state::event::Event;

/// Points kept for the charts: half an hour.
const POINTS_MAX: usize = 1800;
/// Upper bounds of the histogram of tries, in seconds.
pub(super) const BOUNDS: [f64; 10] = [0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 120.0];
/// Tries under way whose start is remembered.
const STARTED_MAX: usize = 100_000;
/// Longest remembered message of a failure, in characters.
const MESSAGE_CHARS: usize = 300;

/// The counts. The sequencer updates them and the page reads them.
#[derive(Default)]
pub struct Tally {
    counts: Mutex<Counts>,
    points: Mutex<VecDeque<Value>>,
    spend: Spend,
}

#[derive(Default, Clone)]
pub(super) struct Counts {
    /// Events by name.
    pub events: BTreeMap<&'static str, u64>,
    /// Outcomes by what `status` calls them.
    pub outcomes: BTreeMap<&'static str, u64>,
    /// Providers by name.
    pub providers: BTreeMap<String, Provider>,
    /// How long tries took: a count for each bound, and one beyond.
    pub seconds: [u64; BOUNDS.len() + 1],
    pub seconds_sum: f64,
    started: BTreeMap<Seq, Timestamp>,
    prices: BTreeMap<String, (f64, f64)>,
}

/// What is known of a provider since the start.
#[derive(Default, Clone)]
pub(super) struct Provider {
    pub model: String,
    pub configured: bool,
    pub items: u64,
    pub failures: u64,
    pub tokens_in: u64,
    pub tokens_out: u64,
    pub cost: f64,
    pub last_item: Option<Timestamp>,
    pub last_failure: Option<(Timestamp, String)>,
}

impl Tally {
    /// Nothing counted yet; providers and their prices as configured.
    pub fn new(config: &Config) -> Tally {
        let tally = Tally::default();
        {
            let mut counts = tally.counts.lock();
            for (name, section) in &config.providers {
                let prices = (section.price_in.unwrap_or(0.0), section.price_out.unwrap_or(0.0));
                counts.prices.insert(name.clone(), prices);
                let provider = Provider {
                    model: section.model.clone().unwrap_or_default(),
                    configured: true,
                    ..Provider::default()
                };
                counts.providers.insert(name.clone(), provider);
            }
            counts.providers.entry(config.provider_default.clone()).or_default().configured = true;
        }
        tally
    }

    /// Counts what was committed.
    pub fn observe(&self, events: &[Committed]) {
        let mut counts = self.counts.lock();
        for committed in events {
            counts.take(committed);
            if let Event::ModelCharged { charge, .. } = &committed.event {
                self.spend.take(charge);
            }
        }
    }

    /// Reads what was spent up to a record, which is before everything that is observed.
    pub fn read_spend(&self, log: &Reader, until: Seq, now: Timestamp) {
        self.spend.read(log, until, now);
    }

    pub(super) fn spend(&self) -> &Spend {
        &self.spend
    }

    pub(super) fn counts(&self) -> Counts {
        self.counts.lock().clone()
    }

    /// One more point for the charts.
    pub(super) fn sample(&self, asker: &Asker) {
        let Answer::Ok(status) = asker.ask(Question::Status) else { return };
        let counts = self.counts.lock();
        let of = |name: &str| counts.outcomes.get(name).copied().unwrap_or(0);
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

impl Counts {
    fn take(&mut self, committed: &Committed) {
        let at = committed.at;
        *self.events.entry(committed.event.name()).or_default() += 1;
        match &committed.event {
            Event::LineQuarantined(_) => self.ended("quarantined"),
            Event::RequestRejected { .. } => self.ended("rejected"),
            Event::DuplicateReceived { .. } => self.ended("duplicate"),
            Event::RequestDuplicated { request, .. } => {
                self.started.remove(request);
                self.ended("duplicate");
            }
            Event::AttemptStarted { request, .. } if self.started.len() < STARTED_MAX => {
                self.started.insert(*request, at);
            }
            Event::SummaryProduced { request, provenance, .. } => {
                self.tried(*request, at);
                self.ended("completed");
                self.answered(at, provenance.as_deref());
            }
            Event::RequestSkipped { request, .. } => {
                self.tried(*request, at);
                self.ended("skipped");
            }
            Event::AttemptFailed { request, retry_at, message, error, .. } => {
                self.tried(*request, at);
                self.ended(if retry_at.is_some() { "failed_transient" } else { "failed" });
                self.failed(at, message, error.as_deref());
            }
            Event::RequestCancelled { request, .. } => {
                self.started.remove(request);
                self.ended("cancelled");
            }
            _ => {}
        }
    }

    fn ended(&mut self, outcome: &'static str) {
        *self.outcomes.entry(outcome).or_default() += 1;
    }

    fn tried(&mut self, request: Seq, at: Timestamp) {
        let Some(started) = self.started.remove(&request) else { return };
        let seconds = at.ms_since(started).max(0) as f64 / 1000.0;
        let slot = BOUNDS.iter().position(|bound| seconds <= *bound).unwrap_or(BOUNDS.len());
        self.seconds[slot] += 1;
        self.seconds_sum += seconds;
    }

    fn answered(&mut self, at: Timestamp, provenance: Option<&Provenance>) {
        let Some(Provenance { model, usage, .. }) = provenance else { return };
        let (input, output) = (usage.input_tokens, usage.output_tokens);
        let (price_in, price_out) = self.prices.get(&model.provider).copied().unwrap_or_default();
        let provider = self.providers.entry(model.provider.clone()).or_default();
        provider.model.clone_from(&model.model_name);
        provider.items += 1;
        provider.tokens_in += input;
        provider.tokens_out += output;
        provider.cost += (input as f64 * price_in + output as f64 * price_out) / 1e6;
        provider.last_item = Some(at);
    }

    /// A failure counts against a provider only when it is known to be its own.
    fn failed(&mut self, at: Timestamp, message: &str, error: Option<&ErrorFacts>) {
        let Some(ErrorDetails::Model(failure)) = error.map(|error| &error.details) else { return };
        let provider = self.providers.entry(failure.provider.clone()).or_default();
        provider.failures += 1;
        provider.last_failure = Some((at, message.chars().take(MESSAGE_CHARS).collect()));
    }
}
