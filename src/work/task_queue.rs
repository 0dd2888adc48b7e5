//! Tasks for the threads of a pool. Tasks that give way wait until no other task is there.
//!
//! A stop leaves all tasks that no thread has begun: their attempts stay open, and the next session starts them.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::{Condvar, Mutex};

use crate::contract::ids::Seq;

#[derive(Debug)]
pub(super) struct TaskQueue<T> {
    lines: Mutex<Lines<T>>,
    changed: Condvar,
    /// Set by a stop.
    stops: Arc<AtomicBool>,
}

#[derive(Debug)]
struct Lines<T> {
    first: VecDeque<(Seq, T)>,
    give_way: VecDeque<(Seq, T)>,
    closed: bool,
    /// Tasks that threads are at.
    begun: usize,
}

impl<T> TaskQueue<T> {
    pub(super) fn new(stops: Arc<AtomicBool>) -> TaskQueue<T> {
        let (first, give_way) = (VecDeque::new(), VecDeque::new());
        let lines = Mutex::new(Lines { first, give_way, closed: false, begun: 0 });
        TaskQueue { lines, changed: Condvar::new(), stops }
    }

    pub(super) fn push(&self, task: T, request: Seq, gives_way: bool) {
        let mut lines = self.lines.lock();
        match gives_way {
            true => lines.give_way.push_back((request, task)),
            false => lines.first.push_back((request, task)),
        }
        drop(lines);
        self.changed.notify_one();
    }

    /// Waits for a task, whose end [`done`](Self::done) tells. `None`: no task begins any more, because of a
    /// stop or because the queue is closed and empty.
    pub(super) fn pop(&self) -> Option<T> {
        let mut lines = self.lines.lock();
        loop {
            if self.stops() {
                return None;
            }
            let next = lines.first.pop_front();
            if let Some((_, task)) = next.or_else(|| lines.give_way.pop_front()) {
                lines.begun += 1;
                return Some(task);
            }
            if lines.closed {
                return None;
            }
            self.changed.wait(&mut lines);
        }
    }

    /// Whether a task that does not give way waits for a thread.
    pub(super) fn first_waits(&self) -> bool {
        !self.lines.lock().first.is_empty()
    }

    pub(super) fn done(&self) {
        self.lines.lock().begun -= 1;
    }

    /// Whether threads are at tasks, or will be.
    pub(super) fn is_busy(&self) -> bool {
        let lines = self.lines.lock();
        let is_empty = lines.first.is_empty() && lines.give_way.is_empty();
        lines.begun > 0 || !(is_empty || self.stops())
    }

    /// How many tasks wait, and how many threads are at one.
    pub(super) fn load(&self) -> (usize, usize) {
        let lines = self.lines.lock();
        (lines.first.len() + lines.give_way.len(), lines.begun)
    }

    pub(super) fn stops(&self) -> bool {
        self.stops.load(Ordering::Acquire)
    }

    /// The tasks of a request do not give way any more.
    pub(super) fn raise(&self, request: Seq) {
        let lines = &mut *self.lines.lock();
        let (raised, rest) = lines.give_way.drain(..).partition(|(of, _)| *of == request);
        lines.give_way = rest;
        lines.first.extend::<VecDeque<_>>(raised);
    }

    /// No task comes any more. The threads end when they have done what is there.
    pub(super) fn close(&self) {
        self.lines.lock().closed = true;
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_that_give_way_come_last_and_a_raised_one_comes_before_them() {
        let queue = TaskQueue::new(Arc::default());
        for (task, request, gives_way) in
            [("a", 1, true), ("b", 2, true), ("c", 3, false), ("d", 2, true)]
        {
            queue.push(task, Seq(request), gives_way);
        }
        queue.raise(Seq(2));
        queue.close();
        let order: Vec<&str> = std::iter::from_fn(|| queue.pop()).collect();
        assert_eq!(order, ["c", "b", "d", "a"]);
    }

    #[test]
    fn a_stop_leaves_the_tasks_that_nobody_has_begun() {
        let stops = Arc::<AtomicBool>::default();
        let queue = TaskQueue::new(Arc::clone(&stops));
        for task in ["a", "b", "c"] {
            queue.push(task, Seq(1), task == "c");
        }
        assert_eq!(queue.pop(), Some("a"));
        stops.store(true, Ordering::Release);
        assert!(queue.is_busy(), "a thread is at the first one");
        assert_eq!(queue.pop(), None);
        queue.done();
        assert!(!queue.is_busy());
    }
}
