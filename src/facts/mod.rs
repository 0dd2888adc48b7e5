//! The content of events: plain typed data, one file for each subject.
//!
//! Contract. An event of the log holds these values and the codec stores them in binary; no event
//! holds JSON that this program reads back. Each value is made once, where the fact happens, and
//! every projection reads the same type. A stored payload that does not decode into its type is
//! damage, and the reader reports it with its sequence number.
//!
//! Text from outside (what a provider called its model, the message of an error) stays text. No
//! projection looks into it.
//!
//! The JSON form (`serde`) is for people: `log dump`, `show`, `explain`. Caches that may be deleted
//! use it too. Nothing here computes, reads a file or reads a clock.
//!
//! See docs/adr/0082-typed-event-content.md.

pub mod agent_run;
pub mod attempt;
pub mod batch;
pub mod dialect;
pub mod digest;
pub mod failure;
pub mod model;
pub mod note;
pub mod publication;
pub mod queue;
pub mod recovery;
pub mod retention;
pub mod session;
pub(crate) mod window;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// JSON that a person wrote in the configuration, kept as it was given.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct JsonObject(pub Map<String, Value>);
