//! The process that runs flows: it reads orders from its input and answers on its output, one at a time.
//!
//! Contract: what an order needs comes with it. The system limits the memory and the processor time of the
//! process, so a flow that wants more ends this process and nothing else.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Map, Value};

use crate::contract::hash::Digest;
use crate::contract::schema;
use crate::flow::{self, FlowError, FlowOutcome, FlowProblem, LoadedPack, ReplyCache, RunOptions};
use crate::model::builtin::Builtin;
use crate::model::{ModelCall, Provider};
use crate::os::framed::{read_frame, write_frame};

use super::message::{
    self, Answered, BadMessage, EmbeddedQuestion, FlowJob, Order, PackContents, Reply, Said, Task,
};
use super::pack::with_source;
use super::replayed::Replayed;

/// Bytes that the process may use for each byte of an order, beside its limit: the order, its texts as inputs,
/// the prompt, and what is read of them.
const BYTES_PER_ORDER_BYTE: u64 = 12;

/// Bytes that the process may use beside that for each node that runs at the same time: the allocator reserves
/// address space for every thread.
const BYTES_PER_THREAD: u64 = 80 << 20;

/// After so many orders the process looks at its size, and after each large one.
const LOOK_EVERY: u64 = 16;
const LARGE_BYTES: usize = 1 << 20;

/// Why a flow does not run whose questions differ each time.
const NOT_STEADY: &str = "its prompt differs each time that the flow runs, so it would be asked without end; let no \
                          step before it give the time or a random value, or set workers.isolation = \"thread\"";

/// Answers orders until no more come.
pub(crate) fn serve(
    mut from: impl Read,
    mut to: impl Write,
    memory_bytes_max: u64,
) -> io::Result<()> {
    let mut packs = Packs::new();
    forbid_core_dumps();
    for number in 1_u64.. {
        let order = read_frame(&mut from, |bytes| limit_memory(memory_bytes_max, bytes, 1))?;
        let Some(order) = order else { return Ok(()) };
        let give_threads = |threads| limit_memory(memory_bytes_max, order.len(), threads);
        let said = answer(&order, &mut packs, &give_threads).map_err(io::Error::other)?;
        // The look takes as long as a small flow.
        let looks = number.is_multiple_of(LOOK_EVERY) || order.len() > LARGE_BYTES;
        let reply = Reply { said, retires: looks && has_grown(memory_bytes_max) };
        let mut bytes = Vec::new();
        message::write(&mut bytes, &reply).map_err(io::Error::other)?;
        write_frame(&mut to, &bytes)?;
    }
    Ok(())
}

type Packs = BTreeMap<Digest, LoadedPack>;

fn answer(
    mut order: &[u8],
    packs: &mut Packs,
    give_threads: &dyn Fn(usize),
) -> Result<Said, BadMessage> {
    let head: Order = message::read(&mut order)?;
    limit_processor(head.cpu_seconds);
    if head.drops_packs {
        packs.clear();
    }
    if head.sends_pack {
        let contents: PackContents<'_> = message::read(&mut order)?;
        match LoadedPack::load(&contents.record, &contents.files) {
            Ok(pack) => packs.insert(head.pack, pack),
            Err(error) => return Ok(Said::NotLoaded(with_source(&error))),
        };
    }
    let Some(pack) = packs.get(&head.pack) else {
        return Ok(Said::NotLoaded("its files did not arrive".to_owned()));
    };
    match head.task {
        Task::Load => Ok(Said::Loaded(Box::new(pack.facts().clone()))),
        Task::Run => {
            let job: FlowJob<'_> = message::read(&mut order)?;
            give_threads(job.concurrency);
            Ok(run(pack, &job, message::read(&mut order)?, None))
        }
        Task::Aggregate => {
            let job: FlowJob<'_> = message::read(&mut order)?;
            give_threads(job.concurrency);
            let answers = message::read(&mut order)?;
            Ok(run(pack, &job, answers, Some(message::read(&mut order)?)))
        }
        Task::Read => Ok(read(pack, &message::read(&mut order)?)),
    }
}

/// Runs the flow, or its aggregation nodes over these `lines`.
fn run(
    pack: &LoadedPack,
    job: &FlowJob<'_>,
    answers: Vec<Answered>,
    lines: Option<Vec<Map<String, Value>>>,
) -> Said {
    let replayed = Replayed::new(pack, job.provider.clone(), answers);
    let provider: &dyn Provider = if job.is_embedded { &Builtin } else { &replayed };
    let replies = (!job.provider.is_free).then_some(&replayed as &dyn ReplyCache);
    let options = RunOptions {
        params: job.params.clone().into_owned(),
        surroundings: job.surroundings.as_deref(),
        known_ids: &job.known_ids,
        timeout: job.timeout,
        repair_turns: job.repair_turns,
        replies,
        python: job.python.clone(),
        concurrency: job.concurrency,
        keep_prompts: job.keeps_prompts,
        ..RunOptions::default()
    };
    let ran = match lines {
        Some(lines) => flow::aggregate(pack, lines, provider, &options)
            .map(Said::Aggregated)
            .map_err(FlowError::without_calls),
        None => {
            let inputs = job.inputs.clone().into_owned();
            flow::run(pack, inputs, &job.texts, provider, &options).map(|made| {
                let made = if job.keeps_outputs { made } else { without_what_stays(made) };
                Said::Made(Box::new(made))
            })
        }
    };
    match ran {
        Ok(said) => said,
        Err(mut error) => {
            if !job.keeps_outputs {
                error.calls.iter_mut().for_each(|call| call.text.clear());
            }
            if !error.problem.waits_for_batch() {
                return Said::Failed(error);
            }
            match replayed.open() {
                Ok(open) if open.is_empty() => Said::Failed(error),
                Ok(open) => Said::Asks(open),
                Err(node) => {
                    let reason = NOT_STEADY.to_owned();
                    error.problem = Box::new(FlowProblem::Unsupported { node, reason });
                    Said::Failed(error)
                }
            }
        }
    }
}

/// The outcome without what no item has: it would only travel.
fn without_what_stays(mut made: FlowOutcome) -> FlowOutcome {
    made.outputs.clear();
    made.metrics.clear();
    made.for_aggregation.clear();
    made.calls.iter_mut().for_each(|call| call.text.clear());
    made
}

/// Answers a question with the embedded summarizer, where it stands in for a model that failed.
fn read(pack: &LoadedPack, question: &EmbeddedQuestion<'_>) -> Said {
    let schema = question.schema.as_deref();
    let validator = schema.and_then(|schema| schema::compile(schema).ok());
    let answer = Builtin.call(&ModelCall {
        flow_id: &pack.record().flow_id,
        variant: pack.record().variant.as_deref(),
        node: &question.node,
        messages: &[],
        inputs: &question.inputs,
        sources: &question.sources,
        schema,
        validator: validator.as_ref(),
        hints: pack.hints(),
        settings: question.settings.clone().into_owned(),
        timeout: Duration::MAX,
        listener: None,
        bill: None,
        model: None,
        apart: question.apart,
        speakers: question.speakers.as_deref(),
        kept_as: "",
    });
    Said::Read(Box::new(answer))
}

fn forbid_core_dumps() {
    // A dump would hold texts. The order fails only where the limit is lower already.
    let _ = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) });
}

/// Lets the process have so much address space, and more for a large order and for threads.
fn limit_memory(memory_bytes_max: u64, order_bytes: usize, threads: usize) {
    let for_order = (order_bytes as u64).saturating_mul(BYTES_PER_ORDER_BYTE);
    let for_threads = (threads as u64).saturating_mul(BYTES_PER_THREAD);
    let most = memory_bytes_max.saturating_add(for_order).saturating_add(for_threads);
    set_limit(Resource::As, most);
}

/// Ends the process when an order takes more of the processor than it should, also when nobody waits for the
/// answer any more.
fn limit_processor(seconds: u64) {
    let used = clock_gettime(ClockId::ProcessCPUTime).tv_sec.unsigned_abs();
    set_limit(Resource::Cpu, used.saturating_add(seconds).saturating_add(1));
}

/// Sets a limit that can be raised again.
fn set_limit(resource: Resource, most: u64) {
    let maximum = getrlimit(resource).maximum;
    let most = maximum.map_or(most, |maximum| most.min(maximum));
    // Fails only above a limit that the system sets, which then holds.
    let _ = setrlimit(resource, Rlimit { current: Some(most), maximum });
}

/// Whether the address space has grown to more than half of the limit: the next order might then fail because
/// of those before it.
fn has_grown(memory_bytes_max: u64) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmSize:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
    let bytes = kib.unwrap_or_default().saturating_mul(1024);
    bytes > memory_bytes_max / 2
}
