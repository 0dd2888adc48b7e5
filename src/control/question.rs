//! What can be asked of the process that holds a home, and what it answers: one JSON object a line.
//!
//! These types name no thread and no socket. A command that holds the home itself uses them too.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::contract::time::Day;
use crate::facts::attempt::UpstreamInput;
use crate::projections::digester::DigestOrder;
use crate::projections::runs::{OrderError, RunQuestion};

impl Question {
    /// Whether the answer adds to the log what follows from it.
    pub(crate) fn builds_on_log(&self) -> bool {
        match self {
            Question::Run(question) => !matches!(question, RunQuestion::Verify { .. }),
            question => matches!(
                question,
                Question::DayOpen { .. }
                    | Question::QuarantineReleased { .. }
                    | Question::Retry { .. }
                    | Question::Cancel { .. }
                    | Question::Pause
                    | Question::Resume
            ),
        }
    }
}

/// A question or an order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "snake_case", deny_unknown_fields)]
pub enum Question {
    Status,
    /// A page of requests, newest first.
    Requests {
        #[serde(default)]
        state: Option<String>,
        #[serde(default)]
        flow: Option<String>,
        /// Only those accepted at or after this time.
        #[serde(default)]
        since_ms: Option<i64>,
        /// Continue before this sequence.
        #[serde(default)]
        before: Option<u64>,
        #[serde(default)]
        limit: Option<usize>,
        /// Also with the names that people know their sources by.
        #[serde(default)]
        names: bool,
    },
    /// Everything about one request or summary, by its id.
    Show {
        id: String,
    },
    /// The day on which a person took back what a name means.
    ForgottenOn {
        name: String,
    },
    /// Where each sentence of a summary comes from, by the id of the summary or of a request that
    /// made it.
    Explain {
        id: String,
        /// Compute every hash on the way again.
        #[serde(default)]
        verify: bool,
        /// Show the prompts as they were rendered.
        #[serde(default)]
        prompts: bool,
        /// Include the texts of the sources.
        #[serde(default)]
        texts: bool,
    },
    /// Make a day exist on the Summary Bus.
    DayOpen {
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
        #[serde(default)]
        limit: Option<usize>,
    },
    /// A page of quarantined lines, newest first.
    QuarantineBack {
        /// Continue before this event.
        #[serde(default)]
        before: Option<u64>,
        #[serde(default)]
        limit: Option<usize>,
    },
    /// One quarantined line, by its event.
    QuarantineShow {
        seq: u64,
    },
    /// Record that a corrected line was appended for a quarantined one.
    QuarantineReleased {
        seq: u64,
        /// The request id of the corrected line.
        request_id: String,
    },
    /// Start a request immediately, or accept an ended request again.
    Retry {
        request_id: String,
    },
    Cancel {
        request_id: String,
    },
    /// Read no queue lines and start no attempts.
    Pause,
    Resume,
    /// Read the configuration and the registry again.
    Reload {
        /// Also when a flow is bound to another pack than the one it was used with.
        #[serde(default)]
        accept_mutations: bool,
    },
    /// Publish soon: somebody waits for what was made.
    Publish,
    /// Where the page is, and the token for its actions. A service without a page starts one.
    Page,
    /// The pack that each used flow is bound to.
    FlowsUsed,
    /// Agent runs and their snapshots.
    Run(RunQuestion),
    /// An order about digests. It is answered with a ticket until it is carried out.
    Digest {
        order: DigestOrder,
    },
    /// The answer to an order about digests.
    DigestAnswer {
        ticket: u64,
    },
    /// Take texts back. The service leaves the home alone meanwhile, so it is answered with a ticket.
    Forget {
        order: ForgetOrder,
    },
    /// The answer to an order to forget.
    ForgetAnswer {
        ticket: u64,
    },
    /// Sizes and counts of the log.
    LogStats,
    /// Compute the hash chain again.
    LogVerify {
        /// Hashes that were kept outside the log: event and hash.
        #[serde(default)]
        anchors: Vec<(u64, String)>,
    },
    /// A page of events.
    LogDump {
        /// From this event on.
        #[serde(default)]
        from: u64,
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

/// Which texts are taken back.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ForgetOrder {
    /// Sources and summaries by name, file or id. A path of the asker is a name of the home already.
    pub names: Vec<String>,
    /// Everything that somebody wrote.
    #[serde(default)]
    pub authors: Vec<String>,
    /// Everything of the days before this one.
    #[serde(default)]
    pub before: Option<Day>,
    /// Only say what would go.
    #[serde(default)]
    pub dry_run: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    Ok(Value),
    /// It cannot be done, and why.
    Refused(String),
    /// Something the question names does not exist.
    NotFound(String),
    /// The service is not up yet; what it does and how far it is.
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

pub fn done(what: &str) -> Answer {
    Answer::Ok(json!({"done": what}))
}
