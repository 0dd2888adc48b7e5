//! The backups of a home, and those of them that have expired.
//!
//! Contract. `run/backups.jsonl` has a line for each backup: its folder, and when it expires. A folder is removed only
//! when its `backup.json` is the one that was written with the line, and when no record was added to it since. So a copy
//! that somebody uses as a home stays, and so does any other folder at that place.
//!
//! See docs/adr/0062-backup-as-logical-copy.md.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::contract::time::{Timestamp, parse_instant};
use crate::home::Home;
use crate::os::{Disk, Open};

/// The file of a backup that is written last.
pub(crate) const MANIFEST: &str = "backup.json";
/// Files of the copied log. Whoever checks a copy changes their length, and not that of the others.
const OF_LOG: [&str; 2] = [".redb", ".keys"];

/// A backup, as the home knows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Backup {
    pub folder: PathBuf,
    pub created_at: String,
    /// It never expires without one.
    pub expires_at: Option<String>,
    /// The hash at the end of the copied log.
    pub log: String,
}

impl Backup {
    pub(crate) fn has_expired(&self, now: Timestamp) -> bool {
        let at = self.expires_at.as_deref().and_then(|text| parse_instant(text).ok());
        at.is_some_and(|instant| instant.at <= now)
    }
}

/// Adds a line for a backup.
pub(crate) fn note(disk: &dyn Disk, home: &Home, backup: &Backup) -> io::Result<()> {
    let path = home.backups();
    let known = disk.read_if_present(&path)?.unwrap_or_default();
    // A crash may have left a part of a line.
    let start = if known.is_empty() || known.ends_with(b"\n") { "" } else { "\n" };
    let line = format!("{start}{}\n", serde_json::to_string(backup)?);
    let file = disk.open(&path, Open::ReadWrite)?;
    file.append(line.as_bytes())?;
    file.sync()?;
    path.parent().map_or(Ok(()), |folder| disk.sync_dir(folder))
}

/// The backups that are still there. Of several at one place it is the last.
pub(crate) fn known(disk: &dyn Disk, home: &Home) -> io::Result<Vec<Backup>> {
    let bytes = disk.read_if_present(&home.backups())?.unwrap_or_default();
    let lines = bytes.split(|byte| *byte == b'\n');
    let read = lines.filter_map(|line| serde_json::from_slice::<Backup>(line).ok());
    let all: BTreeMap<PathBuf, Backup> = read.map(|one| (one.folder.clone(), one)).collect();
    let is_there = |one: &Backup| matches!(disk.stat(&one.folder), Ok(Some(stat)) if stat.is_dir);
    Ok(all.into_values().filter(is_there).collect())
}

/// Why the folder of a backup is not to be removed; `None` when it holds that backup and nothing else.
pub(crate) fn why_it_stays(disk: &dyn Disk, backup: &Backup) -> io::Result<Option<&'static str>> {
    let Some(bytes) = disk.read_if_present(&backup.folder.join(MANIFEST))? else {
        return Ok(Some("it has no backup.json, so it is not a whole backup"));
    };
    let manifest: Value = serde_json::from_slice(&bytes).unwrap_or_default();
    let is_same = manifest["schema_version"] == "backup.v1"
        && manifest["created_at"] == backup.created_at.as_str()
        && manifest["log"]["hash"] == backup.log.as_str();
    if !is_same {
        return Ok(Some("another backup stands there"));
    }
    for (name, fact) in manifest["files"].as_object().into_iter().flatten() {
        let is_of_log = OF_LOG.iter().any(|ending| name.ends_with(ending));
        if !name.starts_with("run/") || is_of_log {
            continue;
        }
        // A file that is gone went with a removal that a crash cut short.
        let stat = disk.stat(&backup.folder.join(name))?;
        if stat.is_some_and(|stat| Some(stat.len) != fact["bytes"].as_u64()) {
            return Ok(Some("it was used as a home since it was made"));
        }
    }
    Ok(None)
}

/// Removes the folder of a backup. What makes it one goes last, so that a crash leaves a backup that goes next time.
pub(crate) fn remove(disk: &dyn Disk, folder: &Path) -> io::Result<()> {
    for name in disk.list(folder)? {
        let path = folder.join(&name);
        match disk.stat(&path)? {
            _ if name == MANIFEST => {}
            Some(stat) if stat.is_dir => disk.remove_dir_all(&path)?,
            _ => disk.remove_file(&path)?,
        }
    }
    disk.remove_dir_all(folder)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::config::Config;
    use crate::os::sim::SimDisk;

    fn backup(folder: &str, expires_at: Option<&str>) -> Backup {
        Backup {
            folder: folder.into(),
            created_at: "2026-02-01T00:00:00Z".into(),
            expires_at: expires_at.map(str::to_owned),
            log: "ab".into(),
        }
    }

    #[test]
    fn only_a_folder_with_that_backup_and_nothing_new_may_go() {
        let disk = SimDisk::new();
        let disk: &dyn Disk = &disk;
        let config = Config::load(None, &BTreeMap::new(), 1).unwrap();
        let home = Home::new(Path::new("/home"), &config);
        disk.create_dir_all(&home.run()).unwrap();
        assert_eq!(known(disk, &home).unwrap(), []);
        let first = backup("/copies/a", Some("2026-03-01T00:00:00Z"));
        note(disk, &home, &backup("/copies/a", None)).unwrap();
        note(disk, &home, &first).unwrap();
        let file = disk.open(&home.backups(), Open::ReadWrite).unwrap();
        file.append(b"{\"folder\":").unwrap();
        note(disk, &home, &backup("/copies/gone", None)).unwrap();
        disk.create_dir_all(Path::new("/copies/a/run")).unwrap();
        assert_eq!(known(disk, &home).unwrap(), std::slice::from_ref(&first));
        let at = |text: &str| parse_instant(text).unwrap().at;
        assert!(!first.has_expired(at("2026-02-28T23:59:59Z")));
        assert!(first.has_expired(at("2026-03-01T00:00:00Z")));
        assert!(!backup("/b", None).has_expired(at("2999-01-01T00:00:00Z")));
        let stays = || why_it_stays(disk, &first).unwrap();
        assert!(stays().unwrap().contains("no backup.json"));
        let mut manifest = json!({"schema_version": "backup.v1", "created_at": first.created_at,
            "log": {"hash": "ab"}, "files": {"run/ack.jsonl": {"bytes": 2}, "run/summarizer.redb": {"bytes": 9},
            "buses/x": {"bytes": 7}}});
        let write = |name: &str, bytes: &[u8]| {
            disk.replace(&Path::new("/copies/a").join(name), bytes, 0o600).unwrap();
        };
        write("run/ack.jsonl", b"{}");
        write(MANIFEST, manifest.to_string().as_bytes());
        assert_eq!(stays(), None);
        write("run/ack.jsonl", b"{}\n{}");
        assert!(stays().unwrap().contains("used as a home"));
        disk.remove_file(Path::new("/copies/a/run/ack.jsonl")).unwrap();
        assert_eq!(stays(), None, "a removal that was cut short goes on");
        manifest["log"]["hash"] = "cd".into();
        write(MANIFEST, manifest.to_string().as_bytes());
        assert!(stays().unwrap().contains("another backup"));
        remove(disk, &first.folder).unwrap();
        assert_eq!(known(disk, &home).unwrap(), []);
    }
}
