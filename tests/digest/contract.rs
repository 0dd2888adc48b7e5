//! The Digest Bus contract, line by line: what a build must produce, what it must refuse, and which
//! test holds on to it. A rule `T004.x` is proven twice: here a build that would break it publishes
//! nothing, and in `fixtures` a published tree that breaks it, and only it, is found by `verify`.
//!
//! | contract | here or in |
//! |---|---|
//! | smoke: required files, also with zero memos | `a_bag_without_memos_is_complete`, `publishing::a_build_satisfies_the_contract` |
//! | smoke: referenced paths exist | `every_reference_of_every_index_leads_to_a_file` |
//! | smoke: hashes reconcile | `every_reference_of_every_index_leads_to_a_file`, `fixtures` (bag_hash, bag_dir_hash, memo_hash) |
//! | smoke: summary ids listed, unique, well-formed; selector hash present | `every_memo_links_its_summaries`, `fixtures` (summary_ids, memo_trace, trace_rules) |
//! | smoke: staged, then promoted, with evidence | `publishing::a_build_satisfies_the_contract`, `fixtures` (run_record) |
//! | acceptance: no missing required file | `a_build_that_would_break_the_contract_is_refused` (bag.json, trace.json, memo/index.json lost) |
//! | acceptance: no reference to a missing path | `an_index_never_names_a_missing_folder`, `fixtures` (dangling) |
//! | acceptance: no memo without sidecar | `a_build_that_would_break_the_contract_is_refused` (sidecar lost), `fixtures` (sidecar) |
//! | acceptance: no trace without upstream linkage | `a_build_that_would_break_the_contract_is_refused` (no summaries), `fixtures` (trace_linkage) |
//! | acceptance: no partial publish | `readers`, `crash`, `commands::readers_see_no_mismatch_while_builds_are_killed` |
//! | failure: index references missing bag directory | `an_index_never_names_a_missing_folder`, `fixtures` (dangling) |
//! | failure: missing bag.json or schema version marker | `a_build_that_would_break_the_contract_is_refused` |
//! | failure: memo missing sidecar or integrity mismatch | `a_build_that_would_break_the_contract_is_refused` |
//! | failure: bag id drift without selector or input changes | `a_build_that_would_break_the_contract_is_refused`, `publishing::a_second_build_changes_no_byte_and_reports_unchanged`, `fixtures` (bag_id) |
//! | failure: non-atomic index update | `publishing::without_atomic_rename_nothing_is_published`, `readers::the_reader_follows_the_indexes`, `fixtures` (index_hash) |
//! | failure: counts of bag.json and memo index differ | `a_build_that_would_break_the_contract_is_refused`, `fixtures` (published_memos) |
//! | on any failure: nothing partial, recorded, reproducible | `a_build_that_would_break_the_contract_is_refused` |
//! | invariants: indexes authoritative, in both directions | `fixtures` (orphan, dangling, indexes_agree, duplicate_bag) |
//! | compatibility: unknown fields are ignored | `readers_ignore_unknown_files_and_members` |

use std::path::Path;

use serde_json::{Value, json};
use summarizer::bus::digests::DigestBus;
use summarizer::contract::hash::sha256;
use summarizer::contract::schema;
use summarizer::digest::build::BuildError;
use summarizer::verify::{Expected, Report, verify_bag, verify_indexes};

use crate::faulty::{Change, Faulty, failing, record_of, without_records};
use crate::publishing::small_world;
use crate::world::{World, a_month, made};

/// One bit in the middle.
fn flipped(mut bytes: Vec<u8>) -> Option<Vec<u8>> {
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    Some(bytes)
}

fn lost(_: Vec<u8>) -> Option<Vec<u8>> {
    None
}

fn edited(bytes: &[u8], edit: impl FnOnce(&mut Value)) -> Option<Vec<u8>> {
    let mut value: Value = serde_json::from_slice(bytes).unwrap();
    edit(&mut value);
    Some(serde_json::to_vec_pretty(&value).unwrap())
}

fn without_version(bytes: Vec<u8>) -> Option<Vec<u8>> {
    edited(&bytes, |value| drop(value.as_object_mut().unwrap().remove("schema_version")))
}

fn without_summaries(bytes: Vec<u8>) -> Option<Vec<u8>> {
    edited(&bytes, |value| value["upstream"]["summary_ids"] = json!([]))
}

fn without_memos(bytes: Vec<u8>) -> Option<Vec<u8>> {
    edited(&bytes, |value| value["memos"] = json!([]))
}

fn of_another_window(bytes: Vec<u8>) -> Option<Vec<u8>> {
    edited(&bytes, |value| value["window"]["label"] = "2020-W01".into())
}

/// The violations of what a failed build left staged, found again from the files alone.
fn found_again(world: &World, staged: &Path) -> Vec<String> {
    let disk = world.disk.as_ref();
    let mut report = Report::default();
    for bag_type in disk.list(&staged.join("digests/L2")).unwrap_or_default() {
        for bag_id in disk.list(&staged.join("digests/L2").join(&bag_type)).unwrap() {
            let path = format!("digests/L2/{bag_type}/{bag_id}");
            let expected = Expected {
                path: path.clone(),
                bag_id,
                bag_type: bag_type.clone(),
                ..Expected::default()
            };
            verify_bag(disk, &staged.join(path), &expected, None, &mut report).unwrap();
        }
    }
    if disk.stat(&staged.join("index")).unwrap().is_some() {
        verify_indexes(disk, &staged.join("index"), &mut report).unwrap();
    }
    report.violations.iter().map(|one| format!("{} {}", one.rule, one.file)).collect()
}

#[test]
fn a_build_that_would_break_the_contract_is_refused() {
    let changes: [(Change, &str); 15] = [
        (("meta/bag.json", lost), "T004.file_missing"),
        (("meta/bag.json", without_version), "T004.bag_schema"),
        (("meta/bag.json", of_another_window), "T004.bag_id"),
        (("meta/bag.json", flipped), "T004.bag_dir_hash"),
        (("meta/trace.json", lost), "T004.file_missing"),
        (("meta/trace.json", without_version), "T004.bag_schema"),
        (("meta/trace.json", without_summaries), "T004.trace_linkage"),
        (("memo/index.json", lost), "T004.file_missing"),
        (("memo/index.json", without_version), "T004.bag_schema"),
        (("memo/index.json", without_memos), "T004.published_memos"),
        ((".meta.json", lost), "T004.sidecar"),
        ((".meta.json", without_version), "T004.bag_schema"),
        ((".md", flipped), "T004.memo_hash"),
        (("digest_registry.json", lost), "T004.index_missing"),
        (("l2_by_window.json", flipped), "T004.index_hash"),
    ];
    for (change, rule) in changes {
        let place = format!("{} {rule}", change.0);
        let fault = Faulty { changes: Some(change), ..Faulty::sound() };
        let (_home, mut world, before, error) = failing(fault);
        assert!(matches!(error, BuildError::Invalid { .. }), "{place}: {error}");
        assert_eq!(without_records(world.tree()), without_records(before), "{place}");
        // The run record says what is needed to see it again.
        let record = record_of(&world);
        assert_eq!(schema::check("run_record.v1", &record), []);
        assert_eq!(record["status"], "error");
        let failed = &record["errors"][0];
        assert_eq!(
            (&failed["type"], &failed["subtype"]),
            (&json!("PUBLISH_FAILURE"), &json!("VALIDATION_FAILED"))
        );
        assert_eq!(failed["stage"], "validation", "{place}");
        let listed = failed["details"]["violations"].as_array().unwrap();
        let named = |one: &Value| {
            format!("{} {}", one["rule"].as_str().unwrap(), one["file"].as_str().unwrap())
        };
        let listed: Vec<String> = listed.iter().map(named).collect();
        assert!(listed.iter().any(|one| one.starts_with(rule)), "{place}: {listed:?}");
        let staged = failed["details"]["staged"].as_str().unwrap().to_owned();
        let again = found_again(&world, &world.buses.join(&staged));
        let seen = listed.iter().filter(|one| one.starts_with(rule));
        for one in seen {
            assert!(again.contains(one), "{place}: {one} is seen again: {again:?}");
        }
        // It stays and is reported until the next build begins.
        assert!(world.recover().unwrap().is_none(), "the failed build has ended");
        assert!(world.buses.join(&staged).exists(), "a start keeps it");
        let told = world.overview();
        let run_id = record["run_id"].as_str().unwrap();
        assert_eq!(told["failed"][0]["run_id"], run_id, "a status tells of it: {told}");
        assert_eq!(told["failed"][0]["staged"], staged.as_str());
        assert_eq!((&told["last_build"]["ok"], &told["building"]), (&json!(false), &Value::Null));
        let plan = world.collect(true, false).unwrap();
        assert_eq!((plan.dry_run, plan.staged), (true, vec![run_id.to_owned()]));
        assert!(world.buses.join(&staged).exists(), "a dry run touches nothing");
        let report = world.build().unwrap();
        assert!(report.published > 0);
        assert_eq!(world.verify().violations, []);
        assert!(!world.buses.join(&staged).exists(), "until the next build");
        assert_eq!(world.overview()["failed"], json!([]));
    }
}

#[test]
fn an_index_never_names_a_missing_folder() {
    let (_home, mut world) = small_world();
    world.build().unwrap();
    let (.., path) = world.bags("pairs").into_iter().next().unwrap();
    std::fs::remove_dir_all(world.buses.join(&path)).unwrap();
    let index = std::fs::read(world.buses.join("index/index.sha256")).unwrap();
    // A build that did not begin with what a start does finds out, and stops.
    world.produce(&[crate::world::made("late", "2026-02-10T10:00:00Z", &["x"], "site")]);
    let error = world.build().unwrap_err();
    assert!(error.to_string().contains(&path), "{error}");
    let record = record_of(&world);
    let violation = &record["errors"][0]["details"]["violations"][0];
    assert_eq!(
        (&violation["rule"], &violation["file"]),
        (&json!("T004.dangling"), &json!("index/digest_registry.json"))
    );
    assert_eq!(std::fs::read(world.buses.join("index/index.sha256")).unwrap(), index);
    world.recover().unwrap();
    assert!(world.buses.join(&path).exists(), "the log has it");
    assert!(world.build().unwrap().published > 0);
    assert_eq!(world.verify().violations, []);
}

#[test]
fn a_bag_without_memos_is_complete() {
    let home = tempfile::tempdir().unwrap();
    let mut world = World::new(home.path());
    world.select(&[json!({"selector_id": "data", "memo": {"channels": []},
                          "exports": ["items.jsonl", "items.csv"]})]);
    world.produce(&a_month()[..4]);
    world.build().unwrap();
    assert_eq!(world.verify().violations, []);
    let (.., path) = world.bags("data").into_iter().next().unwrap();
    for file in ["meta/bag.json", "meta/trace.json", "memo/index.json", "data/items.csv"] {
        assert!(world.buses.join(&path).join(file).exists(), "{file}");
    }
    assert_eq!(world.json(&format!("{path}/memo/index.json"))["memos"], json!([]));
    assert_eq!(world.json(&format!("{path}/meta/bag.json"))["counts"]["published_memos"], 0);
    let bus = DigestBus::open(&world.buses).unwrap();
    let entry = &bus.indexes().unwrap().entries()[0];
    assert_eq!(bus.bag(entry).unwrap().memos().unwrap(), []);
}

/// Everything in a record that names a file below the bus home.
fn paths(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            found.extend(members.get("path").and_then(Value::as_str).map(str::to_owned));
            members.values().for_each(|member| paths(member, found));
        }
        Value::Array(items) => items.iter().for_each(|item| paths(item, found)),
        _ => {}
    }
}

#[test]
fn every_reference_of_every_index_leads_to_a_file() {
    let (_home, mut world) = small_world();
    world.build().unwrap();
    for name in ["digest_registry", "l2_by_window", "l2_latest", "tags_index", "pairs_index"] {
        let mut named = Vec::new();
        paths(&world.json(&format!("index/{name}.json")), &mut named);
        assert!(!named.is_empty(), "{name}");
        for path in named {
            assert!(world.buses.join(&path).exists(), "{name}: {path}");
        }
    }
    // As a checker would who knows the contract and nothing of this program.
    for entry in world.registry()["entries"].as_array().unwrap() {
        let path = entry["path"].as_str().unwrap();
        let hash =
            |file: &str| sha256(world.disk.read(&world.buses.join(path).join(file)).unwrap()).hex();
        assert_eq!(entry["bag_meta_sha256"], hash("meta/bag.json").as_str());
        assert_eq!(entry["trace_sha256"], hash("meta/trace.json").as_str());
        for memo in world.json(&format!("{path}/memo/index.json"))["memos"].as_array().unwrap() {
            let md = hash(memo["path"].as_str().unwrap());
            let sidecar = world.json(&format!("{path}/{}", memo["meta_path"].as_str().unwrap()));
            assert_eq!(
                (&memo["md_sha256"], &sidecar["integrity"]["md_sha256"]),
                (&json!(md), &json!(md))
            );
        }
    }
    let sums = std::fs::read_to_string(world.buses.join("index/index.sha256")).unwrap();
    for line in sums.lines() {
        let (hash, name) = line.split_once("  ").unwrap();
        assert_eq!(
            sha256(std::fs::read(world.buses.join("index").join(name)).unwrap()).hex(),
            hash
        );
    }
}

#[test]
fn every_memo_links_its_summaries() {
    let (_home, mut world) = small_world();
    world.build().unwrap();
    let known: Vec<String> = a_month().iter().map(|one| one.id()).collect();
    for entry in world.registry()["entries"].as_array().unwrap() {
        let path = entry["path"].as_str().unwrap();
        let bag = world.json(&format!("{path}/meta/bag.json"));
        let trace = world.json(&format!("{path}/meta/trace.json"));
        for memo in world.json(&format!("{path}/memo/index.json"))["memos"].as_array().unwrap() {
            let sidecar = world.json(&format!("{path}/{}", memo["meta_path"].as_str().unwrap()));
            assert_eq!(sidecar["bag_id"], bag["bag_id"]);
            let hash = sidecar["selector_hash"].as_str().unwrap();
            assert!(hash.len() == 64 && bag["selector"]["selector_hash"] == hash);
            assert_eq!(trace["rules"]["selector_hash"], hash);
            let ids: Vec<&str> = sidecar["summary_ids"]
                .as_array()
                .unwrap()
                .iter()
                .map(|id| id.as_str().unwrap())
                .collect();
            assert!(!ids.is_empty() && ids.iter().all(|id| known.iter().any(|one| one == id)));
            let once: std::collections::BTreeSet<&&str> = ids.iter().collect();
            assert_eq!(once.len(), ids.len());
        }
        // A record without a hash of its selector satisfies no schema.
        let mut nameless = bag.clone();
        nameless["selector"]["selector_hash"] = "".into();
        assert_ne!(schema::check("digest_bag.v1", &nameless), []);
    }
}

#[test]
fn readers_ignore_unknown_files_and_members() {
    let (_home, mut world) = small_world();
    world.build().unwrap();
    for (name, version) in [
        ("index/digest_registry.json", "digest_registry.v1"),
        ("index/l2_by_window.json", "l2_by_window.v1"),
    ] {
        let mut value = world.json(name);
        value["of_a_later_version"] = json!({"any": "thing"});
        assert_eq!(schema::check(version, &value), [], "{name}");
    }
    let (.., path) = world.bags("weekly").into_iter().next().unwrap();
    for (name, version) in [
        ("meta/bag.json", "digest_bag.v1"),
        ("meta/trace.json", "digest_trace.v1"),
        ("memo/index.json", "bag_memo_index.v1"),
    ] {
        let mut value = world.json(&format!("{path}/{name}"));
        value["of_a_later_version"] = json!(1);
        assert_eq!(schema::check(version, &value), [], "{name}");
    }
}

/// A change of one index.
type IndexChange = fn(&mut Value);

#[test]
fn verify_finds_every_change_of_the_indexes_although_their_hashes_agree() {
    let (_home, mut world) = world_of_pairs();
    world.log.tick_ms = 1;
    world.build().unwrap();
    world.produce(&[made("more", "2026-02-10T10:00:00Z", &["a", "b"], "P")]);
    world.build().unwrap();
    assert_eq!(world.verify().violations, []);
    let folder = world.buses.join("index");
    let seal = || {
        let mut sums = String::new();
        for name in INDEXES {
            let bytes = std::fs::read(folder.join(name)).unwrap();
            sums.push_str(&format!("{}  {name}\n", sha256(bytes)));
        }
        std::fs::write(folder.join("index.sha256"), sums).unwrap();
    };
    seal();
    assert_eq!(world.verify().violations, [], "the hashes are written as the program does");
    let changes: &[(&str, IndexChange)] = &[
        ("l2_by_window.json", |v| each(&mut v["windows"], |w| lose_member(w, "window_type"))),
        ("l2_by_window.json", |v| each(&mut v["windows"], |w| lose_member(w, "start_day"))),
        ("l2_by_window.json", |v| each(&mut v["windows"], |w| lose_member(w, "end_day"))),
        ("l2_by_window.json", |v| each(&mut v["windows"], |w| thrice(&mut w["bag_refs"]))),
        ("l2_by_window.json", |v| each(&mut v["windows"], |w| reverse(&mut w["bag_refs"]))),
        ("l2_by_window.json", |v| v["windows"]["2020-W01"] = json!({"bag_refs": []})),
        ("l2_latest.json", |v| reverse(&mut v["latest"])),
        ("l2_latest.json", |v| first(&mut v["latest"], |one| lose_member(one, "selector_id"))),
        ("l2_latest.json", |v| thrice(&mut v["latest"])),
        ("tags_index.json", |v| each(&mut v["tags"], |tag| thrice(&mut tag["bag_refs"]))),
        ("tags_index.json", |v| {
            first(&mut v["tags"]["free:a"]["bag_refs"], |one| lose_member(one, "window_label"))
        }),
        ("pairs_index.json", |v| thrice(&mut v["pairs"])),
        ("pairs_index.json", |v| first(&mut v["pairs"], |one| lose_member(one, "npmi"))),
        ("digest_registry.json", |v| reverse(&mut v["entries"])),
        ("digest_registry.json", |v| lose_member(v, "retired")),
        ("digest_registry.json", |v| reverse(&mut v["retired"])),
        ("digest_registry.json", |v| v["sequence"] = 1.into()),
        ("digest_registry.json", |v| each_item(&mut v["entries"], |one| lose_member(one, "group"))),
        ("digest_registry.json", |v| {
            each_item(&mut v["entries"], |one| lose_member(one, "selector_id"));
        }),
        ("digest_registry.json", |v| {
            first(&mut v["retired"], |one| one["retired_at"] = "2026-01-01T00:00:00.000Z".into());
        }),
    ];
    for (at, (name, change)) in changes.iter().enumerate() {
        let path = folder.join(name);
        let good = std::fs::read(&path).unwrap();
        let mut value: Value = serde_json::from_slice(&good).unwrap();
        change(&mut value);
        let mut text = serde_json::to_string_pretty(&value).unwrap();
        text.push('\n');
        assert_ne!(text.as_bytes(), good, "change {at} of {name}");
        std::fs::write(&path, text).unwrap();
        seal();
        assert!(!world.verify().violations.is_empty(), "change {at} of {name}");
        std::fs::write(&path, &good).unwrap();
    }
    seal();
    assert_eq!(world.verify().violations, []);
    // A bag that is gone from its folder and from every index.
    let path = world.bags("pairs")[0].2.clone();
    std::fs::remove_dir_all(world.buses.join(&path)).unwrap();
    for name in INDEXES {
        let mut value = world.json(&format!("index/{name}"));
        forget(&mut value, &path);
        std::fs::write(folder.join(name), format!("{value:#}\n")).unwrap();
    }
    seal();
    let found: Vec<&str> = world.verify().violations.iter().map(|one| one.rule).collect();
    assert!(found.contains(&"T004.run_hash"), "{found:?}");
}

/// The files that `index.sha256` names, in its order.
const INDEXES: [&str; 5] = [
    "digest_registry.json",
    "l2_by_window.json",
    "l2_latest.json",
    "pairs_index.json",
    "tags_index.json",
];

/// Small bags of every kind.
fn world_of_pairs() -> (tempfile::TempDir, World) {
    let root = tempfile::tempdir().unwrap();
    let mut world = World::new(root.path());
    let of = |n: u32| {
        let tags: &[&str] = if n.is_multiple_of(2) { &["a", "b"] } else { &["c"] };
        made(&format!("s{n}"), &format!("2026-02-{:02}T10:00:00Z", 2 + n), tags, "P")
    };
    world.produce(&(0..12).map(of).collect::<Vec<_>>());
    world.select(&[
        json!({"selector_id": "pairs", "bag_type": "pairbag", "window": {"type": "month"},
            "pairs": {"min_count": 1, "min_npmi": 0.0}}),
        json!({"selector_id": "tags", "bag_type": "tagbag"}),
        json!({"selector_id": "all", "group": {"by": "project"}}),
    ]);
    (root, world)
}

fn lose_member(value: &mut Value, name: &str) {
    value.as_object_mut().unwrap().shift_remove(name).unwrap();
}

fn each(map: &mut Value, change: fn(&mut Value)) {
    map.as_object_mut().unwrap().values_mut().for_each(change);
}

fn each_item(list: &mut Value, change: fn(&mut Value)) {
    list.as_array_mut().unwrap().iter_mut().for_each(change);
}

fn first(list: &mut Value, change: fn(&mut Value)) {
    change(&mut list.as_array_mut().unwrap()[0]);
}

fn thrice(list: &mut Value) {
    let items = list.as_array_mut().unwrap();
    let again = items.clone();
    items.extend([again.clone(), again].concat());
}

fn reverse(list: &mut Value) {
    list.as_array_mut().unwrap().reverse();
}

/// Removes everything that names a path.
fn forget(value: &mut Value, path: &str) {
    match value {
        Value::Array(items) => {
            items.retain(|item| item["path"] != path);
            items.iter_mut().for_each(|item| forget(item, path));
        }
        Value::Object(members) => {
            members.values_mut().for_each(|member| forget(member, path));
            members.retain(|_, member| member["bag_refs"] != json!([]));
        }
        _ => {}
    }
}

#[test]
fn verify_finds_another_form_of_the_hashes_and_files_among_folders() {
    let (_home, mut world) = small_world();
    world.build().unwrap();
    let sums = world.buses.join("index/index.sha256");
    let good = std::fs::read_to_string(&sums).unwrap();
    let lines: Vec<&str> = good.lines().collect();
    let capital = |line: &&str| {
        let (hash, name) = line.split_once("  ").unwrap();
        format!("{}  {name}\n", hash.to_uppercase())
    };
    let reversed = lines.iter().rev().map(|line| format!("{line}\n")).collect::<String>();
    for bad in [
        lines.iter().map(capital).collect::<String>(),
        format!("{good}{}\n", lines[0]),
        reversed,
        good.trim_end().to_owned(),
    ] {
        std::fs::write(&sums, bad).unwrap();
        let rules: Vec<&str> = world.verify().violations.iter().map(|one| one.rule).collect();
        assert!(rules.contains(&"T004.index_hash"), "{rules:?}");
    }
    std::fs::write(&sums, &good).unwrap();
    for stray in ["digests/.DS_Store", "digests/L2/.DS_Store", "digests/L2/cohort/.DS_Store"] {
        let path = world.buses.join(stray);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, "x").unwrap();
        let found = world.verify().violations;
        assert_eq!((found.len(), &*found[0].file, found[0].rule), (1, stray, "T004.stray"));
        std::fs::remove_file(&path).unwrap();
    }
    assert_eq!(world.verify().violations, []);
}
