//! Evaluates the rules that find one value or a list of simple values.
//!
//! A rule looks at its focus (the whole text or one element) and gives what it finds or nothing. No
//! rule reads another property: those that do are in `dependent`.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::super::extract::names;
use super::super::extract::tokens;
use super::super::extract::{Mention, dates};
use super::super::lexicon::lexicon;
use super::super::phrases::key_phrases;
use super::super::rank::quality;
use super::super::rank::select::{Quoted, shorten};
use super::super::text::blocks::Role;
use super::super::text::words::{fold, spaced};
use super::super::text::{Kind, lines};
use super::backing::Backing;
use super::filled::Filled;
use super::members::members;
use super::page::{self, PageHint};
use super::rule::{Begins, KindHint, Part, Points, Rule, Speaker, Style};
use super::scene::{Focus, Scene, plain};
use super::texts::{self, capitalize, tag, text_of};
use super::{
    alike, checks, conversation, due, elements, event, head, latex, mail, objects, people, ranking,
    speakers, subject,
};
use crate::markup::html;

/// A text of so many sentences is short.
const SHORT_SENTENCES: usize = 8;
/// Endings for the other sex behind a sign.
const ENDINGS: [&str; 11] =
    ["e", "a", "o", "se", "ne", "euse", "rice", "trice", "in", "innen", "ere"];
/// Phrases looked at for one of several words.
const PHRASES_MAX: usize = 8;

impl Scene<'_, '_> {
    /// Evaluates a rule; rules that look at other properties give nothing here.
    pub(crate) fn eval(&self, rule: &Rule, focus: &Focus) -> Filled {
        match rule {
            Rule::Summary { sentences, bytes, whole } => {
                let all = whole.then(|| self.length_of_all(focus, *bytes)).flatten();
                let told = self.summary(focus, all.unwrap_or(*sentences), *bytes);
                Filled::quoted(if focus.whole { self.with_about(told, focus) } else { told })
            }
            Rule::Title { inputs, bytes, without } => self.title(inputs, *bytes, without, focus),
            Rule::Input { names } => self.given(names, focus),
            Rule::Const { value } => Filled::Value(value.clone()),
            Rule::First { of } => of
                .iter()
                .map(|rule| self.eval(rule, focus))
                .find(|found| !found.is_empty())
                .unwrap_or_default(),
            Rule::Said { cues, of } => match self.saying(cues, focus).is_empty() {
                true => Filled::Nothing,
                false => self.eval(of, focus),
            },
            Rule::Conversation { of } => match speakers::is_between_people(self.text) {
                true => self.eval(of, focus),
                false => Filled::Nothing,
            },
            Rule::All { of } => Filled::List(
                of.iter().flat_map(|rule| texts::elements(self.eval(rule, focus))).collect(),
            ),
            Rule::Case { of, values } => {
                let value = text_of(self.eval(of, focus));
                values.get(&value).map(|rule| self.eval(rule, focus)).unwrap_or_default()
            }
            Rule::Text { text, parts } => texts::text(self, text, parts, focus),
            Rule::Joined { of, between } => texts::joined(self.eval(of, focus), between),
            Rule::Label { labels, bytes } => self.label(labels, *bytes, focus),
            Rule::After { cues, until, words, begins, keep } => {
                self.after(cues, until, *words, *begins, *keep, focus)
            }
            Rule::Phrases { most, style } => Filled::List(self.phrases(*most, *style, focus)),
            Rule::Phrase { style, several_words } => self.phrase(*style, *several_words, focus),
            Rule::Subject { aspect: true } => subject::aspect(self, focus),
            Rule::Subject { aspect: false } => subject::subject(self, focus),
            Rule::SharedPhrase => alike::shared_phrase(self, focus),
            Rule::Headline => {
                focus.item().map_or(Filled::Nothing, |at| Filled::text(alike::headline(self, at)))
            }
            Rule::Number { names } => {
                focus.item().map_or(Filled::Nothing, |at| alike::number(self, at, names))
            }
            Rule::Sentences { over, most, bytes, who, named } => {
                let named = *named && speakers::is_between_people(self.text);
                let few = || conversation::few_said(self, &focus.sentences);
                let few = (named && over.best && over.purpose.is_none()).then(few).flatten();
                let found = few.unwrap_or_else(|| self.select(over, focus, *who));
                let most = self.scaled(*most).max(1);
                // Tasks that look alike are still several.
                let found = match over.marked {
                    Some(_) => found.into_iter().take(most).collect(),
                    None => self.best_of(found, most),
                };
                let quote = |at| match named {
                    true => conversation::with_speaker(self, at, *bytes),
                    false => self.quote_from(at, 0, *bytes),
                };
                Filled::List(found.into_iter().map(|at| Filled::quoted(quote(at))).collect())
            }
            Rule::Sentence { over, bytes, who, bare } => self
                .best_of(self.under_headings(self.select(over, focus, *who)), 1)
                .first()
                .map_or(Filled::Nothing, |&at| {
                    let skipped = if *bare { lines::entry_head(self.text.sentence(at)) } else { 0 };
                    Filled::quoted(self.quote_from(at, skipped, *bytes))
                }),
            Rule::When { part, cues, only, without } => {
                self.when(*part, cues, *only, without, focus)
            }
            Rule::Event { part, inputs } => event::part(self, *part, inputs),
            Rule::Due { asked } => match due::deadline(self, focus, *asked) {
                Some(when) => self.dated(when.iso_date(), when.mention),
                None => Filled::Nothing,
            },
            Rule::Signs { steps } => mail::step(self, steps),
            Rule::Opening { has, without, lines, words } => {
                head::part(self, has, without, *lines, *words)
            }
            Rule::NameOfAddress { without } => head::name_of_address(self, without, focus),
            Rule::Before { cues, words } => self.before(cues, *words, focus),
            Rule::LastDay { names } => {
                let days = self
                    .items
                    .iter()
                    .rev()
                    .flat_map(|item| names.iter().filter_map(|name| item.members.get(name)));
                let day = days.filter_map(Value::as_str).find_map(dates::parse_anchor);
                match day {
                    Some(day) => Filled::text(day.to_string()),
                    None => self.last_dated_item(),
                }
            }
            Rule::Duration => {
                let found = focus.sentences.iter().find_map(|&at| dates::duration(self.text, at));
                found.map_or(Filled::Nothing, |(minutes, _)| Filled::Value(json!(minutes)))
            }
            Rule::Amount { cues } => self.mention(cues, focus, tokens::amounts),
            Rule::Url { prefer, inputs } => self.url(prefer, inputs, focus),
            Rule::Email => self.mention(&[], focus, tokens::emails),
            Rule::People { inputs, most } => people::people(self, inputs, *most, focus),
            Rule::Names { most } => Filled::List(self.names(KindHint::Any, *most, focus)),
            Rule::Name { kind } => {
                self.names(*kind, 1, focus).into_iter().next().unwrap_or_default()
            }
            Rule::Country => {
                let found = focus.sentences.iter().find_map(|&at| names::country(self.text, at));
                found.map_or(Filled::Nothing, |(name, _)| Filled::text(name))
            }
            Rule::Enum { values, fallback, input, latest, weak, strong } => {
                let strong = strong.as_deref();
                let found =
                    self.choose(values, fallback, input.as_deref(), (*latest, strong), focus);
                let is_carried = |cues| weak.is_empty() || self.is_carried(cues, weak, focus);
                match values.get(&text_of(found.clone())) {
                    Some(cues) if !is_carried(cues) => Filled::Value(fallback.clone()),
                    _ => found,
                }
            }
            Rule::YesNo { yes, no, purpose, fallback, yes_value, no_value } => {
                let said: Vec<bool> = yes
                    .iter()
                    .flat_map(|cue| self.mentions(cue, focus))
                    .map(|mention| self.is_denied(mention))
                    .collect();
                let says_no = !self.saying(no, focus).is_empty()
                    || (!said.is_empty() && said.iter().all(|denied| *denied));
                let says_yes = said.contains(&false)
                    || purpose.is_some_and(|purpose| self.has_purpose(purpose, focus));
                Filled::Value(
                    if says_no {
                        no_value
                    } else if says_yes {
                        yes_value
                    } else {
                        fallback
                    }
                    .clone(),
                )
            }
            Rule::Score { base, add, least, most } => match self.points(*base, add, focus) {
                Some(points) => Filled::Value(json!(points.clamp(*least, *most))),
                None => Filled::Nothing,
            },
            Rule::Count { over, least } => {
                match elements::elements(self, over, usize::MAX, focus).len() {
                    few if few < *least => Filled::Nothing,
                    count => Filled::Value(json!(count)),
                }
            }
            Rule::Share { check, steps, barred, fallback } => match self.hints.checks.get(check) {
                Some(check) => checks::share(self, check, steps, barred, fallback, focus),
                None => Filled::Value(fallback.clone()),
            },
            Rule::Formality { check } => {
                let check = self.hints.checks.get(check);
                let needed = check.and_then(|check| checks::formality(self, check, focus));
                needed.map_or(Filled::Nothing, |needed| Filled::Value(json!(needed)))
            }
            Rule::Language => Filled::text(self.text.language.code()),
            Rule::Objects { over, most, fields } => {
                objects::objects(self, over, *most, fields, focus)
            }
            Rule::List { over, most, of, distinct } => {
                objects::list(self, over, *most, of, *distinct, focus)
            }
            Rule::Object { fields } => objects::object(self, fields, focus),
            Rule::This { bytes, bare } => self.this(*bytes, *bare, focus),
            Rule::Given { name } => {
                focus.given.get(name).map_or(Filled::Nothing, |value| Filled::Value(value.clone()))
            }
            Rule::Ids => objects::ids_value(self, focus),
            Rule::Ordinal { prefix, digits } => {
                Filled::text(format!("{prefix}{:0width$}", focus.ordinal + 1, width = *digits))
            }
            Rule::Repeated => match &self.hints.ranking {
                Some(ranking) => ranking::repeated(self, ranking),
                None => Filled::Nothing,
            },
            Rule::Compose { sections } => texts::compose(self, sections, focus),
            Rule::LabelledNumbers { most } => self.labelled_numbers(*most, focus),
            Rule::Page { title, outline, untitled, front_matter } => {
                page::page(self, &PageHint { title, outline, untitled, front_matter })
            }
            Rule::LatexPage { filename, untitled, front_matter } => {
                latex::page(self, filename, untitled, front_matter)
            }
            Rule::Confidence { .. }
            | Rule::QuoteOf { .. }
            | Rule::Copy { .. }
            | Rule::Found { .. }
            | Rule::Shortened { .. }
            | Rule::Where { .. } => Filled::Nothing,
        }
    }

    /// A summary behind what the text is about, unless it names that: `Lumen Analytics: Apply by …`.
    fn with_about(&self, told: Quoted, focus: &Focus) -> Quoted {
        let about = self.hints.about.as_ref().map(|rule| self.eval(rule, focus));
        let Some(Filled::Text(mut about)) = about else { return told };
        let name = spaced(&about.text);
        if name.trim().is_empty() || spaced(&told.text).contains(&name) {
            return told;
        }
        about.push_plain(": ");
        about.push(&told);
        about
    }

    /// Whether the words before a mention deny it: `we cannot sponsor visas`.
    pub(crate) fn is_denied(&self, mention: Mention) -> bool {
        const NEAR: usize = 5;
        let tokens = self.text.tokens_of(mention.sentence);
        let at = tokens.partition_point(|token| (token.start as usize) < mention.start);
        let before = &tokens[at.saturating_sub(NEAR)..at];
        before.iter().any(|token| lexicon().denials.contains(self.text.folded(token)))
    }

    /// The day the last item that begins with one begins with.
    fn last_dated_item(&self) -> Filled {
        let opens = |item: &super::scene::Item| {
            let &first = item.sentences.first()?;
            let place = &self.text.sentences[first];
            self.whens().iter().copied().find(|when| {
                when.mention.sentence == first
                    && when.date.is_some()
                    && !when.relative
                    && when.mention.start <= place.start + 2
            })
        };
        let when = self.items.iter().rev().find_map(opens);
        when.map_or(Filled::Nothing, |when| self.dated(when.iso_date(), when.mention))
    }

    /// A sentence from some byte of it on, shortened, behind the name of the program that says it, if one does.
    fn quote_from(&self, sentence: usize, skipped: usize, bytes: usize) -> Quoted {
        let place = &self.text.sentences[sentence];
        let mut quoted = Quoted::default();
        quoted.push_assistant(self.text, sentence);
        let room = bytes.saturating_sub(quoted.text.len());
        quoted.push_range(self.text, place.part, place.start + skipped, place.end, room);
        quoted
    }

    fn given(&self, names: &[String], focus: &Focus) -> Filled {
        let mut found =
            names.iter().filter_map(|name| self.input(name, focus)).map(|value| match value {
                Value::String(text) => Filled::Value(json!(html::plain(text.clone()))),
                other => Filled::Value(other.clone()),
            });
        found.find(|value| !value.is_empty()).unwrap_or_default()
    }

    fn title(&self, inputs: &[String], bytes: usize, without: &[String], focus: &Focus) -> Filled {
        if let Some(given) = inputs.iter().find_map(|name| self.input_text(name, focus)) {
            let line = given.lines().next().unwrap_or_default();
            return Filled::text(shorten(strip_reply_marks(line), bytes));
        }
        let mail = &lexicon().mail;
        let labels: Vec<String> =
            mail.subject_labels.iter().chain(&mail.title_labels).cloned().collect();
        let subject = self.label(&labels, bytes, focus);
        if !subject.is_empty() {
            return subject;
        }
        let parts = self.saying(without, focus);
        let of_kind = |wanted: fn(&Kind) -> bool| {
            let named = |at: &usize| wanted(&self.text.block_of(*at).kind) && !parts.contains(at);
            focus.sentences.iter().copied().find(named)
        };
        let opens = |at: &usize| focus.sentences.iter().take(2).any(|first| first == at);
        if let Some(heading) = of_kind(|kind| matches!(kind, Kind::Heading(_))).filter(opens) {
            return Filled::quoted(self.quote_trimmed(heading, bytes));
        }
        if let Some(opening) = self.opening_line(focus, bytes) {
            return Filled::quoted(opening);
        }
        let prose = |at: &usize| !matches!(self.text.block_of(*at).kind, Kind::Heading(_));
        let said: Vec<usize> = self
            .select(&Default::default(), focus, Some(Speaker::User))
            .into_iter()
            .filter(prose)
            .filter(|&at| !quality::is_pleasantry(self.text, at))
            .take(12)
            .collect();
        // A short text is named by what it opens with.
        let opening = said.first().copied().filter(|&at| {
            focus.sentences.len() <= SHORT_SENTENCES && self.text.tokens_of(at).len() > 2
        });
        let best = opening
            .or_else(|| self.best_of(said, 1).first().copied())
            .or(focus.sentences.first().copied());
        match best {
            Some(at) => Filled::quoted(self.quote_trimmed(at, bytes)),
            None => Filled::quoted(self.summary(focus, 1, bytes)),
        }
    }

    /// The first line of a text that looks like its title: short, without a stop, and with more below.
    fn opening_line(&self, focus: &Focus, bytes: usize) -> Option<Quoted> {
        let first = *focus.sentences.first()?;
        let block = self.text.block_of(first);
        if block.kind != Kind::Paragraph || block.role != Role::None {
            return None;
        }
        let place = &self.text.sentences[first];
        let source = self.text.parts[place.part].text;
        if !source[..place.start].trim().is_empty() {
            return None;
        }
        let (line, below) = source[place.start..].split_once('\n')?;
        let is_more = below.trim().len() > line.len();
        let title = lines::opens_as_title(line) && is_more;
        let end = place.start + line.trim_end().len();
        title.then(|| Quoted::range(self.text, place.part, place.start, end, bytes))
    }

    fn quote_trimmed(&self, sentence: usize, bytes: usize) -> Quoted {
        let place = &self.text.sentences[sentence];
        let said = self.text.sentence(sentence);
        let start = place.start + said.len() - said.trim_start_matches(['*', '_', '#', ' ']).len();
        let end = (place.start + said.trim_end_matches(['.', ':', '*', '_', ' ']).len()).max(start);
        Quoted::range(self.text, place.part, start, end, bytes)
    }

    /// Up to `most` of the sentences, the best by score, in reading order.
    pub(crate) fn best_of(&self, mut sentences: Vec<usize>, most: usize) -> Vec<usize> {
        let scores = self.scores_for(most);
        sentences.sort_by(|&a, &b| scores[b].total_cmp(&scores[a]).then(a.cmp(&b)));
        let mut kept: Vec<usize> = Vec::new();
        for at in sentences {
            if kept.len() == most {
                break;
            }
            if kept.iter().all(|&other| self.matrix.cosine(at, other) < 0.8) {
                kept.push(at);
            }
        }
        kept.sort_unstable();
        kept
    }

    /// For a heading the first sentence below it: `Limitations` is no statement.
    fn under_headings(&self, found: Vec<usize>) -> Vec<usize> {
        let heads = |at: usize| matches!(self.text.block_of(at).kind, Kind::Heading(_));
        let plain: Vec<usize> = found.iter().copied().filter(|&at| !heads(at)).collect();
        if !plain.is_empty() {
            return plain;
        }
        let place = |at: usize| (self.text.block_of(at).part, self.text.block_of(at).section);
        let below = |at: usize| {
            let mut rest = at + 1..self.text.sentences.len();
            rest.find(|&other| !heads(other)).filter(|&other| place(other) == place(at))
        };
        found.into_iter().filter_map(below).collect()
    }

    fn label(&self, labels: &[String], bytes: usize, focus: &Focus) -> Filled {
        let wanted: Vec<String> = labels.iter().map(|label| fold(label)).collect();
        let parts: Vec<usize> = match focus.whole {
            true => (0..self.text.parts.len()).collect(),
            false => focus
                .sentences
                .first()
                .map(|&at| self.text.sentences[at].part)
                .into_iter()
                .collect(),
        };
        let (from, to) = match (focus.whole, focus.sentences.first(), focus.sentences.last()) {
            (false, Some(&first), Some(&last)) => {
                (self.text.block_of(first).text.start, self.text.sentences[last].end)
            }
            _ => (0, usize::MAX),
        };
        let mut best: Option<(usize, Quoted)> = None;
        for part in parts {
            for_each_line(self.text.parts[part].text, |start, line| {
                if start + line.len() < from || start > to {
                    return;
                }
                let Some(found) = lines::labelled(line).filter(|found| !found.value.is_empty())
                else {
                    return;
                };
                let label = fold(line[found.label.clone()].trim());
                if let Some(rank) = wanted
                    .iter()
                    .position(|wanted| *wanted == label)
                    .filter(|rank| best.as_ref().is_none_or(|(other, _)| rank < other))
                {
                    let value = line[found.value.clone()].trim_end_matches(['*', '_', ' ']);
                    // The value ends with the first sentence.
                    let at = start + found.value.start;
                    let end = self
                        .sentence_at(part, at)
                        .map(|sentence| self.text.sentences[sentence].end)
                        .filter(|end| (at + 1..at + value.len()).contains(end));
                    let value = end.map_or(value, |end| value[..end - at].trim_end_matches('.'));
                    best = Some((
                        rank,
                        Quoted::range(
                            self.text,
                            part,
                            start + found.value.start,
                            start + found.value.start + value.len(),
                            bytes,
                        ),
                    ));
                }
            });
        }
        best.map_or(Filled::Nothing, |(_, quoted)| Filled::quoted(quoted))
    }

    fn after(
        &self,
        cues: &[String],
        until: &[String],
        words: usize,
        begins: Begins,
        keep: bool,
        focus: &Focus,
    ) -> Filled {
        for mention in cues.iter().flat_map(|cue| self.gapped(cue, focus)) {
            let Some(mut range) = self.words_after(mention, until, words) else { continue };
            let said = self.quote_mention(range, 200).text;
            if said.chars().next().is_some_and(|first| begins.allows(first)) {
                if keep {
                    range.start = self.with_number(mention);
                }
                return Filled::quoted(self.quote_mention(range, 200));
            }
        }
        Filled::Nothing
    }

    /// Mentions of a cue; `…` in it stands for a few words: `sucht … eine`.
    fn gapped(&self, cue: &str, focus: &Focus) -> Vec<Mention> {
        /// Most bytes that `…` stands for.
        const GAP_BYTES_MAX: usize = 40;
        let Some((first, last)) = cue.split_once('…') else { return self.mentions(cue, focus) };
        let ends = self.mentions(last, focus);
        let joined = self.mentions(first, focus).into_iter().filter_map(|start| {
            let near = |end: &&Mention| {
                end.sentence == start.sentence
                    && (start.end..=start.end + GAP_BYTES_MAX).contains(&end.start)
            };
            ends.iter().find(near).map(|end| Mention { end: end.end, ..start })
        });
        joined.collect()
    }

    /// The capitalized words before a cue: `Acme is hiring`; of a sentence with commas those it opens with.
    fn before(&self, cues: &[String], words: usize, focus: &Focus) -> Filled {
        for mention in cues.iter().flat_map(|cue| self.mentions(cue, focus)) {
            let tokens = self.text.tokens_of(mention.sentence);
            let source = self.text.parts[self.text.sentences[mention.sentence].part].text;
            let high = |at: usize| {
                let word = self.text.token_text(mention.sentence, &tokens[at]);
                word.starts_with(|c: char| c.is_uppercase() || c.is_ascii_digit())
            };
            let joined = |at: usize| {
                let gap = &source[tokens[at].end as usize..tokens[at + 1].start as usize];
                matches!(gap, " " | " & " | "-" | "." | "'" | "’")
            };
            let opens = tokens[0].start as usize;
            // `Acme (40 people) is hiring`
            let before = source[opens..mention.start].trim_end();
            let bracket = before.ends_with(')').then(|| before.rfind('(')).flatten();
            let stop = bracket.map_or(mention.start, |bracket| opens + bracket);
            let cue = tokens.partition_point(|token| (token.start as usize) < stop);
            let lead = &source[opens..stop];
            let ends = match lead.find(", ") {
                Some(comma) => {
                    let stop = tokens[0].start as usize + comma;
                    tokens.partition_point(|token| (token.end as usize) <= stop)
                }
                None => cue,
            };
            let Some(last) = ends.checked_sub(1).filter(|&last| high(last)) else { continue };
            let mut first = last;
            while first > 0 && last - first + 1 < words && joined(first - 1) {
                let links =
                    lexicon().names.connective.contains(self.text.folded(&tokens[first - 1]));
                // `Fournil de Colmar`
                let over = links && first > 1 && last - first + 2 < words;
                match () {
                    () if high(first - 1) => first -= 1,
                    () if over && high(first - 2) && joined(first - 2) => first -= 2,
                    () => break,
                }
            }
            while first < last && self.text.term(&tokens[first]).is_none() {
                first += 1;
            }
            if self.text.term(&tokens[first]).is_none() {
                continue;
            }
            let start = tokens[first].start as usize;
            let end = tokens[last].end as usize;
            return Filled::quoted(self.quote_mention(Mention { start, end, ..mention }, 120));
        }
        Filled::Nothing
    }

    /// The start of a mention, or of the number right before it: `12 rue des Lilas`.
    fn with_number(&self, mention: Mention) -> usize {
        let tokens = self.text.tokens_of(mention.sentence);
        let at = tokens.partition_point(|token| (token.start as usize) < mention.start);
        let Some(before) = at.checked_sub(1).map(|before| tokens[before]) else {
            return mention.start;
        };
        let numbered = self.text.folded(&before).bytes().all(|byte| byte.is_ascii_digit());
        match numbered && before.end as usize + 1 == mention.start {
            true => before.start as usize,
            false => mention.start,
        }
    }

    fn words_after(&self, mention: Mention, until: &[String], words: usize) -> Option<Mention> {
        let place = &self.text.sentences[mention.sentence];
        let source = self.text.parts[place.part].text;
        let tokens = self.text.tokens_of(mention.sentence);
        let first = tokens.iter().position(|token| token.start as usize >= mention.end)?;
        if !source[mention.end..tokens[first].start as usize]
            .trim_matches([' ', '"', '“', '*', ':', '.', ')'])
            .is_empty()
        {
            return None;
        }
        let ends = |at: usize| {
            let gap = &source[tokens[at - 1].end as usize..tokens[at].start as usize];
            let gap = if gap.trim().is_empty() { " " } else { gap };
            until.iter().any(|word| self.text.folded(&tokens[at]) == word)
                || !matches!(gap, " " | "-" | "/" | " & " | "." | "'" | "’" | " - ")
        };
        // `développeur·se`, `Diseñador/a`: an ending for the other sex is a part of its word.
        let is_ending = |at: usize| {
            let gap = &source[tokens[at - 1].end as usize..tokens[at].start as usize];
            matches!(gap, "·" | "/" | "(" | "*" | ":" | "_" | "-" | ".")
                && ENDINGS.contains(&self.text.folded(&tokens[at]))
        };
        let goes_on = |at: usize| {
            is_ending(at)
                || !ends(at)
                || (at > first + 1
                    && is_ending(at - 1)
                    && !until.iter().any(|word| self.text.folded(&tokens[at]) == word))
        };
        let mut last = first;
        while last + 1 < tokens.len() && last + 1 - first < words && goes_on(last + 1) {
            last += 1;
        }
        (!until.iter().any(|word| self.text.folded(&tokens[first]) == word)).then(|| Mention {
            sentence: mention.sentence,
            start: tokens[first].start as usize,
            end: tokens[last].end as usize,
        })
    }

    pub(crate) fn phrases(&self, most: usize, style: Style, focus: &Focus) -> Vec<Filled> {
        let found = key_phrases(self.text, &focus.sentences, most);
        let written = found.into_iter().map(|phrase| {
            let said = self.quote_mention(
                Mention { sentence: phrase.sentence, start: phrase.start, end: phrase.end },
                80,
            );
            match style {
                Style::Plain => Filled::quoted(said),
                Style::Tag => Filled::text(tag(&said.text)),
                Style::Title => Filled::text(capitalize(&said.text)),
            }
        });
        written.filter(|phrase| !phrase.is_empty()).collect()
    }

    fn phrase(&self, style: Style, several_words: bool, focus: &Focus) -> Filled {
        let mut found =
            self.phrases(if several_words { PHRASES_MAX } else { 1 }, style, focus).into_iter();
        let is_long = |phrase: &Filled| text_of(phrase.clone()).contains([' ', '_']);
        let long = if several_words { found.clone().find(is_long) } else { None };
        long.or_else(|| found.next()).unwrap_or_default()
    }

    fn when(
        &self,
        part: Part,
        cues: &[String],
        only: bool,
        without: &[String],
        focus: &Focus,
    ) -> Filled {
        let not_meant = self.saying(without, focus);
        let inside = |mention: &Mention| {
            (focus.whole || focus.sentences.binary_search(&mention.sentence).is_ok())
                && not_meant.binary_search(&mention.sentence).is_err()
        };
        let said: Vec<_> = self
            .whens()
            .iter()
            .filter(|when| inside(&when.mention) && self.is_said(when.mention.sentence))
            .collect();
        if matches!(part, Part::FirstClock | Part::LastClock) {
            let mut stamps = self
                .text
                .parts
                .iter()
                .flat_map(|part| part.text.lines())
                .filter_map(lines::stamped_clock);
            let stamp = if part == Part::FirstClock { stamps.next() } else { stamps.next_back() };
            return stamp.map_or(Filled::Nothing, Filled::text);
        }
        let cued = self.saying(cues, focus);
        let dated = |when: &&&dates::DateTimeMention| when.date.is_some();
        let preferred = said
            .iter()
            .filter(dated)
            .find(|when| cued.binary_search(&when.mention.sentence).is_ok());
        let timed = said.iter().filter(dated).find(|when| when.clock.is_some());
        let first = said.iter().find(|when| when.date.is_some());
        let any = if only { None } else { timed.or(first) };
        let Some(when) = preferred.or(any) else {
            return if matches!(part, Part::Exists | Part::AllDay) {
                Filled::Value(json!(false))
            } else {
                Filled::Nothing
            };
        };
        match part {
            Part::Date => self.dated(when.iso_date(), when.mention),
            Part::DateTime => self.dated(when.iso(), when.mention),
            Part::Until => {
                let end = when.until.zip(when.iso_date()).map(|(until, date)| {
                    format!("{date}T{:02}:{:02}:00", until.hour, until.minute)
                });
                self.dated(end, when.mention)
            }
            Part::Exists => Filled::Value(json!(true)),
            Part::AllDay => Filled::Value(json!(when.clock.is_none())),
            Part::FirstClock | Part::LastClock => Filled::Nothing,
        }
    }

    /// A date as we write it, resting on the words that say it.
    pub(crate) fn dated(&self, written: Option<String>, mention: Mention) -> Filled {
        let Some(written) = written else { return Filled::Nothing };
        let mut quoted = self.quote_mention(mention, usize::MAX);
        let output_end = written.len();
        quoted.text = written;
        quoted
            .pieces
            .iter_mut()
            .for_each(|piece| (piece.output_start, piece.output_end) = (0, output_end));
        Filled::quoted(quoted)
    }

    pub(crate) fn is_said(&self, sentence: usize) -> bool {
        !matches!(
            self.text.block_of(sentence).kind,
            Kind::Header | Kind::Columns | Kind::Quote | Kind::Signature | Kind::Code | Kind::Link
        )
    }

    fn mention(
        &self,
        cues: &[String],
        focus: &Focus,
        find: fn(&super::super::text::Text<'_>, usize) -> Vec<Mention>,
    ) -> Filled {
        let cued = self.saying(cues, focus);
        let found = cued
            .iter()
            .chain(&focus.sentences)
            .find_map(|&at| find(self.text, at).into_iter().next());
        found.map_or(Filled::Nothing, |mention| Filled::quoted(self.quote_mention(mention, 2000)))
    }

    fn url(&self, prefer: &[String], inputs: &[String], focus: &Focus) -> Filled {
        if let Some(given) = inputs.iter().find_map(|name| self.input_text(name, focus)) {
            return Filled::text(given);
        }
        let all: Vec<Mention> =
            focus.sentences.iter().flat_map(|&at| tokens::urls(self.text, at)).collect();
        let written = |mention: &&Mention| fold(&self.quote_mention(**mention, 2000).text);
        let best = all
            .iter()
            .find(|mention| prefer.iter().any(|word| written(mention).contains(word.as_str())));
        let dull = |mention: &&Mention| {
            !members().dull_links.iter().any(|word| written(mention).contains(word.as_str()))
        };
        best.or_else(|| all.iter().find(dull))
            .map_or(Filled::Nothing, |mention| Filled::quoted(self.quote_mention(*mention, 2000)))
    }

    fn names(&self, kind: KindHint, most: usize, focus: &Focus) -> Vec<Filled> {
        let found = names::find(self.text, &focus.sentences)
            .into_iter()
            .filter(|name| kind.fits(name.kind));
        found.take(most).map(|name| Filled::quoted(self.quote_mention(name.mention, 120))).collect()
    }

    fn choose(
        &self,
        values: &BTreeMap<String, Vec<String>>,
        fallback: &Value,
        input: Option<&str>,
        (latest, strong): (bool, Option<&[String]>),
        focus: &Focus,
    ) -> Filled {
        let listed = input
            .and_then(|name| self.input(name, focus))
            .and_then(Value::as_array)
            .cloned()
            .unwrap_or_default();
        let own: Vec<(String, Vec<String>)> = listed
            .iter()
            .map(plain)
            .map(|value| (value.clone(), vec![value.replace('_', " ")]))
            .collect();
        let known = |value: &str| own.is_empty() || own.iter().any(|(listed, _)| listed == value);
        let mut scores: BTreeMap<&str, usize> = BTreeMap::new();
        let all = values
            .iter()
            .filter(|(value, cues)| known(value) && self.is_backed(cues, strong, focus))
            .chain(own.iter().map(|(value, cues)| (value, cues)));
        for (value, cues) in all {
            let said = cues.iter().flat_map(|cue| self.mentions(cue, focus));
            if latest {
                let last = said.map(|mention| mention.sentence + 1).max().unwrap_or(0);
                let known = scores.entry(value).or_default();
                *known = last.max(*known);
                continue;
            }
            let weight: usize = said.map(|mention| self.weight_of(mention.sentence)).sum();
            *scores.entry(value).or_default() += weight;
        }
        let best = scores
            .iter()
            .filter(|(_, score)| **score > 0)
            .max_by(|a, b| a.1.cmp(b.1).then(b.0.cmp(a.0)));
        match best {
            Some((value, _)) => Filled::text(*value),
            None => Filled::Value(fallback.clone()),
        }
    }

    /// Whether cues are more than one word that stands there by accident. Without a list of strong ones any counts.
    fn is_backed(&self, cues: &[String], strong: Option<&[String]>, focus: &Focus) -> bool {
        let Some(strong) = strong else { return true };
        // What the sender is called is another sign: a clinic that writes of patients.
        let from = self.input_text("from", focus).map(|from| spaced(&from)).unwrap_or_default();
        let names = |cue: &str| match cue.strip_suffix('*') {
            Some(stem) => from.contains(&format!(" {stem}")),
            None => from.contains(&format!(" {cue} ")),
        };
        let mut backing = Backing::default();
        for cue in cues {
            for mention in self.mentions(cue, focus) {
                if self.weight_of(mention.sentence) > 0 {
                    backing.add(self, mention, strong.contains(cue) || names(cue));
                }
            }
        }
        backing.is_enough()
    }

    /// Whether more than one everyday word in one sentence speaks for what cues stand for.
    fn is_carried(&self, cues: &[String], weak: &[String], focus: &Focus) -> bool {
        let mut said: BTreeSet<(String, usize)> = BTreeSet::new();
        for mention in cues.iter().flat_map(|cue| self.mentions(cue, focus)) {
            if self.weight_of(mention.sentence) == 0 {
                continue;
            }
            let part = self.text.parts[self.text.sentences[mention.sentence].part].text;
            let words = fold(&part[mention.start..mention.end]);
            let kind = self.text.block_of(mention.sentence).kind;
            if !weak.contains(&words) || matches!(kind, Kind::Heading(_) | Kind::Header) {
                return true;
            }
            said.insert((words, mention.sentence));
        }
        said.len() > 1
    }

    fn weight_of(&self, sentence: usize) -> usize {
        // A name in program text is no sign of the subject: `class Health:` is not about a clinic.
        if declares_name(self.text.sentence(sentence)) {
            return 0;
        }
        match self.text.block_of(sentence).kind {
            Kind::Heading(_) | Kind::Header => 4,
            Kind::Signature | Kind::Quote | Kind::Columns | Kind::Link | Kind::Code => 0,
            _ if sentence < 3 => 3,
            _ => 1,
        }
    }

    /// `None` when the text says none of the cues, because the base alone does not judge this text.
    fn points(&self, base: i64, add: &[Points], focus: &Focus) -> Option<i64> {
        let mut said = add.iter().filter(|points| !self.saying(&points.cues, focus).is_empty());
        let first = said.next()?;
        let sum = base.saturating_add(first.points);
        Some(said.fold(sum, |sum, points| sum.saturating_add(points.points)))
    }

    fn this(&self, bytes: usize, bare: bool, focus: &Focus) -> Filled {
        let mut quoted = Quoted::default();
        for &at in &focus.sentences {
            let room = bytes.saturating_sub(quoted.text.len());
            if room < 20 && !quoted.text.is_empty() {
                break;
            }
            if !quoted.text.is_empty() {
                quoted.push_plain(" ");
            }
            let skipped = if bare { lines::entry_head(self.text.sentence(at)) } else { 0 };
            quoted.push(&self.quote_from(at, skipped, room.max(20)));
        }
        Filled::quoted(quoted)
    }

    fn labelled_numbers(&self, most: usize, focus: &Focus) -> Filled {
        let mut members: Vec<(String, Filled)> = Vec::new();
        let parts = focus.sentences.iter().map(|&at| self.text.sentences[at].part);
        let mut parts: Vec<usize> = parts.collect();
        parts.dedup();
        for part in parts {
            for_each_line(self.text.parts[part].text, |_, line| {
                let Some(found) = lines::labelled(line) else { return };
                let name = tag(&line[found.label.clone()]);
                let number = line[found.value.clone()]
                    .trim()
                    .trim_end_matches(['.', ','])
                    .parse::<serde_json::Number>();
                let new = !name.is_empty() && !members.iter().any(|(other, _)| *other == name);
                if let (Ok(number), true) = (number, new && members.len() < most) {
                    members.push((name, Filled::Value(Value::Number(number))));
                }
            });
        }
        Filled::Object(members)
    }
}

fn for_each_line(source: &str, mut each: impl FnMut(usize, &str)) {
    let mut start = 0;
    for line in source.split_inclusive('\n') {
        each(start, line.trim_end_matches(['\n', '\r']));
        start += line.len();
    }
}

/// `Re: Fwd: x` as `x`.
fn strip_reply_marks(subject: &str) -> &str {
    let mut subject = subject.trim();
    while let Some((mark, rest)) = subject.split_once(':') {
        if !lexicon().mail.reply_marks.contains(fold(mark.trim()).as_str()) {
            break;
        }
        subject = rest.trim();
    }
    subject
}

/// Whether a line declares a name in a program: `class Health:`, `def check(self):`.
fn declares_name(line: &str) -> bool {
    const WORDS: [&str; 10] =
        ["class", "def", "fn", "func", "function", "struct", "enum", "interface", "trait", "impl"];
    const BEFORE: [&str; 7] = ["pub", "public", "private", "export", "static", "abstract", "async"];
    let mut words = line.split_whitespace().skip_while(|word| BEFORE.contains(word));
    if !words.next().is_some_and(|word| WORDS.contains(&word)) {
        return false;
    }
    let Some(name) = words.next() else { return false };
    let ends_declaration = line.trim_end().ends_with([':', '{', ';', ')', '}']);
    let is_alone = words.next().is_none();
    let is_name = name.starts_with(|c: char| c.is_alphabetic() || c == '_');
    is_name
        && ends_declaration
        && (is_alone || name.contains(['(', '<', ':']) || line.contains('{'))
}

#[cfg(test)]
mod declaration_tests {
    use super::declares_name;

    #[test]
    fn a_line_of_a_program_is_told_from_a_sentence() {
        for (line, expected) in [
            ("class Health:", true),
            ("def check(self):", true),
            ("pub fn run(&self) -> Exit {", true),
            ("public class Clinic {", true),
            ("class Health is about the clinic.", false),
            ("Class begins at nine:", false),
            ("class of 2026 (all of them)", false),
            ("function follows form", false),
        ] {
            assert_eq!(declares_name(line), expected, "{line}");
        }
    }
}
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subject_loses_its_reply_marks() {
        assert_eq!(strip_reply_marks("RE: Fwd: Budget: final"), "Budget: final");
    }
}
