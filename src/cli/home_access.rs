//! How a command reaches a home: through the socket of the process that holds it, otherwise in this
//! process. The command does not see the difference.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::Context;
use super::causes::busy;
use super::failure::{Exit, Failure};
use super::held_home::{BRIEF_HOLDER, HeldHome, is_home, no_home};
use super::lost_log::refuse_lost_log;
use super::settings::load_config;
use super::source_files::known_name;
use super::ui::{self, beginning_of_id};
use crate::config::nearest;
use crate::contract::places::folded;
use crate::control::question::{Answer, Question};
use crate::control::socket::ControlClient;
use crate::home::Home;
use crate::state::flows::Flows;

/// How long a command waits for a service that is starting.
const STARTING_PATIENCE: Duration = Duration::from_secs(120);

/// Requests among which a mistyped id is looked for.
const LOOKED_AT: usize = 1000;

/// Reaches a home for a command that writes, and makes a missing one.
pub(crate) fn open_or_make(context: &Context) -> Result<HomeAccess, Failure> {
    let config = load_config(context)?;
    reach(context, &Home::new(&context.home, &config).socket())
}

/// The pack that each used flow id is bound to. Empty where there is no log yet.
pub(crate) fn flows_used(context: &Context) -> Result<Flows, Failure> {
    let home = Home::new(&context.home, &load_config(context)?);
    let exists = home.exists(context.machine.disk.as_ref());
    if !matches!(exists, Ok(true)) {
        return Ok(Flows::default());
    }
    let mut session = HomeAccess::open(context)?;
    let answer = session.ask(context, &Question::FlowsUsed);
    session.close()?;
    let mut flows = Flows::default();
    for one in answer?["flows"].as_array().into_iter().flatten() {
        let text = |name: &str| one[name].as_str().map(str::to_owned);
        let pack = text("pack_hash").and_then(|hash| hash.parse().ok());
        if let (Some(flow_id), Some(pack)) = (text("flow_id"), pack) {
            flows.used.insert((flow_id, text("variant")), pack);
        }
    }
    Ok(flows)
}

/// Access to a home, for questions.
pub enum HomeAccess {
    /// The process that holds the home answers.
    Beside(ControlClient),
    /// This process holds the home.
    Within(Box<HeldHome>),
}

impl HomeAccess {
    /// Reaches an existing home.
    pub fn open(context: &Context) -> Result<HomeAccess, Failure> {
        let config = load_config(context)?;
        let home = Home::new(&context.home, &config);
        let exists = home.exists(context.machine.disk.as_ref());
        let exists = exists.map_err(|error| {
            let what = format!("cannot look at {}", context.home.display());
            Failure::new(Exit::Storage, what).because(&error)
        })?;
        if !exists {
            refuse_lost_log(context, &home)?;
        }
        if !exists && !is_home(context)? {
            return Err(no_home(context, "make one there with `summarizer init`"));
        }
        reach(context, &home.socket())
    }

    /// Asks a question; refusals and unknown names become failures.
    pub fn ask(&mut self, context: &Context, question: &Question) -> Result<Value, Failure> {
        let deadline = Instant::now() + STARTING_PATIENCE;
        loop {
            let answer = match self {
                HomeAccess::Within(held) => held.ask(context, question.clone())?,
                HomeAccess::Beside(client) => client.ask(question).map_err(|error| busy(&error))?,
            };
            match answer {
                Answer::Ok(value) => return Ok(value),
                Answer::Refused(why) => return Err(Failure::new(Exit::Wrong, why)),
                Answer::NotFound(what) => {
                    let failure = Failure::new(Exit::Input, what);
                    let newest = match named_request(question) {
                        Some(_) => self.newest_requests(context),
                        None => BTreeSet::new(),
                    };
                    if let Some(whole) = with_whole_id(question, &newest) {
                        return self.ask(context, &whole);
                    }
                    if let Some(hint) = begun_by(question, &newest) {
                        return Err(failure.hint(hint));
                    }
                    if let Some(near) = nearest_request(question, &newest) {
                        return Err(failure.hint(format!("did you mean {near}?")));
                    }
                    return Err(match where_names_are(question) {
                        Some(hint) => failure.hint(hint),
                        None => failure,
                    });
                }
                Answer::Starting(how_far) if *question == Question::Status => {
                    return Ok(json!({"starting": how_far}));
                }
                Answer::Starting(how_far) if Instant::now() > deadline => {
                    let what = format!("the service is still starting: {how_far}");
                    return Err(Failure::new(Exit::Busy, what));
                }
                Answer::Starting(_) => std::thread::sleep(Duration::from_millis(200)),
            }
        }
    }

    /// Asks about a request by its id, or by the name of its source.
    pub(super) fn ask_named(
        &mut self,
        context: &Context,
        question: &Question,
    ) -> Result<Value, Failure> {
        let answer = self.ask(context, question);
        let is_unknown = matches!(&answer, Err(failure) if failure.exit == Exit::Input);
        let word = named_request(question).filter(|_| is_unknown);
        match word.and_then(|word| self.request_of(context, word)) {
            Some(id) => self.ask(context, &about(question, &id)),
            None => answer,
        }
    }

    /// The newest request about a source that a person names, among the newest ones.
    pub(super) fn request_of(&mut self, context: &Context, word: &str) -> Option<String> {
        let name = folded(&known_name(context, word));
        let page = self.ask(context, &newest(true)).ok()?;
        let rows = page["requests"].as_array().into_iter().flatten();
        let is_meant = |row: &&Value| {
            let source = row["source"].as_str().map(folded).unwrap_or_default();
            let before = source.strip_suffix(&name);
            before.is_some_and(|before| before.is_empty() || before.ends_with('/'))
        };
        rows.filter(is_meant).find_map(|row| row["request_id"].as_str().map(str::to_owned))
    }

    /// The ids of the newest requests: those that are found by their beginnings.
    pub(super) fn newest_requests(&mut self, context: &Context) -> BTreeSet<String> {
        let page = self.ask(context, &newest(false)).unwrap_or_default();
        let rows = page["requests"].as_array().into_iter().flatten();
        rows.filter_map(|row| row["request_id"].as_str().map(str::to_owned)).collect()
    }

    /// Closes a home that this process holds.
    pub fn close(self) -> Result<(), Failure> {
        match self {
            HomeAccess::Within(held) => held.close(),
            HomeAccess::Beside(_) => Ok(()),
        }
    }
}

/// Takes the home, or connects to the process that holds it.
fn reach(context: &Context, socket: &Path) -> Result<HomeAccess, Failure> {
    // The holder may be about to open its socket, or about to end.
    let deadline = Instant::now() + BRIEF_HOLDER;
    loop {
        if let Some(held) = HeldHome::take(context, false)? {
            return Ok(HomeAccess::Within(Box::new(held)));
        }
        match ControlClient::connect(socket) {
            Ok(client) => return Ok(HomeAccess::Beside(client)),
            Err(error) if Instant::now() > deadline => return Err(busy(&error)),
            Err(_) => std::thread::sleep(Duration::from_millis(50)),
        }
    }
}

/// The newest requests, with the names of their sources or without.
fn newest(names: bool) -> Question {
    Question::Requests {
        state: None,
        flow: None,
        since_ms: None,
        before: None,
        limit: Some(LOOKED_AT),
        names,
    }
}

/// The id of the request that a question names.
fn named_request(question: &Question) -> Option<&str> {
    match question {
        Question::Show { id }
        | Question::Explain { id, .. }
        | Question::Retry { request_id: id }
        | Question::Cancel { request_id: id } => Some(id),
        _ => None,
    }
}

/// The question with the whole id, where only one request has an id with this beginning. Only ids that tables show by
/// their beginnings count: `nightly-1` is no beginning of `nightly-10`.
fn with_whole_id(question: &Question, newest: &BTreeSet<String>) -> Option<Question> {
    let begun = named_request(question)?;
    let is_meant = |id: &&String| {
        id.starts_with(begun) && beginning_of_id(id).is_some_and(|one| begun.starts_with(one))
    };
    if newest.contains(begun) {
        return None;
    }
    let mut all = newest.iter().filter(is_meant);
    let whole = all.next().filter(|_| all.next().is_none())?;
    Some(about(question, whole))
}

/// The same question about another request.
fn about(question: &Question, request: &str) -> Question {
    let mut question = question.clone();
    if let Question::Show { id }
    | Question::Explain { id, .. }
    | Question::Retry { request_id: id }
    | Question::Cancel { request_id: id } = &mut question
    {
        request.clone_into(id);
    }
    question
}

/// What a beginning of ids begins.
fn begun_by(question: &Question, newest: &BTreeSet<String>) -> Option<String> {
    let begun = named_request(question).filter(|begun| !begun.is_empty())?;
    let is_begun = |id: &&String| id.starts_with(begun) && beginning_of_id(id).is_some();
    let ids: Vec<&String> = newest.iter().filter(is_begun).collect();
    match ids.as_slice() {
        [] => None,
        [only] => Some(format!("did you mean {only}?")),
        many => Some(format!(
            "{} begin with {begun}: give more of the id, as `summarizer requests` shows it",
            ui::count(many.len(), "request")
        )),
    }
}

/// The newest request whose id is similar to the id in a question. A request that is known was named rightly.
fn nearest_request(question: &Question, newest: &BTreeSet<String>) -> Option<String> {
    let id = named_request(question).filter(|id| !newest.contains(*id))?;
    nearest(id, newest.iter().map(String::as_str))
}

/// The command that lists the names that a question accepts.
fn where_names_are(question: &Question) -> Option<&'static str> {
    match question {
        Question::Show { .. }
        | Question::Explain { .. }
        | Question::Retry { .. }
        | Question::Cancel { .. } => Some("`summarizer requests` lists requests, newest first"),
        Question::QuarantineShow { .. } | Question::QuarantineReleased { .. } => {
            Some("`summarizer quarantine list` lists the quarantined lines")
        }
        _ => None,
    }
}
