//! The upstream buses as one place to look ids up: which partitions there are, which of them can
//! be trusted, and where an id lies.
//!
//! Contract: nothing is read that does not match its manifest. Partitions are verified when they
//! are first needed and again when their manifest or data file changed; a broken one is remembered
//! with its defect and fails only what needs it. An id that occurs in several partitions is taken
//! from the last one. What is in memory of the tables is bounded; they live in the [`IndexStore`].

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use super::beneath;
use super::defect::Defect;
use super::family::Family;
use super::index::{IdKey, IndexStore, Lost, Pages, PartitionIndex, RecordAt, Section, store_key};
use super::lines::{Lines, read_range};
use super::manifest::{self, PartitionManifest};
use super::partition;
use crate::contract::vocabulary::ReasonCode;
use crate::facts::failure::ErrorDetails;
use crate::os::{Disk, DiskFile, FileVersion};

/// Memory for the heads of the tables, enough for some twenty million ids; with more, heads are
/// read from the store when they are needed.
const HEADS_BYTES_MAX: usize = 32 << 20;
/// Bytes of broken partitions searched to say which one an unknown id belongs to.
const ATTRIBUTION_BYTES_MAX: u64 = 256 << 20;
/// How often lost pages are made again for one search: in a store that fails meanwhile, the first time may be for
/// nothing.
const REBUILDS_MAX: usize = 3;
/// The subtype of a read that lost a race with upstream; starting over heals it.
pub(super) const CHANGED_WHILE_READ: &str = "UPSTREAM_CHANGED_WHILE_READ";
/// Manifests larger than this are not read.
const MANIFEST_BYTES_MAX: u64 = 16 << 20;

/// Read access to the upstream buses under one bus home.
pub struct Upstream {
    disk: Arc<dyn Disk>,
    root: PathBuf,
    store: Arc<dyn IndexStore>,
    known: Mutex<KnownPartitions>,
}

#[derive(Default)]
struct FamilyPartitions {
    listed: Option<[Option<FileVersion>; 2]>,
    slots: BTreeMap<String, Slot>,
}

struct KnownPartitions {
    families: BTreeMap<Family, FamilyPartitions>,
    pages: Pages,
    /// Bytes of the heads that the slots hold.
    heads: usize,
}

impl KnownPartitions {
    /// Keeps the head of a slot in memory; when there are too many, the others go.
    fn hold(&mut self, family: Family, name: &str, index: &Arc<PartitionIndex>) {
        let slots = self.families.values_mut().flat_map(|partitions| partitions.slots.values_mut());
        if self.heads + index.weight() > HEADS_BYTES_MAX {
            slots.for_each(|slot| slot.index = None);
            self.heads = 0;
        }
        if let Some(slot) = self.slot(family, name) {
            slot.index = Some(Arc::clone(index));
            self.heads += index.weight();
        }
    }

    fn slot(&mut self, family: Family, name: &str) -> Option<&mut Slot> {
        self.families.get_mut(&family)?.slots.get_mut(name)
    }
}

#[derive(Clone, Default)]
struct Slot {
    manifest_name: Option<String>,
    marks: Option<(FileVersion, Option<FileVersion>)>,
    manifest: Option<Arc<PartitionManifest>>,
    index: Option<Arc<PartitionIndex>>,
    defect: Option<Arc<Defect>>,
}

/// A partition whose data matches its manifest.
#[derive(Clone)]
pub struct Partition {
    pub manifest: Arc<PartitionManifest>,
    pub index: Arc<PartitionIndex>,
}

/// Where an id was found.
#[derive(Clone)]
pub struct Hit {
    /// In which partition.
    pub partition: Partition,
    /// Where in its data file; one place for a record, one per chunk for a document.
    pub places: Box<[RecordAt]>,
}

impl Upstream {
    /// Opens the buses under `root`. Nothing is read yet.
    pub fn new(
        disk: Arc<dyn Disk>,
        root: impl Into<PathBuf>,
        store: Arc<dyn IndexStore>,
    ) -> Upstream {
        let pages = Pages::new(Arc::clone(&store));
        let known = KnownPartitions { families: BTreeMap::new(), pages, heads: 0 };
        Upstream { disk, root: root.into(), store, known: Mutex::new(known) }
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The disk it reads through.
    pub fn disk(&self) -> &dyn Disk {
        self.disk.as_ref()
    }

    /// Every partition of a family, sorted, manifested or not.
    pub fn partitions(&self, family: Family) -> Result<Vec<String>, Defect> {
        let mut known = self.known.lock();
        let partitions = known.families.entry(family).or_default();
        self.list(family, partitions, true)?;
        Ok(partitions.slots.keys().cloned().collect())
    }

    /// One verified partition, or the defect that makes it unreadable.
    pub fn partition(&self, family: Family, name: &str) -> Result<Partition, Defect> {
        let mut known = self.known.lock();
        self.list(family, known.families.entry(family).or_default(), true)?;
        self.ready(&mut known, family, name, true)
    }

    /// A partition as it was when the folders were last looked at.
    pub fn known(&self, family: Family, name: &str) -> Result<Partition, Defect> {
        let mut known = self.known.lock();
        self.list(family, known.families.entry(family).or_default(), false)?;
        self.ready(&mut known, family, name, false)
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
        let mut known = self.known.lock();
        self.list(family, known.families.entry(family).or_default(), false)?;
        let (mut found, mut unread) = self.search(&mut known, family, section, ids, prefer);
        if found.iter().any(Option::is_none) {
            // Perhaps something was published since the folders were listed.
            self.list(family, known.families.entry(family).or_default(), true)?;
            (found, unread) = self.search(&mut known, family, section, ids, prefer);
        }
        match unread {
            // A partition that could not be read may hold the id, and may be readable later.
            Some(defect) if found.iter().any(Option::is_none) => Err(defect),
            _ => Ok(found),
        }
    }

    /// Where the last record of a partition lies that belongs to a whole.
    pub(crate) fn last_part(
        &self,
        partition: &Partition,
        whole: &str,
    ) -> Result<Option<(Partition, RecordAt)>, Defect> {
        let PartitionManifest { family, partition: name, .. } = &*partition.manifest;
        let wanted = [(IdKey::of(whole), 0)];
        let known = &mut self.known.lock();
        let (partition, hits) = self.search_one(known, *family, Section::Wholes, name, &wanted)?;
        let last = hits.first().and_then(|(_, places)| places.last().copied());
        Ok(last.map(|last| (partition, last)))
    }

    /// Why an id was not found: the defect of the broken partition that holds it, or that no
    /// partition has it.
    pub(crate) fn explain_absence(&self, family: Family, id: &str) -> Defect {
        let known = self.known.lock();
        let empty = BTreeMap::new();
        let slots = known.families.get(&family).map_or(&empty, |partitions| &partitions.slots);
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
        // A partition whose data file is missing may have held the id, so report the missing file.
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
        let gone = || storage(std::io::ErrorKind::NotFound.into());
        let file = beneath::open(self.disk.as_ref(), &self.root, path)?.ok_or_else(gone)?;
        let mark = FileVersion::from(file.stat().map_err(storage)?);
        if mark == partition.index.mark {
            return Ok(file);
        }
        Err(changed_while_read(path))
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
        let opened = beneath::open(self.disk.as_ref(), &self.root, path);
        let Ok(Some(file)) = opened else { return false };
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
    fn list(
        &self,
        family: Family,
        partitions: &mut FamilyPartitions,
        force: bool,
    ) -> Result<(), Defect> {
        let folders = [family.manifest_dir(), family.data_dir()];
        let mut marks = [None, None];
        for (mark, folder) in marks.iter_mut().zip(folders) {
            *mark = self.mark(folder)?;
        }
        if !force && partitions.listed == Some(marks) {
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
            let known = partitions.slots.get(name);
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
        partitions.slots = slots;
        partitions.listed = Some(marks);
        Ok(())
    }

    fn names(&self, folder: &str) -> Result<Vec<String>, Defect> {
        match self.disk.list(&self.root.join(folder)) {
            Ok(names) => Ok(names),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(Defect::storage("list", folder, &error)),
        }
    }

    fn mark(&self, path: &str) -> Result<Option<FileVersion>, Defect> {
        let stat = self.disk.stat(&self.root.join(path));
        let stat = stat.map_err(|error| Defect::storage("inspect", path, &error))?;
        Ok(stat.map(FileVersion::from))
    }

    fn marks(
        &self,
        family: Family,
        partition: &str,
        manifest_name: Option<&str>,
    ) -> Result<Option<(FileVersion, Option<FileVersion>)>, Defect> {
        let Some(name) = manifest_name else { return Ok(None) };
        let manifest = self.mark(&format!("{}/{name}", family.manifest_dir()))?;
        let data = self.mark(&family.data_path(partition))?;
        Ok(manifest.map(|manifest| (manifest, data)))
    }

    fn search(
        &self,
        known: &mut KnownPartitions,
        family: Family,
        section: Section,
        ids: &[&str],
        prefer: &[String],
    ) -> (Vec<Option<Hit>>, Option<Defect>) {
        let slots = known.families.get(&family).map(|partitions| &partitions.slots);
        let names: Vec<String> =
            slots.into_iter().flat_map(|slots| slots.keys().rev().cloned()).collect();
        let preferred = prefer.iter().filter(|name| names.contains(name));
        let order: Vec<&String> =
            preferred.chain(names.iter().filter(|name| !prefer.contains(name))).collect();

        let (mut unread, unavailable) = (None, ReasonCode::Unavailable);
        let mut found: Vec<Option<Hit>> = vec![None; ids.len()];
        let mut wanted: Vec<(IdKey, u32)> =
            (0..).zip(ids).map(|(index, id)| (IdKey::of(id), index)).collect();
        wanted.sort_unstable();
        for name in order {
            if wanted.is_empty() {
                break;
            }
            // A broken partition is remembered in its slot; only an id found nowhere asks why.
            let (partition, hits) = match self.search_one(known, family, section, name, &wanted) {
                Ok(hits) => hits,
                Err(defect) => {
                    unread = unread.or(Some(defect).filter(|one| one.reason == unavailable));
                    continue;
                }
            };
            for (key, places) in &hits {
                let start = wanted.partition_point(|(other, _)| other < key);
                for (_, index) in wanted[start..].iter().take_while(|(other, _)| other == key) {
                    let (partition, places) = (partition.clone(), places.clone());
                    found[*index as usize] = Some(Hit { partition, places });
                }
            }
            if !hits.is_empty() {
                let mut hits = hits.iter().map(|(key, _)| *key).peekable();
                wanted.retain(|(key, _)| {
                    while hits.next_if(|hit| hit < key).is_some() {}
                    hits.peek() != Some(key)
                });
            }
        }
        (found, unread)
    }

    /// Those of the wanted ids, which are sorted, that a partition holds, sorted.
    fn search_one(
        &self,
        known: &mut KnownPartitions,
        family: Family,
        section: Section,
        name: &str,
        wanted: &[(IdKey, u32)],
    ) -> Result<(Partition, Vec<IdPlaces>), Defect> {
        let mut partition = self.ready(known, family, name, false)?;
        let mut hits = self.matches(known, &partition, section, wanted)?;
        if hits.as_ref().is_ok_and(Vec::is_empty) {
            return Ok((partition, Vec::new()));
        }
        // Only a partition that is about to be used is looked at on disk again.
        let current = self.ready(known, family, name, true)?;
        if hits.is_ok() && !Arc::ptr_eq(&current.index, &partition.index) {
            hits = self.matches(known, &current, section, wanted)?;
            partition = current;
        }
        for _ in 0..REBUILDS_MAX {
            if hits.is_ok() {
                break;
            }
            // The store lost pages: what they held is made again.
            self.rebuild(known, family, name)?;
            partition = self.ready(known, family, name, false)?;
            hits = self.matches(known, &partition, section, wanted)?;
        }
        match hits {
            Ok(hits) => Ok((partition, hits)),
            Err(Lost) => {
                let error = std::io::Error::other("its pages are lost as soon as they are written");
                Err(Defect::storage("read the index of", &partition.manifest.data_path, &error))
            }
        }
    }

    /// By whichever side is the smaller to walk.
    fn matches(
        &self,
        known: &mut KnownPartitions,
        partition: &Partition,
        section: Section,
        wanted: &[(IdKey, u32)],
    ) -> Result<Result<Vec<IdPlaces>, Lost>, Defect> {
        let (key, index) = (store_key(&partition.manifest.data_path), &partition.index);
        let storage = |error| Defect::storage("read the index of", &key, &error);
        let mut found: Vec<IdPlaces> = Vec::new();
        if !Pages::walks(index, section, wanted.len()) {
            let mut last = None;
            for (id, _) in wanted {
                if last.replace(*id) == Some(*id) {
                    continue;
                }
                match known.pages.find(&key, index, section, *id).map_err(storage)? {
                    Ok(places) if places.is_empty() => {}
                    Ok(places) => found.push((*id, places.into())),
                    Err(Lost) => return Ok(Err(Lost)),
                }
            }
            return Ok(Ok(found));
        }
        let mut left = wanted.iter().map(|(id, _)| *id).peekable();
        let mut places: Vec<RecordAt> = Vec::new();
        let mut current = None;
        let mut close = |id: Option<IdKey>, places: &mut Vec<RecordAt>| {
            if let Some(id) = id {
                found.push((id, std::mem::take(places).into()));
            }
        };
        let walked = known.pages.walk(&key, index, section, &mut |id, at| {
            if current == Some(id) {
                return places.push(at);
            }
            while left.next_if(|wanted| *wanted < id).is_some() {}
            if left.peek() == Some(&id) {
                close(current.replace(id), &mut places);
                places.push(at);
            }
        });
        let walked = walked.map_err(storage)?;
        close(current, &mut places);
        Ok(walked.map(|()| found))
    }

    /// Verifies a partition again and keeps its pages.
    fn rebuild(
        &self,
        known: &mut KnownPartitions,
        family: Family,
        name: &str,
    ) -> Result<(), Defect> {
        let Some(manifest) = known.slot(family, name).and_then(|slot| slot.manifest.clone()) else {
            return Ok(());
        };
        let index = Arc::new(self.build(&manifest)?);
        known.hold(family, name, &index);
        Ok(())
    }

    fn build(&self, manifest: &PartitionManifest) -> Result<PartitionIndex, Defect> {
        let tables = partition::verify(self.disk.as_ref(), &self.root, manifest)?;
        let key = store_key(&manifest.data_path);
        PartitionIndex::keep(tables, &key, self.store.as_ref())
            .map_err(|error| Defect::storage("write the index of", &key, &error))
    }

    fn ready(
        &self,
        known: &mut KnownPartitions,
        family: Family,
        name: &str,
        look_again: bool,
    ) -> Result<Partition, Defect> {
        let Some(slot) = known.slot(family, name) else {
            return Err(self.no_manifest(family, name));
        };
        let Some(manifest_name) = slot.manifest_name.clone() else {
            let defect = self.no_manifest(family, name);
            slot.defect = Some(Arc::new(defect.clone()));
            return Err(defect);
        };
        let was_read = slot.defect.is_some() || slot.manifest.is_some();
        let current = match was_read && !look_again {
            true => slot.marks,
            false => self.marks(family, name, Some(&manifest_name))?,
        };
        if current != slot.marks {
            let manifest_name = Some(manifest_name.clone());
            *slot = Slot { manifest_name, marks: current, ..Slot::default() };
        }
        if let Some(defect) = &slot.defect {
            return Err(Defect::clone(defect));
        }
        if let (Some(manifest), Some(index)) = (&slot.manifest, &slot.index) {
            let (manifest, index) = (Arc::clone(manifest), Arc::clone(index));
            return Ok(Partition { manifest, index });
        }
        match self.load(slot, family, name, &manifest_name) {
            Ok(partition) => {
                known.hold(family, name, &partition.index);
                Ok(partition)
            }
            Err(defect) => {
                // The tree may be exchanged after its manifest was read: that is no damage.
                let now = self.marks(family, name, Some(&manifest_name))?;
                if now != slot.marks {
                    *slot =
                        Slot { manifest_name: Some(manifest_name), marks: now, ..Slot::default() };
                    return Err(changed_while_read(&family.data_path(name)));
                }
                if defect.reason != ReasonCode::Unavailable {
                    slot.defect = Some(Arc::new(defect.clone()));
                }
                Err(defect)
            }
        }
    }

    /// The index of a partition that is not in memory: as it was kept, when it still fits.
    fn load(
        &self,
        slot: &mut Slot,
        family: Family,
        name: &str,
        manifest_name: &str,
    ) -> Result<Partition, Defect> {
        let manifest = match &slot.manifest {
            Some(manifest) => Arc::clone(manifest),
            None => {
                let manifest = Arc::new(self.read_manifest(family, name, manifest_name)?);
                slot.manifest = Some(Arc::clone(&manifest));
                manifest
            }
        };
        let data_mark = slot.marks.and_then(|(_, data)| data);
        let fits = |index: &PartitionIndex| {
            index.manifest_sha256 == manifest.sha256 && Some(index.mark) == data_mark
        };
        let key = store_key(&manifest.data_path);
        let kept = PartitionIndex::load(&key, self.store.as_ref())
            .map_err(|error| Defect::storage("read the index of", &key, &error))?;
        let index = match kept.filter(fits) {
            Some(index) => index,
            None => self.build(&manifest)?,
        };
        Ok(Partition { manifest, index: Arc::new(index) })
    }

    fn read_manifest(
        &self,
        family: Family,
        partition: &str,
        name: &str,
    ) -> Result<PartitionManifest, Defect> {
        let relative = format!("{}/{name}", family.manifest_dir());
        let storage = |error| Defect::storage("read", &relative, &error);
        let opened = beneath::open(self.disk.as_ref(), &self.root, &relative)?;
        let Some(file) = opened else { return Err(self.no_manifest(family, partition)) };
        let len = file.stat().map_err(storage)?.len;
        if len > MANIFEST_BYTES_MAX {
            let summary = format!("{len} bytes are more than a manifest may have");
            let (family, code) = (family.artifact_family(), family.schema_subtype());
            return Err(Defect::schema(code, family, None, &[], summary, relative));
        }
        let bytes = read_range(file.as_ref(), 0, usize::try_from(len).unwrap_or(usize::MAX));
        manifest::parse(family, partition, name, &bytes.map_err(storage)?)
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

/// An id and its places.
type IdPlaces = (IdKey, Box<[RecordAt]>);

fn changed_while_read(path: &str) -> Defect {
    Defect {
        subtype: CHANGED_WHILE_READ.to_owned(),
        ..Defect::storage("read", path, &std::io::Error::other("it changed meanwhile"))
    }
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
    if let ErrorDetails::Input { source_id, .. } = &mut defect.details {
        *source_id = Some(id.to_owned());
    }
    defect
}
