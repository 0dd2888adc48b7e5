//! `retain`: what is old goes, by the policy of the settings: answers of models are dropped, acks are
//! moved away, frames of the log are archived. Each is a fact of the log.

use std::ops::ControlFlow;

use clap::Args;
use serde_json::{Value, json};

use super::failure::{Exit, Failure};
use super::session::{Held, engine_failed, held_by_another, log_failed};
use super::{Context, ui};
use crate::config::ArchiveAfter;
use crate::contract::ids::Seq;
use crate::contract::time::Timestamp;
use crate::log::Reader;
use crate::log::codec::{self, Cursor};
use crate::os::Open;
use crate::service::engine::CheckpointWhen;
use crate::service::projector::{ACKS, ACKS_FLOOR};
use crate::state::event::Event;
use crate::upstream::lines::Lines;

/// Apply the retention of the settings: answers, acks, frames of the log
#[derive(Debug, Args)]
pub struct RetainArgs {
    /// Only say what would go
    #[arg(long)]
    dry_run: bool,
}

/// Acks that are old enough.
struct OldAcks {
    /// The last event they tell of.
    last: Seq,
    lines: u64,
    /// Where they end in the file, and where the file ends.
    end: u64,
    file_end: u64,
}

impl RetainArgs {
    /// Runs the command.
    pub fn run(&self, context: &Context) -> Result<Exit, Failure> {
        let mut held = Held::take(context, false)?.ok_or_else(|| held_by_another(context))?;
        let report = self.retain(context, &mut held);
        held.close()?;
        show(context, &report?);
        Ok(Exit::Done)
    }

    fn retain(&self, context: &Context, held: &mut Held) -> Result<Value, Failure> {
        let now = context.machine.clock.now();
        let log = held.engine.log().clone();
        let before = |after: ArchiveAfter| match after {
            ArchiveAfter::Never => None,
            ArchiveAfter::Age(ms) => Some(now.plus_ms(-ms)),
        };
        let mut report = json!({"dry_run": self.dry_run});
        if let Some(before) = before(held.config.answers_after) {
            let (seqs, bytes) = old_answers(held, before)?;
            report["answers"] =
                json!({"dropped": seqs.len(), "bytes": bytes, "before": before.to_string()});
            if !self.dry_run && !seqs.is_empty() {
                let facts = report["answers"].to_string();
                note(held, "answers_dropped", facts, now)?;
                held.engine.store().drop_bodies(&seqs).map_err(|error| log_failed(&error))?;
            }
        }
        if let Some(before) = before(held.config.acks_after) {
            let acks = old_acks(context, held, &log, before)?;
            report["acks"] =
                json!({"moved": acks.lines, "bytes": acks.end, "before": before.to_string()});
            if !self.dry_run && acks.lines > 0 {
                move_acks(context, held, &acks, now)?;
            }
        }
        if let Some(before) = before(held.config.archive_after) {
            held.checkpoint(now)?;
            let first = first_after(&log, before)?.min(log.applied().next());
            let mut store = held.engine.store();
            report["frames"] = match self.dry_run {
                true => json!({"records_before": first.0, "before": before.to_string()}),
                false => {
                    let moved =
                        store.archive(first, &mut |_| {}).map_err(|error| log_failed(&error))?;
                    json!({"records": moved.records, "segments": moved.segments,
                           "bytes": moved.segment_bytes, "before": before.to_string()})
                }
            };
        }
        Ok(report)
    }
}

fn note(held: &mut Held, kind: &str, facts: String, now: Timestamp) -> Result<(), Failure> {
    held.engine.note(kind, facts, None, now).map_err(|error| engine_failed(&error))?;
    held.commit(now)
}

/// Answers of requests that ended, and the bytes they take.
fn old_answers(held: &Held, before: Timestamp) -> Result<(Vec<Seq>, u64), Failure> {
    let log = held.engine.log();
    let mut found: Vec<(Seq, Seq)> = Vec::new();
    log.scan(Seq(1), None, &mut |entry| {
        if entry.tag == codec::MODEL_RESPONDED
            && entry.at < before
            && let Ok(Event::ModelResponded { request, .. }) =
                codec::decode(entry.tag, entry.version, entry.payload)
        {
            found.push((entry.seq, request));
        }
        ControlFlow::Continue(())
    })
    .map_err(|error| log_failed(&error))?;
    let mut seqs = Vec::new();
    let mut bytes = 0;
    for (seq, request) in found {
        let open = held.engine.state().open_request(request).is_some();
        if open || log.body_is_dropped(seq).map_err(|error| log_failed(&error))? {
            continue;
        }
        bytes += log.body_bytes(seq).map_err(|error| log_failed(&error))?;
        seqs.push(seq);
    }
    Ok((seqs, bytes))
}

fn old_acks(
    context: &Context,
    held: &Held,
    log: &Reader,
    before: Timestamp,
) -> Result<OldAcks, Failure> {
    let unreadable =
        |error: &std::io::Error| Failure::new(Exit::Storage, "cannot read the acks").because(error);
    let last = Seq(first_after(log, before)?.0 - 1);
    let mut acks = OldAcks { last, lines: 0, end: 0, file_end: 0 };
    let disk = context.machine.disk.as_ref();
    let path = held.home.acks();
    let Some(stat) = disk.stat(&path).map_err(|error| unreadable(&error))? else {
        return Ok(acks);
    };
    acks.file_end = stat.len;
    let file = disk.open(&path, Open::Read).map_err(|error| unreadable(&error))?;
    // They stand in the order of the log: the first that is not old ends the old ones.
    let mut lines = Lines::new(file, stat.len);
    while let Some((at, line)) = lines.next_line().map_err(|error| unreadable(&error))? {
        let seq =
            serde_json::from_slice::<Value>(line).ok().and_then(|ack| ack["ack_seq"].as_u64());
        if seq.is_none_or(|seq| seq > last.0) {
            break;
        }
        acks.lines += 1;
        acks.end = (at.offset + at.len as u64 + 1).min(stat.len);
    }
    Ok(acks)
}

/// The old ones are safe under their other name before the log forgets to write them here.
fn move_acks(
    context: &Context,
    held: &mut Held,
    acks: &OldAcks,
    now: Timestamp,
) -> Result<(), Failure> {
    let disk = context.machine.disk.as_ref();
    let failed =
        |error: &std::io::Error| Failure::new(Exit::Storage, "cannot move the acks").because(error);
    let folder = held.home.run().join("archive");
    disk.create_dir_all(&folder).map_err(|error| failed(&error))?;
    let name = folder.join(format!("acks-to-{:020}.jsonl", acks.last.0));
    let path = held.home.acks();
    disk.replace_with_part(&name, &path, 0..acks.end, 0o640).map_err(|error| failed(&error))?;
    let facts = json!({"through": acks.last.0, "lines": acks.lines, "file": name.file_name().map(|name| name.to_string_lossy())});
    held.engine
        .note("acks_moved", facts.to_string(), None, now)
        .map_err(|error| engine_failed(&error))?;
    let kept = Cursor { applied: acks.last, bytes: 0 };
    let cursors = [(ACKS_FLOOR, kept), (ACKS, kept)];
    held.engine
        .commit(None, CheckpointWhen::Changed, &cursors, now)
        .map_err(|error| engine_failed(&error))?;
    let kept = acks.end..acks.file_end;
    disk.replace_with_part(&path, &path, kept, 0o640).map_err(|error| failed(&error))
}

/// The first record stamped after a moment, or the end.
pub fn first_after(log: &Reader, moment: Timestamp) -> Result<Seq, Failure> {
    let mut found = log.head().0.next();
    log.scan(Seq(1), None, &mut |entry| {
        if entry.at > moment {
            found = entry.seq;
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    })
    .map_err(|error| log_failed(&error))?;
    Ok(found)
}

fn show(context: &Context, report: &Value) {
    if context.ui.json {
        return context.ui.json(report);
    }
    let verb = if report["dry_run"] == true { "would " } else { "" };
    let mut any = false;
    for (name, what, count) in [
        ("answers", "drop answers of models", "dropped"),
        ("acks", "move acks to run/archive", "moved"),
        ("frames", "archive records of the log", "records"),
    ] {
        let part = &report[name];
        if part.is_null() {
            continue;
        }
        any = true;
        let many = if part[count].is_null() { &part["records_before"] } else { &part[count] };
        context
            .ui
            .out(format!("{verb}{what}: {many}, {} bytes", part["bytes"].as_u64().unwrap_or(0)));
    }
    if !any {
        context.ui.out("nothing is retired: every age is \"never\"");
        context
            .ui
            .talk(ui::dim("see retention and compaction.archive_after in `summarizer config`"));
    }
}
