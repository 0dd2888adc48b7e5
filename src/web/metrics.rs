//! The same facts as numbers for Prometheus, in its text format.

use std::fmt::Write as _;

use serde_json::Value;

use super::Shown;
use super::http::Response;
use super::tally::BOUNDS;
use crate::control::question::{Answer, Question};

/// Everything that is measured.
pub(super) fn metrics(shown: &Shown) -> Response {
    match shown.asker.ask(Question::Status) {
        Answer::Ok(status) => Response::exposition(render(shown, &status)),
        Answer::Starting(_) => {
            let mut out = Text::default();
            out.family("up", "gauge", "1 while the service answers, 0 while it starts");
            out.sample("up", &[], 0.0);
            Response::exposition(out.0)
        }
        other => Response::plain(503, &format!("the service does not answer: {other:?}\n")),
    }
}

#[derive(Default)]
struct Text(String);

impl Text {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.0, "# HELP summarizer_{name} {help}");
        let _ = writeln!(self.0, "# TYPE summarizer_{name} {kind}");
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: f64) {
        let _ = write!(self.0, "summarizer_{name}");
        for (index, (label, text)) in labels.iter().enumerate() {
            let text = text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let _ = write!(self.0, "{}{label}=\"{text}\"", if index == 0 { '{' } else { ',' });
        }
        let _ = writeln!(self.0, "{} {value}", if labels.is_empty() { "" } else { "}" });
    }

    /// A family of one sample.
    fn one(&mut self, name: &str, kind: &str, help: &str, value: f64) {
        self.family(name, kind, help);
        self.sample(name, &[], value);
    }

    /// A family with one label.
    fn each<'a>(
        &mut self,
        (name, kind, help): (&str, &str, &str),
        label: &str,
        values: impl Iterator<Item = (&'a str, f64)>,
    ) {
        self.family(name, kind, help);
        values.for_each(|(word, value)| self.sample(name, &[(label, word)], value));
    }
}

fn members(value: &Value) -> impl Iterator<Item = (&str, f64)> {
    let members = value.as_object().into_iter().flatten();
    members.map(|(word, count)| (word.as_str(), count.as_f64().unwrap_or(0.0)))
}

fn render(shown: &Shown, status: &Value) -> String {
    let number = |pointer: &str| status.pointer(pointer).and_then(Value::as_f64).unwrap_or(0.0);
    let mut out = Text::default();
    out.one("up", "gauge", "1 while the service answers, 0 while it starts", 1.0);
    out.family("build_info", "gauge", "the version that runs");
    out.sample("build_info", &[("version", env!("CARGO_PKG_VERSION"))], 1.0);
    let gauges = [
        ("queue_bytes", "/queue/bytes", "bytes of the queue file"),
        ("queue_lag_bytes", "/queue/lag_bytes", "bytes of the queue that are not taken in yet"),
        ("queue_lines_consumed", "/queue/lines", "lines of the queue that are taken in"),
        ("requests_open", "/requests/open", "requests that have not ended"),
        ("requests_ready", "/requests/ready", "requests that may run now"),
        ("requests_delayed", "/requests/delayed", "requests that wait for their moment"),
        ("requests_running", "/requests/running", "requests under way"),
        ("log_events", "/log/head", "events in the log"),
        ("log_bytes", "/log/bytes", "bytes of the log's file"),
        ("disk_free_bytes", "/disk/free_bytes", "bytes free on the disk of the home"),
        ("quarantined_lines", "/quarantined", "lines that were set aside"),
    ];
    for (name, pointer, help) in gauges {
        out.one(name, "gauge", help, number(pointer));
    }
    let oldest = number("/oldest_open/waited_ms") / 1000.0;
    out.one("oldest_open_seconds", "gauge", "age of the oldest open request", oldest);
    let paused = f64::from(u8::from(status["paused"].as_array().is_some_and(|p| !p.is_empty())));
    out.one("paused", "gauge", "1 while nothing new is taken in or started", paused);
    let by_status = ("requests", "gauge", "requests by what they are now");
    out.each(by_status, "state", members(&status["requests"]["by_status"]));
    let by_reason = ("requests_by_reason", "gauge", "ended requests by reason");
    out.each(by_reason, "reason", members(&status["requests"]["by_reason"]));
    counted(shown, &mut out);
    out.0
}

/// What was counted since the start.
#[allow(clippy::cast_precision_loss, reason = "counts far below the point where it shows")]
fn counted(shown: &Shown, out: &mut Text) {
    let counts = shown.tally.counts();
    let events = counts.events.iter().map(|(name, count)| (*name, *count as f64));
    out.each(("events_total", "counter", "events committed since the start"), "event", events);
    let outcomes = counts.outcomes.iter().map(|(name, count)| (*name, *count as f64));
    let family = ("outcomes_total", "counter", "outcomes committed since the start");
    out.each(family, "outcome", outcomes);
    out.family("attempt_seconds", "histogram", "how long tries took");
    let mut total = 0;
    for (count, bound) in counts.seconds.iter().zip(BOUNDS) {
        total += count;
        out.sample("attempt_seconds_bucket", &[("le", &bound.to_string())], total as f64);
    }
    total += counts.seconds[BOUNDS.len()];
    out.sample("attempt_seconds_bucket", &[("le", "+Inf")], total as f64);
    out.sample("attempt_seconds_sum", &[], counts.seconds_sum);
    out.sample("attempt_seconds_count", &[], total as f64);
    let providers = || counts.providers.iter().map(|(name, provider)| (name.as_str(), provider));
    let items = providers().map(|(name, provider)| (name, provider.items as f64));
    let family = ("provider_items_total", "counter", "summaries by who answered");
    out.each(family, "provider", items);
    let failures = providers().map(|(name, provider)| (name, provider.failures as f64));
    let family = ("provider_failures_total", "counter", "failed tries by who was asked");
    out.each(family, "provider", failures);
    let cost = providers().map(|(name, provider)| (name, provider.cost));
    let family = ("provider_cost_total", "counter", "cost by the configured prices");
    out.each(family, "provider", cost);
    out.family("provider_tokens_total", "counter", "tokens by who answered and their direction");
    for (name, provider) in providers() {
        for (direction, tokens) in [("in", provider.tokens_in), ("out", provider.tokens_out)] {
            let labels = [("provider", name), ("direction", direction)];
            out.sample("provider_tokens_total", &labels, tokens as f64);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_escaped() {
        let mut out = Text::default();
        out.sample("x", &[("a", "q\"\\\n"), ("b", "c")], 1.5);
        assert_eq!(out.0, "summarizer_x{a=\"q\\\"\\\\\\n\",b=\"c\"} 1.5\n");
    }
}
