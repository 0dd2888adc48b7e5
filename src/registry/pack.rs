//! The files of a flow pack: read once, bounded, hashed, and never read again.
//!
//! Contract: a pack is every regular file below its folder whose path has no component that starts
//! with a dot. Paths are relative, with `/`, and sorted. `pack_hash` is the SHA-256 of the
//! sorted lines `<sha256>  <path>\n`, each file with CRLF and CR read as LF, so that a checkout with
//! other line ends is the same pack. A link that leads out of the folder is refused.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::contract::hash::{Digest, Hasher, sha256};
use crate::os::{Disk, Open, read_up_to};

/// Most files in a pack.
pub(crate) const PACK_FILES_MAX: usize = 1_000;
/// Most bytes in one file of a pack.
pub(crate) const PACK_FILE_BYTES_MAX: u64 = 4 << 20;
/// Most bytes in a pack.
pub(crate) const PACK_BYTES_MAX: u64 = 32 << 20;
/// Deepest folder inside a pack.
const PACK_DEPTH_MAX: usize = 8;

/// How a file differs from the record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileDifference {
    Changed(String),
    /// Only the pack has it.
    Added(String),
    /// Only the record has it.
    Missing(String),
}

impl fmt::Display for FileDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FileDifference::Changed(path) => write!(f, "{path} was changed"),
            FileDifference::Added(path) => write!(f, "{path} was added"),
            FileDifference::Missing(path) => write!(f, "{path} is missing"),
        }
    }
}

/// Why a pack cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PackError {
    /// The files could not be read.
    #[error("read {}", path.display())]
    Read {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// There is no such pack.
    #[error("find the pack {path}: the folder has no files")]
    Empty { path: String },
    /// A path leaves the pack.
    #[error("read {path}: it is outside the folder of the pack")]
    Outside { path: String },
    /// The pack exceeds a limit.
    #[error("read the pack: {what}")]
    TooLarge { what: String },
    /// The files differ from those that the record describes.
    #[error(
        "verify {flow}: its pack has hash {actual}, the registry says {recorded}{}",
        list(differences)
    )]
    Changed {
        flow: String,
        /// The hash in the record.
        recorded: String,
        /// The hash of the files.
        actual: Digest,
        /// Which files differ, when the record knows their hashes.
        differences: Vec<FileDifference>,
    },
}

fn list(differences: &[FileDifference]) -> String {
    let mut text = String::new();
    for difference in differences {
        text.push_str("; ");
        text.push_str(&difference.to_string());
    }
    text
}

/// The bytes of a pack by path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PackFiles {
    files: BTreeMap<String, Vec<u8>>,
    folder: Option<PathBuf>,
}

impl PackFiles {
    /// A pack from bytes in memory.
    pub fn from_map(files: BTreeMap<String, Vec<u8>>) -> Result<PackFiles, PackError> {
        if files.is_empty() {
            return Err(PackError::Empty { path: "in memory".into() });
        }
        Ok(PackFiles { files, folder: None })
    }

    /// Reads a pack from its folder.
    pub fn read(disk: &dyn Disk, folder: &Path) -> Result<PackFiles, PackError> {
        let mut reader = Reader { disk, folder, files: BTreeMap::new(), bytes: 0 };
        reader.walk(folder, "", 0)?;
        if reader.files.is_empty() {
            return Err(PackError::Empty { path: folder.display().to_string() });
        }
        // Work that uses the folder later may run elsewhere.
        Ok(PackFiles { files: reader.files, folder: disk.real_path(folder).ok() })
    }

    /// Adds a file or a folder from elsewhere under another name; a file of that name stays as it is.
    /// False when nothing is there.
    pub(crate) fn include(
        &mut self,
        disk: &dyn Disk,
        from: &Path,
        name: &str,
    ) -> Result<bool, PackError> {
        let failed = |source| PackError::Read { path: from.to_owned(), source };
        let Some(stat) = disk.stat(from).map_err(failed)? else { return Ok(false) };
        let bytes = self.files.values().map(|bytes| bytes.len() as u64).sum();
        let folder = if stat.is_dir { from } else { from.parent().unwrap_or(from) };
        let mut reader = Reader { disk, folder, files: std::mem::take(&mut self.files), bytes };
        let added = match stat.is_dir {
            true => reader.walk(from, &format!("{name}/"), 1),
            false => reader.add(from, name.to_owned()),
        };
        self.files = reader.files;
        added.map(|()| true)
    }

    /// The bytes of one file. A path that leads out of the pack is refused even if the caller
    /// would never find anything there.
    pub fn get(&self, path: &str) -> Result<Option<&[u8]>, PackError> {
        let path = clean(path)?;
        Ok(self.files.get(&path).map(Vec::as_slice))
    }

    /// All files, sorted by path.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.files.iter().map(|(path, bytes)| (path.as_str(), bytes.as_slice()))
    }

    /// The folder they were read from, when they were.
    pub fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }

    /// The hash of every file with normalized line ends, sorted by path.
    pub fn hashes(&self) -> impl Iterator<Item = (&str, Digest)> {
        self.iter().map(|(path, bytes)| (path, sha256(with_lf(bytes))))
    }

    /// How other files differ from these.
    pub(crate) fn differences_of(&self, others: &PackFiles) -> Vec<FileDifference> {
        let own = self.hashes().map(|(path, hash)| (path.to_owned(), hash.hex())).collect();
        differences(&own, others)
    }

    /// The hash of the pack.
    pub fn pack_hash(&self) -> Digest {
        let mut lines: Vec<String> =
            self.hashes().map(|(path, hash)| format!("{hash}  {path}\n")).collect();
        lines.sort();
        let mut hasher = Hasher::new();
        lines.iter().for_each(|line| {
            hasher.update(line);
        });
        hasher.finish()
    }
}

/// How files differ from those whose hashes are given.
pub(crate) fn differences(
    recorded: &BTreeMap<String, String>,
    files: &PackFiles,
) -> Vec<FileDifference> {
    let actual: BTreeMap<&str, String> =
        files.hashes().map(|(path, hash)| (path, hash.hex())).collect();
    let mut found = Vec::new();
    for (path, hash) in recorded {
        match actual.get(path.as_str()) {
            None => found.push(FileDifference::Missing(path.clone())),
            Some(now) if now != hash => found.push(FileDifference::Changed(path.clone())),
            Some(_) => {}
        }
    }
    let unknown = actual.keys().filter(|path| !recorded.contains_key(**path));
    found.extend(unknown.map(|path| FileDifference::Added((*path).to_owned())));
    found
}

/// A path inside a pack in the form files are listed under.
pub(crate) fn clean(path: &str) -> Result<String, PackError> {
    let mut parts = Vec::new();
    for part in Path::new(path).components() {
        match part {
            Component::Normal(part) => parts.push(part.to_string_lossy().into_owned()),
            Component::CurDir => {}
            _ => return Err(PackError::Outside { path: path.to_owned() }),
        }
    }
    Ok(parts.join("/"))
}

/// Text with CRLF and CR read as LF.
pub(crate) fn with_lf(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len());
    for (index, byte) in bytes.iter().enumerate() {
        match byte {
            b'\r' if bytes.get(index + 1) == Some(&b'\n') => {}
            b'\r' => out.push(b'\n'),
            other => out.push(*other),
        }
    }
    out
}

struct Reader<'a> {
    disk: &'a dyn Disk,
    folder: &'a Path,
    files: BTreeMap<String, Vec<u8>>,
    bytes: u64,
}

impl Reader<'_> {
    fn walk(&mut self, dir: &Path, prefix: &str, depth: usize) -> Result<(), PackError> {
        if depth > PACK_DEPTH_MAX {
            return Err(PackError::TooLarge {
                what: format!("deeper than {PACK_DEPTH_MAX} folders"),
            });
        }
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source| PackError::Read { path, source }
        };
        for name in self.disk.list(dir).map_err(failed(dir))? {
            // Editors, version control and PromptFlow leave files and folders that begin with a dot.
            if name.starts_with('.') || name == "__pycache__" {
                continue;
            }
            let path = dir.join(&name);
            let Some(stat) = self.disk.stat(&path).map_err(failed(&path))? else { continue };
            let relative = format!("{prefix}{name}");
            if stat.is_dir {
                self.within(&path)?;
                self.walk(&path, &format!("{relative}/"), depth + 1)?;
            } else {
                self.add(&path, relative)?;
            }
        }
        Ok(())
    }

    fn add(&mut self, path: &Path, name: String) -> Result<(), PackError> {
        if self.files.contains_key(&name) {
            return Ok(());
        }
        // No link is followed any more: one may have taken the place of the file meanwhile.
        let file = self.disk.open(&self.within(path)?, Open::ReadInPlace);
        let read = file.and_then(|file| read_up_to(file.as_ref(), PACK_FILE_BYTES_MAX));
        let bytes = read.map_err(|source| PackError::Read { path: path.to_owned(), source })?;
        self.count(bytes.len() as u64, &name)?;
        self.files.insert(name, bytes);
        Ok(())
    }

    fn count(&mut self, len: u64, path: &str) -> Result<(), PackError> {
        self.bytes = self.bytes.saturating_add(len);
        let what = if len > PACK_FILE_BYTES_MAX {
            format!("{path} has more than {PACK_FILE_BYTES_MAX} bytes")
        } else if self.bytes > PACK_BYTES_MAX {
            format!("more than {PACK_BYTES_MAX} bytes")
        } else if self.files.len() >= PACK_FILES_MAX {
            format!("more than {PACK_FILES_MAX} files")
        } else {
            return Ok(());
        };
        Err(PackError::TooLarge { what })
    }

    /// Where a path leads, which must be in the folder.
    fn within(&self, path: &Path) -> Result<PathBuf, PackError> {
        self.disk.within(self.folder, path).map_err(|source| match source.kind() {
            io::ErrorKind::InvalidInput => PackError::Outside { path: path.display().to_string() },
            _ => PackError::Read { path: path.to_owned(), source },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::os::real::HostDisk;
    use std::fs;

    #[test]
    #[allow(clippy::disallowed_methods, reason = "a test may write its own fixture")]
    fn editor_leftovers_are_skipped_and_links_stay_inside_the_folder() {
        let dir = tempfile::tempdir().unwrap();
        let pack = dir.path().join("pack");
        fs::create_dir_all(pack.join("sub/.git")).unwrap();
        fs::write(pack.join("flow.dag.yaml"), "nodes: []").unwrap();
        fs::write(pack.join("sub/a.jinja2"), "x\r\ny\rz").unwrap();
        fs::write(pack.join(".env"), "SECRET=1").unwrap();
        fs::write(pack.join("sub/.git/HEAD"), "ref").unwrap();
        let files = PackFiles::read(&HostDisk, &pack).unwrap();
        assert_eq!(
            files.iter().map(|f| f.0).collect::<Vec<_>>(),
            ["flow.dag.yaml", "sub/a.jinja2"]
        );
        assert_eq!(files.get("./sub/a.jinja2").unwrap().unwrap(), b"x\r\ny\rz");
        assert!(matches!(files.get("../secret"), Err(PackError::Outside { .. })));
        assert!(matches!(files.get("/etc/passwd"), Err(PackError::Outside { .. })));

        fs::write(dir.path().join("secret"), "s").unwrap();
        std::os::unix::fs::symlink(dir.path().join("secret"), pack.join("link")).unwrap();
        assert!(matches!(PackFiles::read(&HostDisk, &pack), Err(PackError::Outside { .. })));
    }

    #[allow(clippy::disallowed_methods, reason = "a test may write its own fixture")]
    #[test]
    fn a_link_that_takes_the_place_of_a_file_of_a_pack_brings_nothing_in() {
        let dir = tempfile::tempdir().unwrap();
        let pack = dir.path().join("pack");
        fs::create_dir(&pack).unwrap();
        fs::write(dir.path().join("secret"), "outside").unwrap();
        fs::write(pack.join("a"), "inside").unwrap();
        let is_over = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                    std::os::unix::fs::symlink("../secret", dir.path().join("new")).unwrap();
                    fs::rename(dir.path().join("new"), pack.join("a")).unwrap();
                    fs::write(dir.path().join("new"), "inside").unwrap();
                    fs::rename(dir.path().join("new"), pack.join("a")).unwrap();
                }
            });
            for _ in 0..10_000 {
                if let Ok(files) = PackFiles::read(&HostDisk, &pack) {
                    assert_eq!(files.get("a").unwrap(), Some(&b"inside"[..]));
                }
            }
            is_over.store(true, std::sync::atomic::Ordering::Relaxed);
        });
    }

    #[test]
    fn the_hash_is_the_documented_one() {
        let map = [("b".to_owned(), b"x\r\n".to_vec()), ("a".to_owned(), b"y".to_vec())];
        let files = PackFiles::from_map(map.into_iter().collect()).unwrap();
        let mut lines = [format!("{}  a\n", sha256("y")), format!("{}  b\n", sha256("x\n"))];
        lines.sort();
        assert_eq!(files.pack_hash(), sha256(lines.concat()));
    }
}
