//! Says when to look at the queue again.
//!
//! The answer is only a hint. The kernel reports changes where it can. The wait also ends after a
//! while, so a file system without reports (a network share, a system without inotify) is polled. The
//! caller looks at the file afterwards, whatever the answer was.

use std::path::{Path, PathBuf};
use std::time::Duration;

/// Longest wait while the kernel reports changes.
pub(crate) const NOTIFIED_WAIT: Duration = Duration::from_millis(1000);
/// Longest wait while it does not.
pub(crate) const POLLED_WAIT: Duration = Duration::from_millis(100);

/// Waits for one file to change, to appear or to be replaced.
pub(crate) struct Watcher {
    path: PathBuf,
    notify: Option<notify::Notify>,
}

impl Watcher {
    /// A watcher for a file that need not exist yet. Changes from here on end a wait.
    pub(crate) fn new(path: &Path) -> Watcher {
        let mut watcher = Watcher { path: path.to_owned(), notify: notify::Notify::new() };
        watcher.arm();
        watcher
    }

    /// A watcher that never asks the kernel.
    #[cfg(test)]
    pub(crate) fn polling(path: &Path) -> Watcher {
        Watcher { path: path.to_owned(), notify: None }
    }

    /// Whether the kernel reports changes of the file's directory.
    #[cfg(test)]
    pub(crate) fn is_notified(&mut self) -> bool {
        self.arm()
    }

    /// Waits until the file may have changed, at most for `timeout` and the bounds above. True
    /// when the kernel said so.
    pub(crate) fn wait(&mut self, timeout: Duration) -> bool {
        if self.arm()
            && let Some(notify) = &mut self.notify
            && let Ok(changed) = notify.wait(&self.path, timeout.min(NOTIFIED_WAIT))
        {
            return changed;
        }
        std::thread::sleep(timeout.min(POLLED_WAIT));
        false
    }

    /// Watches whatever has the name now; cheap when nothing changed.
    fn arm(&mut self) -> bool {
        self.notify.as_mut().is_some_and(|notify| notify.arm(&self.path))
    }
}

#[cfg(target_os = "linux")]
mod notify {
    use std::io;
    use std::path::Path;
    use std::time::Duration;

    use inotify::{EventMask, Inotify, WatchMask};
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    const EVENT_BUFFER_BYTES: usize = 4096;

    pub(super) struct Notify(Inotify);

    impl Notify {
        pub(super) fn new() -> Option<Notify> {
            Inotify::init().ok().map(Notify)
        }

        /// True when at least the directory is watched, so that nothing is missed for long.
        pub(super) fn arm(&mut self, path: &Path) -> bool {
            // The directory only for names that appear: its other files change all the time.
            let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
            let directory = parent.unwrap_or(Path::new("."));
            let mut watches = self.0.watches();
            let appears = WatchMask::CREATE | WatchMask::MOVED_TO | WatchMask::ONLYDIR;
            let changes = WatchMask::MODIFY | WatchMask::MOVE_SELF | WatchMask::ATTRIB;
            let watched = watches.add(directory, appears).is_ok();
            // Absent is fine: its directory will tell when it appears.
            let _ = watches.add(path, changes);
            watched
        }

        pub(super) fn wait(&mut self, path: &Path, timeout: Duration) -> io::Result<bool> {
            let timeout = Timespec::try_from(timeout).map_err(io::Error::other)?;
            let mut ready = [PollFd::new(&self.0, PollFlags::IN)];
            match poll(&mut ready, Some(&timeout)) {
                Ok(0) => Ok(false),
                Ok(_) => self.drain(path),
                Err(rustix::io::Errno::INTR) => Ok(false),
                Err(error) => Err(error.into()),
            }
        }

        fn drain(&mut self, path: &Path) -> io::Result<bool> {
            let mut buffer = [0; EVENT_BUFFER_BYTES];
            let mut ours = false;
            loop {
                match self.0.read_events(&mut buffer) {
                    Ok(events) => {
                        for event in events {
                            let lost = event.mask.contains(EventMask::Q_OVERFLOW);
                            ours |= lost || event.name.is_none_or(|n| path.file_name() == Some(n));
                        }
                    }
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(ours),
                    Err(error) => return Err(error),
                }
            }
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod notify {
    use std::io;
    use std::path::Path;
    use std::time::Duration;

    pub(super) struct Notify;

    impl Notify {
        pub(super) fn new() -> Option<Notify> {
            None
        }

        pub(super) fn arm(&mut self, _path: &Path) -> bool {
            false
        }

        pub(super) fn wait(&mut self, _path: &Path, _timeout: Duration) -> io::Result<bool> {
            Err(io::ErrorKind::Unsupported.into())
        }
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "the tests write files as callers do")]
mod tests {
    use std::fs::{self, OpenOptions};
    use std::io::Write as _;

    use super::*;

    /// Whether the kernel has an inotify instance left for this process.
    fn the_kernel_tells() -> bool {
        cfg!(target_os = "linux") && inotify::Inotify::init().is_ok()
    }

    /// Waits long enough for any machine, in short steps; true as soon as a wait says so.
    fn told(watcher: &mut Watcher) -> bool {
        (0..600).any(|_| watcher.wait(Duration::from_millis(100)))
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn the_watcher_reports_creation_growth_and_replacement() {
        if !the_kernel_tells() {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("queue.jsonl");
        let mut watcher = Watcher::new(&path);
        assert!(watcher.is_notified());
        fs::write(&path, "a\n").unwrap();
        assert!(told(&mut watcher));
        OpenOptions::new().append(true).open(&path).unwrap().write_all(b"b\n").unwrap();
        assert!(told(&mut watcher));
        let other = dir.path().join("other");
        fs::write(&other, "c\n").unwrap();
        fs::rename(&other, &path).unwrap();
        assert!(told(&mut watcher));
        OpenOptions::new().append(true).open(&path).unwrap().write_all(b"d\n").unwrap();
        assert!(told(&mut watcher));
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn other_files_of_the_directory_are_not_ours() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("queue.jsonl");
        fs::write(&path, "a\n").unwrap();
        let mut watcher = Watcher::new(&path);
        fs::write(dir.path().join("ack.jsonl"), "x\n").unwrap();
        assert!(!watcher.wait(Duration::from_millis(50)));
        assert!(!watcher.wait(Duration::from_millis(1)));
    }

    #[test]
    fn without_a_directory_or_the_kernel_a_wait_just_ends() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("absent").join("queue.jsonl");
        let mut watcher = Watcher::new(&path);
        assert!(!watcher.is_notified());
        assert!(!watcher.wait(Duration::from_millis(1)));
        assert!(!Watcher::polling(&path).wait(Duration::from_millis(1)));
        fs::create_dir(dir.path().join("absent")).unwrap();
        assert_eq!(watcher.is_notified(), the_kernel_tells());
    }
}
