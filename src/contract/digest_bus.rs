//! The Digest Bus contract: names of folders and files, versions of records, ids and hashes.

use std::collections::BTreeMap;

use super::hash::sha256;
use super::stable_id::{Part, stable_id};

/// The folder of digests, relative to the bus home.
pub(crate) const DIGESTS_DIR: &str = "digests";
/// The only level there is so far.
pub(crate) const LEVEL: &str = "L2";

/// The version of `bag.json`.
pub(crate) const BAG_VERSION: &str = "digest_bag.v1";
/// The version of `trace.json`.
pub(crate) const TRACE_VERSION: &str = "digest_trace.v1";
/// The version of a memo's sidecar.
pub(crate) const MEMO_META_VERSION: &str = "digest_memo_meta.v1";
/// The version of `memo/index.json`.
pub(crate) const MEMO_INDEX_VERSION: &str = "bag_memo_index.v1";

/// The trace of a bag, in its folder.
pub(crate) const TRACE_FILE: &str = "meta/trace.json";

/// The folder of indexes, relative to the bus home.
pub(crate) const INDEX_DIR: &str = "index";
pub(crate) const REGISTRY_FILE: &str = "digest_registry.json";
pub(crate) const BY_WINDOW_FILE: &str = "l2_by_window.json";
pub(crate) const LATEST_FILE: &str = "l2_latest.json";
pub(crate) const TAGS_FILE: &str = "tags_index.json";
pub(crate) const PAIRS_FILE: &str = "pairs_index.json";
/// The hashes of the others.
pub(crate) const SHA256_FILE: &str = "index.sha256";

/// The index files that are records, each with the version of its record.
pub(crate) const INDEX_VERSIONS: &[(&str, &str)] = &[
    (REGISTRY_FILE, "digest_registry.v1"),
    (BY_WINDOW_FILE, "l2_by_window.v1"),
    (LATEST_FILE, "l2_latest.v1"),
    (TAGS_FILE, "tags_index.v1"),
    (PAIRS_FILE, "pairs_index.v1"),
];

/// The detail of a failure after which the next start still publishes the bags.
pub(crate) const PROMOTION_FOLLOWS: &str = "promotion_follows";

/// Most bags that the run record of a build lists. All of them are counted, and the registry names
/// them.
pub(crate) const RUN_BAGS_LISTED_MAX: usize = 1000;

/// What a bag id is made of.
#[derive(Debug, Clone, Copy)]
pub struct BagIdentity<'a> {
    pub bag_type: &'a str,
    /// The type of the window.
    pub window_type: &'a str,
    /// The zone of the window.
    pub tz: &'a str,
    /// The label of the window.
    pub label: &'a str,
    pub selector_id: &'a str,
    /// Its hash, bare hex.
    pub selector_hash: &'a str,
    /// What the bag is about, when the selector groups.
    pub group: Option<&'a str>,
    /// Hash of the ordered summary ids.
    pub summaries_hash: &'a str,
    /// Hash of the ids of the closed tasks that the memos show; `None` without closed tasks.
    pub closed_tasks_hash: Option<&'a str>,
    /// Hash of the projects of the ordered summaries; `None` where the rules of projects are the
    /// default ones, because the summaries then determine their projects.
    pub projects_hash: Option<&'a str>,
}

/// The id of a bag.
pub fn bag_id(identity: &BagIdentity<'_>) -> String {
    let BagIdentity { window_type, tz, label, .. } = identity;
    let window = format!("{window_type}/{tz}/{label}");
    // Byte for byte: two project names that differ only in a space are two projects.
    let group = format!("group:{}", identity.group.unwrap_or("none"));
    let mut parts = vec![
        Part::Text("bag"),
        Part::Labelled("type", identity.bag_type),
        Part::Labelled("window", &window),
        Part::Labelled("selector", identity.selector_id),
        Part::Labelled("selector_hash", identity.selector_hash),
        Part::Opaque(&group),
        Part::Labelled("summaries_hash", identity.summaries_hash),
    ];
    parts.extend(identity.closed_tasks_hash.map(|hash| Part::Labelled("closed_tasks_hash", hash)));
    parts.extend(identity.projects_hash.map(|hash| Part::Labelled("projects_hash", hash)));
    stable_id("bag", &parts)
}

/// The hash over all files of a bag but its trace, which holds the hash.
pub fn bag_dir_sha256<Content: AsRef<[u8]>>(files: &BTreeMap<String, Content>) -> String {
    let hashed = files.iter().filter(|(path, _)| *path != TRACE_FILE);
    let lines: String = hashed.map(|(path, text)| format!("{}  {path}\n", sha256(text))).collect();
    sha256(lines).hex()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::contract::stable_id::list_hash;

    #[test]
    fn frozen_bag_id() {
        let identity = BagIdentity {
            bag_type: "tagbag",
            window_type: "iso_week",
            tz: "UTC",
            label: "2026-W07",
            selector_id: "tags.weekly",
            selector_hash: &sha256("selector").hex(),
            group: Some("free:automation"),
            summaries_hash: &list_hash(&["sum_a", "sum_b"]),
            closed_tasks_hash: None,
            projects_hash: None,
        };
        let id = bag_id(&identity);
        assert_eq!(id, "bag_777f43e5bebbe5bb53cb1d46947ef8c1");
        let others = [
            BagIdentity { bag_type: "cohort", ..identity },
            BagIdentity { window_type: "day", ..identity },
            BagIdentity { tz: "Europe/Paris", ..identity },
            BagIdentity { label: "2026-W08", ..identity },
            BagIdentity { selector_id: "other", ..identity },
            BagIdentity { selector_hash: "0", ..identity },
            BagIdentity { group: None, ..identity },
            BagIdentity { group: Some("free:automation "), ..identity },
            BagIdentity { summaries_hash: "0", ..identity },
            BagIdentity { closed_tasks_hash: Some("0"), ..identity },
            BagIdentity { projects_hash: Some("0"), ..identity },
        ];
        let ids: BTreeSet<String> = others.iter().map(bag_id).chain([id]).collect();
        assert_eq!(ids.len(), 12);
    }
}
