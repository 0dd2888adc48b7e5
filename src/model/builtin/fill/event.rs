//! The event a text is about: its day, hours, zone, place and repetition.
//!
//! Every date is weighed: an hour, a word for an event beside it, a label before it speak for it; a
//! deadline, an offer, a day that is over speak against it. The best one counts from a least weight on.
//! Nothing is filled in: an hour, a zone or a place that the text does not name is null.

use chrono::Weekday;
use serde_json::json;

use super::super::done;
use super::super::extract::Mention;
use super::super::extract::dates::{self, Clock, DateTimeMention};
use super::super::lexicon::{Phrases, lexicon};
use super::super::text::words::{Token, fold};
use super::super::text::{Kind, Text, lines};
use super::filled::Filled;
use super::rule::EventPart;
use super::scene::Scene;
use super::signals::signals;

/// Most tokens between the word and its date.
const DUE_TOKENS: usize = 5;

/// Weight from which on a date is the date of an event.
const LEAST: i64 = 3;
/// Sentences below a date in which a label gives its hour.
const LABELLED_BELOW: usize = 3;
/// Sentences before and behind that of an event in which its repetition may stand.
const REPEATED_NEAR: usize = 2;
const WEEKLY: &str = "FREQ=WEEKLY";
const BY_DAY: &str = ";BYDAY=";

#[derive(Debug, Clone, Copy)]
pub(crate) struct Appointment {
    pub(crate) when: DateTimeMention,
    score: i64,
}

/// The event with the most weight; of equal ones the first.
pub(crate) fn best(scene: &Scene<'_, '_>) -> Option<Appointment> {
    let found = scene.event(|| find(scene, scene.whens()).map(|found| (found.when, found.score)));
    found.map(|(when, score)| Appointment { when, score })
}

/// How clearly a text tells of an event; `None` where it does not.
pub(crate) fn clearness(scene: &Scene<'_, '_>) -> Option<i64> {
    let other = || Occasion::of(scene).map(|_| 0);
    best(scene).map(|found| found.score).or_else(other)
}

/// What the text is about: an event of a known day, one whose day only the day of the text would tell, or one that
/// comes again on days of the week.
enum Occasion {
    Dated(DateTimeMention),
    Undated(DateTimeMention),
    Repeated { sentence: usize, rule: String },
}

impl Occasion {
    fn of(scene: &Scene<'_, '_>) -> Option<Occasion> {
        if let Some(found) = best(scene) {
            return Some(Occasion::Dated(found.when));
        }
        let whens = scene.whens_on_any_day();
        let found = || find(scene, &whens).map(|found| Occasion::Undated(found.when));
        repeated(scene).or_else(found)
    }

    fn sentence(&self) -> usize {
        match self {
            Occasion::Dated(when) | Occasion::Undated(when) => when.mention.sentence,
            Occasion::Repeated { sentence, .. } => *sentence,
        }
    }

    /// Whether it fills the day; `None` where nothing says it.
    fn fills_day(&self, scene: &Scene<'_, '_>) -> Option<bool> {
        match self {
            Occasion::Dated(when) | Occasion::Undated(when) => {
                Some(when.clock.is_none() && !when.half_unknown)
            }
            Occasion::Repeated { sentence, .. } => names_hour(scene, *sentence).then_some(false),
        }
    }
}

fn names_hour(scene: &Scene<'_, '_>, sentence: usize) -> bool {
    let mut within = scene.whens().iter().filter(|when| when.mention.sentence == sentence);
    within.any(|when| when.clock.is_some() || when.half_unknown)
}

/// The first event that comes again: `Our weekly sync is on Mondays at 10.` A habit that is no event has no word for one.
fn repeated(scene: &Scene<'_, '_>) -> Option<Occasion> {
    let signs = signals(scene);
    if signs.scam || signs.bulk || signs.automated {
        return None;
    }
    let cued = scene.index().sentences(lexicon().mail.events.iter().map(String::as_str));
    let said = (0..scene.text.sentences.len()).filter(|at| scene.is_said(*at));
    said.filter(|at| cued.binary_search(at).is_ok()).find_map(|sentence| {
        let rule = rule_in(scene, sentence).or_else(|| days_in(scene, sentence))?;
        Some(Occasion::Repeated { sentence, rule })
    })
}

fn find(scene: &Scene<'_, '_>, whens: &[DateTimeMention]) -> Option<Appointment> {
    let mail = &lexicon().mail;
    let cued = scene.index().sentences(mail.events.iter().map(String::as_str));
    let offered = scene.index().sentences(mail.offers.iter().map(String::as_str));
    let subject = cued.iter().any(|&at| scene.text.block_of(at).kind == Kind::Header);
    let habits = scene.index().sentences(mail.open_hours.iter().map(String::as_str));
    let signs = signals(scene);
    if signs.scam || signs.away || is_called_off(scene) {
        return None;
    }
    let weigh = |when: &DateTimeMention| {
        let at = when.mention.sentence;
        let near = |at: usize| cued.binary_search(&at).is_ok();
        let when = with_hour(scene, *when, near);
        let mut score = 0;
        score += 3 * i64::from(when.clock.is_some() || when.half_unknown);
        score += 3 * i64::from(near(at));
        score += i64::from(!near(at) && (near(at + 1) || at > 0 && near(at - 1)));
        score += 2 * i64::from(subject);
        score += 3 * i64::from(labelled_as(scene, at, &lexicon().dates.date_labels));
        // `fixed for the 2nd at 11:00` is a hearing, not a deadline.
        let hour = near(at) && when.clock.is_some();
        score -= if hour { 2 } else { 7 } * i64::from(is_due(scene, &when));
        score -= 7 * i64::from(offered.binary_search(&at).is_ok());
        let is_gone = is_over(scene, &when) || is_called_off_below(scene, at);
        score -= 7 * i64::from(is_gone || ends_a_day(&when));
        score -= 7 * i64::from(habits.binary_search(&at).is_ok() && !near(at));
        score -= 3 * i64::from(is_told(scene, &when));
        score -= 3 * i64::from(signs.bulk);
        // A machine gives the hour of what it did, or of a parcel.
        let labelled = labelled_as(scene, at, &lexicon().dates.date_labels);
        let by_machine = signs.notice || signs.automated && !subject && !labelled;
        score -= if by_machine && !near(at) { 7 } else { i64::from(signs.automated) };
        Appointment { when, score }
    };
    let dated =
        whens.iter().filter(|when| when.date.is_some() && scene.is_said(when.mention.sentence));
    let mut found: Option<Appointment> = None;
    for one in dated.map(weigh).filter(|one| one.score >= LEAST) {
        if found.is_none_or(|other| one.score > other.score) {
            found = Some(one);
        }
    }
    found
}

/// Whether the subject calls everything off, and the text names nothing in its place. What a sentence calls off has no
/// day among those of the scene.
pub(super) fn is_called_off(scene: &Scene<'_, '_>) -> bool {
    let dates = &lexicon().dates;
    let says = |at: usize, phrases: &Phrases| {
        let tokens = scene.text.tokens_of(at);
        let word = |at: usize| tokens.get(at).map_or("", |token| scene.text.folded(token));
        (0..tokens.len()).any(|from| phrases.starts(|next| word(from + next)).is_some())
    };
    let is_subject = |at: &usize| scene.text.block_of(*at).kind == Kind::Header;
    let mut subject = (0..scene.text.sentences.len()).filter(is_subject);
    let names_another = |at: usize| says(at, &dates.instead) || says(at, &dates.moves);
    subject.any(|at| says(at, &dates.called_off))
        && !(0..scene.text.sentences.len()).any(|at| scene.is_said(at) && names_another(at))
}

/// Whether a sentence right below calls off what this one tells of: `The workshop is on 10 March. It has been cancelled.`
/// It is short or speaks of the same thing, and names no day.
fn is_called_off_below(scene: &Scene<'_, '_>, at: usize) -> bool {
    /// Sentences between the two, and words of one that needs no name of its own.
    const BELOW_MAX: usize = 2;
    const SHORT_WORDS: usize = 6;
    let dates = &lexicon().dates;
    let words = |at: usize| -> Vec<&str> {
        scene.text.tokens_of(at).iter().map(|token| scene.text.folded(token)).collect()
    };
    let says = |words: &[&str], phrases: &Phrases| {
        let word = |at: usize| words.get(at).copied().unwrap_or_default();
        (0..words.len()).any(|from| phrases.starts(|next| word(from + next)).is_some())
    };
    let own = done::content(scene.text.sentence(at));
    let part = |at: usize| scene.text.sentences[at].part;
    let below = (at + 1..scene.text.sentences.len()).take(BELOW_MAX);
    let mut below = below.take_while(|one| part(*one) == part(at));
    below.any(|one| {
        let said = words(one);
        let is_of_it = || {
            let about = done::content(scene.text.sentence(one));
            about.iter().any(|word| own.contains(word))
        };
        says(&said, &dates.called_off)
            && !says(&said, &dates.conditions)
            && !scene.whens().iter().any(|when| when.mention.sentence == one && when.date.is_some())
            && (said.len() <= SHORT_WORDS || is_of_it())
    })
}

/// Whether an event was over when the text was written: on an earlier day, or at an earlier hour of that day.
fn is_over(scene: &Scene<'_, '_>, when: &DateTimeMention) -> bool {
    let at = when.mention.sentence;
    let Some((day, today)) = when.date.zip(scene.written_on(at)) else { return false };
    let earlier = || {
        let (start, now) = when.clock.zip(scene.written_at())?;
        Some((start.hour, start.minute) <= now)
    };
    day < today || day == today && earlier() == Some(true)
}

/// The last minute of a day ends something and begins nothing.
fn ends_a_day(when: &DateTimeMention) -> bool {
    when.clock == Some(Clock { hour: 23, minute: 59 })
}

/// Whether a sentence tells of a weekday that is over: `The cake came on Friday, at half past nine.`
fn is_told(scene: &Scene<'_, '_>, when: &DateTimeMention) -> bool {
    let sentence = when.mention.sentence;
    let tokens = scene.text.tokens_of(sentence);
    let inside =
        |token: &&Token| (when.mention.start..when.mention.end).contains(&(token.start as usize));
    let is_weekday = |token: &Token| dates::weekday(scene.text.folded(token)).is_some();
    let is_past = |token: &Token| {
        let raw = scene.text.token_text(sentence, token).to_lowercase();
        lexicon().dates.told.contains(scene.text.folded(token))
            || raw.len() > 3
                && lexicon().ask.told_endings.iter().any(|end| raw.ends_with(end.as_str()))
    };
    when.relative && tokens.iter().filter(inside).any(is_weekday) && tokens.iter().any(is_past)
}

/// A date with the hour that a line below gives behind a label (`Time: 8:15 AM`), or that the sentence
/// above gives with a word for the event.
fn with_hour(
    scene: &Scene<'_, '_>,
    when: DateTimeMention,
    cued: impl Fn(usize) -> bool,
) -> DateTimeMention {
    if when.clock.is_some() {
        return when;
    }
    let at = when.mention.sentence;
    let below = at + 1..=at + LABELLED_BELOW;
    let labels = &lexicon().dates.time_labels;
    let has_hour = |other: &&DateTimeMention| other.clock.is_some() || other.half_unknown;
    let bare = || scene.whens().iter().filter(has_hour).filter(|other| other.date.is_none());
    // `On Sunday we have lunch at the house of our aunt, at one o'clock.`
    let mut beside = bare().filter(|other| other.mention.sentence == at);
    let is_alone = scene.whens().iter().filter(|one| one.mention.sentence == at).count() == 2;
    let only = beside.next().filter(|_| is_alone);
    let begins = |other: &DateTimeMention| {
        let line = &scene.text.sentences[other.mention.sentence];
        other.mention.start <= line.start + 1
    };
    let hour = only.or_else(|| {
        bare().find(|other| {
            let line = other.mention.sentence;
            below.contains(&line) && (labelled_as(scene, line, labels) || begins(other))
                || line + 1 == at && cued(at - 1)
        })
    });
    let with = |hour: &DateTimeMention| DateTimeMention {
        clock: hour.clock,
        until: hour.until,
        half_unknown: hour.half_unknown,
        ..when
    };
    hour.map_or(when, with)
}

fn labelled_as(scene: &Scene<'_, '_>, sentence: usize, labels: &[String]) -> bool {
    let line = scene.text.sentence(sentence);
    lines::labelled(line).is_some_and(|found| labels.contains(&fold(line[found.label].trim())))
}

pub(crate) fn part(scene: &Scene<'_, '_>, part: EventPart, inputs: &[String]) -> Filled {
    let Some(found) = Occasion::of(scene) else {
        return match part {
            EventPart::Exists | EventPart::AllDay => Filled::Value(json!(false)),
            _ => Filled::Nothing,
        };
    };
    match (part, &found) {
        (EventPart::Exists, _) => Filled::Value(json!(true)),
        (EventPart::AllDay, _) => {
            found.fills_day(scene).map_or(Filled::Nothing, |fills| Filled::Value(json!(fills)))
        }
        (EventPart::Place, _) => place(scene, found.sentence()),
        (EventPart::Repeats, Occasion::Repeated { rule, .. }) => Filled::text(rule.as_str()),
        (EventPart::Repeats, _) => repeats(scene, found.sentence()),
        (EventPart::Start, Occasion::Dated(when)) => scene.dated(when.iso(), when.mention),
        (EventPart::End, Occasion::Dated(when)) => scene.dated(end(scene, when), when.mention),
        (EventPart::Zone, Occasion::Dated(when) | Occasion::Undated(when)) => zone(scene, when)
            .unwrap_or_else(|| {
                let given = inputs.iter().find_map(|name| scene.input_text(name, &scene.all()));
                given.filter(|_| when.clock.is_some()).map_or(Filled::Nothing, Filled::text)
            }),
        _ => Filled::Nothing,
    }
}

fn end(scene: &Scene<'_, '_>, when: &DateTimeMention) -> Option<String> {
    let written = |day: chrono::NaiveDate, clock: Clock| {
        format!("{day}T{:02}:{:02}:00", clock.hour, clock.minute)
    };
    if let Some((until, day)) = when.until.zip(when.date) {
        return Some(written(day, until));
    }
    let Some(start) = when.clock else {
        return when.last.map(|day| day.to_string());
    };
    // `departs at 06:45 and arrives at 09:20`
    let later = scene.whens().iter().find(|other| {
        other.date.is_none()
            && other.mention.sentence == when.mention.sentence
            && other.mention.start > when.mention.start
            && other.clock.is_some_and(|clock| clock > start)
    })?;
    let ends = scene.index().sentences(lexicon().dates.ends.iter().map(String::as_str));
    let clock = later.clock.filter(|_| ends.binary_search(&when.mention.sentence).is_ok())?;
    Some(written(when.date?, clock))
}

/// `CET` behind a time, or the zone of a named city: `hora de Lima`.
fn zone(scene: &Scene<'_, '_>, when: &DateTimeMention) -> Option<Filled> {
    /// Tokens behind a time that may name its zone.
    const NEAR_TOKENS: usize = 3;
    let sentence = when.mention.sentence;
    let tokens = scene.text.tokens_of(sentence);
    let behind =
        tokens.iter().enumerate().filter(|(_, token)| token.start as usize >= when.mention.end);
    let named = behind.clone().take(NEAR_TOKENS).find(|(_, token)| {
        let word = scene.text.token_text(sentence, token);
        word.chars().all(char::is_uppercase)
            && lexicon().dates.zones.contains(scene.text.folded(token))
    });
    if let Some((_, token)) = named {
        return Some(Filled::text(scene.text.token_text(sentence, token)));
    }
    let word = |at: usize| tokens.get(at).map_or("", |token| scene.text.folded(token));
    let dates = &lexicon().dates;
    for (at, _) in behind {
        let before = dates.zone_before.starts(|offset| word(at + offset));
        let city = before.map(|words| at + words);
        let after = dates.zone_after.contains(word(at + 1)).then_some(at);
        for city in [city, after].into_iter().flatten() {
            if let Some(zone) = zone_of_city(word(city)) {
                return Some(Filled::text(zone));
            }
        }
    }
    None
}

/// The regions whose zones are named after cities.
const REGIONS_OF_CITIES: [&str; 7] =
    ["Africa", "America", "Asia", "Atlantic", "Australia", "Europe", "Pacific"];

fn zone_of_city(city: &str) -> Option<&'static str> {
    let names = chrono_tz::TZ_VARIANTS.iter().map(|zone| zone.name());
    // `US/Central` is no city.
    let mut cities = names.filter(|name| {
        name.split_once('/').is_some_and(|(region, _)| REGIONS_OF_CITIES.contains(&region))
    });
    cities.find(|name| name.rsplit('/').next().is_some_and(|last| fold(last) == city))
}

/// The words behind `at the`, `im`, `en la`, in the event's sentence and the next one.
fn place(scene: &Scene<'_, '_>, sentence: usize) -> Filled {
    let last = (sentence + 1).min(scene.text.sentences.len().saturating_sub(1));
    for at in sentence..=last {
        if scene.is_said(at)
            && scene.text.sentences[at].part == scene.text.sentences[sentence].part
            && let Some(mention) = place_in(scene, at)
        {
            return Filled::quoted(scene.quote_mention(mention, 120));
        }
    }
    Filled::Nothing
}

fn place_in(scene: &Scene<'_, '_>, sentence: usize) -> Option<Mention> {
    let tokens = scene.text.tokens_of(sentence);
    let source = scene.text.parts[scene.text.sentences[sentence].part].text;
    let names = &lexicon().names;
    let word = |at: usize| tokens.get(at).map_or("", |token| scene.text.folded(token));
    let written = |at: usize| scene.text.token_text(sentence, &tokens[at]);
    let high = |at: usize| written(at).starts_with(char::is_uppercase);
    let number = |at: usize| written(at).starts_with(|c: char| c.is_ascii_digit());
    let gap = |at: usize| match &source[tokens[at].end as usize..tokens[at + 1].start as usize] {
        blank if blank.trim().is_empty() => " ",
        other => other,
    };
    let calendar = |at: usize| dates::is_calendar_word(word(at));
    let in_time = |at: usize| {
        let (start, end) = (tokens[at].start as usize, tokens[at].end as usize);
        scene.whens().iter().any(|when| {
            when.mention.sentence == sentence
                && when.mention.start < end
                && start < when.mention.end
        })
    };
    let mut best: Option<(i64, Mention)> = None;
    for at in 0..tokens.len() {
        if !names.place_before.contains(word(at)) {
            continue;
        }
        let mut first = at + 1;
        while names.place_articles.contains(word(first)) && first < tokens.len() {
            first += 1;
        }
        let place_word = |at: usize| {
            names.place_words.iter().any(|known| {
                word(at).ends_with(known.as_str()) && (word(at) == known || known.len() > 4)
            })
        };
        if first >= tokens.len() || calendar(first) || (number(first) && in_time(first)) {
            continue;
        }
        let named = place_word(first);
        if !(high(first) || named || number(first)) {
            continue;
        }
        let mut end = first;
        while end + 1 < tokens.len() {
            let joint = gap(end);
            let next = end + 1;
            // `Calle 12, 4` is a street and a floor.
            let comma = joint == ", "
                && !(first..=end).any(number)
                && (high(next) || number(next))
                && !calendar(next)
                && (number(next)
                    || (next + 1 < tokens.len()
                        && (number(next + 1) || number((next + 2).min(tokens.len() - 1)))));
            let goes_on = matches!(joint, " " | "-" | ". " | "." | "'" | "’" | "/")
                && (high(next)
                    || number(next)
                    || names.place_links.contains(word(next))
                    || place_word(next)
                    || (named && end == first && !names.place_stops.contains(word(next)))
                    // `salle des fêtes`: a link takes one word with it.
                    || (named && end == first + 1 && names.place_links.contains(word(end))));
            // `room 2.14` is no time.
            let numbered = number(next) && place_word(end);
            if !(goes_on || comma)
                || calendar(next)
                || (in_time(next) && !numbered)
                || names.place_stops.contains(word(next))
            {
                break;
            }
            end = next;
        }
        while end > first
            && (names.place_links.contains(word(end)) || names.place_articles.contains(word(end)))
        {
            end -= 1;
        }
        let range = first..=end;
        let score = i64::from(range.clone().any(number))
            + 2 * i64::from(range.clone().any(place_word))
            + i64::from(range.clone().any(high));
        let mention = Mention {
            sentence,
            start: tokens[first].start as usize,
            end: tokens[end].end as usize,
        };
        if score > 0 && best.is_none_or(|(other, _)| score > other) {
            best = Some((score, mention));
        }
    }
    best.map(|(_, mention)| mention)
}

/// `every Tuesday`, `cada dos semanas`: what the text says of repetition in the sentence of its event, or near it.
fn repeats(scene: &Scene<'_, '_>, event: usize) -> Filled {
    let near = event.saturating_sub(REPEATED_NEAR)..=event + REPEATED_NEAR;
    let last = scene.text.sentences.len();
    let near = near.filter(|at| *at < last && *at != event && scene.is_said(*at));
    let mut rules = [event].into_iter().chain(near).filter_map(|at| rule_in(scene, at));
    rules.next().map_or(Filled::Nothing, Filled::text)
}

/// The rule of repetition that a sentence says in words: `every Tuesday`, `weekly sync`.
fn rule_in(scene: &Scene<'_, '_>, sentence: usize) -> Option<String> {
    let dates = &lexicon().dates;
    let tokens = scene.text.tokens_of(sentence);
    let word = |at: usize| tokens.get(at).map_or("", |token| scene.text.folded(token));
    let said = |first: usize| {
        dates.repeats.iter().find_map(|one| {
            let words = one.say.split(' ').count();
            if !one.say.split(' ').zip(first..).all(|(said, at)| said == word(at)) {
                return None;
            }
            let day = word(first + words);
            let day = dates::weekday(day).or_else(|| plural_weekday(day));
            match (day, one.rule.strip_prefix('+')) {
                (Some(day), Some(rule)) => Some(on_day(rule, day)),
                (None, Some(_)) => None,
                (_, None) => Some(one.rule.clone()),
            }
        })
    };
    let is_event = |at: usize| lexicon().mail.events.iter().any(|one| one == word(at));
    let of_event = |at: usize| {
        let one = dates.repeated_events.iter().find(|one| one.say == word(at))?;
        let beside = is_event(at + 1) || at > 0 && is_event(at - 1);
        beside.then(|| one.rule.clone())
    };
    let rules: Vec<String> =
        (0..tokens.len()).filter_map(|at| said(at).or_else(|| of_event(at))).collect();
    let rule = rules.first()?;
    if !rule.starts_with(WEEKLY) || rule.contains(BY_DAY) {
        return Some(rule.clone());
    }
    // `Our weekly sync is every Tuesday`, `on Mondays`.
    let day = rules.iter().find_map(|one| Some(&one[one.find(BY_DAY)?..]));
    let plural = (0..tokens.len()).find_map(|at| plural_weekday(word(at)));
    match (day, plural) {
        (Some(day), _) => Some(format!("{rule}{day}")),
        (None, Some(day)) => Some(on_day(rule, day)),
        (None, None) => Some(rule.clone()),
    }
}

/// The rule that plural days say alone: `on Mondays`.
fn days_in(scene: &Scene<'_, '_>, sentence: usize) -> Option<String> {
    let mut words = scene.text.tokens_of(sentence).iter().map(|token| scene.text.folded(token));
    words.find_map(plural_weekday).map(|day| on_day(WEEKLY, day))
}

fn on_day(rule: &str, day: Weekday) -> String {
    const DAYS: [&str; 7] = ["MO", "TU", "WE", "TH", "FR", "SA", "SU"];
    format!("{rule}{BY_DAY}{}", DAYS[day.num_days_from_monday() as usize])
}

/// `Mondays`, `montags`: the day on which something comes again.
fn plural_weekday(word: &str) -> Option<Weekday> {
    let day = word.strip_suffix('s').filter(|day| day.len() > 3)?;
    if dates::weekday(word).is_some() { None } else { dates::weekday(day) }
}

/// Whether a word such as `by` stands right before a date, or its sentence says that it is a deadline.
pub(crate) fn is_due(scene: &Scene<'_, '_>, when: &DateTimeMention) -> bool {
    is_due_in(scene.text, when)
}

pub(super) fn is_due_in(text: &Text<'_>, when: &DateTimeMention) -> bool {
    let tokens = text.tokens_of(when.mention.sentence);
    let at = tokens.partition_point(|token| (token.start as usize) < when.mention.start);
    let word = |at: usize| tokens.get(at).map_or("", |token| text.folded(token));
    let words = &lexicon().dates;
    let near = at.saturating_sub(DUE_TOKENS)..at;
    // `closed from the 3rd until 21 August`: the end of a span is no last day.
    let is_due = |from: usize| {
        let within = |next: usize| if from + next < at { word(from + next) } else { "" };
        words.due.starts(within).is_some()
    };
    let is_joint = |from: usize| {
        let is_one = |one: &String| one.trim() == word(from);
        words.joints.iter().any(is_one) && !lexicon().weight.joining.contains(word(from))
    };
    let is_day = |at: usize| {
        word(at).starts_with(|c: char| c.is_ascii_digit()) || dates::is_calendar_word(word(at))
    };
    let mut joints = near.clone().filter(|from| is_due(*from) || is_joint(*from));
    let ends_span = joints.any(|from| from > 0 && is_day(from - 1));
    let before = !ends_span && near.clone().any(is_due);
    before || names_deadline(text, when.mention.sentence)
}

/// Whether a sentence calls a day the last one: `the deadline is`.
pub(super) fn names_deadline(text: &Text<'_>, sentence: usize) -> bool {
    let tokens = text.tokens_of(sentence);
    let word = |at: usize| tokens.get(at).map_or("", |token| text.folded(token));
    let deadlines = &lexicon().dates.deadlines;
    (0..tokens.len()).any(|from| deadlines.starts(|offset| word(from + offset)).is_some())
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, Value};

    use super::super::super::text::Part;
    use super::super::hints::Hints;
    use super::*;

    /// The start of the event of a mail that was written on a Wednesday.
    fn start(from: &str, subject: &str, body: &str) -> Option<String> {
        let source = format!("Subject: {subject}\n\n{body}\n");
        let read = Text::new(vec![Part { id: "a", text: &source }]);
        let hints = Hints { anchor: vec!["date".to_owned()], ..Hints::default() };
        let mut inputs: Map<String, Value> = Map::new();
        inputs.insert("date".to_owned(), "2026-03-04T09:30:00+01:00".into());
        inputs.insert("from".to_owned(), from.into());
        let scene = Scene::new(&read, &[], &inputs, &hints, 100);
        best(&scene).and_then(|found| found.when.iso())
    }

    const ANA: &str = "Ana Ruiz <ana.ruiz@post.example>";

    #[test]
    fn what_is_called_off_is_no_event_and_what_stands_in_its_place_is_one() {
        for (subject, body, expected) in [
            ("Review", "The review on 10 March at 10:00 has been cancelled.", None),
            ("Canceled event: review on 10 March at 10:00", "Enjoy the free hour.", None),
            ("Cita", "Su cita del 10 de marzo a las 12:40 ha sido anulada.", None),
            ("Probe", "Die Probe am 10. März um 18:00 Uhr fällt aus.", None),
            ("Réunion", "La réunion du 10 mars à 19h00 est annulée.", None),
            (
                "Ihr Termin",
                "Wir müssen Ihren Termin am 10. März um 8:30 Uhr absagen. Stattdessen haben wir Ihnen den \
                 12. März um 11:15 Uhr reserviert.",
                Some("2026-03-12T11:15:00"),
            ),
            (
                "Sync cancelled event",
                "The sync is cancelled. Let us meet on 12 March at 11:15 instead.",
                Some("2026-03-12T11:15:00"),
            ),
            (
                "Workshop",
                "The workshop is on 10 March at 15:00. The workshop has been cancelled.",
                None,
            ),
            ("Workshop", "The workshop is on 10 March at 15:00. Update: it is cancelled.", None),
            ("Treffen", "Das Treffen ist am 10. März um 15:00 Uhr. Es fällt leider aus.", None),
            (
                "Workshop",
                "The workshop is on 10 March at 15:00. The concert of the choir of our town has been cancelled.",
                Some("2026-03-10T15:00:00"),
            ),
            ("Review", "The review is on 10 March at 10:00.", Some("2026-03-10T10:00:00")),
        ] {
            assert_eq!(start(ANA, subject, body).as_deref(), expected, "{subject}: {body}");
        }
    }

    #[test]
    fn what_is_over_or_only_recorded_is_no_event() {
        let machine = "Build bot <builds@ci.example>";
        for (from, subject, body) in [
            (machine, "Build 2211", "Build 2211 stopped.\n\nStarted: 2026-03-04 09:02:01\n"),
            (machine, "Disk full", "Next check: 2026-03-09 09:00\n"),
            (ANA, "cake", "The cake came on Friday at 9:30, and it was good."),
            (ANA, "torta", "La torta llegó el viernes a las 21:30 y estaba buena."),
            (ANA, "Kuchen", "Der Kuchen kam am Freitag um 21:30 Uhr heil an."),
            (ANA, "insurance", "Your cover ends at 23:59 on 13 March 2026."),
            (ANA, "shop", "The shop is open from Monday to Friday, 8 am to 8 pm."),
        ] {
            assert_eq!(start(from, subject, body), None, "{body}");
        }
    }

    #[test]
    fn an_hour_apart_from_its_day_belongs_to_it() {
        for (body, expected) in [
            (
                "On Sunday we have lunch at the house of our aunt Norma, who is eighty, and it begins then and there for all of us at 13:00.",
                "2026-03-08T13:00:00",
            ),
            (
                "We invite you to our dinner\n\non Saturday, 21 March 2026\nat the Corn Exchange\n6.30 pm for 7 pm\n",
                "2026-03-21T18:30:00",
            ),
        ] {
            assert_eq!(start(ANA, "dinner", body).as_deref(), Some(expected), "{body}");
        }
    }

    #[test]
    fn the_end_of_a_span_is_no_last_day() {
        let due = |body: &str| {
            let read = Text::new(vec![Part { id: "a", text: body }]);
            let day = chrono::NaiveDate::from_ymd_opt(2026, 3, 4);
            dates::find(&read, day).iter().any(|when| is_due_in(&read, when))
        };
        assert!(!due(
            "Liebe Patientinnen und Patienten,\n\nunsere Praxis ist vom 3. bis zum 21. August geschlossen. Die \
             Vertretung ist im Nachbarhaus, und wir sind danach wieder da.\n"
        ));
        assert!(!due("It arrives between us on 26 March until 28 March."));
        assert!(due("Send the form until 28 March."));
        assert!(due("Bitte bis zum 21. August zahlen."));
    }
}
