//! The queue of spans, and the thread that sends them.
//!
//! Contract. `offer` never waits. What a collector does not take is tried again a few times with pauses, and
//! then dropped and counted; meanwhile the queue fills and further spans are dropped and counted.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, TrySendError, bounded};
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::server::ServerFacts;
use super::span::{TraceSpan, text};
use crate::config::{Config, ServerAddress, shown_address};
use crate::model::{BUILTIN, Delivered, Delivery};
use crate::registry::label;

/// Spans that wait to be sent.
const QUEUE_MAX: usize = 4_096;
/// Spans of one message, and the longest wait for more of them.
const MESSAGE_MAX: usize = 512;
const WAIT_FOR_MORE: Duration = Duration::from_secs(1);
/// Longest wait for the collector.
const TIMEOUT: Duration = Duration::from_secs(5);
/// How often a message is sent, and the longest pause between.
const TRIES_MAX: u32 = 5;
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// How long the end of a command waits for the last message.
const END_WITHIN: Duration = Duration::from_secs(2);
/// The path of traces below the address of a collector.
const TRACES: &str = "/v1/traces";
/// `telemetry.endpoint`: take the address from the variables of OpenTelemetry.
const FROM_ENVIRONMENT: &str = "env";
const TRACES_VARIABLE: &str = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
const BASE_VARIABLE: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";

/// The settings cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TelemetryError {
    #[error(
        "telemetry.endpoint is \"env\", and neither {TRACES_VARIABLE} nor {BASE_VARIABLE} is set"
    )]
    NoVariable,
    #[error("the address of the collector is not a web address: {0}")]
    BadAddress(String),
    #[error("the variable {0} is not a list of NAME=VALUE separated by commas")]
    BadHeaders(String),
    #[error("cannot start the thread for telemetry")]
    Thread(#[from] std::io::Error),
}

/// The collector that gets the spans.
struct Collector {
    delivery: Delivery,
    headers: Vec<(String, String)>,
    shown: String,
    is_local: bool,
}

/// What became of the spans.
#[derive(Default)]
struct SpanCounts {
    offered: AtomicU64,
    sent: AtomicU64,
    dropped: AtomicU64,
    refused: AtomicU64,
    last_error: Mutex<Option<String>>,
}

/// Takes spans and sends them.
pub(crate) struct Telemetry {
    spans: Sender<Value>,
    counts: Arc<SpanCounts>,
    stops: Arc<AtomicBool>,
    thread: Mutex<Option<std::thread::JoinHandle<()>>>,
    shown: String,
    is_local: bool,
    servers: BTreeMap<String, ServerFacts>,
    /// Flows whose texts must not leave this machine.
    local_only: BTreeSet<String>,
}

impl Collector {
    fn of(config: &Config) -> Result<Option<Collector>, TelemetryError> {
        let Some(endpoint) = &config.telemetry.endpoint else { return Ok(None) };
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let (address, is_whole) = match endpoint.as_str() {
            FROM_ENVIRONMENT => match (variable(TRACES_VARIABLE), variable(BASE_VARIABLE)) {
                (Some(address), _) => (address, true),
                (None, Some(address)) => (address, false),
                (None, None) => return Err(TelemetryError::NoVariable),
            },
            address => (address.to_owned(), false),
        };
        let bad = || TelemetryError::BadAddress(shown_address(&address));
        let parsed = ServerAddress::parse(&address).ok_or_else(bad)?;
        let path = match is_whole || parsed.path().ends_with(TRACES) {
            true => "",
            false => TRACES,
        };
        let name = &config.telemetry.headers_env;
        let headers = headers(&variable(name).unwrap_or_default())
            .ok_or_else(|| TelemetryError::BadHeaders(name.clone()))?;
        let delivery = Delivery::new(&address, path);
        let shown = delivery.shown();
        Ok(Some(Collector { delivery, headers, shown, is_local: parsed.is_loopback() }))
    }
}

/// Reads `name=value,name=value`, with values written as in a web address.
fn headers(text: &str) -> Option<Vec<(String, String)>> {
    let pairs = text.split(',').map(str::trim).filter(|pair| !pair.is_empty());
    let is_name = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let read = |pair: &str| {
        let (name, value) = pair.split_once('=')?;
        let (name, value) = (name.trim().to_ascii_lowercase(), value.trim());
        let value = percent_encoding::percent_decode_str(value).decode_utf8().ok()?.into_owned();
        let fits = !name.is_empty() && name.chars().all(is_name);
        (fits && !value.chars().any(char::is_control)).then_some((name, value))
    };
    pairs.map(read).collect()
}

impl Telemetry {
    /// Starts the thread. `None`: no collector is configured, and nothing is started.
    pub(crate) fn start(config: &Config) -> Result<Option<Arc<Telemetry>>, TelemetryError> {
        let Some(collector) = Collector::of(config)? else { return Ok(None) };
        let (spans, incoming) = bounded(QUEUE_MAX);
        let (counts, stops) = (Arc::new(SpanCounts::default()), Arc::new(AtomicBool::new(false)));
        let (shown, is_local) = (collector.shown.clone(), collector.is_local);
        let sending = SpanSender {
            collector,
            incoming,
            counts: Arc::clone(&counts),
            stops: Arc::clone(&stops),
            resource: resource(&config.telemetry.service_name),
        };
        let thread = std::thread::Builder::new().name("telemetry".to_owned());
        let thread = thread.spawn(move || sending.run())?;
        let named = config.providers.iter();
        let mut servers: BTreeMap<String, ServerFacts> =
            named.map(|(name, section)| (name.clone(), ServerFacts::of(section))).collect();
        servers.entry(BUILTIN.to_owned()).or_insert_with(ServerFacts::inside);
        let local_only = config.flows.iter().filter(|(_, section)| section.local_only);
        Ok(Some(Arc::new(Telemetry {
            spans,
            counts,
            stops,
            thread: Mutex::new(Some(thread)),
            shown,
            is_local,
            servers,
            local_only: local_only.map(|(name, _)| name.clone()).collect(),
        })))
    }

    /// Whether the collector is on this machine.
    pub(crate) fn is_local(&self) -> bool {
        self.is_local
    }

    /// Whether requests for this flow are traced. Nothing about a flow that is `local_only` goes to a
    /// collector elsewhere.
    pub(super) fn traces(&self, flow_id: &str, variant: Option<&str>) -> bool {
        self.is_local
            || !(self.local_only.contains(flow_id)
                || self.local_only.contains(&label(flow_id, variant)))
    }

    pub(super) fn server(&self, provider: &str) -> ServerFacts {
        self.servers.get(provider).cloned().unwrap_or_else(ServerFacts::inside)
    }

    /// Takes a span, or drops it when too many wait.
    pub(super) fn offer(&self, span: &TraceSpan) {
        self.counts.offered.fetch_add(1, Ordering::Relaxed);
        if self.spans.is_full() {
            self.counts.dropped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        match self.spans.try_send(span.to_json()) {
            Ok(()) => {}
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {
                self.counts.dropped.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// What became of the spans, for `status`.
    pub(crate) fn overview(&self) -> Value {
        let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
        json!({
            "endpoint": self.shown, "waiting": self.spans.len(), "sent": count(&self.counts.sent),
            "dropped": count(&self.counts.dropped), "refused": count(&self.counts.refused),
            "last_error": self.counts.last_error.lock().clone(),
        })
    }

    /// Sends what waits, once and for a short time. A thread that still waits is left behind. Says how many
    /// spans did not reach the collector, if any did not.
    pub(crate) fn finish(&self) -> Option<String> {
        self.stops.store(true, Ordering::Release);
        let thread = self.thread.lock().take()?;
        thread.thread().unpark();
        let begun = Instant::now();
        while !thread.is_finished() && begun.elapsed() < END_WITHIN {
            std::thread::sleep(Duration::from_millis(5));
        }
        // Also those that a thread left behind still holds.
        let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let lost = count(&self.counts.offered).saturating_sub(count(&self.counts.sent));
        let why = self.counts.last_error.lock().clone();
        let why = why.unwrap_or_else(|| "it did not answer in time".to_owned());
        let spans = if lost == 1 { "span was" } else { "spans were" };
        (lost > 0).then(|| format!("{lost} {spans} not delivered to {}: {why}", self.shown))
    }
}

/// The collector of a configuration.
pub(crate) struct FoundCollector {
    /// Its address without secrets.
    pub shown: String,
    /// What it answered, where it was asked.
    pub answer: Option<Result<(), String>>,
}

/// Reads the settings. With `probe` an empty message is sent, to see whether the collector takes it.
pub(crate) fn try_collector(
    config: &Config,
    probe: bool,
) -> Result<Option<FoundCollector>, TelemetryError> {
    let Some(Collector { delivery, headers, shown, .. }) = Collector::of(config)? else {
        return Ok(None);
    };
    let message = message(&resource(&config.telemetry.service_name), &[]);
    let answer = probe.then(|| match delivery.send(&message, &headers, TIMEOUT) {
        Delivered::Taken(_) => Ok(()),
        Delivered::Later(_, why) | Delivered::Refused(why) => Err(why),
    });
    Ok(Some(FoundCollector { shown, answer }))
}

fn resource(service_name: &str) -> Value {
    json!({"attributes": [
        text("service.name", service_name),
        text("service.version", env!("CARGO_PKG_VERSION")),
    ]})
}

fn message(resource: &Value, spans: &[Value]) -> Vec<u8> {
    let scope = json!({"name": "summarizer", "version": env!("CARGO_PKG_VERSION")});
    let message = match spans {
        [] => json!({"resourceSpans": []}),
        spans => json!({"resourceSpans": [
            {"resource": resource, "scopeSpans": [{"scope": scope, "spans": spans}]},
        ]}),
    };
    message.to_string().into_bytes()
}

struct SpanSender {
    collector: Collector,
    incoming: Receiver<Value>,
    counts: Arc<SpanCounts>,
    stops: Arc<AtomicBool>,
    resource: Value,
}

impl SpanSender {
    fn run(&self) {
        loop {
            let stops = self.stops();
            let spans = self.gather();
            if !spans.is_empty() {
                self.send(&spans);
            } else if stops {
                return;
            }
        }
    }

    fn stops(&self) -> bool {
        self.stops.load(Ordering::Acquire)
    }

    /// The spans of one message. At the end it waits for none.
    fn gather(&self) -> Vec<Value> {
        let (mut spans, begun) = (Vec::new(), Instant::now());
        while spans.len() < MESSAGE_MAX {
            let left = match self.stops() {
                true => Duration::ZERO,
                false => WAIT_FOR_MORE.saturating_sub(begun.elapsed()).min(SLICE),
            };
            match self.incoming.recv_timeout(left) {
                Ok(span) => spans.push(span),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {
                    if self.stops() || begun.elapsed() >= WAIT_FOR_MORE {
                        break;
                    }
                }
            }
        }
        spans
    }

    fn send(&self, spans: &[Value]) {
        let message = message(&self.resource, spans);
        let count = spans.len() as u64;
        for time in 0..TRIES_MAX {
            let timeout = if self.stops() { END_WITHIN / 2 } else { TIMEOUT };
            let (pause, why) =
                match self.collector.delivery.send(&message, &self.collector.headers, timeout) {
                    Delivered::Taken(answer) => return self.taken(count, &answer),
                    Delivered::Refused(why) => {
                        self.counts.refused.fetch_add(count, Ordering::Relaxed);
                        return self.tell(why);
                    }
                    Delivered::Later(pause, why) => (pause, why),
                };
            self.tell(why);
            if self.stops() || time + 1 == TRIES_MAX {
                break;
            }
            let doubled = Duration::from_secs(1 << time.min(5));
            self.rest(pause.unwrap_or(doubled).min(PAUSE_MAX));
        }
        self.counts.dropped.fetch_add(count, Ordering::Relaxed);
    }

    fn taken(&self, count: u64, answer: &Value) {
        let rejected = &answer["partialSuccess"]["rejectedSpans"];
        let rejected = rejected.as_u64().or_else(|| rejected.as_str()?.parse().ok()).unwrap_or(0);
        let rejected = rejected.min(count);
        self.counts.sent.fetch_add(count - rejected, Ordering::Relaxed);
        self.counts.refused.fetch_add(rejected, Ordering::Relaxed);
        if rejected > 0 {
            self.tell(format!("the collector rejected {rejected} of {count} spans"));
        }
    }

    fn tell(&self, why: String) {
        let mut last = self.counts.last_error.lock();
        if last.as_ref() != Some(&why) {
            tracing::warn!(collector = self.collector.shown, why, "spans were not taken");
            *last = Some(why);
        }
    }

    fn rest(&self, pause: Duration) {
        let begun = Instant::now();
        while begun.elapsed() < pause && !self.stops() {
            std::thread::park_timeout(SLICE);
        }
    }
}

/// How often a thread that waits looks whether the end has come.
const SLICE: Duration = Duration::from_millis(200);
