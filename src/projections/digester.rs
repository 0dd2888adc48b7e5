//! Digests of a home: the same orders in process and beside a running service, where a thread
//! also builds by itself when a window closes or its summaries change.
//!
//! Contract. The thread owns the library and the digest tree; the log belongs to the sequencer,
//! which takes notes over a bounded channel and says when they are durable. A build of its own waits
//! until no summaries arrive, at most for the configured time. A closed window does not wait.
//!
//! It decides nothing about bags; the digest room does.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use parking_lot::{Condvar, Mutex};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::compaction::agent_runs::NoteCommitter;
use crate::config::{Config, nearest};
use crate::contract::hash::sha256;
use crate::contract::ids::Seq;
use crate::contract::time::Timestamp;
use crate::digest::build::{
    self, BuildError, BuildOrder, BuildSettings, Journal, JournalError, close_crashed,
};
use crate::digest::cache::DigestCache;
use crate::digest::collect::{Collection, collect};
use crate::digest::library::Library;
use crate::digest::project::ProjectRules;
use crate::digest::publish::{DigestError, Digests};
use crate::digest::queries;
use crate::digest::selector::Selectors;
use crate::digest::tasks::Closed;
use crate::export::run_record::Environment;
use crate::facts::digest::{DigestFact, TaskSettled, WindowType};
use crate::facts::window::Window;
use crate::log::{ReadError, Reader};
use crate::os::Machine;
use crate::projections::runs::{OrderError, Orders};
use crate::projections::summaries::Publishing;
use crate::state::event::{Event, Note};

/// Orders that may wait.
const WAITING_MAX: usize = 16;
/// How long one question waits for the answer to an order before it tells how far that is.
const PATIENCE: Duration = Duration::from_secs(1);
/// Most answers that are kept until a caller fetches them.
const ANSWERS_KEPT: usize = 64;
/// How long an ordered build waits for the Summary Bus beside a running service.
const SUMMARIES_PATIENCE: Duration = Duration::from_secs(30);
/// Time between two looks at the Summary Bus.
const SUMMARIES_PAUSE: Duration = Duration::from_millis(50);
/// Least time between two attempts of a build that waits for the Summary Bus.
const BEHIND_PAUSE_MS: i64 = 1000;
/// How many times as long as the last attempt such a build waits.
const BEHIND_REST: i64 = 9;
/// A build begins at least this part of the longest delay before the delay is over.
const LEAD_SHARE: i64 = 10;
/// How often the thread looks whether something changed.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// What can be asked of the digests of a home.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case", deny_unknown_fields)]
pub enum DigestOrder {
    /// Build what changed.
    Build {
        run_id: String,
        /// Only this selector.
        #[serde(default)]
        selector: Option<String>,
        /// Only windows of this label.
        #[serde(default)]
        window: Option<String>,
        /// Every window.
        #[serde(default)]
        all: bool,
    },
    /// What a selector would select and drop.
    Preview {
        selector: String,
        /// The label of the window; the newest when absent.
        #[serde(default)]
        window: Option<String>,
        /// At most this many summaries.
        limit: usize,
    },
    /// What two bags have in common and what not.
    Diff { first: String, second: String },
    /// The bags there are.
    List {
        /// Only of this selector.
        #[serde(default)]
        selector: Option<String>,
        /// Only of this window.
        #[serde(default)]
        window: Option<String>,
        /// The retired ones instead.
        #[serde(default)]
        retired: bool,
    },
    /// Remove retired bags for good.
    Collect {
        run_id: String,
        /// Only say what would go.
        #[serde(default)]
        dry_run: bool,
        /// Also folders that no event of the log speaks of.
        #[serde(default)]
        orphans: bool,
    },
    /// The tasks that summaries name.
    Tasks {
        /// Also the closed ones.
        #[serde(default)]
        all: bool,
    },
    /// Say that a task is done, or open again.
    SettleTask {
        /// Its id, or a beginning of it that no other task has.
        task_id: String,
        done: bool,
    },
    /// Read the selectors again, and build what they change. The old ones stay in force when the
    /// file does not read.
    Reselect,
}

/// What digests of a home depend on.
#[derive(Clone)]
pub(crate) struct DigestSetup {
    pub machine: Machine,
    /// The service home: where selectors may be.
    pub home: PathBuf,
    pub buses: PathBuf,
    pub log: Reader,
    /// Where what follows from the log is kept; it may be deleted at any time.
    pub kept: PathBuf,
    pub config: Config,
    pub environment: Environment,
}

/// Told what is being done, how far it is and how far it goes.
pub(crate) type Watch = Arc<dyn Fn(&'static str, u64, u64) + Send + Sync>;

/// The summaries that a build is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Extent {
    /// All that the log holds now.
    Log,
    /// Those that are read already. A build that waits until they are published takes no newer ones:
    /// with these it would wait again, and while summaries keep coming it would never end.
    AsRead,
}

/// The digests of a home.
pub(crate) struct Digester {
    setup: DigestSetup,
    digests: Digests,
    kept: DigestCache,
    /// The selectors in force. They are read when they are first needed, for an order, and when the
    /// settings are read again.
    selectors: Option<Selectors>,
    /// Bags that were damaged or missing and were written again since the last build.
    rewritten: u64,
    /// Read when it is first needed.
    library: Option<Library>,
    stop: Arc<AtomicBool>,
    watch: Watch,
    /// How long an ordered build waits until the newest summaries are published.
    patience: Duration,
    /// Staging folders that went before the order to remove them was answered.
    freed: Vec<String>,
}

impl Digester {
    /// Takes charge of the digests of a home. Nothing is read yet.
    pub(crate) fn new(setup: DigestSetup) -> Digester {
        let mut digests = Digests::open(&setup.machine.disk, &setup.buses, &setup.log);
        let mut kept = DigestCache::open(&setup.machine.disk, &setup.kept, &setup.log);
        if let Some((catalog, in_place)) = kept.catalog() {
            digests.go_on_from(catalog, in_place);
        }
        let watch: Watch = Arc::new(|_, _, _| {});
        Digester {
            setup,
            digests,
            kept,
            selectors: None,
            rewritten: 0,
            library: None,
            stop: Arc::default(),
            watch,
            patience: Duration::ZERO,
            freed: Vec::new(),
        }
    }

    /// The same beside a publisher, which publishes the newest summaries in a moment.
    fn beside_publisher(self) -> Digester {
        Digester { patience: SUMMARIES_PATIENCE, ..self }
    }

    /// The same digester, which reports the progress of long work to `watch`.
    pub(crate) fn watched(self, watch: Watch) -> Digester {
        Digester { watch, ..self }
    }

    /// The same; a build gives up when the flag is set.
    pub(crate) fn stopped_by(self, stop: Arc<AtomicBool>) -> Digester {
        Digester { stop, ..self }
    }

    /// Removes all staged files before anything is written.
    pub(crate) fn free_staging(&mut self) -> Result<(), BuildError> {
        self.freed = self.digests.staged()?;
        self.digests.sweep_staging(true)?;
        Ok(())
    }

    /// The work of a start: files equal to the log, and an end for a build that a crash cut short. What it
    /// had staged goes first.
    pub(crate) fn recover(&mut self, journal: &mut dyn Journal) -> Result<(), BuildError> {
        self.digests.read(None)?;
        self.digests.sweep_staging(false)?;
        let rewritten = self.digests.publish(None, None)?.bags as u64;
        if rewritten > 0 {
            tracing::warn!(rewritten, "bags were damaged or missing and were written again");
        }
        self.rewritten += rewritten;
        if let Some(run_id) = close_crashed(&mut self.digests, journal, &self.setup.environment)? {
            tracing::warn!(run_id, "a digest build ended without its last event");
        }
        self.keep(false);
        Ok(())
    }

    /// Reads the selectors again. They come into force when they read. Returns whether they changed.
    fn reselect(&mut self) -> Result<bool, BuildError> {
        let disk = self.setup.machine.disk.as_ref();
        let read = Selectors::for_build(disk, &self.setup.home);
        let read = read.map_err(|error| BuildError::Selectors(chain(&error)))?;
        let changed = self.selectors.as_ref() != Some(&read);
        self.selectors = Some(read);
        Ok(changed)
    }

    /// The selectors in force.
    fn selectors(&mut self) -> Result<Selectors, BuildError> {
        if self.selectors.is_none() {
            self.reselect()?;
        }
        Ok(self.selectors.clone().unwrap_or_else(Selectors::none))
    }

    /// Everything the log holds, for selectors that look at these fields of `meta`: as it was kept,
    /// and what came since; fields that are new to it are read from the log again.
    fn library(
        &mut self,
        fields: &BTreeSet<String>,
        rules: &ProjectRules,
    ) -> Result<(&Library, usize), ReadError> {
        let threads = self.setup.config.workers.max(1);
        let library = self.library.take().filter(|known| fits(known, fields, rules));
        let kept = || self.kept.library(fields, rules, threads);
        let library = library.or_else(kept);
        let empty = || Library::with_rules(fields.clone(), rules.clone());
        let mut library = library.unwrap_or_else(empty);
        let head = self.setup.log.head().0.0;
        let watch = Arc::clone(&self.watch);
        let mut progress = |at: Seq| watch("reading the log", at.0, head);
        let more = library.read(&self.setup.log, None, threads, &mut progress)?;
        Ok((self.library.insert(library), more))
    }

    /// Takes in what is new; how many summaries that are.
    fn read(&mut self) -> Result<usize, ReadError> {
        let (fields, rules) = match &self.library {
            Some(library) => (library.fields().clone(), library.rules().clone()),
            None => {
                let selectors = self.selectors().unwrap_or_else(|_| Selectors::none());
                (selectors.fields(), selectors.rules())
            }
        };
        Ok(self.library(&fields, &rules)?.1)
    }

    /// Keeps what the next process would have to read again.
    fn keep(&mut self, changed: bool) {
        if let Some(library) = &self.library {
            self.kept.keep_library(library);
        }
        self.kept.keep_catalog(self.digests.catalog(), self.digests.in_place(), changed);
    }

    /// The number of bags and the last build, for `status`.
    pub(crate) fn overview(&mut self) -> Result<Value, BuildError> {
        self.digests.read(None)?;
        Ok(queries::overview(&self.digests)?)
    }

    /// Carries out an order.
    pub(crate) fn answer(
        &mut self,
        order: DigestOrder,
        journal: &mut dyn Journal,
    ) -> Result<Value, OrderError> {
        let changes = matches!(order, DigestOrder::Build { .. } | DigestOrder::Collect { .. });
        // An order speaks of the file as it is now.
        let reselected = match order {
            DigestOrder::Diff { .. }
            | DigestOrder::Collect { .. }
            | DigestOrder::Tasks { .. }
            | DigestOrder::SettleTask { .. } => Ok(false),
            _ => self.reselect(),
        };
        let done = match order {
            DigestOrder::Reselect => reselected.map(|changed| Ok(json!({"changed": changed}))),
            DigestOrder::Preview { .. } | DigestOrder::List { .. } if reselected.is_err() => {
                reselected.map(|_| Ok(Value::Null))
            }
            DigestOrder::Build { run_id, selector, window, all } => {
                let trigger = "summarizer digest build".to_owned();
                let run_id = unused(run_id, self.digests.catalog().runs());
                let order = BuildOrder {
                    run_id,
                    trigger,
                    selector,
                    window,
                    all,
                    record: true,
                    waits: false,
                };
                match reselected {
                    Ok(_) => self.build_published(order, journal),
                    Err(why) => Err(self.refuse(&order, journal, why)),
                }
            }
            DigestOrder::Preview { selector, window, limit } => {
                self.preview(&selector, window.as_deref(), limit)
            }
            DigestOrder::Tasks { all } => self.tasks(all).map(|tasks| Ok(json!({"tasks": tasks}))),
            DigestOrder::SettleTask { task_id, done } => self.settle_task(&task_id, done, journal),
            DigestOrder::Diff { first, second } => self
                .digests
                .read(None)
                .map_err(BuildError::from)
                .and_then(|()| Ok(queries::diff(&self.digests, &first, &second)?)),
            DigestOrder::List { selector, window, retired } => {
                let wanted = queries::BagFilter { selector, window, retired };
                self.list(&wanted)
            }
            DigestOrder::Collect { run_id, dry_run, orphans } => {
                let run_id = unused(run_id, self.digests.catalog().runs());
                let wanted = Collection { run_id, dry_run, orphans };
                let mut freed = std::mem::take(&mut self.freed);
                collect(&mut self.digests, journal, &wanted).map(|mut collected| {
                    freed.append(&mut collected.staged);
                    collected.staged = freed;
                    Ok(json!(collected))
                })
            }
        };
        self.keep(changes);
        match done {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(unknown)) => Err(OrderError::NotFound(unknown)),
            Err(error) => Ok(failure(&error)),
        }
    }

    fn tasks(&mut self, all: bool) -> Result<Vec<Value>, BuildError> {
        self.digests.read(None)?;
        self.read()?;
        let none = Library::default();
        let library = self.library.as_ref().unwrap_or(&none);
        queries::tasks(library, &self.setup.log, self.digests.catalog(), all)
    }

    /// Records what a person says of a task. The next build shows it.
    fn settle_task(
        &mut self,
        task_id: &str,
        done: bool,
        journal: &mut dyn Journal,
    ) -> Result<Result<Value, String>, BuildError> {
        let text = |task: &Value, name: &str| task[name].as_str().unwrap_or_default().to_owned();
        let all = self.tasks(true)?;
        // The kind before the digits says nothing, so people leave it out.
        let begins = |task: &&Value| {
            let id = text(task, "task_id");
            let digits = id.split_once('_').map_or(id.as_str(), |(_, digits)| digits);
            id.starts_with(task_id) || digits.starts_with(task_id)
        };
        let found: Vec<&Value> = all.iter().filter(begins).collect();
        let [task] = found.as_slice() else {
            return Ok(Err(match found.len() {
                0 => {
                    let ids: Vec<String> = all.iter().map(|task| text(task, "task_id")).collect();
                    // People type the beginning of an id.
                    let begin = |id: &str| id.chars().take(task_id.chars().count()).collect();
                    let begins: Vec<String> = ids.iter().map(|id| begin(id)).collect();
                    let near = nearest(task_id, begins.iter().map(String::as_str));
                    // A beginning that several tasks have says nothing of the one that was meant.
                    let near = near.and_then(|near| {
                        let mut begun = ids.into_iter().filter(|id| id.starts_with(&near));
                        begun.next().filter(|_| begun.next().is_none())
                    });
                    let near = near.map_or("; ".into(), |id| format!(": did you mean {id}? "));
                    format!("there is no task {task_id}{near}`summarizer task list` lists them")
                }
                many => format!("{many} tasks begin with {task_id}: give more of the id"),
            }));
        };
        let changes = task["open"] == done;
        let mut told = (*task).clone();
        if changes {
            told["open"] = (!done).into();
            told["closed"] = done.then(|| Closed::ByPerson.told()).into();
            let fact = DigestFact::TaskSettled(TaskSettled {
                task_id: text(task, "task_id"),
                done,
                summary_id: text(task, "summary_id"),
            });
            let words = text(task, "text").into_bytes();
            journal.note(vec![Note::with_body(Event::Digest(fact), words)])?;
            self.digests.read(None)?;
        }
        Ok(Ok(json!({"task": told, "done": done, "changed": changes})))
    }

    fn list(&mut self, wanted: &queries::BagFilter) -> Result<Result<Value, String>, BuildError> {
        self.digests.read(None)?;
        let selectors = self.selectors()?;
        if let Some(name) = &wanted.selector {
            // A selector that is gone may still have retired bags.
            let entries = self.digests.catalog().entries();
            let has_bags = entries.values().any(|entry| entry.facts.selector_id == *name);
            if !has_bags && selectors.find(name).is_none() {
                return Ok(Err(selectors.none_is(name)));
            }
        }
        Ok(Ok(queries::list(self.digests.catalog(), wanted)))
    }

    fn settings<'s>(
        setup: &DigestSetup,
        selectors: &'s Selectors,
        stop: &'s AtomicBool,
        progress: &'s (dyn Fn(u64, u64) + Sync),
    ) -> BuildSettings<'s> {
        BuildSettings {
            selectors,
            zone: setup.config.timezone,
            threads: setup.config.workers.max(1),
            keeps_free: setup.config.disk_headroom_bytes,
            engine_version: env!("CARGO_PKG_VERSION"),
            environment: setup.environment.clone(),
            stop,
            progress,
        }
    }

    /// Records a build that could not begin.
    fn refuse(
        &mut self,
        order: &BuildOrder,
        journal: &mut dyn Journal,
        why: BuildError,
    ) -> BuildError {
        let Digester { setup, digests, stop, .. } = self;
        let none = Selectors::none();
        let settings = Digester::settings(setup, &none, stop, &|_, _| {});
        build::refuse(digests, &setup.log, &settings, journal, order, why)
    }

    /// One build, which waits until the summaries that it needs are published.
    fn build_published(
        &mut self,
        order: BuildOrder,
        journal: &mut dyn Journal,
    ) -> Result<Result<Value, String>, BuildError> {
        let until = Instant::now() + self.patience;
        let early = BuildOrder { waits: true, ..order.clone() };
        let mut extent = Extent::Log;
        while Instant::now() < until && !self.stop.load(Ordering::Acquire) {
            match self.build(extent, &early, journal) {
                Err(BuildError::SummariesBehind { .. }) => extent = Extent::AsRead,
                done => return done,
            }
            (self.watch)("waiting for the summaries to be published", 0, 0);
            std::thread::sleep(SUMMARIES_PAUSE);
        }
        self.build(extent, &order, journal)
    }

    fn build(
        &mut self,
        extent: Extent,
        order: &BuildOrder,
        journal: &mut dyn Journal,
    ) -> Result<Result<Value, String>, BuildError> {
        let selectors = match self.selectors() {
            Ok(selectors) => selectors,
            Err(why) => return Err(self.refuse(order, journal, why)),
        };
        let (fields, rules) = (selectors.fields(), selectors.rules());
        let is_read = self.library.as_ref().is_some_and(|known| fits(known, &fields, &rules));
        if extent == Extent::Log || !is_read {
            self.library(&fields, &rules)?;
        }
        let Digester { setup, digests, library, watch, stop, rewritten, .. } = self;
        let Some(library) = library else { return Ok(Err("there is no library".to_owned())) };
        let progress = |done, all| watch("windows", done, all);
        let settings = Digester::settings(setup, &selectors, stop, &progress);
        match build::build(digests, library, &setup.log, &settings, journal, order) {
            Ok(mut report) => {
                report.rewritten += std::mem::take(rewritten);
                Ok(Ok(json!(report)))
            }
            Err(BuildError::UnknownSelector(name)) => {
                Ok(Err(BuildError::UnknownSelector(name).to_string()))
            }
            Err(error) => Err(error),
        }
    }

    /// The bags whose files are not what the log says, relative to the bus home.
    pub(crate) fn damaged(&mut self) -> Result<Vec<String>, BuildError> {
        self.digests.read(None)?;
        Ok(self.digests.damaged()?)
    }

    /// The index files that are missing or not what the log says, relative to the bus home.
    pub(crate) fn damaged_indexes(&mut self) -> Result<Vec<String>, BuildError> {
        self.digests.read(None)?;
        Ok(self.digests.damaged_indexes()?)
    }

    fn preview(
        &mut self,
        selector: &str,
        window: Option<&str>,
        limit: usize,
    ) -> Result<Result<Value, String>, BuildError> {
        let selectors = self.selectors()?;
        let Some(selector) = selectors.find(selector) else {
            return Ok(Err(selectors.none_is(selector)));
        };
        self.digests.read(None)?;
        self.library(&selectors.fields(), &selectors.rules())?;
        let Digester { setup, digests, library, .. } = self;
        let Some(library) = library else { return Ok(Err("there is no library".to_owned())) };
        let zone = setup.config.timezone;
        queries::preview(library, &setup.log, digests.catalog(), selector, zone, window, limit)
    }
}

/// Whether a library holds what selectors with these fields and rules look at.
fn fits(known: &Library, fields: &BTreeSet<String>, rules: &ProjectRules) -> bool {
    fields.is_subset(known.fields()) && known.rules() == rules
}

/// An error and its causes in one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

/// A build that failed, as an answer.
fn failure(error: &BuildError) -> Value {
    let storage = matches!(
        error,
        BuildError::Log(_)
            | BuildError::Journal(_)
            | BuildError::Digest(DigestError::Disk { .. })
            | BuildError::NoRoom { .. }
    );
    let config = matches!(error, BuildError::Selectors(_));
    let no_room = matches!(error, BuildError::NoRoom { .. });
    json!({"failed": chain(error), "storage": storage, "config": config, "no_room": no_room})
}

/// A journal that hands its notes to a [`NoteCommitter`].
pub(crate) struct NoteJournal<N> {
    committer: N,
    log: Reader,
    machine: Machine,
}

impl<N: NoteCommitter> NoteJournal<N> {
    pub(crate) fn new(committer: N, log: &Reader, machine: &Machine) -> NoteJournal<N> {
        NoteJournal { committer, log: log.clone(), machine: machine.clone() }
    }
}

impl<N: NoteCommitter> Journal for NoteJournal<N> {
    fn now(&self) -> Timestamp {
        self.machine.clock.now()
    }

    fn note(&mut self, notes: Vec<Note>) -> Result<(Seq, Timestamp), JournalError> {
        let first = self.committer.note(Box::new(move |_| notes)).map_err(JournalError)?;
        let record = self.log.get(first).map_err(|error| JournalError(chain(&error)))?;
        let record = record.ok_or_else(|| JournalError("the note is gone".to_owned()))?;
        Ok((first, record.at))
    }
}

/// What a ticket is told that no order of this thread has.
const NOT_KNOWN: &str =
    "the service began anew before it carried the order out, or answered it already; give it again";

#[derive(Default)]
struct Answers {
    /// The orders that are not carried out yet.
    open: BTreeSet<u64>,
    ready: BTreeMap<u64, Result<Value, OrderError>>,
    /// What there was to tell when the thread looked last.
    overview: Value,
    /// What an order under way is doing, how far it is, and how far it goes.
    progress: (&'static str, u64, u64),
}

/// Where orders are left and answers fetched.
#[derive(Clone)]
pub struct DigestClient {
    orders: Sender<(u64, DigestOrder)>,
    answers: Arc<(Mutex<Answers>, Condvar)>,
    next: Arc<AtomicU64>,
}

impl DigestClient {
    /// Leaves an order. The ticket fetches its answer.
    pub fn leave(&self, order: DigestOrder) -> Result<u64, String> {
        let ticket = self.next.fetch_add(1, Ordering::Relaxed);
        // Under the lock, so that the thread does not answer before the order is known as open.
        let mut answers = self.answers.0.lock();
        let busy = |_| "too many digest orders are waiting".to_owned();
        self.orders.try_send((ticket, order)).map_err(busy)?;
        answers.open.insert(ticket);
        Ok(ticket)
    }

    /// What there is, as of the last look of the thread.
    pub fn overview(&self) -> Value {
        self.answers.0.lock().overview.clone()
    }

    /// Waits a while for an answer; without one, the caller may wait again with the same ticket. A ticket of another
    /// session is refused: nobody carries its order out.
    pub(crate) fn fetch(&self, ticket: u64) -> Result<Value, OrderError> {
        let (answers, ready) = &*self.answers;
        let deadline = Instant::now() + PATIENCE;
        let mut answers = answers.lock();
        loop {
            if let Some(answer) = answers.ready.remove(&ticket) {
                return answer;
            }
            if !answers.open.contains(&ticket) {
                return Err(OrderError::Refused(NOT_KNOWN.to_owned()));
            }
            if ready.wait_until(&mut answers, deadline).timed_out() {
                let (what, done, all) = answers.progress;
                return Ok(json!({
                    "ticket": ticket, "doing": {"what": what, "done": done, "of": all},
                }));
            }
        }
    }
}

/// The thread of a service.
pub(crate) struct DigestThread {
    /// How others reach it.
    pub client: DigestClient,
    stop: Arc<AtomicBool>,
    stopping: Sender<()>,
    thread: JoinHandle<()>,
}

impl DigestThread {
    /// Starts it. `new_run` names the runs of its own builds. `publishing` is asked when a build must
    /// not wait longer for its summaries. Tickets are counted from `first`, a place of its own for each session.
    pub(crate) fn start(
        setup: DigestSetup,
        committer: Orders,
        publishing: Publishing,
        new_run: Box<dyn FnMut(Timestamp) -> String + Send>,
        first: u64,
    ) -> std::io::Result<DigestThread> {
        let (orders, inbox) = bounded(WAITING_MAX);
        let (stopping, stopped) = bounded(1);
        let answers: Arc<(Mutex<Answers>, Condvar)> = Arc::default();
        let client = DigestClient {
            orders,
            answers: Arc::clone(&answers),
            next: Arc::new(AtomicU64::new(first)),
        };
        let journal = NoteJournal::new(committer, &setup.log, &setup.machine);
        let watched = Arc::clone(&answers);
        let digester =
            Digester::new(setup).beside_publisher().watched(Arc::new(move |what, done, all| {
                watched.0.lock().progress = (what, done, all);
            }));
        let stop = Arc::clone(&digester.stop);
        let keeper = Keeper {
            digester,
            journal,
            new_run,
            publishing,
            closes_at: None,
            waits: Waits::default(),
            refused: None,
            room_needed: None,
        };
        let thread = std::thread::Builder::new().name("digests".to_owned());
        let thread = thread.spawn(move || keeper.run(&inbox, &stopped, &answers))?;
        Ok(DigestThread { client, stop, stopping, thread })
    }

    /// Ends it; a build under way gives up, and the next start says so.
    pub(crate) fn finish(self) {
        self.stop.store(true, Ordering::Release);
        drop(self.stopping);
        drop(self.client);
        if self.thread.join().is_err() {
            tracing::error!("the digests ended with a panic");
        }
    }
}

/// Whether a build left staged files: it failed, or it ended before it was done with them.
pub(crate) fn has_staged_bags(setup: &DigestSetup) -> bool {
    let digests = Digests::open(&setup.machine.disk, &setup.buses, &setup.log);
    digests.staged().is_ok_and(|staged| !staged.is_empty())
}

/// What the thread keeps in mind.
struct Keeper {
    digester: Digester,
    journal: NoteJournal<Orders>,
    new_run: Box<dyn FnMut(Timestamp) -> String + Send>,
    publishing: Publishing,
    /// When the next window closes.
    closes_at: Option<Timestamp>,
    waits: Waits,
    /// Why the selectors do not read. While the reason stays the same, no further build is tried.
    refused: Option<String>,
    /// Free bytes without which no further build is tried.
    room_needed: Option<u64>,
}

impl Keeper {
    fn run(
        mut self,
        orders: &Receiver<(u64, DigestOrder)>,
        stopped: &Receiver<()>,
        answers: &(Mutex<Answers>, Condvar),
    ) {
        if let Err(error) = self.digester.recover(&mut self.journal) {
            tracing::warn!(error = chain(&error), "the digests are not what the log says yet");
        }
        self.tell(answers);
        loop {
            if matches!(stopped.try_recv(), Err(crossbeam_channel::TryRecvError::Disconnected)) {
                return;
            }
            match orders.recv_timeout(LOOK_EVERY) {
                Ok((ticket, order)) => {
                    let changes =
                        matches!(order, DigestOrder::Reselect | DigestOrder::SettleTask { .. });
                    let answer = self.digester.answer(order, &mut self.journal);
                    self.waits.must_not_wait |=
                        changes && matches!(&answer, Ok(done) if done["changed"] == true);
                    if self.digester.selectors.is_some() {
                        self.refused = None;
                    }
                    self.tell(answers);
                    let (kept, ready) = answers;
                    let mut kept = kept.lock();
                    kept.open.remove(&ticket);
                    kept.ready.insert(ticket, answer);
                    while kept.ready.len() > ANSWERS_KEPT {
                        kept.ready.pop_first();
                    }
                    ready.notify_all();
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            if self.digester.setup.config.digest_auto && self.look() {
                self.tell(answers);
            }
        }
    }

    /// Lets a status know what there is now.
    fn tell(&mut self, answers: &(Mutex<Answers>, Condvar)) {
        match self.digester.overview() {
            Ok(overview) => answers.0.lock().overview = overview,
            Err(error) => tracing::warn!(error = chain(&error), "cannot look at the digests"),
        }
    }

    /// Builds when it is time to; whether it did.
    fn look(&mut self) -> bool {
        let now = self.journal.now();
        let config = &self.digester.setup.config;
        let (debounce, max_delay, zone) =
            (config.digest_debounce_ms, config.digest_max_delay_ms, config.timezone);
        if self.waits.reads() {
            match self.digester.read() {
                Ok(more) => self.waits.came(more, now),
                Err(error) => tracing::warn!(error = chain(&error), "cannot read what is new"),
            }
        }
        let closes_at = *self.closes_at.get_or_insert_with(|| next_close(now, zone));
        let closed = now >= closes_at;
        if closed {
            self.closes_at = None;
        }
        if self.refused.is_some()
            || !self.waits.is_due(now, closed, debounce, max_delay)
            || !self.has_room()
        {
            return false;
        }
        let order = BuildOrder {
            run_id: (self.new_run)(now),
            trigger: "summarizer serve".to_owned(),
            waits: true,
            ..BuildOrder::default()
        };
        let extent = if self.waits.reads() { Extent::Log } else { Extent::AsRead };
        match self.digester.build(extent, &order, &mut self.journal) {
            Ok(Ok(report)) => {
                self.waits.built(now, self.journal.now());
                self.digester.keep(report["unchanged"] == false);
                tracing::info!(%report, "digests are built");
            }
            Ok(Err(why)) => {
                tracing::warn!(why, "digests cannot be built");
                self.waits.failed(now);
            }
            Err(BuildError::SummariesBehind { path }) => {
                tracing::debug!(path, "the digests wait until the summaries are published");
                if self.waits.behind(now, self.journal.now(), closed, max_delay) {
                    self.publishing.ask();
                }
            }
            Err(error @ BuildError::Selectors(_)) => {
                let why = chain(&error);
                tracing::warn!(why, "digests are not built until the selectors read");
                self.refused = Some(why);
            }
            Err(error @ BuildError::NoRoom { needed, keeps, .. }) => {
                tracing::warn!(error = chain(&error), "digests wait for room on the disk");
                // What waits goes on waiting, and is built as soon as there is room.
                self.room_needed = Some(needed.saturating_add(keeps));
            }
            Err(error) => {
                tracing::warn!(error = chain(&error), "digests are not built");
                self.waits.failed(now);
            }
        }
        true
    }

    /// Whether the disk has the room again that the last build did not find.
    fn has_room(&mut self) -> bool {
        let setup = &self.digester.setup;
        let free = || setup.machine.disk.free_bytes(&setup.buses).unwrap_or(u64::MAX);
        let has_room = self.room_needed.is_none_or(|needed| free() >= needed);
        if has_room {
            self.room_needed = None;
        }
        has_room
    }
}

/// What waits for a build of the service, and since when.
#[derive(Debug, Default)]
struct Waits {
    /// Since when summaries wait for a build, and when the last one came.
    changed: Option<(Timestamp, Timestamp)>,
    /// A build must not wait: the selectors changed.
    must_not_wait: bool,
    /// A build waits until its summaries are published. Nothing newer is read before.
    behind: Option<Behind>,
    /// Since when nothing new was read: what is read next may have come then.
    unread_since: Option<Timestamp>,
    /// Since when it is time to build.
    due_since: Option<Timestamp>,
    /// How long it took from then until a build had ended: about the longest of the last few times.
    took_ms: i64,
}

#[derive(Debug, Clone, Copy)]
struct Behind {
    since: Timestamp,
    /// When to try again.
    next: Timestamp,
}

impl Waits {
    /// Whether to read what is new.
    fn reads(&self) -> bool {
        self.behind.is_none()
    }

    /// So many summaries were read.
    fn came(&mut self, summaries: usize, now: Timestamp) {
        let unread_since = self.unread_since.take();
        if summaries > 0 {
            let since = self.changed.map(|(since, _)| since).or(unread_since).unwrap_or(now);
            self.changed = Some((since, now));
        }
    }

    /// Whether it is time to build: summaries stopped coming for long enough, have waited for too long,
    /// or their window closed.
    fn is_due(
        &mut self,
        now: Timestamp,
        closed: bool,
        debounce_ms: i64,
        max_delay_ms: i64,
    ) -> bool {
        if let Some(behind) = self.behind {
            return closed || now >= behind.next;
        }
        let waited = self.changed.is_some_and(|(since, last)| {
            closed || now.ms_since(last) >= debounce_ms || self.must_begin(since, now, max_delay_ms)
        });
        let is_due = waited || std::mem::take(&mut self.must_not_wait);
        if is_due {
            self.due_since.get_or_insert(now);
        }
        is_due
    }

    /// Whether a build must begin now, so that it has ended when summaries that came then have waited for
    /// the longest delay. It may have to wait for their publication, and it takes time itself.
    fn must_begin(&self, since: Timestamp, now: Timestamp, max_delay_ms: i64) -> bool {
        // It may take a little longer than before.
        let took = self.took_ms + self.took_ms / 8;
        let lead = took.max(max_delay_ms / LEAD_SHARE).min(max_delay_ms / 2);
        now.ms_since(since) >= max_delay_ms - lead
    }

    /// A build began and ended then. What came meanwhile is not read yet.
    fn built(&mut self, began: Timestamp, ended: Timestamp) {
        let read_to = self.behind.take().map_or(began, |behind| behind.since);
        self.unread_since = Some(read_to);
        self.changed = None;
        let took = ended.ms_since(self.due_since.take().unwrap_or(began));
        self.took_ms = took.max(self.took_ms - self.took_ms / 4);
    }

    /// Not again immediately: the cause of the failure may last for a while.
    fn failed(&mut self, now: Timestamp) {
        self.behind = None;
        self.due_since = None;
        self.changed = Some((now, now));
    }

    /// The summaries of a build that began and ended now are not all published. Returns whether it must not wait
    /// longer.
    fn behind(
        &mut self,
        began: Timestamp,
        ended: Timestamp,
        closed: bool,
        max_delay_ms: i64,
    ) -> bool {
        let since = self.behind.map_or(began, |behind| behind.since);
        let pause = BEHIND_PAUSE_MS.max(ended.ms_since(began).saturating_mul(BEHIND_REST));
        self.behind = Some(Behind { since, next: Timestamp(ended.0.saturating_add(pause)) });
        let came = self.changed.map_or(since, |(since, _)| since);
        closed || self.must_begin(came, began, max_delay_ms)
    }
}

/// When the local day ends, with which every longer window ends too.
fn next_close(now: Timestamp, zone: chrono_tz::Tz) -> Timestamp {
    let (_, end) = Window::of(WindowType::Day, now.day_in(zone)).instants(zone);
    end.unwrap_or(now)
}

/// The id that an order wants for its run, or another one when a run has it: whoever asked asks again when the service
/// was interrupted, and the run that it began then has ended.
fn unused(mut run_id: String, known: &BTreeMap<String, Seq>) -> String {
    while known.contains_key(&run_id) {
        let hash = sha256(&run_id).hex();
        let kept = run_id.rfind('_').unwrap_or(run_id.len());
        run_id.truncate(kept);
        run_id.push('_');
        run_id.push_str(&hash[..8]);
    }
    run_id
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::time::parse_instant;

    fn at(text: &str) -> Timestamp {
        parse_instant(text).unwrap().at
    }

    #[test]
    fn a_ticket_of_another_session_is_not_waited_for() {
        let (orders, _inbox) = bounded(WAITING_MAX);
        let client =
            DigestClient { orders, answers: Arc::default(), next: Arc::new(AtomicU64::new(7)) };
        let refused = client.fetch(3);
        assert!(
            matches!(&refused, Err(OrderError::Refused(why)) if why == NOT_KNOWN),
            "{refused:?}"
        );
        let ticket = client.leave(DigestOrder::Reselect).unwrap();
        assert_eq!(client.fetch(ticket).unwrap()["ticket"], ticket, "it is under way");
        // The thread answers, and the caller may have heard it before.
        let mut answers = client.answers.0.lock();
        answers.open.remove(&ticket);
        answers.ready.insert(ticket, Ok(json!({"changed": true})));
        drop(answers);
        assert_eq!(client.fetch(ticket).unwrap()["changed"], true);
        assert!(client.fetch(ticket).is_err());
    }

    #[test]
    fn an_order_that_is_asked_again_after_its_build_ended_gets_a_run_of_its_own() {
        let mut known = BTreeMap::new();
        let wanted = "run_20260302T100011Z_3262f6a0".to_owned();
        for at in 0..3 {
            let id = unused(wanted.clone(), &known);
            assert_eq!((id == wanted, id.len()), (at == 0, wanted.len()), "{id}");
            assert!(id.starts_with("run_20260302T100011Z_") && known.insert(id, Seq(at)).is_none());
        }
    }

    const DEBOUNCE: i64 = 30_000;
    const MAX_DELAY: i64 = 600_000;

    #[test]
    fn a_build_waits_for_quiet_and_never_too_long() {
        let since = at("2026-02-10T10:00:00Z");
        let due = |now: &str, last: &str| {
            let mut waits = Waits { changed: Some((since, at(last))), ..Waits::default() };
            waits.is_due(at(now), false, DEBOUNCE, MAX_DELAY)
        };
        assert!(!due("2026-02-10T10:00:29.999Z", "2026-02-10T10:00:00Z"));
        assert!(due("2026-02-10T10:00:30Z", "2026-02-10T10:00:00Z"), "nothing came for a while");
        assert!(!due("2026-02-10T10:05:00Z", "2026-02-10T10:04:59Z"), "they still come");
        assert!(due("2026-02-10T10:10:00Z", "2026-02-10T10:09:59Z"), "but not for ever");
    }

    /// One summary each second for so many seconds. The Summary Bus is published each `pace` seconds, and
    /// five seconds after somebody asks. A build takes `takes` seconds. Returns the end of each build, and
    /// how old its oldest summary was then.
    fn steady(seconds: i64, pace: i64, takes: i64, closes_at: Option<i64>) -> Vec<(i64, i64)> {
        let (mut waits, mut built) = (Waits::default(), Vec::new());
        let (mut read_to, mut built_to, mut published_to, mut asked) = (0, 0, 0, None);
        let mut building = None;
        for second in 1..=seconds {
            let now = Timestamp(second * 1000);
            if second % pace == 0 || asked.is_some_and(|asked| second >= asked + 5) {
                (published_to, asked) = (second, None);
            }
            if let Some(began) = building {
                if second < began + takes {
                    continue;
                }
                building = None;
                waits.built(Timestamp(began * 1000), now);
                built.push((second, second - built_to - 1));
                built_to = read_to;
            }
            if waits.reads() {
                waits.came(usize::try_from(second - read_to).unwrap(), now);
                read_to = second;
            }
            let closed = closes_at == Some(second);
            if !waits.is_due(now, closed, DEBOUNCE, MAX_DELAY) {
                continue;
            }
            if read_to <= published_to {
                building = Some(second);
            } else if waits.behind(now, now, closed, MAX_DELAY) {
                asked.get_or_insert(second);
            }
        }
        built
    }

    #[test]
    fn steady_summaries_are_built_before_they_have_waited_for_the_longest_delay() {
        for takes in [0, 1, 20, 60, 200, 290] {
            for pace in [1, 7, 299, 600, 100_000] {
                let built = steady(3 * 3600, pace, takes, None);
                assert!(built.len() >= 17, "{takes} s, pace {pace}: {built:?}");
                // The first build cannot know how long it will take.
                let later = &built[usize::from(takes > 50)..];
                let longest = later.iter().map(|(_, waited)| *waited).max().unwrap();
                assert!(longest <= 600, "{takes} s, pace {pace}: {longest} s: {built:?}");
            }
        }
    }

    #[test]
    fn a_window_that_closes_is_built_as_soon_as_its_summaries_are_published() {
        let built = steady(120, 100_000, 0, Some(100));
        assert_eq!(built.first().map(|(second, _)| *second), Some(106));
    }

    #[test]
    fn a_build_that_waits_reads_nothing_newer_and_rests_after_each_attempt() {
        let mut waits = Waits::default();
        waits.came(1, Timestamp(0));
        assert!(waits.is_due(Timestamp(DEBOUNCE), false, DEBOUNCE, MAX_DELAY));
        assert!(!waits.behind(Timestamp(30_000), Timestamp(31_000), false, MAX_DELAY));
        assert!(!waits.reads());
        assert!(!waits.is_due(Timestamp(39_999), false, DEBOUNCE, MAX_DELAY), "it took a second");
        assert!(waits.is_due(Timestamp(40_000), false, DEBOUNCE, MAX_DELAY));
        assert!(waits.behind(Timestamp(600_000), Timestamp(600_000), false, MAX_DELAY), "too long");
        waits.built(Timestamp(600_000), Timestamp(600_000));
        waits.came(3, Timestamp(610_000));
        assert_eq!(waits.changed, Some((Timestamp(30_000), Timestamp(610_000))));
    }

    #[test]
    fn windows_close_at_local_midnight() {
        let zone = "America/Argentina/Buenos_Aires".parse().unwrap();
        assert_eq!(next_close(at("2026-02-11T02:59:59Z"), zone), at("2026-02-11T03:00:00Z"));
        assert_eq!(next_close(at("2026-02-11T03:00:00Z"), zone), at("2026-02-12T03:00:00Z"));
    }
}
