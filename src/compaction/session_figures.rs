//! What a session of the service did, in figures: what came in, what was made, what failed and why,
//! what it cost, what waits.
//!
//! Contract: a fold over what the log says, in its order. The size is bounded: a session with more
//! flows, models or kinds of failures than are named adds the rest up under one name.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::text::SharedText;
use crate::contract::time::Timestamp;

/// Most flows, models, kinds of failures and waiting requests that are named.
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
    #[serde(flatten)]
    pub counts: Counts,
    /// Requests that had not ended, also those of earlier sessions.
    pub waiting: u64,
    pub flows: BTreeMap<SharedText, FlowFigures>,
    /// Failures by what they have in common.
    pub failures: BTreeMap<SharedText, FailureFigures>,
    /// Calls by provider and model.
    pub models: BTreeMap<SharedText, SpendFigures>,
    /// Summaries made, by what they summarize.
    #[serde(default)]
    pub kinds: BTreeMap<SharedText, u64>,
    /// The oldest requests that had not ended, the oldest first. All that are not here came in later: a
    /// request that meets a full list, or comes behind one that met it, only counts as waiting.
    #[serde(default)]
    pub waiting_requests: Vec<WaitingRequest>,
    /// The day so far, over all sessions.
    #[serde(default)]
    pub day: DayFigures,
}

/// What came in, and how it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Counts {
    /// Requests taken in.
    pub accepted: u64,
    /// Requests whose summary existed already when they came in.
    pub duplicates: u64,
    pub rejected: u64,
    /// Queue lines that are no requests.
    pub lines_set_aside: u64,
    /// Summaries made.
    pub made: u64,
    /// Those of them that are private. No snapshot names them or what they were made from.
    #[serde(default)]
    pub private: u64,
    pub skipped: u64,
    pub cancelled: u64,
    /// Requests that waited for the summary of another request and got it.
    #[serde(default)]
    pub shared: u64,
    /// Requests that ended without a summary.
    pub failed: u64,
    /// Attempts that failed and are followed by another.
    pub retries: u64,
}

impl Counts {
    fn count(&mut self, tally: &Tally) {
        self.private += u64::from(matches!(tally, Tally::Made { is_private: true, .. }));
        let figure = match tally {
            Tally::Accepted { .. } => &mut self.accepted,
            Tally::Duplicate => &mut self.duplicates,
            Tally::GotAnothers { .. } => &mut self.shared,
            Tally::Rejected(_) => &mut self.rejected,
            Tally::LineSetAside(_) => &mut self.lines_set_aside,
            Tally::Made { .. } => &mut self.made,
            Tally::Skipped { .. } => &mut self.skipped,
            Tally::Cancelled { .. } => &mut self.cancelled,
            Tally::Failed { .. } => &mut self.failed,
            Tally::WillRetry { .. } => &mut self.retries,
            Tally::Waits { .. } | Tally::Charged { .. } => return,
        };
        *figure += 1;
    }

    /// Requests that ended, however they did.
    pub(crate) fn ended(&self) -> u64 {
        self.made + self.skipped + self.cancelled + self.shared + self.failed
    }
}

/// A request that had not ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitingRequest {
    /// The record of the log that took it in.
    pub record: u64,
    pub request_id: SharedText,
    pub flow: SharedText,
    pub since: SharedText,
    /// The earliest time at which the request continues, when it is known.
    pub until: Option<SharedText>,
    pub why: SharedText,
}

/// The totals of all sessions of one day.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct DayFigures {
    /// In UTC.
    pub day: SharedText,
    pub sessions: u64,
    #[serde(flatten)]
    pub counts: Counts,
    pub calls: u64,
    pub cost_nanos: u64,
    /// Failures by what they have in common.
    #[serde(default)]
    pub failures: BTreeMap<SharedText, FailureFigures>,
}

impl DayFigures {
    /// The figures of a day before its first event.
    fn of(at: Timestamp) -> DayFigures {
        let day = at.day_in(chrono_tz::UTC).to_string().into();
        DayFigures { day, sessions: 1, ..DayFigures::default() }
    }

    fn count(&mut self, tally: &Tally) {
        self.counts.count(tally);
        count_failure(&mut self.failures, tally);
        if let Tally::Charged { cost_nanos, .. } = tally {
            self.calls += 1;
            self.cost_nanos += cost_nanos;
        }
    }
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
    /// The flow of the last request, when it is known.
    #[serde(default)]
    pub last_flow: Option<SharedText>,
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
        request: WaitingRequest,
    },
    /// A new request whose summary exists already.
    Duplicate,
    /// A request that waited for the summary of another and got it.
    GotAnothers {
        record: u64,
    },
    Rejected(FailureTally),
    LineSetAside(FailureTally),
    Made {
        record: u64,
        flow: SharedText,
        kind: SharedText,
        is_private: bool,
    },
    Skipped {
        record: u64,
        flow: SharedText,
    },
    Cancelled {
        record: u64,
    },
    Failed {
        record: u64,
        flow: SharedText,
        failure: FailureTally,
    },
    WillRetry {
        record: u64,
        until: SharedText,
        failure: FailureTally,
    },
    /// A request waits for another reason than before.
    Waits {
        record: u64,
        until: Option<SharedText>,
        why: SharedText,
    },
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
    pub flow: Option<SharedText>,
    pub request_id: Option<SharedText>,
}

impl SessionFigures {
    /// The figures of a session that begins now, after another.
    pub(crate) fn begun(
        session_id: &str,
        command: &str,
        at: Timestamp,
        before: &SessionFigures,
    ) -> SessionFigures {
        let mut day = DayFigures::of(at);
        if before.day.day == day.day {
            day = DayFigures { sessions: before.day.sessions + 1, ..before.day.clone() };
        }
        SessionFigures {
            session_id: session_id.into(),
            command: command.into(),
            began_at: at.to_string().into(),
            waiting: before.waiting,
            waiting_requests: before.waiting_requests.clone(),
            day,
            ..SessionFigures::default()
        }
    }

    /// Takes in the next thing.
    pub(crate) fn count(&mut self, tally: &Tally, at: Timestamp) {
        let day = DayFigures::of(at);
        if self.day.day != day.day {
            self.day = day;
        }
        self.day.count(tally);
        self.counts.count(tally);
        count_failure(&mut self.failures, tally);
        match tally {
            Tally::Accepted { request } => {
                named(&mut self.flows, &request.flow).accepted += 1;
                let named = self.waiting_requests.len();
                if named < NAMED_MAX && named as u64 == self.waiting {
                    self.waiting_requests.push(request.clone());
                }
                self.waiting += 1;
            }
            Tally::Duplicate => {}
            Tally::GotAnothers { record } | Tally::Cancelled { record } => self.ended(*record),
            Tally::Rejected(_) | Tally::LineSetAside(_) => {}
            Tally::Made { record, flow, kind, .. } => {
                named(&mut self.flows, flow).made += 1;
                *named(&mut self.kinds, kind) += 1;
                self.ended(*record);
            }
            Tally::Skipped { record, flow } => {
                named(&mut self.flows, flow).skipped += 1;
                self.ended(*record);
            }
            Tally::Failed { record, flow, .. } => {
                named(&mut self.flows, flow).failed += 1;
                self.ended(*record);
            }
            Tally::WillRetry { record, until, failure } => {
                self.waits(*record, Some(until.clone()), &failure.why);
            }
            Tally::Waits { record, until, why } => self.waits(*record, until.clone(), why),
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

    fn waits(&mut self, record: u64, until: Option<SharedText>, why: &SharedText) {
        if let Some(held) = self.waiting_requests.iter_mut().find(|held| held.record == record) {
            (held.until, held.why) = (until, why.clone());
        }
    }

    fn ended(&mut self, record: u64) {
        self.waiting = self.waiting.saturating_sub(1);
        self.waiting_requests.retain(|held| held.record != record);
    }

    /// Requests that waited when the session began.
    pub(crate) fn waited_before(&self) -> u64 {
        (self.waiting + self.counts.ended()).saturating_sub(self.counts.accepted)
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

/// Counts what failed, under its kind.
fn count_failure(failures: &mut BTreeMap<SharedText, FailureFigures>, tally: &Tally) {
    let (failure, again) = match tally {
        Tally::Rejected(failure) | Tally::LineSetAside(failure) => (failure, false),
        Tally::Failed { failure, .. } => (failure, false),
        Tally::WillRetry { failure, .. } => (failure, true),
        _ => return,
    };
    let kind = room_for(failures, &failure.kind);
    let found = failures.entry(kind).or_insert_with(|| FailureFigures {
        ended: 0,
        retries: 0,
        why: failure.why.clone(),
        last_flow: None,
        last_request_id: None,
    });
    match again {
        true => found.retries += 1,
        false => found.ended += 1,
    }
    found.last_flow.clone_from(&failure.flow);
    found.last_request_id.clone_from(&failure.request_id);
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
        FailureTally {
            kind: kind.into(),
            why: "because".into(),
            flow: Some("f".into()),
            request_id: Some("r".into()),
        }
    }

    fn request(record: u64, flow: &str) -> Tally {
        let request = WaitingRequest {
            record,
            request_id: format!("r-{record}").into(),
            flow: flow.into(),
            since: "t".into(),
            until: None,
            why: "its turn".into(),
        };
        Tally::Accepted { request }
    }

    fn made(record: u64) -> Tally {
        Tally::Made { record, flow: "f".into(), kind: "document".into(), is_private: false }
    }

    const NOON: Timestamp = Timestamp(1_773_662_400_000);
    const NEXT_DAY: Timestamp = Timestamp(1_773_662_400_000 + 86_400_000);

    #[test]
    fn requests_that_came_in_and_have_not_ended_count_as_waiting() {
        let mut earlier = SessionFigures::default();
        earlier.count(&request(8, "f"), NOON);
        earlier.count(&request(9, "f"), NOON);
        let mut figures = SessionFigures::begun("s", "serve", NOON, &earlier);
        let flow = SharedText::from("f");
        for tally in [
            request(1, "f"),
            request(2, "f"),
            request(3, "f"),
            Tally::Duplicate,
            Tally::Rejected(failure("no such flow")),
            Tally::LineSetAside(failure("not JSON")),
            made(1),
            Tally::WillRetry { record: 2, until: "soon".into(), failure: failure("timeout") },
            Tally::Failed { record: 3, flow: flow.clone(), failure: failure("timeout") },
            Tally::Cancelled { record: 9 },
        ] {
            figures.count(&tally, NOON);
        }
        assert_eq!(figures.waiting, 2);
        let [earlier, waits] = &figures.waiting_requests[..] else { panic!("{figures:?}") };
        assert_eq!((&*earlier.request_id, &*earlier.why), ("r-8", "its turn"));
        assert_eq!((&*waits.request_id, &*waits.why), ("r-2", "because"));
        assert_eq!(waits.until.as_deref(), Some("soon"));
        let expected = FlowFigures { accepted: 3, made: 1, skipped: 0, failed: 1 };
        assert_eq!(figures.flows[&flow], expected);
        let timeout = &figures.failures["timeout"];
        assert_eq!((timeout.ended, timeout.retries), (1, 1));
    }

    #[test]
    fn a_day_is_summed_up_over_its_sessions() {
        let mut first = SessionFigures::begun("a", "drain", NOON, &SessionFigures::default());
        first.count(&request(1, "f"), NOON);
        first.count(&made(1), NOON);
        let mut second = SessionFigures::begun("b", "drain", NOON, &first);
        second.count(&request(2, "f"), NOON);
        second.count(&made(2), NOON);
        assert_eq!((second.counts.made, second.day.counts.made, second.day.sessions), (1, 2, 2));
        second.count(&request(3, "f"), NEXT_DAY);
        assert_eq!(
            (second.day.counts.made, second.day.counts.accepted, second.day.sessions),
            (0, 1, 1)
        );
        second.count(&Tally::Rejected(failure("no such flow")), NEXT_DAY);
        let third = SessionFigures::begun("c", "drain", NEXT_DAY, &second);
        assert_eq!(third.failures.len(), 0);
        let failed = &third.day.failures["no such flow"];
        assert_eq!(
            (failed.ended, &*failed.why),
            (1, "because"),
            "the day knows what failed and why"
        );
        assert_eq!((third.day.counts.accepted, third.day.sessions), (1, 2));
    }

    #[test]
    fn the_named_requests_are_the_oldest_that_wait() {
        let mut figures = SessionFigures::begun("s", "serve", NOON, &SessionFigures::default());
        let mut waiting = std::collections::BTreeSet::new();
        let mut is_true = |figures: &mut SessionFigures, tally: Tally| {
            match &tally {
                Tally::Accepted { request } => _ = waiting.insert(request.record),
                Tally::Made { record, .. } => _ = waiting.remove(record),
                _ => {}
            }
            figures.count(&tally, NOON);
            let named: Vec<u64> = figures.waiting_requests.iter().map(|one| one.record).collect();
            let oldest: Vec<u64> = waiting.iter().copied().take(named.len()).collect();
            assert_eq!((named, figures.waiting), (oldest, waiting.len() as u64));
        };
        let many = NAMED_MAX as u64 + 6;
        (0..many).for_each(|record| is_true(&mut figures, request(record, "f")));
        (0..9).for_each(|record| is_true(&mut figures, made(record)));
        is_true(&mut figures, request(many, "f"));
        (9..=many).for_each(|record| is_true(&mut figures, made(record)));
        is_true(&mut figures, request(many + 1, "f"));
        assert_eq!(figures.waiting_requests.len(), 1);
    }

    #[test]
    fn counts_stand_flat_in_a_snapshot() {
        let figures = SessionFigures::begun("s", "serve", NOON, &SessionFigures::default());
        let value = serde_json::to_value(&figures).unwrap();
        assert_eq!((&value["made"], &value["day"]["made"]), (&0.into(), &0.into()));
        assert_eq!(serde_json::from_value::<SessionFigures>(value).unwrap(), figures);
    }

    #[test]
    fn many_names_stay_within_bounds() {
        let mut figures = SessionFigures::begun("s", "serve", NOON, &SessionFigures::default());
        for number in 0..1000 {
            figures.count(&request(number, &format!("flow-{number}")), NOON);
            figures.count(&Tally::Rejected(failure(&format!("kind-{number}"))), NOON);
        }
        assert_eq!(figures.flows.len(), NAMED_MAX + 1);
        assert_eq!(figures.waiting_requests.len(), NAMED_MAX);
        assert_eq!(figures.failures[OTHER].ended, 1000 - NAMED_MAX as u64);
    }
}
