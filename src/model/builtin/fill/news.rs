//! Headlines grouped by what they are about.
//!
//! Reads `- **ID 7** — title — _source_ — _time_` and plainer lists. Two headlines belong together when
//! they share enough weighted terms; groups grow greedily from the earliest headline, so the result does
//! not depend on anything but the list. Groups of one are dropped when there are larger ones.

use serde_json::{Value, json};

use super::super::rank::log2;
use super::super::text::words::fold;
use super::filled::Filled;
use super::hints::Style;
use super::pages::text_of;
use super::rules::capitalize;
use super::scene::{Focus, Scene};

/// Likeness of a headline to a group, as a share of the headline's weight.
const LIKE: f64 = 0.25;
/// Headlines compared with each other.
const ARTICLES_MAX: usize = 400;

/// A headline of the list.
pub struct Article {
    /// The number the list gives it, else its position from 1.
    pub id: i64,
    /// The headline.
    pub title: String,
    sentences: Vec<usize>,
    terms: Vec<(u32, f64)>,
}

/// Groups of headlines as `[{topic, article_ids, deduplicated_titles}]`.
pub fn clusters(scene: &Scene<'_, '_>, most: usize) -> Filled {
    let articles = articles(scene);
    let mut groups = group(&articles);
    let large = groups.iter().any(|group| group.len() > 1);
    groups.retain(|group| group.len() > 1 || !large);
    groups.sort_by(|a, b| b.len().cmp(&a.len()).then(a[0].cmp(&b[0])));
    groups.truncate(most);
    Filled::List(groups.iter().map(|group| cluster(scene, &articles, group)).collect())
}

fn cluster(scene: &Scene<'_, '_>, articles: &[Article], group: &[usize]) -> Filled {
    let sentences: Vec<usize> =
        group.iter().flat_map(|&at| articles[at].sentences.iter().copied()).collect();
    let mut titles: Vec<&str> = Vec::new();
    for title in group.iter().map(|&at| articles[at].title.as_str()) {
        if !titles.iter().any(|other| fold(other) == fold(title)) {
            titles.push(title);
        }
    }
    let ids: Vec<i64> = group.iter().map(|&at| articles[at].id).collect();
    let topic = topic(scene, &titles, Focus { sentences, ..Focus::default() });
    Filled::Value(json!({"topic": topic, "article_ids": ids, "deduplicated_titles": titles}))
}

/// The phrase the titles share; the first title when they share none.
fn topic(scene: &Scene<'_, '_>, titles: &[&str], focus: Focus) -> String {
    let shared =
        |phrase: &String| titles.iter().filter(|title| fold(title).contains(&fold(phrase))).count();
    let phrases: Vec<String> =
        scene.phrases(12, Style::Plain, &focus).into_iter().map(text_of).collect();
    let mut found: Vec<&String> = phrases.iter().filter(|phrase| shared(phrase) > 1).collect();
    found.sort_by_key(|phrase| {
        std::cmp::Reverse((shared(phrase), phrase.split(' ').count().min(2)))
    });
    let words = found.into_iter().take(2).cloned().collect::<Vec<_>>().join(", ");
    if titles.len() < 2 || words.is_empty() {
        titles.first().copied().unwrap_or_default().to_string()
    } else {
        capitalize(&words)
    }
}

/// The headlines of the items.
pub fn articles(scene: &Scene<'_, '_>) -> Vec<Article> {
    let items = scene.items.iter().take(ARTICLES_MAX).enumerate();
    let mut articles: Vec<Article> = items
        .filter_map(|(index, item)| article(scene, index, &item.sentences, &item.members))
        .collect();
    weigh(&mut articles);
    articles
}

fn article(
    scene: &Scene<'_, '_>,
    index: usize,
    sentences: &[usize],
    members: &serde_json::Map<String, Value>,
) -> Option<Article> {
    let (first, last) = (*sentences.first()?, *sentences.last()?);
    let part = scene.text.sentences[first].part;
    let (start, end) = (scene.text.sentences[first].start, scene.text.sentences[last].end);
    let line = &scene.text.parts[part].text[start..end];
    let (id, title) = read_line(line);
    let given = members.get("title").and_then(Value::as_str);
    let title = given.unwrap_or_else(|| headline(scene, first, title));
    let from = if given.is_some() {
        (start, end)
    } else {
        (start + line.find(title)?, start + line.find(title)? + title.len())
    };
    let tokens = sentences.iter().flat_map(|&at| scene.text.tokens_of(at));
    let inside =
        tokens.filter(|token| token.start as usize >= from.0 && token.end as usize <= from.1);
    let mut terms: Vec<(u32, f64)> =
        inside.filter_map(|token| scene.text.term(token)).map(|term| (term, 1.0)).collect();
    terms.sort_by_key(|pair| pair.0);
    terms.dedup_by_key(|pair| pair.0);
    let listed = ["id", "article_id"]
        .iter()
        .find_map(|name| members.get(*name))
        .and_then(|id| id.as_i64().or_else(|| id.as_str()?.parse().ok()));
    let title = title.split_whitespace().collect::<Vec<_>>().join(" ");
    (!title.is_empty()).then(|| Article {
        id: listed.or(id).unwrap_or(index as i64 + 1),
        title,
        sentences: sentences.to_vec(),
        terms,
    })
}

/// The number and the headline of a line of the list.
fn read_line(line: &str) -> (Option<i64>, &str) {
    let mut fields = line.split(" — ").flat_map(|field| field.split(" | ")).map(str::trim);
    let first = fields.next().unwrap_or(line);
    let bare = first.trim_matches(['*', '[', ']', '#', ' ', ':']);
    let number = fold(bare)
        .strip_prefix("id")
        .map_or_else(|| bare.parse().ok(), |rest| rest.trim_matches([' ', ':', '#']).parse().ok());
    match (number, fields.next()) {
        (Some(number), Some(title)) => (Some(number), title.trim_matches(['*', '_', ' '])),
        _ => (None, first.trim_matches(['*', ' '])),
    }
}

/// The headline of an entry that goes on after it.
fn headline<'l>(scene: &Scene<'_, '_>, first: usize, title: &'l str) -> &'l str {
    let opening = scene.text.sentence(first).trim_end_matches('.');
    match title.find(opening) {
        Some(0) if opening.len() + 1 < title.len() && opening.contains(' ') => {
            &title[..opening.len()]
        }
        _ => title,
    }
}

fn weigh(articles: &mut [Article]) {
    let mut terms: Vec<u32> =
        articles.iter().flat_map(|article| article.terms.iter().map(|pair| pair.0)).collect();
    terms.sort_unstable();
    let count = |term: u32| {
        terms.partition_point(|&other| other <= term) - terms.partition_point(|&other| other < term)
    };
    let all = articles.len() as u64 + 1;
    let idf = |term: u32| 1.0 + (log2(all) - log2(count(term) as u64)) / 2.0;
    for article in articles.iter_mut() {
        for pair in &mut article.terms {
            pair.1 = idf(pair.0);
        }
    }
}

fn group(articles: &[Article]) -> Vec<Vec<usize>> {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for at in 0..articles.len() {
        let likeness = |group: &Vec<usize>| {
            group.iter().map(|&other| like(&articles[at], &articles[other])).fold(0.0, f64::max)
        };
        let best = groups
            .iter()
            .enumerate()
            .map(|(index, group)| (likeness(group), index))
            .max_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(&a.1)));
        match best {
            Some((likeness, index)) if likeness >= LIKE => groups[index].push(at),
            _ => groups.push(vec![at]),
        }
    }
    groups
}

/// Shared weight of two headlines against the lighter one; one shared common word is not enough.
fn like(one: &Article, other: &Article) -> f64 {
    let weight = |article: &Article| article.terms.iter().map(|pair| pair.1).sum::<f64>();
    let shared: Vec<f64> = one
        .terms
        .iter()
        .filter(|pair| other.terms.binary_search_by_key(&pair.0, |pair| pair.0).is_ok())
        .map(|pair| pair.1)
        .collect();
    let least = weight(one).min(weight(other));
    let alone = shared.len() == 1 && one.terms.len().min(other.terms.len()) > 3;
    if least <= 0.0 || alone { 0.0 } else { shared.iter().sum::<f64>() / least }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_lines_are_read_in_the_usual_forms() {
        assert_eq!(
            read_line("**ID 12** — Rates rise — _Reuters_ — _10:02_"),
            (Some(12), "Rates rise")
        );
        assert_eq!(read_line("Rates rise — _Reuters_"), (None, "Rates rise"));
        assert_eq!(read_line("[7] | Rates rise | BBC"), (Some(7), "Rates rise"));
    }
}
