//! Everything the rules look at: the analysed text, scores, cues, dates, items, inputs.

use std::sync::OnceLock;

use chrono::{NaiveDate, Timelike as _};
use serde_json::{Map, Value};

use super::super::extract::Mention;
use super::super::extract::cues::{Index, decided, with_purpose};
use super::super::extract::dates::{self, DateTimeMention};
use super::super::lexicon::{Purpose, lexicon};
use super::super::rank::antecedents::{Leaning, corrected_by, leaning};
use super::super::rank::select::{Budget, Quoted, compose, pick};
use super::super::rank::{Matrix, quality, score};
use super::super::text::blocks::{Block, Role};
use super::super::text::finished::is_struck;
use super::super::text::words::spaced;
use super::super::text::{Kind, Text};
use super::gather::{Gathered, items_of};
use super::headlines::{self, ListEntry};
use super::hints::Hints;
use super::members::members;
use super::rule::{Marked, Over, Speaker};
use super::speakers;
use crate::markup::html;

/// Most items of a text or an input.
pub(crate) const ITEMS_MAX: usize = 2000;
/// Words of running text from which on a text needs nothing else to be summed up.
const PROSE_WORDS_MIN: usize = 8;
/// Words of running text from which on what is beside the matter is left out.
const POINT_WORDS_MIN: usize = 3;
/// Texts that have their say in a summary of several, and bytes of a sentence of one.
const TOGETHER_MAX: usize = 60;
const TOGETHER_BYTES: usize = 240;

/// What a rule looks at: sentences, and the item they belong to.
#[derive(Debug, Clone, Default)]
pub struct Focus {
    pub sentences: Vec<usize>,
    /// The items at hand: one, or a group.
    pub items: Vec<usize>,
    /// Its position among the elements made.
    pub(crate) ordinal: usize,
    /// What the kind of element says about itself: a row's cells, whether a statement is met.
    pub given: Map<String, Value>,
    /// Whether the focus is the whole text.
    pub whole: bool,
}

impl Focus {
    /// The item at hand; of a group the first.
    pub fn item(&self) -> Option<usize> {
        self.items.first().copied()
    }
}

#[derive(Debug, Clone, Default)]
pub struct Item {
    /// Its id, when it has one.
    pub id: Option<String>,
    /// Its members, when it is an object of an input.
    pub members: Map<String, Value>,
    /// The part it is, when it is one.
    pub part: Option<usize>,
    pub sentences: Vec<usize>,
    /// Its number and headline, when it is an entry of a numbered list.
    pub(crate) numbered: Option<ListEntry>,
}

pub struct Scene<'t, 'a> {
    pub text: &'t Text<'a>,
    pub(crate) matrix: Matrix,
    pub scores: Vec<f64>,
    pub inputs: &'t Map<String, Value>,
    pub items: Vec<Item>,
    pub hints: &'t Hints,
    /// Lengths in percent.
    pub percent: usize,
    /// Whether each part is a text of its own that has its say in a summary.
    pub(crate) apart: bool,
    /// The day of each part.
    days: Vec<Option<NaiveDate>>,
    concise: OnceLock<Vec<f64>>,
    index: OnceLock<Index<'t, 'a>>,
    whens: OnceLock<Vec<DateTimeMention>>,
    asks: OnceLock<Vec<usize>>,
    event: OnceLock<Option<(DateTimeMention, i64)>>,
}

impl<'t, 'a> Scene<'t, 'a> {
    pub fn new(
        text: &'t Text<'a>,
        parts: &[Gathered<'_>],
        inputs: &'t Map<String, Value>,
        hints: &'t Hints,
        percent: usize,
    ) -> Self {
        let matrix = Matrix::new(text);
        let scores = score(text, &matrix);
        let mut scene = Scene {
            text,
            matrix,
            scores,
            inputs,
            items: Vec::new(),
            hints,
            percent,
            apart: false,
            days: Vec::new(),
            concise: OnceLock::new(),
            index: OnceLock::new(),
            whens: OnceLock::new(),
            asks: OnceLock::new(),
            event: OnceLock::new(),
        };
        scene.items = scene.find_items(parts, hints);
        scene.days = scene.days_of_parts(parts);
        scene
    }

    pub fn all(&self) -> Focus {
        Focus {
            sentences: (0..self.text.sentences.len()).collect(),
            whole: true,
            ..Focus::default()
        }
    }

    pub(crate) fn item_focus(&self, item: usize) -> Focus {
        Focus {
            sentences: self.items[item].sentences.clone(),
            items: vec![item],
            ..Focus::default()
        }
    }

    /// The member of an item that heads it.
    pub(crate) fn headline_member<'s>(&'s self, item: &'s Item) -> Option<&'s str> {
        members().headlines.0.iter().find_map(|name| item.members.get(name)?.as_str())
    }

    /// Scores for choosing so many sentences: one alone need not say much, it must say the right thing.
    pub(crate) fn scores_for(&self, sentences: usize) -> &[f64] {
        if sentences != 1 {
            return &self.scores;
        }
        self.concise.get_or_init(|| {
            let scores = self.scores.iter().enumerate();
            scores.map(|(at, score)| score / quality::said(self.text, at)).collect()
        })
    }

    /// The cue index, built on first use.
    pub fn index(&self) -> &Index<'t, 'a> {
        self.index.get_or_init(|| Index::new(self.text))
    }

    /// The day that relative dates of a sentence count from: that of its own source.
    pub(crate) fn written_on(&self, sentence: usize) -> Option<NaiveDate> {
        self.days.get(self.text.sentences.get(sentence)?.part).copied().flatten()
    }

    /// The hour and minute at which a text of one part was written, where its input says it.
    pub(crate) fn written_at(&self) -> Option<(u32, u32)> {
        let mut names = self.hints.anchor.iter().filter_map(|name| reach(self.inputs, name));
        let given = names.find_map(Value::as_str).filter(|_| self.text.parts.len() == 1)?;
        let parsed = chrono::DateTime::parse_from_rfc3339(given);
        let parsed = parsed.or_else(|_| chrono::DateTime::parse_from_rfc2822(given)).ok()?;
        Some((parsed.hour(), parsed.minute()))
    }

    /// The day of each part: what its item or its source says, else what the text says of itself. A source without
    /// a day among others that have one does not take theirs.
    fn days_of_parts(&self, parts: &[Gathered<'_>]) -> Vec<Option<NaiveDate>> {
        let of_item = |part: usize| {
            let item = self.items.iter().find(|item| item.part == Some(part))?;
            members().days.0.iter().filter_map(|name| item.members.get(name)).find_map(day_of)
        };
        let all = 0..self.text.parts.len();
        let own_day = |at: usize| of_item(at).or_else(|| parts.get(at)?.day);
        let own: Vec<Option<NaiveDate>> = all.clone().map(own_day).collect();
        let is_source = |at: &usize| {
            parts.get(*at).is_some_and(|part| part.source.is_some() || part.item.is_some())
        };
        let is_one_of_several =
            own.iter().any(Option::is_some) && all.clone().filter(is_source).count() > 1;
        let mut names = self.hints.anchor.iter().filter_map(|name| reach(self.inputs, name));
        let given = names.find_map(day_of);
        let headed = |within: &dyn Fn(usize) -> bool| {
            let blocks = self.text.blocks.iter();
            let headers =
                blocks.filter(|block| block.kind == Kind::Header && within(block.part)).take(12);
            let said = headers.map(|block| &self.text.parts[block.part].text[block.text.clone()]);
            said.filter_map(dates::parse_anchor).next()
        };
        let shared = given.or_else(|| headed(&|_| true));
        let day = |at: usize| match own[at] {
            None if is_one_of_several && is_source(&at) => headed(&|part| part == at),
            None => shared,
            day => day,
        };
        all.map(day).collect()
    }

    /// The sentences that ask for something, kept from the first search.
    pub(crate) fn asked(&self, find: impl FnOnce() -> Vec<usize>) -> &[usize] {
        self.asks.get_or_init(find)
    }

    /// The event and its weight, kept from the first search.
    pub(crate) fn event(
        &self,
        find: impl FnOnce() -> Option<(DateTimeMention, i64)>,
    ) -> Option<(DateTimeMention, i64)> {
        *self.event.get_or_init(find)
    }

    /// Dates and times, found on first use.
    pub(crate) fn whens(&self) -> &[DateTimeMention] {
        // `Tomorrow` in a message is the day after it was written, whenever it is read.
        let written = |part: usize| self.days.get(part).copied().flatten();
        self.whens.get_or_init(|| dates::find_from(self.text, written, self.apart))
    }

    /// The dates and times that the text would have if its undated parts were of some day: what is true of all days
    /// can be read from them, and no day.
    pub(crate) fn whens_on_any_day(&self) -> Vec<DateTimeMention> {
        let undated = |part: usize| self.days.get(part).is_none_or(Option::is_none);
        let mut found = dates::find_from(self.text, |_| NaiveDate::from_ymd_opt(2001, 1, 1), false);
        found.retain(|when| undated(self.text.sentences[when.mention.sentence].part));
        found
    }

    fn find_items(&self, parts: &[Gathered<'_>], hints: &Hints) -> Vec<Item> {
        let given = hints
            .items
            .as_ref()
            .and_then(|hint| items_of(self.inputs, hint).map(|items| (hint, items)));
        if let Some((hint, items)) = given.filter(|_| parts.iter().all(|part| part.item.is_some()))
        {
            let is_text = |item: &Value| {
                item.as_object().is_none_or(|item| {
                    item.keys().all(|key| members().is_id(key) || members().sayings.has(key))
                })
            };
            if hint.split && items.len() == 1 && is_text(&items[0]) {
                let listed = self.listed_items();
                if listed.len() > 1 {
                    return listed;
                }
            }
            let make = |(index, value): (usize, Value)| {
                let mut members = value.as_object().cloned().unwrap_or_default();
                members.values_mut().for_each(without_markup);
                let id = hint.id.iter().find_map(|name| members.get(name)).map(plain);
                let sentences = self.sentences_of_part(index);
                Item { id, members, part: Some(index), sentences, numbered: None }
            };
            return items.into_iter().take(ITEMS_MAX).enumerate().map(make).collect();
        }
        if parts.len() > 1 {
            let make = |part: usize| Item {
                id: Some(self.text.parts[part].id.to_string()),
                part: Some(part),
                sentences: self.sentences_of_part(part),
                ..Item::default()
            };
            return (0..parts.len().min(ITEMS_MAX)).map(make).collect();
        }
        self.items_in_text()
    }

    fn items_in_text(&self) -> Vec<Item> {
        let listed = self.listed_items();
        let numbered = self.numbered_items();
        let is_marked = |item: &Item| item.numbered.as_ref().is_some_and(|entry| entry.is_marked);
        if numbered.len() > 1 && (numbered.len() >= listed.len() || numbered.iter().all(is_marked))
        {
            return numbered;
        }
        let lines = [Kind::Paragraph, Kind::Table];
        if listed.len() > 1 { listed } else { self.items_of_kinds(&lines) }
    }

    /// The numbered entries of a text of one part; those without a sentence are left out.
    fn numbered_items(&self) -> Vec<Item> {
        let Some(source) = self.text.parts.first().map(|part| part.text) else { return Vec::new() };
        let entries = headlines::numbered(source).into_iter().take(ITEMS_MAX);
        let mut from = 0;
        let mut items: Vec<Item> = Vec::new();
        for entry in entries {
            let rest = &self.text.sentences[from..];
            let first = from + rest.partition_point(|one| one.start < entry.whole.start);
            let rest = &self.text.sentences[first..];
            from = first + rest.partition_point(|one| one.start < entry.whole.end);
            let sentences: Vec<usize> = (first..from).collect();
            items.push(Item { sentences, numbered: Some(entry), ..Item::default() });
        }
        items.retain(|item| !item.sentences.is_empty());
        items
    }

    fn listed_items(&self) -> Vec<Item> {
        self.items_of_kinds(&[Kind::Item])
    }

    fn items_of_kinds(&self, kinds: &[Kind]) -> Vec<Item> {
        let says = |at: usize| !self.text.tokens_of(at).is_empty();
        let blocks = self.text.blocks.iter();
        let blocks =
            blocks.filter(|block| kinds.contains(&block.kind) && block.sentences.clone().any(says));
        blocks
            .take(ITEMS_MAX)
            .map(|block| Item { sentences: block.sentences.clone().collect(), ..Item::default() })
            .collect()
    }

    fn sentences_of_part(&self, part: usize) -> Vec<usize> {
        let first = self.text.sentences.partition_point(|sentence| sentence.part < part);
        let last = self.text.sentences.partition_point(|sentence| sentence.part <= part);
        (first..last).collect()
    }

    /// An input, of the item at hand before the flow's; dots reach inside.
    pub fn input(&self, name: &str, focus: &Focus) -> Option<&Value> {
        let members = focus.item().and_then(|item| self.items.get(item)).map(|item| &item.members);
        let found = members.into_iter().chain([self.inputs]).find_map(|map| reach(map, name));
        found.filter(|value| !value.is_null())
    }

    /// An input as text; `None` when absent or blank.
    pub(crate) fn input_text(&self, name: &str, focus: &Focus) -> Option<String> {
        self.input(name, focus)
            .map(plain)
            .map(|text| html::plain(text).trim().to_string())
            .filter(|text| !text.is_empty())
    }

    /// The sentences in focus that `over` asks for, in reading order.
    pub fn select(&self, over: &Over, focus: &Focus, who: Option<Speaker>) -> Vec<usize> {
        let mut found: Vec<usize> = Vec::new();
        let mut asked = false;
        if let Some(purpose) = over.purpose {
            asked = true;
            found.extend(with_purpose(self.index(), purpose, &over.cues));
            self.by_boxes(purpose, &mut found);
            // A question states no result and no pending task.
            if matches!(purpose, Purpose::Result | Purpose::Pending) {
                found.retain(|&at| !self.text.sentence(at).trim_end().ends_with('?'));
            }
            if purpose == Purpose::Pending {
                found.retain(|&at| !self.is_reported_done(at));
            }
        } else if !over.cues.is_empty() {
            asked = true;
            found.extend(self.index().sentences(over.cues.iter().map(String::as_str)));
        }
        if let Some(marked) = over.marked {
            asked = true;
            found.extend(match marked {
                Marked::Decisions => decided(self.text),
                Marked::Tasks => self.marked_tasks(),
            });
        }
        if over.asks {
            asked = true;
            found.extend(self.open_asks());
            found.sort_unstable();
            found.dedup();
        }
        if over.asks && over.purpose == Some(Purpose::Pending) {
            found.retain(|&at| {
                !self.accepts(at) && !self.answers_question(at) && !self.is_answered(at)
            });
        }
        if !asked {
            found.extend(focus.sentences.iter().copied());
        }
        let without = self.index().sentences(over.without.iter().map(String::as_str));
        found.retain(|at| {
            (focus.whole || focus.sentences.binary_search(at).is_ok())
                && without.binary_search(at).is_err()
        });
        found.retain(|&at| {
            self.text.block_of(at).kind != Kind::Columns
                && self.speaks(at, who)
                && self.text.tokens_of(at).len() >= over.least_words
        });
        // In a list each sentence stands alone. What is asked for stays asked for, whatever its day.
        let is_task = over.asks
            || matches!(over.marked, Some(Marked::Tasks))
            || matches!(over.purpose, Some(Purpose::Action | Purpose::Pending));
        found.retain(|&at| is_task || corrected_by(self.text, at).is_none());
        if over.opening {
            found.retain(|&at| self.tells(at));
            found.truncate(1);
        }
        if over.best {
            let budget = Budget { sentences: usize::MAX >> 8, bytes: usize::MAX >> 8 };
            if found.iter().any(|&at| self.tells(at)) {
                found.retain(|&at| self.tells(at));
            }
            found = pick(
                self.text,
                &self.matrix,
                &self.scores,
                &found,
                Budget { sentences: 40, ..budget },
            );
        }
        found
    }

    /// A box decides what its item is, whatever its words say: open boxes are to be done, ticked ones
    /// are done.
    fn by_boxes(&self, purpose: Purpose, found: &mut Vec<usize>) {
        let wanted = match purpose {
            Purpose::Action | Purpose::Pending => false,
            Purpose::Result => true,
            _ => return,
        };
        let marked = |at: usize| self.text.mark_of(at);
        found.retain(|&at| marked(at).is_none_or(|ticked| ticked == wanted));
        found.extend((0..self.text.sentences.len()).filter(|&at| marked(at) == Some(wanted)));
        found.sort_unstable();
        found.dedup();
    }

    fn speaks(&self, sentence: usize, who: Option<Speaker>) -> bool {
        let role = self.text.block_of(sentence).role;
        match who {
            None => true,
            Some(Speaker::User) => matches!(role, Role::None | Role::User | Role::Person),
            Some(Speaker::Assistant) => role == Role::Assistant,
        }
    }

    /// Sentences in focus that say a cue, each once.
    pub(crate) fn saying(&self, cues: &[String], focus: &Focus) -> Vec<usize> {
        let mut found = self.index().sentences(cues.iter().map(String::as_str));
        found.retain(|at| focus.whole || focus.sentences.binary_search(at).is_ok());
        found
    }

    /// Mentions in focus of a cue.
    pub(crate) fn mentions(&self, cue: &str, focus: &Focus) -> Vec<Mention> {
        let mut found = self.index().find(cue);
        found.retain(|mention| {
            focus.whole || focus.sentences.binary_search(&mention.sentence).is_ok()
        });
        found
    }

    /// Whether the focus has a sentence with the purpose.
    pub(crate) fn has_purpose(&self, purpose: Purpose, focus: &Focus) -> bool {
        let found = with_purpose(self.index(), purpose, &[]);
        found.iter().any(|at| focus.whole || focus.sentences.binary_search(at).is_ok())
    }

    /// The summary of a text whose content is its sentences.
    pub(crate) fn sentence_summary(&self, focus: &Focus, budget: Budget) -> Quoted {
        if self.apart && focus.whole && budget.sentences > 1 {
            return self.each_says(focus, budget);
        }
        let scores = self.scores_for(budget.sentences);
        let picked = pick(self.text, &self.matrix, scores, &self.prose(focus), budget);
        let quoted = match speakers::is_between_people(self.text) {
            true => speakers::told(self.text, &picked, budget),
            false => compose(self.text, &picked, budget),
        };
        if quoted.text.chars().any(char::is_alphanumeric) {
            return quoted;
        }
        self.opening(budget.bytes)
    }

    /// How many sentences a text without lists has, where all of them fill at most half of the bytes.
    pub(crate) fn length_of_all(&self, focus: &Focus, bytes: usize) -> Option<usize> {
        let mut prose = self.prose(focus);
        if prose.iter().any(|&at| self.text.block_of(at).kind == Kind::Item) {
            return None;
        }
        prose.retain(|&at| quality::courtesy(self.text, at).is_none());
        let length = |&at: &usize| self.text.sentences[at].end - self.text.sentences[at].start + 1;
        let all: usize = prose.iter().map(length).sum();
        (!prose.is_empty() && all * 2 <= self.scaled(bytes)).then_some(prose.len())
    }

    /// A summary of several texts, a line for each: its best sentence, then what else there is room for.
    /// It grows with the number of texts.
    fn each_says(&self, focus: &Focus, budget: Budget) -> Quoted {
        let mut parts: Vec<(usize, usize)> = Vec::new();
        let prose = self.prose(focus);
        let allowed = |at: usize| prose.binary_search(&at).is_ok();
        let is_leaning = |at: usize| leaning(self.text, at, allowed, |_| false) != Leaning::Free;
        for group in
            prose.chunk_by(|&a, &b| self.text.sentences[a].part == self.text.sentences[b].part)
        {
            let best = group.iter().copied().max_by(|&a, &b| {
                // Alone, a sentence that leans on another says little.
                let alone = |at| !is_leaning(at);
                let worth = self.scores[a].total_cmp(&self.scores[b]).then(b.cmp(&a));
                alone(a).cmp(&alone(b)).then(worth)
            });
            let right =
                |best| corrected_by(self.text, best).filter(|at| allowed(*at)).unwrap_or(best);
            parts.extend(best.map(|best| (self.text.sentences[group[0]].part, right(best))));
        }
        // Of very many texts those that say most.
        parts.sort_by(|a, b| self.scores[b.1].total_cmp(&self.scores[a.1]).then(a.cmp(b)));
        parts.truncate(TOGETHER_MAX);
        let mut picked: Vec<usize> = parts.iter().map(|(_, best)| *best).collect();
        let more = Budget {
            sentences: budget.sentences.saturating_sub(picked.len()),
            bytes: budget.bytes.saturating_sub(picked.len() * TOGETHER_BYTES),
        };
        if more.sentences > 0 {
            let rest: Vec<usize> = prose.into_iter().filter(|at| !picked.contains(at)).collect();
            picked.extend(pick(self.text, &self.matrix, &self.scores, &rest, more));
        }
        picked.sort_unstable();
        let (mut quoted, mut part) = (Quoted::default(), usize::MAX);
        for at in picked {
            let here = self.text.sentences[at].part;
            if here != part && part != usize::MAX {
                quoted.push_plain("\n");
            }
            let mut sentence = Quoted::default();
            sentence.push_sentence(self.text, at, TOGETHER_BYTES);
            if here == part {
                quoted.push_plain(" ");
            }
            quoted.push(&sentence);
            part = here;
        }
        quoted
    }

    /// Whether a sentence is running text that says more than politeness.
    fn tells(&self, at: usize) -> bool {
        quality::is_prose(self.text.block_of(at).kind)
            && !quality::is_pleasantry(self.text, at)
            && !is_struck(self.text.sentence(at))
    }

    /// The sentences of running text; where there is little, those of quotes and tables too; all but code where there
    /// is nothing else.
    pub(crate) fn prose(&self, focus: &Focus) -> Vec<usize> {
        let mut found = focus.sentences.clone();
        found.retain(|&at| self.tells(at));
        let words: usize = found.iter().map(|&at| self.text.tokens_of(at).len()).sum();
        if words >= PROSE_WORDS_MIN || !found.is_empty() && !self.points_below(&found) {
            return self.to_the_point(found);
        }
        // `See below.` sums up nothing: then what is quoted below counts too.
        let mut quoted = focus.sentences.clone();
        quoted.retain(|&at| {
            let kind = self.text.block_of(at).kind;
            let is_shown = quality::is_prose(kind)
                || matches!(kind, Kind::Quote | Kind::Table | Kind::Columns);
            is_shown && !quality::is_greeting_question(self.text.sentence(at))
        });
        if !quoted.is_empty() {
            return quoted;
        }
        // Code is no sentence.
        let mut rest = focus.sentences.clone();
        rest.retain(|&at| self.text.block_of(at).kind != Kind::Code);
        if rest.is_empty() { focus.sentences.clone() } else { rest }
    }

    /// Whether few words say nothing without what is quoted, or stand among tables: they pass it on, or ask of it.
    fn points_below(&self, own: &[usize]) -> bool {
        let quotes = |block: &Block| block.kind == Kind::Quote;
        if !self.text.blocks.iter().any(quotes) {
            return true;
        }
        let said: String = own.iter().map(|&at| spaced(self.text.sentence(at))).collect();
        let passes_on = |phrase: &String| said.contains(&format!(" {phrase} "));
        lexicon().mail.passes_on.iter().any(passes_on)
            || own.iter().all(|&at| self.text.sentence(at).trim_end().ends_with('?'))
    }

    /// Sentences without those that are beside the matter: a section about the licence, and where others say more, words
    /// about it. A text about licences is about them.
    fn to_the_point(&self, found: Vec<usize>) -> Vec<usize> {
        let words = |found: &[usize]| -> usize {
            found.iter().map(|&at| self.text.tokens_of(at).len()).sum()
        };
        let mut rest = found.clone();
        rest.retain(|&at| !quality::is_aside(self.text, at) && !self.text.is_around_history(at));
        let found = if words(&rest) >= POINT_WORDS_MIN { rest } else { found };
        let mut rest = found.clone();
        rest.retain(|&at| !quality::leads_to_code(self.text, at));
        let found = if words(&rest) >= PROSE_WORDS_MIN { rest } else { found };
        let mut rest = found.clone();
        rest.retain(|&at| !quality::is_beside(self.text, at));
        if words(&rest) >= PROSE_WORDS_MIN && words(&rest) * 2 > words(&found) {
            rest
        } else {
            found
        }
    }

    /// The first bytes of the text: what stands in where no sentence says anything.
    fn opening(&self, bytes: usize) -> Quoted {
        let first =
            self.text.parts.iter().enumerate().find(|(_, part)| !part.text.trim().is_empty());
        let Some((part, text)) = first.map(|(index, part)| (index, part.text)) else {
            return Quoted::default();
        };
        let start = text.len() - text.trim_start().len();
        Quoted::range(self.text, part, start, text.trim_end().len(), bytes)
    }

    /// A length under the variant's percentage.
    pub(crate) fn scaled(&self, length: usize) -> usize {
        length.saturating_mul(self.percent) / 100
    }

    /// A whole sentence, shortened.
    pub fn quote(&self, sentence: usize, bytes: usize) -> Quoted {
        let place = &self.text.sentences[sentence];
        Quoted::range(self.text, place.part, place.start, place.end, bytes)
    }

    /// The bytes of a mention.
    pub(crate) fn quote_mention(&self, mention: Mention, bytes: usize) -> Quoted {
        Quoted::range(
            self.text,
            self.text.sentences[mention.sentence].part,
            mention.start,
            mention.end,
            bytes,
        )
    }

    /// The sentence that holds a byte of a part.
    pub(crate) fn sentence_at(&self, part: usize, byte: usize) -> Option<usize> {
        let after = self
            .text
            .sentences
            .partition_point(|sentence| (sentence.part, sentence.start) <= (part, byte));
        let at = after.checked_sub(1)?;
        (self.text.sentences[at].part == part).then_some(at)
    }
}

/// What is copied from an item is shown as it is.
fn without_markup(value: &mut Value) {
    if let Value::String(text) = value {
        *text = html::plain(std::mem::take(text));
    }
}

fn day_of(value: &Value) -> Option<NaiveDate> {
    match value {
        Value::String(text) => dates::parse_anchor(text),
        Value::Number(number) => epoch_day(number.as_i64()?),
        _ => None,
    }
}

fn epoch_day(value: i64) -> Option<NaiveDate> {
    let seconds = if value.abs() > 100_000_000_000 { value / 1000 } else { value };
    chrono::DateTime::from_timestamp(seconds, 0).map(|time| time.date_naive())
}

fn reach<'v>(map: &'v Map<String, Value>, name: &str) -> Option<&'v Value> {
    let mut pieces = name.split('.');
    let first = map.get(pieces.next()?)?;
    pieces.try_fold(first, |value, piece| match value {
        Value::Array(list) => list.get(piece.parse::<usize>().ok()?),
        other => other.get(piece),
    })
}

/// A scalar as text; lists joined by commas.
pub fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        Value::Array(list) => list.iter().map(plain).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}
