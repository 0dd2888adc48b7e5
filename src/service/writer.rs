//! The thread that makes a batch durable while the sequencer decides the next one.
//!
//! Contract. Batches are written one at a time, in the order they were handed over, and each is
//! answered once: with the hashes of its records, or with the error after which nothing more is
//! written. Encoding, hashing, compressing and syncing all happen here, so the sequencer waits for
//! none of them as long as it has something else to do.

use std::sync::Arc;
use std::thread::JoinHandle;

use crossbeam_channel::{Receiver, Sender, bounded};
use parking_lot::{Mutex, MutexGuard};

use super::past::Pending;
use crate::contract::ids::Seq;
use crate::log::{Appended, Checkpoint, Commit, LogError, NewRecord, Store, codec};

/// A batch that is complete.
pub(super) struct Batch {
    /// Where its first record goes.
    pub first: Seq,
    /// Its events, which the sequencer goes on reading.
    pub events: Arc<Vec<Pending>>,
    /// Bytes beside some of them, by place in the batch, in order.
    pub bodies: Vec<(usize, Vec<u8>)>,
    /// Where the input stands after it.
    pub mark: Vec<u8>,
    /// A checkpoint that becomes durable with it.
    pub checkpoint: Option<Checkpoint>,
}

/// What became of a batch.
pub type Written = Result<Appended, LogError>;

/// The thread, and the store it writes to.
pub(super) struct Writer {
    store: Arc<Mutex<Store>>,
    inbox: Option<Sender<Batch>>,
    written: Receiver<Written>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    /// Starts writing to a store.
    pub fn start(store: Store) -> std::io::Result<Writer> {
        let store = Arc::new(Mutex::new(store));
        let (inbox, batches) = bounded::<Batch>(1);
        let (answers, written) = bounded(1);
        let shared = Arc::clone(&store);
        let thread = std::thread::Builder::new().name("writer".to_owned());
        let thread = thread.spawn(move || {
            for batch in batches {
                // Nobody is left to hear it only when the engine was dropped with a batch under way.
                let _ = answers.send(write(&mut shared.lock(), batch));
            }
        })?;
        Ok(Writer { store, inbox: Some(inbox), written, thread: Some(thread) })
    }

    /// Hands a batch over.
    pub fn write(&self, batch: Batch) -> Result<(), LogError> {
        let sent = self.inbox.as_ref().is_some_and(|inbox| inbox.send(batch).is_ok());
        if sent { Ok(()) } else { Err(LogError::Poisoned) }
    }

    /// Where the answer to each batch arrives.
    pub fn written(&self) -> &Receiver<Written> {
        &self.written
    }

    /// The store, once the batch under way is written.
    pub fn store(&self) -> MutexGuard<'_, Store> {
        self.store.lock()
    }

    /// Ends the thread and closes the store in order.
    pub fn close(self) -> Result<(), LogError> {
        let store = Arc::clone(&self.store);
        drop(self);
        Arc::into_inner(store).map_or(Err(LogError::Poisoned), |store| store.into_inner().close())
    }
}

impl Drop for Writer {
    /// Whoever opens the store next must find it closed.
    fn drop(&mut self) {
        self.inbox = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn write(store: &mut Store, batch: Batch) -> Written {
    let Batch { first, events, bodies, mark, checkpoint } = batch;
    let mut bodies = bodies.into_iter().peekable();
    let records = events.iter().enumerate().map(|(place, pending)| {
        let (tag, version, payload) = codec::encode(&pending.event);
        let body = bodies.next_if(|(at, _)| *at == place).map(|(_, body)| body);
        NewRecord { at: pending.at, tag, version, payload, body }
    });
    let records: Vec<NewRecord> = records.collect();
    drop(events);
    store.append(Commit { first, records: &records, mark: &mark, checkpoint })
}
