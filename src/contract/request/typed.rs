//! The fast reader of a request: accepts an object exactly when the JSON Schema does (and it is
//! read strictly), in one pass and without building a tree. A property test and a fuzz test check
//! that both agree. The result is parsed, and `settle` has not checked it yet: a day may still be the
//! 30th of February.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::strict::{Keep, Names, Skip, Text, keep_members, repeated};
use crate::contract::json::has_rounding_float;
use crate::contract::query::{self, CONDITION_FIELDS, LIMIT_MAX};
use crate::contract::vocabulary::{Bus, InputMode, SummaryKind, Urgency};

type Str<'de> = Cow<'de, str>;

/// A request as the schema accepts it.
pub(super) struct Raw<'de> {
    pub request_id: Str<'de>,
    pub created_at: Str<'de>,
    pub repo: Str<'de>,
    pub component: Str<'de>,
    pub version: Str<'de>,
    pub git_commit: Option<Str<'de>>,
    pub urgency: Urgency,
    pub not_before: Option<Str<'de>>,
    pub deadline: Option<Str<'de>>,
    pub priority: Option<u8>,
    pub idempotency_key: Option<Str<'de>>,
    pub kind: SummaryKind,
    pub subkind: Str<'de>,
    pub flow_id: Str<'de>,
    pub variant: Option<Str<'de>>,
    pub params: Map<String, Value>,
    /// An integer in the parameters or conditions that 64 bits cannot hold, and the place of the object.
    pub(crate) wide_integer: Option<(&'static str, Str<'de>)>,
    pub input: RawInput<'de>,
}

/// The input in its mode.
pub(super) enum RawInput<'de> {
    Ids { bus: Bus, ids: Vec<Str<'de>> },
    Manifest { path: Str<'de>, hash: Str<'de> },
    Query { bus: Bus, query: RawQuery<'de> },
}

/// A query as its schema accepts it.
pub(super) struct RawQuery<'de> {
    pub days: RawDays<'de>,
    pub(crate) conditions: Map<String, Value>,
    pub limit: Option<u16>,
}

/// The days of a query, shaped like days.
pub(super) enum RawDays<'de> {
    One(Str<'de>),
    Range(Str<'de>, Str<'de>),
}

/// Reads one line; `None` when the schema would refuse it or it is not strict JSON.
pub(super) fn read(text: &str) -> Option<Raw<'_>> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let root = RequestMembers::read(&mut deserializer).ok()?;
    deserializer.end().ok()?;
    let mut raw = complete(root)?;
    let conditions = match &raw.input {
        RawInput::Query { query, .. } => Some(&query.conditions),
        _ => None,
    };
    let mut all = raw.params.values().chain(conditions.into_iter().flat_map(Map::values));
    if all.any(has_rounding_float) {
        raw.wide_integer = PLACES.iter().find_map(|place| {
            let found = wide_integer(part(text, place)?)?;
            Some((*place, Cow::Borrowed(found)))
        });
    }
    Some(raw)
}

/// Objects of a request whose integers count.
const PLACES: [&str; 2] = ["/work/params", "/input/query/where"];

/// The part of a JSON text at a pointer, as it is written.
fn part<'t>(text: &'t str, pointer: &str) -> Option<&'t str> {
    pointer.split('/').skip(1).try_fold(text, |text, name| {
        let members: BTreeMap<String, &'t RawValue> = serde_json::from_str(text).ok()?;
        members.get(name).map(|raw| raw.get())
    })
}

/// The first integer of a JSON text, written without exponent, that its type cannot hold: 64 bits without a fraction,
/// and a float with one. Rounded, two of them could become one.
fn wide_integer(text: &str) -> Option<&str> {
    let (mut in_string, mut escaped, mut start) = (false, false, None);
    for (at, byte) in text.bytes().enumerate() {
        let in_number = !in_string
            && (byte.is_ascii_digit() || matches!(byte, b'-' | b'+' | b'.' | b'e' | b'E'));
        match (start, in_number) {
            // The words `true` and `false` have an `e`, and begin with no digit.
            (None, true) if byte == b'-' || byte.is_ascii_digit() => start = Some(at),
            (Some(from), false) => {
                let number = &text[from..at];
                let is_integer = number.bytes().skip(1).all(|byte| byte.is_ascii_digit());
                let is_wide = || number.parse::<u64>().is_err() && number.parse::<i64>().is_err();
                if is_integer && is_wide() || is_rounded(number) {
                    return Some(number);
                }
                start = None;
            }
            _ => {}
        }
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            _ => {}
        }
    }
    None
}

/// Whether a number with a fraction, such as `9007199254740993.0`, is another one as a float.
fn is_rounded(number: &str) -> bool {
    /// Digits that a float always holds.
    const EXACT_DIGITS: usize = 15;
    /// A longer number is beyond every integer that a request may have.
    const INTEGER_DIGITS: usize = 20;
    let Some((whole, fraction)) = number.trim_start_matches('-').split_once('.') else {
        return false;
    };
    let is_plain =
        [whole, fraction].iter().all(|part| part.bytes().all(|byte| byte.is_ascii_digit()));
    if !is_plain || !(EXACT_DIGITS + 1..=INTEGER_DIGITS).contains(&whole.len()) {
        return false;
    }
    let held = number.parse::<f64>().map(|value| format!("{:.0}", value.abs()));
    held.is_ok_and(|held| held != whole || fraction.bytes().any(|digit| digit != b'0'))
}

/// Declares the members of an object whose other members are read over. A member that is null is
/// absent.
macro_rules! object {
    ($name:ident at $depth:literal { $($key:literal => $field:ident: $type:ty = $seed:expr,)+ }) => {
        #[allow(dead_code, reason = "some members are read only to be checked")]
        struct $name<'de> { $($field: Option<$type>,)+ }

        impl<'de> $name<'de> {
            fn read<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Members;
                impl<'de> Visitor<'de> for Members {
                    type Value = $name<'de>;

                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        f.write_str("an object")
                    }

                    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                        // Twice `Option`: whether it is there, and whether it is not null.
                        $(let mut $field: Option<Option<$type>> = None;)+
                        let mut others = Names::default();
                        while let Some(name) = map.next_key_seed(Text)? {
                            match &*name {
                                $($key => {
                                    let value = map.next_value_seed(Maybe($seed))?;
                                    if $field.replace(value).is_some() {
                                        return Err(repeated($key));
                                    }
                                })+
                                _ => {
                                    others.add(name)?;
                                    map.next_value_seed(Skip($depth + 1))?;
                                }
                            }
                        }
                        Ok($name { $($field: $field.flatten(),)+ })
                    }
                }
                deserializer.deserialize_map(Members)
            }
        }
    };
}

/// Reads a value, or null as none.
struct Maybe<S>(S);

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for Maybe<S> {
    type Value = Option<S::Value>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_option(self)
    }
}

impl<'de, S: DeserializeSeed<'de>> Visitor<'de> for Maybe<S> {
    type Value = Option<S::Value>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value or null")
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_none<E: Error>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        self.0.deserialize(deserializer).map(Some)
    }
}

macro_rules! seed {
    ($seed:ident reads $name:ident) => {
        struct $seed;
        impl<'de> DeserializeSeed<'de> for $seed {
            type Value = $name<'de>;
            fn deserialize<D: Deserializer<'de>>(self, d: D) -> Result<Self::Value, D::Error> {
                $name::read(d)
            }
        }
    };
}

object!(RequestMembers at 1 {
    "schema_version" => schema_version: Str<'de> = Text,
    "request_id" => request_id: Str<'de> = Text,
    "created_at" => created_at: Str<'de> = Text,
    "requested_by" => requested_by: RequestedByMembers<'de> = RequestedBySeed,
    "urgency" => urgency: Str<'de> = Text,
    "not_before" => not_before: Str<'de> = Text,
    "deadline" => deadline: Str<'de> = Text,
    "priority" => priority: i64 = AnyInteger,
    "idempotency_key" => idempotency_key: Str<'de> = Text,
    "trace" => trace: TraceMembers<'de> = TraceSeed,
    "notes" => notes: Str<'de> = Text,
    "work" => work: WorkMembers<'de> = WorkSeed,
    "input" => input: RawInput<'de> = InputSeed,
});

object!(RequestedByMembers at 2 {
    "repo" => repo: Str<'de> = Text,
    "component" => component: Str<'de> = Text,
    "version" => version: Str<'de> = Text,
    "git_commit" => git_commit: Str<'de> = Text,
});
seed!(RequestedBySeed reads RequestedByMembers);

object!(TraceMembers at 2 {
    "run_id" => run_id: Str<'de> = Text,
    "host" => host: Str<'de> = Text,
    "user" => user: Str<'de> = Text,
});
seed!(TraceSeed reads TraceMembers);

object!(WorkMembers at 2 {
    "output_bus" => output_bus: Str<'de> = Text,
    "output_kind" => output_kind: Str<'de> = Text,
    "summary_kind" => kind: Str<'de> = Text,
    "summary_subkind" => subkind: Str<'de> = Text,
    "flow_ref" => flow: FlowMembers<'de> = FlowSeed,
    "params" => params: Map<String, Value> = KeepObject(3),
});
seed!(WorkSeed reads WorkMembers);

object!(FlowMembers at 3 {
    "kind" => kind: Str<'de> = Text,
    "flow_id" => flow_id: Str<'de> = Text,
    "variant" => variant: Str<'de> = Text,
});
seed!(FlowSeed reads FlowMembers);

fn complete(root: RequestMembers<'_>) -> Option<Raw<'_>> {
    let by = root.requested_by?;
    let work = root.work?;
    let flow = work.flow?;
    let urgency = Urgency::parse(&root.urgency?)?;
    let fixed = root.schema_version? == super::SCHEMA
        && work.output_bus? == "summary_bus"
        && work.output_kind? == "summary_item"
        && flow.kind? == "registry";
    let timely = urgency == Urgency::Now || root.not_before.is_some();
    let shaped = [&root.not_before, &root.deadline].into_iter().flatten().all(|t| is_instant(t));
    let raw = Raw {
        request_id: root.request_id?,
        created_at: root.created_at?,
        repo: by.repo?,
        component: by.component?,
        version: by.version?,
        git_commit: by.git_commit,
        urgency,
        not_before: root.not_before,
        deadline: root.deadline,
        priority: match root.priority {
            Some(priority) => Some(u8::try_from(priority).ok().filter(|p| (1..=5).contains(p))?),
            None => None,
        },
        idempotency_key: root.idempotency_key,
        kind: SummaryKind::parse(&work.kind?)?,
        subkind: work.subkind?,
        flow_id: flow.flow_id?,
        variant: flow.variant,
        params: work.params.unwrap_or_default(),
        wide_integer: None,
        input: root.input?,
    };
    let named = !raw.request_id.is_empty()
        && !raw.flow_id.is_empty()
        && raw.idempotency_key.as_ref().is_none_or(|key| !key.is_empty());
    (fixed && timely && shaped && named && is_instant(&raw.created_at)).then_some(raw)
}

/// The `instant` pattern of the schema.
pub(super) fn is_instant(text: &str) -> bool {
    let bytes = text.as_bytes();
    let Some((clock, mut rest)) = bytes.split_at_checked(19) else { return false };
    if !matches_shape(clock, b"0000-00-00T00:00:00") {
        return false;
    }
    if let [b'.', fraction @ ..] = rest {
        let digits = fraction.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if digits == 0 {
            return false;
        }
        rest = &fraction[digits..];
    }
    matches!(rest, [] | [b'Z']) || matches_shape(rest, b"+00:00") || matches_shape(rest, b"-00:00")
}

/// The day pattern of the query schema.
fn is_day(text: &str) -> bool {
    matches_shape(text.as_bytes(), b"0000-00-00")
}

/// Whether the text has the length of the shape, a digit where the shape has `0`, and the same byte
/// in all other places.
fn matches_shape(bytes: &[u8], shape: &[u8]) -> bool {
    bytes.len() == shape.len()
        && bytes.iter().zip(shape).all(|(byte, wanted)| match wanted {
            b'0' => byte.is_ascii_digit(),
            _ => byte == wanted,
        })
}

/// Reads an integer in the sense of JSON Schema: `3`, `3.0` and `3e0` are one number.
struct AnyInteger;

impl<'de> DeserializeSeed<'de> for AnyInteger {
    type Value = i64;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<i64, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl Visitor<'_> for AnyInteger {
    type Value = i64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an integer")
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<i64, E> {
        Ok(i64::try_from(value).unwrap_or(i64::MAX))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<i64, E> {
        Ok(value)
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<i64, E> {
        // `as` saturates, and every bound of ours is far inside.
        if value.fract() == 0.0 { Ok(value as i64) } else { Err(E::custom("not an integer")) }
    }
}

/// Reads an object and keeps it; the number is its depth.
struct KeepObject(usize);

impl<'de> DeserializeSeed<'de> for KeepObject {
    type Value = Map<String, Value>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for KeepObject {
    type Value = Map<String, Value>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        keep_members(map, self.0)
    }
}

/// Reads an array of non-empty strings with at least one element.
struct Ids;

impl<'de> DeserializeSeed<'de> for Ids {
    type Value = Vec<Str<'de>>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Ids {
    type Value = Vec<Str<'de>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of ids")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut ids: Vec<Str<'de>> = Vec::with_capacity(4);
        while let Some(id) = seq.next_element_seed(Text)? {
            if id.is_empty() {
                return Err(A::Error::custom("an empty id"));
            }
            ids.push(id);
        }
        if ids.is_empty() { Err(A::Error::custom("no ids")) } else { Ok(ids) }
    }
}

/// The members some mode uses. Those of another mode are read over, like any unknown member.
#[derive(Default)]
struct InputMembers<'de> {
    bus: Option<Bus>,
    ids: Option<Vec<Str<'de>>>,
    path: Option<Str<'de>>,
    hash: Option<Str<'de>>,
    query: Option<RawQuery<'de>>,
}

fn members_of(mode: InputMode) -> &'static [&'static str] {
    match mode {
        InputMode::Ids => &["bus", "ids"],
        InputMode::SelectionManifest => &["manifest_path", "selection_hash"],
        InputMode::Query => &["bus", "query"],
    }
}

/// Reads one member of the input into its place.
struct InputMember<'a, 'de> {
    into: &'a mut InputMembers<'de>,
    name: &'a str,
}

impl<'de> DeserializeSeed<'de> for InputMember<'_, 'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        match self.name {
            "bus" => {
                let word = Text.deserialize(deserializer)?;
                let bus = Bus::parse(&word).ok_or_else(|| D::Error::custom("not a bus"))?;
                self.into.bus = Some(bus);
            }
            "ids" => self.into.ids = Some(Ids.deserialize(deserializer)?),
            "manifest_path" => self.into.path = Some(Text.deserialize(deserializer)?),
            "selection_hash" => self.into.hash = Some(Text.deserialize(deserializer)?),
            _ => self.into.query = Some(read_query(deserializer)?),
        }
        Ok(())
    }
}

struct InputSeed;

impl<'de> DeserializeSeed<'de> for InputSeed {
    type Value = RawInput<'de>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for InputSeed {
    type Value = RawInput<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an input")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut mode = None;
        let mut before_mode: Vec<(Str<'de>, Value)> = Vec::new();
        let mut into = InputMembers::default();
        let mut names = Names::default();
        while let Some(name) = map.next_key_seed(Text)? {
            names.add(name.clone())?;
            match mode {
                _ if name == "mode" => mode = Some(read_mode(&map.next_value_seed(Text)?)?),
                None => before_mode.push((name, map.next_value_seed(Keep(3))?)),
                Some(mode) if members_of(mode).contains(&&*name) => {
                    map.next_value_seed(InputMember { into: &mut into, name: &name })?;
                }
                Some(_) => map.next_value_seed(Skip(3))?,
            }
        }
        let mode = mode.ok_or_else(|| A::Error::custom("no mode"))?;
        for (name, value) in before_mode {
            if members_of(mode).contains(&&*name) {
                InputMember { into: &mut into, name: &name }
                    .deserialize(value)
                    .map_err(A::Error::custom)?;
            }
        }
        into.complete(mode).ok_or_else(|| A::Error::custom("a member of the mode is missing"))
    }
}

fn read_mode<E: Error>(word: &str) -> Result<InputMode, E> {
    InputMode::parse(word).ok_or_else(|| E::custom("not a mode"))
}

impl<'de> InputMembers<'de> {
    fn complete(self, mode: InputMode) -> Option<RawInput<'de>> {
        Some(match mode {
            InputMode::Ids => RawInput::Ids { bus: self.bus?, ids: self.ids? },
            InputMode::SelectionManifest => {
                let path = self.path.filter(|path| !path.is_empty())?;
                RawInput::Manifest { path, hash: self.hash? }
            }
            InputMode::Query => RawInput::Query { bus: self.bus?, query: self.query? },
        })
    }
}

fn read_query<'de, D: Deserializer<'de>>(deserializer: D) -> Result<RawQuery<'de>, D::Error> {
    let members = KeepObject(3).deserialize(deserializer)?;
    query_of(members).ok_or_else(|| D::Error::custom("not a query"))
}

/// Queries are rare and small, so this one goes through a tree.
fn query_of<'de>(mut members: Map<String, Value>) -> Option<RawQuery<'de>> {
    let mut take = |name: &str| members.shift_remove(name).filter(|value| !value.is_null());
    if take("schema_version")? != query::SCHEMA {
        return None;
    }
    let days = match (take("day"), take("day_from"), take("day_to")) {
        (Some(day), None, None) => RawDays::One(day_of(day)?),
        (None, Some(from), Some(to)) => RawDays::Range(day_of(from)?, day_of(to)?),
        _ => return None,
    };
    let mut conditions = match take("where") {
        Some(Value::Object(conditions)) => conditions,
        Some(_) => return None,
        None => Map::new(),
    };
    let closed = conditions.iter().all(|(name, value)| {
        CONDITION_FIELDS.contains(&name.as_str()) && !(value.is_array() || value.is_object())
    });
    conditions.retain(|_, value| !value.is_null());
    let limit = match take("limit") {
        Some(limit) => {
            let limit = u16::try_from(AnyInteger.deserialize(limit).ok()?).ok()?;
            Some(Some(limit).filter(|limit| (1..=LIMIT_MAX).contains(limit))?)
        }
        None => None,
    };
    (closed && members.is_empty()).then_some(RawQuery { days, conditions, limit })
}

fn day_of<'de>(value: Value) -> Option<Str<'de>> {
    match value {
        Value::String(day) if is_day(&day) => Some(Cow::Owned(day)),
        _ => None,
    }
}
