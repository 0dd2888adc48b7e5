//! Builds the summary pack of a research run.
//!
//! All results are computed before any file gets its final name, and memory holds one source or one
//! summary at a time. Sources are read, extracted and fitted one by one and spilled to a temporary
//! file. Then summaries give up parts for the total limit. Then each summary, the pack and its
//! sidecar are written under temporary names and synced.
//!
//! Final names are given in this order: all summaries, then a sync of their folder, then the
//! sidecar, then the pack. A crash in between leaves a pack whose sidecar does not match it; the
//! check reports that pack as stale, and the next build repairs it. Files that already have the
//! right bytes are not touched.

use std::collections::BTreeSet;

use serde_json::Number;

use super::agents::AgentTypes;
use super::budget::{self, DoesNotFit, FittedSummary};
use super::citations::{self, CitationPool};
use super::drafts::{NotDrafts, source_path};
use super::extract::{self, Extract, FindingDropReason};
use super::finding::{Code, Findings};
use super::pack::{
    KeyClaim, MetaEntry, NotDraft, Pack, PackEntry, PackLimits, PackMeta, PackSource, SourceKind,
    estimated_tokens, inputs_digest, meta_path, outputs_digest,
};
use super::receipt::{Receipt, ReceiptKind, Verdict};
use super::run::{self, Assigned, ResearchRun};
use super::run_dir::{MARKDOWN_BYTES_MAX, RelPath, RunDir, RunDirError};
use super::spilled::SpilledSummaries;
use super::staged::{LazyList, StagedFile, stage_json, stage_text};
use crate::contract::hash::sha256;
use crate::contract::time::Timestamp;

/// Name of the rules in [`extract`].
pub(crate) const EXTRACTIVE: &str = "extractive.v1";
/// Name of summaries that a model writes, held to the same rules.
pub(crate) const PROVIDER: &str = "provider.v1";

#[derive(Debug, Clone, Copy)]
pub struct SummarizeInput<'a> {
    pub title: &'a str,
    pub markdown: &'a str,
    /// The citation ids that the answer may use: those that the source cites.
    pub citation_cids: &'a [String],
    /// The limit of the summary in bytes.
    pub max_bytes: u64,
}

/// A model that writes a summary with `## Findings`, one bullet for each claim, each with `[@cid]`
/// marks.
pub(crate) type Summarize<'a> = &'a dyn Fn(SummarizeInput<'_>) -> Result<String, String>;

pub struct BuildOptions<'a> {
    /// The agent types that exist.
    pub agent_types: &'a AgentTypes,
    /// Time written into the pack. Without it, `updated_at` of the manifest.
    pub generated_at: Option<Timestamp>,
    /// Checks citations against their schema, and fails when a perspective has no cited claim.
    pub strict: bool,
    /// A model to write the summaries.
    pub summarize: Option<Summarize<'a>>,
    /// Called after each perspective, for progress.
    pub progress: &'a dyn Fn(),
}

/// The result of a build. Without a pack no file was written.
pub struct PackBuild {
    pub findings: Findings,
    pub pack: Option<WrittenPack>,
    /// The receipt for the log of the home.
    pub receipt: Receipt,
}

/// A pack that was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrittenPack {
    pub pack: RelPath,
    pub meta: RelPath,
    pub summaries: usize,
    pub claims: usize,
    /// Findings that are not in them. The sidecar lists each with the reason.
    pub left_out: usize,
    pub bytes: u64,
    pub inputs_digest: String,
    pub outputs_digest: String,
    /// Files that look like drafts and are none, for the audit log of the run.
    pub(crate) not_drafts: Vec<NotDraft>,
}

/// Builds and writes the pack of a run.
pub fn build(dir: &RunDir<'_>, options: &BuildOptions<'_>) -> Result<PackBuild, RunDirError> {
    let mut findings = Findings::default();
    let prepared = prepare(dir, options, &mut findings)?;
    let run_id = prepared.as_ref().map(|prepared| prepared.run.manifest.run_id.clone());
    let mut receipt = Receipt::new(ReceiptKind::PackBuilt, &run_id.unwrap_or_default(), &findings);
    let Some(prepared) = prepared.filter(|_| findings.passes()) else {
        receipt.verdict = Verdict::Fail;
        return Ok(PackBuild { findings, pack: None, receipt });
    };
    let written = write(dir, prepared)?;
    receipt.inputs_digest = Some(written.inputs_digest.clone());
    receipt.outputs_digest = Some(written.outputs_digest.clone());
    Ok(PackBuild { findings, pack: Some(written), receipt })
}

/// A pack before any of its files has its final name.
struct PreparedPack<'a> {
    run: ResearchRun,
    pool: CitationPool,
    sources: Vec<PackSource>,
    kinds: Vec<SourceKind>,
    not_drafts: NotDrafts,
    spilled: SpilledSummaries<'a>,
    /// How many parts each summary gives up for the total limit.
    given: Vec<usize>,
    total: u64,
    algo: &'static str,
    mode: &'static str,
    generated_at: String,
}

impl PreparedPack<'_> {
    fn summary(&self, index: usize) -> Result<FittedSummary, RunDirError> {
        let mut summary = self.spilled.get(index)?;
        summary.give_up(self.given[index]);
        Ok(summary)
    }

    fn summary_path(&self, index: usize) -> RelPath {
        let name = format!("{}.summary.md", self.sources[index].id);
        self.run.manifest.paths.summaries_dir.join(&name)
    }
}

fn prepare<'a>(
    dir: &RunDir<'a>,
    options: &BuildOptions<'_>,
    findings: &mut Findings,
) -> Result<Option<PreparedPack<'a>>, RunDirError> {
    let Some(run) = run::load(dir, options.agent_types, findings)? else { return Ok(None) };
    let pool = citations::read(dir, &run.manifest.paths.citations, options.strict, findings)?;
    if !run.complete || !findings.passes() {
        return Ok(None);
    }
    let not_drafts = NotDrafts::of(dir, &run.manifest, &run.perspectives)?;
    let mut spilled = SpilledSummaries::open(dir, &run.manifest.paths.summaries_dir)?;
    let (mut sources, mut kinds) = (Vec::new(), Vec::new());
    let (mut total, mut claims) = (0, Vec::new());
    for assigned in &run.perspectives {
        let id = &assigned.perspective.id;
        if let Some((source, kind, text)) = read_source(dir, &run, assigned, &not_drafts, findings)?
        {
            let extract = summarize(&text, assigned, &run, &pool, options, findings);
            let extracted = extract.claims.len();
            match FittedSummary::fit(extract, run.manifest.max_summary.bytes()) {
                Ok(summary) => {
                    total += summary.bytes();
                    claims.push((extracted, summary.claims().count()));
                    spilled.put(&summary.into_extract())?;
                }
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
    let mut given = vec![0; sources.len()];
    let limit = run.manifest.max_total.bytes();
    if total > limit {
        let ladders: Result<Vec<_>, _> = (0..spilled.count())
            .map(|index| spilled.get(index).map(FittedSummary::ladder))
            .collect();
        match budget::fit_total(&ladders?, limit) {
            Ok(fitted) => (given, total) = fitted,
            Err(error) => {
                too_small("max_total_summary_kb", "all summaries", error, findings);
                return Ok(None);
            }
        }
    }
    for ((source, (extracted, fitted)), given) in sources.iter().zip(claims).zip(&given) {
        if fitted <= *given {
            without_claims(source, extracted, fitted, options.strict, findings);
        }
    }
    let (algo, mode) = match options.summarize {
        Some(_) => (PROVIDER, "provider"),
        None => (EXTRACTIVE, "extractive"),
    };
    let generated_at = options.generated_at.unwrap_or(run.manifest.updated_at).to_string();
    let prepared = PreparedPack {
        run,
        pool,
        sources,
        kinds,
        not_drafts,
        spilled,
        given,
        total,
        algo,
        mode,
        generated_at,
    };
    Ok(Some(prepared))
}

/// Says why the summary of a source has no claim.
fn without_claims(
    source: &PackSource,
    extracted: usize,
    fitted: usize,
    strict: bool,
    findings: &mut Findings,
) {
    let severity = if strict { Findings::error } else { Findings::warn };
    let (code, message) = match (extracted, fitted) {
        (0, _) => (Code::NoCitedClaims, "no claim with a usable citation".to_owned()),
        (_, 0) => (Code::SizeCapExceeded, no_room(extracted, "max_summary_kb")),
        _ => (Code::SizeCapExceeded, no_room(extracted, "max_total_summary_kb")),
    };
    let message = format!("{} has {message}", source.id);
    severity(findings, code, &source.artifact, String::new(), message);
}

fn no_room(claims: usize, limit: &str) -> String {
    format!("{claims} claims, and {limit} leaves no room for any")
}

fn too_small(limit: &str, what: &str, error: DoesNotFit, findings: &mut Findings) {
    let message = format!(
        "{what} needs at least {} bytes; at most {} are allowed",
        error.needed, error.limit
    );
    let place = format!("$.limits.{limit}");
    findings.error(Code::SizeCapExceeded, super::manifest::FILE, place, message);
}

fn read_source(
    dir: &RunDir<'_>,
    run: &ResearchRun,
    assigned: &Assigned,
    not_drafts: &NotDrafts,
    findings: &mut Findings,
) -> Result<Option<(PackSource, SourceKind, String)>, RunDirError> {
    let (path, kind, passed_over) = source_path(dir, &run.manifest, assigned, not_drafts)?;
    if passed_over {
        let draft = format!("{}/{}.md", run.manifest.paths.summaries_dir, assigned.perspective.id);
        let message = format!("a pack lists it as its own summary; {path} is summarized");
        findings.warn(Code::DraftIsOutput, &draft, "", message);
    }
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
    let source = PackSource {
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
    run: &ResearchRun,
    pool: &CitationPool,
    options: &BuildOptions<'_>,
    findings: &mut Findings,
) -> Extract {
    let plain = extract::extract(text, pool, None);
    let Some(summarize) = options.summarize else { return plain };
    // The model may cite only what the source's own lines cite, with note numbers resolved.
    let mut allowed = extract::cited_anywhere(text, pool);
    allowed.extend(plain.claims.iter().flat_map(|c| c.cited.iter().map(|c| c.cid.clone())));
    let cids: Vec<String> = allowed.iter().cloned().collect();
    let answer = summarize(SummarizeInput {
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
            let message = format!(
                "{id}: the model gave no answer ({reason}); the claims are extracted from the output"
            );
            findings.warn(Code::ModelSummaryRejected, file, "", message);
            return plain;
        }
    };
    if written.refused > 0 {
        let message = format!("{id}: {} citations that the source lacks", written.refused);
        findings.warn(Code::CitationNotInSource, file, "", message);
    }
    if written.claims.is_empty() && !plain.claims.is_empty() {
        let message = format!(
            "{id}: every claim of the answer was refused; the claims are extracted from the output"
        );
        findings.warn(Code::ModelSummaryRejected, file, "", message);
        return plain;
    }
    written
}

fn entry(source: &PackSource, path: &RelPath, summary: &FittedSummary) -> PackEntry {
    let claim = |claim: &extract::CitedClaim| KeyClaim {
        claim: claim.text.clone(),
        citation_cids: claim.cited.iter().map(|cited| cited.cid.clone()).collect(),
        confidence: Number::from(claim.confidence),
    };
    PackEntry {
        perspective_id: source.id.clone(),
        source_artifact: source.artifact.clone(),
        summary_md: path.as_str().to_owned(),
        key_claims: summary.claims().map(claim).collect(),
    }
}

fn write(dir: &RunDir<'_>, prepared: PreparedPack<'_>) -> Result<WrittenPack, RunDirError> {
    let manifest = &prepared.run.manifest;
    let count = prepared.spilled.count();
    let (mut summaries, mut claims, mut left_out) = (Vec::with_capacity(count), 0, 0);
    for index in 0..count {
        let summary = prepared.summary(index)?;
        claims += summary.claims().count();
        let dropped = summary.dropped();
        left_out += dropped.uncited + dropped.empty + dropped.oversize + dropped.duplicate;
        summaries.push(stage_text(dir, &prepared.summary_path(index), &summary.markdown())?);
    }
    let inputs_digest = inputs_digest(prepared.algo, manifest, &prepared.sources, &prepared.pool);
    let listed = summaries.iter().enumerate();
    let listed = listed.map(|(index, one)| (prepared.summary_path(index), one.bytes, one.sha256));
    let outputs_digest = outputs_digest(listed);
    let pack_path = manifest.paths.pack.clone();
    let not_drafts = prepared.not_drafts.listed(manifest, &prepared.run.perspectives);
    let pack = Pack {
        schema_version: "summary_pack.v1".to_owned(),
        run_id: manifest.run_id.clone(),
        generated_at: prepared.generated_at.clone(),
        local_only: manifest.local_only,
        limits: PackLimits::of(manifest),
        summaries: LazyList::new(count, |index| {
            let path = prepared.summary_path(index);
            Ok(entry(&prepared.sources[index], &path, &prepared.summary(index)?))
        }),
        total_estimated_tokens: Number::from(estimated_tokens(prepared.total)),
        not_drafts: not_drafts.clone(),
    };
    let pack = stage_json(dir, &pack_path, &pack)?;
    let meta_path = meta_path(&pack_path).unwrap_or_else(|| pack_path.clone());
    let meta = PackMeta {
        schema_version: "summary_pack_meta.v1",
        mode: prepared.mode,
        generated_at: prepared.generated_at.clone(),
        inputs_digest: inputs_digest.clone(),
        outputs_digest: outputs_digest.clone(),
        pack_sha256: pack.sha256.hex(),
        algo: prepared.algo,
        manifest_revision: manifest.revision,
        not_drafts: not_drafts.clone(),
        entries: LazyList::new(count, |index| {
            let (summary, source) = (prepared.summary(index)?, &prepared.sources[index]);
            Ok(MetaEntry {
                perspective_id: source.id.clone(),
                source_artifact: source.artifact.clone(),
                source_kind: prepared.kinds[index],
                source_sha256: source.sha256.hex(),
                summary_md: prepared.summary_path(index).as_str().to_owned(),
                summary_sha256: summaries[index].sha256.hex(),
                summary_bytes: summaries[index].bytes,
                confidence_basis: summary.claims().map(|claim| claim.basis).collect(),
                dropped: summary.dropped(),
                left_out: summary.left_out(FindingDropReason::TotalLimit),
            })
        }),
    };
    let staged = stage_json(dir, &meta_path, &meta)?;
    drop(meta);
    promote(dir, &manifest.paths.summaries_dir, summaries)?;
    promote(dir, &meta_path, vec![staged])?;
    promote(dir, &pack_path, vec![pack])?;
    Ok(WrittenPack {
        pack: pack_path,
        meta: meta_path,
        summaries: count,
        claims,
        left_out,
        bytes: prepared.total,
        inputs_digest,
        outputs_digest,
        not_drafts,
    })
}

/// Gives files their final names. Each folder is synced once.
fn promote(dir: &RunDir<'_>, path: &RelPath, files: Vec<StagedFile>) -> Result<(), RunDirError> {
    let disk = dir.disk();
    let failed = |source| RunDirError::Write { path: path.as_str().to_owned(), source };
    let mut folders = BTreeSet::new();
    for file in files {
        folders.insert(file.folder().to_path_buf());
        file.promote(disk).map_err(failed)?;
    }
    folders.iter().try_for_each(|folder| disk.sync_dir(folder)).map_err(failed)
}
