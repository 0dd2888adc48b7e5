//! Real file systems that lose their power while files are published.
//!
//! A home lies on a file system in an image. While a command publishes, it is stopped at any moment and the image is
//! copied: what the file system had not written is not in the copy. Each copy is mounted, which replays its journal, and
//! what it shows must be whole. The home has summaries of several streams, and the publications that are cut change
//! one of them: the names of the others must not go. The test needs the right to mount and says so where it is missing.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test stops at the first surprise"
)]

mod support;

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::Signal;
use serde_json::json;
use support::process::{ProcessHome, Ran};
use support::requests::{lines, request};
use support::running::{Running, signal, test_now};

/// File systems with the arguments that make one, the size of the image in MiB, and what mounts a copy.
const SYSTEMS: [(&str, &[&str], u64, &str); 3] = [
    ("ext4", &["-q", "-F"], 192, "loop"),
    ("xfs", &["-q", "-f"], 320, "loop,nouuid"),
    ("btrfs", &["-q", "-f"], 256, "loop"),
];
/// How often a copy is tried until nothing was written meanwhile.
const TRIES: usize = 40;

/// A mounted image.
struct Mounted(PathBuf);

impl Mounted {
    fn new(image: &Path, at: &Path, how: &str) -> Result<Mounted, String> {
        run("mount", &["-o", how, &text(image), &text(at)])?;
        Ok(Mounted(at.to_owned()))
    }

    /// The name of its device, such as `loop3`.
    fn device(&self) -> String {
        let mounts = std::fs::read_to_string("/proc/mounts").unwrap();
        let line = mounts.lines().find(|line| line.split(' ').nth(1) == Some(&text(&self.0)));
        line.unwrap().split(' ').next().unwrap().trim_start_matches("/dev/").to_owned()
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = run("umount", &["-l", &text(&self.0)]);
    }
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn run(program: &str, args: &[&str]) -> Result<(), String> {
    let out = Command::new(program).args(args).output().map_err(|error| error.to_string())?;
    match out.status.success() {
        true => Ok(()),
        false => Err(format!("{program}: {}", String::from_utf8_lossy(&out.stderr).trim())),
    }
}

/// Makes a file system in an image and mounts it.
fn made(system: usize, image: &Path, at: &Path) -> Result<Mounted, String> {
    let (name, args, mib, _) = SYSTEMS[system];
    std::fs::File::create(image).unwrap().set_len(mib << 20).unwrap();
    run(&format!("mkfs.{name}"), &[args, &[&*text(image)]].concat())?;
    Mounted::new(image, at, "loop")
}

/// The writes of a device that ended, and those under way.
fn writes(device: &str) -> (String, String) {
    let stat = std::fs::read_to_string(format!("/sys/block/{device}/stat")).unwrap();
    let field = |at: usize| stat.split_whitespace().nth(at).unwrap_or_default().to_owned();
    (field(4), field(8))
}

/// Copies the image at one moment: a copy during which something was written is made again.
fn cut(device: &str, image: &Path, to: &Path) -> bool {
    (0..TRIES).any(|_| {
        let before = writes(device);
        run("cp", &["--sparse=always", &text(image), &text(to)]).unwrap();
        let is_one_moment = before.1 == "0" && writes(device) == before;
        if !is_one_moment {
            std::thread::sleep(Duration::from_millis(5));
        }
        is_one_moment
    })
}

/// The home on the image, which has the files of the demo.
const HOME: &str = "demo";
const FLOW: &str = "docs.chunk_set.summarize.brief.v1";

/// Publishes some notes, and copies the image at several moments of it.
fn publish(home: &ProcessHome, round: usize, cuts: usize, mut take: impl FnMut() -> bool) -> usize {
    let demo = home.path(HOME);
    let ids: Vec<String> = (0..4).map(|number| format!("note-{round}-{number}")).collect();
    for id in &ids {
        let said = format!("The boat {id} leaves on Monday. Ana pays for the ropes before noon.");
        std::fs::write(demo.join(format!("buses/other/{id}.txt")), said).unwrap();
    }
    let asked: Vec<_> = ids.iter().map(|id| request(id, FLOW, json!({}))).collect();
    let queue = std::fs::OpenOptions::new().append(true).open(demo.join("run/queue.jsonl"));
    queue.unwrap().write_all(&lines(&asked)).unwrap();
    // What a person wrote is durable; what the program writes is its own care.
    run("sync", &["-f", &text(home.root())]).unwrap();
    let mut running = Running::start(home, &["--home", &text(&demo), "drain"]);
    let mut taken = 0;
    for number in 0..cuts {
        // Different moments in each round.
        std::thread::sleep(Duration::from_millis(7 + ((round * 13 + number * 29) % 60) as u64));
        if running.0.try_wait().unwrap().is_some() {
            break;
        }
        signal(&running.0, Signal::STOP);
        taken += usize::from(take());
        signal(&running.0, Signal::CONT);
    }
    assert!(running.wait().unwrap().success());
    taken + usize::from(take())
}

/// The published files of the streams that the cut publications do not change.
fn other_streams(home: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    for folder in ["events", "sessions", "chunk_sets", "manifest"] {
        let folder = home.join("buses/summaries").join(folder);
        for entry in std::fs::read_dir(&folder).into_iter().flatten() {
            let path = entry.unwrap().path();
            let bytes = std::fs::read(&path).unwrap();
            if !text(&path).contains(".documents.") {
                files.insert(path.strip_prefix(home).unwrap().to_owned(), bytes);
            }
        }
    }
    files
}

fn command(home: &Path, args: &[&str]) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_summarizer"));
    command.env_clear().env("SUMMARIZER_HOME", home).env("SUMMARIZER_TEST_NOW", test_now());
    let ran = Ran::of(command.args(args).stdin(Stdio::null()).output().unwrap());
    assert_eq!(ran.exit, Some(0), "{args:?}\n{}\n{}", ran.out, ran.err);
}

#[test]
fn what_a_cut_image_shows_is_whole() {
    let is_deep = support::deep();
    let (systems, rounds, cuts) = if is_deep { (SYSTEMS.len(), 12, 6) } else { (1, 3, 4) };
    for (system, (name, _, _, how)) in SYSTEMS.iter().enumerate().take(systems) {
        let around = tempfile::tempdir().unwrap();
        let image = around.path().join("image");
        let mut mounted = Err("it was not tried".to_owned());
        let home = ProcessHome::prepared(|dir| mounted = made(system, &image, dir));
        let mounted = match mounted {
            Ok(mounted) => mounted,
            Err(why) => {
                // Written past the capture of the harness, so that a skipped test is visible.
                let told = format!("!! LEFT OUT: no image of {name} can be cut: {why}");
                let _ = writeln!(std::io::stderr().lock(), "{told}");
                continue;
            }
        };
        home.expect(0, &["demo", &text(&home.path(HOME))]);
        let others = other_streams(&home.path(HOME));
        assert!(others.len() >= 6, "{:?}", others.keys());
        let device = mounted.device();
        let mut copies = Vec::new();
        for round in 0..rounds {
            publish(&home, round, cuts, || {
                let copy = around.path().join(format!("copy-{}", copies.len()));
                let is_taken = cut(&device, &image, &copy);
                copies.extend(is_taken.then_some(copy));
                is_taken
            });
        }
        drop(mounted);
        assert!(copies.len() >= rounds, "{name}: {} copies", copies.len());
        for copy in &copies {
            let place = tempfile::tempdir().unwrap();
            let mounted = Mounted::new(copy, place.path(), how).unwrap();
            let demo = place.path().join(HOME);
            let found = other_streams(&demo);
            for (path, bytes) in &others {
                assert_eq!(found.get(path), Some(bytes), "{name}: {}", path.display());
            }
            command(&demo, &["verify"]);
            command(&demo, &["drain"]);
            command(&demo, &["verify"]);
            command(&demo, &["log", "verify"]);
            drop(mounted);
        }
    }
}
