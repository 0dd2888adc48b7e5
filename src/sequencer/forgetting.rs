//! How far the facts of forgetting are carried out here: two positions beside the log of this host.
//!
//! See docs/adr/0131-forgetting.md.

use crate::contract::ids::Seq;
use crate::log::Reader;
use crate::log::codec::Cursor;

use super::engine::cursor;

/// The first fact whose bodies may still be readable.
pub(crate) const BEGUN: &str = "forget_begun";
/// The last fact that was carried out.
pub(crate) const DONE: &str = "forget_done";

/// The position that a checkpoint stores while the facts from here on are not carried out.
pub fn begun(first: Seq) -> (&'static str, Cursor) {
    (BEGUN, Cursor { applied: first, bytes: 0 })
}

/// The positions that a checkpoint stores once the facts up to and with this one are carried out.
pub(crate) fn carried_out(last: Seq) -> [(&'static str, Cursor); 2] {
    [begun(last), (DONE, begun(last).1)]
}

/// The first fact that a log may not have carried out. A position that cannot be read proves nothing.
pub(crate) fn left(log: &Reader) -> Option<Seq> {
    match (cursor(log, BEGUN), cursor(log, DONE)) {
        (Ok(begun), _) if begun.applied == Seq(0) => None,
        (Ok(begun), Ok(done)) => Some(begun.applied).filter(|begun| *begun > done.applied),
        (Ok(begun), Err(_)) => Some(begun.applied),
        (Err(_), _) => Some(Seq(1)),
    }
}
