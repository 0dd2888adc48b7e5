//! The interface of a provider with a batch lane: it sends many questions in one batch, and collects the
//! answers later.
//!
//! The name of a question is the hash of its content, so each answer can be matched with its question.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::Value;

use super::error::ModelError;
use super::reply::{ModelIdentity, ModelReply};
use crate::contract::time::Timestamp;
use crate::facts::batch::BatchEnd;
use crate::facts::dialect::{Dialect, LearnedDialect};

/// A question as a line of a batch.
#[derive(Debug, Clone)]
pub struct BatchLine {
    /// What is sent, as it would be sent alone.
    pub body: Value,
    /// Who is asked.
    pub identity: ModelIdentity,
    /// How many places of the prompt were redacted.
    pub redacted: u64,
    /// Parameters of the call that are not sent.
    pub left_out: Vec<String>,
}

/// Whether the server has a batch that was about to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FoundBatch {
    /// The server's name for it.
    At(String),
    /// It never arrived.
    Nowhere,
    /// A batch that is not done may be it.
    Perhaps,
}

/// Whom the questions of a batch were for, and how long ago they took their form.
#[derive(Debug, Clone, Copy)]
pub struct AskedModel<'a> {
    pub model: &'a str,
    pub ago: Duration,
    /// What was known of the model before the first answer of the batch was read.
    pub known: &'a Dialect,
}

/// How far the server is with a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BatchLook {
    /// `None`: it is under way.
    pub end: Option<BatchEnd>,
    /// What the server says about it as a whole.
    pub message: String,
}

/// What became of one question.
#[derive(Debug, Clone)]
pub enum BatchAnswer {
    Reply(Box<ModelReply>),
    /// The server refused a part of it that the next question does not have.
    Otherwise(String),
    /// The server refused it; asked alone, it says how it wants the question.
    Refused(String),
    /// It was not asked, or the server failed: it may be asked again.
    Again,
}

/// The batch lane of a provider.
pub trait BatchApi: Send + Sync {
    /// A question as a line of a file of questions.
    fn question_line(&self, name: &str, body: &Value) -> Value;

    /// The name of the question and the answer, from a line of a file of answers; `None` for any other line.
    /// Parameters that the model refused are left out of later questions.
    fn answer_line(&self, asked: AskedModel<'_>, line: &Value) -> Option<(String, BatchAnswer)>;

    /// The learned dialect of a model: which parameters it refuses or renames.
    fn dialect(&self, model: &str) -> LearnedDialect;

    /// Sends a batch; returns the server's name for it.
    fn submit(&self, tag: &str, lines: &[(String, Value)]) -> Result<String, ModelError>;

    /// Looks for a batch that was prepared at `since` with these names of questions.
    fn find(
        &self,
        tag: &str,
        names: &BTreeSet<String>,
        since: Timestamp,
    ) -> Result<FoundBatch, ModelError>;

    fn look(&self, id: &str) -> Result<BatchLook, ModelError>;

    /// The answers of a batch that ended, each with the name of its question.
    fn answers(
        &self,
        id: &str,
        asked: AskedModel<'_>,
    ) -> Result<Vec<(String, BatchAnswer)>, ModelError>;

    fn cancel(&self, id: &str) -> Result<(), ModelError>;

    /// Removes from the server what a collected batch left there, where it can be removed.
    fn clear(&self, id: &str);
}
