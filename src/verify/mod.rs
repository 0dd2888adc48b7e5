//! Checking a bus home from its files alone: ours or somebody else's, with no log and no service.
//!
//! Contract: every violation is listed with its file, line, JSON pointer, rule and class; nothing
//! stops at the first. Files are streamed; files, and the lines of a large one, are spread over
//! threads, and the report is in the order of files and lines whatever thread found what. What is absent is not checked, and the
//! report says so.
//!
//! What this deliberately does not do: judge the quality of a summary or of a memo, or repair
//! anything.

mod bags;
mod digests;
mod feeds;
mod files;
mod index_entries;
mod line;
mod rebuilt_indexes;
pub mod rules;
mod runs;
pub(crate) mod spread;
mod summaries;
mod upstream;

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use serde::Serialize;

use crate::contract::digest_bus::{DIGESTS_DIR, INDEX_DIR};
use crate::contract::vocabulary::ErrorClass;
use crate::export::feed::FEEDS_DIR;
use crate::export::run_record::RUN_ROWS_DIR;
use crate::export::summary_bus::{PartitionKey, SUMMARIES_DIR};
use crate::os::{Disk, can_never_be_read};
use crate::upstream::other::OTHER_DIR;
use crate::upstream::{Family, MemoryIndex, Upstream};
use rules::Rule;
use spread::Helpers;

/// An upstream bus that nothing here reads.
const CLUSTERS_DIR: &str = "clusters";
/// Violations that are listed; the rest are counted.
pub(crate) const VIOLATIONS_LISTED_MAX: usize = 10_000;

/// One thing that does not hold.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Violation {
    /// The file, relative to the bus home.
    pub file: String,
    /// 1-based line, where there is one.
    pub line: Option<u64>,
    /// JSON pointer into the record, empty for the record itself.
    pub pointer: String,
    pub rule: &'static str,
    pub class: ErrorClass,
    pub message: String,
}

/// What was checked and what does not hold.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Files looked at.
    pub files: u64,
    /// Lines looked at.
    pub lines: u64,
    pub bytes: u64,
    /// Violations found, also those not listed.
    pub violations_total: u64,
    /// Violations, by file and line.
    pub violations: Vec<Violation>,
    /// What could not be checked, and why.
    pub unchecked: Vec<String>,
    /// What a person took back, as the log of the home says.
    pub(crate) forgotten: Vec<Gone>,
    /// Lines of requests and of the quarantine that a person took back.
    pub(crate) forgotten_lines: u64,
    /// Runs of other programs that a person took back.
    pub(crate) forgotten_runs: u64,
    /// Sources that cannot be read and may lie in a broken partition, which is told where it lies.
    #[serde(skip)]
    unread: Vec<Violation>,
    /// The first thing that the disk would not give.
    #[serde(skip)]
    failed: Option<String>,
}

/// A summary that a person took back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Gone {
    pub(crate) summary_id: String,
    /// The file that held it, relative to the bus home.
    pub(crate) file: String,
    /// The day on which it was forgotten.
    pub(crate) day: String,
}

impl Report {
    fn file(&mut self, bytes: u64) {
        self.files += 1;
        self.bytes += bytes;
    }

    /// Adds a violation of a rule.
    pub(crate) fn break_rule(
        &mut self,
        rule: &'static Rule,
        file: &str,
        line: Option<u64>,
        pointer: &str,
        message: String,
    ) {
        self.violations_total += 1;
        if self.violations.len() < VIOLATIONS_LISTED_MAX {
            self.violations.push(Violation {
                file: file.to_owned(),
                line,
                pointer: pointer.to_owned(),
                rule: rule.id,
                class: rule.class,
                message,
            });
        }
    }

    fn merge(&mut self, other: Report) {
        self.files += other.files;
        self.lines += other.lines;
        self.bytes += other.bytes;
        self.violations_total += other.violations_total;
        let room = VIOLATIONS_LISTED_MAX - self.violations.len();
        self.violations.extend(other.violations.into_iter().take(room));
        self.unchecked.extend(other.unchecked);
        let room = VIOLATIONS_LISTED_MAX - self.unread.len();
        self.unread.extend(other.unread.into_iter().take(room));
        self.failed = self.failed.take().or(other.failed);
    }

    /// Tells sources that cannot be read, unless a broken partition is told already: it is why, then.
    fn tell_unread(&mut self) {
        let unread = std::mem::take(&mut self.unread);
        let of_sources = [rules::SUMMARY_SOURCES.id, rules::SUMMARY_HASH.id];
        let upstream = Family::ALL.iter().flat_map(|one| [one.data_dir(), one.manifest_dir()]);
        let folders: Vec<&str> = upstream.chain([SUMMARIES_DIR]).collect();
        let is_broken = |one: &Violation| {
            let lies_in = |folder: &&str| one.file.starts_with(*folder);
            folders.iter().any(lies_in) && !of_sources.contains(&one.rule)
        };
        if self.violations.iter().any(is_broken) {
            return;
        }
        self.violations_total += unread.len() as u64;
        let room = VIOLATIONS_LISTED_MAX - self.violations.len();
        self.violations.extend(unread.into_iter().take(room));
    }
}

/// How much to check.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    pub threads: usize,
    /// Whether text hashes and references are recomputed from upstream.
    pub sources: bool,
}

impl Task {
    /// The file that is checked, or the folder.
    fn place(&self) -> String {
        match self {
            Task::Upstream(family, partition) => family.data_path(partition),
            Task::Summaries(key) => format!("{SUMMARIES_DIR}/{}", key.data_file()),
            Task::StrayManifest(path) | Task::Run(path) | Task::Selection(path) => path.clone(),
            Task::RunDay(day) => format!("{RUN_ROWS_DIR}/{day}.jsonl"),
            Task::Feed(name) => format!("{FEEDS_DIR}/{name}"),
            Task::Indexes => INDEX_DIR.to_owned(),
            Task::Bag(expected) => expected.path.clone(),
        }
    }
}

enum Task {
    Upstream(Family, String),
    Summaries(PartitionKey),
    StrayManifest(String),
    Run(String),
    RunDay(String),
    Selection(String),
    Feed(String),
    Indexes,
    Bag(bags::Expected),
}

/// What every check is given.
struct Tree<'a> {
    disk: &'a dyn Disk,
    root: &'a Path,
    upstream: Option<&'a Upstream>,
    summaries: std::sync::OnceLock<Option<files::KnownSummaries>>,
}

/// Checks everything under a bus home. `progress` gets the bytes read so far.
pub fn verify_tree(
    disk: &Arc<dyn Disk>,
    root: &Path,
    options: Options,
    progress: &(dyn Fn(u64) + Sync),
) -> io::Result<Report> {
    let upstream = Upstream::new(Arc::clone(disk), root, Arc::new(MemoryIndex::default()));
    let mut report = Report::default();
    let has = |folder: &str| is_dir(disk.as_ref(), &root.join(folder));
    let known = Family::ALL.iter().any(|family| has(family.manifest_dir()));
    if options.sources && !known {
        let why = match has(OTHER_DIR) {
            true => {
                "the bus `other` is the only one here, and its files may change at any time; \
                 `summarizer explain ID --verify` compares the text of one summary"
            }
            false => "no upstream bus is here",
        };
        report.unchecked.push(format!("texts of sources: {why}"));
    }
    if has(DIGESTS_DIR) && !has(SUMMARIES_DIR) {
        report.unchecked.push("summaries of digests: there is no Summary Bus here".to_owned());
    }
    if is_dir(disk.as_ref(), &root.join(CLUSTERS_DIR)) {
        report.unchecked.push("clusters: no summary is made from them".to_owned());
    }
    let tree = Tree {
        disk: disk.as_ref(),
        root,
        upstream: (options.sources && known).then_some(&upstream),
        summaries: std::sync::OnceLock::new(),
    };
    let tasks = tasks(&tree, &upstream)?;
    let threads = options.threads.max(1);
    let helpers = Helpers::of(threads);
    let next = AtomicUsize::new(0);
    let read = Mutex::new(0_u64);
    let reports: Mutex<Vec<(usize, io::Result<Report>)>> = Mutex::new(Vec::new());
    let (all, at, total, outcomes) = (&tasks, &next, &read, &reports);
    let tree = &tree;
    std::thread::scope(|scope| {
        for helpers in std::iter::repeat_n(helpers, threads) {
            scope.spawn(move || {
                loop {
                    let index = at.fetch_add(1, Ordering::Relaxed);
                    let Some(task) = all.get(index) else { break };
                    let outcome = check(tree, task, &helpers);
                    let bytes = outcome.as_ref().map_or(0, |report| report.bytes);
                    let read = {
                        let mut total = total.lock();
                        *total += bytes;
                        *total
                    };
                    progress(read);
                    outcomes.lock().push((index, outcome));
                }
                helpers.help();
            });
        }
    });
    let mut reports = reports.into_inner();
    reports.sort_by_key(|(index, _)| *index);
    for (_, outcome) in reports {
        report.merge(outcome?);
    }
    runs::check_rows(tree, &mut report)?;
    report.tell_unread();
    report.violations.sort();
    match report.failed.take() {
        Some(what) => Err(io::Error::other(what)),
        None => Ok(report),
    }
}

pub use bags::{Expected, verify_bag};
pub use digests::verify_indexes;
pub use summaries::Gate;

/// Every file below a folder, by its path in it; hidden ones are not there yet.
pub(crate) fn read_files(
    disk: &dyn Disk,
    folder: &Path,
    bytes_max: u64,
) -> io::Result<std::collections::BTreeMap<String, Vec<u8>>> {
    let mut found = std::collections::BTreeMap::new();
    files::read_files(disk, folder, "", bytes_max, &mut found)?;
    Ok(found)
}

/// Checks one thing. A pipe or a folder in the place of a file is no failure of the disk.
fn check<'t>(tree: &'t Tree<'t>, task: &Task, helpers: &Helpers<'t>) -> io::Result<Report> {
    let mut report = Report::default();
    match check_readable(tree, task, helpers, &mut report) {
        Err(error) if can_never_be_read(&error) => {
            let message = format!("it, or what belongs to it, cannot be read: {error}");
            report.break_rule(&rules::READABLE, &task.place(), None, "", message);
        }
        checked => checked?,
    }
    Ok(report)
}

fn check_readable<'t>(
    tree: &'t Tree<'t>,
    task: &Task,
    helpers: &Helpers<'t>,
    report: &mut Report,
) -> io::Result<()> {
    match task {
        Task::Upstream(family, partition) => {
            upstream::check(tree, *family, partition, helpers, report)?;
        }
        Task::Summaries(key) => {
            let summaries = tree.root.join(SUMMARIES_DIR);
            summaries::check(tree.disk, &summaries, *key, tree.upstream, helpers, report)?;
        }
        Task::StrayManifest(path) => {
            let message = "this name belongs to no partition".to_owned();
            report.file(0);
            report.break_rule(&rules::MANIFEST_NAME, path, None, "", message);
        }
        Task::Run(path) => runs::check_record(tree, path, report)?,
        Task::RunDay(name) => runs::check_day(tree, name, report)?,
        Task::Selection(path) => runs::check_selection(tree, path, report)?,
        Task::Feed(name) => feeds::check(tree, name, report)?,
        Task::Indexes => digests::check(tree, report)?,
        Task::Bag(expected) => {
            let known = digests::known(tree)?;
            let folder = tree.root.join(&expected.path);
            bags::verify_bag(tree.disk, &folder, expected, known, report)?;
        }
    }
    Ok(())
}

fn tasks(tree: &Tree<'_>, upstream: &Upstream) -> io::Result<Vec<Task>> {
    let mut tasks = Vec::new();
    let mut keys = std::collections::BTreeSet::new();
    for stream in crate::contract::vocabulary::Stream::ALL {
        for name in names(tree, &format!("{SUMMARIES_DIR}/{stream}"))? {
            keys.extend(PartitionKey::of_data(&name).filter(|key| key.stream == *stream));
        }
    }
    for name in names(tree, &format!("{SUMMARIES_DIR}/manifest"))? {
        match PartitionKey::of_manifest(&name) {
            Some(key) => drop(keys.insert(key)),
            None if name.starts_with('.') => {}
            None => tasks.push(Task::StrayManifest(format!("{SUMMARIES_DIR}/manifest/{name}"))),
        }
    }
    tasks.extend(keys.into_iter().map(Task::Summaries));
    for family in Family::ALL {
        let partitions = upstream.partitions(family).map_err(io::Error::other)?;
        tasks.extend(partitions.into_iter().map(|name| Task::Upstream(family, name)));
    }
    for name in names(tree, crate::export::run_record::RUN_RECORDS_DIR)? {
        if name.ends_with(".run_record.json") && !name.starts_with('.') {
            tasks.push(Task::Run(format!("{}/{name}", crate::export::run_record::RUN_RECORDS_DIR)));
        }
    }
    let mut days = std::collections::BTreeSet::new();
    for name in names(tree, RUN_ROWS_DIR)? {
        let stem = name.strip_suffix(".manifest.json").or_else(|| name.strip_suffix(".jsonl"));
        days.extend(stem.filter(|stem| !stem.starts_with('.')).map(str::to_owned));
    }
    tasks.extend(days.into_iter().map(Task::RunDay));
    for name in names(tree, "selection_manifests")? {
        if name.ends_with(".json") && !name.starts_with('.') {
            tasks.push(Task::Selection(format!("selection_manifests/{name}")));
        }
    }
    tasks.extend(feeds::feeds(tree)?.into_iter().map(Task::Feed));
    tasks.push(Task::Indexes);
    tasks.extend(digests::bags(tree)?.into_iter().map(Task::Bag));
    Ok(tasks)
}

fn names(tree: &Tree<'_>, folder: &str) -> io::Result<Vec<String>> {
    match tree.disk.list(&tree.root.join(folder)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        other => other,
    }
}

fn is_dir(disk: &dyn Disk, path: &Path) -> bool {
    disk.stat(path).is_ok_and(|stat| stat.is_some_and(|stat| stat.is_dir))
}
