//! Input: lines of the queue.

use crate::sequencer::intake::{Arrived, IntakeMessage};

use super::error::ServiceError;
use super::state::ServiceLoop;

impl ServiceLoop {
    /// Takes queue batches that are ready, until this batch has lines.
    pub(super) fn poll_lines(&mut self) -> Result<(), ServiceError> {
        while self.batch.mark.is_none() && self.takes_lines() {
            if let Some(promise) = self.queue.unparsed.take() {
                // Its parser began before this turn, so the wait is short. Going on without it would
                // not help: the lines behind it must stay behind it.
                match promise.recv() {
                    Ok(arrived) => self.take_lines(arrived)?,
                    Err(_) => break,
                }
                continue;
            }
            let intake = self.queue.intake.as_ref();
            let Some(message) = intake.and_then(|intake| intake.messages.try_recv().ok()) else {
                break;
            };
            self.take_message(message)?;
        }
        Ok(())
    }

    pub(super) fn take_message(&mut self, message: IntakeMessage) -> Result<(), ServiceError> {
        match message {
            IntakeMessage::Batch(promise) => {
                self.queue.at_end = false;
                if self.batch.mark.is_some() {
                    self.queue.unparsed = Some(promise);
                } else if let Ok(arrived) = promise.recv() {
                    self.take_lines(arrived)?;
                }
                Ok(())
            }
            IntakeMessage::CaughtUp(unfinished) => {
                self.queue.at_end = unfinished.is_none();
                Ok(())
            }
            IntakeMessage::Failed(error) => Err(error.into()),
        }
    }

    fn take_lines(&mut self, arrived: Arrived) -> Result<(), ServiceError> {
        let now = self.now();
        let Arrived { host, lines, foresight, end, consumed } = arrived;
        if !self.queue.marks.advance(&host, end, consumed) {
            if host != self.service.config.queue_host() {
                // Its host looks again at what the log has.
                tracing::warn!(host, at = consumed.start, "lines of another host were passed over");
                return Ok(());
            }
            return Err(ServiceError::Misplaced { host, start: consumed.start });
        }
        self.session.counts.lines += lines.len() as u64;
        self.engine.lines(lines, foresight, now)?;
        self.engine.lines_taken(&consumed, now)?;
        self.batch.mark = Some(self.queue.marks.encode());
        Ok(())
    }

    pub(super) fn stop_intake(&mut self) {
        if let Some(intake) = self.queue.intake.take() {
            intake.stop();
        }
    }
}
