//! Checks one file on many threads: one thread reads and hashes the lines, and all threads check
//! them. The same works for other ordered blocks.
//!
//! Contract: results are merged in the order of the file, and the content of a block does not
//! depend on the number of threads. No thread waits while there is work: the reader checks a block
//! itself when all others are busy. Memory holds a few blocks for each thread.

use std::collections::BTreeMap;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use crossbeam_channel::{Receiver, Sender, TrySendError, bounded, unbounded};

use crate::contract::hash::Digest;
use crate::upstream::lines::Lines;

/// Bytes after which a block ends, with the line that reaches them.
const BLOCK_BYTES: usize = 512 << 10;

/// Most blocks under way or done while an earlier block is not merged yet.
const AHEAD_MAX: usize = 16;

/// A block of work.
type Job<'t> = Box<dyn FnOnce() + Send + 't>;

/// Work that any idle thread may take.
#[derive(Clone)]
pub(crate) struct Helpers<'t> {
    give: Option<Sender<Job<'t>>>,
    take: Receiver<Job<'t>>,
}

impl<'t> Helpers<'t> {
    /// Helpers for so many threads.
    pub(crate) fn of(threads: usize) -> Helpers<'t> {
        let (give, take) = bounded(threads * 2);
        Helpers { give: (threads > 1).then_some(give), take }
    }

    /// Helps until no thread has work left to give.
    pub(crate) fn help(self) {
        let Helpers { give, take } = self;
        drop(give);
        take.iter().for_each(|job| job());
    }
}

/// Some lines of a file.
pub(super) struct LineBlock {
    bytes: Vec<u8>,
    /// Number, first byte and length of each.
    lines: Vec<(u64, usize, usize)>,
}

impl LineBlock {
    /// Its lines with their numbers; blank ones are left out.
    pub(super) fn lines(&self) -> impl Iterator<Item = (u64, &[u8])> {
        let lines = self.lines.iter();
        lines.map(|(number, start, len)| (*number, &self.bytes[*start..*start + *len]))
    }
}

/// Checks all lines of a file and merges what comes out, in order. Gives the bytes and the hash.
pub(super) fn over<'t, T: Send + 't>(
    mut lines: Lines,
    helpers: &Helpers<'t>,
    check: impl Fn(&LineBlock) -> T + Clone + Send + 't,
    merge: &mut dyn FnMut(T),
) -> io::Result<(u64, Digest)> {
    let check = move |block: LineBlock| check(&block);
    in_order(&mut || next_block(&mut lines), helpers, check, &mut |result| {
        merge(result);
        Ok::<(), io::Error>(())
    })?;
    lines.finish()
}

/// Works on blocks wherever there is time for it, and merges the results in the order of the
/// blocks.
pub(crate) fn in_order<'t, P: Send + 't, T: Send + 't, E>(
    next: &mut dyn FnMut() -> Result<Option<P>, E>,
    helpers: &Helpers<'t>,
    work: impl Fn(P) -> T + Clone + Send + 't,
    merge: &mut dyn FnMut(T) -> Result<(), E>,
) -> Result<(), E> {
    let (done, results) = unbounded::<(usize, std::thread::Result<T>)>();
    let mut order = Order { next: 0, early: BTreeMap::new(), merge };
    let mut given = 0;
    while let Some(block) = next()? {
        let number = given;
        given += 1;
        let (own, reply) = (work.clone(), done.clone());
        let job: Job<'t> = Box::new(move || {
            // A panic becomes a result, so that the reader does not wait for this block.
            let result = catch_unwind(AssertUnwindSafe(|| own(block)));
            // The reader is gone only when it failed itself.
            drop(reply.send((number, result)));
        });
        let refused = match &helpers.give {
            Some(give) => give.try_send(job).err().map(TrySendError::into_inner),
            None => Some(job),
        };
        if let Some(job) = refused {
            job();
        }
        loop {
            results.try_iter().try_for_each(|(number, result)| order.put(number, result))?;
            if given - order.next <= AHEAD_MAX {
                break;
            }
            help_or_wait(helpers, &results, &mut order)?;
        }
    }
    while order.next < given {
        help_or_wait(helpers, &results, &mut order)?;
    }
    Ok(())
}

/// Does what still waits; where nothing does, what is missing is being done elsewhere.
fn help_or_wait<T, E>(
    helpers: &Helpers<'_>,
    results: &Receiver<(usize, std::thread::Result<T>)>,
    order: &mut Order<'_, T, E>,
) -> Result<(), E> {
    match helpers.take.try_recv() {
        Ok(job) => job(),
        Err(_) => {
            if let Ok((number, result)) = results.recv() {
                order.put(number, result)?;
            }
        }
    }
    results.try_iter().try_for_each(|(number, result)| order.put(number, result))
}

/// Results in their order.
struct Order<'m, T, E> {
    next: usize,
    early: BTreeMap<usize, T>,
    merge: &'m mut dyn FnMut(T) -> Result<(), E>,
}

impl<T, E> Order<'_, T, E> {
    fn put(&mut self, number: usize, result: std::thread::Result<T>) -> Result<(), E> {
        self.early.insert(number, result.unwrap_or_else(|panic| resume_unwind(panic)));
        while let Some(result) = self.early.remove(&self.next) {
            self.next += 1;
            (self.merge)(result)?;
        }
        Ok(())
    }
}

fn next_block(lines: &mut Lines) -> io::Result<Option<LineBlock>> {
    let mut block = LineBlock { bytes: Vec::new(), lines: Vec::new() };
    while block.bytes.len() < BLOCK_BYTES {
        let Some((at, line)) = lines.next_line()? else { break };
        if !line.iter().all(u8::is_ascii_whitespace) {
            block.lines.push((at.line, block.bytes.len(), line.len()));
            block.bytes.extend_from_slice(line);
        }
    }
    Ok((!block.lines.is_empty()).then_some(block))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::hash::sha256;
    use crate::os::{Disk, Open, real::HostDisk};
    use std::collections::HashSet;
    use std::sync::Mutex;
    use std::thread::ThreadId;
    use std::time::{Duration, Instant};

    /// Every line comes back once and in order, from any thread.
    #[test]
    fn lines_come_back_in_order_from_all_threads() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        let text: String =
            (0..40_000).map(|number| format!("{number} {}\n\n", "x".repeat(100))).collect();
        let disk: &dyn Disk = &HostDisk;
        disk.replace(&path, text.as_bytes(), 0o640).unwrap();
        for threads in [1, 2, 5] {
            let seen: Mutex<HashSet<ThreadId>> = Mutex::default();
            let helpers = Helpers::of(threads);
            let mut numbers = Vec::new();
            std::thread::scope(|scope| {
                for _ in 1..threads {
                    let helpers = helpers.clone();
                    scope.spawn(move || helpers.help());
                }
                let helpers = helpers;
                let file = disk.open(&path, Open::Read).unwrap();
                let lines = Lines::new(file, text.len() as u64);
                let seen = &seen;
                let check = move |block: &LineBlock| {
                    seen.lock().unwrap().insert(std::thread::current().id());
                    // No thread ends its first block before a second thread has begun one, so
                    // both the reader and a helper get blocks.
                    let deadline = Instant::now() + Duration::from_secs(300);
                    while seen.lock().unwrap().len() < threads.min(2) {
                        assert!(Instant::now() < deadline, "nobody helps");
                        std::thread::yield_now();
                    }
                    block.lines().map(|(number, line)| (number, line.len())).collect::<Vec<_>>()
                };
                let read = over(lines, &helpers, check, &mut |found| numbers.extend(found));
                assert_eq!(read.unwrap(), (text.len() as u64, sha256(&text)));
            });
            let expected: Vec<(u64, usize)> =
                (0..40_000_u64).map(|n| (n * 2 + 1, format!("{n} ").len() + 100)).collect();
            assert_eq!(numbers, expected, "{threads} threads");
            let checked_by = seen.lock().unwrap().len();
            assert!((threads.min(2)..=threads).contains(&checked_by), "{checked_by} threads");
        }
    }
}
