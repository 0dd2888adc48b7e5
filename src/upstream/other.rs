//! The bus `other`: plain files under `other/` in the bus home, named by relative path. They have
//! no manifests; what was read is recorded by its hash.

use std::io::ErrorKind;
use std::path::{Component, Path, PathBuf};

use serde_json::{Value, json};

use super::defect::Defect;
use crate::contract::hash::{Digest, sha256};
use crate::contract::vocabulary::{ErrorClass, ReasonCode};
use crate::facts::failure::ErrorDetails;
use crate::markup::document::{self, Document};
use crate::os::Disk;

/// The folder, relative to the bus home.
pub const OTHER_DIR: &str = "other";
/// Largest file that is read.
pub const OTHER_BYTES_MAX: u64 = 64 << 20;

/// One file as it was read.
pub struct OtherFile {
    /// Path relative to the bus home, `other/…`.
    pub path: String,
    /// Length in bytes.
    pub bytes: u64,
    /// Hash of its bytes.
    pub sha256: Digest,
    pub document: Document,
}

impl OtherFile {
    /// What the file says beside its text, under the names of an event's members.
    pub fn facts(&self) -> Value {
        let Document { title, date, labels, from, to, message_id, .. } = &self.document;
        json!({
            "title": title, "date": date, "labels": labels, "from": from, "to": to,
            "message_id": message_id,
        })
    }
}

/// Reads one file by its id, the path relative to `other/`.
pub fn read(disk: &dyn Disk, root: &Path, id: &str) -> Result<OtherFile, Defect> {
    let dir = root.join(OTHER_DIR);
    let relative = format!("{OTHER_DIR}/{id}");
    let path = inside(disk, std::slice::from_ref(&dir), &dir.join(plain(id)?))?
        .ok_or_else(|| absent(&relative))?;
    let storage = |error| Defect::storage("read", &relative, &error);
    let stat = disk.stat(&path).map_err(storage)?.ok_or_else(|| absent(&relative))?;
    if stat.is_dir {
        return Err(absent(&relative));
    }
    if stat.len > OTHER_BYTES_MAX {
        return Err(unreadable(&relative, format!("{} bytes are too many", stat.len)));
    }
    let bytes = disk.read(&path).map_err(storage)?;
    let document = document::read(id, &bytes).map_err(|why| unreadable(&relative, why))?;
    let (length, sha256) = (bytes.len() as u64, sha256(&bytes));
    Ok(OtherFile { path: relative, bytes: length, sha256, document })
}

/// A relative path without any way out.
fn plain(id: &str) -> Result<PathBuf, Defect> {
    let path = Path::new(id);
    let plain = path.components().all(|part| matches!(part, Component::Normal(_)));
    if plain && !id.is_empty() { Ok(path.to_owned()) } else { Err(outside(id)) }
}

/// The path with links resolved, made sure to lie in one of the roots; `None` when absent.
pub(super) fn inside(
    disk: &dyn Disk,
    roots: &[PathBuf],
    path: &Path,
) -> Result<Option<PathBuf>, Defect> {
    let shown = path.display().to_string();
    let real = match disk.real_path(path) {
        Ok(real) => real,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Defect::storage("resolve", &shown, &error)),
    };
    let within = roots
        .iter()
        .filter_map(|root| disk.real_path(root).ok())
        .any(|root| real.starts_with(root));
    if within { Ok(Some(real)) } else { Err(outside(&shown)) }
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

fn absent(path: &str) -> Defect {
    Defect::missing("UNKNOWN_SOURCE_ID", "file", path, path, ReasonCode::UnknownSourceId)
}

fn unreadable(path: &str, why: String) -> Defect {
    Defect::schema("UNSUPPORTED_FORMAT", "other", None, &[], why, path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::os::real::HostDisk;

    fn home(files: &[(&str, &[u8])]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        let disk: &dyn Disk = &HostDisk;
        for (name, bytes) in files {
            let path = dir.path().join(name);
            disk.create_dir_all(path.parent().unwrap()).unwrap();
            disk.replace(&path, bytes, 0o640).unwrap();
        }
        dir
    }

    #[test]
    fn each_kind_of_file_gives_its_text() {
        let home = home(&[
            ("other/a.txt", b"plain"),
            ("other/sub/b.md", b"# Title\n\nBody"),
            ("other/c.html", b"<html><head><title>T &amp; t</title><style>x{}</style></head><body><p>One</p><script>bad()</script><p>Two</p></body></html>"),
            ("other/d.eml", b"From: a@example.org\r\nTo: b@example.org\r\nSubject: =?utf-8?q?Caf=C3=A9?=\r\nDate: Wed, 11 Feb 2026 10:00:00 +0000\r\n\r\nHello there\r\n"),
        ]);
        let read = |id| read(&HostDisk, home.path(), id).unwrap();
        assert_eq!(read("a.txt").document.text, "plain");
        let markdown = read("sub/b.md");
        assert_eq!(
            (markdown.path.as_str(), markdown.document.title.as_deref()),
            ("other/sub/b.md", Some("Title"))
        );
        let html = read("c.html");
        assert!(html.document.text == "One\n\nTwo", "{:?}", html.document.text);
        assert_eq!(html.document.title.as_deref(), Some("T & t"));
        let mail = read("d.eml");
        assert_eq!(mail.document.title.as_deref(), Some("Caf\u{e9}"));
        assert!(
            mail.document.text.contains("From: a@example.org")
                && mail.document.text.contains("Hello there"),
            "{}",
            mail.document.text
        );
    }

    #[test]
    fn files_may_say_that_they_are_private() {
        let home = home(&[
            ("other/a.md", b"---\ntitle: A\npublish: false\n---\n# A\n"),
            ("other/b.md", b"publish: false\n"),
            ("other/c.json", br#"{"publish": true, "text": "x"}"#),
            ("other/d.jsonl", b"{\"publish\": true}\n{\"publish\": \"no\"}\n"),
            ("other/e.txt", b"publish: false"),
        ]);
        let says = |id| read(&HostDisk, home.path(), id).unwrap().document.publish;
        let all = ["a.md", "b.md", "c.json", "d.jsonl", "e.txt"].map(says);
        assert_eq!(all, [Some(false), None, Some(true), Some(false), None]);
    }

    #[test]
    fn nothing_leads_outside() {
        let home = home(&[("other/a.txt", b"in"), ("secret.txt", b"out")]);
        std::os::unix::fs::symlink("../secret.txt", home.path().join("other/link.txt")).unwrap();
        for id in ["../secret.txt", "/etc/passwd", "", "a/../../secret.txt", "link.txt"] {
            let Err(defect) = read(&HostDisk, home.path(), id) else { panic!("{id} was read") };
            assert_eq!(defect.reason, ReasonCode::PathOutsideBusHome, "{id}");
        }
        for id in ["nope.txt", "a.txt/b.txt"] {
            assert!(read(&HostDisk, home.path(), id).is_err(), "{id}");
        }
    }
}
