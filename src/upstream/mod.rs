//! Upstream in: events, sessions, chunks and other files become the exact text of one request.
//!
//! Contract: partitions are read by manifest, never guessed around; whatever is wrong ends the
//! requests that need it with a status, a reason and the class of the shared taxonomy. Resolving
//! the same input over the same upstream gives the same sources, order and hash, whatever the
//! order of the ids in the request. A day file is verified in one streamed pass and from then on
//! read by byte range.
//!
//! What this deliberately does not do: write upstream (only the import commands do), recompute an
//! upstream day, or read anything that has no manifest, except the bus `other`, which has none.

#![allow(
    clippy::result_large_err,
    reason = "an error ends a request, and its details are the point"
)]

mod beneath;
pub(crate) mod chat_lines;
pub mod context;
pub(crate) mod dated;
pub mod defect;
pub mod family;
pub mod file_names;
pub mod index;
pub mod lines;
pub(crate) mod loose;
pub mod manifest;
pub(crate) mod moment;
pub mod other;
mod other_query;
pub mod partition;
pub mod query;
pub mod recompute;
pub mod record;
pub(crate) mod record_names;
pub mod resolve;
pub mod selection;
mod selection_items;
pub mod source;
mod sources;
pub mod text;
pub mod view;

pub use defect::ResolveError;
pub(crate) use family::Family;
pub(crate) use index::IndexStore;
pub use index::{MemoryIndex, index_of_home};
pub use resolve::{InputSpec, Options, Resolved, resolve};
pub(crate) use source::Source;
pub(crate) use sources::is_summary_id;
pub use view::Upstream;
