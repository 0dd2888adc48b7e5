//! `log`: events as JSON lines, sizes, the hash chain, retention.

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::causes::{held_by_another, log_failed};
use super::failure::{Exit, Failure};
use super::held_home::HeldHome;
use super::home_access::HomeAccess;
use super::{Context, ui};
use crate::config::parse_duration_ms;
use crate::contract::hash::Digest;
use crate::contract::ids::Seq;
use crate::control::question::Question;
use crate::upkeep::retention::first_after;

/// Print, count, check or archive the log
#[derive(Debug, Args)]
pub(crate) struct LogArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Print events as JSON lines
    Dump {
        /// The first event to print
        #[arg(long, default_value_t = 1, value_name = "SEQ")]
        from: u64,
        /// The last event to print
        #[arg(long, value_name = "SEQ")]
        until: Option<u64>,
    },
    /// Print sizes and counts
    Stats,
    /// Recompute the hash chain and name the first bad record
    Verify {
        /// A hash that was kept outside the home, `SEQ:HASH`, such as the ack_seq and log_head of an ack
        #[arg(long = "anchor", value_name = "SEQ:HASH")]
        anchors: Vec<String>,
    },
    /// Move old records into compressed archive segments; they stay readable and verifiable
    Archive {
        /// Move records before this event
        #[arg(long, value_name = "SEQ", required_unless_present = "older_than")]
        before: Option<u64>,
        /// Move records older than this, such as `30 d`
        #[arg(long, value_name = "AGE", conflicts_with = "before")]
        older_than: Option<String>,
        /// Then also shrink the file of the log
        #[arg(long)]
        compact: bool,
    },
}

impl LogArgs {
    pub(crate) fn run(&self, context: &Context) -> Result<Exit, Failure> {
        match &self.action {
            Action::Dump { from, until } => dump(context, *from, until.unwrap_or(u64::MAX)),
            Action::Stats => stats(context),
            Action::Verify { anchors } => verify(context, anchors),
            Action::Archive { before, older_than, compact } => {
                archive(context, *before, older_than.as_deref(), *compact)
            }
        }
    }
}

fn dump(context: &Context, from: u64, until: u64) -> Result<Exit, Failure> {
    let mut session = HomeAccess::open(context)?;
    let mut next = Some(from);
    while let Some(from) = next.filter(|from| *from <= until) {
        let page = session.ask(context, &Question::LogDump { from, limit: None })?;
        for event in page["events"].as_array().into_iter().flatten() {
            if event["seq"].as_u64().is_some_and(|seq| seq <= until) {
                context.ui.json(event);
            }
        }
        next = page["next"].as_u64();
    }
    session.close()?;
    Ok(Exit::Done)
}

fn stats(context: &Context) -> Result<Exit, Failure> {
    let mut session = HomeAccess::open(context)?;
    let stats = session.ask(context, &Question::LogStats);
    session.close()?;
    let stats = stats?;
    if context.ui.json {
        context.ui.json(&stats);
        return Ok(Exit::Done);
    }
    let ratio = stats["frame_bytes"].as_f64().unwrap_or(0.0)
        / stats["raw_bytes"].as_f64().filter(|raw| *raw > 0.0).unwrap_or(1.0);
    context.ui.out(format!("events       {}", stats["head"]));
    context.ui.out(format!("checkpoint   {}", stats["checkpoint"]));
    context.ui.out(format!("file         {}", ui::told(&stats["file_bytes"], "byte")));
    context.ui.out(format!(
        "frames       {} ({:.0} % of their payload)",
        stats["frames"],
        ratio * 100.0
    ));
    let rows: Vec<Vec<String>> = stats["tables"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|table| {
            let name = table["name"].as_str().unwrap_or_default().to_owned();
            vec![name, table["entries"].to_string(), table["stored_bytes"].to_string()]
        })
        .collect();
    context.ui.table(&["TABLE", "ENTRIES", "BYTES"], &rows);
    Ok(Exit::Done)
}

fn verify(context: &Context, anchors: &[String]) -> Result<Exit, Failure> {
    let anchors = anchors.iter().map(|anchor| parse_anchor(anchor)).collect::<Result<_, _>>()?;
    let mut session = HomeAccess::open(context)?;
    let report = session.ask(context, &Question::LogVerify { anchors });
    session.close()?;
    let report = report?;
    if context.ui.json {
        context.ui.json(&report);
    } else if report["ok"] == Value::Bool(true) {
        context.ui.out(format!(
            "{} {} and {}; head {} {}",
            ui::green("intact:"),
            ui::told(&report["records"], "record"),
            ui::told(&report["bodies"], "body"),
            report["head"],
            report["hash"].as_str().unwrap_or_default()
        ));
    } else {
        context.ui.out(format!(
            "{} {}",
            ui::red("damaged:"),
            report["damage"].as_str().unwrap_or_default()
        ));
    }
    Ok(if report["ok"] == Value::Bool(true) { Exit::Done } else { Exit::Wrong })
}

fn archive(
    context: &Context,
    before: Option<u64>,
    older_than: Option<&str>,
    compact: bool,
) -> Result<Exit, Failure> {
    let age = match older_than {
        None => None,
        Some(text) => Some(parse_duration_ms(text).ok_or_else(|| {
            Failure::new(Exit::Usage, format!("cannot read the age {text:?}"))
                .hint("an age is like `30 d` or `12 h`")
        })?),
    };
    let mut held = HeldHome::take(context, false)?.ok_or_else(|| held_by_another(context))?;
    held.refuse_damage(context)?;
    let now = context.machine.clock.now();
    held.checkpoint(now)?;
    let log = held.engine.log().clone();
    let before = match (before, age) {
        (Some(before), _) => Seq(before),
        (None, age) => first_after(&log, Seq(1), now.plus_ms(-age.unwrap_or(0)))
            .map_err(|error| log_failed(&error))?,
    };
    let before = before.min(log.applied().next());
    let bar = context.ui.progress("archiving", 100);
    let moved =
        held.engine.store().archive(before, &mut |part| bar.set_position((part * 100.0) as u64));
    bar.finish_and_clear();
    let moved = moved.map_err(|error| log_failed(&error))?;
    if compact {
        held.engine.store().compact_file().map_err(|error| log_failed(&error))?;
    }
    let file_bytes = log.file_bytes().map_err(|error| log_failed(&error))?;
    held.close()?;
    let report = json!({
        "segments": moved.segments, "records": moved.records, "frame_bytes": moved.frame_bytes,
        "segment_bytes": moved.segment_bytes, "file_bytes": file_bytes,
    });
    if context.ui.json {
        context.ui.json(&report);
    } else {
        context.ui.out(format!(
            "{} in {}, {}; the store has {}",
            ui::count(moved.records, "record"),
            ui::count(moved.segments, "segment"),
            ui::count(moved.segment_bytes, "byte"),
            ui::count(file_bytes, "byte"),
        ));
    }
    Ok(Exit::Done)
}

fn parse_anchor(anchor: &str) -> Result<(u64, String), Failure> {
    let parsed = || {
        let (seq, hash) = anchor.split_once(':')?;
        hash.parse::<Digest>().ok()?;
        Some((seq.parse().ok()?, hash.to_owned()))
    };
    parsed().ok_or_else(|| {
        Failure::new(Exit::Usage, format!("cannot read the anchor {anchor:?}"))
            .hint("an anchor is SEQ:HASH, for example ack_seq:log_head of an ack")
    })
}
