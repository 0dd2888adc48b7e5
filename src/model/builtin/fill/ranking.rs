//! Items in order: by likeness to an input, by the fit they state, and by their date.
//!
//! Without an input to compare with and without a stated fit an item has no score and no route. A date is past only against a day the caller gives; without that day no date is judged. Items with
//! equal titles or equal links name the same thing, and only the first of them is ranked.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use chrono::NaiveDate;
use serde_json::{Value, json};

use super::super::extract::{dates, tokens};
use super::super::rank::select::shorten;
use super::super::text::words::fold;
use super::checks;
use super::compare::content_words;
use super::filled::Filled;
use super::hints::Ranking;
use super::rule::Step;
use super::scene::{Focus, Scene, plain};

/// Least bytes of a word that is compared.
const WORD_BYTES_MIN: usize = 3;
const TITLE_BYTES_MAX: usize = 120;
/// What an item reaches at most, and what a stated fit is a percentage of.
const SCORE_MAX: i64 = 100;

struct Candidate {
    item: usize,
    id: String,
    title: String,
    /// `None` where nothing says how well it fits.
    score: Option<i64>,
    reasons: Vec<String>,
    date: Option<NaiveDate>,
}

/// The items, best first, each with its `id`, `title`, `rank`, `score`, `route`, `reasons` and `date`.
pub(super) fn ranked(scene: &Scene<'_, '_>, ranking: &Ranking) -> Vec<Focus> {
    let all = scene.all();
    let today = scene.input_text(&ranking.as_of, &all).and_then(|day| dates::parse_anchor(&day));
    let known = scene.input_text(&ranking.with, &all).unwrap_or_default();
    let known = content_words(&known, WORD_BYTES_MIN);
    let denied = denied(&scene.input_text(&ranking.with, &all).unwrap_or_default());
    let groups = same(scene, ranking);
    let repeated: BTreeSet<String> =
        groups.iter().flat_map(|group| &group[1..]).map(|&item| id_of(scene, item)).collect();
    let candidates =
        (0..scene.items.len()).map(|item| judge(scene, ranking, item, (&known, &denied), today));
    let mut candidates: Vec<Candidate> =
        candidates.filter(|candidate| !repeated.contains(&candidate.id)).collect();
    // What is out stands last, behind what nobody could judge. Of equal scores the earlier date comes first,
    // and an item without one last. The id ends every tie.
    candidates.sort_by(|a, b| {
        let out = |one: &Candidate| one.score == Some(0);
        let order = |one: &Candidate| (out(one), Reverse(one.score), one.date.is_none(), one.date);
        order(a).cmp(&order(b)).then_with(|| a.id.cmp(&b.id))
    });
    let element = |(at, candidate): (usize, Candidate)| {
        let route = candidate.score.and_then(|score| Step::of(&ranking.routes, score, 1));
        let given = json!({
            "id": candidate.id, "title": candidate.title, "rank": at + 1, "score": candidate.score,
            "route": route, "reasons": candidate.reasons,
            "date": candidate.date.map(|day| day.to_string())
        });
        let Value::Object(given) = given else { return Focus::default() };
        Focus { given, ..scene.item_focus(candidate.item) }
    };
    candidates.into_iter().enumerate().map(element).collect()
}

/// Groups of ids of items that name the same thing.
pub(super) fn repeated(scene: &Scene<'_, '_>, ranking: &Ranking) -> Filled {
    let groups = same(scene, ranking).into_iter();
    let ids = groups.map(|group| group.iter().map(|&item| id_of(scene, item)).collect());
    Filled::Value(json!(ids.collect::<Vec<Vec<String>>>()))
}

fn judge(
    scene: &Scene<'_, '_>,
    ranking: &Ranking,
    item: usize,
    (known, denied): (&BTreeMap<String, String>, &BTreeMap<String, String>),
    today: Option<NaiveDate>,
) -> Candidate {
    let (points, say) = (&ranking.points, &ranking.reasons);
    let sentences = &scene.items[item].sentences;
    let own = sentences.iter().map(|&at| scene.text.sentence(at)).collect::<Vec<_>>().join(" ");
    let own = content_words(&own, WORD_BYTES_MIN);
    let shared = own.iter().filter(|(stem, _)| known.contains_key(*stem)).map(|(_, word)| word);
    let shared: Vec<&str> = shared.map(String::as_str).take(points.words).collect();
    let mut score = None;
    let mut reasons = Vec::new();
    if !known.is_empty() {
        score = Some(points.compared + points.word * shared.len() as i64);
        reasons.push(match shared.is_empty() {
            true => say.nothing_shared.clone(),
            false => say.shared.replace("{words}", &shared.join(", ")),
        });
    }
    if let Some(fit) = member(scene, item, &ranking.fit).and_then(Value::as_f64) {
        let percent = if fit <= 1.0 { fit * SCORE_MAX as f64 } else { fit };
        let percent = percent.clamp(0.0, SCORE_MAX as f64) as i64;
        score = Some(score.map_or(percent, |score| (score + percent) / 2));
        reasons.push(say.fit.replace("{percent}", &percent.to_string()));
    }
    if score.is_none() && !say.unjudged.is_empty() {
        reasons.push(say.unjudged.clone());
    }
    let date = date_of(scene, ranking, item);
    let left = date.zip(today).map(|(day, today)| (day - today).num_days());
    match left {
        Some(days) if days < 0 => {
            score = Some(0);
            reasons.push(say.past.clone());
        }
        Some(days) if days <= points.days => {
            score = score.map(|score| score + points.soon);
            reasons.push(say.soon.replace("{days}", &days.to_string()));
        }
        _ if date.is_none() => reasons.push(say.undated.clone()),
        _ => {}
    }
    let bars = barred(scene, sentences, denied);
    if !bars.is_empty() && !say.barred.is_empty() {
        score = Some(0);
        reasons.push(say.barred.replace("{words}", &bars.join(", ")));
    }
    let (id, title) = (id_of(scene, item), title_of(scene, ranking, item));
    let score = score.map(|score| score.clamp(0, SCORE_MAX));
    Candidate { item, id, title, score, reasons, date }
}

/// The content words of the clauses in which an input denies something: `no EU permit`.
fn denied(input: &str) -> BTreeMap<String, String> {
    let clauses = input.split(['.', ';', '\n', ',']).filter(|clause| checks::denies(clause));
    content_words(&clauses.collect::<Vec<_>>().join(". "), WORD_BYTES_MIN)
}

/// The denied words that an item says in a sentence that does not deny them too.
fn barred<'d>(
    scene: &Scene<'_, '_>,
    sentences: &[usize],
    denied: &'d BTreeMap<String, String>,
) -> Vec<&'d str> {
    let mut found = Vec::new();
    for said in sentences.iter().map(|&at| scene.text.sentence(at)) {
        let own = content_words(said, WORD_BYTES_MIN);
        if !checks::denies(said) {
            let shared = denied.iter().filter(|(stem, _)| own.contains_key(*stem));
            found.extend(shared.map(|(_, word)| word.as_str()));
        }
    }
    found.sort_unstable();
    found.dedup();
    found
}

/// The first of some members that an item has.
fn member<'s>(scene: &'s Scene<'_, '_>, item: usize, names: &[String]) -> Option<&'s Value> {
    names.iter().filter_map(|name| scene.items[item].members.get(name)).find(|one| !one.is_null())
}

fn date_of(scene: &Scene<'_, '_>, ranking: &Ranking, item: usize) -> Option<NaiveDate> {
    let given = member(scene, item, &ranking.date).map(plain);
    let sentences = &scene.items[item].sentences;
    given.and_then(|day| dates::parse_anchor(&day)).or_else(|| {
        let inside = scene.whens().iter();
        let inside = inside.filter(|when| sentences.binary_search(&when.mention.sentence).is_ok());
        inside.filter_map(|when| when.date).next()
    })
}

fn title_of(scene: &Scene<'_, '_>, ranking: &Ranking, item: usize) -> String {
    let given = member(scene, item, &ranking.title).and_then(Value::as_str);
    let first = || scene.items[item].sentences.first().map(|&at| scene.text.sentence(at));
    let title = given.or_else(first).unwrap_or_default();
    shorten(title.trim(), TITLE_BYTES_MAX).to_string()
}

/// The id of an item, else its position from 1.
fn id_of(scene: &Scene<'_, '_>, item: usize) -> String {
    let id = scene.items[item].id.clone().filter(|id| !id.is_empty());
    id.unwrap_or_else(|| (item + 1).to_string())
}

/// Items that name the same thing, in groups of two or more.
fn same(scene: &Scene<'_, '_>, ranking: &Ranking) -> Vec<Vec<usize>> {
    let mut groups: Vec<Vec<Named>> = Vec::new();
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for item in 0..scene.items.len() {
        let named = Named::of(scene, ranking, item);
        let keys = named.keys();
        let known = keys.iter().filter_map(|key| seen.get(key).copied());
        let known = known.into_iter().find(|group| groups[*group][0].may_be(&named));
        let group = known.unwrap_or_else(|| {
            groups.push(Vec::new());
            groups.len() - 1
        });
        groups[group].push(named);
        for key in keys {
            seen.entry(key).or_insert(group);
        }
    }
    groups.retain(|group| group.len() > 1);
    groups.into_iter().map(|group| group.iter().map(|one| one.item).collect()).collect()
}

/// What an item is known by.
struct Named {
    item: usize,
    /// The content words of its title, numbers included.
    title: BTreeSet<String>,
    link: Option<String>,
    date: Option<NaiveDate>,
    /// The words of whom it is from.
    from: BTreeSet<String>,
}

/// Members that say whom an offer is from.
const FROM: [&str; 8] = [
    "org",
    "organization",
    "organisation",
    "company",
    "institution",
    "employer",
    "university",
    "provider",
];

impl Named {
    fn of(scene: &Scene<'_, '_>, ranking: &Ranking, item: usize) -> Named {
        // The words of an address name no thing.
        let title = title_of(scene, ranking, item);
        let words = title.split_whitespace().filter(|word| !word.contains("://"));
        let title = words.collect::<Vec<_>>().join(" ");
        let numbers = title.split(|c: char| !c.is_alphanumeric());
        let numbers = numbers.filter(|word| word.contains(|c: char| c.is_ascii_digit())).map(fold);
        let words = content_words(&title, WORD_BYTES_MIN).into_keys().chain(numbers).collect();
        let (link, date) = (link_of(scene, ranking, item), date_of(scene, ranking, item));
        let from = FROM.iter().filter_map(|name| scene.items[item].members.get(*name));
        let from = from.filter_map(Value::as_str).next().unwrap_or_default();
        let from = from.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
        Named { item, title: words, link, date, from: from.map(fold).collect() }
    }

    /// One word names no thing.
    fn keys(&self) -> Vec<String> {
        let title = self.title.iter().cloned().collect::<Vec<_>>().join(" ");
        let title = (self.title.len() > 1).then(|| format!("title {title}"));
        let link = self.link.as_ref().map(|link| format!("link {link}"));
        title.into_iter().chain(link).collect()
    }

    /// Whether nothing says that another item is another thing: a day of its own, somebody else whom it is from, or a
    /// title of other words, as beside the address of a portal.
    fn may_be(&self, other: &Named) -> bool {
        let is_of_day = |(a, b): (NaiveDate, NaiveDate)| a == b;
        let shared = self.title.intersection(&other.title).count();
        let shares = shared * 2 >= self.title.len().min(other.title.len());
        let is_of_others =
            !self.from.is_empty() && !other.from.is_empty() && self.from.is_disjoint(&other.from);
        shares && !is_of_others && self.date.zip(other.date).is_none_or(is_of_day)
    }
}

/// The link of an item: its member, else the one link of its text.
fn link_of(scene: &Scene<'_, '_>, ranking: &Ranking, item: usize) -> Option<String> {
    let given = member(scene, item, &ranking.link).and_then(Value::as_str);
    let said = || {
        let sentences = scene.items[item].sentences.iter();
        let mut found = sentences.flat_map(|&at| tokens::urls(scene.text, at));
        let first = found.next().filter(|_| found.next().is_none());
        first.map(|mention| scene.quote_mention(mention, 2_000).text)
    };
    let link = given.map(str::to_owned).or_else(said)?;
    let link = fold(link.trim().trim_end_matches('/'));
    (!link.is_empty()).then_some(link)
}
