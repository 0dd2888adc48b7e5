//! Appending: records become frames, and one transaction takes everything a commit brings.

use std::sync::atomic::Ordering;

use redb::{ReadableTable as _, Table, WriteTransaction};

use crate::contract::hash::Digest;
use crate::contract::ids::Seq;
use crate::log::error::LogError;
use crate::log::frame::Part;

use super::failure::{engine, guarded};
use super::tables::{APPLIED, BODIES, Bytes, DOCUMENTS, FRAMES, MARK, META, OPEN, ROWS};
use super::tiers::Index;
use super::{Appended, Checkpoint, Commit, Packed, Published, Store};

/// Longest mark: it is read at every open.
const MARK_MAX: usize = 1 << 20;

impl Store {
    /// Makes a commit durable. After an error other than `Position` and `Invalid` it is unknown
    /// whether the commit is on disk, and the store is poisoned.
    pub fn append(&mut self, commit: Commit<'_>) -> Result<Appended, LogError> {
        self.append_marked(commit, &[])
    }

    /// Makes several commits of another log durable in one transaction. `marks` holds where each of
    /// them but the last ended and what its mark was, so that the frames end where they did.
    pub(crate) fn append_marked(
        &mut self,
        commit: Commit<'_>,
        mut marks: &[(Seq, Vec<u8>)],
    ) -> Result<Appended, LogError> {
        self.shared.usable()?;
        let head = self.head();
        if commit.first != head.0.next() {
            return Err(LogError::Position { expected: commit.first, actual: head.0.next() });
        }
        let inner = marks.last().map_or(&[][..], |(_, mark)| mark);
        let mark = if commit.mark.is_empty() { inner } else { commit.mark };
        self.packing.restart(head);
        for record in commit.records {
            // Not before there is another record: where the last one ends, the commit ends.
            let last = self.packing.head().0;
            if let Some((_, mark)) = marks.first().filter(|(end, _)| *end == last) {
                self.packing.end_frame(Some(mark))?;
            }
            marks = &marks[marks.partition_point(|(end, _)| *end <= last)..];
            self.packing.add(&Part::of(record), record.body.as_deref())?;
        }
        let packed = self.packing.end(commit.mark)?;
        self.append_packed(packed, mark, commit.checkpoint)
    }

    /// Makes a packed commit durable, as [`Store::append`] does: where the input stands after it,
    /// and a checkpoint that comes with it.
    pub(crate) fn append_packed(
        &mut self,
        packed: Packed,
        mark: &[u8],
        checkpoint: Option<Checkpoint>,
    ) -> Result<Appended, LogError> {
        self.shared.usable()?;
        let before = self.shared.published();
        admit(&packed, mark, checkpoint.as_ref(), &before)?;
        // A reader that misses a chunk compares this number: when it changed, a merge moved the
        // chunk; otherwise the chunk is lost.
        let step = u64::from(checkpoint.is_some());
        self.shared.checkpoints.fetch_add(step, Ordering::SeqCst);
        let written = guarded("commit", || self.write(&packed, mark, checkpoint.as_ref()));
        let indexes = written.inspect_err(|_| self.shared.poison())?;
        let applied = checkpoint.map(|checkpoint| checkpoint.applied);
        self.publish(mark, applied, &before, packed.head, indexes);
        self.shared.checkpoints.fetch_add(step, Ordering::SeqCst);
        Ok(Appended { hashes: packed.hashes, head: packed.head })
    }

    fn write(
        &mut self,
        packed: &Packed,
        mark: &[u8],
        checkpoint: Option<&Checkpoint>,
    ) -> Result<Option<[Index; 3]>, LogError> {
        let shared = self.shared.clone();
        shared.with_db(|db| {
            let mut txn = db.begin_write().map_err(engine("begin a commit"))?;
            txn.set_quick_repair(self.options.quick_repair);
            append_rows(&txn, FRAMES, &packed.frames)?;
            append_rows(&txn, BODIES, &packed.bodies)?;
            let mut indexes = None;
            if let Some(checkpoint) = checkpoint {
                write_checkpoint(&txn, checkpoint)?;
                let mut next = self.indexes.clone();
                for (which, keys) in &checkpoint.keys {
                    next[which.slot()].add(&txn, *which, keys)?;
                }
                indexes = Some(next);
            }
            // Written with the tables, so that a later open need not read older frames for it.
            if checkpoint.is_some() || (packed.hashes.is_empty() && !mark.is_empty()) {
                self.write_mark(&txn, mark, packed.head.0)?;
            }
            txn.commit().map_err(engine("commit"))?;
            Ok(indexes)
        })
    }

    fn write_mark(&self, txn: &WriteTransaction, mark: &[u8], head: Seq) -> Result<(), LogError> {
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
        mark: &[u8],
        applied: Option<Seq>,
        before: &Published,
        head: (Seq, Digest),
        indexes: Option<[Index; 3]>,
    ) {
        let mut after = before.clone();
        after.head = head;
        if !mark.is_empty() {
            after.mark = mark.to_vec();
        }
        after.applied = applied.unwrap_or(after.applied);
        if let Some(indexes) = indexes {
            after.tiers = [0, 1, 2].map(|slot| indexes[slot].live.clone());
            self.indexes = indexes;
        }
        *self.shared.published.write() = std::sync::Arc::new(after);
    }
}

/// Refuses what breaks a rule, before anything is touched.
fn admit(
    packed: &Packed,
    mark: &[u8],
    checkpoint: Option<&Checkpoint>,
    before: &Published,
) -> Result<(), LogError> {
    if packed.from != before.head {
        let (expected, actual) = (packed.from.0.next(), before.head.0.next());
        return Err(LogError::Position { expected, actual });
    }
    if mark.len() > MARK_MAX {
        return Err(LogError::Invalid("the mark is too long"));
    }
    checkpoint.map_or(Ok(()), |checkpoint| admit_checkpoint(checkpoint, before, packed.head.0))
}

fn admit_checkpoint(
    checkpoint: &Checkpoint,
    before: &Published,
    head: Seq,
) -> Result<(), LogError> {
    if checkpoint.applied < before.applied || checkpoint.applied > head {
        return Err(LogError::Invalid("a checkpoint has a position out of range"));
    }
    let has_keys = checkpoint.keys.iter().any(|(_, keys)| !keys.is_empty());
    if has_keys && checkpoint.applied == before.applied {
        // Readers distinguish states of the indexes by their positions, so two need two positions.
        return Err(LogError::Invalid(
            "a checkpoint with keys has the same position as the last one",
        ));
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
    append_to(&mut table, rows.iter().map(|(seq, value)| (*seq, &**value)))
}

/// The same to an open table, in one sweep.
fn append_to<'r>(
    table: &mut Table<'_, u64, Bytes>,
    rows: impl Iterator<Item = (Seq, &'r [u8])>,
) -> Result<(), LogError> {
    let mut cursor =
        table.upper_bound_mut(std::ops::Bound::<u64>::Unbounded).map_err(engine("append"))?;
    for (seq, value) in rows {
        cursor.insert_before(seq.0, value).map_err(engine("append"))?;
    }
    cursor.close().map_err(engine("append"))
}

fn write_checkpoint(txn: &WriteTransaction, checkpoint: &Checkpoint) -> Result<(), LogError> {
    let doing = "write a checkpoint";
    write_rows(txn, &checkpoint.rows)?;
    write_open(txn, &checkpoint.open)?;
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
    append_to(&mut table, rows[old..].iter().map(|(seq, value)| (*seq, &**value)))
}

/// The same for what is open, where earlier ones may have ended. What came and ended since the last
/// checkpoint was never there.
fn write_open(txn: &WriteTransaction, open: &[(Seq, Option<Vec<u8>>)]) -> Result<(), LogError> {
    let doing = "write a checkpoint";
    let mut table = txn.open_table(OPEN).map_err(engine(doing))?;
    let last = table.last().map_err(engine(doing))?.map_or(0, |(seq, _)| seq.value());
    let old = open.partition_point(|(seq, _)| seq.0 <= last);
    for (seq, value) in &open[..old] {
        match value {
            Some(value) => drop(table.insert(seq.0, &**value).map_err(engine(doing))?),
            None => drop(table.remove(seq.0).map_err(engine(doing))?),
        }
    }
    let new = open[old..].iter().filter_map(|(seq, value)| Some((*seq, value.as_deref()?)));
    append_to(&mut table, new)
}
