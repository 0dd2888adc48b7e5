//! The pool of processes that run flows.
//!
//! Contract. A process works on one order at a time. One that gives no answer is replaced, and its order fails
//! with the reason; no other order notices. A process gets the bytes of a pack once.

use std::collections::BTreeSet;
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::{Sender, bounded, unbounded};
use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::contract::hash::Digest;
use crate::contract::told::ToldFailure;
use crate::flow::{FlowProblem, StoppedBy};
use crate::markup::prefix;
use crate::os::framed::{FramedCommand, FramedProcess, NoAnswer};

use super::message::{self, BadMessage, Order, Reply, Said, Task};
use super::pack::PackParcel;

/// The command of this executable that runs flows.
pub(crate) const WORKER_COMMAND: &str = "worker";
/// What a process sees of the environment.
const ENVIRONMENT: &[&str] = &["PATH", "HOME", "TZ", "LANG", "LC_ALL", "TMPDIR"];
/// The allocators reserve address space in small parts, because address space is what the limit counts. That of
/// the C library, which few calls use, would reserve 64 MiB for each thread. Memory stays with a process for a second,
/// because the next order needs it again.
const ALLOCATOR: &[(&str, &str)] = &[
    ("MIMALLOC_ARENA_RESERVE", "32768"),
    ("MIMALLOC_PURGE_DELAY", "1000"),
    ("MALLOC_ARENA_MAX", "1"),
];
/// Packs of one process. With more of them in use, all are dropped and sent again.
const PACKS_MAX: usize = 64;
/// How often an attempt that waits for a process shows that it still waits.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// Longest last words of a process in a message.
const WORDS_BYTES_MAX: usize = 200;

/// An attempt that uses the pool.
pub(in crate::work) trait Client: Sync {
    /// The attempt waits for a process, which is no fault of its own. False when nobody waits for the attempt.
    fn waits(&self) -> bool;
    /// Whether somebody waits for the attempt.
    fn is_wanted(&self) -> bool;
}

pub(crate) struct FlowProcesses {
    size: usize,
    /// Starts processes. A process ends with the thread that started it, so this thread lives as long as the
    /// pool.
    starter: Sender<Sender<io::Result<FramedProcess>>>,
    places: Mutex<Places>,
    freed: Condvar,
}

#[derive(Default)]
struct Places {
    idle: Vec<FlowProcess>,
    /// Processes that run or start.
    taken: usize,
}

struct FlowProcess {
    framed: FramedProcess,
    packs: BTreeSet<Digest>,
}

/// Why an order has no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum Lost {
    #[error("{reason}")]
    Stopped { by: StoppedBy, reason: ToldFailure },
    #[error(transparent)]
    Message(#[from] BadMessage),
    #[error("start a worker process: {0}")]
    NotStarted(io::Error),
    /// Nobody waits for the attempt any more.
    #[error("the attempt has ended")]
    Unwanted,
}

impl Lost {
    pub(super) fn problem(self) -> FlowProblem {
        match self {
            Lost::Stopped { by, reason } => FlowProblem::Stopped { by, reason },
            Lost::Unwanted => FlowProblem::Cancelled,
            other => {
                FlowProblem::Stopped { by: StoppedBy::Crash, reason: other.to_string().into() }
            }
        }
    }
}

impl FlowProcesses {
    /// A pool of so many processes, which start when they are needed.
    pub(crate) fn new(size: usize, memory_bytes_max: u64) -> io::Result<FlowProcesses> {
        let own = std::process::id().to_string();
        let memory = memory_bytes_max.to_string();
        let command = FramedCommand {
            args: [WORKER_COMMAND, &own, &memory].map(Into::into).to_vec(),
            environment: ENVIRONMENT,
            variables: ALLOCATOR,
        };
        let (starter, wanted) = unbounded::<Sender<io::Result<FramedProcess>>>();
        let thread = std::thread::Builder::new().name("worker-starter".to_owned());
        thread.spawn(move || {
            for to in wanted {
                // Nobody takes it when the attempt has ended; then the process is dropped, which ends it.
                let _ = to.send(FramedProcess::start(&command));
            }
        })?;
        let (places, freed) = (Mutex::default(), Condvar::new());
        Ok(FlowProcesses { size: size.max(1), starter, places, freed })
    }

    /// Sends an order to the next free process and waits for the answer.
    pub(super) fn order(
        &self,
        task: Task,
        parcel: &PackParcel,
        rest: &[&[u8]],
        limit: Duration,
        client: &dyn Client,
    ) -> Result<Said, Lost> {
        let mut process = self.take(client)?;
        let answer = process.ask(task, parcel, rest, limit, client);
        match answer {
            Ok(Reply { said, retires: false }) => {
                self.give_back(Some(process));
                Ok(said)
            }
            Ok(Reply { said, retires: true }) => {
                self.give_back(None);
                Ok(said)
            }
            Err(lost) => {
                self.give_back(None);
                Err(lost)
            }
        }
    }

    fn take(&self, client: &dyn Client) -> Result<FlowProcess, Lost> {
        let mut places = self.places.lock();
        loop {
            while let Some(mut process) = places.idle.pop() {
                if process.framed.is_alive() {
                    return Ok(process);
                }
                tracing::warn!(
                    id = process.framed.id(),
                    "a worker process ended while it had no work"
                );
                places.taken -= 1;
            }
            if places.taken < self.size {
                places.taken += 1;
                break;
            }
            self.freed.wait_for(&mut places, LOOK_EVERY);
            if !MutexGuard::unlocked(&mut places, || client.waits()) {
                return Err(Lost::Unwanted);
            }
        }
        drop(places);
        self.start().map_err(|error| {
            self.give_back(None);
            Lost::NotStarted(error)
        })
    }

    fn start(&self) -> io::Result<FlowProcess> {
        let (to, started) = bounded(1);
        let gone = |_| io::Error::from(io::ErrorKind::BrokenPipe);
        self.starter.send(to).map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))?;
        let framed = started.recv().map_err(gone)??;
        tracing::debug!(id = framed.id(), "started a worker process");
        Ok(FlowProcess { framed, packs: BTreeSet::new() })
    }

    /// Frees a place; `None` when its process is gone.
    fn give_back(&self, process: Option<FlowProcess>) {
        let mut places = self.places.lock();
        match process {
            Some(process) => places.idle.push(process),
            None => places.taken -= 1,
        }
        drop(places);
        self.freed.notify_one();
    }
}

impl FlowProcess {
    fn ask(
        &mut self,
        task: Task,
        parcel: &PackParcel,
        rest: &[&[u8]],
        limit: Duration,
        client: &dyn Client,
    ) -> Result<Reply, Lost> {
        let sends_pack = !self.packs.contains(&parcel.name);
        let drops_packs = sends_pack && self.packs.len() >= PACKS_MAX;
        let cpu_seconds = limit.as_secs().saturating_add(1);
        let order = Order { task, pack: parcel.name, sends_pack, drops_packs, cpu_seconds };
        let mut bytes = Vec::new();
        message::write(&mut bytes, &order)?;
        if sends_pack {
            bytes.extend_from_slice(&parcel.bytes);
        }
        rest.iter().for_each(|part| bytes.extend_from_slice(part));
        let answer = self.framed.exchange(&bytes, limit, &|| client.is_wanted());
        let answer = answer.map_err(|none| lost(none, limit))?;
        let reply: Reply = message::read(&mut answer.as_slice())?;
        if drops_packs {
            self.packs.clear();
        }
        if !matches!(reply.said, Said::NotLoaded(_)) {
            self.packs.insert(parcel.name);
        }
        Ok(reply)
    }
}

fn lost(none: NoAnswer, limit: Duration) -> Lost {
    let (by, reason) = match none {
        NoAnswer::Unwanted => return Lost::Unwanted,
        NoAnswer::TooLate => {
            let limit = limit.as_secs_f64();
            (StoppedBy::Time, format!("it did not end within {limit} s and was killed").into())
        }
        NoAnswer::TooLarge => (StoppedBy::Memory, "its result is larger than 1 GiB".into()),
        NoAnswer::Ended { how, said } => ended(how, &said),
    };
    Lost::Stopped { by, reason }
}

/// What ended a process, from its status and its last words.
fn ended(how: ExitStatus, said: &str) -> (StoppedBy, ToldFailure) {
    const NO_MEMORY: [&str; 2] = ["memory allocation of", "Cannot allocate memory"];
    if NO_MEMORY.iter().any(|words| said.contains(words)) {
        return (StoppedBy::Memory, "it needed more memory than workers.memory allows".into());
    }
    if how.signal() == Some(libc::SIGXCPU) {
        return (StoppedBy::Time, "it used the processor for too long".into());
    }
    let how = match (how.code(), how.signal()) {
        (_, Some(signal)) => format!("signal {signal} ended it"),
        (Some(code), None) => format!("it ended with code {code}"),
        (None, None) => "it ended".to_owned(),
    };
    let words = said.trim().lines().last().map(|line| prefix(line, WORDS_BYTES_MAX));
    let reason = match words {
        Some(words) if !words.is_empty() => {
            ToldFailure::from(format!("{how}; it said: ")).and(ToldFailure::by_others(words))
        }
        _ => how.into(),
    };
    (StoppedBy::Crash, reason)
}

/// The pool of a service, where it has one.
pub(crate) type Isolation = Option<Arc<FlowProcesses>>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_of_an_end_comes_from_its_status_and_its_last_words() {
        let end = |status, said| ended(ExitStatus::from_raw(status), said);
        let (by, reason) = end(libc::SIGABRT, "memory allocation of 12 bytes failed\n");
        assert_eq!((by, reason.to_string().contains("workers.memory")), (StoppedBy::Memory, true));
        assert_eq!(end(libc::SIGXCPU, "").0, StoppedBy::Time);
        let (by, reason) = end(libc::SIGABRT, "thread overflowed\nfatal: stack overflow\n");
        assert_eq!(by, StoppedBy::Crash);
        assert_eq!(reason.to_string(), "signal 6 ended it; it said: fatal: stack overflow");
        assert_eq!(end(101 << 8, "").1.to_string(), "it ended with code 101");
    }
}
