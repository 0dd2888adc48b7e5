//! `[[watch]]`: folders that a running service takes in by itself.
//!
//! Contract: a file is taken when two looks in a row found the same length and time, so that a file
//! that is still being written is left alone. What was taken is remembered in `run/watched.json`, so
//! that a restart asks for nothing again. Losing that file costs time only: importing the same content
//! adds nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use super::Context;
use super::intake::{RequestSettings, rename_for_home, take_in};
use crate::config::{Config, WatchConfig};
use crate::home::Home;
use crate::import::collect::{collect, in_short};
use crate::os::Disk;

/// Time between two looks at the folders.
const PAUSE: Duration = Duration::from_secs(5);
/// How soon a stop is noticed.
const STEP: Duration = Duration::from_millis(100);
const DEPTH_MAX: usize = 32;

/// Length and time of a file: when either differs, it changed.
type Mark = (u64, String);
type Marks = BTreeMap<String, Mark>;

/// The thread that looks at the folders.
pub(super) struct FolderWatch {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl FolderWatch {
    /// Starts looking; `None` when no folder is configured.
    pub(super) fn start(context: &Context, config: &Config, home: &Home) -> Option<FolderWatch> {
        if config.watches.is_empty() {
            return None;
        }
        let stop = Arc::new(AtomicBool::new(false));
        let (context, config, home) = (context.clone(), config.clone(), home.clone());
        let told = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let mut watcher = Watcher::new(&context, &config, &home);
            while !told.load(Ordering::Relaxed) {
                watcher.look();
                let mut waited = Duration::ZERO;
                while waited < PAUSE && !told.load(Ordering::Relaxed) {
                    std::thread::sleep(STEP);
                    waited += STEP;
                }
            }
        });
        Some(FolderWatch { stop, thread: Some(thread) })
    }
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
    config: &'a Config,
    home: &'a Home,
    taken: Marks,
    /// What the last look found.
    seen: Marks,
}

impl<'a> Watcher<'a> {
    fn new(context: &'a Context, config: &'a Config, home: &'a Home) -> Watcher<'a> {
        let bytes = context.machine.disk.read_if_present(&state_file(home)).ok().flatten();
        let taken = bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok());
        let taken = taken.unwrap_or_default();
        Watcher { context, config, home, taken, seen: Marks::new() }
    }

    fn look(&mut self) {
        let before = std::mem::take(&mut self.seen);
        for watch in &self.config.watches {
            let folder = folder_of(self.home, &watch.folder);
            let mut found = Marks::new();
            if let Err(error) = walk(&*self.context.machine.disk, &folder, 0, &mut found) {
                tracing::warn!(folder = %folder.display(), %error, "cannot look at a watched folder");
                continue;
            }
            found.retain(|path, _| fits(watch, &folder, Path::new(path)));
            self.tell_gone(watch, &folder, &found);
            let ready: Vec<PathBuf> = found
                .iter()
                .filter(|(path, mark)| self.taken.get(*path) != Some(*mark))
                .filter(|(path, mark)| before.get(*path) == Some(*mark))
                .map(|(path, _)| PathBuf::from(path))
                .collect();
            if !ready.is_empty() {
                self.take(watch, &ready, &found);
            }
            self.seen.extend(found);
        }
    }

    /// Says once which files of a folder are not there any more.
    fn tell_gone(&mut self, watch: &WatchConfig, folder: &Path, found: &Marks) {
        let is_of = |path: &Path| path.starts_with(folder) && fits(watch, folder, path);
        let is_gone = |path: &String| is_of(Path::new(path)) && !found.contains_key(path);
        let gone: BTreeSet<String> =
            self.taken.keys().filter(|path| is_gone(path)).cloned().collect();
        if gone.is_empty() {
            return;
        }
        let (count, first) = (gone.len(), gone.first());
        tracing::info!(count, first, "files of a watched folder are gone; their summaries stay");
        self.taken.retain(|path, _| !gone.contains(path));
        self.remember();
    }

    fn take(&mut self, watch: &WatchConfig, ready: &[PathBuf], found: &Marks) {
        let disk = &*self.context.machine.disk;
        let taken =
            collect(disk, ready).map_err(|error| error.to_string()).and_then(|mut files| {
                rename_for_home(disk, &self.home.root, &mut files);
                if let Some(kind) = &watch.kind {
                    files.files.retain(|file| file.kind.group().name() == kind);
                }
                let wish = RequestSettings {
                    folders: &[],
                    flow: watch.flow.as_deref(),
                    project: watch.project.as_deref(),
                };
                take_in(self.context, self.config, self.home, files, &wish)
                    .map_err(|failure| failure.in_short())
            });
        match taken {
            Ok(taken) => {
                let (files, asked) = (taken.report.files, taken.requests.len());
                tracing::info!(files, asked, "took in files of a watched folder");
                if !taken.skipped.is_empty() {
                    tracing::warn!("{} of a watched folder", in_short(&taken.skipped));
                }
            }
            // Tried again when the file changes or the service starts anew, not every few seconds.
            Err(error) => tracing::warn!(%error, "cannot take in files of a watched folder"),
        }
        for path in ready {
            let path = path.display().to_string();
            if let Some(mark) = found.get(&path) {
                self.taken.insert(path, mark.clone());
            }
        }
        self.remember();
    }

    fn remember(&self) {
        let disk = &*self.context.machine.disk;
        let text = serde_json::to_vec(&self.taken).unwrap_or_default();
        if let Err(error) = disk.replace(&state_file(self.home), &text, 0o640) {
            tracing::warn!(%error, "cannot remember what was taken from watched folders");
        }
    }
}

fn state_file(home: &Home) -> PathBuf {
    home.run().join("watched.json")
}

/// `~` is the folder of the person; a relative folder lies in the home.
fn folder_of(home: &Home, folder: &str) -> PathBuf {
    let person = std::env::var_os("HOME").map(PathBuf::from);
    match (folder.strip_prefix("~/"), person) {
        (Some(rest), Some(person)) => person.join(rest),
        _ => home.root.join(folder),
    }
}

/// The files below a folder. Hidden ones and links are passed over, as `add` does.
fn walk(disk: &dyn Disk, folder: &Path, depth: usize, found: &mut Marks) -> std::io::Result<()> {
    if depth == DEPTH_MAX {
        return Ok(());
    }
    let real = disk.real_path(folder)?;
    for name in disk.list(folder)?.iter().filter(|name| !name.starts_with('.')) {
        let inner = folder.join(name);
        if disk.real_path(&inner).map_or(true, |at| at != real.join(name)) {
            continue;
        }
        match disk.stat(&inner)? {
            Some(stat) if stat.is_dir => walk(disk, &inner, depth + 1, found)?,
            Some(stat) => {
                let mark = (stat.len, stat.modified_ns.to_string());
                found.insert(inner.display().to_string(), mark);
            }
            None => {}
        }
    }
    Ok(())
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
mod tests {
    use super::*;

    #[test]
    fn patterns_fit_names() {
        let fits = |pattern: &str, text: &str| matches(pattern.as_bytes(), text.as_bytes());
        assert!(fits("*.md", "a.md") && fits("sub/*.md", "sub/x.md") && fits("*", ""));
        assert!(fits("a*b*c", "axxbyyc") && fits("?.txt", "a.txt"));
        assert!(!fits("*.md", "a.mdx") && !fits("a*b", "axc") && !fits("?", ""));
    }
}
