//! Work over a list on several threads.

use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

/// Maps a list on several threads. The results keep the order of the list.
pub(super) fn in_parallel<T: Sync, R: Send>(
    items: &[T],
    threads: usize,
    work: impl Fn(&T) -> R + Sync,
) -> Vec<R> {
    if threads <= 1 || items.len() <= 1 {
        return items.iter().map(work).collect();
    }
    let next = AtomicUsize::new(0);
    let results: Mutex<Vec<(usize, R)>> = Mutex::new(Vec::with_capacity(items.len()));
    std::thread::scope(|scope| {
        let run = || {
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                let Some(item) = items.get(index) else { return };
                let result = work(item);
                results.lock().push((index, result));
            }
        };
        let threads: Vec<_> = (0..threads.min(items.len())).map(|_| scope.spawn(run)).collect();
        threads.into_iter().for_each(join);
    });
    let mut results = results.into_inner();
    results.sort_by_key(|(index, _)| *index);
    results.into_iter().map(|(_, result)| result).collect()
}

/// The result of a thread. A panic of the thread continues in this thread.
pub(super) fn join<T>(thread: std::thread::ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}
