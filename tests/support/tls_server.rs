//! A server over TLS on loopback that counts handshakes and questions.
#![allow(clippy::unwrap_used, reason = "a helper of tests may fail loudly")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{HandshakeKind, ServerConfig, ServerConnection, StreamOwned};
use serde_json::Value;

pub struct TlsServer {
    pub base: String,
    counts: Arc<Counts>,
}

#[derive(Default)]
struct Counts {
    whole: AtomicUsize,
    resumed: AtomicUsize,
    questions: AtomicUsize,
}

fn fixture(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/tls").join(name)
}

/// The file of the authority that vouches for the server.
pub fn authority() -> PathBuf {
    fixture("ca.pem")
}

impl TlsServer {
    /// Answers each question with `body`; closes the connection after each answer if it `closes`.
    pub fn start(body: Value, closes: bool) -> TlsServer {
        let certificate = CertificateDer::from_pem_file(fixture("server.pem")).unwrap();
        let key = PrivateKeyDer::from_pem_file(fixture("server.key")).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config =
            ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let config = config.unwrap().with_no_client_auth();
        let config = Arc::new(config.with_single_cert(vec![certificate], key).unwrap());
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let base = format!("https://{}", listener.local_addr().unwrap());
        let (counts, body) = (Arc::<Counts>::default(), Arc::<str>::from(body.to_string()));
        let counted = Arc::clone(&counts);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (config, counts) = (Arc::clone(&config), Arc::clone(&counted));
                let body = Arc::clone(&body);
                std::thread::spawn(move || serve(stream, config, &counts, &body, closes));
            }
        });
        TlsServer { base, counts }
    }

    pub fn questions(&self) -> usize {
        self.counts.questions.load(Ordering::SeqCst)
    }

    /// Whole handshakes, and those that continued a session.
    pub fn handshakes(&self) -> [usize; 2] {
        [&self.counts.whole, &self.counts.resumed].map(|count| count.load(Ordering::SeqCst))
    }
}

/// Ends quietly when the client does.
fn serve(
    mut stream: TcpStream,
    config: Arc<ServerConfig>,
    counts: &Counts,
    body: &str,
    closes: bool,
) -> Option<()> {
    let mut tls = ServerConnection::new(config).unwrap();
    while tls.is_handshaking() {
        tls.complete_io(&mut stream).ok()?;
    }
    match tls.handshake_kind() {
        Some(HandshakeKind::Resumed) => counts.resumed.fetch_add(1, Ordering::SeqCst),
        _ => counts.whole.fetch_add(1, Ordering::SeqCst),
    };
    let mut stream = BufReader::new(StreamOwned::new(tls, stream));
    loop {
        let mut length = 0;
        loop {
            let mut line = String::new();
            if stream.read_line(&mut line).ok()? == 0 {
                return None;
            }
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().ok()?;
            }
            if line == "\r\n" {
                break;
            }
        }
        stream.read_exact(&mut vec![0; length]).ok()?;
        counts.questions.fetch_add(1, Ordering::SeqCst);
        let close = if closes { "connection: close\r\n" } else { "" };
        let head = format!("HTTP/1.1 200 OK\r\n{close}content-length: {}\r\n\r\n", body.len());
        stream.get_mut().write_all(format!("{head}{body}").as_bytes()).ok()?;
        if closes {
            let stream = stream.get_mut();
            stream.conn.send_close_notify();
            stream.flush().ok()?;
            return None;
        }
    }
}
