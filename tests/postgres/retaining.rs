//! What one host moves away or drops because it is old, all hosts do.

use std::collections::BTreeMap;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::server::Servers;
use crate::serving::{Host, wait_for};
use crate::support::requests::{ACTIVE, making, request};

const RETENTION: &str = "[retention]\nacks_after = \"30 d\"\nanswers_after = \"30 d\"\ndaily = true\n\
    [compaction]\narchive_after = \"30 d\"\n[digest]\nauto = \"off\"\n";

/// The acks of a home: the file, and what was moved away.
fn acks(host: &Host) -> BTreeMap<String, Vec<u8>> {
    let moved = std::fs::read_dir(host.home.path("run/archive")).into_iter().flatten().flatten();
    let moved = moved.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut found: BTreeMap<String, Vec<u8>> = moved
        .filter(|name| name.ends_with(".jsonl"))
        .map(|name| (name.clone(), host.home.read(&format!("run/archive/{name}"))))
        .collect();
    found.insert("now".to_owned(), host.home.read("run/ack.jsonl"));
    found
}

fn has_ended(host: &Host, id: &str) -> bool {
    host.home.acks().iter().any(|ack| ack["request_id"] == id && ack["status"] == "completed")
}

struct Pair {
    hosts: [Host; 2],
    clocks: [std::path::PathBuf; 2],
}

impl Pair {
    fn set(&self, now: &str) {
        for (host, clock) in self.hosts.iter().zip(&self.clocks) {
            std::fs::write(host.home.path("next"), now).unwrap();
            std::fs::rename(host.home.path("next"), clock).unwrap();
        }
    }

    /// Asks for a summary on the first host, and waits until both have it.
    fn ask(&self, id: &str) {
        for host in &self.hosts {
            host.home.note(&format!("{id}.txt"), &format!("Notes about {id}. They are short."));
        }
        let line = making(request(id, ACTIVE, json!({})), id);
        self.hosts[0].home.append(format!("{line}\n").as_bytes());
        wait_for("both hosts have the ack", || {
            self.hosts.iter().all(|host| has_ended(host, id)).then_some(())
        });
    }

    fn last(&self, at: usize) -> Value {
        let status = self.hosts[at].json(&["status"]).unwrap_or_default();
        status["retention"]["last"].clone()
    }

    fn become_the_same(&self) {
        wait_for("both hosts have the same acks", || {
            let [first, second] = [0, 1].map(|at| acks(&self.hosts[at]));
            (first == second && first.len() == 2).then_some(())
        });
    }
}

#[test]
fn what_is_old_goes_on_all_hosts() {
    let Some(servers) = Servers::start(0) else { return };
    let url = servers.url(&[servers.port(0)], "postgres:secret-word");
    // The host that leads decides.
    let mut hosts = [Host::with("a", &url, RETENTION), Host::new("b", &url)];
    let clocks = [0, 1].map(|at| hosts[at].home.path("now"));
    for (host, clock) in hosts.iter_mut().zip(&clocks) {
        host.clock = Some(clock.clone());
    }
    let mut pair = Pair { hosts, clocks };
    pair.set("2026-01-10T00:00:00Z");
    pair.hosts[0].json(&["cluster", "init"]).unwrap();
    pair.hosts[1].json(&["cluster", "join"]).unwrap();
    pair.hosts[0].serve();
    wait_for("a leads", || (pair.hosts[0].role()? == "leader").then_some(()));
    pair.hosts[1].serve();
    wait_for("b follows", || (pair.hosts[1].role()? == "follower").then_some(()));
    pair.ask("old");
    pair.set("2026-04-11T00:00:01Z");
    for at in [0, 1] {
        wait_for("the ages are applied", || (pair.last(at)["by"] == "service").then_some(()));
    }
    assert_eq!(pair.last(0), pair.last(1));
    assert!(pair.last(1)["acks"]["moved"].as_u64().unwrap() > 0, "{}", pair.last(1));
    assert!(pair.last(1)["frames"]["records"].as_u64().unwrap() > 0, "{}", pair.last(1));
    pair.become_the_same();
    pair.ask("new");
    assert!(!has_ended(&pair.hosts[1], "old"));

    // A file that a crash kept from being written is written at the next start.
    pair.hosts[1].end(Signal::KILL);
    let archive = pair.hosts[1].home.path("run/archive");
    for entry in std::fs::read_dir(&archive).unwrap().flatten() {
        if entry.file_name().to_string_lossy().ends_with(".jsonl") {
            std::fs::remove_file(entry.path()).unwrap();
        }
    }
    pair.hosts[1].serve();
    pair.become_the_same();

    // The work goes on, also when the other host leads.
    pair.ask("third");
    pair.hosts[1].json(&["cluster", "promote", "b"]).unwrap();
    pair.ask("fourth");
    pair.become_the_same();
    for host in &mut pair.hosts {
        host.end(Signal::TERM);
    }
    for host in &pair.hosts {
        host.json(&["cluster", "join"]).unwrap();
        assert_eq!(host.json(&["cluster", "verify"]).unwrap()["ok"], true);
        for args in [["log", "verify"].as_slice(), &["replay", "--verify"], &["doctor", "--deep"]] {
            let ran = host.command(args).output().unwrap();
            let told = String::from_utf8_lossy(&ran.stdout).into_owned();
            assert_eq!(ran.status.code(), Some(0), "{} {args:?}: {told}", host.name);
        }
    }
    pair.become_the_same();
}
