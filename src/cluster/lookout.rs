//! The lookout: a thread beside a service that looks now and then how far all hosts are.
//!
//! Contract. What it tells is as old as its last look, at most [`FRESH`], or nothing. Nobody waits for it, and
//! nothing is decided by it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use parking_lot::Mutex;

use super::shared_log::SharedError;
use crate::work::other_hosts::SeenHost;

/// Time between two looks.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// What is older is not told any more.
const FRESH: Duration = Duration::from_secs(15);

/// What was seen at a time.
type Seen = Arc<Mutex<Option<(Instant, Vec<SeenHost>)>>>;

/// What a lookout sees. Copies of it share one thread, which ends with the last of them.
#[derive(Clone)]
pub struct Lookout {
    seen: Seen,
    _stop: Sender<()>,
}

impl Lookout {
    pub fn start(
        look: impl FnMut() -> Result<Vec<SeenHost>, SharedError> + Send + 'static,
    ) -> std::io::Result<Lookout> {
        let seen = Seen::default();
        let (stop, stopped) = bounded(0);
        let found = Arc::clone(&seen);
        let thread = std::thread::Builder::new().name("lookout".to_owned());
        thread.spawn(move || watch(look, &found, &stopped))?;
        Ok(Lookout { seen, _stop: stop })
    }

    /// All hosts by their names, or `None` when nothing was heard of them lately.
    pub fn hosts(&self) -> Option<Vec<SeenHost>> {
        let seen = self.seen.lock();
        let (at, hosts) = seen.as_ref()?;
        (at.elapsed() <= FRESH).then(|| hosts.clone())
    }
}

fn watch(
    mut look: impl FnMut() -> Result<Vec<SeenHost>, SharedError>,
    found: &Mutex<Option<(Instant, Vec<SeenHost>)>>,
    stopped: &Receiver<()>,
) {
    loop {
        match look() {
            Ok(hosts) => *found.lock() = Some((Instant::now(), hosts)),
            Err(error) => tracing::debug!(%error, "the other hosts were not looked at"),
        }
        if stopped.recv_timeout(LOOK_EVERY) != Err(RecvTimeoutError::Timeout) {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(name: &str) -> SeenHost {
        SeenHost {
            host: name.to_owned(),
            leads: name == "a",
            release: None,
            roles: vec!["work".to_owned()],
            behind: Some(2),
            silent: 0.5,
            attempts: 0,
            places: Some(4),
            forgotten: None,
            agrees: Some(true),
        }
    }

    #[test]
    fn what_was_seen_is_told_and_an_error_keeps_it() {
        let mut answers = vec![Ok(vec![host("a"), host("b")])];
        let look = move || {
            answers.pop().unwrap_or_else(|| Err(SharedError::Unclear("no answer".to_owned())))
        };
        let lookout = Lookout::start(look).unwrap();
        let begun = Instant::now();
        while lookout.hosts().is_none() && begun.elapsed() < Duration::from_secs(60) {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(lookout.hosts(), Some(vec![host("a"), host("b")]));
    }

    #[test]
    fn what_is_old_is_not_told() {
        let (stop, _stopped) = bounded(0);
        let old = Instant::now().checked_sub(FRESH + Duration::from_secs(1));
        let seen: Seen = Arc::new(Mutex::new(old.map(|at| (at, vec![host("a")]))));
        assert_eq!(Lookout { seen, _stop: stop }.hosts(), None);
    }

    #[test]
    fn the_thread_ends_with_the_last_copy() {
        let (told, ended) = bounded::<()>(0);
        let lookout = Lookout::start(move || {
            let _kept = &told;
            Ok(Vec::new())
        });
        drop(lookout.unwrap());
        assert_eq!(
            ended.recv_timeout(Duration::from_secs(60)),
            Err(RecvTimeoutError::Disconnected)
        );
    }
}
