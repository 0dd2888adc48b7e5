//! Every rule of `verify` about digests has a tree that breaks it and nothing else.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};
use summarizer::contract::hash::sha256;
use summarizer::os::Disk;
use summarizer::os::real::HostDisk;
use summarizer::verify::{self, rules, verify_tree};

use crate::world::{World, a_month, tree};

const NO_HASH: &str = "0000000000000000000000000000000000000000000000000000000000000000";

type Break = fn(&Path, &str);

fn read(root: &Path, path: &str) -> Value {
    serde_json::from_slice(&std::fs::read(root.join(path)).unwrap()).unwrap()
}

fn change(root: &Path, path: &str, edit: impl FnOnce(&mut Value)) {
    let mut value = read(root, path);
    edit(&mut value);
    std::fs::write(root.join(path), serde_json::to_string_pretty(&value).unwrap() + "\n").unwrap();
}

/// Makes `index.sha256` speak of the indexes as they are.
fn sum(root: &Path) {
    let mut lines = String::new();
    for (path, bytes) in tree(&HostDisk, root) {
        if let Some(name) = path.strip_prefix("index/").filter(|name| name.ends_with(".json")) {
            lines.push_str(&format!("{}  {name}\n", sha256(bytes)));
        }
    }
    std::fs::write(root.join("index/index.sha256"), lines).unwrap();
}

/// Changes an index and the hashes of all of them.
fn index(root: &Path, name: &str, edit: impl FnOnce(&mut Value)) {
    change(root, &format!("index/{name}"), edit);
    sum(root);
}

fn entry<'v>(registry: &'v mut Value, bag: &str) -> &'v mut Value {
    let entries = registry["entries"].as_array_mut().unwrap();
    entries.iter_mut().find(|entry| entry["path"] == bag).unwrap()
}

/// Makes the registry and the run record speak of a bag's files as they are.
fn hashes(root: &Path, bag: &str) {
    registry_hashes(root, bag);
    let trace = sha256(std::fs::read(root.join(bag).join("meta/trace.json")).unwrap());
    change(root, "artifacts/run_records/run_build_1.run_record.json", |record| {
        for output in record["outputs"].as_array_mut().unwrap() {
            if output["path"] == bag {
                output["data_hash"] = trace.hex().into();
            }
        }
    });
}

/// Makes the registry speak of a bag's files as they are.
fn registry_hashes(root: &Path, bag: &str) {
    index(root, "digest_registry.json", |registry| {
        for (key, file) in [("bag_meta_sha256", "bag"), ("trace_sha256", "trace")] {
            let bytes = std::fs::read(root.join(bag).join(format!("meta/{file}.json"))).unwrap();
            entry(registry, bag)[key] = sha256(bytes).hex().into();
        }
    });
}

/// Makes every hash speak of a bag's files as they are.
fn seal(root: &Path, bag: &str) {
    seal_folder(root, bag);
    hashes(root, bag);
}

/// Makes the trace of a bag speak of its files as they are.
fn seal_folder(root: &Path, bag: &str) {
    let mut lines = String::new();
    for (path, bytes) in tree(&HostDisk, root) {
        let name = path.strip_prefix(&format!("{bag}/"));
        if let Some(name) = name.filter(|name| *name != "meta/trace.json") {
            lines.push_str(&format!("{}  {name}\n", sha256(bytes)));
        }
    }
    let hash = sha256(lines).hex();
    change(root, &format!("{bag}/meta/trace.json"), |trace| {
        trace["integrity"]["bag_dir_sha256"] = hash.into();
    });
}

/// Changes a file of a bag, and every hash that speaks of it.
fn bag(root: &Path, bag: &str, file: &str, edit: impl FnOnce(&mut Value)) {
    change(root, &format!("{bag}/{file}"), edit);
    seal(root, bag);
}

fn sidecar(root: &Path, bag: &str) -> String {
    read(root, &format!("{bag}/memo/index.json"))["memos"][0]["meta_path"].as_str().unwrap().into()
}

fn breaks() -> Vec<(&'static rules::Rule, Break)> {
    vec![
        (&rules::DIGEST_INDEX_MISSING, |r, _| {
            std::fs::remove_file(r.join("index/l2_by_window.json")).unwrap();
            sum(r);
        }),
        (&rules::DIGEST_INDEX_SCHEMA, |r, _| {
            index(r, "l2_latest.json", |v| drop(v.as_object_mut().unwrap().remove("updated_at")));
        }),
        (&rules::DIGEST_INDEX_HASH, |r, _| {
            let path = r.join("index/tags_index.json");
            let text = std::fs::read_to_string(&path).unwrap();
            std::fs::write(path, format!("{text}\n")).unwrap();
        }),
        (&rules::DIGEST_DANGLING, |r, b| std::fs::remove_dir_all(r.join(b)).unwrap()),
        (&rules::DIGEST_INDEXES, |r, b| {
            index(r, "l2_by_window.json", |v| {
                for (_, window) in v["windows"].as_object_mut().unwrap() {
                    window["bag_refs"].as_array_mut().unwrap().retain(|one| one["path"] != b);
                }
            });
        }),
        (&rules::DIGEST_DUPLICATE, |r, b| {
            index(r, "digest_registry.json", |v| {
                let twin = entry(v, b).clone();
                v["entries"].as_array_mut().unwrap().push(twin);
            });
        }),
        (&rules::DIGEST_ORPHAN, |r, b| {
            let orphan = r.join("digests/L2/cohort/bag_stray/meta");
            std::fs::create_dir_all(&orphan).unwrap();
            std::fs::copy(r.join(b).join("meta/bag.json"), orphan.join("bag.json")).unwrap();
        }),
        (&rules::DIGEST_STRAY, |r, _| std::fs::write(r.join("digests/L2/.DS_Store"), "x").unwrap()),
        (&rules::BAG_FILE, |r, b| {
            std::fs::remove_file(r.join(b).join("memo/index.json")).unwrap();
            seal(r, b);
        }),
        (&rules::BAG_SCHEMA, |r, b| {
            bag(r, b, "meta/bag.json", |v| v["counts"]["candidate"] = json!("many"));
        }),
        (&rules::BAG_HASH, |r, b| {
            index(r, "digest_registry.json", |v| entry(v, b)["bag_meta_sha256"] = json!(NO_HASH));
        }),
        (&rules::BAG_TREE, |r, b| {
            change(r, &format!("{b}/meta/trace.json"), |v| {
                v["integrity"]["bag_dir_sha256"] = json!(NO_HASH);
            });
            hashes(r, b);
        }),
        (&rules::BAG_NAME, |r, b| {
            bag(r, b, "memo/index.json", |v| v["bag_id"] = json!("bag_another"));
        }),
        (&rules::BAG_ID, |r, b| bag(r, b, "meta/bag.json", |v| v["window"]["tz"] = json!("Mars"))),
        (&rules::BAG_COUNTS, |r, b| {
            bag(r, b, "meta/trace.json", |v| v["coverage"]["drop_reasons"] = json!({"x": 9999}));
        }),
        (&rules::BAG_MEMOS, |r, b| {
            bag(r, b, "meta/bag.json", |v| v["counts"]["published_memos"] = json!(9));
        }),
        (&rules::TRACE_LINKAGE, |r, b| {
            bag(r, b, "meta/trace.json", |v| {
                v["upstream"]["source_ids_union_hash"] = json!(NO_HASH);
            });
        }),
        (&rules::TRACE_RULES, |r, b| {
            bag(r, b, "meta/trace.json", |v| v["rules"]["selector"]["title"] = json!("another"));
        }),
        (&rules::TRACE_IDS, |r, b| {
            bag(r, b, &sidecar(r, b), |v| {
                let first = v["summary_ids"][0].clone();
                v["summary_ids"].as_array_mut().unwrap().push(first);
            });
        }),
        (&rules::TRACE_KNOWN, |r, _| {
            for path in [
                "sessions/2026-02-03.sessions.summary.jsonl",
                "manifest/2026-02-03.sessions.summary.manifest.json",
            ] {
                std::fs::remove_file(r.join("summaries").join(path)).unwrap();
            }
        }),
        (&rules::MEMO_SIDECAR, |r, b| {
            std::fs::write(r.join(b).join("memo/stray.meta.json"), "{}\n").unwrap();
            seal(r, b);
        }),
        (&rules::MEMO_HASH, |r, b| {
            bag(r, b, "memo/index.json", |v| v["memos"][0]["md_sha256"] = json!(NO_HASH));
        }),
        (&rules::MEMO_TRACE, |r, b| {
            bag(r, b, &sidecar(r, b), |v| v["summary_ids"] = json!(["sum_of_somebody_else"]));
        }),
        (&rules::BAG_ENTRY, |r, b| {
            bag(r, b, "meta/bag.json", |v| v["created_at"] = json!("2026-02-20T12:00:01.000Z"));
        }),
        (&rules::BAG_WINDOW, |r, b| {
            bag(r, b, "meta/bag.json", |v| v["window"]["end_day"] = json!("2026-12-31"));
        }),
        (&rules::BAG_LINK, |r, b| {
            let (file, other) = (r.join(b).join("memo/index.json"), r.join("elsewhere.json"));
            std::fs::rename(&file, &other).unwrap();
            std::os::unix::fs::symlink(other, file).unwrap();
        }),
        (&rules::BAG_LINK, |r, b| {
            let (folder, other) = (r.join(b), r.join("elsewhere"));
            std::fs::rename(&folder, &other).unwrap();
            std::os::unix::fs::symlink(other, folder).unwrap();
        }),
        (&rules::DIGEST_ENTRY, |r, _| {
            index(r, "l2_by_window.json", |v| {
                let (_, window) = v["windows"].as_object_mut().unwrap().iter_mut().next().unwrap();
                window["bag_refs"][0]["published_memos"] = json!(9);
            });
        }),
        (&rules::DIGEST_RUN_HASH, |r, b| {
            change(r, "artifacts/run_records/run_build_1.run_record.json", |v| {
                let mut outputs = v["outputs"].as_array_mut().unwrap().iter_mut();
                outputs.find(|output| output["path"] == b).unwrap()["data_hash"] = json!(NO_HASH);
            });
        }),
        (&rules::DIGEST_RUN, |r, _| {
            change(r, "artifacts/run_records/run_build_1.run_record.json", |v| {
                v["stages"].as_array_mut().unwrap().retain(|stage| stage["stage"] != "staging");
            });
        }),
    ]
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &target),
            false => drop(std::fs::copy(entry.path(), target).unwrap()),
        }
    }
}

fn broken(root: &Path) -> (BTreeSet<&'static str>, String) {
    let disk: Arc<dyn Disk> = Arc::new(HostDisk);
    let options = verify::Options { threads: 1, sources: false };
    let report = verify_tree(&disk, root, options, &|_| {}).unwrap();
    let rules = report.violations.iter().map(|one| one.rule).collect();
    (rules, format!("{:#?}", report.violations))
}

#[test]
fn each_rule_has_a_tree_that_breaks_it_and_nothing_else() {
    let home = tempfile::tempdir().unwrap();
    let mut world = World::new(home.path());
    world.select(&[
        json!({"selector_id": "weekly", "group": {"by": "project"}}),
        json!({"selector_id": "tags", "bag_type": "tagbag", "group": {"by": "tag", "top": 2}}),
    ]);
    world.produce(&a_month()[..12]);
    world.build().unwrap();
    let (rules_broken, told) = broken(&world.buses);
    assert!(rules_broken.is_empty(), "{told}");
    let bags = world.bags("tags");
    let path = &bags[0].2;
    let mut covered = BTreeSet::new();
    for (rule, damage) in breaks() {
        let root = home.path().join("copy");
        copy(&world.buses, &root);
        damage(&root, path);
        let (found, told) = broken(&root);
        // The registry repeats the days of a window.
        let repeated = (rule.id == rules::BAG_WINDOW.id).then_some(rules::BAG_ENTRY.id);
        assert_eq!(found, [rule.id].into_iter().chain(repeated).collect(), "{told}");
        covered.insert(rule.id);
        std::fs::remove_dir_all(&root).unwrap();
    }
    let all: BTreeSet<&str> =
        rules::ALL.iter().map(|rule| rule.id).filter(|id| id.starts_with("T004")).collect();
    assert_eq!(covered, all);
}

/// Every value in a record, by its pointer.
fn leaves(value: &Value, pointer: String, found: &mut Vec<String>) {
    match value {
        Value::Object(members) if !members.is_empty() => {
            for (name, member) in members {
                let name = name.replace('~', "~0").replace('/', "~1");
                leaves(member, format!("{pointer}/{name}"), found);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for (place, item) in items.iter().enumerate() {
                leaves(item, format!("{pointer}/{place}"), found);
            }
        }
        _ => found.push(pointer),
    }
}

/// Another value of the same form.
fn changed(value: &Value) -> Value {
    match value {
        Value::String(text) if text.parse::<summarizer::contract::time::Day>().is_ok() => {
            json!("2031-03-03")
        }
        Value::String(text) if text.len() > 20 && text.ends_with('Z') => {
            json!("2031-03-03T03:03:03.003Z")
        }
        Value::String(text) => match text.len() == 64 {
            true => json!(NO_HASH),
            false => json!(format!("{text}x")),
        },
        Value::Number(number) => json!(number.as_f64().unwrap() + 1.0),
        Value::Bool(flag) => json!(!flag),
        Value::Null => json!("2031-03-03"),
        Value::Array(_) => json!(["x"]),
        Value::Object(_) => json!({"x": 1}),
    }
}

/// What the files alone cannot tell, as `docs/digests.md` says: the log can.
const FREE: &[&str] = &["/sequence", "/log_head", "/retired_at", "/reason", "/superseded_by"];

#[test]
fn verify_finds_a_change_of_any_field_of_any_file() {
    let home = tempfile::tempdir().unwrap();
    let mut world = World::new(home.path());
    world.select(&[
        json!({"selector_id": "weekly", "group": {"by": "project"}, "exports": ["items.csv"]}),
        json!({"selector_id": "pairs", "bag_type": "pairbag", "window": {"type": "all"},
               "group": {"by": "pair", "top": 1, "min_items": 1},
               "pairs": {"min_count": 1, "min_npmi": -1.0}}),
    ]);
    world.produce(&a_month()[..2]);
    world.build().unwrap();
    world.produce(&a_month()[2..4]);
    world.build().unwrap();
    let retired = world.registry()["retired"].as_array().unwrap().len();
    assert!(retired > 0, "bags of the first build are replaced by the second");
    let root = world.buses.clone();
    let whole = tree(&HostDisk, &root);
    let files = whole.iter().filter(|(path, _)| !path.starts_with("artifacts/"));
    let (mut tried, mut missed) = (0, Vec::new());
    let mut attempt = |path: &str, place: &str, write: &dyn Fn()| {
        write();
        if let Some(bag) = path.starts_with("digests/").then(|| path.splitn(5, '/')) {
            let bag = bag.take(4).collect::<Vec<_>>().join("/");
            seal_folder(&root, &bag);
            if entry_is_live(&root, &bag) {
                registry_hashes(&root, &bag);
            }
        } else if !path.ends_with("index.sha256") {
            sum(&root);
        }
        let (found, _) = broken(&root);
        tried += 1;
        if found.is_empty() && !FREE.iter().any(|free| place.ends_with(free)) {
            missed.push(format!("{path} {place}"));
        }
        for (path, bytes) in &whole {
            let path = root.join(path);
            if std::fs::read(&path).ok().as_ref() != Some(bytes) {
                std::fs::write(path, bytes).unwrap();
            }
        }
    };
    for (path, bytes) in files {
        let file = root.join(path);
        let Ok(value) = serde_json::from_slice::<Value>(bytes) else {
            for (place, _) in String::from_utf8_lossy(bytes).lines().enumerate() {
                let lines: Vec<String> = String::from_utf8_lossy(bytes)
                    .lines()
                    .enumerate()
                    .map(|(at, line)| if at == place { format!("{line}x") } else { line.into() })
                    .collect();
                attempt(path, &format!("line {place}"), &|| {
                    std::fs::write(&file, lines.join("\n") + "\n").unwrap();
                });
            }
            continue;
        };
        let mut pointers = Vec::new();
        leaves(&value, String::new(), &mut pointers);
        for pointer in pointers {
            // The hashes that sealing writes again.
            let sealed = ["bag_dir_sha256", "/bag_meta_sha256", "/trace_sha256"];
            if sealed.iter().any(|hash| pointer.ends_with(hash)) {
                continue;
            }
            let mut other = value.clone();
            let place = other.pointer_mut(&pointer).unwrap();
            *place = changed(place);
            let text = serde_json::to_string_pretty(&other).unwrap() + "\n";
            attempt(path, &pointer, &|| std::fs::write(&file, &text).unwrap());
        }
    }
    assert!(tried > 200, "{tried}");
    assert!(missed.is_empty(), "of {tried} changes these are not found: {missed:#?}");
}

fn entry_is_live(root: &Path, bag: &str) -> bool {
    let registry = read(root, "index/digest_registry.json");
    registry["entries"].as_array().unwrap().iter().any(|entry| entry["path"] == bag)
}
