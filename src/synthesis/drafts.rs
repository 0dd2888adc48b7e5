//! Which file a perspective is summarized from: the draft of an agent if there is one, else the output of
//! its wave.
//!
//! Contract: a file that a pack lists as its own summary is no draft. Another tool writes its summaries
//! under the names of drafts, and what it wrote there was never said by an agent. The sidecar of our
//! pack remembers such files with their hash: once an agent writes another text there, it is a draft.

use std::collections::BTreeMap;
use std::path::Path;

use super::finding::Findings;
use super::manifest::RunManifest;
use super::pack::{NotDraft, SourceKind, meta_path};
use super::run::{Assigned, read_json};
use super::run_dir::{MARKDOWN_BYTES_MAX, RelPath, RunDir, RunDirError};
use crate::contract::hash::sha256;

/// Files that look like drafts and are summaries of a pack, by path, with their hash.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct NotDrafts(BTreeMap<String, String>);

impl NotDrafts {
    /// Those that the existing pack and its sidecar name.
    pub fn of(dir: &RunDir<'_>, manifest: &RunManifest) -> Result<NotDrafts, RunDirError> {
        let mut found = BTreeMap::new();
        // A pack that cannot be read is reported elsewhere.
        let mut ignored = Findings::default();
        let meta = meta_path(&manifest.paths.pack);
        let meta = meta.map(|path| read_json(dir, &path, &mut ignored)).transpose()?.flatten();
        for known in meta.iter().filter_map(|meta| meta["not_drafts"].as_array()).flatten() {
            if let (Some(path), Some(sha256)) = (known["path"].as_str(), known["sha256"].as_str()) {
                found.insert(plain_path(path, dir.root()), sha256.to_owned());
            }
        }
        let pack = read_json(dir, &manifest.paths.pack, &mut ignored)?;
        for entry in pack.iter().filter_map(|pack| pack["summaries"].as_array()).flatten() {
            let listed = entry["summary_md"].as_str().unwrap_or_default();
            let plain = plain_path(listed, dir.root());
            let Some(path) = RelPath::parse(&plain) else { continue };
            match dir.read(&path, MARKDOWN_BYTES_MAX) {
                Ok(Some(bytes)) => drop(found.insert(plain, sha256(&bytes).hex())),
                Ok(None) | Err(RunDirError::TooLarge { .. } | RunDirError::Escapes { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(NotDrafts(found))
    }

    /// Those under the names of drafts of these perspectives, for the sidecar.
    pub fn listed(&self, manifest: &RunManifest, perspectives: &[Assigned]) -> Vec<NotDraft> {
        let names = perspectives.iter().map(|assigned| draft_path(manifest, assigned));
        let listed = names.filter_map(|path| {
            let sha256 = self.0.get(path.as_str())?.clone();
            Some(NotDraft { path: path.as_str().to_owned(), sha256 })
        });
        listed.collect()
    }
}

/// A path as the names of drafts are written: relative to the run, without empty segments and `.`, with
/// `..` resolved, and with the ending in lower case.
fn plain_path(written: &str, root: &Path) -> String {
    let slashes = written.replace('\\', "/");
    let inside = Path::new(&slashes).strip_prefix(root).ok().and_then(Path::to_str);
    let mut segments: Vec<&str> = Vec::new();
    for segment in inside.unwrap_or(&slashes).split('/') {
        match segment {
            "" | "." => {}
            ".." if !segments.is_empty() => drop(segments.pop()),
            segment => segments.push(segment),
        }
    }
    let path = segments.join("/");
    match path.rsplit_once('.') {
        Some((stem, end)) if !end.contains('/') => format!("{stem}.{}", end.to_lowercase()),
        _ => path,
    }
}

fn draft_path(manifest: &RunManifest, assigned: &Assigned) -> RelPath {
    manifest.paths.summaries_dir.join(&format!("{}.md", assigned.perspective.id))
}

/// The file that a perspective is summarized from, and whether a file was passed over because it is a
/// summary of another pack.
pub(crate) fn source_path(
    dir: &RunDir<'_>,
    manifest: &RunManifest,
    assigned: &Assigned,
    not_drafts: &NotDrafts,
) -> Result<(RelPath, SourceKind, bool), RunDirError> {
    let draft = draft_path(manifest, assigned);
    let wave = |passed_over| Ok((assigned.output.clone(), SourceKind::Wave, passed_over));
    let known = not_drafts.0.get(draft.as_str());
    let limit = if known.is_some() { MARKDOWN_BYTES_MAX } else { 0 };
    // A read with limit 0 tells whether the file exists inside the run directory.
    match dir.read(&draft, limit) {
        Ok(None) => wave(false),
        Ok(Some(bytes)) if known.is_some_and(|known| *known == sha256(&bytes).hex()) => wave(true),
        Ok(Some(_)) | Err(RunDirError::TooLarge { .. }) => Ok((draft, SourceKind::Draft, false)),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_of_a_path_is_one_path() {
        let root = Path::new("/runs/one");
        for written in [
            "summaries/a.md",
            "./summaries/a.md",
            "summaries//a.md",
            "summaries/./a.md",
            "summaries/../summaries/a.md",
            "/runs/one/summaries/a.md",
            "/runs/one//summaries/a.MD",
            "summaries/a.Md",
            "summaries\\a.md",
        ] {
            assert_eq!(plain_path(written, root), "summaries/a.md", "{written}");
        }
        assert_eq!(plain_path("../other/a.md", root), "../other/a.md");
        assert_eq!(plain_path("summaries/A.md", root), "summaries/A.md", "an id has its case");
    }
}
