//! The registry as the service sees it: whether a flow may run, and which pack implements it.
//!
//! See docs/adr/0066-binding-a-flow-id-to-a-pack.md.

use std::sync::Arc;

use parking_lot::RwLock;

use super::dataset::{Mutation, Registry, Resolution};
#[cfg(feature = "cluster")]
use crate::contract::hash::Digest;
use crate::state::decide::FlowStanding;
use crate::state::flows::Flows;

/// The kind of every flow reference of the contract.
pub(crate) const REGISTRY_KIND: &str = "registry";

/// Flows as the service sees them. Tests and measurements stand in for the registry.
pub trait FlowDirectory: Send + Sync {
    /// Whether the flow may run at the moment a request for it arrives.
    fn standing(&self, flow_id: &str, variant: Option<&str>) -> FlowStanding;

    /// The pack of a flow that may run. A directory without packs has none.
    #[cfg(feature = "cluster")]
    fn pack(&self, _flow_id: &str, _variant: Option<&str>) -> Option<Digest> {
        None
    }

    /// Flows whose registered pack differs from the pack they were used with. A directory without
    /// packs has none.
    fn mutations(&self, _used: &Flows) -> Vec<Mutation> {
        Vec::new()
    }
}

/// A directory that a reload can replace.
pub type SharedFlows = Arc<RwLock<Arc<dyn FlowDirectory>>>;

impl FlowDirectory for Registry {
    fn standing(&self, flow_id: &str, variant: Option<&str>) -> FlowStanding {
        match self.resolve(REGISTRY_KIND, flow_id, variant) {
            Resolution::Active(_) => FlowStanding::Active,
            Resolution::Deprecated(_) => FlowStanding::Deprecated,
            Resolution::Disabled(_) => FlowStanding::Disabled,
            Resolution::UnknownFlow => FlowStanding::Unknown,
            Resolution::UnknownVariant { .. } => FlowStanding::UnknownVariant,
        }
    }

    #[cfg(feature = "cluster")]
    fn pack(&self, flow_id: &str, variant: Option<&str>) -> Option<Digest> {
        match self.resolve(REGISTRY_KIND, flow_id, variant) {
            Resolution::Active(record) | Resolution::Deprecated(record) => record.pack_hash(),
            _ => None,
        }
    }

    fn mutations(&self, used: &Flows) -> Vec<Mutation> {
        let used = used.used.iter();
        Registry::mutations(self, used.map(|((id, of), pack)| (id.as_str(), of.as_deref(), *pack)))
    }
}
