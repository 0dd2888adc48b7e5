//! JSON read strictly: no member twice in one object, at any depth, and bounded nesting. Both
//! readers see every byte, so what one of them accepts is one well-formed value.
//!
//! See docs/adr/0004-reading-a-request.md.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use crate::contract::schema::is_quotable;
use crate::limits::JSON_DEPTH_MAX;

/// Below this number of names, searching a list is faster than searching a tree.
const FEW: usize = 16;

/// The names seen in one object.
#[derive(Default)]
pub(super) struct Names<'de> {
    few: Vec<Cow<'de, str>>,
    many: BTreeSet<Cow<'de, str>>,
}

impl<'de> Names<'de> {
    /// Notes a name, or reports that the object already has it.
    pub(super) fn add<E: Error>(&mut self, name: Cow<'de, str>) -> Result<(), E> {
        if self.few.contains(&name) || self.many.contains(&name) {
            return Err(repeated(&name));
        }
        if self.few.len() < FEW {
            self.few.push(name);
        } else {
            self.many.insert(name);
        }
        Ok(())
    }
}

/// The error for a member that came before.
pub(super) fn repeated<E: Error>(name: &str) -> E {
    match is_quotable(&Value::String(name.to_owned())) {
        true => E::custom(format_args!("the member {name:?} is there twice")),
        false => E::custom("a member is there twice"),
    }
}

/// Reads a string, borrowed where the text allows.
pub(super) struct Text;

impl<'de> DeserializeSeed<'de> for Text {
    type Value = Cow<'de, str>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for Text {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(text))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Cow::Owned(text.to_owned()))
    }

    fn visit_string<E: Error>(self, text: String) -> Result<Self::Value, E> {
        Ok(Cow::Owned(text))
    }
}

fn enter<E: Error>(depth: usize) -> Result<usize, E> {
    if depth > JSON_DEPTH_MAX {
        return Err(E::custom("nested too deep"));
    }
    Ok(depth + 1)
}

/// Reads over a value; the number is the depth it would have as a container (the line is 1).
#[derive(Clone, Copy)]
pub(super) struct Skip(pub(super) usize);

impl<'de> DeserializeSeed<'de> for Skip {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Skip {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        let inner = Skip(enter(self.0)?);
        while seq.next_element_seed(inner)?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let inner = Skip(enter(self.0)?);
        let mut names = Names::default();
        while let Some(name) = map.next_key_seed(Text)? {
            names.add(name)?;
            map.next_value_seed(inner)?;
        }
        Ok(())
    }
}

/// Reads a value and keeps it; the number is as for [`Skip`].
#[derive(Clone, Copy)]
pub(super) struct Keep(pub(super) usize);

impl<'de> DeserializeSeed<'de> for Keep {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Keep {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("not a finite number"))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E: Error>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let inner = Keep(enter(self.0)?);
        let mut items = Vec::new();
        while let Some(item) = seq.next_element_seed(inner)? {
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Value, A::Error> {
        keep_members(map, self.0).map(Value::Object)
    }
}

/// Reads the members of an object that stands at `depth`.
pub(super) fn keep_members<'de, A: MapAccess<'de>>(
    mut map: A,
    depth: usize,
) -> Result<Map<String, Value>, A::Error> {
    let inner = Keep(enter(depth)?);
    let mut members = Map::new();
    while let Some(name) = map.next_key_seed(Text)? {
        if members.contains_key(&*name) {
            return Err(repeated(&name));
        }
        let value = map.next_value_seed(inner)?;
        members.insert(name.into_owned(), value);
    }
    Ok(members)
}
