//! A home that this process holds: taken under the lock, recovered, and asked in process.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use serde_json::Value;

use super::causes::{
    digests_failed, engine_failed, exporter_failed, log_failed, not_forgotten, not_taken_back,
    projector_failed,
};
use super::failure::{Exit, Failure};
use super::flow_processes::processes_for;
use super::home_key::store_options;
use super::identity::{digest_setup, fresh, no_random_bytes, run_id, site_of};
use super::lost_log::{refuse_damaged_log, refuse_lost_log, refuse_other_log};
use super::settings::{load_config, load_registry, shared_flows};
use super::{Context, pasted, ui};
use crate::compaction::agent_runs::{AgentRunWriter, MakeNotes, NoteCommitter};
use crate::compaction::files::SnapshotStore;
use crate::config::{Config, HomeKeySource, nearest};
use crate::contract::digest_bus::INDEX_DIR;
use crate::contract::ids::Seq;
use crate::contract::time::Timestamp;
use crate::control::answers::answer;
use crate::control::question::{Answer, Question};
use crate::control::reply::{QuestionContext, Reply};
use crate::control::socket::{ControlClient, ControlServer, Progress};
use crate::control::waits::WaitingCalls;
use crate::export::publish::workshop;
use crate::home::{Home, HomeLock, OLD_LOGS, RECOVERING};
use crate::import::{TakenBack, Target, take_back};
use crate::log::{Reader, Store};
use crate::os::{Disk, DiskFile, Open, rights};
use crate::projections::digester::{DigestOrder, Digester, NoteJournal, has_staged_bags};
use crate::projections::exporters;
use crate::projections::projection::Site;
use crate::projections::projector::{Projections, Projector};
use crate::projections::runs::{self, RunQuestion, described};
use crate::projections::snapshot_files::SnapshotFiles;
use crate::projections::summaries::{Summaries, SummariesError};
use crate::registry::SharedFlows;
use crate::sequencer::engine::{CheckpointWhen, Engine, EngineOptions};
use crate::sequencer::writer::agreement_of_commands;
#[cfg(feature = "cluster")]
use crate::upkeep::following::archive_moved;
use crate::upkeep::forget::{self, Traces, Wanted};
use crate::upkeep::forget_mark::{self, Marked};
use crate::upkeep::run_watch::changed_files;
use crate::upkeep::tombstones;
use crate::upkeep::written_copies::{self, WrittenCopies};
use crate::upstream::{IndexStore, index_of_home};

/// How long a command waits for a command that holds the home only for one answer.
pub(crate) const BRIEF_HOLDER: Duration = Duration::from_secs(30);

/// What the process that holds a home does with its log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// It writes to the log: the host is alone, or leads.
    Writes,
    /// The log is shared, and another process decides what is in it.
    Follows,
}

/// A home that this process holds.
pub struct HeldHome {
    pub config: Config,
    pub home: Home,
    /// Where upstream ids are looked up.
    pub index: Arc<dyn IndexStore>,
    /// Flows as registered.
    pub flows: SharedFlows,
    /// The engine, brought up to the end of the log.
    pub engine: Engine,
    /// The append-only projections, repaired.
    pub projector: Projector,
    /// The socket, for a command that stays.
    pub control: Option<ControlServer>,
    /// The lock on the home; dropping it lets another process take the home.
    pub lock: HomeLock,
    part: Part,
    /// Whether damage of the log was looked for.
    is_checked: bool,
    /// The runs of the home, once something was asked about them.
    runs: Option<AgentRunWriter>,
    progress: Progress,
}

/// A home that this process has locked, before its log is open.
pub(crate) struct LockedHome {
    pub config: Config,
    pub home: Home,
    pub flows: SharedFlows,
    pub control: Option<ControlServer>,
    pub lock: HomeLock,
    progress: Progress,
}

impl LockedHome {
    /// Locks a home, making it when it is missing. `None` when another process holds it.
    pub(crate) fn take(context: &Context, answers: bool) -> Result<Option<LockedHome>, Failure> {
        let config = load_config(context)?;
        let home = Home::new(&context.home, &config);
        make_home(context, &home)?;
        // A service waits for a command that holds the home briefly. A command does not wait: it
        // asks the service over its socket.
        let patience = if answers { BRIEF_HOLDER } else { Duration::ZERO };
        let Some(lock) = take_lock(context, &home, patience)? else { return Ok(None) };
        refuse_lost_log(context, &home)?;
        share(&config, &home)?;
        let progress = Progress::starting();
        let control = match answers {
            false => None,
            true => {
                Some(ControlServer::start(&home.socket(), progress.clone()).map_err(|error| {
                    Failure::new(Exit::Storage, "cannot open the control socket").because(&error)
                })?)
            }
        };
        if let (Some(group), Some(control)) = (&config.files_group, &control) {
            control.let_group_use(group).map_err(|error| not_shared(group, &error))?;
        }
        let registry = load_registry(context)?;
        let flows = shared_flows(registry);
        Ok(Some(LockedHome { config, home, flows, control, lock, progress }))
    }

    /// A home that this process has still locked, with the settings as they are now.
    pub(crate) fn again(self, context: &Context) -> Result<LockedHome, Failure> {
        let config = load_config(context)?;
        let flows = shared_flows(load_registry(context)?);
        Ok(LockedHome { config, flows, ..self })
    }

    /// Opens the log, repairing it after a crash.
    pub(crate) fn open_store(&self, context: &Context) -> Result<Store, Failure> {
        let path = self.home.store();
        let fresh = fresh().map_err(|error| no_random_bytes(&error))?;
        let disk = Arc::clone(&context.machine.disk);
        let options = store_options(context, &self.config, &path)?;
        let store = Store::open(disk, &path, options, fresh, &mut |part| {
            self.progress.report("repairing the log", part);
        });
        store.map_err(|error| log_failed(&error))
    }

    /// How far the replay of the log is.
    pub(crate) fn replayed(&self, part: f64) {
        self.progress.report("replaying the log", part);
    }

    /// Brings acks, quarantine records and snapshots up to the end of the log.
    pub(crate) fn repair(&self, context: &Context, log: &Reader) -> Result<Projector, Failure> {
        let (disk, home) = (&context.machine.disk, &self.home);
        refuse_other_log(context, home, log)?;
        self.progress.report("repairing the acks", 1.0);
        #[cfg(feature = "cluster")]
        if self.config.cluster.is_some() {
            archive_moved(&site_of(context, home, &self.config, log)).map_err(|error| {
                let what = "cannot write the acks that were moved to run/archive";
                Failure::new(Exit::Storage, what).because(error.as_ref())
            })?;
        }
        let projections = Projections::open(disk, home, log);
        let (projections, repairs) = projections.map_err(|error| projector_failed(&error))?;
        let snapshots = SnapshotFiles::of_home(disk, home, log);
        let snapshots = snapshots.map_err(|error| {
            let what = "cannot bring run/snapshots up to date";
            Failure::new(Exit::Storage, what).because(error.as_ref())
        })?;
        for (name, repair) in ["ack.jsonl", "quarantine.jsonl"].iter().zip(repairs) {
            if repair.cut > 0 {
                let bytes = repair.cut;
                tracing::warn!(file = name, bytes, "cut bytes that the log does not hold");
            }
        }
        Projector::start(projections, snapshots).map_err(|error| projector_failed(&error))
    }

    /// The service is up: questions are answered from now on.
    #[cfg(feature = "cluster")]
    pub(crate) fn is_up(&self) {
        self.progress.done();
    }
}

impl HeldHome {
    /// Takes a home, making it when it is missing, and recovers it. `None` when another process holds it.
    pub fn take(context: &Context, answers: bool) -> Result<Option<HeldHome>, Failure> {
        let Some(locked) = LockedHome::take(context, answers)? else { return Ok(None) };
        let bar = context.ui.progress("recovering", 100);
        let store = locked.open_store(context)?;
        let options = EngineOptions::of(&locked.config);
        let now = context.machine.clock.now();
        let is_shared = locked.config.cluster.is_some();
        let agreement = agreement_of_commands(is_shared);
        let part = if is_shared { Part::Follows } else { Part::Writes };
        let engine = Engine::open_agreed(store, agreement, options, now, &mut |part| {
            locked.replayed(part);
            bar.set_position((part * 100.0) as u64);
        });
        let engine = engine.map_err(|error| engine_failed(&error))?;
        let held = HeldHome::with(context, locked, engine, part);
        bar.finish_and_clear();
        held.map(Some)
    }

    /// Brings a home up to the end of its log.
    pub(crate) fn with(
        context: &Context,
        locked: LockedHome,
        engine: Engine,
        part: Part,
    ) -> Result<HeldHome, Failure> {
        let projector = locked.repair(context, engine.log())?;
        let LockedHome { config, home, flows, control, lock, progress } = locked;
        let index = index_of_home(&context.machine.disk, &home.upstream_index());
        let runs = None;
        let mut held = HeldHome {
            config,
            home,
            index,
            flows,
            engine,
            projector,
            control,
            part,
            is_checked: false,
            runs,
            progress,
            lock,
        };
        // A crash may have cut an earlier `forget` short, or another host forgot something.
        let finished = match part {
            Part::Writes => held.finish_forgetting(context),
            Part::Follows => held.forget_as_told(context),
        };
        let mended = finished.is_ok().then(|| held.mend_forgotten(context)).transpose();
        if let Err(failure) = mended {
            let why = failure.in_short();
            let told = format!("run/forgotten.jsonl may be damaged and was not made again: {why}");
            context.ui.complain(format!("{} {told}", ui::yellow("warning:")));
        }
        if let Err(failure) = finished {
            // What mends the home must not fail for the same reason. The next command tries again.
            let why = failure.in_short();
            let told = format!(
                "an earlier `forget` is not finished, and texts may still be in the home: {why}"
            );
            context.ui.complain(format!("{} {told}", ui::yellow("warning:")));
        }
        Ok(held)
    }

    /// Carries out what an earlier `forget` left. The log of now may be an older one that does not know of it.
    fn finish_forgetting(&mut self, context: &Context) -> Result<(), Failure> {
        let left = forget::unfinished(&mut self.engine).map_err(|error| not_forgotten(&error))?;
        let marked = forget_mark::read(&*context.machine.disk, &self.home.forgetting());
        let wanted = match (left, marked.map_err(|error| unmarked(&error))?) {
            (None, None) => return Ok(()),
            (Some(wanted), None) => wanted,
            (left, Some(Marked { wanted: marked, .. })) => {
                let found = forget::look(self.engine.log(), &marked, &mut |_| {});
                let found = found.map_err(|error| not_forgotten(&error.into()))?;
                // The mark is set before the fact, so most often both name the same.
                match left.filter(|left| found.is_empty() && left.names_all_of(&marked)) {
                    Some(left) => left,
                    None => self.make_unreadable(context, &marked, &found)?,
                }
            }
        };
        self.refuse_damage(context)?;
        self.end_waiting(context, &wanted)?;
        self.make_anew(context, &wanted).map(drop)
    }

    /// A request that waits ends now, and not when its turn comes: its line is gone, or it names what is gone.
    fn end_waiting(&mut self, context: &Context, wanted: &Wanted) -> Result<(), Failure> {
        let now = context.machine.clock.now();
        loop {
            let ended = forget::end_waiting(&mut self.engine, wanted, now);
            let ended = ended.map_err(|error| engine_failed(&error))?;
            self.commit(now)?;
            if !ended {
                return Ok(());
            }
        }
    }

    /// Refuses a log in which damage is found, before anything is built on it. It is looked for once.
    pub(crate) fn refuse_damage(&mut self, context: &Context) -> Result<(), Failure> {
        if !self.is_checked {
            refuse_damaged_log(context, self.engine.log())?;
            self.is_checked = true;
        }
        Ok(())
    }

    /// Carries out what the host that leads made a fact. It also builds the digests, for all hosts.
    fn forget_as_told(&mut self, context: &Context) -> Result<(), Failure> {
        let marked = forget_mark::read(&*context.machine.disk, &self.home.forgetting());
        let marked = marked.map_err(|error| unmarked(&error))?;
        // Without a mark the keys may be older than the log.
        let again = || forget::can_be_read_again(self.engine.log());
        if marked.is_none() && !again().map_err(|error| not_forgotten(&error))? {
            return Ok(());
        }
        let all = forget::destroy(&mut self.engine, Seq(1), true);
        let all = all.map_err(|error| not_forgotten(&error))?;
        // Texts that were forgotten long before may be here again by now.
        let wanted = marked.map_or(all, |marked| marked.wanted);
        self.make_anew(context, &wanted).map(drop)
    }

    /// Makes a forgetting a fact and its bodies unreadable. Returns what is to be made anew.
    pub(crate) fn make_unreadable(
        &mut self,
        context: &Context,
        wanted: &Wanted,
        found: &Traces,
    ) -> Result<Wanted, Failure> {
        let mut marked = Marked { wanted: wanted.clone(), is_of_log: false };
        marked.wanted.summaries.extend(found.summaries.keys().cloned());
        let set = forget_mark::set(&*context.machine.disk, &self.home.forgetting(), &marked);
        set.map_err(|error| unmarked(&error))?;
        let now = context.machine.clock.now();
        let all = forget::forget(&mut self.engine, wanted, found, now);
        let all = all.map_err(|error| not_forgotten(&error))?;
        // It may hold a run that is gone.
        self.runs = None;
        self.end_waiting(context, &all)?;
        Ok(all)
    }

    /// Where its projections write.
    pub fn site(&self, context: &Context) -> Site {
        let site = site_of(context, &self.home, &self.config, self.engine.log());
        Site { index: Some(Arc::clone(&self.index)), ..site }
    }

    /// The service is up: questions go to the sequencer from now on.
    pub(crate) fn is_up(&self) {
        self.progress.done();
    }

    /// Answers one question in process and makes its effects durable.
    pub fn ask(&mut self, context: &Context, question: Question) -> Result<Answer, Failure> {
        let question = match question {
            Question::Run(question) => return Ok(self.ask_runs(context, question)),
            Question::Digest { order } => return self.ask_digests(context, order),
            question => question,
        };
        if question.builds_on_log() {
            self.refuse_damage(context)?;
        }
        let asks_status = question == Question::Status;
        let disk = &context.machine.disk;
        let now = context.machine.clock.now();
        let queue = disk.stat(&self.home.queue).ok().flatten();
        let around = QuestionContext {
            now,
            machine: &context.machine,
            home: &self.home,
            config: &self.config,
            index: &self.index,
            flows: &self.flows,
            processes: processes_for(&question, &self.config)?,
            queue_bytes: queue.map_or(0, |stat| stat.len),
            free_bytes: disk.free_bytes(&self.home.root).ok(),
            waiting_calls: WaitingCalls::new(),
        };
        let reply = answer(&mut self.engine, &around, question).map_err(|e| engine_failed(&e))?;
        self.commit(now)?;
        let mut answer = match reply {
            Reply::Now(answer) => answer,
            Reply::Later(work) => work(),
        };
        if asks_status && let Answer::Ok(status) = &mut answer {
            let run_logs = self.home.root.join(&self.config.run_logs);
            let changed = changed_files(&*context.machine.disk, &run_logs, self.engine.log());
            status["compaction"]["set_aside"] = serde_json::json!(changed);
            status["digests"] = self.digest_overview(context)?;
        }
        Ok(answer)
    }

    fn ask_runs(&mut self, context: &Context, question: RunQuestion) -> Answer {
        let writer = self.runs.take();
        let thresholds = runs::thresholds(&self.config);
        let mut writer =
            writer.unwrap_or_else(|| AgentRunWriter::new(self.engine.log(), thresholds));
        let store = SnapshotStore::new(Arc::clone(&context.machine.disk), self.home.snapshots());
        let mut committer = InProcess { held: self, context };
        let (answer, _) = runs::answer(&mut writer, &mut committer, &store, question);
        self.runs = Some(writer);
        answer.into()
    }

    /// Ends a digest build that a crash cut short, as the next build would.
    pub(crate) fn finish_digests(&mut self, context: &Context) -> Result<(), Failure> {
        let setup = digest_setup(context, &self.home, &self.config, self.engine.log());
        if !self.engine.state().is_building_digests() && !has_staged_bags(&setup) {
            return Ok(());
        }
        let (log, mut digester) = (setup.log.clone(), Digester::new(setup));
        let committer = InProcess { held: self, context };
        let mut journal = NoteJournal::new(committer, &log, &context.machine);
        digester.recover(&mut journal).map_err(|error| digests_failed(&error))
    }

    fn ask_digests(&mut self, context: &Context, order: DigestOrder) -> Result<Answer, Failure> {
        let failed = |error: SummariesError| super::causes::not_published(&error);
        let disk = &context.machine.disk;
        let setup = digest_setup(context, &self.home, &self.config, self.engine.log());
        let log = setup.log.clone();
        let bar = Arc::new(context.ui.progress("digests", 1));
        let shown = Arc::clone(&bar);
        let mut digester = Digester::new(setup)
            .watched(Arc::new(move |what, done, of| show(&shown, what, done, of)))
            .stopped_by(context.stop.flag());
        if matches!(order, DigestOrder::Collect { dry_run: false, .. }) {
            digester.free_staging().map_err(|error| digests_failed(&error))?;
        }
        let mut summaries = None;
        if matches!(order, DigestOrder::Build { .. } | DigestOrder::Collect { .. }) {
            self.refuse_damage(context)?;
        }
        if matches!(order, DigestOrder::Build { .. }) {
            let remember = self.home.publisher_index();
            let opened = Summaries::open(disk, &self.home.buses, &log, Some(&remember));
            // Bags name the manifests of their summaries, so those come first.
            let opened = opened.map_err(failed)?.keeping_room(&self.config);
            let opened = summaries.insert(opened);
            opened.publish(None).map_err(failed)?;
        }
        let committer = InProcess { held: self, context };
        let mut journal = NoteJournal::new(committer, &log, &context.machine);
        digester.recover(&mut journal).map_err(|error| digests_failed(&error))?;
        let answer = digester.answer(order, &mut journal);
        if let Some(mut summaries) = summaries {
            // The row of a build stands among those of all runs.
            summaries.publish(None).map_err(failed)?;
            summaries.close().map_err(failed)?;
        }
        bar.finish_and_clear();
        Ok(answer.into())
    }

    /// The overview of the digests of the home, for `status`.
    pub(crate) fn digest_overview(&self, context: &Context) -> Result<Value, Failure> {
        let setup = digest_setup(context, &self.home, &self.config, self.engine.log());
        Digester::new(setup).overview().map_err(|error| digests_failed(&error))
    }

    /// The bags whose files are not what the log says.
    pub(crate) fn damaged_bags(&self, context: &Context) -> Result<Vec<String>, Failure> {
        let setup = digest_setup(context, &self.home, &self.config, self.engine.log());
        Digester::new(setup).damaged().map_err(|error| digests_failed(&error))
    }

    /// The indexes of digests that are missing or not what the log says.
    pub(crate) fn damaged_indexes(&self, context: &Context) -> Result<Vec<String>, Failure> {
        let setup = digest_setup(context, &self.home, &self.config, self.engine.log());
        Digester::new(setup).damaged_indexes().map_err(|error| digests_failed(&error))
    }

    /// Commits what a command put into the batch.
    pub fn commit(&mut self, now: Timestamp) -> Result<(), Failure> {
        while self.engine.state().has_unsettled() {
            self.engine.settle(now).map_err(|error| engine_failed(&error))?;
        }
        let committed = self
            .engine
            .commit(None, CheckpointWhen::Due, &self.projector.cursors(), now)
            .map_err(|error| engine_failed(&error))?;
        self.projector
            .take(&committed)
            .map_err(|error| Failure::new(Exit::Storage, "cannot write the acks").because(&error))
    }

    /// Brings the tables up to the end of the log.
    pub fn checkpoint(&mut self, now: Timestamp) -> Result<(), Failure> {
        let cursors = self.projector.cursors();
        let committed = self.engine.commit(None, CheckpointWhen::Changed, &cursors, now);
        let committed = committed.map_err(|error| engine_failed(&error))?;
        self.projector
            .take(&committed)
            .map_err(|error| Failure::new(Exit::Storage, "cannot write the acks").because(&error))
    }

    /// Where imports of this home write.
    pub(crate) fn import_target<'a>(&'a self, context: &'a Context) -> Target<'a> {
        Target {
            disk: &*context.machine.disk,
            root: &self.home.buses,
            zone: self.config.timezone,
            now: context.machine.clock.now(),
        }
    }

    /// Takes the texts of forgotten sources out of the home, and makes everything anew that is shown of the log.
    /// Caches and old logs go first: they may hold words. Returns how many records of texts went.
    pub(crate) fn make_anew(&mut self, context: &Context, wanted: &Wanted) -> Result<u64, Failure> {
        let disk = Arc::clone(&context.machine.disk);
        // The fact names every record. A file of the same name may have come since.
        let back = TakenBack { ids: wanted.sources.clone(), ..TakenBack::default() };
        let alone = importing(context, &self.home)?;
        let records = take_back(self.import_target(context), &back);
        let records = records.map_err(|error| not_taken_back(&error))?;
        // Of a text that was pasted into the page the home has the only copy.
        pasted::remove(&*disk, &self.home, &wanted.files).map_err(|error| {
            let what = "cannot remove what was pasted into the page from the folder texts";
            Failure::new(Exit::Storage, what).because(&error)
        })?;
        drop(alone);
        if !wanted.summaries.is_empty() {
            let copies = self.copies_of(context, &|id| wanted.summaries.contains(id))?;
            written_copies::remove(&*disk, &self.home, &copies.folders).map_err(|error| {
                let what = "cannot remove exports and runs that hold what was forgotten";
                Failure::new(Exit::Storage, what).because(&error)
            })?;
        }
        self.remove_remembered(&*disk).map_err(|error| {
            let what = "cannot remove caches and old logs from the folder run";
            Failure::new(Exit::Storage, what).because(&error)
        })?;
        let site = self.site(context);
        let had_digests = disk.stat(&self.home.buses.join(INDEX_DIR));
        for exporter in exporters::all(&site) {
            exporter.repair(&site).map_err(|error| exporter_failed(&error))?;
        }
        if self.part == Part::Writes && matches!(had_digests, Ok(Some(_))) {
            let run_id = run_id(context.machine.clock.now())?;
            let order = DigestOrder::Build { run_id, selector: None, window: None, all: true };
            let built = self.ask(context, Question::Digest { order })?;
            let why = match &built {
                Answer::Ok(built) => built["failed"].as_str(),
                Answer::Refused(why) | Answer::NotFound(why) | Answer::Starting(why) => {
                    Some(&**why)
                }
            };
            if let Some(why) = why {
                let what = format!("the digests were not built again: {why}");
                let hint =
                    "what was forgotten is gone; `summarizer digest build --all` builds the rest";
                return Err(Failure::new(Exit::Storage, what).hint(hint));
            }
        }
        // The trees from before are kept for the next publication, and failed builds for a look.
        let workshop = workshop(&*disk, &self.home.buses);
        workshop.and_then(|workshop| disk.remove_dir_all(&workshop)).map_err(|error| {
            let what = "cannot remove the earlier files beside the folder buses";
            Failure::new(Exit::Storage, what).because(&error)
        })?;
        self.end_forgetting(context)?;
        Ok(records)
    }

    /// Writes down beside the log what its facts say was forgotten.
    fn note_forgotten(&self, context: &Context) -> Result<(), Failure> {
        let said = tombstones::of_log(self.engine.log());
        let said = said.map_err(|error| not_forgotten(&error.into()))?;
        let added = tombstones::add(&*context.machine.disk, &self.home.forgotten(), said);
        added.map_err(|error| unnoted(&error))
    }

    /// Makes run/forgotten.jsonl again from the log where it is missing or damaged, or lacks what was forgotten last. Where a
    /// forgetting is under way, it was not written yet.
    fn mend_forgotten(&mut self, context: &Context) -> Result<(), Failure> {
        let (disk, path) = (&*context.machine.disk, self.home.forgotten());
        let found = tombstones::look(disk, &path).map_err(|error| unnoted(&error))?;
        let Some(found) = found else {
            if !self.engine.log().has_destroyed_keys() {
                return Ok(());
            }
            self.note_forgotten(context)?;
            let marked = forget_mark::read(disk, &self.home.forgetting());
            if marked.map_err(|error| unmarked(&error))?.is_none() {
                let told = "run/forgotten.jsonl was missing and was made again from the log";
                context.ui.complain(format!("{} {told}", ui::yellow("warning:")));
            }
            return Ok(());
        };
        let last = forget::last_at(self.engine.log()).map_err(|error| not_forgotten(&error))?;
        let lacks = last.filter(|at| !found.all.contains_key(at));
        let lacks =
            lacks.map(|at| format!("it lacks what was forgotten on {}", at.day_in(chrono_tz::UTC)));
        let Some(why) = found.damage.or(lacks) else { return Ok(()) };
        // A log in which something is wrong may lack facts too.
        self.refuse_damage(context)?;
        self.note_forgotten(context)?;
        let told =
            format!("run/forgotten.jsonl was damaged and was made again from the log: {why}");
        context.ui.complain(format!("{} {told}", ui::yellow("warning:")));
        Ok(())
    }

    /// What the log says was forgotten and run/forgotten.jsonl lacks, in words; it has it again after this call.
    pub(crate) fn lacks_forgotten(&self, context: &Context) -> Result<Option<String>, Failure> {
        if !self.engine.log().has_destroyed_keys() {
            return Ok(None);
        }
        let said = tombstones::of_log(self.engine.log());
        let said = said.map_err(|error| not_forgotten(&error.into()))?;
        let (disk, path) = (&*context.machine.disk, self.home.forgotten());
        let known = tombstones::look(disk, &path).map_err(|error| unnoted(&error))?;
        let known = known.map(|found| found.all).unwrap_or_default();
        let lacks = said
            .iter()
            .filter(|(at, one)| !known.get(at).is_some_and(|known| known.has_all_of(one)));
        let days: Vec<String> =
            lacks.map(|(at, _)| at.day_in(chrono_tz::UTC).to_string()).collect();
        if days.is_empty() {
            return Ok(None);
        }
        self.note_forgotten(context)?;
        Ok(Some(format!("it lacked what was forgotten on {}; it was made again", days.join(", "))))
    }

    /// From here on nothing is left to be done, so a text that comes again stays.
    fn end_forgetting(&mut self, context: &Context) -> Result<(), Failure> {
        let (disk, path) = (&*context.machine.disk, self.home.forgetting());
        // It comes before the mark goes, so that one of the two is there whatever becomes of the log.
        self.note_forgotten(context)?;
        if self.part == Part::Follows {
            // What this host began itself while it led becomes a fact when it leads again, unless it did already.
            let marked = forget_mark::read(disk, &path).map_err(|error| unmarked(&error))?;
            if let Some(Marked { wanted, is_of_log: false }) = marked {
                let left = forget::look(self.engine.log(), &wanted, &mut |_| {});
                if !left.map_err(|error| not_forgotten(&error.into()))?.is_empty() {
                    return Ok(());
                }
            }
        }
        forget_mark::clear(disk, &path).map_err(|error| unmarked(&error))?;
        match self.part {
            Part::Follows => Ok(()),
            Part::Writes => {
                let now = context.machine.clock.now();
                forget::finish(&mut self.engine, now).map_err(|error| not_forgotten(&error))
            }
        }
    }

    /// The exports, runs and other files in the home that name one of these summaries.
    pub(crate) fn copies_of(
        &self,
        context: &Context,
        is_one: &dyn Fn(&str) -> bool,
    ) -> Result<WrittenCopies, Failure> {
        self.copies_with(context, &|text| forget::mentions(text, is_one))
    }

    /// Those of which a file is such a one.
    pub(crate) fn copies_with(
        &self,
        context: &Context,
        is_such: &dyn Fn(&[u8]) -> bool,
    ) -> Result<WrittenCopies, Failure> {
        let disk = &*context.machine.disk;
        let copies = written_copies::written_copies(disk, &self.home, is_such);
        copies.map_err(|error| {
            let what = format!("cannot look for copies in {}", self.home.root.display());
            Failure::new(Exit::Storage, what).because(&error)
        })
    }

    /// Removes caches, logs that a recovery set aside, and keys that no log of the home has.
    fn remove_remembered(&mut self, disk: &dyn Disk) -> io::Result<()> {
        for cache in self.home.caches() {
            disk.remove_file(&cache)?;
        }
        let (run, own) = (self.home.run(), self.engine.store().keys_file());
        for name in disk.list(&run)? {
            let path = run.join(&name);
            if name.starts_with(OLD_LOGS) || name == RECOVERING {
                disk.remove_dir_all(&path)?;
            } else if rights::is_of_keys(&path) && path != own {
                disk.remove_file(&path)?;
            }
        }
        Ok(())
    }

    /// Its parts, for a service loop.
    pub(crate) fn into_parts(self) -> (LockedHome, Arc<dyn IndexStore>, Engine, Projector) {
        let HeldHome { config, home, index, flows, engine, projector, control, lock, .. } = self;
        let locked = LockedHome { config, home, flows, control, lock, progress: self.progress };
        (locked, index, engine, projector)
    }

    /// Leaves the home in order.
    pub fn close(self) -> Result<(), Failure> {
        let HeldHome { engine, projector, lock, control, .. } = self;
        drop(control);
        projector.finish().map_err(|error| {
            Failure::new(Exit::Storage, "cannot write the acks").because(&error)
        })?;
        engine.close().map_err(|error| engine_failed(&error))?;
        drop(lock);
        Ok(())
    }
}

fn unnoted(error: &io::Error) -> Failure {
    Failure::new(Exit::Storage, "cannot read or write run/forgotten.jsonl").because(error)
}

fn unmarked(error: &io::Error) -> Failure {
    Failure::new(Exit::Storage, "cannot read or write run/forgetting.json").because(error)
}

/// Tells readers of the files of a `forget` that is not finished.
pub(super) fn warn_of_forgetting(context: &Context) {
    let Ok(config) = load_config(context) else { return };
    let warning = ui::yellow("warning:");
    match is_forgetting(context, &Home::new(&context.home, &config)) {
        Ok(false) => {}
        Ok(true) => context.ui.complain(format!("{warning} {NOT_FORGOTTEN_YET}")),
        Err(error) => context.ui.complain(format!(
            "{warning} run/forgetting.json cannot be looked at, so a `forget` may not be finished: {error}"
        )),
    }
}

/// Whether a `forget` is not finished.
pub(super) fn is_forgetting(context: &Context, home: &Home) -> io::Result<bool> {
    Ok(context.machine.disk.stat(&home.forgetting())?.is_some())
}

/// What is told then.
pub(super) const NOT_FORGOTTEN_YET: &str = "a `forget` is not finished, and its texts may still be in the home; `summarizer drain` finishes it";

/// Two imports at the same time would write the same partition, so the second waits for the first.
pub(super) fn importing(context: &Context, home: &Home) -> Result<Arc<dyn DiskFile>, Failure> {
    let failed = |error: std::io::Error| {
        Failure::new(Exit::Storage, "cannot lock the home for an import").because(&error)
    };
    let disk = &context.machine.disk;
    disk.create_dir_all(&home.run()).map_err(failed)?;
    let file = disk.open(&home.run().join("import.lock"), Open::ReadWrite).map_err(failed)?;
    file.lock().map_err(failed)?;
    // The lock ends when the file is closed.
    Ok(file)
}

/// Makes the directories that a home may lack. A path that is no home is refused: it may be mistyped.
pub(crate) fn make_home(context: &Context, home: &Home) -> Result<(), Failure> {
    if !is_home(context)? {
        return Err(no_home(context, "make one there with `summarizer init`"));
    }
    home.create(context.machine.disk.as_ref()).map_err(|error| {
        let what = format!("cannot make the folders of the home {}", context.home.display());
        Failure::new(Exit::Storage, what).because(&error)
    })
}

/// Lets the configured group read the folders of a home and append to its queue.
pub(super) fn share(config: &Config, home: &Home) -> Result<(), Failure> {
    let Some(group) = &config.files_group else { return Ok(()) };
    let own_key = match &config.home_key {
        Some(HomeKeySource::File(path)) => Some(home.root.join(path)),
        _ => None,
    };
    let around = [Some(home.buses.as_path()), home.queue.parent()];
    let outside = around.into_iter().flatten().filter(|path| !path.starts_with(&home.root));
    for folder in std::iter::once(home.root.as_path()).chain(outside) {
        let shared = rights::let_group_in(folder, group, own_key.as_deref());
        shared.map_err(|error| not_shared(group, &error))?;
    }
    match rights::let_group_change(&home.queue, group) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(not_shared(group, &error))
        }
        _ => Ok(()),
    }
}

fn not_shared(group: &str, error: &std::io::Error) -> Failure {
    Failure::new(Exit::Config, format!("cannot let the group {group} use the home"))
        .because(error)
        .hint("files.group names a group of this machine that the owner of the home belongs to")
}

/// The failure of a command whose directory is not a home, with the nearest home by name.
pub(super) fn no_home(context: &Context, otherwise: &str) -> Failure {
    let failure =
        Failure::new(Exit::Input, format!("{} is not a summarizer home", context.home.display()));
    match home_beside(context) {
        Some(near) => failure.hint(format!("did you mean --home {near}? Or {otherwise}")),
        None => failure.hint(format!("name one with --home, or {otherwise}")),
    }
}

/// A command that needs no home still refuses a `--home` that is not there: its settings would be missing. A
/// home that the environment names may be made later.
pub(super) fn need_named_folder(context: &Context) -> Result<(), Failure> {
    let is_there = !matches!(context.machine.disk.stat(&context.home), Ok(None));
    let by_environment =
        std::env::var_os("SUMMARIZER_HOME").is_some_and(|home| context.home.as_os_str() == home);
    match is_there || by_environment || !context.home_given {
        true => Ok(()),
        false => Err(no_home(context, "leave it out: this command needs no home")),
    }
}

/// A home with a similar name in the same folder.
pub(super) fn home_beside(context: &Context) -> Option<String> {
    let typed = context.home.file_name()?.to_str()?;
    let disk = context.machine.disk.as_ref();
    let folder = context.home.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(std::path::Path::new("."));
    let names = disk.list(folder).ok()?;
    let is_one = |name: &&String| {
        let log = folder.join(name).join("run");
        matches!(disk.stat(&log), Ok(Some(stat)) if stat.is_dir)
    };
    let near = nearest(typed, names.iter().filter(is_one).map(String::as_str))?;
    Some(context.home.with_file_name(near).display().to_string())
}

/// Whether the home of the command line is one: it has a part that only homes have.
pub(crate) fn is_home(context: &Context) -> Result<bool, Failure> {
    let home = Home::new(&context.home, &load_config(context)?);
    let disk = context.machine.disk.as_ref();
    let parts = [home.run(), home.config_file(), home.buses.clone(), home.registry(), home.queue];
    let there = |path: &std::path::PathBuf| matches!(disk.stat(path), Ok(Some(_)) | Err(_));
    Ok(parts.iter().any(there))
}

/// Shows how far something is that says it in two numbers.
pub(super) fn show(bar: &ProgressBar, what: &'static str, done: u64, of: u64) {
    bar.set_message(what);
    bar.set_length(of);
    bar.set_position(done);
}

/// Commits notes right here.
struct InProcess<'a> {
    held: &'a mut HeldHome,
    context: &'a Context,
}

impl NoteCommitter for InProcess<'_> {
    fn note(&mut self, make: MakeNotes) -> Result<Seq, String> {
        let now = self.context.machine.clock.now();
        let first = self.held.engine.note_all(make, now).map_err(|error| described(&error))?;
        self.held.commit(now).map_err(|failure| failure.to_json().to_string())?;
        Ok(first)
    }
}

fn take_lock(
    context: &Context,
    home: &Home,
    patience: Duration,
) -> Result<Option<HomeLock>, Failure> {
    let deadline = Instant::now() + patience;
    loop {
        let lock = HomeLock::try_take(context.machine.disk.as_ref(), home, std::process::id());
        let lock = lock.map_err(|error| {
            let what = format!("cannot lock the home {}", context.home.display());
            Failure::new(Exit::Storage, what).because(&error)
        })?;
        // A holder with an open socket is a service and stays. Other holders end soon.
        let stays = || ControlClient::connect(&home.socket()).is_ok();
        if lock.is_some() || Instant::now() >= deadline || stays() {
            return Ok(lock);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}
