//! Files below a folder of upstream, opened so that no link leads out of it.
//!
//! Contract: a path is resolved first and must then lie below its root. It is opened without following another
//! link, so one that appears after the check is an error. Only regular files are opened.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::defect::Defect;
use crate::contract::vocabulary::{ErrorClass, ReasonCode};
use crate::facts::failure::ErrorDetails;
use crate::os::{Disk, DiskFile, Open};

/// Opens a file by its path below a root; `None` when nothing is there.
pub(super) fn open(
    disk: &dyn Disk,
    root: &Path,
    relative: &str,
) -> Result<Option<Arc<dyn DiskFile>>, Defect> {
    let path = root.join(relative);
    let Some(real) = inside(disk, &[root.to_owned()], &path, relative)? else { return Ok(None) };
    match disk.open(&real, Open::ReadInPlace) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Defect::storage("open", relative, &error)),
    }
}

/// The same of a path that a request names, in one of the roots.
pub(super) fn open_named(
    disk: &dyn Disk,
    roots: &[PathBuf],
    path: &Path,
    shown: &str,
) -> Result<Option<Arc<dyn DiskFile>>, Defect> {
    let Some(real) = inside(disk, roots, path, shown)? else { return Ok(None) };
    match disk.open(&real, Open::ReadInPlace) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Defect::of_named_path("read", shown, &error)),
    }
}

/// The path with links resolved, made sure to lie in one of the roots; `None` when absent. An error names
/// it as it is `shown`: published files name no place of this machine.
pub(super) fn inside(
    disk: &dyn Disk,
    roots: &[PathBuf],
    path: &Path,
    shown: &str,
) -> Result<Option<PathBuf>, Defect> {
    let real = match disk.real_path(path) {
        Ok(real) => real,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Defect::of_named_path("resolve", shown, &error)),
    };
    let within = roots
        .iter()
        .filter_map(|root| disk.real_path(root).ok())
        .any(|root| real.starts_with(root));
    if within { Ok(Some(real)) } else { Err(outside(shown)) }
}

pub(super) fn outside(path: &str) -> Defect {
    Defect {
        class: ErrorClass::InputMissing,
        subtype: "PATH_OUTSIDE_BUS_HOME".to_owned(),
        message: format!("{path} leads outside the folders that may be read"),
        details: ErrorDetails::Input {
            input_name: "path".to_owned(),
            expected_path: Some(path.to_owned()),
            expected_manifest_path: None,
            source_id: None,
        },
        reason: ReasonCode::PathOutsideBusHome,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::disallowed_methods, reason = "it makes the files that are opened")]

    use std::fs;
    use std::os::unix::fs::symlink;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;
    use crate::os::Machine;
    use crate::upstream::lines::read_range;

    /// What a path below a root holds.
    fn read(root: &Path, name: &str) -> Result<Option<Vec<u8>>, Defect> {
        let Some(file) = open(Machine::real().disk.as_ref(), root, name)? else { return Ok(None) };
        let length = usize::try_from(file.stat().unwrap().len).unwrap();
        Ok(Some(read_range(file.as_ref(), 0, length).unwrap()))
    }

    #[test]
    fn links_inside_are_followed_and_links_out_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("root");
        fs::create_dir(&root).unwrap();
        fs::write(root.join("a"), "inside").unwrap();
        fs::write(folder.path().join("secret"), "outside").unwrap();
        symlink("a", root.join("near")).unwrap();
        symlink("../secret", root.join("far")).unwrap();
        symlink(folder.path(), root.join("up")).unwrap();
        assert_eq!(read(&root, "a").unwrap(), Some(b"inside".to_vec()));
        assert_eq!(read(&root, "near").unwrap(), Some(b"inside".to_vec()));
        assert_eq!(read(&root, "none").unwrap(), None);
        for out in ["far", "up/secret", "../secret"] {
            let defect = read(&root, out).unwrap_err();
            assert_eq!(defect.reason, ReasonCode::PathOutsideBusHome, "{out}");
        }
        let pipe = std::process::Command::new("mkfifo").arg(root.join("pipe")).status();
        assert!(pipe.unwrap().success());
        // Opening it does not wait for a writer.
        read(&root, "pipe").unwrap_err();
    }

    #[test]
    fn a_link_that_takes_the_place_of_a_file_meanwhile_is_never_followed() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("root");
        fs::create_dir(&root).unwrap();
        fs::write(folder.path().join("secret"), "outside").unwrap();
        fs::write(root.join("a"), "inside").unwrap();
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    symlink("../secret", root.join("new")).unwrap();
                    fs::rename(root.join("new"), root.join("a")).unwrap();
                    fs::write(root.join("new"), "inside").unwrap();
                    fs::rename(root.join("new"), root.join("a")).unwrap();
                }
            });
            for _ in 0..3_000 {
                if let Ok(Some(bytes)) = read(&root, "a") {
                    assert!(bytes == b"inside" || bytes.is_empty(), "{bytes:?}");
                }
            }
            is_over.store(true, Ordering::Relaxed);
        });
    }
}
