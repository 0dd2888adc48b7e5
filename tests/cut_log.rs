//! The log cut after every record: from each prefix of a history the service continues to the same
//! outcomes.
//!
//! A golden history is made with at most one queue line a commit, so that the position in the
//! queue is known after every event. Each prefix is appended to an empty store, opened, and
//! finished with the same scripted worker.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test stops at the first surprise"
)]

mod support;

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use serde_json::json;
use summarizer::contract::ids::Seq;
use summarizer::log::{Commit, NewRecord};
use summarizer::state::event::Event;
use support::requests::{DEPRECATED, DISABLED, from_repo, lines, making, request, scripted, with};
use support::rig::{Rig, World, open_store};

fn world() -> World {
    let mut world = World::new();
    world.lines_at_once = 1;
    world.slots = 3;
    // The history holds requests and their outcomes; checkpoints come after the cut.
    world.options.checkpoint_every = u64::MAX;
    let ok = |id: &str| scripted(id, &["ok"]);
    let later = with(ok("scheduled"), "urgency", "scheduled");
    let mut bytes = lines(&[
        ok("a"),
        scripted("flaky", &["later", "lost", "ok"]),
        scripted("never", &["never"]),
        with(scripted("first", &["later", "ok"]), "idempotency_key", "k"),
        with(ok("second"), "idempotency_key", "k"),
        ok("a"),
        with(ok("a"), "idempotency_key", "other"),
        making(scripted("same-a", &["later", "ok"]), "item"),
        with(making(ok("same-b"), "item"), "idempotency_key", "b"),
        scripted("skip", &["skip"]),
        from_repo(scripted("input", &["input"]), "docs"),
        scripted("never", &["never"]),
        request("old", DEPRECATED, json!({"script": ["unresolved"]})),
        request("off", DISABLED, json!({})),
        request("nobody", "no.such.flow.v1", json!({})),
        with(later, "not_before", "2026-03-01T10:05:00Z"),
        scripted("exhausted", &["timeout"]),
    ]);
    bytes.extend_from_slice(b"\n{\"schema_version\":1}\nnot json\n");
    world.produce(&bytes, true).unwrap();
    world
}

fn endings(world: &World, told: &str) -> BTreeMap<u64, String> {
    let verdict = world.audit(true, true);
    verdict.assert_clean(told);
    let mut endings = verdict.endings;
    // Two requests do identical work; the first one makes the item.
    let mut pair = [endings[&8].clone(), endings[&9].clone()];
    pair.sort();
    let [first, second] = pair;
    endings.extend([(8, first), (9, second)]);
    endings
}

#[test]
fn every_prefix_of_the_log_leads_to_the_same_outcomes() {
    let golden = world();
    let pristine = golden.disk.reboot();
    let mut rig = Rig::open(&golden).unwrap();
    rig.run_to_end().unwrap();
    let marks = rig.marks.clone();
    let times: Vec<_> = rig.history.iter().map(|event| event.at).collect();
    let mut records: Vec<NewRecord> = Vec::new();
    // The queue position after each event: a line belongs to the event that took it in.
    let mut mark_after: Vec<Vec<u8>> = Vec::new();
    let mut commits = marks.iter().peekable();
    let mut mark = Vec::new();
    let reader = rig.engine.log().clone();
    reader
        .scan(Seq(1), None, &mut |entry| {
            let body = reader.body(entry.seq).unwrap();
            let (at, tag, version) = (entry.at, entry.tag, entry.version);
            records.push(NewRecord { at, tag, version, payload: entry.payload.to_vec(), body });
            let event = &rig.history[entry.seq.0 as usize - 1].event;
            let takes_a_line = event.taken().is_some()
                || matches!(event, Event::LineQuarantined(_) | Event::LinesPassed { .. });
            if takes_a_line {
                // Commits of a batch whose lines were taken before.
                while commits.next_if(|(last, _)| *last < entry.seq).is_some() {}
                if let Some((_, after)) = commits.next() {
                    mark.clone_from(after);
                }
            }
            mark_after.push(mark.clone());
            ControlFlow::Continue(())
        })
        .unwrap();
    rig.finish().unwrap();
    let expected = endings(&golden, "golden");
    assert!(records.len() > 80, "{}", records.len());
    println!("{} prefixes", records.len() + 1);
    for cut in 0..=records.len() {
        let told = format!("cut after event {cut} of {}", records.len());
        let world = golden.on(pristine.reboot());
        // From here on checkpoints are taken as usual.
        let world = World {
            options: summarizer::sequencer::engine::EngineOptions {
                checkpoint_every: 25,
                ..world.options
            },
            ..world
        };
        world.clock.set(times.get(cut.wrapping_sub(1)).copied().unwrap_or(times[0]));
        if cut > 0 {
            let mut store = open_store(&world).unwrap();
            let (first, mark) = (Seq(1), mark_after[cut - 1].as_slice());
            let commit = Commit { first, records: &records[..cut], mark, checkpoint: None };
            store.append(commit).unwrap();
            store.close().unwrap();
        }
        let mut rig = Rig::open(&world).unwrap_or_else(|error| panic!("{told}: {error}"));
        rig.run_to_end().unwrap_or_else(|error| panic!("{told}: {error}"));
        rig.finish().unwrap_or_else(|error| panic!("{told}: {error}"));
        assert_eq!(endings(&world, &told), expected, "{told}");
        world.check_log(&told);
    }
}
