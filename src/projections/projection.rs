//! What every projection can do, and what the commands that walk the list of projections pass
//! around.

use std::error::Error;
use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;

use crate::contract::ids::Seq;
use crate::export::Committed;
use crate::home::Home;
use crate::log::codec::{self, Cursor};
use crate::log::{ReadError, Reader};
use crate::os::Disk;

/// Events that [`follow`] hands over at once.
const BATCH: usize = 1024;

/// What a projection returns. The list adds the name of the projection to an error.
pub type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// Files that follow from the log. See the module doc of [`super`] for the contract.
pub trait Projection: Send {
    /// The last event it has folded.
    fn position(&self) -> Seq;

    /// Folds committed events, in order. It passes over events up to its position.
    fn fold(&mut self, batch: &[Committed]) -> Outcome<()>;

    /// Folds what the log holds after its position, up to an event.
    fn advance(&mut self, until: Option<Seq>) -> Outcome<()>;

    /// Writes everything that was folded, makes it durable and says how far that is.
    fn checkpoint(&mut self) -> Outcome<Cursor>;

    /// Compares its files with the log, byte for byte. Writes nothing.
    fn compare(&mut self) -> Outcome<Comparison>;

    /// Writes every file again that is not what the log says; how many that were.
    fn repair(&mut self) -> Outcome<usize>;
}

/// One file or folder that is not what the log says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// Where.
    pub path: String,
    /// What is wrong with it.
    pub what: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.what)
    }
}

/// What a comparison found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Comparison {
    pub differences: Vec<Difference>,
    /// Why some files were not compared.
    pub notes: Vec<String>,
    /// The command that helps, when `export --repair` does not.
    pub fix: Option<&'static str>,
}

impl Comparison {
    pub fn differs(&mut self, path: impl Into<String>, what: impl Into<String>) {
        self.differences.push(Difference { path: path.into(), what: what.into() });
    }
}

/// Where projections write, and the log they follow.
#[derive(Clone)]
pub struct Site {
    pub disk: Arc<dyn Disk>,
    pub home: Home,
    pub log: Reader,
    /// Whether the files belong to the home of the log. Elsewhere (an export, a backup) nothing
    /// was written before, so what the log remembers of earlier files does not count.
    pub own: bool,
    /// Whether feeds are written.
    pub feed: bool,
}

/// Reads the log after `from`, up to `until`, and hands over its events in batches.
pub fn follow(
    log: &Reader,
    from: Seq,
    until: Option<Seq>,
    fold: &mut dyn FnMut(&[Committed]) -> Outcome<()>,
) -> Outcome<()> {
    let mut batch = Vec::with_capacity(BATCH);
    let mut outcome = Ok(());
    log.scan(from.next(), until, &mut |entry| {
        match codec::decode(entry.tag, entry.version, entry.payload) {
            Ok(event) => {
                let (seq, at, hash) = (entry.seq, entry.at, entry.hash());
                batch.push(Committed { seq, at, hash, event });
            }
            Err(source) => {
                outcome = Err(ReadError::Event { seq: entry.seq, source }.into());
                return ControlFlow::Break(());
            }
        }
        if batch.len() == BATCH {
            outcome = fold(&batch);
            batch.clear();
        }
        match outcome {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        }
    })?;
    outcome?;
    fold(&batch)
}
