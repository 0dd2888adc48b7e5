//! The same facts as numbers for Prometheus, in its text format.

use serde_json::Value;

use super::Shown;
use super::http::Response;
use crate::control::question::{Answer, Question};
use crate::export::exposition::Exposition;

/// Everything that is measured.
pub(super) fn metrics(shown: &Shown) -> Response {
    match shown.asker.ask(Question::Status) {
        Answer::Ok(status) => Response::exposition(render(shown, &status)),
        Answer::Starting(_) => {
            let mut out = Exposition::default();
            out.family("up", "gauge", "1 while the service answers, 0 while it starts");
            out.sample("up", &[], 0.0);
            Response::exposition(out.0)
        }
        other => Response::plain(503, &format!("the service does not answer: {other:?}\n")),
    }
}

fn members(value: &Value) -> impl Iterator<Item = (&str, f64)> {
    let members = value.as_object().into_iter().flatten();
    members.map(|(word, count)| (word.as_str(), count.as_f64().unwrap_or(0.0)))
}

fn render(shown: &Shown, status: &Value) -> String {
    let number = |pointer: &str| status.pointer(pointer).and_then(Value::as_f64).unwrap_or(0.0);
    let mut out = Exposition::default();
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
    shown.tally.counts().expose("the start", &mut out);
    out.0
}
