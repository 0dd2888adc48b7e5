//! The registry as the service asks it.

use super::worker::FlowDirectory;
use crate::registry::{Registry, Resolution};
use crate::state::decide::FlowStanding;

/// The kind of every flow reference of the contract.
pub const REGISTRY_KIND: &str = "registry";

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
}
