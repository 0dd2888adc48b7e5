//! Appending to a run: dense sequence, idempotent by event id. Pure bookkeeping; whoever keeps the
//! events asks here first and stores what is new.

use std::collections::HashMap;

use super::event::RunEvent;
use super::text::Text;
use crate::contract::hash::Digest;

/// What appending an event means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Appended {
    /// It is the next event; store it.
    New,
    /// It is there already, at this sequence number; nothing to do.
    Duplicate {
        /// Where.
        seq: u64,
    },
}

/// Why an event cannot be appended.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AppendError {
    /// The journal is of another run.
    #[error("append to run {expected}: the event is of run {found}")]
    OtherRun {
        /// The journal's run.
        expected: Text,
        /// The event's run.
        found: Text,
    },
    /// The sequence has a hole.
    #[error("append seq {found}: the next is {expected}")]
    NotDense {
        /// The next sequence number.
        expected: u64,
        /// The one offered.
        found: u64,
    },
    /// The id belongs to a different event.
    #[error("append {id}: the id belongs to another event at seq {seq}")]
    IdReused {
        /// The id.
        id: String,
        /// Where it was used.
        seq: u64,
    },
}

/// The ids of one run's events.
#[derive(Debug, Clone, Default)]
pub struct Journal {
    run_id: Option<Text>,
    last_seq: u64,
    known: HashMap<String, (u64, Digest)>,
}

impl Journal {
    /// The last sequence number appended.
    pub fn last_seq(&self) -> u64 {
        self.last_seq
    }

    /// Decides about an event, and counts it when it is new.
    pub fn append(&mut self, event: &RunEvent) -> Result<Appended, AppendError> {
        if let Some(expected) = &self.run_id
            && *expected != event.run_id
        {
            let (expected, found) = (expected.clone(), event.run_id.clone());
            return Err(AppendError::OtherRun { expected, found });
        }
        let id = event.event_id().into_owned();
        let digest = event.content_digest();
        if let Some((seq, known)) = self.known.get(&id) {
            let seq = *seq;
            return if *known == digest {
                Ok(Appended::Duplicate { seq })
            } else {
                Err(AppendError::IdReused { id, seq })
            };
        }
        let expected = self.last_seq + 1;
        if event.seq != expected {
            return Err(AppendError::NotDense { expected, found: event.seq });
        }
        self.run_id.get_or_insert_with(|| event.run_id.clone());
        self.last_seq = expected;
        self.known.insert(id, (expected, digest));
        Ok(Appended::New)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(seq: u64, id: Option<&str>, statement: &str) -> RunEvent {
        let mut line = serde_json::json!({
            "schema": "run_event.v1", "run_id": "r", "seq": seq, "ts": "2026-01-14T09:00:00.000Z",
            "step_id": 1, "phase": "OBSERVE", "type": "CLAIM_ADDED",
            "payload": {"claim_id": "c", "statement": statement},
        });
        if let Some(id) = id {
            line["event_id"] = id.into();
        }
        RunEvent::parse(line.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn appending_twice_is_appending_once() {
        let mut journal = Journal::default();
        assert_eq!(journal.append(&event(1, None, "a")), Ok(Appended::New));
        assert_eq!(journal.append(&event(1, None, "a")), Ok(Appended::Duplicate { seq: 1 }));
        assert_eq!(journal.append(&event(2, Some("x"), "b")), Ok(Appended::New));
        assert_eq!(journal.append(&event(3, Some("x"), "b")), Ok(Appended::Duplicate { seq: 2 }));
        assert_eq!(journal.last_seq(), 2);
    }

    #[test]
    fn holes_and_reused_ids_are_refused() {
        let mut journal = Journal::default();
        journal.append(&event(1, Some("x"), "a")).unwrap();
        let hole = AppendError::NotDense { expected: 2, found: 3 };
        assert_eq!(journal.append(&event(3, None, "a")), Err(hole));
        let reused = AppendError::IdReused { id: "x".into(), seq: 1 };
        assert_eq!(journal.append(&event(2, Some("x"), "b")), Err(reused));
    }
}
