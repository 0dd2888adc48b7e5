//! `trace`: from an upstream id to every summary that used it.

use clap::Args;
use serde_json::json;

use super::Context;
use super::failure::{Exit, Failure};
use super::session::load_config;
use crate::bus::SummaryBus;
use crate::contract::vocabulary::Stream;

/// List every published summary that used an event, session, chunk or document
#[derive(Debug, Args)]
pub struct TraceArgs {
    /// The upstream id, byte for byte
    id: String,
}

impl TraceArgs {
    /// Runs the command.
    pub fn run(&self, context: &Context) -> Result<Exit, Failure> {
        let root = context.home.join(&load_config(context)?.bus_home);
        let failed = |error: &dyn std::error::Error| {
            Failure::new(Exit::Input, "cannot read the Summary Bus").because(error)
        };
        let bus = SummaryBus::open(&root).map_err(|error| failed(&error))?;
        let mut days = Vec::new();
        for stream in Stream::ALL {
            let known = bus.days(*stream).map_err(|error| failed(&error))?;
            days.extend(known.into_iter().map(|day| (*stream, day)));
        }
        let bar = context.ui.progress("searching", days.len() as u64);
        let mut rows = Vec::new();
        for (stream, day) in days {
            let partition = bus.partition(stream, day).map_err(|error| failed(&error))?;
            for item in partition.items() {
                let item = item.map_err(|error| failed(&error))?;
                if item.upstream_ids().any(|id| id == self.id) {
                    rows.push((stream, day, item.line, item.summary_id().to_owned()));
                }
            }
            bar.inc(1);
        }
        bar.finish_and_clear();
        if context.ui.json {
            for (stream, day, line, summary_id) in &rows {
                context.ui.json(&json!({
                    "summary_id": summary_id, "stream": stream, "day": day.to_string(), "line": line,
                }));
            }
        } else if rows.is_empty() {
            context.ui.talk(format!("no published summary used {}", self.id));
        } else {
            let rows: Vec<Vec<String>> = rows
                .into_iter()
                .map(|(stream, day, line, id)| {
                    vec![id, stream.to_string(), day.to_string(), line.to_string()]
                })
                .collect();
            context.ui.table(&["SUMMARY", "STREAM", "DAY", "LINE"], &rows);
        }
        Ok(Exit::Done)
    }
}
