//! `demo`: makes a home with sample data, and processes it, in one command.
//!
//! Mails, chats, news, job posts and documents, in English and Spanish, are imported onto the buses.
//! Requests over all of them go into the queue, among them a repeat, an empty text, an unknown flow and
//! an invalid line. The embedded provider answers. The overview is read from the published files.

mod overview;
mod sample;

use std::path::PathBuf;

use clap::Args;

use super::Context;
use super::failure::{Exit, Failure};
use super::home_access::HomeAccess;
use super::run_home::run_service;
use super::settings::load_config;
use crate::control::question::Question;
use crate::home::Home;
use crate::os::Open;
use crate::projections::runs::RunQuestion;
use crate::service::Until;

/// The log of an agent run, to be compacted into a snapshot.
const RUN: &str = include_str!("demo/run.jsonl");
const RUN_ID: &str = "run_evidence_demo";

/// Make a home with sample data and requests, process them, and show the results
#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// The directory of the home; it must not exist or must be empty [default: a new directory under the
    /// temporary directory]
    dir: Option<PathBuf>,
}

impl DemoArgs {
    pub(crate) fn run(&self, context: &Context) -> Result<Exit, Failure> {
        let root = self.root(context)?;
        let demo = Context { home: root.clone(), config_file: None, ..context.clone() };
        let config = load_config(&demo)?;
        let home = Home::new(&root, &config);
        let failed = |error: &std::io::Error| {
            Failure::of_target(format!("cannot write the demo to {}", root.display()), error)
        };
        let disk = demo.machine.disk.as_ref();
        home.create(disk).map_err(|error| failed(&error))?;
        sample::write(&demo, &home, config.timezone).map_err(|error| {
            Failure::new(Exit::Storage, "cannot import the sample data").because(&error)
        })?;
        let now = demo.machine.clock.now();
        let queue = disk.open(&home.queue, Open::ReadWrite).map_err(|error| failed(&error))?;
        let lines = sample::requests(&demo, &home, now).map_err(|error| failed(&error))?;
        queue.append(lines.as_bytes()).map_err(|error| failed(&error))?;
        queue.sync().map_err(|error| failed(&error))?;
        let by = now.plus_ms(5_000);
        run_service(&demo, "demo", Until::Drained(Some(by)))?;
        let digests = super::digest::build(&demo)?;
        let snapshots = fold_run(&demo)?;
        let shown = overview::Shown::read(&demo, &home, digests, snapshots)?;
        if demo.ui.json {
            demo.ui.json(&shown.to_json(&home));
        } else {
            shown.print(&demo, &home);
        }
        Ok(if shown.violations == 0 { Exit::Done } else { Exit::Wrong })
    }

    fn root(&self, context: &Context) -> Result<PathBuf, Failure> {
        let Some(dir) = &self.dir else {
            let made = tempfile::Builder::new().prefix("summarizer-demo-").tempdir();
            return made.map(tempfile::TempDir::keep).map_err(|error| {
                Failure::new(Exit::Storage, "cannot make a temporary directory").because(&error)
            });
        };
        match context.machine.disk.list(dir) {
            Ok(names) if !names.is_empty() => {
                Err(Failure::new(Exit::Usage, format!("{} is not empty", dir.display()))
                    .hint("name an absent or empty directory"))
            }
            _ => Ok(dir.clone()),
        }
    }
}

/// Makes the sample run part of the log and takes a snapshot of it.
fn fold_run(context: &Context) -> Result<usize, Failure> {
    let mut session = HomeAccess::open(context)?;
    let append = RunQuestion::Append { text: RUN.to_owned(), first_line: 1, thresholds: None };
    session.ask(context, &Question::Run(append))?;
    let taken = Question::Run(RunQuestion::Snapshot { run_id: RUN_ID.to_owned() });
    session.ask(context, &taken)?;
    let home = Home::new(&context.home, &load_config(context)?);
    session.close()?;
    let files = context.machine.disk.list(&home.snapshots().join(RUN_ID)).unwrap_or_default();
    Ok(files.iter().filter(|name| name.ends_with(".md")).count())
}
