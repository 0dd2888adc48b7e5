//! The sequencer loop: one thread that takes everything in, commits it, and acts after the commit.
//!
//! The order of a turn is the order of the guarantees: collect what is ready (queue lines, reports
//! of workers, questions), decide and apply it, settle waiters, start what may start, commit all of
//! it at once, and only then hand events to the projector, tasks to the workers and answers to the
//! askers. A crash anywhere repeats at most the last part, and repeating it is harmless. While one
//! batch is written the next ones fill, and each is acted on as soon as it is durable.
//!
//! The same loop serves (until it is told to stop) and drains (until nothing is left to do).

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded, never, select_biased};

use crate::compaction::book::facts::Pointer;
use crate::compaction::book::{MakeNotes, Notary};
use crate::config::Config;
use crate::contract::ids::Seq;
use crate::contract::time::{Day, Timestamp};
use crate::contract::vocabulary::ReasonCode;
use crate::control::answers::{self, Reply, Surroundings};
use crate::control::question::{Answer, Question, done};
use crate::control::socket::{Asked, ControlServer};
use crate::export::Committed;
use crate::export::append_only::ProjectionError;
use crate::export::session_fold::{PUBLISH_FAILED, Promoted};
use crate::home::Home;
use crate::log::LogError;
use crate::os::Machine;
use crate::projections::digester::DigestClient;
use crate::projections::projector::{Projections, Projector, ProjectorError};
use crate::projections::runs::{AgentRuns, NoteOrder, described};
use crate::projections::summaries::Publishing;
use crate::registry::Mutation;
use crate::registry::SharedFlows;
use crate::seam::position::QueueError;
use crate::sequencer::engine::{CheckpointWhen, Engine, EngineError, EngineOptions, RunStart};
use crate::sequencer::intake::{Arrived, Intake, IntakeMessage, IntakeOptions};
use crate::sequencer::mark::{MarkError, QueueMark};
use crate::state::Status;
use crate::state::decide::{Again, Failed, Outcome, Report};
use crate::state::event::{Event, PauseCause, RunEnd};
use crate::state::flows::Flows;
use crate::upkeep::retention::{self, Policy, RetainError};
use crate::upstream::IndexStore;
use crate::work::worker::{Pool, PoolSize, Ticket, Worker};

/// How long a service goes on letting go of what is old before it does anything else.
const RETAIN_FOR: Duration = Duration::from_secs(5);
/// Tries that may be under way for each worker thread: enough to keep the threads busy across a
/// commit, few enough that a stop does not wait long.
const SLOTS_PER_WORKER: usize = 64;
/// Longest sleep of an idle sequencer.
const IDLE: Duration = Duration::from_millis(500);
/// How often free space is looked at.
const LOOK_AT_DISK_EVERY: Duration = Duration::from_secs(2);
/// Reports taken in one turn.
const REPORTS_PER_TURN: usize = 4096;
/// Extra patience with a worker that should have noticed its own timeout.
const TIMEOUT_SLACK: Duration = Duration::from_secs(5);

/// The service cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    /// The engine.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The append-only projections could not be opened.
    #[error("open the acks")]
    Projector(#[from] ProjectorError),
    /// The append-only projections could not be kept.
    #[error("write the acks")]
    Projection(#[from] ProjectionError),
    /// The queue.
    #[error(transparent)]
    Queue(#[from] QueueError),
    /// The stored queue position.
    #[error("read the queue position")]
    Mark(#[from] MarkError),
    /// What is old could not go.
    #[error("let go of what is old")]
    Retain(#[from] RetainError),
    /// A thread could not be started.
    #[error("start a thread")]
    Thread(#[from] std::io::Error),
}

/// When the loop ends by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// When it is told to stop.
    Stopped,
    /// When nothing is left that may run now; with a moment, also what may run by then.
    Drained(Option<Timestamp>),
}

/// How the loop is asked to stop, from a signal handler or a test.
#[derive(Debug, Clone, Default)]
pub struct StopSignal(Arc<AtomicU8>);

impl StopSignal {
    /// Asks once more; returns how often it was asked before.
    pub fn raise(&self) -> u8 {
        self.0.fetch_add(1, Ordering::AcqRel)
    }

    /// Whether it was asked.
    pub fn is_raised(&self) -> bool {
        self.0.load(Ordering::Acquire) > 0
    }
}

/// What a reload puts in force, or why it stays as it was: given what the log knows of flows, and
/// whether a flow may stand for another pack from now on.
pub type Reload = Box<dyn FnMut(&Flows, bool) -> Result<Reloaded, String> + Send>;

/// Somebody who looks on: called after each turn with what was committed and how the engine
/// stands.
pub type Watch = Box<dyn FnMut(&[Committed], &Engine) + Send>;

/// How the run of the next day names itself.
pub type NextRun = Box<dyn FnMut() -> Option<RunStart> + Send>;

/// New settings that have been checked.
pub struct Reloaded {
    /// The configuration.
    pub config: Config,
    /// Flows that stand for another pack from now on.
    pub accepted: Vec<Mutation>,
}

/// Everything the loop needs.
pub struct Service {
    /// Clock and disk.
    pub machine: Machine,
    /// Where things lie.
    pub home: Home,
    /// Settings.
    pub config: Config,
    /// Where upstream ids are looked up.
    pub index: Arc<dyn IndexStore>,
    /// Flows as registered.
    pub flows: SharedFlows,
    /// Who makes summaries.
    pub worker: Arc<dyn Worker>,
    /// How the run names itself.
    pub run: RunStart,
    /// How it is told to stop.
    pub stop: StopSignal,
    /// How the run of the next day names itself; without it one run goes on for ever.
    pub next_run: Option<NextRun>,
    /// How it reloads.
    pub reload: Option<Reload>,
    /// Who publishes beside it.
    pub publishing: Option<Publishing>,
    /// Who looks on.
    pub watch: Option<Watch>,
    /// The runs of the home, and their notes on the way here.
    pub runs: Option<(Arc<AgentRuns>, Receiver<NoteOrder>)>,
    /// Who builds digests.
    pub digests: Option<DigestClient>,
}

/// How a run went.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunReport {
    /// Events it committed.
    pub events: u64,
    /// Queue lines it took in.
    pub lines: u64,
    /// Outcomes, by what `status` calls them.
    pub outcomes: BTreeMap<&'static str, u64>,
    /// Commits it made.
    pub commits: u64,
}

impl RunReport {
    /// How many requests ended this way.
    pub fn count(&self, outcome: &str) -> u64 {
        self.outcomes.get(outcome).copied().unwrap_or(0)
    }

    fn observe(&mut self, committed: &Committed) {
        self.events += 1;
        let outcome = match &committed.event {
            Event::LineQuarantined(_) => "quarantined",
            Event::RequestAccepted(_) => "accepted",
            Event::RequestRejected { .. } => "rejected",
            Event::DuplicateReceived { .. } | Event::RequestDuplicated { .. } => "duplicate",
            Event::SummaryProduced { .. } => "completed",
            Event::RequestSkipped { .. } => "skipped",
            Event::AttemptFailed { retry_at: None, .. } => "failed",
            Event::AttemptFailed { .. } => "failed_transient",
            Event::RequestCancelled { .. } => "cancelled",
            _ => return,
        };
        *self.outcomes.entry(outcome).or_default() += 1;
    }

    /// What the end of a run says: its counts and what it promoted.
    fn to_json(
        &self,
        outputs: &[Promoted],
        snapshot: Option<&Pointer>,
        error: Option<&str>,
    ) -> String {
        let mut report = serde_json::json!({
            "events": self.events, "lines": self.lines, "commits": self.commits,
            "outcomes": self.outcomes, "outputs": outputs, "snapshot": snapshot,
        });
        if let Some(error) = error {
            report["error"] = error.into();
        }
        report.to_string()
    }

    /// What both runs did.
    fn add(&mut self, other: RunReport) {
        self.events += other.events;
        self.lines += other.lines;
        self.commits += other.commits;
        for (outcome, count) in other.outcomes {
            *self.outcomes.entry(outcome).or_default() += count;
        }
    }
}

impl Service {
    /// Runs until the end. The engine is open, the projections are repaired.
    pub fn run(
        mut self,
        mut engine: Engine,
        projector: Projector,
        control: Option<&ControlServer>,
        until: Until,
    ) -> Result<(RunReport, Engine), ServiceError> {
        engine.begin_run(self.run.clone(), self.machine.clock.now())?;
        let position = QueueMark::decode(&engine.log().mark())?.position;
        let options = IntakeOptions {
            path: self.home.queue.clone(),
            tail: crate::seam::tail::TailOptions {
                max_line_bytes: self.config.line_bytes_max,
                partial_line_grace_ms: self.config.partial_line_grace_ms,
            },
            lines_max: self.config.commit_inputs_max,
            bytes_max: self.config.commit_bytes_max,
            parsers: self.config.workers.clamp(1, 2),
        };
        let flows = &self.flows;
        let intake = match Intake::start(&self.machine, position, &options, flows, engine.log()) {
            Ok(intake) => intake,
            Err(error) => {
                // The run is known to have begun; that it failed is a fact too.
                let now = self.machine.clock.now();
                let report = RunReport::default().to_json(&[], None, Some(&error.to_string()));
                engine.finish_run(RunEnd::Failed, report, now)?;
                engine.commit(None, CheckpointWhen::Due, &[], now)?;
                return Err(error.into());
            }
        };
        let slots = self.config.workers * SLOTS_PER_WORKER;
        let (reports, inbox) = bounded(slots * 4);
        let timeout = Duration::from_millis(self.config.attempt_timeout_ms.max(1) as u64);
        let size = PoolSize {
            threads: self.config.workers,
            paid_threads: self.config.paid_threads(),
            slots,
            timeout,
        };
        let pool = Pool::start(Arc::clone(&self.worker), engine.log(), size, reports)?;
        let disk_checked = Instant::now() - LOOK_AT_DISK_EVERY;
        let day = self.machine.clock.now().day_in(self.config.timezone);
        let watch = self.watch.take();
        let (runs, orders) = match self.runs.take() {
            Some((desk, orders)) => (Some(desk), orders),
            None => (None, never()),
        };
        let turn = Sequencer {
            service: self,
            engine,
            projector,
            pool,
            intake: Some(intake),
            questions: control.map_or_else(never, |control| control.questions.clone()),
            reports: inbox,
            slots,
            timeout,
            unparsed: None,
            caught_up: None,
            disk_checked,
            free_bytes: None,
            waiting: Waiting::default(),
            waiting_by_batch: VecDeque::new(),
            report: RunReport::default(),
            before: RunReport::default(),
            day,
            turning: false,
            watch,
            runs,
            orders,
        };
        turn.run(until)
    }
}

/// Who waits for a batch to be durable.
#[derive(Default)]
struct Waiting {
    answers: Vec<(Sender<Answer>, Reply)>,
    /// Who ordered notes, and which record is their first.
    noted: Vec<(Sender<Seq>, Seq)>,
}

struct Sequencer {
    service: Service,
    engine: Engine,
    projector: Projector,
    pool: Pool,
    intake: Option<Intake>,
    questions: Receiver<Asked>,
    reports: Receiver<Report>,
    slots: usize,
    timeout: Duration,
    /// A batch that its parser is still working on.
    unparsed: Option<Receiver<Arrived>>,
    /// Set while the queue has nothing finished; inside, when an unfinished line will be cut off.
    caught_up: Option<Option<Timestamp>>,
    disk_checked: Instant,
    free_bytes: Option<u64>,
    /// Who waits for the batch that is being filled.
    waiting: Waiting,
    /// Who waits for the batches that the writer has, oldest first.
    waiting_by_batch: VecDeque<Waiting>,
    report: RunReport,
    /// Of the runs of earlier days.
    before: RunReport,
    /// The day of the run, in the configured zone.
    day: Day,
    /// Another day has begun: nothing new starts until the run of the old one is closed.
    turning: bool,
    watch: Option<Watch>,
    runs: Option<Arc<AgentRuns>>,
    orders: Receiver<NoteOrder>,
}

impl Sequencer {
    fn run(mut self, until: Until) -> Result<(RunReport, Engine), ServiceError> {
        let result = self.turns(until);
        match result {
            Ok(()) => self.finish(),
            Err(error) => {
                self.stop_intake();
                // What failed may be the queue alone; then the run can still end in order.
                if let ServiceError::Queue(queue) = &error {
                    let why = queue.to_string();
                    self.end_run(RunEnd::Failed, Some(&why))?;
                    self.projector.finish()?;
                }
                Err(error)
            }
        }
    }

    fn turns(&mut self, until: Until) -> Result<(), ServiceError> {
        // The run's own start, before anything else happens in its name.
        self.commit(None, CheckpointWhen::Due)?;
        while !self.service.stop.is_raised() {
            let mark = self.collect(until)?;
            self.after_inputs()?;
            self.seal(mark, CheckpointWhen::Due)?;
            if until == Until::Stopped {
                self.turn_of_day()?;
            }
            if self.is_finished(until) {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Waits for something to do and takes in what is ready. Returns the queue position to commit.
    fn collect(&mut self, until: Until) -> Result<Option<Vec<u8>>, ServiceError> {
        let mut mark = None;
        if self.engine.is_writing() {
            // Whatever arrives meanwhile shares the next commit.
            self.poll(&mut mark)?;
            while self.engine.is_writing() && !self.is_full() && mark.is_none() {
                self.wait(until, &mut mark)?;
                self.poll(&mut mark)?;
            }
        } else if self.has_work_at_once() {
            self.poll(&mut mark)?;
        } else {
            self.wait(until, &mut mark)?;
        }
        // Let outcomes that are about to arrive share the commit, but never hold a lone request.
        let patience = Duration::from_millis(self.service.config.commit_delay_ms.max(0) as u64);
        let deadline = Instant::now() + patience;
        loop {
            self.poll(&mut mark)?;
            let in_flight = self.engine.state().running_count();
            let enough = self.engine.pending() >= in_flight / 2 || in_flight == 0;
            if enough || mark.is_some() || self.is_full() {
                break;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            let Ok(report) = self.reports.recv_timeout(left) else { break };
            self.take_report(report)?;
        }
        Ok(mark)
    }

    /// Whether the batch has all that one commit may.
    fn is_full(&self) -> bool {
        self.engine.pending() >= self.service.config.commit_inputs_max
            || self.engine.pending_bytes() >= self.service.config.commit_bytes_max
    }

    fn has_work_at_once(&self) -> bool {
        let state = self.engine.state();
        let may_start = state.paused().is_empty()
            && !self.turning
            && state.ready_count() > 0
            && self.free_slots() > 0;
        self.engine.pending() > 0 || state.has_unsettled() || may_start || self.unparsed.is_some()
    }

    /// How many tries may start.
    fn free_slots(&self) -> usize {
        match self.pool.is_backed_up() {
            true => 0,
            false => self.slots.saturating_sub(self.engine.state().running_count()),
        }
    }

    fn wait(&mut self, until: Until, mark: &mut Option<Vec<u8>>) -> Result<(), ServiceError> {
        let timeout = self.sleep_time(until);
        let orders = self.orders.clone();
        let intake = match &self.intake {
            Some(intake) if self.takes_lines() && self.unparsed.is_none() => {
                intake.messages.clone()
            }
            _ => never(),
        };
        let written = self.engine.written().clone();
        select_biased! {
            recv(written) -> written => {
                let written = written.unwrap_or(Err(LogError::Poisoned));
                let committed = self.engine.finished(written)?;
                self.committed(&committed)?;
            }
            recv(self.questions) -> asked => {
                if let Ok(asked) = asked {
                    self.take_question(asked)?;
                }
            }
            recv(self.reports) -> report => {
                if let Ok(report) = report {
                    self.take_report(report)?;
                }
            }
            recv(intake) -> message => {
                if let Ok(message) = message {
                    self.take_message(message, mark)?;
                }
            }
            recv(orders) -> order => match order {
                Ok(order) => self.take_order(order)?,
                // Nobody is left to order anything: that is no reason to spin.
                Err(_) => self.orders = never(),
            },
            default(timeout) => {}
        }
        Ok(())
    }

    /// Everything that is ready, without waiting, up to the bounds of a commit.
    fn poll(&mut self, mark: &mut Option<Vec<u8>>) -> Result<(), ServiceError> {
        for _ in 0..REPORTS_PER_TURN {
            let Ok(report) = self.reports.try_recv() else { break };
            self.take_report(report)?;
        }
        while let Ok(asked) = self.questions.try_recv() {
            self.take_question(asked)?;
        }
        if self.engine.pending_bytes() < self.service.config.commit_bytes_max
            && let Ok(order) = self.orders.try_recv()
        {
            self.take_order(order)?;
        }
        while mark.is_none() && self.takes_lines() {
            if let Some(promise) = self.unparsed.take() {
                // Reports are more urgent than lines, but lines keep their order.
                match promise.recv() {
                    Ok(arrived) => self.take_lines(arrived, mark)?,
                    Err(_) => break,
                }
                continue;
            }
            let message = self.intake.as_ref().and_then(|intake| intake.messages.try_recv().ok());
            let Some(message) = message else { break };
            self.take_message(message, mark)?;
        }
        Ok(())
    }

    fn takes_lines(&self) -> bool {
        self.engine.state().paused().is_empty()
    }

    fn take_message(
        &mut self,
        message: IntakeMessage,
        mark: &mut Option<Vec<u8>>,
    ) -> Result<(), ServiceError> {
        match message {
            IntakeMessage::Batch(promise) => {
                self.caught_up = None;
                if mark.is_some() {
                    self.unparsed = Some(promise);
                } else if let Ok(arrived) = promise.recv() {
                    self.take_lines(arrived, mark)?;
                }
                Ok(())
            }
            IntakeMessage::CaughtUp(due) => {
                self.caught_up = Some(due);
                Ok(())
            }
            IntakeMessage::Failed(error) => Err(error.into()),
        }
    }

    fn take_lines(
        &mut self,
        arrived: Arrived,
        mark: &mut Option<Vec<u8>>,
    ) -> Result<(), ServiceError> {
        let now = self.now();
        self.report.lines += arrived.lines.len() as u64;
        self.engine.lines(arrived.lines, arrived.foresight, now)?;
        let after = QueueMark { position: arrived.end, consumed: Some(arrived.consumed) };
        *mark = Some(after.encode());
        Ok(())
    }

    fn take_report(&mut self, report: Report) -> Result<(), ServiceError> {
        let now = self.now();
        let (request, attempt) = (report.request, report.attempt);
        let (resolved, answered) = match &report.outcome {
            Outcome::Resolved { .. } => (true, None),
            Outcome::Responded { call, .. } => (false, Some(*call)),
            _ => (false, None),
        };
        let counted = self.engine.report(report, now)?;
        // Its try ended meanwhile: nothing of it will be committed, and nobody may wait for that.
        if let Some(call) = answered.filter(|_| !counted) {
            self.pool.answered(request, &call);
        }
        if resolved && !counted {
            self.pool.drop_try(request, attempt);
        }
        Ok(())
    }

    fn take_order(&mut self, order: NoteOrder) -> Result<(), ServiceError> {
        let now = self.now();
        let first = self.engine.note_all(order.make, now)?;
        self.waiting.noted.push((order.reply, first));
        Ok(())
    }

    /// Orders about digests go to their thread; nothing here waits for them.
    fn about_digests(&self, question: Question) -> Reply {
        let Some(desk) = self.service.digests.clone() else {
            let why = "the command that holds this home builds no digests; ask when it has ended";
            return Reply::Now(Answer::Refused(why.to_owned()));
        };
        let ticket = match question {
            Question::DigestAnswer { ticket } => Ok(ticket),
            Question::Digest { order } => desk.leave(order),
            _ => Err("that is no question about digests".to_owned()),
        };
        match ticket {
            Ok(ticket) => Reply::Later(Box::new(move || desk.fetch(ticket).into())),
            Err(why) => Reply::Now(Answer::Refused(why)),
        }
    }

    fn take_question(&mut self, asked: Asked) -> Result<(), ServiceError> {
        let Asked { question, reply } = asked;
        let now = self.now();
        if matches!(question, Question::Digest { .. } | Question::DigestAnswer { .. }) {
            let answer = self.about_digests(question);
            self.waiting.answers.push((reply, answer));
            return Ok(());
        }
        if let (Question::Run(question), Some(desk)) = (&question, &self.runs) {
            let (desk, question) = (Arc::clone(desk), question.clone());
            let answer = Reply::Later(Box::new(move || desk.answer(question).into()));
            self.waiting.answers.push((reply, answer));
            return Ok(());
        }
        if let Question::Reload { accept_mutations } = question {
            let answer = self.reload(accept_mutations, now)?;
            self.waiting.answers.push((reply, Reply::Now(answer)));
            return Ok(());
        }
        let asks_status = question == Question::Status;
        let queue = self.service.machine.disk.stat(&self.service.home.queue);
        let around = Surroundings {
            now,
            machine: &self.service.machine,
            home: &self.service.home,
            config: &self.service.config,
            index: &self.service.index,
            flows: &self.service.flows,
            queue_bytes: queue.ok().flatten().map_or(0, |stat| stat.len),
            free_bytes: self.free_bytes,
        };
        let mut answer = answers::answer(&mut self.engine, &around, question)?;
        if let (Reply::Now(Answer::Ok(status)), Some(desk)) = (&mut answer, &self.runs)
            && status.get("compaction").is_some()
        {
            status["compaction"]["set_aside"] = serde_json::json!(desk.all_set_aside());
        }
        if let (Reply::Now(Answer::Ok(status)), Some(desk)) = (&mut answer, &self.service.digests)
            && asks_status
        {
            status["digests"] = desk.overview();
        }
        self.waiting.answers.push((reply, answer));
        Ok(())
    }

    fn reload(&mut self, accept: bool, now: Timestamp) -> Result<Answer, ServiceError> {
        let Some(reload) = &mut self.service.reload else {
            return Ok(Answer::Refused("this command does not reload".to_owned()));
        };
        match reload(self.engine.state().flows(), accept) {
            Err(why) => Ok(Answer::Refused(format!("the old settings stay in force: {why}"))),
            Ok(Reloaded { config, accepted }) => {
                self.engine.accept_packs(&accepted, now)?;
                self.engine.retune(EngineOptions::of(&config));
                if let Some(desk) = &self.runs {
                    desk.retune(&config);
                }
                self.engine.record(Event::ConfigReloaded { config: config.fingerprint() }, now)?;
                self.service.config = config;
                Ok(done("reloaded"))
            }
        }
    }

    /// What follows from the inputs: limits, timeouts, waiters, starts.
    fn after_inputs(&mut self) -> Result<(), ServiceError> {
        let now = self.now();
        self.note_troubles()?;
        self.watch_limits(now)?;
        self.watch_timeouts(now)?;
        if self.engine.state().has_unsettled() {
            self.engine.settle(now)?;
        }
        if self.engine.state().paused().is_empty() && !self.turning {
            self.engine.start_ready(self.free_slots(), now)?;
        }
        Ok(())
    }

    fn watch_limits(&mut self, now: Timestamp) -> Result<(), ServiceError> {
        let max = self.service.config.open_requests_max;
        let open = self.engine.state().open_count();
        let pausing = self.engine.state().paused().contains(&PauseCause::OpenRequests);
        // Some room below the limit, so that it does not pause and resume with every request.
        let above = if pausing { open > max - max / 10 } else { open >= max };
        if above != pausing {
            self.engine.pause(PauseCause::OpenRequests, above, now)?;
        }
        if self.disk_checked.elapsed() >= LOOK_AT_DISK_EVERY {
            self.disk_checked = Instant::now();
            let free = self.service.machine.disk.free_bytes(&self.service.home.root).ok();
            self.free_bytes = free;
            let low = free.is_some_and(|free| free < self.service.config.disk_headroom_bytes);
            self.engine.pause(PauseCause::DiskSpace, low, now)?;
        }
        Ok(())
    }

    /// A try that outlived every patience has failed; what it says later is no longer heard.
    fn watch_timeouts(&mut self, now: Timestamp) -> Result<(), ServiceError> {
        let patience = self.timeout + TIMEOUT_SLACK;
        for (request, attempt) in self.pool.overdue(patience) {
            self.pool.forget(request);
            let outcome = Outcome::Failed(Failed {
                again: Again::Later,
                reason: Some(ReasonCode::Timeout),
                message: "the try took longer than it may".to_owned(),
                facts: "{}".to_owned(),
            });
            let epoch = self.engine.state().epoch();
            self.engine.report(Report { request, attempt, epoch, outcome }, now)?;
        }
        Ok(())
    }

    /// Seals the batch and waits until it is durable.
    fn commit(
        &mut self,
        mark: Option<Vec<u8>>,
        checkpoint: CheckpointWhen,
    ) -> Result<(), ServiceError> {
        self.seal(mark, checkpoint)?;
        self.finish_writing()
    }

    /// Begins to write the batch, once the one before is durable and acted on.
    fn seal(
        &mut self,
        mark: Option<Vec<u8>>,
        checkpoint: CheckpointWhen,
    ) -> Result<(), ServiceError> {
        if self.engine.pending() == 0 && mark.is_none() && checkpoint == CheckpointWhen::Due {
            // Nothing to write: what was asked depends at most on the batches that are being written.
            let Some(last) = self.waiting_by_batch.back_mut() else {
                self.waiting_by_batch.push_back(std::mem::take(&mut self.waiting));
                return self.committed(&Arc::default());
            };
            last.answers.append(&mut self.waiting.answers);
            last.noted.append(&mut self.waiting.noted);
            return Ok(());
        }
        if checkpoint == CheckpointWhen::Changed {
            self.finish_writing()?;
        }
        // A full batch may stand in line, as behind a checkpoint. With less than that it is better to
        // wait: what arrives meanwhile shares the next sync.
        let full = self.is_full();
        let must_wait =
            |engine: &Engine| if full { !engine.has_room() } else { engine.is_writing() };
        while must_wait(&self.engine) || !self.engine.written().is_empty() {
            let committed = self.engine.finish()?;
            self.committed(&committed)?;
        }
        let now = self.now();
        let cursors = self.projector.cursors();
        let sealed = self.engine.seal(mark, checkpoint, &cursors, now)?;
        self.waiting_by_batch.push_back(std::mem::take(&mut self.waiting));
        if sealed {
            return Ok(());
        }
        self.finish_writing()?;
        self.committed(&Arc::default())
    }

    /// Waits for all batches that the writer has.
    fn finish_writing(&mut self) -> Result<(), ServiceError> {
        while self.engine.is_writing() {
            let committed = self.engine.finish()?;
            self.committed(&committed)?;
        }
        Ok(())
    }

    /// A batch is durable: what follows from it may happen.
    fn committed(&mut self, committed: &Arc<Vec<Committed>>) -> Result<(), ServiceError> {
        if !committed.is_empty() {
            self.report.commits += 1;
            committed.iter().for_each(|event| self.report.observe(event));
        }
        self.projector.take(committed)?;
        for event in committed.iter() {
            self.act(event);
        }
        let Waiting { answers, noted } = self.waiting_by_batch.pop_front().unwrap_or_default();
        for (reply, first) in noted {
            // Who ordered it may have been told to end.
            let _ = reply.send(first);
        }
        for (reply, answer) in answers {
            match answer {
                // An asker that went away misses its answer, not the order.
                Reply::Now(answer) => drop(reply.send(answer)),
                Reply::Later(work) => {
                    let thread = std::thread::Builder::new().name("answer".to_owned());
                    thread.spawn(move || drop(reply.send(work())))?;
                }
            }
        }
        if let Some(watch) = &mut self.watch {
            watch(committed, &self.engine);
        }
        Ok(())
    }

    /// What a committed event sets in motion.
    fn act(&mut self, committed: &Committed) {
        match &committed.event {
            Event::AttemptStarted { request, attempt } => {
                // Ended meanwhile, in the same batch or in the next: nothing to do.
                let Some(open) = self.engine.state().open_request(*request) else { return };
                if open.row.status != Status::Running || open.row.attempts != *attempt {
                    return;
                }
                self.pool.begin(Ticket {
                    request: *request,
                    attempt: *attempt,
                    epoch: self.engine.state().epoch(),
                    run_id: self.service.run.run_id.clone(),
                    started_at: committed.at,
                    replies: open.particulars().replies.clone(),
                });
            }
            Event::InputResolved { request, attempt, .. } => self.pool.proceed(*request, *attempt),
            Event::ModelResponded { request, call, .. } => self.pool.answered(*request, call),
            Event::RequestCancelled { request, .. }
            | Event::RequestDuplicated { request, .. }
            | Event::WorkHeld { request, .. } => self.pool.forget(*request),
            _ => {}
        }
    }

    fn is_finished(&self, until: Until) -> bool {
        let Until::Drained(by) = until else { return false };
        let state = self.engine.state();
        let intake_is_done = match self.caught_up {
            Some(None) => self.unparsed.is_none(),
            _ => !self.takes_lines(),
        };
        let paused = !state.paused().is_empty();
        let run_logs_are_in = self.runs.as_ref().is_none_or(|desk| desk.has_looked());
        let idle = intake_is_done
            && run_logs_are_in
            && self.engine.pending() == 0
            && !self.engine.is_writing()
            && state.running_count() == 0
            && !state.has_unsettled()
            && (state.ready_count() == 0 || paused);
        let later = match (by, state.next_eligible()) {
            (Some(by), Some(next)) => next <= by && self.now() <= by && !paused,
            _ => false,
        };
        idle && !later
    }

    fn sleep_time(&self, until: Until) -> Duration {
        let now = self.now();
        let next = self.engine.state().next_eligible();
        let next = next.map(|at| Duration::from_millis(at.ms_since(now).max(1) as u64));
        let idle = match until {
            Until::Drained(_) => Duration::from_millis(50),
            Until::Stopped => IDLE,
        };
        next.map_or(idle, |next| next.min(idle))
    }

    fn stop_intake(&mut self) {
        if let Some(intake) = self.intake.take() {
            intake.stop();
        }
    }

    /// The end in order: no new work, a while for what is under way, everything durable.
    fn finish(mut self) -> Result<(RunReport, Engine), ServiceError> {
        self.stop_intake();
        self.finish_writing()?;
        let grace = Duration::from_millis(self.service.config.shutdown_grace_ms.max(0) as u64);
        let deadline = Instant::now() + grace;
        while self.engine.state().running_count() > 0 {
            let left = deadline.saturating_duration_since(Instant::now());
            let Ok(report) = self.reports.recv_timeout(left.min(IDLE)) else {
                if left.is_zero() || self.service.stop.0.load(Ordering::Acquire) > 1 {
                    break;
                }
                continue;
            };
            self.take_report(report)?;
            let mut mark = None;
            for _ in 0..REPORTS_PER_TURN {
                let Ok(report) = self.reports.try_recv() else { break };
                self.take_report(report)?;
            }
            if self.engine.state().has_unsettled() {
                let now = self.now();
                self.engine.settle(now)?;
            }
            self.commit(mark.take(), CheckpointWhen::Due)?;
        }
        // Nobody else commits from here on; who waits for it is told so.
        self.orders = never();
        self.waiting.noted.clear();
        self.end_run(RunEnd::Clean, None)?;
        let Sequencer { service, mut engine, projector, pool, mut report, before, .. } = self;
        report.add(before);
        let cursors = projector.finish()?;
        engine.commit(None, CheckpointWhen::Changed, &cursors, service.machine.clock.now())?;
        if engine.state().running_count() == 0 {
            pool.join()
        } else {
            pool.abandon()
        }
        Ok((report, engine))
    }

    /// Closes the run: everything is shown first, so that its end can say what it promoted.
    fn end_run(&mut self, end: RunEnd, error: Option<&str>) -> Result<(), ServiceError> {
        let mut outputs = Vec::new();
        if let Some(publishing) = self.service.publishing.clone() {
            outputs = match publishing.flush() {
                Ok(outputs) | Err((_, outputs)) => outputs,
            };
            self.note_troubles()?;
        }
        self.close_own_run();
        let snapshot = self.engine.runs().overview().service.clone();
        let report = self.report.to_json(&outputs, snapshot.as_ref(), error);
        let now = self.now();
        self.engine.finish_run(end, report, now)?;
        self.commit(None, CheckpointWhen::Due)
    }

    /// The service's own run ends with a snapshot. When it cannot now, because its thread is at
    /// work or something failed, that stops nothing: the run's end closes it all the same.
    fn close_own_run(&mut self) {
        let Some(desk) = self.runs.clone() else { return };
        if let Err(error) = desk.close_own(&mut Committing(self)) {
            let error = described(&error);
            tracing::warn!(error, "the service's own run has no last snapshot yet");
        }
    }

    /// What could not be published is a fact of the run.
    fn note_troubles(&mut self) -> Result<(), ServiceError> {
        let Some(publishing) = self.service.publishing.clone() else { return Ok(()) };
        while let Some(trouble) = publishing.trouble() {
            let now = self.now();
            self.engine.note(PUBLISH_FAILED, trouble.facts().to_string(), None, now)?;
        }
        Ok(())
    }

    /// A run of the service is one day: at midnight it ends and another begins, as soon as
    /// nothing is under way that was started in its name.
    fn turn_of_day(&mut self) -> Result<(), ServiceError> {
        let today = self.now().day_in(self.service.config.timezone);
        self.turning = today > self.day && self.service.next_run.is_some();
        if !self.turning || self.engine.state().running_count() > 0 {
            return Ok(());
        }
        // What the run did is counted when it is durable.
        self.finish_writing()?;
        self.turning = false;
        self.day = today;
        let Some(next) = self.service.next_run.as_mut().and_then(|next| next()) else {
            return Ok(());
        };
        self.end_run(RunEnd::Clean, None)?;
        self.retain()?;
        self.before.add(std::mem::take(&mut self.report));
        self.service.run = next.clone();
        let now = self.now();
        self.engine.begin_run(next, now)?;
        self.commit(None, CheckpointWhen::Due)
    }

    /// What the settings no longer keep goes, between two runs and where it is wanted.
    fn retain(&mut self) -> Result<(), ServiceError> {
        let policy = Policy::in_passing(&self.service.config);
        if !self.service.config.retention_daily || policy.keeps_all() {
            return Ok(());
        }
        self.finish_writing()?;
        let (now, machine, home) = (self.now(), &self.service.machine, &self.service.home);
        let bring_back = self.projector.rest();
        let until = Instant::now() + RETAIN_FOR;
        loop {
            let due = retention::look(machine.disk.as_ref(), home, &self.engine, policy, now)?;
            let told = retention::apply(machine, home, &mut self.engine, &due, "service", now)?;
            tracing::info!(told = told.to_string(), "what is old went");
            // What is left after that goes the next day.
            if !due.is_cut() || Instant::now() >= until {
                break;
            }
        }
        let (acks, _) = Projections::open(&machine.disk, home, self.engine.log())?;
        let _ = bring_back.send(acks);
        Ok(())
    }

    fn now(&self) -> Timestamp {
        self.service.machine.clock.now()
    }
}

/// Commits notes on the sequencer's own thread.
struct Committing<'a>(&'a mut Sequencer);

impl Notary for Committing<'_> {
    fn note(&mut self, make: MakeNotes) -> Result<Seq, String> {
        let now = self.0.now();
        let first = self.0.engine.note_all(make, now).map_err(|error| described(&error))?;
        self.0.commit(None, CheckpointWhen::Due).map_err(|error| described(&error))?;
        Ok(first)
    }
}
