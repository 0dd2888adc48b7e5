//! Which summaries are versions of each other, and which are about the same sources.
//!
//! Contract: pure. A summary is a version of an older one when both have the same flow, question and set
//! of sources; the question is what the request says beside its sources. A source is known by its id,
//! or by its origin where its id is made of its content: an item lists those in `selection.origins`. The
//! request that was taken in last decides which of two summaries is the newer one.
//!
//! See docs/adr/0110-the-newest-version-of-a-source.md.

use std::borrow::Cow;
use std::collections::BTreeSet;

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::hash::sha256;
use super::ids::Seq;
use super::json::jcs_hash;
use super::time::Day;

/// Parameters every flow understands: limits of the model calls, the day and the project of the summary,
/// whether it may be shown, whether it stays on this machine, and a number that makes the same question a new one. They say how a flow
/// answers or where its answer is filed, and not what is asked.
pub(crate) const COMMON_PARAMS: [&str; 8] =
    ["max_tokens", "temperature", "seed", "day", "project", "publish", "local_only", "again"];

/// Whether a summary may be shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Publish {
    /// It does not say.
    Unsaid,
    /// It may.
    Yes,
    /// It may not.
    No,
}

impl Publish {
    /// Every word, in the order in which it is kept.
    pub(crate) const ALL: [Publish; 3] = [Publish::Unsaid, Publish::Yes, Publish::No];

    pub(crate) fn of(said: Option<bool>) -> Publish {
        match said {
            None => Publish::Unsaid,
            Some(true) => Publish::Yes,
            Some(false) => Publish::No,
        }
    }
}

/// The place of a summary among others: the request that asked for it, then its own event. An attempt
/// that was late does not make its summary the newest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct VersionOrder {
    pub asked: Seq,
    pub made: Seq,
}

/// The origin of a file, by the name that its person knows.
pub(crate) fn file_origin(name: &str) -> String {
    format!("{FILE}{name}")
}

const FILE: &str = "file:";

/// Stands between the name of a file and what an item of it is known by.
const ITEM: char = '#';
/// Letters of what an item is known by.
const ITEM_LETTERS: usize = 16;

/// The name of an item of a file that becomes a document of its own.
pub(crate) fn item_name(file: &str, id: &str) -> String {
    format!("{file}{ITEM}{}", &sha256(id).hex()[..ITEM_LETTERS])
}

/// Stands for the day of the items of a list that have none.
const UNDATED: &str = "undated";

/// The name of the items of a list that are of one day: `expenses.csv#2026-03-01`.
pub(crate) fn day_name(file: &str, day: Option<Day>) -> String {
    let day = day.map_or_else(|| UNDATED.to_owned(), |day| day.to_string());
    format!("{file}{ITEM}{day}")
}

/// Whether a document holds the items of a list that are of one day.
pub(crate) fn is_day_name(name: &str) -> bool {
    let is_day = |id: &str| id == UNDATED || id.parse::<Day>().is_ok();
    name.rsplit_once(ITEM).is_some_and(|(_, id)| is_day(id))
}

/// The name of a document as a person reads it: `expenses.csv, 2026-03-01`.
pub(crate) fn shown_name(name: &str) -> String {
    match name.rsplit_once(ITEM).filter(|_| is_day_name(name)) {
        Some((file, day)) => format!("{file}, {day}"),
        None => name.to_owned(),
    }
}

/// The file of a document that is an item of it; any other name stays as it is.
pub(crate) fn file_of_item(name: &str) -> &str {
    let is_hash = |id: &str| id.len() == ITEM_LETTERS && id.bytes().all(|c| c.is_ascii_hexdigit());
    let item = name.rsplit_once(ITEM).filter(|(_, id)| is_hash(id) || is_day_name(name));
    item.map_or(name, |(file, _)| file)
}

/// Stands before the origin of a source that is itself a summary, once for each summary between. So a summary
/// of a summary takes the place of no summary of the source itself.
const OF_SUMMARY: &str = "summary:";

/// The origin of what was made from a summary with this origin.
pub(crate) fn origin_of_summary(origin: &str) -> String {
    format!("{OF_SUMMARY}{origin}")
}

/// The name of the file that an origin is, or that lies below it.
pub(crate) fn file_of(origin: &str) -> Option<&str> {
    origin.trim_start_matches(OF_SUMMARY).strip_prefix(FILE)
}

/// The hash of what a request asks, where that is not the hash of all its parameters.
pub(crate) fn question_hash(params: &Map<String, Value>) -> Option<String> {
    let mut asked = params.clone();
    asked.retain(|name, _| !COMMON_PARAMS.contains(&name.as_str()));
    match asked.len() == params.len() {
        true => None,
        false if asked.is_empty() => Some(NOTHING_ASKED.to_owned()),
        false => Some(jcs_hash(&Value::Object(asked)).prefixed()),
    }
}

/// The question of a request without parameters that ask something.
const NOTHING_ASKED: &str = "none";

/// What a summary says of the privacy of its sources.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) enum SourceWord {
    /// Nothing: a summary of summaries, or of several sources of which some are private.
    #[default]
    Silent,
    /// No source is private.
    Open,
    /// Its source is private.
    Private,
}

impl SourceWord {
    /// Every word, in the order in which it is kept.
    pub(crate) const ALL: [SourceWord; 3] =
        [SourceWord::Silent, SourceWord::Open, SourceWord::Private];
}

/// What the sources of an item say beside their texts.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(default)]
pub(crate) struct SourceFlag {
    publish: Option<bool>,
}

/// The members of `selection` that versions depend on.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct VersionSelection {
    pub selection_type: String,
    pub source_text_hash: String,
    /// What the sources are known by, where it is not their ids.
    pub origins: Vec<String>,
    pub context: SourceFlag,
    pub params_hash: Option<String>,
    pub question_hash: Option<String>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct VersionPrompt {
    pub template_id: String,
}

/// The members of an item that its keys are made of. `Outputs` reads what a caller needs of `outputs`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct VersionedItem<Outputs = IgnoredAny> {
    /// Source time.
    pub ts_abs_ms: Option<i64>,
    pub source_ids: Vec<String>,
    pub source_type: String,
    pub prompt: VersionPrompt,
    pub selection: VersionSelection,
    pub outputs: Outputs,
    pub meta: Map<String, Value>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct VersionKeys {
    /// Flow, question and sources; 0 for an item without a flow or without sources.
    pub work: u64,
    /// One for each source.
    pub origins: Vec<u64>,
    pub word: SourceWord,
}

impl<Outputs> VersionedItem<Outputs> {
    pub(crate) fn keys(&self) -> VersionKeys {
        if self.source_ids.is_empty() {
            return VersionKeys::default();
        }
        let known: BTreeSet<Cow<'_, str>> = self.known_by();
        let mut work = vec![
            self.source_type.as_str(),
            &self.prompt.template_id,
            self.question(),
            self.meta_word("summary_subkind"),
        ];
        // Parts of one source differ in their text, and pieces of several sources in their ids.
        let (is_slice, is_pieces) =
            (self.selection.selection_type.ends_with("_slice"), self.source_type == "chunk_set");
        if is_slice && self.source_type != "event" {
            work.push(&self.selection.source_text_hash);
        }
        match is_pieces {
            true => work.extend(self.source_ids.iter().map(String::as_str)),
            false => work.extend(known.iter().map(Cow::as_ref)),
        }
        let has_flow = !self.prompt.template_id.is_empty();
        let mut origins: BTreeSet<u64> =
            known.iter().map(|one| one.trim_start_matches(OF_SUMMARY)).map(origin_number).collect();
        origins.extend(self.named().map(|name| origin_number(&name)));
        VersionKeys {
            work: if has_flow { number(&format!("work\n{}", work.join("\n"))) } else { 0 },
            word: self.word(known.len()),
            origins: origins.into_iter().collect(),
        }
    }

    /// Its keys as if it were a summary of the same sources that says that they are private.
    pub(crate) fn keys_if_private(mut self) -> VersionKeys {
        self.selection.context.publish = Some(false);
        self.keys()
    }

    /// The flag of the sources counts. A request or a flow that makes its answer private says nothing of
    /// them.
    fn word(&self, sources: usize) -> SourceWord {
        let is_derived = self.source_ids.iter().any(|id| id.starts_with("sum_"));
        match self.selection.context.publish {
            _ if is_derived => SourceWord::Silent,
            Some(false) if sources > 1 => SourceWord::Silent,
            Some(false) => SourceWord::Private,
            _ => SourceWord::Open,
        }
    }

    /// What the sources are known by over their versions.
    fn known_by(&self) -> BTreeSet<Cow<'_, str>> {
        if !self.selection.origins.is_empty() && self.source_type != "session" {
            return self.selection.origins.iter().map(|one| one.as_str().into()).collect();
        }
        // A session that continues gets another id; its conversation and its begin stay.
        let conversation = self.meta_word("conversation_id");
        let conversation =
            if conversation.is_empty() { self.meta_word("source_name") } else { conversation };
        if self.source_type == "session" && !conversation.is_empty() {
            let at = self.ts_abs_ms.unwrap_or_default();
            return BTreeSet::from([format!("chat:{conversation}\n{at}").into()]);
        }
        self.source_ids.iter().map(|one| one.as_str().into()).collect()
    }

    /// The file of one document whose item lists no origins. It says less than an id: it keeps texts
    /// private, and no summary takes the place of another by it.
    fn named(&self) -> Option<String> {
        let name = self.meta_word("source_name");
        let is_file = self.source_type == "document"
            && self.source_ids.len() == 1
            && !self.source_ids[0].starts_with("other:");
        (is_file && !name.is_empty()).then(|| file_origin(name))
    }

    fn question(&self) -> &str {
        let asked = self.selection.question_hash.as_ref().or(self.selection.params_hash.as_ref());
        asked.map_or(NOTHING_ASKED, String::as_str)
    }

    fn meta_word(&self, name: &str) -> &str {
        self.meta.get(name).and_then(Value::as_str).unwrap_or_default()
    }
}

fn origin_number(origin: &str) -> u64 {
    number(&format!("origin\n{origin}"))
}

fn number(words: &str) -> u64 {
    let hash = sha256(words).hex();
    u64::from_str_radix(&hash[..16], 16).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn keys(item: &Value) -> VersionKeys {
        let word = |name: &str| item[name].as_str().unwrap_or("").to_owned();
        let item: VersionedItem = VersionedItem {
            source_type: word("type"),
            source_ids: serde_json::from_value(item["ids"].clone()).unwrap(),
            prompt: VersionPrompt { template_id: word("flow") },
            selection: serde_json::from_value(item["selection"].clone()).unwrap_or_default(),
            meta: item["meta"].as_object().cloned().unwrap_or_default(),
            ts_abs_ms: item["at"].as_i64(),
            ..VersionedItem::default()
        };
        item.keys()
    }

    fn document(id: &str, origin: &str) -> Value {
        json!({"type": "document", "ids": [id], "flow": "f", "selection": {"origins": [origin]}})
    }

    #[test]
    fn the_days_of_a_list_have_names_that_lead_to_their_file() {
        let day = "2026-03-01".parse::<Day>().ok();
        for (name, shown, file) in [
            (day_name("a/b.csv", day), "a/b.csv, 2026-03-01", "a/b.csv"),
            (day_name("a/b.csv", None), "a/b.csv, undated", "a/b.csv"),
            ("a#b.csv".to_owned(), "a#b.csv", "a#b.csv"),
            ("a#2026-03-01.md".to_owned(), "a#2026-03-01.md", "a#2026-03-01.md"),
        ] {
            assert_eq!((shown_name(&name).as_str(), file_of_item(&name)), (shown, file));
            assert_eq!(is_day_name(&name), shown.contains(", "));
        }
        let item = item_name("feed.xml", "x");
        assert_eq!((file_of_item(&item), is_day_name(&item)), ("feed.xml", false));
    }

    #[test]
    fn versions_have_the_same_flow_question_and_set_of_sources() {
        let first = document("doc_1", "file:a.md");
        assert_eq!(keys(&first), keys(&document("doc_2", "file:a.md")), "it was edited");
        assert_ne!(keys(&first).work, keys(&document("doc_1", "file:b.md")).work);
        let mut other = first.clone();
        other["flow"] = json!("g");
        assert_ne!(keys(&first).work, keys(&other).work);
        assert_eq!(keys(&first).origins, keys(&other).origins);
        let mut asked = first.clone();
        asked["selection"]["params_hash"] = json!("p");
        assert_ne!(keys(&first).work, keys(&asked).work);
        asked["selection"]["question_hash"] = json!("none");
        assert_eq!(keys(&first).work, keys(&asked).work, "a day or a project asks nothing");
        let mut two = first.clone();
        two["selection"]["origins"] = json!(["file:a.md", "file:b.md"]);
        assert_ne!(keys(&first).work, keys(&two).work);
        assert_eq!(keys(&two).origins.len(), 2);
    }

    #[test]
    fn a_summary_of_a_summary_is_no_version_of_it_and_shares_its_origin() {
        let first = keys(&document("other:a.md", "file:a.md"));
        let upper = |origin: &str| keys(&document("sum_1", &origin_of_summary(origin)));
        let (second, third) = (upper("file:a.md"), upper(&origin_of_summary("file:a.md")));
        assert_eq!([&first.origins, &second.origins], [&second.origins, &third.origins]);
        let works = BTreeSet::from([first.work, second.work, third.work]);
        assert_eq!(works.len(), 3);
    }

    #[test]
    fn parts_of_sources_are_no_versions_of_each_other() {
        let slice = |hash: &str| {
            let mut slice = document("doc_1", "file:a.md");
            slice["selection"]["selection_type"] = json!("document_slice");
            slice["selection"]["source_text_hash"] = json!(hash);
            keys(&slice).work
        };
        assert_ne!(slice("one"), slice("two"));
        let pieces = |id: &str| {
            let mut set = document(id, "file:a.md");
            set["type"] = json!("chunk_set");
            keys(&set)
        };
        assert_ne!(pieces("chk_1").work, pieces("chk_2").work);
        assert_eq!(pieces("chk_1").origins, pieces("chk_2").origins);
    }

    #[test]
    fn a_session_that_continues_is_the_same_source() {
        let session = |id: &str, at: i64| {
            keys(&json!({"type": "session", "ids": [id], "flow": "f", "at": at,
                "meta": {"conversation_id": "c"}}))
        };
        assert_eq!(session("ses_1", 5), session("ses_2", 5));
        assert_ne!(session("ses_1", 5).work, session("ses_2", 6).work);
    }

    #[test]
    fn parameters_about_how_or_where_are_no_part_of_the_question() {
        let hash = |params: Value| question_hash(params.as_object().unwrap());
        assert_eq!(hash(json!({"topic": "roof"})), None);
        assert_eq!(hash(json!({"day": "2026-02-11", "again": 1})).as_deref(), Some("none"));
        let asked = hash(json!({"topic": "roof", "project": "house"})).unwrap();
        assert_eq!(Some(asked), hash(json!({"topic": "roof", "seed": 4})));
    }
}
