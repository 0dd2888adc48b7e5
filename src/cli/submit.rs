//! `submit`: validates requests, appends each with one atomic write, and with `--wait` follows their
//! acks. It needs neither a running service nor the log.

use std::collections::BTreeSet;
use std::io::Read as _;
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgGroup, Args};
use serde_json::{Map, Value, json};

use super::acks::{AckTail, Ended, why};
use super::all_new::all_new;
use super::causes::append_failed;
use super::failure::{Exit, Failure};
use super::held_home::make_home;
use super::identity::{no_random_bytes, random_bytes};
use super::inspect::sources_of;
use super::intake::AGAIN;
use super::outcome::{Made, Naming, made_lines, name_earlier};
use super::prose::Prose;
use super::returned::{came_back, earlier_answer};
use super::serve::moment;
use super::settings::{load_config, load_registry};
use super::waiting::{Wait, tell_obstacle};
use super::{Context, names, ui};
use crate::config::{Config, parse_duration_ms};
use crate::contract::request::{Input, Request, RequestedBy};
use crate::contract::vocabulary::{Bus, SummaryKind, Urgency};
use crate::control::socket::ControlClient;
use crate::home::Home;
use crate::seam::append::append;
use crate::seam::build::{RequestParts, build_request};
use crate::upstream::other;
use crate::work::content_key::content_key;

/// Requests appended with one lock and one sync.
const APPEND_AT_ONCE: usize = 1024;
/// Requests whose answers are looked for among those that are there.
const ANSWERS_LOOKED_FOR: usize = 16;

/// Validate requests and append them to the queue
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("made").args(["flow", "all_new"]).multiple(true)))]
#[command(after_help = "Examples:
  summarizer submit requests.jsonl --wait
  summarizer submit --flow brief --id note.txt --wait
  summarizer submit --all-new --bus event_bus")]
pub(crate) struct SubmitArgs {
    /// A file of requests, one JSON object on each line; `-` reads standard input
    #[arg(value_name = "FILE", conflicts_with_all = ["flow", "all_new"])]
    file: Option<PathBuf>,
    /// Request a summary of everything on the upstream buses that no request names yet
    ///
    /// Sessions, documents, and events that belong to no session, each with the flow for its kind.
    #[arg(long, conflicts_with_all = ["ids", "request_id", "key", "variant", "params", "again",
        "not_before", "deadline", "priority"])]
    all_new: bool,
    /// Follow the acks until every request has ended, and print them
    #[arg(long)]
    wait: bool,
    /// With --wait: the longest wait, such as "30 s". Requests that have not ended stay in the queue, and
    /// the exit code is 1
    #[arg(long, requires = "wait", value_name = "DURATION", value_parser = duration)]
    timeout: Option<Duration>,
    /// Build one request: the flow to run
    #[arg(long, value_name = "FLOW_ID")]
    flow: Option<String>,
    /// The variant of the flow
    #[arg(long, requires = "flow")]
    variant: Option<String>,
    /// Kind of summary: event_summary, session_summary, chunk_set_summary, document_summary, other
    #[arg(long, requires = "flow", default_value = "document_summary")]
    kind: String,
    /// Subkind of the summary, such as brief
    #[arg(long, requires = "flow", default_value = "other")]
    subkind: String,
    /// The bus of the input: event_bus, session_bus, chunk_bus, other [default: other, and every
    /// bus for --all-new]
    #[arg(long, requires = "made")]
    bus: Option<String>,
    /// An id to summarize; repeat for more
    #[arg(long = "id", requires = "flow", value_name = "ID")]
    ids: Vec<String>,
    /// A flow parameter, `name=value`; a value that is valid JSON is read as JSON
    #[arg(long = "param", requires = "flow", value_name = "K=V")]
    params: Vec<String>,
    /// Idempotency key [default: made from work, content and model]
    #[arg(long, requires = "flow")]
    key: Option<String>,
    /// Ask again, although the same request was made before
    #[arg(long, requires = "flow")]
    again: bool,
    /// Request id [default: a random UUID]
    #[arg(long, requires = "flow")]
    request_id: Option<String>,
    /// Do not start before this time; the request is then scheduled
    #[arg(long, requires = "flow", value_name = "T")]
    not_before: Option<String>,
    /// The time by which the summary is needed
    #[arg(long, requires = "flow", value_name = "T")]
    deadline: Option<String>,
    /// The priority, from 1 (most urgent) to 5
    #[arg(long, requires = "flow")]
    priority: Option<u8>,
    /// The repository that makes the request
    #[arg(long, requires = "flow", default_value = "cli")]
    repo: String,
    /// Only append the requests, and do not print their ids
    #[arg(long, hide = true)]
    silent: bool,
}

impl SubmitArgs {
    pub(super) fn run(&self, context: &Context) -> Result<Exit, Failure> {
        let config = load_config(context)?;
        let home = Home::new(&context.home, &config);
        make_home(context, &home)?;
        let records = match self.all_new {
            true => self.new_records(context, &config, &home)?,
            false => self.records(context)?,
        };
        if records.is_empty() && self.all_new {
            let what = "nothing is new: requests already name everything on the upstream buses";
            match context.ui.json {
                true => context.ui.json(&json!({"submitted": 0, "request_ids": []})),
                false => context.ui.talk(what),
            }
            return Ok(Exit::Done);
        }
        if records.is_empty() {
            return Err(Failure::new(Exit::Input, "no request was given")
                .hint("give a file of requests, `-`, --all-new, or --flow with --id"));
        }
        let disk = context.machine.disk.as_ref();
        self.refuse_unknown_flow(context)?;
        let tail = AckTail::from_end(context, home.acks());
        let (mut ids, mut keys) = (BTreeSet::new(), Vec::new());
        for (index, record) in records.iter().enumerate() {
            let request = Request::parse(record.as_bytes())
                .map_err(|refusal| refused(index, &refusal.errors))?;
            keys.extend(request.idempotency_key.map(|key| (request.request_id.clone(), key)));
            ids.insert(request.request_id);
        }
        let earlier = earlier_answers(context, &home, &keys)?;
        for part in records.chunks(APPEND_AT_ONCE) {
            let part: Vec<&str> = part.iter().map(String::as_str).collect();
            append(disk, &home.queue, &part).map_err(|error| append_failed(&error))?;
        }
        if self.wait {
            let wait = Wait { socket: home.socket(), timeout: self.timeout, leaves_put_off: false };
            return follow(context, &wait, tail, &ids, earlier);
        }
        if context.ui.json {
            context.ui.json(&json!({"submitted": records.len(), "request_ids": ids}));
        } else if !self.silent {
            ids.iter().for_each(|id| context.ui.out(id));
        }
        if !self.silent {
            let mut ended = Ended::default();
            earlier.into_iter().for_each(|ack| ended.take(ack));
            name_earlier(context, &ended, Naming::All);
            tell_obstacle(context, &home.socket());
        }
        Ok(Exit::Done)
    }

    /// The flow by its id, or by a short name of it.
    fn flow_id(&self, context: &Context) -> Result<Option<String>, Failure> {
        self.flow.as_deref().map(|flow| names::flow_id(context, flow)).transpose()
    }

    fn bus(&self) -> Result<Option<Bus>, Failure> {
        let Some(name) = self.bus.as_deref() else { return Ok(None) };
        let known = || Bus::ALL.iter().map(|bus| bus.as_str());
        Bus::parse(name).map(Some).ok_or_else(|| names::unknown("bus", name, known()))
    }

    fn new_records(
        &self,
        context: &Context,
        config: &Config,
        home: &Home,
    ) -> Result<Vec<String>, Failure> {
        let (bus, flow) = (self.bus()?, self.flow_id(context)?);
        if bus == Some(Bus::Other) {
            return Err(Failure::new(Exit::Usage, "--all-new does not read the bus `other`")
                .hint("`summarizer add PATH` imports files and requests their summaries"));
        }
        let found = all_new(context, config, home, bus, flow.as_deref())?;
        Ok(found.into_values().collect())
    }

    /// The service decides when it reads the line. A mistyped flow or file is reported immediately, before
    /// anything is appended.
    fn refuse_unknown_flow(&self, context: &Context) -> Result<(), Failure> {
        let (Some(flow), Ok(registry)) = (self.flow_id(context)?, load_registry(context)) else {
            return Ok(());
        };
        let known = || registry.records().iter().map(|record| record.flow_id.as_str());
        if !known().any(|known| known == flow) {
            return Err(names::unknown("flow", &flow, known()));
        }
        if self.all_new || self.bus()?.is_some_and(|bus| bus != Bus::Other) {
            return Ok(());
        }
        let config = load_config(context)?;
        let folder = context.home.join(&config.bus_home).join("other");
        let disk = context.machine.disk.as_ref();
        // Summaries of the home are sources too, and `path#key` is one item of a list.
        for id in self.ids.iter().filter(|id| !id.starts_with("sum_")) {
            let path = id.strip_prefix("other:").unwrap_or(id);
            let path = path.split_once('#').map_or(path, |(path, _)| path);
            let Ok(path) = other::plain(path) else {
                let what = format!("{id} is no id of the bus `other`");
                let folder = folder.display();
                return Err(Failure::new(Exit::Usage, what).hint(format!(
                    "an id is the path of a file below {folder}; `summarizer add` brings a file there"
                )));
            };
            if matches!(disk.stat(&folder.join(path)), Ok(None)) {
                let files = disk.list(&folder).unwrap_or_default();
                return Err(names::unknown("file", id, files.iter().map(String::as_str)));
            }
        }
        Ok(())
    }

    fn records(&self, context: &Context) -> Result<Vec<String>, Failure> {
        if self.flow.is_some() {
            return Ok(vec![self.built(context)?]);
        }
        let text = match &self.file {
            None => return Ok(Vec::new()),
            Some(file) if file.as_os_str() == "-" => {
                let mut text = String::new();
                std::io::stdin().lock().read_to_string(&mut text).map_err(|error| {
                    Failure::new(Exit::Input, "cannot read standard input").because(&error)
                })?;
                text
            }
            Some(file) => {
                let bytes = context.machine.disk.read(file).map_err(|error| {
                    let what = format!("cannot read {}", file.display());
                    Failure::new(Exit::Input, what).because(&error)
                })?;
                String::from_utf8(bytes).map_err(|error| {
                    let what = format!("{} is not UTF-8", file.display());
                    Failure::new(Exit::Input, what).because(&error)
                })?
            }
        };
        // A file that is one JSON object over several lines is one request.
        if let Ok(Value::Object(_)) = serde_json::from_str(&text) {
            return Ok(vec![text]);
        }
        Ok(text.lines().filter(|line| !line.trim().is_empty()).map(str::to_owned).collect())
    }

    fn built(&self, context: &Context) -> Result<String, Failure> {
        let usage = |what: String| Failure::new(Exit::Usage, what);
        let kind = SummaryKind::parse(&self.kind)
            .ok_or_else(|| usage(format!("no kind {}", self.kind)).hint(words(SummaryKind::ALL)))?;
        let bus = self.bus()?.unwrap_or(Bus::Other);
        if self.ids.is_empty() {
            return Err(usage("--flow needs at least one --id".to_owned()));
        }
        let mut params = Map::new();
        for pair in &self.params {
            let (name, value) = pair
                .split_once('=')
                .ok_or_else(|| usage(format!("--param {pair}: expected name=value")))?;
            let value = serde_json::from_str(value).unwrap_or_else(|_| value.into());
            params.insert(name.to_owned(), value);
        }
        let now = context.machine.clock.now();
        if self.again {
            params.insert(AGAIN.to_owned(), now.0.into());
        }
        let not_before = self.not_before.as_deref().map(moment).transpose()?;
        let mut parts = RequestParts {
            request_id: self.request_id.clone(),
            requested_by: RequestedBy {
                repo: self.repo.clone(),
                component: "cli".to_owned(),
                version: env!("CARGO_PKG_VERSION").to_owned(),
                git_commit: None,
            },
            urgency: if not_before.is_some() { Urgency::Scheduled } else { Urgency::Now },
            not_before,
            deadline: self.deadline.as_deref().map(moment).transpose()?,
            priority: self.priority,
            idempotency_key: self.key.clone(),
            kind,
            subkind: self.subkind.clone(),
            flow_id: self.flow_id(context)?.unwrap_or_default(),
            variant: self.variant.clone(),
            params,
            input: Input::Ids { bus, ids: self.ids.clone() },
            notes: None,
        };
        let random = random_bytes().map_err(|error| no_random_bytes(&error))?;
        let config = load_config(context)?;
        let home = Home::new(&context.home, &config);
        let build = |parts: &RequestParts| {
            let mut record = build_request(parts, now, random);
            // An invalid request is refused later, with all that is wrong with it.
            let request = Request::parse(record.to_string().as_bytes()).ok();
            let request = request.filter(|request| request.idempotency_key.is_none());
            let key = request
                .map(|request| content_key(&context.machine, &home.buses, &config, &request));
            if let Some(key) = &key {
                record["idempotency_key"] = key.as_str().into();
            }
            (record.to_string(), key)
        };
        let (record, key) = build(&parts);
        if let Some(key) = key
            && !self.again
            && came_back(context, &home, &key)?
        {
            parts.params.insert(AGAIN.to_owned(), now.0.into());
            return Ok(build(&parts).0);
        }
        Ok(record)
    }
}

/// A duration from the command line.
fn duration(text: &str) -> Result<Duration, String> {
    let ms = parse_duration_ms(text).and_then(|ms| u64::try_from(ms).ok());
    ms.map(Duration::from_millis).ok_or_else(|| "expected a duration such as \"30 s\"".to_owned())
}

fn words<W: std::fmt::Display>(words: &[W]) -> String {
    let words: Vec<String> = words.iter().map(W::to_string).collect();
    format!("one of {}", words.join(", "))
}

fn refused(index: usize, errors: &[crate::contract::schema::Violation]) -> Failure {
    let list: Vec<String> = errors.iter().map(ToString::to_string).collect();
    Failure::new(
        Exit::Input,
        format!(
            "request {} is invalid; nothing was appended\n    {}",
            index + 1,
            list.join("\n    ")
        ),
    )
    .hint("`summarizer schema summary_request.v1` prints the schema")
}

/// The answers that are there already, where no service would name them. Each is an ack.
fn earlier_answers(
    context: &Context,
    home: &Home,
    keys: &[(String, String)],
) -> Result<Vec<Value>, Failure> {
    if keys.len() > ANSWERS_LOOKED_FOR || ControlClient::connect(&home.socket()).is_ok() {
        return Ok(Vec::new());
    }
    let answers = keys.iter().map(|(id, key)| earlier_answer(context, home, id, key));
    answers.filter_map(Result::transpose).collect()
}

/// Prints the acks of some requests until each has a terminal one, then the titles of what was made. `earlier` has
/// the answers that are there already.
fn follow(
    context: &Context,
    wait: &Wait,
    mut tail: AckTail,
    ids: &BTreeSet<String>,
    earlier: Vec<Value>,
) -> Result<Exit, Failure> {
    let is_answered = |id: &String| earlier.iter().any(|ack| ack["request_id"] == id.as_str());
    let open: Vec<String> = ids.iter().filter(|id| !is_answered(id)).cloned().collect();
    earlier.iter().for_each(|ack| print_ack(context, ack));
    let mut ended = match open.is_empty() {
        true => Ended::default(),
        false => wait.run(context, &mut tail, &open, |ack| print_ack(context, ack))?,
    };
    earlier.into_iter().for_each(|ack| ended.take(ack));
    let good = |ack: &Value| matches!(ack["status"].as_str(), Some("completed" | "duplicate"));
    if !context.ui.json {
        name_earlier(context, &ended, Naming::Replaced);
        let made = Made::wait_with_earlier(context, &ended);
        made_lines(Prose::of_stdout(), &made).iter().for_each(|line| context.ui.out(line));
        let failed: Vec<(&String, &Value)> =
            ended.acks.iter().filter(|(_, ack)| !good(ack)).collect();
        let names = sources_of(context, failed.iter().map(|(id, _)| id.as_str()));
        for (name, ack) in failed.iter().filter_map(|(id, ack)| Some((names.get(*id)?, ack))) {
            context.ui.complain(format!("{name}: {}", why(ack)));
        }
        context.ui.talk(ui::dim("next: `summarizer read` shows the newest summaries"));
    }
    Ok(if ended.acks.values().all(good) { Exit::Done } else { Exit::Wrong })
}

fn print_ack(context: &Context, ack: &Value) {
    if context.ui.json {
        context.ui.json(ack);
        return;
    }
    let text = |name: &str| ack[name].as_str().unwrap_or_default().to_owned();
    let status = text("status");
    let status = match status.as_str() {
        "completed" => ui::green(&status),
        "accepted" | "duplicate" => status,
        _ => ui::red(&status),
    };
    let mut said = format!("{}  {}  {status}", text("at"), text("request_id"));
    let next = ack["retry_at"].as_str().map(|at| format!("the next attempt: {at}"));
    let cause = ack["cause"].as_str().map(|cause| format!("({cause})"));
    let details = [Some(text("reason_code")), cause, Some(text("message")), next];
    for detail in details.into_iter().flatten() {
        if !detail.is_empty() {
            said.push_str(&format!("  {detail}"));
        }
    }
    if let Some(path) = ack["summary"]["path"].as_str() {
        said.push_str(&format!("  {}", ui::dim(path)));
    }
    context.ui.out(said);
}
