//! Gate D: checks that a pack is within its limits, complete, and matches its inputs.
//!
//! Besides the three metrics of the gate and their thresholds: only distinct known perspectives of
//! both waves count; missing perspectives fail; summaries contain no address and no citation
//! outside the usable pool; the pack's limits are those of the manifest; the pack matches its
//! sidecar, its summaries and its inputs. With `compat` the gate gives the verdict of the original
//! tool instead.
//!
//! See docs/adr/0028-when-a-summary-pack-is-valid.md.

use std::collections::BTreeSet;

use serde::Deserialize as _;
use serde_json::{Value, json};

use super::agents::AgentTypes;
use super::build::EXTRACTIVE;
use super::citations::{self, CitationPool};
use super::compat;
use super::drafts::{NotDrafts, source_path};
use super::finding::{Code, Findings};
use super::gate_report::{CheckedFile, GateReport, kb, six_decimals};
use super::inline::cid_mentions;
use super::pack::{
    Pack, PackEntry, PackLimits, PackSource, inputs_digest, meta_path, outputs_digest,
};
use super::raw_url;
use super::receipt::{Receipt, ReceiptKind, Verdict};
use super::run::{self, ResearchRun, read_json};
use super::run_dir::{JSON_BYTES_MAX, MARKDOWN_BYTES_MAX, RelPath, RunDir, RunDirError};
use crate::contract::hash::{Digest, sha256};
use crate::contract::json::jcs_hash;

/// The share of perspectives that must be summarized.
pub(crate) const COUNT_RATIO_MIN: f64 = 0.9;

pub struct CheckOptions<'a> {
    /// The agent types that exist.
    pub agent_types: &'a AgentTypes,
    /// Gives the verdict of the original tool.
    pub compat: bool,
    /// Checks citations against their schema, and fails when a perspective has no cited claim.
    pub strict: bool,
}

/// The result of a check. Without a report there was too little to judge.
pub struct GateCheck {
    pub findings: Findings,
    pub report: Option<GateReport>,
    /// The receipt for the log of the home.
    pub receipt: Receipt,
}

/// Checks the pack of a run. It reads only; [`write_report`](super::gate_report::write_report)
/// writes.
pub fn check(dir: &RunDir<'_>, options: &CheckOptions<'_>) -> Result<GateCheck, RunDirError> {
    let mut findings = Findings::default();
    let report = if options.compat {
        compat::check(dir, &mut findings)?
    } else {
        check_strict(dir, options, &mut findings)?
    };
    let run_id = report.as_ref().map(|report| report.run_id.as_str()).unwrap_or_default();
    let mut receipt = Receipt::new(ReceiptKind::PackChecked, run_id, &findings);
    receipt.verdict = report.as_ref().map_or(Verdict::Fail, |report| report.status);
    receipt.inputs_digest = report.as_ref().map(|report| report.inputs_digest.clone());
    Ok(GateCheck { findings, report, receipt })
}

#[derive(Default)]
struct GateTally {
    files: Vec<CheckedFile>,
    hashed: Vec<(String, u64, Digest)>,
    counted: BTreeSet<String>,
    unknown_cids: u64,
    raw_urls: u64,
}

fn check_strict(
    dir: &RunDir<'_>,
    options: &CheckOptions<'_>,
    findings: &mut Findings,
) -> Result<Option<GateReport>, RunDirError> {
    let Some(run) = run::load(dir, options.agent_types, findings)? else { return Ok(None) };
    let manifest = &run.manifest;
    let pack_path = manifest.paths.pack.clone();
    let pool = citations::read(dir, &manifest.paths.citations, options.strict, findings)?;
    let Some(pack_bytes) = dir.read(&pack_path, JSON_BYTES_MAX)? else {
        findings.error(Code::NotFound, pack_path.as_str(), "", "the run has no pack");
        return Ok(None);
    };
    let value: Value = match serde_json::from_slice(&pack_bytes) {
        Ok(value) => value,
        Err(error) => {
            findings.error(Code::InvalidJson, pack_path.as_str(), "", error.to_string());
            return Ok(None);
        }
    };
    let broken = findings.errors();
    findings.schema("summary_pack.v1", &value, pack_path.as_str());
    let pack = Pack::deserialize(&value).ok().filter(|_| findings.errors() == broken);
    let mut tally = GateTally::default();
    if let Some(pack) = &pack {
        against_run(pack, &run, pack_path.as_str(), findings);
        for (index, entry) in pack.summaries.iter().enumerate() {
            check_entry(dir, &run, &pool, options.strict, entry, index, &mut tally, findings)?;
        }
        sidecar(dir, &run, &pool, pack, &pack_bytes, &tally, findings)?;
    }
    let orphans = orphans(dir, &run, pack.as_ref(), findings)?;
    gate_c(dir, &run, findings)?;
    Ok(Some(judge(&run, &pack_path, &pack_bytes, tally, orphans, findings)))
}

fn against_run(pack: &Pack, run: &ResearchRun, file: &str, findings: &mut Findings) {
    if pack.run_id != run.manifest.run_id {
        let message =
            format!("has the run_id {:?}, the manifest has {:?}", pack.run_id, run.manifest.run_id);
        findings.error(Code::RunIdMismatch, file, "$.run_id", message);
    }
    if !pack.limits.are_those_of(&run.manifest) {
        let message = "the limits differ from the manifest; build the pack again";
        findings.error(Code::LimitsMismatch, file, "$.limits", message);
    }
}

#[allow(clippy::too_many_arguments, reason = "one step of the check, with all it is held against")]
fn check_entry(
    dir: &RunDir<'_>,
    run: &ResearchRun,
    pool: &CitationPool,
    strict: bool,
    entry: &PackEntry,
    index: usize,
    tally: &mut GateTally,
    findings: &mut Findings,
) -> Result<(), RunDirError> {
    let file = run.manifest.paths.pack.as_str();
    let place = |key: &str| format!("$.summaries[{index}].{key}");
    let id = &entry.perspective_id;
    let known = run.perspectives.iter().any(|assigned| assigned.perspective.id == *id);
    if !known {
        let message = format!("{id} is not a perspective of this run");
        findings.error(Code::UnknownPerspective, file, place("perspective_id"), message);
    }
    let first = tally.counted.insert(id.to_ascii_lowercase());
    if !first {
        let message = format!("{id} is listed twice, ignoring letter case");
        findings.error(Code::DuplicatePerspectiveId, file, place("perspective_id"), message);
    }
    if RelPath::parse(&entry.source_artifact).is_none() {
        let message = "must be a plain path inside the run directory";
        findings.error(Code::PathTraversal, file, place("source_artifact"), message);
    }
    if entry.key_claims.is_empty() {
        let add = if strict { Findings::error } else { Findings::warn };
        let message = format!("{id} has no claim with a usable citation");
        add(findings, Code::NoCitedClaims, file, place("key_claims"), message);
    }
    for (number, claim) in entry.key_claims.iter().enumerate() {
        let place = place(&format!("key_claims[{number}]"));
        let mut cids = claim.citation_cids.iter().map(String::as_str);
        tally.unknown_cids += unknown(&mut cids, pool, file, &place, findings);
        tally.raw_urls += addresses(&claim.claim, file, &place, findings);
        if claim.citation_cids.is_empty() {
            let message = "a claim without a citation";
            findings.error(Code::NoCitedClaims, file, place, message);
        }
    }
    let Some(bytes) = summary_bytes(dir, entry, file, &place("summary_md"), findings)? else {
        tally.counted.remove(&id.to_ascii_lowercase());
        return Ok(());
    };
    if !known {
        tally.counted.remove(&id.to_ascii_lowercase());
    }
    let digest = sha256(&bytes);
    let size = bytes.len() as u64;
    if !run.manifest.max_summary.holds(size) {
        let most = run.manifest.max_summary.bytes();
        let message = format!("it has {size} bytes; at most {most} are allowed");
        findings.error(Code::SizeCapExceeded, &entry.summary_md, "", message);
    }
    match std::str::from_utf8(&bytes) {
        Ok(text) => {
            let mentions = cid_mentions(text).into_iter().collect::<BTreeSet<_>>();
            let mut cids = mentions.into_iter();
            tally.unknown_cids += unknown(&mut cids, pool, &entry.summary_md, "", findings);
            tally.raw_urls += addresses(text, &entry.summary_md, "", findings);
        }
        Err(_) => findings.error(Code::NotUtf8, &entry.summary_md, "", "not UTF-8"),
    }
    tally.files.push(CheckedFile {
        perspective_id: id.clone(),
        summary_md: entry.summary_md.clone(),
        bytes: size,
        sha256: digest.hex(),
    });
    tally.hashed.push((entry.summary_md.clone(), size, digest));
    Ok(())
}

fn summary_bytes(
    dir: &RunDir<'_>,
    entry: &PackEntry,
    file: &str,
    place: &str,
    findings: &mut Findings,
) -> Result<Option<Vec<u8>>, RunDirError> {
    let Some(path) = RelPath::parse(&entry.summary_md) else {
        let message = "must be a plain path inside the run directory";
        findings.error(Code::PathTraversal, file, place, message);
        return Ok(None);
    };
    match dir.read(&path, MARKDOWN_BYTES_MAX) {
        Ok(Some(bytes)) => return Ok(Some(bytes)),
        Ok(None) => {
            let message = format!("the summary of {} is missing", entry.perspective_id);
            findings.error(Code::MissingSummary, path.as_str(), "", message);
        }
        Err(error @ RunDirError::Escapes { .. }) => {
            findings.error(Code::PathTraversal, path.as_str(), "", error.to_string());
        }
        Err(error @ RunDirError::TooLarge { .. }) => {
            findings.error(Code::SizeCapExceeded, path.as_str(), "", error.to_string());
        }
        Err(error) => return Err(error),
    }
    Ok(None)
}

fn unknown(
    cids: &mut dyn Iterator<Item = &str>,
    pool: &CitationPool,
    file: &str,
    place: &str,
    findings: &mut Findings,
) -> u64 {
    let mut count = 0;
    for cid in cids {
        match pool.status(cid) {
            Some(status) if status.is_usable() => continue,
            Some(status) => {
                let message = format!("{cid} is {}", status.as_str());
                findings.error(Code::CitationNotUsable, file, place, message);
            }
            None => {
                let message = format!("{cid} is not in the pool");
                findings.error(Code::UnknownCid, file, place, message);
            }
        }
        count += 1;
    }
    count
}

fn addresses(text: &str, file: &str, place: &str, findings: &mut Findings) -> u64 {
    let count = raw_url::count(text) as u64;
    if count > 0 {
        let message = format!("the text has {count} addresses; only citation ids are allowed here");
        findings.error(Code::RawUrlNotAllowed, file, place, message);
    }
    count
}

/// Checks the sidecar against the pack, the summaries and the current inputs.
fn sidecar(
    dir: &RunDir<'_>,
    run: &ResearchRun,
    pool: &CitationPool,
    pack: &Pack,
    pack_bytes: &[u8],
    tally: &GateTally,
    findings: &mut Findings,
) -> Result<(), RunDirError> {
    let pack_file = run.manifest.paths.pack.as_str();
    let Some(path) = meta_path(&run.manifest.paths.pack) else { return Ok(()) };
    let before = findings.errors();
    let Some(meta) = read_json(dir, &path, findings)? else {
        if findings.errors() == before {
            let message = "there is no sidecar that lists the sources of the pack";
            findings.error(Code::StalePack, path.as_str(), "", message);
        }
        return Ok(());
    };
    findings.schema("summary_pack_meta.v1", &meta, path.as_str());
    let mut stale = |key: &str, expected: &str, message: &str| {
        if meta[key].as_str() != Some(expected) {
            let place = format!("$.{key}");
            findings.error(Code::StalePack, path.as_str(), place, message);
        }
    };
    stale("pack_sha256", &sha256(pack_bytes).hex(), "the pack is not the one it describes");
    let hashed = tally.hashed.iter().map(|(path, bytes, sha)| (path.as_str(), *bytes, *sha));
    stale("outputs_digest", &outputs_digest(hashed), "the summaries are not those it describes");
    let algo = meta["algo"].as_str().unwrap_or(EXTRACTIVE);
    match current_inputs(dir, run, pool, algo)? {
        Some(now) => stale("inputs_digest", &now, "outputs, citations or limits changed since"),
        None => {
            let message = "an output it was made from is gone";
            findings.error(Code::StalePack, pack_file, "$.summaries", message);
        }
    }
    debug_assert!(pack.schema_version == "summary_pack.v1");
    Ok(())
}

fn current_inputs(
    dir: &RunDir<'_>,
    run: &ResearchRun,
    pool: &CitationPool,
    algo: &str,
) -> Result<Option<String>, RunDirError> {
    let mut sources = Vec::with_capacity(run.perspectives.len());
    let not_drafts = NotDrafts::of(dir, &run.manifest, &run.perspectives)?;
    for assigned in &run.perspectives {
        let read = source_path(dir, &run.manifest, assigned, &not_drafts)
            .and_then(|(path, ..)| Ok(dir.read(&path, MARKDOWN_BYTES_MAX)?.map(|b| (path, b))));
        let (path, bytes) = match read {
            Ok(Some(found)) => found,
            Ok(None) | Err(RunDirError::Escapes { .. } | RunDirError::TooLarge { .. }) => {
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        sources.push(PackSource {
            id: assigned.perspective.id.clone(),
            artifact: path.as_str().to_owned(),
            sha256: sha256(&bytes),
        });
    }
    Ok(Some(inputs_digest(algo, &run.manifest, &sources, pool)))
}

fn orphans(
    dir: &RunDir<'_>,
    run: &ResearchRun,
    pack: Option<&Pack>,
    findings: &mut Findings,
) -> Result<u64, RunDirError> {
    let summaries = &run.manifest.paths.summaries_dir;
    let listed: BTreeSet<&str> = pack
        .map(|pack| pack.summaries.iter().map(|entry| entry.summary_md.as_str()).collect())
        .unwrap_or_default();
    let mut count = 0;
    for name in dir.list(summaries)? {
        let path = format!("{summaries}/{name}");
        if name.ends_with(".summary.md") && !listed.contains(path.as_str()) {
            findings.warn(Code::OrphanSummary, &path, "", "no entry of the pack names it");
            count += 1;
        }
    }
    Ok(count)
}

fn gate_c(dir: &RunDir<'_>, run: &ResearchRun, findings: &mut Findings) -> Result<(), RunDirError> {
    let path = &run.manifest.paths.gates;
    // Faults in the gates file are reported by the program that writes it.
    let mut ignored = Findings::default();
    let status = read_json(dir, path, &mut ignored)?
        .and_then(|gates| Some(gates.pointer("/gates/C/status")?.as_str()?.to_owned()));
    if let Some(status) = status.filter(|status| status != "pass") {
        let message = format!("the citations of this run have not passed: {status}");
        findings.warn(Code::GateCNotPass, path.as_str(), "$.gates.C.status", message);
    }
    Ok(())
}

fn judge(
    run: &ResearchRun,
    pack_path: &RelPath,
    pack_bytes: &[u8],
    tally: GateTally,
    orphans: u64,
    findings: &mut Findings,
) -> GateReport {
    let manifest = &run.manifest;
    let expected = run.perspectives.len();
    let total: u64 = tally.files.iter().map(|file| file.bytes).sum();
    let largest = tally.files.iter().map(|file| file.bytes).max().unwrap_or(0);
    let count = tally.counted.len();
    let ratio = if expected == 0 { 0.0 } else { count as f64 / expected as f64 };
    if ratio < COUNT_RATIO_MIN {
        let message = format!("{count} of {expected} perspectives are summarized");
        findings.error(Code::SummaryCountTooLow, pack_path.as_str(), "$.summaries", message);
    }
    if !manifest.max_total.holds(total) {
        let message = format!(
            "all summaries have {total} bytes; at most {} are allowed",
            manifest.max_total.bytes()
        );
        findings.error(Code::SizeCapExceeded, pack_path.as_str(), "$.summaries", message);
    }
    let metrics = json!({
        "summary_count_ratio": six_decimals(ratio),
        "max_summary_kb": six_decimals(kb(largest)),
        "total_summary_pack_kb": six_decimals(kb(total)),
        "summary_count": count,
        "expected_count": expected,
        "pack_json_kb": six_decimals(kb(pack_bytes.len() as u64)),
        "orphan_summaries": orphans,
        "unknown_cids": tally.unknown_cids,
        "raw_urls": tally.raw_urls,
    });
    let files: Vec<Value> = tally.files.iter().map(|file| json!(file)).collect();
    let codes: Vec<Value> =
        findings.sorted().iter().map(|f| json!([f.severity, f.code, f.file, f.path])).collect();
    let digest = jcs_hash(&json!({
        "schema": "gate_d.inputs.v1",
        "run_id": manifest.run_id,
        "limits": PackLimits::of(manifest),
        "pack_sha256": sha256(pack_bytes).hex(),
        "files": files,
        "metrics": metrics,
        "findings": codes,
    }));
    let mut gate_warnings: Vec<String> = Vec::new();
    for finding in findings.sorted() {
        let code = json!(finding.code).as_str().unwrap_or_default().to_owned();
        if !gate_warnings.contains(&code) {
            gate_warnings.push(code);
        }
    }
    let Value::Object(metrics) = metrics else { unreachable!("built as an object above") };
    GateReport {
        schema_version: "gate_d_report.v1",
        run_id: manifest.run_id.clone(),
        gate_id: "D",
        profile: "strict",
        status: Verdict::of(findings.passes()),
        metrics,
        limits: PackLimits::of(manifest),
        files: tally.files,
        inputs_digest: digest.prefixed(),
        errors: findings.errors(),
        warnings: findings.warnings(),
        findings: findings.sorted(),
        gate_warnings,
        artifacts: vec![
            pack_path.as_str().to_owned(),
            manifest.paths.summaries_dir.as_str().to_owned(),
        ],
    }
}
