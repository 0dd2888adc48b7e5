//! One agent run in memory: its compactor as of its last event, and what the next commit will hold.

use std::collections::BTreeSet;

use serde_json::Value;

use super::super::build::BuiltSnapshot;
use super::super::compactor::Compactor;
use super::super::lines::{self, ParsedLine};
use super::super::previous::Previous;
use super::super::reader::Repeats;
use super::super::resume::{restore, sidecar};
use super::super::snapshot::{FailureAction, Snapshot};
use super::super::spill::SpillFile;
use super::super::text::SharedText;
use super::facts::{RunHead, compared, forgotten_on, head_of, taken_of};
use super::*;
use crate::contract::hash::{Digest, sha256};
use crate::contract::json::jcs;
use crate::facts::agent_run::{
    AgentRunFact, CompactionFailed, EventsAppended, FileMark, SnapshotTaken,
};
use crate::state::event::{Event, Note};

pub(super) struct AgentRun {
    log: Reader,
    run_id: SharedText,
    head: RunHead,
    compactor: Compactor,
    /// Event ids that producers gave. Read from the log when the first such id appears.
    repeats: Option<Repeats>,
    /// Its batches: first event and position of each, in order. Read when first needed.
    batches: Option<Vec<(u64, Seq)>>,
    /// The batch that was compared last, by its first event.
    looked_at: Option<(u64, Vec<String>)>,
    /// True once the events after the snapshot in force are folded.
    caught_up: bool,
}

/// What the next commit will hold.
#[derive(Default)]
struct PendingCommit {
    first_seq: u64,
    count: u64,
    lines: String,
    source: Option<FileMark>,
    snapshots: Vec<(SnapshotTaken, Vec<u8>)>,
    failed: Option<(CompactionFailed, Vec<u8>)>,
    bytes: usize,
}

impl PendingCommit {
    fn line(&mut self, seq: u64, text: &str) {
        if self.count == 0 {
            self.first_seq = seq;
        }
        self.count += 1;
        self.bytes += text.len() + 1;
        self.lines.push_str(text);
        self.lines.push('\n');
    }

    fn is_full(&self) -> bool {
        self.count >= BATCH_LINES_MAX || self.bytes >= COMMIT_BYTES
    }

    fn is_empty(&self) -> bool {
        self.count == 0 && self.snapshots.is_empty() && self.failed.is_none()
    }

    /// The facts and the bytes beside them. `previous` of each is still to be filled in.
    fn into_parts(self, run_id: &str) -> (Vec<AgentRunFact>, Vec<Vec<u8>>) {
        let (mut facts, mut bodies) = (Vec::new(), Vec::new());
        if self.count > 0 {
            facts.push(AgentRunFact::EventsAppended(EventsAppended {
                run_id: run_id.to_owned(),
                first_seq: self.first_seq,
                last_seq: self.first_seq + self.count - 1,
                previous: Seq(0),
                sha256: sha256(&self.lines),
                source: self.source,
            }));
            bodies.push(self.lines.into_bytes());
        }
        for (fact, body) in self.snapshots {
            facts.push(AgentRunFact::SnapshotTaken(fact));
            bodies.push(body);
        }
        if let Some((fact, body)) = self.failed {
            facts.push(AgentRunFact::CompactionFailed(fact));
            bodies.push(body);
        }
        (facts, bodies)
    }
}

/// Fills in which record came before each, once the position of the first is known.
fn chained(mut facts: Vec<AgentRunFact>, head: &RunHead, first: Seq) -> Vec<AgentRunFact> {
    let mut snapshot = head.snapshot;
    for (at, fact) in (first.0..).zip(&mut facts) {
        match fact {
            AgentRunFact::EventsAppended(fact) => fact.previous = head.batch,
            AgentRunFact::SnapshotTaken(fact) => {
                fact.previous = std::mem::replace(&mut snapshot, Seq(at))
            }
            AgentRunFact::CompactionFailed(_) => {}
        }
    }
    facts
}

fn note((fact, body): (AgentRunFact, Vec<u8>)) -> Note {
    Note::with_body(Event::AgentRun(Box::new(fact)), body)
}

impl AgentRun {
    /// Restores a run from its snapshot in force. The first append folds the events after it.
    pub(super) fn open(
        log: &Reader,
        run_id: &str,
        thresholds: Thresholds,
    ) -> Result<AgentRun, AppendEventsError> {
        let head = head_of(log, run_id)?;
        if head.derived {
            return Err(AppendEventsError::Derived { run_id: run_id.to_owned() });
        }
        if let Some(day) = forgotten_on(log, run_id, &head)? {
            return Err(AppendEventsError::Forgotten { run_id: run_id.to_owned(), day });
        }
        let compactor = match head.snapshot {
            Seq(0) => Compactor::new(thresholds),
            at => restored(log, at, thresholds)?,
        };
        Ok(AgentRun {
            log: log.clone(),
            run_id: SharedText::from(run_id),
            head,
            compactor,
            repeats: None,
            batches: None,
            looked_at: None,
            caught_up: false,
        })
    }

    pub(super) fn run_id(&self) -> &str {
        &self.run_id
    }

    pub(super) fn head(&self) -> &RunHead {
        &self.head
    }

    pub(crate) fn retune(&mut self, thresholds: Thresholds) {
        self.compactor.retune(thresholds);
    }

    pub(super) fn warnings(&self, warnings: &mut Vec<String>) {
        let notices = &self.compactor.fold_state().notices;
        let repeats = self.repeats.as_ref().map_or(0, |repeats| repeats.count);
        for (count, what) in [
            (notices.unknown_types, "events of unknown types were left in the log, unfolded"),
            (notices.mismatched_evidence, "evidence ids do not match their chunk and span"),
            (repeats, "events repeat an earlier event_id and were not counted"),
        ] {
            if count > 0 {
                warnings.push(format!("{count} {what}"));
            }
        }
    }

    pub(super) fn append(
        &mut self,
        committer: &mut dyn NoteCommitter,
        text: EventLines<'_>,
        done: &mut AppendReport,
    ) -> Result<(), AppendEventsError> {
        self.catch_up(committer, done)?;
        let mut staged = PendingCommit::default();
        for line in lines::parse(text.text.as_bytes(), text.first_line) {
            let written = &text.text[line.place.clone()];
            if let Err(error) = self.step(committer, &mut staged, line, written, done) {
                // Lines before a bad line are kept. After a failed commit no line is kept.
                if error.is_input() {
                    self.commit(committer, &mut staged, done)?;
                }
                return Err(error);
            }
            if staged.is_full() {
                self.commit(committer, &mut staged, done)?;
            }
        }
        staged.source = text.source.cloned();
        self.commit(committer, &mut staged, done)?;
        // A failed gate stays failed: giving the known lines again does not pass it.
        if done.failed.is_none() { self.refuse_if_stopped() } else { Ok(()) }
    }

    pub(super) fn snapshot_now(
        &mut self,
        committer: &mut dyn NoteCommitter,
        done: &mut AppendReport,
    ) -> Result<(), AppendEventsError> {
        self.catch_up(committer, done)?;
        self.refuse_if_stopped()?;
        let mut staged = PendingCommit::default();
        if self.compactor.has_news() {
            self.take(committer, &mut staged, done)?;
        }
        self.commit(committer, &mut staged, done)
    }

    fn step(
        &mut self,
        committer: &mut dyn NoteCommitter,
        staged: &mut PendingCommit,
        ParsedLine { number: line, event, digest, .. }: ParsedLine,
        text: &str,
        done: &mut AppendReport,
    ) -> Result<(), AppendEventsError> {
        let event = event.map_err(|source| AppendEventsError::Line { line, source })?;
        let last = self.head.last_seq + staged.count;
        if event.run_id == self.run_id && event.seq <= last {
            self.commit(committer, staged, done)?;
            self.compare(line, &event, text)?;
            done.repeated += 1;
            return Ok(());
        }
        self.refuse_if_stopped()?;
        let event = self.admit(line, event, digest)?;
        if self.compactor.due_before(&event) && !self.take(committer, staged, done)? {
            return self.refuse_if_stopped();
        }
        self.compactor.fold(&event).map_err(|source| {
            let event = event.to_string();
            AppendEventsError::Input { line, event, source }
        })?;
        staged.line(event.seq, text.trim_end());
        done.appended += 1;
        if self.compactor.due() {
            self.take(committer, staged, done)?;
        }
        Ok(())
    }

    fn refuse_if_stopped(&self) -> Result<(), AppendEventsError> {
        match &self.head.stopped {
            Some(why) => {
                let (run_id, why) = (self.run_id.to_string(), why.clone());
                Err(AppendEventsError::Stopped { run_id, why })
            }
            None => Ok(()),
        }
    }

    /// Folds the events after the snapshot in force and takes the snapshots due among them. A crash
    /// may have come between an event and its snapshot, and the thresholds may have changed.
    fn catch_up(
        &mut self,
        committer: &mut dyn NoteCommitter,
        done: &mut AppendReport,
    ) -> Result<(), AppendEventsError> {
        if self.caught_up || self.head.stopped.is_some() {
            self.caught_up = true;
            return Ok(());
        }
        let mut staged = PendingCommit::default();
        for (_, record) in batches_after(&self.log, &self.head, self.head.to_seq)? {
            for (event, digest) in events_of(&self.log, record)? {
                if event.seq <= self.compactor.fold_state().seq {
                    continue;
                }
                let event = self.admit(event.seq, event, digest)?;
                if self.compactor.due_before(&event) && !self.take(committer, &mut staged, done)? {
                    return Ok(());
                }
                self.compactor
                    .fold(&event)
                    .map_err(|error| ReadError::unexpected(record, error))?;
                if self.compactor.due() && !self.take(committer, &mut staged, done)? {
                    return Ok(());
                }
                if staged.is_full() {
                    self.commit(committer, &mut staged, done)?;
                }
            }
        }
        self.commit(committer, &mut staged, done)?;
        self.caught_up = true;
        Ok(())
    }

    /// Recognizes a repeated event by the id that its producer gave it.
    fn admit(
        &mut self,
        line: u64,
        event: RunEvent,
        digest: Option<Digest>,
    ) -> Result<RunEvent, AppendEventsError> {
        let Some(id) = event.given_id.clone() else { return Ok(event) };
        if self.repeats.is_none() {
            let mut repeats = Repeats::default();
            for (_, record) in batches_after(&self.log, &self.head, 0)? {
                for (earlier, digest) in events_of(&self.log, record)? {
                    if earlier.seq < event.seq {
                        let known = repeats.admit(earlier, digest);
                        known.map_err(|id| {
                            ReadError::unexpected(record, format!("id {id} twice"))
                        })?;
                    }
                }
            }
            repeats.count = 0;
            self.repeats = Some(repeats);
        }
        let Some(repeats) = &mut self.repeats else { return Ok(event) };
        repeats
            .admit(event, digest)
            .map_err(|_| AppendEventsError::IdReused { line, id: id.to_string() })
    }

    /// Checks that an event with a known `seq` equals the stored one.
    fn compare(
        &mut self,
        line: u64,
        event: &RunEvent,
        text: &str,
    ) -> Result<(), AppendEventsError> {
        let seq = event.seq;
        let differs = |what: String| AppendEventsError::Differs {
            line,
            run_id: self.run_id.to_string(),
            seq,
            what,
        };
        let missing = || differs("the log does not hold it".to_owned());
        if self.batches.is_none() {
            self.batches = Some(batches_after(&self.log, &self.head, 0)?);
        }
        let batches = self.batches.as_deref().unwrap_or_default();
        let after = batches.partition_point(|(first, _)| *first <= seq);
        let Some((first, record)) = after.checked_sub(1).map(|at| batches[at]) else {
            return Err(missing());
        };
        if self.looked_at.as_ref().is_none_or(|(looked_at, _)| *looked_at != first) {
            self.looked_at = Some((first, lines_of(&self.log, record)?));
        }
        let stored =
            self.looked_at.as_ref().and_then(|(_, lines)| lines.get((seq - first) as usize));
        let Some(stored) = stored else { return Err(missing()) };
        if stored == text.trim_end() {
            return Ok(());
        }
        if let Some(why) = &self.head.stopped
            && seq + 1 >= self.head.last_seq
        {
            // The producer continued after the event at which the checks stopped the run.
            let (run_id, why) = (self.run_id.to_string(), why.clone());
            return Err(AppendEventsError::Stopped { run_id, why });
        }
        let unreadable = |error| ReadError::unexpected(record, error);
        let stored: Value = serde_json::from_str(stored).map_err(unreadable)?;
        let given: Value = serde_json::from_str(text).map_err(|error| AppendEventsError::Line {
            line,
            source: EventError::Envelope(error),
        })?;
        match differing_member(&stored, &given) {
            None => Ok(()),
            Some(member) => Err(differs(format!("its `{member}` differs"))),
        }
    }

    /// Takes a snapshot. False when the checks stopped the run instead.
    fn take(
        &mut self,
        committer: &mut dyn NoteCommitter,
        staged: &mut PendingCommit,
        done: &mut AppendReport,
    ) -> Result<bool, AppendEventsError> {
        let Some(mut built) = self.compactor.build(BuildPass::First, SnapshotForm::Full) else {
            return Ok(true);
        };
        let retried = !built.snapshot.passes();
        if retried {
            self.commit(committer, staged, done)?;
            let again = self.reread()?;
            let Some(second) = again.build(BuildPass::Second, SnapshotForm::Full) else {
                return Ok(true);
            };
            self.compactor = again;
            built = second;
        }
        if !built.snapshot.passes() {
            self.stop(committer, &built, done)?;
            return Ok(false);
        }
        let covered = staged.snapshots.last().map_or(self.head.to_seq, |(fact, _)| fact.to_seq);
        let (head, hash) = self.log.head();
        let log_head = Some(format!("{}:{}", head.0, hash.hex()));
        let sidecar = sidecar(&self.compactor, &built, covered + 1, log_head);
        let to_seq = self.compactor.fold_state().seq;
        let body = SnapshotBody::of(&built, Some(sidecar)).to_bytes();
        staged.bytes += body.len();
        staged.snapshots.push((taken_of(&built, to_seq, Seq(0)), body));
        done.snapshots.push(TakenSnapshot {
            snapshot_id: built.snapshot.snapshot_id.clone(),
            sequence: built.snapshot.sequence,
            to_seq,
            bytes: built.bytes.len() as u64,
            written: true,
            retried,
        });
        self.compactor.adopt(built.previous);
        Ok(true)
    }

    /// Folds the run again from the log, with every snapshot in force.
    fn reread(&self) -> Result<Compactor, ReadError> {
        let thresholds = self.compactor.thresholds();
        let until = self.compactor.fold_state().seq;
        let mut cuts = snapshots_of(&self.log, &self.head)?.into_iter().peekable();
        let mut again = Compactor::new(thresholds);
        refold(&self.log, &self.head, &mut again, &mut |again| {
            let here = again.fold_state().seq;
            while let Some((record, _)) = cuts.next_if(|(_, fact)| fact.to_seq == here) {
                again.adopt(Previous::of(&stored_snapshot(&self.log, record)?.0));
            }
            Ok(here < until)
        })?;
        Ok(again)
    }

    fn stop(
        &mut self,
        committer: &mut dyn NoteCommitter,
        built: &BuiltSnapshot,
        done: &mut AppendReport,
    ) -> Result<(), AppendEventsError> {
        let events = stop_events(&built.snapshot, self.compactor.fold_state());
        let failed = built.snapshot.failed_checks();
        let message: Vec<String> =
            failed.map(|check| format!("{} ({})", check.name, check.message)).collect();
        let fact = CompactionFailed {
            run_id: self.run_id.to_string(),
            sequence: built.snapshot.sequence,
            after_seq: self.compactor.fold_state().seq,
            message: format!("snapshot {} failed {}", built.snapshot.sequence, message.join(", ")),
            covers: None,
            resume_from: None,
        };
        let mut staged =
            PendingCommit { failed: Some((fact, built.bytes.clone())), ..PendingCommit::default() };
        for event in &events {
            staged.line(event.seq, event.to_line().trim_end());
        }
        let lines = staged.lines.lines().filter_map(|line| serde_json::from_str(line).ok());
        let lines: Vec<Value> = lines.collect();
        done.failed = Some(serde_json::json!({"snapshot": built.snapshot, "events": lines}));
        self.commit(committer, &mut staged, done)
    }

    fn commit(
        &mut self,
        committer: &mut dyn NoteCommitter,
        staged: &mut PendingCommit,
        done: &mut AppendReport,
    ) -> Result<(), AppendEventsError> {
        if staged.is_empty() {
            return Ok(());
        }
        let (facts, bodies) = std::mem::take(staged).into_parts(&self.run_id);
        let (noted, head) = (facts.clone(), self.head.clone());
        let make =
            move |first| chained(noted, &head, first).into_iter().zip(bodies).map(note).collect();
        let first = committer.note(Box::new(make)).map_err(AppendEventsError::Commit)?;
        for (at, fact) in (first.0..).zip(chained(facts, &self.head, first)) {
            if let (AgentRunFact::EventsAppended(fact), Some(batches)) = (&fact, &mut self.batches)
            {
                batches.push((fact.first_seq, Seq(at)));
            }
            if matches!(fact, AgentRunFact::SnapshotTaken(_)) {
                done.noted = at;
            }
            self.head.apply(Seq(at), &fact);
        }
        Ok(())
    }
}

/// A compactor right after a stored snapshot.
fn restored(log: &Reader, at: Seq, thresholds: Thresholds) -> Result<Compactor, ReadError> {
    let (snapshot, fact, body) = stored_snapshot(log, at)?;
    let missing = || ReadError::unexpected(at, "the snapshot has no sidecar");
    let sidecar = body.sidecar.as_ref().ok_or_else(missing)?;
    let links = spill_chain(log, &fact, &snapshot, &body)?;
    restore(&snapshot, sidecar, links, thresholds).map_err(|error| ReadError::unexpected(at, error))
}

fn stored_snapshot(
    log: &Reader,
    at: Seq,
) -> Result<(Snapshot, SnapshotTaken, SnapshotBody), ReadError> {
    let (fact, body) = snapshot_at(log, at)?;
    let snapshot = serde_json::from_str(&body.snapshot);
    Ok((snapshot.map_err(|error| ReadError::unexpected(at, error))?, fact, body))
}

/// The files of a spill chain, oldest first. They are stored with earlier snapshots of the run.
fn spill_chain(
    log: &Reader,
    fact: &SnapshotTaken,
    snapshot: &Snapshot,
    body: &SnapshotBody,
) -> Result<Vec<SpillFile>, ReadError> {
    let mut wanted = snapshot.ext.as_ref().and_then(|ext| ext.spill.clone());
    let (mut file, mut earlier) = (body.spill.clone(), fact.previous);
    let mut links = Vec::new();
    while let Some(link) = wanted.take() {
        let at = earlier;
        let missing = || ReadError::unexpected(at, format!("{} is missing", link.artifact));
        let found = loop {
            match file.take().filter(|file| file.name == link.artifact) {
                Some(found) => break found,
                None if earlier == Seq(0) => return Err(missing()),
                None => {
                    let (fact, body) = snapshot_at(log, earlier)?;
                    (file, earlier) = (body.spill, fact.previous);
                }
            }
        };
        if sha256(&found.text).hex() != link.sha256 {
            return Err(ReadError::unexpected(at, format!("{} is another file", link.artifact)));
        }
        let read: SpillFile =
            serde_json::from_str(&found.text).map_err(|error| ReadError::unexpected(at, error))?;
        wanted.clone_from(&read.previous);
        links.push(read);
    }
    links.reverse();
    Ok(links)
}

/// The batches with events after `seq`, in order: first event and position.
fn batches_after(log: &Reader, head: &RunHead, seq: u64) -> Result<Vec<(u64, Seq)>, ReadError> {
    let mut found = Vec::new();
    let (mut at, mut last) = (head.batch, head.last_seq);
    while at != Seq(0) && last > seq {
        let AgentRunFact::EventsAppended(fact) = fact_at(log, at)? else {
            return Err(ReadError::unexpected(at, "not a batch of run events"));
        };
        found.push((fact.first_seq, at));
        (at, last) = (fact.previous, fact.first_seq.saturating_sub(1));
    }
    found.reverse();
    Ok(found)
}

fn snapshots_of(log: &Reader, head: &RunHead) -> Result<Vec<(Seq, SnapshotTaken)>, ReadError> {
    let mut found = Vec::new();
    let mut at = head.snapshot;
    while at != Seq(0) {
        let AgentRunFact::SnapshotTaken(fact) = fact_at(log, at)? else {
            return Err(ReadError::unexpected(at, "not a snapshot"));
        };
        let previous = fact.previous;
        found.push((at, fact));
        at = previous;
    }
    found.reverse();
    Ok(found)
}

fn lines_of(log: &Reader, record: Seq) -> Result<Vec<String>, ReadError> {
    let (_, body) = batch_at(log, record)?;
    let text = String::from_utf8(body).map_err(|error| ReadError::unexpected(record, error))?;
    Ok(text.lines().map(str::to_owned).collect())
}

/// The events of a batch. An event with a producer's id has a digest.
fn events_of(log: &Reader, record: Seq) -> Result<Vec<(RunEvent, Option<Digest>)>, ReadError> {
    let (_, body) = batch_at(log, record)?;
    let event = |line: ParsedLine| match line.event {
        Ok(event) => Ok((event, line.digest)),
        Err(error) => Err(ReadError::unexpected(record, error)),
    };
    lines::parse(&body, 1).into_iter().map(event).collect()
}

/// The first member in which two lines differ, whatever the order and the spacing of their members.
fn differing_member<'a>(stored: &'a Value, given: &'a Value) -> Option<&'a str> {
    let members = |line: &'a Value| line.as_object().into_iter().flatten().map(|(name, _)| name);
    let names: BTreeSet<&String> = members(stored).chain(members(given)).collect();
    let differs = |name: &&&String| {
        let canonical = |line: &Value| line.get(name.as_str()).map(jcs);
        canonical(stored) != canonical(given)
    };
    names.iter().find(differs).map(|name| name.as_str())
}

/// Folds a run's events from the first one. `at` is called before each event and at the end; it
/// returns whether to continue.
fn refold(
    log: &Reader,
    head: &RunHead,
    compactor: &mut Compactor,
    at: &mut dyn FnMut(&mut Compactor) -> Result<bool, ReadError>,
) -> Result<(), ReadError> {
    let mut repeats = Repeats::default();
    for (_, record) in batches_after(log, head, 0)? {
        for (event, digest) in events_of(log, record)? {
            if !at(compactor)? {
                return Ok(());
            }
            let event = repeats.admit(event, digest);
            let event =
                event.map_err(|id| ReadError::unexpected(record, format!("id {id} twice")))?;
            compactor.fold(&event).map_err(|error| ReadError::unexpected(record, error))?;
        }
    }
    at(compactor).map(|_| ())
}

/// Rebuilds every snapshot of a run from its events and compares it with the log and with the
/// files.
pub(super) fn verify(
    log: &Reader,
    head: &RunHead,
    files: &SnapshotStore,
) -> Result<(u64, Vec<Difference>), VerifyError> {
    let snapshots = snapshots_of(log, head)?;
    let count = snapshots.len() as u64;
    let (mut differences, mut failure) = (Vec::new(), None);
    let mut cuts = snapshots.into_iter().peekable();
    let mut compactor = Compactor::new(Thresholds::default());
    refold(log, head, &mut compactor, &mut |compactor| {
        let here = compactor.fold_state().seq;
        while let Some((record, fact)) = cuts.next_if(|(_, fact)| fact.to_seq == here) {
            let (snapshot, _, body) = stored_snapshot(log, record)?;
            let attempt = match snapshot.validation.failure_action_taken {
                FailureAction::Retry => BuildPass::Second,
                FailureAction::None | FailureAction::SystemError => BuildPass::First,
            };
            let again = compactor.build(attempt, SnapshotForm::Full);
            let again = again.map(|built| SnapshotBody::of(&built, None));
            differences.extend(compared(fact.sequence, &body, again.as_ref()));
            match files.differences(&fact, &body) {
                Ok(found) => differences.extend(found),
                Err(error) => {
                    failure = Some(error);
                    return Ok(false);
                }
            }
            compactor.adopt(Previous::of(&snapshot));
        }
        Ok(true)
    })?;
    if let Some(error) = failure {
        return Err(error.into());
    }
    for (_, fact) in cuts {
        let problem = format!("it covers seq {}, which the run does not have", fact.to_seq);
        let file = format!("{}.snapshot.json", fact.sequence);
        differences.push(Difference::new(file, problem));
    }
    Ok((count, differences))
}
