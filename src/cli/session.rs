//! How a command reaches a home: beside a running service through its socket, otherwise in
//! process. The command need not know which.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use parking_lot::RwLock;
use serde_json::{Value, json};

use super::failure::{Exit, Failure, Trouble};
use super::{Context, ui};
use crate::compaction::agent_runs::{AgentRunWriter, MakeNotes, Notary};
use crate::compaction::files::SnapshotStore;
use crate::config::{Config, ConfigError, Origin};
use crate::contract::hash::push_hex;
use crate::contract::ids::Seq;
use crate::contract::time::Timestamp;
use crate::control::answers::{Reply, Surroundings, answer};
use crate::control::question::{Answer, Question};
use crate::control::socket::{ControlClient, ControlServer, Progress};
use crate::digest::build::BuildError;
use crate::export::run_record::Environment;
use crate::home::{Home, HomeLock};
use crate::log::checkpoint::RestoreError;
use crate::log::{LogError, Options, ReadError, Reader, Store};
use crate::os::Disk;
use crate::projections::digester::{DigestOrder, DigestSetup, Digester, NotaryJournal};
use crate::projections::projector::{Projections, Projector, ProjectorError};
use crate::projections::runs::{self, RunQuestion, described};
use crate::projections::snapshot_files::SnapshotFiles;
use crate::projections::summaries::{Summaries, SummariesError};
use crate::registry::Registry;
use crate::registry::{FlowDirectory, SharedFlows};
use crate::sequencer::engine::{CheckpointWhen, Engine, EngineError, EngineOptions, RunStart};
use crate::service::ServiceError;
use crate::state::flows::Flows;
use crate::upkeep::kinship::{Kinship, kinship};
use crate::upstream::{IndexStore, index_of_home};

/// How long a command waits for a service that is starting.
const STARTING_PATIENCE: Duration = Duration::from_secs(120);

/// How long a command waits for one that only looks, and for one that stays to answer.
const BRIEF_HOLDER: Duration = Duration::from_secs(30);

/// Reads the configuration that is in force for a home.
pub fn load_config(context: &Context) -> Result<Config, Failure> {
    let named = context.config_file.clone();
    let path = named.clone().unwrap_or_else(|| context.home.join("summarizer.toml"));
    let bytes = context.machine.disk.read_if_present(&path).map_err(|error| {
        Failure::new(Exit::Config, format!("cannot read {}", path.display())).because(&error)
    })?;
    if bytes.is_none() && named.is_some() {
        let what = format!("there is no configuration file {}", path.display());
        return Err(Failure::new(Exit::Config, what));
    }
    let text = match bytes.map(String::from_utf8).transpose() {
        Ok(text) => text,
        Err(error) => {
            let what = format!("{} is not UTF-8", path.display());
            return Err(Failure::new(Exit::Config, what).because(&error));
        }
    };
    parse_config(text.as_deref()).map_err(|error| {
        let what = match &error {
            // The error names the variable; the file may not even exist.
            ConfigError::BadValue { origin: Origin::Environment(_), .. } => {
                "the configuration is invalid".to_owned()
            }
            _ => format!("the configuration {} is invalid", path.display()),
        };
        Failure::new(Exit::Config, what)
            .because(&error)
            .hint("correct it; `summarizer config --defaults` lists every key with its default")
    })
}

/// The settings of a home that says nothing.
pub fn default_config() -> Result<Config, Failure> {
    Config::load(None, &BTreeMap::new(), cores())
        .map_err(|error| Failure::new(Exit::Bug, "the defaults are invalid").because(&error))
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn parse_config(text: Option<&str>) -> Result<Config, ConfigError> {
    let environment: BTreeMap<String, String> =
        std::env::vars().filter(|(name, _)| name.starts_with("SUMMARIZER_")).collect();
    Config::load(text, &environment, cores())
}

/// The registry of a home, or the embedded one.
pub fn load_registry(context: &Context) -> Result<Registry, Failure> {
    Registry::of_home(context.machine.disk.as_ref(), &context.home).map_err(|error| {
        Failure::new(Exit::Config, "the flow registry is invalid")
            .because(&error)
            .hint("`summarizer registry check` lists everything wrong with it")
    })
}

/// The flows of a registry, replaceable by a reload.
pub fn shared_flows(registry: Registry) -> SharedFlows {
    let flows: Arc<dyn FlowDirectory> = Arc::new(registry);
    Arc::new(RwLock::new(flows))
}

/// A home that this process holds.
pub struct Held {
    /// Settings.
    pub config: Config,
    /// Where things lie.
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
    /// The home is held as long as this lives.
    pub lock: HomeLock,
    /// The runs of the home, once something was asked about them.
    runs: Option<AgentRunWriter>,
    progress: Progress,
}

impl Held {
    /// Takes a home, making it when it is missing, and recovers it. `None` when somebody holds it.
    pub fn take(context: &Context, answers: bool) -> Result<Option<Held>, Failure> {
        let config = load_config(context)?;
        let home = Home::new(&context.home, &config);
        let disk = &context.machine.disk;
        make_home(context, &home)?;
        // A command that stays waits for one that only looks; one that looks asks who stays.
        let patience = if answers { BRIEF_HOLDER } else { Duration::ZERO };
        let Some(lock) = take_lock(context, &home, patience)? else { return Ok(None) };
        refuse_lost_log(context, &home)?;
        let progress = Progress::starting();
        let control = match answers {
            false => None,
            true => {
                Some(ControlServer::start(&home.socket(), progress.clone()).map_err(|error| {
                    Failure::new(Exit::Storage, "cannot open the control socket").because(&error)
                })?)
            }
        };
        let registry = load_registry(context)?;
        let flows = shared_flows(registry);
        let (engine, projections, snapshots) = recover(context, &config, &home, &progress)?;
        let projector = Projector::start(projections, snapshots);
        let projector = projector.map_err(|error| projector_failed(&error))?;
        let runs = None;
        let index = index_of_home(disk, &home.upstream_index());
        Ok(Some(Held {
            config,
            home,
            index,
            flows,
            engine,
            projector,
            control,
            runs,
            progress,
            lock,
        }))
    }

    /// The service is up: questions go to the sequencer from now on.
    pub fn is_up(&self) {
        self.progress.done();
    }

    /// Answers one question in process and makes its effects durable.
    pub fn ask(&mut self, context: &Context, question: Question) -> Result<Answer, Failure> {
        let question = match question {
            Question::Run(question) => return Ok(self.ask_runs(context, question)),
            Question::Digest { order } => return self.ask_digests(context, order),
            question => question,
        };
        let asks_status = question == Question::Status;
        let disk = &context.machine.disk;
        let now = context.machine.clock.now();
        let queue = disk.stat(&self.home.queue).ok().flatten();
        let around = Surroundings {
            now,
            machine: &context.machine,
            home: &self.home,
            config: &self.config,
            index: &self.index,
            flows: &self.flows,
            queue_bytes: queue.map_or(0, |stat| stat.len),
            free_bytes: disk.free_bytes(&self.home.root).ok(),
        };
        let reply = answer(&mut self.engine, &around, question).map_err(|e| engine_failed(&e))?;
        self.commit(now)?;
        let mut answer = match reply {
            Reply::Now(answer) => answer,
            Reply::Later(work) => work(),
        };
        if asks_status && let Answer::Ok(status) = &mut answer {
            status["digests"] = self.digest_overview(context)?;
        }
        Ok(answer)
    }

    fn ask_runs(&mut self, context: &Context, question: RunQuestion) -> Answer {
        let book = self.runs.take();
        let thresholds = runs::thresholds(&self.config);
        let mut book = book.unwrap_or_else(|| AgentRunWriter::new(self.engine.log(), thresholds));
        let store = SnapshotStore::new(Arc::clone(&context.machine.disk), self.home.snapshots());
        let mut notary = InProcess { held: self, context };
        let (answer, _) = runs::answer(&mut book, &mut notary, &store, question);
        self.runs = Some(book);
        answer.into()
    }

    fn ask_digests(&mut self, context: &Context, order: DigestOrder) -> Result<Answer, Failure> {
        let failed = |error: SummariesError| super::serve::not_published(&error);
        let disk = &context.machine.disk;
        let setup = digest_setup(context, &self.home, &self.config, self.engine.log());
        let log = setup.log.clone();
        let bar = Arc::new(context.ui.progress("digests", 1));
        let shown = Arc::clone(&bar);
        let mut digester = Digester::new(setup)
            .watched(Arc::new(move |what, done, of| show(&shown, what, done, of)));
        let mut summaries = None;
        if matches!(order, DigestOrder::Build { .. }) {
            let remember = self.home.publisher_index();
            let opened = Summaries::open(disk, &self.home.buses, &log, Some(&remember));
            // Bags name the manifests of their summaries, so those come first.
            let opened = summaries.insert(opened.map_err(failed)?);
            opened.publish(None).map_err(failed)?;
        }
        let notary = InProcess { held: self, context };
        let mut journal = NotaryJournal::new(notary, &log, &context.machine);
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

    /// What there is to tell of the digests of the home.
    pub fn digest_overview(&self, context: &Context) -> Result<Value, Failure> {
        let setup = digest_setup(context, &self.home, &self.config, self.engine.log());
        Digester::new(setup).overview().map_err(|error| digests_failed(&error))
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

    /// Leaves the home in order.
    pub fn close(self) -> Result<(), Failure> {
        let Held { engine, projector, lock, control, .. } = self;
        drop(control);
        projector.finish().map_err(|error| {
            Failure::new(Exit::Storage, "cannot write the acks").because(&error)
        })?;
        engine.close().map_err(|error| engine_failed(&error))?;
        drop(lock);
        Ok(())
    }
}

/// Makes the directories of a home. That there was none before is said: a path may be mistyped.
pub fn make_home(context: &Context, home: &Home) -> Result<(), Failure> {
    let disk = context.machine.disk.as_ref();
    let is_new = matches!(disk.stat(&home.run()), Ok(None));
    home.create(disk).map_err(|error| {
        let what = format!("cannot make the home {}", context.home.display());
        Failure::new(Exit::Storage, what).because(&error)
    })?;
    if is_new {
        let named = std::path::absolute(&home.root).unwrap_or_else(|_| home.root.clone());
        context.ui.talk(ui::dim(&format!("there was no home yet: made {}", named.display())));
    }
    Ok(())
}

/// Shows how far something is that says it in two numbers.
pub fn show(bar: &ProgressBar, what: &'static str, done: u64, of: u64) {
    bar.set_message(what);
    bar.set_length(of);
    bar.set_position(done);
}

fn digests_failed(error: &BuildError) -> Failure {
    Failure::new(Exit::Storage, "the digests cannot be brought up to the log").because(error)
}

/// A home whose log is gone while files tell that there was one: starting over would cut the acks
/// and summarize everything again.
pub fn lost_log(disk: &dyn Disk, home: &Home) -> std::io::Result<Option<&'static str>> {
    if home.exists(disk)? {
        return Ok(None);
    }
    if disk.stat(&home.acks())?.is_some_and(|stat| stat.len > 0) {
        return Ok(Some("run/ack.jsonl tells of requests"));
    }
    let snapshots = home.snapshots();
    if disk.stat(&snapshots)?.is_some() && !disk.list(&snapshots)?.is_empty() {
        return Ok(Some("run/snapshots tells of runs"));
    }
    let manifests = home.buses.join("summaries/manifest");
    let published = disk.stat(&manifests)?.is_some() && !disk.list(&manifests)?.is_empty();
    Ok(published.then_some("summaries are published"))
}

/// Nobody starts over where a log was lost.
pub fn refuse_lost_log(context: &Context, home: &Home) -> Result<(), Failure> {
    let disk = context.machine.disk.as_ref();
    let lost = lost_log(disk, home).map_err(|error| {
        let what = format!("cannot look at {}", context.home.display());
        Failure::new(Exit::Storage, what).because(&error)
    })?;
    match lost {
        None => Ok(()),
        Some(sign) => {
            let what = format!("the log is gone: run/summarizer.redb is missing, but {sign}");
            Err(Failure::new(Exit::Storage, what)
                .hint("`summarizer recover` makes it again; nothing is summarized twice"))
        }
    }
}

/// Why a log is not the one its acks tell of, if it is not.
pub fn other_log(
    context: &Context,
    home: &Home,
    log: &Reader,
) -> Result<Option<(Kinship, String)>, Failure> {
    let disk = context.machine.disk.as_ref();
    let kinship = kinship(disk, &home.acks(), log).map_err(|error| {
        Failure::new(Exit::Storage, "cannot hold the acks against the log").because(&error)
    })?;
    let what = match kinship {
        Kinship::Theirs => return Ok(None),
        Kinship::Older(ack) => {
            let head = log.head().0;
            format!("run/ack.jsonl tells of event {ack}, and the log ends at {head}: an older copy")
        }
        Kinship::Stranger => {
            "run/ack.jsonl tells of another log, none of whose events is in this one".to_owned()
        }
    };
    Ok(Some((kinship, what)))
}

/// Going on with another log would cut the acks and do again what was done.
fn refuse_other_log(context: &Context, home: &Home, log: &Reader) -> Result<(), Failure> {
    match other_log(context, home, log)? {
        None => Ok(()),
        Some((_, what)) => {
            let what = format!("run/summarizer.redb is not the log of this home: {what}");
            Err(Failure::new(Exit::Storage, what).hint(
                "put the right file back, or let `summarizer recover` make it again from the queue, \
                 the acks and the published summaries; if it is the acks that are wrong, move \
                 run/ack.jsonl away and they are written again",
            ))
        }
    }
}

/// What the digests of a home depend on.
pub fn digest_setup(
    context: &Context,
    home: &Home,
    config: &Config,
    log: &crate::log::Reader,
) -> DigestSetup {
    DigestSetup {
        machine: context.machine.clone(),
        home: home.root.clone(),
        buses: home.buses.clone(),
        log: log.clone(),
        kept: home.digest_index(),
        config: config.clone(),
        environment: Environment {
            hostname: Some(hostname()),
            os: std::env::consts::OS.to_owned(),
            arch: std::env::consts::ARCH.to_owned(),
            config_fingerprint: config.fingerprint().hex(),
            timezone: config.timezone.name().to_owned(),
        },
    }
}

/// Commits notes right here.
struct InProcess<'a> {
    held: &'a mut Held,
    context: &'a Context,
}

impl Notary for InProcess<'_> {
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
        // Who opened the socket stays; who only looks is gone in a moment.
        let stays = || ControlClient::connect(&home.socket()).is_ok();
        if lock.is_some() || Instant::now() >= deadline || stays() {
            return Ok(lock);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn recover(
    context: &Context,
    config: &Config,
    home: &Home,
    progress: &Progress,
) -> Result<(Engine, Projections, SnapshotFiles), Failure> {
    let disk = &context.machine.disk;
    let path = home.store();
    let fresh_id = random_bytes()
        .map_err(|error| Failure::new(Exit::Storage, "cannot get random bytes").because(&error))?;
    let bar = context.ui.progress("recovering", 100);
    let report = |what: &str, part: f64| {
        progress.report(what, part);
        bar.set_position((part * 100.0) as u64);
    };
    let options = Options::beside(&path);
    let store = Store::open(Arc::clone(disk), &path, options, fresh_id, &mut |part| {
        report("repairing the log", part);
    });
    let store = store.map_err(|error| log_failed(&error))?;
    let now = context.machine.clock.now();
    let engine_options = EngineOptions::of(config);
    let engine = Engine::open(store, engine_options, now, &mut |part| {
        report("replaying the log", part);
    });
    let engine = engine.map_err(|error| engine_failed(&error))?;
    refuse_other_log(context, home, engine.log())?;
    progress.report("repairing the acks", 1.0);
    let projections = Projections::open(disk, home, engine.log());
    let (projections, repairs) = projections.map_err(|error| projector_failed(&error))?;
    let snapshots = SnapshotFiles::of_home(disk, home, engine.log());
    let snapshots = snapshots.map_err(|error| {
        Failure::new(Exit::Storage, "cannot bring run/snapshots up to date").because(&error)
    })?;
    bar.finish_and_clear();
    for (name, repair) in ["ack.jsonl", "quarantine.jsonl"].iter().zip(repairs) {
        if repair.cut > 0 {
            tracing::warn!(file = name, bytes = repair.cut, "cut bytes that the log does not hold");
        }
    }
    Ok((engine, projections, snapshots))
}

/// Reaches a home for a command that writes: a missing one is made.
pub fn open_or_make(context: &Context) -> Result<Session, Failure> {
    let config = load_config(context)?;
    reach(context, &Home::new(&context.home, &config).socket())
}

/// The packs that used flows stand for; none where nothing was ever logged.
pub fn flows_used(context: &Context) -> Result<Flows, Failure> {
    let home = Home::new(&context.home, &load_config(context)?);
    let exists = home.exists(context.machine.disk.as_ref());
    if !matches!(exists, Ok(true)) {
        return Ok(Flows::default());
    }
    let mut session = Session::open(context)?;
    let answer = session.ask(context, &Question::FlowsUsed);
    session.close()?;
    let mut flows = Flows::default();
    for one in answer?["flows"].as_array().into_iter().flatten() {
        let text = |name: &str| one[name].as_str().map(str::to_owned);
        let pack = text("pack_hash").and_then(|hash| hash.parse().ok());
        if let (Some(flow_id), Some(pack)) = (text("flow_id"), pack) {
            flows.used.insert((flow_id, text("variant")), pack);
        }
    }
    Ok(flows)
}

/// Asks whoever holds the home, or answers in process.
pub enum Session {
    /// A running service.
    Beside(ControlClient),
    /// This process.
    Within(Box<Held>),
}

impl Session {
    /// Reaches an existing home.
    pub fn open(context: &Context) -> Result<Session, Failure> {
        let config = load_config(context)?;
        let home = Home::new(&context.home, &config);
        let exists = home.exists(context.machine.disk.as_ref());
        let exists = exists.map_err(|error| {
            let what = format!("cannot look at {}", context.home.display());
            Failure::new(Exit::Storage, what).because(&error)
        })?;
        if !exists {
            refuse_lost_log(context, &home)?;
        }
        if !exists && !home.lock().exists() {
            let what = format!("{} is not a summarizer home", context.home.display());
            return Err(Failure::new(Exit::Input, what)
                .hint("name one with --home, or make one with `summarizer init`"));
        }
        reach(context, &home.socket())
    }

    /// Asks a question; refusals and unknown names become failures.
    pub fn ask(&mut self, context: &Context, question: &Question) -> Result<Value, Failure> {
        let deadline = Instant::now() + STARTING_PATIENCE;
        loop {
            let answer = match self {
                Session::Within(held) => held.ask(context, question.clone())?,
                Session::Beside(client) => client.ask(question).map_err(|error| busy(&error))?,
            };
            match answer {
                Answer::Ok(value) => return Ok(value),
                Answer::Refused(why) => return Err(Failure::new(Exit::Wrong, why)),
                Answer::NotFound(what) => {
                    let failure = Failure::new(Exit::Input, what);
                    return Err(match where_names_are(question) {
                        Some(hint) => failure.hint(hint),
                        None => failure,
                    });
                }
                Answer::Starting(how_far) if *question == Question::Status => {
                    return Ok(json!({"starting": how_far}));
                }
                Answer::Starting(how_far) if Instant::now() > deadline => {
                    let what = format!("the service is still starting: {how_far}");
                    return Err(Failure::new(Exit::Busy, what));
                }
                Answer::Starting(_) => std::thread::sleep(Duration::from_millis(200)),
            }
        }
    }

    /// Leaves in order.
    pub fn close(self) -> Result<(), Failure> {
        match self {
            Session::Within(held) => held.close(),
            Session::Beside(_) => Ok(()),
        }
    }
}

/// Takes the home, or asks whoever holds it.
fn reach(context: &Context, socket: &Path) -> Result<Session, Failure> {
    // The holder may be between taking the lock and opening the socket, or about to go.
    let deadline = Instant::now() + BRIEF_HOLDER;
    loop {
        if let Some(held) = Held::take(context, false)? {
            return Ok(Session::Within(Box::new(held)));
        }
        match ControlClient::connect(socket) {
            Ok(client) => return Ok(Session::Beside(client)),
            Err(error) if Instant::now() > deadline => return Err(busy(&error)),
            Err(_) => std::thread::sleep(Duration::from_millis(50)),
        }
    }
}

/// Another process holds the home and does not answer.
pub fn busy(error: &std::io::Error) -> Failure {
    Failure::new(Exit::Busy, "another process holds this home and does not answer")
        .because(error)
        .hint("wait for it to end; its process id is in run/summarizer.lock")
}

/// Another process holds the home.
pub fn held_by_another(context: &Context) -> Failure {
    let path = context.home.join("run/summarizer.lock");
    let pid = context.machine.disk.read(&path).unwrap_or_default();
    let pid = String::from_utf8_lossy(&pid).trim().to_owned();
    Failure::new(Exit::Busy, format!("another process holds this home (pid {pid})"))
        .hint("`summarizer status` talks to it; stop it before starting another")
}

/// A failed log, with what to do about it.
pub fn log_failed(error: &LogError) -> Failure {
    let failure = Failure::new(Exit::Storage, "the log failed").because(error);
    match error {
        LogError::Busy => Failure::new(Exit::Busy, "another process has the log open"),
        LogError::Newer { release, .. } => failure.hint(format!(
            "nothing was changed; install summarizer {release} or newer to go on with this home"
        )),
        // What lies beneath says what to do.
        _ if failure.trouble().is_some() => failure,
        _ => failure.hint("start again: recovery is the normal start"),
    }
}

/// A failed engine.
pub fn engine_failed(error: &EngineError) -> Failure {
    match error {
        EngineError::Log(error)
        | EngineError::Past(ReadError::Log(error))
        | EngineError::Restore(RestoreError::Log(error)) => log_failed(error),
        EngineError::Writer(error) => {
            Failure::new(Exit::Storage, "the log cannot be written").because(error)
        }
        error => Failure::new(Exit::Storage, "the log does not make sense")
            .because(error)
            .hint(Trouble::Damage.hint()),
    }
}

/// Failed projections.
pub fn projector_failed(error: &ProjectorError) -> Failure {
    Failure::new(Exit::Storage, "cannot bring run/ack.jsonl and run/quarantine.jsonl up to date")
        .because(error)
        .hint("see that both files are writable; they may be deleted, the log writes them again")
}

/// A failed service.
pub fn service_failed(error: &ServiceError) -> Failure {
    match error {
        ServiceError::Engine(error) => engine_failed(error),
        ServiceError::Projector(error) => projector_failed(error),
        ServiceError::Queue(error) => Failure::new(Exit::Input, "the queue cannot be read on")
            .because(error)
            .hint("`summarizer queue adopt` shows what changed and goes on"),
        error => Failure::new(Exit::Storage, "the service stopped").because(error),
    }
}

/// A fresh id for a run that begins now.
pub fn run_id(now: Timestamp) -> Result<String, Failure> {
    if let Ok(fixed) = std::env::var("SUMMARIZER_TEST_RUN_ID") {
        return Ok(fixed);
    }
    let random = random_bytes()
        .map_err(|error| Failure::new(Exit::Storage, "cannot get random bytes").because(&error))?;
    let stamp: String = now.to_string().chars().filter(|c| !matches!(c, '-' | ':')).collect();
    let stamp = stamp.split('.').next().unwrap_or_default();
    let mut suffix = String::new();
    push_hex(&mut suffix, &random[..4]);
    Ok(format!("run_{stamp}Z_{suffix}"))
}

/// How this run names itself.
pub fn run_start(context: &Context, config: &Config, command: &str) -> Result<RunStart, Failure> {
    let run_id = run_id(context.machine.clock.now())?;
    let environment = json!({
        "os": std::env::consts::OS, "arch": std::env::consts::ARCH,
        "hostname": hostname(), "timezone": config.timezone.name(),
        "pid": std::process::id(),
    });
    Ok(RunStart {
        run_id,
        command: command.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        config: config.fingerprint(),
        environment: environment.to_string(),
    })
}

fn hostname() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Sixteen random bytes from the system.
pub fn random_bytes() -> std::io::Result<[u8; 16]> {
    let mut bytes = [0; 16];
    let mut filled = 0;
    while filled < bytes.len() {
        filled +=
            rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty())?;
    }
    Ok(bytes)
}

/// Where the names are that a question could have meant.
fn where_names_are(question: &Question) -> Option<&'static str> {
    match question {
        Question::Show { .. }
        | Question::Explain { .. }
        | Question::Retry { .. }
        | Question::Cancel { .. } => Some("`summarizer requests` lists requests, newest first"),
        Question::QuarantineShow { .. } | Question::QuarantineReleased { .. } => {
            Some("`summarizer quarantine list` lists the lines that were set aside")
        }
        _ => None,
    }
}
