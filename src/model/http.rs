//! One JSON question over HTTP, and what every failure means.
//!
//! Contract: connections are reused; redirects are never followed (they would carry the key along);
//! no proxy is used; the whole exchange ends within the time limit; head and body are bounded, and so
//! is what the body takes in memory. An error text is short, holds neither secret nor prompt, names the
//! address, and says what to do.
//!
//! Secret are the key, and what somebody wrote into the address: user, password and the values of its
//! query. A server that repeats one of them does not bring it into answers and records.

use std::fmt;
use std::io::ErrorKind;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::Value;
use ureq::Agent;
use ureq::http::Response;

use super::ModelError;
use crate::config::{ProviderConfig, shown_address};

/// Most bytes of a response.
const BODY_BYTES_MAX: u64 = 8 << 20;
/// Most bytes of its head.
const HEAD_BYTES_MAX: usize = 64 << 10;
/// Most commas and opening brackets of a response: each becomes a value many times its size.
const VALUES_MAX: usize = 400_000;
/// Longest wait for a connection.
const CONNECT_MAX: Duration = Duration::from_secs(10);
/// Longest pause a server can ask for.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(3600);
/// How much of a server's own words is repeated.
const WORDS_MAX: usize = 200;
/// Shortest key that is looked for in what a server says: a word such as `ollama`, where a server wants
/// any key at all, is no secret and may well be in an answer.
const SECRET_BYTES_MIN: usize = 8;

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
        if self.is_short() { text.to_owned() } else { text.replace(&self.0, "[key]") }
    }

    fn is_short(&self) -> bool {
        self.0.len() < SECRET_BYTES_MIN
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[key]")
    }
}

/// A server that is asked in JSON.
pub(super) struct Endpoint {
    agent: Agent,
    pub provider: String,
    pub key: Option<Secret>,
    /// The variable the key is in.
    key_env: Option<String>,
    url: String,
    /// The same, as it may be shown.
    shown: String,
    /// `Authorization` of the user and password in the address.
    basic: Option<String>,
    /// What must not be repeated, the longer ones first.
    secrets: Vec<Secret>,
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Endpoint({} at {})", self.provider, self.shown)
    }
}

/// A response that is not a success.
pub(super) struct Refusal {
    pub status: u16,
    /// What the server says, shortened, the key hidden.
    pub words: String,
    /// Its code for the error, where it has one.
    pub code: String,
    /// Where it sends to, as it may be shown.
    elsewhere: Option<String>,
    retry_after: Option<Duration>,
}

/// Success with a JSON body, or a refusal.
pub(super) type Reply = Result<Value, Refusal>;

/// Headers of a request.
pub(super) type Headers = Vec<(&'static str, String)>;

impl Endpoint {
    /// `path` below a configured address, or below `base` where none is configured.
    pub fn new(
        provider: &str,
        config: &ProviderConfig,
        base: &str,
        path: impl AsRef<str>,
        key: Option<Secret>,
    ) -> Endpoint {
        let agent = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .proxy(None)
            .timeout_connect(Some(CONNECT_MAX))
            .max_response_header_size(HEAD_BYTES_MAX)
            .max_idle_connections_per_host(16)
            .user_agent(concat!("summarizer/", env!("CARGO_PKG_VERSION")))
            .build();
        let address = Address::of(config.base_url.as_deref().unwrap_or(base));
        let mut url = format!("{}{}", address.plain.trim_end_matches('/'), path.as_ref());
        if let Some(query) = &address.query {
            url = format!("{url}?{query}");
        }
        let mut secrets: Vec<String> = address.secrets();
        secrets.extend(key.iter().map(|key| key.expose().to_owned()));
        let encoded: Vec<String> = secrets.iter().map(|secret| BASE64.encode(secret)).collect();
        secrets.extend(encoded);
        let mut secrets: Vec<Secret> = secrets.into_iter().map(Secret).collect();
        secrets.retain(|secret| !secret.is_short());
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.0.len()));
        Endpoint {
            agent: Agent::new_with_config(agent),
            provider: provider.to_owned(),
            key,
            key_env: config.api_key_env.clone(),
            shown: shown_address(&url),
            url,
            basic: address.user.map(|user| format!("Basic {}", BASE64.encode(decoded(&user)))),
            secrets,
        }
    }

    /// The header that carries the key the way OAuth does; without a key, that of the address.
    pub fn bearer(&self) -> Headers {
        let bearer = self.key.as_ref().map(|key| format!("Bearer {}", key.expose()));
        bearer.or(self.basic.clone()).map(|value| ("authorization", value)).into_iter().collect()
    }

    /// The header of the user and password in the address.
    pub fn basic(&self) -> Option<(&'static str, String)> {
        self.basic.clone().map(|value| ("authorization", value))
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
        self.read(sent.map_err(|error| self.failed(&error, timeout))?, timeout)
    }

    pub fn get(&self, headers: &[(&str, String)], timeout: Duration) -> Result<Reply, ModelError> {
        let mut request = self.agent.get(&self.url).config().timeout_global(Some(timeout)).build();
        for (name, value) in headers {
            request = request.header(*name, value);
        }
        let sent = request.call();
        self.read(sent.map_err(|error| self.failed(&error, timeout))?, timeout)
    }

    fn read(
        &self,
        mut response: Response<ureq::Body>,
        timeout: Duration,
    ) -> Result<Reply, ModelError> {
        let status = response.status().as_u16();
        let header = |name: &str| {
            response.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned)
        };
        let retry_after =
            header("retry-after").and_then(|text| pause(&text, header("date").as_deref()));
        let elsewhere = header("location").map(|to| shorten(&self.hide(&shown_address(&to))));
        let kind = header("content-encoding").or(header("content-type")).unwrap_or_default();
        let body = response.body_mut().with_config().limit(BODY_BYTES_MAX).read_to_vec();
        let body = body.map_err(|error| self.failed(&error, timeout))?;
        if (200..300).contains(&status) {
            let values = body.iter().filter(|byte| matches!(byte, b',' | b'[' | b'{')).count();
            if values > VALUES_MAX {
                return Err(self.permanent(format!("the response holds {values} values")));
            }
            let value = serde_json::from_slice(&body).map(|value| Ok(self.without_secrets(value)));
            return value.map_err(|_| {
                let kind = if kind.is_empty() { "of no type".to_owned() } else { self.hide(&kind) };
                let what = format!(
                    "the response of {} is not JSON ({}); provider.{}.base_url is the address of \
                     the API, which mostly ends in /v1",
                    self.shown,
                    shorten(&kind),
                    self.provider
                );
                self.transient(what, None)
            });
        }
        let (words, code) = self.words(&body);
        Ok(Err(Refusal { status, words, code, elsewhere, retry_after }))
    }

    /// A text in which no secret occurs.
    fn hide(&self, text: &str) -> String {
        self.secrets.iter().fold(text.to_owned(), |text, secret| secret.hide_in(&text))
    }

    /// A server that repeats a secret must not bring it into answers and records. Looked at is what
    /// was parsed: an escape may have hidden it before.
    fn without_secrets(&self, value: Value) -> Value {
        match value {
            _ if self.secrets.is_empty() => value,
            Value::String(text) => Value::String(self.hide(&text)),
            Value::Array(items) => {
                items.into_iter().map(|item| self.without_secrets(item)).collect()
            }
            Value::Object(members) => members
                .into_iter()
                .map(|(name, member)| (self.hide(&name), self.without_secrets(member)))
                .collect(),
            other => other,
        }
    }

    fn failed(&self, error: &ureq::Error, timeout: Duration) -> ModelError {
        let provider = self.provider.clone();
        let unreachable = |what: &str| {
            let what = format!(
                "{what} at {}; start what serves it, or correct provider.{provider}.base_url",
                self.shown
            );
            self.transient(what, None)
        };
        match error {
            ureq::Error::Timeout(_) => ModelError::Timeout { provider, limit: timeout },
            ureq::Error::BodyExceedsLimit(_) => {
                self.permanent(format!("the response is longer than {BODY_BYTES_MAX} bytes"))
            }
            ureq::Error::BadUri(_) | ureq::Error::Http(_) => self.permanent(format!(
                "provider.{provider}.base_url is no address, or the key holds what a header cannot carry"
            )),
            ureq::Error::Io(error) if error.kind() == ErrorKind::TimedOut => {
                ModelError::Timeout { provider, limit: timeout }
            }
            ureq::Error::Io(error) => match error.kind() {
                ErrorKind::ConnectionRefused
                | ErrorKind::HostUnreachable
                | ErrorKind::NetworkUnreachable
                | ErrorKind::AddrNotAvailable => unreachable(&error.kind().to_string()),
                ErrorKind::UnexpectedEof
                | ErrorKind::ConnectionReset
                | ErrorKind::ConnectionAborted
                | ErrorKind::BrokenPipe => self.transient(
                    format!("{} broke off before its answer was complete", self.shown),
                    None,
                ),
                // A name that leads nowhere is among these.
                _ => unreachable(&shorten(&self.hide(&error.to_string()))),
            },
            ureq::Error::HostNotFound => unreachable("the host is not found"),
            ureq::Error::ConnectionFailed => unreachable("no connection"),
            other => self.transient(shorten(&self.hide(&other.to_string())), None),
        }
    }

    pub fn permanent(&self, reason: String) -> ModelError {
        ModelError::Permanent { provider: self.provider.clone(), reason }
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
        (shorten(&self.hide(&words)), shorten(&self.hide(&code)))
    }

    /// What somebody can do about a status.
    fn advice(&self, refusal: &Refusal, model: &str) -> Option<String> {
        let name = &self.provider;
        Some(match refusal.status {
            300..=399 => format!(
                "it sends to {}, and redirects are not followed, for the key would go along: put \
                 the final address into provider.{name}.base_url",
                refusal.elsewhere.as_deref().unwrap_or("nowhere")
            ),
            401 => match (&self.key, &self.key_env) {
                (Some(_), Some(variable)) => {
                    format!("the key is refused: put a valid one into {variable}")
                }
                (_, Some(variable)) => format!("there is no key: {variable} is not set"),
                (_, None) => format!(
                    "it wants a key: provider.{name}.api_key_env names the variable that holds it"
                ),
            },
            402 => "the account is out of credit".to_owned(),
            403 => format!(
                "see what the key is allowed to do, and whether provider.{name}.model is (now {model:?})"
            ),
            404 | 405 => format!(
                "see provider.{name}.model (now {model:?}) and provider.{name}.base_url (asked was {})",
                self.shown
            ),
            429 => format!("provider.{name}.requests_per_minute keeps to what it allows"),
            _ => return None,
        })
    }

    /// What a refusal means. `model` is who was asked for.
    pub fn judge(&self, refusal: &Refusal, model: &str) -> ModelError {
        let provider = self.provider.clone();
        let Refusal { status, words, code, retry_after, .. } = refusal;
        let mut reason = match words.is_empty() {
            true => format!("status {status}"),
            false => format!("status {status}: {words}"),
        };
        if let Some(advice) = self.advice(refusal, model) {
            reason = format!("{reason}; {advice}");
        }
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

/// A configured address taken apart.
struct Address {
    /// Without what may be secret.
    plain: String,
    /// `user:password`, as written.
    user: Option<String>,
    query: Option<String>,
}

impl Address {
    fn of(base: &str) -> Address {
        let base = base.split('#').next().unwrap_or_default();
        let (base, query) = match base.split_once('?') {
            Some((base, query)) => (base, Some(query.to_owned())),
            None => (base, None),
        };
        let (scheme, rest) = base.split_once("://").unwrap_or(("", base));
        let end = rest.find('/').unwrap_or(rest.len());
        let (user, host) = match rest[..end].rsplit_once('@') {
            Some((user, host)) => (Some(user.to_owned()), host),
            None => (None, &rest[..end]),
        };
        let plain = match scheme {
            "" => base.to_owned(),
            scheme => format!("{scheme}://{host}{}", &rest[end..]),
        };
        Address { plain, user, query: query.filter(|query| !query.is_empty()) }
    }

    /// The secrets in it, in every spelling they are sent in. That an API has a version is none.
    fn secrets(&self) -> Vec<String> {
        let mut secrets = Vec::new();
        if let Some(user) = &self.user {
            secrets.push(user.clone());
            secrets.extend(user.split_once(':').map(|(_, password)| password.to_owned()));
        }
        let pairs = self.query.iter().flat_map(|query| query.split('&'));
        let values = pairs.filter_map(|pair| pair.split_once('='));
        secrets.extend(
            values.filter(|(name, _)| !name.contains("version")).map(|(_, v)| v.to_owned()),
        );
        let plain: Vec<String> = secrets.iter().map(|secret| decoded(secret)).collect();
        secrets.extend(plain);
        secrets.sort();
        secrets.dedup();
        secrets
    }
}

/// Percent signs and their digits as the bytes they stand for.
fn decoded(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let digits = text.get(at + 1..at + 3).filter(|_| bytes[at] == b'%');
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                out.push(byte);
                at += 3;
            }
            None => {
                out.push(bytes[at]);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
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
    use serde_json::json;

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
        let key = Secret::new("sk-abcdef");
        assert_eq!(format!("{key:?}"), "[key]");
        let base =
            "http://ana:pa%24%24word@127.0.0.1:1/v1/?api-version=2026-01-01&key=in-the-query";
        let endpoint = Endpoint::new("p", &ProviderConfig::default(), base, "/models", Some(key));
        assert_eq!(
            endpoint.url,
            "http://127.0.0.1:1/v1/models?api-version=2026-01-01&key=in-the-query"
        );
        assert_eq!(format!("{endpoint:?}"), "Endpoint(p at http://127.0.0.1:1/v1/models?[hidden])");
        let said =
            |text: &str| endpoint.words(&serde_json::to_vec(&json!({"error": text})).unwrap()).0;
        assert_eq!(said("bad key sk-abcdef\n given"), "bad key [key]  given");
        for secret in ["ana:pa%24%24word", "pa$$word", "in-the-query"] {
            assert_eq!(said(secret), "[key]");
            assert_eq!(said(&BASE64.encode(secret)), "[key]");
        }
        assert_eq!(said("version 2026-01-01"), "version 2026-01-01");
        assert_eq!(endpoint.basic().unwrap().1, format!("Basic {}", BASE64.encode("ana:pa$$word")));
        let body =
            json!({"sk-abcdef": [{"a": "\u{73}k-abcdef"}, 1], "b": BASE64.encode("sk-abcdef")});
        let clean = json!({"[key]": [{"a": "[key]"}, 1], "b": "[key]"});
        assert_eq!(endpoint.without_secrets(body), clean);

        // A word that stands in for a key is no secret, and no answer is spoiled because of it.
        let any = Some(Secret::new("ollama"));
        let endpoint = Endpoint::new("p", &ProviderConfig::default(), "http://h", "", any);
        assert_eq!(endpoint.hide("ask ollama"), "ask ollama");
    }

    #[test]
    fn a_refusal_says_what_to_do() {
        let config = ProviderConfig { api_key_env: Some("MY_KEY".into()), ..Default::default() };
        let key = Some(Secret::new("sk-abcdef"));
        let with_key = Endpoint::new("p", &config, "http://h/v1", "/x", key);
        let unset = Endpoint::new("p", &config, "http://h/v1", "/x", None);
        let unnamed = Endpoint::new("p", &ProviderConfig::default(), "http://h/v1", "/x", None);
        let says = |endpoint: &Endpoint, status| {
            let elsewhere = Some("http://other/".to_owned());
            let (words, code) = ("no".to_owned(), String::new());
            let refusal = Refusal { status, words, code, elsewhere, retry_after: None };
            endpoint.judge(&refusal, "m-1").to_string()
        };
        for (endpoint, status, expected) in [
            (&with_key, 401, "a valid one into MY_KEY"),
            (&unset, 401, "MY_KEY is not set"),
            (&unnamed, 401, "provider.p.api_key_env names the variable"),
            (&with_key, 403, "provider.p.model is (now \"m-1\")"),
            (&with_key, 404, "provider.p.base_url (asked was http://h/v1/x)"),
            (&with_key, 307, "it sends to http://other/"),
        ] {
            let said = says(endpoint, status);
            assert!(said.contains(expected) && said.contains("no"), "{status}: {said}");
        }
    }

    #[test]
    fn statuses_have_a_meaning() {
        let endpoint = Endpoint::new("p", &ProviderConfig::default(), "http://h", "", None);
        let judge = |status, words: &str, code: &str| {
            let (words, code) = (words.into(), code.into());
            let refusal = Refusal { status, words, code, elsewhere: None, retry_after: None };
            endpoint.judge(&refusal, "m")
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
