//! Many hosts, one log.
//!
//! A commit of the log is one value: frames, bodies and mark, with the hash before it and after it. The
//! hosts of a cluster share an ordered list of such commits, and each builds its whole home from it. One
//! host at a time leads: it decides, and appends to the list before it writes to its own log. All
//! others follow.
//!
//! [`shared_log`] says what the list has to offer, whatever keeps it; [`postgres`] keeps it. [`leadership`] is the side of the
//! host that appends, [`following`] that of the hosts that read, and the way from one to the other.
//!
//! # Lines
//!
//! Each host has a queue of its own. A host that follows ships its lines ([`shipper`], [`lines`]) by way of
//! [`shared_lines`], and the leader collects them ([`collector`]) beside those of its own queue file. What
//! was taken in is said by the marks in the log alone: `sequencer::mark`.
//!
//! - No line is taken in twice. A batch continues the chain of hashes that the mark of its host has, or it is
//!   passed over. To take it in twice, two commits would have to continue the same mark; but the second one
//!   continues the first in the list, where the mark is behind the batch already, and a leader that does not
//!   know the first one is not level with the list and appends nothing.
//! - No line is lost. A mark moves over bytes only with the commit that has their lines. Lines behind the mark
//!   are in the queue file of their host, which ships them from the mark on, as often as it takes.
//! - When the lead moves, nothing is handed over. A new leader has the marks in its log. Its own lines that it
//!   shipped before do not count; it reads its file from its mark. A former leader ships from the mark
//!   that its log has, and begins again when it sees a mark that is no end of a batch it shipped: a
//!   commit of its own without an answer may have landed.
//!
//! # Work
//!
//! The leader lists attempts that it has no thread for ([`lister`], [`shared_jobs`]). Hosts that follow claim
//! them ([`claimer`]), run them ([`host_work`]) and report ([`outcomes`]). The log alone says which attempts are
//! under way. A report counts once, for an attempt that this leader listed; a worker that is lost costs its
//! attempt, and a leader that is lost costs all of them.
//!
//! # Orders
//!
//! A host that follows changes nothing. It gives what it is asked to do to the leader ([`orders`],
//! [`shared_orders`]), and tells its answer once its own log has what the order changed.
//!
//! # What makes it safe
//!
//! - An append names the epoch of its leader and the end of the list it continues. The list takes it only
//!   when both still hold. A leader that was stopped and wakes up can therefore append nothing.
//! - An append whose answer is missing may have been carried out, or may be carried out later. The leader
//!   raises its own epoch first, which nothing late can pass, and then sees whether its commit is there.
//! - A follower applies only what the list holds for good: it waits until a write of its own, made after
//!   the reading, is confirmed.
//! - Each reading compares the end of the own log with the list. A list that is behind or another one has
//!   lost commits that were confirmed; the host stops and says so.
//!
//! The lease decides only when another host may try. It may be wrong without harm.
//!
//! See docs/adr/0127-one-log-for-many-hosts.md, docs/adr/0129-hosts-that-follow.md,
//! docs/adr/0132-work-on-all-hosts.md and docs/adr/0141-versions-of-a-shared-log.md.

pub mod access;
pub mod claimer;
pub mod collector;
pub mod following;
pub mod heartbeat;
pub mod host_work;
pub mod leadership;
pub mod lines;
pub mod lister;
pub mod lookout;
pub mod orders;
pub mod outcomes;
pub mod postgres;
pub mod shared_jobs;
pub mod shared_lines;
pub mod shared_log;
pub mod shared_orders;
pub mod shipper;
pub mod standby;
pub mod verifying;
pub mod waking;
