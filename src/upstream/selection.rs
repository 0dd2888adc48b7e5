//! Selection manifests: a list of ids with a hash, made once and pointed to by requests.
//!
//! Contract: `selection_manifest.v1` is verified in full (the hash in the request, the hash in the
//! file, the hash of the selection, the upstream it names). A file of another shape that carries a
//! `selection_hash` and a list of ids is taken at its word, with a warning. Of a list there are its
//! bytes and its ids in memory, however many items it has.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use jsonschema::Validator;
use serde::Deserializer as _;
use serde::de::{IgnoredAny, SeqAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::beneath::{inside, outside};
use super::defect::Defect;
use super::family::Family;
use super::view::Upstream;
use crate::contract::hash::{Digest, Hasher, sha256};
use crate::contract::json::{jcs, jcs_hash, name_order};
use crate::contract::publish::{said_by_record, together};
use crate::contract::schema::{self, Violation};
use crate::contract::time::Day;
use crate::contract::vocabulary::{Bus, ErrorClass, ReasonCode, spellings};
use crate::os::{Open, read_up_to};

/// Largest selection manifest that is read.
const SELECTION_BYTES_MAX: u64 = 64 << 20;
/// The version this service writes and verifies.
pub(crate) const SELECTION_VERSION: &str = "selection_manifest.v1";

spellings! {
    /// In which order the items of a selection are summarized.
    SelectionOrder {
        /// As the manifest lists them.
        AsListed "as_listed",
        /// Canonical upstream order, by time.
        ByTime "by_time",
        ById "by_id",
    }
}

impl SelectionOrder {
    /// The order that the manifest names; without a known word the order of its list.
    pub(crate) fn of(word: Option<&Value>) -> SelectionOrder {
        let named = word.and_then(Value::as_str).and_then(SelectionOrder::parse);
        named.unwrap_or(SelectionOrder::AsListed)
    }
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
    pub ordering: SelectionOrder,
    /// The hash recorded in the file, as recorded.
    pub hash: String,
    /// Where the file lies, relative to the bus home where it is inside it.
    pub path: String,
    /// Hash of the file.
    pub sha256: Digest,
    /// True for a shape that is not ours.
    pub foreign: bool,
    /// Partitions that the selection was made over.
    pub(super) made_over: Vec<String>,
    /// Days of its range that were not published when it was made.
    pub(super) missing: Vec<Day>,
    /// What the manifest or an item of it says about being shown to others.
    pub(super) publish: Option<bool>,
    /// What items say about what is found, by id.
    pub(super) claims: BTreeMap<String, Claim>,
}

/// What an item says about the source that is found by its id.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Claim {
    /// The hash of its text.
    pub(super) text: Option<Digest>,
    /// The day of its partition, or of the source itself where its partition is no day.
    pub(super) day: Option<Day>,
    /// The partition it lies in.
    pub(super) partition: Option<String>,
    /// The document it is, or is a part of.
    pub(super) document: Option<String>,
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
    // A manifest that cannot be read is no source that is missing.
    let of_manifest = |defect: Defect| match defect.reason {
        ReasonCode::UnknownSourceId => defect.with_reason(ReasonCode::SelectionManifestMissing),
        _ => defect,
    };
    let file = locate(upstream, roots, path).map_err(of_manifest)?;
    let file = file.ok_or_else(|| missing(path, "is missing"))?;
    let storage = |error| of_manifest(Defect::of_named_path("read", path, &error));
    let opened = upstream.disk().open(&file, Open::ReadInPlace).map_err(storage)?;
    let is_folder = opened.stat().map_err(storage)?.is_dir;
    let bytes = match is_folder {
        true => None,
        false => Some(read_up_to(opened.as_ref(), SELECTION_BYTES_MAX).map_err(storage)?),
    };
    let bytes = bytes
        .filter(|bytes| bytes.len() as u64 <= SELECTION_BYTES_MAX)
        .ok_or_else(|| missing(path, "is not a file of reasonable size"))?;
    let members = members(path, &bytes)?;
    let recorded = members.get("selection_hash").and_then(|raw| small(raw));
    let Some(recorded) = recorded.as_ref().and_then(Value::as_str) else {
        return Err(hash_invalid(path, "carries no selection_hash", None, None));
    };
    if bare(recorded) != bare(request_hash) {
        return Err(hash_mismatch(path, recorded, request_hash));
    }
    let version = members.get("schema_version").and_then(|raw| small(raw));
    let found = if version.is_some_and(|version| version == SELECTION_VERSION) {
        own(upstream, path, &members, recorded)?
    } else {
        foreign(path, &members, default_bus)?
    };
    Ok(Selection {
        bus: found.bus,
        ids: found.ids,
        partitions: found.partitions,
        ordering: found.ordering,
        foreign: found.foreign,
        made_over: found.made_over,
        missing: found.missing,
        publish: found.publish,
        claims: found.claims,
        hash: recorded.to_owned(),
        path: shown(upstream, &file),
        sha256: sha256(&bytes),
    })
}

/// The members of an object, as they are written: lists of very many items are read one by one.
type Members<'a> = BTreeMap<String, &'a RawValue>;

/// The members of the file; empty for a file that is no object.
fn members<'a>(path: &str, bytes: &'a [u8]) -> Result<Members<'a>, Defect> {
    if bytes.trim_ascii_start().first() == Some(&b'{') {
        return serde_json::from_slice(bytes).map_err(|error| not_json(path, &error));
    }
    let other: Result<IgnoredAny, _> = serde_json::from_slice(bytes);
    other.map(|_| Members::new()).map_err(|error| not_json(path, &error))
}

fn small(raw: &RawValue) -> Option<Value> {
    serde_json::from_str(raw.get()).ok()
}

fn is_list(raw: &RawValue) -> bool {
    raw.get().starts_with('[')
}

/// Hands over the items of a list, one after the other.
fn each_item(
    path: &str,
    list: &RawValue,
    take: &mut dyn FnMut(Value) -> Result<(), Defect>,
) -> Result<(), Defect> {
    struct Items<'a>(&'a mut dyn FnMut(Value) -> Result<(), Defect>);
    impl<'de> Visitor<'de> for Items<'_> {
        type Value = Result<(), Defect>;

        fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            formatter.write_str("a list")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
            let mut outcome = Ok(());
            while let Some(item) = items.next_element()? {
                if outcome.is_ok() {
                    outcome = (self.0)(item);
                }
            }
            Ok(outcome)
        }
    }
    let mut reader = serde_json::Deserializer::from_str(list.get());
    reader.deserialize_seq(Items(take)).map_err(|error| not_json(path, &error))?
}

struct Items {
    bus: Bus,
    ids: Vec<String>,
    partitions: Vec<String>,
    ordering: SelectionOrder,
    foreign: bool,
    made_over: Vec<String>,
    missing: Vec<Day>,
    publish: Option<bool>,
    claims: BTreeMap<String, Claim>,
}

/// Members that say nothing of the manifest itself: numbers about what was left out, and its other part.
const APART: [&str; 3] = ["counts", "drop_reasons", "selection"];

/// What the members of a manifest or of its selection say of being shown to others, without its lists.
pub(crate) fn said_by_members(members: &Map<String, Value>) -> Option<bool> {
    let is_own =
        |(name, value): &(&String, &Value)| !APART.contains(&name.as_str()) && !value.is_array();
    let own = members.iter().filter(is_own);
    said_by_record(&own.map(|(name, value)| (name.clone(), value.clone())).collect())
}

pub(crate) fn said_by_item(item: &Value) -> Option<bool> {
    item.as_object().and_then(said_by_record)
}

fn own(
    upstream: &Upstream,
    path: &str,
    members: &Members<'_>,
    recorded: &str,
) -> Result<Items, Defect> {
    let parse = |raw: &RawValue| {
        serde_json::from_str::<Value>(raw.get()).map_err(|error| not_json(path, &error))
    };
    // The manifest without its items, for the schema; they are checked one by one.
    let mut shell = Map::new();
    for (name, raw) in members.iter().filter(|(name, _)| *name != "selection") {
        shell.insert(name.clone(), parse(raw)?);
    }
    let raw = members.get("selection").copied();
    let inner = raw.and_then(|raw| serde_json::from_str::<Members<'_>>(raw.get()).ok());
    let list = inner.as_ref().and_then(|inner| inner.get("items").copied());
    let list = list.filter(|raw| is_list(raw));
    let mut selection = match (&inner, raw) {
        (Some(inner), _) => {
            let rest = inner.iter().filter(|(name, _)| *name != "items" || list.is_none());
            rest.map(|(name, raw)| Ok((name.clone(), parse(raw)?))).collect::<Result<Value, _>>()?
        }
        (None, Some(raw)) => parse(raw)?,
        (None, None) => Value::Null,
    };
    let rest = selection.as_object().cloned().unwrap_or_default();
    if list.is_some() {
        selection["items"] = json!([]);
    }
    shell.extend(raw.map(|_| ("selection".to_owned(), selection)));
    let shell = Value::Object(shell);
    let mut first = schema::check(SELECTION_VERSION, &shell).into_iter().next();

    let mut items = Items {
        // Summaries of the home are sources on the bus `other`.
        bus: rest.get("bus").and_then(Value::as_str).and_then(Bus::parse).unwrap_or(Bus::Other),
        ids: Vec::new(),
        partitions: Vec::new(),
        ordering: SelectionOrder::of(rest.get("ordering")),
        foreign: false,
        made_over: Vec::new(),
        missing: days_of(&shell["missing_days"]),
        publish: together([shell.as_object(), Some(&rest)].map(|one| said_by_members(one?))),
        claims: BTreeMap::new(),
    };
    let mut partitions = BTreeSet::new();
    let observed = hash_of(&rest, |hasher| {
        let mut index = 0_usize;
        let Some(list) = list else { return Ok(()) };
        each_item(path, list, &mut |item| {
            hasher.update(if index > 0 { "," } else { "" }).update(jcs(&item));
            let wrong = schema::violations(item_schema(), &item).into_iter().map(|one| Violation {
                pointer: format!("/selection/items/{index}{}", one.pointer),
                message: one.message,
            });
            first = first.take().into_iter().chain(wrong).min();
            items.ids.extend(item["id"].as_str().map(str::to_owned));
            items.publish = together([items.publish, said_by_item(&item)]);
            let hint = item["partition"].as_str().or_else(|| item["day"].as_str());
            let text = item["text_hash"].as_str().and_then(|hash| hash.parse().ok());
            let said = |name: &str| item[name].as_str().map(str::to_owned);
            let claim = Claim {
                text,
                day: item["day"].as_str().and_then(|day| day.parse().ok()),
                partition: said("partition"),
                document: said("document_id"),
            };
            if let Some(id) = item["id"].as_str().filter(|_| claim != Claim::default()) {
                items.claims.insert(id.to_owned(), claim);
            }
            if let Some(hint) = hint.filter(|hint| !partitions.contains(*hint)) {
                partitions.insert(hint.to_owned());
            }
            index += 1;
            Ok(())
        })
    })?;
    if let Some(first) = first {
        let detail = format!("{}: {}", first.pointer, first.message);
        return Err(hash_invalid(path, &detail, None, None));
    }
    if recorded.to_ascii_lowercase().parse::<Digest>() != Ok(observed) {
        let text = "records a hash that is not the hash of its selection";
        return Err(hash_invalid(path, text, Some(observed), Some(recorded)));
    }
    check_counts(path, &shell, items.ids.len() as u64)?;
    items.partitions = partitions.into_iter().collect();
    items.made_over = check_upstream(upstream, path, &shell)?;
    Ok(items)
}

/// What the manifest says of its own numbers: so many are listed, and what was left out is the rest of
/// the candidates, each for a reason. A count that is absent says nothing.
fn check_counts(path: &str, manifest: &Value, listed: u64) -> Result<(), Defect> {
    let counts = &manifest["counts"];
    let count = |name: &str| counts[name].as_u64();
    let refuse = |observed: u64, declared: u64, what: &str| {
        let message = format!("selection manifest {path} {what}, its counts declare {declared}");
        let counts = (Some(observed), Some(declared));
        let subtype = "SELECTION_COUNTS_MISMATCH";
        Err(Defect::integrity(subtype, path, (None, None), counts, message))
    };
    if let Some(selected) = count("selected").filter(|selected| *selected != listed) {
        return refuse(listed, selected, &format!("lists {listed} items"));
    }
    if let (Some(candidates), Some(dropped)) = (count("candidates"), count("dropped"))
        && listed.checked_add(dropped) != Some(candidates)
    {
        let sum = listed.saturating_add(dropped);
        let what = format!("lists {listed} items and left out {dropped} candidates");
        return refuse(sum, candidates, &what);
    }
    let Some(reasons) = manifest["drop_reasons"].as_object() else { return Ok(()) };
    let given = reasons.values().filter_map(Value::as_u64).fold(0, u64::saturating_add);
    match count("dropped").filter(|dropped| *dropped != given) {
        Some(dropped) => refuse(given, dropped, &format!("gives reasons for {given} left out")),
        None => Ok(()),
    }
}

fn days_of(list: &Value) -> Vec<Day> {
    let days = list.as_array().into_iter().flatten().filter_map(Value::as_str);
    days.filter_map(|day| day.parse().ok()).collect()
}

/// The hash of the canonical form of a selection whose list of items writes itself.
fn hash_of(
    rest: &Map<String, Value>,
    items: impl FnOnce(&mut Hasher) -> Result<(), Defect>,
) -> Result<Digest, Defect> {
    let mut names: Vec<&str> = rest.keys().map(String::as_str).chain(["items"]).collect();
    names.sort_by(|a, b| name_order(a, b));
    let (mut hasher, mut items) = (Hasher::new(), Some(items));
    let mut sign = "{";
    for name in names {
        hasher.update(sign).update(jcs(&name.into())).update(":");
        sign = ",";
        match (rest.get(name), items.take_if(|_| name == "items")) {
            (Some(value), _) => drop(hasher.update(jcs(value))),
            (None, Some(items)) => {
                hasher.update("[");
                items(&mut hasher)?;
                hasher.update("]");
            }
            (None, None) => {}
        }
    }
    hasher.update("}");
    Ok(hasher.finish())
}

/// What the schema of a manifest says of one item.
fn item_schema() -> &'static Validator {
    static COMPILED: OnceLock<Validator> = OnceLock::new();
    COMPILED.get_or_init(|| {
        let text = schema::text(SELECTION_VERSION).unwrap_or_default();
        let whole: Value = serde_json::from_str(text).unwrap_or_default();
        let item = &whole["properties"]["selection"]["properties"]["items"]["items"];
        schema::compile(item).expect("a part of a schema that compiles, without references")
    })
}

/// Upstream manifests the selection was made over must still be the same. Gives their partitions.
fn check_upstream(upstream: &Upstream, path: &str, value: &Value) -> Result<Vec<String>, Defect> {
    let selected = value["selection"]["bus"].as_str();
    let mut partitions = Vec::new();
    for entry in value["upstream"].as_array().into_iter().flatten() {
        let bus = entry["bus"].as_str().and_then(Bus::parse);
        let partition = entry["partition"].as_str().or_else(|| entry["day"].as_str());
        let (Some(family), Some(partition)) = (bus.and_then(Family::of), partition) else {
            continue;
        };
        let current = upstream.partition(family, partition)?;
        if entry["bus"].as_str() == selected {
            partitions.push(partition.to_owned());
        }
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
    Ok(partitions)
}

fn foreign(path: &str, members: &Members<'_>, default_bus: Bus) -> Result<Items, Defect> {
    const LISTS: [(&str, Option<Bus>); 6] = [
        ("ids", None),
        ("items", None),
        ("selected_ids", None),
        ("chunk_ids", Some(Bus::ChunkBus)),
        ("session_ids", Some(Bus::SessionBus)),
        ("event_ids", Some(Bus::EventBus)),
    ];
    let found = LISTS.iter().find_map(|(key, bus)| {
        let list = members.get(*key).copied().filter(|raw| is_list(raw))?;
        Some((list, *bus))
    });
    let Some((list, implied)) = found else {
        return Err(hash_invalid(path, "has no list of ids", None, None));
    };
    let named = members.get("bus").and_then(|raw| small(raw));
    let named = match named.as_ref().and_then(Value::as_str) {
        Some("sessions_bus") => Some(Bus::SessionBus),
        Some(name) => Bus::parse(name),
        None => None,
    };
    let mut ids = Vec::new();
    let own = members.iter().filter(|(_, raw)| !is_list(raw));
    let own = own.filter_map(|(name, raw)| Some((name.clone(), small(raw)?))).collect();
    let mut publish = said_by_members(&own);
    each_item(path, list, &mut |item| {
        publish = together([publish, said_by_item(&item)]);
        let id = item.as_str().or_else(|| item.get("id")?.as_str());
        let id = id.ok_or_else(|| hash_invalid(path, "has an item without an id", None, None))?;
        ids.push(id.to_owned());
        Ok(())
    })?;
    Ok(Items {
        bus: named.or(implied).unwrap_or(default_bus),
        ids,
        partitions: Vec::new(),
        ordering: SelectionOrder::AsListed,
        foreign: true,
        made_over: Vec::new(),
        missing: Vec::new(),
        publish,
        claims: BTreeMap::new(),
    })
}

fn locate(upstream: &Upstream, roots: &Roots, path: &str) -> Result<Option<PathBuf>, Defect> {
    let wanted = Path::new(path);
    let mut allowed = vec![upstream.root().to_owned()];
    allowed.extend(roots.service.clone());
    if wanted.is_absolute() {
        allowed.extend(roots.extra.iter().cloned());
        return inside(upstream.disk(), &allowed, wanted, path);
    }
    if wanted.components().any(|part| part == std::path::Component::ParentDir) {
        return Err(outside(path));
    }
    for root in &allowed {
        if let Some(found) =
            inside(upstream.disk(), std::slice::from_ref(root), &root.join(wanted), path)?
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

fn not_json(path: &str, error: &serde_json::Error) -> Defect {
    missing(path, &format!("is not JSON: {error}"))
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
    pub bus: Bus,
    /// The ids with the partition each was found in.
    pub items: &'a [(String, String)],
    /// The order they are meant in.
    pub ordering: SelectionOrder,
    /// A name for people.
    pub(crate) selection_id: Option<&'a str>,
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
    let ordering = draft.ordering.as_str();
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
