//! The command line: one file per command group, and the only place that prints.
//!
//! A group is a clap type with its arguments and a `run(&self, &Context)`; adding one is a file
//! here, a variant of [`Command`] and an arm of [`dispatch`].

pub mod failure;
pub mod schema;
pub mod ui;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::os::Machine;
use failure::{Exit, Failure};
use ui::Ui;

const EXIT_CODES: &str = "\
Exit codes:
  0   done
  1   done, but something it checked is wrong
  2   usage
  3   configuration or registry invalid
  4   another process holds the home
  5   required input missing or invalid
  6   storage failed or corrupt
  70  a bug";

/// Turns requests in a queue file into summaries that can be traced, verified and reproduced.
#[derive(Debug, Parser)]
#[command(name = "summarizer", version, after_long_help = EXIT_CODES)]
pub struct Cli {
    /// The service home: queue, log, buses [default: the current directory]
    #[arg(long, global = true, env = "SUMMARIZER_HOME", value_name = "DIR")]
    home: Option<PathBuf>,
    /// Configuration file [default: HOME/summarizer.toml]
    #[arg(long, global = true, env = "SUMMARIZER_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print data as JSON
    #[arg(long, global = true)]
    json: bool,
    /// Say nothing but errors
    #[arg(short, long, global = true)]
    quiet: bool,
    /// Log more; twice for even more
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    verbose: u8,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Schema(schema::SchemaArgs),
}

/// What every command is given.
pub struct Context {
    /// How it speaks.
    pub ui: Ui,
    /// The service home; it need not exist.
    pub home: PathBuf,
    /// The configuration file the user named, if any.
    pub config_file: Option<PathBuf>,
    /// Clock and disk.
    pub machine: Machine,
}

/// Runs the program and says how it ended.
pub fn run() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are answers; anything else is a usage error.
            let code = if error.use_stderr() { Exit::Usage } else { Exit::Done };
            let _ = error.print();
            return ExitCode::from(code as u8);
        }
    };
    let ui = Ui { json: cli.json, quiet: cli.quiet };
    let context = Context {
        ui,
        home: cli.home.unwrap_or_else(|| PathBuf::from(".")),
        config_file: cli.config,
        machine: Machine::real(),
    };
    match dispatch(&cli.command, &context) {
        Ok(exit) => ExitCode::from(exit as u8),
        Err(failure) => {
            if ui.json {
                ui.complain(failure.to_json().to_string());
            } else {
                ui.complain(failure.render());
            }
            ExitCode::from(failure.exit as u8)
        }
    }
}

fn dispatch(command: &Command, context: &Context) -> Result<Exit, Failure> {
    match command {
        Command::Schema(args) => args.run(context),
    }
}
