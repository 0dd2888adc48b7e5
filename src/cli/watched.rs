//! `watch`: the folders that a service takes in by itself, as sections `[[watch]]` of the settings.
//!
//! Contract: the settings file is changed as a text, so that comments and the order of its sections stay. The new text is
//! read before it is written: it names the same folders but the one that was added or removed.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use serde_json::json;

use super::failure::{Exit, Failure};
use super::held_home::{is_home, no_home};
use super::prose::plain_line;
use super::settings::{config_path, load_config};
use super::source_files::real_place;
use super::watch::folder_of;
use super::{Context, names, ui};
use crate::config::{Config, WATCH_KINDS, WatchConfig};
use crate::control::socket::ControlClient;
use crate::home::Home;

/// The line that begins a section of a watched folder.
const SECTION: &str = "[[watch]]";
/// Rights of a settings file that is new.
const MODE: u32 = 0o640;

/// Choose the folders that a service keeps summarized, list them, or stop watching one
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  summarizer watch add ~/notes --project garden
  summarizer watch list
  summarizer watch remove ~/notes")]
pub(crate) struct WatchArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Watch a folder: a service or `drain --folders` takes in what is new and what changes
    Add(AddWatch),
    /// List the watched folders
    List,
    /// Stop watching a folder; its summaries stay
    Remove {
        /// The folder, as `watch list` names it
        #[arg(value_name = "FOLDER")]
        folder: PathBuf,
    },
}

#[derive(Debug, Args)]
struct AddWatch {
    /// The folder
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
    /// Only files whose name or path below the folder fits; `*` stands for any characters
    #[arg(long, value_name = "PATTERN")]
    glob: Option<String>,
    /// Only files of this kind: document, mail, chat, feed
    #[arg(long, value_name = "KIND")]
    kind: Option<String>,
    /// The flow [default: by the kind of file, see `config`]
    #[arg(long, value_name = "FLOW_ID")]
    flow: Option<String>,
    /// The project of every source that names none itself
    #[arg(long, value_name = "NAME")]
    project: Option<String>,
}

impl WatchArgs {
    pub(super) fn run(&self, context: &Context) -> Result<Exit, Failure> {
        if !is_home(context)? {
            return Err(no_home(context, "make one there with `summarizer init`"));
        }
        let config = load_config(context)?;
        let home = Home::new(&context.home, &config);
        match &self.action {
            Action::Add(args) => args.run(context, &config, &home),
            Action::List => Ok(list(context, &config, &home)),
            Action::Remove { folder } => remove(context, &config, &home, folder),
        }
    }
}

impl AddWatch {
    fn run(&self, context: &Context, config: &Config, home: &Home) -> Result<Exit, Failure> {
        let disk = context.machine.disk.as_ref();
        let folder = disk.real_path(&self.folder).map_err(|error| {
            let what = format!("cannot watch {}", self.folder.display());
            Failure::new(Exit::Input, what).because(&error)
        })?;
        if !disk.stat(&folder).is_ok_and(|stat| stat.is_some_and(|stat| stat.is_dir)) {
            let what = format!("{} is no folder", self.folder.display());
            return Err(Failure::new(Exit::Input, what).hint("`summarizer add` takes in a file"));
        }
        let Some(name) = folder.to_str() else {
            return Err(Failure::new(Exit::Input, "the name of the folder is not UTF-8"));
        };
        if let Some(kind) = &self.kind
            && !WATCH_KINDS.contains(&kind.as_str())
        {
            return Err(names::unknown("kind", kind, WATCH_KINDS.iter().copied()));
        }
        let flow = self.flow.as_deref();
        let flow = flow.map(|flow| names::registered_flow(context, flow)).transpose()?;
        let wanted = WatchConfig {
            folder: name.to_owned(),
            glob: self.glob.clone(),
            kind: self.kind.clone(),
            flow,
            project: self.project.clone(),
        };
        let is_same = |known: &WatchConfig| {
            let folder = real_folder(context, home, known);
            WatchConfig { folder: folder.display().to_string(), ..known.clone() } == wanted
        };
        let is_known = config.watches.iter().any(is_same);
        if !is_known {
            let text = text_of(context)?;
            let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
            let gap = if text.is_empty() { "" } else { "\n" };
            let new = format!("{text}{end}{gap}{}", section(&wanted));
            let mut all = config.watches.clone();
            all.push(wanted.clone());
            write(context, &new, &all)?;
        }
        told(context, home, true, &json!({"watch": shown(&wanted), "changed": !is_known}), || {
            let name = plain_line(&wanted.folder);
            match is_known {
                true => format!("{name} is watched already"),
                false => format!("{name} is watched now"),
            }
        });
        Ok(Exit::Done)
    }
}

fn list(context: &Context, config: &Config, home: &Home) -> Exit {
    if context.ui.json {
        config.watches.iter().for_each(|one| context.ui.json(&shown(one)));
        return Exit::Done;
    }
    if config.watches.is_empty() {
        context.ui.talk("no folder is watched; `summarizer watch add FOLDER` watches one");
        return Exit::Done;
    }
    let row = |one: &WatchConfig| {
        let of = |value: &Option<String>| value.clone().unwrap_or_else(|| "-".to_owned());
        let is_there = context.machine.disk.list(&folder_of(home, &one.folder)).is_ok();
        let folder = match is_there {
            true => plain_line(&one.folder),
            false => format!("{} (cannot be read)", plain_line(&one.folder)),
        };
        vec![folder, of(&one.glob), of(&one.kind), of(&one.flow), of(&one.project)]
    };
    let rows: Vec<Vec<String>> = config.watches.iter().map(row).collect();
    context.ui.table(&["FOLDER", "GLOB", "KIND", "FLOW", "PROJECT"], &rows);
    Exit::Done
}

/// A folder may have several sections, one for each flow: all of them go.
fn remove(context: &Context, config: &Config, home: &Home, folder: &Path) -> Result<Exit, Failure> {
    // A relative folder of the settings lies in the home, and one that a person names where the command runs.
    let wanted = real_place(context.machine.disk.as_ref(), folder);
    let is_at = |one: &WatchConfig| real_folder(context, home, one) == wanted;
    let is_named = |one: &WatchConfig| Path::new(&one.folder) == folder;
    let has_one_there = config.watches.iter().any(is_at);
    let is_meant = |one: &WatchConfig| if has_one_there { is_at(one) } else { is_named(one) };
    let kept: Vec<WatchConfig> =
        config.watches.iter().filter(|one| !is_meant(one)).cloned().collect();
    if kept.len() == config.watches.len() {
        let known = config.watches.iter().map(|one| one.folder.as_str());
        return Err(names::unknown("watched folder", &folder.display().to_string(), known));
    }
    let new = without_sections(&text_of(context)?, &|text| {
        let read = Config::load(Some(text), &std::collections::BTreeMap::new(), 1);
        read.is_ok_and(|one| one.watches.iter().any(is_meant))
    });
    write(context, &new, &kept)?;
    let name = folder.display().to_string();
    told(context, home, false, &json!({"removed": name, "watched": kept.len()}), || {
        format!("{} is watched no more; its summaries stay", plain_line(&name))
    });
    Ok(Exit::Done)
}

/// Says what was done, and how a running service learns of it.
fn told(
    context: &Context,
    home: &Home,
    watches: bool,
    value: &serde_json::Value,
    line: impl Fn() -> String,
) {
    if context.ui.json {
        return context.ui.json(value);
    }
    context.ui.talk(line());
    let next = match (ControlClient::connect(&home.socket()).is_ok(), watches) {
        (true, _) => "next: `summarizer reload` tells it to the running service",
        (false, false) => return,
        (false, true) => {
            "next: `summarizer serve` watches, `summarizer drain --folders` takes in once what is new"
        }
    };
    context.ui.talk(ui::dim(next));
}

fn shown(one: &WatchConfig) -> serde_json::Value {
    json!({
        "folder": one.folder, "glob": one.glob, "kind": one.kind, "flow": one.flow,
        "project": one.project,
    })
}

fn real_folder(context: &Context, home: &Home, one: &WatchConfig) -> PathBuf {
    real_place(context.machine.disk.as_ref(), &folder_of(home, &one.folder))
}

fn section(one: &WatchConfig) -> String {
    let mut text = format!("{SECTION}\n");
    let members = [
        ("folder", Some(&one.folder)),
        ("glob", one.glob.as_ref()),
        ("kind", one.kind.as_ref()),
        ("flow", one.flow.as_ref()),
        ("project", one.project.as_ref()),
    ];
    for (name, value) in members.into_iter().filter_map(|(name, value)| Some((name, value?))) {
        text.push_str(&format!("{name} = {}\n", toml::Value::from(value.as_str())));
    }
    text
}

/// The text without the sections that are meant. Comments above the next section belong to that one.
fn without_sections(text: &str, is_meant: &dyn Fn(&str) -> bool) -> String {
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let is_head = |line: &&str| line.trim_start().starts_with('[');
    let is_beside = |line: &&&str| line.trim().is_empty() || line.trim_start().starts_with('#');
    let (mut kept, mut at) = (String::new(), 0);
    while at < lines.len() {
        let is_watch = lines[at].split('#').next().is_some_and(|line| line.trim() == SECTION);
        let mut end = at + 1;
        if is_watch {
            end += lines[end..].iter().take_while(|line| !is_head(line)).count();
            if end < lines.len() {
                end -= lines[at + 1..end].iter().rev().take_while(is_beside).count();
            }
        }
        let block = lines[at..end].concat();
        if !(is_watch && is_meant(&block)) {
            kept.push_str(&block);
        }
        at = end;
    }
    kept
}

fn text_of(context: &Context) -> Result<String, Failure> {
    let path = config_path(context);
    let unread = |error: std::io::Error| {
        Failure::new(Exit::Config, format!("cannot read {}", path.display())).because(&error)
    };
    let bytes = context.machine.disk.read_if_present(&path).map_err(unread)?;
    // The settings were read from it just now.
    Ok(String::from_utf8(bytes.unwrap_or_default()).unwrap_or_default())
}

/// Writes the settings, if they name these folders and are the same otherwise.
fn write(context: &Context, text: &str, watches: &[WatchConfig]) -> Result<(), Failure> {
    let path = config_path(context);
    let read = Config::load(Some(text), &std::collections::BTreeMap::new(), 1);
    if !read.is_ok_and(|config| config.watches == watches) {
        let what = format!("cannot change the sections {SECTION} of {}", path.display());
        return Err(Failure::new(Exit::Config, what)
            .hint("edit it by hand: docs/configuration.md describes the section"));
    }
    let disk = context.machine.disk.as_ref();
    disk.replace(&path, text.as_bytes(), MODE).map_err(|error| {
        Failure::new(Exit::Storage, format!("cannot write {}", path.display())).because(&error)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_goes_and_the_comments_of_others_stay() {
        let text = "# Mine.\n[digest]\nauto = true\n\n[[watch]] # old\nfolder = \"a\"\n# in it\n\n# The garden.\n[[watch]]\nfolder = \"b\"\n";
        let without = |word: &str| without_sections(text, &|block| block.contains(word));
        assert_eq!(
            without("\"a\""),
            "# Mine.\n[digest]\nauto = true\n\n# in it\n\n# The garden.\n[[watch]]\nfolder = \"b\"\n"
        );
        assert_eq!(without("\"c\""), text);
        assert!(without("\"b\"").ends_with("# The garden.\n"));
    }

    #[test]
    fn a_section_is_written_as_it_is_read() {
        let one = WatchConfig {
            folder: "/a \"b\"\\c".to_owned(),
            glob: Some("*.md".to_owned()),
            kind: Some("document".to_owned()),
            flow: None,
            project: Some("Garten, groß".to_owned()),
        };
        let read = Config::load(Some(&section(&one)), &std::collections::BTreeMap::new(), 1);
        assert_eq!(read.unwrap().watches, [one]);
    }
}
