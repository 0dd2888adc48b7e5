//! From the engine's errors and panics to ours.

use std::cell::Cell;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

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

thread_local! {
    /// Whether this thread is inside [`guarded`], where a panic is an answer and no crash.
    static GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// Keeps the report of a panic that is caught from being printed: its words are in the error.
fn quiet_while_guarded() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        let report = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if !GUARDED.get() {
                report(panic);
            }
        }));
    });
}

/// Runs `work`; a panic of the engine, which trusts the pages it reads, is reported as damage.
pub(super) fn guarded<T>(
    doing: &'static str,
    work: impl FnOnce() -> Result<T, LogError>,
) -> Result<T, LogError> {
    quiet_while_guarded();
    let before = GUARDED.replace(true);
    let done = catch_unwind(AssertUnwindSafe(work));
    GUARDED.set(before);
    done.unwrap_or_else(|panic| {
        let what = panic
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| panic.downcast_ref::<&str>().copied())
            .unwrap_or("unknown");
        Err(LogError::Corrupt(format!("cannot {doing}: the engine stopped: {what}")))
    })
}
