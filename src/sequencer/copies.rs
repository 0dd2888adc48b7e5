//! Whether a queue file is a copy of one whose lines were taken in, also when both have grown since.
//!
//! Contract. A host that has no place in its queue file yet reads it only when the log has taken in no queue that
//! begins with the same bytes: those of its first line, or of what the log consumed first of it, which stands in its
//! marks. So a copy is known also when the original had grown before anything of it was taken in.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use super::mark::{BEGINNING_MIN, MarkError, QueueMark, QueueMarks};
use crate::contract::hash::Digest;
use crate::contract::ids::Seq;
use crate::log::{LogError, Reader};
use crate::os::{Disk, Stat};
use crate::seam::position::{ConsumedBatch, QueueError, verify_prefix};

#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    #[error(transparent)]
    Queue(#[from] QueueError),
    #[error(transparent)]
    Mark(#[from] MarkError),
    #[error("read what the log consumed of the queues")]
    Log(#[from] LogError),
}

/// The first line of a queue, if it is long enough to say whose it is.
#[cfg(feature = "cluster")]
pub(crate) fn first_line(queue: &[u8]) -> Option<&[u8]> {
    let line = queue.split(|byte| *byte == b'\n').next()?;
    (line.len() >= BEGINNING_MIN as usize).then_some(line)
}

/// The first bytes that were consumed of a queue.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Beginning {
    host: String,
    len: u64,
    hash: Digest,
}

/// What was looked at last: the file, its length, and how many beginnings were known.
type Looked = (u64, u64, usize);

/// The beginnings of all queues that a log took in.
pub struct Copies {
    host: String,
    beginnings: Vec<Beginning>,
    /// The log was read up to here.
    until: Seq,
    /// No copy was found then.
    cleared: Option<Looked>,
}

impl Copies {
    /// For the queue of this host.
    pub fn new(host: String) -> Copies {
        Copies { host, beginnings: Vec::new(), until: Seq::ZERO, cleared: None }
    }

    /// Refuses the queue file when it is a copy. Repeated, it reads only what came to the log since.
    pub fn refuse(
        &mut self,
        log: &Reader,
        marks: &QueueMarks,
        disk: &Arc<dyn Disk>,
        queue: &Path,
    ) -> Result<(), CopyError> {
        // Without a mark nothing was ever taken in; with its own, the host has a place.
        if marks.by_host.is_empty() || marks.by_host.contains_key(&self.host) {
            return Ok(());
        }
        let stat = disk.stat(queue).map_err(|source| QueueError::Io {
            action: "inspect the queue file",
            path: queue.to_owned(),
            source,
        })?;
        let Some(Stat { inode, len, .. }) = stat.filter(|stat| stat.len > 0) else {
            return Ok(());
        };
        self.read_on(log)?;
        let looked = (inode, len, self.beginnings.len());
        if self.cleared == Some(looked) || marks.place_in(&self.host, disk, queue)?.offset > 0 {
            return Ok(());
        }
        for Beginning { host, len, hash } in &self.beginnings {
            let first = ConsumedBatch { start: 0, end: *len, hash: *hash };
            if verify_prefix(disk, queue, &[first])?.is_none() {
                let bytes = same_part(log, disk, queue)?.max(*len);
                let host = match host.as_str() {
                    QueueMarks::ALONE => "that had the log alone".to_owned(),
                    name => name.to_owned(),
                };
                return Err(QueueError::Copied { path: queue.to_owned(), host, bytes }.into());
            }
        }
        self.cleared = Some(looked);
        Ok(())
    }

    fn read_on(&mut self, log: &Reader) -> Result<(), CopyError> {
        let end = log.head().0;
        let beginnings = &mut self.beginnings;
        let (mut firsts, mut commit) = (Vec::new(), (self.until.next(), self.until));
        let mut add = |host: &str, mark: &QueueMark, is_first: bool| {
            let identity = mark.position.identity.as_ref();
            // Archived records have no marks, so the first batch may be gone.
            if !is_first && beginnings.iter().any(|known| known.host == host) {
                return;
            }
            let known = identity.filter(|identity| identity.head_len >= BEGINNING_MIN);
            let Some((len, hash)) = known.map(|it| (u64::from(it.head_len), it.head)) else {
                return;
            };
            let beginning = Beginning { host: host.to_owned(), len, hash };
            if !beginnings.contains(&beginning) {
                beginnings.push(beginning);
            }
        };
        each_mark(log, self.until.next(), &mut |last, host, mark| {
            if last > commit.1 {
                commit = (commit.1.next(), last);
            }
            let is_first = mark.consumed.as_ref().is_some_and(|batch| batch.start == 0);
            if is_first {
                firsts.push((host.to_owned(), commit));
            }
            add(host, mark, is_first);
            Ok(())
        })?;
        for (host, records) in firsts {
            beginnings.extend(first_request(log, records, host)?);
        }
        self.until = end;
        Ok(())
    }
}

/// The first line of a queue, from the records that it was taken in with.
fn first_request(
    log: &Reader,
    (from, until): (Seq, Seq),
    host: String,
) -> Result<Option<Beginning>, LogError> {
    let mut first = None;
    log.scan(from, Some(until), &mut |entry| {
        let Ok(event) = entry.event() else { return ControlFlow::Continue(()) };
        match event.taken().filter(|taken| taken.head.offset == 0) {
            Some(taken) => {
                first = Some((taken.line.length(), taken.line.sha256()));
                ControlFlow::Break(())
            }
            None => ControlFlow::Continue(()),
        }
    })?;
    let known = first.filter(|(len, _)| *len >= u64::from(BEGINNING_MIN));
    Ok(known.map(|(len, hash)| Beginning { host, len, hash }))
}

/// How many bytes of the file were taken in from one queue or another.
fn same_part(log: &Reader, disk: &Arc<dyn Disk>, queue: &Path) -> Result<u64, CopyError> {
    let mut bytes = 0;
    each_mark(log, Seq(1), &mut |_, _, mark| {
        if let Some(batch) = mark.consumed.filter(|batch| batch.start == bytes)
            && verify_prefix(disk, queue, &[batch])?.is_none()
        {
            bytes = batch.end;
        }
        Ok(())
    })?;
    Ok(bytes)
}

/// Calls `f` with the last record of each commit, and the marks of all hosts in it.
fn each_mark(
    log: &Reader,
    from: Seq,
    f: &mut dyn FnMut(Seq, &str, &QueueMark) -> Result<(), CopyError>,
) -> Result<(), CopyError> {
    let mut outcome = Ok(());
    log.marks_in(from, log.head().0, &mut |last, bytes| {
        let marks = QueueMarks::decode(bytes).map_err(CopyError::from);
        let mut each = |marks: QueueMarks| {
            marks.by_host.iter().try_for_each(|(host, mark)| f(last, host, mark))
        };
        outcome = marks.and_then(&mut each);
        match outcome {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        }
    })?;
    outcome
}

#[cfg(test)]
mod tests {
    use parking_lot::RwLock;

    use super::*;
    use crate::contract::time::Timestamp;
    use crate::os::Open;
    use crate::os::sim::SimDisk;
    use crate::registry::SharedFlows;
    use crate::seam::tail::{TailOptions, Tailer};
    use crate::sequencer::engine::{CheckpointWhen, Engine};
    use crate::sequencer::fixture::{Everything, NOW, engine, request_line};
    use crate::sequencer::intake::{Arrived, parse};

    fn line(number: u32) -> String {
        format!("{{\"request_id\":\"request number {number}\"}}\n")
    }

    fn disk_with(lines: std::ops::Range<u32>) -> Arc<dyn Disk> {
        let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
        add(&disk, lines);
        disk
    }

    fn add(disk: &Arc<dyn Disk>, lines: std::ops::Range<u32>) {
        let text: String = lines.map(line).collect();
        disk.open(Path::new("/queue"), Open::ReadWrite).unwrap().append(text.as_bytes()).unwrap();
    }

    /// Takes in what is left of the queue, two lines at a time.
    fn take(engine: &mut Engine, marks: &mut QueueMarks, host: &str, disk: &Arc<dyn Disk>) {
        let place = marks.place_in(host, disk, Path::new("/queue")).unwrap();
        let options = TailOptions { max_line_bytes: 1000, partial_line_grace_ms: 0 };
        let mut tailer = Tailer::open(disk.clone(), Path::new("/queue"), place, options).unwrap();
        while let Some(batch) = tailer.next_batch(Timestamp(5), 2, 1 << 20).unwrap() {
            assert!(marks.advance(host, batch.end, batch.consumed));
            engine.lines_taken(&batch.consumed, NOW).unwrap();
            engine.commit(Some(marks.encode()), CheckpointWhen::Due, &[], NOW).unwrap();
        }
    }

    /// The bytes that were taken in, if the file of a host is a copy.
    fn copied(
        copies: &mut Copies,
        engine: &Engine,
        marks: &QueueMarks,
        disk: &Arc<dyn Disk>,
    ) -> Option<u64> {
        match copies.refuse(engine.log(), marks, disk, Path::new("/queue")) {
            Ok(()) => None,
            Err(CopyError::Queue(QueueError::Copied { bytes, .. })) => Some(bytes),
            Err(error) => panic!("{error}"),
        }
    }

    #[test]
    fn a_copy_is_known_however_far_either_queue_has_grown() {
        let bytes =
            |lines: std::ops::Range<u32>| lines.map(|at| line(at).len() as u64).sum::<u64>();
        for name in [QueueMarks::ALONE, "a"] {
            let (mut engine, mut marks) = (engine(100), QueueMarks::default());
            let original = disk_with(0..5);
            take(&mut engine, &mut marks, name, &original);
            // Other files get other inodes.
            let copy = || {
                let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
                disk.open(Path::new("/other"), Open::ReadWrite).unwrap();
                add(&disk, 0..5);
                disk
            };
            let (mut copies, same) = (Copies::new("b".to_owned()), copy());
            assert_eq!(copied(&mut copies, &engine, &marks, &same), Some(bytes(0..5)), "{name}");
            let longer = copy();
            add(&longer, 90..93);
            assert_eq!(copied(&mut copies, &engine, &marks, &longer), Some(bytes(0..5)));
            // The original gets on, under the name that it has in a shared log.
            add(&original, 5..8);
            take(&mut engine, &mut marks, "a", &original);
            for disk in [&same, &longer] {
                assert_eq!(copied(&mut copies, &engine, &marks, disk), Some(bytes(0..5)));
            }
            let mut late = Copies::new("c".to_owned());
            assert_eq!(copied(&mut late, &engine, &marks, &same), Some(bytes(0..5)));
            let shorter = disk_with(0..0);
            assert_eq!(copied(&mut copies, &engine, &marks, &shorter), None, "an empty one");
            let own = disk_with(50..53);
            assert_eq!(copied(&mut copies, &engine, &marks, &own), None, "its own lines");
            take(&mut engine, &mut marks, "b", &own);
            add(&own, 53..55);
            assert_eq!(copied(&mut copies, &engine, &marks, &own), None);
            assert_eq!(copied(&mut late, &engine, &marks, &own), Some(bytes(50..53)));
            let mut first = Copies::new("a".to_owned());
            assert_eq!(copied(&mut first, &engine, &marks, &original), None, "it has its place");
        }
    }

    /// Takes in all requests of the queue as one batch.
    fn take_requests(
        engine: &mut Engine,
        marks: &mut QueueMarks,
        host: &str,
        disk: &Arc<dyn Disk>,
    ) {
        let place = marks.place_in(host, disk, Path::new("/queue")).unwrap();
        let options = TailOptions { max_line_bytes: 1000, partial_line_grace_ms: 0 };
        let mut tailer = Tailer::open(disk.clone(), Path::new("/queue"), place, options).unwrap();
        let batch = tailer.next_batch(Timestamp(5), 100, 1 << 20).unwrap().unwrap();
        let flows: SharedFlows = Arc::new(RwLock::new(Arc::new(Everything)));
        let Arrived { lines, foresight, .. } = parse(&batch, &flows);
        engine.lines(lines, foresight, NOW).unwrap();
        assert!(marks.advance(host, batch.end, batch.consumed));
        engine.commit(Some(marks.encode()), CheckpointWhen::Due, &[], NOW).unwrap();
    }

    #[test]
    fn a_copy_is_known_though_the_original_grew_before_it_was_taken_in() {
        let queue = |ids: &[&str]| {
            let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
            let line = |id: &&str| request_line(id, id, id).replace('\n', " ") + "\n";
            let text: String = ids.iter().map(line).collect();
            let file = disk.open(Path::new("/queue"), Open::ReadWrite).unwrap();
            file.append(text.as_bytes()).unwrap();
            disk
        };
        let (mut engine, mut marks) = (engine(100), QueueMarks::default());
        let other = queue(&["zero", "of another host"]);
        take_requests(&mut engine, &mut marks, "z", &other);
        take_requests(&mut engine, &mut marks, "a", &queue(&["one", "two", "three"]));
        let copied = |ids: &[&str]| {
            let mut copies = Copies::new("b".to_owned());
            copied(&mut copies, &engine, &marks, &queue(ids)).is_some()
        };
        assert!(copied(&["one"]), "it is shorter than what was taken in first");
        assert!(copied(&["one", "its own"]), "it went another way");
        assert!(copied(&["one", "two", "three", "its own"]), "it is longer");
        assert!(copied(&["zero"]));
        assert!(!copied(&["two", "one"]), "lines of its own, though others have them too");
    }
}
