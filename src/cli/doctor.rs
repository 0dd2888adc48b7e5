//! `doctor`: finds what goes wrong in practice, and says the command that fixes it.

mod digests;
mod surroundings;

use std::ops::ControlFlow;
use std::path::Path;

use clap::Args;
use serde::Serialize;

use super::failure::{Exit, Failure};
use super::replay::is_damage;
use super::session::{Held, load_config, load_registry, lost_log};
use super::{Context, ui};
use crate::contract::ids::Seq;
use crate::registry::{Registry, label};
use crate::replay::{Compare, Until, compare_files, rebuild};
use crate::seam::position::{describe_change, verify_prefix};
use crate::service::control::{Answer, ControlClient, Question};
use crate::service::home::Home;
use crate::service::mark::QueueMark;
use crate::service::summaries::Summaries;
use crate::verify::{Options, verify_tree};

/// A backlog of this many bytes is worth a word.
const BACKLOG_BYTES: u64 = 64 << 20;

/// Look for what goes wrong in practice
#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// Also recompute the hash chain and compare the whole consumed queue
    #[arg(long)]
    deep: bool,
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
    fix: Option<String>,
}

#[derive(Default)]
struct Findings(Vec<Finding>);

impl Findings {
    fn add(&mut self, check: &'static str, verdict: Verdict, what: impl Into<String>, fix: &str) {
        let fix = (!fix.is_empty()).then(|| fix.to_owned());
        self.0.push(Finding { check, verdict, what: what.into(), fix });
    }

    fn fine(&mut self, check: &'static str, what: impl Into<String>) {
        self.add(check, Verdict::Fine, what, "");
    }

    fn wrong(&mut self, check: &'static str, what: impl Into<String>, fix: &str) {
        self.add(check, Verdict::Wrong, what, fix);
    }
}

impl DoctorArgs {
    /// Runs the command.
    pub fn run(&self, context: &Context) -> Result<Exit, Failure> {
        let mut findings = Findings::default();
        self.look(context, &mut findings);
        let wrong = findings.0.iter().any(|finding| finding.verdict == Verdict::Wrong);
        if context.ui.json {
            context.ui.json(&serde_json::json!({"ok": !wrong, "findings": findings.0}));
        } else {
            findings.0.iter().for_each(|finding| print(context, finding));
        }
        Ok(if wrong { Exit::Wrong } else { Exit::Done })
    }

    fn look(&self, context: &Context, findings: &mut Findings) {
        let config = match load_config(context) {
            Ok(config) => config,
            Err(failure) => {
                let fix = "correct summarizer.toml; `summarizer config` lists the keys";
                return findings.wrong("configuration", said(&failure), fix);
            }
        };
        findings.fine("configuration", "reads");
        surroundings::look_at_zone(&config, findings);
        match load_registry(context) {
            Ok(registry) => {
                findings.fine("registry", format!("{} flow records", registry.records().len()));
                look_at_packs(context, &registry, findings);
            }
            Err(failure) => {
                findings.wrong("registry", said(&failure), "summarizer registry check");
            }
        }
        let home = Home::new(&context.home, &config);
        look_at_disk(context, &home, config.disk_headroom_bytes, findings);
        surroundings::look_at_upstream(context, &home, findings);
        surroundings::look_at_providers(&config, findings);
        surroundings::look_at_units(context, findings);
        match home.exists(context.machine.disk.as_ref()) {
            Ok(true) => {}
            Ok(false) => {
                if let Ok(Some(sign)) = lost_log(context.machine.disk.as_ref(), &home) {
                    let what = format!("run/summarizer.redb is missing, but {sign}");
                    return findings.wrong("log", what, "summarizer recover");
                }
                let what = "nothing was ever taken in here";
                let fix = "summarizer init, then summarizer submit and summarizer drain";
                return findings.add("log", Verdict::Notice, what, fix);
            }
            Err(error) => return findings.wrong("log", error.to_string(), "check the permissions"),
        }
        match Held::take(context, false) {
            Ok(Some(held)) => self.look_within(context, held, findings),
            Ok(None) => look_beside(&home, findings),
            Err(failure) => {
                findings.wrong("log", said(&failure), "summarizer recover");
            }
        }
    }

    fn look_within(&self, context: &Context, held: Held, findings: &mut Findings) {
        let log = held.engine.log();
        let (head, _) = log.head();
        findings.fine("log", format!("{} events, checkpoint at {}", head, log.applied()));
        surroundings::look_at_clock(context, log, self.deep, findings);
        for mutation in held.flows.read().mutations(held.engine.state().flows()) {
            let fix =
                "give the changed pack a new version, or restore it: summarizer registry check";
            findings.add("registry", Verdict::Notice, mutation.what(), fix);
        }
        let due = held.engine.state().ready_count();
        if due > 0 && held.engine.state().paused().is_empty() {
            let what = format!("{due} requests may run and nobody runs them");
            findings.add(
                "requests",
                Verdict::Notice,
                what,
                "summarizer drain, or summarizer serve",
            );
        }
        if let Some(run) = held.engine.state().run() {
            let what = format!("run {} never finished; the next run notes that", run.run_id);
            findings.add("last run", Verdict::Notice, what, "summarizer drain");
        }
        for cause in held.engine.state().paused() {
            let what = format!("intake is paused ({cause:?})");
            findings.add("intake", Verdict::Notice, what, "summarizer resume");
        }
        if let Some((_, open)) = held.engine.state().open_from(Seq(0)).next() {
            let what = format!(
                "{} open requests, the oldest taken at {}",
                held.engine.state().open_count(),
                open.row.taken_at
            );
            findings.fine("requests", what);
        }
        self.look_at_queue(context, &held, findings);
        digests::look_at_digests(context, &held, findings);
        if self.deep {
            let verified = log.verify(Seq(1), None, &mut |_| {});
            match verified {
                Ok(report) => {
                    findings.fine("hash chain", format!("{} records intact", report.records));
                }
                Err(error) if is_damage(&error) => {
                    let fix = "summarizer recover";
                    findings.wrong("hash chain", error.to_string(), fix);
                }
                Err(error) => findings.wrong("hash chain", error.to_string(), "try again"),
            }
            look_at_projections(context, &held, findings);
            digests::compare_digests(context, &held, findings);
        }
        if let Err(failure) = held.close() {
            findings.wrong("log", said(&failure), "check the disk");
        }
    }

    fn look_at_queue(&self, context: &Context, held: &Held, findings: &mut Findings) {
        let disk = &context.machine.disk;
        let queue = &held.home.queue;
        let mark = match QueueMark::decode(&held.engine.log().mark()) {
            Ok(mark) => mark,
            Err(error) => return findings.wrong("queue", error.to_string(), "report this"),
        };
        match describe_change(disk, queue, &mark.position) {
            Ok(None) => {}
            Ok(Some(change)) => {
                let fix = "summarizer queue adopt";
                return findings.wrong("queue", format!("the queue file {change}"), fix);
            }
            Err(error) => return findings.wrong("queue", error.to_string(), "check the file"),
        }
        let length = disk.stat(queue).ok().flatten().map_or(0, |stat| stat.len);
        let behind = length.saturating_sub(mark.position.offset);
        if behind > BACKLOG_BYTES {
            let what = format!("{behind} bytes are not taken in yet");
            findings.add("queue", Verdict::Notice, what, "summarizer drain, or see `status`");
        } else {
            findings.fine(
                "queue",
                format!("{} lines consumed, {behind} bytes behind", mark.position.lines),
            );
        }
        if self.deep {
            self.look_at_prefix(context, held, queue, findings);
        }
    }

    fn look_at_prefix(
        &self,
        context: &Context,
        held: &Held,
        queue: &Path,
        findings: &mut Findings,
    ) {
        let mut batches = Vec::new();
        let read = held.engine.log().marks(&mut |_, bytes| {
            if let Ok(mark) = QueueMark::decode(bytes)
                && let Some(consumed) = mark.consumed
            {
                // An adoption starts a new chain.
                if consumed.start == 0 {
                    batches.clear();
                }
                batches.push(consumed);
            }
            ControlFlow::Continue(())
        });
        let checked = match read {
            Ok(()) => verify_prefix(&context.machine.disk, queue, &batches),
            Err(error) => return findings.wrong("queue", error.to_string(), "try again"),
        };
        match checked {
            Ok(None) => findings.fine("queue prefix", format!("{} batches intact", batches.len())),
            Ok(Some(bad)) => {
                let what = format!("bytes {} to {} were rewritten", bad.start, bad.end);
                findings.wrong("queue prefix", what, "summarizer queue adopt");
            }
            Err(error) => findings.wrong("queue prefix", error.to_string(), "check the file"),
        }
    }
}

/// Packs whose files are not those their record was made of.
fn look_at_packs(context: &Context, registry: &Registry, findings: &mut Findings) {
    for record in registry.records() {
        if let Err(error) = registry.verified_files(context.machine.disk.as_ref(), record) {
            let what = format!("{}: {error}", label(&record.flow_id, record.variant.as_deref()));
            findings.wrong("registry", what, "summarizer registry check");
        }
    }
}

/// What the log projects to, as it is on the disk.
fn look_at_projections(context: &Context, held: &Held, findings: &mut Findings) {
    let (disk, log) = (&context.machine.disk, held.engine.log());
    match rebuild(log, Until::Head, Compare::Tables, &mut |_| {}) {
        Ok(replayed) => match replayed.differences.first() {
            None => findings.fine("tables", "what the log leads to"),
            Some(difference) => {
                findings.wrong("tables", difference.clone(), "summarizer recover");
            }
        },
        Err(error) => findings.wrong("tables", error.to_string(), "summarizer recover"),
    }
    let (acks, quarantine) = (held.home.acks(), held.home.quarantine());
    match compare_files(log, disk, &acks, &quarantine, true) {
        Ok(differences) if differences.is_empty() => {
            findings.fine("acks", "what the log leads to");
        }
        Ok(differences) => {
            let fix = format!(
                "rm {} {} && summarizer status: the log writes them again",
                acks.display(),
                quarantine.display()
            );
            findings.wrong("acks", differences.join("; "), &fix);
        }
        Err(error) => findings.wrong("acks", error.to_string(), "check the permissions"),
    }
    let missing = Summaries::missing(disk, &held.home.buses, log);
    let fix = "summarizer export --repair";
    match missing {
        Ok(missing) if missing.is_empty() => {}
        Ok(missing) => findings.wrong("summaries", format!("missing: {}", missing.join(", ")), fix),
        Err(error) => findings.wrong("summaries", error.to_string(), fix),
    }
    let options = Options { threads: 1, sources: false };
    match verify_tree(disk, &held.home.buses, options, &|_| {}) {
        Ok(report) => match report.violations.first() {
            None => findings.fine("buses", format!("{} files verified", report.files)),
            Some(first) => {
                let what = format!(
                    "{} violations, the first in {}: {}",
                    report.violations_total, first.file, first.message
                );
                let ours = first.file.starts_with("summaries/");
                let fix = if ours { fix } else { "summarizer verify lists them all" };
                findings.wrong("buses", what, fix);
            }
        },
        Err(error) => findings.wrong("buses", error.to_string(), "check the permissions"),
    }
}

fn look_at_disk(context: &Context, home: &Home, headroom: u64, findings: &mut Findings) {
    match context.machine.disk.free_bytes(&home.root) {
        Ok(free) if free < headroom => {
            let what = format!("only {} MiB are free; intake pauses", free >> 20);
            findings.wrong("disk", what, "free some space");
        }
        Ok(free) => findings.fine("disk", format!("{} MiB free", free >> 20)),
        Err(_) => {
            findings.add("disk", Verdict::Notice, "the home does not exist", "summarizer init")
        }
    }
}

fn look_beside(home: &Home, findings: &mut Findings) {
    let asked =
        ControlClient::connect(&home.socket()).and_then(|mut client| client.ask(&Question::Status));
    match asked {
        Ok(Answer::Ok(status)) => {
            let what = format!("a service holds the home: {}", status["run"]["run_id"]);
            findings.fine("service", what);
        }
        Ok(Answer::Starting(how_far)) => {
            findings.add("service", Verdict::Notice, format!("starting: {how_far}"), "wait");
        }
        Ok(other) => findings.wrong("service", format!("{other:?}"), "restart it"),
        Err(error) => {
            let what = format!("another process holds the home and does not answer: {error}");
            findings.wrong("service", what, "end the process named in run/summarizer.lock");
        }
    }
}

fn said(failure: &Failure) -> String {
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
}
