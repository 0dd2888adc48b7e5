//! One request over very many ids, from its selection to every command that looks at what it made.

use super::support::requests::lines;
use super::*;

/// Sources of the one request. The places recorded of them are more than a few megabytes in a home
/// of a hundred thousand; what is looked at here grows the same way.
const IDS: usize = 10_000;

fn event_id(number: usize) -> String {
    format!("evt_{number:06}")
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
                let text = match number % 5 {
                    0 => String::new(),
                    _ => format!("Pump {number} ran dry in hall {}.", number % 97),
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
        json!({"sources": IDS, "used": IDS * 4 / 5, "skipped": IDS / 5})
    );
    let nodes = list(&item["outputs"]["hierarchy"]["nodes"]);
    assert_eq!(list(&nodes.last().unwrap()["source_ids"]).len(), IDS * 4 / 5);

    let id = summary["summary_id"].as_str().unwrap();
    let explained = home.expect(0, &["--json", "explain", id, "--verify"]).json();
    assert_eq!(list(&explained["sources"]).len(), IDS);
    let links = list(&explained["links"]).iter();
    let loose: Vec<&Value> = links.filter(|link| link["standing"] != "holds").collect();
    assert!(loose.is_empty(), "{loose:?}");
    let traced = home.expect(0, &["--json", "trace", &event_id(IDS / 2)]);
    traced.says(&[id]);
}
