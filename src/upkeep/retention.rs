//! Retention: what is older than the settings keep goes. Answers of models are dropped, acks are
//! moved away, frames of the log are archived.
//!
//! Contract. Looking changes nothing. Applying is a fact of the log before anything goes, and a
//! crash anywhere leaves a home in which applying again finishes the work. Records stay: what goes
//! is bodies nobody needs to go on, lines that are written again from the log when asked for, and
//! the place of old frames. How far it went is remembered beside the tables, so that only what has
//! become old since is looked at; without that, everything is looked at again.
//!
//! Nobody may write to the acks meanwhile; whoever applies sees to that.
//!
//! A service lets go in pieces of so many records, one after the other for so long, and goes on the
//! next day. What cannot go in pieces is the file of the acks, of which the part that stays is
//! written again as a whole: a large one waits for the command.

use std::ops::ControlFlow;

use serde_json::{Value, json};

use crate::config::{ArchiveAfter, Config};
use crate::contract::ids::Seq;
use crate::contract::time::{Timestamp, parse_instant};
use crate::facts::retention::{
    AcksArchived, AcksMoved, AnswersDropped, FramesArchived, RetentionApplied, RetentionFact,
};
use crate::home::Home;
use crate::log::codec::{self, Cursor};
use crate::log::{LogError, ReadError, Reader};
use crate::os::{Disk, Machine, Open};
use crate::projections::projector::{ACKS, ACKS_FLOOR};
use crate::sequencer::engine::{CheckpointWhen, Engine, EngineError, cursor};
use crate::state::event::Event;
use crate::upstream::lines::Lines;

/// Where that note is.
const LAST: &str = "retention_last";
/// Answers before this record were looked at.
const ANSWERS_FLOOR: &str = "answers_floor";
/// Frames before this record were archived.
const FRAMES_FLOOR: &str = "frames_floor";
/// Records of one piece, for each thing that may go.
const PIECE_RECORDS: u64 = 250_000;
/// Answers of one piece.
const PIECE_ANSWERS: usize = 50_000;
/// Bytes of the largest file of acks that a service cuts in passing.
const PIECE_ACK_BYTES: u64 = 1 << 30;

/// Why nothing went.
#[derive(Debug, thiserror::Error)]
pub enum RetainError {
    /// The log.
    #[error("use the log")]
    Log(#[from] LogError),
    /// A record.
    #[error("read the log")]
    Read(#[from] ReadError),
    /// The engine.
    #[error("note what goes")]
    Engine(#[from] EngineError),
    /// The acks.
    #[error("move the acks")]
    Acks(#[from] std::io::Error),
}

/// The ages of the settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    answers: ArchiveAfter,
    acks: ArchiveAfter,
    frames: ArchiveAfter,
    piece: Piece,
}

/// As much as goes at once; what is left goes the next time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// Records looked at.
    pub records: u64,
    /// Answers.
    pub answers: usize,
    /// Bytes of the file of the acks, which is written as a whole.
    pub ack_bytes: u64,
}

impl Piece {
    const ALL: Piece = Piece { records: u64::MAX, answers: usize::MAX, ack_bytes: u64::MAX };
}

impl Policy {
    /// What the settings say.
    pub fn of(config: &Config) -> Policy {
        Policy {
            answers: config.answers_after,
            acks: config.acks_after,
            frames: config.archive_after,
            piece: Piece::ALL,
        }
    }

    /// The same, with as much at once as a service may be held up by.
    pub fn in_passing(config: &Config) -> Policy {
        let (records, answers, ack_bytes) = (PIECE_RECORDS, PIECE_ANSWERS, PIECE_ACK_BYTES);
        Policy::of(config).in_pieces(Piece { records, answers, ack_bytes })
    }

    /// The same, a piece at a time.
    pub fn in_pieces(self, piece: Piece) -> Policy {
        Policy { piece, ..self }
    }

    /// Whether everything is kept.
    pub fn keeps_all(&self) -> bool {
        [self.answers, self.acks, self.frames].iter().all(|age| *age == ArchiveAfter::Never)
    }
}

fn moment(age: ArchiveAfter, now: Timestamp) -> Option<Timestamp> {
    match age {
        ArchiveAfter::Never => None,
        ArchiveAfter::Age(ms) => Some(now.plus_ms(-ms)),
    }
}

/// What may go.
#[derive(Debug, Default)]
pub struct Due {
    answers: Option<Answers>,
    acks: Option<Acks>,
    frames: Option<Frames>,
    /// Some of it was left for the next piece.
    is_cut: bool,
    acks_too_large: bool,
}

#[derive(Debug)]
struct Answers {
    seqs: Vec<Seq>,
    bytes: u64,
    before: Timestamp,
    /// Everything up to here was looked at.
    through: Seq,
}

#[derive(Debug)]
struct Acks {
    before: Timestamp,
    /// The last event they tell of.
    last: Seq,
    lines: u64,
    /// Where they end in the file, and where the file ends.
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
    /// Whether nothing is.
    pub fn is_empty(&self) -> bool {
        self.answers.as_ref().is_none_or(|due| due.seqs.is_empty())
            && self.acks.as_ref().is_none_or(|due| due.lines == 0)
            && self.frames.as_ref().is_none_or(|due| due.records == 0)
    }

    /// Whether there is more to let go of as soon as this went.
    pub fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// Whether acks stay because their file is too large to be cut in passing.
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

/// Looks for what may go.
pub fn look(
    disk: &dyn Disk,
    home: &Home,
    engine: &Engine,
    policy: Policy,
    now: Timestamp,
) -> Result<Due, RetainError> {
    let log = engine.log();
    let piece = policy.piece;
    let mut due = Due::default();
    if let Some(before) = moment(policy.answers, now) {
        let (answers, is_cut) = answers(engine, before, piece)?;
        due.answers = Some(answers);
        due.is_cut |= is_cut;
    }
    if let Some(before) = moment(policy.acks, now) {
        let bytes = disk.stat(&home.acks())?.map_or(0, |stat| stat.len);
        due.acks_too_large = bytes > piece.ack_bytes;
        if !due.acks_too_large {
            due.acks = Some(acks(disk, home, log, before)?);
        }
    }
    if let Some(before) = moment(policy.frames, now) {
        let floor = cursor(log, FRAMES_FLOOR)?.applied;
        let (first, is_cut) = first_within(log, floor.next(), before, piece.records)?;
        let records = first.0.saturating_sub(floor.next().0);
        due.frames = Some(Frames { before, first, records });
        due.is_cut |= is_cut;
    }
    Ok(due)
}

/// Answers of requests that ended, and the bytes they take; whether there may be more of them.
fn answers(
    engine: &Engine,
    before: Timestamp,
    piece: Piece,
) -> Result<(Answers, bool), RetainError> {
    let log = engine.log();
    let floor = cursor(log, ANSWERS_FLOOR)?.applied;
    let mut found: Vec<(Seq, Seq)> = Vec::new();
    let mut through = floor;
    let mut is_cut = false;
    let mut failure = None;
    log.scan(floor.next(), None, &mut |entry| {
        if entry.at >= before {
            return ControlFlow::Break(());
        }
        is_cut = found.len() >= piece.answers || entry.seq.0 - floor.0 > piece.records;
        if is_cut {
            return ControlFlow::Break(());
        }
        if entry.tag == codec::MODEL_RESPONDED {
            match codec::decode(entry.tag, entry.version, entry.payload) {
                Ok(event) => found.extend(event.request().map(|request| (entry.seq, request))),
                Err(source) => {
                    failure = Some(ReadError::Event { seq: entry.seq, source });
                    return ControlFlow::Break(());
                }
            }
        }
        through = entry.seq;
        ControlFlow::Continue(())
    })?;
    if let Some(error) = failure {
        return Err(error.into());
    }
    let mut answers = Answers { seqs: Vec::new(), bytes: 0, before, through };
    for (seq, request) in found {
        if engine.state().open_request(request).is_some() {
            // Its turn comes; nothing after it is forgotten, and nothing further is gained today.
            answers.through = answers.through.min(Seq(seq.0 - 1));
            is_cut = false;
        } else if !log.body_is_dropped(seq)? {
            answers.bytes += log.body_bytes(seq)?;
            answers.seqs.push(seq);
        }
    }
    Ok((answers, is_cut))
}

/// Old acks at the beginning of their file. They stand in the order of the log, with its times: the
/// first that is not old ends the old ones.
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
    // What is no longer in the file is known by this number alone: it has to be the log's.
    if acks.lines > 0 && log.get(acks.last)?.map(|record| record.hash) != quoted {
        tracing::warn!(ack_seq = acks.last.0, "an old ack is not of this log: all of them stay");
        acks = Acks { last: Seq(0), lines: 0, end: 0, ..acks };
    }
    Ok(acks)
}

/// The first record from one on that is stamped after a moment, or the end.
pub fn first_after(log: &Reader, from: Seq, moment: Timestamp) -> Result<Seq, LogError> {
    Ok(first_within(log, from, moment, u64::MAX)?.0)
}

/// The same, no further than so many records; whether that ended it.
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

/// Lets go of what is due, and says what went.
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
            segments: Some(moved.segments as u64),
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

/// They are safe under their other name before the log forgets to write them here.
fn move_acks(
    disk: &dyn Disk,
    home: &Home,
    engine: &mut Engine,
    acks: &Acks,
    now: Timestamp,
) -> Result<(), RetainError> {
    let folder = home.run().join("archive");
    disk.create_dir_all(&folder)?;
    let name = format!("acks-to-{:020}.jsonl", acks.last.0);
    let path = home.acks();
    disk.replace_with_part(&folder.join(&name), &path, 0..acks.end, 0o640)?;
    let fact = AcksMoved { through: acks.last, lines: acks.lines, file: name };
    engine.record(Event::Retention(RetentionFact::AcksMoved(fact)), now)?;
    let kept = Cursor { applied: acks.last, bytes: 0 };
    let cursors = [(ACKS_FLOOR, kept), (ACKS, kept)];
    engine.commit(None, CheckpointWhen::Changed, &cursors, now)?;
    disk.replace_with_part(&path, &path, acks.end..acks.file_end, 0o640)?;
    Ok(())
}

/// When the policy was applied last, and what went; `None` before the first time.
pub fn last(log: &Reader) -> Result<Option<(Timestamp, RetentionApplied)>, EngineError> {
    let seq = cursor(log, LAST)?.applied;
    if seq == Seq(0) {
        return Ok(None);
    }
    let record = log.get(seq)?.ok_or_else(|| ReadError::unexpected(seq, "no record is there"))?;
    let event = codec::decode(record.tag, record.version, &record.payload)
        .map_err(|source| ReadError::Event { seq, source })?;
    match event {
        Event::Retention(RetentionFact::Applied(fact)) => Ok(Some((record.at, fact))),
        _ => Err(ReadError::unexpected(seq, "it should be a pass of retention").into()),
    }
}

/// The same as `status` shows it.
pub fn last_json(log: &Reader) -> Result<Option<Value>, EngineError> {
    let shown = last(log)?.map(|(at, fact)| {
        let mut shown = json!(fact);
        shown["at"] = at.to_string().into();
        shown
    });
    Ok(shown)
}
