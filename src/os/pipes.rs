//! The three pipes of a child, served by one thread: what it reads, what it writes, and what it says on stderr.
//!
//! Contract: a child that reads nothing, or fills one pipe while it waits for another, blocks nobody. Threads
//! would do the same, but each takes address space, which a worker process has little of.

use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_setfl};

/// What is read or written at a time.
const CHUNK_BYTES: usize = 1 << 16;

/// The pipes of a child that are still open, and what came out of them.
pub(super) struct Pipes<'a> {
    input: Option<ChildStdin>,
    output: Option<ChildStdout>,
    errors: Option<ChildStderr>,
    /// What the child has not read yet.
    unread: &'a [u8],
    pub stdout: Vec<u8>,
    stderr: Vec<u8>,
    stderr_bytes_max: usize,
    buffer: Vec<u8>,
}

impl<'a> Pipes<'a> {
    /// Takes the pipes of a child, and `stdin` for it to read.
    pub(super) fn of(
        child: &mut Child,
        stdin: &'a [u8],
        stderr_bytes_max: usize,
    ) -> io::Result<Pipes<'a>> {
        let pipes = Pipes {
            input: child.stdin.take(),
            output: child.stdout.take(),
            errors: child.stderr.take(),
            unread: stdin,
            stdout: Vec::new(),
            stderr: Vec::new(),
            stderr_bytes_max,
            buffer: vec![0; CHUNK_BYTES],
        };
        let all = [
            pipes.input.as_ref().map(AsFd::as_fd),
            pipes.output.as_ref().map(AsFd::as_fd),
            pipes.errors.as_ref().map(AsFd::as_fd),
        ];
        all.into_iter().flatten().try_for_each(|pipe| fcntl_setfl(pipe, OFlags::NONBLOCK))?;
        Ok(pipes)
    }

    /// Whether the child can still write to its stdout.
    pub(super) fn has_output(&self) -> bool {
        self.output.is_some()
    }

    /// The end of what the child said on stderr.
    pub(super) fn said(&self) -> String {
        String::from_utf8_lossy(&self.stderr).into_owned()
    }

    /// Moves what can be moved now, and waits at most so long for something to move.
    pub(super) fn serve(&mut self, at_most: Duration) {
        let mut ready = Vec::with_capacity(3);
        ready.extend(self.input.as_ref().map(|pipe| PollFd::new(pipe, PollFlags::OUT)));
        ready.extend(self.output.as_ref().map(|pipe| PollFd::new(pipe, PollFlags::IN)));
        ready.extend(self.errors.as_ref().map(|pipe| PollFd::new(pipe, PollFlags::IN)));
        // A wait that is too long for the system is one without an end.
        let slice = Timespec::try_from(at_most).ok();
        // An interrupted wait finds nothing to move, and the caller comes again.
        let _ = poll(&mut ready, slice.as_ref());
        self.write();
        let count = taken(&mut self.output, &mut self.buffer);
        self.stdout.extend_from_slice(&self.buffer[..count]);
        let count = taken(&mut self.errors, &mut self.buffer);
        self.stderr.extend_from_slice(&self.buffer[..count]);
        let over = self.stderr.len().saturating_sub(self.stderr_bytes_max);
        self.stderr.drain(..over);
    }

    /// Reads the last words of a child that has ended.
    pub(super) fn drain_errors(&mut self, patience: Duration) {
        let until = Instant::now() + patience;
        (self.input, self.output) = (None, None);
        while self.errors.is_some() && Instant::now() < until {
            self.serve(until.saturating_duration_since(Instant::now()));
        }
    }

    fn write(&mut self) {
        let Some(pipe) = &mut self.input else { return };
        let next = &self.unread[..self.unread.len().min(CHUNK_BYTES)];
        match pipe.write(next) {
            Ok(count) => self.unread = &self.unread[count..],
            Err(error) if is_for_now(&error) => {}
            // A child that does not read its input may still answer.
            Err(_) => self.unread = &[],
        }
        if self.unread.is_empty() {
            self.input = None;
        }
    }
}

/// Reads what is there. A pipe that has ended is closed; what the child said until then counts.
fn taken(pipe: &mut Option<impl Read>, buffer: &mut [u8]) -> usize {
    let Some(open) = pipe else { return 0 };
    match open.read(buffer) {
        Ok(count @ 1..) => count,
        Err(error) if is_for_now(&error) => 0,
        Ok(_) | Err(_) => {
            *pipe = None;
            0
        }
    }
}

fn is_for_now(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}
