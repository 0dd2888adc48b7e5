//! How a command ends: an exit code that scripts can rely on, and an error in three parts: *what
//! failed*, *caused by*, *hint*.

use std::error::Error;
use std::fmt::Write as _;
use std::io;

use crate::log::checkpoint::RestoreError;
use crate::log::{KeysError, LogError};

/// The exit codes, documented in `--help` and the man page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// Done.
    Done = 0,
    /// Done, but something it checked is wrong.
    Wrong = 1,
    /// The command line makes no sense.
    Usage = 2,
    /// Configuration or registry invalid.
    Config = 3,
    /// Another process holds the home and does not answer.
    Busy = 4,
    /// Required input missing or invalid.
    Input = 5,
    /// Storage failed or corrupt.
    Storage = 6,
    /// A bug of the program.
    Bug = 70,
    /// An interrupt ended it before everything was done.
    Interrupted = 130,
}

impl Exit {
    const ALL: [Exit; 9] = [
        Exit::Done,
        Exit::Wrong,
        Exit::Usage,
        Exit::Config,
        Exit::Busy,
        Exit::Input,
        Exit::Storage,
        Exit::Bug,
        Exit::Interrupted,
    ];

    fn of(code: u64) -> Exit {
        Exit::ALL.into_iter().find(|exit| *exit as u64 == code).unwrap_or(Exit::Bug)
    }
}

/// A cause with its own remedy, whichever command failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble {
    /// The log is not what was written.
    Damage,
    /// The system does not let this user.
    Permission,
    /// The disk is mounted so that nothing can be written.
    ReadOnly,
    /// No room is left.
    Full,
    /// The system or the disk failed: an error of the device, no more files or memory for now.
    Failing,
}

impl Trouble {
    /// Searches an error and its causes for such a cause.
    pub fn of(error: &(dyn Error + 'static)) -> Option<Trouble> {
        let mut next = Some(error);
        while let Some(error) = next {
            if let Some(error) = error.downcast_ref::<LogError>() {
                if is_damage(error) {
                    return Some(Trouble::Damage);
                }
                if error.is_full() {
                    return Some(Trouble::Full);
                }
            }
            match error.downcast_ref() {
                Some(RestoreError::Codec(_)) => return Some(Trouble::Damage),
                // This error is transparent, so `source` skips the log error inside it.
                Some(RestoreError::Log(log)) => return Trouble::of(log),
                None => {}
            }
            let kind = error.downcast_ref::<io::Error>().map(io::Error::kind);
            match kind {
                Some(io::ErrorKind::PermissionDenied) => return Some(Trouble::Permission),
                Some(io::ErrorKind::ReadOnlyFilesystem) => return Some(Trouble::ReadOnly),
                Some(io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) => {
                    return Some(Trouble::Full);
                }
                _ => {}
            }
            let code = error.downcast_ref::<io::Error>().and_then(io::Error::raw_os_error);
            if code.is_some_and(|code| FAILING.contains(&code)) {
                return Some(Trouble::Failing);
            }
            next = error.source();
        }
        None
    }

    /// Whether no other input would help: such a failure is one of the storage, so that a unit starts the
    /// command again.
    fn is_of_storage(self) -> bool {
        matches!(self, Trouble::Damage | Trouble::ReadOnly | Trouble::Full | Trouble::Failing)
    }

    /// What to do about it.
    pub fn hint(self) -> &'static str {
        match self {
            Trouble::Damage => {
                "nothing was changed; `summarizer recover` rebuilds the log from its own records, \
                 the queue, the acks and the published summaries"
            }
            Trouble::Permission => {
                "this user has no permission: run the command as the owner of these files (see \
                 `ls -l`), or `chown -R USER HOME`"
            }
            Trouble::ReadOnly => {
                "the disk is mounted read-only, by the settings of the system or after an error of the disk (see \
                 `dmesg`): `mount -o remount,rw` makes it writable"
            }
            Trouble::Failing => {
                "the system failed, not the input: see `dmesg` and `ulimit -n`, and start it again"
            }
            Trouble::Full => "free some space and start again; no accepted request is lost",
        }
    }
}

/// Errors of a device, and of limits that others have used up.
const FAILING: [i32; 6] =
    [libc::EIO, libc::EMFILE, libc::ENFILE, libc::ENOMEM, libc::ESTALE, libc::ENODEV];

/// Whether the log file is damaged or is not a log.
pub(crate) fn is_damage(error: &LogError) -> bool {
    match error {
        LogError::Damaged { .. } | LogError::Corrupt(_) | LogError::NotAStore(_) => true,
        LogError::Keys(KeysError::Sealed { .. } | KeysError::WrongKey { .. }) => false,
        LogError::Keys(_) => true,
        // redb reports a file that is too short in this way; a failing disk has other error kinds.
        LogError::Io { source, .. } => {
            matches!(source.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::Other)
        }
        _ => false,
    }
}

/// A command that could not do its work.
#[derive(Debug)]
pub struct Failure {
    /// How the process ends.
    pub exit: Exit,
    what: String,
    causes: Vec<String>,
    hint: Option<String>,
    trouble: Option<Trouble>,
}

impl Failure {
    /// `what` names the operation that failed.
    pub fn new(exit: Exit, what: impl Into<String>) -> Failure {
        Failure { exit, what: what.into(), causes: Vec::new(), hint: None, trouble: None }
    }

    /// A path of the command line that cannot be written. Where the disk is at fault, and not the path, it is a failure of
    /// the storage.
    pub(crate) fn of_target(what: impl Into<String>, error: &io::Error) -> Failure {
        Failure::new(Exit::Input, what).because(error)
    }

    /// Adds an error and its own causes.
    pub fn because(mut self, error: &(dyn Error + 'static)) -> Failure {
        self.trouble = self.trouble.or_else(|| Trouble::of(error));
        if self.trouble.is_some_and(Trouble::is_of_storage) && self.exit == Exit::Input {
            self.exit = Exit::Storage;
        }
        let mut next = Some(error);
        while let Some(error) = next {
            let text = error.to_string();
            // Some errors repeat their source in their own text; do not print it twice.
            if self.causes.last().is_none_or(|last| !last.contains(&text)) {
                self.causes.push(text);
            }
            next = error.source();
        }
        self
    }

    /// Adds what to do about it.
    pub fn hint(mut self, hint: impl Into<String>) -> Failure {
        self.hint = Some(hint.into());
        self
    }

    /// What lies beneath it.
    pub fn trouble(&self) -> Option<Trouble> {
        self.trouble
    }

    /// What to do: the advice for the cause, then that of the command.
    pub fn advice(&self) -> Option<String> {
        let beneath = self.trouble.map(Trouble::hint);
        match (beneath, self.hint.as_deref()) {
            (Some(beneath), None) => Some(beneath.to_owned()),
            (Some(beneath), Some(hint)) if self.trouble != Some(Trouble::Damage) => {
                Some(format!("{beneath}; {hint}"))
            }
            (_, hint) => hint.map(str::to_owned),
        }
    }

    /// The failure for people.
    pub fn render(&self) -> String {
        let label = match self.exit {
            Exit::Interrupted => super::ui::yellow("stopped:"),
            _ => super::ui::red("error:"),
        };
        let mut text = format!("{label} {}", self.what);
        for cause in &self.causes {
            let _ = write!(text, "\n  caused by: {cause}");
        }
        if let Some(hint) = self.advice() {
            let _ = write!(text, "\n  {} {hint}", super::ui::bold("hint:"));
        }
        text
    }

    /// The failure in one line.
    pub(crate) fn in_short(&self) -> String {
        let mut text = self.what.clone();
        self.causes.iter().for_each(|cause| text.push_str(&format!(": {cause}")));
        text
    }

    /// The failure for programs.
    pub fn to_json(&self) -> serde_json::Value {
        serde_json::json!({
            "error": self.what, "caused_by": self.causes, "hint": self.advice(), "exit": self.exit as u8,
        })
    }

    /// The failure of another process, as [`Failure::to_json`] of it says.
    pub(crate) fn of_json(value: &serde_json::Value) -> Failure {
        let text = |value: &serde_json::Value| value.as_str().map(str::to_owned);
        let causes = value["caused_by"].as_array().into_iter().flatten().filter_map(text).collect();
        Failure {
            exit: value["exit"].as_u64().map_or(Exit::Bug, Exit::of),
            what: text(&value["error"]).unwrap_or_default(),
            causes,
            hint: text(&value["hint"]),
            trouble: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("read the file")]
    struct Outer(#[source] std::io::Error);

    #[test]
    fn causes_are_listed_once_from_the_outside_in() {
        let error = Outer(std::io::Error::other("disk on fire"));
        let failure =
            Failure::new(Exit::Storage, "cannot start").because(&error).hint("put it out");
        assert_eq!(
            failure.to_json(),
            serde_json::json!({"error": "cannot start", "caused_by": ["read the file", "disk on fire"], "hint": "put it out", "exit": 6})
        );
        assert!(failure.render().ends_with("put it out"));
        let carried = Failure::of_json(&failure.to_json());
        assert_eq!((carried.exit, carried.render()), (failure.exit, failure.render()));
    }

    #[test]
    fn a_failing_system_is_never_called_wrong_input() {
        for code in FAILING {
            let error = Outer(std::io::Error::from_raw_os_error(code));
            let failure = Failure::new(Exit::Input, "cannot read the queue").because(&error);
            assert_eq!(failure.exit, Exit::Storage, "{code}");
        }
        let missing = Outer(std::io::ErrorKind::NotFound.into());
        let failure = Failure::new(Exit::Input, "cannot read the queue").because(&missing);
        assert_eq!(failure.exit, Exit::Input);
    }

    #[test]
    fn damage_permission_and_a_full_disk_have_their_own_advice() {
        let denied = || Outer(std::io::ErrorKind::PermissionDenied.into());
        let failure = Failure::new(Exit::Storage, "cannot start").because(&denied());
        assert_eq!(failure.trouble(), Some(Trouble::Permission));
        assert!(failure.render().contains("chown -R"), "{}", failure.render());
        let failure = failure.hint("then go on");
        assert!(failure.render().ends_with("; then go on"), "{}", failure.render());
        let damaged = LogError::NotAStore("it is empty".to_owned());
        let failure = Failure::new(Exit::Storage, "cannot start").because(&damaged);
        assert!(failure.render().contains("`summarizer recover`"), "{}", failure.render());
    }
}
