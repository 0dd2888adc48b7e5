//! `queue adopt`: continue after the queue file was deliberately rewritten or replaced.

use std::ops::ControlFlow;
use std::path::Path;

use clap::{Args, Subcommand, ValueEnum};
use serde_json::json;

use super::Context;
use super::causes::{engine_failed, held_by_another, log_failed, mark_failed};
use super::failure::{Exit, Failure};
use super::held_home::HeldHome;
use crate::seam::position::{
    AdoptAt, Change, ConsumedBatch, adopt_position, as_adopted, describe_change, note_adopted,
    verify_prefix,
};
use crate::sequencer::engine::CheckpointWhen;
use crate::sequencer::mark::QueueMark;
use crate::state::event::Event;

/// Adopt a rewritten queue file
#[derive(Debug, Args)]
pub(crate) struct QueueArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Accept a queue file that was rewritten or replaced: show what changed, record it, and continue
    Adopt {
        /// Where to continue reading [default: same-offset for a copy of the old file, start otherwise]
        #[arg(long, value_enum)]
        from: Option<From>,
        /// Only show what changed
        #[arg(long)]
        dry_run: bool,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum From {
    /// Read the whole file; requests that were taken in before become duplicates
    Start,
    /// Treat the present content of the file as consumed
    End,
    /// Continue at the old position: right for a copy of the old file
    SameOffset,
}

impl QueueArgs {
    pub(crate) fn run(&self, context: &Context) -> Result<Exit, Failure> {
        let Action::Adopt { from, dry_run } = &self.action;
        let mut held = HeldHome::take(context, false)?.ok_or_else(|| held_by_another(context))?;
        held.refuse_damage(context)?;
        let result = adopt(context, &mut held, *from, *dry_run);
        held.close()?;
        result
    }
}

/// How many batches the log consumed, and the first whose bytes are others now.
pub fn rewritten(
    context: &Context,
    held: &HeldHome,
    queue: &Path,
) -> Result<(usize, Option<ConsumedBatch>), Failure> {
    let mut batches = Vec::new();
    let mut damaged = None;
    let read = held.engine.log().marks(&mut |_, bytes| {
        let mark = match QueueMark::of_host(&held.config.queue_host(), bytes) {
            Ok(mark) => mark,
            Err(error) => {
                damaged = Some(error);
                return ControlFlow::Break(());
            }
        };
        // An adoption starts a new chain, also while nothing of the new file was read.
        let start = mark.consumed.as_ref().map_or(mark.position.offset, |batch| batch.start);
        if start == 0 {
            batches.clear();
        }
        batches.extend(mark.consumed);
        ControlFlow::Continue(())
    });
    read.map_err(|error| log_failed(&error))?;
    if let Some(error) = damaged {
        return Err(mark_failed(&error));
    }
    let bad = verify_prefix(&context.machine.disk, queue, &batches).map_err(|error| {
        Failure::new(Exit::Input, "cannot inspect the queue file").because(&error)
    })?;
    Ok((batches.len(), bad))
}

/// Only the host that leads writes to a shared log, so a queue with other bytes cannot begin anew there.
fn not_the_same(log: &str, change: &str) -> Failure {
    let what = format!("the queue file {change}, and this home shares the log {log}");
    Failure::new(Exit::Config, what).hint(
        "put the old file back, or a copy of it. If it is lost: leave only lines in the file that were not taken in, give \
         this host a new name (cluster.host), and take the old name off the list with `summarizer cluster leave`",
    )
}

fn adopt(
    context: &Context,
    held: &mut HeldHome,
    from: Option<From>,
    dry_run: bool,
) -> Result<Exit, Failure> {
    let disk = &context.machine.disk;
    let queue = &held.home.queue;
    let failed = |error: &(dyn std::error::Error + 'static)| {
        Failure::new(Exit::Input, "cannot inspect the queue file").because(error)
    };
    let old = QueueMark::of_host(&held.config.queue_host(), &held.engine.log().mark())
        .map_err(|error| mark_failed(&error))?;
    let note = held.home.adopted_queue();
    let at = as_adopted(disk, queue, old.position, &note).map_err(|error| failed(&error))?;
    let old = QueueMark { position: at, ..old };
    let change = describe_change(disk, queue, &old.position).map_err(|error| failed(&error))?;
    let is_copy = change == Some(Change::Replaced { same_bytes: true });
    let from = from.unwrap_or(if is_copy { From::SameOffset } else { From::Start });
    // Comparing the bytes between both ends reads the whole file, so only this command does it.
    let change = match change {
        Some(change) => change.to_string(),
        None => match rewritten(context, held, queue)? {
            (_, Some(bad)) => format!("was rewritten: bytes {} to {}", bad.start, bad.end),
            (_, None) => {
                let what = "the consumed part of the queue is unchanged; there is nothing to adopt";
                match context.ui.json {
                    true => context.ui.json(&json!({
                        "queue": queue, "change": null, "was_at": old.position.offset,
                        "continues_at": old.position.offset, "recorded": false,
                    })),
                    false => context.ui.talk(what),
                }
                return Ok(Exit::Done);
            }
        },
    };
    if let Some(cluster) = &held.config.cluster
        && !(is_copy && from == From::SameOffset)
    {
        return Err(not_the_same(&cluster.name, &change));
    }
    let at = match from {
        From::Start => AdoptAt::Start,
        From::End => AdoptAt::End,
        From::SameOffset => AdoptAt::SameOffset,
    };
    let adopted = adopt_position(disk, queue, &old.position, at).map_err(|error| failed(&error))?;
    let report = json!({
        "queue": queue, "change": change, "was_at": old.position.offset,
        "continues_at": adopted.position.offset, "recorded": !dry_run,
    });
    if !dry_run && held.config.cluster.is_some() {
        note_adopted(&**disk, queue, &note).map_err(|error| failed(&error))?;
    } else if !dry_run {
        let now = context.machine.clock.now();
        let event = Event::QueueAdopted { change: change.clone(), offset: adopted.position.offset };
        held.engine.record(event, now).map_err(|error| engine_failed(&error))?;
        let mark = QueueMark { position: adopted.position, consumed: adopted.passed };
        held.engine
            .commit(Some(mark.encode()), CheckpointWhen::Due, &[], now)
            .map_err(|error| engine_failed(&error))?;
    }
    if context.ui.json {
        context.ui.json(&report);
    } else {
        context.ui.out(format!("the queue file {change}"));
        let verb = if dry_run { "would continue" } else { "continues" };
        context.ui.out(format!("reading {verb} at byte {}", report["continues_at"]));
    }
    Ok(Exit::Done)
}
