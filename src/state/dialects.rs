//! The dialects of models as the log knows them.
//!
//! See docs/adr/0088-dialects-are-learned.md.

use std::collections::BTreeMap;

use crate::contract::time::Timestamp;
use crate::facts::dialect::{Dialect, KEPT_FOR_MS, LearnedDialect};

/// Most models. Beyond this the dialect that was learned first is forgotten.
const MODELS_MAX: usize = 256;
/// When the same dialect is learned again within this time, no event is made: several calls in flight learn
/// the same.
const SAME_WITHIN_MS: i64 = 3_600_000;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KnownDialect {
    /// The server that refused.
    pub(crate) server: String,
    pub(crate) dialect: Dialect,
    pub(crate) learned_at: Timestamp,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct KnownDialects {
    /// By provider and model.
    pub(crate) by_model: BTreeMap<(String, String), KnownDialect>,
}

impl KnownDialects {
    pub(super) fn learned(&mut self, at: Timestamp, learned: &LearnedDialect) {
        let LearnedDialect { provider, server, model, dialect } = learned.clone();
        self.by_model.insert((provider, model), KnownDialect { server, dialect, learned_at: at });
        if self.by_model.len() > MODELS_MAX {
            let oldest = self.by_model.iter().min_by_key(|(_, known)| known.learned_at);
            let oldest = oldest.map(|(name, _)| name.clone());
            oldest.map(|name| self.by_model.remove(&name));
        }
    }

    /// Whether this was learned a short time before.
    pub(super) fn says(&self, learned: &LearnedDialect, now: Timestamp) -> bool {
        let name = (learned.provider.clone(), learned.model.clone());
        self.by_model.get(&name).is_some_and(|known| {
            known.server == learned.server
                && known.dialect == learned.dialect
                && now.ms_since(known.learned_at) < SAME_WITHIN_MS
        })
    }

    /// The dialects that are spoken at a time, and for how many milliseconds they still are.
    pub(crate) fn spoken(
        &self,
        now: Timestamp,
    ) -> impl Iterator<Item = (LearnedDialect, u64)> + '_ {
        self.by_model.iter().filter_map(move |((provider, model), known)| {
            let left = KEPT_FOR_MS - now.ms_since(known.learned_at).max(0);
            let left = u64::try_from(left).ok().filter(|left| *left > 0)?;
            let learned = LearnedDialect {
                provider: provider.clone(),
                server: known.server.clone(),
                model: model.clone(),
                dialect: known.dialect.clone(),
            };
            Some((learned, left))
        })
    }
}
