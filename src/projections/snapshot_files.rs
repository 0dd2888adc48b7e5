//! The snapshot files of a home, kept true to the log: `run/snapshots/<run_id>/<sequence>…`.
//!
//! Contract. Every file is what the log holds of the snapshot; one that is missing or differs is
//! written again when its record is looked at: as it is committed, or at the next start from the
//! last checkpoint on. A snapshot is in force by its record; its file follows.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use super::exporter::Exporter;
use super::projection::{Comparison, Outcome, Projection, Site};
use crate::compaction::agent_runs::facts::{own_snapshot_at, scan_facts};
use crate::compaction::files::{SnapshotStore, StoreError, sequence_of};
use crate::contract::ids::Seq;
use crate::export::Committed;
use crate::export::append_only::ProjectionError;
use crate::facts::agent_run::AgentRunFact;
use crate::home::Home;
use crate::log::codec::Cursor;
use crate::log::{ReadError, Reader};
use crate::os::Disk;
use crate::sequencer::engine;
use crate::state::event::Event;

/// The name of their cursor.
pub const SNAPSHOTS: &str = "snapshots";
/// How long an asker waits for the files of what it had committed.
const PATIENCE: Duration = Duration::from_secs(10);

pub(crate) const EXPORTER: Exporter = Exporter {
    name: "snapshots",
    files: &["run/snapshots"],
    folders: &[],
    paced: false,
    is_on: |_| true,
    open: |site| Box::new(SnapshotTree { site: site.clone(), files: None }),
};

/// The snapshot files as an entry of the list.
struct SnapshotTree {
    site: Site,
    files: Option<SnapshotFiles>,
}

impl SnapshotTree {
    fn open_at(&mut self, cursor: Cursor, until: Option<Seq>) -> Outcome<()> {
        let Site { disk, home, log, .. } = &self.site;
        self.files = Some(SnapshotFiles::open(disk, home.snapshots(), log, cursor, until)?);
        Ok(())
    }
}

impl Projection for SnapshotTree {
    fn position(&self) -> Seq {
        self.files.as_ref().map_or(Seq::ZERO, |files| files.applied)
    }

    fn fold(&mut self, batch: &[Committed]) -> Outcome<()> {
        self.advance(batch.last().map(|last| last.seq))
    }

    fn advance(&mut self, until: Option<Seq>) -> Outcome<()> {
        let cursor = match (&self.files, self.site.own) {
            (Some(files), _) => files.cursor(),
            (None, true) => engine::cursor(&self.site.log, SNAPSHOTS)?,
            (None, false) => Cursor::default(),
        };
        self.open_at(cursor, until)
    }

    fn checkpoint(&mut self) -> Outcome<Cursor> {
        Ok(self.files.as_ref().map(SnapshotFiles::cursor).unwrap_or_default())
    }

    fn compare(&mut self) -> Outcome<Comparison> {
        let Site { disk, home, log, .. } = &self.site;
        let (dir, mut found) = (home.snapshots(), Comparison::default());
        let store = SnapshotStore::new(Arc::clone(disk), dir.clone());
        let mut differs = |run_id: &str, file: &str, problem: &str| {
            found.differs(self.site.relative(&store.run_dir(run_id).join(file)), problem);
        };
        let mut newest: BTreeMap<String, u64> = BTreeMap::new();
        for seq in taken(log, Seq(1), None)? {
            let (fact, body) = own_snapshot_at(log, seq)?;
            let found = match &body {
                Some(body) => store.differences(&fact, body)?,
                None => store.left_of(&fact)?,
            };
            for one in found {
                differs(&fact.run_id, &one.path, &one.what);
            }
            newest.insert(fact.run_id, fact.sequence);
        }
        let listed = |dir: &Path| match disk.list(dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            listed => listed,
        };
        for run_id in listed(&dir)? {
            let last = newest.get(&run_id).copied().unwrap_or(0);
            for file in listed(&store.run_dir(&run_id))? {
                if sequence_of(&file).is_some_and(|sequence| sequence > last) {
                    differs(&run_id, &file, "the log knows no such snapshot");
                }
            }
        }
        Ok(found)
    }

    fn repair(&mut self) -> Outcome<usize> {
        let differences = self.compare()?.differences.len();
        self.open_at(Cursor::default(), None)?;
        Ok(differences)
    }
}

/// The events between two positions that took a snapshot.
fn taken(log: &Reader, from: Seq, until: Option<Seq>) -> Result<Vec<Seq>, ReadError> {
    let mut taken = Vec::new();
    scan_facts(log, from, until, &mut |seq, _, fact| {
        if matches!(fact, AgentRunFact::SnapshotTaken(_)) {
            taken.push(seq);
        }
        Ok(())
    })?;
    Ok(taken)
}

pub struct SnapshotFiles {
    log: Reader,
    store: SnapshotStore,
    applied: Seq,
    projected: Projected,
}

impl SnapshotFiles {
    /// Brings the files below `dir` up to a position of the log, from a cursor on.
    pub fn open(
        disk: &Arc<dyn Disk>,
        dir: PathBuf,
        log: &Reader,
        cursor: Cursor,
        until: Option<Seq>,
    ) -> Result<SnapshotFiles, ProjectionError> {
        let head = log.head().0;
        let applied = until.unwrap_or(head).min(head);
        let mut files = SnapshotFiles {
            log: log.clone(),
            store: SnapshotStore::new(Arc::clone(disk), dir),
            applied: cursor.applied,
            projected: Projected::default(),
        };
        let due = taken(log, cursor.applied.next(), Some(applied))?;
        for seq in due {
            files.write(seq)?;
        }
        files.reached(applied);
        Ok(files)
    }

    /// Those of a home, from the cursor that its log holds.
    pub fn of_home(disk: &Arc<dyn Disk>, home: &Home, log: &Reader) -> Outcome<SnapshotFiles> {
        let cursor = engine::cursor(log, SNAPSHOTS)?;
        Ok(SnapshotFiles::open(disk, home.snapshots(), log, cursor, None)?)
    }

    /// Whether an event brings a file.
    pub fn concerns(event: &Event) -> bool {
        matches!(event, Event::AgentRun(fact) if matches!(**fact, AgentRunFact::SnapshotTaken(_)))
    }

    /// Writes the files of one record.
    pub fn write(&mut self, seq: Seq) -> Result<(), ProjectionError> {
        let (fact, body) = own_snapshot_at(&self.log, seq)?;
        let written = match &body {
            Some(body) => self.store.restore(&fact, body),
            None => self.store.remove(&fact),
        };
        written.map_err(store_failed)
    }

    /// Everything up to a record is written.
    pub fn reached(&mut self, applied: Seq) {
        self.applied = applied;
        self.projected.reach(applied);
    }

    /// How far they are; each write is durable when it returns.
    pub fn cursor(&self) -> Cursor {
        Cursor { applied: self.applied, bytes: 0 }
    }

    /// How far the files are, for a thread that waits for them.
    pub fn projected(&self) -> Projected {
        self.projected.clone()
    }
}

/// How far the files are, to wait for.
#[derive(Clone, Default)]
pub struct Projected(Arc<(Mutex<Seq>, Condvar)>);

impl Projected {
    fn reach(&self, seq: Seq) {
        let (reached, changed) = &*self.0;
        *reached.lock() = seq;
        changed.notify_all();
    }

    /// Waits until the files of a record are written, for a while.
    pub(crate) fn wait_for(&self, seq: Seq) {
        let (reached, changed) = &*self.0;
        let mut reached = reached.lock();
        let deadline = std::time::Instant::now() + PATIENCE;
        while *reached < seq {
            if changed.wait_until(&mut reached, deadline).timed_out() {
                return;
            }
        }
    }
}

fn store_failed(error: StoreError) -> ProjectionError {
    match error {
        StoreError::Io { what, path, source } => {
            ProjectionError::File { doing: what, path, source }
        }
        StoreError::Damaged { ref path, .. } | StoreError::Taken { ref path } => {
            let path = path.clone();
            ProjectionError::File { doing: "write", path, source: std::io::Error::other(error) }
        }
    }
}
