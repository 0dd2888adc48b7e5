//! `hints.json`: how the embedded provider fills a pack's schema. Data, no code: adding a pack needs
//! no Rust.
//!
//! ```json
//! { "anchor": ["date"], "summary": {"sentences": 3, "bytes": 500}, "budget_percent": {"fast": 50},
//!   "items": {"input": "items", "text": ["title", "summary"], "id": ["id"]},
//!   "fields": { "title": {"use": "title", "inputs": ["subject"]},
//!               "start": {"use": "when", "part": "date_time"},
//!               "tasks": {"use": "objects", "over": {"purpose": "action"}, "fields": {…}} } }
//! ```
//!
//! `fields` gives a rule for each property of the schema; a property without one is guessed from its
//! name and type. Unknown members are refused, so that a misspelt hint is an error and not a silence.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::super::extract::cues::Purpose;
use super::super::extract::names::NameKind;

/// The whole file.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hints {
    /// Inputs that hold the date relative dates are counted from, the first usable one wins.
    #[serde(default)]
    pub anchor: Vec<String>,
    /// Inputs whose text stands before the sources (a mail's subject); read when no source holds it.
    #[serde(default)]
    pub text: Vec<String>,
    /// Inputs whose text stands behind the sources (notes for a text that is asked for).
    #[serde(default)]
    pub more: Vec<String>,
    /// The list the call is about, when it is about a list.
    #[serde(default)]
    pub items: Option<ItemsHint>,
    /// Length of the plain summary.
    #[serde(default)]
    pub summary: Option<Size>,
    /// Length of everything by variant, in percent.
    #[serde(default)]
    pub budget_percent: BTreeMap<String, usize>,
    /// What a call without schema answers; the summary by default.
    #[serde(default)]
    pub answer: Option<Rule>,
    /// A rule for each property.
    #[serde(default)]
    pub fields: BTreeMap<String, Rule>,
}

/// Which input is a list of objects and which members of an object are its text and id.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ItemsHint {
    /// The input.
    pub input: String,
    /// Members that make up an item's text, in order.
    #[serde(default)]
    pub text: Vec<String>,
    /// Members that may hold its id.
    #[serde(default)]
    pub id: Vec<String>,
    /// A single item that is only a text with a list in it stands for the items of that list.
    #[serde(default)]
    pub split: bool,
}

/// A length.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Size {
    /// Most sentences.
    pub sentences: usize,
    /// Most bytes.
    pub bytes: usize,
}

/// Which part of a date and time is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// `2026-03-03`
    Date,
    /// `2026-03-03T15:00:00`, or the date when no time is given
    DateTime,
    /// The end: same day, end time; only when the text gives one
    Until,
    /// Whether there is a date
    Exists,
    /// Whether there is a date without a time of day
    AllDay,
    /// `15:00` of the first time mentioned
    FirstClock,
    /// `15:00` of the last time mentioned
    LastClock,
}

/// How a phrase is written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Style {
    /// As in the text.
    #[default]
    Plain,
    /// Lower case, words joined by `_`.
    Tag,
    /// First letter upper case.
    Title,
}

/// How found words must begin.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Begins {
    /// Anyhow.
    #[default]
    Any,
    /// With a letter.
    Letter,
    /// With a capital.
    Capital,
}

impl Begins {
    /// Whether words may begin with this.
    pub fn allows(self, first: char) -> bool {
        match self {
            Begins::Any => true,
            Begins::Letter => first.is_alphabetic(),
            Begins::Capital => first.is_uppercase(),
        }
    }
}

/// How a confidence is written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scale {
    /// 0..=1
    #[default]
    Number,
    /// `low`, `medium`, `high`
    Level,
}

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Who {
    /// The human, or no conversation at all.
    User,
    /// The model.
    Assistant,
}

/// What the elements of a list are made from.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Over {
    /// Sentences with this purpose.
    #[serde(default)]
    pub purpose: Option<Purpose>,
    /// Sentences that say one of these.
    #[serde(default)]
    pub cues: Vec<String>,
    /// Sentences that say one of these are left out.
    #[serde(default)]
    pub without: Vec<String>,
    /// The items of the input or of the text.
    #[serde(default)]
    pub items: bool,
    /// With `items`: items with the same value of this member are one element.
    #[serde(default)]
    pub by: Option<String>,
    /// Least words of a sentence.
    #[serde(default)]
    pub least_words: usize,
    /// The sections under headings, or stretches of the text where there are none.
    #[serde(default)]
    pub sections: bool,
    /// The best sentences.
    #[serde(default)]
    pub best: bool,
    /// The first sentence of running text: what a conversation opens with.
    #[serde(default)]
    pub opening: bool,
    /// Whatever an input list gives.
    #[serde(default)]
    pub input: Option<String>,
}

/// Points for a cue.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Points {
    /// Any of these.
    pub cues: Vec<String>,
    /// Added once when said.
    pub points: i64,
}

/// A headed list in a composed Markdown text.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SectionHint {
    /// The heading.
    pub heading: String,
    /// The heading when the text is Spanish.
    #[serde(default)]
    pub heading_es: Option<String>,
    /// What stands under it; a list becomes bullets.
    pub of: Rule,
}

/// How one value is found.
#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "use", rename_all = "snake_case", deny_unknown_fields)]
pub enum Rule {
    /// The extractive summary.
    Summary {
        /// Most sentences.
        #[serde(default = "three")]
        sentences: usize,
        /// Most bytes.
        #[serde(default = "medium_text")]
        bytes: usize,
    },
    /// A title: an input, a heading, a subject line, else the best opening.
    Title {
        /// Inputs that may hold it.
        #[serde(default)]
        inputs: Vec<String>,
        /// Most bytes.
        #[serde(default = "short_text")]
        bytes: usize,
    },
    /// The value of an input, of the item at hand or of the flow; dots reach inside.
    Input {
        /// Names in order of preference.
        names: Vec<String>,
    },
    /// A fixed value.
    Const {
        /// The value.
        value: Value,
    },
    /// The first rule that finds something.
    First {
        /// The rules.
        of: Vec<Rule>,
    },
    /// Another rule, but only where the text says one of these: a poem has no job title.
    Said {
        /// The cues.
        cues: Vec<String>,
        /// The rule.
        of: Box<Rule>,
    },
    /// What follows a label: `Company: Acme`.
    Label {
        /// The labels.
        labels: Vec<String>,
        /// Most bytes.
        #[serde(default = "short_text")]
        bytes: usize,
    },
    /// Words after a cue up to the next punctuation: `join Acme as a …`.
    After {
        /// The cues.
        cues: Vec<String>,
        /// Words that end it.
        #[serde(default)]
        until: Vec<String>,
        /// Most words.
        #[serde(default = "six")]
        words: usize,
        /// How it must begin.
        #[serde(default)]
        begins: Begins,
        /// With the cue itself: `room 4`.
        #[serde(default)]
        keep: bool,
    },
    /// Key phrases.
    Phrases {
        /// Most of them.
        #[serde(default = "six")]
        most: usize,
        /// How they are written.
        #[serde(default)]
        style: Style,
    },
    /// The best key phrase alone.
    Phrase {
        /// How it is written.
        #[serde(default)]
        style: Style,
    },
    /// Sentences that do or say something, in reading order.
    Sentences {
        /// Which.
        #[serde(default)]
        over: Over,
        /// Most of them.
        #[serde(default = "five")]
        most: usize,
        /// Most bytes of each.
        #[serde(default = "sentence_text")]
        bytes: usize,
        /// Only of this speaker.
        #[serde(default)]
        who: Option<Who>,
    },
    /// The first of such sentences.
    Sentence {
        /// Which.
        #[serde(default)]
        over: Over,
        /// Most bytes.
        #[serde(default = "sentence_text")]
        bytes: usize,
        /// Only of this speaker.
        #[serde(default)]
        who: Option<Who>,
        /// Without the time stamp and the level of a log line.
        #[serde(default)]
        bare: bool,
    },
    /// A date or time.
    When {
        /// Which part.
        part: Part,
        /// Prefer dates in sentences that say one of these.
        #[serde(default)]
        cues: Vec<String>,
        /// Only in such sentences.
        #[serde(default)]
        only: bool,
        /// Never in sentences that say one of these.
        #[serde(default)]
        without: Vec<String>,
    },
    /// The day a member of the last item that has one names, else the day its text begins with.
    LastDay {
        /// Members, the first usable one wins.
        names: Vec<String>,
    },
    /// Minutes.
    Duration,
    /// An amount of money as written.
    Amount {
        /// Prefer amounts in sentences that say one of these.
        #[serde(default)]
        cues: Vec<String>,
    },
    /// A URL.
    Url {
        /// Prefer URLs that contain one of these.
        #[serde(default)]
        prefer: Vec<String>,
        /// Inputs that may hold it.
        #[serde(default)]
        inputs: Vec<String>,
    },
    /// An e-mail address.
    Email,
    /// People: `{name, email}` from inputs, mail headers and addresses in the text.
    People {
        /// Inputs with addresses.
        #[serde(default)]
        inputs: Vec<String>,
        /// Most of them.
        #[serde(default = "ten")]
        most: usize,
    },
    /// Names, the commonest first.
    Names {
        /// Most of them.
        #[serde(default = "six")]
        most: usize,
    },
    /// One name of a kind.
    Name {
        /// The kind.
        kind: KindHint,
    },
    /// A country, by its English name.
    Country,
    /// One of a closed list, by cues.
    Enum {
        /// The cues of each value.
        values: BTreeMap<String, Vec<String>>,
        /// When nothing is said.
        #[serde(default)]
        fallback: Value,
        /// An input that lists further values (a string list), matched by their own words.
        #[serde(default)]
        input: Option<String>,
        /// The value said last wins: items in the order of time.
        #[serde(default)]
        latest: bool,
    },
    /// Yes or no, by cues.
    YesNo {
        /// Cues for yes.
        #[serde(default)]
        yes: Vec<String>,
        /// Cues for no; they win.
        #[serde(default)]
        no: Vec<String>,
        /// A purpose that means yes.
        #[serde(default)]
        purpose: Option<Purpose>,
        /// When nothing is said.
        #[serde(default)]
        fallback: Value,
        /// What yes is.
        #[serde(default = "truth")]
        yes_value: Value,
        /// What no is.
        #[serde(default = "falsehood")]
        no_value: Value,
    },
    /// A number from points.
    Score {
        /// Where it starts.
        base: i64,
        /// What adds to it.
        add: Vec<Points>,
        /// Least.
        least: i64,
        /// Most.
        most: i64,
    },
    /// How sure the embedded provider can be: by how many of these properties it found.
    Confidence {
        /// The properties.
        of: Vec<String>,
        /// How it is written.
        #[serde(default)]
        scale: Scale,
    },
    /// The sentence another property was found in.
    QuoteOf {
        /// The property.
        field: String,
    },
    /// The value of another property.
    Copy {
        /// The property.
        field: String,
    },
    /// Whether another property was found.
    Found {
        /// The property.
        field: String,
    },
    /// `en`, `es`, … or `und`.
    Language,
    /// A list of objects.
    Objects {
        /// What the elements are made from.
        over: Over,
        /// Most of them.
        #[serde(default = "ten")]
        most: usize,
        /// The rule of each member, looking at its element first.
        fields: BTreeMap<String, Rule>,
    },
    /// A single object.
    Object {
        /// The rule of each member.
        fields: BTreeMap<String, Rule>,
    },
    /// The element at hand: its whole text.
    This {
        /// Most bytes.
        #[serde(default = "medium_text")]
        bytes: usize,
        /// Without the time stamp and the level of a log line.
        #[serde(default)]
        bare: bool,
    },
    /// The ids of the sources or items the element at hand comes from.
    Ids,
    /// `<prefix><number>` of the element at hand.
    Ordinal {
        /// The prefix.
        prefix: String,
        /// Least digits.
        #[serde(default)]
        digits: usize,
    },
    /// Markdown: headings with bullets.
    Compose {
        /// The sections; an empty one is left out.
        sections: Vec<SectionHint>,
    },
    /// Numbers behind labels (`failed: 3`), as an object.
    LabelledNumbers {
        /// Most of them.
        #[serde(default = "ten")]
        most: usize,
    },
    /// Articles grouped by what they are about.
    Clusters {
        /// Most groups.
        #[serde(default = "ten")]
        most: usize,
    },
    /// Requirements of a posting held against a profile.
    Requirements {
        /// Which result.
        give: RequirementPart,
        /// The input with the profile.
        profile: String,
    },
    /// Opportunities in order.
    Ranking {
        /// Which result.
        give: RankingPart,
        /// The input with the profile.
        profile: String,
        /// The input with the day to count from.
        as_of: String,
    },
    /// LaTeX as a Docusaurus page.
    LatexPage {
        /// The input with the file name.
        filename: String,
    },
    /// The text as a Docusaurus page: front matter, sections, sources.
    Page {
        /// The input with the topic.
        topic: String,
        /// The input with the headings wanted.
        outline: String,
    },
    /// Perspectives on an objective.
    Perspectives,
}

/// A kind of name.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KindHint {
    /// A person.
    Person,
    /// An organization.
    Organization,
    /// Any name.
    Any,
}

impl KindHint {
    /// Whether a name fits.
    pub fn fits(self, kind: NameKind) -> bool {
        match self {
            KindHint::Person => kind == NameKind::Person,
            KindHint::Organization => kind == NameKind::Organization,
            KindHint::Any => true,
        }
    }
}

/// A result of holding requirements against a profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RequirementPart {
    /// `[{skill, met, evidence}]`
    List,
    /// What the profile lacks.
    Gaps,
    /// `Yes`, `No`, `Maybe`.
    Verdict,
    /// `Yes`, `No` or null.
    Apply,
    /// 0..=100 or null.
    Score,
    /// Sentences that speak for or against.
    Reasons,
}

/// A result of ranking.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RankingPart {
    /// The list.
    Ranked,
    /// Groups of ids that name the same thing.
    Duplicates,
    /// What is out, with reasons.
    Dropped,
    /// A few lines on the best.
    Summary,
}

fn three() -> usize {
    3
}
fn five() -> usize {
    5
}
fn six() -> usize {
    6
}
fn ten() -> usize {
    10
}
fn short_text() -> usize {
    120
}
fn sentence_text() -> usize {
    240
}
fn medium_text() -> usize {
    600
}
fn truth() -> Value {
    Value::Bool(true)
}
fn falsehood() -> Value {
    Value::Bool(false)
}

impl Rule {
    /// Whether it looks at other properties and so must wait for them.
    pub fn depends(&self) -> bool {
        match self {
            Rule::Confidence { .. }
            | Rule::QuoteOf { .. }
            | Rule::Copy { .. }
            | Rule::Found { .. } => true,
            Rule::First { of } => of.iter().any(Rule::depends),
            Rule::Said { of, .. } => of.depends(),
            _ => false,
        }
    }
}
