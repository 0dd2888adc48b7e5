//! The command line: one file per command group, and the only place that prints.
//!
//! A group is a clap type with its arguments and a `run(&self, &Context)`; adding one is a file
//! here, a variant of `Command` and an arm of `dispatch`.

mod acks;
mod add;
mod all_new;
pub mod backup;
mod causes;
#[cfg(feature = "cluster")]
mod cluster;
pub mod compact;
mod compare;
mod complete;
mod data_rules;
pub mod day;
pub mod demo;
pub mod digest;
mod digest_show;
pub mod doctor;
pub mod explain;
pub mod failure;
mod file_events;
mod flow;
mod flow_batch;
mod flow_processes;
mod flow_runner;
mod forget;
mod forgotten_files;
mod given_input;
mod given_text;
mod held_home;
mod help;
pub mod home;
pub mod home_access;
mod home_key;
mod identity;
pub mod import;
pub mod inspect;
mod intake;
mod interrupt;
mod leaving;
pub mod log;
mod lost_log;
mod names;
mod open;
pub mod operate;
mod outcome;
pub mod pack;
mod page;
mod pager;
mod pasted;
mod patient;
pub mod perspectives;
mod plain;
mod prose;
mod published;
pub mod quarantine;
pub mod queue;
mod read;
pub mod recover;
mod recover_digests;
pub mod registry;
pub mod replay;
pub mod retain;
mod returned;
mod run_home;
pub mod schema;
mod search;
pub mod select;
mod select_file;
mod select_summaries;
pub mod serve;
pub mod service;
mod settings;
#[cfg(feature = "cluster")]
mod shared_home;
pub mod shell;
mod since;
pub mod source_files;
mod submit;
mod sum;
pub mod supervise;
pub mod synthesis_common;
mod task;
pub mod trace;
pub mod tune;
pub mod ui;
pub mod verify;
mod waiting;
mod watch;
mod watched;
pub mod wave;
mod worker;
mod zone;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::{FromArgMatches as _, Parser, Subcommand};
use tracing_subscriber::EnvFilter;

use crate::contract::shown::escaped;
use crate::contract::time::parse_instant;
use crate::os::real::{FixedClock, SetClock, ToldClock};
use crate::os::{Machine, jail, rights};
use crate::service::StopSignal;
use failure::{Exit, Failure};
use ui::Ui;

const EXIT_CODES: &str = "\
Exit codes:
  0   done
  1   done, and a check or a request failed
  2   the command line is invalid
  3   the configuration or the registry is invalid
  4   another process holds the home and does not answer
  5   required input is missing or invalid
  6   storage failed, is full or is damaged, or the system failed (`EIO`, too many open files)
  70  a bug
  130 an interrupt ended the command before everything was done";

/// Turns your texts into summaries that can be traced, verified and reproduced.
#[derive(Debug, Parser)]
#[command(name = "summarizer", version, after_long_help = EXIT_CODES)]
pub(crate) struct Cli {
    /// The home: the directory with queue, log and buses [default: the current directory]
    #[arg(long, global = true, env = "SUMMARIZER_HOME", value_name = "DIR")]
    home: Option<PathBuf>,
    /// Configuration file [default: HOME/summarizer.toml]
    #[arg(long, global = true, env = "SUMMARIZER_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print data as JSON
    #[arg(long, global = true)]
    json: bool,
    /// Print errors only
    #[arg(short, long, global = true)]
    quiet: bool,
    /// Log more; repeat the option to log still more
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    verbose: u8,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Sum(sum::SumArgs),
    Add(add::AddArgs),
    Read(read::ReadArgs),
    Search(search::SearchArgs),
    Open(open::OpenArgs),
    Demo(demo::DemoArgs),
    Init(home::InitArgs),
    Submit(submit::SubmitArgs),
    Serve(serve::ServeArgs),
    Drain(serve::DrainArgs),
    Status(inspect::StatusArgs),
    Requests(inspect::RequestsArgs),
    Show(inspect::ShowArgs),
    Explain(explain::ExplainArgs),
    Retry(operate::RetryArgs),
    Cancel(operate::CancelArgs),
    Pause(operate::PauseArgs),
    Resume(operate::ResumeArgs),
    Reload(operate::ReloadArgs),
    Import(import::ImportArgs),
    Select(select::SelectArgs),
    Digest(digest::DigestArgs),
    Task(task::TaskArgs),
    Watch(watched::WatchArgs),
    Verify(verify::VerifyArgs),
    Trace(trace::TraceArgs),
    Day(day::DayArgs),
    Quarantine(quarantine::QuarantineArgs),
    Queue(queue::QueueArgs),
    Log(log::LogArgs),
    Replay(replay::ReplayArgs),
    Export(replay::ExportArgs),
    Doctor(doctor::DoctorArgs),
    Backup(backup::BackupArgs),
    Retain(retain::RetainArgs),
    Forget(forget::ForgetArgs),
    Service(service::ServiceArgs),
    #[cfg(feature = "cluster")]
    Cluster(cluster::ClusterArgs),
    Recover(recover::RecoverArgs),
    Config(home::ConfigArgs),
    Registry(registry::RegistryArgs),
    Flow(flow::FlowArgs),
    Schema(schema::SchemaArgs),
    Completions(shell::CompletionsArgs),
    #[command(hide = true)]
    Names(complete::NamesArgs),
    Man(shell::ManArgs),
    Pack(pack::PackArgs),
    Perspectives(perspectives::PerspectivesArgs),
    Wave(wave::WaveArgs),
    Compact(compact::CompactArgs),
    Tune(tune::TuneArgs),
    #[command(hide = true)]
    Worker(worker::WorkerArgs),
}

/// What every command is given.
#[derive(Clone)]
pub struct Context {
    /// Prints data, messages and progress.
    pub(crate) ui: Ui,
    /// The service home; it need not exist.
    pub home: PathBuf,
    /// Whether the command line or the environment named it.
    pub(crate) home_given: bool,
    /// The configuration file the user named, if any.
    pub(crate) config_file: Option<PathBuf>,
    pub machine: Machine,
    /// Says that a person or the system asked the command to end.
    pub(crate) stop: StopSignal,
}

#[cfg(test)]
impl Context {
    /// A quiet one for a home on this machine.
    fn of_test(home: &std::path::Path) -> Context {
        Context {
            ui: Ui { quiet: true, ..Ui::default() },
            home: home.to_owned(),
            home_given: true,
            config_file: None,
            machine: Machine::real(),
            stop: StopSignal::default(),
        }
    }
}

/// Runs the program and says how it ended.
pub fn run() -> ExitCode {
    if let Some(error) = jail::become_program(std::env::args_os()) {
        ui::say(&error);
        return ExitCode::from(jail::NOT_STARTED);
    }
    jail::offer_helper();
    let parsed = help::command().try_get_matches();
    let cli = match parsed.and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => cli,
        Err(error) => {
            let error = help::with_nearest_command(error, std::env::args());
            // Help and version are answers; anything else is a usage error.
            let code = if error.use_stderr() { Exit::Usage } else { Exit::Done };
            match error.use_stderr() {
                // A program asked, and the arguments that say so may be the wrong ones.
                true if std::env::args_os().any(|arg| arg == "--json") => {
                    let failure = help::usage_failure(&error.render().to_string());
                    ui::say(&escaped(&failure.to_json().to_string()));
                }
                true => {
                    ui::say(&plain::written(&ui::fitted_to_stderr(help::told(&error).trim_end())))
                }
                false => ui::say_to_stdout(&error.render().ansi().to_string()),
            }
            return ExitCode::from(code as u8);
        }
    };
    if let Command::Worker(args) = &cli.command {
        rights::keep_to_owner();
        return ExitCode::from(args.run() as u8);
    }
    let ui = Ui { json: cli.json, quiet: cli.quiet, verbose: cli.verbose > 0 };
    let context = Context {
        ui,
        home_given: cli.home.is_some(),
        home: cli.home.unwrap_or_else(|| PathBuf::from(".")),
        config_file: cli.config,
        machine: machine(),
        stop: StopSignal::default(),
    };
    // A configuration that does not read is reported by the command that needs it.
    let config = settings::load_config(&context).ok();
    start_logging(cli.verbose, cli.quiet, config.as_ref().is_some_and(|config| config.log_json));
    rights::keep_to_owner();
    if matches!(cli.command, Command::Man(_) | Command::Completions(_)) {
        rights::publish_new_files();
    } else if config.is_some_and(|config| config.files_group.is_some()) {
        rights::share_new_files();
    }
    match dispatch(&cli.command, &context) {
        Ok(exit) => ExitCode::from(exit as u8),
        Err(failure) => {
            if ui.json {
                ui.complain_json(&failure.to_json());
            } else {
                ui.complain(failure.render());
            }
            ExitCode::from(failure.exit as u8)
        }
    }
}

/// The machine. Tests of the command line can set its clock: to a fixed time, to a time that runs on
/// (`+` behind it), or to the time in a file (given by its path).
fn machine() -> Machine {
    let mut machine = Machine::real();
    let set = std::env::var("SUMMARIZER_TEST_NOW").unwrap_or_default();
    if set.starts_with('/') {
        machine.clock = Arc::new(ToldClock(set.into()));
    } else if let Ok(instant) = parse_instant(set.trim_end_matches('+')) {
        machine.clock = match set.ends_with('+') {
            true => Arc::new(SetClock::at(instant.at)),
            false => Arc::new(FixedClock(instant.at)),
        };
    }
    machine
}

fn start_logging(verbose: u8, quiet: bool, json: bool) {
    let level = match (quiet, verbose) {
        (true, _) => "error",
        (false, 0) => "warn",
        (false, 1) => "info",
        (false, _) => "debug",
    };
    let filter =
        EnvFilter::try_from_env("SUMMARIZER_LOG").unwrap_or_else(|_| EnvFilter::new(level));
    let subscriber =
        tracing_subscriber::fmt().with_writer(ui::LogLines::default).with_env_filter(filter);
    // Fails only on a second start in one process; then the first subscriber stays in force.
    let _ = match json {
        true => subscriber.json().flatten_event(true).try_init(),
        false => {
            let terminal = std::io::IsTerminal::is_terminal(&std::io::stderr());
            subscriber.with_ansi(terminal).try_init()
        }
    };
}

fn dispatch(command: &Command, context: &Context) -> Result<Exit, Failure> {
    if matches!(command, Command::Config(_) | Command::Registry(_) | Command::Flow(_)) {
        held_home::need_named_folder(context)?;
    }
    match command {
        Command::Sum(args) => args.run(context),
        Command::Add(args) => args.run(context),
        Command::Read(args) => args.run(context),
        Command::Search(args) => args.run(context),
        Command::Open(args) => args.run(context),
        Command::Demo(args) => args.run(context),
        Command::Init(args) => args.run(context),
        Command::Submit(args) => args.run(context),
        Command::Serve(args) => args.run(context),
        Command::Drain(args) => args.run(context),
        Command::Status(args) => args.run(context),
        Command::Requests(args) => args.run(context),
        Command::Show(args) => args.run(context),
        Command::Explain(args) => args.run(context),
        Command::Retry(args) => args.run(context),
        Command::Cancel(args) => args.run(context),
        Command::Pause(args) => args.run(context),
        Command::Resume(args) => args.run(context),
        Command::Reload(args) => args.run(context),
        Command::Import(args) => args.run(context),
        Command::Select(args) => args.run(context),
        Command::Digest(args) => args.run(context),
        Command::Task(args) => args.run(context),
        Command::Watch(args) => args.run(context),
        Command::Verify(args) => args.run(context),
        Command::Trace(args) => args.run(context),
        Command::Day(args) => args.run(context),
        Command::Quarantine(args) => args.run(context),
        Command::Queue(args) => args.run(context),
        Command::Log(args) => args.run(context),
        Command::Replay(args) => args.run(context),
        Command::Export(args) => args.run(context),
        Command::Doctor(args) => args.run(context),
        Command::Backup(args) => args.run(context),
        Command::Retain(args) => args.run(context),
        Command::Forget(args) => args.run(context),
        Command::Service(args) => args.run(context),
        #[cfg(feature = "cluster")]
        Command::Cluster(args) => args.run(context),
        Command::Recover(args) => args.run(context),
        Command::Config(args) => args.run(context),
        Command::Registry(args) => args.run(context),
        Command::Flow(args) => args.run(context),
        Command::Schema(args) => args.run(context),
        Command::Completions(args) => args.run(context),
        Command::Names(args) => args.run(context),
        Command::Man(args) => args.run(context),
        Command::Pack(args) => args.run(context),
        Command::Perspectives(args) => args.run(context),
        Command::Wave(args) => args.run(context),
        Command::Compact(args) => args.run(context),
        Command::Tune(args) => args.run(context),
        Command::Worker(args) => Ok(args.run()),
    }
}
