//! One build: choose, stage, validate, commit, publish.
//!
//! Contract. Readers see a bag only after everything is valid. Bags are staged and checked one by
//! one while their facts are committed to the log. The fact that makes them count is committed
//! last; then the staged folders are renamed into place and the indexes are exchanged. A failure
//! before that last fact publishes nothing and leaves a run record that says how to see the failure
//! again; everything published before stays. A build that finds nothing to change writes nothing.
//!
//! A build that fails removes its staged files, unless a check refused them: those stay to be looked at
//! until the next build begins. A build that has too little room on the disk does not begin.
//!
//! A published bag is never written again. The values that its id does not determine are those of
//! its first publication.
//!
//! See docs/adr/0041-bags-stored-with-their-files.md and docs/adr/0136-room-on-the-disk.md.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use chrono_tz::Tz;
use serde_json::{Value, json};

use super::bag::{BagFiles, BagItem, BagState, BuildStamp, NewBag, draft_id, window_facts};
use super::became_private;
use super::catalog::{self, Catalog, Changes, Reason, Retirement};
use super::choose::{BagDraft, Matcher};
use super::library::{Library, Unit};
use super::open_tasks::OpenTasks;
use super::parallel::in_parallel;
use super::project::ProjectRules;
use super::publish::{DigestError, Digests, disk_error, write_files};
use super::run::{BuildAccount, BuildFailure};
use super::selector::{Selector, Selectors};
use crate::contract::digest_bus::{INDEX_DIR, PROMOTION_FOLLOWS, REGISTRY_FILE};
use crate::contract::ids::Seq;
use crate::contract::time::{Day, Timestamp};
use crate::contract::vocabulary::{ErrorClass, Stream};
use crate::export::publish::PublishError;
use crate::export::run_record::Environment;
use crate::export::summary_bus::{PartitionKey, SUMMARIES_DIR};
use crate::facts::digest::{
    BagFacts, BagsCollected, BuildFinished, BuildPublished, BuildStarted, DigestFact,
};
use crate::facts::window::Window;
use crate::log::{ReadError, Reader};
use crate::os::Disk;
use crate::state::event::{Event, Note};
use crate::verify::{self, Expected, Report};

/// Windows examined before the new bags in them are written.
const JOBS_AT_ONCE: usize = 64;
/// New bags rendered before their facts are committed.
const BAGS_AT_ONCE: usize = 64;
/// Bytes that a summary of a new bag takes, about: in the files of the bag, and in the log.
const SUMMARY_ROOM: u64 = 16 << 10;
/// Most violations that a run record lists.
const VIOLATIONS_LISTED: usize = 20;

/// The log did not take a note.
#[derive(Debug, Clone, thiserror::Error)]
#[error("commit the build to the log: {0}")]
pub struct JournalError(pub String);

/// Commits facts to the log.
pub trait Journal {
    fn now(&self) -> Timestamp;
    /// Makes notes durable, in order and in one commit. Returns the position of the first and their
    /// time.
    fn note(&mut self, notes: Vec<Note>) -> Result<(Seq, Timestamp), JournalError>;
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BuildOrder {
    pub run_id: String,
    /// `service` or the command that asked.
    pub trigger: String,
    /// Builds only this selector.
    pub selector: Option<String>,
    /// Builds only windows with this label.
    pub window: Option<String>,
    /// Examines every window, even those in which nothing changed.
    pub all: bool,
    /// Writes a run record even when nothing changed.
    pub record: bool,
    /// The caller builds again when the Summary Bus is behind, so that this is no failure.
    pub waits: bool,
}

pub struct BuildSettings<'a> {
    pub selectors: &'a Selectors,
    /// The time zone of selectors that name none.
    pub zone: Tz,
    pub threads: usize,
    /// Free bytes that a build leaves on the disk, for the log.
    pub keeps_free: u64,
    /// Version of this program.
    pub engine_version: &'a str,
    pub environment: Environment,
    /// The build stops when this is set.
    pub stop: &'a AtomicBool,
    /// Receives how many windows are done, and how many there are.
    pub progress: &'a (dyn Fn(u64, u64) + Sync),
}

#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
pub struct BuildReport {
    pub run_id: String,
    /// True when there was nothing to change.
    pub unchanged: bool,
    pub windows: u64,
    pub published: u64,
    /// Bags that were published already.
    pub unchanged_bags: u64,
    /// Bags that left the indexes.
    pub retired: u64,
    /// Retired bags that were published again.
    pub restored: u64,
    /// Bags whose files were damaged or missing and were written again from the log.
    pub rewritten: u64,
    /// Retired bags that were removed, because a source of theirs became private.
    pub removed: u64,
    pub memos: u64,
    pub summaries: u64,
    /// The new bags: folder and title.
    pub bags: Vec<(String, String)>,
}

/// Why a build published nothing.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// The file of selectors does not read.
    #[error("{0}")]
    Selectors(String),
    /// The order names an unknown selector; the message lists the known ones.
    #[error("{0}")]
    UnknownSelector(String),
    #[error(transparent)]
    Log(#[from] ReadError),
    #[error(transparent)]
    Digest(#[from] DigestError),
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The Summary Bus does not yet contain a summary that the log contains.
    #[error("{path} does not list every summary of its day yet")]
    SummariesBehind { path: String },
    #[error("read summary {summary_id}: {why}")]
    Item { summary_id: String, why: String },
    /// The staged files break a rule of the contract.
    #[error("validate the staged bags: {first}")]
    Invalid {
        first: String,
        /// The violations, up to the number that a record lists.
        violations: Vec<Value>,
    },
    /// The published indexes belong to another log, and this log has no build yet.
    #[error("the published indexes belong to another log: run `summarizer digest build` first")]
    IndexIsForeign,
    #[error("the build was stopped")]
    Stopped,
    #[error(
        "the disk of {path} has {} MiB free: the build needs about {} MiB more than the {} MiB of \
         commit.disk_headroom",
        free >> 20,
        (needed >> 20) + 1,
        keeps >> 20
    )]
    NoRoom {
        path: String,
        free: u64,
        /// Bytes that the build writes, about.
        needed: u64,
        /// Bytes that stay free.
        keeps: u64,
    },
}

impl BuildError {
    fn failing(&self, stage: &'static str, staged: &str) -> BuildFailure {
        let mut details = json!({});
        let (class, subtype, hint) = match self {
            BuildError::Invalid { violations, .. } => {
                details["staged"] = staged.into();
                details["violations"] = json!(violations);
                details["check"] =
                    "each violation names rule, file and place below `staged`".into();
                let hint = "look at the staged files; nothing was published";
                (ErrorClass::PublishFailure, "VALIDATION_FAILED", hint)
            }
            BuildError::SummariesBehind { .. } => {
                let hint = "publish the Summary Bus, then build again";
                (ErrorClass::InputMissing, "SUMMARIES_BEHIND", hint)
            }
            BuildError::Item { .. } => {
                let hint = "`summarizer verify` lists what is wrong with the Summary Bus";
                (ErrorClass::SchemaMismatch, "SUMMARY_ITEM", hint)
            }
            BuildError::Digest(DigestError::NotAtomic { .. })
            | BuildError::Digest(DigestError::Index(PublishError::NotAtomic { .. })) => {
                let hint = "keep the whole bus home on one file system that can swap two names";
                (ErrorClass::PublishFailure, "NOT_ATOMIC", hint)
            }
            BuildError::Stopped => {
                (ErrorClass::PublishFailure, "STOPPED", "build again; nothing was published")
            }
            BuildError::Digest(_) | BuildError::Log(_) | BuildError::Journal(_) => {
                let hint = "see that the disk is writable and has room, then build again";
                (ErrorClass::StorageUnavailable, "STORAGE", hint)
            }
            BuildError::NoRoom { .. } => {
                let hint = "free some space, then build again; `summarizer digest gc` helps";
                (ErrorClass::StorageUnavailable, "NO_ROOM", hint)
            }
            BuildError::IndexIsForeign => {
                (ErrorClass::InputMissing, "INDEX_IS_FOREIGN", "`summarizer digest build`")
            }
            BuildError::Selectors(_) => {
                let hint = "correct the file, then `summarizer registry check` and build again";
                (ErrorClass::SchemaMismatch, "SELECTORS", hint)
            }
            BuildError::UnknownSelector(_) => (
                ErrorClass::InputMissing,
                "UNKNOWN_SELECTOR",
                "`summarizer registry check` lists them",
            ),
        };
        let mut message = self.to_string();
        let mut source = std::error::Error::source(self);
        while let Some(cause) = source {
            message = format!("{message}: {cause}");
            source = cause.source();
        }
        BuildFailure { class, subtype, stage, message, details, hint }
    }
}

struct WindowJob<'a> {
    selector: &'a Selector,
    hash: &'a str,
    matcher: &'a Matcher<'a>,
    window: Window,
}

/// Whether the bag of a draft exists.
enum BagStanding {
    Live,
    /// Its bag is retired but still has files.
    Retired,
    New(Box<BagDraft>),
}

struct WindowResult {
    candidates: u64,
    selected: u64,
    drafts: Vec<(String, Option<String>, BagStanding)>,
}

pub(crate) struct Build<'a> {
    digests: &'a mut Digests,
    log: &'a Reader,
    settings: &'a BuildSettings<'a>,
    journal: &'a mut dyn Journal,
    order: &'a BuildOrder,
    account: BuildAccount,
    stage: &'static str,
    /// Time of the fact that the build began.
    noted: Option<Timestamp>,
    /// True once the fact is committed that makes the bags count.
    counts: bool,
    /// True once the run record is committed. A later error does not change how the build ended.
    ended: bool,
    stamp: Option<BuildStamp>,
    manifests: BTreeMap<(Stream, Day), (String, u64)>,
    new: Vec<(Seq, BagFacts)>,
    /// Summaries in the new bags, each as often as it is in one.
    new_places: u64,
    report: BuildReport,
}

pub fn build(
    digests: &mut Digests,
    library: &Library,
    log: &Reader,
    settings: &BuildSettings<'_>,
    journal: &mut dyn Journal,
    order: &BuildOrder,
) -> Result<BuildReport, BuildError> {
    let mut build = Build::new(digests, log, settings, journal, order);
    match build.run(library) {
        Ok(()) => Ok(build.report),
        Err(error) => Err(build.failed(error)),
    }
}

/// Records that a build could not begin, and returns why.
pub fn refuse(
    digests: &mut Digests,
    log: &Reader,
    settings: &BuildSettings<'_>,
    journal: &mut dyn Journal,
    order: &BuildOrder,
    why: BuildError,
) -> BuildError {
    Build::new(digests, log, settings, journal, order).failed(why)
}

impl<'a> Build<'a> {
    fn new(
        digests: &'a mut Digests,
        log: &'a Reader,
        settings: &'a BuildSettings<'a>,
        journal: &'a mut dyn Journal,
        order: &'a BuildOrder,
    ) -> Build<'a> {
        let now = journal.now();
        let account =
            BuildAccount::new(&order.run_id, &order.trigger, now, settings.environment.clone());
        let report = BuildReport { run_id: order.run_id.clone(), ..BuildReport::default() };
        Build {
            digests,
            log,
            settings,
            journal,
            order,
            account,
            stage: "input_resolution",
            noted: None,
            counts: false,
            ended: false,
            stamp: None,
            manifests: BTreeMap::new(),
            new: Vec::new(),
            new_places: 0,
            report,
        }
    }

    fn reach(&mut self, stage: &'static str) {
        self.stage = stage;
        let now = self.journal.now();
        self.account.reach(stage, now);
    }

    fn run(&mut self, library: &Library) -> Result<(), BuildError> {
        self.reach("input_resolution");
        self.digests.read(None)?;
        self.digests.check_atomic()?;
        self.digests.look_again(self.order.all);
        self.report.summaries = library.units().len() as u64;
        let (order, settings) = (self.order, self.settings);
        if let Some(wanted) = &order.selector
            && !settings.selectors.active().any(|selector| selector.selector_id == *wanted)
        {
            return Err(BuildError::UnknownSelector(settings.selectors.none_is(wanted)));
        }
        let active: Vec<(&Selector, String)> = settings
            .selectors
            .active()
            .filter(|one| order.selector.as_ref().is_none_or(|id| *id == one.selector_id))
            .map(|selector| (selector, selector.hash().hex()))
            .collect();
        let open_tasks = OpenTasks::of(library, &self.digests.catalog().words());
        let matchers: Vec<Matcher<'_>> = active
            .iter()
            .map(|(selector, _)| Matcher::new(library, &open_tasks, selector, settings.zone))
            .collect();
        let mut jobs = Vec::new();
        let mut whole = BTreeSet::new();
        let considered = self.digests.catalog().considered();
        let is_changed = |unit: &&Unit| {
            unit.seq > considered
                || open_tasks.moved_after(unit, considered)
                || library.moved_after(unit, considered)
        };
        let changed: Vec<&Unit> = library.units().iter().filter(is_changed).collect();
        for ((selector, hash), matcher) in active.iter().zip(&matchers) {
            let (windows, full) = self.windows(library, &changed, selector, hash, matcher);
            if full {
                whole.insert(selector.selector_id.as_str());
            }
            jobs.extend(windows.into_iter().map(|window| WindowJob {
                selector,
                hash,
                matcher,
                window,
            }));
        }
        self.report.windows = jobs.len() as u64;
        self.reach("selection");
        let mut produced = BTreeSet::new();
        let mut changes = Changes::default();
        // Windows that need a new bag. All of them are known, and their summaries are published, before
        // the first is written: a build that must wait has written nothing.
        let mut fresh: Vec<&WindowJob<'_>> = Vec::new();
        (settings.progress)(0, self.report.windows);
        for part in jobs.chunks(JOBS_AT_ONCE) {
            self.give_up_if_told()?;
            fresh.extend(self.examine(library, &open_tasks, part, &mut produced, &mut changes)?);
        }
        let needed = self.new_places * SUMMARY_ROOM;
        self.check_room(needed, needed)?;
        let mut done = self.report.windows - fresh.len() as u64;
        for part in fresh.chunks(JOBS_AT_ONCE) {
            self.give_up_if_told()?;
            (settings.progress)(done, self.report.windows);
            self.write_new(library, &open_tasks, part)?;
            done += part.len() as u64;
        }
        (settings.progress)(done, self.report.windows);
        self.retire(&jobs, &whole, &produced, &mut changes);
        self.report.retired = changes.retired.len() as u64;
        self.report.restored = changes.restored.len() as u64;
        self.report.published = self.new.len() as u64;
        self.report.unchanged =
            self.new.is_empty() && changes.retired.is_empty() && changes.restored.is_empty();
        match self.report.unchanged {
            true => self.finish_unchanged(library),
            false => self.finish(library, changes),
        }
    }

    fn give_up_if_told(&self) -> Result<(), BuildError> {
        match self.settings.stop.load(Ordering::Acquire) {
            true => Err(BuildError::Stopped),
            false => Ok(()),
        }
    }

    /// Refuses to write `next` bytes where too few would stay free. The next build needs as much as `needed`.
    fn check_room(&self, next: u64, needed: u64) -> Result<(), BuildError> {
        let keeps = self.settings.keeps_free;
        let (path, free) = self.digests.free_bytes()?;
        match self.new_places > 0 && free < next.saturating_add(keeps) {
            true => Err(BuildError::NoRoom { path, free, needed, keeps }),
            false => Ok(()),
        }
    }

    /// The windows to examine, and whether they are all windows of the selector.
    fn windows(
        &self,
        library: &Library,
        changed: &[&Unit],
        selector: &Selector,
        hash: &str,
        matcher: &Matcher<'_>,
    ) -> (Vec<Window>, bool) {
        let catalog = self.digests.catalog();
        let print = fingerprint(hash, matcher.zone(), &self.settings.selectors.rules());
        let known = catalog.selectors().get(&selector.selector_id) == Some(&print);
        let full = self.order.all || self.order.selector.is_some() || !known;
        let mut windows = match full || self.order.window.is_some() {
            true => matcher.windows(library.units().iter()),
            false => matcher.windows(changed.iter().copied()),
        };
        if let Some(label) = &self.order.window {
            windows.retain(|window| window.label() == *label);
        }
        (windows, full && self.order.window.is_none())
    }

    /// Examines some windows. Returns those that need a new bag; every summary of such a bag is
    /// published.
    fn examine<'j, 'm>(
        &mut self,
        library: &Library,
        open_tasks: &OpenTasks,
        jobs: &'j [WindowJob<'m>],
        produced: &mut BTreeSet<String>,
        changes: &mut Changes,
    ) -> Result<Vec<&'j WindowJob<'m>>, BuildError> {
        let catalog = self.digests.catalog();
        let looked =
            in_parallel(jobs, self.settings.threads, |job| look(library, open_tasks, catalog, job));
        let mut fresh = Vec::new();
        for (job, looked) in jobs.iter().zip(looked) {
            self.account.count("selection", "candidates", looked.candidates);
            self.account.count("selection", "selected", looked.selected);
            self.account.count("selection", "windows", 1);
            let mut has_new = false;
            for (bag_id, group, standing) in looked.drafts {
                let key = (job.selector.selector_id.clone(), job.window.label(), group);
                let before = self.digests.catalog().standing(&key);
                if let Some(before) = before.filter(|before| before.facts.bag_id != bag_id) {
                    changes.retired.push(Retirement {
                        bag_id: before.facts.bag_id.clone(),
                        reason: Reason::Superseded,
                        superseded_by: Some(bag_id.clone()),
                    });
                }
                match standing {
                    BagStanding::Live => self.report.unchanged_bags += 1,
                    BagStanding::Retired => changes.restored.push(bag_id.clone()),
                    BagStanding::New(draft) => {
                        has_new = true;
                        self.new_places += draft.units.len() as u64;
                        for place in &draft.units {
                            let unit = &library.units()[*place as usize];
                            self.manifest(unit.stream, unit.day, unit.seq)?;
                        }
                    }
                }
                produced.insert(bag_id);
            }
            fresh.extend(has_new.then_some(job));
        }
        Ok(fresh)
    }

    /// Writes the new bags of some windows. The windows are examined again, because the new bags of all
    /// windows together may be too large for the memory.
    fn write_new(
        &mut self,
        library: &Library,
        open_tasks: &OpenTasks,
        jobs: &[&WindowJob<'_>],
    ) -> Result<(), BuildError> {
        let catalog = self.digests.catalog();
        let looked =
            in_parallel(jobs, self.settings.threads, |job| look(library, open_tasks, catalog, job));
        let mut fresh = Vec::new();
        for (job, looked) in jobs.iter().zip(looked) {
            for (_, _, standing) in looked.drafts {
                if let BagStanding::New(draft) = standing {
                    fresh.push((*job, draft));
                }
            }
        }
        for part in fresh.chunks(BAGS_AT_ONCE) {
            self.give_up_if_told()?;
            self.write(library, open_tasks, part)?;
        }
        Ok(())
    }

    /// Stages, checks and commits new bags.
    fn write(
        &mut self,
        library: &Library,
        open_tasks: &OpenTasks,
        fresh: &[(&WindowJob<'_>, Box<BagDraft>)],
    ) -> Result<(), BuildError> {
        self.begin()?;
        self.reach("staging");
        let Some(stamp) = &self.stamp else { return Ok(()) };
        let (stamp, log, disk) = (stamp, self.log, self.digests.disk().as_ref());
        let staging = self.digests.staging(&self.order.run_id);
        // The estimate at the beginning may have been too low.
        self.check_room(0, 2 * self.new_places * SUMMARY_ROOM)?;
        let written = in_parallel(fresh, self.settings.threads, |(job, draft)| {
            write_bag((library, open_tasks), log, disk, &staging, stamp, job, draft)
        });
        let mut notes = Vec::with_capacity(fresh.len());
        let mut facts = Vec::with_capacity(fresh.len());
        for one in written {
            let (bag, files, report) = one?;
            self.stage = "validation";
            valid(&report)?;
            self.stage = "staging";
            self.account.count("staging", "files", files.len() as u64);
            self.account.count("staging", "bags", 1);
            self.account.bags.push((bag.path(), bag.trace_sha256.hex()));
            self.report.memos += bag.memos.len() as u64;
            self.report.bags.push((bag.path(), bag.title.clone()));
            let fact = DigestFact::Bag(Box::new(bag.without_words()));
            notes.push(Note::with_body(Event::Digest(fact), to_json(&files)?));
            facts.push(bag);
        }
        let (first, _) = self.journal.note(notes)?;
        self.new.extend(facts.into_iter().zip(first.0..).map(|(bag, seq)| (Seq(seq), bag)));
        Ok(())
    }

    /// Commits the fact that the build began. All files of the build carry the time of that fact.
    fn begin(&mut self) -> Result<(), BuildError> {
        if self.noted.is_some() {
            return Ok(());
        }
        let started = DigestFact::Started(BuildStarted {
            run_id: self.order.run_id.clone(),
            trigger: self.order.trigger.clone(),
        });
        let note = Note::new(Event::Digest(started));
        let (_, at) = self.journal.note(vec![note])?;
        self.noted = Some(at);
        self.stamp = Some(BuildStamp {
            run_id: self.order.run_id.clone(),
            created_at: at.to_string(),
            registry_hash: self.settings.selectors.hash().hex(),
            engine_version: self.settings.engine_version.to_owned(),
            manifests: self.manifests.iter().map(|(key, (hash, _))| (*key, hash.clone())).collect(),
        });
        // The files that a check refused before give way.
        self.digests.sweep_staging(true)?;
        Ok(())
    }

    /// Reads the manifest of a partition, which must cover the summary at position `of`.
    fn manifest(&mut self, stream: Stream, day: Day, of: Seq) -> Result<(), BuildError> {
        let key = PartitionKey { stream, day };
        let path = format!("{SUMMARIES_DIR}/{}", key.manifest_file());
        if let Some((_, sequence)) = self.manifests.get(&(stream, day)) {
            return match *sequence >= of.0 {
                true => Ok(()),
                false => Err(BuildError::SummariesBehind { path }),
            };
        }
        let Some(manifest) = self.digests.manifest(key)? else {
            return Err(BuildError::SummariesBehind { path });
        };
        self.manifests.insert((stream, day), manifest);
        self.account.count("input_resolution", "manifests", 1);
        self.manifest(stream, day, of)
    }

    /// Retires the bags that no draft of this build stands for.
    fn retire(
        &self,
        jobs: &[WindowJob<'_>],
        whole: &BTreeSet<&str>,
        produced: &BTreeSet<String>,
        changes: &mut Changes,
    ) {
        let visited: BTreeSet<(&str, String)> = jobs
            .iter()
            .map(|job| (job.selector.selector_id.as_str(), job.window.label()))
            .collect();
        let active: BTreeSet<&str> =
            self.settings.selectors.active().map(|one| one.selector_id.as_str()).collect();
        let unrestricted = self.order.selector.is_none() && self.order.window.is_none();
        let superseded: BTreeSet<String> =
            changes.retired.iter().map(|retirement| retirement.bag_id.clone()).collect();
        for entry in self.digests.catalog().live() {
            let facts = &entry.facts;
            if produced.contains(&facts.bag_id) || superseded.contains(&facts.bag_id) {
                continue;
            }
            let selector = facts.selector_id.as_str();
            let looked_at = whole.contains(selector)
                || visited.contains(&(selector, facts.window.label.clone()));
            let reason = if unrestricted && !active.contains(selector) {
                Reason::SelectorGone
            } else if looked_at {
                Reason::NoLongerSelected
            } else {
                continue;
            };
            let bag_id = facts.bag_id.clone();
            changes.retired.push(Retirement { bag_id, reason, superseded_by: None });
        }
    }

    fn finish_unchanged(&mut self, library: &Library) -> Result<(), BuildError> {
        // Files may be missing or changed, for example after somebody edited them.
        self.report.rewritten = self.digests.publish(None, None)?.bags as u64;
        self.collect_private(library, &HashSet::new())?;
        if self.order.record {
            self.begin()?;
            self.end(library)?;
        }
        Ok(())
    }

    fn finish(&mut self, library: &Library, changes: Changes) -> Result<(), BuildError> {
        self.begin()?;
        self.reach("validation");
        self.validate_as_a_set(&changes)?;
        let retired = changes.retired.iter().map(|one| one.bag_id.clone()).collect();
        let staging = self.digests.staging(&self.order.run_id);
        if !self.new.is_empty() {
            self.digests.disk().sync_tree(&staging).map_err(disk_error("sync", &staging))?;
        }
        let published = DigestFact::Published(BuildPublished {
            run_id: self.order.run_id.clone(),
            bags: self.new.len() as u64,
        });
        let note = Note::with_body(Event::Digest(published), to_json(&changes)?);
        self.journal.note(vec![note])?;
        self.counts = true;
        self.reach("promotion");
        let promoted = self.digests.publish(None, Some(&staging))?.bags;
        self.report.rewritten = promoted.saturating_sub(self.new.len()) as u64;
        self.reach("index_update");
        self.collect_private(library, &retired)?;
        self.account.promoted = true;
        self.account.indexes = self.digests.index_hashes()?;
        self.end(library)?;
        self.digests.disk().remove_dir_all(&staging).map_err(disk_error("remove", &staging))?;
        Ok(())
    }

    /// Removes what must not stay readable before the log says that this build considered it: a build
    /// that is cut short leaves it to the next one.
    fn collect_private(
        &mut self,
        library: &Library,
        just_retired: &HashSet<String>,
    ) -> Result<(), BuildError> {
        let bags = became_private::retired_bags(self.digests, library, just_retired)?;
        remove_bags(self.digests, self.journal, &self.order.run_id, &bags)?;
        self.report.removed = bags.len() as u64;
        Ok(())
    }

    /// Checks that the indexes that would follow are consistent, and that every bag they name is
    /// staged or published.
    fn validate_as_a_set(&self, changes: &Changes) -> Result<(), BuildError> {
        let mut next: Catalog = self.digests.catalog().clone();
        let change = catalog::IndexChange {
            seq: Seq(u64::MAX),
            at: self.journal.now(),
            log_head: String::new(),
        };
        next.apply(self.new.clone(), changes.clone(), change);
        let files = super::index::render(&next).map_err(DigestError::Record)?;
        let staging = self.digests.staging(&self.order.run_id);
        let folder = staging.join(INDEX_DIR);
        let disk = self.digests.disk();
        disk.make_dirs(&folder).map_err(disk_error("create", &folder))?;
        for (name, bytes) in &files {
            let path = folder.join(name);
            disk.remove_file(&path).map_err(disk_error("remove", &path))?;
            let file = disk.open(&path, crate::os::Open::CreateNew(0o640));
            let written = file.and_then(|file| file.write_all_at(bytes, 0));
            written.map_err(disk_error("write", &path))?;
        }
        let mut report = Report::default();
        verify::verify_indexes(disk.as_ref(), &folder, &mut report)
            .map_err(disk_error("read", &folder))?;
        valid(&report)?;
        for entry in next.live() {
            let path = entry.facts.path();
            let staged = staging.join(&path).join("meta/trace.json");
            let there = self.digests.is_there(&path)?
                || disk.stat(&staged).map_err(disk_error("inspect", &staged))?.is_some();
            if !there {
                let file = format!("{INDEX_DIR}/{REGISTRY_FILE}");
                let message = format!("the registry would name {path}, which does not exist");
                report.break_rule(&verify::rules::DIGEST_DANGLING, &file, None, "", message);
            }
        }
        valid(&report)?;
        disk.remove_dir_all(&folder).map_err(disk_error("remove", &folder))?;
        Ok(())
    }

    fn considered(&self, library: &Library) -> Option<Seq> {
        let unrestricted = self.order.selector.is_none() && self.order.window.is_none();
        unrestricted.then_some(library.read_to())
    }

    fn selectors(&self) -> BTreeMap<String, String> {
        let zone = self.settings.zone;
        let rules = self.settings.selectors.rules();
        let print = |selector: &Selector| {
            let zone = selector.zone(zone).unwrap_or(zone);
            (selector.selector_id.clone(), fingerprint(&selector.hash().hex(), zone, &rules))
        };
        self.settings.selectors.active().map(print).collect()
    }

    /// Commits the run record of a successful build.
    fn end(&mut self, library: &Library) -> Result<(), BuildError> {
        let considered = self.considered(library);
        self.account.started = self.noted.unwrap_or(self.account.started);
        let record = self.account.record(Some(self.journal.now()), None);
        let (day, row) = self.account.row(&record).map_err(DigestError::Record)?;
        let finished = BuildFinished {
            run_id: self.order.run_id.clone(),
            ok: true,
            day,
            row,
            considered,
            selectors: considered.map(|_| self.selectors()).unwrap_or_default(),
        };
        let body = record.to_bytes().map_err(DigestError::Record)?;
        let fact = DigestFact::Finished(Box::new(finished));
        let note = Note::with_body(Event::Digest(fact), body);
        self.journal.note(vec![note])?;
        self.ended = true;
        self.digests.publish(None, None)?;
        Ok(())
    }

    fn remove_staged(&self) {
        let staging = self.digests.staging(&self.order.run_id);
        if let Err(error) = self.digests.disk().remove_dir_all(&staging) {
            tracing::warn!(%error, "the files of a failed build stay until the next build");
        }
    }

    /// Records a failure as far as possible and returns it.
    fn failed(&mut self, error: BuildError) -> BuildError {
        // The caller builds again, and this build wrote nothing: it found out before it began.
        let waits = matches!(error, BuildError::SummariesBehind { .. }) && self.order.waits;
        let has_no_room = matches!(error, BuildError::NoRoom { .. }) && self.noted.is_none();
        if matches!(error, BuildError::UnknownSelector(_)) || waits || has_no_room || self.ended {
            return error;
        }
        // First of all: what follows writes to the disk, which may be full.
        if !matches!(error, BuildError::Invalid { .. }) {
            self.remove_staged();
        }
        let staged = self.digests.staged_name(&self.order.run_id);
        let mut failing = error.failing(self.stage, &staged);
        if self.counts {
            // From this fact on the bags are published, even if this process dies now.
            failing.details[PROMOTION_FOLLOWS] = true.into();
            failing.hint = "the log holds these bags: the next start or build puts them in place";
        }
        self.account.reach(failing.stage, self.journal.now());
        if self.begin().is_err() && self.noted.is_none() {
            return error;
        }
        self.account.started = self.noted.unwrap_or(self.account.started);
        let record = self.account.record(Some(self.journal.now()), Some(&failing));
        let Ok((day, row)) = self.account.row(&record) else { return error };
        let finished = BuildFinished {
            run_id: self.order.run_id.clone(),
            ok: false,
            day,
            row,
            considered: None,
            selectors: BTreeMap::new(),
        };
        let Ok(body) = record.to_bytes() else { return error };
        let fact = DigestFact::Finished(Box::new(finished));
        let note = Note::with_body(Event::Digest(fact), body);
        if self.journal.note(vec![note]).is_ok() {
            let written = self.digests.read(None).and_then(|()| self.digests.write_records());
            if let Err(second) = written {
                tracing::warn!(error = %second, "the run record of a failed build could not be written; it is only in the log");
            }
        }
        error
    }
}

/// Records that retired bags are removed, and removes them.
pub(super) fn remove_bags(
    digests: &mut Digests,
    journal: &mut dyn Journal,
    run_id: &str,
    bags: &[String],
) -> Result<(), BuildError> {
    if bags.is_empty() {
        return Ok(());
    }
    let collected = BagsCollected { run_id: run_id.to_owned(), bags: bags.len() as u64 };
    let fact = DigestFact::Collected(collected);
    journal.note(vec![Note::with_body(Event::Digest(fact), to_json(&bags)?)])?;
    digests.publish(None, None)?;
    Ok(())
}

/// Ends a build whose process died.
pub fn close_crashed(
    digests: &mut Digests,
    journal: &mut dyn Journal,
    environment: &Environment,
) -> Result<Option<String>, BuildError> {
    digests.read(None)?;
    let Some(open) = digests.catalog().open().cloned() else { return Ok(None) };
    let run_id = open.started.run_id.clone();
    let mut account =
        BuildAccount::new(&run_id, &open.started.trigger, open.at, environment.clone());
    let failing = if open.published {
        // Its bags count and are in place. Only its run record is missing.
        for stage in super::run::STAGES {
            account.reach(stage, open.at);
        }
        let own = digests.catalog().entries().values().filter(|one| one.facts.run_id == run_id);
        account.bags = own.map(|one| (one.facts.path(), one.facts.trace_sha256.hex())).collect();
        account.promoted = true;
        account.indexes = digests.index_hashes()?;
        None
    } else {
        account.reach("staging", open.at);
        Some(BuildFailure {
            class: ErrorClass::PublishFailure,
            subtype: "CRASHED",
            stage: "staging",
            message: "the process ended before the build did".to_owned(),
            details: json!({}),
            hint: "build again; nothing of it was published",
        })
    };
    let record = account.record(None, failing.as_ref());
    let (day, row) = account.row(&record).map_err(DigestError::Record)?;
    let finished = BuildFinished {
        run_id: run_id.clone(),
        ok: failing.is_none(),
        day,
        row,
        considered: None,
        selectors: BTreeMap::new(),
    };
    let body = record.to_bytes().map_err(DigestError::Record)?;
    let fact = DigestFact::Finished(Box::new(finished));
    let note = Note::with_body(Event::Digest(fact), body);
    journal.note(vec![note])?;
    digests.publish(None, None)?;
    Ok(Some(run_id))
}

/// The fingerprint includes the zone because the zone decides the day of a summary, and the rules
/// of the home because they decide its project.
fn fingerprint(hash: &str, zone: Tz, rules: &ProjectRules) -> String {
    match rules.is_default() {
        true => format!("{hash} {}", zone.name()),
        false => format!("{hash} {} {}", zone.name(), rules.hash().hex()),
    }
}

fn to_json<T: serde::Serialize>(value: &T) -> Result<Vec<u8>, BuildError> {
    Ok(serde_json::to_vec(value).map_err(DigestError::Record)?)
}

fn look(
    library: &Library,
    open_tasks: &OpenTasks,
    catalog: &Catalog,
    job: &WindowJob<'_>,
) -> WindowResult {
    let choice = job.matcher.choose(&job.window);
    let facts = window_facts(&job.window, job.matcher.zone());
    let mut looked = WindowResult {
        candidates: choice.candidates,
        selected: choice.matched,
        drafts: Vec::new(),
    };
    for draft in choice.drafts {
        let unit = |place: &u32| library.units()[*place as usize].summary_id();
        let ids: Vec<String> = draft.units.iter().map(unit).collect();
        let group = draft.group.as_ref();
        let state = BagState::of(job.selector, library, open_tasks, &draft.units);
        let (bag_id, _) = draft_id(job.selector, job.hash, &facts, group, &ids, &state);
        let group = group.map(|group| group.key.clone());
        let standing = match catalog.entries().get(&bag_id) {
            Some(entry) if entry.retired.is_none() => BagStanding::Live,
            Some(_) => BagStanding::Retired,
            None => BagStanding::New(Box::new(draft)),
        };
        looked.drafts.push((bag_id, group, standing));
    }
    looked
}

type WrittenBag = (BagFacts, BagFiles, Report);

fn write_bag(
    (library, open_tasks): (&Library, &OpenTasks),
    log: &Reader,
    disk: &dyn Disk,
    staging: &Path,
    stamp: &BuildStamp,
    job: &WindowJob<'_>,
    draft: &BagDraft,
) -> Result<WrittenBag, BuildError> {
    let mut items = Vec::with_capacity(draft.units.len());
    for place in &draft.units {
        items.push(read_item(library, open_tasks, log, *place)?);
    }
    let bag = NewBag {
        selector: job.selector,
        selector_hash: job.selector.hash(),
        zone: job.matcher.zone(),
        window: &job.window,
        draft,
        items: &items,
        state: BagState::of(job.selector, library, open_tasks, &draft.units),
    };
    let (facts, files) = bag.render(stamp).map_err(DigestError::Record)?;
    let folder = staging.join(facts.path());
    write_files(disk, &folder, &files)?;
    let expected = Expected {
        path: facts.path(),
        bag_id: facts.bag_id.clone(),
        bag_type: facts.bag_type.as_str().to_owned(),
        bag_meta_sha256: Some(facts.bag_meta_sha256.hex()),
        trace_sha256: Some(facts.trace_sha256.hex()),
        published_memos: Some(facts.memos.len() as u64),
        entry: Value::Null,
    };
    let mut report = Report::default();
    verify::verify_bag(disk, &folder, &expected, None, &mut report)
        .map_err(disk_error("read back", &folder))?;
    Ok((facts, files, report))
}

pub(super) fn read_item(
    library: &Library,
    open_tasks: &OpenTasks,
    log: &Reader,
    place: u32,
) -> Result<BagItem, BuildError> {
    let unit = &library.units()[place as usize];
    let body = log.body(unit.seq).map_err(ReadError::Log)?;
    let body = body.ok_or(ReadError::no_body(unit.seq))?;
    let tags = library.tags_of(unit).iter().map(|tag| library.tags.word(*tag).to_owned());
    let project = unit.project.map(|project| library.projects.word(project).to_owned());
    let summary_id = unit.summary_id();
    let mut item = BagItem::read(&body, tags.collect(), project)
        .map_err(|why| BuildError::Item { summary_id: summary_id.clone(), why })?;
    item.memo.is_doubtful |= open_tasks.doubts(library, unit);
    for task in &mut item.memo.tasks {
        task.closed = open_tasks.closed(library, unit, task.id);
    }
    item.memo.finish(open_tasks.closings(unit));
    match item.memo.summary_id == summary_id {
        true => Ok(item),
        false => {
            let why = format!("its line has the summary_id {:?}", item.memo.summary_id);
            Err(BuildError::Item { summary_id, why })
        }
    }
}

fn valid(report: &Report) -> Result<(), BuildError> {
    let Some(first) = report.violations.first() else { return Ok(()) };
    let violations = report.violations.iter().take(VIOLATIONS_LISTED).map(|one| json!(one));
    Err(BuildError::Invalid {
        first: format!("{}: {}: {}", first.file, first.rule, first.message),
        violations: violations.collect(),
    })
}
