//! Files for and from a server: an upload, and answers of one JSON value a line.

use std::io::{BufRead, BufReader, Read};
use std::time::Duration;

use serde_json::Value;

use super::{Endpoint, Headers, HttpReply, ModelError, ServerError, header};
use crate::contract::vocabulary::FailureCause;

/// Most bytes of a file of answers.
const FILE_BYTES_MAX: u64 = 512 << 20;
/// Most bytes of one line of it.
const LINE_BYTES_MAX: u64 = 8 << 20;
/// What separates the parts of an upload. No JSON line begins with it.
const BOUNDARY: &str = "summarizer-batch-7f1d0c52";

impl Endpoint {
    /// Uploads one file with one field beside it.
    pub(crate) fn upload(
        &self,
        path: &str,
        (field, value): (&str, &str),
        (name, content): (&str, &str),
        headers: &Headers,
        timeout: Duration,
    ) -> Result<HttpReply, ModelError> {
        let begun = std::time::Instant::now();
        let agent = self.connections.lend();
        let config = agent.post(self.url(path)?).config().timeout_global(Some(timeout));
        let kind = format!("multipart/form-data; boundary={BOUNDARY}");
        let mut request = config.build().header("content-type", kind);
        for (name, value) in headers {
            request = request.header(*name, value);
        }
        let body = format!(
            "--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"{field}\"\r\n\r\n{value}\r\n\
             --{BOUNDARY}\r\nContent-Disposition: form-data; name=\"file\"; filename=\"{name}\"\r\n\
             Content-Type: application/jsonl\r\n\r\n{content}\r\n--{BOUNDARY}--\r\n"
        );
        let sent = request.send(body.as_bytes());
        let response = sent.map_err(|error| self.failed(path, &error, timeout))?;
        self.read(path, response, begun, timeout)
    }

    /// Removes something; what the server says does not matter.
    pub(crate) fn delete(&self, path: &str, headers: &Headers, timeout: Duration) {
        let Ok(url) = self.url(path) else { return };
        let agent = self.connections.lend();
        let mut request = agent.delete(url).config().timeout_global(Some(timeout)).build();
        for (name, value) in headers {
            request = request.header(*name, value);
        }
        let _ = request.call();
    }

    /// Reads a file of JSON lines. A line that is no JSON is left out.
    pub(crate) fn lines(
        &self,
        path: &str,
        headers: &Headers,
        timeout: Duration,
        each: &mut dyn FnMut(Value),
    ) -> Result<HttpReply, ModelError> {
        let agent = self.connections.lend();
        let config = agent.get(self.url(path)?).config();
        let config = config.timeout_recv_response(Some(timeout)).timeout_per_read(Some(timeout));
        let mut request = config.build();
        for (name, value) in headers {
            request = request.header(*name, value);
        }
        let sent = request.call();
        let response = sent.map_err(|error| self.failed(path, &error, timeout))?;
        if !response.status().is_success() {
            let begun = std::time::Instant::now();
            return self.read(path, response, begun, timeout);
        }
        let (head, body) = response.into_parts();
        if header(&head.headers, "content-encoding").is_some() {
            let what = format!("{} sent a compressed file", self.shown(path));
            return Err(self.transient(FailureCause::InvalidAnswer, what, None));
        }
        let mut reader = BufReader::new(body.into_with_config().limit(FILE_BYTES_MAX).reader());
        let mut line = Vec::new();
        loop {
            line.clear();
            let read = reader.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line);
            if read.map_err(|error| self.failed(path, &error.into(), timeout))? == 0 {
                return Ok(Ok(Value::Null));
            }
            if self.check_values(&line).is_ok()
                && let Ok(value) = serde_json::from_slice(&line)
            {
                each(self.without_secrets(value));
            }
        }
    }

    /// The error of a refused line of a batch.
    pub(crate) fn line_error(&self, value: &Value) -> String {
        let error = ServerError::read(value.to_string().as_bytes());
        super::shorten(&self.hide(&error.words))
    }
}
