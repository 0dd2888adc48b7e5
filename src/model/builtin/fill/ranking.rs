//! Opportunities in order: by likeness to a profile, the fit the caller gives, and the deadline.
//!
//! A deadline is past only against a day the caller gives; without one no deadline is judged. Equal
//! titles or equal links are duplicates and only the first is ranked.

use std::collections::{BTreeMap, BTreeSet};

use chrono::NaiveDate;
use serde_json::{Value, json};

use super::super::extract::dates;
use super::super::extract::tokens;
use super::super::rank::select::shorten;
use super::super::text::stopwords;
use super::super::text::words::{fold, for_each_token};
use super::filled::Filled;
use super::hints::RankingPart;
use super::scene::{Focus, Scene};

/// Points at which one should apply, and watch.
const APPLY: i64 = 60;
const WATCH: i64 = 35;

struct Candidate {
    id: String,
    title: String,
    score: i64,
    reasons: Vec<String>,
    deadline: Option<NaiveDate>,
    expired: bool,
}

/// One result of the ranking.
pub fn ranking(scene: &Scene<'_, '_>, give: RankingPart, profile: &str, as_of: &str) -> Filled {
    let all = scene.all();
    let today = scene.input_text(as_of, &all).and_then(|day| dates::parse_anchor(&day));
    let known = words(&scene.input_text(profile, &all).unwrap_or_default());
    let foci: Vec<Focus> = (0..scene.items.len())
        .map(|item| Focus {
            sentences: scene.items[item].sentences.clone(),
            item: Some(item),
            ..Focus::default()
        })
        .collect();
    let duplicates = duplicates(scene, &foci);
    let repeated: BTreeSet<&String> = duplicates.iter().flat_map(|group| &group[1..]).collect();
    let mut candidates: Vec<Candidate> = foci
        .iter()
        .map(|focus| judge(scene, focus, &known, today))
        .filter(|candidate| !repeated.contains(&candidate.id))
        .collect();
    candidates.sort_by(|a, b| {
        b.score
            .cmp(&a.score)
            .then(a.deadline.is_none().cmp(&b.deadline.is_none()))
            .then(a.deadline.cmp(&b.deadline))
            .then(a.id.cmp(&b.id))
    });
    match give {
        RankingPart::Ranked => Filled::Value(
            candidates.iter().enumerate().map(|(at, candidate)| row(at, candidate)).collect(),
        ),
        RankingPart::Duplicates => Filled::Value(json!(duplicates)),
        RankingPart::Dropped => {
            let dropped = candidates.iter().filter(|candidate| route(candidate) == "drop");
            Filled::Value(dropped.map(|candidate| json!({"id": candidate.id, "reason": candidate.reasons.join("; ")})).collect())
        }
        RankingPart::Summary => summary(&candidates),
    }
}

fn row(at: usize, candidate: &Candidate) -> Value {
    let route = route(candidate);
    let step = match (route, candidate.deadline) {
        ("apply", Some(day)) => format!("Apply before {day}"),
        ("apply", None) => "Find out the deadline".to_string(),
        ("watch", _) => "Read it in full and decide".to_string(),
        _ => {
            return json!({"id": candidate.id, "rank": at + 1, "score": candidate.score, "route": route, "reasons": candidate.reasons,
           "deadline": candidate.deadline.map(|day| day.to_string()), "next_step": null});
        }
    };
    json!({"id": candidate.id, "rank": at + 1, "score": candidate.score, "route": route, "reasons": candidate.reasons,
           "deadline": candidate.deadline.map(|day| day.to_string()), "next_step": step})
}

fn route(candidate: &Candidate) -> &'static str {
    match candidate.score {
        _ if candidate.expired => "drop",
        score if score >= APPLY => "apply",
        score if score >= WATCH => "watch",
        _ => "drop",
    }
}

fn summary(candidates: &[Candidate]) -> Filled {
    if candidates.is_empty() {
        return Filled::Nothing;
    }
    let count =
        |wanted: &str| candidates.iter().filter(|candidate| route(candidate) == wanted).count();
    let mut text = format!(
        "{} opportunities: {} to apply, {} to watch, {} to drop.",
        candidates.len(),
        count("apply"),
        count("watch"),
        count("drop")
    );
    for candidate in candidates.iter().filter(|candidate| route(candidate) != "drop").take(3) {
        let until = candidate.deadline.map(|day| format!(" (deadline {day})")).unwrap_or_default();
        text.push_str(&format!(" {}{until}.", candidate.title.trim_end_matches('.')));
    }
    Filled::text(text)
}

fn judge(
    scene: &Scene<'_, '_>,
    focus: &Focus,
    known: &BTreeMap<String, String>,
    today: Option<NaiveDate>,
) -> Candidate {
    let title = title_of(scene, focus);
    let own = words(
        &focus.sentences.iter().map(|&at| scene.text.sentence(at)).collect::<Vec<_>>().join(" "),
    );
    let shared: Vec<&String> =
        own.iter().filter(|(stem, _)| known.contains_key(*stem)).map(|(_, word)| word).collect();
    let mut score = 40;
    let mut reasons = Vec::new();
    if !known.is_empty() {
        score = 20 + 12 * shared.len().min(5) as i64;
        let named = shared.iter().take(5).map(|word| word.as_str()).collect::<Vec<_>>().join(", ");
        reasons.push(if shared.is_empty() {
            "shares nothing with the profile".to_string()
        } else {
            format!("shares with the profile: {named}")
        });
    }
    if let Some(fit) = scene.input("fit", focus).and_then(Value::as_f64) {
        let percent = if fit <= 1.0 { fit * 100.0 } else { fit }.clamp(0.0, 100.0) as i64;
        score = (score + percent) / 2;
        reasons.push(format!("fit given: {percent}"));
    }
    let deadline = deadline(scene, focus);
    let left = deadline.zip(today).map(|(day, today)| (day - today).num_days());
    match left {
        Some(days) if days < 0 => reasons.push("the deadline is past".to_string()),
        Some(days) if days <= 14 => {
            score += 10;
            reasons.push(format!("{days} days left"));
        }
        Some(_) => {}
        None if deadline.is_none() => reasons.push("no deadline stated".to_string()),
        None => {}
    }
    let expired = left.is_some_and(|days| days < 0);
    Candidate {
        id: id_of(scene, focus),
        title,
        score: if expired { 0 } else { score.clamp(0, 100) },
        reasons,
        deadline,
        expired,
    }
}

fn deadline(scene: &Scene<'_, '_>, focus: &Focus) -> Option<NaiveDate> {
    let given = scene
        .input_text("deadline", focus)
        .filter(|_| scene.items[focus.item.unwrap_or_default()].members.contains_key("deadline"));
    let inside = |sentence: usize| focus.sentences.binary_search(&sentence).is_ok();
    given.and_then(|day| dates::parse_anchor(&day)).or_else(|| {
        scene.whens().iter().filter(|when| inside(when.mention.sentence)).find_map(|when| when.date)
    })
}

fn title_of(scene: &Scene<'_, '_>, focus: &Focus) -> String {
    let item = focus.item.and_then(|item| scene.items.get(item));
    let given =
        item.and_then(|item| item.members.get("title")).and_then(Value::as_str).map(str::to_string);
    let title = given.unwrap_or_else(|| {
        focus.sentences.first().map(|&at| scene.text.sentence(at).to_string()).unwrap_or_default()
    });
    shorten(title.trim(), 120).to_string()
}

fn id_of(scene: &Scene<'_, '_>, focus: &Focus) -> String {
    let item = focus.item.unwrap_or_default();
    scene.items[item]
        .id
        .clone()
        .filter(|id| !id.is_empty())
        .unwrap_or_else(|| format!("{}", item + 1))
}

fn duplicates(scene: &Scene<'_, '_>, foci: &[Focus]) -> Vec<Vec<String>> {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for (at, focus) in foci.iter().enumerate() {
        let title = words(&title_of(scene, focus)).into_keys().collect::<Vec<_>>().join(" ");
        let keys = [(!title.is_empty()).then(|| format!("title {title}")), link_of(scene, focus)];
        let keys: Vec<String> = keys.into_iter().flatten().collect();
        let known = keys.iter().find_map(|key| seen.get(key).copied());
        let group = known.unwrap_or_else(|| {
            groups.push(Vec::new());
            groups.len() - 1
        });
        groups[group].push(at);
        for key in keys {
            seen.entry(key).or_insert(group);
        }
    }
    let repeated = groups.into_iter().filter(|group| group.len() > 1);
    repeated.map(|group| group.iter().map(|&at| id_of(scene, &foci[at])).collect()).collect()
}

/// The link of an item: its member, else the one link of its text.
fn link_of(scene: &Scene<'_, '_>, focus: &Focus) -> Option<String> {
    let members = focus.item.and_then(|item| scene.items.get(item)).map(|item| &item.members);
    let given = members.and_then(|members| members.get("url")).and_then(Value::as_str);
    let said = || {
        let mut found = focus.sentences.iter().flat_map(|&at| tokens::urls(scene.text, at));
        let first = found.next().filter(|_| found.next().is_none());
        first.map(|mention| scene.quote_mention(mention, 2_000).text)
    };
    let link = given.map(str::to_owned).or_else(said)?;
    let link = fold(link.trim().trim_end_matches('/'));
    (!link.is_empty()).then(|| format!("link {link}"))
}

/// Content words as they are written, by what they are compared by.
fn words(text: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for_each_token(text, |start, end| {
        let word = fold(&text[start..end]);
        if word.len() > 2 && !stopwords::is_stop_word(&word) {
            let stem = if word.len() > 4 { word.trim_end_matches('s') } else { &word };
            found.entry(stem.to_string()).or_insert_with(|| text[start..end].to_lowercase());
        }
    });
    found
}
