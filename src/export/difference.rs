//! Where published files are not what the log says.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What is wrong with a file that does not exist.
pub(crate) const MISSING: &str = "is missing";

/// One file or folder that is not what the log says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Difference {
    /// Relative to the home or to the bus home; for one agent run, relative to the run's folder.
    pub path: String,
    /// What is wrong with it.
    pub what: String,
}

impl Difference {
    pub(crate) fn new(path: impl Into<String>, what: impl Into<String>) -> Difference {
        Difference { path: path.into(), what: what.into() }
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.what)
    }
}

/// The result of a comparison.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Comparison {
    pub differences: Vec<Difference>,
    /// Why some files were not compared.
    pub notes: Vec<String>,
    /// The command that helps, when `export --repair` does not.
    pub fix: Option<&'static str>,
}

impl Comparison {
    pub(crate) fn differs(&mut self, path: impl Into<String>, what: impl Into<String>) {
        self.differences.push(Difference::new(path, what));
    }

    /// Compares the bytes of one file with the bytes that the log leads to.
    pub(crate) fn file(
        &mut self,
        path: impl Into<String>,
        meant: Option<&[u8]>,
        found: Option<&[u8]>,
    ) {
        match (meant, found) {
            (Some(meant), Some(found)) if meant == found => {}
            (None, None) => {}
            (Some(_), Some(_)) => self.differs(path, "differs from the log"),
            (Some(_), None) => self.differs(path, MISSING),
            (None, Some(_)) => self.differs(path, "is not in the log"),
        }
    }
}
