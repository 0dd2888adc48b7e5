//! Appending: records become frames, and one transaction takes everything a commit brings.

use std::sync::atomic::Ordering;

use redb::{ReadableTable as _, WriteTransaction};

use crate::contract::hash::Digest;
use crate::contract::ids::Seq;
use crate::limits;
use crate::log::error::LogError;
use crate::log::frame::{BODY_MAX, Part, RECORD};

use super::failure::{engine, guarded};
use super::tables::{APPLIED, BODIES, Bytes, DOCUMENTS, FRAMES, MARK, META, OPEN, ROWS};
use super::tiers::Index;
use super::{Appended, Checkpoint, Commit, Published, Store};

/// Longest mark: it is read at every open.
const MARK_MAX: usize = 1 << 20;

/// Everything of a commit that can be computed before the transaction.
struct Prepared {
    frames: Vec<(Seq, Vec<u8>)>,
    bodies: Vec<(Seq, Vec<u8>)>,
    hashes: Vec<Digest>,
    head: (Seq, Digest),
}

impl Store {
    /// Makes a commit durable. After an error other than `Position` and `Invalid` it is unknown
    /// whether the commit is on disk, and the store is poisoned.
    pub fn append(&mut self, commit: Commit<'_>) -> Result<Appended, LogError> {
        self.append_marked(commit, &[])
    }

    /// Makes several commits of another log durable in one transaction. `marks` holds where each of
    /// them but the last ended and what its mark was, so that the frames end where they did.
    pub fn append_marked(
        &mut self,
        commit: Commit<'_>,
        marks: &[(Seq, Vec<u8>)],
    ) -> Result<Appended, LogError> {
        self.shared.usable()?;
        let before = self.shared.published();
        admit(&commit, &before)?;
        let prepared = self.prepare(&commit, marks, before.head)?;
        // A reader that misses a chunk looks at this to tell a merge it has not heard of from loss.
        let step = u64::from(commit.checkpoint.is_some());
        self.shared.checkpoints.fetch_add(step, Ordering::SeqCst);
        let inner = marks.last().map_or(&[][..], |(_, mark)| mark);
        let mark = if commit.mark.is_empty() { inner } else { commit.mark };
        let written = guarded("commit", || self.write(&commit, &prepared, mark));
        let indexes = written.inspect_err(|_| self.shared.poison())?;
        self.publish(&commit, mark, &before, prepared.head, indexes);
        self.shared.checkpoints.fetch_add(step, Ordering::SeqCst);
        Ok(Appended { hashes: prepared.hashes, head: prepared.head })
    }

    fn prepare(
        &mut self,
        commit: &Commit<'_>,
        mut marks: &[(Seq, Vec<u8>)],
        head: (Seq, Digest),
    ) -> Result<Prepared, LogError> {
        let (mut last, mut hash) = head;
        let mut prepared = Prepared {
            frames: Vec::new(),
            bodies: Vec::new(),
            hashes: Vec::with_capacity(commit.records.len()),
            head,
        };
        let parts: Vec<Part<'_>> = commit.records.iter().map(Part::of).collect();
        let mut rest = &parts[..];
        while !rest.is_empty() {
            while marks.first().is_some_and(|(end, _)| *end <= last) {
                marks = &marks[1..];
            }
            let room = marks.first().map_or(rest.len(), |(end, _)| (end.0 - last.0) as usize);
            let room = room.min(rest.len());
            let (now, later) = rest.split_at(frame_len(&rest[..room], self.options.frame_bytes));
            let (first, previous) = (last.next(), hash);
            for part in now {
                last = last.next();
                hash = part.hash(&hash, last);
                prepared.hashes.push(hash);
            }
            let inner = marks.first().filter(|(end, _)| *end == last).map(|(_, mark)| &**mark);
            let mark = if later.is_empty() { Some(commit.mark) } else { inner };
            prepared.frames.push((first, self.packer.frame(first, &previous, now, mark)?));
            rest = later;
        }
        for (record, seq) in commit.records.iter().zip(commit.first.0..) {
            if let Some(body) = &record.body {
                prepared.bodies.push((Seq(seq), self.packer.body(Seq(seq), body)?));
            }
        }
        prepared.head = (last, hash);
        Ok(prepared)
    }

    fn write(
        &mut self,
        commit: &Commit<'_>,
        prepared: &Prepared,
        mark: &[u8],
    ) -> Result<Option<[Index; 3]>, LogError> {
        let shared = self.shared.clone();
        shared.with_db(|db| {
            let mut txn = db.begin_write().map_err(engine("begin a commit"))?;
            txn.set_quick_repair(self.options.quick_repair);
            append_rows(&txn, FRAMES, &prepared.frames)?;
            append_rows(&txn, BODIES, &prepared.bodies)?;
            let mut indexes = None;
            if let Some(checkpoint) = &commit.checkpoint {
                write_checkpoint(&txn, checkpoint)?;
                let mut next = self.indexes.clone();
                for (which, keys) in &checkpoint.keys {
                    next[which.slot()].add(&txn, *which, keys)?;
                }
                indexes = Some(next);
            }
            self.write_mark(&txn, commit, mark, prepared.head.0)?;
            txn.commit().map_err(engine("commit"))?;
            Ok(indexes)
        })
    }

    /// Notes the mark beside the tables, so that a later open looks no further back than this.
    fn write_mark(
        &self,
        txn: &WriteTransaction,
        commit: &Commit<'_>,
        mark: &[u8],
        head: Seq,
    ) -> Result<(), LogError> {
        let alone = commit.records.is_empty() && !mark.is_empty();
        if !alone && commit.checkpoint.is_none() {
            return Ok(());
        }
        let published = self.shared.published();
        let mark = if mark.is_empty() { &published.mark } else { mark };
        let mut stored = head.0.to_le_bytes().to_vec();
        stored.extend_from_slice(mark);
        let mut meta = txn.open_table(META).map_err(engine("write the mark"))?;
        meta.insert(MARK, &*stored).map_err(engine("write the mark"))?;
        Ok(())
    }

    fn publish(
        &mut self,
        commit: &Commit<'_>,
        mark: &[u8],
        before: &Published,
        head: (Seq, Digest),
        indexes: Option<[Index; 3]>,
    ) {
        let mut after = before.clone();
        after.head = head;
        if !mark.is_empty() {
            after.mark = mark.to_vec();
        }
        if let Some(checkpoint) = &commit.checkpoint {
            after.applied = checkpoint.applied;
        }
        if let Some(indexes) = indexes {
            after.tiers = [0, 1, 2].map(|slot| indexes[slot].live.clone());
            self.indexes = indexes;
        }
        *self.shared.published.write() = std::sync::Arc::new(after);
    }
}

/// How many records go into the next frame.
fn frame_len(records: &[Part<'_>], frame_bytes: usize) -> usize {
    let mut bytes = 0;
    let full = records.iter().position(|record| {
        bytes += RECORD + record.payload.len();
        bytes > frame_bytes
    });
    full.map_or(records.len(), |at| at.max(1))
}

/// Refuses what breaks a rule, before anything is touched.
fn admit(commit: &Commit<'_>, before: &Published) -> Result<(), LogError> {
    let next = before.head.0.next();
    if commit.first != next {
        return Err(LogError::Position { expected: commit.first, actual: next });
    }
    for record in commit.records {
        if record.payload.len() > limits::EVENT_BYTES_MAX {
            return Err(LogError::Invalid("a payload is too long"));
        }
        if record.body.as_ref().is_some_and(|body| body.len() > BODY_MAX) {
            return Err(LogError::Invalid("a body is too long"));
        }
    }
    if commit.mark.len() > MARK_MAX {
        return Err(LogError::Invalid("the mark is too long"));
    }
    let head = before.head.0.plus(commit.records.len() as u64);
    commit
        .checkpoint
        .as_ref()
        .map_or(Ok(()), |checkpoint| admit_checkpoint(checkpoint, before, head))
}

fn admit_checkpoint(
    checkpoint: &Checkpoint,
    before: &Published,
    head: Seq,
) -> Result<(), LogError> {
    if checkpoint.applied < before.applied || checkpoint.applied > head {
        return Err(LogError::Invalid("a checkpoint stands for a position out of range"));
    }
    if !checkpoint.rows.is_sorted_by(|(earlier, _), (later, _)| earlier < later)
        || !checkpoint.open.is_sorted_by(|(earlier, _), (later, _)| earlier < later)
    {
        return Err(LogError::Invalid("the rows of a checkpoint are not sorted or repeat"));
    }
    for (at, (which, keys)) in checkpoint.keys.iter().enumerate() {
        if !keys.is_sorted_by_key(|(digest, _)| *digest) {
            return Err(LogError::Invalid("the keys of a checkpoint are not sorted"));
        }
        if checkpoint.keys[..at].iter().any(|(earlier, _)| earlier == which) {
            return Err(LogError::Invalid("a checkpoint names an index twice"));
        }
    }
    Ok(())
}

/// Appends rows whose keys all lie behind the last one in the table.
fn append_rows(
    txn: &WriteTransaction,
    table: redb::TableDefinition<'_, u64, Bytes>,
    rows: &[(Seq, Vec<u8>)],
) -> Result<(), LogError> {
    if rows.is_empty() {
        return Ok(());
    }
    let mut table = txn.open_table(table).map_err(engine("append"))?;
    let mut cursor =
        table.upper_bound_mut(std::ops::Bound::<u64>::Unbounded).map_err(engine("append"))?;
    for (seq, value) in rows {
        cursor.insert_before(seq.0, &**value).map_err(engine("append"))?;
    }
    cursor.close().map_err(engine("append"))
}

fn write_checkpoint(txn: &WriteTransaction, checkpoint: &Checkpoint) -> Result<(), LogError> {
    let doing = "write a checkpoint";
    write_rows(txn, &checkpoint.rows)?;
    let mut open = txn.open_table(OPEN).map_err(engine(doing))?;
    for (seq, value) in &checkpoint.open {
        match value {
            Some(value) => drop(open.insert(seq.0, &**value).map_err(engine(doing))?),
            None => drop(open.remove(seq.0).map_err(engine(doing))?),
        }
    }
    let mut documents = txn.open_table(DOCUMENTS).map_err(engine(doing))?;
    for (name, value) in &checkpoint.documents {
        match value {
            Some(value) => drop(documents.insert(&**name, &**value).map_err(engine(doing))?),
            None => drop(documents.remove(&**name).map_err(engine(doing))?),
        }
    }
    let mut meta = txn.open_table(META).map_err(engine(doing))?;
    meta.insert(APPLIED, &checkpoint.applied.0.to_le_bytes()[..]).map_err(engine(doing))?;
    Ok(())
}

/// Rows behind the last one are appended; earlier ones are replaced in place.
fn write_rows(txn: &WriteTransaction, rows: &[(Seq, Vec<u8>)]) -> Result<(), LogError> {
    let doing = "write a checkpoint";
    let mut table = txn.open_table(ROWS).map_err(engine(doing))?;
    let last = table.last().map_err(engine(doing))?.map_or(0, |(seq, _)| seq.value());
    let old = rows.partition_point(|(seq, _)| seq.0 <= last);
    for (seq, value) in &rows[..old] {
        table.insert(seq.0, &**value).map_err(engine(doing))?;
    }
    drop(table);
    append_rows(txn, ROWS, &rows[old..])
}
