//! Retention: removes data older than the retention period. Responses of models are dropped, acks are
//! moved to a file of their own, frames of the log are archived.
//!
//! Contract. [`look`] changes nothing. [`apply`] records an event before it removes anything, and
//! after a crash at any point applying again finishes the work. Records stay. What goes is bodies that
//! no open request needs, ack lines that can be written again from the log, and the place of old
//! frames. How far retention got is stored beside the tables, so that the next time looks only at
//! newer data; without that, it looks at everything again.
//!
//! The acks must not be written meanwhile; the caller sees to that.
//!
//! A service removes data in steps with bounds, as many as fit into a few seconds, and continues the
//! next day. The file of the acks cannot be cut in steps, because the part that stays is written again
//! as a whole: a large one waits for the command.
//!
//! See docs/adr/0064-retention.md.

use std::ops::ControlFlow;
use std::path::Path;

use serde_json::{Value, json};

use crate::config::{ArchiveAfter, Config};
use crate::contract::hash::{Digest, Hasher};
use crate::contract::ids::Seq;
use crate::contract::time::{Timestamp, parse_instant};
use crate::facts::retention::{
    AcksArchived, AcksMoved, AnswersDropped, FramesArchived, RetentionApplied, RetentionFact,
    is_archive_of_acks,
};
use crate::home::Home;
use crate::log::codec::{self, Cursor};
use crate::log::{LogError, ReadError, Reader};
use crate::os::{Disk, Machine, Open};
use crate::projections::line_files::{ACKS, ACKS_FLOOR};
use crate::sequencer::engine::{CheckpointWhen, Engine, EngineError, cursor};
#[cfg(feature = "cluster")]
use crate::sequencer::follower::Follower;
use crate::state::State;
use crate::state::event::Event;
use crate::upstream::lines::Lines;

/// The cursor of the event that recorded the last application.
const LAST: &str = "retention_last";
/// The cursor of the record up to which responses were looked at.
const ANSWERS_FLOOR: &str = "answers_floor";
/// The cursor of the record up to which frames were archived.
const FRAMES_FLOOR: &str = "frames_floor";
/// Records of one step, for each thing that may go.
const STEP_RECORDS: u64 = 250_000;
/// Answers of one step.
const STEP_ANSWERS: usize = 50_000;
/// Bytes of the largest file of acks that a service rewrites while it serves.
const STEP_ACK_BYTES: u64 = 1 << 30;

#[derive(Debug, thiserror::Error)]
pub enum RetainError {
    #[error("read or archive the log")]
    Log(#[from] LogError),
    #[error("read the event of the last retention")]
    Read(#[from] ReadError),
    #[error("record the removal in the log")]
    Engine(#[from] EngineError),
    #[error("move old lines of run/ack.jsonl to run/archive")]
    Acks(#[from] std::io::Error),
}

/// The configured ages, and the bounds of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    answers: ArchiveAfter,
    acks: ArchiveAfter,
    frames: ArchiveAfter,
    step: StepBounds,
}

/// The bounds of one step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StepBounds {
    /// Records that are looked at.
    pub records: u64,
    /// Responses that are dropped.
    pub answers: usize,
    /// Bytes of the file of the acks, which is rewritten as a whole.
    pub ack_bytes: u64,
}

impl StepBounds {
    const ALL: StepBounds =
        StepBounds { records: u64::MAX, answers: usize::MAX, ack_bytes: u64::MAX };
}

impl Policy {
    /// The configured policy, without bounds.
    pub fn of(config: &Config) -> Policy {
        Policy {
            answers: config.answers_after,
            acks: config.acks_after,
            frames: config.archive_after,
            step: StepBounds::ALL,
        }
    }

    /// The configured policy in steps that hold up a service only briefly.
    pub(crate) fn in_passing(config: &Config) -> Policy {
        let (records, answers, ack_bytes) = (STEP_RECORDS, STEP_ANSWERS, STEP_ACK_BYTES);
        Policy::of(config).in_steps(StepBounds { records, answers, ack_bytes })
    }

    /// The same policy with these bounds.
    pub fn in_steps(self, step: StepBounds) -> Policy {
        Policy { step, ..self }
    }

    pub(crate) fn keeps_all(&self) -> bool {
        [self.answers, self.acks, self.frames].iter().all(|age| *age == ArchiveAfter::Never)
    }
}

fn moment(age: ArchiveAfter, now: Timestamp) -> Option<Timestamp> {
    match age {
        ArchiveAfter::Never => None,
        ArchiveAfter::Age(ms) => Some(now.plus_ms(-ms)),
    }
}

/// Data that is older than the retention period.
#[derive(Debug, Default)]
pub struct Due {
    answers: Option<Answers>,
    acks: Option<Acks>,
    frames: Option<Frames>,
    /// Some of it was left for the next step.
    is_cut: bool,
    acks_too_large: bool,
}

#[derive(Debug)]
struct Answers {
    seqs: Vec<Seq>,
    bytes: u64,
    before: Timestamp,
    /// Everything up to this record was looked at.
    through: Seq,
}

#[derive(Debug)]
struct Acks {
    before: Timestamp,
    /// The event of the last of them.
    last: Seq,
    lines: u64,
    /// Where they end in the file.
    end: u64,
    file_end: u64,
}

#[derive(Debug)]
struct Frames {
    before: Timestamp,
    first: Seq,
    records: u64,
}

impl Due {
    pub fn is_empty(&self) -> bool {
        self.answers.as_ref().is_none_or(|due| due.seqs.is_empty())
            && self.acks.as_ref().is_none_or(|due| due.lines == 0)
            && self.frames.as_ref().is_none_or(|due| due.records == 0)
    }

    /// Whether another step has more to remove.
    pub fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// Whether old acks stay because their file is too large for a step.
    pub fn leaves_acks(&self) -> bool {
        self.acks_too_large
    }

    /// What it is, for people and programs. `by` is the command that asks.
    pub fn described(&self, by: &str) -> RetentionApplied {
        RetentionApplied {
            answers: self.answers.as_ref().map(|due| AnswersDropped {
                dropped: due.seqs.len() as u64,
                bytes: due.bytes,
                before: due.before,
            }),
            acks: self.acks.as_ref().map(|due| AcksArchived {
                moved: due.lines,
                bytes: due.end,
                before: due.before,
            }),
            frames: self.frames.as_ref().map(|due| FramesArchived {
                records: due.records,
                segments: None,
                bytes: None,
                before: due.before,
            }),
            by: by.to_owned(),
        }
    }
}

/// Finds the data that is due.
pub fn look(
    disk: &dyn Disk,
    home: &Home,
    engine: &Engine,
    policy: Policy,
    now: Timestamp,
) -> Result<Due, RetainError> {
    let log = engine.log();
    let step = policy.step;
    let mut due = Due::default();
    if let Some(before) = moment(policy.answers, now) {
        let (answers, is_cut) = answers(log, engine.state(), before, step)?;
        due.answers = Some(answers);
        due.is_cut |= is_cut;
    }
    if let Some(before) = moment(policy.acks, now) {
        let bytes = disk.stat(&home.acks())?.map_or(0, |stat| stat.len);
        due.acks_too_large = bytes > step.ack_bytes;
        if !due.acks_too_large {
            due.acks = Some(acks(disk, home, log, before)?);
        }
    }
    if let Some(before) = moment(policy.frames, now) {
        let floor = cursor(log, FRAMES_FLOOR)?.applied;
        let (first, is_cut) = first_within(log, floor.next(), before, step.records)?;
        let records = first.0.saturating_sub(floor.next().0);
        due.frames = Some(Frames { before, first, records });
        due.is_cut |= is_cut;
    }
    Ok(due)
}

/// Old responses of requests that have ended, and whether there may be more of them.
fn answers(
    log: &Reader,
    state: &State,
    before: Timestamp,
    step: StepBounds,
) -> Result<(Answers, bool), RetainError> {
    let floor = cursor(log, ANSWERS_FLOOR)?.applied;
    let mut found: Vec<(Seq, Seq)> = Vec::new();
    let mut through = floor;
    let mut is_cut = false;
    log.try_scan::<ReadError>(floor.next(), None, |entry| {
        if entry.at >= before {
            return Ok(ControlFlow::Break(()));
        }
        is_cut = found.len() >= step.answers || entry.seq.0 - floor.0 > step.records;
        if is_cut {
            return Ok(ControlFlow::Break(()));
        }
        if entry.tag == codec::MODEL_RESPONDED {
            let request = entry.event()?.request();
            found.extend(request.map(|request| (entry.seq, request)));
        }
        through = entry.seq;
        Ok(ControlFlow::Continue(()))
    })?;
    let mut answers = Answers { seqs: Vec::new(), bytes: 0, before, through };
    for (seq, request) in found {
        if state.open_request(request).is_some() {
            // An open request needs its responses. The next time begins here again, and another step
            // would find nothing new today.
            answers.through = answers.through.min(Seq(seq.0 - 1));
            is_cut = false;
        } else if !log.body_is_dropped(seq)? {
            answers.bytes += log.body_bytes(seq)?;
            answers.seqs.push(seq);
        }
    }
    Ok((answers, is_cut))
}

/// Old acks at the beginning of their file. They are in the order of the log, with its times, so the
/// first that is not old ends them.
fn acks(
    disk: &dyn Disk,
    home: &Home,
    log: &Reader,
    before: Timestamp,
) -> Result<Acks, RetainError> {
    let mut acks = Acks { before, last: Seq(0), lines: 0, end: 0, file_end: 0 };
    let mut quoted = None;
    let path = home.acks();
    let Some(stat) = disk.stat(&path)? else { return Ok(acks) };
    acks.file_end = stat.len;
    let mut lines = Lines::new(disk.open(&path, Open::Read)?, stat.len);
    while let Some((at, line)) = lines.next_line()? {
        let ack = serde_json::from_slice::<Value>(line).unwrap_or_default();
        let stamped = ack["at"].as_str().and_then(|at| parse_instant(at).ok());
        let (Some(seq), Some(stamped)) = (ack["ack_seq"].as_u64(), stamped) else { break };
        if stamped.at > before {
            break;
        }
        acks.lines += 1;
        acks.last = Seq(seq);
        quoted = ack["log_head"].as_str().and_then(|hash| hash.parse().ok());
        acks.end = (at.offset + at.len as u64 + 1).min(stat.len);
    }
    // Later only this sequence tells what is no longer in the file, so it must be of this log.
    if acks.lines > 0 && log.get(acks.last)?.map(|record| record.hash) != quoted {
        tracing::warn!(
            ack_seq = acks.last.0,
            "an old ack does not match this log; no acks are removed"
        );
        acks = Acks { last: Seq(0), lines: 0, end: 0, ..acks };
    }
    Ok(acks)
}

/// The first record from `from` on that is newer than `moment`, or the end of the log.
pub(crate) fn first_after(log: &Reader, from: Seq, moment: Timestamp) -> Result<Seq, LogError> {
    Ok(first_within(log, from, moment, u64::MAX)?.0)
}

/// The same within `max` records, and whether that bound was reached first.
fn first_within(
    log: &Reader,
    from: Seq,
    moment: Timestamp,
    max: u64,
) -> Result<(Seq, bool), LogError> {
    let mut found = log.head().0.next();
    let mut is_cut = false;
    log.scan(from, None, &mut |entry| {
        is_cut = entry.seq.0 - from.0 >= max;
        if entry.at > moment || is_cut {
            is_cut &= entry.at <= moment;
            found = entry.seq;
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    })?;
    Ok((found, is_cut))
}

/// Removes what is due, and returns what was removed.
pub fn apply(
    machine: &Machine,
    home: &Home,
    engine: &mut Engine,
    due: &Due,
    by: &str,
    now: Timestamp,
) -> Result<RetentionApplied, RetainError> {
    let mut told = due.described(by);
    if let Some(answers) = due.answers.as_ref().filter(|due| !due.seqs.is_empty()) {
        let fact = AnswersDropped {
            dropped: answers.seqs.len() as u64,
            bytes: answers.bytes,
            before: answers.before,
        };
        engine.record(Event::Retention(RetentionFact::AnswersDropped(fact)), now)?;
        engine.commit(None, CheckpointWhen::Due, &[], now)?;
        engine.store().drop_bodies(&answers.seqs)?;
    }
    if let Some(acks) = due.acks.as_ref().filter(|due| due.lines > 0) {
        move_acks(machine.disk.as_ref(), home, engine, acks, now)?;
    }
    let mut floors: Vec<(&str, Cursor)> = Vec::new();
    let floor = |applied: Seq| Cursor { applied, bytes: 0 };
    if let Some(answers) = &due.answers {
        floors.push((ANSWERS_FLOOR, floor(answers.through)));
    }
    if let Some(frames) = &due.frames {
        engine.commit(None, CheckpointWhen::Changed, &[], now)?;
        let first = frames.first.min(engine.log().applied().next());
        let moved = engine.store().archive(first, &mut |_| {})?;
        told.frames = Some(FramesArchived {
            records: moved.records,
            segments: Some(moved.segments),
            bytes: Some(moved.segment_bytes),
            before: frames.before,
        });
        let known = cursor(engine.log(), FRAMES_FLOOR)?.applied;
        floors.push((FRAMES_FLOOR, floor(Seq(known.0 + moved.records))));
    }
    let noted = engine.record(Event::Retention(RetentionFact::Applied(told.clone())), now)?;
    floors.push((LAST, floor(noted)));
    engine.commit(None, CheckpointWhen::Changed, &floors, now)?;
    Ok(told)
}

/// Moves old acks to a file of their own. They are durable there before the log records that they are
/// no longer in the file of the acks.
fn move_acks(
    disk: &dyn Disk,
    home: &Home,
    engine: &mut Engine,
    acks: &Acks,
    now: Timestamp,
) -> Result<(), RetainError> {
    let folder = home.archive();
    disk.create_dir_all(&folder)?;
    let (name, path) = (AcksMoved::file_of(acks.last), home.acks());
    forget_unfinished_moves(disk, &folder, cursor(engine.log(), ACKS_FLOOR)?.applied)?;
    let archived = folder.join(&name);
    disk.replace_with_part(&archived, &path, 0..acks.end, 0o640)?;
    let hash = hash_of(disk, &archived)?;
    let fact = AcksMoved { through: acks.last, lines: acks.lines, file: name, hash };
    engine.record(Event::Retention(RetentionFact::AcksMoved(fact)), now)?;
    let kept = Cursor { applied: acks.last, bytes: 0 };
    let cursors = [(ACKS_FLOOR, kept), (ACKS, kept)];
    engine.commit(None, CheckpointWhen::Changed, &cursors, now)?;
    disk.replace_with_part(&path, &path, acks.end..acks.file_end, 0o640)?;
    Ok(())
}

/// Removes archive files that a crash left before the log recorded their move: their acks are still in the
/// file of the acks.
fn forget_unfinished_moves(disk: &dyn Disk, folder: &Path, moved: Seq) -> std::io::Result<()> {
    let last = AcksMoved::file_of(moved);
    for name in disk.list(folder)? {
        if is_archive_of_acks(&name) && name > last {
            disk.remove_file(&folder.join(name))?;
        }
    }
    Ok(())
}

fn hash_of(disk: &dyn Disk, path: &Path) -> std::io::Result<Digest> {
    let file = disk.open(path, Open::Read)?;
    let (mut hasher, mut buffer, mut at) = (Hasher::new(), vec![0; 1 << 20], 0);
    loop {
        match file.read_at(&mut buffer, at)? {
            0 => return Ok(hasher.finish()),
            count => {
                hasher.update(&buffer[..count]);
                at += count as u64;
            }
        }
    }
}

/// The position of the event that says what a pass did.
#[cfg(feature = "cluster")]
pub(crate) fn applied_at(seq: Seq) -> (&'static str, Cursor) {
    (LAST, Cursor { applied: seq, bytes: 0 })
}

/// Removes here what a fact of the host that leads names: old answers and the place of old frames. Returns how far it
/// got, for the next checkpoint.
#[cfg(feature = "cluster")]
pub(crate) fn follow(
    follower: &mut Follower,
    fact: &RetentionFact,
) -> Result<Option<(&'static str, Cursor)>, RetainError> {
    let floor = |applied: Seq| Cursor { applied, bytes: 0 };
    match fact {
        RetentionFact::AnswersDropped(fact) => {
            let state = follower.view().state();
            let (old, _) = answers(follower.log(), state, fact.before, StepBounds::ALL)?;
            follower.store().drop_bodies(&old.seqs)?;
            Ok(Some((ANSWERS_FLOOR, floor(old.through))))
        }
        RetentionFact::Applied(RetentionApplied { frames: Some(frames), .. }) => {
            let log = follower.log().clone();
            let known = cursor(&log, FRAMES_FLOOR)?.applied;
            let (first, _) = first_within(&log, known.next(), frames.before, u64::MAX)?;
            let first = first.min(log.applied().next());
            let moved = follower.store().archive(first, &mut |_| {})?;
            Ok(Some((FRAMES_FLOOR, floor(Seq(known.0 + moved.records)))))
        }
        RetentionFact::Applied(_) | RetentionFact::AcksMoved(_) => Ok(None),
    }
}

/// When the policy was applied last, and what went; `None` before the first time.
pub fn last(log: &Reader) -> Result<Option<(Timestamp, RetentionApplied)>, EngineError> {
    let seq = cursor(log, LAST)?.applied;
    if seq == Seq(0) {
        return Ok(None);
    }
    let record = log.get(seq)?.ok_or_else(|| ReadError::unexpected(seq, "no record is there"))?;
    match record.event()? {
        Event::Retention(RetentionFact::Applied(fact)) => Ok(Some((record.at, fact))),
        _ => Err(ReadError::unexpected(seq, "it should be a pass of retention").into()),
    }
}

/// The same as `status` shows it.
pub(crate) fn last_json(log: &Reader) -> Result<Option<Value>, EngineError> {
    let shown = last(log)?.map(|(at, fact)| {
        let mut shown = json!(fact);
        shown["at"] = at.to_string().into();
        shown
    });
    Ok(shown)
}
