//! What a model at a server was found to refuse, and how many tokens it holds.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

/// How long a dialect is spoken. After that the next question finds out again what the model accepts.
pub(crate) const KEPT_FOR_MS: i64 = 7 * 24 * 3_600_000;

/// The dialect of one model.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dialect {
    /// Parameters that are not sent.
    pub left_out: BTreeSet<String>,
    /// Parameters that are sent under another name.
    pub renamed: BTreeMap<String, String>,
    /// The types of a request for JSON that were refused.
    pub refused_json: BTreeSet<String>,
    /// Whether system texts go into the first turn of the user.
    pub no_system: bool,
    /// Most tokens of an answer.
    pub answer_max: Option<u32>,
    /// The context as the server told it in a refusal, or as far as it reads.
    pub context: Option<u64>,
}

/// A refusal or a cut prompt changed the dialect of a model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LearnedDialect {
    /// Name of the provider in the configuration.
    pub provider: String,
    /// The address of its server, without secrets.
    pub server: String,
    pub model: String,
    pub dialect: Dialect,
}
