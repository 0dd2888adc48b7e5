//! What every projection can do, and what the commands that walk the list of projections pass
//! around.

use std::error::Error;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use crate::config::Exports;
use crate::contract::ids::Seq;
use crate::export::Committed;
pub use crate::export::difference::Comparison;
use crate::home::Home;
use crate::log::Reader;
use crate::log::codec::Cursor;
use crate::os::Disk;
use crate::upstream::IndexStore;

/// Events that [`follow`] hands over in one call.
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

/// Where projections write, and the log they follow.
#[derive(Clone)]
pub struct Site {
    pub disk: Arc<dyn Disk>,
    pub home: Home,
    pub log: Reader,
    /// Whether the files belong to the home of the log. Elsewhere (an export, a backup) nothing
    /// was written before, so what the log remembers of earlier files does not count.
    pub own: bool,
    pub exports: Exports,
    /// The index of upstream ids, where this process has it open.
    pub index: Option<Arc<dyn IndexStore>>,
}

impl Site {
    /// A path as differences name it.
    pub(crate) fn relative(&self, path: &Path) -> String {
        path.strip_prefix(&self.home.root).unwrap_or(path).display().to_string()
    }
}

/// Reads the log after `from`, up to `until`, and hands over its events in batches.
pub fn follow(
    log: &Reader,
    from: Seq,
    until: Option<Seq>,
    fold: &mut dyn FnMut(&[Committed]) -> Outcome<()>,
) -> Outcome<()> {
    let mut batch = Vec::with_capacity(BATCH);
    log.try_scan::<Box<dyn Error + Send + Sync>>(from.next(), until, |entry| {
        batch.push(Committed::of(&entry, log)?);
        if batch.len() == BATCH {
            fold(&batch)?;
            batch.clear();
        }
        Ok(ControlFlow::Continue(()))
    })?;
    fold(&batch)
}
