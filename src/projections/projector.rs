//! The threads that write behind the sequencer: one appends acks and quarantine records, one writes
//! the files of snapshots.
//!
//! The threads see committed events only, in order. They make their files durable from time to time
//! and report a cursor, which the next checkpoint of the log keeps. An error here stops the
//! service: the sequencer asks after every commit.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;

use crossbeam_channel::{Receiver, Sender, bounded};
use parking_lot::Mutex;

use crate::config::Exports;
use crate::contract::ids::Seq;
use crate::export::Committed;
use crate::export::append_only::Repair;
use crate::home::Home;
use crate::log::Reader;
use crate::log::codec::Cursor;
use crate::os::Disk;
use crate::projections::line_files::LineFile;
use crate::projections::projection::{Outcome, Projection, Site};
use crate::projections::snapshot_files::{Projected, SNAPSHOTS, SnapshotFiles};

/// Commits that may wait to be projected: a few, because each may hold some megabytes of requests.
const BEHIND: usize = 8;
/// Commits with snapshots that may wait to be written.
const SNAPSHOTS_BEHIND: usize = 1024;
/// Bytes of acks after which the files are made durable.
const SYNC_AFTER_BYTES: u64 = 64 << 20;

/// Acks, quarantine records or snapshot files could not be opened or kept.
#[derive(Debug, thiserror::Error)]
pub enum ProjectorError {
    #[error("write new events of the log to a file")]
    Projection(#[source] Box<dyn Error + Send + Sync>),
    #[error("start the projector")]
    Thread(#[from] std::io::Error),
}

/// The acks and the quarantine records, up to date.
pub struct Projections([LineFile; 2]);

impl Projections {
    /// Opens and repairs both files.
    pub fn open(
        disk: &Arc<dyn Disk>,
        home: &Home,
        log: &Reader,
    ) -> Result<(Projections, [Repair; 2]), ProjectorError> {
        let (disk, home, log) = (Arc::clone(disk), home.clone(), log.clone());
        let site = Site { disk, home, log, own: true, exports: Exports::default(), index: None };
        let mut files = [LineFile::acks(&site), LineFile::quarantine(&site)];
        for file in &mut files {
            file.advance(None).map_err(ProjectorError::Projection)?;
        }
        let repaired = [files[0].repaired, files[1].repaired];
        Ok((Projections(files), repaired))
    }

    /// Appends what newly committed events say.
    pub fn take(&mut self, events: &[Committed]) -> Outcome<()> {
        self.0.iter_mut().try_for_each(|file| file.fold(events))
    }

    /// Makes both files durable.
    pub fn sync(&mut self) -> Outcome<Cursors> {
        self.0.iter_mut().map(|file| Ok((file.cursor, file.checkpoint()?))).collect()
    }

    fn bytes(&self) -> u64 {
        self.0.iter().map(LineFile::bytes).sum()
    }
}

/// Cursors with their names.
pub(crate) type Cursors = Vec<(&'static str, Cursor)>;

enum Message {
    Take(Arc<Vec<Committed>>),
    Pause(PausedProjections),
    Finish,
}

/// The files are durable, and no thread writes to them until they come back.
struct PausedProjections {
    ready: Sender<()>,
    back: Receiver<Projections>,
}

#[derive(Default)]
struct ProjectorStatus {
    acks: Cursors,
    snapshots: Option<Cursor>,
    failure: Option<Box<dyn Error + Send + Sync>>,
}

fn write_snapshots(
    mut files: SnapshotFiles,
    due: Receiver<Vec<Seq>>,
    board: Arc<Mutex<ProjectorStatus>>,
) -> std::io::Result<JoinHandle<()>> {
    board.lock().snapshots = Some(files.cursor());
    std::thread::Builder::new().name("snapshots".to_owned()).spawn(move || {
        while let Ok(taken) = due.recv() {
            for seq in taken {
                if let Err(error) = files.write(seq) {
                    board.lock().failure = Some(error.into());
                    return;
                }
                files.reached(seq);
            }
            board.lock().snapshots = Some(files.cursor());
        }
    })
}

pub struct Projector {
    inbox: Sender<Message>,
    snapshots: Sender<Vec<Seq>>,
    shared: Arc<Mutex<ProjectorStatus>>,
    threads: Vec<JoinHandle<()>>,
    projected: Projected,
    /// The last event handed over, and the last of those that brings files.
    taken: AtomicU64,
    due: AtomicU64,
}

impl Projector {
    pub fn start(
        mut projections: Projections,
        snapshots: SnapshotFiles,
    ) -> Result<Projector, ProjectorError> {
        let (inbox, messages) = bounded(BEHIND);
        let shared = Arc::new(Mutex::new(ProjectorStatus::default()));
        let board = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("projector".to_owned());
        let thread = thread.spawn(move || {
            let mut durable = 0;
            while let Ok(message) = messages.recv() {
                let result = match message {
                    Message::Take(events) => projections.take(&events).and_then(|()| {
                        let written = projections.bytes();
                        if written - durable < SYNC_AFTER_BYTES {
                            return Ok(None);
                        }
                        durable = written;
                        projections.sync().map(Some)
                    }),
                    Message::Pause(rest) => projections.sync().and_then(|_| {
                        let _ = rest.ready.send(());
                        // A caller that does not return them has failed and reports that itself.
                        if let Ok(back) = rest.back.recv() {
                            projections = back;
                            durable = projections.bytes();
                        }
                        projections.sync().map(Some)
                    }),
                    Message::Finish => projections.sync().map(Some),
                };
                match result {
                    Ok(Some(cursors)) => board.lock().acks = cursors,
                    Ok(None) => {}
                    Err(error) => {
                        board.lock().failure = Some(error);
                        return;
                    }
                }
            }
        })?;
        let projected = snapshots.projected();
        let (written, due) = bounded(SNAPSHOTS_BEHIND);
        let writing = write_snapshots(snapshots, due, Arc::clone(&shared))?;
        let threads = vec![thread, writing];
        let (taken, due) = (AtomicU64::new(0), AtomicU64::new(0));
        Ok(Projector { inbox, snapshots: written, shared, threads, projected, taken, due })
    }

    /// How far the files of snapshots are, for a thread that waits for them.
    pub fn projected(&self) -> Projected {
        self.projected.clone()
    }

    /// Hands over newly committed events. Waits when the projector is far behind.
    pub fn take(&self, events: &Arc<Vec<Committed>>) -> Result<(), ProjectorError> {
        if let Some(failure) = self.shared.lock().failure.take() {
            return Err(ProjectorError::Projection(failure));
        }
        if !events.is_empty() {
            // A thread that stopped has left its failure; the next call finds it.
            let _ = self.inbox.send(Message::Take(Arc::clone(events)));
        }
        let concerned = events.iter().filter(|one| SnapshotFiles::concerns(&one.event));
        let taken: Vec<Seq> = concerned.map(|one| one.seq).collect();
        if let Some(last) = taken.last() {
            self.due.store(last.0, Ordering::Release);
            let _ = self.snapshots.send(taken);
        }
        if let Some(last) = events.last() {
            self.taken.store(last.seq.0, Ordering::Release);
        }
        Ok(())
    }

    /// How far the files are known to be durable.
    pub fn cursors(&self) -> Cursors {
        self.all_cursors(&self.shared.lock())
    }

    fn all_cursors(&self, shared: &ProjectorStatus) -> Cursors {
        let mut cursors = shared.acks.clone();
        if let Some(mut snapshots) = shared.snapshots {
            // With no file outstanding everything that was handed over is done.
            if snapshots.applied.0 >= self.due.load(Ordering::Acquire) {
                let taken = Seq(self.taken.load(Ordering::Acquire));
                snapshots.applied = snapshots.applied.max(taken);
            }
            cursors.push((SNAPSHOTS, snapshots));
        }
        cursors
    }

    /// Makes everything durable and leaves the files alone until they come back through what is
    /// returned.
    pub fn rest(&self) -> Sender<Projections> {
        let ((ready, is_ready), (bring, back)) = (bounded(1), bounded(1));
        let _ = self.inbox.send(Message::Pause(PausedProjections { ready, back }));
        // A thread that stopped has left its failure; the next call finds it.
        let _ = is_ready.recv();
        bring
    }

    /// Writes everything that is left, makes it durable and ends the thread.
    pub fn finish(mut self) -> Result<Cursors, ProjectorError> {
        let _ = self.inbox.send(Message::Finish);
        let Projector { inbox, snapshots, threads, .. } = &mut self;
        *inbox = bounded(0).0;
        *snapshots = bounded(0).0;
        for thread in std::mem::take(threads) {
            let _ = thread.join();
        }
        let mut shared = self.shared.lock();
        match shared.failure.take() {
            Some(failure) => Err(ProjectorError::Projection(failure)),
            None => Ok(self.all_cursors(&shared)),
        }
    }
}
