//! A found value before it becomes JSON: each string has the stretches of the text it was taken from.

use serde_json::{Map, Value};

use super::super::rank::select::{Quoted, QuotedRange};

#[derive(Debug, Clone, PartialEq, Default)]
pub enum Filled {
    #[default]
    Nothing,
    /// A value of our own or copied from an input.
    Value(Value),
    /// Text with its pieces.
    Text(Quoted),
    List(Vec<Filled>),
    /// An object, members in order.
    Object(Vec<(String, Filled)>),
}

impl Filled {
    /// Plain text; nothing when blank.
    pub fn text(text: impl Into<String>) -> Filled {
        let text = text.into();
        if text.trim().is_empty() { Filled::Nothing } else { Filled::Text(Quoted::plain(text)) }
    }

    /// Quoted text; nothing when blank.
    pub fn quoted(quoted: Quoted) -> Filled {
        if quoted.text.trim().is_empty() { Filled::Nothing } else { Filled::Text(quoted) }
    }

    /// Whether it has no value or only empty ones.
    pub fn is_empty(&self) -> bool {
        match self {
            Filled::Nothing | Filled::Value(Value::Null) => true,
            Filled::Value(Value::String(text)) => text.trim().is_empty(),
            Filled::Value(Value::Array(list)) => list.is_empty(),
            Filled::Value(Value::Object(map)) => map.is_empty(),
            Filled::Value(_) => false,
            Filled::Text(quoted) => quoted.text.trim().is_empty(),
            Filled::List(list) => list.iter().all(Filled::is_empty),
            Filled::Object(members) => members.iter().all(|(_, member)| member.is_empty()),
        }
    }

    /// The first stretch of the text it rests on.
    pub(crate) fn first_piece(&self) -> Option<QuotedRange> {
        match self {
            Filled::Text(quoted) => quoted.pieces.first().copied(),
            Filled::List(list) => list.iter().find_map(Filled::first_piece),
            Filled::Object(members) => members.iter().find_map(|(_, member)| member.first_piece()),
            Filled::Nothing | Filled::Value(_) => None,
        }
    }

    /// The JSON value; every piece is handed over with the pointer of its string.
    pub(crate) fn into_value(
        self,
        pointer: &str,
        pieces: &mut Vec<(String, QuotedRange)>,
    ) -> Value {
        match self {
            Filled::Nothing => Value::Null,
            Filled::Value(value) => value,
            Filled::Text(quoted) => {
                pieces.extend(quoted.pieces.into_iter().map(|piece| (pointer.to_string(), piece)));
                Value::String(quoted.text)
            }
            Filled::List(list) => {
                let values = list.into_iter().enumerate();
                Value::Array(
                    values
                        .map(|(at, element)| element.into_value(&format!("{pointer}/{at}"), pieces))
                        .collect(),
                )
            }
            Filled::Object(members) => {
                let mut map = Map::new();
                for (name, member) in members {
                    let escaped = name.replace('~', "~0").replace('/', "~1");
                    map.insert(name, member.into_value(&format!("{pointer}/{escaped}"), pieces));
                }
                Value::Object(map)
            }
        }
    }
}
