//! `submit`: validates requests, appends each with one atomic write, and with `--wait` follows their
//! acks. It needs neither a running service nor the log.

use std::collections::BTreeSet;
use std::io::{BufRead as _, Read as _};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use serde_json::{Map, Value, json};

use super::failure::{Exit, Failure};
use super::held::make_home;
use super::identity::random_bytes;
use super::serve::moment;
use super::settings::{load_config, load_registry};
use super::{Context, ui};
use crate::contract::request::{Input, Request, RequestedBy};
use crate::contract::vocabulary::{Bus, SummaryKind, Urgency};
use crate::home::Home;
use crate::os::Open;
use crate::seam::append::{AppendError, append};
use crate::seam::build::{RequestParts, build_request};

/// Requests appended with one lock and one sync.
const APPEND_AT_ONCE: usize = 1024;

/// Validate requests and append them to the queue
#[derive(Debug, Args)]
pub struct SubmitArgs {
    /// Requests, one JSON object a line; `-` reads standard input
    #[arg(value_name = "FILE", conflicts_with = "flow")]
    file: Option<PathBuf>,
    /// Follow the acks until every request has ended, and print them
    #[arg(long)]
    wait: bool,
    /// Build one request: the flow to run
    #[arg(long, value_name = "FLOW_ID")]
    flow: Option<String>,
    /// Its variant
    #[arg(long, requires = "flow")]
    variant: Option<String>,
    /// Kind of summary: event_summary, session_summary, chunk_set_summary, document_summary, other
    #[arg(long, requires = "flow", default_value = "document_summary")]
    kind: String,
    /// Finer kind
    #[arg(long, requires = "flow", default_value = "other")]
    subkind: String,
    /// Where the input lives: event_bus, session_bus, chunk_bus, other
    #[arg(long, requires = "flow", default_value = "other")]
    bus: String,
    /// An id to summarize; repeat for more
    #[arg(long = "id", requires = "flow", value_name = "ID")]
    ids: Vec<String>,
    /// A flow parameter, `name=value`; a value that is valid JSON is read as JSON
    #[arg(long = "param", requires = "flow", value_name = "K=V")]
    params: Vec<String>,
    /// Idempotency key
    #[arg(long, requires = "flow")]
    key: Option<String>,
    /// Request id [default: a random UUID]
    #[arg(long, requires = "flow")]
    request_id: Option<String>,
    /// Not before this time: makes the request scheduled
    #[arg(long, requires = "flow", value_name = "T")]
    not_before: Option<String>,
    /// Wanted by this time
    #[arg(long, requires = "flow", value_name = "T")]
    deadline: Option<String>,
    /// 1 (most urgent) to 5
    #[arg(long, requires = "flow")]
    priority: Option<u8>,
    /// The repo that asks
    #[arg(long, requires = "flow", default_value = "cli")]
    repo: String,
    /// Print no ids; only append
    #[arg(long, hide = true)]
    silent: bool,
}

impl SubmitArgs {
    pub fn run(&self, context: &Context) -> Result<Exit, Failure> {
        let records = self.records(context)?;
        if records.is_empty() {
            return Err(Failure::new(Exit::Input, "no request was given")
                .hint("give a file of requests, `-`, or --flow with --id"));
        }
        let config = load_config(context)?;
        let home = Home::new(&context.home, &config);
        let disk = context.machine.disk.as_ref();
        make_home(context, &home)?;
        self.warn_of_unknown_flow(context);
        let before = disk.stat(&home.acks()).ok().flatten().map_or(0, |stat| stat.len);
        let mut ids = BTreeSet::new();
        for (index, record) in records.iter().enumerate() {
            let request = Request::parse(record.as_bytes())
                .map_err(|refusal| refused(index, &refusal.errors))?;
            ids.insert(request.request_id);
        }
        for part in records.chunks(APPEND_AT_ONCE) {
            let part: Vec<&str> = part.iter().map(String::as_str).collect();
            append(disk, &home.queue, &part).map_err(|error| append_failed(&error))?;
        }
        if self.wait {
            return follow(context, &home, before, ids);
        }
        if context.ui.json {
            context.ui.json(&json!({"submitted": records.len(), "request_ids": ids}));
        } else if !self.silent {
            ids.iter().for_each(|id| context.ui.out(id));
        }
        Ok(Exit::Done)
    }

    /// The service decides when it reads the line. The warning here shows a typing error immediately.
    fn warn_of_unknown_flow(&self, context: &Context) {
        let (Some(flow), Ok(registry)) = (&self.flow, load_registry(context)) else { return };
        let known = || registry.records().iter().map(|record| record.flow_id.as_str());
        if known().any(|known| known == flow) {
            return;
        }
        let alike = |known: &str| {
            let (here, there) = (flow.chars(), known.chars());
            let front = here.clone().zip(there.clone()).take_while(|(a, b)| a == b).count();
            front + here.rev().zip(there.rev()).take_while(|(a, b)| a == b).count()
        };
        let nearest = known().max_by_key(|known| alike(known)).filter(|near| alike(near) > 10);
        let meant = nearest.map(|near| format!("; did you mean {near}?")).unwrap_or_default();
        let warning = ui::yellow("warning:");
        context.ui.talk(format!("{warning} no flow {flow} is registered here{meant}"));
        context.ui.talk("  `summarizer registry list` lists them");
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
        let bus = Bus::parse(&self.bus)
            .ok_or_else(|| usage(format!("no bus {}", self.bus)).hint(words(Bus::ALL)))?;
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
        let not_before = self.not_before.as_deref().map(moment).transpose()?;
        let parts = RequestParts {
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
            flow_id: self.flow.clone().unwrap_or_default(),
            variant: self.variant.clone(),
            params,
            input: Input::Ids { bus, ids: self.ids.clone() },
            notes: None,
        };
        let random = random_bytes().map_err(|error| {
            Failure::new(Exit::Storage, "cannot get random bytes").because(&error)
        })?;
        Ok(build_request(&parts, context.machine.clock.now(), random).to_string())
    }
}

fn words<W: std::fmt::Display>(words: &[W]) -> String {
    let words: Vec<String> = words.iter().map(W::to_string).collect();
    format!("one of {}", words.join(", "))
}

fn refused(index: usize, errors: &[crate::contract::schema::Violation]) -> Failure {
    let list: Vec<String> =
        errors.iter().map(|error| format!("{}: {}", error.pointer, error.message)).collect();
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

/// A failed append, with what to do about it.
pub fn append_failed(error: &AppendError) -> Failure {
    match error {
        AppendError::Io { .. } => Failure::new(Exit::Storage, "cannot append to the queue")
            .because(error)
            .hint("submitting again is safe: repeated requests become duplicates"),
        error => Failure::new(Exit::Input, "the request was not appended").because(error),
    }
}

/// Prints the acks of some requests until each has a terminal one.
fn follow(
    context: &Context,
    home: &Home,
    from: u64,
    mut open: BTreeSet<String>,
) -> Result<Exit, Failure> {
    let disk = context.machine.disk.as_ref();
    let mut offset = from;
    let mut failed = false;
    let mut pending = Vec::new();
    let mut buffer = vec![0; 1 << 16];
    while !open.is_empty() {
        let mut got = 0;
        if let Ok(file) = disk.open(&home.acks(), Open::Read) {
            got = file.read_at(&mut buffer, offset).map_err(|error| {
                Failure::new(Exit::Storage, "cannot read the acks").because(&error)
            })?;
        }
        if got == 0 {
            std::thread::sleep(Duration::from_millis(20));
            continue;
        }
        offset += got as u64;
        pending.extend_from_slice(&buffer[..got]);
        let whole = pending.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let lines: Vec<u8> = pending.drain(..whole).collect();
        for line in lines.lines().map_while(Result::ok) {
            let Ok(ack) = serde_json::from_str::<Value>(&line) else { continue };
            let Some(id) = ack["request_id"].as_str().filter(|id| open.contains(*id)) else {
                continue;
            };
            print_ack(context, &line, &ack);
            let status = ack["status"].as_str().unwrap_or_default();
            if !matches!(status, "accepted" | "failed_transient") {
                failed |= !matches!(status, "completed" | "duplicate");
                open.remove(id);
            }
        }
    }
    Ok(if failed { Exit::Wrong } else { Exit::Done })
}

fn print_ack(context: &Context, line: &str, ack: &Value) {
    if context.ui.json {
        context.ui.out(line);
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
    for detail in [text("reason_code"), text("message")] {
        if !detail.is_empty() {
            said.push_str(&format!("  {detail}"));
        }
    }
    if let Some(path) = ack["summary"]["path"].as_str() {
        said.push_str(&format!("  {}", ui::dim(path)));
    }
    context.ui.out(said);
}
