//! What can be asked of the process that holds a home, and what it answers: one JSON object a line.
//!
//! These types name no thread and no socket. A command that holds the home itself uses them too.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::contract::time::Day;
use crate::facts::attempt::UpstreamInput;
use crate::projections::digester::DigestOrder;
use crate::projections::runs::{OrderError, RunQuestion};

/// A question or an order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "snake_case", deny_unknown_fields)]
pub enum Question {
    /// How things stand.
    Status,
    /// A page of requests, newest first.
    Requests {
        /// Only this status.
        #[serde(default)]
        state: Option<String>,
        /// Only this flow.
        #[serde(default)]
        flow: Option<String>,
        /// Only those taken in at or after this moment, in milliseconds.
        #[serde(default)]
        since_ms: Option<i64>,
        /// Continue before this number.
        #[serde(default)]
        before: Option<u64>,
        /// At most this many.
        #[serde(default)]
        limit: Option<usize>,
    },
    /// Everything about one request or summary.
    Show {
        /// A request id or a summary id.
        id: String,
    },
    /// Where a summary comes from, word by word.
    Explain {
        /// A summary id, or the id of a request that made one.
        id: String,
        /// Compute every hash on the way again.
        #[serde(default)]
        verify: bool,
        /// Show the prompts as they were rendered.
        #[serde(default)]
        prompts: bool,
        /// Give the texts of the sources along.
        #[serde(default)]
        texts: bool,
    },
    /// Make a day exist on the Summary Bus.
    DayOpen {
        /// The day.
        day: Day,
        /// Its upstream partitions, as they were read.
        #[serde(default)]
        inputs: Vec<UpstreamInput>,
    },
    /// A page of quarantined lines, oldest first.
    Quarantine {
        /// Continue after this event.
        #[serde(default)]
        after: u64,
        /// At most this many.
        #[serde(default)]
        limit: Option<usize>,
    },
    /// A page of quarantined lines, newest first.
    QuarantineBack {
        /// Continue before this event.
        #[serde(default)]
        before: Option<u64>,
        /// At most this many.
        #[serde(default)]
        limit: Option<usize>,
    },
    /// One quarantined line.
    QuarantineShow {
        /// Its event.
        seq: u64,
    },
    /// A corrected line was appended for a quarantined one.
    QuarantineReleased {
        /// Its event.
        seq: u64,
        /// The request id of the corrected line.
        request_id: String,
    },
    /// Try a request now or again.
    Retry {
        /// Which.
        request_id: String,
    },
    /// End a request.
    Cancel {
        /// Which.
        request_id: String,
    },
    /// Take nothing new in and start nothing new.
    Pause,
    /// Go on.
    Resume,
    /// Read the configuration and the registry again.
    Reload {
        /// Also when a flow stands for another pack than the one it was used with.
        #[serde(default)]
        accept_mutations: bool,
    },
    /// Which pack every used flow stands for.
    FlowsUsed,
    /// Something about runs and their snapshots.
    Run(RunQuestion),
    /// Something about digests; the answer is fetched by its ticket.
    Digest {
        /// What.
        order: DigestOrder,
    },
    /// The answer to an order about digests.
    DigestAnswer {
        /// The ticket.
        ticket: u64,
    },
    /// Sizes and counts of the log.
    LogStats,
    /// Recompute the hash chain.
    LogVerify {
        /// Hashes that somebody kept: event and hash.
        #[serde(default)]
        anchors: Vec<(u64, String)>,
    },
    /// A page of events.
    LogDump {
        /// From this event on.
        #[serde(default)]
        from: u64,
        /// At most this many.
        #[serde(default)]
        limit: Option<usize>,
    },
    /// A page of records as they are stored, bodies included, to copy the log.
    LogCopy {
        /// From this event on.
        from: u64,
        /// Up to and with this event; the head when absent.
        #[serde(default)]
        until: Option<u64>,
    },
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// What was asked for.
    Ok(Value),
    /// It cannot be done, and why.
    Refused(String),
    /// Nothing of that name.
    NotFound(String),
    /// The service is not up yet; how far it is, from 0 to 1.
    Starting(String),
}

impl From<Result<Value, OrderError>> for Answer {
    fn from(done: Result<Value, OrderError>) -> Answer {
        match done {
            Ok(value) => Answer::Ok(value),
            Err(OrderError::Refused(why)) => Answer::Refused(why),
            Err(OrderError::NotFound(what)) => Answer::NotFound(what),
        }
    }
}

/// A plain confirmation.
pub fn done(what: &str) -> Answer {
    Answer::Ok(json!({"done": what}))
}
