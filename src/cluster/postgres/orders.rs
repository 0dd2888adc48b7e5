//! Orders and their answers, in the table `orders`.
//!
//! The row of an order names the leader that took it. A leader that was deposed and does not know it takes
//! nothing, because the row of the log names another one.

use tokio_postgres::types::Type;

use crate::cluster::shared_log::{Member, SharedError};
use crate::cluster::shared_orders::{
    GivenOrder, OrderAnswer, OrderStanding, SharedOrders, TAKEN_WITHIN,
};
use crate::contract::ids::Seq;

use super::PostgresLog;
use super::rows::{blob, number, odd, signed, text};

/// Most orders in one answer.
const ORDERS_MAX: i64 = 16;

/// Whoever gave a row that is left from long ago is gone.
const GIVE: &str = "WITH old AS (DELETE FROM summarizer.orders WHERE log_id = $1 \
        AND given < clock_timestamp() - interval '1 hour') \
    INSERT INTO summarizer.orders (log_id, id, host, question, given) VALUES ($1, $2, $3, $4, clock_timestamp()) \
    ON CONFLICT (log_id, id) DO NOTHING RETURNING 0::int8";

const STANDING: &str = "SELECT o.taker IS NULL, coalesce(o.taker = h.leader, false), o.answer, coalesce(o.seq, 0) \
    FROM summarizer.orders o JOIN summarizer.heads h ON h.log_id = o.log_id WHERE o.log_id = $1 AND o.id = $2";

/// The row stays, as taken by nobody: a giving that comes late must find it.
const WITHDRAW: &str = "UPDATE summarizer.orders SET taker = '-', question = '' \
    WHERE log_id = $1 AND id = $2 AND taker IS NULL RETURNING 0::int8";

const DROP: &str = "UPDATE summarizer.orders SET taker = '-', question = '', answer = NULL \
    WHERE log_id = $1 AND id = $2 RETURNING 0::int8";

const TAKE: &str = "WITH waiting AS (SELECT o.id FROM summarizer.orders o \
        JOIN summarizer.heads h ON h.log_id = o.log_id AND h.leader = $2 \
        WHERE o.log_id = $1 AND (o.taker IS NULL OR o.taker = $2 AND o.answer IS NULL) AND o.given > clock_timestamp() - $4 * interval '1 second' \
        ORDER BY o.given, o.id LIMIT $3 FOR UPDATE OF o SKIP LOCKED) \
    UPDATE summarizer.orders o SET taker = $2 FROM waiting WHERE o.log_id = $1 AND o.id = waiting.id \
    RETURNING o.id, o.question, (extract(epoch FROM o.given) * 1000000)::int8";

const ANSWER: &str = "UPDATE summarizer.orders SET answer = $4, seq = $5 \
    WHERE log_id = $1 AND id = $2 AND taker = $3 RETURNING 0::int8";

impl PostgresLog {
    /// A write about one order; true when there was a row for it.
    fn write_order(&mut self, sql: &str, id: &str) -> Result<bool, SharedError> {
        self.with(|runtime, session, access| {
            let params = [(&access.log as _, Type::TEXT), (&id as _, Type::TEXT)];
            Ok(!session.write(runtime, sql, &params)?.is_empty())
        })
    }
}

impl SharedOrders for PostgresLog {
    fn give(&mut self, me: &Member, id: &str, order: &[u8]) -> Result<(), SharedError> {
        self.with(|runtime, session, access| {
            let params = [
                (&access.log as _, Type::TEXT),
                (&id as _, Type::TEXT),
                (&me.host as _, Type::TEXT),
                (&order as _, Type::BYTEA),
            ];
            session.write(runtime, GIVE, &params).map(|_| ())
        })
    }

    fn order_standing(&mut self, id: &str) -> Result<OrderStanding, SharedError> {
        self.with(|runtime, session, access| {
            let params = [(&access.log as _, Type::TEXT), (&id as _, Type::TEXT)];
            let rows = session.read(runtime, STANDING, &params)?;
            let Some(row) = rows.first() else { return Ok(OrderStanding::Lost) };
            let flag = |at| row.try_get::<_, bool>(at).map_err(|error| odd(&error));
            let answer: Option<Vec<u8>> = row.try_get(2).map_err(|error| odd(&error))?;
            Ok(match answer {
                Some(bytes) => {
                    OrderStanding::Answered(OrderAnswer { bytes, seq: Seq(number(row, 3)?) })
                }
                None if flag(0)? => OrderStanding::Waits,
                None if flag(1)? => OrderStanding::Taken,
                None => OrderStanding::Lost,
            })
        })
    }

    fn withdraw_order(&mut self, id: &str) -> Result<bool, SharedError> {
        self.write_order(WITHDRAW, id)
    }

    fn drop_order(&mut self, id: &str) -> Result<(), SharedError> {
        self.write_order(DROP, id).map(drop)
    }

    fn take_orders(&mut self, me: &Member) -> Result<Vec<GivenOrder>, SharedError> {
        let rows = self.with(|runtime, session, access| {
            let params = [
                (&access.log as _, Type::TEXT),
                (&me.to_string() as _, Type::TEXT),
                (&ORDERS_MAX as _, Type::INT8),
                (&TAKEN_WITHIN.as_secs_f64() as _, Type::FLOAT8),
            ];
            session.write(runtime, TAKE, &params)
        })?;
        let mut taken = Vec::new();
        for row in &rows {
            let order = GivenOrder { id: text(row, 0)?, bytes: blob(row, 1)? };
            taken.push((number(row, 2)?, order));
        }
        taken.sort_by(|(one, a), (other, b)| (one, &a.id).cmp(&(other, &b.id)));
        Ok(taken.into_iter().map(|(_, order)| order).collect())
    }

    fn answer_order(
        &mut self,
        me: &Member,
        id: &str,
        answer: &OrderAnswer,
    ) -> Result<(), SharedError> {
        self.with(|runtime, session, access| {
            let params = [
                (&access.log as _, Type::TEXT),
                (&id as _, Type::TEXT),
                (&me.to_string() as _, Type::TEXT),
                (&answer.bytes.as_slice() as _, Type::BYTEA),
                (&signed(answer.seq.0) as _, Type::INT8),
            ];
            session.write(runtime, ANSWER, &params).map(|_| ())
        })
    }
}
