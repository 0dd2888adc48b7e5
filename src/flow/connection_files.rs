//! The files of connections: `NAME.yaml`, `NAME.yml` or `NAME.json` beside the flow or in its `connections/`.
//!
//! Contract: the verified files of the pack, read when a Python node names the connection. Values in YAML
//! are texts as they are written, as PromptFlow has them. A file that cannot be read is a problem of the
//! nodes that name it. `${env:X}` stays as it is: `python` decides which variables a connection gets.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::Deserialize;
use serde::de::{MapAccess, Visitor};
use serde_json::{Map, Value};

use super::yaml;
use crate::registry::PackFiles;

/// A longer file holds data and no connection.
const FILE_BYTES_MAX: usize = 64 << 10;
/// Members that are mappings themselves.
const GROUPS: [&str; 2] = ["configs", "secrets"];

/// The files that may be connections.
#[derive(Debug, Default)]
pub(super) struct ConnectionFiles(BTreeMap<String, Vec<(String, FileText)>>);

/// The text of a file; `None` for bytes that are no UTF-8.
type FileText = Option<String>;

impl ConnectionFiles {
    /// Those of a pack; `aliases` are the files that stand beside the flow under another name.
    pub(super) fn of(files: &PackFiles, aliases: &BTreeMap<String, String>) -> ConnectionFiles {
        let copied = aliases
            .iter()
            .filter_map(|(alias, path)| Some((alias.as_str(), files.get(path).ok().flatten()?)));
        let mut found = ConnectionFiles::default();
        for (path, bytes) in files.iter().chain(copied) {
            if let Some(name) = name_of(path).filter(|_| bytes.len() <= FILE_BYTES_MAX) {
                let of_name = found.0.entry(name.to_owned()).or_default();
                let text = String::from_utf8(bytes.to_vec()).ok();
                of_name.push((path.to_owned(), text));
            }
        }
        found
    }

    /// The environment variables that the files name.
    pub(super) fn variables(&self) -> Vec<String> {
        let members = self.0.keys().filter_map(|name| self.read(name)?.ok());
        let named: BTreeSet<String> = members.flat_map(|members| variables_of(&members)).collect();
        named.into_iter().collect()
    }

    /// The members of a connection, or what is wrong with its file; `None` without a file.
    pub(super) fn read(&self, name: &str) -> Option<Result<Map<String, Value>, String>> {
        let mut members = Map::new();
        for (path, text) in self.0.get(name)? {
            let not_utf8 = || "it is not UTF-8 (`iconv` converts it)".to_owned();
            match text.as_deref().ok_or_else(not_utf8).and_then(read) {
                Ok(more) => members.extend(more),
                Err(reason) => {
                    return Some(Err(format!("read the connection file {path}: {reason}")));
                }
            }
        }
        Some(Ok(members))
    }
}

/// The connection that a file would hold.
fn name_of(path: &str) -> Option<&str> {
    let file = path.strip_prefix("connections/").unwrap_or(path);
    let (name, end) = file.rsplit_once('.')?;
    (!name.contains('/') && matches!(end, "yaml" | "yml" | "json")).then_some(name)
}

fn read(text: &str) -> Result<Map<String, Value>, String> {
    if let Ok(members) = serde_json::from_str(text) {
        return Ok(members);
    }
    let Members(members) = yaml::parse_as(text).map_err(|error| error.0)?;
    Ok(members)
}

/// The variables of the environment that members name as `${env:X}`.
pub(super) fn variables_of(members: &Map<String, Value>) -> Vec<String> {
    let groups = GROUPS.iter().filter_map(|group| members.get(*group)?.as_object());
    let values = std::iter::once(members).chain(groups).flat_map(Map::values);
    let named =
        values.filter_map(|value| value.as_str()?.strip_prefix("${env:")?.strip_suffix('}'));
    named.map(|name| name.trim().to_owned()).collect()
}

/// What a YAML file holds: texts, and texts in groups.
struct Members(Map<String, Value>);

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Members, D::Error> {
        struct OfFile;
        impl<'de> Visitor<'de> for OfFile {
            type Value = Members;

            fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
                to.write_str("the members of a connection")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Members, M::Error> {
                let mut members = Map::new();
                while let Some(name) = map.next_key::<String>()? {
                    let value = match GROUPS.contains(&name.as_str()) {
                        true => serde_json::json!(
                            map.next_value::<Option<BTreeMap<String, Option<String>>>>()?
                        ),
                        false => map.next_value::<Option<String>>()?.into(),
                    };
                    members.insert(name, value);
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(OfFile)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_file_is_read_as_yaml_and_its_values_are_texts() {
        for (text, members) in [
            ("type: open_ai\napi_key: ss # secret\n", json!({"type": "open_ai", "api_key": "ss"})),
            ("api_key: >-\n  one\n  two\n", json!({"api_key": "one two"})),
            ("{api_base: bb, api_key: 'a # b'}", json!({"api_base": "bb", "api_key": "a # b"})),
            (
                "configs: {api_base: bb}\nsecrets:\n  k: |\n    x: y\n",
                json!({"configs": {"api_base": "bb"}, "secrets": {"k": "x: y\n"}}),
            ),
            (
                "a: 0017\nb: 1.10\nc: 123456789012345678901\nd: yes\ne: true\nf: 2024-02-01",
                json!({"a": "0017", "b": "1.10", "c": "123456789012345678901", "d": "yes", "e": "true", "f": "2024-02-01"}),
            ),
            (
                "a:\nsecrets:\nb: http://x:80/#y",
                json!({"a": null, "secrets": null, "b": "http://x:80/#y"}),
            ),
            (r#"{"port": 80, "secrets": {"k": "v"}}"#, json!({"port": 80, "secrets": {"k": "v"}})),
        ] {
            assert_eq!(read(text).map(Value::Object), Ok(members), "{text}");
        }
        for text in ["- a", "a: [1]", "a: 1\na: 2", "a: 'b"] {
            read(text).unwrap_err();
        }
    }

    #[test]
    fn a_file_is_named_by_its_connection() {
        for (path, name) in [
            ("a.yaml", Some("a")),
            ("connections/a b.yml", Some("a b")),
            ("connections/x/a.yml", None),
            ("x/a.json", None),
            ("a.py", None),
        ] {
            assert_eq!(name_of(path), name, "{path}");
        }
    }

    #[test]
    fn variables_are_named_by_whole_values() {
        let members = json!({
            "a": "${env:A}", "b": "x${env:B}", "configs": {"c": "${env: C }"}, "secrets": null
        });
        assert_eq!(variables_of(members.as_object().unwrap()), ["A", "C"]);
    }
}
