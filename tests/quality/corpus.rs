//! Reads the inputs and their labels.
//!
//! A file holds many inputs. `@@ ID` begins one; then lines `name: value` (a pack's input) and
//! `gold.PACK: {…}` (its labels, JSON on one line); `===` ends them, and the text follows up to the
//! next `@@`.

use std::path::PathBuf;

use serde_json::{Map, Value};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Half {
    Seen,
    Hidden,
}

impl Half {
    pub fn folder(self) -> &'static str {
        match self {
            Half::Seen => "seen",
            Half::Hidden => "hidden",
        }
    }
}

pub struct Sample {
    pub id: String,
    pub inputs: Map<String, Value>,
    pub gold: Vec<(String, Map<String, Value>)>,
    pub text: String,
}

pub fn read(half: Half) -> Vec<Sample> {
    let folder =
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/quality").join(half.folder());
    let mut files: Vec<PathBuf> = std::fs::read_dir(&folder)
        .expect("the corpus")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "txt"))
        .collect();
    files.sort();
    let texts = files.iter().map(|path| std::fs::read_to_string(path).expect("a text"));
    texts.flat_map(|text| parse(&text)).collect()
}

fn parse(file: &str) -> Vec<Sample> {
    let file = format!("\n{file}");
    file.split("\n@@ ").skip(1).map(parse_one).collect()
}

fn parse_one(entry: &str) -> Sample {
    let (head, text) = entry.split_once("\n===\n").unwrap_or_else(|| panic!("no text in {entry}"));
    let mut lines = head.lines();
    let id = lines.next().unwrap_or_default().trim().to_string();
    let (mut inputs, mut gold) = (Map::new(), Vec::new());
    for line in lines.filter(|line| !line.trim().is_empty()) {
        let (name, value) = line.split_once(": ").unwrap_or_else(|| panic!("{id}: {line}"));
        match name.strip_prefix("gold.") {
            Some(pack) => {
                let labels: Value = serde_json::from_str(value)
                    .unwrap_or_else(|error| panic!("{id}: {name}: {error}"));
                gold.push((pack.to_string(), labels.as_object().expect("an object").clone()));
            }
            None => {
                let json: Option<Value> = serde_json::from_str(value).ok();
                let json = json.filter(|value| value.is_object() || value.is_array());
                inputs.insert(name.to_string(), json.unwrap_or_else(|| Value::from(value)));
            }
        }
    }
    Sample { id, inputs, gold, text: text.trim_end().to_string() }
}
