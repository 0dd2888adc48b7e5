//! Published summaries for people: newest first, a day at a time, each with the name of its source.
//!
//! Contract: memory holds the items of one day and never the whole bus.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::path::Path;

use chrono_tz::Tz;
use serde_json::Value;

use super::failure::{Exit, Failure};
use super::file_events::{
    FoundRecords, items_of_file, items_of_stem, may_hold_items, records_called,
};
use super::held_home::no_home;
use super::plain::{shows, squeezed};
use super::prose::plain_line;
use super::settings::load_config;
use super::{Context, ui};
use crate::bus::versions::{DayVersions, VersionMark};
use crate::bus::{BusError, Item, SummaryBus};
use crate::contract::places::folded;
use crate::contract::privacy::LOCAL_ONLY;
use crate::contract::publish;
use crate::contract::source::TimePrecision;
use crate::contract::time::{Day, Timestamp};
use crate::contract::versions::file_of;
use crate::contract::vocabulary::Stream;
use crate::digest::project::ProjectRules;
use crate::export::item::quote_of;
use crate::facts::window::Window;
use crate::markup::document::extension_of;
use crate::markup::records::LIST_KINDS;
use crate::synthesis::summary_items;

/// Sources that an error lists when a word fits several.
const CANDIDATES: usize = 10;
/// Missing days that a line names.
const DAYS_NAMED: usize = 5;
/// The word for what is not meant for others.
pub(super) const PRIVATE: &str = "private";

pub(super) struct Published {
    pub item: Item,
    /// What newer summaries make of it.
    mark: Option<VersionMark>,
    /// Whether the file it is about is not there any more, as far as that was looked at.
    is_gone: bool,
    /// The row of its list that a person named.
    pub row: Option<String>,
}

/// Which versions of a source are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum VersionChoice {
    Newest,
    AllVersions,
}

impl VersionChoice {
    pub(super) fn of(all_versions: bool) -> VersionChoice {
        if all_versions { VersionChoice::AllVersions } else { VersionChoice::Newest }
    }
}

impl Published {
    /// An item, beside what is known of its day.
    pub(super) fn new(item: Item, versions: &DayVersions) -> Published {
        let mark = versions.mark(item.summary_id()).cloned();
        Published { item, mark, is_gone: false, row: None }
    }

    /// Whether a newer summary of the same source took its place.
    pub(super) fn is_replaced(&self) -> bool {
        self.mark.as_ref().is_some_and(VersionMark::is_replaced)
    }

    /// What a reader must know of it before its text is believed.
    pub(super) fn warnings(&self) -> Vec<String> {
        let day = self.mark.as_ref().and_then(VersionMark::replaced_on);
        let replaced = day.map(|day| format!("older version, replaced on {day}"));
        let gone = self.is_gone.then(|| "its file is gone".to_owned());
        let told = [gone, self.missing_days(), self.facts_from_params()];
        replaced.into_iter().chain(told.into_iter().flatten()).collect()
    }

    /// What its request said of the sources, because they do not say it.
    fn facts_from_params(&self) -> Option<String> {
        let names = self.item.value["outputs"]["quality"]["facts_from_params"].as_array()?;
        let names: Vec<String> = names.iter().filter_map(Value::as_str).map(plain_line).collect();
        (!names.is_empty()).then(|| format!("{} from parameters", names.join(", ")))
    }

    /// The days of its range that were not published when it was made.
    fn missing_days(&self) -> Option<String> {
        let quality = &self.item.value["outputs"]["quality"];
        let days = quality["missing_days"].as_array()?;
        let named: Vec<&str> = days.iter().filter_map(Value::as_str).take(DAYS_NAMED).collect();
        let count = quality["missing_days_count"].as_u64().unwrap_or(days.len() as u64);
        let more = match count.saturating_sub(named.len() as u64) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        (count > 0).then(|| format!("without {}{more}, not published", named.join(", ")))
    }

    /// What keeps it on this machine, and what keeps it unpublished.
    pub(super) fn kept_by(&self) -> Vec<String> {
        let privacy = &self.item.value["selection"]["privacy"];
        let named = [(LOCAL_ONLY, "stays on this machine"), ("private", "is not published")];
        let reasons = named.into_iter().filter_map(|(name, what)| {
            let reasons = privacy[name].as_array()?.iter().filter_map(Value::as_str);
            let reasons: Vec<String> = reasons.map(plain_line).collect();
            Some(format!("{what}: {}", reasons.join(", ")))
        });
        reasons.collect()
    }

    /// The summary in its place.
    pub(super) fn replaced_by(&self) -> Option<&str> {
        self.mark.as_ref()?.replaced_by.as_deref()
    }

    /// The item with what is known beside it, for programs.
    pub(super) fn as_json(&self) -> Value {
        let mut value = self.item.value.clone();
        value[PRIVATE] = self.is_private().into();
        if let Some(mark) = self.mark.as_ref().filter(|mark| mark.is_replaced()) {
            value["replaced_by"] = mark.replaced_by.clone().into();
            value["replaced_at"] = mark.replaced_at.clone().into();
        }
        if self.is_gone {
            value["file_gone"] = true.into();
        }
        if let Some(row) = &self.row {
            value["row"] = row.as_str().into();
        }
        value
    }

    /// Looks whether the file it is about is still there.
    pub(super) fn look_for_file(&mut self, context: &Context) {
        let origins = self.item.value["selection"]["origins"].as_array();
        let only = origins.filter(|all| all.len() == 1).and_then(|all| file_of(all[0].as_str()?));
        self.is_gone = only.is_some_and(|name| super::source_files::is_gone(context, name));
    }

    pub(super) fn id(&self) -> &str {
        self.item.summary_id()
    }

    /// The name of the source, as its person knows it.
    pub(super) fn name(&self) -> String {
        let known = self.item.value["meta"]["source_name"].as_str();
        let first = || self.item.value["source_ids"][0].as_str();
        let title = || self.item.value["title"].as_str();
        let name = known.or_else(title).or_else(first).unwrap_or("-");
        plain_line(name)
    }

    /// The name as a heading: an item of a list has its own title beside the name of its file.
    pub(super) fn heading(&self) -> String {
        let (name, title) = (self.name(), self.title());
        let is_list = LIST_KINDS.contains(&extension_of(&name).as_str());
        // A sentence is of the text, and no title of the item.
        let adds = !title.is_empty()
            && !title.ends_with(['.', '!', '?', '…'])
            && !name.ends_with(&title)
            && !self.item.upstream_ids().any(|id| id == title);
        if is_list && adds { format!("{name}: {title}") } else { name }
    }

    pub(super) fn title(&self) -> String {
        plain_line(self.item.value["title"].as_str().unwrap_or_default())
    }

    /// The folder of the file that it was taken from, where one is known.
    pub(super) fn folder(&self) -> String {
        plain_line(self.item.value["meta"]["folder"].as_str().unwrap_or_default())
    }

    /// Who wrote its sources.
    pub(super) fn authors(&self) -> Option<String> {
        self.item.value["meta"]["authors"].as_str().map(plain_line)
    }

    /// Its project by the rules of the home, as digests have it.
    pub(super) fn project(&self, rules: &ProjectRules) -> Option<String> {
        let meta = self.item.value["meta"].as_object()?;
        rules.project(meta).map(|(project, _)| project)
    }

    /// The identity of the source, to distinguish sources of the same name: what its versions share, else the ids.
    fn source(&self) -> (String, String) {
        let known = [&self.item.value["selection"]["origins"], &self.item.value["source_ids"]];
        let known = known.into_iter().find(|ids| ids.is_array());
        (text(&self.item.value["source_type"]), known.map(Value::to_string).unwrap_or_default())
    }

    /// The file on the bus `other` that it is about. Its name may be another one: the subject of a mail.
    fn own_file(&self) -> Option<&str> {
        let ids = self.item.value["source_ids"].as_array().filter(|ids| ids.len() == 1)?;
        ids[0].as_str()?.strip_prefix("other:")
    }

    /// Whether its source is marked private.
    pub(super) fn is_private(&self) -> bool {
        let became_private = self.mark.as_ref().is_some_and(VersionMark::is_private);
        became_private || is_marked(&self.item.value)
    }

    pub(super) fn flow(&self) -> &str {
        self.item.value["meta"]["flow_id"].as_str().unwrap_or_default()
    }

    pub(super) fn has_day(&self) -> bool {
        TimePrecision::of(&self.item.value["meta"]) != TimePrecision::Unknown
    }

    /// The day that it is of, as digests and `select` have it.
    pub(super) fn day(&self, zone: Tz) -> Day {
        let at = Timestamp(self.at());
        let precision = TimePrecision::of(&self.item.value["meta"]);
        let filed = text(&self.item.value["day"]).parse();
        precision.day(at, filed.unwrap_or(at.day_in(zone)), zone)
    }

    /// The day as a person reads it; of a chat with the time of its beginning, because several sessions of a
    /// chat have one name.
    pub(super) fn day_shown(&self, zone: Tz) -> String {
        let day = self.day(zone);
        match self.begin_shown(zone) {
            Some(begin) => begin,
            None if self.has_day() => day.to_string(),
            None => format!("no date, filed under {day}"),
        }
    }

    /// When a session began: `2026-02-11 09:00`.
    pub(super) fn begin_shown(&self, zone: Tz) -> Option<String> {
        let has_clock = TimePrecision::of(&self.item.value["meta"]).has_clock();
        let is_session = self.item.value["source_type"] == "session";
        let clock = || Timestamp(self.at()).clock_in(zone);
        (is_session && has_clock).then(|| format!("{} {}", self.day(zone), clock()))
    }

    pub(super) fn at(&self) -> i64 {
        self.item.value["ts_abs_ms"].as_i64().unwrap_or_default()
    }

    pub(super) fn text(&self) -> &str {
        self.item.summary_text()
    }

    /// One or two sentences. A short form that is only the title says nothing of the text.
    pub(super) fn short(&self) -> &str {
        let is_title = |short: &&str| self.item.value["title"].as_str() == Some(*short);
        self.rendered("rendered_short").filter(|short| !is_title(short)).unwrap_or(self.text())
    }

    /// Everything the flow wrote.
    pub(super) fn long(&self) -> &str {
        let long = self.rendered("rendered_long");
        long.filter(|long| long.len() >= self.text().len()).unwrap_or(self.text())
    }

    fn rendered(&self, member: &str) -> Option<&str> {
        self.item.value["outputs"][member].as_str().filter(|text| !text.trim().is_empty())
    }

    /// The words of the sources that the sentences of a text of it rest on, each once.
    pub(super) fn quotes(&self, text: &str) -> Vec<String> {
        let mut told = BTreeSet::new();
        let outputs = &self.item.value["outputs"];
        let refs = outputs["evidence_refs"].as_array().into_iter().flatten();
        let quotes = refs.map(|one| quote_of(outputs, one)).filter(|quote| !quote.is_empty());
        let mut quotes: Vec<&str> = quotes.filter(|quote| told.insert(*quote)).collect();
        // A longer quote that holds others says nothing more than they do.
        let all = quotes.clone();
        let within = |one: &str, other: &str| one.len() < other.len() && other.contains(one);
        quotes.retain(|quote| !all.iter().any(|other| within(other, quote)));
        let text = squeezed(text);
        let shown: Vec<&str> = quotes.iter().copied().filter(|quote| shows(&text, quote)).collect();
        // A model that writes sentences of its own repeats no quote.
        let quotes = if shown.is_empty() { quotes } else { shown };
        quotes.into_iter().map(plain_line).collect()
    }
}

/// The mark behind the name of something, where it is private.
pub(super) fn private_mark(is_private: bool) -> String {
    if is_private { ui::dim(&format!("  {PRIVATE}")) } else { String::new() }
}

/// The Summary Bus of the home.
pub(super) fn open_bus(context: &Context) -> Result<SummaryBus, Failure> {
    let root = context.home.join(&load_config(context)?.bus_home);
    SummaryBus::open(&root).map_err(|error| no_bus(context, &root, &error))
}

fn no_bus(context: &Context, root: &Path, error: &BusError) -> Failure {
    let home = context.home.display();
    if root.exists() {
        return Failure::new(Exit::Input, format!("{home} has no summaries yet"))
            .hint("`summarizer add PATH` makes some; `summarizer sum PATH` needs no home");
    }
    no_home(context, "make one with `summarizer add --init PATH`").because(error)
}

/// What the Summary Bus has for one day.
#[derive(Default)]
pub(super) struct DayFacts {
    /// The day is published, perhaps without a summary.
    pub is_published: bool,
    /// Summaries of the day that it holds.
    pub summaries: usize,
    /// Those that are marked private.
    pub private: usize,
    /// Summaries of texts of other days that it holds.
    of_others: usize,
    /// Requests of the day that failed.
    pub failed: u64,
    /// Requests of the day that ended.
    asked: u64,
}

pub(super) fn day_facts(bus: &SummaryBus, day: Day, zone: Tz) -> Result<DayFacts, BusError> {
    let mut facts = DayFacts::default();
    let versions = bus.versions(day)?;
    for stream in Stream::ALL {
        match bus.partition(*stream, day) {
            Ok(found) => {
                facts.is_published = true;
                for item in found.items() {
                    let one = Published::new(item?, &versions);
                    let is_of_it = one.day(zone) == day;
                    facts.summaries += usize::from(is_of_it);
                    facts.private += usize::from(is_of_it && one.is_private());
                    facts.of_others += usize::from(!is_of_it);
                }
                let count = |name: &str| found.manifest["counts"][name].as_u64().unwrap_or(0);
                facts.failed += count("failed");
                facts.asked += count("eligible");
            }
            Err(BusError::Missing { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(facts)
}

/// Whether an item says that it is private.
fn is_marked(item: &Value) -> bool {
    publish::said(item["meta"].get("publish")) == Some(false)
}

impl DayFacts {
    /// Why a day has nothing to read, and what to do. `None`: the day has summaries.
    pub(super) fn nothing(&self, day: Day) -> Option<(String, String)> {
        let failed = ui::count(self.failed, "request");
        let (what, advice) = match (self.is_published, self.summaries, self.failed) {
            (_, 1.., _) => return None,
            (true, 0, _) if self.of_others > 0 => {
                let many = ui::count(self.of_others, "summary");
                (
                    format!("{day} has no summary: {many} filed under it, of texts of other days"),
                    format!("`summarizer requests --since {day}` lists the requests"),
                )
            }
            (true, 0, 0) if self.asked == 0 => (
                format!("{day} is empty: it is published, and no request about it has ended"),
                "`summarizer add PATH` adds texts".to_owned(),
            ),
            (true, 0, 0) => (
                format!("{day} is empty: it is published, and its requests had nothing to summarize"),
                format!("`summarizer add PATH` adds texts; `summarizer requests --since {day}` lists the requests"),
            ),
            (true, 0, _) => (
                format!("{day} has no summary, because {failed} failed"),
                "`summarizer requests` says why, `summarizer retry` tries again".to_owned(),
            ),
            (false, ..) => (
                format!("{day} is missing: no request about it has ended, so it is not published"),
                "`summarizer add PATH` or `summarizer submit` asks for summaries; `summarizer status` \
                 counts open requests"
                    .to_owned(),
            ),
        };
        Some((what, advice))
    }
}

/// Why a window has no summary that a digest could show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WindowGap {
    /// No day of it is published.
    NotPublished,
    /// Days of it are published, all without a summary.
    Empty,
    /// Days of it are published, with summaries of texts of other days only.
    OfOthers,
    /// Its summaries are not for these digests.
    LeftOut,
}

impl WindowGap {
    /// Looks at the days of the window with this label.
    pub(super) fn of(root: &Path, label: &str, zone: Tz) -> Result<WindowGap, Failure> {
        let Some(kind) = Window::type_of_label(label) else { return Ok(WindowGap::NotPublished) };
        let cannot = |error: BusError| unread(&error);
        let published = summary_items::published_days(root).map_err(cannot)?;
        let mut gap = WindowGap::NotPublished;
        for day in published.into_iter().filter(|day| Window::of(kind, *day).label() == label) {
            let facts = SummaryBus::open(root).and_then(|bus| day_facts(&bus, day, zone));
            let facts = facts.map_err(cannot)?;
            if facts.summaries > 0 {
                return Ok(WindowGap::LeftOut);
            }
            if facts.of_others > 0 {
                gap = WindowGap::OfOthers;
            } else if gap == WindowGap::NotPublished {
                gap = WindowGap::Empty;
            }
        }
        Ok(gap)
    }

    /// The gap as a word for programs.
    pub(super) fn name(self) -> &'static str {
        match self {
            WindowGap::NotPublished => "not_published",
            WindowGap::Empty => "empty",
            WindowGap::OfOthers => "of_other_days",
            WindowGap::LeftOut => "left_out",
        }
    }

    pub(super) fn words(self, label: &str) -> String {
        match self {
            WindowGap::NotPublished => {
                format!("{label} is not published: no request about it has ended")
            }
            WindowGap::Empty => format!("{label} is published without a summary"),
            WindowGap::OfOthers => {
                format!("{label} is published with summaries of texts of other days only")
            }
            WindowGap::LeftOut => format!("{label} has no summary that these digests may show"),
        }
    }
}

/// A bus that cannot be read, as the failure of a command.
pub(super) fn unread(error: &BusError) -> Failure {
    Failure::new(Exit::Input, "cannot read the published summaries")
        .because(error)
        .hint("`summarizer verify` names each error")
}

/// Hands over summaries, the newest first, until `take` breaks off.
pub(super) fn each_newest(
    bus: &SummaryBus,
    shown: VersionChoice,
    take: &mut dyn FnMut(Published) -> ControlFlow<()>,
) -> Result<(), BusError> {
    each_newest_of(bus, shown, None, take)
}

/// The days of sources that are asked for, in the zone of the home.
#[derive(Debug, Clone, Copy)]
pub(super) struct AskedDays {
    pub first: Day,
    pub last: Option<Day>,
    pub zone: Tz,
}

impl AskedDays {
    /// Whether a partition may hold a summary of such a source. One of a source without a date is of the day that
    /// it is filed under.
    fn may_be_in(&self, bus: &SummaryBus, stream: Stream, day: Day) -> Result<bool, BusError> {
        let overlaps =
            |from: Day, to: Day| self.first <= to && self.last.is_none_or(|last| from <= last);
        if overlaps(day, day) {
            return Ok(true);
        }
        let times = bus.source_times(stream, day)?;
        Ok(times.is_none_or(|(from, to)| overlaps(from.day_in(self.zone), to.day_in(self.zone))))
    }
}

/// As [`each_newest`], without the partitions that hold no summary of the days that are asked for.
pub(super) fn each_newest_of(
    bus: &SummaryBus,
    shown: VersionChoice,
    asked: Option<AskedDays>,
    take: &mut dyn FnMut(Published) -> ControlFlow<()>,
) -> Result<(), BusError> {
    let mut days: Vec<(Day, Stream)> = Vec::new();
    for stream in Stream::ALL {
        days.extend(bus.days(*stream)?.into_iter().map(|day| (day, *stream)));
    }
    days.sort();
    while let Some((day, _)) = days.last().copied() {
        let (mut items, mut versions) = (Vec::new(), None);
        while let Some((_, stream)) = days.pop_if(|(other, _)| *other == day) {
            if let Some(asked) = asked
                && !asked.may_be_in(bus, stream, day)?
            {
                continue;
            }
            let versions = match &mut versions {
                Some(known) => known,
                unread => unread.insert(bus.versions(day)?),
            };
            let partition = match bus.partition(stream, day) {
                // It was removed while we looked.
                Err(BusError::Missing { .. }) => continue,
                partition => partition?,
            };
            for item in partition.items() {
                let one = Published::new(item?, versions);
                if shown == VersionChoice::AllVersions || !one.is_replaced() {
                    items.push(one);
                }
            }
        }
        items.sort_by(|a, b| b.at().cmp(&a.at()).then_with(|| a.id().cmp(b.id())));
        for item in items {
            if take(item).is_break() {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// The rank of an id, and of the beginning of one.
const ID: u8 = 0;
const ID_BEGINS: u8 = 4;
/// The rank of a part of a name.
const PART: u8 = 6;

/// How well a word names a summary; the best is 0.
fn rank(word: &str, item: &Published) -> Option<u8> {
    if item.id() == word {
        return Some(ID);
    }
    if item.name() == word {
        return Some(1);
    }
    let (name, word) = (folded(&item.name()), folded(word));
    let file = item.own_file().map(folded).unwrap_or_default();
    let ends = |with: &str| {
        let before = [&name, &file].map(|name| name.strip_suffix(with));
        before.into_iter().flatten().any(|before| before.ends_with('/'))
    };
    match () {
        () if name == word || file == word || folded(&item.heading()) == word => Some(2),
        () if ends(&word) || ends(word.trim_start_matches("./")) => Some(3),
        () if word.len() >= 8 && item.id().starts_with(&word) => Some(ID_BEGINS),
        () if folded(&item.title()) == word => Some(5),
        () if word.len() >= 3 && name.contains(&word) => Some(PART),
        () => None,
    }
}

/// Whether a word is no whole name of a summary, but a part of one, or a heading in the text. `chat` is the whole name of
/// `chat, 2026-02-11`.
pub(super) fn is_no_name(word: &str, item: &Published) -> bool {
    let (name, said) = (folded(&item.name()), folded(word));
    let is_day_apart = name.strip_prefix(&said).is_some_and(|rest| rest.starts_with(", "));
    rank(word, item).is_none_or(|rank| rank == PART) && !is_day_apart
}

/// The summaries that a person means by a word: an id, the beginning of one, the name of a source or
/// a part of it. The closest kind of match decides; the newest come first. An id names older versions too.
pub(super) fn named(
    bus: &SummaryBus,
    word: &str,
    shown: VersionChoice,
) -> Result<Vec<Published>, BusError> {
    let (mut best, mut found) = (u8::MAX, Vec::new());
    let is_meant = |item: &Published, rank: u8| {
        shown == VersionChoice::AllVersions || !item.is_replaced() || matches!(rank, ID | ID_BEGINS)
    };
    each_newest(bus, VersionChoice::AllVersions, &mut |item| {
        match rank(word, &item).filter(|rank| is_meant(&item, *rank)) {
            Some(rank) if rank < best => {
                best = rank;
                found = vec![item];
            }
            Some(rank) if rank == best => found.push(item),
            _ => {}
        }
        ControlFlow::Continue(())
    })?;
    Ok(found)
}

/// The summaries that a person means by a word, as [`named`] finds them, with those of all mails, chats, pages and feed
/// items of a file; or those of the documents, the rows and the items with this title, id or address.
pub(super) fn named_or_in_file(
    context: &Context,
    bus: &SummaryBus,
    word: &str,
    shown: VersionChoice,
) -> Result<Vec<Published>, BusError> {
    let mut found = named(bus, word, shown)?;
    let has_rank = |wanted: u8| found.iter().any(|one| rank(word, one) == Some(wanted));
    // A record that is called so is meant before a source with the word in its name.
    let is_part = has_rank(PART);
    // An item without a title has the name of its file, and the others of the file have names of their own.
    if has_rank(ID) || !(found.is_empty() || is_part || may_hold_items(word)) {
        return Ok(found);
    }
    let of_file = |ids: BTreeSet<String>| ids.into_iter().map(|id| (id, None)).collect();
    let mut records: FoundRecords = of_file(items_of_file(context, word));
    if records.is_empty() && (found.is_empty() || is_part) {
        let called = records_called(context, word);
        if !called.own.is_empty() {
            found.clear();
        }
        records = if is_part { called.own } else { called.closest() };
    }
    if found.is_empty() && records.is_empty() {
        records = of_file(items_of_stem(context, word));
    }
    if !records.is_empty() {
        let known: BTreeSet<String> = found.iter().map(|one| one.id().to_owned()).collect();
        each_newest(bus, shown, &mut |mut item| {
            let record = item.item.upstream_ids().find_map(|id| records.get(id));
            if let Some(row) = record
                && !known.contains(item.id())
            {
                item.row.clone_from(row);
                found.push(item);
            }
            ControlFlow::Continue(())
        })?;
        found.sort_by_key(|one| std::cmp::Reverse(one.at()));
    }
    Ok(found)
}

/// The newest summary of the one source that a person means by a word. A word that fits several sources is
/// an error that lists them.
pub(super) fn one_named(
    context: &Context,
    bus: &SummaryBus,
    word: &str,
) -> Result<Option<Published>, Failure> {
    let found = named_or_in_file(context, bus, word, VersionChoice::Newest);
    let mut found = found.map_err(|error| unread(&error))?;
    let (mut sources, zone) = (BTreeSet::new(), load_config(context)?.timezone);
    let candidates: Vec<String> = found
        .iter()
        .filter(|one| sources.insert(one.source()))
        .take(CANDIDATES + 1)
        .map(|one| format!("{}  {}  {}", one.id(), one.day_shown(zone), one.name()))
        .collect();
    if candidates.len() < 2 {
        return Ok((!found.is_empty()).then(|| found.swap_remove(0)));
    }
    let more = if candidates.len() > CANDIDATES { "\n    and more" } else { "" };
    let list = candidates[..candidates.len().min(CANDIDATES)].join("\n    ");
    let failure = Failure::new(Exit::Input, format!("{word} names several sources"));
    Err(failure.hint(format!("give the id of one:\n    {list}{more}")))
}

/// The text of a value, for members that people read.
pub(super) fn text(value: &Value) -> String {
    plain_line(value.as_str().unwrap_or("-"))
}
