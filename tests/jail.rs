//! What a Python node can reach. Each attempt runs twice, in the jail and without it: without it each one
//! succeeds, so a test that proves nothing is noticed.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test stops at a surprise")]

mod support;

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Stdio;

use serde_json::Value;
use support::process::{ProcessHome, Ran};
use support::running::{Running, has_python, until};

const FLOW: &str = "inputs:\n  place: {type: string}\noutputs:\n  o: {type: string, reference: '${n.output}'}\nnodes:\n- {name: n, type: python, source: {type: code, path: n.py}, inputs: {place: '${inputs.place}'}}\n";

/// Runs a node whose body is given; it sees the folder of the test as `place`.
fn node(home: &ProcessHome, settings: &str, body: &str) -> Ran {
    let pack = home.path("pack");
    std::fs::create_dir_all(&pack).unwrap();
    let body: String = body.lines().map(|line| format!("    {line}\n")).collect();
    let program = format!("from promptflow.core import tool\n@tool\ndef n(place: str):\n{body}");
    std::fs::write(pack.join("flow.dag.yaml"), FLOW).unwrap();
    std::fs::write(pack.join("n.py"), program).unwrap();
    std::fs::write(pack.join("beside.txt"), "from the pack").unwrap();
    std::fs::write(home.path("secret.txt"), "the secret").unwrap();
    std::fs::write(home.path("summarizer.toml"), format!("[python]\nallow = true\n{settings}"))
        .unwrap();
    let inputs = home.path("inputs.json");
    std::fs::write(&inputs, serde_json::json!({"place": home.root()}).to_string()).unwrap();
    let arguments =
        ["flow", "run", pack.to_str().unwrap(), "--input", inputs.to_str().unwrap(), "--json"];
    let mut command = home.command(&arguments);
    command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command.env("HOME", std::env::var_os("HOME").unwrap_or_default());
    command.env("API_KEY_OF_A_PROVIDER", "sk-not-for-nodes");
    Ran::of(command.output().unwrap())
}

fn output(ran: &Ran) -> Result<String, String> {
    if ran.exit != Some(0) {
        return Err(ran.err.clone());
    }
    let value: Value = serde_json::from_str(&ran.out).unwrap();
    Ok(value["flow_outputs"]["o"].as_str().unwrap_or_else(|| panic!("{}", ran.out)).to_owned())
}

/// The kernel gives the files of such a process below `/proc` to root, so that no process of its user reads its memory.
#[test]
fn no_other_process_of_the_same_user_reads_the_memory_of_a_command() {
    /// A user who is not root, where the test runs as root.
    const NOBODY: u32 = 65_534;
    let home = ProcessHome::new();
    let mut command = home.command(&["serve"]);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    if rustix::process::getuid().is_root() {
        for path in [home.root().to_owned(), home.path("run"), home.path("buses")] {
            std::fs::create_dir_all(&path).unwrap();
            chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
        }
        command.uid(NOBODY).gid(NOBODY);
    }
    let service = match command.spawn() {
        Ok(service) => Running(service),
        Err(error) => {
            println!("LEFT OUT: another user cannot start the program here: {error}");
            return;
        }
    };
    let owner = || std::fs::metadata(format!("/proc/{}/mem", service.0.id())).unwrap().uid();
    until("a process that its user cannot read", || owner() == 0);
    // It was no moment between two others.
    until("the service", || home.path("run/summarizer.redb").exists());
    assert_eq!(owner(), 0);
    assert_eq!(service.terminate(), Some(0));
}

#[test]
fn a_node_reaches_nothing_beyond_its_pack() {
    if !has_python() {
        return;
    }
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let connect = format!(
        "import socket\nsocket.create_connection(('127.0.0.1', {port}), 2).close()\nreturn 'connected'"
    );
    let of_parent = |body: &str| format!("import os, resource\n{body}\nreturn 'done'");
    let attempts: [(&str, &str); 13] = [
        ("give rights", "import os\nos.chmod(place + '/secret.txt', 0o644)\nreturn 'done'"),
        (
            "give rights to an open file",
            "import os\nos.fchmod(os.open('beside.txt', 0), 0o644)\nreturn 'done'",
        ),
        (
            "give a file away",
            "import os\nos.chown(place + '/secret.txt', os.getuid(), os.getgid())\nreturn 'done'",
        ),
        ("change a time", "import os\nos.utime(place + '/secret.txt', (1, 1))\nreturn 'done'"),
        (
            "limit another process",
            &of_parent("resource.prlimit(os.getppid(), resource.RLIMIT_CORE, (0, 0))"),
        ),
        (
            "slow another process",
            &of_parent(
                "os.setpriority(os.PRIO_PROCESS, os.getppid(), os.getpriority(os.PRIO_PROCESS, 0))",
            ),
        ),
        (
            "move another process",
            &of_parent("os.sched_setaffinity(os.getppid(), os.sched_getaffinity(0))"),
        ),
        ("read a file of the home", "return open(place + '/secret.txt').read()"),
        ("list the home", "import os\nreturn ' '.join(os.listdir(place))"),
        ("write a file", "open(place + '/new.txt', 'w').write('x')\nreturn 'written'"),
        ("change its pack", "open(place + '/pack/n.py', 'a').write('#')\nreturn 'changed'"),
        ("use the network", &connect),
        (
            "leave its process group",
            "import os\npid = os.fork()\nif pid == 0:\n    try:\n        os.setsid()\n        os._exit(0)\n    except OSError:\n        os._exit(1)\nif os.waitpid(pid, 0)[1]: raise OSError('it stayed')\nreturn 'left'",
        ),
    ];
    for (what, body) in attempts {
        let home = ProcessHome::new();
        let free = output(&node(&home, "jail = false", body));
        assert!(free.is_ok(), "{what} does not work without the jail: {free:?}");
        let held = output(&node(&home, "", body));
        let refused = held.as_ref().err().filter(|error| {
            ["Permission denied", "not permitted", "it stayed"]
                .iter()
                .any(|word| error.contains(word))
        });
        assert!(refused.is_some(), "{what}: {held:?}");
    }
}

#[test]
fn a_node_does_its_work_in_the_jail() {
    if !has_python() {
        return;
    }
    let home = ProcessHome::new();
    let body = "import asyncio, json, os, subprocess, sys, tempfile, zoneinfo\n\
                with tempfile.NamedTemporaryFile('w+', delete=False) as file:\n    file.write('kept'); name = file.name\n\
                said = subprocess.run([sys.executable, '-c', 'print(6 * 7)'], capture_output=True, text=True).stdout.strip()\n\
                async def one(): return 1\n\
                beside = open('beside.txt').read()\n\
                return f\"{open(name).read()} {said} {asyncio.run(one())} {beside} {os.environ.get('API_KEY_OF_A_PROVIDER')}\"";
    let said = output(&node(&home, "", body)).unwrap();
    assert_eq!(said, "kept 42 1 from the pack None");
    // Libraries make locks between processes when they are imported.
    // Its own limits are its own.
    let body = "import resource\nresource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))\nreturn str(resource.getrlimit(resource.RLIMIT_NOFILE))";
    assert_eq!(output(&node(&home, "", body)).unwrap(), "(64, 64)");
    let body = "import multiprocessing\nfrom multiprocessing import Lock\nwith Lock(), multiprocessing.get_context().RLock(), multiprocessing.Semaphore(2):\n    return 'held'";
    assert_eq!(output(&node(&home, "", body)).unwrap(), "held");
    let network =
        node(&home, "network = true", "import socket\nsocket.socket().close()\nreturn 'socket'");
    assert_eq!(output(&network).unwrap(), "socket");
}

#[test]
fn a_node_that_takes_all_memory_fails_by_itself() {
    if !has_python() {
        return;
    }
    let home = ProcessHome::new();
    let body = "held = []\nwhile True:\n    held.append(bytearray(1 << 24))";
    let ended = output(&node(&home, "memory_max = \"400 MiB\"", body)).unwrap_err();
    assert!(ended.contains("MemoryError") || ended.contains("node n"), "{ended}");
}

#[test]
fn only_the_owner_can_read_what_a_home_holds() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("home");
    let text = dir.path().join("note.txt");
    std::fs::write(&text, "The lease ends on 31 March. The rent is 720 EUR a month from then on.")
        .unwrap();
    let ran = |args: &[&str]| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_summarizer"));
        command.env_clear().args(["--home", root.to_str().unwrap(), "--quiet"]).args(args);
        let ran = Ran::of(command.output().unwrap());
        assert_eq!(ran.exit, Some(0), "{args:?}\n{}\n{}", ran.out, ran.err);
    };
    ran(&["add", "--init", text.to_str().unwrap()]);
    ran(&["digest", "build"]);
    ran(&["doctor"]);
    let mut count = 0;
    let mut left = vec![root.clone()];
    while let Some(path) = left.pop() {
        let meta = std::fs::symlink_metadata(&path).unwrap();
        if meta.is_symlink() {
            continue;
        }
        assert_eq!(meta.permissions().mode() & 0o077, 0, "{}", path.display());
        count += 1;
        if meta.is_dir() {
            left.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
    }
    assert!(count > 20, "the home holds only {count} files");
    let manual = dir.path().join("man");
    ran(&["man", "--out", manual.to_str().unwrap()]);
    let page = first_file(&manual);
    let mode = std::fs::metadata(&page).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o644, "{}", page.display());
}

fn first_file(folder: &Path) -> std::path::PathBuf {
    std::fs::read_dir(folder).unwrap().next().unwrap().unwrap().path()
}
