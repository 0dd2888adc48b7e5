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
//! Reading needs no login: an address that is not loopback shows everything to everybody who reaches it.
//!
//! See docs/adr/0063-read-only-status-page.md.

mod actions;
mod api;
mod http;
mod metrics;
mod newest;
mod page;
mod reading;
mod spend;
mod tally;

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::control::socket::Asker;
use crate::digest::project::ProjectRules;
use http::{Method, Refused, Request, Response};

pub use actions::{Actions, Given};
pub use tally::Tally;

/// Connections served at the same time. A further one gets status 503.
const CONNECTIONS_MAX: usize = 16;
/// How long a whole request may take to arrive, and an answer to be taken.
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
    /// How summaries get their project now.
    pub project_rules: Arc<dyn Fn() -> ProjectRules + Send + Sync>,
}

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
    let busy = Arc::new(AtomicUsize::new(0));
    std::thread::Builder::new().name("web".to_owned()).spawn(move || {
        for stream in listener.incoming().flatten() {
            accept(stream, &busy, &shown);
        }
    })?;
    Ok(address)
}

fn accept(mut stream: TcpStream, busy: &Arc<AtomicUsize>, shown: &Arc<Shown>) {
    let _ = stream.set_read_timeout(Some(PATIENCE));
    let _ = stream.set_write_timeout(Some(PATIENCE));
    if busy.fetch_add(1, Ordering::AcqRel) >= CONNECTIONS_MAX {
        busy.fetch_sub(1, Ordering::AcqRel);
        let _ = Response::plain(503, "too many connections; try again\n").send(&mut stream, false);
        return;
    }
    let (mine, shown) = (Arc::clone(busy), Arc::clone(shown));
    let thread = std::thread::Builder::new().name("web-caller".to_owned());
    let spawned = thread.spawn(move || {
        serve(&mut stream, &shown);
        mine.fetch_sub(1, Ordering::AcqRel);
    });
    if spawned.is_err() {
        busy.fetch_sub(1, Ordering::AcqRel);
    }
}

fn serve(stream: &mut TcpStream, shown: &Shown) {
    let refused = |Refused { status, why }| Response::plain(status, &format!("{why}\n"));
    let (response, head_only) = match Request::read(stream, Instant::now() + PATIENCE) {
        Ok((request, body)) if request.method == Method::Post => {
            let response = match actions::may_act(&request, shown) {
                Ok(()) => match body.read(stream) {
                    Ok(body) => actions::act(&request, body, shown),
                    Err(error) => refused(error),
                },
                Err((status, why)) => {
                    body.discard(stream, actions::BODY_BYTES_MAX);
                    Response::json(status, &serde_json::json!({"error": why}))
                }
            };
            (response, false)
        }
        Ok((request, _)) => (answer(&request, shown), request.method == Method::Head),
        Err(error) => (refused(error), false),
    };
    // A reader that went away misses its answer.
    let _ = response.send(stream, head_only);
    // What it still sends is not read: closing in the middle of that would lose the answer.
    let _ = stream.shutdown(std::net::Shutdown::Write);
}

fn answer(request: &Request, shown: &Shown) -> Response {
    match request.path.as_str() {
        "/" => page::page(),
        "/metrics" => metrics::metrics(shown),
        path => match path.strip_prefix("/api/") {
            Some(name) => api::answer(name, request, shown),
            None => Response::plain(404, "there is nothing here\n"),
        },
    }
}
