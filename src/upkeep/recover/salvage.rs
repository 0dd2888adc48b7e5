//! The intact records of a damaged log.

use std::path::Path;
use std::sync::Arc;

use crate::log::{Fresh, FreshKeys, Options, ReadError, Reader, Store};
use crate::os::Disk;
use crate::upkeep::copy::{CopyError, LogCopy, Page};

/// Copies every record that can still be read into a new store. Returns why it ended early, if it did.
pub(crate) fn salvage(
    disk: &Arc<dyn Disk>,
    log: &Reader,
    store: &Path,
    options: Options,
    progress: &mut dyn FnMut(f64),
) -> Result<(Store, Option<String>), CopyError> {
    let fresh = Fresh { store_id: log.store_id(), keys: FreshKeys::Copied(log.keys()) };
    let mut copy = LogCopy::create(disk, store, options, fresh)?;
    let head = log.head().0;
    let mut damage = None;
    while damage.is_none() && copy.last().0 < head {
        let mut page = Page::read(log, copy.last().0.next(), head);
        damage = page.damage.take();
        if page.records.is_empty() {
            let at = copy.last().0.next();
            damage.get_or_insert_with(|| format!("record {at} is missing"));
            break;
        }
        if let Err(error) = copy.take(page) {
            match error {
                CopyError::Hash { .. }
                | CopyError::Read(ReadError::Event { .. })
                | CopyError::Impossible(_) => {
                    damage = Some(error.to_string());
                }
                error => return Err(error),
            }
        }
        progress(copy.last().0.0 as f64 / head.0.max(1) as f64);
    }
    Ok((copy.into_store(), damage))
}
