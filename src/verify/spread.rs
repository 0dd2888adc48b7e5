//! One file, many threads: its lines are read and hashed by one and checked by all.
//!
//! Contract: results are merged in the order of the file, and what a piece of it holds does not
//! depend on the number of threads. Nobody waits while there is work: who reads checks a piece
//! itself when all others are busy. What is in memory is a few pieces for each thread.

use std::collections::BTreeMap;
use std::io;

use crossbeam_channel::{Receiver, Sender, TrySendError, bounded, unbounded};

use crate::contract::hash::Digest;
use crate::upstream::lines::Lines;

/// Bytes after which a piece ends, with the line that reaches them.
const PIECE_BYTES: usize = 512 << 10;

/// A piece of work.
type Job<'t> = Box<dyn FnOnce() + Send + 't>;

/// Work for whoever has none of its own.
#[derive(Clone)]
pub(super) struct Helpers<'t> {
    give: Option<Sender<Job<'t>>>,
    take: Receiver<Job<'t>>,
}

impl<'t> Helpers<'t> {
    /// Helpers for so many threads.
    pub fn of(threads: usize) -> Helpers<'t> {
        let (give, take) = bounded(threads * 2);
        Helpers { give: (threads > 1).then_some(give), take }
    }

    /// Helps until nobody has anything left to give.
    pub fn help(self) {
        let Helpers { give, take } = self;
        drop(give);
        take.iter().for_each(|job| job());
    }

    /// Nobody but the caller.
    pub fn nobody() -> Helpers<'t> {
        Helpers::of(1)
    }
}

/// Some lines of a file.
pub(super) struct Piece {
    bytes: Vec<u8>,
    /// Number, first byte and length of each.
    lines: Vec<(u64, usize, usize)>,
}

impl Piece {
    /// Its lines with their numbers; blank ones are left out.
    pub fn lines(&self) -> impl Iterator<Item = (u64, &[u8])> {
        let lines = self.lines.iter();
        lines.map(|(number, start, len)| (*number, &self.bytes[*start..*start + *len]))
    }
}

/// Checks all lines of a file and merges what comes out, in order. Gives the bytes and the hash.
pub(super) fn over<'t, T: Send + 't>(
    mut lines: Lines,
    helpers: &Helpers<'t>,
    check: impl Fn(&Piece) -> T + Clone + Send + 't,
    merge: &mut dyn FnMut(T),
) -> io::Result<(u64, Digest)> {
    let (done, results) = unbounded::<(usize, T)>();
    let mut order = Order { next: 0, early: BTreeMap::new(), merge };
    let mut given = 0;
    while let Some(piece) = next_piece(&mut lines)? {
        let number = given;
        given += 1;
        let (own, reply) = (check.clone(), done.clone());
        // Who asked is gone only when its own thread failed.
        let job: Job<'t> = Box::new(move || drop(reply.send((number, own(&piece)))));
        let refused = match &helpers.give {
            Some(give) => give.try_send(job).err().map(TrySendError::into_inner),
            None => Some(job),
        };
        if let Some(job) = refused {
            job();
        }
        results.try_iter().for_each(|(number, result)| order.put(number, result));
    }
    while order.next < given {
        // Whatever still waits is done here; then what is missing is being done elsewhere.
        match helpers.take.try_recv() {
            Ok(job) => job(),
            Err(_) => {
                let Ok((number, result)) = results.recv() else { break };
                order.put(number, result);
            }
        }
        results.try_iter().for_each(|(number, result)| order.put(number, result));
    }
    lines.finish()
}

/// Results in their order.
struct Order<'m, T> {
    next: usize,
    early: BTreeMap<usize, T>,
    merge: &'m mut dyn FnMut(T),
}

impl<T> Order<'_, T> {
    fn put(&mut self, number: usize, result: T) {
        self.early.insert(number, result);
        while let Some(result) = self.early.remove(&self.next) {
            (self.merge)(result);
            self.next += 1;
        }
    }
}

fn next_piece(lines: &mut Lines) -> io::Result<Option<Piece>> {
    let mut piece = Piece { bytes: Vec::new(), lines: Vec::new() };
    while piece.bytes.len() < PIECE_BYTES {
        let Some((at, line)) = lines.next_line()? else { break };
        if !line.iter().all(u8::is_ascii_whitespace) {
            piece.lines.push((at.line, piece.bytes.len(), line.len()));
            piece.bytes.extend_from_slice(line);
        }
    }
    Ok((!piece.lines.is_empty()).then_some(piece))
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

    /// Every line once and in order, whoever checked it.
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
                let check = move |piece: &Piece| {
                    seen.lock().unwrap().insert(std::thread::current().id());
                    // Nobody is done with a first piece before another has begun one: however
                    // fast a helper is, some are left for who reads, and the other way round.
                    let deadline = Instant::now() + Duration::from_secs(300);
                    while seen.lock().unwrap().len() < threads.min(2) {
                        assert!(Instant::now() < deadline, "nobody helps");
                        std::thread::yield_now();
                    }
                    piece.lines().map(|(number, line)| (number, line.len())).collect::<Vec<_>>()
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
