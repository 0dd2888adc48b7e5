//! Which summaries are older versions: `versions/<day>.versions.jsonl` in the bus home.
//!
//! Contract. A list is a function of the log; [`crate::export::versions`] gives its form, and
//! [`VersionIndex`] says what is in it. A day without older versions has no file. [`DayFiles`] keeps
//! the files.

use std::collections::BTreeSet;
use std::path::PathBuf;

use super::day_files::{DayFiles, DayFold};
use super::exporter::Exporter;
use super::projection::Outcome;
use super::stamped_cache::StampedCache;
use super::version_index::VersionIndex;
use crate::contract::json::line;
use crate::contract::time::Day;
use crate::export::Committed;
use crate::export::versions::{VERSIONS_DIR, file_name};
use crate::home::Home;
use crate::log::Reader;

pub(crate) const EXPORTER: Exporter = Exporter {
    name: "versions",
    files: &[],
    folders: &[VERSIONS_DIR],
    paced: true,
    is_on: |_| true,
    open: |site| Box::new(DayFiles::<VersionIndex>::new(site)),
};

impl DayFold for VersionIndex {
    const LAYOUT: &'static str = "versions.v1";
    const REDUCER: u32 = 2;
    const FOLDER: &'static str = VERSIONS_DIR;

    fn index(home: &Home) -> PathBuf {
        home.version_index()
    }

    fn file_name(day: Day) -> String {
        file_name(day)
    }

    fn day_of(key: &str) -> Option<Day> {
        VersionIndex::day_of(key)
    }

    fn take(&mut self, rows: &StampedCache, log: &Reader, committed: &Committed) -> Outcome<()> {
        self.take(rows, log, committed)
    }

    fn changed(&mut self) -> &mut BTreeSet<Day> {
        &mut self.changed
    }

    fn content(&mut self, rows: &StampedCache, _: &Reader, day: Day) -> Outcome<Option<Vec<u8>>> {
        let mut text = String::new();
        for mark in self.marks(rows, day)? {
            text.push_str(&line(&serde_json::to_value(mark)?));
            text.push('\n');
        }
        Ok(Some(text.into_bytes()).filter(|text| !text.is_empty()))
    }

    fn is_full(&self) -> bool {
        self.is_full()
    }

    fn rows(&self) -> Outcome<Vec<(String, Vec<u8>)>> {
        self.rows()
    }

    fn forget(&mut self) {
        self.forget();
    }
}
