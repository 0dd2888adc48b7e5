//! Traces of requests, attempts and calls, sent over OTLP/HTTP to a collector that the person names.
//!
//! Contract. Nothing waits for the collector: a span goes into a bounded queue or is dropped and counted. A
//! span holds numbers, names of flows, providers and models, and causes from closed lists; no text of
//! sources, questions, answers or errors, and no names of sources. Ids follow from the request, so the same
//! log gives the same ids. Without an endpoint none of this exists: no thread, no queue, no span.
//!
//! | file | subject |
//! |---|---|
//! | `span` | a span, its ids, and its form in JSON |
//! | `requests` | spans of requests and attempts, from committed events |
//! | `server` | what is known of who answers |
//! | `calls` | spans of calls, from a provider that watches another |
//! | `exporter` | the queue, the thread, and what became of the spans |
//!
//! See docs/adr/0116-traces-over-otlp.md.

mod calls;
mod exporter;
mod requests;
mod server;
mod span;

pub(crate) use exporter::{Telemetry, TelemetryError, try_collector};
pub(crate) use requests::RequestSpans;
pub(crate) use span::trace_id;
