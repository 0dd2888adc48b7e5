//! Operator actions: each becomes an event.

use clap::Args;

use super::Context;
use super::failure::{Exit, Failure};
use super::home_access::HomeAccess;
use super::registry::selectors_for_build;
use super::settings::{load_config, load_registry};
use crate::control::question::Question;

/// Start another attempt of requests: of a waiting request, or of one that ended without output
#[derive(Debug, Args)]
pub(crate) struct RetryArgs {
    /// Ids of requests, or names of their sources
    #[arg(value_name = "ID", required = true)]
    ids: Vec<String>,
}

/// End requests without a summary
#[derive(Debug, Args)]
pub(crate) struct CancelArgs {
    /// Ids of requests, or names of their sources
    #[arg(value_name = "ID", required = true)]
    ids: Vec<String>,
}

/// Stop reading lines of the queue and starting attempts; attempts under way still finish
#[derive(Debug, Args)]
pub(crate) struct PauseArgs {}

/// Continue after a pause
#[derive(Debug, Args)]
pub(crate) struct ResumeArgs {}

/// Make a running service read configuration and registry again
#[derive(Debug, Args)]
pub(crate) struct ReloadArgs {
    /// Accept changed packs: bind each used flow id to the pack that is registered now. Each change
    /// becomes an event
    #[arg(long)]
    accept_mutations: bool,
}

impl RetryArgs {
    pub(crate) fn run(&self, context: &Context) -> Result<Exit, Failure> {
        let questions = self.ids.iter().map(|id| Question::Retry { request_id: id.clone() });
        ask_all(context, questions)
    }
}

impl CancelArgs {
    pub(crate) fn run(&self, context: &Context) -> Result<Exit, Failure> {
        let questions = self.ids.iter().map(|id| Question::Cancel { request_id: id.clone() });
        ask_all(context, questions)
    }
}

impl PauseArgs {
    pub(crate) fn run(&self, context: &Context) -> Result<Exit, Failure> {
        ask_all(context, [Question::Pause].into_iter())
    }
}

impl ResumeArgs {
    pub(crate) fn run(&self, context: &Context) -> Result<Exit, Failure> {
        ask_all(context, [Question::Resume].into_iter())
    }
}

impl ReloadArgs {
    pub(crate) fn run(&self, context: &Context) -> Result<Exit, Failure> {
        let accept_mutations = self.accept_mutations;
        let refused = ask_all(context, [Question::Reload { accept_mutations }].into_iter());
        let Err(mut failure) = refused else { return refused };
        if failure.exit == Exit::Wrong {
            // The service gives the reason in words. Its files say whether they are the reason.
            let invalid = load_config(context).err().or_else(|| load_registry(context).err());
            let invalid = invalid.or_else(|| selectors_for_build(context).err());
            if let Some(invalid) = invalid {
                failure.exit = invalid.exit;
                failure = match invalid.advice() {
                    Some(hint) => failure.hint(hint),
                    None => failure,
                };
            }
        }
        Err(failure)
    }
}

/// Asks in order; the first failure ends it, after what was done is durable.
fn ask_all(context: &Context, questions: impl Iterator<Item = Question>) -> Result<Exit, Failure> {
    let mut session = HomeAccess::open(context)?;
    let mut result = Ok(Exit::Done);
    for question in questions {
        match session.ask_named(context, &question) {
            Ok(answer) if context.ui.json => context.ui.json(&answer),
            Ok(answer) => context.ui.talk(answer["done"].as_str().unwrap_or_default()),
            Err(failure) => {
                result = Err(failure);
                break;
            }
        }
    }
    session.close()?;
    result
}
