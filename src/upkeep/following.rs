//! What a host that follows does when the shared log says that something goes.
//!
//! Contract. The host that leads decides what goes, and its facts come with the log. A host that follows notes what it is
//! to forget before it takes the fact ([`forget_mark`]). Old answers, acks and frames go once the fact is in
//! its log; after a crash in between, [`archive_moved`] and the next fact make good what was left.
//!
//! See docs/adr/0064-retention.md and docs/adr/0135-forgetting-on-all-hosts.md.

use std::error::Error;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use crate::contract::ids::Seq;
use crate::facts::retention::{AcksMoved, RetentionFact};
use crate::home::Home;
use crate::log::codec::Cursor;
use crate::os::Disk;
use crate::projections::exporters;
use crate::projections::line_files::{ACKS, ACKS_FLOOR};
use crate::projections::projection::Site;
use crate::sequencer::engine::cursor;
use crate::sequencer::follower::Beside;
use crate::state::event::Event;

use super::forget::{Wanted, carried_out};
use super::forget_mark::{self, Marked};
use super::retention::applied_at;

/// The care of a home whose log comes from another host.
pub(crate) struct FollowedHome {
    disk: Arc<dyn Disk>,
    mark: PathBuf,
}

impl FollowedHome {
    pub(crate) fn new(disk: &Arc<dyn Disk>, home: &Home) -> Box<FollowedHome> {
        Box::new(FollowedHome { disk: Arc::clone(disk), mark: home.forgetting() })
    }
}

impl Beside for FollowedHome {
    fn before(&mut self, event: &Event) -> io::Result<()> {
        let Event::Forgotten(fact) = event else { return Ok(()) };
        let marked = Marked { wanted: Wanted::of(fact), is_of_log: true };
        forget_mark::set(&*self.disk, &self.mark, &marked)
    }

    fn positions(&self, seq: Seq, event: &Event) -> Vec<(&'static str, Cursor)> {
        match event {
            // The mark says what is left of it.
            Event::Forgotten(_) => carried_out(seq).to_vec(),
            Event::Retention(RetentionFact::AcksMoved(fact)) => {
                let moved = Cursor { applied: fact.through, bytes: 0 };
                vec![(ACKS_FLOOR, moved), (ACKS, moved)]
            }
            Event::Retention(RetentionFact::Applied(_)) => vec![applied_at(seq)],
            _ => Vec::new(),
        }
    }
}

/// Writes the files of moved acks that this home lacks. The acks must not be written meanwhile.
pub(crate) fn archive_moved(site: &Site) -> Result<(), Box<dyn Error + Send + Sync>> {
    let last = cursor(&site.log, ACKS_FLOOR)?.applied;
    let file = site.home.archive().join(AcksMoved::file_of(last));
    if last > Seq::ZERO && site.disk.stat(&file)?.is_none() {
        exporters::archived_acks(site).repair()?;
    }
    Ok(())
}
