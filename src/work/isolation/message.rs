//! What goes over the pipes between the service and a process that runs flows.
//!
//! Contract: CBOR, so that numbers keep their bits. Both ends are the same executable, so no version is needed.
//! An order is one or more values in a row: what is done, the pack where the process does not have it yet, and
//! what belongs to the order.

use std::borrow::Cow;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::contract::hash::Digest;
use crate::flow::context::Surroundings;
use crate::flow::{FlowError, FlowOutcome, PackFacts, PythonSettings};
use crate::model::{
    CallSettings, KnownModel, Message, ModelError, ModelReply, Provider, SourceText, Speakers,
};
use crate::registry::{FlowPackRecord, PackFiles};

/// Deepest nesting of a value. JSON of a model is at most 128 deep; the messages add a few.
const DEPTH_MAX: usize = 512;

/// A message that cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[error("exchange a message with a worker process: {0}")]
pub(in crate::work) struct BadMessage(String);

pub(in crate::work) fn write(to: &mut Vec<u8>, value: &impl Serialize) -> Result<(), BadMessage> {
    ciborium::into_writer(value, to).map_err(|error| BadMessage(error.to_string()))
}

/// Reads the next value of a row.
pub(in crate::work) fn read<T: DeserializeOwned>(from: &mut &[u8]) -> Result<T, BadMessage> {
    let read = ciborium::de::from_reader_with_recursion_limit(from, DEPTH_MAX);
    read.map_err(|error| BadMessage(error.to_string()))
}

/// The beginning of an order.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(in crate::work) struct Order {
    pub task: Task,
    /// The pack it is about.
    pub pack: Digest,
    /// Whether the pack follows.
    pub sends_pack: bool,
    /// Whether every other pack is dropped first.
    pub drops_packs: bool,
    /// Most seconds of the processor for this order.
    pub cpu_seconds: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::work) enum Task {
    /// Load the pack and say what it is.
    Load,
    /// Run its flow: a [`FlowJob`] and the answers so far follow.
    Run,
    /// Run its aggregation nodes: a [`FlowJob`], the answers so far and what they read of each line follow.
    Aggregate,
    /// Answer a question with the embedded summarizer: an [`EmbeddedQuestion`] follows.
    Read,
}

/// A pack as it travels.
#[derive(Debug, Serialize, Deserialize)]
pub(in crate::work) struct PackContents<'a> {
    pub record: Cow<'a, FlowPackRecord>,
    pub files: Cow<'a, PackFiles>,
}

/// Everything a flow runs with, beside its pack and the answers.
#[derive(Debug, Serialize, Deserialize)]
pub(in crate::work) struct FlowJob<'a> {
    /// Inputs that are given beside the texts.
    pub inputs: Cow<'a, Map<String, Value>>,
    pub params: Cow<'a, Map<String, Value>>,
    pub texts: Cow<'a, [SourceText]>,
    pub surroundings: Option<Cow<'a, Surroundings>>,
    pub known_ids: Cow<'a, [String]>,
    pub timeout: Duration,
    pub repair_turns: u32,
    pub concurrency: usize,
    pub python: Option<PythonSettings>,
    pub provider: ProviderFacts,
    /// Whether the embedded summarizer answers, in the process of the flow.
    pub is_embedded: bool,
    /// Whether the outputs of the flow are wanted beside its summary, and the texts of the answers.
    pub keeps_outputs: bool,
    /// Whether the conversations are wanted too.
    pub keeps_prompts: bool,
}

/// What a flow asks of its provider beside answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(in crate::work) struct ProviderFacts {
    pub model: KnownModel,
    pub is_free: bool,
    /// Whether questions must bring their texts.
    pub reads_texts: bool,
}

impl ProviderFacts {
    pub(crate) fn of(provider: &dyn Provider) -> ProviderFacts {
        ProviderFacts {
            model: KnownModel::of(provider),
            is_free: provider.is_free(),
            reads_texts: provider.reads_texts(),
        }
    }
}

/// One question among those of a flow: what is asked, and how often the run has asked the same.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(in crate::work) struct QuestionName {
    pub of: String,
    pub time: u32,
}

/// A question that the flow came to and that has no answer yet.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(in crate::work) struct OpenQuestion {
    pub name: QuestionName,
    /// The name under which the answer is kept.
    pub kept_as: String,
    pub node: String,
    pub messages: Vec<Message>,
    pub schema: Option<QuestionSchema>,
    pub settings: CallSettings,
    pub timeout: Duration,
    pub apart: bool,
    /// What the embedded summarizer reads, where it may be asked.
    pub texts: Option<ReadTexts>,
}

/// The schema of a question.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(in crate::work) enum QuestionSchema {
    /// One of the pack, by its place in [`PackFacts::schemas`].
    OfPack(usize),
    Other(Value),
}

/// What the embedded summarizer reads.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(in crate::work) struct ReadTexts {
    pub inputs: Map<String, Value>,
    pub sources: Vec<SourceText>,
    pub speakers: Option<Speakers>,
}

/// An answer, and what is known of the provider after it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(in crate::work) struct Answered {
    pub name: QuestionName,
    pub how: HowAnswered,
    pub provider: ProviderFacts,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(in crate::work) enum HowAnswered {
    /// An earlier attempt paid for it.
    Kept(ModelReply),
    /// An earlier attempt paid for it, and it cannot be read.
    Unreadable(String),
    Fresh(ModelReply),
    Failed(ModelError),
}

/// A question to the embedded summarizer about texts of a flow.
#[derive(Debug, Serialize, Deserialize)]
pub(in crate::work) struct EmbeddedQuestion<'a> {
    pub node: Cow<'a, str>,
    pub schema: Option<Cow<'a, Value>>,
    pub settings: Cow<'a, CallSettings>,
    pub apart: bool,
    pub inputs: Cow<'a, Map<String, Value>>,
    pub sources: Cow<'a, [SourceText]>,
    pub speakers: Option<Cow<'a, Speakers>>,
}

/// What a process answers.
#[derive(Debug, Serialize, Deserialize)]
pub(in crate::work) struct Reply {
    pub said: Said,
    /// Whether the process has grown so much that another one should take its place.
    pub retires: bool,
}

#[derive(Debug, Serialize, Deserialize)]
pub(in crate::work) enum Said {
    Loaded(Box<PackFacts>),
    /// The pack cannot be used.
    NotLoaded(String),
    Made(Box<FlowOutcome>),
    /// The metrics of the aggregation nodes.
    Aggregated(Map<String, Value>),
    Failed(FlowError),
    /// The flow continues when these questions are answered.
    Asks(Vec<OpenQuestion>),
    Read(Box<Result<ModelReply, ModelError>>),
}
