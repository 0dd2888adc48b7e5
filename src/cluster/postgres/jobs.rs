//! Jobs and reports, in the tables of these names.
//!
//! The row of a job names the leader that listed it and the worker that has it. A worker reports only while
//! the row names it, so what comes late adds nothing.

use std::time::Duration;

use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::cluster::shared_jobs::{ClaimedJob, JobReport, JobStanding, SharedJobs, WorkHost};
use crate::cluster::shared_log::{Member, SharedError};

use super::PostgresLog;
use super::rows::{blob, number, odd, signed, text};

/// Most reports in one answer.
const REPORTS_MAX: i64 = 512;
/// About how many bytes of reports are in one answer.
const REPORT_BYTES: i64 = 4 << 20;

/// A leader that was deposed and does not know it must not take away what the present one listed.
const FORGET_OTHERS: &str = "WITH mine AS (SELECT FROM summarizer.heads WHERE log_id = $1 AND leader = $2), \
    gone AS (DELETE FROM summarizer.jobs WHERE log_id = $1 AND leader <> $2 AND EXISTS (SELECT FROM mine)) \
    DELETE FROM summarizer.reports r WHERE r.log_id = $1 AND EXISTS (SELECT FROM mine) AND NOT EXISTS (\
        SELECT FROM summarizer.jobs j WHERE j.log_id = $1 AND j.job = r.job AND j.leader = $2) RETURNING 0::int8";

const LIST: &str = "INSERT INTO summarizer.jobs (log_id, job, leader, rules) SELECT $1, job, $2, $4 FROM unnest($3) AS job \
    ON CONFLICT (log_id, job) DO NOTHING RETURNING pg_notify('summarizer', $1)";

const ASK: &str = "INSERT INTO summarizer.jobs AS j (log_id, job, leader, rules, asks) \
    SELECT $1, job, $2, $4, $5 FROM unnest($3) AS job \
    ON CONFLICT (log_id, job) DO UPDATE SET asks = EXCLUDED.asks \
        WHERE j.leader = EXCLUDED.leader AND j.holder IS NULL AND j.asks = '{}' \
    RETURNING pg_notify('summarizer', $1)";

const PASS_ON: &str = "UPDATE summarizer.jobs SET holder = NULL, lease_until = NULL, asks = array_remove(asks, $4) \
    WHERE log_id = $1 AND holder = $2 AND job = ANY($3) AND asks IS NOT NULL \
    RETURNING pg_notify('summarizer', $1)";

const STANDING: &str = "SELECT job, holder IS NOT NULL, coalesce(lease_until < clock_timestamp(), false), \
    asks FROM summarizer.jobs WHERE log_id = $1 AND leader = $2";

const WITHDRAW: &str = "DELETE FROM summarizer.jobs WHERE log_id = $1 AND leader = $2 AND job = ANY($3) AND holder IS NULL \
    RETURNING 0::int8";

const REMOVE: &str = "WITH gone AS (DELETE FROM summarizer.jobs WHERE log_id = $1 AND leader = $2 AND job = ANY($3)) \
    DELETE FROM summarizer.reports WHERE log_id = $1 AND job = ANY($3) RETURNING 0::int8";

const REPORTS: &str = "SELECT job, number, outcome FROM (\
    SELECT job, number, outcome, coalesce(sum(octet_length(outcome)) OVER (ORDER BY job, number ROWS BETWEEN \
        UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS before FROM (\
        SELECT r.job, r.number, r.outcome FROM summarizer.reports r \
        JOIN summarizer.jobs j ON j.log_id = r.log_id AND j.job = r.job AND j.leader = $2 \
        WHERE r.log_id = $1 ORDER BY r.job, r.number LIMIT $3) AS first) AS counted \
    WHERE before <= $4 ORDER BY job, number";

const DROP_REPORTS: &str = "DELETE FROM summarizer.reports r USING unnest($2, $3) AS taken (job, number) \
    WHERE r.log_id = $1 AND r.job = taken.job AND r.number = taken.number RETURNING 0::int8";

/// A host that has just started has not said its places and rules.
const WORK_HOSTS: &str = "SELECT host, places::int8, \
        greatest(extract(epoch FROM clock_timestamp() - seen), 0)::float8, coalesce(rules <> $3, false) \
    FROM summarizer.hosts WHERE log_id = $1 AND host <> $2 AND 'work' = ANY(string_to_array(roles, ',')) ORDER BY host";

/// Jobs of a leader that was deposed, or that has other rules about data, are left alone.
const CLAIM: &str = "WITH free AS (SELECT j.job FROM summarizer.jobs j \
        JOIN summarizer.heads h ON h.log_id = j.log_id AND h.leader = j.leader \
        WHERE j.log_id = $1 AND j.holder IS NULL AND j.rules = $5 AND (j.asks IS NULL OR $6 = ANY(j.asks)) ORDER BY j.job LIMIT $3 FOR UPDATE OF j SKIP LOCKED) \
    UPDATE summarizer.jobs j SET holder = $2, lease_until = clock_timestamp() + $4 * interval '1 second' \
    FROM free WHERE j.log_id = $1 AND j.job = free.job RETURNING j.job, j.asks IS NOT NULL";

const HOLD: &str = "WITH told AS (UPDATE summarizer.hosts SET places = $4, rules = $7 \
        WHERE log_id = $1 AND host = $5 AND (places, rules) IS DISTINCT FROM ($4, $7)) \
    UPDATE summarizer.jobs SET lease_until = clock_timestamp() + $3 * interval '1 second' \
    WHERE log_id = $1 AND holder = $2 AND job <> ALL($6) RETURNING job, asks IS NOT NULL";

const REPORT: &str = "INSERT INTO summarizer.reports (log_id, job, number, outcome) \
    SELECT $1, said.job, said.number, said.outcome FROM unnest($3, $4, $5) AS said (job, number, outcome) \
    JOIN summarizer.jobs j ON j.log_id = $1 AND j.job = said.job AND j.holder = $2 \
    ON CONFLICT (log_id, job, number) DO NOTHING RETURNING 0::int8";

fn claimed(row: &Row) -> Result<ClaimedJob, SharedError> {
    let is_asked = row.try_get(1).map_err(|error| odd(&error))?;
    Ok(ClaimedJob { job: number(row, 0)?, is_asked })
}

fn work_host(row: &Row) -> Result<WorkHost, SharedError> {
    let places: Option<i64> = row.try_get(1).map_err(|error| odd(&error))?;
    let silent: f64 = row.try_get(2).map_err(|error| odd(&error))?;
    Ok(WorkHost {
        host: text(row, 0)?,
        places: places.and_then(|places| places.try_into().ok()),
        silent: Duration::from_secs_f64(silent.min(f64::from(u32::MAX))),
        has_other_rules: row.try_get(3).map_err(|error| odd(&error))?,
    })
}

fn all(jobs: &[u64]) -> Vec<i64> {
    jobs.iter().copied().map(signed).collect()
}

impl PostgresLog {
    /// A write about jobs of this leader.
    fn write_jobs(&mut self, sql: &str, me: &Member, jobs: &[u64]) -> Result<(), SharedError> {
        self.with(|runtime, session, access| {
            let params = [
                (&access.log as _, Type::TEXT),
                (&me.to_string() as _, Type::TEXT),
                (&all(jobs) as _, Type::INT8_ARRAY),
            ];
            session.write(runtime, sql, &params).map(|_| ())
        })
    }
}

impl SharedJobs for PostgresLog {
    fn forget_others(&mut self, me: &Member) -> Result<(), SharedError> {
        self.with(|runtime, session, access| {
            let params = [(&access.log as _, Type::TEXT), (&me.to_string() as _, Type::TEXT)];
            session.write(runtime, FORGET_OTHERS, &params).map(|_| ())
        })
    }

    fn list(&mut self, me: &Member, jobs: &[u64]) -> Result<(), SharedError> {
        self.with(|runtime, session, access| {
            let params = [
                (&access.log as _, Type::TEXT),
                (&me.to_string() as _, Type::TEXT),
                (&all(jobs) as _, Type::INT8_ARRAY),
                (&access.rules as _, Type::TEXT),
            ];
            session.write(runtime, LIST, &params).map(|_| ())
        })
    }

    fn ask(&mut self, me: &Member, jobs: &[u64], hosts: &[String]) -> Result<(), SharedError> {
        self.with(|runtime, session, access| {
            let params = [
                (&access.log as _, Type::TEXT),
                (&me.to_string() as _, Type::TEXT),
                (&all(jobs) as _, Type::INT8_ARRAY),
                (&access.rules as _, Type::TEXT),
                (&hosts as _, Type::TEXT_ARRAY),
            ];
            session.write(runtime, ASK, &params).map(|_| ())
        })
    }

    fn pass_on(&mut self, me: &Member, jobs: &[u64]) -> Result<(), SharedError> {
        self.with(|runtime, session, access| {
            let params = [
                (&access.log as _, Type::TEXT),
                (&me.to_string() as _, Type::TEXT),
                (&all(jobs) as _, Type::INT8_ARRAY),
                (&me.host as _, Type::TEXT),
            ];
            session.write(runtime, PASS_ON, &params).map(|_| ())
        })
    }

    fn standing(&mut self, me: &Member) -> Result<Vec<(u64, JobStanding)>, SharedError> {
        self.with(|runtime, session, access| {
            let params = [(&access.log as _, Type::TEXT), (&me.to_string() as _, Type::TEXT)];
            let rows = session.read(runtime, STANDING, &params)?;
            let standing = |row: &Row| {
                let flag = |at| Row::try_get(row, at).map_err(|error| odd(&error));
                let asks: Option<Vec<String>> = row.try_get(3).map_err(|error| odd(&error))?;
                let standing = match (flag(1)?, flag(2)?, asks) {
                    (false, _, Some(hosts)) => JobStanding::Asks(hosts),
                    (false, _, None) => JobStanding::Free,
                    (true, false, _) => JobStanding::Held,
                    (true, true, _) => JobStanding::Over,
                };
                Ok((number(row, 0)?, standing))
            };
            rows.iter().map(standing).collect()
        })
    }

    fn withdraw(&mut self, me: &Member, jobs: &[u64]) -> Result<(), SharedError> {
        self.write_jobs(WITHDRAW, me, jobs)
    }

    fn remove(&mut self, me: &Member, jobs: &[u64]) -> Result<(), SharedError> {
        self.write_jobs(REMOVE, me, jobs)
    }

    fn reports(&mut self, me: &Member) -> Result<Vec<JobReport>, SharedError> {
        self.with(|runtime, session, access| {
            let params = [
                (&access.log as _, Type::TEXT),
                (&me.to_string() as _, Type::TEXT),
                (&REPORTS_MAX as _, Type::INT8),
                (&REPORT_BYTES as _, Type::INT8),
            ];
            let rows = session.read(runtime, REPORTS, &params)?;
            let report = |row| {
                let (job, number) = (number(row, 0)?, number(row, 1)?);
                Ok(JobReport { job, number, bytes: blob(row, 2)? })
            };
            rows.iter().map(report).collect()
        })
    }

    fn drop_reports(&mut self, taken: &[(u64, u64)]) -> Result<(), SharedError> {
        self.with(|runtime, session, access| {
            let (jobs, numbers): (Vec<u64>, Vec<u64>) = taken.iter().copied().unzip();
            let params = [
                (&access.log as _, Type::TEXT),
                (&all(&jobs) as _, Type::INT8_ARRAY),
                (&all(&numbers) as _, Type::INT8_ARRAY),
            ];
            session.write(runtime, DROP_REPORTS, &params).map(|_| ())
        })
    }

    fn work_hosts(&mut self, me: &Member) -> Result<Vec<WorkHost>, SharedError> {
        self.with(|runtime, session, access| {
            let params = [
                (&access.log as _, Type::TEXT),
                (&me.host as _, Type::TEXT),
                (&access.rules as _, Type::TEXT),
            ];
            let rows = session.read(runtime, WORK_HOSTS, &params)?;
            rows.iter().map(work_host).collect()
        })
    }

    fn claim_jobs(
        &mut self,
        me: &Member,
        count: usize,
        lease: Duration,
    ) -> Result<Vec<ClaimedJob>, SharedError> {
        self.with(|runtime, session, access| {
            let params = [
                (&access.log as _, Type::TEXT),
                (&me.to_string() as _, Type::TEXT),
                (&signed(count as u64) as _, Type::INT8),
                (&lease.as_secs_f64() as _, Type::FLOAT8),
                (&access.rules as _, Type::TEXT),
                (&me.host as _, Type::TEXT),
            ];
            let rows = session.write(runtime, CLAIM, &params)?;
            rows.iter().map(claimed).collect()
        })
    }

    fn hold_jobs(
        &mut self,
        me: &Member,
        places: usize,
        lease: Duration,
        except: &[u64],
    ) -> Result<Vec<ClaimedJob>, SharedError> {
        self.with(|runtime, session, access| {
            let places = i32::try_from(places).unwrap_or(i32::MAX);
            let params = [
                (&access.log as _, Type::TEXT),
                (&me.to_string() as _, Type::TEXT),
                (&lease.as_secs_f64() as _, Type::FLOAT8),
                (&places as _, Type::INT4),
                (&me.host as _, Type::TEXT),
                (&all(except) as _, Type::INT8_ARRAY),
                (&access.rules as _, Type::TEXT),
            ];
            let rows = session.write_small(runtime, HOLD, &params)?;
            rows.iter().map(claimed).collect()
        })
    }

    fn report(&mut self, me: &Member, reports: &[JobReport]) -> Result<(), SharedError> {
        self.with(|runtime, session, access| {
            let jobs: Vec<i64> = reports.iter().map(|report| signed(report.job)).collect();
            let numbers: Vec<i64> = reports.iter().map(|report| signed(report.number)).collect();
            let bytes: Vec<&[u8]> = reports.iter().map(|report| report.bytes.as_slice()).collect();
            let params = [
                (&access.log as _, Type::TEXT),
                (&me.to_string() as _, Type::TEXT),
                (&jobs as _, Type::INT8_ARRAY),
                (&numbers as _, Type::INT8_ARRAY),
                (&bytes as _, Type::BYTEA_ARRAY),
            ];
            session.write(runtime, REPORT, &params).map(|_| ())
        })
    }
}
