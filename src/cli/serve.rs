//! `serve` and `drain`: the same loop, until stopped or until no request is left.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use serde_json::json;

use super::causes::{engine_failed, held_by_another, not_published, service_failed};
use super::failure::{Exit, Failure};
use super::held::Held;
use super::identity::{digest_setup, run_id, run_start, site_of};
use super::settings::{load_config, load_registry};
use super::{Context, ui};
use crate::compaction::files::SnapshotStore;
use crate::config::Config;
use crate::contract::time::{Timestamp, parse_instant};
use crate::control::socket::ControlServer;
use crate::home::Home;
use crate::log::Reader;
use crate::model::ProviderError;
use crate::os::notify::Notifier;
use crate::projections::digester::DigestThread;
use crate::projections::exporters;
use crate::projections::runs::{AgentRuns, Orders};
use crate::projections::summaries::{Pace, Summaries, SummariesThread};
use crate::registry::FlowDirectory;
use crate::service::{
    NextSession, Reload, Reloaded, Service, SessionCounts, StopSignal, Until, Watch,
};
use crate::upkeep::run_watch::RunWatch;
use crate::web::{self, Shown, Tally};
use crate::work::flow_worker::FlowWorker;

/// Exit code after a second interrupt: the code that shells report for an interrupted process.
const INTERRUPTED: i32 = 130;

/// Run the service until it is told to stop
#[derive(Debug, Args)]
pub struct ServeArgs {}

/// Process all requests that may run now, publish the results, and exit
///
/// Run logs in the watched folder (compaction.run_logs) are read up to their present end.
#[derive(Debug, Args)]
pub struct DrainArgs {
    /// Also wait for requests that may run by this time (ISO 8601)
    #[arg(long, value_name = "T")]
    wait_until: Option<String>,
    /// Exit with 1 when a request failed, a line was quarantined or a run log was rejected
    #[arg(long)]
    fail_on_error: bool,
}

impl ServeArgs {
    pub fn run(&self, context: &Context) -> Result<Exit, Failure> {
        super::supervise::start(context)?;
        run_service(context, "serve", Until::Stopped)?;
        context.ui.talk("stopped");
        Ok(Exit::Done)
    }
}

impl DrainArgs {
    pub fn run(&self, context: &Context) -> Result<Exit, Failure> {
        let by = self.wait_until.as_deref().map(moment).transpose()?;
        let (report, set_aside) = run_service(context, "drain", Until::Drained(by))?;
        show(context, &report, &set_aside);
        let wrong = report.count("failed") + report.count("rejected") + report.count("quarantined");
        let wrong = wrong > 0 || !set_aside.is_empty();
        Ok(if self.fail_on_error && wrong { Exit::Wrong } else { Exit::Done })
    }
}

/// A moment from the command line.
pub fn moment(text: &str) -> Result<Timestamp, Failure> {
    parse_instant(text).map(|instant| instant.at).map_err(|error| {
        Failure::new(Exit::Usage, format!("cannot read the moment {text:?}")).because(&error)
    })
}

/// Takes the home and runs the service loop in this process. Returns the counts of the session, and
/// the rejected run logs with the reason for each.
pub fn run_service(
    context: &Context,
    command: &str,
    until: Until,
) -> Result<(SessionCounts, BTreeMap<String, String>), Failure> {
    let held = Held::take(context, true)?.ok_or_else(|| held_by_another(context))?;
    held.is_up();
    let Held { config, home, index, flows, engine, projector, control, lock, .. } = held;
    let stop = StopSignal::default();
    stop_on_signals(&stop)?;
    let summaries = Summaries::open(
        &context.machine.disk,
        &home.buses,
        engine.log(),
        Some(&home.publisher_index()),
    );
    let summaries = summaries.map_err(|error| not_published(&error))?;
    let beside = exporters::paced(&site_of(context, &home, &config, engine.log()));
    let pace = Pace {
        interval: Duration::from_millis(config.export_interval_ms.max(1).unsigned_abs()),
        share: config.export_share,
    };
    let registry = load_registry(context)?;
    let (orders, incoming) = Orders::channel();
    let store = SnapshotStore::new(Arc::clone(&context.machine.disk), home.snapshots());
    let desk = AgentRuns::new(engine.log(), &config, store, orders.clone(), projector.projected());
    let desk = Arc::new(desk);
    let (disk, run_logs) = (Arc::clone(&context.machine.disk), home.root.join(&config.run_logs));
    for mutation in FlowDirectory::mutations(&registry, engine.state().flows()) {
        tracing::warn!("{}", mutation.what());
    }
    let charged = engine.state().flows().charged.as_ref();
    let (machine, of_worker) = (&context.machine, Arc::clone(&index));
    let worker = FlowWorker::new(machine, &home, &config, registry, of_worker, charged);
    let worker = Arc::new(worker.map_err(|error| no_provider(&error))?);
    let publishing = SummariesThread::start(summaries, beside, pace)
        .map_err(|error| Failure::new(Exit::Storage, "cannot start publishing").because(&error))?;
    let watch = match (control.as_ref(), config.status_http) {
        (Some(control), Some(address)) if command == "serve" => {
            Some(status_page(context, address, control, &config, &home, engine.log())?)
        }
        _ => None,
    };
    // `drain` builds no digests; `serve` and `digest build` do.
    let digests = match until {
        Until::Stopped => Some(start_digests(context, &home, &config, engine.log(), &orders)?),
        Until::Drained(_) => None,
    };
    let service = Service {
        machine: context.machine.clone(),
        home,
        session: run_start(context, &config, command)?,
        next_session: next_session(context, &config, command),
        config,
        index,
        reload: Some(reloader(context, Arc::clone(&flows), Arc::clone(&worker))),
        flows,
        worker,
        stop,
        publishing: Some(publishing.client()),
        watch,
        runs: Some(Arc::clone(&desk)),
        notes: Some(incoming),
        digests: digests.as_ref().map(|digests| digests.desk.clone()),
    };
    let watching = RunWatch::start(disk, Some(run_logs), Arc::clone(&desk)).map_err(|error| {
        Failure::new(Exit::Storage, "cannot watch the folder of run logs").because(&error)
    })?;
    // Configuration, registry and log were read without an error.
    if command == "serve" {
        context.ui.talk(format!("serving {}", context.home.display()));
    }
    let ran = service.run(engine, projector, control.as_ref(), until);
    watching.finish();
    if let Some(digests) = digests {
        digests.finish();
    }
    // Committed summaries are published even when the service failed.
    let published = publishing.finish();
    let (report, engine) = ran.map_err(|error| service_failed(&error))?;
    published.map_err(|error| not_published(&error))?;
    drop(control);
    engine.close().map_err(|error| engine_failed(&error))?;
    drop(lock);
    Ok((report, desk.all_set_aside()))
}

/// Names the session of the next day.
fn next_session(context: &Context, config: &Config, command: &str) -> Option<NextSession> {
    let (context, config, command) = (context.clone(), config.clone(), command.to_owned());
    Some(Box::new(move || run_start(&context, &config, &command).ok()))
}

/// Starts the status page; returns the observer that counts events for it.
fn status_page(
    context: &Context,
    address: SocketAddr,
    control: &ControlServer,
    config: &Config,
    home: &Home,
    log: &Reader,
) -> Result<Watch, Failure> {
    let tally = Arc::new(Tally::new(config));
    let shown = Shown {
        asker: control.asker(),
        tally: Arc::clone(&tally),
        home: std::path::absolute(&home.root).unwrap_or_else(|_| home.root.clone()),
        buses: home.buses.clone(),
        snapshots: home.snapshots(),
    };
    let address = web::start(address, shown).map_err(|error| {
        Failure::new(Exit::Config, format!("cannot show the status page on {address}"))
            .because(&error)
            .hint("set status.http to another address, or to \"off\"")
    })?;
    // No event is committed before the observer starts, so no event is counted twice or missed.
    let (reading, log, until) = (Arc::clone(&tally), log.clone(), log.head().0);
    let now = context.machine.clock.now();
    let thread = std::thread::Builder::new().name("spend".to_owned());
    thread.spawn(move || reading.read_spend(&log, until, now)).map_err(|error| {
        Failure::new(Exit::Storage, "cannot start the status page").because(&error)
    })?;
    context.ui.talk(format!("status page: http://{address}/"));
    if !address.ip().is_loopback() {
        context.ui.talk(format!(
            "{} the status page has no login, and {address} can be reached from other machines",
            ui::yellow("warning:")
        ));
    }
    Ok(Box::new(move |events, _| tally.observe(events)))
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
) -> Reload {
    let context = context.clone();
    Box::new(move |used, accept_mutations| {
        let config = load_config(&context).map_err(|failure| failure.to_json().to_string())?;
        let registry = load_registry(&context).map_err(|failure| failure.to_json().to_string())?;
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
        Ok(Reloaded { config, accepted })
    })
}

fn no_provider(error: &ProviderError) -> Failure {
    Failure::new(Exit::Config, "a model provider cannot be set up")
        .because(error)
        .hint("a provider is a section [provider.NAME] of summarizer.toml")
}

fn stop_on_signals(stop: &StopSignal) -> Result<(), Failure> {
    let stop = stop.clone();
    let manager = Notifier::from_environment();
    let handler = ctrlc::set_handler(move || {
        if stop.raise() > 0 {
            std::process::exit(INTERRUPTED);
        }
        if let Some(manager) = &manager {
            manager.stopping();
        }
    });
    match handler {
        // A second service in one process shares the first one's handler: only tests do that.
        Ok(()) | Err(ctrlc::Error::MultipleHandlers) => Ok(()),
        Err(error) => Err(Failure::new(Exit::Bug, "cannot listen for signals").because(&error)),
    }
}

fn show(context: &Context, report: &SessionCounts, set_aside: &BTreeMap<String, String>) {
    if context.ui.json {
        context.ui.json(&json!({
            "lines": report.lines, "events": report.events, "commits": report.commits,
            "outcomes": report.outcomes, "run_logs_set_aside": set_aside,
        }));
        return;
    }
    let mut line = format!("{} taken in", ui::count(report.lines, "line"));
    for (outcome, count) in &report.outcomes {
        let count = match *outcome {
            "failed" | "rejected" | "quarantined" => ui::red(&count.to_string()),
            _ => count.to_string(),
        };
        line.push_str(&format!(", {count} {outcome}"));
    }
    context.ui.out(line);
    if ["failed", "rejected", "quarantined"].iter().any(|outcome| report.count(outcome) > 0) {
        let where_to = "`summarizer requests` and `summarizer quarantine list` say why";
        context.ui.talk(ui::dim(where_to));
    }
    for (file, why) in set_aside {
        let warning = ui::yellow("warning:");
        context.ui.talk(format!("{warning} the run log {file} was set aside: {why}"));
    }
}
