//! A way to a server that can be cut, and can lose answers.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

#[derive(Default)]
struct Shared {
    streams: Mutex<Vec<TcpStream>>,
    /// Bytes to the server after which the connection is cut; 0 for none.
    cut_after: AtomicU64,
    /// 1: the next answers are lost, and then the connection.
    loses: AtomicUsize,
    cuts: AtomicUsize,
}

pub struct Proxy {
    pub port: u16,
    shared: Arc<Shared>,
}

impl Proxy {
    pub fn start(to: u16) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let shared = Arc::new(Shared::default());
        let serving = Arc::clone(&shared);
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let shared = Arc::clone(&serving);
                let Ok(server) = TcpStream::connect(("127.0.0.1", to)) else { continue };
                for (stream, other) in [(&client, &server), (&server, &client)] {
                    stream.set_nodelay(true).unwrap();
                    shared.streams.lock().push(other.try_clone().unwrap());
                }
                let (from, into) = (client.try_clone().unwrap(), server.try_clone().unwrap());
                let upward = Arc::clone(&shared);
                std::thread::spawn(move || upward.up(from, into));
                std::thread::spawn(move || shared.down(server, client));
            }
        });
        Proxy { port, shared }
    }

    /// Ends all connections now.
    pub fn cut(&self) {
        for stream in self.shared.streams.lock().drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Cuts the connections after so many more bytes to the server, which may be inside a statement.
    pub fn cut_after(&self, bytes: u64) {
        self.shared.cut_after.store(bytes.max(1), Ordering::SeqCst);
    }

    /// Loses the next answer, and the connection with it; the server carries out what it was told.
    pub fn lose_answer(&self) {
        self.shared.loses.store(1, Ordering::SeqCst);
    }

    /// Connections that were cut or lost an answer.
    pub fn cuts(&self) -> usize {
        self.shared.cuts.load(Ordering::SeqCst)
    }
}

impl Shared {
    fn up(&self, mut client: TcpStream, mut server: TcpStream) {
        let mut bytes = vec![0; 64 << 10];
        while let Ok(count @ 1..) = client.read(&mut bytes) {
            let left = self.cut_after.load(Ordering::SeqCst);
            if left > 0 && left <= count as u64 {
                let _ = server.write_all(&bytes[..left as usize]);
                self.cut_after.store(0, Ordering::SeqCst);
                self.cuts.fetch_add(1, Ordering::SeqCst);
                break;
            }
            if left > 0 {
                self.cut_after.store(left - count as u64, Ordering::SeqCst);
            }
            if server.write_all(&bytes[..count]).is_err() {
                break;
            }
        }
        let _ = (server.shutdown(Shutdown::Both), client.shutdown(Shutdown::Both));
    }

    fn down(&self, mut server: TcpStream, mut client: TcpStream) {
        let mut bytes = vec![0; 64 << 10];
        while let Ok(count @ 1..) = server.read(&mut bytes) {
            if self.loses.swap(0, Ordering::SeqCst) == 1 {
                self.cuts.fetch_add(1, Ordering::SeqCst);
                break;
            }
            if client.write_all(&bytes[..count]).is_err() {
                break;
            }
        }
        // What the server still carries out must not be disturbed by the end of the connection.
        std::thread::sleep(Duration::from_millis(30));
        let _ = (client.shutdown(Shutdown::Both), server.shutdown(Shutdown::Both));
    }
}
