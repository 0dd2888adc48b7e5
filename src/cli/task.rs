//! `task`: lists the tasks that summaries name, and says that one is done or open again.

use std::collections::{BTreeMap, BTreeSet};

use chrono_tz::Tz;
use clap::{Args, Subcommand};
use serde_json::Value;

use super::digest::carry_out;
use super::failure::{Exit, Failure};
use super::settings::load_config;
use super::{Context, ui};
use crate::contract::time::parse_instant;
use crate::projections::digester::DigestOrder;

/// List the tasks that summaries name, and close or reopen one
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  summarizer task list
  summarizer task done 3f62 b07a
  summarizer task reopen 3f62")]
pub(crate) struct TaskArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List open tasks, those with a day first
    List {
        /// List closed tasks too, with the reason
        #[arg(long)]
        all: bool,
    },
    /// Say that a task is done; it leaves the open tasks with the next build of digests
    Done {
        /// The ids of tasks, or beginnings of ids that no other task has
        #[arg(value_name = "ID", required = true)]
        ids: Vec<String>,
    },
    /// Say that a task is open again
    Reopen {
        /// The ids of tasks, or beginnings of ids that no other task has
        #[arg(value_name = "ID", required = true)]
        ids: Vec<String>,
    },
}

impl TaskArgs {
    pub(super) fn run(&self, context: &Context) -> Result<Exit, Failure> {
        match &self.action {
            Action::List { all } => list(context, *all),
            Action::Done { ids } => settle_all(context, ids, true),
            Action::Reopen { ids } => settle_all(context, ids, false),
        }
    }
}

fn text<'v>(value: &'v Value, name: &str) -> &'v str {
    value[name].as_str().unwrap_or("-")
}

fn list(context: &Context, all: bool) -> Result<Exit, Failure> {
    let mut answer = carry_out(context, DigestOrder::Tasks { all })?;
    let tasks = answer["tasks"].as_array_mut();
    let mut tasks = tasks.map(std::mem::take).unwrap_or_default();
    // Tasks with a day come first. The sort is stable, so the others keep their order.
    tasks
        .sort_by_key(|task| (task["open"] != true, task["due"].is_null(), task["due"].to_string()));
    if context.ui.json {
        for task in &tasks {
            context.ui.json(task);
        }
        return Ok(Exit::Done);
    }
    if tasks.is_empty() {
        let what = if all { "no flow has found a task" } else { "no task is open" };
        context.ui.talk(what);
        context.ui.talk(
            "tasks are found by flows that look for them: `summarizer add PATH --flow task` asks one",
        );
        if !all {
            context.ui.talk("`summarizer task list --all` lists closed tasks too");
        }
        return Ok(Exit::Done);
    }
    tell_apart(&mut tasks, load_config(context)?.timezone);
    let row = |task: &Value| {
        let state = if task["open"] == true { "open" } else { text(task, "closed") };
        let cells = [
            text(task, "due"),
            text(task, "text"),
            text(task, "task_id"),
            text(task, "source"),
            state,
        ];
        cells.map(crate::digest::markdown::one_line).to_vec()
    };
    let rows: Vec<Vec<String>> = tasks.iter().map(row).collect();
    context.ui.table_with_text(&["DUE", "TASK", "ID", "SOURCE", "STATE"], &rows, "TASK");
    Ok(Exit::Done)
}

/// Shows the time beside the name of a source that several sources have, as sessions of a chat.
fn tell_apart(tasks: &mut [Value], zone: Tz) {
    let mut times: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for task in tasks.iter() {
        let known = times.entry(text(task, "source").to_owned()).or_default();
        known.insert(text(task, "named_at").to_owned());
    }
    for task in tasks.iter_mut().filter(|task| times[text(task, "source")].len() > 1) {
        if let Ok(moment) = parse_instant(text(task, "named_at")) {
            let at = moment.at;
            // Of some sources only the day is known.
            let clock = (task["has_clock"] != false).then(|| format!(" {}", at.clock_in(zone)));
            let (day, clock) = (at.day_in(zone), clock.unwrap_or_default());
            task["source"] = format!("{}, {day}{clock}", text(task, "source")).into();
        }
    }
}

/// Settles each task that is named. One that is unknown keeps no other from being settled.
fn settle_all(context: &Context, ids: &[String], done: bool) -> Result<Exit, Failure> {
    let (mut changed, mut failed) = (false, None);
    for id in ids {
        match settle(context, id, done) {
            Ok(has_changed) => changed |= has_changed,
            Err(failure) => {
                if let Some(before) = failed.replace(failure) {
                    context.ui.complain(Failure::in_short(&before));
                }
            }
        }
    }
    if changed && !context.ui.json {
        context.ui.talk("`summarizer digest build` brings the digests up to date");
    }
    failed.map_or(Ok(Exit::Done), Err)
}

/// Whether that changed what is known of the task.
fn settle(context: &Context, id: &str, done: bool) -> Result<bool, Failure> {
    let order = DigestOrder::SettleTask { task_id: id.to_owned(), done };
    let answer = carry_out(context, order)?;
    if context.ui.json {
        context.ui.json(&answer);
        return Ok(answer["changed"] == true);
    }
    let word = if done { "done" } else { "open" };
    let told = if answer["changed"] == true { "" } else { " already" };
    let task = crate::digest::markdown::one_line(text(&answer["task"], "text"));
    context.ui.out(format!("{}{told}: {task}", ui::green(word)));
    Ok(answer["changed"] == true)
}
