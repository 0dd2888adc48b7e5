//! The day of a document: what it says of itself, in any of the usual places.
//!
//! Contract: a day that is written. The time of an import and the times of a file do not date a text.

use serde_json::{Map, Value};

use super::chat_lines::speakers;
use super::moment::Moment;
use crate::markup::document::Document;
use crate::markup::members::{add_people, authors};
use crate::model::builtin::extract::written::{
    Order, author_of_text, day_of_name, day_of_text, day_of_value, is_date_label, order_of,
};
use crate::model::builtin::text::words::fold;

/// Gives each part of a document its day, and a text alone the author that its head names and the people who speak in it.
/// `name` is the name of the file; a part of several has its day in its own words only.
pub(crate) fn set_heads(parts: &mut [Document], name: &str) {
    let order = order_of(parts.iter().flat_map(|part| words(&part.text, &part.members)));
    let alone = (parts.len() == 1).then_some(name);
    if let [only] = &mut *parts
        && authors(&only.members).next().is_none()
        && let Some(author) = author_of_text(&only.text)
    {
        only.members.insert("author".to_owned(), author.into());
    }
    if let [only] = &mut *parts {
        add_people(&mut only.members, speakers(&only.text));
    }
    for part in parts {
        part.date = day_of(&part.text, part.date.as_deref(), &part.members, order, alone);
    }
}

/// The day that a text says it is of: in a place of its own, in its words, in the name of its file.
pub(super) fn day_of(
    text: &str,
    date: Option<&str>,
    members: &Map<String, Value>,
    order: Option<Order>,
    name: Option<&str>,
) -> Option<String> {
    let read = || day_of_text(text, order).or_else(|| day_of_name(name?, order));
    said(date, members, order).or_else(|| read().map(|day| day.to_string()))
}

/// What a text says in places of its own: front matter, members, headers.
fn said(date: Option<&str>, members: &Map<String, Value>, order: Option<Order>) -> Option<String> {
    let labelled = members.iter().filter(|(name, _)| is_date_label(name) || is_day(name));
    let labelled = labelled.filter_map(|(_, value)| value.as_str());
    date.into_iter().chain(labelled).find_map(|value| {
        let known = Moment::read(&Value::from(value), chrono_tz::UTC).map(|_| value.to_owned());
        known.or_else(|| day_of_value(value, order).map(|day| day.to_string()))
    })
}

/// Names of columns that hold days, folded. In the head of a text, `Day:` may be that of an event.
const DAYS: [&str; 6] = ["day", "dia", "tag", "jour", "giorno", "dag"];

fn is_day(name: &str) -> bool {
    DAYS.contains(&fold(name.trim()).as_str())
}

/// The words that may hold dates.
pub(super) fn words<'a>(
    text: &'a str,
    members: &'a Map<String, Value>,
) -> impl Iterator<Item = &'a str> + Clone {
    std::iter::once(text).chain(members.values().filter_map(Value::as_str))
}

/// The members of a text, with its day where they name no time.
pub(crate) fn with_day(mut members: Map<String, Value>, day: Option<&str>) -> Map<String, Value> {
    if let (None, Some(day)) = (Moment::of(&members, chrono_tz::UTC), day) {
        members.insert("date".to_owned(), day.into());
    }
    members
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::markup::document::read;

    fn days(files: &[(&str, &str)]) -> Vec<Option<String>> {
        let mut parts: Vec<Document> =
            files.iter().map(|(name, text)| read(name, text.as_bytes()).unwrap()).collect();
        set_heads(&mut parts, files[0].0);
        parts.into_iter().map(|part| part.date).collect()
    }

    #[test]
    fn the_head_of_a_text_names_its_author_and_its_day() {
        for (name, text) in [
            ("a.txt", "Minutes\nAuthor: Ana Ruiz\nDate: 2026-03-05\n\nWe buy a pump."),
            ("a.rst", "Minutes\n=======\n\n:author: Ana Ruiz\n:date: 2026-03-05\n\nWe buy a pump."),
            ("a.md", "# Minutes\n\n**Author:** Ana Ruiz\n**Date:** 5 March 2026\n\nWe buy a pump."),
            ("a.txt", "Minutes\n\nFrom: Ana Ruiz\nDate: 2026-03-05\n\nWe buy a pump."),
            ("a.txt", "From: Ana Ruiz\nTo: Bo\nSubject: Pump\nDate: 2026-03-05\n\nWe buy a pump."),
        ] {
            let mut parts = vec![read(name, text.as_bytes()).unwrap()];
            set_heads(&mut parts, name);
            assert_eq!(parts[0].members["author"], "Ana Ruiz", "{name}");
            assert_eq!(parts[0].date.as_deref(), Some("2026-03-05"), "{name}");
        }
        for text in [
            "We met on Monday to talk about the pump and the roof of the house.\nAuthor: Ana",
            "---\nauthor: Bo\n---\nAuthor: Ana\n\nText",
        ] {
            let mut parts = vec![read("a.md", text.as_bytes()).unwrap()];
            set_heads(&mut parts, "a.md");
            assert_ne!(parts[0].members.get("author"), Some(&"Ana".into()), "{text}");
        }
        // In each language with a word for a sender that is also one for where a journey begins.
        for (from, to) in [
            ("From", "To"),
            ("Von", "Nach"),
            ("De", "A"),
            ("Van", "Naar"),
            ("Från", "Till"),
            ("Fra", "Til"),
            ("Od", "Do"),
        ] {
            let text = format!("Ticket\n{from}: Lyon\n{to}: Bern\nDate: 2026-03-05\n\nSeat 12.");
            let mut parts = vec![read("a.txt", text.as_bytes()).unwrap()];
            set_heads(&mut parts, "a.txt");
            assert_eq!(parts[0].members.get("author"), None, "{text}");
        }
    }

    #[test]
    fn a_document_says_its_day_in_many_places() {
        for (name, text) in [
            ("a.md", "---\ndate: 5 March 2026\n---\nText"),
            (
                "a.md",
                "---\nFecha: 05/03/2026\nlugar: la casa de la abuela\n---\nEl texto es de la casa.",
            ),
            ("a.md", "---\nDatum: 5. März 2026\n---\nText"),
            ("a.html", "<meta property='article:published_time' content='2026-03-05'><p>Text"),
            (
                "a.html",
                "<script type='application/ld+json'>{\"@graph\":[{\"datePublished\":\"2026-03-05\"}]}</script>Text",
            ),
            ("a.html", "<article><time datetime='2026-03-05'>today</time> Text</article>"),
            ("a.txt", "Lisbon, 5 March 2026\n\nDear Ana,\n\ntext"),
            ("2026-03-05 a.txt", "Text"),
        ] {
            assert_eq!(days(&[(name, text)]), [Some("2026-03-05".to_owned())], "{text}");
        }
        for (name, text) in [
            ("a.md", "---\ndate: soon\n---\nText"),
            ("a.md", "---\ndate: 05/03/2026\n---\nText"),
            ("a.html", "<time datetime='2026-03-05'>a</time><time datetime='2026-03-06'>b</time>"),
            ("a.txt", "The rent rises on 5 March 2026."),
        ] {
            assert_eq!(days(&[(name, text)]), [None], "{text}");
        }
    }

    #[test]
    fn a_column_of_days_dates_its_rows() {
        for name in ["day", "Day", "Día", "Tag", "fecha", "date"] {
            let members = serde_json::json!({name: "2026-03-05", "amount": 40});
            let members = members.as_object().unwrap().clone();
            let mut rows = [Document { members, ..Document::default() }];
            set_heads(&mut rows, "a.csv");
            assert_eq!(rows[0].date.as_deref(), Some("2026-03-05"), "{name}");
        }
        let members = serde_json::json!({"day": "Monday", "days": "2026-03-05"});
        let members = members.as_object().unwrap().clone();
        let mut rows = [Document { members, ..Document::default() }];
        set_heads(&mut rows, "a.csv");
        assert_eq!(rows[0].date, None);
    }

    #[test]
    fn the_rows_of_a_list_say_together_which_number_is_the_day() {
        let row = |date: &str| {
            let members = serde_json::json!({"fecha": date});
            Document {
                text: format!("fecha: {date}."),
                members: members.as_object().unwrap().clone(),
                ..Document::default()
            }
        };
        let mut rows = [row("13/03/2026"), row("05/03/2026")];
        set_heads(&mut rows, "2026-01-01.csv");
        let days: Vec<_> = rows.iter().map(|row| row.date.as_deref().unwrap()).collect();
        assert_eq!(days, ["2026-03-13", "2026-03-05"]);
        let mut rows = [row("05/03/2026"), row("05/04/2026")];
        set_heads(&mut rows, "2026-01-01.csv");
        assert!(rows.iter().all(|row| row.date.is_none()));
    }
}
