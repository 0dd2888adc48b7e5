//! `[[watch]]`: folders that a running service takes in by itself.
//!
//! Contract: a file is taken when two looks in a row found the same length and time, so that a file
//! that is still being written is left alone. What was taken is remembered in `run/watched.json`, so
//! that a restart asks for nothing again. Losing that file costs time only: importing the same content
//! adds nothing. A file that a stop left unread is not remembered. A file that could not be taken, wholly or in part, is
//! tried again when it changes, after a reload and after a restart. A reload changes the folders at the next look.
//! A file that a person took back stays out, whatever it says now, until that person adds it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::RwLock;

use super::failure::Failure;
use super::forgotten_files::away;
use super::intake::{ImportedFiles, RequestSettings, rename_for_home, take_in};
use super::source_files::name_for_home;
use super::{Context, names};
use crate::config::{Config, WatchConfig};
use crate::home::Home;
use crate::import::collect::{Skipped, collect_below, files_below, in_short};
use crate::import::{Report, Target};
use crate::projections::runs::described;

/// Time between two looks at the folders.
const PAUSE: Duration = Duration::from_secs(5);
/// How soon a stop is noticed.
const STEP: Duration = Duration::from_millis(100);

/// Files that one look names one by one.
const NAMED_MAX: usize = 20;

/// The section of `run/watched.json` with the files that were forgotten. The name of any other section has a blank.
const LEFT_OUT: &str = "forgotten";

/// Length and time of a file: when either differs, it changed.
type Mark = (u64, String);
type Marks = BTreeMap<String, Mark>;

/// The settings of a watch that runs, replaceable by a reload.
pub(super) type WatchSettings = Arc<RwLock<Arc<Config>>>;

/// The thread that looks at the folders.
pub(super) struct FolderWatch {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl FolderWatch {
    /// Starts looking.
    pub(super) fn start(context: &Context, settings: &WatchSettings, home: &Home) -> FolderWatch {
        let stop = Arc::new(AtomicBool::new(false));
        let (context, settings, home) = (context.clone(), Arc::clone(settings), home.clone());
        let told = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let mut watcher = Watcher::new(&context, &home);
            let mut config = Arc::clone(&settings.read());
            while !told.load(Ordering::Relaxed) {
                watcher.look(&config);
                let mut waited = Duration::ZERO;
                while waited < PAUSE && !told.load(Ordering::Relaxed) {
                    std::thread::sleep(STEP);
                    waited += STEP;
                }
                let now = Arc::clone(&settings.read());
                if !Arc::ptr_eq(&now, &config) {
                    (watcher.failed, config) = (BTreeMap::new(), now);
                }
            }
        });
        FolderWatch { stop, thread: Some(thread) }
    }
}

/// Takes in once what is new in the watched folders, for a command that does not stay. False when
/// something could not be taken; a warning says what.
pub(super) fn take_once(context: &Context, config: &Config, home: &Home) -> Result<bool, Failure> {
    if config.watches.is_empty() {
        context.ui.talk("no folder is watched: `summarizer watch add FOLDER` names one");
        return Ok(true);
    }
    let config = names::with_flow_ids(context, config.clone())?;
    let mut watcher = Watcher::new(context, home);
    watcher.look(&config);
    if !watcher.seen.is_empty() {
        // A file that is being written now has another length or time at the second look.
        std::thread::sleep(PAUSE);
        watcher.look(&config);
    }
    Ok(!watcher.had_trouble)
}

impl Drop for FolderWatch {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has shown its panic already.
            let _ = thread.join();
        }
    }
}

struct Watcher<'a> {
    context: &'a Context,
    home: &'a Home,
    /// By the section: two sections may ask different flows about the same files.
    taken: BTreeMap<String, Marks>,
    /// What could not be taken, until it changes. It is not remembered beyond this run.
    failed: BTreeMap<String, Marks>,
    /// What the last look found.
    seen: Marks,
    /// Folders that could not be looked at, so that each is told once.
    unseen: BTreeSet<PathBuf>,
    had_trouble: bool,
}

impl<'a> Watcher<'a> {
    fn new(context: &'a Context, home: &'a Home) -> Watcher<'a> {
        let bytes = context.machine.disk.read_if_present(&state_file(home)).ok().flatten();
        let taken = bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok());
        Watcher {
            context,
            home,
            taken: taken.unwrap_or_default(),
            failed: BTreeMap::new(),
            seen: Marks::new(),
            unseen: BTreeSet::new(),
            had_trouble: false,
        }
    }

    fn look(&mut self, config: &Config) {
        let before = std::mem::take(&mut self.seen);
        for watch in &config.watches {
            let folder = folder_of(self.home, &watch.folder);
            let Some(found) = self.files(watch, &folder) else { continue };
            let section = section_of(watch, &folder);
            self.tell_gone(&section, &found);
            let is_new = |(path, mark): &(&String, &Mark)| {
                let known = |all: &BTreeMap<String, Marks>| {
                    all.get(&section).and_then(|marks| marks.get(*path)) == Some(*mark)
                };
                !known(&self.taken) && !known(&self.failed)
            };
            let new: Marks = found
                .iter()
                .filter(is_new)
                .map(|(path, mark)| (path.clone(), mark.clone()))
                .collect();
            let ready: Marks = new
                .iter()
                .filter(|(path, mark)| before.get(*path) == Some(*mark))
                .map(|(path, mark)| (path.clone(), mark.clone()))
                .collect();
            if !ready.is_empty() {
                self.take(config, watch, &section, ready);
            }
            self.seen.extend(new);
        }
    }

    fn files(&mut self, watch: &WatchConfig, folder: &Path) -> Option<Marks> {
        let mut found = Marks::new();
        let disk = &*self.context.machine.disk;
        let looked = files_below(disk, self.home, folder, &mut |path, stat| {
            if fits(watch, folder, path) {
                let mark = (stat.len, stat.modified_ns.to_string());
                found.insert(path.display().to_string(), mark);
            }
        });
        match looked {
            Ok(unread) => {
                self.tell_unread(folder, &unread);
                Some(found)
            }
            Err(error) => {
                self.had_trouble = true;
                if self.unseen.insert(folder.to_owned()) {
                    let error = described(&error);
                    tracing::warn!("cannot read the watched folder {}: {error}", folder.display());
                }
                None
            }
        }
    }

    /// Says once which folders and files of a watched folder cannot be read.
    fn tell_unread(&mut self, folder: &Path, unread: &[Skipped]) {
        let before = self.unseen.clone();
        self.unseen.retain(|one| !one.starts_with(folder));
        for one in unread {
            self.had_trouble = true;
            let path = PathBuf::from(&one.name);
            if !before.contains(&path) {
                tracing::warn!("cannot look at {} in a watched folder: {}", one.name, one.why);
            }
            self.unseen.insert(path);
        }
    }

    /// Says which files were left out: those whose text may be lost by their names, and all by their number.
    fn tell_skipped(&mut self, skipped: &[Skipped]) {
        for one in skipped.iter().filter(|one| one.is_named()).take(NAMED_MAX) {
            tracing::warn!("cannot take in {} of a watched folder: {}", one.name, one.told());
        }
        if !skipped.is_empty() {
            tracing::warn!("{} of the watched folders", in_short(skipped));
        }
        self.had_trouble |= skipped.iter().any(Skipped::is_told);
    }

    /// Says once which files of a section are not there any more. Of a folder that cannot be read nothing is known.
    fn tell_gone(&mut self, section: &str, found: &Marks) {
        let unseen = &self.unseen;
        let Some(taken) = self.taken.get_mut(section) else { return };
        let mut gone = 0;
        let mut first = None;
        taken.retain(|path, _| {
            let is_unseen = || unseen.iter().any(|folder| Path::new(path).starts_with(folder));
            let is_there = found.contains_key(path) || is_unseen();
            if !is_there {
                gone += 1;
                first = first.take().or_else(|| Some(path.clone()));
            }
            is_there
        });
        if let Some(first) = first {
            tracing::info!(gone, first, "files of a watched folder are gone; their summaries stay");
            self.remember();
        }
    }

    /// Leaves out the files that a person took back and did not add again. Each is told once.
    fn leave_out_forgotten(&mut self, config: &Config, section: &str, ready: &mut Marks) {
        let (disk, root) = (&*self.context.machine.disk, &self.home.root);
        let away = match away(self.context, self.home, target(self.context, config, self.home)) {
            Ok(away) => away,
            Err(error) => return tracing::warn!("cannot tell which files were forgotten: {error}"),
        };
        let day_of = |path: &str| away.get(&name_for_home(disk, root, Path::new(path))).copied();
        let paths = ready.keys().filter_map(|path| Some((path.clone(), day_of(path)?)));
        for (path, day) in paths.collect::<Vec<_>>() {
            let Some(mark) = ready.remove(&path) else { continue };
            self.taken.entry(section.to_owned()).or_default().insert(path.clone(), mark.clone());
            let left_out = self.taken.entry(LEFT_OUT.to_owned()).or_default();
            if left_out.insert(path.clone(), mark).is_none() {
                tracing::warn!(
                    "{path} was forgotten on {day} and is left out of what a watched folder gives; \
                     `summarizer add` takes it in again"
                );
            }
        }
        self.remember();
    }

    fn take(&mut self, config: &Config, watch: &WatchConfig, section: &str, mut ready: Marks) {
        self.leave_out_forgotten(config, section, &mut ready);
        if ready.is_empty() {
            return;
        }
        if let Some(left_out) = self.taken.get_mut(LEFT_OUT) {
            left_out.retain(|path, _| !ready.contains_key(path));
        }
        match self.import(config, watch, &ready) {
            Ok(taken) => {
                let (files, asked) = (taken.report.files, taken.requests.len());
                tracing::info!(files, asked, "took in files of a watched folder");
                self.tell_skipped(&taken.skipped);
                tell_beside(&taken.report);
                for path in &taken.unread {
                    ready.remove(&path.display().to_string());
                }
                let root = &self.home.root;
                let disk = &*self.context.machine.disk;
                let named = taken.skipped.iter().filter(|one| one.is_named());
                let named: BTreeSet<&str> = named.map(|one| one.name.as_str()).collect();
                let is_named = |path: &String| {
                    // A name is looked up on the disk, and most often there is nothing to look for.
                    !named.is_empty()
                        && named.contains(name_for_home(disk, root, Path::new(path)).as_str())
                };
                let (failed, done): (Marks, Marks) =
                    ready.into_iter().partition(|(path, _)| is_named(path));
                self.failed.entry(section.to_owned()).or_default().extend(failed);
                self.taken.entry(section.to_owned()).or_default().extend(done);
                self.remember();
            }
            Err(error) => {
                self.had_trouble = true;
                tracing::warn!("cannot take in files of a watched folder: {error}");
                self.failed.entry(section.to_owned()).or_default().extend(ready);
            }
        }
    }

    fn import(
        &self,
        config: &Config,
        watch: &WatchConfig,
        ready: &Marks,
    ) -> Result<ImportedFiles, String> {
        let disk = &*self.context.machine.disk;
        let paths: Vec<PathBuf> = ready.keys().map(PathBuf::from).collect();
        let folder = folder_of(self.home, &watch.folder);
        let mut files = collect_below(disk, &folder, &paths);
        rename_for_home(disk, &self.home.root, &mut files);
        if let Some(kind) = &watch.kind {
            files.files.retain(|file| file.kind.group().name() == kind);
        }
        let wish = RequestSettings {
            folders: &[],
            flow: watch.flow.as_deref(),
            project: watch.project.as_deref(),
            again: false,
        };
        take_in(self.context, config, self.home, files, &wish).map_err(|failure| failure.in_short())
    }

    fn remember(&self) {
        let disk = &*self.context.machine.disk;
        let text = serde_json::to_vec(&self.taken).unwrap_or_default();
        if let Err(error) = disk.replace(&state_file(self.home), &text, 0o640) {
            tracing::warn!(%error, "cannot store which files were taken from watched folders");
        }
    }
}

/// Says what an import kept as it was, and what stands beside the texts that it read.
fn tell_beside(report: &Report) {
    for one in report.not_read.iter().take(NAMED_MAX) {
        tracing::warn!("not read: {}, in {} of a watched folder", one.what, one.file);
    }
    let told =
        [report.repeated_ids(), report.kept_texts(), report.kept_projects(), report.one_cells()];
    told.into_iter().flatten().for_each(|told| tracing::warn!("{told}"));
    let unused = report.messages_left_out.told();
    unused.iter().for_each(|told| tracing::info!("part of no summary: {told}"));
}

fn target<'a>(context: &'a Context, config: &Config, home: &'a Home) -> Target<'a> {
    Target {
        disk: &*context.machine.disk,
        root: &home.buses,
        zone: config.timezone,
        now: context.machine.clock.now(),
    }
}

/// The files of watched folders that a person took back, and that wait until that person adds them.
pub(super) fn left_out(context: &Context, config: &Config, home: &Home) -> Vec<String> {
    let disk = &*context.machine.disk;
    let bytes = disk.read_if_present(&state_file(home)).ok().flatten();
    let taken =
        bytes.and_then(|bytes| serde_json::from_slice::<BTreeMap<String, Marks>>(&bytes).ok());
    let paths = taken.and_then(|mut taken| taken.remove(LEFT_OUT)).unwrap_or_default();
    if paths.is_empty() {
        return Vec::new();
    }
    let Ok(away) = away(context, home, target(context, config, home)) else { return Vec::new() };
    let is_there = |path: &String| matches!(disk.stat(Path::new(path)), Ok(Some(_)));
    let names = paths.keys().filter(|path| is_there(path));
    let names = names.map(|path| name_for_home(disk, &home.root, Path::new(path)));
    names.filter(|name| away.contains_key(name)).collect()
}

/// What makes a section take files anew: another folder, other files of it, or another flow.
fn section_of(watch: &WatchConfig, folder: &Path) -> String {
    let parts = [&watch.glob, &watch.kind, &watch.flow].map(|part| part.as_deref().unwrap_or("*"));
    format!("{} {}", folder.display(), parts.join(" "))
}

fn state_file(home: &Home) -> PathBuf {
    home.run().join("watched.json")
}

/// `~` is the folder of the person; a relative folder lies in the home.
pub(super) fn folder_of(home: &Home, folder: &str) -> PathBuf {
    let person = std::env::var_os("HOME").map(PathBuf::from);
    match (folder.strip_prefix("~/"), person) {
        (Some(rest), Some(person)) => person.join(rest),
        _ => home.root.join(folder),
    }
}

fn fits(watch: &WatchConfig, folder: &Path, path: &Path) -> bool {
    let Some(glob) = &watch.glob else { return true };
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let relative = path.strip_prefix(folder).unwrap_or(path).to_string_lossy();
    matches(glob.as_bytes(), name.as_bytes()) || matches(glob.as_bytes(), relative.as_bytes())
}

/// Whether a text fits a pattern: `*` stands for any characters, `?` for one.
fn matches(pattern: &[u8], text: &[u8]) -> bool {
    // Where the last star was, and where its text ended: to try again with a longer one.
    let (mut at, mut place, mut star) = (0, 0, None);
    while place < text.len() {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at, place));
                at += 1;
            }
            Some(c) if *c == b'?' || *c == text[place] => {
                at += 1;
                place += 1;
            }
            _ => match star {
                None => return false,
                Some((of, end)) => {
                    star = Some((of, end + 1));
                    (at, place) = (of + 1, end + 1);
                }
            },
        }
    }
    pattern[at..].iter().all(|c| *c == b'*')
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "a test needs no durable file")]
mod tests {
    use super::*;
    use crate::service::StopSignal;

    /// A stop may come while many files are taken in. A file that was not read then is taken after the restart.
    #[test]
    fn a_file_that_a_stop_left_unread_is_taken_by_the_next_service() {
        let dir = tempfile::tempdir().unwrap();
        let notes = dir.path().join("notes");
        std::fs::create_dir(&notes).unwrap();
        std::fs::write(notes.join("roof.md"), "# Roof\n\nThe roof costs 900 EUR.\n").unwrap();
        std::fs::write(notes.join("no-text.bin"), b"\0\x01\x02").unwrap();
        let text = "[[watch]]\nfolder = \"notes\"\n";
        let config = Config::load(Some(text), &BTreeMap::new(), 1).unwrap();
        let home = Home::new(dir.path(), &config);
        let context =
            |stop: &StopSignal| Context { stop: stop.clone(), ..Context::of_test(dir.path()) };
        let look_twice = |stop: &StopSignal| {
            let context = context(stop);
            let mut watcher = Watcher::new(&context, &home);
            watcher.look(&config);
            watcher.look(&config);
            let taken = watcher.taken.into_values().flatten();
            taken.map(|(path, _)| path).collect::<BTreeSet<String>>()
        };
        let path = |name: &str| notes.join(name).display().to_string();
        let stopped = StopSignal::default();
        stopped.raise();
        assert_eq!(look_twice(&stopped), BTreeSet::from([path("no-text.bin")]));
        assert!(!home.queue.exists());
        let all = BTreeSet::from([path("no-text.bin"), path("roof.md")]);
        assert_eq!(look_twice(&StopSignal::default()), all);
        let queue = std::fs::read_to_string(&home.queue).unwrap();
        assert_eq!(queue.lines().count(), 1, "{queue}");
    }

    #[test]
    fn patterns_fit_names() {
        let fits = |pattern: &str, text: &str| matches(pattern.as_bytes(), text.as_bytes());
        assert!(fits("*.md", "a.md") && fits("sub/*.md", "sub/x.md") && fits("*", ""));
        assert!(fits("a*b*c", "axxbyyc") && fits("?.txt", "a.txt"));
        assert!(!fits("*.md", "a.mdx") && !fits("a*b", "axc") && !fits("?", ""));
    }
}
