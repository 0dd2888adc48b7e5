//! `backup`: a consistent copy of a home, taken while the service runs.
//!
//! The log is copied record by record up to one position. Every projection of the log is written again
//! from the copy and compared with it. The queue, the settings and the upstream buses are copied unchanged
//! and read back. `backup.json` is written last: a copy without it is incomplete or was not verified. The
//! copy is a home.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::causes::{exporter_failed, log_failed, mark_failed};
use super::failure::{Exit, Failure};
use super::home_access::HomeAccess;
use super::home_key::store_options;
use super::settings::load_config;
use super::source_files::is_kept;
use super::{Context, ui};
use crate::config::{ArchiveAfter, Exports, parse_duration_ms};
use crate::contract::hash::{Digest, Hasher};
use crate::contract::ids::Seq;
use crate::contract::time::Timestamp;
use crate::control::question::Question;
use crate::export::run_record::record_path;
use crate::export::session_fold::skip_report_path;
use crate::home::{Home, HomeLock};
use crate::log::{Fresh, FreshKeys, LogError};
use crate::os::{Disk, Open, can_never_be_read, rights};
use crate::projections::exporters;
use crate::projections::projection::Site;
use crate::seam::position::{AdoptAt, adopt_position};
use crate::sequencer::mark::QueueMark;
use crate::upkeep::backups::{self, Backup, FileFact, MANIFEST};
use crate::upkeep::copy::{CopyError, LogCopy, Page, WirePage};

/// Bytes of one copy step.
const CHUNK_BYTES: usize = 1 << 20;
/// Folders of the bus home that this program only reads.
const UPSTREAM: &[&str] = &["eventbus", "sessions", "chunks", "other", "selection_manifests"];
/// Folders of the bus home whose files are copied unchanged, except for what the log writes there.
const PUBLISHED: &[&str] = &["artifacts"];

/// Copy a home to an absent or empty directory, consistently, also while the service runs
///
/// A backup holds every text of the home, also after `forget`. So one may expire: `--remove-expired` removes the
/// backups of this home whose time is over, and no other folder.
#[derive(Debug, Args)]
pub(crate) struct BackupArgs {
    /// The directory of the copy
    #[arg(required_unless_present = "remove_expired")]
    dir: Option<PathBuf>,
    /// Do not copy the upstream buses
    #[arg(long)]
    without_upstream: bool,
    /// When the copy expires, instead of `backup.expire_after`: 90d, 12h, or never
    #[arg(long, value_name = "AGE", requires = "dir")]
    expire_after: Option<String>,
    /// Remove the backups of this home that have expired
    #[arg(long)]
    remove_expired: bool,
    /// Only list the backups that `--remove-expired` would remove
    #[arg(long, requires = "remove_expired", conflicts_with = "dir")]
    dry_run: bool,
}

/// A copy under way.
struct Copying {
    dir: PathBuf,
    without_upstream: bool,
    /// Other hosts have the same log.
    is_shared: bool,
}

/// What a page of the log comes with.
#[derive(Deserialize)]
struct CopyAnswer {
    store_id: String,
    /// The file of the keys, in base64; with the first page only.
    keys: Option<String>,
    head: u64,
    hash: String,
    page: WirePage,
}

#[derive(Default, Serialize)]
struct Copied {
    files: BTreeMap<String, FileFact>,
    notes: Vec<String>,
}

impl BackupArgs {
    pub(crate) fn run(&self, context: &Context) -> Result<Exit, Failure> {
        if let Some(dir) = &self.dir {
            let expires_at = self.expires_at(context)?;
            let is_shared = load_config(context)?.cluster.is_some();
            let (dir, without_upstream) = (dir.clone(), self.without_upstream);
            let copying = Copying { dir, without_upstream, is_shared };
            copying.run(context, expires_at)?;
        }
        if self.remove_expired {
            self.remove(context)?;
        }
        Ok(Exit::Done)
    }

    /// When a copy that is made now expires; `None` when it never does.
    fn expires_at(&self, context: &Context) -> Result<Option<Timestamp>, Failure> {
        let now = context.machine.clock.now();
        let age = match self.expire_after.as_deref() {
            Some("never") => return Ok(None),
            Some(text) => parse_duration_ms(text).ok_or_else(|| {
                Failure::new(Exit::Usage, format!("cannot read the age {text:?}"))
                    .hint("an age such as 90d or 12h, or never")
            })?,
            None => match load_config(context)?.backup_expire_after {
                ArchiveAfter::Never => return Ok(None),
                ArchiveAfter::Age(age) => age,
            },
        };
        Ok(Some(now.plus_ms(age)))
    }

    /// Removes the backups of this home that have expired.
    fn remove(&self, context: &Context) -> Result<(), Failure> {
        let (disk, now) = (&*context.machine.disk, context.machine.clock.now());
        let config = load_config(context)?;
        let home = Home::new(&context.home, &config);
        let known = backups::known(disk, &home).map_err(|error| unknown_backups(&error))?;
        let (mut removed, mut left) = (Vec::new(), Vec::new());
        for backup in known.iter().filter(|backup| backup.has_expired(now)) {
            let failed = |error: &std::io::Error| {
                let what = format!("cannot remove the backup {}", backup.folder.display());
                Failure::new(Exit::Storage, what).because(error)
            };
            if let Some(why) =
                backups::why_it_stays(disk, backup).map_err(|error| failed(&error))?
            {
                left.push((&backup.folder, why));
                continue;
            }
            let copy = Home::new(&backup.folder, &config);
            let lock = HomeLock::try_take(disk, &copy, std::process::id());
            let Some(lock) = lock.map_err(|error| failed(&error))? else {
                left.push((&backup.folder, "a process uses it as a home"));
                continue;
            };
            if !self.dry_run {
                backups::remove(disk, &backup.folder).map_err(|error| failed(&error))?;
            }
            drop(lock);
            removed.push(&backup.folder);
        }
        if context.ui.json {
            let left: Vec<Value> =
                left.iter().map(|(folder, why)| json!({"folder": folder, "why": why})).collect();
            context.ui.json(&json!({"removed": removed, "left": left, "dry_run": self.dry_run}));
            return Ok(());
        }
        let verb = if self.dry_run { "would remove" } else { "removed" };
        for folder in &removed {
            context.ui.out(format!("{verb} {}", folder.display()));
        }
        for (folder, why) in &left {
            let told = format!("{} stays: {why}; remove it yourself", folder.display());
            context.ui.out(format!("{} {told}", ui::yellow("note:")));
        }
        if removed.is_empty() && left.is_empty() {
            context.ui.talk("no backup of this home has expired");
        }
        Ok(())
    }
}

/// The list of backups does not read.
fn unknown_backups(error: &std::io::Error) -> Failure {
    Failure::new(Exit::Storage, "cannot read run/backups.jsonl").because(error)
}

impl Copying {
    fn run(&self, context: &Context, expires_at: Option<Timestamp>) -> Result<(), Failure> {
        let disk = &context.machine.disk;
        let config = load_config(context)?;
        let from = Home::new(&context.home, &config);
        let to = Home::new(&self.dir, &config);
        self.check_target(disk, &from)?;
        let mut session = HomeAccess::open(context)?;
        rights::close_if_empty(&self.dir).map_err(|error| self.failed(&error))?;
        to.create(disk.as_ref()).map_err(|error| self.failed(&error))?;
        let mut copied = Copied::default();
        let (head, hash) = self.copy_log(context, &mut session, &from, &to, &mut copied)?;
        session.close()?;
        self.copy_around(disk, &from, &to, &mut copied)?;
        let made = Backup {
            folder: absolute(&self.dir),
            created_at: context.machine.clock.now().to_string(),
            expires_at: expires_at.map(|at| at.to_string()),
            log: hash.hex(),
        };
        if let Err(error) = backups::note(disk.as_ref(), &from, &made) {
            let told = "the home does not know of this copy, so nothing removes it when it expires";
            copied.notes.push(format!("{told}: cannot write run/backups.jsonl: {error}"));
        }
        let manifest = json!({
            "schema_version": "backup.v1", "created_at": made.created_at,
            "expires_at": made.expires_at,
            "summarizer_version": env!("CARGO_PKG_VERSION"), "home": absolute(&context.home),
            "log": {"head": head.0, "hash": hash.hex()},
            "without_upstream": self.without_upstream, "verified": true,
            "notes": copied.notes, "files": copied.files,
        });
        disk.replace(&self.dir.join(MANIFEST), &backups::manifest_bytes(&manifest), 0o640)
            .map_err(|error| self.failed(&error))?;
        self.show(context, head, &made, &copied);
        Ok(())
    }

    fn check_target(&self, disk: &Arc<dyn Disk>, from: &Home) -> Result<(), Failure> {
        if is_kept(disk.as_ref(), from, &self.dir) {
            let what = format!("{} is inside the home, which would be copied", self.dir.display());
            return Err(Failure::new(Exit::Usage, what).hint("name a directory outside the home"));
        }
        let listed = match disk.stat(&self.dir).map_err(|error| self.failed(&error))? {
            None => Vec::new(),
            Some(_) => disk.list(&self.dir).map_err(|error| self.failed(&error))?,
        };
        if listed.is_empty() {
            return Ok(());
        }
        let what = format!("{} is not empty", self.dir.display());
        Err(Failure::new(Exit::Usage, what).hint("name an absent or empty directory"))
    }

    fn failed(&self, error: &std::io::Error) -> Failure {
        let what = format!("cannot back up to {}", self.dir.display());
        let hint = format!("remove {} and try again; the home is unchanged", self.dir.display());
        Failure::of_target(what, error).hint(hint)
    }

    fn differs(&self, difference: &dyn Display) -> Failure {
        let what = format!("the copy differs from the home: {difference}");
        let hint = format!(
            "check the disk, remove {} and try again; the home is unchanged",
            self.dir.display()
        );
        Failure::new(Exit::Storage, what).hint(hint)
    }

    /// The log as of its head now, the queue behind it, and what the log projects to.
    fn copy_log(
        &self,
        context: &Context,
        session: &mut HomeAccess,
        from: &Home,
        to: &Home,
        copied: &mut Copied,
    ) -> Result<(Seq, Digest), Failure> {
        let disk = &context.machine.disk;
        let first = ask(context, session, 1, None)?;
        let head = Seq(first.head);
        let store_id = parse_id(&first.store_id)?;
        let hash: Digest = first.hash.parse().map_err(|_| unreadable("the head's hash"))?;
        let keys = first.keys.as_ref().and_then(|keys| STANDARD.decode(keys).ok());
        let keys = keys.ok_or_else(|| unreadable("the keys"))?;
        let fresh = Fresh { store_id, keys: FreshKeys::Copied(keys) };
        let options = store_options(context, &load_config(context)?, &to.store())?;
        let mut copy = LogCopy::create(disk, &to.store(), options, fresh)
            .map_err(|error| copy_failed(&error))?;
        let bar = context.ui.progress("copying", head.0);
        let mut answer = Some(first);
        while copy.last().0 < head {
            let next = copy.last().0.next().0;
            let answer = match answer.take() {
                Some(answer) => answer,
                None => ask(context, session, next, Some(head.0))?,
            };
            let page = Page::try_from(answer.page).map_err(|error| copy_failed(&error))?;
            let damage = page.damage.clone();
            copy.take(page).map_err(|error| copy_failed(&error))?;
            if let Some(damage) = damage.filter(|_| copy.last().0 < head) {
                return Err(Failure::new(Exit::Storage, format!("the log is damaged: {damage}"))
                    .hint(
                        "`summarizer recover` rebuilds an intact log from the readable records",
                    ));
            }
            bar.set_position(copy.last().0.0);
        }
        bar.finish_and_clear();
        // Read after the position was fixed, so the queue holds every line that the log consumed.
        self.copy_queue(disk, from, to, &mut copy, copied)?;
        let report = copy.verify(&mut |_| {}).map_err(|error| copy_failed(&error))?;
        if report.last != (head, hash) {
            return Err(unreadable("the end of the copied log"));
        }
        // What only files have comes first: the comparison looks at it, too.
        self.copy_kept_records(disk, from, to, copy.kept_runs(), copied)?;
        self.project(load_config(context)?.exports, disk, to, &mut copy, copied)?;
        copy.note_forgotten().map_err(|error| copy_failed(&error))?;
        let store = copy.into_store().map_err(|error| copy_failed(&error))?;
        let keys = store.keys_file();
        store.close().map_err(|error| log_failed(&error))?;
        self.note(disk, to, &to.store(), copied)?;
        self.note(disk, to, &keys, copied)?;
        Ok((head, hash))
    }

    fn copy_queue(
        &self,
        disk: &Arc<dyn Disk>,
        from: &Home,
        to: &Home,
        copy: &mut LogCopy,
        copied: &mut Copied,
    ) -> Result<(), Failure> {
        if self.is_shared {
            // A host that starts from the copy would ship all of it again.
            let why =
                "the queue belongs to this host and is not copied: the log has what was taken in";
            copied.notes.push(why.to_owned());
            return Ok(());
        }
        let there = disk.stat(&from.queue).map_err(|error| self.failed(&error))?;
        if there.is_none() {
            copied.notes.push("there is no queue file".to_owned());
            return Ok(());
        }
        if from.queue == to.queue {
            copied.notes.push("queue.path is absolute: the queue itself is not copied".to_owned());
            return Ok(());
        }
        let folder = from.queue.parent().unwrap_or(&from.queue);
        self.copy_file(disk, folder, &from.queue, &to.queue, to, copied)?;
        let mark = QueueMark::decode(&copy.reader().mark()).map_err(|error| mark_failed(&error))?;
        if mark.position.offset == 0 {
            return Ok(());
        }
        match adopt_position(disk, &to.queue, &mark.position, AdoptAt::SameOffset) {
            Ok(adopted) => {
                let mark = QueueMark { position: adopted.position, consumed: None };
                copy.set_mark(&mark.encode()).map_err(|error| copy_failed(&error))
            }
            Err(error) => {
                copied.notes.push(format!("the queue is copied as it is: {error}"));
                Ok(())
            }
        }
    }

    fn project(
        &self,
        exports: Exports,
        disk: &Arc<dyn Disk>,
        to: &Home,
        copy: &mut LogCopy,
        copied: &mut Copied,
    ) -> Result<(), Failure> {
        let (disk, log) = (Arc::clone(disk), copy.reader());
        let site = Site { disk, home: to.clone(), log, own: false, exports, index: None };
        exporters::write(&site, None).map_err(|error| exporter_failed(&error))?;
        let compared = exporters::compare(&site).map_err(|error| exporter_failed(&error))?;
        if let Some(difference) = compared.differences.first() {
            return Err(self.differs(difference));
        }
        if copy.note_moved_acks().map_err(|error| copy_failed(&error))? {
            // The copy is the home of its log.
            let at_home = Site { own: true, ..site.clone() };
            for exporter in exporters::OF_ACKS {
                exporter.repair(&at_home).map_err(|error| exporter_failed(&error))?;
                let compared =
                    exporter.compare(&at_home).map_err(|error| exporter_failed(&error))?;
                if let Some(difference) = compared.differences.first() {
                    return Err(self.differs(difference));
                }
            }
            self.note_tree(&site.disk, to, &to.archive(), copied)?;
        }
        // After all of them: digests write run records into the folder of another exporter.
        for exporter in exporters::all(&site) {
            for file in exporter.files {
                self.note_tree(&site.disk, to, &to.root.join(file), copied)?;
            }
            for folder in exporter.folders {
                self.note_tree(&site.disk, to, &to.buses.join(folder), copied)?;
            }
        }
        let remembered = to.publisher_index();
        site.disk.remove_file(&remembered).map_err(|error| {
            let what = format!("cannot remove {}", remembered.display());
            Failure::new(Exit::Storage, what).because(&error)
        })
    }

    /// Records of runs that are older than the log: a recovery kept their files.
    fn copy_kept_records(
        &self,
        disk: &Arc<dyn Disk>,
        from: &Home,
        to: &Home,
        runs: &[String],
        copied: &mut Copied,
    ) -> Result<(), Failure> {
        for run in runs {
            for path in [record_path(run), skip_report_path(run)] {
                let (source, target) = (from.buses.join(&path), to.buses.join(&path));
                if disk.stat(&source).map_err(|error| self.failed(&error))?.is_some() {
                    self.copy_file(disk, &from.buses, &source, &target, to, copied)?;
                }
            }
        }
        Ok(())
    }

    /// Settings, registry and the other buses.
    fn copy_around(
        &self,
        disk: &Arc<dyn Disk>,
        from: &Home,
        to: &Home,
        copied: &mut Copied,
    ) -> Result<(), Failure> {
        let mut trees: Vec<(PathBuf, PathBuf)> = vec![
            (from.config_file(), to.config_file()),
            (from.registry(), to.registry()),
            // A `forget` that is not finished is finished in the copy, too.
            (from.forgetting(), to.forgetting()),
            (from.forgotten(), to.forgotten()),
        ];
        if from.buses != to.buses {
            let upstream = UPSTREAM.iter().filter(|_| !self.without_upstream);
            for name in PUBLISHED.iter().chain(upstream) {
                trees.push((from.buses.join(name), to.buses.join(name)));
            }
        }
        for (source, target) in trees {
            self.copy_tree(disk, &source, &source, &target, to, copied)?;
        }
        Ok(())
    }

    /// Copies `source`, which is a tree or lies in it.
    fn copy_tree(
        &self,
        disk: &Arc<dyn Disk>,
        tree: &Path,
        source: &Path,
        target: &Path,
        to: &Home,
        copied: &mut Copied,
    ) -> Result<(), Failure> {
        let stat = match disk.stat(source) {
            Ok(Some(stat)) => stat,
            Ok(None) => return Ok(()),
            Err(error) => return self.leave_out(source, &error, copied),
        };
        let mut written = exporters::ALL.iter().flat_map(|exporter| exporter.folders);
        if written.any(|name| target == to.buses.join(name)) {
            return Ok(());
        }
        if !stat.is_dir {
            return self.copy_file(disk, tree, source, target, to, copied);
        }
        if source != tree && disk.is_link(source) {
            copied
                .notes
                .push(format!("{} is a link to a folder: it is not copied", source.display()));
            return Ok(());
        }
        disk.create_dir_all(target).map_err(|error| self.failed(&error))?;
        for name in disk.list(source).map_err(|error| self.failed(&error))? {
            // Staging and shadow folders of a publication under way.
            if name.starts_with('.') {
                continue;
            }
            let (source, target) = (source.join(&name), target.join(&name));
            self.copy_tree(disk, tree, &source, &target, to, copied)?;
        }
        Ok(())
    }

    /// What can never be read, such as a pipe or a link out of its folder, is in no copy, and keeps nobody from making one.
    fn leave_out(
        &self,
        source: &Path,
        error: &std::io::Error,
        copied: &mut Copied,
    ) -> Result<(), Failure> {
        let why = match error.kind() {
            // The file was replaced or removed after the folder was listed.
            std::io::ErrorKind::NotFound => "went away".to_owned(),
            _ if can_never_be_read(error) => format!("is not copied: {error}"),
            _ => return Err(self.failed(error)),
        };
        copied.notes.push(format!("{} {why}", source.display()));
        Ok(())
    }

    fn copy_file(
        &self,
        disk: &Arc<dyn Disk>,
        folder: &Path,
        source: &Path,
        target: &Path,
        to: &Home,
        copied: &mut Copied,
    ) -> Result<(), Failure> {
        let failed = |error: &std::io::Error| self.failed(error);
        let file = match disk.open_beneath(folder, source) {
            Ok(file) => file,
            Err(error) => return self.leave_out(source, &error, copied),
        };
        if let Some(parent) = target.parent() {
            disk.create_dir_all(parent).map_err(|error| failed(&error))?;
        }
        let out = disk.open(target, Open::CreateNew(0o640)).map_err(|error| failed(&error))?;
        let mut hasher = Hasher::new();
        let mut buffer = vec![0; CHUNK_BYTES];
        let mut bytes = 0;
        loop {
            let count = file.read_at(&mut buffer, bytes).map_err(|error| failed(&error))?;
            if count == 0 {
                break;
            }
            out.write_all_at(&buffer[..count], bytes).map_err(|error| failed(&error))?;
            hasher.update(&buffer[..count]);
            bytes += count as u64;
        }
        out.sync().map_err(|error| failed(&error))?;
        let written = FileFact { bytes, sha256: hasher.finish().hex() };
        let read = self.read_back(disk, target)?;
        if read != written {
            return Err(self.differs(&target.display()));
        }
        copied.files.insert(relative(target, to), written);
        Ok(())
    }

    fn note_tree(
        &self,
        disk: &Arc<dyn Disk>,
        to: &Home,
        path: &Path,
        copied: &mut Copied,
    ) -> Result<(), Failure> {
        match disk.stat(path).map_err(|error| self.failed(&error))? {
            None => Ok(()),
            Some(stat) if !stat.is_dir => self.note(disk, to, path, copied),
            Some(_) => {
                for name in disk.list(path).map_err(|error| self.failed(&error))? {
                    self.note_tree(disk, to, &path.join(name), copied)?;
                }
                Ok(())
            }
        }
    }

    fn note(
        &self,
        disk: &Arc<dyn Disk>,
        to: &Home,
        path: &Path,
        copied: &mut Copied,
    ) -> Result<(), Failure> {
        copied.files.insert(relative(path, to), self.read_back(disk, path)?);
        Ok(())
    }

    fn read_back(&self, disk: &Arc<dyn Disk>, path: &Path) -> Result<FileFact, Failure> {
        FileFact::of(disk.as_ref(), path).map_err(|error| self.failed(&error))
    }

    fn show(&self, context: &Context, head: Seq, made: &Backup, copied: &Copied) {
        let bytes: u64 = copied.files.values().map(|file| file.bytes).sum();
        if context.ui.json {
            context.ui.json(&json!({
                "to": self.dir, "head": head.0, "hash": made.log, "expires_at": made.expires_at,
                "files": copied.files.len(), "bytes": bytes, "verified": true, "notes": copied.notes,
            }));
            return;
        }
        let dir = self.dir.display();
        context.ui.out(format!(
            "{} {}, {}, {} in {dir}",
            ui::green("copied:"),
            ui::count(head.0, "event"),
            ui::count(copied.files.len(), "file"),
            ui::count(bytes, "byte"),
        ));
        context.ui.out(format!(
            "{} every event by its hash, every published file against the log, every other file by \
             reading it back",
            ui::green("verified:")
        ));
        copied
            .notes
            .iter()
            .for_each(|note| context.ui.talk(format!("{} {note}", ui::yellow("note:"))));
        context.ui.talk(format!("it is a home: `summarizer --home {dir} status`"));
        if let Some(at) = &made.expires_at {
            let removes = "`summarizer backup --remove-expired` removes it then";
            context.ui.talk(format!("it expires at {at}: {removes}"));
        }
    }
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf())
}

fn relative(path: &Path, to: &Home) -> String {
    path.strip_prefix(&to.root).unwrap_or(path).display().to_string()
}

fn ask(
    context: &Context,
    session: &mut HomeAccess,
    from: u64,
    until: Option<u64>,
) -> Result<CopyAnswer, Failure> {
    let answer: Value = session.ask(context, &Question::LogCopy { from, until })?;
    serde_json::from_value(answer).map_err(|error| {
        Failure::new(Exit::Bug, "the process that holds the home answers in another format")
            .because(&error)
            .hint("restart the service with this version")
    })
}

fn parse_id(hex: &str) -> Result<[u8; 16], Failure> {
    let padded: Digest =
        format!("{hex}{}", "0".repeat(32)).parse().map_err(|_| unreadable("the log's id"))?;
    Ok(padded.head())
}

fn unreadable(what: &str) -> Failure {
    Failure::new(Exit::Storage, format!("cannot read {what}"))
}

/// A log that could not be copied.
pub(crate) fn copy_failed(error: &CopyError) -> Failure {
    match error {
        CopyError::Log(error) => match error {
            LogError::Damaged { .. } | LogError::Corrupt(_) => log_failed(error)
                .hint("`summarizer recover` rebuilds an intact log from the readable records"),
            error => log_failed(error),
        },
        error => Failure::new(Exit::Storage, "cannot copy the log")
            .because(error)
            .hint("`summarizer log verify` names the first bad record"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::os::sim::{Faults, SimDisk};

    #[test]
    fn a_bit_that_the_disk_stores_wrong_ends_a_backup() {
        let sim = Arc::new(SimDisk::new());
        let disk: Arc<dyn Disk> = sim.clone();
        let config = Config::load(None, &BTreeMap::new(), 1).expect("the defaults");
        let to = Home::new(Path::new("/copy"), &config);
        let backup = Copying { dir: "/copy".into(), without_upstream: false, is_shared: false };
        disk.create_dir_all(Path::new("/home")).expect("a folder");
        disk.create_dir_all(&to.root).expect("a folder");
        disk.replace(Path::new("/home/note.txt"), b"The lamp is on.", 0o640).expect("a file");
        let copy = |name: &str| {
            let mut copied = Copied::default();
            let (from, target) = (Path::new("/home/note.txt"), to.root.join(name));
            let folder = from.parent().unwrap();
            let ended = backup.copy_file(&disk, folder, from, &target, &to, &mut copied);
            ended.map(|()| copied.files.len())
        };
        assert!(matches!(copy("sound.txt"), Ok(1)));
        let next = sim.counts().writes + 1;
        sim.set_faults(Faults { flip_write: Some(next), ..Faults::default() });
        assert!(copy("wrong.txt").is_err_and(|error| format!("{error:?}").contains("wrong.txt")));
    }
}
