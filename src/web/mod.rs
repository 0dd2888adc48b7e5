//! The page and metrics: a small HTTP server that shows what a home holds, and takes orders from a
//! person who has the token.
//!
//! Contract. Off unless an address is configured or `summarizer open` asks for it. `GET` and `HEAD`
//! change nothing; `POST` needs the token and the same origin (`actions`). It asks the sequencer the
//! same questions as the control socket, so its answers equal those of a command. All is bounded:
//! open connections, bytes of a request, time to send and receive it, rows of an answer. A request
//! must name this machine by an address or `localhost` (`http`), so that no page of somebody else can
//! read it through a name that leads here. The page is one document with everything in it; its policy
//! allows exactly its own script and style by their hashes, and its script makes no markup from text.
//!
//! What it shows of the home needs the token of this start of the service, or the cookie that a browser got
//! for it (`login`). Slow connections do not keep others out (`budget`).
//!
//! See docs/adr/0063-read-only-status-page.md.

mod actions;
mod api;
mod budget;
mod http;
mod login;
mod metrics;
mod newest;
mod page;
mod reading;
mod spend;
mod tally;

use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::control::socket::Asker;
use crate::digest::project::ProjectRules;
use crate::upstream::file_names::KnownBy;
use budget::{Budget, Place};
use http::{Method, Refused, Request, Response};

pub use actions::{Actions, Given};
pub use login::Login;
pub use tally::Tally;

/// How long the head of a request may take to arrive.
const HEAD_WITHIN: Duration = Duration::from_secs(5);
/// How long a body may take to arrive, an answer to be taken, and a request to wait for its turn.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often the charts get a point.
const SAMPLE_EVERY: Duration = Duration::from_secs(1);

#[derive(Clone)]
pub struct Shown {
    pub(crate) asker: Asker,
    /// What was counted since the start.
    pub tally: Arc<Tally>,
    /// The home, for its name.
    pub home: PathBuf,
    pub buses: PathBuf,
    pub snapshots: PathBuf,
    pub actions: Actions,
    pub login: Login,
    /// How summaries get their project now.
    pub project_rules: Arc<dyn Fn() -> ProjectRules + Send + Sync>,
    /// What has at least one of these words in its names, by the ids of what was taken from it.
    pub files_with_words: FindFiles,
}

/// Finds what has at least one of some words in its names.
pub type FindFiles = Arc<dyn Fn(&[String]) -> Arc<FileNames> + Send + Sync>;

/// What sources are known by beside their summaries, by their ids.
pub type FileNames = BTreeMap<String, KnownBy>;

/// Starts answering; gives the address, which the system chose when port 0 was asked for.
pub fn start(address: SocketAddr, shown: Shown) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind(address)?;
    let address = listener.local_addr()?;
    let shown = Arc::new(shown);
    let sampled = Arc::clone(&shown);
    std::thread::Builder::new().name("samples".to_owned()).spawn(move || {
        loop {
            sampled.tally.sample(&sampled.asker);
            std::thread::sleep(SAMPLE_EVERY);
        }
    })?;
    let budget = Arc::new(Budget::default());
    std::thread::Builder::new().name("web".to_owned()).spawn(move || {
        for stream in listener.incoming().flatten() {
            accept(stream, &budget, &shown);
        }
    })?;
    Ok(address)
}

fn accept(mut stream: TcpStream, budget: &Arc<Budget>, shown: &Arc<Shown>) {
    let _ = stream.set_read_timeout(Some(HEAD_WITHIN));
    let _ = stream.set_write_timeout(Some(PATIENCE));
    let Some(mut place) = budget.enter(&stream) else {
        let _ = too_many().send(&mut stream, false);
        return;
    };
    let shown = Arc::clone(shown);
    let thread = std::thread::Builder::new().name("web-caller".to_owned());
    // Without a thread the connection is closed.
    let _ = thread.spawn(move || serve(&mut stream, &shown, &mut place));
}

fn too_many() -> Response {
    Response::plain(503, "too many connections; try again\n")
}

fn serve(stream: &mut TcpStream, shown: &Shown, place: &mut Place) {
    let (response, head_only) = match Request::read(stream, Instant::now() + HEAD_WITHIN) {
        Ok((request, body)) => {
            // A caller that may read keeps its connection. Any other connection may be closed for a
            // new one.
            if shown.login.may_read(&request).is_ok() && !place.has_spoken() {
                return;
            }
            let head_only = request.method == Method::Head;
            match request.method {
                Method::Post => (acted(stream, &request, body, shown, place), head_only),
                Method::Get | Method::Head => (shown_to(&request, shown, place), head_only),
            }
        }
        Err(refused) => (refusal(refused), false),
    };
    // A reader that went away misses its answer.
    let _ = response.send(stream, head_only);
    // What it still sends is not read: closing in the middle of that would lose the answer.
    let _ = stream.shutdown(std::net::Shutdown::Write);
}

fn refusal(Refused { status, why }: Refused) -> Response {
    Response::plain(status, &format!("{why}\n"))
}

fn error((status, why): http::HttpFailure) -> Response {
    Response::json(status, &serde_json::json!({"error": why}))
}

/// Does what a `POST` orders.
fn acted(
    stream: &mut TcpStream,
    request: &Request,
    body: http::Body,
    shown: &Shown,
    place: &Place,
) -> Response {
    let body = body.until(Instant::now() + PATIENCE);
    if let Err(failure) = actions::may_act(request, shown) {
        body.discard(stream, actions::BODY_BYTES_MAX);
        return error(failure);
    }
    match body.read(stream) {
        Ok(body) => {
            let done = place.answer(PATIENCE, || actions::act(request, body, shown));
            done.unwrap_or_else(too_many)
        }
        Err(refused) => refusal(refused),
    }
}

/// Answers `GET` and `HEAD`.
fn shown_to(request: &Request, shown: &Shown, place: &Place) -> Response {
    match needs_login(&request.path, shown, request) {
        Ok(()) => place.answer(PATIENCE, || answer(request, shown)).unwrap_or_else(too_many),
        Err(failure) => error(failure),
    }
}

/// Everything that shows something of the home is below `/api/`. The page is the same for every home, and
/// `/metrics` and `/health` have no text, id or name of a source: programs that ask them keep no token.
fn needs_login(path: &str, shown: &Shown, request: &Request) -> Result<(), http::HttpFailure> {
    match path.starts_with("/api/") {
        true => shown.login.may_read(request),
        false => Ok(()),
    }
}

fn answer(request: &Request, shown: &Shown) -> Response {
    match request.path.as_str() {
        "/" => page::page(),
        "/health" => Response::plain(200, "ok\n"),
        "/metrics" => metrics::metrics(shown),
        path => match path.strip_prefix("/api/") {
            Some(name) => api::answer(name, request, shown),
            None => Response::plain(404, "there is nothing here\n"),
        },
    }
}
