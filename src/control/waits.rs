//! Why an open request has not ended, and when it may continue.
//!
//! Contract: the answer follows from the state and the clock alone; it is no fact of the log. A request that
//! waits for another one also says what that one waits for. A request whose attempt is under way waits for
//! nothing, unless its call waits for its provider.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::contract::ids::{KeyIndex, Seq};
use crate::contract::time::Timestamp;
use crate::contract::vocabulary::{FailureCause, ReasonCode, spellings};
use crate::facts::session::PauseCause;
use crate::log::{ReadError, Reader};
use crate::state::{Open, Past, State, Status};

/// Requests that wait for each other and are told. A chain is not longer: a request waits for the holder of
/// its key, and that one for the maker of its item.
const CHAIN_MAX: usize = 2;

spellings! {
    /// What an open request waits for.
    WaitsFor {
        /// Its `not_before` has not come.
        NotBefore "not_before",
        /// The delay after a failed attempt.
        NextAttempt "next_attempt",
        /// The budget of the next day, or a higher one.
        Budget "budget",
        /// The answer of a batch.
        Batch "batch",
        /// The outcome of a request with the same key.
        KeyInFlight "key_in_flight",
        /// The outcome of a request that makes the same summary.
        IdenticalWork "identical_work",
        /// The end of a pause.
        Paused "paused",
        /// A process that works on the queue.
        NoService "no_service",
        /// Other requests, or a free worker.
        Turn "turn",
        /// Its provider takes no call yet.
        Provider "provider",
    }
}

/// Calls that wait before they are sent, by their request: until when, and why.
pub(crate) type WaitingCalls = BTreeMap<Seq, (Timestamp, String)>;

/// What one request waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Waits {
    what: WaitsFor,
    next: Option<Timestamp>,
    /// What the last attempt met.
    met: (Option<ReasonCode>, Option<FailureCause>),
    pauses: Vec<PauseCause>,
    /// Why a call waits, in the words of its provider.
    call: Option<String>,
    behind: Option<(Seq, Option<Box<Waits>>)>,
}

/// What a request waits for, with the requests before it. `None`: an attempt is under way.
pub(super) fn waits_of<P: Past>(
    state: &State,
    past: &P,
    about: (Seq, &Open),
    calls: &WaitingCalls,
    now: Timestamp,
) -> Result<Option<Waits>, P::Error> {
    behind(state, past, about, calls, now, CHAIN_MAX)
}

fn behind<P: Past>(
    state: &State,
    past: &P,
    (request, open): (Seq, &Open),
    calls: &WaitingCalls,
    now: Timestamp,
    chain: usize,
) -> Result<Option<Waits>, P::Error> {
    let own = own_wait(state, (request, open), calls, now);
    let holder = match open.row.status {
        Status::Parked => state.find(past, KeyIndex::Idempotency, &open.key)?,
        Status::Held => Some(state.makes_the_outcome(request)),
        _ => None,
    };
    let Some(holder) = holder.filter(|holder| *holder != request && chain > 0) else {
        return Ok(own);
    };
    let Some(of) = state.open_request(holder) else { return Ok(own) };
    let of = behind(state, past, (holder, of), calls, now, chain - 1)?;
    Ok(own.map(|own| Waits {
        next: of.as_ref().and_then(|of| of.next),
        behind: Some((holder, of.map(Box::new))),
        ..own
    }))
}

/// What a request waits for, without a look at the requests before it.
pub(super) fn own_wait(
    state: &State,
    (request, open): (Seq, &Open),
    calls: &WaitingCalls,
    now: Timestamp,
) -> Option<Waits> {
    let row = &open.row;
    let of = |what, next| Waits {
        what,
        next,
        met: (row.reason, row.cause),
        pauses: Vec::new(),
        call: None,
        behind: None,
    };
    let works = state.session().is_some();
    let later = Some(open.eligible_at).filter(|at| *at > now);
    match (row.status, row.cause, later) {
        (Status::Parked, ..) => Some(of(WaitsFor::KeyInFlight, None)),
        (Status::Held, ..) => Some(of(WaitsFor::IdenticalWork, None)),
        (Status::Running, ..) if works => {
            let (until, why) = calls.get(&request).filter(|(until, _)| *until > now)?;
            Some(Waits { call: Some(why.clone()), ..of(WaitsFor::Provider, Some(*until)) })
        }
        (Status::Backoff, Some(FailureCause::Budget), Some(_)) => Some(of(WaitsFor::Budget, later)),
        (Status::Backoff, Some(FailureCause::Batch), Some(_)) => Some(of(WaitsFor::Batch, later)),
        (Status::Backoff, _, Some(_)) => Some(of(WaitsFor::NextAttempt, later)),
        (Status::Waiting, _, Some(_)) => Some(of(WaitsFor::NotBefore, later)),
        _ if !state.paused().is_empty() => {
            let pauses = state.paused().iter().copied().collect();
            Some(Waits { pauses, ..of(WaitsFor::Paused, None) })
        }
        _ if works => Some(of(WaitsFor::Turn, None)),
        _ => Some(of(WaitsFor::NoService, None)),
    }
}

impl WaitsFor {
    /// Whether a request is merely early: nothing went wrong.
    pub(crate) fn is_merely_early(self) -> bool {
        matches!(
            self,
            WaitsFor::NotBefore | WaitsFor::Paused | WaitsFor::NoService | WaitsFor::Provider
        )
    }

    /// The kind of wait that an answer tells.
    pub(crate) fn of(wait: &Value) -> Option<WaitsFor> {
        WaitsFor::parse(wait["for"].as_str()?)
    }
}

impl Waits {
    /// The kind of wait and its next time, for sums over many requests.
    pub(super) fn kind(&self) -> (WaitsFor, Option<Timestamp>) {
        (self.what, self.next)
    }

    /// The wait with the ids of other requests, which only the log has.
    pub(super) fn told(&self, log: &Reader) -> Result<Value, ReadError> {
        let behind = match &self.behind {
            Some((request, _)) => log.event(*request)?,
            None => None,
        };
        let behind = behind.as_ref().and_then(|event| event.taken());
        let behind = behind.map(|taken| taken.head.request_id.clone());
        Ok(json!({
            "for": self.what, "message": self.message(log)?, "behind": behind,
            "next": self.next.map(|at| at.to_string()),
        }))
    }

    fn message(&self, log: &Reader) -> Result<String, ReadError> {
        let own = match (&self.what, &self.behind) {
            (WaitsFor::KeyInFlight | WaitsFor::IdenticalWork, Some((request, of))) => {
                let event = log.event(*request)?;
                let taken = event.as_ref().and_then(|event| event.taken());
                let name = taken.map_or("another request", |taken| &taken.head.request_id);
                let same = if self.what == WaitsFor::KeyInFlight { "key" } else { "work" };
                let it = format!("it waits for {name}, which has the same {same}");
                return Ok(match of {
                    Some(of) => format!("{it}; {name}: {}", of.message(log)?),
                    None => it,
                });
            }
            _ => self.own_message(),
        };
        Ok(match self.next {
            Some(at) => format!("{own}; next: {at}"),
            None => own,
        })
    }

    fn own_message(&self) -> String {
        let plain = |word: &str| word.replace('_', " ");
        match self.what {
            WaitsFor::NotBefore => "its `not_before` has not come".to_owned(),
            WaitsFor::NextAttempt => {
                let (reason, cause) = self.met;
                let met = cause.map(FailureCause::as_str).or(reason.map(ReasonCode::as_str));
                match met {
                    Some(met) => format!("an attempt failed ({})", plain(met)),
                    None => "an attempt failed".to_owned(),
                }
            }
            WaitsFor::Budget => "the budget of the day is used up".to_owned(),
            WaitsFor::Batch => "its answer comes with a batch".to_owned(),
            WaitsFor::KeyInFlight | WaitsFor::IdenticalWork => {
                "it waits for another request".to_owned()
            }
            WaitsFor::Paused => {
                let causes: Vec<String> =
                    self.pauses.iter().map(|cause| plain(cause.as_str())).collect();
                format!("the service is paused ({})", causes.join(", "))
            }
            WaitsFor::NoService => "no process works on the queue".to_owned(),
            WaitsFor::Turn => "other requests go first, or no worker is free".to_owned(),
            WaitsFor::Provider => self.call.clone().unwrap_or_default(),
        }
    }
}
