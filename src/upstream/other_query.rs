//! Query mode of the bus `other`: files whose own date lies on a day.
//!
//! Contract: a file is asked for by the date that it states itself (a mail, front matter, a field of
//! a list). A file without a date is on no day; how many there are is a warning. A file that cannot
//! be read as text is passed over in the same way: its name alone says nothing about a day. So is what the
//! query cannot have meant: links, also those to folders, that lead elsewhere, and what is no regular file.

use std::io::ErrorKind;

use chrono_tz::Tz;

use super::defect::Defect;
use super::other::OTHER_DIR;
use super::sources::Gathered;
use super::view::Upstream;
use crate::contract::time::{Day, Timestamp};
use crate::contract::vocabulary::{ErrorClass, ReasonCode};
use crate::facts::note::InputNote;

/// Most files that one query looks at.
const FILES_MAX: usize = 20_000;

/// The ids of the sources on the days, in the order of their paths, and what to warn of.
pub(super) fn dated(
    upstream: &Upstream,
    zone: Tz,
    within: &dyn Fn(Day) -> bool,
) -> Result<(Vec<String>, Vec<InputNote>), Defect> {
    let mut found = OtherFiles::default();
    list(upstream, "", &mut found)?;
    let (mut ids, mut undated, mut unread) = (Vec::new(), 0_u64, found.odd);
    for file in &found.files {
        let mut gathered = Gathered { zone: Some(zone), ..Gathered::default() };
        match gathered.other(upstream, &[file]) {
            Ok(()) => {}
            Err(defect) if is_of_file(&defect) => {
                unread += 1;
                continue;
            }
            Err(defect) => return Err(defect),
        }
        for source in gathered.sources.iter() {
            match source.time_ms.map(|ms| Timestamp(ms).day_in(zone)) {
                Some(day) if within(day) => ids.push(source.id.to_owned()),
                Some(_) => {}
                None => undated += 1,
            }
        }
    }
    let mut notes = Vec::new();
    if undated > 0 {
        notes.push(InputNote::UndatedFiles { texts: undated });
    }
    if unread > 0 {
        notes.push(InputNote::UnreadableFiles { files: unread });
    }
    Ok((ids, notes))
}

/// Whether a defect is one of the file alone. Other files can still be read.
fn is_of_file(defect: &Defect) -> bool {
    defect.class == ErrorClass::SchemaMismatch
        || matches!(defect.reason, ReasonCode::PathOutsideBusHome | ReasonCode::UnknownSourceId)
}

/// The files below the folder of the bus.
#[derive(Default)]
struct OtherFiles {
    files: Vec<String>,
    /// Links that lead to a folder or in a circle.
    odd: u64,
}

/// Every file below a folder of the bus, sorted, by its path relative to the bus.
fn list(upstream: &Upstream, folder: &str, found: &mut OtherFiles) -> Result<(), Defect> {
    let shown = format!("{OTHER_DIR}/{folder}");
    let path = upstream.root().join(OTHER_DIR).join(folder);
    let mut names = match upstream.disk().list(&path) {
        Ok(names) => names,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let (name, reason) = ("folder", ReasonCode::UnknownSourceId);
            return Err(Defect::missing("FOLDER_MISSING", name, &shown, &shown, reason));
        }
        Err(error) => return Err(Defect::of_named_path("list", &shown, &error)),
    };
    names.sort_unstable();
    let disk = upstream.disk();
    for name in names.into_iter().filter(|name| !name.starts_with('.')) {
        let relative = if folder.is_empty() { name } else { format!("{folder}/{name}") };
        let path = upstream.root().join(OTHER_DIR).join(&relative);
        match disk.stat(&path) {
            Ok(Some(stat)) if stat.is_dir => match disk.is_link(&path) {
                true => found.odd += 1,
                false => list(upstream, &relative, found)?,
            },
            Ok(Some(_)) => found.files.push(relative),
            Ok(None) => {}
            Err(error) => match Defect::of_named_path("inspect", &relative, &error) {
                defect if is_of_file(&defect) => found.odd += 1,
                defect => return Err(defect),
            },
        }
        if found.files.len() > FILES_MAX {
            return Err(super::defect::too_much(format!("more than {FILES_MAX} files")));
        }
    }
    Ok(())
}
