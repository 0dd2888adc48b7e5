//! One JSON question over HTTP.
//!
//! Contract: connections are reused. Redirects are never followed, because they would carry the key
//! along. No proxy is used. The exchange ends when nothing arrives within the time limit; a response
//! that is no stream ends within it as a whole. Head, body and the memory that the body takes are
//! bounded. An error text is short, holds no secret and no prompt, names the address, and says what to
//! do.
//!
//! Secrets are the key, and the user, the password and the query values of the address. They are
//! removed from everything a server says, so that no answer and no record holds them.

use std::fmt;
use std::io::{ErrorKind, Read};
use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::Value;
use ureq::Agent;
use ureq::http::{HeaderMap, Response};

pub(super) mod delivery;
mod files;

use super::call::Listener;
use super::connections::Connections;
use super::ending::may_end;
use super::error::ModelError;
use super::refusal::{Asked, OUT_OF_QUOTA, Refusal};
use super::secret::Secret;
use super::server_error::{self, ServerError};
use super::stream::{self, Assembled, EVENT_STREAM, Events, STREAM, StreamEvent};
use super::tls::{self, Certificate};
use crate::config::{ProviderConfig, ServerAddress, shown_address};
use crate::contract::told::ToldFailure;
use crate::contract::vocabulary::FailureCause;

/// How many times the idle limit a server may only give signs of life.
const SIGNS_OF_LIFE: u32 = 10;
/// Least time between two signs of life that are passed on.
const SIGN_PAUSE: Duration = Duration::from_secs(1);
/// Most bytes of a response.
const BODY_BYTES_MAX: u64 = 8 << 20;
/// Most bytes of a stream: each word of it comes in an event of some hundred bytes.
const STREAM_BYTES_MAX: u64 = 64 << 20;
/// Longest time of a stream.
const STREAM_MAX: Duration = Duration::from_secs(3600);
/// How many bytes are read at a time.
const READ_BYTES: usize = 16 << 10;
/// Most bytes of its head.
const HEAD_BYTES_MAX: usize = 64 << 10;
/// Most commas and opening brackets of a response: each becomes a value many times its size.
const VALUES_MAX: usize = 400_000;
/// What an address ends with that was copied with the path of a question.
const QUESTIONS: [&str; 3] = ["/chat/completions", "/completions", "/messages"];
/// What TLS says of a certificate that it does not trust.
const BAD_CERTIFICATE: &str = "invalid peer certificate";
/// Longest wait for a connection.
const CONNECT_MAX: Duration = Duration::from_secs(10);
/// How many characters of a server's message are repeated.
const WORDS_MAX: usize = 200;

/// A server that answers in JSON.
pub(super) struct Endpoint {
    connections: Arc<Connections>,
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

/// The connections to a server whose certificate comes from one of these, or from a public authority.
fn connections(trusted: Option<&[Certificate<'static>]>) -> Arc<Connections> {
    let config = Agent::config_builder()
        .http_status_as_error(false)
        .max_redirects(0)
        .proxy(None)
        .tls_config(tls::settings(trusted))
        .timeout_connect(Some(CONNECT_MAX))
        .max_response_header_size(HEAD_BYTES_MAX)
        .input_buffer_size(HEAD_BYTES_MAX)
        .output_buffer_size(READ_BYTES)
        .max_idle_connections(1)
        .max_idle_connections_per_host(1)
        .user_agent(concat!("summarizer/", env!("CARGO_PKG_VERSION")))
        .build();
    Arc::new(Connections::new(config))
}

/// Success with a JSON body, or a refusal.
pub(super) type HttpReply = Result<Value, Box<Refused>>;

/// A refusal, and what the server said about it.
pub(super) struct Refused {
    refusal: Refusal,
    /// Without secrets.
    pub error: ServerError,
}

impl Refused {
    pub(super) fn status(&self) -> u16 {
        self.refusal.status
    }
}

/// Headers of a request.
pub(super) type Headers = Vec<(&'static str, String)>;

impl Endpoint {
    /// The server of a configured provider.
    pub(super) fn new(provider: &str, config: &ProviderConfig, key: Option<Secret>) -> Endpoint {
        let address = config.address().and_then(ServerAddress::parse);
        // Portals show the address of a question; people copy it whole.
        let address = address.map(|address| {
            let base = QUESTIONS.iter().find_map(|end| address.path().strip_suffix(end));
            let base = base.map(str::to_owned).and_then(|base| address.with_path(&base));
            base.unwrap_or(address)
        });
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
            connections: connections(None),
            provider: provider.to_owned(),
            key,
            key_env: config.api_key_env.clone(),
            address,
            basic: user.map(|user| format!("Basic {}", BASE64.encode(user))),
            secrets,
        }
    }

    /// The same with a server whose certificate comes from one of these; with none named, from a public
    /// authority.
    pub(super) fn trusting(mut self, certificates: Option<&[Certificate<'static>]>) -> Endpoint {
        self.connections = connections(certificates);
        self
    }

    pub(crate) fn address(&self) -> Option<&ServerAddress> {
        self.address.as_ref()
    }

    /// Whether the path of the address ends with `part`.
    pub(crate) fn path_ends_with(&self, part: &str) -> bool {
        self.address.as_ref().is_some_and(|address| address.path().ends_with(part))
    }

    /// The address of `path`, without its secrets.
    pub(super) fn shown(&self, path: &str) -> String {
        match &self.address {
            Some(address) => shown_address(&address.below(path)),
            None => format!("the base_url of {}", self.provider),
        }
    }

    /// The header that carries the key the way OAuth does; without a key, that of the address.
    pub(crate) fn bearer(&self) -> Headers {
        let bearer = self.key.as_ref().map(|key| format!("Bearer {}", key.expose()));
        bearer.or(self.basic.clone()).map(|value| ("authorization", value)).into_iter().collect()
    }

    /// The header of the user and password in the address.
    pub(crate) fn basic(&self) -> Option<(&'static str, String)> {
        self.basic.clone().map(|value| ("authorization", value))
    }

    pub(super) fn post(
        &self,
        path: &str,
        body: &Value,
        headers: &Headers,
        timeout: Duration,
        listener: Option<&dyn Listener>,
    ) -> Result<HttpReply, ModelError> {
        let end = listener.and_then(Listener::end);
        let has_ended = || end.is_some_and(|end| end.has_come());
        if has_ended() {
            return Err(self.not_wanted());
        }
        let reply = may_end(end, || self.exchange(path, body, headers, timeout, listener));
        // The connection was closed by the end, whatever that looks like from here.
        reply.map_err(|error| if has_ended() { self.not_wanted() } else { error })
    }

    fn exchange(
        &self,
        path: &str,
        body: &Value,
        headers: &Headers,
        timeout: Duration,
        listener: Option<&dyn Listener>,
    ) -> Result<HttpReply, ModelError> {
        let begun = Instant::now();
        let agent = self.connections.lend();
        let config = agent.post(self.url(path)?).config();
        let mut request = match body.get(STREAM).and_then(Value::as_bool) {
            Some(true) => config
                .timeout_global(Some(STREAM_MAX))
                .timeout_send_body(Some(timeout))
                .timeout_recv_response(Some(timeout))
                .timeout_per_read(Some(timeout)),
            _ => config.timeout_global(Some(timeout)),
        }
        .build();
        request = request.header("content-type", "application/json");
        for (name, value) in headers {
            request = request.header(*name, value);
        }
        let sent = request.send(body.to_string().as_bytes());
        let response = sent.map_err(|error| self.failed(path, &error, timeout))?;
        match response.status().is_success() && is_stream(&response) {
            true => self.read_stream(path, response, timeout, listener),
            false => self.read(path, response, begun, timeout),
        }
    }

    pub(super) fn get(
        &self,
        path: &str,
        headers: &Headers,
        timeout: Duration,
    ) -> Result<HttpReply, ModelError> {
        let begun = Instant::now();
        let agent = self.connections.lend();
        let mut request = agent.get(self.url(path)?).config().timeout_global(Some(timeout)).build();
        for (name, value) in headers {
            request = request.header(*name, value);
        }
        let sent = request.call();
        let response = sent.map_err(|error| self.failed(path, &error, timeout))?;
        self.read(path, response, begun, timeout)
    }

    /// The same server without the `/v1` of its OpenAI-compatible part.
    pub(super) fn at_root(&self) -> Endpoint {
        let address = self.address.as_ref().and_then(|address| {
            let root = address.path().trim_end_matches("/v1").to_owned();
            address.with_path(&root)
        });
        Endpoint {
            connections: Arc::clone(&self.connections),
            provider: self.provider.clone(),
            key: self.key.clone(),
            key_env: self.key_env.clone(),
            address,
            basic: self.basic.clone(),
            secrets: self.secrets.clone(),
        }
    }

    /// The ids of the models that the server lists; `None` where it lists none.
    pub(super) fn models(
        &self,
        path: &str,
        headers: &Headers,
        model: &str,
        within: Duration,
    ) -> Result<Option<Vec<String>>, ModelError> {
        match self.get(path, headers, within)? {
            Ok(list) => Ok(model_ids(&list)),
            // A server need not list its models. What counts is whether it would accept the question.
            Err(refused) if matches!(refused.status(), 404 | 405 | 501) => Ok(None),
            Err(refused) => Err(self.judge(&refused, model)),
        }
    }

    fn url(&self, path: &str) -> Result<String, ModelError> {
        let address = self.address.as_ref().map(|address| address.below(path));
        address.ok_or_else(|| self.bad_address())
    }

    fn bad_address(&self) -> ModelError {
        let cause = FailureCause::Configuration;
        self.permanent(cause, format!(
            "provider.{}.base_url is not a web address, or the key holds a character that a header \
             cannot carry",
            self.provider
        ))
    }

    fn read(
        &self,
        path: &str,
        response: Response<ureq::Body>,
        begun: Instant,
        timeout: Duration,
    ) -> Result<HttpReply, ModelError> {
        let status = response.status().as_u16();
        let (head, body) = response.into_parts();
        let header = |name: &str| header(&head.headers, name);
        let elsewhere = header("location").map(|to| shorten(&self.hide(&shown_address(&to))));
        let kind = header("content-encoding").or(header("content-type")).unwrap_or_default();
        let has_no_end =
            ["content-length", "transfer-encoding"].iter().all(|name| header(name).is_none());
        let mut reader = body.into_with_config().limit(BODY_BYTES_MAX).reader();
        let (mut body, mut buffer) = (Vec::new(), vec![0; READ_BYTES]);
        loop {
            let read = reader.read(&mut buffer);
            match read.map_err(|error| self.failed(path, &error.into(), timeout))? {
                0 => break,
                count => body.extend_from_slice(&buffer[..count]),
            }
            if begun.elapsed() > timeout {
                return Err(self.too_slow(timeout));
            }
        }
        let refused = |status: u16, error: ServerError| {
            Ok(Err(self.refused(path, status, &header, elsewhere, error)))
        };
        if !(200..300).contains(&status) {
            return refused(status, ServerError::read(&body));
        }
        self.check_values(&body)?;
        match serde_json::from_slice(&body) {
            Ok(value) => match ServerError::in_success(&value) {
                Some(error) => {
                    let status = error.status.filter(|status| (400..600).contains(status));
                    refused(status.unwrap_or(400), error)
                }
                None => Ok(Ok(self.without_secrets(value))),
            },
            // Only the end of the connection says that a body without a length is complete.
            Err(error) if error.is_eof() && has_no_end && !body.trim_ascii().is_empty() => {
                Err(self.ended_early(path, timeout))
            }
            Err(_) => {
                let is_page = body.trim_ascii_start().starts_with(b"<");
                let what = match kind.as_str() {
                    _ if body.trim_ascii().is_empty() => "is empty".into(),
                    _ if is_page => "is a web page and no JSON".into(),
                    "" => "is not JSON (no type)".into(),
                    kind => {
                        let kind = ToldFailure::by_others(shorten(&self.hide(kind)));
                        ToldFailure::from("is not JSON (").and(kind).and(")")
                    }
                };
                let (asked, advice) = (self.shown(path), self.other_address());
                let what = ToldFailure::from(format!("the response of {asked} "))
                    .and(what)
                    .and(format!("; {advice}"));
                Err(self.transient(FailureCause::InvalidAnswer, what, None))
            }
        }
    }

    /// What to do about a server that is not the one of the API.
    pub(super) fn other_address(&self) -> String {
        let is_usual = self.shown("").trim_end_matches('/').ends_with("/v1");
        let usual = if is_usual { "" } else { ", which often ends in /v1" };
        format!("set provider.{}.base_url to the address of the API{usual}", self.provider)
    }

    /// Reads an answer that arrives as a stream.
    fn read_stream(
        &self,
        path: &str,
        response: Response<ureq::Body>,
        timeout: Duration,
        listener: Option<&dyn Listener>,
    ) -> Result<HttpReply, ModelError> {
        let (head, body) = response.into_parts();
        let header = |name: &str| header(&head.headers, name);
        let mut reader = body.into_with_config().limit(STREAM_BYTES_MAX).reader();
        let (mut events, mut whole) = (Events::default(), Assembled::default());
        let (mut alive, mut told, mut buffer) =
            (Instant::now(), Instant::now(), vec![0; READ_BYTES]);
        loop {
            let read = reader.read(&mut buffer);
            let mut take = |data: String| {
                self.check_values(data.as_bytes()).map_err(Ended::Failed)?;
                if let StreamEvent::Text(text) = whole.take(&data).map_err(Ended::Refused)? {
                    alive = Instant::now();
                    if listener.is_some_and(|listener| !listener.heard(&self.hide(&text))) {
                        return Err(Ended::Failed(self.not_wanted()));
                    }
                }
                Ok(())
            };
            let taken = match &read {
                // A connection that ends in the middle of an event leaves a part of it, which is no event.
                Ok(0) => events.finish(&mut |data| match stream::is_whole(&data) {
                    true => take(data),
                    false => Ok(()),
                }),
                Ok(count) => events.feed(&buffer[..*count], &mut take),
                Err(_) => Ok(()),
            };
            match (taken, read) {
                (Err(Ended::Failed(error)), _) => return Err(error),
                (Err(Ended::Refused(error)), _) => {
                    let status = error.status.unwrap_or(500);
                    return Ok(Err(self.refused(path, status, &header, None, error)));
                }
                (Ok(()), Ok(0) | Err(_)) if whole.is_complete() => break,
                (Ok(()), Ok(0)) => return Err(self.ended_early(path, timeout)),
                (Ok(()), Err(error)) => return Err(self.failed(path, &error.into(), timeout)),
                // A server that only says that it is alive makes no progress. A model that thinks and
                // does not show it is such a server, so it gets more time, and not for ever.
                (Ok(()), Ok(_)) if alive.elapsed() > timeout * SIGNS_OF_LIFE => {
                    return Err(self.too_slow(timeout * SIGNS_OF_LIFE));
                }
                (Ok(()), Ok(_)) if told.elapsed() > SIGN_PAUSE => {
                    told = Instant::now();
                    if listener.is_some_and(|listener| !listener.heard("")) {
                        return Err(self.not_wanted());
                    }
                }
                (Ok(()), Ok(_)) => {}
            }
        }
        Ok(Ok(self.without_secrets(whole.response())))
    }

    /// What a server said instead of an answer.
    fn refused(
        &self,
        path: &str,
        status: u16,
        header: &dyn Fn(&str) -> Option<String>,
        elsewhere: Option<String>,
        mut error: ServerError,
    ) -> Box<Refused> {
        for said in [&mut error.words, &mut error.code, &mut error.param] {
            *said = self.hide(said);
        }
        let retry_after = server_error::pause(header, status, &error);
        let mut code = shorten(&error.code);
        if error.is_out_of_quota() {
            code = OUT_OF_QUOTA.to_owned();
        }
        let (words, asked) = (shorten(&error.words), self.shown(path));
        let is_of_day = error.is_of_day();
        let is_about_key = error.is_about_key();
        let is_too_long = error.is_too_long();
        let refusal = Refusal {
            status,
            words,
            code,
            asked,
            elsewhere,
            retry_after,
            is_of_day,
            is_about_key,
            is_too_long,
        };
        Box::new(Refused { refusal, error })
    }

    /// Refuses JSON that would take many times its size in memory.
    fn check_values(&self, json: &[u8]) -> Result<(), ModelError> {
        let values = json.iter().filter(|byte| matches!(byte, b',' | b'[' | b'{')).count();
        if values <= VALUES_MAX {
            return Ok(());
        }
        let what = format!("the response holds {values} values; the limit is {VALUES_MAX}");
        Err(self.permanent(FailureCause::InvalidAnswer, what))
    }

    /// The connection ended before the answer did.
    fn ended_early(&self, path: &str, timeout: Duration) -> ModelError {
        self.failed(path, &ureq::Error::Io(ErrorKind::UnexpectedEof.into()), timeout)
    }

    fn too_slow(&self, limit: Duration) -> ModelError {
        ModelError::Timeout { provider: self.provider.clone(), limit }
    }

    fn not_wanted(&self) -> ModelError {
        let what = "the call was ended, because its answer is not wanted any more";
        self.permanent(FailureCause::Program, what)
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
        let unreachable = |cause: FailureCause, what: ToldFailure| {
            let advice = format!(
                " at {}; start the server, or correct provider.{provider}.base_url",
                self.shown(path)
            );
            self.transient(cause, what.and(advice), None)
        };
        match error {
            ureq::Error::Timeout(_) => ModelError::Timeout { provider, limit: timeout },
            ureq::Error::BodyExceedsLimit(_) => {
                let what = format!("the response is longer than {BODY_BYTES_MAX} bytes");
                self.permanent(FailureCause::InvalidAnswer, what)
            }
            ureq::Error::BadUri(_) | ureq::Error::Http(_) => self.bad_address(),
            ureq::Error::Io(error) if error.kind() == ErrorKind::TimedOut => {
                ModelError::Timeout { provider, limit: timeout }
            }
            ureq::Error::Io(error) => match error.kind() {
                ErrorKind::ConnectionRefused => {
                    unreachable(FailureCause::ConnectionRefused, error.kind().to_string().into())
                }
                ErrorKind::HostUnreachable
                | ErrorKind::NetworkUnreachable
                | ErrorKind::AddrNotAvailable => {
                    unreachable(FailureCause::Unreachable, error.kind().to_string().into())
                }
                ErrorKind::UnexpectedEof
                | ErrorKind::ConnectionReset
                | ErrorKind::ConnectionAborted
                | ErrorKind::BrokenPipe => self.transient(
                    FailureCause::ConnectionLost,
                    format!(
                        "{} closed the connection before its answer was complete",
                        self.shown(path)
                    ),
                    None,
                ),
                _ if error.to_string().contains(BAD_CERTIFICATE) => {
                    let what = ToldFailure::from(format!("{}: ", self.shown(path)))
                        .and(ToldFailure::by_others(shorten(&error.to_string())))
                        .and(format!(
                            "; if its certificate is one of your own, set \
                             provider.{provider}.ca_file to the file of its authority"
                        ));
                    self.transient(FailureCause::Unreachable, what, None)
                }
                // Among these is a host name that does not resolve.
                _ => {
                    let said = ToldFailure::by_others(shorten(&self.hide(&error.to_string())));
                    unreachable(FailureCause::Unreachable, said)
                }
            },
            ureq::Error::HostNotFound => {
                unreachable(FailureCause::Unreachable, "the host is not found".into())
            }
            ureq::Error::ConnectionFailed => {
                unreachable(FailureCause::Unreachable, "no connection".into())
            }
            other => {
                let what = ToldFailure::by_others(shorten(&self.hide(&other.to_string())));
                self.transient(FailureCause::Unreachable, what, None)
            }
        }
    }

    /// What a refusal means. `model` is the model that was asked for.
    pub(crate) fn judge(&self, refused: &Refused, model: &str) -> ModelError {
        let (provider, has_key) = (self.provider.as_str(), self.key.is_some());
        let asked = Asked { provider, has_key, key_env: self.key_env.as_deref(), model };
        // Some servers send 429 or 500 for a prompt that no pause makes shorter.
        if refused.error.is_too_long() && refused.status() >= 400 {
            let reason = refused.refusal.said();
            return ModelError::OverLimit { provider: provider.to_owned(), reason };
        }
        refused.refusal.judge(&asked)
    }

    pub(crate) fn permanent(
        &self,
        cause: FailureCause,
        reason: impl Into<ToldFailure>,
    ) -> ModelError {
        ModelError::Permanent { provider: self.provider.clone(), reason: reason.into(), cause }
    }

    pub(crate) fn transient(
        &self,
        cause: FailureCause,
        reason: impl Into<ToldFailure>,
        retry_after: Option<Duration>,
    ) -> ModelError {
        let (provider, reason) = (self.provider.clone(), reason.into());
        ModelError::Transient { provider, reason, retry_after, cause }
    }
}

/// Why reading a stream ended early.
enum Ended {
    Failed(ModelError),
    Refused(ServerError),
}

fn header(headers: &HeaderMap, name: &str) -> Option<String> {
    headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned)
}

fn is_stream(response: &Response<ureq::Body>) -> bool {
    let kind = header(response.headers(), "content-type").unwrap_or_default();
    kind.trim_start().to_ascii_lowercase().starts_with(EVENT_STREAM)
}

fn model_ids(list: &Value) -> Option<Vec<String>> {
    let entries = list.get("data")?.as_array()?;
    // llama.cpp answers with the one model that it has, whatever the name.
    if entries.iter().any(|entry| entry["owned_by"] == "llamacpp") {
        return None;
    }
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
        let said = |text: &str| shorten(&endpoint.hide(text));
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
