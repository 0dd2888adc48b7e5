//! The upstream buses as one place to look ids up: which partitions there are, which of them can
//! be trusted, and where an id lies.
//!
//! Contract: nothing is read that does not match its manifest. Partitions are verified when they
//! are first needed and again when their manifest or data file changed; a broken one is remembered
//! with its defect and fails only what needs it. An id that occurs in several partitions is taken
//! from the last one. The tables in memory are bounded; the rest lives in the [`IndexStore`].

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use super::defect::Defect;
use super::family::Family;
use super::index::{
    FileMark, IdKey, IndexCache, IndexStore, PartitionIndex, RecordAt, Section, store_key,
};
use super::lines::{Lines, read_range};
use super::manifest::{self, PartitionManifest};
use super::partition;
use crate::contract::vocabulary::ReasonCode;
use crate::os::{Disk, DiskFile, Open};

/// Memory for id tables; what does not fit is read from the store when it is needed.
pub const INDEX_BYTES_MAX: usize = 64 << 20;
/// Bytes of broken partitions searched to say which one an unknown id belongs to.
const ATTRIBUTION_BYTES_MAX: u64 = 256 << 20;
/// The subtype of a read that lost a race with upstream; starting over heals it.
pub(super) const CHANGED_WHILE_READ: &str = "UPSTREAM_CHANGED_WHILE_READ";
/// Manifests larger than this are not read.
const MANIFEST_BYTES_MAX: u64 = 16 << 20;

/// Read access to the upstream buses under one bus home.
pub struct Upstream {
    disk: Arc<dyn Disk>,
    root: PathBuf,
    store: Arc<dyn IndexStore>,
    shelves: Mutex<Shelves>,
}

#[derive(Default)]
struct Shelf {
    listed: Option<[Option<FileMark>; 2]>,
    slots: BTreeMap<String, Slot>,
}

struct Shelves {
    families: BTreeMap<Family, Shelf>,
    cache: IndexCache,
}

#[derive(Clone, Default)]
struct Slot {
    manifest_name: Option<String>,
    marks: Option<(FileMark, Option<FileMark>)>,
    manifest: Option<Arc<PartitionManifest>>,
    defect: Option<Arc<Defect>>,
}

/// A partition whose data matches its manifest.
#[derive(Clone)]
pub struct Partition {
    /// Its manifest.
    pub manifest: Arc<PartitionManifest>,
    /// Its ids.
    pub index: Arc<PartitionIndex>,
}

/// Where an id was found.
#[derive(Clone)]
pub struct Hit {
    /// In which partition.
    pub partition: Partition,
    /// Where in its data file; one place for a record, one per chunk for a document.
    pub places: Vec<RecordAt>,
}

impl Upstream {
    /// Opens the buses under `root`. Nothing is read yet.
    pub fn new(
        disk: Arc<dyn Disk>,
        root: impl Into<PathBuf>,
        store: Arc<dyn IndexStore>,
    ) -> Upstream {
        let shelves =
            Shelves { families: BTreeMap::new(), cache: IndexCache::new(INDEX_BYTES_MAX) };
        Upstream { disk, root: root.into(), store, shelves: Mutex::new(shelves) }
    }

    /// The bus home.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The disk it reads through.
    pub fn disk(&self) -> &dyn Disk {
        self.disk.as_ref()
    }

    /// Every partition of a family, sorted, manifested or not.
    pub fn partitions(&self, family: Family) -> Result<Vec<String>, Defect> {
        let mut shelves = self.shelves.lock();
        let shelf = shelves.families.entry(family).or_default();
        self.list(family, shelf, true)?;
        Ok(shelf.slots.keys().cloned().collect())
    }

    /// One verified partition, or the defect that makes it unreadable.
    pub fn partition(&self, family: Family, name: &str) -> Result<Partition, Defect> {
        let mut shelves = self.shelves.lock();
        self.list(family, shelves.families.entry(family).or_default(), true)?;
        self.ready(&mut shelves, family, name, true)
    }

    /// Finds ids; the result has one entry per id. `prefer` names partitions to look in first.
    /// An id that is nowhere is an error that says why, as far as can be known.
    pub fn find(
        &self,
        family: Family,
        section: Section,
        ids: &[&str],
        prefer: &[String],
    ) -> Result<Vec<Option<Hit>>, Defect> {
        let mut shelves = self.shelves.lock();
        self.list(family, shelves.families.entry(family).or_default(), false)?;
        let mut found = self.search(&mut shelves, family, section, ids, prefer);
        if found.iter().any(Option::is_none) {
            // Perhaps something was published since the folders were listed.
            self.list(family, shelves.families.entry(family).or_default(), true)?;
            found = self.search(&mut shelves, family, section, ids, prefer);
        }
        Ok(found)
    }

    /// Why an id is nowhere: the defect of the broken partition that holds it, or that nobody
    /// knows it.
    pub fn explain_absence(&self, family: Family, id: &str) -> Defect {
        let shelves = self.shelves.lock();
        let empty = BTreeMap::new();
        let slots = shelves.families.get(&family).map_or(&empty, |shelf| &shelf.slots);
        let broken: Vec<(&String, &Arc<Defect>)> = slots
            .iter()
            .rev()
            .filter_map(|(name, slot)| Some((name, slot.defect.as_ref()?)))
            .collect();
        let mut budget = ATTRIBUTION_BYTES_MAX;
        for (name, defect) in &broken {
            if self.mentions(&family.data_path(name), id, &mut budget) {
                return Defect::clone(defect);
            }
        }
        if slots.is_empty() {
            return Defect::missing(
                family.missing_manifest_subtype(),
                "manifest",
                family.manifest_dir(),
                family.manifest_dir(),
                ReasonCode::MissingUpstreamManifest,
            );
        }
        // A partition whose data is gone may have held it: then that is what is missing.
        let lost = broken.iter().find(|(name, _)| {
            let path = self.root.join(family.data_path(name));
            self.disk.stat(&path).is_ok_and(|stat| stat.is_none())
        });
        match lost {
            Some((_, defect)) => Defect::clone(defect),
            None => unknown_id(family, id, broken.len()),
        }
    }

    /// Opens a partition's data file, making sure that it still is the file that was verified.
    pub fn open(&self, partition: &Partition) -> Result<Arc<dyn DiskFile>, Defect> {
        let path = &partition.manifest.data_path;
        let storage = |error| Defect::storage("open", path, &error);
        let file = self.disk.open(&self.root.join(path), Open::Read).map_err(storage)?;
        let mark = FileMark::from(file.stat().map_err(storage)?);
        if mark == partition.index.mark {
            return Ok(file);
        }
        Err(Defect {
            subtype: CHANGED_WHILE_READ.to_owned(),
            ..Defect::storage("read", path, &std::io::Error::other("it changed meanwhile"))
        })
    }

    /// The bytes of one record.
    pub fn read(
        &self,
        file: &dyn DiskFile,
        partition: &Partition,
        at: RecordAt,
    ) -> Result<Vec<u8>, Defect> {
        read_range(file, at.offset, at.len as usize)
            .map_err(|error| Defect::storage("read", &partition.manifest.data_path, &error))
    }

    /// Streams the verified lines of a partition.
    pub fn lines(&self, partition: &Partition) -> Result<Lines, Defect> {
        let file = self.open(partition)?;
        let len = match partition.manifest.bytes {
            Some(bytes) => bytes,
            None => {
                file.stat()
                    .map_err(|error| {
                        Defect::storage("inspect", &partition.manifest.data_path, &error)
                    })?
                    .len
            }
        };
        Ok(Lines::new(file, len))
    }

    fn mentions(&self, path: &str, id: &str, budget: &mut u64) -> bool {
        let Ok(file) = self.disk.open(&self.root.join(path), Open::Read) else { return false };
        let len = file.stat().map_or(0, |stat| stat.len);
        if len > *budget {
            return false;
        }
        *budget -= len;
        let needle = serde_json::to_string(id).unwrap_or_default().into_bytes();
        let mut lines = Lines::new(file, len);
        while let Ok(Some((_, line))) = lines.next_line() {
            if line.windows(needle.len()).any(|window| window == needle) {
                return true;
            }
        }
        false
    }

    /// Brings the list of partitions up to date when the folders changed, or when `force` says so.
    fn list(&self, family: Family, shelf: &mut Shelf, force: bool) -> Result<(), Defect> {
        let folders = [family.manifest_dir(), family.data_dir()];
        let mut marks = [None, None];
        for (mark, folder) in marks.iter_mut().zip(folders) {
            *mark = self.mark(folder)?;
        }
        if !force && shelf.listed == Some(marks) {
            return Ok(());
        }
        let mut slots: BTreeMap<String, Slot> = BTreeMap::new();
        for name in self.names(folders[1])? {
            if let Some(partition) = family.partition_of_data(&name) {
                slots.entry(partition.to_owned()).or_default();
            }
        }
        for name in self.names(folders[0])? {
            let Some(partition) = family.partition_of_manifest(&name) else { continue };
            let slot = slots.entry(partition.to_owned()).or_default();
            let preferred = family.manifest_names(partition)[0] == name;
            if preferred || slot.manifest_name.is_none() {
                slot.manifest_name = Some(name);
            }
        }
        for (name, slot) in &mut slots {
            let known = shelf.slots.get(name);
            let current = self.marks(family, name, slot.manifest_name.as_deref())?;
            if let Some(known) = known
                && known.manifest_name == slot.manifest_name
                && known.marks == current
            {
                *slot = known.clone();
            } else {
                slot.marks = current;
            }
        }
        shelf.slots = slots;
        shelf.listed = Some(marks);
        Ok(())
    }

    fn names(&self, folder: &str) -> Result<Vec<String>, Defect> {
        match self.disk.list(&self.root.join(folder)) {
            Ok(names) => Ok(names),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(Defect::storage("list", folder, &error)),
        }
    }

    fn mark(&self, path: &str) -> Result<Option<FileMark>, Defect> {
        let stat = self.disk.stat(&self.root.join(path));
        let stat = stat.map_err(|error| Defect::storage("inspect", path, &error))?;
        Ok(stat.map(FileMark::from))
    }

    fn marks(
        &self,
        family: Family,
        partition: &str,
        manifest_name: Option<&str>,
    ) -> Result<Option<(FileMark, Option<FileMark>)>, Defect> {
        let Some(name) = manifest_name else { return Ok(None) };
        let manifest = self.mark(&format!("{}/{name}", family.manifest_dir()))?;
        let data = self.mark(&family.data_path(partition))?;
        Ok(manifest.map(|manifest| (manifest, data)))
    }

    fn search(
        &self,
        shelves: &mut Shelves,
        family: Family,
        section: Section,
        ids: &[&str],
        prefer: &[String],
    ) -> Vec<Option<Hit>> {
        let slots = shelves.families.get(&family).map(|shelf| &shelf.slots);
        let names: Vec<String> =
            slots.into_iter().flat_map(|slots| slots.keys().rev().cloned()).collect();
        let preferred = prefer.iter().filter(|name| names.contains(name));
        let order: Vec<&String> =
            preferred.chain(names.iter().filter(|name| !prefer.contains(name))).collect();

        let mut found: Vec<Option<Hit>> = vec![None; ids.len()];
        let mut wanted: HashMap<IdKey, Vec<usize>> = HashMap::with_capacity(ids.len());
        for (index, id) in ids.iter().enumerate() {
            wanted.entry(IdKey::of(id)).or_default().push(index);
        }
        for name in order {
            if wanted.is_empty() {
                break;
            }
            // A broken partition is remembered in its slot; only an id found nowhere asks why.
            let Ok(mut partition) = self.ready(shelves, family, name, false) else { continue };
            let mut hits = matches(&partition.index, section, &wanted);
            if !hits.is_empty() {
                // Only a partition that is about to be used is looked at on disk again.
                let Ok(current) = self.ready(shelves, family, name, true) else { continue };
                if !Arc::ptr_eq(&current.index, &partition.index) {
                    hits = matches(&current.index, section, &wanted);
                }
                partition = current;
            }
            for (key, places) in hits {
                for index in wanted.remove(&key).unwrap_or_default() {
                    let (partition, places) = (partition.clone(), places.clone());
                    found[index] = Some(Hit { partition, places });
                }
            }
        }
        found
    }

    fn ready(
        &self,
        shelves: &mut Shelves,
        family: Family,
        name: &str,
        look_again: bool,
    ) -> Result<Partition, Defect> {
        let slots = shelves.families.get_mut(&family).map(|shelf| &mut shelf.slots);
        let Some(slot) = slots.and_then(|slots| slots.get_mut(name)) else {
            return Err(self.no_manifest(family, name));
        };
        let Some(manifest_name) = slot.manifest_name.clone() else {
            let defect = self.no_manifest(family, name);
            slot.defect = Some(Arc::new(defect.clone()));
            return Err(defect);
        };
        let known = slot.defect.is_some() || slot.manifest.is_some();
        let current = match known && !look_again {
            true => slot.marks,
            false => self.marks(family, name, Some(&manifest_name))?,
        };
        let changed = current != slot.marks;
        if changed {
            *slot = Slot {
                manifest_name: Some(manifest_name.clone()),
                marks: current,
                ..Slot::default()
            };
        }
        if let Some(defect) = &slot.defect {
            return Err(Defect::clone(defect));
        }
        let outcome = self.load(slot, family, name, &manifest_name, changed, &mut shelves.cache);
        if let Err(defect) = &outcome
            && defect.reason != ReasonCode::Unavailable
        {
            slot.defect = Some(Arc::new(defect.clone()));
        }
        outcome
    }

    fn load(
        &self,
        slot: &mut Slot,
        family: Family,
        name: &str,
        manifest_name: &str,
        changed: bool,
        cache: &mut IndexCache,
    ) -> Result<Partition, Defect> {
        let manifest = match &slot.manifest {
            Some(manifest) => Arc::clone(manifest),
            None => {
                let manifest = Arc::new(self.read_manifest(family, name, manifest_name)?);
                slot.manifest = Some(Arc::clone(&manifest));
                manifest
            }
        };
        let key = store_key(Path::new(&manifest.data_path));
        if changed {
            cache.remove(&key);
        }
        let data_mark = slot.marks.and_then(|(_, data)| data);
        let fits = |index: &PartitionIndex| {
            index.manifest_sha256 == manifest.sha256 && Some(index.mark) == data_mark
        };
        if let Some(index) = cache.get(&key).filter(|index| fits(index)) {
            return Ok(Partition { manifest, index });
        }
        let index = match self.stored(&key)?.filter(|index| fits(index)) {
            Some(index) => index,
            None => {
                let index = partition::verify(self.disk.as_ref(), &self.root, &manifest)?;
                self.store
                    .put(&key, &index.encode())
                    .map_err(|error| Defect::storage("write the index of", &key, &error))?;
                index
            }
        };
        let index = Arc::new(index);
        cache.put(&key, Arc::clone(&index));
        Ok(Partition { manifest, index })
    }

    fn stored(&self, key: &str) -> Result<Option<PartitionIndex>, Defect> {
        let bytes = self.store.get(key);
        let bytes = bytes.map_err(|error| Defect::storage("read the index of", key, &error))?;
        Ok(bytes.and_then(|bytes| PartitionIndex::decode(&bytes)))
    }

    fn read_manifest(
        &self,
        family: Family,
        partition: &str,
        name: &str,
    ) -> Result<PartitionManifest, Defect> {
        let relative = format!("{}/{name}", family.manifest_dir());
        let path = self.root.join(&relative);
        let storage = |error| Defect::storage("read", &relative, &error);
        let len = self.disk.stat(&path).map_err(storage)?.map_or(0, |stat| stat.len);
        if len > MANIFEST_BYTES_MAX {
            let summary = format!("{len} bytes are more than a manifest may have");
            let (family, code) = (family.artifact_family(), family.schema_subtype());
            return Err(Defect::schema(code, family, None, &[], summary, relative));
        }
        match self.disk.read_if_present(&path).map_err(storage)? {
            Some(bytes) => manifest::parse(family, partition, name, &bytes),
            None => Err(self.no_manifest(family, partition)),
        }
    }

    fn no_manifest(&self, family: Family, partition: &str) -> Defect {
        let path = family.manifest_path(partition);
        Defect::missing(
            family.missing_manifest_subtype(),
            "manifest",
            &path,
            &path,
            ReasonCode::MissingUpstreamManifest,
        )
    }
}

/// The wanted ids a table holds, by whichever side is the smaller to walk.
fn matches(
    index: &PartitionIndex,
    section: Section,
    wanted: &HashMap<IdKey, Vec<usize>>,
) -> Vec<(IdKey, Vec<RecordAt>)> {
    let table = index.table(section);
    if wanted.len() * 8 < table.len() {
        return wanted
            .keys()
            .map(|key| (*key, index.find(section, *key).collect::<Vec<_>>()))
            .filter(|(_, places)| !places.is_empty())
            .collect();
    }
    let mut found: Vec<(IdKey, Vec<RecordAt>)> = Vec::new();
    for (key, at) in table {
        match found.last_mut() {
            Some((last, places)) if last == key => places.push(*at),
            _ if wanted.contains_key(key) => found.push((*key, vec![*at])),
            _ => {}
        }
    }
    found
}

fn unknown_id(family: Family, id: &str, broken: usize) -> Defect {
    let bus = family.bus();
    let mut defect = Defect::missing(
        "UNKNOWN_SOURCE_ID",
        "source id",
        family.data_dir(),
        family.manifest_dir(),
        ReasonCode::UnknownSourceId,
    );
    defect.message = format!("{bus} holds no {id}");
    if broken > 0 {
        defect.message.push_str(&format!(" ({broken} partitions could not be read)"));
    }
    defect.details["source_id"] = id.into();
    defect
}
