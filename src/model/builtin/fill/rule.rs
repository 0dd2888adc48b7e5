//! The rule kinds of `hints.json`. Each kind serves any pack; `docs/flow-packs.md` describes them.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::super::extract::names::NameKind;
use super::super::lexicon::Purpose;

#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "use", rename_all = "snake_case", deny_unknown_fields)]
pub enum Rule {
    Summary {
        #[serde(default = "three")]
        sentences: usize,
        #[serde(default = "medium_text")]
        bytes: usize,
        /// A text without lists that fills at most half of the bytes is not cut.
        #[serde(default)]
        whole: bool,
    },
    /// A title: an input, a heading, a subject line, else the best opening.
    Title {
        #[serde(default)]
        inputs: Vec<String>,
        #[serde(default = "short_text")]
        bytes: usize,
        /// A heading that says one of these names a part, and not the text.
        #[serde(default)]
        without: Vec<String>,
    },
    /// The value of an input, of the item at hand or of the flow; dots reach inside.
    Input {
        names: Vec<String>,
    },
    Const {
        value: Value,
    },
    /// The first rule that finds something.
    First {
        of: Vec<Rule>,
    },
    /// The lists that several rules find, put together.
    All {
        of: Vec<Rule>,
    },
    /// Another rule, but only where the text says one of the cues: a poem has no job title.
    Said {
        cues: Vec<String>,
        of: Box<Rule>,
    },
    /// Another rule, but only in a conversation between people.
    Conversation {
        of: Box<Rule>,
    },
    /// The rule for the value that another rule finds.
    Case {
        of: Box<Rule>,
        values: BTreeMap<String, Rule>,
    },
    /// A text of our own with found values in it: `Apply before {date}`. Nothing when a part is
    /// missing, unless its name ends in `?`.
    Text {
        text: String,
        parts: BTreeMap<String, Rule>,
    },
    /// A list as one text.
    Joined {
        of: Box<Rule>,
        #[serde(default)]
        between: String,
    },
    /// What follows a label: `Company: Acme`.
    Label {
        labels: Vec<String>,
        #[serde(default = "short_text")]
        bytes: usize,
    },
    /// Words after a cue up to the next punctuation: `join Acme as a …`.
    After {
        cues: Vec<String>,
        /// Words that end it.
        #[serde(default)]
        until: Vec<String>,
        #[serde(default = "six")]
        words: usize,
        #[serde(default)]
        begins: Begins,
        /// With the cue itself: `room 4`.
        #[serde(default)]
        keep: bool,
    },
    Phrases {
        #[serde(default = "six")]
        most: usize,
        #[serde(default)]
        style: Style,
    },
    /// The best key phrase alone.
    Phrase {
        #[serde(default)]
        style: Style,
        /// The best one of several words, where there is one.
        #[serde(default)]
        several_words: bool,
    },
    /// What a question or an objective is about.
    Subject {
        /// One of the other things it names, another for each element.
        #[serde(default)]
        aspect: bool,
    },
    /// The phrase that the headlines of several items share; the first headline when they share none.
    SharedPhrase,
    /// The headline of the item at hand.
    Headline,
    /// The number of the item at hand: a member, what its line says, else its position.
    Number {
        names: Vec<String>,
    },
    /// Sentences that do or say something, in reading order.
    Sentences {
        #[serde(default)]
        over: Over,
        #[serde(default = "five")]
        most: usize,
        #[serde(default = "sentence_text")]
        bytes: usize,
        #[serde(default)]
        who: Option<Speaker>,
        /// In a conversation between people, each with the name of its speaker: `Ana: …`.
        #[serde(default)]
        named: bool,
    },
    /// The best of such sentences.
    Sentence {
        #[serde(default)]
        over: Over,
        #[serde(default = "sentence_text")]
        bytes: usize,
        #[serde(default)]
        who: Option<Speaker>,
        /// Without the time stamp and the level of a log line.
        #[serde(default)]
        bare: bool,
    },
    When {
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
    /// A part of the event the text is about.
    Event {
        part: EventPart,
        /// Inputs with a zone, for a text that names an hour and no zone.
        #[serde(default)]
        inputs: Vec<String>,
    },
    /// The day something must be done by.
    Due {
        /// Prefers what is asked of the reader; the event's own day is no deadline.
        #[serde(default)]
        asked: bool,
    },
    /// A value by the signs of a message.
    Signs {
        steps: Vec<SignStep>,
    },
    /// The capitalized words before a cue: `Acme is hiring`.
    Before {
        cues: Vec<String>,
        #[serde(default = "four")]
        words: usize,
    },
    /// A part of the first lines that has one of the words and none of the others: the job of a posting, or its
    /// employer.
    Opening {
        has: Vec<String>,
        #[serde(default)]
        without: Vec<String>,
        #[serde(default = "four")]
        lines: usize,
        #[serde(default = "eight")]
        words: usize,
    },
    /// The name in the text that an address is made of: `Hop & Vine` of `jobs@hopandvine.example`.
    NameOfAddress {
        /// Domains that are no names of organizations.
        #[serde(default)]
        without: Vec<String>,
    },
    /// The day a member of the last item that has one names, else the day its text begins with.
    LastDay {
        names: Vec<String>,
    },
    Duration,
    /// An amount of money as written.
    Amount {
        #[serde(default)]
        cues: Vec<String>,
    },
    Url {
        /// Prefer URLs that contain one of these.
        #[serde(default)]
        prefer: Vec<String>,
        #[serde(default)]
        inputs: Vec<String>,
    },
    Email,
    /// People: `{name, email}` from inputs, mail headers and addresses in the text.
    People {
        #[serde(default)]
        inputs: Vec<String>,
        #[serde(default = "ten")]
        most: usize,
    },
    /// Names, the commonest first.
    Names {
        #[serde(default = "six")]
        most: usize,
    },
    /// One name of a kind.
    Name {
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
        /// Cues that are everyday words: one of them in one sentence names no value, unless it stands in a heading.
        #[serde(default)]
        weak: Vec<String>,
        /// Cues of one word that mean nothing else. Where the list is there, any other one word alone names no value.
        #[serde(default)]
        strong: Option<Vec<String>>,
    },
    /// Yes or no, by cues; a no wins.
    YesNo {
        #[serde(default)]
        yes: Vec<String>,
        #[serde(default)]
        no: Vec<String>,
        /// A purpose that means yes.
        #[serde(default)]
        purpose: Option<Purpose>,
        #[serde(default)]
        fallback: Value,
        #[serde(default = "truth")]
        yes_value: Value,
        #[serde(default = "falsehood")]
        no_value: Value,
    },
    Score {
        base: i64,
        add: Vec<Points>,
        least: i64,
        most: i64,
    },
    /// How many elements there are.
    Count {
        over: Over,
        /// Nothing below this.
        #[serde(default)]
        least: usize,
    },
    /// The percentage of the judged statements of a check that are met, or the value of its step.
    Share {
        check: String,
        #[serde(default)]
        steps: Vec<Step>,
        /// The value where a permit is asked for that the input denies.
        #[serde(default)]
        barred: Value,
        /// When no statement could be judged.
        #[serde(default)]
        fallback: Value,
    },
    /// Whether a check asks for a permit that the input denies; nothing where the input does not say.
    Formality {
        check: String,
    },
    /// How sure the embedded provider can be: by how many of these members it found.
    Confidence {
        of: Vec<String>,
    },
    /// The sentence another member was found in.
    QuoteOf {
        field: String,
    },
    Copy {
        field: String,
    },
    Found {
        field: String,
    },
    /// The first sentences of another member.
    Shortened {
        field: String,
        #[serde(default = "three")]
        sentences: usize,
        #[serde(default = "medium_text")]
        bytes: usize,
    },
    /// Another rule, but only where another member says something.
    Where {
        field: String,
        of: Box<Rule>,
    },
    /// `en`, `es`, … or `und`.
    Language,
    /// A list of objects: each member by its own rule, which looks at its element.
    Objects {
        over: Over,
        #[serde(default = "ten")]
        most: usize,
        fields: BTreeMap<String, Rule>,
    },
    /// A list of what one rule finds in each element.
    List {
        over: Over,
        #[serde(default = "ten")]
        most: usize,
        of: Box<Rule>,
        /// Without repetitions.
        #[serde(default)]
        distinct: bool,
    },
    Object {
        fields: BTreeMap<String, Rule>,
    },
    /// The element at hand: its whole text.
    This {
        #[serde(default = "medium_text")]
        bytes: usize,
        /// Without the time stamp and the level of a log line.
        #[serde(default)]
        bare: bool,
    },
    /// What the kind of element says about itself: `met` of a check, `score` of a ranking, a cell of
    /// a table row.
    Given {
        name: String,
    },
    /// The ids of the sources or items the element at hand comes from.
    Ids,
    /// `<prefix><number>` of the element at hand.
    Ordinal {
        prefix: String,
        #[serde(default)]
        digits: usize,
    },
    /// Groups of ids of items that have the same title or link.
    Repeated,
    /// Numbers behind labels (`failed: 3`), as an object.
    LabelledNumbers {
        #[serde(default = "ten")]
        most: usize,
    },
    /// Markdown: headings with bullets; a section that finds nothing is left out.
    Compose {
        sections: Vec<SectionHint>,
    },
    /// The text as a Markdown page: front matter, a lead, sections, the ids they rest on.
    Page {
        title: Box<Rule>,
        /// The input with the headings wanted.
        outline: String,
        /// The heading of a section that has none.
        untitled: String,
        front_matter: Map<String, Value>,
    },
    /// LaTeX as a Markdown page.
    LatexPage {
        /// The input with the file name, the title of a text without headings.
        filename: String,
        untitled: String,
        front_matter: Map<String, Value>,
    },
}

impl Rule {
    /// Whether it looks at other members and so must wait for them.
    pub fn depends(&self) -> bool {
        match self {
            Rule::Confidence { .. }
            | Rule::QuoteOf { .. }
            | Rule::Copy { .. }
            | Rule::Found { .. }
            | Rule::Shortened { .. }
            | Rule::Where { .. } => true,
            Rule::First { of } => of.iter().any(Rule::depends),
            Rule::Said { of, .. } | Rule::Conversation { of } => of.depends(),
            _ => false,
        }
    }
}

/// What the elements of a list are made from.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Over {
    /// Sentences with this purpose.
    pub purpose: Option<Purpose>,
    /// Sentences that say one of these.
    pub(crate) cues: Vec<String>,
    /// Sentences that say one of these are left out.
    pub without: Vec<String>,
    /// Least words of a sentence.
    pub(crate) least_words: usize,
    /// Least sentences of running text: one text that has fewer gives no element.
    pub(crate) least_sentences: usize,
    pub best: bool,
    /// The first sentence of running text: what a conversation opens with.
    pub opening: bool,
    /// Sentences that ask for something to be done; beside a purpose, these too.
    pub asks: bool,
    /// Sentences that the text itself marks as decisions or as tasks, or that settle something.
    pub(crate) marked: Option<Marked>,
    /// The sections under headings; stretches of the text when it has no headings.
    pub(crate) sections: bool,
    /// The points an outline gives: its list, else its sections.
    pub(crate) points: bool,
    /// The items of the input or of the text.
    pub items: bool,
    /// With `items`: items with the same value of this member are one element.
    pub by: Option<String>,
    /// Groups of items that are about the same.
    pub(crate) alike: bool,
    /// The items in the order of the ranking, each of several that name the same thing once.
    pub ranked: bool,
    /// With `ranked`: only these routes.
    pub(crate) routes: Vec<String>,
    /// The statements of a check.
    pub check: Option<String>,
    /// With `check`: only those that are met, or only those that are not.
    pub met: Option<bool>,
    /// The rows of a table of the pack.
    pub table: Option<String>,
    /// The entries of an input list.
    pub input: Option<String>,
}

/// What a text marks by headings, labels, boxes and names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Marked {
    Decisions,
    Tasks,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Points {
    pub(crate) cues: Vec<String>,
    /// Added once when one of the cues is said.
    pub points: i64,
}

/// A value from a number on.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    #[serde(default)]
    pub(crate) least: i64,
    /// Only when so many statements were judged.
    #[serde(default)]
    pub of: usize,
    pub value: Value,
}

impl Step {
    /// The value of the first step that a number reaches.
    pub fn of(steps: &[Step], number: i64, judged: usize) -> Option<&Value> {
        let reached = |step: &&Step| number >= step.least && judged >= step.of;
        steps.iter().find(reached).map(|step| &step.value)
    }
}

/// A headed list in a composed Markdown text.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SectionHint {
    pub heading: String,
    /// The heading in texts of other languages, by code.
    #[serde(default)]
    pub headings: BTreeMap<String, String>,
    /// What stands under it; a list becomes bullets.
    pub of: Rule,
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

/// A sign that a rule may ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sign {
    Scam,
    /// Sent to everybody: a newsletter, an offer.
    Bulk,
    Automated,
    /// Money, service or data is lost unless somebody acts.
    Stake,
    Legal,
    Urgent,
    /// Says that there is no hurry.
    Calm,
    /// A question or a wish for an answer.
    Question,
    Event,
    Task,
    Deadline,
    Person,
    Company,
}

/// A value for texts that have all signs of one list and no sign of another.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SignStep {
    #[serde(default)]
    pub all: Vec<Sign>,
    #[serde(default)]
    pub none: Vec<Sign>,
    pub value: Value,
}

/// Which part of the event is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EventPart {
    Exists,
    Start,
    End,
    AllDay,
    /// The zone the text names, else the input.
    Zone,
    Place,
    /// An RFC 5545 rule.
    Repeats,
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
    #[default]
    Any,
    Letter,
    Capital,
}

impl Begins {
    pub fn allows(self, first: char) -> bool {
        match self {
            Begins::Any => true,
            Begins::Letter => first.is_alphabetic(),
            Begins::Capital => first.is_uppercase(),
        }
    }
}

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Speaker {
    /// The human, or no conversation at all.
    User,
    Assistant,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KindHint {
    Person,
    Organization,
    Any,
}

impl KindHint {
    pub fn fits(self, kind: NameKind) -> bool {
        match self {
            KindHint::Person => kind == NameKind::Person,
            KindHint::Organization => kind == NameKind::Organization,
            KindHint::Any => true,
        }
    }
}

fn three() -> usize {
    3
}
fn four() -> usize {
    4
}
fn five() -> usize {
    5
}
fn six() -> usize {
    6
}
fn eight() -> usize {
    8
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
