//! Makes a lost or damaged log again from what is left: the records that can still be read, the queue,
//! the acks and the published summaries.
//!
//! Contract. Intact records keep their bytes and hashes. What came after them is rebuilt from evidence
//! and stamped with the time of the recovery. Every published summary that matches its manifest stays
//! known under the key it was made for, so no work is done twice; if its request is not known, it is
//! kept under a request id of its own. A request that had ended stays ended, and any other is open
//! again. What could not be known is counted in the report, never guessed.
//!
//! The old files stay untouched: the new store is built beside them, and the caller puts it in their
//! place.
//!
//! See docs/adr/0061-rebuilding-a-lost-log.md.

mod acks;
mod cuts;
mod error;
mod evidence;
mod losses;
mod rebuild;
mod salvage;

pub(crate) use error::RecoverError;
pub(crate) use evidence::Places;
pub(crate) use rebuild::Rules;
pub use rebuild::rebuild;
pub(crate) use salvage::salvage;
