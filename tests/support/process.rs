//! Homes of a real process: made in a temporary directory, with a registry of their own, and the
//! built program run on them with an empty environment and a clock of the tests.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use super::auditor::{Evidence, Verdict, audit};
use super::requests::{ACTIVE, DEPRECATED, DISABLED};
pub use super::running::{Running, test_now};

pub struct ProcessHome {
    pub dir: tempfile::TempDir,
}

/// The pack the test flows are made of.
const PACK: &str = "docs.chunk_set.summarize.brief.v1";

/// Whether a command is a plain drain.
pub fn is_drain(args: &[&str]) -> bool {
    args.contains(&"drain") && !args.contains(&"--fail-on-error")
}

impl ProcessHome {
    /// A home with three flows: active, deprecated, disabled.
    pub fn new() -> ProcessHome {
        ProcessHome::prepared(|_| {})
    }

    /// The same, after something was done to its empty folder.
    pub fn prepared(prepare: impl FnOnce(&Path)) -> ProcessHome {
        let dir = tempfile::tempdir().unwrap();
        prepare(dir.path());
        // As `init` makes it: `doctor` warns of a home that others can read.
        let private = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        std::fs::set_permissions(dir.path(), private).unwrap();
        let home = ProcessHome { dir };
        let registry = home.path("flow_registry");
        std::fs::create_dir_all(&registry).unwrap();
        std::fs::create_dir_all(home.path("run")).unwrap();
        std::fs::create_dir_all(home.path("buses/other")).unwrap();
        // A real pack under other names, so that the tests do not depend on the embedded dataset.
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("registry");
        let pack = source.join("packs").join(PACK);
        std::fs::create_dir_all(registry.join("packs/notes")).unwrap();
        for file in std::fs::read_dir(&pack).unwrap() {
            let file = file.unwrap();
            let target = registry.join("packs/notes").join(file.file_name());
            std::fs::copy(file.path(), target).unwrap();
        }
        let dataset = std::fs::read_to_string(source.join("registry.flow_packs.v1.jsonl")).unwrap();
        let original = dataset
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap())
            .find(|record| record["flow_id"] == PACK && record["variant"].is_null())
            .unwrap();
        let record = |flow: &str, status: &str| {
            let mut record = original.clone();
            record["flow_id"] = flow.into();
            record["status"] = status.into();
            record["pack_dir"] = "packs/notes".into();
            record
        };
        let records = [(ACTIVE, "active"), (DEPRECATED, "deprecated"), (DISABLED, "disabled")];
        let dataset: String =
            records.iter().map(|(flow, status)| format!("{}\n", record(flow, status))).collect();
        std::fs::write(registry.join("registry.flow_packs.v1.jsonl"), dataset).unwrap();
        home
    }

    pub fn root(&self) -> &Path {
        self.dir.path()
    }

    pub fn path(&self, relative: &str) -> PathBuf {
        self.dir.path().join(relative)
    }

    pub fn read(&self, relative: &str) -> Vec<u8> {
        std::fs::read(self.path(relative)).unwrap_or_default()
    }

    /// Writes a file of the `other` bus.
    pub fn note(&self, id: &str, text: &str) {
        std::fs::write(self.path("buses/other").join(id), text).unwrap();
    }

    pub fn append(&self, bytes: &[u8]) {
        use std::io::Write as _;
        let mut options = std::fs::OpenOptions::new();
        let mut queue =
            options.append(true).create(true).open(self.path("run/queue.jsonl")).unwrap();
        queue.write_all(bytes).unwrap();
    }

    /// The program on this home, without the environment of the test.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_summarizer"));
        command.env_clear().env("SUMMARIZER_HOME", self.root()).args(args);
        command.env("SUMMARIZER_TEST_NOW", test_now()).stdin(Stdio::null());
        command
    }

    pub fn run(&self, args: &[&str]) -> Ran {
        Ran::of(self.command(args).output().unwrap())
    }

    /// Runs and expects an exit code.
    pub fn expect(&self, exit: i32, args: &[&str]) -> Ran {
        let ran = self.run(args);
        // Requests may fail on purpose: then `drain` exits with 1.
        let fits = ran.exit == Some(exit) || (exit == 0 && ran.exit == Some(1) && is_drain(args));
        assert!(fits, "{:?} {args:?}\n{}\n{}", ran.exit, ran.out, ran.err);
        ran
    }

    /// Whether a service holds the home and is ready.
    pub fn answers(&self) -> bool {
        // Before it is ready it answers `starting`; before it holds the home, the command would take it.
        self.path("run/summarizer.sock").exists()
            && self.expect(0, &["status", "--json"]).json()["session"]["command"] == "serve"
    }

    pub fn acks(&self) -> Vec<Value> {
        let bytes = self.read("run/ack.jsonl");
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let lines = bytes[..whole].split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        lines.map(|line| serde_json::from_slice(line).unwrap()).collect()
    }

    pub fn audit(&self, finished: bool) -> Verdict {
        audit(&Evidence {
            queue: &self.read("run/queue.jsonl"),
            acks: &self.read("run/ack.jsonl"),
            quarantine: &self.read("run/quarantine.jsonl"),
            finished,
            steady_clock: true,
        })
    }

    /// Deletes both projections and lets the program make them again: the same bytes.
    pub fn check_projections(&self) {
        let names = ["run/ack.jsonl", "run/quarantine.jsonl"];
        let before = names.map(|name| self.read(name));
        names.iter().for_each(|name| std::fs::remove_file(self.path(name)).unwrap());
        self.expect(0, &["status", "--json"]);
        let after = names.map(|name| self.read(name));
        assert!(before == after, "the projections are not what the log says");
    }
}

pub struct Ran {
    pub exit: Option<i32>,
    pub out: String,
    pub err: String,
}

impl Ran {
    pub fn of(output: Output) -> Ran {
        Ran {
            exit: output.status.code(),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Standard output as one JSON value.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.out)
            .unwrap_or_else(|error| panic!("{error}: {}{}", self.out, self.err))
    }

    /// Standard output as JSON lines.
    pub fn json_lines(&self) -> Vec<Value> {
        self.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    pub fn says(&self, words: &[&str]) {
        let all = format!("{}{}", self.out, self.err);
        for word in words {
            assert!(all.contains(word), "{word:?} is missing in:\n{all}");
        }
    }
}

impl Running {
    /// A service or another long command on a home.
    pub fn start(home: &ProcessHome, args: &[&str]) -> Running {
        let mut command = home.command(args);
        // The output is not read, and a full pipe would block the process.
        Running(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }
}
