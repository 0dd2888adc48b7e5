//! What a command ends with: an exit code that scripts can rely on, and an error that reads
//! *what failed*, *caused by*, *hint*.

use std::error::Error;
use std::fmt::Write as _;

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
    /// A mistake of ours.
    Bug = 70,
}

/// A command that could not do its work.
#[derive(Debug)]
pub struct Failure {
    /// How the process ends.
    pub exit: Exit,
    what: String,
    causes: Vec<String>,
    hint: Option<String>,
}

impl Failure {
    /// A failure that says what could not be done.
    pub fn new(exit: Exit, what: impl Into<String>) -> Failure {
        Failure { exit, what: what.into(), causes: Vec::new(), hint: None }
    }

    /// Adds an error and its own causes.
    pub fn because(mut self, error: &(dyn Error + '_)) -> Failure {
        let mut next = Some(error);
        while let Some(error) = next {
            let text = error.to_string();
            // An error that repeats its source in its own text would say everything twice.
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

    /// The failure for people.
    pub fn render(&self) -> String {
        let mut text = format!("{} {}", super::ui::red("error:"), self.what);
        for cause in &self.causes {
            let _ = write!(text, "\n  caused by: {cause}");
        }
        if let Some(hint) = &self.hint {
            let _ = write!(text, "\n  {} {hint}", super::ui::bold("hint:"));
        }
        text
    }

    /// The failure in one line.
    pub fn in_short(&self) -> String {
        let mut text = self.what.clone();
        self.causes.iter().for_each(|cause| text.push_str(&format!(": {cause}")));
        text
    }

    /// The failure for programs.
    pub fn to_json(&self) -> serde_json::Value {
        serde_json::json!({
            "error": self.what, "caused_by": self.causes, "hint": self.hint, "exit": self.exit as u8,
        })
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
    }
}
