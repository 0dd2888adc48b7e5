//! What a person may do on the page: retry, cancel, pause, resume, release a quarantined line, and
//! ask for a text.
//!
//! Contract. An action is a `POST` below `/api/do/` that names the token of this session in an
//! `Authorization` header and comes from a page of this same server (`Origin`). A browser sends
//! neither for a page of somebody else. Without them nothing is read from the body and nothing
//! happens. The token is made anew at each start of a service.
//!
//! See docs/adr/0101-actions-of-the-page.md.

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Value, json};

use super::Shown;
use super::api::ask;
use super::http::{HttpFailure, Request, Response};
use super::login::ADVICE;
use crate::control::question::Question;
use crate::control::release::{ReleaseError, release};
use crate::os::Disk;

/// Bytes of a text that is pasted or uploaded.
pub(super) const BODY_BYTES_MAX: u64 = 16 << 20;
const PATH: &str = "/api/do/";

/// A text that a person gives to be summarized.
pub struct Given {
    /// The name of its file.
    pub name: String,
    pub bytes: Vec<u8>,
    pub project: Option<String>,
    pub flow: Option<String>,
}

/// Takes a text in; answers with what was asked for, or why not.
pub(super) type TakeIn = dyn Fn(Given) -> Result<Value, String> + Send + Sync;

/// What actions need beside the questions of the control socket.
#[derive(Clone)]
pub struct Actions {
    pub disk: Arc<dyn Disk>,
    pub queue: PathBuf,
    pub take_in: Arc<TakeIn>,
}

/// Whether a request may act; judged before its body is read.
pub(super) fn may_act(request: &Request, shown: &Shown) -> Result<(), HttpFailure> {
    if !request.path.starts_with(PATH) {
        return Err((405, "this path only shows".to_owned()));
    }
    if request.length > BODY_BYTES_MAX {
        return Err((413, format!("more than {} MiB: use `summarizer add`", BODY_BYTES_MAX >> 20)));
    }
    if !request.is_same_origin() {
        return Err((403, "only the page of this server may act".to_owned()));
    }
    match shown.login.has_token(request) {
        true => Ok(()),
        false => Err((401, ADVICE.to_owned())),
    }
}

/// Carries out an action that may be carried out.
pub(super) fn act(request: &Request, body: Vec<u8>, shown: &Shown) -> Response {
    let done = match request.path.strip_prefix(PATH).unwrap_or_default() {
        // The browser exchanges the token for a cookie, so that its other tabs read too.
        "check" => {
            let answer = Response::json(200, &json!({"done": "checked"}));
            return answer.with_cookie(shown.login.cookie());
        }
        "pause" => ask(shown, Question::Pause),
        "resume" => ask(shown, Question::Resume),
        "retry" => id(request).and_then(|request_id| ask(shown, Question::Retry { request_id })),
        "cancel" => id(request).and_then(|request_id| ask(shown, Question::Cancel { request_id })),
        "release" => release_line(request, &body, shown),
        "ask" => take_in(request, body, shown),
        _ => Err((404, "there is no such action".to_owned())),
    };
    match done {
        Ok(value) => Response::json(200, &value),
        Err((status, why)) => Response::json(status, &json!({"error": why})),
    }
}

fn id(request: &Request) -> Result<String, HttpFailure> {
    request.parameter("id").map(str::to_owned).ok_or((400, "an id is wanted".to_owned()))
}

fn release_line(request: &Request, body: &[u8], shown: &Shown) -> Result<Value, HttpFailure> {
    let seq = request.number("seq").ok_or((400, "a line is wanted".to_owned()))?;
    let text = std::str::from_utf8(body).map_err(|_| (400, "the line is not UTF-8".to_owned()))?;
    let (disk, queue) = (&*shown.actions.disk, &shown.actions.queue);
    let released = release(disk, queue, seq, text, &mut |question| ask(shown, question));
    match released {
        Ok(request_id) => Ok(json!({"done": "released", "request_id": request_id})),
        Err(ReleaseError::Asked(failure)) => Err(failure),
        Err(ReleaseError::Invalid(errors)) => {
            let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
            Err((400, format!("the line is still not a valid request: {}", errors.join("; "))))
        }
        Err(ReleaseError::Append(error)) => {
            Err((503, format!("cannot append the line to the queue: {error}")))
        }
    }
}

fn take_in(request: &Request, bytes: Vec<u8>, shown: &Shown) -> Result<Value, HttpFailure> {
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return Err((400, "the text is empty".to_owned()));
    }
    // A service that is not up yet takes nothing in.
    ask(shown, Question::Status)?;
    let text = |name: &str| request.parameter(name).map(str::to_owned);
    let name = text("name").unwrap_or_else(|| "pasted.txt".to_owned());
    let given = Given { name, bytes, project: text("project"), flow: text("flow") };
    (shown.actions.take_in)(given).map_err(|why| (400, why))
}
