//! The heartbeat of the host that leads: it renews the lease while nothing is appended, and notices when
//! another host leads.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};

use super::shared_log::{Member, SharedLog};
use super::standby::{Connect, Terms};

pub struct Heartbeat {
    deposed: Arc<AtomicBool>,
    stop: Sender<()>,
    thread: JoinHandle<()>,
}

impl Heartbeat {
    pub fn start<L: SharedLog + 'static>(
        connect: Connect<L>,
        me: Member,
        terms: Terms,
    ) -> std::io::Result<Heartbeat> {
        let deposed = Arc::new(AtomicBool::new(false));
        let (stop, stopped) = bounded(0);
        let told = Arc::clone(&deposed);
        let thread = std::thread::Builder::new().name("heartbeat".to_owned());
        let thread = thread.spawn(move || beat(&connect, &me, terms, &told, &stopped))?;
        Ok(Heartbeat { deposed, stop, thread })
    }

    /// Set once another host leads.
    pub fn deposed(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.deposed)
    }

    pub fn finish(self) {
        drop(self.stop);
        let _ = self.thread.join();
    }
}

fn beat<L: SharedLog>(
    connect: &Connect<L>,
    me: &Member,
    terms: Terms,
    deposed: &AtomicBool,
    stopped: &Receiver<()>,
) {
    let mut list = None;
    while stopped.recv_timeout(terms.beat()) == Err(RecvTimeoutError::Timeout) {
        let Some(open) = list.take().or_else(|| connect().ok()) else { continue };
        let mut open: L = open;
        match open.renew(me, terms.lease) {
            Ok(true) => list = Some(open),
            Ok(false) => {
                deposed.store(true, Ordering::Release);
                return;
            }
            // The lease may end; whether another one leads shows the next answer.
            Err(error) => tracing::debug!(%error, "the lease was not renewed"),
        }
    }
}
