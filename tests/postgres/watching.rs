//! What people are told of hosts and servers that are not well, and what each role of a host does.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::server::Servers;
use crate::serving::{Host, files_of, wait_for};
use crate::support::requests::{ACTIVE, making, request};

const STATUS: &str = "[status]\nhttp = \"127.0.0.1:0\"\nlogin = false\n";

pub fn url_of(servers: &Servers) -> String {
    servers.url(&[servers.port(0)], "postgres:secret-word")
}

/// A line in the queue of a host, whose source is on other hosts or on none.
pub fn ask(host: &Host, id: &str, with_source: &[&Host]) {
    for one in with_source {
        one.home.note(&format!("{id}.txt"), &format!("Notes about {id}. They are short."));
    }
    let line = making(request(id, ACTIVE, json!({})), id);
    host.home.append(format!("{line}\n").as_bytes());
}

pub fn ends(host: &Host, id: &str) -> String {
    wait_for("the request has an outcome", || ending(host, id))
}

fn ending(host: &Host, id: &str) -> Option<String> {
    // First, because acks come meanwhile.
    host.outcomes().contains_key(id).then_some(())?;
    let acks = host.home.acks();
    let of = acks.iter().rfind(|ack| ack["request_id"] == id)?;
    of["status"].as_str().map(str::to_owned)
}

pub fn has_role(host: &Host, role: &str) {
    wait_for("it has its role", || (host.role().as_deref() == Some(role)).then_some(()));
}

/// Whether all is well, and what it says.
fn doctor(host: &Host) -> (bool, String) {
    let ran = host.command(&["doctor"]).output().unwrap();
    (ran.status.success(), String::from_utf8_lossy(&ran.stdout).into_owned())
}

pub fn done(host: &Host, args: &[&str]) -> String {
    let ran = host.command(args).output().unwrap();
    let told = [ran.stdout, ran.stderr].concat();
    let told = String::from_utf8_lossy(&told).into_owned();
    assert!(ran.status.success(), "{} {args:?}: {told}", host.name);
    told
}

/// Names that are stale after a promotion: every write waits for a server that never comes.
#[test]
fn a_server_that_confirms_nothing_is_named() {
    let Some(servers) = Servers::start(2) else { return };
    let mut host = Host::new("a", &url_of(&servers));
    let settings = host.home.path("summarizer.toml");
    let text = std::fs::read_to_string(&settings).unwrap();
    std::fs::write(&settings, text.replace("\"single\"", "\"quorum\"")).unwrap();
    host.json(&["cluster", "init"]).unwrap();
    host.serve();
    has_role(&host, "leader");
    let names = |names: &str| {
        servers.sql(0, &format!("ALTER SYSTEM SET synchronous_standby_names = '{names}'"));
        servers.sql(0, "SELECT pg_reload_conf()");
    };
    let unconfirmed = |host: &Host| {
        let status = host.json(&["cluster", "status"])?;
        Some(status["unconfirmed"].clone())
    };
    assert_eq!(unconfirmed(&host), Some(Value::Null));
    names("ANY 1 (gone, lost)");
    let why = wait_for("the status says it", || {
        let why = unconfirmed(&host)?;
        why.as_str().map(str::to_owned)
    });
    assert!(why.contains("ANY 1 (gone, lost)") && why.contains("2 connected"), "{why}");
    let shown = done(&host, &["cluster", "status"]);
    assert!(shown.contains("every host waits:"), "{shown}");
    let (is_well, told) = doctor(&host);
    assert!(!is_well && told.contains("no commit is confirmed"), "{told}");
    assert!(told.contains("name the servers that are standbys now"), "{told}");
    ask(&host, "late", &[&host]);
    wait_for("the service says why it waits", || {
        let status = host.json(&["status"])?;
        let why = status["cluster"]["unreached"]["message"].as_str()?.to_owned();
        why.contains("waits for a standby").then_some(())
    });
    names("ANY 1 (s0, s1, s2)");
    assert_eq!(ends(&host, "late"), "completed");
    assert_eq!(unconfirmed(&host), Some(Value::Null));
    host.end(Signal::TERM);
}

/// What the page of a host shows.
fn page_status(host: &Host) -> Option<Value> {
    let told = host.told();
    let line = told.lines().rfind(|line| line.contains("status page: http://"))?;
    let address = line.split("http://").nth(1)?.split('/').next()?.trim().to_owned();
    let mut stream = TcpStream::connect(&address).ok()?;
    let ask = format!("GET /api/status HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(ask.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    serde_json::from_str(answer.split_once("\r\n\r\n")?.1).ok()
}

#[test]
fn hosts_that_are_not_well_are_named() {
    let Some(mut servers) = Servers::start(0) else { return };
    let url = url_of(&servers);
    let provider = "[provider.slow]\nkind = \"openai\"\nbase_url = \"http://127.0.0.1:9/v1\"\n\
                    model = \"m\"\nrequests_per_minute = 50\n[workers]\nmax_in_flight_per_provider = 3\n";
    let more = format!("{STATUS}{provider}");
    let (mut a, mut b) = (Host::with("a", &url, &more), Host::with("b", &url, &more));
    a.json(&["cluster", "init"]).unwrap();
    b.json(&["cluster", "join"]).unwrap();
    a.serve();
    has_role(&a, "leader");
    b.serve();
    has_role(&b, "follower");
    ask(&b, "first", &[&a, &b]);
    assert_eq!(ends(&a, "first"), "completed");

    // The page of each host shows both, and that they are level.
    for host in [&a, &b] {
        wait_for("the page shows all hosts level", || {
            let shown = page_status(host)?;
            let hosts = shown["cluster"]["hosts"].as_array()?;
            let is_level = |one: &Value| one["behind"] == 0 && one["agrees"] != false;
            let all = hosts.len() == 2 && hosts.iter().all(is_level);
            (all && hosts.iter().filter(|one| one["leads"] == true).count() == 1).then_some(())
        });
    }
    let (_, told) = doctor(&a);
    let together = ["2 hosts work", "6 calls under way", "100 requests a minute at slow"];
    assert!(together.iter().all(|words| told.contains(words)), "{told}");

    // One that is away, of another release, behind, and with another log.
    b.end(Signal::KILL);
    for _ in 0..52 {
        done(&a, &["pause"]);
        done(&a, &["resume"]);
    }
    let of_b = |change: &str| {
        servers.sql(0, &format!("UPDATE summarizer.hosts SET {change} WHERE host = 'b'"));
    };
    of_b("seen = seen - interval '5 minutes', release = '0.0.1'");
    let (_, told) = doctor(&a);
    for words in [
        "the host b was not heard of for",
        "the host b runs summarizer 0.0.1",
        "the host b is 1",
        "if it left for good",
    ] {
        assert!(told.contains(words), "{words}: {told}");
    }
    assert!(!told.contains("no part of the list"), "{told}");
    of_b("applied_hash = decode(repeat('00', 32), 'hex')");
    let (is_well, told) = doctor(&a);
    assert!(!is_well && told.contains("the log of b is no part of the list"), "{told}");
    let status = a.json(&["cluster", "status"]).unwrap();
    assert_eq!(status["differing"], json!(["b"]));
    let shown = done(&a, &["cluster", "status"]);
    assert!(shown.contains("the log of b is no part of the list"), "{shown}");
    wait_for("the service says it", || {
        done(&a, &["status"]).contains("its log is no part of the list").then_some(())
    });
    b.serve();
    wait_for("it says what it has", || {
        let status = a.json(&["cluster", "status"])?;
        (status["differing"] == json!([]) && status["hosts"][1]["lag"] == 0).then_some(())
    });

    // The clock, and tables that are too new or too old.
    a.clock = Some(a.home.path("now"));
    std::fs::write(a.home.path("now"), "2026-01-01T00:00:00Z").unwrap();
    let (_, told) = doctor(&a);
    assert!(told.contains("the clock of this host is"), "{told}");
    a.clock = None;
    for host in [&mut a, &mut b] {
        host.end(Signal::TERM);
    }
    let format = servers.sql(0, "SELECT format FROM summarizer.heads").remove(0);
    for (version, words) in [("99", "update this host"), ("1", "release by release")] {
        servers.sql(0, &format!("UPDATE summarizer.heads SET format = {version}"));
        let (is_well, told) = doctor(&a);
        assert!(!is_well && told.contains(words), "{told}");
    }
    servers.sql(0, &format!("UPDATE summarizer.heads SET format = {format}"));

    // The database loses a commit that both have. Who comes first says so, and the others can see it.
    b.json(&["cluster", "join"]).unwrap();
    servers.sql(0, "DELETE FROM summarizer.commits c USING summarizer.heads h WHERE c.n = h.n");
    servers.sql(
        0,
        "UPDATE summarizer.heads SET n = c.n, seq = c.last_seq, hash = c.hash \
            FROM (SELECT n, last_seq, hash FROM summarizer.commits ORDER BY n DESC LIMIT 1) AS c",
    );
    b.serve();
    let ended = wait_for("it stops", || b.has_ended());
    assert!(!ended.success() && b.told().contains("not a part of the shared log"), "{}", b.told());
    let status = a.json(&["cluster", "status"]).unwrap();
    assert!(status["differing"].as_array().unwrap().contains(&json!("b")), "{status}");

    a_slot_that_holds_old_logs_is_named(&mut servers, &a);
}

fn a_slot_that_holds_old_logs_is_named(servers: &mut Servers, host: &Host) {
    servers.sql(0, "SELECT pg_create_physical_replication_slot('pinned', true)");
    assert!(!doctor(host).1.contains("pinned"));
    servers.skip_ahead(0);
    let (_, told) = doctor(host);
    assert!(told.contains("old write-ahead logs is kept for pinned"), "{told}");
    assert!(told.contains("pg_drop_replication_slot"), "{told}");
}

#[test]
fn each_host_does_what_its_roles_say() {
    let Some(servers) = Servers::start(0) else { return };
    let url = url_of(&servers);
    let of = |name, role| Host::with(name, &url, &format!("roles = [\"{role}\"]\n"));
    let mut hosts =
        [of("leads", "lead"), of("ships", "ingest"), of("works", "work"), of("shows", "read")];
    hosts[0].json(&["cluster", "init"]).unwrap();
    for host in &hosts[1..] {
        host.json(&["cluster", "join"]).unwrap();
    }
    hosts.iter_mut().for_each(Host::serve);
    let [leads, ships, works, shows] = &hosts;
    has_role(leads, "leader");
    // A line on each host; the host that works has all sources.
    for (host, id) in [(leads, "l"), (works, "w"), (shows, "r"), (ships, "s")] {
        ask(host, id, &[works]);
    }
    assert_eq!(ends(shows, "s"), "completed");
    ask(ships, "s2", &[works]);
    assert_eq!(ends(shows, "s2"), "completed");
    assert_eq!(shows.outcomes().len(), 2, "{:?}: only one host ships", shows.outcomes());
    for host in [leads, works, shows] {
        let status = host.json(&["status"]).unwrap();
        let told = &status["cluster"]["unshipped"]["message"];
        assert!(told.as_str().is_some_and(|told| told.contains("role `ingest`")), "{status}");
    }
    let is_item = |file: &String| file.starts_with("/summaries/") && file.ends_with(".jsonl");
    let publishes = |host: &Host| files_of(host).keys().any(is_item);
    wait_for("the summaries are published", || {
        (publishes(shows) && publishes(leads)).then_some(())
    });
    assert!(!publishes(ships) && !publishes(works), "they do not show anything");
    for host in [ships, works, shows] {
        let told = host.command(&["cluster", "promote", host.name]).output().unwrap();
        let told = String::from_utf8_lossy(&told.stderr).into_owned();
        assert!(told.contains("may not lead"), "{told}");
    }
    hosts[0].end(Signal::TERM);
    std::thread::sleep(Duration::from_secs(4));
    for host in &hosts[1..] {
        assert_eq!(host.role().as_deref(), Some("follower"));
    }
}

/// Leaving is deleting the section: the home is whole.
#[test]
fn a_host_that_left_serves_alone() {
    let Some(servers) = Servers::start(0) else { return };
    let url = url_of(&servers);
    let (mut a, mut b) = (Host::new("a", &url), Host::new("b", &url));
    a.json(&["cluster", "init"]).unwrap();
    b.json(&["cluster", "join"]).unwrap();
    a.serve();
    has_role(&a, "leader");
    b.serve();
    has_role(&b, "follower");
    for (host, id) in [(&a, "a1"), (&b, "b1"), (&b, "b2")] {
        ask(host, id, &[&a, &b]);
    }
    for id in ["a1", "b1", "b2"] {
        assert_eq!(ends(&b, id), "completed");
    }
    b.end(Signal::TERM);
    done(&a, &["cluster", "leave", "b"]);
    std::fs::write(b.home.path("summarizer.toml"), "").unwrap();
    b.serve();
    wait_for("it serves", || b.json(&["status"])?["session"].is_object().then_some(()));
    ask(&b, "alone", &[&b]);
    assert_eq!(ends(&b, "alone"), "completed");
    assert!(b.outcomes().values().all(|count| *count == 1), "{:?}", b.outcomes());
    let ids: Vec<String> = b.outcomes().into_keys().collect();
    assert_eq!(ids, ["a1", "alone", "b1", "b2"], "no line is taken in again");
    b.end(Signal::TERM);
    for args in [&["log", "verify"][..], &["replay", "--verify"], &["verify"]] {
        done(&b, args);
    }
    // The others go on without it.
    ask(&a, "later", &[&a]);
    assert_eq!(ends(&a, "later"), "completed");
    let status = a.json(&["cluster", "status"]).unwrap();
    assert_eq!(status["hosts"].as_array().unwrap().len(), 1, "{status}");
}

/// The leader asks every host that it may have, also one that has just started and one that is away for a moment.
#[test]
fn a_source_on_a_host_that_has_just_started_is_found() {
    let Some(servers) = Servers::start(0) else { return };
    let url = url_of(&servers);
    let more = "[retry]\nbase_delay = \"50 ms\"\nmax_delay = \"100 ms\"\n";
    let (mut a, mut c) = (Host::with("a", &url, more), Host::new("c", &url));
    a.json(&["cluster", "init"]).unwrap();
    a.serve();
    has_role(&a, "leader");
    ask(&a, "missing", &[]);
    assert_eq!(ends(&a, "missing"), "rejected_invalid_input", "nobody else works here");

    // A host that joined, and does not run yet.
    c.json(&["cluster", "join"]).unwrap();
    ask(&a, "joined", &[&c]);
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(ending(&a, "joined"), None, "it waits for the host that may have it");
    c.serve();
    ask(&a, "started", &[&c]);
    ask(&c, "own", &[&c]);
    for id in ["joined", "started", "own"] {
        assert_eq!(ends(&a, id), "completed", "{id}");
    }
    // Killed and started again, and the lines come at once.
    for round in 0..3 {
        c.end(Signal::KILL);
        c.serve();
        for number in 0..4 {
            ask(&a, &format!("again{round}{number}"), &[&c]);
        }
    }
    for id in (0..3).flat_map(|round| (0..4).map(move |number| format!("again{round}{number}"))) {
        assert_eq!(ends(&a, &id), "completed", "{id}");
    }
    // One that is away for a while is named, and waited for.
    c.end(Signal::TERM);
    std::thread::sleep(Duration::from_secs(5));
    ask(&a, "away", &[&c]);
    let told = wait_for("the request is put off", || {
        let acks = a.home.acks();
        let of = acks
            .iter()
            .find(|ack| ack["request_id"] == "away" && ack["status"] == "failed_transient");
        of.map(Value::to_string)
    });
    let shown = done(&a, &["show", "away"]);
    assert!(shown.contains("the host c may have it, and was not heard of for"), "{told} {shown}");
    c.serve();
    assert_eq!(ends(&a, "away"), "completed");
    // One that has been away for long is not.
    c.end(Signal::TERM);
    servers.sql(0, "UPDATE summarizer.hosts SET seen = seen - interval '1 hour' WHERE host = 'c'");
    ask(&a, "gone", &[&c]);
    assert_eq!(ends(&a, "gone"), "rejected_invalid_input");
    a.end(Signal::TERM);
}
