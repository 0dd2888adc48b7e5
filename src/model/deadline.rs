//! One time limit for all the calls of a flow. It counts the time in which nothing arrives.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::call::{Listener, ModelCall, RightOfWay};
use super::ending::CallEnd;
use super::error::ModelError;
use super::provider::Provider;
use super::reply::{ModelIdentity, ModelReply};
use crate::contract::ids::Seq;
use crate::contract::time::Timestamp;
use crate::os::Clock;

/// What is left of the time that is allowed.
pub(super) fn time_left(allowed: Duration, begun: Timestamp, now: Timestamp) -> Duration {
    allowed.saturating_sub(Duration::from_millis(now.ms_since(begun).max(0).unsigned_abs()))
}

/// A time that begins again with each part of an answer.
pub(super) struct Alive<'a> {
    since: Mutex<Timestamp>,
    clock: &'a dyn Clock,
}

impl<'a> Alive<'a> {
    pub(super) fn new(clock: &'a dyn Clock) -> Alive<'a> {
        Alive { since: Mutex::new(clock.now()), clock }
    }

    /// What is left of the time that is allowed.
    pub(super) fn left_of(&self, allowed: Duration) -> Duration {
        time_left(allowed, *self.since.lock(), self.clock.now())
    }

    /// A listener that lets the time begin again and passes on what it hears.
    pub(super) fn listening(&'a self, to: Option<&'a dyn Listener>) -> Listening<'a> {
        Listening { alive: self, to }
    }
}

pub(super) struct Listening<'a> {
    alive: &'a Alive<'a>,
    to: Option<&'a dyn Listener>,
}

impl Listener for Listening<'_> {
    fn heard(&self, text: &str) -> bool {
        *self.alive.since.lock() = self.alive.clock.now();
        self.to.is_none_or(|to| to.heard(text))
    }

    fn right_of_way(&self) -> RightOfWay {
        self.to.map_or(RightOfWay::First, Listener::right_of_way)
    }

    fn end(&self) -> Option<&Arc<CallEnd>> {
        self.to.and_then(Listener::end)
    }

    fn read_elsewhere(&self, call: &ModelCall<'_>) -> Option<Result<ModelReply, ModelError>> {
        self.to.and_then(|to| to.read_elsewhere(call))
    }

    fn batch_for(&self) -> Option<Seq> {
        self.to.and_then(Listener::batch_for)
    }
}

/// A provider whose last call ends within a time limit, however many calls are made.
pub(crate) struct Deadline<'a> {
    inner: &'a dyn Provider,
    alive: Alive<'a>,
    allowed: Duration,
}

impl<'a> Deadline<'a> {
    /// The time counts from now.
    pub(crate) fn new(
        inner: &'a dyn Provider,
        clock: &'a dyn Clock,
        allowed: Duration,
    ) -> Deadline<'a> {
        Deadline { inner, alive: Alive::new(clock), allowed }
    }
}

impl Provider for Deadline<'_> {
    fn inner(&self) -> Option<&dyn Provider> {
        Some(self.inner)
    }

    fn identity(&self) -> ModelIdentity {
        self.inner.identity()
    }

    fn context_tokens(&self) -> usize {
        self.inner.context_tokens()
    }

    fn call(&self, call: &ModelCall<'_>) -> Result<ModelReply, ModelError> {
        let left = self.alive.left_of(self.allowed);
        if left.is_zero() {
            let provider = self.identity().provider;
            return Err(ModelError::Timeout { provider, limit: self.allowed });
        }
        let (timeout, listening) = (call.timeout.min(left), self.alive.listening(call.listener));
        self.inner.call(&ModelCall { timeout, listener: Some(&listening), ..call.clone() })
    }
}
