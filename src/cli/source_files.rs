//! The files that sources came from: their names in a home, and whether they are still there.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use serde_json::Value;

use super::prose::plain_line;
use super::settings::load_config;
use super::{Context, ui};
use crate::contract::places::folder_of;
use crate::contract::versions::file_of_item;
use crate::home::Home;
use crate::import::collect::Skipped;
use crate::import::{NotRead, UnusedMessages, partition_of};
use crate::os::Disk;
use crate::upstream::Family;
use crate::upstream::index::IdKey;

/// Files or attachments that were not read and that are named.
const NOT_READ_NAMED: usize = 20;

/// Other skipped files that are named when there are no more of them.
const FEW: usize = 5;

/// Names the skipped files that a person may miss. Many pictures and programs are only counted.
pub(super) fn name_skipped(ui: ui::Ui, skipped: &[Skipped]) {
    let is_counted = |one: &Skipped| one.is_own() || one.is_hidden();
    let others = skipped.iter().filter(|one| !one.is_named() && !is_counted(one)).count();
    let is_named =
        |one: &&Skipped| ui.verbose || one.is_named() || (others <= FEW && !is_counted(one));
    let named = || skipped.iter().filter(is_named);
    let most = if ui.verbose { usize::MAX } else { NOT_READ_NAMED };
    for one in named().take(most) {
        let (name, why) = (plain_line(&one.name), plain_line(&one.told()));
        ui.complain(format!("{} {name}: {why}", ui::yellow("skipped:")));
    }
    let more = named().count().saturating_sub(most);
    if more > 0 {
        ui.complain(format!("and {more} more: see `-v` or `--json`"));
    }
}

/// Says how many messages of chats are part of no summary, and why.
pub(super) fn tell_unused(ui: ui::Ui, unused: UnusedMessages) {
    if let Some(told) = unused.told() {
        ui.talk(ui::dim(&format!("part of no summary: {told}")));
    }
}

/// Names what is attached to mails and was not read.
pub(super) fn name_not_read(ui: ui::Ui, not_read: &[NotRead], omitted: u64) {
    for one in not_read.iter().take(NOT_READ_NAMED) {
        let (what, file) = (plain_line(&one.what), plain_line(&one.file));
        ui.complain(format!("{} {what}, in {file}", ui::yellow("not read:")));
    }
    let more = (not_read.len() as u64 + omitted).saturating_sub(NOT_READ_NAMED as u64);
    if more > 0 {
        ui.complain(format!("and {more} more: see `--json`"));
    }
}

/// A file that was taken in before and is not there any more.
pub(super) struct GoneFile {
    pub name: String,
    /// A file that is there with the same content.
    pub same: Option<String>,
}

/// The name of a file that stays the same from wherever the command is run: below the home's own
/// folder, below the folder beside it, below the person's folder, else the whole path. Two files never share one.
pub(super) fn name_for_home(disk: &dyn Disk, home: &Path, file: &Path) -> String {
    let real = disk.real_path(file).unwrap_or_else(|_| file.to_owned());
    // A home that is not made yet has no real path, but its folder has one.
    let root = real_place(disk, home);
    let below = |folder: Option<&Path>| {
        let folder = folder.filter(|folder| folder.parent().is_some())?;
        Some(real.strip_prefix(folder).ok()?.display().to_string())
    };
    let person = std::env::var_os("HOME").map(PathBuf::from);
    // A file of the home that has this name is another source.
    let beside = |name: String| match disk.stat(&root.join(&name)) {
        Ok(None) => name,
        _ => format!("../{name}"),
    };
    below(Some(&root))
        .or_else(|| below(root.parent()).map(beside))
        .or_else(|| below(person.as_deref()).map(|rest| format!("~/{rest}")))
        .unwrap_or_else(|| real.display().to_string())
}

/// The folder of a file, by its name in a home.
pub(super) fn folder_for_home(disk: &dyn Disk, home: &Path, file: &Path) -> Option<String> {
    folder_of(&name_for_home(disk, home, file)).map(str::to_owned)
}

/// The real path of a file. Where it is not there, the folders above it that are there have their real path.
pub(super) fn real_place(disk: &dyn Disk, path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or(path.to_owned());
    let real = |above: &Path| Some((disk.real_path(above).ok()?, path.strip_prefix(above).ok()?));
    let Some((mut real, rest)) = path.ancestors().find_map(real) else { return path };
    // What is not there has no links.
    for step in rest.components() {
        match step {
            Component::ParentDir => drop(real.pop()),
            step => real.push(step),
        }
    }
    real
}

/// Whether a path leads into a folder that a home keeps for itself.
pub(super) fn is_kept(disk: &dyn Disk, home: &Home, path: &Path) -> bool {
    let path = real_place(disk, path);
    home.kept_folders().iter().any(|own| path.starts_with(real_place(disk, own)))
}

/// The name in the home of a file that a person names by its path; any other word stays as it is.
pub(super) fn known_name(context: &Context, word: &str) -> String {
    let person = std::env::var_os("HOME").map(PathBuf::from);
    let path = match word.strip_prefix("~/") {
        Some(rest) => person.map(|person| person.join(rest)),
        None => {
            let is_path = ["/", "./", "../"].iter().any(|start| word.starts_with(start));
            is_path.then(|| PathBuf::from(word))
        }
    };
    let disk = &*context.machine.disk;
    let named = path.map(|path| real_place(disk, &path));
    named.map_or(word.to_owned(), |path| name_for_home(disk, &context.home, &path))
}

/// Where a file of this name may lie, see [`name_for_home`].
fn places_of(context: &Context, name: &str) -> Vec<PathBuf> {
    let disk = &*context.machine.disk;
    let root = disk.real_path(&context.home).unwrap_or_else(|_| context.home.clone());
    let person = std::env::var_os("HOME").map(PathBuf::from);
    let places = match (name.strip_prefix("~/"), name.strip_prefix("../")) {
        (Some(rest), _) => vec![person.map(|person| person.join(rest))],
        (None, Some(rest)) => vec![root.parent().map(|beside| beside.join(rest))],
        (None, None) => vec![Some(root.join(name)), root.parent().map(|beside| beside.join(name))],
    };
    places.into_iter().flatten().collect()
}

/// Whether a file of this name lies where a name in the home leads to.
pub(super) fn has_place(context: &Context, name: &str) -> bool {
    let disk = &*context.machine.disk;
    places_of(context, name).iter().any(|place| matches!(disk.stat(place), Ok(Some(_))))
}

/// Whether `add` took a file of this name. The name that an import gives says nothing of where the file lies.
fn was_added(context: &Context, name: &str) -> bool {
    let Ok(config) = load_config(context) else { return false };
    let chunks = Home::new(&context.home, &config).buses.join(Family::Chunks.data_dir());
    let file = chunks.join(format!("{}.jsonl", partition_of(name)));
    let named = format!("\"source_uri\":{}", Value::from(name));
    let held = context.machine.disk.read(&file);
    held.is_ok_and(|bytes| memchr::memmem::find(&bytes, named.as_bytes()).is_some())
}

/// Whether the file of this name is not there any more. A folder that cannot be found says nothing: the
/// home may lie elsewhere now.
pub(super) fn is_gone(context: &Context, name: &str) -> bool {
    let (disk, places) = (&*context.machine.disk, places_of(context, file_of_item(name)));
    let is_there = |path: &Path| !matches!(disk.stat(path), Ok(None));
    let folder_is_there = |path: &PathBuf| path.parent().is_some_and(is_there);
    places.iter().any(folder_is_there)
        && !places.iter().any(|path| is_there(path))
        && was_added(context, name)
}

/// The files that are not there any more.
pub(super) fn gone_of(context: &Context, known: Vec<(String, IdKey)>) -> Vec<GoneFile> {
    let is_there = |name: &str| {
        let disk = &*context.machine.disk;
        places_of(context, file_of_item(name))
            .iter()
            .any(|path| !matches!(disk.stat(path), Ok(None)))
    };
    let (there, gone): (Vec<_>, Vec<_>) = known.into_iter().partition(|(name, _)| is_there(name));
    let there: BTreeMap<IdKey, String> =
        there.into_iter().map(|(name, content)| (content, name)).collect();
    // A file may hold many documents.
    let mut files: BTreeMap<String, Option<String>> = BTreeMap::new();
    for (name, content) in gone {
        let same = there.get(&content).map(|name| file_of_item(name).to_owned());
        files.insert(file_of_item(&name).to_owned(), same);
    }
    files.into_iter().map(|(name, same)| GoneFile { name, same }).collect()
}

/// Those of the files from which mails, chats and items of feeds were taken that are not there any more.
pub(super) fn gone_among(context: &Context, files: BTreeSet<String>) -> Vec<GoneFile> {
    let disk = &*context.machine.disk;
    let is_gone = |name: &String| {
        places_of(context, name).iter().all(|path| matches!(disk.stat(path), Ok(None)))
    };
    let gone = files.into_iter().filter(is_gone);
    gone.map(|name| GoneFile { name, same: None }).collect()
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "a test needs no durable file")]
mod tests {
    use super::*;
    use crate::os::real::HostDisk;

    #[test]
    fn a_file_in_the_home_and_one_beside_it_have_different_names() {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().join("home");
        for file in ["home/texts/roof.md", "texts/roof.md", "texts/cellar.md"] {
            std::fs::create_dir_all(dir.path().join(file).parent().unwrap()).unwrap();
            std::fs::write(dir.path().join(file), file).unwrap();
        }
        let name = |file: &str| name_for_home(&HostDisk, &home, &dir.path().join(file));
        assert_eq!(name("home/texts/roof.md"), "texts/roof.md");
        assert_eq!(name("texts/roof.md"), "../texts/roof.md");
        assert_eq!(name("texts/cellar.md"), "texts/cellar.md");
    }
}
