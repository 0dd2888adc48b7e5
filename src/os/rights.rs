//! Rights to read what this process makes: files, sockets and memory.
//!
//! Contract: by default only the owner can read and write. A group can be let in by name: then it reads all
//! files of a home but keys, appends to the queue and uses the socket. The rules hold for everything that is made
//! afterwards; `let_group_in` brings an existing tree up to them.
#![allow(clippy::disallowed_methods, reason = "this room touches the machine")]

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _, lchown};
use std::path::{Path, PathBuf};

use nix::unistd::Group;
use rustix::fs::Mode;
use rustix::process::{DumpableBehavior, getuid, set_dumpable_behavior, umask};

/// The keys of providers, which a person wrote: their rights are not ours to change.
const OF_PROVIDERS: &str = "summarizer.env";

/// Files that a group may also change.
const APPENDED_BY_PRODUCERS: &str = "queue.jsonl";

/// Only the owner may use what this process makes from now on; no other user may read its memory, its
/// environment or a dump of it.
pub(crate) fn keep_to_owner() {
    umask(Mode::RWXG | Mode::RWXO);
    // Fails where the system has no such switch; the files are private all the same.
    let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
}

/// The group may read what this process makes from now on.
pub(crate) fn share_new_files() {
    umask(Mode::WGRP | Mode::RWXO);
}

/// The usual rights: for files that everybody should read, such as manual pages.
pub(crate) fn publish_new_files() {
    umask(Mode::WGRP | Mode::WOTH);
}

/// The number of a group.
fn number_of(group: &str) -> io::Result<u32> {
    let found = Group::from_name(group).map_err(io::Error::from)?;
    let absent = || io::Error::new(io::ErrorKind::NotFound, format!("there is no group {group}"));
    found.map(|found| found.gid.as_raw()).ok_or_else(absent)
}

/// Whether a file is of a group. A service manager may run the service where other groups have no number of
/// their own; there a file keeps the group that its folder passed on.
fn is_of(meta: &fs::Metadata, gid: u32) -> bool {
    const WITHOUT_NUMBER: u32 = 65_534;
    [gid, WITHOUT_NUMBER].contains(&meta.gid())
}

/// Gives a tree to a group. Folders pass the group on to what is made in them, so one walk is enough as
/// long as the root keeps it. The key of the home may lie there too, and stays as it is.
pub(crate) fn let_group_in(root: &Path, group: &str, own_key: Option<&Path>) -> io::Result<()> {
    const SHARED_FOLDER: u32 = 0o2750;
    let gid = number_of(group)?;
    let meta = fs::symlink_metadata(root)?;
    if is_of(&meta, gid) && meta.mode() & 0o7777 == SHARED_FOLDER {
        return Ok(());
    }
    // The home may be named in another way than its key.
    let own_key = own_key.and_then(|key| fs::canonicalize(key).ok());
    let is_own_key = |path: &Path| {
        let named = own_key.as_deref().and_then(Path::file_name);
        named.is_some() && named == path.file_name() && fs::canonicalize(path).ok() == own_key
    };
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder)? {
            let path = entry?.path();
            if path.ends_with(OF_PROVIDERS) || is_own_key(&path) {
                continue;
            }
            let meta = fs::symlink_metadata(&path)?;
            if meta.is_dir() {
                folders.push(path);
            } else if meta.is_file() && is_of_keys(&path) {
                fs::set_permissions(&path, Permissions::from_mode(0o600))?;
            } else if meta.is_file() {
                let changed_by_group = path.ends_with(APPENDED_BY_PRODUCERS);
                lchown(&path, None, Some(gid))?;
                let mode = if changed_by_group { 0o660 } else { 0o640 };
                fs::set_permissions(&path, Permissions::from_mode(mode))?;
            }
        }
        // The root comes first and its rights last: a walk that was cut short begins again.
        if folder != root {
            lchown(&folder, None, Some(gid))?;
            fs::set_permissions(&folder, Permissions::from_mode(SHARED_FOLDER))?;
        }
    }
    lchown(root, None, Some(gid))?;
    fs::set_permissions(root, Permissions::from_mode(SHARED_FOLDER))
}

/// Whether a file holds the keys of a log, which stay with their owner.
pub(crate) fn is_of_keys(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    name.starts_with("log-") && name.ends_with(".keys")
}

/// What is wrong with the rights of a file that only this user may read; `None` when nothing is.
pub(crate) fn not_only_ours(path: &Path) -> io::Result<Option<&'static str>> {
    let meta = fs::symlink_metadata(path)?;
    Ok(match () {
        () if !meta.is_file() => Some("is no regular file"),
        () if meta.uid() != getuid().as_raw() => Some("belongs to another user"),
        () if meta.mode() & 0o077 != 0 => Some("can be read by other users"),
        () => None,
    })
}

/// The group may change this file or use this socket.
pub(crate) fn let_group_change(path: &Path, group: &str) -> io::Result<()> {
    let gid = number_of(group)?;
    if !is_of(&fs::symlink_metadata(path)?, gid) {
        lchown(path, None, Some(gid))?;
    }
    fs::set_permissions(path, Permissions::from_mode(0o660))
}

/// Closes a folder to others that holds nothing yet: what becomes a home is as closed as one that is made. One of another
/// user stays as it is.
pub(crate) fn close_if_empty(folder: &Path) -> io::Result<()> {
    let meta = match fs::metadata(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        found => found?,
    };
    let is_ours = meta.uid() == getuid().as_raw();
    if !meta.is_dir() || !is_ours || meta.mode() & 0o077 == 0 {
        return Ok(());
    }
    match fs::read_dir(folder)?.next() {
        None => fs::set_permissions(folder, Permissions::from_mode(0o700)),
        Some(_) => Ok(()),
    }
}

/// Whether others than the owner can use a file or folder.
pub(crate) fn open_to_others(path: &Path) -> io::Result<bool> {
    Ok(fs::symlink_metadata(path)?.mode() & 0o077 != 0)
}

/// A folder of this user for sockets, which no other user can write.
pub(crate) fn runtime_folder() -> io::Result<PathBuf> {
    let uid = getuid().as_raw();
    let own = |path: &Path| {
        fs::symlink_metadata(path)
            .is_ok_and(|meta| meta.is_dir() && meta.uid() == uid && meta.mode() & 0o022 == 0)
    };
    let of_system = PathBuf::from(format!("/run/user/{uid}"));
    if own(&of_system) {
        return Ok(of_system);
    }
    let folder = PathBuf::from(format!("/tmp/summarizer-{uid}"));
    match fs::DirBuilder::new().mode(0o700).create(&folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    match own(&folder) {
        true => Ok(folder),
        false => {
            let why = format!("{} does not belong to this user alone", folder.display());
            Err(io::Error::new(io::ErrorKind::PermissionDenied, why))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_folder_is_closed_and_one_that_holds_something_stays() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("home");
        close_if_empty(&folder).unwrap();
        assert!(!folder.exists());
        fs::create_dir(&folder).unwrap();
        let open = |folder: &Path| {
            fs::set_permissions(folder, Permissions::from_mode(0o755)).unwrap();
        };
        open(&folder);
        close_if_empty(&folder).unwrap();
        assert!(!open_to_others(&folder).unwrap());
        fs::write(folder.join("note"), "of a person").unwrap();
        open(&folder);
        close_if_empty(&folder).unwrap();
        assert!(open_to_others(&folder).unwrap());
    }

    #[test]
    fn a_tree_is_given_to_a_group_with_its_queue_writable() {
        let dir = tempfile::tempdir().unwrap();
        let run = dir.path().join("run");
        fs::create_dir_all(&run).unwrap();
        for (name, text) in [("queue.jsonl", "{}"), ("ack.jsonl", "{}"), ("log-1f.keys", "k")] {
            fs::write(run.join(name), text).unwrap();
        }
        let of_providers = dir.path().join("summarizer.env");
        fs::write(&of_providers, "KEY=value").unwrap();
        fs::set_permissions(&of_providers, Permissions::from_mode(0o600)).unwrap();
        let own_key = dir.path().join("home.key");
        fs::write(&own_key, "a secret of the home").unwrap();
        fs::set_permissions(&own_key, Permissions::from_mode(0o600)).unwrap();
        let own = Group::from_gid(nix::unistd::Gid::current()).unwrap().unwrap();
        std::os::unix::fs::symlink("/etc/passwd", run.join("link")).unwrap();
        let before = fs::metadata("/etc/passwd").unwrap().mode();
        let another_name = dir.path().join(".").join("home.key");
        let_group_in(dir.path(), &own.name, Some(&another_name)).unwrap();
        let mode = |path: &Path| fs::symlink_metadata(path).unwrap().mode() & 0o7777;
        assert_eq!(mode(dir.path()), 0o2750);
        assert_eq!(mode(&run), 0o2750);
        assert_eq!(mode(&run.join("queue.jsonl")), 0o660);
        assert_eq!(mode(&run.join("ack.jsonl")), 0o640);
        let keys = run.join("log-1f.keys");
        assert_eq!(mode(&keys), 0o600);
        assert_eq!(not_only_ours(&keys).unwrap(), None);
        fs::set_permissions(&keys, Permissions::from_mode(0o640)).unwrap();
        assert_eq!(not_only_ours(&keys).unwrap(), Some("can be read by other users"));
        assert_eq!(not_only_ours(&run.join("link")).unwrap(), Some("is no regular file"));
        assert_eq!(fs::metadata("/etc/passwd").unwrap().mode(), before, "a link was followed");
        assert_eq!(mode(&of_providers), 0o600, "the group can read the keys of providers");
        assert_eq!(mode(&own_key), 0o600, "the group can read the key of the home");
        assert!(let_group_in(dir.path(), "no-such-group-here", None).is_err());
    }
}
