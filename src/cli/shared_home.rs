//! `serve` in a home whose log is shared with other hosts.
//!
//! The host follows first: it takes commits, publishes, answers questions that change nothing, and ships the
//! lines of its queue. When nobody leads, it runs the service loop on the same log. When it leads no more,
//! or the shared log is out of reach, the process starts itself anew: memory of an engine must not
//! outlive its lead. The home is whole, and the new process follows. It also starts anew to forget what the shared log
//! says, before anything has read its home.
//!
//! See docs/adr/0135-forgetting-on-all-hosts.md.

use std::os::unix::process::CommandExt as _;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use crossbeam_channel::{never, select};
use parking_lot::RwLock;
use serde_json::{Value, json};

use super::causes::{
    engine_failed, held_by_another, mark_failed, not_forgotten, not_published, projector_failed,
};
use super::failure::{Exit, Failure};
use super::flow_processes::{processes_for, start_processes};
use super::held_home::{HeldHome, LockedHome, Part, is_forgetting};
use super::identity::{first_ticket, no_random_bytes, random_bytes, site_of};
use super::lost_log::refuse_damaged_log;
use super::page::Page;
use super::run_home::{
    Beside, OpenHome, Stopped, end_traces, may_begin_again, no_provider, no_telemetry, open_page,
    run_open, start_publishing, stop_on_signals,
};
use super::settings::{load_config, load_registry};
use super::watch::FolderWatch;
use super::{Context, forget, names};
use crate::cluster::access::access;
use crate::cluster::claimer::Claimer;
use crate::cluster::collector::{Collecting, Collector};
use crate::cluster::following::{MemberError, Replica};
use crate::cluster::heartbeat::{HandOver, Heartbeat};
use crate::cluster::host_work::{HostWork, HostWorkSize};
use crate::cluster::leadership::Leadership;
use crate::cluster::lister::{Lister, Listing};
use crate::cluster::lookout::Lookout;
use crate::cluster::orders::{self, OrderDesk};
use crate::cluster::postgres::{Access, Cluster, PostgresLog};
use crate::cluster::shared_jobs::SharedJobs;
use crate::cluster::shared_lines::SharedLines;
use crate::cluster::shared_log::{Member, SharedLog};
use crate::cluster::shared_orders::{OrderAnswer, SharedOrders};
use crate::cluster::shipper::OwnQueue;
use crate::cluster::standby::{Connect, Standby, StandbyError, Step, Terms, Trouble};
use crate::cluster::waking::Waking;
use crate::config::{ClusterConfig, Role};
use crate::contract::hash::Digest;
use crate::contract::ids::Seq;
use crate::control::answers::{self, answer_about};
use crate::control::question::{Answer, ForgetOrder, Question, done};
use crate::control::reply::{QuestionContext, Reply};
use crate::control::socket::{Asked, Asker, ControlServer};
use crate::control::waits::WaitingCalls;
use crate::export::Committed;
use crate::facts::retention::RetentionFact;
use crate::home::Home;
use crate::log::Reader;
use crate::log::codec::Cursor;
use crate::os::jail::THIS_PROGRAM;
use crate::projections::exporters;
use crate::projections::projection::Projection;
use crate::projections::projection::Site;
use crate::projections::projector::{Projections, Projector, ProjectorError};
use crate::projections::runs::described;
use crate::projections::summaries::SummariesThread;
use crate::seam::tail::TailOptions;
use crate::sequencer::engine::{Engine, EngineError, EngineOptions};
use crate::sequencer::follower::{FollowError, Follower};
use crate::sequencer::mark::QueueMarks;
use crate::service::{Aside, Until};
use crate::state::event::Event;
use crate::telemetry::Telemetry;
use crate::upkeep::following::{FollowedHome, archive_moved};
use crate::upkeep::forget::{Wanted, can_be_read_again, last_asked};
use crate::upkeep::forget_mark::{self, Marked};
use crate::upkeep::retention::{self, RetainError};
use crate::upstream::{IndexStore, index_of_home};
use crate::work::flow_worker::FlowWorker;
use crate::work::isolation::processes::Isolation;
use crate::work::other_hosts::{hosts_json, waits_for_role, waits_since};

/// How long a host that follows waits before it looks again.
const LOOK_AGAIN: Duration = Duration::from_millis(15);
/// The same while it would be told of changes.
const LOOK_IF_NOT_TOLD: Duration = Duration::from_millis(60);

/// Most bytes of lines that are shipped as one value.
const SHIPPED_BYTES_MAX: usize = 1 << 20;
/// Most bytes of lines that are on their way to the leader; enough that it need not wait for more.
const SHIPPED_AHEAD_MAX: u64 = 32 << 20;
/// How long a leader tries to find out what became of a commit before it gives up the lead.
const PATIENCE: Duration = Duration::from_secs(5);

/// Leases of the leader that a worker keeps a job without being heard of.
const JOB_LEASES: u32 = 4;
/// How long a worker waits before it looks for jobs again.
const CLAIM_AGAIN: Duration = Duration::from_millis(5);
/// How long the work rests after an error of the database.
const WORK_AGAIN_AFTER: Duration = Duration::from_millis(500);

/// How long the files of digests wait after an error.
const DIGESTS_AGAIN_AFTER: Duration = Duration::from_secs(5);

/// How long the answer to an order waits until this host has what the order changed.
const LEVEL_WITHIN: Duration = Duration::from_secs(5);

/// What helps a home with records that the shared log does not have.
pub(super) const NOT_OF_THE_LOG: &str = "no file was changed. A home that had its log alone cannot come back: make a new one under a new name (cluster.host), \
     and join there. Otherwise compare this home with another host before you do anything else";

/// How the service of a shared home ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ended {
    /// It was asked to.
    Stopped,
    /// It ended its lead in order for another host, and has to start anew to follow.
    HandedOver,
    /// It leads no more, and has to start anew to follow.
    LeadsNoMore,
    /// The shared log told it to forget, and it has to start anew to do so.
    Forgets,
    /// It was told to read its settings again while it followed.
    Reloads,
}

/// Serves until it is told to stop.
pub(super) fn serve(context: &Context, cluster: &ClusterConfig) -> Result<(), Failure> {
    let reached = access(cluster, context.machine.disk.as_ref()).map_err(|error| {
        Failure::new(Exit::Config, "the settings of the cluster do not work").because(&error)
    })?;
    let terms = Terms {
        lease: Duration::from_millis(cluster.lease_ms.unsigned_abs()),
        patience: PATIENCE,
        may_lead: cluster.roles.contains(&Role::Lead),
        ships: cluster.roles.contains(&Role::Ingest),
        works: cluster.roles.contains(&Role::Work),
    };
    let me = member(&reached.host)?;
    let rules = load_config(context)?.data_rules();
    let reached = Access { start: Some(me.to_string()), rules, ..reached };
    let tried = forget_as_told(context)?;
    let forgotten = Arc::clone(&reached.forgotten);
    let lookout = lookout(reached.clone())?;
    let connect: Connect<PostgresLog> = Arc::new(move || PostgresLog::new(reached.clone()));
    let reads = cluster.roles.contains(&Role::Read);
    match serve_once(context, &connect, &me, terms, reads, (lookout, &forgotten, tried))? {
        Ended::Stopped => Ok(()),
        // The home is whole, and a new process would not know that it was asked to end.
        _ if context.stop.is_asked() => Ok(()),
        Ended::HandedOver | Ended::LeadsNoMore | Ended::Forgets | Ended::Reloads => {
            Err(start_anew())
        }
    }
}

/// Carries out what the shared log told this host to forget, before anything else reads its home. Returns whether
/// there was anything; what failed is told, and left to the next start.
fn forget_as_told(context: &Context) -> Result<bool, Failure> {
    let is_told = still_forgets(context, &Home::new(&context.home, &load_config(context)?))?;
    if is_told {
        let held = HeldHome::take(context, true)?.ok_or_else(|| held_by_another(context))?;
        held.close()?;
    }
    Ok(is_told)
}

fn still_forgets(context: &Context, home: &Home) -> Result<bool, Failure> {
    is_forgetting(context, home).map_err(|error| forgetting_unread(&error))
}

pub(super) fn forgetting_unread(error: &std::io::Error) -> Failure {
    Failure::new(Exit::Storage, "cannot read or write run/forgetting.json").because(error)
}

/// Looks how far all hosts are, beside the service.
fn lookout(access: Access) -> Result<Lookout, Failure> {
    let mut cluster = None;
    let look = move || {
        let found = match &mut cluster {
            Some(cluster) => Cluster::hosts(cluster),
            none => none.insert(Cluster::new(access.clone())?).hosts(),
        };
        found.inspect_err(|_| cluster = None)
    };
    Lookout::start(look).map_err(|error| {
        Failure::new(Exit::Storage, "cannot start the thread that looks at the other hosts")
            .because(&error)
    })
}

/// Becomes a new process of the same program. It returns only when that is impossible.
fn start_anew() -> Failure {
    let failed = |error: &std::io::Error| {
        Failure::new(Exit::Storage, "this host leads no more, and cannot start itself anew")
            .because(error)
            .hint("start it again; it follows then")
    };
    // An update may have replaced the file; the kernel still has the program that runs.
    let program = std::env::current_exe().ok().filter(|program| program.exists());
    let program = program.unwrap_or_else(|| THIS_PROGRAM.into());
    let mut args = std::env::args_os();
    let mut command = std::process::Command::new(program);
    if let Some(name) = args.next() {
        command.arg0(name);
    }
    failed(&command.args(args).exec())
}

/// A home that follows.
struct FollowingHome<L> {
    locked: LockedHome,
    index: Arc<dyn IndexStore>,
    copy: Copy<L>,
    /// Without the role `read` this host writes no buses while it follows.
    publishing: Option<SummariesThread>,
    /// When the work of this host goes on after an error.
    work_at: Instant,
    /// The Digest Bus, which the leader builds and every host writes.
    digests: Box<dyn Projection>,
    digests_at: Instant,
    waking: Waking,
    telemetry: Option<Arc<Telemetry>>,
    lookout: Lookout,
    /// Folders that are taken in on this host, when it ships lines.
    folders: Option<FolderWatch>,
    /// Where orders for the leader go.
    connect: Connect<L>,
    me: Member,
    /// New settings are good, and the process starts anew to work by them.
    reloads: bool,
}

/// The log of this host and what is made from it, which become those of the leader.
struct Copy<L> {
    follower: Follower,
    projector: Projector,
    page: Page,
    /// The attempts that this host carries out for the leader.
    work: Option<HostWork<L>>,
    /// The log may have digests that the files do not have.
    has_new_digests: bool,
    /// The log has a fact of forgetting that is not carried out here.
    forgets: bool,
    /// Where the projections of this home are.
    site: Site,
    /// How far retention got here, for the next checkpoint.
    floors: Vec<(&'static str, Cursor)>,
}

#[derive(Debug, thiserror::Error)]
enum CopyError {
    #[error(transparent)]
    Follow(#[from] FollowError),
    #[error(transparent)]
    Projector(#[from] ProjectorError),
    #[error("remove what is older than the retention period")]
    Retain(#[from] RetainError),
    #[error("move old acks to run/archive")]
    MoveAcks(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl<L: SharedJobs> Replica for Copy<L> {
    type Error = CopyError;

    fn head(&self) -> (Seq, Digest) {
        self.follower.head()
    }

    fn is_of_newer(error: &CopyError) -> bool {
        matches!(error, CopyError::Follow(error) if error.is_of_newer())
    }

    fn take(&mut self, shipped: &[u8]) -> Result<(), CopyError> {
        let mut cursors = self.projector.cursors();
        cursors.extend(&self.floors);
        let events = Arc::new(self.follower.take(shipped, &cursors)?);
        self.page.observe(&events);
        let is_digest = |one: &Committed| matches!(one.event, Event::Digest(_));
        self.has_new_digests |= events.iter().any(is_digest);
        self.forgets |= events.iter().any(|one| matches!(one.event, Event::Forgotten(_)));
        if let Some(work) = &mut self.work {
            work.observe(&events, self.follower.view().state());
        }
        for one in events.iter() {
            if let Event::Retention(fact) = &one.event {
                self.retain(fact)?;
            }
        }
        Ok(self.projector.take(&events)?)
    }
}

impl<L: SharedJobs> Copy<L> {
    /// What is old goes here too, once the host that leads says so.
    fn retain(&mut self, fact: &RetentionFact) -> Result<(), CopyError> {
        if let RetentionFact::AcksMoved(_) = fact {
            // Moving rewrites the file of the acks, so the projector leaves it alone meanwhile.
            let bring_back = self.projector.rest();
            archive_moved(&self.site).map_err(CopyError::MoveAcks)?;
            let Site { disk, home, log, .. } = &self.site;
            let _ = bring_back.send(Projections::open(disk, home, log)?.0);
        }
        if let Some(floor) = retention::follow(&mut self.follower, fact)? {
            self.floors.retain(|(name, _)| *name != floor.0);
            self.floors.push(floor);
        }
        Ok(())
    }
}

/// Follows and leads once, until it is told to stop or leads no more.
fn serve_once<L: SharedLog + SharedLines + SharedJobs + SharedOrders + 'static>(
    context: &Context,
    connect: &Connect<L>,
    me: &Member,
    terms: Terms,
    reads: bool,
    (lookout, forgotten, tried): (Lookout, &OnceLock<Seq>, bool),
) -> Result<Ended, Failure> {
    let mut following = open(context, connect, me, reads, lookout)?;
    if !still_forgets(context, &following.locked.home)? {
        let _ = forgotten.set(following.copy.head().0);
    }
    // What just failed would fail again.
    following.copy.forgets &= !tried;
    if terms.works {
        following.begin_work(context, connect, me, terms)?;
    }
    if terms.ships {
        following.watch_folders(context)?;
    }
    let queue = own_queue(context, &following.locked);
    let mut standby = Standby::new(Arc::clone(connect), me.clone(), terms, queue);
    let stop = stop_on_signals(context)?;
    context.ui.talk(format!("following in {}", context.home.display()));
    while !stop.is_raised() && !following.copy.forgets && !following.reloads {
        let now = context.machine.clock.now();
        let log = following.copy.follower.log().clone();
        let step = standby.step(&mut following.copy, &log, now);
        match step.map_err(|error| cannot_follow(&error))? {
            Step::Did => _ = following.work(&standby),
            Step::Nothing if following.work(&standby) => {}
            Step::Nothing => {
                following.write_digests();
                following.wait(context, &standby)?;
            }
            Step::Leads(leadership) => {
                let hand_over = hands_over(context);
                let heartbeat = Heartbeat::start(Arc::clone(connect), me.clone(), terms, hand_over);
                let heartbeat = heartbeat.map_err(|error| {
                    Failure::new(Exit::Storage, "cannot start the thread of the heartbeat")
                        .because(&error)
                })?;
                let ended = following.lead(context, connect, (me, terms), leadership, &heartbeat);
                let was_deposed = heartbeat.lead().has_ended();
                heartbeat.finish();
                match &ended {
                    Ok(Ended::Stopped | Ended::HandedOver) => release(connect, me),
                    // The database answers: it said that another host leads.
                    Ok(Ended::LeadsNoMore) if was_deposed => sign_off(connect, me),
                    _ => {}
                }
                return ended;
            }
        }
        following.answer_waiting(context, &standby)?;
    }
    standby.only_follow();
    following.finish_work(context, &mut standby)?;
    let (forgets, reloads) = (following.copy.forgets, following.reloads);
    following.close(context)?;
    sign_off(connect, me);
    Ok(match (forgets, reloads) {
        (true, _) => Ended::Forgets,
        (false, true) => Ended::Reloads,
        (false, false) => Ended::Stopped,
    })
}

/// Ends the service loop in order when another host should lead.
fn hands_over(context: &Context) -> HandOver {
    let (stop, ui) = (context.stop.clone(), context.ui);
    Box::new(move |host| {
        let ends = !stop.is_raised();
        if ends {
            ui.talk(format!("handing over to {host}: what is under way ends first"));
            stop.hand_over();
        }
        ends
    })
}

/// Says that the service ends, so that a new one under this name need not wait.
fn sign_off<L: SharedLines>(connect: &Connect<L>, me: &Member) {
    if let Err(error) = connect().and_then(|mut lines| lines.sign_off(me)) {
        tracing::debug!(%error, "the next service on this host waits a moment before it follows");
    }
}

/// Ends the lease, so that another host leads at once. Without an answer the lease ends by itself.
fn release<L: SharedLog + SharedLines>(connect: &Connect<L>, me: &Member) {
    sign_off(connect, me);
    if let Err(error) = connect().and_then(|mut list| list.release(me)) {
        tracing::warn!(%error, "the lease was not ended; another host leads when it has run out");
    }
}

fn open<L: SharedLog + 'static>(
    context: &Context,
    connect: &Connect<L>,
    me: &Member,
    reads: bool,
    lookout: Lookout,
) -> Result<FollowingHome<L>, Failure> {
    let locked = LockedHome::take(context, true)?.ok_or_else(|| held_by_another(context))?;
    let store = locked.open_store(context)?;
    let now = context.machine.clock.now();
    let follower = Follower::open(store, now, &mut |part| locked.replayed(part));
    let follower = follower.map_err(|error| match error {
        FollowError::Open(error) => engine_failed(&error),
        error => Failure::new(Exit::Storage, "cannot open the log").because(&error),
    })?;
    refuse_damaged_log(context, follower.log())?;
    let follower = follower.with(FollowedHome::new(&context.machine.disk, &locked.home));
    let forgets = must_forget_again(context, &locked.home, follower.log())?;
    let projector = locked.repair(context, follower.log())?;
    let (config, home) = (&locked.config, &locked.home);
    let publish = || start_publishing(context, home, config, follower.log());
    let publishing = reads.then(publish).transpose()?;
    let control = locked.control.as_ref().ok_or_else(|| held_by_another(context))?;
    let page = open_page(context, control, config, home, follower.log())?;
    let index = index_of_home(&context.machine.disk, &home.upstream_index());
    locked.is_up();
    let site = site_of(context, home, config, follower.log());
    let digests = exporters::digests(&site);
    // A host that was killed while it led may have left some out.
    let (work, has_new_digests, floors) = (None, true, Vec::new());
    let copy = Copy { follower, projector, page, work, has_new_digests, forgets, site, floors };
    let (work_at, digests_at) = (Instant::now(), Instant::now());
    let waking = Waking::start(Arc::clone(connect)).map_err(|error| {
        Failure::new(Exit::Storage, "cannot start the thread that waits for word").because(&error)
    })?;
    let telemetry = None;
    Ok(FollowingHome {
        locked,
        index,
        copy,
        publishing,
        work_at,
        digests,
        digests_at,
        waking,
        telemetry,
        lookout,
        folders: None,
        connect: Arc::clone(connect),
        me: me.clone(),
        reloads: false,
    })
}

/// Whether something that was forgotten can be read again here, because an older file of keys was put in the
/// place of the one that lacks them. It is noted.
fn must_forget_again(context: &Context, home: &Home, log: &Reader) -> Result<bool, Failure> {
    if !can_be_read_again(log).map_err(|error| not_forgotten(&error))? {
        return Ok(false);
    }
    let marked = Marked { wanted: Wanted::default(), is_of_log: true };
    forget_mark::set(&*context.machine.disk, &home.forgetting(), &marked)
        .map_err(|error| forgetting_unread(&error))?;
    Ok(true)
}

impl<L: SharedLog + SharedLines + SharedJobs + SharedOrders + 'static> FollowingHome<L> {
    /// Carries attempts out for the leader from here on.
    fn begin_work(
        &mut self,
        context: &Context,
        connect: &Connect<L>,
        me: &Member,
        terms: Terms,
    ) -> Result<(), Failure> {
        let Ok(jobs) = connect() else { return Ok(()) };
        let LockedHome { config, home, flows, .. } = &self.locked;
        let (registry, log) = (load_registry(context)?, self.copy.follower.log().clone());
        let charged = self.copy.follower.view().state().flows().charged.as_ref();
        let index = Arc::clone(&self.index);
        let worker = FlowWorker::new(&context.machine, home, config, registry, index, charged);
        self.telemetry = Telemetry::start(config).map_err(|error| no_telemetry(&error))?;
        let worker = worker.map_err(|error| no_provider(&error))?.traced(self.telemetry.clone());
        let worker = Arc::new(worker.isolated(start_processes(config)?));
        let (state, now) = (self.copy.follower.view().state(), context.machine.clock.now());
        worker.recall(state.dialects().into_iter().flat_map(|known| known.spoken(now)));
        let size = HostWorkSize {
            threads: config.workers,
            paid_threads: config.paid_threads(),
            timeout: Duration::from_millis(config.attempt_timeout_ms.max(1).unsigned_abs()),
            hold_every: terms.beat(),
            claim_every: CLAIM_AGAIN,
            has_batches: config.has_batches(),
        };
        let claimer = Claimer::new(jobs, me.clone(), terms.lease * JOB_LEASES);
        let work = HostWork::start(claimer, worker, Arc::clone(flows), &log, size);
        let work = work.map_err(|error| {
            Failure::new(Exit::Storage, "cannot start the threads of the workers").because(&error)
        })?;
        self.copy.work = Some(work);
        Ok(())
    }

    /// Lets attempts end that this host has begun, for the grace period at most.
    fn finish_work(&mut self, context: &Context, standby: &mut Standby<L>) -> Result<(), Failure> {
        let Some(work) = &mut self.copy.work else { return Ok(()) };
        work.wind_down();
        let grace = self.locked.config.shutdown_grace_ms.max(0).unsigned_abs();
        let until = Instant::now() + Duration::from_millis(grace);
        while Instant::now() < until && self.copy.work.as_ref().is_some_and(|work| !work.is_idle())
        {
            let (now, log) = (context.machine.clock.now(), self.copy.follower.log().clone());
            let step = standby.step(&mut self.copy, &log, now);
            step.map_err(|error| cannot_follow(&error))?;
            self.work(standby);
            self.wait(context, standby)?;
        }
        Ok(())
    }

    /// Takes in the watched folders of this host. Their requests are lines of its own queue.
    fn watch_folders(&mut self, context: &Context) -> Result<(), Failure> {
        let LockedHome { config, home, .. } = &self.locked;
        if !config.watches.is_empty() {
            let settings = Arc::new(names::with_flow_ids(context, config.clone())?);
            let settings = Arc::new(RwLock::new(settings));
            self.folders = Some(FolderWatch::start(context, &settings, home));
        }
        Ok(())
    }

    /// Writes the files of digests that came with the log.
    fn write_digests(&mut self) {
        let now = Instant::now();
        if self.publishing.is_none() || !self.copy.has_new_digests || now < self.digests_at {
            return;
        }
        let written = self.digests.advance(None).and_then(|()| self.digests.checkpoint());
        match written {
            Ok(_) => self.copy.has_new_digests = false,
            Err(error) => {
                tracing::warn!(%error, "the digests are not written yet");
                self.digests_at = now + DIGESTS_AGAIN_AFTER;
            }
        }
    }

    /// One step of the work for the leader. True when it did anything.
    fn work(&mut self, standby: &Standby<L>) -> bool {
        let now = Instant::now();
        let may_work = standby.takes_part() && now >= self.work_at;
        let Some(work) = self.copy.work.as_mut().filter(|_| may_work) else {
            return false;
        };
        let follower = &self.copy.follower;
        work.step(follower.view().state(), follower.log()).unwrap_or_else(|error| {
            tracing::debug!(%error, "work for the host that leads waits");
            self.work_at = now + WORK_AGAIN_AFTER;
            false
        })
    }

    /// Waits a moment, or until something is asked.
    fn wait(&mut self, context: &Context, standby: &Standby<L>) -> Result<(), Failure> {
        let questions = self.locked.control.as_ref().map(|control| control.questions.clone());
        let questions = questions.unwrap_or_else(never);
        let longest = match self.waking.hears() {
            true => LOOK_IF_NOT_TOLD,
            false => LOOK_AGAIN,
        };
        select! {
            recv(questions) -> asked => match asked {
                Ok(asked) => self.answer(context, asked, standby),
                Err(_) => Ok(()),
            },
            recv(self.waking.word()) -> _ => Ok(()),
            default(longest) => Ok(()),
        }
    }

    fn answer_waiting(&mut self, context: &Context, standby: &Standby<L>) -> Result<(), Failure> {
        let questions = self.locked.control.as_ref().map(|control| control.questions.clone());
        for asked in questions.iter().flat_map(|questions| questions.try_iter()) {
            self.answer(context, asked, standby)?;
        }
        Ok(())
    }

    fn answer(
        &mut self,
        context: &Context,
        Asked { question, reply }: Asked,
        standby: &Standby<L>,
    ) -> Result<(), Failure> {
        let asks_status = question == Question::Status;
        if question == Question::Page {
            let show = self.copy.page.clone().answerer();
            // A caller that went away misses its answer.
            let _ = reply.send(show());
            return Ok(());
        }
        if let Question::Reload { .. } = question {
            let _ = reply.send(self.reload(context));
            return Ok(());
        }
        if question == Question::Publish
            && let Some(publishing) = &self.publishing
        {
            publishing.client().ask();
        }
        let processes = processes_for(&question, &self.locked.config)?;
        let answer = self.answer_to(context, question, processes);
        let answer = answer.map_err(|error| engine_failed(&error))?;
        match answer {
            Reply::Now(mut answer) => {
                if let Answer::Ok(status) = &mut answer
                    && asks_status
                {
                    status["cluster"] = self.standing(standby, status);
                }
                let _ = reply.send(answer);
            }
            Reply::Later(work) => {
                let thread = std::thread::Builder::new().name("answer".to_owned());
                let answering = thread.spawn(move || drop(reply.send(work())));
                answering.map_err(|error| {
                    Failure::new(Exit::Storage, "cannot start a thread for an answer")
                        .because(&error)
                })?;
            }
        }
        Ok(())
    }

    fn answer_to(
        &self,
        context: &Context,
        question: Question,
        processes: Isolation,
    ) -> Result<Reply, EngineError> {
        let disk = &context.machine.disk;
        let LockedHome { config, home, flows, .. } = &self.locked;
        let queue = disk.stat(&home.queue).ok().flatten();
        let around = QuestionContext {
            now: context.machine.clock.now(),
            machine: &context.machine,
            home,
            config,
            index: &self.index,
            flows,
            processes,
            queue_bytes: queue.map_or(0, |stat| stat.len),
            free_bytes: disk.free_bytes(&home.root).ok(),
            waiting_calls: WaitingCalls::new(),
        };
        Ok(match answer_about(self.copy.follower.view(), &around, question)? {
            answers::Asked::Answered(reply) => reply,
            answers::Asked::Order(order) => self.forwarded(order),
        })
    }

    /// Gives an order to the leader. Its answer is told once this host has what the order changed.
    fn forwarded(&self, order: Question) -> Reply {
        let (connect, me) = (Arc::clone(&self.connect), self.me.clone());
        let log = self.copy.follower.log().clone();
        Reply::Later(Box::new(move || {
            let answer = random_bytes::<16>().map_err(|error| error.to_string()).and_then(|id| {
                let order = serde_json::to_vec(&order).map_err(|error| error.to_string())?;
                let answer = orders::ask(
                    &connect,
                    &me,
                    &format!("{:032x}", u128::from_be_bytes(id)),
                    &order,
                );
                let OrderAnswer { bytes, seq } = answer.map_err(|error| described(&error))?;
                let until = Instant::now() + LEVEL_WITHIN;
                while log.head().0 < seq && Instant::now() < until {
                    std::thread::sleep(LOOK_AGAIN);
                }
                serde_json::from_slice(&bytes).map_err(|error| error.to_string())
            });
            answer.unwrap_or_else(Answer::Refused)
        }))
    }

    /// Checks new settings. A host that follows starts anew to work by them.
    fn reload(&mut self, context: &Context) -> Answer {
        match may_begin_again(context)() {
            Err(why) => Answer::Refused(format!("the old settings stay in force: {why}")),
            Ok(()) => {
                self.reloads = true;
                done("reloaded: this host starts anew with the new settings")
            }
        }
    }

    /// How this host stands among the others, for `status`.
    fn standing(&self, standby: &Standby<L>, status: &Value) -> Value {
        let told = |trouble: Option<&Trouble>| {
            trouble.map(|Trouble { since, words }| waits_since(&since.to_string(), words))
        };
        let config = &self.locked.config;
        let unshipped = told(standby.unshipped());
        json!({
            "host": config.queue_host(), "role": "follower", "unreached": told(standby.unreached()),
            "unshipped": unshipped.or_else(|| waits_for_role(status, config.ingests())),
            "hosts": hosts_json(self.lookout.hosts().as_deref()),
        })
    }

    /// Runs the service loop on the log of this home.
    fn lead(
        self,
        context: &Context,
        connect: &Connect<L>,
        (me, terms): (&Member, Terms),
        leadership: Leadership<L>,
        heartbeat: &Heartbeat,
    ) -> Result<Ended, Failure> {
        let FollowingHome {
            locked,
            index,
            copy,
            publishing,
            waking,
            digests,
            telemetry,
            lookout,
            folders,
            ..
        } = self;
        drop((waking, digests, folders));
        let Copy { follower, projector, page, work, .. } = copy;
        if let Some(work) = work {
            work.finish();
        }
        end_traces(context, telemetry);
        let (options, now) = (EngineOptions::of(&locked.config), context.machine.clock.now());
        let (store, agreement) = (follower.into_store(), Box::new(leadership));
        let engine = Engine::open_agreed(store, agreement, options, now, &mut |_| {});
        let engine = engine.map_err(|error| engine_failed(&error))?;
        let aside = Aside::new(may_begin_again(context), first_ticket()?);
        let desk = order_desk(connect, me, &locked, engine.log())?;
        let leading = Leading { context, connect, me, terms, heartbeat, lookout, page, aside };
        let ended = leading.begin(LedHome { locked, index, engine, projector, publishing });
        desk.finish();
        ended
    }

    fn close(self, context: &Context) -> Result<(), Failure> {
        let FollowingHome { locked, mut copy, publishing, telemetry, .. } = self;
        if let Some(work) = copy.work.take() {
            work.finish();
        }
        end_traces(context, telemetry);
        copy.projector.finish().map_err(|error| projector_failed(&error))?;
        let published = publishing.map_or(Ok(()), SummariesThread::finish);
        published.map_err(|error| not_published(&error))?;
        drop(locked);
        Ok(())
    }
}

/// A host that leads, with what stays while its service loop ends for a forgetting and begins again.
struct Leading<'a, L> {
    context: &'a Context,
    connect: &'a Connect<L>,
    me: &'a Member,
    terms: Terms,
    heartbeat: &'a Heartbeat,
    lookout: Lookout,
    page: Page,
    aside: Aside,
}

/// The home of a host that leads, between two loops.
struct LedHome {
    locked: LockedHome,
    index: Arc<dyn IndexStore>,
    engine: Engine,
    projector: Projector,
    publishing: Option<SummariesThread>,
}

/// Takes orders of hosts that follow, as long as this host leads.
fn order_desk<L: SharedOrders + 'static>(
    connect: &Connect<L>,
    me: &Member,
    locked: &LockedHome,
    log: &Reader,
) -> Result<OrderDesk, Failure> {
    let asker = locked.control.as_ref().map(ControlServer::asker);
    let log = log.clone();
    let carry_out = move |order: &[u8]| {
        let answer = carried_out(asker.as_ref(), order);
        let bytes = serde_json::to_vec(&answer).unwrap_or_default();
        OrderAnswer { bytes, seq: log.head().0 }
    };
    let desk = OrderDesk::start(Arc::clone(connect), me.clone(), Box::new(carry_out));
    desk.map_err(|error| {
        Failure::new(Exit::Storage, "cannot start the thread of the orders").because(&error)
    })
}

fn carried_out(asker: Option<&Asker>, order: &[u8]) -> Answer {
    match (asker, serde_json::from_slice::<Question>(order)) {
        (Some(asker), Ok(order)) => asker.ask(order),
        (None, Ok(_)) => Answer::Refused("the host that leads takes no orders".to_owned()),
        (_, Err(error)) => {
            Answer::Refused(format!("the host that leads does not know this order: {error}"))
        }
    }
}

impl<L: SharedLog + SharedLines + SharedJobs + SharedOrders + 'static> Leading<'_, L> {
    /// What this host began to forget when it led before, or was told last, comes first.
    fn begin(&self, led: LedHome) -> Result<Ended, Failure> {
        if !still_forgets(self.context, &led.locked.home)? {
            return self.run(led);
        }
        let LedHome { locked, engine, projector, publishing, .. } = led;
        let published = publishing.map_or(Ok(()), SummariesThread::finish);
        published.map_err(|error| not_published(&error))?;
        projector.finish().map_err(|error| projector_failed(&error))?;
        match self.forget(locked, engine, Vec::new())? {
            Some(led) => self.run(led),
            None => Ok(Ended::LeadsNoMore),
        }
    }

    /// Runs the service loop until this host is stopped or leads no more.
    fn run(&self, mut led: LedHome) -> Result<Ended, Failure> {
        loop {
            if !self.keeps_keys(led.engine.log()) {
                return Ok(Ended::LeadsNoMore);
            }
            let ran = self.run_once(led)?;
            let Some((locked, engine, was_interrupted)) = ran else {
                return Ok(Ended::LeadsNoMore);
            };
            let orders = self.aside.orders();
            if was_interrupted || orders.is_empty() {
                engine.close().map_err(|error| engine_failed(&error))?;
                drop(locked);
                let hands_over = self.heartbeat.hands_over();
                return Ok(if hands_over { Ended::HandedOver } else { Ended::Stopped });
            }
            let Some(next) = self.forget(locked, engine, orders)? else {
                return Ok(Ended::LeadsNoMore);
            };
            led = next;
        }
    }

    /// Runs it until it ends in order; `None` when this host leads no more. True when it was told to stop.
    fn run_once(&self, led: LedHome) -> Result<Option<(LockedHome, Engine, bool)>, Failure> {
        let LedHome { locked, index, engine, projector, publishing } = led;
        let (Ok(lines), Ok(jobs)) = ((self.connect)(), (self.connect)()) else { return Ok(None) };
        let lister = Lister::new(jobs, self.me.clone());
        let seen = Some(self.lookout.clone());
        let listing = Listing::start(lister, self.terms.beat(), !self.terms.works, seen);
        let listing = listing.map_err(|error| {
            Failure::new(Exit::Storage, "cannot start the thread of the jobs").because(&error)
        })?;
        let log = engine.log().clone();
        let marks = QueueMarks::decode(&log.mark()).map_err(|error| mark_failed(&error))?;
        let own = locked.config.ingests().then(|| own_queue(self.context, &locked));
        let collector = Collector::new(lines, locked.config.queue_host(), marks, own);
        let (config, home) = (locked.config.clone(), locked.home.clone());
        let flows = Arc::clone(&locked.flows);
        let opened = OpenHome { config, home, index, flows, engine, projector };
        let beside = Beside {
            publishing,
            page: Some(self.page.clone()),
            aside: Some(self.aside.clone()),
            others: Some(Box::new(Collecting::new(collector, log))),
            other_workers: Some(Box::new(listing)),
            lead: Some(self.heartbeat.lead()),
        };
        let control = locked.control.as_ref();
        let ran = run_open(self.context, opened, beside, control, "serve", Until::Stopped);
        self.heartbeat.lead().rest();
        match ran {
            Ok((outcome, engine)) => Ok(Some((locked, engine, outcome.interrupted))),
            Err(Stopped::LeadsNoMore(error)) => {
                let error = described(&error);
                tracing::warn!(error, "this host leads no more; it follows from here on");
                Ok(None)
            }
            Err(Stopped::Failed(failure)) => Err(failure),
        }
    }

    /// Finishes what is left of an earlier forgetting, and carries out orders. `None` when this host leads no more;
    /// it goes on with it when it leads again.
    fn forget(
        &self,
        locked: LockedHome,
        engine: Engine,
        orders: Vec<(u64, ForgetOrder)>,
    ) -> Result<Option<LedHome>, Failure> {
        let locked = locked.again(self.context)?;
        let mut held = HeldHome::with(self.context, locked, engine, Part::Writes)?;
        for (ticket, order) in orders {
            match forget::carry_out(self.context, &mut held, &order) {
                Ok(answer) => {
                    // Who hears the answer may ask at once which hosts have not forgotten yet.
                    self.keeps_keys(held.engine.log());
                    self.aside.answer(ticket, answer);
                }
                Err(_) if !held.engine.can_write() => return Ok(None),
                Err(failure) => return Err(failure),
            }
        }
        if !held.engine.can_write() {
            return Ok(None);
        }
        held.is_up();
        let (locked, index, engine, projector) = held.into_parts();
        Ok(Some(LedHome { locked, index, engine, projector, publishing: None }))
    }

    /// Keeps the keys that are left beside the list. False when this host leads no more, or hears nothing of the list.
    fn keeps_keys(&self, log: &Reader) -> bool {
        if !log.has_destroyed_keys() {
            return true;
        }
        let kept = last_asked(log).map_err(|error| described(&error)).and_then(|forgotten| {
            let list = (self.connect)();
            let kept = list.and_then(|mut list| list.keep_keys(self.me, forgotten, &log.keys()));
            kept.map_err(|error| described(&error))
        });
        if let Err(error) = &kept {
            tracing::warn!(error, "the keys that are left are not kept beside the shared log");
        }
        kept == Ok(true)
    }
}

fn member(host: &str) -> Result<Member, Failure> {
    let random = random_bytes::<8>().map_err(|error| no_random_bytes(&error))?;
    let start = u64::from_le_bytes(std::array::from_fn(|at| random[at]));
    Ok(Member { host: host.to_owned(), start })
}

fn own_queue(context: &Context, LockedHome { config, home, .. }: &LockedHome) -> OwnQueue {
    OwnQueue {
        disk: Arc::clone(&context.machine.disk),
        path: home.queue.clone(),
        adopted: home.adopted_queue(),
        tail: TailOptions {
            max_line_bytes: config.line_bytes_max,
            partial_line_grace_ms: config.partial_line_grace_ms,
        },
        lines_max: config.commit_inputs_max,
        bytes_max: config.commit_bytes_max.min(SHIPPED_BYTES_MAX),
        ahead_max: SHIPPED_AHEAD_MAX,
    }
}

fn cannot_follow(error: &StandbyError<CopyError>) -> Failure {
    let failure =
        Failure::new(Exit::Storage, "this host cannot follow the shared log").because(error);
    match error {
        StandbyError::Member(MemberError::Differs { .. }) => failure.hint(NOT_OF_THE_LOG),
        StandbyError::Doubled(_) => {
            Failure::new(Exit::Config, "this host cannot take part in the shared log")
                .because(error)
                .hint("stop the other service, or set cluster.host to another name here")
        }
        StandbyError::NeverJoined(_) => {
            Failure::new(Exit::Config, "this host cannot follow the shared log")
                .because(error)
                .hint("mend what the database says, then run `summarizer cluster join` here")
        }
        _ => failure,
    }
}
