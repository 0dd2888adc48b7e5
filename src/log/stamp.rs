//! Names the last record of the log that derived data covers.
//!
//! Contract: data that follows from the log is kept with the stamp of the last record it covers. It
//! may be used only where the stamp holds: the same log, the same record at that position, and the
//! same version of the code that derived it. Otherwise the data is discarded and derived again. So
//! data of one log is never used with a log that was replaced, cut or restored from an older copy.

use serde::{Deserialize, Serialize};

use super::error::LogError;
use super::store::Reader;
use crate::contract::hash::push_hex;
use crate::contract::ids::Seq;

/// The last record that some derived data covers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LogStamp {
    /// Version of the code that derived the data.
    reducer: u32,
    /// Identity of the log, in hexadecimal digits.
    log: String,
    pub seq: Seq,
    /// Its hash, in hexadecimal digits.
    hash: String,
}

impl LogStamp {
    /// The stamp of a record; `None` before the first record and after the last.
    pub(crate) fn of(log: &Reader, seq: Seq, reducer: u32) -> Result<Option<LogStamp>, LogError> {
        let mut id = String::new();
        push_hex(&mut id, &log.store_id());
        let record = log.get(seq)?;
        Ok(record.map(|record| LogStamp { reducer, log: id, seq, hash: record.hash.hex() }))
    }

    /// Whether data with this stamp may be used beside a log.
    pub(crate) fn holds(&self, log: &Reader, reducer: u32) -> Result<bool, LogError> {
        Ok(self.reducer == reducer
            && self.seq <= log.head().0
            && LogStamp::of(log, self.seq, reducer)?.as_ref() == Some(self))
    }
}
