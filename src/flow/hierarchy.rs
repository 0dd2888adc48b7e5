//! A synthesis tree and the account of which sources were read: data without the code that asks.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::condensed::CondensedLabel;
use crate::contract::source::SourceContext;
use crate::markup::prefix;
use crate::model::SourceText;

pub(crate) const HIERARCHY_VERSION: &str = "tree.v1";
/// One node of the tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TreeNode {
    /// `n<level>_<position>`.
    pub node_id: String,
    /// 0 for leaves.
    pub level: usize,
    /// Heading of its sources, else the beginning of its text.
    pub title: String,
    pub text: String,
    /// The nodes it was merged from.
    pub children: Vec<String>,
    /// The sources below it, in order.
    pub source_ids: Vec<String>,
    /// How many characters of sources are below it.
    pub chars_covered: usize,
    /// The first sentence of `text`.
    pub rendered_short: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hierarchy {
    /// `node_id` of the root.
    pub root: String,
    /// All nodes by level, then position.
    pub nodes: Vec<TreeNode>,
}

impl Hierarchy {
    pub fn leaf_count(&self) -> usize {
        self.nodes.iter().filter(|node| node.level == 0).count()
    }

    pub fn level(&self, level: usize) -> impl Iterator<Item = &TreeNode> {
        self.nodes.iter().filter(move |node| node.level == level)
    }

    /// The tree as JSON. Moves the strings instead of copying them: every level names every source.
    pub(crate) fn into_value(self) -> Value {
        let nodes = self.nodes.into_iter().map(|node| {
            Value::from_iter([
                ("node_id", Value::from(node.node_id)),
                ("level", node.level.into()),
                ("title", node.title.into()),
                ("text", node.text.into()),
                ("children", node.children.into()),
                ("source_ids", node.source_ids.into()),
                ("chars_covered", node.chars_covered.into()),
                ("rendered_short", node.rendered_short.into()),
            ])
        });
        Value::from_iter([("root", Value::from(self.root)), ("nodes", nodes.collect())])
    }

    fn top(&self) -> usize {
        self.nodes.last().map_or(0, |node| node.level)
    }

    /// The most detailed level that fits into `bytes_max` under its labels, as sources for the final prompt.
    /// Where no level fits, the root is cut to that length. `told` is what is told of each node.
    pub(crate) fn condensed(&self, bytes_max: usize, told: Vec<CondensedLabel>) -> Condensed {
        let size = |level: usize| {
            let nodes = self.nodes.iter().zip(&told).filter(|(node, _)| node.level == level);
            nodes.map(|(node, told)| node.text.len() + told.label_bytes).sum::<usize>()
        };
        let fitting = (0..=self.top()).find(|level| size(*level) <= bytes_max);
        let level = fitting.unwrap_or(self.top());
        let mut condensed = Condensed { is_cut: fitting.is_none(), ..Condensed::default() };
        for (node, told) in self.nodes.iter().zip(told).filter(|(node, _)| node.level == level) {
            let mut text = node.text.clone();
            if condensed.is_cut {
                let room = bytes_max.saturating_sub(told.label_bytes).max(bytes_max / 2);
                text.truncate(floor(&text, room));
            }
            condensed.texts.push(SourceText { id: node.node_id.clone(), text });
            condensed.told.push(told.source);
        }
        condensed
    }
}

/// The texts that stand for a long input.
#[derive(Debug, Default)]
pub(crate) struct Condensed {
    pub texts: Vec<SourceText>,
    /// What is told of each.
    pub told: Vec<SourceContext>,
    /// Whether they were cut, because even the shortest did not fit.
    pub is_cut: bool,
}

/// A source that was not used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkippedSource {
    pub id: String,
    pub reason: String,
}

/// Which sources were used. Every selected source is counted exactly once.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Coverage {
    pub sources_total: usize,
    pub sources_used: usize,
    /// Characters of all selected sources.
    pub chars_total: usize,
    /// Characters that were read.
    pub chars_covered: usize,
    /// The sources that were not used, each with its reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skipped: Vec<SkippedSource>,
}

/// The largest character boundary that is at most `at`, but never less than one character.
pub(super) fn floor(text: &str, at: usize) -> usize {
    match prefix(text, at).len() {
        0 => text.chars().next().map_or(0, char::len_utf8),
        at => at,
    }
}

/// An approximate first sentence: up to a full stop before white space, or the first line.
pub(super) fn first_sentence(text: &str) -> &str {
    let line = text.trim().lines().next().unwrap_or_default().trim();
    let line = line.trim_start_matches(['#', '-', '*', ' ']);
    let end = [". ", "! ", "? "].iter().filter_map(|sign| line.find(sign)).min();
    end.map_or(line, |at| &line[..=at])
}
