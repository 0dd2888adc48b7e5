//! The budget of connections: slow ones do not keep others out.
//!
//! Contract. A connection that has not sent its request yet holds a thread and a descriptor, and nothing
//! else. When the budget is used up, the one that has been silent for longest, of the peer that has most of
//! them, is closed for a new one. Requests that were understood are answered a few at a time.

use std::collections::BTreeMap;
use std::net::{IpAddr, Shutdown, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

/// Most connections at the same time.
const CONNECTIONS_MAX: usize = 128;
/// Most answers that are made at the same time.
const ANSWERS_MAX: usize = 16;

#[derive(Default)]
struct Counts {
    next: u64,
    /// Connections that have not sent their request yet, the oldest first.
    waiting: BTreeMap<u64, (IpAddr, TcpStream)>,
    all: usize,
    answering: usize,
}

/// The connections of the page.
#[derive(Default)]
pub(super) struct Budget {
    counts: Mutex<Counts>,
    answered: Condvar,
}

impl Budget {
    /// Takes a connection in; `None` where every other one is being answered.
    pub(super) fn enter(self: &Arc<Budget>, stream: &TcpStream) -> Option<Place> {
        let (peer, own) = (stream.peer_addr().ok()?.ip(), stream.try_clone().ok()?);
        let mut counts = self.counts.lock();
        if counts.all >= CONNECTIONS_MAX {
            let victim = slowest(&counts.waiting)?;
            // Its thread finds the end of the stream, and leaves its place itself.
            let (_, stream) = counts.waiting.remove(&victim)?;
            let _ = stream.shutdown(Shutdown::Both);
            counts.all -= 1;
        }
        let number = counts.next;
        counts.next += 1;
        counts.all += 1;
        counts.waiting.insert(number, (peer, own));
        drop(counts);
        Some(Place { budget: Arc::clone(self), number, is_waiting: true })
    }
}

/// The oldest connection of the peer that has most of them.
fn slowest(waiting: &BTreeMap<u64, (IpAddr, TcpStream)>) -> Option<u64> {
    let mut of_peer: BTreeMap<IpAddr, (usize, u64)> = BTreeMap::new();
    for (number, (peer, _)) in waiting.iter().rev() {
        let (count, oldest) = of_peer.entry(*peer).or_default();
        (*count, *oldest) = (*count + 1, *number);
    }
    of_peer.into_values().max_by_key(|(count, _)| *count).map(|(_, oldest)| oldest)
}

/// The place of one connection.
pub(super) struct Place {
    budget: Arc<Budget>,
    number: u64,
    is_waiting: bool,
}

impl Place {
    /// Its request has arrived: nothing closes it any more. False when it was closed before.
    pub(super) fn has_spoken(&mut self) -> bool {
        self.is_waiting = false;
        self.budget.counts.lock().waiting.remove(&self.number).is_some()
    }

    /// Does work while few others do; `None` when they take too long.
    pub(super) fn answer<T>(&self, within: Duration, work: impl FnOnce() -> T) -> Option<T> {
        let mut counts = self.budget.counts.lock();
        let is_full = |counts: &mut Counts| counts.answering >= ANSWERS_MAX;
        if self.budget.answered.wait_while_for(&mut counts, is_full, within).timed_out() {
            return None;
        }
        counts.answering += 1;
        drop(counts);
        let _answering = Answering(&self.budget);
        Some(work())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut counts = self.budget.counts.lock();
        // One that was closed for another has given its place away.
        if !self.is_waiting || counts.waiting.remove(&self.number).is_some() {
            counts.all = counts.all.saturating_sub(1);
        }
    }
}

/// Ends an answer also when making it panics.
struct Answering<'a>(&'a Budget);

impl Drop for Answering<'_> {
    fn drop(&mut self) {
        self.0.counts.lock().answering -= 1;
        self.0.answered.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    fn connected(listener: &TcpListener) -> (TcpStream, TcpStream) {
        let far = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (listener.accept().unwrap().0, far)
    }

    #[test]
    fn the_longest_silent_connection_gives_way() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let budget = Arc::new(Budget::default());
        let mut silent: Vec<_> = (0..CONNECTIONS_MAX)
            .map(|_| {
                let (near, far) = connected(&listener);
                (budget.enter(&near).unwrap(), near, far)
            })
            .collect();
        assert!(silent[1].0.has_spoken());
        let (near, _far) = connected(&listener);
        let mut place = budget.enter(&near).unwrap();
        assert!(place.has_spoken());
        assert!(!silent[0].0.has_spoken(), "the oldest was closed");
        assert!(silent[2].0.has_spoken());
        drop((silent, place));
        assert_eq!(budget.counts.lock().all, 0);
    }

    #[test]
    fn a_connection_that_is_answered_is_not_closed() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let budget = Arc::new(Budget::default());
        let mut busy: Vec<_> = (0..CONNECTIONS_MAX)
            .map(|_| {
                let (near, far) = connected(&listener);
                let mut place = budget.enter(&near).unwrap();
                assert!(place.has_spoken());
                (place, near, far)
            })
            .collect();
        let (near, _far) = connected(&listener);
        assert!(budget.enter(&near).is_none());
        busy.pop();
        assert!(budget.enter(&near).is_some());
    }

    #[test]
    fn the_peer_with_most_connections_gives_way() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let peer = |last| IpAddr::from([192, 0, 2, last]);
        let mut waiting = BTreeMap::new();
        for (number, last) in [(0, 1), (1, 2), (2, 2), (3, 3)] {
            waiting.insert(number, (peer(last), connected(&listener).0));
        }
        assert_eq!(slowest(&waiting), Some(1));
        assert_eq!(slowest(&BTreeMap::new()), None);
    }
}
