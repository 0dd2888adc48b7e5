//! Waiting for the ends of requests that this process does not work on.
//!
//! Contract: a wait reports why requests do not proceed. When no process works on the queue, or when
//! the service is paused, a line on standard error says so immediately, and again when it changes.
//!
//! See docs/adr/0094-requests-that-cannot-go-on.md.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::acks::{AckTail, Ended, PAUSE, is_final, is_put_off_for_long};
use super::failure::{Exit, Failure};
use super::home_access::HomeAccess;
use super::interrupt::{listen, stopped};
use super::plain::plain_line;
use super::settings::is_shared;
use super::{Context, ui};
use crate::control::question::{Answer, Question};
use crate::control::socket::ControlClient;
use crate::control::waits::WaitsFor;

/// Time between two looks at the process that holds the home.
const LOOK: Duration = Duration::from_secs(1);
/// Ids that an error names.
const NAMED: usize = 5;

/// What the process that holds a home does with requests.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Holder {
    Working,
    /// No process works on the queue.
    Missing {
        is_shared: bool,
    },
    /// The service takes nothing in; each word is a cause.
    Paused(String),
}

impl Holder {
    fn of(context: &Context, socket: &std::path::Path) -> Holder {
        let Ok(mut client) = ControlClient::connect(socket) else {
            return Holder::Missing { is_shared: is_shared(context) };
        };
        let Ok(Answer::Ok(status)) = client.ask(&Question::Status) else { return Holder::Working };
        Holder::told_by(&status)
    }

    fn told_by(status: &Value) -> Holder {
        let causes = status["paused"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let causes: Vec<&str> = causes.collect();
        match causes.is_empty() {
            true => Holder::Working,
            false => Holder::Paused(causes.join(", ")),
        }
    }

    /// Why requests wait, and what to do about it.
    fn obstacle(&self) -> Option<String> {
        match self {
            Holder::Working => None,
            Holder::Missing { is_shared: true } => Some(
                "no service runs here: requests stay in the queue until `summarizer serve` runs on this host".to_owned(),
            ),
            Holder::Missing { is_shared: false } => Some(
                "no service runs here: requests stay in the queue until `summarizer drain` or \
                 `summarizer serve` processes them"
                    .to_owned(),
            ),
            Holder::Paused(causes) if causes == "operator" => {
                Some("the service is paused: requests wait until `summarizer resume`".to_owned())
            }
            Holder::Paused(causes) => Some(format!(
                "the service is paused ({causes}): requests wait; `summarizer doctor` says what to do"
            )),
        }
    }
}

/// Why single requests wait, by their ids: the first ones of those that have not ended.
fn waits_of(socket: &std::path::Path, left: &BTreeSet<&str>) -> BTreeMap<String, String> {
    let Ok(mut client) = ControlClient::connect(socket) else { return BTreeMap::new() };
    let waits = left.iter().take(NAMED).filter_map(|id| {
        let question = Question::Show { id: (*id).to_owned() };
        let Ok(Answer::Ok(shown)) = client.ask(&question) else { return None };
        let waits = &shown["latest"]["waits"];
        // Its turn comes soon: that is no reason a person can do something about.
        let why =
            waits["message"].as_str().filter(|_| WaitsFor::of(waits) != Some(WaitsFor::Turn))?;
        let source = shown["latest"]["source"].as_str().map(|name| format!("{name}: "));
        Some(((*id).to_owned(), plain_line(&(source.unwrap_or_default() + why))))
    });
    waits.collect()
}

/// Says what keeps new requests waiting, if anything does.
pub(super) fn tell_obstacle(context: &Context, socket: &std::path::Path) {
    if let Some(obstacle) = Holder::of(context, socket).obstacle() {
        context.ui.talk(obstacle);
    }
}

/// What keeps requests waiting, as the state of the home tells it.
pub(super) fn obstacle_told_by(status: &Value) -> Option<String> {
    Holder::told_by(status).obstacle()
}

/// Says that a home is paused, where a session in it found nothing to do.
pub(super) fn tell_pause(context: &Context) -> Result<(), Failure> {
    let mut home = HomeAccess::open(context)?;
    let status = home.ask(context, &Question::Status);
    home.close()?;
    if let Some(obstacle) = obstacle_told_by(&status?) {
        context.ui.talk(obstacle);
    }
    Ok(())
}

/// A wait for requests.
pub(super) struct Wait {
    pub socket: PathBuf,
    /// Ends the wait with an error.
    pub timeout: Option<Duration>,
    /// Ends the wait where all that is left is put off for long. What put it off is among the failing.
    pub leaves_put_off: bool,
}

impl Wait {
    /// Waits until every request has ended. `open` names them.
    pub(super) fn run(
        &self,
        context: &Context,
        tail: &mut AckTail,
        open: &[String],
        mut seen: impl FnMut(&Value),
    ) -> Result<Ended, Failure> {
        let mut left: BTreeSet<&str> = open.iter().map(String::as_str).collect();
        let stop = listen(context, "the requests stay in the queue", || ())?;
        let bar = context.ui.progress("waiting", left.len() as u64);
        let mut ended = Ended::default();
        let (begun, mut looked) = (Instant::now(), None::<Instant>);
        let mut holder = Holder::Working;
        let mut waits = BTreeMap::new();
        while !left.is_empty() {
            let acks = tail.acks()?;
            let idle = acks.is_empty();
            for ack in acks {
                let Some(id) = ack["request_id"].as_str().filter(|id| left.contains(id)) else {
                    continue;
                };
                bar.suspend(|| seen(&ack));
                if is_final(&ack) {
                    left.remove(id);
                    bar.inc(1);
                }
                ended.take(ack);
            }
            let is_put_off = |id: &&str| ended.failing.get(*id).is_some_and(is_put_off_for_long);
            if self.leaves_put_off && left.iter().all(is_put_off) {
                break;
            }
            if !idle || left.is_empty() {
                continue;
            }
            if looked.is_none_or(|at| at.elapsed() >= LOOK) {
                let now = Holder::of(context, &self.socket);
                if now != holder {
                    let changed = now.obstacle().unwrap_or("a service works again".to_owned());
                    bar.suspend(|| context.ui.talk(ui::dim(&changed)));
                    holder = now;
                }
                if holder == Holder::Working {
                    let now = waits_of(&self.socket, &left);
                    for (id, why) in now.iter().filter(|(id, why)| waits.get(*id) != Some(*why)) {
                        bar.suspend(|| context.ui.talk(ui::dim(&format!("{id} waits: {why}"))));
                    }
                    waits = now;
                }
                looked = Some(Instant::now());
            }
            if stop.is_raised() {
                bar.finish_and_clear();
                let open = ui::count(left.len(), "request");
                let why = holder.obstacle();
                let next = "the service continues; `summarizer requests` lists them".to_owned();
                return Err(stopped(format!("{open} not ended yet"), why.unwrap_or(next)));
            }
            if let Some(timeout) = self.timeout.filter(|timeout| begun.elapsed() >= *timeout) {
                bar.finish_and_clear();
                return Err(timed_out(&left, timeout, &holder));
            }
            std::thread::sleep(PAUSE);
        }
        bar.finish_and_clear();
        Ok(ended)
    }
}

fn timed_out(left: &BTreeSet<&str>, timeout: Duration, holder: &Holder) -> Failure {
    let mut named: Vec<&str> = left.iter().copied().take(NAMED).collect();
    if left.len() > NAMED {
        named.push("…");
    }
    let (open, named) = (ui::count(left.len(), "request"), named.join(", "));
    let verb = if left.len() == 1 { "has" } else { "have" };
    let what = format!("{open} {verb} not ended within {} s: {named}", timeout.as_secs_f64());
    let why = holder
        .obstacle()
        .unwrap_or_else(|| "`summarizer show ID` shows the state of a request".to_owned());
    Failure::new(Exit::Wrong, what).hint(format!("the queue keeps them; {why}"))
}
