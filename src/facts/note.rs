//! What the readers of an input warned of.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::contract::time::Day;
use crate::contract::vocabulary::Bus;

/// Something that its producer should know, though nothing is wrong with the data.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "note", rename_all = "snake_case")]
pub enum InputNote {
    /// Days of the range are not published.
    DaysMissing(DaysMissing),
    /// The session was cut from other events than those of its day now.
    SessionCutFromOtherEvents { path: String, session: String },
    /// Bytes after those of the manifest were ignored.
    AppendedAfterManifest { path: String },
    /// The manifest has another name than the contract gives it.
    ManifestName { path: String },
    /// Texts without a date were not looked at.
    UndatedFiles { texts: u64 },
    /// Files could not be read.
    UnreadableFiles { files: u64 },
}

/// Days of a range that are not published.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DaysMissing {
    pub bus: Bus,
    /// The first of them.
    pub listed: Vec<Day>,
    /// How many more there are.
    pub more: u64,
}

impl DaysMissing {
    /// Most days that are listed.
    pub(crate) const LISTED_MAX: usize = 31;

    /// `None` when no day is missing.
    pub(crate) fn of(bus: Bus, missing: &[Day]) -> Option<DaysMissing> {
        let listed: Vec<Day> = missing.iter().take(Self::LISTED_MAX).copied().collect();
        let more = (missing.len() - listed.len()) as u64;
        (!missing.is_empty()).then_some(DaysMissing { bus, listed, more })
    }
}

impl fmt::Display for DaysMissing {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let listed: Vec<String> = self.listed.iter().map(Day::to_string).collect();
        let days = listed.join(", ");
        match self.bus {
            // A selection of summaries: files have no days that could be missing.
            Bus::Other => write!(formatter, "no summary is published of {days}")?,
            bus => write!(formatter, "{bus} has no manifest of {days}")?,
        }
        match self.more {
            0 => Ok(()),
            more => write!(formatter, " and {more} more"),
        }
    }
}

impl InputNote {
    /// The word that run records sort by.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            InputNote::DaysMissing(_) => "UPSTREAM_DAYS_MISSING",
            InputNote::SessionCutFromOtherEvents { .. } => "SESSION_CUT_FROM_OTHER_EVENTS",
            InputNote::AppendedAfterManifest { .. } => "UPSTREAM_APPENDED_AFTER_MANIFEST",
            InputNote::ManifestName { .. } => "UPSTREAM_MANIFEST_NAME",
            InputNote::UndatedFiles { .. } => "UNDATED_FILES",
            InputNote::UnreadableFiles { .. } => "UNREADABLE_FILES",
        }
    }
}

/// The kind and the particulars.
impl fmt::Display for InputNote {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: ", self.kind())?;
        match self {
            InputNote::DaysMissing(missing) => missing.fmt(formatter),
            InputNote::SessionCutFromOtherEvents { path, session } => {
                write!(formatter, "{path}, {session}")
            }
            InputNote::AppendedAfterManifest { path } | InputNote::ManifestName { path } => {
                formatter.write_str(path)
            }
            InputNote::UndatedFiles { texts } => {
                write!(formatter, "{texts} texts of the bus other state no date")
            }
            InputNote::UnreadableFiles { files } => {
                write!(formatter, "{files} files of the bus other cannot be read")
            }
        }
    }
}
