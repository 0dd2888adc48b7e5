//! A flow that a command runs without a log: in a process, or on the thread of the caller where the settings say so.
//!
//! Contract. What the flow does to its process is an error of the flow, as in the service.

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::message::{FlowJob, ProviderFacts};
use super::pack::{PackParcel, ReadyPack, with_source};
use super::processes::{Client, FlowProcesses, Isolation};
use super::rounds::{self, NotLoaded, Rounds};
use crate::flow::{
    self, FlowError, FlowOutcome, LoadedPack, PackFacts, PythonSettings, RunOptions,
    variables_of_this_process,
};
use crate::model::{Provider, SourceText};
use crate::registry::{FlowPackRecord, PackFiles};

/// A pack that a command can run many times.
pub(crate) enum FlowAlone {
    Here(Box<LoadedPack>),
    Apart { processes: Arc<FlowProcesses>, facts: Arc<PackFacts>, parcel: Arc<PackParcel> },
}

/// Why a command cannot run a flow.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct CannotLoad(String);

/// Whoever waits for a flow, as long as this is true.
struct Caller<'a>(&'a (dyn Fn() -> bool + Sync));

impl Client for Caller<'_> {
    fn waits(&self) -> bool {
        (self.0)()
    }

    fn is_wanted(&self) -> bool {
        (self.0)()
    }
}

impl FlowAlone {
    pub(crate) fn load(
        processes: Isolation,
        record: &FlowPackRecord,
        files: &PackFiles,
        options: &RunOptions<'_>,
        is_wanted: &(dyn Fn() -> bool + Sync),
    ) -> Result<FlowAlone, CannotLoad> {
        let Some(processes) = processes else {
            let pack = LoadedPack::load(record, files);
            return match pack {
                Ok(pack) => Ok(FlowAlone::Here(Box::new(pack))),
                Err(error) => Err(CannotLoad(with_source(&error))),
            };
        };
        let client = Caller(is_wanted);
        match rounds::load(&processes, record, files, options.timeout, &client) {
            Ok(ReadyPack::Apart { facts, parcel }) => {
                Ok(FlowAlone::Apart { processes, facts, parcel })
            }
            Ok(ReadyPack::Here(_)) => Err(CannotLoad("it was loaded elsewhere".to_owned())),
            Err(NotLoaded::Unusable(why)) => Err(CannotLoad(why)),
            Err(NotLoaded::Lost(problem)) => Err(CannotLoad(problem.to_string())),
        }
    }

    /// Runs the flow once. A flow that is not wanted any more is ended, if it runs in a process.
    pub(crate) fn run(
        &self,
        inputs: Map<String, Value>,
        sources: &[SourceText],
        provider: &dyn Provider,
        options: &RunOptions<'_>,
        is_wanted: &(dyn Fn() -> bool + Sync),
    ) -> Result<FlowOutcome, FlowError> {
        let (processes, facts, parcel) = match self {
            FlowAlone::Here(pack) => return flow::run(pack, inputs, sources, provider, options),
            FlowAlone::Apart { processes, facts, parcel } => (processes, facts, parcel),
        };
        let python = options.python.clone().map(|python| {
            let variables = Some(variables_of_this_process(&facts.variable_prefixes));
            PythonSettings { variables, ..python }
        });
        let job = FlowJob {
            inputs: Cow::Owned(inputs),
            params: Cow::Borrowed(&options.params),
            texts: Cow::Borrowed(sources),
            surroundings: options.surroundings.map(Cow::Borrowed),
            known_ids: Cow::Borrowed(options.known_ids),
            timeout: options.timeout,
            repair_turns: options.repair_turns,
            concurrency: options.concurrency,
            python,
            provider: ProviderFacts::of(provider),
            is_embedded: provider.is_free(),
            keeps_outputs: true,
        };
        let rounds = Rounds {
            processes,
            parcel,
            facts,
            provider,
            client: &Caller(is_wanted),
            replies: None,
            bill: options.bill,
            listener: options.listener,
            limit: options.timeout,
            concurrency: options.concurrency,
        };
        rounds.run(&job)
    }
}
