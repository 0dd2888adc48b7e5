//! What the commands over research runs share: where runs are, which agents exist, how findings
//! and errors are shown.

use std::path::{Path, PathBuf};

use clap::Args;

use super::Context;
use super::failure::{Exit, Failure};
use super::ui;
use crate::synthesis::finding::{Finding, Severity};
use crate::synthesis::perspectives::known_agent_types;
use crate::synthesis::run_dir::{RunDir, RunDirError};

/// Where runs are kept below the home directory of the user.
const RESEARCH_ROOT: &str = ".config/opencode/research-runs";

/// Options of every command over research runs.
#[derive(Debug, Args)]
pub struct RunOptions {
    /// Where runs are found by their id [default: ~/.config/opencode/research-runs]
    #[arg(long, env = "SUMMARIZER_RESEARCH_ROOT", value_name = "DIR")]
    research_root: Option<PathBuf>,
    /// A runtime agent that exists; repeat for several [default: the known research agents]
    #[arg(long = "agent-type", value_name = "NAME")]
    agent_types: Vec<String>,
}

impl RunOptions {
    /// Where runs are found by their id.
    pub fn research_root(&self) -> PathBuf {
        let home = || std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
        self.research_root.clone().unwrap_or_else(|| home().join(RESEARCH_ROOT))
    }

    /// The agents that exist.
    pub fn agent_types(&self) -> Vec<String> {
        if self.agent_types.is_empty() { known_agent_types() } else { self.agent_types.clone() }
    }

    /// Opens a run by directory or id.
    pub fn open<'a>(&self, context: &'a Context, run: &Path) -> Result<RunDir<'a>, Failure> {
        RunDir::locate(context.machine.disk.as_ref(), run, &self.research_root())
            .map_err(|error| failure("cannot open the run", &error))
    }
}

/// An error of a run directory as the command's end.
pub fn failure(what: &str, error: &RunDirError) -> Failure {
    let exit = match error {
        RunDirError::Write { .. } => Exit::Storage,
        _ => Exit::Input,
    };
    Failure::new(exit, what).because(error)
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
