//! What the state keeps about flows and models, apart from requests: the pack that each flow id is
//! bound to, and the cost of one day.
//!
//! Contract. A flow id is bound to the pack it was first used with. Only an order of an operator,
//! which is an event, binds it to another pack. A charge counts on the day that it names, also when
//! its attempt is over. Only the latest day is kept here; older days are in the log.

use std::collections::BTreeMap;

use super::event::Charge;
use crate::contract::hash::Digest;
use crate::contract::time::Day;

/// A flow and its variant.
pub(crate) type FlowKey = (String, Option<String>);

/// What one provider charged on one day.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Charged {
    /// Calls that cost something.
    pub calls: u64,
    /// Tokens of prompts.
    pub input_tokens: u64,
    /// Tokens of answers.
    pub output_tokens: u64,
    /// Billionths of the currency of the prices.
    pub cost_nanos: u64,
}

impl Charged {
    fn add(&mut self, charge: &Charge) {
        self.calls = self.calls.saturating_add(1);
        self.input_tokens = self.input_tokens.saturating_add(charge.input_tokens);
        self.output_tokens = self.output_tokens.saturating_add(charge.output_tokens);
        self.cost_nanos = self.cost_nanos.saturating_add(charge.cost_nanos);
    }
}

/// Everything providers charged on one day.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DayCharged {
    pub day: Day,
    /// By name of the provider.
    pub by_provider: BTreeMap<String, Charged>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Flows {
    /// The pack of each flow: the pack that was used first, or the pack that was accepted last.
    pub used: BTreeMap<FlowKey, Digest>,
    /// The latest day on which something was charged.
    pub charged: Option<DayCharged>,
}

impl Flows {
    /// Whether there is nothing to remember.
    pub fn is_empty(&self) -> bool {
        self.used.is_empty() && self.charged.is_none()
    }

    /// The pack a flow stands for, once it was used.
    pub(crate) fn pack_of(&self, flow_id: &str, variant: Option<&str>) -> Option<Digest> {
        // A handful of flows: cheaper than owning the key to look it up.
        let mut of_flow = self.used.range((flow_id.to_owned(), None)..);
        of_flow
            .by_ref()
            .take_while(|((id, _), _)| id == flow_id)
            .find(|((_, of), _)| of.as_deref() == variant)
            .map(|(_, pack)| *pack)
    }

    pub(super) fn used(&mut self, flow_id: &str, variant: Option<&str>, pack: Digest) {
        self.used.insert((flow_id.to_owned(), variant.map(str::to_owned)), pack);
    }

    pub(super) fn charge(&mut self, charge: &Charge) {
        let older = self.charged.as_ref().is_some_and(|known| known.day > charge.day);
        if older {
            return;
        }
        let newer = self.charged.as_ref().is_none_or(|known| known.day < charge.day);
        if newer {
            self.charged = Some(DayCharged { day: charge.day, by_provider: BTreeMap::new() });
        }
        if let Some(known) = &mut self.charged {
            known.by_provider.entry(charge.provider.clone()).or_default().add(charge);
        }
    }
}
