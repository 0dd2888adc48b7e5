//! Why a model gave no answer, and what to do about it.

use std::time::Duration;

/// Why there is no answer. No message holds a key or the text of a prompt, so each is safe to log.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ModelError {
    /// The provider asked for a pause, or a rate limit or the circuit breaker demands one. Waiting
    /// uses no attempt.
    #[error("wait for {provider}: {reason}")]
    Paused { provider: String, reason: String, retry_after: Duration },
    /// A later try may succeed.
    #[error("reach {provider}: {reason}")]
    Transient {
        provider: String,
        reason: String,
        /// The pause that the provider asked for, if it did.
        retry_after: Option<Duration>,
    },
    /// No answer within the time allowed.
    #[error(
        "wait for {provider}: no answer within {} s; workers.attempt_timeout limits one attempt",
        limit.as_secs_f64()
    )]
    Timeout { provider: String, limit: Duration },
    /// The same question will fail again.
    #[error("ask {provider}: {reason}")]
    Permanent { provider: String, reason: String },
    /// The model or its guard declined to answer.
    #[error("ask {provider}: declined: {reason}")]
    Refused { provider: String, reason: String },
    /// The conversation does not fit the model.
    #[error("ask {provider}: the prompt does not fit: {reason}")]
    OverLimit { provider: String, reason: String },
    /// The day's budget is spent. Nothing was sent.
    #[error("stay within the budget: {reason}")]
    Budget {
        reason: String,
        /// Time until the next day begins.
        retry_after: Duration,
    },
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
    pub fn class(&self) -> ErrorClass {
        match self {
            ModelError::Paused { .. } | ModelError::Budget { .. } => ErrorClass::Pause,
            ModelError::Transient { .. } | ModelError::Timeout { .. } => ErrorClass::Transient,
            ModelError::Permanent { .. } => ErrorClass::Permanent,
            ModelError::Refused { .. } => ErrorClass::Refused,
            ModelError::OverLimit { .. } => ErrorClass::OverLimit,
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
