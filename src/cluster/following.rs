//! Following: the own log becomes the list, commit by commit; and the way to the lead.
//!
//! Contract. A commit is applied once it is settled in the list. A host claims the list only when its
//! lease has ended, and leads only when its own log ends exactly where the list ended at the claim.

use std::time::Duration;

use crate::contract::hash::Digest;
use crate::contract::ids::Seq;
use crate::sequencer::follower::{FollowError, Follower};

use super::leadership::{Leadership, Patience};
use super::shared_log::{Claim, End, Listed, Member, Reading, SharedError, SharedLog};

/// About how many bytes of commits are read at a time.
const READ_BYTES: usize = 4 << 20;

#[derive(Debug, thiserror::Error)]
pub enum MemberError<E> {
    #[error(transparent)]
    Shared(#[from] SharedError),
    #[error(
        "the log of this home, which ends at record {seq}, is not a part of the shared log; either the home belongs to \
         another log, or it had its log alone for a while, or the database has lost commits that were confirmed"
    )]
    Differs { seq: Seq },
    #[error("the commit of the list that should continue record {seq} ends elsewhere than it says")]
    Misplaced { seq: Seq },
    #[error("apply a commit of the shared log")]
    Replica(#[source] E),
}

/// A log that takes shipped commits.
pub trait Replica {
    type Error;

    /// The last record and its hash.
    fn head(&self) -> (Seq, Digest);

    /// Takes the next commit; it is durable afterwards. What follows from its events is done here too: this
    /// is the only place that every commit passes, also while a host gets the lead.
    fn take(&mut self, shipped: &[u8]) -> Result<(), Self::Error>;

    /// Whether a newer program wrote the commit that was not taken, so that this one changed nothing.
    fn is_of_newer(_: &Self::Error) -> bool {
        false
    }
}

impl Replica for Follower {
    type Error = FollowError;

    fn head(&self) -> (Seq, Digest) {
        Follower::head(self)
    }

    fn take(&mut self, shipped: &[u8]) -> Result<(), FollowError> {
        Follower::take(self, shipped, &[]).map(drop)
    }

    fn is_of_newer(error: &FollowError) -> bool {
        error.is_of_newer()
    }
}

/// A host that follows.
pub struct Following<L> {
    list: L,
    me: Member,
    /// How far the own log is; `None` until it was looked up.
    place: Option<End>,
}

/// What came of trying to lead.
pub enum Attempt<L> {
    Leads(Leadership<L>),
    /// The lease is held, by this host or another one.
    Held(Following<L>),
}

impl<L: SharedLog> Following<L> {
    pub fn new(list: L, me: Member) -> Following<L> {
        Following { list, me, place: None }
    }

    /// Reads and applies what is behind the own log, up to a bound. Returns false when the own log was
    /// level.
    pub fn step<R: Replica>(&mut self, replica: &mut R) -> Result<bool, MemberError<R::Error>> {
        let behind = self.read(replica)?;
        if behind.is_empty() {
            return Ok(false);
        }
        self.list.settle()?;
        self.apply(replica, behind).map(|()| true)
    }

    /// Claims the list when it is free, and makes the own log level with it.
    pub fn try_to_lead<R: Replica>(
        mut self,
        replica: &mut R,
        lease: Duration,
        patience: Patience,
    ) -> Result<Attempt<L>, MemberError<R::Error>> {
        // A home that is no part of the list must not get the lead, so this comes first.
        self.step(replica)?;
        let Some(claim) = self.list.claim(&self.me, lease)? else {
            return Ok(Attempt::Held(self));
        };
        self.level(replica, &claim)?;
        let leadership = Leadership::new(self.list, self.me, claim, lease, patience);
        Ok(Attempt::Leads(leadership))
    }

    /// The claim was a write of its own, so everything up to its end is settled.
    fn level<R: Replica>(
        &mut self,
        replica: &mut R,
        claim: &Claim,
    ) -> Result<(), MemberError<R::Error>> {
        while self.place != Some(claim.end) {
            let mut behind = self.read(replica)?;
            // What another host appended since is not settled by this claim.
            behind.retain(|listed| listed.end.n <= claim.end.n);
            if behind.is_empty() {
                return Err(MemberError::Differs { seq: replica.head().0 });
            }
            self.apply(replica, behind)?;
        }
        Ok(())
    }

    fn read<R: Replica>(&mut self, replica: &R) -> Result<Vec<Listed>, MemberError<R::Error>> {
        let (seq, hash) = replica.head();
        let place = match self.place {
            Some(place) => place,
            None => match self.list.find(seq, hash)? {
                Some(place) => place,
                None => return Err(self.differs(seq, hash)),
            },
        };
        self.place = Some(place);
        match self.list.read_after(&place, READ_BYTES)? {
            Reading::Behind(commits) => Ok(commits),
            Reading::Differs => Err(self.differs(seq, hash)),
        }
    }

    /// This host stops. Whether the others can hear why changes nothing for it.
    fn differs<E>(&mut self, seq: Seq, hash: Digest) -> MemberError<E> {
        if let Err(error) = self.list.tell_difference(hash) {
            tracing::debug!(%error, "the others do not hear that this log is no part of the list");
        }
        MemberError::Differs { seq }
    }

    fn apply<R: Replica>(
        &mut self,
        replica: &mut R,
        behind: Vec<Listed>,
    ) -> Result<(), MemberError<R::Error>> {
        for Listed { end, shipped } in behind {
            let seq = replica.head().0;
            replica.take(&shipped).map_err(MemberError::Replica)?;
            if replica.head() != (end.seq, end.hash) {
                return Err(MemberError::Misplaced { seq });
            }
            self.place = Some(end);
        }
        Ok(())
    }
}
