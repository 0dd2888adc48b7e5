//! Rules that a schema cannot state: instants and days must exist, and conditions must fit the bus of
//! the query. A violation quarantines the line with its pointer, like a violation of the schema. A
//! small fault (a missing offset, a repeated id) gives a warning.

use std::borrow::Cow;
use std::collections::BTreeSet;

use serde_json::Value;

use super::typed::{Raw, RawDays, RawInput, RawQuery};
use super::{Input, PRIORITY_DEFAULT, Refusal, Request, RequestedBy, Work};
use crate::contract::query::{Days, Query, fields_of};
use crate::contract::schema::{Violation, is_quotable};
use crate::contract::time::{Day, Timestamp, parse_instant};
use crate::contract::vocabulary::{Bus, QuarantineReason, Warning, Warnings};

/// Up to this many ids, searching a list is faster than searching a tree.
const FEW_IDS: usize = 16;

#[derive(Default)]
struct Findings {
    errors: Vec<Violation>,
    warnings: Warnings,
}

impl Findings {
    fn error(&mut self, pointer: &str, message: String) {
        self.errors.push(Violation { pointer: pointer.to_owned(), message });
    }

    fn instant(&mut self, pointer: &str, text: &str) -> Timestamp {
        match parse_instant(text) {
            Ok(instant) => {
                if !instant.has_offset {
                    self.warnings = self.warnings.with(Warning::TimestampWithoutOffset);
                }
                instant.at
            }
            Err(error) => {
                self.error(pointer, error.to_string());
                Timestamp::default()
            }
        }
    }

    fn day(&mut self, pointer: &str, text: &str) -> Option<Day> {
        text.parse()
            .map_err(|error: crate::contract::time::NotADay| {
                self.error(pointer, error.to_string());
            })
            .ok()
    }
}

/// Applies the rules beyond the schema. A stored request was accepted, perhaps before a rule was there.
pub(super) fn settle(raw: Raw<'_>, is_stored: bool) -> Result<Request, Refusal> {
    let mut findings = Findings::default();
    let created_at = findings.instant("/created_at", &raw.created_at);
    let not_before = raw.not_before.map(|text| findings.instant("/not_before", &text));
    let deadline = raw.deadline.map(|text| findings.instant("/deadline", &text));
    if let Some((place, number)) = raw.wide_integer.as_ref().filter(|_| !is_stored) {
        let shown: String = number.chars().take(40).collect();
        let (what, room) = match number.contains('.') {
            true => ("number", "a float"),
            false => ("integer", "64 bits"),
        };
        let message = format!("the {what} {shown} does not fit into {room}: write it as a string");
        findings.error(place, message);
    }
    let mut params = raw.params;
    params.retain(|_, value| !value.is_null());
    let input = settle_input(raw.input, &mut findings);
    let Some(input) = input.filter(|_| findings.errors.is_empty()) else {
        return Err(Refusal {
            reason: QuarantineReason::SchemaViolation,
            request_id: Some(raw.request_id.into_owned()),
            errors: findings.errors,
            errors_omitted: 0,
        });
    };
    Ok(Request {
        request_id: raw.request_id.into_owned(),
        created_at,
        requested_by: RequestedBy {
            repo: raw.repo.into_owned(),
            component: raw.component.into_owned(),
            version: raw.version.into_owned(),
            git_commit: raw.git_commit.map(Cow::into_owned),
        },
        urgency: raw.urgency,
        not_before,
        deadline,
        priority: raw.priority.unwrap_or(PRIORITY_DEFAULT),
        idempotency_key: raw.idempotency_key.map(Cow::into_owned),
        work: Work {
            kind: raw.kind,
            subkind: raw.subkind.into_owned(),
            flow_id: raw.flow_id.into_owned(),
            variant: raw.variant.map(Cow::into_owned),
            params,
        },
        input,
        warnings: findings.warnings,
    })
}

fn settle_input(input: RawInput<'_>, findings: &mut Findings) -> Option<Input> {
    Some(match input {
        RawInput::Ids { bus, ids } => {
            let given = ids.len();
            let ids = without_repeats(ids);
            if ids.len() < given {
                findings.warnings = findings.warnings.with(Warning::RepeatedIds);
            }
            Input::Ids { bus, ids }
        }
        RawInput::Manifest { path, hash } => {
            Input::SelectionManifest { path: path.into_owned(), hash: hash.into_owned() }
        }
        RawInput::Query { bus, query } => {
            Input::Query { bus, query: settle_query(bus, query, findings)? }
        }
    })
}

fn without_repeats(ids: Vec<Cow<'_, str>>) -> Vec<String> {
    if ids.len() <= FEW_IDS {
        let mut kept: Vec<String> = Vec::with_capacity(ids.len());
        for id in ids {
            if !kept.iter().any(|before| *before == id) {
                kept.push(id.into_owned());
            }
        }
        return kept;
    }
    let mut seen = BTreeSet::new();
    let first: Vec<bool> = ids.iter().map(|id| seen.insert(id.as_ref())).collect();
    drop(seen);
    ids.into_iter().zip(first).filter(|(_, first)| *first).map(|(id, _)| id.into_owned()).collect()
}

fn settle_query(bus: Bus, raw: RawQuery<'_>, findings: &mut Findings) -> Option<Query> {
    for name in raw.conditions.keys() {
        let fields = fields_of(bus);
        if !fields.contains(&name.as_str()) {
            let expected = match fields {
                [] => "it has no fields to ask for".to_owned(),
                fields => format!("expected {}", fields.join(", ")),
            };
            let message = format!("{bus} has no such field: {expected}");
            let is_name = is_quotable(&Value::String(name.clone()));
            let place = if is_name {
                format!("/input/query/where/{name}")
            } else {
                "/input/query/where".to_owned()
            };
            findings.error(&place, message);
        }
    }
    let days = match raw.days {
        RawDays::One(day) => Days::One(findings.day("/input/query/day", &day)?),
        RawDays::Range(from, to) => {
            let first = findings.day("/input/query/day_from", &from);
            let last = findings.day("/input/query/day_to", &to);
            let (first, last) = (first?, last?);
            if last < first {
                findings.error("/input/query/day_to", "lies before day_from".to_owned());
            }
            Days::Range(first, last)
        }
    };
    Some(Query { days, conditions: raw.conditions, limit: raw.limit })
}
