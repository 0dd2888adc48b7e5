//! Reports the state of the service to systemd: its notification protocol, one datagram to the socket
//! named in `NOTIFY_SOCKET`. Without that variable the functions do nothing.

use std::io;
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Whom to tell, and how often it wants to hear that all is well.
#[derive(Debug, Clone)]
pub(crate) struct Notifier {
    socket: Arc<UnixDatagram>,
    address: Address,
    watchdog: Option<Duration>,
}

#[derive(Debug, Clone)]
enum Address {
    Path(PathBuf),
    Abstract(Vec<u8>),
}

impl Notifier {
    /// The manager this process was started by, if it wants to be told anything.
    pub(crate) fn from_environment() -> Option<Notifier> {
        let socket = std::env::var_os("NOTIFY_SOCKET")?;
        // Meant for one process only: a child of ours that inherits it is not the service.
        let meant = std::env::var("WATCHDOG_PID").ok().and_then(|pid| pid.parse::<u32>().ok());
        let ours = meant.is_none_or(|pid| pid == std::process::id());
        let watchdog = std::env::var("WATCHDOG_USEC").ok().filter(|_| ours);
        let watchdog = watchdog.and_then(|text| text.parse().ok()).map(Duration::from_micros);
        Notifier::new(socket.as_encoded_bytes(), watchdog)
    }

    fn new(socket: &[u8], watchdog: Option<Duration>) -> Option<Notifier> {
        let address = match socket {
            [b'@', name @ ..] if !name.is_empty() => Address::Abstract(name.to_vec()),
            [b'/', ..] => {
                use std::os::unix::ffi::OsStrExt as _;
                Address::Path(PathBuf::from(std::ffi::OsStr::from_bytes(socket)))
            }
            _ => return None,
        };
        let socket = UnixDatagram::unbound().ok()?;
        Some(Notifier { socket: Arc::new(socket), address, watchdog })
    }

    /// How often [`Notifier::alive`] is expected at most.
    pub(crate) fn watchdog(&self) -> Option<Duration> {
        self.watchdog
    }

    /// The service answers now.
    pub(crate) fn ready(&self, status: &str) {
        self.tell(&format!("READY=1\nSTATUS={}", one_line(status)));
    }

    /// A start takes long; it is given this much more time.
    pub(crate) fn starting(&self, status: &str, more: Duration) {
        let status = one_line(status);
        self.tell(&format!("EXTEND_TIMEOUT_USEC={}\nSTATUS={status}", more.as_micros()));
    }

    /// All is well.
    pub(crate) fn alive(&self, status: &str) {
        self.tell(&format!("WATCHDOG=1\nSTATUS={}", one_line(status)));
    }

    /// The settings are read again; [`Notifier::ready`] says when that is over.
    pub(crate) fn reloading(&self) {
        self.tell("RELOADING=1\nSTATUS=reading the settings again");
    }

    /// The end has begun.
    pub(crate) fn stopping(&self) {
        self.tell("STOPPING=1\nSTATUS=finishing what is under way");
    }

    /// A manager that does not listen is no reason to stop working.
    fn tell(&self, what: &str) {
        let _ = self.send(what.as_bytes());
    }

    fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        match &self.address {
            Address::Path(path) => self.socket.send_to(bytes, path),
            Address::Abstract(name) => send_abstract(&self.socket, bytes, name),
        }
    }
}

#[cfg(target_os = "linux")]
fn send_abstract(socket: &UnixDatagram, bytes: &[u8], name: &[u8]) -> io::Result<usize> {
    use std::os::linux::net::SocketAddrExt as _;
    let address = std::os::unix::net::SocketAddr::from_abstract_name(name)?;
    socket.send_to_addr(bytes, &address)
}

#[cfg(not(target_os = "linux"))]
fn send_abstract(_: &UnixDatagram, _: &[u8], _: &[u8]) -> io::Result<usize> {
    Err(io::ErrorKind::Unsupported.into())
}

fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(200).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datagrams_arrive_at_a_path_and_nowhere_else() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notify");
        let manager = UnixDatagram::bind(&path).unwrap();
        let name = path.as_os_str().as_encoded_bytes();
        let notifier = Notifier::new(name, Some(Duration::from_secs(2))).unwrap();
        let heard = || {
            let mut buffer = [0; 512];
            let count = manager.recv(&mut buffer).unwrap();
            String::from_utf8_lossy(&buffer[..count]).into_owned()
        };
        notifier.ready("two\nlines");
        assert_eq!(heard(), "READY=1\nSTATUS=two lines");
        notifier.alive("ok");
        assert_eq!(heard(), "WATCHDOG=1\nSTATUS=ok");
        notifier.reloading();
        assert!(heard().starts_with("RELOADING=1\n"));
        notifier.stopping();
        assert!(heard().starts_with("STOPPING=1"));
        assert!(Notifier::new(b"", None).is_none());
        assert!(Notifier::new(b"relative", None).is_none());
        drop(manager);
        notifier.ready("nobody listens");
    }
}
