//! What the log says about bags: which are published, which are retired, and how each build ended.
//!
//! Contract. A fold over the digest facts of the log. The facts of a build count only once its
//! `published` fact is committed, so a build that was cut short changes nothing. Each fact carries
//! everything its projections need. This module never looks at the disk.
//!
//! See docs/adr/0045-retired-bags.md.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use serde::{Deserialize, Serialize};

use super::bag::BagKey;
use super::tasks::Word;
use crate::contract::ids::Seq;
use crate::contract::time::Timestamp;
use crate::contract::vocabulary::spellings;
use crate::facts::digest::{BagFacts, BagType, BuildStarted, DigestFact};
use crate::log::codec;
use crate::log::{ReadError, Reader};
use crate::state::event::Event;

spellings! {
    /// Why a bag left the indexes.
    Reason {
        /// A newer bag stands for the same selector, window and group.
        Superseded "superseded",
        /// Its selector is gone or disabled.
        SelectorGone "selector_gone",
        /// Its selector no longer makes a bag of that window and group.
        NoLongerSelected "no_longer_selected",
    }
}

/// A bag that leaves the indexes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retirement {
    pub bag_id: String,
    pub reason: Reason,
    /// By which newer bag, if by one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub superseded_by: Option<String>,
}

/// The body of [`DigestFact::Published`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changes {
    /// Bags that leave the indexes.
    pub retired: Vec<Retirement>,
    /// Retired bags that are wanted again as they are.
    pub restored: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Retired {
    pub reason: Reason,
    /// By which newer bag, if by one.
    pub superseded_by: Option<String>,
    pub at: Timestamp,
}

/// A bag whose files exist.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CatalogEntry {
    /// Position of the event that holds its files.
    pub seq: Seq,
    pub facts: BagFacts,
    pub retired: Option<Retired>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OpenBuild {
    pub started: BuildStarted,
    pub at: Timestamp,
    /// True once its bags count.
    pub published: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastBuild {
    pub run_id: String,
    pub ok: bool,
    pub at: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IndexChange {
    pub seq: Seq,
    pub at: Timestamp,
    pub log_head: String,
}

/// All bags that the events of the log name.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Catalog {
    read_to: Seq,
    entries: BTreeMap<String, CatalogEntry>,
    /// Derived from `entries`: the live bag of each key.
    #[serde(skip)]
    live: BTreeMap<BagKey, String>,
    waiting: Vec<(String, Seq, BagFacts)>,
    removed: BTreeMap<String, BagType>,
    /// Bags that are gone because a person took back one of their texts.
    #[serde(default)]
    forgotten: BTreeSet<String>,
    open: Option<OpenBuild>,
    change: Option<IndexChange>,
    runs: BTreeMap<String, Seq>,
    failed: BTreeSet<String>,
    last: Option<LastBuild>,
    considered: Seq,
    selectors: BTreeMap<String, String>,
    /// What people said of tasks, by the id of the task.
    tasks: BTreeMap<String, Word>,
}

impl Catalog {
    /// Reads the log from where the last call stopped, up to `until`.
    pub fn read(&mut self, log: &Reader, until: Option<Seq>) -> Result<(), ReadError> {
        log.try_scan(self.read_to.next(), until, |entry| {
            self.read_to = entry.seq;
            if !matches!(entry.tag, codec::DIGEST | codec::FORGOTTEN) {
                return Ok(ControlFlow::Continue(()));
            }
            let log_head = entry.hash().hex();
            let change = IndexChange { seq: entry.seq, at: entry.at, log_head };
            match entry.event()? {
                Event::Digest(fact) => self.take(log, fact, change)?,
                Event::Forgotten(forgotten) if !forgotten.bags.is_empty() => {
                    self.collect(&forgotten.bags, change);
                    self.forgotten.extend(forgotten.bags);
                }
                _ => {}
            }
            Ok(ControlFlow::Continue(()))
        })
    }

    fn take(
        &mut self,
        log: &Reader,
        fact: DigestFact,
        change: IndexChange,
    ) -> Result<(), ReadError> {
        let seq = change.seq;
        match fact {
            DigestFact::Started(started) => {
                self.waiting.clear();
                self.open = Some(OpenBuild { started, at: change.at, published: false });
            }
            DigestFact::Bag(bag) => {
                let files = if bag.lacks_words() { log.body(seq)? } else { None };
                let bag = match files {
                    Some(files) => bag.with_words(&files),
                    // Its files were forgotten, and it leaves the catalog too.
                    None => Ok(*bag),
                };
                let bag = bag.map_err(|error| ReadError::unexpected(seq, error))?;
                self.waiting.push((bag.run_id.clone(), seq, bag));
            }
            DigestFact::Published(published) => {
                let changes: Changes = body(log, seq)?;
                let bags = std::mem::take(&mut self.waiting);
                let own = bags.into_iter().filter(|(run_id, ..)| *run_id == published.run_id);
                let own: Vec<(Seq, BagFacts)> = own.map(|(_, seq, bag)| (seq, bag)).collect();
                if let Some(open) = &mut self.open {
                    open.published = true;
                }
                // Also before the event that says so: nothing else can be written of it.
                let gone = own.iter().filter(|(seq, _)| log.is_forgotten(*seq));
                let gone: Vec<String> = gone.map(|(_, bag)| bag.bag_id.clone()).collect();
                self.apply(own, changes, change.clone());
                self.collect(&gone, change);
                self.forgotten.extend(gone);
            }
            DigestFact::Collected(_) => {
                let ids: Vec<String> = body(log, seq)?;
                self.collect(&ids, change);
            }
            DigestFact::Finished(finished) => {
                if self.open.as_ref().is_some_and(|open| open.started.run_id == finished.run_id) {
                    self.open = None;
                    self.waiting.clear();
                }
                if !finished.ok {
                    self.failed.insert(finished.run_id.clone());
                }
                let (run_id, ok) = (finished.run_id.clone(), finished.ok);
                self.last = Some(LastBuild { run_id, ok, at: change.at });
                if let Some(considered) = finished.considered {
                    self.considered = considered;
                    self.selectors = finished.selectors;
                }
                self.runs.insert(finished.run_id, seq);
            }
            DigestFact::TaskSettled(settled) => {
                self.tasks.insert(settled.task_id, Word { done: settled.done, seq });
            }
        }
        Ok(())
    }

    /// Makes a build count.
    pub fn apply(&mut self, bags: Vec<(Seq, BagFacts)>, changes: Changes, change: IndexChange) {
        for retirement in changes.retired {
            let Retirement { bag_id, reason, superseded_by } = retirement;
            if let Some(entry) = self.entries.get_mut(&bag_id) {
                entry.retired = Some(Retired { reason, superseded_by, at: change.at });
                let key = entry.facts.key();
                if self.live.get(&key) == Some(&bag_id) {
                    self.live.remove(&key);
                }
            }
        }
        for bag_id in changes.restored {
            if let Some(entry) = self.entries.get_mut(&bag_id) {
                entry.retired = None;
                self.live.insert(entry.facts.key(), bag_id);
            }
        }
        for (seq, facts) in bags {
            self.removed.remove(&facts.bag_id);
            self.forgotten.remove(&facts.bag_id);
            self.live.insert(facts.key(), facts.bag_id.clone());
            self.entries.insert(facts.bag_id.clone(), CatalogEntry { seq, facts, retired: None });
        }
        self.change = Some(change);
    }

    fn collect(&mut self, bag_ids: &[String], change: IndexChange) {
        for bag_id in bag_ids {
            if let Some(entry) = self.entries.remove(bag_id) {
                let key = entry.facts.key();
                if self.live.get(&key) == Some(bag_id) {
                    self.live.remove(&key);
                }
                self.removed.insert(bag_id.clone(), entry.facts.bag_type);
            }
        }
        self.change = Some(change);
    }

    pub fn read_to(&self) -> Seq {
        self.read_to
    }

    /// Derives `live` again after the catalog was read from the cache.
    pub(super) fn restored(&mut self) {
        let live = self.entries.values().filter(|entry| entry.retired.is_none());
        self.live = live.map(|entry| (entry.facts.key(), entry.facts.bag_id.clone())).collect();
    }

    /// Every bag whose files exist, by id.
    pub fn entries(&self) -> &BTreeMap<String, CatalogEntry> {
        &self.entries
    }

    /// The bags in the indexes, by id.
    pub fn live(&self) -> impl Iterator<Item = &CatalogEntry> {
        self.entries.values().filter(|entry| entry.retired.is_none())
    }

    /// The live bag of a selector, window and group.
    pub fn standing(&self, key: &BagKey) -> Option<&CatalogEntry> {
        self.live.get(key).and_then(|bag_id| self.entries.get(bag_id))
    }

    /// How many bags are gone because a person took back one of their texts.
    pub(super) fn forgotten(&self) -> usize {
        self.forgotten.len()
    }

    pub fn removed(&self) -> &BTreeMap<String, BagType> {
        &self.removed
    }

    /// The build that has not ended.
    pub fn open(&self) -> Option<&OpenBuild> {
        self.open.as_ref()
    }

    pub fn change(&self) -> Option<&IndexChange> {
        self.change.as_ref()
    }

    /// The events that hold the run records of builds, by run.
    pub fn runs(&self) -> &BTreeMap<String, Seq> {
        &self.runs
    }

    /// Builds that failed. A start keeps the files that they left.
    pub fn failed(&self) -> &BTreeSet<String> {
        &self.failed
    }

    pub fn last(&self) -> Option<&LastBuild> {
        self.last.as_ref()
    }

    /// Every summary up to this position was considered.
    pub fn considered(&self) -> Seq {
        self.considered
    }

    /// What people said of tasks, by the number of the task.
    pub(super) fn words(&self) -> BTreeMap<u64, Word> {
        let number = |id: &str| u64::from_str_radix(id.strip_prefix("task_")?, 16).ok();
        self.tasks.iter().filter_map(|(id, word)| Some((number(id)?, *word))).collect()
    }

    /// The selectors of the last unrestricted build.
    pub fn selectors(&self) -> &BTreeMap<String, String> {
        &self.selectors
    }
}

fn body<T: serde::de::DeserializeOwned>(log: &Reader, seq: Seq) -> Result<T, ReadError> {
    let bytes = log.body(seq)?.ok_or(ReadError::no_body(seq))?;
    serde_json::from_slice(&bytes).map_err(|error| ReadError::unexpected(seq, error))
}
