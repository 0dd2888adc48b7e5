//! `cluster`: a log that several hosts share. Make it, join it, look at it, say who leads, compare this home with
//! it, shorten it, leave it.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::causes::{held_by_another, log_failed, mark_failed};
use super::failure::{Exit, Failure};
use super::held_home::{HeldHome, is_forgetting, make_home};
use super::home_key::store_options;
use super::identity::{no_random_bytes, random_bytes};
use super::interrupt::{listen, stopped};
use super::lost_log::refuse_lost_log;
use super::settings::load_config;
use super::shared_home::{NOT_OF_THE_LOG, forgetting_unread};
use super::{Context, ui};
use crate::cluster::access::access;
use crate::cluster::following::{Following, MemberError};
use crate::cluster::postgres::{
    Access, Cluster, Durability, HostStanding, Init, Initialized, PostgresLog, SCHEMA, Standing,
    grants, initialize,
};
use crate::cluster::shared_log::{Member, SharedError, SharedLog as _};
use crate::cluster::verifying::{Agreed, VerifyError, verify};
use crate::config::ClusterConfig;
use crate::contract::hash::Digest;
use crate::contract::ids::Seq;
use crate::home::{Home, HomeLock};
use crate::log::{Fresh, FreshKeys, Reader, Store};
use crate::seam::position::QueueError;
use crate::sequencer::copies::{Copies, CopyError};
use crate::sequencer::follower::Follower;
use crate::sequencer::mark::QueueMarks;
use crate::service::StopSignal;
use crate::upkeep::following::FollowedHome;

/// How long a hand-over may take beside the grace period of attempts.
const HAND_OVER: Duration = Duration::from_secs(30);
/// How often it is looked for.
const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// A host that serves is heard of more often.
const SILENT_SECONDS: f64 = 10.0;

/// Share the log of this home with other hosts, through a PostgreSQL database
///
/// The section `[cluster]` of the settings says where the database is.
#[derive(Debug, Args)]
pub(crate) struct ClusterArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Make the shared log from this home, and the tables where they are missing
    Init {
        /// A role of the database that hosts connect as, if it does not own the tables
        #[arg(long)]
        role: Option<String>,
        /// Print the script of the tables, for an administrator, and do nothing. With `--role` it lets that role use the log
        #[arg(long)]
        print: bool,
    },
    /// Bring this home level with the shared log; a new home gets the whole log
    Join,
    /// Show who leads, and how far each host is
    Status,
    /// Ask the leader to hand over to a host, and wait until that host leads
    ///
    /// The leader ends in order, as at a stop, and then follows. The command exits with 4 when the host does not
    /// lead in time, and withdraws its request. It also withdraws it when it is interrupted or fails.
    Promote {
        /// The host [default: this one]
        host: Option<String>,
    },
    /// Check that the log of this home is a part of the shared log, record by record
    Verify,
    /// Remove the commits from the database that a backup has
    Trim {
        /// The backup, made with `summarizer backup` on a host of the cluster; keep it for hosts that join later
        backup: PathBuf,
    },
    /// Take a host off the list of hosts; its home stays whole
    Leave {
        /// The host [default: this one]
        host: Option<String>,
    },
}

impl ClusterArgs {
    pub(crate) fn run(&self, context: &Context) -> Result<Exit, Failure> {
        if let Action::Init { print: true, role } = &self.action {
            context.ui.raw(SCHEMA.as_bytes());
            if let Some(role) = role {
                context.ui.raw(grants(&shared(context)?.name, role).as_bytes());
            }
            return Ok(Exit::Done);
        }
        let (config, access) = settings(context)?;
        match &self.action {
            Action::Init { role, .. } => init(context, &access, role.as_deref()),
            Action::Join => join(context, &access),
            Action::Status => status(context, &config, &access),
            Action::Promote { host } => {
                promote(context, &access, host.as_deref().unwrap_or(&access.host))
            }
            Action::Verify => check(context, &access),
            Action::Trim { backup } => trim(context, &access, backup),
            Action::Leave { host } => {
                leave(context, &access, host.as_deref().unwrap_or(&access.host))
            }
        }
    }
}

fn shared(context: &Context) -> Result<ClusterConfig, Failure> {
    load_config(context)?.cluster.ok_or_else(|| {
        Failure::new(Exit::Config, "this home shares its log with no other host").hint(
            "set cluster.url_env to the variable with the address of the database, for example in summarizer.toml",
        )
    })
}

fn settings(context: &Context) -> Result<(ClusterConfig, Access), Failure> {
    let config = shared(context)?;
    let access = access(&config, context.machine.disk.as_ref());
    let access = access.map_err(|error| {
        Failure::new(Exit::Config, "the section [cluster] cannot be used").because(&error)
    })?;
    Ok((config, access))
}

fn shared_failed(access: &Access, error: &SharedError) -> Failure {
    let what = format!("the shared log `{}` at {}", access.log, access.address.shown());
    match error {
        SharedError::Unclear(_) => Failure::new(Exit::Storage, format!("{what} does not answer"))
            .because(error)
            .hint("check that the database runs and can be reached, and start the command again"),
        SharedError::Refused(_) => {
            Failure::new(Exit::Config, format!("{what} cannot be used")).because(error)
        }
    }
}

fn held(context: &Context) -> Result<HeldHome, Failure> {
    HeldHome::take(context, false)?.ok_or_else(|| {
        held_by_another(context).hint("stop the service of this home while the command runs")
    })
}

fn init(context: &Context, access: &Access, role: Option<&str>) -> Result<Exit, Failure> {
    let failed = |error: SharedError| shared_failed(access, &error);
    let held = held(context)?;
    let log = held.engine.log();
    let ((seq, hash), store_id, keys) = (log.head(), log.store_id(), log.keys());
    held.close()?;
    let init = Init { store_id, keys, seq: seq.0, hash, role: role.map(str::to_owned) };
    let Initialized { is_new, has_role } = initialize(access, &init).map_err(failed)?;
    let mut cluster = Cluster::new(access.clone()).map_err(failed)?;
    let standing = cluster.standing().map_err(failed)?;
    let is_part =
        standing.store_id == store_id && cluster.list().find(seq, hash).map_err(failed)?.is_some();
    if !is_part {
        let what = format!("the database has another log `{}` already", access.log);
        return Err(Failure::new(Exit::Config, what).hint(
            "choose another cluster.name, or run `summarizer cluster join` in a new home to use that log",
        ));
    }
    if context.ui.json {
        context.ui.json(&json!({
            "log": access.log, "new": is_new, "seq": standing.start.seq.0, "role": role, "roles_allowed": has_role,
        }));
        return Ok(Exit::Done);
    }
    let was = if is_new { "made" } else { "there already" };
    context.ui.out(format!("log {} {was}; its list begins after record {seq}", access.log));
    if !has_role {
        let why = "only the owner of the tables can use them, because it may not create roles: let the hosts connect as it";
        context.ui.talk(ui::dim(why));
    }
    if standing.start.seq > Seq::ZERO {
        context.ui.talk(ui::dim(
            "other hosts start from a backup of this home: `summarizer backup DIR`, then `summarizer cluster join` there",
        ));
    }
    Ok(Exit::Done)
}

/// Lines that another host has taken in are no lines of this one.
fn refuse_copied_queue(
    context: &Context,
    home: &Home,
    access: &Access,
    log: &Reader,
) -> Result<(), Failure> {
    let marks = QueueMarks::decode(&log.mark()).map_err(|error| mark_failed(&error))?;
    let mut copies = Copies::new(access.host.clone());
    match copies.refuse(log, &marks, &context.machine.disk, &home.queue) {
        Ok(()) => Ok(()),
        Err(error @ CopyError::Queue(QueueError::Copied { .. })) => {
            let what = "the queue of this home is a copy";
            Err(Failure::new(Exit::Config, what).because(&error).hint("then join again"))
        }
        Err(error) => {
            Err(Failure::new(Exit::Input, "cannot inspect the queue file").because(&error))
        }
    }
}

fn join(context: &Context, access: &Access) -> Result<Exit, Failure> {
    let failed = |error: SharedError| shared_failed(access, &error);
    let home = Home::new(&context.home, &load_config(context)?);
    make_home(context, &home)?;
    let standing = Cluster::new(access.clone()).and_then(|mut cluster| cluster.standing());
    let standing = standing.map_err(failed)?;
    let disk = &context.machine.disk;
    let lock = HomeLock::try_take(disk.as_ref(), &home, std::process::id());
    let lock =
        lock.map_err(|error| Failure::new(Exit::Storage, "cannot lock the home").because(&error))?;
    let lock = lock.ok_or_else(|| {
        held_by_another(context)
            .hint("a running service follows by itself; stop it to join by hand")
    })?;
    refuse_lost_log(context, &home)?;
    let store = store_of(context, &home, &standing, access)?;
    let (before, _) = store.head();
    if before < standing.start.seq {
        let what = format!(
            "the list begins after record {}, and this home ends at record {before}",
            standing.start.seq
        );
        return Err(Failure::new(Exit::Input, what).hint(
            "run `summarizer backup DIR` on a host of the cluster, and join with that copy as the home",
        ));
    }
    let bar = context.ui.progress("joining", standing.end.seq.0);
    let follower = Follower::open(store, context.machine.clock.now(), &mut |_| {})
        .map_err(|error| Failure::new(Exit::Storage, "cannot open the log").because(&error))?;
    let mut follower = follower.with(FollowedHome::new(&context.machine.disk, &home));
    let list = PostgresLog::new(access.clone()).map_err(failed)?;
    let mut following = Following::new(list, me(access)?);
    loop {
        match following.step(&mut follower) {
            Ok(false) => break,
            Ok(true) => bar.set_position(follower.head().0.0),
            Err(MemberError::Shared(error)) => return Err(shared_failed(access, &error)),
            Err(error) => {
                let what = "this home cannot follow the shared log";
                let failure = Failure::new(Exit::Storage, what).because(&error);
                return Err(match error {
                    MemberError::Differs { .. } => failure.hint(NOT_OF_THE_LOG),
                    _ => failure,
                });
            }
        }
    }
    bar.finish_and_clear();
    let (head, hash) = follower.head();
    let is_own = refuse_copied_queue(context, &home, access, follower.log());
    follower.into_store().close().map_err(|error| log_failed(&error))?;
    drop(lock);
    // Writes the acks, and forgets what the log said.
    held(context)?.close()?;
    is_own?;
    let is_clean = !is_forgetting(context, &home).map_err(|error| forgetting_unread(&error))?;
    if is_clean {
        tell_forgotten(access, head).map_err(failed)?;
    }
    if context.ui.json {
        context.ui.json(&json!({
            "log": access.log, "host": access.host, "seq": head.0, "hash": hash.hex(),
            "records": head.0 - before.0,
        }));
        return Ok(Exit::Done);
    }
    let records = ui::count(head.0 - before.0, "record");
    context.ui.out(format!("{} took {records}, and ends at record {head}", access.host));
    Ok(Exit::Done)
}

/// Says that nothing is left here of what was forgotten up to this record.
fn tell_forgotten(access: &Access, head: Seq) -> Result<(), SharedError> {
    let forgotten = Arc::new(OnceLock::from(head));
    PostgresLog::new(Access { forgotten, ..access.clone() })?.settle()
}

/// The log of the home, made with the identity of the shared log when it is missing or has no record yet.
fn store_of(
    context: &Context,
    home: &Home,
    standing: &Standing,
    access: &Access,
) -> Result<Store, Failure> {
    let (disk, path) = (&context.machine.disk, home.store());
    let open = || {
        let options = store_options(context, &load_config(context)?, &path)?;
        let keys = FreshKeys::Copied(standing.keys.clone());
        let fresh = Fresh { store_id: standing.store_id, keys };
        Store::open(disk.clone(), &path, options, fresh, &mut |_| {})
            .map_err(|error| log_failed(&error))
    };
    let store = open()?;
    if store.reader().store_id() == standing.store_id {
        return Ok(store);
    }
    if store.head().0 > Seq::ZERO {
        let what = format!("this home has a log of its own, which is not the log `{}`", access.log);
        return Err(Failure::new(Exit::Input, what).hint("join with a new home: `summarizer init`"));
    }
    let keys = store.keys_file();
    store.close().map_err(|error| log_failed(&error))?;
    disk.remove_file(&path).and_then(|()| disk.remove_file(&keys)).map_err(|error| {
        Failure::new(Exit::Storage, "cannot remove the empty log").because(&error)
    })?;
    open()
}

fn me(access: &Access) -> Result<Member, Failure> {
    let bytes = random_bytes::<16>().map_err(|error| no_random_bytes(&error))?;
    let start = bytes.iter().take(8).fold(0, |start, byte| start << 8 | u64::from(*byte));
    Ok(Member { host: access.host.clone(), start })
}

fn status(context: &Context, config: &ClusterConfig, access: &Access) -> Result<Exit, Failure> {
    let standing = Cluster::new(access.clone()).and_then(|mut cluster| cluster.standing());
    let standing = standing.map_err(|error| shared_failed(access, &error))?;
    let Standing { server, answered, epoch, leader, end, start, hosts, .. } = &standing;
    let release = format!("{}.{}", server.version / 10_000, server.version % 10_000);
    let lag = |host: &HostStanding| host.applied.map(|applied| end.n.saturating_sub(applied));
    let unconfirmed = standing.unconfirmed(access.durability);
    if context.ui.json {
        let hosts: Vec<_> = hosts
            .iter()
            .map(|host| {
                json!({
                    "host": host.host, "release": host.release, "shipped": host.shipped,
                    "applied": host.applied, "lag": lag(host), "silent_seconds": host.silent,
                    "attempts": host.attempts, "places": host.places, "forgotten": host.forgotten,
                    "agrees": host.agrees,
                    "roles": host.roles.as_ref().map(|roles| roles.split(',').collect::<Vec<_>>()),
                })
            })
            .collect();
        let leader = leader.as_ref().map(|leader| {
            json!({
                "member": leader.member, "lease_seconds": leader.lease_left,
                "holds": leader.lease_left >= 0.0,
            })
        });
        context.ui.json(&json!({
            "log": access.log, "host": access.host, "server": answered, "postgresql": release,
            "synchronous_standby_names": server.standbys, "synchronous_commit": server.commit,
            "epoch": epoch, "leader": leader, "successor": standing.successor,
            "end": {"commit": end.n, "seq": end.seq.0, "hash": end.hash.hex()},
            "start": {"commit": start.n, "seq": start.seq.0}, "hosts": hosts,
            "forgotten": standing.forgotten, "not_forgotten": standing.not_forgotten().collect::<Vec<_>>(),
            "differing": standing.differing().collect::<Vec<_>>(), "unconfirmed": unconfirmed,
        }));
        return Ok(Exit::Done);
    }
    context.ui.out(format!(
        "log      {}: {} in {}",
        access.log,
        ui::count(end.seq.0, "record"),
        ui::count(end.n, "commit")
    ));
    let quorum = match access.durability {
        Durability::Quorum => format!("a commit needs {}", server.standbys),
        Durability::Single => "a commit needs this server alone".to_owned(),
    };
    context.ui.out(format!("server   {answered}, PostgreSQL {release}; {quorum}"));
    let led = match leader {
        None => "nobody has led yet".to_owned(),
        Some(leader) if leader.lease_left >= 0.0 => {
            format!("{}, for {:.1} s more", leader.member, leader.lease_left)
        }
        Some(leader) => {
            format!("nobody; {} led until {:.0} s ago", leader.member, -leader.lease_left)
        }
    };
    let lease = config.lease_ms as f64 / 1000.0;
    context.ui.out(format!("leader   {led} (epoch {epoch}, leases of {lease} s)"));
    let rows: Vec<Vec<String>> = hosts
        .iter()
        .map(|host| {
            let known = |number: Option<u64>| number.map_or("-".to_owned(), |n| n.to_string());
            vec![
                host.host.clone(),
                host.release.clone().unwrap_or_else(|| "-".to_owned()),
                known(host.shipped),
                known(host.applied),
                known(lag(host)),
                host.places
                    .map_or("-".to_owned(), |places| format!("{} of {places}", host.attempts)),
                format!("{:.0} s ago", host.silent.max(0.0)),
            ]
        })
        .collect();
    context.ui.table(&["HOST", "RELEASE", "SHIPPED", "APPLIED", "BEHIND", "WORK", "SEEN"], &rows);
    if let Some(why) = &unconfirmed {
        context.ui.out(format!("{} {why}", ui::red("every host waits:")));
    }
    for host in standing.differing() {
        context.ui.out(format!("{} {}", ui::red("different:"), told_difference(host)));
    }
    for host in standing.not_forgotten() {
        context.ui.out(format!(
            "{host} may still hold what was forgotten; its service removes it when it runs"
        ));
    }
    Ok(Exit::Done)
}

/// What is said of a host that applied something else than the list has.
pub(super) fn told_difference(host: &str) -> String {
    format!(
        "the log of {host} is no part of the list; run `summarizer cluster verify` there before anything else"
    )
}

fn check(context: &Context, access: &Access) -> Result<Exit, Failure> {
    let failed = |error: &SharedError| shared_failed(access, error);
    let held = held(context)?;
    let log = held.engine.log();
    let mut cluster = Cluster::new(access.clone()).map_err(|error| failed(&error))?;
    let standing = cluster.standing().map_err(|error| failed(&error))?;
    let head = log.head();
    let bar = context.ui.progress("comparing", standing.end.seq.0 - standing.start.seq.0);
    let mut hash_at = |seq| Ok(log.get(seq)?.map(|record| record.hash));
    let found = verify(cluster.list(), standing.start, head, &mut hash_at, &mut |records| {
        bar.set_position(records);
    });
    bar.finish_and_clear();
    // The list has what the hashes of this home say; this makes sure that they say what it holds.
    let own = log.verify(Seq(1), None, &mut |_| {}).map(|_| ());
    let found = match (found, own) {
        (Err(VerifyError::Shared(error)), _) => return Err(failed(&error)),
        (Ok(_), Err(error)) => Err(VerifyError::Log(error)),
        (found, _) => found,
    };
    held.close()?;
    let Agreed { commits, records, place, end } = match found {
        Ok(agreed) => agreed,
        Err(error) => {
            if context.ui.json {
                context
                    .ui
                    .json(&json!({"ok": false, "log": access.log, "damage": error.to_string()}));
            } else {
                context.ui.out(format!("{} {error}", ui::red("different:")));
            }
            return Ok(Exit::Wrong);
        }
    };
    // What the others said of themselves. Only a check in their own homes reads their records.
    let differing: Vec<&str> = standing.differing().filter(|host| *host != access.host).collect();
    let exit = if differing.is_empty() { Exit::Done } else { Exit::Wrong };
    if context.ui.json {
        context.ui.json(&json!({
            "ok": differing.is_empty(), "log": access.log, "commits": commits, "records": records,
            "seq": head.0.0, "hash": head.1.hex(), "commit": place.n, "behind": end.n - place.n,
            "differing": differing,
        }));
        return Ok(exit);
    }
    context.ui.out(format!(
        "{} {} in {}; this home ends at record {}, {} behind",
        ui::green("the same:"),
        ui::count(records, "record"),
        ui::count(commits, "commit"),
        head.0,
        ui::count(end.n - place.n, "commit")
    ));
    for host in differing {
        context.ui.out(format!("{} {}", ui::red("different:"), told_difference(host)));
    }
    Ok(exit)
}

fn trim(context: &Context, access: &Access, backup: &Path) -> Result<Exit, Failure> {
    let failed = |error: SharedError| shared_failed(access, &error);
    let (seq, hash) = end_of_backup(context, backup)?;
    let mut cluster = Cluster::new(access.clone()).map_err(failed)?;
    let standing = cluster.standing().map_err(failed)?;
    let start = cluster.list().find(seq, hash).map_err(failed)?.ok_or_else(|| {
        let what =
            format!("the backup {} is not one of the log `{}`", backup.display(), access.log);
        Failure::new(Exit::Input, what)
            .hint("make one on a host of the cluster: `summarizer backup DIR`")
    })?;
    let behind = |host: &&HostStanding| host.applied.is_none_or(|applied| applied < start.n);
    if let Some(HostStanding { host, .. }) = standing.hosts.iter().find(behind) {
        let what = format!("the host {host} has not applied all that the backup has");
        return Err(Failure::new(Exit::Busy, what).hint(format!(
            "wait until it has, or take it off the list with `summarizer cluster leave {host}`"
        )));
    }
    cluster.trim(&start).map_err(failed)?;
    let removed = start.n.saturating_sub(standing.start.n);
    if context.ui.json {
        context.ui.json(&json!({
            "log": access.log, "removed": removed, "start": {"commit": start.n, "seq": start.seq.0},
        }));
        return Ok(Exit::Done);
    }
    let commits = ui::count(removed, "commit");
    context.ui.out(format!("removed {commits}; the list begins after record {seq}"));
    context.ui.talk(ui::dim("keep the backup: a host that joins later starts from it"));
    Ok(Exit::Done)
}

/// The last record of a backup and its hash.
fn end_of_backup(context: &Context, backup: &Path) -> Result<(Seq, Digest), Failure> {
    let failed = |why: String| {
        let what = format!("{} is not a whole backup", backup.display());
        let failure = Failure::new(Exit::Input, format!("{what}: {why}"));
        failure.hint("name a folder that `summarizer backup` made")
    };
    let manifest = context.machine.disk.read(&backup.join("backup.json"));
    let manifest = manifest.map_err(|error| failed(error.to_string()))?;
    let manifest: Value =
        serde_json::from_slice(&manifest).map_err(|error| failed(error.to_string()))?;
    let seq = manifest["log"]["head"].as_u64();
    let hash = manifest["log"]["hash"].as_str().and_then(|hash| hash.parse().ok());
    match (seq, hash, manifest["verified"] == true) {
        (Some(seq), Some(hash), true) => Ok((Seq(seq), hash)),
        _ => Err(failed("its manifest does not say where it ends".to_owned())),
    }
}

fn promote(context: &Context, access: &Access, host: &str) -> Result<Exit, Failure> {
    let failed = |error: SharedError| shared_failed(access, &error);
    let mut cluster = Cluster::new(access.clone()).map_err(failed)?;
    let standing = cluster.standing().map_err(failed)?;
    let before = standing.leads().map(str::to_owned);
    if before.as_deref() == Some(host) {
        return Ok(promoted(context, access, host, before.as_deref()));
    }
    may_lead(access, &standing, host)?;
    let grace = Duration::from_millis(load_config(context)?.shutdown_grace_ms.unsigned_abs());
    let stop = listen(context, "the request is withdrawn", || ())?;
    let named = cluster.list().name_successor(Some(host)).map_err(failed);
    let leads = named.and_then(|()| leads_within(grace, access, &mut cluster, host, &stop));
    if let Err(failure) = leads {
        // Whatever went wrong, the host must not take the lead later, when nobody waits for it.
        if let Err(error) = cluster.list().name_successor(None) {
            let why = shared_failed(access, &error).in_short();
            context.ui.complain(format!("{host} may still take the lead: {why}"));
        }
        return Err(failure);
    }
    Ok(promoted(context, access, host, before.as_deref()))
}

/// Waits until the host that was named leads.
fn leads_within(
    grace: Duration,
    access: &Access,
    cluster: &mut Cluster,
    host: &str,
    stop: &StopSignal,
) -> Result<(), Failure> {
    let until = Instant::now() + grace + HAND_OVER;
    loop {
        std::thread::sleep(LOOK_AGAIN);
        let standing = match cluster.standing() {
            Ok(standing) => standing,
            Err(SharedError::Unclear(_)) if Instant::now() < until && !stop.is_raised() => continue,
            Err(error) => return Err(shared_failed(access, &error)),
        };
        if standing.leads() == Some(host) {
            return Ok(());
        }
        let now = standing.leads().map_or("nobody leads".to_owned(), |one| format!("{one} leads"));
        if stop.is_raised() {
            return Err(stopped(
                format!("{host} does not lead; {now}"),
                "run the same command again",
            ));
        }
        if Instant::now() >= until {
            let what =
                format!("{host} does not lead after {} s; {now}", (grace + HAND_OVER).as_secs());
            return Err(Failure::new(Exit::Busy, what).hint(format!(
                "look at the service of {host}: `summarizer cluster status` says how far it is"
            )));
        }
    }
}

/// Says that the host leads.
fn promoted(context: &Context, access: &Access, host: &str, before: Option<&str>) -> Exit {
    if context.ui.json {
        context.ui.json(&json!({"log": access.log, "leader": host, "before": before}));
        return Exit::Done;
    }
    context.ui.out(match before {
        Some(before) if before == host => format!("{host} leads already"),
        Some(before) => format!("{host} leads now; {before} led before"),
        None => format!("{host} leads now"),
    });
    Exit::Done
}

/// Refuses a host that cannot lead now.
fn may_lead(access: &Access, standing: &Standing, host: &str) -> Result<(), Failure> {
    let found = standing.hosts.iter().find(|one| one.host == host);
    let found = found.ok_or_else(|| no_host(access, standing, host))?;
    let roles = found.roles.as_deref().unwrap_or_default();
    if !roles.split(',').any(|role| role == "lead") {
        let what = format!("{host} may not lead: its roles are {roles}");
        return Err(Failure::new(Exit::Input, what)
            .hint(format!("add \"lead\" to cluster.roles on {host}, and restart its service")));
    }
    if found.silent > SILENT_SECONDS {
        let what = format!("{host} was not heard of for {:.0} s", found.silent);
        return Err(Failure::new(Exit::Busy, what)
            .hint(format!("start its service first: `summarizer serve` on {host}")));
    }
    Ok(())
}

fn no_host(access: &Access, standing: &Standing, host: &str) -> Failure {
    let known: Vec<_> = standing.hosts.iter().map(|host| host.host.as_str()).collect();
    Failure::new(Exit::Input, format!("the log `{}` has no host {host}", access.log))
        .hint(format!("it has {}", known.join(", ")))
}

fn leave(context: &Context, access: &Access, host: &str) -> Result<Exit, Failure> {
    let failed = |error: SharedError| shared_failed(access, &error);
    let mut cluster = Cluster::new(access.clone()).map_err(failed)?;
    let standing = cluster.standing().map_err(failed)?;
    if standing.leads() == Some(host) {
        let what = format!("{host} leads now");
        return Err(Failure::new(Exit::Busy, what).hint(
            "stop its service first, or let another host lead: `summarizer cluster promote HOST`",
        ));
    }
    let runs = |one: &&HostStanding| one.host == host && one.runs && one.silent < SILENT_SECONDS;
    if standing.hosts.iter().any(|one| runs(&one)) {
        let what = format!("the service of {host} runs, and would join again");
        return Err(Failure::new(Exit::Busy, what)
            .hint("stop it there, and remove [cluster] from the settings of that home"));
    }
    let was_there = cluster.forget(host).map_err(failed)?;
    if !was_there {
        return Err(no_host(access, &standing, host));
    }
    match context.ui.json {
        true => context.ui.json(&json!({"log": access.log, "left": host})),
        false => {
            context.ui.out(format!("{host} left the log {}", access.log));
            context.ui.talk(ui::dim(
                "remove [cluster] from its settings before its service starts again; its home is whole",
            ));
        }
    }
    Ok(Exit::Done)
}
