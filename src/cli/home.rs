//! `init` and `config`: a home to start from, and the settings in force.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;

use super::failure::{Exit, Failure};
use super::held_home::share;
use super::leaving::what_may_leave;
use super::settings::{default_config, load_config};
use super::source_files::is_kept;
use super::zone::other_zone;
use super::{Context, ui};
use crate::config::Config;
use crate::home::Home;
use crate::os::rights;
use crate::registry::embedded_files;

/// Make a home: directories and a commented summarizer.toml
#[derive(Debug, Args)]
pub(crate) struct InitArgs {
    /// Also write the embedded flow registry as files to edit
    #[arg(long)]
    with_registry: bool,
}

/// Print the current settings, each with the place it comes from
#[derive(Debug, Args)]
pub(crate) struct ConfigArgs {
    /// Print every key with its default, without the values of the file and the environment
    #[arg(long)]
    defaults: bool,
}

impl InitArgs {
    pub(crate) fn run(&self, context: &Context) -> Result<Exit, Failure> {
        let made = write(context, self.with_registry)?;
        if context.ui.json {
            let made: Vec<String> = made.iter().map(|path| path.display().to_string()).collect();
            context.ui.json(&json!({"home": context.home, "written": made}));
        } else {
            made.iter().for_each(|path| context.ui.out(path.display().to_string()));
            context.ui.talk(format!("{} is ready", context.home.display()));
            tell_zone(context);
        }
        Ok(Exit::Done)
    }
}

/// A command writes a copy of summaries only where `forget` finds it.
pub(super) fn refuse_own_folder(context: &Context, path: &Path) -> Result<(), Failure> {
    let home = Home::new(&context.home, &load_config(context)?);
    if !is_kept(context.machine.disk.as_ref(), &home, path) {
        return Ok(());
    }
    let what = format!("{} is in a folder that the home keeps for itself", path.display());
    Err(Failure::new(Exit::Usage, what)
        .hint("name a folder outside its `run`, its buses and its registry"))
}

/// Makes a home for a command that was told to.
pub(super) fn make(context: &Context) -> Result<(), Failure> {
    write(context, false)?;
    let named = std::path::absolute(&context.home).unwrap_or_else(|_| context.home.clone());
    context.ui.talk(ui::dim(&format!("made the home {}", named.display())));
    tell_zone(context);
    Ok(())
}

/// Says once that days begin in another zone than people here think.
fn tell_zone(context: &Context) {
    if let Some(zone) = load_config(context).ok().and_then(|config| other_zone(&config)) {
        context.ui.talk(format!(
            "days begin in UTC: write timezone = \"{zone}\" into summarizer.toml for those of this machine"
        ));
    }
}

/// Writes what a home lacks, and names the files that were made.
fn write(context: &Context, with_registry: bool) -> Result<Vec<PathBuf>, Failure> {
    let config = load_config(context)?;
    let home = Home::new(&context.home, &config);
    let disk = context.machine.disk.as_ref();
    let failed = |error: &std::io::Error| {
        let what = format!("cannot make the home {}", context.home.display());
        Failure::new(Exit::Storage, what).because(error)
    };
    rights::close_if_empty(&home.root).map_err(|error| failed(&error))?;
    home.create(disk).map_err(|error| failed(&error))?;
    share(&config, &home)?;
    // The simplest input: a file in there is read by its name.
    disk.create_dir_all(&home.buses.join("other")).map_err(|error| failed(&error))?;
    let mut made = Vec::new();
    let file = home.config_file();
    if disk.stat(&file).map_err(|error| failed(&error))?.is_none() {
        disk.replace(&file, Config::template().as_bytes(), 0o640)
            .map_err(|error| failed(&error))?;
        made.push(file);
    }
    if with_registry {
        for (path, bytes) in embedded_files() {
            let target = home.registry().join(path);
            // Somebody may have edited it: never overwritten.
            if disk.stat(&target).map_err(|error| failed(&error))?.is_some() {
                continue;
            }
            if let Some(parent) = target.parent() {
                disk.create_dir_all(parent).map_err(|error| failed(&error))?;
            }
            disk.replace(&target, bytes, 0o640).map_err(|error| failed(&error))?;
            made.push(target);
        }
    }
    Ok(made)
}

impl ConfigArgs {
    pub(crate) fn run(&self, context: &Context) -> Result<Exit, Failure> {
        let config = match self.defaults {
            true => default_config()?,
            false => load_config(context)?,
        };
        if context.ui.json {
            let settings: Vec<_> = config
                .settings()
                .iter()
                .map(|setting| {
                    json!({"key": setting.key, "value": setting.value,
                           "origin": setting.origin.to_string()})
                })
                .collect();
            context.ui.json(&json!({
                "settings": settings, "fingerprint": config.fingerprint().hex(),
                "may_leave": what_may_leave(&config),
            }));
            return Ok(Exit::Done);
        }
        let rows: Vec<Vec<String>> = config
            .settings()
            .iter()
            .map(|setting| {
                let origin = setting.origin.to_string();
                let origin = if origin == "default" { ui::dim(&origin) } else { origin };
                vec![setting.key.clone(), setting.value.to_string(), origin]
            })
            .collect();
        context.ui.table(&["KEY", "VALUE", "FROM"], &rows);
        context.ui.out("");
        context.ui.out("What may leave this machine:");
        what_may_leave(&config).iter().for_each(|line| context.ui.out(format!("  {line}")));
        Ok(Exit::Done)
    }
}
