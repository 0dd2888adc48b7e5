//! A response that is not a success: what it means, and what the user can do about it.

use std::time::Duration;

use super::error::ModelError;
use crate::contract::told::ToldFailure;
use crate::contract::vocabulary::FailureCause;

/// The code of an account with nothing left to spend, whatever the server calls it.
pub(super) const OUT_OF_QUOTA: &str = "insufficient_quota";

/// What a router says when it has the model, but no server of it that takes the whole request.
const ROUTER_FINDS_NONE: &str = "no endpoints found that";

/// A response that is not a success.
pub(super) struct Refusal {
    pub status: u16,
    /// The server's message, shortened and without secrets.
    pub words: String,
    /// The server's code for the error, where it sends one.
    pub code: String,
    /// The address that was asked, without secrets.
    pub asked: String,
    /// The address that a redirect names, without secrets.
    pub elsewhere: Option<String>,
    pub retry_after: Option<Duration>,
    /// Whether it is about the key, whatever the status says.
    pub is_about_key: bool,
    /// Whether a quota of the day is used up.
    pub is_of_day: bool,
    /// Whether it says that the prompt is too long.
    pub is_too_long: bool,
}

/// What the advice on a refusal depends on.
pub(super) struct Asked<'a> {
    pub provider: &'a str,
    /// Whether the question carried a key.
    pub(crate) has_key: bool,
    /// The environment variable that is configured to hold the key.
    pub(crate) key_env: Option<&'a str>,
    pub model: &'a str,
}

impl Refusal {
    /// What to do, in our words; only an address that the server sends is not ours.
    fn advice(&self, asked: &Asked<'_>) -> Option<ToldFailure> {
        let Asked { provider: name, has_key, key_env, model } = asked;
        let advice = match self.status {
            300..=399 => {
                let address = self.elsewhere.as_deref().unwrap_or("no address");
                return Some(ToldFailure::from("it redirects to ").and(ToldFailure::by_others(address)).and(format!(
                    "; redirects are not followed, because they would carry the key along: put the \
                     final address into provider.{name}.base_url"
                )));
            }
            status if status == 401 || self.is_about_key => match (has_key, key_env) {
                (true, Some(variable)) => {
                    format!("it refuses the key: put a valid key into {variable}")
                }
                (false, Some(variable)) => {
                    format!("no key was sent: the environment variable {variable} is not set")
                }
                (_, None) => format!(
                    "it requires a key: set provider.{name}.api_key_env to the environment variable \
                     that holds it"
                ),
            },
            402 if self.retry_after.is_none() => {
                "the account is out of credit: add credit where the key was made".to_owned()
            }
            _ if self.code == OUT_OF_QUOTA => {
                "the account has nothing left to spend: add credit, or raise its limit, where the \
                 key was made"
                    .to_owned()
            }
            403 => format!(
                "check what the key may do, and whether it may use provider.{name}.model (now \
                 {model:?})"
            ),
            404 if self.asks_too_much() => format!(
                "no server of {model:?} takes everything that the flow asks for: leave out parameters or \
                 tools of the flow, or name another model in provider.{name}.model"
            ),
            404 | 405 => format!(
                "check provider.{name}.model (now {model:?}) and provider.{name}.base_url (asked \
                 was {})",
                self.asked
            ),
            429 if self.is_of_day => "the quota of the day is used up".to_owned(),
            429 => format!("set provider.{name}.requests_per_minute to what it allows"),
            _ => return None,
        };
        Some(advice.into())
    }

    /// The status, and what the server said with it.
    pub(crate) fn said(&self) -> ToldFailure {
        let Refusal { status, words, .. } = self;
        match words.is_empty() {
            true => format!("status {status}").into(),
            false => {
                ToldFailure::from(format!("status {status}: ")).and(ToldFailure::by_others(words))
            }
        }
    }

    /// Whether the model is there, but not with everything that the request wants.
    fn asks_too_much(&self) -> bool {
        self.words.to_ascii_lowercase().contains(ROUTER_FINDS_NONE)
    }

    /// What the server objects to, as far as the status says it.
    fn cause(&self) -> FailureCause {
        match self.status {
            _ if self.code == OUT_OF_QUOTA => FailureCause::QuotaUsedUp,
            300..=399 => FailureCause::Configuration,
            401 | 403 => FailureCause::Unauthorized,
            _ if self.is_about_key => FailureCause::Unauthorized,
            402 if self.retry_after.is_some() => FailureCause::RateLimit,
            402 => FailureCause::QuotaUsedUp,
            429 if self.is_of_day => FailureCause::QuotaUsedUp,
            404 if self.asks_too_much() => FailureCause::BadRequest,
            404 | 405 => FailureCause::NotFound,
            408 => FailureCause::Timeout,
            429 => FailureCause::RateLimit,
            500..=599 => FailureCause::ServerError,
            _ => FailureCause::BadRequest,
        }
    }

    /// What the refusal means.
    pub(crate) fn judge(&self, asked: &Asked<'_>) -> ModelError {
        let provider = asked.provider.to_owned();
        let Refusal { status, words, code, retry_after, .. } = self;
        let mut reason = self.said();
        if let Some(advice) = self.advice(asked) {
            reason = reason.and("; ").and(advice);
        }
        let lower = words.to_ascii_lowercase();
        let says =
            |signs: &[&str]| signs.iter().any(|sign| lower.contains(sign) || code.contains(sign));
        let cause = self.cause();
        match status {
            _ if code == OUT_OF_QUOTA => ModelError::Permanent { provider, reason, cause },
            408 | 409 | 425 | 429 | 500..=599 => {
                ModelError::Transient { provider, reason, retry_after: *retry_after, cause }
            }
            402 if retry_after.is_some() => {
                ModelError::Transient { provider, reason, retry_after: *retry_after, cause }
            }
            // The model wrote something else than JSON, which it may not do again.
            _ if says(&["json_validate_failed"]) => ModelError::Transient {
                provider,
                reason,
                retry_after: None,
                cause: FailureCause::InvalidAnswer,
            },
            413 => ModelError::OverLimit { provider, reason },
            400 | 422 if self.is_too_long => ModelError::OverLimit { provider, reason },
            400 | 403 if says(&DECLINED) => ModelError::Refused { provider, reason },
            _ => ModelError::Permanent { provider, reason, cause },
        }
    }
}

/// Signs in a message that a guard declined the prompt.
const DECLINED: [&str; 6] = [
    "content_filter",
    "content_policy",
    "content management policy",
    "requires moderation",
    "was flagged",
    "violating our usage policy",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(status: u16, words: &str, code: &str) -> Refusal {
        Refusal {
            status,
            words: words.into(),
            code: code.into(),
            asked: "http://h/v1/x".into(),
            elsewhere: Some("http://other/".into()),
            retry_after: None,
            is_of_day: false,
            is_about_key: false,
            is_too_long: false,
        }
    }

    #[test]
    fn a_refusal_says_what_to_do() {
        for (has_key, key_env, status, expected) in [
            (true, Some("MY_KEY"), 401, "put a valid key into MY_KEY"),
            (false, Some("MY_KEY"), 401, "MY_KEY is not set"),
            (false, None, 401, "set provider.p.api_key_env to the environment variable"),
            (true, Some("MY_KEY"), 403, "provider.p.model (now \"m-1\")"),
            (true, Some("MY_KEY"), 404, "provider.p.base_url (asked was http://h/v1/x)"),
            (true, Some("MY_KEY"), 307, "it redirects to http://other/"),
        ] {
            let asked = Asked { provider: "p", has_key, key_env, model: "m-1" };
            let said = refusal(status, "no", "").judge(&asked).to_string();
            assert!(said.contains(expected) && said.contains("no"), "{status}: {said}");
        }
    }

    #[test]
    fn only_the_words_of_the_server_can_be_hidden() {
        let asked = Asked { provider: "p", has_key: true, key_env: Some("MY_KEY"), model: "m-1" };
        for status in [302, 400, 401, 403, 404, 429, 503] {
            let hidden = refusal(status, "SAID", "").judge(&asked).rewritten(&|_| "…".to_owned());
            let plain = refusal(status, "…", "").judge(&asked).to_string();
            assert_eq!(hidden.to_string(), plain.replace("http://other/", "…"), "{status}");
        }
    }

    #[test]
    fn each_status_has_a_meaning() {
        let asked = Asked { provider: "p", has_key: false, key_env: None, model: "m" };
        let judge = |status, words, code| refusal(status, words, code).judge(&asked);
        assert!(matches!(judge(503, "", ""), ModelError::Transient { .. }));
        assert!(matches!(judge(429, "", "insufficient_quota"), ModelError::Permanent { .. }));
        let long = Refusal { is_too_long: true, ..refusal(400, "", "") };
        assert!(matches!(long.judge(&asked), ModelError::OverLimit { .. }));
        assert!(matches!(judge(400, "", "content_filter"), ModelError::Refused { .. }));
        assert!(matches!(judge(302, "", ""), ModelError::Permanent { .. }));
        assert!(matches!(judge(401, "", ""), ModelError::Permanent { .. }));
    }
}
