//! What is on each day of each stream, folded from the log.
//!
//! Contract: what is kept for an item is its id and the event that holds it; what is kept for an
//! ending without one is a count. What an ending that starts over counted as is read from the log.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::SummariesError;
use crate::contract::hash::{Digest, sha256};
use crate::contract::ids::Seq;
use crate::contract::time::{Day, Timestamp};
use crate::contract::vocabulary::{Bus, Stream, SummaryKind};
use crate::export::outcome_facts::OutcomeFacts;
use crate::export::summary_bus::{
    Counts, PartitionFacts, PartitionInput, PartitionKey, SelectionInput, Stamp,
};
use crate::log::Reader;
use crate::service::flow_facts::stream_of;
use crate::service::past::{PastError, event_at};
use crate::state::event::{Event, TakenRequest};

/// The kind of the note that opens a day.
pub const DAY_OPENED: &str = "day_opened";

/// The facts of an event that has some.
pub(super) fn facts_of(event: &Event) -> OutcomeFacts {
    match event {
        Event::SummaryProduced { facts, .. }
        | Event::RequestSkipped { facts, .. }
        | Event::AttemptFailed { retry_at: None, facts, .. } => OutcomeFacts::of(facts),
        Event::Noted { kind, facts } if kind == DAY_OPENED => OutcomeFacts::of(facts),
        _ => OutcomeFacts::default(),
    }
}

/// Whether an event can change a day.
pub(super) fn concerns(event: &Event) -> bool {
    match event {
        Event::RunStarted { .. }
        | Event::RequestAccepted(_)
        | Event::RequestParked { .. }
        | Event::SummaryProduced { .. }
        | Event::RequestSkipped { .. }
        | Event::AttemptFailed { retry_at: None, .. }
        | Event::RequestCancelled { .. }
        | Event::RequestDuplicated { .. } => true,
        Event::DuplicateReceived { request, .. } | Event::RequestRejected { request, .. } => {
            request.supersedes.is_some()
        }
        Event::Noted { kind, .. } => kind == DAY_OPENED,
        _ => false,
    }
}

/// All days.
#[derive(Default)]
pub(super) struct Book {
    run: (String, String),
    zone: Option<chrono_tz::Tz>,
    open: BTreeMap<Seq, Asked>,
    /// Endings that do not say themselves where they count.
    placed: BTreeMap<Seq, PartitionKey>,
    days: BTreeMap<PartitionKey, DayOfStream>,
}

#[derive(Clone, Copy)]
struct Asked {
    kind: SummaryKind,
    bus: Option<Bus>,
    created_at: Timestamp,
}

#[derive(Clone)]
enum Ending {
    Skipped(String),
    Failed(String),
}

/// One day of one stream.
pub(super) struct DayOfStream {
    /// The event that holds each item, in order of the ids.
    items: BTreeMap<u128, Seq>,
    skipped: BTreeMap<String, u64>,
    failed: BTreeMap<String, u64>,
    inputs: BTreeSet<PartitionInput>,
    selections: BTreeSet<SelectionInput>,
    stamp: Stamp,
    changed: bool,
}

impl DayOfStream {
    fn empty(stamp: Stamp) -> DayOfStream {
        DayOfStream {
            items: BTreeMap::new(),
            skipped: BTreeMap::new(),
            failed: BTreeMap::new(),
            inputs: BTreeSet::new(),
            selections: BTreeSet::new(),
            stamp,
            changed: true,
        }
    }

    /// The events that hold its items, in order of the ids.
    pub fn items(&self) -> impl Iterator<Item = Seq> + '_ {
        self.items.values().copied()
    }

    /// Who changed it last.
    pub fn stamp(&self) -> &Stamp {
        &self.stamp
    }

    /// Everything but its lines.
    pub fn facts(&self) -> PartitionFacts {
        let skipped = self.skipped.values().sum();
        let failed = self.failed.values().sum();
        let produced = self.items.len() as u64;
        PartitionFacts {
            counts: Counts { eligible: produced + skipped + failed, produced, skipped, failed },
            skip_reasons: self.skipped.clone(),
            fail_reasons: self.failed.clone(),
            inputs: self.inputs.iter().cloned().collect(),
            selections: self.selections.iter().cloned().collect(),
            stamp: self.stamp.clone(),
        }
    }

    fn reasons(&mut self, ending: Ending) -> (&mut BTreeMap<String, u64>, String) {
        match ending {
            Ending::Skipped(reason) => (&mut self.skipped, reason),
            Ending::Failed(reason) => (&mut self.failed, reason),
        }
    }
}

impl Book {
    /// Days that are not shown as they are.
    pub fn changed(&self) -> Vec<PartitionKey> {
        self.days.iter().filter(|(_, day)| day.changed).map(|(key, _)| *key).collect()
    }

    /// All days there are.
    pub fn keys(&self) -> impl Iterator<Item = &PartitionKey> {
        self.days.keys()
    }

    /// None counts as shown any more.
    pub fn change_all(&mut self) {
        self.days.values_mut().for_each(|day| day.changed = true);
    }

    /// One day.
    pub fn day(&self, key: &PartitionKey) -> Option<&DayOfStream> {
        self.days.get(key)
    }

    /// These days are shown as they are.
    pub fn shown(&mut self, keys: &[PartitionKey]) {
        for key in keys {
            if let Some(day) = self.days.get_mut(key) {
                day.changed = false;
            }
        }
    }

    /// Takes the next event; of `stamp` only what the record knows is filled in.
    pub fn take(
        &mut self,
        log: &Reader,
        seq: Seq,
        event: Event,
        facts: OutcomeFacts,
        mut stamp: Stamp,
    ) -> Result<(), SummariesError> {
        if !concerns(&event) {
            return Ok(());
        }
        if let Event::RunStarted { run_id, version, environment, .. } = &event {
            self.run = (run_id.clone(), version.clone());
            let environment: Value = serde_json::from_str(environment).unwrap_or_default();
            self.zone = environment["timezone"].as_str().and_then(|zone| zone.parse().ok());
            return Ok(());
        }
        (stamp.run_id, stamp.summarizer_version) = self.run.clone();
        match event {
            Event::RequestAccepted(request) | Event::RequestParked { request, .. } => {
                self.taken(log, seq, &request, &stamp)?;
            }
            Event::SummaryProduced { request, summary, .. } => {
                self.open.remove(&request);
                let key = PartitionKey { stream: summary.stream, day: summary.day };
                let day = self.touch(key, facts, stamp);
                day.items.insert(number(&summary.summary_id), seq);
            }
            Event::RequestSkipped { request, .. }
            | Event::AttemptFailed { request, .. }
            | Event::RequestCancelled { request, .. } => {
                if let Some(ending) = ending_of(&event) {
                    self.end(seq, request, facts, ending, stamp);
                }
            }
            Event::DuplicateReceived { request, .. } | Event::RequestRejected { request, .. } => {
                self.uncount(log, request.supersedes.map(|earlier| earlier.ack), &stamp)?;
            }
            Event::RequestDuplicated { request, .. } => drop(self.open.remove(&request)),
            Event::Noted { facts: note, .. } => self.open_day(&note, facts, stamp),
            _ => {}
        }
        Ok(())
    }

    fn taken(
        &mut self,
        log: &Reader,
        seq: Seq,
        request: &TakenRequest,
        stamp: &Stamp,
    ) -> Result<(), SummariesError> {
        self.uncount(log, request.supersedes.map(|earlier| earlier.ack), stamp)?;
        let TakenRequest { kind, bus, created_at, .. } = *request;
        self.open.insert(seq, Asked { kind, bus, created_at });
        Ok(())
    }

    fn end(&mut self, seq: Seq, request: Seq, facts: OutcomeFacts, ending: Ending, stamp: Stamp) {
        // An operator's second try is another request.
        let Some(asked) = self.open.remove(&request) else { return };
        let key = match placed(&facts) {
            Some(key) => key,
            None => {
                let zone = self.zone.unwrap_or(chrono_tz::UTC);
                let stream = facts.stream.unwrap_or_else(|| stream_of(asked.kind, asked.bus));
                let key = PartitionKey { stream, day: asked.created_at.day_in(zone) };
                self.placed.insert(seq, key);
                key
            }
        };
        let (reasons, reason) = self.touch(key, facts, stamp).reasons(ending);
        *reasons.entry(reason).or_default() += 1;
    }

    /// An earlier ending stops counting when its request is taken in again.
    fn uncount(
        &mut self,
        log: &Reader,
        ended: Option<Seq>,
        stamp: &Stamp,
    ) -> Result<(), SummariesError> {
        let Some(seq) = ended else { return Ok(()) };
        let event = event_at(log, seq).map_err(|error| match error {
            PastError::Log(error) => SummariesError::Log(error),
            PastError::Event { seq, source } => SummariesError::Event { seq, source },
            PastError::Unexpected { seq, .. } => SummariesError::NoItem(seq),
        })?;
        let Some(event) = event else { return Ok(()) };
        let Some(ending) = ending_of(&event) else { return Ok(()) };
        let key = self.placed.remove(&seq).or_else(|| placed(&facts_of(&event)));
        let Some(day) = key.and_then(|key| self.days.get_mut(&key)) else { return Ok(()) };
        let (reasons, reason) = day.reasons(ending);
        if let Some(count) = reasons.get_mut(&reason) {
            *count -= 1;
            if *count == 0 {
                reasons.remove(&reason);
            }
            day.stamp.clone_from(stamp);
            day.changed = true;
        }
        Ok(())
    }

    /// Somebody wants a day to exist; its upstream may have been read for it.
    fn open_day(&mut self, note: &str, facts: OutcomeFacts, stamp: Stamp) {
        let note: Value = serde_json::from_str(note).unwrap_or_default();
        let Some(day) = note["day"].as_str().and_then(|day| day.parse::<Day>().ok()) else {
            return;
        };
        let inputs = inputs_of(facts.inputs);
        for stream in Stream::ALL {
            let key = PartitionKey { stream: *stream, day };
            let known = self.days.entry(key);
            let day = known.or_insert_with(|| DayOfStream::empty(stamp.clone()));
            let fed = inputs.iter().filter(|input| feeds(input.bus, *stream));
            let before = day.inputs.len();
            day.inputs.extend(fed.cloned());
            if day.inputs.len() > before {
                day.stamp.clone_from(&stamp);
                day.changed = true;
            }
        }
    }

    /// The day of a stream that an event changes, with its inputs noted. A day exists for all
    /// streams, and the day of every upstream manifest that was read exists too.
    fn touch(&mut self, key: PartitionKey, facts: OutcomeFacts, stamp: Stamp) -> &mut DayOfStream {
        let read = facts.inputs.iter().filter_map(|input| input.partition.parse::<Day>().ok());
        let days: BTreeSet<Day> = read.chain([key.day]).collect();
        for day in days {
            for stream in Stream::ALL {
                let key = PartitionKey { stream: *stream, day };
                self.days.entry(key).or_insert_with(|| DayOfStream::empty(stamp.clone()));
            }
        }
        let day = self.days.entry(key).or_insert_with(|| DayOfStream::empty(stamp.clone()));
        day.stamp = stamp;
        day.changed = true;
        day.inputs.extend(inputs_of(facts.inputs));
        if let Some(selection) = facts.selection
            && let Ok(sha256) = selection.sha256.parse()
        {
            let (path, selection_hash) = (selection.path, selection.selection_hash);
            day.selections.insert(SelectionInput { path, sha256, selection_hash });
        }
        day
    }
}

fn inputs_of(facts: Vec<crate::export::outcome_facts::InputFact>) -> Vec<PartitionInput> {
    let hash = |text: Option<String>| text.and_then(|text| text.parse::<Digest>().ok());
    facts
        .into_iter()
        .map(|input| PartitionInput {
            path: input.path,
            bus: input.bus,
            partition: input.partition,
            data_sha256: hash(input.data_sha256),
            manifest_path: input.manifest_path,
            manifest_sha256: hash(input.manifest_sha256),
            schema_version: input.schema_version,
        })
        .collect()
}

/// Whether a bus is the proper upstream of a stream.
fn feeds(bus: Bus, stream: Stream) -> bool {
    match bus {
        Bus::EventBus => stream == Stream::Events,
        Bus::SessionBus => stream == Stream::Sessions,
        Bus::ChunkBus => matches!(stream, Stream::Documents | Stream::ChunkSets),
        Bus::Other => false,
    }
}

/// Where an ending counts, when it says so itself.
fn placed(facts: &OutcomeFacts) -> Option<PartitionKey> {
    let day = facts.day.as_ref()?.parse().ok()?;
    Some(PartitionKey { stream: facts.stream?, day })
}

fn ending_of(event: &Event) -> Option<Ending> {
    Some(match event {
        Event::RequestSkipped { reason, .. } => {
            let reason = reason.as_str();
            Ending::Skipped(reason.strip_prefix("skipped_").unwrap_or(reason).to_owned())
        }
        Event::AttemptFailed { retry_at: None, status, reason, .. } => {
            let code = reason.map_or(status.as_str(), |reason| reason.as_str());
            Ending::Failed(code.to_owned())
        }
        Event::RequestCancelled { .. } => Ending::Failed("cancelled".to_owned()),
        _ => return None,
    })
}

/// An id as a number that sorts as the id does.
fn number(summary_id: &str) -> u128 {
    let digits = summary_id.strip_prefix("sum_").filter(|digits| digits.len() == 32);
    match digits.and_then(|digits| u128::from_str_radix(digits, 16).ok()) {
        Some(number) => number,
        // Ids are made by one function; one of another shape still has one place.
        None => u128::from_be_bytes(sha256(summary_id).head()),
    }
}
