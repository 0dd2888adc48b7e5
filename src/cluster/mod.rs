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
//! See docs/adr/0127-one-log-for-many-hosts.md.

pub mod access;
pub mod collector;
pub mod following;
pub mod heartbeat;
pub mod leadership;
pub mod lines;
pub mod postgres;
pub mod shared_lines;
pub mod shared_log;
pub mod shipper;
pub mod standby;
pub mod verifying;
