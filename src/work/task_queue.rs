//! Tasks for the threads of a pool. Tasks that give way wait until no other task is there.

use std::collections::VecDeque;

use parking_lot::{Condvar, Mutex};

use crate::contract::ids::Seq;

#[derive(Debug)]
pub(super) struct TaskQueue<T> {
    lines: Mutex<Lines<T>>,
    changed: Condvar,
}

#[derive(Debug)]
struct Lines<T> {
    first: VecDeque<(Seq, T)>,
    give_way: VecDeque<(Seq, T)>,
    closed: bool,
    waits_end: bool,
}

impl<T> Default for TaskQueue<T> {
    fn default() -> TaskQueue<T> {
        let (first, give_way) = (VecDeque::new(), VecDeque::new());
        let lines = Mutex::new(Lines { first, give_way, closed: false, waits_end: false });
        TaskQueue { lines, changed: Condvar::new() }
    }
}

impl<T> TaskQueue<T> {
    pub(super) fn push(&self, task: T, request: Seq, gives_way: bool) {
        let mut lines = self.lines.lock();
        match gives_way {
            true => lines.give_way.push_back((request, task)),
            false => lines.first.push_back((request, task)),
        }
        drop(lines);
        self.changed.notify_one();
    }

    /// Waits for a task. `None`: the queue is closed and no task is left.
    pub(super) fn pop(&self) -> Option<T> {
        let mut lines = self.lines.lock();
        loop {
            let next = lines.first.pop_front();
            if let Some((_, task)) = next.or_else(|| lines.give_way.pop_front()) {
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

    /// Who waits for a pause or a rate is to stop waiting: the service ends.
    pub(super) fn end_waits(&self) {
        self.lines.lock().waits_end = true;
    }

    pub(super) fn waits_end(&self) -> bool {
        self.lines.lock().waits_end
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
        let queue = TaskQueue::default();
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
}
