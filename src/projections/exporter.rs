//! An entry of the list of projections: its name, the files it owns, and how it is opened.

use std::error::Error;

use super::projection::{Comparison, Outcome, Projection, Site};
use crate::contract::ids::Seq;

/// One entry of the list.
pub struct Exporter {
    /// The name that people read.
    pub name: &'static str,
    /// Its files, relative to the home.
    pub files: &'static [&'static str],
    /// Its folders, relative to the bus home.
    pub folders: &'static [&'static str],
    /// Whether the publisher of a running service keeps it up to date beside the summaries.
    pub(crate) paced: bool,
    pub(crate) is_on: fn(&Site) -> bool,
    /// Makes the projection. Nothing is read or written yet.
    pub open: fn(&Site) -> Box<dyn Projection>,
}

/// A projection that could not be compared or written.
#[derive(Debug, thiserror::Error)]
#[error("{doing} {name}")]
pub struct ExporterError {
    pub name: &'static str,
    doing: &'static str,
    pub source: Box<dyn Error + Send + Sync>,
}

impl Exporter {
    fn run<T>(
        &'static self,
        site: &Site,
        doing: &'static str,
        work: impl FnOnce(&mut dyn Projection) -> Outcome<T>,
    ) -> Result<T, ExporterError> {
        let mut projection = (self.open)(site);
        work(projection.as_mut()).map_err(|source| ExporterError { name: self.name, doing, source })
    }

    /// Compares its files with the log.
    pub fn compare(&'static self, site: &Site) -> Result<Comparison, ExporterError> {
        self.run(site, "compare with the log:", |projection| projection.compare())
    }

    /// Brings its files up to an event of the log.
    pub fn write(&'static self, site: &Site, until: Option<Seq>) -> Result<(), ExporterError> {
        self.run(site, "write", |projection| {
            projection.advance(until)?;
            projection.checkpoint().map(drop)
        })
    }

    /// Writes its files again where they are not what the log says; how many those were.
    pub fn repair(&'static self, site: &Site) -> Result<usize, ExporterError> {
        self.run(site, "write again", |projection| projection.repair())
    }
}
