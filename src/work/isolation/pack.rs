//! A pack that is loaded here, or in the processes that run flows.

use std::borrow::Cow;
use std::ops::Deref;
use std::sync::Arc;

use crate::contract::hash::{Digest, sha256};
use crate::flow::{LoadedPack, PackFacts};
use crate::registry::{FlowPackRecord, PackFiles};

use super::message::{self, BadMessage, PackContents};

/// The bytes of a pack as they go to a process.
#[derive(Debug)]
pub(crate) struct PackParcel {
    /// The hash of the bytes: its name among the packs of a process.
    pub(super) name: Digest,
    pub(super) bytes: Vec<u8>,
}

impl PackParcel {
    pub(super) fn of(record: &FlowPackRecord, files: &PackFiles) -> Result<PackParcel, BadMessage> {
        let mut bytes = Vec::new();
        let (record, files) = (Cow::Borrowed(record), Cow::Borrowed(files));
        message::write(&mut bytes, &PackContents { record, files })?;
        Ok(PackParcel { name: sha256(&bytes), bytes })
    }
}

/// A pack that requests can use.
#[derive(Debug, Clone)]
pub(crate) enum ReadyPack {
    /// Its flow runs on a thread of this process.
    Here(Arc<LoadedPack>),
    /// Its flow runs in another process, and nothing of it is compiled here.
    Apart { facts: Arc<PackFacts>, parcel: Arc<PackParcel> },
}

impl Deref for ReadyPack {
    type Target = PackFacts;

    fn deref(&self) -> &PackFacts {
        match self {
            ReadyPack::Here(pack) => pack.facts(),
            ReadyPack::Apart { facts, .. } => facts,
        }
    }
}

/// An error with its cause.
pub(in crate::work) fn with_source(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}
