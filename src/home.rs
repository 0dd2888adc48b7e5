//! The places of a home, and the lock of the process that holds it.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::config::Config;
use crate::os::{Disk, DiskFile, Open};

/// The folders below the bus root that the program reads or writes.
const BUS_FOLDERS: &[&str] = &[
    "eventbus",
    "sessions",
    "chunks",
    "summaries",
    "digests",
    "index",
    "run_records",
    "artifacts",
];

/// What the folders of logs that a recovery set aside begin with.
pub(crate) const OLD_LOGS: &str = "before-recovery-";
/// Where `recover` makes the new log, in the folder `run`.
pub(crate) const RECOVERING: &str = ".recovering";

/// The places of a home. Only `exists` and `create` touch the disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Home {
    pub root: PathBuf,
    pub queue: PathBuf,
    pub buses: PathBuf,
}

impl Home {
    pub fn new(root: &Path, config: &Config) -> Home {
        Home {
            root: root.to_owned(),
            queue: root.join(&config.queue_path),
            buses: root.join(&config.bus_home),
        }
    }

    /// What retention moved out of the log and the acks.
    pub(crate) fn archive(&self) -> PathBuf {
        self.run().join("archive")
    }

    /// The folder of log, acks, lock and socket.
    pub fn run(&self) -> PathBuf {
        self.root.join("run")
    }

    pub fn store(&self) -> PathBuf {
        self.run().join("summarizer.redb")
    }

    /// Places of upstream ids; it may be deleted at any time.
    pub(crate) fn upstream_index(&self) -> PathBuf {
        self.run().join("upstream-index.redb")
    }

    /// A cache of the Summary Bus publisher; it may be deleted at any time.
    pub(crate) fn publisher_index(&self) -> PathBuf {
        self.run().join("publisher-index.redb")
    }

    /// A cache of digest builds; it may be deleted at any time.
    pub(crate) fn digest_index(&self) -> PathBuf {
        self.run().join("digest-index.redb")
    }

    /// The entries of feeds; it may be deleted at any time.
    pub(crate) fn feed_index(&self) -> PathBuf {
        self.run().join("feed-index.redb")
    }

    /// What is known of older versions of summaries; it may be deleted at any time.
    pub(crate) fn version_index(&self) -> PathBuf {
        self.run().join("version-index.redb")
    }

    /// Which files of the folder `texts` were pasted into the page.
    pub(crate) fn pasted(&self) -> PathBuf {
        self.run().join("pasted.json")
    }

    /// Which file a person named as the queue of a host that shares its log.
    pub(crate) fn adopted_queue(&self) -> PathBuf {
        self.run().join("queue.adopted")
    }

    /// What a `forget` names that is not finished.
    pub(crate) fn forgetting(&self) -> PathBuf {
        self.run().join("forgetting.json")
    }

    /// The folders that the program itself keeps. What else is written there is found by no check and by no `forget`.
    pub(crate) fn kept_folders(&self) -> [PathBuf; 3] {
        [self.run(), self.buses.clone(), self.registry()]
    }

    /// All that was ever forgotten here. It outlives the log.
    pub(crate) fn forgotten(&self) -> PathBuf {
        self.run().join("forgotten.jsonl")
    }

    /// The backups that were made of this home.
    pub(crate) fn backups(&self) -> PathBuf {
        self.run().join("backups.jsonl")
    }

    /// The counts of metrics; it may be deleted at any time.
    pub(crate) fn metrics_index(&self) -> PathBuf {
        self.run().join("metrics-index.redb")
    }

    /// Files that may be deleted at any time and that may hold words of summaries.
    pub(crate) fn caches(&self) -> [PathBuf; 5] {
        [
            self.publisher_index(),
            self.digest_index(),
            self.feed_index(),
            self.version_index(),
            self.metrics_index(),
        ]
    }

    pub fn acks(&self) -> PathBuf {
        self.run().join("ack.jsonl")
    }

    pub fn quarantine(&self) -> PathBuf {
        self.run().join("quarantine.jsonl")
    }

    pub fn socket(&self) -> PathBuf {
        self.run().join("summarizer.sock")
    }

    pub fn lock(&self) -> PathBuf {
        self.run().join("summarizer.lock")
    }

    pub(crate) fn config_file(&self) -> PathBuf {
        self.root.join("summarizer.toml")
    }

    /// Flow packs and selectors; they replace the embedded ones.
    pub fn registry(&self) -> PathBuf {
        self.root.join("flow_registry")
    }

    /// Snapshots of agent runs.
    pub fn snapshots(&self) -> PathBuf {
        self.run().join("snapshots")
    }

    /// What the program itself keeps here. The rest of the folder may hold a person's texts.
    pub(crate) fn own_places(&self) -> Vec<PathBuf> {
        let mut places = vec![self.run(), self.queue.clone(), self.registry(), self.config_file()];
        match self.root.starts_with(&self.buses) {
            // The buses lie in the folder of the texts, so they are named one by one.
            true => places.extend(BUS_FOLDERS.iter().map(|name| self.buses.join(name))),
            false => places.push(self.buses.clone()),
        }
        places
    }

    /// The home that lies in this folder, with its own settings; `None` when none does.
    pub(crate) fn in_folder(disk: &dyn Disk, folder: &Path) -> io::Result<Option<Home>> {
        let is_there = |path: PathBuf| Ok::<_, io::Error>(disk.stat(&path)?.is_some());
        let run = folder.join("run");
        let (log, settings) = (run.join("summarizer.redb"), folder.join("summarizer.toml"));
        if !is_there(log)? && !is_there(settings.clone())? {
            return Ok(None);
        }
        let text = disk.read_if_present(&settings)?.and_then(|bytes| String::from_utf8(bytes).ok());
        // When the settings cannot be read, the files are expected at the default places.
        let config = Config::load(text.as_deref(), &BTreeMap::new(), 1)
            .or_else(|_| Config::load(None, &BTreeMap::new(), 1));
        Ok(config.ok().map(|config| Home::new(folder, &config)))
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

/// Held by the one process that may write to the home. Dropping it, or the end of the process,
/// releases it.
pub struct HomeLock {
    file: Arc<dyn DiskFile>,
}

impl HomeLock {
    /// Takes the lock; `None` when another process holds it.
    pub(crate) fn try_take(disk: &dyn Disk, home: &Home, pid: u32) -> io::Result<Option<HomeLock>> {
        let file = disk.open(&home.lock(), Open::ReadWrite)?;
        if !file.try_lock()? {
            return Ok(None);
        }
        // The process id is for people; no code relies on it.
        file.set_len(0)?;
        file.write_all_at(format!("{pid}\n").as_bytes(), 0)?;
        Ok(Some(HomeLock { file }))
    }
}

impl Drop for HomeLock {
    fn drop(&mut self) {
        // An error is harmless: closing the file releases the lock as well.
        let _ = self.file.unlock();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::os::real::HostDisk;

    #[test]
    fn only_one_process_holds_a_home() {
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
