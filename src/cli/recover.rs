//! `recover`: rebuilds the log after `run/summarizer.redb` was lost or damaged.
//!
//! The old files are copied to `run/before-recovery-…` before any of them is replaced.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use serde::Serialize;
use serde_json::json;

use super::causes::{engine_failed, exporter_failed, held_by_another, log_failed};
use super::compact::Pages;
use super::failure::{Exit, Failure, is_damage};
use super::held_home::HeldHome;
use super::home_key::store_options;
use super::identity::{fresh, session_start};
use super::lost_log::other_log;
use super::recover_digests::{RebuiltDigests, copy, rebuild_digests};
use super::settings::{load_config, load_registry, shared_flows};
use super::{Context, ui};
use crate::compaction::agent_runs::facts::head_of;
use crate::compaction::files::sequence_of;
use crate::compaction::service_run::OBJECTIVE;
use crate::config::Config;
use crate::contract::ids::Seq;
use crate::control::question::{Answer, Question};
use crate::export::session_fold::RECOVER;
use crate::facts::recovery::RecoveryReport;
use crate::home::{Home, HomeLock, OLD_LOGS, RECOVERING};
use crate::log::{Options, ReadError, Store};
use crate::os::Disk;
use crate::projections::exporters;
use crate::projections::line_files::{ACKS, ACKS_FLOOR, QUARANTINE};
use crate::projections::runs::{RunQuestion, described};
use crate::projections::snapshot_files::SNAPSHOTS;
use crate::replay::{Compare, Until, rebuild as replay};
use crate::seam::tail::TailOptions;
use crate::sequencer::engine::{Engine, EngineError, EngineOptions, cursor};
use crate::sequencer::mark::QueueMarks;
use crate::upkeep::forget;
use crate::upkeep::forget_mark;
use crate::upkeep::kinship::Kinship;
use crate::upkeep::recover::{Places, RecoverError, Rules, rebuild, salvage};
use crate::upkeep::tombstones;

/// Rebuild the log from its own records, the queue, the acks and the published summaries
///
/// Agent runs are read again from their run logs in the watched folder (compaction.run_logs).
/// Snapshots whose run log is missing are moved away with the old log and named; `compact RUN_LOG`
/// makes them again. Digests are built again from the summaries; bags that the summaries do not lead to
/// are moved away too.
#[derive(Debug, Args)]
pub(crate) struct RecoverArgs {
    /// Only print what would be done
    #[arg(long)]
    dry_run: bool,
}

/// What is the matter with the store.
enum StoreState {
    /// Nothing.
    Sound,
    /// It is not there.
    Lost,
    /// It does not open.
    Unreadable(String),
    /// It opens; something in it is wrong.
    Damaged(String),
    /// It may be sound, and is not this home's.
    Stranger(String),
}

impl StoreState {
    fn word(&self) -> &'static str {
        match self {
            StoreState::Sound => "sound",
            StoreState::Lost => "lost",
            StoreState::Unreadable(_) => "unreadable",
            StoreState::Damaged(_) => "damaged",
            StoreState::Stranger(_) => "another",
        }
    }

    fn what(&self) -> Option<&str> {
        match self {
            StoreState::Unreadable(what)
            | StoreState::Damaged(what)
            | StoreState::Stranger(what) => Some(what),
            _ => None,
        }
    }
}

/// Ids listed for one kind of loss; the rest are counted.
const LISTED_MAX: usize = 100;

/// What was found and made of it, the runs of others included.
#[derive(Serialize)]
struct Recovered {
    #[serde(flatten)]
    report: RecoveryReport,
    /// Run logs of the watched folder that were taken in again.
    run_logs: u64,
    /// Snapshots of runs whose files are what they were.
    snapshots: u64,
    /// Bags of digests that were built again.
    bags: u64,
    /// Why the digests are those of the lost log, if they are.
    digests_failed: Option<String>,
}

impl Recovered {
    fn of(report: RecoveryReport) -> Recovered {
        Recovered { report, run_logs: 0, snapshots: 0, bags: 0, digests_failed: None }
    }

    fn lose(&mut self, kind: &'static str, means: &'static str, example: &str) {
        let loss = self.report.unknown.entry(kind.to_owned()).or_default();
        means.clone_into(&mut loss.means);
        loss.count += 1;
        if loss.examples.len() < LISTED_MAX {
            loss.examples.push(example.to_owned());
        }
    }

    fn take_digests(&mut self, rebuilt: RebuiltDigests) {
        (self.bags, self.digests_failed) = (rebuilt.bags, rebuilt.failed);
        let means = "bags of digests that the summaries do not lead to; they are with the old log";
        rebuilt.moved.iter().for_each(|path| self.lose("bags", means, path));
    }
}

impl RecoverArgs {
    pub(crate) fn run(&self, context: &Context) -> Result<Exit, Failure> {
        let config = load_config(context)?;
        let home = Home::new(&context.home, &config);
        let disk = &context.machine.disk;
        let known = |path: &Path| matches!(disk.stat(path), Ok(Some(_)));
        let signs = [
            home.store(),
            home.acks(),
            home.queue.clone(),
            home.buses.join("summaries"),
            home.snapshots(),
        ];
        if !signs.iter().any(|path| known(path)) {
            let what = format!("{} holds nothing to recover from", context.home.display());
            return Err(Failure::new(Exit::Input, what).hint("name the home with --home"));
        }
        disk.create_dir_all(&home.run()).map_err(|error| failed("make the folder run", &error))?;
        let lock = HomeLock::try_take(disk.as_ref(), &home, std::process::id());
        let lock = lock.map_err(|error| failed("lock the home", &error))?;
        let Some(lock) = lock else { return Err(held_by_another(context)) };
        let found = look(context, &config, &home, self.dry_run)?;
        if matches!(found, StoreState::Sound) || self.dry_run {
            return say_only(context, &found);
        }
        let aside = set_aside(context, &home)?;
        let report = self.rebuild(context, &config, &home, &found)?;
        drop(lock);
        check(context, &aside, &found, Recovered::of(report))
    }

    /// Builds the new store beside the old one and puts it in its place.
    fn rebuild(
        &self,
        context: &Context,
        config: &Config,
        home: &Home,
        found: &StoreState,
    ) -> Result<RecoveryReport, Failure> {
        let disk = &context.machine.disk;
        let new = home.run().join(RECOVERING);
        disk.remove_dir_all(&new).map_err(|error| failed("clear a left-over", &error))?;
        disk.create_dir_all(&new).map_err(|error| failed("make room", &error))?;
        let path = new.join("summarizer.redb");
        let mut report =
            RecoveryReport { damage: found.what().map(str::to_owned), ..RecoveryReport::default() };
        let mut forget_from = None;
        let store = match found {
            StoreState::Damaged(_) => {
                let old = open(context, config, home)?;
                let bar = context.ui.progress("keeping records", 100);
                let options = store_options(context, config, &path)?;
                let fresh = fresh().map_err(|error| failed("get random bytes", &error))?;
                let log = old.reader();
                forget_from = forget::left(&log);
                let kept = salvage(disk, &log, &path, options, fresh.keys, &mut |part| {
                    bar.set_position((part * 100.0) as u64);
                });
                bar.finish_and_clear();
                let (store, damage) = kept.map_err(|error| super::backup::copy_failed(&error))?;
                report.records_lost = damage.is_some();
                report.damage = damage.or(report.damage);
                store
            }
            _ => {
                report.records_lost = true;
                let fresh = fresh().map_err(|error| failed("get random bytes", &error))?;
                let options = store_options(context, config, &path)?;
                Store::open(Arc::clone(disk), &path, options, fresh, &mut |_| {})
                    .map_err(|error| log_failed(&error))?
            }
        };
        let keys = store.keys_file();
        let now = context.machine.clock.now();
        let options = EngineOptions::of(config);
        let engine = Engine::open(store, options, now, &mut |_| {});
        let engine = engine.map_err(|error| engine_failed(&error))?;
        let (acks, archive, quarantine) = (home.acks(), home.archive(), home.quarantine());
        let places = Places {
            queue: &home.queue,
            acks: &acks,
            archive: &archive,
            quarantine: &quarantine,
            buses: &home.buses,
        };
        let rules = Rules {
            flows: &shared_flows(load_registry(context)?),
            run: session_start(context, config, RECOVER)?,
            tail: TailOptions {
                max_line_bytes: config.line_bytes_max,
                partial_line_grace_ms: config.partial_line_grace_ms,
            },
            forget_from,
            forgetting: forget_mark::read(&**disk, &home.forgetting())
                .map_err(|error| failed("read run/forgetting.json", &error))?
                .map(|marked| marked.wanted),
            tombstones: tombstones::read(&**disk, &home.forgotten())
                .map_err(|error| forgotten_unread(&error))?,
        };
        let bar = context.ui.progress("reading files", 100);
        let engine = rebuild(&context.machine, &places, engine, rules, &mut report, &mut |part| {
            bar.set_position((part * 100.0) as u64);
        });
        bar.finish_and_clear();
        let engine = engine.map_err(|error| not_rebuilt(&error))?;
        engine.close().map_err(|error| engine_failed(&error))?;
        // The keys go first. They have another name than those of the old log, which keeps its own.
        let keys_here = home.run().join(keys.file_name().unwrap_or_default());
        // From here on the home has a sound log; the old one keeps its other name.
        disk.rename(&keys, &keys_here)
            .and_then(|()| disk.sync_dir(&home.run()))
            .and_then(|()| disk.rename(&path, &home.store()))
            .and_then(|()| disk.sync_dir(&home.run()))
            .map_err(|error| failed("move the new log to its place", &error))?;
        // The next command that opens the home writes these files again from the new log.
        for path in [home.acks(), home.quarantine()] {
            disk.remove_file(&path).map_err(|error| failed("clear up", &error))?;
        }
        disk.remove_dir_all(&new).map_err(|error| failed("clear up", &error))?;
        Ok(report)
    }
}

fn failed(doing: &str, error: &std::io::Error) -> Failure {
    Failure::new(Exit::Storage, format!("cannot {doing}"))
        .because(error)
        .hint("nothing was replaced; correct that and run `summarizer recover` again")
}

/// Without this file nobody knows what the queue must not bring back.
fn forgotten_unread(error: &std::io::Error) -> Failure {
    Failure::new(Exit::Storage, "cannot read run/forgotten.jsonl, which says what was forgotten")
        .because(error)
        .hint(
            "nothing was replaced; put the file of a backup in its place. Without one, remove the line that is named: what it \
             said is forgotten no more where the log has lost it too",
        )
}

fn not_rebuilt(error: &RecoverError) -> Failure {
    Failure::new(Exit::Storage, "cannot rebuild the log")
        .because(error)
        .hint("nothing was replaced; the files are as they were")
}

fn open(context: &Context, config: &Config, home: &Home) -> Result<Store, Failure> {
    let path = home.store();
    Store::open(
        Arc::clone(&context.machine.disk),
        &path,
        store_options(context, config, &path)?,
        fresh().map_err(|error| failed("get random bytes", &error))?,
        &mut |_| {},
    )
    .map_err(|error| log_failed(&error))
}

/// Checks every record, body, key and table.
fn look(
    context: &Context,
    config: &Config,
    home: &Home,
    only_looks: bool,
) -> Result<StoreState, Failure> {
    let disk = &context.machine.disk;
    let path = home.store();
    match disk.stat(&path).map_err(|error| failed("look for the log", &error))? {
        None => return Ok(StoreState::Lost),
        Some(stat) if stat.len == 0 => return Ok(StoreState::Unreadable("it is empty".to_owned())),
        Some(_) => {}
    }
    let fresh = fresh().map_err(|error| failed("get random bytes", &error))?;
    let options = Options { only_looks, ..store_options(context, config, &path)? };
    let opened = Store::open(Arc::clone(disk), &path, options, fresh, &mut |_| {});
    let store = match opened {
        Ok(store) => store,
        Err(error) if is_damage(&error) => return Ok(StoreState::Unreadable(described(&error))),
        Err(error) => return Err(log_failed(&error)),
    };
    let log = store.reader();
    let bar = context.ui.progress("looking", 100);
    let verified = log.verify(Seq(1), None, &mut |part| bar.set_position((part * 100.0) as u64));
    bar.finish_and_clear();
    if let Err(error) = verified {
        return Ok(StoreState::Damaged(error.to_string()));
    }
    match other_log(context, home, &log)? {
        // The rebuild keeps the records of the log and takes later facts from the acks.
        Some((Kinship::Older(_), what)) => return Ok(StoreState::Damaged(what)),
        Some((_, what)) => return Ok(StoreState::Stranger(what)),
        None => {}
    }
    match replay(&log, Until::Head, Compare::Tables, &mut |_| {}) {
        Err(error) => Ok(StoreState::Damaged(error.to_string())),
        Ok(replayed) => match replayed.differences.first() {
            Some(difference) => Ok(StoreState::Damaged(format!("the tables: {difference}"))),
            None => opens(context, config, store),
        },
    }
}

/// Checks what a start reads besides the records: it may be damaged while every record is sound.
fn opens(context: &Context, config: &Config, store: Store) -> Result<StoreState, Failure> {
    let options = EngineOptions::of(config);
    let now = context.machine.clock.now();
    let engine = match Engine::open(store, options, now, &mut |_| {}) {
        Ok(engine) => engine,
        Err(error @ EngineError::Writer(_)) => return Err(engine_failed(&error)),
        Err(error) => return Ok(StoreState::Damaged(described(&error))),
    };
    let mut found = StoreState::Sound;
    for name in [ACKS, ACKS_FLOOR, QUARANTINE, SNAPSHOTS, forget::BEGUN, forget::DONE] {
        if let Err(error) = cursor(engine.log(), name) {
            found = StoreState::Damaged(format!("how far {name} are: {}", described(&error)));
        }
    }
    if let Err(error) = QueueMarks::decode(&engine.log().mark()) {
        found = StoreState::Damaged(described(&error));
    }
    match engine.close() {
        // redb checks more on its next commit than any read does.
        Err(EngineError::Read(ReadError::Log(error)) | EngineError::Commit(error))
            if is_damage(&error) =>
        {
            Ok(StoreState::Damaged(described(&error)))
        }
        closed => closed.map(|()| found).map_err(|error| engine_failed(&error)),
    }
}

fn say_only(context: &Context, found: &StoreState) -> Result<Exit, Failure> {
    let sound = matches!(found, StoreState::Sound);
    if context.ui.json {
        context.ui.json(&json!({"log": found.word(), "what": found.what(), "recovered": false}));
    } else if sound {
        context
            .ui
            .out(format!("{} the log is sound; there is nothing to recover", ui::green("ok")));
    } else {
        let what = found.what().map_or(String::new(), |what| format!(": {what}"));
        context.ui.out(format!("the log is {}{what}", found.word()));
        context.ui.talk("`summarizer recover` rebuilds it and keeps the old files");
    }
    Ok(if sound { Exit::Done } else { Exit::Wrong })
}

/// Copies what will be replaced to a folder of its own.
fn set_aside(context: &Context, home: &Home) -> Result<PathBuf, Failure> {
    let disk = &context.machine.disk;
    let stamp: String = context
        .machine
        .clock
        .now()
        .to_string()
        .chars()
        .filter(|c| !matches!(c, '-' | ':'))
        .collect();
    let stamp = stamp.split('.').next().unwrap_or_default().to_owned();
    let mut aside = home.run().join(format!("{OLD_LOGS}{stamp}"));
    let mut number = 1;
    while matches!(disk.stat(&aside), Ok(Some(_))) {
        number += 1;
        aside = home.run().join(format!("{OLD_LOGS}{stamp}-{number}"));
    }
    let needed: u64 = [home.store(), home.acks(), home.quarantine()]
        .iter()
        .filter_map(|path| disk.stat(path).ok().flatten())
        .map(|stat| stat.len)
        .sum();
    let free = disk.free_bytes(&home.root).unwrap_or(u64::MAX);
    if free < needed.saturating_mul(2) {
        let what = format!("{} MiB are free, {} needed", free >> 20, (needed * 2) >> 20);
        return Err(Failure::new(Exit::Storage, what)
            .hint("free some space: the old log is kept until you delete it"));
    }
    disk.create_dir_all(&aside).map_err(|error| failed("move the old files away", &error))?;
    for path in [home.store(), home.acks(), home.quarantine()] {
        let Some(name) = path.file_name() else { continue };
        copy(disk, &path, &aside.join(name))
            .map_err(|error| failed("move the old files away", &error))?;
    }
    link_all(disk, &home.archive(), &aside.join("archive"))
        .map_err(|error| failed("set the archive aside", &error))?;
    let snapshots = home.snapshots();
    for run_id in listed(disk, &snapshots).map_err(|error| failed("list snapshots", &error))? {
        link_all(disk, &snapshots.join(&run_id), &aside.join("snapshots").join(&run_id))
            .map_err(|error| failed("move the snapshots away", &error))?;
    }
    Ok(aside)
}

fn listed(disk: &Arc<dyn Disk>, dir: &Path) -> std::io::Result<Vec<String>> {
    match disk.list(dir) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        listed => listed,
    }
}

/// Links or copies the files of a folder into another, so that replacing one keeps the other.
fn link_all(disk: &Arc<dyn Disk>, from: &Path, to: &Path) -> std::io::Result<()> {
    if disk.stat(from)?.is_none() {
        return Ok(());
    }
    disk.create_dir_all(to)?;
    for name in disk.list(from)? {
        disk.hard_link(&from.join(&name), &to.join(&name))?;
    }
    disk.sync_dir(to)
}

/// Opens the home as any command does, publishes, and checks that log, files and buses agree.
fn check(
    context: &Context,
    aside: &Path,
    found: &StoreState,
    mut report: Recovered,
) -> Result<Exit, Failure> {
    let mut held = HeldHome::take(context, false)?.ok_or_else(|| held_by_another(context))?;
    let log = held.engine.log().clone();
    let disk = &context.machine.disk;
    take_run_logs(context, &mut held, &mut report)?;
    // To carry out what `forget` had left, the home was opened without the old logs.
    let aside = matches!(disk.stat(aside), Ok(Some(_))).then_some(aside);
    let before = aside.map_or_else(|| held.home.snapshots(), |aside| aside.join("snapshots"));
    keep_known_snapshots(disk, &held, &before, &mut report)
        .map_err(|error| failed("read the snapshots of runs", &error))?;
    let site = held.site(context);
    exporters::write(&site, None).map_err(|error| exporter_failed(&error))?;
    report.take_digests(rebuild_digests(context, &mut held, aside)?);
    if let Some(aside) = aside {
        let text = serde_json::to_vec_pretty(&report).unwrap_or_default();
        disk.replace(&aside.join("report.json"), &text, 0o640)
            .map_err(|error| failed("write the report", &error))?;
    }
    let mut wrong = replay(&log, Until::Head, Compare::Tables, &mut |_| {})
        .map(|replayed| replayed.differences)
        .unwrap_or_else(|error| vec![error.to_string()]);
    match exporters::compare(&site) {
        Ok(found) => wrong.extend(found.differences.iter().map(ToString::to_string)),
        Err(error) => wrong.push(described(&error)),
    }
    held.close()?;
    show(context, aside, found, &report, &wrong);
    Ok(if wrong.is_empty() { Exit::Done } else { Exit::Wrong })
}

/// Reads the run logs that exist again, and takes their snapshots again.
fn take_run_logs(
    context: &Context,
    held: &mut HeldHome,
    report: &mut Recovered,
) -> Result<(), Failure> {
    let dir = held.home.root.join(&held.config.run_logs);
    let names = listed(&context.machine.disk, &dir);
    let names = names.map_err(|error| failed("list the run logs", &error))?;
    for name in names.iter().filter(|name| name.ends_with(".jsonl")) {
        match take_run_log(context, held, &dir.join(name))? {
            None => report.run_logs += 1,
            Some(why) => {
                let means = "run logs of the watched folder in which something is wrong; their events \
                             before it are in the log again";
                report.lose("run_logs", means, &format!("{name}: {why}"));
            }
        }
    }
    Ok(())
}

/// Reads one run log; returns what is wrong with it, if anything.
fn take_run_log(
    context: &Context,
    held: &mut HeldHome,
    path: &Path,
) -> Result<Option<String>, Failure> {
    let mut pages = Pages::open(context, path)?;
    loop {
        let (text, first_line) = match pages.next_page() {
            Ok(Some(page)) => page,
            Ok(None) => return Ok(None),
            Err(failure) => return Ok(Some(failure.in_short())),
        };
        let question = RunQuestion::Append { text, first_line, thresholds: None };
        let answer = match held.ask(context, Question::Run(question))? {
            Answer::Ok(answer) => answer,
            Answer::Refused(why) | Answer::NotFound(why) | Answer::Starting(why) => {
                return Ok(Some(why));
            }
        };
        if let Some(why) = answer["error"].as_str() {
            if answer["input"] == false {
                let what = format!("cannot take in {}: {why}", path.display());
                return Err(Failure::new(Exit::Storage, what));
            }
            return Ok(Some(why.to_owned()));
        }
    }
}

/// Writes the snapshot files that the log holds, and removes all others, because no record confirms
/// them. Copies of all of them are in the folder with the old log.
fn keep_known_snapshots(
    disk: &Arc<dyn Disk>,
    held: &HeldHome,
    before: &Path,
    report: &mut Recovered,
) -> std::io::Result<()> {
    let dir = held.home.snapshots();
    let other = |error: &dyn std::error::Error| std::io::Error::other(described(error));
    // A new store has no cursor, so every recorded file is written again.
    held.projector.projected().wait_for(held.engine.log().head().0);
    for run_id in listed(disk, before)? {
        let known = head_of(held.engine.log(), &run_id).map_err(|error| other(&error))?.sequence;
        let names = disk.list(&before.join(&run_id))?;
        for (sequence, name) in names.iter().filter_map(|name| Some((sequence_of(name)?, name))) {
            let was = disk.read(&before.join(&run_id).join(name))?;
            let means = "snapshots the log does not lead to: taken at other thresholds than those \
                         in force, changed since, or of events that are lost";
            if sequence <= known {
                match disk.read(&dir.join(&run_id).join(name))? == was {
                    true => report.snapshots += 1,
                    false => report.lose("snapshots", means, &format!("{run_id}/{name}")),
                }
                continue;
            }
            for suffix in [".snapshot.json", ".md", ".spill.json"] {
                disk.remove_file(&dir.join(&run_id).join(format!("{sequence}{suffix}")))?;
            }
            let said = serde_json::from_slice::<serde_json::Value>(&was).unwrap_or_default();
            let (kind, means) = match said["objective"] == OBJECTIVE {
                _ if known > 0 => ("snapshots", means),
                true => {
                    ("service_runs", "snapshots of sessions of the service whose records are lost")
                }
                false => (
                    "runs",
                    "snapshots of runs whose events are nowhere; `compact RUN_LOG` takes them again",
                ),
            };
            report.lose(kind, means, &format!("{run_id}/{name}"));
        }
        if known == 0 {
            disk.remove_dir_all(&dir.join(&run_id))?;
        }
    }
    Ok(())
}

fn show(
    context: &Context,
    aside: Option<&Path>,
    found: &StoreState,
    recovered: &Recovered,
    wrong: &[String],
) {
    let report = &recovered.report;
    if context.ui.json {
        context.ui.json(&json!({
            "log": found.word(), "what": found.what(), "recovered": true, "report": recovered,
            "set_aside": aside, "differences": wrong,
        }));
        return;
    }
    let line = |noun: &str, count: u64, what: &str| {
        if count > 0 {
            let many = ui::count(count, noun);
            let pad = " ".repeat(8_usize.saturating_sub(count.to_string().len()));
            context.ui.out(format!("{pad}{many}{what}"));
        }
    };
    let what = found.what().map_or(String::new(), |what| format!(": {what}"));
    context.ui.out(format!("the log was {}{what}", found.word()));
    line("record", report.records_kept, " kept");
    line("line", report.lines, " of the queue taken in again");
    line("summary", report.outputs_recognized, " recognized by an ack");
    line("summary", report.outputs_adopted, " kept; the request behind it is unknown");
    line("run record", report.run_records, " kept");
    line("request", report.ended, " ended as before");
    line("request", report.open, " open again");
    line("run log", recovered.run_logs, " taken in again");
    line("snapshot", recovered.snapshots, " of a run as before");
    line("bag", recovered.bags, " of digests built again");
    if let Some(change) = &report.queue_change {
        context.ui.out(ui::yellow(change));
    }
    if !report.unknown.is_empty() {
        context.ui.out(ui::bold("What could not be recovered"));
    }
    for (kind, loss) in &report.unknown {
        let count = if loss.count > 0 { format!("{} ", loss.count) } else { String::new() };
        context.ui.out(format!("  {kind}: {count}{}", loss.means));
        for example in loss.examples.iter().take(5) {
            context.ui.out(ui::dim(&format!("    {example}")));
        }
    }
    for difference in wrong {
        context.ui.out(format!("{} {difference}", ui::red("differs:")));
    }
    context.ui.talk(match aside {
        Some(aside) => format!("the old files and the report are in {}", aside.display()),
        None => "an unfinished `forget` was carried out, so the old files are removed".to_owned(),
    });
    if let Some(why) = &recovered.digests_failed {
        let what = format!("the digests are those of the lost log, because a build failed: {why}");
        context.ui.talk(ui::yellow(&what));
        context.ui.talk("next: summarizer digest build && summarizer digest gc --orphans --yes");
    }
}
