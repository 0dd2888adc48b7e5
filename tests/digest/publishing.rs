//! What a build publishes, when it changes nothing, how bags retire, and what a failure leaves.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};
use summarizer::contract::hash::sha256;
use summarizer::contract::ids::Seq;
use summarizer::contract::schema;
use summarizer::contract::time::{Timestamp, parse_instant};
use summarizer::contract::vocabulary::Stream;
use summarizer::digest::build::{BuildError, BuildOrder};
use summarizer::digest::publish::DigestError;
use summarizer::state::event::{Event, SummaryPointer};

use crate::faulty::{Change, Faulty, failing, record_of, without_records};
use crate::world::{World, a_month, made, tree};

fn world() -> (tempfile::TempDir, World) {
    let home = tempfile::tempdir().unwrap();
    let mut world = World::new(home.path());
    world.produce(&a_month());
    (home, world)
}

/// A few days and a few selectors of every kind, for what is done many times.
pub fn small_world() -> (tempfile::TempDir, World) {
    let home = tempfile::tempdir().unwrap();
    let mut world = World::new(home.path());
    world.select(&small_selectors());
    world.produce(&a_month()[8..20]);
    (home, world)
}

fn small_selectors() -> [Value; 3] {
    [
        json!({"selector_id": "weekly", "group": {"by": "project"}, "exports": ["items.jsonl"]}),
        json!({"selector_id": "tags", "bag_type": "tagbag", "group": {"by": "tag", "top": 3}}),
        json!({"selector_id": "pairs", "bag_type": "pairbag", "group": {"by": "pair", "top": 2},
               "window": {"type": "month"}, "pairs": {"min_count": 2}}),
    ]
}

#[test]
fn a_build_satisfies_the_contract() {
    let (_home, mut world) = world();
    let report = world.build().unwrap();
    assert!(report.published > 40 && report.memos >= report.published, "{report:?}");
    let checked = world.verify();
    assert_eq!(checked.violations, [], "{:#?}", checked.violations);
    let registry = world.registry();
    let entries = registry["entries"].as_array().unwrap();
    assert_eq!(entries.len() as u64, report.published);
    let types: BTreeSet<&str> =
        entries.iter().map(|entry| entry["bag_type"].as_str().unwrap()).collect();
    assert_eq!(types, BTreeSet::from(["cohort", "pairbag", "tagbag"]));
    for entry in entries {
        let path = entry["path"].as_str().unwrap();
        let bag = world.json(&format!("{path}/meta/bag.json"));
        let trace = world.json(&format!("{path}/meta/trace.json"));
        assert_eq!(bag["counts"]["published_memos"], entry["published_memos"]);
        assert!(!bag["inputs"]["summary_bus_manifest_refs"].as_array().unwrap().is_empty());
        assert_eq!(trace["rules"]["registry_hash"], world.selectors.hash().hex());
    }
    for (name, file) in [
        ("l2_by_window.v1", "index/l2_by_window.json"),
        ("l2_latest.v1", "index/l2_latest.json"),
        ("tags_index.v1", "index/tags_index.json"),
        ("pairs_index.v1", "index/pairs_index.json"),
    ] {
        assert_eq!(schema::check(name, &world.json(file)), [], "{file}");
    }
    assert!(!world.json("index/pairs_index.json")["pairs"].as_array().unwrap().is_empty());
    let record = world.json(&format!("artifacts/run_records/{}.run_record.json", report.run_id));
    assert_eq!(schema::check("run_record.v1", &record), []);
    assert_eq!(record["status"], "success");
    let stages: Vec<&str> =
        record["stages"].as_array().unwrap().iter().map(|s| s["stage"].as_str().unwrap()).collect();
    assert_eq!(
        stages,
        ["input_resolution", "selection", "staging", "validation", "promotion", "index_update"]
    );
    assert!(
        record["outputs"].as_array().unwrap().iter().all(|o| o["promotion_status"] == "promoted")
    );
    let indexes = record["outputs"].as_array().unwrap().iter();
    let indexes: Vec<&Value> =
        indexes.filter(|one| one["path"].as_str().unwrap().starts_with("index/")).collect();
    assert_eq!(indexes.len(), 5);
    for one in indexes {
        let bytes = std::fs::read(world.buses.join(one["path"].as_str().unwrap())).unwrap();
        assert_eq!(one["data_hash"], sha256(bytes).hex(), "{one}");
    }
    let workshop = world.buses.with_file_name(".buses.publishing");
    assert!(workshop.join(".staging").is_dir(), "builds are prepared beside the bus home");
    assert!(!workshop.join(".staging").join(&report.run_id).exists());
    assert!(!world.buses.join(".staging").exists());
}

#[test]
fn bags_are_indexed_by_window() {
    let (_home, mut world) = world();
    world.build().unwrap();
    let windows = world.json("index/l2_by_window.json");
    let week = &windows["windows"]["2026-W07"];
    assert_eq!(
        (&week["start_day"], &week["end_day"]),
        (&json!("2026-02-09"), &json!("2026-02-15"))
    );
    for label in ["2026-02-10", "2026-W07_W08", "2026-02", "all"] {
        assert!(windows["windows"][label]["bag_refs"].is_array(), "{label}");
    }
    let weekly = world.bags("project.weekly");
    let groups: BTreeSet<&str> =
        weekly.iter().filter_map(|(_, group, _)| group.as_deref()).collect();
    assert_eq!(groups, BTreeSet::from(["site", "shop"]));
    let (_, _, path) = &weekly[0];
    assert!(world.buses.join(path).join("data/items.csv").exists());
    let tasks = world.bags("tasks.open");
    let memo =
        world.disk.read(&world.buses.join(&tasks[0].2).join("memo/cohort__tasks_open__tasks.md"));
    let memo = String::from_utf8(memo.unwrap()).unwrap();
    let first = memo.find("finish site 4").unwrap();
    assert!(first < memo.find("finish site 16").unwrap(), "oldest first");
    assert_eq!(memo.matches("write docs").count(), 1, "the same task once");
}

#[test]
fn a_second_build_changes_no_byte_and_reports_unchanged() {
    let (_home, mut world) = world();
    world.build().unwrap();
    let before = world.tree();
    let mut order = world.order();
    order.record = false;
    let again = world.build_order(&order).unwrap();
    assert!(again.unchanged && again.published == 0, "{again:?}");
    assert_eq!(world.tree(), before);
    order.all = true;
    let all = world.build_order(&order).unwrap();
    assert!(all.unchanged && all.unchanged_bags > 40, "{all:?}");
    assert_eq!(world.tree(), before);
    let recorded = world.build().unwrap();
    assert!(recorded.unchanged);
    let after: BTreeMap<_, _> = world
        .tree()
        .into_iter()
        .filter(|(path, _)| !path.contains(&format!("{}.run_record", recorded.run_id)))
        .collect();
    assert_eq!(after, before, "a build that is asked for leaves its record and nothing else");
}

#[test]
fn one_new_summary_touches_only_its_windows() {
    let (_home, mut world) = world();
    world.build().unwrap();
    let before = world.tree();
    world.produce(&[made("late", "2026-02-10T10:00:00Z", &["automation"], "site")]);
    let report = world.build().unwrap();
    assert!(report.windows < 20, "{report:?}");
    assert!(report.published > 0 && report.retired == report.published, "{report:?}");
    let after = world.tree();
    for (path, bytes) in &before {
        if path.starts_with("digests/") {
            assert_eq!(after.get(path), Some(bytes), "a published bag never changes");
        }
    }
    let registry = world.registry();
    for retired in registry["retired"].as_array().unwrap() {
        assert_eq!(retired["reason"], "superseded");
        let by = retired["superseded_by"].as_str().unwrap();
        let entries = registry["entries"].as_array().unwrap();
        assert!(entries.iter().any(|entry| entry["bag_id"] == by));
    }
    assert_eq!(world.verify().violations, []);
    let day = world.bags("overview.daily");
    let path = &day.iter().find(|(label, ..)| label == "2026-02-10").unwrap().2;
    assert_eq!(world.members(path).len(), 3);
}

#[test]
fn the_order_of_arrival_does_not_matter() {
    let mut shapes = Vec::new();
    for turn in 0..3 {
        let home = tempfile::tempdir().unwrap();
        let mut world = World::new(home.path());
        let mut items = a_month()[..14].to_vec();
        match turn {
            0 => {}
            1 => items.reverse(),
            _ => items.sort_by_key(|one| one.id()),
        }
        world.threads = turn + 1;
        world.select(&small_selectors());
        for part in items.chunks(7) {
            world.produce(part);
        }
        world.build().unwrap();
        // Manifests of the Summary Bus quote the log, so what quotes them differs; the rest is one.
        let files = world.tree().into_iter().filter(|(path, _)| {
            path.ends_with(".md") || path.contains("/data/") || path.ends_with("memo/index.json")
        });
        let traces = world.tree().into_iter().filter(|(path, _)| path.ends_with("trace.json"));
        let traces: BTreeMap<String, Value> = traces
            .map(|(path, bytes)| {
                let mut trace: Value = serde_json::from_slice(&bytes).unwrap();
                trace["integrity"] = Value::Null;
                (path, trace)
            })
            .collect();
        shapes.push((files.collect::<BTreeMap<_, _>>(), traces));
    }
    assert!(shapes[0].1.len() > 5);
    assert_eq!(shapes[0], shapes[1]);
    assert_eq!(shapes[0], shapes[2]);
}

#[test]
fn a_deleted_tree_is_restored_from_the_log() {
    let (home, mut world) = small_world();
    world.build().unwrap();
    world.produce(&[made("late", "2026-02-10T10:00:00Z", &["automation"], "site")]);
    world.build().unwrap();
    world.gc();
    world.produce(&[made("later", "2026-02-11T10:00:00Z", &["automation"], "site")]);
    world.build().unwrap();
    let live = world.tree();
    let to = home.path().join("again");
    world.export(&to).unwrap();
    assert_eq!(tree(world.disk.as_ref(), &to), live);
    std::fs::remove_dir_all(world.buses.join("digests")).unwrap();
    std::fs::remove_dir_all(world.buses.join("index")).unwrap();
    std::fs::remove_dir_all(world.buses.join("artifacts")).unwrap();
    world.recover().unwrap();
    assert_eq!(world.tree(), live);
}

#[test]
fn bags_retire_and_return_with_their_selector() {
    let (_home, mut world) = world();
    let weekly = json!({"selector_id": "weekly", "group": {"by": "project"}});
    let daily = json!({"selector_id": "daily", "window": {"type": "day"}});
    world.select(&[weekly.clone(), daily.clone()]);
    world.build().unwrap();
    let bags = world.bags("weekly");
    assert_eq!(bags.len(), 6);
    world.select(std::slice::from_ref(&daily));
    let report = world.build().unwrap();
    assert_eq!((report.retired, report.published), (6, 0));
    assert!(world.bags("weekly").is_empty());
    assert_eq!(world.registry()["retired"][0]["reason"], "selector_gone");
    assert_eq!(world.verify().violations, [], "retired bags are no orphans");
    world.select(&[weekly.clone(), daily.clone()]);
    let report = world.build().unwrap();
    assert_eq!((report.restored, report.published, report.retired), (6, 0, 0));
    assert_eq!(world.bags("weekly"), bags);
    let changed =
        json!({"selector_id": "weekly", "group": {"by": "project"}, "selector_version": "2"});
    world.select(&[changed, daily.clone()]);
    let report = world.build().unwrap();
    assert_eq!((report.published, report.retired), (6, 6), "another record makes other bags");
    let disabled = json!({"selector_id": "weekly", "status": "disabled"});
    world.select(&[disabled, daily]);
    assert_eq!(world.build().unwrap().retired, 6);
    let removed = world.gc();
    assert_eq!(removed.len(), 12);
    assert_eq!(world.verify().violations, []);
    assert!(world.registry()["retired"].as_array().unwrap().is_empty());
    for (_, _, path) in bags {
        assert!(!world.buses.join(path).exists());
    }
    assert!(world.gc().is_empty(), "nothing is left to remove");
    world.select(&[weekly]);
    assert_eq!(world.build().unwrap().published, 6, "what was removed is made again");
}

#[test]
fn bags_of_groups_that_became_too_small_retire() {
    let home = tempfile::tempdir().unwrap();
    let mut world = World::new(home.path());
    world.select(&[
        json!({"selector_id": "t", "bag_type": "tagbag", "group": {"by": "tag", "top": 1}}),
    ]);
    world.produce(&[made("a", "2026-02-10T10:00:00Z", &["x"], "")]);
    world.build().unwrap();
    assert_eq!(world.bags("t")[0].1.as_deref(), Some("free:x"));
    world.produce(&[
        made("b", "2026-02-10T11:00:00Z", &["y"], ""),
        made("c", "2026-02-10T12:00:00Z", &["y"], ""),
    ]);
    world.build().unwrap();
    assert_eq!(world.bags("t")[0].1.as_deref(), Some("free:y"));
    assert_eq!(world.registry()["retired"][0]["reason"], "no_longer_selected");
}

#[test]
fn changed_rules_of_projects_are_built_where_they_change_a_bag() {
    let (_home, mut world) = small_world();
    let of_a_day = json!({"selector_id": "d", "window": {"type": "day"}});
    let of_a_project = json!({"selector_id": "p", "group": {"by": "project"}});
    let by = |rules: Value| json!({"schema_version": "project_rules.v1", "rules": rules});
    let given = [of_a_day.clone(), of_a_project.clone()];
    world.select(&given);
    world.build().unwrap();
    let told = |world: &World| -> Vec<String> {
        let bags = world.bags("d");
        let memos = bags.iter().map(|(.., path)| {
            let index = world.json(&format!("{path}/memo/index.json"));
            let memo = world.buses.join(path).join(index["memos"][0]["path"].as_str().unwrap());
            std::fs::read_to_string(memo).unwrap()
        });
        let lines = memos.flat_map(|memo| memo.lines().map(str::to_owned).collect::<Vec<_>>());
        lines.filter(|line| line.starts_with("- Projects: ")).collect()
    };
    let before = (world.bags("d"), world.bags("p"));
    assert!(told(&world).iter().all(|line| !line.contains("Renamed")) && !told(&world).is_empty());
    world.select_by(&given, Some(by(json!([{"from": "source", "project": "Renamed"}]))));
    let report = world.build().unwrap();
    assert!(!report.unchanged);
    let projects: BTreeSet<Option<String>> =
        world.bags("p").into_iter().map(|(_, group, _)| group).collect();
    assert_eq!(projects, BTreeSet::from([Some("Renamed".to_owned())]));
    assert!(told(&world).iter().all(|line| line.contains("Renamed")), "{:?}", told(&world));
    assert!(world.verify().violations.is_empty(), "{:?}", world.verify().violations);
    // Rules that give every summary the project that it has change no bag.
    let same = by(json!([{"from": "source", "project": "Renamed"}, {"from": "folder"}]));
    world.select_by(&given, Some(same));
    assert!(world.build().unwrap().unchanged);
    // Without own rules, the bags of the beginning are the right ones again.
    world.select(&given);
    assert!(world.build().unwrap().restored > 0);
    assert_eq!((world.bags("d"), world.bags("p")), before);
    assert!(world.verify().violations.is_empty());
}

#[test]
fn an_order_can_name_one_selector_or_window() {
    let (_home, mut world) = world();
    let mut order = world.order();
    order.selector = Some("overview.daily".to_owned());
    order.window = Some("2026-02-10".to_owned());
    let report = world.build_order(&order).unwrap();
    assert_eq!((report.windows, report.published), (1, 1));
    let mut order = world.order();
    order.selector = Some("nobody".to_owned());
    let error = world.build_order(&order).unwrap_err();
    let error = error.to_string();
    assert!(
        error.starts_with("there is no active selector nobody; active selectors are "),
        "{error}"
    );
    let report = world.build().unwrap();
    assert!(report.published > 40 && report.retired == 0, "the rest was never considered");
}

#[test]
fn private_summaries_stay_out_by_default() {
    let (_home, mut world) = world();
    let private = a_month()[5].id();
    world.build().unwrap();
    for (path, bytes) in world.tree() {
        if path.starts_with("digests/") {
            assert!(!String::from_utf8_lossy(&bytes).contains(&private), "{path}");
        }
    }
    world.select(&[json!({"selector_id": "p", "match": {"publish": "private"}})]);
    world.build().unwrap();
    let bags = world.bags("p");
    assert_eq!(world.members(&bags[0].2), [private]);
    let memo = world.disk.read(&world.buses.join(&bags[0].2).join("memo/cohort__p.md")).unwrap();
    assert!(String::from_utf8(memo).unwrap().contains("\npublish: false\n"));
}

#[test]
fn without_atomic_rename_nothing_is_published() {
    let fault = Faulty { can_swap: false, ..Faulty::sound() };
    let (_home, mut world, before, error) = failing(fault);
    assert!(matches!(error, BuildError::Digest(DigestError::Index(_))), "{error:?}");
    assert_eq!(without_records(world.tree()), without_records(before));
    assert_eq!(record_of(&world)["errors"][0]["subtype"], "NOT_ATOMIC");
    assert!(world.build().unwrap().published > 0);
}

#[test]
fn a_failed_promotion_is_recorded_and_finished_later() {
    let fault = Faulty { fails_rename_of: Some("digests/L2/tagbag"), ..Faulty::sound() };
    let (_home, mut world, before, error) = failing(fault);
    assert!(matches!(error, BuildError::Digest(DigestError::Disk { .. })), "{error:?}");
    let index = |tree: &BTreeMap<String, Vec<u8>>| -> BTreeMap<String, Vec<u8>> {
        tree.clone().into_iter().filter(|(path, _)| path.starts_with("index/")).collect()
    };
    assert_eq!(index(&world.tree()), index(&before), "the old indexes stay");
    let record = record_of(&world);
    assert_eq!(
        (&record["status"], &record["errors"][0]["stage"]),
        (&json!("error"), &json!("promotion"))
    );
    assert_eq!(record["errors"][0]["details"]["promotion_follows"], true);
    let hint = record["errors"][0]["remediation_hint"].as_str().unwrap();
    assert!(hint.contains("next start"), "{hint}");
    world.recover().unwrap();
    assert_ne!(index(&world.tree()), index(&before), "the log says it is published");
    assert_eq!(world.verify().violations, [], "a run that failed so is a legal run");
}

#[test]
fn failed_builds_leave_room_for_the_next_one() {
    let staged = |world: &World| world.digests().staged().unwrap();
    // A full disk: nothing is left, however often it fails, and the record says what to do.
    let fault = || Faulty { is_full_at: Some("meta/trace.json"), ..Faulty::sound() };
    let (_home, mut world, before, error) = failing(fault());
    for _ in 0..3 {
        assert!(matches!(error, BuildError::Digest(DigestError::Disk { .. })), "{error:?}");
        assert_eq!(staged(&world), [""; 0]);
        let record = record_of(&world);
        assert_eq!(schema::check("run_record.v1", &record), []);
        assert_eq!(record["errors"][0]["type"], "STORAGE_UNAVAILABLE");
        assert!(record["errors"][0]["details"].get("staged").is_none());
        let sound = std::mem::replace(&mut world.disk, Arc::new(fault()));
        world.build().unwrap_err();
        world.disk = sound;
    }
    assert_eq!(without_records(world.tree()), without_records(before));
    assert!(world.build().unwrap().published > 0);
    assert_eq!(world.verify().violations, []);
    // Files that a check refuses stay to be looked at: those of the last build alone.
    let lost: Change = ("meta/trace.json", |_| None);
    let fault = || Faulty { changes: Some(lost), ..Faulty::sound() };
    let (_home, mut world, _, error) = failing(fault());
    assert!(matches!(error, BuildError::Invalid { .. }), "{error:?}");
    let sound = std::mem::replace(&mut world.disk, Arc::new(fault()));
    world.build().unwrap_err();
    world.disk = sound;
    assert_eq!(staged(&world), [format!("run_build_{}", world.builds)]);
    let gone = world.collect(false, false).unwrap();
    assert_eq!(gone.staged, [format!("run_build_{}", world.builds - 1)]);
    assert_eq!(staged(&world), [""; 0]);
}

#[test]
fn a_build_without_room_on_the_disk_writes_nothing_and_is_no_failed_build() {
    let (_home, mut world) = small_world();
    world.keeps_free = u64::MAX / 2;
    let error = world.build().unwrap_err();
    assert!(matches!(error, BuildError::NoRoom { .. }), "{error:?}");
    assert!(error.to_string().contains("commit.disk_headroom"), "{error}");
    assert_eq!((world.log.notes.len(), world.overview()["last_build"].clone()), (0, Value::Null));
    world.keeps_free = 0;
    assert!(world.build().unwrap().published > 0);
    // A build with nothing to write needs no room.
    world.keeps_free = u64::MAX / 2;
    assert!(world.build().unwrap().unchanged);
}

#[test]
fn a_build_ends_once_even_when_its_record_cannot_be_written() {
    let fault = Faulty { fails_rename_of: Some("run_records/run_build_2"), ..Faulty::sound() };
    let (_home, mut world, _, error) = failing(fault);
    assert!(matches!(error, BuildError::Digest(DigestError::Disk { .. })), "{error:?}");
    let ends = world.log.notes.iter().filter(|note| *note == "digest.finished").count();
    assert_eq!(ends, 2, "one for each build: {:?}", world.log.notes);
    assert_eq!(world.recover().unwrap(), None);
    assert_eq!(record_of(&world)["status"], "success");
    assert_eq!(world.verify().violations, []);
}

#[test]
fn retired_bags_of_a_source_that_became_private_go_in_the_same_build() {
    let home = tempfile::tempdir().unwrap();
    let mut world = World::new(home.path());
    let daily = json!({"selector_id": "daily", "window": {"type": "day"}});
    let own = json!({"selector_id": "own", "match": {"publish": "any"}});
    world.select(&[daily, own]);
    let secret = made("secret", "2026-02-10T10:00:00Z", &[], "");
    world.produce(&[secret.clone(), made("other", "2026-02-10T11:00:00Z", &[], "")]);
    world.build().unwrap();
    let folders = |world: &World| -> BTreeSet<String> {
        let names = world.tree().into_keys().filter(|path| path.ends_with("meta/trace.json"));
        names.collect()
    };
    let summary = SummaryPointer {
        summary_id: secret.id(),
        stream: Stream::Sessions,
        day: secret.at.day_in(chrono_tz::UTC),
    };
    // The first summary is the second record.
    let private = Event::SourceBecamePrivate { request: Seq(1), made: Seq(2), summary };
    world.log.append(vec![(private, None)]);
    let built = world.build().unwrap();
    assert!(built.removed > 0, "{built:?}");
    let notes = &world.log.notes[world.log.notes.len() - 3..];
    assert_eq!(notes, ["digest.published", "digest.collected", "digest.finished"]);
    let text_of =
        |world: &World, path: &String| String::from_utf8(world.tree()[path].clone()).unwrap();
    let held = |world: &World| {
        folders(world).iter().filter(|path| text_of(world, path).contains(&secret.id())).count()
    };
    assert_eq!(held(&world), 1, "only the bag for oneself");
    world.produce(&[made("more", "2026-02-10T12:00:00Z", &[], "")]);
    let built = world.build().unwrap();
    assert_eq!((built.removed, built.retired), (1, 2), "the bag for oneself was made before");
    assert_eq!(held(&world), 1, "the newer bag for oneself");
    assert_eq!(world.verify().violations, []);
}

#[test]
fn summaries_must_be_published_before_their_bags() {
    let (_home, mut world) = small_world();
    std::fs::remove_dir_all(world.buses.join("summaries/manifest")).unwrap();
    let error = world.build().unwrap_err();
    assert!(matches!(error, BuildError::SummariesBehind { .. }), "{error}");
    assert_eq!(record_of(&world)["errors"][0]["type"], "INPUT_MISSING");
    assert!(!world.buses.join("index/digest_registry.json").exists());
}

/// More windows than a build writes at a time, the summary of the last one not yet published. Returns the
/// manifest that is missing and its content.
fn a_long_time_with_its_last_day_unpublished(world: &mut World) -> (PathBuf, Vec<u8>) {
    let first = parse_instant("2025-11-01T10:00:00Z").unwrap().at;
    let time = |days: i64| Timestamp(first.0 + days * 86_400_000).to_string();
    let all: Vec<_> = (0..70).map(|n| made(&format!("n{n:02}"), &time(n), &[], "")).collect();
    world.select(&[json!({"selector_id": "daily", "window": {"type": "day"}})]);
    world.produce(&all);
    let last = &time(69)[..10];
    let manifest = format!("summaries/manifest/{last}.sessions.summary.manifest.json");
    let path = world.buses.join(manifest);
    let content = std::fs::read(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    (path, content)
}

#[test]
fn a_build_that_waits_for_summaries_writes_nothing() {
    let home = tempfile::tempdir().unwrap();
    let mut world = World::new(home.path());
    let (path, content) = a_long_time_with_its_last_day_unpublished(&mut world);
    let order = BuildOrder { waits: true, ..world.order() };
    for _ in 0..2 {
        let error = world.build_order(&order).unwrap_err();
        assert!(matches!(error, BuildError::SummariesBehind { .. }), "{error}");
        assert_eq!(world.log.notes, [""; 0], "the log holds nothing of it");
    }
    std::fs::write(path, content).unwrap();
    let built = world.build_order(&order).unwrap();
    assert_eq!((built.published, built.windows), (70, 70));
    assert_eq!(record_of(&world)["status"], "success");
    assert_eq!(world.verify().violations, []);
}

#[test]
fn a_build_that_does_not_wait_for_summaries_commits_no_bag() {
    let home = tempfile::tempdir().unwrap();
    let mut world = World::new(home.path());
    a_long_time_with_its_last_day_unpublished(&mut world);
    world.build().unwrap_err();
    assert_eq!(world.log.notes, ["digest.started", "digest.finished"]);
}

#[test]
fn bag_ids_follow_from_the_trace() {
    let (_home, mut world) = world();
    world.select(&[json!({"selector_id": "w"})]);
    world.build().unwrap();
    let week = |world: &World| -> PathBuf {
        let bags = world.bags("w");
        bags.iter().find(|(label, ..)| label == "2026-W07").unwrap().2.clone().into()
    };
    let before = week(&world);
    let old = world.json(&format!("{}/meta/trace.json", before.display()));
    world.produce(&[made("late", "2026-02-10T10:00:00Z", &[], "")]);
    world.build().unwrap();
    let after = week(&world);
    assert_ne!(before, after);
    let new = world.json(&format!("{}/meta/trace.json", after.display()));
    assert_eq!(old["rules"], new["rules"], "the rules are the same");
    let ids = |trace: &Value| -> BTreeSet<String> {
        let ids = trace["upstream"]["summary_ids"].as_array().unwrap().iter();
        ids.map(|id| id.as_str().unwrap().to_owned()).collect()
    };
    let added: Vec<String> = ids(&new).difference(&ids(&old)).cloned().collect();
    assert_eq!(added, [made("late", "2026-02-10T10:00:00Z", &[], "").id()]);
}

#[test]
fn unknown_bag_folders_are_removed_only_on_request() {
    let (home, mut world) = small_world();
    world.build().unwrap();
    let old: BTreeSet<String> = world.bags("weekly").into_iter().map(|(.., path)| path).collect();
    assert!(world.collect(false, true).unwrap().orphans.is_empty());
    // The log is lost; what it had published is still there.
    drop(world);
    std::fs::remove_file(home.path().join("run/log.redb")).unwrap();
    let mut world = World::new(home.path());
    world.select(&small_selectors());
    world.builds = 10;
    world.produce(&[made("new", "2026-03-10T10:00:00Z", &["automation"], "other")]);
    let compared =
        summarizer::digest::compare::with_log(&world.disk, &world.buses, &world.reader());
    let compared = compared.unwrap();
    assert!(compared.notes.len() == 1 && compared.differences.is_empty(), "{compared:?}");
    let plan = world.collect(true, true).unwrap();
    assert!(old.iter().all(|path| plan.orphans.contains(path)), "{plan:?}");
    let error = world.collect(false, true).unwrap_err();
    assert!(matches!(error, BuildError::IndexIsForeign), "readers still go by the old indexes");
    assert!(old.iter().all(|path| world.buses.join(path).exists()));
    world.build().unwrap();
    let rules: BTreeSet<&str> = world.verify().violations.iter().map(|one| one.rule).collect();
    assert_eq!(rules, BTreeSet::from(["T004.orphan"]));
    let collected = world.collect(false, true).unwrap();
    assert_eq!(collected.orphans, plan.orphans);
    assert!(old.iter().all(|path| !world.buses.join(path).exists()));
    assert_eq!(world.verify().violations, []);
    assert_eq!(world.bags("weekly").len(), 1);
}

#[test]
fn differences_from_the_log_are_named_and_repaired() {
    let (_home, mut world) = small_world();
    world.build().unwrap();
    let live = world.tree();
    let compare = |world: &World| {
        summarizer::digest::compare::with_log(&world.disk, &world.buses, &world.reader()).unwrap()
    };
    let sound = compare(&world);
    assert_eq!(sound, Default::default());
    let path = |n: usize| world.bags("weekly")[n].2.clone();
    let (first, second) = (path(0), path(1));
    std::fs::write(world.buses.join(&first).join("memo/index.json"), "{}").unwrap();
    std::fs::write(world.buses.join(&first).join("meta/stray.json"), "{}").unwrap();
    std::fs::remove_dir_all(world.buses.join(&second)).unwrap();
    let index = world.buses.join("index/tags_index.json");
    std::fs::write(&index, "{}").unwrap();
    let record = world.buses.join("artifacts/run_records/run_build_1.run_record.json");
    std::fs::write(&record, "{}").unwrap();
    let found = compare(&world).differences;
    let told: BTreeSet<String> =
        found.iter().map(|one| format!("{} {}", one.path, one.what)).collect();
    let expected = [
        format!("{first}/memo/index.json differs from the log"),
        format!("{first}/meta/stray.json is not in the log"),
        format!("{second} is missing"),
        "index/tags_index.json differs from the log".to_owned(),
        "artifacts/run_records/run_build_1.run_record.json differs from the log".to_owned(),
    ];
    assert_eq!(told, BTreeSet::from(expected));
    assert_eq!(world.digests().repair(&found).unwrap(), 5);
    assert_eq!(world.tree(), live);
}

#[test]
fn a_build_writes_a_damaged_bag_again() {
    let home = tempfile::tempdir().unwrap();
    let mut world = World::new(home.path());
    world.produce(&a_month());
    world.build().unwrap();
    let whole = world.tree();
    let bags = world.bags("overview.daily");
    /// What is done to a bag, in words.
    type Damage = (&'static str, fn(&Path));
    let damage: [Damage; 5] = [
        ("a memo is edited", |bag| {
            let memo = std::fs::read_dir(bag.join("memo")).unwrap();
            let memo = memo.map(|one| one.unwrap().path());
            let memo = memo.filter(|path| path.extension().is_some_and(|end| end == "md"));
            std::fs::write(memo.last().unwrap(), "# Nothing happened\n").unwrap();
        }),
        ("a file is missing", |bag| std::fs::remove_file(bag.join("memo/index.json")).unwrap()),
        ("a file is added", |bag| std::fs::write(bag.join("memo/more.md"), "more").unwrap()),
        ("the folder is a link", |bag| {
            let other = bag.with_file_name("elsewhere");
            std::fs::rename(bag, &other).unwrap();
            std::os::unix::fs::symlink(&other, bag).unwrap();
            std::fs::rename(&other, bag.ancestors().nth(5).unwrap().join("outside")).unwrap();
            std::fs::remove_file(bag).unwrap();
            let outside = bag.ancestors().nth(5).unwrap().join("outside");
            std::os::unix::fs::symlink(outside, bag).unwrap();
        }),
        ("the folder is gone", |bag| std::fs::remove_dir_all(bag).unwrap()),
    ];
    for ((what, damage), (_, _, path)) in damage.into_iter().zip(&bags) {
        damage(&world.buses.join(path));
        assert!(!world.verify().violations.is_empty(), "{what}");
        let report = world.build().unwrap();
        assert_eq!((report.rewritten, report.unchanged), (1, true), "{what}");
        let (now, mut then) = (world.tree(), whole.clone());
        then.retain(|path, _| !path.starts_with("artifacts/"));
        assert!(then.iter().all(|(path, bytes)| now.get(path) == Some(bytes)), "{what}");
        assert_eq!(world.verify().violations, [], "{what}");
    }
}
