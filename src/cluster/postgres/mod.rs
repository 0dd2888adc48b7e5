//! The shared list in PostgreSQL.
//!
//! Contract. An append and every claim change the one row of the log in `heads`, so they come one after the
//! other, and each sees what the one before left. A write counts when the server confirmed it without a
//! warning; anything else leaves its outcome open, and the connection is closed. Each new connection checks
//! the server, the version of the tables, and that the list still has what was confirmed before.
//!
//! No other module knows SQL, and no statement is made from data. See docs/adr/0128-postgresql.md.

mod address;
mod admin;
mod failure;
mod jobs;
mod lines;
mod orders;
mod rows;
mod session;

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use tokio::runtime::Runtime;
use tokio_postgres::types::Type;

use crate::contract::hash::Digest;
use crate::contract::ids::Seq;

use super::shared_log::{
    Appended, Claim, End, LeaseHeld, Listed, Member, Outgoing, PREFERENCE, Reading, SharedError,
    SharedLog,
};

pub use address::{Address, AddressError};
pub use admin::{
    Cluster, HostStanding, Init, Initialized, SCHEMA, ServerFacts, ServerHealth, Standing, grants,
    initialize,
};
use rows::{blob, claimed, end, number, odd, signed};
use session::Session;

/// The newest version that this program writes and reads: of the tables, of commits and of their events. A log is
/// raised to it when somebody leads and no host is left that reads only older ones, and what a version added is
/// written from then on.
pub const FORMAT: i32 = 5;
/// The oldest version of a log that this program can take part in.
const FORMAT_MIN: i32 = 5;
/// The oldest server whose statements are used here.
const SERVER_MIN: i64 = 140_000;
/// Most commits in one answer.
const ROWS_MAX: i64 = 512;
/// How often a host that has nothing else to write says how far it is.
const TELL: Duration = Duration::from_secs(1);

/// What the servers must have done before a write counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// Another server has it on its disk.
    Quorum,
    /// The one server has it on its disk; what that one loses is lost.
    Single,
}

/// How one log is reached.
#[derive(Clone)]
pub struct Access {
    pub address: Address,
    /// The name of the log.
    pub log: String,
    /// The name of this host.
    pub host: String,
    /// The start of the service, for a service.
    pub start: Option<String>,
    /// Its rules about data, for a service. Hosts with other rules take no work from it.
    pub rules: String,
    /// The last record of its home at its start, for a service, once nothing is left here of what was forgotten by then.
    pub forgotten: Arc<OnceLock<Seq>>,
    /// What it does for the others, as `cluster.roles` names it.
    pub roles: String,
    /// The newest version of a log that it reads: [`FORMAT`].
    pub reads: i32,
    pub durability: Durability,
    /// How long a call may wait for its answer.
    pub bound: Duration,
}

/// The list of one log in PostgreSQL.
pub struct PostgresLog {
    access: Access,
    runtime: Runtime,
    session: Option<Session>,
    /// Connections so far.
    connections: u64,
    /// The server that answered last.
    server: usize,
    /// The end of the list as this host last saw it confirmed.
    confirmed: Option<End>,
    /// The end of what was read last, and on which connection. A write on the same one confirms it.
    read: Option<(End, u64)>,
    /// How far the own log is.
    applied: Option<End>,
    /// What it said last of that, and when.
    told: Option<(Option<End>, Instant)>,
}

/// What a server says of itself. The settings keep other limits out, and end a claim that waits for a row
/// when its host is gone; a wait for standbys is not ended by that. A program that is stopped between two statements
/// of one transaction keeps no row that the others wait for.
const FACTS: &str = "SELECT current_setting('server_version_num')::int8, pg_is_in_recovery(), \
    current_setting('transaction_read_only'), current_setting('synchronous_commit'), \
    current_setting('synchronous_standby_names'), to_regclass('summarizer.heads') IS NOT NULL, current_setting('fsync'), \
    set_config('statement_timeout', '0', false), set_config('lock_timeout', '0', false), \
    set_config('idle_in_transaction_session_timeout', '4s', false), \
    set_config('default_transaction_isolation', 'read committed', false), \
    CASE WHEN version() LIKE '%linux%' THEN set_config('client_connection_check_interval', '2s', false) END";

const LOG: &str = "SELECT format, n FROM summarizer.heads WHERE log_id = $1";

/// Whether the list has a commit: true, false, or no row at all when it was trimmed.
const HAS: &str = "SELECT h.trimmed > $2 OR (h.trimmed = $2 AND h.trimmed_hash = $3) \
    OR EXISTS (SELECT FROM summarizer.commits c WHERE c.log_id = $1 AND c.n = $2 AND c.hash = $3) \
    FROM summarizer.heads h WHERE h.log_id = $1";

/// Where the list begins.
const START: &str = "SELECT trimmed, trimmed_seq FROM summarizer.heads WHERE log_id = $1";

const FIND: &str = "SELECT n, seq, hash FROM (\
    SELECT trimmed AS n, trimmed_seq AS seq, trimmed_hash AS hash FROM summarizer.heads \
        WHERE log_id = $1 AND trimmed_seq = $2 AND trimmed_hash = $3 \
    UNION ALL SELECT n, last_seq, hash FROM summarizer.commits \
        WHERE log_id = $1 AND last_seq = $2 AND hash = $3) AS found ORDER BY n LIMIT 1";

/// The place itself without its bytes, then what is behind it.
const READ: &str = "SELECT n, seq, hash, CASE WHEN n > $2 THEN packed END FROM (\
    SELECT n, seq, hash, packed, coalesce(sum(bytes) OVER (ORDER BY n ROWS BETWEEN UNBOUNDED PRECEDING \
        AND 1 PRECEDING), 0) AS before FROM (\
        SELECT trimmed AS n, trimmed_seq AS seq, trimmed_hash AS hash, NULL::bytea AS packed, 0 AS bytes \
            FROM summarizer.heads WHERE log_id = $1 AND trimmed = $2 \
        UNION ALL SELECT n, last_seq, hash, packed, CASE WHEN n > $2 THEN octet_length(packed) ELSE 0 END \
            FROM summarizer.commits WHERE log_id = $1 AND n >= $2 \
        ORDER BY n LIMIT $4) AS listed) AS counted WHERE before <= $3 ORDER BY n";

const SETTLE: &str = "INSERT INTO summarizer.hosts (log_id, host, applied, release, roles, running, forgotten, reads, \
        applied_hash, seen) \
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, clock_timestamp()) ON CONFLICT (log_id, host) DO UPDATE SET \
    applied = coalesce(EXCLUDED.applied, hosts.applied), \
    applied_hash = coalesce(EXCLUDED.applied_hash, hosts.applied_hash), \
    release = EXCLUDED.release, roles = EXCLUDED.roles, running = coalesce(EXCLUDED.running, hosts.running), \
    forgotten = coalesce(EXCLUDED.forgotten, hosts.forgotten), reads = EXCLUDED.reads, seen = EXCLUDED.seen RETURNING 0::int8";

/// The host stops, and the others can see why.
const TELL_DIFFERENCE: &str = "UPDATE summarizer.hosts SET applied = coalesce($3, applied), applied_hash = $4, \
        seen = clock_timestamp() \
    WHERE log_id = $1 AND host = $2 RETURNING 0::int8";

/// The same as `SETTLE` for the host that leads. It applies a commit before it appends the next one, and an append compares the end of
/// its own log with the list.
const SETTLE_LEADER: &str = "UPDATE summarizer.hosts SET \
        applied = CASE WHEN is_ahead THEN told.n ELSE hosts.applied END, \
        applied_hash = CASE WHEN is_ahead THEN told.hash ELSE hosts.applied_hash END, \
        release = $4, roles = $5, reads = $6, seen = clock_timestamp() \
    FROM (SELECT h.n - 1 AS n, c.prev_hash AS hash, h.n - 1 > coalesce(mine.applied, -1) AS is_ahead \
        FROM summarizer.heads h JOIN summarizer.hosts mine ON mine.log_id = h.log_id AND mine.host = $2 \
        LEFT JOIN summarizer.commits c ON c.log_id = h.log_id AND c.n = h.n \
        WHERE h.log_id = $1 AND h.leader = $3) AS told \
    WHERE hosts.log_id = $1 AND hosts.host = $2 RETURNING 0::int8";

const APPEND: &str = "WITH head AS (UPDATE summarizer.heads SET n = n + 1, seq = $5, hash = $7, \
        lease_until = clock_timestamp() + $9 * interval '1 second' \
        WHERE log_id = $1 AND epoch = $2 AND n = $3 AND hash = $6 RETURNING n) \
    INSERT INTO summarizer.commits (log_id, n, epoch, first_seq, last_seq, prev_hash, hash, packed) \
    SELECT $1, head.n, $2, $4, $5, $6, $7, $8 FROM head RETURNING n, pg_notify('summarizer', $1)";

/// One channel for all logs: the word is the name of the log.
const LISTEN: &str = "LISTEN summarizer";

/// A host that was heard of says which version it reads; one that left the list does not count.
const CLAIM: &str = "UPDATE summarizer.heads SET epoch = epoch + 1, leader = $2, successor = NULL, \
        format = CASE WHEN EXISTS (SELECT FROM summarizer.hosts WHERE hosts.log_id = $1 AND coalesce(reads, 0) < $6) \
            THEN format ELSE greatest(format, $6) END, \
        lease_until = clock_timestamp() + $3 * interval '1 second' \
    WHERE log_id = $1 AND (leader IS NULL OR lease_until < clock_timestamp()) \
        AND (successor IS NULL OR successor = $4 OR lease_until + $5 * interval '1 second' < clock_timestamp()) \
    RETURNING epoch, n, seq, hash";

const CLAIM_AGAIN: &str = "UPDATE summarizer.heads SET epoch = epoch + 1, \
        lease_until = clock_timestamp() + $4 * interval '1 second' \
    WHERE log_id = $1 AND leader = $2 AND epoch >= $3 RETURNING epoch, n, seq, hash";

const RENEW: &str = "UPDATE summarizer.heads SET lease_until = clock_timestamp() + $3 * interval '1 second' \
    WHERE log_id = $1 AND leader = $2 RETURNING successor";

const RELEASE: &str = "UPDATE summarizer.heads SET lease_until = clock_timestamp() \
    WHERE log_id = $1 AND leader = $2 AND lease_until > clock_timestamp() RETURNING pg_notify('summarizer', $1)";

const NAME_SUCCESSOR: &str =
    "UPDATE summarizer.heads SET successor = $2 WHERE log_id = $1 RETURNING 0::int8";

/// Who leads is the first to have forgotten.
const KEEP_KEYS: &str = "WITH head AS (SELECT FROM summarizer.heads WHERE log_id = $1 AND leader = $2 FOR SHARE), \
    kept AS (UPDATE summarizer.keys SET keys = $5, forgotten = $4 FROM head \
        WHERE log_id = $1 AND forgotten <= $4 RETURNING log_id), \
    told AS (UPDATE summarizer.hosts h SET forgotten = greatest(h.forgotten, $4) FROM kept \
        WHERE h.log_id = $1 AND h.host = $3) \
    SELECT 0::int8 FROM kept";

impl PostgresLog {
    /// Connects at the first call.
    pub fn new(access: Access) -> Result<PostgresLog, SharedError> {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_io().enable_time().build();
        let runtime = runtime.map_err(|error| SharedError::Refused(error.to_string()))?;
        Ok(PostgresLog {
            access,
            runtime,
            session: None,
            connections: 0,
            server: 0,
            confirmed: None,
            read: None,
            applied: None,
            told: None,
        })
    }

    /// Carries out one call on a connection that was checked. A call without a clear answer ends it.
    fn with<T>(
        &mut self,
        call: impl FnOnce(&Runtime, &mut Session, &Access) -> Result<T, SharedError>,
    ) -> Result<T, SharedError> {
        let PostgresLog { access, runtime, session, connections, server, confirmed, .. } = self;
        let open = match session {
            Some(open) => open,
            none => {
                let access = &*access;
                let Access { address, bound, .. } = access;
                let fresh = Session::open(runtime, address, *bound, *server, |runtime, fresh| {
                    check(runtime, fresh, access, confirmed.as_ref())
                })?;
                (*connections, *server) = (*connections + 1, fresh.server);
                none.insert(fresh)
            }
        };
        let answer = call(runtime, open, access);
        if matches!(answer, Err(SharedError::Unclear(_))) {
            self.session = None;
        }
        answer
    }

    /// Whether it is time to say how far this host is.
    fn has_news(&self) -> bool {
        self.told.is_none_or(|(end, at)| end != self.applied || at.elapsed() >= TELL)
    }

    fn settle_leader(&mut self, me: &Member) -> Result<(), SharedError> {
        self.with(|runtime, session, access| {
            let params = [
                (&access.log as _, Type::TEXT),
                (&access.host as _, Type::TEXT),
                (&me.to_string() as _, Type::TEXT),
                (&env!("CARGO_PKG_VERSION") as _, Type::TEXT),
                (&access.roles as _, Type::TEXT),
                (&access.reads as _, Type::INT4),
            ];
            session.write_small(runtime, SETTLE_LEADER, &params).map(|_| ())
        })?;
        self.told = Some((self.applied, Instant::now()));
        Ok(())
    }

    fn claim_by(
        &mut self,
        call: impl FnOnce(&Runtime, &mut Session, &Access) -> Result<Option<Claim>, SharedError>,
    ) -> Result<Option<Claim>, SharedError> {
        let claim = self.with(call)?;
        if let Some(claim) = claim {
            self.confirmed = Some(claim.end);
        }
        Ok(claim)
    }
}

/// Checks a new connection before it is used.
fn check(
    runtime: &Runtime,
    session: &mut Session,
    access: &Access,
    confirmed: Option<&End>,
) -> Result<(), SharedError> {
    suits(&admin::server_facts(runtime, session)?, access.durability)?;
    let log = (&access.log as _, Type::TEXT);
    let rows = session.read(runtime, LOG, &[log])?;
    let Some(row) = rows.first() else {
        return Err(SharedError::Refused(format!(
            "it has no log `{}`, or this role may not see it; run `summarizer cluster init` on the first host",
            access.log
        )));
    };
    let format: i32 = row.try_get(0).map_err(|error| odd(&error))?;
    if format > access.reads {
        return Err(SharedError::Refused(format!(
            "the log `{}` has version {format}, and this program reads up to version {}: update this host",
            access.log, access.reads
        )));
    }
    if format < FORMAT_MIN {
        return Err(SharedError::Refused(format!(
            "the log `{}` has version {format}, and this program reads from version {FORMAT_MIN} on: update the hosts \
             release by release",
            access.log
        )));
    }
    let Some(End { n, hash, .. }) = confirmed else { return Ok(()) };
    let known = [
        (&access.log as _, Type::TEXT),
        (&signed(*n) as _, Type::INT8),
        (&hash.0.as_slice() as _, Type::BYTEA),
    ];
    let rows = session.read(runtime, HAS, &known)?;
    let has = rows.first().and_then(|row| row.try_get::<_, Option<bool>>(0).ok().flatten());
    if has == Some(true) {
        return Ok(());
    }
    Err(SharedError::Refused(format!(
        "it does not have commit {n}, which was confirmed before: it has lost commits, or another server answers"
    )))
}

/// Whether writes to this server count.
fn suits(facts: &ServerFacts, durability: Durability) -> Result<(), SharedError> {
    let ServerFacts { version, is_standby, is_read_only, commit, standbys, has_tables, syncs } =
        facts;
    if *version < SERVER_MIN {
        return Err(SharedError::Refused(format!(
            "it is PostgreSQL {}, and 14 is the oldest that is supported",
            version / 10_000
        )));
    }
    if *is_standby || *is_read_only {
        return Err(SharedError::Unclear("it takes no writes, as a standby does".to_owned()));
    }
    let is_durable = match durability {
        Durability::Quorum => matches!(commit.as_str(), "on" | "remote_apply"),
        Durability::Single => commit != "off",
    };
    if !is_durable {
        return Err(SharedError::Refused(format!(
            "synchronous_commit is `{commit}` there, so it confirms what it may lose; set it to `on`"
        )));
    }
    if !*syncs {
        return Err(SharedError::Refused(
            "fsync is off there, so it confirms what it may lose; set it to `on`".to_owned(),
        ));
    }
    if durability == Durability::Quorum && standbys.trim().is_empty() {
        return Err(SharedError::Refused(
            "it confirms without another server (synchronous_standby_names is empty); set it, for example to `ANY 1 \
             (a, b)`, or set cluster.durability = \"single\" if losing the disk of that server may lose commits"
                .to_owned(),
        ));
    }
    if !*has_tables {
        return Err(SharedError::Refused(
            "the tables are missing in this database: run `summarizer cluster init` on the first host".to_owned(),
        ));
    }
    Ok(())
}

/// Says so when what is looked for is before the start of the list, by its commit and its record.
fn refuse_trimmed(
    runtime: &Runtime,
    session: &mut Session,
    access: &Access,
    is_before: impl FnOnce(u64, u64) -> bool,
) -> Result<(), SharedError> {
    let rows = session.read(runtime, START, &[(&access.log as _, Type::TEXT)])?;
    let Some(row) = rows.first() else { return Ok(()) };
    let (n, seq) = (number(row, 0)?, number(row, 1)?);
    match is_before(n, seq) {
        false => Ok(()),
        true => Err(SharedError::Refused(format!(
            "the list begins after record {seq}, and this home ends before it: start from a backup of another host \
             (`summarizer backup DIR` there)"
        ))),
    }
}

impl SharedLog for PostgresLog {
    fn find(&mut self, seq: Seq, hash: Digest) -> Result<Option<End>, SharedError> {
        self.with(|runtime, session, access| {
            let params = [
                (&access.log as _, Type::TEXT),
                (&signed(seq.0) as _, Type::INT8),
                (&hash.0.as_slice() as _, Type::BYTEA),
            ];
            let rows = session.read(runtime, FIND, &params)?;
            let found = rows.first().map(|row| end(row, 0)).transpose()?;
            if found.is_none() {
                refuse_trimmed(runtime, session, access, |_, start| seq.0 < start)?;
            }
            Ok(found)
        })
    }

    fn read_after(&mut self, place: &End, bytes: usize) -> Result<Reading, SharedError> {
        self.applied = Some(*place);
        let reading = self.with(|runtime, session, access| {
            let params = [
                (&access.log as _, Type::TEXT),
                (&signed(place.n) as _, Type::INT8),
                (&(bytes as i64) as _, Type::INT8),
                (&(ROWS_MAX + 1) as _, Type::INT8),
            ];
            let rows = session.read(runtime, READ, &params)?;
            let mut rows = rows.iter();
            let at = rows.next().map(|row| end(row, 0)).transpose()?;
            if at.is_none() {
                refuse_trimmed(runtime, session, access, |start, _| place.n < start)?;
            }
            if at != Some(*place) {
                return Ok(Reading::Differs);
            }
            let mut behind = Vec::new();
            for (row, n) in rows.zip(place.n + 1..) {
                let (end, shipped) = (end(row, 0)?, blob(row, 3)?);
                if end.n != n {
                    return Err(SharedError::Refused(format!(
                        "its list has no commit {n}, but commit {}",
                        end.n
                    )));
                }
                behind.push(Listed { end, shipped });
            }
            Ok(Reading::Behind(behind))
        })?;
        if let Reading::Behind(behind) = &reading {
            self.read = behind.last().map(|listed| (listed.end, self.connections));
            // With something behind, the caller makes a write of its own anyway.
            if behind.is_empty() && self.has_news() {
                self.settle()?;
            }
        }
        Ok(reading)
    }

    fn tell_difference(&mut self, hash: Digest) -> Result<(), SharedError> {
        let applied = self.applied;
        self.with(|runtime, session, access| {
            let n = applied.map(|end| signed(end.n));
            let params = [
                (&access.log as _, Type::TEXT),
                (&access.host as _, Type::TEXT),
                (&n as _, Type::INT8),
                (&hash.0.as_slice() as _, Type::BYTEA),
            ];
            session.write_small(runtime, TELL_DIFFERENCE, &params).map(|_| ())
        })
    }

    fn settle(&mut self) -> Result<(), SharedError> {
        let (applied, read) = (self.applied, self.read.take());
        self.with(|runtime, session, access| {
            let n = applied.map(|end| signed(end.n));
            let hash = applied.as_ref().map(|end| end.hash.0.as_slice());
            let forgotten = access.forgotten.get().map(|seq| signed(seq.0));
            let params = [
                (&access.log as _, Type::TEXT),
                (&access.host as _, Type::TEXT),
                (&n as _, Type::INT8),
                (&env!("CARGO_PKG_VERSION") as _, Type::TEXT),
                (&access.roles as _, Type::TEXT),
                (&access.start as _, Type::TEXT),
                (&forgotten as _, Type::INT8),
                (&access.reads as _, Type::INT4),
                (&hash as _, Type::BYTEA),
            ];
            session.write_small(runtime, SETTLE, &params).map(|_| ())
        })?;
        match read {
            // The write may have gone to another server, which says nothing of what the first one has.
            Some((_, connection)) if connection != self.connections => {
                let lost = "the connection was lost between reading and confirming";
                return Err(SharedError::Unclear(lost.to_owned()));
            }
            Some((end, _)) => self.confirmed = Some(end),
            None => {}
        }
        self.told = Some((applied, Instant::now()));
        Ok(())
    }

    fn append(
        &mut self,
        claim: &Claim,
        commit: &Outgoing,
        lease: Duration,
    ) -> Result<Appended, SharedError> {
        let landed = self.with(|runtime, session, access| {
            let params = [
                (&access.log as _, Type::TEXT),
                (&signed(claim.epoch) as _, Type::INT8),
                (&signed(claim.end.n) as _, Type::INT8),
                (&signed(commit.from.0.next().0) as _, Type::INT8),
                (&signed(commit.last.0) as _, Type::INT8),
                (&claim.end.hash.0.as_slice() as _, Type::BYTEA),
                (&commit.hash.0.as_slice() as _, Type::BYTEA),
                (&commit.shipped as _, Type::BYTEA),
                (&lease.as_secs_f64() as _, Type::FLOAT8),
            ];
            let rows = session.write(runtime, APPEND, &params)?;
            rows.first().map(|row| number(row, 0)).transpose()
        })?;
        if landed.is_none() {
            return Ok(Appended::Deposed);
        }
        // The leader applies a commit before it appends the next.
        self.applied = Some(claim.end);
        self.confirmed = Some(claim.end.after(commit));
        Ok(Appended::Landed)
    }

    fn claim(&mut self, me: &Member, lease: Duration) -> Result<Option<Claim>, SharedError> {
        self.claim_by(|runtime, session, access| {
            let params = [
                (&access.log as _, Type::TEXT),
                (&me.to_string() as _, Type::TEXT),
                (&lease.as_secs_f64() as _, Type::FLOAT8),
                (&me.host as _, Type::TEXT),
                (&(lease * PREFERENCE).as_secs_f64() as _, Type::FLOAT8),
                (&access.reads as _, Type::INT4),
            ];
            claimed(&session.write_small(runtime, CLAIM, &params)?)
        })
    }

    fn claim_again(
        &mut self,
        me: &Member,
        epoch: u64,
        lease: Duration,
    ) -> Result<Option<Claim>, SharedError> {
        self.claim_by(|runtime, session, access| {
            let params = [
                (&access.log as _, Type::TEXT),
                (&me.to_string() as _, Type::TEXT),
                (&signed(epoch) as _, Type::INT8),
                (&lease.as_secs_f64() as _, Type::FLOAT8),
            ];
            claimed(&session.write_small(runtime, CLAIM_AGAIN, &params)?)
        })
    }

    fn renew(&mut self, me: &Member, lease: Duration) -> Result<LeaseHeld, SharedError> {
        let held = self.with(|runtime, session, access| {
            let params = [
                (&access.log as _, Type::TEXT),
                (&me.to_string() as _, Type::TEXT),
                (&lease.as_secs_f64() as _, Type::FLOAT8),
            ];
            let rows = session.write_small(runtime, RENEW, &params)?;
            let Some(row) = rows.first() else { return Ok(LeaseHeld::Deposed) };
            let successor: Option<String> = row.try_get(0).map_err(|error| odd(&error))?;
            let other = successor.filter(|host| *host != me.host);
            Ok(other.map_or(LeaseHeld::Mine, LeaseHeld::For))
        })?;
        if self.has_news() {
            // The lease is what was asked for, whatever comes of this.
            let _ = self.settle_leader(me);
        }
        Ok(held)
    }

    fn release(&mut self, me: &Member) -> Result<(), SharedError> {
        self.with(|runtime, session, access| {
            let params = [(&access.log as _, Type::TEXT), (&me.to_string() as _, Type::TEXT)];
            session.write_small(runtime, RELEASE, &params).map(|_| ())
        })
    }

    fn wait_for_word(&mut self, longest: Duration) -> Result<bool, SharedError> {
        self.with(|runtime, session, access| {
            if !session.listens {
                session.read(runtime, LISTEN, &[])?;
                session.listens = true;
                // What came before could not be heard.
                return Ok(true);
            }
            session.wait_for_word(runtime, &access.log, longest)
        })
    }

    fn keep_keys(&mut self, me: &Member, forgotten: Seq, keys: &[u8]) -> Result<bool, SharedError> {
        self.with(|runtime, session, access| {
            let params = [
                (&access.log as _, Type::TEXT),
                (&me.to_string() as _, Type::TEXT),
                (&access.host as _, Type::TEXT),
                (&signed(forgotten.0) as _, Type::INT8),
                (&keys as _, Type::BYTEA),
            ];
            Ok(!session.write(runtime, KEEP_KEYS, &params)?.is_empty())
        })
    }

    fn name_successor(&mut self, host: Option<&str>) -> Result<(), SharedError> {
        self.with(|runtime, session, access| {
            let params = [(&access.log as _, Type::TEXT), (&host as _, Type::TEXT)];
            session.write_small(runtime, NAME_SUCCESSOR, &params).map(|_| ())
        })
    }
}
