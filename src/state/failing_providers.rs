//! The providers that failed while a fallback answered, until they answer again.

use std::collections::BTreeMap;

use super::event::PassedOver;
use crate::contract::time::Timestamp;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FailingProvider {
    pub(crate) failure: PassedOver,
    /// Calls that a fallback answered since the provider answered last.
    pub(crate) times: u64,
    pub(crate) since: Timestamp,
    pub(crate) last: Timestamp,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct FailingProviders {
    pub(crate) by_name: BTreeMap<String, FailingProvider>,
}

impl FailingProviders {
    pub(super) fn passed_over(&mut self, at: Timestamp, failure: &PassedOver) {
        let provider = failure.provider.clone();
        let failing = self.by_name.entry(provider).or_insert_with(|| FailingProvider {
            failure: failure.clone(),
            times: 0,
            since: at,
            last: at,
        });
        failing.failure = failure.clone();
        failing.times += 1;
        failing.last = at;
    }

    pub(super) fn answered(&mut self, provider: &str) {
        self.by_name.remove(provider);
    }
}
