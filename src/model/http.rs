//! One JSON question over HTTP.
//!
//! Contract: connections are reused. Redirects are never followed, because they would carry the key
//! along. No proxy is used. The whole exchange ends within the time limit. Head, body and the memory
//! that the body takes are bounded. An error text is short, holds no secret and no prompt, names the
//! address, and says what to do.
//!
//! Secrets are the key, and the user, the password and the query values of the address. They are
//! removed from everything a server says, so that no answer and no record holds them.

use std::fmt;
use std::io::ErrorKind;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::Value;
use ureq::Agent;
use ureq::http::Response;

use super::error::ModelError;
use super::refusal::{Asked, Refusal};
use super::secret::Secret;
use crate::config::{ProviderConfig, ServerAddress, shown_address};

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
/// How many characters of a server's message are repeated.
const WORDS_MAX: usize = 200;

/// A server that answers in JSON.
pub(super) struct Endpoint {
    agent: Agent,
    pub provider: String,
    pub key: Option<Secret>,
    /// The environment variable that holds the key.
    key_env: Option<String>,
    /// `None` where the configured address is no web address: every question then fails.
    address: Option<ServerAddress>,
    /// `Authorization` made of the user and password in the address.
    basic: Option<String>,
    /// What no output may repeat, the longest first.
    secrets: Vec<Secret>,
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Endpoint({} at {})", self.provider, self.shown(""))
    }
}

/// Success with a JSON body, or a refusal.
pub(super) type HttpReply = Result<Value, Refusal>;

/// Headers of a request.
pub(super) type Headers = Vec<(&'static str, String)>;

impl Endpoint {
    /// The server of a configured provider.
    pub fn new(provider: &str, config: &ProviderConfig, key: Option<Secret>) -> Endpoint {
        let agent = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .proxy(None)
            .timeout_connect(Some(CONNECT_MAX))
            .max_response_header_size(HEAD_BYTES_MAX)
            .max_idle_connections_per_host(16)
            .user_agent(concat!("summarizer/", env!("CARGO_PKG_VERSION")))
            .build();
        let address = config.address().and_then(ServerAddress::parse);
        let mut secrets = address.as_ref().map(ServerAddress::secrets).unwrap_or_default();
        secrets.extend(key.iter().map(|key| key.expose().to_owned()));
        let encoded: Vec<String> = secrets.iter().map(|secret| BASE64.encode(secret)).collect();
        secrets.extend(encoded);
        // The longest first: a secret inside a longer one must not break up the longer one.
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        let mut secrets: Vec<Secret> = secrets.into_iter().map(Secret::new).collect();
        secrets.retain(|secret| !secret.is_short());
        let user = address.as_ref().and_then(ServerAddress::user);
        Endpoint {
            agent: Agent::new_with_config(agent),
            provider: provider.to_owned(),
            key,
            key_env: config.api_key_env.clone(),
            address,
            basic: user.map(|user| format!("Basic {}", BASE64.encode(user))),
            secrets,
        }
    }

    /// Whether the path of the address ends with `part`.
    pub fn path_ends_with(&self, part: &str) -> bool {
        self.address.as_ref().is_some_and(|address| address.path().ends_with(part))
    }

    /// The address of `path`, without its secrets.
    pub fn shown(&self, path: &str) -> String {
        match &self.address {
            Some(address) => shown_address(&address.below(path)),
            None => format!("the base_url of {}", self.provider),
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
        path: &str,
        body: &Value,
        headers: &Headers,
        timeout: Duration,
    ) -> Result<HttpReply, ModelError> {
        let mut request =
            self.agent.post(self.url(path)?).config().timeout_global(Some(timeout)).build();
        request = request.header("content-type", "application/json");
        for (name, value) in headers {
            request = request.header(*name, value);
        }
        let sent = request.send(body.to_string().as_bytes());
        self.read(path, sent.map_err(|error| self.failed(path, &error, timeout))?, timeout)
    }

    fn get(
        &self,
        path: &str,
        headers: &Headers,
        timeout: Duration,
    ) -> Result<HttpReply, ModelError> {
        let mut request =
            self.agent.get(self.url(path)?).config().timeout_global(Some(timeout)).build();
        for (name, value) in headers {
            request = request.header(*name, value);
        }
        let sent = request.call();
        self.read(path, sent.map_err(|error| self.failed(path, &error, timeout))?, timeout)
    }

    /// The ids of the models that the server lists; `None` where it lists none.
    pub fn models(
        &self,
        path: &str,
        headers: &Headers,
        model: &str,
        within: Duration,
    ) -> Result<Option<Vec<String>>, ModelError> {
        match self.get(path, headers, within)? {
            Ok(list) => Ok(model_ids(&list)),
            // A server need not list its models. What counts is whether it would accept the question.
            Err(refusal) if matches!(refusal.status, 404 | 405 | 501) => Ok(None),
            Err(refusal) => Err(self.judge(&refusal, model)),
        }
    }

    fn url(&self, path: &str) -> Result<String, ModelError> {
        let address = self.address.as_ref().map(|address| address.below(path));
        address.ok_or_else(|| self.bad_address())
    }

    fn bad_address(&self) -> ModelError {
        self.permanent(format!(
            "provider.{}.base_url is not a web address, or the key holds a character that a header \
             cannot carry",
            self.provider
        ))
    }

    fn read(
        &self,
        path: &str,
        mut response: Response<ureq::Body>,
        timeout: Duration,
    ) -> Result<HttpReply, ModelError> {
        let status = response.status().as_u16();
        let header = |name: &str| {
            response.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned)
        };
        let retry_after =
            header("retry-after").and_then(|text| pause(&text, header("date").as_deref()));
        let elsewhere = header("location").map(|to| shorten(&self.hide(&shown_address(&to))));
        let kind = header("content-encoding").or(header("content-type")).unwrap_or_default();
        let body = response.body_mut().with_config().limit(BODY_BYTES_MAX).read_to_vec();
        let body = body.map_err(|error| self.failed(path, &error, timeout))?;
        if !(200..300).contains(&status) {
            let (words, code) = self.words(&body);
            let asked = self.shown(path);
            return Ok(Err(Refusal { status, words, code, asked, elsewhere, retry_after }));
        }
        let values = body.iter().filter(|byte| matches!(byte, b',' | b'[' | b'{')).count();
        if values > VALUES_MAX {
            return Err(self.permanent(format!(
                "the response holds {values} values; the limit is {VALUES_MAX}"
            )));
        }
        match serde_json::from_slice(&body) {
            Ok(value) => Ok(Ok(self.without_secrets(value))),
            Err(_) => {
                let kind = if kind.is_empty() { "no type".to_owned() } else { self.hide(&kind) };
                let what = format!(
                    "the response of {} is not JSON ({}); set provider.{}.base_url to the address \
                     of the API, which often ends in /v1",
                    self.shown(path),
                    shorten(&kind),
                    self.provider
                );
                Err(self.transient(what, None))
            }
        }
    }

    /// The text without any secret.
    fn hide(&self, text: &str) -> String {
        self.secrets.iter().fold(text.to_owned(), |text, secret| secret.hide_in(&text))
    }

    /// The value without any secret. Works on parsed strings, because an escape in the JSON text may
    /// spell a secret differently.
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

    fn failed(&self, path: &str, error: &ureq::Error, timeout: Duration) -> ModelError {
        let provider = self.provider.clone();
        let unreachable = |what: &str| {
            let what = format!(
                "{what} at {}; start the server, or correct provider.{provider}.base_url",
                self.shown(path)
            );
            self.transient(what, None)
        };
        match error {
            ureq::Error::Timeout(_) => ModelError::Timeout { provider, limit: timeout },
            ureq::Error::BodyExceedsLimit(_) => {
                self.permanent(format!("the response is longer than {BODY_BYTES_MAX} bytes"))
            }
            ureq::Error::BadUri(_) | ureq::Error::Http(_) => self.bad_address(),
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
                    format!(
                        "{} closed the connection before its answer was complete",
                        self.shown(path)
                    ),
                    None,
                ),
                // Among these is a host name that does not resolve.
                _ => unreachable(&shorten(&self.hide(&error.to_string()))),
            },
            ureq::Error::HostNotFound => unreachable("the host is not found"),
            ureq::Error::ConnectionFailed => unreachable("no connection"),
            other => self.transient(shorten(&self.hide(&other.to_string())), None),
        }
    }

    /// What a refusal means. `model` is the model that was asked for.
    pub fn judge(&self, refusal: &Refusal, model: &str) -> ModelError {
        let (provider, has_key) = (self.provider.as_str(), self.key.is_some());
        refusal.judge(&Asked { provider, has_key, key_env: self.key_env.as_deref(), model })
    }

    pub fn permanent(&self, reason: String) -> ModelError {
        ModelError::Permanent { provider: self.provider.clone(), reason }
    }

    pub fn transient(&self, reason: String, retry_after: Option<Duration>) -> ModelError {
        ModelError::Transient { provider: self.provider.clone(), reason, retry_after }
    }

    /// The message and the code of an error body.
    fn words(&self, body: &[u8]) -> (String, String) {
        let value: Value = serde_json::from_slice(body).unwrap_or_default();
        let error = value.get("error").unwrap_or(&value);
        let text = |key: &str| error.get(key).and_then(Value::as_str).map(str::to_owned);
        let words =
            text("message").or_else(|| error.as_str().map(str::to_owned)).unwrap_or_default();
        let code = text("code").or_else(|| text("type")).unwrap_or_default();
        (shorten(&self.hide(&words)), shorten(&self.hide(&code)))
    }
}

fn model_ids(list: &Value) -> Option<Vec<String>> {
    let entries = list.get("data")?.as_array()?;
    let ids = entries.iter().filter_map(|entry| entry.get("id")?.as_str());
    let ids: Vec<String> = ids.map(|id| id.chars().take(100).collect()).collect();
    (!ids.is_empty()).then_some(ids)
}

fn shorten(text: &str) -> String {
    let clean: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    match clean.char_indices().nth(WORDS_MAX) {
        Some((end, _)) => format!("{}…", &clean[..end]),
        None => clean,
    }
}

/// `Retry-After` in seconds, or as a date, which is compared with the server's own clock.
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
    use crate::config::ProviderKind;
    use serde_json::json;

    fn endpoint(base: &str, key: &str) -> Endpoint {
        let kind = ProviderKind::OpenAi;
        let config =
            ProviderConfig { kind, base_url: Some(base.into()), ..ProviderConfig::default() };
        Endpoint::new("p", &config, Some(Secret::new(key)))
    }

    #[test]
    fn retry_after_is_read_as_seconds_and_as_a_date() {
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
    fn no_output_repeats_a_secret() {
        let endpoint = endpoint(
            "http://ana:pa%24%24word@127.0.0.1:1/v1/?api-version=2026-01-01&key=in-the-query",
            "sk-abcdef",
        );
        assert_eq!(format!("{:?}", endpoint.key), "Some([key])");
        assert_eq!(
            endpoint.url("/models").unwrap(),
            "http://127.0.0.1:1/v1/models?api-version=2026-01-01&key=in-the-query"
        );
        assert_eq!(endpoint.shown("/models"), "http://127.0.0.1:1/v1/models?[hidden]");
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
    }

    #[test]
    fn a_short_key_is_not_removed_from_answers() {
        assert_eq!(endpoint("http://h", "ollama").hide("ask ollama"), "ask ollama");
    }

    #[test]
    fn a_base_url_that_is_no_address_is_a_permanent_error() {
        let error = endpoint("localhost:8080/v1", "k").url("/models").unwrap_err();
        assert!(error.to_string().contains("provider.p.base_url is not a web address"), "{error}");
    }
}
