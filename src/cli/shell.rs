//! `completions` and `man`: made from the same definitions that parse the command line.

use std::path::{Path, PathBuf};

use clap::{Args, Command};
use clap_complete::Shell;
use serde_json::json;

use super::failure::{Exit, Failure};
use super::{Context, help, ui};

/// Print a completion script
///
/// In bash, zsh and fish it also offers flows, states, projects, ids of requests and names of sources.
#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// For which shell
    shell: Shell,
}

/// Print the man page, or write those of all commands
#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// Write a page for each command into this folder, such as ~/.local/share/man/man1
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

impl CompletionsArgs {
    pub(crate) fn run(&self, context: &Context) -> Result<Exit, Failure> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut offered(), "summarizer", &mut script);
        script.extend(super::complete::addition(self.shell).into_bytes());
        match context.ui.json {
            true => context.ui.json(&json!({
                "shell": self.shell.to_string(), "script": String::from_utf8_lossy(&script),
            })),
            false => context.ui.raw(&script),
        }
        Ok(Exit::Done)
    }
}

impl ManArgs {
    pub(crate) fn run(&self, context: &Context) -> Result<Exit, Failure> {
        // Built, so that every command has the options that hold for all of them.
        let mut command = help::command();
        command.build();
        let Some(folder) = &self.out else {
            let page = page(command)?;
            match context.ui.json {
                true => context.ui.json(&json!({"page": String::from_utf8_lossy(&page)})),
                false => context.ui.raw(&page),
            }
            return Ok(Exit::Done);
        };
        let disk = context.machine.disk.as_ref();
        let failed = |error: &std::io::Error| {
            let what = format!("cannot write man pages to {}", folder.display());
            Failure::of_target(what, error)
        };
        disk.create_dir_all(folder).map_err(|error| failed(&error))?;
        let mut pages = Vec::new();
        collect(command, "summarizer", folder, &mut pages)?;
        for (path, page) in &pages {
            disk.replace(path, page, 0o644).map_err(|error| failed(&error))?;
        }
        if context.ui.json {
            context.ui.json(&json!({"pages": pages.len(), "folder": folder}));
            return Ok(Exit::Done);
        }
        let many = ui::count(pages.len(), "page");
        context.ui.talk(format!("wrote {many} to {}", folder.display()));
        Ok(Exit::Done)
    }
}

/// The commands for people: a shell offers none that the program runs itself.
fn offered() -> Command {
    let all = help::command();
    let shown = all.get_subcommands().filter(|one| !one.is_hide_set()).cloned();
    Command::new("summarizer")
        .version(env!("CARGO_PKG_VERSION"))
        .args(all.get_arguments().cloned())
        .groups(all.get_groups().cloned())
        .subcommands(shown)
}

fn page(command: Command) -> Result<Vec<u8>, Failure> {
    let mut page = Vec::new();
    clap_mangen::Man::new(command)
        .render(&mut page)
        .map_err(|error| Failure::new(Exit::Bug, "cannot render the man page").because(&error))?;
    Ok(page)
}

/// The pages of a command and of those below it, which are named after all that lead to them.
fn collect(
    command: Command,
    name: &str,
    folder: &Path,
    pages: &mut Vec<(PathBuf, Vec<u8>)>,
) -> Result<(), Failure> {
    let shown = |below: &&Command| below.get_name() != "help" && !below.is_hide_set();
    for below in command.get_subcommands().filter(shown) {
        let name = format!("{name}-{}", below.get_name());
        collect(below.clone().display_name(&name), &name, folder, pages)?;
    }
    pages.push((folder.join(format!("{name}.1")), page(command)?));
    Ok(())
}
