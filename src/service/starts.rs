//! What follows from the inputs of a turn: limits, timeouts, waiters, and which attempts start.

use std::time::{Duration, Instant};

use crate::contract::time::Timestamp;
use crate::facts::publication::PublishFailed;
use crate::facts::session::PauseCause;
use crate::projections::summaries::PublicationFailure;
use crate::sequencer::engine::Slots;
use crate::state::decide::Report;
use crate::state::event::Event;

use super::error::ServiceError;
use super::state::ServiceLoop;

/// Attempts that may be under way for each worker thread: enough to keep the threads busy across a
/// commit, few enough that a stop does not wait long.
pub(super) const SLOTS_PER_WORKER: usize = 64;
/// The same while other hosts take attempts, and attempts wait for models far longer than for a commit.
const SLOTS_BESIDE_OTHERS: usize = 2;
/// How often free space is looked at.
pub(super) const LOOK_AT_DISK_EVERY: Duration = Duration::from_secs(2);

impl ServiceLoop {
    pub(super) fn after_inputs(&mut self) -> Result<(), ServiceError> {
        let now = self.now();
        self.record_publish_failures()?;
        self.watch_limits(now)?;
        self.watch_timeouts(now)?;
        if self.engine.state().has_unsettled() {
            self.engine.settle(now)?;
        }
        if self.engine.state().paused().is_empty() && !self.session.is_ending {
            self.engine.start_ready(self.free_slots(), now)?;
        }
        Ok(())
    }

    /// How many attempts may start. Scheduled attempts never take a slot of a `now` request.
    pub(super) fn free_slots(&self) -> Slots {
        let (state, attempts) = (self.engine.state(), &self.attempts);
        let scheduled = state.running_scheduled_count();
        let backed_up = attempts.pool.backed_up();
        // What waits here for a model cannot begin on another host.
        let shares = attempts.has_places_elsewhere() && self.service.config.waits_for_models();
        let slots = match shares {
            true => attempts.pool.thread_count() * SLOTS_BESIDE_OTHERS,
            false => attempts.slots,
        };
        let leaves = attempts.works_elsewhere();
        let slots_now = if leaves { 0 } else { slots };
        // Scheduled attempts stay here when their questions may wait for a batch.
        let stay = self.service.config.has_batches();
        let slots_scheduled = if leaves && !stay { 0 } else { slots };
        let (away, scheduled_away) = (attempts.elsewhere(), attempts.scheduled_elsewhere());
        let under_way = state.running_count() - scheduled;
        let now = under_way.saturating_sub(away - scheduled_away);
        let free = |backed_up: bool, slots: usize, running: usize| match backed_up {
            true => 0,
            false => slots.saturating_sub(running),
        };
        let free_now = free(backed_up.now, slots_now, now) + attempts.free_elsewhere();
        // An attempt that started a moment ago is not listed yet, and takes a place all the same.
        let room = (slots_now + attempts.places_elsewhere()).saturating_sub(under_way);
        let scheduled = scheduled.saturating_sub(scheduled_away);
        // Places elsewhere are for `now` requests first.
        let is_next = !stay && state.next_gives_way() == Some(true);
        let places = if is_next { attempts.free_elsewhere() } else { 0 };
        Slots {
            now: free_now.min(room),
            scheduled: free(backed_up.scheduled, slots_scheduled, scheduled) + places,
        }
    }

    /// Whether the request whose turn it is has a slot.
    pub(super) fn may_start(&self) -> bool {
        let state = self.engine.state();
        let open = state.paused().is_empty() && !self.session.is_ending;
        let open = open && !state.waits_to_be_alone();
        let slots = || self.free_slots();
        open && match self.engine.state().next_gives_way() {
            Some(true) => slots().scheduled > 0,
            Some(false) => slots().now > 0,
            None => false,
        }
    }

    fn watch_limits(&mut self, now: Timestamp) -> Result<(), ServiceError> {
        let max = self.service.config.open_requests_max;
        let open = self.engine.state().open_count();
        let pausing = self.engine.state().paused().contains(&PauseCause::OpenRequests);
        // It resumes a tenth below the limit. At the limit itself it would pause and resume with
        // every request.
        let above = if pausing { open > max - max / 10 } else { open >= max };
        if above != pausing {
            self.engine.pause(PauseCause::OpenRequests, above, now)?;
        }
        if self.disk.checked.elapsed() >= LOOK_AT_DISK_EVERY {
            self.disk.checked = Instant::now();
            let free = self.service.machine.disk.free_bytes(&self.service.home.root).ok();
            self.disk.bytes = free;
            let low = free.is_some_and(|free| free < self.service.config.disk_headroom_bytes);
            self.engine.pause(PauseCause::DiskSpace, low, now)?;
        }
        Ok(())
    }

    /// Fails attempts whose worker did not notice its own timeout.
    fn watch_timeouts(&mut self, now: Timestamp) -> Result<(), ServiceError> {
        for (request, attempt, outcome) in self.attempts.pool.take_overdue(self.attempts.timeout) {
            let epoch = self.engine.state().epoch();
            self.engine.report(Report { request, attempt, epoch, outcome }, now)?;
        }
        Ok(())
    }

    /// Each failure to publish is an event of the session.
    pub(super) fn record_publish_failures(&mut self) -> Result<(), ServiceError> {
        let Some(publishing) = self.service.publishing.clone() else { return Ok(()) };
        while let Some(trouble) = publishing.trouble() {
            let now = self.now();
            let PublicationFailure { message, violation } = trouble;
            let failed = PublishFailed { message, violation };
            self.engine.record(Event::PublishFailed(failed), now)?;
        }
        Ok(())
    }
}
