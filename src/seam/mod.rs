//! The queue: the one way requests come in.
//!
//! [`tail`] reads the append-only file from a durable [`position`] in batches, [`mod@line`] turns each
//! line into a request or a quarantined line, [`watch`] says when to look again, and [`append`] with
//! [`build`] is the other side: what a caller uses to add a request safely.
//!
//! The file belongs to its callers. Nothing here ever changes a byte that is in it, and a file
//! that shrank, was replaced or was rewritten is reported, never guessed around.

pub mod append;
pub(crate) mod arrival;
pub mod build;
pub mod line;
pub mod position;
pub mod tail;
pub mod watch;
