//! The shared log on real PostgreSQL servers: one server for what it must answer and refuse, and a primary
//! with two standbys for what must survive.
//!
//! Without PostgreSQL the tests say so and pass; `SUMMARIZER_TEST_POSTGRES` names the folder of its programs
//! and demands that they run. `CI_DEEP=1` runs many more rounds.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a test stops at the first surprise"
)]

#[path = "postgres/copies.rs"]
mod copies;
#[path = "postgres/faults.rs"]
mod faults;
#[path = "postgres/forgetting.rs"]
mod forgetting;
#[path = "postgres/homes.rs"]
mod homes;
#[path = "support/server.rs"]
mod model_server;
#[path = "hosts/plain.rs"]
mod plain;
#[path = "postgres/proxy.rs"]
mod proxy;
#[path = "postgres/retaining.rs"]
mod retaining;
#[path = "postgres/server.rs"]
mod server;
#[path = "postgres/serving.rs"]
mod serving;
#[allow(dead_code, reason = "another test uses the rest")]
#[path = "hosts/simulated.rs"]
mod simulated;
mod support;
#[path = "hosts/vectors.rs"]
mod vectors;
#[path = "postgres/watching.rs"]
mod watching;
#[path = "postgres/working.rs"]
mod working;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use plain::{GENESIS, Plain};
use proxy::Proxy;
use server::Servers;
use simulated::{Connection, Database};
use summarizer::cluster::following::{Attempt, Following, Replica as _};
use summarizer::cluster::leadership::{LeadError, Leadership, Patience};
use summarizer::cluster::orders::{self, OrderDesk, OrderError};
use summarizer::cluster::postgres::{
    Access, Address, Cluster, Durability, FORMAT, Init, PostgresLog, initialize,
};
use summarizer::cluster::shared_jobs::SharedJobs as _;
use summarizer::cluster::shared_log::{SharedError, SharedLog as _};
use summarizer::cluster::shared_orders::{OrderAnswer, OrderStanding, SharedOrders as _};
use summarizer::cluster::standby::Connect;
use summarizer::contract::hash::Digest;
use summarizer::contract::ids::Seq;
use support::{Rng, deep};
use vectors::member;

const LEASE: Duration = Duration::from_millis(400);
/// Long enough for a busy machine.
const LONG: Duration = Duration::from_secs(60);

fn access(url: &str, log: &str, host: &str, durability: Durability) -> Access {
    let (log, host) = (log.to_owned(), host.to_owned());
    let address = Address::parse(url, None).unwrap();
    let roles = "lead,work".to_owned();
    let (start, rules) = (None, String::new());
    let (forgotten, bound) = (Arc::default(), Duration::from_secs(3));
    Access { address, log, host, start, rules, forgotten, roles, reads: FORMAT, durability, bound }
}

fn init(role: Option<&str>) -> Init {
    let (keys, role) = (vec![1, 2, 3], role.map(str::to_owned));
    Init { store_id: [7; 16], keys, seq: 0, hash: GENESIS, role }
}

fn log(access: &Access) -> PostgresLog {
    PostgresLog::new(access.clone()).unwrap()
}

fn refused<T: std::fmt::Debug>(answer: Result<T, SharedError>) -> String {
    match answer {
        Err(SharedError::Refused(why)) => why,
        other => panic!("it should be refused: {other:?}"),
    }
}

fn unclear<T: std::fmt::Debug>(answer: Result<T, SharedError>) -> String {
    match answer {
        Err(SharedError::Unclear(why)) => why,
        other => panic!("it should be unclear: {other:?}"),
    }
}

fn patience() -> Patience {
    let mut tries = 0;
    let mut last = Instant::now();
    Box::new(move || {
        tries = if last.elapsed() < Duration::from_secs(10) { tries + 1 } else { 0 };
        std::thread::sleep(Duration::from_millis(20));
        last = Instant::now();
        tries < 3000
    })
}

#[test]
fn the_simulated_list_does_what_every_list_must() {
    let database = Arc::new(Mutex::new(Database::new(1, GENESIS)));
    let mut open = |_: &str| Connection(Arc::clone(&database));
    let mut pass = |time: Duration| database.lock().clock_ms += time.as_millis() as u64;
    vectors::check(GENESIS, LEASE, &mut open, &mut pass);
    pass(LEASE * 3);
    vectors::check_lines(&mut open);
    vectors::check_jobs(LEASE, &mut open, &mut |time| {
        database.lock().clock_ms += time.as_millis() as u64;
    });
}

#[test]
fn one_server_answers_as_every_list_must_and_is_refused_when_it_cannot_be_trusted() {
    let Some(mut servers) = Servers::start(0) else { return };
    let url = servers.url(&[servers.port(0)], "postgres");
    let access_to = |log: &str| access(&url, log, "one", Durability::Single);

    // Before there are tables, and before there is a log.
    let team = access_to("team");
    let why = refused(log(&team).settle());
    assert!(why.contains("cluster init"), "{why}");
    let wary = Access { durability: Durability::Quorum, ..team.clone() };
    assert!(refused(initialize(&wary, &init(None))).contains("synchronous_standby_names"));
    let tables = "SELECT count(*) FROM pg_namespace WHERE nspname = 'summarizer'";
    assert_eq!(servers.sql(0, tables), ["0"], "a server that is refused gets no tables");
    an_owner_that_makes_no_roles_is_told(&servers);
    assert!(initialize(&team, &init(None)).unwrap().is_new);
    let again = initialize(&team, &init(None)).unwrap();
    assert!(!again.is_new && again.has_role, "a log is made once");
    let why = refused(log(&access_to("other")).settle());
    assert!(why.contains("no log `other`"), "{why}");

    let mut open = |host: &str| log(&access(&url, "team", host, Durability::Single));
    vectors::check(GENESIS, LEASE, &mut open, &mut |time| std::thread::sleep(time));

    let lines = access_to("lines");
    initialize(&lines, &init(None)).unwrap();
    vectors::check_lines(&mut |host| log(&access(&url, "lines", host, Durability::Single)));

    initialize(&access_to("jobs"), &init(None)).unwrap();
    let mut open = |host: &str| log(&access(&url, "jobs", host, Durability::Single));
    vectors::check_jobs(LEASE, &mut open, &mut |time| std::thread::sleep(time));

    // What a status shows.
    let standing = Cluster::new(team.clone()).unwrap().standing().unwrap();
    assert_eq!((standing.end.n, standing.store_id), (8, [7; 16]));
    assert_eq!((&*standing.keys, standing.forgotten), (&b"newer"[..], 7));
    assert!(standing.not_forgotten().eq(["one"]), "who leads forgot first");
    assert_eq!(standing.leader.unwrap().member, member("two", 1).to_string());
    let names: Vec<&str> = standing.hosts.iter().map(|host| host.host.as_str()).collect();
    assert_eq!(names, ["one", "two"]);
    assert!(Cluster::new(team.clone()).unwrap().forget("two").unwrap());

    word_comes_at_once(&team);
    a_newer_release_waits_for_the_older_hosts(&servers, &url);
    orders_are_carried_out_once(&servers, &url);
    roles_reach_their_own_logs(&servers, &team);
    untrustworthy_servers_are_refused(&servers, &url, &team);
    tls_is_checked(&servers, &team);
    a_server_that_hangs_is_given_up(&mut servers, &team);
}

/// A host that waits is told of a commit, and of jobs.
fn word_comes_at_once(team: &Access) {
    let (mut waits, mut leads) = (log(team), log(team));
    assert!(waits.wait_for_word(LONG).unwrap(), "something may have come before");
    assert!(!waits.wait_for_word(Duration::from_millis(200)).unwrap());
    let me = member("one", 8);
    std::thread::sleep(LEASE * 2);
    let claim = leads.claim(&me, LEASE).unwrap().unwrap();
    let told = std::thread::spawn(move || {
        let begun = Instant::now();
        assert!(waits.wait_for_word(LONG).unwrap());
        (waits, begun.elapsed())
    });
    std::thread::sleep(Duration::from_millis(100));
    let commit = vectors::next(&claim.end, b"word");
    leads.append(&claim, &commit, LEASE).unwrap();
    let (mut waits, after) = told.join().unwrap();
    assert!(after < Duration::from_secs(5), "{after:?}");
    leads.list(&me, &[1]).unwrap();
    let strict = Access { rules: "others".to_owned(), ..team.clone() };
    let claimed = log(&strict).claim_jobs(&member("two", 1), 9, LEASE).unwrap();
    assert!(claimed.is_empty(), "a host with other rules about data takes no work");
    for (rules, is_other) in [("others", true), (team.rules.as_str(), false)] {
        let worker = Access { host: "two".to_owned(), rules: rules.to_owned(), ..team.clone() };
        let mut worker = log(&worker);
        worker.settle().unwrap();
        worker.hold_jobs(&member("two", 1), 4, LEASE, &[]).unwrap();
        let others = leads.work_hosts(&me).unwrap();
        let found = others.iter().find(|other| other.host == "two").unwrap();
        assert_eq!((found.places, found.has_other_rules), (Some(4), is_other), "{rules:?}");
    }
    assert!(waits.wait_for_word(LONG).unwrap());
    leads.remove(&me, &[1]).unwrap();
    leads.release(&me).unwrap();
}

/// What a release adds is written only once no host is left that does not read it.
fn a_newer_release_waits_for_the_older_hosts(servers: &Servers, url: &str) {
    let of = |host: &str, reads: i32| {
        let access = access(url, "upgrade", host, Durability::Single);
        log(&Access { reads, ..access })
    };
    let (old, new) = (FORMAT, FORMAT + 1);
    initialize(&access(url, "upgrade", "one", Durability::Single), &init(None)).unwrap();
    let version = || servers.sql(0, "SELECT format FROM summarizer.heads WHERE log_id = 'upgrade'");
    let claim = |list: &mut PostgresLog, host: &str| {
        std::thread::sleep(LEASE * 2);
        list.claim(&member(host, 1), LEASE).unwrap().unwrap();
    };
    let (mut one, mut two) = (of("one", old), of("two", new));
    one.settle().unwrap();
    two.settle().unwrap();
    claim(&mut two, "two");
    assert_eq!(version(), [old.to_string()], "the other host reads the old one only");
    claim(&mut one, "one");
    // The last host is updated, and the next one that leads raises the log.
    let mut one = of("one", new);
    one.settle().unwrap();
    claim(&mut two, "two");
    assert_eq!(version(), [new.to_string()]);
    one.settle().unwrap();
    let why = refused(of("one", old).settle());
    assert!(why.contains("update this host"), "{why}");
}

/// An order has one taker, which is the host that leads.
fn orders_are_carried_out_once(servers: &Servers, url: &str) {
    initialize(&access(url, "orders", "one", Durability::Single), &init(None)).unwrap();
    let of = |host: &str| log(&access(url, "orders", host, Durability::Single));
    let [leads, follows] = ["one", "two"].map(|host| member(host, 1));
    let (mut desk, mut other) = (of("one"), of("two"));
    desk.claim(&leads, LONG).unwrap().unwrap();
    other.give(&follows, "a", b"pause").unwrap();
    other.give(&follows, "a", b"again").unwrap();
    other.give(&follows, "b", b"resume").unwrap();
    assert_eq!(other.order_standing("a").unwrap(), OrderStanding::Waits);
    assert!(other.take_orders(&follows).unwrap().is_empty(), "it does not lead");
    let taken = desk.take_orders(&leads).unwrap();
    let bytes: Vec<&[u8]> = taken.iter().map(|order| &*order.bytes).collect();
    assert_eq!(bytes, [&b"pause"[..], b"resume"]);
    assert_eq!(desk.take_orders(&leads).unwrap(), taken, "it may not have heard the answer");
    assert_eq!(other.order_standing("a").unwrap(), OrderStanding::Taken);
    assert!(!other.withdraw_order("a").unwrap(), "somebody has it");
    let answer = OrderAnswer { bytes: b"done".to_vec(), seq: Seq(5) };
    desk.answer_order(&leads, "a", &answer).unwrap();
    assert_eq!(other.order_standing("a").unwrap(), OrderStanding::Answered(answer.clone()));
    assert_eq!(desk.take_orders(&leads).unwrap(), taken[1..]);
    other.drop_order("a").unwrap();
    assert_eq!(other.order_standing("a").unwrap(), OrderStanding::Lost);
    // A giving that comes late.
    other.give(&follows, "a", b"pause").unwrap();
    assert_eq!(desk.take_orders(&leads).unwrap(), taken[1..]);

    // Who took the other one leads no more.
    desk.release(&leads).unwrap();
    std::thread::sleep(Duration::from_millis(20));
    other.claim(&follows, LONG).unwrap().unwrap();
    assert_eq!(other.order_standing("b").unwrap(), OrderStanding::Lost);
    assert!(other.take_orders(&follows).unwrap().is_empty(), "it may have been carried out");

    // What waited too long is taken by nobody.
    other.give(&follows, "c", b"pause").unwrap();
    servers
        .sql(0, "UPDATE summarizer.orders SET given = given - interval '1 minute' WHERE id = 'c'");
    assert!(other.take_orders(&follows).unwrap().is_empty());
    assert!(other.withdraw_order("c").unwrap());
    other.give(&follows, "c", b"pause").unwrap();
    servers.sql(0, "UPDATE summarizer.orders SET given = clock_timestamp() WHERE id = 'c'");
    assert!(other.take_orders(&follows).unwrap().is_empty(), "it was withdrawn");

    // The whole way, also when the answer cannot be delivered at first.
    let connect: Connect<PostgresLog> = {
        let access = access(url, "orders", "two", Durability::Single);
        Arc::new(move || PostgresLog::new(access.clone()))
    };
    let count = Arc::new(Mutex::new(0));
    let counted = Arc::clone(&count);
    let (sessions, port) = (Arc::new(AtomicU64::new(0)), servers.port(0));
    let cut = {
        let sessions = Arc::clone(&sessions);
        let url = servers.url(&[port], "postgres");
        move || {
            // The connection of the desk ends while it carries the order out.
            if sessions.fetch_add(1, Ordering::AcqRel) == 0 {
                end_all_connections(&url);
            }
        }
    };
    let carry_out = move |order: &[u8]| {
        *counted.lock() += 1;
        cut();
        OrderAnswer { bytes: [b"did ", order].concat(), seq: Seq(7) }
    };
    let desk =
        OrderDesk::start(Arc::clone(&connect), follows.clone(), Box::new(carry_out)).unwrap();
    for (id, order) in [("d", &b"one"[..]), ("e", b"two")] {
        let answer = orders::ask(&connect, &follows, id, order).unwrap();
        assert_eq!(answer, OrderAnswer { bytes: [b"did ", order].concat(), seq: Seq(7) });
    }
    desk.finish();
    assert_eq!(*count.lock(), 2);
    let left = "SELECT id FROM summarizer.orders WHERE log_id = 'orders' \
        AND (taker <> '-' OR question <> '' OR answer IS NOT NULL)";
    assert_eq!(servers.sql(0, left), ["b"], "no words are left of the others");
    let refused = orders::ask(&connect, &follows, "f", b"nobody takes it");
    assert!(matches!(refused, Err(OrderError::NotTaken)), "{refused:?}");
}

fn end_all_connections(url: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (client, connection) =
        runtime.block_on(tokio_postgres::connect(url, tokio_postgres::NoTls)).unwrap();
    runtime.spawn(connection);
    let end =
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()";
    runtime.block_on(client.simple_query(end)).unwrap();
}

/// A role reaches the logs that it was named for, and changes no commit.
fn roles_reach_their_own_logs(servers: &Servers, team: &Access) {
    servers.sql(0, "CREATE ROLE app LOGIN");
    let app = servers.url(&[servers.port(0)], "app");
    let shared = access(&app, "shared", "one", Durability::Single);
    let why = refused(log(&shared).settle());
    assert!(why.contains("permission denied") || why.contains("tables are missing"), "{why}");
    let owner = Access { log: "shared".to_owned(), ..team.clone() };
    assert!(initialize(&owner, &init(Some("app"))).unwrap().is_new);
    let mut open = |host: &str| log(&access(&app, "shared", host, Durability::Single));
    vectors::check(GENESIS, LEASE, &mut open, &mut |time| std::thread::sleep(time));
    vectors::check_lines(&mut |host| log(&access(&app, "shared", host, Durability::Single)));
    std::thread::sleep(LEASE * 2);
    vectors::check_jobs(LEASE, &mut open, &mut |time| std::thread::sleep(time));
    let foreign = access(&app, "team", "one", Durability::Single);
    assert!(refused(log(&foreign).settle()).contains("no log `team`"));
    for statement in [
        "DELETE FROM summarizer.commits",
        "UPDATE summarizer.commits SET packed = ''",
        "UPDATE summarizer.heads SET store_id = store_id",
        "INSERT INTO summarizer.access VALUES ('team', 'app')",
        "DROP TABLE summarizer.heads",
    ] {
        let tried = servers.try_sql(0, &format!("SET ROLE app; {statement}"));
        assert!(tried.is_none(), "{statement} should be refused");
    }
    let seen = "SET ROLE app; SELECT DISTINCT log_id FROM summarizer.commits";
    assert_eq!(servers.sql(0, seen), ["shared"]);
    rows_of_another_log_are_out_of_reach(servers, team);
}

/// Two roles with a log each: neither sees, adds, changes or removes a row of the other.
fn rows_of_another_log_are_out_of_reach(servers: &Servers, team: &Access) {
    servers.sql(0, "CREATE ROLE other LOGIN");
    let owner = Access { log: "theirs".to_owned(), ..team.clone() };
    initialize(&owner, &init(Some("other"))).unwrap();
    let theirs = servers.url(&[servers.port(0)], "other");
    let list = || log(&access(&theirs, "theirs", "one", Durability::Single));
    let me = member("one", 1);
    let claim = list().claim(&me, LEASE).unwrap().unwrap();
    list().append(&claim, &vectors::next(&claim.end, b"theirs"), LEASE).unwrap();
    list().list(&me, &[1]).unwrap();
    list().settle().unwrap();
    servers.sql(0, "INSERT INTO summarizer.lines VALUES ('theirs', 'one', 0, 1, 'x')");
    servers.sql(0, "INSERT INTO summarizer.reports VALUES ('theirs', 1, 0, 'x')");
    for table in ["heads", "commits", "keys", "hosts", "lines", "jobs", "reports", "access"] {
        let rows =
            format!("SELECT t::text FROM summarizer.{table} t WHERE log_id = 'theirs' ORDER BY 1");
        let before = servers.sql(0, &rows);
        assert!(!before.is_empty(), "{table} has rows of the other log");
        assert!(servers.sql(0, &format!("SET ROLE app; {rows}")).is_empty(), "{table} can be seen");
        for statement in [
            format!("UPDATE summarizer.{table} SET log_id = 'shared' WHERE log_id = 'theirs'"),
            format!("DELETE FROM summarizer.{table} WHERE log_id = 'theirs'"),
            format!("INSERT INTO summarizer.{table} SELECT (t).* FROM summarizer.{table} t"),
        ] {
            servers.try_sql(0, &format!("SET ROLE app; {statement}"));
            assert_eq!(servers.sql(0, &rows), before, "{statement}");
        }
    }
    for statement in [
        "INSERT INTO summarizer.commits SELECT 'theirs', 9, 1, 1, 1, h, h, 'x' FROM decode(repeat('ab', 32), 'hex') h",
        "INSERT INTO summarizer.lines VALUES ('theirs', 'one', 1, 1, 'x')",
        "INSERT INTO summarizer.jobs (log_id, job, leader, rules) VALUES ('theirs', 2, 'x', 'x')",
        "INSERT INTO summarizer.reports VALUES ('theirs', 1, 1, 'x')",
        "INSERT INTO summarizer.hosts (log_id, host, seen) VALUES ('theirs', 'two', now())",
    ] {
        let tried = servers.try_sql(0, &format!("SET ROLE app; {statement}"));
        assert!(tried.is_none(), "{statement} should be refused");
        assert!(
            servers.try_sql(0, statement).is_some(),
            "the owner of the tables can: {statement}"
        );
    }
    let mut theirs = list();
    theirs.settle().unwrap();
}

/// Hosts of a database whose owner may not create roles connect as the owner.
fn an_owner_that_makes_no_roles_is_told(servers: &Servers) {
    servers.sql(0, "CREATE ROLE limited LOGIN");
    servers.sql(0, "CREATE DATABASE limited OWNER limited");
    servers.sql(0, "CREATE ROLE stranger LOGIN");
    let stranger = servers.url(&[servers.port(0)], "stranger").replace("/postgres", "/limited");
    let stranger = access(&stranger, "team", "one", Durability::Single);
    let why = refused(initialize(&stranger, &init(None)));
    assert!(why.contains("cannot be made") && why.contains("cluster init --print"), "{why}");
    let url = servers.url(&[servers.port(0)], "limited").replace("/postgres", "/limited");
    let limited = access(&url, "team", "one", Durability::Single);
    let made = initialize(&limited, &init(None)).unwrap();
    assert!(made.is_new && !made.has_role, "{made:?}");
    let why = refused(initialize(&limited, &init(Some("limited"))));
    assert!(why.contains("may not create the role"), "{why}");
    let mut list = log(&limited);
    let claim = list.claim(&member("one", 1), LEASE).unwrap().unwrap();
    list.append(&claim, &vectors::next(&claim.end, b"first"), LEASE).unwrap();
}

fn untrustworthy_servers_are_refused(servers: &Servers, url: &str, team: &Access) {
    let quorum = Access { durability: Durability::Quorum, ..team.clone() };
    let why = refused(log(&quorum).settle());
    assert!(why.contains("synchronous_standby_names") && why.contains("single"), "{why}");

    servers.sql(0, "ALTER ROLE postgres SET synchronous_commit = off");
    let why = refused(log(team).settle());
    assert!(why.contains("synchronous_commit is `off`"), "{why}");
    servers.sql(0, "ALTER ROLE postgres RESET synchronous_commit");

    servers.sql(0, "UPDATE summarizer.heads SET format = 99 WHERE log_id = 'team'");
    let why = refused(log(team).settle());
    assert!(why.contains("version 99") && why.contains("update this host"), "{why}");
    servers.sql(0, "UPDATE summarizer.heads SET format = 1 WHERE log_id = 'team'");
    let why = refused(log(team).settle());
    assert!(why.contains("version 1") && why.contains("release by release"), "{why}");
    let now = format!("UPDATE summarizer.heads SET format = {FORMAT} WHERE log_id = 'team'");
    servers.sql(0, &now);

    servers.sql(0, "ALTER ROLE postgres SET default_transaction_read_only = on");
    let why = unclear(log(team).settle());
    assert!(why.contains("takes no writes"), "{why}");
    let again = "ALTER ROLE postgres RESET default_transaction_read_only";
    servers.sql(0, &format!("BEGIN READ WRITE; {again}; COMMIT"));

    // A server that does not have what it confirmed.
    let mut list = log(team);
    let leads = list.claim(&member("one", 9), LEASE).unwrap().unwrap();
    let lost = vectors::next(&leads.end, b"lost");
    list.append(&leads, &lost, LEASE).unwrap();
    servers.sql(0, "DELETE FROM summarizer.commits WHERE log_id = 'team' AND n = 10");
    servers.sql(
        0,
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'postgres' \
                    AND pid <> pg_backend_pid()",
    );
    unclear(list.settle());
    let why = refused(list.settle());
    assert!(why.contains("commit 10") && why.contains("lost commits"), "{why}");

    // Addresses that lead nowhere.
    let nowhere = url.replace(&servers.port(0).to_string(), "1");
    let why = unclear(log(&access(&nowhere, "team", "one", Durability::Single)).settle());
    assert!(why.contains("127.0.0.1:1"), "{why}");
    let unknown = url.replace("/postgres", "/nothing");
    let why = refused(log(&access(&unknown, "team", "one", Durability::Single)).settle());
    assert!(why.contains("nothing"), "{why}");
    // Of several servers, one is enough.
    let both = url.replace("127.0.0.1:", "127.0.0.1:1,127.0.0.1:");
    servers.sql(0, "UPDATE summarizer.heads SET n = 8 WHERE log_id = 'team'");
    log(&access(&both, "team", "one", Durability::Single)).settle().unwrap();
}

fn tls_is_checked(servers: &Servers, team: &Access) {
    let fixtures = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/tls");
    let url = servers.url(&[servers.port(0)], "postgres") + "?sslmode=verify-full";
    let ca = std::fs::read(fixtures.join("ca.pem")).unwrap();
    let trusting =
        |ca: Option<&[u8]>| Access { address: Address::parse(&url, ca).unwrap(), ..team.clone() };
    let why = refused(log(&trusting(Some(&ca))).settle());
    assert!(why.contains("does not offer TLS"), "{why}");
    servers.use_tls(0, &fixtures.join("server.pem"), &fixtures.join("server.key"));
    let until = Instant::now() + LONG;
    while let Err(error) = log(&trusting(Some(&ca))).settle() {
        assert!(Instant::now() < until, "{error}");
        std::thread::sleep(Duration::from_millis(50));
    }
    let why = refused(log(&trusting(None)).settle());
    assert!(why.contains("certificate is not trusted"), "{why}");
    // A certificate that has ended is refused, although its authority is trusted.
    servers.use_tls(0, &fixtures.join("expired.pem"), &fixtures.join("server.key"));
    let old = std::fs::read(fixtures.join("expired-ca.pem")).unwrap();
    let until = Instant::now() + LONG;
    loop {
        // The server takes the new file a moment later.
        let why = refused(log(&trusting(Some(&old))).settle());
        if why.contains("certificate has ended") {
            break;
        }
        assert!(why.contains("not trusted") && Instant::now() < until, "{why}");
        std::thread::sleep(Duration::from_millis(50));
    }
    servers.use_tls(0, &fixtures.join("server.pem"), &fixtures.join("server.key"));
}

fn a_server_that_hangs_is_given_up(servers: &mut Servers, team: &Access) {
    let short = Access { bound: Duration::from_millis(300), ..team.clone() };
    let mut list = log(&short);
    list.settle().unwrap();
    servers.pause(0, true);
    let started = Instant::now();
    unclear(list.settle());
    assert!(started.elapsed() < Duration::from_secs(3));
    // A new connection is accepted by the kernel and never answered.
    unclear(list.settle());
    assert!(started.elapsed() < Duration::from_secs(15));
    servers.pause(0, false);
    let until = Instant::now() + LONG;
    while list.settle().is_err() {
        assert!(Instant::now() < until, "the server goes on");
    }
}

/// A leader and what it saw confirmed.
struct Reign {
    log: Plain,
    leads: Leadership<PostgresLog>,
    confirmed: Vec<Digest>,
}

impl Reign {
    fn begin(access: &Access, start: u64, mut log: Plain) -> Reign {
        let me = member(&access.host, start);
        let until = Instant::now() + LONG;
        loop {
            assert!(Instant::now() < until, "{} cannot lead", access.host);
            let list = PostgresLog::new(access.clone()).unwrap();
            let following = Following::new(list, me.clone());
            match following.try_to_lead(&mut log, LEASE, patience()) {
                Ok(Attempt::Leads(leads)) => return Reign { log, leads, confirmed: Vec::new() },
                Ok(Attempt::Held(_)) => std::thread::sleep(Duration::from_millis(50)),
                Err(error) => {
                    let error = error.to_string();
                    assert!(error.contains("no answer from the shared log"), "{error}");
                    std::thread::sleep(Duration::from_millis(50));
                }
            }
        }
    }

    fn append(&mut self, content: &[u8]) -> Result<(), LeadError> {
        let commit = self.log.next(content);
        self.leads.append(&commit)?;
        self.confirmed.push(commit.hash);
        let Ok(_) = self.log.take(&commit.shipped);
        Ok(())
    }
}

/// Follows until the own log ends there.
fn follow_to(access: &Access, log: &mut Plain, head: &Plain) {
    let list = PostgresLog::new(access.clone()).unwrap();
    let mut following = Following::new(list, member(&access.host, 1));
    let until = Instant::now() + LONG;
    while log.head() != head.head() {
        assert!(Instant::now() < until, "{:?} never becomes {:?}", log.head(), head.head());
        match following.step(log) {
            Ok(true) => {}
            Ok(false) => std::thread::sleep(Duration::from_millis(20)),
            Err(error) => {
                let error = error.to_string();
                assert!(error.contains("no answer from the shared log"), "{error}");
            }
        }
    }
}

#[test]
fn no_commit_that_a_quorum_confirmed_is_lost() {
    let Some(mut servers) = Servers::start(2) else { return };
    let mut rng = Rng::new(21);
    let rounds = if deep() { 3000 } else { 80 };
    let ports = [0, 1, 2].map(|at| servers.port(at));
    let direct = servers.url(&ports, "postgres");
    let proxy = Proxy::start(ports[0]);
    let through = servers.url(&[proxy.port, ports[1], ports[2]], "postgres");
    let one = access(&through, "team", "one", Durability::Quorum);
    let two = access(&direct, "team", "two", Durability::Quorum);
    initialize(&two, &init(None)).unwrap();

    // Connections end in the middle of appends, and answers are lost.
    let mut reign = Reign::begin(&one, 1, Plain::default());
    let mut follower = Plain::default();
    for round in 0..rounds {
        match rng.below(5) {
            0 => proxy.cut(),
            1 => proxy.cut_after(1 + rng.below(6000)),
            2 => proxy.lose_answer(),
            3 if round % 4 == 0 => {
                let ends = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                            WHERE application_name = 'summarizer'";
                servers.sql(0, ends);
            }
            _ => {}
        }
        let content = vec![round as u8; rng.below(4000) as usize];
        match reign.append(&content) {
            Ok(()) => {}
            // The lease ended while connections did; nobody else claims here.
            Err(error) => panic!("round {round}: {error}"),
        }
        if round % 20 == 19 {
            follow_to(&two, &mut follower, &reign.log);
        }
    }
    println!("{rounds} appends, {} connections cut inside one", proxy.cuts());
    assert!(proxy.cuts() > rounds / 8, "without faults this shows nothing");

    let mut quiet = Reign::begin(&two, 3, follower);
    println!("{}", figures(&mut quiet));
    let Reign { log: mut follower, .. } = quiet;
    let mut reign = Reign::begin(&one, 2, reign.log);

    a_cancelled_wait_is_not_a_success(&servers, &mut reign, &two, &follower);
    follow_to(&two, &mut follower, &reign.log);

    // The primary dies while the leader appends, and a standby takes over.
    let (before, started) = (reign.log.hashes.len(), Instant::now());
    let leader = std::thread::spawn(move || {
        for content in 0u64..400 {
            reign.append(&content.to_le_bytes()).unwrap();
            std::thread::sleep(Duration::from_millis(2));
        }
        reign
    });
    std::thread::sleep(Duration::from_millis(300));
    servers.kill(0);
    let primary = servers.promote_best([1, 2]);
    println!("server s{primary} took over after {} ms", started.elapsed().as_millis() - 300);
    let reign = leader.join().unwrap();
    assert_eq!(reign.log.hashes.len(), before + 400);
    follow_to(&two, &mut follower, &reign.log);

    stale_leaders_are_kept_out(reign, [&two, &one], follower);
}

/// How long appends take that nothing disturbs.
fn figures(reign: &mut Reign) -> String {
    let mut timed = |bytes: usize, count: u32| {
        let mut took: Vec<Duration> = (0..count)
            .map(|_| {
                let started = Instant::now();
                reign.append(&vec![7; bytes]).unwrap();
                started.elapsed()
            })
            .collect();
        took.sort();
        (took[took.len() / 2], took.iter().sum::<Duration>())
    };
    let (small, _) = timed(300, 300);
    let (large, all) = timed(256 << 10, 60);
    let rate = 60.0 * 0.25 / all.as_secs_f64();
    format!("append of a small commit {small:?}, of 256 KiB {large:?} (medians), {rate:.0} MiB/s")
}

/// Somebody cancels the wait for the standbys: the commit is visible, and no success.
fn a_cancelled_wait_is_not_a_success(
    servers: &Servers,
    reign: &mut Reign,
    two: &Access,
    follower: &Plain,
) {
    let ends = reign.log.hashes.len();
    servers.pause(1, true);
    servers.pause(2, true);
    std::thread::scope(|scope| {
        let appended = scope.spawn(|| reign.append(b"cancelled"));
        let cancel = "SELECT pg_cancel_backend(pid) FROM pg_stat_activity \
                      WHERE application_name = 'summarizer' AND wait_event = 'SyncRep'";
        let until = Instant::now() + LONG;
        while servers.sql(0, cancel).is_empty() {
            assert!(Instant::now() < until, "nobody waits for the standbys");
            std::thread::sleep(Duration::from_millis(10));
        }
        // It is visible now, and a follower does not apply it.
        let mut early = follower.clone();
        let mut following = Following::new(log(two), member("two", 1));
        let error = following.step(&mut early).unwrap_err().to_string();
        assert!(error.contains("no answer"), "{error}");
        assert_eq!(early.hashes.len(), ends, "a commit without a quorum is not applied");
        assert!(!appended.is_finished(), "it waits for the standbys");
        servers.pause(1, false);
        servers.pause(2, false);
        appended.join().unwrap().unwrap();
    });
    assert_eq!(reign.log.hashes.len(), ends + 1, "and is there once");
}

/// Leaders that were stopped past their lease wake up, again and again, and append nothing.
fn stale_leaders_are_kept_out(mut reign: Reign, hosts: [&Access; 2], mut log: Plain) {
    let rounds = if deep() { 200 } else { 4 };
    let mut confirmed = std::mem::take(&mut reign.confirmed);
    for round in 0..rounds {
        let mut next = Reign::begin(hosts[round % 2], 100 + round as u64, log);
        assert_eq!(next.log.head(), reign.log.head());
        for content in 0u8..3 {
            next.append(&[content]).unwrap();
        }
        match reign.append(b"stale") {
            Err(LeadError::Deposed) => {}
            other => panic!("round {round}: a stale leader appended: {other:?}"),
        }
        confirmed.append(&mut next.confirmed);
        log = std::mem::replace(&mut reign, next).log;
    }
    println!("{rounds} stale leaders were kept out");
    let listed: BTreeSet<Digest> = reign.log.hashes.iter().copied().collect();
    assert!(confirmed.iter().all(|hash| listed.contains(hash)));
    assert_eq!(listed.len(), reign.log.hashes.len());
}
