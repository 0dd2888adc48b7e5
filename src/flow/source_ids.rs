//! Checks the ids in an answer that claim to be sources of the request, and the words that claim to be theirs.
//!
//! Contract (also in `docs/flow-packs.md`): the output schema says which members claim ids. A member
//! with a name such as `chunk_ids`, `source_id` or `evidence` does, and so does every pointer that
//! `source_ids` of `projection.json` lists. `cited_ids` lists texts with ids in square brackets. An id is
//! known when the request has such a source, or when it is the label under which a prompt shows a source. A
//! label becomes the id it stands for. What stands in the text of a source, in a condensed text or in a
//! parameter is no id of a source. Where a flow repeats ids that an input gives, `given_ids` names that
//! input, and its ids are known there too. A member of `stated_ids` may hold an id that the text of a source
//! states. An unknown id is removed: out of its list, or as null, or with the entry of the list that cannot be
//! without it. Texts of the answer that name a removed id lose it too, and ranks are counted anew.
//!
//! A quote is a member that `evidence` of `projection.json` lists, or that is named like one (`quote`,
//! `relevant_quotes`), in a pack with such a file. Its words stand in a source, or in what a prompt says of one;
//! any white space counts as one space. Other words are removed as an unknown id is.
//!
//! See docs/adr/0092-checking-the-ids-of-an-answer.md.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::mem;
use std::ops::Range;

use serde_json::Value;

use super::cited_ids::{
    BRACKET_BYTES_MAX, Citations, Cleaned, Named, bare_chars, shape, unescaped, words,
};
use super::evidence;
use super::hierarchy::Hierarchy;
use super::outcome::{RemovedId, RemovedQuote, ReplacedLabel};
use super::project::Projection;
use crate::contract::schema::Violation;
use crate::markup::prefix;
use crate::model::SourceText;
use crate::model::builtin::text::lines;

/// What ids of sources are called, without `_id` and `_ids`.
const KINDS: [&str; 10] = [
    "article", "chunk", "document", "event", "evidence", "item", "message", "session", "source",
    "summary",
];
/// A member of this name holds ids or quotes.
const EVIDENCE: &str = "evidence";
/// What members with quotes are called, alone or behind another word.
const QUOTES: [&str; 2] = ["quote", "quotes"];
/// Stands for every entry of a list and every member of an open object.
const ANY: &str = "*";
/// Deepest nesting of a schema that is followed: references may go in circles.
const DEPTH_MAX: usize = 24;
/// Most members of one schema that claim ids.
const CLAIMS_MAX: usize = 200;
/// Most round brackets within one another that an id has.
const ROUND_DEPTH_MAX: usize = 4;
/// Most known ids that a repair turn names.
const KNOWN_SHOWN: usize = 60;
/// Most removed ids, removed quotes and replaced labels that an outcome lists of each.
pub(super) const REMOVED_MAX: usize = 50;
/// Most ids that are listed of one replaced label, which may stand for the sources of a whole part.
const LABEL_IDS_MAX: usize = 10;
/// Most digits of a number in a label.
const LABEL_DIGITS_MAX: usize = 4;
/// Longest id that is shown, in characters.
const ID_CHARS_MAX: usize = 200;
/// Longest text that is read as JSON to find the ids in it.
const JSON_BYTES_MAX: usize = 4 << 20;

/// Where the answers of a pack claim ids of sources, or words of them.
#[derive(Debug, Default)]
pub(crate) struct IdClaims {
    paths: Vec<Vec<String>>,
    /// Paths whose texts may also be quotes.
    quotes: Vec<bool>,
    /// Paths whose texts may also be words of a source.
    stated: Vec<bool>,
    /// Paths of texts that cite ids in square brackets.
    cited: Vec<bool>,
    /// Paths whose texts are quotes and no ids.
    verbatim: Vec<bool>,
    /// The input whose ids a path may repeat.
    given: Vec<Option<String>>,
    /// Paths whose ids are those of sources, rather than only ids that an input or a text states.
    of_sources: Vec<bool>,
}

impl IdClaims {
    pub(crate) fn of(schema: &Value, projection: &Projection) -> IdClaims {
        let mut paths = Vec::new();
        collect(schema, schema, claims_by_name, &mut Vec::new(), 0, &mut paths);
        let split = |pointer: &String| pointer.split('/').skip(1).map(of_pointer).collect();
        let quoted: Vec<Vec<String>> = projection.evidence_pointers().iter().map(split).collect();
        // What the projection calls a quote is looked up as one.
        paths.retain(|path| !quoted.iter().any(|quote| quote.starts_with(path)));
        let declared = projection.source_id_pointers().iter().chain(projection.cited_id_pointers());
        let add = |paths: &mut Vec<Vec<String>>, path| {
            if !paths.contains(&path) {
                paths.push(path);
            }
        };
        declared.map(split).for_each(|path| add(&mut paths, path));
        let named = paths.len();
        let stated = projection.stated_id_pointers().iter().map(split);
        stated.for_each(|path| add(&mut paths, path));
        let mut given = vec![None; paths.len()];
        for (pointer, input) in projection.given_id_pointers() {
            let path: Vec<String> = split(pointer);
            let at = paths.iter().position(|known| *known == path).unwrap_or_else(|| {
                paths.push(path);
                given.push(None);
                paths.len() - 1
            });
            given[at] = Some(input.clone());
        }
        let quotes = paths.iter().map(|path| path.last().is_some_and(|name| name == EVIDENCE));
        let quotes = quotes.collect();
        let listed = |pointers: &[String]| {
            let listed: Vec<Vec<String>> = pointers.iter().map(split).collect();
            paths.iter().map(|path| listed.contains(path)).collect::<Vec<bool>>()
        };
        let cited = listed(projection.cited_id_pointers());
        let stated = listed(projection.stated_id_pointers());
        let of_sources: Vec<bool> = (0..paths.len()).map(|at| at < named).collect();
        let mut claims =
            IdClaims { quotes, stated, cited, paths, given, of_sources, verbatim: vec![] };
        claims.verbatim = vec![false; claims.paths.len()];
        // An imported flow may call a price a quote.
        let mut by_name = Vec::new();
        if projection.is_declared() {
            collect(schema, schema, quotes_by_name, &mut Vec::new(), 0, &mut by_name);
        }
        by_name.retain(|path| !quoted.iter().any(|quote| quote.starts_with(path)));
        quoted.into_iter().chain(by_name).for_each(|path| claims.add_quote(path));
        claims
    }

    fn add_quote(&mut self, path: Vec<String>) {
        if self.paths.contains(&path) {
            return;
        }
        let is_evidence =
            path.iter().rev().find(|name| *name != ANY).is_some_and(|it| it == EVIDENCE);
        self.paths.push(path);
        self.given.push(None);
        for (flags, value) in [
            (&mut self.verbatim, true),
            (&mut self.quotes, is_evidence),
            (&mut self.stated, false),
            (&mut self.cited, false),
            (&mut self.of_sources, false),
        ] {
            flags.push(value);
        }
    }

    /// The claim that a place of an answer belongs to: the place itself, or the list it is an entry of.
    fn at(&self, place: &[String]) -> Option<usize> {
        let fits = |path: &Vec<String>| {
            (path.len()..=path.len() + 1).contains(&place.len())
                && path.iter().zip(place).all(|(segment, one)| segment == one || segment == ANY)
        };
        self.paths.iter().position(fits)
    }

    /// The pointers whose ids are checked, each with the input whose ids it may repeat.
    pub(crate) fn pointers(&self) -> impl Iterator<Item = (String, Option<&str>)> {
        let of_ids = (0..self.paths.len()).filter(|at| !self.verbatim[*at]);
        of_ids.map(|at| (format!("/{}", self.paths[at].join("/")), self.given[at].as_deref()))
    }

    /// The pointers whose texts must be words of a source.
    #[cfg(any(test, feature = "internals"))]
    pub(crate) fn quote_pointers(&self) -> impl Iterator<Item = String> {
        let quotes = (0..self.paths.len()).filter(|at| self.verbatim[*at]);
        quotes.map(|at| format!("/{}", self.paths[at].join("/")))
    }

    pub(crate) fn has_ids(&self) -> bool {
        self.verbatim.iter().any(|is_quote| !is_quote)
    }
}

fn collect(
    root: &Value,
    schema: &Value,
    claims: fn(&str, &Value) -> bool,
    path: &mut Vec<String>,
    depth: usize,
    paths: &mut Vec<Vec<String>>,
) {
    if depth > DEPTH_MAX || paths.len() >= CLAIMS_MAX {
        return;
    }
    let schema = resolved(root, schema);
    for (name, member) in schema["properties"].as_object().into_iter().flatten() {
        path.push(name.clone());
        if claims(name, resolved(root, member)) {
            paths.push(path.clone());
        }
        collect(root, member, claims, path, depth + 1, paths);
        path.pop();
    }
    for below in ["items", "additionalProperties"] {
        if schema[below].is_object() {
            path.push(ANY.to_owned());
            collect(root, &schema[below], claims, path, depth + 1, paths);
            path.pop();
        }
    }
    for choice in ["anyOf", "oneOf", "allOf"] {
        for schema in schema[choice].as_array().into_iter().flatten() {
            collect(root, schema, claims, path, depth + 1, paths);
        }
    }
}

/// A member named like an id that may be any text or number, or a list of those.
fn claims_by_name(name: &str, schema: &Value) -> bool {
    let name = name.to_ascii_lowercase();
    let kind = name.strip_suffix("_ids").or_else(|| name.strip_suffix("_id"));
    let named = name == EVIDENCE || kind.is_some_and(|kind| KINDS.contains(&kind));
    named && is_open(schema)
}

/// A member named like a quote, or like a list of them.
fn quotes_by_name(name: &str, schema: &Value) -> bool {
    let name = name.to_ascii_lowercase();
    let last = name.rsplit(['_', '-']).next().unwrap_or(&name);
    QUOTES.contains(&last) && is_open(schema)
}

/// Whether a member, or each entry of a list, may be any text.
fn is_open(schema: &Value) -> bool {
    let closed = |schema: &Value| schema.get("enum").is_some() || schema.get("const").is_some();
    !closed(schema) && !closed(&schema["items"])
}

fn resolved<'a>(root: &'a Value, schema: &'a Value) -> &'a Value {
    let target = schema.get("$ref").and_then(Value::as_str).and_then(|at| at.strip_prefix('#'));
    target.and_then(|pointer| root.pointer(pointer)).unwrap_or(schema)
}

fn of_pointer(segment: &str) -> String {
    segment.replace("~1", "/").replace("~0", "~")
}

/// The ids that a value gives, with the largest number that can stand for one of its entries.
#[derive(Debug, Default)]
struct GivenIds {
    ids: HashSet<String>,
    numbered: usize,
}

/// The ids that an answer may name.
#[derive(Debug, Default)]
pub(super) struct KnownIds<'a> {
    /// Ids of sources.
    of_sources: GivenIds,
    /// Ids that inputs give, for the members that repeat them.
    of_inputs: BTreeMap<String, GivenIds>,
    sources: &'a [SourceText],
    /// The sources below each node of a tree: a prompt with condensed texts shows the nodes.
    nodes: BTreeMap<String, Vec<String>>,
    /// The nodes that the prompt shows under numbers, where it shows condensed texts.
    pub condensed: &'a [String],
    /// What a prompt says of the sources beside their texts: a quote may stand there too.
    pub told: Vec<&'a Value>,
}

/// The sources that an id of an answer names.
enum Meaning {
    Itself,
    /// These sources, of which it is another name.
    Others(Vec<String>),
    /// The sources below a node of the tree, whose id it is.
    Below(Vec<String>),
    Nothing,
}

impl GivenIds {
    /// The ids of an input: its members, the numbers at the beginning of its lines, or its whole text.
    fn of(value: &Value) -> GivenIds {
        let mut given = GivenIds::default();
        given.read(value);
        // A list is given as text too; its ids were read, and the whole of it is none.
        let is_list = !given.ids.is_empty();
        let is_one = |text: &&str| {
            !is_list
                && !text.trim().is_empty()
                && !text.contains('\n')
                && text.len() <= ID_CHARS_MAX
        };
        let text = value.as_str();
        given.ids.extend(text.filter(is_one).map(str::to_owned));
        let numbers = text.into_iter().flat_map(str::lines).filter_map(lines::opening);
        let numbers: Vec<String> = numbers.map(|open| open.number.to_string()).collect();
        if !numbers.is_empty() {
            // Entries with numbers of their own are not named by their place.
            given.numbered = 0;
        }
        given.ids.extend(numbers);
        given
    }

    /// Every id that a value names, wherever it stands.
    fn read(&mut self, value: &Value) {
        match value {
            Value::String(text) => self.read_text(text),
            Value::Array(items) => {
                self.numbered = self.numbered.max(items.len());
                items.iter().for_each(|item| self.read(item));
            }
            Value::Object(members) => {
                for (name, member) in members {
                    let name = name.to_ascii_lowercase();
                    let names = ["id", "ids", "uid", "uuid", "guid", "url"]
                        .contains(&name.as_str())
                        || name.ends_with("_id")
                        || name.ends_with("_ids");
                    match member {
                        Value::Array(items) if names => items.iter().for_each(|one| self.add(one)),
                        Value::String(_) | Value::Number(_) if names => self.add(member),
                        _ => self.read(member),
                    }
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    fn add(&mut self, id: &Value) {
        match id {
            Value::String(text) => drop(self.ids.insert(text.clone())),
            Value::Number(number) => drop(self.ids.insert(number.to_string())),
            _ => {}
        }
    }

    /// The ids of a list that is given as JSON or JSON Lines.
    fn read_text(&mut self, text: &str) {
        let text = text.trim();
        self.numbered = self.numbered.max(text.lines().filter(|line| !line.is_empty()).count());
        if !text.starts_with(['[', '{']) || text.len() > JSON_BYTES_MAX {
            return;
        }
        if let Ok(value @ (Value::Array(_) | Value::Object(_))) = serde_json::from_str(text) {
            self.read(&value);
            return;
        }
        for line in text.lines().filter(|line| line.trim_start().starts_with('{')) {
            if let Ok(value @ Value::Object(_)) = serde_json::from_str(line) {
                self.read(&value);
            }
        }
    }

    fn read_labels(&mut self, text: &str) {
        for line in text.lines() {
            let label = line.strip_prefix('[').and_then(|rest| rest.split_once("] "));
            if let Some((number, id)) = label
                && number.parse::<usize>().is_ok()
            {
                self.ids.insert(id.split(" | ").next().unwrap_or(id).trim().to_owned());
            }
        }
    }

    /// The ids in a fixed order.
    fn sorted(&self) -> Vec<&str> {
        let mut ids: Vec<&str> = self.ids.iter().map(String::as_str).collect();
        ids.sort_unstable();
        ids
    }

    fn has_number(&self, number: &serde_json::Number) -> bool {
        self.ids.contains(&number.to_string())
            || number.as_u64().is_some_and(|n| (1..=self.numbered as u64).contains(&n))
    }

    fn has(&self, id: &str) -> bool {
        let place = id.parse::<usize>().ok();
        self.ids.contains(id) || place.is_some_and(|n| (1..=self.numbered).contains(&n))
    }
}

impl<'a> KnownIds<'a> {
    /// `more` are ids of the request beside those of its sources, such as documents and sessions.
    pub(super) fn of(
        sources: &'a [SourceText],
        more: &[String],
        tree: Option<&Hierarchy>,
    ) -> KnownIds<'a> {
        let mut known = KnownIds { sources, ..KnownIds::default() };
        // A number may stand for an entry of a list in a text: that is a place, and no id.
        let mut entries = GivenIds::default();
        sources.iter().for_each(|source| entries.read_text(&source.text));
        known.of_sources.numbered = entries.numbered.max(sources.len());
        known.of_sources.ids.extend(sources.iter().map(|source| source.id.clone()));
        known.of_sources.ids.extend(more.iter().cloned());
        for node in tree.into_iter().flat_map(|tree| &tree.nodes) {
            known.nodes.insert(node.node_id.clone(), node.source_ids.clone());
        }
        known
    }

    /// The main input was written by the caller: its ids are those of sources, and so are the labels
    /// `[1] id` above its texts.
    pub(crate) fn with_input_of_caller(mut self, main: Option<&Value>) -> KnownIds<'a> {
        self.sources.iter().for_each(|source| self.of_sources.read_labels(&source.text));
        main.into_iter().for_each(|value| self.of_sources.read(value));
        self
    }

    /// The inputs whose ids the members of an answer may repeat.
    pub(crate) fn with_inputs<'v>(
        mut self,
        claims: &IdClaims,
        input: impl Fn(&str) -> Option<&'v Value>,
    ) -> KnownIds<'a> {
        for name in claims.given.iter().flatten() {
            if let Some(value) = input(name) {
                self.of_inputs.insert(name.clone(), GivenIds::of(value));
            }
        }
        self
    }

    fn meaning(&self, id: &str) -> Meaning {
        let known = &self.of_sources;
        if known.ids.contains(id) {
            return Meaning::Itself;
        }
        if let Some(sources) = self.nodes.get(id) {
            return Meaning::Below(sources.clone());
        }
        // A writer of Markdown escapes the signs of an id.
        let id = unescaped(id);
        let bare = id.trim().trim_start_matches('[').trim_end_matches(']').trim();
        // A label shows the title and the author behind the id.
        let labels = [bare, bare.split(" | ").next().unwrap_or(bare)];
        let labels = labels.into_iter().chain(bare.split_once("] ").map(|(_, after)| after));
        for label in labels {
            if known.ids.contains(label) {
                return Meaning::Others(vec![label.to_owned()]);
            }
            if let Some(sources) = self.nodes.get(label) {
                return Meaning::Others(sources.clone());
            }
        }
        let number = bare.strip_prefix(['m', '#']).unwrap_or(bare);
        let place = number.parse::<usize>().ok().filter(|place| *place > 0);
        match place {
            Some(place) if !self.condensed.is_empty() => {
                let node = self.condensed.get(place - 1).and_then(|node| self.nodes.get(node));
                node.map_or(Meaning::Nothing, |sources| Meaning::Others(sources.clone()))
            }
            Some(place) if self.sources.len() > 1 => match self.sources.get(place - 1) {
                Some(source) => Meaning::Others(vec![source.id.clone()]),
                None => Meaning::Nothing,
            },
            Some(1) if known.numbered <= 1 && !self.sources.is_empty() => {
                Meaning::Others(vec![self.sources[0].id.clone()])
            }
            Some(place) if place <= known.numbered => Meaning::Itself,
            _ => Meaning::Nothing,
        }
    }

    /// Whether it is an id, and no label for one.
    fn is_id(&self, id: &str) -> bool {
        self.of_sources.ids.contains(id) || self.nodes.contains_key(id)
    }

    /// The known ids that have this one as a part.
    fn around(&self, id: &str) -> Vec<&str> {
        let of_inputs = self.of_inputs.values().flat_map(|given| &given.ids);
        let ids = self.of_sources.ids.iter().chain(of_inputs).chain(self.nodes.keys());
        let ids = ids.map(String::as_str);
        ids.filter(|known| known.len() > id.len() && known.contains(id)).collect()
    }

    fn states(&self, words: &str) -> bool {
        !words.trim().is_empty() && self.sources.iter().any(|source| source.text.contains(words))
    }

    /// Whether a source has a word as one of its own.
    fn says_word(&self, word: &str) -> bool {
        self.sources.iter().any(|source| {
            source.text.match_indices(word).any(|(at, _)| {
                let (before, after) = (&source.text[..at], &source.text[at + word.len()..]);
                !before.ends_with(char::is_alphanumeric)
                    && !after.starts_with(char::is_alphanumeric)
            })
        })
    }

    /// Whether a text begins with the id of a source, which may hold spaces and commas.
    fn begins(&self, text: &str) -> bool {
        self.of_sources.ids.iter().any(|id| text.starts_with(id.as_str()))
    }

    /// How the ids of the sources begin, and those of our own buses: a model knows them from other prompts.
    fn beginnings(&self) -> BTreeSet<&str> {
        let of_sources = self.of_sources.ids.iter().filter_map(|id| beginning_of(id));
        of_sources.chain(OWN_BEGINNINGS).collect()
    }

    /// A text with labels in brackets replaced by their ids and without unknown ids, and what was changed.
    fn cited(&self, text: &str) -> Cleaned {
        let known = |word: &str| match self.meaning(word) {
            Meaning::Itself => Some(Named::By(vec![word.to_owned()])),
            // A condensed text stands for its sources, as in a list of ids.
            Meaning::Below(ids) => Some(Named::By(ids)),
            Meaning::Others(ids) => Some(Named::Label(ids)),
            Meaning::Nothing => None,
        };
        let is_quoted = |content: &str| self.states(&unescaped(&format!("[{content}]")));
        let shapes = self.of_sources.ids.iter().map(|id| shape(id)).collect();
        Citations { known: &known, is_quoted: &is_quoted, shapes }.clean(text)
    }

    /// Those of the quotes that stand in a source, or in what a prompt says of the sources.
    fn held(&self, quotes: &BTreeSet<&str>) -> HashSet<String> {
        if quotes.is_empty() {
            return HashSet::new();
        }
        evidence::held(quotes, self.sources, &self.told)
    }
}

/// Something that was taken out of an answer.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Removed {
    /// JSON pointer into the answer as the model gave it.
    pub pointer: String,
    pub words: String,
    /// Whether it claimed to be the words of a source; else it claimed to be an id.
    pub is_quote: bool,
}

/// What was changed in an answer.
#[derive(Debug, Default)]
pub(super) struct Changes {
    pub removed: Vec<Removed>,
    pub labels: Vec<ReplacedLabel>,
}

impl Changes {
    pub(super) fn add(&mut self, more: Changes) {
        self.removed.extend(more.removed);
        self.labels.extend(more.labels);
    }

    /// The ids that were removed.
    pub(super) fn ids(&self) -> Vec<RemovedId> {
        let ids = self.removed.iter().filter(|one| !one.is_quote);
        ids.map(|one| RemovedId { pointer: one.pointer.clone(), id: shortened(&one.words) })
            .collect()
    }

    /// The quotes that were removed.
    pub(super) fn quotes(&self) -> Vec<RemovedQuote> {
        let quotes = self.removed.iter().filter(|one| one.is_quote);
        let quote = |one: &Removed| RemovedQuote {
            pointer: one.pointer.clone(),
            quote: shortened(&one.words),
        };
        quotes.map(quote).collect()
    }

    fn unknown_id(&mut self, id: &str, place: String) {
        self.removed.push(Removed { pointer: place, words: id.to_owned(), is_quote: false });
    }

    fn label(&mut self, label: &str, ids: &[String], place: &str) {
        let (pointer, label) = (place.to_owned(), shortened(label));
        let ids = ids.iter().take(LABEL_IDS_MAX).cloned().collect();
        self.labels.push(ReplacedLabel { pointer, label, ids });
    }
}

/// The check of one run.
#[derive(Debug)]
pub(super) struct IdCheck<'a> {
    pub claims: &'a IdClaims,
    pub schema: &'a Value,
    pub known: KnownIds<'a>,
}

/// An answer that would not be valid without its unknown ids and quotes.
#[derive(Debug)]
pub(super) struct CannotRemove(pub Vec<Removed>);

/// One pass over an answer.
struct Pass {
    /// The quotes that stand in the sources.
    held: HashSet<String>,
    /// Those that are labels too, and stand in the text of a source as words.
    said: HashSet<String>,
    changes: Changes,
}

impl IdCheck<'_> {
    /// The unknown ids that a text cites, when the pack asks for such a text.
    pub(super) fn cited_by(&self, text: &str) -> Vec<Removed> {
        let cites = self.claims.cited.iter().position(|cites| *cites);
        let Some(pointer) = cites.map(|at| format!("/{}", self.claims.paths[at].join("/"))) else {
            return Vec::new();
        };
        let removed = |id| Removed { pointer: pointer.clone(), words: id, is_quote: false };
        self.known.cited(text).unknown.into_iter().map(removed).collect()
    }

    /// What a repair turn says of unknown ids and quotes.
    pub(super) fn complaints(&self, removed: &[Removed]) -> Vec<Violation> {
        removed.iter().map(|one| self.complaint(one)).collect()
    }

    /// What a failure says of them: no word of the answer, because a failure is kept when its source is forgotten.
    pub(super) fn faults(&self, removed: &[Removed]) -> Vec<Violation> {
        let fault = |one: &Removed| {
            let message = match one.is_quote {
                true => "the quote stands in no source, and nothing may stand in its place",
                false => "the id is not in the input, and nothing may stand in its place",
            };
            Violation { pointer: self.known_place(&one.pointer), message: message.to_owned() }
        };
        removed.iter().map(fault).collect()
    }

    /// A pointer with `*` for each member that the schema does not name: an answer may have taken its name from a text.
    fn known_place(&self, pointer: &str) -> String {
        let mut place = String::with_capacity(pointer.len());
        let mut schema = resolved(self.schema, self.schema);
        for segment in pointer.split('/').skip(1) {
            let name = of_pointer(segment);
            let is_list = schema["items"].is_object();
            let is_known = is_list || schema["properties"].get(&name).is_some();
            place.push('/');
            place.push_str(if is_known { segment } else { ANY });
            let below = if is_list { &schema["items"] } else { inner(schema, &name) };
            schema = resolved(self.schema, below);
        }
        place
    }

    /// Names the ids that may stand there instead. A member that is no id of a source is not filled with
    /// one: without an id of its own it stays empty.
    fn complaint(&self, one: &Removed) -> Violation {
        let path: Vec<String> = one.pointer.split('/').skip(1).map(of_pointer).collect();
        let claim = self.claims.at(&path);
        let given: Vec<&str> =
            claim.and_then(|claim| self.given(claim)).map_or(vec![], GivenIds::sorted);
        let sources = || self.known.sources.iter().map(|source| source.id.as_str()).collect();
        let known = match claim {
            _ if !given.is_empty() => given,
            Some(claim) if !self.claims.of_sources[claim] => Vec::new(),
            _ => sources(),
        };
        let empty = match claim {
            Some(claim) if self.claims.cited[claim] => Some("leave the brackets out"),
            _ => self.empty_form(&path),
        };
        let id = shortened(&one.words);
        let message = match known.as_slice() {
            _ if one.is_quote => {
                let empty = empty.unwrap_or("use an empty text");
                format!(
                    "{id:?} does not stand in the input; copy words of the input exactly, or {empty}"
                )
            }
            [] => format!("{id:?} is not in the input; {}", empty.unwrap_or("use an empty text")),
            known => {
                let shown: Vec<&str> = known.iter().take(KNOWN_SHOWN).copied().collect();
                let more = known.len() - shown.len();
                let more = if more > 0 { format!(" and {more} more") } else { String::new() };
                let shown = shown.join(", ");
                let empty = empty.map_or_else(String::new, |empty| format!(", or {empty}"));
                format!(
                    "{id:?} is not an id of the input; the input has {shown}{more}; use only those{empty}"
                )
            }
        };
        Violation { pointer: one.pointer.clone(), message }
    }

    /// How an answer says at a place that there is no id, where its schema lets it.
    fn empty_form(&self, path: &[String]) -> Option<&'static str> {
        let (last, above) = path.split_last()?;
        let schema = above.iter().fold(resolved(self.schema, self.schema), |schema, segment| {
            let is_list = schema["items"].is_object();
            resolved(self.schema, if is_list { &schema["items"] } else { inner(schema, segment) })
        });
        let member = resolved(self.schema, inner(schema, last));
        match () {
            () if schema["items"].is_object() => Some("leave the entry out"),
            () if allows_null(member) => Some("use null"),
            () if schema["properties"].get(last).is_some() && !is_required(schema, last) => {
                Some("leave the member out")
            }
            () => None,
        }
    }

    /// Replaces labels by ids, and removes unknown ids and quotes that no source has; lists what was changed.
    pub(super) fn clean(&self, answer: &mut Value) -> Result<Changes, CannotRemove> {
        let active: Vec<(usize, usize)> = (0..self.claims.paths.len()).map(|at| (at, 0)).collect();
        let mut quotes = BTreeSet::new();
        self.quotes(answer, &active, &mut quotes);
        let labels = quotes.iter().filter(|it| !matches!(self.known.meaning(it), Meaning::Nothing));
        let said = evidence::said(&labels.copied().collect(), self.known.sources);
        let mut pass = Pass { held: self.known.held(&quotes), said, changes: Changes::default() };
        let stays = self.walk(answer, self.schema, &active, "", &mut pass);
        let mut changes = pass.changes;
        if !stays {
            return Err(CannotRemove(changes.removed));
        }
        let begins = self.known.beginnings();
        self.unknown_in_prose(answer, self.schema, (&mut Vec::new(), &begins), &mut changes);
        let ids = changes.removed.iter().filter(|one| !one.is_quote);
        let gone = ids.map(|one| one.words.as_str());
        let mut gone: Vec<&str> =
            gone.filter(|id| is_distinct(id) && !self.known.states(id)).collect();
        // An id that is a part of another one goes after it.
        gone.sort_unstable_by_key(|id| (std::cmp::Reverse(id.len()), *id));
        gone.dedup();
        let gone: Vec<(&str, Vec<&str>)> =
            gone.into_iter().map(|id| (id, self.known.around(id))).collect();
        self.without_ids(answer, self.schema, (&mut Vec::new(), &gone));
        Ok(changes)
    }

    /// The texts of an answer that may be quotes.
    fn quotes<'v>(
        &self,
        value: &'v Value,
        active: &[(usize, usize)],
        quotes: &mut BTreeSet<&'v str>,
    ) {
        let quotes_here = |(claim, at): &(usize, usize)| {
            let may_quote = self.claims.verbatim[*claim] || self.claims.quotes[*claim];
            may_quote && self.claims.paths[*claim].len() == *at
        };
        let here = active.iter().any(quotes_here);
        match value {
            Value::String(text) if here => drop(quotes.insert(text)),
            Value::Array(items) => {
                if here {
                    quotes.extend(items.iter().filter_map(Value::as_str));
                }
                let below = self.below(active, ANY);
                items.iter().for_each(|item| self.quotes(item, &below, quotes));
            }
            Value::Object(members) => {
                for (key, member) in members {
                    self.quotes(member, &self.below(active, key), quotes);
                }
            }
            _ => {}
        }
    }

    /// Cleans one value; false when it cannot stay. `active` are the claims that go through this
    /// place, each with the number of its segments that were followed.
    fn walk(
        &self,
        value: &mut Value,
        schema: &Value,
        active: &[(usize, usize)],
        place: &str,
        pass: &mut Pass,
    ) -> bool {
        let schema = resolved(self.schema, schema);
        let ends = |(claim, at): &&(usize, usize)| self.claims.paths[*claim].len() == *at;
        if let Some((claim, _)) = active.iter().find(ends) {
            let keeps = self.claimed(value, schema, *claim, place, pass);
            if !keeps || !(value.is_object() || value.is_array()) {
                return keeps;
            }
        }
        if active.is_empty() {
            return true;
        }
        let at = |key: &str| format!("{place}/{}", key.replace('~', "~0").replace('/', "~1"));
        match value {
            Value::Object(members) => {
                let mut absent = Vec::new();
                for (key, member) in members.iter_mut() {
                    let below = self.below(active, key);
                    let inner = inner(schema, key);
                    if below.is_empty() || self.walk(member, inner, &below, &at(key), pass) {
                        continue;
                    }
                    if allows_null(resolved(self.schema, inner)) {
                        *member = Value::Null;
                    } else if is_required(schema, key) {
                        return false;
                    } else {
                        absent.push(key.clone());
                    }
                }
                members.retain(|key, _| !absent.contains(key));
                true
            }
            Value::Array(items) => {
                let below = self.below(active, ANY);
                let (mut number, before) = (0, items.len());
                items.retain_mut(|item| {
                    let place = at(&number.to_string());
                    number += 1;
                    self.walk(item, &schema["items"], &below, &place, pass)
                });
                if items.len() < before {
                    rank_again(items);
                }
                items.len() as u64 >= schema["minItems"].as_u64().unwrap_or(0)
            }
            _ => true,
        }
    }

    fn below(&self, active: &[(usize, usize)], key: &str) -> Vec<(usize, usize)> {
        let goes_on = |(claim, at): &(usize, usize)| {
            let segment = self.claims.paths[*claim].get(*at)?;
            (segment == key || segment == ANY).then_some((*claim, at + 1))
        };
        active.iter().filter_map(goes_on).collect()
    }

    /// Checks a value that claims ids or quotes: one, or a list of them.
    fn claimed(
        &self,
        value: &mut Value,
        schema: &Value,
        claim: usize,
        place: &str,
        pass: &mut Pass,
    ) -> bool {
        match value {
            Value::String(text) if self.claims.cited[claim] => {
                let clean = self.known.cited(text);
                clean.unknown.iter().for_each(|id| pass.changes.unknown_id(id, place.to_owned()));
                for (label, ids) in &clean.labels {
                    pass.changes.label(label, ids, place);
                }
                *text = clean.text;
                true
            }
            Value::Array(items) => {
                let most = schema["maxItems"].as_u64().map_or(usize::MAX, |most| most as usize);
                let mut kept: Vec<Value> = Vec::with_capacity(items.len());
                for (number, item) in mem::take(items).into_iter().enumerate() {
                    let at = format!("{place}/{number}");
                    let ids = match &item {
                        Value::String(text) => self.replaced(text, claim, &at, pass),
                        Value::Number(number) if !self.knows_number(number, claim) => {
                            pass.changes.unknown_id(&number.to_string(), at);
                            None
                        }
                        _ => Some(vec![item]),
                    };
                    let new = ids.into_iter().flatten();
                    let new = new.filter(|id| !id.is_string() || !kept.contains(id));
                    let new: Vec<Value> = new.take(most.saturating_sub(kept.len())).collect();
                    kept.extend(new);
                }
                *items = kept;
                items.len() as u64 >= schema["minItems"].as_u64().unwrap_or(0)
            }
            Value::String(text) if text.trim().is_empty() => true,
            Value::String(text) => {
                let before = pass.changes.labels.len();
                match self.replaced(text, claim, place, pass).as_deref() {
                    Some([one]) => {
                        *value = one.clone();
                        true
                    }
                    // A node of several sources is no single one.
                    Some(_) => {
                        pass.changes.labels.truncate(before);
                        pass.changes.unknown_id(text, place.to_owned());
                        false
                    }
                    None => false,
                }
            }
            Value::Number(number) if !self.knows_number(number, claim) => {
                pass.changes.unknown_id(&number.to_string(), place.to_owned());
                false
            }
            _ => true,
        }
    }

    /// Lists ids in brackets that begin as the ids of the sources do and are none of them, wherever prose names them:
    /// `The pump is old [other:nothere.md].` A text that a pack declares as one with ids was cleaned already.
    fn unknown_in_prose(
        &self,
        value: &Value,
        schema: &Value,
        (path, begins): (&mut Vec<String>, &BTreeSet<&str>),
        changes: &mut Changes,
    ) {
        let schema = resolved(self.schema, schema);
        match value {
            Value::String(text) if is_prose(schema, text) && self.claims.at(path).is_none() => {
                let begins_so = |id: &str| beginning_of(id).is_some_and(|it| begins.contains(it));
                let is_known =
                    |word: &str| self.known.is_id(word) || self.known.is_id(&unescaped(word));
                let is_id = |word: &str| is_known(word) || begins_so(&unescaped(word));
                let brackets = brackets(text);
                let bare = bare_ids(text, begins).into_iter().filter(|(at, _)| {
                    let within = |content: &&str| range_of(text, content).contains(at);
                    !brackets.iter().any(within) && !self.known.begins(&text[*at..])
                });
                let bare: Vec<&str> = bare.map(|(_, word)| word).collect();
                self.list_labels(text, path, changes);
                let found = brackets.iter();
                let found = found.flat_map(|content| words(content, &is_known, &is_id));
                for word in found.chain(bare).filter(|word| !is_known(word)) {
                    let id = unescaped(word);
                    let is_unknown = matches!(self.known.meaning(&id), Meaning::Nothing);
                    if begins_so(&id) && is_unknown && is_distinct(&id) && !self.known.states(&id) {
                        changes.unknown_id(&id, pointer_of(path));
                    }
                }
            }
            Value::Array(items) => {
                for (number, item) in items.iter().enumerate() {
                    path.push(number.to_string());
                    self.unknown_in_prose(item, &schema["items"], (path, begins), changes);
                    path.pop();
                }
            }
            Value::Object(members) => {
                for (key, member) in members {
                    path.push(key.clone());
                    self.unknown_in_prose(member, inner(schema, key), (path, begins), changes);
                    path.pop();
                }
            }
            Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// Lists what the square brackets of prose hold of labels.
    fn list_labels(&self, text: &str, path: &[String], changes: &mut Changes) {
        for bracket in citing_brackets(text) {
            for word in &bracket.words {
                match self.behind_label(word, &text[bracket.range.clone()]) {
                    Some(ids) if ids.is_empty() => changes.unknown_id(word, pointer_of(path)),
                    Some(ids) => changes.label(word, &ids, &pointer_of(path)),
                    None => {}
                }
            }
        }
    }

    /// The sources behind a word in a square bracket of prose that is a label of the prompt, `m7` or `2`, or an id of one
    /// of our own kinds: a reader of the prose knows neither. No sources, where there is no such label. `None` of other
    /// words, and of those that a source states.
    fn behind_label(&self, word: &str, bracket: &str) -> Option<Vec<String>> {
        let ids = match self.known.meaning(word) {
            // `12 [m2]` of a floor that has them.
            _ if has_form_of_label(word) && self.known.says_word(word) => return None,
            Meaning::Itself if own_id(word) == Some(word) => vec![word.to_owned()],
            Meaning::Others(ids) | Meaning::Below(ids) => ids,
            Meaning::Nothing if has_form_of_label(word) => Vec::new(),
            Meaning::Itself | Meaning::Nothing => return None,
        };
        (!self.known.states(bracket)).then_some(ids)
    }

    /// A text of prose without its labels. A bracket that holds nothing else goes with them.
    fn without_labels(&self, text: &str) -> Option<String> {
        let mut clean = String::with_capacity(text.len());
        let mut done = 0;
        for bracket in citing_brackets(text) {
            let written = &text[bracket.range.clone()];
            let is_label = |word: &&String| self.behind_label(word, written).is_some();
            let rest: Vec<&str> =
                bracket.words.iter().filter(|word| !is_label(word)).map(String::as_str).collect();
            if rest.len() == bracket.words.len() {
                continue;
            }
            clean.push_str(&text[done..bracket.range.start]);
            match rest.is_empty() {
                true => clean.truncate(clean.trim_end_matches(' ').len()),
                false => clean.push_str(&format!("[{}]", rest.join(", "))),
            }
            done = bracket.range.end;
        }
        (done > 0).then(|| clean + &text[done..])
    }

    /// Takes ids out of the prose of an answer: prose that names a source which is not there misleads as
    /// much as a list does.
    fn without_ids(
        &self,
        value: &mut Value,
        schema: &Value,
        (path, ids): (&mut Vec<String>, &[(&str, Vec<&str>)]),
    ) {
        let schema = resolved(self.schema, schema);
        match value {
            Value::String(text) if is_prose(schema, text) => {
                if self.claims.at(path).is_none()
                    && let Some(clean) = self.without_labels(text)
                {
                    *text = clean;
                }
                let bare = unescaped(text).into_owned();
                for (id, around) in ids.iter().filter(|(id, _)| bare.contains(id)) {
                    *text = without_id(text, id, around);
                }
            }
            Value::Array(items) => {
                for (number, item) in items.iter_mut().enumerate() {
                    path.push(number.to_string());
                    self.without_ids(item, &schema["items"], (path, ids));
                    path.pop();
                }
            }
            Value::Object(members) => {
                for (key, member) in members {
                    path.push(key.clone());
                    self.without_ids(member, inner(schema, key), (path, ids));
                    path.pop();
                }
            }
            Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// The ids of the input that a claim may repeat.
    fn given(&self, claim: usize) -> Option<&GivenIds> {
        self.known.of_inputs.get(self.claims.given[claim].as_ref()?)
    }

    fn knows_number(&self, number: &serde_json::Number, claim: usize) -> bool {
        self.claims.verbatim[claim]
            || self.known.of_sources.has_number(number)
            || self.given(claim).is_some_and(|given| given.has_number(number))
    }

    /// What a text of the answer stands for; `None` where it is removed.
    fn replaced(
        &self,
        text: &str,
        claim: usize,
        place: &str,
        pass: &mut Pass,
    ) -> Option<Vec<Value>> {
        let itself = || Some(vec![text.into()]);
        if self.given(claim).is_some_and(|given| given.has(text)) {
            return itself();
        }
        let (may_quote, is_quote) = (self.claims.quotes[claim], self.claims.verbatim[claim]);
        let meaning = self.known.meaning(text);
        let stands = match meaning {
            Meaning::Nothing => (may_quote || is_quote) && pass.held.contains(text),
            // Words that are a label too, such as `2`: the label stands in the question, and is no quote of a source.
            _ => is_quote && pass.said.contains(text),
        };
        if stands {
            return itself();
        }
        let meaning = match (meaning, is_quote) {
            (Meaning::Itself, true) if may_quote => Meaning::Itself,
            (_, true) => Meaning::Nothing,
            (meaning, false) => meaning,
        };
        match meaning {
            Meaning::Itself => itself(),
            Meaning::Others(ids) => {
                pass.changes.label(text, &ids, place);
                Some(ids.into_iter().map(Value::from).collect())
            }
            Meaning::Below(ids) => Some(ids.into_iter().map(Value::from).collect()),
            Meaning::Nothing if self.claims.stated[claim] && self.known.states(text) => itself(),
            Meaning::Nothing => {
                let (pointer, words) = (place.to_owned(), text.to_owned());
                pass.changes.removed.push(Removed { pointer, words, is_quote });
                None
            }
        }
    }
}

/// What stands in square and round brackets, as citations are written. A name may have round brackets itself.
fn brackets(text: &str) -> Vec<&str> {
    let opens = text.match_indices(['[', '(']);
    let contents = opens.filter_map(|(at, sign)| {
        let rest = prefix(&text[at + 1..], BRACKET_BYTES_MAX);
        let end = match sign {
            "[" => rest.find(']'),
            _ => end_of_round(rest),
        };
        // What begins with the inner bracket is looked at by itself.
        let content = &rest[..end?];
        (!content.contains('[')).then(|| content.trim_end_matches('\\').trim())
    });
    contents.collect()
}

/// A square bracket of prose that is no link, picture or part of a program.
struct CitingBracket {
    /// With the backslashes that Markdown puts before its signs.
    range: Range<usize>,
    words: Vec<String>,
}

fn citing_brackets(text: &str) -> Vec<CitingBracket> {
    if text.contains("```") {
        return Vec::new();
    }
    let opens = text.match_indices('[').filter_map(|(at, _)| {
        let rest = prefix(&text[at + 1..], BRACKET_BYTES_MAX);
        let close = rest.find(']')?;
        let end = at + 1 + close + 1;
        let start = if text[..at].ends_with('\\') { at - 1 } else { at };
        let before = text[..start].chars().next_back();
        let is_apart = before.is_none_or(|c| !c.is_alphanumeric() && !"!]`_/\\".contains(c));
        let is_link = text[end..].starts_with(['(', '[', ':', '`']);
        let content = rest[..close].trim_end_matches('\\');
        (is_apart && !is_link && !content.contains('[')).then(|| {
            let words = content.split([',', ';', '–', '—']).flat_map(parts_of_span);
            let words = words.map(|word| unescaped(word.trim()).into_owned());
            CitingBracket {
                range: start..end,
                words: words.filter(|word| !word.is_empty()).collect(),
            }
        })
    });
    opens.collect()
}

/// `m1` and `m3` of `m1-m3`; any other word is whole.
fn parts_of_span(word: &str) -> Vec<&str> {
    match word.split('-').all(|part| has_form_of_label(part.trim())) {
        true => word.split('-').collect(),
        false => vec![word],
    }
}

/// Where the round bracket ends that began before this text.
fn end_of_round(text: &str) -> Option<usize> {
    let mut depth = 1_usize;
    for (at, sign) in text.match_indices(['(', ')']) {
        match sign {
            "(" => depth += 1,
            _ => depth -= 1,
        }
        match depth {
            0 => return Some(at),
            1..=ROUND_DEPTH_MAX => {}
            _ => return None,
        }
    }
    None
}

/// How the ids of the bus `other`, and those that the service and its importers make, begin.
const OWN_BEGINNINGS: [&str; 6] = ["other:", "chk_", "sum_", "evt_", "ses_", "doc_"];

/// Where a part of a text stands in it.
fn range_of(text: &str, part: &str) -> Range<usize> {
    let start = part.as_ptr().addr() - text.as_ptr().addr();
    start..start + part.len()
}

/// The words of a text without brackets that are ids, and where they stand: no other word begins as an id does with a
/// colon, `other:`, or as one of our own does and has a digit, `evt_9f`.
fn bare_ids<'t>(text: &'t str, begins: &BTreeSet<&str>) -> Vec<(usize, &'t str)> {
    let is_edge = |c: char| !c.is_alphanumeric() && !"_\\/".contains(c);
    let words = text.split_whitespace().map(|word| word.trim_matches(is_edge));
    let id_of = |word: &'t str| {
        let own = own_id(word);
        let is_id = |word: &&str| {
            beginning_of(word)
                .is_some_and(|it| it.ends_with(':') && begins.contains(it) && it.len() < word.len())
        };
        own.or_else(|| Some(word).filter(is_id))
    };
    words.filter_map(id_of).map(|word| (range_of(text, word).start, word)).collect()
}

/// The id of one of our own kinds that a word begins with: `evt_9f` of `evt_9f's`. Such an id has a digit.
fn own_id(word: &str) -> Option<&str> {
    let is_own = |begin: &&&str| begin.ends_with('_') && word.starts_with(**begin);
    let begin = OWN_BEGINNINGS.iter().find(is_own)?;
    let is_of_id = |c: char| c.is_ascii_alphanumeric() || "_-\\".contains(c);
    let rest = &word[begin.len()..];
    let rest = &rest[..rest.find(|c| !is_of_id(c)).unwrap_or(rest.len())];
    let rest = rest.trim_end_matches(['-', '_', '\\']);
    rest.contains(|c: char| c.is_ascii_digit()).then(|| &word[..begin.len() + rest.len()])
}

/// Whether a word has the form of a label of a message, `m7`, or of a node of a tree, `n0_2`.
fn has_form_of_label(word: &str) -> bool {
    let is_number = |digits: &str| {
        (1..=LABEL_DIGITS_MAX).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit())
    };
    let of_node = |rest: &str| {
        rest.split_once('_').is_some_and(|(level, at)| is_number(level) && is_number(at))
    };
    word.strip_prefix('m').is_some_and(is_number) || word.strip_prefix('n').is_some_and(of_node)
}

/// How an id begins, with the sign that ends it: `other:`, `chk_`.
fn beginning_of(id: &str) -> Option<&str> {
    let end = id.find([':', '_', '#'])?;
    id[..end].contains(char::is_alphabetic).then(|| &id[..=end])
}

fn pointer_of(path: &[String]) -> String {
    let escaped = path.iter().map(|key| format!("/{}", key.replace('~', "~0").replace('/', "~1")));
    escaped.collect()
}

/// Whether an id cannot be confused with an ordinary word.
fn is_distinct(id: &str) -> bool {
    let is_sign = |c: char| c.is_ascii_digit() || "_:#".contains(c);
    id.contains(char::is_alphabetic) && id.contains(is_sign) && !id.contains(char::is_whitespace)
}

/// Whether a member of this kind holds prose: no code, key, day or address.
fn is_prose(schema: &Value, text: &str) -> bool {
    let fixed = ["enum", "const", "pattern", "format"];
    text.trim().contains(char::is_whitespace) && fixed.iter().all(|word| schema.get(word).is_none())
}

/// A text without an id. In brackets it goes with them; elsewhere a mark stands for it, so that the sentence
/// keeps its form. An id of `around` that has it as a part stays whole.
fn without_id(text: &str, id: &str, around: &[&str]) -> String {
    let bare = Bare::of(text);
    let mut clean = String::with_capacity(text.len());
    // Up to where the text is written, as a place in the bare text.
    let mut done = 0;
    for (at, _) in bare.text.match_indices(id) {
        let end = at + id.len();
        if bare.is_part(at, end) || bare.is_within(at, end, around) {
            continue;
        }
        let (before, after) = (&bare.text[done..at], &bare.text[end..]);
        let closing = match before.chars().next_back() {
            Some('[') => Some(']'),
            Some('(') => Some(')'),
            _ => None,
        };
        let beyond = closing.and_then(|closing| after.strip_prefix(closing));
        let stays = |beyond: &&str| {
            clean.len() + before.trim_end_matches(['[', '(']).len() + beyond.trim().len() > 0
        };
        match beyond.filter(stays) {
            Some(_) => {
                clean.push_str(bare.written(done, at - 1));
                clean.truncate(clean.trim_end_matches(' ').len());
                done = end + 1;
            }
            None => {
                clean.push_str(bare.written(done, at));
                clean.push('…');
                done = end;
            }
        }
    }
    clean.push_str(bare.written(done, bare.text.len()));
    clean
}

/// A text without the escapes of Markdown.
struct Bare<'t> {
    text: String,
    /// Where each byte of it stands as it was written, and the end.
    places: Vec<usize>,
    whole: &'t str,
}

impl<'t> Bare<'t> {
    fn of(whole: &'t str) -> Bare<'t> {
        let mut bare = Bare { text: String::new(), places: Vec::new(), whole };
        for (at, c) in bare_chars(whole) {
            bare.text.push(c);
            bare.places.extend(std::iter::repeat_n(at, c.len_utf8()));
        }
        bare.places.push(whole.len());
        bare
    }

    /// A part of it as it was written.
    fn written(&self, from: usize, until: usize) -> &'t str {
        &self.whole[self.places[from]..self.places[until]]
    }

    /// Whether the word that stands here goes on before or behind this place.
    fn is_part(&self, at: usize, end: usize) -> bool {
        let goes_on = |c: char| c.is_alphanumeric() || "_#-".contains(c);
        let (before, after) = (&self.text[..at], &self.text[end..]);
        let beyond = after.strip_prefix(['.', '/', ':']).unwrap_or("");
        before.chars().next_back().is_some_and(goes_on)
            || after.chars().next().is_some_and(goes_on)
            || beyond.starts_with(char::is_alphanumeric)
    }

    /// Whether one of these ids stands here and has this place as a part.
    fn is_within(&self, at: usize, end: usize, ids: &[&str]) -> bool {
        ids.iter().any(|known| {
            known.match_indices(&self.text[at..end]).any(|(offset, _)| {
                let start = at.checked_sub(offset);
                start
                    .and_then(|start| self.text.get(start..))
                    .is_some_and(|rest| rest.starts_with(known))
            })
        })
    }
}

/// Ranks count from 1 without a gap, also after an entry was removed. Equal ranks stay equal.
fn rank_again(items: &mut [Value]) {
    let ranks: BTreeSet<u64> = items.iter().filter_map(|item| item["rank"].as_u64()).collect();
    for item in items.iter_mut() {
        let rank = item.get("rank").and_then(Value::as_u64);
        let place = rank.and_then(|rank| ranks.iter().position(|one| *one == rank));
        if let Some(place) = place {
            item["rank"] = (place + 1).into();
        }
    }
}

fn shortened(id: &str) -> String {
    id.chars().take(ID_CHARS_MAX).collect()
}

fn inner<'a>(schema: &'a Value, key: &str) -> &'a Value {
    match schema["properties"].get(key) {
        Some(member) => member,
        None => &schema["additionalProperties"],
    }
}

fn is_required(schema: &Value, key: &str) -> bool {
    schema["required"].as_array().is_some_and(|names| names.iter().any(|name| name == key))
}

fn allows_null(schema: &Value) -> bool {
    let null = |kind: &Value| kind == "null";
    let one = match &schema["type"] {
        Value::Array(kinds) => kinds.iter().any(null),
        kind => null(kind),
    };
    let choice =
        |name: &str| schema[name].as_array().is_some_and(|list| list.iter().any(allows_null));
    one || choice("anyOf") || choice("oneOf")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::schema;
    use serde_json::json;

    fn sources() -> Vec<SourceText> {
        let source = |id: &str, text: &str| SourceText { id: id.into(), text: text.into() };
        vec![source("c1", "The roof leaks."), source("c2", r#"[{"id": "r7"}, {"id": 9}]"#)]
    }

    fn pack_schema() -> Value {
        json!({"type": "object", "required": ["points", "best"], "$defs": {
            "ids": {"type": "array", "items": {"type": "string", "minLength": 1}, "maxItems": 3}},
        "properties": {
            "points": {"type": "array", "items": {"type": "object", "required": ["text", "chunk_ids"],
                "properties": {"text": {"type": "string"}, "chunk_ids": {"$ref": "#/$defs/ids"},
                    "evidence": {"type": "array", "items": {"type": "string"}}}}},
            "best": {"type": ["string", "null"]}, "source_id": {"type": ["string", "null"]},
            "ranked": {"type": "array", "items": {"type": "object", "required": ["id"],
                "properties": {"id": {"type": "string"}, "article_ids": {"type": "array",
                    "items": {"type": "integer"}}}}},
            "evidence": {"enum": ["text", "both"]}, "idea_id": {"type": "string"}
        }})
    }

    fn clean(projection: Value, answer: Value) -> (Value, Vec<(String, String)>) {
        let schema = pack_schema();
        let projection = Projection::compile(Some(projection.to_string().as_bytes())).unwrap();
        let claims = IdClaims::of(&schema, &projection);
        let sources = sources();
        let inputs = json!({"table": sources[1].text, "other": [{"id": "c9"}, {"id": "nope"}]});
        let known = KnownIds::of(&sources, &["doc1".to_owned()], None);
        let known = known.with_inputs(&claims, |name| inputs.get(name));
        let check = IdCheck { claims: &claims, schema: &schema, known };
        let mut answer = answer;
        let changes = check.clean(&mut answer).unwrap();
        let validator = schema::compile(&schema).unwrap();
        assert_eq!(schema::violations(&validator, &answer), [], "{answer}");
        (answer, changes.removed.into_iter().map(|one| (one.pointer, one.words)).collect())
    }

    #[test]
    fn unknown_ids_are_removed_wherever_they_stand() {
        let answer = json!({"best": "nope", "idea_id": "c1", "evidence": "both", "source_id": "made up",
            "points": [{"text": "a", "chunk_ids": ["c1", "nope"]}, {"text": "b", "chunk_ids": ["c9"]}],
            "ranked": [{"id": "r7", "article_ids": [1, 9, 77]}, {"id": "ghost", "article_ids": []}]});
        let projection = json!({"source_ids": ["/ranked/*/id"],
            "given_ids": {"/ranked/*/id": "table", "/ranked/*/article_ids": "table", "/idea_id": "none"}});
        let (answer, removed) = clean(projection, answer);
        let pointer = |(pointer, _): &(String, String)| pointer.clone();
        let mut places: Vec<String> = removed.iter().map(pointer).collect();
        places.sort();
        assert_eq!(
            places,
            [
                "/points/0/chunk_ids/1",
                "/points/1/chunk_ids/0",
                "/ranked/0/article_ids/2",
                "/ranked/1/id",
                "/source_id"
            ]
        );
        assert_eq!(
            answer,
            json!({"best": "nope", "idea_id": "c1", "evidence": "both", "source_id": null,
                "points": [{"text": "a", "chunk_ids": ["c1"]}, {"text": "b", "chunk_ids": []}],
                "ranked": [{"id": "r7", "article_ids": [1, 9]}]})
        );
    }

    #[test]
    fn a_repair_turn_offers_ids_only_to_members_that_may_hold_them() {
        let schema = pack_schema();
        let projection = json!({"source_ids": ["/ranked/*/id"], "stated_ids": ["/best"],
            "given_ids": {"/ranked/*/article_ids": "table", "/idea_id": "none"}});
        let projection = Projection::compile(Some(projection.to_string().as_bytes())).unwrap();
        let claims = IdClaims::of(&schema, &projection);
        let sources = sources();
        let table = json!(sources[1].text);
        let known = KnownIds::of(&sources, &[], None)
            .with_inputs(&claims, |name| (name == "table").then_some(&table));
        let check = IdCheck { claims: &claims, schema: &schema, known };
        let said = |pointer: &str| {
            let one = Removed { pointer: pointer.into(), words: "x1".into(), is_quote: false };
            check.complaints(&[one]).remove(0).message
        };
        let nothing = "\"x1\" is not in the input; ";
        let some = "\"x1\" is not an id of the input; the input has ";
        assert_eq!(said("/best"), format!("{nothing}use null"));
        assert_eq!(said("/idea_id"), format!("{nothing}leave the member out"));
        assert_eq!(said("/source_id"), format!("{some}c1, c2; use only those, or use null"));
        assert_eq!(said("/ranked/0/id"), format!("{some}c1, c2; use only those"));
        let entry = "use only those, or leave the entry out";
        assert_eq!(said("/points/3/chunk_ids/1"), format!("{some}c1, c2; {entry}"));
        assert_eq!(said("/ranked/0/article_ids/2"), format!("{some}9, r7; {entry}"));
    }

    #[test]
    fn a_fault_has_no_name_that_an_answer_invented() {
        let schema = json!({"type": "object", "required": ["source_id"], "properties": {
            "source_id": {"type": "string"}, "list": {"type": "array", "items": {
            "type": "object", "properties": {"source_id": {"type": "string"}}}},
            "by_name": {"additionalProperties": {"type": "object", "required": ["quote"],
                "properties": {"quote": {"type": "string"}}}}}});
        let projection = Projection::compile(Some(b"{}".as_slice())).unwrap();
        let claims = IdClaims::of(&schema, &projection);
        let sources = sources();
        let known = KnownIds::of(&sources, &[], None);
        let check = IdCheck { claims: &claims, schema: &schema, known };
        let mut answer =
            json!({"by_name": {"Ana/left": {"quote": "Never said"}}, "source_id": "made up"});
        let CannotRemove(removed) = check.clean(&mut answer).unwrap_err();
        let places: Vec<&str> = removed.iter().map(|one| one.pointer.as_str()).collect();
        assert_eq!(places, ["/by_name/Ana~1left/quote", "/source_id"]);
        let faults = check.faults(&removed);
        let places: Vec<&str> = faults.iter().map(|one| one.pointer.as_str()).collect();
        assert_eq!(places, ["/by_name/*/quote", "/source_id"]);
        assert_eq!(check.known_place("/list/3/source_id"), "/list/3/source_id");
        assert_eq!(check.known_place("/list/3/Ana/0171"), "/list/3/*/*");
    }

    #[test]
    fn labels_of_a_prompt_become_the_ids_they_stand_for() {
        let ids = ["[1]", "2", "m1", "c2 | Title | Ana", "doc1", "c1"];
        let answer = json!({"best": null, "points": [{"text": "a", "chunk_ids": ids}]});
        let (answer, removed) = clean(json!({}), answer);
        assert_eq!(removed, []);
        assert_eq!(answer["points"][0]["chunk_ids"], json!(["c1", "c2", "doc1"]));
    }

    #[test]
    fn a_number_that_a_line_begins_with_is_an_id_of_a_given_input_only() {
        let text = "ID 41: Tram line approved\n[77] Pool closes\n503. Strike ends";
        let given = GivenIds::of(&json!(text));
        let sources = [SourceText { id: "list".into(), text: text.into() }];
        let known = KnownIds::of(&sources, &[], None);
        for number in [41, 77, 503] {
            assert!(given.has_number(&number.into()), "{number}");
            assert!(!known.of_sources.has_number(&number.into()), "{number}");
        }
        assert!(!given.has_number(&42.into()));
        let labelled = GivenIds::of(&json!("[1] a\nTram line\n\n[2] b\nPool closes"));
        assert!(labelled.has_number(&2.into()) && !labelled.has_number(&3.into()));
    }

    #[test]
    fn labels_that_the_caller_wrote_name_ids() {
        let text = "[1] doc#0 | Roof\nThe roof leaks.\n\n[x] no\n";
        let sources = [SourceText { id: "chunks".into(), text: text.into() }];
        let known = || KnownIds::of(&sources, &[], None);
        assert!(matches!(known().meaning("doc#0"), Meaning::Nothing));
        let known = known().with_input_of_caller(Some(&json!([{"id": "a7", "text": "x"}])));
        assert!(matches!(known.meaning("doc#0"), Meaning::Itself));
        assert!(matches!(known.meaning("a7"), Meaning::Itself));
        assert!(matches!(known.meaning("no"), Meaning::Nothing));
    }

    #[test]
    fn ids_that_stand_in_a_text_or_in_another_input_are_no_sources() {
        let answer = json!({"best": null, "source_id": "r7", "points": [
            {"text": "a", "chunk_ids": ["r7", "c1", "9", "c9"]}]});
        // The text of c2 names r7 and 9, and another input names c9.
        let (answer, removed) = clean(json!({}), answer);
        assert_eq!(answer["points"][0]["chunk_ids"], json!(["c1"]));
        assert_eq!(answer["source_id"], Value::Null);
        assert_eq!(removed.len(), 4);
    }

    #[test]
    fn evidence_is_an_id_or_words_of_a_source() {
        let said = ["c1", "The roof  leaks", "The roof is new"];
        let answer =
            json!({"best": null, "points": [{"text": "a", "chunk_ids": [], "evidence": said}]});
        let (cleaned, removed) = clean(json!({}), answer.clone());
        assert_eq!(cleaned["points"][0]["evidence"], json!(["c1", "The roof  leaks"]));
        assert_eq!(removed[0].0, "/points/0/evidence/2");
        // A member that the projection calls a quote may still hold an id, and no label.
        let quoted = clean(json!({"evidence": ["/points/*/evidence/*"]}), answer);
        assert_eq!(quoted, (cleaned, removed));
    }

    #[test]
    fn quotes_that_no_source_has_are_removed() {
        let schema = json!({"type": "object", "required": ["line", "quote"], "properties": {
            "line": {"type": ["string", "null"]}, "quote": {"type": ["string", "null"]},
            "said": {"type": "array", "items": {"type": "object", "required": ["words"],
                "properties": {"words": {"type": "string", "minLength": 1}}}},
            "key_quotes": {"type": "array", "items": {"type": "string"}}}});
        let projection = json!({"evidence": ["/line", "/said/*/words"]}).to_string();
        let projection = Projection::compile(Some(projection.as_bytes())).unwrap();
        let claims = IdClaims::of(&schema, &projection);
        let pointers: Vec<String> = claims.quote_pointers().collect();
        assert_eq!(pointers, ["/line", "/said/*/words", "/quote", "/key_quotes"]);
        assert!(!claims.has_ids() && claims.pointers().next().is_none());
        let text = "The roof\n leaks. Call Ana at [7] or ana@example.org, soon in 2026. Café.";
        let sources = [SourceText { id: "c1".into(), text: text.into() }];
        let told = [json!("Roof of the hall"), json!([{"title": "Leak"}])];
        let known = KnownIds { told: told.iter().collect(), ..KnownIds::of(&sources, &[], None) };
        let check = IdCheck { claims: &claims, schema: &schema, known };
        let mut answer = json!({"line": "“The  roof leaks.”", "quote": "1",
            "said": [{"words": "The roof is new"}, {"words": "Cafe\u{301}"}, {"words": "[7]"}],
            "key_quotes": ["c1", "of the hall", "Leak", "at [7] or [email], soon", "[email] Cobol", "[email]",
                "7", "2", "26"]});
        let changes = check.clean(&mut answer).unwrap();
        let expected = json!({"line": "“The  roof leaks.”", "quote": null,
            "said": [{"words": "Cafe\u{301}"}, {"words": "[7]"}],
            "key_quotes": ["of the hall", "Leak", "at [7] or [email], soon", "7"]});
        assert_eq!(answer, expected);
        let quotes = changes.quotes();
        let places: Vec<&str> = quotes.iter().map(|one| one.pointer.as_str()).collect();
        assert_eq!(
            places,
            [
                "/quote",
                "/said/0/words",
                "/key_quotes/0",
                "/key_quotes/4",
                "/key_quotes/5",
                "/key_quotes/7",
                "/key_quotes/8"
            ]
        );
        assert!(changes.ids().is_empty() && changes.labels.is_empty());
        let complaint = &check.complaints(&changes.removed)[0];
        assert!(complaint.message.contains("does not stand in the input"), "{complaint}");
        assert!(complaint.message.ends_with("or use null"), "{complaint}");
        // An imported flow says nowhere that its members are quotes.
        assert!(IdClaims::of(&schema, &Projection::compile(None).unwrap()).paths.is_empty());
    }

    #[test]
    fn labels_that_become_ids_are_listed() {
        let schema = json!({"type": "object", "properties": {"chunk_ids": {"type": "array",
            "items": {"type": "string"}}, "source_id": {"type": "string"}, "body": {"type": "string"}}});
        let projection =
            Projection::compile(Some(br#"{"cited_ids": ["/body"]}"#.as_slice())).unwrap();
        let claims = IdClaims::of(&schema, &projection);
        let sources = sources();
        let known = KnownIds::of(&sources, &[], None);
        let check = IdCheck { claims: &claims, schema: &schema, known };
        let mut answer = json!({"chunk_ids": ["[2]", "#1", "m2", "c1", "#9"], "source_id": "1",
            "body": "The roof leaks [1]. It is old [c2]."});
        let changes = check.clean(&mut answer).unwrap();
        let expected = json!({"chunk_ids": ["c2", "c1"], "source_id": "c1",
            "body": "The roof leaks [c1]. It is old [c2]."});
        assert_eq!(answer, expected);
        let label =
            |one: &ReplacedLabel| format!("{} {} {}", one.pointer, one.label, one.ids.join(" "));
        let mut labels: Vec<String> = changes.labels.iter().map(label).collect();
        labels.sort();
        assert_eq!(
            labels,
            [
                "/body 1 c1",
                "/chunk_ids/0 [2] c2",
                "/chunk_ids/1 #1 c1",
                "/chunk_ids/2 m2 c2",
                "/source_id 1 c1"
            ]
        );
        assert_eq!(changes.ids().len(), 1);
    }

    #[test]
    fn a_quote_that_is_a_number_of_the_text_is_no_label() {
        let schema = json!({"type": "object", "properties": {"quote": {"type": ["string", "null"]},
            "evidence": {"type": "array", "items": {"type": "string"}}}});
        let projection = Projection::compile(Some(b"{}".as_slice())).unwrap();
        let claims = IdClaims::of(&schema, &projection);
        let of_file = |name: &str, text: &str| SourceText { id: name.into(), text: text.into() };
        let sources = [of_file("c1", "Bring 2 ladders."), of_file("c2", "In 2026 we paint.")];
        let label = json!("[1] c1\nBring 2 ladders.\n\n[2] c2\nIn 2026 we paint.");
        let known = KnownIds { told: vec![&label], ..KnownIds::of(&sources, &[], None) };
        let check = IdCheck { claims: &claims, schema: &schema, known };
        let cleaned = |quote: &str| {
            let mut answer = json!({"quote": quote, "evidence": [quote]});
            check.clean(&mut answer).unwrap();
            answer
        };
        // Where ids may stand too, the label counts.
        assert_eq!(cleaned("2"), json!({"quote": "2", "evidence": ["c2"]}));
        assert_eq!(cleaned("1"), json!({"quote": null, "evidence": ["c1"]}));
        assert_eq!(cleaned("20"), json!({"quote": null, "evidence": []}));
        assert_eq!(cleaned("2026"), json!({"quote": "2026", "evidence": ["2026"]}));
    }

    #[test]
    fn a_known_id_stays_whole_where_a_part_of_it_is_unknown() {
        let schema = json!({"type": "object", "properties": {"chunk_ids": {"type": "array",
            "items": {"type": "string"}}, "line": {"type": "string"}}});
        let claims = IdClaims::of(&schema, &Projection::compile(None).unwrap());
        let of_file = |name: &str| SourceText { id: name.into(), text: "Ana paid.".into() };
        let sources = ["other:a.md", "other:b, c;d (2).md", "x#other:a"].map(of_file);
        let known = KnownIds::of(&sources, &[], None);
        let check = IdCheck { claims: &claims, schema: &schema, known };
        for (line, expected, gone) in [
            ("It is [other:a] or other:a.md.", "It is or other:a.md.", &["other:a"][..]),
            (
                "It is [other:a, other:a.m] or x#other:a.",
                "It is […, …] or x#other:a.",
                &["other:a", "other:a.m"],
            ),
            ("It is [other:b, c;d (2).md].", "It is [other:b, c;d (2).md].", &[]),
            (
                "It is (other:b, c;d (2).md; other:x,y(3).md).",
                "It is (other:b, c;d (2).md; …).",
                &["other:x,y(3).md"],
            ),
            (
                "It is \\[other\\:b, c\\;d \\(2\\)\\.md\\].",
                "It is \\[other\\:b, c\\;d \\(2\\)\\.md\\].",
                &[],
            ),
            (
                "It is \\[other:no\\_one\\.md\\], as \\(other:no\\_one.md\\) says.",
                "It is, as says.",
                &["other:no_one.md"],
            ),
        ] {
            let mut answer = json!({"chunk_ids": ["other:a\\.md"], "line": line});
            let changes = check.clean(&mut answer).unwrap();
            let mut ids: Vec<&str> = changes.removed.iter().map(|one| one.words.as_str()).collect();
            ids.sort_unstable();
            ids.dedup();
            assert_eq!(
                (answer["line"].as_str().unwrap(), ids.as_slice()),
                (expected, gone),
                "{line}"
            );
            assert_eq!(answer["chunk_ids"], json!(["other:a.md"]));
        }
        let mut answer =
            json!({"chunk_ids": ["chk_9"], "line": "It is chk\\_9 and chk\\_91, or chk_9.md."});
        check.clean(&mut answer).unwrap();
        assert_eq!(answer["line"], "It is … and chk\\_91, or chk_9.md.");
    }

    #[test]
    fn ids_that_prose_invents_are_listed_and_taken_out() {
        let schema = json!({"type": "object", "properties": {"chunk_ids": {"type": "array",
            "items": {"type": "string"}}, "line": {"type": "string"},
            "said": {"type": "array", "items": {"type": "string"}}}});
        let claims = IdClaims::of(&schema, &Projection::compile(None).unwrap());
        let of_file = |name: &str, text: &str| SourceText { id: name.into(), text: text.into() };
        let sources =
            [of_file("other:u.md", "The pump [other:plan] is old."), of_file("chk_7", "Ana paid.")];
        let known = KnownIds::of(&sources, &[], None);
        let check = IdCheck { claims: &claims, schema: &schema, known };
        let mut answer = json!({"chunk_ids": ["other:u.md"],
            "line": "The pump is old [other:u.md, other:ghost.md], see [other:plan] and [std::fs] and [note_1]. See other:fake.md, too.",
            "said": ["We bought it (other:nothere.md).", "Ana paid [chk_9]. It is [done].",
                "It is \\[other:u.md\\], and \\[chk\\_7\\]."]});
        let changes = check.clean(&mut answer).unwrap();
        let ids: Vec<&str> = changes.removed.iter().map(|one| one.words.as_str()).collect();
        assert_eq!(ids, ["other:ghost.md", "other:fake.md", "other:nothere.md", "chk_9"]);
        assert_eq!(changes.removed[2].pointer, "/said/0");
        let text = answer.to_string();
        assert!(ids.iter().all(|id| !text.contains(id)), "{text}");
        assert!(text.contains("[other:plan]") && text.contains("[std::fs] and [note_1]"), "{text}");
        let said = ["We bought it.", "Ana paid. It is [done].", "It is \\[other:u.md\\], and."];
        assert_eq!(answer["said"], json!(said));
    }

    #[test]
    fn ids_of_our_own_kinds_and_labels_never_stand_in_prose() {
        let schema = json!({"type": "object", "properties": {"event_ids": {"type": "array",
            "items": {"type": "string"}}, "line": {"type": "string"}}});
        let claims = IdClaims::of(&schema, &Projection::compile(None).unwrap());
        let of_event = |id: &str, text: &str| SourceText { id: id.into(), text: text.into() };
        let sources = [
            of_event("evt_1a", "We saw ses_7 and [m4] in the log, and [2] too."),
            of_event("evt_2b", "Ana paid 40 EUR for 12 m5 of item2."),
            of_event("x3", "Ben left."),
        ];
        let known = KnownIds::of(&sources, &[], None);
        let check = IdCheck { claims: &claims, schema: &schema, known };
        for (line, expected, gone, labels) in [
            ("Ana paid [evt_123]. Ben left.", "Ana paid. Ben left.", &["evt_123"][..], &[][..]),
            ("In ses_9f Ana paid.", "In … Ana paid.", &["ses_9f"], &[]),
            ("Ana paid [m7].", "Ana paid.", &["m7"], &[]),
            (
                "Ana paid [m2] and Ben left [m1-m3].",
                "Ana paid and Ben left.",
                &[],
                &["m2", "m1", "m3"],
            ),
            ("Ana paid [1, 3].", "Ana paid.", &[], &["1", "3"]),
            ("Ana paid [evt_2b].", "Ana paid.", &[], &["evt_2b"]),
            ("Ana paid \\[evt\\_2b\\].", "Ana paid.", &[], &["evt_2b"]),
            ("Ana paid [x3, m2].", "Ana paid [x3].", &[], &["m2"]),
            ("Ana paid [doc_77; m9].", "Ana paid.", &["doc_77", "m9"], &[]),
            // What a source states are its words.
            ("They saw ses_7 and [m4], and [2].", "They saw ses_7 and [m4], and [2].", &[], &[]),
            ("Ana paid for 12 [m5].", "Ana paid for 12 [m5].", &[], &[]),
            (
                "In [2026] they read [sic] the doc_string of list[1].",
                "In [2026] they read [sic] the doc_string of list[1].",
                &[],
                &[],
            ),
            (
                "See [1](https://example.org) or ![m2](a.png).",
                "See [1](https://example.org) or ![m2](a.png).",
                &[],
                &[],
            ),
        ] {
            let mut answer = json!({"event_ids": ["evt_1a"], "line": line});
            let changes = check.clean(&mut answer).unwrap();
            let mut ids: Vec<&str> = changes.removed.iter().map(|one| one.words.as_str()).collect();
            ids.sort_unstable();
            let named: Vec<&str> = changes.labels.iter().map(|one| one.label.as_str()).collect();
            assert_eq!(answer["line"], expected, "{line}");
            assert_eq!((ids.as_slice(), named.as_slice()), (gone, labels), "{line}");
        }
    }

    #[test]
    fn nodes_of_a_tree_stand_for_the_sources_below_them() {
        use super::super::hierarchy::TreeNode;
        let node = TreeNode {
            node_id: "n0_0".into(),
            level: 0,
            title: String::new(),
            text: String::new(),
            children: Vec::new(),
            source_ids: vec!["c1".into(), "c2".into()],
            chars_covered: 0,
            rendered_short: String::new(),
        };
        let tree = Hierarchy { root: "n0_0".into(), nodes: vec![node] };
        let sources = sources();
        let known = KnownIds::of(&sources, &[], Some(&tree));
        let schema = pack_schema();
        let claims = IdClaims::of(&schema, &Projection::compile(Some(b"{}")).unwrap());
        let check = IdCheck { claims: &claims, schema: &schema, known };
        let mut answer =
            json!({"best": null, "points": [{"text": "", "chunk_ids": ["n0_0", "n9_9"]}]});
        let changes = check.clean(&mut answer).unwrap();
        assert_eq!(answer["points"][0]["chunk_ids"], json!(["c1", "c2"]));
        assert_eq!((changes.ids()[0].id.as_str(), changes.labels.len()), ("n9_9", 0));
        // Under a number the prompt shows a node, and not the source of that number.
        let shown = ["n0_0".to_owned()];
        let mut known = KnownIds::of(&sources, &[], Some(&tree));
        known.condensed = &shown;
        let both = |meaning| matches!(meaning, Meaning::Others(ids) if ids == ["c1", "c2"]);
        assert!(both(known.meaning("[1]")));
        assert!(matches!(known.meaning("2"), Meaning::Nothing));
    }

    #[test]
    fn a_removed_id_leaves_the_prose_too_and_ranks_are_counted_anew() {
        let schema = json!({"type": "object", "properties": {"ranked": {"type": "array", "items": {
            "type": "object", "required": ["id"], "properties": {"id": {"type": "string"},
                "rank": {"type": "integer"}}}}, "text": {"type": "string"},
            "next": {"enum": ["ask opp_9", "wait"]}}});
        let projection = json!({"source_ids": ["/ranked/*/id"]}).to_string();
        let projection = Projection::compile(Some(projection.as_bytes())).unwrap();
        let claims = IdClaims::of(&schema, &projection);
        let sources = sources();
        let known = KnownIds::of(&sources, &[], None);
        let check = IdCheck { claims: &claims, schema: &schema, known };
        let mut answer = json!({
            "ranked": [{"id": "opp_9", "rank": 1}, {"id": "c2", "rank": 2}, {"id": "c1", "rank": 3}],
            "text": "Apply to opp_9 first (opp_9), then to c2 [opp_9]. Not opp_91.", "key": "opp_9", "next": "ask opp_9",
        });
        assert_eq!(check.clean(&mut answer).unwrap().ids().len(), 1);
        let expected = json!({
            "ranked": [{"id": "c2", "rank": 1}, {"id": "c1", "rank": 2}],
            "text": "Apply to … first, then to c2. Not opp_91.", "key": "opp_9", "next": "ask opp_9",
        });
        assert_eq!(answer, expected);
    }
}
