//! Model work on all hosts: the leader has one thread for calls, and the others take what it cannot begin.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::model_server::{Act, Server};
use crate::server::Servers;
use crate::serving::{Host, files_of, wait_for};
use crate::support::requests::{ACTIVE, DEPRECATED, making, request};

const CALL: Duration = Duration::from_millis(150);

/// Answers each question after a time.
fn model() -> Server {
    let pack = "docs.chunk_set.summarize.brief.v1";
    let path = format!("{}/tests/golden/packs/{pack}/recorded.txt", env!("CARGO_MANIFEST_DIR"));
    let answer = std::fs::read_to_string(path).unwrap();
    let answering = move |_: &Value| {
        std::thread::sleep(CALL);
        answer.clone()
    };
    Server::start(vec![Act::With(Arc::new(answering))])
}

fn host(name: &'static str, roles: &str, url: &str, model: &Server) -> Host {
    let more = format!(
        "{roles}[workers]\ncount = 1\nmax_in_flight_per_provider = 2\n[retry]\nbase_delay = \"50 ms\"\nmax_delay = \"100 ms\"\n\
         [provider.slow]\nkind = \"openai\"\nbase_url = \"{}/v1\"\nmodel = \"m\"\n[flow.\"{ACTIVE}\"]\n\
         provider = \"slow\"\n",
        model.base
    );
    Host::with(name, url, &more)
}

/// Lines in the queue of a host. The source is on the hosts that are named.
fn produce(hosts: &[Host], at: usize, ids: std::ops::Range<u32>, on: &[usize]) {
    for id in ids {
        let id = format!("r{id}");
        for host in on {
            hosts[*host]
                .home
                .note(&format!("{id}.txt"), &format!("Notes about {id}. They are short."));
        }
        let line = making(request(&id, ACTIVE, json!({})), &id);
        hosts[at].home.append(format!("{line}\n").as_bytes());
    }
}

fn wait_for_outcomes(host: &Host, count: usize) -> BTreeMap<String, u64> {
    wait_for("all requests have an outcome", || {
        let outcomes = host.outcomes();
        (outcomes.len() >= count).then_some(outcomes)
    })
}

/// Only these hosts can read a source each. So when their requests have an outcome, the leader knows that they work, and
/// shares what comes next. What comes before that it begins itself.
fn the_leader_knows(hosts: &[Host], workers: &[usize]) {
    for worker in workers {
        let id = u32::try_from(*worker).unwrap();
        produce(hosts, 0, id..id + 1, &[*worker]);
    }
    wait_for_outcomes(&hosts[0], 1 + workers.len());
}

#[test]
fn attempts_run_on_all_hosts() {
    let Some(servers) = Servers::start(0) else { return };
    let url = servers.url(&[servers.port(0)], "postgres:secret-word");
    let models = [model(), model(), model()];
    // The last one publishes nothing while it follows.
    let mut hosts = vec![
        host("a", "", &url, &models[0]),
        host("b", "", &url, &models[1]),
        host(
            "c",
            "roles = [\"ingest\", \"work\", \"lead\"]\n[[watch]]\nfolder = \"watched\"\nflow = \"test.notes.summarize.v1\"\n",
            &url,
            &models[2],
        ),
    ];
    std::fs::create_dir_all(hosts[2].home.path("watched")).unwrap();
    hosts[0].json(&["cluster", "init"]).unwrap();
    for host in &hosts[1..] {
        host.json(&["cluster", "join"]).unwrap();
    }
    hosts[0].serve();
    wait_for("a leads", || (hosts[0].role().as_deref() == Some("leader")).then_some(()));
    // The others would go on with the rules that they started with.
    let settings = hosts[0].home.path("summarizer.toml");
    let agreed = std::fs::read_to_string(&settings).unwrap();
    let stricter = format!("{agreed}[privacy]\nlocal_only = [\"folder:clients*\"]\n");
    std::fs::write(&settings, stricter).unwrap();
    let refused = hosts[0].command(&["reload"]).output().unwrap();
    let told = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && told.contains("rules about data changed"), "{told}");
    std::fs::write(&settings, agreed).unwrap();
    assert!(hosts[0].command(&["reload"]).output().unwrap().status.success());
    // The leader uses the flow first.
    produce(&hosts, 0, 0..1, &[0, 1, 2]);
    wait_for_outcomes(&hosts[0], 1);
    // The flow asks more than once for each request.
    let each = models[0].seen().len();
    hosts[1].serve();
    hosts[2].serve();
    the_leader_knows(&hosts, &[1, 2]);

    let begun = Instant::now();
    produce(&hosts, 0, 3..61, &[0, 1, 2]);
    let outcomes = wait_for_outcomes(&hosts[1], 61);
    println!("58 requests with calls of {CALL:?} took {:?}", begun.elapsed());
    assert!(outcomes.values().all(|count| *count == 1), "{outcomes:?}");
    let calls: Vec<usize> = models.iter().map(|model| model.seen().len()).collect();
    println!("calls on each host: {calls:?}");
    assert_eq!(calls.iter().sum::<usize>(), 61 * each, "each call is made once");
    assert!(calls.iter().all(|count| *count >= 12 * each), "{calls:?}");

    // A worker that ends in order loses nothing: what it has begun ends first, and is asked once.
    produce(&hosts, 0, 201..231, &[0, 1, 2]);
    wait_for("b works", || {
        let held = "SELECT count(*) FROM summarizer.jobs WHERE holder LIKE 'b/%'";
        (servers.sql(0, held) != ["0"]).then_some(())
    });
    let status = hosts[0].json(&["cluster", "status"]).unwrap();
    let works =
        status["hosts"].as_array().unwrap().iter().find(|host| host["host"] == "b").unwrap();
    assert_eq!(works["places"], 6, "{status}");
    let shown = hosts[0].command(&["cluster", "status"]).output().unwrap();
    let shown = String::from_utf8(shown.stdout).unwrap();
    println!("{shown}");
    assert!(shown.contains("WORK") && shown.contains(" of 6"), "{shown}");
    hosts[1].end(Signal::TERM);
    wait_for_outcomes(&hosts[0], 91);
    let calls: usize = models.iter().map(|model| model.seen().len()).sum();
    assert_eq!(calls, 91 * each, "each call is made once");
    hosts[1].serve();
    wait_for("b follows", || (hosts[1].role().as_deref() == Some("follower")).then_some(()));

    // What only the leader can read runs there.
    produce(&hosts, 1, 61..81, &[0]);
    wait_for_outcomes(&hosts[0], 111);
    let completed =
        |host: &Host| host.home.acks().iter().filter(|ack| ack["status"] == "completed").count();
    assert_eq!(completed(&hosts[0]), 111);

    // What only one other host can read runs there, also when the flow was not used before, and a source that no
    // host has is refused once.
    produce(&hosts, 1, 300..310, &[2]);
    produce(&hosts, 2, 310..312, &[]);
    let outcomes = wait_for_outcomes(&hosts[0], 123);
    assert!(outcomes.values().all(|count| *count == 1), "{outcomes:?}");
    assert_eq!(completed(&hosts[0]), 121);
    let refused =
        hosts[0].home.acks().into_iter().filter(|ack| ack["reason_code"] == "unknown_source_id");
    assert_eq!(refused.count(), 2);
    hosts[2].home.note("other-flow.txt", "The pump was repaired on Monday. Ana will test it.");
    let line = making(request("other-flow", DEPRECATED, json!({})), "other-flow");
    hosts[1].home.append(format!("{line}\n").as_bytes());
    wait_for_outcomes(&hosts[0], 124);
    assert_eq!(completed(&hosts[0]), 122);
    scheduled_work_runs_on_all_hosts(&mut hosts, &models, each);
    // So does a file in a folder that this host watches.
    let watched = hosts[2].home.path("watched");
    std::fs::write(watched.join("pump.md"), "The pump was repaired on Monday. Ana will test it.\n")
        .unwrap();
    wait_for_outcomes(&hosts[0], 165);
    assert_eq!(completed(&hosts[0]), 163);

    // A worker that is killed costs the attempts that it had, and no request.
    produce(&hosts, 0, 81..121, &[0, 1, 2]);
    wait_for("c works", || {
        let held = "SELECT count(*) FROM summarizer.jobs WHERE holder LIKE 'c/%'";
        (servers.sql(0, held) != ["0"]).then_some(())
    });
    hosts[2].end(Signal::KILL);
    let outcomes = wait_for_outcomes(&hosts[0], 205);
    assert!(outcomes.values().all(|count| *count == 1), "{outcomes:?}");
    assert_eq!(completed(&hosts[0]), 203);

    // So does a leader.
    produce(&hosts, 0, 121..161, &[0, 1, 2]);
    wait_for("b works", || {
        let held = "SELECT count(*) FROM summarizer.jobs WHERE holder LIKE 'b/%'";
        (servers.sql(0, held) != ["0"]).then_some(())
    });
    hosts[0].end(Signal::KILL);
    hosts[0].serve();
    let outcomes = wait_for_outcomes(&hosts[1], 245);
    assert!(outcomes.values().all(|count| *count == 1), "{outcomes:?}");
    assert_eq!(completed(&hosts[1]), 243);
    wait_for("no job is left", || {
        let left = "SELECT (SELECT count(*) FROM summarizer.jobs) + (SELECT count(*) FROM summarizer.reports)";
        (servers.sql(0, left) == ["0"]).then_some(())
    });
    for host in &mut hosts[..2] {
        host.end(Signal::TERM);
    }
    for host in &hosts {
        host.json(&["cluster", "join"]).unwrap();
        let found = host.json(&["cluster", "verify"]).unwrap();
        assert_eq!((&found["ok"], &found["behind"]), (&true.into(), &0.into()), "{found}");
    }
    let is_item = |file: &String| file.starts_with("/summaries/") && file.ends_with(".jsonl");
    let publishes = |host: &Host| files_of(host).keys().any(is_item);
    assert_eq!(hosts.iter().map(publishes).collect::<Vec<_>>(), [true, true, false]);
    let acks: Vec<_> = hosts.iter().map(|host| host.home.read("run/ack.jsonl")).collect();
    assert!(acks[0] == acks[1] && acks[1] == acks[2]);
}

/// Requests that let others go first run wherever there is room, and where their source is.
fn scheduled_work_runs_on_all_hosts(hosts: &mut [Host], models: &[Server], each: usize) {
    let before: Vec<usize> = models.iter().map(|model| model.seen().len()).collect();
    let mut lines = Vec::new();
    for number in 0..40 {
        let id = format!("later{number}");
        let has_it = if number < 30 { &hosts[..] } else { &hosts[2..] };
        for host in has_it {
            host.home.note(&format!("{id}.txt"), &format!("Notes about {id}. They are short."));
        }
        let mut line = making(request(&id, ACTIVE, json!({})), &id);
        line["urgency"] = json!("scheduled");
        line["not_before"] = json!("2026-03-01T11:00:00Z");
        lines.extend_from_slice(format!("{line}\n").as_bytes());
    }
    hosts[1].home.append(&lines);
    let outcomes = wait_for_outcomes(&hosts[0], 164);
    assert!(outcomes.values().all(|count| *count == 1), "{outcomes:?}");
    let acks = hosts[0].home.acks();
    assert_eq!(acks.iter().filter(|ack| ack["status"] == "completed").count(), 162);
    let calls: Vec<usize> =
        models.iter().zip(before).map(|(model, before)| model.seen().len() - before).collect();
    println!("scheduled calls on each host: {calls:?}");
    assert_eq!(calls.iter().sum::<usize>(), 40 * each, "each call is made once");
    assert!(calls.iter().all(|count| *count >= 5 * each), "{calls:?}");
}

/// Each host counts what the others spent as soon as it has their commits, so all together stop at the budget of the day.
/// Only what was under way on the others can exceed it.
#[test]
fn the_budget_of_a_day_is_for_all_hosts() {
    let Some(servers) = Servers::start(0) else { return };
    let url = servers.url(&[servers.port(0)], "postgres:secret-word");
    let models = [model(), model()];
    // Each answer has 7 tokens, which cost 7 thousandths. As long as it is under way, 2.5 are reserved for it, so calls end
    // when 0.5 is spent.
    let of = |name, model: &Server| {
        let more = format!(
            "[budget]\nmax_cost_per_day = 3.0\n[workers]\ncount = 1\nmax_in_flight_per_provider = 2\n\
             [provider.slow]\nkind = \"openai\"\nbase_url = \"{}/v1\"\nmodel = \"m\"\nmax_tokens = 1000\nprice_in = 0\n\
             price_out = 1000\n[flow.\"{ACTIVE}\"]\nprovider = \"slow\"\n",
            model.base
        );
        Host::with(name, &url, &more)
    };
    let mut hosts = [of("a", &models[0]), of("b", &models[1])];
    hosts[0].json(&["cluster", "init"]).unwrap();
    hosts[1].json(&["cluster", "join"]).unwrap();
    hosts[0].serve();
    wait_for("a leads", || (hosts[0].role().as_deref() == Some("leader")).then_some(()));
    produce(&hosts, 0, 0..1, &[0, 1]);
    wait_for_outcomes(&hosts[0], 1);
    hosts[1].serve();
    the_leader_knows(&hosts, &[1]);
    let first = models[1].seen().len();
    produce(&hosts, 0, 2..101, &[0, 1]);
    let calls = || models.iter().map(|model| model.seen().len()).sum::<usize>();
    let mut before = (calls(), Instant::now());
    let calls = wait_for("no host calls any more", || {
        if calls() != before.0 {
            before = (calls(), Instant::now());
        }
        (before.1.elapsed() > Duration::from_secs(8)).then_some(before.0)
    });
    let acks = hosts[0].home.acks();
    assert!(calls > 40, "{calls} calls; the last ack: {:?}", acks.last());
    let spent = calls as f64 * 0.007;
    let under_way = 2.0 * 2.0 * 0.007;
    assert!(spent <= 0.5 + under_way, "{spent}");
    let each: Vec<usize> = models.iter().map(|model| model.seen().len()).collect();
    assert!(each[0] > 0 && each[1] > first, "both hosts call: {each:?}");
    assert!(hosts[0].outcomes().len() < 101, "the others wait for the next day");
    for host in &mut hosts {
        host.end(Signal::TERM);
    }
}
