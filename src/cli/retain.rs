//! `retain`: what is old goes, by the policy of the settings: answers of models are dropped, acks are
//! moved away, frames of the log are archived. Each is a fact of the log.

use clap::Args;
use serde_json::{Value, json};

use super::causes::held_by_another;
use super::failure::{Exit, Failure};
use super::held_home::HeldHome;
use super::{Context, ui};
use crate::upkeep::retention::{self, Policy, RetainError};

/// Apply the ages in the settings: drop old answers, move old acks and old frames of the log
///
/// With `retention.daily = true`, a running service does this when a day begins.
#[derive(Debug, Args)]
pub(crate) struct RetainArgs {
    /// Only list what would be removed or moved
    #[arg(long)]
    dry_run: bool,
}

impl RetainArgs {
    pub(crate) fn run(&self, context: &Context) -> Result<Exit, Failure> {
        let mut held = HeldHome::take(context, false)?.ok_or_else(|| {
            held_by_another(context)
                .hint("set retention.daily = true and `summarizer reload`, or stop the service")
        })?;
        held.refuse_damage(context)?;
        let report = self.retain(context, &mut held);
        held.close()?;
        show(context, &report?);
        Ok(Exit::Done)
    }

    fn retain(&self, context: &Context, held: &mut HeldHome) -> Result<Value, Failure> {
        let now = context.machine.clock.now();
        let disk = context.machine.disk.as_ref();
        let policy = Policy::of(&held.config);
        let due = retention::look(disk, &held.home, &held.engine, policy, now);
        let due = due.map_err(|error| not_retained(&error))?;
        let mut report = match self.dry_run || policy.keeps_all() {
            true => json!(due.described("")),
            false => {
                let machine = &context.machine;
                let home = &held.home;
                let told = retention::apply(machine, home, &mut held.engine, &due, "command", now);
                json!(told.map_err(|error| not_retained(&error))?)
            }
        };
        report["dry_run"] = self.dry_run.into();
        let last =
            retention::last(held.engine.log()).map_err(|error| not_retained(&error.into()))?;
        if let Some((at, _)) = last {
            report["last"] = at.to_string().into();
        }
        Ok(report)
    }
}

/// Old things could not go.
pub(crate) fn not_retained(error: &RetainError) -> Failure {
    Failure::new(Exit::Storage, "what is old stays")
        .because(error)
        .hint("nothing is lost; correct that and run `summarizer retain` again")
}

fn show(context: &Context, report: &Value) {
    if context.ui.json {
        return context.ui.json(report);
    }
    let verb = if report["dry_run"] == true { "would " } else { "" };
    let mut any = false;
    for (name, what, noun, count) in [
        ("answers", "drop answers of models", "answer", "dropped"),
        ("acks", "move acks to run/archive", "line", "moved"),
        ("frames", "archive records of the log", "record", "records"),
    ] {
        let part = &report[name];
        if part.is_null() {
            continue;
        }
        any = true;
        let many = ui::count(part[count].as_u64().unwrap_or(0), noun);
        let bytes = part["bytes"].as_u64().map(|bytes| format!(", {}", ui::count(bytes, "byte")));
        context.ui.out(format!("{verb}{what}: {many}{}", bytes.unwrap_or_default()));
    }
    if !any {
        context.ui.out("nothing is removed or moved: every age is \"never\"");
        context
            .ui
            .talk(ui::dim("see retention and compaction.archive_after in `summarizer config`"));
    } else if let Some(last) = report["last"].as_str() {
        context.ui.talk(ui::dim(&format!("applied last at {last}")));
    }
}
