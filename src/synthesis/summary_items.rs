//! Finds summary items by id, for packs made from published summaries. The reader of the Summary
//! Bus reads and verifies the days.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use chrono_tz::Tz;
use serde_json::{Map, Value};

use crate::bus::versions::VersionMark;
use crate::bus::{BusError, Item, SummaryBus};
use crate::contract::places::{DataPlace, DataPlaces};
use crate::contract::privacy::says_local_only;
use crate::contract::publish;
use crate::contract::source::TimePrecision;
use crate::contract::time::{Day, Timestamp};
use crate::contract::vocabulary::Stream;
use crate::digest::memo::{self, OutputWords};
use crate::digest::said::run_told;
use crate::digest::tasks::is_talk;
use crate::model::builtin::fill::signals::reads_like_fraud;

#[derive(Debug, Clone, PartialEq)]
pub struct BusSummary {
    pub summary_id: String,
    pub stream: String,
    /// The day of the file that holds it.
    pub day: String,
    pub text: String,
    pub title: String,
    /// What it was made from.
    pub sources: Vec<String>,
    /// When its source was made, in milliseconds.
    pub at_ms: i64,
    /// Whether it may be shown to others; `None` where no source says.
    pub publish: Option<bool>,
    /// Whether a newer summary of the same source took its place.
    pub is_replaced: bool,
    /// Whether nobody should act on it, as digests mark it. Known only of items that were looked up.
    pub is_doubtful: bool,
    /// The job and the employer of a job post. Empty until the item is looked up.
    pub subject: Vec<String>,
    /// What ran and how it ended, for a pipeline run. Empty until the item is looked up.
    pub run: Option<String>,
    /// How sure its flow is of it, in per cent; `None` where it does not say. Known only of items that were looked up.
    pub confidence: Option<u8>,
    /// Scalars to choose and to group by: `flow_id`, `project`, `category` and others.
    pub meta: Map<String, Value>,
    pub tags: Vec<String>,
    /// What its sources are known by, where that is not their ids.
    pub origins: Vec<String>,
}

impl BusSummary {
    /// The day of the file that holds it.
    pub(crate) fn filed(&self) -> Option<Day> {
        self.day.parse().ok()
    }

    /// The day that it is of, as digests and `read` have it.
    pub(crate) fn day_of_source(&self, zone: Tz) -> Day {
        let at = Timestamp(self.at_ms);
        let filed = self.filed().unwrap_or(at.day_in(zone));
        TimePrecision::of_members(&self.meta).day(at, filed, zone)
    }

    fn of(item: &Item, stream: Stream, day: &str, mark: Option<&VersionMark>) -> BusSummary {
        let text = |pointer: &str| item.value.pointer(pointer).and_then(Value::as_str);
        let meta = item.value["meta"].as_object().cloned().unwrap_or_default();
        let words = |list: &Value| -> Vec<String> {
            let words = list.as_array().into_iter().flatten().filter_map(Value::as_str);
            words.map(str::to_owned).collect()
        };
        BusSummary {
            summary_id: item.summary_id().to_owned(),
            stream: stream.to_string(),
            day: day.to_owned(),
            text: item.summary_text().to_owned(),
            title: text("/title").unwrap_or_default().to_owned(),
            sources: item.upstream_ids().map(str::to_owned).collect(),
            at_ms: item.value["ts_abs_ms"].as_i64().unwrap_or(0),
            publish: match mark.is_some_and(VersionMark::is_private) {
                true => Some(false),
                false => publish::said(meta.get("publish")),
            },
            is_replaced: mark.is_some_and(VersionMark::is_replaced),
            is_doubtful: false,
            subject: Vec::new(),
            run: None,
            confidence: None,
            meta,
            tags: words(&item.value["outputs"]["tags"]),
            origins: words(&item.value["selection"]["origins"]),
        }
    }

    /// Adds what only its outputs say.
    fn with_outputs(mut self, item: &Item) -> BusSummary {
        let outputs = item.value["outputs"].to_string();
        let outputs = serde_json::from_str::<OutputWords<'_>>(&outputs).unwrap_or_default();
        let sources = (&*self.origins, &*self.sources);
        let words = memo::words(&self.title, &outputs, &self.tags, &self.meta, sources);
        // A pack is handed to others: a file that reads like a fraud states nothing in it, message or not. In a chat
        // somebody may ask about one.
        self.is_doubtful =
            words.is_doubtful || !is_talk(&self.meta) && reads_like_fraud(&self.text);
        let structured = |name: &str| item.value["outputs"]["structured"][name].as_str();
        let subject = ["job_title", "company_name"].into_iter().filter_map(structured);
        let subject = subject.map(str::trim).filter(|name| is_name(name));
        self.subject = subject.map(str::to_owned).collect();
        let member = |name: &str| &item.value["outputs"]["structured"][name];
        let headline = self.text.lines().next().unwrap_or_default();
        self.confidence = item.value["outputs"]["confidence"].as_f64().map(percent);
        self.run = run_told(member("what_ran"), member("status"), headline);
        self
    }

    /// What rules about data may name it by.
    pub(crate) fn places(&self) -> DataPlaces {
        let mut places = DataPlaces::default();
        places.add_item(&|name| self.meta.get(name)?.as_str().map(str::to_owned));
        places.add_origins(self.origins.iter().map(String::as_str));
        self.tags.iter().for_each(|tag| places.add(DataPlace::Label, tag));
        places
    }

    /// Whether its sources must stay on this machine.
    pub(crate) fn is_local_only(&self) -> bool {
        says_local_only(&self.meta)
    }

    /// A field to choose or to group by, as text.
    pub(crate) fn field(&self, name: &str) -> Option<String> {
        match name {
            "stream" => Some(self.stream.clone()),
            "day" => Some(self.day.clone()),
            "title" => Some(self.title.clone()),
            name => match self.meta.get(name)? {
                Value::String(text) => Some(text.clone()),
                Value::Bool(flag) => Some(flag.to_string()),
                Value::Number(number) => Some(number.to_string()),
                _ => None,
            },
        }
    }
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is clamped")]
fn percent(share: f64) -> u8 {
    (share.clamp(0.0, 1.0) * 100.0).round() as u8
}

/// Whether a text is a name and no sentence.
fn is_name(text: &str) -> bool {
    const WORDS_MAX: usize = 8;
    (1..=WORDS_MAX).contains(&text.split_whitespace().count()) && !text.ends_with(['.', '!', '?'])
}

/// Finds items by id below `<bus home>/summaries`. Missing ids are missing from the result. `days`
/// limits the search.
pub fn find(
    bus_home: &Path,
    ids: &BTreeSet<String>,
    days: Option<&BTreeSet<String>>,
) -> Result<BTreeMap<String, BusSummary>, BusError> {
    let mut found = BTreeMap::new();
    let in_days = |_: Stream, day: &str| days.is_none_or(|days| days.contains(day));
    each_item(bus_home, &in_days, &mut |item, summary| {
        if ids.contains(&summary.summary_id) {
            found.insert(summary.summary_id.clone(), summary.with_outputs(item));
        }
    })?;
    Ok(found)
}

/// Hands out every item of the streams that are wanted.
pub(crate) fn each(
    bus_home: &Path,
    wanted: &dyn Fn(Stream) -> bool,
    take: &mut dyn FnMut(BusSummary),
) -> Result<(), BusError> {
    each_item(bus_home, &|stream, _| wanted(stream), &mut |_, summary| take(summary))
}

/// The days that a stream has published, also those without summaries.
pub(crate) fn published_days(bus_home: &Path) -> Result<BTreeSet<Day>, BusError> {
    let mut days = BTreeSet::new();
    if let Some(bus) = open(bus_home)? {
        for stream in Stream::ALL {
            days.extend(bus.days(*stream)?);
        }
    }
    Ok(days)
}

/// The bus; `None` where nothing was ever published.
fn open(bus_home: &Path) -> Result<Option<SummaryBus>, BusError> {
    match SummaryBus::open(bus_home) {
        Ok(bus) => Ok(Some(bus)),
        Err(BusError::Read { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

fn each_item(
    bus_home: &Path,
    wanted: &dyn Fn(Stream, &str) -> bool,
    take: &mut dyn FnMut(&Item, BusSummary),
) -> Result<(), BusError> {
    let Some(bus) = open(bus_home)? else { return Ok(()) };
    for stream in Stream::ALL {
        for day in bus.days(*stream)? {
            let name = day.to_string();
            if !wanted(*stream, &name) {
                continue;
            }
            let versions = bus.versions(day)?;
            for item in bus.partition(*stream, day)?.items() {
                let item = item?;
                let mark = versions.mark(item.summary_id());
                take(&item, BusSummary::of(&item, *stream, &name, mark));
            }
        }
    }
    Ok(())
}
