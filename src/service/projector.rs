//! The thread that appends acks and quarantine records behind the sequencer.
//!
//! It sees committed events only, in order. It is told to make its files durable now and then and
//! says how far that is; the next checkpoint remembers it. An error here is an error of the
//! service: the sequencer asks after every commit and stops.

use std::sync::Arc;
use std::thread::JoinHandle;

use crossbeam_channel::{Sender, bounded};
use parking_lot::Mutex;

use super::engine::{self, EngineError};
use super::home::Home;
use crate::export::append_only::{AppendOnly, ProjectionError, Repair};
use crate::export::{Committed, ack, quarantine};
use crate::log::Reader;
use crate::log::codec::Cursor;
use crate::os::Disk;

/// Commits that may wait to be projected.
const BEHIND: usize = 64;
/// Bytes of acks after which the files are made durable.
const SYNC_AFTER_BYTES: u64 = 64 << 20;

/// The name of the acks' cursor.
pub const ACKS: &str = "acks";
/// The name of the quarantine's cursor.
pub const QUARANTINE: &str = "quarantine";

/// The append-only projections could not be opened or kept.
#[derive(Debug, thiserror::Error)]
pub enum ProjectorError {
    /// Where they had got to is not known.
    #[error("read a cursor")]
    Cursor(#[from] EngineError),
    /// A file.
    #[error(transparent)]
    Projection(#[from] ProjectionError),
    /// The thread could not be started.
    #[error("start the projector")]
    Thread(#[from] std::io::Error),
}

/// Both files, up to date.
pub struct Projections {
    acks: AppendOnly,
    quarantine: AppendOnly,
}

impl Projections {
    /// Opens and repairs both files.
    pub fn open(
        disk: &Arc<dyn Disk>,
        home: &Home,
        log: &Reader,
    ) -> Result<(Projections, [Repair; 2]), ProjectorError> {
        let cursors = [engine::cursor(log, ACKS)?, engine::cursor(log, QUARANTINE)?];
        let (acks, first) =
            AppendOnly::open(Arc::clone(disk), &home.acks(), ack::line, cursors[0], log, None)?;
        let (quarantine, second) = AppendOnly::open(
            Arc::clone(disk),
            &home.quarantine(),
            quarantine::line,
            cursors[1],
            log,
            None,
        )?;
        Ok((Projections { acks, quarantine }, [first, second]))
    }

    /// Appends what newly committed events say.
    pub fn take(&mut self, events: &[Committed]) -> Result<(), ProjectionError> {
        self.acks.take(events)?;
        self.quarantine.take(events)
    }

    /// Makes both files durable.
    pub fn sync(&mut self) -> Result<[(&'static str, Cursor); 2], ProjectionError> {
        Ok([(ACKS, self.acks.sync()?), (QUARANTINE, self.quarantine.sync()?)])
    }
}

enum Message {
    Take(Arc<Vec<Committed>>),
    Finish,
}

#[derive(Default)]
struct Shared {
    cursors: Vec<(&'static str, Cursor)>,
    failure: Option<ProjectionError>,
}

/// The thread.
pub struct Projector {
    inbox: Sender<Message>,
    shared: Arc<Mutex<Shared>>,
    thread: JoinHandle<()>,
}

impl Projector {
    /// Starts projecting.
    pub fn start(mut projections: Projections) -> Result<Projector, ProjectorError> {
        let (inbox, messages) = bounded(BEHIND);
        let shared = Arc::new(Mutex::new(Shared::default()));
        let board = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("projector".to_owned());
        let thread = thread.spawn(move || {
            let mut durable = 0;
            while let Ok(message) = messages.recv() {
                let result = match message {
                    Message::Take(events) => projections.take(&events).and_then(|()| {
                        let written = projections.acks.bytes();
                        if written - durable < SYNC_AFTER_BYTES {
                            return Ok(None);
                        }
                        durable = written;
                        projections.sync().map(Some)
                    }),
                    Message::Finish => projections.sync().map(Some),
                };
                match result {
                    Ok(Some(cursors)) => board.lock().cursors = cursors.to_vec(),
                    Ok(None) => {}
                    Err(error) => {
                        board.lock().failure = Some(error);
                        return;
                    }
                }
            }
        })?;
        Ok(Projector { inbox, shared, thread })
    }

    /// Hands over newly committed events. Waits when the projector is far behind.
    pub fn take(&self, events: &Arc<Vec<Committed>>) -> Result<(), ProjectionError> {
        if let Some(failure) = self.shared.lock().failure.take() {
            return Err(failure);
        }
        if !events.is_empty() {
            // A thread that stopped has left its failure; the next call finds it.
            let _ = self.inbox.send(Message::Take(Arc::clone(events)));
        }
        Ok(())
    }

    /// How far the files are known to be durable.
    pub fn cursors(&self) -> Vec<(&'static str, Cursor)> {
        self.shared.lock().cursors.clone()
    }

    /// Writes everything that is left, makes it durable and ends the thread.
    pub fn finish(self) -> Result<Vec<(&'static str, Cursor)>, ProjectionError> {
        let _ = self.inbox.send(Message::Finish);
        drop(self.inbox);
        let _ = self.thread.join();
        let mut shared = self.shared.lock();
        match shared.failure.take() {
            Some(failure) => Err(failure),
            None => Ok(std::mem::take(&mut shared.cursors)),
        }
    }
}
