//! One connection to a server, with a bound on every call.
//!
//! Contract. A call answers, or fails within its bound. A wait of the server is never cancelled: after a
//! failure that leaves the outcome open the connection is closed, and the server ends what is under way or
//! carries it out. A write whose wait for standbys was ended by somebody is no success.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::time::timeout;
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{AsyncMessage, Client, Connection, Error, Row, Socket};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::cluster::shared_log::SharedError;

use super::address::Address;
use super::failure::{classed, unreachable};

/// How long name lookup, connection, TLS and login may take at one server.
const LOGIN: Duration = Duration::from_secs(4);

/// The same for a write of a row without content.
const SMALL: Duration = Duration::from_secs(4);

/// A value for a statement, with its type, so that nothing is asked twice.
pub(super) type Param<'a> = (&'a (dyn ToSql + Sync), Type);

type Wire = Connection<Socket, <MakeRustlsConnect as MakeTlsConnect<Socket>>::Stream>;

pub(super) struct Session {
    client: Client,
    wire: Wire,
    bound: Duration,
    /// Its place in the address.
    pub server: usize,
    /// Host and port, for people.
    pub shown: String,
    /// Whether it gets word of changes.
    pub listens: bool,
}

impl Session {
    /// Connects to the first server that `accepts` takes, from the place `first` on.
    pub(super) fn open(
        runtime: &Runtime,
        address: &Address,
        bound: Duration,
        first: usize,
        mut accepts: impl FnMut(&Runtime, &mut Session) -> Result<(), SharedError>,
    ) -> Result<Session, SharedError> {
        let mut failures = Vec::new();
        let mut is_final = true;
        let count = address.servers.len();
        for at in (first..first + count).map(|at| at % count) {
            let server = &address.servers[at];
            let connected = runtime.block_on(async {
                timeout(LOGIN, server.config.connect(address.tls.clone())).await
            });
            let opened = match connected {
                Err(_) => Err(SharedError::Unclear(format!("no answer for {} s", LOGIN.as_secs()))),
                Ok(Err(error)) => Err(unreachable(&error)),
                Ok(Ok((client, wire))) => {
                    let shown = server.shown.clone();
                    let mut session =
                        Session { client, wire, bound, server: at, shown, listens: false };
                    accepts(runtime, &mut session).map(|()| session)
                }
            };
            let why = match opened {
                Ok(session) => return Ok(session),
                Err(SharedError::Refused(why)) => why,
                Err(SharedError::Unclear(why)) => {
                    is_final = false;
                    why
                }
            };
            failures.push(format!("{}: {why}", server.shown));
        }
        let told = failures.join("; ");
        Err(if is_final { SharedError::Refused(told) } else { SharedError::Unclear(told) })
    }

    /// The rows of a statement that writes nothing.
    pub(super) fn read(
        &mut self,
        runtime: &Runtime,
        sql: &str,
        params: &[Param<'_>],
    ) -> Result<Vec<Row>, SharedError> {
        self.rows(runtime, sql, params, "").map(|(rows, _)| rows)
    }

    /// The rows that a write returns, once it is confirmed.
    pub(super) fn write(
        &mut self,
        runtime: &Runtime,
        sql: &str,
        params: &[Param<'_>],
    ) -> Result<Vec<Row>, SharedError> {
        let late = " to a write: the server hangs, or waits for a standby that does not answer";
        let (rows, warning) = self.rows(runtime, sql, params, late)?;
        match warning {
            Some(warning) => Err(SharedError::Unclear(warning)),
            None => Ok(rows),
        }
    }

    /// The same for a row without content, which is given up sooner.
    pub(super) fn write_small(
        &mut self,
        runtime: &Runtime,
        sql: &str,
        params: &[Param<'_>],
    ) -> Result<Vec<Row>, SharedError> {
        let bound = self.bound;
        self.bound = SMALL.min(bound);
        let wrote = self.write(runtime, sql, params);
        self.bound = bound;
        wrote
    }

    /// Several writes as one.
    pub(super) fn write_together(
        &mut self,
        runtime: &Runtime,
        writes: &[(&str, &[Param<'_>])],
    ) -> Result<(), SharedError> {
        self.read(runtime, "BEGIN", &[])?;
        let mut each = writes.iter();
        let wrote = each.try_for_each(|(sql, params)| self.read(runtime, sql, params).map(drop));
        match wrote {
            Ok(()) => self.write(runtime, "COMMIT", &[]).map(drop),
            Err(refused @ SharedError::Refused(_)) => {
                self.read(runtime, "ROLLBACK", &[])?;
                Err(refused)
            }
            // The connection ends, and the server gives up the writes.
            Err(unclear) => Err(unclear),
        }
    }

    /// Waits for this word, at most for so long.
    pub(super) fn wait_for_word(
        &mut self,
        runtime: &Runtime,
        word: &str,
        longest: Duration,
    ) -> Result<bool, SharedError> {
        let wire = &mut self.wire;
        let told = poll_fn(|context| {
            loop {
                match wire.poll_message(context) {
                    Poll::Ready(Some(Ok(AsyncMessage::Notification(told)))) => {
                        if told.payload() == word {
                            return Poll::Ready(Ok(true));
                        }
                    }
                    Poll::Ready(Some(Ok(_))) => {}
                    Poll::Ready(Some(Err(error))) => return Poll::Ready(Err(classed(&error))),
                    Poll::Ready(None) => {
                        let lost = "the connection has ended".to_owned();
                        return Poll::Ready(Err(SharedError::Unclear(lost)));
                    }
                    Poll::Pending => return Poll::Pending,
                }
            }
        });
        let told = runtime.block_on(async { timeout(longest, told).await });
        // No word is an answer too.
        told.unwrap_or(Ok(false))
    }

    /// Runs a script; only for the tables themselves.
    pub(super) fn script(&mut self, runtime: &Runtime, sql: &str) -> Result<(), SharedError> {
        let Session { client, wire, bound, .. } = self;
        drive(runtime, wire, *bound, "", client.batch_execute(sql)).map(|_| ())
    }

    fn rows(
        &mut self,
        runtime: &Runtime,
        sql: &str,
        params: &[Param<'_>],
        late: &str,
    ) -> Result<(Vec<Row>, Option<String>), SharedError> {
        let Session { client, wire, bound, .. } = self;
        drive(runtime, wire, *bound, late, client.query_typed(sql, params))
    }
}

/// Waits for the answer, and returns it with the warning that came before it. `late`: what no answer may mean.
fn drive<T>(
    runtime: &Runtime,
    wire: &mut Wire,
    bound: Duration,
    late: &str,
    call: impl Future<Output = Result<T, Error>>,
) -> Result<(T, Option<String>), SharedError> {
    let mut call = pin!(call);
    let mut warning = None;
    let answer = poll_fn(|context| {
        loop {
            match wire.poll_message(context) {
                Poll::Ready(Some(Ok(AsyncMessage::Notice(notice)))) => {
                    if notice.severity() == "WARNING" || notice.code().code() == "01000" {
                        warning = Some(format!("the server warned: {}", notice.message()));
                    }
                }
                Poll::Ready(Some(Ok(_))) => {}
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Err(error)),
                // Without a connection the call fails below.
                Poll::Ready(None) | Poll::Pending => return call.as_mut().poll(context),
            }
        }
    });
    let answered = runtime.block_on(async { timeout(bound, answer).await });
    match answered {
        Ok(Ok(answer)) => Ok((answer, warning)),
        Ok(Err(error)) => Err(classed(&error)),
        Err(_) => Err(SharedError::Unclear(format!("no answer for {} s{late}", bound.as_secs()))),
    }
}
