//! The digests of a home whose log was lost: `recover` builds them again from the published summaries.
//!
//! The events that named the old bags are lost, so their folders could neither be checked nor retired. A build
//! makes the bags that the summaries lead to. Old bags that it does not make again go to the folder with
//! the old log, and the published tree is one that `verify` accepts.

use std::io;
use std::path::Path;
use std::sync::Arc;

use super::Context;
use super::causes::digests_failed;
use super::failure::{Exit, Failure};
use super::held_home::HeldHome;
use super::identity::run_id;
use crate::contract::digest_bus::{DIGESTS_DIR, INDEX_DIR};
use crate::control::question::{Answer, Question};
use crate::digest::publish::Digests;
use crate::os::{Disk, Open};
use crate::projections::digester::DigestOrder;

/// What became of the digests.
#[derive(Default)]
pub(super) struct RebuiltDigests {
    /// Bags that are published now.
    pub bags: u64,
    /// Old bags that were moved to the folder with the old log.
    pub moved: Vec<String>,
    /// Why they are as they were.
    pub failed: Option<String>,
}

/// Builds the digests again, where the home had some. Without a folder with the old log no copy is kept.
pub(super) fn rebuild_digests(
    context: &Context,
    held: &mut HeldHome,
    aside: Option<&Path>,
) -> Result<RebuiltDigests, Failure> {
    let disk = Arc::clone(&context.machine.disk);
    let buses = held.home.buses.clone();
    let has = |name: &str| matches!(disk.stat(&buses.join(name)), Ok(Some(_)));
    if !has(INDEX_DIR) && !has(DIGESTS_DIR) {
        return Ok(RebuiltDigests::default());
    }
    let id = || run_id(context.machine.clock.now());
    let order = DigestOrder::Build { run_id: id()?, selector: None, window: None, all: true };
    let built = match held.ask(context, Question::Digest { order })? {
        Answer::Ok(built) if built["failed"].is_null() => built,
        Answer::Ok(built) => return Ok(not_built(built["failed"].as_str().unwrap_or_default())),
        Answer::Refused(why) | Answer::NotFound(why) | Answer::Starting(why) => {
            return Ok(not_built(&why));
        }
    };
    let mut digests = Digests::open(&disk, &buses, held.engine.log());
    digests.read(None).map_err(|error| digests_failed(&error.into()))?;
    let moved = digests.orphans().map_err(|error| digests_failed(&error.into()))?;
    if let Some(aside) = aside {
        for path in &moved {
            keep_copy(&disk, &buses.join(path), &aside.join(path))
                .map_err(|error| not_set_aside(path, &error))?;
        }
    }
    drop(digests);
    if !moved.is_empty() {
        let order = DigestOrder::Collect { run_id: id()?, dry_run: false, orphans: true };
        if let Answer::Refused(why) | Answer::NotFound(why) =
            held.ask(context, Question::Digest { order })?
        {
            return Ok(not_built(&why));
        }
    }
    let bags = built["bags"].as_u64().or(built["published"].as_u64()).unwrap_or_default();
    Ok(RebuiltDigests { bags, moved, failed: None })
}

fn not_set_aside(path: &str, error: &io::Error) -> Failure {
    Failure::new(Exit::Storage, format!("cannot copy {path} to the folder with the old log"))
        .because(error)
        .hint("the log is recovered; `summarizer digest gc --orphans --yes` removes such bags")
}

fn not_built(why: &str) -> RebuiltDigests {
    RebuiltDigests { failed: Some(why.to_owned()), ..RebuiltDigests::default() }
}

/// Gives the files of a folder second names in another one, and copies them where that is on another file
/// system.
fn keep_copy(disk: &Arc<dyn Disk>, from: &Path, to: &Path) -> io::Result<()> {
    disk.create_dir_all(to)?;
    for name in disk.list(from)? {
        let (from, to) = (from.join(&name), to.join(&name));
        match disk.stat(&from)? {
            Some(stat) if stat.is_dir => keep_copy(disk, &from, &to)?,
            Some(_) if disk.hard_link(&from, &to).is_ok() => {}
            Some(_) => copy(disk, &from, &to)?,
            None => {}
        }
    }
    disk.sync_dir(to)
}

/// Copies a file; one that does not exist has no copy.
pub(super) fn copy(disk: &Arc<dyn Disk>, from: &Path, to: &Path) -> std::io::Result<()> {
    let source = match disk.open(from, Open::Read) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        other => other?,
    };
    let target = disk.open(to, Open::CreateNew(0o640))?;
    let mut buffer = vec![0; 1 << 20];
    let mut at = 0;
    loop {
        let count = source.read_at(&mut buffer, at)?;
        if count == 0 {
            break;
        }
        target.write_all_at(&buffer[..count], at)?;
        at += count as u64;
    }
    target.sync()?;
    disk.sync_dir(to.parent().unwrap_or(Path::new(".")))
}
