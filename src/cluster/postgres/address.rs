//! The address of a database: which servers, as whom, and how TLS is checked.
//!
//! Contract. An address comes from a secret place and holds a password, so no error quotes it.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres_rustls::MakeRustlsConnect;

/// How long one server may take to accept a connection.
const CONNECT: Duration = Duration::from_secs(3);
/// Sent bytes that are not acknowledged for so long end the connection.
const UNACKNOWLEDGED: Duration = Duration::from_secs(8);
/// A quiet connection is probed after so long.
const QUIET: Duration = Duration::from_secs(5);

/// Why an address cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum AddressError {
    #[error(
        "it is not an address of PostgreSQL; write it as postgresql://USER:PASSWORD@HOST:PORT,HOST2:PORT/DATABASE, \
         with special characters of the password percent-encoded; after `?` may stand sslmode=disable or require, \
         connect_timeout and application_name"
    )]
    Malformed,
    #[error("it names no host")]
    NoHost,
    #[error("the file of certificates: {0}")]
    Certificates(String),
}

/// One server of an address.
#[derive(Clone)]
pub(super) struct Server {
    pub config: Config,
    /// Host and port, for people.
    pub shown: String,
}

/// The servers of a database, in the order in which they are tried.
#[derive(Clone)]
pub struct Address {
    pub(super) servers: Vec<Server>,
    pub(super) tls: MakeRustlsConnect,
}

impl Address {
    /// Reads an address; `authorities` are the bytes of a PEM file whose certificates are trusted
    /// instead of the public ones.
    pub fn parse(url: &str, authorities: Option<&[u8]>) -> Result<Address, AddressError> {
        let whole: Config =
            checks_names(url.trim()).parse().map_err(|_| AddressError::Malformed)?;
        let count = whole.get_hosts().len().max(whole.get_hostaddrs().len());
        if count == 0 {
            return Err(AddressError::NoHost);
        }
        let ports = whole.get_ports();
        if ports.len() > 1 && ports.len() != count {
            return Err(AddressError::Malformed);
        }
        let servers = (0..count).map(|at| server(&whole, at)).collect();
        Ok(Address { servers, tls: tls(authorities)? })
    }

    /// Hosts and ports, for people.
    pub fn shown(&self) -> String {
        let shown: Vec<&str> = self.servers.iter().map(|server| server.shown.as_str()).collect();
        shown.join(", ")
    }
}

/// TLS always checks the certificate and the name here, so the stricter words of libpq mean the same.
fn checks_names(url: &str) -> String {
    let Some((before, query)) = url.rsplit_once('?') else { return url.to_owned() };
    let strict = ["sslmode=verify-full", "sslmode=verify-ca"];
    let query = query.split('&').map(|part| match strict.contains(&part) {
        true => "sslmode=require",
        false => part,
    });
    format!("{before}?{}", query.collect::<Vec<_>>().join("&"))
}

/// The settings for one server alone, so that each gets its own time.
fn server(whole: &Config, at: usize) -> Server {
    let mut config = Config::new();
    if let Some(user) = whole.get_user() {
        config.user(user);
    }
    if let Some(password) = whole.get_password() {
        config.password(password);
    }
    if let Some(dbname) = whole.get_dbname() {
        config.dbname(dbname);
    }
    if let Some(options) = whole.get_options() {
        config.options(options);
    }
    let host = whole.get_hosts().get(at);
    let address = whole.get_hostaddrs().get(at);
    let name = match host {
        Some(Host::Tcp(name)) => {
            config.host(name);
            name.clone()
        }
        #[cfg(unix)]
        Some(Host::Unix(path)) => {
            config.host_path(path);
            path.display().to_string()
        }
        None => String::new(),
    };
    if let Some(address) = address {
        config.hostaddr(*address);
    }
    let port = match whole.get_ports() {
        [] => 5432,
        [port] => *port,
        ports => ports[at],
    };
    config.port(port);
    let is_here = name.starts_with('/')
        || name == "localhost"
        || name.parse::<IpAddr>().ok().or(address.copied()).is_some_and(|ip| ip.is_loopback());
    // `prefer` is also what an address says that says nothing. A password never goes over a network in
    // the open unless the address asks for it.
    config.ssl_mode(match whole.get_ssl_mode() {
        SslMode::Prefer if is_here => SslMode::Disable,
        SslMode::Prefer => SslMode::Require,
        chosen => chosen,
    });
    config
        .ssl_negotiation(whole.get_ssl_negotiation())
        .channel_binding(whole.get_channel_binding())
        .application_name(whole.get_application_name().unwrap_or("summarizer"))
        .connect_timeout(whole.get_connect_timeout().copied().unwrap_or(CONNECT).min(CONNECT))
        .tcp_user_timeout(UNACKNOWLEDGED)
        .keepalives(true)
        .keepalives_idle(QUIET)
        .keepalives_interval(Duration::from_secs(2))
        .keepalives_retries(3);
    let shown = match (name.is_empty(), address) {
        (true, Some(address)) => format!("{address}:{port}"),
        _ => format!("{name}:{port}"),
    };
    Server { config, shown }
}

fn tls(authorities: Option<&[u8]>) -> Result<MakeRustlsConnect, AddressError> {
    let bad = |what: String| AddressError::Certificates(what);
    let mut roots = RootCertStore::empty();
    match authorities {
        None => roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned()),
        Some(pem) => {
            for certificate in CertificateDer::pem_slice_iter(pem) {
                let certificate = certificate.map_err(|error| bad(error.to_string()))?;
                roots.add(certificate).map_err(|error| bad(error.to_string()))?;
            }
            if roots.is_empty() {
                return Err(bad("it holds no certificate in PEM form".to_owned()));
            }
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config.map_err(|error| bad(error.to_string()))?;
    let config = config.with_root_certificates(roots).with_no_client_auth();
    Ok(MakeRustlsConnect::new(config))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(url: &str) -> Address {
        Address::parse(url, None).unwrap()
    }

    #[test]
    fn each_server_of_an_address_is_tried_alone() {
        let address = parse("postgresql://me:pw@one:5433,two:5434/db");
        assert_eq!(address.shown(), "one:5433, two:5434");
        for server in &address.servers {
            assert_eq!(server.config.get_hosts().len(), 1);
            assert_eq!(server.config.get_password(), Some(b"pw".as_slice()));
            assert_eq!(server.config.get_dbname(), Some("db"));
        }
        assert_eq!(parse("postgresql://one,two/db").shown(), "one:5432, two:5432");
        assert_eq!(parse("host=one,two port=6000 dbname=db").shown(), "one:6000, two:6000");
    }

    #[test]
    fn a_password_crosses_a_network_only_over_tls() {
        let mode = |url: &str| parse(url).servers[0].config.get_ssl_mode();
        assert_eq!(mode("postgresql://me@db.example/db"), SslMode::Require);
        assert_eq!(mode("postgresql://me@db.example/db?sslmode=prefer"), SslMode::Require);
        assert_eq!(mode("postgresql://me@db.example/db?sslmode=verify-full"), SslMode::Require);
        assert_eq!(mode("postgresql://me@db.example/db?sslmode=disable"), SslMode::Disable);
        assert_eq!(mode("postgresql://me@127.0.0.1/db"), SslMode::Disable);
        assert_eq!(mode("postgresql://me@localhost/db?sslmode=require"), SslMode::Require);
        assert_eq!(mode("host=/run/postgresql dbname=db"), SslMode::Disable);
    }

    #[test]
    fn an_error_quotes_nothing_of_an_address() {
        for url in [
            "postgresql://me:hunter2@host:port/db",
            "hunter2",
            "host=a port=1,2 password=hunter2",
            "postgresql://me:hunter2@/db",
        ] {
            let Err(error) = Address::parse(url, None) else { panic!("{url} is taken") };
            let error = error.to_string();
            assert!(!error.contains("hunter2"), "{error}");
        }
    }

    #[test]
    fn a_file_of_certificates_must_hold_one() {
        let error = Address::parse("postgresql://db.example/db", Some(b"nothing")).err().unwrap();
        assert!(error.to_string().contains("no certificate"));
    }
}
