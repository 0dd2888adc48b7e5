//! The flow registry: which flow packs exist, and the exact bytes of each.
//!
//! Contract: the dataset `registry.flow_packs.v1.jsonl` is the only truth. A request names
//! (kind, flow_id, variant) and gets what the dataset says, whatever else a directory holds. A pack is
//! read once, hashed over its LF-normalized files and compared with the record. The bytes that were
//! hashed are the bytes that run, so a file that changes after the check has no effect.
//!
//! Deliberately not here: what is inside a flow (`flow`), and which pack was used when (the log).

pub mod binding;
mod dataset;
mod directory;
mod pack;
mod record;

pub(crate) use dataset::DATASET;
pub(crate) use dataset::HOME_FOLDER;
pub(crate) use dataset::Mutation;
pub use dataset::Registry;
pub(crate) use dataset::RegistryError;
pub(crate) use dataset::Resolution;
pub(crate) use dataset::clean_path;
pub(crate) use dataset::embedded_files;
pub(crate) use directory::REGISTRY_KIND;
pub use directory::{FlowDirectory, SharedFlows};
pub(crate) use pack::PackError;
pub use pack::PackFiles;
pub(crate) use record::DeclaredOutputs;
pub(crate) use record::IoContract;
pub(crate) use record::IoOutput;
pub(crate) use record::RECORD_VERSION;
pub use record::{FlowPackRecord, IoInput, Status, label};
