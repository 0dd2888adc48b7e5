//! The work that a session leaves although its time had come.

use std::collections::BTreeMap;

use crate::contract::ids::Seq;
use crate::contract::time::Timestamp;
use crate::facts::session::{WaitReason, WaitingWork, WorkLeft};
use crate::state::{State, Status};

/// Open requests that are looked at, oldest first.
const SCANNED: usize = 20_000;

/// `None`: every open request waits for its own time or for another request.
pub(super) fn work_left(state: &State, unread_bytes: u64) -> Option<WorkLeft> {
    let mut put_off: BTreeMap<WaitReason, (u64, Timestamp)> = BTreeMap::new();
    for (_, open) in state.open_from(Seq(0)).take(SCANNED) {
        if open.row.status != Status::Backoff {
            continue;
        }
        let reason = open.row.reason.map_or(WaitReason::Unknown, WaitReason::Reason);
        let reason = open.row.cause.map_or(reason, WaitReason::Cause);
        let (requests, next) = put_off.entry(reason).or_insert((0, open.eligible_at));
        *requests += 1;
        *next = open.eligible_at.min(*next);
    }
    let put_off = put_off.into_iter().map(|(reason, (requests, next))| WaitingWork {
        reason,
        requests,
        next: Some(next),
    });
    let mut waits: Vec<WaitingWork> = put_off.collect();
    let ready = state.ready_count() as u64;
    let is_held_up = ready > 0 || unread_bytes > 0;
    let unread_bytes = if state.paused().is_empty() { 0 } else { unread_bytes };
    if is_held_up {
        waits.extend(state.paused().iter().map(|cause| WaitingWork {
            reason: WaitReason::Pause(*cause),
            requests: ready,
            next: None,
        }));
    }
    (!waits.is_empty()).then_some(WorkLeft { waits, unread_bytes })
}
