//! Finds summary items by id, for packs made from published summaries. The reader of the Summary
//! Bus reads and verifies the days.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::bus::{BusError, SummaryBus};
use crate::contract::vocabulary::Stream;

#[derive(Debug, Clone, PartialEq)]
pub struct BusSummary {
    pub summary_id: String,
    pub stream: String,
    pub day: String,
    pub text: String,
}

/// Finds items by id below `<bus home>/summaries`. Missing ids are missing from the result. `days`
/// limits the search.
pub fn find(
    bus_home: &Path,
    ids: &BTreeSet<String>,
    days: Option<&BTreeSet<String>>,
) -> Result<BTreeMap<String, BusSummary>, BusError> {
    let mut found = BTreeMap::new();
    let bus = match SummaryBus::open(bus_home) {
        Ok(bus) => bus,
        Err(BusError::Read { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
            return Ok(found);
        }
        Err(error) => return Err(error),
    };
    for stream in Stream::ALL {
        for day in bus.days(*stream)? {
            let name = day.to_string();
            if days.is_some_and(|days| !days.contains(&name)) {
                continue;
            }
            for item in bus.partition(*stream, day)?.items() {
                let item = item?;
                if ids.contains(item.summary_id()) {
                    let (summary_id, text) = (item.summary_id().to_owned(), item.summary_text());
                    let (text, day, stream) = (text.to_owned(), name.clone(), stream.to_string());
                    found.insert(summary_id.clone(), BusSummary { summary_id, stream, day, text });
                }
            }
        }
    }
    Ok(found)
}
