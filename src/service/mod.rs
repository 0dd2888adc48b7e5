//! The service loop: one thread that takes every input, commits it, and acts after the commit.
//!
//! The order of a turn is the order of the guarantees: take what is ready (queue lines, reports of
//! workers, questions, orders of notes), decide and apply it, start attempts, commit all of it in
//! one transaction, and only then hand events to the projections, tasks to the workers and answers
//! to the callers. A crash repeats at most the last part, and repeating it is harmless. While one
//! batch is written, the next ones fill. The loop acts on each batch as soon as it is durable.
//!
//! The same loop serves (until it is told to stop) and drains (until nothing is left to do).
//!
//! | file | subject |
//! |---|---|
//! | `setup`, `start` | what the caller gives, and how the loop begins |
//! | `state` | what the loop holds |
//! | `queue_lines`, `reports`, `questions`, `notes` | one kind of input each |
//! | `starts` | limits, timeouts, and which attempts start |
//! | `batches` | sealing a batch, and what follows once it is durable |
//! | `aside` | orders for which the loop ends and begins again |
//! | `day`, `shutdown` | the end of a session, at midnight and for good |
//! | `turn` | one turn after another |

mod aside;
mod batches;
mod budget;
mod counts;
mod day;
mod error;
mod notes;
mod questions;
mod queue_lines;
mod reports;
mod setup;
mod shutdown;
mod start;
mod starts;
mod state;
mod turn;
mod work_left;

pub(crate) use aside::{Aside, MayBeginAgain};
pub(crate) use counts::{Failure, FailureKind, FailureMessage, SessionCounts};
pub(crate) use error::ServiceError;
pub(crate) use setup::NextSession;
pub(crate) use setup::Reload;
pub(crate) use setup::Reloaded;
pub(crate) use setup::ShowPage;
pub(crate) use setup::StopSignal;
pub(crate) use setup::Watch;
pub use setup::{Service, Until};
