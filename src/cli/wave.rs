//! `wave check`: do the outputs of a research run keep their contracts?

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::Context;
use super::failure::{Exit, Failure};
use super::synthesis_common::{ResearchOptions, failure, keep, show, verdict};
use crate::synthesis::receipt::Verdict;
use crate::synthesis::wave;

/// Check the wave outputs of a research run
#[derive(Debug, Args)]
pub(crate) struct WaveArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List all errors in the outputs of both waves
    Check {
        /// The run (directory or id)
        run: PathBuf,
        #[command(flatten)]
        options: ResearchOptions,
    },
}

impl WaveArgs {
    pub(crate) fn run(&self, context: &Context) -> Result<Exit, Failure> {
        let Action::Check { run, options } = &self.action;
        let dir = options.open(context, run)?;
        let bar = context.ui.progress("outputs", 0);
        let progress = || {
            bar.inc_length(1);
            bar.inc(1);
        };
        let checked =
            wave::check(&dir, &options.agent_types(context, Some(dir.root()))?, &progress);
        bar.finish_and_clear();
        let (report, receipt) =
            checked.map_err(|error| failure("cannot check the wave outputs", &error))?;
        keep(context, &receipt)?;
        if context.ui.json {
            context.ui.json(&report);
        } else {
            show(context, &report.findings);
            let passes = report.status == Verdict::Pass;
            context.ui.out(verdict(passes, report.errors, report.warnings));
        }
        Ok(if report.status == Verdict::Pass { Exit::Done } else { Exit::Wrong })
    }
}
