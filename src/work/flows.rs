//! The registry as the service asks it.

use crate::registry::{Mutation, Registry, Resolution};
use crate::state::decide::FlowStanding;
use crate::state::flows::Flows;
use crate::work::worker::FlowDirectory;

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

    fn mutations(&self, used: &Flows) -> Vec<Mutation> {
        let used = used.used.iter();
        Registry::mutations(self, used.map(|((id, of), pack)| (id.as_str(), of.as_deref(), *pack)))
    }
}
