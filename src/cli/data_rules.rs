//! What the rules of the settings say of data that a command is given outside the queue.

use std::path::Path;

use serde_json::{Map, Value};

use super::Context;
use super::source_files::name_for_home;
use crate::config::Config;
use crate::contract::places::DataPlaces;
use crate::contract::privacy::{Confinement, says_local_only};
use crate::upstream::context::of_members;

/// The reason of data that says so itself.
const OF_DATA: &str = "the data itself";

/// The folders of a file, as this machine and as the home name them.
pub(super) fn file_places(context: &Context, path: &Path) -> DataPlaces {
    let disk = &*context.machine.disk;
    let mut places = DataPlaces::default();
    let real = disk.real_path(path).unwrap_or_else(|_| path.to_owned());
    places.add_file(&real.to_string_lossy());
    places.add_file(&name_for_home(disk, &context.home, path));
    places
}

/// What the rules say of data at these places.
pub(super) fn said_of(config: &Config, places: &DataPlaces, local_only: bool) -> Confinement {
    let mut found = config.privacy.of(places);
    if local_only {
        found.keep_here(OF_DATA);
    }
    found
}

/// What is known of the data of a command so far.
#[derive(Debug, Default)]
pub(super) struct GivenData {
    pub places: DataPlaces,
    pub local_only: bool,
}

impl GivenData {
    /// Inputs of a flow, and the records that they hold.
    pub(super) fn add_inputs(&mut self, inputs: &Map<String, Value>) {
        of_members(inputs, chrono_tz::UTC).add_places(&mut self.places);
        self.local_only |= says_local_only(inputs);
        inputs.values().for_each(|value| self.add_value(value));
    }

    fn add_value(&mut self, value: &Value) {
        match value {
            Value::Object(members) => self.add_inputs(members),
            Value::Array(items) => items.iter().for_each(|item| self.add_value(item)),
            _ => {}
        }
    }

    pub(super) fn said(&self, config: &Config) -> Confinement {
        said_of(config, &self.places, self.local_only)
    }
}
