//! `completions` and `man`: made from the same definitions that parse the command line.

use clap::{Args, CommandFactory as _};
use clap_complete::Shell;

use super::failure::{Exit, Failure};
use super::{Cli, Context};

/// Print a completion script
#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// For which shell
    shell: Shell,
}

/// Print the man page
#[derive(Debug, Args)]
pub struct ManArgs {}

impl CompletionsArgs {
    /// Runs the command.
    pub fn run(&self, context: &Context) -> Result<Exit, Failure> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), "summarizer", &mut script);
        context.ui.raw(&script);
        Ok(Exit::Done)
    }
}

impl ManArgs {
    /// Runs the command.
    pub fn run(&self, context: &Context) -> Result<Exit, Failure> {
        let mut page = Vec::new();
        clap_mangen::Man::new(Cli::command()).render(&mut page).map_err(|error| {
            Failure::new(Exit::Bug, "cannot render the man page").because(&error)
        })?;
        context.ui.raw(&page);
        Ok(Exit::Done)
    }
}
