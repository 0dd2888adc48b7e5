//! A queue in a table of SQLite.

use std::path::Path;

use rusqlite::{Connection, OptionalExtension as _, params};

use crate::{Queue, Row};

pub(crate) struct Sqlite(Connection);

impl Sqlite {
    pub(crate) fn open(dir: &Path) -> Sqlite {
        let connection = Connection::open(dir.join("queue.sqlite")).expect("open SQLite");
        connection
            .execute_batch(
                "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA cache_size=-65536;
                 CREATE TABLE queue(seq INTEGER PRIMARY KEY, request_id TEXT NOT NULL,
                   key BLOB NOT NULL UNIQUE, state INTEGER NOT NULL, priority INTEGER NOT NULL,
                   line BLOB NOT NULL, item BLOB);
                 CREATE INDEX queue_by_id ON queue(request_id);
                 CREATE INDEX queue_waiting ON queue(priority DESC, seq) WHERE state = 0;
                 CREATE TABLE bad(seq INTEGER PRIMARY KEY, reason TEXT NOT NULL, raw BLOB);
                 CREATE TABLE position(id INTEGER PRIMARY KEY CHECK(id = 1), offset INTEGER);
                 INSERT INTO position VALUES(1, 0);",
            )
            .expect("make the tables");
        Sqlite(connection)
    }
}

impl Queue for Sqlite {
    fn take_in(&mut self, rows: &[Row<'_>], offset: u64) {
        let transaction = self.0.transaction().expect("begin");
        {
            let sql = "SELECT key FROM queue WHERE request_id = ?1 ORDER BY seq DESC LIMIT 1";
            let mut newest = transaction.prepare_cached(sql).expect("prepare");
            let sql = "INSERT INTO queue(request_id, key, state, priority, line)
                       VALUES(?1, ?2, 0, ?3, ?4) ON CONFLICT(key) DO NOTHING";
            let mut insert = transaction.prepare_cached(sql).expect("prepare");
            let sql = "INSERT INTO bad(reason, raw) VALUES(?1, ?2)";
            let mut bad = transaction.prepare_cached(sql).expect("prepare");
            for row in rows {
                match *row {
                    Row::Request { id, key, priority, line } => {
                        let before: Option<Vec<u8>> = newest
                            .query_row(params![id], |row| row.get(0))
                            .optional()
                            .expect("look");
                        if before.is_some_and(|before| before != key) {
                            bad.execute(params!["request_id_conflict", line]).expect("insert");
                        } else {
                            insert.execute(params![id, key, priority, line]).expect("insert");
                        }
                    }
                    Row::Bad { reason, raw } => {
                        bad.execute(params![reason, raw]).expect("insert");
                    }
                }
            }
        }
        let sql = "UPDATE position SET offset = ?1";
        transaction.execute(sql, params![offset as i64]).expect("update");
        transaction.commit().expect("commit");
    }

    fn complete(&mut self, most: usize, item: &[u8]) -> u64 {
        let transaction = self.0.transaction().expect("begin");
        let count = {
            let sql = "UPDATE queue SET state = 2, item = ?2 WHERE seq IN
                       (SELECT seq FROM queue WHERE state = 0 ORDER BY priority DESC, seq LIMIT ?1)";
            let mut complete = transaction.prepare_cached(sql).expect("prepare");
            complete.execute(params![most as i64, item]).expect("update")
        };
        transaction.commit().expect("commit");
        count as u64
    }
}
