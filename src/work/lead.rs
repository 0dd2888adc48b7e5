//! Whether this host leads others, and whether its service loop gets on.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The lead of this host, as its service loop and the thread that renews it see it.
#[derive(Debug, Default)]
#[cfg_attr(not(feature = "cluster"), allow(dead_code, reason = "without a cluster nobody leads"))]
pub struct Lead {
    has_ended: AtomicBool,
    turns: AtomicU64,
}

#[cfg_attr(not(feature = "cluster"), allow(dead_code, reason = "without a cluster nobody leads"))]
impl Lead {
    /// Whether another host leads. The loop asks at each turn, which shows that it gets on.
    pub fn is_over_at_turn(&self) -> bool {
        self.turns.fetch_add(1, Ordering::AcqRel);
        self.has_ended()
    }

    pub fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Acquire)
    }

    /// Another host leads.
    pub fn end(&self) {
        self.has_ended.store(true, Ordering::Release);
    }

    /// The loop has ended, perhaps for a while.
    pub fn rest(&self) {
        self.turns.store(0, Ordering::Release);
    }

    /// Turns of the loop so far; 0 while there is no loop.
    pub fn turns(&self) -> u64 {
        self.turns.load(Ordering::Acquire)
    }
}
