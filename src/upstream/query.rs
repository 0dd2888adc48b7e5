//! Query mode: `summary_request_query.v1`, a small closed filter over one day or a range of days.
//!
//! Contract: a query is turned into ids once, and the ids are what is recorded; more matches than
//! the limit are an error, never a silent cut. An unpublished day is missing and does not count as an
//! empty day. A query without any published day is an error. Otherwise the result names the missing days.

use std::collections::{BTreeMap, BTreeSet};

use chrono_tz::Tz;
use serde::Deserialize;
use serde_json::Value;

use super::defect::Defect;
use super::family::Family;
use super::other_query;
use super::partition::bad_record;
use super::record::{ChunkRecord, EventHead, SessionRecord};
use super::view::{Partition, Upstream};
use crate::contract::query::fields_of;
use crate::contract::time::Day;
use crate::contract::vocabulary::{Bus, ErrorClass, ReasonCode};
use crate::facts::failure::ErrorDetails;
use crate::facts::note::InputNote;

/// Most matches a query may have, and the default limit.
pub(crate) const QUERY_MATCHES_MAX: usize = 1000;
/// Most days a query may span.
const QUERY_DAYS_MAX: i64 = 3660;

/// What a query found.
#[derive(Default)]
pub(super) struct QueryResult {
    /// The ids that match, in file order.
    pub(super) ids: Vec<String>,
    /// The partitions that were read.
    pub(super) read: Vec<Partition>,
    /// Days of a range that are not published.
    pub(super) missing: Vec<Day>,
    /// The last day that was asked for.
    pub(super) last: Option<Day>,
    /// Warnings for the run record.
    pub(super) notes: Vec<InputNote>,
}

/// A query that was understood.
#[derive(Debug, Clone, PartialEq)]
pub struct Query {
    from: Day,
    to: Day,
    one_day: bool,
    filters: BTreeMap<String, String>,
    limit: usize,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    schema_version: String,
    day: Option<String>,
    day_from: Option<String>,
    day_to: Option<String>,
    #[serde(default, rename = "where")]
    filters: BTreeMap<String, Value>,
    limit: Option<u64>,
}

impl Query {
    /// Reads a query for a bus.
    pub fn parse(bus: Bus, value: &Value) -> Result<Query, Defect> {
        let raw: Raw =
            serde_json::from_value(value.clone()).map_err(|error| invalid(error.to_string()))?;
        if raw.schema_version != "summary_request_query.v1" {
            return Err(invalid(format!("query version {} is not supported", raw.schema_version)));
        }
        let day = |text: &String| {
            text.parse::<Day>().map_err(|error| invalid(format!("{text}: {error}")))
        };
        let (from, to) = match (&raw.day, &raw.day_from, &raw.day_to) {
            (Some(one), None, None) => (day(one)?, day(one)?),
            (None, Some(from), Some(to)) => (day(from)?, day(to)?),
            _ => return Err(invalid("either `day`, or `day_from` and `day_to`".to_owned())),
        };
        if from > to || (to.0 - from.0).num_days() > QUERY_DAYS_MAX {
            return Err(invalid(format!("{from} to {to} is not a range of days")));
        }
        Ok(Query {
            from,
            to,
            one_day: raw.day.is_some(),
            filters: filters(bus, raw.filters)?,
            limit: limit(raw.limit)?,
        })
    }

    /// The ids that match. The days of files are days in `zone`.
    pub(super) fn run(
        &self,
        upstream: &Upstream,
        bus: Bus,
        zone: Tz,
    ) -> Result<QueryResult, Defect> {
        let mut found = match Family::of(bus) {
            Some(family) => self.of_partitions(upstream, family)?,
            None => {
                let within = |day: Day| self.from <= day && day <= self.to;
                let (ids, notes) = other_query::dated(upstream, zone, &within)?;
                if ids.len() > self.limit {
                    return Err(too_wide(self.limit));
                }
                QueryResult { ids, notes, ..QueryResult::default() }
            }
        };
        found.last = Some(self.to);
        Ok(found)
    }

    fn of_partitions(&self, upstream: &Upstream, family: Family) -> Result<QueryResult, Defect> {
        let (names, missing) = self.partitions(upstream, family)?;
        let (mut ids, mut read) = (Vec::new(), Vec::new());
        for name in names {
            let partition = upstream.partition(family, &name)?;
            let path = partition.manifest.data_path.clone();
            let mut lines = upstream.lines(&partition)?;
            loop {
                let next = lines.next_line();
                let next = next.map_err(|error| Defect::storage("read", &path, &error))?;
                let Some((at, line)) = next else { break };
                if line.iter().all(u8::is_ascii_whitespace) {
                    continue;
                }
                let id = self
                    .matching(family, &name, line)
                    .map_err(|error| bad_record(&partition.manifest, at.line, error))?;
                ids.extend(id);
                if ids.len() > self.limit {
                    return Err(too_wide(self.limit));
                }
            }
            read.push(partition);
        }
        Ok(QueryResult { ids, read, missing, ..QueryResult::default() })
    }

    /// The partitions to read, and the days of the range that have none.
    fn partitions(
        &self,
        upstream: &Upstream,
        family: Family,
    ) -> Result<(Vec<String>, Vec<Day>), Defect> {
        let days = (self.from.days()..=self.to.days()).filter_map(Day::of_days);
        if self.one_day {
            return Ok((days.map(|day| day.to_string()).collect(), Vec::new()));
        }
        let published: BTreeSet<String> = upstream.partitions(family)?.into_iter().collect();
        let (there, missing): (Vec<Day>, Vec<Day>) =
            days.partition(|day| published.contains(&day.to_string()));
        if there.is_empty() {
            let mut defect = match upstream.partition(family, &self.to.to_string()) {
                Err(defect) => defect,
                // It was published since the folder was listed.
                Ok(_) => return Ok((vec![self.to.to_string()], missing)),
            };
            let days = missing.len();
            defect.message = format!(
                "none of the {days} days from {} to {} is published: {}",
                self.from, self.to, defect.message
            );
            return Err(defect);
        }
        Ok((there.into_iter().map(|day| day.to_string()).collect(), missing))
    }

    fn matching(
        &self,
        family: Family,
        partition: &str,
        line: &[u8],
    ) -> Result<Option<String>, super::record::BadRecord> {
        let wanted = |matches: &dyn Fn(&str, &str) -> bool| {
            self.filters.iter().all(|(field, value)| matches(field, value))
        };
        let (matched, id) = match family {
            Family::Events => {
                let head = EventHead::parse(line)?;
                let matched = wanted(&|field, value| head.field(field) == Some(value));
                (matched, head.event_id.0.into_owned())
            }
            Family::Sessions => {
                let session = SessionRecord::parse(line, partition)?;
                let matched = wanted(&|field, value| match field {
                    "session_id" => session.session_id.0 == value,
                    _ => session.has_conversation(value),
                });
                (matched, session.session_id.0.into_owned())
            }
            Family::Chunks => {
                let chunk = ChunkRecord::parse(line)?;
                let matched = wanted(&|_, value| chunk.document_id.0 == value);
                (matched, chunk.chunk_id.0.into_owned())
            }
            // A query is for the buses that requests name.
            Family::Summaries(_) => return Ok(None),
        };
        Ok(matched.then_some(id))
    }
}

fn filters(bus: Bus, raw: BTreeMap<String, Value>) -> Result<BTreeMap<String, String>, Defect> {
    let mut filters = BTreeMap::new();
    for (field, value) in raw {
        if !fields_of(bus).contains(&field.as_str()) {
            return Err(invalid(format!("{bus} cannot be filtered by {field}")));
        }
        let text = match value {
            Value::String(text) => text,
            Value::Number(number) => number.to_string(),
            Value::Bool(flag) => flag.to_string(),
            _ => return Err(invalid(format!("`where.{field}` is not a scalar"))),
        };
        filters.insert(field, text);
    }
    Ok(filters)
}

fn limit(raw: Option<u64>) -> Result<usize, Defect> {
    match raw {
        None => Ok(QUERY_MATCHES_MAX),
        Some(limit) if (1..=QUERY_MATCHES_MAX as u64).contains(&limit) => Ok(limit as usize),
        Some(limit) => {
            Err(invalid(format!("limit {limit} is not between 1 and {QUERY_MATCHES_MAX}")))
        }
    }
}

fn invalid(message: String) -> Defect {
    let summary = message.clone();
    let mut defect = Defect::schema(
        "INVALID_QUERY",
        "summary_request",
        None,
        &["summary_request_query.v1"],
        summary,
        "input.query".to_owned(),
    );
    defect.message = message;
    defect.with_reason(ReasonCode::InvalidParams)
}

fn too_wide(limit: usize) -> Defect {
    Defect {
        class: ErrorClass::IntegrityMismatch,
        subtype: "QUERY_TOO_WIDE".to_owned(),
        message: format!("the query matches more than {limit} records"),
        details: ErrorDetails::Integrity {
            manifest_path: None,
            observed_hash: None,
            declared_hash: None,
            observed_counts: Some(limit as u64 + 1),
            declared_counts: Some(limit as u64),
        },
        reason: ReasonCode::QueryTooWide,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_the_closed_form_is_understood() {
        let good = json!({"schema_version": "summary_request_query.v1", "day": "2026-02-11",
            "where": {"role": "user"}, "limit": 5});
        let query = Query::parse(Bus::EventBus, &good).unwrap();
        assert_eq!((query.limit, query.one_day), (5, true));
        for (key, value) in [
            ("day", json!("2026-02-31")),
            ("day_from", json!("2026-02-01")),
            ("where", json!({"title": "x"})),
            ("where", json!({"role": {"in": []}})),
            ("limit", json!(0)),
            ("limit", json!(1001)),
            ("schema_version", json!("summary_request_query.v2")),
            ("kinds", json!([])),
        ] {
            let mut bad = good.clone();
            bad[key] = value.clone();
            let defect = Query::parse(Bus::EventBus, &bad).unwrap_err();
            assert_eq!(defect.reason, ReasonCode::InvalidParams, "{key} {value}");
        }
        assert!(Query::parse(Bus::Other, &good).is_err(), "files have no roles");
    }
}
