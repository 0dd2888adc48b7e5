//! Runs a flow outside the log, for commands that need its answer immediately.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Map, Value};

use super::Context;
use super::failure::{Exit, Failure};
use super::flow_processes::start_processes;
use super::given_input::given_params;
use super::interrupt::stopped;
use super::names::known_provider;
use super::patient::{FailuresMet, Patient};
use super::settings::load_config;
use super::ui::{Ui, count, dim};
use crate::config::Config;
use crate::contract::privacy::Confinement;
use crate::flow::folder;
use crate::flow::{
    self, FlowError, FlowErrorClass, FlowOutcome, FlowProblem, RunOptions, scaffold,
};
use crate::model::builtin::Builtin;
use crate::model::{Listener, Provider, ProviderError, Providers, SourceText};
use crate::registry::{FlowPackRecord, PackFiles, Status, label};
use crate::service::StopSignal;
use crate::work::isolation::alone::FlowAlone;
use crate::work::isolation::processes::Isolation;
use crate::work::params::{for_data, python_of, python_settings};

/// Prints each warning once, with the number of lines or inputs that have it.
pub(super) fn tell_warnings(context: &Context, warnings: &BTreeMap<String, usize>) {
    for (warning, times) in warnings {
        let times = count(*times, "line");
        context.ui.talk(dim(&format!("warning: {warning} ({times})")));
    }
}

/// A flow with its provider, ready to be asked many times.
pub(super) struct FlowRunner {
    flow: FlowAlone,
    providers: FlowProviders,
    provider: Arc<dyn Provider>,
    options: RunOptions<'static>,
    stop: StopSignal,
}

/// The providers that a flow may be asked at.
pub(super) struct FlowProviders {
    providers: Providers,
    flow_id: String,
    variant: Option<String>,
    asked_for: Option<String>,
    ui: Ui,
    stop: StopSignal,
    failures: Arc<Mutex<FailuresMet>>,
}

impl FlowProviders {
    pub(super) fn new(
        context: &Context,
        record: &FlowPackRecord,
        asked_for: Option<&str>,
    ) -> Result<FlowProviders, Failure> {
        let config = load_config(context)?;
        asked_for.map_or(Ok(()), |name| known_provider(&config, name))?;
        let providers = Providers::new(&config, Arc::new(Builtin), &context.machine);
        Ok(FlowProviders {
            providers: providers.map_err(|error| no_provider(&error))?,
            flow_id: record.flow_id.clone(),
            variant: record.variant.clone(),
            asked_for: asked_for.map(str::to_owned),
            ui: context.ui,
            stop: context.stop.clone(),
            failures: Arc::default(),
        })
    }

    /// The provider that answers about data.
    pub(super) fn about(&self, data: &Confinement) -> Result<Arc<dyn Provider>, ProviderError> {
        let (variant, asked_for) = (self.variant.as_deref(), self.asked_for.as_deref());
        let inner = self.providers.for_flow(&self.flow_id, variant, asked_for, data)?;
        let (stop, failures) = (self.stop.clone(), Arc::clone(&self.failures));
        Ok(Arc::new(Patient { inner, ui: self.ui, stop, failures }))
    }

    /// The refusal of a provider that must not see the data.
    pub(super) fn elsewhere(&self, name: &str, data: &Confinement) -> ProviderError {
        ProviderError::DataNotLocal {
            flow_id: self.flow_id.clone(),
            name: name.to_owned(),
            because: Confinement::shown(&data.local_only),
            asked_for: true,
        }
    }

    /// The provider that answers about data of which no rule says anything.
    pub(super) fn usual(&self) -> Result<Arc<dyn Provider>, Failure> {
        self.about(&Confinement::default()).map_err(|error| no_provider(&error))
    }
}

/// No provider can answer.
pub(super) fn no_provider(error: &ProviderError) -> Failure {
    let failure = Failure::new(Exit::Config, "cannot set up the provider").because(error);
    match error.keeps_text_here() {
        true => failure.hint(
            "`summarizer doctor` lists which texts may leave this machine, and where they go",
        ),
        false => failure.hint("a provider is a section [provider.NAME] of summarizer.toml"),
    }
}

/// A text that must stay on this machine, as the error of its flow.
pub(super) fn kept_here(error: &ProviderError) -> FlowError {
    FlowError::without_calls(FlowProblem::KeptHere(error.to_string()))
}

impl FlowRunner {
    pub(super) fn new(
        context: &Context,
        flow_id: &str,
        provider: Option<&str>,
    ) -> Result<FlowRunner, Failure> {
        let config = load_config(context)?;
        let (record, files) = pack_files(context, flow_id, None)?;
        let providers = FlowProviders::new(context, &record, provider)?;
        let provider = providers.usual()?;
        let options = run_options(&config, &record, &[], false)?;
        let flow = load_files(context, &record, &files, &start_processes(&config)?)?;
        let stop = context.stop.clone();
        Ok(FlowRunner { flow, providers, provider, options, stop })
    }

    /// Whether an answer costs nothing.
    pub(super) fn is_free(&self) -> bool {
        self.provider.is_free()
    }

    /// Asks about sources. `data` is what the rules say of them.
    pub(super) fn ask_about(
        &self,
        sources: &[SourceText],
        surroundings: &flow::context::Surroundings,
        listener: Option<&dyn Listener>,
        data: &Confinement,
    ) -> Result<FlowOutcome, FlowError> {
        let provider = match data.is_local_only() {
            true => self.providers.about(data).map_err(|error| kept_here(&error))?,
            false => Arc::clone(&self.provider),
        };
        let options = RunOptions {
            surroundings: Some(surroundings),
            listener,
            params: self.options.params.clone(),
            python: self.options.python.clone().map(|python| for_data(python, data)),
            timeout: self.options.timeout,
            repair_turns: self.options.repair_turns,
            ..RunOptions::default()
        };
        self.run(Map::new(), sources, &*provider, &options)
    }

    /// After an interrupt a flow ends at once where nothing is paid for. A model is waited for.
    fn run(
        &self,
        inputs: Map<String, Value>,
        sources: &[SourceText],
        provider: &dyn Provider,
        options: &RunOptions<'_>,
    ) -> Result<FlowOutcome, FlowError> {
        let is_free = provider.is_free();
        let is_wanted = || !is_free || !self.stop.is_raised();
        self.flow.run(inputs, sources, provider, options, &is_wanted)
    }
}

/// The options that settings and command line give a flow.
pub(super) fn run_options(
    config: &Config,
    record: &FlowPackRecord,
    given: &[String],
    allow_python: bool,
) -> Result<RunOptions<'static>, Failure> {
    let mut params = config.flow_params(&record.flow_id, record.variant.as_deref());
    params.extend(given_params(given)?);
    Ok(RunOptions {
        params,
        timeout: attempt_limit(config),
        python: python_of(config).or_else(|| allow_python.then(|| python_settings(config))),
        repair_turns: config.repair_turns,
        ..RunOptions::default()
    })
}

/// How many questions a command asks at the same time.
pub(super) fn calls_at_once(config: &Config, provider: &dyn Provider) -> usize {
    let count = if provider.is_free() { config.workers } else { config.in_flight_per_provider };
    count.max(1)
}

/// Asks a registered flow once, for a command that needs its answer.
pub(super) fn ask(
    context: &Context,
    flow_id: &str,
    provider: Option<&str>,
    inputs: Map<String, Value>,
) -> Result<FlowOutcome, Failure> {
    let runner = FlowRunner::new(context, flow_id, provider)?;
    let FlowRunner { provider, options, .. } = &runner;
    runner.run(inputs, &[], &**provider, options).map_err(|error| failed(flow_id, &error))
}

/// A registered flow, or the flow at a path, ready to run in these processes.
pub(super) fn load_flow(
    context: &Context,
    flow_id: &str,
    variant: Option<&str>,
    processes: &Isolation,
) -> Result<FlowAlone, Failure> {
    let (record, files) = pack_files(context, flow_id, variant)?;
    let flow = load_files(context, &record, &files, processes)?;
    if let (Some(variant), true) = (variant, is_on_disk(context, flow_id))
        && !flow.facts().has_node_variant
    {
        let what = format!("no node of {flow_id} has the variant {variant}");
        return Err(Failure::new(Exit::Usage, what)
            .hint("name one as `VARIANT`, or as `${NODE.VARIANT}` for one node alone"));
    }
    Ok(flow)
}

/// A flow from its files.
pub(super) fn load_files(
    context: &Context,
    record: &FlowPackRecord,
    files: &PackFiles,
    processes: &Isolation,
) -> Result<FlowAlone, Failure> {
    let (limit, stop) = (attempt_limit(&load_config(context)?), &context.stop);
    let is_wanted = || !stop.is_raised();
    FlowAlone::load(processes.clone(), record, files, limit, &is_wanted).map_err(|error| match stop
        .is_raised()
    {
        true => stopped("the flow was not loaded", "run the same command again"),
        false => unusable(&record.flow_id, &error),
    })
}

/// The longest time that a flow may take between two answers of a model.
pub(super) fn attempt_limit(config: &Config) -> Duration {
    Duration::from_millis(config.attempt_timeout_ms.max(1).unsigned_abs())
}

pub(super) fn unusable(flow_id: &str, error: &(dyn std::error::Error + 'static)) -> Failure {
    Failure::new(Exit::Config, format!("cannot use the pack of {flow_id}")).because(error)
}

/// Whether it is the path of a flow, and not the name of a registered one.
fn is_on_disk(context: &Context, flow: &str) -> bool {
    let path = Path::new(flow);
    let stat = context.machine.disk.stat(path).ok().flatten();
    stat.is_some_and(|stat| stat.is_dir || folder::is_flow_file(path))
}

/// The record and the files of a registered flow, or of the flow at a path.
pub(super) fn pack_files(
    context: &Context,
    flow_id: &str,
    variant: Option<&str>,
) -> Result<(FlowPackRecord, PackFiles), Failure> {
    let disk = &*context.machine.disk;
    let unusable = |error: &(dyn std::error::Error + 'static)| unusable(flow_id, error);
    if is_on_disk(context, flow_id) {
        let path = Path::new(flow_id);
        let flow = folder::read(disk, path).map_err(|error| unusable(&error))?;
        let mut record = scaffold::record_on_disk(&flow.name, variant, flow_id, &flow)
            .map_err(|error| unusable(&error))?;
        record.seal(&flow.files, context.machine.clock.now().to_string());
        return Ok((record, flow.files));
    }
    let registry = super::registry::load(context)?;
    let record = super::registry::find(&registry, flow_id, variant)?;
    match record.status {
        Status::Disabled => {
            let what = format!("{} is disabled", label(flow_id, variant));
            return Err(Failure::new(Exit::Usage, what));
        }
        Status::Deprecated => context.ui.talk(format!("{} is deprecated", flow_id)),
        Status::Active => {}
    }
    let files = registry.verified_files(disk, record).map_err(|error| unusable(&error))?;
    Ok((record.clone(), files))
}

/// A flow that gave nothing, as the failure of a command.
pub(super) fn failed(flow_id: &str, error: &FlowError) -> Failure {
    let exit = match error.class() {
        FlowErrorClass::InvalidParams => Exit::Input,
        _ => Exit::Wrong,
    };
    Failure::new(exit, format!("{flow_id} gave no output ({})", error.reason_code()))
        .because(&*error.problem)
}
