//! Homes that were copied, moved or left alone for a while: no line is taken in twice.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;

use crate::server::Servers;
use crate::serving::{Host, wait_for};
use crate::watching::{ask, done, ends, has_role, url_of};

/// The exit code and what it says.
fn fails(host: &Host, args: &[&str]) -> (i32, String) {
    let ran = host.command(args).output().unwrap();
    let told = [ran.stdout, ran.stderr].concat();
    (ran.status.code().unwrap(), String::from_utf8_lossy(&told).into_owned())
}

/// Copies the folder of a home to that of another host, which keeps its settings.
fn copy_home(from: &Host, to: &Host) {
    let settings = std::fs::read(to.home.path("summarizer.toml")).unwrap();
    let source = format!("{}/.", from.home.path("").display());
    let copied = Command::new("cp").args(["-a", &source]).arg(to.home.path("")).status().unwrap();
    assert!(copied.success());
    std::fs::write(to.home.path("summarizer.toml"), settings).unwrap();
}

/// The file gets another inode.
fn replace_by_copy(path: &Path) {
    let beside = path.with_extension("copy");
    std::fs::copy(path, &beside).unwrap();
    std::fs::rename(beside, path).unwrap();
}

fn queue_of(host: &Host) -> std::path::PathBuf {
    ["run/queue.jsonl", "queue.jsonl"]
        .map(|name| host.home.path(name))
        .into_iter()
        .find(|path| path.exists())
        .unwrap()
}

/// Why its lines wait.
fn waits(host: &Host) -> Option<String> {
    let status = host.json(&["status"])?;
    status["cluster"]["unshipped"]["message"].as_str().map(str::to_owned)
}

fn acks_by_id(host: &Host) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for ack in host.home.acks() {
        let id = ack["request_id"].as_str().unwrap_or_default().to_owned();
        *counts.entry(id).or_default() += 1;
    }
    counts
}

#[test]
fn a_copied_home_takes_no_line_in_again() {
    let Some(servers) = Servers::start(0) else { return };
    let url = url_of(&servers);
    let (mut a, mut b) = (Host::new("a", &url), Host::new("b", &url));
    let settings = std::fs::read(a.home.path("summarizer.toml")).unwrap();

    // A home that has its log alone, with a request that failed.
    std::fs::write(a.home.path("summarizer.toml"), "").unwrap();
    ask(&a, "one", &[&a]);
    ask(&a, "failed", &[]);
    let _ = a.command(&["drain"]).output().unwrap();
    assert_eq!(ends(&a, "failed"), "rejected_invalid_input");
    copy_home(&a, &b);
    std::fs::write(a.home.path("summarizer.toml"), settings).unwrap();
    a.json(&["cluster", "init"]).unwrap();
    a.serve();
    has_role(&a, "leader");
    // Both queues grow.
    ask(&a, "later", &[&a]);
    assert_eq!(ends(&a, "later"), "completed");
    ask(&b, "new", &[&a, &b]);
    let before = acks_by_id(&a);

    let (code, told) = fails(&b, &["cluster", "join"]);
    assert!(
        code == 3 && told.contains("are lines of the queue of the host that had the log alone"),
        "{told}"
    );
    b.serve();
    let told = wait_for("it says that its queue is a copy", || waits(&b));
    assert!(told.contains("are lines of the queue of the host that had the log alone"), "{told}");
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(acks_by_id(&a), before, "nothing was taken in again");

    // It leads all the same when it must, and says why its own lines wait.
    a.end(Signal::TERM);
    has_role(&b, "leader");
    let told = wait_for("it says it as the leader too", || waits(&b));
    assert!(told.contains("Move it away"), "{told}");
    a.serve();
    has_role(&a, "follower");
    ask(&a, "shipped", &[&a, &b]);
    assert_eq!(ends(&b, "shipped"), "completed");

    // The advice helps.
    b.end(Signal::TERM);
    has_role(&a, "leader");
    let queue = queue_of(&b);
    std::fs::rename(&queue, queue.with_extension("aside")).unwrap();
    done(&b, &["cluster", "join"]);
    b.serve();
    ask(&b, "new", &[&a, &b]);
    assert_eq!(ends(&a, "new"), "completed");
    assert_eq!(waits(&b), None);
    assert!(a.outcomes().values().all(|count| *count == 1), "{:?}", a.outcomes());

    // A home that was moved to another disk, under the same name, continues once a person says so.
    b.end(Signal::TERM);
    replace_by_copy(&queue);
    b.serve();
    ask(&b, "moved", &[&a, &b]);
    let told = wait_for("it says that the file is another one", || waits(&b));
    assert!(told.contains("replaced") && told.contains("queue adopt"), "{told}");
    b.end(Signal::TERM);
    done(&b, &["queue", "adopt"]);
    let again = done(&b, &["queue", "adopt"]);
    assert!(again.contains("nothing to adopt"), "{again}");
    b.serve();
    assert_eq!(ends(&a, "moved"), "completed");
    assert!(a.outcomes().values().all(|count| *count == 1), "{:?}", a.outcomes());
    // Other bytes are no queue of this host any more.
    b.end(Signal::TERM);
    std::fs::write(&queue, "{}\n").unwrap();
    let (code, told) = fails(&b, &["queue", "adopt"]);
    assert!(code == 3 && told.contains("cluster.host"), "{told}");
}

#[test]
fn a_host_leaves_for_good_and_says_what_it_cannot_check() {
    let Some(servers) = Servers::start(0) else { return };
    let url = url_of(&servers);
    let (mut a, mut b) = (Host::new("a", &url), Host::new("b", &url));
    a.json(&["cluster", "init"]).unwrap();
    a.serve();
    has_role(&a, "leader");
    ask(&a, "first", &[&a]);
    assert_eq!(ends(&a, "first"), "completed");
    done(&a, &["forget", "first.txt"]);
    has_role(&a, "leader");
    // A host that joins gets a log without it, and has nothing to forget.
    done(&b, &["cluster", "join"]);
    let status = a.json(&["cluster", "status"]).unwrap();
    assert_eq!(status["not_forgotten"], serde_json::json!([]), "{status}");
    b.serve();
    has_role(&b, "follower");

    // A line and a text that only the other host has.
    ask(&b, "there", &[&b]);
    assert_eq!(ends(&a, "there"), "completed");
    let links = |host: &Host| {
        let explained = host.json(&["explain", "there", "--verify"])?;
        let links = explained["links"].as_array()?.clone();
        let is_broken = links.iter().any(|link| link["standing"] == "broken");
        (!is_broken).then(|| serde_json::json!(links).to_string())
    };
    let told = wait_for("nothing is broken there", || links(&a));
    assert!(told.contains("another host"), "{told}");
    let told = wait_for("nothing is broken here", || links(&b));
    assert!(!told.contains("another host"), "{told}");
    let status = a.json(&["cluster", "status"]).unwrap();
    let shipped: Vec<_> =
        status["hosts"].as_array().unwrap().iter().map(|host| &host["shipped"]).collect();
    assert!(shipped[0].is_null() && shipped[1].as_u64() > Some(0), "{status}");

    let (code, told) = fails(&a, &["cluster", "leave", "b"]);
    assert!(code == 4 && told.contains("would join again"), "{told}");
    b.end(Signal::TERM);
    done(&a, &["cluster", "leave", "b"]);
    // Alone for a while, and back again.
    let settings = std::fs::read(b.home.path("summarizer.toml")).unwrap();
    std::fs::write(b.home.path("summarizer.toml"), "").unwrap();
    ask(&b, "alone", &[&b]);
    let _ = b.command(&["drain"]).output().unwrap();
    assert_eq!(ends(&b, "alone"), "completed");
    std::fs::write(b.home.path("summarizer.toml"), settings).unwrap();
    let (code, told) = fails(&b, &["cluster", "join"]);
    assert!(code == 6 && told.contains("cannot come back"), "{told}");
    let status = a.json(&["cluster", "status"]).unwrap();
    assert_eq!(status["hosts"].as_array().unwrap().len(), 1, "{status}");

    // What an administrator runs by hand.
    let script = done(&a, &["cluster", "init", "--print", "--role", "team\"host"]);
    assert!(script.contains("GRANT summarizer_host TO \"team\"\"host\";"), "{script}");
    assert!(script.contains("VALUES ('team', 'team\"host')"), "{script}");
}
