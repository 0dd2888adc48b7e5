//! The turn of the day: at midnight one session ends and another begins.

use std::time::{Duration, Instant};

use crate::projections::projector::Projections;
use crate::sequencer::engine::CheckpointWhen;
use crate::state::event::SessionEnd;
use crate::upkeep::retention::{self, Policy};

use super::error::ServiceError;
use super::state::ServiceLoop;

/// How long retention may hold up the service between two sessions.
const RETAIN_FOR: Duration = Duration::from_secs(5);

impl ServiceLoop {
    /// Begins the session of a new day as soon as no attempt of the old one is under way.
    pub(super) fn turn_of_day(&mut self) -> Result<(), ServiceError> {
        let today = self.now().day_in(self.service.config.timezone);
        self.session.is_ending = today > self.session.day && self.service.next_session.is_some();
        if !self.session.is_ending || self.engine.state().running_count() > 0 {
            return Ok(());
        }
        // Events count in the report of a session once they are durable.
        self.finish_writing()?;
        self.session.is_ending = false;
        self.session.day = today;
        let Some(next) = self.service.next_session.as_mut().and_then(|next| next()) else {
            return Ok(());
        };
        self.end_session(SessionEnd::Clean, None)?;
        self.retain()?;
        let ended = std::mem::take(&mut self.session.counts);
        self.session.earlier.add(ended);
        self.service.session = next.clone();
        let now = self.now();
        self.engine.begin_session(next, now)?;
        self.commit(CheckpointWhen::Due)
    }

    /// Applies the retention policy, where the configuration asks for it daily.
    fn retain(&mut self) -> Result<(), ServiceError> {
        let policy = Policy::in_passing(&self.service.config);
        if !self.service.config.retention_daily || policy.keeps_all() {
            return Ok(());
        }
        self.finish_writing()?;
        let (now, machine, home) = (self.now(), &self.service.machine, &self.service.home);
        // Retention rewrites the file of the acks, so the projector leaves it alone meanwhile.
        let bring_back = self.projector.rest();
        let until = Instant::now() + RETAIN_FOR;
        loop {
            let due = retention::look(machine.disk.as_ref(), home, &self.engine, policy, now)?;
            let removed = retention::apply(machine, home, &mut self.engine, &due, "service", now)?;
            tracing::info!(?removed, "removed data older than the retention period");
            // The rest waits for the next day.
            if !due.is_cut() || Instant::now() >= until {
                break;
            }
        }
        let (acks, _) = Projections::open(&machine.disk, home, self.engine.log())?;
        let _ = bring_back.send(acks);
        Ok(())
    }
}
