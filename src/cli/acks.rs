//! Acks as they are written: their lines in order, and how far some requests are.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use indicatif::ProgressBar;
use serde_json::Value;

use super::failure::{Exit, Failure};
use super::{Context, ui};
use crate::contract::time::Day;
use crate::contract::vocabulary::{FailureCause, Stream};
use crate::control::question::{Answer, Question};
use crate::control::socket::ControlClient;
use crate::home::Home;
use crate::os::{Disk, Open};

/// Time between two looks at the file.
pub(super) const PAUSE: Duration = Duration::from_millis(50);
const READ_BYTES: usize = 1 << 16;
/// Looks after which the process is asked how many requests are open.
const ASK_EVERY: u32 = 20;

/// Reads the acks that are appended from some place on.
pub(super) struct AckTail {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    offset: u64,
    pending: Vec<u8>,
}

impl AckTail {
    /// From the present end of the file.
    pub(super) fn from_end(context: &Context, path: PathBuf) -> AckTail {
        let disk = Arc::clone(&context.machine.disk);
        let offset = disk.stat(&path).ok().flatten().map_or(0, |stat| stat.len);
        AckTail { disk, path, offset, pending: Vec::new() }
    }

    /// The whole lines that were appended since the last time.
    pub(super) fn read(&mut self) -> std::io::Result<Vec<String>> {
        let file = match self.disk.open(&self.path, Open::Read) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut buffer = vec![0; READ_BYTES];
        loop {
            let got = file.read_at(&mut buffer, self.offset)?;
            self.offset += got as u64;
            self.pending.extend_from_slice(&buffer[..got]);
            if got < buffer.len() {
                break;
            }
        }
        let whole = self.pending.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let lines: Vec<u8> = self.pending.drain(..whole).collect();
        let lines = lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        Ok(lines.map(|line| String::from_utf8_lossy(line).into_owned()).collect())
    }

    /// The same as values; a line that is no ack is passed over.
    pub(super) fn acks(&mut self) -> Result<Vec<Value>, Failure> {
        let lines = self
            .read()
            .map_err(|error| Failure::new(Exit::Storage, "cannot read the acks").because(&error))?;
        Ok(lines.iter().filter_map(|line| serde_json::from_str(line).ok()).collect())
    }
}

/// Whether an ack is the last of its request.
pub(super) fn is_final(ack: &Value) -> bool {
    !matches!(ack["status"].as_str().unwrap_or_default(), "accepted" | "failed_transient")
}

/// How requests ended, by their ids.
#[derive(Default)]
pub(super) struct Ended {
    /// The last ack of each.
    pub acks: BTreeMap<String, Value>,
    /// The last ack of each that failed and is tried again.
    pub failing: BTreeMap<String, Value>,
}

impl Ended {
    pub(super) fn take(&mut self, ack: Value) {
        let Some(id) = ack["request_id"].as_str().map(str::to_owned) else { return };
        if is_final(&ack) {
            self.failing.remove(&id);
            self.acks.insert(id, ack);
        } else if ack["status"] == "failed_transient" {
            self.failing.insert(id, ack);
        }
    }

    /// Takes for the answer of a repeated request what the first one ended with meanwhile: `earlier` has the
    /// acks of other requests since the command began.
    pub(super) fn join(&mut self, earlier: &BTreeMap<String, Value>) {
        for (id, ack) in &mut self.acks {
            let first = ack["duplicate_of"].as_str().and_then(|first| earlier.get(first));
            if let Some(first) = first.filter(|_| ack["status"] == "duplicate") {
                let mut joined = first.clone();
                joined["request_id"] = id.clone().into();
                *ack = joined;
            }
        }
    }

    /// The partitions of the summaries, with the ids of the summaries in each.
    pub(super) fn summaries(&self, status: &str) -> BTreeMap<(Stream, Day), Vec<String>> {
        let mut found: BTreeMap<(Stream, Day), Vec<String>> = BTreeMap::new();
        for ack in self.acks.values().filter(|ack| ack["status"] == status) {
            let summary = &ack["summary"];
            let stream = summary["stream"].as_str().and_then(Stream::parse);
            let day = summary["day"].as_str().and_then(|day| day.parse().ok());
            if let (Some(stream), Some(day), Some(id)) =
                (stream, day, summary["summary_id"].as_str())
            {
                found.entry((stream, day)).or_default().push(id.to_owned());
            }
        }
        found
    }

    /// How many ended in each way.
    pub(super) fn counts(&self) -> BTreeMap<&str, u64> {
        let mut counts = BTreeMap::new();
        for ack in self.acks.values() {
            *counts.entry(ack["status"].as_str().unwrap_or("unknown")).or_insert(0) += 1;
        }
        counts
    }
}

/// Shows on a terminal how the requests that this process works on end: how many, how many failed, how
/// fast, what they cost, and how long the open ones will take.
pub(super) struct AckProgress {
    stop: Arc<AtomicBool>,
    bar: ProgressBar,
}

impl AckProgress {
    /// `total` is how many there will be, where that is known; else the open ones are asked for.
    pub(super) fn start(context: &Context, home: &Home, total: Option<u64>) -> AckProgress {
        let bar = context.ui.progress("summarizing", total.unwrap_or(0));
        let stop = Arc::new(AtomicBool::new(false));
        if bar.is_hidden() {
            return AckProgress { stop, bar };
        }
        let style = "{wide_bar} {human_pos}/{human_len}, {rate}, {eta} left {msg}";
        if let Some(style) = ui::bar_style(style) {
            bar.set_style(style);
        }
        bar.set_message("");
        let shown = bar.clone();
        let mut watched = Watched {
            tail: AckTail::from_end(context, home.acks()),
            socket: home.socket(),
            bar,
            total,
            failed: 0,
            cost_before: None,
            cost: 0.0,
        };
        let told = Arc::clone(&stop);
        std::thread::spawn(move || {
            let mut turn = 0_u32;
            while !told.load(Ordering::Relaxed) {
                watched.count();
                if turn.is_multiple_of(ASK_EVERY) {
                    watched.ask();
                }
                turn += 1;
                std::thread::sleep(PAUSE);
            }
        });
        AckProgress { stop, bar: shown }
    }
}

/// What the progress of requests is made of.
struct Watched {
    tail: AckTail,
    /// Where this process answers for its home.
    socket: PathBuf,
    bar: ProgressBar,
    total: Option<u64>,
    failed: u64,
    /// What the day had cost when it was asked first.
    cost_before: Option<f64>,
    cost: f64,
}

impl Watched {
    fn count(&mut self) {
        // Progress is no reason to fail.
        for ack in self.tail.acks().unwrap_or_default().iter().filter(|ack| is_final(ack)) {
            self.bar.inc(1);
            let status = ack["status"].as_str().unwrap_or_default();
            if status.starts_with("failed") || status.starts_with("rejected") {
                self.failed += 1;
                self.show();
            }
        }
    }

    /// Asks how many are open and what was spent.
    fn ask(&mut self) {
        let status = ControlClient::connect(&self.socket)
            .and_then(|mut client| client.ask(&Question::Status));
        let Ok(Answer::Ok(status)) = status else { return };
        if self.bar.is_finished() {
            return;
        }
        if self.total.is_none() {
            let open = status["requests"]["open"].as_u64().unwrap_or(0);
            self.bar.set_length(self.bar.position() + open);
        }
        let providers = status["charged"]["providers"].as_object();
        let costs = providers.into_iter().flatten().filter_map(|(_, one)| one["cost"].as_f64());
        let cost: f64 = costs.sum();
        // A new day begins at nothing.
        let before = *self.cost_before.get_or_insert(cost);
        self.cost = if cost >= before { cost - before } else { cost };
        self.show();
    }

    fn show(&self) {
        let mut parts = Vec::new();
        if self.failed > 0 {
            parts.push(format!("{} failed", self.failed));
        }
        if self.cost > 0.0 {
            parts.push(format!("cost {:.4}", self.cost));
        }
        self.bar.set_message(parts.join(", "));
    }
}

impl Drop for AckProgress {
    fn drop(&mut self) {
        // The thread is left behind: it may wait for an answer of a loop that has ended.
        self.stop.store(true, Ordering::Relaxed);
        self.bar.finish_and_clear();
    }
}

/// Whether what stands for a request that continues later kept a limit, and nothing went wrong: a budget, a rate, a batch.
pub(super) fn is_put_off(of: &Value) -> bool {
    of["cause"].as_str().and_then(FailureCause::parse).is_some_and(FailureCause::puts_off)
}

/// Whether an ack puts its request off for hours: until the budget of another day, or the answer of a batch.
pub(super) fn is_put_off_for_long(ack: &Value) -> bool {
    ack["status"] == "failed_transient"
        && is_put_off(ack)
        && ack["cause"] != FailureCause::RateLimit.as_str()
}

/// A reason and its cause for a person. A wait for a batch is not a failure, although it uses their words.
pub(super) fn reason_words(of: &Value) -> Option<String> {
    let text = |name: &str| of[name].as_str().filter(|text| !text.is_empty());
    let (reason, cause) = (text("reason_code"), text("cause"));
    if cause == Some(FailureCause::Batch.as_str()) {
        return Some("waits for a batch".to_owned());
    }
    reason.map(|reason| cause.map_or(reason.to_owned(), |cause| format!("{reason} ({cause})")))
}

/// One line for an end that is no summary.
pub(super) fn why(ack: &Value) -> String {
    let text = |name: &str| ack[name].as_str().filter(|text| !text.is_empty());
    if ack["cause"] == FailureCause::Batch.as_str() {
        return ui::yellow("waits for a batch; `summarizer status` shows the batches");
    }
    let status = match ack["status"] == "failed_transient" && is_put_off(ack) {
        true => ui::yellow("put off"),
        false => ui::red(&text("status").unwrap_or("unknown").replace('_', " ")),
    };
    let reason = reason_words(ack).map(|words| words.replace('_', " "));
    let next = text("retry_at").map(|at| format!("the next attempt: {at}"));
    let parts = [reason, text("message").map(str::to_owned), next];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    match parts.is_empty() {
        true => status,
        false => format!("{status}: {}", super::prose::plain_line(&parts.join(", "))),
    }
}
