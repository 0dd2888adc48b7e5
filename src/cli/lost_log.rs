//! Homes whose log is missing or damaged, or is not the log that the other files belong to.

use super::Context;
use super::causes::log_failed;
use super::failure::{Exit, Failure};
use crate::home::Home;
use crate::log::{LogError, Reader};
use crate::os::Disk;
use crate::upkeep::kinship::{Kinship, kinship};
use crate::upkeep::log_check::{self, LogTrouble};

/// The sign that a missing log once existed. An empty log in its place would cut the acks and
/// summarize every request again.
pub(crate) fn lost_log(disk: &dyn Disk, home: &Home) -> std::io::Result<Option<&'static str>> {
    if home.exists(disk)? {
        return Ok(None);
    }
    if disk.stat(&home.acks())?.is_some_and(|stat| stat.len > 0) {
        return Ok(Some("run/ack.jsonl holds acks"));
    }
    let snapshots = home.snapshots();
    if disk.stat(&snapshots)?.is_some() && !disk.list(&snapshots)?.is_empty() {
        return Ok(Some("run/snapshots holds snapshots"));
    }
    let manifests = home.buses.join("summaries/manifest");
    let published = disk.stat(&manifests)?.is_some() && !disk.list(&manifests)?.is_empty();
    Ok(published.then_some("summaries are published"))
}

/// Refuses a home whose log is lost.
pub(crate) fn refuse_lost_log(context: &Context, home: &Home) -> Result<(), Failure> {
    let disk = context.machine.disk.as_ref();
    let lost = lost_log(disk, home).map_err(|error| {
        let what = format!("cannot look at {}", context.home.display());
        Failure::new(Exit::Storage, what).because(&error)
    })?;
    match lost {
        None => Ok(()),
        Some(sign) => {
            let what = format!("the log is gone: run/summarizer.redb is missing, but {sign}");
            Err(Failure::new(Exit::Storage, what)
                .hint("`summarizer recover` rebuilds it; no request is summarized twice"))
        }
    }
}

/// Refuses a log in which damage is found: what is built on it would not hold.
pub(crate) fn refuse_damaged_log(context: &Context, log: &Reader) -> Result<(), Failure> {
    log_check::look(log, context.machine.clock.now()).map_err(|error| damaged_log(&error))
}

pub(crate) fn log_trouble(trouble: &LogTrouble) -> Failure {
    match trouble {
        LogTrouble::Damaged(error) => damaged_log(error),
        LogTrouble::Gone { .. } => Failure::new(Exit::Storage, trouble.to_string()).hint(
            "restore the file, or rebuild it with `summarizer recover`; no request is summarized twice",
        ),
    }
}

fn damaged_log(error: &LogError) -> Failure {
    match error {
        LogError::Damaged { .. } | LogError::Corrupt(_) => Failure::new(
            Exit::Storage,
            "the log is damaged",
        )
        .because(error)
        .hint(
            "no file was changed; `summarizer log verify` checks the whole log, and `summarizer \
                 recover` rebuilds an intact log",
        ),
        error => log_failed(error),
    }
}

/// Why the acks do not belong to this log, if they do not.
pub(super) fn other_log(
    context: &Context,
    home: &Home,
    log: &Reader,
) -> Result<Option<(Kinship, String)>, Failure> {
    let disk = context.machine.disk.as_ref();
    let kinship = kinship(disk, &home.acks(), log).map_err(|error| {
        Failure::new(Exit::Storage, "cannot compare the acks with the log").because(&error)
    })?;
    let what = match kinship {
        Kinship::Theirs => return Ok(None),
        Kinship::Older(ack) => {
            let head = log.head().0;
            format!(
                "run/ack.jsonl names event {ack}, but the log ends at {head}: it is an older copy"
            )
        }
        Kinship::Stranger => {
            "run/ack.jsonl belongs to another log; this log has no event of it".to_owned()
        }
    };
    Ok(Some((kinship, what)))
}

/// Refuses a log that the acks do not belong to: it would cut the acks and repeat finished requests.
pub(crate) fn refuse_other_log(
    context: &Context,
    home: &Home,
    log: &Reader,
) -> Result<(), Failure> {
    match other_log(context, home, log)? {
        None => Ok(()),
        Some((_, what)) => {
            let what = format!("run/summarizer.redb is not the log of this home: {what}");
            Err(Failure::new(Exit::Storage, what).hint(
                "restore the right file, or rebuild it with `summarizer recover` from the queue, the \
                 acks and the published summaries; if the acks are wrong, move run/ack.jsonl away: \
                 it is written again",
            ))
        }
    }
}
