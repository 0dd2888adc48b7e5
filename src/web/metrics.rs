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

/// The hosts that share the log, where there are some.
fn hosts(cluster: &Value, out: &mut Exposition) {
    let Some(role) = cluster["role"].as_str() else { return };
    let one = |is: bool| f64::from(u8::from(is));
    out.one("cluster_leads", "gauge", "1 while this host leads", one(role == "leader"));
    let is_cut_off = cluster["unreached"].is_object();
    let help = "1 while this host hears nothing of the shared log";
    out.one("cluster_unreached", "gauge", help, one(is_cut_off));
    let help = "1 while lines of this host's queue wait here";
    out.one("cluster_unshipped", "gauge", help, one(cluster["unshipped"].is_object()));
    let hosts = || cluster["hosts"].as_array().into_iter().flatten();
    for (name, member, help) in [
        (
            "cluster_host_behind_commits",
            "behind",
            "commits of the shared log that a host does not have",
        ),
        ("cluster_host_silent_seconds", "silent_seconds", "time since a host was heard of"),
        ("cluster_host_attempts", "attempts", "attempts that a host carries out for the leader"),
    ] {
        let known =
            hosts().filter_map(|host| Some((host["host"].as_str()?, host[member].as_f64()?)));
        out.each((name, "gauge", help), "host", known);
    }
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
    hosts(&status["cluster"], &mut out);
    shown.tally.counts().expose("the start", &mut out);
    out.0
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn told(cluster: &Value) -> String {
        let mut out = Exposition::default();
        hosts(cluster, &mut out);
        out.0
            .lines()
            .filter(|line| !line.starts_with('#'))
            .map(|line| format!("{line}\n"))
            .collect()
    }

    #[test]
    fn hosts_are_measured_where_a_log_is_shared() {
        assert_eq!(told(&Value::Null), "");
        let cluster = json!({
            "role": "follower", "unreached": {"since": "x", "message": "y"}, "unshipped": null,
            "hosts": [
                {"host": "a", "leads": true, "behind": 0, "silent_seconds": 0.2, "attempts": 0},
                {"host": "b", "leads": false, "behind": null, "silent_seconds": 1.5, "attempts": 3},
            ],
        });
        let lines = [
            "summarizer_cluster_leads 0",
            "summarizer_cluster_unreached 1",
            "summarizer_cluster_unshipped 0",
            "summarizer_cluster_host_behind_commits{host=\"a\"} 0",
            "summarizer_cluster_host_silent_seconds{host=\"a\"} 0.2",
            "summarizer_cluster_host_silent_seconds{host=\"b\"} 1.5",
            "summarizer_cluster_host_attempts{host=\"a\"} 0",
            "summarizer_cluster_host_attempts{host=\"b\"} 3",
        ];
        assert_eq!(told(&cluster), lines.join("\n") + "\n");
    }
}
