//! Agent runs of a home: questions about them, beside a running service or in process, and the
//! channel that brings their notes to the sequencer.
//!
//! Reading, folding and checking happen on the thread of the caller. The sequencer only takes
//! finished notes into its next commit, so a long run log never delays a request.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use parking_lot::{Mutex, MutexGuard};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::compaction::agent_runs::facts::{head_of, snapshot_at};
use crate::compaction::agent_runs::{
    AgentRunWriter, AppendEventsError, AppendReport, EventLines, MakeNotes, NoteCommitter,
};
use crate::compaction::files::SnapshotStore;
use crate::compaction::run_log::TakenSnapshot;
use crate::compaction::trigger::Thresholds;
use crate::config::Config;
use crate::contract::hash::sha256;
use crate::contract::ids::Seq;
use crate::contract::json::jcs;
use crate::contract::schema;
use crate::log::Reader;
use crate::projections::own_run::{self, OwnRun, OwnRunError};
use crate::projections::snapshot_files::Projected;
use crate::state::event::{Event, Note};

/// The name by which the open segment of the service's own session is asked for.
pub(crate) const OWN: &str = "service";
/// How long a commit waits for the thread that follows the service's own session.
const PATIENCE: Duration = Duration::from_millis(200);

/// What can be asked of the runs of a home.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "snake_case", deny_unknown_fields)]
pub enum RunQuestion {
    /// Append lines of one run and take the snapshots that are due.
    Append {
        text: String,
        /// The number of the first one.
        first_line: u64,
        /// Thresholds to use instead of the configured ones.
        #[serde(default)]
        thresholds: Option<Thresholds>,
    },
    /// Take a snapshot now, due or not.
    Snapshot { run_id: String },
    /// Rebuild every snapshot from the log and compare bytes.
    Verify { run_id: String },
    /// Keep a `synthesis_receipt.v1`: something was built or checked.
    Receipt { receipt: Value },
}

/// Why a question or order about runs or digests has no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OrderError {
    /// It cannot be done now.
    #[error("{0}")]
    Refused(String),
    /// Something it names does not exist.
    #[error("{0}")]
    NotFound(String),
}

impl OrderError {
    fn of(error: &dyn std::error::Error) -> OrderError {
        OrderError::Refused(described(error))
    }
}

/// Notes that the sequencer has not yet taken.
pub struct NoteOrder {
    pub make: MakeNotes,
    /// Told the first record once it is committed.
    pub reply: Sender<Seq>,
}

/// Hands notes to the sequencer of a running service.
#[derive(Clone)]
pub struct Orders(Sender<NoteOrder>);

impl Orders {
    /// The sending and the receiving end.
    pub fn channel() -> (Orders, Receiver<NoteOrder>) {
        // Every sender waits for its answer, so there are never more orders than callers. A
        // bounded channel would keep orders after its receiver is gone, and their callers would
        // wait without end. An unbounded channel drops them with its receiver.
        let (sender, receiver) = unbounded();
        (Orders(sender), receiver)
    }
}

impl NoteCommitter for Orders {
    fn note(&mut self, make: MakeNotes) -> Result<Seq, String> {
        let (reply, answer) = bounded(1);
        let ended = "the service is ending";
        self.0.send(NoteOrder { make, reply }).map_err(|_| ended.to_owned())?;
        answer.recv().map_err(|_| ended.to_owned())
    }
}

/// The thresholds a configuration sets for run logs.
pub fn thresholds(config: &Config) -> Thresholds {
    Thresholds {
        event_threshold: u64::from(config.event_threshold),
        step_fallback: u64::from(config.step_fallback),
    }
}

/// The thresholds a configuration sets for the service's own session.
pub(crate) fn own_thresholds(config: &Config) -> Thresholds {
    Thresholds {
        event_threshold: config.service_event_threshold,
        step_fallback: config.service_step_fallback,
    }
}

/// The runs of a running service.
pub struct AgentRuns {
    writer: Mutex<AgentRunWriter>,
    own: Mutex<OwnRun>,
    /// Thresholds that were not applied yet, of run logs and of the service's own session.
    wanted: Mutex<Option<Thresholds>>,
    own_wanted: Mutex<Option<Thresholds>>,
    log: Reader,
    store: SnapshotStore,
    orders: Orders,
    projected: Projected,
    set_aside: Mutex<BTreeMap<String, String>>,
    /// False while somebody is about to look at the watched folder for the first time.
    looked: AtomicBool,
}

impl AgentRuns {
    /// The runs in a log.
    pub fn new(
        log: &Reader,
        config: &Config,
        store: SnapshotStore,
        orders: Orders,
        projected: Projected,
    ) -> AgentRuns {
        let writer = Mutex::new(AgentRunWriter::new(log, thresholds(config)));
        let set_aside = Mutex::default();
        let own = Mutex::new(OwnRun::new(log, own_thresholds(config)));
        let (log, looked) = (log.clone(), AtomicBool::new(true));
        let (wanted, own_wanted) = (Mutex::default(), Mutex::default());
        AgentRuns {
            writer,
            own,
            wanted,
            own_wanted,
            log,
            store,
            orders,
            projected,
            set_aside,
            looked,
        }
    }

    /// Records whether all lines that were in the watched folder at the start are in the log or
    /// skipped because of an error.
    pub(crate) fn note_looked(&self, looked: bool) {
        self.looked.store(looked, Ordering::Release);
    }

    /// Whether those lines are in the log or skipped. `drain` waits for this.
    pub(crate) fn has_looked(&self) -> bool {
        self.looked.load(Ordering::Acquire)
    }

    /// Notes that a watched file is now skipped, or is read again.
    pub fn set_aside(&self, file: &str, why: Option<String>) {
        let mut set_aside = self.set_aside.lock();
        match why {
            Some(why) => drop(set_aside.insert(file.to_owned(), why)),
            None => drop(set_aside.remove(file)),
        }
    }

    /// Watched files that are skipped because of an error, and the error.
    pub(crate) fn all_set_aside(&self) -> BTreeMap<String, String> {
        self.set_aside.lock().clone()
    }

    /// Puts another configuration in force. The thread that commits calls this, and whoever holds the runs may wait for a
    /// commit: so nothing waits here, and the next one who takes them applies it.
    pub(crate) fn retune(&self, config: &Config) {
        *self.wanted.lock() = Some(thresholds(config));
        *self.own_wanted.lock() = Some(own_thresholds(config));
    }

    fn writer(&self) -> MutexGuard<'_, AgentRunWriter> {
        let mut writer = self.writer.lock();
        if let Some(thresholds) = self.wanted.lock().take() {
            writer.retune(thresholds);
        }
        writer
    }

    fn own(&self) -> MutexGuard<'_, OwnRun> {
        let mut own = self.own.lock();
        if let Some(thresholds) = self.own_wanted.lock().take() {
            own.retune(thresholds);
        }
        own
    }

    /// Appends lines that come from a watched file.
    pub fn append(&self, lines: EventLines<'_>) -> (AppendReport, Result<(), AppendEventsError>) {
        self.writer().append(&mut self.orders.clone(), lines, None)
    }

    pub fn log(&self) -> &Reader {
        &self.log
    }

    /// Brings the service's own session up to the log.
    pub(crate) fn follow_own(&self) {
        match self.own().catch_up(&mut self.orders.clone()) {
            // The service is ending, and the code that ends it closes the session.
            Ok(()) | Err(OwnRunError::Commit(_)) => {}
            Err(error) => tracing::warn!(
                error = described(&error),
                "the service's own session cannot be followed"
            ),
        }
    }

    /// Ends the session of the service: its open segment gets a last snapshot. The thread that commits
    /// calls this, so it waits only briefly: the thread that holds the session may itself wait for a
    /// commit.
    pub(crate) fn close_own(&self, committer: &mut dyn NoteCommitter) -> Result<(), OwnRunError> {
        match self.own.try_lock_for(PATIENCE) {
            Some(mut own) => own.close(committer),
            None => Ok(()),
        }
    }

    fn snapshot_own(&self) -> Result<Value, OrderError> {
        let mut own = self.own();
        let taken = own.snapshot_now(&mut self.orders.clone());
        drop(own);
        match taken {
            Err(error) => Err(OrderError::of(&error)),
            Ok(None) => {
                Err(OrderError::Refused("nothing happened since the last snapshot".to_owned()))
            }
            Ok(Some(fact)) => {
                let stored = head_of(&self.log, &fact.run_id);
                let record = stored.map_or(Seq(0), |head| head.snapshot);
                self.projected.wait_for(record);
                let body = snapshot_at(&self.log, record);
                let taken = TakenSnapshot {
                    snapshot_id: fact.snapshot_id,
                    sequence: fact.sequence,
                    to_seq: fact.to_seq,
                    bytes: body.map_or(0, |(_, body)| body.snapshot.len() as u64),
                    written: true,
                    retried: false,
                };
                let done = AppendReport {
                    run_id: fact.run_id,
                    before: fact.sequence - 1,
                    last_seq: fact.to_seq,
                    snapshots: vec![taken],
                    ..AppendReport::default()
                };
                Ok(json!({"done": done}))
            }
        }
    }

    /// Answers; when it does, the files of new snapshots are there too.
    pub fn answer(&self, question: RunQuestion) -> Result<Value, OrderError> {
        if let RunQuestion::Snapshot { run_id } = &question {
            let open = self.own().segment();
            if run_id == OWN || open.as_ref() == Some(run_id) {
                return self.snapshot_own();
            }
        }
        let mut writer = self.writer();
        let (answer, noted) = answer(&mut writer, &mut self.orders.clone(), &self.store, question);
        drop(writer);
        self.projected.wait_for(noted);
        answer
    }
}

/// Answers a question about runs, and says which record the files of new snapshots follow.
pub fn answer(
    writer: &mut AgentRunWriter,
    committer: &mut dyn NoteCommitter,
    store: &SnapshotStore,
    question: RunQuestion,
) -> (Result<Value, OrderError>, Seq) {
    match question {
        RunQuestion::Append { text, first_line, thresholds } => {
            let lines = EventLines { text: &text, first_line, source: None };
            let (done, result) = writer.append(committer, lines, thresholds);
            let (noted, error) = (Seq(done.noted), result.err());
            let input = error.as_ref().is_none_or(AppendEventsError::is_input);
            let stopped = matches!(error, Some(AppendEventsError::Stopped { .. }));
            let error = error.map(|error| described(&error));
            let value = json!({"done": done, "error": error, "input": input, "stopped": stopped});
            (Ok(value), noted)
        }
        RunQuestion::Snapshot { run_id } => match writer.snapshot_now(committer, &run_id) {
            Ok(done) if done.last_seq == 0 => {
                let what = format!("there is no run {run_id} in the log of this home");
                (Err(OrderError::NotFound(what)), Seq(0))
            }
            Ok(done) => {
                let noted = Seq(done.noted);
                (Ok(json!({"done": done})), noted)
            }
            Err(error @ AppendEventsError::Stopped { .. }) => {
                (Ok(json!({"stopped": described(&error)})), Seq(0))
            }
            Err(error) => (Err(OrderError::of(&error)), Seq(0)),
        },
        RunQuestion::Verify { run_id } => (verify(writer, store, &run_id), Seq(0)),
        RunQuestion::Receipt { receipt } => (keep(committer, &receipt), Seq(0)),
    }
}

fn keep(committer: &mut dyn NoteCommitter, receipt: &Value) -> Result<Value, OrderError> {
    if let Some(first) = schema::check("synthesis_receipt.v1", receipt).first() {
        return Err(OrderError::Refused(format!("the receipt is invalid: {first}")));
    }
    let body = jcs(receipt).into_bytes();
    let note = Note::with_body(Event::ReceiptKept { body_sha256: sha256(&body) }, body);
    match committer.note(Box::new(|_| vec![note])) {
        Ok(seq) => Ok(json!({"seq": seq.0})),
        Err(error) => Err(OrderError::Refused(error)),
    }
}

fn verify(
    writer: &AgentRunWriter,
    store: &SnapshotStore,
    run_id: &str,
) -> Result<Value, OrderError> {
    let log = writer.log();
    let verified = match head_of(log, run_id) {
        Ok(head) if head.derived => own_run::verify(log, run_id, store),
        Ok(_) => writer.verify(run_id, store),
        Err(error) => Err(error.into()),
    };
    match verified {
        Ok((0, _)) => {
            Err(OrderError::NotFound(format!("no snapshot of run {run_id} in this home")))
        }
        Ok((checked, differences)) => Ok(json!({
            "schema_version": "compaction_verdict.v1", "run_id": run_id, "checked": checked,
            "differences": differences,
        })),
        Err(error) => Err(OrderError::of(&error)),
    }
}

/// An error with its causes.
pub fn described(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        // A transparent error says the same again.
        let cause_text = cause.to_string();
        if !text.ends_with(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}
