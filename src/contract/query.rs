//! `summary_request_query.v1`: one day or a range of days, a few equalities, a limit. Closed on
//! purpose, so that no second language grows inside the request.
//!
//! This is the query as it was written. The readers of the upstream buses answer it and apply its
//! limit.

use serde_json::{Map, Value};

use super::time::Day;
use super::vocabulary::Bus;

/// The exact `schema_version` of a query.
pub const SCHEMA: &str = "summary_request_query.v1";

/// Most matches a query may have, and the default of its `limit`.
pub(crate) const LIMIT_MAX: u16 = 1000;

/// Which partition days a query looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Days {
    /// One day.
    One(Day),
    /// From the first to the last, both included.
    Range(Day, Day),
}

impl Days {
    /// First day.
    pub fn first(self) -> Day {
        match self {
            Days::One(day) | Days::Range(day, _) => day,
        }
    }

    /// Last day, included.
    pub fn last(self) -> Day {
        match self {
            Days::One(day) | Days::Range(_, day) => day,
        }
    }
}

/// A query whose days are real and whose conditions fit its bus.
#[derive(Debug, Clone, PartialEq)]
pub struct Query {
    /// Partition days.
    pub days: Days,
    /// `where`: fields that must equal a string, number or boolean, in the order given.
    pub(crate) conditions: Map<String, Value>,
    /// The limit as given.
    pub limit: Option<u16>,
}

impl Query {
    /// The record, with exactly the members that were given; an empty `where` counts as absent.
    pub fn to_value(&self) -> Value {
        let mut record = Map::new();
        record.insert("schema_version".into(), SCHEMA.into());
        match self.days {
            Days::One(day) => {
                record.insert("day".into(), day.to_string().into());
            }
            Days::Range(first, last) => {
                record.insert("day_from".into(), first.to_string().into());
                record.insert("day_to".into(), last.to_string().into());
            }
        }
        if !self.conditions.is_empty() {
            record.insert("where".into(), self.conditions.clone().into());
        }
        if let Some(limit) = self.limit {
            record.insert("limit".into(), limit.into());
        }
        record.into()
    }
}

/// Every field a `where` may name on some bus.
pub(super) const CONDITION_FIELDS: &[&str] =
    &["role", "event_kind", "event_subkind", "conversation_id", "session_id", "document_id"];

/// The fields a `where` may name on this bus.
pub(crate) fn fields_of(bus: Bus) -> &'static [&'static str] {
    match bus {
        Bus::EventBus => &["role", "event_kind", "event_subkind", "conversation_id"],
        Bus::SessionBus => &["session_id", "conversation_id"],
        Bus::ChunkBus => &["document_id"],
        Bus::Other => &[],
    }
}
