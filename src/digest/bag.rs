//! One bag: its id, its facts and its files.
//!
//! Contract. The id follows from the type, the window, the selector with its hash, the group and
//! the ordered list of summary ids, and from nothing else. A reader of `bag.json` and `trace.json`
//! can compute it again. The files follow from the draft, the items and the stamp of the build.
//!
//! See docs/adr/0042-bag-ids.md.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use chrono_tz::Tz;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::choose::{BagDraft, BagGroup, left_out};
use super::library::{Library, Unit};
use super::markdown::{one_line, shorten};
use super::memo::{self, MemoItem};
use super::open_tasks::OpenTasks;
use super::pairs::PairScore;
use super::selector::{Export, PublishRule, Selector};
use super::tasks::task_id;
use crate::contract::digest_bus::{
    BAG_VERSION, BagIdentity, DIGESTS_DIR, LEVEL, MEMO_INDEX_VERSION, MEMO_META_VERSION,
    TRACE_VERSION, bag_dir_sha256, bag_id,
};
use crate::contract::hash::{Digest, sha256};
use crate::contract::json::{line, to_file};
use crate::contract::source::{TimePrecision, WRITTEN_DAY};
use crate::contract::stable_id::{list_digest, list_hash};
use crate::contract::time::{Day, Timestamp};
use crate::contract::vocabulary::Stream;
use crate::facts::digest::{
    BagFacts, BagType, Channel, GroupFacts, MemoFacts, PairFacts, WindowFacts,
};
use crate::facts::window::Window;

/// Most source ids that a trace lists. A longer list appears only as its hash.
const SOURCE_IDS_LISTED_MAX: usize = 10_000;
/// Longest title.
const TITLE_CHARS: usize = 200;
/// Longest memo slug.
const SLUG_CHARS_MAX: usize = 120;

/// The facts of a window in a zone.
pub(crate) fn window_facts(window: &Window, zone: Tz) -> WindowFacts {
    WindowFacts {
        window_type: window.kind,
        start_day: window.start,
        end_day: window.end,
        label: window.label(),
        tz: zone.name().to_owned(),
    }
}

fn pair_facts(score: PairScore) -> PairFacts {
    // Six decimals are more than the counts support and the same on every machine.
    let round = |number: f64| (number * 1e6).round() / 1e6;
    let PairScore { count, lift, npmi, edge } = score;
    PairFacts { count, lift: round(lift), npmi: round(npmi), edge_score: round(edge) }
}

/// Selector, window and group. A newer bag with the same key supersedes an older one.
pub(crate) type BagKey = (String, String, Option<String>);

impl BagFacts {
    /// Its folder, relative to the bus home.
    pub fn path(&self) -> String {
        bag_path(self.bag_type, &self.bag_id)
    }

    pub fn key(&self) -> BagKey {
        let group = self.group.as_ref().map(|group| group.key.clone());
        (self.selector_id.clone(), self.window.label.clone(), group)
    }

    /// As an event tells it: without the words that come from texts. They stand in the files of the bag, which are
    /// sealed, so that they go when somebody forgets the text.
    pub(crate) fn without_words(&self) -> BagFacts {
        let mut facts = self.clone();
        facts.title.clear();
        facts.tags.clear();
        facts.group.iter_mut().for_each(|group| group.key.clear());
        facts.memos.iter_mut().for_each(|memo| memo.memo_slug.clear());
        facts
    }

    /// Whether an event told it without these words. Events of before tell them.
    pub(crate) fn lacks_words(&self) -> bool {
        self.title.is_empty()
    }

    /// The same with the words of its files, which are the body of the event.
    pub(crate) fn with_words(mut self, body: &[u8]) -> serde_json::Result<BagFacts> {
        #[derive(Deserialize)]
        struct Files {
            #[serde(rename = "meta/bag.json")]
            meta: String,
        }
        #[derive(Deserialize)]
        struct Words {
            title: String,
            tags: Vec<String>,
            group: Option<GroupFacts>,
        }
        let files: Files = serde_json::from_slice(body)?;
        let Words { title, tags, group } = serde_json::from_str(&files.meta)?;
        (self.title, self.tags, self.group) = (title, tags, group);
        for number in 0..self.memos.len() {
            self.memos[number].memo_slug = memo_slug(&self, self.memos[number].channel);
        }
        Ok(self)
    }
}

/// The folder of a bag, relative to the bus home.
pub(crate) fn bag_path(bag_type: BagType, bag_id: &str) -> String {
    format!("{DIGESTS_DIR}/{LEVEL}/{}/{bag_id}", bag_type.as_str())
}

/// The files of a bag, by their path in its folder.
pub(crate) type BagFiles = BTreeMap<String, String>;

/// The values that all bags of one build share.
#[derive(Debug, Clone)]
pub(crate) struct BuildStamp {
    pub run_id: String,
    pub created_at: String,
    pub registry_hash: String,
    pub engine_version: String,
    /// Hash of the published manifest of a partition of the Summary Bus.
    pub manifests: BTreeMap<(Stream, Day), String>,
}

/// A summary of a bag with everything that the bag's files need.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct BagItem {
    pub memo: MemoItem,
    pub schema_version: String,
    pub source_ids: Vec<String>,
}

#[derive(Default, Deserialize)]
struct ItemSelection {
    /// What the sources are known by, where it is not their ids.
    #[serde(default)]
    origins: Vec<String>,
}

/// The members that are read from an item's line.
#[derive(Deserialize)]
struct ItemLine<'a> {
    #[serde(borrow)]
    schema_version: Cow<'a, str>,
    #[serde(borrow)]
    summary_id: Cow<'a, str>,
    #[serde(borrow)]
    day: Cow<'a, str>,
    ts_abs_ms: i64,
    #[serde(default)]
    source_ids: Vec<String>,
    #[serde(default)]
    selection: ItemSelection,
    #[serde(default)]
    title: Option<String>,
    #[serde(borrow, default)]
    outputs: memo::OutputWords<'a>,
    #[serde(default)]
    meta: Map<String, Value>,
}

/// The day that `tomorrow` counts from in all sources of an item; `None` where they have several.
fn written_on(meta: &Map<String, Value>, at: Timestamp) -> Option<Day> {
    match meta.get(WRITTEN_DAY).and_then(Value::as_str) {
        Some(day) => day.parse().ok(),
        None => Some(at.day_in(chrono_tz::UTC)),
    }
}

impl BagItem {
    pub(crate) fn read(
        line: &[u8],
        tags: Vec<String>,
        project: Option<String>,
    ) -> Result<BagItem, String> {
        let item: ItemLine<'_> = serde_json::from_slice(line).map_err(|error| error.to_string())?;
        let title = item.title.as_deref().unwrap_or_default();
        let sources = (&*item.selection.origins, &*item.source_ids);
        let mut words = memo::words(title, &item.outputs, &tags, &item.meta, sources);
        if TimePrecision::of_members(&item.meta) != TimePrecision::Unknown {
            let written = written_on(&item.meta, Timestamp(item.ts_abs_ms));
            if let Some(written) = written {
                words.tasks.iter_mut().for_each(|task| task.read_due(written));
            }
        }
        let day = item.day.parse().map_err(|error| format!("day: {error}"))?;
        let schema_version = item.schema_version.into_owned();
        let of_version = |stream: &&Stream| stream.item_version() == schema_version;
        let stream = *Stream::ALL
            .iter()
            .find(of_version)
            .ok_or_else(|| format!("{schema_version:?} is not a version of a summary item"))?;
        Ok(BagItem {
            memo: MemoItem {
                summary_id: item.summary_id.into_owned(),
                stream,
                day,
                at: Timestamp(item.ts_abs_ms),
                has_clock: TimePrecision::of_members(&item.meta).has_clock(),
                has_day: TimePrecision::of_members(&item.meta) != TimePrecision::Unknown,
                title: words.title,
                is_job: words.is_job,
                about: item.source_ids.join("\n"),
                is_class: words.is_class,
                source: words.source,
                began: None,
                link: words.link,
                text: words.text,
                project,
                tags,
                tasks: words.tasks,
                finished: Vec::new(),
                looked: words.looked,
                is_doubtful: words.is_doubtful,
                achievements: words.achievements,
                decisions: words.decisions,
                questions: words.questions,
                thread: words.thread,
                said: words.said,
            },
            source_ids: item.source_ids,
            schema_version,
        })
    }
}

/// Whether the memos of a selector show tasks.
fn shows_tasks(selector: &Selector) -> bool {
    let tells = |channel: &Channel| matches!(channel, Channel::Digest | Channel::Tasks);
    selector.memo.channels.iter().any(tells)
}

/// What the files of a bag say of its summaries and the summaries do not determine. An empty list is
/// no part of the bag id.
#[derive(Debug, Default)]
pub(crate) struct BagState {
    /// The closed tasks that the memos show.
    pub closed: Vec<String>,
    /// The project of each summary, empty for one without; only where the home has rules of its own.
    projects: Vec<String>,
}

impl BagState {
    pub(crate) fn of(
        selector: &Selector,
        library: &Library,
        open_tasks: &OpenTasks,
        units: &[u32],
    ) -> BagState {
        let units = || units.iter().map(|place| &library.units()[*place as usize]);
        let mut closed = BTreeSet::new();
        if shows_tasks(selector) {
            let marks = units().filter_map(|unit| Some((unit, library.task_marks(unit)?)));
            let tasks =
                marks.flat_map(|(unit, marks)| marks.tasks.iter().map(move |task| (unit, task.id)));
            let is_closed = |unit: &Unit, task| open_tasks.closed(library, unit, task).is_some();
            let tasks = tasks.filter(|(unit, task)| is_closed(unit, *task));
            closed.extend(tasks.map(|(_, task)| task_id(task)));
            let closings = units().flat_map(|unit| open_tasks.closings(unit));
            closed.extend(closings.map(|closing| task_id(closing.task)));
        }
        let project = |unit: &Unit| match unit.project {
            Some(project) => library.projects.word(project).to_owned(),
            None => String::new(),
        };
        let projects = match library.rules().is_default() {
            true => Vec::new(),
            false => units().map(project).collect(),
        };
        BagState { closed: closed.into_iter().collect(), projects }
    }

    fn closed_hash(&self) -> Option<Digest> {
        (!self.closed.is_empty()).then(|| list_digest(&self.closed))
    }

    fn projects_hash(&self) -> Option<Digest> {
        (!self.projects.is_empty()).then(|| list_digest(&self.projects))
    }
}

/// The id that a draft would get, and the hash of its summaries.
pub(crate) fn draft_id(
    selector: &Selector,
    selector_hash: &str,
    window: &WindowFacts,
    group: Option<&BagGroup>,
    ids: &[String],
    state: &BagState,
) -> (String, Digest) {
    let hash = list_digest(ids);
    let closed = state.closed_hash().map(|hash| hash.hex());
    let projects = state.projects_hash().map(|hash| hash.hex());
    let id = bag_id(&BagIdentity {
        bag_type: selector.bag_type.as_str(),
        window_type: window.window_type.as_str(),
        tz: &window.tz,
        label: &window.label,
        selector_id: &selector.selector_id,
        selector_hash,
        group: group.map(|group| group.key.as_str()),
        summaries_hash: &hash.hex(),
        closed_tasks_hash: closed.as_deref(),
        projects_hash: projects.as_deref(),
    });
    (id, hash)
}

/// A bag that is about to be written.
pub(crate) struct NewBag<'a> {
    pub selector: &'a Selector,
    /// The hash of the selector.
    pub selector_hash: Digest,
    /// The zone of its window.
    pub zone: Tz,
    pub window: &'a Window,
    pub draft: &'a BagDraft,
    /// Its summaries, in the order of the selector.
    pub items: &'a [BagItem],
    pub state: BagState,
}

impl NewBag<'_> {
    pub(crate) fn render(&self, stamp: &BuildStamp) -> serde_json::Result<(BagFacts, BagFiles)> {
        let window = window_facts(self.window, self.zone);
        let ids: Vec<String> = self.items.iter().map(|one| one.memo.summary_id.clone()).collect();
        let group = self.draft.group.as_ref();
        let (bag_id, summaries_hash) =
            draft_id(self.selector, &self.selector_hash.hex(), &window, group, &ids, &self.state);
        let about = group.map(spoken);
        let title = self.selector.title_of(about.as_deref(), &self.window.title());
        let title = shorten(&one_line(&title), TITLE_CHARS);
        let dropped: u64 = self.draft.dropped.values().sum();
        let mut facts = BagFacts {
            bag_id,
            bag_type: self.selector.bag_type,
            window,
            group: group.map(|group| GroupFacts {
                by: group.by.as_str().to_owned(),
                key: group.key.clone(),
            }),
            selector_id: self.selector.selector_id.clone(),
            selector_version: self.selector.selector_version.clone(),
            selector_hash: self.selector_hash,
            summaries_hash,
            title,
            tags: group.map(|group| group.tags.clone()).unwrap_or_default(),
            pair: group.and_then(|group| group.pair).map(pair_facts),
            candidate: dropped + self.items.len() as u64,
            selected: self.items.len() as u64,
            memos: Vec::new(),
            bag_meta_sha256: Digest::ZERO,
            trace_sha256: Digest::ZERO,
            created_at: stamp.created_at.clone(),
            run_id: stamp.run_id.clone(),
        };
        let mut files = BagFiles::new();
        self.memos(&mut facts, &mut files)?;
        self.exports(&mut files);
        let meta = to_file(&self.bag_json(&facts, stamp))?;
        facts.bag_meta_sha256 = sha256(&meta);
        files.insert("meta/bag.json".to_owned(), meta);
        let trace = to_file(&self.trace_json(&facts, stamp, &ids, &files))?;
        facts.trace_sha256 = sha256(&trace);
        files.insert("meta/trace.json".to_owned(), trace);
        Ok((facts, files))
    }

    fn memos(&self, facts: &mut BagFacts, files: &mut BagFiles) -> serde_json::Result<()> {
        let rule = &self.selector.memo;
        let mut told: Vec<&MemoItem> =
            self.items.iter().take(rule.max_items).map(|item| &item.memo).collect();
        told.sort_by(|a, b| (a.at, &a.summary_id).cmp(&(b.at, &b.summary_id)));
        let ids: Vec<&str> = told.iter().map(|told| told.summary_id.as_str()).collect();
        let mut memos = Vec::new();
        for channel in &rule.channels {
            let slug = memo_slug(facts, *channel);
            let title = match channel {
                Channel::Digest => facts.title.clone(),
                other => format!("{} ({})", facts.title, other.as_str()),
            };
            let window = self.window.title();
            let text = memo::render(&self.frame(facts, *channel, &title, &window), &told);
            let (path, meta_path) = (format!("memo/{slug}.md"), format!("memo/{slug}.meta.json"));
            let md_sha256 = sha256(&text).hex();
            let mut sidecar = json!({
                "schema_version": MEMO_META_VERSION,
                "bag_id": facts.bag_id,
                "memo_slug": slug,
                "title": title,
                "bag_type": facts.bag_type,
                "level": LEVEL,
                "summary_ids": ids,
                "selector_id": facts.selector_id,
                "selector_hash": facts.selector_hash,
                "created_at": facts.created_at,
                "integrity": {"md_sha256": md_sha256},
                "category": channel.as_str(),
                "tags": facts.tags,
            });
            if !rule.audience.is_empty() {
                sidecar["audience"] = json!(rule.audience);
            }
            let topics = memo::topics(&told);
            if !topics.is_empty() {
                sidecar["topics"] = json!(topics);
            }
            if let Some(notes) = &self.selector.description {
                sidecar["notes"] = one_line(notes).into();
            }
            files.insert(meta_path.clone(), to_file(&sidecar)?);
            files.insert(path.clone(), text);
            memos.push(json!({
                "memo_slug": slug, "title": title, "path": path, "meta_path": meta_path,
                "md_sha256": md_sha256, "tags": facts.tags,
            }));
            facts.memos.push(MemoFacts { memo_slug: slug, channel: *channel });
        }
        let index = json!({
            "schema_version": MEMO_INDEX_VERSION,
            "bag_id": facts.bag_id,
            "updated_at": facts.created_at,
            "memos": memos,
        });
        files.insert("memo/index.json".to_owned(), to_file(&index)?);
        Ok(())
    }

    fn frame<'b>(
        &'b self,
        facts: &'b BagFacts,
        channel: Channel,
        title: &'b str,
        window_title: &'b str,
    ) -> memo::MemoHeader<'b> {
        memo::MemoHeader {
            channel,
            title,
            description: self.selector.description.as_deref(),
            tags: &facts.tags,
            built_at: &facts.created_at,
            publish: self.selector.matching.publish == PublishRule::Public,
            bag_id: &facts.bag_id,
            bag_type: facts.bag_type,
            window_label: &facts.window.label,
            window_title,
            selector_id: &facts.selector_id,
            candidates: facts.candidate,
            left_out: left_out(&self.draft.dropped, self.selector.matching.publish),
            selected: self.items.len(),
            zone: self.zone,
        }
    }

    fn exports(&self, files: &mut BagFiles) {
        for export in &self.selector.exports {
            let (name, text) = match export {
                Export::ItemsJsonl => ("data/items.jsonl", self.items_jsonl()),
                Export::ItemsCsv => ("data/items.csv", self.items_csv()),
            };
            files.insert(name.to_owned(), text);
        }
    }

    fn items_jsonl(&self) -> String {
        let mut lines = String::new();
        for item in self.items {
            let told = &item.memo;
            lines.push_str(&line(&json!({
                "summary_id": told.summary_id, "stream": told.stream, "day": told.day.to_string(),
                "ts_abs": told.at.to_string(), "title": told.title, "project": told.project,
                "tags": told.tags, "text": told.text,
                "tasks": told.tasks.iter().map(|task| &task.text).collect::<Vec<_>>(),
                "decisions": told.decisions, "questions": told.questions, "source": told.source,
                "source_ids": item.source_ids, "path": told.path(),
            })));
            lines.push('\n');
        }
        lines
    }

    fn items_csv(&self) -> String {
        let mut lines = "summary_id,stream,day,ts_abs,project,title,tags,tasks,path\n".to_owned();
        for BagItem { memo: told, .. } in self.items {
            let cells = [
                told.summary_id.clone(),
                told.stream.to_string(),
                told.day.to_string(),
                told.at.to_string(),
                told.project.clone().unwrap_or_default(),
                told.title.clone(),
                told.tags.join(" "),
                told.tasks.len().to_string(),
                told.path(),
            ];
            lines.push_str(&cells.map(|cell| csv_cell(&cell)).join(","));
            lines.push('\n');
        }
        lines
    }

    fn bag_json(&self, facts: &BagFacts, stamp: &BuildStamp) -> Value {
        let partitions: BTreeSet<(Stream, Day)> =
            self.items.iter().map(|item| (item.memo.stream, item.memo.day)).collect();
        let refs = partitions.iter().filter_map(|key| {
            let sha256 = stamp.manifests.get(key)?;
            Some(json!({"day": key.1.to_string(), "sha256": sha256, "stream": key.0}))
        });
        let versions: BTreeSet<&str> =
            self.items.iter().map(|item| item.schema_version.as_str()).collect();
        let mut identity =
            json!({"scheme": "stable_id:v1", "summaries_hash": facts.summaries_hash});
        if let Some(hash) = self.state.closed_hash() {
            identity["closed_tasks_hash"] = json!(hash);
        }
        if let Some(hash) = self.state.projects_hash() {
            identity["projects_hash"] = json!(hash);
        }
        let mut bag = json!({
            "schema_version": BAG_VERSION,
            "bag_id": facts.bag_id,
            "bag_type": facts.bag_type,
            "level": LEVEL,
            "title": facts.title,
            "window": facts.window,
            "group": facts.group,
            "selector": {
                "selector_id": facts.selector_id,
                "selector_version": facts.selector_version,
                "selector_hash": facts.selector_hash,
            },
            "tags": facts.tags,
            "inputs": {
                "summary_bus_manifest_refs": refs.collect::<Vec<Value>>(),
                "summary_schema_versions": versions,
            },
            "counts": {
                "candidate": facts.candidate,
                "selected": facts.selected,
                "published_memos": facts.memos.len(),
            },
            "identity": identity,
            "producer": {
                "name": "summarizer",
                "digest_engine_version": stamp.engine_version,
                "run_id": facts.run_id,
            },
            "created_at": facts.created_at,
        });
        if let Some(pair) = &facts.pair {
            bag["pair"] = json!(pair);
        }
        bag
    }

    fn trace_json(
        &self,
        facts: &BagFacts,
        stamp: &BuildStamp,
        ids: &[String],
        files: &BagFiles,
    ) -> Value {
        let sources: BTreeSet<&String> =
            self.items.iter().flat_map(|item| &item.source_ids).collect();
        let sources: Vec<&String> = sources.into_iter().collect();
        let mut upstream = json!({"summary_ids": ids});
        if sources.len() <= SOURCE_IDS_LISTED_MAX {
            upstream["source_ids_union"] = json!(sources);
        }
        upstream["source_ids_union_hash"] = list_hash(&sources).into();
        if !self.state.closed.is_empty() {
            upstream["closed_task_ids"] = json!(self.state.closed);
        }
        if !self.state.projects.is_empty() {
            upstream["projects"] = json!(self.state.projects);
        }
        let reasons: BTreeMap<&str, u64> =
            self.draft.dropped.iter().map(|(reason, count)| (reason.as_str(), *count)).collect();
        json!({
            "schema_version": TRACE_VERSION,
            "bag_id": facts.bag_id,
            "upstream": upstream,
            "rules": {
                "selector_id": facts.selector_id,
                "selector_hash": facts.selector_hash,
                "selector": self.selector.record,
                "registry_hash": stamp.registry_hash,
            },
            "coverage": {
                "selected_summary_ids": facts.selected,
                "dropped_summary_ids": facts.candidate - facts.selected,
                "drop_reasons": reasons,
            },
            "integrity": {"bag_dir_sha256": bag_dir_sha256(files)},
        })
    }
}

/// The name of a group for people.
fn spoken(group: &BagGroup) -> String {
    let plain = |tag: &String| super::tags::lexeme(tag).replace('_', " ");
    match group.tags.as_slice() {
        [] => group.key.clone(),
        tags => tags.iter().map(plain).collect::<Vec<_>>().join(" + "),
    }
}

/// A file name that is valid on every system and the same for the same memo.
fn memo_slug(facts: &BagFacts, channel: Channel) -> String {
    let about = match &facts.group {
        Some(group) => group.key.replace('+', "__"),
        None => facts.selector_id.clone(),
    };
    let mut slug = format!("{}__{}", facts.bag_type.as_str(), file_word(&about));
    if channel != Channel::Digest {
        slug.push_str(&format!("__{}", channel.as_str()));
    }
    slug
}

/// Keeps `a-z 0-9 _ -`. Where that loses more than case and punctuation, a checksum keeps different
/// texts apart.
fn file_word(text: &str) -> String {
    let mut word = String::new();
    let mut lossy = false;
    for c in text.chars() {
        match c.to_ascii_lowercase() {
            plain @ ('a'..='z' | '0'..='9' | '_' | '-') => {
                lossy |= plain != c;
                word.push(plain);
            }
            ':' | '.' => word.push('_'),
            _ => {
                lossy = true;
                if !word.ends_with('-') {
                    word.push('-');
                }
            }
        }
    }
    let room = SLUG_CHARS_MAX - 48;
    if !lossy && word.len() <= room {
        return word;
    }
    word.truncate(room);
    format!("{}__chk_{}", word.trim_matches('-'), &sha256(text).hex()[..8])
}

/// A quoted cell on one line. A leading sign that a spreadsheet takes for a formula gets an
/// apostrophe.
fn csv_cell(text: &str) -> String {
    let text = one_line(text);
    let formula = text.starts_with(['=', '+', '-', '@']);
    let guard = if formula { "'" } else { "" };
    format!("\"{guard}{}\"", text.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_names_are_safe_and_distinct() {
        let hostile = [
            "../../etc",
            "..",
            "a/b",
            "A",
            "a",
            "a b",
            "a-b",
            "",
            "é",
            "e",
            &"x".repeat(500),
            "con\u{0}",
        ];
        let words: BTreeSet<String> = hostile.iter().map(|text| file_word(text)).collect();
        assert_eq!(words.len(), hostile.len(), "{words:?}");
        for word in &words {
            let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "_-".contains(c);
            assert!(word.chars().all(plain) && word.len() < 100, "{word}");
        }
        assert_eq!(file_word("free:knowledge_management"), "free_knowledge_management");
    }

    #[test]
    fn a_csv_cell_is_never_a_formula() {
        assert_eq!(csv_cell("=1+\"x\""), "\"'=1+\"\"x\"\"\"");
        assert_eq!(csv_cell("plain, text"), "\"plain, text\"");
    }
}
