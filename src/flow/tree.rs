//! Hierarchical synthesis, `tree.v1`: an input that is too long for one prompt is read in leaves, and the
//! leaves are merged level by level to a root.
//!
//! Contract: every byte of every non-empty source is in exactly one leaf, so no tail is lost; what is
//! not used is in the ledger with its reason. Every prompt is bounded. Leaves and merges are a pure function of
//! the sources and settings, so after a crash the reply cache answers what was asked before.
//! The same code serves every provider. Nodes are listed by level, then position.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::ask::{Asker, Question};
use super::extract;
use super::outcome::FlowProblem;
use super::pack::LoadedPack;
use super::render::{TemplateError, Templates, Undefined, members};
use super::roles;
use crate::contract::hash::sha256;
use crate::model::{CallSettings, Message, Role, SourceText};

/// The version of the tree.
pub const HIERARCHY_VERSION: &str = "tree.v1";
/// Characters of sources in one leaf, unless the pack says otherwise.
const LEAF_CHARS: usize = 6_000;
/// Children of one node, unless the pack says otherwise.
const FAN_IN: usize = 8;
/// Most leaves of one tree.
const LEAVES_MAX: usize = 20_000;
/// Answer limit of leaves and merges.
const NODE_TOKENS: u32 = 500;
/// Most characters of a node's title.
const TITLE_CHARS: usize = 100;

const LEAF_PROMPT: &str = include_str!("leaf.jinja2");
const MERGE_PROMPT: &str = include_str!("merge.jinja2");
/// The name of either among templates.
const OURS: &str = "synthesis";

/// One node of the tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TreeNode {
    /// `n<level>_<position>`.
    pub node_id: String,
    /// 0 for leaves.
    pub level: usize,
    /// Heading of its sources, else the beginning of its text.
    pub title: String,
    /// What it says.
    pub text: String,
    /// The nodes it was merged from.
    pub children: Vec<String>,
    /// The sources below it, in order.
    pub source_ids: Vec<String>,
    /// How many characters of sources are below it.
    pub chars_covered: usize,
    /// Its first sentence.
    pub rendered_short: String,
}

/// The tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hierarchy {
    /// Id of the root.
    pub root: String,
    /// All nodes by level, then position.
    pub nodes: Vec<TreeNode>,
}

impl Hierarchy {
    /// How many leaves it has.
    pub fn leaf_count(&self) -> usize {
        self.nodes.iter().filter(|node| node.level == 0).count()
    }

    /// The nodes of one level.
    pub fn level(&self, level: usize) -> impl Iterator<Item = &TreeNode> {
        self.nodes.iter().filter(move |node| node.level == level)
    }

    /// As JSON, made of the same strings: every level names every source.
    pub fn into_value(self) -> Value {
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

    /// The most detailed level that fits into so many bytes, as sources for the final prompt; the
    /// root, cut, if none does.
    pub fn condensed(&self, bytes_max: usize) -> Vec<SourceText> {
        let of = |level: usize| -> Vec<SourceText> {
            let nodes = self.level(level);
            nodes.map(|n| SourceText { id: n.node_id.clone(), text: n.text.clone() }).collect()
        };
        let size = |texts: &[SourceText]| texts.iter().map(|t| t.text.len() + 32).sum::<usize>();
        let fitting = (0..=self.top()).map(of).find(|texts| size(texts) <= bytes_max);
        fitting.unwrap_or_else(|| {
            let mut root = of(self.top());
            for text in &mut root {
                text.text.truncate(floor(&text.text, bytes_max));
            }
            root
        })
    }
}

/// A source that was not used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkippedSource {
    /// The source.
    pub id: String,
    /// Why.
    pub reason: String,
}

/// Which sources were used: every selected one is counted exactly once.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Coverage {
    /// How many were selected.
    pub sources_total: usize,
    /// How many were used.
    pub sources_used: usize,
    /// Their characters.
    pub chars_total: usize,
    /// The characters that were read.
    pub chars_covered: usize,
    /// The rest.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skipped: Vec<SkippedSource>,
}

impl Coverage {
    /// The ledger of a run that reads every source that has a text.
    pub fn of(sources: &[SourceText]) -> Coverage {
        let mut coverage = Coverage { sources_total: sources.len(), ..Coverage::default() };
        for source in sources {
            let chars = source.text.chars().count();
            coverage.chars_total += chars;
            coverage.chars_covered += chars;
            if source.text.trim().is_empty() {
                let reason = "empty_content".to_owned();
                coverage.skipped.push(SkippedSource { id: source.id.clone(), reason });
            } else {
                coverage.sources_used += 1;
            }
        }
        coverage
    }
}

/// A stretch of one source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Window {
    source: usize,
    start: usize,
    end: usize,
}

/// Cuts sources into leaves: consecutive windows of at most `chars` bytes together, never across two
/// headings.
fn leaves(sources: &[SourceText], headings: &[String], chars: usize) -> Vec<Vec<Window>> {
    let mut leaves: Vec<Vec<Window>> = Vec::new();
    let mut size = 0;
    let mut heading = None;
    for (source, text) in sources.iter().enumerate() {
        if text.text.trim().is_empty() {
            continue;
        }
        let own = headings.get(source).map(String::as_str).unwrap_or_default();
        for (start, end) in windows(&text.text, chars) {
            let fits = size + (end - start) <= chars && heading == Some(own);
            match leaves.last_mut() {
                Some(leaf) if fits => leaf.push(Window { source, start, end }),
                _ => {
                    leaves.push(vec![Window { source, start, end }]);
                    size = 0;
                    heading = Some(own);
                }
            }
            size += end - start;
        }
    }
    leaves
}

/// Byte ranges that cover a text without gap, each at most `max` bytes, cut where it hurts least.
fn windows(text: &str, max: usize) -> Vec<(usize, usize)> {
    let mut ranges = Vec::new();
    let mut start = 0;
    while text.len() - start > max {
        let hard = start + floor(&text[start..], max);
        let slice = &text[start..hard];
        let cut = ["\n\n", "\n", ". ", " "]
            .into_iter()
            .find_map(|sign| slice.rfind(sign).map(|at| at + sign.len()).filter(|at| *at > max / 3))
            .map_or(hard, |at| start + at);
        ranges.push((start, cut));
        start = cut;
    }
    if start < text.len() || ranges.is_empty() {
        ranges.push((start, text.len()));
    }
    ranges
}

/// The largest character boundary not above `at`; at least one character.
fn floor(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while at > 0 && !text.is_char_boundary(at) {
        at -= 1;
    }
    if at == 0 { text.chars().next().map_or(0, char::len_utf8) } else { at }
}

/// Everything a tree is built from.
pub(super) struct TreeJob<'a> {
    pub pack: &'a LoadedPack,
    pub asker: &'a Asker<'a>,
    pub inputs: &'a Map<String, Value>,
    pub sources: &'a [SourceText],
    pub headings: &'a [String],
    /// Bytes of sources one prompt can hold.
    pub prompt_bytes: usize,
    pub concurrency: usize,
}

/// What a level of the tree is asked with.
enum Prompt<'a> {
    /// A template of the pack.
    OfPack(&'a Templates, &'a str),
    /// One of ours.
    Ours(Box<Templates>),
}

impl Prompt<'_> {
    fn render<'v>(
        &self,
        values: impl Iterator<Item = (&'v str, &'v Value)>,
    ) -> Result<String, TemplateError> {
        match self {
            Prompt::OfPack(templates, name) => templates.render(name, values, &Default::default()),
            Prompt::Ours(templates) => templates.render(OURS, values, &Default::default()),
        }
    }
}

/// One question of the tree before it is asked.
struct Draft {
    node_id: String,
    title: String,
    texts: Vec<SourceText>,
    children: Vec<String>,
    source_ids: Vec<String>,
    chars_covered: usize,
}

impl TreeJob<'_> {
    /// Builds the tree; `None` when there is nothing to read.
    pub fn build(&self) -> Result<Option<Hierarchy>, FlowProblem> {
        let settings = self.pack.projection.hierarchy();
        let chars =
            settings.leaf_chars.unwrap_or(LEAF_CHARS).clamp(200, self.prompt_bytes.max(200));
        let fan_in = settings.fan_in.unwrap_or(FAN_IN).clamp(2, 64);
        let leaves = leaves(self.sources, self.headings, chars);
        if leaves.len() > LEAVES_MAX {
            let reason = format!("the input has more than {LEAVES_MAX} leaves");
            return Err(FlowProblem::Input(reason));
        }
        if leaves.is_empty() {
            return Ok(None);
        }
        let prompt = self.prompt(settings.leaf.as_deref(), LEAF_PROMPT)?;
        let drafts = leaves.iter().enumerate().map(|(at, leaf)| self.leaf(at, leaf));
        let mut nodes = self.ask_all(0, drafts, &prompt)?;
        let prompt = self.prompt(settings.merge.as_deref(), MERGE_PROMPT)?;
        let mut first = 0;
        let mut level = 0;
        while nodes.len() - first > 1 {
            level += 1;
            let groups = groups(&nodes[first..], fan_in, self.prompt_bytes.max(200)).into_iter();
            let drafts = groups.enumerate().map(|(at, children)| merge(level, at, children));
            let above = self.ask_all(level, drafts, &prompt)?;
            first = nodes.len();
            nodes.extend(above);
        }
        let root = nodes.last().map(|node| node.node_id.clone()).unwrap_or_default();
        Ok(Some(Hierarchy { root, nodes }))
    }

    fn leaf(&self, at: usize, leaf: &[Window]) -> Draft {
        let mut source_ids: Vec<String> = Vec::new();
        let mut texts = Vec::new();
        let mut chars_covered = 0;
        for window in leaf {
            let source = &self.sources[window.source];
            let text = source.text[window.start..window.end].to_owned();
            chars_covered += text.chars().count();
            if source_ids.last() != Some(&source.id) {
                source_ids.push(source.id.clone());
            }
            texts.push(SourceText { id: source.id.clone(), text });
        }
        let title = self.headings.get(leaf[0].source).cloned().unwrap_or_default();
        let node_id = format!("n0_{at}");
        Draft { node_id, title, texts, children: Vec::new(), source_ids, chars_covered }
    }

    /// The prompt of a level: the pack's or ours.
    fn prompt<'p>(&'p self, own: Option<&'p str>, ours: &str) -> Result<Prompt<'p>, FlowProblem> {
        if let Some(name) = own {
            return Ok(Prompt::OfPack(&self.pack.templates, name));
        }
        let mut templates = Templates::new(Undefined::Strict);
        templates.add(OURS, ours)?;
        Ok(Prompt::Ours(Box::new(templates)))
    }

    /// Asks in the order of the drafts, each of which is made when its turn comes: together they
    /// hold all the text there is.
    fn ask_all(
        &self,
        level: usize,
        mut drafts: impl Iterator<Item = Draft>,
        prompt: &Prompt<'_>,
    ) -> Result<Vec<TreeNode>, FlowProblem> {
        let mut nodes = Vec::with_capacity(drafts.size_hint().0);
        loop {
            let batch: Vec<Draft> = drafts.by_ref().take(self.concurrency.max(1)).collect();
            let answers: Vec<Result<String, FlowProblem>> = match batch.as_slice() {
                [] => return Ok(nodes),
                [only] => vec![self.ask(only, prompt)],
                batch => std::thread::scope(|scope| {
                    let asked: Vec<_> =
                        batch.iter().map(|draft| scope.spawn(|| self.ask(draft, prompt))).collect();
                    asked
                        .into_iter()
                        .map(|thread| thread.join().unwrap_or(Err(FlowProblem::Cancelled)))
                        .collect()
                }),
            };
            for (draft, text) in batch.into_iter().zip(answers) {
                nodes.push(node(level, draft, text?));
            }
        }
    }

    fn ask(&self, draft: &Draft, prompt: &Prompt<'_>) -> Result<String, FlowProblem> {
        let name = format!("#{}", draft.node_id);
        let text = super::inputs::main_value(None, &draft.texts);
        let title = Value::from(draft.title.as_str());
        let values = members(self.inputs).chain([("text", &text), ("title", &title)]);
        let rendered = prompt.render(values)?;
        let plain = roles::plain(&rendered);
        let messages = roles::split(&rendered)
            .unwrap_or_else(|_| vec![Message::new(Role::User, plain.trim())]);
        let question = Question {
            node: &name,
            messages,
            rendered: sha256(&plain),
            inputs: self.inputs,
            sources: &draft.texts,
            schema: None,
            whole: false,
            settings: CallSettings { max_tokens: Some(NODE_TOKENS), ..CallSettings::default() },
        };
        let answer = self.asker.ask(&question)?.reply.text;
        Ok(extract::without_thoughts(&answer).trim().to_owned())
    }
}

/// Consecutive nodes in groups of at most `fan_in` whose texts fit one prompt; at least two each, so that
/// every level is smaller than the one below.
fn groups(nodes: &[TreeNode], fan_in: usize, bytes: usize) -> Vec<&[TreeNode]> {
    let mut groups = Vec::new();
    let mut start = 0;
    while start < nodes.len() {
        let mut end = start;
        let mut size = 0;
        while end < nodes.len() && end - start < fan_in {
            size += nodes[end].text.len();
            if size > bytes && end - start >= 2 {
                break;
            }
            end += 1;
        }
        groups.push(&nodes[start..end]);
        start = end;
    }
    groups
}

fn merge(level: usize, at: usize, children: &[TreeNode]) -> Draft {
    let mut source_ids: Vec<String> = Vec::new();
    for id in children.iter().flat_map(|child| &child.source_ids) {
        // A source cut in two can end one child and begin the next.
        if source_ids.last() != Some(id) {
            source_ids.push(id.clone());
        }
    }
    let first = children.first().map(|child| child.title.as_str()).unwrap_or_default();
    let same = children.iter().all(|child| child.title == first);
    Draft {
        node_id: format!("n{level}_{at}"),
        title: if same { first.to_owned() } else { String::new() },
        texts: children
            .iter()
            .map(|child| SourceText { id: child.node_id.clone(), text: child.text.clone() })
            .collect(),
        children: children.iter().map(|child| child.node_id.clone()).collect(),
        source_ids,
        chars_covered: children.iter().map(|child| child.chars_covered).sum(),
    }
}

fn node(level: usize, draft: Draft, text: String) -> TreeNode {
    let short = first_sentence(&text).to_owned();
    let title = if draft.title.is_empty() { clip(&short, TITLE_CHARS) } else { draft.title };
    TreeNode {
        node_id: draft.node_id,
        level,
        title,
        rendered_short: short,
        text,
        children: draft.children,
        source_ids: draft.source_ids,
        chars_covered: draft.chars_covered,
    }
}

/// The first sentence of a text, roughly: up to a full stop before white space, or the first line.
pub(super) fn first_sentence(text: &str) -> &str {
    let line = text.trim().lines().next().unwrap_or_default().trim();
    let line = line.trim_start_matches(['#', '-', '*', ' ']);
    let end = [". ", "! ", "? "].iter().filter_map(|sign| line.find(sign)).min();
    end.map_or(line, |at| &line[..=at])
}

fn clip(text: &str, chars: usize) -> String {
    match text.char_indices().nth(chars) {
        Some((end, _)) => format!("{}…", text[..end].trim_end()),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(id: usize, text: String) -> SourceText {
        SourceText { id: format!("s{id}"), text }
    }

    #[test]
    fn windows_cover_everything_and_never_split_a_character() {
        for text in [
            "",
            "a",
            &"é".repeat(1000),
            &"word ".repeat(500),
            &"A line.\n\n".repeat(300),
            &"😀".repeat(90),
        ] {
            let ranges = windows(text, 101);
            assert_eq!((ranges[0].0, ranges.last().unwrap().1), (0, text.len()));
            assert!(ranges.windows(2).all(|pair| pair[0].1 == pair[1].0));
            let total: String = ranges.iter().map(|(start, end)| &text[*start..*end]).collect();
            assert_eq!(total, text);
            assert!(ranges.iter().all(|(start, end)| end - start <= 101));
        }
    }

    #[test]
    fn leaves_hold_every_source_once_and_respect_headings() {
        let sources = [
            source(0, "a".repeat(50)),
            source(1, String::new()),
            source(2, "b".repeat(250)),
            source(3, "c".repeat(40)),
            source(4, "d".repeat(10)),
        ];
        let headings: Vec<String> = ["one", "one", "one", "two", "two"].map(str::to_owned).to_vec();
        let leaves = leaves(&sources, &headings, 100);
        let mut covered = vec![0; sources.len()];
        for window in leaves.iter().flatten() {
            covered[window.source] += window.end - window.start;
        }
        assert_eq!(covered, [50, 0, 250, 40, 10]);
        for leaf in &leaves {
            assert!(leaf.iter().map(|w| w.end - w.start).sum::<usize>() <= 100);
            assert!(leaf.iter().all(|w| headings[w.source] == headings[leaf[0].source]));
        }
        assert_eq!(leaves.last().unwrap().len(), 2, "small neighbours share a leaf");
    }

    #[test]
    fn every_level_is_smaller_than_the_one_below() {
        let nodes: Vec<TreeNode> =
            (0..23).map(|at| node(0, merge(0, at, &[]), "x".repeat(1000))).collect();
        for (fan_in, bytes) in [(2, 10), (8, 10_000), (8, 3_500), (64, 1)] {
            let groups = groups(&nodes, fan_in, bytes);
            assert!(groups.len() < nodes.len());
            assert_eq!(groups.iter().map(|group| group.len()).sum::<usize>(), 23);
        }
    }

    #[test]
    fn a_tree_is_the_json_it_says() {
        let one = TreeNode {
            source_ids: vec!["a".into(), "b".into()],
            ..node(0, merge(0, 0, &[]), "T. U.".into())
        };
        let top = node(1, merge(1, 0, std::slice::from_ref(&one)), "Top".into());
        let tree = Hierarchy { root: "n1_0".into(), nodes: vec![one, top] };
        assert_eq!(tree.clone().into_value(), serde_json::json!(tree));
    }

    #[test]
    fn the_ledger_names_what_was_not_used() {
        let coverage = Coverage::of(&[source(0, "abc".into()), source(1, " \n".into())]);
        assert_eq!((coverage.sources_total, coverage.sources_used), (2, 1));
        assert_eq!(coverage.skipped[0].reason, "empty_content");
    }
}
