//! The run of a service over a log that is written by hand.

use std::path::Path;
use std::sync::Arc;

use serde_json::json;

use super::*;
use crate::compaction::agent_runs::MakeNotes;
use crate::compaction::agent_runs::facts::snapshot_at;
use crate::compaction::evidence::{Span, SpanUnit, evidence_id};
use crate::contract::hash::{Digest, sha256};
use crate::contract::vocabulary::{Stream, SummaryKind, Urgency, Warnings};
use crate::facts::attempt::{SourcePlace, SourcePlaces};
use crate::log::{Commit, NewRecord, Options, Store};
use crate::os::Disk;
use crate::os::sim::SimDisk;
use crate::state::event::{AckHead, SummaryPointer, TakenRequest};

const AT: Timestamp = Timestamp(1_772_359_200_000);

/// A log and its only writer.
struct Log {
    store: Store,
    requests: u64,
}

impl Log {
    fn new() -> Log {
        let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
        let path = Path::new("/log.redb");
        let store = Store::open(disk, path, Options::beside(path), [7; 16], &mut |_| {}).unwrap();
        let mut log = Log { store, requests: 0 };
        log.begin("run_x");
        log
    }

    fn begin(&mut self, session: &str) {
        let started = Event::SessionStarted {
            run_id: session.to_owned(),
            command: "serve".to_owned(),
            version: "1".to_owned(),
            config: Digest::ZERO,
            host: Box::default(),
        };
        self.write(started, None);
    }

    fn next(&self) -> Seq {
        self.store.reader().head().0.next()
    }

    fn write(&mut self, event: Event, body: Option<Vec<u8>>) {
        let (tag, version, payload) = codec::encode(&event);
        let records = [NewRecord { at: AT, tag, version, payload, body }];
        let commit = Commit { first: self.next(), records: &records, mark: b"", checkpoint: None };
        self.store.append(commit).unwrap();
    }

    /// A request that reads one chunk and becomes a summary of it.
    fn summary(&mut self) {
        self.requests += 1;
        let (request, attempt) = (Seq(1_000_000 + self.requests), 1);
        let chunk = format!("chk_{}", self.requests);
        let summary = SummaryPointer {
            summary_id: format!("sum_{:032}", self.requests),
            stream: Stream::Sessions,
            day: "2026-03-01".parse().unwrap(),
        };
        let mut sources = Box::<SourcePlaces>::default();
        let (id, line, offset, len, text_bytes) = (chunk.clone(), 1, 0, 1, 1);
        sources.push("f", SourcePlace { id, line, offset, len, text_bytes });
        let resolved = Event::InputResolved {
            request,
            attempt,
            summary: summary.clone(),
            warnings: Warnings::default(),
            input: Box::default(),
            sources,
        };
        self.write(resolved, None);
        let span = Span { start: 0, end: 5, unit: SpanUnit::Utf8Byte };
        let id = evidence_id("corp:x", &chunk, span, None);
        let item = json!({"outputs": {"evidence_refs": [{
            "evidence_id": id, "namespace": "corp:x", "chunk_id": chunk, "span": span,
            "quote": "words", "quote_sha256": null,
        }]}});
        let body = item.to_string().into_bytes();
        let (key, line, offset) = ("k".to_owned(), self.requests, self.requests);
        let head = AckHead { request_id: format!("r{line}"), key, line, offset };
        let produced = Event::SummaryProduced {
            request,
            attempt,
            head,
            summary,
            body_sha256: sha256(&body),
            warnings: Warnings::default(),
            supersedes: None,
            input: Box::default(),
            provenance: None,
        };
        self.write(produced, Some(body));
    }
}

impl NoteCommitter for Log {
    fn note(&mut self, make: MakeNotes) -> Result<Seq, String> {
        let first = self.next();
        for note in make(first) {
            self.write(note.event, note.body);
        }
        Ok(first)
    }
}

/// The snapshots in the log, oldest first.
fn snapshots(log: &Reader) -> Vec<Snapshot> {
    let mut found = Vec::new();
    scan_facts(log, Seq(1), None, &mut |seq, _, fact| {
        if matches!(fact, AgentRunFact::SnapshotTaken(_)) {
            found.push(serde_json::from_str(&snapshot_at(log, seq)?.1.snapshot).unwrap());
        }
        Ok(())
    })
    .unwrap();
    found
}

/// Facts of failed segments in the log.
fn failures(log: &Reader) -> Vec<String> {
    let mut found = Vec::new();
    scan_facts(log, Seq(1), None, &mut |_, _, fact| {
        if let AgentRunFact::CompactionFailed(fact) = fact {
            found.push(format!("{}: {}", fact.run_id, fact.message));
        }
        Ok(())
    })
    .unwrap();
    found
}

fn spoil(own: &mut OwnRun) {
    let (_, run) = own.follow.as_mut().unwrap().run.as_mut().unwrap();
    run.forget_evidence();
}

/// The same life twice: `summaries`, each followed by what `between` does with the run.
fn lives(summaries: u64, every: u64, between: &mut dyn FnMut(u64, &mut OwnRun, &mut Log)) -> Log {
    let mut log = Log::new();
    let thresholds = Thresholds { event_threshold: every, step_fallback: u64::MAX };
    let mut own = OwnRun::new(&log.store.reader(), thresholds);
    for number in 1..=summaries {
        log.summary();
        own.catch_up(&mut log).unwrap();
        between(number, &mut own, &mut log);
    }
    own.close(&mut log).unwrap();
    log
}

#[test]
fn a_snapshot_from_damaged_memory_is_built_again_from_the_log() {
    let clean = lives(70, 12, &mut |_, _, _| {});
    let expected = snapshots(&clean.store.reader());
    assert!(expected.len() > 15, "{}", expected.len());
    // Right before a snapshot by its threshold, before one on demand, before the end of a segment.
    for spoilt in [3, 7, 11, 63, 66, 70] {
        let log = lives(70, 12, &mut |number, own, _| {
            if number == spoilt {
                spoil(own);
            }
        });
        assert_eq!(failures(&log.store.reader()), Vec::<String>::new(), "{spoilt}");
        let mut found = snapshots(&log.store.reader());
        let retried = |one: &Snapshot| one.validation.failure_action_taken == FailureAction::Retry;
        assert!(found.iter().any(retried), "{spoilt}");
        for one in &mut found {
            one.validation.failure_action_taken = FailureAction::None;
        }
        assert_eq!(found, expected, "{spoilt}");
    }
}

#[test]
fn a_snapshot_on_demand_is_read_again_too() {
    let mut shown = Vec::new();
    for spoilt in [false, true] {
        let log = lives(20, u64::MAX, &mut |number, own, log| {
            if number % 6 == 0 {
                if spoilt {
                    spoil(own);
                }
                assert!(own.snapshot_now(log).unwrap().is_some());
            }
        });
        let found = snapshots(&log.store.reader());
        shown
            .push(found.into_iter().map(|one| (one.snapshot_id, one.sequence)).collect::<Vec<_>>());
    }
    assert_eq!(shown[0].len(), 4);
    assert_eq!(shown[0], shown[1]);
}

#[test]
fn a_restart_in_between_changes_nothing_of_it() {
    let expected = snapshots(&lives(30, 12, &mut |_, _, _| {}).store.reader());
    let thresholds = Thresholds { event_threshold: 12, step_fallback: u64::MAX };
    let log = lives(30, 12, &mut |number, own, log| {
        if number % 5 == 0 {
            *own = OwnRun::new(&log.store.reader(), thresholds);
            own.catch_up(log).unwrap();
            spoil(own);
        }
    });
    let ids = |found: Vec<Snapshot>| -> Vec<String> {
        found.into_iter().map(|one| one.snapshot_id).collect()
    };
    assert_eq!(ids(snapshots(&log.store.reader())), ids(expected));
    let segment = snapshots(&log.store.reader())[0].run_id.to_string();
    let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
    let store = SnapshotStore::new(disk, "/snapshots".into());
    let (checked, differences) = verify(&log.store.reader(), &segment, &store).unwrap();
    let problems: Vec<&str> = differences.iter().map(|one| one.what.as_str()).collect();
    assert!(checked > 5 && problems.iter().all(|one| *one == "it is missing"), "{problems:?}");
}

#[test]
fn the_figures_of_a_session_without_an_end_do_not_depend_on_its_last_snapshot() {
    let mut log = Log::new();
    let thresholds = Thresholds { event_threshold: 12, step_fallback: u64::MAX };
    let mut own = OwnRun::new(&log.store.reader(), thresholds);
    log.summary();
    own.catch_up(&mut log).unwrap();
    log.begin("run_y");
    own.catch_up(&mut log).unwrap();
    let closed = overview_of(&log.store.reader()).unwrap().closed.unwrap();
    assert_eq!(closed.covers, closed.resume_from, "the next session is read again");
    let kept = figures_at(&log.store.reader(), &closed).unwrap();
    assert_eq!((&*kept.session_id, kept.day.sessions), ("run_x", 1));
    log.store.forget(&[closed.seq]).unwrap();
    assert_eq!(figures_at(&log.store.reader(), &closed).unwrap(), kept);
}

/// A request that is not due at the time of the log.
fn taken(id: &str) -> TakenRequest {
    TakenRequest {
        head: AckHead { request_id: id.to_owned(), key: id.to_owned(), line: 1, offset: 0 },
        key: Digest::ZERO,
        id: sha256(id),
        work: [0; 16],
        producer: "p".to_owned(),
        flow_id: "f".to_owned(),
        variant: None,
        kind: SummaryKind::DocumentSummary,
        bus: None,
        priority: 3,
        urgency: Urgency::Scheduled,
        created_at: AT,
        not_before: Some(Timestamp(AT.0 + 1000)),
        deadline: None,
        warnings: Warnings::default(),
        previous: None,
        supersedes: None,
        line: Vec::new().into(),
    }
}

#[test]
fn a_waiting_request_is_told_with_the_reason_that_holds_now() {
    let mut log = Log::new();
    let (first, second) = (log.next(), log.next().next());
    log.write(Event::RequestAccepted(Box::new(taken("a"))), None);
    let (behind, behind_request_id) = (first, "a".to_owned());
    let parked = Event::RequestParked { request: Box::new(taken("b")), behind, behind_request_id };
    log.write(parked, None);
    let reason = |log: &Log| {
        let figures = figures_until(&log.store.reader(), log.store.reader().head().0).unwrap();
        let found = figures.waiting_requests.iter().find(|one| *one.request_id == *"b");
        let found = found.unwrap();
        (found.why.to_string(), found.until.is_some())
    };
    let behind_a = ("request a asks for the same".to_owned(), false);
    let not_due = ("it is not due before".to_owned(), true);
    assert_eq!(reason(&log), behind_a);
    let (head, warnings) = (taken("b").head, Warnings::default());
    let released = Event::ParkedAccepted { request: second, head: head.clone(), warnings };
    log.write(released, None);
    assert_eq!(reason(&log), not_due);
    let yielded = Event::KeyYielded {
        request: second,
        head,
        behind: first,
        behind_request_id: "a".to_owned(),
        warnings,
    };
    log.write(yielded, None);
    assert_eq!(reason(&log), behind_a);
    log.write(Event::DelayEnded { request: second }, None);
    let summary = SummaryPointer {
        summary_id: format!("sum_{:032}", 1),
        stream: Stream::Documents,
        day: "2026-03-01".parse().unwrap(),
    };
    let held = Event::WorkHeld { request: second, attempt: 1, behind: first, summary, told: None };
    log.write(held, None);
    assert_eq!(reason(&log), behind_a);
    log.write(Event::WorkReleased { request: second }, None);
    assert_eq!(reason(&log), not_due);
}
