//! From the engine's errors and panics to ours.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::log::error::LogError;

/// Wraps an engine error with what was tried.
pub(super) fn engine<E: Into<redb::Error>>(doing: &'static str) -> impl FnOnce(E) -> LogError {
    move |error| match error.into() {
        redb::Error::Io(source) => LogError::Io { doing, source },
        redb::Error::Corrupted(what) => LogError::Corrupt(format!("cannot {doing}: {what}")),
        redb::Error::DatabaseAlreadyOpen => LogError::Busy,
        redb::Error::PreviousIo => LogError::Poisoned,
        redb::Error::TransactionInProgress => LogError::InUse,
        other => LogError::Io { doing, source: io::Error::other(other.to_string()) },
    }
}

/// Runs `work`; a panic of the engine, which trusts the pages it reads, is reported as damage.
pub(super) fn guarded<T>(
    doing: &'static str,
    work: impl FnOnce() -> Result<T, LogError>,
) -> Result<T, LogError> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let what = panic
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| panic.downcast_ref::<&str>().copied())
            .unwrap_or("unknown");
        Err(LogError::Corrupt(format!("cannot {doing}: the engine stopped: {what}")))
    })
}
