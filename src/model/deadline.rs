//! One time limit for all the calls of a flow.

use std::time::Duration;

use super::call::ModelCall;
use super::error::ModelError;
use super::provider::Provider;
use super::reply::{ModelIdentity, ModelReply};
use crate::contract::time::Timestamp;
use crate::os::Clock;

/// What is left of the time that is allowed.
pub(super) fn time_left(allowed: Duration, begun: Timestamp, now: Timestamp) -> Duration {
    allowed.saturating_sub(Duration::from_millis(now.ms_since(begun).max(0).unsigned_abs()))
}

/// A provider whose last call ends within a time limit, however many calls are made.
pub struct Deadline<'a> {
    inner: &'a dyn Provider,
    clock: &'a dyn Clock,
    begun: Timestamp,
    allowed: Duration,
}

impl<'a> Deadline<'a> {
    /// The time counts from now.
    pub fn new(inner: &'a dyn Provider, clock: &'a dyn Clock, allowed: Duration) -> Deadline<'a> {
        Deadline { inner, clock, begun: clock.now(), allowed }
    }
}

impl Provider for Deadline<'_> {
    fn identity(&self) -> ModelIdentity {
        self.inner.identity()
    }

    fn context_tokens(&self) -> usize {
        self.inner.context_tokens()
    }

    fn context_is_known(&self) -> bool {
        self.inner.context_is_known()
    }

    fn is_free(&self) -> bool {
        self.inner.is_free()
    }

    fn call(&self, call: &ModelCall<'_>) -> Result<ModelReply, ModelError> {
        let left = time_left(self.allowed, self.begun, self.clock.now());
        if left.is_zero() {
            let provider = self.identity().provider;
            return Err(ModelError::Timeout { provider, limit: self.allowed });
        }
        self.inner.call(&ModelCall { timeout: call.timeout.min(left), ..call.clone() })
    }
}
