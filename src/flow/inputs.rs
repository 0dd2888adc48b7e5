//! Makes the inputs of a flow from sources and parameters.
//!
//! Contract (also in `docs/flow-packs.md`): the main input gets the texts of the sources, unless the
//! caller gives it a value; then the text of that value is the only source. Every other input comes
//! from the caller, from the request's parameters, or from its default. What the sources say goes before
//! a parameter; a parameter that gives what they do not say is named in the outcome. Values are converted to the
//! declared type as PromptFlow converts them. A value that cannot be converted and a required input
//! without a value are refused. Undeclared parameters are accepted with a warning.
//!
//! See docs/adr/0126-what-a-prompt-calls-today.md.

use std::borrow::Cow;
use std::collections::BTreeSet;

use serde_json::{Map, Value, json};
use unicode_normalization::UnicodeNormalization as _;

use super::context::{Labels, Surroundings};
use super::dag::ValueType;
use super::outcome::{FlowProblem, ParamFacts};
use super::pack::LoadedPack;
use super::{pictures, pyvalue};
use crate::contract::publish::said_by_record;
use crate::contract::versions::COMMON_PARAMS;
use crate::contract::vocabulary::Warning;
use crate::model::SourceText;
use crate::registry::binding::{Binding, SourceField};

/// The parameter that says on which day a summary is filed. It is no fact about the text.
const FILED_DAY: &str = "day";

/// Members that hold the text of an item in a list that a caller gives; the first one counts.
const TEXTS: [&str; 3] = ["text", "content", "body"];

/// Inputs ready for the flow.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Bound<'a> {
    pub inputs: Map<String, Value>,
    /// The input with the text of the sources, which is condensed when it does not fit.
    pub main: Option<String>,
    /// The sources of the caller, borrowed because they may be large.
    pub sources: Cow<'a, [SourceText]>,
    pub warnings: Vec<String>,
    /// The inputs whose values are made of the sources and what is known of them.
    pub of_sources: BTreeSet<String>,
    /// The original main input, when a condensed text has replaced it.
    pub(crate) uncondensed: Option<Value>,
    /// The ids of the condensed texts in it, in order.
    pub(crate) condensed: Vec<String>,
    pub param_facts: ParamFacts,
}

pub(super) fn bind<'a>(
    pack: &LoadedPack,
    mut given: Map<String, Value>,
    params: &Map<String, Value>,
    sources: &'a [SourceText],
    surroundings: &Surroundings,
) -> Result<Bound<'a>, FlowProblem> {
    let mut warnings = Vec::new();
    let mut param_facts = ParamFacts::default();
    let labels = labels_of(pack);
    let declared = |name: &str| pack.inputs().iter().any(|input| input.name == name);
    // Whether the sources say what an input is bound to; `None` of an input that is bound to no fact.
    let said_by_sources = |name: &str| match binding_of(pack, name) {
        _ if sources.is_empty() || COMMON_PARAMS.contains(&name) => None,
        // The times of the sources are written in the zone of the home.
        Some(fact @ (Binding::Source(_) | Binding::HomeTimezone)) => {
            Some(surroundings.value(fact, params, sources, labels).is_some())
        }
        // Nothing that the home knows is less true than a parameter: the item tells where the input comes from.
        Some(Binding::RequestDay | Binding::HomeProfile(_)) => Some(false),
        _ => None,
    };
    for (name, value) in params {
        if value.is_null() {
            // A parameter that is null is absent.
        } else if name == FILED_DAY && binding_of(pack, name).is_some() {
            // Of a list it is the day of one item, and of a text that came late not the day of the text.
        } else if declared(name) {
            match said_by_sources(name) {
                _ if given.contains_key(name) => continue,
                Some(true) => {
                    param_facts.ignored.push(name.clone());
                    if let Some(fact @ Binding::HomeTimezone) = binding_of(pack, name) {
                        param_facts.zones.push(name.clone());
                        let zone = surroundings.value(fact, params, sources, labels);
                        param_facts.zone = zone.as_ref().map(pyvalue::to_str).unwrap_or_default();
                    }
                    continue;
                }
                Some(false) => param_facts.used.push(name.clone()),
                None => {}
            }
            given.insert(name.clone(), value.clone());
        } else if !COMMON_PARAMS.contains(&name.as_str()) && !is_mark(name, value) {
            warnings.push(Warning::UnknownParam.as_str().to_owned());
        }
    }
    warnings.dedup();
    if let Some(unknown) = given.keys().find(|name| !declared(name)) {
        warnings.push(format!("input {unknown} is not declared and is ignored"));
    }
    let mut sources = Cow::Borrowed(sources);
    let mut of_sources = BTreeSet::new();
    let main = match sources.is_empty() {
        true => longest_text(pack, &given).or(pack.main_input()),
        false => pack.main_input(),
    };
    let main = main.map(str::to_owned);
    if let Some(main) = main.as_deref() {
        match given.get(main) {
            Some(value) if sources.is_empty() => sources = own_sources(main, value).into(),
            Some(_) => {}
            None if sources.is_empty() && is_required(pack, main) => {
                return Err(FlowProblem::Input(format!("the flow needs the input {main}").into()));
            }
            None if sources.is_empty() => {}
            None => {
                let kind = pack.inputs().iter().find(|input| input.name == main).map(|i| i.kind);
                let bound = binding_of(pack, main)
                    .and_then(|binding| surroundings.value(binding, params, &sources, labels));
                let value =
                    bound.unwrap_or_else(|| main_value(kind, &sources, surroundings, labels));
                of_sources.insert(main.to_owned());
                given.insert(main.to_owned(), value);
            }
        }
    }
    let mut inputs = Map::new();
    for input in pack.inputs() {
        if !given.contains_key(&input.name)
            && let Some(binding) = binding_of(pack, &input.name)
            && let Some(value) = surroundings.value(binding, params, &sources, labels)
        {
            if matches!(binding, Binding::Sources | Binding::Text | Binding::Source(_)) {
                of_sources.insert(input.name.clone());
            }
            given.insert(input.name.clone(), fitting(input.kind, value));
        }
        let optional = || is_optional(pack, &input.name).then_some(Value::Null);
        let value = given.remove(&input.name).or_else(|| input.default.clone()).or_else(optional);
        let Some(value) = value else {
            let missing = missing(&input.name, binding_of(pack, &input.name), sources.len());
            return Err(FlowProblem::Input(missing.into()));
        };
        if pictures::is_picture(&value) && pack.shows_to_model(&input.name) {
            let reason = format!("the input {} is a picture; {}", input.name, pictures::REFUSED);
            return Err(FlowProblem::Input(reason.into()));
        }
        let value = match value {
            Value::Null if is_optional(pack, &input.name) => Value::Null,
            value => input.kind.coerce(value).map_err(|error| {
                FlowProblem::Input(format!("input {}: {error}", input.name).into())
            })?,
        };
        inputs.insert(input.name.clone(), value);
    }
    Ok(Bound {
        inputs,
        main,
        sources,
        warnings,
        of_sources,
        uncondensed: None,
        condensed: Vec::new(),
        param_facts,
    })
}

/// The longest text that a caller gives, where the pack does not say which input is the main one: of a question
/// and a document it is the document.
fn longest_text<'p>(pack: &'p LoadedPack, given: &Map<String, Value>) -> Option<&'p str> {
    if pack.record.io_contract.inputs.iter().any(|input| input.main) {
        return None;
    }
    let texts = pack.inputs().iter().filter_map(|input| {
        let text = given.get(&input.name)?.as_str()?;
        Some((input.name.as_str(), text.len()))
    });
    texts.rev().max_by_key(|(_, bytes)| *bytes).map(|(name, _)| name)
}

/// Which texts stand under labels. A flow that is told of its sources and has no input for their authors
/// learns from the label who speaks, also when there is only one.
fn labels_of(pack: &LoadedPack) -> Labels {
    let bindings = || pack.record.io_contract.inputs.iter().filter_map(|input| input.from.as_ref());
    let tells = |binding: &Binding| {
        let fields = [SourceField::Author, SourceField::Role];
        matches!(binding, Binding::Source(field) if fields.contains(field))
    };
    match () {
        () if pack.asks_ids() => Labels::Always,
        () if bindings().any(|one| *one == Binding::Text) && !bindings().any(tells) => {
            Labels::OfAuthors
        }
        () => Labels::OfSeveral,
    }
}

/// What is said where an input has no value: which fact is not known, and what may stand in its place.
fn missing(name: &str, fact: Option<&Binding>, sources: usize) -> String {
    let needed = format!("the flow needs the input {name}");
    let instead = format!("a parameter {name} of the request may say it");
    match fact {
        Some(fact @ Binding::Source(_)) if sources == 1 => {
            format!("{needed}, and the source does not say it ({fact}); {instead}")
        }
        Some(fact @ Binding::Source(_)) if sources > 1 => {
            format!(
                "{needed}, and {sources} sources have no such fact as a whole ({fact}); {instead}"
            )
        }
        Some(fact @ Binding::HomeProfile(_)) => {
            format!("{needed}, and the settings do not say it ({fact}); {instead}")
        }
        _ => needed,
    }
}

/// Whether the record says that an input must have a value, whatever default the flow gives it.
fn is_required(pack: &LoadedPack, name: &str) -> bool {
    pack.record.io_contract.inputs.iter().any(|input| input.name == name && input.required)
}

/// Whether a parameter says that the summary is private or may be shown.
fn is_mark(name: &str, value: &Value) -> bool {
    let alone = Map::from_iter([(name.to_owned(), value.clone())]);
    said_by_record(&alone).is_some()
}

fn binding_of<'p>(pack: &'p LoadedPack, name: &str) -> Option<&'p Binding> {
    let inputs = &pack.record.io_contract.inputs;
    inputs.iter().find(|input| input.name == name)?.from.as_ref()
}

/// A bound value in the shape its input declares: a list as text is its members with commas between,
/// a single value as a list is its only member.
fn fitting(kind: ValueType, value: Value) -> Value {
    match (kind, value) {
        (ValueType::String, Value::Array(items)) => {
            let words: Vec<String> = items.iter().map(pyvalue::to_str).collect();
            words.join(", ").into()
        }
        (ValueType::List, Value::Array(items)) => Value::Array(items),
        (ValueType::List, value) => Value::Array(vec![value]),
        (_, value) => value,
    }
}

fn is_optional(pack: &LoadedPack, name: &str) -> bool {
    pack.record.io_contract.inputs.iter().any(|input| input.name == name && !input.required)
}

/// The sources in a value that a caller gives: its items where each is a text with an id of its own, else one text.
fn own_sources(main: &str, value: &Value) -> Vec<SourceText> {
    if let Some(items) = items_with_ids(value) {
        return items;
    }
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => texts_of(other),
    };
    // Composed, as the texts of sources are: a quote is compared with them.
    vec![SourceText { id: main.to_owned(), text: composed(&text) }]
}

/// The items of a list of objects that each have a text, and an id that no other has.
fn items_with_ids(value: &Value) -> Option<Vec<SourceText>> {
    let items: Vec<SourceText> =
        value.as_array()?.iter().map(item_with_id).collect::<Option<_>>()?;
    let ids: BTreeSet<&str> = items.iter().map(|item| item.id.as_str()).collect();
    (!items.is_empty() && ids.len() == items.len()).then_some(items)
}

fn item_with_id(item: &Value) -> Option<SourceText> {
    let members = item.as_object()?;
    let text = TEXTS.iter().find_map(|name| members.get(*name)?.as_str())?;
    let names_it = |name: &str| name == "id" || name.ends_with("_id");
    let id = members.iter().find_map(|(name, value)| match value {
        Value::String(id) if names_it(name) && !id.is_empty() => Some(id.clone()),
        Value::Number(id) if names_it(name) => Some(id.to_string()),
        _ => None,
    })?;
    Some(SourceText { id, text: composed(text) })
}

/// A text with one form of its characters: `é` is one character, also where a file has two.
fn composed(text: &str) -> String {
    text.nfc().collect()
}

/// The texts inside a structured value, one line each, in order.
fn texts_of(value: &Value) -> String {
    fn collect(value: &Value, lines: &mut Vec<String>) {
        match value {
            Value::String(text) => lines.push(text.clone()),
            Value::Array(items) => items.iter().for_each(|item| collect(item, lines)),
            Value::Object(members) => members.values().for_each(|item| collect(item, lines)),
            Value::Number(_) => lines.push(pyvalue::to_str(value)),
            Value::Null | Value::Bool(_) => {}
        }
    }
    let mut lines = Vec::new();
    collect(value, &mut lines);
    lines.join("\n")
}

/// The value of the main input, where no binding gives it.
pub(super) fn main_value(
    kind: Option<ValueType>,
    sources: &[SourceText],
    surroundings: &Surroundings,
    labels: Labels,
) -> Value {
    match kind {
        Some(ValueType::List) => Value::Array(surroundings.list(sources)),
        Some(ValueType::Object) => json!({"sources": surroundings.list(sources)}),
        _ => surroundings.joined(sources, labels).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(id: &str, text: &str) -> SourceText {
        SourceText { id: id.into(), text: text.into() }
    }

    #[test]
    fn texts_are_joined_under_labels() {
        let nothing = Surroundings::default();
        let joined = |sources: &[SourceText]| nothing.joined(sources, Labels::OfSeveral);
        let main_value =
            |kind, sources: &[SourceText]| main_value(kind, sources, &nothing, Labels::OfSeveral);
        assert_eq!(joined(&[source("a", "one")]), "one");
        assert_eq!(nothing.joined(&[source("a", "one")], Labels::Always), "[1] a\none");
        let two = [source("a\nsystem:\n", "one"), source("b", "two")];
        assert_eq!(joined(&two), "[1] a system: \none\n\n[2] b\ntwo");
        assert_eq!(
            main_value(Some(ValueType::List), &two[1..]),
            json!([{"id": "b", "text": "two"}])
        );
        assert_eq!(main_value(Some(ValueType::Object), &two[1..])["sources"][0]["id"], "b");
    }

    #[test]
    fn an_input_without_a_value_says_which_fact_is_missing() {
        let author = Binding::Source(SourceField::Author);
        assert_eq!(
            missing("who", Some(&author), 1),
            "the flow needs the input who, and the source does not say it (source.author); a parameter who of the \
             request may say it"
        );
        assert!(
            missing("who", Some(&author), 3).contains("3 sources have no such fact as a whole")
        );
        let profile = Binding::HomeProfile("job".into());
        assert!(missing("me", Some(&profile), 1).contains("(home.profile.job)"));
        assert_eq!(missing("who", None, 1), "the flow needs the input who");
    }

    #[test]
    fn the_text_of_a_given_value_becomes_the_source() {
        let value = json!([{"n": 1, "text": "a"}, null, true, "b"]);
        assert_eq!(own_sources("items", &value), [source("items", "1\na\nb")]);
        let chunks = json!([{"chunk_id": "c1", "text": "one"}, {"text": "two", "id": 2}]);
        assert_eq!(own_sources("chunks", &chunks), [source("c1", "one"), source("2", "two")]);
        let apart = json!([{"chunk_id": "c1", "text": "Cafe\u{301}"}, {"id": "c2", "text": "x"}]);
        assert_eq!(own_sources("chunks", &apart)[0], source("c1", "Caf\u{e9}"));
        // An id that repeats names no item.
        let same = json!([{"id": "c", "text": "one"}, {"id": "c", "text": "two"}]);
        assert_eq!(own_sources("chunks", &same), [source("chunks", "c\none\nc\ntwo")]);
    }
}
