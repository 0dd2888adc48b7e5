//! A research run directory. No path that is read or written may leave it.
//!
//! Names are checked before the disk is used, links are followed before a file is opened, and sizes
//! are checked before a file is read. Concurrent changes by another process are not defended
//! against: the owner of the directory is trusted, its content is not.

use std::io;
use std::path::{Path, PathBuf};

use crate::os::{Disk, Open, read_up_to};

/// Longest perspective id.
pub(crate) const ID_CHARS_MAX: usize = 64;
/// Longest segment of a path inside a run directory.
const SEGMENT_CHARS_MAX: usize = 128;
/// Longest path inside a run directory.
const PATH_CHARS_MAX: usize = 512;
/// Longest line of a JSONL file inside a run directory.
pub(crate) const LINE_BYTES_MAX: usize = 1 << 20;
/// Largest JSON document inside a run directory.
pub(crate) const JSON_BYTES_MAX: u64 = 16 << 20;
/// Largest markdown file inside a run directory.
pub(crate) const MARKDOWN_BYTES_MAX: u64 = 8 << 20;

/// Mode of every file written into a run directory.
pub(super) const FILE_MODE: u32 = 0o640;

/// Why a run directory could not be used.
#[derive(Debug, thiserror::Error)]
pub enum RunDirError {
    /// The name is neither a directory nor the id of a run.
    #[error("find the run {name}: no such directory, and no such run under {root}")]
    NoRun { name: String, root: String },
    /// The name cannot be either.
    #[error("find the run {name:?}: it is not a directory and not a run id")]
    BadName { name: String },
    /// A path leads out of the run directory.
    #[error("open {path}: it is outside the run directory")]
    Escapes { path: String },
    /// A file is larger than its kind may be.
    #[error("read {path}: it has {bytes} bytes, and the limit is {limit}")]
    TooLarge { path: String, bytes: u64, limit: u64 },
    /// A line is longer than any record may be.
    #[error("read {path}: line {line} is longer than {LINE_BYTES_MAX} bytes")]
    LineTooLong { path: String, line: u64 },
    #[error("read {path}")]
    Read {
        path: String,
        #[source]
        source: io::Error,
    },
    #[error("write {path}")]
    Write {
        path: String,
        #[source]
        source: io::Error,
    },
}

pub(super) fn write_failed(path: &RelPath) -> impl Fn(io::Error) -> RunDirError {
    let path = path.as_str().to_owned();
    move |source| RunDirError::Write { path: path.clone(), source }
}

/// True for a perspective id: `[A-Za-z0-9_-]{1,64}`.
pub(crate) fn is_perspective_id(text: &str) -> bool {
    (1..=ID_CHARS_MAX).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
}

/// True for a run id: `[A-Za-z0-9._-]{1,128}` and neither `.` nor `..`.
pub(crate) fn is_run_id(text: &str) -> bool {
    is_segment(text)
}

fn is_segment(text: &str) -> bool {
    (1..=SEGMENT_CHARS_MAX).contains(&text.len())
        && text != "."
        && text != ".."
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
}

/// A path inside a run directory: plain segments joined by `/`, never `..`, never absolute.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct RelPath(String);

impl RelPath {
    /// Parses a path. `None` when it could leave the directory or is not in its simplest form.
    pub fn parse(text: &str) -> Option<RelPath> {
        let fits = text.len() <= PATH_CHARS_MAX && text.split('/').all(is_segment);
        fits.then(|| RelPath(text.to_owned()))
    }

    /// The path of a file in this directory; `name` must be a segment.
    pub fn join(&self, name: &str) -> RelPath {
        debug_assert!(is_segment(name));
        RelPath(format!("{}/{name}", self.0))
    }

    /// The parent directory; `None` at the top.
    pub fn parent(&self) -> Option<RelPath> {
        self.0.rsplit_once('/').map(|(parent, _)| RelPath(parent.to_owned()))
    }

    /// The path as written in records.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl AsRef<str> for RelPath {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Display for RelPath {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

pub struct RunDir<'a> {
    disk: &'a dyn Disk,
    root: PathBuf,
}

impl<'a> RunDir<'a> {
    /// Opens a directory as a run.
    pub fn open(disk: &'a dyn Disk, dir: &Path) -> Result<RunDir<'a>, RunDirError> {
        let shown = || dir.display().to_string();
        let root = disk.real_path(dir).map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => {
                RunDirError::NoRun { name: shown(), root: "the current directory".into() }
            }
            _ => RunDirError::Read { path: shown(), source },
        })?;
        Ok(RunDir { disk, root })
    }

    /// Opens a run by directory or, if no such directory exists, by its id under the root of all
    /// runs.
    pub(crate) fn locate(
        disk: &'a dyn Disk,
        name: &Path,
        research_root: &Path,
    ) -> Result<RunDir<'a>, RunDirError> {
        RunDir::open(disk, &Self::resolve(disk, name, research_root)?)
    }

    /// The directory that a name stands for: the name itself if it exists or contains a slash, else
    /// the run with that id. A name with a slash need not exist.
    pub fn resolve(
        disk: &dyn Disk,
        name: &Path,
        research_root: &Path,
    ) -> Result<PathBuf, RunDirError> {
        let is_dir = |path: &Path| disk.stat(path).is_ok_and(|s| s.is_some_and(|s| s.is_dir));
        let text = name.to_string_lossy();
        if is_dir(name) || text.contains('/') {
            return Ok(name.to_path_buf());
        }
        if !is_run_id(&text) {
            return Err(RunDirError::BadName { name: text.into_owned() });
        }
        let run = research_root.join(name);
        if is_dir(&run) {
            return Ok(run);
        }
        Err(RunDirError::NoRun {
            name: text.into_owned(),
            root: research_root.display().to_string(),
        })
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    pub fn disk(&self) -> &'a dyn Disk {
        self.disk
    }

    fn confined(&self, path: &RelPath) -> Result<Option<PathBuf>, RunDirError> {
        match self.disk.real_path(&self.root.join(path.as_str())) {
            Ok(real) if real.starts_with(&self.root) => Ok(Some(real)),
            Ok(_) => Err(RunDirError::Escapes { path: path.0.clone() }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(RunDirError::Read { path: path.0.clone(), source }),
        }
    }

    /// The content of a file, `None` when it does not exist.
    pub fn read(&self, path: &RelPath, limit: u64) -> Result<Option<Vec<u8>>, RunDirError> {
        let Some(real) = self.confined(path)? else { return Ok(None) };
        let failed = |source| RunDirError::Read { path: path.0.clone(), source };
        let file = self.disk.open(&real, Open::ReadInPlace).map_err(failed)?;
        let bytes = read_up_to(file.as_ref(), limit).map_err(failed)?;
        let len = bytes.len() as u64;
        if len > limit {
            return Err(RunDirError::TooLarge { path: path.0.clone(), bytes: len, limit });
        }
        Ok(Some(bytes))
    }

    /// Calls `each` with every line and its number from 1. False when the file does not exist.
    /// Memory holds one line.
    pub(crate) fn read_lines(
        &self,
        path: &RelPath,
        mut each: impl FnMut(u64, &[u8]),
    ) -> Result<bool, RunDirError> {
        let Some(real) = self.confined(path)? else { return Ok(false) };
        let failed = |source| RunDirError::Read { path: path.0.clone(), source };
        let file = self.disk.open(&real, Open::ReadInPlace).map_err(failed)?;
        let (mut buffer, mut pending) = (vec![0; 1 << 16], Vec::new());
        let (mut offset, mut line) = (0, 0);
        loop {
            let count = file.read_at(&mut buffer, offset).map_err(failed)?;
            if count == 0 {
                break;
            }
            offset += count as u64;
            for piece in buffer[..count].split_inclusive(|byte| *byte == b'\n') {
                pending.extend_from_slice(piece);
                if pending.ends_with(b"\n") {
                    line += 1;
                    each(line, without_line_end(&pending));
                    pending.clear();
                } else if pending.len() > LINE_BYTES_MAX {
                    return Err(RunDirError::LineTooLong { path: path.0.clone(), line: line + 1 });
                }
            }
        }
        if !pending.is_empty() {
            each(line + 1, &pending);
        }
        Ok(true)
    }

    /// The sorted names in a directory; empty when it does not exist.
    pub fn list(&self, dir: &RelPath) -> Result<Vec<String>, RunDirError> {
        let Some(real) = self.confined(dir)? else { return Ok(Vec::new()) };
        self.disk.list(&real).map_err(|source| RunDirError::Read { path: dir.0.clone(), source })
    }

    /// The place of a file to write. Its directory is created if needed and must lie inside the run
    /// directory.
    pub fn place(&self, path: &RelPath) -> Result<PathBuf, RunDirError> {
        let failed = |source| RunDirError::Write { path: path.0.clone(), source };
        let Some(parent) = path.parent() else { return Ok(self.root.join(path.as_str())) };
        // The deepest existing ancestor decides whether a missing directory would be inside.
        let mut existing = Some(parent.clone());
        while let Some(dir) = existing {
            if self.confined(&dir)?.is_some() {
                break;
            }
            existing = dir.parent();
        }
        self.disk.create_dir_all(&self.root.join(parent.as_str())).map_err(failed)?;
        let name = path.0.rsplit('/').next().unwrap_or(&path.0);
        match self.confined(&parent)? {
            Some(real) => Ok(real.join(name)),
            None => Err(failed(io::ErrorKind::NotFound.into())),
        }
    }

    /// Replaces a file durably in one step.
    pub fn write(&self, path: &RelPath, bytes: &[u8]) -> Result<(), RunDirError> {
        let place = self.place(path)?;
        self.disk
            .replace(&place, bytes, FILE_MODE)
            .map_err(|source| RunDirError::Write { path: path.0.clone(), source })
    }

    /// Removes a file.
    pub(super) fn remove(&self, path: &RelPath) -> Result<(), RunDirError> {
        let place = self.place(path)?;
        self.disk.remove_file(&place).map_err(write_failed(path))
    }

    /// Appends one line durably. An unfinished last line is ended first.
    pub(crate) fn append_line(&self, path: &RelPath, line: &str) -> Result<(), RunDirError> {
        let place = self.place(path)?;
        // Appending follows links, so a dangling link is refused too: it could create a file
        // outside.
        let absent = self.confined(path)?.is_none();
        let append = || -> io::Result<()> {
            if absent {
                self.disk.open(&place, Open::CreateNew(FILE_MODE))?;
            }
            let file = self.disk.open(&place, Open::ReadWrite)?;
            let len = file.stat()?.len;
            let mut last = [b'\n'];
            if len > 0 {
                file.read_at(&mut last, len - 1)?;
            }
            let lead = if last == [b'\n'] { "" } else { "\n" };
            file.append(format!("{lead}{line}\n").as_bytes())?;
            file.sync()?;
            if len == 0 {
                self.disk.sync_dir(place.parent().unwrap_or(&self.root))?;
            }
            Ok(())
        };
        append().map_err(|source| RunDirError::Write { path: path.0.clone(), source })
    }
}

/// Reads at most one byte more than `limit`, so that the caller can detect a larger file.
pub(crate) fn read_bounded(disk: &dyn Disk, path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    read_up_to(disk.open(path, Open::Read)?.as_ref(), limit)
}

fn without_line_end(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::os::real::HostDisk;

    #[test]
    fn only_plain_relative_paths_are_paths() {
        for good in ["a", "wave-1/p1.md", "operator/outputs/x_1.md", "..a", "a..b/.c"] {
            assert!(RelPath::parse(good).is_some(), "{good}");
        }
        let long = "a/".repeat(300) + "a";
        for bad in [
            "",
            "/",
            "/etc/passwd",
            "..",
            ".",
            "a/../b",
            "a/./b",
            "a//b",
            "a/",
            "./a",
            "a\\b",
            "a b",
            "a\0b",
            "a\n",
            "é",
            "C:/x",
            &long,
        ] {
            assert!(RelPath::parse(bad).is_none(), "{bad:?}");
        }
    }

    #[test]
    fn ids_are_plain() {
        for good in ["p1", "P1", "p-1", "p_1", &"x".repeat(64)] {
            assert!(is_perspective_id(good), "{good}");
        }
        for bad in ["", "../x", "a/b", "a.b", "p 1", "é", "p1\n", &"x".repeat(65)] {
            assert!(!is_perspective_id(bad), "{bad:?}");
        }
        assert!(is_run_id("dr_20260213_001") && !is_run_id("..") && !is_run_id("a/b"));
    }

    #[test]
    fn links_that_lead_out_are_refused_for_reading_and_writing() {
        let outside = tempfile::tempdir().unwrap();
        let inside = tempfile::tempdir().unwrap();
        let disk: &dyn Disk = &HostDisk;
        disk.replace(&outside.path().join("secret"), b"s", 0o640).unwrap();
        let link = |to: &Path, at: &str| {
            std::os::unix::fs::symlink(to, inside.path().join(at)).unwrap();
        };
        link(&outside.path().join("secret"), "file");
        link(outside.path(), "dir");
        let run = RunDir::open(disk, inside.path()).unwrap();
        let path = |text| RelPath::parse(text).unwrap();
        let escapes = |result: Result<(), RunDirError>| {
            assert!(matches!(result, Err(RunDirError::Escapes { .. })), "{result:?}");
        };
        escapes(run.read(&path("file"), 10).map(drop));
        escapes(run.read(&path("dir/secret"), 10).map(drop));
        escapes(run.write(&path("dir/new"), b"x"));
        escapes(run.write(&path("dir/deep/new"), b"x"));
        escapes(run.append_line(&path("file"), "x"));
        link(&outside.path().join("unborn"), "dangling");
        assert!(run.append_line(&path("dangling"), "x").is_err());
        // Replacing a link replaces the link, never what it leads to.
        run.write(&path("file"), b"ours").unwrap();
        assert_eq!(disk.read(&outside.path().join("secret")).unwrap(), b"s");
        assert_eq!(disk.list(outside.path()).unwrap(), ["secret"]);
        assert_eq!(run.read(&path("file"), 4).unwrap().unwrap(), b"ours");
        assert!(matches!(run.read(&path("file"), 3), Err(RunDirError::TooLarge { .. })));
        assert!(run.read(&path("absent/file"), 3).unwrap().is_none());
    }

    #[test]
    fn lines_come_whole_whatever_their_ends() {
        let dir = tempfile::tempdir().unwrap();
        let disk: &dyn Disk = &HostDisk;
        let long = "x".repeat(100_000);
        disk.replace(&dir.path().join("l"), format!("a\r\n\n{long}\nlast").as_bytes(), 0o640)
            .unwrap();
        let run = RunDir::open(disk, dir.path()).unwrap();
        let mut seen = Vec::new();
        let path = RelPath::parse("l").unwrap();
        assert!(run.read_lines(&path, |n, line| seen.push((n, line.len()))).unwrap());
        assert_eq!(seen, [(1, 1), (2, 0), (3, 100_000), (4, 4)]);
        run.append_line(&path, "next").unwrap();
        let bytes = run.read(&path, 1 << 20).unwrap().unwrap();
        assert!(bytes.ends_with(b"\nlast\nnext\n"));
    }

    #[test]
    fn a_run_is_a_directory_or_an_id_under_the_root() {
        let root = tempfile::tempdir().unwrap();
        let disk: &dyn Disk = &HostDisk;
        disk.create_dir_all(&root.path().join("dr_1")).unwrap();
        let found = RunDir::locate(disk, Path::new("dr_1"), root.path()).unwrap();
        assert!(found.root().ends_with("dr_1"));
        assert!(RunDir::locate(disk, &root.path().join("dr_1"), Path::new("/nowhere")).is_ok());
        for bad in ["dr_2", "...", "", "a b"] {
            assert!(RunDir::locate(disk, Path::new(bad), root.path()).is_err(), "{bad}");
        }
    }
}
