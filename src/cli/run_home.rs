//! The service loop of a home in this process, with all that runs beside it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;
use serde_json::Value;

use super::causes::{engine_failed, held_by_another, not_published, service_failed};
use super::failure::{Exit, Failure};
use super::flow_processes::start_processes;
use super::held_home::{HeldHome, Part};
use super::identity::{digest_setup, first_ticket, run_id, session_start, site_of};
use super::interrupt::listen;
use super::lost_log::{log_trouble, refuse_damaged_log};
use super::page::Page;
use super::registry::selectors_for_build;
use super::settings::{load_config, load_registry};
use super::watch::{FolderWatch, WatchSettings};
use super::{Context, forget, names, ui};
use crate::compaction::files::SnapshotStore;
use crate::config::Config;
use crate::control::socket::ControlServer;
use crate::control::status::troubles;
use crate::home::Home;
use crate::log::Reader;
use crate::model::ProviderError;
use crate::os::notify::Notifier;
use crate::projections::digester::DigestThread;
use crate::projections::exporters;
use crate::projections::projector::Projector;
use crate::projections::runs::{AgentRuns, Orders};
use crate::projections::summaries::{Pace, Publishing, Summaries, SummariesThread};
use crate::registry::{FlowDirectory, SharedFlows};
use crate::sequencer::engine::Engine;
use crate::sequencer::intake::OtherQueues;
use crate::service::{
    Aside, MayBeginAgain, NextSession, Reload, Reloaded, Service, ServiceError, SessionCounts,
    StopSignal, Until, Watch,
};
use crate::telemetry::{RequestSpans, Telemetry, TelemetryError};
use crate::upkeep::log_check::LogCheck;
use crate::upkeep::run_watch::RunWatch;
use crate::upstream::IndexStore;
use crate::work::batches::BatchThread;
use crate::work::flow_worker::FlowWorker;
use crate::work::lead::Lead;
use crate::work::other_workers::OtherWorkers;

/// How a session of the service ended.
pub(crate) struct SessionOutcome {
    pub counts: SessionCounts,
    /// The rejected run logs, each with the reason.
    pub set_aside: BTreeMap<String, String>,
    /// Whether a signal asked it to stop.
    pub interrupted: bool,
    /// Why open requests wait at its end, as `status` has it.
    pub waiting: Vec<Value>,
}

/// Looks for damage in the log while the service runs, and ends the service when there is some.
fn check_log(
    context: &Context,
    log: &Reader,
    path: PathBuf,
    stop: StopSignal,
) -> std::io::Result<LogCheck> {
    let found = move || {
        stop.raise();
    };
    LogCheck::start(log.clone(), Arc::clone(&context.machine.disk), path, Arc::new(found))
}

/// Takes the home and runs the service loop in this process.
pub(crate) fn run_service(
    context: &Context,
    command: &str,
    until: Until,
) -> Result<SessionOutcome, Failure> {
    let held = HeldHome::take(context, true)?;
    let mut held = held.ok_or_else(|| held_by_another(context))?;
    refuse_damaged_log(context, held.engine.log())?;
    if matches!(until, Until::Drained(_)) {
        // The digests of a service do it by themselves.
        held.finish_digests(context)?;
    }
    let aside = match until {
        Until::Stopped => Some(Aside::new(may_begin_again(context), 0)),
        Until::Drained(_) => None,
    };
    let mut page = None;
    loop {
        held.is_up();
        let (locked, index, engine, projector) = held.into_parts();
        let (config, home) = (locked.config.clone(), locked.home.clone());
        let (flows, control) = (Arc::clone(&locked.flows), locked.control.as_ref());
        if let (None, Some(control), Some(_)) = (&page, control, &aside) {
            page = Some(open_page(context, control, &config, &home, engine.log())?);
        }
        let beside = Beside { page: page.clone(), aside: aside.clone(), ..Beside::default() };
        let opened = OpenHome { config, home, index, flows, engine, projector };
        let ran = run_open(context, opened, beside, control, command, until);
        let (outcome, engine) = ran.map_err(|stopped| match stopped {
            Stopped::Failed(failure) => failure,
            Stopped::LeadsNoMore(error) => service_failed(&error),
        })?;
        let orders = aside.as_ref().filter(|_| !outcome.interrupted).map(Aside::orders);
        let Some(orders) = orders.filter(|orders| !orders.is_empty()) else {
            engine.close().map_err(|error| engine_failed(&error))?;
            drop(locked);
            return Ok(outcome);
        };
        let locked = locked.again(context)?;
        held = HeldHome::with(context, locked, engine, Part::Writes)?;
        for (ticket, order) in orders {
            let answer = forget::carry_out(context, &mut held, &order)?;
            aside.iter().for_each(|aside| aside.answer(ticket, answer.clone()));
        }
    }
}

/// Whether the service could begin again with the settings as they are.
pub(super) fn may_begin_again(context: &Context) -> MayBeginAgain {
    let context = context.clone();
    Arc::new(move || {
        let read = load_config(&context).and_then(|_| load_registry(&context));
        let read = read.and_then(|_| selectors_for_build(&context));
        read.map(|_| ()).map_err(|failure| failure.in_short())
    })
}

/// A home whose log is open, for the service loop.
pub(super) struct OpenHome {
    pub config: Config,
    pub home: Home,
    pub index: Arc<dyn IndexStore>,
    pub flows: SharedFlows,
    pub engine: Engine,
    pub projector: Projector,
}

/// What runs beside the service loop already, and what a host adds that shares its log.
#[derive(Default)]
pub(super) struct Beside {
    pub publishing: Option<SummariesThread>,
    pub page: Option<Page>,
    /// Orders for which the loop ends and begins again.
    pub aside: Option<Aside>,
    /// The queues of other hosts.
    pub others: Option<Box<dyn OtherQueues>>,
    /// The workers of other hosts.
    pub other_workers: Option<Box<dyn OtherWorkers>>,
    /// While this host leads others.
    pub lead: Option<Arc<Lead>>,
}

/// Why a service stopped that nobody asked to stop.
pub(super) enum Stopped {
    Failed(Failure),
    /// Another host leads, or the shared log is out of reach.
    LeadsNoMore(ServiceError),
}

impl From<Failure> for Stopped {
    fn from(failure: Failure) -> Stopped {
        Stopped::Failed(failure)
    }
}

/// Runs the service loop in a home that this process holds.
pub(super) fn run_open(
    context: &Context,
    opened: OpenHome,
    beside: Beside,
    control: Option<&ControlServer>,
    command: &str,
    until: Until,
) -> Result<(SessionOutcome, Engine), Stopped> {
    let OpenHome { config, home, index, flows, engine, projector } = opened;
    let watched: WatchSettings =
        Arc::new(RwLock::new(Arc::new(names::with_flow_ids(context, config.clone())?)));
    let stop = stop_on_signals(context)?;
    let (asked, trouble_stop, log_file) = (stop.clone(), stop.clone(), home.store());
    let registry = load_registry(context)?;
    let (orders, incoming) = Orders::channel();
    let store = SnapshotStore::new(Arc::clone(&context.machine.disk), home.snapshots());
    let runs = AgentRuns::new(engine.log(), &config, store, orders.clone(), projector.projected());
    let runs = Arc::new(runs);
    let (disk, run_logs) = (Arc::clone(&context.machine.disk), home.root.join(&config.run_logs));
    for mutation in FlowDirectory::mutations(&registry, engine.state().flows()) {
        tracing::warn!("{}", mutation.what());
    }
    let charged = engine.state().flows().charged.as_ref();
    let (machine, of_worker) = (&context.machine, Arc::clone(&index));
    let worker = FlowWorker::new(machine, &home, &config, registry, of_worker, charged);
    let telemetry = Telemetry::start(&config).map_err(|error| no_telemetry(&error))?;
    let worker = worker.map_err(|error| no_provider(&error))?.traced(telemetry.clone());
    let processes = start_processes(&config)?;
    let worker = Arc::new(worker.isolated(processes.clone()));
    let now = context.machine.clock.now();
    worker.recall(engine.state().dialects().into_iter().flat_map(|known| known.spoken(now)));
    let publishing = match beside.publishing {
        Some(publishing) => publishing,
        None => start_publishing(context, &home, &config, engine.log())?,
    };
    let page = beside.page;
    // Only a service builds digests while it runs. `drain --digests` builds them after the drain.
    let digests = match until {
        Until::Stopped => {
            let publishing = publishing.client();
            Some(start_digests(context, &home, &config, engine.log(), &orders, publishing)?)
        }
        Until::Drained(_) => None,
    };
    let (folder_home, ingests) = (home.clone(), config.ingests());
    let session = session_start(context, &config, command)?;
    let batches = BatchThread::start(
        Arc::clone(&worker),
        Box::new(orders.clone()),
        engine.state(),
        Arc::clone(&context.machine.clock),
        &session.run_id,
    );
    let batches = batches.map_err(|error| {
        Failure::new(Exit::Storage, "cannot start the thread for batches").because(&error)
    })?;
    let traced = telemetry.clone();
    let requests = traced.map(|telemetry| RequestSpans::new(telemetry, engine.log().clone()));
    let watch = both(page.as_ref().map(Page::observer), requests.map(watch_of));
    // Other hosts know the rules that this service started with.
    let rules = config.cluster.is_some().then(|| config.data_rules());
    let service = Service {
        machine: context.machine.clone(),
        home,
        session,
        next_session: next_session(context, &config, command),
        config,
        index,
        reload: Some(reloader(context, Arc::clone(&flows), Arc::clone(&worker), &watched, rules)),
        flows,
        worker,
        processes,
        stop,
        publishing: Some(publishing.client()),
        watch,
        page: page.map(Page::answerer),
        runs: Some(Arc::clone(&runs)),
        notes: Some(incoming),
        digests: digests.as_ref().map(|digests| digests.client.clone()),
        batches: Some(batches.lane()),
        aside: beside.aside,
        others: beside.others,
        other_workers: beside.other_workers,
        lead: beside.lead,
    };
    let folders = match until {
        Until::Stopped if ingests => Some(FolderWatch::start(context, &watched, &folder_home)),
        Until::Stopped | Until::Drained(_) => None,
    };
    let watching = RunWatch::start(disk, Some(run_logs), Arc::clone(&runs)).map_err(|error| {
        Failure::new(Exit::Storage, "cannot watch the folder of run logs").because(&error)
    })?;
    // Configuration, registry and log were read without an error.
    if command == "serve" {
        context.ui.talk(format!("serving {}", context.home.display()));
    }
    let check = check_log(context, engine.log(), log_file, trouble_stop).map_err(|error| {
        Failure::new(Exit::Storage, "cannot start the thread that checks the log").because(&error)
    })?;
    let ran = service.run(engine, projector, control, until);
    let trouble = check.finish();
    batches.finish();
    end_traces(context, telemetry);
    watching.finish();
    drop(folders);
    if let Some(digests) = digests {
        digests.finish();
    }
    // Committed summaries are published even when the service failed.
    let published = publishing.finish();
    let (report, engine) = ran.map_err(|error| match error.leads_no_more() {
        true => Stopped::LeadsNoMore(error),
        false => Stopped::Failed(service_failed(&error)),
    })?;
    published.map_err(|error| not_published(&error))?;
    if let Some(trouble) = trouble {
        return Err(log_trouble(&trouble).into());
    }
    let waiting = troubles(engine.state());
    let (set_aside, interrupted) = (runs.all_set_aside(), asked.is_raised());
    Ok((SessionOutcome { counts: report, set_aside, interrupted, waiting }, engine))
}

pub(super) fn start_publishing(
    context: &Context,
    home: &Home,
    config: &Config,
    log: &Reader,
) -> Result<SummariesThread, Failure> {
    let (disk, remember) = (&context.machine.disk, home.publisher_index());
    let summaries = Summaries::open(disk, &home.buses, log, Some(&remember));
    let summaries = summaries.map_err(|error| not_published(&error))?.keeping_room(config);
    let beside = exporters::paced(&site_of(context, home, config, log));
    let pace = Pace {
        interval: Duration::from_millis(config.export_interval_ms.max(1).unsigned_abs()),
        share: config.export_share,
        longest: Duration::from_millis(config.export_delay_ms_max.unsigned_abs()),
        written_for_each: config.export_written_max,
    };
    SummariesThread::start(summaries, beside, pace)
        .map_err(|error| Failure::new(Exit::Storage, "cannot start publishing").because(&error))
}

/// The page of the home. It listens when the configuration names an address; `open` may start it later.
pub(super) fn open_page(
    context: &Context,
    control: &ControlServer,
    config: &Config,
    home: &Home,
    log: &Reader,
) -> Result<Page, Failure> {
    let page = Page::new(context, control.asker(), config, home, log)?;
    if let Some(address) = config.status_http {
        page.start(address)?;
    }
    Ok(page)
}

/// Names the session of the next day.
fn next_session(context: &Context, config: &Config, command: &str) -> Option<NextSession> {
    let (context, config, command) = (context.clone(), config.clone(), command.to_owned());
    Some(Box::new(move || session_start(&context, &config, &command).ok()))
}

fn start_digests(
    context: &Context,
    home: &Home,
    config: &Config,
    log: &Reader,
    orders: &Orders,
    publishing: Publishing,
) -> Result<DigestThread, Failure> {
    let setup = digest_setup(context, home, config, log);
    let new_run = |now| run_id(now).unwrap_or_else(|_| format!("run_{}", now.0));
    DigestThread::start(setup, orders.clone(), publishing, Box::new(new_run), first_ticket()?)
        .map_err(|error| Failure::new(Exit::Storage, "cannot start the digests").because(&error))
}

/// Why a reload changes nothing.
const OTHER_RULES: &str = "the rules about data changed, and other hosts work by those that this service started with: \
    stop it, and start it again";

/// Reads configuration and registry again. An invalid one leaves the present one in force. So does one with
/// other rules about data than those that the hosts of the log agreed on.
fn reloader(
    context: &Context,
    flows: crate::registry::SharedFlows,
    worker: Arc<FlowWorker>,
    watched: &WatchSettings,
    rules: Option<String>,
) -> Reload {
    let (context, watched) = (context.clone(), Arc::clone(watched));
    Box::new(move |used, accept_mutations| {
        let told = |failure: Failure| failure.in_short();
        let config = load_config(&context).map_err(told)?;
        if rules.as_ref().is_some_and(|rules| *rules != config.data_rules()) {
            return Err(OTHER_RULES.to_owned());
        }
        let registry = load_registry(&context).map_err(told)?;
        selectors_for_build(&context).map_err(told)?;
        let folders = names::with_flow_ids(&context, config.clone()).map_err(told)?;
        let accepted = FlowDirectory::mutations(&registry, used);
        if let Some(first) = accepted.first().filter(|_| !accept_mutations) {
            let more = match accepted.len() {
                1 => String::new(),
                count => format!(" (and {} more)", count - 1),
            };
            return Err(format!("{}{more}", first.what()));
        }
        worker
            .reload(&context.machine, &config, registry.clone())
            .map_err(|error| told(no_provider(&error)))?;
        let fresh: Arc<dyn FlowDirectory> = Arc::new(registry);
        *flows.write() = fresh;
        *watched.write() = Arc::new(folders);
        Ok(Reloaded { config, accepted })
    })
}

/// Sends what is left, and tells what was lost: no `status` can tell it after the end of this process.
pub(super) fn end_traces(context: &Context, telemetry: Option<Arc<Telemetry>>) {
    if let Some(lost) = telemetry.and_then(|telemetry| telemetry.finish()) {
        context.ui.complain(format!("{} {lost}", ui::yellow("warning:")));
    }
}

pub(super) fn no_telemetry(error: &TelemetryError) -> Failure {
    Failure::new(Exit::Config, "traces cannot be sent")
        .because(error)
        .hint("the section [telemetry] of summarizer.toml; endpoint = \"off\" sends none")
}

fn watch_of(mut requests: RequestSpans) -> Watch {
    Box::new(move |events, engine| requests.observe(events, engine.state()))
}

/// What is called with each durable batch: both, one, or nothing at all.
fn both(first: Option<Watch>, second: Option<Watch>) -> Option<Watch> {
    match (first, second) {
        (Some(mut first), Some(mut second)) => Some(Box::new(move |events, engine| {
            first(events, engine);
            second(events, engine);
        })),
        (first, second) => first.or(second),
    }
}

pub(super) fn no_provider(error: &ProviderError) -> Failure {
    Failure::new(Exit::Config, "a model provider cannot be set up")
        .because(error)
        .hint("a provider is a section [provider.NAME] of summarizer.toml")
}

/// The first signal lets calls under way end; the manager of the system is told.
pub(super) fn stop_on_signals(context: &Context) -> Result<StopSignal, Failure> {
    let manager = Notifier::from_environment();
    let tell_manager = move || manager.iter().for_each(Notifier::stopping);
    listen(context, "what is under way ends first", tell_manager)
}
