//! Children that run beside a test, and waiting for what they do.
#![allow(clippy::unwrap_used, reason = "a helper of tests")]
#![allow(dead_code, reason = "each test file uses its own part")]

use std::process::Child;
use std::time::{Duration, Instant};

/// How long something that must happen may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A child that does not outlive its test.
pub struct Running(pub Child);

impl Running {
    /// Asks it to stop and waits for its exit code.
    pub fn terminate(mut self) -> Option<i32> {
        let pid = rustix::process::Pid::from_child(&self.0);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        self.wait().map(|status| status.code().unwrap_or(-1))
    }

    pub fn wait(&mut self) -> Option<std::process::ExitStatus> {
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            if let Some(status) = self.0.try_wait().unwrap() {
                return Some(status);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        None
    }

    /// Ends it without a word, as the kernel does when memory runs out.
    pub fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits until something holds.
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
