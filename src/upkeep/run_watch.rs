//! Watches a folder of run logs: lines that producers append there become part of the home's log. The
//! same thread keeps the service's own session up to the log.
//!
//! Contract. Each `*.jsonl` in the folder is one agent run, read in whole lines as it grows; an
//! unfinished line is left for later. The position in a file is recorded with its events, with the
//! hash of all bytes before it, so that a restart continues there. Before new lines are taken in, the
//! bytes before them are hashed again. A file whose known bytes changed, or that shrank or was
//! replaced, is read from its beginning and compared: a known line that says something else is
//! refused. A file with an error is skipped, reported, and read again when it changes; the others
//! continue.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam_channel::{RecvTimeoutError, Sender, bounded};

use crate::compaction::agent_runs::facts::head_of;
use crate::compaction::agent_runs::{
    AgentRunWriter, AppendEventsError, EventLines, MakeNotes, NoteCommitter,
};
use crate::compaction::event::{LINE_BYTES_MAX, RunEvent};
use crate::compaction::trigger::Thresholds;
use crate::contract::hash::{Digest, Hasher};
use crate::contract::ids::Seq;
use crate::facts::agent_run::FileMark;
use crate::log::Reader;
use crate::os::{Disk, DiskFile, FileVersion, Stat};
use crate::projections::runs::{AgentRuns, described};

/// How often the folder is looked at.
const EVERY: Duration = Duration::from_millis(500);
/// Bytes in one read.
const PAGE_BYTES: usize = 1 << 20;

const _: () = assert!(LINE_BYTES_MAX < PAGE_BYTES);

pub(crate) struct RunWatch {
    stop: Sender<()>,
    thread: JoinHandle<()>,
}

impl RunWatch {
    /// Starts watching a folder, if one is configured; it need not exist.
    pub(crate) fn start(
        disk: Arc<dyn Disk>,
        dir: Option<PathBuf>,
        runs: Arc<AgentRuns>,
    ) -> std::io::Result<RunWatch> {
        let (stop, stopped) = bounded::<()>(1);
        let thread = std::thread::Builder::new().name("run-logs".to_owned());
        runs.note_looked(false);
        let first = FirstLook(Arc::clone(&runs));
        let thread = thread.spawn(move || {
            let own = Arc::clone(&runs);
            let folder = |dir| Folder { disk, dir, runs, files: BTreeMap::new() };
            let mut folder = dir.map(folder);
            let mut first = Some(first);
            loop {
                if let Some(folder) = &mut folder {
                    folder.look();
                }
                drop(first.take());
                own.follow_own();
                if !matches!(stopped.recv_timeout(EVERY), Err(RecvTimeoutError::Timeout)) {
                    return;
                }
            }
        })?;
        Ok(RunWatch { stop, thread })
    }

    /// Ends the thread. The service loop must have stopped taking notes before: the thread may be
    /// waiting for a commit.
    pub(crate) fn finish(self) {
        drop(self.stop);
        let _ = self.thread.join();
    }
}

/// Held during the first look at the folder. A drain waits for that look, and dropping this releases
/// it even when the thread panics.
struct FirstLook(Arc<AgentRuns>);

impl Drop for FirstLook {
    fn drop(&mut self) {
        self.0.note_looked(true);
    }
}

struct Folder {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    runs: Arc<AgentRuns>,
    files: BTreeMap<String, Followed>,
}

/// The position in a file.
#[derive(Default)]
struct Followed {
    /// The file when it was looked at last.
    seen: Option<FileVersion>,
    offset: u64,
    lines: u64,
    /// The hash of all bytes before `offset`.
    sha256: Option<Digest>,
    /// Length and modification time of the file when its error was found.
    set_aside: Option<(u64, i128)>,
}

impl Folder {
    fn look(&mut self) {
        let Ok(names) = self.disk.list(&self.dir) else { return };
        self.files.retain(|name, _| names.binary_search(name).is_ok());
        for name in names.iter().filter(|name| name.ends_with(".jsonl")) {
            let Ok(Some(stat)) = self.disk.stat(&self.dir.join(name)) else { continue };
            let mut file = self.files.remove(name).unwrap_or_default();
            if file.set_aside != Some((stat.len, stat.modified_ns)) {
                match self.follow(name, &mut file, &stat) {
                    Ok(()) => {
                        file.set_aside = None;
                        self.runs.set_aside(name, None);
                    }
                    Err(why) => {
                        tracing::warn!(file = name, why, "a run log is skipped until it changes");
                        file = Followed::default();
                        file.set_aside = Some((stat.len, stat.modified_ns));
                        self.runs.set_aside(name, Some(why));
                    }
                }
            }
            self.files.insert(name.clone(), file);
        }
    }

    /// Appends whole lines up to the end of the file.
    fn follow(&self, name: &str, file: &mut Followed, stat: &Stat) -> Result<(), String> {
        let now = FileVersion::from(*stat);
        if file.seen.as_ref() == Some(&now) {
            return Ok(());
        }
        let text = |error: std::io::Error| error.to_string();
        let open = self.disk.open_beneath(&self.dir, &self.dir.join(name)).map_err(text)?;
        if file.seen.as_ref().is_none_or(|seen| seen.inode != stat.inode) {
            *file = begin(self.runs.log(), name, &*open)?;
        }
        let mut hasher = hashed(&*open, file.offset).map_err(text)?;
        if file.sha256.is_some_and(|known| hasher.clone().finish() != known) {
            // Its lines are compared with those that the log has.
            (*file, hasher) = (Followed::default(), Hasher::default());
        }
        file.seen = Some(now);
        loop {
            let page = read_lines(&*open, file.offset)?;
            if page.is_empty() {
                return Ok(());
            }
            let text = std::str::from_utf8(&page)
                .map_err(|_| format!("not UTF-8 after byte {}", file.offset))?;
            hasher.update(&page);
            let sha256 = hasher.clone().finish();
            let end = file.offset + page.len() as u64;
            let counted = text.bytes().filter(|byte| *byte == b'\n').count() as u64;
            let mark = FileMark {
                file: name.to_owned(),
                end,
                lines: file.lines + counted,
                covered: end,
                sha256,
            };
            let lines = EventLines { text, first_line: file.lines + 1, source: Some(&mark) };
            let (done, result) = self.runs.append(lines);
            match result {
                // The service is ending. The next one continues from the position in the log.
                Err(AppendEventsError::Commit(_)) => {
                    *file = Followed::default();
                    return Ok(());
                }
                result => result.map_err(|error| described(&error))?,
            }
            if done.failed.is_some() {
                return Err(format!("run {} was stopped by its checks", done.run_id));
            }
            (file.offset, file.lines, file.sha256) = (mark.end, mark.lines, Some(mark.sha256));
        }
    }
}

/// The mark of a file in the log, when its first line is an event of a run that came from it.
fn mark_of(log: &Reader, name: &str, file: &dyn DiskFile) -> Result<Option<FileMark>, String> {
    let page = read_lines(file, 0)?;
    let first = page.split(|byte| *byte == b'\n').find(|line| !line.trim_ascii().is_empty());
    let Some(Ok(event)) = first.map(RunEvent::parse) else { return Ok(None) };
    let head = head_of(log, &event.run_id).map_err(|error| described(&error))?;
    Ok(head.source.filter(|mark| mark.file == name))
}

/// The position to begin at: after the lines that the log has. A record of an earlier version does
/// not prove all of them, so such a file is compared from its beginning.
fn begin(log: &Reader, name: &str, file: &dyn DiskFile) -> Result<Followed, String> {
    let proven = mark_of(log, name, file)?.filter(|mark| mark.covered == mark.end);
    Ok(proven.map_or_else(Followed::default, |mark| Followed {
        offset: mark.end,
        lines: mark.lines,
        sha256: Some(mark.sha256),
        ..Followed::default()
    }))
}

/// The hash of the bytes before an offset; of the whole file when it is shorter.
fn hashed(file: &dyn DiskFile, until: u64) -> std::io::Result<Hasher> {
    let mut hasher = Hasher::default();
    let mut page = vec![0; PAGE_BYTES];
    let mut at = 0;
    while at < until {
        let wanted = (until - at).min(PAGE_BYTES as u64) as usize;
        match file.read_at(&mut page[..wanted], at)? {
            0 => break,
            count => {
                hasher.update(&page[..count]);
                at += count as u64;
            }
        }
    }
    Ok(hasher)
}

/// The files of a folder whose known lines are not those of the log any more, and what differs.
/// Nothing is taken in.
pub(crate) fn changed_files(disk: &dyn Disk, dir: &Path, log: &Reader) -> BTreeMap<String, String> {
    let names = disk.list(dir).unwrap_or_default();
    let logs = names.into_iter().filter(|name| name.ends_with(".jsonl"));
    logs.filter_map(|name| changed(disk, dir, &name, log).map(|why| (name, why))).collect()
}

fn changed(disk: &dyn Disk, dir: &Path, name: &str, log: &Reader) -> Option<String> {
    let file = disk.open_beneath(dir, &dir.join(name)).ok()?;
    let mark = mark_of(log, name, &*file).ok()??;
    let is_whole = mark.covered == mark.end;
    if is_whole && hashed(&*file, mark.end).ok()?.finish() == mark.sha256 {
        return None;
    }
    let mut writer = AgentRunWriter::new(log, Thresholds::default());
    let mut at = Followed::default();
    while at.offset < mark.end {
        let page = read_lines(&*file, at.offset).ok()?;
        let text = std::str::from_utf8(&page).ok().filter(|text| !text.is_empty())?;
        let lines = EventLines { text, first_line: at.lines + 1, source: None };
        match writer.append(&mut TakesNothing, lines, None).1 {
            Err(error @ AppendEventsError::Differs { .. }) => return Some(described(&error)),
            Err(_) => return None,
            Ok(()) => {}
        }
        at.offset += page.len() as u64;
        at.lines += memchr::memchr_iter(b'\n', &page).count() as u64;
    }
    None
}

/// For a comparison: new lines end it.
struct TakesNothing;

impl NoteCommitter for TakesNothing {
    fn note(&mut self, _: MakeNotes) -> Result<Seq, String> {
        Err("nothing is taken in".to_owned())
    }
}

/// Whole lines from an offset on, up to a page of them.
fn read_lines(file: &dyn DiskFile, offset: u64) -> Result<Vec<u8>, String> {
    let mut page = vec![0; PAGE_BYTES];
    let mut filled = 0;
    while filled < page.len() {
        let count = file.read_at(&mut page[filled..], offset + filled as u64);
        match count.map_err(|error| error.to_string())? {
            0 => break,
            count => filled += count,
        }
    }
    let end = page[..filled].iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    if end == 0 && filled == PAGE_BYTES {
        return Err(format!("a line after byte {offset} is longer than {LINE_BYTES_MAX} bytes"));
    }
    page.truncate(end);
    Ok(page)
}
