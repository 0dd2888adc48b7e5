//! The three upstream buses that publish manifested partitions, and where their files lie.

use crate::contract::vocabulary::Bus;

/// A bus whose data comes as partition files with manifests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    /// Events, one file a day.
    Events,
    /// Sessions, one file a day.
    Sessions,
    /// Chunks, partitioned by day or by any other stable key.
    Chunks,
}

impl Family {
    /// All three.
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
        }
    }

    /// The bus as manifests name it.
    pub fn artifact_family(self) -> &'static str {
        match self {
            Family::Events => "event_bus",
            Family::Sessions => "sessions_bus",
            Family::Chunks => "chunk_bus",
        }
    }

    /// The folder of the data files, relative to the bus home.
    pub fn data_dir(self) -> &'static str {
        match self {
            Family::Events => "eventbus/daily",
            Family::Sessions => "sessions/daily",
            Family::Chunks => "chunks/canonical",
        }
    }

    /// The folder of the manifests, relative to the bus home.
    pub fn manifest_dir(self) -> &'static str {
        match self {
            Family::Events => "eventbus/manifest",
            Family::Sessions => "sessions/manifest",
            Family::Chunks => "chunks/manifest",
        }
    }

    /// The name of a partition's data file.
    pub fn data_name(self, partition: &str) -> String {
        match self {
            Family::Events | Family::Chunks => format!("{partition}.jsonl"),
            Family::Sessions => format!("{partition}.sessions.jsonl"),
        }
    }

    /// The names a partition's manifest may have, the contract's own first.
    pub fn manifest_names(self, partition: &str) -> Vec<String> {
        let plain = format!("{partition}.manifest.json");
        match self {
            Family::Events | Family::Chunks => vec![plain],
            Family::Sessions => vec![format!("{partition}.sessions.manifest.json"), plain],
        }
    }

    /// The partition a data file belongs to.
    pub fn partition_of_data(self, name: &str) -> Option<&str> {
        let partition = match self {
            Family::Events | Family::Chunks => name.strip_suffix(".jsonl"),
            Family::Sessions => name.strip_suffix(".sessions.jsonl"),
        };
        partition.filter(|partition| is_partition_name(partition))
    }

    /// The partition a manifest belongs to.
    pub fn partition_of_manifest(self, name: &str) -> Option<&str> {
        let stem = name.strip_suffix(".manifest.json")?;
        let partition = match self {
            Family::Sessions => stem.strip_suffix(".sessions").unwrap_or(stem),
            Family::Events | Family::Chunks => stem,
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
        }
    }

    /// The spellings of the record version readers accept.
    pub fn record_versions(self) -> &'static [&'static str] {
        match self {
            Family::Events => &["event.v1"],
            Family::Sessions => &["session.v1", "sessions.v1"],
            Family::Chunks => &["chunks.v1", "chunk.v1"],
        }
    }

    /// The name under which a repeated id is reported.
    pub fn duplicate_subtype(self) -> &'static str {
        match self {
            Family::Events => "DUPLICATE_EVENT_ID",
            Family::Sessions => "SESSIONS_DUPLICATE_SESSION_ID",
            Family::Chunks => "INTEGRITY_VIOLATION:duplicate_ids",
        }
    }

    /// The name under which a line that is no JSON is reported.
    pub fn malformed_subtype(self) -> &'static str {
        match self {
            Family::Events => "MALFORMED_JSONL",
            Family::Sessions => "SESSIONS_MALFORMED_JSONL",
            Family::Chunks => "SCHEMA_INVALID:json_parse",
        }
    }

    /// The name under which a record of the wrong shape is reported.
    pub fn schema_subtype(self) -> &'static str {
        match self {
            Family::Events => "EVENTBUS_SCHEMA_MISMATCH",
            Family::Sessions => "SESSIONS_SCHEMA_MISMATCH",
            Family::Chunks => "SCHEMA_INVALID:required_field_missing",
        }
    }

    /// The name under which data that contradicts its manifest is reported.
    pub fn mismatch_subtype(self) -> &'static str {
        match self {
            Family::Events => "MANIFEST_MISMATCH",
            Family::Sessions => "SESSIONS_MANIFEST_MISMATCH",
            Family::Chunks => "INTEGRITY_VIOLATION:manifest_mismatch",
        }
    }

    /// The name under which a missing manifest is reported.
    pub fn missing_manifest_subtype(self) -> &'static str {
        match self {
            Family::Events => "MISSING_EVENTBUS_MANIFEST",
            Family::Sessions => "MISSING_SESSIONS_MANIFEST",
            Family::Chunks => "MISSING_CHUNK_MANIFEST",
        }
    }

    /// The name under which a missing data file is reported.
    pub fn missing_data_subtype(self) -> &'static str {
        match self {
            Family::Events => "MISSING_DAILY_FILE",
            Family::Sessions => "MISSING_SESSIONS_FILE",
            Family::Chunks => "MISSING_CHUNKS_FILE",
        }
    }
}

/// Names that start with a dot are temporary files or none of ours.
fn is_partition_name(name: &str) -> bool {
    !name.is_empty() && !name.starts_with('.')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back_to_their_partition() {
        for family in Family::ALL {
            let partition = "2026-02-11";
            assert_eq!(family.partition_of_data(&family.data_name(partition)), Some(partition));
            for name in family.manifest_names(partition) {
                assert_eq!(family.partition_of_manifest(&name), Some(partition), "{name}");
            }
        }
        assert_eq!(Family::Events.partition_of_data(".2026-02-11.jsonl.tmp"), None);
        assert_eq!(Family::Events.partition_of_data(".jsonl"), None);
        assert_eq!(Family::Chunks.partition_of_data("pdf-a.b.jsonl"), Some("pdf-a.b"));
    }
}
