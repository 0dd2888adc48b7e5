//! One request over very many ids, from its selection to every command that looks at what it made.

use super::support::requests::lines;
use super::*;

/// Sources of the one request.
const IDS: usize = 10_000;

/// One in four says something.
fn says(number: usize) -> bool {
    number.is_multiple_of(4)
}

/// The others have such ids that the log does not hold the places of all of them.
fn event_id(number: usize) -> String {
    match says(number) {
        true => format!("evt_{number:06}"),
        false => format!("evt_{number:06}_{}", "x".repeat(480)),
    }
}

/// Events of two days, and a request for all of them by a manifest in an order of its own.
fn home_of_many() -> (ProcessHome, Value) {
    let home = ProcessHome::new();
    let (buses, mut items) = (home.path("buses"), Vec::new());
    for (day, name) in ["2026-02-11", "2026-02-12"].into_iter().enumerate() {
        let numbers = day * IDS / 2..(day + 1) * IDS / 2;
        let events: Vec<Value> = numbers
            .map(|number| {
                let ms = bus_support::MIDNIGHT + (day as i64) * 86_400_000 + number as i64;
                let text = match says(number) {
                    true => format!("Pump {number} ran dry in hall {}.", number % 97),
                    false => String::new(),
                };
                items.push(json!({"id": event_id(number), "day": name}));
                bus_support::event(&event_id(number), ms, &text)
            })
            .collect();
        bus_support::events_day(&buses, name, &events);
    }
    items.reverse();
    let selection = json!({"bus": "event_bus", "ordering": "as_listed", "items": items});
    let hash = summarizer::contract::json::jcs_hash(&selection).prefixed();
    let manifest = json!({"schema_version": "selection_manifest.v1",
        "created_at": "2026-02-13T12:00:00Z", "selection": selection, "selection_hash": hash,
        "created_by": {"repo": "tests", "component": "summaries", "version": "dev"}});
    let path = "selection_manifests/many.json";
    bus_support::write(&buses, path, manifest.to_string());
    let mut asked = ask("many", "event_summary", "event_bus", &[]);
    asked["input"] =
        json!({"mode": "selection_manifest", "manifest_path": path, "selection_hash": hash});
    (home, asked)
}

#[test]
fn a_request_over_very_many_ids_ends_and_everything_about_it_holds() {
    let (home, asked) = home_of_many();
    home.append(&lines(&[asked]));
    home.expect(0, &["drain"]);
    let summary = made(&home, "many");
    check_published(&home);
    home.expect(0, &["replay", "--verify"]);

    let all = lines_of(&home).into_values().flatten().collect::<Vec<Value>>();
    let [item] = all.as_slice() else { panic!("one request made {} lines", all.len()) };
    let ids: Vec<&str> = list(&item["source_ids"]).iter().map(|id| id.as_str().unwrap()).collect();
    let listed: Vec<String> = (0..IDS).rev().map(event_id).collect();
    assert_eq!(ids, listed, "as the manifest lists them");
    assert_eq!(
        item["selection"]["counts"],
        json!({"sources": IDS, "used": IDS / 4, "skipped": IDS * 3 / 4})
    );
    let nodes = list(&item["outputs"]["hierarchy"]["nodes"]);
    assert_eq!(list(&nodes.last().unwrap()["source_ids"]).len(), IDS / 4);

    let id = summary["summary_id"].as_str().unwrap();
    let explained = home.expect(0, &["--json", "explain", id, "--verify"]).json();
    let omitted = explained["sources_omitted"].as_u64().unwrap() as usize;
    assert!(omitted > 0 && list(&explained["sources"]).len() + omitted == IDS);
    let links = list(&explained["links"]).iter();
    let loose: Vec<&Value> = links.filter(|link| link["standing"] != "holds").collect();
    assert!(loose.is_empty(), "{loose:?}");
    let traced = home.expect(0, &["--json", "trace", &event_id(IDS / 2)]);
    traced.says(&[id]);
}
