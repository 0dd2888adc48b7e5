//! Why a model gave no answer, and what to do about it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::contract::told::ToldFailure;
use crate::contract::vocabulary::FailureCause;

/// Why there is no answer. No message holds a key or the text of a prompt, so each is safe to log.
#[derive(Debug, Clone, PartialEq, thiserror::Error, Serialize, Deserialize)]
pub enum ModelError {
    /// The provider asked for a pause, or a rate limit or the circuit breaker demands one. Waiting
    /// uses no attempt.
    #[error("wait for {provider}: {reason}")]
    Paused {
        provider: String,
        reason: ToldFailure,
        retry_after: Duration,
        /// What the provider did before it was left alone, or the limit that holds the call back.
        cause: FailureCause,
    },
    /// A later attempt may succeed.
    #[error("reach {provider}: {reason}")]
    Transient {
        provider: String,
        reason: ToldFailure,
        /// The pause that the provider asked for, if it did.
        retry_after: Option<Duration>,
        cause: FailureCause,
    },
    /// No answer within the time allowed.
    #[error(
        "wait for {provider}: no answer within {} s; workers.attempt_timeout limits one attempt",
        shown_seconds(*limit)
    )]
    Timeout { provider: String, limit: Duration },
    /// The same question will fail again.
    #[error("ask {provider}: {reason}")]
    Permanent { provider: String, reason: ToldFailure, cause: FailureCause },
    /// The model or its guard declined to answer.
    #[error("ask {provider}: the model declined to answer: {reason}")]
    Refused { provider: String, reason: ToldFailure },
    /// The conversation does not fit the model.
    #[error("ask {provider}: the prompt does not fit: {reason}")]
    OverLimit { provider: String, reason: ToldFailure },
    /// The day's budget is spent. Nothing was sent.
    #[error("stay within the budget: {reason}")]
    Budget {
        reason: ToldFailure,
        /// Time until the next day begins.
        retry_after: Duration,
    },
}

/// A duration in seconds, with one digit after the point where it is needed.
fn shown_seconds(limit: Duration) -> f64 {
    (limit.as_secs_f64() * 10.0).round() / 10.0
}

/// What to do about a [`ModelError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorClass {
    /// Wait, then ask again; no attempt is used.
    Pause,
    /// Ask again later; an attempt is used.
    Transient,
    /// Give up.
    Permanent,
    /// Give up: the model declines.
    Refused,
    /// Split the input or give up.
    OverLimit,
}

impl ModelError {
    /// The same error with other words in the place of those of others.
    pub(crate) fn rewritten(mut self, rewritten: &dyn Fn(&str) -> String) -> ModelError {
        if let Some(reason) = self.reason_mut() {
            reason.rewrite(rewritten);
        }
        self
    }

    /// What it says beside the words of its kind; `None` where it has no other words.
    fn reason_mut(&mut self) -> Option<&mut ToldFailure> {
        match self {
            ModelError::Paused { reason, .. }
            | ModelError::Transient { reason, .. }
            | ModelError::Permanent { reason, .. }
            | ModelError::Refused { reason, .. }
            | ModelError::OverLimit { reason, .. }
            | ModelError::Budget { reason, .. } => Some(reason),
            ModelError::Timeout { .. } => None,
        }
    }

    pub fn class(&self) -> ErrorClass {
        match self {
            ModelError::Paused { .. } | ModelError::Budget { .. } => ErrorClass::Pause,
            ModelError::Transient { .. } | ModelError::Timeout { .. } => ErrorClass::Transient,
            ModelError::Permanent { .. } => ErrorClass::Permanent,
            ModelError::Refused { .. } => ErrorClass::Refused,
            ModelError::OverLimit { .. } => ErrorClass::OverLimit,
        }
    }

    /// The service ends, and a call did not begin.
    pub(super) fn ends(provider: String) -> ModelError {
        ModelError::Paused {
            provider,
            reason: "no new call begins, because the service ends".into(),
            retry_after: Duration::ZERO,
            cause: FailureCause::RateLimit,
        }
    }

    /// Whether the answer comes with a batch.
    pub(crate) fn waits_for_batch(&self) -> bool {
        matches!(self, ModelError::Paused { cause: FailureCause::Batch, .. })
    }

    /// Whether the provider gets no calls for a time because many failed.
    pub(crate) fn is_of_a_provider_left_alone(&self) -> bool {
        matches!(self, ModelError::Paused { .. })
            && !self.keeps_to_a_limit()
            && !self.waits_for_batch()
    }

    /// Whether it is a pause that a limit asks for. A provider that is left alone because it failed, and an
    /// answer that comes with a batch, are no such pauses.
    pub(crate) fn keeps_to_a_limit(&self) -> bool {
        matches!(self, ModelError::Budget { .. })
            || matches!(
                self,
                ModelError::Paused { cause: FailureCause::RateLimit | FailureCause::Budget, .. }
            )
    }

    pub fn cause(&self) -> FailureCause {
        match self {
            ModelError::Paused { cause, .. }
            | ModelError::Transient { cause, .. }
            | ModelError::Permanent { cause, .. } => *cause,
            ModelError::Timeout { .. } => FailureCause::Timeout,
            ModelError::Refused { .. } => FailureCause::Declined,
            ModelError::OverLimit { .. } => FailureCause::ContextTooLong,
            ModelError::Budget { .. } => FailureCause::Budget,
        }
    }

    /// What went wrong, without the name of the provider.
    pub(super) fn words(&self) -> ToldFailure {
        match self {
            ModelError::Timeout { limit, .. } => {
                format!("no answer within {} s", shown_seconds(*limit)).into()
            }
            ModelError::Paused { reason, .. }
            | ModelError::Transient { reason, .. }
            | ModelError::Permanent { reason, .. }
            | ModelError::Refused { reason, .. }
            | ModelError::OverLimit { reason, .. }
            | ModelError::Budget { reason, .. } => reason.clone(),
        }
    }

    /// The same error, which also says why the other members of a chain gave no answer.
    pub(super) fn beside(mut self, others: &[ModelError]) -> ModelError {
        let ours = self.words();
        if let Some(reason) = self.reason_mut() {
            for other in others.iter().filter(|other| other.words() != ours) {
                let more =
                    ToldFailure::from(format!("; {}: ", other.provider())).and(other.words());
                *reason = std::mem::take(reason).and(more);
            }
        }
        self
    }

    fn provider(&self) -> &str {
        match self {
            ModelError::Paused { provider, .. }
            | ModelError::Transient { provider, .. }
            | ModelError::Permanent { provider, .. }
            | ModelError::Refused { provider, .. }
            | ModelError::OverLimit { provider, .. }
            | ModelError::Timeout { provider, .. } => provider,
            ModelError::Budget { .. } => "the budget",
        }
    }

    /// How long to wait before asking again, when known.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            ModelError::Paused { retry_after, .. } | ModelError::Budget { retry_after, .. } => {
                Some(*retry_after)
            }
            ModelError::Transient { retry_after, .. } => *retry_after,
            _ => None,
        }
    }
}
