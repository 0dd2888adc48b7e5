//! Rows of lists: a person finds each by its title, its id and its address, also where all rows have one summary.

use serde_json::{Value, json};

use crate::{Person, home, person_with, says, sources_of};

/// Rows of which the summary can name a few only.
const ROWS: usize = 60;

/// A list of reports as JSON with texts, as lines with other names, and as a table. `days` dates its rows.
fn lists(days: bool) -> Vec<(&'static str, String)> {
    let parts = ["pump", "roof", "window", "door", "fence", "gate", "lamp"];
    let part = |at: usize| parts[at % parts.len()];
    let day = |at: usize| format!("2026-02-{:02}", 1 + at % 20);
    let dated = |mut row: Value, at: usize| {
        if days {
            row["created_at"] = day(at).into();
        }
        row
    };
    let with_text = |at: usize| {
        let row = json!({"id": format!("R-{}", 5000 + at), "title": format!("The {} of house {at}", part(at)),
            "permalink": format!("https://houses.example/reports/{at}"),
            "body": format!("Somebody looks at the {} and says what it needs. It is old.", part(at))});
        dated(row, at)
    };
    let line = |at: usize| {
        let row = json!({"key": format!("K-{}", 5000 + at), "name": format!("Line {at} on a {}", part(at)),
            "link": format!("https://houses.example/lines/{at}"),
            "description": format!("The {} stands near the {}. It was renewed.", part(at), part(at + 1))});
        format!("{}\n", dated(row, at))
    };
    let head = if days { "date,part no,name,page,notes\n" } else { "part no,name,page,notes\n" };
    let cells = |at: usize| {
        let day = if days { format!("{},", day(at)) } else { String::new() };
        let page = format!("https://houses.example/parts/{at}");
        format!(
            "{day}P{},\"Spare {} {at}\",{page},It lies in hall {}.\n",
            5000 + at,
            part(at),
            at % 5
        )
    };
    let rows: Vec<Value> = (0..ROWS).map(with_text).collect();
    vec![
        ("mine/reports.json", Value::from(rows).to_string()),
        ("mine/lines.jsonl", (0..ROWS).map(line).collect()),
        ("mine/parts.csv", format!("{head}{}", (0..ROWS).map(cells).collect::<String>())),
    ]
}

/// What names row 47 of each list, and its title.
const NAMES: [(&str, [&str; 3]); 3] = [
    ("mine/reports.json", ["The gate of house 47", "R-5047", "https://houses.example/reports/47"]),
    ("mine/lines.jsonl", ["Line 47 on a gate", "K-5047", "https://houses.example/lines/47"]),
    ("mine/parts.csv", ["Spare gate 47", "P5047", "https://houses.example/parts/47"]),
];

fn each_row_is_found(days: bool) {
    let mut files = lists(days);
    // Other names hold the words of the rows.
    files.push((
        "mine/R-5047-letter.md",
        "# A letter\n\nThe letter is about the house.\n".to_owned(),
    ));
    let files: Vec<(&str, &str)> =
        files.iter().map(|(name, text)| (*name, text.as_str())).collect();
    let person = person_with(&files);
    person.run(0, &home(&["add", "--init", "mine"]));
    for (file, names) in NAMES {
        for name in names {
            let read = person.json(0, &home(&["read", name]));
            assert_eq!(sources_of(&read), [file], "read {name}");
            let id = read[0]["summary_id"].as_str().unwrap();
            says(read[0]["row"].as_str().unwrap(), &["47"]);
            says(&person.run(0, &home(&["read", name])).out, &["row: "]);
            if days {
                assert_eq!(read[0]["day"], "2026-02-08", "{name}");
            }
            let explained = person.json(0, &home(&["explain", name]));
            assert_eq!(explained[0]["summary_id"], id, "explain {name}");
            let traced = person.json(0, &home(&["trace", name]));
            assert_eq!(traced.len(), 1, "trace {name}: {traced:?}");
            assert_eq!(traced[0]["summary_id"], id);
            let words: Vec<&str> = name.split(' ').collect();
            let hits = person.json(0, &home(&[&["search"], words.as_slice()].concat()));
            let hit = hits.iter().find(|one| one["summary_id"] == id);
            let hit = hit.unwrap_or_else(|| panic!("search {name}: {hits:?}"));
            says(hit["sentence"].as_str().unwrap(), &["47"]);
        }
    }
}

#[test]
fn a_row_without_a_day_is_found_by_its_title_its_id_and_its_address() {
    each_row_is_found(false);
}

#[test]
fn a_row_of_a_day_is_found_by_its_title_its_id_and_its_address() {
    each_row_is_found(true);
}

/// A feed item and a mail have ids and addresses too.
#[test]
fn an_item_of_a_feed_and_a_mail_are_found_by_their_ids_and_addresses() {
    let feed = "<rss version=\"2.0\"><channel><title>Town</title><item><title>Bridge closed</title>\
                <guid>tag:town,7</guid><link>https://town.example/7</link>\
                <pubDate>Wed, 11 Feb 2026 10:00:00 GMT</pubDate>\
                <description>The old bridge is closed until April.</description></item></channel></rss>";
    let mail = "From: Ana <ana@x.example>\nSubject: Offer\nMessage-ID: <m7@x.example>\n\
                Date: Wed, 11 Feb 2026 10:00:00 +0000\n\nThe offer for the roof is 900 EUR.\n";
    let person = person_with(&[("mine/town.xml", feed), ("mine/offer.eml", mail)]);
    person.run(0, &home(&["add", "--init", "mine"]));
    for (word, name) in [
        ("tag:town,7", "Bridge closed"),
        ("https://town.example/7", "Bridge closed"),
        ("m7@x.example", "Offer"),
        ("<m7@x.example>", "Offer"),
    ] {
        assert_eq!(sources_of(&person.json(0, &home(&["read", word]))), [name], "{word}");
        let found = person.json(0, &home(&["search", word.trim_matches(['<', '>'])]));
        assert_eq!(found[0]["source"], name, "{word}");
    }
    says(&person.run(5, &home(&["read", "m8@x.example"])).err, &["no summary is named"]);
}

/// The title that a row has itself comes before a sentence of its text.
#[test]
fn a_dated_row_keeps_its_title() {
    let rows = [
        (
            "2026-03-01",
            "Oil tank",
            "The oil tank was cleaned and is tight. The next check is in 2031.",
        ),
        ("2026-03-02", "Kitchen sink", "The sink drips since Monday. A plumber is asked to come."),
        (
            "2026-03-03",
            "Stove",
            "The stove smokes since the storm. The chimney must be swept in May.",
        ),
    ];
    let table = |column: &str| {
        let cells = rows.map(|row| format!("{},{},\"{}\"\n", row.0, row.1, row.2)).concat();
        format!("date,{column},text\n{cells}")
    };
    let record = |row: &(&str, &str, &str)| json!({"date": row.0, "title": row.1, "text": row.2});
    let json = Value::from(rows.iter().map(record).collect::<Vec<_>>()).to_string();
    for (name, text) in [
        ("mine/a.json", json),
        ("mine/a.csv", table("title")),
        ("mine/a.csv", table("Titel")),
        ("mine/a.csv", table("Summary")),
        ("mine/a.csv", table("Task")),
    ] {
        let person: Person = person_with(&[(name, &text)]);
        person.run(0, &home(&["add", "--init", "mine"]));
        let mut read = person.json(0, &home(&["read", "--last", "10"]));
        read.sort_by_key(|one| one["day"].to_string());
        let titles: Vec<&str> = read.iter().map(|one| one["title"].as_str().unwrap()).collect();
        assert_eq!(titles, rows.map(|row| row.1), "{name}");
    }
    // Several rows of one day have the name of their list for a title.
    let person = person_with(&[(
        "mine/a.csv",
        &table("title").replace("-02,", "-01,").replace("-03,", "-01,"),
    )]);
    person.run(0, &home(&["add", "--init", "mine"]));
    assert_eq!(person.json(0, &home(&["read"]))[0]["title"], "mine/a.csv");
}
