//! Which file a perspective is summarized from: the draft of an agent if there is one, else the output of
//! its wave.
//!
//! Contract: a file that a pack lists as its own summary is no draft, and neither is a copy of it. Another
//! tool writes its summaries under the names of drafts, and what it wrote there was never said by an agent.
//! What counts is that the pack names the file: the shape of the pack, the way it writes paths, and a
//! pack that is damaged make no difference. Our pack, its sidecar and the audit log of the run remember such
//! files with their hash, so that no single one of them is needed: once an agent writes another text there,
//! it is a draft.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::Value;

use super::audit;
use super::finding::Findings;
use super::manifest::RunManifest;
use super::pack::{NotDraft, SourceKind, meta_path};
use super::run::{Assigned, read_json};
use super::run_dir::{JSON_BYTES_MAX, MARKDOWN_BYTES_MAX, RelPath, RunDir, RunDirError};
use crate::contract::hash::{Digest, Hasher, sha256};

/// Longest path that is looked for.
const PATH_BYTES_MAX: usize = 4096;
/// Last segments of a path that are looked for in the run.
const PATH_SEGMENTS_MAX: usize = 16;
/// Paths of a pack that are looked for.
const PATHS_MAX: usize = 10_000;

/// The member in which our files list them.
const NOT_DRAFTS: &str = "not_drafts";

/// Files that look like drafts and are summaries of a pack, by path, with the hash of each text that was one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct NotDrafts(BTreeMap<String, BTreeSet<String>>);

impl NotDrafts {
    /// Those of these perspectives that the existing pack, its sidecar and the audit log name.
    pub(super) fn of(
        dir: &RunDir<'_>,
        manifest: &RunManifest,
        perspectives: &[Assigned],
    ) -> Result<NotDrafts, RunDirError> {
        let mut found = NotDrafts::default();
        // A pack that cannot be read is reported elsewhere.
        let mut ignored = Findings::default();
        let meta = meta_path(&manifest.paths.pack);
        let meta = meta.map(|path| read_json(dir, &path, &mut ignored)).transpose()?.flatten();
        let pack = there(dir, &manifest.paths.pack, JSON_BYTES_MAX)?.unwrap_or_default();
        let audit = manifest.paths.logs_dir.join(audit::FILE);
        let audit = there(dir, &audit, JSON_BYTES_MAX)?.unwrap_or_default();
        let lines = audit.split(|byte| *byte == b'\n');
        let kept = lines.chain([pack.as_slice()]).filter(|line| names_not_drafts(line));
        let kept = kept.filter_map(|line| serde_json::from_slice::<Value>(line).ok());
        kept.chain(meta).for_each(|value| found.remember(&value, dir.root()));
        let listed = ListedPaths::of(&pack);
        let (mut paths, mut texts) = (BTreeSet::new(), BTreeSet::new());
        for written in &listed.summaries {
            let Some((path, bytes)) = file_of(dir, manifest, written)? else { continue };
            texts.insert(words(&bytes));
            paths.insert(path.as_str().to_owned());
        }
        // The summary of a short draft may have the same words.
        let mut sources = BTreeSet::new();
        for written in &listed.sources {
            let found = file_of(dir, manifest, written)?;
            sources.extend(found.map(|(path, _)| path.as_str().to_owned()));
        }
        for assigned in perspectives {
            let draft = draft_path(manifest, assigned);
            let Some(bytes) = there(dir, &draft, MARKDOWN_BYTES_MAX)? else { continue };
            let is_copy = !sources.contains(draft.as_str()) && texts.contains(&words(&bytes));
            if is_copy || paths.contains(draft.as_str()) {
                found.add(draft.as_str().to_owned(), sha256(&bytes).hex());
            }
        }
        Ok(found)
    }

    fn add(&mut self, path: String, sha256: String) {
        self.0.entry(path).or_default().insert(sha256);
    }

    /// Those that a file of ours lists.
    fn remember(&mut self, value: &Value, root: &Path) {
        for known in value[NOT_DRAFTS].as_array().into_iter().flatten() {
            if let (Some(path), Some(sha256)) = (known["path"].as_str(), known["sha256"].as_str()) {
                self.add(plain_path(path, root), sha256.to_owned());
            }
        }
    }

    /// Those under the names of drafts of these perspectives, for the sidecar.
    pub(super) fn listed(
        &self,
        manifest: &RunManifest,
        perspectives: &[Assigned],
    ) -> Vec<NotDraft> {
        let names = perspectives.iter().map(|assigned| draft_path(manifest, assigned));
        let listed = names.flat_map(|path| {
            let hashes = self.0.get(path.as_str()).into_iter().flatten();
            let of = |sha256: &String| NotDraft {
                path: path.as_str().to_owned(),
                sha256: sha256.clone(),
            };
            hashes.map(of).collect::<Vec<_>>()
        });
        listed.collect()
    }
}

/// Whether a line may list files that are no drafts: most lines of a log do not.
fn names_not_drafts(line: &[u8]) -> bool {
    line.windows(NOT_DRAFTS.len()).any(|word| word == NOT_DRAFTS.as_bytes())
}

/// A file of the run, when it is there and not too large.
fn there(dir: &RunDir<'_>, path: &RelPath, limit: u64) -> Result<Option<Vec<u8>>, RunDirError> {
    match dir.read(path, limit) {
        Err(RunDirError::TooLarge { .. } | RunDirError::Escapes { .. }) => Ok(None),
        read => read,
    }
}

/// The hash of a text in which white space does not count.
fn words(bytes: &[u8]) -> Digest {
    let text = String::from_utf8_lossy(bytes);
    let mut hasher = Hasher::new();
    for word in text.split_whitespace() {
        hasher.update(word).update(" ");
    }
    hasher.finish()
}

/// The Markdown files that a pack names.
#[derive(Default)]
struct ListedPaths {
    summaries: Vec<String>,
    /// Those that it names as what it was made from.
    sources: Vec<String>,
}

impl ListedPaths {
    fn of(pack: &[u8]) -> ListedPaths {
        let text = String::from_utf8_lossy(pack);
        let mut found = ListedPaths::default();
        match serde_json::from_str(text.trim_start_matches('\u{feff}')) {
            Ok(value) => found.add_all(&value, false),
            // Whatever stands in quotes and ends as a path does.
            Err(_) => {
                let parts: Vec<&str> = text.split('"').collect();
                for (at, part) in parts.iter().enumerate() {
                    let member = match at.checked_sub(2).zip(at.checked_sub(1)) {
                        Some((name, colon)) if parts[colon].trim() == ":" => parts[name],
                        _ => "",
                    };
                    found.add(&part.replace("\\/", "/"), names_sources(member));
                }
            }
        }
        found
    }

    fn add_all(&mut self, value: &Value, is_source: bool) {
        match value {
            Value::String(text) => self.add(text, is_source),
            Value::Array(values) => {
                values.iter().for_each(|value| self.add_all(value, is_source));
            }
            Value::Object(members) => {
                // What our pack remembers of another one, it does not list itself.
                for (name, value) in members.iter().filter(|(name, _)| *name != NOT_DRAFTS) {
                    self.add(name, is_source);
                    self.add_all(value, is_source || names_sources(name));
                }
            }
            _ => {}
        }
    }

    fn add(&mut self, text: &str, is_source: bool) {
        let is_markdown = text.len() > 3 && text.to_lowercase().ends_with(".md");
        if is_markdown && text.len() <= PATH_BYTES_MAX && !text.contains('\n') {
            let list = if is_source { &mut self.sources } else { &mut self.summaries };
            if list.len() < PATHS_MAX {
                list.push(text.to_owned());
            }
        }
    }
}

/// Whether a member of a pack says what a summary was made from.
fn names_sources(member: &str) -> bool {
    let member = member.to_lowercase();
    ["source", "input", "draft", "wave", "from"].iter().any(|word| member.contains(word))
}

/// The file of the run that a pack means. It may have been written where the run lay before, so the
/// longest end of the path that exists counts; a bare name lies beside the pack or among the summaries.
fn file_of(
    dir: &RunDir<'_>,
    manifest: &RunManifest,
    written: &str,
) -> Result<Option<(RelPath, Vec<u8>)>, RunDirError> {
    let decoded = percent_encoding::percent_decode_str(written).decode_utf8_lossy();
    let plain = plain_path(decoded.strip_prefix("file://").unwrap_or(&decoded), dir.root());
    let segments: Vec<&str> = plain.split('/').filter(|segment| *segment != "..").collect();
    let first = segments.len().saturating_sub(PATH_SEGMENTS_MAX);
    let ends = (first..segments.len()).map(|at| segments[at..].join("/"));
    let name = segments.last().copied().unwrap_or_default();
    let beside = manifest.paths.pack.parent().map(|folder| folder.join(name));
    let beside = beside.into_iter().chain([manifest.paths.summaries_dir.join(name)]);
    for path in ends.filter_map(|end| RelPath::parse(&end)).chain(beside) {
        if let Some(bytes) = there(dir, &path, MARKDOWN_BYTES_MAX)? {
            return Ok(Some((path, bytes)));
        }
    }
    Ok(None)
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
        Ok(Some(bytes)) if known.is_some_and(|known| known.contains(&sha256(&bytes).hex())) => {
            wave(true)
        }
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
