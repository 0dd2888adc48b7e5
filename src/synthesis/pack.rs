//! The records of a summary pack, and the digests that bind it to its inputs and its files.

use serde::{Deserialize, Serialize};
use serde_json::{Number, Value, json};

use super::citations::{CitationPool, CitationStatus};
use super::extract::{ConfidenceBasis, DroppedCounts, DroppedFinding};
use super::manifest::RunManifest;
use super::run_dir::RelPath;
use crate::contract::hash::{Digest, Hasher};
use crate::contract::json::jcs;

/// A claim as the pack lists it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KeyClaim {
    pub claim: String,
    pub citation_cids: Vec<String>,
    pub confidence: Number,
}

/// One perspective in the pack.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PackEntry {
    pub perspective_id: String,
    /// The file that was summarized.
    pub source_artifact: String,
    pub summary_md: String,
    pub key_claims: Vec<KeyClaim>,
}

/// The limits a pack was built within.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PackLimits {
    pub max_summary_kb: Number,
    /// Largest sum of all summaries.
    pub max_total_summary_kb: Number,
}

impl PackLimits {
    pub fn of(manifest: &RunManifest) -> PackLimits {
        PackLimits {
            max_summary_kb: manifest.max_summary.number().clone(),
            max_total_summary_kb: manifest.max_total.number().clone(),
        }
    }

    fn same(&self, other: &PackLimits) -> bool {
        self.max_summary_kb.as_f64() == other.max_summary_kb.as_f64()
            && self.max_total_summary_kb.as_f64() == other.max_total_summary_kb.as_f64()
    }

    pub(crate) fn are_those_of(&self, manifest: &RunManifest) -> bool {
        self.same(&PackLimits::of(manifest))
    }
}

/// `summary_pack.v1`, generic over how its entries are held.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Pack<Entries = Vec<PackEntry>> {
    /// `summary_pack.v1`.
    pub schema_version: String,
    pub run_id: String,
    pub generated_at: String,
    /// Whether no provider elsewhere may see it: so was what it was made from.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) local_only: bool,
    pub limits: PackLimits,
    /// One entry for each perspective, by id.
    pub summaries: Entries,
    /// Bytes of all summaries divided by four.
    pub total_estimated_tokens: Number,
    /// Files that look like drafts and that another pack listed as its summaries.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) not_drafts: Vec<NotDraft>,
}

/// A quarter of the bytes, halves rounded up, at least 1.
pub(crate) fn estimated_tokens(total_bytes: u64) -> u64 {
    ((total_bytes + 2) / 4).max(1)
}

/// The kind of file that a summary was made from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum SourceKind {
    /// The output of the wave.
    Wave,
    /// `<summaries>/<id>.md`.
    Draft,
}

/// One perspective in the sidecar.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct MetaEntry {
    pub perspective_id: String,
    /// The file that was summarized.
    pub source_artifact: String,
    pub(crate) source_kind: SourceKind,
    pub(crate) source_sha256: String,
    pub summary_md: String,
    pub(crate) summary_sha256: String,
    pub summary_bytes: u64,
    /// Where the confidence of each claim comes from.
    pub confidence_basis: Vec<ConfidenceBasis>,
    pub dropped: DroppedCounts,
    /// The findings that are not in the summary, each with the reason.
    pub(crate) left_out: Vec<DroppedFinding>,
}

/// `summary_pack_meta.v1`, the sidecar, generic over how its entries are held.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct PackMeta<Entries> {
    /// `summary_pack_meta.v1`.
    pub schema_version: &'static str,
    pub mode: &'static str,
    pub generated_at: String,
    pub inputs_digest: String,
    pub outputs_digest: String,
    pub pack_sha256: String,
    pub algo: &'static str,
    /// Revision of the manifest that was read.
    pub(crate) manifest_revision: u64,
    /// Files that look like drafts and that another pack listed as its summaries.
    pub(crate) not_drafts: Vec<NotDraft>,
    /// One entry for each perspective, by id.
    pub entries: Entries,
}

/// A file that is no draft as long as it has these bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct NotDraft {
    pub path: String,
    pub sha256: String,
}

/// Where the sidecar of a pack is.
pub fn meta_path(pack: &RelPath) -> Option<RelPath> {
    let stem = pack.as_str().strip_suffix(".json").unwrap_or(pack.as_str());
    RelPath::parse(&format!("{stem}.meta.json"))
}

/// A source as the inputs digest names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackSource {
    pub id: String,
    pub artifact: String,
    pub sha256: Digest,
}

/// Digest of everything that determines the content of a pack. `sources` are sorted by id.
pub fn inputs_digest(
    algo: &str,
    manifest: &RunManifest,
    sources: &[PackSource],
    pool: &CitationPool,
) -> String {
    let citations =
        pool.rows().map(|(cid, status): (&str, CitationStatus)| json!([cid, status.as_str()]));
    let perspectives = sources.iter().map(|source| {
        json!({"id": source.id, "source_artifact": source.artifact,
            "source_sha256": source.sha256.hex()})
    });
    let mut object = Canonical::default();
    object.member("algo", &json!(algo));
    object.list("citations", citations);
    object.member("limits", &json!(PackLimits::of(manifest)));
    object.list("perspectives", perspectives);
    object.member("run_id", &json!(manifest.run_id));
    object.member("schema", &json!("summary_pack.inputs.v1"));
    object.digest()
}

/// Digest of the summaries: paths, sizes, hashes, in the order of the pack.
pub fn outputs_digest<P: AsRef<str>>(summaries: impl Iterator<Item = (P, u64, Digest)>) -> String {
    let summaries = summaries.map(|(path, bytes, sha256)| {
        json!({"path": path.as_ref(), "bytes": bytes, "sha256": sha256.hex()})
    });
    let mut object = Canonical::default();
    object.member("schema", &json!("summary_pack.outputs.v1"));
    object.list("summaries", summaries);
    object.digest()
}

/// Digest of a canonical JSON object that is too large for memory. Members must be added in the
/// order of their names.
#[derive(Default)]
struct Canonical {
    hasher: Hasher,
    last: &'static str,
}

impl Canonical {
    fn name(&mut self, name: &'static str) {
        debug_assert!(self.last < name, "{} before {name}", self.last);
        let lead = if self.last.is_empty() { "{" } else { "," };
        self.hasher.update(format!("{lead}\"{name}\":"));
        self.last = name;
    }

    fn member(&mut self, name: &'static str, value: &Value) {
        self.name(name);
        self.hasher.update(jcs(value));
    }

    fn list(&mut self, name: &'static str, items: impl Iterator<Item = Value>) {
        self.name(name);
        self.hasher.update("[");
        for (index, item) in items.enumerate() {
            self.hasher.update(if index == 0 { "" } else { "," }).update(jcs(&item));
        }
        self.hasher.update("]");
    }

    fn digest(mut self) -> String {
        self.hasher.update("}");
        self.hasher.finish().prefixed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::json::jcs_hash;

    #[test]
    fn a_digest_in_pieces_is_that_of_the_whole() {
        let rows = [("a", 3_u64, Digest::ZERO), ("\"\u{e9}\n", 1 << 60, Digest([7; 32]))];
        for count in 0..=rows.len() {
            let summaries: Vec<Value> = rows[..count]
                .iter()
                .map(
                    |(path, bytes, sha)| json!({"path": path, "bytes": bytes, "sha256": sha.hex()}),
                )
                .collect();
            let whole = json!({"summaries": summaries, "schema": "summary_pack.outputs.v1"});
            assert_eq!(outputs_digest(rows[..count].iter().copied()), jcs_hash(&whole).prefixed());
        }
    }
}
