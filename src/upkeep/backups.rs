//! The backups of a home, and those of them that have expired.
//!
//! Contract. `run/backups.jsonl` has a line for each backup: its folder, and when it expires. A folder is removed only
//! when its `backup.json` is the one that was written with the line, and when no record was added to it since. So a copy
//! that somebody uses as a home stays, and so does any other folder at that place.
//!
//! `backup.json` has the hash of every file of the copy, and its own. So a changed byte of a copy is found, until it is used
//! as a home: then its files have another history. The file of the log changes when it is read; its records have hashes.
//!
//! See docs/adr/0062-backup-as-logical-copy.md.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::contract::hash::{Digest, Hasher, sha256};
use crate::contract::time::{Timestamp, parse_instant};
use crate::export::difference::{Comparison, MISSING};
use crate::home::Home;
use crate::os::{Disk, Open, can_never_be_read};

/// The file of a backup that is written last.
pub(crate) const MANIFEST: &str = "backup.json";
/// Files of the copied log. Whoever checks a copy changes their length, and not that of the others.
const OF_LOG: [&str; 2] = [".redb", ".keys"];

/// The member of `backup.json` with the hash of the rest.
const OWN_HASH: &str = "sha256";

/// The length and the hash of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FileFact {
    pub bytes: u64,
    pub sha256: String,
}

impl FileFact {
    /// Reads a file.
    pub(crate) fn of(disk: &dyn Disk, path: &Path) -> io::Result<FileFact> {
        let file = disk.open(path, Open::Read)?;
        let (mut hasher, mut buffer, mut bytes) = (Hasher::new(), vec![0; 1 << 20], 0);
        loop {
            let count = file.read_at(&mut buffer, bytes)?;
            if count == 0 {
                return Ok(FileFact { bytes, sha256: hasher.finish().hex() });
            }
            hasher.update(&buffer[..count]);
            bytes += count as u64;
        }
    }
}

/// The bytes of `backup.json`, with their own hash in them.
pub(crate) fn manifest_bytes(manifest: &Value) -> Vec<u8> {
    let mut whole = manifest.clone();
    whole[OWN_HASH] = sha256(pretty(manifest)).hex().into();
    pretty(&whole)
}

fn pretty(value: &Value) -> Vec<u8> {
    let mut bytes = serde_json::to_vec_pretty(value).unwrap_or_default();
    bytes.push(b'\n');
    bytes
}

fn has_own_hash(manifest: &Value, bytes: &[u8]) -> bool {
    let mut rest = manifest.clone();
    let hash = rest.as_object_mut().and_then(|members| members.shift_remove(OWN_HASH));
    hash.is_some() && manifest_bytes(&rest) == bytes
}

/// Whether it has no other members than before it had a hash of its own.
fn is_of_an_early_version(manifest: &Value) -> bool {
    const MEMBERS: [&str; 10] = [
        "schema_version",
        "created_at",
        "expires_at",
        "summarizer_version",
        "home",
        "log",
        "without_upstream",
        "verified",
        "notes",
        "files",
    ];
    manifest.as_object().is_some_and(|all| all.keys().all(|name| MEMBERS.contains(&name.as_str())))
}

/// What of a folder that `backup` made is not what its `backup.json` says.
pub(crate) struct CopyLook {
    found: Comparison,
    /// The hash at the end of the copied log; none where no files were compared.
    end: Option<String>,
}

impl CopyLook {
    /// What differs, where the log ends with this hash now. A copy that was used has files of its own.
    pub(crate) fn at(self, head: &Digest) -> Comparison {
        let CopyLook { mut found, end } = self;
        if end.is_some_and(|end| end != head.hex()) {
            found.differences.clear();
            let why = "the copy was used as a home since, so its files are not compared with it; remove it here to end this note";
            found.notes.push(format!("{MANIFEST}: {why}"));
        }
        found
    }
}

/// Compares a folder with its `backup.json`, before somebody opens it: that mends what follows from the log. Nothing is said
/// of a folder without that file.
pub(crate) fn look(disk: &dyn Disk, root: &Path) -> io::Result<CopyLook> {
    let mut found = Comparison::default();
    let Some(bytes) = disk.read_if_present(&root.join(MANIFEST))? else {
        return Ok(CopyLook { found, end: None });
    };
    let manifest: Value = serde_json::from_slice(&bytes).unwrap_or_default();
    if is_of_an_early_version(&manifest) {
        let why = "it is of an earlier version, which wrote no hash of it";
        found.notes.push(format!("{MANIFEST}: {why}"));
    } else if !has_own_hash(&manifest, &bytes) {
        found.differs(MANIFEST, "is not what `backup` wrote");
        return Ok(CopyLook { found, end: None });
    }
    for (name, fact) in manifest["files"].as_object().into_iter().flatten() {
        if OF_LOG.iter().any(|ending| name.ends_with(ending)) {
            continue;
        }
        match FileFact::of(disk, &root.join(name)) {
            Ok(is) if serde_json::to_value(&is).is_ok_and(|is| is == *fact) => {}
            Ok(_) => found.differs(name, "is not what was copied"),
            Err(error) if error.kind() == io::ErrorKind::NotFound => found.differs(name, MISSING),
            Err(error) if can_never_be_read(&error) => {
                found.differs(name, format!("cannot be read: {error}"));
            }
            Err(error) => return Err(error),
        }
    }
    let end = manifest["log"]["hash"].as_str().map(str::to_owned);
    Ok(CopyLook { found, end })
}

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
    fn each_changed_byte_of_a_copy_is_told_until_it_is_used() {
        let disk = SimDisk::new();
        let disk: &dyn Disk = &disk;
        let root = Path::new("/copy");
        let head = sha256("the end of the log");
        disk.create_dir_all(&root.join("run")).unwrap();
        let write =
            |name: &str, bytes: &[u8]| disk.replace(&root.join(name), bytes, 0o600).unwrap();
        let names = ["summarizer.toml", "run/queue.jsonl", "run/summarizer.redb"];
        names.iter().for_each(|name| write(name, b"as it was"));
        let facts = names.map(|name| (name, FileFact::of(disk, &root.join(name)).unwrap()));
        let files: BTreeMap<&str, FileFact> = facts.into_iter().collect();
        let manifest = json!({"schema_version": "backup.v1", "log": {"head": 7, "hash": head.hex()},
            "notes": ["the queue is \u{e9}mpty"], "files": files});
        let whole = manifest_bytes(&manifest);
        let told = |end: &Digest| {
            let found = look(disk, root).unwrap().at(end);
            (
                found.differences.into_iter().map(|one| one.path).collect::<Vec<_>>(),
                found.notes.len(),
            )
        };
        assert_eq!(told(&head), (vec![], 0), "a folder without backup.json is no backup");
        write(MANIFEST, &whole);
        assert_eq!(told(&head), (vec![], 0));
        for at in 0..whole.len() {
            let mut changed = whole.clone();
            changed[at] ^= 1;
            write(MANIFEST, &changed);
            assert_eq!(told(&head), (vec![MANIFEST.to_owned()], 0), "byte {at}");
        }
        write(MANIFEST, &whole);
        write("run/summarizer.redb", b"as it is now");
        for name in &names[..2] {
            write(name, b"as it WAS");
            assert_eq!(told(&head), (vec![(*name).to_owned()], 0));
            disk.remove_file(&root.join(name)).unwrap();
            assert_eq!(told(&head), (vec![(*name).to_owned()], 0));
            write(name, b"as it was");
        }
        write("run/queue.jsonl", b"as it was, and more");
        assert_eq!(told(&sha256("a later end")), (vec![], 1), "it is a home by now");
        write(MANIFEST, &pretty(&manifest));
        assert_eq!(told(&head), (vec!["run/queue.jsonl".to_owned()], 1), "of an earlier version");
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
