//! The events that an import made of one file: mails, messages, feed items. Their summaries are named by subject
//! or title, and a person may know only the file.
//!
//! Contract: it reads the event bus as it is, without its manifests, because the answer only finds a summary.

use std::collections::BTreeSet;

use memchr::memmem;
use serde_json::Value;

use super::Context;
use super::settings::load_config;
use crate::upstream::Family;

/// The ids of the events of a file, by its name in the home or the end of it. A word that is no name of a file has
/// none. What cannot be read has no events here.
pub(super) fn events_of_file(context: &Context, word: &str) -> BTreeSet<String> {
    let mut ids = BTreeSet::new();
    let word = word.trim_start_matches("./");
    let (true, Ok(config)) = (word.contains(['.', '/']), load_config(context)) else { return ids };
    let folder = context.home.join(&config.bus_home).join(Family::Events.data_dir());
    let disk = context.machine.disk.as_ref();
    // As JSON writes it, up to the end of the member.
    let end = Value::from(word).to_string();
    let end = memmem::Finder::new(&end.as_bytes()[1..]);
    for name in disk.list(&folder).unwrap_or_default() {
        let bytes = disk.read(&folder.join(name)).unwrap_or_default();
        let lines = bytes.split(|byte| *byte == b'\n').filter(|line| end.find(line).is_some());
        for event in lines.filter_map(|line| serde_json::from_slice::<Value>(line).ok()) {
            let file = event["source"]["source_uri"].as_str().unwrap_or_default();
            let before = file.strip_suffix(word);
            if before.is_some_and(|before| before.is_empty() || before.ends_with('/')) {
                ids.extend(event["event_id"].as_str().map(str::to_owned));
            }
        }
    }
    ids
}
