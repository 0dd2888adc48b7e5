//! Ends a process together with the process that started it.

use rustix::process::{Signal, getppid, set_parent_process_death_signal};

/// Lets the system end this process as soon as the thread of its parent ends that started it, also when a
/// signal ended the parent. False when the parent has ended already.
pub(crate) fn die_with(parent: u32) -> bool {
    // Fails where the system has no such order; then the end of its input ends this process.
    let _ = set_parent_process_death_signal(Some(Signal::KILL));
    let now = getppid().map_or(0, |pid| pid.as_raw_nonzero().get());
    u32::try_from(now) == Ok(parent)
}
