//! From the queue file to inputs of the engine: one thread reads and syncs, a few parse.
//!
//! Batches reach the service loop in the order of the file, whichever thread parses them: each
//! travels as a promise that its parser fulfils. Every channel is bounded. When the loop takes no
//! more, reading stops, and the queue file itself is the buffer.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded};

use crate::contract::ids::Seq;
use crate::contract::time::Timestamp;
use crate::contract::vocabulary::Warnings;
use crate::log::Reader;
use crate::os::Machine;
use crate::registry::SharedFlows;
use crate::seam::arrival::{arrival, request_bytes};
use crate::seam::line::{LineContent, parse_line};
use crate::seam::position::{ConsumedBatch, Position, QueueError};
use crate::seam::tail::{Batch, TailOptions, Tailer};
use crate::seam::watch::Watcher;
use crate::sequencer::foresight::Foresight;
use crate::sequencer::line::Line;
use crate::state::event::TakenRequest;

/// Batches read ahead of the service loop.
const READ_AHEAD: usize = 2;
/// Longest wait before the file is looked at again.
const LOOK_AGAIN: Duration = Duration::from_millis(250);
/// How long the queues of other hosts rest when they had nothing.
const OTHERS_REST: Duration = Duration::from_millis(20);

/// The queues of other hosts that share the log, for the one that takes their lines in.
pub trait OtherQueues: Send {
    /// The next batch of one of them, with the name of its host; `None` when there is none now.
    fn next(&mut self) -> Option<(String, Batch)>;
}

#[derive(Debug)]
pub struct Arrived {
    /// The host whose queue has the batch; empty when this one has the log alone.
    pub host: String,
    /// The lines of the batch, without blank lines.
    pub lines: Vec<Line>,
    /// What the tables of the log say about the keys and ids of these lines.
    pub foresight: Foresight,
    /// The queue position after the batch.
    pub end: Position,
    pub consumed: ConsumedBatch,
}

/// A message of the reading thread.
pub enum IntakeMessage {
    /// A batch that a parser works on.
    Batch(Receiver<Arrived>),
    /// Every finished line was handed over. The time is when an unfinished last line is cut off.
    CaughtUp(Option<Timestamp>),
    /// Reading had to stop.
    Failed(QueueError),
}

/// How the queue is read.
#[derive(Debug, Clone)]
pub struct IntakeOptions {
    /// The name of this host; empty when it has the log alone.
    pub host: String,
    pub path: PathBuf,
    /// Whether lines of this host are taken in. Those of other hosts are taken in all the same.
    pub reads_own: bool,
    pub tail: TailOptions,
    pub lines_max: usize,
    pub bytes_max: usize,
    /// Threads that parse.
    pub parsers: usize,
}

/// What became of the source of a request since the output of its key was made, as warnings. The
/// arguments are the request, and the event that ended the holder of the key, if the tables have one.
pub type SourceCheck = Arc<dyn Fn(&TakenRequest, Option<Seq>) -> Warnings + Send + Sync>;

/// The reading and parsing threads.
pub struct Intake {
    pub messages: Receiver<IntakeMessage>,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Intake {
    /// Starts reading at a position.
    pub fn start(
        machine: &Machine,
        position: Position,
        options: &IntakeOptions,
        flows: &SharedFlows,
        log: &Reader,
        check: Option<&SourceCheck>,
        others: Option<Box<dyn OtherQueues>>,
    ) -> Result<Intake, QueueError> {
        let open =
            || Tailer::open(Arc::clone(&machine.disk), &options.path, position, options.tail);
        let tailer = options.reads_own.then(open).transpose()?;
        let (out, messages) = bounded(READ_AHEAD);
        let (to_parse, inbox) = bounded::<Promised>(READ_AHEAD);
        let stop = Arc::new(AtomicBool::new(false));
        let mut threads = Vec::with_capacity(options.parsers + 1);
        let spawned = |action| {
            let path = options.path.clone();
            move |source| QueueError::Io { action, path, source }
        };
        for number in 0..options.parsers.max(1) {
            let inbox: Receiver<Promised> = inbox.clone();
            let (flows, log, check) = (Arc::clone(flows), log.clone(), check.cloned());
            let thread = std::thread::Builder::new().name(format!("parser-{number}"));
            let parser = thread.spawn(move || {
                while let Ok(Promised { host, batch, promise }) = inbox.recv() {
                    let mut arrived = Arrived { host, ..parse(&batch, &flows) };
                    // On an error the look-ahead stays empty: the engine asks the log again and
                    // reports the error.
                    arrived.foresight = Foresight::of(&log, &arrived.lines).unwrap_or_default();
                    if let Some(check) = &check {
                        check_sources(&mut arrived, check);
                    }
                    // When the service loop has ended, the batch is dropped and read again later.
                    let _ = promise.send(arrived);
                }
            });
            threads.push(parser.map_err(spawned("start a parser for"))?);
        }
        let hand_over = HandOver { out, to_parse };
        if let Some(others) = others {
            let (hand_over, stop) = (hand_over.clone(), Arc::clone(&stop));
            let thread = std::thread::Builder::new().name("other-queues".to_owned());
            let thread = thread.spawn(move || read_others(others, &hand_over, &stop));
            threads.push(thread.map_err(spawned("start reading other queues beside"))?);
        }
        if let Some(tailer) = tailer {
            let reader = Reading {
                clock: Arc::clone(&machine.clock),
                tailer,
                watcher: Watcher::new(&options.path),
                options: options.clone(),
                hand_over,
                stop: Arc::clone(&stop),
            };
            let thread = std::thread::Builder::new().name("intake".to_owned());
            let reading = thread.spawn(move || reader.run());
            threads.push(reading.map_err(spawned("start reading"))?);
        }
        Ok(Intake { messages, stop, threads })
    }

    /// Stops reading and waits for the threads.
    pub fn stop(self) {
        self.stop.store(true, Ordering::Release);
        drop(self.messages);
        for thread in self.threads {
            let _ = thread.join();
        }
    }
}

/// A batch for a parser, and where the loop waits for it.
struct Promised {
    host: String,
    batch: Batch,
    promise: Sender<Arrived>,
}

/// The way of a batch to the loop, past a parser.
#[derive(Clone)]
struct HandOver {
    out: Sender<IntakeMessage>,
    to_parse: Sender<Promised>,
}

impl HandOver {
    /// False when the loop has ended.
    fn batch(&self, host: String, batch: Batch) -> bool {
        let (promise, arrived) = bounded(1);
        self.out.send(IntakeMessage::Batch(arrived)).is_ok()
            && self.to_parse.send(Promised { host, batch, promise }).is_ok()
    }
}

fn read_others(mut others: Box<dyn OtherQueues>, hand_over: &HandOver, stop: &AtomicBool) {
    while !stop.load(Ordering::Acquire) {
        let Some((host, batch)) = others.next() else {
            std::thread::sleep(OTHERS_REST);
            continue;
        };
        if !hand_over.batch(host, batch) {
            return;
        }
    }
}

struct Reading {
    clock: Arc<dyn crate::os::Clock>,
    tailer: Tailer,
    watcher: Watcher,
    options: IntakeOptions,
    hand_over: HandOver,
    stop: Arc<AtomicBool>,
}

impl Reading {
    fn run(mut self) {
        // What the last message said, so that an idle queue sends one message and not four a second.
        let mut said: Option<Option<Timestamp>> = None;
        while !self.stop.load(Ordering::Acquire) {
            let now = self.clock.now();
            let (lines, bytes) = (self.options.lines_max, self.options.bytes_max);
            let read = self.tailer.next_batch(now, lines, bytes);
            // Synced before it is handed over: a line that was accepted must survive a crash in the
            // queue too, or the queue would no longer match its recorded position.
            let batch = match read.and_then(|batch| self.tailer.sync().map(|()| batch)) {
                Ok(batch) => batch,
                Err(error) => {
                    let _ = self.hand_over.out.send(IntakeMessage::Failed(error));
                    return;
                }
            };
            let Some(batch) = batch else {
                let due = self.tailer.partial_due();
                if said != Some(due) {
                    if self.hand_over.out.send(IntakeMessage::CaughtUp(due)).is_err() {
                        return;
                    }
                    said = Some(due);
                }
                self.tailer.rest();
                self.watcher.wait(LOOK_AGAIN);
                continue;
            };
            said = None;
            if !self.hand_over.batch(self.options.host.clone(), batch) {
                return;
            }
        }
    }
}

/// Notes what became of the sources of requests whose output exists.
fn check_sources(arrived: &mut Arrived, check: &SourceCheck) {
    for (number, line) in arrived.lines.iter_mut().enumerate() {
        if let Line::Request(arrival) = line {
            arrival.source = check(&arrival.request, arrived.foresight.ended(number));
        }
    }
}

/// Parses a batch: a pure function of its bytes and of the registered flows.
pub fn parse(batch: &Batch, flows: &SharedFlows) -> Arrived {
    let flows = Arc::clone(&flows.read());
    let mut lines = Vec::with_capacity(batch.lines.len());
    for span in &batch.lines {
        match parse_line(batch, span).content {
            LineContent::Blank => {}
            LineContent::Quarantined(line) => lines.push(Line::Bad(line)),
            LineContent::Request(request) => {
                let head = (span.number, span.offset);
                let arrival = arrival(*request, head, request_bytes(batch, span), flows.as_ref());
                lines.push(Line::Request(arrival));
            }
        }
    }
    let (end, consumed) = (batch.end.clone(), batch.consumed);
    Arrived { host: String::new(), lines, foresight: Foresight::default(), end, consumed }
}
