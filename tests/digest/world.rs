//! A log with summaries only: without queue, requests and service.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use serde_json::{Map, Value, json};
use summarizer::contract::hash::{Digest, sha256};
use summarizer::contract::ids::Seq;
use summarizer::contract::time::{Timestamp, parse_instant};
use summarizer::contract::vocabulary::{Stream, Warnings};
use summarizer::digest::build::{
    BuildError, BuildOrder, BuildReport, BuildSettings, Journal, JournalError, build, close_crashed,
};
use summarizer::digest::collect::{Collection, CollectionReport, collect};
use summarizer::digest::library::Library;
use summarizer::digest::publish::{DigestError, Digests};
use summarizer::digest::queries;
use summarizer::digest::selector::Selectors;
use summarizer::export::item::{ModelIdentity, PromptIdentity, SummaryItem};
use summarizer::export::run_record::Environment;
use summarizer::facts::digest::DigestFact;
use summarizer::log::codec;
use summarizer::log::{Commit, NewRecord, Options, Reader, Store};
use summarizer::os::Disk;
use summarizer::os::real::HostDisk;
use summarizer::projections::summaries::Summaries;
use summarizer::state::event::Note;
use summarizer::state::event::{AckHead, Event, SummaryPointer};
use summarizer::verify::{self, Report, verify_tree};

/// The time at the start of each test.
pub const BEGIN: &str = "2026-02-20T12:00:00Z";

/// A summary to be made.
#[derive(Clone)]
pub struct Made {
    pub name: String,
    pub at: Timestamp,
    pub tags: Vec<String>,
    pub project: Option<String>,
    pub title: String,
    pub text: String,
    pub tasks: Vec<String>,
    pub publish: Option<bool>,
}

/// A summary with a name, a source time, tags and a project.
pub fn made(name: &str, at: &str, tags: &[&str], project: &str) -> Made {
    Made {
        name: name.to_owned(),
        at: parse_instant(at).unwrap().at,
        tags: tags.iter().map(|tag| (*tag).to_owned()).collect(),
        project: Some(project.to_owned()).filter(|project| !project.is_empty()),
        title: format!("About {name}"),
        text: format!("What there is to say about {name}."),
        tasks: Vec::new(),
        publish: None,
    }
}

impl Made {
    pub fn id(&self) -> String {
        format!("sum_{}", &sha256(&self.name).hex()[..32])
    }

    fn item(&self) -> SummaryItem {
        let mut outputs = Map::new();
        outputs.insert("summary_text".to_owned(), json!(self.text));
        outputs.insert("model_generated".to_owned(), json!(false));
        outputs.insert("tags".to_owned(), json!(self.tags));
        outputs.insert("actions".to_owned(), json!(self.tasks));
        let mut meta = Map::new();
        meta.insert("summary_kind".to_owned(), json!("session_summary"));
        if let Some(project) = &self.project {
            meta.insert("project".to_owned(), json!(project));
        }
        if let Some(publish) = self.publish {
            meta.insert("publish".to_owned(), json!(publish));
        }
        let text_hash = sha256(&self.text).hex();
        SummaryItem {
            stream: Stream::Sessions,
            day: self.at.day_in(chrono_tz::UTC),
            summary_id: self.id(),
            source_ids: vec![format!("ses_{}", self.name)],
            event_ids: Vec::new(),
            document_ids: Vec::new(),
            chunk_ids: Vec::new(),
            selection: json!({
                "selection_type": "session_full", "source_text_hash": text_hash,
                "normalization": {"name": "summarizer.text", "version": "1"},
                "counts": {"sources": 1, "used": 1, "skipped": 0}, "skip_reasons": {},
            }),
            model: ModelIdentity {
                provider: "builtin".to_owned(),
                name: "extractive".to_owned(),
                version: "1".to_owned(),
                ..ModelIdentity::default()
            },
            prompt: PromptIdentity {
                hash: sha256("prompt").hex(),
                template_id: "t.v1".to_owned(),
                version: "v1".to_owned(),
            },
            summarizer_version: "0.1.0".to_owned(),
            run_id: "run_1".to_owned(),
            outputs,
            title: Some(self.title.clone()),
            source_time: self.at,
            meta,
        }
    }

    fn event(&self) -> (Event, Vec<u8>) {
        let item = self.item();
        let body = item.to_line().unwrap().into_bytes();
        let event = Event::SummaryProduced {
            request: Seq(1),
            attempt: 1,
            head: AckHead {
                request_id: self.name.clone(),
                key: self.name.clone(),
                line: 1,
                offset: 0,
            },
            summary: SummaryPointer {
                summary_id: item.summary_id,
                stream: item.stream,
                day: item.day,
            },
            body_sha256: sha256(&body),
            warnings: Warnings::default(),
            supersedes: None,
            input: Box::default(),
            provenance: None,
        };
        (event, body)
    }
}

/// The log as a journal: what the sequencer is to a service.
pub struct Log {
    pub store: Store,
    pub now: Timestamp,
    /// Refuse every note from this one on.
    pub refuse_after: Option<usize>,
    pub notes: Vec<String>,
    /// How far the clock moves with each commit of a build.
    pub tick_ms: i64,
}

impl Log {
    pub fn append(&mut self, events: Vec<(Event, Option<Vec<u8>>)>) -> Seq {
        self.try_append(events).unwrap()
    }

    fn try_append(&mut self, events: Vec<(Event, Option<Vec<u8>>)>) -> Result<Seq, String> {
        let first = self.store.head().0.next();
        let records: Vec<NewRecord> = events
            .into_iter()
            .map(|(event, body)| {
                let (tag, version, payload) = codec::encode(&event);
                NewRecord { at: self.now, tag, version, payload, body }
            })
            .collect();
        let commit = Commit { first, records: &records, mark: &[], checkpoint: None };
        self.store.append(commit).map_err(|error| error.to_string())?;
        Ok(first)
    }
}

impl Journal for Log {
    fn now(&self) -> Timestamp {
        self.now
    }

    fn note(&mut self, notes: Vec<Note>) -> Result<(Seq, Timestamp), JournalError> {
        if self.refuse_after.is_some_and(|after| self.notes.len() >= after) {
            return Err(JournalError("refused".to_owned()));
        }
        self.notes.extend(notes.iter().map(|note| match &note.event {
            Event::Digest(DigestFact::Started(_)) => "digest.started".to_owned(),
            Event::Digest(DigestFact::Bag(_)) => "digest.bag".to_owned(),
            Event::Digest(DigestFact::Published(_)) => "digest.published".to_owned(),
            Event::Digest(DigestFact::Collected(_)) => "digest.collected".to_owned(),
            Event::Digest(DigestFact::Finished(_)) => "digest.finished".to_owned(),
            other => other.name().to_owned(),
        }));
        let events = notes.into_iter().map(|note| (note.event, note.body));
        let first = self.try_append(events.collect()).map_err(JournalError)?;
        let at = self.now;
        self.now = Timestamp(at.0 + self.tick_ms);
        Ok((first, at))
    }
}

/// A home with a log, the Summary Bus and the Digest Bus.
pub struct World {
    pub disk: Arc<dyn Disk>,
    pub buses: PathBuf,
    pub log: Log,
    pub selectors: Selectors,
    pub zone: chrono_tz::Tz,
    pub threads: usize,
    /// Free bytes that builds leave.
    pub keeps_free: u64,
    pub builds: u32,
    pub stop: AtomicBool,
}

pub fn environment() -> Environment {
    Environment {
        hostname: None,
        os: "linux".to_owned(),
        arch: "x86_64".to_owned(),
        config_fingerprint: Digest::ZERO.hex(),
        timezone: "UTC".to_owned(),
    }
}

/// The embedded selectors, those included that a home must turn on.
fn every_selector() -> Result<Selectors, Box<dyn std::error::Error>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("registry/registry.selectors.v1.jsonl");
    let text = std::fs::read_to_string(path)?;
    Ok(Selectors::parse(text.replace(r#""status":"disabled""#, r#""status":"active""#).as_bytes())?)
}

impl World {
    /// A world on the host's disk.
    pub fn new(root: &Path) -> World {
        World::on(Arc::new(HostDisk), root)
    }

    pub fn on(disk: Arc<dyn Disk>, root: &Path) -> World {
        World::open(disk, root).unwrap()
    }

    pub fn open(disk: Arc<dyn Disk>, root: &Path) -> Result<World, Box<dyn std::error::Error>> {
        let path = root.join("run/log.redb");
        disk.create_dir_all(&root.join("run"))?;
        let options = Options::beside(&path);
        let store = Store::open(Arc::clone(&disk), &path, options, [7; 16], &mut |_| {})?;
        let now = parse_instant(BEGIN)?.at;
        Ok(World {
            disk,
            buses: root.join("buses"),
            log: Log { store, now, refuse_after: None, notes: Vec::new(), tick_ms: 0 },
            selectors: every_selector()?,
            zone: chrono_tz::UTC,
            threads: 2,
            keeps_free: 0,
            builds: 0,
            stop: AtomicBool::new(false),
        })
    }

    pub fn reader(&self) -> Reader {
        self.log.store.reader()
    }

    /// Only these selectors, from JSON objects with the usual members filled in.
    pub fn select(&mut self, records: &[Value]) {
        self.select_by(records, None);
    }

    /// The same with rules of projects.
    pub fn select_by(&mut self, records: &[Value], rules: Option<Value>) {
        let lines: String = records
            .iter()
            .map(|given| {
                let mut record = json!({
                    "schema_version": "selector.v1", "selector_version": "1",
                    "bag_type": "cohort", "window": {"type": "iso_week"},
                    "caps": {"total": 100}, "memo": {"max_items": 100},
                });
                for (name, value) in given.as_object().unwrap() {
                    record[name] = value.clone();
                }
                format!("{record}\n")
            })
            .chain(rules.map(|rules| format!("{rules}\n")))
            .collect();
        self.selectors = Selectors::parse(lines.as_bytes()).unwrap();
    }

    /// Summaries come into being and are published on the Summary Bus.
    pub fn produce(&mut self, made: &[Made]) {
        if self.log.store.head().0 == Seq::ZERO {
            let started = Event::SessionStarted {
                run_id: "run_1".to_owned(),
                command: "test".to_owned(),
                version: "0.1.0".to_owned(),
                config: Digest::ZERO,
                host: Box::default(),
            };
            self.log.append(vec![(started, None)]);
        }
        let events = made.iter().map(|one| one.event()).map(|(event, body)| (event, Some(body)));
        self.log.append(events.collect());
        self.publish_summaries();
    }

    pub fn publish_summaries(&self) {
        let summaries = Summaries::open(&self.disk, &self.buses, &self.reader(), None);
        summaries.unwrap().publish(None).unwrap();
    }

    pub fn order(&mut self) -> BuildOrder {
        self.builds += 1;
        BuildOrder {
            run_id: format!("run_build_{}", self.builds),
            trigger: "summarizer digest build".to_owned(),
            record: true,
            ..BuildOrder::default()
        }
    }

    pub fn digests(&self) -> Digests {
        Digests::open(&self.disk, &self.buses, &self.reader())
    }

    pub fn build(&mut self) -> Result<BuildReport, BuildError> {
        let order = self.order();
        self.build_order(&order)
    }

    pub fn build_order(&mut self, order: &BuildOrder) -> Result<BuildReport, BuildError> {
        let mut digests = self.digests();
        self.build_with(&mut digests, order)
    }

    pub fn build_with(
        &mut self,
        digests: &mut Digests,
        order: &BuildOrder,
    ) -> Result<BuildReport, BuildError> {
        let reader = self.reader();
        let (fields, rules) = (self.selectors.fields(), self.selectors.rules());
        let mut library = Library::with_rules(fields, rules);
        library.read(&reader, None, self.threads, &mut |_| {})?;
        let settings = BuildSettings {
            selectors: &self.selectors,
            zone: self.zone,
            threads: self.threads,
            keeps_free: self.keeps_free,
            engine_version: "0.1.0",
            environment: environment(),
            stop: &self.stop,
            progress: &|_, _| {},
        };
        build(digests, &library, &reader, &settings, &mut self.log, order)
    }

    /// What a start does: brings the files up to the log and closes what a crash left open.
    pub fn recover(&mut self) -> Result<Option<String>, BuildError> {
        let mut digests = self.digests();
        digests.read(None)?;
        digests.sweep_staging(false)?;
        digests.publish(None, None)?;
        close_crashed(&mut digests, &mut self.log, &environment())
    }

    pub fn gc(&mut self) -> Vec<String> {
        self.collect(false, false).unwrap().removed
    }

    pub fn collect(
        &mut self,
        dry_run: bool,
        orphans: bool,
    ) -> Result<CollectionReport, BuildError> {
        let mut digests = self.digests();
        self.builds += 1;
        let wanted = Collection { run_id: format!("run_gc_{}", self.builds), dry_run, orphans };
        collect(&mut digests, &mut self.log, &wanted)
    }

    /// What a status tells.
    pub fn overview(&self) -> Value {
        let mut digests = self.digests();
        digests.read(None).unwrap();
        queries::overview(&digests).unwrap()
    }

    /// The log projected again somewhere else.
    pub fn export(&self, to: &Path) -> Result<(), DigestError> {
        let mut digests = Digests::open(&self.disk, to, &self.reader());
        digests.publish(None, None).map(|_| ())
    }

    pub fn verify(&self) -> Report {
        let options = verify::Options { threads: 2, sources: false };
        verify_tree(&self.disk, &self.buses, options, &|_| {}).unwrap()
    }

    /// Every file of the digest tree: bags, indexes and run records.
    pub fn tree(&self) -> BTreeMap<String, Vec<u8>> {
        tree(self.disk.as_ref(), &self.buses)
    }

    pub fn json(&self, path: &str) -> Value {
        serde_json::from_slice(&self.disk.read(&self.buses.join(path)).unwrap()).unwrap()
    }

    pub fn registry(&self) -> Value {
        self.json("index/digest_registry.json")
    }

    /// The published bags of a selector: window, group, path.
    pub fn bags(&self, selector_id: &str) -> Vec<(String, Option<String>, String)> {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let registry = self.registry();
        let entries = registry["entries"].as_array().unwrap().iter();
        entries
            .filter(|entry| entry["selector_id"] == selector_id)
            .map(|entry| {
                let group = entry["group"].as_str().map(str::to_owned);
                (text(&entry["window_label"]), group, text(&entry["path"]))
            })
            .collect()
    }

    /// The summary ids of a bag.
    pub fn members(&self, path: &str) -> Vec<String> {
        let trace = self.json(&format!("{path}/meta/trace.json"));
        let ids = trace["upstream"]["summary_ids"].as_array().unwrap().iter();
        ids.map(|id| id.as_str().unwrap().to_owned()).collect()
    }
}

pub fn tree(disk: &dyn Disk, buses: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    for folder in ["digests", "index", "artifacts"] {
        walk(disk, buses, folder, &mut files);
    }
    files
}

fn walk(disk: &dyn Disk, root: &Path, folder: &str, files: &mut BTreeMap<String, Vec<u8>>) {
    for name in disk.list(&root.join(folder)).unwrap_or_default() {
        let relative = format!("{folder}/{name}");
        match disk.stat(&root.join(&relative)).unwrap() {
            Some(stat) if stat.is_dir => walk(disk, root, &relative, files),
            _ => drop(files.insert(relative.clone(), disk.read(&root.join(&relative)).unwrap())),
        }
    }
}

/// A month of work: two projects, some tags, some tasks, one private note.
pub fn a_month() -> Vec<Made> {
    let mut all = Vec::new();
    for day in 2..=19 {
        for (part, project) in [(1, "site"), (2, "shop")] {
            let name = format!("{project}-{day}-{part}");
            let at = format!("2026-02-{day:02}T{:02}:30:00Z", 8 + part);
            let tags: &[&str] = match (day + part) % 3 {
                0 => &["automation", "CI/CD"],
                1 => &["automation", "topics:AI"],
                _ => &["Knowledge Management"],
            };
            let mut one = made(&name, &at, tags, project);
            if day % 4 == 0 {
                one.tasks = vec![format!("finish {project} {day}"), "write docs".to_owned()];
            }
            all.push(one);
        }
    }
    all[5].publish = Some(false);
    all
}
