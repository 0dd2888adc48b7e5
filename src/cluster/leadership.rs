//! Leading: every commit goes to the shared list before it goes to the own log.
//!
//! Contract. [`Leadership::append`] returns when the commit is in the list. After any error this host
//! leads no more, and its own log may be one commit behind the list; it follows until it is level, and
//! then may claim again.

use std::time::Duration;

use crate::log::{LogError, Packed};
use crate::sequencer::writer::Agreement;

use super::shared_log::{Appended, Claim, End, Member, Outgoing, SharedError, SharedLog};

#[derive(Debug, thiserror::Error)]
pub enum LeadError {
    #[error("another host leads now")]
    Deposed,
    #[error(
        "the shared log ends at commit {found}, and commit {confirmed} was confirmed before: it has lost commits"
    )]
    Lost { confirmed: u64, found: u64 },
    /// A bug: a host leads only when its log is level with the list.
    #[error("a commit does not continue the shared log")]
    NotLevel,
    #[error("the shared log could not be reached in time; a commit may be in it or not")]
    GaveUp,
    #[error(transparent)]
    Shared(SharedError),
}

/// Waits a moment before the next try, and says whether there should be one.
pub type Patience = Box<dyn FnMut() -> bool + Send>;

/// The host that appends.
pub struct Leadership<L> {
    list: L,
    me: Member,
    claim: Claim,
    lease: Duration,
    patience: Patience,
}

impl<L: SharedLog> Leadership<L> {
    pub(super) fn new(
        list: L,
        me: Member,
        claim: Claim,
        lease: Duration,
        patience: Patience,
    ) -> Self {
        Leadership { list, me, claim, lease, patience }
    }

    /// The epoch and the end of the list, as this host knows them.
    #[cfg(any(test, feature = "internals"))]
    pub fn claim(&self) -> &Claim {
        &self.claim
    }

    /// Appends a commit, as often as it takes.
    pub fn append(&mut self, commit: &Outgoing) -> Result<(), LeadError> {
        let end = self.claim.end;
        if commit.from != (end.seq, end.hash) {
            return Err(LeadError::NotLevel);
        }
        let after = end.after(commit);
        loop {
            match self.list.append(&self.claim, commit, self.lease) {
                Ok(Appended::Landed) => break,
                Ok(Appended::Deposed) => return Err(LeadError::Deposed),
                Err(SharedError::Unclear(_)) if self.has_landed(&after)? => break,
                Err(SharedError::Unclear(_)) => {}
                Err(refused) => return Err(LeadError::Shared(refused)),
            }
        }
        self.claim.end = after;
        Ok(())
    }

    /// Whether an append without an answer is in the list. The higher epoch keeps out what is still
    /// under way, so the answer holds.
    fn has_landed(&mut self, after: &End) -> Result<bool, LeadError> {
        while (self.patience)() {
            match self.list.claim_again(&self.me, self.claim.epoch, self.lease) {
                Ok(None) => return Err(LeadError::Deposed),
                Ok(Some(Claim { epoch, end })) => {
                    self.claim.epoch = epoch;
                    return match end {
                        end if end == *after => Ok(true),
                        end if end == self.claim.end => Ok(false),
                        end => Err(LeadError::Lost { confirmed: self.claim.end.n, found: end.n }),
                    };
                }
                Err(SharedError::Unclear(_)) => {}
                Err(refused) => return Err(LeadError::Shared(refused)),
            }
        }
        Err(LeadError::GaveUp)
    }
}

impl<L: SharedLog> Agreement for Leadership<L> {
    fn agree(&mut self, packed: &Packed, mark: &[u8]) -> Result<(), LogError> {
        let commit = Outgoing::of(packed, mark);
        self.append(&commit).map_err(|error| LogError::Shared(Box::new(error)))
    }
}
