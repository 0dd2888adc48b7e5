//! What is told of a condensed text: the titles, the authors and the times of the sources that it stands
//! for, as if they were one source.
//!
//! Contract: pure, and bounded for any number of sources: names for which there is no room are counted.
//! `docs/source-text-hash.md` specifies it.

use std::collections::{BTreeSet, HashSet};

use chrono_tz::Tz;
use serde_json::{Map, Value};

use super::labels::{LINE_ENDS_BYTES, label, moment, with_role};
use crate::contract::source::{Labels, Origin, Person, SourceContext};
use crate::markup::prefix;

/// Most bytes of the names in one label, when the prompt has the room.
const NAMES_BYTES_MAX: usize = 960;
/// The share of a prompt that the names in one label may take.
const NAMES_SHARE: usize = 8;

/// A list of names in a label: how many it tells and how long each may be.
struct Names {
    most: usize,
    chars: usize,
    /// How the others are called, one and several.
    others: [&'static str; 2],
}

const TITLES: Names = Names { most: 4, chars: 120, others: ["more", "more"] };
const PEOPLE: Names = Names { most: 8, chars: 80, others: ["other", "others"] };
const PROJECTS: Names = Names { most: 4, chars: 40, others: ["more", "more"] };
const LINKS: Names = Names { most: 4, chars: 160, others: ["more", "more"] };
const VALUES: Names = Names { most: 4, chars: 60, others: ["more", "more"] };
/// Members that records have beside, such as `kind` and `org`, of which the values are told.
const MEMBERS_MAX: usize = 6;
/// Bytes of the signs around a member of a list in JSON.
const MEMBER_SIGNS_BYTES: usize = 8;

/// Bytes of the largest number of a condensed text, with its brackets.
const NUMBER_BYTES: usize = "[20000] ".len();

/// What is told of one condensed text.
#[derive(Debug)]
pub(crate) struct CondensedLabel {
    /// The sources that it stands for as one.
    pub source: SourceContext,
    /// Bytes that the line above the text takes, or its members beside the text in a list.
    pub label_bytes: usize,
}

/// How the sources below a condensed text are told.
pub(super) struct Telling {
    pub zone: Option<Tz>,
    /// Whether the role of an author is told beside the name.
    pub roles_differ: bool,
    /// Whether the sources are the messages of a session, which name a person without the address.
    pub is_session: bool,
    /// Bytes of condensed texts, with their labels, that one prompt holds.
    pub prompt_bytes: usize,
}

impl Telling {
    /// What is told of the text with this id, which stands for some sources.
    pub(super) fn told(&self, id: &str, of: &[&SourceContext]) -> CondensedLabel {
        let source = self.together(id, of);
        let label = label(id, Some(&source), false, self.zone);
        let receivers = source.to.iter().filter_map(|names| names.name.as_ref());
        let beside = receivers.chain(&source.labels.project).map(String::len).sum::<usize>();
        // An address is told as the link and as the origin of the text.
        let links = source.origin.url.iter().map(|url| 2 * (url.len() + MEMBER_SIGNS_BYTES));
        let members = source.meta.iter();
        let members =
            members.map(|(name, value)| name.len() + value.to_string().len() + MEMBER_SIGNS_BYTES);
        let beside = beside + links.chain(members).sum::<usize>();
        CondensedLabel {
            label_bytes: NUMBER_BYTES + label.len() + beside + LINE_ENDS_BYTES,
            source,
        }
    }

    fn together(&self, id: &str, of: &[&SourceContext]) -> SourceContext {
        let bytes = NAMES_BYTES_MAX.min(self.prompt_bytes / NAMES_SHARE) / 2;
        let person = |names: String| Person { name: Some(names), address: None };
        let titles = TITLES.listed(of.iter().filter_map(|source| source.title.clone()), bytes);
        let authors = PEOPLE.listed(of.iter().filter_map(|source| self.author(source)), bytes);
        let to = PEOPLE.listed(of.iter().flat_map(|source| &source.to).map(Person::shown), bytes);
        let projects = of.iter().filter_map(|source| source.labels.project.clone());
        let links = of.iter().filter_map(|source| source.origin.url.clone());
        let url = LINKS.listed(links, bytes / 2);
        SourceContext {
            id: id.to_owned(),
            title: titles,
            ts: self.times(of),
            day: days(of),
            author: authors.map(person),
            to: to.map(person).into_iter().collect(),
            origin: Origin { url, ..Origin::default() },
            meta: members(of, bytes / 2),
            labels: Labels { project: PROJECTS.listed(projects, bytes), ..Labels::default() },
            ..SourceContext::default()
        }
    }

    /// Who wrote a source, as its own label says it.
    fn author(&self, source: &SourceContext) -> Option<String> {
        let name = match (&source.author, self.is_session) {
            (Some(author), false) => Some(author.shown()),
            _ => source.speaker().map(str::to_owned),
        };
        Some(with_role(&name?, source, self.roles_differ))
    }

    /// The moment of some sources, or the first and the last. Where only the day of one is known, moments
    /// of the others would misplace it.
    fn times(&self, of: &[&SourceContext]) -> Option<String> {
        let first = of.iter().find_map(|source| source.ts.as_ref())?;
        if of.iter().any(|source| source.ts.is_none() && source.day.is_some()) {
            return None;
        }
        let timed = of.iter().filter(|source| source.ts.is_some());
        if timed.clone().all(|source| source.ts.as_ref() == Some(first)) {
            return timed.clone().next()?.ts_as_written();
        }
        timed.clone().all(|source| source.time().is_some()).then_some(())?;
        let earliest = timed.clone().min_by_key(|source| source.time())?;
        let latest = timed.clone().max_by_key(|source| source.time())?;
        Some(range(moment(earliest, self.zone)?, moment(latest, self.zone)?))
    }
}

/// The values of the members that sources have beside, those that are one word or text, each once.
fn members(of: &[&SourceContext], bytes: usize) -> Map<String, Value> {
    let word = |value: &Value| match value {
        Value::String(text) => Some(text.clone()).filter(|text| !text.trim().is_empty()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(flag) => Some(flag.to_string()),
        _ => None,
    };
    let names: BTreeSet<&String> =
        of.iter().flat_map(|source| &source.meta).map(|(name, _)| name).collect();
    let each = bytes / MEMBERS_MAX;
    let told = names.into_iter().filter_map(|name| {
        let values = of.iter().filter_map(|source| word(source.meta.get(name)?));
        let room = each.checked_sub(name.len())?;
        Some((name.clone(), VALUES.listed(values, room)?.into()))
    });
    told.take(MEMBERS_MAX).collect()
}

/// The day of some sources, or the first and the last.
fn days(of: &[&SourceContext]) -> Option<String> {
    let all = || of.iter().filter_map(|source| source.day.clone());
    Some(range(all().min()?, all().max()?))
}

fn range(first: String, last: String) -> String {
    if first == last { first } else { format!("{first} to {last}") }
}

impl Names {
    /// Names, each once, in their order, and within `bytes` as long as one name is.
    fn listed(&self, names: impl Iterator<Item = String>, bytes: usize) -> Option<String> {
        let mut seen = HashSet::new();
        let (mut told, mut list) = (0, String::new());
        for name in names {
            if seen.contains(&name) {
                continue;
            }
            let short = cut(&name, self.chars, bytes);
            let is_next = told == seen.len() && told < self.most;
            if is_next && (told == 0 || list.len() + short.len() + 2 <= bytes) {
                list.push_str(if told == 0 { "" } else { "; " });
                list.push_str(&short);
                told += 1;
            }
            seen.insert(name);
        }
        match seen.len() - told {
            0 => {}
            1 => list.push_str(&format!("; and 1 {}", self.others[0])),
            left => list.push_str(&format!("; and {left} {}", self.others[1])),
        }
        (!list.is_empty()).then_some(list)
    }
}

/// A name of at most so many characters and bytes.
fn cut(name: &str, chars: usize, bytes: usize) -> String {
    let end = name.char_indices().nth(chars).map_or(name.len(), |(end, _)| end);
    let kept = prefix(&name[..end], bytes);
    if kept.len() == name.len() { name.to_owned() } else { format!("{}…", kept.trim_end()) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn titled(title: &str) -> SourceContext {
        SourceContext { title: Some(title.into()), ..SourceContext::default() }
    }

    fn told(of: &[SourceContext], prompt_bytes: usize) -> SourceContext {
        let of: Vec<&SourceContext> = of.iter().collect();
        let zone = Some(chrono_tz::America::Bogota);
        Telling { zone, roles_differ: false, is_session: false, prompt_bytes }.together("n0_0", &of)
    }

    #[test]
    fn many_titles_are_counted_and_long_ones_are_cut() {
        let of = ["a", "b", "a", "c", "d", "e", "f"].map(titled);
        assert_eq!(told(&of, 8_000).title.as_deref(), Some("a; b; c; d; and 2 more"));
        let long = told(&[titled(&"x".repeat(200))], 8_000);
        assert_eq!(long.title, Some(format!("{}…", "x".repeat(120))));
        assert_eq!(told(&[SourceContext::default()], 8_000).title, None);
    }

    #[test]
    fn what_records_have_beside_is_told_once_and_within_its_share() {
        let record = |url: &str, meta: Value| SourceContext {
            origin: Origin { url: Some(url.into()), ..Origin::default() },
            meta: meta.as_object().unwrap().clone(),
            ..SourceContext::default()
        };
        let of = [
            record("https://x.example/1", json!({"kind": "job", "org": "ACME", "pay": 7})),
            record("https://x.example/2", json!({"kind": "job", "org": "Blue", "more": [1]})),
        ];
        let told = told(&of, 8_000);
        assert_eq!(told.origin.url.as_deref(), Some("https://x.example/1; https://x.example/2"));
        let expected = json!({"kind": "job", "org": "ACME; Blue", "pay": "7"});
        assert_eq!(Value::Object(told.meta), expected);
        let many: Map<String, Value> =
            (0..40).map(|at| (format!("m{at}"), "x".repeat(50).into())).collect();
        let many = [record(&"u".repeat(900), many.into())];
        for prompt_bytes in [0, 100, 400, 4_000, 8_000, 1 << 20] {
            let of: Vec<&SourceContext> = many.iter().collect();
            let telling =
                Telling { zone: None, roles_differ: false, is_session: false, prompt_bytes };
            let told = telling.told("n0_0", &of);
            let members: usize = told
                .source
                .meta
                .iter()
                .map(|(name, value)| name.len() + value.as_str().unwrap().len())
                .sum();
            let links = told.source.origin.url.unwrap_or_default().len();
            let most = NAMES_BYTES_MAX.min(prompt_bytes / NAMES_SHARE) / 2;
            assert!(links + members <= most + 4 * MEMBERS_MAX, "{links} {members} of {most}");
            assert!(told.label_bytes >= links + members);
        }
    }

    #[test]
    fn the_names_of_a_label_have_no_more_than_their_share_of_a_prompt() {
        let of: Vec<SourceContext> = (0..500)
            .map(|at| SourceContext {
                author: Some(Person {
                    name: Some(format!("{at} {}", "é".repeat(70))),
                    address: None,
                }),
                ..titled(&format!("{at} {}", "ñ".repeat(110)))
            })
            .collect();
        for prompt_bytes in [0, 100, 400, 4_000, 8_000, 1 << 20] {
            let told = told(&of, prompt_bytes);
            let (title, author) = (told.title.unwrap(), told.author.unwrap().name.unwrap());
            let most = NAMES_BYTES_MAX.min(prompt_bytes / NAMES_SHARE);
            let counts = "…; and 499 others".len() + "…; and 499 more".len();
            assert!(title.len() + author.len() <= most + counts, "{title} | {author}");
            assert!(author.ends_with(" others") && title.ends_with(" more"), "{title} | {author}");
        }
        assert!(told(&of, 8_000).author.unwrap().shown().ends_with("; and 497 others"));
    }

    #[test]
    fn the_times_of_sources_are_told_from_the_first_to_the_last_and_days_where_one_has_no_time() {
        let at = |ts: Option<&str>, day: &str| SourceContext {
            ts: ts.map(str::to_owned),
            day: Some(day.into()),
            ..SourceContext::default()
        };
        let early = at(Some("2026-02-11T18:00:00+01:00"), "2026-02-11");
        let late = at(Some("2026-02-11T17:30:00+00:00"), "2026-02-11");
        let dated = at(None, "2026-02-09");
        let ts = |of: &[&SourceContext]| {
            let told = told(&of.iter().map(|one| (*one).clone()).collect::<Vec<_>>(), 8_000);
            (told.ts, told.day.unwrap())
        };
        let one = (early.ts.clone(), "2026-02-11".to_owned());
        assert_eq!(ts(&[&early, &early]), one);
        let both = "2026-02-11T12:00:00-05:00 to 2026-02-11T12:30:00-05:00".to_owned();
        assert_eq!(ts(&[&late, &early]), (Some(both), "2026-02-11".to_owned()));
        assert_eq!(ts(&[&late, &dated, &early]), (None, "2026-02-09 to 2026-02-11".to_owned()));
        assert_eq!(ts(&[&SourceContext::default(), &early]), one);
    }
}
