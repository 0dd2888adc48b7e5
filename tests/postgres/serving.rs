//! Services on several hosts: producers on each, and leaders that are killed and stopped.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::server::Servers;
use crate::support::process::ProcessHome;
use crate::support::requests::{ACTIVE, making, request};

use rustix::process::{Pid, Signal, kill_process};

const NAMES: [&str; 3] = ["a", "b", "c"];
const PATIENCE: Duration = Duration::from_secs(60);
/// Acks after which a line has no other outcome.
const ENDINGS: [&str; 6] = [
    "completed",
    "rejected_invalid_schema",
    "rejected_unknown_flow",
    "rejected_invalid_input",
    "failed_permanent",
    "duplicate",
];

pub struct Host {
    pub name: &'static str,
    pub home: ProcessHome,
    url: String,
    /// The file with the time, when a test sets the clock.
    pub clock: Option<PathBuf>,
    service: Option<Child>,
}

impl Host {
    pub fn new(name: &'static str, url: &str) -> Host {
        Host::with(name, url, "")
    }

    /// A host with further settings: keys of the section of the cluster, then other sections.
    pub fn with(name: &'static str, url: &str, more: &str) -> Host {
        let home = ProcessHome::new();
        let settings = format!(
            "[cluster]\nurl_env = \"TEST_DATABASE\"\nname = \"team\"\nhost = \"{name}\"\ndurability = \"single\"\n\
             lease = \"1 s\"\n{more}"
        );
        std::fs::write(home.path("summarizer.toml"), settings).unwrap();
        Host { name, home, url: url.to_owned(), clock: None, service: None }
    }

    pub fn command(&self, args: &[&str]) -> std::process::Command {
        let mut command = self.home.command(args);
        command.env("TEST_DATABASE", &self.url);
        if let Some(clock) = &self.clock {
            command.env("SUMMARIZER_TEST_NOW", clock);
        }
        command
    }

    pub fn json(&self, args: &[&str]) -> Option<Value> {
        let output = self.command(args).arg("--json").output().unwrap();
        serde_json::from_slice(&output.stdout).ok()
    }

    pub fn serve(&mut self) {
        let log = std::fs::File::create(self.home.path("serve.log")).unwrap();
        let mut command = self.command(&["serve"]);
        self.service = Some(command.stdout(Stdio::null()).stderr(log).spawn().unwrap());
    }

    /// The resident memory of its service.
    #[allow(dead_code, reason = "a bench shows it")]
    pub fn memory(&self) -> u64 {
        let pid = self.service.as_ref().unwrap().id();
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line.and_then(|line| line.trim().strip_suffix(" kB")).unwrap();
        kib.trim().parse::<u64>().unwrap() << 10
    }

    /// How its service ended by itself, if it did.
    pub fn has_ended(&mut self) -> Option<std::process::ExitStatus> {
        let ended = self.service.as_mut()?.try_wait().unwrap();
        if ended.is_some() {
            self.service = None;
        }
        ended
    }

    /// What its last service told.
    pub fn told(&self) -> String {
        std::fs::read_to_string(self.home.path("serve.log")).unwrap_or_default()
    }

    pub fn signal(&self, signal: Signal) {
        let child = self.service.as_ref().unwrap();
        kill_process(Pid::from_child(child), signal).unwrap();
    }

    pub fn end(&mut self, signal: Signal) {
        self.signal(signal);
        let ended = self.service.take().unwrap().wait().unwrap();
        let log = std::fs::read_to_string(self.home.path("serve.log")).unwrap();
        assert!(signal == Signal::KILL || ended.success(), "{} {ended}: {log}", self.name);
    }

    /// What it says of itself, unless it does not answer now.
    pub fn role(&self) -> Option<String> {
        self.home.path("run/summarizer.sock").exists().then_some(())?;
        let status = self.json(&["status"])?;
        Some(status["cluster"]["role"].as_str()?.to_owned())
    }

    pub fn outcomes(&self) -> BTreeMap<String, u64> {
        let mut outcomes = BTreeMap::new();
        for ack in self.home.acks() {
            if ENDINGS.contains(&ack["status"].as_str().unwrap()) {
                let id = ack["request_id"].as_str().unwrap().to_owned();
                *outcomes.entry(id).or_default() += 1;
            }
        }
        outcomes
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let status = self.json(&["status"]).unwrap_or_default();
            println!(
                "== {}: {} {} {}",
                self.name, status["cluster"], status["queue"], status["log"]
            );
            println!("{:?}", self.outcomes().keys().collect::<Vec<_>>());
            let log = std::fs::read_to_string(self.home.path("serve.log")).unwrap_or_default();
            println!("== {}: {log}", self.name);
        }
        if let Some(mut child) = self.service.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

pub fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let until = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < until, "it took too long until {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

struct Told<'s>(&'s Servers);

impl Drop for Told<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("{:?}", self.0.sql(0, "SELECT host || ' ' || coalesce(incarnation,'-') || ' ' || shipped || ' ' || coalesce(applied,0) FROM summarizer.hosts"));
            println!(
                "{:?}",
                self.0.sql(0, "SELECT host || ' ' || pos || ' ' || len FROM summarizer.lines")
            );
        }
    }
}

struct Team {
    hosts: Vec<Host>,
    sent: u64,
}

impl Team {
    /// A line on each host. The source is on all of them, as buses that hosts share are.
    fn produce(&mut self, each: u64) {
        for _ in 0..each {
            for (at, name) in NAMES.iter().enumerate().take(self.hosts.len()) {
                self.sent += 1;
                let id = format!("{name}{}", self.sent);
                for host in &self.hosts {
                    host.home
                        .note(&format!("{id}.txt"), &format!("Notes about {id}. They are short."));
                }
                let line = making(request(&id, ACTIVE, json!({})), &id);
                self.hosts[at].home.append(format!("{line}\n").as_bytes());
            }
        }
    }

    fn leader(&self) -> usize {
        wait_for("one host leads", || {
            (0..self.hosts.len()).find(|at| {
                self.hosts[*at].service.is_some()
                    && self.hosts[*at].role().as_deref() == Some("leader")
            })
        })
    }

    fn wait_for_all(&self) {
        for host in self.hosts.iter().filter(|host| host.service.is_some()) {
            wait_for("all lines have an outcome", || {
                (host.outcomes().len() as u64 == self.sent).then_some(())
            });
        }
    }
}

fn tree(folder: &Path, found: &mut BTreeMap<String, Vec<u8>>, below: &str) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries {
        let entry = entry.unwrap();
        let name = format!("{below}/{}", entry.file_name().to_string_lossy());
        match entry.file_type().unwrap().is_dir() {
            true => tree(&entry.path(), found, &name),
            false => drop(found.insert(name, std::fs::read(entry.path()).unwrap())),
        }
    }
}

/// A second service under the name of one that runs ends with words, and so does one that cannot begin.
fn one_name_is_for_one_service(url: &str) {
    let doubled = Host::new(NAMES[1], url);
    let output = doubled.command(&["serve"]).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(told.contains("another service runs under the name of this host, b"), "{told}");
    assert!(output.status.code() == Some(3) && told.contains("cluster.host"), "{told}");

    let stranger = Host::new("stranger", &url.replace("/postgres", "/nowhere"));
    let output = stranger.command(&["serve"]).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(3) && told.contains("cluster join"), "{told}");
}

/// What a host publishes.
pub fn files_of(host: &Host) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    tree(&host.home.path("buses"), &mut found, "");
    found
}

#[test]
fn services_on_three_hosts_share_their_work() {
    let Some(servers) = Servers::start(0) else { return };
    let url = servers.url(&[servers.port(0)], "postgres:secret-word");
    let hosts: Vec<Host> = NAMES.iter().map(|name| Host::new(name, &url)).collect();
    let mut team = Team { hosts, sent: 0 };
    let _told = Told(&servers);
    assert!(team.hosts[0].json(&["cluster", "init"]).is_some_and(|made| made["new"] == true));
    for host in &team.hosts[1..] {
        assert!(host.json(&["cluster", "join"]).is_some_and(|joined| joined["records"] == 0));
    }
    team.hosts.iter_mut().for_each(Host::serve);
    team.produce(5);
    team.wait_for_all();

    // Every host knows how far all of them are.
    for host in &team.hosts {
        wait_for("it sees all hosts level", || {
            let status = host.json(&["status"])?;
            let seen = status["cluster"]["hosts"].as_array()?;
            let level = seen.iter().filter(|one| one["behind"] == 0).count();
            let leads = seen.iter().filter(|one| one["leads"] == true).count();
            (seen.len() == NAMES.len() && level == NAMES.len() && leads == 1).then_some(())
        });
        let told = host.command(&["status"]).output().unwrap();
        let told = String::from_utf8(told.stdout).unwrap();
        let line = told.lines().find(|line| line.starts_with("hosts")).unwrap();
        assert!(line.contains(" leads") && line.contains(" level"), "{line}");
    }

    // The leader is killed. Its line waits until it is back; the others go on.
    let first = team.leader();
    std::thread::sleep(Duration::from_millis(1500));
    let before = team.hosts[first].json(&["cluster", "status"]).unwrap();
    team.hosts[first].end(Signal::KILL);
    let killed = Instant::now();
    let applied = |status: &Value| {
        let hosts = status["hosts"].as_array().unwrap();
        let host = hosts.iter().find(|host| host["host"] == NAMES[first]).unwrap();
        host["applied"].as_u64().unwrap()
    };
    let shown = wait_for("the lease has ended", || {
        let status = team.hosts[(first + 1) % 3].json(&["cluster", "status"]).unwrap();
        let member = status["leader"]["member"].as_str().unwrap().to_owned();
        (!member.starts_with(NAMES[first])).then_some(status)
    });
    assert!(applied(&shown) + 1 >= applied(&before), "{before} {shown}");
    let next = team.leader();
    println!("another host leads {:?} after a kill", killed.elapsed());
    assert_ne!(first, next);
    team.produce(5);
    team.hosts[first].serve();
    team.wait_for_all();

    // The leader is stopped, and wakes up when another one leads.
    team.hosts[next].signal(Signal::STOP);
    wait_for("another host leads", || {
        let others = (0..3).filter(|at| *at != next);
        others.into_iter().find(|at| team.hosts[*at].role().as_deref() == Some("leader"))
    });
    team.hosts[next].signal(Signal::CONT);
    team.produce(5);
    team.wait_for_all();
    wait_for("the old leader follows", || {
        (team.hosts[next].role().as_deref() == Some("follower")).then_some(())
    });

    // Digests are built on the leader, and every host that serves has all files by itself, also the one
    // that was killed while it led.
    let leader = team.leader();
    let built = team.hosts[leader].command(&["digest", "build"]).output().unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let mut differs = Vec::new();
    wait_for("all hosts that serve have the same files", || {
        let trees = [0, 1, 2].map(|at| files_of(&team.hosts[at]));
        assert!(trees.iter().all(|tree| !tree.is_empty()));
        let has = |part: &str| trees[leader].keys().any(|name| name.starts_with(part));
        let is_whole = has("/digests") && has("/index");
        let of = |tree: &BTreeMap<_, _>| tree == &trees[leader];
        let now: Vec<String> = trees
            .iter()
            .flat_map(|tree| {
                tree.iter().filter(|(name, bytes)| trees[leader].get(*name) != Some(*bytes))
            })
            .map(|(name, _)| name.clone())
            .collect();
        if now != differs {
            differs = now;
            println!("different: {differs:?}");
        }
        (is_whole && trees.iter().all(of)).then_some(())
    });

    one_name_is_for_one_service(&url);
    let told = team.hosts[next].command(&["status"]).output().unwrap();
    let told = String::from_utf8_lossy(&told.stdout).into_owned();
    assert!(told.contains(&format!("follower as the host {}", NAMES[next])), "{told}");

    orders_reach_the_leader(&mut team, next);

    // A host is asked to lead, and the one before follows. Where the command runs does not matter.
    let old = team.leader();
    let target = (old + 1) % 3;
    let promoted = team.hosts[old].json(&["cluster", "promote", NAMES[target]]).unwrap();
    assert_eq!(
        (&promoted["leader"], &promoted["before"]),
        (&NAMES[target].into(), &NAMES[old].into())
    );
    assert_eq!(team.leader(), target);
    let again = team.hosts[target].command(&["cluster", "promote"]).output().unwrap();
    assert!(String::from_utf8_lossy(&again.stdout).contains("leads already"), "{again:?}");
    let nobody = team.hosts[target].command(&["cluster", "promote", "x"]).output().unwrap();
    let told = String::from_utf8_lossy(&nobody.stderr).into_owned();
    assert!(nobody.status.code() == Some(5) && told.contains("no host x"), "{told}");
    team.produce(3);
    team.wait_for_all();

    // A leader that ends in order leaves no gap: another host leads long before a lease has run out.
    let leader = team.leader();
    team.hosts[leader].end(Signal::TERM);
    let ended = Instant::now();
    let next = team.leader();
    println!("another host leads {:?} after an orderly end", ended.elapsed());
    std::thread::sleep(Duration::from_secs(11).saturating_sub(ended.elapsed()));
    let absent = team.hosts[next].command(&["cluster", "promote", NAMES[leader]]).output().unwrap();
    let told = String::from_utf8_lossy(&absent.stderr).into_owned();
    assert!(absent.status.code() == Some(4) && told.contains("was not heard of"), "{told}");
    for at in 0..3 {
        if at != leader {
            team.hosts[at].end(Signal::TERM);
        }
    }
    for host in &team.hosts {
        assert!(host.json(&["cluster", "join"]).is_some(), "{} joins", host.name);
        let found = host.json(&["cluster", "verify"]).unwrap();
        assert_eq!((&found["ok"], &found["behind"]), (&true.into(), &0.into()), "{found}");
    }
    let [a, b, c] = [0, 1, 2].map(|at| &team.hosts[at]);
    for host in [a, b, c] {
        assert!(host.outcomes().values().all(|count| *count == 1), "{:?}", host.outcomes());
        assert_eq!(host.outcomes().len() as u64, team.sent);
        // Brings the files up to the log.
        host.json(&["export", "--repair"]).unwrap();
    }
    let acks = [a, b, c].map(|host| host.home.read("run/ack.jsonl"));
    assert!(!acks[0].is_empty());
    for other in &acks[1..] {
        let lines =
            |bytes: &[u8]| String::from_utf8_lossy(bytes).lines().map(str::to_owned).collect();
        let (first, other): (Vec<String>, Vec<String>) = (lines(&acks[0]), lines(other));
        let differs = first.iter().zip(&other).find(|(one, other)| one != other);
        assert!(differs.is_none(), "{differs:?}");
        assert_eq!(first.len(), other.len());
    }
    let trees = [a, b, c].map(|host| {
        let mut found = BTreeMap::new();
        tree(&host.home.path("buses"), &mut found, "");
        tree(&host.home.path("run/snapshots"), &mut found, "/snap");
        found
    });
    assert!(trees[0].len() > 1, "nothing was published");
    for (at, tree) in trees.iter().enumerate() {
        let other: Vec<&String> = tree
            .iter()
            .filter(|(name, bytes)| trees[0].get(*name) != Some(*bytes))
            .map(|(name, _)| name)
            .collect();
        assert!(other.is_empty() && tree.len() == trees[0].len(), "{}: {other:?}", NAMES[at]);
    }
}

/// Orders on a host that follows are carried out by the leader.
fn orders_reach_the_leader(team: &mut Team, follows: usize) {
    let paused = |host: &Host| host.json(&["status"]).unwrap()["paused"].clone();
    let done = |host: &Host, args: &[&str]| {
        let output = host.command(args).output().unwrap();
        let told = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8_lossy(&told).into_owned())
    };
    let host = &team.hosts[follows];
    for (order, is_paused) in [("pause", true), ("resume", false)] {
        let (went, told) = done(host, &[order]);
        assert!(went, "{told}");
        // The host that was asked has it by then.
        let causes = paused(host);
        let is_now = causes.as_array().is_some_and(|causes| !causes.is_empty());
        assert_eq!(is_now, is_paused, "{causes}");
    }
    let (went, told) = done(host, &["digest", "build"]);
    assert!(went, "{told}");
    let (went, told) = done(host, &["retry", "nothing"]);
    assert!(!went && told.contains("nothing"), "{told}");
    let (went, told) = done(host, &["forget", "shared.txt"]);
    assert!(!went && told.contains("shared.txt") && told.contains("cluster promote"), "{told}");

    let places = || {
        let status = host.json(&["status"])?;
        let seen = status["cluster"]["hosts"].as_array()?.clone();
        seen.into_iter().find(|one| one["host"] == host.name)?["places"].as_u64()
    };
    let before = wait_for("it says how much it takes", places);

    // New settings are those of this host: it starts anew, under the same process id, and follows.
    let path = host.home.path("summarizer.toml");
    let settings = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, format!("{settings}\n[workers]\ncount = \"many\"\n")).unwrap();
    let (went, told) = done(host, &["reload"]);
    assert!(!went && told.contains("workers.count"), "{told}");
    std::fs::write(&path, format!("{settings}\n[workers]\ncount = 17\n")).unwrap();
    let (went, told) = done(host, &["reload"]);
    assert!(went && told.contains("starts anew"), "{told}");
    wait_for("it follows with the new settings", || {
        let now = places()?;
        (host.role()? == "follower" && now != before).then_some(())
    });
    assert!(team.hosts[follows].has_ended().is_none());
}

/// It serves readers and collects lines meanwhile, and says that it is behind.
#[test]
fn a_host_without_a_database_serves_and_collects() {
    let Some(mut servers) = Servers::start(0) else { return };
    let url = servers.url(&[servers.port(0)], "postgres:secret-word");
    let hosts: Vec<Host> = NAMES[..2].iter().map(|name| Host::new(name, &url)).collect();
    let mut team = Team { hosts, sent: 0 };
    team.hosts[0].json(&["cluster", "init"]).unwrap();
    team.hosts[1].json(&["cluster", "join"]).unwrap();
    team.hosts.iter_mut().for_each(Host::serve);
    team.produce(2);
    team.wait_for_all();
    let follows = 1 - team.leader();
    let host = &team.hosts[follows];
    wait_for("its summaries are published", || {
        host.command(&["read"]).output().unwrap().status.success().then_some(())
    });
    servers.kill(0);
    let trouble = wait_for("it says that it hears nothing", || {
        let trouble = host.json(&["status"])?["cluster"]["unreached"].clone();
        (!trouble.is_null()).then_some(trouble)
    });
    assert!(trouble["since"].is_string() && trouble["message"].is_string(), "{trouble}");
    let told = String::from_utf8(host.command(&["status"]).output().unwrap().stdout).unwrap();
    assert!(told.contains("since"), "{told}");
    for args in [&["requests"][..], &["read"], &["cluster", "status"]] {
        let ran = host.command(args).output().unwrap();
        let reached = args[0] != "cluster";
        assert_eq!(ran.status.success(), reached, "{args:?}: {ran:?}");
    }
    // An order is not lost without a word.
    let refused = host.command(&["pause"]).output().unwrap();
    let told = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && told.contains("nothing was changed"), "{told}");

    team.produce(2);
    servers.run(0, None);
    team.wait_for_all();
    wait_for("it hears of the others again", || {
        let status = team.hosts[follows].json(&["status"])?;
        let cluster = &status["cluster"];
        (cluster["unreached"].is_null() && cluster["unshipped"].is_null()).then_some(())
    });

    // A log that a newer release has raised is not followed, and everything else goes on.
    servers.sql(0, "UPDATE summarizer.heads SET format = 99");
    servers.sql(0, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'postgres' AND pid <> pg_backend_pid()");
    for host in &team.hosts {
        wait_for("it says that it is too old", || {
            let trouble = host.json(&["status"])?["cluster"]["unreached"]["message"].clone();
            trouble.as_str().is_some_and(|told| told.contains("update this host")).then_some(())
        });
        assert!(host.command(&["read"]).output().unwrap().status.success());
    }
}

/// It cannot end its session, and ends all the same. A new process would not know that it was asked to.
#[test]
fn a_leader_without_a_database_ends_when_it_is_asked_to() {
    let Some(mut servers) = Servers::start(0) else { return };
    let url = servers.url(&[servers.port(0)], "postgres:secret-word");
    let mut host = Host::new("alone", &url);
    host.json(&["cluster", "init"]).unwrap();
    host.serve();
    wait_for("it leads", || (host.role().as_deref() == Some("leader")).then_some(()));
    servers.kill(0);
    host.signal(Signal::TERM);
    let mut service = host.service.take().unwrap();
    let ended = wait_for("it ends", || service.try_wait().unwrap());
    assert!(ended.success(), "{ended}");
}
