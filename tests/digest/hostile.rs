//! Tags, titles and projects that would like to be paths, markup or each other.

use std::collections::BTreeSet;

use serde_json::json;

use crate::world::{Made, World, made};

fn hostile() -> Vec<Made> {
    let long = "long ".repeat(2_000);
    let words = [
        "../../../etc/passwd",
        "..",
        "/abs/olute",
        "a/b",
        "CI/CD",
        "ci-cd",
        "🚀",
        "🎉",
        "tab\there\u{0}null\u{7f}",
        "<script>alert(1)</script>",
        "{process.env.HOME}",
        "---\ntitle: stolen\n---",
        "# heading\n\n- item",
        "[link](javascript:alert(1))",
        "`code` ``` fence",
        "\u{202e}turned\u{2066}",
        "=cmd|' /C calc'!A0",
        long.as_str(),
        "Case",
        "case",
        "two  blanks",
        "two blanks",
        "a+b",
        "",
    ];
    let mut all = Vec::new();
    for (number, word) in words.iter().enumerate() {
        for turn in 0..2 {
            let name = format!("h-{number}-{turn}");
            let mut one = made(&name, "2026-02-10T10:00:00Z", &[word, "shared"], word.trim());
            one.title = (*word).to_owned();
            one.text = format!("{word}\n\n{word}");
            one.tasks = vec![(*word).to_owned()];
            all.push(one);
        }
    }
    all
}

#[test]
fn hostile_names_stay_in_the_tree_and_stay_distinct() {
    let home = tempfile::tempdir().unwrap();
    let mut world = World::new(home.path());
    let memo =
        json!({"channels": ["digest", "tasks", "achievements", "portfolio"], "max_items": 100});
    world.select(&[
        json!({"selector_id": "p", "group": {"by": "project"}, "memo": memo,
               "exports": ["items.jsonl", "items.csv"]}),
        json!({"selector_id": "t", "bag_type": "tagbag", "group": {"by": "tag", "top": 100}}),
        json!({"selector_id": "c", "group": {"by": "combo", "min_items": 2, "top": 100}}),
        json!({"selector_id": "q", "bag_type": "pairbag", "group": {"by": "pair"},
               "pairs": {"min_count": 2, "min_npmi": -1.0}}),
    ]);
    let items = hostile();
    world.produce(&items);
    world.build().unwrap();
    assert_eq!(world.verify().violations, []);
    let names: BTreeSet<String> = std::fs::read_dir(home.path())
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(names, BTreeSet::from([".buses.publishing", "buses", "run"].map(str::to_owned)));
    for (path, bytes) in world.tree() {
        assert!(path.len() < 260, "{path}");
        let plain = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
        assert!(path.chars().all(plain) && !path.contains(".."), "{path}");
        let text = String::from_utf8(bytes).unwrap();
        let control = text.chars().any(|c| c.is_control() && c != '\n');
        assert!(!control || path.ends_with(".json") || path.ends_with(".jsonl"), "{path}");
        if !path.ends_with(".md") {
            continue;
        }
        let (_, body) = text[4..].split_once("\n---\n").unwrap();
        assert_eq!(text.matches("\n---\n").count(), 1, "{path}: one front matter");
        assert!(!text.contains('\u{202e}') && !text.contains('\u{2066}'), "{path}");
        assert!(!body.contains('{') && !body.contains('}'), "{path}: no expression");
        for tag in body.split('<').skip(1) {
            let known = ["details>", "/details>", "summary>", "/summary>", "a id=\"sum_", "/a>"];
            assert!(known.iter().any(|known| tag.starts_with(known)), "{path}: <{tag}");
        }
        for (at, _) in body.match_indices("](") {
            let (before, target) = (&body[..at], &body[at + 2..]);
            let ours = target.starts_with("#sum_") || target.starts_with("../../");
            assert!(ours || before.ends_with('\\'), "{path}: {target}");
        }
    }
    // Every spelling of a project is a project of its own.
    let projects: BTreeSet<&str> =
        items.iter().filter_map(|one| one.project.as_deref()).map(str::trim).collect();
    let projects: BTreeSet<&str> = projects.into_iter().filter(|one| !one.is_empty()).collect();
    let groups: Vec<Option<String>> =
        world.bags("p").into_iter().map(|(_, group, _)| group).collect();
    assert_eq!(groups.len(), projects.len());
    for (_, _, path) in world.bags("p") {
        assert_eq!(world.members(&path).len(), 2, "{path}");
    }
    // Two spellings of one tag are one tag, and different ones are not.
    let tags: BTreeSet<String> =
        world.bags("t").into_iter().filter_map(|(_, group, _)| group).collect();
    assert!(tags.contains("free:ci_cd") && !tags.contains("free:unknown"), "{tags:?}");
    assert_eq!(tags.iter().filter(|tag| tag.starts_with("free:chk_")).count(), 2, "{tags:?}");
    let ci = world.bags("t").into_iter().find(|(_, g, _)| g.as_deref() == Some("free:ci_cd"));
    assert_eq!(world.members(&ci.unwrap().2).len(), 4);
    let csv = world.tree().into_iter().find(|(path, bytes)| {
        path.ends_with("items.csv") && String::from_utf8_lossy(bytes).contains("cmd|")
    });
    let csv = String::from_utf8(csv.unwrap().1).unwrap();
    assert!(!csv.contains("\"=cmd"), "no cell begins with a formula");
}
