//! The lines of the queues of all hosts, in the tables `hosts` and `lines`.
//!
//! The row of a host says which start of it ships, and where its lines end. Each shipment changes that row,
//! so an earlier start, or a shipment that comes twice, adds nothing.

use std::time::Duration;

use tokio_postgres::types::Type;

use crate::cluster::shared_lines::{SharedLines, Shipped, ShippedLines, Sign};
use crate::cluster::shared_log::{Member, SharedError};

use super::PostgresLog;
use super::rows::{blob, number, odd, signed, text};

/// Most shipments in one answer.
const ROWS_MAX: i64 = 64;

const SIGN: &str = "SELECT running, (extract(epoch FROM seen) * 1000000)::int8, \
        extract(epoch FROM clock_timestamp() - seen)::float8 \
    FROM summarizer.hosts WHERE log_id = $1 AND host = $2 AND running IS NOT NULL";

const SIGN_OFF: &str = "UPDATE summarizer.hosts SET running = NULL, places = NULL \
    WHERE log_id = $1 AND host = $2 AND running = $3 RETURNING 0::int8";

const BEGIN: &str = "INSERT INTO summarizer.hosts (log_id, host, incarnation, shipped, seen) \
    VALUES ($1, $2, $3, $4, clock_timestamp()) ON CONFLICT (log_id, host) DO UPDATE SET \
    incarnation = EXCLUDED.incarnation, shipped = EXCLUDED.shipped, seen = EXCLUDED.seen RETURNING 0::int8";

/// In one transaction with the new end: alone and late, it would take lines that were shipped since. As a
/// statement of its own it sees what an earlier start added before the row was taken from it.
const FORGET: &str =
    "DELETE FROM summarizer.lines WHERE log_id = $1 AND host = $2 RETURNING 0::int8";

const SHIP: &str = "WITH mine AS (UPDATE summarizer.hosts SET shipped = $5, seen = clock_timestamp() \
        WHERE log_id = $1 AND host = $2 AND incarnation = $3 AND shipped = $4 RETURNING host) \
    INSERT INTO summarizer.lines (log_id, host, pos, len, bytes) \
    SELECT $1, mine.host, $4, $5 - $4, $6 FROM mine RETURNING 0::int8";

const SHIPPED: &str =
    "SELECT shipped FROM summarizer.hosts WHERE log_id = $1 AND host = $2 AND incarnation = $3";

const ENDS: &str = "SELECT host, shipped FROM summarizer.hosts WHERE log_id = $1 AND incarnation IS NOT NULL ORDER BY host";

const LINES: &str = "SELECT pos, len, bytes FROM (\
    SELECT pos, len, bytes, coalesce(sum(octet_length(bytes)) OVER (ORDER BY pos ROWS BETWEEN UNBOUNDED \
        PRECEDING AND 1 PRECEDING), 0) AS before FROM (\
        SELECT pos, len, bytes FROM summarizer.lines \
        WHERE log_id = $1 AND host = $2 AND pos + len > $3 ORDER BY pos LIMIT $5) AS behind) AS counted \
    WHERE before <= $4 ORDER BY pos";

const DROP: &str = "DELETE FROM summarizer.lines WHERE log_id = $1 AND host = $2 AND pos + len <= $3 RETURNING 0::int8";

impl SharedLines for PostgresLog {
    fn sign(&mut self, host: &str) -> Result<Option<Sign>, SharedError> {
        self.with(|runtime, session, access| {
            let params = [(&access.log as _, Type::TEXT), (&host as _, Type::TEXT)];
            let rows = session.read(runtime, SIGN, &params)?;
            let Some(row) = rows.first() else { return Ok(None) };
            let stamp: i64 = row.try_get(1).map_err(|error| odd(&error))?;
            let age: f64 = row.try_get(2).map_err(|error| odd(&error))?;
            let age = Duration::from_secs_f64(age.clamp(0.0, f64::from(u32::MAX)));
            Ok(Some(Sign { start: text(row, 0)?, stamp, age }))
        })
    }

    fn sign_off(&mut self, me: &Member) -> Result<(), SharedError> {
        self.with(|runtime, session, access| {
            let params = [
                (&access.log as _, Type::TEXT),
                (&me.host as _, Type::TEXT),
                (&me.to_string() as _, Type::TEXT),
            ];
            session.write_small(runtime, SIGN_OFF, &params).map(|_| ())
        })
    }

    fn begin(&mut self, me: &Member, from: u64) -> Result<(), SharedError> {
        self.with(|runtime, session, access| {
            let params = [
                (&access.log as _, Type::TEXT),
                (&me.host as _, Type::TEXT),
                (&me.to_string() as _, Type::TEXT),
                (&signed(from) as _, Type::INT8),
            ];
            session.write_together(runtime, &[(BEGIN, &params), (FORGET, &params[..2])])
        })
    }

    fn ship(&mut self, me: &Member, lines: &ShippedLines) -> Result<Shipped, SharedError> {
        let rows = self.with(|runtime, session, access| {
            let params = [
                (&access.log as _, Type::TEXT),
                (&me.host as _, Type::TEXT),
                (&me.to_string() as _, Type::TEXT),
                (&signed(lines.start) as _, Type::INT8),
                (&signed(lines.end) as _, Type::INT8),
                (&lines.bytes as _, Type::BYTEA),
            ];
            session.write(runtime, SHIP, &params)
        })?;
        Ok(if rows.is_empty() { Shipped::Elsewhere } else { Shipped::Landed })
    }

    fn shipped(&mut self, me: &Member) -> Result<Option<u64>, SharedError> {
        self.with(|runtime, session, access| {
            let params = [
                (&access.log as _, Type::TEXT),
                (&me.host as _, Type::TEXT),
                (&me.to_string() as _, Type::TEXT),
            ];
            let rows = session.read(runtime, SHIPPED, &params)?;
            rows.first().map(|row| number(row, 0)).transpose()
        })
    }

    fn ends(&mut self) -> Result<Vec<(String, u64)>, SharedError> {
        self.with(|runtime, session, access| {
            let rows = session.read(runtime, ENDS, &[(&access.log as _, Type::TEXT)])?;
            let end = |row| Ok((text(row, 0)?, number(row, 1)?));
            rows.iter().map(end).collect()
        })
    }

    fn lines_after(
        &mut self,
        host: &str,
        offset: u64,
        bytes: usize,
    ) -> Result<Vec<ShippedLines>, SharedError> {
        self.with(|runtime, session, access| {
            let params = [
                (&access.log as _, Type::TEXT),
                (&host as _, Type::TEXT),
                (&signed(offset) as _, Type::INT8),
                (&(bytes as i64) as _, Type::INT8),
                (&ROWS_MAX as _, Type::INT8),
            ];
            let rows = session.read(runtime, LINES, &params)?;
            let lines = |row| {
                let (start, length) = (number(row, 0)?, number(row, 1)?);
                Ok(ShippedLines { start, end: start + length, bytes: blob(row, 2)? })
            };
            rows.iter().map(lines).collect()
        })
    }

    fn drop_lines(&mut self, host: &str, offset: u64) -> Result<(), SharedError> {
        self.with(|runtime, session, access| {
            let params = [
                (&access.log as _, Type::TEXT),
                (&host as _, Type::TEXT),
                (&signed(offset) as _, Type::INT8),
            ];
            session.write(runtime, DROP, &params).map(|_| ())
        })
    }
}
