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

pub use dataset::{
    DATASET, HOME_FOLDER, Mutation, Registry, RegistryError, Resolution, clean_path, embedded_files,
};
pub(crate) use directory::REGISTRY_KIND;
pub use directory::{FlowDirectory, SharedFlows};
pub use pack::{PackError, PackFiles};
pub use record::{
    DeclaredOutputs, FlowPackRecord, IoContract, IoInput, IoOutput, RECORD_VERSION, Status, label,
};
