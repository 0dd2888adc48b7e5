//! Files into a home: imported, and asked about. What `add` and `[[watch]]` share.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde_json::Map;

use super::Context;
use super::causes::append_failed;
use super::failure::{Exit, Failure};
use super::forgotten_files::{ComeAgain, away};
use super::held_home::importing;
use super::identity::{no_random_bytes, random_bytes};
use super::source_files::{GoneFile, gone_among, gone_of, name_for_home};
use super::sum::flow_of;
use crate::config::Config;
use crate::contract::request::{Input, Request, RequestedBy};
use crate::contract::vocabulary::Urgency;
use crate::home::Home;
use crate::import::collect::{Collected, Skipped};
use crate::import::intake::{Intake, Settings, Subject};
use crate::import::read::Readers;
use crate::import::{ImportError, Report, Target};
use crate::os::Disk;
use crate::seam::append::append;
use crate::seam::build::{RequestParts, build_request};
use crate::upstream::file_names::event_files_below;
use crate::work::content_key::{imported_key, model_of};

/// Requests appended with one lock and one sync.
const APPEND_AT_ONCE: usize = 1024;

/// What is wished for all files of one command.
pub(super) struct RequestSettings<'a> {
    /// Folders that were read as a whole: files below them that are missing were removed.
    pub folders: &'a [PathBuf],
    pub flow: Option<&'a str>,
    pub project: Option<&'a str>,
    /// Whether to ask anew for what has a summary already.
    pub again: bool,
}

/// The parameter whose number grows, so that the same work has another key and another summary.
pub(super) const AGAIN: &str = "again";

/// Files that were imported and asked about.
pub(super) struct ImportedFiles {
    /// The ids of the requests, each with the name of its source.
    pub requests: BTreeMap<String, String>,
    pub report: Report,
    pub skipped: Vec<Skipped>,
    /// Files that were not read, because the command or the service was asked to end.
    pub unread: Vec<PathBuf>,
    pub gone: Vec<GoneFile>,
    pub come_again: ComeAgain,
}

/// Imports files and appends a request for each thing in them.
pub(super) fn take_in(
    context: &Context,
    config: &Config,
    home: &Home,
    found: Collected,
    wish: &RequestSettings<'_>,
) -> Result<ImportedFiles, Failure> {
    let _importing = importing(context, home)?;
    let target = Target {
        disk: &*context.machine.disk,
        root: &home.buses,
        zone: config.timezone,
        now: context.machine.clock.now(),
    };
    let settings = Settings {
        readers: Readers { pdf: config.extract_pdf.clone() },
        project: wish.project.map(str::to_owned),
        gap_ms: config.session_gap_ms,
        only_chats: false,
    };
    let away = away(context, home, target).map_err(|error| not_added(&error))?;
    let mut intake = Intake::new(target, settings);
    let mut report = Report::default();
    let bar = context.ui.progress("importing", found.files.len() as u64);
    let mut unread = Vec::new();
    for file in &found.files {
        if context.stop.is_raised() {
            unread.push(file.given().to_owned());
            continue;
        }
        intake.take(file, &mut report).map_err(|error| not_added(&error))?;
        bar.inc(1);
    }
    let mut gone = Vec::new();
    for folder in wish.folders {
        let name = name_for_home(target.disk, &home.root, folder);
        let known = intake.documents_below(&name, &mut report);
        let documents = gone_of(context, known.map_err(|error| not_added(&error))?);
        // Mails and chats lie on another bus than documents. What is attached to a mail has its name on both.
        let mut files = event_files_below(target.disk, target.root, &name);
        files.retain(|name| documents.iter().all(|one| one.name != *name));
        gone.extend(documents.into_iter().chain(gone_among(context, files)));
        gone.sort_by(|a, b| a.name.cmp(&b.name));
    }
    let parts = intake.parts_gone(&mut report).map_err(|error| not_added(&error))?;
    gone.extend(parts.into_iter().map(|name| GoneFile { name, same: None }));
    let subjects = intake.finish(&mut report).map_err(|error| not_added(&error))?;
    let given: BTreeSet<&str> = found.files.iter().map(|file| file.name.as_str()).collect();
    let come_again = ComeAgain::after(target, away, |file| given.contains(file));
    let come_again = come_again.map_err(|error| not_added(&error))?;
    bar.finish_and_clear();
    let (mut requests, mut lines) = (BTreeMap::new(), Vec::new());
    let mut models: BTreeMap<String, Option<String>> = BTreeMap::new();
    for subject in subjects {
        let flow = wish.flow.unwrap_or(flow_of(&config.default_flow, subject.group));
        let model = models
            .entry(flow.to_owned())
            .or_insert_with(|| model_of(&context.machine, config, flow, None));
        let (id, line) =
            request((context, config), &subject, flow, model.as_deref(), "add", wish.again)?;
        requests.insert(id, subject.name);
        lines.push(line);
    }
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    for part in lines.chunks(APPEND_AT_ONCE) {
        let appended = append(&*context.machine.disk, &home.queue, part);
        appended.map_err(|error| append_failed(&error))?;
    }
    let mut skipped = found.skipped;
    let parts: BTreeMap<&str, &str> = found
        .files
        .iter()
        .filter_map(|file| Some((file.name.as_str(), file.kind.part()?)))
        .collect();
    skipped.extend(report.rejected.iter().map(|one| {
        let part = parts.get(one.file.as_str()).filter(|_| one.number > 0);
        let part = part.map(|what| format!("{what} {}", one.number));
        Skipped { part, ..Skipped::whole(one.file.clone(), one.why.clone(), !one.is_empty) }
    }));
    Ok(ImportedFiles { requests, report, skipped, unread, gone, come_again })
}

/// Gives files the names they have in the home, also those that are not read.
pub(super) fn rename_for_home(disk: &dyn Disk, home: &Path, found: &mut Collected) {
    for file in &mut found.files {
        file.name = name_for_home(disk, home, &file.path);
    }
    for one in found.skipped.iter_mut().filter(|one| !one.is_own() && !one.is_link()) {
        one.name = name_for_home(disk, home, Path::new(&one.name));
    }
}

/// A request for a subject by a command: its id and its line. Its key stands for the content and for
/// the model that would answer.
pub(super) fn request(
    (context, config): (&Context, &Config),
    subject: &Subject,
    flow: &str,
    model: Option<&str>,
    command: &str,
    again: bool,
) -> Result<(String, String), Failure> {
    let random = random_bytes().map_err(|error| no_random_bytes(&error))?;
    let now = context.machine.clock.now();
    let day = subject.day.map(|day| ("day".to_owned(), day.to_string().into()));
    let number = if again { now.0 } else { i64::try_from(subject.forgotten).unwrap_or(i64::MAX) };
    let again = (number > 0).then(|| (AGAIN.to_owned(), number.into()));
    let parts = RequestParts {
        request_id: None,
        requested_by: RequestedBy {
            repo: "summarizer".to_owned(),
            component: command.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            git_commit: None,
        },
        urgency: Urgency::Now,
        not_before: None,
        deadline: None,
        priority: None,
        idempotency_key: None,
        kind: subject.kind,
        subkind: "other".to_owned(),
        flow_id: flow.to_owned(),
        variant: None,
        params: Map::from_iter(day.into_iter().chain(again)),
        input: Input::Ids { bus: subject.bus, ids: vec![subject.id.clone()] },
        notes: None,
    };
    let mut record = build_request(&parts, now, random);
    if let Ok(request) = Request::parse(record.to_string().as_bytes()) {
        record["idempotency_key"] = imported_key(config, model, &request).into();
    }
    let id = record["request_id"].as_str().unwrap_or_default().to_owned();
    Ok((id, record.to_string()))
}

pub(super) fn not_added(error: &ImportError) -> Failure {
    let failure = Failure::new(Exit::Input, "cannot add these files").because(error);
    match error {
        ImportError::Foreign { .. } => {
            failure.hint("imports append only to partitions that an import made")
        }
        _ => failure,
    }
}
