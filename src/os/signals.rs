//! SIGHUP as something to wait for, instead of something that ends the process.
//!
//! Contract: [`HangUps::hold`] is called before the process starts any other thread, because the
//! threads it starts inherit what it blocks. Where the system has no signal descriptors, there is
//! nothing to wait for and SIGHUP keeps its meaning.
//!
//! See docs/adr/0038-exit-code-after-a-second-signal.md.

use std::io;

/// SIGHUPs that arrive from now on.
pub(crate) struct HangUps {
    #[cfg(target_os = "linux")]
    arrivals: nix::sys::signalfd::SignalFd,
}

#[cfg(target_os = "linux")]
impl HangUps {
    /// Blocks SIGHUP in this thread and those it starts, and collects it.
    pub(crate) fn hold() -> io::Result<Option<HangUps>> {
        use nix::sys::signal::{SigSet, Signal};
        use nix::sys::signalfd::{SfdFlags, SignalFd};
        let mut set = SigSet::empty();
        set.add(Signal::SIGHUP);
        set.thread_block()?;
        let arrivals = SignalFd::with_flags(&set, SfdFlags::SFD_CLOEXEC)?;
        Ok(Some(HangUps { arrivals }))
    }

    /// Waits for the next one.
    pub(crate) fn wait(&self) -> io::Result<()> {
        self.arrivals.read_signal()?;
        Ok(())
    }
}

#[cfg(not(target_os = "linux"))]
impl HangUps {
    /// There is nothing to collect here.
    pub fn hold() -> io::Result<Option<HangUps>> {
        Ok(None)
    }

    /// Cannot be called, because no value of this type exists.
    pub fn wait(&self) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// Lets this process ignore the signals that ask a service to end. It must be called before another thread
/// starts.
pub(crate) fn leave_to_parent() {
    use nix::sys::signal::{SigSet, Signal};
    let signals = [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP];
    // Fails where the system has no such mask; then a signal ends this process early.
    let _ = signals.into_iter().collect::<SigSet>().thread_block();
}

/// Lets Ctrl-C reach only the program that this process waits for, until this process ends. That program runs already,
/// and no other thread does.
pub(crate) fn leave_interrupts_to_child() {
    use nix::sys::signal::{SigSet, Signal};
    // Fails where the system has no such mask; then the signal ends both.
    let _ = std::iter::once(Signal::SIGINT).collect::<SigSet>().thread_block();
}

/// Whether an interrupt ended a program.
pub(crate) fn was_interrupted(ended: std::process::ExitStatus) -> bool {
    use std::os::unix::process::ExitStatusExt as _;
    ended.signal() == Some(nix::sys::signal::Signal::SIGINT as i32)
}
