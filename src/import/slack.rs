//! What lies beside the channels of a Slack export: who its people are, and which channels are for few.
//!
//! Contract: a channel is a folder with a file for each day. The lists beside these folders name the people and
//! the channels. A channel that no list of public ones names is private; without such lists nothing is known.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use super::decode;
use crate::contract::time::Day;
use crate::os::Disk;

/// Largest list that is read.
const LIST_BYTES_MAX: u64 = 64 << 20;
/// The lists of channels that everybody of a workspace sees, and of those that few see.
const PUBLIC: &str = "channels.json";
const PRIVATE: [&str; 3] = ["groups.json", "dms.json", "mpims.json"];

/// What an export knows of one channel.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct SlackChannel {
    /// The names of people, by their ids.
    pub people: BTreeMap<String, String>,
    pub is_private: bool,
    /// Those who talk with each other, of a channel that has no name of its own.
    pub between: Option<String>,
}

impl SlackChannel {
    /// What lies beside the channel of a file; nothing for a file that is no day of a channel.
    pub(super) fn around(disk: &dyn Disk, file: &Path) -> SlackChannel {
        let is_day = file
            .file_stem()
            .and_then(|stem| stem.to_str())
            .is_some_and(|stem| stem.parse::<Day>().is_ok());
        let channel = file
            .parent()
            .and_then(|channel| Some((channel.parent()?, channel.file_name()?.to_str()?)));
        let Some((export, folder)) = channel.filter(|_| is_day) else {
            return SlackChannel::default();
        };
        let listed = |name: &str| list(disk, &export.join(name));
        let people = listed("users.json").iter().flatten().filter_map(person).collect();
        let public = listed(PUBLIC);
        let of_few: Vec<Value> = PRIVATE.into_iter().filter_map(listed).flatten().collect();
        let is_this = |one: &&Value| ["name", "id"].iter().any(|member| one[*member] == folder);
        let among_few = of_few.iter().find(is_this);
        let among_all = public.iter().flatten().find(is_this);
        let is_private = match among_all {
            Some(channel) => channel["is_private"] == true,
            None => among_few.is_some() || public.is_some(),
        };
        let between = among_few.and_then(|channel| between(channel, &people));
        SlackChannel { people, is_private, between }
    }
}

/// A list of objects; `None` where there is none that can be read.
fn list(disk: &dyn Disk, path: &Path) -> Option<Vec<Value>> {
    let stat = disk.stat(path).ok()??;
    if stat.is_dir || stat.len > LIST_BYTES_MAX {
        return None;
    }
    let text = decode::text(&disk.read(path).ok()?)?;
    serde_json::from_str(&text).ok()
}

fn person(user: &Value) -> Option<(String, String)> {
    const NAMES: [&str; 4] = ["/profile/real_name", "/real_name", "/profile/display_name", "/name"];
    let word =
        |place: &&str| Some(user.pointer(place)?.as_str()?.trim()).filter(|name| !name.is_empty());
    let name = NAMES.iter().find_map(word)?;
    Some((user["id"].as_str()?.to_owned(), name.to_owned()))
}

/// The people of a direct message, which Slack names by an id or by `mpdm-ana--ben-1`.
fn between(channel: &Value, people: &BTreeMap<String, String>) -> Option<String> {
    let is_named = channel["name"].as_str().is_some_and(|name| !name.starts_with("mpdm-"));
    let members = channel["members"].as_array().filter(|_| !is_named)?;
    let names = members.iter().filter_map(Value::as_str);
    let names: Vec<&str> = names.map(|id| people.get(id).map_or(id, String::as_str)).collect();
    (!names.is_empty()).then(|| names.join(", "))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::os::real::HostDisk;

    #[test]
    fn the_lists_of_an_export_say_who_its_people_are_and_which_channels_are_private() {
        let dir = tempfile::tempdir().unwrap();
        let disk: &dyn Disk = &HostDisk;
        let write = |name: &str, list: Value| {
            disk.replace(&dir.path().join(name), list.to_string().as_bytes(), 0o640).unwrap();
        };
        let around = |channel: &str| {
            SlackChannel::around(disk, &dir.path().join(channel).join("2026-02-11.json"))
        };
        assert_eq!(around("general"), SlackChannel::default(), "nothing is known");
        write(
            "users.json",
            json!([
            {"id": "U1", "name": "ana", "profile": {"real_name": "Ana Ruiz"}},
            {"id": "U2", "name": "ben", "profile": {"real_name": "", "display_name": ""}}]),
        );
        write("groups.json", json!([{"id": "G1", "name": "board", "members": ["U1"]}]));
        assert_eq!([around("general").is_private, around("board").is_private], [false, true]);
        write(
            "channels.json",
            json!([{"id": "C1", "name": "general"},
            {"id": "C2", "name": "closed", "is_private": true}]),
        );
        write("dms.json", json!([{"id": "D1", "members": ["U1", "U2", "U3"]}]));
        write(
            "mpims.json",
            json!([{"id": "G9", "name": "mpdm-ana--ben-1", "members": ["U2", "U1"]}]),
        );
        for (channel, is_private, between) in [
            ("general", false, None),
            ("closed", true, None),
            ("board", true, None),
            ("D1", true, Some("Ana Ruiz, ben, U3")),
            ("mpdm-ana--ben-1", true, Some("ben, Ana Ruiz")),
            ("listed-nowhere", true, None),
        ] {
            let found = around(channel);
            assert_eq!(found.is_private, is_private, "{channel}");
            assert_eq!(found.between.as_deref(), between, "{channel}");
            assert_eq!(found.people["U1"], "Ana Ruiz");
        }
        let other = SlackChannel::around(disk, &dir.path().join("board/notes.json"));
        assert_eq!(other, SlackChannel::default(), "it is no day of a channel");
    }
}
