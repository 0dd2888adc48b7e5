//! Counts over committed events: outcomes, how long attempts took, and what providers did.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::contract::ids::Seq;
use crate::contract::time::Timestamp;
use crate::export::Committed;
use crate::export::exposition::Exposition;
use crate::facts::failure::{ErrorDetails, ErrorFacts};
use crate::facts::model::Provenance;
use crate::state::event::{Charge, Event};

/// Upper bounds of the histogram of attempts, in seconds.
const BOUNDS: [f64; 10] = [0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 120.0];
/// Attempts under way whose start is remembered.
const STARTED_MAX: usize = 100_000;
/// Longest remembered message of a failure, in characters.
const MESSAGE_CHARS: usize = 300;

type ByName = BTreeMap<Cow<'static, str>, u64>;

#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub(crate) struct Counts {
    events: ByName,
    /// Outcomes by what `status` calls them.
    outcomes: ByName,
    pub(crate) providers: BTreeMap<String, Provider>,
    /// How long attempts took: a count for each bound, and one beyond.
    durations: [u64; BOUNDS.len() + 1],
    durations_ms: u64,
    started: BTreeMap<Seq, Timestamp>,
}

/// What is known of a provider.
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub(crate) struct Provider {
    pub(crate) model: String,
    pub(crate) items: u64,
    pub(crate) failures: u64,
    pub(crate) tokens_in: u64,
    pub(crate) tokens_out: u64,
    pub(crate) cost_nanos: u64,
    #[serde(skip)]
    pub(crate) last_item: Option<Timestamp>,
    #[serde(skip)]
    pub(crate) last_failure: Option<(Timestamp, String)>,
}

impl Provider {
    /// What was charged, in the currency of the prices.
    pub(crate) fn cost(&self) -> f64 {
        self.cost_nanos as f64 / 1e9
    }
}

impl Counts {
    pub(crate) fn take(&mut self, committed: &Committed) {
        let at = committed.at;
        *self.events.entry(Cow::Borrowed(committed.event.name())).or_default() += 1;
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
                self.attempted(*request, at);
                self.ended("completed");
                self.answered(at, provenance.as_deref());
            }
            Event::RequestSkipped { request, .. } => {
                self.attempted(*request, at);
                self.ended("skipped");
            }
            Event::AttemptFailed { request, retry_at, message, error, .. } => {
                self.attempted(*request, at);
                self.ended(if retry_at.is_some() { "failed_transient" } else { "failed" });
                self.failed(at, message, error.as_deref());
            }
            Event::RequestCancelled { request, .. } => {
                self.started.remove(request);
                self.ended("cancelled");
            }
            Event::ModelCharged { charge, .. } => self.charged(charge),
            Event::ProviderPassedOver { failure, .. } => {
                self.provider_failed(at, &failure.provider, &failure.message);
            }
            _ => {}
        }
    }

    /// How many requests ended so.
    pub(crate) fn outcome(&self, name: &str) -> u64 {
        self.outcomes.get(name).copied().unwrap_or(0)
    }

    fn ended(&mut self, outcome: &'static str) {
        *self.outcomes.entry(Cow::Borrowed(outcome)).or_default() += 1;
    }

    fn attempted(&mut self, request: Seq, at: Timestamp) {
        let Some(started) = self.started.remove(&request) else { return };
        let ms = at.ms_since(started).max(0).unsigned_abs();
        let seconds = ms as f64 / 1000.0;
        let slot = BOUNDS.iter().position(|bound| seconds <= *bound).unwrap_or(BOUNDS.len());
        self.durations[slot] += 1;
        self.durations_ms += ms;
    }

    fn answered(&mut self, at: Timestamp, provenance: Option<&Provenance>) {
        let Some(Provenance { model, usage, .. }) = provenance else { return };
        let provider = self.providers.entry(model.provider.clone()).or_default();
        provider.model.clone_from(&model.model_name);
        provider.items += 1;
        provider.tokens_in += usage.input_tokens;
        provider.tokens_out += usage.output_tokens;
        provider.last_item = Some(at);
    }

    fn charged(&mut self, charge: &Charge) {
        let provider = self.providers.entry(charge.provider.clone()).or_default();
        provider.cost_nanos += charge.cost_nanos;
    }

    /// A failure counts against a provider only when it is known to be its own.
    fn failed(&mut self, at: Timestamp, message: &str, error: Option<&ErrorFacts>) {
        let Some(ErrorDetails::Model(failure)) = error.map(|error| &error.details) else { return };
        self.provider_failed(at, &failure.provider, message);
    }

    fn provider_failed(&mut self, at: Timestamp, provider: &str, message: &str) {
        let provider = self.providers.entry(provider.to_owned()).or_default();
        provider.failures += 1;
        provider.last_failure = Some((at, message.chars().take(MESSAGE_CHARS).collect()));
    }

    /// Writes the counts as metrics. `since` says where counting began.
    pub(crate) fn expose(&self, since: &str, out: &mut Exposition) {
        for (name, label, counts) in
            [("events", "event", &self.events), ("outcomes", "outcome", &self.outcomes)]
        {
            let (family, help) =
                (format!("{name}_total"), format!("{name} committed since {since}"));
            let counts = counts.iter().map(|(name, count)| (name.as_ref(), *count as f64));
            out.each((&family, "counter", &help), label, counts);
        }
        out.family("attempt_seconds", "histogram", "how long attempts took");
        let mut total = 0;
        for (count, bound) in self.durations.iter().zip(BOUNDS) {
            total += count;
            out.sample("attempt_seconds_bucket", &[("le", &bound.to_string())], total as f64);
        }
        total += self.durations[BOUNDS.len()];
        out.sample("attempt_seconds_bucket", &[("le", "+Inf")], total as f64);
        out.sample("attempt_seconds_sum", &[], self.durations_ms as f64 / 1000.0);
        out.sample("attempt_seconds_count", &[], total as f64);
        self.expose_providers(out);
    }

    fn expose_providers(&self, out: &mut Exposition) {
        let providers = || self.providers.iter().map(|(name, provider)| (name.as_str(), provider));
        let items = providers().map(|(name, provider)| (name, provider.items as f64));
        let family = ("provider_items_total", "counter", "summaries by the provider that answered");
        out.each(family, "provider", items);
        let failures = providers().map(|(name, provider)| (name, provider.failures as f64));
        let family = ("provider_failures_total", "counter", "failed attempts by provider");
        out.each(family, "provider", failures);
        let cost = providers().map(|(name, provider)| (name, provider.cost()));
        let family = ("provider_cost_total", "counter", "cost of calls by the configured prices");
        out.each(family, "provider", cost);
        let help = "tokens of summaries by provider and direction";
        out.family("provider_tokens_total", "counter", help);
        for (name, provider) in providers() {
            for (direction, tokens) in [("in", provider.tokens_in), ("out", provider.tokens_out)] {
                let labels = [("provider", name), ("direction", direction)];
                out.sample("provider_tokens_total", &labels, tokens as f64);
            }
        }
    }
}
