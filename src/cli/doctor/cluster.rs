//! The log that this home shares with other hosts: the database, the leader, and how far this host is.

use super::{Context, Findings, Verdict};
use crate::cli::cluster::told_difference;
use crate::cli::ui;
use crate::cluster::access::access;
use crate::cluster::postgres::{Cluster, Durability, HostStanding, ServerHealth, Standing};
use crate::cluster::shared_log::SharedError;
use crate::config::Config;

const NAME: &str = "cluster";
/// A difference between clocks that is worth a word.
const CLOCK_MS_MAX: i64 = 2000;
/// A transaction that is open for longer makes the tables grow.
const OPEN_SECONDS_MAX: f64 = 600.0;
/// A host that follows is not this far behind.
const BEHIND_MAX: u64 = 100;
/// A host that runs says how far it is more often.
const SILENT_SECONDS_MAX: f64 = 60.0;

pub(super) fn look_at_cluster(context: &Context, config: &Config, findings: &mut Findings) {
    let Some(settings) = &config.cluster else { return };
    let access = match access(settings, context.machine.disk.as_ref()) {
        Ok(access) => access,
        Err(error) => return findings.wrong(NAME, error.to_string(), "summarizer config"),
    };
    let standing = Cluster::new(access.clone()).and_then(|mut cluster| cluster.standing());
    let standing = match standing {
        Ok(standing) => standing,
        Err(error) => {
            findings.wrong(NAME, error.to_string(), "summarizer cluster status");
            if matches!(error, SharedError::Unclear(_)) {
                findings.hint("check that the database runs and can be reached from this host");
            }
            return;
        }
    };
    let Standing { server, answered, end, leader, hosts, clock_ms, .. } = &standing;
    let quorum = match access.durability {
        Durability::Quorum => server.standbys.as_str(),
        Durability::Single => "this server alone",
    };
    let leads = leader.as_ref().filter(|leader| leader.lease_left >= 0.0);
    let leads = leads.map_or("nobody", |leader| leader.member.as_str());
    findings.fine(
        NAME,
        format!(
            "log {} at {answered} (PostgreSQL {}.{}, a commit needs {quorum}): {}; {leads} leads",
            access.log,
            server.version / 10_000,
            server.version % 10_000,
            ui::count(end.n, "commit"),
        ),
    );
    look_at_server(&standing, access.durability, findings);
    if let Some(told) = limits_together(config, hosts) {
        findings.fine(NAME, told);
    }
    let late = context.machine.clock.now().0 - clock_ms;
    if late.abs() > CLOCK_MS_MAX {
        let what = format!(
            "the clock of this host is {:.1} s {} that of the database",
            late.abs() as f64 / 1000.0,
            if late > 0 { "before" } else { "behind" }
        );
        findings.add(NAME, Verdict::Notice, what, "timedatectl status");
        findings.hint("leases use the clock of the database; records have the time of the leader");
    }
    let here = hosts.iter().find(|host| host.host == access.host);
    match here.and_then(|host| host.applied) {
        None => {
            let what = format!("the host {} has applied nothing yet", access.host);
            findings.add(NAME, Verdict::Notice, what, "summarizer cluster join");
        }
        Some(applied) if end.n.saturating_sub(applied) > BEHIND_MAX => {
            let behind = ui::count(end.n - applied, "commit");
            let what = format!("this host is {behind} behind");
            findings.add(NAME, Verdict::Notice, what, "summarizer cluster status");
        }
        Some(_) => {}
    }
    let others = hosts.iter().filter(|host| host.host != access.host);
    for host in
        others.filter(|host| end.n.saturating_sub(host.applied.unwrap_or(end.n)) > BEHIND_MAX)
    {
        let behind = ui::count(end.n - host.applied.unwrap_or(end.n), "commit");
        let what = format!("the host {} is {behind} behind", host.host);
        findings.add(NAME, Verdict::Notice, what, "summarizer cluster status");
    }
    for host in hosts.iter().filter(|host| host.silent > SILENT_SECONDS_MAX) {
        let what = format!("the host {} was not heard of for {:.0} s", host.host, host.silent);
        findings.add(NAME, Verdict::Notice, what, "summarizer cluster status");
        findings.hint(format!("if it left for good: `summarizer cluster leave {}`", host.host));
    }
    for host in standing.differing() {
        findings.wrong(NAME, told_difference(host), "summarizer cluster verify");
    }
    for host in standing.not_forgotten() {
        let what = format!("the host {host} may still hold what was forgotten");
        findings.add(NAME, Verdict::Notice, what, "summarizer cluster status");
        findings.hint(format!("start `summarizer serve` on {host}; it removes it"));
    }
    let release = env!("CARGO_PKG_VERSION");
    let others = hosts.iter().filter(|host| host.release.as_deref().is_some_and(|r| r != release));
    for host in others {
        let other = host.release.as_deref().unwrap_or_default();
        let what = format!("the host {} runs summarizer {other}, this one {release}", host.host);
        findings.add(NAME, Verdict::Notice, what, "summarizer cluster status");
    }
}

/// Each host counts the calls that it makes itself, so that no call waits for the database.
fn limits_together(config: &Config, hosts: &[HostStanding]) -> Option<String> {
    let works = |host: &&HostStanding| {
        let roles = host.roles.as_deref().unwrap_or_default();
        host.silent <= SILENT_SECONDS_MAX && roles.split(',').any(|role| role == "work")
    };
    let count = hosts.iter().filter(works).count() as u64;
    if count < 2 || config.providers.is_empty() {
        return None;
    }
    let mut told = vec![format!(
        "{} under way at one provider",
        ui::count(count * config.in_flight_per_provider as u64, "call")
    )];
    for (name, provider) in &config.providers {
        let limits =
            [(provider.requests_per_minute, "request"), (provider.tokens_per_minute, "token")];
        for (limit, noun) in limits {
            let all = limit.map(|limit| ui::count(count * u64::from(limit), noun));
            told.extend(all.map(|all| format!("{all} a minute at {name}")));
        }
    }
    Some(format!(
        "limits of providers count on each host: {count} hosts work, so together at most {}; the budget of a day is for \
         all hosts together",
        told.join(", ")
    ))
}

/// What the server does not say by itself before a disk is full or every host waits.
fn look_at_server(standing: &Standing, durability: Durability, findings: &mut Findings) {
    let ServerHealth { holding, oldest_transaction, .. } = &standing.health;
    if let Some(what) = standing.unconfirmed(durability) {
        findings.wrong(NAME, what, "psql -c 'SHOW synchronous_standby_names'");
        findings.hint("after a failover, name the servers that are standbys now");
    }
    if let Some(slots) = holding {
        let what = format!("more than 1 GiB of old write-ahead logs is kept for {slots}");
        findings.add(NAME, Verdict::Notice, what, "psql -c 'SELECT * FROM pg_replication_slots'");
        findings.hint("drop a slot whose standby is gone: pg_drop_replication_slot");
    }
    if *oldest_transaction > OPEN_SECONDS_MAX {
        let what = format!(
            "a transaction is open for {oldest_transaction:.0} s, and keeps old rows of all tables"
        );
        findings.add(NAME, Verdict::Notice, what, "psql -c 'SELECT * FROM pg_stat_activity'");
    }
}
