//! The heartbeat of the host that leads: it renews the lease while nothing is appended, and notices when
//! another host leads or should lead.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};

use super::shared_log::{LeaseHeld, Member, SharedLog};
use super::standby::{Connect, Terms};

/// Called once, when another host should lead. It says whether this host ends its lead for that.
pub type HandOver = Box<dyn FnOnce(&str) -> bool + Send>;

pub struct Heartbeat {
    deposed: Arc<AtomicBool>,
    hands_over: Arc<AtomicBool>,
    stop: Sender<()>,
    thread: JoinHandle<()>,
}

impl Heartbeat {
    pub fn start<L: SharedLog + 'static>(
        connect: Connect<L>,
        me: Member,
        terms: Terms,
        hand_over: HandOver,
    ) -> std::io::Result<Heartbeat> {
        let (deposed, hands_over) = (Arc::<AtomicBool>::default(), Arc::<AtomicBool>::default());
        let (stop, stopped) = bounded(0);
        let mut beat = Beat {
            deposed: Arc::clone(&deposed),
            hands_over: Arc::clone(&hands_over),
            hand_over: Some(hand_over),
        };
        let thread = std::thread::Builder::new().name("heartbeat".to_owned());
        let thread = thread.spawn(move || beat.run(&connect, &me, terms, &stopped))?;
        Ok(Heartbeat { deposed, hands_over, stop, thread })
    }

    /// Whether this host ends its lead because another one should lead.
    pub fn hands_over(&self) -> bool {
        self.hands_over.load(Ordering::Acquire)
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

struct Beat {
    deposed: Arc<AtomicBool>,
    hands_over: Arc<AtomicBool>,
    hand_over: Option<HandOver>,
}

impl Beat {
    /// The lease is renewed until the end, also while this host hands over.
    fn run<L: SharedLog>(
        &mut self,
        connect: &Connect<L>,
        me: &Member,
        terms: Terms,
        stopped: &Receiver<()>,
    ) {
        let mut list = None;
        while stopped.recv_timeout(terms.beat()) == Err(RecvTimeoutError::Timeout) {
            let Some(open) = list.take().or_else(|| connect().ok()) else { continue };
            let mut open: L = open;
            match open.renew(me, terms.lease) {
                Ok(LeaseHeld::Mine) => list = Some(open),
                Ok(LeaseHeld::For(host)) => {
                    list = Some(open);
                    if let Some(hand_over) = self.hand_over.take() {
                        self.hands_over.store(hand_over(&host), Ordering::Release);
                    }
                }
                Ok(LeaseHeld::Deposed) => {
                    self.deposed.store(true, Ordering::Release);
                    return;
                }
                // The lease may end; whether another one leads shows the next answer.
                Err(error) => tracing::debug!(%error, "the lease was not renewed"),
            }
        }
    }
}
