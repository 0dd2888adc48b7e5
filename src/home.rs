//! The places of a service home, and the lock that says who holds it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::config::Config;
use crate::os::{Disk, DiskFile, Open};

/// Where things lie. Nothing here touches the disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Home {
    /// The home itself.
    pub root: PathBuf,
    /// Requests in.
    pub queue: PathBuf,
    /// Bus root.
    pub buses: PathBuf,
}

impl Home {
    /// The places under a root, as configured.
    pub fn new(root: &Path, config: &Config) -> Home {
        Home {
            root: root.to_owned(),
            queue: root.join(&config.queue_path),
            buses: root.join(&config.bus_home),
        }
    }

    /// The folder of the queue's companions.
    pub fn run(&self) -> PathBuf {
        self.root.join("run")
    }

    /// The log and its state.
    pub fn store(&self) -> PathBuf {
        self.run().join("summarizer.redb")
    }

    /// Where upstream ids lie; it may be deleted at any time.
    pub fn upstream_index(&self) -> PathBuf {
        self.run().join("upstream-index.redb")
    }

    /// What the publisher remembers of the log; it may be deleted at any time.
    pub fn publisher_index(&self) -> PathBuf {
        self.run().join("publisher-index.redb")
    }

    /// What builds of digests need not read from the log again; it may be deleted at any time.
    pub fn digest_index(&self) -> PathBuf {
        self.run().join("digest-index.redb")
    }

    /// Acks out.
    pub fn acks(&self) -> PathBuf {
        self.run().join("ack.jsonl")
    }

    /// Lines set aside.
    pub fn quarantine(&self) -> PathBuf {
        self.run().join("quarantine.jsonl")
    }

    /// Where whoever holds the home answers.
    pub fn socket(&self) -> PathBuf {
        self.run().join("summarizer.sock")
    }

    /// The lock.
    pub fn lock(&self) -> PathBuf {
        self.run().join("summarizer.lock")
    }

    /// Settings.
    pub fn config_file(&self) -> PathBuf {
        self.root.join("summarizer.toml")
    }

    /// Flow packs and selectors that replace the embedded ones.
    pub fn registry(&self) -> PathBuf {
        self.root.join("flow_registry")
    }

    /// Snapshots of runs.
    pub fn snapshots(&self) -> PathBuf {
        self.run().join("snapshots")
    }

    /// Whether anything was ever logged here.
    pub fn exists(&self, disk: &dyn Disk) -> io::Result<bool> {
        Ok(disk.stat(&self.store())?.is_some())
    }

    /// Makes the directories a writer needs.
    pub fn create(&self, disk: &dyn Disk) -> io::Result<()> {
        disk.create_dir_all(&self.run())?;
        if let Some(parent) = self.queue.parent() {
            disk.create_dir_all(parent)?;
        }
        disk.create_dir_all(&self.buses)
    }
}

/// Holding the home. Given back when dropped, and by the system when the process ends.
pub struct HomeLock {
    file: Arc<dyn DiskFile>,
}

impl HomeLock {
    /// Takes the lock, or says that somebody else holds it.
    pub fn try_take(disk: &dyn Disk, home: &Home, pid: u32) -> io::Result<Option<HomeLock>> {
        let file = disk.open(&home.lock(), Open::ReadWrite)?;
        if !file.try_lock()? {
            return Ok(None);
        }
        // For people who look; nobody trusts it.
        file.set_len(0)?;
        file.write_all_at(format!("{pid}\n").as_bytes(), 0)?;
        Ok(Some(HomeLock { file }))
    }
}

impl Drop for HomeLock {
    fn drop(&mut self) {
        // The system releases it anyway when the descriptor goes away.
        let _ = self.file.unlock();
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::os::real::HostDisk;

    #[test]
    fn one_holder_at_a_time() {
        let dir = tempfile::tempdir().unwrap();
        let config = Config::load(None, &BTreeMap::new(), 1).unwrap();
        let home = Home::new(dir.path(), &config);
        home.create(&HostDisk).unwrap();
        assert!(!home.exists(&HostDisk).unwrap());
        let lock = HomeLock::try_take(&HostDisk, &home, 1).unwrap();
        assert!(lock.is_some());
        assert!(HomeLock::try_take(&HostDisk, &home, 2).unwrap().is_none());
        drop(lock);
        assert!(HomeLock::try_take(&HostDisk, &home, 3).unwrap().is_some());
    }
}
