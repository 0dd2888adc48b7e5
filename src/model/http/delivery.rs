//! Messages for a server that is no model: bytes out, and whether they were taken.

use std::time::{Duration, Instant};

use serde_json::Value;

use super::{Endpoint, READ_BYTES, header};
use crate::config::{ProviderConfig, ProviderKind};
use crate::model::server_error::retry_after;

/// Most bytes of an answer that are read.
const ANSWER_BYTES_MAX: u64 = 64 << 10;
/// Longest pause that a server may ask for.
const PAUSE_MAX: Duration = Duration::from_secs(300);

/// What became of a message. A reason repeats nothing that the server said.
#[derive(Debug)]
pub(crate) enum Delivered {
    /// With the answer of the server, null where it is no JSON.
    Taken(Value),
    /// It may be taken later, perhaps after a pause.
    Later(Option<Duration>, String),
    /// It will never be taken.
    Refused(String),
}

/// The address of such a server.
pub(crate) struct Delivery {
    endpoint: Endpoint,
    path: &'static str,
}

impl Delivery {
    pub(crate) fn new(address: &str, path: &'static str) -> Delivery {
        let config = ProviderConfig {
            kind: ProviderKind::OpenAi,
            base_url: Some(address.to_owned()),
            ..ProviderConfig::default()
        };
        let endpoint = Endpoint::new("the collector", &config, None);
        Delivery { endpoint, path }
    }

    /// The address without its secrets.
    pub(crate) fn shown(&self) -> String {
        self.endpoint.shown(self.path)
    }

    /// Posts JSON and waits for the answer.
    pub(crate) fn send(
        &self,
        json: &[u8],
        headers: &[(String, String)],
        timeout: Duration,
    ) -> Delivered {
        let Ok(url) = self.endpoint.url(self.path) else {
            return Delivered::Refused("its address is not a web address".to_owned());
        };
        let agent = self.endpoint.connections.lend();
        let config = agent.post(url).config().timeout_global(Some(timeout));
        let mut request = config.build().header("content-type", "application/json");
        let has_own = headers.iter().any(|(name, _)| name == "authorization");
        if let Some((name, value)) = self.endpoint.basic().filter(|_| !has_own) {
            request = request.header(name, value);
        }
        for (name, value) in headers {
            request = request.header(name.as_str(), value.as_str());
        }
        let response = match request.send(json) {
            Ok(response) => response,
            Err(error) => {
                let cause = self.endpoint.failed(self.path, &error, timeout).cause();
                return Delivered::Later(None, format!("{}: {}", self.shown(), cause.as_str()));
            }
        };
        let status = response.status().as_u16();
        let said = |name: &str| header(response.headers(), name);
        let pause =
            said("retry-after").and_then(|text| retry_after(&text, said("date").as_deref()));
        let pause = pause.map(|pause| pause.min(PAUSE_MAX));
        let answer = read_some(response, timeout);
        let why = || format!("{} answered with status {status}", self.shown());
        match status {
            200..300 => Delivered::Taken(answer),
            429 | 502 | 503 | 504 => Delivered::Later(pause, why()),
            _ => Delivered::Refused(why()),
        }
    }
}

/// Reads the answer so that the connection can be used again.
fn read_some(response: ureq::http::Response<ureq::Body>, timeout: Duration) -> Value {
    use std::io::Read as _;
    let mut reader = response.into_body().into_with_config().limit(ANSWER_BYTES_MAX).reader();
    let (mut bytes, mut buffer, begun) = (Vec::new(), vec![0; READ_BYTES], Instant::now());
    while begun.elapsed() < timeout {
        match reader.read(&mut buffer) {
            Ok(0) => return serde_json::from_slice(&bytes).unwrap_or_default(),
            Ok(count) => bytes.extend_from_slice(&buffer[..count]),
            Err(_) => break,
        }
    }
    Value::Null
}
