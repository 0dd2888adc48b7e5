//! `doctor`: finds common problems and prints the command that fixes each.
//!
//! A fix is a complete line for a shell, with paths, names and the home if the command line named it.
//! Where only another party can act (a producer, a disk), the finding has a hint and a command that
//! shows the problem.

#[cfg(feature = "cluster")]
mod cluster;
mod digests;
mod surroundings;

use std::collections::BTreeSet;
use std::error::Error;
use std::io;
use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;
use serde_json::Value;

use super::failure::{Exit, Failure, Trouble};
use super::held_home::{HeldHome, home_beside, is_forgetting};
use super::lost_log::lost_log;
use super::queue::rewritten;
use super::settings::{load_config, load_registry};
use super::{Context, ui};
use crate::contract::ids::Seq;
use crate::control::question::{Answer, Question};
use crate::control::socket::ControlClient;
use crate::facts::dialect::LearnedDialect;
use crate::home::Home;
use crate::log::Reader;
use crate::projections::exporters;
use crate::projections::runs::described;
use crate::registry::{Registry, embedded_files, label};
use crate::replay::{Compare, Until, rebuild};
use crate::seam::position::{Change, as_adopted, describe_change};
use crate::sequencer::mark::QueueMark;
use crate::state::Status;
use crate::upkeep::backups::{self, CopyLook};
use crate::upkeep::retention::{self, Policy};
use crate::upkeep::tombstones;
use crate::verify::{Options, Report, verify_tree};

/// A backlog of at least this many bytes is reported.
const BACKLOG_BYTES: u64 = 64 << 20;

/// Find common problems and print the command that fixes each
#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// Also read everything: the hash chain, the consumed queue, the tables and every published file
    #[arg(long)]
    deep: bool,
    /// Also ask each provider for a few words, and report what its model accepts; costs a few tokens
    #[arg(long)]
    probe: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Verdict {
    Fine,
    Notice,
    Wrong,
}

#[derive(Debug, Serialize)]
struct Finding {
    check: &'static str,
    verdict: Verdict,
    what: String,
    /// A line for a shell.
    fix: Option<String>,
    /// Further advice.
    hint: Option<String>,
}

struct Findings {
    all: Vec<Finding>,
    /// The home as a shell reads it.
    home: String,
    /// The file of the settings.
    settings: PathBuf,
    /// The options that make our own commands use the same home.
    options: String,
    /// Whether the log is shared with other hosts; then only a service takes requests in.
    is_shared: bool,
}

impl Findings {
    fn of(context: &Context) -> Findings {
        let mut options = String::new();
        let told = |name: &str| std::env::var_os(name).map(PathBuf::from);
        if context.home_given && told("SUMMARIZER_HOME").as_ref() != Some(&context.home) {
            options.push_str(&format!(" --home {}", shell(&context.home)));
        }
        let file = context.config_file.as_ref();
        if let Some(file) = file.filter(|file| told("SUMMARIZER_CONFIG").as_ref() != Some(file)) {
            options.push_str(&format!(" --config {}", shell(file)));
        }
        let settings = context.config_file.clone();
        let settings = settings.unwrap_or_else(|| context.home.join("summarizer.toml"));
        let (all, home) = (Vec::new(), shell(&context.home));
        Findings { all, home, settings, options, is_shared: false }
    }

    fn add(&mut self, check: &'static str, verdict: Verdict, what: impl Into<String>, fix: &str) {
        let fix = (!fix.is_empty()).then(|| self.for_this_home(fix));
        self.all.push(Finding { check, verdict, what: what.into(), fix, hint: None });
    }

    /// Adds advice to the last finding.
    fn hint(&mut self, hint: impl Into<String>) {
        if let Some(last) = self.all.last_mut() {
            last.hint = Some(what_works(self.is_shared, &hint.into()));
        }
    }

    fn for_this_home(&self, fix: &str) -> String {
        let fix = what_works(self.is_shared, fix);
        let ours = |part: &str| match part.strip_prefix("summarizer ") {
            Some(rest) => format!("summarizer{} {rest}", self.options),
            None => part.to_owned(),
        };
        fix.split(" && ").map(ours).collect::<Vec<_>>().join(" && ")
    }

    /// The command that lists the largest files of the home.
    fn biggest(&self) -> String {
        format!("du -xah {} | sort -rh | head -n 20", self.home)
    }

    fn fine(&mut self, check: &'static str, what: impl Into<String>) {
        self.add(check, Verdict::Fine, what, "");
    }

    fn wrong(&mut self, check: &'static str, what: impl Into<String>, fix: &str) {
        self.add(check, Verdict::Wrong, what, fix);
    }

    /// A check could not be made. A damaged log, a missing permission and a full disk have their own
    /// fix; `fix` is for every other cause.
    fn failed(&mut self, check: &'static str, error: &(dyn Error + 'static), otherwise: &str) {
        match Trouble::of(error) {
            Some(trouble) => self.troubled(check, described(error), trouble),
            None => self.wrong(check, described(error), otherwise),
        }
    }

    fn refused(&mut self, check: &'static str, failure: &Failure) {
        match failure.trouble() {
            Some(trouble) => self.troubled(check, said(failure), trouble),
            None => {
                let fix = match failure.exit {
                    // The settings are wrong, and no file of the home.
                    Exit::Config => edit(&self.settings),
                    _ => "summarizer recover".to_owned(),
                };
                self.wrong(check, said(failure), &fix);
                if let Some(advice) = failure.advice() {
                    self.hint(advice);
                }
            }
        }
    }

    /// The fix for a cause that does not depend on the check.
    fn troubled(&mut self, check: &'static str, what: String, trouble: Trouble) {
        let home = self.home.clone();
        match trouble {
            Trouble::Damage => self.wrong(check, what, "summarizer recover"),
            Trouble::Permission => {
                let take = format!("sudo chown -R \"$(id -un)\" {home} && chmod -R u+rwX {home}");
                self.wrong(check, what, &take);
                self.hint("or run it as the owner of these files; nothing is damaged");
            }
            Trouble::ReadOnly => {
                self.wrong(check, what, &format!("findmnt -T {home}"));
                self.hint("the disk is mounted read-only: remount it (`mount -o remount,rw`); nothing is damaged");
            }
            Trouble::Failing => {
                self.wrong(check, what, "dmesg | tail");
                self.hint(
                    "the system failed, not the home; `ulimit -n` shows how many files may be open",
                );
            }
            Trouble::Full => {
                let biggest = self.biggest();
                self.wrong(check, what, &biggest);
                self.hint("free some space, then `summarizer drain`; nothing accepted is lost");
            }
        }
    }
}

/// Advice for a home: one that shares its log is not drained.
fn what_works(is_shared: bool, advice: &str) -> String {
    match is_shared {
        true => advice.replace("summarizer drain", "summarizer serve"),
        false => advice.to_owned(),
    }
}

/// A path quoted for a shell.
fn shell(path: &Path) -> String {
    let text = path.display().to_string();
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+=:@%,".contains(c);
    match !text.is_empty() && text.chars().all(plain) {
        true => text,
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

/// The command that opens a file to be corrected.
fn edit(path: &Path) -> String {
    format!("${{EDITOR:-vi}} {}", shell(path))
}

impl DoctorArgs {
    pub(crate) fn run(&self, context: &Context) -> Result<Exit, Failure> {
        let mut findings = Findings::of(context);
        self.look(context, &mut findings);
        let wrong = findings.all.iter().any(|finding| finding.verdict == Verdict::Wrong);
        if context.ui.json {
            context.ui.json(&serde_json::json!({"ok": !wrong, "findings": findings.all}));
        } else {
            findings.all.iter().for_each(|finding| print(context, finding));
        }
        Ok(if wrong { Exit::Wrong } else { Exit::Done })
    }

    fn look(&self, context: &Context, findings: &mut Findings) {
        let config = match load_config(context) {
            Ok(config) => config,
            Err(failure) if failure.trouble().is_some() => {
                return findings.refused("configuration", &failure);
            }
            Err(failure) => return wrong_configuration(&failure, findings),
        };
        findings.is_shared = config.cluster.is_some();
        findings.fine("configuration", "reads");
        surroundings::look_at_zone(context, &config, findings);
        let registry = load_registry(context);
        look_at_registry(context, registry.as_ref(), findings);
        if registry.is_ok() {
            surroundings::look_at_folders(context, &config, findings);
        }
        let home = Home::new(&context.home, &config);
        look_at_disk(context, &home, config.disk_headroom_bytes, findings);
        surroundings::look_at_upstream(context, &home, findings);
        surroundings::look_at_providers(context, &config, findings);
        surroundings::look_at_privacy(context, &config, &home, findings);
        surroundings::look_at_telemetry(context, &config, self.probe, findings);
        #[cfg(feature = "cluster")]
        cluster::look_at_cluster(context, &config, findings);
        surroundings::look_at_units(context, findings);
        surroundings::look_at_rights(context, &config, &home, findings);
        surroundings::look_at_isolation(&config, findings);
        surroundings::look_at_jail(&config, findings);
        let learned = self.look_at_log(context, &home, registry.is_ok(), findings);
        if self.probe {
            surroundings::probe_providers(context, &config, &learned, findings);
        }
    }

    /// Looks at the log; gives what it knows of models.
    fn look_at_log(
        &self,
        context: &Context,
        home: &Home,
        has_registry: bool,
        findings: &mut Findings,
    ) -> Vec<LearnedDialect> {
        let mut learned = Vec::new();
        match home.exists(context.machine.disk.as_ref()) {
            Ok(true) => {}
            Ok(false) => {
                if let Ok(Some(sign)) = lost_log(context.machine.disk.as_ref(), home) {
                    let what = format!("run/summarizer.redb is missing, but {sign}");
                    findings.wrong("log", what, "summarizer recover");
                    return learned;
                }
                let what = "no request was ever taken in here";
                findings.add("log", Verdict::Notice, what, "summarizer init");
                findings.hint("then `summarizer submit` and `summarizer drain`");
                return learned;
            }
            Err(error) => {
                let look = format!("ls -ld {0} {0}/run", findings.home);
                findings.failed("log", &error, &look);
                return learned;
            }
        }
        if !has_registry {
            // No command opens a home with a bad registry, so the log is not checked.
            findings.add("log", Verdict::Notice, "not looked at: the registry first", "");
            return learned;
        }
        let before = projected_bytes(context, home);
        let disk = context.machine.disk.as_ref();
        let copy = self.deep.then(|| backups::look(disk, &home.root));
        let noted = tombstones::look(context.machine.disk.as_ref(), &home.forgotten());
        match HeldHome::take(context, false) {
            Ok(Some(held)) => {
                look_at_repairs(context, &held, before, findings);
                look_at_noted(context, &held, noted, findings);
                let now = context.machine.clock.now();
                let known = held.engine.state().dialects();
                let spoken = known.into_iter().flat_map(|known| known.spoken(now));
                learned.extend(spoken.map(|(one, _)| one));
                self.look_within(context, held, copy, findings);
            }
            Ok(None) => {
                self.look_beside(context, home, findings);
                learned = learned_by_service(home);
            }
            Err(failure) => findings.refused("log", &failure),
        }
        learned
    }

    fn look_within(
        &self,
        context: &Context,
        held: HeldHome,
        copy: Option<io::Result<CopyLook>>,
        findings: &mut Findings,
    ) {
        let log = held.engine.log();
        let (head, _) = log.head();
        let events = ui::count(head.0, "event");
        findings.fine("log", format!("{events}, checkpoint at {}", log.applied()));
        // A damaged log makes every further check useless.
        let deep = self.deep && chain_holds(log, findings);
        surroundings::look_at_clock(context, log, deep, findings);
        for mutation in held.flows.read().mutations(held.engine.state().flows()) {
            let fix = "summarizer reload --accept-mutations";
            findings.add("registry", Verdict::Notice, mutation.what(), fix);
            findings.hint("if the change is intended; otherwise restore the files of the pack");
        }
        let due = held.engine.state().ready_count();
        if due > 0 && held.engine.state().paused().is_empty() {
            let due = ui::count(due, "request");
            let what = format!("{due} may run, but no process runs them");
            findings.add("requests", Verdict::Notice, what, "summarizer drain");
            if !findings.is_shared {
                findings.hint("or leave it to `summarizer serve`");
            }
        }
        if let Some(session) = held.engine.state().session() {
            let what = format!(
                "session {} has no end; the next command that writes records that",
                session.run_id
            );
            findings.add("last session", Verdict::Notice, what, "summarizer drain");
        }
        for cause in held.engine.state().paused() {
            paused(cause.as_str(), findings);
        }
        if let Some((_, open)) = held.engine.state().open_from(Seq(0)).next() {
            let many = ui::count(held.engine.state().open_count(), "open request");
            let what = format!("{many}, the oldest taken at {}", open.row.taken_at);
            findings.fine("requests", what);
        }
        look_at_forgetting(context, &held.home, findings);
        look_at_backups(context, &held.home, findings);
        look_at_queue(context, &held, deep, findings);
        if deep {
            // What opens a damaged cache makes it anew, so this comes first.
            look_at_projections(context, &held, findings);
        }
        if let Some(copy) = copy {
            look_at_copy(&held, copy, findings);
        }
        look_for_summaries(context, &held, findings);
        look_at_retention(context, &held, findings);
        digests::look_at_digests(context, &held, findings);
        if let Err(failure) = held.close() {
            findings.refused("log", &failure);
        }
    }

    /// Another process holds the home: checks what that process answers, and the files.
    fn look_beside(&self, context: &Context, home: &Home, findings: &mut Findings) {
        let end = format!("kill \"$(cat {})\"", shell(&home.lock()));
        let asked = ControlClient::connect(&home.socket())
            .and_then(|mut client| client.ask(&Question::Status));
        let status = match asked {
            Ok(Answer::Ok(status)) => status,
            Ok(Answer::Starting(how_far)) => {
                let what = format!("starting: {how_far}");
                return findings.add("service", Verdict::Notice, what, "summarizer status --watch");
            }
            Ok(Answer::Refused(why) | Answer::NotFound(why)) => {
                findings.wrong("service", why, &end);
                return findings.hint("then start it again; nothing accepted is lost");
            }
            Err(error) => {
                let what = format!("another process holds the home and does not answer: {error}");
                findings.wrong("service", what, &end);
                let pid = context.machine.disk.read(&home.lock()).unwrap_or_default();
                let pid = String::from_utf8_lossy(&pid).trim().to_owned();
                return findings
                    .hint(format!("the lock names process {pid}: find out what it is first"));
            }
        };
        let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
        let session = &status["session"];
        let what = format!(
            "{} holds the home, session {}",
            text(&session["command"]),
            text(&session["run_id"])
        );
        findings.fine("service", what);
        look_at_forgetting(context, home, findings);
        look_at_backups(context, home, findings);
        for cause in status["paused"].as_array().into_iter().flatten() {
            paused(cause.as_str().unwrap_or_default(), findings);
        }
        let behind = status["queue"]["lag_bytes"].as_u64().unwrap_or(0);
        if behind > BACKLOG_BYTES {
            let what = format!("{} are not taken in yet", ui::count(behind, "byte"));
            findings.add("queue", Verdict::Notice, what, "summarizer status --watch");
        }
        for flow in status["flows_mutated"].as_array().into_iter().flatten() {
            let name = label(flow["flow_id"].as_str().unwrap_or("-"), flow["variant"].as_str());
            let what = format!("{name} is registered with another pack than it was used with");
            let fix = "summarizer reload --accept-mutations";
            findings.add("registry", Verdict::Notice, what, fix);
            findings.hint("if the change is intended; otherwise restore the files of the pack");
        }
        let last = &status["digests"]["last_build"];
        if last["ok"] == false {
            digests::failed_build(last, findings);
        }
        if self.deep {
            let what =
                "the chain, the queue and the acks are compared when no process holds the home";
            findings.add("service", Verdict::Notice, what, "summarizer log verify");
            findings.hint("the service checks its hash chain; stop it to compare the other files");
            let options = Options { threads: 1, sources: false };
            match verify_tree(&context.machine.disk, &home.buses, options, &|_| {}) {
                Ok(report) => look_at_violations(&report, findings),
                Err(error) => findings.failed("buses", &error, "summarizer verify"),
            }
        }
    }
}

/// What the process that holds a home has learned of models.
fn learned_by_service(home: &Home) -> Vec<LearnedDialect> {
    let asked =
        ControlClient::connect(&home.socket()).and_then(|mut client| client.ask(&Question::Status));
    let Ok(Answer::Ok(mut status)) = asked else { return Vec::new() };
    serde_json::from_value(status["learned"].take()).unwrap_or_default()
}

/// Why the intake of lines is paused.
fn paused(cause: &str, findings: &mut Findings) {
    let (what, fix, hint) = match cause {
        "operator" => ("intake is paused by order of the operator", "summarizer resume", None),
        "open_requests" => (
            "intake is paused: the number of open requests is at its limit",
            "summarizer drain",
            Some("commit.max_open_requests is the limit"),
        ),
        _ => (
            "intake paused because the disk is full; it continues by itself when space is free",
            "summarizer drain",
            Some("free some space first"),
        ),
    };
    findings.add("intake", Verdict::Notice, what, fix);
    if let Some(hint) = hint {
        findings.hint(hint);
    }
}

/// The hash chain, from its first record on.
fn chain_holds(log: &Reader, findings: &mut Findings) -> bool {
    match log.verify(Seq(1), None, &mut |_| {}) {
        Ok(report) => {
            let records = ui::count(report.records, "record");
            findings.fine("hash chain", format!("{records} intact"));
            true
        }
        Err(error) => {
            findings.failed("hash chain", &error, "summarizer log verify");
            false
        }
    }
}

/// What a `forget` left. A command that holds the home has tried to finish it by now.
fn look_at_forgetting(context: &Context, home: &Home, findings: &mut Findings) {
    match is_forgetting(context, home) {
        Ok(false) => {}
        Ok(true) => {
            let what = "a `forget` is not finished, and its texts may still be in the home";
            findings.wrong("forget", what, "summarizer drain");
            findings.hint("the command says what keeps it from being finished");
        }
        Err(error) => {
            let what = format!("run/forgetting.json cannot be looked at: {error}");
            let fix = format!("ls -l {}", shell(&home.forgetting()));
            findings.wrong("forget", what, &fix);
        }
    }
}

/// The file that names what was forgotten. `noted` is what it held before the home was taken, which made it again.
fn look_at_noted(
    context: &Context,
    held: &HeldHome,
    noted: std::io::Result<Option<tombstones::FileOfTombstones>>,
    findings: &mut Findings,
) {
    let damage = noted.ok().flatten().and_then(|found| found.damage);
    let lacked = match held.lacks_forgotten(context) {
        Ok(lacked) => lacked,
        Err(failure) => return findings.wrong("forgotten", said(&failure), "summarizer verify"),
    };
    if let Some(why) = damage.or(lacked) {
        let what = format!(
            "run/forgotten.jsonl was damaged ({why}); the log has all of it, so it was made again"
        );
        findings.add("forgotten", Verdict::Notice, what, "");
    }
}

/// Backups that have expired: they hold texts longer than their person wanted.
fn look_at_backups(context: &Context, home: &Home, findings: &mut Findings) {
    let (disk, now) = (context.machine.disk.as_ref(), context.machine.clock.now());
    let known = match backups::known(disk, home) {
        Ok(known) => known,
        Err(error) => {
            let what = format!("run/backups.jsonl cannot be read: {error}");
            return findings.wrong("backups", what, &format!("ls -l {}", shell(&home.backups())));
        }
    };
    if known.is_empty() {
        return;
    }
    let expired: Vec<String> = known
        .iter()
        .filter(|backup| backup.has_expired(now))
        .map(|backup| backup.folder.display().to_string())
        .collect();
    match expired.as_slice() {
        [] => findings
            .fine("backups", format!("{}, none has expired", ui::count(known.len(), "backup"))),
        folders => {
            let (many, folders) = (ui::count(folders.len(), "backup"), folders.join(", "));
            let what = format!("{many} expired: {folders}");
            findings.add("backups", Verdict::Notice, what, "summarizer backup --remove-expired");
        }
    }
}

/// A home that is a copy: each file against the hash that `backup` wrote down, as it was before the home was opened.
fn look_at_copy(held: &HeldHome, copy: io::Result<CopyLook>, findings: &mut Findings) {
    match copy.map(|copy| copy.at(&held.engine.log().head().1)) {
        Ok(found) => {
            if let Some(first) = found.differences.first() {
                let many = ui::count(found.differences.len(), "difference");
                let what = format!("{many} from backup.json, the first: {first}");
                findings.wrong("copy", what, "summarizer verify");
                findings.hint(
                    "keep another backup; remove backup.json if this folder is a home that you changed",
                );
            }
            found.notes.into_iter().for_each(|note| findings.fine("copy", note));
        }
        Err(error) => {
            let look = format!("ls -l {}", findings.home);
            findings.failed("copy", &error, &look);
        }
    }
}

fn projected_bytes(context: &Context, home: &Home) -> [(&'static str, u64); 2] {
    let bytes =
        |path: PathBuf| context.machine.disk.stat(&path).ok().flatten().map_or(0, |stat| stat.len);
    [("run/ack.jsonl", bytes(home.acks())), ("run/quarantine.jsonl", bytes(home.quarantine()))]
}

/// Opening a home appends what these files lack; this reports that bytes were missing.
fn look_at_repairs(
    context: &Context,
    held: &HeldHome,
    before: [(&'static str, u64); 2],
    findings: &mut Findings,
) {
    held.projector.projected().wait_for(held.engine.log().head().0);
    for ((name, was), (_, is)) in before.into_iter().zip(projected_bytes(context, &held.home)) {
        if is != was {
            let (was, is) = (ui::count(was, "byte"), ui::count(is, "byte"));
            let what = format!("{name} had {was}, the log tells of {is}: it was written on");
            findings.fine("acks", what);
        }
    }
}

fn look_at_queue(context: &Context, held: &HeldHome, deep: bool, findings: &mut Findings) {
    let disk = &context.machine.disk;
    let queue = &held.home.queue;
    let mark = match QueueMark::of_host(&held.config.queue_host(), &held.engine.log().mark()) {
        Ok(mark) => mark,
        Err(error) => return findings.wrong("queue", error.to_string(), "summarizer recover"),
    };
    let note = held.home.adopted_queue();
    let place = as_adopted(disk, queue, mark.position.clone(), &note);
    match place.and_then(|place| describe_change(disk, queue, &place)) {
        Ok(None) => {}
        Ok(Some(change)) => {
            let fix = match change {
                Change::Replaced { same_bytes: true } => {
                    "summarizer queue adopt --from same-offset"
                }
                _ => "summarizer queue adopt",
            };
            return findings.wrong("queue", format!("the queue file {change}"), fix);
        }
        Err(error) => {
            let fix = match queue.starts_with(&held.home.root) {
                true => {
                    let beside = shell(Path::new(&format!("{}.aside", queue.display())));
                    format!("mv {} {beside} && summarizer queue adopt", shell(queue))
                }
                // It may be a device, or belong to somebody else.
                false => edit(&findings.settings),
            };
            return findings.failed("queue", &error, &fix);
        }
    }
    let length = disk.stat(queue).ok().flatten().map_or(0, |stat| stat.len);
    let behind = length.saturating_sub(mark.position.offset);
    if behind > BACKLOG_BYTES {
        let what = format!("{} are not taken in yet", ui::count(behind, "byte"));
        findings.add("queue", Verdict::Notice, what, "summarizer drain");
    } else {
        let lines = ui::count(mark.position.lines, "line");
        let behind = ui::count(behind, "byte");
        findings.fine("queue", format!("{lines} consumed, {behind} behind"));
    }
    if !deep {
        return;
    }
    match rewritten(context, held, queue) {
        Ok((batches, None)) => {
            findings.fine("queue prefix", format!("{} intact", ui::count(batches, "batch")));
        }
        Ok((_, Some(bad))) => {
            let what = format!("bytes {} to {} were rewritten", bad.start, bad.end);
            findings.wrong("queue prefix", what, "summarizer queue adopt");
        }
        Err(failure) => findings.refused("queue prefix", &failure),
    }
}

fn wrong_configuration(failure: &Failure, findings: &mut Findings) {
    let what = said(failure);
    let mut words = what.split(|c: char| !(c.is_ascii_uppercase() || c == '_'));
    let variable =
        words.find(|word| word.starts_with("SUMMARIZER_") && std::env::var_os(word).is_some());
    let fix = match variable {
        Some(name) => format!("unset {name} && summarizer config"),
        None => {
            format!("{} && summarizer config", edit(&findings.settings))
        }
    };
    findings.wrong("configuration", what, &fix);
    findings.hint("`summarizer config --defaults` lists every key");
}

fn look_at_registry(
    context: &Context,
    registry: Result<&Registry, &Failure>,
    findings: &mut Findings,
) {
    let file = context.home.join("flow_registry/registry.flow_packs.v1.jsonl");
    let registry = match registry {
        Ok(registry) => registry,
        Err(failure) => {
            let fix = format!("{} && summarizer registry check", edit(&file));
            findings.wrong("registry", said(failure), &fix);
            return findings.hint("without a folder flow_registry the embedded registry is used");
        }
    };
    if registry.records().is_empty() {
        let (file, beside) = (shell(&file), shell(&file.with_extension("empty")));
        let fix = format!("mv {file} {beside} && summarizer init --with-registry");
        let what = "no flow is registered: every request is refused";
        findings.wrong("registry", what, &fix);
    } else {
        findings.fine("registry", ui::count(registry.records().len(), "flow record"));
    }
    look_at_packs(context, registry, findings);
}

/// Packs whose files differ from the hash in their records. One finding covers all records of a pack.
fn look_at_packs(context: &Context, registry: &Registry, findings: &mut Findings) {
    let mut told: BTreeSet<&str> = BTreeSet::new();
    for record in registry.records() {
        let Err(error) = registry.verified_files(context.machine.disk.as_ref(), record) else {
            continue;
        };
        let pack = record.pack_dir.as_str();
        if !told.insert(pack) {
            continue;
        }
        let what = format!("{}: {error}", label(&record.flow_id, record.variant.as_deref()));
        let folder = context.home.join("flow_registry").join(pack);
        let beside = shell(Path::new(&format!("{}.edited", folder.display())));
        let folder = shell(&folder);
        let own = format!("summarizer registry add {folder} --flow-id {}.mine", record.flow_id);
        if embedded_files().any(|(path, _)| Path::new(path).starts_with(pack)) {
            let fix = format!("mv {folder} {beside} && summarizer init --with-registry");
            findings.wrong("registry", what, &fix);
            findings.hint(format!("or, to keep the change under its own id: {own}"));
        } else {
            findings.wrong("registry", what, &own);
            findings.hint("or restore the original files");
        }
    }
}

/// Data that is older than the retention settings allow, and when retention was last applied.
fn look_at_retention(context: &Context, held: &HeldHome, findings: &mut Findings) {
    let policy = Policy::of(&held.config);
    if policy.keeps_all() {
        return;
    }
    let (disk, now) = (context.machine.disk.as_ref(), context.machine.clock.now());
    let last = match retention::last(held.engine.log()) {
        Ok(Some((at, _))) => format!("last applied at {at}"),
        Ok(None) => "never applied".to_owned(),
        Err(error) => format!("the record of the last pass cannot be read: {}", described(&error)),
    };
    match retention::look(disk, &held.home, &held.engine, policy, now) {
        Ok(due) if due.is_empty() => {
            findings.fine("retention", format!("no data is older than its retention age; {last}"));
        }
        Ok(due) => {
            let parts = due.described("");
            let what = format!(
                "older than the retention ages: {}, {}, {}; {last}",
                ui::count(parts.answers.map_or(0, |part| part.dropped), "answer"),
                ui::count(parts.acks.map_or(0, |part| part.moved), "ack"),
                ui::count(parts.frames.map_or(0, |part| part.records), "record"),
            );
            let in_passing = Policy::in_passing(&held.config);
            let leaves_acks = retention::look(disk, &held.home, &held.engine, in_passing, now)
                .is_ok_and(|due| due.leaves_acks());
            match held.config.retention_daily {
                true if !leaves_acks => {
                    findings.fine("retention", format!("{what}; a running service removes it"));
                }
                _ => findings.add("retention", Verdict::Notice, what, "summarizer retain"),
            }
            if leaves_acks {
                findings.hint(
                    "run/ack.jsonl is too large for a running service to shorten: stop the service first",
                );
            }
        }
        Err(error) => findings.failed("retention", &error, "summarizer retain --dry-run"),
    }
}

/// Whole days of published summaries that are missing.
fn look_for_summaries(context: &Context, held: &HeldHome, findings: &mut Findings) {
    let produced = held.engine.state().totals().by_status.get(&Status::Completed);
    let folder = held.home.buses.join("summaries/manifest");
    match context.machine.disk.stat(&folder) {
        Ok(None) if produced.is_some_and(|count| *count > 0) => {
            let what = "requests completed, and buses/summaries is gone";
            findings.wrong("summaries", what, "summarizer export --repair");
        }
        Ok(_) => {}
        Err(error) => findings.failed("summaries", &error, &format!("ls -ld {}", shell(&folder))),
    }
}

/// Compares the files on the disk with the projections of the log.
fn look_at_projections(context: &Context, held: &HeldHome, findings: &mut Findings) {
    let (disk, log) = (&context.machine.disk, held.engine.log());
    match rebuild(log, Until::Head, Compare::Tables, &mut |_| {}) {
        Ok(replayed) => match replayed.differences.first() {
            None => findings.fine("tables", "what the log leads to"),
            Some(difference) => {
                findings.wrong("tables", difference.clone(), "summarizer recover");
            }
        },
        Err(error) => findings.failed("tables", &error, "summarizer recover"),
    }
    let site = held.site(context);
    for exporter in exporters::all(&site) {
        match exporter.compare(&site) {
            Ok(found) => match found.differences.as_slice() {
                // Notes say why files were not compared. Other checks have reported that.
                [] if !found.notes.is_empty() => {}
                [] => findings.fine(exporter.name, "what the log leads to"),
                [first, ..] => {
                    let many = ui::count(found.differences.len(), "difference");
                    let what = format!("{many} from the log, the first: {first}");
                    let fix = found.fix.unwrap_or("summarizer export --repair");
                    findings.wrong(exporter.name, what, fix);
                }
            },
            Err(error) => {
                findings.failed(exporter.name, &error, &format!("ls -l {}/run", findings.home));
            }
        }
    }
    let options = Options { threads: 1, sources: false };
    match verify_tree(disk, &held.home.buses, options, &|_| {}) {
        Ok(report) => look_at_violations(&report, findings),
        Err(error) => {
            let look = format!("ls -l {}", shell(&held.home.buses));
            findings.failed("buses", &error, &look);
        }
    }
}

/// Our own files can be written again from the log; an upstream file only by its producer.
fn look_at_violations(report: &Report, findings: &mut Findings) {
    let ours = |file: &str| {
        let folders = exporters::ALL.iter().flat_map(|exporter| exporter.folders);
        folders
            .chain(&["artifacts"])
            .any(|folder| file.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/')))
    };
    if report.violations.is_empty() {
        return findings.fine("buses", format!("{} verified", ui::count(report.files, "file")));
    }
    let (of_us, of_others): (Vec<_>, Vec<_>) =
        report.violations.iter().partition(|violation| ours(&violation.file));
    let others = "let its producer publish it again, or import it again";
    for (violations, fix, hint) in [
        (of_us, "summarizer export --repair", None),
        (of_others, "summarizer verify", Some(others)),
    ] {
        let Some(first) = violations.first() else { continue };
        let many = ui::count(violations.len(), "violation");
        let what = format!("{many}, the first in {}: {}", first.file, first.message);
        findings.wrong("buses", what, fix);
        if let Some(hint) = hint {
            findings.hint(hint);
        }
    }
}

fn look_at_disk(context: &Context, home: &Home, headroom: u64, findings: &mut Findings) {
    match context.machine.disk.free_bytes(&home.root) {
        Ok(free) if free < headroom => {
            let what = format!("only {} MiB are free; intake pauses", free >> 20);
            let biggest = findings.biggest();
            findings.wrong("disk", what, &biggest);
            findings.hint(
                "free some space; `summarizer retain` removes data older than the [retention] settings",
            );
        }
        Ok(free) => findings.fine("disk", format!("{} MiB free", free >> 20)),
        Err(_) => {
            findings.add("disk", Verdict::Notice, "the home does not exist", "summarizer init");
            if let Some(near) = home_beside(context) {
                findings.hint(format!("did you mean --home {near}?"));
            }
        }
    }
}

pub(super) fn said(failure: &Failure) -> String {
    let value = failure.to_json();
    let causes: Vec<&str> =
        value["caused_by"].as_array().into_iter().flatten().filter_map(|c| c.as_str()).collect();
    let mut text = value["error"].as_str().unwrap_or_default().to_owned();
    if !causes.is_empty() {
        text = format!("{text}: {}", causes.join(": "));
    }
    text
}

fn print(context: &Context, finding: &Finding) {
    let sign = match finding.verdict {
        Verdict::Fine => ui::green("ok"),
        Verdict::Notice => ui::yellow("--"),
        Verdict::Wrong => ui::red("!!"),
    };
    context.ui.out(format!("{sign}  {:<14} {}", finding.check, finding.what));
    if let Some(fix) = &finding.fix {
        context.ui.out(format!("    {} {fix}", ui::dim("fix:")));
    }
    if let Some(hint) = &finding.hint {
        context.ui.out(format!("    {}", ui::dim(hint)));
    }
}
