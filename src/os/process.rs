//! A child process that cannot hang, flood or outlive its caller: its own process group, bounded output,
//! a time limit, an environment that holds only what it is given, and a jail where one is asked for.

use std::ffi::OsString;
use std::io::{self, Write};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::jail::{self, Jail};
use super::pipes::Pipes;

/// How much of what a child says on stderr is kept.
pub(crate) const STDERR_BYTES_MAX: usize = 16 << 10;
/// How long a stopped child's pipes may take to close.
const DRAIN: Duration = Duration::from_millis(500);
/// How often a child whose output has ended is asked whether it ended: often at first.
const PAUSE_MIN: Duration = Duration::from_micros(200);
const PAUSE_MAX: Duration = Duration::from_millis(20);

#[derive(Debug, Clone)]
pub struct Program {
    pub program: OsString,
    pub args: Vec<OsString>,
    pub folder: Option<PathBuf>,
    /// Names of environment variables it may see.
    pub environment: Vec<OsString>,
    /// Further environment variables, with their values.
    pub variables: Vec<(OsString, OsString)>,
    /// Whether it ends when the thread that runs it ends, also when a signal ends this process.
    pub dies_with_us: bool,
    /// Most bytes it may write to stdout.
    pub stdout_bytes_max: usize,
    /// Most time it may take.
    pub timeout: Duration,
    /// What it may do. In a jail, `TMPDIR` and `HOME` are an empty folder that is removed afterwards.
    pub jail: Option<Jail>,
}

/// How a child ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finished {
    /// Exit code; `None` when a signal ended it.
    pub code: Option<i32>,
    pub stdout: Vec<u8>,
    /// The end of what it said on stderr.
    pub stderr: String,
}

/// Why a child did not end by itself.
#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    /// It could not be started.
    #[error("start {program}")]
    Start {
        program: String,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// It took too long and was stopped.
    #[error("wait for {program}: it did not end within {} s", limit.as_secs_f64())]
    Timeout { program: String, limit: Duration },
    /// It wrote too much and was stopped.
    #[error("read from {program}: its output has more than {limit} bytes")]
    TooMuch { program: String, limit: usize },
}

/// Hands over the path of a file with these bytes that only this user can read. The file is removed afterwards.
pub(crate) fn in_private_file<T>(
    bytes: &[u8],
    ending: &str,
    take: impl FnOnce(&Path) -> T,
) -> io::Result<T> {
    let mut file = tempfile::Builder::new().suffix(ending).tempfile()?;
    file.write_all(bytes)?;
    Ok(take(file.path()))
}

/// Runs a program to its end, feeding it `stdin`.
pub fn run(program: &Program, stdin: &[u8]) -> Result<Finished, ProcessError> {
    let name = program.program.to_string_lossy().into_owned();
    let start = |source| ProcessError::Start { program: name.clone(), source };
    let deadline = Instant::now() + program.timeout;
    let scratch = program.jail.as_ref().map(|_| tempfile::tempdir()).transpose().map_err(start)?;
    let mut child = spawn(program, scratch.as_ref().map(TempDir::path)).map_err(start)?;
    let mut pipes = match Pipes::of(&mut child, stdin, STDERR_BYTES_MAX) {
        Ok(pipes) => pipes,
        Err(error) => {
            stop(&mut child);
            return Err(start(error));
        }
    };
    let end = attend(&mut child, &mut pipes, program, deadline);
    // Also ends grandchildren that still hold the pipes, so that the last words end.
    stop(&mut child);
    pipes.drain_errors(DRAIN);
    match end {
        End::Itself { code } => {
            Ok(Finished { code, stderr: pipes.said(), stdout: std::mem::take(&mut pipes.stdout) })
        }
        End::TooMuch => {
            Err(ProcessError::TooMuch { program: name, limit: program.stdout_bytes_max })
        }
        End::TooLate => Err(ProcessError::Timeout { program: name, limit: program.timeout }),
    }
}

/// How the work of a child came to its end.
enum End {
    Itself { code: Option<i32> },
    TooMuch,
    TooLate,
}

/// Serves the pipes of a child until it has ended, or has to be stopped.
fn attend(child: &mut Child, pipes: &mut Pipes<'_>, program: &Program, deadline: Instant) -> End {
    let mut pause = PAUSE_MIN;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if pipes.has_output() {
            pipes.serve(left);
        } else {
            // Its output has ended, and soon it ends itself.
            match child.try_wait() {
                Ok(Some(status)) => return End::Itself { code: status.code() },
                Ok(None) => pipes.serve(left.min(pause)),
                Err(_) => return End::TooLate,
            }
            pause = (pause * 2).min(PAUSE_MAX);
        }
        if pipes.stdout.len() > program.stdout_bytes_max {
            return End::TooMuch;
        }
        if left.is_zero() {
            return End::TooLate;
        }
    }
}

/// Whether the helper would find a program. The helper itself starts in any case, so a missing program would
/// only show in what it says.
fn is_there(program: &Program) -> bool {
    let file = Path::new(&program.program);
    if program.program.as_encoded_bytes().contains(&b'/') {
        return program
            .folder
            .as_ref()
            .map_or(file.to_owned(), |folder| folder.join(file))
            .exists();
    }
    // Without PATH the system has folders of its own.
    std::env::var_os("PATH")
        .is_none_or(|path| std::env::split_paths(&path).any(|folder| folder.join(file).is_file()))
}

/// The command of a program: by way of the helper, where it needs one and this executable has it.
fn command(program: &Program, scratch: Option<&Path>) -> Command {
    let jail = program.jail.as_ref().map(|jail| {
        let write = jail.write.iter().cloned().chain(scratch.map(Path::to_owned)).collect();
        Jail { write, ..jail.clone() }
    });
    let needs_helper = jail.is_some() || program.dies_with_us;
    let helper = || jail::helper(jail.as_ref(), &program.program, &program.args);
    needs_helper.then(helper).flatten().unwrap_or_else(|| {
        let mut command = Command::new(&program.program);
        command.args(&program.args);
        command
    })
}

fn spawn(program: &Program, scratch: Option<&Path>) -> io::Result<Child> {
    if !is_there(program) {
        return Err(rustix::io::Errno::NOENT.into());
    }
    let mut command = command(program, scratch);
    command
        .env_clear()
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    for name in ["PATH", "HOME", "LANG", "LC_ALL", "TMPDIR"] {
        if let Some(value) = std::env::var_os(name) {
            command.env(name, value);
        }
    }
    for name in &program.environment {
        if let Some(value) = std::env::var_os(name) {
            command.env(name, value);
        }
    }
    command.envs(program.variables.iter().map(|(name, value)| (name, value)));
    if let Some(scratch) = scratch {
        command.env("HOME", scratch).env("TMPDIR", scratch);
    }
    if let Some(folder) = &program.folder {
        command.current_dir(folder);
    }
    command.spawn()
}

fn stop(child: &mut Child) {
    if let Some(pid) = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw) {
        // Fails when the whole group is gone already, which is what we want.
        let _ = rustix::process::kill_process_group(pid, rustix::process::Signal::KILL);
    }
    let _ = child.wait();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, limit: usize, ms: u64) -> Program {
        Program {
            program: "sh".into(),
            args: vec!["-c".into(), script.into()],
            folder: None,
            environment: Vec::new(),
            variables: Vec::new(),
            dies_with_us: false,
            stdout_bytes_max: limit,
            timeout: Duration::from_millis(ms),
            jail: None,
        }
    }

    #[test]
    fn input_goes_in_and_output_comes_out() {
        let finished = run(&shell("cat; echo oops >&2; exit 3", 100, 300_000), b"hello").unwrap();
        assert_eq!(
            finished,
            Finished { code: Some(3), stdout: b"hello".to_vec(), stderr: "oops\n".into() }
        );
        let big = vec![b'x'; 1 << 20];
        assert_eq!(
            run(&shell("wc -c", 100, 300_000), &big).unwrap().stdout.trim_ascii(),
            b"1048576"
        );
        assert!(run(&shell("exit 0", 100, 300_000), &big).is_ok(), "input nobody reads");
    }

    #[test]
    fn a_program_that_does_not_end_is_ended() {
        let folder = tempfile::tempdir().unwrap();
        let pids = folder.path().join("pids");
        let script = format!("sleep 600 & echo $! $$ > {}; sleep 600", pids.display());
        let slow = run(&shell(&script, 100, 3_000), b"");
        assert!(matches!(slow, Err(ProcessError::Timeout { .. })), "{slow:?}");
        // With all that it started. Their numbers stay until somebody waits for them.
        let is_gone = |pid: &str| {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"));
            stat.map_or(true, |stat| stat.contains(") Z "))
        };
        let pids = std::fs::read_to_string(pids).unwrap();
        assert_eq!(pids.split_whitespace().count(), 2, "{pids}");
        let until = Instant::now() + Duration::from_secs(60);
        while !pids.split_whitespace().all(is_gone) {
            assert!(Instant::now() < until, "one of {pids} still runs");
            std::thread::sleep(Duration::from_millis(10));
        }
        let flood = run(&shell("yes", 1000, 300_000), b"");
        assert!(matches!(flood, Err(ProcessError::TooMuch { .. })), "{flood:?}");
        let closed = run(&shell("exec >&-; sleep 600", 100, 100), b"");
        assert!(matches!(closed, Err(ProcessError::Timeout { .. })), "{closed:?}");
        assert!(matches!(
            run(&Program { program: "/nowhere/x".into(), ..shell("", 1, 1) }, b""),
            Err(ProcessError::Start { .. })
        ));
    }

    #[test]
    fn the_environment_is_not_inherited() {
        let finished = run(&shell("env", 100_000, 300_000), b"").unwrap();
        let text = String::from_utf8(finished.stdout).unwrap();
        assert!(text.contains("PATH=") && !text.contains("CARGO"), "{text}");
    }
}
