//! Homes whose log is missing, or is not the log that the other files belong to.

use super::Context;
use super::failure::{Exit, Failure};
use crate::home::Home;
use crate::log::Reader;
use crate::os::Disk;
use crate::upkeep::kinship::{Kinship, kinship};

/// A home whose log is gone while files tell that there was one: starting over would cut the acks
/// and summarize everything again.
pub fn lost_log(disk: &dyn Disk, home: &Home) -> std::io::Result<Option<&'static str>> {
    if home.exists(disk)? {
        return Ok(None);
    }
    if disk.stat(&home.acks())?.is_some_and(|stat| stat.len > 0) {
        return Ok(Some("run/ack.jsonl tells of requests"));
    }
    let snapshots = home.snapshots();
    if disk.stat(&snapshots)?.is_some() && !disk.list(&snapshots)?.is_empty() {
        return Ok(Some("run/snapshots tells of runs"));
    }
    let manifests = home.buses.join("summaries/manifest");
    let published = disk.stat(&manifests)?.is_some() && !disk.list(&manifests)?.is_empty();
    Ok(published.then_some("summaries are published"))
}

/// Nobody starts over where a log was lost.
pub fn refuse_lost_log(context: &Context, home: &Home) -> Result<(), Failure> {
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
                .hint("`summarizer recover` makes it again; nothing is summarized twice"))
        }
    }
}

/// Why a log is not the one its acks tell of, if it is not.
pub fn other_log(
    context: &Context,
    home: &Home,
    log: &Reader,
) -> Result<Option<(Kinship, String)>, Failure> {
    let disk = context.machine.disk.as_ref();
    let kinship = kinship(disk, &home.acks(), log).map_err(|error| {
        Failure::new(Exit::Storage, "cannot hold the acks against the log").because(&error)
    })?;
    let what = match kinship {
        Kinship::Theirs => return Ok(None),
        Kinship::Older(ack) => {
            let head = log.head().0;
            format!("run/ack.jsonl tells of event {ack}, and the log ends at {head}: an older copy")
        }
        Kinship::Stranger => {
            "run/ack.jsonl tells of another log, none of whose events is in this one".to_owned()
        }
    };
    Ok(Some((kinship, what)))
}

/// Going on with another log would cut the acks and do again what was done.
pub fn refuse_other_log(context: &Context, home: &Home, log: &Reader) -> Result<(), Failure> {
    match other_log(context, home, log)? {
        None => Ok(()),
        Some((_, what)) => {
            let what = format!("run/summarizer.redb is not the log of this home: {what}");
            Err(Failure::new(Exit::Storage, what).hint(
                "put the right file back, or let `summarizer recover` make it again from the queue, \
                 the acks and the published summaries; if it is the acks that are wrong, move \
                 run/ack.jsonl away and they are written again",
            ))
        }
    }
}
