//! Everything at once: texts, packs, files, links, servers and readers that mean harm, and a person who forgets, backs
//! up, reloads and lets data become old while caches are damaged, beside requests that do their work. Each healthy
//! request completes within a limit of its own, the service stays, and neither it nor its workers grow.
//!
//! The short form runs for some seconds. The deep form runs for half an hour.
#![cfg(target_os = "linux")]
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "helpers of a test may panic, and it writes the files of a home"
)]

#[path = "support/flow_home.rs"]
mod flow_home;
#[path = "support/running.rs"]
mod running;
#[path = "support/server.rs"]
mod server;

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use flow_home::{ENDLESS, FLOW, FREE, Home, MEMORY, QUICK, Running, STACK, config, good};
use running::workers;
use serde_json::{Value, json};
use server::{Act, Server, chat, status};

/// The longest time from the line of a healthy request to the ack of its end. It waits behind others and behind a
/// service that forgets.
const LIMIT: Duration = Duration::from_secs(120);
/// Healthy requests that may wait at the same time.
const BACKLOG: usize = 60;
/// What `[workers]` sets, and what a worker may have beside it.
const WORKERS: usize = 2;
const WORKER_BYTES_MAX: u64 = (192 + 80) << 20;
/// The word of a file that lies outside the bus.
const SECRET: &str = "saxifrage";
/// Characters that ring, colour, move the cursor, or turn the direction.
const HOSTILE: &str = "x\u{1b}[2J\u{7}\u{9b}31m\u{202e}\u{2066}\u{e0041}y";

/// What the service and its workers use at one moment.
#[derive(Debug, Clone, Copy)]
struct Use {
    resident_bytes: u64,
    descriptors: usize,
    threads: usize,
    workers: usize,
    /// Of all workers together, and of the largest one.
    worker_bytes: u64,
    largest_worker: u64,
}

impl Use {
    fn of(process: u32) -> Use {
        let count =
            |folder: &str| std::fs::read_dir(format!("/proc/{process}/{folder}")).unwrap().count();
        let of_workers: Vec<u64> = workers(process)
            .iter()
            .filter_map(|worker| resident(worker.as_raw_nonzero().get().cast_unsigned()))
            .collect();
        Use {
            resident_bytes: resident(process).unwrap(),
            descriptors: count("fd"),
            threads: count("task"),
            workers: of_workers.len(),
            worker_bytes: of_workers.iter().sum(),
            largest_worker: of_workers.iter().max().copied().unwrap_or(0),
        }
    }
}

/// Bytes of memory of a process; `None` when it has ended.
fn resident(process: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = resident.trim().trim_end_matches(" kB").parse().ok()?;
    Some(kib << 10)
}

/// The middle value of some moments.
fn median<T: Ord + Copy>(moments: &[Use], of: impl Fn(&Use) -> T) -> T {
    let mut all: Vec<T> = moments.iter().map(of).collect();
    all.sort();
    all[all.len() / 2]
}

/// A server whose answers are right, wrong, cut, endless or of another kind, in turn.
fn moody_server() -> Server {
    let turns = AtomicUsize::new(0);
    let act = move |_: &Value| -> (String, &'static str) {
        match turns.fetch_add(1, Ordering::Relaxed) % 6 {
            0 => ("{\"cut".to_owned(), "length"),
            1 => ("\u{1b}[2J\u{202e}".repeat(2_000), "stop"),
            _ => (flow_home::good_answer(), "stop"),
        }
    };
    let refused = || status(503, &[("retry-after", "0")], "busy");
    let mut acts = vec![good(), Act::Cut, refused(), Act::Raw(b"HTTP/1.1 999 \r\n\r\n".to_vec())];
    acts.extend([Act::Huge(80 << 20), chat("[".repeat(100_000).as_str()), Act::Endless]);
    acts.push(Act::Reply(Arc::new(act)));
    Server::start(acts)
}

/// Files of an upstream bus that hold up or mislead whoever opens them.
fn lay_traps(home: &Home) {
    let other = home.path("buses/other");
    let pipe = std::process::Command::new("mkfifo").arg(other.join("pipe.txt")).status();
    assert!(pipe.unwrap().success());
    symlink("/dev/zero", other.join("zero.txt")).unwrap();
    symlink("/etc/hostname", other.join("out.txt")).unwrap();
    symlink("round.txt", other.join("round.txt")).unwrap();
    std::fs::create_dir(other.join("folder.txt")).unwrap();
    std::fs::write(other.join("bytes.txt"), [0xff, 0xfe, 0x00, 0x80].repeat(5_000)).unwrap();
    std::fs::write(other.join("one-line.txt"), "word ".repeat(400_000)).unwrap();
    std::fs::write(other.join("deep.html"), "<div>".repeat(200_000)).unwrap();
    std::fs::write(other.join("deep.json"), "[".repeat(200_000)).unwrap();
    std::fs::write(other.join("brace.tex"), "{\\bf ".repeat(100_000)).unwrap();
}

const TRAPS: [&str; 10] = [
    "pipe.txt",
    "zero.txt",
    "out.txt",
    "round.txt",
    "folder.txt",
    "bytes.txt",
    "one-line.txt",
    "deep.html",
    "deep.json",
    "brace.tex",
];

/// A line for a flow over a source of the bus.
fn line(id: &str, flow: &str, source: &str) -> Value {
    json!({
        "schema_version": "summary_request.v1", "request_id": id,
        "created_at": "2026-02-19T08:00:00Z", "urgency": "now",
        "requested_by": {"repo": "tests", "component": "soak", "version": "dev"},
        "work": {"output_bus": "summary_bus", "output_kind": "summary_item",
                 "summary_kind": "document_summary", "summary_subkind": "test",
                 "flow_ref": {"kind": "registry", "flow_id": flow}, "params": {}},
        "input": {"mode": "ids", "bus": "other", "ids": [source]},
    })
}

fn append(queue: &Path, line: &[u8]) {
    let mut file = std::fs::OpenOptions::new().append(true).open(queue).unwrap();
    // One write, because others append too.
    file.write_all(&[line, b"\n"].concat()).unwrap();
}

/// Archives with few bytes: one says that it holds a gigabyte, one holds more than it says, and one holds what it says.
fn bombs() -> [(&'static str, Vec<u8>); 3] {
    let long = vec![b' '; 24 << 20];
    let packed = miniz_oxide::deflate::compress_to_vec(&long, 1);
    [("says", 1 << 30), ("hides", 100), ("holds", 24 << 20)].map(|(name, size)| {
        let mut common = b"\x14\0\0\0\x08\0\0\0\0\0".to_vec();
        common.extend(crc32(&long).to_le_bytes());
        common.extend((packed.len() as u32).to_le_bytes());
        common.extend((size as u32).to_le_bytes());
        let entry = b"word/document.xml";
        common.extend((entry.len() as u32).to_le_bytes());
        let mut zip = [b"PK\x03\x04".as_slice(), &common, entry, &packed].concat();
        let start = zip.len() as u32;
        zip.extend([b"PK\x01\x02\x14\0".as_slice(), &common, &[0; 14], entry].concat());
        let length = zip.len() as u32 - start;
        zip.extend(b"PK\x05\x06\0\0\0\0\x01\0\x01\0");
        zip.extend([length.to_le_bytes(), start.to_le_bytes()].concat());
        zip.extend([0; 2]);
        (name, zip)
    })
}

fn crc32(bytes: &[u8]) -> u32 {
    let step = |sum: u32, byte: &u8| {
        (0..8).fold(sum ^ u32::from(*byte), |sum, _| match sum & 1 {
            1 => sum >> 1 ^ 0xedb8_8320,
            _ => sum >> 1,
        })
    };
    !bytes.iter().fold(!0, step)
}

/// Asks the page for something, and reads only some bytes of the answer.
fn knock(page: &str, text: &str) {
    let Ok(mut stream) = TcpStream::connect(page) else { return };
    let _ = stream.set_read_timeout(Some(Duration::from_millis(200)));
    let _ = stream.write_all(text.as_bytes());
    let _ = stream.read(&mut [0; 512]);
}

/// Says that the work is over when it is dropped.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A clock in a file. It runs with the test, and days pass when somebody says so.
struct Clock {
    path: PathBuf,
    began: Instant,
    days: AtomicU64,
}

impl Clock {
    fn tick(&self) {
        // A Monday at ten in the morning.
        let at = 1_772_445_600_000 + self.began.elapsed().as_millis() as i64;
        let at = at + self.days.load(Ordering::Relaxed) as i64 * 86_400_000;
        let told = summarizer::contract::time::Timestamp(at).to_string();
        let new = self.path.with_extension("new");
        std::fs::write(&new, told).unwrap();
        std::fs::rename(new, &self.path).unwrap();
    }
}

/// A healthy request: when its line was written, and when its end was seen.
struct Asked {
    at: Instant,
    ended: Option<(Duration, Value)>,
}

/// The home with everything that goes on in it.
struct World {
    home: Home,
    clock: Clock,
    settings: String,
    healthy: Mutex<BTreeMap<String, Asked>>,
    /// The file of the acks, and how much of it was read.
    read: Mutex<(u64, u64)>,
    /// What went wrong in another thread than that of the test.
    wrong: Mutex<Vec<String>>,
    over: AtomicBool,
    turns: AtomicUsize,
    bombs: [(&'static str, Vec<u8>); 3],
    /// Words that only forgotten texts had.
    forgotten: Mutex<Vec<String>>,
}

impl World {
    fn command(&self, args: &[&str]) -> Command {
        let mut command = self.home.command(args);
        command.env("SUMMARIZER_TEST_NOW", &self.clock.path);
        command
    }

    /// Runs a command whose output may steer no terminal.
    fn run(&self, args: &[&str]) -> Output {
        let ran = self.command(args).output().unwrap();
        let said = String::from_utf8_lossy(&[&*ran.stdout, &*ran.stderr].concat()).into_owned();
        if let Some(line) = said.lines().find(|line| line.chars().any(steers)) {
            self.complain(format!("{args:?} steers a terminal: {line:?}"));
        }
        ran
    }

    fn expect(&self, args: &[&str]) {
        let ran = self.run(args);
        if !ran.status.success() {
            self.complain(format!("{args:?}: {ran:?}"));
        }
    }

    fn complain(&self, what: String) {
        self.wrong.lock().unwrap().push(what);
    }

    /// A healthy request over a text of its own.
    fn ask(&self, id: &str, text: &str) {
        let asked = Asked { at: Instant::now(), ended: None };
        self.healthy.lock().unwrap().insert(id.to_owned(), asked);
        self.home.ask(id, FREE, text);
    }

    /// Reads the new acks. No healthy request may wait longer than its limit. How many wait is given back.
    fn look(&self) -> usize {
        let mut healthy = self.healthy.lock().unwrap();
        for ack in self.new_acks() {
            let is_end =
                !["accepted", "failed_transient"].contains(&ack["status"].as_str().unwrap());
            let id = ack["request_id"].as_str().unwrap_or_default();
            if let Some(asked) = healthy.get_mut(id).filter(|one| is_end && one.ended.is_none()) {
                asked.ended = Some((asked.at.elapsed(), ack));
            }
        }
        let waiting = healthy.iter().filter(|(_, one)| one.ended.is_none());
        for (id, asked) in waiting.clone() {
            if asked.at.elapsed() > LIMIT {
                let told = [["show", id], ["status", "--json"]].map(|args| self.run(&args));
                panic!("{id} waits for {:?}: {told:#?}", asked.at.elapsed());
            }
        }
        waiting.count()
    }

    /// The acks that were not read yet. When the file was made anew, all are read again, the archived ones too.
    fn new_acks(&self) -> Vec<Value> {
        let path = self.home.path("run/ack.jsonl");
        let Ok(file) = std::fs::File::open(&path) else { return Vec::new() };
        let mut read = self.read.lock().unwrap();
        let mut bytes = Vec::new();
        if read.0 != file.metadata().unwrap().ino() {
            *read = (file.metadata().unwrap().ino(), 0);
            let archive = std::fs::read_dir(self.home.path("run/archive"));
            for entry in archive.into_iter().flatten().flatten() {
                if entry.file_name().to_string_lossy().ends_with(".jsonl") {
                    bytes.extend(std::fs::read(entry.path()).unwrap());
                }
            }
        }
        let known = bytes.len();
        let mut more = Vec::new();
        (&file).read_to_end(&mut more).unwrap();
        let new = more.get(usize::try_from(read.1).unwrap()..).unwrap_or_default();
        bytes.extend(new);
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        read.1 += whole.saturating_sub(known) as u64;
        let lines = bytes[..whole].split(|byte| *byte == b'\n');
        lines.filter_map(|line| serde_json::from_slice(line).ok()).collect()
    }

    /// What a person and a bad disk do, in turn.
    fn operate(&self, turn: usize) {
        let elsewhere = tempfile::tempdir().unwrap();
        let (gone, copy) = (format!("gone-{turn}"), elsewhere.path().join("copy"));
        self.ask(&gone, &format!("The {} failed in spring. Ana mended it.", word_of(turn)));
        self.expect(&["backup", copy.to_str().unwrap()]);
        drop(elsewhere);
        self.home.configure(&format!("{}\n[profile]\nname = \"Ana {turn}\"\n", self.settings));
        self.expect(&["reload"]);
        self.damage_caches(turn);
        let is_done = || self.healthy.lock().unwrap()[&gone].ended.is_some();
        while !is_done() && !self.over.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(100));
        }
        if is_done() {
            self.expect(&["forget", &format!("{gone}.txt")]);
            self.forgotten.lock().unwrap().push(word_of(turn));
        }
        self.damage_caches(turn + 1);
        // What is older than two days becomes old.
        self.clock.days.fetch_add(3, Ordering::Relaxed);
    }

    /// Bytes and pages of every cache change while the service uses it.
    fn damage_caches(&self, turn: usize) {
        for (number, entry) in std::fs::read_dir(self.home.path("run")).unwrap().enumerate() {
            let path = entry.unwrap().path();
            if !path.to_string_lossy().ends_with("-index.redb") {
                continue;
            }
            let Ok(file) = std::fs::OpenOptions::new().write(true).open(path) else { continue };
            let place =
                (turn * 7_919 + number * 104_729) as u64 % file.metadata().unwrap().len().max(1);
            file.write_at(&[0x5a; 3], place).unwrap();
            file.write_at(&[0; 4096], place / 2 / 4096 * 4096).unwrap();
        }
    }

    /// Calls from outside, and commands of readers.
    fn pester(&self, page: &str) {
        for round in 0.. {
            if self.over.load(Ordering::Relaxed) {
                break;
            }
            for text in [
                "GET /api/newest HTTP/1.1\r\nhost: a\r\n\r\n",
                "GET /api/status HTTP/1.1\r\nhost: a\r\n\r\n",
                "GET / HTT",
                "POST /api/act/pause HTTP/1.1\r\nhost: a\r\ncontent-length: 99999999\r\n\r\n",
                "\u{0}\u{1}\u{2}\r\n\r\n",
            ] {
                knock(page, text);
            }
            let commands = [
                "status",
                "read --long",
                "search volume",
                "digest build",
                "task list",
                "requests",
                "quarantine list",
                "show steers",
            ];
            let args: Vec<&str> = commands[round % commands.len()].split(' ').collect();
            self.run(&args);
        }
    }

    /// A file of the bus that is a link out of it, again and again.
    fn race(&self) {
        let other = self.home.path("buses/other");
        std::fs::write(self.home.path("secret.txt"), format!("The word is {SECRET}.")).unwrap();
        while !self.over.load(Ordering::Relaxed) {
            for is_link in [true, false] {
                match is_link {
                    true => symlink("../../secret.txt", other.join(".new")).unwrap(),
                    false => std::fs::write(other.join(".new"), "The road is long.").unwrap(),
                }
                std::fs::rename(other.join(".new"), other.join("racing.txt")).unwrap();
            }
            std::thread::sleep(Duration::from_micros(200));
        }
    }

    /// Lines that mean harm, another one in each round.
    fn harm(&self, round: usize, bad: &[(&str, &str); 3]) {
        let queue = self.home.path("run/queue.jsonl");
        let ask = |id: String, flow: &str, source: &str| {
            append(&queue, line(&id, flow, source).to_string().as_bytes());
        };
        match round % 12 {
            0 => ask(format!("trap-{round}"), FREE, TRAPS[round / 12 % TRAPS.len()]),
            1 => self.home.ask(&format!("bad-{round}"), bad[round / 12 % 3].0, "A short note."),
            2 => append(&queue, &[0xff, 0x00, 0x7b].repeat(1 + round % 50)),
            3 => append(&queue, &vec![b'x'; if round % 36 == 3 { 3 << 20 } else { 10 }]),
            4 => append(&queue, format!("{}{}", "[".repeat(5_000), "]".repeat(5_000)).as_bytes()),
            5 | 6 => self.home.ask(&format!("model-{round}"), FLOW, "A log with a line."),
            7 => {
                let note =
                    format!("# Note {round}\n\nWe decided to keep volume {round} until May.\n");
                let name = format!("watched/n{}.md", round % 40);
                std::fs::write(self.home.path(&name), note).unwrap();
            }
            8 => {
                for (name, bytes) in &self.bombs {
                    let name = format!("watched/{name}-{}.docx", round % 3);
                    std::fs::write(self.home.path(&name), bytes).unwrap();
                }
            }
            9 => {
                let mut line = line(&format!("{HOSTILE}{round}"), FREE, HOSTILE);
                line["requested_by"]["component"] = HOSTILE.into();
                append(&queue, line.to_string().as_bytes());
                let name = format!("watched/{HOSTILE}{}.md", round % 3);
                std::fs::write(self.home.path(&name), format!("# {HOSTILE}\n\nTODO: {HOSTILE}.\n"))
                    .unwrap();
            }
            _ => ask(format!("race-{round}"), FREE, "racing.txt"),
        }
    }
}

fn steers(c: char) -> bool {
    c.is_control() && !matches!(c, '\n' | '\t')
        || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{e0000}'..='\u{e007f}')
}

/// A word that only a text has that is to be forgotten.
fn word_of(turn: usize) -> String {
    let letter = |part: usize| char::from(b'a' + (turn / 26_usize.pow(part as u32) % 26) as u8);
    format!("xylo{}{}phon", letter(0), letter(1))
}

/// A service and the address of its page.
fn serve(world: &World) -> (Running, String, Arc<Mutex<Vec<String>>>) {
    let mut command = world.command(&["serve"]);
    let mut service = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(service.stderr.take().unwrap()).lines();
    let page = said.find_map(|line| {
        Some(line.unwrap().strip_prefix("status page: http://")?.trim_end_matches('/').to_owned())
    });
    // It goes on to write, and must not wait for a reader.
    let told: Arc<Mutex<Vec<String>>> = Arc::default();
    let kept = Arc::clone(&told);
    std::thread::spawn(move || {
        said.map_while(Result::ok).for_each(|line| kept.lock().unwrap().push(line))
    });
    (Running(service), page.unwrap(), told)
}

/// Whether some bytes hold a word.
fn holds(bytes: &[u8], word: &str) -> bool {
    bytes.windows(word.len()).any(|part| part == word.as_bytes())
}

#[test]
fn everything_at_once_leaves_healthy_requests_alone_and_the_service_as_small_as_it_was() {
    let deep = std::env::var_os("SUMMARIZER_TEST_DEEP").is_some();
    let lasts = Duration::from_secs(if deep { 1_800 } else { 15 });
    let server = moody_server();
    let settings = format!(
        "{QUICK}[workers]\ncount = {WORKERS}\nmemory = \"192 MiB\"\nattempt_timeout = \"8 s\"\n[status]\nhttp = \
         \"127.0.0.1:0\"\nlogin = false\n[retention]\nanswers_after = \"2 d\"\nacks_after = \"2 d\"\ndaily = \
         true\n[compaction]\narchive_after = \"2 d\"\n[[watch]]\nfolder = \"watched\"\n"
    );
    let bad = [("bad.stack.v1", STACK), ("bad.join.v1", MEMORY[0]), ("bad.endless.v1", ENDLESS)];
    let packs: Vec<_> =
        bad.iter().map(|(id, text)| (*id, "outline.jinja2", (*text).to_owned())).collect();
    let settings = config(&server, "", &settings);
    let home = Home::with_packs(&settings, &packs);
    std::fs::create_dir_all(home.path("watched")).unwrap();
    lay_traps(&home);
    let (folder, began) = (tempfile::tempdir().unwrap(), Instant::now());
    let world = World {
        clock: Clock { path: folder.path().join("clock"), began, days: AtomicU64::new(0) },
        home,
        settings,
        healthy: Mutex::default(),
        read: Mutex::default(),
        wrong: Mutex::default(),
        over: AtomicBool::new(false),
        turns: AtomicUsize::new(0),
        bombs: bombs(),
        forgotten: Mutex::default(),
    };
    world.clock.tick();
    let mut steering = line("steers", FREE, "steers.txt");
    steering["requested_by"]["repo"] = HOSTILE.into();
    std::fs::write(world.home.path("buses/other/steers.txt"), HOSTILE).unwrap();
    std::fs::write(world.home.path("run/queue.jsonl"), format!("{steering}\n")).unwrap();
    let (mut service, page, said) = serve(&world);
    let process = service.0.id();
    let mut uses = Vec::new();
    std::thread::scope(|scope| {
        // Also when this thread panics, so that the others end.
        let _over = Over(&world.over);
        scope.spawn(|| world.pester(&page));
        scope.spawn(|| world.race());
        scope.spawn(|| {
            while !world.over.load(Ordering::Relaxed) {
                world.clock.tick();
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        scope.spawn(|| {
            for turn in 0.. {
                if world.over.load(Ordering::Relaxed) {
                    break;
                }
                world.operate(turn);
                world.turns.store(turn + 1, Ordering::Relaxed);
                std::thread::sleep(Duration::from_secs(if deep { 20 } else { 1 }));
            }
        });
        let is_enough = || {
            let is_told = !world.wrong.lock().unwrap().is_empty();
            is_told || began.elapsed() >= lasts && world.turns.load(Ordering::Relaxed) > 0
        };
        for round in 0_usize.. {
            // A slow machine gets as much as it can do, and no heap of work that grows.
            while world.look() > BACKLOG {
                std::thread::sleep(Duration::from_millis(500));
                uses.push(Use::of(process));
            }
            if is_enough() {
                break;
            }
            for number in 0..5 {
                let id = format!("good-{round}-{number}");
                let text = format!(
                    "Import {id} failed because the disk was full. Ana moved volume {round}."
                );
                world.ask(&id, &text);
            }
            world.harm(round, &bad);
            uses.push(Use::of(process));
            std::thread::sleep(Duration::from_millis(if deep { 1_000 } else { 300 }));
        }
    });
    // Work that began last ends too.
    while world.look() > 0 {
        let ended = service.0.try_wait().unwrap();
        assert_eq!(ended, None, "the service ended: {:#?}", said.lock().unwrap());
        world.clock.tick();
        std::thread::sleep(Duration::from_millis(200));
    }
    let wrong = world.wrong.lock().unwrap();
    assert!(wrong.is_empty(), "{wrong:#?}");
    let healthy = world.healthy.lock().unwrap();
    let mut took: Vec<Duration> = Vec::new();
    for asked in healthy.values() {
        let (after, ack) = asked.ended.as_ref().unwrap();
        assert_eq!(ack["status"], "completed", "{ack}");
        took.push(*after);
    }
    took.sort();
    let rested = Use::of(process);
    assert_eq!(service.terminate(), Some(0), "it stops in order");
    let quarter = uses.len() / 4;
    let (early, late) = (&uses[quarter..quarter * 2], &uses[quarter * 3..]);
    let told = format!("early {:?}, late {:?}, at rest {rested:?}", early[0], late[late.len() - 1]);
    let turns = world.turns.load(Ordering::Relaxed);
    println!(
        "{} healthy requests, the middle one in {:?} and the slowest in {:?}; {turns} turns of a person; {told}",
        took.len(),
        took[took.len() / 2],
        took[took.len() - 1]
    );
    // A short run still fills its caches.
    let slack = if deep { 32 << 20 } else { 128 << 20 };
    let bytes = |moments| median(moments, |one: &Use| one.resident_bytes);
    assert!(bytes(late) <= bytes(early) + bytes(early) / 5 + slack, "memory: {told}");
    let descriptors = |moments| median(moments, |one: &Use| one.descriptors);
    assert!(descriptors(late) <= descriptors(early) + 8, "descriptors: {told}");
    let threads = |moments| median(moments, |one: &Use| one.threads);
    assert!(threads(late) <= threads(early) + 4, "threads: {told}");
    let of_workers = |moments| median(moments, |one: &Use| one.worker_bytes);
    let allowed = of_workers(early) + of_workers(early) / 5 + slack;
    assert!(of_workers(late) <= allowed, "memory of workers: {told}");
    // One that ends and the one that takes its place may be there at the same time.
    let most = uses.iter().map(|one| one.workers).max().unwrap();
    assert!((1..=2 * WORKERS).contains(&most), "{most} workers");
    let largest = uses.iter().map(|one| one.largest_worker).max().unwrap();
    assert!(largest <= WORKER_BYTES_MAX, "a worker of {largest} bytes");
    // `verify` tells of links that lead out, as it should.
    for name in ["pipe.txt", "zero.txt", "out.txt", "round.txt", "racing.txt"] {
        std::fs::remove_file(world.home.path("buses/other").join(name)).unwrap();
        let text = if name == "racing.txt" { "The road is long." } else { "a text" };
        std::fs::write(world.home.path("buses/other").join(name), text).unwrap();
    }
    // Damaged caches cost time and no byte of what is published.
    let published = || {
        let files = world.home.files().into_iter();
        let files = files
            .filter(|(name, _)| name.starts_with("buses/summaries/") && name.ends_with(".jsonl"));
        files.collect::<BTreeMap<String, Vec<u8>>>()
    };
    let before = published();
    for args in [["export", "--repair"].as_slice(), &["replay", "--verify"], &["verify"]] {
        let ran = world.run(args);
        assert!(ran.status.success(), "{args:?}: {ran:?}");
    }
    assert!(!before.is_empty(), "something is published");
    assert!(before == published(), "a repair changed what is published");
    // Nothing holds the word outside the bus, and nothing a word that was forgotten.
    let files = world.home.files();
    let own = |name: &str| name.starts_with("buses/other/") || name == "secret.txt";
    let files = files.iter().filter(|(name, _)| !own(name));
    let bodies: Vec<Vec<u8>> = world.home.events().into_iter().filter_map(|one| one.1).collect();
    let places = files.map(|(name, bytes)| (name.as_str(), bytes));
    let places = places.chain(bodies.iter().map(|body| ("the log", body)));
    let words = [world.forgotten.lock().unwrap().clone(), vec![SECRET.to_owned()]].concat();
    assert!(words.len() > 1, "something was forgotten");
    for (name, bytes) in places {
        for word in &words {
            assert!(!holds(bytes, word), "{word} is in {name}");
        }
    }
}
