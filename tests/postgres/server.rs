//! Real servers on loopback, each in a folder of its own that goes away with the test.
//!
//! PostgreSQL does not run as root, so tests that do start it as `nobody`.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, Uid, User};

/// The settings of each server: small, and as durable as in earnest.
const SETTINGS: &str = "\
listen_addresses = '127.0.0.1'
unix_socket_directories = ''
shared_buffers = '32MB'
max_connections = 40
max_wal_senders = 8
wal_level = replica
hot_standby = on
synchronous_standby_names = 'ANY 1 (s0, s1, s2)'
wal_retrieve_retry_interval = '100ms'
wal_sender_timeout = '5s'
wal_receiver_timeout = '5s'
logging_collector = off
";

/// Where the programs of the server are; `None` when there are none, which the tests say.
pub fn programs() -> Option<PathBuf> {
    let has = |folder: &Path| {
        ["postgres", "initdb", "pg_basebackup"].iter().all(|name| folder.join(name).exists())
    };
    let named = std::env::var_os("SUMMARIZER_TEST_POSTGRES").map(PathBuf::from);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&path);
    let packaged = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut packaged: Vec<PathBuf> = packaged.map(|entry| entry.path().join("bin")).collect();
    packaged.sort();
    let found = match &named {
        Some(named) => Some(named.clone()).filter(|folder| has(folder)),
        None => on_path.chain(packaged.into_iter().rev()).find(|folder| has(folder)),
    };
    assert!(
        found.is_some() || named.is_none(),
        "SUMMARIZER_TEST_POSTGRES names no folder with the programs of PostgreSQL"
    );
    found
}

/// A folder of servers.
pub struct Servers {
    programs: PathBuf,
    folder: tempfile::TempDir,
    user: Option<User>,
    servers: Vec<Server>,
}

pub struct Server {
    name: String,
    pub port: u16,
    data: PathBuf,
    child: Option<Child>,
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

impl Servers {
    /// A primary and so many standbys. `None` when PostgreSQL is not installed.
    pub fn start(standbys: usize) -> Option<Servers> {
        let Some(programs) = programs() else {
            println!("LEFT OUT: PostgreSQL is not installed, so no test ran against a real server");
            return None;
        };
        let user = Uid::effective().is_root().then(|| User::from_name("nobody").unwrap().unwrap());
        let folder = tempfile::Builder::new().prefix("summarizer-pg").tempdir().unwrap();
        if let Some(user) = &user {
            chown(folder.path(), Some(user.uid.as_raw()), Some(user.gid.as_raw())).unwrap();
        }
        let mut servers = Servers { programs, folder, user, servers: Vec::new() };
        servers.initialize();
        servers.run(0, None);
        let names: Vec<String> = (1..=standbys).map(|at| format!("s{at}")).collect();
        for _ in &names {
            servers.add_standby();
        }
        for at in 1..=standbys {
            servers.run(at, Some(0));
        }
        if standbys == 0 {
            servers.sql(0, "ALTER SYSTEM SET synchronous_standby_names = ''");
            servers.sql(0, "SELECT pg_reload_conf()");
        }
        Some(servers)
    }

    fn command(&self, program: &str) -> Command {
        let program = self.programs.join(program);
        let mut command = match &self.user {
            None => Command::new(program),
            Some(user) => {
                let mut command = Command::new("setpriv");
                command.args(["--reuid", &user.uid.to_string(), "--regid", &user.gid.to_string()]);
                command.args(["--clear-groups", "--pdeathsig", "KILL", "--"]).arg(program);
                command
            }
        };
        command
            .current_dir(self.folder.path())
            .env_remove("PGDATA")
            .env("HOME", self.folder.path());
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command
    }

    fn place(&mut self) -> usize {
        let at = self.servers.len();
        let name = format!("s{at}");
        let data = self.folder.path().join(&name);
        self.servers.push(Server { name, port: free_port(), data, child: None });
        at
    }

    fn initialize(&mut self) {
        let at = self.place();
        let data = self.servers[at].data.clone();
        let mut command = self.command("initdb");
        command.args([
            "-A",
            "trust",
            "-U",
            "postgres",
            "-E",
            "UTF8",
            "--locale=C",
            "--no-sync",
            "-D",
        ]);
        assert!(command.arg(&data).status().unwrap().success(), "initdb failed");
        let conf = data.join("postgresql.conf");
        let text = fs::read_to_string(&conf).unwrap() + SETTINGS;
        fs::write(&conf, text).unwrap();
    }

    fn add_standby(&mut self) {
        let at = self.place();
        self.copy(at, 0);
    }

    /// Makes the folder of a server from that of another one, which runs.
    fn copy(&self, at: usize, from: usize) {
        let (primary, data) = (self.servers[from].port.to_string(), &self.servers[at].data);
        let mut command = self.command("pg_basebackup");
        command.args([
            "-h",
            "127.0.0.1",
            "-U",
            "postgres",
            "-c",
            "fast",
            "--no-sync",
            "-p",
            &primary,
        ]);
        assert!(command.arg("-D").arg(data).status().unwrap().success(), "pg_basebackup failed");
    }

    /// A server that was the primary comes back as a standby of the present one.
    pub fn rejoin(&mut self, at: usize, primary: usize) {
        fs::remove_dir_all(&self.servers[at].data).unwrap();
        self.copy(at, primary);
        self.run(at, Some(primary));
    }

    /// Starts a server, as a standby of another one or as a primary.
    pub fn run(&mut self, at: usize, follows: Option<usize>) {
        let Server { name, port, data, .. } = &self.servers[at];
        let (port, log) = (port.to_string(), data.with_extension("log"));
        let mut command = self.command("postgres");
        command.arg("-D").arg(data).args(["-p", &port]);
        let signal = data.join("standby.signal");
        if let Some(primary) = follows {
            fs::write(&signal, "").unwrap();
            let primary = self.servers[primary].port;
            command.arg("-c").arg(format!(
                "primary_conninfo=host=127.0.0.1 port={primary} user=postgres application_name={name}"
            ));
            if let Some(user) = &self.user {
                chown(&signal, Some(user.uid.as_raw()), Some(user.gid.as_raw())).unwrap();
            }
        }
        let log = fs::OpenOptions::new().create(true).append(true).open(log).unwrap();
        let child = command.stderr(log).spawn().unwrap();
        self.servers[at].child = Some(child);
        let until = Instant::now() + Duration::from_secs(30);
        while self.try_sql(at, "SELECT 1").is_none() {
            assert!(Instant::now() < until, "server {at} does not answer: {}", self.log(at));
            std::thread::sleep(Duration::from_millis(30));
        }
    }

    /// Gives a server a certificate.
    pub fn use_tls(&self, at: usize, certificate: &Path, key: &Path) {
        for (from, name) in [(certificate, "server.crt"), (key, "server.key")] {
            let to = self.servers[at].data.join(name);
            fs::copy(from, &to).unwrap();
            fs::set_permissions(&to, fs::Permissions::from_mode(0o600)).unwrap();
            if let Some(user) = &self.user {
                chown(&to, Some(user.uid.as_raw()), Some(user.gid.as_raw())).unwrap();
            }
        }
        self.sql(at, "ALTER SYSTEM SET ssl = on");
        self.sql(at, "SELECT pg_reload_conf()");
    }

    pub fn log(&self, at: usize) -> String {
        let text = fs::read_to_string(self.servers[at].data.with_extension("log"));
        let text = text.unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(20)..].join("\n")
    }

    pub fn port(&self, at: usize) -> u16 {
        self.servers[at].port
    }

    fn pid(&self, at: usize) -> Pid {
        Pid::from_raw(self.servers[at].child.as_ref().unwrap().id() as i32)
    }

    /// Ends a server as a loss of power does, and its backends with it.
    pub fn kill(&mut self, at: usize) {
        let backends = children(self.pid(at));
        for pid in [self.pid(at)].into_iter().chain(backends) {
            let _ = kill(pid, Signal::SIGKILL);
        }
        if let Some(mut child) = self.servers[at].child.take() {
            let _ = child.wait();
        }
        let _ = fs::remove_file(self.servers[at].data.join("postmaster.pid"));
    }

    /// Ends a server, and starts it again where its write-ahead log is two gigabytes further. What it does not flush is lost.
    pub fn skip_ahead(&mut self, at: usize) {
        self.sql(at, "CHECKPOINT");
        self.kill(at);
        let mut command = self.command("pg_resetwal");
        command.args(["-f", "-l", "000000010000000000000090", "-D"]);
        assert!(
            command.arg(&self.servers[at].data).status().unwrap().success(),
            "pg_resetwal failed"
        );
        self.run(at, None);
    }

    /// Stops all processes of a server, or lets them go on.
    pub fn pause(&self, at: usize, stops: bool) {
        let signal = if stops { Signal::SIGSTOP } else { Signal::SIGCONT };
        for pid in [self.pid(at)].into_iter().chain(children(self.pid(at))) {
            let _ = kill(pid, signal);
        }
    }

    /// Makes the standby that has more of the log the primary, and the other one follow it. Returns it.
    pub fn promote_best(&mut self, standbys: [usize; 2]) -> usize {
        let received = |at: usize| {
            let sql = "SELECT (pg_last_wal_receive_lsn() - '0/0'::pg_lsn)::bigint";
            self.sql(at, sql)[0].parse::<u64>().unwrap()
        };
        let [one, two] = standbys;
        let (best, other) = if received(one) >= received(two) { (one, two) } else { (two, one) };
        self.sql(best, "SELECT pg_promote(true, 30)");
        self.kill(other);
        self.run(other, Some(best));
        best
    }

    fn client(&self, at: usize) -> Option<(tokio::runtime::Runtime, tokio_postgres::Client)> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let url = format!("host=127.0.0.1 port={} user=postgres dbname=postgres", self.port(at));
        let connected = runtime.block_on(tokio_postgres::connect(&url, tokio_postgres::NoTls));
        let (client, connection) = connected.ok()?;
        runtime.spawn(connection);
        Some((runtime, client))
    }

    /// The first column of the first row, as text.
    pub fn try_sql(&self, at: usize, sql: &str) -> Option<Vec<String>> {
        let (runtime, client) = self.client(at)?;
        let messages = runtime.block_on(client.simple_query(sql)).ok()?;
        let rows = messages.into_iter().filter_map(|message| match message {
            tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
            _ => None,
        });
        Some(rows.collect())
    }

    pub fn sql(&self, at: usize, sql: &str) -> Vec<String> {
        let (runtime, client) = self.client(at).expect("the server answers");
        let messages = runtime.block_on(client.simple_query(sql));
        let messages = messages.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
        let rows = messages.into_iter().filter_map(|message| match message {
            tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
            _ => None,
        });
        rows.collect()
    }

    pub fn url(&self, ports: &[u16], user: &str) -> String {
        let hosts: Vec<String> = ports.iter().map(|port| format!("127.0.0.1:{port}")).collect();
        format!("postgresql://{user}@{}/postgres", hosts.join(","))
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        for at in 0..self.servers.len() {
            if self.servers[at].child.is_some() {
                self.pause(at, false);
                self.kill(at);
            }
        }
    }
}

/// The processes that a server started.
fn children(parent: Pid) -> Vec<Pid> {
    let listed = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = listed.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let mut found = Vec::new();
    for pid in pids {
        let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else { continue };
        let after = stat.rsplit_once(") ").map_or("", |(_, after)| after);
        let of = after.split(' ').nth(1).and_then(|of| of.parse::<i32>().ok());
        if of == Some(parent.as_raw()) {
            found.push(Pid::from_raw(pid));
        }
    }
    found
}
