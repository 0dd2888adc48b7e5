//! The pure core: what is known about every request, and how facts change it.
//!
//! Contract. [`decide`] looks at the state and an input and says which events follow; it changes
//! nothing. [`State::apply`] is the only place where anything changes, and the same code runs
//! live, in replay and in simulation. Time, ids and resolved facts come in as data: nothing here
//! reads a clock, a file, the environment, a random source or the registry, and nothing iterates
//! an unordered map. An event that cannot follow from the state is [`Impossible`]: a corrupt log
//! or a bug, in both cases a reason to stop.
//!
//! Memory. Open requests live here as small fixed records; ended ones leave for the tables at the
//! next checkpoint, together with the keys and ids that point at them. What was recorded earlier is
//! asked of [`Past`]; only `decide` asks, so replay needs no tables at all.

pub mod apply;
pub(crate) mod batches;
pub mod decide;
pub(crate) mod dialects;
pub mod event;
pub(crate) mod failing_providers;
pub mod flows;
mod life;
mod producers;
pub mod schedule;
mod status;
#[cfg(test)]
mod tests;

pub(crate) use apply::Impossible;
pub use status::Status;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{BuildHasherDefault, Hasher};

use crate::contract::ids::{KeyIndex, Seq};
use crate::contract::time::Timestamp;
use crate::contract::vocabulary::{FailureCause, ReasonCode, Warnings};
use crate::facts::session::PauseCause;
use batches::{Batches, FinishedBatches};
use dialects::KnownDialects;
use event::{AckHead, Output, TakenRequest};
use failing_providers::FailingProviders;
use flows::Flows;
use producers::Producers;
use schedule::{Claim, Place, Schedule};

/// First half of a digest: what random-key indexes are keyed by.
pub(crate) type Digest16 = [u8; 16];

/// What stays known of every request that came in, whatever became of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    pub status: Status,
    /// Why it stands there, where there is more to say. It is not what an earlier attempt met.
    pub reason: Option<ReasonCode>,
    /// What the attempt met that led there.
    pub cause: Option<FailureCause>,
    /// Attempts that were started.
    pub attempts: u32,
    /// When it was taken in.
    pub taken_at: Timestamp,
    /// The event that changed it last.
    pub last: Seq,
    /// The previous row of the same request id; `Seq(0)` when the request has no earlier row.
    pub previous: Seq,
    /// The request whose output this one points at; `Seq(0)` when it has none or its own.
    pub output_of: Seq,
    /// Second half of the key digest: confirms what an index found by the first half.
    pub key_rest: Digest16,
    /// Second half of the request id digest.
    pub id_rest: Digest16,
    /// First half of the digest of the work itself.
    pub work: Digest16,
}

/// A request with something still to come. Millions of these may be in memory together, so
/// what few of them have lies apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Open {
    /// What stays known of it.
    pub row: Row,
    /// First half of the key digest.
    pub key: Digest16,
    /// 1 to 5.
    pub priority: u8,
    /// Index of its producer.
    pub producer: u32,
    /// It may not start before this.
    pub eligible_at: Timestamp,
    /// Its waiting time counts from here.
    pub since: Timestamp,
    /// What its acks warn of.
    pub warnings: Warnings,
    /// Members that few requests have; `None` when the request has no such member.
    pub particulars: Option<Box<Particulars>>,
    /// Where it stands in the schedule; derived, never stored.
    pub place: Place,
}

/// With so many attempts that were under way when a process ended, the next ones run alone: then a further
/// end tells which request it is, and no other request pays for it.
const LOST_MIN: u32 = 2;

/// What only some open requests have.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Particulars {
    /// First half of the digest of the item's id, once the input was resolved.
    pub work_item: Option<Digest16>,
    /// The time by which the summary is wanted.
    pub deadline: Option<Timestamp>,
    /// Whatever retries, operators and clocks do, it never starts before this. Without one its
    /// delay is soft, and an operator may cut it short.
    pub not_before: Option<Timestamp>,
    /// The ack its terminal ack replaces.
    pub supersedes: Option<Seq>,
    /// Answers that were paid for, in any attempt.
    pub replies: Vec<Seq>,
    /// Attempts that were under way when a process ended without a `SessionFinished`.
    pub lost: u32,
}

impl Particulars {
    /// Kept only where there is something to keep.
    pub fn boxed(self) -> Option<Box<Particulars>> {
        (self != Particulars::default()).then(|| Box::new(self))
    }
}

/// What a request without particulars has.
static NO_PARTICULARS: Particulars = Particulars {
    work_item: None,
    deadline: None,
    not_before: None,
    supersedes: None,
    replies: Vec::new(),
    lost: 0,
};

impl Open {
    /// What only some have.
    pub fn particulars(&self) -> &Particulars {
        self.particulars.as_deref().unwrap_or(&NO_PARTICULARS)
    }

    /// Whether its attempts may be what ends the process: they were under way more than once when it ended.
    fn is_suspect(&self) -> bool {
        self.particulars().lost >= LOST_MIN
    }

    fn particulars_mut(&mut self) -> &mut Particulars {
        self.particulars.get_or_insert_default()
    }

    /// Whether its urgency is `scheduled`: only such a request has a strict `not_before`.
    pub(crate) fn is_scheduled(&self) -> bool {
        self.particulars().not_before.is_some()
    }

    fn claim(&self, request: Seq, scheduled: bool) -> Claim {
        let due = self.row.taken_at.plus_ms(schedule::DUE_AFTER_MS);
        Claim {
            request,
            priority: self.priority,
            scheduled,
            producer: self.producer,
            eligible_at: self.eligible_at,
            since: self.since,
            due: self.particulars().deadline.map_or(due, |deadline| deadline.min(due)),
        }
    }
}

/// What earlier records and tables say. Asked only by [`decide`].
pub trait Past {
    /// How asking can fail.
    type Error;

    /// The newest value of a random-key index: a request, or `Seq(0)` for a released key.
    fn find(&self, index: KeyIndex, digest: &Digest16) -> Result<Option<Seq>, Self::Error>;
    /// The row of a request that is no longer open.
    fn row(&self, request: Seq) -> Result<Option<Row>, Self::Error>;
    /// The request as it was taken in.
    fn taken(&self, request: Seq) -> Result<TakenRequest, Self::Error>;
    /// The output named by the event that ended a request.
    fn output(&self, ended: Seq) -> Result<Output, Self::Error>;

    /// What acks repeat about a request.
    fn head(&self, request: Seq) -> Result<AckHead, Self::Error> {
        self.taken(request).map(|taken| taken.head)
    }
}

/// Hashes what is already a hash by taking its first eight bytes.
#[derive(Debug, Default, Clone, Copy)]
pub struct DigestHasher(u64);

impl Hasher for DigestHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        // Called with the length prefix of the array and with the digest; both fold in.
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.0 = self.0.rotate_left(5) ^ u64::from_le_bytes(word);
        }
    }

    fn write_usize(&mut self, _length: usize) {}
}

/// A map keyed by digests. Never iterated unsorted.
pub(crate) type DigestMap<V> = HashMap<Digest16, V, BuildHasherDefault<DigestHasher>>;

/// How many requests there are in each status and with each reason.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Totals {
    pub by_status: BTreeMap<Status, u64>,
    /// Ended requests by reason.
    pub by_reason: BTreeMap<ReasonCode, u64>,
    pub quarantined: u64,
    /// Requests taken in over all time.
    pub taken: u64,
}

/// The session that holds the home.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionInfo {
    pub run_id: String,
    pub command: String,
    /// The event that started it: the epoch.
    pub started: Seq,
    pub started_at: Timestamp,
}

/// Everything known in memory.
#[derive(Debug, Default)]
pub struct State {
    /// The last event applied.
    pub applied: Seq,
    /// Boxed: nodes of the tree are half empty, and there may be millions of these.
    open: BTreeMap<Seq, Box<Open>>,
    running: BTreeSet<Seq>,
    /// Open requests whose attempts run alone.
    suspects: BTreeSet<Seq>,
    /// Those of them that are scheduled.
    running_scheduled: BTreeSet<Seq>,
    /// Requests parked behind a key, by that key.
    parked: BTreeMap<Digest16, BTreeSet<Seq>>,
    /// Requests held behind an item in the making, by that item.
    held: BTreeMap<Digest16, BTreeSet<Seq>>,
    /// Items in the making.
    making: BTreeMap<Digest16, Seq>,
    /// Keys whose holder ended while others are parked behind it.
    unsettled_keys: BTreeSet<Digest16>,
    /// Items whose maker ended while others are held behind it.
    unsettled_items: BTreeSet<Digest16>,
    producers: Producers,
    schedule: Schedule,
    totals: Totals,
    paused: BTreeSet<PauseCause>,
    /// Whether a digest build began and did not end.
    digests_open: bool,
    session: Option<SessionInfo>,
    flows: Flows,
    /// `None`: no provider was ever passed over.
    failing_providers: Option<FailingProviders>,
    /// `None`: no model refused anything.
    dialects: Option<KnownDialects>,
    /// `None`: there never was a batch.
    batches: Option<Batches>,
    /// `None`: no batch has ended or cost anything.
    finished_batches: Option<FinishedBatches>,
    changed: Changed,
    /// What a checkpoint under way brings into the tables: looked at here until it is there.
    leaving: Changed,
}

/// What changed since the tables were last brought up to date.
#[derive(Debug, Default)]
pub struct Changed {
    /// Rows of requests that ended.
    pub rows: BTreeMap<Seq, Row>,
    /// Open requests that are new, changed or gone.
    pub open: BTreeSet<Seq>,
    /// Idempotency keys: holder, or `Seq(0)` when released.
    pub keys: DigestMap<Seq>,
    /// Request ids: newest row.
    pub ids: DigestMap<Seq>,
    /// Summary ids: the request that produced the item.
    pub summaries: DigestMap<Seq>,
}

impl Changed {
    /// The entries of one index, sorted.
    pub fn sorted(&self, index: KeyIndex) -> Vec<(Digest16, u64)> {
        let map = self.index(index);
        let mut entries: Vec<_> = map.iter().map(|(digest, seq)| (*digest, seq.0)).collect();
        entries.sort_unstable();
        entries
    }

    /// What became of the keys of one index.
    fn index(&self, index: KeyIndex) -> &DigestMap<Seq> {
        match index {
            KeyIndex::Idempotency => &self.keys,
            KeyIndex::RequestId => &self.ids,
            KeyIndex::SummaryId => &self.summaries,
        }
    }

    /// Roughly how much there is to write.
    pub fn len(&self) -> usize {
        self.rows.len() + self.open.len() + self.keys.len() + self.ids.len() + self.summaries.len()
    }

    /// Whether nothing changed.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl State {
    /// The open request with this number.
    pub fn open_request(&self, request: Seq) -> Option<&Open> {
        self.open.get(&request).map(|open| &**open)
    }

    /// Open requests from a number on, in order.
    pub(crate) fn open_from(&self, from: Seq) -> impl Iterator<Item = (Seq, &Open)> {
        self.open.range(from..).map(|(request, open)| (*request, &**open))
    }

    /// Open requests before a number, newest first.
    pub(crate) fn open_back(&self, before: Seq) -> impl Iterator<Item = (Seq, &Open)> {
        self.open.range(..before).rev().map(|(request, open)| (*request, &**open))
    }

    /// How many requests are open.
    pub fn open_count(&self) -> usize {
        self.open.len()
    }

    /// Requests with an attempt under way, in order.
    pub fn running(&self) -> impl Iterator<Item = (Seq, &Open)> {
        self.running.iter().filter_map(|request| Some((*request, self.open_request(*request)?)))
    }

    /// How many attempts are under way.
    pub fn running_count(&self) -> usize {
        self.running.len()
    }

    /// Whether nothing may start now: an attempt runs alone, or the next one will and others are under way.
    pub(crate) fn waits_to_be_alone(&self) -> bool {
        if self.suspects.is_empty() || self.running.is_empty() {
            return false;
        }
        let is_suspect = |request: &Seq| self.suspects.contains(request);
        self.running.iter().any(is_suspect) || self.next_ready().as_ref().is_some_and(is_suspect)
    }

    /// How many of them are scheduled.
    pub(crate) fn running_scheduled_count(&self) -> usize {
        self.running_scheduled.len()
    }

    fn is_running(&mut self, request: Seq) {
        self.running.insert(request);
        if self.open.get(&request).is_some_and(|open| open.is_scheduled()) {
            self.running_scheduled.insert(request);
        }
    }

    /// How many requests could start, as of the last [`State::advance`].
    pub fn ready_count(&self) -> usize {
        self.schedule.ready()
    }

    /// How many requests wait for their time.
    pub(crate) fn delayed_count(&self) -> usize {
        self.schedule.delayed()
    }

    /// When the next waiting request may start.
    pub fn next_eligible(&self) -> Option<Timestamp> {
        self.schedule.next_change()
    }

    /// Counts by latest state.
    pub fn totals(&self) -> &Totals {
        &self.totals
    }

    /// Whether a digest build began and did not end: a crash cut it short, or it runs.
    pub(crate) fn is_building_digests(&self) -> bool {
        self.digests_open
    }

    /// Why nothing new is taken in, if that is so.
    pub fn paused(&self) -> &BTreeSet<PauseCause> {
        &self.paused
    }

    /// The session that holds the home.
    pub fn session(&self) -> Option<&SessionInfo> {
        self.session.as_ref()
    }

    /// Providers that failed while a fallback answered, if that ever happened.
    pub(crate) fn failing_providers(&self) -> Option<&FailingProviders> {
        self.failing_providers.as_ref()
    }

    /// Puts back what a checkpoint holds.
    pub(crate) fn restore_failing_providers(&mut self, failing: Option<FailingProviders>) {
        self.failing_providers = failing;
    }

    /// The dialects of models, if one was ever learned.
    pub(crate) fn dialects(&self) -> Option<&KnownDialects> {
        self.dialects.as_ref()
    }

    /// Puts back what a checkpoint holds.
    pub(crate) fn restore_dialects(&mut self, dialects: Option<KnownDialects>) {
        self.dialects = dialects;
    }

    /// What stays known of flows and models.
    pub fn flows(&self) -> &Flows {
        &self.flows
    }

    /// The epoch of every claim made now.
    pub fn epoch(&self) -> Seq {
        self.session.as_ref().map_or(Seq(0), |session| session.started)
    }

    /// Whether waiters are left whose holder ended.
    pub fn has_unsettled(&self) -> bool {
        !self.unsettled_keys.is_empty() || !self.unsettled_items.is_empty()
    }

    /// What changed since the last checkpoint.
    pub fn changed(&self) -> &Changed {
        &self.changed
    }

    /// A checkpoint of the changes so far begins; later changes belong to the next one.
    pub(crate) fn checkpoint_begun(&mut self) {
        debug_assert!(self.leaving.is_empty(), "one checkpoint at a time");
        self.leaving = std::mem::take(&mut self.changed);
    }

    /// The tables now hold the changes that were being written.
    pub fn checkpointed(&mut self) {
        self.leaving = Changed::default();
    }

    /// Rows of ended requests that are not in the tables yet, newer changes first.
    pub(crate) fn recent_rows(&self) -> [&BTreeMap<Seq, Row>; 2] {
        [&self.changed.rows, &self.leaving.rows]
    }

    /// The newest request of each id that the tables do not know yet.
    pub(crate) fn recent_ids(&self) -> DigestMap<Seq> {
        let mut ids = self.leaving.ids.clone();
        ids.extend(self.changed.ids.iter().map(|(digest, seq)| (*digest, *seq)));
        ids
    }

    /// Requests whose next attempt waits for another day, because the budget of this one was used up.
    pub(crate) fn held_by_budget(&self, now: Timestamp) -> impl Iterator<Item = Seq> {
        let held = self.open.iter().filter(move |(_, open)| {
            open.row.status == Status::Backoff
                && open.row.cause == Some(FailureCause::Budget)
                && open.eligible_at > now
        });
        held.map(|(request, _)| *request)
    }

    /// The keys whose output the tables do not know yet, each with the event that made it.
    pub(crate) fn recent_outputs(&self) -> impl Iterator<Item = (Digest16, Seq)> {
        let keys = [&self.leaving, &self.changed].into_iter().flat_map(|one| one.keys.iter());
        keys.filter_map(|(key, holder)| {
            let row = self.recent_rows().into_iter().find_map(|rows| rows.get(holder))?;
            row.status.has_output().then_some((*key, row.last))
        })
    }

    /// Brings the schedule up to `now`: moves what has become ready or more urgent. Returns false
    /// when more is left to move than one call may.
    pub(crate) fn advance(&mut self, now: Timestamp) -> bool {
        const AT_ONCE: usize = 10_000;
        let due = self.schedule.due_for_change(now, AT_ONCE);
        let all = due.len() < AT_ONCE;
        for request in due {
            self.reschedule(request, now);
        }
        all
    }

    /// The clock may have stepped back after a request became ready. Then the first ready request may
    /// not be due any more: it waits again, and so does each one after it that is not due.
    pub(crate) fn hold_back(&mut self, now: Timestamp) {
        while let Some(request) = self.schedule.pick() {
            if self.open.get(&request).is_none_or(|open| open.eligible_at <= now) {
                return;
            }
            self.reschedule(request, now);
        }
    }

    /// The first ready request in the order of the schedule, if one may start.
    pub(crate) fn next_ready(&self) -> Option<Seq> {
        self.schedule.pick()
    }

    /// Whether a request waits for every ready `now` request. A scheduled request does, unless a
    /// `now` request waits for its outcome.
    pub(crate) fn gives_way(&self, request: Seq) -> bool {
        let Some(open) = self.open.get(&request) else { return false };
        let made = open.particulars().work_item;
        let made = made.filter(|item| self.making.get(item) == Some(&request));
        let mut held = made.and_then(|item| self.held.get(&item)).into_iter().flatten();
        !self.is_urgent(request) && !held.any(|waiter| self.is_urgent(*waiter))
    }

    /// Whether a request or one that is parked behind its key has urgency `now`.
    pub(crate) fn is_urgent(&self, request: Seq) -> bool {
        let is_now = |one: &Seq| self.open.get(one).is_some_and(|open| !open.is_scheduled());
        let key = self.open.get(&request).map(|open| open.key);
        is_now(&request)
            || key.and_then(|key| self.parked.get(&key)).into_iter().flatten().any(is_now)
    }

    /// The request whose attempt makes the outcome that an open request waits for.
    pub(crate) fn makes_the_outcome(&self, request: Seq) -> Seq {
        let held = self.open.get(&request).filter(|open| open.row.status == Status::Held);
        let maker = held.and_then(|open| self.making.get(&open.particulars().work_item?));
        maker.copied().unwrap_or(request)
    }

    /// Whether the first ready request lets `now` requests go before it. `None`: no request may start.
    pub(crate) fn next_gives_way(&self) -> Option<bool> {
        self.next_ready().map(|request| self.gives_way(request))
    }

    fn reschedule(&mut self, request: Seq, now: Timestamp) {
        let Some(mut open) = self.open.get_mut(&request) else { return };
        let mut scheduled = open.is_scheduled();
        if scheduled {
            scheduled = self.gives_way(request);
            let Some(again) = self.open.get_mut(&request) else { return };
            open = again;
        }
        let last_start = self.producers.last_start(open.producer);
        let claim = open.claim(request, scheduled);
        // The old place has the rank and the time of the claim, so `remove` finds it although the claim changed.
        self.schedule.remove(&claim, open.place, last_start);
        open.place = self.schedule.insert(&claim, last_start, now);
    }

    fn unschedule(&mut self, request: Seq) {
        let Some(open) = self.open.get_mut(&request) else { return };
        // The place has the rank of the claim.
        let claim = open.claim(request, false);
        self.schedule.remove(&claim, open.place, self.producers.last_start(open.producer));
        open.place = Place::Nowhere;
    }
}

/// The small facts that a checkpoint stores beside the rows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ledger {
    /// Counts by latest state.
    pub totals: Totals,
    /// Why nothing new is taken in.
    pub paused: Vec<PauseCause>,
    /// The session that held the home.
    pub session: Option<SessionInfo>,
    /// Producers: index, name, last start.
    pub producers: Vec<(u32, String, Seq)>,
    /// Whether a digest build began and did not end.
    pub digests_open: bool,
}

impl State {
    /// The small facts, for a checkpoint.
    pub fn ledger(&self) -> Ledger {
        Ledger {
            totals: self.totals.clone(),
            paused: self.paused.iter().copied().collect(),
            session: self.session.clone(),
            producers: self.producers.list(),
            digests_open: self.digests_open,
        }
    }

    /// The state a checkpoint stands for. The schedule starts as of `now`.
    pub fn restore(
        applied: Seq,
        ledger: Ledger,
        flows: Flows,
        open: impl IntoIterator<Item = (Seq, Open)>,
        now: Timestamp,
    ) -> State {
        let mut state = State {
            applied,
            totals: ledger.totals,
            paused: ledger.paused.into_iter().collect(),
            session: ledger.session,
            producers: Producers::from_list(ledger.producers),
            digests_open: ledger.digests_open,
            flows,
            ..State::default()
        };
        for (request, mut open) in open {
            open.place = Place::Nowhere;
            state.producers.opened(open.producer);
            state.restore_one(request, open, now);
        }
        state.find_unsettled();
        state
    }

    fn restore_one(&mut self, request: Seq, open: Open, now: Timestamp) {
        if open.is_suspect() {
            self.suspects.insert(request);
        }
        let (status, key, item) = (open.row.status, open.key, open.particulars().work_item);
        self.open.insert(request, Box::new(open));
        match (status, item) {
            (Status::Parked, _) => {
                self.parked.entry(key).or_default().insert(request);
            }
            (Status::Held, Some(item)) => {
                self.held.entry(item).or_default().insert(request);
            }
            (Status::Running, item) => {
                self.is_running(request);
                if let Some(item) = item {
                    self.making.insert(item, request);
                }
            }
            (Status::Waiting | Status::Backoff, item) => {
                if let Some(item) = item {
                    self.making.insert(item, request);
                }
                self.reschedule(request, now);
            }
            _ => {}
        }
    }

    /// After a restart: waiters whose holder may have ended just before.
    fn find_unsettled(&mut self) {
        self.unsettled_keys = self.parked.keys().copied().collect();
        self.unsettled_items = self.held.keys().copied().collect();
    }
}
