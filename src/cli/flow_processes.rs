//! Starts the processes in which commands and the service run flows.

use std::sync::Arc;

use super::failure::{Exit, Failure};
use crate::config::Config;
use crate::control::question::Question;
use crate::work::isolation::processes::{FlowProcesses, Isolation};

/// The processes in which flows run, where the settings want them.
pub(super) fn start_processes(config: &Config) -> Result<Isolation, Failure> {
    if !config.isolates_flows {
        return Ok(None);
    }
    let memory = config.worker_memory_bytes_max as u64;
    let processes = FlowProcesses::new(config.workers, memory).map_err(|error| {
        Failure::new(Exit::Storage, "cannot start the thread of worker processes").because(&error)
    })?;
    Ok(Some(Arc::new(processes)))
}

/// The processes that the answer to a question needs.
pub(super) fn processes_for(question: &Question, config: &Config) -> Result<Isolation, Failure> {
    match question {
        Question::Explain { .. } => start_processes(config),
        _ => Ok(None),
    }
}
