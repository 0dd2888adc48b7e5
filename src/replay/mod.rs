//! The state again from the log alone, and the proof that nothing has drifted.
//!
//! Contract. Replay decodes and applies; it never picks, never calls out, never writes to the home.
//! It imports no model, flow, upstream or seam, so the compiler proves that it cannot. Memory stays
//! flat: at every checkpoint the rows that the service moved to its tables leave here too, after
//! their digest was compared with the one the service recorded.

use std::collections::BTreeMap;
use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::compaction::agent_runs::facts::{scan_facts, snapshot_at};
use crate::compaction::files::{SnapshotStore, StoreError, sequence_of};
use crate::contract::hash::Digest;
use crate::contract::ids::Seq;
use crate::contract::time::Timestamp;
use crate::export::append_only::Project;
use crate::export::{Committed, ack, quarantine};
use crate::facts::agent_run::AgentRunFact;
use crate::log::checkpoint::{chain_digest, stored_digest, tables};
use crate::log::codec::{self, CodecError};
use crate::log::{Entry, LogError, ReadError, Reader};
use crate::os::{Disk, DiskFile, Open};
use crate::state::event::Event;
use crate::state::{Impossible, State};

/// Bytes compared at once.
const CHUNK_BYTES: usize = 1 << 20;
/// Differences listed.
const DIFFERENCES_MAX: usize = 100;

/// The log cannot be replayed.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The store.
    #[error("read the log")]
    Log(#[from] LogError),
    /// A record that does not read.
    #[error("read event {seq}")]
    Event {
        /// Which one.
        seq: Seq,
        /// Why.
        source: CodecError,
    },
    /// A fact that cannot follow.
    #[error("apply an event")]
    Impossible(#[from] Impossible),
    /// A published file.
    #[error("read {path}")]
    File {
        /// Which one.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// What the log says about runs.
    #[error("read the runs")]
    Runs(#[from] ReadError),
    /// The files of a run.
    #[error("compare the snapshots of runs")]
    Snapshots(#[from] StoreError),
}

/// How far to replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// To the end.
    Head,
    /// Up to and with this event.
    Seq(Seq),
    /// Up to the last event stamped at or before this moment.
    Time(Timestamp),
}

/// A state that was built from the log alone.
pub struct Replayed {
    /// The state.
    pub state: State,
    /// Events applied, by name.
    pub events: BTreeMap<&'static str, u64>,
    /// The time of the last one.
    pub last_at: Option<Timestamp>,
    /// The digest over what its checkpoints would have written.
    pub digest: Digest,
    /// Everything that is not what the service recorded or left behind.
    pub differences: Vec<String>,
}

/// Whether replay also looks at what the service left behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compare {
    /// Only rebuild.
    Nothing,
    /// Compare each row of the tables as well.
    Tables,
}

/// Rebuilds the state. `progress` hears how much of the log is done, from 0 to 1.
pub fn rebuild(
    log: &Reader,
    until: Until,
    compare: Compare,
    progress: &mut dyn FnMut(f64),
) -> Result<Replayed, ReplayError> {
    let (head, _) = log.head();
    let last = match until {
        Until::Seq(seq) => Some(seq),
        Until::Head | Until::Time(_) => None,
    };
    let mut replay = Replay {
        log,
        compare,
        state: State::default(),
        digest: Digest::ZERO,
        events: BTreeMap::new(),
        last_at: None,
        differences: Vec::new(),
    };
    let mut failure = None;
    log.scan(Seq(1), last, &mut |entry| {
        if matches!(until, Until::Time(time) if entry.at > time) {
            return ControlFlow::Break(());
        }
        if entry.seq.0 % 65_536 == 0 {
            progress(entry.seq.0 as f64 / head.0.max(1) as f64);
        }
        match replay.step(&entry) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                failure = Some(error);
                ControlFlow::Break(())
            }
        }
    })?;
    if let Some(error) = failure {
        return Err(error);
    }
    if compare == Compare::Tables && until == Until::Head {
        replay.compare_open()?;
        let stored = stored_digest(log)?;
        if stored.is_some_and(|stored| stored != replay.digest) {
            replay.differs("the stored state digest is not the one the log leads to".to_owned());
        }
    }
    let Replay { state, digest, events, last_at, differences, .. } = replay;
    Ok(Replayed { state, events, last_at, digest, differences })
}

struct Replay<'a> {
    log: &'a Reader,
    compare: Compare,
    state: State,
    digest: Digest,
    events: BTreeMap<&'static str, u64>,
    last_at: Option<Timestamp>,
    differences: Vec<String>,
}

impl Replay<'_> {
    fn step(&mut self, entry: &Entry<'_>) -> Result<(), ReplayError> {
        let event = codec::decode(entry.tag, entry.version, entry.payload)
            .map_err(|source| ReplayError::Event { seq: entry.seq, source })?;
        // What a checkpoint wrote is what had changed before its own event.
        if let Event::CheckpointTaken { state, .. } = &event {
            self.checkpoint(entry.seq, *state)?;
        }
        self.state.apply(entry.seq, entry.at, &event)?;
        *self.events.entry(event.name()).or_default() += 1;
        self.last_at = Some(entry.at);
        Ok(())
    }

    fn checkpoint(&mut self, seq: Seq, recorded: Digest) -> Result<(), ReplayError> {
        let written = tables(&self.state);
        self.digest = chain_digest(&self.digest, &written);
        if self.digest != recorded {
            self.differs(format!("checkpoint {seq} recorded another state digest"));
            // Go on from what was recorded, so that one difference is reported once.
            self.digest = recorded;
        }
        if self.compare == Compare::Tables {
            for (request, row) in &written.rows {
                if self.log.row(*request)?.as_ref() != Some(row) {
                    self.differs(format!("the table row of request {request} is another"));
                }
            }
        }
        self.state.checkpoint_begun();
        self.state.checkpointed();
        Ok(())
    }

    /// Open requests in the tables are those of the last checkpoint.
    fn compare_open(&mut self) -> Result<(), ReplayError> {
        let mut stored = BTreeMap::new();
        self.log.open_rows(&mut |seq, bytes| {
            stored.insert(seq, bytes.to_vec());
            ControlFlow::Continue(())
        })?;
        let changed = &self.state.changed().open;
        let open = self.state.open_from(Seq(0)).filter(|(seq, _)| !changed.contains(seq));
        let expected: BTreeMap<Seq, Vec<u8>> =
            open.map(|(seq, open)| (seq, codec::encode_open(open))).collect();
        let stale: Vec<Seq> = changed.iter().copied().collect();
        for seq in stale {
            stored.remove(&seq);
        }
        if stored != expected {
            self.differs("the table of open requests is not what the log leads to".to_owned());
        }
        Ok(())
    }

    fn differs(&mut self, what: String) {
        if self.differences.len() < DIFFERENCES_MAX {
            self.differences.push(what);
        }
    }
}

/// Compares the append-only files of a home with what the log projects to. A file may end early
/// only where `may_lag` says that somebody is still appending to it.
pub fn compare_files(
    log: &Reader,
    disk: &Arc<dyn Disk>,
    acks: &Path,
    quarantined: &Path,
    may_lag: bool,
) -> Result<Vec<String>, ReplayError> {
    let mut differences = Vec::new();
    let floor = log.document("cursor.acks_floor")?;
    let floor = floor.and_then(|bytes| codec::decode_cursor(&bytes).ok());
    let after = floor.map_or(Seq(0), |floor| floor.applied);
    for (path, project, after) in
        [(acks, ack::line as Project, after), (quarantined, quarantine::line, Seq(0))]
    {
        if let Some(difference) = compare_file(log, disk, path, (project, after), may_lag)? {
            differences.push(format!("{}: {difference}", path.display()));
        }
    }
    Ok(differences)
}

/// Compares the snapshot files of a home with what the log holds of each, and finds those the log
/// does not know.
pub fn compare_snapshots(
    log: &Reader,
    disk: &Arc<dyn Disk>,
    dir: &Path,
) -> Result<Vec<String>, ReplayError> {
    let store = SnapshotStore::new(Arc::clone(disk), dir.to_owned());
    let mut differences = Vec::new();
    let mut differs = |run_id: &str, file: &str, problem: &str| {
        if differences.len() < DIFFERENCES_MAX {
            let path = store.run_dir(run_id).join(file);
            differences.push(format!("{}: {problem}", path.display()));
        }
    };
    let mut taken = Vec::new();
    scan_facts(log, Seq(1), None, &mut |seq, _, fact| {
        if matches!(fact, AgentRunFact::SnapshotTaken(_)) {
            taken.push(seq);
        }
        Ok(())
    })?;
    let mut newest: BTreeMap<String, u64> = BTreeMap::new();
    for seq in taken {
        let (fact, body) = snapshot_at(log, seq)?;
        for found in store.differences(&fact, &body)? {
            differs(&fact.run_id, &found.file, &found.problem);
        }
        newest.insert(fact.run_id, fact.sequence);
    }
    let listed = |dir: &Path| match disk.list(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        listed => listed.map_err(|source| ReplayError::File { path: dir.to_owned(), source }),
    };
    for run_id in listed(dir)? {
        let last = newest.get(&run_id).copied().unwrap_or(0);
        for file in listed(&store.run_dir(&run_id))? {
            if sequence_of(&file).is_some_and(|sequence| sequence > last) {
                differs(&run_id, &file, "the log knows no such snapshot");
            }
        }
    }
    Ok(differences)
}

fn compare_file(
    log: &Reader,
    disk: &Arc<dyn Disk>,
    path: &Path,
    (project, after): (Project, Seq),
    may_lag: bool,
) -> Result<Option<String>, ReplayError> {
    let failed = |source| ReplayError::File { path: path.to_owned(), source };
    if disk.stat(path).map_err(failed)?.is_none() {
        return Ok(Some("is missing".to_owned()));
    }
    let file = disk.open(path, Open::Read).map_err(failed)?;
    let mut follower = Follower { file, offset: 0, expected: Vec::new(), ended: false };
    let mut outcome: Result<Option<String>, ReplayError> = Ok(None);
    log.scan(after.next(), None, &mut |entry| {
        let event = match codec::decode(entry.tag, entry.version, entry.payload) {
            Ok(event) => event,
            Err(source) => {
                outcome = Err(ReplayError::Event { seq: entry.seq, source });
                return ControlFlow::Break(());
            }
        };
        let committed = Committed { seq: entry.seq, at: entry.at, hash: entry.hash(), event };
        if let Some(line) = project(&committed) {
            follower.expected.extend_from_slice(line.as_bytes());
        }
        if follower.expected.len() < CHUNK_BYTES {
            return ControlFlow::Continue(());
        }
        match follower.compare() {
            Ok(None) => ControlFlow::Continue(()),
            Ok(Some(difference)) => {
                outcome = Ok(Some(difference));
                ControlFlow::Break(())
            }
            Err(source) => {
                outcome = Err(failed(source));
                ControlFlow::Break(())
            }
        }
    })?;
    if let Some(difference) = outcome? {
        return Ok(Some(difference));
    }
    if let Some(difference) = follower.compare().map_err(failed)? {
        return Ok(Some(difference));
    }
    let length = follower.file.stat().map_err(failed)?.len;
    Ok(match (follower.ended, length > follower.offset) {
        (true, _) if !may_lag => Some(format!("ends at byte {}, lines are missing", length)),
        (_, true) if !may_lag => {
            Some(format!("has bytes the log does not know after byte {}", follower.offset))
        }
        _ => None,
    })
}

struct Follower {
    file: Arc<dyn DiskFile>,
    offset: u64,
    expected: Vec<u8>,
    ended: bool,
}

impl Follower {
    /// Compares what is expected next with the file.
    fn compare(&mut self) -> io::Result<Option<String>> {
        let mut found = vec![0; self.expected.len()];
        let mut filled = 0;
        while filled < found.len() && !self.ended {
            let count = self.file.read_at(&mut found[filled..], self.offset + filled as u64)?;
            self.ended = count == 0;
            filled += count;
        }
        let pairs = found[..filled].iter().zip(&self.expected);
        let same = pairs.take_while(|(found, expected)| found == expected).count();
        self.offset += same as u64;
        self.expected.clear();
        Ok((same < filled).then(|| format!("differs from the log at byte {}", self.offset)))
    }
}
