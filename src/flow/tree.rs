//! Hierarchical synthesis, `tree.v1`: an input that is too long for one prompt is read in leaves, and the
//! leaves are merged level by level to a root.
//!
//! Contract: every byte of every non-empty source is in exactly one leaf, so the end of a long text is
//! not lost. Every prompt is bounded. Leaves and merges are a pure function of the sources and
//! settings, so after a crash the reply cache answers the questions that were asked before. The same
//! code serves every provider. Nodes are listed by level, then position.
//!
//! See docs/adr/0016-condensing-long-inputs.md.

use std::ops::Range;

use serde_json::{Map, Value};

use super::ask::{Asker, Question};
use super::condensed::CondensedLabel;
use super::context::{Labels, Surroundings};
use super::extract;
use super::hierarchy::{Hierarchy, TreeNode, first_sentence, floor};
use super::outcome::FlowProblem;
use super::pack::LoadedPack;
use super::pictures::Pictures;
use super::reading::Shows;
use super::render::{TemplateError, Templates, Undefined, members};
use super::roles;
use crate::contract::hash::sha256;
use crate::contract::source::SourceContext;
use crate::model::{CallSettings, Message, Role, SourceSpan, SourceText};

/// Characters of sources in one leaf, unless the pack says otherwise.
pub(super) const LEAF_CHARS: usize = 6_000;
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
/// Bytes of the longer of them.
pub(super) const PROMPT_BYTES: usize =
    if LEAF_PROMPT.len() > MERGE_PROMPT.len() { LEAF_PROMPT.len() } else { MERGE_PROMPT.len() };
/// The template name of both embedded prompts.
const EMBEDDED: &str = "synthesis";

/// Cuts sources into leaves: consecutive windows of at most `chars` bytes together, and of at most
/// `prompt_bytes` with their labels, never across two headings.
fn leaves(
    sources: &[SourceText],
    headings: &[String],
    chars: usize,
    label_bytes: &[usize],
    prompt_bytes: usize,
) -> Vec<Vec<SourceSpan>> {
    let mut leaves: Vec<Vec<SourceSpan>> = Vec::new();
    let (mut size, mut labels) = (0, 0);
    let mut heading = None;
    for (source, text) in sources.iter().enumerate() {
        if text.text.trim().is_empty() {
            continue;
        }
        let own = headings.get(source).map(String::as_str).unwrap_or_default();
        let label = label_bytes.get(source).copied().unwrap_or_default();
        for (start, end) in windows(&text.text, chars) {
            let bytes = size + (end - start);
            let fits = bytes <= chars && bytes + labels + label <= prompt_bytes;
            let fits = fits && heading == Some(own);
            match leaves.last_mut() {
                Some(leaf) if fits => leaf.push(SourceSpan { source, start, end }),
                _ => {
                    leaves.push(vec![SourceSpan { source, start, end }]);
                    (size, labels) = (0, 0);
                    heading = Some(own);
                }
            }
            size += end - start;
            labels += label;
        }
    }
    leaves
}

/// Byte ranges that cover a text without gap, each at most `max` bytes. The cut is after a paragraph,
/// a line, a sentence or a word, in that order of preference.
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

/// Everything a tree is built from.
pub(super) struct TreeJob<'a> {
    pub pack: &'a LoadedPack,
    pub(crate) asker: &'a Asker<'a>,
    pub inputs: &'a Map<String, Value>,
    pub sources: &'a [SourceText],
    /// How pictures stand in the parts of the sources.
    pub pictures: Pictures,
    pub headings: &'a [String],
    /// Context of the sources.
    pub(crate) surroundings: &'a Surroundings,
    /// Bytes of sources one prompt can hold.
    pub(crate) prompt_bytes: usize,
    pub concurrency: usize,
}

/// The prompt of one level of the tree.
enum LevelPrompt<'a> {
    /// A template of the pack.
    OfPack(&'a Templates, &'a str),
    Embedded(Box<Templates>),
}

impl LevelPrompt<'_> {
    fn render<'v>(
        &self,
        values: impl Iterator<Item = (&'v str, &'v Value)>,
    ) -> Result<String, TemplateError> {
        match self {
            LevelPrompt::OfPack(templates, name) => {
                templates.render(name, values, &Default::default())
            }
            LevelPrompt::Embedded(templates) => {
                templates.render(EMBEDDED, values, &Default::default())
            }
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
    /// What is told of the texts, where they are condensed ones.
    told: Vec<SourceContext>,
}

impl TreeJob<'_> {
    /// Builds the tree; `None` when no source has a text.
    pub(super) fn build(&self) -> Result<Option<Hierarchy>, FlowProblem> {
        let settings = self.pack.projection.hierarchy();
        let prompt_bytes = self.prompt_bytes.max(200);
        let chars = settings.leaf_chars.unwrap_or(LEAF_CHARS).clamp(200, prompt_bytes);
        let fan_in = settings.fan_in.unwrap_or(FAN_IN).clamp(2, 64);
        let label_bytes = self.surroundings.label_bytes(self.sources);
        let leaves = leaves(self.sources, self.headings, chars, &label_bytes, prompt_bytes);
        if leaves.len() > LEAVES_MAX {
            let reason = format!("the input has more than {LEAVES_MAX} leaves");
            return Err(FlowProblem::Input(reason.into()));
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
            let below = &nodes[first..];
            let told = self.surroundings.told_of(below, prompt_bytes);
            let groups = groups(below, &told, fan_in, prompt_bytes);
            let (merged, alone): (Vec<_>, Vec<_>) =
                groups.iter().enumerate().partition(|(_, group)| group.len() > 1);
            let drafts = merged.into_iter().map(|(at, group)| {
                let told = told[group.clone()].iter().map(|told| told.source.clone());
                Draft { told: told.collect(), ..merge(level, at, &below[group.clone()]) }
            });
            let mut above = self.ask_all(level, drafts, &prompt)?;
            // There is nothing to merge a single one with.
            above.extend(alone.into_iter().map(|(at, group)| {
                let child = &below[group.start];
                node(level, merge(level, at, std::slice::from_ref(child)), child.text.clone())
            }));
            first = nodes.len();
            nodes.extend(above);
        }
        let root = nodes.last().map(|node| node.node_id.clone()).unwrap_or_default();
        Ok(Some(Hierarchy { root, nodes }))
    }

    fn leaf(&self, at: usize, leaf: &[SourceSpan]) -> Draft {
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
        let title = self.headings.get(leaf[0].source).map(String::as_str);
        let title = title.or_else(|| {
            let of = |window: &SourceSpan| {
                self.surroundings.title_at(window.source, &self.sources[window.source].id)
            };
            let first = of(&leaf[0])?;
            leaf.iter().all(|window| of(window) == Some(first)).then_some(first)
        });
        let title = title.unwrap_or_default().to_owned();
        let node_id = format!("n0_{at}");
        let (children, told) = (Vec::new(), Vec::new());
        Draft { node_id, title, texts, children, source_ids, chars_covered, told }
    }

    /// The prompt of a level: the pack's own, else the embedded one.
    fn prompt<'p>(
        &'p self,
        own: Option<&'p str>,
        ours: &str,
    ) -> Result<LevelPrompt<'p>, FlowProblem> {
        if let Some(name) = own {
            return Ok(LevelPrompt::OfPack(&self.pack.templates, name));
        }
        let mut templates = Templates::new(Undefined::Strict);
        templates.add(EMBEDDED, ours)?;
        Ok(LevelPrompt::Embedded(Box::new(templates)))
    }

    /// Asks in the order of the drafts. Each draft is made just before it is asked, because together
    /// they hold all the text of the request.
    fn ask_all(
        &self,
        level: usize,
        mut drafts: impl Iterator<Item = Draft>,
        prompt: &LevelPrompt<'_>,
    ) -> Result<Vec<TreeNode>, FlowProblem> {
        let mut nodes = Vec::with_capacity(drafts.size_hint().0);
        // Questions that wait for a batch wait for the same one, so all of them are asked.
        let mut waits = None;
        loop {
            let batch: Vec<Draft> = drafts.by_ref().take(self.concurrency.max(1)).collect();
            let answers: Vec<Result<String, FlowProblem>> = match batch.as_slice() {
                [] => return waits.map_or(Ok(nodes), Err),
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
                match text {
                    Err(FlowProblem::Model { source, node }) if source.waits_for_batch() => {
                        waits = Some(FlowProblem::Model { source, node });
                    }
                    text => nodes.push(node(level, draft, text?)),
                }
            }
        }
    }

    fn ask(&self, draft: &Draft, prompt: &LevelPrompt<'_>) -> Result<String, FlowProblem> {
        let name = format!("#{}", draft.node_id);
        let condensed = !draft.children.is_empty();
        let around = condensed.then(|| self.surroundings.of_condensed(draft.told.clone()));
        let around = around.as_ref().unwrap_or(self.surroundings);
        let text = super::inputs::main_value(None, &draft.texts, around, Labels::OfParts);
        let title = Value::from(draft.title.as_str());
        let values = members(self.inputs).chain([("text", &text), ("title", &title)]);
        let rendered = prompt.render(values)?;
        let plain = roles::plain(&rendered);
        let mut messages = roles::split(&rendered)
            .unwrap_or_else(|_| vec![Message::new(Role::User, plain.trim())]);
        self.asker.leave_out_pictures(&mut messages, self.pictures);
        let question = Question {
            node: &name,
            messages,
            rendered: sha256(&plain),
            inputs: self.inputs,
            sources: &draft.texts,
            schema: None,
            ids: None,
            shows: if condensed { Shows::Condensed } else { Shows::Parts },
            whole: false,
            settings: CallSettings { max_tokens: Some(NODE_TOKENS), ..CallSettings::default() },
        };
        let answer = self.asker.ask(&question)?.reply.text;
        Ok(extract::without_thoughts(&answer).trim().to_owned())
    }
}

/// Consecutive nodes in groups of at most `fan_in` whose texts fit one prompt under their labels; at least
/// two each but for the last, so that every level is smaller than the one below.
fn groups(
    nodes: &[TreeNode],
    told: &[CondensedLabel],
    fan_in: usize,
    bytes: usize,
) -> Vec<Range<usize>> {
    let mut groups = Vec::new();
    let mut start = 0;
    while start < nodes.len() {
        let mut end = start;
        let mut size = 0;
        while end < nodes.len() && end - start < fan_in {
            size += nodes[end].text.len() + told[end].label_bytes;
            if size > bytes && end - start >= 2 {
                break;
            }
            end += 1;
        }
        groups.push(start..end);
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
        told: Vec::new(),
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

    fn told(nodes: usize, label_bytes: usize) -> Vec<CondensedLabel> {
        let one = || CondensedLabel { source: SourceContext::default(), label_bytes };
        std::iter::repeat_with(one).take(nodes).collect()
    }

    #[test]
    fn windows_cover_the_text_and_never_split_a_character() {
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
        let leaves = leaves(&sources, &headings, 100, &[0; 5], 100);
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
            let groups = groups(&nodes, &told(nodes.len(), 0), fan_in, bytes);
            assert!(groups.len() < nodes.len());
            assert_eq!(groups.iter().map(|group| group.len()).sum::<usize>(), 23);
        }
    }

    #[test]
    fn labels_count_where_parts_and_condensed_texts_share_a_prompt() {
        let sources: Vec<SourceText> = (0..40).map(|id| source(id, "Yes.".into())).collect();
        for (label, most) in [(0, 40), (16, 50), (96, 10), (5_000, 1)] {
            let leaves = leaves(&sources, &[], 800, &[label; 40], 1_000);
            assert!(leaves.iter().all(|leaf| leaf.len() <= most), "{label}");
            assert_eq!(leaves.len(), 40_usize.div_ceil(most), "{label}");
        }
        let nodes: Vec<TreeNode> =
            (0..16).map(|at| node(0, merge(0, at, &[]), "x".repeat(100))).collect();
        for (label, most) in [(0, 8), (100, 5), (5_000, 2)] {
            let groups = groups(&nodes, &told(16, label), 8, 1_000);
            assert!(groups.iter().all(|group| group.len() <= most), "{label}");
            assert_eq!(groups.len(), 16_usize.div_ceil(most), "{label}");
        }
    }

    #[test]
    fn the_json_of_a_tree_is_its_serialization() {
        let one = TreeNode {
            source_ids: vec!["a".into(), "b".into()],
            ..node(0, merge(0, 0, &[]), "T. U.".into())
        };
        let top = node(1, merge(1, 0, std::slice::from_ref(&one)), "Top".into());
        let tree = Hierarchy { root: "n1_0".into(), nodes: vec![one, top] };
        assert_eq!(tree.clone().into_value(), serde_json::json!(tree));
    }
}
