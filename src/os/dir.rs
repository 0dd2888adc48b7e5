//! An open directory: everything read through it belongs to the tree it was when it was opened,
//! even if another tree has taken its name since.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{CWD, Dir, Mode, OFlags, openat};

/// A directory held by descriptor.
#[derive(Debug)]
pub struct DirHandle(OwnedFd);

impl DirHandle {
    pub fn open(path: &Path) -> io::Result<DirHandle> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(DirHandle(openat(CWD, path, flags, Mode::empty())?))
    }

    /// Opens a file below it for reading.
    pub(crate) fn open_file(&self, relative: &str) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        Ok(File::from(openat(&self.0, relative, flags, Mode::empty())?))
    }

    /// The whole content of a file below it.
    pub fn read(&self, relative: &str) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.open_file(relative)?.read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// Names in a directory below it, sorted.
    pub fn list(&self, relative: &str) -> io::Result<Vec<String>> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = openat(&self.0, relative, flags, Mode::empty())?;
        let mut names = Vec::new();
        for entry in Dir::read_from(&dir)? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            if name != "." && name != ".." {
                names.push(name);
            }
        }
        names.sort();
        Ok(names)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::os::{Disk, real::HostDisk};

    #[test]
    fn a_handle_keeps_its_tree_when_the_name_moves_on() {
        let home = tempfile::tempdir().unwrap();
        let disk: &dyn Disk = &HostDisk;
        let (old, new) = (home.path().join("tree"), home.path().join("next"));
        for (dir, text) in [(&old, "old"), (&new, "new")] {
            disk.create_dir_all(&dir.join("in")).unwrap();
            disk.replace(&dir.join("in/f"), text.as_bytes(), 0o640).unwrap();
        }
        let handle = DirHandle::open(&old).unwrap();
        disk.rename(&old, &home.path().join("away")).unwrap();
        disk.rename(&new, &old).unwrap();
        assert_eq!(handle.read("in/f").unwrap(), b"old");
        assert_eq!(handle.list("in").unwrap(), ["f"]);
    }
}
