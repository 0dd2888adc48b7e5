//! Watches a folder of run logs: lines that producers append there become part of the home's log. The
//! same thread keeps the service's own session up to the log.
//!
//! Contract. Each `*.jsonl` in the folder is one agent run, read in whole lines as it grows; an
//! unfinished line is left for later. The position in a file is recorded with its events, with the
//! hash of the last line, so that a restart continues there. A file that shrank or was replaced is
//! read from its beginning and compared. A file with an error is skipped, reported, and read again
//! when it changes; the others continue.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam_channel::{RecvTimeoutError, Sender, bounded};

use crate::compaction::agent_runs::facts::head_of;
use crate::compaction::agent_runs::{AppendEventsError, EventLines};
use crate::compaction::event::{LINE_BYTES_MAX, RunEvent};
use crate::contract::hash::sha256;
use crate::facts::agent_run::FileMark;
use crate::os::{Disk, DiskFile, Open, Stat};
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
    inode: u64,
    offset: u64,
    lines: u64,
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
        if file.inode == stat.inode && file.offset == stat.len {
            return Ok(());
        }
        let text = |error: std::io::Error| error.to_string();
        let open = self.disk.open(&self.dir.join(name), Open::Read).map_err(text)?;
        if file.inode != stat.inode || file.offset > stat.len {
            *file = self.begin(name, &*open)?;
            file.inode = stat.inode;
        }
        loop {
            let page = read_lines(&*open, file.offset)?;
            if page.is_empty() {
                return Ok(());
            }
            let text = std::str::from_utf8(&page)
                .map_err(|_| format!("not UTF-8 after byte {}", file.offset))?;
            let last = text.trim_end_matches('\n').rsplit('\n').next().unwrap_or_default();
            let counted = text.bytes().filter(|byte| *byte == b'\n').count() as u64;
            let mark = FileMark {
                file: name.to_owned(),
                end: file.offset + page.len() as u64,
                lines: file.lines + counted,
                line_bytes: last.len() as u64 + 1,
                line_sha256: sha256(last),
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
            (file.offset, file.lines) = (mark.end, mark.lines);
        }
    }

    /// The position to begin at: after the lines that the log has, if the file still holds them.
    fn begin(&self, name: &str, file: &dyn DiskFile) -> Result<Followed, String> {
        let page = read_lines(file, 0)?;
        let first = page.split(|byte| *byte == b'\n').find(|line| !line.trim_ascii().is_empty());
        let Some(Ok(event)) = first.map(RunEvent::parse) else { return Ok(Followed::default()) };
        let head = head_of(self.runs.log(), &event.run_id).map_err(|error| described(&error))?;
        let Some(mark) = head.source.filter(|mark| mark.file == name && mark.line_bytes > 0) else {
            return Ok(Followed::default());
        };
        let Ok(length) = usize::try_from(mark.line_bytes - 1) else {
            return Ok(Followed::default());
        };
        let mut line = vec![0; length.min(PAGE_BYTES)];
        let at = mark.end.saturating_sub(mark.line_bytes);
        let count = file.read_at(&mut line, at).map_err(|error| error.to_string())?;
        let same = count == line.len() && sha256(&line) == mark.line_sha256;
        Ok(match same {
            true => Followed { offset: mark.end, lines: mark.lines, ..Followed::default() },
            false => Followed::default(),
        })
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
