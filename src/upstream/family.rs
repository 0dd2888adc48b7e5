//! The buses that publish manifested partitions, and where their files lie: three upstream buses, and
//! our own Summary Bus, whose summaries can be sources of others.

use crate::contract::vocabulary::{Bus, Stream};

/// A bus whose data comes as partition files with manifests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    /// Events, one file a day.
    Events,
    /// Sessions, one file a day.
    Sessions,
    /// Chunks, partitioned by day or by any other stable key.
    Chunks,
    /// Summaries of one stream, one file a day.
    Summaries(Stream),
}

impl Family {
    /// The three that others write.
    pub const ALL: [Family; 3] = [Family::Events, Family::Sessions, Family::Chunks];

    /// The family behind a bus name; `None` for `other`, which has no manifests.
    pub fn of(bus: Bus) -> Option<Family> {
        match bus {
            Bus::EventBus => Some(Family::Events),
            Bus::SessionBus => Some(Family::Sessions),
            Bus::ChunkBus => Some(Family::Chunks),
            Bus::Other => None,
        }
    }

    /// The bus as requests name it.
    pub fn bus(self) -> Bus {
        match self {
            Family::Events => Bus::EventBus,
            Family::Sessions => Bus::SessionBus,
            Family::Chunks => Bus::ChunkBus,
            Family::Summaries(_) => Bus::Other,
        }
    }

    /// The bus as manifests name it.
    pub fn artifact_family(self) -> &'static str {
        match self {
            Family::Events => "event_bus",
            Family::Sessions => "sessions_bus",
            Family::Chunks => "chunk_bus",
            Family::Summaries(_) => "summary_bus",
        }
    }

    /// The folder of the data files, relative to the bus home.
    pub(crate) fn data_dir(self) -> &'static str {
        match self {
            Family::Events => "eventbus/daily",
            Family::Sessions => "sessions/daily",
            Family::Chunks => "chunks/canonical",
            Family::Summaries(Stream::Events) => "summaries/events",
            Family::Summaries(Stream::Sessions) => "summaries/sessions",
            Family::Summaries(Stream::Documents) => "summaries/documents",
            Family::Summaries(Stream::ChunkSets) => "summaries/chunk_sets",
        }
    }

    /// The folder of the manifests, relative to the bus home.
    pub(crate) fn manifest_dir(self) -> &'static str {
        match self {
            Family::Events => "eventbus/manifest",
            Family::Sessions => "sessions/manifest",
            Family::Chunks => "chunks/manifest",
            Family::Summaries(_) => "summaries/manifest",
        }
    }

    /// The name of a partition's data file.
    pub(crate) fn data_name(self, partition: &str) -> String {
        match self {
            Family::Events | Family::Chunks => format!("{partition}.jsonl"),
            Family::Sessions => format!("{partition}.sessions.jsonl"),
            Family::Summaries(stream) => format!("{partition}.{stream}.summary.jsonl"),
        }
    }

    /// The names a partition's manifest may have, the contract's own first.
    pub(crate) fn manifest_names(self, partition: &str) -> Vec<String> {
        let plain = format!("{partition}.manifest.json");
        match self {
            Family::Events | Family::Chunks => vec![plain],
            Family::Sessions => vec![format!("{partition}.sessions.manifest.json"), plain],
            Family::Summaries(stream) => {
                vec![format!("{partition}.{stream}.summary.manifest.json")]
            }
        }
    }

    /// The partition a data file belongs to.
    pub(crate) fn partition_of_data(self, name: &str) -> Option<&str> {
        let partition = match self {
            Family::Events | Family::Chunks => name.strip_suffix(".jsonl"),
            Family::Sessions => name.strip_suffix(".sessions.jsonl"),
            Family::Summaries(stream) => name
                .strip_suffix(".summary.jsonl")
                .and_then(|stem| stem.strip_suffix(stream.as_str())?.strip_suffix('.')),
        };
        partition.filter(|partition| is_partition_name(partition))
    }

    /// The partition a manifest belongs to.
    pub(crate) fn partition_of_manifest(self, name: &str) -> Option<&str> {
        let stem = name.strip_suffix(".manifest.json")?;
        let partition = match self {
            Family::Sessions => stem.strip_suffix(".sessions").unwrap_or(stem),
            Family::Events | Family::Chunks => stem,
            Family::Summaries(stream) => {
                stem.strip_suffix(".summary")?.strip_suffix(stream.as_str())?.strip_suffix('.')?
            }
        };
        Some(partition).filter(|partition| is_partition_name(partition))
    }

    /// The data file of a partition, relative to the bus home.
    pub fn data_path(self, partition: &str) -> String {
        format!("{}/{}", self.data_dir(), self.data_name(partition))
    }

    /// The preferred manifest path of a partition, relative to the bus home.
    pub fn manifest_path(self, partition: &str) -> String {
        format!("{}/{}", self.manifest_dir(), self.manifest_names(partition)[0])
    }

    /// The record version the manifests of this family announce.
    pub fn bus_schema_version(self) -> &'static str {
        match self {
            Family::Events => "event.v1",
            Family::Sessions => "session.v1",
            Family::Chunks => "chunks.v1",
            Family::Summaries(stream) => stream.item_version(),
        }
    }

    /// The spellings of the record version readers accept.
    pub(crate) fn record_versions(self) -> &'static [&'static str] {
        match self {
            Family::Events => &["event.v1"],
            Family::Sessions => &["session.v1", "sessions.v1"],
            Family::Chunks => &["chunks.v1", "chunk.v1"],
            Family::Summaries(Stream::Events) => &["event_summary.v1"],
            Family::Summaries(Stream::Sessions) => &["session_summary.v1"],
            Family::Summaries(Stream::Documents) => &["document_summary.v1"],
            Family::Summaries(Stream::ChunkSets) => &["chunk_set_summary.v1"],
        }
    }

    /// The name under which a repeated id is reported.
    pub(crate) fn duplicate_subtype(self) -> &'static str {
        match self {
            Family::Events => "DUPLICATE_EVENT_ID",
            Family::Sessions => "SESSIONS_DUPLICATE_SESSION_ID",
            Family::Chunks => "INTEGRITY_VIOLATION:duplicate_ids",
            Family::Summaries(_) => "SUMMARIES_DUPLICATE_SUMMARY_ID",
        }
    }

    /// The name under which a line that is no JSON is reported.
    pub(crate) fn malformed_subtype(self) -> &'static str {
        match self {
            Family::Events => "MALFORMED_JSONL",
            Family::Sessions => "SESSIONS_MALFORMED_JSONL",
            Family::Chunks => "SCHEMA_INVALID:json_parse",
            Family::Summaries(_) => "SUMMARIES_MALFORMED_JSONL",
        }
    }

    /// The name under which a record of the wrong shape is reported.
    pub(crate) fn schema_subtype(self) -> &'static str {
        match self {
            Family::Events => "EVENTBUS_SCHEMA_MISMATCH",
            Family::Sessions => "SESSIONS_SCHEMA_MISMATCH",
            Family::Chunks => "SCHEMA_INVALID:required_field_missing",
            Family::Summaries(_) => "SUMMARIES_SCHEMA_MISMATCH",
        }
    }

    /// The name under which data that contradicts its manifest is reported.
    pub(crate) fn mismatch_subtype(self) -> &'static str {
        match self {
            Family::Events => "MANIFEST_MISMATCH",
            Family::Sessions => "SESSIONS_MANIFEST_MISMATCH",
            Family::Chunks => "INTEGRITY_VIOLATION:manifest_mismatch",
            Family::Summaries(_) => "SUMMARIES_MANIFEST_MISMATCH",
        }
    }

    /// The name under which a missing manifest is reported.
    pub(crate) fn missing_manifest_subtype(self) -> &'static str {
        match self {
            Family::Events => "MISSING_EVENTBUS_MANIFEST",
            Family::Sessions => "MISSING_SESSIONS_MANIFEST",
            Family::Chunks => "MISSING_CHUNK_MANIFEST",
            Family::Summaries(_) => "MISSING_SUMMARIES_MANIFEST",
        }
    }

    /// The name under which a missing data file is reported.
    pub(crate) fn missing_data_subtype(self) -> &'static str {
        match self {
            Family::Events => "MISSING_DAILY_FILE",
            Family::Sessions => "MISSING_SESSIONS_FILE",
            Family::Chunks => "MISSING_CHUNKS_FILE",
            Family::Summaries(_) => "MISSING_SUMMARIES_FILE",
        }
    }
}

/// Names that start with a dot are temporary files or belong to other programs.
fn is_partition_name(name: &str) -> bool {
    !name.is_empty() && !name.starts_with('.')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back_to_their_partition() {
        let summaries = Stream::ALL.iter().map(|stream| Family::Summaries(*stream));
        for family in Family::ALL.into_iter().chain(summaries) {
            let partition = "2026-02-11";
            assert_eq!(family.partition_of_data(&family.data_name(partition)), Some(partition));
            for name in family.manifest_names(partition) {
                assert_eq!(family.partition_of_manifest(&name), Some(partition), "{name}");
            }
        }
        assert_eq!(Family::Events.partition_of_data(".2026-02-11.jsonl.tmp"), None);
        assert_eq!(Family::Events.partition_of_data(".jsonl"), None);
        let events = Family::Summaries(Stream::Events);
        assert_eq!(events.partition_of_data("2026-02-11.sessions.summary.jsonl"), None);
        assert_eq!(events.partition_of_manifest("2026-02-11.sessions.summary.manifest.json"), None);
        assert_eq!(Family::Chunks.partition_of_data("pdf-a.b.jsonl"), Some("pdf-a.b"));
    }
}
