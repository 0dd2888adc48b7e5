//! Tells which published summaries are still the newest of their source.

use std::collections::HashMap;
use std::io::ErrorKind;

use super::{BusError, SummaryBus};
use crate::contract::time::Day;
pub use crate::export::versions::VersionMark;
use crate::export::versions::{VERSIONS_DIR, file_name};

/// The marks of one day, by the ids of its summaries.
#[derive(Debug, Clone, Default)]
pub struct DayVersions(HashMap<String, VersionMark>);

impl DayVersions {
    /// What is known of a summary; `None` for one that is the newest of its source.
    pub fn mark(&self, summary_id: &str) -> Option<&VersionMark> {
        self.0.get(summary_id)
    }
}

impl SummaryBus {
    /// Which summaries of a day were replaced by newer ones, or are about sources that became private.
    pub fn versions(&self, day: Day) -> Result<DayVersions, BusError> {
        let name = format!("{VERSIONS_DIR}/{}", file_name(day));
        let path = self.summaries.with_file_name(VERSIONS_DIR).join(file_name(day));
        let bytes = match std::fs::read(path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(DayVersions::default()),
            Err(source) => return Err(BusError::Read { path: name, source }),
        };
        let lines = (1..).zip(bytes.split(|byte| *byte == b'\n'));
        let marks = lines.filter(|(_, line)| !line.is_empty()).map(|(number, line)| {
            let bad = |error: serde_json::Error| BusError::Malformed {
                path: name.clone(),
                line: Some(number),
                what: error.to_string(),
            };
            let mark: VersionMark = serde_json::from_slice(line).map_err(bad)?;
            Ok((mark.summary_id.clone(), mark))
        });
        marks.collect::<Result<_, BusError>>().map(DayVersions)
    }
}
