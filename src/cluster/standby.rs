//! A host that does not lead: it follows, ships the lines of its queue, and leads when nobody else does.
//!
//! Contract. What is out of reach stops nothing here: the host keeps what it has, says since when it hears
//! nothing, and tries again. Only what another try cannot mend is an error.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::contract::ids::Seq;
use crate::contract::time::Timestamp;
use crate::log::Reader;
use crate::sequencer::copies::Copies;
use crate::sequencer::mark::{MarkError, QueueMarks};

use super::following::{Attempt, Following, MemberError, Replica};
use super::leadership::Leadership;
use super::shared_lines::SharedLines;
use super::shared_log::{Member, SharedError, SharedLog};
use super::shipper::{Did, OwnQueue, ShipError, Shipper};

/// A service gives a sign about as often, or with each beat.
const SIGN_EVERY: Duration = Duration::from_secs(1);
/// How long a host waits after a connection that failed.
const RECONNECT_AFTER: Duration = Duration::from_millis(500);
/// How long it waits when it is too old for the shared log.
const LOOK_AGAIN_IF_OUTDATED: Duration = Duration::from_secs(10);
/// How long it waits after an error of its queue.
const SHIP_AGAIN_AFTER: Duration = Duration::from_secs(5);
/// Most batches of lines that are shipped before the host looks for commits again.
const SHIP_AT_ONCE: usize = 4;
/// How long a leader waits before it asks again what became of a commit.
const ASK_AGAIN_AFTER: Duration = Duration::from_millis(50);
/// Tries of a leader that lie apart so far are of two outages. One call of the shared log takes less.
const APART: Duration = Duration::from_secs(20);

/// Makes a connection to what the hosts share.
pub type Connect<L> = Arc<dyn Fn() -> Result<L, SharedError> + Send + Sync>;

/// What hosts agree on beforehand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Terms {
    /// How long a leader that is not heard of keeps the lead.
    pub lease: Duration,
    /// How long a leader tries to find out what became of a commit.
    pub patience: Duration,
    /// Whether this host leads when nobody else does.
    pub may_lead: bool,
    /// Whether lines of this host are taken in.
    pub ships: bool,
    /// Whether this host carries attempts out.
    pub works: bool,
}

impl Terms {
    /// How often the lease is renewed, and how often others try to get it.
    pub fn beat(&self) -> Duration {
        self.lease / 4
    }
}

#[derive(Debug, thiserror::Error)]
pub enum StandbyError<E> {
    #[error(transparent)]
    Member(MemberError<E>),
    #[error(transparent)]
    Mark(#[from] MarkError),
    #[error(
        "another service runs under the name of this host, {0}; each host needs a name of its own"
    )]
    Doubled(String),
    /// There is nothing that this host could go on with.
    #[error("this home has nothing of the shared log yet, and cannot get it")]
    NeverJoined(#[source] SharedError),
}

/// What a step did.
pub enum Step<L> {
    /// The own log got commits, or lines were shipped.
    Did,
    Nothing,
    /// This host leads now.
    Leads(Leadership<L>),
}

/// Since when something does not work, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trouble {
    pub since: Timestamp,
    pub words: String,
}

struct Connected<L> {
    following: Following<L>,
    shipper: Shipper<L>,
}

/// Whether another service runs under the name of this host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Name {
    Unknown,
    /// Another start gave this sign not long ago. It may have ended since.
    Watched {
        since: Instant,
        stamp: i64,
    },
    Free,
}

pub struct Standby<L> {
    connect: Connect<L>,
    me: Member,
    terms: Terms,
    queue: OwnQueue,
    copies: Copies,
    connected: Option<Connected<L>>,
    name: Name,
    /// For looking after the name.
    signs: Option<L>,
    connect_at: Instant,
    ship_at: Instant,
    lead_at: Instant,
    /// Why the shared log is not heard of.
    unreached: Option<Trouble>,
    /// Why lines are not shipped.
    unshipped: Option<Trouble>,
}

impl<L: SharedLog + SharedLines> Standby<L> {
    pub fn new(connect: Connect<L>, me: Member, terms: Terms, queue: OwnQueue) -> Standby<L> {
        let now = Instant::now();
        let copies = Copies::new(me.host.clone());
        Standby {
            connect,
            me,
            terms,
            queue,
            copies,
            connected: None,
            name: Name::Unknown,
            signs: None,
            connect_at: now,
            ship_at: now,
            // A leader that lives renews within this time.
            lead_at: now,
            unreached: None,
            unshipped: None,
        }
    }

    /// It does not lead any more, whoever else does.
    pub fn only_follow(&mut self) {
        self.terms.may_lead = false;
    }

    /// Whether the shared log is heard of, and no other service can have the name of this host.
    pub fn takes_part(&self) -> bool {
        self.unreached.is_none() && self.name == Name::Free
    }

    /// Why the shared log is not heard of, if it is not.
    pub fn unreached(&self) -> Option<&Trouble> {
        self.unreached.as_ref()
    }

    /// Why lines of this host wait here, if they do.
    pub fn unshipped(&self) -> Option<&Trouble> {
        self.unshipped.as_ref()
    }

    /// Follows, ships and tries to lead, each at most once.
    pub fn step<R: Replica>(
        &mut self,
        replica: &mut R,
        log: &Reader,
        now: Timestamp,
    ) -> Result<Step<L>, StandbyError<R::Error>> {
        let Some(mut connected) = self.connection(now) else { return Ok(Step::Nothing) };
        if self.name != Name::Free {
            match self.look_for_another() {
                Ok(false) => {}
                Ok(true) => return Err(StandbyError::Doubled(self.me.host.clone())),
                Err(error) => return self.lost_before(replica, error, now),
            }
            if self.name == Name::Free {
                self.signs = None;
            } else {
                self.heard(connected);
                return Ok(Step::Nothing);
            }
        }
        match connected.following.step(replica) {
            Ok(true) => {
                // What is behind may go on for long, and the leader must not wait for lines meanwhile.
                if connected.shipper.has_begun() {
                    self.ship(&mut connected.shipper, log, now)?;
                }
                self.heard(connected);
                return Ok(Step::Did);
            }
            Ok(false) => {}
            Err(MemberError::Shared(error)) => return self.lost_before(replica, error, now),
            Err(MemberError::Replica(error)) if R::is_of_newer(&error) => {
                return Ok(self.outdated(now));
            }
            Err(error) => return Err(StandbyError::Member(error)),
        }
        // The own log is level, so its marks are as new as can be, and shipping may begin.
        let shipped = self.ship(&mut connected.shipper, log, now)?;
        let Connected { following, shipper } = connected;
        if !self.terms.may_lead || Instant::now() < self.lead_at {
            self.heard(Connected { following, shipper });
            return Ok(if shipped { Step::Did } else { Step::Nothing });
        }
        self.lead_at = Instant::now() + self.terms.beat();
        match following.try_to_lead(replica, self.terms.lease, patience(self.terms.patience)) {
            Ok(Attempt::Leads(leadership)) => Ok(Step::Leads(leadership)),
            Ok(Attempt::Held(following)) => {
                self.heard(Connected { following, shipper });
                Ok(if shipped { Step::Did } else { Step::Nothing })
            }
            Err(MemberError::Shared(error)) => Ok(self.lost(&error, now)),
            Err(MemberError::Replica(error)) if R::is_of_newer(&error) => Ok(self.outdated(now)),
            Err(error) => Err(StandbyError::Member(error)),
        }
    }

    /// It goes on with what it has: only a newer program can go on with the shared log.
    fn outdated<T>(&mut self, now: Timestamp) -> Step<T> {
        let what = "a newer program wrote the next commit, and this one does not know all of it: update this host";
        let step = self.lost(&SharedError::Refused(what.to_owned()), now);
        self.connect_at = Instant::now() + LOOK_AGAIN_IF_OUTDATED;
        step
    }

    fn connection(&mut self, now: Timestamp) -> Option<Connected<L>> {
        if let Some(connected) = self.connected.take() {
            return Some(connected);
        }
        if Instant::now() < self.connect_at {
            return None;
        }
        let lists = (self.connect)().and_then(|list| Ok((list, (self.connect)()?)));
        match lists {
            Ok((list, lines)) => {
                let shipper = Shipper::new(lines, self.me.clone(), self.queue.clone());
                Some(Connected { following: Following::new(list, self.me.clone()), shipper })
            }
            Err(error) => {
                self.lost::<L>(&error, now);
                None
            }
        }
    }

    fn heard(&mut self, connected: Connected<L>) {
        if self.unreached.take().is_some() {
            tracing::warn!("the shared log is reached again");
        }
        self.connected = Some(connected);
    }

    fn lost<T>(&mut self, error: &SharedError, now: Timestamp) -> Step<T> {
        self.connect_at = Instant::now() + RECONNECT_AFTER;
        if self.unreached.is_none() {
            tracing::warn!(%error, "this host hears nothing of the shared log; it goes on with what it has");
        }
        let since = self.unreached.take().map_or(now, |trouble| trouble.since);
        self.unreached = Some(Trouble { since, words: error.to_string() });
        Step::Nothing
    }

    /// Whether another service gives signs under the name of this host.
    fn look_for_another(&mut self) -> Result<bool, SharedError> {
        let quiet = self.terms.beat().max(SIGN_EVERY) * 3;
        let mut signs = match self.signs.take() {
            Some(signs) => signs,
            None => (self.connect)()?,
        };
        let sign = signs.sign(&self.me.host)?;
        self.signs = Some(signs);
        let Some(sign) = sign.filter(|sign| sign.start != self.me.to_string() && sign.age < quiet)
        else {
            self.name = Name::Free;
            return Ok(false);
        };
        match self.name {
            Name::Watched { stamp, .. } if stamp != sign.stamp => return Ok(true),
            Name::Watched { since, .. } if since.elapsed() >= quiet => self.name = Name::Free,
            Name::Watched { .. } | Name::Free => {}
            Name::Unknown => {
                self.name = Name::Watched { since: Instant::now(), stamp: sign.stamp };
            }
        }
        Ok(false)
    }

    /// A refusal ends a host whose home is empty: nothing there can be served meanwhile.
    fn lost_before<R: Replica>(
        &mut self,
        replica: &R,
        error: SharedError,
        now: Timestamp,
    ) -> Result<Step<L>, StandbyError<R::Error>> {
        let is_empty = replica.head().0 == Seq::ZERO;
        match error {
            refused @ SharedError::Refused(_) if is_empty => {
                Err(StandbyError::NeverJoined(refused))
            }
            error => Ok(self.lost(&error, now)),
        }
    }

    fn ship(
        &mut self,
        shipper: &mut Shipper<L>,
        log: &Reader,
        now: Timestamp,
    ) -> Result<bool, MarkError> {
        if !self.terms.ships || Instant::now() < self.ship_at {
            return Ok(false);
        }
        let marks = QueueMarks::decode(&log.mark())?;
        let OwnQueue { disk, path, .. } = &self.queue;
        let is_own = self.copies.refuse(log, &marks, disk, path).map_err(ShipError::from);
        match is_own.and_then(|()| ship_some(shipper, &marks, now)) {
            Ok(shipped) => {
                self.unshipped = None;
                Ok(shipped)
            }
            Err(error) => {
                let rest = match error {
                    ShipError::Shared(_) => RECONNECT_AFTER,
                    _ => SHIP_AGAIN_AFTER,
                };
                self.ship_at = Instant::now() + rest;
                if self.unshipped.is_none() {
                    tracing::warn!(%error, "the lines of this host wait here");
                }
                let since = self.unshipped.take().map_or(now, |trouble| trouble.since);
                self.unshipped = Some(Trouble { since, words: error.to_string() });
                Ok(false)
            }
        }
    }
}

/// True when anything was shipped.
fn ship_some<S: SharedLines>(
    shipper: &mut Shipper<S>,
    marks: &QueueMarks,
    now: Timestamp,
) -> Result<bool, ShipError> {
    for count in 0..SHIP_AT_ONCE {
        if shipper.step(marks, now)? == Did::Nothing {
            return Ok(count > 0);
        }
    }
    Ok(true)
}

/// Tries for so long in each outage. Calls that come close to each other belong to the same one.
fn patience(all: Duration) -> super::leadership::Patience {
    let mut outage: Option<(Instant, Instant)> = None;
    Box::new(move || {
        let same = outage.filter(|(_, last)| last.elapsed() < APART);
        let begun = same.map_or_else(Instant::now, |(begun, _)| begun);
        std::thread::sleep(ASK_AGAIN_AFTER);
        outage = Some((begun, Instant::now()));
        begun.elapsed() < all
    })
}
