//! Questions and answers about a home, over a socket beside a running service or in process.

pub mod answers;
mod log_queries;
mod quarantine;
pub mod question;
pub(crate) mod release;
pub mod reply;
pub(crate) mod requests;
mod show;
pub mod socket;
mod source_names;
pub(crate) mod status;
pub(crate) mod waits;
