//! A queue in a table of PostgreSQL: batches by `unnest`, claims by `SKIP LOCKED`.

use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, Uid, User};
use tokio::runtime::{Builder, Runtime};
use tokio_postgres::{Client, NoTls, Statement};

use crate::{Queue, Row, free_port, log_file};

const TABLES: &str = "
CREATE TABLE queue(seq BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, request_id TEXT NOT NULL,
  key BYTEA NOT NULL UNIQUE, state INTEGER NOT NULL, priority INTEGER NOT NULL, line BYTEA NOT NULL, item BYTEA);
CREATE INDEX queue_by_id ON queue(request_id);
CREATE INDEX queue_waiting ON queue(priority DESC, seq) WHERE state = 0;
CREATE TABLE bad(seq BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, reason TEXT NOT NULL, raw BYTEA);
CREATE TABLE place(id INTEGER PRIMARY KEY CHECK(id = 1), reached BIGINT NOT NULL);
INSERT INTO place VALUES(1, 0)";

/// An id that comes twice in one batch with two keys is not seen, which favours it.
const TAKE_IN: &str = "
WITH come AS (SELECT * FROM unnest($1::text[], $2::bytea[], $3::int4[], $4::bytea[]) AS come(id, key, priority, line)),
  conflict AS (SELECT DISTINCT come.id FROM come JOIN queue ON queue.request_id = come.id WHERE queue.key <> come.key),
  told AS (INSERT INTO bad(reason, raw) SELECT 'request_id_conflict', line FROM come
    WHERE id IN (SELECT id FROM conflict))
INSERT INTO queue(request_id, key, state, priority, line) SELECT id, key, 0, priority, line FROM come
  WHERE id NOT IN (SELECT id FROM conflict) ON CONFLICT(key) DO NOTHING";
const TAKE_BAD: &str = "INSERT INTO bad(reason, raw) SELECT * FROM unnest($1::text[], $2::bytea[])";
const REACHED: &str = "UPDATE place SET reached = $1";
const CLAIM: &str = "
UPDATE queue SET state = 1 WHERE seq IN (SELECT seq FROM queue WHERE state = 0 ORDER BY priority DESC, seq LIMIT $1
  FOR UPDATE SKIP LOCKED) RETURNING seq";
const COMPLETE: &str = "
UPDATE queue SET state = 2, item = done.item FROM unnest($1::bigint[], $2::bytea[]) AS done(seq, item)
  WHERE queue.seq = done.seq";

pub(crate) struct Postgres {
    _server: Server,
    runtime: Runtime,
    client: Client,
    statements: [Statement; 5],
}

/// A server of its own, which ends with this value.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        // It ends its backends immediately, and then itself.
        let _ = kill(Pid::from_raw(self.0.id().cast_signed()), Signal::SIGQUIT);
        let _ = self.0.wait();
    }
}

/// The newest programs of the server that are installed.
fn programs() -> io::Result<PathBuf> {
    let named = std::env::var_os("SUMMARIZER_TEST_POSTGRES").map(PathBuf::from);
    let installed = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut folders: Vec<PathBuf> = installed.map(|entry| entry.path().join("bin")).collect();
    folders.sort();
    folders.extend(named);
    let found = folders.into_iter().rev().find(|folder| folder.join("initdb").exists());
    found.ok_or_else(|| io::Error::other("it is not installed"))
}

/// A program of the server. It does not run as root, so root starts it as `nobody`.
fn program(name: &str, user: Option<&User>) -> io::Result<Command> {
    let path = programs()?.join(name);
    let mut command = match user {
        None => Command::new(path),
        Some(user) => {
            let mut command = Command::new("setpriv");
            command.args(["--reuid", &user.uid.to_string(), "--regid", &user.gid.to_string()]);
            command.args(["--clear-groups", "--pdeathsig", "QUIT", "--"]).arg(path);
            command
        }
    };
    command.env_remove("PGDATA").current_dir("/").stdin(Stdio::null()).stdout(Stdio::null());
    Ok(command)
}

impl Postgres {
    pub(crate) fn start(dir: &Path) -> io::Result<Postgres> {
        let dir = dir.canonicalize()?;
        let user = match Uid::effective().is_root() {
            true => User::from_name("nobody").map_err(io::Error::from)?,
            false => None,
        };
        let data = dir.join("data");
        fs::create_dir(&data)?;
        fs::set_permissions(&data, fs::Permissions::from_mode(0o700))?;
        if let Some(user) = &user {
            chown(&data, Some(user.uid.as_raw()), Some(user.gid.as_raw()))?;
        }
        let mut initialize = program("initdb", user.as_ref())?;
        initialize.args(["-A", "trust", "-U", "postgres", "-E", "UTF8", "--locale=C", "-D"]);
        let ended = initialize.arg(&data).stderr(log_file(&dir)?).status()?;
        if !ended.success() {
            let why = fs::read_to_string(dir.join("server.log")).unwrap_or_default();
            return Err(io::Error::other(format!("initdb failed: {}", why.trim())));
        }
        let port = free_port()?;
        let mut command = program("postgres", user.as_ref())?;
        command.arg("-D").arg(&data).args(["-p", &port.to_string()]);
        for setting in [
            "listen_addresses=127.0.0.1",
            "unix_socket_directories=",
            "synchronous_commit=on",
            "shared_buffers=256MB",
            "max_wal_size=4GB",
        ] {
            command.args(["-c", setting]);
        }
        let server = Server(command.stderr(log_file(&dir)?).spawn()?);
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let url = format!("host=127.0.0.1 port={port} user=postgres dbname=postgres");
        let until = Instant::now() + Duration::from_secs(30);
        let client = loop {
            match runtime.block_on(tokio_postgres::connect(&url, NoTls)) {
                Ok((client, connection)) => {
                    runtime.spawn(connection);
                    break client;
                }
                Err(error) if Instant::now() > until => return Err(io::Error::other(error)),
                Err(_) => std::thread::sleep(Duration::from_millis(50)),
            }
        };
        let statements = runtime.block_on(async {
            client.batch_execute(TABLES).await?;
            let [a, b, c] = [TAKE_IN, TAKE_BAD, REACHED].map(|sql| client.prepare(sql));
            let (d, e) = (client.prepare(CLAIM), client.prepare(COMPLETE));
            Ok::<_, tokio_postgres::Error>([a.await?, b.await?, c.await?, d.await?, e.await?])
        });
        let statements = statements.map_err(io::Error::other)?;
        Ok(Postgres { _server: server, runtime, client, statements })
    }
}

impl Queue for Postgres {
    fn take_in(&mut self, rows: &[Row<'_>], offset: u64) {
        let (mut ids, mut keys, mut priorities, mut lines) = (vec![], vec![], vec![], vec![]);
        let (mut reasons, mut raws) = (vec![], vec![]);
        for row in rows {
            match *row {
                Row::Request { id, key, priority, line } => {
                    ids.push(id);
                    keys.push(key);
                    priorities.push(priority);
                    lines.push(line);
                }
                Row::Bad { reason, raw } => {
                    reasons.push(reason);
                    raws.push(raw);
                }
            }
        }
        let [take_in, take_bad, reached, ..] = &self.statements;
        let offset = offset as i64;
        let client = &mut self.client;
        let done = self.runtime.block_on(async {
            let transaction = client.transaction().await?;
            transaction.execute(take_in, &[&ids, &keys, &priorities, &lines]).await?;
            if !reasons.is_empty() {
                transaction.execute(take_bad, &[&reasons, &raws]).await?;
            }
            transaction.execute(reached, &[&offset]).await?;
            transaction.commit().await
        });
        done.expect("take lines in");
    }

    fn complete(&mut self, most: usize, item: &[u8]) -> u64 {
        let [.., claim, complete] = &self.statements;
        let most = most as i64;
        let client = &mut self.client;
        let done = self.runtime.block_on(async {
            let transaction = client.transaction().await?;
            let claimed = transaction.query(claim, &[&most]).await?;
            let claimed: Vec<i64> = claimed.iter().map(|row| row.get(0)).collect();
            let items = vec![item; claimed.len()];
            let count = transaction.execute(complete, &[&claimed, &items]).await?;
            transaction.commit().await?;
            Ok::<_, tokio_postgres::Error>(count)
        });
        done.expect("complete requests")
    }
}
