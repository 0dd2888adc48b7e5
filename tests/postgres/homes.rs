//! The commands of a cluster, with real homes and a real server.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;
use summarizer::cluster::following::{Attempt, Following};
use summarizer::cluster::postgres::{Access, Address, Durability, FORMAT, PostgresLog};
use summarizer::config::Config;
use summarizer::contract::time::Timestamp;
use summarizer::facts::session::PauseCause;
use summarizer::log::{Options, Store};
use summarizer::os::real::HostDisk;
use summarizer::sequencer::engine::{CheckpointWhen, Engine, EngineOptions};
use summarizer::sequencer::follower::Follower;

use crate::server::Servers;
use crate::vectors::member;

struct Host {
    name: &'static str,
    home: PathBuf,
    url: String,
}

impl Host {
    fn new(folder: &Path, name: &'static str, url: &str) -> Host {
        let host = Host { name, home: folder.join(name), url: url.to_owned() };
        host.done(&["init"]);
        host.shares("team");
        host
    }

    fn shares(&self, log: &str) {
        let settings = format!(
            "[cluster]\nurl_env = \"TEST_DATABASE\"\nname = \"{log}\"\nhost = \"{}\"\ndurability = \"single\"\n",
            self.name
        );
        std::fs::write(self.home.join("summarizer.toml"), settings).unwrap();
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_summarizer"));
        command.arg("--home").arg(&self.home).args(args).env("TEST_DATABASE", &self.url);
        command
    }

    fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    fn done(&self, args: &[&str]) -> String {
        let output = self.run(args);
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{args:?} on {}: {told}", self.name);
        String::from_utf8(output.stdout).unwrap()
    }

    fn json(&self, args: &[&str]) -> Value {
        let told = self.done(&[args, &["--json"]].concat());
        serde_json::from_str(&told).unwrap_or_else(|error| panic!("{error}: {told}"))
    }

    /// The exit code and what it says.
    fn fails(&self, args: &[&str]) -> (i32, String) {
        let output = self.run(args);
        let told = [output.stdout, output.stderr].concat();
        let told = String::from_utf8(told).unwrap();
        assert!(!told.contains("secret-word"), "{told}");
        (output.status.code().unwrap(), told)
    }

    /// Leads, and commits some events.
    fn leads(&self, log: &str, rounds: i64) {
        let address = Address::parse(&self.url, None).unwrap();
        let (log, host) = (log.to_owned(), self.name.to_owned());
        let bound = Duration::from_secs(10);
        let access = Access {
            address,
            log,
            host,
            start: None,
            rules: String::new(),
            forgotten: Arc::default(),
            roles: "lead".to_owned(),
            reads: FORMAT,
            durability: Durability::Single,
            bound,
        };
        let path = self.home.join("run/summarizer.redb");
        let disk = Arc::new(HostDisk);
        let store = Store::open(disk, &path, Options::beside(&path), [0; 16], &mut |_| {}).unwrap();
        let now = |at: i64| Timestamp(1_790_000_000_000 + at);
        let mut follower = Follower::open(store, now(0), &mut |_| {}).unwrap();
        let mut following = Following::new(PostgresLog::new(access).unwrap(), member(self.name, 1));
        let lease = Duration::from_millis(300);
        let leadership = loop {
            match following.try_to_lead(&mut follower, lease, Box::new(|| true)).unwrap() {
                Attempt::Leads(leadership) => break leadership,
                Attempt::Held(again) => following = again,
            }
            std::thread::sleep(Duration::from_millis(50));
        };
        let config = Config::load(None, &Default::default(), 1).unwrap();
        let (store, options) = (follower.into_store(), EngineOptions::of(&config));
        let opened = Engine::open_agreed(store, Box::new(leadership), options, now(0), &mut |_| {});
        let mut engine = opened.unwrap();
        for round in 0..rounds {
            engine.pause(PauseCause::Operator, round % 2 == 0, now(round)).unwrap();
            engine.commit(None, CheckpointWhen::Due, &[], now(round)).unwrap();
        }
        engine.commit(None, CheckpointWhen::Changed, &[], now(rounds)).unwrap();
        engine.close().unwrap();
        std::thread::sleep(lease);
    }
}

#[test]
fn homes_share_a_log_by_commands() {
    let Some(servers) = Servers::start(0) else { return };
    let folder = tempfile::tempdir().unwrap();
    let url = servers.url(&[servers.port(0)], "postgres:secret-word");
    let [a, b] = ["a", "b"].map(|name| Host::new(folder.path(), name, &url));

    let (code, told) = b.fails(&["cluster", "join"]);
    assert!(code == 3 && told.contains("cluster init"), "{told}");
    assert_eq!(a.json(&["cluster", "init"])["new"], true);
    assert_eq!(a.json(&["cluster", "init"])["new"], false, "it can be repeated");
    let (code, told) = b.fails(&["cluster", "init"]);
    assert!(code == 3 && told.contains("another log `team`"), "{told}");

    // A new home gets the whole log.
    a.leads("team", 12);
    let joined = b.json(&["cluster", "join"]);
    assert!(joined["records"].as_u64().unwrap() >= 12, "{joined}");
    assert_eq!(a.done(&["log", "dump"]), b.done(&["log", "dump"]));
    let again = b.json(&["cluster", "join"]);
    assert_eq!((&again["records"], &again["hash"]), (&0.into(), &joined["hash"]));
    for host in [&a, &b] {
        let found = host.json(&["cluster", "verify"]);
        assert_eq!((&found["ok"], &found["behind"]), (&true.into(), &0.into()), "{found}");
        assert_eq!(found["hash"], joined["hash"]);
    }

    // Hosts take turns, and one that is behind is told so.
    b.leads("team", 5);
    let behind = a.json(&["cluster", "verify"]);
    assert!(behind["ok"] == true && behind["behind"].as_u64().unwrap() > 4, "{behind}");
    a.json(&["cluster", "join"]);
    assert_eq!(a.done(&["log", "dump"]), b.done(&["log", "dump"]));
    let status = a.json(&["cluster", "status"]);
    assert_eq!(status["leader"]["member"], "b/0000000000000001");
    let hosts = status["hosts"].as_array().unwrap();
    assert!(hosts.iter().any(|host| host["host"] == "a" && host["lag"] == 0), "{status}");
    let shown = a.done(&["cluster", "status"]);
    assert!(shown.contains("nobody; b/") && shown.contains("PostgreSQL"), "{shown}");

    // A command does not write beside the list.
    let (code, told) = a.fails(&["resume"]);
    assert!(code == 6 && told.contains("only the service of the host that leads"), "{told}");
    assert!(told.contains("cluster status"), "{told}");
    let told = a.run(&["doctor"]).stdout;
    let told = String::from_utf8(told).unwrap();
    assert!(!told.contains("summarizer drain") && !told.contains("a drain"), "{told}");
    assert_eq!(a.json(&["cluster", "verify"])["ok"], true);

    // A home with records begins a list, and others start from its backup.
    let c = Host::new(folder.path(), "c", &url);
    std::fs::write(c.home.join("summarizer.toml"), "").unwrap();
    c.done(&["pause"]);
    c.done(&["resume"]);
    c.shares("second");
    assert!(c.json(&["cluster", "init"])["seq"].as_u64().unwrap() > 0);
    let d = Host::new(folder.path(), "d", &url);
    d.shares("second");
    let (code, told) = d.fails(&["cluster", "join"]);
    assert!(code == 5 && told.contains("summarizer backup"), "{told}");
    let copy = Host { name: "e", home: folder.path().join("e"), url: url.clone() };
    c.done(&["backup", copy.home.to_str().unwrap()]);
    copy.shares("second");
    c.leads("second", 4);
    copy.json(&["cluster", "join"]);
    assert_eq!(c.done(&["log", "dump"]), copy.done(&["log", "dump"]));
    assert_eq!(copy.json(&["cluster", "verify"])["ok"], true);

    // What a backup has may leave the list, once every host has it.
    let kept = folder.path().join("kept");
    a.json(&["cluster", "join"]);
    std::fs::write(a.home.join("queue.jsonl"), "{}\n").unwrap();
    let told = a.json(&["backup", kept.to_str().unwrap()]);
    assert!(told["notes"].to_string().contains("the queue belongs to this host"), "{told}");
    assert!(!kept.join("queue.jsonl").exists(), "another host would take its lines in again");
    std::fs::remove_file(a.home.join("queue.jsonl")).unwrap();
    a.leads("team", 3);
    let (code, told) = b.fails(&["cluster", "trim", folder.path().to_str().unwrap()]);
    assert!(code == 5 && told.contains("not a whole backup"), "{told}");
    let foreign = copy.home.to_str().unwrap();
    let (code, told) = b.fails(&["cluster", "trim", foreign]);
    assert!(code == 5 && told.contains("not one of the log `team`"), "{told}");
    servers.sql(0, "UPDATE summarizer.hosts SET applied = 2 WHERE log_id = 'team' AND host = 'b'");
    let (code, told) = a.fails(&["cluster", "trim", kept.to_str().unwrap()]);
    assert!(code == 4 && told.contains("the host b has not applied"), "{told}");
    let late = Host::new(folder.path(), "late", &url);
    b.json(&["cluster", "join"]);
    a_trim_that_is_stopped_holds_nobody_up(&servers, &a, &kept);
    let trimmed = a.json(&["cluster", "trim", kept.to_str().unwrap()]);
    assert!(trimmed["removed"].as_u64().unwrap() > 10, "{trimmed}");
    let (code, told) = late.fails(&["cluster", "join"]);
    assert!(code == 5 && told.contains("summarizer backup"), "{told}");
    for host in [&a, &b] {
        host.json(&["cluster", "join"]);
        assert_eq!(host.json(&["cluster", "verify"])["ok"], true);
    }
    b.leads("team", 2);
    a.json(&["cluster", "join"]);
    assert_eq!(a.done(&["log", "dump"]), b.done(&["log", "dump"]));
    let kept = Host { name: "kept", home: kept, url: url.clone() };
    kept.shares("team");
    kept.json(&["cluster", "join"]);
    assert_eq!(a.done(&["log", "dump"]), kept.done(&["log", "dump"]));

    // Damage in the list is found and named.
    servers.sql(
        0,
        "UPDATE summarizer.commits SET packed = overlay(packed placing '\\x00'::bytea from 150) \
                    WHERE log_id = 'team' AND n = (SELECT trimmed + 2 FROM summarizer.heads WHERE log_id = 'team')",
    );
    let (code, told) = a.fails(&["cluster", "verify"]);
    assert!(code == 1 && told.contains(" of the list is damaged"), "{told}");

    // Another log under the same name is noticed.
    a.shares("second");
    let (code, told) = a.fails(&["cluster", "verify"]);
    assert!(code == 1 && told.contains("different"), "{told}");
    let (code, told) = a.fails(&["cluster", "join"]);
    assert!(code == 5 && told.contains("a log of its own"), "{told}");
    a.shares("team");

    assert_eq!(b.json(&["cluster", "leave"])["left"], "b");
    let (code, told) = b.fails(&["cluster", "leave"]);
    assert!(code == 5 && told.contains("no host b"), "{told}");
    let script = a.done(&["cluster", "init", "--print"]);
    assert!(script.contains("CREATE TABLE summarizer.heads"));
    let nowhere = Host { url: "postgresql://me:secret-word@127.0.0.1:1/x".to_owned(), ..a };
    let (code, told) = nowhere.fails(&["cluster", "status"]);
    assert!(code == 6 && told.contains("127.0.0.1:1"), "{told}");
}

/// A command that is stopped in the middle of its transaction has a row that every commit needs.
fn a_trim_that_is_stopped_holds_nobody_up(servers: &Servers, host: &Host, kept: &Path) {
    let waits = "SELECT 'waits' FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE 'DELETE%commits%'";
    let begun = std::time::Instant::now();
    let until = |what: &str| assert!(begun.elapsed() < Duration::from_secs(60), "{what}");
    let mut trim = std::thread::scope(|scope| {
        let lock = "BEGIN; LOCK TABLE summarizer.commits IN SHARE MODE; SELECT pg_sleep(5); COMMIT";
        let holds = scope.spawn(|| servers.sql(0, lock));
        let held = "SELECT 'held' FROM pg_locks WHERE mode = 'ShareLock' AND granted \
                    AND relation = 'summarizer.commits'::regclass";
        while servers.sql(0, held).is_empty() {
            until("the lock");
        }
        let mut command = host.command(&["cluster", "trim", kept.to_str().unwrap()]);
        let trim = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        while servers.sql(0, waits).is_empty() {
            until("trim waits for the lock");
        }
        signal(&trim, Signal::STOP);
        holds.join().unwrap();
        trim
    });
    let append =
        "SET lock_timeout = '30s'; UPDATE summarizer.heads SET n = n WHERE log_id = 'team'";
    assert!(servers.try_sql(0, append).is_some(), "a stopped command holds the row of the log");
    signal(&trim, Signal::CONT);
    assert!(!trim.wait().unwrap().success(), "its transaction was ended");
}

fn signal(child: &Child, signal: Signal) {
    rustix::process::kill_process(rustix::process::Pid::from_child(child), signal).unwrap();
}
