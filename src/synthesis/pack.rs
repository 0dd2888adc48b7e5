//! The records of a summary pack, and the digests that bind it to its inputs and its files.

use serde::{Deserialize, Serialize};
use serde_json::{Number, Value, json};

use super::citations::{Pool, Status};
use super::extract::{Basis, Dropped};
use super::manifest::Manifest;
use super::run_dir::RelPath;
use crate::contract::hash::Digest;
use crate::contract::json::jcs_hash;

/// A claim as the pack lists it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KeyClaim {
    /// One line of text.
    pub claim: String,
    /// What it rests on.
    pub citation_cids: Vec<String>,
    /// 0 to 100.
    pub confidence: Number,
}

/// One perspective in the pack.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// The perspective.
    pub perspective_id: String,
    /// The file that was summarized.
    pub source_artifact: String,
    /// The summary.
    pub summary_md: String,
    /// The claims in it.
    pub key_claims: Vec<KeyClaim>,
}

/// The limits a pack was built within.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Limits {
    /// Largest summary.
    pub max_summary_kb: Number,
    /// Largest sum of all summaries.
    pub max_total_summary_kb: Number,
}

impl Limits {
    /// The limits of a run.
    pub fn of(manifest: &Manifest) -> Limits {
        Limits {
            max_summary_kb: manifest.max_summary.number().clone(),
            max_total_summary_kb: manifest.max_total.number().clone(),
        }
    }

    fn same(&self, other: &Limits) -> bool {
        self.max_summary_kb.as_f64() == other.max_summary_kb.as_f64()
            && self.max_total_summary_kb.as_f64() == other.max_total_summary_kb.as_f64()
    }

    /// True when a manifest sets these very limits.
    pub fn are_those_of(&self, manifest: &Manifest) -> bool {
        self.same(&Limits::of(manifest))
    }
}

/// `summary_pack.v1`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Pack {
    /// `summary_pack.v1`.
    pub schema_version: String,
    /// The run.
    pub run_id: String,
    /// When, as the caller or the manifest says.
    pub generated_at: String,
    /// The limits it keeps.
    pub limits: Limits,
    /// One entry for each perspective, by id.
    pub summaries: Vec<Entry>,
    /// Bytes of all summaries divided by four.
    pub total_estimated_tokens: Number,
}

/// A quarter of the bytes, halves up, at least 1.
pub fn estimated_tokens(total_bytes: u64) -> u64 {
    ((total_bytes + 2) / 4).max(1)
}

/// Whether a summary came from the wave output or from a draft somebody wrote.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SourceKind {
    /// The output of the wave.
    Wave,
    /// `<summaries>/<id>.md`.
    Draft,
}

/// One perspective in the sidecar.
#[derive(Debug, Clone, Serialize)]
pub struct MetaEntry {
    /// The perspective.
    pub perspective_id: String,
    /// The file that was summarized.
    pub source_artifact: String,
    /// What kind of file.
    pub source_kind: SourceKind,
    /// Its hash.
    pub source_sha256: String,
    /// The summary.
    pub summary_md: String,
    /// Its hash.
    pub summary_sha256: String,
    /// Its size.
    pub summary_bytes: u64,
    /// Where the confidence of each claim comes from.
    pub confidence_basis: Vec<Basis>,
    /// What was left out.
    pub dropped: Dropped,
}

/// `summary_pack_meta.v1`, the sidecar.
#[derive(Debug, Clone, Serialize)]
pub struct Meta {
    /// `summary_pack_meta.v1`.
    pub schema_version: &'static str,
    /// How the summaries were made.
    pub mode: &'static str,
    /// As in the pack.
    pub generated_at: String,
    /// What went in.
    pub inputs_digest: String,
    /// The summaries that came out.
    pub outputs_digest: String,
    /// The pack file itself.
    pub pack_sha256: String,
    /// The rules they were made by.
    pub algo: &'static str,
    /// Revision of the manifest that was read.
    pub manifest_revision: u64,
    /// One entry for each perspective, by id.
    pub entries: Vec<MetaEntry>,
}

/// Where the sidecar of a pack is.
pub fn meta_path(pack: &RelPath) -> Option<RelPath> {
    let stem = pack.as_str().strip_suffix(".json").unwrap_or(pack.as_str());
    RelPath::parse(&format!("{stem}.meta.json"))
}

/// A source as the inputs digest names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// The perspective.
    pub id: String,
    /// The file.
    pub artifact: String,
    /// Its hash.
    pub sha256: Digest,
}

/// Digest of everything the content of a pack follows from. `sources` are sorted by id.
pub fn inputs_digest(algo: &str, manifest: &Manifest, sources: &[Source], pool: &Pool) -> String {
    let perspectives: Vec<Value> = sources
        .iter()
        .map(|source| {
            json!({"id": source.id, "source_artifact": source.artifact,
                "source_sha256": source.sha256.hex()})
        })
        .collect();
    let rows = pool.rows().map(|(cid, status): (&str, Status)| json!([cid, status.as_str()]));
    let citations: Vec<Value> = rows.collect();
    let value = json!({
        "schema": "summary_pack.inputs.v1",
        "algo": algo,
        "run_id": manifest.run_id,
        "limits": Limits::of(manifest),
        "perspectives": perspectives,
        "citations": citations,
    });
    jcs_hash(&value).prefixed()
}

/// Digest of the summaries: paths, sizes, hashes, in the order of the pack.
pub fn outputs_digest<'a>(summaries: impl Iterator<Item = (&'a str, u64, Digest)>) -> String {
    let summaries: Vec<Value> = summaries
        .map(|(path, bytes, sha256)| json!({"path": path, "bytes": bytes, "sha256": sha256.hex()}))
        .collect();
    jcs_hash(&json!({"schema": "summary_pack.outputs.v1", "summaries": summaries})).prefixed()
}
