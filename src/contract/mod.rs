//! The words of the contracts: typed records and their JSON Schemas, stable ids, canonical JSON,
//! hashes and time.
//!
//! Everything here is a pure function of its arguments. No clock, no file, no store.

pub mod bytes;
pub mod digest_bus;
pub mod hash;
pub mod ids;
pub mod json;
mod people;
pub(crate) mod places;
pub(crate) mod privacy;
pub mod publish;
pub mod query;
pub mod request;
pub mod schema;
pub mod shown;
pub mod source;
pub mod stable_id;
pub mod time;
pub mod told;
pub(crate) mod versions;
pub mod vocabulary;
