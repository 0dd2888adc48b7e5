//! A flow that a command runs without a log: in a process, or on the thread of the caller where the settings say so.
//!
//! Contract. What the flow does to its process is an error of the flow, as in the service.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};

use super::message::{FlowJob, ProviderFacts};
use super::pack::{PackParcel, ReadyPack, with_source};
use super::processes::{Client, FlowProcesses, Isolation};
use super::rounds::{self, NotLoaded, Rounds};
use crate::flow::{
    self, FlowError, FlowOutcome, FlowProblem, LoadedPack, PackFacts, PythonSettings, RunOptions,
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

/// A flow that runs in processes, with what a run of it needs.
struct Apart<'a> {
    processes: &'a FlowProcesses,
    facts: &'a PackFacts,
    parcel: &'a PackParcel,
    provider: &'a dyn Provider,
    options: &'a RunOptions<'a>,
}

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
    /// Loads a pack, in at most `limit` where a process loads it.
    pub(crate) fn load(
        processes: Isolation,
        record: &FlowPackRecord,
        files: &PackFiles,
        limit: Duration,
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
        match rounds::load(&processes, record, files, limit, &client) {
            Ok(ReadyPack::Apart { facts, parcel }) => {
                Ok(FlowAlone::Apart { processes, facts, parcel })
            }
            Ok(ReadyPack::Here(_)) => Err(CannotLoad("it was loaded elsewhere".to_owned())),
            Err(NotLoaded::Unusable(why)) => Err(CannotLoad(why)),
            Err(NotLoaded::Lost(problem)) => Err(CannotLoad(problem.to_string())),
        }
    }

    pub(crate) fn facts(&self) -> &PackFacts {
        match self {
            FlowAlone::Here(pack) => pack.facts(),
            FlowAlone::Apart { facts, .. } => facts,
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
        match self {
            FlowAlone::Here(pack) => flow::run(pack, inputs, sources, provider, options),
            FlowAlone::Apart { processes, facts, parcel } => {
                let apart = Apart { processes, facts, parcel, provider, options };
                apart.rounds(&Caller(is_wanted)).run(&apart.job(inputs, sources))
            }
        }
    }

    /// Runs its aggregation nodes over what they read of each line; gives their metrics.
    pub(crate) fn aggregate(
        &self,
        lines: Vec<Map<String, Value>>,
        provider: &dyn Provider,
        options: &RunOptions<'_>,
    ) -> Result<Map<String, Value>, FlowProblem> {
        if !self.facts().aggregates || lines.is_empty() {
            return Ok(Map::new());
        }
        match self {
            FlowAlone::Here(pack) => flow::aggregate(pack, lines, provider, options),
            FlowAlone::Apart { processes, facts, parcel } => {
                let apart = Apart { processes, facts, parcel, provider, options };
                let job = apart.job(Map::new(), &[]);
                let ran = apart.rounds(&Caller(&|| true)).aggregate(&job, &lines);
                ran.map_err(|error| *error.problem)
            }
        }
    }
}

impl<'a> Apart<'a> {
    fn job(&self, inputs: Map<String, Value>, sources: &'a [SourceText]) -> FlowJob<'a> {
        let options = self.options;
        let python = options.python.clone().map(|python| {
            let variables = Some(self.facts.variables(python.by_person));
            PythonSettings { variables, ..python }
        });
        FlowJob {
            inputs: Cow::Owned(inputs),
            params: Cow::Borrowed(&options.params),
            texts: Cow::Borrowed(sources),
            surroundings: options.surroundings.map(Cow::Borrowed),
            known_ids: Cow::Borrowed(options.known_ids),
            timeout: options.timeout,
            repair_turns: options.repair_turns,
            concurrency: options.concurrency,
            python,
            provider: ProviderFacts::of(self.provider),
            is_embedded: self.provider.is_free() && !self.provider.hears_all(),
            keeps_outputs: true,
            keeps_prompts: options.keep_prompts,
        }
    }

    fn rounds(&self, client: &'a dyn Client) -> Rounds<'a> {
        Rounds {
            processes: self.processes,
            parcel: self.parcel,
            facts: self.facts,
            provider: self.provider,
            client,
            replies: self.options.replies,
            bill: self.options.bill,
            listener: self.options.listener,
            limit: self.options.timeout,
            concurrency: self.options.concurrency,
        }
    }
}
