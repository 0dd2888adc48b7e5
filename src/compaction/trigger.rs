//! Decides when a snapshot is due: after enough distinct terminal events, or after enough steps
//! when steps end without such events. Checked only between steps.

use serde::{Deserialize, Serialize};

use super::window::SinceSnapshot;

/// Terminal events after which a snapshot is due, unless configured.
pub(crate) const EVENT_THRESHOLD: u64 = 18;
/// Steps after which a snapshot is due, unless configured.
pub(crate) const STEP_FALLBACK: u64 = 8;

/// The two thresholds of the trigger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Thresholds {
    /// Distinct terminal events; three for each complete step.
    pub event_threshold: u64,
    /// Steps, for runs whose steps do not complete.
    pub step_fallback: u64,
}

impl Default for Thresholds {
    fn default() -> Self {
        Thresholds { event_threshold: EVENT_THRESHOLD, step_fallback: STEP_FALLBACK }
    }
}

impl Thresholds {
    /// True when either threshold is reached.
    pub fn reached(&self, window: &SinceSnapshot) -> bool {
        window.counted.len() as u64 >= self.event_threshold
            || window.steps.len() as u64 >= self.step_fallback
    }
}
