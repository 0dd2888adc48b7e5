//! What one host forgets, all hosts forget.

use std::path::Path;
use std::time::Duration;

use rustix::process::Signal;

use crate::server::Servers;
use crate::serving::{Host, files_of, wait_for};
use crate::support::Rng;

/// Stands in the text that goes, and in no name.
const WORD: &str = "marzipan";
const GOES: &str =
    "Anna will bring the marzipan cake on Friday. The marzipan must be kept dry. Ben pays for it.";
const STAYS: &str =
    "Carla repaired the green bicycle. The brakes work again. She wants new tyres in May.";

/// The files of a home that hold a word.
fn holding(folder: &Path, word: &str, found: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => holding(&path, word, found),
            Ok(kind) if kind.is_file() => {
                let bytes = std::fs::read(&path).unwrap_or_default();
                if bytes.windows(word.len()).any(|part| part == word.as_bytes()) {
                    found.push(path.display().to_string());
                }
            }
            _ => {}
        }
    }
}

fn holds(host: &Host, word: &str) -> Vec<String> {
    let mut found = Vec::new();
    holding(&host.home.path(""), word, &mut found);
    found
}

fn done(host: &Host, args: &[&str]) -> String {
    let ran = host.command(args).output().unwrap();
    let told = String::from_utf8_lossy(&ran.stderr).into_owned();
    assert!(ran.status.success(), "{} {args:?}: {told}\n{}", host.name, host.told());
    String::from_utf8_lossy(&ran.stdout).into_owned()
}

/// The hosts that have not forgotten yet, as the database knows.
fn not_forgotten(host: &Host) -> Option<Vec<String>> {
    let status = host.json(&["cluster", "status"])?;
    serde_json::from_value(status["not_forgotten"].clone()).ok()
}

/// A host with the flows that come with the program.
fn host(name: &'static str, url: &str) -> Host {
    let host = Host::new(name, url);
    std::fs::remove_dir_all(host.home.path("flow_registry")).unwrap();
    host
}

fn leads(host: &Host) -> bool {
    host.role().as_deref() == Some("leader")
}

#[test]
fn what_one_host_forgets_all_hosts_forget() {
    let Some(servers) = Servers::start(0) else { return };
    let url = servers.url(&[servers.port(0)], "postgres:secret-word");
    let mut a = host("a", &url);
    let (mut b, mut c) = (host("b", &url), host("c", &url));
    a.json(&["cluster", "init"]).unwrap();
    a.serve();
    wait_for("the first host leads", || leads(&a).then_some(()));
    for host in [&mut b, &mut c] {
        done(host, &["cluster", "join"]);
        host.serve();
    }
    // The texts are on a host that follows. All hosts have their summaries, and digests of them.
    let texts = tempfile::tempdir().unwrap();
    for (name, text) in [("cake.txt", GOES), ("bicycle.txt", STAYS)] {
        std::fs::write(texts.path().join(name), text).unwrap();
    }
    let folder = texts.path().to_str().unwrap();
    wait_for("it answers", || b.role());
    done(&b, &["add", folder]);
    wait_for("all hosts have the summaries", || {
        [&a, &b, &c].iter().all(|host| !holds(host, WORD).is_empty()).then_some(())
    });
    done(&a, &["digest", "build"]);
    wait_for("all hosts have the digests", || {
        let has = |host: &&Host| files_of(host).keys().any(|name| name.starts_with("/digests"));
        [&a, &b, &c].iter().all(has).then_some(())
    });

    // The order is given on a host that follows, and one host is away.
    c.end(Signal::KILL);
    let told = done(&b, &["forget", "--dry-run", "cake.txt"]);
    assert!(told.contains("would forget 1 summary"), "{told}");
    let told = done(&b, &["forget", "cake.txt"]);
    assert!(told.contains("forgot 1 summary"), "{told}");
    assert!(told.contains("not confirmed yet by c:") && told.contains("cluster status"), "{told}");
    assert_eq!(holds(&a, WORD), Vec::<String>::new());
    wait_for("all hosts but the one that is away forget", || {
        (not_forgotten(&a)? == ["c"]).then_some(())
    });
    assert_eq!(holds(&b, WORD), Vec::<String>::new());
    let told = done(&a, &["cluster", "status"]);
    assert!(told.contains("c may still hold what was forgotten"), "{told}");
    assert!(!holds(&c, WORD).is_empty());
    c.serve();
    wait_for("the last host forgets", || not_forgotten(&a)?.is_empty().then_some(()));
    assert_eq!(holds(&c, WORD), Vec::<String>::new());

    // The work goes on. A new host gets a log whose keys are gone, also one that stops on the way.
    std::fs::write(texts.path().join("garden.txt"), "Dora planted peas. They need water.").unwrap();
    done(&b, &["add", folder, "--json"]);
    let mut d = host("d", &url);
    done(&d, &["cluster", "join"]);
    d.serve();
    wait_for("all hosts have the same files", || {
        let first = files_of(&a);
        let same = [&b, &c, &d].iter().all(|host| files_of_all(host) == files_of_all(&a));
        (same && !first.is_empty()).then_some(())
    });
    assert_eq!(holds(&d, WORD), Vec::<String>::new());

    // Another host leads, and what was forgotten stays so.
    done(&a, &["cluster", "promote", "b"]);
    wait_for("it leads", || leads(&b).then_some(()));
    let told = done(&b, &["forget", "bicycle.txt"]);
    let all = told.contains("all hosts have forgotten it") || told.contains("not confirmed yet by");
    assert!(told.contains("forgot 1 summary") && all, "{told}");
    wait_for("all hosts forget again", || not_forgotten(&b)?.is_empty().then_some(()));
    // Digests that were built again come to the others a moment later.
    wait_for("all hosts have the same files again", || {
        [&a, &c, &d].iter().all(|host| files_of_all(host) == files_of_all(&b)).then_some(())
    });
    for host in [&mut a, &mut b, &mut c, &mut d] {
        host.end(Signal::TERM);
    }
    for host in [&a, &b, &c, &d] {
        done(host, &["cluster", "join"]);
        let found = host.json(&["cluster", "verify"]).unwrap();
        assert_eq!((&found["ok"], &found["behind"]), (&true.into(), &0.into()), "{found}");
        done(host, &["verify"]);
        for word in [WORD, "tyres"] {
            assert_eq!(holds(host, word), Vec::<String>::new(), "{word}");
        }
    }
}

/// The files that every host makes from the log: the texts that one host took in are its own.
fn files_of_all(host: &Host) -> Vec<(String, Vec<u8>)> {
    let is_made =
        |name: &str| ["/summaries", "/digests", "/index"].iter().any(|part| name.starts_with(part));
    files_of(host).into_iter().filter(|(name, _)| is_made(name)).collect()
}

/// Whatever is killed in the middle, in the end no host has the text.
#[test]
fn a_forgetting_is_finished_on_all_hosts_whoever_is_killed() {
    let Some(servers) = Servers::start(0) else { return };
    let url = servers.url(&[servers.port(0)], "postgres:secret-word");
    let mut hosts = ["a", "b", "c"].map(|name| host(name, &url));
    hosts[0].json(&["cluster", "init"]).unwrap();
    for host in &mut hosts[1..] {
        done(host, &["cluster", "join"]);
    }
    hosts.iter_mut().for_each(Host::serve);
    let texts = tempfile::tempdir().unwrap();
    let mut rng = Rng::new(7);
    for round in 0..4 {
        let (name, word) = (format!("note-{round}.txt"), format!("marzipan{round}"));
        let path = texts.path().join(&name);
        std::fs::write(&path, format!("Anna will bring the {word} on Friday. Ben pays for it."))
            .unwrap();
        let leader = leader_of(&hosts);
        // It may have started a moment ago.
        let giver = &hosts[(leader + 1) % 3];
        wait_for("it follows", || (giver.role()? == "follower").then_some(()));
        done(giver, &["add", path.to_str().unwrap()]);
        wait_for("all hosts have the summary", || {
            hosts.iter().all(|host| !holds(host, &word).is_empty()).then_some(())
        });
        // The leader, or a host that follows.
        let victim = (leader + round % 2) % 3;
        // On the leader, or on a host that follows, which may be the victim too.
        let asked = (leader + usize::from(round > 1)) % 3;
        let mut ordered = hosts[asked].command(&["forget", &name]).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(20 + rng.below(500)));
        hosts[victim].end(Signal::KILL);
        std::thread::sleep(Duration::from_millis(rng.below(2000)));
        hosts[victim].serve();
        ordered.wait().unwrap();
        // An order that was cut short may not have become a fact. Its person is told, and gives it again.
        wait_for("it is forgotten", || {
            let again = hosts[leader_of(&hosts)].command(&["forget", &name]).output().unwrap();
            let told = String::from_utf8_lossy(&again.stderr);
            (again.status.success() || told.contains("was forgotten")).then_some(())
        });
        wait_for("all hosts say so", || not_forgotten(&hosts[0])?.is_empty().then_some(()));
        wait_for("no host holds it", || {
            let held: Vec<String> = hosts.iter().flat_map(|host| holds(host, &word)).collect();
            held.is_empty().then_some(())
        });
    }
    for host in &mut hosts {
        host.end(Signal::TERM);
    }
    for host in &hosts {
        done(host, &["cluster", "join"]);
        assert_eq!(host.json(&["cluster", "verify"]).unwrap()["ok"], true);
        done(host, &["verify"]);
        assert_eq!(holds(host, "marzipan"), Vec::<String>::new());
    }
}

fn leader_of(hosts: &[Host]) -> usize {
    wait_for("a host leads", || hosts.iter().position(leads))
}
