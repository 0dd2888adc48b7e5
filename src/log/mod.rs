//! The durable log.

mod chain;
pub mod codec;
mod error;
mod frame;
mod runs;
mod store;

pub use chain::{genesis, record_hash};
pub use error::LogError;
pub use frame::{Entry, NewRecord, Record};
pub use store::{
    Appended, ChainReport, Checkpoint, Commit, Options, Reader, Stats, Store, TableStats,
};
