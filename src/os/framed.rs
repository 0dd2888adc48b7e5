//! A child process of this executable that answers one frame with one frame.
//!
//! Contract: a frame is its length in four bytes, the lowest first, and so many bytes. Every answer has a time
//! limit, and a caller that does not want it any more ends the wait. A child that gives no answer is killed with
//! its process group and says why. It inherits no environment but what it is given, and it ends with the thread
//! that started it (`parent`).
//!
//! Deliberately not here: what the frames mean.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, bounded};
use parking_lot::Mutex;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_setfl};
use rustix::process::{Pid, Signal, kill_process_group};

use super::jail::THIS_PROGRAM;

/// Most bytes of a frame.
pub(crate) const FRAME_BYTES_MAX: usize = 1 << 30;
/// What is read at a time, and what is reserved for a frame before its bytes arrive.
const CHUNK_BYTES: usize = 1 << 18;
/// How much of what a child says on stderr is kept.
const SAID_BYTES_MAX: usize = 4 << 10;
/// How often a caller is asked whether it still wants the answer.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How long a child whose output ended may take to end itself.
const END_PATIENCE: Duration = Duration::from_secs(2);
/// How long the last words of a child that ended may take.
const DRAIN: Duration = Duration::from_secs(2);

/// What is started, and with what.
#[derive(Debug, Clone)]
pub(crate) struct FramedCommand {
    pub args: Vec<OsString>,
    /// Names of the environment variables that it may see.
    pub environment: &'static [&'static str],
    /// Further environment variables, with their values.
    pub variables: &'static [(&'static str, &'static str)],
}

/// Why there is no answer. The child is gone.
#[derive(Debug)]
pub(crate) enum NoAnswer {
    /// It ended, and said this at last.
    Ended { how: ExitStatus, said: String },
    /// It took too long and was killed.
    TooLate,
    /// The caller did not want the answer any more, and it was killed.
    Unwanted,
    /// The answer, or the order, is larger than a frame may be.
    TooLarge,
}

enum Fault {
    Closed,
    TooLate,
    Unwanted,
    TooLarge,
}

pub(crate) struct FramedProcess {
    child: Child,
    input: ChildStdin,
    output: ChildStdout,
    said: Arc<Mutex<Vec<u8>>>,
    /// Closed when everything that it said was heard.
    heard: Receiver<()>,
}

/// The time limit of an exchange.
struct Patience<'a> {
    deadline: Instant,
    is_wanted: &'a dyn Fn() -> bool,
}

impl FramedProcess {
    pub(crate) fn start(command: &FramedCommand) -> io::Result<FramedProcess> {
        let mut child = Command::new(THIS_PROGRAM);
        child
            .arg0("summarizer")
            .args(&command.args)
            .env_clear()
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        for name in command.environment {
            if let Some(value) = std::env::var_os(name) {
                child.env(name, value);
            }
        }
        child.envs(command.variables.iter().copied());
        let mut child = child.spawn()?;
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(input), Some(output), Some(errors)) = pipes else {
            return Err(io::ErrorKind::BrokenPipe.into());
        };
        fcntl_setfl(&input, OFlags::NONBLOCK)?;
        fcntl_setfl(&output, OFlags::NONBLOCK)?;
        let said = Arc::<Mutex<Vec<u8>>>::default();
        let (kept, (speaks, heard)) = (Arc::clone(&said), bounded(0));
        let thread = std::thread::Builder::new().name("worker-stderr".to_owned());
        thread.spawn(move || {
            hear(errors, &kept);
            drop(speaks);
        })?;
        Ok(FramedProcess { child, input, output, said, heard })
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Whether it still runs.
    pub(crate) fn is_alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Sends a frame and waits for the answer. After an error the process is gone.
    pub(crate) fn exchange(
        &mut self,
        order: &[u8],
        limit: Duration,
        is_wanted: &dyn Fn() -> bool,
    ) -> Result<Vec<u8>, NoAnswer> {
        let patience = Patience { deadline: Instant::now() + limit, is_wanted };
        let answer = self.send(order, &patience).and_then(|()| self.receive(&patience));
        answer.map_err(|fault| self.end(&fault))
    }

    fn send(&mut self, order: &[u8], patience: &Patience<'_>) -> Result<(), Fault> {
        let length = u32::try_from(order.len()).ok().filter(|_| order.len() <= FRAME_BYTES_MAX);
        let length = length.ok_or(Fault::TooLarge)?.to_le_bytes();
        for mut rest in [&length[..], order] {
            while !rest.is_empty() {
                match self.input.write(rest) {
                    Ok(count) => rest = &rest[count..],
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        patience.wait(&self.input, PollFlags::OUT)?;
                    }
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(_) => return Err(Fault::Closed),
                }
            }
        }
        Ok(())
    }

    fn receive(&mut self, patience: &Patience<'_>) -> Result<Vec<u8>, Fault> {
        let head = self.read(4, patience)?;
        let length = head.try_into().map(u32::from_le_bytes).unwrap_or(u32::MAX);
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        if length > FRAME_BYTES_MAX {
            return Err(Fault::TooLarge);
        }
        self.read(length, patience)
    }

    fn read(&mut self, length: usize, patience: &Patience<'_>) -> Result<Vec<u8>, Fault> {
        let mut bytes = Vec::with_capacity(length.min(CHUNK_BYTES));
        while bytes.len() < length {
            let before = bytes.len();
            bytes.resize(length.min(before + CHUNK_BYTES), 0);
            let read = self.output.read(&mut bytes[before..]);
            bytes.truncate(before + *read.as_ref().unwrap_or(&0));
            match read {
                Ok(0) => return Err(Fault::Closed),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    patience.wait(&self.output, PollFlags::IN)?;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return Err(Fault::Closed),
            }
        }
        Ok(bytes)
    }

    fn end(&mut self, fault: &Fault) -> NoAnswer {
        let ended = matches!(fault, Fault::Closed).then(|| self.wait_for_end()).flatten();
        if ended.is_none() {
            self.kill();
        }
        match (fault, ended) {
            (Fault::TooLate, _) => NoAnswer::TooLate,
            (Fault::Unwanted, _) => NoAnswer::Unwanted,
            (Fault::TooLarge, _) => NoAnswer::TooLarge,
            (Fault::Closed, how) => {
                // Its last words may still be on the way.
                let _ = self.heard.recv_timeout(DRAIN);
                let said = String::from_utf8_lossy(&self.said.lock()).into_owned();
                let killed = ExitStatus::from_raw(libc::SIGKILL);
                NoAnswer::Ended { how: how.unwrap_or(killed), said }
            }
        }
    }

    /// Its status, if it ends by itself.
    fn wait_for_end(&mut self) -> Option<ExitStatus> {
        let deadline = Instant::now() + END_PATIENCE;
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) => return Some(status),
                Ok(None) if Instant::now() < deadline => {
                    std::thread::sleep(Duration::from_millis(2));
                }
                _ => return None,
            }
        }
    }

    fn kill(&mut self) {
        if let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            // Fails when the whole group is gone already, which is what we want.
            let _ = kill_process_group(pid, Signal::KILL);
        }
        let _ = self.child.wait();
    }
}

impl Drop for FramedProcess {
    fn drop(&mut self) {
        // A process that has ended and was waited for has no number any more that could be killed.
        if self.is_alive() {
            self.kill();
        }
    }
}

impl Patience<'_> {
    /// Waits until a pipe is ready.
    fn wait(&self, pipe: &impl AsFd, what: PollFlags) -> Result<(), Fault> {
        loop {
            let left = self.deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(Fault::TooLate);
            }
            let mut ready = [PollFd::new(pipe, what)];
            let slice = Timespec::try_from(left.min(LOOK_EVERY)).map_err(|_| Fault::TooLate)?;
            match poll(&mut ready, Some(&slice)) {
                Ok(0) if !(self.is_wanted)() => return Err(Fault::Unwanted),
                Ok(0) | Err(rustix::io::Errno::INTR) => {}
                Ok(_) => return Ok(()),
                Err(_) => return Err(Fault::Closed),
            }
        }
    }
}

/// Keeps the end of what a child says.
fn hear(mut errors: ChildStderr, said: &Mutex<Vec<u8>>) {
    let mut buffer = [0; 1024];
    while let Ok(count) = errors.read(&mut buffer) {
        if count == 0 {
            return;
        }
        let mut said = said.lock();
        said.extend_from_slice(&buffer[..count]);
        let over = said.len().saturating_sub(SAID_BYTES_MAX);
        said.drain(..over);
    }
}

/// The child's side: reads the next frame; `None` when no more comes. `sized` hears the length before the
/// bytes are read.
pub(crate) fn read_frame(
    from: &mut impl Read,
    sized: impl FnOnce(usize),
) -> io::Result<Option<Vec<u8>>> {
    let mut head = [0; 4];
    match from.read_exact(&mut head) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => return Err(error),
    }
    let length = u32::from_le_bytes(head) as usize;
    if length > FRAME_BYTES_MAX {
        return Err(io::ErrorKind::InvalidData.into());
    }
    sized(length);
    let mut bytes = vec![0; length];
    from.read_exact(&mut bytes)?;
    Ok(Some(bytes))
}

/// The child's side: answers.
pub(crate) fn write_frame(to: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    let length = u32::try_from(bytes.len()).ok().filter(|_| bytes.len() <= FRAME_BYTES_MAX);
    let length = length.ok_or(io::ErrorKind::InvalidData)?;
    to.write_all(&length.to_le_bytes())?;
    to.write_all(bytes)?;
    to.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_comes_back_as_it_was_written() {
        let mut pipe = Vec::new();
        write_frame(&mut pipe, b"").unwrap();
        write_frame(&mut pipe, b"hello").unwrap();
        let mut from = pipe.as_slice();
        let mut sizes = Vec::new();
        for expected in [Some(&b""[..]), Some(b"hello"), None] {
            let frame = read_frame(&mut from, |size| sizes.push(size)).unwrap();
            assert_eq!(frame.as_deref(), expected);
        }
        assert_eq!(sizes, [0, 5]);
        let too_long = u32::MAX.to_le_bytes();
        read_frame(&mut too_long.as_slice(), |_| {}).unwrap_err();
        read_frame(&mut &[5, 0, 0, 0, 1][..], |_| {}).unwrap_err();
    }
}
