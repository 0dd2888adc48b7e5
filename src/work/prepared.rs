//! An attempt whose input, pack and parameters are known.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};

use crate::contract::hash::Digest;
use crate::contract::privacy::Confinement;
use crate::contract::request::Request;
use crate::export::item::{ContextIdentity, SummaryIdentity, summary_id};
use crate::facts::attempt::InputFacts;
use crate::flow::PythonSettings;
use crate::flow::context::Surroundings;
use crate::model::{Provider, SourceText};
use crate::os::Clock;
use crate::state::event::SummaryPointer;
use crate::upstream::Resolved;

use super::isolation::pack::ReadyPack;
use super::isolation::processes::Isolation;
use super::unquoted::without_words_of;

/// Everything that is known of an attempt before a model is asked.
pub(crate) struct Prepared {
    pub request: Request,
    /// The input, without its texts.
    pub resolved: Resolved,
    /// The texts of its sources, in their order.
    pub texts: Vec<SourceText>,
    pub input: InputFacts,
    /// The context that the flow gets beside the texts.
    pub(crate) surroundings: Surroundings,
    /// What of that makes work another work.
    pub(crate) context: ContextIdentity,
    /// What keeps the texts on this machine, and the summary unpublished.
    pub(crate) data: Confinement,
    pub pack: ReadyPack,
    /// Where its flow runs, if not on a thread of this process.
    pub(crate) processes: Isolation,
    /// Whether its calls are traced, those to the embedded summarizer included.
    pub(crate) is_traced: bool,
    pub prompt_hash: Digest,
    pub run_id: String,
    /// Parameters that the configuration sets for the flow.
    pub configured: Map<String, Value>,
    /// Those with the parameters of the request, which win.
    pub params: Map<String, Value>,
    pub provider: Arc<dyn Provider>,
    pub python: Option<PythonSettings>,
    pub(crate) repair_turns: u32,
    pub clock: Arc<dyn Clock>,
    /// The name of the item, if the first provider answers.
    pub pointer: SummaryPointer,
    pub timeout: Duration,
}

impl Prepared {
    /// What somebody else said, without the words of the texts and parameters: it is kept for ever.
    pub(super) fn unquoted(&self, said: &str) -> String {
        let params: Vec<String> = self.request.work.params.values().map(Value::to_string).collect();
        let texts = self.texts.iter().map(|one| one.text.as_str());
        let texts: Vec<&str> = texts.chain(params.iter().map(String::as_str)).collect();
        without_words_of(said, &texts)
    }

    pub(super) fn summary_id(&self, provider: &str, model: &str) -> String {
        summary_id(&SummaryIdentity {
            stream: self.resolved.stream,
            kind: self.request.work.kind,
            subkind: &self.request.work.subkind,
            primary_ids: &self.resolved.primary_ids(),
            source_text_hash: &self.resolved.source_text_hash,
            prompt_hash: &self.prompt_hash.hex(),
            provider,
            model,
            context: self.context,
        })
    }
}
