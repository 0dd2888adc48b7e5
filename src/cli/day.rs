//! `day open`: a day that exists on the Summary Bus although nothing was asked for it.

use std::sync::Arc;

use clap::{Args, Subcommand};
use serde_json::json;

use super::Context;
use super::causes::engine_failed;
use super::causes::not_published;
use super::failure::{Exit, Failure};
use super::held_home::HeldHome;
use super::home_access::HomeAccess;
use super::identity::session_start;
use super::settings::load_config;
use crate::contract::time::Day;
use crate::contract::vocabulary::ReasonCode;
use crate::control::question::Question;
use crate::facts::attempt::UpstreamInput;
use crate::facts::session::SessionReport;
use crate::home::Home;
use crate::projections::summaries::Summaries;
use crate::state::event::SessionEnd;
use crate::upstream::{Family, MemoryIndex, Upstream};

/// Open a day of the Summary Bus
#[derive(Debug, Args)]
pub(crate) struct DayArgs {
    #[command(subcommand)]
    command: DayCommand,
}

#[derive(Debug, Subcommand)]
enum DayCommand {
    /// Publish a day on all four streams, with the upstream manifests of that day as its inputs; a stream
    /// without summaries of that day is published empty
    Open {
        /// The day, such as 2026-02-11
        #[arg(value_name = "DAY")]
        day: Day,
    },
}

impl DayArgs {
    pub(crate) fn run(&self, context: &Context) -> Result<Exit, Failure> {
        let DayCommand::Open { day } = &self.command;
        let inputs = inputs(context, *day)?;
        let read = inputs.len();
        let question = Question::DayOpen { day: *day, inputs };
        match HeldHome::take(context, false)? {
            Some(held) => open_within(context, held, question)?,
            None => {
                let mut session = HomeAccess::open(context)?;
                let answer = session.ask(context, &question);
                session.close()?;
                answer?;
            }
        }
        if context.ui.json {
            context.ui.json(&json!({"opened": day.to_string(), "upstream_manifests": read}));
        } else {
            context
                .ui
                .out(format!("{day} is open; {read} upstream manifests of that day were read"));
        }
        Ok(Exit::Done)
    }
}

/// Nobody serves: the command is a run of its own, and publishes.
fn open_within(context: &Context, mut held: HeldHome, question: Question) -> Result<(), Failure> {
    let now = || context.machine.clock.now();
    held.refuse_damage(context)?;
    let run = session_start(context, &held.config, "day open")?;
    held.engine.begin_session(run, now()).map_err(|error| engine_failed(&error))?;
    held.ask(context, question)?;
    let (disk, buses, log) = (&context.machine.disk, &held.home.buses, held.engine.log());
    let mut summaries = Summaries::open(disk, buses, log, Some(&held.home.publisher_index()))
        .map_err(|error| not_published(&error))?;
    summaries.publish(None).map_err(|error| not_published(&error))?;
    let report = SessionReport { outputs: summaries.take_promoted(), ..SessionReport::default() };
    held.engine
        .end_session(SessionEnd::Clean, report, now())
        .map_err(|error| engine_failed(&error))?;
    held.commit(now())?;
    summaries.publish(None).map_err(|error| not_published(&error))?;
    summaries.close().map_err(|error| not_published(&error))?;
    held.close()
}

/// The verified upstream partitions of one day, as an event names them.
fn inputs(context: &Context, day: Day) -> Result<Vec<UpstreamInput>, Failure> {
    let config = load_config(context)?;
    let home = Home::new(&context.home, &config);
    let disk = Arc::clone(&context.machine.disk);
    let upstream = Upstream::new(disk, &home.buses, Arc::new(MemoryIndex::default()));
    let mut inputs = Vec::new();
    for family in Family::ALL {
        let partition = match upstream.partition(family, &day.to_string()) {
            Ok(partition) => partition,
            Err(defect) if defect.reason == ReasonCode::MissingUpstreamManifest => continue,
            Err(defect) => {
                let what =
                    format!("{day} cannot be opened: an upstream file does not match its manifest");
                return Err(Failure::new(Exit::Input, what)
                    .because(&defect)
                    .hint("publish data and manifest of that day again"));
            }
        };
        let manifest = &partition.manifest;
        inputs.push(UpstreamInput {
            path: manifest.data_path.clone(),
            bus: family.bus(),
            partition: manifest.partition.clone(),
            data_sha256: Some(manifest.data_sha256),
            data_bytes: manifest.bytes,
            manifest_path: Some(manifest.path.clone()),
            manifest_sha256: Some(manifest.sha256),
            schema_version: Some(family.bus_schema_version().to_owned()),
        });
    }
    Ok(inputs)
}
