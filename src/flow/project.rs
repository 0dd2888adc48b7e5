//! Projection: how the structured output of a flow becomes the fields of a summary.
//!
//! Contract: a pure, deterministic function of the validated output and the pack's
//! `projection.json` (format in `docs/flow-packs.md`). A field whose rules find no value is absent.

use std::collections::{BTreeMap, HashSet};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use unicode_normalization::UnicodeNormalization as _;

use super::render::{Templates, Undefined, members};
use super::yaml;
use super::{page, pyvalue};
use crate::contract::places;

/// Most entries of a list field.
const LIST_MAX: usize = 200;
/// Longest text of a short field (title, category, a tag, …) in characters.
const SHORT_CHARS_MAX: usize = 500;

/// What the model writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Form {
    /// One JSON object.
    Json,
    /// Free text.
    Text,
    /// A Markdown page with optional front matter.
    Markdown,
}

/// One way to get a value.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(untagged)]
enum Rule {
    Pointer(String),
    Mapped { pointer: String, map: Option<BTreeMap<String, Value>> },
    Template { template: String },
    Const { r#const: Value },
}

/// How long inputs are condensed.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct HierarchySettings {
    /// Build the tree even when the input would fit the model.
    pub always: bool,
    /// Template of the prompt for one group of sources; the embedded one when absent.
    pub(crate) leaf: Option<String>,
    /// Template of the prompt that merges several nodes; the embedded one when absent.
    pub merge: Option<String>,
    /// Most characters of sources in one leaf.
    pub leaf_chars: Option<usize>,
    /// Most children of a node.
    pub(crate) fan_in: Option<usize>,
}

#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Rules {
    form: Option<Form>,
    undefined: Option<String>,
    hierarchy: Option<HierarchySettings>,
    summary_text: Vec<Rule>,
    title: Vec<Rule>,
    category: Vec<Rule>,
    format_type: Vec<Rule>,
    notes: Vec<Rule>,
    confidence: Vec<Rule>,
    tags: Vec<Rule>,
    topics: Vec<Rule>,
    actions: Vec<Rule>,
    uncertainties: Vec<Rule>,
    evidence: Vec<Rule>,
    source_ids: Vec<String>,
    given_ids: BTreeMap<String, String>,
    stated_ids: Vec<String>,
    cited_ids: Vec<String>,
    rendered_short: Vec<Rule>,
    rendered_medium: Vec<Rule>,
    rendered_long: Vec<Rule>,
    meta: BTreeMap<String, Vec<Rule>>,
}

/// The `projection.json` of a pack, compiled.
#[derive(Debug)]
pub(crate) struct Projection {
    rules: Rules,
    templates: Templates,
    declared: bool,
}

/// The fields of a summary.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct SummaryOutputs {
    pub summary_text: String,
    /// The summary in one to three sentences, for lists.
    #[serde(default)]
    pub summary: String,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub title: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub tags: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub topics: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub category: Option<String>,
    /// Things to do.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub actions: Vec<String>,
    /// Between 0 and 1.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub confidence: Option<f64>,
    /// Kind of text.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) format_type: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub notes: Option<String>,
    /// What the text leaves open.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub uncertainties: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub rendered_short: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub rendered_medium: Option<String>,
    /// Everything.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub rendered_long: Option<String>,
    /// Scalars that readers filter on.
    #[serde(skip_serializing_if = "Map::is_empty", default)]
    pub meta: Map<String, Value>,
}

/// `projection.json` is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("read projection.json: {0}")]
pub struct BadProjection(pub String);

impl Projection {
    /// Compiles a `projection.json`, or a general projection when the pack has none.
    pub(crate) fn compile(json: Option<&[u8]>) -> Result<Projection, BadProjection> {
        let bad = |error: &dyn std::fmt::Display| BadProjection(error.to_string());
        let rules = match json {
            Some(bytes) => serde_json::from_slice(bytes).map_err(|error| bad(&error))?,
            None => any_flow(),
        };
        let mut projection = Projection {
            rules,
            templates: Templates::new(Undefined::Lenient),
            declared: json.is_some(),
        };
        let sources: Vec<String> = projection.sources();
        for source in sources {
            if !projection.templates.has(&source) {
                projection.templates.add(&source, &source).map_err(|error| bad(&error))?;
            }
        }
        for pointer in projection.pointers() {
            if !pointer.is_empty() && !pointer.starts_with('/') {
                return Err(BadProjection(format!("`{pointer}` is not a JSON pointer")));
            }
        }
        Ok(projection)
    }

    fn all_rules(&self) -> impl Iterator<Item = &Rule> {
        let r = &self.rules;
        let fields = [
            &r.summary_text,
            &r.title,
            &r.category,
            &r.format_type,
            &r.notes,
            &r.confidence,
            &r.tags,
            &r.topics,
            &r.actions,
            &r.uncertainties,
            &r.evidence,
            &r.rendered_short,
            &r.rendered_medium,
            &r.rendered_long,
        ];
        fields.into_iter().chain(r.meta.values()).flatten()
    }

    fn sources(&self) -> Vec<String> {
        let rules = self.all_rules();
        rules
            .filter_map(|rule| match rule {
                Rule::Template { template } => Some(template.clone()),
                _ => None,
            })
            .collect()
    }

    /// The pointers that repeat ids of an input, each with its input.
    pub(crate) fn given_id_pointers(&self) -> &BTreeMap<String, String> {
        &self.rules.given_ids
    }

    /// The pointers whose texts are quotes.
    pub(crate) fn evidence_pointers(&self) -> Vec<String> {
        let pointer = |rule: &Rule| match rule {
            Rule::Pointer(pointer) | Rule::Mapped { pointer, .. } => Some(pointer.clone()),
            _ => None,
        };
        self.rules.evidence.iter().filter_map(pointer).collect()
    }

    /// The pointers that hold ids of sources, beside the members whose names say so.
    pub(crate) fn source_id_pointers(&self) -> &[String] {
        &self.rules.source_ids
    }

    /// The pointers that may repeat an id which the text of a source states.
    pub(crate) fn stated_id_pointers(&self) -> &[String] {
        &self.rules.stated_ids
    }

    /// The pointers of texts that cite ids of sources in square brackets.
    pub(crate) fn cited_id_pointers(&self) -> &[String] {
        &self.rules.cited_ids
    }

    /// Every JSON pointer the rules use.
    pub(crate) fn pointers(&self) -> Vec<String> {
        let rules = self.all_rules();
        rules
            .filter_map(|rule| match rule {
                Rule::Pointer(pointer) | Rule::Mapped { pointer, .. } => Some(pointer.clone()),
                _ => None,
            })
            .chain(self.rules.source_ids.iter().chain(self.rules.given_ids.keys()).cloned())
            .chain(self.rules.stated_ids.iter().chain(&self.rules.cited_ids).cloned())
            .collect()
    }

    /// The form of the model's answer, given whether the flow has an output schema.
    pub(crate) fn form(&self, has_schema: bool) -> Form {
        self.rules.form.unwrap_or(if has_schema { Form::Json } else { Form::Text })
    }

    /// How a name without a value behaves in the pack's prompts: an error in our own packs, an empty
    /// text in imported ones.
    pub(crate) fn undefined(&self) -> Undefined {
        match self.rules.undefined.as_deref() {
            Some("lenient") => Undefined::Lenient,
            Some(_) => Undefined::Strict,
            None if self.declared => Undefined::Strict,
            None => Undefined::Lenient,
        }
    }

    /// Whether the pack has a projection of its own.
    pub(crate) fn is_declared(&self) -> bool {
        self.declared
    }

    /// How long inputs are condensed.
    pub(crate) fn hierarchy(&self) -> HierarchySettings {
        self.rules.hierarchy.clone().unwrap_or_default()
    }

    /// The fields of a summary. `summary_text` may be empty.
    pub(crate) fn apply(&self, output: &Value) -> SummaryOutputs {
        let r = &self.rules;
        let text = |rules: &[Rule]| self.first(rules, output).map(|value| joined(&value));
        let short = |rules: &[Rule]| text(rules).map(|text| shorten(&text));
        let mut meta = Map::new();
        for (name, rules) in &r.meta {
            if let Some(value) = self.first(rules, output) {
                meta.insert(name.clone(), scalar(value));
            }
        }
        SummaryOutputs {
            summary_text: text(&r.summary_text).unwrap_or_default(),
            summary: String::new(),
            title: short(&r.title)
                .map(|title| title.split_whitespace().collect::<Vec<_>>().join(" ")),
            tags: self.labels(&r.tags, output),
            topics: self.labels(&r.topics, output),
            category: short(&r.category),
            actions: self.list(&r.actions, output),
            confidence: self.number(&r.confidence, output),
            format_type: short(&r.format_type),
            notes: text(&r.notes),
            uncertainties: self.list(&r.uncertainties, output),
            rendered_short: text(&r.rendered_short),
            rendered_medium: text(&r.rendered_medium),
            rendered_long: text(&r.rendered_long),
            meta,
        }
    }

    /// The quotes in the output: pointer and text of each.
    pub(crate) fn quotes(&self, output: &Value) -> Vec<(String, String)> {
        let mut quotes = Vec::new();
        for rule in &self.rules.evidence {
            let (Rule::Pointer(pointer) | Rule::Mapped { pointer, .. }) = rule else { continue };
            for (place, value) in find(output, pointer) {
                leaves(&place, value, &mut quotes);
            }
        }
        quotes.truncate(LIST_MAX);
        quotes
    }

    fn values(&self, rule: &Rule, output: &Value) -> Vec<Value> {
        match rule {
            Rule::Pointer(pointer) => found(output, pointer),
            Rule::Mapped { pointer, map } => {
                let values = found(output, pointer);
                match map {
                    None => values,
                    Some(map) => values
                        .iter()
                        .filter_map(|value| map.get(&pyvalue::to_str(value)).cloned())
                        .collect(),
                }
            }
            Rule::Template { template } => {
                let mut values = match output {
                    Value::Object(members) => members.clone(),
                    _ => Map::new(),
                };
                values.insert("_".to_owned(), output.clone());
                let rendered =
                    self.templates.render(template, members(&values), &Default::default());
                let text = rendered.map(|text| super::roles::plain(&text)).unwrap_or_default();
                vec![Value::String(text.trim().to_owned())]
            }
            Rule::Const { r#const } => vec![r#const.clone()],
        }
    }

    fn first(&self, rules: &[Rule], output: &Value) -> Option<Value> {
        rules.iter().find_map(|rule| {
            let mut values = self.values(rule, output);
            values.retain(|value| !is_nothing(value));
            match values.len() {
                0 => None,
                1 => values.pop(),
                _ => Some(Value::Array(values)),
            }
        })
    }

    fn list(&self, rules: &[Rule], output: &Value) -> Vec<String> {
        let mut list: Vec<String> = Vec::new();
        for value in rules.iter().flat_map(|rule| self.values(rule, output)) {
            let items = match value {
                Value::Array(items) => items,
                other => vec![other],
            };
            for item in items.into_iter().filter(|item| !is_nothing(item)) {
                // A reader compares bytes: `é` is one character, also where a model writes two.
                let text: String = shorten(&joined(&item)).nfc().collect();
                if !text.is_empty() && !list.contains(&text) && list.len() < LIST_MAX {
                    list.push(text);
                }
            }
        }
        list
    }

    /// A list of words to find a text by. Words that differ only in letter case or in the form of their
    /// characters are one; the first spelling stays.
    fn labels(&self, rules: &[Rule], output: &Value) -> Vec<String> {
        let mut seen = HashSet::new();
        let mut labels = self.list(rules, output);
        labels.retain(|label| {
            let folded = places::folded(label);
            !ABSTENTIONS.contains(&folded.as_str()) && seen.insert(folded)
        });
        labels
    }

    fn number(&self, rules: &[Rule], output: &Value) -> Option<f64> {
        let value = self.first(rules, output)?;
        let number = pyvalue::to_float(&value)?.as_f64()?;
        Some(number.clamp(0.0, 1.0))
    }
}

/// Values by which a flow says that it does not know: they label nothing.
const ABSTENTIONS: [&str; 9] = [
    "unknown",
    "unclear",
    "not stated",
    "not_stated",
    "unspecified",
    "undefined",
    "other",
    "none",
    "n/a",
];

/// Rules for flows without a projection: the usual member names, then any text.
fn any_flow() -> Rules {
    let pointers =
        |names: &[&str]| names.iter().map(|name| Rule::Pointer((*name).to_owned())).collect();
    Rules {
        summary_text: pointers(&[
            "/summary_text",
            "/summary",
            "/description",
            "/text",
            "/markdown",
            "/*",
        ]),
        title: pointers(&["/title", "/name", "/front_matter/title"]),
        tags: pointers(&["/tags", "/labels", "/front_matter/tags"]),
        category: pointers(&["/category"]),
        confidence: pointers(&["/confidence"]),
        ..Rules::default()
    }
}

fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.trim().is_empty(),
        Value::Array(items) => items.iter().all(is_nothing),
        Value::Object(members) => members.is_empty(),
        _ => false,
    }
}

/// A value that readers filter on. A pack may write yes or no as a template; both ways it is one type.
fn scalar(value: Value) -> Value {
    match value {
        Value::Array(_) | Value::Object(_) => joined(&value).into(),
        Value::String(text) if text == "true" => true.into(),
        Value::String(text) if text == "false" => false.into(),
        value => value,
    }
}

/// Text of a value: strings as they are, lists one line each, objects as compact JSON.
fn joined(value: &Value) -> String {
    match value {
        Value::String(text) => text.trim().to_owned(),
        Value::Array(items) => {
            let lines: Vec<String> =
                items.iter().filter(|item| !is_nothing(item)).map(joined).collect();
            lines.join("\n")
        }
        other => other.to_string(),
    }
}

fn shorten(text: &str) -> String {
    match text.char_indices().nth(SHORT_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

fn found(output: &Value, pointer: &str) -> Vec<Value> {
    find(output, pointer).into_iter().map(|(_, value)| value.clone()).collect()
}

/// All values that a pointer with `*` segments selects.
fn find<'a>(output: &'a Value, pointer: &str) -> Vec<(String, &'a Value)> {
    let mut here = vec![(String::new(), output)];
    for segment in pointer.split('/').skip(1) {
        let mut next = Vec::new();
        for (place, value) in here {
            step(&place, value, segment, &mut next);
        }
        here = next;
    }
    here
}

fn step<'a>(place: &str, value: &'a Value, segment: &str, next: &mut Vec<(String, &'a Value)>) {
    let at = |key: &str| format!("{place}/{}", key.replace('~', "~0").replace('/', "~1"));
    match (value, segment) {
        (Value::Array(items), "*") => {
            next.extend(
                items.iter().enumerate().map(|(index, item)| (at(&index.to_string()), item)),
            );
        }
        (Value::Object(members), "*") => {
            next.extend(members.iter().map(|(key, item)| (at(key), item)));
        }
        (Value::Array(items), index) => {
            if let Some(item) = index.parse::<usize>().ok().and_then(|index| items.get(index)) {
                next.push((at(index), item));
            }
        }
        (Value::Object(members), segment) => {
            let key = segment.replace("~1", "/").replace("~0", "~");
            if let Some(item) = members.get(&key) {
                next.push((at(&key), item));
            }
        }
        _ => {}
    }
}

fn leaves(place: &str, value: &Value, quotes: &mut Vec<(String, String)>) {
    match value {
        Value::String(text) if !text.trim().is_empty() => {
            quotes.push((place.to_owned(), text.clone()));
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                leaves(&format!("{place}/{index}"), item, quotes);
            }
        }
        _ => {}
    }
}

/// A Markdown answer as an object: the page, its front matter, the rest. Nothing in it acts where a site
/// is built from it.
pub(super) fn markdown(answer: &str) -> Value {
    let text = unfenced(answer.trim_start_matches('\u{feff}').trim());
    let (front, body) = front_matter(text);
    let (front, body) = (page::front_matter(&front), page::inert(body));
    serde_json::json!({"markdown": page::written(&front, &body), "front_matter": front, "body": body})
}

/// Writes a page again after ids were put into its body. The id of a source may hold signs that act.
pub(super) fn rewrite_page(value: &mut Value) {
    let empty = Map::new();
    let front = value["front_matter"].as_object().unwrap_or(&empty);
    let body = page::inert(value["body"].as_str().unwrap_or_default());
    let markdown = page::written(front, &body);
    (value["markdown"], value["body"]) = (markdown.into(), body.into());
}

/// Marks a page as a draft, so that a site which is built from it leaves the page out.
pub(super) fn mark_draft(value: &mut Value) {
    let Some(front) = value["front_matter"].as_object_mut() else { return };
    front.insert("draft".to_owned(), true.into());
    let front = front.clone();
    value["markdown"] = page::written(&front, value["body"].as_str().unwrap_or_default()).into();
}

/// The page inside a code fence, which many models put around it.
fn unfenced(page: &str) -> &str {
    let inner = page
        .strip_prefix("```markdown\n")
        .or_else(|| page.strip_prefix("```md\n"))
        .or_else(|| page.strip_prefix("```mdx\n"));
    inner.and_then(|inner| inner.strip_suffix("```")).map_or(page, str::trim)
}

/// The front matter of a page, and the rest of it. A head that is no list of members is text.
fn front_matter(page: &str) -> (Map<String, Value>, &str) {
    let parts = page.strip_prefix("---\n").and_then(|rest| rest.split_once("\n---"));
    let front = parts.and_then(|(front, _)| yaml::parse(front).ok());
    match (front, parts) {
        (Some(Value::Object(front)), Some((_, rest))) => {
            (front, rest.split_once('\n').map_or("", |(_, body)| body))
        }
        _ => (Map::new(), page),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn rules_choose_join_and_map() {
        let rules = json!({
            "summary_text": ["/missing", "/empty", {"template": "{{ title }} ({{ when | default('no date') }}){% for t in tasks %} {{ t.name }};{% endfor %}"}],
            "title": [{"pointer": "/title"}],
            "confidence": [{"pointer": "/sure", "map": {"high": 1.7}}],
            "tags": ["/tags", "/tasks/*/name", {"const": ["A", "z"]}],
            "format_type": [{"const": "summary"}],
            "evidence": ["/tasks/*/quote"],
            "meta": {"ok": ["/ok"], "none": ["/missing"],
                "actionable": [{"template": "{{ 'true' if tasks else 'false' }}"}]}
        });
        let output = json!({
            "title": " A\n b ", "empty": "", "sure": "high", "tags": ["a", "", "Unclear", "b"], "ok": false,
            "tasks": [{"name": "b", "quote": "said"}, {"name": "c", "quote": null}]
        });
        let projection = Projection::compile(Some(rules.to_string().as_bytes())).unwrap();
        let summary = projection.apply(&output);
        assert_eq!(summary.summary_text, "A\n b  (no date) b; c;");
        assert_eq!(summary.title.as_deref(), Some("A b"));
        assert_eq!(summary.confidence, Some(1.0));
        assert_eq!(summary.tags, ["a", "b", "c", "z"]);
        assert_eq!(summary.format_type.as_deref(), Some("summary"));
        let meta = json!({"ok": false, "actionable": true});
        assert_eq!(summary.meta, meta.as_object().unwrap().clone());
        assert_eq!(projection.quotes(&output), [("/tasks/0/quote".to_owned(), "said".to_owned())]);
    }

    #[test]
    fn words_that_differ_in_case_or_in_the_form_of_their_characters_are_one() {
        let rules = json!({"tags": ["/tags"], "topics": ["/topics"], "actions": ["/actions"]});
        let projection = Projection::compile(Some(rules.to_string().as_bytes())).unwrap();
        let (composed, apart) = ("Café", "Cafe\u{301}");
        let summary = projection.apply(&json!({
            "tags": [apart, composed, "CAFÉ", "ＣＡＦÉ", "cafe"], "topics": [composed, apart],
            "actions": [apart, composed, "café"],
        }));
        assert_eq!(summary.tags, [composed, "cafe"], "and it is written as one character");
        assert_eq!(summary.topics, [composed]);
        assert_eq!(summary.actions, [composed, "café"], "a sentence keeps its letter case");
    }

    #[test]
    fn any_flow_has_a_projection() {
        let projection = Projection::compile(None).unwrap();
        for (output, text) in [
            (json!({"text": "hello"}), "hello"),
            (json!({"description": "d", "other": 1}), "d"),
            (json!({"a": ["x", "y"], "b": 2}), "x\ny\n2"),
            (json!({}), ""),
        ] {
            assert_eq!(projection.apply(&output).summary_text, text);
        }
        assert_eq!(projection.undefined(), Undefined::Lenient);
    }

    #[test]
    fn mistakes_are_refused() {
        for bad in [
            r#"{"sumary_text": []}"#,
            r#"{"title": ["title"]}"#,
            r#"{"title": [{"template": "{{ x"}]}"#,
            "7",
        ] {
            Projection::compile(Some(bad.as_bytes())).unwrap_err();
        }
    }

    #[test]
    fn a_page_is_taken_apart() {
        let page = markdown("```markdown\n---\ntitle: T\ntags: [a, b]\n---\n# T\n\nbody\n```");
        assert_eq!(page["front_matter"], json!({"title": "T", "tags": ["a", "b"]}));
        assert_eq!(page["body"], "# T\n\nbody");
        let page = markdown("no front matter");
        assert_eq!(
            (page["front_matter"].clone(), page["body"].as_str()),
            (json!({}), Some("no front matter"))
        );
    }
}
