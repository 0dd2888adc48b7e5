//! Children that run beside a test, and waiting for what they do.
#![allow(clippy::unwrap_used, reason = "a helper of tests")]
#![allow(dead_code, reason = "each test file uses its own part")]

use std::process::Child;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// Time limit for an expected event on a busy machine. Only a failing test waits this long.
const PATIENCE: Duration = Duration::from_secs(300);

/// A Monday at ten in the morning, UTC: far from the ends of the day, the week and the month.
const BEGAN: i64 = 1_772_445_600_000;

/// The clock for programs under test: it starts at that morning and runs with the test, so that no test
/// depends on the real time.
pub fn test_now() -> String {
    static SINCE: OnceLock<Instant> = OnceLock::new();
    let gone = SINCE.get_or_init(Instant::now).elapsed();
    let now = BEGAN + i64::try_from(gone.as_millis()).unwrap();
    format!("{}+", summarizer::contract::time::Timestamp(now))
}

/// Whether python3 can run; reports when it cannot.
pub fn has_python() -> bool {
    let mut version = std::process::Command::new("python3");
    version.args(["-c", "import sys; print(sys.version_info >= (3, 9))"]);
    let has = version.output().is_ok_and(|told| told.stdout.starts_with(b"True"));
    if !has {
        use std::io::Write as _;
        // Written past the capture of the harness, so that skipped tests are visible.
        let told =
            "LEFT OUT: there is no python3 (3.9 or newer): a test that runs programs ends early";
        let _ = writeln!(std::io::stderr().lock(), "!! {told}");
    }
    has
}

/// Sends a signal to a child that is still to be waited for.
pub fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

/// A child that does not outlive its test.
pub struct Running(pub Child);

impl Running {
    /// Asks it to stop and waits for its exit code.
    pub fn terminate(mut self) -> Option<i32> {
        signal(&self.0, Signal::TERM);
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

    /// Kills it, as the kernel does when memory runs out.
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

/// The worker processes of a service.
pub fn workers(service: u32) -> Vec<Pid> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Ok(pid) = entry.file_name().to_string_lossy().parse::<i32>() else { continue };
        let command = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let mut words = command.split(|byte| *byte == 0).skip(1);
        let of = words.next().filter(|word| *word == b"worker").and_then(|_| words.next());
        if of == Some(service.to_string().as_bytes()) {
            found.extend(Pid::from_raw(pid));
        }
    }
    found
}

/// Waits until something holds.
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
