//! Selection manifests: a list of ids with a hash, made once and pointed to by requests.
//!
//! Contract: `selection_manifest.v1` is verified in full (the hash in the request, the hash in the
//! file, the hash of the selection, the upstream it names). A file of another shape that carries a
//! `selection_hash` and a list of ids is taken at its word, with a warning.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::defect::Defect;
use super::family::Family;
use super::other::{inside, outside};
use super::view::Upstream;
use crate::contract::hash::{Digest, sha256};
use crate::contract::json::jcs_hash;
use crate::contract::vocabulary::{Bus, ErrorClass, ReasonCode};

/// Largest selection manifest that is read.
const SELECTION_BYTES_MAX: u64 = 64 << 20;
/// The version this service writes and verifies.
pub const SELECTION_VERSION: &str = "selection_manifest.v1";

/// In which order the items of a selection are summarized.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ordering {
    /// As the manifest lists them.
    AsListed,
    /// Canonical upstream order, by time.
    ByTime,
    /// By id.
    ById,
}

/// A selection that was verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selection {
    /// The bus the ids belong to.
    pub bus: Bus,
    /// The ids, as listed.
    pub ids: Vec<String>,
    /// Partitions the items say they are in.
    pub partitions: Vec<String>,
    /// How to order them.
    pub ordering: Ordering,
    /// The hash recorded in the file, as recorded.
    pub hash: String,
    /// Where the file lies, relative to the bus home where it is inside it.
    pub path: String,
    /// Hash of the file.
    pub sha256: Digest,
    /// True for a shape that is not ours.
    pub foreign: bool,
}

/// Where selection manifests may be read.
#[derive(Debug, Clone, Default)]
pub struct Roots {
    /// Tried after the bus home for relative paths.
    pub service: Option<PathBuf>,
    /// Folders absolute paths may lie in, besides these two.
    pub extra: Vec<PathBuf>,
}

/// Reads and verifies a selection manifest. `default_bus` is used by foreign files that name none.
pub fn load(
    upstream: &Upstream,
    roots: &Roots,
    path: &str,
    request_hash: &str,
    default_bus: Bus,
) -> Result<Selection, Defect> {
    let file = locate(upstream, roots, path)?.ok_or_else(|| missing(path, "is missing"))?;
    let storage = |error| Defect::storage("read", path, &error);
    let stat = upstream.disk().stat(&file).map_err(storage)?;
    if stat.is_none_or(|stat| stat.is_dir || stat.len > SELECTION_BYTES_MAX) {
        return Err(missing(path, "is not a file of reasonable size"));
    }
    let bytes = upstream.disk().read(&file).map_err(storage)?;
    let value: Value = serde_json::from_slice(&bytes)
        .map_err(|error| missing(path, &format!("is not JSON: {error}")))?;
    let recorded = value.get("selection_hash").and_then(Value::as_str);
    let Some(recorded) = recorded else {
        return Err(hash_invalid(path, "carries no selection_hash", None, None));
    };
    if bare(recorded) != bare(request_hash) {
        return Err(hash_mismatch(path, recorded, request_hash));
    }
    let found = if value["schema_version"] == SELECTION_VERSION {
        own(upstream, path, &value, recorded)?
    } else {
        foreign(path, &value, default_bus)?
    };
    Ok(Selection {
        bus: found.bus,
        ids: found.ids,
        partitions: found.partitions,
        ordering: found.ordering,
        foreign: found.foreign,
        hash: recorded.to_owned(),
        path: shown(upstream, &file),
        sha256: sha256(&bytes),
    })
}

struct Items {
    bus: Bus,
    ids: Vec<String>,
    partitions: Vec<String>,
    ordering: Ordering,
    foreign: bool,
}

fn own(upstream: &Upstream, path: &str, value: &Value, recorded: &str) -> Result<Items, Defect> {
    let violations = crate::contract::schema::check(SELECTION_VERSION, value);
    if let Some(first) = violations.first() {
        let detail = format!("{}: {}", first.pointer, first.message);
        return Err(hash_invalid(path, &detail, None, None));
    }
    let selection = &value["selection"];
    let observed = jcs_hash(selection);
    if recorded.to_ascii_lowercase().parse::<Digest>() != Ok(observed) {
        let text = "records a hash that is not the hash of its selection";
        return Err(hash_invalid(path, text, Some(observed), Some(recorded)));
    }
    let bus = selection["bus"].as_str().and_then(Bus::parse).unwrap_or(Bus::Other);
    let mut items = Items {
        bus,
        ids: Vec::new(),
        partitions: Vec::new(),
        ordering: Ordering::AsListed,
        foreign: false,
    };
    items.ordering = match selection["ordering"].as_str() {
        Some("by_time") => Ordering::ByTime,
        Some("by_id") => Ordering::ById,
        _ => Ordering::AsListed,
    };
    let mut partitions = std::collections::BTreeSet::new();
    for item in selection["items"].as_array().into_iter().flatten() {
        items.ids.extend(item["id"].as_str().map(str::to_owned));
        let hint = item["partition"].as_str().or_else(|| item["day"].as_str());
        partitions.extend(hint);
    }
    items.partitions = partitions.into_iter().map(str::to_owned).collect();
    check_upstream(upstream, path, value)?;
    Ok(items)
}

/// Upstream manifests the selection was made over must still be the same.
fn check_upstream(upstream: &Upstream, path: &str, value: &Value) -> Result<(), Defect> {
    for entry in value["upstream"].as_array().into_iter().flatten() {
        let bus = entry["bus"].as_str().and_then(Bus::parse);
        let partition = entry["partition"].as_str().or_else(|| entry["day"].as_str());
        let (Some(family), Some(partition)) = (bus.and_then(Family::of), partition) else {
            continue;
        };
        let current = upstream.partition(family, partition)?;
        for (declared, observed) in [
            (entry["manifest_sha256"].as_str(), current.manifest.sha256),
            (entry["data_sha256"].as_str(), current.manifest.data_sha256),
        ] {
            if let Some(declared) = declared
                && declared.parse::<Digest>() != Ok(observed)
            {
                return Err(Defect::integrity(
                    family.mismatch_subtype(),
                    &current.manifest.path,
                    (Some(observed.hex()), Some(declared.to_owned())),
                    (None, None),
                    format!("{path} was made over another {}", current.manifest.path),
                ));
            }
        }
    }
    Ok(())
}

fn foreign(path: &str, value: &Value, default_bus: Bus) -> Result<Items, Defect> {
    const LISTS: [(&str, Option<Bus>); 6] = [
        ("ids", None),
        ("items", None),
        ("selected_ids", None),
        ("chunk_ids", Some(Bus::ChunkBus)),
        ("session_ids", Some(Bus::SessionBus)),
        ("event_ids", Some(Bus::EventBus)),
    ];
    let found = LISTS.iter().find_map(|(key, bus)| Some((value.get(key)?.as_array()?, *bus)));
    let Some((list, implied)) = found else {
        return Err(hash_invalid(path, "has no list of ids", None, None));
    };
    let named = match value.get("bus").and_then(Value::as_str) {
        Some("sessions_bus") => Some(Bus::SessionBus),
        Some(name) => Bus::parse(name),
        None => None,
    };
    let ids: Option<Vec<String>> = list
        .iter()
        .map(|item| item.as_str().or_else(|| item.get("id")?.as_str()).map(str::to_owned))
        .collect();
    let ids = ids.ok_or_else(|| hash_invalid(path, "has an item without an id", None, None))?;
    Ok(Items {
        bus: named.or(implied).unwrap_or(default_bus),
        ids,
        partitions: Vec::new(),
        ordering: Ordering::AsListed,
        foreign: true,
    })
}

fn locate(upstream: &Upstream, roots: &Roots, path: &str) -> Result<Option<PathBuf>, Defect> {
    let wanted = Path::new(path);
    let mut allowed = vec![upstream.root().to_owned()];
    allowed.extend(roots.service.clone());
    if wanted.is_absolute() {
        allowed.extend(roots.extra.iter().cloned());
        return inside(upstream.disk(), &allowed, wanted);
    }
    if wanted.components().any(|part| part == std::path::Component::ParentDir) {
        return Err(outside(path));
    }
    for root in &allowed {
        if let Some(found) =
            inside(upstream.disk(), std::slice::from_ref(root), &root.join(wanted))?
        {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// Relative to the bus home where possible, so that published files name no machine.
fn shown(upstream: &Upstream, file: &Path) -> String {
    let root = upstream.disk().real_path(upstream.root()).unwrap_or_default();
    file.strip_prefix(&root).unwrap_or(file).display().to_string()
}

fn bare(hash: &str) -> String {
    let lower = hash.trim().to_ascii_lowercase();
    lower.strip_prefix("sha256:").unwrap_or(&lower).to_owned()
}

fn missing(path: &str, why: &str) -> Defect {
    let mut defect = Defect::missing(
        "SELECTION_MANIFEST_MISSING",
        "selection manifest",
        path,
        path,
        ReasonCode::SelectionManifestMissing,
    );
    defect.message = format!("selection manifest {path} {why}");
    defect
}

fn hash_mismatch(path: &str, recorded: &str, requested: &str) -> Defect {
    let hashes = (Some(recorded.to_owned()), Some(requested.to_owned()));
    let message = format!("selection manifest {path} records {recorded}, the request {requested}");
    Defect::integrity("SELECTION_HASH_MISMATCH", path, hashes, (None, None), message)
        .with_reason(ReasonCode::SelectionHashMismatch)
}

fn hash_invalid(path: &str, why: &str, observed: Option<Digest>, declared: Option<&str>) -> Defect {
    let hashes = (observed.map(|hash| hash.prefixed()), declared.map(str::to_owned));
    let message = format!("selection manifest {path} {why}");
    let mut defect =
        Defect::integrity("SELECTION_HASH_INVALID", path, hashes, (None, None), message)
            .with_reason(ReasonCode::SelectionHashInvalid);
    defect.class = ErrorClass::IntegrityMismatch;
    defect
}

/// What goes into a new selection manifest besides its items.
pub struct Draft<'a> {
    /// The bus.
    pub bus: Bus,
    /// The ids with the partition each was found in.
    pub items: &'a [(String, String)],
    /// The order they are meant in.
    pub ordering: Ordering,
    /// A name for people.
    pub selection_id: Option<&'a str>,
    /// When; not part of the hash.
    pub created_at: String,
    /// Who, `{repo, component, version}`.
    pub created_by: Value,
    /// The upstream it was made over.
    pub upstream: Vec<Value>,
}

/// A `selection_manifest.v1`.
pub fn build(draft: Draft<'_>) -> Value {
    let dated = draft.bus != Bus::ChunkBus;
    let items: Vec<Value> = draft
        .items
        .iter()
        .map(|(id, partition)| match dated {
            true => json!({"id": id, "day": partition}),
            false => json!({"id": id, "partition": partition}),
        })
        .collect();
    let ordering = match draft.ordering {
        Ordering::AsListed => "as_listed",
        Ordering::ByTime => "by_time",
        Ordering::ById => "by_id",
    };
    let selection = json!({"bus": draft.bus, "items": items, "ordering": ordering});
    let mut manifest = json!({
        "schema_version": SELECTION_VERSION,
        "created_at": draft.created_at,
        "created_by": draft.created_by,
        "selection_hash": jcs_hash(&selection).prefixed(),
        "selection": selection,
        "upstream": draft.upstream,
        "counts": {"candidates": items.len(), "selected": items.len(), "dropped": 0},
    });
    if let Some(id) = draft.selection_id {
        manifest["selection_id"] = id.into();
    }
    manifest
}
