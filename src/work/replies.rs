//! Model responses that are not durable yet. A worker waits until its response is durable.

use std::collections::BTreeSet;
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::contract::hash::Digest;
use crate::contract::ids::Seq;

/// Longest wait for a response to be committed. A disk that takes longer has other problems, and
/// the attempt continues.
const COMMIT_PATIENCE: Duration = Duration::from_secs(10);

/// The responses that were reported and are not durable yet, by request and call.
#[derive(Default)]
pub(super) struct UncommittedReplies {
    open: Mutex<BTreeSet<(Seq, Digest)>>,
    settled: Condvar,
}

impl UncommittedReplies {
    /// Reports a response and waits until it is settled. `report` says whether anybody listens.
    pub(crate) fn wait_for(&self, request: Seq, call: Digest, report: impl FnOnce() -> bool) {
        let which = (request, call);
        let mut open = self.open.lock();
        // Entered before the report: the commit may be faster than this thread.
        open.insert(which);
        MutexGuard::unlocked(&mut open, || {
            if !report() {
                self.settle(request, &call);
            }
        });
        let is_open = |open: &mut BTreeSet<(Seq, Digest)>| open.contains(&which);
        let waited = self.settled.wait_while_for(&mut open, is_open, COMMIT_PATIENCE);
        if waited.timed_out() {
            open.remove(&which);
        }
    }

    /// The response is durable, or never will be because its attempt has ended.
    pub(super) fn settle(&self, request: Seq, call: &Digest) {
        if self.open.lock().remove(&(request, *call)) {
            self.settled.notify_all();
        }
    }
}
