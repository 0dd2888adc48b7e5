//! What the unit tests of the sequencer share: an engine over a simulated disk, and lines of requests.

use std::path::Path;
use std::sync::Arc;

use super::engine::{Engine, EngineOptions};
use crate::contract::time::Timestamp;
use crate::log::{Options, Store};
use crate::os::Disk;
use crate::os::sim::SimDisk;
use crate::registry::FlowDirectory;
use crate::state::decide::{FlowStanding, RetryPolicy};

pub(crate) const NOW: Timestamp = Timestamp(1_772_359_200_000);

/// A registry in which every flow is active.
pub(crate) struct Everything;

impl FlowDirectory for Everything {
    fn standing(&self, _flow_id: &str, _variant: Option<&str>) -> FlowStanding {
        FlowStanding::Active
    }
}

/// An engine over an empty log.
pub(crate) fn engine(checkpoint_every: u64) -> Engine {
    let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
    let path = Path::new("/log.redb");
    let store = Store::open(disk, path, Options::beside(path), [7; 16], &mut |_| {}).unwrap();
    let options = EngineOptions { retry: RetryPolicy::default(), checkpoint_every };
    Engine::open(store, options, NOW, &mut |_| {}).unwrap()
}

/// The line of a request for a summary of one event.
pub(crate) fn request_line(id: &str, event: &str, key: &str) -> String {
    format!(
        r#"{{"schema_version":"summary_request.v1","request_id":"{id}",
        "created_at":"2026-03-01T10:00:00Z",
        "requested_by":{{"repo":"r","component":"c","version":"1"}},"urgency":"now",
        "work":{{"output_bus":"summary_bus","output_kind":"summary_item",
        "summary_kind":"event_summary","summary_subkind":"ops_brief",
        "flow_ref":{{"kind":"registry","flow_id":"a.flow.v1"}},"params":{{}}}},
        "input":{{"mode":"ids","bus":"event_bus","ids":["{event}"]}},"idempotency_key":"{key}"}}"#
    )
}
