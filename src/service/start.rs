//! How the loop begins.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{bounded, never};

use crate::control::socket::ControlServer;
use crate::os::memory::use_small_pages;
use crate::projections::projector::Projector;
use crate::seam::position::{Position, QueueError, as_adopted, describe_change};
use crate::seam::tail::TailOptions;
use crate::sequencer::copies::Copies;
use crate::sequencer::engine::{CheckpointWhen, Engine};
use crate::sequencer::intake::{Intake, IntakeOptions, SourceCheck};
use crate::sequencer::mark::QueueMarks;
use crate::state::event::SessionEnd;
use crate::work::pool::{Pool, PoolSize};

use super::budget;
use super::counts::SessionCounts;
use super::error::ServiceError;
use super::setup::{Service, Until};
use super::starts::{LOOK_AT_DISK_EVERY, SLOTS_PER_WORKER};
use super::state::{
    Attempts, Batch, FreeSpace, Others, QueueLines, QueueWaits, ServiceLoop, Session,
};

impl Service {
    /// Runs until the end. The engine is open, and the projections are repaired.
    pub fn run(
        mut self,
        mut engine: Engine,
        projector: Projector,
        control: Option<&ControlServer>,
        until: Until,
    ) -> Result<(SessionCounts, Engine), ServiceError> {
        let now = self.machine.clock.now();
        engine.begin_session(self.session.clone(), now)?;
        let freed = budget::after_start(&mut engine, &self.config, now)?;
        if freed > 0 {
            tracing::info!(requests = freed, "the budget held requests back; they continue");
        }
        let marks = QueueMarks::decode(&engine.log().mark())?;
        let (intake, waits) = match self.start_intake(&engine, &marks)? {
            Ok(started) => started,
            Err(error) => {
                // The session has begun in the log, so its failure is recorded there too.
                let now = self.machine.clock.now();
                let why = error.to_string();
                let report = SessionCounts::default().report(Vec::new(), None, Some(&why));
                engine.end_session(SessionEnd::Failed, report, now)?;
                engine.commit(None, CheckpointWhen::Due, &[], now)?;
                return Err(error);
            }
        };
        // An attempt has a slot also while it waits for a provider.
        let slots = self.config.workers * SLOTS_PER_WORKER + self.config.paid_threads();
        let (sender, reports) = bounded(slots * 4);
        let timeout = Duration::from_millis(self.config.attempt_timeout_ms.max(1) as u64);
        let size = PoolSize {
            threads: self.config.workers,
            paid_threads: self.config.paid_threads(),
            slots,
            timeout,
        };
        if self.config.waits_for_models() {
            use_small_pages();
        }
        let pool =
            Pool::start(Arc::clone(&self.worker), engine.log(), size, sender, &self.stop.flag())?;
        let day = self.machine.clock.now().day_in(self.config.timezone);
        let others = self.other_workers.take();
        let others = others.map(Others::new);
        // The only receiver: dropping it tells the senders of notes that the session is over.
        let notes = self.notes.take().unwrap_or_else(never);
        let service_loop = ServiceLoop {
            until,
            engine,
            projector,
            attempts: Attempts {
                pool,
                reports,
                slots,
                timeout,
                others,
                begun_before: BTreeSet::new(),
            },
            queue: QueueLines { intake: Some(intake), unparsed: None, at_end: false, marks, waits },
            questions: control.map_or_else(never, |control| control.questions.clone()),
            asking: control.map(ControlServer::progress),
            notes,
            batch: Batch::default(),
            sealed: VecDeque::new(),
            // Long enough ago for a look in the first turn.
            disk: FreeSpace { checked: Instant::now() - LOOK_AT_DISK_EVERY, bytes: None },
            session: Session {
                counts: SessionCounts::default(),
                earlier: SessionCounts::default(),
                day,
                is_ending: false,
            },
            service: self,
        };
        service_loop.run()
    }

    /// The outer error is one of the log, after which the session cannot be ended in order.
    fn start_intake(
        &mut self,
        engine: &Engine,
        marks: &QueueMarks,
    ) -> Result<Result<(Intake, Option<QueueWaits>), ServiceError>, ServiceError> {
        let host = self.config.queue_host();
        let place = match self.config.ingests() {
            true => self.place(engine, marks, &host).map(Some),
            false => Ok(None),
        };
        let (position, waits) = match place {
            Ok(position) => (position, None),
            // The queues of the other hosts are read all the same, and this host may be the only one that leads.
            Err(ServiceError::Queue(error)) if self.config.cluster.is_some() => {
                let why = format!("{error}; start the service of this host again after that");
                tracing::warn!(why, "the lines of this host wait here");
                (None, Some((self.machine.clock.now(), why)))
            }
            Err(error) => return Ok(Err(error)),
        };
        let reads_own = position.is_some();
        let options = IntakeOptions {
            host,
            path: self.home.queue.clone(),
            reads_own,
            tail: TailOptions {
                max_line_bytes: self.config.line_bytes_max,
                partial_line_grace_ms: self.config.partial_line_grace_ms,
            },
            lines_max: self.config.commit_inputs_max,
            bytes_max: self.config.commit_bytes_max,
            parsers: self.config.workers.clamp(1, 2),
        };
        // A process before this one may have ended before the tables knew what it made.
        for (key, ended) in engine.state().recent_outputs() {
            self.worker.was_made(key, ended);
        }
        let (worker, log) = (Arc::clone(&self.worker), engine.log().clone());
        let check: SourceCheck =
            Arc::new(move |request, ended| worker.source_since(&log, request, ended));
        let (flows, log) = (&self.flows, engine.log());
        let others = self.others.take();
        let position = position.unwrap_or(Position::START);
        let intake =
            Intake::start(&self.machine, position, &options, flows, log, Some(&check), others);
        Ok(intake.map(|intake| (intake, waits)).map_err(ServiceError::from))
    }

    /// Where the queue of this host continues.
    fn place(
        &self,
        engine: &Engine,
        marks: &QueueMarks,
        host: &str,
    ) -> Result<Position, ServiceError> {
        let (disk, path) = (&self.machine.disk, &self.home.queue);
        Copies::new(host.to_owned()).refuse(engine.log(), marks, disk, path)?;
        let place = marks.place_in(host, disk, path)?;
        let place = as_adopted(disk, path, place, &self.home.adopted_queue())?;
        match describe_change(disk, path, &place)? {
            None => Ok(place),
            Some(change) => Err(QueueError::Changed { path: path.clone(), change }.into()),
        }
    }
}
