//! One JSON question over HTTP, and what every failure means.
//!
//! Contract: connections are reused; redirects are never followed (they would carry the key along);
//! no proxy is used unless none is asked for; the whole exchange ends within the time limit; the body
//! is bounded. An error text is short, holds neither key nor prompt, and says whether trying again
//! can help.

use std::fmt;
use std::io::ErrorKind;
use std::time::Duration;

use serde_json::Value;
use ureq::Agent;

use super::ModelError;

/// Most bytes of a response.
const BODY_BYTES_MAX: u64 = 16 << 20;
/// Longest wait for a connection.
const CONNECT_MAX: Duration = Duration::from_secs(10);
/// Longest pause a server can ask for.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(3600);
/// How much of a server's own words is repeated.
const WORDS_MAX: usize = 200;

/// A key that never shows itself.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Keeps a key.
    pub fn new(key: impl Into<String>) -> Secret {
        Secret(key.into())
    }

    /// The key, for the one header that carries it.
    pub(super) fn expose(&self) -> &str {
        &self.0
    }

    /// A text in which the key does not occur.
    pub(super) fn hide_in(&self, text: &str) -> String {
        if self.0.is_empty() { text.to_owned() } else { text.replace(&self.0, "[key]") }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[key]")
    }
}

/// A server that is asked in JSON.
#[derive(Debug)]
pub(super) struct Endpoint {
    agent: Agent,
    pub provider: String,
    pub url: String,
    pub key: Option<Secret>,
}

/// A response that is not a success.
pub(super) struct Refusal {
    pub status: u16,
    /// What the server says, shortened, the key hidden.
    pub words: String,
    /// Its code for the error, where it has one.
    pub code: String,
    retry_after: Option<Duration>,
}

/// Success with a JSON body, or a refusal.
pub(super) type Reply = Result<Value, Refusal>;

impl Endpoint {
    pub fn new(provider: &str, url: String, key: Option<Secret>) -> Endpoint {
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .proxy(None)
            .timeout_connect(Some(CONNECT_MAX))
            .max_idle_connections_per_host(16)
            .user_agent(concat!("summarizer/", env!("CARGO_PKG_VERSION")))
            .build();
        Endpoint { agent: Agent::new_with_config(config), provider: provider.to_owned(), url, key }
    }

    pub fn post(
        &self,
        body: &Value,
        headers: &[(&str, String)],
        timeout: Duration,
    ) -> Result<Reply, ModelError> {
        let mut request = self.agent.post(&self.url).config().timeout_global(Some(timeout)).build();
        request = request.header("content-type", "application/json");
        for (name, value) in headers {
            request = request.header(*name, value);
        }
        let sent = request.send(body.to_string().as_bytes());
        let mut response = sent.map_err(|error| self.failed(&error, timeout))?;
        let status = response.status().as_u16();
        let header = |name: &str| {
            response.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned)
        };
        let retry_after =
            header("retry-after").and_then(|text| pause(&text, header("date").as_deref()));
        let body = response.body_mut().with_config().limit(BODY_BYTES_MAX).read_to_vec();
        let body = self.without_key(body.map_err(|error| self.failed(&error, timeout))?);
        if (200..300).contains(&status) {
            return serde_json::from_slice(&body)
                .map(Ok)
                .map_err(|_| self.transient("the response is not JSON".to_owned(), None));
        }
        let (words, code) = self.words(&body);
        Ok(Err(Refusal { status, words, code, retry_after }))
    }

    /// A server that repeats the key must not bring it into answers and records.
    fn without_key(&self, body: Vec<u8>) -> Vec<u8> {
        let Some(key) = &self.key else { return body };
        let key = key.expose().as_bytes();
        if key.is_empty() || memchr::memmem::find(&body, key).is_none() {
            return body;
        }
        let mut clean = Vec::with_capacity(body.len());
        let mut from = 0;
        for at in memchr::memmem::find_iter(&body, key) {
            clean.extend_from_slice(&body[from..at]);
            clean.extend_from_slice(b"[key]");
            from = at + key.len();
        }
        clean.extend_from_slice(&body[from..]);
        clean
    }

    fn failed(&self, error: &ureq::Error, timeout: Duration) -> ModelError {
        let provider = self.provider.clone();
        match error {
            ureq::Error::Timeout(_) => ModelError::Timeout { provider, limit: timeout },
            ureq::Error::BodyExceedsLimit(_) => ModelError::Permanent {
                provider,
                reason: format!("the response is longer than {BODY_BYTES_MAX} bytes"),
            },
            ureq::Error::BadUri(_) | ureq::Error::Http(_) => ModelError::Permanent {
                provider,
                reason: "the base_url or a header is unusable".to_owned(),
            },
            ureq::Error::Io(error) if error.kind() == ErrorKind::TimedOut => {
                ModelError::Timeout { provider, limit: timeout }
            }
            ureq::Error::Io(error) => self.transient(error.kind().to_string(), None),
            ureq::Error::HostNotFound => self.transient("the host is not found".to_owned(), None),
            ureq::Error::ConnectionFailed => self.transient("no connection".to_owned(), None),
            other => {
                let text = self
                    .key
                    .as_ref()
                    .map_or_else(|| other.to_string(), |key| key.hide_in(&other.to_string()));
                self.transient(shorten(&text), None)
            }
        }
    }

    pub fn transient(&self, reason: String, retry_after: Option<Duration>) -> ModelError {
        ModelError::Transient { provider: self.provider.clone(), reason, retry_after }
    }

    fn words(&self, body: &[u8]) -> (String, String) {
        let value: Value = serde_json::from_slice(body).unwrap_or_default();
        let error = value.get("error").unwrap_or(&value);
        let text = |key: &str| error.get(key).and_then(Value::as_str).map(str::to_owned);
        let words =
            text("message").or_else(|| error.as_str().map(str::to_owned)).unwrap_or_default();
        let code = text("code").or_else(|| text("type")).unwrap_or_default();
        let words = self.key.as_ref().map_or_else(|| words.clone(), |key| key.hide_in(&words));
        (shorten(&words), shorten(&code))
    }

    /// What a refusal means.
    pub fn judge(&self, refusal: &Refusal) -> ModelError {
        let provider = self.provider.clone();
        let Refusal { status, words, code, retry_after } = refusal;
        let reason = match words.is_empty() {
            true => format!("status {status}"),
            false => format!("status {status}: {words}"),
        };
        let says = |sign: &str| words.to_ascii_lowercase().contains(sign) || code.contains(sign);
        match status {
            429 if code == "insufficient_quota" => ModelError::Permanent { provider, reason },
            408 | 409 | 425 | 429 | 500..=599 => {
                ModelError::Transient { provider, reason, retry_after: *retry_after }
            }
            413 => ModelError::OverLimit { provider, reason },
            400 | 422
                if says("context_length")
                    || says("context length")
                    || says("context size")
                    || says("context window")
                    || says("too long")
                    || says("maximum context") =>
            {
                ModelError::OverLimit { provider, reason }
            }
            400 | 403
                if says("content_filter")
                    || says("content_policy")
                    || says("content management policy") =>
            {
                ModelError::Refused { provider, reason }
            }
            _ => ModelError::Permanent { provider, reason },
        }
    }
}

fn shorten(text: &str) -> String {
    let clean: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    match clean.char_indices().nth(WORDS_MAX) {
        Some((end, _)) => format!("{}…", &clean[..end]),
        None => clean,
    }
}

/// `Retry-After` in seconds, or as a date, which is measured against the server's own clock.
fn pause(text: &str, date: Option<&str>) -> Option<Duration> {
    if let Ok(seconds) = text.trim().parse::<f64>() {
        let seconds = seconds.clamp(0.0, RETRY_AFTER_MAX.as_secs_f64());
        return (!seconds.is_nan()).then(|| Duration::from_secs_f64(seconds));
    }
    let read = |text: &str| chrono::DateTime::parse_from_rfc2822(text.trim()).ok();
    let wait = read(text)? - read(date?)?;
    Some(wait.to_std().unwrap_or_default().min(RETRY_AFTER_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_in_both_spellings() {
        assert_eq!(pause("2", None), Some(Duration::from_secs(2)));
        assert_eq!(pause("0.5", None), Some(Duration::from_millis(500)));
        assert_eq!(pause("1e9", None), Some(RETRY_AFTER_MAX));
        let date = Some("Wed, 11 Feb 2026 23:02:11 GMT");
        assert_eq!(pause("Wed, 11 Feb 2026 23:02:41 GMT", date), Some(Duration::from_secs(30)));
        assert_eq!(pause("Wed, 11 Feb 2026 23:00:00 GMT", date), Some(Duration::ZERO));
        for useless in ["soon", "", "NaN"] {
            assert_eq!(pause(useless, date), None);
        }
    }

    #[test]
    fn a_key_never_shows() {
        let key = Secret::new("sk-abc");
        assert_eq!(format!("{key:?}"), "[key]");
        let endpoint = Endpoint::new("p", "http://127.0.0.1:1/".into(), Some(key));
        assert!(!format!("{endpoint:?}").contains("sk-abc"));
        let (words, _) = endpoint.words(br#"{"error":{"message":"bad key sk-abc\n given"}}"#);
        assert_eq!(words, "bad key [key]  given");
    }

    #[test]
    fn statuses_have_a_meaning() {
        let endpoint = Endpoint::new("p", String::new(), None);
        let judge = |status, words: &str, code: &str| {
            endpoint.judge(&Refusal {
                status,
                words: words.into(),
                code: code.into(),
                retry_after: None,
            })
        };
        assert!(matches!(judge(503, "", ""), ModelError::Transient { .. }));
        assert!(matches!(judge(429, "", "insufficient_quota"), ModelError::Permanent { .. }));
        assert!(matches!(
            judge(400, "This model's maximum context length is 1", ""),
            ModelError::OverLimit { .. }
        ));
        assert!(matches!(judge(400, "", "content_filter"), ModelError::Refused { .. }));
        assert!(matches!(judge(302, "", ""), ModelError::Permanent { .. }));
        assert!(matches!(judge(401, "", ""), ModelError::Permanent { .. }));
    }
}
