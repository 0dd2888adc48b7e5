//! A log in memory and the shortest way to say what happens.

use std::collections::BTreeMap;
use std::convert::Infallible;

use super::super::decide::{
    Arrival, Failed, FlowStanding, Outcome, Refused, Report, RetryHint, RetryPolicy,
};
use super::super::event::{AckHead, Event, Output, SessionEnd, SummaryPointer, TakenRequest};
use super::super::{Digest16, Past, Row, State};
use crate::contract::hash::{Digest, sha256};
use crate::contract::ids::{KeyIndex, Seq};
use crate::contract::time::Timestamp;
use crate::contract::vocabulary::{Bus, FailureCause, Stream, SummaryKind, Urgency, Warnings};

/// Everything recorded, and tables that hold what earlier checkpoints moved out of memory.
#[derive(Default)]
pub(crate) struct Recorded {
    pub events: Vec<Event>,
    pub(crate) ats: Vec<Timestamp>,
    rows: BTreeMap<Seq, Row>,
    keys: BTreeMap<(KeyIndex, Digest16), Seq>,
}

impl Past for Recorded {
    type Error = Infallible;

    fn find(&self, index: KeyIndex, digest: &Digest16) -> Result<Option<Seq>, Infallible> {
        Ok(self.keys.get(&(index, *digest)).copied().filter(|seq| *seq != Seq(0)))
    }

    fn row(&self, request: Seq) -> Result<Option<Row>, Infallible> {
        Ok(self.rows.get(&request).copied())
    }

    fn taken(&self, request: Seq) -> Result<TakenRequest, Infallible> {
        Ok(self.events[request.0 as usize - 1].taken().unwrap().clone())
    }

    fn output(&self, ended: Seq) -> Result<Output, Infallible> {
        let event = &self.events[ended.0 as usize - 1];
        Ok(event.output().unwrap_or_else(|| panic!("{event:?} has no output")))
    }
}

/// A request as tests write it.
pub struct Asked {
    pub taken: TakenRequest,
    pub flow: FlowStanding,
}

/// A plain request: `now`, priority 3, flow active.
pub fn ask(id: &str, key: &str) -> Asked {
    Asked {
        taken: TakenRequest {
            head: AckHead { request_id: id.into(), key: key.into(), line: 1, offset: 0 },
            key: sha256(format!("key {key}")),
            id: sha256(id),
            work: sha256(format!("work {key}")).head(),
            producer: "repo".into(),
            flow_id: "flow.v1".into(),
            variant: None,
            kind: SummaryKind::EventSummary,
            bus: Some(Bus::EventBus),
            priority: 3,
            urgency: Urgency::Now,
            created_at: Timestamp(0),
            not_before: None,
            deadline: None,
            warnings: Warnings::default(),
            previous: None,
            supersedes: None,
            line: b"{}".to_vec().into(),
        },
        flow: FlowStanding::Active,
    }
}

impl Asked {
    pub fn with(mut self, change: impl FnOnce(&mut TakenRequest)) -> Asked {
        change(&mut self.taken);
        self
    }

    pub fn flow(mut self, flow: FlowStanding) -> Asked {
        self.flow = flow;
        self
    }
}

/// The item a test means by a name.
pub fn item(name: &str) -> SummaryPointer {
    SummaryPointer {
        summary_id: name.into(),
        stream: Stream::Events,
        day: "2026-02-11".parse().unwrap(),
    }
}

/// State and log together; every method says what follows by event name.
pub struct World {
    pub state: State,
    pub past: Recorded,
    pub now: Timestamp,
    pub policy: RetryPolicy,
}

impl World {
    pub fn new() -> World {
        let mut world = World {
            state: State::default(),
            past: Recorded::default(),
            now: Timestamp(1_000_000),
            policy: RetryPolicy::default(),
        };
        world.restart();
        world
    }

    /// A new run takes over.
    pub fn restart(&mut self) {
        self.record(vec![Event::SessionStarted {
            run_id: "run".into(),
            command: "test".into(),
            version: "0".into(),
            config: Digest::ZERO,
            host: Box::default(),
        }]);
    }

    /// The process ends without a `SessionFinished`, and a new session begins.
    pub fn crash(&mut self) -> Vec<&'static str> {
        let lost = self.state.lost_for_good(&self.past, &self.policy, self.now).unwrap();
        let names = self.record(lost);
        let started = self.state.epoch();
        self.record(vec![Event::SessionFinished {
            run_id: "run".into(),
            started,
            end: SessionEnd::Crashed,
            report: Box::default(),
        }]);
        self.restart();
        names
    }

    fn record(&mut self, events: Vec<Event>) -> Vec<&'static str> {
        let names = events.iter().map(Event::name).collect();
        for event in events {
            let seq = self.state.applied.next();
            self.state.apply(seq, self.now, &event).unwrap();
            self.past.events.push(event);
            self.past.ats.push(self.now);
        }
        names
    }

    pub fn last(&self) -> &Event {
        self.past.events.last().unwrap()
    }

    pub fn last_seq(&self) -> Seq {
        self.state.applied
    }

    pub fn arrive(&mut self, asked: Asked) -> Vec<&'static str> {
        let arrival = Arrival {
            request: Box::new(asked.taken),
            flow: asked.flow,
            refused: None,
            source: Warnings::default(),
        };
        self.arrive_as(arrival)
    }

    pub(crate) fn arrive_as(&mut self, arrival: Arrival) -> Vec<&'static str> {
        let mut out = Vec::new();
        self.state.arrival(&self.past, arrival, self.now, &mut out).unwrap();
        self.record(out)
    }

    /// Accepts a request and returns its number.
    pub fn accept(&mut self, id: &str, key: &str) -> Seq {
        assert_eq!(self.arrive(ask(id, key)), ["RequestAccepted"]);
        self.last_seq()
    }

    /// Starts whatever is next.
    pub fn start(&mut self) -> Option<Seq> {
        self.state.advance(self.now);
        self.state.hold_back(self.now);
        let mut out = Vec::new();
        let started = self.state.start_next(&mut out);
        self.record(out);
        started
    }

    pub fn report(&mut self, request: Seq, outcome: Outcome) -> Vec<&'static str> {
        let attempt = self.state.open_request(request).map_or(1, |open| open.row.attempts);
        let epoch = self.state.epoch();
        self.report_as(Report { request, attempt, epoch, outcome })
    }

    pub(crate) fn report_as(&mut self, report: Report) -> Vec<&'static str> {
        let mut out = Vec::new();
        self.state.report(&self.past, report, &self.policy, self.now, &mut out).unwrap();
        self.record(out.into_iter().map(|note| note.event).collect())
    }

    pub fn resolve(&mut self, request: Seq, name: &str) -> Vec<&'static str> {
        let summary = item(name);
        let (input, sources) = (Box::default(), Box::default());
        let warnings = Warnings::default();
        self.report(request, Outcome::Resolved { summary, warnings, input, sources })
    }

    pub fn produce(&mut self, request: Seq, name: &str) -> Vec<&'static str> {
        let outcome = Outcome::Produced {
            summary: item(name),
            item: b"item".to_vec(),
            warnings: Warnings::default(),
            input: Box::default(),
            provenance: None,
        };
        self.report(request, outcome)
    }

    pub fn fail(&mut self, request: Seq, again: RetryHint) -> Vec<&'static str> {
        let (message, input) = ("no".to_owned(), Box::default());
        let cause = Some(FailureCause::ServerError);
        let failed = Failed { again, reason: None, cause, message, input, error: None };
        self.report(request, Outcome::Failed(failed))
    }

    /// Settles everything that waits for somebody who ended.
    pub fn settle(&mut self) -> Vec<&'static str> {
        let mut names = Vec::new();
        while self.state.has_unsettled() {
            let mut out = Vec::new();
            self.state.settle(&self.past, 2, &mut out).unwrap();
            names.extend(self.record(out));
        }
        names
    }

    /// Accepts, starts and completes a request; the item is named after the key.
    pub fn complete(&mut self, id: &str, key: &str) -> Seq {
        let request = self.accept(id, key);
        assert_eq!(self.start(), Some(request));
        assert_eq!(self.produce(request, key), ["SummaryProduced"]);
        request
    }

    pub fn cancel(&mut self, id: &str) -> Result<Vec<&'static str>, Refused<Infallible>> {
        let mut out = Vec::new();
        self.state.cancel(&self.past, id, &mut out)?;
        Ok(self.record(out))
    }

    pub fn retry(&mut self, id: &str) -> Result<Vec<&'static str>, Refused<Infallible>> {
        let mut out = Vec::new();
        self.state.retry(&self.past, id, |_| FlowStanding::Active, self.now, &mut out)?;
        Ok(self.record(out))
    }

    /// Moves what changed to the tables, as a checkpoint does.
    pub fn checkpoint(&mut self) {
        let changed = self.state.changed();
        self.past.rows.extend(changed.rows.iter().map(|(seq, row)| (*seq, *row)));
        for index in KeyIndex::ALL {
            for (digest, seq) in changed.sorted(index) {
                self.past.keys.insert((index, digest), Seq(seq));
            }
        }
        self.state.checkpoint_begun();
        self.state.checkpointed();
    }

    /// The state again from the events alone.
    pub fn replayed(&self) -> State {
        let mut state = State::default();
        for (index, event) in self.past.events.iter().enumerate() {
            state.apply(Seq(index as u64 + 1), self.past.ats[index], event).unwrap();
        }
        state
    }

    pub(crate) fn row_of(&self, request: Seq) -> Row {
        self.state.row(&self.past, request).unwrap().unwrap()
    }

    pub fn status(&self, request: Seq) -> &'static str {
        self.state.row(&self.past, request).unwrap().unwrap().status.as_str()
    }
}
