//! On which other day of the bus an event of an id lies.
//!
//! Contract: two days share no id, so that an id finds one event. Programs count their records from 1, and anybody can
//! send a mail with the id of another. A text that a person took back keeps its id. An id that this program made of the content of a record is not looked up. For
//! the others all days are read, once in an import.

use std::collections::HashMap;

use serde::Deserialize;

use super::partition::{NewRecord, forgotten_ids};
use super::{ImportError, Target, disk_error};
use crate::contract::time::Day;
use crate::upstream::Family;
use crate::upstream::index::IdKey;
use crate::upstream::lines::Lines;

/// The days of ids, on the bus and in this import.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct OtherDays {
    days: HashMap<IdKey, Day>,
    is_read: bool,
}

#[derive(Deserialize)]
struct Identified {
    event_id: String,
}

impl OtherDays {
    /// The day other than its own on which an event of this id lies.
    pub(super) fn of(
        &mut self,
        target: Target<'_>,
        id: &str,
        own: Day,
    ) -> Result<Option<Day>, ImportError> {
        if !std::mem::replace(&mut self.is_read, true) {
            self.read(target)?;
        }
        let known = *self.days.entry(IdKey::of(id)).or_insert(own);
        Ok((known != own).then_some(known))
    }

    fn read(&mut self, target: Target<'_>) -> Result<(), ImportError> {
        let folder = target.root.join(Family::Events.data_dir());
        let names = match target.disk.list(&folder) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            names => names.map_err(disk_error("list", &folder))?,
        };
        for name in names {
            let day = name.strip_suffix(".jsonl").and_then(|day| day.parse::<Day>().ok());
            let Some(day) = day else { continue };
            for id in forgotten_ids(target, Family::Events, &day.to_string())? {
                self.days.entry(IdKey::of(&id)).or_insert(day);
            }
            let path = folder.join(&name);
            let file =
                target.disk.open_beneath(target.root, &path).map_err(disk_error("open", &path))?;
            let stat = file.stat().map_err(disk_error("inspect", &path))?;
            let mut lines = Lines::new(file, stat.len);
            while let Some((_, line)) = lines.next_line().map_err(disk_error("read", &path))? {
                if let Ok(found) = serde_json::from_slice::<Identified>(line) {
                    self.days.entry(IdKey::of(&found.event_id)).or_insert(day);
                }
            }
        }
        Ok(())
    }
}

/// Whether other records may have the id of a record too.
pub(super) fn may_repeat(record: &NewRecord) -> bool {
    let source = &record.value["source"];
    let is_given = source["source_record_id"] == record.id.as_str();
    matches!(source["source_system"].as_str(), Some("rss" | "mail"))
        || is_given && !record.id.starts_with("evt_")
}
