//! Hosts, servers, connections and a disk that fail at random, while producers write on every host.
//!
//! The short form takes about half a minute. `CI_DEEP=1` goes on for a quarter of an hour, and until 200 leaders
//! were stopped and woke up when another one led.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::fs::FallocateFlags;
use rustix::process::Signal;
use serde_json::json;

use crate::proxy::Proxy;
use crate::server::Servers;
use crate::serving::{Host, files_of, wait_for};
use crate::support::requests::{ACTIVE, making, request};
use crate::support::{Rng, deep};

const NAMES: [&str; 3] = ["a", "b", "c"];
/// The exit code after which a service is started again, whatever happened: an error of the storage.
const STORAGE: i32 = 6;
const DISK_BYTES: u64 = 400 << 20;
const ZOMBIE: &str = "a leader slept until another one led";
const FULL_DISK: &str = "a disk was full";
/// What happens to hosts, servers and connections.
const FAULTS: [&str; 10] = [
    "a host was killed",
    "a host was stopped for a while",
    ZOMBIE,
    "a host ended in order",
    "connections were cut or lost an answer",
    "a standby was killed",
    "a server was stopped for a while",
    "a standby was promoted",
    "the primary was killed and came back",
    FULL_DISK,
];

struct Plan {
    lasts: Duration,
    zombies: u32,
    produce_every: Duration,
}

fn plan() -> Plan {
    match deep() {
        true => Plan {
            lasts: Duration::from_secs(15 * 60),
            zombies: 200,
            produce_every: Duration::from_millis(300),
        },
        false => Plan {
            lasts: Duration::from_secs(25),
            zombies: 2,
            produce_every: Duration::from_millis(100),
        },
    }
}

/// A small disk below the folder `run` of a home; nothing without the right to make one.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn below(home: &Path) -> Option<SmallDisk> {
        let place = home.join("run");
        let size = format!("size={DISK_BYTES},mode=700");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(&place);
        let mounted = mount.output().is_ok_and(|output| output.status.success());
        if !mounted {
            println!("LEFT OUT: no disk is filled, because none can be made here");
        }
        mounted.then_some(SmallDisk(place))
    }

    /// Takes all of its space for so long.
    fn fill(&self, time: Duration) {
        let ballast = self.0.join("ballast");
        let file = File::create(&ballast).unwrap();
        let mut step = DISK_BYTES;
        let mut end = 0;
        while step >= 4096 {
            // What does not fit in one piece may fit in smaller ones.
            match rustix::fs::fallocate(&file, FallocateFlags::empty(), end, step) {
                Ok(()) => end += step,
                Err(_) => step /= 2,
            }
        }
        std::thread::sleep(time);
        std::fs::remove_file(&ballast).unwrap();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

struct Team {
    servers: Servers,
    primary: usize,
    proxies: Vec<Proxy>,
    disk: Option<SmallDisk>,
    hosts: Vec<Host>,
    rng: Rng,
    /// How often each thing happened.
    happened: BTreeMap<&'static str, u32>,
    takeovers: Vec<Duration>,
    /// The acks that somebody could read at some time.
    seen: [Vec<u8>; 3],
}

impl Team {
    fn start(servers: Servers, rng: Rng) -> Team {
        let proxies: Vec<Proxy> = (0..3).map(|at| Proxy::start(servers.port(at))).collect();
        let ports: Vec<u16> = proxies.iter().map(|proxy| proxy.port).collect();
        let url = servers.url(&ports, "postgres:secret-word");
        let more = "[commit]\ndisk_headroom = \"1 MiB\"\n";
        let hosts: Vec<Host> = NAMES.iter().map(|name| Host::with(name, &url, more)).collect();
        for host in &hosts {
            let settings = host.home.path("summarizer.toml");
            let text = std::fs::read_to_string(&settings).unwrap();
            std::fs::write(settings, text.replace("\"single\"", "\"quorum\"")).unwrap();
        }
        let disk = SmallDisk::below(hosts[2].home.root());
        assert!(hosts[0].json(&["cluster", "init"]).is_some_and(|made| made["new"] == true));
        for host in &hosts[1..] {
            host.json(&["cluster", "join"]).unwrap();
        }
        let (happened, takeovers, seen) = Default::default();
        let mut team =
            Team { servers, primary: 0, proxies, hosts, disk, rng, happened, takeovers, seen };
        team.hosts.iter_mut().for_each(Host::serve);
        team
    }

    fn count(&mut self, what: &'static str) -> u32 {
        let count = self.happened.entry(what).or_default();
        *count += 1;
        *count
    }

    fn zombies(&self) -> u32 {
        self.happened.get(ZOMBIE).copied().unwrap_or(0)
    }

    fn pause(&mut self, from_ms: u64, to_ms: u64) {
        std::thread::sleep(Duration::from_millis(from_ms + self.rng.below(to_ms - from_ms)));
    }

    /// Who leads, unless nobody says so now.
    fn leader(&self) -> Option<usize> {
        (0..3).find(|at| self.leads(*at))
    }

    fn leads(&self, at: usize) -> bool {
        self.hosts[at].role().as_deref() == Some("leader")
    }

    fn another_leads(&mut self, than: usize, since: Instant) {
        // A host that sleeps answers nothing, and who asks it waits.
        wait_for("another host leads", || (0..3).find(|at| *at != than && self.leads(*at)));
        self.takeovers.push(since.elapsed());
    }

    /// Starts services again that an error of the storage ended.
    fn supervise(&mut self) {
        for (at, name) in NAMES.iter().enumerate() {
            let Some(ended) = self.hosts[at].has_ended() else { continue };
            let told = self.hosts[at].told();
            assert_eq!(ended.code(), Some(STORAGE), "host {name} ended: {told}");
            self.count("a service ended with a storage error");
            self.hosts[at].serve();
        }
    }

    /// Keeps what can be read of the acks now, and checks that it continues what could be read before.
    fn look_at_acks(&mut self) {
        for (at, name) in NAMES.iter().enumerate() {
            let mut now = self.hosts[at].home.read("run/ack.jsonl");
            now.truncate(now.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1));
            let shorter = now.len().min(self.seen[at].len());
            assert!(now[..shorter] == self.seen[at][..shorter], "acks of {name} changed");
            if now.len() > self.seen[at].len() {
                self.seen[at] = now;
            }
        }
    }

    fn something_fails(&mut self, gate: &Mutex<()>) {
        let at = self.rng.below(3) as usize;
        match self.rng.below(13) {
            0 | 1 => {
                self.count("a host was killed");
                let (led, since) = (self.leader() == Some(at), Instant::now());
                self.hosts[at].end(Signal::KILL);
                if led {
                    self.another_leads(at, since);
                }
                self.pause(0, 1500);
                self.hosts[at].serve();
            }
            2 => {
                self.count("a host was stopped for a while");
                self.hosts[at].signal(Signal::STOP);
                self.pause(100, 3000);
                self.hosts[at].signal(Signal::CONT);
            }
            3..=5 => self.leader_sleeps(),
            // One that only starts does not listen yet.
            6 if self.hosts[at].role().is_some() => {
                self.count("a host ended in order");
                self.hosts[at].end(Signal::TERM);
                self.pause(0, 500);
                self.hosts[at].serve();
            }
            7 => {
                self.count("connections were cut or lost an answer");
                for _ in 0..5 {
                    let bytes = 1 + self.rng.below(6000);
                    let proxy = &self.proxies[self.primary];
                    match self.rng.below(3) {
                        0 => proxy.cut(),
                        1 => proxy.cut_after(bytes),
                        _ => proxy.lose_answer(),
                    }
                    self.pause(20, 300);
                }
            }
            8 => {
                self.count("a standby was killed");
                let standby = (self.primary + 1 + at % 2) % 3;
                self.servers.kill(standby);
                self.pause(0, 1500);
                self.servers.run(standby, Some(self.primary));
            }
            9 => {
                self.count("a server was stopped for a while");
                self.servers.pause(at, true);
                self.pause(100, 2500);
                self.servers.pause(at, false);
            }
            10 => {
                self.count("a standby was promoted");
                let (old, one) = (self.primary, (self.primary + 1) % 3);
                self.servers.kill(old);
                self.primary = self.servers.promote_best([one, (one + 1) % 3]);
                self.servers.rejoin(old, self.primary);
            }
            11 => {
                self.count("the primary was killed and came back");
                self.servers.kill(self.primary);
                self.pause(0, 1500);
                self.servers.run(self.primary, None);
            }
            _ if self.disk.is_some() => {
                self.count(FULL_DISK);
                let _nobody_writes = gate.lock();
                self.disk.as_ref().unwrap().fill(Duration::from_secs(2));
            }
            _ => {}
        }
    }

    /// A leader that does not run for longer than its lease still believes that it leads when it wakes up.
    fn leader_sleeps(&mut self) {
        let Some(leader) = self.leader() else { return };
        self.hosts[leader].signal(Signal::STOP);
        self.another_leads(leader, Instant::now());
        self.hosts[leader].signal(Signal::CONT);
        self.count(ZOMBIE);
    }
}

/// Writes one line after another on a host. Its source is on all hosts, as buses that hosts share are.
fn produce(
    roots: &[PathBuf; 3],
    at: usize,
    every: Duration,
    (stop, sent, gate): (&AtomicBool, &AtomicU64, &Mutex<()>),
) {
    let mut number = 0;
    while !stop.load(Ordering::Acquire) {
        let id = format!("{}{number}", NAMES[at]);
        let line = format!("{}\n", making(request(&id, ACTIVE, json!({})), &id));
        {
            let _disk_has_room = gate.lock();
            for root in roots {
                let note = root.join("buses/other").join(&id);
                std::fs::write(note, format!("Notes about {id}. They are short.")).unwrap();
            }
            let mut queue = std::fs::OpenOptions::new();
            let queue = queue.append(true).create(true).open(roots[at].join("run/queue.jsonl"));
            std::io::Write::write_all(&mut queue.unwrap(), line.as_bytes()).unwrap();
        }
        sent.fetch_add(1, Ordering::AcqRel);
        number += 1;
        std::thread::sleep(every);
    }
}

#[test]
fn no_fault_loses_or_doubles_a_line() {
    let Some(servers) = Servers::start(2) else { return };
    let Plan { lasts, zombies, produce_every } = plan();
    let mut team = Team::start(servers, Rng::new(2100));
    wait_for("one host leads", || team.leader());
    let roots = [0, 1, 2].map(|at| team.hosts[at].home.root().to_owned());
    let (stop, sent, gate) = (AtomicBool::new(false), AtomicU64::new(0), Mutex::new(()));
    std::thread::scope(|scope| {
        for at in 0..3 {
            let (roots, around) = (&roots, (&stop, &sent, &gate));
            scope.spawn(move || produce(roots, at, produce_every, around));
        }
        // The producers end when this ends, also when it ends with a surprise.
        let _stops = Stops(&stop);
        let begun = Instant::now();
        while begun.elapsed() < lasts || team.zombies() < zombies {
            match begun.elapsed() < lasts {
                true => team.something_fails(&gate),
                false => team.leader_sleeps(),
            }
            team.pause(50, 700);
            team.supervise();
            team.look_at_acks();
        }
    });

    let sent = sent.into_inner();
    // A slow machine has much left to do. It is done with that as long as it gets on.
    let mut ended = 0;
    while ended < sent {
        ended = wait_for("the next line has an outcome on all hosts", || {
            team.supervise();
            let least = team.hosts.iter().map(|host| host.outcomes().len() as u64).min()?;
            (least > ended || least == sent).then_some(least)
        });
    }
    assert_eq!(ended, sent, "a line that nobody sent has an outcome");
    let cuts: usize = team.proxies.iter().map(Proxy::cuts).sum();
    let mut times = team.takeovers.clone();
    times.sort();
    println!("{sent} lines; {cuts} connections cut inside a call; {:?}", team.happened);
    println!(
        "takeovers: {}, median {:?}, longest {:?}",
        times.len(),
        times[times.len() / 2],
        times.last()
    );
    assert!(team.zombies() >= zombies, "{:?}", team.happened);
    if deep() {
        let can = |fault: &&str| *fault != FULL_DISK || team.disk.is_some();
        let missed: Vec<&str> =
            FAULTS.into_iter().filter(can).filter(|one| !team.happened.contains_key(one)).collect();
        assert!(missed.is_empty(), "this never happened: {missed:?}");
    }
    for host in &mut team.hosts {
        host.end(Signal::TERM);
    }
    let mut ends = BTreeMap::new();
    for host in &team.hosts {
        host.json(&["cluster", "join"]).unwrap();
        let found = host.json(&["cluster", "verify"]).unwrap();
        assert_eq!((&found["ok"], &found["behind"]), (&true.into(), &0.into()), "{found}");
        // The hash at the end stands for each byte of the log before it.
        ends.insert(found["hash"].to_string(), found["seq"].to_string());
        let replayed = host.command(&["replay", "--verify"]).output().unwrap();
        assert!(replayed.status.success(), "{}", String::from_utf8_lossy(&replayed.stderr));
        host.json(&["export", "--repair"]).unwrap();
        let outcomes = host.outcomes();
        assert!(outcomes.values().all(|count| *count == 1), "a line has two outcomes");
        assert_eq!(outcomes.len() as u64, sent);
        no_summary_is_there_twice(host);
    }
    assert_eq!(ends.len(), 1, "logs differ between hosts: {ends:?}");
    let acks = [0, 1, 2].map(|at| team.hosts[at].home.read("run/ack.jsonl"));
    assert!(acks[0] == acks[1] && acks[1] == acks[2], "acks differ between hosts");
    for (at, seen) in team.seen.iter().enumerate() {
        assert!(acks[0].starts_with(seen), "an ack that {} showed is gone", NAMES[at]);
    }
    let trees = [0, 1, 2].map(|at| files_of(&team.hosts[at]));
    assert!(trees[0].len() > 1, "nothing was published");
    assert!(trees[0] == trees[1] && trees[1] == trees[2], "published files differ between hosts");
}

/// Each text is its own, so each request that was completed has a summary of its own, and nothing else has one.
fn no_summary_is_there_twice(host: &Host) {
    let mut ids: BTreeMap<String, u32> = BTreeMap::new();
    for (name, bytes) in files_of(host) {
        if !name.starts_with("/summaries/") || !name.ends_with(".jsonl") {
            continue;
        }
        for line in String::from_utf8(bytes).unwrap().lines() {
            let item: serde_json::Value = serde_json::from_str(line).unwrap();
            *ids.entry(item["summary_id"].as_str().unwrap().to_owned()).or_default() += 1;
        }
    }
    let twice: Vec<_> = ids.iter().filter(|(_, count)| **count > 1).collect();
    assert!(twice.is_empty(), "{}: summaries are there twice: {twice:?}", host.name);
    let completed = host.home.acks().iter().filter(|ack| ack["status"] == "completed").count();
    assert_eq!(ids.len(), completed, "{}: a summary for each completed request", host.name);
}

struct Stops<'s>(&'s AtomicBool);

impl Drop for Stops<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}
