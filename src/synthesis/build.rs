//! Builds the summary pack of a run.
//!
//! Everything is computed before anything is written: sources are read one at a time, so memory
//! holds the summaries and never the wave outputs. Then, in this order: every summary under a
//! temporary name and synced; all renamed; the directory synced; the sidecar; the pack last. A
//! crash in between leaves a pack whose sidecar does not match, which the check reports as stale;
//! building again repairs it. Files that already hold the right bytes are left alone.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::Number;

use super::budget::{self, DoesNotFit, Summary};
use super::citations::{self, Pool};
use super::extract::{self, Extract};
use super::finding::{Code, Findings};
use super::pack::{
    Entry, KeyClaim, Limits, Meta, MetaEntry, Pack, Source, SourceKind, estimated_tokens,
    inputs_digest, meta_path, outputs_digest,
};
use super::receipt::{Kind, Receipt, Verdict};
use super::run::{self, Assigned, Run};
use super::run_dir::{MARKDOWN_BYTES_MAX, RelPath, RunDir, RunDirError};
use crate::contract::hash::{Digest, sha256};
use crate::contract::json::to_file;
use crate::contract::time::Timestamp;
use crate::os::Open;

/// The rules of [`extract`].
pub const EXTRACTIVE: &str = "extractive.v1";
/// Written by a model, then held to the same rules.
pub const PROVIDER: &str = "provider.v1";

const FILE_MODE: u32 = 0o640;

/// What a model is given to summarize.
#[derive(Debug, Clone, Copy)]
pub struct SummarizeInput<'a> {
    /// The perspective.
    pub perspective_id: &'a str,
    /// Its title.
    pub title: &'a str,
    /// The whole source.
    pub markdown: &'a str,
    /// The citation ids the answer may use: those the source cites itself.
    pub citation_cids: &'a [String],
    /// The limit of the summary in bytes.
    pub max_bytes: u64,
}

/// Writes a summary with `## Findings`, one bullet a claim, each with its `[@cid]` marks.
pub type Summarize<'a> = &'a dyn Fn(SummarizeInput<'_>) -> Result<String, String>;

/// How to build.
pub struct BuildOptions<'a> {
    /// The agent types that exist.
    pub agent_types: &'a [String],
    /// The time written into the pack; the manifest's `updated_at` when absent.
    pub generated_at: Option<Timestamp>,
    /// Hold citations to their schema, and fail when a perspective has no cited claim.
    pub strict: bool,
    /// A model to write the summaries.
    pub summarize: Option<Summarize<'a>>,
    /// Called after each perspective, for progress.
    pub progress: &'a dyn Fn(),
}

/// What came of it. Without a pack nothing was written.
pub struct Built {
    /// Everything found.
    pub findings: Findings,
    /// The pack and its sidecar, when it was built.
    pub pack: Option<(Pack, Meta)>,
    /// For the log of the home.
    pub receipt: Receipt,
}

/// Builds and writes the pack of a run.
pub fn build(dir: &RunDir<'_>, options: &BuildOptions<'_>) -> Result<Built, RunDirError> {
    let mut findings = Findings::default();
    let prepared = prepare(dir, options, &mut findings)?;
    let run_id = prepared.as_ref().map(|prepared| prepared.pack.run_id.clone()).unwrap_or_default();
    let mut receipt = Receipt::new(Kind::PackBuilt, &run_id, &findings);
    let Some(prepared) = prepared.filter(|_| findings.passes()) else {
        receipt.verdict = Verdict::Fail;
        return Ok(Built { findings, pack: None, receipt });
    };
    let (pack, meta) = write(dir, prepared)?;
    receipt.inputs_digest = Some(meta.inputs_digest.clone());
    receipt.outputs_digest = Some(meta.outputs_digest.clone());
    Ok(Built { findings, pack: Some((pack, meta)), receipt })
}

struct Prepared {
    files: Vec<(RelPath, String)>,
    pack_path: RelPath,
    pack: Pack,
    meta: Meta,
}

fn prepare(
    dir: &RunDir<'_>,
    options: &BuildOptions<'_>,
    findings: &mut Findings,
) -> Result<Option<Prepared>, RunDirError> {
    let Some(run) = run::load(dir, options.agent_types, findings)? else { return Ok(None) };
    let pool = citations::read(dir, &run.manifest.paths.citations, options.strict, findings)?;
    if !run.complete || !findings.passes() {
        return Ok(None);
    }
    let mut sources = Vec::with_capacity(run.perspectives.len());
    let mut kinds = Vec::with_capacity(run.perspectives.len());
    let mut summaries = Vec::with_capacity(run.perspectives.len());
    for assigned in &run.perspectives {
        let id = &assigned.perspective.id;
        if let Some((source, kind, text)) = read_source(dir, &run, assigned, findings)? {
            let extract = summarize(&text, assigned, &run, &pool, options, findings);
            match Summary::fit(extract, run.manifest.max_summary.bytes()) {
                Ok(summary) => summaries.push(summary),
                Err(error) => too_small("max_summary_kb", id, error, findings),
            }
            sources.push(source);
            kinds.push(kind);
        }
        (options.progress)();
    }
    if !findings.passes() {
        return Ok(None);
    }
    let total = match budget::fit_total(&mut summaries, run.manifest.max_total.bytes()) {
        Ok(total) => total,
        Err(error) => {
            too_small("max_total_summary_kb", "all summaries", error, findings);
            return Ok(None);
        }
    };
    for (source, summary) in sources.iter().zip(&summaries) {
        if summary.claims().next().is_none() {
            let severity = if options.strict { Findings::error } else { Findings::warn };
            let message = format!("{} has no claim with a usable citation", source.id);
            severity(findings, Code::NoCitedClaims, &source.artifact, String::new(), message);
        }
    }
    Ok(assemble(&run, &pool, options, sources, kinds, &summaries, total))
}

fn too_small(limit: &str, what: &str, error: DoesNotFit, findings: &mut Findings) {
    let message = format!("{what}: at least {} bytes, allowed are {}", error.needed, error.limit);
    let place = format!("$.limits.{limit}");
    findings.error(Code::SizeCapExceeded, super::manifest::FILE, place, message);
}

/// Which file a perspective is summarized from: a draft when there is one, else its output.
pub fn source_path(
    dir: &RunDir<'_>,
    run: &Run,
    assigned: &Assigned,
) -> Result<(RelPath, SourceKind), RunDirError> {
    let draft = run.manifest.paths.summaries_dir.join(&format!("{}.md", assigned.perspective.id));
    // Reading nothing still tells whether the file is there and inside the run.
    match dir.read(&draft, 0) {
        Ok(None) => Ok((assigned.output.clone(), SourceKind::Wave)),
        Ok(Some(_)) | Err(RunDirError::TooLarge { .. }) => Ok((draft, SourceKind::Draft)),
        Err(error) => Err(error),
    }
}

fn read_source(
    dir: &RunDir<'_>,
    run: &Run,
    assigned: &Assigned,
    findings: &mut Findings,
) -> Result<Option<(Source, SourceKind, String)>, RunDirError> {
    let (path, kind) = source_path(dir, run, assigned)?;
    let bytes = match dir.read(&path, MARKDOWN_BYTES_MAX) {
        Ok(Some(bytes)) => bytes,
        Ok(None) => {
            let message = format!("the output of {} is missing", assigned.perspective.id);
            findings.error(Code::OutputNotFound, path.as_str(), "", message);
            return Ok(None);
        }
        Err(error @ RunDirError::TooLarge { .. }) => {
            findings.error(Code::FileTooLarge, path.as_str(), "", error.to_string());
            return Ok(None);
        }
        Err(error @ RunDirError::Escapes { .. }) => {
            findings.error(Code::PathTraversal, path.as_str(), "", error.to_string());
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    if kind == SourceKind::Draft {
        let message = format!("summarized instead of {}", assigned.output);
        findings.warn(Code::DraftPreferred, path.as_str(), "", message);
    }
    let source = Source {
        id: assigned.perspective.id.clone(),
        artifact: path.as_str().to_owned(),
        sha256: sha256(&bytes),
    };
    match String::from_utf8(bytes) {
        Ok(text) => Ok(Some((source, kind, text))),
        Err(_) => {
            findings.error(Code::NotUtf8, path.as_str(), "", "not UTF-8");
            Ok(None)
        }
    }
}

fn summarize(
    text: &str,
    assigned: &Assigned,
    run: &Run,
    pool: &Pool,
    options: &BuildOptions<'_>,
    findings: &mut Findings,
) -> Extract {
    let plain = extract::extract(text, pool, None);
    let Some(summarize) = options.summarize else { return plain };
    // The model may cite what the source's own lines cite, notes resolved, and nothing else.
    let mut allowed = extract::cited_anywhere(text, pool);
    allowed.extend(plain.claims.iter().flat_map(|c| c.cited.iter().map(|c| c.cid.clone())));
    let cids: Vec<String> = allowed.iter().cloned().collect();
    let answer = summarize(SummarizeInput {
        perspective_id: &assigned.perspective.id,
        title: &assigned.perspective.title,
        markdown: text,
        citation_cids: &cids,
        max_bytes: run.manifest.max_summary.bytes(),
    });
    let file = assigned.output.as_str();
    let id = &assigned.perspective.id;
    let written = match answer {
        Ok(answer) => extract::extract(&answer, pool, Some(&allowed)),
        Err(reason) => {
            let message = format!("{id}: no answer ({reason}); extracted instead");
            findings.warn(Code::ModelSummaryRejected, file, "", message);
            return plain;
        }
    };
    if written.refused > 0 {
        let message = format!("{id}: {} citations that the source lacks", written.refused);
        findings.warn(Code::CitationNotInSource, file, "", message);
    }
    if written.claims.is_empty() && !plain.claims.is_empty() {
        let message = format!("{id}: the answer has no claim that may stay; extracted instead");
        findings.warn(Code::ModelSummaryRejected, file, "", message);
        return plain;
    }
    written
}

fn assemble(
    run: &Run,
    pool: &Pool,
    options: &BuildOptions<'_>,
    sources: Vec<Source>,
    kinds: Vec<SourceKind>,
    summaries: &[Summary],
    total: u64,
) -> Option<Prepared> {
    let manifest = &run.manifest;
    let (algo, mode) = match options.summarize {
        Some(_) => (PROVIDER, "provider"),
        None => (EXTRACTIVE, "extractive"),
    };
    let generated_at = options.generated_at.unwrap_or(manifest.updated_at).to_string();
    let inputs = inputs_digest(algo, manifest, &sources, pool);
    let (mut files, mut entries, mut meta_entries) = (Vec::new(), Vec::new(), Vec::new());
    for ((source, kind), summary) in sources.into_iter().zip(kinds).zip(summaries) {
        let path = manifest.paths.summaries_dir.join(&format!("{}.summary.md", source.id));
        let text = summary.markdown();
        meta_entries.push(MetaEntry {
            perspective_id: source.id.clone(),
            source_artifact: source.artifact.clone(),
            source_kind: kind,
            source_sha256: source.sha256.hex(),
            summary_md: path.as_str().to_owned(),
            summary_sha256: sha256(&text).hex(),
            summary_bytes: text.len() as u64,
            confidence_basis: summary.claims().map(|claim| claim.basis).collect(),
            dropped: summary.dropped(),
        });
        entries.push(entry(source, &path, summary));
        files.push((path, text));
    }
    let hashed: Vec<(&str, u64, Digest)> =
        files.iter().map(|(path, text)| (path.as_str(), text.len() as u64, sha256(text))).collect();
    let meta = Meta {
        schema_version: "summary_pack_meta.v1",
        mode,
        generated_at: generated_at.clone(),
        inputs_digest: inputs,
        outputs_digest: outputs_digest(hashed.into_iter()),
        pack_sha256: String::new(),
        algo,
        manifest_revision: manifest.revision,
        entries: meta_entries,
    };
    let pack = Pack {
        schema_version: "summary_pack.v1".to_owned(),
        run_id: manifest.run_id.clone(),
        generated_at,
        limits: Limits::of(manifest),
        summaries: entries,
        total_estimated_tokens: Number::from(estimated_tokens(total)),
    };
    Some(Prepared { files, pack_path: manifest.paths.pack.clone(), pack, meta })
}

fn entry(source: Source, path: &RelPath, summary: &Summary) -> Entry {
    let claim = |claim: &extract::Claim| KeyClaim {
        claim: claim.text.clone(),
        citation_cids: claim.cited.iter().map(|cited| cited.cid.clone()).collect(),
        confidence: Number::from(claim.confidence),
    };
    Entry {
        perspective_id: source.id,
        source_artifact: source.artifact,
        summary_md: path.as_str().to_owned(),
        key_claims: summary.claims().map(claim).collect(),
    }
}

fn write(dir: &RunDir<'_>, prepared: Prepared) -> Result<(Pack, Meta), RunDirError> {
    let Prepared { files, pack_path, pack, mut meta } = prepared;
    let unwritable =
        |path: &RelPath, source| RunDirError::Write { path: path.as_str().to_owned(), source };
    let as_file = |path: &RelPath, text: serde_json::Result<String>| {
        text.map_err(|error| unwritable(path, error.into()))
    };
    let pack_text = as_file(&pack_path, to_file(&pack))?;
    meta.pack_sha256 = sha256(&pack_text).hex();
    let meta_path = meta_path(&pack_path).unwrap_or_else(|| pack_path.clone());
    let meta_text = as_file(&meta_path, to_file(&meta))?;
    write_summaries(dir, &files)?;
    for (path, text) in [(&meta_path, meta_text), (&pack_path, pack_text)] {
        if dir.read(path, text.len() as u64).ok().flatten().as_deref() != Some(text.as_bytes()) {
            dir.write(path, text.as_bytes())?;
        }
    }
    Ok((pack, meta))
}

/// Stages all, then renames all: one sync of each directory instead of one for each file.
fn write_summaries(dir: &RunDir<'_>, files: &[(RelPath, String)]) -> Result<(), RunDirError> {
    let disk = dir.disk();
    let mut parents: BTreeMap<PathBuf, RelPath> = BTreeMap::new();
    let mut staged: Vec<(PathBuf, PathBuf, &RelPath)> = Vec::new();
    for (path, text) in files {
        let same = dir.read(path, text.len() as u64).ok().flatten();
        if same.as_deref() == Some(text.as_bytes()) {
            continue;
        }
        let place = dir.place(path)?;
        let name = place.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let temporary = place.with_file_name(format!(".{name}.tmp"));
        let stage = || {
            disk.remove_file(&temporary)?;
            let file = disk.open(&temporary, Open::CreateNew(FILE_MODE))?;
            file.write_all_at(text.as_bytes(), 0)?;
            file.sync()
        };
        stage().map_err(|source| RunDirError::Write { path: path.as_str().to_owned(), source })?;
        if let Some(parent) = place.parent() {
            parents.insert(parent.to_path_buf(), path.clone());
        }
        staged.push((temporary, place, path));
    }
    for (temporary, place, path) in staged {
        disk.rename(&temporary, &place)
            .map_err(|source| RunDirError::Write { path: path.as_str().to_owned(), source })?;
    }
    for (parent, path) in parents {
        disk.sync_dir(&parent)
            .map_err(|source| RunDirError::Write { path: path.as_str().to_owned(), source })?;
    }
    Ok(())
}
