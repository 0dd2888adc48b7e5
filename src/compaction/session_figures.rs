//! What a session of the service did, in figures: what came in, what was made, what failed and why,
//! what it cost, what waits.
//!
//! Contract: a fold over what the log says, in its order. The size is bounded: a session with more
//! flows, models or kinds of failures than are named adds the rest up under one name.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::text::SharedText;

/// Most flows, models and kinds of failures that are named.
const NAMED_MAX: usize = 24;
/// The name for the rest.
const OTHER: &str = "other";

/// The figures of a session, from its first event on.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SessionFigures {
    pub session_id: SharedText,
    /// The command that the session ran.
    pub command: SharedText,
    pub began_at: SharedText,
    /// Requests taken in.
    pub accepted: u64,
    /// Requests whose summary exists already.
    pub duplicates: u64,
    pub rejected: u64,
    /// Queue lines that are no requests.
    pub lines_set_aside: u64,
    /// Summaries made.
    pub made: u64,
    pub skipped: u64,
    pub cancelled: u64,
    /// Requests that ended without a summary.
    pub failed: u64,
    /// Attempts that failed and are followed by another.
    pub retries: u64,
    /// Requests that had not ended, also those of earlier sessions.
    pub waiting: u64,
    pub flows: BTreeMap<SharedText, FlowFigures>,
    /// Failures by what they have in common.
    pub failures: BTreeMap<SharedText, FailureFigures>,
    /// Calls by provider and model.
    pub models: BTreeMap<SharedText, SpendFigures>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct FlowFigures {
    pub accepted: u64,
    pub made: u64,
    pub skipped: u64,
    pub failed: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailureFigures {
    /// Requests or lines that ended with it.
    pub ended: u64,
    /// Attempts that failed with it and are followed by another.
    pub retries: u64,
    /// What the first of them said.
    pub why: SharedText,
    /// The caller's id of the last request, when there is one.
    pub last_request_id: Option<SharedText>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SpendFigures {
    pub calls: u64,
    pub input_tokens: u64,
    pub output_tokens: u64,
    /// Billionths of the currency of the configured prices.
    pub cost_nanos: u64,
    /// Calls whose tokens no server counted, with the tokens that were reserved for them.
    pub estimated_calls: u64,
}

/// One thing that a session did or met.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Tally {
    Accepted {
        flow: SharedText,
    },
    /// A new request whose summary exists already.
    Duplicate,
    /// A request that waited for the summary of another and got it.
    GotAnothers,
    Rejected(FailureTally),
    LineSetAside(FailureTally),
    Made {
        flow: SharedText,
    },
    Skipped {
        flow: SharedText,
    },
    Cancelled,
    Failed {
        flow: SharedText,
        failure: FailureTally,
    },
    WillRetry(FailureTally),
    Charged {
        model: SharedText,
        input_tokens: u64,
        output_tokens: u64,
        cost_nanos: u64,
        estimated: bool,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FailureTally {
    /// What failures of this kind have in common.
    pub kind: SharedText,
    pub why: SharedText,
    pub request_id: Option<SharedText>,
}

impl SessionFigures {
    /// The figures of a session that begins now, while `waiting` requests have not ended.
    pub(crate) fn begun(
        session_id: &str,
        command: &str,
        at: String,
        waiting: u64,
    ) -> SessionFigures {
        SessionFigures {
            session_id: session_id.into(),
            command: command.into(),
            began_at: at.into(),
            waiting,
            ..SessionFigures::default()
        }
    }

    /// Takes in the next thing.
    pub(crate) fn count(&mut self, tally: &Tally) {
        match tally {
            Tally::Accepted { flow } => {
                self.accepted += 1;
                self.waiting += 1;
                named(&mut self.flows, flow).accepted += 1;
            }
            Tally::Duplicate => self.duplicates += 1,
            Tally::GotAnothers => {
                self.duplicates += 1;
                self.ended();
            }
            Tally::Rejected(failure) => {
                self.rejected += 1;
                self.failure(failure).ended += 1;
            }
            Tally::LineSetAside(failure) => {
                self.lines_set_aside += 1;
                self.failure(failure).ended += 1;
            }
            Tally::Made { flow } => {
                self.made += 1;
                named(&mut self.flows, flow).made += 1;
                self.ended();
            }
            Tally::Skipped { flow } => {
                self.skipped += 1;
                named(&mut self.flows, flow).skipped += 1;
                self.ended();
            }
            Tally::Cancelled => {
                self.cancelled += 1;
                self.ended();
            }
            Tally::Failed { flow, failure } => {
                self.failed += 1;
                named(&mut self.flows, flow).failed += 1;
                self.failure(failure).ended += 1;
                self.ended();
            }
            Tally::WillRetry(failure) => {
                self.retries += 1;
                self.failure(failure).retries += 1;
            }
            Tally::Charged { model, input_tokens, output_tokens, cost_nanos, estimated } => {
                let spent = named(&mut self.models, model);
                spent.calls += 1;
                spent.input_tokens += input_tokens;
                spent.output_tokens += output_tokens;
                spent.cost_nanos += cost_nanos;
                spent.estimated_calls += u64::from(*estimated);
            }
        }
    }

    fn ended(&mut self) {
        self.waiting = self.waiting.saturating_sub(1);
    }

    fn failure(&mut self, tally: &FailureTally) -> &mut FailureFigures {
        let kind = room_for(&self.failures, &tally.kind);
        let found = self.failures.entry(kind).or_insert_with(|| FailureFigures {
            ended: 0,
            retries: 0,
            why: tally.why.clone(),
            last_request_id: None,
        });
        found.last_request_id.clone_from(&tally.request_id);
        found
    }

    /// What all calls cost together.
    pub(crate) fn spent(&self) -> SpendFigures {
        let mut sum = SpendFigures::default();
        for spent in self.models.values() {
            sum.calls += spent.calls;
            sum.input_tokens += spent.input_tokens;
            sum.output_tokens += spent.output_tokens;
            sum.cost_nanos += spent.cost_nanos;
            sum.estimated_calls += spent.estimated_calls;
        }
        sum
    }
}

/// The name itself, or the name for the rest when there are enough names.
fn room_for<T>(figures: &BTreeMap<SharedText, T>, name: &SharedText) -> SharedText {
    match figures.contains_key(name) || figures.len() < NAMED_MAX {
        true => name.clone(),
        false => OTHER.into(),
    }
}

fn named<'a, T: Default>(figures: &'a mut BTreeMap<SharedText, T>, name: &SharedText) -> &'a mut T {
    let name = room_for(figures, name);
    figures.entry(name).or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(kind: &str) -> FailureTally {
        FailureTally { kind: kind.into(), why: "because".into(), request_id: Some("r".into()) }
    }

    #[test]
    fn requests_that_came_in_and_have_not_ended_count_as_waiting() {
        let mut figures = SessionFigures::begun("s", "serve", "t".into(), 2);
        let flow = SharedText::from("f");
        for tally in [
            Tally::Accepted { flow: flow.clone() },
            Tally::Accepted { flow: flow.clone() },
            Tally::Accepted { flow: flow.clone() },
            Tally::Duplicate,
            Tally::Rejected(failure("no such flow")),
            Tally::LineSetAside(failure("not JSON")),
            Tally::Made { flow: flow.clone() },
            Tally::WillRetry(failure("timeout")),
            Tally::Failed { flow: flow.clone(), failure: failure("timeout") },
            Tally::Cancelled,
        ] {
            figures.count(&tally);
        }
        assert_eq!(figures.waiting, 2);
        let expected = FlowFigures { accepted: 3, made: 1, skipped: 0, failed: 1 };
        assert_eq!(figures.flows[&flow], expected);
        let timeout = &figures.failures["timeout"];
        assert_eq!((timeout.ended, timeout.retries), (1, 1));
    }

    #[test]
    fn many_names_stay_within_bounds() {
        let mut figures = SessionFigures::begun("s", "serve", "t".into(), 0);
        for number in 0..1000 {
            figures.count(&Tally::Accepted { flow: format!("flow-{number}").into() });
            figures.count(&Tally::Rejected(failure(&format!("kind-{number}"))));
        }
        assert_eq!(figures.flows.len(), NAMED_MAX + 1);
        assert_eq!(figures.failures[OTHER].ended, 1000 - NAMED_MAX as u64);
    }
}
