//! `serve` and `drain`: the same loop, until stopped or until no request is left.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use clap::Args;
use parking_lot::RwLock;
use serde_json::{Value, json};

use super::acks::{AckProgress, AckTail, Ended};
use super::causes::{engine_failed, held_by_another, not_published, service_failed};
use super::failure::{Exit, Failure};
use super::held_home::HeldHome;
use super::home_access::HomeAccess;
use super::identity::{digest_setup, run_id, session_start, site_of};
use super::interrupt::{listen, stopped};
use super::lost_log::{log_trouble, refuse_damaged_log};
use super::outcome::{Made, made_lines};
use super::page::Page;
use super::prose::Prose;
use super::registry::selectors;
use super::settings::{load_config, load_registry};
use super::watch::{self, FolderWatch, WatchSettings};
use super::{Context, names, ui};
use crate::compaction::files::SnapshotStore;
use crate::config::Config;
use crate::contract::time::{Timestamp, parse_instant};
use crate::contract::vocabulary::{FailureCause, ReasonCode, Warning};
use crate::control::question::Question;
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
use crate::projections::summaries::{Pace, Summaries, SummariesThread};
use crate::registry::{FlowDirectory, SharedFlows};
use crate::sequencer::engine::Engine;
use crate::sequencer::intake::OtherQueues;
use crate::service::{
    Failure as RequestFailure, FailureKind, FailureMessage, NextSession, Reload, Reloaded, Service,
    ServiceError, SessionCounts, StopSignal, Until, Watch,
};
use crate::state::event::PassedOver;
use crate::telemetry::{RequestSpans, Telemetry, TelemetryError};
use crate::upkeep::log_check::LogCheck;
use crate::upkeep::run_watch::RunWatch;
use crate::upstream::IndexStore;
use crate::work::batches::BatchThread;
use crate::work::flow_worker::FlowWorker;
use crate::work::isolation::processes::{FlowProcesses, Isolation};

/// Summaries that a drain shows.
const SHOWN: usize = 10;
/// Requests with a summary that is older than their source, as a drain names them.
const STALE: usize = 5;

/// Run the service until it is told to stop
#[derive(Debug, Args)]
pub(crate) struct ServeArgs {}

/// Process all requests that may run now, publish the results, and exit
///
/// It exits with 1 when one of the requests failed, also when it waits for another attempt, and with --folders
/// also when a folder or a file in it cannot be taken in. A wait for a rate or a budget is not a failure. The
/// last lines say why. Run logs in the watched folder (compaction.run_logs) are
/// read up to their present end.
#[derive(Debug, Args)]
pub(crate) struct DrainArgs {
    /// Also wait for requests that may run by this time (ISO 8601)
    #[arg(long, value_name = "T")]
    wait_until: Option<String>,
    /// Exit with 1 also when a line was quarantined or a run log was rejected
    #[arg(long)]
    fail_on_error: bool,
    /// First take in new and changed files of the `[[watch]]` folders, as a service does
    #[arg(long)]
    folders: bool,
    /// Then build the digests that changed
    #[arg(long)]
    digests: bool,
}

impl ServeArgs {
    pub(crate) fn run(&self, context: &Context) -> Result<Exit, Failure> {
        super::supervise::start(context)?;
        #[cfg(feature = "cluster")]
        if let Some(cluster) = &load_config(context)?.cluster {
            super::shared_home::serve(context, cluster)?;
            context.ui.talk("stopped");
            return Ok(Exit::Done);
        }
        run_service(context, "serve", Until::Stopped)?;
        context.ui.talk("stopped");
        Ok(Exit::Done)
    }
}

impl DrainArgs {
    pub(crate) fn run(&self, context: &Context) -> Result<Exit, Failure> {
        let by = self.wait_until.as_deref().map(moment).transpose()?;
        let config = load_config(context)?;
        if config.cluster.is_some() {
            let what = "the log of this home is shared with other hosts, and only `summarizer serve` writes to it";
            return Err(Failure::new(Exit::Config, what));
        }
        let home = Home::new(&context.home, &config);
        let mut tail = AckTail::from_end(context, home.acks());
        let all_taken = !self.folders || watch::take_once(context, &config, &home)?;
        let progress = AckProgress::start(context, &home, None);
        let ran = run_service(context, "drain", Until::Drained(by));
        drop(progress);
        let SessionOutcome { counts: report, set_aside, interrupted, waiting } = ran?;
        let earlier = earlier_failures(&report, &waiting);
        show_counts(context, &report, &set_aside, &earlier);
        if !context.ui.json {
            let mut ended = Ended::default();
            tail.acks()?.into_iter().for_each(|ack| ended.take(ack));
            show_made(context, &ended);
            tell_stale(context, &ended);
            tell_failures(context, &report, &set_aside, &earlier);
        }
        if interrupted {
            return stopped_early(context);
        }
        if self.digests {
            let built = super::digest::build(context)?;
            let bags = built["published"].as_u64().unwrap_or_default();
            context.ui.talk(format!("{} published", ui::count(bags, "bag")));
        }
        let has_failed = report.count("failed") + report.count("rejected") > 0;
        // A request that waits for another attempt after a failure is work that was left.
        let still_fail =
            report.failures().iter().chain(&earlier).any(|(kind, _)| !kind.is_put_off());
        let passed_over = report.count("quarantined") > 0 || !set_aside.is_empty();
        let is_wrong =
            has_failed || still_fail || !all_taken || (self.fail_on_error && passed_over);
        Ok(if is_wrong { Exit::Wrong } else { Exit::Done })
    }
}

/// A moment from the command line.
pub fn moment(text: &str) -> Result<Timestamp, Failure> {
    parse_instant(text).map(|instant| instant.at).map_err(|error| {
        Failure::new(Exit::Usage, format!("cannot read the moment {text:?}")).because(&error)
    })
}

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

/// The summaries that were made, and the next command.
fn show_made(context: &Context, ended: &Ended) {
    let made = Made::of(context, ended);
    if made.is_empty() {
        return;
    }
    let shown = &made[..made.len().min(SHOWN)];
    made_lines(Prose::of_stdout(), shown).iter().for_each(|line| context.ui.out(line));
    if made.len() > SHOWN {
        context.ui.out(ui::dim(&format!("and {} more", made.len() - SHOWN)));
    }
    context.ui.talk(ui::dim(
        "next: `summarizer read` shows them, `summarizer digest build` collects them",
    ));
}

/// Names the requests that got an earlier summary although something became of their source since.
fn tell_stale(context: &Context, ended: &Ended) {
    let told = [
        (Warning::SourceMissing, "is gone since", "the summary stays as it is"),
        (Warning::SourceChanged, "changed since", "`summarizer submit --flow … --again` asks anew"),
        (
            Warning::SourcePrivate,
            "became private since",
            "others are not shown this summary any more",
        ),
    ];
    for (warning, what, then) in told {
        let stale = ended.acks.iter().filter(|(_, ack)| became_of_source(ack) == Some(warning));
        let stale: Vec<&str> = stale.map(|(id, _)| id.as_str()).collect();
        if stale.is_empty() {
            continue;
        }
        let (requests, shown) = (ui::count(stale.len(), "request"), stale.len().min(STALE));
        let more = if stale.len() > STALE { ", …" } else { "" };
        context.ui.talk(format!(
            "{} {requests} got an earlier summary, and the source {what} ({}{more}); {then}",
            ui::yellow("warning:"),
            stale[..shown].join(", "),
        ));
    }
}

/// What became of the source of a summary, as its ack warns.
fn became_of_source(ack: &Value) -> Option<Warning> {
    let warnings = ack["warnings"].as_array()?;
    // A source that became private changed too, and that is what counts.
    [Warning::SourceMissing, Warning::SourcePrivate, Warning::SourceChanged]
        .into_iter()
        .find(|warning| warnings.iter().any(|told| told == warning.as_str()))
}

/// What stays open after an interrupt.
pub(super) fn stopped_early(context: &Context) -> Result<Exit, Failure> {
    let mut session = HomeAccess::open(context)?;
    let status = session.ask(context, &Question::Status);
    session.close()?;
    let open = ui::told(&status?["requests"]["open"], "request");
    let done = format!("the finished summaries are published; {open} stay open");
    Err(stopped(done, "`summarizer drain` continues"))
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
    held.is_up();
    let HeldHome { config, home, index, flows, engine, projector, control, lock, .. } = held;
    let opened = OpenHome { config, home, index, flows, engine, projector };
    let ran = run_open(context, opened, Beside::default(), control.as_ref(), command, until);
    let (outcome, engine) = ran.map_err(|stopped| match stopped {
        Stopped::Failed(failure) => failure,
        Stopped::LeadsNoMore(error) => service_failed(&error),
    })?;
    drop(control);
    engine.close().map_err(|error| engine_failed(&error))?;
    drop(lock);
    Ok(outcome)
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
    /// The queues of other hosts.
    pub others: Option<Box<dyn OtherQueues>>,
    /// Set when another host leads.
    pub deposed: Option<Arc<AtomicBool>>,
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
    let worker = Arc::new(worker.isolated(start_processes(&config)?));
    let now = context.machine.clock.now();
    worker.recall(engine.state().dialects().into_iter().flat_map(|known| known.spoken(now)));
    let publishing = match beside.publishing {
        Some(publishing) => publishing,
        None => start_publishing(context, &home, &config, engine.log())?,
    };
    let page = match (beside.page, control.filter(|_| command == "serve")) {
        (None, Some(control)) => Some(open_page(context, control, &config, &home, engine.log())?),
        (page, _) => page,
    };
    // Only a service builds digests while it runs. `drain --digests` builds them after the drain.
    let digests = match until {
        Until::Stopped => Some(start_digests(context, &home, &config, engine.log(), &orders)?),
        Until::Drained(_) => None,
    };
    let folder_home = home.clone();
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
    let service = Service {
        machine: context.machine.clone(),
        home,
        session,
        next_session: next_session(context, &config, command),
        config,
        index,
        reload: Some(reloader(context, Arc::clone(&flows), Arc::clone(&worker), &watched)),
        flows,
        worker,
        stop,
        publishing: Some(publishing.client()),
        watch,
        page: page.map(Page::answerer),
        runs: Some(Arc::clone(&runs)),
        notes: Some(incoming),
        digests: digests.as_ref().map(|digests| digests.client.clone()),
        batches: Some(batches.lane()),
        others: beside.others,
        deposed: beside.deposed,
    };
    let folders = match until {
        Until::Stopped => Some(FolderWatch::start(context, &watched, &folder_home)),
        Until::Drained(_) => None,
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
    if let Some(telemetry) = telemetry {
        // No `status` can tell it after the end of this process.
        if let Some(lost) = telemetry.finish() {
            context.ui.complain(format!("{} {lost}", ui::yellow("warning:")));
        }
    }
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

/// The processes in which flows run, where the settings want them.
fn start_processes(config: &Config) -> Result<Isolation, Failure> {
    if !config.isolates_flows {
        return Ok(None);
    }
    let memory = config.worker_memory_bytes_max as u64;
    let processes = FlowProcesses::new(config.workers, memory).map_err(|error| {
        Failure::new(Exit::Storage, "cannot start the thread of worker processes").because(&error)
    })?;
    Ok(Some(Arc::new(processes)))
}

pub(super) fn start_publishing(
    context: &Context,
    home: &Home,
    config: &Config,
    log: &Reader,
) -> Result<SummariesThread, Failure> {
    let (disk, remember) = (&context.machine.disk, home.publisher_index());
    let summaries = Summaries::open(disk, &home.buses, log, Some(&remember));
    let summaries = summaries.map_err(|error| not_published(&error))?;
    let beside = exporters::paced(&site_of(context, home, config, log));
    let pace = Pace {
        interval: Duration::from_millis(config.export_interval_ms.max(1).unsigned_abs()),
        share: config.export_share,
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
) -> Result<DigestThread, Failure> {
    let setup = digest_setup(context, home, config, log);
    let new_run = |now| run_id(now).unwrap_or_else(|_| format!("run_{}", now.0));
    DigestThread::start(setup, orders.clone(), Box::new(new_run))
        .map_err(|error| Failure::new(Exit::Storage, "cannot start the digests").because(&error))
}

/// Reads configuration and registry again. An invalid one leaves the present one in force.
fn reloader(
    context: &Context,
    flows: crate::registry::SharedFlows,
    worker: Arc<FlowWorker>,
    watched: &WatchSettings,
) -> Reload {
    let (context, watched) = (context.clone(), Arc::clone(watched));
    Box::new(move |used, accept_mutations| {
        let config = load_config(&context).map_err(|failure| failure.to_json().to_string())?;
        let registry = load_registry(&context).map_err(|failure| failure.to_json().to_string())?;
        selectors(&context).map_err(|failure| failure.to_json().to_string())?;
        let folders = names::with_flow_ids(&context, config.clone())
            .map_err(|failure| failure.to_json().to_string())?;
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
            .map_err(|error| no_provider(&error).to_json().to_string())?;
        let fresh: Arc<dyn FlowDirectory> = Arc::new(registry);
        *flows.write() = fresh;
        *watched.write() = Arc::new(folders);
        Ok(Reloaded { config, accepted })
    })
}

fn no_telemetry(error: &TelemetryError) -> Failure {
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

fn no_provider(error: &ProviderError) -> Failure {
    Failure::new(Exit::Config, "a model provider cannot be set up")
        .because(error)
        .hint("a provider is a section [provider.NAME] of summarizer.toml")
}

/// The first signal lets calls under way end; the manager of the system is told.
pub(super) fn stop_on_signals(context: &Context) -> Result<StopSignal, Failure> {
    let manager = Notifier::from_environment();
    let tell_manager = move || manager.iter().for_each(Notifier::stopping);
    listen(context, "calls under way end first", tell_manager)
}

/// Failures of sessions before this one that still stand: requests that wait for their next attempt.
fn earlier_failures(
    report: &SessionCounts,
    waiting: &[Value],
) -> Vec<(FailureKind, RequestFailure)> {
    let now = report.failures();
    let backoff = waiting.iter().filter(|one| one["state"] == "backoff");
    let earlier = backoff.filter_map(|one| {
        let word = |name: &str| one[name].as_str();
        let kind = FailureKind {
            has_ended: false,
            reason: word("reason_code").and_then(ReasonCode::parse),
            cause: word("cause").and_then(FailureCause::parse),
        };
        let told = now.iter().find(|(known, _)| *known == kind);
        let told = told.map_or(0, |(_, failure)| failure.requests);
        let requests = one["requests"].as_u64().unwrap_or(0).saturating_sub(told);
        let next = word("next_attempt").and_then(|at| moment(at).ok());
        let message =
            "it happened in an earlier session; `summarizer requests` shows more".to_owned();
        let told = vec![FailureMessage { message, requests, ..FailureMessage::default() }];
        let failure = RequestFailure { requests, told, untold: 0, next };
        (requests > 0).then_some((kind, failure))
    });
    earlier.collect()
}

fn show_counts(
    context: &Context,
    report: &SessionCounts,
    set_aside: &BTreeMap<String, String>,
    earlier: &[(FailureKind, RequestFailure)],
) {
    if context.ui.json {
        context.ui.json(&json!({
            "lines": report.lines, "events": report.events, "commits": report.commits,
            "outcomes": report.outcomes, "run_logs_set_aside": set_aside,
            "failing_providers": report.passed_over().map(passed_over_json).collect::<Vec<_>>(),
            "failures": report.failures().iter().chain(earlier).map(failure_json).collect::<Vec<_>>(),
        }));
        return;
    }
    let mut line = format!("{} taken in", ui::count(report.lines, "line"));
    for (outcome, count) in &report.outcomes {
        let count = match *outcome {
            "failed" | "rejected" | "quarantined" => ui::red(&count.to_string()),
            _ => count.to_string(),
        };
        line.push_str(&format!(", {count} {}", outcome.replace('_', " ")));
    }
    context.ui.out(line);
}

/// The last lines: which run logs and providers failed, and why requests have no summary.
fn tell_failures(
    context: &Context,
    report: &SessionCounts,
    set_aside: &BTreeMap<String, String>,
    earlier: &[(FailureKind, RequestFailure)],
) {
    for (calls, failure) in report.passed_over() {
        context.ui.talk(passed_over_line(*calls, failure));
    }
    for (file, why) in set_aside {
        let warning = ui::yellow("warning:");
        context.ui.talk(format!("{warning} the run log {file} is skipped: {why}"));
    }
    if report.count("quarantined") > 0 {
        context
            .ui
            .talk(ui::dim("`summarizer quarantine list` says why these lines are not requests"));
    }
    for (kind, failure) in report.failures().iter().chain(earlier) {
        failure_lines(kind, failure).iter().for_each(|line| context.ui.talk(line));
    }
}

fn passed_over_json((calls, failure): &(u64, PassedOver)) -> Value {
    json!({
        "provider": failure.provider, "model": failure.model, "cause": failure.cause,
        "message": failure.message, "answered_by": failure.answered_by, "calls": calls,
    })
}

/// A provider that failed although its requests have answers.
fn passed_over_line(calls: u64, failure: &PassedOver) -> String {
    let PassedOver { provider, cause, message, answered_by, .. } = failure;
    let what = ui::yellow(&format!("the provider {provider} failed {}", ui::count(calls, "time")));
    format!("{what}: {cause}: {message}; {answered_by} answered instead")
}

fn failure_json((kind, failure): &(FailureKind, RequestFailure)) -> Value {
    json!({
        "state": if kind.has_ended { "failed" } else { "backoff" },
        "reason_code": kind.reason, "cause": kind.cause, "requests": failure.requests,
        "request_id": failure.told.first().map(|told| &told.request_id),
        "message": failure.told.first().map(|told| &told.message),
        "messages": failure.told.iter().map(|told| json!({
            "request_id": told.request_id, "message": told.message, "requests": told.requests,
        })).collect::<Vec<_>>(),
        "next_attempt": failure.next.map(|at| at.to_string()),
    })
}

/// What still fails, why, and when it is tried again.
fn failure_lines(kind: &FailureKind, failure: &RequestFailure) -> Vec<String> {
    let requests = ui::count(failure.requests, "request");
    if kind.cause == Some(FailureCause::Batch) {
        let wait = if failure.requests == 1 { "waits" } else { "wait" };
        let what = ui::yellow(&format!("{requests} {wait} for a batch"));
        return vec![format!("{what}: `summarizer status` shows the batches")];
    }
    let what = match (kind.has_ended, kind.is_put_off()) {
        (true, _) => ui::red(&format!("{requests} failed")),
        (false, false) => ui::red(&format!("{requests} failed for now")),
        (false, true) => ui::yellow(&format!("{requests} put off")),
    };
    let reason = kind.reason.map_or("failed", |reason| reason.as_str());
    let cause = kind.cause.map(|cause| format!(" ({cause})")).unwrap_or_default();
    let next = failure.next.map(|at| format!("; the next attempt: {at}")).unwrap_or_default();
    let [only] = failure.told.as_slice() else {
        let mut lines = vec![format!("{what}: {reason}{cause}{next}")];
        lines.extend(failure.told.iter().map(|told| match told.requests {
            1 => format!("  {}: {}", told.request_id, told.message),
            more => format!("  {}: {}", ui::count(more, "request"), told.message),
        }));
        if failure.untold > 0 {
            let more = ui::count(failure.untold, "request");
            lines.push(format!("  and {more} with other words: see `summarizer requests`"));
        }
        return lines;
    };
    let of = match failure.requests {
        1 if !only.request_id.is_empty() => format!(" ({})", only.request_id),
        _ => String::new(),
    };
    vec![format!("{what}: {reason}{cause}: {}{of}{next}", only.message)]
}
