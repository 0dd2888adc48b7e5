//! Looks for damage in the log: in a part of it at each start, and in the whole log once a day while a
//! service runs.
//!
//! Contract: for each checked event, the check computes the hashes of the record and of its bodies again. It
//! changes no file. A start checks a short log as a whole. Of a long log it checks the end and one section
//! before it, so the cost does not depend on the size. The current minute chooses the section, so many starts
//! together check the whole log. A service checks one section after the other and pauses between them. Every
//! second it checks that the log file is still in its place.
//!
//! See docs/adr/0121-damage-stops-what-builds-on-it.md.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};

use crate::contract::ids::Seq;
use crate::contract::time::Timestamp;
use crate::log::{LogError, Reader};
use crate::os::Disk;

/// Events that are looked at in one step.
const STRETCH: u64 = 20_000;
/// How often a service looks at the whole log.
const EVERY: Duration = Duration::from_secs(24 * 60 * 60);
/// How often its file is looked at.
const FILE_EVERY: Duration = Duration::from_secs(1);
/// A look takes this share of the time: 1 of so many.
const SHARE: u32 = 20;

/// The check at a start: a short log as a whole, of a long log its end and one section.
pub fn look(log: &Reader, now: Timestamp) -> Result<(), LogError> {
    let head = log.head().0;
    if head.0 <= 2 * STRETCH {
        return log.verify(Seq(1), None, &mut |_| {}).map(|_| ());
    }
    let tail = Seq(head.0.saturating_sub(STRETCH - 1).max(1));
    log.check_chain(tail, head)?;
    let before = tail.0 - 1;
    match before.div_ceil(STRETCH) {
        0 => Ok(()),
        stretches => {
            let minute = now.0.unsigned_abs() / 60_000;
            let first = minute % stretches * STRETCH + 1;
            log.check_chain(Seq(first), Seq((first + STRETCH - 1).min(before)))
        }
    }
}

/// What a service cannot run on with.
#[derive(Debug, thiserror::Error)]
pub enum LogTrouble {
    #[error(transparent)]
    Damaged(#[from] LogError),
    #[error("{} was removed or replaced while it was in use", path.display())]
    Gone { path: PathBuf },
}

/// A thread that looks at the log of a service, and at its file.
pub struct LogCheck {
    stop: Sender<()>,
    thread: JoinHandle<Option<LogTrouble>>,
}

impl LogCheck {
    /// Starts it. `found` is called when there is trouble.
    pub fn start(
        log: Reader,
        disk: Arc<dyn Disk>,
        path: PathBuf,
        found: Arc<dyn Fn() + Send + Sync>,
    ) -> std::io::Result<LogCheck> {
        let (stop, stopped) = bounded(1);
        let thread = std::thread::Builder::new().name("log-check".to_owned());
        let identity = identity(disk.as_ref(), &path)?;
        let watched = Watched { log, disk, path, identity, stopped };
        let thread = thread.spawn(move || {
            let trouble = watched.until_stopped().err()?;
            tracing::error!(error = %trouble, "the service stops");
            found();
            Some(trouble)
        })?;
        Ok(LogCheck { stop, thread })
    }

    /// Ends it. The trouble that it found, if any.
    pub fn finish(self) -> Option<LogTrouble> {
        let _ = self.stop.try_send(());
        self.thread.join().unwrap_or_default()
    }
}

type Identity = Option<(u64, u64)>;

fn identity(disk: &dyn Disk, path: &Path) -> std::io::Result<Identity> {
    Ok(disk.stat(path)?.map(|stat| (stat.device, stat.inode)))
}

struct Watched {
    log: Reader,
    disk: Arc<dyn Disk>,
    path: PathBuf,
    identity: Identity,
    stopped: Receiver<()>,
}

impl Watched {
    /// Looks at the whole log again and again, until it is stopped. A part that cannot be read for another
    /// reason than damage is left to the other readers of the log.
    fn until_stopped(&self) -> Result<(), LogTrouble> {
        loop {
            let begun = Instant::now();
            let mut first = Seq(1);
            while first <= self.log.head().0 {
                let step = Instant::now();
                let until = Seq(first.0 + STRETCH - 1).min(self.log.head().0);
                match self.log.check_chain(first, until) {
                    Err(error @ (LogError::Damaged { .. } | LogError::Corrupt(_))) => {
                        return Err(error.into());
                    }
                    Err(error) => tracing::warn!(%error, "a part of the log could not be checked"),
                    Ok(()) => {}
                }
                first = until.next();
                if self.has_ended(step.elapsed() * (SHARE - 1))? {
                    return Ok(());
                }
            }
            if self.has_ended(EVERY.saturating_sub(begun.elapsed()))? {
                return Ok(());
            }
        }
    }

    /// Waits, with an eye on the file; whether the end came meanwhile.
    fn has_ended(&self, pause: Duration) -> Result<bool, LogTrouble> {
        let until = Instant::now() + pause;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if !matches!(
                self.stopped.recv_timeout(left.min(FILE_EVERY)),
                Err(RecvTimeoutError::Timeout)
            ) {
                return Ok(true);
            }
            // What is committed to a file without a name is lost when the process ends.
            if identity(self.disk.as_ref(), &self.path).is_ok_and(|now| now != self.identity) {
                return Err(LogTrouble::Gone { path: self.path.clone() });
            }
            if left <= FILE_EVERY {
                return Ok(false);
            }
        }
    }
}
