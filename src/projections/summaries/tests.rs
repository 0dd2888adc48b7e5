//! What the publisher remembers, and what it refuses to show. In tests it visits its cache after
//! fifty items.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::json;

use super::*;
use crate::config::Config;
use crate::contract::hash::sha256;
use crate::contract::json::jcs;
use crate::contract::time::Timestamp;
use crate::contract::vocabulary::{Bus, ReasonCode, SummaryKind, Urgency, Warnings};
use crate::facts::attempt::InputFacts;
use crate::facts::session::{Host, SessionReport};
use crate::log::{Options, Store};
use crate::os::Machine;
use crate::sequencer::engine::{CheckpointWhen, Engine, EngineOptions, SessionStart, Slots};
use crate::state::decide::{Arrival, FlowStanding, Outcome, Report};
use crate::state::event::{AckHead, SessionEnd, SummaryPointer, TakenRequest};

const DAYS: [&str; 3] = ["2026-02-11", "2026-02-12", "2026-02-13"];

/// A log, the folder it publishes to, and the file it remembers in.
struct World {
    dir: tempfile::TempDir,
    engine: Engine,
    disk: Arc<dyn Disk>,
    next: u64,
}

impl World {
    fn new(store_id: u8) -> World {
        let dir = tempfile::tempdir().unwrap();
        let machine = Machine::real();
        let path = dir.path().join("log.redb");
        let (disk, options) = (Arc::clone(&machine.disk), Options::beside(&path));
        let store = Store::open(disk, &path, options, [store_id; 16], &mut |_| {}).unwrap();
        let config = Config::load(None, &BTreeMap::new(), 1).unwrap();
        let options = EngineOptions::of(&config);
        let engine = Engine::open(store, options, machine.clock.now(), &mut |_| {}).unwrap();
        std::fs::create_dir(dir.path().join("buses")).unwrap();
        World { dir, engine, disk: machine.disk, next: 0 }
    }

    fn buses(&self) -> PathBuf {
        self.dir.path().join("buses")
    }

    fn cache(&self) -> PathBuf {
        self.dir.path().join("cache.redb")
    }

    /// One run with so many requests: most give an item, some are skipped, some fail.
    fn run(&mut self, count: u64) {
        let run_id = format!("run_20260211T000000Z_{:08x}", self.next);
        let run = SessionStart {
            run_id,
            command: "test".into(),
            version: "0".into(),
            config: Digest::ZERO,
            host: Host { timezone: Some("UTC".into()), ..Host::default() },
        };
        self.engine.begin_session(run, Timestamp(1_000)).unwrap();
        for _ in 0..count {
            self.next += 1;
            let number = self.next;
            let outcome = match number % 10 {
                8 => Outcome::Skipped {
                    reason: ReasonCode::SkippedEmptyContent,
                    warnings: Warnings::default(),
                    input: Box::new(InputFacts {
                        stream: Some(Stream::Events),
                        day: Some(DAYS[0].parse().unwrap()),
                        ..InputFacts::default()
                    }),
                },
                _ => produced(number, &line(number)),
            };
            self.end(number, outcome);
        }
        self.engine
            .end_session(SessionEnd::Clean, SessionReport::default(), Timestamp(2_000))
            .unwrap();
        self.commit();
    }

    fn end(&mut self, number: u64, outcome: Outcome) {
        let now = Timestamp(1_500);
        let request = Box::new(taken(number));
        let arrival = Arrival {
            request,
            flow: FlowStanding::Active,
            refused: None,
            source: Warnings::default(),
        };
        self.engine.arrival(arrival, now).unwrap();
        self.engine.start_ready(Slots::of(1), now).unwrap();
        let running = self.engine.state().running().next().map(|(r, open)| (r, open.row.attempts));
        let (request, attempt) = running.unwrap();
        let epoch = self.engine.state().epoch();
        self.engine.report(Report { request, attempt, epoch, outcome }, now).unwrap();
    }

    fn commit(&mut self) {
        self.engine.commit(None, CheckpointWhen::Due, &[], Timestamp(2_000)).unwrap();
    }

    fn open(&self, remember: bool) -> Summaries {
        let cache = self.cache();
        let path = remember.then_some(cache.as_path());
        Summaries::open(&self.disk, &self.buses(), self.engine.log(), path).unwrap()
    }

    /// Publishes as a command does. Gives how far its memory reached when it began.
    fn publish(&self) -> Seq {
        let mut summaries = self.open(true);
        let from = summaries.read_to;
        summaries.publish(None).unwrap();
        summaries.close().unwrap();
        from
    }

    fn head(&self) -> Seq {
        self.engine.log().head().0
    }

    /// A publisher without a cache makes the same files from the same log.
    fn check(&self) {
        let fresh = self.dir.path().join("fresh");
        let mut summaries = Summaries::open(&self.disk, &fresh, self.engine.log(), None).unwrap();
        summaries.publish(None).unwrap();
        assert!(tree(&self.buses()).len() > 8);
        assert_eq!(tree(&self.buses()), tree(&fresh));
        std::fs::remove_dir_all(&fresh).unwrap();
    }
}

fn tree(root: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let relative = path.strip_prefix(root).unwrap().to_owned();
            match path.is_dir() {
                _ if relative.to_string_lossy().starts_with('.') => {}
                true => folders.push(path),
                false => drop(found.insert(relative, std::fs::read(&path).unwrap())),
            }
        }
    }
    found
}

fn id(number: u64) -> String {
    format!("sum_{}", &sha256(number.to_le_bytes()).hex()[..32])
}

fn line(number: u64) -> String {
    let hash = sha256("text").hex();
    jcs(&json!({
        "schema_version": "event_summary.v1", "summary_id": id(number), "id": id(number),
        "day": DAYS[(number % 3) as usize], "source_type": "event",
        "source_ids": [format!("evt_{number}")], "source_ref": id(number),
        "selection": {"selection_type": "single_event", "source_text_hash": hash,
            "normalization": {"name": "summarizer.text", "version": "1"}},
        "model": {"provider": "builtin", "model_name": "extractive", "model_version": "1",
            "temperature": null, "max_tokens": null},
        "prompt": {"prompt_hash": hash, "template_id": "test.v1", "prompt_version": "v1"},
        "producer": {"name": "other", "summarizer_version": "0", "run_id": "run_test"},
        "outputs": {"summary_text": "Text."}, "title": "Text",
        "meta": {"summary_kind": "event_summary"},
    }))
}

fn produced(number: u64, line: &str) -> Outcome {
    let day = DAYS[(number % 3) as usize].parse().unwrap();
    Outcome::Produced {
        summary: SummaryPointer { summary_id: id(number), stream: Stream::Events, day },
        item: line.as_bytes().to_vec(),
        warnings: Warnings::default(),
        input: Box::default(),
        provenance: None,
    }
}

fn taken(number: u64) -> TakenRequest {
    let key = sha256(format!("key {number}"));
    TakenRequest {
        head: AckHead {
            request_id: format!("r{number}"),
            key: format!("key {number}"),
            line: number,
            offset: number,
        },
        key,
        id: sha256(format!("id {number}")),
        work: key.head(),
        producer: "tests".into(),
        flow_id: "test.v1".into(),
        variant: None,
        kind: SummaryKind::EventSummary,
        bus: Some(Bus::EventBus),
        priority: 3,
        urgency: Urgency::Now,
        created_at: Timestamp(1_770_768_000_000),
        not_before: None,
        deadline: None,
        warnings: Warnings::default(),
        previous: None,
        supersedes: None,
        line: b"{}".to_vec().into(),
    }
}

#[test]
fn a_start_reads_only_what_is_newer_and_memory_follows_what_is_new() {
    let mut world = World::new(1);
    world.run(120);
    assert_eq!(world.publish(), Seq::ZERO);
    let kept = world.head();
    assert_eq!(world.publish(), kept, "what was known was read again");
    world.run(7);
    assert_eq!(world.publish(), kept);
    world.check();
    // While it runs it visits the cache, and what is there is not in memory.
    let mut summaries = world.open(true);
    let before = world.head();
    world.run(130);
    summaries.publish(None).unwrap();
    assert!(summaries.kept_at > before, "the cache was not visited");
    let (days, items) = summaries.index.in_memory();
    assert!(days <= 12 && items < 50, "{days} days and {items} items are in memory");
    drop(summaries);
    world.check();
    // It was not closed: what it did not keep is read again, and nothing else.
    assert!(world.publish() > before);
    world.check();
}

#[test]
fn a_memory_that_is_lost_damaged_foreign_or_ahead_is_made_again() {
    let mut world = World::new(1);
    world.run(70);
    world.publish();
    let early = std::fs::read(world.cache()).unwrap();
    world.run(10);
    world.publish();
    // One from earlier is as good as any.
    world.disk.replace(&world.cache(), &early, 0o640).unwrap();
    let from = world.publish();
    assert!(Seq::ZERO < from && from < world.head());
    world.check();
    let late = std::fs::read(world.cache()).unwrap();
    for (why, bytes) in [("lost", None), ("damaged", Some(b"nothing of ours".repeat(400)))] {
        match bytes {
            Some(bytes) => world.disk.replace(&world.cache(), &bytes, 0o640).unwrap(),
            None => std::fs::remove_file(world.cache()).unwrap(),
        }
        assert_eq!(world.publish(), Seq::ZERO, "{why}");
        world.check();
    }
    // Another log, and the same log before it came so far.
    for (why, store_id, count) in [("foreign", 2, 200), ("ahead", 1, 20)] {
        let mut other = World::new(store_id);
        other.run(count);
        other.disk.replace(&other.cache(), &late, 0o640).unwrap();
        assert_eq!(other.publish(), Seq::ZERO, "{why}");
        other.check();
        assert_eq!(other.publish(), other.head(), "{why}: what was made again is kept");
    }
}

#[test]
fn files_that_are_gone_come_back_whatever_is_remembered() {
    let mut world = World::new(1);
    world.run(60);
    world.publish();
    let all = tree(&world.buses());
    for path in all.keys() {
        std::fs::remove_file(world.buses().join(path)).unwrap();
        world.publish();
        assert_eq!(tree(&world.buses()), all, "{}", path.display());
    }
}

#[test]
fn an_invalid_item_is_not_published() {
    let mut world = World::new(1);
    world.run(3);
    world.publish();
    let before = tree(&world.buses());
    let run = SessionStart {
        run_id: "run_20260212T000000Z_00000000".into(),
        command: "test".into(),
        version: "0".into(),
        config: Digest::ZERO,
        host: Host::default(),
    };
    world.engine.begin_session(run, Timestamp(3_000)).unwrap();
    world.end(500, produced(500, &line(500).replace("\"run_id\"", "\"walk_id\"")));
    world.end(501, produced(501, &line(501)));
    world.commit();
    let mut summaries = world.open(true);
    let error = summaries.publish(None).unwrap_err();
    assert!(error.is_violation());
    let told = std::error::Error::source(&error).unwrap().to_string();
    assert!(told.contains("events.summary.jsonl:") && told.contains("run_id"), "{told}");
    assert_eq!(tree(&world.buses()), before, "a part was shown");
    let hidden = summaries.take_promoted();
    assert!(hidden.iter().any(|one| one.promotion_status == Promotion::NotWritten));
}

#[test]
fn a_publication_leaves_room_for_the_log_and_comes_later() {
    let mut world = World::new(1);
    world.run(3);
    let mut summaries = Summaries { keeps_free: u64::MAX / 2, ..world.open(true) };
    let told = [1, 2].map(|_| summaries.publish(None).unwrap_err().to_string());
    assert!(told[0].contains("half of commit.disk_headroom"), "{}", told[0]);
    assert_eq!(told[0], told[1], "what is the same is told once");
    assert!(!tree(&world.buses()).keys().any(|path| path.starts_with(SUMMARIES_DIR)));
    summaries.keeps_free = 1;
    assert!(summaries.publish(None).unwrap() > 0);
    summaries.close().unwrap();
    world.check();
}
