//! What is on each day of each stream, folded from the log.
//!
//! Contract: the index keeps the id of an item and the event that holds it, and for an ending
//! without an item a count. When a request starts over, the index reads its earlier ending from the
//! log to know what to subtract. Memory holds only what is newer than the spill cache.
//!
//! See docs/adr/0053-publisher-cache.md.

use std::collections::{BTreeMap, BTreeSet};

use super::day::{DAYS, DayOfStream, Ending, day_row, key_of, listed};
use super::error::SummariesError;
use super::items::{FORGOTTEN, Items, ROW_ITEMS, item_bytes, items_of};
use super::spill_cache::{Change, Position, SpillCache};
use crate::contract::hash::sha256;
use crate::contract::ids::Seq;
use crate::contract::time::Day;
use crate::contract::vocabulary::{Bus, Stream};
use crate::export::session_fold::input_of;
use crate::export::summary_bus::{PartitionFacts, PartitionKey, Stamp};
use crate::facts::attempt::{InputFacts, UpstreamInput};
use crate::facts::publication::DayOpened;
use crate::log::{ReadError, Reader};
use crate::state::event::{Event, SummaryPointer};

/// The stamp of a day with the hash of its event. The hash is read only when the day is published or
/// written to the cache: reading it for every event would take longer than all other work.
fn anchored(log: &Reader, stamp: &Stamp) -> Result<Stamp, SummariesError> {
    let mut stamp = stamp.clone();
    if stamp.log_head.is_empty() {
        let seq = Seq(stamp.sequence);
        let record = log.get(seq)?.ok_or_else(|| {
            ReadError::unexpected(seq, "the event should be the last of its day".to_owned())
        })?;
        stamp.log_head = record.hash.hex();
    }
    Ok(stamp)
}

/// Whether an event can change a day.
fn concerns(event: &Event) -> bool {
    match event {
        Event::SessionStarted { .. }
        | Event::SummaryProduced { .. }
        | Event::RequestSkipped { .. }
        | Event::AttemptFailed { retry_at: None, .. }
        | Event::RequestCancelled { .. } => true,
        Event::RequestAccepted(request)
        | Event::RequestParked { request, .. }
        | Event::DuplicateReceived { request, .. }
        | Event::RequestRejected { request, .. } => request.supersedes.is_some(),
        Event::DayOpened(_) | Event::Forgotten(_) => true,
        _ => false,
    }
}

/// Items in memory above which they go to the cache.
const ITEMS_MAX: usize = if cfg!(test) { 50 } else { 1 << 16 };
/// Days in memory above which they go to the cache.
const DAYS_MAX: usize = 4096;

pub(super) struct DayIndex {
    cache: SpillCache,
    run: (String, String),
    /// The time zone of the sessions from each of these records on.
    zones: Vec<(Seq, Option<chrono_tz::Tz>)>,
    /// Days that were needed since the last visit to the cache.
    days: BTreeMap<PartitionKey, DayOfStream>,
    /// Items that are not on the cache, by id.
    items: BTreeMap<(PartitionKey, u128), Seq>,
    /// Days that are not shown as they are, each with the number of its new items.
    changed: BTreeMap<PartitionKey, u64>,
}

impl DayIndex {
    /// The index as the cache stores it; empty when the cache is out of date.
    pub(super) fn open(cache: SpillCache, at: Option<&Position>) -> DayIndex {
        let at = at.cloned().unwrap_or_default();
        let zones = at.zones.into_iter().map(|(seq, zone)| (Seq(seq), zone.parse().ok()));
        DayIndex {
            cache,
            run: at.run,
            zones: zones.collect(),
            days: BTreeMap::new(),
            items: BTreeMap::new(),
            changed: BTreeMap::new(),
        }
    }

    /// Days that are not shown as they are.
    pub(super) fn changed(&self) -> Vec<PartitionKey> {
        self.changed.keys().copied().collect()
    }

    /// The same, each with the number of its new items.
    pub(super) fn waiting(&self) -> &BTreeMap<PartitionKey, u64> {
        &self.changed
    }

    /// All days there are.
    pub(super) fn keys(&self) -> Result<BTreeSet<PartitionKey>, SummariesError> {
        let mut keys: BTreeSet<PartitionKey> = self.days.keys().copied().collect();
        self.cache.each(DAYS, &mut |name, _| {
            keys.extend(key_of(name));
            Ok(())
        })?;
        Ok(keys)
    }

    /// A day without its lines.
    pub(super) fn facts(
        &self,
        log: &Reader,
        key: &PartitionKey,
    ) -> Result<Option<PartitionFacts>, SummariesError> {
        if let Some(day) = self.days.get(key) {
            return Ok(Some(day.facts(anchored(log, &day.stamp)?)));
        }
        let row = self.cache.get(&day_row(key))?;
        let day = row.map(|row| DayOfStream::of_row(&row)).transpose()?;
        Ok(day.map(|day| day.facts(day.stamp.clone())))
    }

    /// The events that hold the items of one day, in order of the ids.
    pub(super) fn items(&self, key: &PartitionKey) -> Items<'_> {
        let newer = self.items.range((*key, 0)..=(*key, u128::MAX));
        Items::open(&self.cache, &items_of(key), newer.map(|((_, id), seq)| (*id, *seq)))
    }

    /// These days are shown as they are.
    pub(super) fn shown(&mut self, keys: &[PartitionKey]) {
        for key in keys {
            self.changed.remove(key);
        }
    }

    /// These days are not shown as they are.
    pub(super) fn change(&mut self, keys: impl IntoIterator<Item = PartitionKey>) {
        keys.into_iter().for_each(|key| self.mark(key, 0));
    }

    fn mark(&mut self, key: PartitionKey, new_items: u64) {
        *self.changed.entry(key).or_default() += new_items;
    }

    /// Whether it is time for a visit to the cache.
    pub(super) fn is_full(&self) -> bool {
        self.cache.keeps() && (self.items.len() >= ITEMS_MAX || self.days.len() >= DAYS_MAX)
    }

    /// Writes the rows that the cache needs for all events taken so far, and drops them from memory.
    pub(super) fn leave(
        &mut self,
        log: &Reader,
        read_to: Seq,
        at: &mut Position,
        rows: &mut Vec<Change>,
    ) -> Result<(), SummariesError> {
        at.run = self.run.clone();
        let name = |zone: &Option<chrono_tz::Tz>| zone.map_or("", chrono_tz::Tz::name).to_owned();
        at.zones = self.zones.iter().map(|(seq, zone)| (seq.0, name(zone))).collect();
        for (key, day) in self.days.iter().filter(|(_, day)| day.loose) {
            rows.push((day_row(key), Some(day.row(anchored(log, &day.stamp)?)?)));
        }
        // The new items of each day become a sorted list of rows; a later list has a greater key.
        let items: Vec<_> = self.items.iter().collect();
        for of_day in items.chunk_by(|((one, _), _), ((other, _), _)| one == other) {
            let run = format!("{}{:016x}", items_of(&of_day[0].0.0), read_to.0);
            for (number, some) in of_day.chunks(ROW_ITEMS).enumerate() {
                let stored = some.iter().flat_map(|((_, id), seq)| item_bytes(*id, **seq));
                rows.push((format!("{run}/{number:08x}"), Some(stored.collect())));
            }
        }
        Ok(())
    }

    /// What was left is on the cache.
    pub(super) fn left(&mut self) {
        self.days.clear();
        self.items.clear();
    }

    /// Days and items in memory.
    #[cfg(test)]
    pub(crate) fn in_memory(&self) -> (usize, usize) {
        (self.days.len(), self.items.len())
    }

    /// Takes the next event; of `stamp` only what the record knows is filled in.
    pub(super) fn take(
        &mut self,
        log: &Reader,
        seq: Seq,
        event: Event,
        mut stamp: Stamp,
    ) -> Result<(), SummariesError> {
        if !concerns(&event) {
            return Ok(());
        }
        if let Event::SessionStarted { run_id, version, host, .. } = &event {
            self.run = (run_id.clone(), version.clone());
            let zone = host.timezone.as_ref().and_then(|zone| zone.parse().ok());
            if self.zones.last().map(|(_, zone)| *zone) != Some(zone) {
                self.zones.push((seq, zone));
            }
            return Ok(());
        }
        (stamp.run_id, stamp.summarizer_version) = self.run.clone();
        match event {
            Event::RequestAccepted(request) | Event::RequestParked { request, .. } => {
                self.uncount(log, request.supersedes.map(|earlier| earlier.ack), &stamp)?;
            }
            Event::SummaryProduced { summary, input, .. } => {
                let key = PartitionKey { stream: summary.stream, day: summary.day };
                // Also before the event that says so: nothing else can be written of it.
                let is_gone = log.is_forgotten(seq);
                let now = if is_gone { FORGOTTEN } else { seq };
                let before = self.items.insert((key, number(&summary.summary_id)), now);
                let was_there = before.is_some_and(|before| before != FORGOTTEN);
                let day = self.touch(key, Some(&input), stamp)?;
                day.produced -= u64::from(was_there);
                day.produced += u64::from(!is_gone);
                match is_gone {
                    true => day.forgotten.insert(summary.summary_id.clone()),
                    false => day.forgotten.remove(&summary.summary_id),
                };
                self.mark(key, 1);
            }
            Event::RequestSkipped { .. }
            | Event::AttemptFailed { .. }
            | Event::RequestCancelled { .. } => {
                if let Some((request, ending)) = ending_of(&event)
                    && let Some(key) = self.place(log, seq, request, input_of(&event))?
                {
                    let (reasons, reason) =
                        self.touch(key, input_of(&event), stamp)?.reasons(ending);
                    *reasons.entry(reason).or_default() += 1;
                }
            }
            Event::DuplicateReceived { request, .. } | Event::RequestRejected { request, .. } => {
                self.uncount(log, request.supersedes.map(|earlier| earlier.ack), &stamp)?;
            }
            Event::DayOpened(opened) => self.open_day(*opened, stamp)?,
            Event::Forgotten(forgotten) => self.forget(&forgotten.summaries, &stamp)?,
            _ => {}
        }
        Ok(())
    }

    /// A person took summaries back.
    fn forget(&mut self, gone: &[SummaryPointer], stamp: &Stamp) -> Result<(), SummariesError> {
        for summary in gone {
            let key = PartitionKey { stream: summary.stream, day: summary.day };
            self.items.insert((key, number(&summary.summary_id)), FORGOTTEN);
            let Some(day) = self.known(&key)? else { continue };
            // The log of a recovery may name a summary twice.
            if day.forgotten.insert(summary.summary_id.clone()) {
                day.produced = day.produced.saturating_sub(1);
            }
            day.stamp.clone_from(stamp);
            day.loose = true;
            self.mark(key, 0);
        }
        Ok(())
    }

    /// Where an ending counts: where it says, else on the day its request was made.
    fn place(
        &self,
        log: &Reader,
        seq: Seq,
        request: Seq,
        input: Option<&InputFacts>,
    ) -> Result<Option<PartitionKey>, SummariesError> {
        if let Some(key) = input.and_then(placed) {
            return Ok(Some(key));
        }
        let Some(asked) = log.event(request)? else { return Ok(None) };
        let Some(taken) = asked.taken() else { return Ok(None) };
        let known = self.zones.iter().rev().find(|(from, _)| *from <= seq);
        let zone = known.and_then(|(_, zone)| *zone).unwrap_or(chrono_tz::UTC);
        let stream = input.and_then(|input| input.stream);
        let stream = stream.unwrap_or_else(|| taken.kind.stream_of_request(taken.bus));
        Ok(Some(PartitionKey { stream, day: taken.created_at.day_in(zone) }))
    }

    /// An earlier ending stops counting when its request is taken in again.
    fn uncount(
        &mut self,
        log: &Reader,
        ended: Option<Seq>,
        stamp: &Stamp,
    ) -> Result<(), SummariesError> {
        let Some(seq) = ended else { return Ok(()) };
        let Some(event) = log.event(seq)? else { return Ok(()) };
        let Some((request, ending)) = ending_of(&event) else { return Ok(()) };
        let Some(key) = self.place(log, seq, request, input_of(&event))? else { return Ok(()) };
        let Some(day) = self.known(&key)? else { return Ok(()) };
        let (reasons, reason) = day.reasons(ending);
        if let Some(count) = reasons.get_mut(&reason) {
            *count -= 1;
            if *count == 0 {
                reasons.remove(&reason);
            }
            day.stamp.clone_from(stamp);
            day.loose = true;
            self.mark(key, 0);
        }
        Ok(())
    }

    /// A day, if there is one.
    fn known(&mut self, key: &PartitionKey) -> Result<Option<&mut DayOfStream>, SummariesError> {
        if !self.days.contains_key(key)
            && let Some(row) = self.cache.get(&day_row(key))?
        {
            self.days.insert(*key, DayOfStream::of_row(&row)?);
        }
        Ok(self.days.get_mut(key))
    }

    /// The entry of a day, made when it is missing.
    fn made(
        &mut self,
        key: PartitionKey,
        stamp: &Stamp,
    ) -> Result<&mut DayOfStream, SummariesError> {
        if self.known(&key)?.is_none() {
            self.mark(key, 0);
        }
        Ok(self.days.entry(key).or_insert_with(|| DayOfStream::empty(stamp.clone())))
    }

    /// Somebody wants a day to exist; its upstream may have been read for it.
    fn open_day(&mut self, opened: DayOpened, stamp: Stamp) -> Result<(), SummariesError> {
        let DayOpened { day, inputs } = opened;
        let inputs: Vec<UpstreamInput> = inputs.iter().map(listed).collect();
        for stream in Stream::ALL {
            let key = PartitionKey { stream: *stream, day };
            let day = self.made(key, &stamp)?;
            let fed = inputs.iter().filter(|input| feeds(input.bus, *stream));
            let before = day.inputs.len();
            day.inputs.extend(fed.cloned());
            if day.inputs.len() > before {
                day.stamp.clone_from(&stamp);
                day.loose = true;
                self.mark(key, 0);
            }
        }
        Ok(())
    }

    /// The day of a stream that an event changes, with its inputs noted. A day exists for all
    /// streams, and the day of every upstream manifest that was read exists too.
    fn touch(
        &mut self,
        key: PartitionKey,
        input: Option<&InputFacts>,
        stamp: Stamp,
    ) -> Result<&mut DayOfStream, SummariesError> {
        let inputs = input.map_or(&[][..], |input| &input.inputs);
        let read = inputs.iter().filter_map(|input| input.partition.parse::<Day>().ok());
        let days: BTreeSet<Day> = read.chain([key.day]).collect();
        for day in days {
            for stream in Stream::ALL {
                self.made(PartitionKey { stream: *stream, day }, &stamp)?;
            }
        }
        self.mark(key, 0);
        let day = self.made(key, &stamp)?;
        (day.stamp, day.loose) = (stamp, true);
        day.inputs.extend(inputs.iter().map(listed));
        day.selections.extend(input.and_then(|input| input.selection.clone()));
        Ok(day)
    }
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
fn placed(input: &InputFacts) -> Option<PartitionKey> {
    Some(PartitionKey { stream: input.stream?, day: input.day? })
}

/// The request that an event ends without a summary, and how.
fn ending_of(event: &Event) -> Option<(Seq, Ending)> {
    Some(match event {
        Event::RequestSkipped { request, reason, .. } => {
            let reason = reason.as_str();
            let reason = reason.strip_prefix("skipped_").unwrap_or(reason);
            (*request, Ending::Skipped(reason.to_owned()))
        }
        Event::AttemptFailed { request, retry_at: None, status, reason, .. } => {
            let code = reason.map_or(status.as_str(), |reason| reason.as_str());
            (*request, Ending::Failed(code.to_owned()))
        }
        Event::RequestCancelled { request, .. } => {
            (*request, Ending::Failed("cancelled".to_owned()))
        }
        _ => return None,
    })
}

/// An id as a number that sorts as the id does.
fn number(summary_id: &str) -> u128 {
    let digits = summary_id.strip_prefix("sum_").filter(|digits| digits.len() == 32);
    match digits.and_then(|digits| u128::from_str_radix(digits, 16).ok()) {
        Some(number) => number,
        // Only one function makes ids. An id of another form still sorts at one fixed place.
        None => u128::from_be_bytes(sha256(summary_id).head()),
    }
}
