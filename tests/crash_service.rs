//! The whole core on a machine whose power, disk or free space fails at every possible point.
//!
//! One scripted workload runs once without faults, to count the disk operations and to learn how each
//! line ends. Then it runs again with power lost at each of those operations (a sample by default,
//! all with `CI_DEEP=1`). It is reopened on one of the disks that a crash may leave, and finished.
//! Each line must end as in the clean run, the auditor must find nothing, acks and quarantine must be
//! the projection of the log, the log must verify, and a replay must give the same tables.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test stops at the first surprise"
)]

mod support;

use std::collections::BTreeMap;

use serde_json::json;
use summarizer::os::sim::Faults;
use support::requests::{ACTIVE, DEPRECATED, DISABLED, from_repo, making, request, scripted, with};
use support::rig::{Rig, World};
use support::{Rng, deep};

/// Every kind of line and every kind of ending, some of them several times.
fn workload() -> Vec<u8> {
    let mut lines: Vec<Vec<u8>> = Vec::new();
    let mut add = |value: serde_json::Value| lines.push(value.to_string().into_bytes());
    for round in 0..4 {
        let id = |name: &str| format!("{name}-{round}");
        let repo = ["mail", "docs"][round % 2];
        let plain = |name: &str, script: &[&str]| from_repo(scripted(&id(name), script), repo);
        add(plain("ok", &["ok"]));
        add(plain("flaky", &["later", "timeout", "ok"]));
        add(plain("after", &["lost", "ok"]));
        add(plain("never", &["later", "never"]));
        add(plain("exhausted", &["later"]));
        add(plain("skip", &["skip"]));
        add(plain("input", &["input"]));
        add(plain("ok", &["ok"]));
        add(with(plain("first", &["later", "ok"]), "idempotency_key", id("shared")));
        add(with(plain("second", &["ok"]), "idempotency_key", id("shared")));
        add(with(plain("third", &["ok"]), "idempotency_key", id("shared")));
        add(making(plain("same-a", &["later", "ok"]), &id("item")));
        add(making(plain("same-b", &["ok"]), &id("item")));
        add(request(&id("old"), DEPRECATED, json!({"script": ["unresolved"]})));
        add(request(&id("off"), DISABLED, json!({})));
        add(request(&id("unknown"), "no.such.flow.v1", json!({})));
        let mut misfit = request(&id("misfit"), ACTIVE, json!({}));
        misfit["work"]["summary_kind"] = "event_summary".into();
        add(misfit);
        add(with(plain("ok", &["ok"]), "idempotency_key", "another"));
        let later = with(plain("scheduled", &["ok"]), "urgency", "scheduled");
        add(with(later, "not_before", "2026-03-01T10:20:00Z"));
        add(json!({"schema_version": "summary_request.v1"}));
    }
    lines.push(b"   ".to_vec());
    lines.push(b"not json".to_vec());
    lines.push(vec![0xff, 0xfe, 0x00]);
    lines.push(b"{\"a\":1,\"a\":2}".to_vec());
    lines.push(vec![b'x'; 9000]);
    let mut bytes = lines.join(&b'\n');
    bytes.extend_from_slice(b"\n{\"schema_version\":\"torn");
    bytes
}

fn world() -> World {
    let world = World::new();
    world.produce(&workload(), true).unwrap();
    world.disk.reset_counts();
    world
}

/// Runs until the end or the first failure.
fn run(world: &World) -> Result<(), support::rig::Stop> {
    let mut rig = Rig::open(world)?;
    rig.run_to_end()?;
    rig.finish()
}

/// How each line ended. Of two requests for one item, the first to finish is completed and the other
/// is a duplicate; a crash may change which one is first.
fn endings(world: &World, told: &str) -> BTreeMap<u64, String> {
    let verdict = world.audit(true, true);
    verdict.assert_clean(told);
    let queue = world.read(&world.home.queue);
    let mut endings = verdict.endings;
    let texts: Vec<&[u8]> = queue.split(|byte| *byte == b'\n').collect();
    let mut groups: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for number in endings.keys() {
        let value: serde_json::Value =
            serde_json::from_slice(texts[*number as usize - 1]).unwrap_or_default();
        if let Some(item) = value["work"]["params"]["item"].as_str() {
            groups.entry(item.to_owned()).or_default().push(*number);
        }
    }
    for group in groups.values() {
        let mut words: Vec<String> = group.iter().map(|line| endings[line].clone()).collect();
        words.sort();
        for (line, word) in group.iter().zip(words) {
            endings.insert(*line, word);
        }
    }
    endings
}

fn clean() -> (World, BTreeMap<u64, String>) {
    let world = world();
    run(&world).unwrap();
    let endings = endings(&world, "clean run");
    world.check_log("clean run");
    (world, endings)
}

/// The moments out of `count` that are tried.
fn moments(count: u64, sample: u64, seed: u64) -> Vec<u64> {
    if deep() {
        return (1..=count).collect();
    }
    let mut rng = Rng::new(seed);
    let mut chosen: Vec<u64> = (0..sample).map(|_| 1 + rng.below(count)).collect();
    chosen.extend([1, 2, count - 1, count]);
    chosen.sort_unstable();
    chosen.dedup();
    chosen
}

/// Finishes on the disk that is left and compares the outcome with the clean run.
fn finish_and_compare(left: &World, expected: &BTreeMap<u64, String>, told: &str) {
    run(left).unwrap_or_else(|error| panic!("{told}: {error}: {:?}", error.source()));
    assert_eq!(endings(left, told), *expected, "{told}");
    left.check_log(told);
}

#[test]
fn every_line_ends_as_expected_without_faults() {
    let (world, endings) = clean();
    let verdict = world.audit(true, true);
    let counts: BTreeMap<&str, usize> =
        endings.values().fold(BTreeMap::new(), |mut counts, word| {
            *counts.entry(word.as_str()).or_default() += 1;
            counts
        });
    let expected = BTreeMap::from([
        ("completed", 4 * 8),
        ("duplicate", 4 * 4),
        ("failed_permanent", 4 * 2),
        ("rejected_invalid_input", 4 * 3),
        ("rejected_invalid_schema", 4 + 5),
        ("rejected_unknown_flow", 4 * 2),
    ]);
    assert_eq!(counts, expected);
    assert_eq!(verdict.items.len(), 4 * 7);
}

#[test]
fn power_loss_at_every_sync_changes_no_outcome() {
    let (world, expected) = clean();
    let syncs = world.disk.counts().syncs;
    assert!(syncs > 100, "{syncs}");
    let mut crashes = 0;
    for at in moments(syncs, 16, 1) {
        let world = self::world();
        world.disk.set_faults(Faults { crash_at_sync: Some(at), ..Faults::default() });
        if run(&world).is_ok() {
            continue;
        }
        assert!(world.disk.has_crashed());
        crashes += 1;
        let draws = if deep() { 6 } else { 3 };
        for seed in 0..draws {
            let left = world.on(world.disk.crash(seed + 100 * at * u64::from(seed > 1)));
            finish_and_compare(&left, &expected, &format!("sync {at} of {syncs}, disk {seed}"));
        }
    }
    assert!(crashes > 10, "{crashes}");
    println!("{crashes} crash points of {syncs} syncs");
}

#[test]
fn power_loss_during_a_write_and_again_during_recovery_changes_no_outcome() {
    let (world, expected) = clean();
    let writes = world.disk.counts().writes;
    for at in moments(writes, 6, 2) {
        let world = self::world();
        world.disk.set_faults(Faults { crash_at_write: Some(at), ..Faults::default() });
        if run(&world).is_ok() {
            continue;
        }
        let mut rng = Rng::new(at);
        let mut left = world.on(world.disk.crash(2 + rng.below(1000)));
        for _ in 0..3 {
            let again = 1 + rng.below(24);
            left.disk.set_faults(Faults { crash_at_sync: Some(again), ..Faults::default() });
            if run(&left).is_ok() {
                break;
            }
            left = left.on(left.disk.crash(rng.below(1000)));
        }
        left.disk.set_faults(Faults::default());
        finish_and_compare(&left, &expected, &format!("write {at} of {writes}"));
    }
}

#[test]
fn a_failed_write_or_sync_stops_the_service_and_a_restart_continues() {
    let (world, expected) = clean();
    let counts = world.disk.counts();
    let writes = moments(counts.writes, 8, 3)
        .into_iter()
        .map(|at| Faults { fail_write: Some(at), ..Faults::default() });
    let syncs = moments(counts.syncs, 8, 4)
        .into_iter()
        .map(|at| Faults { fail_sync: Some(at), ..Faults::default() });
    let mut stopped = 0;
    for faults in writes.chain(syncs) {
        let world = self::world();
        world.disk.set_faults(faults);
        if run(&world).is_ok() {
            continue;
        }
        stopped += 1;
        world.disk.set_faults(Faults::default());
        // Either only the process restarts, or the machine goes down too.
        let rebooted = world.on(world.disk.crash(stopped));
        finish_and_compare(&rebooted, &expected, &format!("{faults:?}, then power loss"));
        run(&world).unwrap_or_else(|error| panic!("{faults:?}: {error}"));
        // Bytes that were synced after the restart are durable, even if the failed sync dropped others.
        let later = world.on(world.disk.crash(0));
        finish_and_compare(&world, &expected, &format!("{faults:?}"));
        finish_and_compare(&later, &expected, &format!("{faults:?}, power loss at the end"));
    }
    assert!(stopped > 10, "{stopped}");
}

#[test]
fn a_full_disk_stops_the_service_cleanly_and_it_continues_once_there_is_room() {
    let (world, expected) = clean();
    let growths = world.disk.counts().growths;
    let mut stopped = 0;
    for at in moments(growths, 12, 5) {
        let world = self::world();
        world.disk.set_faults(Faults { full_at_growth: Some(at), ..Faults::default() });
        if run(&world).is_ok() {
            continue;
        }
        stopped += 1;
        // The disk is still full: it stops again and loses nothing.
        assert!(run(&world).is_err() || at + 3 > growths, "growth {at} of {growths}");
        world.disk.set_faults(Faults::default());
        finish_and_compare(&world, &expected, &format!("growth {at} of {growths}"));
    }
    assert!(stopped > 3, "{stopped}");
}
