//! What the next snapshot of a run takes from the one in force.

use super::fold::Invariants;
use super::snapshot::{Snapshot, SpillRef};

/// The facts of the snapshot in force that the next one depends on.
#[derive(Debug, Clone, PartialEq)]
pub struct Previous {
    pub snapshot_id: String,
    /// Its place in the run.
    pub sequence: u64,
    /// What the next one must not change.
    pub invariants: Invariants,
    /// The file of the records that it does not show.
    pub spill: Option<SpillRef>,
}

impl Previous {
    pub fn of(snapshot: &Snapshot) -> Previous {
        Previous {
            snapshot_id: snapshot.snapshot_id.clone(),
            sequence: snapshot.sequence,
            invariants: Invariants {
                objective: snapshot.objective.clone(),
                done_definition: snapshot.done_definition.clone(),
            },
            spill: snapshot.ext.as_ref().and_then(|ext| ext.spill.clone()),
        }
    }
}
