//! Input: orders of notes, from the threads that follow agent runs and build digests.

use crossbeam_channel::never;

use crate::projections::runs::NoteOrder;

use super::error::ServiceError;
use super::state::ServiceLoop;

impl ServiceLoop {
    /// Takes one order if one is ready and the batch has room: notes may be long.
    pub(super) fn poll_notes(&mut self) -> Result<(), ServiceError> {
        if self.engine.pending_bytes() < self.service.config.commit_bytes_max
            && let Ok(order) = self.notes.try_recv()
        {
            self.take_note_order(order)?;
        }
        Ok(())
    }

    pub(super) fn take_note_order(&mut self, order: NoteOrder) -> Result<(), ServiceError> {
        let now = self.now();
        let first = self.engine.note_all(order.make, now)?;
        self.batch.waiters.notes.push((order.reply, first));
        Ok(())
    }

    /// Takes no orders any more. Dropping the channel tells the waiting threads.
    pub(super) fn stop_notes(&mut self) {
        self.notes = never();
        self.batch.waiters.notes.clear();
    }
}
