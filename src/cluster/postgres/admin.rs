//! What people ask of a log in the database: make it, and say how it and its hosts are.

use tokio::runtime::Runtime;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::cluster::shared_log::{End, SharedError};
use crate::contract::hash::Digest;
use crate::work::other_hosts::SeenHost;

use super::rows::{blob, end, number, odd, signed, text};
use super::session::Session;
use super::{Access, Durability, FACTS, FORMAT, PostgresLog, suits};

/// The tables, as a script.
pub const SCHEMA: &str = include_str!("schema.sql");

/// What a server says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerFacts {
    /// As in 150004 for 15.4.
    pub version: i64,
    pub is_standby: bool,
    pub is_read_only: bool,
    /// `synchronous_commit`.
    pub commit: String,
    /// `synchronous_standby_names`.
    pub standbys: String,
    pub has_tables: bool,
    /// Whether it waits for its disk.
    pub syncs: bool,
}

pub(super) fn server_facts(
    runtime: &Runtime,
    session: &mut Session,
) -> Result<ServerFacts, SharedError> {
    let rows = session.read(runtime, FACTS, &[])?;
    let row =
        rows.first().ok_or_else(|| SharedError::Unclear("no answer to a question".to_owned()))?;
    let flag = |at| row.try_get::<_, bool>(at).map_err(|error| odd(&error));
    Ok(ServerFacts {
        version: row.try_get(0).map_err(|error| odd(&error))?,
        is_standby: flag(1)?,
        is_read_only: text(row, 2)? == "on",
        commit: text(row, 3)?,
        standbys: text(row, 4)?,
        has_tables: flag(5)?,
        syncs: text(row, 6)? == "on",
    })
}

/// A log comes with its keys or not at all.
const ADD_LOG: &str = "WITH log AS (INSERT INTO summarizer.heads (log_id, format, store_id, epoch, lease_until, n, seq, \
        hash, trimmed, trimmed_seq, trimmed_hash) \
        VALUES ($1, $2, $3, 0, clock_timestamp(), 0, $4, $5, 0, $4, $5) \
        ON CONFLICT (log_id) DO NOTHING RETURNING log_id, n), \
    keys AS (INSERT INTO summarizer.keys (log_id, keys) SELECT log_id, $6 FROM log \
        ON CONFLICT (log_id) DO UPDATE SET keys = EXCLUDED.keys) \
    SELECT n FROM log";

const KEYS: &str = "SELECT keys, forgotten FROM summarizer.keys WHERE log_id = $1";

const ADD_ROLE: &str = "INSERT INTO summarizer.access (log_id, role) VALUES ($1, $2::text::name) \
    ON CONFLICT (log_id, role) DO NOTHING RETURNING 0::int8";

/// What a role that is not of the administrators can see: it may miss transactions of others.
const HEALTH: &str = "SELECT (SELECT count(*) FROM pg_stat_replication), \
    (SELECT CASE WHEN count(sync_state) = count(*) THEN count(*) FILTER (WHERE sync_state IN ('sync', 'quorum')) END \
        FROM pg_stat_replication), \
    coalesce((SELECT extract(epoch FROM max(clock_timestamp() - query_start)) FROM pg_stat_activity \
        WHERE wait_event = 'SyncRep'), 0)::float8, \
    (SELECT string_agg(slot_name::text, ', ' ORDER BY slot_name) FROM pg_replication_slots \
        WHERE pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn) > 1024 * 1024 * 1024), \
    coalesce((SELECT extract(epoch FROM max(clock_timestamp() - xact_start)) FROM pg_stat_activity \
        WHERE backend_xmin IS NOT NULL AND pid <> pg_backend_pid()), 0)::float8";

/// A standby confirms within less.
const WAITS_MAX: f64 = 3.0;

/// How the server is beside the log.
#[derive(Debug, Clone, PartialEq)]
pub struct ServerHealth {
    /// How many other servers get its commits now.
    pub standbys: u64,
    /// How many of them its commits may wait for; `None` when this role may not see it.
    pub synchronous: Option<u64>,
    /// Seconds that a commit of this role has waited for a standby.
    pub waits: f64,
    /// Slots that make it keep more than a gigabyte of old write-ahead logs.
    pub holding: Option<String>,
    /// Seconds since the oldest open transaction began. It keeps old rows.
    pub oldest_transaction: f64,
}

/// Roles belong to the whole server, and what they may do to a database.
const HAS_ROLE: &str = "SELECT EXISTS (SELECT FROM pg_roles WHERE rolname = 'summarizer_host' \
    AND has_schema_privilege(oid, 'summarizer', 'USAGE'))";

const NAME_ROLE: &str = "SELECT set_config('summarizer.role', $1, false)";

/// The server quotes the name.
const GRANT_ROLE: &str = "DO $$ BEGIN EXECUTE format('GRANT summarizer_host TO %I', current_setting('summarizer.role')); END $$";

/// What an administrator runs after the tables are made, so that a role can use a log.
pub fn grants(log: &str, role: &str) -> String {
    let [name, log_word, role_word] = [
        format!("\"{}\"", role.replace('"', "\"\"")),
        format!("'{}'", log.replace('\'', "''")),
        format!("'{}'", role.replace('\'', "''")),
    ];
    format!(
        "\nGRANT summarizer_host TO {name};\nINSERT INTO summarizer.access (log_id, role) VALUES ({log_word}, {role_word}) \
         ON CONFLICT DO NOTHING;\n"
    )
}

/// What a log begins with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Init {
    pub store_id: [u8; 16],
    /// The file of the keys that its bodies are sealed with.
    pub keys: Vec<u8>,
    /// The last record of the home and its hash.
    pub seq: u64,
    pub hash: Digest,
    /// A role that hosts connect as, if it is not the owner of the tables.
    pub role: Option<String>,
}

/// What is there after [`initialize`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Initialized {
    /// Whether the log was made now.
    pub is_new: bool,
    /// Whether other roles than the owner of the tables can use them.
    pub has_role: bool,
}

/// Makes the tables when they are missing, and the log when it is missing.
pub fn initialize(access: &Access, init: &Init) -> Result<Initialized, SharedError> {
    let PostgresLog { runtime, .. } = PostgresLog::new(access.clone())?;
    let durability = access.durability;
    let mut session =
        Session::open(&runtime, &access.address, access.bound, 0, |runtime, session| {
            // A server that is refused gets no tables.
            let facts = server_facts(runtime, session)?;
            suits(&ServerFacts { has_tables: true, ..facts.clone() }, durability)?;
            if !facts.has_tables {
                session.script(runtime, SCHEMA).map_err(no_tables)?;
            }
            Ok(())
        })?;
    let params = [
        (&access.log as _, Type::TEXT),
        (&FORMAT as _, Type::INT4),
        (&init.store_id.as_slice() as _, Type::BYTEA),
        (&signed(init.seq) as _, Type::INT8),
        (&init.hash.0.as_slice() as _, Type::BYTEA),
        (&init.keys.as_slice() as _, Type::BYTEA),
    ];
    let has_role = session.read(&runtime, HAS_ROLE, &[])?;
    let has_role = has_role.first().is_some_and(|row| row.try_get(0).unwrap_or(false));
    if let Some(role) = init.role.as_ref().filter(|_| !has_role) {
        return Err(SharedError::Refused(format!(
            "the role {role} cannot use the tables, because their owner may not create the role `summarizer_host`"
        )));
    }
    let is_new = !session.write(&runtime, ADD_LOG, &params)?.is_empty();
    if let Some(role) = &init.role {
        let params = [(&access.log as _, Type::TEXT), (role as _, Type::TEXT)];
        session.write(&runtime, ADD_ROLE, &params)?;
        session.read(&runtime, NAME_ROLE, &[(role as _, Type::TEXT)])?;
        session.script(&runtime, GRANT_ROLE)?;
    }
    Ok(Initialized { is_new, has_role })
}

/// Why the tables were not made. What a host is told of rights it lacks does not help before there are tables.
fn no_tables(error: SharedError) -> SharedError {
    let SharedError::Refused(why) = error else { return error };
    let why = why.split("; ").next().unwrap_or_default();
    SharedError::Refused(format!(
        "the tables cannot be made ({why}): run the command as a role that may make them, or let an administrator run what \
         `summarizer cluster init --print --role ROLE` prints"
    ))
}

fn health(runtime: &Runtime, session: &mut Session) -> Result<ServerHealth, SharedError> {
    let rows = session.read(runtime, HEALTH, &[])?;
    let row = rows.first().ok_or_else(|| SharedError::Unclear("no answer to a question".into()))?;
    let synchronous: Option<i64> = row.try_get(1).map_err(|error| odd(&error))?;
    Ok(ServerHealth {
        standbys: number(row, 0)?,
        synchronous: synchronous.and_then(|count| count.try_into().ok()),
        waits: row.try_get(2).map_err(|error| odd(&error))?,
        holding: row.try_get(3).map_err(|error| odd(&error))?,
        oldest_transaction: row.try_get(4).map_err(|error| odd(&error))?,
    })
}

/// Who leads, by the clock of the server.
#[derive(Debug, Clone, PartialEq)]
pub struct Leader {
    /// Host and start of the program.
    pub member: String,
    /// Seconds until the lease ends; below zero when it has ended.
    pub lease_left: f64,
}

/// How far one host is.
#[derive(Debug, Clone, PartialEq)]
pub struct HostStanding {
    pub host: String,
    pub release: Option<String>,
    /// What it does for the others, when it last said so.
    pub roles: Option<String>,
    /// Bytes of its queue that were shipped; `None` for the host that leads, which reads its queue itself.
    pub shipped: Option<u64>,
    /// Commits of the list in its own log, when it last said so.
    pub applied: Option<u64>,
    /// Seconds since it was heard of.
    pub silent: f64,
    /// Attempts that it carries out for the leader, and how many it takes at a time.
    pub attempts: u64,
    pub places: Option<i32>,
    /// A record: nothing is left there of what was forgotten by then.
    pub forgotten: Option<u64>,
    /// Whether its log ended as the list does there; `None` when nobody can say, because the list begins later.
    pub agrees: Option<bool>,
    /// Whether its last service has not ended in order.
    pub runs: bool,
}

/// How a log is.
#[derive(Debug, Clone, PartialEq)]
pub struct Standing {
    pub server: ServerFacts,
    pub health: ServerHealth,
    /// Host and port of the server that answered.
    pub answered: String,
    pub store_id: [u8; 16],
    /// The file of the keys that its bodies are sealed with.
    pub keys: Vec<u8>,
    /// The last fact of forgetting, once its keys are destroyed here; 0 when nothing was ever forgotten.
    pub forgotten: u64,
    pub epoch: u64,
    pub leader: Option<Leader>,
    /// The host that should lead next.
    pub successor: Option<String>,
    pub end: End,
    /// Where the list begins.
    pub start: End,
    /// Milliseconds since 1970, by the clock of the server.
    pub clock_ms: i64,
    pub hosts: Vec<HostStanding>,
}

impl Standing {
    /// The host that leads now.
    pub fn leads(&self) -> Option<&str> {
        let Leader { member, lease_left } = self.leader.as_ref()?;
        leads_now(Some(member), *lease_left)
    }

    /// Why no commit is confirmed, so that every host waits. A server says nothing by itself then.
    pub fn unconfirmed(&self, durability: Durability) -> Option<String> {
        let (names, health) = (&self.server.standbys, &self.health);
        match (durability, health.standbys, health.synchronous) {
            (Durability::Single, ..) => None,
            (_, 0, _) => Some(format!(
                "no standby is connected, so no commit is confirmed (the server waits for {names})"
            )),
            (_, count, Some(0)) => Some(format!(
                "no commit is confirmed: the server waits for {names}, and {count} connected under other names"
            )),
            _ if health.waits > WAITS_MAX => Some(format!(
                "a commit waits for a standby for {:.0} s (the server waits for {names})",
                health.waits
            )),
            _ => None,
        }
    }

    /// The hosts that applied something else than the list has.
    pub fn differing(&self) -> impl Iterator<Item = &str> {
        let differs = |host: &&HostStanding| host.agrees == Some(false);
        self.hosts.iter().filter(differs).map(|host| host.host.as_str())
    }

    /// The hosts that may still hold what was forgotten.
    pub fn not_forgotten(&self) -> impl Iterator<Item = &str> {
        let has_not = |host: &&HostStanding| host.forgotten.unwrap_or(0) < self.forgotten;
        self.hosts.iter().filter(has_not).map(|host| host.host.as_str())
    }
}

const STANDING: &str = "SELECT n, seq, hash, trimmed, trimmed_seq, trimmed_hash, epoch, store_id, leader, \
        extract(epoch FROM lease_until - clock_timestamp())::float8, \
        (extract(epoch FROM clock_timestamp()) * 1000)::int8, successor \
    FROM summarizer.heads WHERE log_id = $1";

const HOSTS: &str = "SELECT host, release, shipped, applied, \
        extract(epoch FROM clock_timestamp() - seen)::float8, roles, places, \
        (SELECT count(*) FROM summarizer.jobs j WHERE j.log_id = $1 AND split_part(j.holder, '/', 1) = h.host), \
        forgotten, \
        CASE WHEN applied_hash IS NULL OR applied IS NULL THEN NULL \
            WHEN applied > head.n THEN false \
            WHEN applied < head.trimmed THEN NULL \
            WHEN applied = head.trimmed THEN applied_hash = head.trimmed_hash \
            ELSE EXISTS (SELECT FROM summarizer.commits c WHERE c.log_id = $1 AND c.n = h.applied AND c.hash = h.applied_hash) \
        END, running IS NOT NULL \
    FROM summarizer.hosts h, (SELECT n, trimmed, trimmed_hash FROM summarizer.heads WHERE log_id = $1) AS head \
    WHERE log_id = $1 ORDER BY host";

/// Lines that were not taken in go with the host.
const FORGET_HOST: &str = "WITH gone AS (DELETE FROM summarizer.lines WHERE log_id = $1 AND host = $2) \
    DELETE FROM summarizer.hosts WHERE log_id = $1 AND host = $2 RETURNING 0::int8";

const TRIM: &str = "UPDATE summarizer.heads SET trimmed = $2, trimmed_seq = $3, trimmed_hash = $4 \
    WHERE log_id = $1 AND trimmed < $2 AND n >= $2";

const REMOVE: &str = "DELETE FROM summarizer.commits WHERE log_id = $1 AND n <= $2";

const PROGRESS: &str = "SELECT n, leader, extract(epoch FROM lease_until - clock_timestamp())::float8 \
    FROM summarizer.heads WHERE log_id = $1";

fn host_standing(row: &Row) -> Result<HostStanding, SharedError> {
    let applied: Option<i64> = row.try_get(3).map_err(|error| odd(&error))?;
    Ok(HostStanding {
        host: text(row, 0)?,
        release: row.try_get(1).map_err(|error| odd(&error))?,
        shipped: Some(number(row, 2)?),
        applied: applied.and_then(|applied| applied.try_into().ok()),
        silent: row.try_get(4).map_err(|error| odd(&error))?,
        roles: row.try_get(5).map_err(|error| odd(&error))?,
        places: row.try_get(6).map_err(|error| odd(&error))?,
        attempts: number(row, 7)?,
        forgotten: row
            .try_get::<_, Option<i64>>(8)
            .map_err(|error| odd(&error))?
            .and_then(|seq| seq.try_into().ok()),
        agrees: row.try_get(9).map_err(|error| odd(&error))?,
        runs: row.try_get(10).map_err(|error| odd(&error))?,
    })
}

/// The host that leads now, by the member that claimed last and the rest of its lease.
fn leads_now(member: Option<&str>, lease_left: f64) -> Option<&str> {
    member.filter(|_| lease_left >= 0.0)?.split('/').next()
}

/// A host beside the end of the list. Who leads is level with it, and carries nothing out for others.
fn seen(host: HostStanding, end: u64, leads: Option<&str>) -> SeenHost {
    let leads = leads == Some(host.host.as_str());
    let behind = host.applied.map(|applied| end.saturating_sub(applied));
    let roles = host.roles.as_deref().unwrap_or_default();
    SeenHost {
        leads,
        release: host.release,
        roles: roles.split(',').filter(|role| !role.is_empty()).map(str::to_owned).collect(),
        behind: if leads { Some(0) } else { behind },
        silent: host.silent.max(0.0),
        attempts: host.attempts,
        places: host.places.filter(|_| !leads),
        forgotten: host.forgotten,
        agrees: host.agrees,
        host: host.host,
    }
}

/// A log, for those who ask about it.
pub struct Cluster(PostgresLog);

impl Cluster {
    pub fn new(access: Access) -> Result<Cluster, SharedError> {
        PostgresLog::new(access).map(Cluster)
    }

    /// The list itself.
    pub fn list(&mut self) -> &mut PostgresLog {
        &mut self.0
    }

    pub fn standing(&mut self) -> Result<Standing, SharedError> {
        self.0.with(|runtime, session, access| {
            let log = [(&access.log as _, Type::TEXT)];
            let server = server_facts(runtime, session)?;
            let rows = session.read(runtime, STANDING, &log)?;
            let row = rows
                .first()
                .ok_or_else(|| SharedError::Refused("it has no such log any more".to_owned()))?;
            let store_id: &[u8] = row.try_get(7).map_err(|error| odd(&error))?;
            let health = health(runtime, session)?;
            let member: Option<String> = row.try_get(8).map_err(|error| odd(&error))?;
            let lease_left: f64 = row.try_get(9).map_err(|error| odd(&error))?;
            let keys = session.read(runtime, KEYS, &log)?;
            let (keys, forgotten) = match keys.first() {
                Some(row) => (blob(row, 0)?, number(row, 1)?),
                None => (Vec::new(), 0),
            };
            let rows = session.read(runtime, HOSTS, &log)?;
            let mut hosts = rows.iter().map(host_standing).collect::<Result<Vec<_>, _>>()?;
            let (end, start) = (end(row, 0)?, end(row, 3)?);
            let leads = leads_now(member.as_deref(), lease_left);
            for host in hosts.iter_mut().filter(|host| Some(host.host.as_str()) == leads) {
                // Nobody is ahead of the list, and who leads is level with it. It carries nothing out for others.
                (host.applied, host.places, host.shipped) = (Some(end.n), None, None);
            }
            Ok(Standing {
                server,
                health,
                answered: session.shown.clone(),
                store_id: store_id
                    .try_into()
                    .map_err(|_| SharedError::Refused("a log has no identity".to_owned()))?,
                keys,
                forgotten,
                epoch: number(row, 6)?,
                leader: member.map(|member| Leader { member, lease_left }),
                end,
                start,
                successor: row.try_get(11).map_err(|error| odd(&error))?,
                clock_ms: row.try_get(10).map_err(|error| odd(&error))?,
                hosts,
            })
        })
    }

    /// How far all hosts are, in two short questions.
    pub fn hosts(&mut self) -> Result<Vec<SeenHost>, SharedError> {
        self.0.with(|runtime, session, access| {
            let log = [(&access.log as _, Type::TEXT)];
            let rows = session.read(runtime, PROGRESS, &log)?;
            let Some(row) = rows.first() else { return Ok(Vec::new()) };
            let (end, member) = (number(row, 0)?, row.try_get(1).map_err(|error| odd(&error))?);
            let lease_left: f64 = row.try_get(2).map_err(|error| odd(&error))?;
            let member: Option<String> = member;
            let leads = leads_now(member.as_deref(), lease_left);
            let rows = session.read(runtime, HOSTS, &log)?;
            let hosts =
                rows.iter().map(|row| host_standing(row).map(|host| seen(host, end, leads)));
            hosts.collect()
        })
    }

    /// Removes the commits up to this place, which then is the start of the list. Whether anybody still needs
    /// them is for the caller to know.
    pub fn trim(&mut self, start: &End) -> Result<(), SharedError> {
        self.0.with(|runtime, session, access| {
            let params = [
                (&access.log as _, Type::TEXT),
                (&signed(start.n) as _, Type::INT8),
                (&signed(start.seq.0) as _, Type::INT8),
                (&start.hash.0.as_slice() as _, Type::BYTEA),
            ];
            session.write_together(runtime, &[(TRIM, &params), (REMOVE, &params[..2])])
        })
    }

    /// Forgets a host that left. False when the log had none of that name.
    pub fn forget(&mut self, host: &str) -> Result<bool, SharedError> {
        self.0.with(|runtime, session, access| {
            let params = [(&access.log as _, Type::TEXT), (&host as _, Type::TEXT)];
            session.write(runtime, FORGET_HOST, &params).map(|rows| !rows.is_empty())
        })
    }
}
