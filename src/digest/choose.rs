//! Chooses the bags that a selector makes of a window. Pure; the order in which summaries arrived
//! does not matter.
//!
//! Every summary in the window is a candidate. Each candidate that a bag does not hold was dropped
//! for exactly one reason.

use std::collections::{BTreeMap, HashMap, HashSet};

use chrono_tz::Tz;

use super::library::{COLUMNS, Library, Publish, Unit};
use super::open_tasks::OpenTasks;
use super::pairs::{self, PairScore};
use super::project::{one_spelling, scalar};
use super::selector::{GroupBy, GroupRule, OrderKey, PublishRule, Selector};
use super::stamps::is_stamp;
use super::tags::{canonical, lexeme};
use crate::contract::time::Timestamp;
use crate::contract::vocabulary::{Stream, spellings};
use crate::facts::window::Window;

spellings! {
    /// Why a candidate is not in a bag.
    DropReason {
        StreamNotMatched "stream_not_matched",
        PublishNotMatched "publish_not_matched",
        /// A newer summary of the same work took its place.
        Replaced "replaced",
        ProjectNotMatched "project_not_matched",
        TagMissing "tag_missing",
        TagNotMatched "tag_not_matched",
        TagExcluded "tag_excluded",
        MetaNotMatched "meta_not_matched",
        ConfidenceTooLow "confidence_too_low",
        NoTasks "no_tasks",
        /// No flow looked for tasks in it.
        NotRead "not_read_for_tasks",
        /// No task is taken from it, because its sender is unknown or it reads like a fraud.
        Doubted "doubted",
        TasksClosed "tasks_closed",
        OtherGroup "other_group",
        CapPerTag "cap_per_tag",
        CapPerProject "cap_per_project",
        CapTotal "cap_total",
    }
}

impl DropReason {
    /// What the candidates are that it leaves out, for people. `publish` is what the selector wants.
    fn told(self, publish: PublishRule) -> &'static str {
        match self {
            DropReason::PublishNotMatched if publish == PublishRule::Private => "not private",
            DropReason::PublishNotMatched => "private (`publish: no`)",
            DropReason::StreamNotMatched => "of another stream",
            DropReason::Replaced => "replaced by a newer summary",
            DropReason::ProjectNotMatched => "of another project",
            DropReason::TagMissing | DropReason::TagNotMatched => "without the tags",
            DropReason::TagExcluded => "with a tag that is excluded",
            DropReason::MetaNotMatched => "with other values",
            DropReason::ConfidenceTooLow => "with less confidence",
            DropReason::NoTasks => "without a task",
            DropReason::NotRead => "not read for tasks",
            DropReason::Doubted => "from an unknown sender, or a fraud",
            DropReason::TasksClosed => "without an open task",
            DropReason::OtherGroup => "of another group",
            DropReason::CapPerTag => "over the limit for a tag",
            DropReason::CapPerProject => "over the limit for a project",
            DropReason::CapTotal => "over the limit of the digest",
        }
    }
}

/// What a selector left out, with the reasons, for people; empty where it left out nothing.
pub(crate) fn left_out(dropped: &DropCounts, publish: PublishRule) -> String {
    let one = |(reason, count): (&DropReason, &u64)| format!("{count} {}", reason.told(publish));
    dropped.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// Number of dropped candidates by reason.
pub(crate) type DropCounts = BTreeMap<DropReason, u64>;

/// What distinguishes one bag of a window from the others.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct BagGroup {
    pub by: GroupBy,
    /// Part of the bag id.
    pub key: String,
    /// The tags that define it.
    pub tags: Vec<String>,
    /// Set for pairs.
    pub pair: Option<PairScore>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct BagDraft {
    /// Set when the selector groups.
    pub group: Option<BagGroup>,
    /// Places of its units in the library, in the order of the selector.
    pub units: Vec<u32>,
    /// Everything in the window that the bag does not hold.
    pub dropped: DropCounts,
    /// Units of the group that a cap excluded.
    pub(crate) capped: Vec<(u32, DropReason)>,
}

/// The bags that a selector makes of a window.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct WindowChoice {
    pub candidates: u64,
    /// Units that match the selector, before grouping and caps.
    pub(crate) matched: u64,
    pub dropped: DropCounts,
    pub(crate) drafts: Vec<BagDraft>,
}

/// A selector whose words are looked up in a library.
pub(crate) struct Matcher<'a> {
    library: &'a Library,
    open_tasks: &'a OpenTasks,
    selector: &'a Selector,
    group: GroupRule,
    zone: Tz,
    projects: Numbers,
    tags_all: Vec<Numbers>,
    tags_any: Numbers,
    tags_none: Numbers,
    metas: Vec<Numbers>,
}

/// Sorted numbers of words.
#[derive(Default)]
struct Numbers(Vec<u32>);

impl FromIterator<u32> for Numbers {
    fn from_iter<I: IntoIterator<Item = u32>>(numbers: I) -> Numbers {
        let mut numbers: Vec<u32> = numbers.into_iter().collect();
        numbers.sort_unstable();
        numbers.dedup();
        Numbers(numbers)
    }
}

impl Numbers {
    fn contains(&self, number: &u32) -> bool {
        self.0.binary_search(number).is_ok()
    }
}

impl<'a> Matcher<'a> {
    pub(crate) fn new(
        library: &'a Library,
        open_tasks: &'a OpenTasks,
        selector: &'a Selector,
        home: Tz,
    ) -> Matcher<'a> {
        let rule = &selector.matching;
        let projects: Vec<String> = rule.projects.iter().map(|one| one_spelling(one)).collect();
        let tags = |wanted: &String| tag_numbers(library, wanted);
        let metas = rule.meta.iter().map(|(name, values)| {
            values
                .iter()
                .filter_map(scalar)
                .filter_map(|value| library.metas.find(&format!("{name}\u{0}{value}")))
                .collect()
        });
        Matcher {
            library,
            open_tasks,
            selector,
            group: selector.group(),
            zone: selector.zone(home).unwrap_or(home),
            projects: projects.iter().filter_map(|one| library.projects.find(one)).collect(),
            tags_all: rule.tags_all.iter().map(|tag| tags(tag).into_iter().collect()).collect(),
            tags_any: rule.tags_any.iter().flat_map(tags).collect(),
            tags_none: rule.tags_none.iter().flat_map(tags).collect(),
            metas: metas.collect(),
        }
    }

    pub(crate) fn zone(&self) -> Tz {
        self.zone
    }

    /// The windows that hold at least one of `units`, in order.
    pub(crate) fn windows<'u>(&self, units: impl Iterator<Item = &'u Unit>) -> Vec<Window> {
        let kind = self.selector.window.kind;
        let mut windows: Vec<Window> = Vec::new();
        let mut last: Option<(Option<Timestamp>, Option<Timestamp>)> = None;
        for unit in units {
            let holds = |(from, until): (Option<Timestamp>, Option<Timestamp>)| {
                from.is_none_or(|from| from <= unit.at) && until.is_none_or(|until| unit.at < until)
            };
            if last.is_some_and(holds) {
                continue;
            }
            let window = Window::of(kind, unit.at.day_in(self.zone));
            windows.push(window);
            last = Some(window.instants(self.zone));
        }
        windows.sort_unstable();
        windows.dedup();
        windows
    }

    pub(crate) fn choose(&self, window: &Window) -> WindowChoice {
        let (from, until) = window.instants(self.zone);
        let range = self.library.between(from, until);
        let mut choice = WindowChoice { candidates: range.len() as u64, ..WindowChoice::default() };
        let mut matched = Vec::new();
        for place in range {
            match self.refuses(&self.library.units()[place]) {
                Some(reason) => *choice.dropped.entry(reason).or_default() += 1,
                None => matched.push(place as u32),
            }
        }
        choice.matched = matched.len() as u64;
        self.order(&mut matched);
        for (group, units) in self.groups(&matched) {
            let mut dropped = choice.dropped.clone();
            let others = choice.matched - units.len() as u64;
            if others > 0 {
                dropped.insert(DropReason::OtherGroup, others);
            }
            let (units, capped) = self.cap(units);
            for (_, reason) in &capped {
                *dropped.entry(*reason).or_default() += 1;
            }
            choice.drafts.push(BagDraft { group, units, dropped, capped });
        }
        choice
    }

    /// How many sources some units are about: several flows about one are one.
    fn sources(&self, units: &[u32]) -> usize {
        let units = units.iter().map(|place| self.unit(*place));
        let known = units.map(|unit| match self.library.origins_of(unit) {
            [] => Err(unit.seq),
            origins => Ok(origins),
        });
        known.collect::<HashSet<_>>().len()
    }

    fn unit(&self, place: u32) -> &'a Unit {
        &self.library.units()[place as usize]
    }

    /// The first reason why a unit does not match.
    fn refuses(&self, unit: &Unit) -> Option<DropReason> {
        let rule = &self.selector.matching;
        if !rule.streams.is_empty() && !rule.streams.contains(&unit.stream) {
            return Some(DropReason::StreamNotMatched);
        }
        let publish = self.library.publish(unit);
        let shown = match rule.publish {
            PublishRule::Any => true,
            PublishRule::Public => publish != Publish::No,
            PublishRule::Private => publish == Publish::No,
        };
        if !shown {
            return Some(DropReason::PublishNotMatched);
        }
        if self.library.is_replaced(unit) {
            return Some(DropReason::Replaced);
        }
        let wanted = |project: u32| self.projects.contains(&project);
        if !rule.projects.is_empty() && !unit.project.is_some_and(wanted) {
            return Some(DropReason::ProjectNotMatched);
        }
        let tags = self.library.tags_of(unit);
        let has = |set: &Numbers| tags.iter().any(|tag| set.contains(tag));
        if !self.tags_all.iter().all(has) {
            return Some(DropReason::TagMissing);
        }
        if !rule.tags_any.is_empty() && !has(&self.tags_any) {
            return Some(DropReason::TagNotMatched);
        }
        if has(&self.tags_none) {
            return Some(DropReason::TagExcluded);
        }
        let metas = self.library.metas_of(unit);
        if !self.metas.iter().all(|set| metas.iter().any(|meta| set.contains(meta))) {
            return Some(DropReason::MetaNotMatched);
        }
        // A missing confidence is NaN, which fails every comparison: such a unit is dropped.
        let sure = |least: f64| unit.confidence >= least;
        if !rule.min_confidence.is_none_or(sure) {
            return Some(DropReason::ConfidenceTooLow);
        }
        match (rule.has_tasks, unit.tasks) {
            (false, _) => None,
            (true, 0) if self.open_tasks.doubts(self.library, unit) => Some(DropReason::Doubted),
            (true, 0) if !unit.looked => Some(DropReason::NotRead),
            (true, 0) => Some(DropReason::NoTasks),
            (true, _) => (self.open_tasks.open(unit) == 0).then_some(DropReason::TasksClosed),
        }
    }

    fn order(&self, units: &mut [u32]) {
        if self.selector.order.is_empty() {
            // The library is already sorted by time and id.
            return;
        }
        units.sort_by(|a, b| {
            let (a, b) = (self.unit(*a), self.unit(*b));
            let keys = self.selector.order.iter().map(|key| match key {
                OrderKey::Time => a.at.cmp(&b.at),
                OrderKey::TimeDown => b.at.cmp(&a.at),
                OrderKey::Confidence => a.confidence.total_cmp(&b.confidence),
                OrderKey::ConfidenceDown => known(b.confidence).total_cmp(&known(a.confidence)),
                OrderKey::Tasks => a.tasks.cmp(&b.tasks),
                OrderKey::TasksDown => b.tasks.cmp(&a.tasks),
            });
            let mut decided = keys.filter(|order| order.is_ne());
            decided.next().unwrap_or_else(|| (a.at, a.id).cmp(&(b.at, b.id)))
        });
    }

    /// Every unit of a window, with the reason why it does not match, if it does not.
    pub(crate) fn candidates(&self, window: &Window) -> Vec<(u32, Option<DropReason>)> {
        let (from, until) = window.instants(self.zone);
        let places = self.library.between(from, until);
        places.map(|place| (place as u32, self.refuses(&self.library.units()[place]))).collect()
    }

    fn cap(&self, units: Vec<u32>) -> (Vec<u32>, Vec<(u32, DropReason)>) {
        let caps = &self.selector.caps;
        let mut per_tag: HashMap<Option<u32>, usize> = HashMap::new();
        let mut per_project: HashMap<Option<u32>, usize> = HashMap::new();
        let (mut kept, mut capped) = (Vec::new(), Vec::new());
        for place in units {
            let unit = self.unit(place);
            let tag = self.library.tags_of(unit).first().copied();
            let full = |counts: &HashMap<Option<u32>, usize>, key, cap: Option<usize>| {
                cap.is_some_and(|cap| counts.get(&key).copied().unwrap_or(0) >= cap)
            };
            let reason = if full(&per_tag, tag, caps.per_tag) {
                DropReason::CapPerTag
            } else if full(&per_project, unit.project, caps.per_project) {
                DropReason::CapPerProject
            } else if kept.len() >= caps.total {
                DropReason::CapTotal
            } else {
                *per_tag.entry(tag).or_default() += 1;
                *per_project.entry(unit.project).or_default() += 1;
                kept.push(place);
                continue;
            };
            capped.push((place, reason));
        }
        (kept, capped)
    }

    fn groups(&self, matched: &[u32]) -> Vec<(Option<BagGroup>, Vec<u32>)> {
        let enough = |units: &[u32]| self.sources(units) >= self.group.min_items;
        match self.group.by {
            GroupBy::None => match enough(matched) {
                true => vec![(None, matched.to_vec())],
                false => Vec::new(),
            },
            GroupBy::Project => self.by_key(matched, |unit| {
                unit.project.map(|project| self.library.projects.word(project))
            }),
            GroupBy::Stream => self.by_key(matched, |unit| Some(stream_word(unit.stream))),
            GroupBy::Meta => {
                let prefix = format!("{}\u{0}", self.group.field.as_deref().unwrap_or_default());
                self.by_key(matched, |unit| {
                    let metas = self.library.metas_of(unit).iter();
                    let mut values = metas
                        .filter_map(|meta| self.library.metas.word(*meta).strip_prefix(&prefix));
                    values.next()
                })
            }
            GroupBy::Tag => self.by_tag(matched),
            GroupBy::Pair => self.by_pair(matched),
            GroupBy::Combo => self.by_combo(matched),
        }
    }

    /// The largest groups by a key. Groups of equal size are ordered by key.
    fn by_key(
        &self,
        matched: &[u32],
        key: impl Fn(&'a Unit) -> Option<&'a str>,
    ) -> Vec<(Option<BagGroup>, Vec<u32>)> {
        let mut groups: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
        for place in matched {
            if let Some(key) = key(self.unit(*place)) {
                groups.entry(key).or_default().push(*place);
            }
        }
        let by = self.group.by;
        let make = |key: &str| BagGroup { by, key: key.to_owned(), tags: Vec::new(), pair: None };
        self.largest(groups).into_iter().map(|(key, units)| (Some(make(key)), units)).collect()
    }

    fn largest<K: Ord>(&self, groups: BTreeMap<K, Vec<u32>>) -> Vec<(K, Vec<u32>)> {
        let mut groups: Vec<(K, Vec<u32>)> = groups
            .into_iter()
            .filter(|(_, units)| self.sources(units) >= self.group.min_items)
            .collect();
        // The sort is stable, so groups of equal size stay in the order of their keys.
        groups.sort_by_key(|(_, units)| std::cmp::Reverse(units.len()));
        groups.truncate(self.group.top);
        groups
    }

    /// The tags of each unit that may group it: those that its text gave. A tag that a flow puts on
    /// every output of the window, or that its pack writes in fixed words, says something about the
    /// flow, and a column is a class.
    fn grouping_tags(&self, matched: &[u32]) -> Vec<Vec<u32>> {
        let flow_of = |unit: &Unit| {
            let mut metas = self.library.metas_of(unit).iter().copied();
            metas.find(|meta| self.library.metas.word(*meta).starts_with("flow_id\u{0}"))
        };
        let mut outputs: HashMap<u32, u64> = HashMap::new();
        let mut carrying: HashMap<(u32, u32), u64> = HashMap::new();
        for unit in matched.iter().map(|place| self.unit(*place)) {
            let Some(flow) = flow_of(unit) else { continue };
            *outputs.entry(flow).or_default() += 1;
            for tag in self.library.tags_of(unit) {
                *carrying.entry((flow, *tag)).or_default() += 1;
            }
        }
        let stamped = |flow: u32, tag: u32| {
            let all = outputs.get(&flow).copied().unwrap_or(0);
            let (name, word) = (self.library.metas.word(flow), self.library.tags.word(tag));
            let flow_id = name.strip_prefix("flow_id\u{0}").unwrap_or_default();
            all > 1 && carrying.get(&(flow, tag)) == Some(&all) || is_stamp(flow_id, word)
        };
        let is_text = |unit: &Unit, tag: u32| {
            let word = self.library.tags.word(tag);
            let namespace = word.split_once(':').map_or("free", |(namespace, _)| namespace);
            !COLUMNS.contains(&namespace) && !flow_of(unit).is_some_and(|flow| stamped(flow, tag))
        };
        let own = |place: &u32| {
            let unit = self.unit(*place);
            let tags = self.library.tags_of(unit).iter().copied();
            tags.filter(|tag| is_text(unit, *tag)).collect()
        };
        matched.iter().map(own).collect()
    }

    fn by_tag(&self, matched: &[u32]) -> Vec<(Option<BagGroup>, Vec<u32>)> {
        let tags = &self.library.tags;
        let grouping = self.grouping_tags(matched);
        let wanted: HashSet<u32> =
            self.group.keys.iter().flat_map(|tag| tag_numbers(self.library, tag)).collect();
        let mut groups: HashMap<u32, Vec<u32>> = HashMap::new();
        for (place, grouping) in matched.iter().zip(&grouping) {
            // Tags that the selector names group whatever they are.
            let own = match self.group.keys.is_empty() {
                true => grouping.as_slice(),
                false => self.library.tags_of(self.unit(*place)),
            };
            for tag in own {
                if self.group.keys.is_empty() || wanted.contains(tag) {
                    groups.entry(*tag).or_default().push(*place);
                }
            }
        }
        let groups = groups.into_iter().map(|(tag, units)| (tags.word(tag), units)).collect();
        let make = |tag: &str| BagGroup {
            by: GroupBy::Tag,
            key: tag.to_owned(),
            tags: vec![tag.to_owned()],
            pair: None,
        };
        self.largest(groups).into_iter().map(|(tag, units)| (Some(make(tag)), units)).collect()
    }

    fn by_pair(&self, matched: &[u32]) -> Vec<(Option<BagGroup>, Vec<u32>)> {
        let tags = &self.library.tags;
        let grouping = self.grouping_tags(matched);
        let documents = grouping.iter().map(Vec::as_slice);
        let same = |a: u32, b: u32| lexeme(tags.word(a)) == lexeme(tags.word(b));
        let (rule, top) = (&self.selector.pairs, self.group.top);
        let best = pairs::best(documents, rule, top, |tag| tags.word(tag), same);
        let mut groups = Vec::with_capacity(best.len());
        for pair in best {
            let units = having(matched, &grouping, &[pair.first, pair.second]);
            if self.sources(&units) < self.group.min_items {
                continue;
            }
            let words = [tags.word(pair.first), tags.word(pair.second)].map(str::to_owned);
            let group = BagGroup {
                by: GroupBy::Pair,
                key: joined(words.iter().map(String::as_str)),
                tags: words.to_vec(),
                pair: Some(pair.score),
            };
            groups.push((Some(group), units));
        }
        groups
    }

    fn by_combo(&self, matched: &[u32]) -> Vec<(Option<BagGroup>, Vec<u32>)> {
        let tags = &self.library.tags;
        let mut counts: HashMap<u32, u64> = HashMap::new();
        let grouping = self.grouping_tags(matched);
        for tag in grouping.iter().flatten() {
            *counts.entry(*tag).or_default() += 1;
        }
        // The number of combinations explodes with the number of tags, so only the most frequent
        // tags are combined.
        let mut frequent: Vec<(&str, u32, u64)> =
            counts.into_iter().map(|(tag, count)| (tags.word(tag), tag, count)).collect();
        frequent.retain(|(_, _, count)| *count >= self.group.min_items as u64);
        frequent.sort_unstable_by(|a, b| b.2.cmp(&a.2).then(a.0.cmp(b.0)));
        frequent.truncate(self.group.top.min(100));
        let frequent: HashSet<u32> = frequent.into_iter().map(|(_, tag, _)| tag).collect();
        let mut groups: BTreeMap<Vec<&str>, Vec<u32>> = BTreeMap::new();
        for (place, own) in matched.iter().zip(&grouping) {
            let own = own.iter().filter(|tag| frequent.contains(tag));
            let mut own: Vec<&str> = own.map(|tag| tags.word(*tag)).collect();
            own.sort_unstable();
            combinations(&own, self.group.combo_size, &mut Vec::new(), &mut |combo| {
                groups.entry(combo.to_vec()).or_default().push(*place);
            });
        }
        let make = |combo: &[&str]| BagGroup {
            by: GroupBy::Combo,
            key: joined(combo.iter().copied()),
            tags: combo.iter().map(|tag| (*tag).to_owned()).collect(),
            pair: None,
        };
        self.largest(groups).into_iter().map(|(tags, units)| (Some(make(&tags)), units)).collect()
    }
}

/// The units that have all of some tags among those that may group them.
fn having(matched: &[u32], grouping: &[Vec<u32>], tags: &[u32]) -> Vec<u32> {
    let places = matched.iter().zip(grouping);
    let has_all = places.filter(|(_, own)| tags.iter().all(|tag| own.contains(tag)));
    has_all.map(|(place, _)| *place).collect()
}

/// A confidence for descending order. A missing one comes last.
fn known(confidence: f64) -> f64 {
    if confidence.is_nan() { -1.0 } else { confidence }
}

fn stream_word(stream: Stream) -> &'static str {
    stream.as_str()
}

/// The numbers of the tags that a selector means. A word with a namespace is one tag; a word
/// without one matches its value in every namespace.
fn tag_numbers(library: &Library, wanted: &str) -> Vec<u32> {
    let tag = canonical(wanted);
    if wanted.contains(':') {
        return library.tags.find(&tag).into_iter().collect();
    }
    let value = lexeme(&tag);
    let same = library.tags.iter().filter(|(_, word)| lexeme(word) == value);
    same.map(|(number, _)| number).collect()
}

/// The key of a group that several tags define. A tag may contain the sign that joins them, so that
/// sign is escaped: two groups never share a key.
fn joined<'w>(tags: impl Iterator<Item = &'w str>) -> String {
    let escaped = tags.map(|tag| tag.replace('%', "%25").replace('+', "%2B"));
    escaped.collect::<Vec<_>>().join("+")
}

/// Every combination of some words, in the order of the words.
fn combinations<'w>(
    words: &[&'w str],
    size: usize,
    chosen: &mut Vec<&'w str>,
    found: &mut impl FnMut(&[&'w str]),
) {
    if chosen.len() == size {
        found(chosen);
        return;
    }
    for (index, word) in words.iter().enumerate() {
        chosen.push(word);
        combinations(&words[index + 1..], size, chosen, found);
        chosen.pop();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{Just, Strategy as _, prop_assert_eq};
    use serde_json::{Value, json};

    use super::*;
    use crate::digest::library::tests::library;
    use crate::digest::selector::Selectors;

    fn selector(change: Value) -> Selector {
        let mut record = json!({
            "schema_version": "selector.v1", "selector_id": "s", "selector_version": "1",
            "bag_type": "cohort", "window": {"type": "day"}, "caps": {"total": 100},
        });
        for (key, value) in change.as_object().unwrap() {
            record[key] = value.clone();
        }
        Selectors::parse(record.to_string().as_bytes()).unwrap().all()[0].clone()
    }

    fn item(ms: i64, tags: &[&str], more: Value) -> Value {
        let sources = [format!("evt_{ms}")];
        let mut item = json!({"ts_abs_ms": ms, "source_ids": sources, "outputs": {"tags": tags}, "meta": {"k": "v"}});
        for (key, value) in more.as_object().unwrap() {
            for (inner, value) in value.as_object().unwrap() {
                item[key][inner] = value.clone();
            }
        }
        item
    }

    fn day(choice: &WindowChoice) -> Vec<(Option<String>, Vec<u32>)> {
        let key = |draft: &BagDraft| draft.group.as_ref().map(|group| group.key.clone());
        choice.drafts.iter().map(|draft| (key(draft), draft.units.clone())).collect()
    }

    const DAY: &str = "1970-01-01";

    fn choose(library: &Library, selector: &Selector) -> WindowChoice {
        let open_tasks = OpenTasks::of(library, &BTreeMap::new());
        let matcher = Matcher::new(library, &open_tasks, selector, chrono_tz::UTC);
        let choice = matcher.choose(&Window::of(selector.window.kind, DAY.parse().unwrap()));
        for draft in &choice.drafts {
            let dropped: u64 = draft.dropped.values().sum();
            assert_eq!(choice.candidates, draft.units.len() as u64 + dropped, "all accounted for");
        }
        choice
    }

    #[test]
    fn each_rule_drops_for_its_own_reason() {
        let items: Vec<(u64, Value)> = vec![
            (1, item(1, &["a"], json!({}))),
            (2, item(2, &["a"], json!({"meta": {"publish": false}}))),
            (3, item(3, &["a"], json!({"meta": {"project": "P"}}))),
            (4, item(4, &["b"], json!({"outputs": {"confidence": 0.4}}))),
            (5, item(5, &["a", "b"], json!({"outputs": {"actions": ["x"], "confidence": 0.9}}))),
            (6, item(86_400_000, &["a"], json!({}))),
        ];
        let library = library(&items);
        for (rule, kept, reason) in [
            (json!({}), vec![0, 2, 3, 4], DropReason::PublishNotMatched),
            (json!({"publish": "private"}), vec![1], DropReason::PublishNotMatched),
            (json!({"streams": ["events"]}), vec![], DropReason::StreamNotMatched),
            (json!({"projects": ["P"]}), vec![2], DropReason::ProjectNotMatched),
            (json!({"projects": ["p"]}), vec![], DropReason::ProjectNotMatched),
            (json!({"tags_all": ["a", "free:b"]}), vec![4], DropReason::TagMissing),
            (json!({"tags_any": ["B"]}), vec![3, 4], DropReason::TagNotMatched),
            (json!({"tags_none": ["b"]}), vec![0, 2], DropReason::TagExcluded),
            (json!({"meta": {"project": ["P", "Q"]}}), vec![2], DropReason::MetaNotMatched),
            (json!({"min_confidence": 0.5}), vec![4], DropReason::ConfidenceTooLow),
            (json!({"has_tasks": true}), vec![4], DropReason::NotRead),
        ] {
            let choice = choose(&library, &selector(json!({"match": rule})));
            assert_eq!(choice.candidates, 5, "the last is of another day");
            let units: Vec<u32> = choice.drafts.iter().flat_map(|d| d.units.clone()).collect();
            assert_eq!(units, kept, "{rule}");
            assert!(choice.dropped.contains_key(&reason), "{rule}: {:?}", choice.dropped);
        }
        let any = choose(&library, &selector(json!({"match": {"publish": "any"}})));
        assert_eq!(any.matched, 5);
    }

    #[test]
    fn a_tag_that_a_pack_writes_in_fixed_words_groups_nothing() {
        let flow = "email.triage.extract_event.calendar_event.v1";
        let of = |ms, tags: &[&str]| item(ms, tags, json!({"meta": {"flow_id": flow}}));
        let items = [
            (1, of(1, &["calendar_event", "garden"])),
            (2, of(2, &["no_event", "garden"])),
            (3, of(3, &["calendar_event"])),
        ];
        let library = library(&items);
        let by_tag = |more: Value| selector(json!({"bag_type": "tagbag", "group": more}));
        let keys = |choice: &WindowChoice| -> Vec<String> {
            day(choice).into_iter().filter_map(|(key, _)| key).collect()
        };
        let own = choose(&library, &by_tag(json!({"by": "tag"})));
        assert_eq!(keys(&own), ["free:garden"]);
        let named = choose(&library, &by_tag(json!({"by": "tag", "keys": ["calendar_event"]})));
        assert_eq!(keys(&named), ["free:calendar_event"], "a selector may name it");
    }

    #[test]
    fn groups_are_the_largest_with_ties_by_name() {
        let items: Vec<(u64, Value)> = vec![
            (1, item(1, &["z", "a", "m"], json!({"meta": {"project": "two"}}))),
            (2, item(2, &["z", "a"], json!({"meta": {"project": "one"}}))),
            (3, item(3, &["b", "z"], json!({"meta": {"project": "one"}}))),
            (4, item(4, &["b"], json!({}))),
        ];
        let library = library(&items);
        let tags = selector(
            json!({"bag_type": "tagbag", "group": {"by": "tag", "top": 2, "min_items": 2}}),
        );
        let key = |text: &str| Some(text.to_owned());
        assert_eq!(
            day(&choose(&library, &tags)),
            [(key("free:z"), vec![0, 1, 2]), (key("free:a"), vec![0, 1])]
        );
        let named = selector(json!({"bag_type": "tagbag", "group": {"by": "tag", "keys": ["M"]}}));
        assert_eq!(day(&choose(&library, &named)), [(key("free:m"), vec![0])]);
        let projects = selector(json!({"group": {"by": "project"}}));
        assert_eq!(
            day(&choose(&library, &projects)),
            [(key("one"), vec![1, 2]), (key("two"), vec![0])]
        );
        let meta = selector(json!({"group": {"by": "meta", "field": "k"}}));
        assert_eq!(day(&choose(&library, &meta)), [(key("v"), vec![0, 1, 2, 3])]);
        let combos = selector(json!({"group": {"by": "combo", "min_items": 2}}));
        assert_eq!(day(&choose(&library, &combos)), [(key("free:a+free:z"), vec![0, 1])]);
        let pairs = selector(json!({"bag_type": "pairbag", "group": {"by": "pair"},
                                    "pairs": {"min_count": 2, "min_npmi": 0.0}}));
        let found = choose(&library, &pairs);
        assert_eq!(found.drafts[0].group.as_ref().unwrap().tags, ["free:a", "free:z"]);
        assert_eq!(found.drafts[0].group.as_ref().unwrap().pair.unwrap().count, 2);
    }

    #[test]
    fn caps_apply_in_the_order_of_the_selector() {
        let items: Vec<(u64, Value)> = (0..6)
            .map(|n| {
                let project = if n < 4 { "p" } else { "q" };
                let confidence = f64::from(6 - n as i32) / 10.0;
                let more =
                    json!({"meta": {"project": project}, "outputs": {"confidence": confidence}});
                (n, item(n as i64, &["a"], more))
            })
            .collect();
        let library = library(&items);
        let newest = selector(json!({"caps": {"total": 3, "per_project": 2}, "order": ["-time"]}));
        let choice = choose(&library, &newest);
        assert_eq!(choice.drafts[0].units, [5, 4, 3]);
        assert_eq!(choice.drafts[0].dropped[&DropReason::CapTotal], 3);
        let choice = choose(
            &library,
            &selector(json!({"caps": {"total": 9, "per_tag": 1},
                                                       "order": ["-confidence"]})),
        );
        assert_eq!(choice.drafts[0].units, [0]);
        assert_eq!(choice.drafts[0].dropped[&DropReason::CapPerTag], 5);
    }

    #[test]
    fn windows_are_found_from_units() {
        let items: Vec<(u64, Value)> =
            (0..400).map(|n| (n, item(n as i64 * 86_400_000, &["a"], json!({})))).collect();
        let library = library(&items);
        let open_tasks = OpenTasks::default();
        let month = selector(json!({"window": {"type": "month"}}));
        let matcher = Matcher::new(&library, &open_tasks, &month, chrono_tz::UTC);
        assert_eq!(matcher.windows(library.units().iter()).len(), 14);
        let west = selector(json!({"window": {"type": "day", "tz": "America/Lima"}}));
        let matcher = Matcher::new(&library, &open_tasks, &west, chrono_tz::UTC);
        assert_eq!(matcher.windows(library.units()[..1].iter())[0].label(), "1969-12-31");
    }

    /// A random summary: time, tags, project, confidence, number of tasks.
    type Any = (i64, Vec<usize>, Option<usize>, Option<u8>, usize);

    fn anything() -> impl proptest::strategy::Strategy<Value = Vec<Any>> {
        use proptest::collection::vec;
        use proptest::option::of;
        // Few different times, so that many are equal and only the ids decide.
        vec((0..5_i64, vec(0..7_usize, 0..5), of(0..3_usize), of(0..4_u8), 0..3_usize), 1..25)
    }

    fn numbered(any: &[Any]) -> Vec<(u64, Value)> {
        const WORDS: [&str; 7] = ["a", "B", "CI/CD", "topics:AI", "zz:x", "é", "done"];
        let item = |(ms, tags, project, sure, tasks): &Any| {
            let tags: Vec<&str> = tags.iter().map(|tag| WORDS[*tag]).collect();
            let more = json!({
                "outputs": {"confidence": sure.map(|sure| f64::from(sure) / 4.0),
                            "actions": vec!["x"; *tasks]},
                "meta": {"project": project.map(|project| format!("P{project}"))},
            });
            item(*ms, &tags, more)
        };
        (1..).zip(any.iter().map(item)).collect()
    }

    /// The bags that a selector makes of a window.
    fn told(library: &Library, selector: &Selector) -> Vec<String> {
        let choice = choose(library, selector);
        let bag = |draft: &BagDraft| {
            let id = |place: &u32| library.units()[*place as usize].summary_id();
            let ids: Vec<String> = draft.units.iter().map(id).collect();
            format!("{:?} {ids:?} {:?}", draft.group, draft.dropped)
        };
        let bags = choice.drafts.iter().map(bag);
        bags.chain([format!("{} {:?}", choice.matched, choice.dropped)]).collect()
    }

    proptest::proptest! {
        #![proptest_config(proptest::prelude::ProptestConfig { cases: 150, ..crate::proptests::config() })]
        #[test]
        fn any_order_of_arrival_makes_the_same_bags(
            (any, turned) in anything().prop_flat_map(|any| {
                let numbers: Vec<usize> = (0..any.len()).collect();
                (Just(any), Just(numbers).prop_shuffle())
            }),
        ) {
            let items = numbered(&any);
            let mixed: Vec<(u64, Value)> = turned.iter().map(|at| items[*at].clone()).collect();
            let (straight, mixed) = (library(&items), library(&mixed));
            for change in [
                json!({"order": ["-confidence", "tasks"], "caps": {"total": 6, "per_tag": 2}}),
                json!({"group": {"by": "project"}, "caps": {"total": 3}, "order": ["-time"]}),
                json!({"group": {"by": "combo", "top": 3}}),
                json!({"bag_type": "tagbag", "group": {"by": "tag", "top": 3}}),
                json!({"bag_type": "pairbag", "group": {"by": "pair", "top": 3},
                       "pairs": {"min_count": 1, "min_npmi": -1.0}}),
                json!({"match": {"tags_any": ["ai", "b"]}, "group": {"by": "meta", "field": "k"}}),
            ] {
                let selector = selector(change);
                prop_assert_eq!(told(&straight, &selector), told(&mixed, &selector));
            }
        }
    }
}
