//! What the commands over research runs share: where runs are, which agents exist, how findings
//! and errors are shown.

use std::path::{Path, PathBuf};

use clap::Args;

use super::Context;
use super::failure::{Exit, Failure};
use super::home_access::open_or_make;
use super::settings::load_config;
use super::ui;
use crate::control::question::Question;
use crate::projections::runs::RunQuestion;
use crate::synthesis::agents::AgentTypes;
use crate::synthesis::finding::{Finding, Severity};
use crate::synthesis::receipt::Receipt;
use crate::synthesis::run_dir::{RunDir, RunDirError};

/// Where runs are kept below the home directory of the user.
const RESEARCH_ROOT: &str = ".config/opencode/research-runs";

/// Options of every command over research runs.
#[derive(Debug, Args)]
pub struct ResearchOptions {
    /// Where runs are found by their id [default: as configured, else
    /// ~/.config/opencode/research-runs]
    #[arg(long, env = "SUMMARIZER_RESEARCH_ROOT", value_name = "DIR")]
    research_root: Option<PathBuf>,
    /// The name of an agent that exists; may be repeated [default: the files agents/*.md of the run
    /// or its repository and those that are configured; without them an unknown agent is a warning]
    #[arg(long = "agent-type", value_name = "NAME")]
    agent_types: Vec<String>,
}

impl ResearchOptions {
    /// Where runs are found by their id: as named, as configured, or where they usually are.
    pub(crate) fn research_root(&self, context: &Context) -> Result<PathBuf, Failure> {
        let user = || std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
        if let Some(named) = &self.research_root {
            return Ok(named.clone());
        }
        let configured = load_config(context)?.research_root;
        let configured = configured.filter(|root| !root.as_os_str().is_empty());
        Ok(match configured {
            None => user().join(RESEARCH_ROOT),
            Some(root) => match root.strip_prefix("~") {
                Ok(below) => user().join(below),
                Err(_) => context.home.join(root),
            },
        })
    }

    /// The agents that exist: as named, else those of the run or its repository, else the usual ones;
    /// and those that are configured.
    pub fn agent_types(
        &self,
        context: &Context,
        run: Option<&Path>,
    ) -> Result<AgentTypes, Failure> {
        if !self.agent_types.is_empty() {
            return Ok(AgentTypes::named(self.agent_types.clone()));
        }
        let working = std::env::current_dir().unwrap_or_default();
        let mut agents = AgentTypes::found(context.machine.disk.as_ref(), run, &working);
        load_config(context)?.agent_types.into_iter().for_each(|name| agents.add(name));
        Ok(agents)
    }

    /// The folder of a run, which may not exist yet. Its agents are those of the folders above it until
    /// then.
    pub(crate) fn run_folder(&self, context: &Context, id: &str) -> Result<PathBuf, Failure> {
        let folder = self.research_root(context)?.join(id);
        let found = context.machine.disk.stat(&folder);
        if self.research_root.is_some() && !found.is_ok_and(|stat| stat.is_some_and(|it| it.is_dir))
        {
            let shown = folder.display();
            context.ui.talk(format!("{} there is no run {shown} yet", ui::yellow("warning:")));
        }
        Ok(folder)
    }

    /// The first agent that is named.
    pub(crate) fn first_named(&self) -> Option<&str> {
        self.agent_types.first().map(String::as_str)
    }

    /// Opens a run by directory or id.
    pub fn open<'a>(&self, context: &'a Context, run: &Path) -> Result<RunDir<'a>, Failure> {
        RunDir::locate(context.machine.disk.as_ref(), run, &self.research_root(context)?)
            .map_err(|error| failure("cannot open the run", &error))
    }
}

/// Keeps what was done in the log of the home, when one was named.
pub fn keep(context: &Context, receipt: &Receipt) -> Result<(), Failure> {
    if !context.home_given {
        return Ok(());
    }
    let receipt = serde_json::to_value(receipt)
        .map_err(|error| Failure::new(Exit::Bug, "cannot record the receipt").because(&error))?;
    let mut session = open_or_make(context)?;
    let noted = session.ask(context, &Question::Run(RunQuestion::Receipt { receipt }));
    session.close()?;
    noted.map(|_| ())
}

/// An error of a run directory as the command's end.
pub fn failure(what: &str, error: &RunDirError) -> Failure {
    Failure::new(Exit::Input, what).because(error)
}

/// Shows findings for people.
pub fn show(context: &Context, findings: &[Finding]) {
    for finding in findings {
        let mark = match finding.severity {
            Severity::Error => ui::red("error"),
            Severity::Warning => ui::yellow("warning"),
        };
        let place = match finding.path.as_str() {
            "" => finding.file.clone(),
            path => format!("{} {path}", finding.file),
        };
        let code = serde_json::to_value(finding.code).unwrap_or_default();
        let code = code.as_str().unwrap_or_default();
        context.ui.out(format!("{mark}  {code}  {place}  {}", finding.message));
    }
}

/// The last line of a check for people.
pub fn verdict(passes: bool, errors: u64, warnings: u64) -> String {
    let word = if passes { ui::green("pass") } else { ui::red("fail") };
    format!("{word}  {errors} errors, {warnings} warnings")
}
