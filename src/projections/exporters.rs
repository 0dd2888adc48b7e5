//! The list of all projections that keep files, and what commands do with the whole list.
//!
//! A new exporter is one file with a [`Projection`] and its [`Exporter`], and one line in [`ALL`].

use super::exporter::{Exporter, ExporterError};
use super::projection::{Comparison, Projection, Site};
use super::{
    archived_acks, caches, digest_tree, feeds, line_files, metrics, snapshot_files, summaries,
    versions,
};
use crate::contract::ids::Seq;

/// Every exporter, in the order in which they write: bags name the manifests of their summaries, so
/// summaries come before digests. Caches are first, because the others make a damaged cache anew
/// when they open it.
pub const ALL: &[Exporter] = &[
    caches::EXPORTER,
    line_files::ACKS_EXPORTER,
    archived_acks::EXPORTER,
    line_files::QUARANTINE_EXPORTER,
    snapshot_files::EXPORTER,
    summaries::SUMMARIES_EXPORTER,
    summaries::RUN_RECORDS_EXPORTER,
    versions::EXPORTER,
    digest_tree::EXPORTER,
    feeds::EXPORTER,
    metrics::EXPORTER,
];

/// The exporters that are on.
pub fn all(site: &Site) -> impl Iterator<Item = &'static Exporter> {
    ALL.iter().filter(|exporter| (exporter.is_on)(site))
}

/// The acks: those that retention moved, and the rest.
pub(crate) const OF_ACKS: &[Exporter] = &[archived_acks::EXPORTER, line_files::ACKS_EXPORTER];

/// What the publisher of a service keeps up to date beside the summaries.
pub(crate) fn paced(site: &Site) -> Vec<Box<dyn Projection>> {
    all(site).filter(|exporter| exporter.paced).map(|exporter| (exporter.open)(site)).collect()
}

/// The Digest Bus, for a host that builds no digests itself.
#[cfg(feature = "cluster")]
pub(crate) fn digests(site: &Site) -> Box<dyn Projection> {
    (digest_tree::EXPORTER.open)(site)
}

/// The acks that were moved away, for a host that gets the fact of a move from another one.
#[cfg(feature = "cluster")]
pub(crate) fn archived_acks(site: &Site) -> Box<dyn Projection> {
    (archived_acks::EXPORTER.open)(site)
}

/// Compares everything that is on with the log.
pub fn compare(site: &Site) -> Result<Comparison, ExporterError> {
    let mut found = Comparison::default();
    for exporter in all(site) {
        let compared = exporter.compare(site)?;
        found.differences.extend(compared.differences);
        found.notes.extend(compared.notes);
    }
    Ok(found)
}

/// Writes everything that is on, up to an event of the log.
pub fn write(site: &Site, until: Option<Seq>) -> Result<(), ExporterError> {
    all(site).try_for_each(|exporter| exporter.write(site, until))
}
