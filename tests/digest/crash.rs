//! Power fails at every sync of a build and of what follows it: whatever the disk kept, the indexes
//! name only complete bags, and the next start reaches the same result.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use serde_json::json;
use summarizer::os::Disk;
use summarizer::os::sim::{Faults, SimDisk};
use summarizer::verify::{self, verify_tree};

use crate::world::{World, made};

const HOME: &str = "/home";

fn open(disk: &SimDisk) -> Result<World, Box<dyn std::error::Error>> {
    let mut world = World::open(Arc::new(disk.clone()), Path::new(HOME))?;
    world.threads = 1;
    world.select(&[
        json!({"selector_id": "weekly", "group": {"by": "project"}}),
        json!({"selector_id": "tags", "bag_type": "tagbag", "group": {"by": "tag", "top": 2}}),
    ]);
    Ok(world)
}

/// A home with bags, and one summary outside all of them.
fn prepared() -> SimDisk {
    let disk = SimDisk::new();
    let mut world = open(&disk).unwrap();
    world.produce(&[
        made("a", "2026-02-10T10:00:00Z", &["x", "y"], "site"),
        made("b", "2026-02-11T10:00:00Z", &["x"], "shop"),
    ]);
    world.build().unwrap();
    world.produce(&[made("c", "2026-02-12T10:00:00Z", &["x", "y"], "site")]);
    disk.reboot()
}

/// What is done while the power fails: a build, and the removal of what it retired.
fn work(disk: &SimDisk) -> Result<(), Box<dyn std::error::Error>> {
    let mut world = open(disk)?;
    world.builds = 10;
    world.build()?;
    world.collect(false, false)?;
    Ok(())
}

/// The rules that the files of a home break.
fn broken(disk: &SimDisk) -> BTreeSet<&'static str> {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    let options = verify::Options { threads: 1, sources: false };
    let report = verify_tree(&disk, &Path::new(HOME).join("buses"), options, &|_| {}).unwrap();
    report.violations.iter().map(|one| one.rule).collect()
}

fn bag_ids(world: &World) -> BTreeSet<String> {
    let registry = world.registry();
    let entries = registry["entries"].as_array().unwrap().iter();
    entries.map(|entry| entry["bag_id"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn power_loss_at_every_sync_is_survived() {
    let start = prepared();
    let clean = start.reboot();
    clean.reset_counts();
    work(&clean).unwrap();
    let syncs = clean.counts().syncs;
    let wanted = bag_ids(&open(&clean).unwrap());
    assert!(syncs > 20 && !wanted.is_empty(), "{syncs}");
    assert_eq!(broken(&clean), BTreeSet::new());
    let deep = std::env::var_os("SUMMARIZER_TEST_DEEP").is_some();
    let (step, seeds) = if deep { (1, 6) } else { (4, 2) };
    for at in (1..=syncs).step_by(step) {
        let disk = start.reboot();
        disk.reset_counts();
        disk.set_faults(Faults { crash_at_sync: Some(at), ..Faults::default() });
        let done = work(&disk);
        assert!(disk.has_crashed() || done.is_ok(), "{at}: {done:?}");
        for seed in 0..seeds {
            let seed = if seed < 2 { seed } else { at * 31 + seed };
            let left = disk.crash(seed);
            // A folder may be in place before its index; its run may have no record yet.
            let partial = broken(&left);
            let fine = BTreeSet::from(["T004.orphan", "T004.run_record"]);
            assert!(partial.is_subset(&fine), "{at}/{seed}: {partial:?}");
            let mut world = open(&left).unwrap_or_else(|error| panic!("{at}/{seed}: {error}"));
            world.builds = 20;
            world.recover().unwrap_or_else(|error| panic!("{at}/{seed}: {error}"));
            assert_eq!(broken(&left), BTreeSet::new(), "{at}/{seed}: after the start");
            world.build().unwrap_or_else(|error| panic!("{at}/{seed}: {error}"));
            assert_eq!(bag_ids(&world), wanted, "{at}/{seed}");
            world.gc();
            assert_eq!(broken(&left), BTreeSet::new(), "{at}/{seed}: at the end");
        }
    }
}

#[test]
fn an_interrupted_build_gets_a_run_record() {
    let disk = prepared();
    let mut world = open(&disk).unwrap();
    world.builds = 10;
    // The log takes the start and the bags, and not the note that makes them count.
    world.log.refuse_after = Some(2);
    let error = world.build().unwrap_err();
    assert!(error.to_string().contains("commit the build to the log"), "{error}");
    assert_eq!(world.log.notes, ["digest.started", "digest.bag", "digest.bag", "digest.bag"]);
    let before = bag_ids(&world);
    world.log.refuse_after = None;
    assert_eq!(world.recover().unwrap().as_deref(), Some("run_build_11"));
    let record = world.json("artifacts/run_records/run_build_11.run_record.json");
    assert_eq!((&record["status"], &record["completed_at"]), (&json!("error"), &json!(null)));
    assert_eq!(record["errors"][0]["subtype"], "CRASHED");
    assert_eq!(bag_ids(&world), before, "notes without their last one count for nothing");
    assert!(world.recover().unwrap().is_none(), "once");
    assert!(world.build().unwrap().published > 0);
}
