//! Builds of the Digest Bus: what they wrote, which bags count and which retired.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::contract::hash::Digest;
use crate::contract::ids::Seq;
use crate::contract::time::Day;
use crate::contract::vocabulary::words;

/// A step of a digest build.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", content = "facts", rename_all = "snake_case")]
pub enum DigestFact {
    Started(BuildStarted),
    /// A bag was written; its files are the record's body.
    Bag(Box<BagFacts>),
    /// A build is valid: its bags count from here on. The lists of changes are the record's body.
    Published(BuildPublished),
    /// Retired bags were removed for good; their ids are the record's body.
    Collected(BagsCollected),
    /// A build ended; its run record is the record's body.
    Finished(Box<BuildFinished>),
    /// A person closed or reopened a task; the words it had then are the record's body.
    TaskSettled(TaskSettled),
}

/// What a person said of a task that a summary names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskSettled {
    /// Made of the thread and the words of the task.
    pub task_id: String,
    /// Whether it is done; else it is open again.
    pub done: bool,
    /// The summary that named it.
    pub summary_id: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BuildStarted {
    pub run_id: String,
    /// What asked for the build.
    pub trigger: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BuildPublished {
    pub run_id: String,
    /// How many bags the build brings.
    pub bags: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BagsCollected {
    pub run_id: String,
    pub bags: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BuildFinished {
    pub run_id: String,
    /// Whether the build did what was asked.
    pub ok: bool,
    /// The day its row belongs to.
    pub day: Day,
    /// Its line in the run-records bus, published as it is.
    pub row: String,
    /// Up to where in the log every summary was considered; set by a build without restriction.
    #[serde(default)]
    pub considered: Option<Seq>,
    /// The selectors of that build, each with its hash and the zone of its windows.
    #[serde(default)]
    pub selectors: BTreeMap<String, String>,
}

words! {
    /// What kind of bag.
    BagType {
        /// Summaries that share a window and perhaps a project, a field or a set of tags.
        Cohort = 3 "cohort",
        /// Summaries that have two tags which occur together.
        Pairbag = 2 "pairbag",
        /// Summaries that have one tag.
        Tagbag = 1 "tagbag",
    }
}

words! {
    /// What a memo is about.
    Channel {
        /// Overview, timeline, achievements, pending tasks.
        Digest = 1 "digest",
        /// Pending tasks, oldest first.
        Tasks = 2 "tasks",
        Achievements = 3 "achievements",
        /// One line for each summary, newest first.
        Portfolio = 4 "portfolio",
    }
}

words! {
    /// How long a window is.
    WindowType {
        Day = 1 "day",
        /// Monday to Sunday.
        IsoWeek = 2 "iso_week",
        /// An odd ISO week and the even one after it; week 53 stands alone.
        Fortnight = 3 "fortnight",
        Month = 4 "month",
        /// Everything.
        All = 5 "all",
    }
}

/// A window as records spell it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WindowFacts {
    pub window_type: WindowType,
    /// First and last local day; the window of everything has none.
    pub start_day: Option<Day>,
    pub end_day: Option<Day>,
    pub label: String,
    /// The zone its days begin in.
    pub tz: String,
}

/// What a bag is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupFacts {
    /// By what summaries were grouped.
    pub by: String,
    pub key: String,
}

/// The statistics of a pair of tags.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PairFacts {
    pub count: u64,
    pub lift: f64,
    pub npmi: f64,
    pub edge_score: f64,
}

/// A memo of a bag.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoFacts {
    pub memo_slug: String,
    pub channel: Channel,
}

/// Everything the indexes say about a bag. The fields are those of `bag.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BagFacts {
    pub bag_id: String,
    pub bag_type: BagType,
    pub window: WindowFacts,
    pub group: Option<GroupFacts>,
    pub selector_id: String,
    pub selector_version: String,
    pub selector_hash: Digest,
    pub summaries_hash: Digest,
    pub title: String,
    pub tags: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pair: Option<PairFacts>,
    pub candidate: u64,
    pub selected: u64,
    pub memos: Vec<MemoFacts>,
    pub bag_meta_sha256: Digest,
    pub trace_sha256: Digest,
    /// When the build began, as records spell it.
    pub created_at: String,
    pub run_id: String,
}
