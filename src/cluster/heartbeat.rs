//! The heartbeat of the host that leads: it renews the lease while nothing is appended, and notices when
//! another host leads or should lead.
//!
//! Contract. A service loop that does not get on, because its disk hangs for example, keeps no lead: its lease is not
//! renewed until it does.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};

use super::shared_log::{LeaseHeld, Member, SharedLog};
use super::standby::{Connect, Terms};
use crate::work::lead::Lead;

/// A turn of the service loop takes less, also one with a long commit.
const TURN_WITHIN: Duration = Duration::from_secs(20);

/// Called once, when another host should lead. It says whether this host ends its lead for that.
pub type HandOver = Box<dyn FnOnce(&str) -> bool + Send>;

pub struct Heartbeat {
    lead: Arc<Lead>,
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
        let (lead, hands_over) = (Arc::<Lead>::default(), Arc::<AtomicBool>::default());
        let (stop, stopped) = bounded(0);
        let mut beat = Beat {
            lead: Arc::clone(&lead),
            hands_over: Arc::clone(&hands_over),
            hand_over: Some(hand_over),
            watch: Watch { turns: 0, since: Instant::now() },
        };
        let thread = std::thread::Builder::new().name("heartbeat".to_owned());
        let thread = thread.spawn(move || beat.run(&connect, &me, terms, &stopped))?;
        Ok(Heartbeat { lead, hands_over, stop, thread })
    }

    /// Whether this host ends its lead because another one should lead.
    pub fn hands_over(&self) -> bool {
        self.hands_over.load(Ordering::Acquire)
    }

    /// For the loop that runs while this host leads.
    pub fn lead(&self) -> Arc<Lead> {
        Arc::clone(&self.lead)
    }

    pub fn finish(self) {
        drop(self.stop);
        let _ = self.thread.join();
    }
}

/// Looks whether the service loop gets on.
struct Watch {
    turns: u64,
    /// When this turn was first seen.
    since: Instant,
}

impl Watch {
    /// `turns` are those of the loop so far, 0 while there is no loop.
    fn gets_on(&mut self, turns: u64, now: Instant) -> bool {
        if turns == 0 || turns != self.turns {
            *self = Watch { turns, since: now };
        }
        now.duration_since(self.since) < TURN_WITHIN
    }
}

struct Beat {
    lead: Arc<Lead>,
    hands_over: Arc<AtomicBool>,
    hand_over: Option<HandOver>,
    watch: Watch,
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
        let mut got_on = true;
        while stopped.recv_timeout(terms.beat()) == Err(RecvTimeoutError::Timeout) {
            let gets_on = self.watch.gets_on(self.lead.turns(), Instant::now());
            if got_on && !gets_on {
                let what = "the service does not get on, so its lease is not renewed and another host may lead";
                tracing::error!("{what}; is a disk too slow or full?");
            }
            got_on = gets_on;
            if !gets_on {
                continue;
            }
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
                    self.lead.end();
                    return;
                }
                // The lease may end; whether another one leads shows the next answer.
                Err(error) => tracing::debug!(%error, "the lease was not renewed"),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_that_does_not_get_on_keeps_no_lead() {
        let begun = Instant::now();
        let at = |seconds| begun + Duration::from_secs(seconds);
        let mut watch = Watch { turns: 0, since: begun };
        assert!(
            watch.gets_on(0, at(100)),
            "a forgetting between two loops takes as long as it takes"
        );
        assert!(watch.gets_on(1, at(101)));
        assert!(watch.gets_on(1, at(120)));
        assert!(!watch.gets_on(1, at(122)));
        assert!(!watch.gets_on(1, at(500)));
        assert!(watch.gets_on(2, at(501)), "it gets on again");
    }
}
